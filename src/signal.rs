//! The quantities trainers log: one canonical name each, its unit, and the raw names it goes by.

use std::collections::HashMap;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

/// A canonical quantity that a trainer may log.
#[derive(Debug, Clone, Copy)]
pub struct Signal {
    /// Canonical name: the column in `run.parquet`.
    pub name: &'static str,
    /// Unit of the stored value, as written into the Parquet field metadata.
    pub unit: &'static str,
    /// What the value means.
    pub about: &'static str,
    /// Whether the stored column holds whole numbers.
    pub whole: bool,
}

const fn real(name: &'static str, unit: &'static str, about: &'static str) -> Signal {
    Signal {
        name,
        unit,
        about,
        whole: false,
    }
}

const fn whole(name: &'static str, unit: &'static str, about: &'static str) -> Signal {
    Signal {
        name,
        unit,
        about,
        whole: true,
    }
}

/// Every canonical signal in the column order of `run.parquet`.
pub const SIGNALS: &[Signal] = &[
    whole(
        "time",
        "ms since 1970-01-01 UTC",
        "wall time of the row as logged",
    ),
    real(
        "loss",
        "nats per token unless the source says otherwise",
        "training loss",
    ),
    real("grad_norm", "1", "global gradient norm before clipping"),
    real("param_norm", "1", "global L2 norm of the parameters"),
    real(
        "max_attention_logit",
        "1",
        "largest attention logit of the step",
    ),
    real("learning_rate", "1", "learning rate of parameter group 0"),
    real("loss_scale", "1", "fp16 loss scale"),
    whole(
        "global_batch_size",
        "samples",
        "samples in one optimizer update",
    ),
    whole(
        "consumed_samples",
        "samples",
        "samples read since the start of the run, this row included",
    ),
    whole(
        "consumed_tokens",
        "tokens",
        "tokens read since the start of the run, this row included",
    ),
    real("epoch", "epochs", "position in epochs"),
    real("step_time", "s", "wall time of one step"),
    whole("skipped", "steps", "updates skipped in this row's interval"),
    whole(
        "nan",
        "steps",
        "skipped updates whose loss was not finite, in this row's interval",
    ),
    real("num_zeros", "1", "zero entries of the gradient"),
    real("update_norm", "1", "global L2 norm of the parameter update"),
    real("second_moment", "1", "mean of Adam's second moment"),
    real(
        "second_moment_max",
        "1",
        "largest entry of Adam's second moment",
    ),
    real("first_moment", "1", "norm of Adam's first moment"),
    real("max_rank_loss", "nats", "largest loss of any rank"),
    real("val_loss", "nats", "validation loss"),
    real("loss_ce", "nats", "cross-entropy part of the loss"),
    real("z_loss", "1", "z-loss term"),
    real("moe_aux_loss", "1", "load-balancing loss"),
    real("mtp_loss", "nats", "multi-token-prediction loss"),
    real("grad_norm_clipped", "1", "gradient norm after clipping"),
    real("logz", "1", "output-logit drift: log Z or the lm_head norm"),
    real("attention_entropy", "nats", "attention entropy"),
    real("activation_norm", "1", "norm of the last layer's output"),
    whole("skipped_samples", "samples", "samples left out so far"),
    whole(
        "skipped_cumulative",
        "steps",
        "updates skipped since the start",
    ),
    real(
        "tflops_per_device",
        "TFLOP/s",
        "model FLOP rate of one device",
    ),
    real(
        "tokens_per_second_per_device",
        "tokens/s",
        "token rate of one device",
    ),
    real("tokens_per_second", "tokens/s", "token rate of the job"),
    real("samples_per_second", "samples/s", "sample rate of the job"),
    real("mfu", "1 or %", "model FLOP utilisation as logged"),
    real("elapsed_seconds", "s", "seconds since the process started"),
];

/// Looks a canonical signal up by name.
pub fn signal(name: &str) -> Option<&'static Signal> {
    SIGNALS.iter().find(|s| s.name == name)
}

