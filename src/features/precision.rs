//! F38–F41: activations, printed precision, loss scale, zero gradients.

use crate::baseline::{mad, median_of, quantum, theil_sen};
use crate::features::context::Context;
use crate::features::{Feature, boolean, number};

pub(super) const FEATURES: &[Feature] = &[
    number(
        "F38",
        "act_drift",
        "1/step",
        "2000",
        &["activation_norm"],
        "slope of the log of the last layer's output norm before the onset",
        |c| {
            let w = c.log_window("activation_norm", c.onset - 2000.0, c.onset);
            (w.len() >= 20).then(|| theil_sen(&w.x, &w.y).map(|s| s * std::f64::consts::LN_10))?
        },
    ),
    number(
        "F39",
        "loss_quantum",
        "share",
        "200",
        &["loss"],
        "distinct values among the logged losses before the onset; near 0 if the loss was printed in bf16",
        loss_quantum,
    ),
    number(
        "F39b",
        "loss_bits",
        "bits",
        "200",
        &["loss"],
        "bits behind the point of the logged losses before the onset: 7 for bf16 losses between 1 and 2; unknown where \
         the smallest difference is no power of two, as in decimals",
        loss_bits,
    ),
    number(
        "F40",
        "lossscale_halvings",
        "halvings",
        "250",
        &["loss_scale"],
        "halvings of the loss scale from 200 steps before the onset to 50 after the peak",
        |c| halvings(c, (c.onset - 200.0).max(scale_found(c)), c.peak + 51.0),
    ),
    number(
        "F40b",
        "lossscale_halvings_before",
        "halvings",
        "200",
        &["loss_scale"],
        "halvings of the loss scale in the 200 steps before the onset",
        |c| halvings(c, (c.onset - 200.0).max(scale_found(c)), c.onset),
    ),
    boolean(
        "F40c",
        "lossscale_collapsed",
        "50",
        &["loss_scale"],
        "the loss scale was below 1 around the onset",
        |c| {
            let w = c.window("loss_scale", c.onset - 50.0, c.peak + 51.0);
            (!w.is_empty()).then(|| f64::from(u8::from(w.y.iter().any(|s| *s > 0.0 && *s < 1.0))))
        },
    ),
    boolean(
        "F12b",
        "nonfinite_first",
        "20",
        &["loss"],
        "the first thing seen was a value that is not finite: loss and gradient norm were ordinary up to it",
        nonfinite_first,
    ),
    boolean(
        "F12c",
        "nonfinite_before",
        "200",
        &["skipped"],
        "updates were skipped in the 200 steps before the loss rose, or the gradient norm was not finite where that is what is logged",
        nonfinite_before,
    ),
    number(
        "F41",
        "zero_grad_frac",
        "share",
        "128",
        &["num_zeros", "number of parameters"],
        "share of the entries of the gradient that are zero, at most, around the onset",
        |c| Some(zeros(c)?.1 / c.parameters()?),
    ),
    number(
        "F41b",
        "zero_grad_ratio",
        "ratio",
        "128",
        &["num_zeros"],
        "zero entries of the gradient around the onset against before",
        |c| {
            let (before, at) = zeros(c)?;
            let level = median_of(&before);
            (level > 0.0).then(|| at / level)
        },
    ),
    number(
        "F41c",
        "zero_grad_z",
        "sd",
        "128",
        &["num_zeros"],
        "z of the zero entries of the gradient around the onset",
        |c| {
            let (before, at) = zeros(c)?;
            let level = median_of(&before);
            let scale = mad(&before, level);
            (scale > 0.0).then(|| (at - level) / scale)
        },
    ),
];

fn losses(c: &Context<'_>) -> Vec<f64> {
    let from = c.onset - 200.0_f64.max(50.0 * c.spacing);
    c.window("loss", from, c.onset).y
}

fn loss_bits(c: &Context<'_>) -> Option<f64> {
    let losses = losses(c);
    let step = quantum(&losses);
    let bits = -step.log2();
    let whole = step > 0.0 && (bits - bits.round()).abs() < 1e-6;
    (losses.len() >= 20 && whole).then(|| bits.round())
}

fn loss_quantum(c: &Context<'_>) -> Option<f64> {
    let mut w = losses(c);
    let n = w.len();
    w.sort_unstable_by(f64::total_cmp);
    w.dedup();
    (n >= 20).then(|| w.len() as f64 / n as f64)
}

fn halvings(c: &Context<'_>, from: f64, until: f64) -> Option<f64> {
    let w = c.window("loss_scale", from, until);
    let drops = w.y.windows(2).map(|p| {
        if p[1] > 0.0 && p[1] < p[0] {
            (p[0] / p[1]).log2().round()
        } else {
            0.0
        }
    });
    (w.len() >= 2).then(|| drops.sum())
}

/// The step at which an fp16 run has found its loss scale: until then a process skips updates by design
/// (rules/SOURCES.md case 46).
fn scale_found(c: &Context<'_>) -> f64 {
    let rows = c.attempt.rows.clone();
    let searching = |row: &usize| {
        let skips = c.run.value("skipped", *row).is_some_and(|v| v > 0.0);
        let scale = |r: usize| c.run.value("loss_scale", r);
        let falls = *row > rows.start
            && matches!((scale(row - 1), scale(*row)), (Some(a), Some(b)) if b < a);
        skips || falls
    };
    let found = rows.clone().find(|r| !searching(r)).unwrap_or(rows.end - 1);
    let first = c.run.steps[rows.start];
    // The scale of the first row already tells nothing by itself: the search may go on after it.
    let found = if found == rows.start && rows.len() > 1 && searching(&(found + 1)) {
        (found + 1..rows.end)
            .find(|r| !searching(r))
            .unwrap_or(rows.end - 1)
    } else {
        found
    };
    if first <= 2 * c.run.spacing() {
        c.run.steps[found] as f64
    } else {
        f64::NEG_INFINITY
    }
}

/// Unknown for a run that never had a loss: nothing ordinary went before.
fn nonfinite_first(c: &Context<'_>) -> Option<f64> {
    let loss = c.run.column("loss")?;
    let first = loss
        .get(c.incident.onset_row)
        .is_some_and(|v| !v.is_finite());
    let had_a_loss = c.ever_before_onset("loss");
    (!first || had_a_loss).then(|| f64::from(u8::from(first)))
}

fn nonfinite_before(c: &Context<'_>) -> Option<f64> {
    let from = (c.onset - 200.0).max(scale_found(c));
    let first = c.attempt.rows.start
        + c.run.steps[c.attempt.rows.clone()].partition_point(|s| (*s as f64) < from);
    let rows = first..c.incident.onset_row.max(first);
    let counted = c.run.column("skipped").is_some() || c.run.column("nan").is_some();
    let bad = |r: usize| {
        ["skipped", "nan"]
            .iter()
            .any(|s| c.run.value(s, r).is_some_and(|v| v > 0.0))
            || c.run.value("grad_norm", r).is_some_and(|v| !v.is_finite())
    };
    let known = counted || c.run.column("grad_norm").is_some();
    known.then(|| f64::from(u8::from(rows.into_iter().any(bad))))
}

/// Zero entries of the gradient before the onset, and their largest number around it.
fn zeros(c: &Context<'_>) -> Option<(Vec<f64>, f64)> {
    let before = c.window(
        "num_zeros",
        c.onset - 128.0_f64.max(16.0 * c.spacing),
        c.onset - c.spacing,
    );
    let at = c.max("num_zeros", c.onset - c.spacing, c.peak + 1.0)?;
    (before.len() >= 5).then_some((before.y, at))
}
