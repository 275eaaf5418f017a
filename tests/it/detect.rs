//! Detection and shape on generated series: the pitfalls of rules/SOURCES.md and the forms an incident takes.

use whyspike::detect::{Incident, Kind, Shape, detect, detect_knowing};
use whyspike::features::Value;
use whyspike::plan::Action;
use whyspike::replay::{OtherKind, OtherRun, known};
use whyspike::run::{BuildOptions, EventKind, Run};

use crate::support::{Curve, Noise, built, diagnosed, fixture, read, shared};

/// Loss of a run from its start: a steep descent of some 100 steps, then a level that falls slowly; 1 % noise.
fn late(seed: u64, rows: usize) -> Curve {
    let mut noise = Noise::new(seed);
    let level = |i: usize| 2.5 - 1e-5 * i as f64 + 8.3 * (-(i as f64) / 12.0).exp();
    Curve::of_loss((0..rows).map(|i| level(i) * (1.0 + 0.01 * noise.normal())))
}

/// The same with a gradient norm.
fn late_with_norm(seed: u64, rows: usize) -> Curve {
    let mut noise = Noise::new(seed + 1000);
    late(seed, rows).with(
        "grad_norm",
        (0..rows).map(|_| 0.3 * 10_f64.powf(0.05 * noise.normal())),
    )
}

fn step(run: &Run, row: usize) -> u64 {
    run.steps[row]
}

fn told(run: &Run, found: &[Incident]) -> String {
    let each = |i: &Incident| {
        let at = |row: Option<usize>| row.map(|r| step(run, r));
        format!(
            "attempt {} {} {}: onset {}, peaks {:?}, return {:?}, {} open {}",
            i.attempt,
            i.signal,
            i.kind.name(),
            step(run, i.onset_row),
            i.peaks.iter().map(|p| step(run, *p)).collect::<Vec<_>>(),
            at(i.return_row),
            i.shape.name(),
            i.open
        )
    };
    found.iter().map(each).collect::<Vec<_>>().join("\n")
}

/// The only incident of a curve.
fn only(curve: &Curve) -> (Run, Incident) {
    let (run, mut found) = curve.incidents();
    assert_eq!(found.len(), 1, "{}", told(&run, &found));
    (run, found.remove(0))
}

fn silent(curve: &Curve, name: &str) {
    let (run, found) = curve.incidents();
    assert!(found.is_empty(), "{name}: {}", told(&run, &found));
}

fn between(value: u64, from: u64, until: u64) {
    assert!(
        (from..=until).contains(&value),
        "{value} is not in {from}..={until}"
    );
}

// ---- the forms ----

#[test]
fn a_spike_of_one_row() {
    for seed in 1..6 {
        let mut curve = late(seed, 800);
        curve.raise(500, 1.0);
        let (run, i) = only(&curve);
        assert_eq!(
            (step(&run, i.onset_row), i.peak_row.map(|r| step(&run, r))),
            (500, Some(500))
        );
        between(i.return_row.map(|r| step(&run, r)).expect("back"), 501, 502);
        assert_eq!(
            (i.kind, i.shape, i.open, i.signal),
            (Kind::Acute, Shape::Transient, false, "loss")
        );
        let excess = i.excess.expect("a peak");
        assert!((0.9..1.1).contains(&excess), "{excess}");
        assert!(
            !i.level.prior && i.score.is_some_and(|z| (25.0..60.0).contains(&z)),
            "{i:?}"
        );
    }
}

#[test]
fn a_foreshock_and_a_slow_way_back() {
    let mut curve = late(7, 1200);
    for (n, by) in [0.4, 0.04, 0.15, 2.9, 1.3, 1.0].into_iter().enumerate() {
        curve.raise(600 + n as u64, by);
    }
    for n in 0..60 {
        curve.raise(606 + n, 0.8 * (-(n as f64) / 15.0).exp());
    }
    let (run, i) = only(&curve);
    assert_eq!(
        (step(&run, i.onset_row), i.peak_row.map(|r| step(&run, r))),
        (600, Some(603))
    );
    between(i.return_row.map(|r| step(&run, r)).expect("back"), 625, 670);
    assert!(matches!(i.shape, Shape::Transient | Shape::Recoverable) && !i.open);
}

/// A row of 5 standard deviations is no alarm, but it is part of the event that follows within 20 steps.
#[test]
fn a_foreshock_too_small_for_an_alarm_is_the_onset() {
    let quiet = |spike: f64| {
        let mut curve = late(9, 900);
        curve.column("loss")[589] = Some(2.494 + 0.13);
        curve.raise(600, spike);
        curve
    };
    silent(&quiet(0.0), "5 standard deviations");
    let (run, i) = only(&quiet(1.5));
    assert_eq!(
        (step(&run, i.onset_row), i.peak_row.map(|r| step(&run, r))),
        (590, Some(600))
    );
}