/// What a raw metric name stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// Not a metric of the run: leave it out.
    Drop,
    /// The step counter.
    Step,
    /// The attempt counter.
    Attempt,
    /// The number of steps averaged in a row.
    Interval,
    /// A canonical signal; raw values are multiplied by `scale`.
    Signal {
        /// Canonical name, `max_attention_logit/12` for one of a family.
        name: String,
        /// Factor from the raw to the stored unit.
        scale: f64,
    },
    /// A numeric metric without a canonical name, kept under its own.
    Other,
}

/// An alias table could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AliasError {
    /// Not TOML of the expected form.
    #[error("alias table: {0}")]
    Toml(#[from] toml::de::Error),
    /// A pattern is not a regular expression.
    #[error("alias table: pattern `{pattern}`: {source}")]
    Pattern {
        /// The pattern as written.
        pattern: String,
        /// Why it does not compile.
        source: regex::Error,
    },
    /// A rule is for a signal that does not exist.
    #[error(
        "alias table: there is no signal `{name}`; the columns of run.parquet are the signals, and `attempt` and `interval` may be named too"
    )]
    Signal {
        /// The signal as written.
        name: String,
    },
    /// A table beside the built-in one names the step.
    #[error(
        "alias table: the step cannot be given another name, since rows are found by it; rename the column to `step`"
    )]
    Step,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    drop: Vec<String>,
    eval: Option<String>,
    eval_loss: Option<String>,
    #[serde(default)]
    rule: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    signal: String,
    names: String,
    #[serde(default)]
    per: Option<String>,
    #[serde(default = "one")]
    scale: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Debug)]
struct Rule {
    signal: String,
    names: Regex,
    per: bool,
    scale: f64,
}

/// The ordered tables that map raw metric names to signals: those of the user before the built-in one.
#[derive(Debug)]
pub struct Aliases {
    mine: Vec<Names>,
    built_in: Names,
}

/// The names of one table.
#[derive(Debug)]
struct Names {
    drop: Vec<Regex>,
    eval: Option<Regex>,
    eval_loss: Option<Regex>,
    rules: Vec<Rule>,
}

const BUILT_IN: &str = include_str!("signal/aliases.toml");

/// Names so common that they are answered without a regular expression.
const COMMON: &[(&str, &str)] = &[
    ("loss", "loss"),
    ("lm loss", "loss"),
    ("grad_norm", "grad_norm"),
    ("grad norm", "grad_norm"),
    ("params norm", "param_norm"),
    ("param_norm", "param_norm"),
    ("lr", "learning_rate"),
    ("learning rate", "learning_rate"),
    ("learning_rate", "learning_rate"),
    ("max_attention_logit", "max_attention_logit"),
    ("loss scale", "loss_scale"),
    ("loss_scale", "loss_scale"),
    ("global batch size", "global_batch_size"),
    ("consumed samples", "consumed_samples"),
    ("consumed_samples", "consumed_samples"),
    ("update_norm", "update_norm"),
    ("epoch", "epoch"),
];

impl Aliases {
    /// The table that is built into the program.
    ///
    /// # Panics
    /// Never: a test parses the built-in table.
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN).unwrap_or_else(|e| unreachable!("built-in alias table: {e}"))
    }

    /// Parses a table written in the form of `src/signal/aliases.toml`.
    pub fn parse(text: &str) -> Result<Self, AliasError> {
        Ok(Self {
            mine: Vec::new(),
            built_in: Names::parse(text)?,
        })
    }

    /// Puts a table of the same form before this one: what it says of a name counts, whatever this one says.
    ///
    /// # Errors
    /// Where the table is not of that form, names a signal that does not exist, or gives the step another name.
    pub fn extended(mut self, text: &str) -> Result<Self, AliasError> {
        let names = Names::parse(text)?;
        if names.rules.iter().any(|r| r.signal == "step") {
            return Err(AliasError::Step);
        }
        self.mine.insert(0, names);
        Ok(self)
    }

    /// Says what a raw name means. Case and surrounding space do not matter; the `Train ` prefix of Composer's
    /// console and the `<run> - ` prefix of the W&B chart export are taken off first.
    pub fn meaning(&self, raw: &str) -> Meaning {
        let name = undecorated(raw.trim());
        if let Some(meaning) = self.mine.iter().find_map(|names| names.meaning(name)) {
            return meaning;
        }
        if let Some((_, signal)) = COMMON.iter().find(|(alias, _)| *alias == name) {
            return Meaning::Signal {
                name: (*signal).to_owned(),
                scale: 1.0,
            };
        }
        let meaning = self.built_in.meaning(name);
        meaning.unwrap_or_else(|| canonical(name))
    }
}

