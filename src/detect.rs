//! Finds incidents: stretches where loss or gradient norm left its own recent level, with onset, peak, return, shape.
//!
//! Two detectors, since each is blind where the other sees (rules/SOURCES.md): a pointwise robust z for acute events,
//! and for chronic ones a CUSUM against a frozen level together with a test against the best level reached earlier.
//! Everything is measured in steps; a log that prints every k-th step has fewer rows, not other windows.

mod change;
mod drop;
mod episode;
mod level;
mod scan;
mod series;
mod shape;

use crate::run::{Attempt, Run};

use episode::Episode;

pub use level::Level;
pub use series::{Series, along};
pub(crate) use series::{grad as norms, lineage};

/// A stretch where a signal left its level. Steps are the source's own numbers.
#[derive(Debug, Clone)]
pub struct Incident {
    /// Attempt in whose rows it begins.
    pub attempt: u32,
    /// `loss` or `grad_norm`.
    pub signal: &'static str,
    /// Which detector saw it.
    pub kind: Kind,
    /// Row of the first departure.
    pub onset_row: usize,
    /// Row at which the signal was highest; `None` if it never was finite.
    pub peak_row: Option<usize>,
    /// First row at which the signal was back. After a hole in the log this is the latest bound.
    pub return_row: Option<usize>,
    /// First row at which the gradient norm was back.
    pub grad_return_row: Option<usize>,
    /// Whether the log has a hole between the last row away from the level and the return.
    pub return_is_bound: bool,
    /// Rows of separate peaks, the highest included.
    pub peaks: Vec<usize>,
    /// Row after the last one of the episode.
    pub end_row: usize,
    /// Level before the onset.
    pub level: Level,
    /// Highest value.
    pub peak: Option<f64>,
    /// Highest value above the level.
    pub excess: Option<f64>,
    /// Highest excess in robust standard deviations.
    pub score: Option<f64>,
    /// Shape, as far as the log tells.
    pub shape: Shape,
    /// Whether the log ends before the shape can be told.
    pub open: bool,
    /// Whether the loss stands where only an untrained model would.
    pub lost: bool,
    /// Excess after the return, or over the last rows where there is none.
    pub residual: Option<Residual>,
    /// Whether the gradient norm left its level at the onset or after it. `None` if too few rows tell.
    pub norm_moved: Option<bool>,
    /// What the excess is over.
    pub over: Over,
    /// Steps waited since the onset at the end of the log or at the next attempt.
    pub waited: u64,
}

/// What the excess of an incident is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Its own level.
    Level,
    /// Its level and what another run tells of the batch: without that it does not show.
    Twin,
}

/// What is left of an incident: a median excess over the level, in the unit of the signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// The median.
    pub value: f64,
    /// Half of its 95 % interval, from the noise of the level and the number of rows.
    pub margin: f64,
}

/// How many of the documented spikes that were still out after so many steps came back by themselves, and of how many.
/// A count, not a probability: 31 of them are of one recipe (rules/SOURCES.md M5).
pub fn return_odds(waited: u64) -> (u32, u32) {
    /// Steps until the return, and how many spikes took as long: 31 of the Mixtral twin, BLOOM, tr1-13B, tr8 exp 11.
    const RETURNED: [(u64, u32); 6] = [(20, 16), (31, 1), (45, 14), (65, 1), (500, 1), (2000, 1)];
    /// K2-65B twice, and Marin 32B.
    const NEVER: u32 = 3;
    let later = RETURNED.iter().filter(|(steps, _)| *steps > waited);
    let returned = later.map(|(_, n)| n).sum();
    (returned, returned + NEVER)
}

/// Which detector saw an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A row far from the level.
    Acute,
    /// Many rows a little above the level.
    Chronic,
    /// NaN, infinity, or a loss that collapsed to exactly zero.
    NonFinite,
}

impl Kind {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acute => "acute",
            Self::Chronic => "chronic",
            Self::NonFinite => "non-finite",
        }
    }
}

