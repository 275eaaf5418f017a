//! The shape of an episode: what became of it, and whether the log is long enough to tell.

use crate::baseline::{MEDIAN_TO_MEAN, half_median_slope, median_of};
use crate::detect::change;
use crate::detect::episode::Episode;
use crate::detect::level::Level;
use crate::detect::scan::{hole, window_rows};
use crate::detect::series::Series;
use crate::detect::{
    HORIZON_STEPS, Incident, Kind, Over, Residual, SETTLED_STEPS, Shape, TRANSIENT_STEPS,
};
use crate::run::{Attempt, Run};

/// A shift smaller than this many nats is none (rules/SOURCES.md).
const SHIFT_NATS: f64 = 0.005;
/// A departure that keeps more than this share of its peak excess has not come back.
const STAYS: f64 = 0.5;
/// So many separate peaks make a lull of fewer than so many steps at the end of the log no return (rules/SOURCES.md:
/// three spikes within 1000 steps).
const REPEATS: usize = 4;
const REPEAT_STEPS: f64 = 50.0;
/// Within so many nats of the loss of an untrained model it has lost what it learned (rules/SOURCES.md).
const NEAR_UNTRAINED: f64 = 0.5;
/// Steps for which it must stand there: of the documented spikes 16 of 37 were back within 20 (rules/SOURCES.md M5), and
/// batches that are no text cost more than an untrained model for as long as they last.
const LOST_STEPS: f64 = 20.0;
/// log of the largest vocabulary in use (about 260 000), where the log does not show an untrained model.
const LARGEST_LN_V: f64 = 12.5;
/// An isolated gradient-norm event needs this ratio to its level to be shown.
const NORM_RATIO: f64 = 10.0;

/// The incident of an episode of the loss.
pub(super) fn incident(
    run: &Run,
    attempt: &Attempt,
    e: &Episode,
    loss: &Series,
    grad: &Series,
) -> Incident {
    let judged = judge(e, loss);
    let end_row = end_row(e, loss, attempt);
    let level = e.level.unwrap_or_else(|| level_of_nothing(loss, e.onset));
    let row = |i: usize| loss.rows[i];
    let height = |p: usize| loss.y[p] - level.at(loss.x[p]);
    // As it was logged, whatever is known of the batch.
    let peak = e.peak.and_then(|p| run.value("loss", row(p)));
    let excess = e.peak.map(height);
    let last = run.steps[attempt.rows.end - 1];
    Incident {
        attempt: attempt.index,
        signal: "loss",
        kind: e.kind,
        onset_row: e.onset_row,
        peak_row: e.peak.map(row),
        return_row: e.back.filter(|_| !judged.open).map(row),
        grad_return_row: grad_return(grad, e.onset_row, e.peak.map(row)),
        return_is_bound: e.back.is_some_and(|b| hole(loss, b)),
        peaks: e.peaks.iter().map(|p| row(*p)).collect(),
        end_row,
        level,
        peak,
        excess,
        score: excess.map(|x| x / level.scale),
        norm_moved: change::norm_moved(grad, e.onset_row),
        over: Over::Level,
        shape: judged.shape,
        open: judged.open,
        lost: judged.lost,
        residual: judged.residual,
        waited: last.saturating_sub(run.steps[e.onset_row]),
    }
}

struct Judged {
    shape: Shape,
    open: bool,
    lost: bool,
    residual: Option<Residual>,
}

impl Residual {
    /// The median of excesses over a level.
    fn of(excess: &[f64], noise: f64) -> Option<Self> {
        const NORMAL_95: f64 = 1.96;
        let margin = NORMAL_95 * MEDIAN_TO_MEAN * noise / (excess.len() as f64).sqrt();
        (!excess.is_empty()).then(|| Self {
            value: median_of(excess),
            margin,
        })
    }
}

fn judge(e: &Episode, series: &Series) -> Judged {
    let Some(level) = e.level else {
        let shape = if e.back.is_some() {
            Shape::Transient
        } else {
            Shape::Divergent
        };
        return Judged {
            shape,
            open: e.back.is_none() && e.non_finite == 0,
            lost: false,
            residual: None,
        };
    };
    let Some(back) = e.back else {
        return not_back(e, series, level);
    };
    let residual = residual_after(series, back, level);
    if e.peaks.len() >= REPEATS && series.x[series.len() - 1] - series.x[back] < REPEAT_STEPS {
        return Judged {
            shape: Shape::Divergent,
            open: true,
            lost: false,
            residual,
        };
    }
    let took = series.x[back] - series.x[e.onset];
    let shape = if stays_higher(series, back, level, residual) {
        Shape::LevelShift
    } else if took <= TRANSIENT_STEPS as f64 {
        Shape::Transient
    } else {
        Shape::Recoverable
    };
    Judged {
        shape,
        open: false,
        lost: false,
        residual,
    }
}