#[test]
fn a_slow_way_back_of_hundreds_of_steps_is_recoverable() {
    let mut curve = late(8, 2500);
    for n in 0..1500 {
        curve.raise(700 + n, 2.0 * (-(n as f64) / 150.0).exp());
    }
    let (run, i) = only(&curve);
    assert_eq!(step(&run, i.onset_row), 700);
    between(
        i.return_row.map(|r| step(&run, r)).expect("back"),
        850,
        1500,
    );
    assert_eq!((i.shape, i.open), (Shape::Recoverable, false));
}

#[test]
fn a_slow_climb_without_a_single_high_row_is_chronic_and_divergent() {
    for seed in 10..14 {
        let mut curve = late(seed, 1000);
        for n in 0..300 {
            curve.raise(701 + n, 0.002 * n as f64);
        }
        let (run, i) = only(&curve);
        assert_eq!(i.kind, Kind::Chronic);
        between(step(&run, i.onset_row), 680, 740);
        assert_eq!((i.shape, i.return_row), (Shape::Divergent, None));
    }
}

#[test]
fn a_level_shift_settles() {
    let mut curve = late(20, 1600);
    for s in 801..=1600 {
        curve.raise(s, 0.08);
    }
    let (run, i) = only(&curve);
    between(step(&run, i.onset_row), 790, 812);
    assert_eq!(
        i.return_row,
        None,
        "{}",
        told(&run, std::slice::from_ref(&i))
    );
    assert!(
        !matches!(i.shape, Shape::Transient | Shape::Recoverable),
        "{}",
        i.shape.name()
    );
    assert!(
        i.residual.is_some_and(|r| (0.06..0.10).contains(&r.value)),
        "{:?}",
        i.residual
    );
}

#[test]
fn a_spike_that_comes_back_part_of_the_way_is_a_level_shift() {
    let mut curve = late(21, 1600);
    curve.raise(801, 1.5);
    curve.raise(802, 0.8);
    for s in 803..=1600 {
        curve.raise(s, 0.15);
    }
    let (run, i) = only(&curve);
    assert_eq!(
        (step(&run, i.onset_row), i.peak_row.map(|r| step(&run, r))),
        (801, Some(801))
    );
    assert_eq!((i.shape, i.return_row), (Shape::LevelShift, None));
    assert!(
        i.residual.is_some_and(|r| (0.12..0.18).contains(&r.value)),
        "{:?}",
        i.residual
    );
}

/// Marin 32B: from 1.96 to 2.02, then 1.975 for good (rules/SOURCES.md).
#[test]
fn what_comes_back_but_for_a_little_is_a_level_shift() {
    for seed in 60..64 {
        let mut noise = Noise::new(seed);
        let after = |i: usize| match i {
            900..910 => 0.06,
            910.. => 0.015,
            _ => 0.0,
        };
        let curve = Curve::of_loss((0..1500).map(|i| 1.96 + after(i) + 0.008 * noise.normal()));
        let (run, i) = only(&curve);
        between(step(&run, i.onset_row), 899, 903);
        assert_eq!(
            i.shape,
            Shape::LevelShift,
            "{}",
            told(&run, std::slice::from_ref(&i))
        );
        let d = diagnosed(run, "500");
        assert_eq!(d.incidents[0].plan.action, Action::None);
    }
}

#[test]
fn a_loss_that_stays_up_is_divergent() {
    let mut curve = late(22, 1200);
    for s in 601..=1200 {
        curve.raise(s, 4.0);
    }
    let (run, i) = only(&curve);
    assert_eq!(step(&run, i.onset_row), 601);
    assert_eq!((i.shape, i.return_row), (Shape::Divergent, None));
}

#[test]
fn nan_to_the_end() {
    let mut curve = late(23, 700);
    curve.column("loss")[500..].fill(Some(f64::NAN));
    let (run, i) = only(&curve);
    assert_eq!(
        (step(&run, i.onset_row), i.kind, i.shape, i.open),
        (501, Kind::NonFinite, Shape::Divergent, false)
    );
    assert_eq!((i.peak_row, i.peak, i.return_row), (None, None, None));
}

#[test]
fn nan_after_a_climb_is_one_incident() {
    let mut curve = late(24, 700);
    for (n, by) in [0.5, 1.0, 2.0, 4.0, 8.0].into_iter().enumerate() {
        curve.raise(496 + n as u64, by);
    }
    curve.column("loss")[500..].fill(Some(f64::NAN));
    let (run, i) = only(&curve);
    assert_eq!(
        (step(&run, i.onset_row), i.peak_row.map(|r| step(&run, r))),
        (496, Some(500))
    );
    assert_eq!((i.shape, i.return_row), (Shape::Divergent, None));
}

