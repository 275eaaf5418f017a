//! From an alarm to the whole episode: refined onset, peaks, return.

use crate::baseline::median_of;
use crate::detect::level::Level;
use crate::detect::scan::{Watch, hole, memory, window_rows};
use crate::detect::series::Series;
use crate::detect::{HORIZON_STEPS, Kind, SETTLED_STEPS};
use crate::run::{Attempt, Run};

/// An alarm followed to its end. Positions are those of the series.
#[derive(Debug, Clone)]
pub(super) struct Episode {
    pub(super) kind: Kind,
    pub(super) onset: usize,
    pub(super) onset_row: usize,
    /// Row of the first alarm.
    pub(super) alarm_row: usize,
    /// Position of the highest value, if it has a finite one.
    pub(super) peak: Option<usize>,
    pub(super) peaks: Vec<usize>,
    /// Position at which it is back.
    pub(super) back: Option<usize>,
    /// Position after its last value.
    pub(super) end: usize,
    pub(super) level: Option<Level>,
    /// Rows of the run without a finite value.
    pub(super) non_finite: usize,
}

/// Rows before an alarm in which a foreshock belongs to the episode (rules/SOURCES.md: 20 steps).
const FORESHOCK: usize = 20;
/// The same in rows where the log prints rarely.
const FORESHOCK_ROWS: f64 = 4.0;
/// z of a foreshock, and of a row that belongs to the departure.
const FORESHOCK_Z: f64 = 4.0;
const DEPARTED_Z: f64 = 2.5;
/// Share of the alarm threshold that the refined level must still give.
const CONFIRMED: f64 = 0.8;
/// What the summed excess of a chronic incident must be, in scales times the root of the number of rows. The sum of
/// unrelated noise strays by 1; a CUSUM picks its stretches out of very many, and its level of 128 rows is itself off by
/// a tenth of a scale: below 6 the false ones of a million rows begin (benches/DETECTION.md).
const LASTING_SUM: f64 = 6.0;
/// Rows before and after it that the level is measured on.
const LASTING_BEFORE: usize = 256;
const LASTING_AFTER: usize = 128;
/// A row counts for at most this many scales.
const LASTING_CLIP: f64 = 4.0;
/// An alarm so many steps after a return is an after-shock of the same event, if the event lasted long enough to have
/// one: at most so many times as long as it lasted.
const MERGE_STEPS: f64 = 50.0;
const AFTERSHOCK_SHARE: f64 = 3.0;
/// Values whose median decides on the return, and the fewest there must be.
const RETURN_ROWS: usize = 10;
const RETURN_FEWEST: usize = 5;
/// The fewest before a hole. After one a single row is enough: excerpts print a line or two from after an event.
const RETURN_BEFORE_HOLE: usize = 2;
/// The return needs a median excess below the largest of these: scales, nats, share of the peak (rules/SOURCES.md,
/// which has 2 scales: the median of ten rows strays by 0.4, so 1.5 is enough and lets a lasting shift show).
const RETURN_SCALES: f64 = 1.5;
const RETURN_NATS: f64 = 0.02;
const RETURN_SHARE: f64 = 0.05;

/// Follows an alarm at `alarm`, whose departure may have begun at `start`; `clean` is the end of the episode before.
pub(super) fn follow(
    series: &Series,
    watch: &Watch,
    kind: Kind,
    start: usize,
    alarm: usize,
    clean: usize,
) -> Episode {
    let before = fit_before(series, watch, start, clean);
    let onset = if kind == Kind::Acute {
        refine(series, before, start, clean)
    } else {
        start
    };
    let level = if onset < start {
        fit_before(series, watch, onset, clean).or(before)
    } else {
        before
    };
    let mut episode = Episode {
        kind,
        onset,
        onset_row: series.rows[onset],
        alarm_row: series.rows[alarm],
        peak: None,
        peaks: vec![alarm],
        back: None,
        end: alarm + 1,
        level,
        non_finite: 0,
    };
    episode.trace(series, alarm);
    episode
}

