//! F21–F25: the update norm and the state of the optimizer.

use crate::baseline::{median_of, quantile};
use crate::features::context::Context;
use crate::features::gradient::{AWAY, highest_z, lead};
use crate::features::{Feature, number};

pub(super) const FEATURES: &[Feature] = &[
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
        "upper tenth of update norm over learning rate 10 to 60 steps after the onset, against before the onset; of steps \
         that are still to come the least is assumed",
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

/// Rows just before an onset: eight steps, at least two rows.
fn just_before(c: &Context<'_>) -> f64 {
    8.0_f64.max(2.0 * c.spacing)
}

/// From and until which step the level is measured: 128 steps, at least 16 rows, up to so many steps before the onset.
fn before(c: &Context<'_>, near: f64) -> (f64, f64) {
    let until = c.onset - near;
    (until - 128.0_f64.max(16.0 * c.spacing), until)
}

fn level(c: &Context<'_>, signal: &str, near: f64) -> Option<f64> {
    let (from, until) = before(c, near);
    c.median(signal, from, until)
}

fn u_before(c: &Context<'_>) -> Option<f64> {
    let level = level(c, "update_norm", just_before(c))?;
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
    let (from, until) = before(c, just_before(c));
    let before = ratio_series(c, from, until);
    let at = ratio_series(c, until, c.onset + 1.0);
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
    let (from, until) = before(c, just_before(c));
    let before = ratio_series(c, from, until);
    let mut after = ratio_series(c, c.onset + 10.0, c.onset + 61.0);
    let level = median_of(&before);
    if before.len() < 3 || after.len() < 3 || level <= 0.0 {
        return None;
    }
    // Of rows that are still to come the least is assumed: this much it will be whatever they hold.
    let whole = c.incident.waited >= 60;
    let rows = (50.0 / c.spacing) as usize + 1;
    if !whole && after.len() < rows {
        after.resize(rows, 0.0);
    }
    Some(quantile(&mut after, 0.9) / level)
}

/// An update norm above this many times its level is a burst.
const BURST: f64 = 5.0;

fn u_bursts(c: &Context<'_>) -> Option<f64> {
    let near = just_before(c);
    let level = level(c, "update_norm", near)?;
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
    let level = level(c, "second_moment", near)?;
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
    let norm = level(c, "grad_norm", 0.0)?;
    Some(norm / parameters.sqrt() / epsilon)
}
