//! Watches a run as it grows: which incidents are new, what became of those that were told, whether steps still advance.

mod hang;
mod ledger;
mod pulse;

use crate::diagnosis::{Diagnosed, Diagnosis, same_place};
use crate::ingest::follow::Before;
use crate::run::Run;

pub use hang::{Doing, Hang, Pace};
pub use ledger::{Channel, Due, Entry, Ledger, LedgerError, Place, Told, What};
pub use pulse::Pulse;

/// Steps after its end from which on an incident that is not found any more is taken back.
const WITHDRAWN_AFTER: u64 = 100;
/// Rows before an onset that detection needs for its answer to count against what was told.
const HISTORY_ROWS: usize = 1024;

/// Something to be told.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// Number of the incident among those of this watch, from 1.
    pub id: u64,
    /// What is new.
    pub what: Change,
}

/// What is new about an incident.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It is new. Its position in the diagnosis.
    New(usize),
    /// The advice, the decided cause or the shape is another one now. What was told before, and its position.
    Updated(Box<Told>, usize),
    /// With more rows it does not stand out.
    Withdrawn,
    /// No step has come for longer than any pause of the run explains.
    Hung(Hang),
    /// Steps come again after a hang: the first of them, and how long it took.
    GoesOn {
        /// The last step that has come.
        step: u64,
        /// Seconds without a step.
        after: u64,
    },
}

/// When the last step came, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Came {
    /// It was seen to come.
    Now(f64),
    /// Before the watch; the log's own time of the last change, if there is one.
    Earlier(Option<f64>),
}

/// Watches one run.
#[derive(Debug)]
pub struct Watcher {
    /// What was told.
    pub ledger: Ledger,
    pace: Pace,
}

/// An incident as it is found now.
struct Seen {
    at: usize,
    onset: Place,
    end: Place,
}

impl Watcher {
    /// Goes on from what was told before.
    pub fn new(ledger: Ledger) -> Self {
        let pace = Pace::new(ledger.advanced_at);
        Self { ledger, pace }
    }

    /// Whether the run, with what lies before its first row, does not reach the place that was seen before:
    /// what it shows was told.
    pub fn is_behind(&self, run: &Run, before: Before) -> bool {
        last_place(run, before) < self.ledger.seen_to
    }

    /// Notes how far the log was read, and when its last step came.
    pub fn advance(&mut self, run: &Run, before: Before, came: Came) -> Option<News> {
        let place = last_place(run, before);
        let first = self.ledger.seen_to == Place::default();
        let advanced = place > self.ledger.seen_to;
        self.ledger.seen_to = self.ledger.seen_to.max(place);
        if before.rows {
            self.ledger.settle(Place {
                attempt: before.attempts,
                step: run.steps.first().copied().unwrap_or(0),
            });
        }
        let after = match came {
            _ if !advanced || first => return None,
            Came::Now(now) => self.pace.advanced(now, run),
            Came::Earlier(then) => self.pace.advanced(then?, run),
        };
        self.ledger.advanced_at = self.pace.advanced_at();
        Some(News {
            id: self.ledger.end_hang()?,
            what: Change::GoesOn {
                step: place.step,
                after: after as u64,
            },
        })
    }

    /// What a diagnosis shows that was not told.
    pub fn look(&mut self, d: &Diagnosis, before: Before) -> Vec<News> {
        let seen = found(d, before);
        let bound = self.bind(&seen, same_place(&d.run));
        let mut news = Vec::new();
        for (entry, of) in bound.iter().enumerate() {
            match of {
                Some(n) => {
                    let now = Told::of(&d.incidents[seen[*n].at]);
                    let last = last_place(&d.run, before);
                    news.extend(self.ledger.update(entry, &now, &seen[*n], last));
                }
                None => news.extend(self.withdraw(entry, d, before)),
            }
        }
        let unbound = seen.iter().enumerate();
        let unbound = unbound.filter(|(n, _)| !bound.contains(&Some(*n)));
        let new: Vec<&Seen> = unbound
            .map(|(_, s)| s)
            .filter(|s| !self.ledger.covers(s.onset))
            .collect();
        news.extend(
            new.into_iter()
                .map(|s| self.ledger.open(Told::of(&d.incidents[s.at]), s)),
        );
        news
    }