/// The level of the rows before an onset, leaving out an earlier episode where enough rows remain.
fn fit_before(series: &Series, watch: &Watch, onset: usize, clean: usize) -> Option<Level> {
    let far = (onset.saturating_sub(window_rows(series))..onset).rev();
    let unbroken = far
        .take_while(|j| !hole(series, *j + 1))
        .last()
        .unwrap_or(onset);
    let from = if onset.saturating_sub(clean) >= 8 {
        unbroken.max(clean)
    } else {
        unbroken
    };
    let level = Level::fit(
        &series.x[from..onset],
        &series.y[from..onset],
        watch.prior,
        memory(series),
    )?
    .floored(series.magnitude);
    Some(level.widened(series.noise_ratio(from, onset) * series.wander()))
}

/// The first row of the departure that an alarm belongs to: a foreshock before it, then the rows that lead up.
fn refine(series: &Series, level: Option<Level>, alarm: usize, clean: usize) -> usize {
    let Some(level) = level else { return alarm };
    let z = |j: usize| level.z(series.x[j], series.y[j]);
    let reach = (FORESHOCK as f64).max(FORESHOCK_ROWS * series.spacing);
    let near = |j: &usize| series.x[alarm] - series.x[*j] <= reach && *j >= clean;
    let span: Vec<usize> = (0..alarm).rev().take(FORESHOCK).take_while(near).collect();
    let widened = FORESHOCK_Z * (1.0 + 4.0 / level.rows as f64).min(2.0);
    let mut onset = span
        .iter()
        .copied()
        .filter(|j| z(*j) > widened)
        .min()
        .unwrap_or(alarm);
    while onset > clean
        && alarm - onset < 2 * FORESHOCK
        && z(onset - 1) > DEPARTED_Z
        && !hole(series, onset)
    {
        onset -= 1;
    }
    onset
}

impl Episode {
    /// An episode whose first rows look like a departure already before a restart begins with the restart.
    pub(super) fn within(mut self, attempt: &Attempt, series: &Series) -> Self {
        if self.onset_row < attempt.rows.start {
            self.onset = series.own;
            self.onset_row = series
                .rows
                .get(series.own)
                .copied()
                .unwrap_or(attempt.rows.start);
        }
        self
    }

    /// Follows the values from an alarm to the return, or to where the search is given up.
    fn trace(&mut self, series: &Series, alarm: usize) {
        let Some(level) = self.level else {
            self.end = alarm + 1;
            return;
        };
        let excess = |j: usize| series.y[j] - level.at(series.x[j]);
        let horizon = series.x[self.onset] + HORIZON_STEPS as f64;
        let highest = |a: usize, b: usize| if excess(b) > excess(a) { b } else { a };
        let mut peak = (self.onset..=alarm).fold(alarm, highest);
        let mut j = alarm + 1;
        while j < series.len()
            && series.x[j] <= horizon.max(series.x[alarm] + HORIZON_STEPS as f64 / 2.0)
        {
            let quiet = (RETURN_SCALES * level.scale)
                .max(RETURN_NATS)
                .max(RETURN_SHARE * excess(peak));
            if returned(series, j, quiet, &excess) {
                self.back = Some(j);
                break;
            }
            peak = highest(peak, j);
            j += 1;
        }
        self.end = j;
        self.peak = Some(peak);
        self.peaks = vec![peak];
    }

    /// Whether the level of all rows before the onset, looked at again, bears out an acute alarm: the running level may
    /// have been fitted to few rows that happened to be quiet.
    pub(super) fn confirmed(&self, series: &Series, watch: &Watch) -> bool {
        let (Some(level), Some(peak)) = (self.level, self.peak) else {
            return true;
        };
        level.z(series.x[peak], series.y[peak]) >= CONFIRMED * watch.acute_z
    }

    /// Whether a chronic alarm stands for more than a wander of the noise: a sum of its excess that chance does not reach,
    /// over the higher of the levels before it and after it.
    pub(super) fn lasting(&self, series: &Series) -> bool {
        let Some(level) = self.level else {
            return true;
        };
        let before = &series.y[self.onset.saturating_sub(LASTING_BEFORE)..self.onset];
        let after = self.back.map_or(&[][..], |b| {
            &series.y[b..(b + LASTING_AFTER).min(series.len())]
        });
        // The first rows after a return may be a lull in a climb that goes on.
        let after = if after.len() < LASTING_AFTER / 2 {
            f64::NEG_INFINITY
        } else {
            median_of(after)
        };
        let ground = median_of(before)
            .max(after)
            .max(level.at(series.x[self.onset]));
        let scale = level.scale * series.inflation();
        let end = self.back.unwrap_or(self.end).min(series.len());
        let (mut sum, mut most) = (0.0, 0.0_f64);
        for (n, y) in (1..).zip(&series.y[self.onset..end]) {
            sum += ((y - ground) / scale).clamp(-LASTING_CLIP, LASTING_CLIP);
            most = most.max(sum / f64::from(n).sqrt());
        }
        most >= LASTING_SUM
    }

