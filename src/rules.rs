//! Rule files: one a cause, with the evidence for and against it, its remedy, its experiments and its cases.
//!
//! A rule file is the documentation of its cause. The built-in ones lie in `rules/` and are part of the program.

mod cases;
mod condition;
mod file;
mod says;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::features::Row;

pub use cases::{CaseFailure, Support};
pub use condition::{Condition, ConditionError};
pub use file::{Basis, Case, Evidence, Expect, Experiment, Outlook, Remedy, Rule, Target};

/// The cause files that are part of the program, in order of name.
const BUILT_IN: [(&str, &str); 9] = [
    (
        "attention-logit",
        include_str!("../rules/attention-logit.toml"),
    ),
    ("bad-data", include_str!("../rules/bad-data.toml")),
    ("bf16", include_str!("../rules/bf16.toml")),
    ("config-change", include_str!("../rules/config-change.toml")),
    ("hardware", include_str!("../rules/hardware.toml")),
    ("learning-rate", include_str!("../rules/learning-rate.toml")),
    (
        "optimizer-state",
        include_str!("../rules/optimizer-state.toml"),
    ),
    ("output-logit", include_str!("../rules/output-logit.toml")),
    ("resume-fault", include_str!("../rules/resume-fault.toml")),
];

/// The causes that reports always list, in the order of the schema.
pub const CAUSES: [&str; 9] = [
    "learning-rate",
    "bf16",
    "attention-logit",
    "bad-data",
    "optimizer-state",
    "resume-fault",
    "hardware",
    "config-change",
    "output-logit",
];

/// Rule files could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// A file or folder could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not a rule.
    #[error("{path}: {what}")]
    Form {
        /// The path.
        path: String,
        /// What is wrong, with the place shown.
        what: String,
    },
    /// A folder has no rule.
    #[error("{path}: no rule file (*.toml) in this folder")]
    NoRules {
        /// The path.
        path: PathBuf,
    },
}

/// All rules in force.
#[derive(Debug)]
pub struct RuleSet {
    rules: BTreeMap<String, Rule>,
}

/// What one piece of evidence says of an incident.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The cause it speaks of.
    pub cause: String,
    /// Its id within the rule.
    pub id: String,
    /// Whether it holds; `None` if a signal it needs was not logged.
    pub holds: Option<bool>,
    /// Likelihood ratio that applies: that of the answer, 1 if unknown.
    pub ratio: f64,
    /// Likelihood ratio if it holds.
    pub ratio_if: f64,
    /// Likelihood ratio if it does not.
    pub ratio_if_not: f64,
    /// Group within which ratios are capped together.
    pub group: String,
    /// The sentence, numbers filled in.
    pub says: String,
    /// What the ratio rests on.
    pub basis: Basis,
    /// In how many runs it was counted, if it was.
    pub runs: Option<u32>,
    /// Where the ratio comes from.
    pub source: String,
    /// Features that the condition reads.
    pub features: Vec<String>,
}

impl RuleSet {
    /// The rules that are part of the program.
    pub fn built_in() -> Result<Self, RuleError> {
        let mut set = Self {
            rules: BTreeMap::new(),
        };
        for (cause, text) in BUILT_IN {
            set.add(cause, text)?;
        }
        Ok(set)
    }

    /// The built-in rules with those of a folder added; a file of the same name replaces the built-in one.
    pub fn with_folder(folder: &Path) -> Result<Self, RuleError> {
        let mut set = Self::built_in()?;
        for (stem, path) in rule_files(folder)? {
            let text = std::fs::read_to_string(&path).map_err(|source| RuleError::Io {
                path: path.clone(),
                source,
            })?;
            set.add_named(&stem, &path.display().to_string(), &text)?;
        }
        Ok(set)
    }

    fn add(&mut self, cause: &str, text: &str) -> Result<(), RuleError> {
        self.add_named(cause, &format!("rules/{cause}.toml"), text)
    }

    fn add_named(&mut self, stem: &str, path: &str, text: &str) -> Result<(), RuleError> {
        let rule = parse_named(stem, path, text)?;
        self.rules.insert(rule.cause.clone(), rule);
        Ok(())
    }

