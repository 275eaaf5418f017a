//! Places the rows of one process: by the progress bars around them, or else by their epochs, or else by their number.

use std::collections::BTreeMap;

use crate::ingest::hf_console::bar::Bar;
use crate::ingest::hf_console::steps::BY_RATE;
use crate::ingest::hf_console::steps::EPOCHS;
use crate::ingest::hf_console::steps::LAST_EPOCH;
use crate::ingest::hf_console::steps::LOGGING;
use crate::ingest::hf_console::steps::Line;
use crate::ingest::hf_console::steps::PER_EPOCH;
use crate::ingest::hf_console::steps::TOTAL;
use crate::run::Rows;

/// The epoch is printed with this much of a rounding error.
const ROUNDED: f64 = 0.005;

/// How rows without a step are placed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// Most name their step.
    Told,
    /// By the bars, so many steps apart.
    Bars(u64),
    /// By the epochs, of so many steps each.
    Epochs(f64),
    /// By their number, so many steps apart.
    Number(u64),
}

/// The rows of a process.
pub(super) struct Attempt<'a> {
    pub(super) lines: &'a [Line],
    /// Bars of the training rows.
    bars: Vec<Option<Bar>>,
    /// Training rows, without those that repeat the one before.
    training: Vec<usize>,
    /// Steps in all by the bars.
    total: Option<u64>,
    way: Way,
}

impl<'a> Attempt<'a> {
    pub(super) fn of(lines: &'a [Line], totals: &BTreeMap<u64, usize>, rows: &Rows) -> Self {
        let mut training: Vec<usize> = Vec::new();
        for (at, line) in lines.iter().enumerate().filter(|(_, l)| !l.eval) {
            if !training
                .last()
                .is_some_and(|last| line.repeats(&lines[*last]))
            {
                training.push(at);
            }
        }
        let bars: Vec<Option<Bar>> = training.iter().map(|at| lines[*at].bar(totals)).collect();
        let mut counts = BTreeMap::new();
        for bar in bars.iter().flatten() {
            *counts.entry(bar.total).or_insert(0_usize) += 1;
        }
        let total = counts
            .iter()
            .max_by_key(|(_, n)| **n)
            .map(|(total, _)| *total);
        let mut attempt = Self {
            lines,
            bars,
            training,
            total,
            way: Way::Told,
        };
        attempt.way = attempt.way(rows);
        attempt
    }

    fn way(&self, rows: &Rows) -> Way {
        let told = self
            .training
            .iter()
            .filter(|at| self.lines[**at].told.is_some());
        let all_eval = self.training.is_empty() && self.lines.iter().any(|l| l.told.is_some());
        if told.count() * 2 > self.training.len() || all_eval {
            return Way::Told;
        }
        if let Some(interval) = self.interval() {
            return Way::Bars(interval);
        }
        let fact = |name: &str| {
            let value = rows.facts.get(name)?.parse::<f64>().ok();
            value.filter(|v| (1e-9..1e12).contains(v))
        };
        if let Some(per_epoch) = self.per_epoch(&fact) {
            return Way::Epochs(per_epoch);
        }
        Way::Number(fact(LOGGING).map_or(1, |k| (k as u64).max(1)))
    }

    /// Steps of an epoch: from the length of the run, or else from the last bar, which may be a little ahead of its row.
    fn per_epoch(&self, fact: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        if let Some(steps) = fact(PER_EPOCH) {
            return Some(steps);
        }
        let mut last = self.training.iter().rev();
        let epoch = last.find_map(|at| self.lines[*at].epoch)?;
        let steps = self.total.map(|t| t as f64);
        let steps = steps.or_else(|| fact(TOTAL)).or_else(|| fact(BY_RATE));
        // Without a number of epochs the Trainer prints an endless one.
        let epochs = fact(LAST_EPOCH).or_else(|| fact(EPOCHS).filter(|e| *e < 1e6));
        let whole = steps.zip(epochs).map(|(steps, epochs)| steps / epochs);
        whole.or_else(|| {
            let bar = self.bars.iter().rev().flatten().next()?;
            (epoch > 0.0 && bar.done > 0).then(|| bar.done as f64 / epoch)
        })
    }

    /// The distance of the rows by their bars, if nearly every row has one of its own.
    fn interval(&self) -> Option<u64> {
        let done: Vec<u64> = self.bars.iter().flatten().map(|b| b.done).collect();
        let gap = |w: &[u64]| w[1].checked_sub(w[0]).filter(|g| *g > 0);
        let mut gaps: Vec<u64> = done.windows(2).filter_map(gap).collect();
        let few = |count: usize, of: usize| count * 10 < of * 9;
        let first = *done.first()?;
        if few(done.len(), self.training.len()) || few(gaps.len(), done.len() - 1) {
            return None;
        }
        if gaps.is_empty() {
            return Some(first.max(1));
        }
        let (count, sum) = (gaps.len() as u64, gaps.iter().sum::<u64>());
        let mean = ((sum + count / 2) / count).max(1);
        let middle = gaps.len() / 2;
        let median = *gaps.select_nth_unstable(middle).1;
        let fits = |k: u64| {
            self.bars_around()
                .filter(|(from, to)| from.next_multiple_of(k) <= *to)
                .count()
        };
        let (small, large) = (mean.min(median), mean.max(median));
        Some(if fits(large) > fits(small) {
            large
        } else {
            small
        })
    }

