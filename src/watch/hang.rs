//! Whether steps still advance: a pause is judged by those that the run has made before, saves and evaluations included.

use std::ops::Range;

use crate::baseline::median_of;
use crate::run::{Event, EventKind, Run};

/// Rows whose pace is that of the run, and the fewest that tell it.
const RECENT: usize = 512;
const FEWEST: usize = 8;
/// A pause is a hang from so many usual distances between rows on …
const USUAL: f64 = 10.0;
/// … or so many if the run has not paused yet: a save of ten steps is no hang …
const USUAL_UNPAUSED: f64 = 15.0;
/// … and so many times the longest pause of the recent rows, which saves and evaluations made …
const LONGEST: f64 = 3.0;
/// … and, in seconds, no sooner than this, or than that if the run has not paused yet: its first save or evaluation may be
/// what it waits for. Collectives of `PyTorch` give up after 10 minutes.
const SOONEST: f64 = 120.0;
const SOONEST_UNPAUSED: f64 = 600.0;
/// A pause is one that is so many times the usual distance.
const PAUSE: f64 = 3.0;
/// Seconds that a save, or a start of the trainer, may take if the log says that one is under way.
const SAVING: f64 = 1800.0;

/// Settings that tell how many steps a run has.
const TOTAL_STEPS: [&str; 4] = ["train_iters", "max_steps", "total_steps", "training_steps"];

/// No step has come for longer than any pause explains.
#[derive(Debug, Clone, PartialEq)]
pub struct Hang {
    /// The last step that came.
    pub step: u64,
    /// Seconds since it came.
    pub waited: f64,
    /// Seconds that were allowed.
    pub limit: f64,
    /// Usual seconds between rows, if the log tells.
    pub usual: Option<f64>,
    /// Longest pause among the recent rows, in seconds.
    pub longest: Option<f64>,
    /// What the log said last.
    pub doing: Doing,
}

/// What a log says last of what the trainer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Nothing but steps.
    Training,
    /// It saves a checkpoint.
    Saving,
    /// Nothing: the run is over.
    Over,
}

impl Hang {
    /// What to do about it: the loss says nothing.
    pub fn advice(&self) -> &'static str {
        "look"
    }
}

/// When steps came.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// When the last new step was seen, in seconds since 1970. `None` until one was.
    advanced_at: Option<f64>,
    /// Seconds between looks that brought a few rows, for logs without times: per row.
    gaps: Vec<f64>,
    rows: usize,
}

impl Pace {
    /// The pace of a run whose last step came at a time, if one was seen to come.
    pub fn new(advanced_at: Option<f64>) -> Self {
        Self {
            advanced_at,
            ..Self::default()
        }
    }

    pub(super) fn advanced_at(&self) -> Option<f64> {
        self.advanced_at
    }

    /// Steps have come. Seconds since the ones before.
    pub(super) fn advanced(&mut self, now: f64, run: &Run) -> f64 {
        let before = self.advanced_at.replace(now);
        let waited = before.map_or(0.0, |t| (now - t).max(0.0));
        let rows = run.len().saturating_sub(self.rows);
        self.rows = run.len();
        // What was read at once says nothing of when it was written.
        if before.is_some() && (1..=RECENT).contains(&rows) {
            self.gaps.push(waited / rows as f64);
            let spare = self.gaps.len().saturating_sub(RECENT);
            self.gaps.drain(..spare);
        }
        waited
    }

    /// Seconds since a new step was seen.
    pub fn waited(&self, now: f64) -> Option<f64> {
        self.advanced_at.map(|t| (now - t).max(0.0))
    }

    /// The hang at a time, if there is one. `limit` goes before what the log shows.
    pub(super) fn hang(&self, run: &Run, now: f64, limit: Option<f64>) -> Option<Hang> {
        let waited = self.waited(now)?;
        let step = *run.steps.last()?;
        let doing = doing(run);
        if doing == Doing::Over {
            return None;
        }
        let gaps = logged_gaps(run).unwrap_or_else(|| self.gaps.clone());
        let told = gaps.len() >= FEWEST;
        let usual = told.then(|| median_of(&gaps));
        let longest = told.then(|| gaps.iter().copied().fold(0.0, f64::max));
        let own = usual
            .zip(longest)
            .map(|(usual, longest)| allowed(usual, longest, doing));
        let limit = limit.or(own)?;
        (waited > limit).then_some(Hang {
            step,
            waited,
            limit,
            usual,
            longest,
            doing,
        })
    }
}

/// Seconds that a pause may last.
fn allowed(usual: f64, longest: f64, doing: Doing) -> f64 {
    let paused = longest > PAUSE * usual;
    let (soonest, times) = if paused {
        (SOONEST, USUAL)
    } else {
        (SOONEST_UNPAUSED, USUAL_UNPAUSED)
    };
    let limit = (times * usual).max(LONGEST * longest).max(soonest);
    if doing == Doing::Saving {
        limit.max(SAVING)
    } else {
        limit
    }
}

/// What the log says last of what the trainer does.
fn doing(run: &Run) -> Doing {
    let (Some(attempt), Some(step)) = (run.attempts.last(), run.steps.last()) else {
        return Doing::Training;
    };
    let done = run.updates_after(*step);
    let total = run.fact(&TOTAL_STEPS);
    if total.is_some_and(|t| t >= 1.0 && done as f64 >= t) {
        return Doing::Over;
    }
    let after = |e: &&Event| e.attempt == attempt.index && e.step.is_none_or(|s| s >= done);
    let mut latest = run.events.iter().rev().filter(after);
    latest
        .find_map(|e| match e.kind {
            EventKind::Exit => Some(Doing::Over),
            EventKind::SaveStarted => Some(Doing::Saving),
            EventKind::Saved => Some(Doing::Training),
            _ => None,
        })
        .unwrap_or(Doing::Training)
}