/// Whether what is left after a return is more than its error and that of the level, and neither rises nor falls: it came
/// back part of the way (rules/SOURCES.md, Marin: 1.96, a spike to 2.02, then 1.975 for good).
fn stays_higher(series: &Series, back: usize, level: Level, residual: Option<Residual>) -> bool {
    /// Errors that what is left must exceed (rules/SOURCES.md has 3, of the residual alone).
    const ERRORS: f64 = 4.0;
    let Some(left) = residual else { return false };
    // Against the plain median before, too: a fall that noise feigned is no level to come back to.
    let above = (level.median - level.value).max(0.0);
    let rows = series.x[back..].partition_point(|x| *x <= series.x[back] + SETTLED_STEPS);
    let last = back + rows;
    let whole = series.x[last - 1] - series.x[back] >= SETTLED_STEPS - 2.0 * series.spacing;
    let noise = level.scale * series.inflation() * MEDIAN_TO_MEAN;
    let error = |rows: usize| {
        (noise / (rows.max(1) as f64).sqrt()).hypot(noise / (level.rows.max(1) as f64).sqrt())
    };
    let enough = |value: f64, rows: usize| value > SHIFT_NATS.max(ERRORS * error(rows));
    // The later half must still show it: a slow way back leaves its tail in the first.
    let middle = back + rows / 2;
    let later: Vec<f64> = (middle..last)
        .map(|j| series.y[j] - level.at(series.x[j]))
        .collect();
    let stays = enough(left.value - above, rows) && enough(median_of(&later) - above, rows / 2);
    let slope = half_median_slope(&series.x[back..last], &series.y[back..last]);
    whole
        && !level.prior
        && stays
        && slope.abs() * SETTLED_STEPS < (0.25 * left.value).max(4.0 * error(rows))
}

/// Median excess over 200 steps from a position.
pub(super) fn residual_after(series: &Series, from: usize, level: Level) -> Option<Residual> {
    let until = series.x[from] + SETTLED_STEPS;
    let rest: Vec<f64> = (from..series.len())
        .take_while(|j| series.x[*j] <= until && (*j == from || !hole(series, *j)))
        .map(|j| series.y[j] - level.at(series.x[j]))
        .collect();
    Residual::of(&rest, level.scale * series.inflation())
}

fn not_back(e: &Episode, series: &Series, level: Level) -> Judged {
    let last = e.end.min(series.len());
    let tail: Vec<usize> = (e.onset..last)
        .rev()
        .take(window_rows(series) / 4)
        .collect();
    let excess = |j: &usize| series.y[*j] - level.at(series.x[*j]);
    let noise = level.scale * series.inflation();
    let left = Residual::of(&tail.iter().map(excess).collect::<Vec<_>>(), noise);
    let residual = match left {
        Some(left) if left.value.is_finite() && e.non_finite == 0 => left.value,
        _ => {
            return Judged {
                shape: Shape::Divergent,
                open: false,
                lost: false,
                residual: left.filter(|r| r.value.is_finite()),
            };
        }
    };
    let top = if e.kind == Kind::Chronic {
        plateau_top(e, series, level)
    } else {
        None
    };
    let top = top.or(e.peak.map(|p| excess(&p))).unwrap_or(residual);
    let waited = series.x[last.max(1) - 1] - series.x[e.onset];
    let open = last == series.len() && waited < HORIZON_STEPS as f64;
    let lost =
        waited >= LOST_STEPS && residual + level.value > untrained(series, level) - NEAR_UNTRAINED;
    let shape = if lost {
        Shape::Divergent
    } else if settled(e, series, last, level)
        && residual > SHIFT_NATS
        && (residual < STAYS * top || abrupt(e, series, level, residual))
    {
        Shape::LevelShift
    } else if open && residual < STAYS * top && waited <= TRANSIENT_STEPS as f64 {
        Shape::Transient
    } else if open && waited <= 2.0 * TRANSIENT_STEPS as f64 && falling(e, series, last) {
        Shape::Recoverable
    } else {
        Shape::Divergent
    };
    let open = open && shape != Shape::LevelShift;
    Judged {
        shape,
        open,
        lost,
        residual: left,
    }
}

