//! What a feature may look at: the incident, and signals along the history of its attempt by step.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::detect::{Incident, Level, Series};
use crate::detect::{level_before, lineage};
use crate::replay::{OtherRun, Replay, compare};
use crate::run::{Attempt, Run};

/// What stands behind each attempt with an incident, gathered once for all of them.
#[derive(Debug, Default)]
pub struct History {
    attempts: BTreeMap<u32, Behind>,
}

#[derive(Debug)]
struct Behind {
    rows: Vec<usize>,
    schedule: Schedule,
    excerpt: bool,
}

/// The learning-rate schedule along the history of an attempt.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// Step at which the first rise ends, if it ends.
    pub warmup_end: Option<f64>,
    /// Steps at which the learning rate was raised after that: one for a jump, several along a slow re-warm.
    pub jumps: Vec<f64>,
}

/// A learning rate that rises by more than this share above its lowest value since the last such rise, at once or
/// slowly, has been raised again.
const JUMP: f64 = 0.2;

impl Schedule {
    fn of(run: &Run, rows: &[usize]) -> Self {
        let Some(column) = run.column("learning_rate") else {
            return Self::default();
        };
        let mut points = rows
            .iter()
            .filter_map(|r| Some((run.steps[*r] as f64, column.finite(*r)?)));
        let Some((mut x, first)) = points.next() else {
            return Self::default();
        };
        let (mut before, mut out) = (first, Self::default());
        // Lowest value since the last rise, once the warm-up is over. Zero is no base for a ratio.
        let mut low: Option<f64> = None;
        for (step, lr) in points {
            match low {
                None if lr <= before * (1.0 + 1e-9) => {
                    low = Some(if lr > 0.0 { lr } else { before });
                    out.warmup_end = (before > 1.5 * first.max(f64::MIN_POSITIVE)).then_some(x);
                }
                Some(l) if l > 0.0 && lr / l > 1.0 + JUMP => {
                    low = Some(lr);
                    out.jumps.push(step);
                }
                Some(l) if lr > 0.0 && (lr < l || l <= 0.0) => low = Some(lr),
                _ => {}
            }
            (x, before) = (step, lr);
        }
        out
    }
}

impl History {
    /// Gathers what the incidents need.
    pub fn new(run: &Run, incidents: &[Incident]) -> Self {
        let mut attempts = BTreeMap::new();
        for incident in incidents {
            attempts
                .entry(incident.attempt)
                .or_insert_with(|| Behind::of(run, incident.attempt));
        }
        Self { attempts }
    }
}

impl Behind {
    fn of(run: &Run, attempt: u32) -> Self {
        let rows = lineage(run, &run.attempts[attempt as usize]).0;
        let far = 20.0 * run.spacing().max(1) as f64;
        let excerpt = rows
            .windows(2)
            .any(|w| run.steps[w[1]] as f64 - run.steps[w[0]] as f64 > far);
        Self {
            schedule: Schedule::of(run, &rows),
            rows,
            excerpt,
        }
    }
}

/// An incident within its run.
#[derive(Debug)]
pub struct Context<'a> {
    /// The run.
    pub run: &'a Run,
    /// The incident.
    pub incident: &'a Incident,
    /// All incidents of the run.
    pub incidents: &'a [Incident],
    /// Other runs over the same steps that the user gave.
    pub others: &'a [OtherRun],
    /// The attempt it belongs to.
    pub attempt: &'a Attempt,
    /// Onset step, as a number.
    pub onset: f64,
    /// Peak step; the onset where there is no finite peak.
    pub peak: f64,
    /// Usual distance in steps between rows.
    pub spacing: f64,
    behind: &'a Behind,
    replays: OnceCell<Vec<(&'a Attempt, Replay)>>,
}

