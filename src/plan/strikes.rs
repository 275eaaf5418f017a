//! Attempts that met the same incident and did not get over it, and what was tried between them.

use crate::detect::{Incident, Shape};
use crate::plan::Situation;
use crate::replay::Data;

/// Onsets closer than this, and than two rows of the log, are the same place.
const SAME_PLACE: u64 = 50;
/// A learning rate lower than this share of that of the attempt before was lowered.
const LOWERED: f64 = 0.98;

/// What was tried on an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Strikes {
    /// Attempts that met it, this one included.
    pub(super) count: usize,
    /// Updates done at the oldest checkpoint that one of them came back to.
    pub(super) from: Option<u64>,
    /// Whether batches were left out, and it came again.
    pub(super) skipped: bool,
    /// Whether the learning rate was lowered, and it came again.
    pub(super) lowered: bool,
}

impl Strikes {
    pub(super) fn of(s: &Situation<'_>) -> Self {
        let attempts = attempts(s);
        let again = attempts.get(1..).unwrap_or_default();
        let from = again.iter().filter_map(|a| came_back_to(s, *a)).min();
        let tried: Vec<_> = s
            .replays
            .iter()
            .filter(|r| attempts.contains(&r.earlier) && again.contains(&r.later))
            .collect();
        Self {
            count: attempts.len().max(1),
            from,
            skipped: tried.iter().any(|r| matches!(r.data, Data::Skipped { .. })),
            lowered: tried
                .iter()
                .any(|r| r.lr_ratio.is_some_and(|ratio| ratio < LOWERED)),
        }
    }

    /// Whether a way back was gone already, and it came again.
    pub(super) fn again(&self) -> bool {
        self.count > 1
    }

    /// Whether what a cause asks for was tried.
    pub(super) fn tried(&self, cause: &str) -> bool {
        (cause == "bad-data" && self.skipped) || (cause == "learning-rate" && self.lowered)
    }
}

/// The attempts, in order, whose loss left its level at the same place and did not come back.
fn attempts(s: &Situation<'_>) -> Vec<u32> {
    let onset = s.run.steps[s.incident.onset_row];
    let near = SAME_PLACE.max(2 * s.run.spacing());
    let stayed = |i: &&Incident| {
        i.signal == "loss"
            && i.attempt <= s.incident.attempt
            && s.run.steps[i.onset_row].abs_diff(onset) <= near
            && (i.shape == Shape::Divergent || i.return_row.is_none())
    };
    let mut out: Vec<u32> = s
        .incidents
        .iter()
        .filter(stayed)
        .map(|i| i.attempt)
        .collect();
    out.dedup();
    out
}

/// Updates done where an attempt began, if that is before the incident.
fn came_back_to(s: &Situation<'_>, attempt: u32) -> Option<u64> {
    let first = s.run.steps[s.run.attempts[attempt as usize].rows.start];
    let done = s.run.updates_after(first).saturating_sub(1);
    (first <= s.run.steps[s.incident.onset_row]).then_some(done)
}
