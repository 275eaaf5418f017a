//! Learning rate, parameter norm, batch size.

use super::scene::{LEVEL, ONSET, Scene, near};
use crate::support::Curve;

/// A warm-up of 100 steps to 1, then what is told.
fn schedule(after: impl Fn(u64) -> f64) -> Scene {
    let warm = move |s: u64| if s <= 100 { s as f64 / 100.0 } else { after(s) };
    Scene::of_rows(1001).with("learning_rate", warm)
}

fn constant(rate: f64, from: u64, then: f64) -> impl Fn(u64) -> f64 {
    move |s| if s < from { rate } else { then }
}

/// Two attempts, the second from step 201 on, each with its learning rate.
fn restarted(first: f64, second: f64) -> Scene {
    let part = |rate: f64, steps: std::ops::RangeInclusive<u64>| {
        let rows = steps.clone().count();
        let mut curve = Curve::of_loss(std::iter::repeat_n(LEVEL, rows))
            .with("learning_rate", std::iter::repeat_n(rate, rows));
        curve.steps = steps.collect();
        curve
    };
    let curve = part(first, 1..=400).then(&part(second, 201..=400));
    Scene::of_curve(curve).in_attempt(1)
}

of_features! {
    lr_event_dist {
        near(schedule(|_| 1.0).of("lr_event_dist"), 201.0);
        near(schedule(constant(1.0, 291, 2.0)).of("lr_event_dist"), 10.0);
        near(schedule(constant(1.0, 291, 0.5)).of("lr_event_dist"), 201.0);
        // A slow re-warm from 201 to 281, by 0.025 a step: a fifth more is reached after 9, 19, 31, 46 and 64 steps.
        let slow = |s: u64| 1.0 + 0.025 * (s.clamp(201, 281) - 201) as f64;
        near(schedule(slow).of("lr_event_dist"), 36.0);
        assert_eq!(Scene::new().of("lr_event_dist"), None);
    }

    warmup_position {
        near(schedule(|_| 1.0).of("warmup_position"), 3.01);
        assert_eq!(Scene::new().with("learning_rate", |_| 1.0).of("warmup_position"), None);
    }

    lr_quiet {
        near(schedule(|_| 1.0).of("lr_quiet"), 2.01);
        near(schedule(constant(1.0, 291, 2.0)).of("lr_quiet"), 0.1);
        assert_eq!(Scene::new().of("lr_quiet"), None);
    }

    lr_rise {
        near(schedule(constant(1.0, 291, 5.0)).of("lr_rise"), 5.0);
        near(schedule(|_| 1.0).of("lr_rise"), 1.0);
        assert_eq!(Scene::new().of("lr_rise"), None);
    }

    lr_rise_in_peak {
        near(schedule(constant(1.0, 306, 3.0)).peak(311).of("lr_rise_in_peak"), 3.0);
        near(schedule(constant(1.0, 312, 3.0)).peak(311).of("lr_rise_in_peak"), 1.0);
        assert_eq!(Scene::new().of("lr_rise_in_peak"), None);
    }

    spike_rate_vs_lr {
        let spikes = |scene: Scene| {
            [95, 100, 110, 115].into_iter().fold(scene, |s, step| s.also(0, step, 0.5))
        };
        // Four in the 30 steps from 90 to 120, one in the other 970.
        let expected = (4.0 / 30.0) / (1.5 / 970.0);
        near(spikes(schedule(|_| 1.0)).of("spike_rate_vs_lr"), expected);
        // A rise at 281 makes it five in 530 steps, and none in 470.
        let raised = spikes(schedule(constant(1.0, 281, 2.0)));
        near(raised.of("spike_rate_vs_lr"), (5.0 / 530.0) / (0.5 / 470.0));
        assert_eq!(schedule(|_| 1.0).also(0, 95, 0.5).of("spike_rate_vs_lr"), None, "two");
        assert_eq!(spikes(Scene::new()).of("spike_rate_vs_lr"), None, "no learning rate");
    }

    lr_mismatch {
        near(restarted(1.0, 1.5).of("lr_mismatch"), 0.5);
        near(restarted(1.0, 1.0).of("lr_mismatch"), 0.0);
        assert_eq!(restarted(1.0, 1.5).in_attempt(0).of("lr_mismatch"), None, "no restart before");
    }

    p_accel {
        // 1e-4 a step up to 351, 3e-4 from there to the onset at 601: 2e-4 more in 250 steps.
        let growth = |s: u64| 1e-4 * s as f64 + 2e-4 * s.saturating_sub(351) as f64;
        let scene = Scene::of_rows(700).with("param_norm", |s| growth(s).exp()).onset(601);
        let value = scene.of("p_accel").expect("known");
        assert!((value - 8e-7).abs() < 1e-10, "{value}");
        assert_eq!(Scene::new().of("p_accel"), None);
    }

    p_growth {
        let scene = Scene::new().with("param_norm", |s| 5.0 * (2e-4 * s as f64).exp());
        near(scene.of("p_growth"), 0.2);
        assert_eq!(Scene::new().of("p_growth"), None);
    }

    u_over_p {
        let scene = Scene::new().with("update_norm", |_| 0.002);
        near(scene.clone().with("param_norm", |_| 2.0).of("u_over_p"), 0.001);
        assert_eq!(scene.of("u_over_p"), None, "no parameter norm");
    }

    beta2 {
        near(Scene::new().fact("adam_beta2", "0.95").of("beta2"), 0.95);
        assert_eq!(Scene::new().of("beta2"), None);
    }

    batch_event {
        let batch = |from: u64| Scene::new().with("global_batch_size", constant(64.0, from, 128.0));
        near(batch(250).of("batch_event"), 1.0);
        near(batch(ONSET - 250).of("batch_event"), 0.0);
        let longer = batch(1000).with("curriculum_seqlen", constant(512.0, 310, 1024.0));
        near(longer.of("batch_event"), 1.0);
        assert_eq!(Scene::new().of("batch_event"), None);
    }
}