impl<'a> Context<'a> {
    /// Later attempts over the steps of this one, compared up to the onset. Several features ask for them.
    pub(super) fn replays(&self) -> &[(&'a Attempt, Replay)] {
        self.replays.get_or_init(|| {
            let later = &self.run.attempts[self.attempt.index as usize + 1..];
            let until = Some(self.onset as u64);
            later
                .iter()
                .filter_map(|b| Some((b, compare(self.run, self.attempt, b, until)?)))
                .collect()
        })
    }

    /// Gathers what features need.
    pub fn new(
        run: &'a Run,
        incident: &'a Incident,
        incidents: &'a [Incident],
        history: &'a History,
        others: &'a [OtherRun],
    ) -> Self {
        let attempt = &run.attempts[incident.attempt as usize];
        let onset = run.steps[incident.onset_row] as f64;
        Self {
            run,
            incident,
            incidents,
            others,
            attempt,
            onset,
            peak: incident.peak_row.map_or(onset, |r| run.steps[r] as f64),
            spacing: run.spacing().max(1) as f64,
            behind: &history.attempts[&attempt.index],
            replays: OnceCell::new(),
        }
    }

    /// Finite values of a signal at steps `from..until` along the history of the attempt.
    pub fn window(&self, signal: &str, from: f64, until: f64) -> Series {
        let mut out = Series {
            spacing: self.spacing,
            ..Series::default()
        };
        let Some(column) = self.run.column(signal) else {
            return out;
        };
        let start = self
            .behind
            .rows
            .partition_point(|r| (self.run.steps[*r] as f64) < from);
        for row in &self.behind.rows[start..] {
            let x = self.run.steps[*row] as f64;
            if x >= until {
                break;
            }
            if let Some(y) = column.finite(*row) {
                out.x.push(x);
                out.y.push(y);
                out.rows.push(*row);
            }
        }
        out
    }

    /// The same for log₁₀ of a positive signal.
    pub fn log_window(&self, signal: &str, from: f64, until: f64) -> Series {
        let raw = self.window(signal, from, until);
        let keep: Vec<usize> = (0..raw.len()).filter(|i| raw.y[*i] > 0.0).collect();
        Series {
            x: keep.iter().map(|i| raw.x[*i]).collect(),
            y: keep.iter().map(|i| raw.y[*i].log10()).collect(),
            rows: keep.iter().map(|i| raw.rows[*i]).collect(),
            own: 0,
            spacing: raw.spacing,
            ..Series::default()
        }
    }

    /// Whether a signal had a finite value anywhere before the onset along the history of the attempt.
    pub fn ever_before_onset(&self, signal: &str) -> bool {
        let rows = self.behind.rows.iter();
        self.run.column(signal).is_some_and(|column| {
            rows.take_while(|r| (self.run.steps[**r] as f64) < self.onset)
                .any(|r| column.finite(*r).is_some())
        })
    }

    /// The level of log₁₀ of a signal before the onset: the rows of 128 steps, the last eight steps left out, for
    /// many signals move a little before the loss does.
    pub fn log_level(&self, signal: &str) -> Option<Level> {
        let (from, until) = self.level_span();
        level_of(&self.log_window(signal, from, until))
    }

    /// The steps whose rows make the level of [`Self::log_level`].
    pub fn level_span(&self) -> (f64, f64) {
        let until = self.onset - 8.0_f64.max(self.spacing);
        (until - 128.0_f64.max(32.0 * self.spacing), until)
    }

    /// The steps around the onset in which a norm may move, if it does.
    pub fn event_span(&self) -> (f64, f64) {
        let from = self.onset - 20.0_f64.max(self.spacing);
        (from, self.peak + 5.0 + self.spacing)
    }

    /// Whether it is the loss that left its level: the level of the incident is that of its own signal.
    pub fn of_loss(&self) -> bool {
        self.incident.signal == "loss"
    }

    /// The number of parameters, if the log prints it.
    pub fn parameters(&self) -> Option<f64> {
        self.run.fact(&PARAMETERS).filter(|n| *n >= 1.0)
    }

    /// Median of a signal over steps.
    pub fn median(&self, signal: &str, from: f64, until: f64) -> Option<f64> {
        let w = self.window(signal, from, until);
        (!w.is_empty()).then(|| crate::baseline::median_of(&w.y))
    }

    /// Largest value of a signal over steps.
    pub fn max(&self, signal: &str, from: f64, until: f64) -> Option<f64> {
        let w = self.window(signal, from, until);
        w.y.iter().copied().reduce(f64::max)
    }

    /// The step at which log₁₀ of a signal first left its level around the onset: within 20 steps before it and up to
    /// the peak. `None` if it never did. With no rows well before the onset the first row of an excerpt is the level.
    pub fn departure(&self, signal: &str, z: f64) -> Option<f64> {
        let w = self.log_window(
            signal,
            self.onset - 20.0_f64.max(self.spacing),
            self.peak + 1.0,
        );
        let level = self
            .log_level(signal)
            .or_else(|| level_before(&first_row(&w, self.onset)))?;
        let away = |i: &usize| level.z(w.x[*i], w.y[*i]) > z;
        let stays = |i: &usize| *i + 1 >= w.len() || away(&(i + 1)) || w.x[*i] >= self.onset - 4.0;
        (0..w.len()).find(|i| away(i) && stays(i)).map(|i| w.x[i])
    }

    /// Whether the log has holes: an excerpt, whose rows need not begin where an attempt did.
    pub fn excerpt(&self) -> bool {
        self.behind.excerpt
    }

    /// The learning-rate schedule along the history of the attempt.
    pub fn schedule(&self) -> &Schedule {
        &self.behind.schedule
    }

    /// Rows are printed at every step around the onset, so that lead and lag can be told.
    pub fn every_step(&self) -> bool {
        self.spacing < 1.5 && self.run.intervals[self.incident.onset_row] == 1
    }
}

/// Names under which frameworks print the number of parameters.
const PARAMETERS: [&str; 5] = [
    "num_parameters",
    "num_params",
    "n_params",
    "total_params",
    "number_of_parameters",
];

/// The level of log₁₀ values, of three rows or more.
pub(super) fn level_of(before: &Series) -> Option<Level> {
    (before.len() >= 3).then(|| level_before(before))?
}

/// The first row of a window, if it lies before the onset.
fn first_row(w: &Series, onset: f64) -> Series {
    let n = usize::from(w.x.first().is_some_and(|x| *x < onset));
    Series {
        x: w.x[..n].to_vec(),
        y: w.y[..n].to_vec(),
        rows: w.rows[..n].to_vec(),
        own: 0,
        spacing: w.spacing,
        ..Series::default()
    }
}