    /// Where the bars before and after each row stand.
    fn bars_around(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let rows = self.training.iter().zip(&self.bars);
        rows.filter_map(|(at, bar)| {
            let bar = (*bar)?;
            let after = self.lines[*at].after.filter(|a| a.total == bar.total);
            Some((bar.done, after.map_or(bar.done, |a| a.done)))
        })
    }

    /// The step of every row, and a note on them if they are not certain.
    pub(super) fn steps(&self) -> (Vec<u64>, String) {
        let (of_training, note) = match self.way {
            Way::Told => (self.told(), String::new()),
            Way::Bars(interval) => (self.by_bars(interval), String::new()),
            Way::Epochs(per_epoch) => (
                self.by_epochs(per_epoch),
                format!(
                    "rows have no step and no progress bar of their own: their steps are from their epochs, of {per_epoch:.1} steps each, rounded as printed"
                ),
            ),
            Way::Number(interval) => (
                (1..)
                    .map(|n: u64| n * interval)
                    .take(self.training.len())
                    .collect(),
                format!(
                    "rows have no step and no progress bar: they were numbered, {interval} a row, which is not the trainer's count; read trainer_state.json if there is one"
                ),
            ),
        };
        (self.spread(&of_training), note)
    }

    fn told(&self) -> Vec<u64> {
        let mut last = 0;
        let each = self.training.iter().map(|at| {
            last = self.lines[*at].told.unwrap_or(last);
            last
        });
        each.collect()
    }

    /// Bars are drawn at most ten times a second, so that the last one before a row may be older than the row. The
    /// Trainer logs at multiples of its interval.
    fn by_bars(&self, interval: u64) -> Vec<u64> {
        let mut out: Vec<u64> = Vec::with_capacity(self.bars.len());
        for (at, bar) in self.bars.iter().enumerate() {
            let last = out.last().copied();
            let expected = last.map_or(interval, |l| l + interval);
            let step = match bar {
                Some(bar) if last.is_none_or(|l| bar.done > l) => self.multiple(at, *bar, interval),
                _ => expected,
            };
            out.push(step);
        }
        out
    }

    fn multiple(&self, at: usize, bar: Bar, interval: u64) -> u64 {
        let next = bar.done.next_multiple_of(interval.max(1));
        let after = self.lines[self.training[at]]
            .after
            .filter(|a| a.total == bar.total);
        let reached = after.is_some_and(|a| a.done >= next);
        let free = self
            .bars
            .get(at + 1)
            .is_none_or(|b| b.is_some_and(|b| b.done > next));
        if reached && free { next } else { bar.done }
    }

    fn by_epochs(&self, per_epoch: f64) -> Vec<u64> {
        let place = |at: &usize| self.lines[*at].epoch.map(|e| (e * per_epoch).max(0.0));
        let places: Vec<Option<f64>> = self.training.iter().map(place).collect();
        let known: Vec<(usize, f64)> = places
            .iter()
            .enumerate()
            .filter_map(|(i, p)| Some((i, (*p)?)))
            .collect();
        let interval = match (known.first(), known.last()) {
            (Some((i, a)), Some((j, b))) if j > i => ((b - a) / (j - i) as f64).round().max(1.0),
            (Some((_, a)), _) => a.round().max(1.0),
            _ => 1.0,
        };
        let near = interval / 2.0 + ROUNDED * per_epoch + 1.0;
        let mut last: Option<f64> = None;
        let each = places.iter().map(|p| {
            let expected = last.map(|l| l + interval);
            let step = match (expected, *p) {
                (Some(e), Some(p)) if (p - e).abs() > near => {
                    ((p / interval).round() * interval).max(e - interval + 1.0)
                }
                (Some(e), _) => e,
                (None, p) => ((p.unwrap_or(interval) / interval).round() * interval).max(1.0),
            };
            last = Some(step);
            step as u64
        });
        each.collect()
    }

    /// Places the other rows: evaluations, and rows printed again.
    fn spread(&self, of_training: &[u64]) -> Vec<u64> {
        let mut placed = self
            .training
            .iter()
            .copied()
            .zip(of_training.iter().copied())
            .peekable();
        let mut last = 0;
        let mut out = Vec::with_capacity(self.lines.len());
        for (at, line) in self.lines.iter().enumerate() {
            if placed.peek().is_some_and(|(row, _)| *row == at) {
                last = placed.next().map_or(last, |(_, step)| step);
            } else if line.eval {
                let next = placed.peek().map_or(u64::MAX, |(_, step)| *step);
                last = self.evaluated(line).unwrap_or(last).min(next).max(last);
            }
            out.push(last);
        }
        out
    }

    /// The step after which an evaluation was made, if something tells it.
    fn evaluated(&self, line: &Line) -> Option<u64> {
        let redrawn = self.total.and_then(|total| line.redrawn_of(total));
        let bars = [redrawn, line.before, line.earlier].into_iter().flatten();
        let bar = || {
            bars.clone()
                .find(|b| Some(b.total) == self.total)
                .map(|b| b.done)
        };
        match self.way {
            Way::Told => line.told,
            Way::Bars(_) => line.told.or_else(bar),
            Way::Epochs(per_epoch) => line.epoch.map(|e| (e * per_epoch).round() as u64),
            Way::Number(_) => None,
        }
    }
}
