//! The history that an attempt builds on: its own rows after those of earlier attempts that it kept.

use crate::baseline::median;
use crate::detect::Known;
use crate::run::{Attempt, Run};

/// Rows of earlier attempts that the baseline of a resumed one may use.
const HISTORY: usize = 1024;

/// One signal along the history of an attempt, finite values only.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// Steps.
    pub x: Vec<f64>,
    /// Values.
    pub y: Vec<f64>,
    /// Row of the run of each value.
    pub rows: Vec<usize>,
    /// Position of the first value of the attempt itself.
    pub own: usize,
    /// Usual distance in steps between values.
    pub spacing: f64,
    /// Expected noise of each value, up to a factor: 1/sqrt(batch size), less what is known of the batch. Empty where
    /// it never changes.
    pub noise: Vec<f64>,
    /// Correlation of neighbouring values apart from trends, 0 to 0.99: of the data, or of smoothing before logging.
    pub memory: f64,
    /// Usual size of values other than zero.
    pub magnitude: f64,
}

/// Correlation from which on neighbouring values were smoothed before they were logged: batches are hardly related
/// (below 0.1 in the curves of rules/SOURCES.md M1), a moving average of weight 0.9 leaves 0.9.
pub(super) const SMOOTHED: f64 = 0.8;

impl Series {
    /// How much wider the noise of a mean of rows is than that of as many unrelated rows.
    fn relation(&self) -> f64 {
        ((1.0 + self.memory) / (1.0 - self.memory)).sqrt()
    }

    /// How much further a smoothed series wanders than a window of it shows; 1 where it is not smoothed. A level of it is
    /// widened by this.
    pub(super) fn wander(&self) -> f64 {
        if self.smoothed() {
            self.relation()
        } else {
            1.0
        }
    }

    /// How much wider the noise of a mean of rows is than the scale of a level says for unrelated rows.
    pub(super) fn inflation(&self) -> f64 {
        self.relation() / self.wander()
    }

    /// Whether the values look smoothed.
    pub fn smoothed(&self) -> bool {
        self.memory >= SMOOTHED
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.y.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.y.is_empty()
    }

    /// How much noisier value `i` is expected to be than value `from`, because the batch got smaller in between; at
    /// least 1.
    pub fn noise_ratio(&self, from: usize, i: usize) -> f64 {
        match (self.noise.get(from), self.noise.get(i)) {
            (Some(a), Some(b)) => (b / a).max(1.0),
            _ => 1.0,
        }
    }

    /// The loss with what is known of its batches taken off.
    pub(super) fn less(&self, known: &Known) -> Self {
        let mut quieter = self.clone();
        quieter.noise.resize(self.len(), 1.0);
        for (i, row) in self.rows.iter().enumerate() {
            quieter.y[i] -= known.batch[*row];
            quieter.noise[i] *= known.noise[*row];
        }
        quieter
    }

    /// Position of the first value at or after a row of the run, among the attempt's own.
    pub fn position(&self, row: usize) -> usize {
        self.own + self.rows[self.own..].partition_point(|r| *r < row)
    }
}

/// The rows that stand behind an attempt: what earlier attempts did before its first step, then its own.
pub(crate) fn lineage(run: &Run, attempt: &Attempt) -> (Vec<usize>, usize) {
    let mut before: Vec<usize> = Vec::new();
    let mut first = run.steps[attempt.rows.start];
    for earlier in run.attempts.iter().take(attempt.index as usize).rev() {
        let start = run.steps[earlier.rows.start];
        if start >= first {
            continue;
        }
        let end =
            earlier.rows.start + run.steps[earlier.rows.clone()].partition_point(|s| *s < first);
        let room = HISTORY.saturating_sub(before.len());
        let from = end.saturating_sub(room).max(earlier.rows.start);
        before.splice(0..0, from..end);
        first = start;
        if before.len() >= HISTORY {
            break;
        }
    }
    let own = before.len();
    before.extend(attempt.rows.clone());
    (before, own)
}

/// log₁₀ of the gradient norm along an attempt. A norm of zero says nothing.
pub(crate) fn grad(run: &Run, attempt: &Attempt) -> Series {
    let norms = along(run, attempt, "grad_norm", &|v| (v > 0.0).then(|| v.log10()));
    // Norms of neighbouring steps are related by nature: that is no smoothing.
    Series {
        memory: 0.0,
        ..norms
    }
}

