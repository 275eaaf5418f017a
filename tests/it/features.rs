//! Features on small series whose right value is known by hand.

use whyspike::features::Value;
use whyspike::run::Run;

use crate::support::{Curve, Noise, diagnosed};

/// 400 quiet rows at 2.0 with a spread of 0.01, a spike of one row at 300, and whatever else.
fn spiked() -> Curve {
    let mut noise = Noise::new(3);
    Curve::of_loss((0..400).map(|i| {
        let spike = if i == 300 { 1.0 } else { 0.0 };
        2.0 + 0.01 * noise.normal() + spike
    }))
}

/// A feature of the first incident.
fn feature(run: Run, name: &str) -> Option<f64> {
    let d = diagnosed(run, "");
    let first = d.incidents.first().expect("an incident");
    first.features[name].map(Value::number)
}

fn near(value: Option<f64>, expected: f64, within: f64) {
    let close = value.is_some_and(|v| (v - expected).abs() <= within);
    assert!(close, "{value:?} is not {expected} within {within}");
}

#[test]
fn epsilon_against_the_gradient() {
    // A norm of 0.4 over 4 000 000 parameters is 2e-4 for each: 20 000 times an epsilon of 1e-8.
    let curve = spiked().with("grad_norm", std::iter::repeat_n(0.4, 400));
    let run = |facts: &[(&str, &str)]| {
        let mut run = curve.run();
        run.meta.facts = facts
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        run
    };
    let known = [("adam_eps", "1e-08"), ("num_parameters", "4000000")];
    near(feature(run(&known), "eps_ratio"), 20_000.0, 1e-6);
    assert_eq!(feature(run(&known[..1]), "eps_ratio"), None);
}

#[test]
fn one_data_source_alone() {
    // Every source swings by 0.01 about its level: a robust sd of 0.014826. One leaves it by 0.5 at the spike, two by
    // 0.01, so the difference is that of their z.
    let source = |level: f64, jump: f64| {
        (0..400).map(move |i| match i {
            300 => level + jump,
            i if i % 2 == 0 => level + 0.01,
            _ => level - 0.01,
        })
    };
    let curve = spiked()
        .with("train/loss/web", source(2.0, 0.5))
        .with("train/loss/code", source(1.0, 0.01))
        .with("train/loss/books", source(3.0, 0.01))
        .with("train/loss/aux_balance", source(0.1, 9.0));
    near(
        feature(curve.run(), "source_localised"),
        0.49 / 0.014_826,
        0.1,
    );
    assert_eq!(feature(spiked().run(), "source_localised"), None);
}

#[test]
fn what_was_not_logged_is_unknown() {
    let d = diagnosed(spiked().run(), "");
    let row = &d.incidents[0].features;
    for name in ["g_z", "u_per_lr", "rank_gap", "eps_ratio"] {
        assert!(row[name].is_none(), "{name}: {:?}", row[name]);
    }
}
