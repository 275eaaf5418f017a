//! The event itself and its shape.

use whyspike::detect::detect;
use whyspike::features::{History, Value, measure};

use super::scene::{LEVEL, ONSET, SCALE, SWING, Scene, near, swing};

/// The scene with a loss by step: its excess over the level.
fn rising(excess: impl Fn(u64) -> f64) -> Scene {
    Scene::new().with("loss", |s| LEVEL + excess(s))
}

/// The same as an incident of the gradient norm, beside a loss.
fn of_the_norm() -> Scene {
    Scene::new()
        .only("grad_norm", |_| 1.0)
        .with("loss", |_| LEVEL)
}

/// Incidents at these steps, with this excess each. The last is the one that is measured.
fn incidents(all: &[(u64, f64)]) -> Scene {
    let (last, before) = all.split_last().expect("one");
    let scene = rising(|s| if s == last.0 { last.1 } else { 0.0 }).onset(last.0);
    before
        .iter()
        .fold(scene, |scene, (step, excess)| scene.also(0, *step, *excess))
}

/// A value of the first incident that detection finds by itself.
fn detected(scene: &Scene, feature: &str) -> Option<f64> {
    let run = scene.curve.run();
    let found = detect(&run);
    let history = History::new(&run, &found);
    measure(&run, &found[0], &found, &history, &[])[feature].map(Value::number)
}

of_features! {
    loss_z {
        // A loss that swings by 0.01 has a robust sd of 0.014826; 1.0 above its level is 67.4 of them.
        let scene = rising(|s| if s == ONSET { 1.0 } else { 0.01 * swing(s) });
        near(detected(&scene, "loss_z"), 1.0 / (0.01 * SWING));
        assert_eq!(of_the_norm().of("loss_z"), None);
    }

    loss_cusum {
        // z of 2, 3 and 5, each less 0.5: 1.5 + 2.5 + 4.5.
        let z = |s| match s { 301 => 2.0, 302 => 3.0, 303 => 5.0, _ => 0.0 };
        near(rising(|s| SCALE * z(s)).peak(303).of("loss_cusum"), 8.5);
        assert_eq!(of_the_norm().of("loss_cusum"), None);
    }

    onset_step {
        near(Scene::new().of("onset_step"), 301.0);
        let early = |from: u64| move |s| if s >= from { 7.0 } else { 1.0 };
        near(Scene::new().with("grad_norm", early(298)).of("onset_step"), 298.0);
        let both = Scene::new().with("grad_norm", early(298)).with("update_norm", early(296));
        near(both.of("onset_step"), 296.0);
    }

    peak_excess {
        near(rising(|s| if s == ONSET { 0.75 } else { 0.0 }).of("peak_excess"), 0.75);
        assert_eq!(of_the_norm().of("peak_excess"), None);
    }

    rise_time {
        near(Scene::new().peak(307).of("rise_time"), 6.0);
        assert_eq!(Scene::new().without_peak().of("rise_time"), None);
    }

    return_time {
        near(Scene::new().back(321).of("return_time"), 20.0);
        assert_eq!(Scene::new().of("return_time"), None);
    }

    returned {
        near(Scene::new().back(321).of("returned"), 1.0);
        near(Scene::new().of("returned"), 0.0);
    }

    waited {
        near(Scene::new().of("waited"), 99.0);
    }

    residual_shift {
        near(Scene::new().back(321).residual(0.03).of("residual_shift"), 0.03);
        assert_eq!(Scene::new().residual(0.03).of("residual_shift"), None);
    }

    post_slope {
        let falls = |s: u64| if s < ONSET { 0.0 } else { 1.0 - 0.004 * (s - ONSET) as f64 };
        near(rising(falls).of("post_slope"), -0.004);
        assert_eq!(rising(falls).peak(398).of("post_slope"), None, "three rows");
    }

    decay_tau {
        // exp(-t/25).
        let decays = |s: u64| if s < ONSET { 0.0 } else { (-((s - ONSET) as f64) / 25.0).exp() };
        near(rising(decays).back(376).of("decay_tau"), 25.0);
        assert_eq!(rising(decays).of("decay_tau"), None, "not back");
    }

    foreshock {
        let peaks = |first: u64| move |s: u64| match s { 312 => 1.0, s if s == first => 0.5, _ => 0.0 };
        near(rising(peaks(302)).peak(312).of("foreshock"), 1.0);
        near(rising(peaks(290)).peak(312).of("foreshock"), 1.0);
        near(rising(peaks(270)).peak(312).of("foreshock"), 0.0);
        near(rising(peaks(312)).peak(312).of("foreshock"), 0.0);
        let climbs = |s: u64| if s < ONSET { 0.0 } else { 0.1 * (s - ONSET) as f64 };
        near(rising(climbs).peak(330).of("foreshock"), 0.0);
        assert_eq!(of_the_norm().of("foreshock"), None);
    }

    recurrence_gap {
        near(incidents(&[(101, 0.2), (181, 0.2), (301, 0.2)]).of("recurrence_gap"), 100.0);
        assert_eq!(incidents(&[(101, 0.2), (301, 0.2)]).of("recurrence_gap"), None);
    }

    recurrence_growth {
        near(incidents(&[(101, 0.2), (181, 0.4), (301, 0.8)]).of("recurrence_growth"), 1.0);
        // Of the three pairs one rises and two fall.
        near(incidents(&[(101, 0.5), (181, 0.2), (301, 0.4)]).of("recurrence_growth"), -1.0 / 3.0);
        assert_eq!(incidents(&[(101, 0.2), (301, 0.4)]).of("recurrence_growth"), None);
    }

    recurrence_closing {
        near(incidents(&[(101, 0.2), (221, 0.2), (301, 0.2)]).of("recurrence_closing"), -1.0);
        near(incidents(&[(101, 0.2), (181, 0.2), (301, 0.2)]).of("recurrence_closing"), 1.0);
        assert_eq!(incidents(&[(101, 0.2), (301, 0.2)]).of("recurrence_closing"), None);
    }

    nonfinite {
        // Three losses, and four skipped updates in one row; what comes 201 steps after the onset is another matter.
        let scene = Scene::of_rows(600)
            .with("loss", |s| if (303..306).contains(&s) { f64::NAN } else { LEVEL })
            .with("skipped_iterations", |s| match s { 310 => 4.0, 502 => 1.0, _ => 0.0 });
        near(scene.of("nonfinite"), 7.0);
        near(Scene::new().of("nonfinite"), 0.0);
    }

    neg_shift {
        near(rising(|s| if s == 290 { -0.05 } else { 0.0 }).of("neg_shift"), -5.0);
        near(rising(|s| if s == 250 { -0.05 } else { 0.0 }).of("neg_shift"), 0.0);
        assert_eq!(Scene::new().onset(5).of("neg_shift"), None, "four rows");
    }

    neg_median {
        near(rising(|s| if (271..301).contains(&s) { -0.04 } else { 0.0 }).of("neg_median"), 4.0);
        assert_eq!(Scene::new().onset(5).of("neg_median"), None, "four rows");
    }
}
