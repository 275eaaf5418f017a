//! The state that a checkpoint holds: its norms, logits and second moment against their level, and how far the traces of
//! an earlier incident are.

use std::ops::Range;

use crate::baseline::{mad, median_of};
use crate::detect::{Incident, lineage};
use crate::plan::Situation;
use crate::run::Run;

/// Memories of Adam after an incident during which a checkpoint carries its traces (rules/SOURCES.md).
const CONTAMINATED_MEMORIES: f64 = 5.0;
/// What is looked at, as in the log and for people.
const SIGNALS: [(&str, &str); 4] = [
    ("grad_norm", "gradient norm"),
    ("update_norm", "update norm"),
    ("max_attention_logit", "largest attention logit"),
    ("second_moment", "second moment"),
];
/// Rows whose median is the value at a checkpoint, those that may belong to its rise, and those before that are the level.
const AT: usize = 3;
const RISE: usize = 16;
const LEVEL: usize = 256;
const FEWEST: usize = 16;
/// Steps that the last row may lie before the checkpoint, at least.
const NEAR: u64 = 8;
/// Least sd of log₁₀ of a norm (rules/SOURCES.md: 0.03 to 0.1).
const LEAST_SD: f64 = 0.03;
/// Above so many sd and so many times its level a norm is away from it: single rows of a healthy run are, the median of
/// three is not.
const AWAY_SD: f64 = 5.0;
const AWAY_TIMES: f64 = 1.5;

/// A signal at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Its name in the store.
    pub signal: &'static str,
    /// Its name for people.
    pub words: &'static str,
    /// Median of the last rows of the checkpoint.
    pub value: f64,
    /// Median of the rows before them.
    pub level: f64,
    /// How far the one is from the other, in robust sd of log₁₀.
    pub sd: f64,
}

/// What the log tells of the state that a checkpoint holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Health {
    /// The signals that are logged around it.
    pub readings: Vec<Reading>,
    /// Steps since the traces of an earlier incident were gone, if there was one.
    pub clean_for: Option<u64>,
}

impl Reading {
    fn away(&self) -> bool {
        self.sd > AWAY_SD && self.value > AWAY_TIMES * self.level
    }
}

impl Health {
    /// Why the state is not to be trained on from, if the log shows it.
    pub(super) fn fault(&self) -> Option<String> {
        let r = self.readings.iter().find(|r| r.away())?;
        Some(format!(
            "the {} is {:.1} times its level there ({:.0} sd)",
            r.words,
            r.value / r.level,
            r.sd
        ))
    }
}

/// The incidents whose traces a checkpoint of this history may hold.
pub(super) struct Past<'a> {
    s: &'a Situation<'a>,
    /// Onset step, and the updates at which a checkpoint is contaminated.
    windows: Vec<(u64, Range<u64>)>,
}

impl<'a> Past<'a> {
    pub(super) fn of(s: &'a Situation<'a>) -> Self {
        let (memory, _) = s.memory();
        let earlier = s.incidents.iter().filter(|i| {
            i.attempt <= s.incident.attempt
                && i.onset_row < s.incident.onset_row
                && i.signal == "loss"
                && kept(s, i)
        });
        let window = |i: &Incident| (s.run.steps[i.onset_row], contaminated(s.run, i, memory));
        Self {
            s,
            windows: earlier.map(window).collect(),
        }
    }

    /// Why a checkpoint carries traces of an earlier incident of the same history, if it does.
    pub(super) fn dirty(&self, step: u64) -> Option<String> {
        let (onset, _) = self.windows.iter().find(|(_, w)| w.contains(&step))?;
        Some(format!(
            "within {} steps after the incident at {onset}: the second moment still carries it",
            carried(self.s.memory().0)
        ))
    }

    /// What the log tells of the state at a checkpoint.
    pub(super) fn health(&self, step: u64) -> Health {
        let ends = self.windows.iter().map(|(_, w)| w.end);
        let readings = SIGNALS.iter();
        Health {
            readings: readings
                .filter_map(|(signal, words)| self.reading(signal, words, step))
                .collect(),
            clean_for: ends.filter(|end| *end <= step).map(|end| step - end).min(),
        }
    }

    /// The last rows of the history that a checkpoint of a step has seen.
    fn rows_until(&self, step: u64) -> Vec<usize> {
        let run = self.s.run;
        let attempt = &run.attempts[self.s.incident.attempt as usize];
        let seen = |row: &usize| run.updates_after(run.steps[*row]) <= step;
        let own = &run.steps[attempt.rows.clone()];
        let end = attempt.rows.start + own.partition_point(|s| run.updates_after(*s) <= step);
        if end - attempt.rows.start >= LEVEL + RISE {
            return (end - LEVEL - RISE..end).collect();
        }
        // Only early in an attempt the rows of those before it count.
        let mut rows = lineage(run, attempt).0;
        rows.truncate(rows.partition_point(seen));
        rows.split_off(rows.len().saturating_sub(LEVEL + RISE))
    }

    fn reading(&self, signal: &'static str, words: &'static str, step: u64) -> Option<Reading> {
        let run = self.s.run;
        let column = run.column(signal)?;
        let rate = run
            .column("learning_rate")
            .filter(|_| signal == "update_norm");
        let rows = self.rows_until(step);
        let last = *rows.last()?;
        if step - run.updates_after(run.steps[last]) > NEAR.max(3 * run.spacing()) {
            return None;
        }
        // What the learning rate explains of an update is no departure.
        let value = |row: usize| {
            let v = column.finite(row).filter(|v| *v > 0.0)?;
            match rate {
                Some(rate) => Some(v / rate.finite(row).filter(|lr| *lr > 0.0)?),
                None => Some(v),
            }
        };
        let logs: Vec<f64> = rows
            .iter()
            .filter_map(|r| value(*r))
            .map(f64::log10)
            .collect();
        let at = &logs[logs.len().saturating_sub(AT)..];
        let before = &logs[..logs.len().saturating_sub(RISE)];
        if before.len() < FEWEST {
            return None;
        }
        let (level, at) = (median_of(before), median_of(at));
        let sd = mad(before, level).max(LEAST_SD);
        let unit = rate.and_then(|r| r.finite(last)).unwrap_or(1.0);
        Some(Reading {
            signal,
            words,
            value: unit * 10_f64.powf(at),
            level: unit * 10_f64.powf(level),
            sd: (at - level) / sd,
        })
    }
}

/// Steps after an incident during which a second moment with this memory carries it.
fn carried(memory: f64) -> u64 {
    (CONTAMINATED_MEMORIES * memory) as u64
}

/// The updates from and until which a checkpoint carries an incident, if Adam's memory is so many steps.
pub fn contaminated(run: &Run, i: &Incident, memory: f64) -> Range<u64> {
    let update = |row: usize| run.updates_after(run.steps[row]);
    let end = i.return_row.or(i.peak_row).unwrap_or(i.onset_row);
    update(i.onset_row)..update(end) + carried(memory)
}

/// Whether an earlier incident is part of the history that this attempt builds on.
fn kept(s: &Situation<'_>, earlier: &Incident) -> bool {
    let attempt = &s.run.attempts[s.incident.attempt as usize];
    earlier.attempt == attempt.index
        || s.run.steps[earlier.onset_row] < s.run.steps[attempt.rows.start]
}
