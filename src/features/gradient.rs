//! F14–F26: gradient and optimizer.

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
    number(
        "F21",
        "u_z",
        "sd",
        "128",
        &["update_norm"],
        "highest z of log10 update norm around the onset",
        |c| highest_z(c, "update_norm"),
    ),
    number(
        "F22",
        "u_lead",
        "steps",
        "20",
        &["update_norm", "loss"],
        "onset of the loss minus onset of the update norm; needs every step logged",
        |c| lead(c, "update_norm"),
    ),
    number(
        "F22h",
        "u_lead_grad",
        "steps",
        "20",
        &["update_norm", "grad_norm"],
        "onset of the gradient norm minus onset of the update norm; needs every step logged",
        |c| {
            let both = || Some(c.departure("grad_norm", AWAY)? - c.departure("update_norm", AWAY)?);
            c.every_step().then(both)?
        },
    ),
    number(
        "F22b",
        "u_before",
        "ratio",
        "8",
        &["update_norm"],
        "largest update norm in the 8 steps before the onset against its level before; needs every step logged",
        |c| c.every_step().then(|| u_before(c))?,
    ),
    number(
        "F22b2",
        "u_before_sparse",
        "ratio",
        "2 rows",
        &["update_norm"],
        "the same where the log prints only some steps: a short jump may hide between two rows",
        |c| (!c.every_step()).then(|| u_before(c))?,
    ),
    number(
        "F22c",
        "u_per_lr",
        "ratio",
        "8",
        &["update_norm", "learning_rate"],
        "update norm over learning rate around the onset, against before: 1 means the schedule explains the update",
        u_per_lr,
    ),
    number(
        "F22d",
        "u_per_lr_growth",
        "ratio",
        "peak",
        &["update_norm", "learning_rate"],
        "update norm over learning rate at the peak against the rows at the onset: above 1 while it still grows",
        u_per_lr_growth,
    ),
    number(
        "F22e",
        "u_persist",
        "ratio",
        "10 to 60 after",
        &["update_norm", "learning_rate"],
        "upper tenth of update norm over learning rate 10 to 60 steps after the onset, against before the onset",
        u_persist,
    ),
    number(
        "F22g",
        "u_heals",
        "share",
        "10 to 60 after",
        &["update_norm", "learning_rate"],
        "update norm over learning rate 10 to 60 steps after the onset against its height at the onset: near 0 if the \
         optimizer heals, near 1 if what makes the updates large goes on; needs at least every other step logged, or \
         the height is missed",
        |c| (c.spacing <= 2.0).then(|| Some(u_persist(c)? / u_per_lr(c)?))?,
    ),
    number(
        "F22f",
        "u_bursts",
        "bursts",
        "100",
        &["update_norm"],
        "separate bursts of the update norm above five times its old level within 100 steps from the onset",
        u_bursts,
    ),
    number(
        "F23",
        "m_over_v",
        "sd",
        "128",
        &["first_moment", "second_moment"],
        "z of log first moment minus z of log root second moment",
        m_over_v,
    ),
    number(
        "F23b",
        "v_drop",
        "ratio",
        "50",
        &["second_moment"],
        "second moment just before or at the onset against its level before: far below 1 if state was lost",
        v_drop,
    ),
    number(
        "F24",
        "v_staleness",
        "1/(1-beta2)",
        "5/(1-beta2)",
        &["grad_norm", "beta2"],
        "steps since the squared gradient norm fell below half its own moving average, in memories of Adam; a single \
         large gradient ends it, for it renews the second moment",
        v_staleness,
    ),
    number(
        "F25",
        "eps_ratio",
        "1",
        "128",
        &["grad_norm", "epsilon of Adam", "number of parameters"],
        "root mean square of the gradient before the onset over epsilon of Adam; of the norm, since what logs call a \
         second moment is a mean in one and a norm in the next",
        eps_ratio,
    ),
];

/// z of log₁₀ norms at which they have left their level.
const AWAY: f64 = 4.0;

