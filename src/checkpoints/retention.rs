//! How many checkpoints are kept, and how far apart they are: told by the user, by the log, or by what is left.

use std::collections::BTreeSet;

use crate::checkpoints::{Checkpoint, Inventory};
use crate::run::{EventKind, Run};

/// The rule by which old checkpoints are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How many are kept, the newest included.
    pub keep: u64,
    /// Steps between them.
    pub every: u64,
}

/// Names under which a log prints how many checkpoints are kept.
const KEEP: [&str; 4] = [
    "save_total_limit",
    "keep_latest_k",
    "checkpoint.keep_latest_k",
    "keep_last_n_checkpoints",
];
/// Names under which a log prints the steps between checkpoints.
const EVERY: [&str; 4] = [
    "save_interval",
    "save_steps",
    "checkpoint.interval",
    "checkpoint_interval",
];
/// Deletions that show a rule.
const LEAST_DELETIONS: usize = 2;

/// The rule that the log prints or that its deletions show.
pub(super) fn logged(run: &Run) -> Option<Retention> {
    let fact = |names: &[&str]| run.fact(names).filter(|v| *v >= 1.0).map(|v| v as u64);
    let every = fact(&EVERY).or_else(|| usual_gap(&saved(run)))?;
    let keep = fact(&KEEP).or_else(|| kept_by_deletions(run))?;
    Some(Retention { keep, every })
}

/// The rule that the whole checkpoints of a folder show: evenly spaced ones, and none where an earlier one was saved.
pub(super) fn left(run: &Run, checkpoints: &[Checkpoint]) -> Option<Retention> {
    let mut steps: Vec<u64> = checkpoints
        .iter()
        .filter(|c| c.torn.is_none())
        .map(|c| c.step)
        .collect();
    steps.dedup();
    let [.., last, newest] = steps[..] else {
        return None;
    };
    let every = newest - last;
    let gaps = steps.windows(2).rev();
    let keep = 1 + gaps.take_while(|w| w[1] - w[0] == every).count();
    let missing = steps[steps.len() - keep].checked_sub(every)?;
    let older = steps.len() > keep;
    let first = run.steps.iter().map(|s| run.updates_after(*s)).min()?;
    // An older one that stays, such as the best, or another spacing: only the log can tell which.
    let logged = saved(run).contains(&missing);
    let known = logged || (!older && missing > 0 && first <= missing);
    known.then_some(Retention {
        keep: keep as u64,
        every,
    })
}

fn saved(run: &Run) -> BTreeSet<u64> {
    let events = run.events.iter().filter(|e| e.kind == EventKind::Saved);
    events.filter_map(|e| e.step).collect()
}

fn usual_gap(steps: &BTreeSet<u64>) -> Option<u64> {
    let mut gaps: Vec<u64> = steps
        .iter()
        .zip(steps.iter().skip(1))
        .map(|(a, b)| b - a)
        .collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}

/// How many are left after each deletion, if the oldest always goes and the number is always the same.
fn kept_by_deletions(run: &Run) -> Option<u64> {
    let mut alive = BTreeSet::new();
    let mut left = Vec::new();
    for event in &run.events {
        match (event.kind, event.step) {
            (EventKind::Saved, Some(step)) => {
                alive.insert(step);
            }
            (EventKind::Deleted, Some(step)) => {
                if alive.first() != Some(&step) {
                    return None;
                }
                alive.remove(&step);
                left.push(alive.len());
            }
            _ => {}
        }
    }
    let keep = *left.last()?;
    let steady = left.iter().rev().take(LEAST_DELETIONS);
    let steady = left.len() >= LEAST_DELETIONS && steady.clone().all(|n| *n == keep);
    (steady && keep > 0).then_some(keep as u64)
}

/// The step whose save deletes the checkpoint of `step`, by the rule of retention that is known. Nothing if no rule is
/// known, or if the checkpoint has outlived it.
pub fn gone_at(inventory: &Inventory, step: u64) -> Option<u64> {
    let rule = inventory.retention?;
    let newer: BTreeSet<u64> = inventory
        .checkpoints
        .iter()
        .filter(|c| c.step > step && c.torn.is_none())
        .map(|c| c.step)
        .collect();
    let newest = newer.last().copied().unwrap_or(step);
    let more = rule
        .keep
        .checked_sub(newer.len() as u64)
        .filter(|n| *n > 0)?;
    newest.checked_add(more.checked_mul(rule.every)?)
}

