//! A run against a golden one of the same recipe: losses in pairs by step, with a tolerance from the noise of both.

use std::collections::HashMap;

use crate::baseline::{MAD_TO_SD, MEDIAN_TO_MEAN, mad, median_of, quantum, residuals};
use crate::gate::Failure;
use crate::replay::{SAME, correlation};
use crate::run::Run;

/// The two runs have no step with a loss in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the golden run has no step with a loss in common with this one")]
pub struct NoPairs;

/// What a comparison found.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Steps that both have a loss at.
    pub pairs: usize,
    /// Correlation of the losses apart from their trend: near 1 where both saw the same data.
    pub correlation: Option<f64>,
    /// Whether the data were the same, which makes the comparison many times as sharp.
    pub same_data: bool,
    /// What a mean of a stretch of rows may differ by.
    pub tolerance: f64,
    /// Where the losses part, if they do.
    pub drift: Option<Drift>,
}

/// Losses that part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Step from which on they differ by more than the tolerance.
    pub from_step: u64,
    /// Median difference from there on: this run less the golden one.
    pub by: f64,
    /// Difference over the last stretch.
    pub at_end: f64,
}

/// Rows of a stretch whose medians are compared, and of the rolling median that takes the trend off.
const STRETCH: usize = 32;
const HALF: usize = 20;
/// Standard errors that a stretch may be off: of thousands of stretches none is by chance.
const ERRORS: f64 = 5.0;
/// A difference below this share of the loss is that of another order of summation, whatever the noise is.
const ROUNDING: f64 = 1e-4;

impl Comparison {
    /// The drift as something that does not hold.
    pub(super) fn failure(&self) -> Option<Failure> {
        let drift = self.drift?;
        let data = if self.same_data {
            "the same data"
        } else {
            "other data"
        };
        Some(Failure {
            step: drift.from_step,
            incident: None,
            says: format!(
                "the loss parts from the golden run at {}: {:+.4} since then, {:+.4} at the end ({} steps compared, {data}, \
                 tolerance {:.4})",
                drift.from_step, drift.by, drift.at_end, self.pairs, self.tolerance
            ),
        })
    }
}

/// Compares the loss of a run with that of a golden one at the steps that both have, after a step if one is named.
///
/// # Errors
/// Where they have none in common.
pub fn compare(run: &Run, golden: &Run, after: Option<u64>) -> Result<Comparison, NoPairs> {
    let (steps, a, b) = pairs(run, golden, after);
    if steps.is_empty() {
        return Err(NoPairs);
    }
    let (own, other) = (noise(&a), noise(&b));
    let correlation = correlation(&a, &b);
    let same_data = correlation.is_some_and(|r| r > SAME);
    let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
    let sd = if same_data {
        noise(&differences)
    } else {
        own.hypot(other)
    };
    let rows = STRETCH.min(steps.len());
    let rounding = (ROUNDING * median_of(&b).abs()).max(quantum(&a).max(quantum(&b)));
    let tolerance = (ERRORS * MEDIAN_TO_MEAN * sd / (rows as f64).sqrt()).max(rounding);
    Ok(Comparison {
        pairs: steps.len(),
        correlation,
        same_data,
        tolerance,
        drift: drift(&steps, &differences, rows, tolerance),
    })
}

/// Steps that both have a finite loss at, and the losses. Of attempts over the same steps the last one counts.
fn pairs(run: &Run, golden: &Run, after: Option<u64>) -> (Vec<u64>, Vec<f64>, Vec<f64>) {
    let losses = |r: &Run| -> HashMap<u64, f64> {
        let row = |i: usize| Some((r.updates_after(r.steps[i]), r.value("loss", i)?));
        (0..r.len())
            .filter_map(row)
            .filter(|(_, v)| v.is_finite())
            .collect()
    };
    let (mine, theirs) = (losses(run), losses(golden));
    let mut out: Vec<(u64, f64, f64)> = Vec::new();
    for i in 0..run.len() {
        let updates = run.updates_after(run.steps[i]);
        let late = after.is_none_or(|after| run.steps[i] > after);
        if let (true, Some(a), Some(b)) = (late, mine.get(&updates), theirs.get(&updates)) {
            out.push((run.steps[i], *a, *b));
        }
    }
    out.sort_by_key(|(step, ..)| *step);
    out.dedup_by_key(|(step, ..)| *step);
    let steps = out.iter().map(|p| p.0).collect();
    (
        steps,
        out.iter().map(|p| p.1).collect(),
        out.iter().map(|p| p.2).collect(),
    )
}

/// Robust sd of a series apart from its trend.
fn noise(y: &[f64]) -> f64 {
    let apart = residuals(y, HALF.min(y.len() / 4));
    let about = mad(&apart, 0.0);
    if about > 0.0 {
        about
    } else {
        MAD_TO_SD * quantum(y) / 2.0
    }
}

/// The first stretch from which on half of all later ones are off in the same way, and the last one is.
fn drift(steps: &[u64], differences: &[f64], rows: usize, tolerance: f64) -> Option<Drift> {
    let stretch = |i: usize| median_of(&differences[i..(i + rows).min(differences.len())]);
    let starts: Vec<usize> = (0..=differences.len() - rows)
        .step_by((rows / 4).max(1))
        .collect();
    let medians: Vec<f64> = starts.iter().map(|i| stretch(*i)).collect();
    let at_end = median_of(&differences[differences.len() - rows..]);
    if at_end.abs() <= tolerance {
        return None;
    }
    let off = |m: &f64| m.abs() > tolerance && m.signum() == at_end.signum();
    let mut first = medians.len();
    let mut misses = 0;
    for (n, m) in medians.iter().enumerate().rev() {
        misses += usize::from(!off(m));
        if off(m) && 2 * misses <= medians.len() - n {
            first = n;
        }
    }
    let from = starts
        .get(first)
        .copied()
        .unwrap_or(differences.len() - rows);
    Some(Drift {
        from_step: steps[from],
        by: median_of(&differences[from..]),
        at_end,
    })
}
