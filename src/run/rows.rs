//! What an ingester reads from one source, before anything is sorted into attempts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::run::budget::Budget;
use crate::run::builder::milliseconds;
use crate::run::{Column, DataLoss, EventKind};

/// Places of damage that are told one by one.
const MOST_LOSSES: usize = 1000;

/// Events that are kept of rows that are let go of.
const MOST_MARKS: usize = 10_000;

/// Names of columns that hold wall times.
pub(super) const TIME_NAMES: [&str; 5] =
    ["time", "_timestamp", "timestamp", "wall_time", "created_at"];

/// Rows in the order of the source, columns under their raw names.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// Step of each row as the source numbers it.
    pub steps: Vec<u64>,
    /// Events with the row before which they stand.
    pub marks: Vec<Mark>,
    /// What could not be read; `source` is filled in later.
    pub losses: Vec<DataLoss>,
    /// Configuration that the source prints.
    pub facts: BTreeMap<String, String>,
    /// Id of the run that the source says it belongs to, where sources of several runs may lie together.
    pub run: Option<String>,
    names: Vec<String>,
    columns: Vec<Column>,
    index: HashMap<String, usize>,
    budget: Budget,
    /// Places of damage past those that are told.
    untold: usize,
}

/// An event at a place among the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The row before which it stands; equal to the number of rows at the end.
    pub row: usize,
    /// What happened.
    pub kind: EventKind,
    /// The step it names, if any; of a checkpoint the updates that it holds.
    pub step: Option<u64>,
    /// The path it names, if any.
    pub path: Option<String>,
}

impl Rows {
    /// The slot of a raw metric name. Resolve once, then [`set`](Self::set) by slot.
    pub fn slot(&mut self, name: &str) -> usize {
        if let Some(slot) = self.index.get(name) {
            return *slot;
        }
        let slot = self.names.len();
        self.index.insert(name.to_owned(), slot);
        self.names.push(name.to_owned());
        self.columns.push(Column::default());
        slot
    }

    /// The slot of a name that has one already.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The name of a slot.
    pub fn name(&self, slot: usize) -> &str {
        &self.names[slot]
    }

    /// Begins a row.
    pub fn begin(&mut self, step: u64) {
        self.steps.push(step);
    }

    /// Sets a value of the last row, if there is one. Left out, and told later, if columns that are mostly empty take far more room than
    /// their values.
    #[inline]
    pub fn set(&mut self, slot: usize, value: f64) {
        if let Some(row) = self.steps.len().checked_sub(1) {
            self.set_at(slot, row, value);
        }
    }

    /// Sets a value of any row, as [`set`](Self::set) does.
    #[inline]
    pub fn set_at(&mut self, slot: usize, row: usize, value: f64) {
        let column = &mut self.columns[slot];
        if self.budget.allows(column.len(), row) {
            column.set(row, value);
        }
    }

    /// The column of a slot.
    pub fn column(&self, slot: usize) -> &Column {
        &self.columns[slot]
    }

    /// The column of a slot, to be corrected.
    pub fn column_mut(&mut self, slot: usize) -> &mut Column {
        &mut self.columns[slot]
    }

