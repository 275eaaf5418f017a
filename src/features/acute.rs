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
        "highest loss above its level; over the whole episode, for a slow climb peaks later than any fixed window",
        |c| c.of_loss().then_some(c.incident.excess)?,
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
        "F11c",
        "recurrence_closing",
        "1",
        "5000",
        &["loss"],
        "Kendall's tau of successive distances between the incidents: -1 if they come closer and closer",
        recurrence_closing,
    ),
    number(
        "F12",
        "nonfinite",
        "updates",
        "200",
        &["loss"],
        "updates with a loss that is not finite, or that were skipped, from the onset on",
        nonfinite,
    ),
    number(
        "F13",
        "neg_shift",
        "sd",
        "50",
        &["loss"],
        "lowest z of the loss in the 50 steps before the onset",
        |c| below(c).into_iter().reduce(f64::min),
    ),
    number(
        "F13b",
        "neg_median",
        "sd",
        "50",
        &["loss"],
        "how far the median loss of the 50 steps before the onset lay below its level",
        |c| {
            let z = below(c);
            (!z.is_empty()).then(|| -median_of(&z))
        },
    ),
];

fn loss_z(c: &Context<'_>) -> Option<f64> {
    c.of_loss().then_some(c.incident.score)?
}

/// The loss above its level. Nothing for an incident of the gradient norm: its level is not that of the loss.
fn excess(c: &Context<'_>, from: f64, until: f64) -> Series {
    if !c.of_loss() {
        return Series::default();
    }
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

/// Steps before the onset, and after it, in which a foreshock may lie: the onset is that of the foreshock itself where
/// the two were found as one.
const FORESHOCK: f64 = 20.0;

fn foreshock(c: &Context<'_>) -> Option<bool> {
    let near = FORESHOCK.max(2.0 * c.spacing);
    let w = excess(c, c.onset - near, c.peak);
    let z = |i: usize| w.y[i] / c.incident.level.scale;
    let first = (0..w.len()).find(|i| w.x[*i] < c.onset + near && z(*i) > AWAY);
    let back = |first: usize| (first + 1..w.len()).any(|i| z(i) < 2.0);
    (!w.is_empty()).then(|| first.is_some_and(back))
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

fn recurrence_closing(c: &Context<'_>) -> Option<f64> {
    let gaps: Vec<f64> = siblings(c).windows(2).map(|w| w[1].0 - w[0].0).collect();
    (gaps.len() >= 2).then(|| crate::baseline::kendall(&gaps))?
}

fn recurrence_growth(c: &Context<'_>) -> Option<f64> {
    let heights: Vec<f64> = siblings(c).iter().map(|(_, e)| *e).collect();
    (heights.len() >= 3).then(|| crate::baseline::kendall(&heights))?
}

fn nonfinite(c: &Context<'_>) -> Option<f64> {
    let loss = c.run.column("loss")?;
    // A counter counts the updates of its row, which a loss that is not finite is one of.
    let bad = |row: usize| {
        let lost = loss.get(row).is_some_and(|v| !v.is_finite());
        let counted = ["skipped", "nan"].map(|s| c.run.value(s, row).unwrap_or(0.0));
        counted
            .into_iter()
            .fold(f64::from(u8::from(lost)), f64::max)
    };
    let until = c.onset + 200.0;
    let rows = c.incident.onset_row..c.attempt.rows.end;
    let near = rows.take_while(|r| c.run.steps[*r] as f64 <= until);
    Some(near.map(bad).sum())
}

/// z of the loss in the 50 steps before the onset; nothing where there are fewer than five rows.
fn below(c: &Context<'_>) -> Vec<f64> {
    let w = excess(c, c.onset - 50.0_f64.max(8.0 * c.spacing), c.onset);
    let z = w.y.iter().map(|e| e / c.incident.level.scale);
    z.filter(|_| w.len() >= 5).collect()
}
