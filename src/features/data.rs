//! F42–F48 and the outcomes of replays: the data, and what happened when the steps were run again.

use crate::baseline::{mad, median_of, residuals};
use crate::features::context::Context;
use crate::features::{Feature, boolean, later, number};
use crate::replay::{self, Data, OtherKind, Outcome};

pub(super) const FEATURES: &[Feature] = &[
    number(
        "F42",
        "rank_gap",
        "sd",
        "128",
        &["max_rank_loss", "loss"],
        "highest z of the largest loss of any rank over the mean loss, from the onset to the peak",
        rank_gap,
    ),
    number(
        "F43",
        "source_localised",
        "sd",
        "128",
        &["loss of each data source"],
        "largest z of the loss of a data source, less the median z of all of them, from the onset to the peak",
        source_localised,
    ),
    number(
        "F44",
        "batch_ref_z",
        "sd",
        "40",
        &["another run of the same data order (--replay)"],
        "z of the same batch's loss in another run, under other weights",
        batch_ref_z,
    ),
    number(
        "F45",
        "replay_corr",
        "r",
        "20 rows or more",
        &["a later attempt over the same steps"],
        "correlation of the losses of a later attempt with this one at the same steps before the onset",
        |c| first_replay(c).and_then(|r| r.correlation),
    ),
    number(
        "F45b",
        "replay_lag",
        "rows",
        "50",
        &["a later attempt over the same steps"],
        "lag at which that correlation is highest, if it is above 0.8",
        |c| {
            first_replay(c)
                .and_then(|r| r.best_lag)
                .filter(|(_, r)| *r > 0.8)
                .map(|(lag, _)| lag as f64)
        },
    ),
    number(
        "F46",
        "self_repeat",
        "r",
        "50",
        &["loss"],
        "highest correlation of the losses around the onset with an earlier stretch of the same run",
        self_repeat,
    ),
    number(
        "F47",
        "val_gap",
        "sd",
        "evaluation",
        &["val_loss", "loss"],
        "z of the training loss minus that of the validation loss after the onset",
        val_gap,
    ),
    later(
        "F48",
        "ngram_flag",
        "sequences",
        "",
        &["tokens of the batches"],
        "sequences with 32 or more short repeats",
    ),
    boolean(
        "E0",
        "seen_before",
        "10",
        &["an earlier attempt over the same steps"],
        "an earlier attempt met it at the same step, far from any restart",
        seen_before,
    ),
    boolean(
        "E1",
        "recurs_same",
        "horizon",
        &["a replay of the same data"],
        "it came again when the same data were run again",
        |c| {
            recurs(
                c,
                &|r| r.data == Data::Same && !lower_lr(r.lr_ratio),
                OtherKind::Same,
            )
        },
    ),
    boolean(
        "E2",
        "recurs_skip",
        "horizon",
        &["a replay with the batches skipped"],
        "it came again although the batches around the onset were skipped",
        |c| {
            let skipped = |r: &replay::Replay| {
                matches!(r.data, Data::Skipped { .. }) && !lower_lr(r.lr_ratio)
            };
            recurs(c, &skipped, OtherKind::Skip)
        },
    ),
    boolean(
        "E2b",
        "recurs_reseed",
        "horizon",
        &["a replay with another data order"],
        "it came again with the data in another order",
        |c| {
            recurs(
                c,
                &|r| r.data == Data::Other && !lower_lr(r.lr_ratio),
                OtherKind::Reseed,
            )
        },
    ),
    boolean(
        "E4",
        "recurs_lower_lr",
        "horizon",
        &["a replay with a lower learning rate"],
        "it came again although the learning rate was lowered by a tenth or more",
        |c| recurs(c, &|r| lower_lr(r.lr_ratio), OtherKind::LowerLr),
    ),
    boolean(
        "E5",
        "recurs_fp32",
        "horizon",
        &["a replay in higher precision (--replay)"],
        "it came again although attention, softmax or state were kept in higher precision",
        |c| given(c, OtherKind::Precision),
    ),
    boolean(
        "E6",
        "recurs_reset",
        "horizon",
        &["a replay with the optimizer reset (--replay)"],
        "it came again although the optimizer state was reset",
        |c| given(c, OtherKind::ResetOptimizer),
    ),
    boolean(
        "E3",
        "recurs_earlier",
        "horizon",
        &["a replay from an earlier checkpoint (--replay)"],
        "it came again with the same batches from an earlier checkpoint",
        |c| given(c, OtherKind::EarlierCheckpoint),
    ),
    boolean(
        "E8",
        "recurs_other_nodes",
        "horizon",
        &["a replay on other nodes (--replay)"],
        "it came again on other nodes",
        |c| given(c, OtherKind::OtherNodes),
    ),
    boolean(
        "E9",
        "recurs_sham",
        "horizon",
        &["a replay with a change that should not matter (--replay)"],
        "it came again although something was changed that should not matter",
        |c| given(c, OtherKind::Sham),
    ),
];