#[test]
fn a_collapse_to_zero() {
    let mut curve = late(25, 700);
    curve.column("loss")[500..].fill(Some(0.0));
    let (run, i) = only(&curve);
    assert_eq!(
        (step(&run, i.onset_row), i.kind, i.shape),
        (501, Kind::NonFinite, Shape::Divergent)
    );
    assert_eq!(i.return_row, None);
}

#[test]
fn a_loss_that_is_learnt_to_zero_has_not_collapsed() {
    let mut noise = Noise::new(26);
    let mut curve =
        Curve::of_loss((0..900).map(|i| {
            (2.0 * (-f64::from(i) / 60.0).exp() * (1.0 + 0.01 * noise.normal())).max(0.0)
        }));
    for loss in curve.column("loss") {
        *loss = loss.map(|v| (v * 1e4).round() / 1e4);
    }
    silent(&curve, "an overfit model");
}

#[test]
fn a_gradient_norm_alone_is_told_and_is_no_loss_incident() {
    let mut curve = late_with_norm(27, 900);
    curve.column("grad_norm")[600] = Some(450.0);
    let (run, i) = only(&curve);
    assert_eq!((i.signal, step(&run, i.onset_row)), ("grad_norm", 601));
    let d = diagnosed(run, "");
    assert_eq!(d.incidents[0].plan.action, Action::None);
}

#[test]
fn the_return_of_the_gradient_norm_is_told_apart() {
    let mut curve = late_with_norm(28, 900);
    curve.raise(601, 1.0);
    curve.column("grad_norm")[599..630].fill(Some(60.0));
    let (run, i) = only(&curve);
    assert_eq!((i.signal, step(&run, i.onset_row)), ("loss", 601));
    assert_eq!(i.return_row.map(|r| step(&run, r)), Some(602));
    assert_eq!(i.grad_return_row.map(|r| step(&run, r)), Some(631));
}

// ---- excerpts ----

#[test]
fn a_quiet_excerpt_of_ten_lines_gives_nothing() {
    for seed in 0..20 {
        let mut noise = Noise::new(seed);
        let mut curve = Curve::of_loss((0..10).map(|_| 2.2 * (1.0 + 0.01 * noise.normal())));
        curve.steps.iter_mut().for_each(|s| *s += 31_000);
        silent(&curve, "ten rows");
        // With a hole in the middle: gaps are not bridged.
        curve.steps[5..].iter_mut().for_each(|s| *s += 4000);
        curve.column("loss")[5..]
            .iter_mut()
            .for_each(|l| *l = l.map(|v| v - 0.3));
        silent(&curve, "ten rows with a hole");
    }
}

#[test]
fn the_spike_of_bloom_176b_stands_out_of_ten_lines() {
    let run = read(fixture("runs/bloom-176b/spike-2022-04-12.log"));
    let found = detect(&run);
    let [i] = found.as_slice() else {
        panic!("{}", told(&run, &found))
    };
    assert_eq!(
        (step(&run, i.onset_row), i.peak_row.map(|r| step(&run, r))),
        (31216, Some(31219))
    );
    assert_eq!(i.return_row.map(|r| step(&run, r)), Some(31250));
    assert!(
        i.return_is_bound && i.level.prior,
        "few rows before it and a hole after it"
    );
    assert_eq!((i.shape, i.open), (Shape::Transient, false));
}

#[test]
fn the_corpus_gives_what_its_manifest_says() {
    for (name, onsets) in [
        (
            "megatron-console__bloom-tr11-176B-chronicle-lines.log",
            [31214..=31216].as_slice(),
        ),
        (
            "megatron-console__bloom-tr8b-104B-chronicle-lines.log",
            &[17062..=17062],
        ),
        ("hf-trainer-state__nsllm.json", &[]),
        ("llamafactory-trainer-log-jsonl__nsllm.jsonl", &[]),
    ] {
        let Some(path) = shared(&format!("corpus/{name}")) else {
            return;
        };
        let run = read(path);
        let found = detect(&run);
        assert_eq!(found.len(), onsets.len(), "{name}: {}", told(&run, &found));
        for (i, onset) in found.iter().zip(onsets) {
            between(step(&run, i.onset_row), *onset.start(), *onset.end());
        }
    }
}

// ---- invariances ----

/// Curves with every form of incident.
fn eventful() -> Vec<Curve> {
    let mut spike = late_with_norm(30, 900);
    spike.raise(600, 0.8);
    spike.column("grad_norm")[598] = Some(9.0);
    let mut climb = late_with_norm(31, 900);
    (0..250).for_each(|n| climb.raise(651 + n, 0.003 * n as f64));
    let mut shift = late_with_norm(32, 1400);
    (701..=1400).for_each(|s| shift.raise(s, 0.2));
    let mut lost = late_with_norm(33, 800);
    lost.column("loss")[700..].fill(Some(f64::INFINITY));
    let mut twice = late_with_norm(34, 1200);
    twice.raise(500, 1.0);
    twice.raise(800, 1.2);
    vec![spike, climb, shift, lost, twice]
}

