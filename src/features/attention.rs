//! F33–F37: attention logits, attention entropy, output logits.

use crate::baseline::{kendall, median_of, theil_sen};
use crate::detect::Series;
use crate::features::context::Context;
use crate::features::{Feature, number};

pub(super) const FEATURES: &[Feature] = &[
    number(
        "F33",
        "attn_slope",
        "1/step",
        "1000",
        &["max_attention_logit"],
        "slope of the log of the largest attention logit before the onset",
        |c| slope(&ln(c, "max_attention_logit", 1000.0)),
    ),
    number(
        "F33b",
        "attn_doubling",
        "steps",
        "1000",
        &["max_attention_logit"],
        "steps in which the largest attention logit doubles at that slope; unknown while it does not grow",
        |c| {
            slope(&ln(c, "max_attention_logit", 1000.0))
                .filter(|s| *s > 0.0)
                .map(|s| std::f64::consts::LN_2 / s)
        },
    ),
    number(
        "F33c",
        "attn_growth",
        "ratio",
        "250 before to 60 after",
        &["max_attention_logit"],
        "largest attention logit up to 60 steps after the onset against its level 250 steps before",
        growth,
    ),
    number(
        "F34",
        "attn_level",
        "log10",
        "50",
        &["max_attention_logit"],
        "log10 of the largest attention logit in the 50 steps before the onset",
        |c| {
            c.max(
                "max_attention_logit",
                c.onset - 50.0_f64.max(3.0 * c.spacing),
                c.onset,
            )
            .filter(|a| *a > 0.0)
            .map(f64::log10)
        },
    ),
    number(
        "F34b",
        "attn_layers_high",
        "share",
        "50",
        &["attention logit of each layer"],
        "share of the layers whose largest attention logit was above 100 in the 50 steps before the onset",
        layers_high,
    ),
    number(
        "F35",
        "attn_mono",
        "Kendall's tau",
        "1000",
        &["max_attention_logit"],
        "how steadily the largest attention logit rose before the onset: 1 always, -1 it always fell",
        |c| {
            let w = ln(c, "max_attention_logit", 1000.0);
            (w.len() >= 10).then(|| kendall(&w.y))?
        },
    ),
    number(
        "F36",
        "attn_entropy_slope",
        "nats/step",
        "1000",
        &["attention_entropy"],
        "slope of the attention entropy before the onset",
        |c| {
            let from = c.onset - 1000.0_f64.max(20.0 * c.spacing);
            plain_slope(&c.window("attention_entropy", from, c.onset))
        },
    ),
    number(
        "F37",
        "logz_drift",
        "1/step",
        "1000",
        &["logz"],
        "slope of the log of the output-logit signal",
        |c| slope(&ln(c, "logz", 1000.0)),
    ),
];

fn ln(c: &Context<'_>, signal: &str, steps: f64) -> Series {
    c.log_window(signal, c.onset - steps.max(20.0 * c.spacing), c.onset + 1.0)
}

/// Slope of the natural log from a window of log₁₀ values.
fn slope(w: &Series) -> Option<f64> {
    plain_slope(w).map(|s| s * std::f64::consts::LN_10)
}

fn plain_slope(w: &Series) -> Option<f64> {
    (w.len() >= 20).then(|| theil_sen(&w.x, &w.y))?
}

/// Attention logits that QK-Clip clips (rules/SOURCES.md).
const CLIPPED: f64 = 100.0;

fn layers_high(c: &Context<'_>) -> Option<f64> {
    let from = c.onset - 50.0_f64.max(3.0 * c.spacing);
    let layers = c.run.family("max_attention_logit");
    let levels: Vec<f64> = layers
        .filter_map(|(name, _)| c.max(name, from, c.onset))
        .collect();
    let high = levels.iter().filter(|a| **a > CLIPPED).count();
    (levels.len() >= 2).then(|| high as f64 / levels.len() as f64)
}

fn growth(c: &Context<'_>) -> Option<f64> {
    let far = c.onset - 250.0_f64.max(20.0 * c.spacing);
    let old = c.window(
        "max_attention_logit",
        far,
        far + 100.0_f64.max(8.0 * c.spacing),
    );
    let level = median_of(&old.y);
    let now = c.max(
        "max_attention_logit",
        c.onset - c.spacing,
        c.onset + 60.0_f64.max(2.0 * c.spacing),
    )?;
    (old.len() >= 3 && level > 0.0).then(|| now / level)
}