/// What became of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// Came back by itself within [`TRANSIENT_STEPS`].
    Transient,
    /// Came back, slowly.
    Recoverable,
    /// Does not come back.
    Divergent,
    /// Settled at another level.
    LevelShift,
}

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 4] = [
        Self::Transient,
        Self::Recoverable,
        Self::Divergent,
        Self::LevelShift,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Recoverable => "recoverable",
            Self::Divergent => "divergent",
            Self::LevelShift => "level-shift",
        }
    }
}

/// Steps within which a transient incident is back: `max(50, 3/(1−β₂))` of rules/SOURCES.md at β₂ = 0.95, what nearly
/// all large runs use. A run's own β₂ does not widen it: with 0.999 nothing but transients would be left.
pub const TRANSIENT_STEPS: u64 = 60;
/// Steps after which an incident that has not come back is given up (rules/SOURCES.md: recoverable within 2000).
pub const HORIZON_STEPS: u64 = 2000;

/// Steps of a flat stretch after which a level is a new level (rules/SOURCES.md F07 looks at 200 steps).
const SETTLED_STEPS: f64 = 200.0;

/// The level of a series of log₁₀ values, for a signal whose healthy spread is that of a gradient norm.
pub(crate) fn level_before(series: &Series) -> Option<Level> {
    Level::fit(&series.x, &series.y, scan::GRAD.prior, scan::memory(series))
}

/// What is known of the loss of each batch from another run over the same data: with it taken off, what remains is
/// 5 to 25 times quieter (rules/SOURCES.md M2a).
#[derive(Debug, Clone)]
pub struct Known {
    /// How much harder than its neighbours the batch of each row was for the other run; 0 where it has none.
    pub batch: Vec<f64>,
    /// Noise that remains in each row, as a share of that of the loss itself; 1 where the other run has none.
    pub noise: Vec<f64>,
}

/// What was found in a run, in order of attempt and onset.
#[derive(Debug, Default)]
pub struct Found {
    /// The incidents.
    pub incidents: Vec<Incident>,
    /// Lasting changes of the level that are no incident: modest, without a peak, the gradient norm unmoved, as other
    /// data or settings leave (rules/SOURCES.md T09).
    pub changes: Vec<Incident>,
    /// How neighbouring losses correlate, if so much that they look smoothed before they were logged.
    pub smoothed: Option<f64>,
}

/// Finds the incidents of a run, in order of attempt and onset.
pub fn detect(run: &Run) -> Vec<Incident> {
    detect_knowing(run, None).incidents
}

/// Finds the incidents of a run whose batches are partly known: those of [`detect`], and acute ones that only show once
/// the batches are taken off.
pub fn detect_knowing(run: &Run, known: Option<&Known>) -> Found {
    let mut out = Found::default();
    for attempt in &run.attempts {
        let found = detect_attempt(run, attempt, known);
        out.incidents.extend(found.incidents);
        out.changes.extend(found.changes);
        out.smoothed = out.smoothed.or(found.smoothed);
    }
    for list in [&mut out.incidents, &mut out.changes] {
        list.sort_by_key(|i| (i.attempt, i.onset_row));
    }
    out
}

/// The last loss of a run in robust standard deviations over the level of the rows before it, rows of incidents left out.
/// `None` without a loss, or without a row before it.
pub fn latest_z(run: &Run, incidents: &[Incident]) -> Option<f64> {
    let attempt = run.attempts.last()?;
    let loss = along(run, attempt, "loss", &Some);
    let last = loss.len().checked_sub(1)?;
    let calm = |row: usize| {
        let inside = |i: &Incident| (i.onset_row..i.end_row).contains(&row);
        !incidents.iter().any(inside)
    };
    let before = (0..last).rev().filter(|i| calm(loss.rows[*i]));
    let mut rows: Vec<usize> = before.take(scan::window_rows(&loss)).collect();
    rows.reverse();
    let pick = |of: &[f64]| -> Vec<f64> { rows.iter().map(|i| of[*i]).collect() };
    let (x, y) = (pick(&loss.x), pick(&loss.y));
    let level = Level::fit(&x, &y, scan::LOSS.prior, scan::memory(&loss))?;
    Some(level.z(loss.x[last], loss.y[last]))
}