fn lower_lr(ratio: Option<f64>) -> bool {
    ratio.is_some_and(|r| r < 0.95)
}

fn first_replay<'a>(c: &'a Context<'_>) -> Option<&'a replay::Replay> {
    let all = c.replays().iter();
    all.map(|(_, r)| r).find(|r| r.correlation.is_some())
}

/// Whether the incident came again in the later attempts of a kind and in the runs that the user gave: true if in any,
/// false if in none of those that reach far enough.
fn recurs(
    c: &Context<'_>,
    kind: &dyn Fn(&replay::Replay) -> bool,
    given: OtherKind,
) -> Option<f64> {
    let own = c.replays().iter();
    let own = own
        .filter(|(_, r)| kind(r))
        .filter_map(|(b, _)| replay::outcome(c.run, c.incident, c.run, b, c.incidents));
    judged(
        &own.chain(replay::outcomes(c.run, c.incident, c.others, given))
            .collect::<Vec<_>>(),
    )
}

fn given(c: &Context<'_>, kind: OtherKind) -> Option<f64> {
    judged(&replay::outcomes(c.run, c.incident, c.others, kind).collect::<Vec<_>>())
}

fn judged(outcomes: &[Outcome]) -> Option<f64> {
    if outcomes.contains(&Outcome::Recurs) {
        return Some(1.0);
    }
    outcomes.contains(&Outcome::Gone).then_some(0.0)
}

fn batch_ref_z(c: &Context<'_>) -> Option<f64> {
    let elsewhere = c
        .others
        .iter()
        .filter(|o| matches!(o.kind, OtherKind::Twin | OtherKind::EarlierCheckpoint));
    elsewhere
        .filter_map(|o| replay::batch_z(c.run, c.incident, o))
        .reduce(f64::max)
}

fn rank_gap(c: &Context<'_>) -> Option<f64> {
    let gap = |from: f64, until: f64| -> Vec<f64> {
        let worst = c.window("max_rank_loss", from, until);
        (0..worst.len())
            .filter_map(|i| Some((worst.y[i], c.run.column("loss")?.finite(worst.rows[i])?)))
            .filter(|(_, mean)| *mean > 0.0)
            .map(|(worst, mean)| worst / mean)
            .collect()
    };
    let before = gap(c.onset - 128.0_f64.max(16.0 * c.spacing), c.onset);
    let centre = median_of(&before);
    let at = gap(c.onset, c.peak + 1.0).into_iter().reduce(f64::max)?;
    let scale = mad(&before, centre);
    (before.len() >= 8 && scale > 0.0).then(|| (at - centre) / scale)
}

/// What stands before the name of a data source in the name of its loss.
const OF_SOURCE: [&str; 5] = [
    "loss/",
    "train/loss/",
    "train_loss/",
    "loss_per_source/",
    "domain_loss/",
];
/// Parts of a loss that are no source.
const PARTS: [&str; 9] = [
    "aux", "eval", "val", "test", "z_loss", "total", "mtp", "balanc", "router",
];

fn source_localised(c: &Context<'_>) -> Option<f64> {
    let of_source = |name: &str| {
        let name = name.to_lowercase();
        let source = OF_SOURCE.iter().find_map(|p| name.strip_prefix(p));
        source.is_some_and(|s| !PARTS.iter().any(|p| s.contains(p)))
    };
    let z = |name: &str| {
        let before = c.window(name, c.onset - 128.0_f64.max(16.0 * c.spacing), c.onset);
        let centre = median_of(&before.y);
        let scale = mad(&before.y, centre);
        let at = c.max(name, c.onset, c.peak + 1.0)?;
        (before.len() >= 8 && scale > 0.0).then(|| (at - centre) / scale)
    };
    let names = c.run.columns().map(|(name, _)| name);
    let all: Vec<f64> = names.filter(|n| of_source(n)).filter_map(z).collect();
    let largest = all.iter().copied().reduce(f64::max)?;
    (all.len() >= 2).then(|| largest - median_of(&all))
}

