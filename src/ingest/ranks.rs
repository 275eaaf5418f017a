//! Tells restarts from repeats in logs into which several ranks print the same steps.

use std::collections::BTreeSet;

use crate::run::EventKind;
use crate::run::Rows;

/// The most steps that one rank may be ahead of another when it prints.
const AHEAD: usize = 2;
/// Rows that are searched for the step of another rank's row.
const APART: usize = 64;
/// The most rows that several ranks may print between their words on one event.
const MOST_BETWEEN: usize = 512;

/// Settles the marks of such a log: gives those without a step that of the row before them, drops what several ranks
/// tell again, and marks the restarts that no line tells.
pub(super) fn settle(rows: &mut Rows, loss: &str) {
    date(rows);
    once(rows);
    restarts(rows, loss);
    rows.marks.sort_by_key(|m| m.row);
}

/// Gives saves without a step that of the last row before them.
pub(super) fn date(rows: &mut Rows) {
    let steps = &rows.steps;
    for mark in &mut rows.marks {
        let before = mark.row.checked_sub(1).and_then(|r| steps.get(r));
        let dated = matches!(mark.kind, EventKind::SaveStarted | EventKind::Saved);
        if dated && mark.step.is_none() {
            mark.step = before.copied();
        }
    }
}

/// Drops marks that another rank, or another file of the same checkpoint, told already.
pub(super) fn once(rows: &mut Rows) {
    let mut last: Vec<(EventKind, Option<u64>, usize)> = Vec::new();
    let steps = &rows.steps;
    rows.marks.retain(|m| {
        let near = |from: usize| is_near(steps.get(from..m.row).unwrap_or_default());
        let told = matches!(
            m.kind,
            EventKind::Start
                | EventKind::Loaded
                | EventKind::SaveStarted
                | EventKind::Saved
                | EventKind::Exit
                | EventKind::NanInferred
        );
        let before = last.iter_mut().find(|(kind, ..)| *kind == m.kind);
        match before {
            _ if !told => true,
            Some((_, step, row)) if *step == m.step && near(*row) => false,
            Some((_, step, row)) => {
                (*step, *row) = (m.step, m.row);
                true
            }
            None => {
                last.push((m.kind, m.step, m.row));
                true
            }
        }
    });
}

/// The row of a step among the last before a row: ranks are never further apart than that.
pub(super) fn known(steps: &[u64], row: usize, first: usize, step: u64) -> Option<usize> {
    let from = row.saturating_sub(APART).max(first);
    let steps = steps.get(from..row)?;
    steps.iter().rposition(|s| *s == step).map(|at| from + at)
}

/// Gives the first row of a step what the rows that repeat it say: what is printed last counts.
pub(super) fn last_of_step(rows: &mut Rows) {
    let starts = |kind| matches!(kind, EventKind::Start | EventKind::Loaded);
    let mut starts = rows
        .marks
        .iter()
        .filter(|m| starts(m.kind))
        .map(|m| m.row)
        .peekable();
    let (mut first, mut repeats) = (0, Vec::new());
    for row in 0..rows.steps.len() {
        while let Some(start) = starts.next_if(|s| *s <= row) {
            first = start;
        }
        repeats.extend(known(&rows.steps, row, first, rows.steps[row]).map(|known| (known, row)));
    }
    let columns = rows.columns().count();
    // A step may be repeated more than once: the last repeat must come to its first row.
    for (known, row) in repeats.into_iter().rev() {
        for slot in 0..columns {
            if let Some(value) = rows.column(slot).get(row) {
                rows.column_mut(slot).set(known, value);
            }
        }
    }
}

/// Whether no more than a few different steps lie between two lines.
fn is_near(between: &[u64]) -> bool {
    let mut seen = [None; AHEAD];
    between.len() <= MOST_BETWEEN
        && between.iter().all(|step| {
            let place = seen.iter_mut().find(|s| s.is_none_or(|s| s == *step));
            place.map(|s| *s = Some(*step)).is_some()
        })
}

