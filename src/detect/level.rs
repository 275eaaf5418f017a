//! The level a signal had before it left it: trend, scale, and how much of the scale is prior knowledge.

use crate::baseline::{MAD_TO_SD, median, quantile, quantum};

/// Relative noise of a healthy per-step loss (rules/SOURCES.md M1: 0.3 to 3.7 %, typically 1 %).
pub(crate) const PRIOR_LOSS_NOISE: f64 = 0.01;
/// Healthy sd of log₁₀ of the gradient norm (rules/SOURCES.md: 0.03 to 0.1).
pub(crate) const PRIOR_GRAD_NOISE: f64 = 0.1;
/// Rows that the prior noise is worth, and the number of rows from which on it counts no more.
const PRIOR_ROWS: f64 = 8.0;
const ENOUGH_ROWS: usize = 64;
/// The scale is never below this share of the level (rules/SOURCES.md).
const FLOOR: f64 = 0.001;
/// Rows whose median is "the level of right now", against which a steep but flattening descent is compared.
const NOW: usize = 16;
/// How wrong the extrapolation of a steep trend may be, as a share of what it extrapolates. Widens the scale in the
/// early descent (rules/SOURCES.md T07) and vanishes once the loss is flat.
const EXTRAPOLATION: f64 = 0.1;
/// A level below this share of the usual size of the values is zero, and its scale at least that share of it: losses of
/// reinforcement learning are exactly zero for many steps.
const ZERO: f64 = 1e-3;
const OF_USUAL: f64 = 0.25;
/// Upper quantile that widens the scale where the noise has a heavy upper tail, and the normal quantile there.
const TAIL: f64 = 0.975;
const TAIL_SD: f64 = 1.96;

/// Level, trend and scale of a signal over the rows before a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Step at which the level holds.
    pub x: f64,
    /// Value at `x`.
    pub value: f64,
    /// Change per step; levels off over `memory`.
    pub slope: f64,
    /// Steps over which the trend levels off when it is extrapolated.
    pub memory: f64,
    /// Robust standard deviation of one row.
    pub scale: f64,
    /// Plain median of the rows, without a trend.
    pub median: f64,
    /// Rows it rests on.
    pub rows: usize,
    /// Whether the scale leans on the prior noise of a healthy run because there are few rows.
    pub prior: bool,
}

/// What is known of a signal beforehand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prior {
    /// Noise, relative to the level or absolute.
    pub(super) noise: f64,
    /// Whether the noise is relative to the level.
    pub(super) relative: bool,
    /// Whether a rise may be extrapolated (the gradient norm rises by design, the loss does not).
    pub(super) may_rise: bool,
}

impl Level {
    /// Value expected at a step.
    pub fn at(&self, x: f64) -> f64 {
        if self.slope == 0.0 {
            return self.value;
        }
        let ahead = (x - self.x).max(0.0);
        self.value + self.slope * self.memory * (1.0 - (-ahead / self.memory).exp())
    }

    /// The level without its trend: the median of the rows it rests on.
    #[must_use]
    pub(super) fn flat(self) -> Self {
        Self {
            value: self.median,
            slope: 0.0,
            ..self
        }
    }

    /// The same level, not narrower than a share of the usual size of the values where it lies at zero: there, nothing
    /// tells what a value other than zero is worth.
    #[must_use]
    pub(super) fn floored(self, magnitude: f64) -> Self {
        let at_zero = self.value.abs() < ZERO * magnitude;
        let floor = if at_zero { OF_USUAL * magnitude } else { 0.0 };
        Self {
            scale: self.scale.max(floor),
            ..self
        }
    }

    /// The same level with a scale that many times as wide.
    #[must_use]
    pub(super) fn widened(self, ratio: f64) -> Self {
        Self {
            scale: self.scale * ratio,
            ..self
        }
    }

    /// Robust z of a value at a step.
    pub fn z(&self, x: f64, y: f64) -> f64 {
        (y - self.at(x)) / self.scale
    }

    /// Fits the level to rows in order of step. `None` without any.
    pub(super) fn fit(x: &[f64], y: &[f64], prior: Prior, memory: f64) -> Option<Self> {
        let n = y.len();
        let last = *x.last()?;
        let mut scratch: Vec<f64> = Vec::with_capacity(n);
        let slope = if n >= NOW {
            slope(x, y, &mut scratch)
        } else {
            0.0
        };
        let slope = if prior.may_rise {
            slope
        } else {
            slope.min(0.0)
        };
        let middle = median_with(y, &mut scratch);
        let tied = coarse(y, middle);
        let middle = if tied { midmean(&mut scratch) } else { middle };
        let now = median_with(&y[n.saturating_sub(NOW)..], &mut scratch);
        scratch.clear();
        scratch.extend(x.iter().zip(y).map(|(x, y)| y - slope * (x - last)));
        let centre = median(&mut scratch);
        // A descent that flattens lies above its own extrapolation: that is no departure.
        let value = if n >= NOW { centre.max(now) } else { centre };
        for r in &mut scratch {
            *r -= centre;
        }
        let spread = if tied {
            clipped_sd(&scratch, quantum(y))
        } else {
            0.0
        };
        let scale = scale(&mut scratch, y, value, prior)
            .max(spread)
            .hypot(EXTRAPOLATION * slope * memory);
        let prior = n < ENOUGH_ROWS;
        Some(Self {
            x: last,
            value,
            slope,
            memory,
            scale,
            median: middle,
            rows: n,
            prior,
        })
    }
}

