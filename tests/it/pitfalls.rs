//! The pitfalls of rules/SOURCES.md that `detect.rs` leaves: averages, masks, smoothing, samples, clipping, settings.

use whyspike::cautions::{Caution, cautions};
use whyspike::detect::{Kind, Shape, detect, detect_knowing};
use whyspike::plan::Action;
use whyspike::run::{BuildOptions, Column, Rows, Run};

use crate::support::{Curve, Noise, RULES, built, diagnosed};

/// Loss about 2.5 and a gradient norm, 1 % and 0.05 decades of noise.
fn calm(seed: u64, rows: usize) -> Curve {
    let mut noise = Noise::new(seed);
    let mut norms = Noise::new(seed + 500);
    let loss = |i: usize| 2.5 - 1e-5 * i as f64 + 8.3 * (-(i as f64) / 12.0).exp();
    Curve::of_loss((0..rows).map(|i| loss(i) * (1.0 + 0.01 * noise.normal()))).with(
        "grad_norm",
        (0..rows).map(|_| 0.3 * 10_f64.powf(0.05 * norms.normal())),
    )
}

fn without_norm(mut curve: Curve) -> Curve {
    curve.columns.retain(|(n, _)| *n != "grad_norm");
    curve
}

fn all(run: &Run) -> Vec<Caution> {
    cautions(run, detect_knowing(run, None).smoothed)
}

fn kinds(run: &Run) -> Vec<&'static str> {
    all(run).iter().map(Caution::name).collect()
}

/// The means of every k rows, as Megatron's console prints them.
fn means(curve: &Curve, every: usize) -> Run {
    let mut rows = Rows::default();
    let losses: Vec<f64> = curve.columns[0].1.iter().flatten().copied().collect();
    let slot = rows.slot("loss");
    for (i, part) in losses.chunks(every).enumerate() {
        rows.begin(((i + 1) * every) as u64);
        rows.set(slot, part.iter().sum::<f64>() / part.len() as f64);
    }
    let averaged = BuildOptions {
        averaged: true,
        ..BuildOptions::default()
    };
    built(rows, averaged)
}

/// T01: a spike of one step shows with a tenth of its height in a mean of ten; it is found if that stands out, and the
/// reader is told.
#[test]
fn t01_a_spike_through_a_mean_of_ten() {
    let mut curve = calm(1, 8000);
    curve.raise(6004, 3.0);
    let run = means(&curve, 10);
    let found = detect(&run);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(run.steps[found[0].onset_row], 6010);
    assert!(found[0].excess.is_some_and(|x| (0.25..0.35).contains(&x)));
    assert_eq!(all(&run), [Caution::Averaged { steps: 10 }]);
    assert!(kinds(&curve.run()).is_empty());
}

/// T02: the mean of an interval leaves its NaN steps out; the count beside it does not.
#[test]
fn t02_a_number_beside_a_count_of_nan_is_no_sound_row() {
    let mut curve = calm(2, 900).with("nan", (0..900).map(|i| f64::from(u8::from(i == 600))));
    let run = curve.run();
    let found = detect(&run);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].kind, run.steps[found[0].onset_row]),
        (Kind::NonFinite, 601)
    );
    curve.column("nan")[600] = Some(0.0);
    assert!(curve.incidents().1.is_empty());
}

/// T04: a gradient norm printed as 0.000 was not computed.
#[test]
fn t04_a_norm_of_zero_is_no_measurement() {
    let mut curve = calm(4, 900);
    curve.column("grad_norm").fill(Some(0.0));
    curve.raise(601, 1.0);
    let d = diagnosed(curve.run(), "");
    assert_eq!(d.incidents.len(), 1);
    let features = &d.incidents[0].features;
    for name in ["g_z", "g_lead", "norm_ratio"] {
        let value = features.iter().find(|(n, _)| **n == name);
        assert!(value.is_none_or(|(_, v)| v.is_none()), "{name}");
    }
}

/// An exponential mean with this weight of the past.
fn smoothed(curve: &Curve, weight: f64) -> Curve {
    let mut last = None;
    let mut out = without_norm(curve.clone());
    for loss in out.column("loss") {
        let next = loss.map(|v| last.map_or(v, |l: f64| weight * l + (1.0 - weight) * v));
        (last, *loss) = (next, next);
    }
    out
}