/// By how many steps a norm was ahead of the loss.
fn lead(c: &Context<'_>, norm: &str) -> Option<f64> {
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

/// Rows just before an onset: eight steps, at least two rows.
fn just_before(c: &Context<'_>) -> f64 {
    8.0_f64.max(2.0 * c.spacing)
}

fn u_before(c: &Context<'_>) -> Option<f64> {
    let level = c.median(
        "update_norm",
        c.onset - just_before(c) - 128.0_f64.max(16.0 * c.spacing),
        c.onset - just_before(c),
    )?;
    let near = c.max("update_norm", c.onset - just_before(c), c.onset)?;
    (level > 0.0).then(|| near / level)
}

fn ratio_series(c: &Context<'_>, from: f64, until: f64) -> Vec<f64> {
    let u = c.window("update_norm", from, until);
    let lr = c.window("learning_rate", from, until);
    let mut out = Vec::new();
    let mut j = 0;
    for i in 0..u.len() {
        while j < lr.len() && lr.rows[j] < u.rows[i] {
            j += 1;
        }
        if j < lr.len() && lr.rows[j] == u.rows[i] && lr.y[j] > 0.0 {
            out.push(u.y[i] / lr.y[j]);
        }
    }
    out
}

fn u_per_lr(c: &Context<'_>) -> Option<f64> {
    let near = just_before(c);
    let before = ratio_series(
        c,
        c.onset - near - 128.0_f64.max(16.0 * c.spacing),
        c.onset - near,
    );
    let at = ratio_series(c, c.onset - near, c.onset + 1.0);
    let level = median_of(&before);
    let highest = at.into_iter().reduce(f64::max)?;
    (before.len() >= 3 && level > 0.0).then(|| highest / level)
}

fn u_per_lr_growth(c: &Context<'_>) -> Option<f64> {
    if c.peak - c.onset < 10.0 * c.spacing {
        return None;
    }
    let at_onset = ratio_series(c, c.onset - just_before(c), c.onset + 1.0);
    let at_peak = ratio_series(c, c.peak - just_before(c), c.peak + 1.0);
    let level = median_of(&at_onset);
    (!at_onset.is_empty() && !at_peak.is_empty() && level > 0.0)
        .then(|| median_of(&at_peak) / level)
}

fn u_persist(c: &Context<'_>) -> Option<f64> {
    let near = just_before(c);
    let before = ratio_series(
        c,
        c.onset - near - 128.0_f64.max(16.0 * c.spacing),
        c.onset - near,
    );
    let mut after = ratio_series(c, c.onset + 10.0, c.onset + 61.0);
    let level = median_of(&before);
    (before.len() >= 3 && after.len() >= 3 && level > 0.0)
        .then(|| quantile(&mut after, 0.9) / level)
}

/// An update norm above this many times its level is a burst.
const BURST: f64 = 5.0;

fn u_bursts(c: &Context<'_>) -> Option<f64> {
    let near = just_before(c);
    let level = c.median(
        "update_norm",
        c.onset - near - 128.0_f64.max(16.0 * c.spacing),
        c.onset - near,
    )?;
    let w = c.window("update_norm", c.onset - near, c.onset + 100.0);
    let (mut bursts, mut quiet) = (0_u32, 3_u32);
    for u in &w.y {
        if *u > BURST * level {
            bursts += u32::from(quiet >= 3);
            quiet = 0;
        } else {
            quiet += 1;
        }
    }
    (!w.is_empty() && level > 0.0).then_some(f64::from(bursts))
}

fn m_over_v(c: &Context<'_>) -> Option<f64> {
    Some(highest_z(c, "first_moment")? - highest_z(c, "second_moment")?)
}

fn v_drop(c: &Context<'_>) -> Option<f64> {
    let near = 50.0_f64.max(3.0 * c.spacing);
    let level = c.median(
        "second_moment",
        c.onset - near - 128.0_f64.max(16.0 * c.spacing),
        c.onset - near,
    )?;
    let w = c.window("second_moment", c.onset - near, c.onset + 1.0);
    let lowest = w.y.iter().copied().reduce(f64::min)?;
    (level > 0.0).then(|| lowest / level)
}

fn v_staleness(c: &Context<'_>) -> Option<f64> {
    let beta2 = c.run.beta2()?;
    if !c.every_step() {
        return None;
    }
    let memory = 1.0 / (1.0 - beta2);
    let w = c.window("grad_norm", c.onset - 10.0 * memory, c.onset);
    let mut average = w.y.first()?.powi(2);
    let mut since = 0.0;
    for g in &w.y {
        average = beta2 * average + (1.0 - beta2) * g * g;
        since = if g * g < 0.5 * average {
            since + 1.0
        } else {
            0.0
        };
    }
    (w.len() as f64 >= memory).then(|| since / memory)
}

/// Names under which frameworks print epsilon of Adam.
const EPSILON: [&str; 5] = [
    "adam_eps",
    "adam_epsilon",
    "eps",
    "optim_adam_eps",
    "epsilon",
];

fn eps_ratio(c: &Context<'_>) -> Option<f64> {
    let epsilon = c.run.fact(&EPSILON).filter(|e| *e > 0.0)?;
    let parameters = c.parameters()?;
    let from = c.onset - 128.0_f64.max(16.0 * c.spacing);
    let norm = c.median("grad_norm", from, c.onset)?;
    Some(norm / parameters.sqrt() / epsilon)
}