/// Whether the loss moved to where it settled at once and without a peak, rather than climbed there.
fn abrupt(e: &Episode, series: &Series, level: Level, residual: f64) -> bool {
    let last = e.end.min(series.len());
    let excess: Vec<f64> = (e.onset..last)
        .map(|j| series.y[j] - level.at(series.x[j]))
        .collect();
    // Small moves are seen through means of more rows, and what noise leaves of them.
    let rows = if residual < SMALL * level.scale {
        SMALL_ROWS
    } else {
        ABRUPT_ROWS
    };
    let noise = 2.0 * MEDIAN_TO_MEAN * level.scale * series.inflation() / (rows as f64).sqrt();
    let smooth: Vec<f64> = excess.windows(rows).map(median_of).collect();
    let highest = |part: &[f64]| part.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let soon = highest(&smooth[..smooth.len().min(ABRUPT_ROWS)]);
    let modest = residual <= MODEST * level.value.abs();
    modest && soon >= 0.7 * residual && highest(&smooth) <= 1.5 * residual + noise
}

/// Moves of fewer scales than this are looked at through so many rows.
const SMALL: f64 = 5.0;
const SMALL_ROWS: usize = 32;

/// A move without a peak of more than this share of the level is a divergence that stays up, not a shift.
const MODEST: f64 = 0.25;
/// Rows within which a move without a peak is at its new level.
const ABRUPT_ROWS: usize = 10;

/// Loss of the untrained model: that of the first rows where the log begins with the run and has learned since.
fn untrained(series: &Series, level: Level) -> f64 {
    let from_start = series.x.first().is_some_and(|x| *x <= 2.0 * series.spacing);
    let first = median_of(&series.y[..series.len().min(3)]);
    if from_start && first > level.value + LEARNED_NATS {
        first.min(LARGEST_LN_V)
    } else {
        LARGEST_LN_V
    }
}

/// A run whose first rows are not this much above the level was not trained from scratch: a fine-tune.
const LEARNED_NATS: f64 = 1.5;

/// Highest running median of a slow climb: its single highest row is mostly noise.
fn plateau_top(e: &Episode, series: &Series, level: Level) -> Option<f64> {
    let last = e.end.min(series.len());
    let excess: Vec<f64> = (e.onset..last)
        .map(|j| series.y[j] - level.at(series.x[j]))
        .collect();
    excess.windows(10).map(median_of).reduce(f64::max)
}

/// Whether the last 200 steps, at least half of all since the onset, neither rise nor fall.
fn settled(e: &Episode, series: &Series, last: usize, level: Level) -> bool {
    let from = series.x[last.max(1) - 1] - SETTLED_STEPS;
    let first = (e.onset..last)
        .find(|j| series.x[*j] >= from)
        .unwrap_or(last);
    if last - first < 8 || series.x[first] - series.x[e.onset] < 1.0 || series.x[e.onset] > from {
        return false;
    }
    let slope = half_median_slope(&series.x[first..last], &series.y[first..last]);
    let residual = median_of(&series.y[first..last]) - level.at(series.x[last - 1]);
    let drift = slope.abs().min((slope - level.slope.min(0.0)).abs()) * SETTLED_STEPS;
    // Twice the error of the drift: the medians of two halves that lie half of the steps apart.
    let noise = level.scale * series.inflation();
    let error = 2.0 * (2.0 * MEDIAN_TO_MEAN * 2.0 * noise) / ((last - first) as f64).sqrt();
    drift < 2.0 * level.scale && drift < (0.25 * residual.abs()).max(error.min(level.scale))
}

/// Whether the loss falls since its peak.
fn falling(e: &Episode, series: &Series, last: usize) -> bool {
    let Some(peak) = e.peak else { return false };
    let (x, y) = (&series.x[peak..last], &series.y[peak..last]);
    y.len() >= 6 && half_median_slope(x, y) < 0.0 && {
        let third = y.len() / 3;
        median_of(&y[y.len() - third..]) < median_of(&y[..third])
    }
}

/// The row after the last one of the episode, whatever the loss of those rows is.
fn end_row(e: &Episode, series: &Series, attempt: &Attempt) -> usize {
    let back = e.back.map(|b| series.rows[b]);
    back.unwrap_or_else(|| series.rows.get(e.end).copied().unwrap_or(attempt.rows.end))
        .max(e.onset_row + 1)
}