#[test]
fn twice_the_loss_leaves_the_onset_where_it_was() {
    for curve in eventful() {
        let mut scaled = curve.clone();
        scaled
            .column("loss")
            .iter_mut()
            .for_each(|l| *l = l.map(|v| 2.0 * v));
        let (run, found) = curve.incidents();
        let (other, again) = scaled.incidents();
        let places = |found: &[Incident]| -> Vec<(usize, Option<usize>, &str)> {
            found
                .iter()
                .map(|i| (i.onset_row, i.peak_row, i.kind.name()))
                .collect()
        };
        assert!(!found.is_empty());
        assert_eq!(
            places(&found),
            places(&again),
            "{}\n\n{}",
            told(&run, &found),
            told(&other, &again)
        );
    }
}

/// Every step that is reported of an incident.
fn reported(run: &Run, found: &[Incident]) -> Vec<u64> {
    let rows = found.iter().flat_map(|i| {
        [
            Some(i.onset_row),
            i.peak_row,
            i.return_row,
            i.grad_return_row,
        ]
        .into_iter()
        .flatten()
        .chain(i.peaks.clone())
    });
    rows.map(|r| step(run, r)).collect()
}

#[test]
fn shifted_steps_shift_what_is_reported() {
    for curve in eventful() {
        let mut later = curve.clone();
        later.steps.iter_mut().for_each(|s| *s += 1000);
        let ((run, found), (shifted, again)) = (curve.incidents(), later.incidents());
        let expected: Vec<u64> = reported(&run, &found)
            .into_iter()
            .map(|s| s + 1000)
            .collect();
        assert_eq!(reported(&shifted, &again), expected);
        let checkpoints = |by: u64| {
            (1..9)
                .map(|n| (100 * n + by).to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        let (a, b) = (
            diagnosed(run, &checkpoints(0)),
            diagnosed(shifted, &checkpoints(1000)),
        );
        for (x, y) in a.incidents.iter().zip(&b.incidents) {
            let back = x
                .plan
                .rollback
                .as_ref()
                .map(|r| (r.step + 1000, r.steps_lost));
            assert_eq!(
                y.plan.rollback.as_ref().map(|r| (r.step, r.steps_lost)),
                back
            );
            let skip = x.plan.skip.as_ref().map(|k| {
                k.steps
                    .iter()
                    .map(|(a, b)| (a + 1000, b + 1000))
                    .collect::<Vec<_>>()
            });
            assert_eq!(y.plan.skip.as_ref().map(|k| k.steps.clone()), skip);
        }
    }
}

#[test]
fn the_base_of_the_counter_moves_nothing() {
    let mut curve = late(35, 900);
    curve.raise(600, 0.8);
    let of = |base: u64| {
        let run = curve.run_from(base);
        let found = detect(&run);
        reported(&run, &found)
    };
    assert_eq!(of(0), of(1));
}

// ---- pitfalls ----

/// T03: fp16 overflow repeats a stale gradient norm.
#[test]
fn t03_a_stale_gradient_norm_is_no_plateau() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (mut loss, mut norm) = (Noise::new(40), Noise::new(41));
    let mut scale = 65536.0;
    let mut last = 0.3;
    let line = |s: u64| {
        let overflow = (301..=304).contains(&s);
        scale = if overflow { scale / 2.0 } else { scale };
        last = if overflow {
            last
        } else {
            0.3 * 10_f64.powf(0.05 * norm.normal())
        };
        format!(
            " iteration {s}/ 999 | lm loss: {:.6E} | loss scale: {scale:.1} | grad norm: {last:.3} | number of skipped \
             iterations:   {} | number of nan iterations:   0 |\n",
            2.5 + 0.025 * loss.normal(),
            u8::from(overflow)
        )
    };
    std::fs::write(&path, (1..=500).map(line).collect::<String>()).unwrap();
    let run = read(path);
    let missing: Vec<u64> = (0..run.len())
        .filter(|r| run.value("grad_norm", *r).is_none())
        .map(|r| run.steps[r])
        .collect();
    assert_eq!(missing, [301, 302, 303, 304]);
    let overflows: Vec<Option<u64>> = run
        .events
        .iter()
        .filter(|e| e.kind == EventKind::Overflow)
        .map(|e| e.step)
        .collect();
    assert_eq!(overflows, [Some(301), Some(302), Some(303), Some(304)]);
    let found = detect(&run);
    assert!(found.is_empty(), "{}", told(&run, &found));
}

/// T07: a steep descent is neither an alarm nor a veil.
#[test]
fn t07_a_steep_descent_hides_nothing() {
    let descent = |seed: u64| {
        let mut noise = Noise::new(seed);
        Curve::of_loss((0..1500).map(|i| {
            (2.0 + 9.0 * (1.0 + f64::from(i) / 60.0).powf(-0.8)) * (1.0 + 0.008 * noise.normal())
        }))
    };
    for seed in 50..54 {
        silent(&descent(seed), "a descent");
        let mut curve = descent(seed);
        curve.raise(900, 0.4);
        let (run, i) = only(&curve);
        assert_eq!(step(&run, i.onset_row), 900);
    }
}

/// T08: at the knots of a batch-size ramp the noise and the gradient norm change; no alarm.
#[test]
fn t08_a_batch_ramp_raises_no_alarm() {
    for seed in 60..64 {
        let mut noise = Noise::new(seed);
        let batch: Vec<f64> = (0..1500).map(|i| 64.0 * 2_f64.powi(i / 300)).collect();
        let loss: Vec<f64> = batch
            .iter()
            .map(|b| 2.5 + 0.06 * (64.0 / b).sqrt() * noise.normal())
            .collect();
        let norm: Vec<f64> = batch
            .iter()
            .map(|b| (0.04 + 1.0 / b).sqrt() * 10_f64.powf(0.04 * noise.normal()))
            .collect();
        let mut read = 0.0;
        let samples: Vec<f64> = batch
            .iter()
            .map(|b| {
                read += b;
                read
            })
            .collect();
        let curve = Curve::of_loss(loss)
            .with("grad_norm", norm)
            .with("global_batch_size", batch)
            .with("consumed_samples", samples);
        silent(&curve, "a batch ramp");
    }
}

/// T10: after a rollback the same steps are there twice; neither is merged into the other.
#[test]
fn t10_a_rollback_keeps_the_spike_that_caused_it() {
    let mut first = late(70, 700);
    (0..100).for_each(|n| first.raise(601 + n, 3.0));
    let again = late(71, 900);
    let rest = Curve {
        steps: again.steps[500..].to_vec(),
        columns: vec![("loss", again.columns[0].1[500..].to_vec())],
    };
    let (run, found) = first.then(&rest).incidents();
    assert_eq!((run.len(), run.attempts.len()), (1100, 2));
    assert_eq!(run.superseded_from(0), Some(501));
    let [i] = found.as_slice() else {
        panic!("{}", told(&run, &found))
    };
    assert_eq!((i.attempt, step(&run, i.onset_row)), (0, 601));
    assert!(i.onset_row < 700, "the row is that of the first attempt");
}

/// T12: flagged rows stay out of the level, so a second spike 20 steps later is found too.
#[test]
fn t12_a_second_spike_soon_after_is_found() {
    for gap in [20, 200] {
        let mut curve = late(72, 900);
        curve.raise(500, 1.0);
        curve.raise(500 + gap, 0.6);
        let (run, found) = curve.incidents();
        let peaks: Vec<u64> = found
            .iter()
            .flat_map(|i| &i.peaks)
            .map(|p| step(&run, *p))
            .collect();
        assert_eq!(peaks, [500, 500 + gap], "{}", told(&run, &found));
    }
}

/// T14: printed in bf16, with three decimals or four digits, most neighbouring rows are equal.
#[test]
fn t14_coarse_digits_give_finite_scores() {
    type Round = fn(f64) -> f64;
    let quanta: [(&str, Round); 3] = [
        ("bf16", |v| (v * 128.0).round() / 128.0),
        ("three digits", |v| (v * 100.0).round() / 100.0),
        ("four digits", |v| (v * 1000.0).round() / 1000.0),
    ];
    for (name, round) in quanta {
        for level in 0..8 {
            let coarse = |spike: f64| {
                let mut noise = Noise::new(73);
                let level = 1.65625 + f64::from(level) / 1024.0;
                let mut curve = Curve::of_loss((0..900).map(|_| level + 0.006 * noise.normal()));
                curve.raise(600, spike);
                curve
                    .column("loss")
                    .iter_mut()
                    .for_each(|l| *l = l.map(round));
                curve
            };
            let (run, found) = coarse(0.5).incidents();
            let spike = found.iter().find(|i| step(&run, i.onset_row) == 600);
            let spike = spike.unwrap_or_else(|| panic!("{name}: {}", told(&run, &found)));
            assert!(
                spike.score.is_some_and(|z| z > 20.0 && z < 1000.0),
                "{name}: {:?}",
                spike.score
            );
            let finite = found
                .iter()
                .all(|i| i.score.is_some_and(f64::is_finite) && i.level.scale > 1e-4);
            assert!(finite, "{name}: {}", told(&run, &found));
        }
    }
    let bf16 = |i: u32| {
        1.65625
            + if i.is_multiple_of(50) {
                0.007_812_5
            } else {
                0.0
            }
    };
    let mut flat = Curve::of_loss((0..400).map(bf16));
    flat.raise(310, 2.0 * 0.007_812_5);
    silent(&flat, "two quanta up");
}

/// T16: the first rows of a run and of a clean resume raise nothing.
#[test]
fn t16_silent_at_the_start_and_at_a_clean_resume() {
    for seed in 80..84 {
        let mut noise = Noise::new(seed);
        let mut value = |s: u64| {
            let descent = 2.5 + 8.4 * (1.0 + s as f64 / 25.0).powf(-0.9);
            descent * (1.0 + 0.01 * noise.normal())
        };
        let first = Curve::of_loss((1..=600).map(&mut value));
        let resumed: Vec<u64> = (501..=1000).collect();
        let loss: Vec<Option<f64>> = resumed.iter().map(|s| Some(value(*s))).collect();
        let curve = first.then(&Curve {
            steps: resumed,
            columns: vec![("loss", loss)],
        });
        assert_eq!(curve.run().attempts.len(), 2);
        silent(&curve, "a clean resume");
    }
}

/// T17: NaN and infinity are events of their own and never enter a statistic.
#[test]
fn t17_what_is_not_finite_never_enters_a_statistic() {
    let mut whole = late_with_norm(85, 900);
    whole.raise(700, 0.5);
    let (_, plain) = only(&whole);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut curve = whole.clone();
        curve.column("loss")[449] = Some(bad);
        curve.column("grad_norm")[600] = Some(bad);
        let (run, found) = curve.incidents();
        let kinds: Vec<(u64, Kind)> = found
            .iter()
            .map(|i| (step(&run, i.onset_row), i.kind))
            .collect();
        assert_eq!(kinds, [(450, Kind::NonFinite), (700, Kind::Acute)], "{bad}");
        let (a, b) = (
            found[1].score.expect("a score"),
            plain.score.expect("a score"),
        );
        assert!((a / b - 1.0).abs() < 0.1, "{bad}: {a} against {b}");
        assert!(found[1].level.value.is_finite() && found[1].level.scale.is_finite());
        let features = &diagnosed(run, "").incidents[1].features;
        let finite = features
            .values()
            .flatten()
            .all(|v| matches!(v, Value::Bool(_)) || v.number().is_finite());
        assert!(finite, "{features:?}");
    }
}

