//! The level that detection measured an incident against, and what it allows.

use crate::detect::{Incident, Level, level_before, norms};
use crate::run::Run;

/// Half the width of a band in robust standard deviations: rows beyond never enter the level (detect/scan.rs).
pub const BAND_SD: f64 = 4.0;
/// Places at which a level is drawn: it bends a little where a trend levels off.
const PLACES: u64 = 64;

/// Decades that a level of a norm and its band keep within: beyond them no power is a number.
const LARGEST: f64 = 300.0;

/// A level with its band.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// First step of the rows that the level rests on.
    pub rests_from: u64,
    /// Last step of the rows that the level rests on.
    pub rests_to: u64,
    /// Whether its width leans on the noise of a healthy run, because there are few rows.
    pub prior: bool,
    /// The level along the axis, in order of step.
    pub points: Vec<BandPoint>,
}

/// The level at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BandPoint {
    /// The step.
    pub step: u64,
    /// What was expected.
    pub middle: f64,
    /// So many sd below.
    pub low: f64,
    /// So many sd above.
    pub high: f64,
}

/// The band of a panel of an incident: of the signal that left its level, and of the gradient norm.
pub(super) fn band(run: &Run, i: &Incident, signal: &str, axis: (u64, u64)) -> Option<Band> {
    let spacing = run.spacing();
    match signal {
        "loss" if i.signal == "loss" => {
            let of = |step: u64| {
                let middle = expected(&i.level, step);
                let away = BAND_SD * i.level.scale;
                (middle, middle - away, middle + away)
            };
            drawn(&i.level, axis, spacing, of)
        }
        "grad_norm" => {
            let level = norm_level(run, i)?;
            let of = |step: u64| {
                let middle = expected(&level, step);
                let away = BAND_SD * level.scale;
                let power = |v: f64| 10_f64.powf(v.clamp(-LARGEST, LARGEST));
                (power(middle), power(middle - away), power(middle + away))
            };
            drawn(&level, axis, spacing, of)
        }
        _ => None,
    }
}

/// The level of log₁₀ of the gradient norm over the window before the onset.
fn norm_level(run: &Run, i: &Incident) -> Option<Level> {
    /// Rows that a level rests on (detect/scan.rs).
    const ROWS: usize = 128;
    let attempt = run.attempts.get(i.attempt as usize)?;
    let mut norms = norms(run, attempt);
    let end = norms.rows.partition_point(|r| *r < i.onset_row);
    let begin = end.saturating_sub(ROWS);
    norms.x = norms.x[begin..end].to_vec();
    norms.y = norms.y[begin..end].to_vec();
    level_before(&norms)
}

/// What the level says of a step; before the rows end, along their trend.
fn expected(level: &Level, step: u64) -> f64 {
    let x = step as f64;
    if x < level.x {
        level.value + level.slope * (x - level.x)
    } else {
        level.at(x)
    }
}

fn drawn(
    level: &Level,
    (from, to): (u64, u64),
    spacing: u64,
    of: impl Fn(u64) -> (f64, f64, f64),
) -> Option<Band> {
    let rests_to = level.x.max(0.0) as u64;
    let rows = (level.rows as u64).saturating_sub(1);
    let rests_from = rests_to.saturating_sub(rows.saturating_mul(spacing));
    let first = rests_from.max(from).min(to);
    let most = if level.slope == 0.0 { 1 } else { PLACES };
    let places = most.min(to - first).max(1);
    let at = |n: u64| first + (u128::from(to - first) * u128::from(n) / u128::from(places)) as u64;
    let mut points: Vec<BandPoint> = (0..=places)
        .map(at)
        .map(|step| {
            let (middle, low, high) = of(step);
            BandPoint {
                step,
                middle,
                low,
                high,
            }
        })
        .collect();
    points.dedup_by_key(|p| p.step);
    points.retain(|p| [p.middle, p.low, p.high].iter().all(|v| v.is_finite()));
    if points.is_empty() {
        return None;
    }
    Some(Band {
        rests_from,
        rests_to,
        prior: level.prior,
        points,
    })
}