/// A signal along an attempt, transformed; values that are not finite are left out.
pub fn along(
    run: &Run,
    attempt: &Attempt,
    signal: &str,
    value: &dyn Fn(f64) -> Option<f64>,
) -> Series {
    let mut series = Series {
        spacing: run.spacing() as f64,
        ..Series::default()
    };
    let Some(column) = run.column(signal) else {
        return series;
    };
    let (rows, own) = lineage(run, attempt);
    series.x.reserve_exact(rows.len());
    series.y.reserve_exact(rows.len());
    series.rows.reserve_exact(rows.len());
    for (i, row) in rows.into_iter().enumerate() {
        if i == own {
            series.own = series.len();
        }
        if let Some(y) = column.finite(row).and_then(value) {
            series.x.push(run.steps[row] as f64);
            series.y.push(y);
            series.rows.push(row);
        }
    }
    if own == 0 {
        series.own = 0;
    }
    series.noise = noise(run, &series.rows);
    series.memory = correlation(&series.y);
    series.magnitude = magnitude(&series.y);
    series
}

/// Median size of the values that are not zero, of at most some thousand of them.
fn magnitude(y: &[f64]) -> f64 {
    const LOOKED_AT: usize = 4096;
    let sizes = y.iter().step_by(y.len() / LOOKED_AT + 1).map(|v| v.abs());
    let mut sizes: Vec<f64> = sizes.filter(|v| *v > 0.0).collect();
    if sizes.is_empty() {
        0.0
    } else {
        median(&mut sizes)
    }
}

/// Correlation of neighbours, as if each value were a share of the one before and noise. Second differences tell it apart
/// from trends: for unrelated values those over one row and over eight are alike, and for values that are related by r
/// their squares are as 6 − 8r⁸ + 2r¹⁶ and 6 − 8r + 2r².
fn correlation(y: &[f64]) -> f64 {
    /// Rows looked at, in stretches across the series.
    const STRETCHES: usize = 64;
    const ROWS: usize = 256;
    const FEWEST: usize = 64;
    const LAG: usize = 8;
    if y.len() < FEWEST {
        return 0.0;
    }
    let stride = (y.len() / STRETCHES).max(ROWS);
    let spread = |lag: usize| -> f64 {
        let bend = |w: &[f64]| (w[2 * lag] - 2.0 * w[lag] + w[0]).abs();
        let parts = (0..y.len()).step_by(stride);
        let parts = parts.map(|i| &y[i..y.len().min(i + ROWS)]);
        let mut bends: Vec<f64> = parts
            .flat_map(|part| part.windows(2 * lag + 1).map(bend))
            .collect();
        median(&mut bends)
    };
    let near = spread(1);
    let ratio = (spread(LAG) / near).powi(2);
    if near <= 0.0 || !ratio.is_finite() {
        return 0.0;
    }
    let bend = |r: f64| 6.0 - 8.0 * r + 2.0 * r * r;
    let expected = |r: f64| bend(r.powf(LAG as f64)) / bend(r);
    (0..=99)
        .map(|r| f64::from(r) / 100.0)
        .rfind(|r| expected(*r) <= ratio)
        .unwrap_or(0.0)
}

fn noise(run: &Run, rows: &[usize]) -> Vec<f64> {
    let Some(batch) = run.column("global_batch_size") else {
        return Vec::new();
    };
    let first = rows.iter().find_map(|r| batch.finite(*r));
    let changes = rows
        .iter()
        .any(|r| batch.finite(*r).is_some_and(|b| Some(b) != first));
    if !changes {
        return Vec::new();
    }
    let mut last = first.unwrap_or(1.0).max(1.0);
    let of = |row: &usize| {
        last = batch.finite(*row).filter(|b| *b >= 1.0).unwrap_or(last);
        1.0 / last.sqrt()
    };
    rows.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{BuildOptions, Rows, RunBuilder};
    use crate::signal::Aliases;

    #[test]
    fn a_resumed_attempt_stands_on_what_was_kept() {
        let mut rows = Rows::default();
        let slot = rows.slot("loss");
        for s in [1, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5] {
            rows.begin(s);
            rows.set(slot, s as f64);
        }
        let aliases = Aliases::built_in();
        let mut b = RunBuilder::new(&aliases, BuildOptions::default());
        b.add("x", rows);
        let run = b.finish().unwrap();
        let series = along(&run, &run.attempts[2], "loss", &Some);
        assert_eq!(series.rows, vec![0, 1, 5, 9, 10]);
        assert_eq!(series.own, 3);
    }
}
