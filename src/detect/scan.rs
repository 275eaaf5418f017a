//! Walks a series once, looking only back, and raises alarms.

use std::collections::VecDeque;

use crate::detect::Kind;
use crate::detect::episode::{Episode, follow};
use crate::detect::level::{Level, PRIOR_GRAD_NOISE, PRIOR_LOSS_NOISE, Prior};
use crate::detect::series::Series;

/// How a signal is watched. The numbers are those of rules/SOURCES.md where it gives them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    /// What is known of the signal beforehand.
    pub(super) prior: Prior,
    /// Robust z of a single row that raises an alarm: 6 finds several times more real spikes than the untrended rule
    /// at 5 false hits in 131 000 points (rules/SOURCES.md).
    pub(super) acute_z: f64,
    /// CUSUM alarm: h = 10 for paging (average run length 1.4e5 on normal noise).
    pub(super) cusum_h: f64,
    /// How far the recent median must rise over the best earlier one, in scales; `None` switches the test off.
    pub(super) best_level: Option<f64>,
}

/// The loss.
pub(super) const LOSS: Watch = Watch {
    prior: Prior {
        noise: PRIOR_LOSS_NOISE,
        relative: true,
        may_rise: false,
    },
    acute_z: 6.0,
    cusum_h: 10.0,
    best_level: Some(3.5),
};

/// The loss less what a twin tells of its batches. What remains wanders with the twin's own trend, which a CUSUM would
/// add up.
pub(super) const TWIN: Watch = Watch {
    cusum_h: f64::INFINITY,
    best_level: None,
    ..LOSS
};

/// log₁₀ of the gradient norm; chronic drift of the norm is evidence, not an incident.
pub(super) const GRAD: Watch = Watch {
    prior: Prior {
        noise: PRIOR_GRAD_NOISE,
        relative: false,
        may_rise: true,
    },
    acute_z: 8.0,
    cusum_h: f64::INFINITY,
    best_level: None,
};

/// Steps of the window of a level.
pub(super) const WINDOW_STEPS: f64 = 128.0;
/// Fewest rows of the window where the log prints rarely.
const WINDOW_ROWS: usize = 64;
/// CUSUM slack.
const SLACK: f64 = 0.5;
/// A row adds at most this many scales to the CUSUM: a single outlier is the other detector's business.
const CUSUM_CLIP: f64 = 4.0;
/// Rows with at least this z never enter the window.
const FLAG: f64 = 4.0;
/// So many flagged rows in a row are the new level after all.
const NEW_LEVEL: usize = 64;
/// Rows that the chronic tests need before they speak, where the window holds as many.
const WARM: usize = 48;
/// Rows for which a chronic alarm that did not stand is not raised again, at least.
const REFUSED: usize = 8;
/// A hole of more than so many usual distances between rows is not bridged.
const HOLE: f64 = 20.0;

impl Watch {
    /// Thresholds rise where the level rests on few rows: a median of n rows is itself uncertain.
    fn widened(rows: usize) -> f64 {
        1.0 + 4.0 / rows as f64
    }
}

/// Whether there is a hole in the log before a value.
pub(super) fn hole(series: &Series, i: usize) -> bool {
    i > 0 && series.x[i] - series.x[i - 1] > HOLE * series.spacing.max(1.0)
}

/// Rows of the window of a level.
pub(super) fn window_rows(series: &Series) -> usize {
    ((WINDOW_STEPS / series.spacing.max(1.0)) as usize).max(WINDOW_ROWS)
}

