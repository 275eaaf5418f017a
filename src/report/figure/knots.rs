//! Where a schedule changes its value or its slope at once.

use crate::baseline::median;
use crate::report::figure::paths::Paths;
use crate::run::{Column, Run};

/// A corner of a schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knot {
    /// First step of the new value or slope.
    pub step: u64,
    /// Value there.
    pub value: f64,
    /// Value before, if it jumped.
    pub from: Option<f64>,
}

/// Knots that a panel shows; of more, the largest.
const MOST: usize = 12;
/// A jump is at least this share of the value, and a bend or jump so many times as large as the usual ones.
const JUMP: f64 = 0.05;
const SHARP: f64 = 8.0;
/// Rows to either side that tell how much a value usually moves.
const NEAR: usize = 4;
/// Rows around a bend that are not looked at again.
const APART: usize = 3;

/// The corners along the line.
pub(super) fn of(run: &Run, column: &Column, paths: &Paths) -> Vec<Knot> {
    let rows: Vec<(u64, f64)> = paths
        .rows()
        .filter_map(|r| Some((run.steps[r], column.finite(r)?)))
        .collect();
    corners(&rows)
}

fn corners(rows: &[(u64, f64)]) -> Vec<Knot> {
    let values: Vec<f64> = rows.iter().map(|r| r.1).collect();
    let size = values.iter().fold(0.0_f64, |a, v| a.max(v.abs()));
    let mut found: Vec<(f64, Knot)> = Vec::new();
    let mut bends = bends(rows);
    let sharp = (SHARP * usual(bends.iter().copied())).max(1e-6 * size);
    let moves: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    for (n, w) in values.windows(2).enumerate() {
        let by = moves[n];
        let around = n.saturating_sub(NEAR)..(n + NEAR + 1).min(moves.len());
        let usual = usual(around.filter(|m| *m != n).map(|m| moves[m]));
        if by > JUMP * w[0].abs().max(w[1].abs()) && by > (SHARP * usual).max(1e-6 * size) {
            let knot = Knot {
                step: rows[n + 1].0,
                value: w[1],
                from: Some(w[0]),
            };
            found.push((2.0 * by, knot));
            // A jump is two bends, which say nothing more.
            for at in n.saturating_sub(APART)..(n + APART).min(bends.len()) {
                bends[at] = 0.0;
            }
        }
    }
    // Rounded to the digits that are printed, a curve is a stair: where bends are many, they are its steps. All are
    // counted, also those beside a larger one: few steps of a stair are larger than their neighbours.
    let bent: Vec<usize> = (0..bends.len())
        .filter(|n| bends[*n].abs() > sharp)
        .collect();
    let stair = if bent.len() > MOST {
        SHARP * usual(bent.iter().map(|n| bends[*n]))
    } else {
        0.0
    };
    let corner = |n: &usize| bends[*n].abs() > stair && is_peak(&bends, *n);
    for n in bent.into_iter().filter(corner) {
        let (step, value) = rows[n + 1];
        let knot = Knot {
            step,
            value,
            from: None,
        };
        found.push((bends[n].abs(), knot));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.step.cmp(&b.1.step)));
    found.truncate(MOST);
    let mut out: Vec<Knot> = found.into_iter().map(|f| f.1).collect();
    out.sort_by_key(|k| k.step);
    out
}

/// How far each inner row lies off the straight line through its neighbours.
fn bends(rows: &[(u64, f64)]) -> Vec<f64> {
    let off = |w: &[(u64, f64)]| {
        let (a, b, c) = (w[0], w[1], w[2]);
        let run = c.0.saturating_sub(a.0) as f64;
        let share = if run > 0.0 {
            b.0.saturating_sub(a.0) as f64 / run
        } else {
            0.5
        };
        let off = b.1 - (a.1 + share * (c.1 - a.1));
        if off.is_finite() { off } else { 0.0 }
    };
    rows.windows(3).map(off).collect()
}

/// Median size.
fn usual(bends: impl Iterator<Item = f64>) -> f64 {
    let mut sizes: Vec<f64> = bends.map(f64::abs).collect();
    if sizes.is_empty() {
        return 0.0;
    }
    median(&mut sizes)
}

/// Whether no neighbour bends as much; of equals the first counts.
fn is_peak(bends: &[f64], n: usize) -> bool {
    let around = n.saturating_sub(APART)..(n + APART + 1).min(bends.len());
    around.into_iter().all(|m| {
        let (mine, other) = (bends[n].abs(), bends[m].abs());
        m == n || mine > other || (mine >= other && n < m)
    })
}

#[cfg(test)]
mod tests {
    use super::corners;

    #[test]
    fn rounding_is_no_corner() {
        // Flat, then down in a straight line, printed with five digits.
        let rate = |s: u64| 3e-3 - 1.587_6e-5 * s.saturating_sub(700) as f64;
        let rounded = |v: f64| format!("{v:.4e}").parse::<f64>().unwrap();
        let rows: Vec<(u64, f64)> = (600..860)
            .step_by(2)
            .map(|s| (s, rounded(rate(s))))
            .collect();
        let steps: Vec<u64> = corners(&rows).iter().map(|k| k.step).collect();
        assert_eq!(steps, [700]);
    }

    #[test]
    fn round_numbers_have_corners() {
        let rows: Vec<(u64, f64)> = (1..400)
            .step_by(2)
            .map(|s| (s, f64::from((s as u32).div_ceil(2).min(30)) / 10_000.0))
            .collect();
        let steps: Vec<u64> = corners(&rows).iter().map(|k| k.step).collect();
        assert_eq!(steps, [59]);
    }
}
