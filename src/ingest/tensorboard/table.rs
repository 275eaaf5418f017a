//! Puts values that come one tag after another into rows, one row a step.

use crate::run::EventKind;
use crate::run::Rows;

/// Rows of one axis. A segment is the rows from one start of the trainer, or step back, to the next; within it steps
/// grow.
#[derive(Debug)]
pub(super) struct Table {
    rows: Rows,
    time: usize,
    /// First row of the segment.
    start: usize,
    /// The row before which the last start of the trainer is marked.
    started: usize,
    segment: u32,
    /// Segment and step of the last value of each slot.
    seen: Vec<(u32, u64)>,
    strays: Vec<Stray>,
    repeats: usize,
    values: usize,
}

/// A value that came late, for a step that has no row.
#[derive(Debug)]
struct Stray {
    /// The row before which its row belongs.
    before: usize,
    step: u64,
    slot: usize,
    value: f64,
    wall: f64,
}

/// What is known of a value besides its tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) step: u64,
    /// Seconds since 1970; 0 if the event has none.
    pub(super) wall: f64,
    pub(super) value: f64,
}

impl Table {
    pub(super) fn new() -> Self {
        let mut rows = Rows::default();
        let time = rows.slot("time");
        // Every start of a trainer opens a file, with or without a record that says so.
        rows.mark(EventKind::Start, None, None);
        Self {
            rows,
            time,
            start: 0,
            started: 0,
            segment: 1,
            seen: vec![(0, 0)],
            strays: Vec::new(),
            repeats: 0,
            values: 0,
        }
    }

    /// The slot of a tag.
    pub(super) fn slot(&mut self, name: &str) -> usize {
        // The wall time of the events is the time of a row, whatever a tag calls itself.
        let name = if name == "time" { "tag/time" } else { name };
        let slot = self.rows.slot(name);
        self.seen.resize(self.seen.len().max(slot + 1), (0, 0));
        slot
    }

    /// Number of values.
    pub(super) fn values(&self) -> usize {
        self.values
    }

    /// An event of the trainer. Values after a start belong to a new segment.
    pub(super) fn mark(&mut self, kind: EventKind, step: Option<u64>, path: Option<String>) {
        if kind == EventKind::Start {
            self.begin_segment();
            if std::mem::replace(&mut self.started, self.start) == self.start {
                return;
            }
        }
        self.rows.mark(kind, step, path);
    }

    /// Takes a value.
    #[inline]
    pub(super) fn add(&mut self, slot: usize, sample: Sample) {
        self.values += 1;
        let rows = &self.rows.steps;
        let last = rows.last().filter(|_| rows.len() > self.start).copied();
        match last {
            Some(last) if sample.step == last => {}
            Some(last) if sample.step < last => return self.add_late(slot, sample),
            _ => self.begin_row(sample),
        }
        let now = (self.segment, sample.step);
        if std::mem::replace(&mut self.seen[slot], now) == now {
            self.repeats += 1;
            return;
        }
        self.rows.set(slot, sample.value);
    }

    fn begin_segment(&mut self) {
        self.segment += 1;
        self.start = self.rows.steps.len();
    }

    fn begin_row(&mut self, sample: Sample) {
        self.rows.begin(sample.step);
        if sample.wall > 0.0 {
            self.rows.set(self.time, sample.wall * 1000.0);
        }
    }

    /// A value for a step before the last. If its tag has been further, the trainer went back; else it is one that is
    /// logged later than others, such as that of an evaluation.
    fn add_late(&mut self, slot: usize, sample: Sample) {
        let (segment, step) = self.seen[slot];
        if segment == self.segment && step > sample.step {
            self.begin_segment();
            self.values -= 1;
            return self.add(slot, sample);
        }
        if segment == self.segment && step == sample.step {
            self.repeats += 1;
            return;
        }
        self.seen[slot] = (self.segment, sample.step);
        match self.rows.steps[self.start..].binary_search(&sample.step) {
            Ok(at) => {
                self.rows.set_at(slot, self.start + at, sample.value);
            }
            Err(at) => self.strays.push(Stray {
                before: self.start + at,
                step: sample.step,
                slot,
                value: sample.value,
                wall: sample.wall,
            }),
        }
    }

    /// The rows, those of late values in their places.
    pub(super) fn finish(mut self) -> Rows {
        if self.repeats > 0 {
            let what = format!(
                "{} values repeat a step of their tag; the first of each was kept",
                self.repeats
            );
            self.rows.lose("", what);
        }
        if self.rows.steps.is_empty() {
            // Only a header, or nothing that is a scalar.
            self.rows.marks.clear();
        }
        let mut strays = std::mem::take(&mut self.strays);
        if !strays.is_empty() {
            strays.sort_by_key(|s| (s.before, s.step));
            insert(&mut self.rows, &strays, self.time);
        }
        self.rows
    }
}

