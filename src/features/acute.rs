//! F01–F13: the event itself and its shape.

use crate::baseline::{median, median_of, theil_sen};
use crate::detect::Series;
use crate::features::context::Context;
use crate::features::{Feature, boolean, number};

pub(super) const FEATURES: &[Feature] = &[
    number(
        "F01",
        "loss_z",
        "sd",
        "128",
        &["loss"],
        "robust z of the loss at its peak",
        loss_z,
    ),
    number(
        "F02",
        "loss_cusum",
        "sd",
        "128, frozen",
        &["loss"],
        "largest CUSUM of the loss from onset to peak",
        cusum,
    ),
    number(
        "F03",
        "onset_step",
        "step",
        "20",
        &["loss"],
        "first departure of loss, gradient norm or update norm",
        |c| Some(first_departure(c)),
    ),
    number(
        "F04",
        "peak_excess",
        "nats",
        "to the return",
        &["loss"],
        "highest loss above its level",
        |c| (c.incident.signal == "loss").then_some(c.incident.excess)?,
    ),
    number(
        "F05",
        "rise_time",
        "steps",
        "",
        &["loss"],
        "steps from onset to peak",
        |c| c.incident.peak_row.map(|_| c.peak - c.onset),
    ),
    number(
        "F06",
        "return_time",
        "steps",
        "2000",
        &["loss"],
        "steps from onset to the return",
        |c| {
            c.incident
                .return_row
                .map(|r| c.run.steps[r] as f64 - c.onset)
        },
    ),
    boolean(
        "F06b",
        "returned",
        "2000",
        &["loss"],
        "the loss came back",
        |c| Some(f64::from(u8::from(c.incident.return_row.is_some()))),
    ),
    number(
        "F06c",
        "waited",
        "steps",
        "",
        &["loss"],
        "steps logged since the onset",
        |c| Some(c.incident.waited as f64),
    ),
    number(
        "F07",
        "residual_shift",
        "nats",
        "200",
        &["loss"],
        "median loss above its old level after the return",
        |c| Some(c.incident.return_row.and(c.incident.residual)?.value),
    ),
    number(
        "F08",
        "post_slope",
        "nats/step",
        "100",
        &["loss"],
        "slope of the loss after the peak",
        post_slope,
    ),
    number(
        "F09",
        "decay_tau",
        "steps",
        "peak to return",
        &["loss"],
        "time constant of the way back",
        decay_tau,
    ),
    boolean(
        "F10",
        "foreshock",
        "20",
        &["loss"],
        "the loss left its level and was back before the main rise",
        |c| Some(f64::from(u8::from(foreshock(c)?))),
    ),
    number(
        "F11",
        "recurrence_gap",
        "steps",
        "5000",
        &["loss"],
        "median distance between the incidents of this attempt, three or more",
        recurrence_gap,
    ),
    number(
        "F11b",
        "recurrence_growth",
        "1",
        "5000",
        &["loss"],
        "Kendall's tau of the excess of successive peaks: 1 if each is higher than the last",
        recurrence_growth,
    ),
    number(
        "F12",
        "nonfinite",
        "rows",
        "200",
        &["loss"],
        "rows with a loss that is not finite or with skipped updates, from the onset on",
        nonfinite,
    ),
    number(
        "F13",
        "neg_shift",
        "sd",
        "50",
        &["loss"],
        "lowest z of the loss in the 50 steps before the onset",
        neg_shift,
    ),
];

fn loss_z(c: &Context<'_>) -> Option<f64> {
    (c.incident.signal == "loss").then_some(c.incident.score)?
}

fn excess(c: &Context<'_>, from: f64, until: f64) -> Series {
    let mut w = c.window("loss", from, until);
    for i in 0..w.len() {
        w.y[i] -= c.incident.level.at(w.x[i]);
    }
    w
}