/// Finds the episodes of a series in order.
pub(super) fn scan(series: &Series, watch: &Watch) -> Vec<Episode> {
    let mut found: Vec<Episode> = Vec::new();
    let mut state = State::new(window_rows(series));
    let mut tail = Tail::default();
    let mut i = 0;
    while i < series.len() {
        if hole(series, i) {
            state.forget();
        }
        let alarm = state.test(series, i, watch);
        if let Some(level) = state.level.filter(|_| state.flat()) {
            tail.count(series, i, level, -state.z);
        }
        let Some((kind, onset)) = alarm else {
            state.admit(series, i);
            i += 1;
            continue;
        };
        let clean = found.last().map_or(0, |e| e.end);
        let end = match found.last_mut() {
            Some(last) if last.continues(series, onset) => last.extend(series, i, kind),
            _ => {
                let episode = follow(series, watch, kind, onset, i, clean);
                let chance = match kind {
                    Kind::Acute => {
                        episode.alone(series, tail.bound()) || !episode.confirmed(series, watch)
                    }
                    Kind::Chronic => !episode.lasting(series),
                    Kind::NonFinite => false,
                };
                if chance {
                    if kind == Kind::Chronic {
                        state.refuse(i, onset, episode.back.is_some());
                    }
                    state.admit(series, i);
                    i += 1;
                    continue;
                }
                let end = episode.end;
                found.push(episode);
                end
            }
        };
        if found.last().is_some_and(|e| e.back.is_none()) {
            state.forget();
        }
        state.after_alarm();
        i = end.max(i + 1);
    }
    // What the noise throws is known better in the end than when the first row stood out.
    found.retain(|e| e.kind != Kind::Acute || !e.alone(series, tail.bound()));
    found
}

/// The last unflagged rows, their values side by side.
#[derive(Default)]
struct Window {
    rows: Vec<usize>,
    x: Vec<f64>,
    y: Vec<f64>,
    start: usize,
}

impl Window {
    fn len(&self) -> usize {
        self.rows.len() - self.start
    }

    fn oldest(&self) -> Option<usize> {
        self.rows.get(self.start).copied()
    }

    fn values(&self) -> (&[f64], &[f64]) {
        (&self.x[self.start..], &self.y[self.start..])
    }

    fn push(&mut self, series: &Series, i: usize, capacity: usize) {
        self.rows.push(i);
        self.x.push(series.x[i]);
        self.y.push(series.y[i]);
        if self.len() > capacity {
            self.start += 1;
        }
        // Old rows are moved out in bulk, so that the values stay side by side.
        if self.start > 4 * capacity {
            self.rows.drain(..self.start);
            self.x.drain(..self.start);
            self.y.drain(..self.start);
            self.start = 0;
        }
    }
}

/// How the rows since the last look agree with the level. A flat level that they agree with is not fitted anew: the
/// fit is what a long run spends its time on.
#[derive(Default)]
struct Agreement {
    rows: usize,
    above: usize,
    away: usize,
    total: usize,
}

impl Agreement {
    fn count(&mut self, z: f64) {
        self.rows += 1;
        self.total += 1;
        self.above += usize::from(z > 0.0);
        self.away += usize::from(z.abs() > 1.0);
    }

    /// As many rows above as below, and as many beyond one scale as normal noise has (0.317), within a standard
    /// deviation and two; for a window's length at most.
    fn stands(&self, capacity: usize) -> bool {
        let n = self.rows as f64;
        let off = |k: usize, share: f64| {
            (k as f64 - share * n).abs() / (n * share * (1.0 - share)).sqrt()
        };
        self.total < capacity && off(self.above, 0.5) <= 1.0 && off(self.away, 0.317) <= 2.0
    }

    /// Begins the next stretch of rows under the same level.
    fn renew(&mut self) {
        *self = Self {
            total: self.total,
            ..Self::default()
        };
    }
}

/// How far rows have been below the level. Noise with heavy tails throws rows as far down as up, spikes only go up: so
/// this tells how high a single row may stand by chance.
#[derive(Default)]
struct Tail {
    rows: usize,
    lowest: f64,
    second: f64,
}

impl Tail {
    /// Rows before which nothing is said of the tail.
    const ENOUGH: usize = 500;
    /// The second lowest row may be this much further out than that of normal noise before the tail counts as heavy.
    const NORMAL: f64 = 1.15;
    /// A single row must stand this many times as high as the second lowest stood low: with the tail of Student's t with
    /// four degrees of freedom that is met once or twice in a million rows.
    const MARGIN: f64 = 1.75;

    /// Rows that lie low together are a fall of the level, not its noise.
    const TOGETHER: f64 = 2.5;

    /// Takes in row `i`, which is `depth` scales below the level.
    fn count(&mut self, series: &Series, i: usize, level: Level, depth: f64) {
        self.rows += 1;
        let below = |j: usize| -level.z(series.x[j], series.y[j]);
        if depth <= self.second {
            return;
        }
        let last = series.len() - 1;
        if i > 0 && below(i - 1) > Self::TOGETHER || i < last && below(i + 1) > Self::TOGETHER {
            return;
        }
        if depth > self.lowest {
            (self.lowest, self.second) = (depth, self.lowest);
        } else {
            self.second = depth;
        }
    }

