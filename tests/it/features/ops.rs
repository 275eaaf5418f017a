//! Restarts and hardware.

use super::scene::{LEVEL, SWING, Scene, near, norm};
use crate::support::Curve;

fn part(steps: std::ops::RangeInclusive<u64>) -> Curve {
    let mut curve = Curve::of_loss(std::iter::repeat_n(LEVEL, steps.clone().count()));
    curve.steps = steps.collect();
    curve
}

of_features! {
    restart_dist {
        let restarted = Scene::of_curve(part(1..=250).then(&part(201..=400))).in_attempt(1);
        near(restarted.of("restart_dist"), 100.0);
        near(Scene::new().of("restart_dist"), 300.0);
        assert_eq!(Scene::new().onset(51).of("restart_dist"), None, "50 steps without one");
    }

    restart_repeats {
        // Twenty steps after the restart at 201, and again after that at 301.
        let curve = part(1..=250).then(&part(201..=350)).then(&part(301..=400));
        let scene = Scene::of_curve(curve).in_attempt(2).onset(321);
        near(scene.clone().also(1, 221, 0.5).of("restart_repeats"), 2.0);
        near(scene.clone().also(1, 281, 0.5).of("restart_repeats"), 1.0);
        assert_eq!(Scene::new().of("restart_repeats"), None);
    }

    hw_event {
        let fault = |step: u64| Scene::new().fault(step);
        near(fault(290).of("hw_event"), 1.0);
        near(fault(310).of("hw_event"), 0.0);
        // Eleven steps of ten seconds are within an hour, of ten minutes not.
        near(fault(290).with("step_time", |_| 10.0).of("hw_event"), 1.0);
        near(fault(290).with("step_time", |_| 600.0).of("hw_event"), 0.0);
        let each = |seconds: f64| move |s: u64| 1e12 + 1000.0 * seconds * s as f64;
        near(fault(290).with("time", each(10.0)).of("hw_event"), 1.0);
        near(fault(290).with("time", each(600.0)).of("hw_event"), 0.0);
        assert_eq!(Scene::new().of("hw_event"), None, "the log names none");
    }

    step_time_z {
        near(Scene::new().with("step_time", norm(1.0)).of("step_time_z"), 1.0 / (0.05 * SWING));
        assert_eq!(Scene::new().of("step_time_z"), None);
    }
}