/// Rows of the stretch that is looked for in the past.
const STRETCH: usize = 50;

/// Rows at the start of a run whose steep descent looks like any other steep descent.
const DESCENT: usize = 200;

fn self_repeat(c: &Context<'_>) -> Option<f64> {
    let all = c.window("loss", c.onset - 4000.0 * c.spacing, c.onset);
    let past = all.len().checked_sub(STRETCH)?;
    let from = if all.x[0] < DESCENT as f64 * c.spacing {
        DESCENT.min(past)
    } else {
        0
    };
    if past - from < 2 * STRETCH {
        return None;
    }
    let mut r = residuals(&all.y[from..], 20);
    let sd = mad(&r, 0.0);
    for v in &mut r {
        *v = v.clamp(-4.0 * sd, 4.0 * sd);
    }
    let (past, last) = r.split_at(r.len() - STRETCH);
    best_match(past, last)
}

/// A sum in four parts, which a processor adds side by side.
fn sum_of(w: &[f64], term: impl Fn(f64, usize) -> f64) -> f64 {
    let mut parts = [0.0; 4];
    for (n, four) in w.chunks(4).enumerate() {
        for (i, v) in four.iter().enumerate() {
            parts[i] += term(*v, 4 * n + i);
        }
    }
    parts.iter().sum()
}

/// The highest correlation of a stretch with any stretch of the past.
fn best_match(past: &[f64], last: &[f64]) -> Option<f64> {
    let n = last.len() as f64;
    let mean = last.iter().sum::<f64>() / n;
    let centred: Vec<f64> = last.iter().map(|v| v - mean).collect();
    let own = centred.iter().map(|v| v * v).sum::<f64>();
    // With one side centred the mean of the other falls out of the product.
    let correlation = |w: &[f64]| {
        let (sum, squares) = (sum_of(w, |v, _| v), sum_of(w, |v, _| v * v));
        let product = sum_of(w, |v, i| v * centred[i]);
        let spread = squares - sum * sum / n;
        (spread > 1e-12 * squares && own > 0.0).then(|| product / (spread * own).sqrt())
    };
    past.windows(last.len())
        .filter_map(correlation)
        .reduce(f64::max)
}

fn seen_before(c: &Context<'_>) -> Option<f64> {
    if c.attempt.index == 0 {
        return None;
    }
    let far_from_restart = |i: &crate::detect::Incident| {
        let start = c.run.steps[c.run.attempts[i.attempt as usize].rows.start] as f64;
        c.run.steps[i.onset_row] as f64 - start >= 100.0
    };
    let near = |i: &crate::detect::Incident| {
        (c.run.steps[i.onset_row] as f64 - c.onset).abs() <= 10.0 + 2.0 * c.spacing
    };
    let earlier = c
        .incidents
        .iter()
        .filter(|i| i.attempt < c.attempt.index && i.signal == c.incident.signal);
    let covered = c.run.attempts.iter().any(|a| {
        a.index < c.attempt.index
            && (c.run.steps[a.rows.end - 1] as f64) >= c.onset + 5.0 * c.spacing
    });
    covered.then(|| {
        f64::from(u8::from(
            earlier.into_iter().any(|i| near(i) && far_from_restart(i)),
        ))
    })
}

fn val_gap(c: &Context<'_>) -> Option<f64> {
    if !c.of_loss() {
        return None;
    }
    let horizon = c.onset + 2000.0_f64.max(20.0 * c.spacing);
    let before = c.window("val_loss", c.onset - 10_000.0 * c.spacing, c.onset);
    let after = c.window("val_loss", c.onset + 1.0, horizon);
    let train = c.window(
        "loss",
        *after.x.first()? - 10.0 * c.spacing,
        after.x.first()? + 1.0,
    );
    let scale = c.incident.level.scale;
    let last_before = median_of(&before.y[before.len().saturating_sub(3)..]);
    let moved = (after.y.first()? - last_before) / scale;
    let level = c.incident.level.at(*after.x.first()?);
    (before.len() >= 2 && !train.is_empty()).then(|| (median_of(&train.y) - level) / scale - moved)
}
