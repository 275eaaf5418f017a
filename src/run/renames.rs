//! A metric that changes its name in the middle of a log: an upgrade of the trainer, or of the script around it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::run::{Column, Rows};
use crate::signal::{Meaning, Resolver};

/// Joins columns of one signal of which the one ends before the other begins, in the unit of the first. Columns that
/// have rows in common, or take turns, stay apart: then they are two things.
pub(super) fn join(rows: &mut Rows, resolver: &mut Resolver<'_>) {
    let mut signals: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
    for (slot, (raw, _)) in rows.columns().enumerate() {
        if let Meaning::Signal { name, scale } = resolver.meaning(raw) {
            signals.entry(name).or_default().push((slot, scale));
        }
    }
    for columns in signals.into_values().filter(|c| c.len() > 1) {
        let mut parts: Vec<Part> = columns
            .into_iter()
            .filter_map(|(slot, scale)| {
                let span = span(rows.column(slot))?;
                Some(Part { slot, span, scale })
            })
            .collect();
        parts.sort_by_key(|p| *p.span.start());
        let apart = |w: &[Part]| w[0].span.end() < w[1].span.start();
        if parts.len() > 1 && parts.windows(2).all(apart) {
            let (first, later) = (&parts[0], &parts[1..]);
            for part in later {
                first.take(part, rows);
            }
        }
    }
}

/// A column of a signal.
struct Part {
    slot: usize,
    /// Rows from its first to its last value.
    span: RangeInclusive<usize>,
    scale: f64,
}

impl Part {
    fn take(&self, other: &Self, rows: &mut Rows) {
        let column = std::mem::take(rows.column_mut(other.slot));
        for row in other.span.clone() {
            if let Some(value) = column.get(row) {
                // A factor that is not needed would cost a digit.
                let same = self.scale.to_bits() == other.scale.to_bits();
                let value = if same {
                    value
                } else {
                    value * other.scale / self.scale
                };
                rows.column_mut(self.slot).set(row, value);
            }
        }
    }
}

/// From the first to the last row with a value.
fn span(column: &Column) -> Option<RangeInclusive<usize>> {
    let has = |row: &usize| column.get(*row).is_some();
    let first = (0..column.len()).find(has)?;
    let last = (first..column.len()).rfind(has)?;
    Some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Aliases;

    fn joined(columns: &[(&str, &[Option<f64>])]) -> Vec<(String, Vec<Option<f64>>)> {
        let mut rows = Rows::default();
        for step in 0..columns[0].1.len() {
            rows.begin(step as u64);
        }
        for (name, values) in columns {
            rows.put(name, Column::from_options(values.iter().copied()));
        }
        let aliases = Aliases::built_in();
        join(&mut rows, &mut Resolver::new(&aliases));
        let values = |c: &Column| (0..rows.steps.len()).map(|r| c.get(r)).collect();
        let with_values = rows.columns().filter(|(_, c)| c.has_values());
        with_values
            .map(|(n, c)| (n.to_owned(), values(c)))
            .collect()
    }

    #[test]
    fn a_new_name_and_a_new_unit_go_on_where_the_old_ones_end() {
        let got = joined(&[
            (
                "elapsed time per iteration (ms)",
                &[Some(1230.0), Some(1240.0), None, None],
            ),
            (
                "elapsed time per iteration (s)",
                &[None, None, Some(1.25), Some(1.5)],
            ),
            ("lm loss", &[Some(9.0), None, None, None]),
            ("train/loss", &[None, None, Some(7.0), Some(6.0)]),
        ]);
        let expected = [
            (
                "elapsed time per iteration (ms)".to_owned(),
                [1230.0, 1240.0, 1250.0, 1500.0].map(Some).to_vec(),
            ),
            (
                "lm loss".to_owned(),
                vec![Some(9.0), None, Some(7.0), Some(6.0)],
            ),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn two_metrics_that_take_turns_stay_two() {
        let columns: [(&str, &[Option<f64>]); 2] = [
            ("lm loss", &[Some(9.0), None, Some(8.0)]),
            ("train/loss", &[None, Some(7.0), Some(6.0)]),
        ];
        assert_eq!(joined(&columns).len(), 2);
    }
}
