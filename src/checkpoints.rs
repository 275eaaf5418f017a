//! Which checkpoints exist, in the source's own numbers: from the log's events, from a folder, a list, or a rule.
//!
//! A checkpoint is numbered after the updates done, whatever the base of the step counter is. Nearly all layouts name
//! it so; the names of levanter, `MaxText` and `NeMo` 2 are one lower, since they tell the last step counted from 0.

mod composer;
mod deepspeed;
mod folder;
mod given;
mod hf;
mod layout;
mod levanter;
mod lightning;
mod maxtext;
mod megatron;
mod nanotron;
mod olmo;
mod retention;
mod siblings;
mod torchtitan;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;

use crate::run::{EventKind, Run};

pub use given::{Given, GivenError};
pub use retention::{Retention, gone_at};

/// A checkpoint that can be gone back to, unless it is torn. What only a scanned folder tells is nothing elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Updates done when it was written.
    pub step: u64,
    /// Where it is, if that is known.
    pub path: Option<String>,
    /// The layout that it has, such as `megatron` or `hf-trainer`.
    pub layout: Option<&'static str>,
    /// What is missing, if it cannot be loaded.
    pub torn: Option<String>,
    /// Whether the optimizer state is in it, by its files or by what the layout always writes.
    pub optimizer: Option<bool>,
    /// Whether it tells where the data were, by its files or by what the layout always writes.
    pub data_position: Option<bool>,
    /// Bytes of its files.
    pub bytes: Option<u64>,
    /// When the newest of its files was written.
    pub modified: Option<Timestamp>,
}

/// Where the list of checkpoints comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `--checkpoint-steps`.
    Listed,
    /// `--checkpoint-every`.
    Spaced,
    /// `--checkpoints`.
    Scanned,
    /// Save lines of the log.
    Logged,
    /// Nothing tells of any.
    Unknown,
}

/// The checkpoints, in order of step.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// Checkpoints in order of step, torn ones included; the whole ones first where a step has several.
    pub checkpoints: Vec<Checkpoint>,
    /// Where the list comes from.
    pub origin: Origin,
    /// Saves that the log began and did not finish.
    pub unfinished: Vec<u64>,
    /// What the user should know about the checkpoints, a sentence each.
    pub warnings: Vec<String>,
    /// The rule by which old checkpoints are deleted, if it is known.
    pub retention: Option<Retention>,
}

impl Checkpoint {
    /// A checkpoint of which only the step is known.
    pub fn at(step: u64) -> Self {
        Self {
            step,
            ..Self::default()
        }
    }
}

/// Takes the inventory: what the user gave, else what the log says was saved and not deleted.
pub fn inventory(run: &Run, given: &Given) -> Inventory {
    let mut out = match given {
        Given::Nothing => logged(run),
        Given::Steps(steps) => listed(steps.iter().copied(), Origin::Listed),
        Given::Every { every, keep } => {
            let mut out = listed(spaced(run, *every, *keep), Origin::Spaced);
            out.retention = keep.map(|keep| Retention {
                keep,
                every: *every,
            });
            out
        }
        Given::Folder(path) => scanned(run, path),
    };
    out.warnings.extend(retention::warning(&out));
    out
}

fn listed(steps: impl Iterator<Item = u64>, origin: Origin) -> Inventory {
    let mut checkpoints: Vec<Checkpoint> = steps.map(Checkpoint::at).collect();
    checkpoints.sort_by_key(|c| c.step);
    checkpoints.dedup();
    Inventory {
        checkpoints,
        origin,
        unfinished: Vec::new(),
        warnings: Vec::new(),
        retention: None,
    }
}

/// Checkpoints that are listed where only their spacing is told. Of more, every so-many-th is.
const MOST_SPACED: u64 = 200_000;

/// Multiples of `every` up to the last update of the log, the last `keep` of them.
fn spaced(run: &Run, every: u64, keep: Option<u64>) -> impl Iterator<Item = u64> {
    let last = run.steps.last().map_or(0, |s| run.updates_after(*s)) / every.max(1);
    let first = keep.map_or(1, |k| (last + 1).saturating_sub(k).max(1));
    let stride = (last + 1)
        .saturating_sub(first)
        .div_ceil(MOST_SPACED)
        .max(1);
    let stride = usize::try_from(stride).unwrap_or(usize::MAX);
    (first..=last).step_by(stride).map(move |n| n * every)
}

