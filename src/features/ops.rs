//! F49–F50: restarts and hardware.

use crate::features::context::Context;
use crate::features::gradient::highest_z;
use crate::features::{Feature, boolean, number};
use crate::run::{Began, EventKind};

pub(super) const FEATURES: &[Feature] = &[
    number(
        "F49",
        "restart_dist",
        "steps",
        "100",
        &["several attempts or restart markers"],
        "steps since the last restart, or since the start of a log that shows at least 100 steps without one",
        restart_dist,
    ),
    number(
        "F49b",
        "restart_repeats",
        "restarts",
        "100",
        &["several attempts or restart markers"],
        "restarts at different steps after which an incident began at the same offset, this one included",
        restart_repeats,
    ),
    boolean(
        "F50",
        "hw_event",
        "60 min",
        &["node events"],
        "the log names a device or node fault within 60 minutes before the onset; within 500 steps where it has no times",
        hw_event,
    ),
    number(
        "F50b",
        "step_time_z",
        "sd",
        "128",
        &["step_time"],
        "highest z of log10 step time around the onset",
        |c| highest_z(c, "step_time"),
    ),
];

fn offset(c: &Context<'_>, incident: &crate::detect::Incident) -> Option<f64> {
    let attempt = c.run.attempts.get(incident.attempt as usize)?;
    if attempt.index == 0 {
        return None;
    }
    let start = c.run.steps[attempt.rows.start];
    Some((c.run.steps[incident.onset_row] - start) as f64)
}

/// Steps without a restart that a log must show before it says that there was none.
const UNBROKEN: f64 = 100.0;

fn restart_dist(c: &Context<'_>) -> Option<f64> {
    let shown = c.onset - c.run.steps[c.attempt.rows.start] as f64;
    if c.excerpt() && matches!(c.attempt.began, Began::First | Began::StepWentBack { .. }) {
        return None;
    }
    offset(c, c.incident).or_else(|| Some(shown).filter(|d| *d >= UNBROKEN))
}

fn restart_repeats(c: &Context<'_>) -> Option<f64> {
    let mine = offset(c, c.incident)?;
    let near = (5.0 + c.spacing).max(0.1 * mine);
    let start =
        |i: &crate::detect::Incident| c.run.steps[c.run.attempts[i.attempt as usize].rows.start];
    // Restarts from the same step load the same checkpoint: they say nothing of restarts as such.
    let starts: std::collections::BTreeSet<u64> = c
        .incidents
        .iter()
        .filter(|i| i.signal == c.incident.signal)
        .filter(|i| offset(c, i).is_some_and(|o| (o - mine).abs() <= near))
        .map(start)
        .collect();
    Some(starts.len() as f64)
}

fn hw_event(c: &Context<'_>) -> Option<f64> {
    let faults: Vec<_> = c
        .run
        .events
        .iter()
        .filter(|e| e.kind == EventKind::NodeFault)
        .collect();
    let near = |e: &&crate::run::Event| {
        e.attempt == c.attempt.index
            && e.step
                .is_none_or(|s| (s as f64) <= c.onset + 1.0 && shortly_before(c, s))
    };
    (!faults.is_empty()).then(|| f64::from(u8::from(faults.iter().any(near))))
}

/// Seconds and, where no row has a time, steps within which a fault counts.
const HOUR: f64 = 3600.0;
const STEPS: f64 = 500.0;

fn shortly_before(c: &Context<'_>, step: u64) -> bool {
    let time = |row: usize| c.run.value("time", row).map(|ms| ms / 1000.0);
    let there = c.run.row_at(c.attempt, step);
    let told = || Some(time(c.incident.onset_row)? - time(there?)?);
    let steps = c.onset - step as f64;
    let each = || c.median("step_time", step as f64, c.onset + 1.0);
    let seconds = told().or_else(|| each().map(|s| s * steps));
    seconds.map_or(steps < STEPS, |s| s <= HOUR)
}
