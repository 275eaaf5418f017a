//! What an ingester reads from one source, before anything is sorted into attempts.

use std::collections::{BTreeMap, HashMap};

use crate::run::{Column, DataLoss, EventKind};

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
    names: Vec<String>,
    columns: Vec<Column>,
    index: HashMap<String, usize>,
}

/// An event at a place among the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The row before which it stands; equal to the number of rows at the end.
    pub row: usize,
    /// What happened.
    pub kind: EventKind,
    /// The step it names, if any.
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

    /// Sets a value of the last row.
    pub fn set(&mut self, slot: usize, value: f64) {
        let row = self.steps.len().saturating_sub(1);
        self.columns[slot].set(row, value);
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

    /// Puts a whole column in place.
    pub fn put(&mut self, name: &str, column: Column) {
        let slot = self.slot(name);
        self.columns[slot] = column;
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

    /// Notes something that could not be read.
    pub fn lose(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.losses.push(DataLoss {
            source: String::new(),
            place: place.into(),
            what: what.into(),
        });
    }

    /// Appends rows that follow these in the same source.
    pub fn append(&mut self, mut next: Self) {
        let before = self.steps.len();
        for (name, column) in next.names.iter().zip(&next.columns) {
            let slot = self.slot(name);
            self.columns[slot].pad(before);
            self.columns[slot].append_scaled(column, 1.0);
        }
        self.steps.append(&mut next.steps);
        self.marks.extend(next.marks.into_iter().map(|m| Mark {
            row: m.row + before,
            ..m
        }));
        self.losses.append(&mut next.losses);
        for (key, value) in next.facts {
            self.facts.entry(key).or_insert(value);
        }
    }
}