    /// z below which a row that stands alone is noise.
    fn bound(&self) -> f64 {
        let normal = (2.0 * (self.rows.max(2) as f64).ln()).sqrt();
        if self.rows < Self::ENOUGH || self.second <= Self::NORMAL * normal {
            0.0
        } else {
            Self::MARGIN * self.second
        }
    }
}

/// What the past rows say.
struct State {
    window: Window,
    capacity: usize,
    level: Option<Level>,
    agrees: Agreement,
    /// How many scales the value that was tested last is above the level, whatever the noise there.
    z: f64,
    flagged: usize,
    sum: f64,
    frozen: Option<Level>,
    sum_start: usize,
    medians: VecDeque<(usize, f64)>,
    best: Option<f64>,
    /// Row before which no chronic alarm is raised again.
    refused_until: usize,
}

impl State {
    fn new(capacity: usize) -> Self {
        Self {
            window: Window::default(),
            capacity,
            level: None,
            agrees: Agreement::default(),
            z: 0.0,
            flagged: 0,
            sum: 0.0,
            frozen: None,
            sum_start: 0,
            medians: VecDeque::new(),
            best: None,
            refused_until: 0,
        }
    }

    fn forget(&mut self) {
        *self = Self::new(self.capacity);
    }

    fn after_alarm(&mut self) {
        self.sum = 0.0;
        self.frozen = None;
        self.flagged = 0;
        self.medians.clear();
        self.best = None;
    }

    /// After a chronic alarm at value `i`, begun at `onset`, that did not stand: it is looked at again when there is half
    /// as much again to see, against the level that it began from. What is over after so long is a new level.
    fn refuse(&mut self, i: usize, onset: usize, over: bool) {
        let seen = i.saturating_sub(onset);
        if over && seen >= 2 * self.capacity {
            self.after_alarm();
        } else {
            self.refused_until = i + (seen / 2).max(REFUSED);
        }
    }

    /// An alarm at value `i`: its kind and where the departure began.
    fn test(&mut self, series: &Series, i: usize, watch: &Watch) -> Option<(Kind, usize)> {
        let (x, y) = (series.x[i], series.y[i]);
        self.z = 0.0;
        let mut level = self.level(series, watch, i)?;
        let mut z = level.z(x, y);
        let far = |z: f64, rows: usize| z > watch.acute_z * Watch::widened(rows);
        if far(z, level.rows) && self.agrees.total > 0 {
            // An alarm is raised on what the rows up to it say, not on what they said a while ago.
            self.fit(series, watch);
            level = self.level(series, watch, i)?;
            z = level.z(x, y);
        }
        self.z = z * level.scale / self.level?.scale;
        self.agrees.count(z);
        self.flagged = if z >= FLAG { self.flagged + 1 } else { 0 };
        if far(z, level.rows) {
            return Some((Kind::Acute, i));
        }
        let wide = Watch::widened(level.rows);
        if self.window.len() < WARM.min(self.capacity) {
            return None;
        }
        let sum = self.cusum(series, i, level);
        if i < self.refused_until {
            return None;
        }
        if sum > watch.cusum_h * wide {
            return Some((Kind::Chronic, self.change_point(series, i, level)));
        }
        let rise = watch.best_level?;
        (self.above_best(i, level) > rise)
            .then(|| (Kind::Chronic, self.climb_start(series, i, level)))
    }

    /// The level for value `i`.
    fn level(&mut self, series: &Series, watch: &Watch, i: usize) -> Option<Level> {
        let young = self.window.len() < 2 * self.stride();
        let due = self.agrees.rows >= self.stride();
        if due && self.flat() && self.agrees.stands(self.capacity) {
            self.agrees.renew();
        } else if self.level.is_none() || due || young {
            self.fit(series, watch);
        }
        let oldest = self.window.oldest().unwrap_or(i);
        let ratio = series.noise_ratio(oldest, i) * series.wander();
        Some(self.level?.widened(ratio))
    }

