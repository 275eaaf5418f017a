//! The data, and what happened when the steps were run again.

use whyspike::features::Value;
use whyspike::replay::{OtherKind, OtherRun};

use super::scene::{LEVEL, ONSET, SCALE, SWING, Scene, near, swing};
use crate::support::{Curve, Noise};

/// The losses of a data order: the noise of a step is that of its batch.
fn batches(seed: u64) -> Vec<f64> {
    let mut noise = Noise::new(seed);
    (0..700).map(|_| SCALE * noise.normal()).collect()
}

/// Steps with the loss of their batch, the order moved on by so many.
fn part(steps: std::ops::RangeInclusive<u64>, seed: u64, ahead: usize) -> Curve {
    let noise = batches(seed);
    let mut curve = Curve::of_loss(steps.clone().map(|s| LEVEL + noise[s as usize + ahead]));
    curve.steps = steps.collect();
    curve
}

/// 400 steps with a loss 1.0 too high at the onset.
fn first() -> Curve {
    let mut curve = part(1..=400, 1, 0);
    curve.raise(ONSET, 1.0);
    curve
}

/// An attempt with an incident at the onset, and a second one over some of its steps.
fn replayed(second: &Curve) -> Scene {
    Scene::of_curve(first().then(second))
}

/// Holds that a feature tells whether the incident came again in a second attempt.
fn tells(feature: &str, scene: &Scene) {
    near(scene.clone().also(1, ONSET, 1.0).of(feature), 1.0);
    near(scene.clone().also(1, ONSET, 0.1).of(feature), 0.0);
    near(scene.of(feature), 0.0);
    assert_eq!(Scene::new().of(feature), None, "it was not run again");
}

/// The same for a run that the user gives.
fn tells_of(feature: &str, kind: OtherKind) {
    let scene = Scene::of_curve(first());
    let of = |others: &[OtherRun]| scene.row_beside(others)[feature].map(Value::number);
    near(of(&[scene.other(kind)]), 1.0);
    let mut quiet = scene.other(kind);
    quiet.incidents.clear();
    near(of(&[quiet]), 0.0);
    let mut short = Scene::of_curve(first().head(305)).other(kind);
    short.incidents.clear();
    assert_eq!(of(&[short]), None, "it ends too early");
    assert_eq!(of(&[]), None, "it was not run again");
}

/// A curve with one more signal.
fn beside(curve: Curve, name: &'static str, value: impl Fn(u64) -> f64) -> Curve {
    let values: Vec<f64> = curve.steps.iter().map(|s| value(*s)).collect();
    curve.with(name, values)
}

