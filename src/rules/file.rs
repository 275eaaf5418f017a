//! The form of a rule file.

use serde::Deserialize;

use crate::rules::condition::Condition;

/// A rule: everything that is known of one cause.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The cause, equal to the file's name.
    pub cause: String,
    /// One line.
    pub title: String,
    /// How far it is to be trusted: `experimental` or `stable`.
    pub status: String,
    /// Probability before any evidence, in the middle of a run.
    pub prior: f64,
    /// What happens, and how it shows.
    pub about: String,
    /// Papers, chronicles, issues.
    pub references: Vec<String>,
    /// What looks the same and is not.
    pub look_alikes: Vec<String>,
    /// What speaks for and against.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub remedy: Remedy,
    /// What each experiment would show if this is the cause.
    #[serde(rename = "experiment", default)]
    pub experiments: Vec<Experiment>,
    /// Small feature tables with the expected answer.
    #[serde(rename = "case", default)]
    pub cases: Vec<Case>,
}

/// A piece of evidence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Id, unique within the rule.
    pub id: String,
    /// SQL condition over features.
    pub when: Condition,
    /// Likelihood ratio if it is true.
    pub ratio: f64,
    /// Likelihood ratio if it is false.
    #[serde(default = "one")]
    pub ratio_if_not: f64,
    /// Ratios of a group are capped together.
    pub group: String,
    /// A sentence with `{feature}` placeholders.
    pub says: String,
    /// What the ratio rests on.
    pub basis: Basis,
    /// In how many runs it was counted, if it was.
    #[serde(default)]
    pub runs: Option<u32>,
    /// Where the ratio comes from.
    pub source: String,
}

/// What a ratio rests on (rules/README.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A cited source states it, or it follows from one.
    Published,
    /// It was counted in public curves.
    Measured,
    /// It was counted in labelled small runs.
    Fitted,
    /// It follows from what the cause is.
    Definition,
    /// None of these.
    Judgement,
}

impl Basis {
    /// All of them, the firmest first.
    pub const ALL: [Self; 5] = [
        Self::Published,
        Self::Measured,
        Self::Fitted,
        Self::Definition,
        Self::Judgement,
    ];

    /// The name in rule files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Measured => "measured",
            Self::Fitted => "fitted",
            Self::Definition => "definition",
            Self::Judgement => "judgement",
        }
    }
}

/// What to do about a cause.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// What the rollback must reach before.
    pub before: Target,
    /// Fewest steps between checkpoint and that point.
    #[serde(default)]
    pub margin_steps: u64,
    /// Memories of Adam, 1/(1−β₂), between checkpoint and that point.
    #[serde(default)]
    pub margin_memories: f64,
    /// Whether leaving batches out helps.
    pub skip: bool,
    /// What to change, in a sentence.
    pub change: String,
}

/// What a rollback must reach before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The onset.
    Onset,
    /// The rise of the learning rate that the onset follows.
    LrRise,
    /// The start of the growth of the attention logits.
    LogitGrowth,
    /// The restart that the onset follows: its checkpoint is suspect.
    Restart,
}

/// What an experiment would show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Which experiment.
    pub kind: String,
    /// What this cause predicts.
    pub predicts: Outlook,
    /// What to look at.
    #[serde(default)]
    pub note: String,
}

/// A predicted outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlook {
    /// The incident comes again at the same step.
    Recurs,
    /// It comes later or smaller.
    Shifted,
    /// It does not come.
    Gone,
    /// A forward pass flags sequences of the batches.
    Flagged,
    /// A forward pass finds the batches ordinary.
    Ordinary,
}

impl Outlook {
    /// A verb phrase for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Recurs => "it comes again",
            Self::Shifted => "it comes later or smaller",
            Self::Gone => "it does not come",
            Self::Flagged => "some sequences stand out",
            Self::Ordinary => "the batches look ordinary",
        }
    }
}

/// A small feature table with the expected answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it stands for.
    pub name: String,
    /// Features that are known.
    #[serde(default)]
    pub given: toml::Table,
    /// The answer.
    pub expect: Expect,
}

/// The answer that a case expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// The evidence multiplies the odds of this cause by at least 3.
    Supported,
    /// It divides them by at least 3.
    Refuted,
    /// Neither.
    Undecided,
    /// Another cause looks like this: it must not be supported.
    LookAlike,
}

fn one() -> f64 {
    1.0
}

impl Rule {
    /// Parses and checks a rule. The text of an error shows the place.
    pub fn parse(stem: &str, text: &str) -> Result<Self, String> {
        let rule: Self = toml::from_str(text).map_err(|e| explained(&e.to_string()))?;
        if rule.cause != stem {
            return Err(format!(
                "`cause` is `{}`, but the file is named `{stem}`: they must be equal",
                rule.cause
            ));
        }
        if !(rule.prior > 0.0 && rule.prior < 1.0) {
            return Err(format!(
                "`prior` is {}, but must lie between 0 and 1",
                rule.prior
            ));
        }
        for (i, e) in rule.evidence.iter().enumerate() {
            e.check()?;
            if rule.evidence[..i].iter().any(|other| other.id == e.id) {
                return Err(format!("evidence `{}` is there twice", e.id));
            }
        }
        if let Some(x) = rule
            .experiments
            .iter()
            .find(|x| !KINDS.contains(&x.kind.as_str()))
        {
            return Err(format!(
                "experiment `{}` is not one of {}",
                x.kind,
                KINDS.join(", ")
            ));
        }
        Ok(rule)
    }
}

/// An error of the form; one that leaves the reader without the words to write gets them.
fn explained(error: &str) -> String {
    if error.contains("missing field `basis`") {
        let names = Basis::ALL.map(Basis::name).join(", ");
        format!("{error}`basis` says what the ratio rests on, one of {names}: see rules/README.md")
    } else {
        error.to_owned()
    }
}

/// The experiments, cheapest first (rules/SOURCES.md).
pub(crate) const KINDS: [&str; 10] = [
    "forward-only",
    "same",
    "skip",
    "other-seed",
    "earlier-checkpoint",
    "lower-lr",
    "fp32-attention",
    "optimizer-reset",
    "other-nodes",
    "sham",
];

impl Evidence {
    fn check(&self) -> Result<(), String> {
        let good = |r: f64| r.is_finite() && r > 0.0;
        if !good(self.ratio) || !good(self.ratio_if_not) {
            return Err(format!(
                "evidence `{}`: a likelihood ratio must be above 0",
                self.id
            ));
        }
        if self.source.trim().is_empty() {
            return Err(format!(
                "evidence `{}`: `source` is empty: say where the ratio comes from",
                self.id
            ));
        }
        if self.runs == Some(0) || self.basis == Basis::Fitted && self.runs.is_none() {
            return Err(format!(
                "evidence `{}`: `runs` must say in how many runs it was counted (`basis` is \"{}\")",
                self.id,
                self.basis.name()
            ));
        }
        crate::rules::says::check(&self.says).map_err(|e| format!("evidence `{}`: {e}", self.id))
    }
}
