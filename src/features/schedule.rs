//! F27–F32: learning rate, parameter norm, batch size.

use std::f64::consts::LN_10;

use crate::baseline::{median_of, theil_sen};
use crate::features::context::Context;
use crate::features::{Feature, boolean, number};

pub(super) const FEATURES: &[Feature] = &[
    number(
        "F27",
        "lr_event_dist",
        "steps",
        "run",
        &["learning_rate"],
        "steps from the last rise or knot of the learning rate (end of warm-up, jump, re-warm) to the onset",
        |c| {
            knots(c)
                .iter()
                .map(|k| c.onset - k)
                .filter(|d| *d >= -c.spacing)
                .reduce(f64::min)
        },
    ),
    number(
        "F27b",
        "warmup_position",
        "warm-up lengths",
        "run",
        &["learning_rate"],
        "onset in units of the warm-up length",
        |c| warmup_end(c).filter(|w| *w >= 10.0).map(|w| c.onset / w),
    ),
    number(
        "F27e",
        "lr_quiet",
        "warm-up lengths",
        "run",
        &["learning_rate"],
        "steps since the last rise of the learning rate, in warm-up lengths",
        |c| {
            let warmup = warmup_end(c).filter(|w| *w >= 10.0)?;
            let since = knots(c)
                .iter()
                .map(|k| c.onset - k)
                .filter(|d| *d >= -c.spacing)
                .reduce(f64::min)?;
            Some(since / warmup)
        },
    ),
    number(
        "F27c",
        "lr_rise",
        "ratio",
        "150",
        &["learning_rate"],
        "largest learning rate of the 50 steps up to the onset against the median of the 100 before",
        lr_rise,
    ),
    number(
        "F27d",
        "lr_rise_in_peak",
        "ratio",
        "150",
        &["learning_rate"],
        "largest learning rate between onset and peak against the median before the onset",
        lr_rise_in_peak,
    ),
    number(
        "F28",
        "spike_rate_vs_lr",
        "ratio",
        "run",
        &["loss", "learning_rate"],
        "rate of incidents within 0.9 to 1.2 warm-up lengths or 500 steps after a rise of the learning rate against the \
         rest, with four or more incidents; half an incident more in the rest keeps it finite",
        spike_rate,
    ),
    number(
        "F29",
        "lr_mismatch",
        "share",
        "1",
        &["learning_rate", "several attempts or restart markers"],
        "relative jump of the learning rate across the last restart, beyond the largest of the 20 rows before; what the \
         configuration would give is not known",
        lr_mismatch,
    ),
    number(
        "F30",
        "p_accel",
        "1/step^2",
        "1000",
        &["param_norm"],
        "change of the growth rate of the parameter norm before the onset",
        p_accel,
    ),
    number(
        "F30b",
        "p_growth",
        "1/1000 steps",
        "1000",
        &["param_norm"],
        "growth rate of the parameter norm before the onset",
        |c| {
            let w = c.log_window(
                "param_norm",
                c.onset - 1000.0_f64.max(20.0 * c.spacing),
                c.onset,
            );
            (w.len() >= 20).then(|| theil_sen(&w.x, &w.y).map(|s| 1000.0 * LN_10 * s))?
        },
    ),
    number(
        "F31",
        "u_over_p",
        "1",
        "100",
        &["update_norm", "param_norm"],
        "update norm over parameter norm before the onset",
        u_over_p,
    ),
    number(
        "cfg",
        "beta2",
        "1",
        "run",
        &["beta2"],
        "beta2 of Adam, if the log prints it",
        |c| c.run.beta2(),
    ),
    boolean(
        "F32",
        "batch_event",
        "200",
        &["global_batch_size"],
        "the global batch size, or the sequence length where it is logged, changed within 200 steps of the onset",
        batch_event,
    ),
];

/// The step at which the first rise ended, if it ended by the peak.
fn warmup_end(c: &Context<'_>) -> Option<f64> {
    c.schedule().warmup_end.filter(|end| *end <= c.peak)
}

fn knots(c: &Context<'_>) -> Vec<f64> {
    let jumps = c.schedule().jumps.iter().copied().filter(|j| *j <= c.peak);
    warmup_end(c).into_iter().chain(jumps).collect()
}

fn before(c: &Context<'_>) -> Option<f64> {
    let far = c.onset - 150.0_f64.max(15.0 * c.spacing);
    c.median(
        "learning_rate",
        far,
        c.onset - 50.0_f64.max(3.0 * c.spacing),
    )
    .filter(|v| *v > 0.0)
}