/// A step that is printed again with another loss was done again: ranks print what they have averaged together.
fn restarts(rows: &mut Rows, loss: &str) {
    let Some(loss) = rows.find(loss) else {
        return;
    };
    let column = rows.column(loss);
    let told: BTreeSet<usize> = rows
        .marks
        .iter()
        .filter(|m| matches!(m.kind, EventKind::Start | EventKind::Loaded))
        .map(|m| m.row)
        .collect();
    let mut attempt: Vec<(u64, usize)> = Vec::new();
    let mut found = Vec::new();
    for (row, step) in rows.steps.iter().copied().enumerate() {
        if !told.is_empty() && told.contains(&row) {
            attempt.clear();
        }
        if attempt.last().is_none_or(|(last, _)| step > *last) {
            attempt.push((step, row));
            continue;
        }
        let again = attempt.binary_search_by_key(&step, |(s, _)| *s).ok();
        let differs = again.is_some_and(|at| {
            let (a, b) = (column.get(attempt[at].1), column.get(row));
            matches!((a, b), (Some(a), Some(b)) if a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan()))
        });
        if differs {
            found.push(row);
        }
        if differs || again.is_none() {
            attempt.clear();
            attempt.push((step, row));
        }
    }
    note(rows, &found);
}

/// Ranks that print losses of their own differ all the time; a trainer that starts again does so now and then.
fn note(rows: &mut Rows, found: &[usize]) {
    if found.len() > 3 + rows.steps.len() / 16 {
        let what = format!(
            "{} rows repeat a step with another loss, as if every rank printed its own; the first was kept",
            found.len()
        );
        rows.lose("", what);
        return;
    }
    for row in found {
        rows.mark(EventKind::Start, None, None);
        if let Some(mark) = rows.marks.last_mut() {
            mark.row = *row;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(steps: &[u64], losses: &[f64]) -> Rows {
        let mut rows = Rows::default();
        let slot = rows.slot("loss");
        for (step, loss) in steps.iter().zip(losses) {
            rows.begin(*step);
            rows.set(slot, *loss);
        }
        rows
    }

    fn starts(rows: &Rows) -> Vec<usize> {
        let starts = rows.marks.iter().filter(|m| m.kind == EventKind::Start);
        starts.map(|m| m.row).collect()
    }

    #[test]
    fn a_repeat_with_another_loss_is_a_restart() {
        let mut same = rows(&[1, 1, 2, 1, 2, 3], &[9.0, 9.0, 8.0, 9.0, 8.0, 7.0]);
        settle(&mut same, "loss");
        assert!(starts(&same).is_empty());
        let mut other = rows(&[1, 2, 3, 2, 2, 3], &[9.0, 8.0, 7.0, 8.5, 8.5, 7.5]);
        settle(&mut other, "loss");
        assert_eq!(starts(&other), [3]);
    }

    #[test]
    fn ranks_with_losses_of_their_own_are_no_restarts() {
        let steps: Vec<u64> = (0..40).flat_map(|s| [s, s]).collect();
        let losses: Vec<f64> = (0..80).map(f64::from).collect();
        let mut rows = rows(&steps, &losses);
        settle(&mut rows, "loss");
        assert!(starts(&rows).is_empty());
        assert_eq!(rows.losses.len(), 1);
    }

    #[test]
    fn several_ranks_tell_one_start() {
        let mut r = rows(&[1001], &[9.0]);
        for _ in 0..3 {
            r.mark(EventKind::Start, Some(1001), None);
            r.mark(EventKind::Saved, None, None);
        }
        let slot = r.slot("loss");
        for step in 1002..1020 {
            r.begin(step);
            r.set(slot, 8.0);
        }
        r.mark(EventKind::Start, Some(1001), None);
        settle(&mut r, "loss");
        assert_eq!(starts(&r), [1, 19]);
        assert_eq!(r.marks.len(), 3);
        assert_eq!(r.marks[1].step, Some(1001));
    }
}