fn median_with(y: &[f64], scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    scratch.extend_from_slice(y);
    median(scratch)
}

/// Whether a tenth of the rows print exactly the median: the log is coarse, and its median sits on a printed value.
fn coarse(y: &[f64], middle: f64) -> bool {
    let tied = y.iter().filter(|v| v.to_bits() == middle.to_bits()).count();
    tied > 1 && tied * 10 >= y.len()
}

/// Standard deviation with residuals clipped at three printed steps: between two printed values the median absolute
/// deviation is either zero or a whole step.
fn clipped_sd(residuals: &[f64], step: f64) -> f64 {
    let square = |r: &f64| r.abs().min(3.0 * step).powi(2);
    (residuals.iter().map(square).sum::<f64>() / residuals.len() as f64).sqrt()
}

/// Mean of the middle half: as robust as the median, but not bound to a printed value.
fn midmean(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let inner = &values[quarter..values.len() - quarter];
    inner.iter().sum::<f64>() / inner.len() as f64
}

/// Two-half-median slope (rules/SOURCES.md) of rows in order of step.
fn slope(x: &[f64], y: &[f64], scratch: &mut Vec<f64>) -> f64 {
    let half = y.len() / 2;
    let late = y.len() - half;
    let run = x[late + half / 2] - x[half / 2];
    let early = median_with(&y[..half], scratch);
    let rise = median_with(&y[late..], scratch) - early;
    if run > 0.0 { rise / run } else { 0.0 }
}

fn scale(residuals: &mut [f64], y: &[f64], level: f64, prior: Prior) -> f64 {
    let n = residuals.len();
    let known = if prior.relative {
        prior.noise * level.abs()
    } else {
        prior.noise
    };
    let tail = if n >= ENOUGH_ROWS {
        quantile(residuals, TAIL) / TAIL_SD
    } else {
        0.0
    };
    for r in residuals.iter_mut() {
        *r = r.abs();
    }
    let own = (MAD_TO_SD * median(residuals)).max(tail);
    let weight = PRIOR_ROWS * (1.0 - n as f64 / ENOUGH_ROWS as f64).max(0.0);
    let blended = ((weight * known * known + n as f64 * own * own) / (weight + n as f64)).sqrt();
    let mut floor = FLOOR * if prior.relative { level.abs() } else { 1.0 };
    if blended < 2.0 * floor {
        floor = floor.max(quantum(y) / 2.0);
    }
    blended.max(floor).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSS: Prior = Prior {
        noise: PRIOR_LOSS_NOISE,
        relative: true,
        may_rise: false,
    };

    fn steps(n: usize) -> Vec<f64> {
        (0..n).map(|i| i as f64).collect()
    }

    #[test]
    fn one_row_leans_on_the_prior_noise() {
        let level = Level::fit(&[5.0], &[2.2], LOSS, 64.0).unwrap();
        assert!(
            level.prior && (level.scale - 0.0207).abs() < 1e-3,
            "{level:?}"
        );
    }

    #[test]
    fn a_loss_printed_in_bf16_has_a_scale_of_half_its_quantum() {
        let y: Vec<f64> = (0..128)
            .map(|i| if i % 50 == 0 { 1.664_062_5 } else { 1.656_25 })
            .collect();
        let level = Level::fit(&steps(128), &y, LOSS, 64.0).unwrap();
        assert!((level.scale - 0.003_906_25).abs() < 1e-9, "{level:?}");
    }

    #[test]
    fn a_falling_trend_levels_off() {
        let y: Vec<f64> = (0..128).map(|i| 4.0 - 0.01 * f64::from(i)).collect();
        let level = Level::fit(&steps(128), &y, LOSS, 64.0).unwrap();
        assert!(level.slope < -0.009);
        assert!(level.at(1e6) > level.value - 0.7);
    }

    #[test]
    fn the_loss_is_not_expected_to_rise() {
        let y: Vec<f64> = (0..128).map(|i| 2.0 + 0.01 * f64::from(i)).collect();
        let level = Level::fit(&steps(128), &y, LOSS, 64.0).unwrap();
        assert!(level.slope.abs() < 1e-12);
    }
}