fn logged(run: &Run) -> Inventory {
    let mut saved: BTreeMap<u64, Option<String>> = BTreeMap::new();
    let mut started: Vec<u64> = Vec::new();
    let mut ended: BTreeSet<u64> = BTreeSet::new();
    for event in &run.events {
        let Some(step) = event.step else { continue };
        match event.kind {
            EventKind::SaveStarted => started.push(step),
            EventKind::Saved => {
                let path = event
                    .path
                    .clone()
                    .or_else(|| saved.get(&step).cloned().flatten());
                saved.insert(step, path);
                ended.insert(step);
            }
            EventKind::Deleted => {
                saved.remove(&step);
            }
            EventKind::Loaded => {
                saved.entry(step).or_insert_with(|| event.path.clone());
            }
            _ => {}
        }
    }
    let mut unfinished: Vec<u64> = started
        .into_iter()
        .filter(|s| !saved.contains_key(s) && !ended.contains(s))
        .collect();
    unfinished.sort_unstable();
    unfinished.dedup();
    let origin = if saved.is_empty() {
        Origin::Unknown
    } else {
        Origin::Logged
    };
    let checkpoints = saved
        .into_iter()
        .map(|(step, path)| Checkpoint {
            path,
            ..Checkpoint::at(step)
        })
        .collect();
    let warnings = unfinished.iter().map(|s| never_ended(*s, "")).collect();
    Inventory {
        checkpoints,
        origin,
        unfinished,
        warnings,
        retention: retention::logged(run),
    }
}

fn never_ended(step: u64, besides: &str) -> String {
    format!(
        "the log says that a save of checkpoint {step} began, not that it was finished{besides}"
    )
}

/// The folder's checkpoints, held against the log's.
fn scanned(run: &Run, path: &Path) -> Inventory {
    let scan = folder::scan(path);
    let log = logged(run);
    let mut warnings = scan.warnings;
    for step in &log.unfinished {
        let mut here = scan.checkpoints.iter().filter(|c| c.step == *step);
        let besides = match here.next().map(|c| &c.torn) {
            None => "; it is not in the folder",
            Some(None) => "; in the folder nothing of it is missing",
            Some(Some(_)) => "; in the folder it is torn",
        };
        warnings.push(never_ended(*step, besides));
    }
    warnings.extend(not_here(&log, &scan.checkpoints, path));
    let left = retention::left(run, &scan.checkpoints);
    Inventory {
        checkpoints: scan.checkpoints,
        origin: Origin::Scanned,
        unfinished: log.unfinished,
        warnings,
        retention: log.retention.or(left),
    }
}

/// Checkpoints that the log saved and did not delete and that the folder does not have.
fn not_here(log: &Inventory, here: &[Checkpoint], path: &Path) -> Option<String> {
    let gone = log.checkpoints.iter().map(|c| c.step);
    let gone: Vec<String> = gone
        .filter(|s| !here.iter().any(|c| c.step == *s))
        .map(|s| s.to_string())
        .collect();
    let names = folder::some(&gone)?;
    Some(format!(
        "the log saved checkpoint {names}, which {} does not have: deleted since, or kept elsewhere",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoints::folder::tests::Made;
    use crate::run::Event;

    fn run(events: &[(EventKind, u64)]) -> Run {
        let mut run = Run::default();
        run.meta.step_base = 1;
        run.steps = (1..=3500).collect();
        run.events = events
            .iter()
            .map(|(kind, step)| Event {
                attempt: 0,
                step: Some(*step),
                kind: *kind,
                path: Some("/log".into()),
            })
            .collect();
        run
    }

    #[test]
    fn a_folder_against_the_log() {
        let made = Made::new();
        for step in [2000, 2500, 3000, 3500] {
            made.file(&format!("step-{step}/__0_0.distcp"), 100);
            if step < 3500 {
                made.file(&format!("step-{step}/.metadata"), 10);
            }
        }
        let events = [
            (EventKind::Saved, 1000),
            (EventKind::Saved, 1500),
            (EventKind::Saved, 2000),
            (EventKind::SaveStarted, 3500),
            (EventKind::SaveStarted, 4000),
        ];
        let given = Given::Folder(made.path().to_owned());
        let found = inventory(&run(&events), &given);
        assert_eq!(found.origin, Origin::Scanned);
        let steps: Vec<u64> = found.checkpoints.iter().map(|c| c.step).collect();
        assert_eq!(steps, [2000, 2500, 3000, 3500]);
        assert_eq!(found.checkpoints[3].torn.as_deref(), Some("no .metadata"));
        assert_eq!(
            found.retention,
            Some(Retention {
                keep: 3,
                every: 500
            })
        );
        assert_eq!(gone_at(&found, 2000), Some(3500));
        let text = found.warnings.join("\n");
        for words in [
            "checkpoint 3500 began, not that it was finished; in the folder it is torn",
            "checkpoint 4000 began, not that it was finished; it is not in the folder",
            "saved checkpoint 1000, 1500, which",
            "with 3 kept and one every 500 steps, checkpoint 2000 is deleted at step 3500",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn the_log_alone() {
        let events = [(EventKind::Saved, 1000), (EventKind::SaveStarted, 2000)];
        let found = inventory(&run(&events), &Given::Nothing);
        assert_eq!(found.checkpoints.len(), 1);
        assert_eq!(found.unfinished, [2000]);
        assert_eq!(
            found.warnings,
            ["the log says that a save of checkpoint 2000 began, not that it was finished"]
        );
        let given = Given::Every {
            every: 1000,
            keep: Some(2),
        };
        let found = inventory(&run(&[]), &given);
        assert_eq!(gone_at(&found, 2000), Some(4000));
        assert_eq!(found.warnings.len(), 1);
    }
}
