//! F14–F20: the gradient norm.

use crate::baseline::{median_of, quantile, theil_sen};
use crate::detect::Series;
use crate::features::context::{Context, level_of};
use crate::features::{Feature, number};

pub(super) const FEATURES: &[Feature] = &[
    number(
        "F14",
        "g_z",
        "sd",
        "128",
        &["grad_norm"],
        "highest z of log10 gradient norm around the onset; times the root of the learning rate while that decays",
        g_z,
    ),
    number(
        "F15",
        "g_lead",
        "steps",
        "20",
        &["grad_norm", "loss"],
        "onset of the loss minus onset of the gradient norm; needs every step logged",
        |c| lead(c, "grad_norm"),
    ),
    number(
        "F16",
        "g_growth",
        "ratio per step",
        "onset of g to peak",
        &["grad_norm"],
        "geometric mean growth of the gradient norm on the way up",
        g_growth,
    ),
    number(
        "F17",
        "clip_ratio",
        "share",
        "100",
        &["grad_norm", "clip_grad"],
        "share of steps whose gradient norm was above the clip threshold before the onset",
        clip_ratio,
    ),
    number(
        "F17b",
        "clip_over_median",
        "ratio",
        "100",
        &["grad_norm", "clip_grad"],
        "clip threshold over the median gradient norm before the onset",
        |c| Some(threshold(c)? / median_of(&before_clip(c)?)),
    ),
    number(
        "F18",
        "g_floor_drift",
        "decades per 1000 steps",
        "500",
        &["grad_norm"],
        "slope of the lower tenth of log10 gradient norm before the onset",
        g_floor_drift,
    ),
    number(
        "F19",
        "g_var_ratio",
        "ratio",
        "600; as many rows where the log is sparse, for a variance needs them",
        &["grad_norm"],
        "variance of log gradient norm over the last 100 steps against the 500 before",
        g_var_ratio,
    ),
    number(
        "F20",
        "g_stale",
        "rows",
        "100",
        &["grad_norm"],
        "longest run of rows that print exactly the same gradient norm, at the clip threshold or not",
        g_stale,
    ),
];

/// z of log₁₀ norms at which they have left their level.
pub(super) const AWAY: f64 = 4.0;

/// By how many steps a norm was ahead of the loss.
pub(super) fn lead(c: &Context<'_>, norm: &str) -> Option<f64> {
    let of_loss = c.of_loss() && c.every_step();
    of_loss.then(|| Some(c.onset - c.departure(norm, AWAY)?))?
}

/// The highest z of log₁₀ of a signal around the onset.
pub(super) fn highest_z(c: &Context<'_>, signal: &str) -> Option<f64> {
    highest(c, &|from, until| c.log_window(signal, from, until))
}

fn highest(c: &Context<'_>, window: &dyn Fn(f64, f64) -> Series) -> Option<f64> {
    let (span, event) = (c.level_span(), c.event_span());
    let level = level_of(&window(span.0, span.1))?;
    let w = window(event.0, event.1);
    let z = (0..w.len()).map(|i| level.z(w.x[i], w.y[i]));
    z.reduce(f64::max)
}

/// A gradient norm goes with 1/√η in the steady state of normalised layers, and so rises by design while η decays.
fn g_z(c: &Context<'_>) -> Option<f64> {
    let rate = |row: usize| c.run.value("learning_rate", row).filter(|v| *v > 0.0);
    let all = c.log_window("grad_norm", c.level_span().0, c.event_span().1);
    let rates: Option<Vec<f64>> = all.rows.iter().map(|r| rate(*r)).collect();
    let decays = rates.is_some_and(|r| r.windows(2).all(|p| p[1] <= p[0]) && r.first() > r.last());
    highest(c, &|from, until| {
        let mut w = c.log_window("grad_norm", from, until);
        for (y, row) in w.y.iter_mut().zip(&w.rows).filter(|_| decays) {
            *y += 0.5 * rate(*row).map_or(0.0, f64::log10);
        }
        w
    })
}

fn g_growth(c: &Context<'_>) -> Option<f64> {
    let start = c.departure("grad_norm", AWAY)?;
    let w = c.log_window("grad_norm", start, c.peak + 1.0);
    let (first, last) = (w.y.first()?, w.y.last()?);
    let steps = w.x.last()? - w.x.first()?;
    (steps >= 1.0).then(|| 10_f64.powf((last - first) / steps))
}

fn threshold(c: &Context<'_>) -> Option<f64> {
    c.run.fact(&crate::run::CLIP_KEYS).filter(|v| *v > 0.0)
}

/// Gradient norms of the 100 steps before the onset.
fn before_clip(c: &Context<'_>) -> Option<Vec<f64>> {
    let from = c.onset - 100.0_f64.max(10.0 * c.spacing);
    let w = c.window("grad_norm", from, c.onset);
    (w.len() >= 5).then_some(w.y)
}

fn clip_ratio(c: &Context<'_>) -> Option<f64> {
    let (clip, norms) = (threshold(c)?, before_clip(c)?);
    let above = norms.iter().filter(|g| **g > clip).count();
    Some(above as f64 / norms.len() as f64)
}

fn g_floor_drift(c: &Context<'_>) -> Option<f64> {
    let block = 50.0_f64.max(5.0 * c.spacing);
    let mut x = Vec::new();
    let mut y = Vec::new();
    for n in 0..10 {
        let from = c.onset - block * f64::from(n + 1);
        let mut w = c.log_window("grad_norm", from, from + block);
        if w.len() >= 5 {
            x.push(from);
            y.push(quantile(&mut w.y, 0.1));
        }
    }
    x.reverse();
    y.reverse();
    (x.len() >= 5).then(|| theil_sen(&x, &y).map(|s| s * 1000.0))?
}

fn g_var_ratio(c: &Context<'_>) -> Option<f64> {
    let unit = c.spacing.max(1.0);
    let late = c.log_window("grad_norm", c.onset - 100.0 * unit, c.onset);
    let early = c.log_window("grad_norm", c.onset - 600.0 * unit, c.onset - 100.0 * unit);
    let variance = |y: &[f64]| {
        let mean = y.iter().sum::<f64>() / y.len() as f64;
        y.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / y.len() as f64
    };
    let before = (late.len() >= 30 && early.len() >= 100).then(|| variance(&early.y))?;
    (before > 0.0).then(|| variance(&late.y) / before)
}

fn g_stale(c: &Context<'_>) -> Option<f64> {
    let w = c.window(
        "grad_norm",
        c.onset - 50.0 * c.spacing,
        c.onset + 50.0 * c.spacing,
    );
    let (mut longest, mut run) = (1_u32, 1_u32);
    for pair in w.y.windows(2) {
        run = if pair[0].to_bits() == pair[1].to_bits() {
            run + 1
        } else {
            1
        };
        longest = longest.max(run);
    }
    (!w.is_empty()).then_some(f64::from(longest))
}
