//! Downward shifts: a loss that falls at once and stays low saw other data, or data it has seen before.

use crate::baseline::median_of;
use crate::detect::level::Level;
use crate::detect::scan::{LOSS, hole, memory, window_rows};
use crate::detect::series::Series;
use crate::detect::{Incident, Kind, Over, SETTLED_STEPS, Shape, change, shape};
use crate::run::{Attempt, Run};

/// So many rows in a row, each by so many scales below the level, are a fall.
const ROWS: usize = 16;
const BELOW: f64 = 2.0;
/// What stays of it: scales of the level before, and nats. As far as a shift upward must be.
const STAYS: f64 = 3.0;
const NATS: f64 = 0.02;
/// Rows that the level before must rest on.
const BEFORE: usize = 64;

/// The downward shifts of an attempt, apart from the returns of other incidents.
pub(super) fn drops(
    run: &Run,
    attempt: &Attempt,
    series: &Series,
    grad: &Series,
    found: &[Incident],
) -> Vec<Incident> {
    let mut out = Vec::new();
    let mut i = series.own.max(BEFORE);
    while i + ROWS <= series.len() {
        let Some((level, stays)) = fall(series, i) else {
            i += 1;
            continue;
        };
        if returns_from(found, series, i, level.median + stays) {
            i += ROWS;
            continue;
        }
        out.push(incident(run, attempt, (series, grad), i, level, stays));
        i += window_rows(series);
    }
    out
}

/// The level before position `i` and the excess after it, if the loss falls there and stays low.
fn fall(series: &Series, i: usize) -> Option<(Level, f64)> {
    // Cheap tests first: this runs for every row.
    let (before, after) = (&series.y[i - BEFORE..i], &series.y[i..i + ROWS]);
    let falls = |near: f64| after.iter().all(|y| *y < near);
    if !falls(median_of_three(before)) || !falls(median_of_some(before)) || hole(series, i) {
        return None;
    }
    let from = i.saturating_sub(window_rows(series));
    let level = Level::fit(
        &series.x[from..i],
        &series.y[from..i],
        LOSS.prior,
        memory(series),
    )?;
    let z = |j: usize| level.z(series.x[j], series.y[j]);
    if (i..i + ROWS).any(|j| z(j) > -BELOW) {
        return None;
    }
    let until = series.x[i] + SETTLED_STEPS;
    let after: Vec<f64> = (i..series.len())
        .take_while(|j| series.x[*j] <= until && !(*j > i && hole(series, *j)))
        .map(|j| series.y[j] - level.at(series.x[j]))
        .collect();
    let stays = median_of(&after);
    (-stays > STAYS * level.scale && -stays > NATS).then_some((level, stays))
}

/// The median of every ninth value.
fn median_of_some(y: &[f64]) -> f64 {
    let some: Vec<f64> = y.iter().copied().step_by(9).collect();
    median_of(&some)
}

/// The median of the first, the middle and the last value.
fn median_of_three(y: &[f64]) -> f64 {
    let (a, b, c) = (y[0], y[y.len() / 2], y[y.len() - 1]);
    a.min(b).max(a.max(b).min(c))
}

/// Whether a fall to `value` leads back to where the loss was before an earlier incident.
fn returns_from(found: &[Incident], series: &Series, i: usize, value: f64) -> bool {
    let earlier = found.iter().rev().find(|f| f.onset_row <= series.rows[i]);
    earlier.is_some_and(|f| value >= f.level.value - STAYS * f.level.scale)
}

fn incident(
    run: &Run,
    attempt: &Attempt,
    (series, grad): (&Series, &Series),
    i: usize,
    level: Level,
    stays: f64,
) -> Incident {
    let row = series.rows[i];
    let end = (i + ROWS).min(series.len() - 1);
    let last = run.steps[attempt.rows.end - 1];
    let y = series.y[i];
    Incident {
        attempt: attempt.index,
        signal: "loss",
        kind: Kind::Chronic,
        onset_row: row,
        peak_row: Some(row),
        return_row: None,
        grad_return_row: None,
        return_is_bound: false,
        peaks: vec![row],
        end_row: series.rows[end],
        level,
        peak: Some(y),
        excess: Some(stays),
        score: Some(stays / level.scale),
        shape: Shape::LevelShift,
        open: false,
        lost: false,
        residual: shape::residual_after(series, i, level),
        norm_moved: change::norm_moved(grad, row),
        over: Over::Level,
        waited: last.saturating_sub(run.steps[row]),
    }
}