impl Names {
    fn parse(text: &str) -> Result<Self, AliasError> {
        let table: Table = toml::from_str(text)?;
        let drop = table.drop.iter().map(|p| whole_name(p));
        Ok(Self {
            drop: drop.collect::<Result<_, _>>()?,
            eval: table.eval.as_deref().map(whole_name).transpose()?,
            eval_loss: table.eval_loss.as_deref().map(whole_name).transpose()?,
            rules: table
                .rule
                .into_iter()
                .map(Rule::compile)
                .collect::<Result<_, _>>()?,
        })
    }

    /// What the table says of a name, if it says anything.
    fn meaning(&self, name: &str) -> Option<Meaning> {
        let is = |pattern: &Option<Regex>| {
            pattern
                .as_ref()
                .is_some_and(|r| r.is_match(name.as_bytes()))
        };
        if self.drop.iter().any(|r| r.is_match(name.as_bytes())) {
            return Some(Meaning::Drop);
        }
        if is(&self.eval_loss) {
            return Some(Meaning::Signal {
                name: "val_loss".to_owned(),
                scale: 1.0,
            });
        }
        if is(&self.eval) {
            return Some(Meaning::Other);
        }
        self.rules.iter().find_map(|r| r.meaning(name))
    }
}

/// A canonical name is its own alias, the members of a family (`grad_norm/embedding`) too.
fn canonical(name: &str) -> Meaning {
    let family = name.split('/').next().unwrap_or(name);
    match signal(family) {
        Some(_) => Meaning::Signal {
            name: name.to_owned(),
            scale: 1.0,
        },
        None => Meaning::Other,
    }
}

impl Rule {
    fn compile(raw: RawRule) -> Result<Self, AliasError> {
        let counter = matches!(raw.signal.as_str(), "step" | "attempt" | "interval");
        if !counter && signal(&raw.signal).is_none() {
            return Err(AliasError::Signal { name: raw.signal });
        }
        Ok(Self {
            names: whole_name(&raw.names)?,
            signal: raw.signal,
            per: raw.per.is_some(),
            scale: raw.scale,
        })
    }

    fn meaning(&self, name: &str) -> Option<Meaning> {
        if !self.per {
            return self
                .names
                .is_match(name.as_bytes())
                .then(|| match self.signal.as_str() {
                    "step" => Meaning::Step,
                    "attempt" => Meaning::Attempt,
                    "interval" => Meaning::Interval,
                    signal => Meaning::Signal {
                        name: signal.to_owned(),
                        scale: self.scale,
                    },
                });
        }
        let found = self.names.captures(name.as_bytes())?;
        let index = found.iter().skip(1).flatten().next()?.range();
        let index = name.get(index)?;
        Some(Meaning::Signal {
            name: format!("{}/{index}", self.signal),
            scale: self.scale,
        })
    }
}

fn whole_name(pattern: &str) -> Result<Regex, AliasError> {
    // Names are ASCII but for odd ones: tables of all the letters of Unicode would take most of the start of a program.
    let whole = RegexBuilder::new(&format!("^(?:{pattern})$"))
        .case_insensitive(true)
        .unicode(!pattern.is_ascii())
        .build();
    whole.map_err(|source| AliasError::Pattern {
        pattern: pattern.to_owned(),
        source,
    })
}

fn undecorated(name: &str) -> &str {
    let name = name.rsplit_once(" - ").map_or(name, |(_, metric)| metric);
    name.strip_prefix("Train ").unwrap_or(name).trim()
}

/// How good a name is for the training step, 0 the best; `None` if it names something else. W&B's own `_step`
/// counts log calls, so it is the last resort.
pub fn step_rank(name: &str) -> Option<u8> {
    const NAMES: [&str; 14] = [
        "step",
        "global_step",
        "train/global_step",
        "trainer/global_step",
        "iteration",
        "iter",
        "num_updates",
        "current_steps",
        "global_step/max_steps",
        "iteration_step",
        "time/batch",
        "globalstep",
        "steps",
        "_step",
    ];
    let at = NAMES.iter().position(|n| name.eq_ignore_ascii_case(n))?;
    u8::try_from(at).ok()
}