/// T05: a smoothed log wanders without an event, and the reader is told that it is smoothed.
#[test]
fn t05_a_smoothed_log_is_told_and_gives_no_alarm() {
    for (seed, weight) in [(50, 0.9), (51, 0.97), (52, 0.99), (53, 0.99)] {
        let curve = smoothed(&calm(seed, 6000), weight);
        let (run, found) = curve.incidents();
        assert!(found.is_empty(), "{weight}: {found:?}");
        assert_eq!(kinds(&run), ["smoothed"], "{weight}");
    }
    let mut curve = calm(54, 6000);
    (0..1000).for_each(|n| curve.raise(4001 + n, 3.0));
    let (run, found) = smoothed(&curve, 0.9).incidents();
    assert_eq!(found.len(), 1, "what lasts is found: {found:?}");
    assert!(run.steps[found[0].onset_row].abs_diff(4001) <= 20);
    assert!(kinds(&calm(55, 6000).run()).is_empty());
}

/// T06: a sample of a history misses short spikes.
#[test]
fn t06_a_sampled_history_is_told() {
    let exported = |rows: Rows| {
        let options = BuildOptions {
            format: "csv".into(),
            ..BuildOptions::default()
        };
        kinds(&built(rows, options))
    };
    let mut uneven = Noise::new(60);
    let mut sample = Rows::default();
    let slot = sample.slot("loss");
    let mut step = 0;
    for _ in 0..500 {
        step += 30 + (10.0 * uneven.uniform()) as u64;
        sample.begin(step);
        sample.set(slot, 2.5 + 0.02 * uneven.normal());
    }
    assert_eq!(exported(sample.clone()), ["sampled"]);
    sample.steps = (1..=500).map(|i| i * 30).collect();
    assert!(exported(sample).is_empty(), "500 rows of a trainer");
}

/// T09: a change of mixture or of sequence length moves the loss and not the gradient norm.
#[test]
fn t09_another_level_without_the_norm_is_no_reason_to_go_back() {
    for (seed, by) in [(90, 0.06), (91, 0.1), (92, 0.3), (94, -0.4)] {
        let mut curve = calm(seed, 3000);
        (1501..=3000).for_each(|s| curve.raise(s, by));
        let d = diagnosed(curve.run(), "500,1000,1500,2000");
        for i in &d.incidents {
            assert_eq!(i.plan.action, Action::None, "{by}: {}", i.plan.why);
            let shape = i.incident.shape;
            assert!(
                shape == Shape::LevelShift || by < 0.1,
                "{by}: {}",
                shape.name()
            );
        }
        assert_eq!(d.incidents.len() + d.changes.len(), 1, "{by}");
        if (0.09..0.11).contains(&by) {
            assert_eq!(d.changes.len(), 1, "{by} is modest");
        }
    }
    // The same with a norm that moved is an incident.
    let mut curve = calm(95, 3000);
    (1501..=3000).for_each(|s| curve.raise(s, 0.1));
    for norm in &mut curve.column("grad_norm")[1500..] {
        *norm = norm.map(|g| 2.0 * g);
    }
    let found = detect_knowing(&curve.run(), None);
    assert_eq!((found.incidents.len(), found.changes.len()), (1, 0));
}

/// T11: whether the loss contains its auxiliary parts is not known.
#[test]
fn t11_parts_of_the_loss_are_told() {
    let curve = calm(11, 200).with("z_loss", (0..200).map(|_| 0.01));
    assert_eq!(
        all(&curve.run()),
        [Caution::Parts {
            names: vec!["z_loss".into()]
        }]
    );
}

/// T15: norms that were clipped before they were logged are no evidence.
#[test]
fn t15_clipped_norms_are_no_gradient_norms() {
    let mut curve = calm(15, 900);
    for norm in curve.column("grad_norm") {
        *norm = norm.map(|g| (g * 3.0).min(1.0));
    }
    curve.raise(601, 1.0);
    let d = diagnosed(curve.run(), "");
    assert!(d.run.column("grad_norm").is_none());
    assert!(d.missing.contains(&"grad_norm"));
    assert_eq!(d.cautions, [Caution::Clipped { at: 1.0 }]);
}