/// What the rule does to the oldest whole checkpoint.
pub(super) fn warning(inventory: &Inventory) -> Option<String> {
    let rule = inventory.retention?;
    let oldest = inventory.checkpoints.iter().find(|c| c.torn.is_none())?;
    let gone = gone_at(inventory, oldest.step)?;
    Some(format!(
        "with {} kept and one every {} steps, checkpoint {} is deleted at step {gone}: copy away the ones that a way \
         back may need",
        rule.keep, rule.every, oldest.step
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoints::Origin;
    use crate::run::Event;

    fn run(events: &[(EventKind, u64)], steps: std::ops::RangeInclusive<u64>) -> Run {
        let mut run = Run::default();
        run.meta.step_base = 1;
        run.steps = steps.collect();
        run.events = events
            .iter()
            .map(|(kind, step)| Event {
                attempt: 0,
                step: Some(*step),
                kind: *kind,
                path: None,
            })
            .collect();
        run
    }

    fn checkpoints(steps: &[u64]) -> Vec<Checkpoint> {
        steps.iter().map(|s| Checkpoint::at(*s)).collect()
    }

    fn inventory(steps: &[u64], retention: Option<Retention>) -> Inventory {
        Inventory {
            checkpoints: checkpoints(steps),
            origin: Origin::Scanned,
            unfinished: Vec::new(),
            warnings: Vec::new(),
            retention,
        }
    }

    #[test]
    fn deletions_show_the_rule() {
        use EventKind::{Deleted, Saved};
        let events = [
            (Saved, 100),
            (Saved, 200),
            (Saved, 300),
            (Deleted, 100),
            (Saved, 400),
            (Deleted, 200),
        ];
        let rule = Some(Retention {
            keep: 2,
            every: 100,
        });
        assert_eq!(logged(&run(&events, 1..=400)), rule);
        assert_eq!(logged(&run(&events[..4], 1..=300)), None);
        let other = [
            (Saved, 100),
            (Saved, 200),
            (Deleted, 200),
            (Saved, 300),
            (Deleted, 300),
        ];
        assert_eq!(logged(&run(&other, 1..=300)), None);
        let mut told = run(&[], 1..=10);
        for (name, value) in [("save_total_limit", "3"), ("save_steps", "500")] {
            told.meta.facts.insert(name.into(), value.into());
        }
        assert_eq!(
            logged(&told),
            Some(Retention {
                keep: 3,
                every: 500
            })
        );
    }

    #[test]
    fn what_is_left_shows_the_rule() {
        let some = |keep, every| Some(Retention { keep, every });
        let left = |run: &Run, steps: &[u64]| left(run, &checkpoints(steps));
        let whole = run(&[], 1..=5000);
        assert_eq!(left(&whole, &[4000, 4500, 5000]), some(3, 500));
        // Nothing was saved before the first that is there.
        assert_eq!(left(&whole, &[500, 1000, 1500]), None);
        assert_eq!(left(&run(&[], 3900..=5000), &[4000, 4500, 5000]), None);
        // The spacing changed, or an old one is kept.
        assert_eq!(left(&whole, &[1000, 2000, 4000, 4500, 5000]), None);
        let saved = run(&[(EventKind::Saved, 3500)], 1..=5000);
        assert_eq!(left(&saved, &[1000, 4000, 4500, 5000]), some(3, 500));
        assert_eq!(left(&whole, &[5000]), None);
        let mut torn = checkpoints(&[4000, 4500, 5000]);
        torn[2].torn = Some("no .metadata".into());
        assert_eq!(super::left(&whole, &torn), some(2, 500));
    }

    #[test]
    fn when_a_checkpoint_is_gone() {
        let rule = Some(Retention {
            keep: 3,
            every: 500,
        });
        let have = inventory(&[1000, 1500, 2000], rule);
        assert_eq!(gone_at(&have, 1000), Some(2500));
        assert_eq!(gone_at(&have, 2000), Some(3500));
        assert!(
            warning(&have).is_some_and(|w| w.contains("checkpoint 1000 is deleted at step 2500"))
        );
        let outlived = inventory(&[500, 1000, 1500, 2000], rule);
        assert_eq!(gone_at(&outlived, 500), None);
        assert_eq!(gone_at(&inventory(&[1000], None), 1000), None);
        let far = Some(Retention {
            keep: u64::MAX,
            every: 3,
        });
        assert_eq!(gone_at(&inventory(&[1000], far), 1000), None);
    }
}
