//! Which metric is the training step: W&B's own counter counts log calls.

use crate::ingest::number;
use crate::run::{Column, Rows};
use crate::signal::step_rank;

/// Puts the rows at the steps of the best step metric, if there is one that will do. `defined` are the step metrics
/// that the run declared.
pub(in crate::ingest) fn settle(rows: &mut Rows, defined: &[String]) {
    let candidates = rows.columns().filter_map(|(name, column)| {
        let declared = defined.iter().any(|d| d == name);
        let rank = step_rank(name);
        (declared || rank.is_some()).then_some((!declared, rank.unwrap_or(u8::MAX), name, column))
    });
    let known_or_moving = |rank: u8, m: Manner| rank < u8::MAX || 2 * m.moves >= m.values;
    let best = candidates
        .filter(|(_, rank, _, column)| {
            Manner::of(column, rows.steps.len())
                .is_some_and(|m| m.counts() && known_or_moving(*rank, m))
        })
        .min_by_key(|(declared, rank, ..)| (*declared, *rank));
    let Some((.., name, column)) = best else {
        return;
    };
    let (name, first) = (name.to_owned(), column.iter().flatten().next());
    let mut last = first.and_then(number::step).unwrap_or(0);
    let mut filled = 0;
    let mut steps = Vec::with_capacity(rows.steps.len());
    for row in 0..rows.steps.len() {
        match column.get(row).and_then(number::step) {
            Some(step) => last = step,
            None => filled += 1,
        }
        steps.push(last);
    }
    rows.steps = steps;
    if filled > 0 {
        let what = format!("{filled} rows without `{name}` were put at its last value before");
        rows.lose("", what);
    }
}

/// How a column behaves.
#[derive(Debug, Clone, Copy)]
struct Manner {
    rows: usize,
    values: usize,
    /// Changes from one value to the next.
    moves: usize,
    /// Whether it falls back, and never further up than where it began: a count within epochs.
    starts_over: bool,
}

impl Manner {
    /// `None` if a value is no step.
    fn of(column: &Column, rows: usize) -> Option<Self> {
        let mut manner = Self {
            rows,
            values: 0,
            moves: 0,
            starts_over: false,
        };
        let (mut first, mut last, mut falls, mut resumed) = (None, None, 0, false);
        for value in column.iter().flatten() {
            let step = number::step(value)?;
            let first = *first.get_or_insert(step);
            let before = last.replace(step);
            manner.values += 1;
            manner.moves += usize::from(before.is_some_and(|b| b != step));
            if before.is_some_and(|b| step < b) {
                falls += 1;
                resumed |= step > first;
            }
        }
        manner.starts_over = falls > 0 && !resumed;
        Some(manner)
    }

    /// Whether it may be the training step.
    fn counts(self) -> bool {
        2 * self.values >= self.rows && !self.starts_over && (self.moves > 0 || self.rows == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(columns: &[(&str, &[Option<f64>])], defined: &[&str]) -> Rows {
        let mut rows = Rows::default();
        for step in 0..columns[0].1.len() {
            rows.begin(step as u64);
        }
        for (name, values) in columns {
            rows.put(name, Column::from_options(values.iter().copied()));
        }
        let defined: Vec<String> = defined.iter().map(|d| (*d).to_owned()).collect();
        settle(&mut rows, &defined);
        rows
    }

    fn some(values: [u64; 4]) -> [Option<f64>; 4] {
        values.map(|v| Some(v as f64))
    }

    #[test]
    fn the_trainers_step_goes_before_the_counter() {
        let rows = settled(
            &[
                ("train/global_step", &some([10, 20, 20, 30])),
                ("steps", &some([9, 9, 9, 9])),
            ],
            &[],
        );
        assert_eq!(rows.steps, [10, 20, 20, 30]);
        assert!(rows.losses.is_empty());
        let rolled_back = settled(&[("iteration", &some([100, 200, 150, 160]))], &[]);
        assert_eq!(rolled_back.steps, [100, 200, 150, 160]);
    }

    #[test]
    fn a_declared_one_goes_first_if_it_moves() {
        let (batch, step, epoch) = (some([5, 6, 7, 8]), some([1, 2, 3, 4]), some([0, 0, 0, 1]));
        assert_eq!(
            settled(&[("my_batch", &batch), ("step", &step)], &["my_batch"]).steps,
            [5, 6, 7, 8]
        );
        assert_eq!(
            settled(&[("epoch", &epoch), ("step", &step)], &["epoch"]).steps,
            [1, 2, 3, 4]
        );
        assert_eq!(
            settled(&[("epoch", &epoch)], &["epoch"]).steps,
            [0, 1, 2, 3]
        );
    }

    #[test]
    fn one_that_hardly_any_row_has_will_not_do() {
        let few = [None, None, None, Some(10.0)];
        assert_eq!(
            settled(&[("train/global_step", &few)], &["train/global_step"]).steps,
            [0, 1, 2, 3]
        );
        let most = [None, Some(10.0), None, Some(20.0)];
        let rows = settled(&[("train/global_step", &most)], &[]);
        assert_eq!(rows.steps, [10, 10, 10, 20]);
        assert_eq!(rows.losses.len(), 1);
    }

    #[test]
    fn a_count_within_epochs_will_not_do() {
        assert_eq!(
            settled(&[("iter", &some([1, 2, 1, 2]))], &[]).steps,
            [0, 1, 2, 3]
        );
        assert_eq!(
            settled(&[("step", &[Some(0.5), Some(1.0), None, Some(2.0)])], &[]).steps,
            [0, 1, 2, 3]
        );
    }
}