of_features! {
    rank_gap {
        // The worst rank swings by 0.01 of the mean about 1.1 times it, and is 1.5 times it at the onset.
        let worst = |s: u64| if s == ONSET { 1.5 } else { 1.1 + 0.01 * swing(s) };
        let scene = Scene::new().with("max_rank_loss", |s| LEVEL * worst(s));
        near(scene.of("rank_gap"), 0.4 / (0.01 * SWING));
        assert_eq!(Scene::new().of("rank_gap"), None);
    }

    source_localised {
        // Every source swings by 0.01. One leaves its level by 0.5 at the onset, two by 0.01: the difference of their z.
        let source = |level: f64, jump: f64| {
            move |s: u64| level + if s == ONSET { jump } else { 0.01 * swing(s) }
        };
        let scene = Scene::new()
            .with("train/loss/web", source(2.0, 0.5))
            .with("train/loss/code", source(1.0, 0.01))
            .with("train/loss/books", source(3.0, 0.01))
            .with("train/loss/aux_balance", source(0.1, 9.0));
        near(scene.of("source_localised"), 0.49 / (0.01 * SWING));
        assert_eq!(Scene::new().of("source_localised"), None);
    }

    batch_ref_z {
        // The twin swings by 0.01 as this run does, and its batch of the onset lies 5 of its robust sd above.
        let at = |jump: f64| Scene::new().with("loss", move |s| LEVEL + if s == ONSET { jump } else { 0.01 * swing(s) });
        let beside = |others: &[OtherRun]| at(1.0).row_beside(others)["batch_ref_z"].map(Value::number);
        near(beside(&[at(0.05 * SWING).other(OtherKind::Twin)]), 5.0);
        assert_eq!(beside(&[at(1.0).other(OtherKind::Reseed)]), None, "other data");
        assert_eq!(beside(&[]), None);
    }

    replay_corr {
        near(replayed(&part(201..=400, 1, 0)).of("replay_corr"), 1.0);
        let other = replayed(&part(201..=400, 2, 0)).of("replay_corr").expect("known");
        assert!(other.abs() < 0.3, "{other}");
        assert_eq!(Scene::new().of("replay_corr"), None);
        assert_eq!(replayed(&part(285..=400, 1, 0)).of("replay_corr"), None, "16 rows");
    }

    replay_lag {
        near(replayed(&part(201..=400, 1, 0)).of("replay_lag"), 0.0);
        near(replayed(&part(201..=400, 1, 3)).of("replay_lag"), 3.0);
        assert_eq!(replayed(&part(201..=400, 2, 0)).of("replay_lag"), None, "other data");
        assert_eq!(Scene::new().of("replay_lag"), None);
    }

    self_repeat {
        let mut curve = part(1..=600, 1, 0);
        let alone = Scene::of_curve(curve.clone()).onset(501);
        assert!(alone.of("self_repeat").is_some_and(|r| r < 0.8));
        // The 50 rows before the onset are those of steps 301 to 350; the rolling median at the end differs a little.
        let column = curve.column("loss");
        column.copy_within(300..350, 450);
        let repeats = Scene::of_curve(curve).onset(501).of("self_repeat");
        assert!(repeats.is_some_and(|r| r > 0.95), "{repeats:?}");
        assert_eq!(Scene::of_curve(part(1..=400, 1, 0)).onset(301).of("self_repeat"), None, "short");
    }

    val_gap {
        // The training loss stands 20 sd above its level where the first validation loss after the onset is 3 above.
        let mut scene = Scene::new().with("loss", |s| if s >= ONSET { 2.2 } else { LEVEL });
        assert_eq!(scene.of("val_gap"), None);
        let held_out = |s: u64| match s {
            100 | 200 | 300 => Some(2.1),
            310 => Some(2.13),
            _ => None,
        };
        let values: Vec<Option<f64>> = scene.curve.steps.iter().map(|s| held_out(*s)).collect();
        scene.curve.columns.push(("val_loss", values));
        near(scene.of("val_gap"), 17.0);
    }

    ngram_flag {
        assert_eq!(Scene::new().of("ngram_flag"), None, "no log has the tokens");
    }

    seen_before {
        let scene = replayed(&part(101..=400, 1, 0)).in_attempt(1);
        near(scene.clone().also(0, 303, 0.5).of("seen_before"), 1.0);
        near(scene.clone().also(0, 250, 0.5).of("seen_before"), 0.0);
        near(scene.of("seen_before"), 0.0);
        assert_eq!(scene.in_attempt(0).of("seen_before"), None, "there was none before");
    }

    recurs_same {
        tells("recurs_same", &replayed(&part(201..=400, 1, 0)));
        assert_eq!(replayed(&part(201..=400, 2, 0)).of("recurs_same"), None, "other data");
    }

    recurs_skip {
        // 320 samples, ten batches, left out from step 290 on.
        let first = beside(first(), "consumed_samples", |s| 32.0 * s as f64);
        let skip = |s: u64| 32.0 * s as f64 + if s >= 290 { 320.0 } else { 0.0 };
        let second = beside(part(201..=400, 1, 0), "consumed_samples", skip);
        tells("recurs_skip", &Scene::of_curve(first.then(&second)));
    }

    recurs_reseed {
        tells("recurs_reseed", &replayed(&part(201..=400, 2, 0)));
        tells_of("recurs_reseed", OtherKind::Reseed);
    }

    recurs_lower_lr {
        let first = beside(first(), "learning_rate", |_| 1.0);
        let second = beside(part(201..=400, 1, 0), "learning_rate", |_| 0.5);
        tells("recurs_lower_lr", &Scene::of_curve(first.then(&second)));
        tells_of("recurs_lower_lr", OtherKind::LowerLr);
    }

    recurs_fp32 {
        tells_of("recurs_fp32", OtherKind::Precision);
    }

    recurs_reset {
        tells_of("recurs_reset", OtherKind::ResetOptimizer);
    }

    recurs_earlier {
        tells_of("recurs_earlier", OtherKind::EarlierCheckpoint);
    }

    recurs_other_nodes {
        tells_of("recurs_other_nodes", OtherKind::OtherNodes);
    }

    recurs_sham {
        tells_of("recurs_sham", OtherKind::Sham);
    }
}
