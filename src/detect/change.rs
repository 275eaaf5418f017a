//! Changes of level that are no incident: what other data or settings do to a loss, and an instability does not.

use crate::baseline::{mad, median_of};
use crate::detect::scan::window_rows;
use crate::detect::series::Series;
use crate::detect::{HORIZON_STEPS, Incident, Kind, SETTLED_STEPS, Shape, TRANSIENT_STEPS};

/// A change of more than so many scales is told as an incident whatever the gradient norm does.
const MODEST_SCALES: f64 = 5.0;
/// Without a gradient norm, or one that has not settled: so many scales, and as long as an incident is waited for.
const BLIND_SCALES: f64 = 3.5;
/// And of more than this share of the level, what five scales of the noisiest healthy runs are (rules/SOURCES.md M1).
const MODEST_SHARE: f64 = 0.1;
/// The gradient norm is unmoved if its medians stay within so many scales of that before.
const UNMOVED: f64 = 1.0;
/// Rows of the gradient norm that this rests on, on either side.
const FEWEST: usize = 48;

/// A chronic excess of fewer scales than this with the gradient norm unmoved is a wander of the level: drift, a stretch
/// of harder text.
const WANDER_SCALES: f64 = 2.5;

/// Whether a chronic incident is a mere wander of the level that is over again.
pub(super) fn is_wander(i: &Incident, loss: &Series) -> bool {
    let rows = loss.position(i.onset_row)..loss.position(i.end_row);
    let x = &loss.x[rows.clone()];
    let lasted = x.last().unwrap_or(&0.0) - x.first().unwrap_or(&0.0);
    // What is over in no time was a spike, and what lasts for long had a reason.
    if lasted <= TRANSIENT_STEPS as f64 || lasted > HORIZON_STEPS as f64 / 2.0 {
        return false;
    }
    let excess: Vec<f64> = loss.y[rows].iter().map(|y| y - i.level.value).collect();
    i.kind == Kind::Chronic
        && i.norm_moved == Some(false)
        && i.return_row.is_some()
        && median_of(&excess).abs() < WANDER_SCALES * i.level.scale
}

/// Whether a shift of the loss is a mere change: modest, without a peak, lasting, the gradient norm unmoved. Where no
/// norm is logged, or where it has not settled, it must be smaller still, and have lasted for as long as an incident is
/// waited for.
pub(super) fn is_change(i: &Incident, loss: &Series) -> bool {
    let Some(residual) = i.residual else {
        return false;
    };
    let unsettled = i.shape == Shape::Divergent && i.kind == Kind::Chronic && !i.lost;
    if i.shape != Shape::LevelShift && !unsettled {
        return false;
    }
    let size = residual.value.abs();
    let scales = size / i.level.scale;
    let modest = scales <= MODEST_SCALES && size <= MODEST_SHARE * i.level.value.abs();
    if i.open || !modest || (i.waited as f64) < SETTLED_STEPS || peaked(loss, i, residual.value) {
        return false;
    }
    let small_and_long = scales <= BLIND_SCALES && i.waited >= HORIZON_STEPS;
    match i.norm_moved {
        Some(moved) => !moved && (!unsettled || small_and_long),
        None => !unsettled && small_and_long,
    }
}

/// Whether the first rows stand out of what they come `to`: a spike that left a shift behind.
fn peaked(loss: &Series, i: &Incident, to: f64) -> bool {
    const FIRST: usize = 10;
    const ABOVE: f64 = 1.5;
    let onset = loss.position(i.onset_row);
    let first = &loss.y[onset..(onset + FIRST).min(loss.len())];
    median_of(first) - i.level.value - to > ABOVE * i.level.scale
}

/// Whether log₁₀ of the gradient norm left its level around a row or after it. `None` if too few rows tell.
pub(super) fn norm_moved(grad: &Series, onset_row: usize) -> Option<bool> {
    let at = grad.position(onset_row);
    let rows = window_rows(grad);
    let before = &grad.y[at.saturating_sub(rows)..at];
    let after = &grad.y[at..(at + rows).min(grad.len())];
    if before.len() < FEWEST || after.len() < FEWEST {
        return None;
    }
    let level = median_of(before);
    let scale = mad(before, level).max(f64::MIN_POSITIVE);
    let away = |part: &[f64]| (median_of(part) - level).abs() > UNMOVED * scale;
    Some(away(after) || away(&after[..FEWEST]))
}