    /// Whether it is a single row no higher than `bound` scales: with noise that throws rows as far down, chance. Two of
    /// the three rows after an alarm that are away, too, are none.
    pub(super) fn alone(&self, series: &Series, bound: f64) -> bool {
        const AWAY: f64 = 3.0;
        let (Some(level), Some(peak)) = (self.level, self.peak) else {
            return false;
        };
        let z = |j: usize| level.z(series.x[j], series.y[j]);
        let next = (peak + 1)..(peak + 4).min(series.len());
        let before = peak.saturating_sub(3).max(self.onset)..peak;
        let away = next.chain(before).filter(|j| z(*j) > AWAY).count();
        z(peak) < bound && away < 2 && self.back.is_some()
    }

    /// Whether a departure that begins at `onset` is an after-shock of this episode.
    pub(super) fn continues(&self, series: &Series, onset: usize) -> bool {
        // A return that a hole hides may have been long ago.
        if self.back.is_some_and(|b| hole(series, b)) || hole(series, onset) {
            return false;
        }
        let ended = self
            .back
            .or(self.end.checked_sub(1))
            .map_or(0.0, |e| series.x[e]);
        // What was over in a row or two has no long wake: the next one is another event.
        let lasted = ended - series.x[self.onset];
        let wake = (AFTERSHOCK_SHARE * lasted).clamp(FORESHOCK as f64, MERGE_STEPS);
        series.x[onset] - ended <= wake.max(3.0 * series.spacing)
    }

    /// Takes in an after-shock with an alarm at `alarm`; says where the search goes on. The level stays that of the
    /// first onset, for the rows since then are not the level.
    pub(super) fn extend(&mut self, series: &Series, alarm: usize, kind: Kind) -> usize {
        let mut later = Self {
            onset: alarm,
            back: None,
            end: alarm + 1,
            peak: None,
            peaks: Vec::new(),
            ..self.clone()
        };
        later.trace(series, alarm);
        if let (Some(mine), Some(other)) = (self.peak, later.peak)
            && series.y[other] > series.y[mine]
        {
            self.peak = Some(other);
        }
        self.peak = self.peak.or(later.peak);
        self.peaks.extend(later.peaks);
        self.back = later.back;
        self.end = later.end;
        self.kind = self.kind.min(kind);
        self.end
    }
}

/// Whether the values from `j` on are back and stay: the median of the next ten, that of the next 50 steps and that of
/// the next 200, or of what a hole or the end leaves.
fn returned(series: &Series, j: usize, quiet: f64, excess: &dyn Fn(usize) -> f64) -> bool {
    if excess(j) >= 1.5 * quiet {
        return false;
    }
    let unbroken = |k: &usize| *k == j || !hole(series, *k);
    let over = |steps: f64| -> Vec<f64> {
        let until = series.x[j] + steps.max(RETURN_ROWS as f64 * series.spacing);
        (j..series.len())
            .take_while(unbroken)
            .take_while(|k| series.x[*k] <= until)
            .map(excess)
            .collect()
    };
    let next = over(MERGE_STEPS);
    let fewest = if hole(series, j) {
        1
    } else if series.len() > j + next.len() && hole(series, j + next.len()) {
        RETURN_BEFORE_HOLE
    } else {
        RETURN_FEWEST
    };
    next.len() >= fewest
        && median_of(&next[..next.len().min(RETURN_ROWS)]) < quiet
        && median_of(&next) < quiet
        && median_of(&over(SETTLED_STEPS)) < quiet
}

/// Rows of exact zeros after which a loss that was not near zero has collapsed.
const ZERO_ROWS: usize = 5;