/// Remembers the meaning of each name, so that a name is resolved once.
#[derive(Debug)]
pub struct Resolver<'a> {
    aliases: &'a Aliases,
    seen: HashMap<String, Meaning>,
}

impl<'a> Resolver<'a> {
    /// A resolver over a table.
    pub fn new(aliases: &'a Aliases) -> Self {
        Self {
            aliases,
            seen: HashMap::new(),
        }
    }

    /// The meaning of a raw name.
    pub fn meaning(&mut self, raw: &str) -> Meaning {
        if let Some(m) = self.seen.get(raw) {
            return m.clone();
        }
        let meaning = self.aliases.meaning(raw);
        self.seen.insert(raw.to_owned(), meaning.clone());
        meaning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(raw: &str) -> String {
        match Aliases::built_in().meaning(raw) {
            Meaning::Signal { name, .. } => name,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn names_of_many_trainers() {
        assert_eq!(named("Train loss/train/total"), "loss");
        assert_eq!(named("my-run - train/loss"), "loss");
        assert_eq!(named("lm-loss-training/lm loss"), "loss");
        assert_eq!(named("optimizer/variance_l2"), "second_moment");
        assert_eq!(named("layer_logits/3"), "max_attention_logit/3");
        assert_eq!(named("l2_norm/grad/model.embed"), "grad_norm/model.embed");
        assert_eq!(named("eval_loss"), "val_loss");
        assert_eq!(named("eval_runtime"), "Other");
        assert_eq!(named("lm loss vs samples"), "Drop");
        assert_eq!(named("x - loss__MIN"), "Drop");
        assert_eq!(named("max_attention_logit/7"), "max_attention_logit/7");
        assert_eq!(named("Iteration"), "Step");
    }

    #[test]
    fn milliseconds_become_seconds() {
        let meaning = Aliases::built_in().meaning("elapsed time per iteration (ms)");
        assert_eq!(
            meaning,
            Meaning::Signal {
                name: "step_time".into(),
                scale: 0.001
            }
        );
    }

    #[test]
    fn a_users_table_goes_first_whatever_the_built_in_one_says() {
        let mine = "drop = ['loss']\neval = 'probe/.*'\neval_loss = 'dev_nll'\n\
                    [[rule]]\nsignal = \"loss\"\nnames = 'my_objective|eval_of_training|system/loss'\n\
                    [[rule]]\nsignal = \"step_time\"\nscale = 0.001\nnames = 'lr'\n\
                    [[rule]]\nsignal = \"grad_norm\"\nper = \"block\"\nnames = 'block_(\\d+)_grad'\n";
        let table = Aliases::built_in().extended(mine).expect("valid");
        let signal = |name: &str, scale| Meaning::Signal {
            name: name.to_owned(),
            scale,
        };
        for (raw, meaning) in [
            ("my_objective", signal("loss", 1.0)),
            ("eval_of_training", signal("loss", 1.0)),
            ("system/loss", signal("loss", 1.0)),
            ("loss", Meaning::Drop),
            ("probe/loss", Meaning::Other),
            ("dev_nll", signal("val_loss", 1.0)),
            ("lr", signal("step_time", 0.001)),
            ("block_7_grad", signal("grad_norm/7", 1.0)),
            ("train/loss", signal("loss", 1.0)),
        ] {
            assert_eq!(table.meaning(raw), meaning, "{raw}");
        }
    }

    #[test]
    fn a_users_table_that_says_nothing_that_can_be_done_is_refused() {
        let refused = |text: &str| match Aliases::built_in().extended(text) {
            Ok(_) => String::new(),
            Err(e) => e.to_string(),
        };
        assert!(refused("[[rule]]\nsignal = \"losss\"\nnames = 'x'\n").contains("`losss`"));
        assert!(refused("[[rule]]\nsignal = \"step\"\nnames = 'x'\n").contains("step"));
        assert!(refused("[[rule]]\nsignal = \"loss\"\nnames = '('\n").contains("`(`"));
        assert!(refused("rules = 1\n").contains("rules"));
    }
}