fn lr_rise(c: &Context<'_>) -> Option<f64> {
    let near = c.max(
        "learning_rate",
        c.onset - 50.0_f64.max(3.0 * c.spacing),
        c.onset + 1.0,
    )?;
    Some(near / before(c)?)
}

fn lr_rise_in_peak(c: &Context<'_>) -> Option<f64> {
    Some(c.max("learning_rate", c.onset, c.peak + 1.0)? / before(c)?)
}

fn spike_rate(c: &Context<'_>) -> Option<f64> {
    let end = warmup_end(c).filter(|w| *w >= 10.0)?;
    let losses = c
        .incidents
        .iter()
        .filter(|i| i.signal == "loss" && i.attempt == c.incident.attempt);
    let steps: Vec<f64> = losses.map(|i| c.run.steps[i.onset_row] as f64).collect();
    let at = |row: usize| c.run.steps[row] as f64;
    let (first, last) = (at(c.attempt.rows.start), at(c.attempt.rows.end - 1));
    let after = c.schedule().jumps.iter().map(|j| (*j, j + 500.0));
    let spans: Vec<(f64, f64)> = after.chain([(0.9 * end, 1.2 * end)]).collect();
    let inside = |s: &&f64| {
        spans
            .iter()
            .any(|(from, until)| (*from..=*until).contains(*s))
    };
    let hits = steps.iter().filter(inside).count() as f64;
    let others = steps.len() as f64 - hits;
    let near = covered(&spans, first, last);
    let rest = last - first - near;
    let known = steps.len() >= 4 && near > 0.0 && rest > 0.0;
    known.then(|| (hits / near) / ((others + 0.5) / rest))
}

/// How much of a range the spans cover together.
fn covered(spans: &[(f64, f64)], first: f64, last: f64) -> f64 {
    let mut sorted = spans.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut done) = (0.0, first);
    for (from, until) in sorted {
        sum += (until.min(last) - from.max(done)).max(0.0);
        done = done.max(until);
    }
    sum
}

fn lr_mismatch(c: &Context<'_>) -> Option<f64> {
    if c.attempt.index == 0 {
        return None;
    }
    let start = c.run.steps[c.attempt.rows.start] as f64;
    let before = c.window("learning_rate", start - 20.0 * c.spacing, start);
    let after = c.window("learning_rate", start, start + 2.0 * c.spacing);
    let (a, b) = (*before.y.last()?, *after.y.first()?);
    let usual = before
        .y
        .windows(2)
        .map(|w| (w[1] / w[0] - 1.0).abs())
        .fold(0.0, f64::max);
    (a > 0.0).then(|| ((b / a - 1.0).abs() - usual).max(0.0))
}

fn p_accel(c: &Context<'_>) -> Option<f64> {
    let unit = c.spacing.max(1.0);
    let early = c.log_window("param_norm", c.onset - 500.0 * unit, c.onset - 250.0 * unit);
    let late = c.log_window("param_norm", c.onset - 250.0 * unit, c.onset);
    let enough = early.len() >= 50 && late.len() >= 50;
    let (a, b) =
        enough.then(|| Some((theil_sen(&early.x, &early.y)?, theil_sen(&late.x, &late.y)?)))??;
    // Growth that changes by less than half is the schedule, not an acceleration.
    let change = if (b - a).abs() > 0.5 * a.abs() {
        b - a
    } else {
        0.0
    };
    Some(LN_10 * change / (250.0 * unit))
}

fn u_over_p(c: &Context<'_>) -> Option<f64> {
    let far = c.onset - 100.0_f64.max(10.0 * c.spacing);
    let u = c.window("update_norm", far, c.onset);
    let p = c.window("param_norm", far, c.onset);
    let norm = median_of(&p.y);
    (u.len() >= 3 && norm > 0.0).then(|| median_of(&u.y) / norm)
}

/// Names under which frameworks log the length of a sequence, for curricula.
const SEQUENCE: [&str; 5] = [
    "seqlen",
    "seq_length",
    "sequence_length",
    "curriculum_seqlen",
    "curriculum seqlen",
];

fn batch_event(c: &Context<'_>) -> Option<f64> {
    let changed = |signal: &&str| {
        let w = c.window(signal, c.onset - 200.0, c.onset + 201.0);
        (w.len() >= 2).then(|| w.y.windows(2).any(|p| (p[0] - p[1]).abs() > 0.5))
    };
    let signals = ["global_batch_size"].iter().chain(&SEQUENCE);
    let told: Vec<bool> = signals.filter_map(changed).collect();
    (!told.is_empty()).then(|| f64::from(u8::from(told.contains(&true))))
}
