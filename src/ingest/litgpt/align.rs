//! litgpt's other logs, CSV and event files: their steps count micro-batches, and those of its console updates.

use crate::run::{Column, Rows};

/// The fact that tells how many micro-batches an update takes.
pub(in crate::ingest) const ACCUMULATION: &str = "gradient_accumulation_iters";
/// Metrics that it logs together.
const TOGETHER: [&str; 4] = ["loss", "iter_time", "epoch", "total_tokens"];

fn column<'a>(rows: &'a Rows, name: &str) -> Option<&'a Column> {
    let column = rows.column(rows.find(name)?);
    column.has_values().then_some(column)
}

/// Whether a source in some tracker's format was logged by litgpt.
pub(in crate::ingest) fn wrote(rows: &Rows) -> bool {
    TOGETHER.iter().all(|name| column(rows, name).is_some())
}

/// Micro-batches of an update: as the console counts them, or as both counts are logged.
pub(in crate::ingest) fn accumulation(rows: &Rows) -> Option<u64> {
    if let Some(told) = rows.facts.get(ACCUMULATION) {
        return told.parse().ok();
    }
    let (micro, steps) = (column(rows, "iter")?, column(rows, "step")?);
    (0..rows.steps.len()).find_map(|row| {
        let (micro, step) = (micro.finite(row)?, steps.finite(row)?);
        per_update(micro as u64, step as u64).filter(|_| wrote(rows))
    })
}

/// Micro-batches of an update; none where one is not complete.
pub(super) fn per_update(micro: u64, step: u64) -> Option<u64> {
    let many = micro.checked_div(step)?;
    (many > 0 && micro.is_multiple_of(step)).then_some(many)
}

/// Whether the steps are those of updates: put right, or as trackers find them among the metrics.
pub(in crate::ingest) fn counts_updates(rows: &Rows) -> bool {
    let alike = |(row, step): (usize, f64)| rows.steps.get(row) == Some(&(step as u64));
    rows.facts.contains_key(ACCUMULATION)
        || column(rows, "step").is_some_and(|c| c.present().all(alike))
}

/// Puts the rows at their updates. Pretraining files a row under the micro-batches before its own, finetuning under
/// those with it.
pub(in crate::ingest) fn align(rows: &mut Rows, every: Option<u64>) {
    if counts_updates(rows) {
        return;
    }
    let Some(every) = every else {
        let what = "the steps of litgpt's tables count micro-batches, and nothing tells how many an update takes: they are \
                    others than those of its checkpoints; read its console too";
        return rows.lose("", what);
    };
    let ends = |offset: u64| {
        let steps = rows.steps.iter();
        steps
            .filter(|s| (**s + offset).is_multiple_of(every))
            .count()
    };
    let before = u64::from(ends(1) >= ends(0));
    for step in &mut rows.steps {
        *step = (*step + before) / every;
    }
    rows.facts
        .insert(ACCUMULATION.to_owned(), every.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(steps: &[u64]) -> Rows {
        let mut rows = Rows::default();
        rows.steps.extend_from_slice(steps);
        for name in TOGETHER {
            rows.put(name, Column::from_values(vec![1.0; steps.len()]));
        }
        rows
    }

    #[test]
    fn rows_stand_at_their_updates() {
        for steps in [[15, 31, 47], [16, 32, 48]] {
            let mut rows = table(&steps);
            assert!(wrote(&rows));
            align(&mut rows, Some(16));
            assert_eq!(
                (&rows.steps[..], accumulation(&rows)),
                (&[1, 2, 3][..], Some(16))
            );
        }
        let mut alone = table(&[15, 31]);
        align(&mut alone, None);
        assert_eq!((&alone.steps[..], alone.losses.len()), (&[15, 31][..], 1));
    }

    #[test]
    fn event_files_tell_both_counts() {
        let mut rows = table(&[15, 31]);
        rows.put("iter", Column::from_values(vec![16.0, 32.0]));
        rows.put("step", Column::from_values(vec![1.0, 2.0]));
        let every = accumulation(&rows);
        assert_eq!(every, Some(16));
        align(&mut rows, every);
        assert_eq!(rows.steps, [1, 2]);
        align(&mut rows, every);
        rows.facts.clear();
        align(&mut rows, every);
        assert_eq!(rows.steps, [1, 2], "once");
    }
}