/// Seconds between the recent rows by the times that the log has: of the last attempt, or of those before it as long as that
/// has few.
fn logged_gaps(run: &Run) -> Option<Vec<f64>> {
    let mut gaps = Vec::new();
    for attempt in run.attempts.iter().rev() {
        let rows = attempt.rows.clone();
        gaps.extend(gaps_in(
            run,
            rows.end.saturating_sub(RECENT).max(rows.start)..rows.end,
        ));
        if gaps.len() >= FEWEST {
            return Some(gaps);
        }
    }
    None
}

/// Seconds between rows of one attempt, by their times or by how long each step took.
fn gaps_in(run: &Run, rows: Range<usize>) -> Vec<f64> {
    let finite = |v: &f64| v.is_finite() && *v >= 0.0;
    let times = run.column("time").map_or(Vec::new(), |times| {
        rows.clone().filter_map(|r| times.finite(r)).collect()
    });
    let gaps: Vec<f64> = times
        .windows(2)
        .map(|w| (w[1] - w[0]) / 1000.0)
        .filter(finite)
        .collect();
    let step_time = run.column("step_time");
    match step_time.filter(|_| gaps.len() < FEWEST) {
        None => gaps,
        Some(step_time) => rows
            .filter_map(|r| Some(step_time.finite(r)? * f64::from(run.intervals[r])))
            .filter(finite)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Attempt, Began, Column};

    /// A run whose rows are so many seconds apart.
    fn run(gaps: &[f64]) -> Run {
        let mut times = vec![1.7e12];
        for gap in gaps {
            times.push(times[times.len() - 1] + gap * 1000.0);
        }
        let rows = times.len();
        let mut run = Run::default();
        run.meta.step_base = 1;
        run.steps = (1..=rows as u64).collect();
        run.intervals = vec![1; rows];
        run.attempts.push(Attempt {
            index: 0,
            rows: 0..rows,
            began: Began::First,
        });
        run.insert("time", Column::from_values(times));
        run
    }

    fn limit(run: &Run) -> Option<f64> {
        let pace = Pace::new(Some(0.0));
        pace.hang(run, 1e9, None).map(|h| h.limit)
    }

    #[test]
    fn a_pause_is_judged_by_the_pauses_before_it() {
        let steady = vec![20.0; 40];
        assert_eq!(
            limit(&run(&steady)),
            Some(600.0),
            "its first save may be due"
        );
        let mut saves = steady.clone();
        saves[20] = 90.0;
        assert_eq!(limit(&run(&saves)), Some(270.0));
        saves[30] = 400.0;
        assert_eq!(limit(&run(&saves)), Some(1200.0));
        assert_eq!(limit(&run(&[200.0; 40])), Some(3000.0));
        assert_eq!(limit(&run(&[20.0; 5])), None, "too few rows");
    }

    #[test]
    fn a_new_attempt_of_few_rows_is_judged_by_the_one_before() {
        let mut both = run(&[20.0; 42]);
        both.attempts[0].rows = 0..40;
        both.attempts.push(Attempt {
            index: 1,
            rows: 40..43,
            began: Began::StepWentBack { from: 40, to: 20 },
        });
        assert_eq!(limit(&both), Some(600.0));
    }

    #[test]
    fn what_the_log_says_last_counts() {
        let event = |kind, step| Event {
            attempt: 0,
            step,
            kind,
            path: None,
        };
        let mut saving = run(&[20.0; 40]);
        saving.events.push(event(EventKind::SaveStarted, Some(41)));
        assert_eq!(limit(&saving), Some(1800.0));
        saving.events.push(event(EventKind::Saved, Some(41)));
        assert_eq!(limit(&saving), Some(600.0));
        saving.events.push(event(EventKind::Exit, None));
        assert_eq!(limit(&saving), None, "it is over");
        let mut done = run(&[20.0; 40]);
        done.meta
            .facts
            .insert("train_iters".to_owned(), "41".to_owned());
        assert_eq!(limit(&done), None, "it is done");
        done.meta
            .facts
            .insert("train_iters".to_owned(), "50".to_owned());
        assert_eq!(limit(&done), Some(600.0));
    }

    #[test]
    fn a_log_without_times_is_timed_by_its_arrivals() {
        let bare = |rows: u64| {
            let mut bare = Run::default();
            bare.steps = (1..=rows).collect();
            bare.intervals = vec![1; rows as usize];
            bare.attempts.push(Attempt {
                index: 0,
                rows: 0..rows as usize,
                began: Began::First,
            });
            bare
        };
        let mut pace = Pace::new(None);
        assert_eq!(pace.waited(5.0), None, "nothing was seen to come");
        for n in 0..20 {
            pace.advanced(1000.0 + 100.0 * n as f64, &bare(100 + 2 * n));
        }
        let hang = |now| pace.hang(&bare(138), now, None);
        assert_eq!(hang(2900.0 + 750.0), None);
        let found = hang(2900.0 + 751.0).expect("a hang");
        assert_eq!((found.step, found.usual), (138, Some(50.0)));
        assert!(
            pace.hang(&bare(138), 2950.0, Some(40.0)).is_some(),
            "as told"
        );
    }
}
