//! Faults that were once found, each as its whole kind.

use crate::support::*;
use whyspike::checkpoints::Given;
use whyspike::data_order::DataOrder;
use whyspike::detect::{Shape, detect};
use whyspike::diagnosis::{Told, diagnose};
use whyspike::plan::Action;
use whyspike::run::{BuildOptions, Rows};

fn late(seed: u64, rows: usize) -> Curve {
    let mut noise = Noise::new(seed);
    let level = |i: usize| 2.5 - 1e-5 * i as f64 + 8.3 * (-(i as f64) / 12.0).exp();
    Curve::of_loss((0..rows).map(|i| level(i) * (1.0 + 0.01 * noise.normal())))
}

#[test]
fn a_return_that_a_hole_hides_takes_no_after_shocks() {
    let Some(log) = shared("corpus/megatron-console__bloom-tr8-104B-chronicle-lines.log") else {
        return;
    };
    assert!(detect(&read(log)).iter().any(|i| i.attempt == 2));
}

/// A spacing that the steps of the log make trillions of checkpoints of: those that are listed exist, and reach its end.
#[test]
fn a_spacing_far_below_the_steps_ends() {
    for (last, every) in [(1_772_366_400_000_u64, 1_u64), (1 << 52, 1000)] {
        let mut curve = late(3, 600);
        for (step, n) in curve.steps.iter_mut().zip(0..) {
            *step = last - 599 + n;
        }
        curve.raise(last - 100, 2.0);
        let told = Told {
            checkpoints: Given::Every { every, keep: None },
            ..Told::default()
        };
        let d = diagnose(curve.run(), &RULES, &told);
        let listed = &d.inventory.checkpoints;
        assert!(
            listed.len() <= 200_000 && listed.len() > 100_000,
            "{}",
            listed.len()
        );
        assert!(
            listed
                .iter()
                .all(|c| c.step.is_multiple_of(every) && c.step <= last)
        );
        let gap = last / 100_000;
        assert!(listed.last().is_some_and(|c| last - c.step <= gap));
    }
}

/// What a table calls its columns is shown in one line, whatever the names hold.
#[test]
fn names_of_columns_do_not_steer_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    for name in ["a\u{5}b", "a\u{1b}[31mb", "a\u{202e}b"] {
        std::fs::write(
            &path,
            format!("{name},other\n0.5,1.5\n0.25,1.25\n0.125,1\n"),
        )
        .unwrap();
        let told = read_all(std::slice::from_ref(&path))
            .unwrap_err()
            .to_string();
        assert!(told.contains("a\u{fffd}"), "{told:?}");
        assert!(
            !told.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{told:?}"
        );
    }
}

#[test]
fn bool_number() {
    assert!(whyspike::rules::Condition::parse("foreshock > 5").is_err());
}

#[test]
fn bf16() {
    let mut alarms = 0;
    for level in 0..8 {
        for seed in 73..76 {
            let mut noise = Noise::new(seed);
            let level = 1.65625 + f64::from(level) / 1024.0;
            let curve = Curve::of_loss(
                (0..900).map(|_| ((level + 0.006 * noise.normal()) * 128.0).round() / 128.0),
            );
            alarms += curve.incidents().1.len();
        }
    }
    assert_eq!(alarms, 0, "in 24 x 900 rows");
}

#[test]
fn shift_without_peak() {
    for by in [0.08, 0.15, 0.3] {
        let mut curve = late(20, 1600);
        (801..=1600).for_each(|s| curve.raise(s, by));
        let (_, found) = curve.incidents();
        assert!(
            found.iter().all(|i| i.shape == Shape::LevelShift),
            "{by} {:?}",
            found
                .iter()
                .map(|i| (i.shape, i.residual))
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn finetune() {
    let mut noise = Noise::new(86);
    let mut curve = Curve::of_loss(
        (0..612)
            .map(|i| (1.5 + 0.3 * (-f64::from(i) / 100.0).exp()) * (1.0 + 0.01 * noise.normal())),
    );
    (0..12).for_each(|n| curve.raise(601 + n, 0.5 * (-(n as f64) / 20.0).exp()));
    let d = diagnosed(curve.run(), "100,200,300,400,500,600");
    let x = &d.incidents[0];
    assert!(
        !x.incident.lost && x.plan.action == Action::Wait,
        "{} {:?} {}",
        x.incident.lost,
        x.plan.action,
        x.plan.why
    );
}

#[test]
fn batch_down() {
    let mut out = Vec::new();
    for factor in [2.0, 4.0, 8.0] {
        for seed in 60..64 {
            let mut noise = Noise::new(seed);
            let batch: Vec<f64> = (0..1500)
                .map(|i| if i < 800 { 512.0 } else { 512.0 / factor })
                .collect();
            let loss: Vec<f64> = batch
                .iter()
                .map(|b| 2.5 + 0.015 * (512.0 / b).sqrt() * noise.normal())
                .collect();
            let (run, found) = Curve::of_loss(loss)
                .with("global_batch_size", batch)
                .incidents();
            out.extend(
                found
                    .iter()
                    .map(|i| (factor, seed, run.steps[i.onset_row], i.kind)),
            );
        }
    }
    assert!(out.is_empty(), "{out:?}");
}

/// The samples of the first update of a run that logs these counts at steps 1, 2 and 3.
fn first_update_of(counts: [f64; 3]) -> Option<(u64, u64)> {
    let mut rows = Rows::default();
    let slot = rows.slot("consumed_samples");
    let loss = rows.slot("loss");
    for (s, c) in (1..).zip(counts) {
        rows.begin(s);
        rows.set(slot, c);
        rows.set(loss, 2.0);
    }
    let options = BuildOptions {
        step_base: Some(1),
        ..BuildOptions::default()
    };
    let run = built(rows, options);
    DataOrder::of(&run, &run.attempts[0])
        .unwrap()
        .samples_of(1, 1)
}

#[test]
fn first_update() {
    assert_eq!(first_update_of([64.0, 96.0, 128.0]), Some((0, 64)));
}

#[test]
fn first_update_unknown() {
    assert_eq!(first_update_of([32.0, 96.0, 160.0]), Some((0, 32)));
}

#[test]
fn plan_json_of_healthy() {
    let out = assert_cmd::Command::cargo_bin("whyspike")
        .unwrap()
        .args(["plan", "--format", "json"])
        .arg(fixture("runs/healthy/log.jsonl.gz"))
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        serde_json::from_str::<serde_json::Value>(&text).is_ok(),
        "{text}"
    );
}

#[test]
fn a_run_that_never_had_a_loss_did_not_lose_an_ordinary_one() {
    let mut curve = Curve::of_loss([f64::NAN; 40]);
    let first = |d: whyspike::diagnosis::Diagnosis| d.incidents[0].features["nonfinite_first"];
    assert_eq!(first(diagnosed(curve.run(), "10,20")), None);
    curve = Curve::of_loss([2.0; 40]);
    curve.column("loss")[20..].fill(Some(f64::NAN));
    assert_eq!(
        first(diagnosed(curve.run(), "10,20")),
        Some(whyspike::features::Value::Bool(true))
    );
}
