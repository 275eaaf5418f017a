//! Runs whose cause is known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::detect::{Incident, detect};
use crate::features::{History, Row, measure};
use crate::ingest::{self, IngestError, Options};
use crate::rules::{CAUSES, Finding, RuleSet};
use crate::run::Run;
use crate::signal::Aliases;

/// A labelled run could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// The label could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The label is not in the form.
    #[error("{path}: {what}")]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] IngestError),
}

/// A run with the cause of its incident.
#[derive(Debug)]
pub struct Labelled {
    /// The folder.
    pub path: PathBuf,
    /// The cause; `None` for a run without a fault, whose incidents have none of the causes.
    pub cause: Option<String>,
    /// Other causes that are as right.
    pub also: Vec<String>,
    /// The configuration: runs of one family are never on both sides of a fit.
    pub family: String,
    /// Features of the incident that the label is about.
    pub features: Row,
}

/// `truth.json`: what a labelled folder says of its run. Other keys are let be.
#[derive(Deserialize)]
struct Truth {
    label: String,
    #[serde(default)]
    also_acceptable: Vec<String>,
    #[serde(default)]
    family: Option<String>,
    #[serde(default)]
    spike: Option<Spike>,
    #[serde(default)]
    config: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Spike {
    onset_step: u64,
    #[serde(default)]
    peak_step: Option<u64>,
}

/// Configuration keys that make a family where none is named: the model, the data and the schedule.
const FAMILY: [&str; 8] = [
    "corpus", "n_layer", "d", "ctx", "batch", "sched", "lr", "beta2",
];
/// An incident this many steps from where the label says is another one.
const SLACK: u64 = 25;

impl Labelled {
    /// Reads a folder that holds a log and its `truth.json`; `None` where it has no incident that the label is about.
    pub fn read(folder: &Path, aliases: &Aliases) -> Result<Option<Self>, LabelError> {
        let path = folder.join("truth.json");
        let text = std::fs::read_to_string(&path).map_err(|source| LabelError::Io {
            path: path.clone(),
            source,
        })?;
        let form = |what: String| LabelError::Form {
            path: path.clone(),
            what,
        };
        let truth: Truth = serde_json::from_str(&text).map_err(|e| form(e.to_string()))?;
        let cause = cause_of(&truth.label).map_err(form)?;
        let run = ingest::read(&logs(folder)?, aliases, &Options::default(), &mut |_, _| {})?;
        let found = detect(&run);
        let Some(n) = subject(&run, &found, truth.spike.as_ref()) else {
            return Ok(None);
        };
        let history = History::new(&run, &found);
        Ok(Some(Self {
            path: folder.to_owned(),
            cause,
            also: truth.also_acceptable.iter().map(|c| dashed(c)).collect(),
            family: truth.family.unwrap_or_else(|| family(&truth.config)),
            features: measure(&run, &found[n], &found, &history, &[]),
        }))
    }

    /// Whether a verdict names what the label says.
    pub fn is(&self, cause: &str) -> bool {
        self.cause.as_deref() == Some(cause) || self.also.iter().any(|c| c == cause)
    }

    /// What the rules say of it.
    pub fn findings(&self, rules: &RuleSet) -> Vec<Finding> {
        rules.evaluate(&self.features)
    }
}

fn dashed(label: &str) -> String {
    label.trim().to_lowercase().replace('_', "-")
}

/// The cause that a label names. A fault that shows nothing, or none at all, is no cause.
fn cause_of(label: &str) -> Result<Option<String>, String> {
    const NONE: [&str; 4] = ["ok", "none", "healthy", "fault-no-spike"];
    let label = dashed(label);
    if NONE.contains(&label.as_str()) {
        return Ok(None);
    }
    if CAUSES.contains(&label.as_str()) {
        return Ok(Some(label));
    }
    Err(format!(
        "`label` is `{label}`, which is none of {}, ok",
        CAUSES.join(", ")
    ))
}

fn family(config: &BTreeMap<String, serde_json::Value>) -> String {
    let known = FAMILY
        .iter()
        .filter_map(|k| Some(format!("{k}={}", config.get(*k)?)));
    known.collect::<Vec<_>>().join(" ")
}

/// The files of a folder that are not its label or its list of checkpoints.
fn logs(folder: &Path) -> Result<Vec<PathBuf>, LabelError> {
    let failed = |source| LabelError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        if path.is_file() && name != "truth.json" && name != "checkpoints.txt" {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}

/// The incident that a label is about: the largest near where it says, or anywhere if it says nothing of where, in the
/// first attempt that has one. Later attempts are replays.
fn subject(run: &Run, found: &[Incident], spike: Option<&Spike>) -> Option<usize> {
    let near = |i: &Incident| {
        spike.is_none_or(|s| {
            let step = |row: usize| run.steps[row];
            let until = s.peak_step.unwrap_or(s.onset_step) + SLACK;
            let ends = step(i.peak_row.unwrap_or(i.onset_row));
            step(i.onset_row) <= until && ends + SLACK >= s.onset_step
        })
    };
    let fits = |i: &&Incident| i.signal == "loss" && near(i);
    let attempt = found.iter().find(fits)?.attempt;
    let of_interest = found
        .iter()
        .enumerate()
        .filter(|(_, i)| i.attempt == attempt && fits(i));
    let size = |i: &Incident| i.excess.unwrap_or(f64::INFINITY);
    of_interest
        .max_by(|a, b| size(a.1).total_cmp(&size(b.1)).then(b.0.cmp(&a.0)))
        .map(|(n, _)| n)
}
