//! Activations, printed precision, loss scale, zero gradients.

use super::scene::{LEVEL, ONSET, SWING, Scene, near, swing};

/// Halved at 250, at 305 to a quarter.
fn scales() -> Scene {
    let scale = |s: u64| match s {
        ..250 => 65536.0,
        250..305 => 32768.0,
        _ => 8192.0,
    };
    Scene::new().with("loss_scale", scale)
}

/// 100, 110, 120 and so on, 330 at the onset.
fn zeros() -> Scene {
    Scene::new().with("num_zeros", |s| {
        if s == ONSET {
            330.0
        } else {
            110.0 + 10.0 * swing(s)
        }
    })
}

of_features! {
    act_drift {
        let scene = Scene::new().with("activation_norm", |s| 7.0 * (5e-4 * s as f64).exp());
        near(scene.of("act_drift"), 5e-4);
        assert_eq!(Scene::new().of("act_drift"), None);
    }

    loss_quantum {
        // Four values in 200 rows.
        near(Scene::new().with("loss", |s| 1.0 + (s % 4) as f64 / 128.0).of("loss_quantum"), 0.02);
        assert_eq!(Scene::new().onset(15).of("loss_quantum"), None, "14 rows");
    }

    loss_bits {
        let printed = |step: f64| Scene::new().with("loss", move |s| 1.0 + (s % 4) as f64 * step);
        near(printed(1.0 / 128.0).of("loss_bits"), 7.0);
        near(printed(1.0 / 64.0).of("loss_bits"), 6.0);
        assert_eq!(printed(0.01).of("loss_bits"), None, "two decimals");
        assert_eq!(Scene::new().of("loss_bits"), None, "all equal");
    }

    lossscale_halvings {
        near(scales().of("lossscale_halvings"), 3.0);
        assert_eq!(Scene::new().of("lossscale_halvings"), None);
    }

    lossscale_halvings_before {
        near(scales().of("lossscale_halvings_before"), 1.0);
        assert_eq!(Scene::new().of("lossscale_halvings_before"), None);
    }

    lossscale_collapsed {
        let least = |scale: f64| Scene::new().with("loss_scale", move |s| if s == 310 { scale } else { 4.0 });
        near(least(0.5).of("lossscale_collapsed"), 1.0);
        near(least(1.0).of("lossscale_collapsed"), 0.0);
        assert_eq!(Scene::new().of("lossscale_collapsed"), None);
    }

    nonfinite_first {
        let first = Scene::new().with("loss", |s| if s >= ONSET { f64::NAN } else { LEVEL });
        near(first.without_peak().of("nonfinite_first"), 1.0);
        near(Scene::new().of("nonfinite_first"), 0.0);
        let never = Scene::new().with("loss", |_| f64::NAN).onset(1).without_peak();
        assert_eq!(never.of("nonfinite_first"), None, "no loss ever");
    }

    nonfinite_before {
        let skipped = |step: u64| Scene::new().with("skipped_iterations", move |s| f64::from(u8::from(s == step)));
        near(skipped(250).of("nonfinite_before"), 1.0);
        near(skipped(50).of("nonfinite_before"), 0.0);
        near(skipped(310).of("nonfinite_before"), 0.0);
        let norm = Scene::new().with("grad_norm", |s| if s == 280 { f64::NAN } else { 1.1 });
        near(norm.of("nonfinite_before"), 1.0);
        assert_eq!(Scene::new().of("nonfinite_before"), None, "neither counters nor a norm");
    }

    zero_grad_frac {
        near(zeros().fact("num_parameters", "1000").of("zero_grad_frac"), 0.33);
        assert_eq!(zeros().of("zero_grad_frac"), None, "no number of parameters");
    }

    zero_grad_ratio {
        near(zeros().of("zero_grad_ratio"), 3.0);
        assert_eq!(Scene::new().of("zero_grad_ratio"), None);
    }

    zero_grad_z {
        near(zeros().of("zero_grad_z"), 220.0 / (10.0 * SWING));
        assert_eq!(Scene::new().of("zero_grad_z"), None);
    }
}