    fn fit(&mut self, series: &Series, watch: &Watch) {
        let (x, y) = self.window.values();
        let level = Level::fit(x, y, watch.prior, memory(series));
        self.level = level.map(|l| l.floored(series.magnitude));
        self.agrees = Agreement::default();
    }

    /// One-sided CUSUM against the level frozen where the sum left zero. The level is the plain median of the window:
    /// a chronic rise is one above what was already reached, and a descent that flattens must not look like one.
    fn cusum(&mut self, series: &Series, i: usize, level: Level) -> f64 {
        let level = level.flat();
        let frozen = if self.sum > 0.0 {
            self.frozen.unwrap_or(level)
        } else {
            level
        };
        let z = frozen
            .z(series.x[i], series.y[i])
            .clamp(-CUSUM_CLIP, CUSUM_CLIP);
        let next = (self.sum + z - SLACK).max(0.0);
        if self.sum <= 0.0 && next > 0.0 {
            self.frozen = Some(level);
            self.sum_start = i;
        }
        self.sum = next;
        next
    }

    /// Where the shift that the CUSUM found most likely began: the start of the stretch with the largest sum over half
    /// of the shift. Rows that were merely high before it would else date it early.
    fn change_point(&self, series: &Series, i: usize, level: Level) -> usize {
        let frozen = self.frozen.unwrap_or(level);
        let z = |j: usize| frozen.z(series.x[j], series.y[j]);
        let last: Vec<f64> = (self.sum_start..=i).rev().take(5).map(z).collect();
        let half = (crate::baseline::median_of(&last) / 2.0).max(SLACK);
        let (mut sum, mut best, mut at) = (0.0, f64::NEG_INFINITY, i);
        for j in (self.sum_start..=i).rev() {
            sum += z(j).min(2.0 * CUSUM_CLIP) - half;
            if sum > best {
                (best, at) = (sum, j);
            }
        }
        at
    }

    /// A level is fitted anew every so many rows: a sixteenth of the window, and a quarter as often once it is flat.
    fn stride(&self) -> usize {
        let rows = (self.capacity / 16).clamp(4, 8);
        if self.flat() { 4 * rows } else { rows }
    }

    /// Whether the window is full and its level hardly moves.
    fn flat(&self) -> bool {
        let still = |l: Level| l.slope.abs() * l.memory < 0.25 * l.scale;
        self.window.len() >= self.capacity && self.level.is_some_and(still)
    }

    /// Rows of the median that is compared with the best earlier one: a quarter of the window.
    fn recent(&self) -> usize {
        (self.capacity / 4).clamp(8, 32)
    }

    /// How far the median of the recent rows is above the best earlier one, in scales.
    fn above_best(&mut self, i: usize, level: Level) -> f64 {
        let few = self.recent();
        if !i.is_multiple_of(few / 4) {
            return 0.0;
        }
        let (_, y) = self.window.values();
        let now = crate::baseline::median_of(&y[y.len() - few..]);
        self.medians.push_back((i, now));
        while self.medians.front().is_some_and(|(j, _)| j + 2 * few <= i) {
            let (_, old) = self.medians.pop_front().unwrap_or((i, now));
            self.best = Some(self.best.map_or(old, |b| b.min(old)));
        }
        self.best.map_or(0.0, |best| (now - best) / level.scale)
    }

    /// Where a climb that the best earlier level shows began: the last row at which the running median was near it.
    fn climb_start(&self, series: &Series, i: usize, level: Level) -> usize {
        let best = self.best.unwrap_or(f64::NEG_INFINITY);
        let near = |j: usize| {
            let from = j.saturating_sub(self.recent() / 2 - 1);
            crate::baseline::median_of(&series.y[from..=j]) <= best + level.scale
        };
        (0..=i)
            .rev()
            .take(self.capacity * 8)
            .find(|j| near(*j))
            .unwrap_or(i)
    }

    /// Takes a value into the window unless it is flagged.
    fn admit(&mut self, series: &Series, i: usize) {
        if self.z >= FLAG && self.flagged < NEW_LEVEL && self.window.len() >= 2 {
            return;
        }
        self.window.push(series, i, self.capacity);
    }
}

/// Steps over which an extrapolated trend levels off: a quarter of a window.
pub(super) fn memory(series: &Series) -> f64 {
    0.25 * window_rows(series) as f64 * series.spacing.max(1.0)
}