/// Adds what the finite values can't show: NaN and infinite losses, and a loss that collapsed to exactly zero.
pub(super) fn add_non_finite(
    found: &mut Vec<Episode>,
    run: &Run,
    attempt: &Attempt,
    series: &Series,
) {
    let Some(column) = run.column("loss") else {
        return;
    };
    let bad = |row: usize| {
        column
            .get(row)
            .is_some_and(|v| !v.is_finite() || v == 0.0 && norm_is_lost(run, row))
            || counts_nan(run, row)
    };
    let collapsed = collapse(run, attempt, series);
    let mut row = attempt.rows.start;
    while row < attempt.rows.end {
        if !bad(row) && Some(row) != collapsed {
            row += 1;
            continue;
        }
        let end = if Some(row) == collapsed {
            attempt.rows.end
        } else {
            run_end(run, attempt, row, &bad)
        };
        let episode = non_finite(attempt, series, row, end, &bad);
        join(found, episode, series);
        row = end;
    }
    found.sort_by_key(|e| e.onset_row);
}

/// Whether a row says that losses of its interval were no numbers, whatever the mean of the others is.
fn counts_nan(run: &Run, row: usize) -> bool {
    run.value("nan", row).is_some_and(|n| n > 0.0)
}

/// Whether the gradient norm of a row is no number: beside a loss of exactly zero, NaN was replaced.
fn norm_is_lost(run: &Run, row: usize) -> bool {
    run.value("grad_norm", row).is_some_and(|g| !g.is_finite())
}

/// The row after the last non-finite one of a burst: single finite rows between them belong to it.
fn run_end(run: &Run, attempt: &Attempt, from: usize, bad: &dyn Fn(usize) -> bool) -> usize {
    let mut last = from;
    for row in from..attempt.rows.end {
        if bad(row) {
            last = row;
        } else if run.steps[row] - run.steps[last] > MERGE_STEPS as u64 {
            break;
        }
    }
    last + 1
}

fn non_finite(
    attempt: &Attempt,
    series: &Series,
    from: usize,
    end: usize,
    bad: &dyn Fn(usize) -> bool,
) -> Episode {
    let at = series.position(from);
    let before = at.saturating_sub(window_rows(series))..at;
    let level = Level::fit(
        &series.x[before.clone()],
        &series.y[before],
        crate::detect::scan::LOSS.prior,
        memory(series),
    );
    let count = (from..end).filter(|r| bad(*r)).count();
    let after = series.position(end);
    let quiet = level.map(|l| (RETURN_SCALES * l.scale).max(RETURN_NATS));
    let back = (after < series.len()).then_some(after).filter(|j| {
        let excess = |k: usize| level.map_or(0.0, |l| series.y[k] - l.at(series.x[k]));
        quiet.is_some_and(|q| returned(series, *j, 2.0 * q, &excess)) && end < attempt.rows.end
    });
    Episode {
        kind: Kind::NonFinite,
        onset: at.min(series.len().saturating_sub(1)),
        onset_row: from,
        alarm_row: from,
        peak: None,
        peaks: Vec::new(),
        back,
        end: back.unwrap_or(series.len()),
        level,
        non_finite: count.max(1),
    }
}

/// Joins an episode of non-finite values to the departure that led to it.
fn join(found: &mut Vec<Episode>, episode: Episode, series: &Series) {
    let near = |e: &&mut Episode| {
        let ends = e.back.map_or(e.end, |b| b + 1).min(series.len());
        let last = series.x.get(ends.saturating_sub(1)).copied().unwrap_or(0.0);
        let first = series.x.get(episode.onset).copied().unwrap_or(last);
        e.onset_row <= episode.onset_row && (e.end > episode.onset || first - last <= MERGE_STEPS)
    };
    match found.iter_mut().rev().find(near) {
        Some(earlier) => {
            earlier.back = episode.back;
            earlier.end = earlier.end.max(episode.end);
            earlier.non_finite += episode.non_finite;
        }
        None => found.push(episode),
    }
}

/// The first row of exact zeros that last to the end of an attempt whose loss was far from zero.
fn collapse(run: &Run, attempt: &Attempt, series: &Series) -> Option<usize> {
    let column = run.column("loss")?;
    let rows = attempt.rows.clone();
    let zeros = rows
        .clone()
        .rev()
        .take_while(|r| column.get(*r).is_some_and(|v| v == 0.0))
        .count();
    let first = rows.end - zeros;
    let before = &series.y[..series.position(first)];
    let level = median_of(&before[before.len().saturating_sub(64)..]);
    (zeros >= ZERO_ROWS && before.len() >= ZERO_ROWS && level > 0.01).then_some(first)
}
