//! Puts what Composer logs after a batch into the row of that batch.
//!
//! Composer counts a batch when it ends, so that its loggers file the loss of batch N under N, but what callbacks log
//! once it is done (norms, rates, evaluations) under N + 1, beside the next loss. The console alone prints both together.

use crate::ingest::Ingester;
use crate::ingest::composer;
use crate::run::{Column, Rows};

/// Counters as of the start of a batch.
const COUNTERS: [&str; 2] = ["time/sample", "time/token"];
/// How the names begin that are logged once a batch is done. Learning rates are not among them: schedulers step first,
/// so that the rate filed under N + 1 is that of batch N + 1.
const AFTER: [&str; 10] = [
    "l2_norm/",
    "l1_norm/",
    "cosine/",
    "throughput/",
    "time/train",
    "time/val",
    "time/total",
    "wall_clock/",
    "metrics/eval/",
    "loss/eval/",
];
/// Names that are in the row that Composer logs when it is done, or at the end of an epoch, and which no batch follows.
const IDLE: [&str; 6] = ["time", "_", "lr-", "trainer/", "metrics/train/", "epoch"];

/// Aligns the rows of a source of Composer's, in whatever format; others are left as they are.
pub(in crate::ingest) fn align(format: &Ingester, rows: &mut Rows) {
    let has = |name: &str| rows.find(name).is_some_and(|s| rows.column(s).has_values());
    if !has("loss/train/total") || !COUNTERS.iter().any(|name| has(name)) {
        return;
    }
    for name in COUNTERS {
        counted(rows, name);
    }
    if format.name != composer::INGESTER.name {
        let slots: Vec<usize> = slots(rows, &AFTER);
        for slot in slots {
            moved_back(rows, slot);
        }
        drop_idle(rows);
    }
}

fn slots(rows: &Rows, begin: &[&str]) -> Vec<usize> {
    let ours = |name: &str| begin.iter().any(|b| name.starts_with(b));
    let all = rows.columns().enumerate();
    all.filter(|(_, (name, _))| ours(name))
        .map(|(slot, _)| slot)
        .collect()
}

/// Makes a counter one of what was read once the batch is done: the next value, or as much more as before.
fn counted(rows: &mut Rows, name: &str) {
    let Some(slot) = rows.find(name) else {
        return;
    };
    let values = rows.column(slot).iter().zip(&rows.steps).enumerate();
    let points: Vec<(usize, u64, f64)> = values
        .filter_map(|(row, (value, step))| Some((row, *step, value?)))
        .collect();
    let rate = |from: usize, to: usize| {
        let ((_, a, before), (_, b, after)) = (points.get(from)?, points.get(to)?);
        (b > a && after >= before).then(|| (after - before) / (b - a) as f64)
    };
    let mut done = Column::missing(rows.steps.len());
    for (at, (row, _, value)) in points.iter().enumerate() {
        let before = || at.checked_sub(1).and_then(|from| rate(from, at));
        if let Some(batch) = rate(at, at + 1).or_else(before) {
            done.set(*row, value + batch);
        }
    }
    *rows.column_mut(slot) = done;
}

/// Moves the values of a column to the row of the step before, where there is one.
fn moved_back(rows: &mut Rows, slot: usize) {
    let mut before = None;
    for row in 1..rows.steps.len() {
        let (last, step) = (rows.steps[row - 1], rows.steps[row]);
        if step != last {
            before = (last.checked_add(1) == Some(step)).then_some(row - 1);
        }
        if let (Some(before), Some(value)) = (before, rows.column(slot).get(row)) {
            let column = rows.column_mut(slot);
            column.clear(row);
            column.set(before, value);
        }
    }
}

