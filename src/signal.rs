//! The quantities trainers log: one canonical name each, its unit, and the raw names it goes by.

use std::collections::HashMap;

use regex::Regex;
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

/// The ordered table that maps raw metric names to signals.
#[derive(Debug)]
pub struct Aliases {
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
        let table: Table = toml::from_str(text)?;
        let rules = table
            .rule
            .into_iter()
            .map(Rule::compile)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            drop: table
                .drop
                .iter()
                .map(|p| whole_name(p))
                .collect::<Result<_, _>>()?,
            eval: table.eval.as_deref().map(whole_name).transpose()?,
            eval_loss: table.eval_loss.as_deref().map(whole_name).transpose()?,
            rules,
        })
    }

    /// Puts the rules of `other` before the rules of this table.
    #[must_use]
    pub fn extended(mut self, other: Self) -> Self {
        let mut rules = other.rules;
        rules.append(&mut self.rules);
        self.rules = rules;
        self.drop.extend(other.drop);
        self
    }

    /// Says what a raw name means. Case and surrounding space do not matter; the `Train ` prefix of Composer's
    /// console and the `<run> - ` prefix of the W&B chart export are taken off first.
    pub fn meaning(&self, raw: &str) -> Meaning {
        let name = undecorated(raw.trim());
        if let Some((_, signal)) = COMMON.iter().find(|(alias, _)| *alias == name) {
            return Meaning::Signal {
                name: (*signal).to_owned(),
                scale: 1.0,
            };
        }
        if self.drop.iter().any(|r| r.is_match(name)) {
            return Meaning::Drop;
        }
        if self.eval_loss.as_ref().is_some_and(|r| r.is_match(name)) {
            return Meaning::Signal {
                name: "val_loss".to_owned(),
                scale: 1.0,
            };
        }
        if self.eval.as_ref().is_some_and(|r| r.is_match(name)) {
            return Meaning::Other;
        }
        self.rules
            .iter()
            .find_map(|r| r.meaning(name))
            .unwrap_or_else(|| canonical(name))
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
                .is_match(name)
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
        let found = self.names.captures(name)?;
        let index = found.iter().skip(1).flatten().next()?.as_str();
        Some(Meaning::Signal {
            name: format!("{}/{index}", self.signal),
            scale: self.scale,
        })
    }
}

fn whole_name(pattern: &str) -> Result<Regex, AliasError> {
    Regex::new(&format!("(?i)^(?:{pattern})$")).map_err(|source| AliasError::Pattern {
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
    fn a_users_rule_goes_first() {
        let mine = "[[rule]]\nsignal = \"loss\"\nnames = 'my_objective'\n";
        let table = Aliases::built_in().extended(Aliases::parse(mine).expect("valid"));
        assert_eq!(
            table.meaning("my_objective"),
            Meaning::Signal {
                name: "loss".into(),
                scale: 1.0
            }
        );
    }
}
