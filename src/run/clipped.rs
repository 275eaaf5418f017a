//! Gradient norms that were logged after clipping: they never exceed the threshold, and say nothing of what was above.

use crate::run::{Column, Run};

/// Thresholds in use, where the log does not print its own.
const USUAL: [f64; 9] = [0.1, 0.2, 0.25, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0];
/// Configuration keys of the threshold.
pub(crate) const KEYS: [&str; 5] = [
    "clip_grad",
    "gradient_clipping",
    "max_grad_norm",
    "grad_clip",
    "max_norm",
];
/// How far rounding carries a clipped norm from the threshold.
const ROUNDING: f64 = 2e-3;
/// Rows that must stand at the threshold, at least, and their least share of all.
const FEWEST: usize = 20;
const SHARE: f64 = 0.05;

/// Calls a column of gradient norms what it is if it was logged after clipping. A store keeps the name of the log.
pub(crate) fn rename(run: &mut Run) {
    let Some(norms) = run.column("grad_norm") else {
        return;
    };
    if run.column("grad_norm_clipped").is_some() || !is_clipped(norms, run.fact(&KEYS)) {
        return;
    }
    if let Some(norms) = run.remove("grad_norm") {
        run.insert("grad_norm_clipped", norms);
    }
}

fn is_clipped(norms: &Column, told: Option<f64>) -> bool {
    let finite = || norms.iter().flatten().filter(|v| v.is_finite());
    let highest = finite().fold(0.0, f64::max);
    let at = |clip: f64| (highest / clip - 1.0).abs() <= ROUNDING;
    let known = told.filter(|c| *c > 0.0);
    let fits = known.map_or_else(|| USUAL.iter().any(|c| at(*c)), at);
    if !fits {
        return false;
    }
    let there = finite()
        .filter(|v| *v >= highest * (1.0 - ROUNDING))
        .count();
    there >= FEWEST && there as f64 >= SHARE * finite().count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(norms: impl Iterator<Item = f64>, clip: Option<&str>) -> bool {
        let norms: Vec<f64> = norms.collect();
        let mut run = Run {
            steps: (0..norms.len() as u64).collect(),
            ..Run::default()
        };
        let facts = clip.map(|c| ("clip_grad".to_owned(), c.to_owned()));
        run.meta.facts.extend(facts);
        run.insert("grad_norm", Column::from_values(norms));
        rename(&mut run);
        run.column("grad_norm_clipped").is_some() && run.column("grad_norm").is_none()
    }

    #[test]
    fn norms_that_stop_at_the_threshold_were_clipped_before_they_were_logged() {
        let wave = |i: u32| 0.6 + 0.7 * (f64::from(i) / 3.0).sin();
        let clipped = |i: u32| wave(i).min(1.0);
        assert!(renamed((0..200).map(clipped), None));
        assert!(renamed((0..200).map(clipped), Some("1.0")));
        assert!(renamed((0..200).map(|i| wave(i).min(0.7)), Some("0.7")));
        assert!(
            !renamed((0..200).map(clipped), Some("5.0")),
            "another threshold"
        );
        assert!(!renamed((0..200).map(wave), None), "above it");
        assert!(
            !renamed((0..200).map(|i| wave(i).min(0.7)), None),
            "no usual threshold"
        );
        let once = |i: u32| {
            if i == 7 {
                1.0
            } else {
                0.3 + f64::from(i) / 1e4
            }
        };
        assert!(!renamed((0..200).map(once), None), "a single row");
    }
}