    /// The incident of a diagnosis that each entry of the ledger is, nearest onsets first.
    fn bind(&self, seen: &[Seen], near: u64) -> Vec<Option<usize>> {
        let entries = &self.ledger.entries;
        let mut pairs = Vec::new();
        for (e, entry) in entries.iter().enumerate() {
            for (n, s) in seen.iter().enumerate() {
                let apart = entry.onset.step.abs_diff(s.onset.step);
                let overlap = s.onset <= entry.end && entry.onset <= s.end;
                let same = entry.what == What::Incident && entry.onset.attempt == s.onset.attempt;
                if same && (apart <= near || overlap) {
                    pairs.push((apart, e, n));
                }
            }
        }
        pairs.sort_unstable();
        let mut bound = vec![None; entries.len()];
        for (_, e, n) in pairs {
            if bound[e].is_none() && !bound.contains(&Some(n)) {
                bound[e] = Some(n);
            }
        }
        bound
    }

    fn withdraw(&mut self, entry: usize, d: &Diagnosis, before: Before) -> Option<News> {
        let e = &self.ledger.entries[entry];
        let last = last_place(&d.run, before);
        let past = last.attempt > e.end.attempt || last.step > e.end.step + WITHDRAWN_AFTER;
        let history = d
            .run
            .attempts
            .iter()
            .find(|a| a.index + before.attempts == e.onset.attempt);
        let row = history.and_then(|a| d.run.row_at(a, e.onset.step));
        let judged = row.is_some_and(|row| !before.rows || row >= HISTORY_ROWS);
        if !past || !judged {
            return None;
        }
        self.ledger.withdraw(entry)
    }

    /// Whether steps have stopped coming, at a time in seconds since 1970. `limit` in seconds goes before what the log shows.
    pub fn hang(
        &mut self,
        run: &Run,
        before: Before,
        now: f64,
        limit: Option<f64>,
    ) -> Option<News> {
        let hang = self.pace.hang(run, now, limit)?;
        let id = self.ledger.open_hang(&hang, last_place(run, before))?;
        Some(News {
            id,
            what: Change::Hung(hang),
        })
    }

    /// How the run stands.
    pub fn pulse(&self, d: &Diagnosis, before: Before, now: f64) -> Pulse {
        Pulse::of(d, before, &self.ledger, self.pace.waited(now))
    }
}

/// The place of the last row.
fn last_place(run: &Run, before: Before) -> Place {
    let last = run.len().checked_sub(1);
    last.map_or_else(Place::default, |row| place(run, before, row))
}

fn place(run: &Run, before: Before, row: usize) -> Place {
    Place {
        attempt: before.attempts + run.attempt_of(row),
        step: run.steps[row],
    }
}

fn found(d: &Diagnosis, before: Before) -> Vec<Seen> {
    let incidents = d.incidents.iter().enumerate();
    let seen = incidents.map(|(at, x)| Seen {
        at,
        onset: place(&d.run, before, x.incident.onset_row),
        end: place(
            &d.run,
            before,
            x.incident.end_row.max(x.incident.onset_row + 1) - 1,
        ),
    });
    seen.collect()
}

impl Told {
    fn of(x: &Diagnosed) -> Self {
        Self {
            signal: x.incident.signal.to_owned(),
            kind: x.incident.kind.name().to_owned(),
            shape: x.incident.shape.name().to_owned(),
            open: x.incident.open,
            cause: x.verdict.cause.clone(),
            action: x.plan.action.name().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