    /// The rules in order of cause.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.values()
    }

    /// The rule of a cause.
    pub fn get(&self, cause: &str) -> Option<&Rule> {
        self.rules.get(cause)
    }

    /// The text of a built-in rule file.
    pub fn built_in_text(cause: &str) -> Option<&'static str> {
        let mut files = BUILT_IN.iter();
        files.find(|(c, _)| *c == cause).map(|(_, text)| *text)
    }

    /// Evaluates every condition on a row of features, in order of cause and file.
    pub fn evaluate(&self, row: &Row) -> Vec<Finding> {
        let rows = std::slice::from_ref(row);
        self.evaluate_all(rows).into_iter().flatten().collect()
    }

    /// Evaluates every condition on each row of features: one query for all of them, much cheaper than one each.
    pub fn evaluate_all(&self, rows: &[Row]) -> Vec<Vec<Finding>> {
        let all: Vec<(&Rule, &Evidence)> = self
            .iter()
            .flat_map(|rule| rule.evidence.iter().map(move |e| (rule, e)))
            .collect();
        let conditions: Vec<&Condition> = all.iter().map(|(_, e)| &e.when).collect();
        let answers = condition::evaluate(&conditions, rows);
        let findings = |(row, answers): (&Row, Vec<Option<bool>>)| {
            let told = all.iter().zip(answers);
            told.map(|((rule, e), holds)| finding(rule, e, holds, row))
                .collect()
        };
        rows.iter().zip(answers).map(findings).collect()
    }
}

fn finding(rule: &Rule, e: &Evidence, holds: Option<bool>, row: &Row) -> Finding {
    Finding {
        cause: rule.cause.clone(),
        id: e.id.clone(),
        holds,
        ratio: holds.map_or(1.0, |h| if h { e.ratio } else { e.ratio_if_not }),
        ratio_if: e.ratio,
        ratio_if_not: e.ratio_if_not,
        group: e.group.clone(),
        says: says::fill(&e.says, row),
        basis: e.basis,
        runs: e.runs,
        source: e.source.clone(),
        features: e.when.features().to_vec(),
    }
}

/// Reads and checks one rule file.
pub fn parse_file(path: &Path) -> Result<Rule, RuleError> {
    let text = std::fs::read_to_string(path).map_err(|source| RuleError::Io {
        path: path.to_owned(),
        source,
    })?;
    let stem = path
        .file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default();
    parse_named(&stem, &path.display().to_string(), &text)
}

fn parse_named(stem: &str, path: &str, text: &str) -> Result<Rule, RuleError> {
    Rule::parse(stem, text).map_err(|what| RuleError::Form {
        path: path.to_owned(),
        what,
    })
}

fn rule_files(folder: &Path) -> Result<BTreeMap<String, PathBuf>, RuleError> {
    let failed = |source| RuleError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == "toml") {
            let stem = path
                .file_stem()
                .map(|s| s.to_string_lossy().into_owned())
                .unwrap_or_default();
            out.insert(stem, path);
        }
    }
    if out.is_empty() {
        Err(RuleError::NoRules {
            path: folder.to_owned(),
        })
    } else {
        Ok(out)
    }
}

/// Passive evidence of a group moves the odds by no more than this, an experiment's result by no more than that
/// (rules/SOURCES.md).
const PASSIVE_CAP: (f64, f64) = (0.1, 12.0);
const EXPERIMENT_CAP: (f64, f64) = (0.02, 50.0);
/// The group of results of experiments.
pub const EXPERIMENT_GROUP: &str = "experiment";

/// The least and the most by which evidence of a group moves the odds.
pub fn caps(group: &str) -> (f64, f64) {
    if group == EXPERIMENT_GROUP {
        EXPERIMENT_CAP
    } else {
        PASSIVE_CAP
    }
}

/// The kinds of experiment, cheapest first.
pub(crate) fn experiment_kinds() -> &'static [&'static str] {
    &file::KINDS
}

/// Sum of log ratios, capped group by group.
pub(crate) fn capped_log<'a>(ratios: impl Iterator<Item = (&'a str, f64)>) -> f64 {
    // A handful of groups: a list is faster than a map, and this is asked for every signal that might have decided.
    let mut groups: Vec<(&str, f64)> = Vec::new();
    for (group, ratio) in ratios.filter(|(_, ratio)| ratio.to_bits() != 1.0_f64.to_bits()) {
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, sum)) => *sum += ratio.ln(),
            None => groups.push((group, ratio.ln())),
        }
    }
    groups.sort_unstable_by_key(|(name, _)| *name);
    let capped = |(group, sum): (&str, f64)| {
        let (low, high) = caps(group);
        sum.clamp(low.ln(), high.ln())
    };
    groups.into_iter().map(capped).sum()
}