fn cusum(c: &Context<'_>) -> Option<f64> {
    let w = excess(c, c.onset, c.peak + 1.0);
    let mut sum = 0.0_f64;
    let mut highest = 0.0_f64;
    for e in &w.y {
        sum = (sum + e / c.incident.level.scale - 0.5).max(0.0);
        highest = highest.max(sum);
    }
    (!w.is_empty()).then_some(highest)
}

/// z of log₁₀ norms at which they have left their level.
const AWAY: f64 = 4.0;

fn first_departure(c: &Context<'_>) -> f64 {
    let signals = ["grad_norm", "update_norm"];
    signals
        .iter()
        .filter_map(|s| c.departure(s, AWAY))
        .fold(c.onset, f64::min)
}

fn post_slope(c: &Context<'_>) -> Option<f64> {
    let w = excess(c, c.peak, c.peak + 100.0_f64.max(10.0 * c.spacing));
    (w.len() >= 5).then(|| theil_sen(&w.x, &w.y))?
}

fn decay_tau(c: &Context<'_>) -> Option<f64> {
    let back = c.run.steps[c.incident.return_row?] as f64;
    let w = excess(c, c.peak, back + 1.0);
    let (x, y): (Vec<f64>, Vec<f64>) =
        w.x.iter()
            .zip(&w.y)
            .filter(|(_, e)| **e > 0.0)
            .map(|(x, e)| (*x, e.ln()))
            .unzip();
    let slope = theil_sen(&x, &y).filter(|_| x.len() >= 4)?;
    (slope < 0.0).then(|| -1.0 / slope)
}

fn foreshock(c: &Context<'_>) -> Option<bool> {
    let w = excess(c, c.onset, c.peak);
    if c.peak - c.onset < 2.0 * c.spacing {
        return Some(false);
    }
    let z = |i: usize| w.y[i] / c.incident.level.scale;
    let first = (0..w.len().min(20)).find(|i| z(*i) > AWAY)?;
    Some((first + 1..w.len()).any(|i| z(i) < 2.0))
}

fn siblings(c: &Context<'_>) -> Vec<(f64, f64)> {
    let mine = |i: &&crate::detect::Incident| i.attempt == c.incident.attempt && i.signal == "loss";
    let at =
        |i: &crate::detect::Incident| (c.run.steps[i.onset_row] as f64, i.excess.unwrap_or(0.0));
    let near = |p: &(f64, f64)| (p.0 - c.onset).abs() <= 5000.0;
    let mut out: Vec<(f64, f64)> = c
        .incidents
        .iter()
        .filter(mine)
        .map(at)
        .filter(near)
        .collect();
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    out
}

fn recurrence_gap(c: &Context<'_>) -> Option<f64> {
    let all = siblings(c);
    let mut gaps: Vec<f64> = all.windows(2).map(|w| w[1].0 - w[0].0).collect();
    (gaps.len() >= 2).then(|| median(&mut gaps))
}

fn recurrence_growth(c: &Context<'_>) -> Option<f64> {
    let heights: Vec<f64> = siblings(c).iter().map(|(_, e)| *e).collect();
    (heights.len() >= 3).then(|| crate::baseline::kendall(&heights))?
}

fn nonfinite(c: &Context<'_>) -> Option<f64> {
    let loss = c.run.column("loss")?;
    let bad = |row: &usize| {
        loss.get(*row).is_some_and(|v| !v.is_finite())
            || c.run.value("skipped", *row).is_some_and(|v| v > 0.0)
            || c.run.value("nan", *row).is_some_and(|v| v > 0.0)
    };
    let until = c.onset + 200.0;
    let rows = c.incident.onset_row..c.attempt.rows.end;
    let near = rows.take_while(|r| c.run.steps[*r] as f64 <= until);
    Some(near.filter(bad).count() as f64)
}

fn neg_shift(c: &Context<'_>) -> Option<f64> {
    let w = c.window("loss", c.onset - 50.0_f64.max(8.0 * c.spacing), c.onset);
    if w.len() < 5 {
        return None;
    }
    let centre = median_of(&w.y);
    w.y.iter()
        .map(|y| (y - centre) / c.incident.level.scale)
        .reduce(f64::min)
}