/// T18: a log that ends inside the event says so, and when to decide.
#[test]
fn t18_a_log_that_ends_inside_the_event_is_open() {
    let mut curve = late(86, 612);
    for n in 0..12 {
        curve.raise(601 + n, 2.0 * (-(n as f64) / 20.0).exp());
    }
    let (run, i) = only(&curve);
    assert_eq!(
        (step(&run, i.onset_row), i.open, i.return_row),
        (601, true, None)
    );
    assert_eq!(i.waited, 11);
    let plan = &diagnosed(run, "100,200,300,400,500,600").incidents[0].plan;
    assert_eq!(plan.action, Action::Wait, "{}", plan.why);
    assert!(plan.why.contains("decide at 661"), "{}", plan.why);
}

/// Healthy curves of many kinds: length, noise, interval, printed digits, schedule, restart.
fn healthy(seed: u64) -> Curve {
    let mut noise = Noise::new(seed);
    let rows = 1200 + (noise.uniform() * 1800.0) as usize;
    let spread = 0.003 + 0.017 * noise.uniform();
    let (floor, depth) = (1.5 + 2.0 * noise.uniform(), 10.8);
    let (fast, power) = (15.0 + 60.0 * noise.uniform(), 0.5 + 0.5 * noise.uniform());
    let every = [1, 1, 5, 10][(seed % 4) as usize];
    let digits = [1e9, 1e4, 1e3][(seed % 3) as usize];
    let spread = spread / f64::from(every).sqrt();
    let at = |i: usize| f64::from(every) * (i + 1) as f64;
    let decays = move |i: usize| 1.0 - 0.9 * i as f64 / rows as f64;
    let loss: Vec<f64> = (0..rows)
        .map(|i| {
            let trend = floor + (depth - floor) * (1.0 + at(i) / fast).powf(-power);
            (trend * (1.0 + spread * noise.normal()) * digits).round() / digits
        })
        .collect();
    let norm: Vec<f64> = (0..rows)
        .map(|i| {
            (0.3 + 3.0 * (-at(i) / 100.0).exp()) / decays(i).sqrt()
                * 10_f64.powf(0.05 * noise.normal())
        })
        .collect();
    let mut curve = Curve::of_loss(loss)
        .with("grad_norm", norm)
        .with("learning_rate", (0..rows).map(|i| 3e-4 * decays(i)));
    curve.steps.iter_mut().for_each(|s| *s *= every as u64);
    curve
}