/// Makes rows for late values, which are in order.
fn insert(rows: &mut Rows, strays: &[Stray], time: usize) {
    let mut order = Vec::with_capacity(rows.steps.len() + strays.len());
    let mut steps = Vec::with_capacity(order.capacity());
    let mut places = Vec::with_capacity(strays.len());
    let mut firsts: Vec<usize> = Vec::new();
    let mut last = None;
    for stray in strays {
        let from = order.len() - firsts.len();
        order.extend(from..stray.before);
        steps.extend_from_slice(&rows.steps[from..stray.before]);
        if last.replace((stray.before, stray.step)) != Some((stray.before, stray.step)) {
            order.push(usize::MAX);
            steps.push(stray.step);
            firsts.push(stray.before);
        }
        places.push(order.len() - 1);
    }
    let from = order.len() - firsts.len();
    order.extend(from..rows.steps.len());
    steps.extend_from_slice(&rows.steps[from..]);
    rows.steps = steps;
    let slots = rows.columns().count();
    for slot in 0..slots {
        // Up to its last value: a column is no longer than it has to be.
        let end = match rows.column(slot).len().checked_sub(1) {
            Some(last) => last + firsts.partition_point(|before| *before <= last) + 1,
            None => 0,
        };
        *rows.column_mut(slot) = rows.column(slot).take(&order[..end]);
    }
    for (stray, row) in strays.iter().zip(places) {
        rows.set_at(stray.slot, row, stray.value);
        if stray.wall > 0.0 && rows.column(time).get(row).is_none() {
            rows.set_at(time, row, stray.wall * 1000.0);
        }
    }
    for mark in &mut rows.marks {
        mark.row += firsts.partition_point(|before| *before < mark.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(values: &[(&str, u64, f64)]) -> Table {
        let mut table = Table::new();
        for (tag, step, value) in values {
            let slot = table.slot(tag);
            let wall = 100.0 + *step as f64;
            table.add(
                slot,
                Sample {
                    step: *step,
                    wall,
                    value: *value,
                },
            );
        }
        table
    }

    fn column(rows: &Rows, name: &str) -> Vec<Option<f64>> {
        let column = rows.column(rows.find(name).expect("a column"));
        (0..rows.steps.len()).map(|row| column.get(row)).collect()
    }

    #[test]
    fn a_late_tag_joins_the_row_of_its_step() {
        let rows = table(&[
            ("loss", 1, 9.0),
            ("loss", 2, 8.0),
            ("loss", 3, 7.0),
            ("eval", 2, 8.5),
        ])
        .finish();
        assert_eq!(rows.steps, [1, 2, 3]);
        assert_eq!(column(&rows, "eval"), [None, Some(8.5), None]);
    }

    #[test]
    fn late_values_without_a_row_get_one_in_order() {
        let mut t = table(&[("loss", 10, 9.0), ("loss", 20, 8.0), ("loss", 5, 9.5)]);
        t.mark(EventKind::Saved, Some(5), None);
        let (loss, eval, other) = (t.slot("loss"), t.slot("eval"), t.slot("other"));
        let add = |t: &mut Table, slot, step, value| {
            t.add(
                slot,
                Sample {
                    step,
                    wall: 0.5,
                    value,
                },
            );
        };
        add(&mut t, loss, 15, 8.8);
        add(&mut t, eval, 12, 1.0);
        add(&mut t, other, 12, 2.0);
        add(&mut t, eval, 14, 3.0);
        let rows = t.finish();
        assert_eq!(rows.steps, [10, 20, 5, 12, 14, 15]);
        assert_eq!(
            column(&rows, "loss"),
            [Some(9.0), Some(8.0), Some(9.5), None, None, Some(8.8)]
        );
        assert_eq!(column(&rows, "eval")[3..5], [Some(1.0), Some(3.0)]);
        assert_eq!(column(&rows, "other")[3], Some(2.0));
        assert_eq!(column(&rows, "time")[3], Some(500.0));
        assert_eq!((rows.marks[0].row, rows.marks[1].row), (0, 3));
    }

    #[test]
    fn a_tag_that_goes_back_is_a_restart() {
        let values = [
            ("loss", 1, 9.0),
            ("lr", 1, 0.1),
            ("loss", 2, 8.0),
            ("lr", 2, 0.1),
            ("loss", 3, 7.0),
        ];
        let mut all = values.to_vec();
        all.extend([
            ("loss", 2, 8.5),
            ("lr", 2, 0.2),
            ("loss", 3, 7.5),
            ("lr", 3, 0.2),
        ]);
        let rows = table(&all).finish();
        assert_eq!(rows.steps, [1, 2, 3, 2, 3]);
        assert_eq!(column(&rows, "loss"), [9.0, 8.0, 7.0, 8.5, 7.5].map(Some));
        assert_eq!(
            column(&rows, "lr"),
            [Some(0.1), Some(0.1), None, Some(0.2), Some(0.2)]
        );
        assert!(rows.losses.is_empty());
    }

    #[test]
    fn repeats_are_told() {
        let rows = table(&[("loss", 0, 9.0), ("loss", 0, 8.0), ("loss", 0, 7.0)]).finish();
        assert_eq!(rows.steps, [0]);
        assert_eq!(column(&rows, "loss"), [Some(9.0)]);
        assert_eq!(
            rows.losses[0].what,
            "2 values repeat a step of their tag; the first of each was kept"
        );
    }
}
