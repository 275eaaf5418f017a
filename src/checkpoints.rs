//! Which checkpoints exist, in the source's own numbers: from the log's events, from a list, or from a rule.
//!
//! A checkpoint is named after the number of updates done, whatever the base of the step counter is.

mod given;

use std::collections::BTreeMap;

use crate::run::{EventKind, Run};

pub use given::{Given, GivenError};

/// A checkpoint that can be gone back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Updates done when it was written.
    pub step: u64,
    /// Where it is, if that is known.
    pub path: Option<String>,
}

/// Where the list of checkpoints comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `--checkpoint-steps`.
    Listed,
    /// `--checkpoint-every`.
    Spaced,
    /// Save lines of the log.
    Logged,
    /// Nothing tells of any.
    Unknown,
}

/// The checkpoints, in order of step.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// Checkpoints in order of step.
    pub checkpoints: Vec<Checkpoint>,
    /// Where the list comes from.
    pub origin: Origin,
    /// Saves that the log began and did not finish.
    pub unfinished: Vec<u64>,
}

/// Takes the inventory: what the user gave, else what the log says was saved and not deleted.
pub fn inventory(run: &Run, given: &Given) -> Inventory {
    match given {
        Given::Nothing => logged(run),
        Given::Steps(steps) => listed(steps.iter().copied(), Origin::Listed),
        Given::Every { every, keep } => listed(spaced(run, *every, *keep), Origin::Spaced),
    }
}

fn listed(steps: impl Iterator<Item = u64>, origin: Origin) -> Inventory {
    let mut checkpoints: Vec<Checkpoint> =
        steps.map(|step| Checkpoint { step, path: None }).collect();
    checkpoints.sort_by_key(|c| c.step);
    checkpoints.dedup();
    Inventory {
        checkpoints,
        origin,
        unfinished: Vec::new(),
    }
}

/// Multiples of `every` up to the last update of the log, the last `keep` of them.
fn spaced(run: &Run, every: u64, keep: Option<u64>) -> impl Iterator<Item = u64> {
    let last = run.steps.last().map_or(0, |s| run.updates_after(*s)) / every.max(1);
    let first = keep.map_or(1, |k| (last + 1).saturating_sub(k).max(1));
    (first..=last).map(move |n| n * every)
}

fn logged(run: &Run) -> Inventory {
    let mut saved: BTreeMap<u64, Option<String>> = BTreeMap::new();
    let mut started: Vec<u64> = Vec::new();
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
        .filter(|s| !saved.contains_key(s))
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
        .map(|(step, path)| Checkpoint { step, path })
        .collect();
    Inventory {
        checkpoints,
        origin,
        unfinished,
    }
}
