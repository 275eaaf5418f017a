//! Attention logits, attention entropy, output logits.

use std::f64::consts::LN_2;

use super::scene::{Scene, near};

fn logits(value: impl Fn(u64) -> f64) -> Scene {
    Scene::new().with("max_attention_logit", value)
}

fn growing(rate: f64) -> impl Fn(u64) -> f64 {
    move |s| 10.0 * (rate * s as f64).exp()
}

of_features! {
    attn_slope {
        near(logits(growing(0.002)).of("attn_slope"), 0.002);
        assert_eq!(Scene::new().of("attn_slope"), None);
    }

    attn_doubling {
        near(logits(growing(0.002)).of("attn_doubling"), LN_2 / 0.002);
        assert_eq!(logits(growing(-0.002)).of("attn_doubling"), None, "it falls");
        assert_eq!(Scene::new().of("attn_doubling"), None);
    }

    attn_growth {
        near(logits(|s| if s >= 280 { 40.0 } else { 10.0 }).of("attn_growth"), 4.0);
        near(logits(|s| if s >= 370 { 40.0 } else { 10.0 }).of("attn_growth"), 1.0);
        assert_eq!(Scene::new().of("attn_growth"), None);
    }

    attn_level {
        near(logits(|s| if s == 270 { 1000.0 } else { 10.0 }).of("attn_level"), 3.0);
        near(logits(|s| if s == 240 { 1000.0 } else { 10.0 }).of("attn_level"), 1.0);
        assert_eq!(Scene::new().of("attn_level"), None);
    }

    attn_layers_high {
        let scene = Scene::new()
            .with("max_attention_logit/0", |_| 50.0)
            .with("max_attention_logit/1", |_| 150.0)
            .with("max_attention_logit/2", |_| 90.0)
            .with("max_attention_logit/3", |s| if s == 290 { 200.0 } else { 30.0 });
        near(scene.of("attn_layers_high"), 0.5);
        assert_eq!(logits(|_| 150.0).of("attn_layers_high"), None, "no layers");
    }

    attn_mono {
        near(logits(growing(0.002)).of("attn_mono"), 1.0);
        near(logits(growing(-0.002)).of("attn_mono"), -1.0);
        near(logits(|_| 10.0).of("attn_mono"), 0.0);
        assert_eq!(Scene::new().of("attn_mono"), None);
    }

    attn_entropy_slope {
        let scene = Scene::new().with("attention_entropy", |s| 5.0 - 0.003 * s as f64);
        near(scene.of("attn_entropy_slope"), -0.003);
        assert_eq!(Scene::new().of("attn_entropy_slope"), None);
    }

    logz_drift {
        near(Scene::new().with("logz", growing(0.001)).of("logz_drift"), 0.001);
        assert_eq!(Scene::new().of("logz_drift"), None);
    }
}