/// Drops rows that no batch belongs to: the last before a restart or the end, if it has counters only.
fn drop_idle(rows: &mut Rows) {
    let idle: Vec<usize> = slots(rows, &IDLE);
    let told: Vec<usize> = (0..rows.columns().count())
        .filter(|slot| !idle.contains(slot))
        .collect();
    let ends = |row: usize| rows.steps.get(row + 1).is_none_or(|s| *s < rows.steps[row]);
    let empty = |row: usize| told.iter().all(|s| rows.column(*s).get(row).is_none());
    let keep: Vec<usize> = (0..rows.steps.len())
        .filter(|row| !(ends(*row) && empty(*row)))
        .collect();
    if keep.len() == rows.steps.len() {
        return;
    }
    for slot in 0..rows.columns().count() {
        let column = rows.column_mut(slot);
        *column = column.take(&keep);
    }
    rows.steps = keep.iter().map(|row| rows.steps[*row]).collect();
    for mark in &mut rows.marks {
        mark.row = keep.partition_point(|row| *row < mark.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::wandb;
    use crate::run::EventKind;

    const NO: Option<f64> = None;

    fn rows() -> Rows {
        let mut rows = Rows::default();
        for step in [0, 1, 2, 3, 1, 2] {
            rows.begin(step);
        }
        let columns = [
            (
                "loss/train/total",
                [Some(4.0), Some(3.5), Some(3.0), NO, Some(3.5), Some(3.25)],
            ),
            (
                "l2_norm/grad/global",
                [NO, Some(0.1), Some(0.2), Some(0.3), NO, Some(0.4)],
            ),
            ("metrics/eval/loss", [NO, NO, Some(3.75), NO, NO, NO]),
            (
                "lr-Adam/group0",
                [NO, Some(1.0), Some(2.0), Some(3.0), NO, Some(2.0)],
            ),
            ("time/total", [NO, Some(0.1), NO, Some(0.3), NO, NO]),
            ("_timestamp", [Some(9.0); 6]),
            ("metrics/train/loss", [NO, NO, NO, Some(3.0), NO, NO]),
            (
                "time/sample",
                [
                    Some(0.0),
                    Some(4.0),
                    Some(8.0),
                    Some(16.0),
                    Some(4.0),
                    Some(8.0),
                ],
            ),
        ];
        for (name, values) in columns {
            rows.put(name, Column::from_options(values));
        }
        rows.marks = vec![];
        rows.mark(EventKind::Start, None, None);
        rows.marks[0].row = 4;
        rows
    }

    fn column(rows: &Rows, name: &str) -> Vec<Option<f64>> {
        let column = rows.column(rows.find(name).expect("a column"));
        (0..rows.steps.len()).map(|row| column.get(row)).collect()
    }

    #[test]
    fn norms_join_the_loss_of_their_batch() {
        let mut rows = rows();
        align(&wandb::INGESTER, &mut rows);
        assert_eq!(rows.steps, [0, 1, 2, 1, 2], "a row of counters is none");
        let norm = column(&rows, "l2_norm/grad/global");
        assert_eq!(norm, [Some(0.1), Some(0.2), Some(0.3), Some(0.4), NO]);
        let evaluated = column(&rows, "metrics/eval/loss");
        assert_eq!(evaluated, [NO, Some(3.75), NO, NO, NO]);
        let rate = column(&rows, "lr-Adam/group0");
        assert_eq!(rate, [NO, Some(1.0), Some(2.0), NO, Some(2.0)]);
        let samples = column(&rows, "time/sample");
        assert_eq!(samples, [4.0, 8.0, 16.0, 8.0, 12.0].map(Some));
        let hours = column(&rows, "time/total");
        assert_eq!(hours, [Some(0.1), NO, Some(0.3), NO, NO]);
        assert_eq!(rows.marks[0].row, 3);
    }

    #[test]
    fn the_console_has_them_together_already_and_other_logs_are_left_alone() {
        let mut console = rows();
        align(&composer::INGESTER, &mut console);
        assert_eq!(console.steps.len(), 6);
        let norm = column(&console, "l2_norm/grad/global");
        assert_eq!(norm[..2], [NO, Some(0.1)]);
        assert_eq!(column(&console, "time/sample")[0], Some(4.0));
        let mut other = rows();
        other.put("loss/train/total", Column::default());
        align(&wandb::INGESTER, &mut other);
        assert_eq!(column(&other, "time/sample")[0], Some(0.0));
    }
}
