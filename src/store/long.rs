//! Long tables, one value a line, turned into rows.

use std::collections::HashMap;

use crate::run::Rows;
use crate::run::cells;
use crate::signal::{Aliases, Meaning};

/// A table of (step, name, value), in the order of its source.
#[derive(Debug, Default)]
pub struct Long {
    names: Vec<String>,
    index: HashMap<String, u32>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    step: u64,
    value: f64,
    /// NaN if the line has no time.
    time: f64,
    name: u32,
    attempt: u32,
}

impl Long {
    /// The number of a metric name.
    pub fn name(&mut self, name: &str) -> u32 {
        if let Some(number) = self.index.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), number);
        number
    }

    /// Adds a value of a metric, with its wall time if there is one.
    pub fn push(&mut self, step: u64, name: u32, value: f64, time: Option<f64>) {
        self.entries.push(Entry {
            step,
            value,
            time: time.unwrap_or(f64::NAN),
            name,
            attempt: 0,
        });
    }

    /// Adds the values as rows, a column for each metric. A step that a metric repeats begins another pass over
    /// the steps, which the steps of the rows show by going back.
    pub fn pivot(mut self, aliases: &Aliases, rows: &mut Rows) {
        // Twins that count samples in place of steps would make rows of their own.
        let kept: Vec<bool> = self
            .names
            .iter()
            .map(|n| aliases.meaning(n) != Meaning::Drop)
            .collect();
        self.entries.retain(|e| kept[e.name as usize]);
        if self.by_name() && self.entries.iter().all(|e| e.time.is_finite()) {
            self.entries.sort_by(|a, b| a.time.total_cmp(&b.time));
        }
        if self.by_name() {
            self.count_passes_of_each();
        } else {
            self.count_passes();
        }
        self.entries.sort_by_key(|e| (e.attempt, e.step));
        self.bound(rows);
        self.fill(rows);
    }

    /// Whether the values of one name stand together: the step goes back at most changes of name.
    fn by_name(&self) -> bool {
        let changes = self.entries.windows(2).filter(|w| w[0].name != w[1].name);
        let (mut all, mut back) = (0_usize, 0_usize);
        for pair in changes {
            all += 1;
            back += usize::from(pair[1].step < pair[0].step);
        }
        back * 2 > all
    }

    fn count_passes_of_each(&mut self) {
        let mut last: Vec<Option<(u64, u32)>> = vec![None; self.names.len()];
        for entry in &mut self.entries {
            let last = &mut last[entry.name as usize];
            entry.attempt =
                last.map_or(0, |(step, attempt)| attempt + u32::from(entry.step < step));
            *last = Some((entry.step, entry.attempt));
        }
    }

    fn count_passes(&mut self) {
        let mut last: Vec<Option<(u64, u32)>> = vec![None; self.names.len()];
        let mut attempt = 0;
        for entry in &mut self.entries {
            let last = &mut last[entry.name as usize];
            attempt += u32::from(last.is_some_and(|(step, a)| a == attempt && entry.step < step));
            entry.attempt = attempt;
            *last = Some((entry.step, attempt));
        }
    }

    /// Leaves out the rarest metrics where all of them would take far more room than their values.
    fn bound(&mut self, rows: &mut Rows) {
        let steps = self
            .entries
            .chunk_by(|a, b| (a.attempt, a.step) == (b.attempt, b.step))
            .count();
        let room = cells(self.entries.len()) / steps.max(1);
        if self.names.len() <= room {
            return;
        }
        let mut counts: Vec<(usize, usize)> = (0..self.names.len()).map(|name| (0, name)).collect();
        for entry in &self.entries {
            counts[entry.name as usize].0 += 1;
        }
        counts.sort_by_key(|(count, name)| (usize::MAX - count, *name));
        let mut kept = vec![false; self.names.len()];
        counts
            .iter()
            .take(room)
            .for_each(|(_, name)| kept[*name] = true);
        self.entries.retain(|e| kept[e.name as usize]);
        let left = self.names.len() - room;
        rows.lose(
            "",
            format!(
                "{left} metrics with the fewest values left out: there are too many for a table"
            ),
        );
    }

    fn fill(self, rows: &mut Rows) {
        let mut slots: Vec<Option<usize>> = vec![None; self.names.len()];
        let mut first_seen: Vec<u32> = self.entries.iter().map(|e| e.name).collect();
        first_seen.sort_unstable();
        first_seen.dedup();
        for name in first_seen {
            slots[name as usize] = Some(rows.slot(&self.names[name as usize]));
        }
        let time = self
            .entries
            .iter()
            .any(|e| !e.time.is_nan())
            .then(|| rows.slot("wall_time"));
        let mut repeated = 0_usize;
        for group in self
            .entries
            .chunk_by(|a, b| (a.attempt, a.step) == (b.attempt, b.step))
        {
            rows.begin(group[0].step);
            let row = rows.steps.len() - 1;
            if let (Some(slot), Some(entry)) = (time, group.iter().find(|e| !e.time.is_nan())) {
                rows.set(slot, entry.time);
            }
            for entry in group {
                let Some(slot) = slots[entry.name as usize] else {
                    continue;
                };
                if rows.column(slot).get(row).is_some() {
                    repeated += 1;
                } else {
                    rows.set(slot, entry.value);
                }
            }
        }
        if repeated > 0 {
            rows.lose(
                "",
                format!("{repeated} values repeat a step and name; the first of each was kept"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pivoted(lines: &[(&str, u64, f64)], timed: bool) -> Rows {
        let mut long = Long::default();
        for (at, (name, step, value)) in lines.iter().enumerate() {
            let name = long.name(name);
            long.push(*step, name, *value, timed.then_some(at as f64));
        }
        let mut rows = Rows::default();
        long.pivot(&Aliases::built_in(), &mut rows);
        rows
    }

    fn column(rows: &Rows, name: &str) -> Vec<Option<f64>> {
        let column = rows.column(rows.find(name).expect("a column"));
        (0..rows.steps.len()).map(|row| column.get(row)).collect()
    }

    #[test]
    fn one_metric_after_another() {
        let steps = [
            ("loss", 1),
            ("loss", 2),
            ("loss", 2),
            ("loss", 1),
            ("loss", 3),
        ];
        let steps = [&steps[..], &[("lr", 1), ("lr", 2), ("lr", 1), ("lr", 3)]].concat();
        let values = (0..9_u8).map(f64::from);
        let lines: Vec<_> = steps
            .into_iter()
            .zip(values)
            .map(|((name, step), v)| (name, step, v))
            .collect();
        let rows = pivoted(&lines, false);
        assert_eq!(rows.steps, [1, 2, 1, 3]);
        assert_eq!(column(&rows, "loss"), [0.0, 1.0, 3.0, 4.0].map(Some));
        assert_eq!(column(&rows, "lr"), [5.0, 6.0, 7.0, 8.0].map(Some));
        assert_eq!(rows.losses.len(), 1, "the second loss of step 2");
    }

    #[test]
    fn a_rare_metric_belongs_to_the_pass_in_which_it_was_logged() {
        let steps = [
            ("loss", 1),
            ("loss", 2),
            ("loss", 1),
            ("loss", 2),
            ("val", 2),
            ("loss", 3),
        ];
        let rows = pivoted(&steps.map(|(name, step)| (name, step, 9.0)), true);
        assert_eq!(rows.steps, [1, 2, 1, 2, 3]);
        assert_eq!(column(&rows, "val"), [None, None, None, Some(9.0), None]);
        assert_eq!(column(&rows, "wall_time")[3], Some(3.0));
    }

    #[test]
    fn twins_are_dropped_and_room_is_bounded() {
        let names: Vec<String> = (0..40_000).map(|n| format!("m{n}")).collect();
        let lines: Vec<_> = names
            .iter()
            .zip(0..)
            .map(|(name, step)| (name.as_str(), step, 1.0))
            .collect();
        let rows = pivoted(
            &[&lines[..], &[("loss vs samples", 512_000, 9.0)]].concat(),
            false,
        );
        assert!(rows.columns().count() < 4_000);
        assert!(rows.steps.last() < Some(&40_000));
        assert_eq!(rows.losses.len(), 1);
    }
}
