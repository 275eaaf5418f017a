//! Counts of samples and tokens that a trainer takes before a batch and logs with it.

use crate::run::Rows;

/// Composer's. Its counter of batches is taken at the same time, but what the row holds besides is of the batch itself.
const NAMES: [&str; 2] = ["time/sample", "time/token"];

/// Makes such counts those after the batch, as every other trainer has them: each is that of the row after, less what
/// lies between. Where the batch size cannot be told there is none.
pub(super) fn advance(rows: &mut Rows) {
    let columns = rows.columns().enumerate();
    let lagging = |raw: &str| NAMES.contains(&raw.rsplit(" - ").next().unwrap_or(raw));
    let slots: Vec<usize> = columns
        .filter(|(_, (raw, column))| lagging(raw) && column.has_values())
        .map(|(slot, _)| slot)
        .collect();
    for slot in slots {
        let mut batch = None;
        let points: Vec<(usize, f64)> = (0..rows.steps.len())
            .filter_map(|row| Some((row, rows.column(slot).finite(row)?)))
            .collect();
        for (at, (row, count)) in points.iter().enumerate() {
            let next = points.get(at + 1);
            batch = next
                .and_then(|next| of_a_batch(rows, (*row, *count), *next))
                .or(batch);
            match batch {
                Some(batch) => rows.column_mut(slot).set(*row, count + batch),
                None => rows.column_mut(slot).clear(*row),
            }
        }
    }
}

/// What a batch adds between two rows, if it is a whole number.
fn of_a_batch(rows: &Rows, (a, from): (usize, f64), (b, to): (usize, f64)) -> Option<f64> {
    let steps = rows.steps[b]
        .checked_sub(rows.steps[a])
        .filter(|s| *s > 0)?;
    let batch = (to - from) / steps as f64;
    (batch >= 1.0 && batch.fract() == 0.0).then_some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Column;

    fn advanced(steps: &[u64], counts: &[Option<f64>]) -> Vec<Option<f64>> {
        let mut rows = Rows::default();
        rows.steps.extend_from_slice(steps);
        rows.put("time/token", Column::from_options(counts.iter().copied()));
        advance(&mut rows);
        (0..steps.len())
            .map(|row| rows.column(0).get(row))
            .collect()
    }

    #[test]
    fn a_count_before_a_batch_becomes_the_count_after_it() {
        let some = |values: [f64; 4]| values.map(Some);
        assert_eq!(
            advanced(&[0, 1, 2, 3], &some([0.0, 8.0, 24.0, 40.0])),
            some([8.0, 24.0, 40.0, 56.0]),
            "the batch grows after the first"
        );
        assert_eq!(
            advanced(&[10, 20, 10, 20], &some([80.0, 160.0, 80.0, 160.0])),
            some([88.0, 168.0, 88.0, 168.0]),
            "every tenth batch, and again after a restart"
        );
        assert_eq!(
            advanced(&[0, 2, 4, 5], &[Some(0.0), Some(7.0), None, Some(13.0)]),
            [None, Some(9.0), None, Some(15.0)],
            "half a sample is no batch"
        );
    }
}