/// T19, T20: a healthy run gives no alarm, its gradient norm rising as the learning rate decays or not.
#[test]
fn t19_twenty_healthy_runs_are_silent() {
    for seed in 0..20 {
        silent(&healthy(200 + seed), &format!("healthy run {seed}"));
    }
}

/// T25: an alarm near the threshold stays an alarm when rows are appended.
#[test]
fn t25_an_alarm_does_not_flip_when_a_row_is_appended() {
    for (seed, by) in [(90, 0.16), (91, 0.17), (92, 0.18), (93, 0.2), (94, 0.25)] {
        let mut curve = late(seed, 700);
        curve.raise(600, by);
        let seen: Vec<bool> = (600..700).map(|n| found_at(&curve.head(n), 600)).collect();
        assert!(
            seen.windows(2).all(|w| w[0] == w[1]),
            "seed {seed}: {seen:?}"
        );
    }
    for seed in 95..98 {
        let mut curve = late(seed, 900);
        (0..200).for_each(|n| curve.raise(701 + n, 0.0015 * n as f64));
        let seen: Vec<bool> = (700..900)
            .step_by(5)
            .map(|n| !curve.head(n).incidents().1.is_empty())
            .collect();
        let first = seen.iter().position(|s| *s).expect("a slow climb is found");
        assert!(seen[first..].iter().all(|s| *s), "seed {seed}: {seen:?}");
    }
}