/// Whether the last three spikes of the loss grow and come closer, and the attempt ends before the next would be due:
/// divergence by repetition (rules/SOURCES.md: three spikes within 1000 steps with growing peaks and shrinking gaps).
pub fn growing(run: &Run, incidents: &[Incident]) -> bool {
    const WITHIN_STEPS: u64 = 1000;
    /// By chance each of three spikes is higher than the one before once in six: growth must be more than that.
    const GROWTH: f64 = 1.5;
    let loss: Vec<&Incident> = incidents.iter().filter(|i| i.signal == "loss").collect();
    let [.., a, b, c] = loss[..] else {
        return false;
    };
    let onset = |i: &Incident| run.steps[i.onset_row];
    let (first, second) = (onset(b) - onset(a), onset(c) - onset(b));
    let (Some(x), Some(y), Some(z)) = (a.excess, b.excess, c.excess) else {
        return false;
    };
    let last = run.steps[run.attempts[c.attempt as usize].rows.end - 1];
    a.attempt == c.attempt
        && first + second <= WITHIN_STEPS
        && second < first
        && x > 0.0
        && y > GROWTH * x
        && z > GROWTH * y
        && last < onset(c) + 2 * second
}

/// Whether two incidents have no row in common.
fn apart(a: &Incident, b: &Incident) -> bool {
    a.end_row <= b.onset_row || b.end_row <= a.onset_row
}

fn detect_attempt(run: &Run, attempt: &Attempt, known: Option<&Known>) -> Found {
    let ((loss, mut found), (grad, norms)) = std::thread::scope(|scope| {
        let norms = scope.spawn(|| {
            let grad = series::grad(run, attempt);
            let found = scan::scan(&grad, &scan::GRAD);
            (grad, found)
        });
        let loss = along(run, attempt, "loss", &Some);
        let found = scan::scan(&loss, &scan::LOSS);
        let norms = norms.join();
        (
            (loss, found),
            norms.unwrap_or_else(|e| std::panic::resume_unwind(e)),
        )
    });
    episode::add_non_finite(&mut found, run, attempt, &loss);
    let story = |found: Vec<Episode>, loss: &Series| -> Vec<Incident> {
        found
            .into_iter()
            .filter(|e| attempt.rows.contains(&e.alarm_row))
            .map(|e| e.within(attempt, loss))
            .map(|e| shape::incident(run, attempt, &e, loss, &grad))
            .collect()
    };
    let mut out = story(found, &loss);
    if let Some(known) = known {
        let quieter = loss.less(known);
        let more = story(scan::scan(&quieter, &scan::TWIN), &quieter);
        let new = |i: &Incident| out.iter().all(|o| apart(o, i));
        let more: Vec<Incident> = more.into_iter().filter(new).collect();
        out.extend(more.into_iter().map(|i| Incident {
            over: Over::Twin,
            ..i
        }));
    }
    out.sort_by_key(|i| i.onset_row);
    for n in 2..out.len() {
        if growing(run, &out[..=n]) {
            out[n].shape = Shape::Divergent;
            out[n].open = true;
        }
    }
    let fell = drop::drops(run, attempt, &loss, &grad, &out);
    let fell: Vec<Incident> = fell
        .into_iter()
        .filter(|f| out.iter().all(|o| apart(o, f)))
        .collect();
    out.extend(fell);
    out.retain(|i| !change::is_wander(i, &loss));
    let (changes, mut out): (Vec<_>, Vec<_>) =
        out.into_iter().partition(|i| change::is_change(i, &loss));
    for norm in norms {
        if shape::isolated_norm(run, attempt, &norm, &grad, &out) {
            out.push(shape::norm_incident(run, attempt, &norm, &grad));
        }
    }
    Found {
        incidents: out,
        changes,
        smoothed: loss.smoothed().then_some(loss.memory),
    }
}