/// A level for an episode that has no row before it.
fn level_of_nothing(series: &Series, at: usize) -> Level {
    let value = series.y.get(at).copied().unwrap_or(0.0);
    Level {
        x: series.x.get(at).copied().unwrap_or(0.0),
        value,
        median: value,
        slope: 0.0,
        memory: 1.0,
        scale: (crate::detect::level::PRIOR_LOSS_NOISE * value.abs()).max(f64::MIN_POSITIVE),
        rows: 0,
        prior: true,
    }
}

/// z of log₁₀ gradient norm above which it is away from its level.
const NORM_AWAY: f64 = 3.0;

/// The row at which the gradient norm is back at the level it had before an onset, if it ever left it.
fn grad_return(grad: &Series, onset_row: usize, peak_row: Option<usize>) -> Option<usize> {
    let onset = grad.position(onset_row);
    // The gradient norm may lead: its level is that of the rows well before.
    let until = onset.saturating_sub(8);
    let before = until.saturating_sub(window_rows(grad))..until.max(onset.min(1));
    let prior = crate::detect::scan::GRAD.prior;
    let memory = crate::detect::scan::memory(grad);
    let level = Level::fit(&grad.x[before.clone()], &grad.y[before], prior, memory)?;
    let level = Level {
        slope: 0.0,
        ..level
    };
    let z = |j: usize| level.z(grad.x[j], grad.y[j]);
    let peak = peak_row.map_or(onset, |r| grad.position(r)).min(grad.len());
    let last_away = (onset.saturating_sub(4)..grad.len().min(peak + 2000))
        .take_while(|j| *j <= peak || z(*j) > NORM_AWAY);
    let last_away = last_away.filter(|j| z(*j) > NORM_AWAY).last()?;
    grad.rows.get(last_away + 1).copied()
}

/// Whether a departure of the gradient norm stands alone: far, and not a part of a loss incident.
pub(super) fn isolated_norm(
    run: &Run,
    attempt: &Attempt,
    e: &Episode,
    grad: &Series,
    losses: &[Incident],
) -> bool {
    let (Some(level), Some(peak)) = (e.level, e.peak) else {
        return false;
    };
    let far = grad.y[peak] - level.at(grad.x[peak]) >= NORM_RATIO.log10();
    let near = |i: &Incident| {
        let from = run.steps[i.onset_row].saturating_sub(2 * TRANSIENT_STEPS);
        let until = run.steps[(i.end_row - 1).min(run.len() - 1)] + 2 * TRANSIENT_STEPS;
        (from..=until).contains(&run.steps[e.onset_row])
    };
    far && attempt.rows.contains(&e.onset_row) && !losses.iter().any(near)
}

/// The incident of a gradient norm that left its level while the loss did not.
pub(super) fn norm_incident(run: &Run, attempt: &Attempt, e: &Episode, grad: &Series) -> Incident {
    let level = e.level.unwrap_or_else(|| level_of_nothing(grad, e.onset));
    let judged = judge(e, grad);
    let power = |log: f64| 10_f64.powf(log);
    let row = |i: usize| grad.rows[i];
    let peak = e.peak.map(|p| power(grad.y[p]));
    let last = run.steps[attempt.rows.end - 1];
    Incident {
        attempt: attempt.index,
        signal: "grad_norm",
        kind: Kind::Acute,
        onset_row: e.onset_row,
        peak_row: e.peak.map(row),
        return_row: e.back.map(row),
        grad_return_row: e.back.map(row),
        return_is_bound: e.back.is_some_and(|b| hole(grad, b)),
        peaks: e.peaks.iter().map(|p| row(*p)).collect(),
        end_row: end_row(e, grad, attempt),
        score: e.peak.map(|p| level.z(grad.x[p], grad.y[p])),
        peak,
        excess: e
            .peak
            .map(|p| power(grad.y[p]) - power(level.at(grad.x[p]))),
        level: Level {
            value: power(level.value),
            slope: 0.0,
            scale: level.scale,
            ..level
        },
        shape: judged.shape,
        open: judged.open,
        lost: false,
        residual: None,
        norm_moved: Some(true),
        over: Over::Level,
        waited: last.saturating_sub(run.steps[e.onset_row]),
    }
}