    /// Names and columns in the order in which they were first seen.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Column)> {
        self.names.iter().map(String::as_str).zip(&self.columns)
    }

    /// Takes the columns out, with their names, in the order in which they were first seen.
    pub fn take_columns(&mut self) -> Vec<(String, Column)> {
        self.index.clear();
        std::mem::take(&mut self.names)
            .into_iter()
            .zip(std::mem::take(&mut self.columns))
            .collect()
    }

    /// Takes a column's values out.
    pub(super) fn empty(&mut self, slot: usize) {
        self.columns[slot] = Column::default();
    }

    /// Puts a whole column in place.
    pub fn put(&mut self, name: &str, column: Column) {
        let slot = self.slot(name);
        self.budget.allows_many(0, column.len());
        self.columns[slot] = column;
    }

    /// Gives metrics other names; `None` keeps a name. Of two that come to the same name the second keeps its own.
    pub fn rename(&mut self, new: impl Fn(&str) -> Option<String>) {
        for slot in 0..self.names.len() {
            let Some(name) = new(&self.names[slot]).filter(|n| !self.index.contains_key(n)) else {
                continue;
            };
            self.index.remove(&self.names[slot]);
            self.index.insert(name.clone(), slot);
            self.names[slot] = name;
        }
    }

    /// Takes metrics out, and the rows that hold nothing else but a time.
    pub fn leave_out(&mut self, out: impl Fn(&str) -> bool) {
        let all = self.take_columns();
        let (gone, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| out(name));
        let rows_of = |columns: &[(String, Column)]| -> BTreeSet<usize> {
            let metrics = columns
                .iter()
                .filter(|(name, _)| !TIME_NAMES.contains(&name.as_str()));
            metrics
                .flat_map(|(_, c)| c.present().map(|(row, _)| row))
                .collect()
        };
        let (lost, held) = (rows_of(&gone), rows_of(&kept));
        let keep: Vec<usize> = (0..self.steps.len())
            .filter(|r| held.contains(r) || !lost.contains(r))
            .collect();
        for (name, column) in kept {
            self.put(&name, column.take(&keep));
        }
        self.steps = keep.iter().map(|r| self.steps[*r]).collect();
        for mark in &mut self.marks {
            mark.row = keep.partition_point(|r| *r < mark.row);
        }
    }

    /// Lets go of all but the last rows. What is known of checkpoints stays: a way back may lead before the first row.
    pub(crate) fn keep_last(&mut self, rows: usize) {
        let cut = self.steps.len().saturating_sub(rows);
        if cut == 0 {
            return;
        }
        let keep: Vec<usize> = (cut..self.steps.len()).collect();
        let whole = std::mem::take(&mut self.budget);
        for (name, column) in self.take_columns() {
            let column = column.take(&keep);
            if column.has_values() {
                self.put(&name, column);
            }
        }
        self.budget.and(whole);
        self.steps.drain(..cut);
        self.marks
            .retain(|m| m.row >= cut || m.kind.is_of_checkpoint());
        let spare = self.marks.len().saturating_sub(MOST_MARKS);
        self.marks.drain(..spare);
        for mark in &mut self.marks {
            mark.row = mark.row.saturating_sub(cut);
        }
    }

    /// First and last wall time, in milliseconds since 1970, if any is logged.
    pub fn span(&self) -> Option<(f64, f64)> {
        let times = self.times()?;
        let finite = || times.present().map(|(_, t)| t).filter(|t| t.is_finite());
        let (first, last) = (finite().next()?, finite().last()?);
        Some((milliseconds(first), milliseconds(last)))
    }

    /// The column of wall times, if any row has one.
    pub(super) fn times(&self) -> Option<&Column> {
        let mut columns = self.columns().filter(|(name, _)| TIME_NAMES.contains(name));
        columns.find_map(|(_, c)| c.iter().flatten().any(f64::is_finite).then_some(c))
    }

    /// Notes an event before the next row.
    pub fn mark(&mut self, kind: EventKind, step: Option<u64>, path: Option<String>) {
        self.marks.push(Mark {
            row: self.steps.len(),
            kind,
            step,
            path,
        });
    }

    /// Notes something that could not be read. Past the first thousand it is only counted.
    pub fn lose(&mut self, place: impl AsRef<str>, what: impl AsRef<str>) {
        if self.losses.len() >= MOST_LOSSES {
            self.untold += 1;
            return;
        }
        self.losses
            .push(DataLoss::new("", place.as_ref(), what.as_ref()));
    }

    /// Values that are there or were refused: no fewer than there are.
    pub(super) fn values(&self) -> usize {
        self.budget.values()
    }

    /// Takes over what could not be read of others, and what was left out of them.
    pub(crate) fn take_over(&mut self, other: &Self) {
        let room = MOST_LOSSES.saturating_sub(self.losses.len());
        self.untold += other.untold + other.losses.len().saturating_sub(room);
        self.losses.extend(other.losses.iter().take(room).cloned());
        self.budget.and(other.budget);
    }

    /// Tells what was only counted so far.
    pub(super) fn tell(&mut self) {
        if self.budget.refused() > 0 {
            let what = format!(
                "{} values of metrics that hardly any row has were left out",
                self.budget.refused()
            );
            self.losses.push(DataLoss::new("", "", &what));
        }
        if self.untold > 0 {
            let what = format!("{} more places could not be read", self.untold);
            self.losses.push(DataLoss::new("", "", &what));
        }
    }

    /// Appends rows that follow these in the same source.
    pub fn append(&mut self, mut next: Self) {
        let before = self.steps.len();
        let gaps = next.budget.has_gaps();
        for (name, column) in next.names.iter().zip(&next.columns) {
            let slot = self.slot(name);
            let to = &mut self.columns[slot];
            let values = if gaps {
                column.iter().flatten().count()
            } else {
                column.len()
            };
            let empty = before.saturating_sub(to.len()) + column.len() - values;
            if self.budget.allows_many(empty, values) {
                to.pad(before);
                to.append_scaled(column, 1.0);
            }
        }
        self.take_over(&next);
        self.steps.append(&mut next.steps);
        self.marks.extend(next.marks.into_iter().map(|m| Mark {
            row: m.row + before,
            ..m
        }));
        self.run = self.run.take().or(next.run);
        for (key, value) in next.facts {
            self.facts.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One metric of its own for each row beside the loss.
    fn scattered(rows: usize) -> Rows {
        let mut out = Rows::default();
        let loss = out.slot("loss");
        for row in 0..rows {
            out.begin(row as u64);
            out.set(loss, 2.0);
            let slot = out.slot(&format!("m{row}"));
            out.set(slot, 1.0);
        }
        out
    }

    fn cells(rows: &Rows) -> usize {
        rows.columns().map(|(_, c)| c.len()).sum()
    }

    #[test]
    fn metrics_that_hardly_any_row_has_take_no_room_without_end() {
        let mut rows = scattered(20_000);
        let values = rows.columns().filter(|(_, c)| c.has_values()).count();
        assert!(cells(&rows) < 22_000_000, "{}", cells(&rows));
        assert!(values > 5000 && values < 10_000, "{values}");
        assert_eq!(rows.column(0).len(), 20_000, "the loss is whole");
        rows.tell();
        let refused = 20_001 - values;
        let what = format!("{refused} values of metrics that hardly any row has were left out");
        assert_eq!(rows.losses[0].what, what);

        let mut chunks = Rows::default();
        for _ in 0..20 {
            let mut next = scattered(1000);
            next.put("whole", Column::from_values(vec![1.0; 1000]));
            chunks.append(next);
        }
        assert!(cells(&chunks) < 25_000_000, "{}", cells(&chunks));
        for name in ["loss", "whole"] {
            let slot = chunks.find(name).expect("a column");
            assert_eq!(
                chunks.column(slot).iter().flatten().count(),
                20_000,
                "{name}"
            );
        }
    }

    #[test]
    fn layers_logged_every_hundred_steps_are_kept() {
        let mut rows = Rows::default();
        let dense: Vec<usize> = (0..10).map(|n| rows.slot(&format!("d{n}"))).collect();
        let layers: Vec<usize> = (0..300).map(|n| rows.slot(&format!("l{n}"))).collect();
        for row in 0..100_000_u64 {
            rows.begin(row);
            let due = if row % 100 == 99 { &layers[..] } else { &[] };
            for slot in dense.iter().chain(due) {
                rows.set(*slot, 1.0);
            }
        }
        rows.tell();
        assert!(rows.losses.is_empty(), "{:?}", rows.losses);
        assert!(cells(&rows) > 30_000_000);
    }

    #[test]
    fn damage_without_end_is_counted() {
        let mut rows = Rows::default();
        for chunk in 0..3 {
            let mut next = Rows::default();
            for line in 0..800 {
                next.lose(format!("line {line}"), format!("torn\u{7} {chunk}"));
            }
            rows.append(next);
        }
        rows.lose("", "last");
        rows.tell();
        assert_eq!(rows.losses.len(), 1001);
        assert_eq!(rows.losses[999].what, "torn\u{fffd} 1");
        assert_eq!(rows.losses[1000].what, "1401 more places could not be read");
    }

    #[test]
    fn of_rows_that_are_let_go_of_the_checkpoints_stay() {
        let mut rows = Rows::default();
        let (loss, early) = (rows.slot("loss"), rows.slot("early"));
        for step in 0..10_u64 {
            match step {
                2 => rows.mark(EventKind::Saved, Some(2), None),
                4 | 8 => rows.mark(EventKind::Start, None, None),
                _ => {}
            }
            rows.begin(step);
            rows.set(loss, step as f64);
            if step < 3 {
                rows.set(early, 1.0);
            }
        }
        rows.keep_last(20);
        assert_eq!(rows.steps.len(), 10);
        rows.keep_last(4);
        assert_eq!(rows.steps, [6, 7, 8, 9]);
        let values = |rows: &Rows| -> Vec<Vec<f64>> {
            let columns = rows.columns();
            columns.map(|(_, c)| c.iter().flatten().collect()).collect()
        };
        assert_eq!(values(&rows), [[6.0, 7.0, 8.0, 9.0]]);
        let marks: Vec<_> = rows.marks.iter().map(|m| (m.row, m.kind)).collect();
        assert_eq!(marks, [(0, EventKind::Saved), (2, EventKind::Start)]);
        let loss = rows.slot("loss");
        rows.begin(10);
        rows.set(loss, 10.0);
        assert_eq!(values(&rows), [[6.0, 7.0, 8.0, 9.0, 10.0]]);
    }

    #[test]
    fn a_value_without_a_row_is_none() {
        let mut rows = Rows::default();
        let slot = rows.slot("loss");
        rows.set(slot, 1.0);
        rows.begin(1);
        assert_eq!(rows.column(slot).get(0), None);
    }
}