fn found_at(curve: &Curve, onset: u64) -> bool {
    let (run, found) = curve.incidents();
    found
        .iter()
        .any(|i| step(&run, i.onset_row).abs_diff(onset) <= 1)
}

/// A log that prints every k-th step has fewer rows, not other windows.
#[test]
fn a_sparse_log_is_measured_in_steps() {
    for every in [5, 10, 50] {
        let mut curve = late(99, 400);
        curve.steps.iter_mut().for_each(|s| *s *= every);
        curve.raise(300 * every, 0.8);
        let (run, i) = only(&curve);
        assert_eq!(step(&run, i.onset_row), 300 * every);
        assert_eq!(i.return_row.map(|r| step(&run, r)), Some(301 * every));
    }
}

/// Rows that several hosts print of one step are one row.
#[test]
fn rows_of_other_signals_do_not_hide_the_loss() {
    let mut rows = whyspike::run::Rows::default();
    let (loss, other) = (rows.slot("loss"), rows.slot("val_loss"));
    let mut noise = Noise::new(100);
    for s in 1..=600 {
        rows.begin(s);
        rows.set(
            loss,
            2.5 + 0.025 * noise.normal() + if s == 500 { 1.0 } else { 0.0 },
        );
        if s % 50 == 0 {
            rows.begin(s);
            rows.set(other, 2.6);
        }
    }
    let run = built(rows, BuildOptions::default());
    assert_eq!(run.len(), 600);
    let found = detect(&run);
    assert_eq!(
        found
            .iter()
            .map(|i| step(&run, i.onset_row))
            .collect::<Vec<_>>(),
        [500],
        "{}",
        told(&run, &found)
    );
}

/// Two runs over the same batches: their noise is the batch's, but for a tenth of it.
fn twins(bump: impl Fn(usize) -> f64, bump_of_twin: impl Fn(usize) -> f64) -> (Run, OtherRun) {
    let mut batch = Noise::new(77);
    let batches: Vec<f64> = (0..1500).map(|_| 0.025 * batch.normal()).collect();
    let curve = |seed: u64, bump: &dyn Fn(usize) -> f64| {
        let mut own = Noise::new(seed);
        let level = |i: usize| 2.5 - 1e-5 * i as f64 + 8.3 * (-(i as f64) / 12.0).exp();
        let loss = (0..1500).map(|i| level(i) + batches[i] + 0.0025 * own.normal() + bump(i));
        Curve::of_loss(loss).run()
    };
    let (run, other) = (curve(1, &bump), curve(2, &bump_of_twin));
    let incidents = detect(&other);
    let twin = OtherRun {
        path: "twin".to_owned(),
        kind: OtherKind::Twin,
        run: other,
        incidents,
    };
    (run, twin)
}

#[test]
fn a_twin_lowers_the_floor() {
    // An sd and a half of the loss for eight steps: nothing by itself, fifteen sd of what differs from the twin.
    let bump = |i: usize| f64::from(u8::from((1000..1008).contains(&i))) * 0.0375;
    let (run, twin) = twins(bump, |_| 0.0);
    let alone = detect(&run);
    assert!(alone.is_empty(), "{}", told(&run, &alone));
    let found = detect_knowing(&run, known(&run, &[twin]).as_ref()).incidents;
    assert_eq!(found.len(), 1, "{}", told(&run, &found));
    assert_eq!(step(&run, found[0].onset_row), 1001);
    assert!(found[0].score.is_some_and(|z| z > 10.0));
}

#[test]
fn an_incident_of_the_twin_is_none_of_this_run() {
    let plateau = |i: usize| if (900..960).contains(&i) { 0.8 } else { 0.0 };
    let (run, twin) = twins(|_| 0.0, plateau);
    assert!(!twin.incidents.is_empty());
    let found = detect_knowing(&run, known(&run, &[twin]).as_ref()).incidents;
    assert!(found.is_empty(), "{}", told(&run, &found));
}

