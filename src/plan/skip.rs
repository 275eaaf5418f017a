//! The batches to leave out: no wider than the evidence asks.

use crate::data_order::DataOrder;
use crate::plan::{Situation, Skip};
use crate::run::Run;
use crate::verdict::Outcome;

/// Longest skip (rules/SOURCES.md).
const LONGEST: u64 = 500;
/// Rows before and after the disturbance, for bad data: the loader may run a batch ahead of the log.
const LEAD: u64 = 1;
const TAIL: u64 = 2;
/// Without a cause the window is that of the `PaLM` report: 8 steps and a pad of 16 before the onset, 16 after the peak.
const PALM_LEAD: u64 = 8;
const PALM_PAD: u64 = 16;
/// Below this posterior a skip is not offered for bad data.
const PLAUSIBLE: f64 = 0.08;

/// The skip set, or none where leaving data out does not help.
pub(super) fn choose(s: &Situation<'_>, order: Option<&DataOrder>) -> Option<Skip> {
    let bad_data = s.verdict.posterior_of("bad-data");
    let decided = s.verdict.cause.as_deref();
    let narrow =
        decided == Some("bad-data") || (s.verdict.outcome == Outcome::Undecided && bad_data >= 0.3);
    if decided.is_some_and(|c| !s.rules.get(c).is_some_and(|r| r.remedy.skip))
        || s.incident.signal != "loss"
    {
        return None;
    }
    if !narrow && bad_data < PLAUSIBLE && s.verdict.outcome != Outcome::Unexplained {
        return None;
    }
    let onset = s.run.steps[s.incident.onset_row];
    let (first, last, why) = if narrow {
        let (first, last) = disturbed(s);
        (
            first,
            last,
            format!(
                "rows from the onset at {onset} to the return, {LEAD} step before and {TAIL} after"
            ),
        )
    } else {
        let (first, last) = palm(s);
        (
            first,
            last,
            "the cause is open: PaLM's window around onset and peak".to_owned(),
        )
    };
    let first = first.max(s.run.meta.step_base);
    let last = last.max(first).min(first + LONGEST - 1);
    let samples =
        order.and_then(|o| o.samples_of(s.run.updates_after(first), s.run.updates_after(last)));
    let why = if samples.is_some() {
        why
    } else {
        format!("{why}; the log has no data position for it, so only steps are given")
    };
    Some(Skip {
        steps: vec![(first, last)],
        samples: samples.into_iter().collect(),
        batches: last - first + 1,
        why,
    })
}

/// Steps of the disturbance: from the step after the last ordinary row to the return.
fn disturbed(s: &Situation<'_>) -> (u64, u64) {
    let run = s.run;
    let onset_row = s.incident.onset_row;
    let attempt = &run.attempts[s.incident.attempt as usize];
    let before = (onset_row > attempt.rows.start).then(|| run.steps[onset_row - 1]);
    let interval = u64::from(run.intervals[onset_row]).max(run.spacing());
    let onset = run.steps[onset_row];
    let first = before.map_or(onset, |b| (b + 1).max(onset.saturating_sub(interval - 1)));
    let end = s
        .incident
        .return_row
        .or(s.incident.peak_row)
        .unwrap_or(onset_row);
    let until = run.steps[end].max(last_disturbed(run, s));
    (first.saturating_sub(LEAD), until + TAIL)
}

/// Rows this many scales above the level after the return are still the disturbance: a model that has learned the bad
/// data is surprised by good data again.
const DISTURBED: f64 = 5.0;
/// How far beyond the return it is looked for.
const LOOK: u64 = 60;

fn last_disturbed(run: &Run, s: &Situation<'_>) -> u64 {
    let attempt = &run.attempts[s.incident.attempt as usize];
    let Some(loss) = run.column("loss") else {
        return 0;
    };
    let from = s.incident.onset_row;
    let until = run.steps[s.incident.return_row.unwrap_or(from)] + LOOK;
    let away = |row: &usize| {
        let value = loss.finite(*row);
        value.is_some_and(|y| s.incident.level.z(run.steps[*row] as f64, y) > DISTURBED)
    };
    let rows = (from..attempt.rows.end).take_while(|r| run.steps[*r] <= until);
    rows.filter(away).last().map_or(0, |r| run.steps[r])
}

fn palm(s: &Situation<'_>) -> (u64, u64) {
    let onset = s.run.steps[s.incident.onset_row];
    let peak = s.incident.peak_row.map_or(onset, |r| s.run.steps[r]);
    let pad = PALM_PAD.max(s.run.spacing());
    (onset.saturating_sub(PALM_LEAD + pad), peak + pad)
}
