//! The update norm, alone and over the learning rate, and the state of the optimizer.

use super::scene::{ONSET, SWING, Scene, near, norm};

fn updates(value: impl Fn(u64) -> f64) -> Scene {
    Scene::new().with("update_norm", value)
}

fn of_norm(value: impl Fn(u64) -> f64) -> Scene {
    Scene::new().with("grad_norm", value)
}

/// Update norms with a learning rate of 0.1 throughout: what counts is the ratio of the two.
fn at_one_rate(value: impl Fn(u64) -> f64) -> Scene {
    updates(value).with("learning_rate", |_| 0.1)
}

fn away(from: u64) -> impl Fn(u64) -> f64 {
    move |s| if s >= from { 7.0 } else { 1.0 }
}

of_features! {
    u_z {
        near(updates(norm(1.0)).of("u_z"), 1.0 / (0.05 * SWING));
        assert_eq!(Scene::new().of("u_z"), None);
    }

    u_lead {
        near(updates(away(298)).of("u_lead"), 3.0);
        assert_eq!(updates(away(291)).sparse().of("u_lead"), None, "every tenth step");
        assert_eq!(Scene::new().of("u_lead"), None);
    }

    u_lead_grad {
        near(updates(away(298)).with("grad_norm", away(300)).of("u_lead_grad"), 2.0);
        near(updates(away(300)).with("grad_norm", away(297)).of("u_lead_grad"), -3.0);
        assert_eq!(updates(away(298)).of("u_lead_grad"), None, "no gradient norm");
    }

    u_before {
        let scene = updates(|s| if s == 297 { 4.0 } else { 1.0 });
        near(scene.of("u_before"), 4.0);
        near(updates(away(ONSET)).of("u_before"), 1.0);
        assert_eq!(scene.sparse().of("u_before"), None, "every tenth step");
        assert_eq!(Scene::new().of("u_before"), None);
    }

    u_before_sparse {
        let scene = updates(|s| if s == 291 { 5.0 } else { 1.0 });
        near(scene.clone().sparse().of("u_before_sparse"), 5.0);
        assert_eq!(scene.of("u_before_sparse"), None, "every step");
        assert_eq!(Scene::new().sparse().of("u_before_sparse"), None);
    }

    u_per_lr {
        // 1 / 0.1 before, 6 / 0.2 at the onset.
        let scene = updates(|s| if s == ONSET { 6.0 } else { 1.0 });
        let rate = |s: u64| if s == ONSET { 0.2 } else { 0.1 };
        near(scene.clone().with("learning_rate", rate).of("u_per_lr"), 3.0);
        assert_eq!(scene.of("u_per_lr"), None, "no learning rate");
    }

    u_per_lr_growth {
        let scene = at_one_rate(|s| if s >= 320 { 2.5 } else { 1.0 });
        near(scene.clone().peak(331).of("u_per_lr_growth"), 2.5);
        assert_eq!(scene.peak(306).of("u_per_lr_growth"), None, "the peak is too near");
        assert_eq!(Scene::new().peak(331).of("u_per_lr_growth"), None);
    }

    u_persist {
        near(at_one_rate(|s| if s >= 311 { 4.0 } else { 1.0 }).of("u_persist"), 4.0);
        assert_eq!(Scene::new().of("u_persist"), None);
    }

    u_heals {
        // Eight times its level at the onset, twice after it.
        let scene = at_one_rate(|s| match s { ONSET => 8.0, s if s > ONSET => 2.0, _ => 1.0 });
        near(scene.of("u_heals"), 0.25);
        assert_eq!(scene.sparse().of("u_heals"), None, "every tenth step");
        assert_eq!(Scene::new().of("u_heals"), None);
    }

    u_bursts {
        // At the onset, at 320 and 321, at 350; four times the level at 370 is none, nor what comes 100 steps after.
        let scene = updates(|s| match s { 301 | 320 | 321 | 350 => 6.0, 370 => 4.0, _ => 1.0 });
        near(scene.of("u_bursts"), 3.0);
        assert_eq!(Scene::new().of("u_bursts"), None);
    }

    v_staleness {
        // With beta2 of 0.95 the memory is 20 steps. Halved norms have a quarter of the square: after six of them the
        // average is still 0.25 + 0.75 * 0.95^6 = 0.80, so that all six are below half of it.
        let scene = of_norm(|s| if s >= 295 { 1.1 } else { 2.2 });
        near(scene.clone().fact("adam_beta2", "0.95").of("v_staleness"), 0.3);
        assert_eq!(scene.clone().of("v_staleness"), None, "no beta2");
        assert_eq!(scene.sparse().fact("adam_beta2", "0.95").of("v_staleness"), None);
    }

    eps_ratio {
        // A norm of 0.4 over 4 000 000 parameters is 2e-4 for each: 20 000 times an epsilon of 1e-8.
        let scene = of_norm(|_| 0.4).fact("adam_eps", "1e-08");
        near(scene.clone().fact("num_parameters", "4000000").of("eps_ratio"), 20_000.0);
        assert_eq!(scene.of("eps_ratio"), None, "no number of parameters");
    }

    m_over_v {
        let both = of_norm(|_| 1.0).with("first_moment", norm(1.0));
        near(both.clone().with("second_moment", norm(0.4)).of("m_over_v"), 0.6 / (0.05 * SWING));
        assert_eq!(both.of("m_over_v"), None, "no second moment");
    }

    v_drop {
        let scene = Scene::new().with("second_moment", |s| if s == 290 { 2e-7 } else { 1e-6 });
        near(scene.of("v_drop"), 0.2);
        assert_eq!(Scene::new().of("v_drop"), None);
    }
}
