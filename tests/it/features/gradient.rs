//! The gradient norm.

use super::scene::{SWING, Scene, near, norm};

fn norms(value: impl Fn(u64) -> f64) -> Scene {
    Scene::new().with("grad_norm", value)
}

/// A longer log, for what looks back 600 steps from an onset at 601.
fn long(value: impl Fn(u64) -> f64) -> Scene {
    Scene::of_rows(700).with("grad_norm", value).onset(601)
}

/// The step at which a norm leaves its level, by seven times, for good.
fn away(from: u64) -> impl Fn(u64) -> f64 {
    move |s| if s >= from { 7.0 } else { 1.0 }
}

of_features! {
    g_z {
        near(norms(norm(1.0)).of("g_z"), 1.0 / (0.05 * SWING));
        // A norm that rises with one over the root of a decaying learning rate is as usual; ten times that is not.
        let rate = |s: u64| 10_f64.powf(-(s as f64) / 50.0);
        let scene = norms(|s| norm(1.0)(s) / rate(s).sqrt()).with("learning_rate", rate);
        near(scene.of("g_z"), 1.0 / (0.05 * SWING));
        assert_eq!(Scene::new().of("g_z"), None);
    }

    g_lead {
        near(norms(away(299)).of("g_lead"), 2.0);
        assert_eq!(norms(|_| 1.0).of("g_lead"), None, "it never left");
        assert_eq!(norms(away(291)).sparse().of("g_lead"), None, "every tenth step");
    }

    g_growth {
        // 10 to 40 in two steps.
        let scene = norms(|s| match s { 299 => 10.0, 300 => 20.0, 301 => 40.0, _ => 1.0 });
        near(scene.of("g_growth"), 2.0);
        assert_eq!(Scene::new().of("g_growth"), None);
    }

    clip_ratio {
        let scene = norms(|s| if s % 4 == 0 { 1.7 } else { 0.5 });
        near(scene.clone().fact("clip_grad", "1.0").of("clip_ratio"), 0.25);
        near(scene.clone().fact("max_norm", "1.0").of("clip_ratio"), 0.25);
        assert_eq!(scene.of("clip_ratio"), None, "no threshold");
        assert_eq!(Scene::new().fact("clip_grad", "1.0").of("clip_ratio"), None);
    }

    clip_over_median {
        let scene = norms(|s| if s % 4 == 0 { 1.7 } else { 0.5 });
        near(scene.clone().fact("clip_grad", "1.0").of("clip_over_median"), 2.0);
        assert_eq!(scene.of("clip_over_median"), None, "no threshold");
    }

    g_floor_drift {
        // 0.002 decades a step.
        near(long(|s| 10_f64.powf(0.002 * s as f64)).of("g_floor_drift"), 2.0);
        assert_eq!(Scene::new().of("g_floor_drift"), None);
    }

    g_var_ratio {
        // Twice the swing is four times the variance.
        let swings = |s: u64| if s >= 501 { 0.2 } else { 0.1 };
        let sign = |s: u64| if s.is_multiple_of(2) { 1.0 } else { -1.0 };
        near(long(|s| 10_f64.powf(sign(s) * swings(s))).of("g_var_ratio"), 4.0);
        assert_eq!(Scene::new().of("g_var_ratio"), None);
    }

    g_stale {
        let stands = |s: u64| if (305..312).contains(&s) { 305 } else { s };
        near(norms(|s| 1.0 + 0.001 * stands(s) as f64).of("g_stale"), 7.0);
        assert_eq!(Scene::new().of("g_stale"), None);
    }
}