/// T21: the search for a loss scale skips the first updates at a learning rate of 0.
#[test]
fn t21_the_search_for_a_loss_scale_is_no_incident() {
    let rows: usize = 600;
    let skipped = |i: usize| i < 15;
    let mut noise = Noise::new(21);
    let loss = (0..rows).map(|i| {
        let since = i.saturating_sub(15) as f64;
        (2.5 + 8.3 * (-since / 40.0).exp()) * (1.0 + 0.005 * noise.normal())
    });
    let curve = Curve::of_loss(loss)
        .with(
            "skipped",
            (0..rows).map(|i| f64::from(u8::from(skipped(i)))),
        )
        .with(
            "loss_scale",
            (0..rows).map(|i| 2_f64.powf(32.0 - i.min(15) as f64)),
        )
        .with(
            "learning_rate",
            (0..rows).map(|i| if skipped(i) { 0.0 } else { 1e-4 }),
        );
    let (_, found) = curve.incidents();
    assert!(found.is_empty(), "{found:?}");
}

/// T22: a trainer that replaces NaN leaves a loss of zero beside a norm that is no number.
#[test]
fn t22_a_zero_beside_a_lost_norm_is_no_loss() {
    let mut curve = calm(22, 900);
    curve.column("loss")[700..].fill(Some(0.0));
    curve.column("grad_norm")[700..].fill(Some(f64::NAN));
    let run = curve.run();
    let found = detect(&run);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].kind, found[0].shape, run.steps[found[0].onset_row]),
        (Kind::NonFinite, Shape::Divergent, 701)
    );
    assert_eq!(all(&run), [Caution::Masked { rows: 200 }]);
}

/// T24: no rule recommends to skip updates above a fixed value: such thresholds have frozen runs.
#[test]
fn t24_no_remedy_is_an_absolute_threshold() {
    let fixed = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        let above = |w: &[&str]| {
            matches!(w[0], "above" | "over" | "exceeds" | ">")
                && w[1].starts_with(|c: char| c.is_ascii_digit())
        };
        text.contains("skip") && words.windows(2).any(above)
    };
    assert!(fixed("skip updates whose norm is above 2.0"));
    for rule in RULES.iter() {
        let text = format!("{:?}", rule.remedy);
        assert!(!fixed(&text), "{}: {text}", rule.cause);
    }
}

/// Losses of reinforcement learning: exactly zero for many steps, of both signs, some thousandths in size.
#[test]
fn losses_at_zero_have_finite_scores() {
    let mut noise = Noise::new(70);
    let sparse = Curve::of_loss((0..3000).map(|_| {
        let v = 0.01 * noise.normal();
        if noise.uniform() < 0.8 { 0.0 } else { v }
    }));
    let (_, found) = sparse.incidents();
    assert!(found.is_empty(), "{found:?}");
    let spiked = sparse.bumped(|i| if (2000..2004).contains(&i) { 0.8 } else { 0.0 });
    let (run, found) = spiked.incidents();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(run.steps[found[0].onset_row], 2001);
    assert!(
        found[0].score.is_some_and(|z| z > 6.0 && z < 1e4),
        "{:?}",
        found[0].score
    );
}

/// Sums over tokens instead of means, and losses below zero: nothing depends on the unit or the sign.
#[test]
fn the_unit_and_the_sign_of_a_loss_do_not_matter() {
    let mut curve = without_norm(calm(71, 1500));
    curve.raise(1001, 1.0);
    for (scale, shift) in [(4096.0, 0.0), (1.0, -9.0), (0.001, 0.0)] {
        let mut other = curve.clone();
        for loss in other.column("loss") {
            *loss = loss.map(|v| scale * v + shift);
        }
        let (run, found) = other.incidents();
        let onsets: Vec<u64> = found.iter().map(|i| run.steps[i.onset_row]).collect();
        assert_eq!(onsets, [1001], "{scale} {shift}");
    }
}

/// T23: ranks that print losses of their own are columns of their own; detection sees the reduced one.
#[test]
fn t23_one_ranks_spike_is_not_the_runs() {
    let mut rows = Rows::default();
    let curve = calm(23, 900);
    rows.steps.clone_from(&curve.steps);
    let losses = curve.columns[0].1.clone();
    rows.put("loss", Column::from_options(losses.iter().copied()));
    let spiked = losses
        .iter()
        .enumerate()
        .map(|(i, v)| v.map(|v| if i == 600 { v + 3.0 } else { v }));
    rows.put("loss/rank3", Column::from_options(spiked));
    assert!(detect(&built(rows, BuildOptions::default())).is_empty());
}
