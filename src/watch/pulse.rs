//! How a watched run stands right now, in numbers.

use std::collections::BTreeMap;

use crate::baseline::median_of;
use crate::detect::latest_z;
use crate::diagnosis::Diagnosis;
use crate::ingest::follow::Before;
use crate::run::Run;
use crate::watch::{Ledger, What, last_place};

/// Rows whose median is the loss of right now, when progress is asked for.
const NOW: usize = 25;

/// A watched run in numbers; what is not known is left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pulse {
    /// The last step, in the source's own numbers.
    pub last_step: u64,
    /// The attempt, counted from 0.
    pub attempt: u32,
    /// The last loss that was logged, NaN included.
    pub loss: Option<f64>,
    /// The last gradient norm that was logged.
    pub grad_norm: Option<f64>,
    /// The last loss in robust standard deviations over its level.
    pub robust_z: Option<f64>,
    /// Steps since the median of 25 losses was lowest.
    pub steps_since_progress: Option<u64>,
    /// Seconds since a new step was seen.
    pub seconds_since_step: Option<f64>,
    /// Whether no step comes any more.
    pub hung: bool,
    /// Incidents told so far, by kind.
    pub told: BTreeMap<String, u64>,
    /// Incidents that are open, by the action that is advised.
    pub open: BTreeMap<String, u64>,
}

impl Pulse {
    pub(super) fn of(d: &Diagnosis, before: Before, ledger: &Ledger, waited: Option<f64>) -> Self {
        let run = &d.run;
        let place = last_place(run, before);
        let last = |name: &str| {
            let column = run.column(name)?;
            let rows = run.attempts.last()?.rows.clone();
            rows.rev().find_map(|row| column.get(row))
        };
        let incidents: Vec<_> = d.incidents.iter().map(|x| x.incident.clone()).collect();
        let loss = last("loss");
        let mut out = Self {
            last_step: place.step,
            attempt: place.attempt,
            loss,
            grad_norm: last("grad_norm"),
            robust_z: latest_z(run, &incidents).filter(|_| loss.is_some_and(f64::is_finite)),
            steps_since_progress: since_progress(run),
            seconds_since_step: waited,
            ..Self::default()
        };
        for e in &ledger.entries {
            *out.told.entry(e.told.kind.clone()).or_default() += 1;
            out.hung |= e.what == What::Hang && e.told.open;
        }
        for e in ledger.open_incidents() {
            *out.open.entry(e.told.action.clone()).or_default() += 1;
        }
        out
    }
}

/// Steps since the median of the last losses was lowest, over the rows that are kept.
fn since_progress(run: &Run) -> Option<u64> {
    let column = run.column("loss")?;
    let rows = run.attempts.last()?.rows.clone();
    let losses: Vec<(u64, f64)> = rows
        .filter_map(|r| Some((run.steps[r], column.finite(r)?)))
        .collect();
    let mut best: Option<(f64, u64)> = None;
    for part in losses.chunks(NOW) {
        let values: Vec<f64> = part.iter().map(|l| l.1).collect();
        let (middle, step) = (median_of(&values), part[part.len() - 1].0);
        if part.len() == NOW && best.is_none_or(|(low, _)| middle < low) {
            best = Some((middle, step));
        }
    }
    Some(losses.last()?.0.saturating_sub(best?.1))
}