#[test]
fn a_run_over_other_data_tells_nothing() {
    let (run, _) = twins(|_| 0.0, |_| 0.0);
    let other = late(5, 1500).run();
    let stranger = OtherRun {
        path: "stranger".to_owned(),
        kind: OtherKind::Twin,
        incidents: detect(&other),
        run: other,
    };
    assert!(known(&run, &[stranger]).is_none());
}

/// T13: a loss that falls at once and stays low is told, too.
#[test]
fn a_fall_that_lasts_is_a_level_shift() {
    let curve = late(31, 1500).bumped(|i| if i >= 900 { -0.25 } else { 0.0 });
    let (run, i) = only(&curve);
    assert_eq!(
        (step(&run, i.onset_row), i.kind, i.shape),
        (901, Kind::Chronic, Shape::LevelShift)
    );
    assert!(i.excess.is_some_and(|x| (-0.27..-0.23).contains(&x)) && !i.open);
    let d = diagnosed(curve.run(), "");
    assert_eq!(
        d.incidents[0].plan.action,
        Action::None,
        "{}",
        d.incidents[0].plan.why
    );
    assert_eq!(d.incidents[0].verdict.cause, None);
}

#[test]
fn a_return_is_no_fall_and_neither_is_a_decay() {
    let plateau = late(32, 2500).bumped(|i| if (900..1700).contains(&i) { 0.6 } else { 0.0 });
    let (run, found) = plateau.incidents();
    assert!(
        found.iter().all(|i| i.excess.is_some_and(|x| x > 0.0)),
        "{}",
        told(&run, &found)
    );
    // A cool-down takes a tenth off over a few hundred steps.
    let decay = late(33, 2500).bumped(|i| -0.25 * ((i as f64 - 1500.0) / 400.0).clamp(0.0, 1.0));
    silent(&decay, "decay");
}

#[test]
fn spikes_that_grow_and_come_closer_are_a_divergence() {
    let spikes = |ends: usize| {
        let at = [(900, 0.3), (1200, 0.7), (1350, 1.6)];
        late(34, ends).bumped(move |i| {
            let tail = |(start, height): &(usize, f64)| {
                let since = i as f64 - *start as f64;
                if since < 0.0 {
                    0.0
                } else {
                    height * (-since / 5.0).exp()
                }
            };
            at.iter().map(tail).sum()
        })
    };
    let (run, found) = spikes(1450).incidents();
    let last = found.last().unwrap();
    assert_eq!(
        (last.shape, last.open),
        (Shape::Divergent, true),
        "{}",
        told(&run, &found)
    );
    let d = diagnosed(spikes(1450).run(), "");
    let plan = &d.incidents.last().unwrap().plan;
    assert!(
        plan.action == Action::Wait && plan.why.contains("come closer"),
        "{}",
        plan.why
    );
    // Had it gone on, the next would have come by then.
    let (run, found) = spikes(2400).incidents();
    assert!(
        found.iter().all(|i| i.shape == Shape::Transient),
        "{}",
        told(&run, &found)
    );
}

/// A loss whose noise is Student's t with four degrees of freedom, its robust sd 1 % of the level.
fn heavy(seed: u64, rows: usize) -> Curve {
    let mut noise = Noise::new(seed);
    let level = |i: usize| 2.5 + 8.3 * (-(i as f64) / 12.0).exp();
    Curve::of_loss((0..rows).map(|i| {
        let chi: f64 = (0..4).map(|_| noise.normal().powi(2)).sum();
        let t = noise.normal() / (chi / 4.0).sqrt();
        level(i) * (1.0 + 0.009 * t)
    }))
}

#[test]
fn heavy_tails_that_throw_rows_as_far_down_are_noise() {
    let (run, found) = heavy(41, 40_000).incidents();
    let acute: Vec<Incident> = found
        .into_iter()
        .filter(|i| i.kind == Kind::Acute && run.steps[i.onset_row] > 2000)
        .collect();
    assert!(acute.len() <= 2, "{}", told(&run, &acute));
    // What stands above such noise for three rows is none of it, and neither is a single row far above.
    let short = |i: usize| {
        if (30_000..30_003).contains(&i) {
            0.3
        } else {
            0.0
        }
    };
    let lone = |i: usize| if i == 30_000 { 1.5 } else { 0.0 };
    for (name, bump) in [("short", &short as &dyn Fn(usize) -> f64), ("lone", &lone)] {
        let (run, found) = heavy(41, 40_000).bumped(bump).incidents();
        let hit = |i: &Incident| step(&run, i.onset_row) == 30_001;
        assert!(found.iter().any(hit), "{name}: {}", told(&run, &found));
    }
}
