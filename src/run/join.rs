//! Sources that are not pieces one after another: copies, single metrics of one table, and other views of the same run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use crate::run::budget;
use crate::run::{Column, DataLoss, Rows, Run};

/// Drops sources whose every row stands in another one too: each checkpoint of the HF Trainer, for one, holds the whole
/// history up to it. A source that differs in a row is an abandoned branch and stays.
pub(super) fn drop_copies(sources: &mut Vec<(String, Rows)>) {
    let mut keep = vec![true; sources.len()];
    for a in 0..sources.len() {
        let copied = (0..sources.len()).any(|b| {
            let (mine, theirs) = (&sources[a].1, &sources[b].1);
            let shorter = mine.steps.len() < theirs.steps.len()
                || (mine.steps.len() == theirs.steps.len() && a > b);
            a != b && keep[b] && shorter && contained(mine, theirs)
        });
        keep[a] = !copied;
    }
    let mut kept = keep.into_iter();
    sources.retain(|_| kept.next().unwrap_or(true));
}

fn contained(mine: &Rows, theirs: &Rows) -> bool {
    let Some(first) = mine.steps.first() else {
        return false;
    };
    let same_columns = mine.columns().all(|(name, _)| theirs.find(name).is_some());
    if !same_columns || !theirs.steps.contains(first) {
        return false;
    }
    let at: HashMap<u64, usize> = theirs
        .steps
        .iter()
        .enumerate()
        .map(|(i, s)| (*s, i))
        .collect();
    let equal = |row: usize, step: &u64| {
        let there = at.get(step)?;
        mine.columns()
            .all(|(name, column)| {
                let other = theirs
                    .find(name)
                    .and_then(|slot| theirs.column(slot).get(*there));
                column.get(row).map(f64::to_bits) == other.map(f64::to_bits)
            })
            .then_some(())
    };
    mine.steps
        .iter()
        .enumerate()
        .all(|(row, step)| equal(row, step).is_some())
}

/// Joins sources that hold different metrics of the same steps, such as one CSV file a metric, into one. Steps must
/// go back equally often in all of them.
pub(super) fn zip_metrics(sources: &mut Vec<(String, Rows)>) {
    let mut out: Vec<(String, Rows)> = Vec::new();
    for (name, rows) in std::mem::take(sources) {
        match out.iter_mut().find(|(_, have)| complements(have, &rows)) {
            Some((_, have)) => *have = zip(have, &rows),
            None => out.push((name, rows)),
        }
    }
    *sources = out;
}

/// Leaves out the metrics with the fewest values where a table of all of them would take far more room than their
/// values: in a run every column is as long as all sources together.
pub(super) fn bound(sources: &mut [(String, Rows)]) {
    let rows: usize = sources.iter().map(|(_, r)| r.steps.len()).sum();
    let values: usize = sources.iter().map(|(_, r)| r.values()).sum();
    let room = budget::cells(values) / rows.max(1);
    let columns = || sources.iter().flat_map(|(_, r)| r.columns());
    let mut counts: BTreeMap<&str, usize> = columns().map(|(name, _)| (name, 0)).collect();
    if counts.len() <= room {
        return;
    }
    for (name, column) in columns() {
        *counts.entry(name).or_default() += column.iter().flatten().count();
    }
    let mut rarest: Vec<(usize, &str)> = counts.into_iter().map(|(n, c)| (c, n)).collect();
    rarest.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.cmp(y)));
    let gone: BTreeSet<String> = rarest[room..]
        .iter()
        .map(|(_, n)| (*n).to_owned())
        .collect();
    for (_, rows) in sources.iter_mut() {
        for name in &gone {
            if let Some(slot) = rows.find(name) {
                rows.empty(slot);
            }
        }
    }
    if let Some((_, first)) = sources.first_mut() {
        first.lose("", left_out(gone.len()));
    }
}

fn left_out(metrics: usize) -> String {
    format!(
        "{metrics} metrics with the fewest values were left out: there are too many for a table"
    )
}

fn complements(a: &Rows, b: &Rows) -> bool {
    let names: BTreeSet<&str> = a.columns().map(|(n, _)| n).collect();
    let disjoint = b.columns().all(|(n, _)| !names.contains(n));
    let overlap = match (
        a.steps.first(),
        a.steps.last(),
        b.steps.first(),
        b.steps.last(),
    ) {
        (Some(a0), Some(a1), Some(b0), Some(b1)) => a0 <= b1 && b0 <= a1,
        _ => false,
    };
    disjoint && overlap && segments(&a.steps).len() == segments(&b.steps).len()
}

/// Stretches over which the step rises: one a start of the trainer.
fn segments(steps: &[u64]) -> Vec<Range<usize>> {
    let mut starts: Vec<usize> = (1..steps.len())
        .filter(|i| steps[*i] <= steps[i - 1])
        .collect();
    starts.insert(0, 0);
    let ends = starts.iter().skip(1).copied().chain([steps.len()]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(a, b)| a..b)
        .collect()
}

/// Both sources' metrics at every step that either has, stretch by stretch.
fn zip(a: &Rows, b: &Rows) -> Rows {
    let mut out = Rows::default();
    let mut places: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    for (mine, theirs) in segments(&a.steps).into_iter().zip(segments(&b.steps)) {
        let parts = [&a.steps[mine], &b.steps[theirs]];
        let steps: BTreeSet<u64> = parts.iter().flat_map(|p| p.iter().copied()).collect();
        let first = out.steps.len();
        out.steps.extend(steps);
        for (part, places) in parts.iter().zip(&mut places) {
            let at = |s: &u64| first + out.steps[first..].partition_point(|o| o < s);
            places.extend(part.iter().map(at));
        }
    }
    for (part, places) in [a, b].into_iter().zip(&places) {
        for (name, column) in part.columns() {
            let slot = out.slot(name);
            for (row, place) in places.iter().enumerate() {
                if let Some(value) = column.get(row) {
                    out.set_at(slot, *place, value);
                }
            }
        }
        out.take_over(part);
        out.facts.extend(part.facts.clone());
    }
    out
}

impl Run {
    /// Adds what another view of the same run holds and this one lacks: metrics at the same step of the same attempt,
    /// events if this one has none, facts. With another number of attempts only the steps of the newest count.
    pub fn enrich(&mut self, other: &Self) {
        let rows = self.matching_rows(other);
        let mut lacking: Vec<&str> = other
            .columns()
            .map(|(n, _)| n)
            .filter(|n| self.column(n).is_none())
            .collect();
        let room = budget::cells(other.len() * lacking.len()) / self.len().max(1);
        if lacking.len() > room {
            let source = other.meta.sources.first().map_or("", String::as_str);
            let what = left_out(lacking.len() - room);
            self.losses.push(DataLoss::new(source, "", &what));
            lacking.truncate(room);
        }
        for name in lacking {
            let Some(column) = other.column(name) else {
                continue;
            };
            let mut mine = Column::missing(self.len());
            for (row, there) in rows.iter().enumerate() {
                if let Some(value) = there.and_then(|t| column.get(t)) {
                    mine.set(row, value);
                }
            }
            self.insert(name, mine);
        }
        if self.events.is_empty() && other.attempts.len() == self.attempts.len() {
            self.events.clone_from(&other.events);
        }
        for (key, value) in &other.meta.facts {
            self.meta
                .facts
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
        self.meta.sources.extend(other.meta.sources.iter().cloned());
        self.losses.extend(other.losses.iter().cloned());
    }

    fn matching_rows(&self, other: &Self) -> Vec<Option<usize>> {
        let same = self.attempts.len() == other.attempts.len();
        let mut out = vec![None; self.len()];
        for attempt in &self.attempts {
            let theirs = if same {
                other.attempts.get(attempt.index as usize)
            } else {
                other.attempts.last()
            };
            let Some(theirs) =
                theirs.filter(|_| same || attempt.index + 1 == self.attempts.len() as u32)
            else {
                continue;
            };
            for row in attempt.rows.clone() {
                let there = other.row_at(theirs, self.steps[row]);
                out[row] = there.filter(|t| other.steps[*t] == self.steps[row]);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(name: &str, steps: &[u64], values: &[f64]) -> Rows {
        let mut rows = Rows::default();
        rows.steps.extend_from_slice(steps);
        rows.put(name, Column::from_values(values.to_vec()));
        rows
    }

    #[test]
    fn a_longer_history_makes_a_shorter_copy_needless_but_not_a_branch() {
        let mut sources = vec![
            ("a".to_owned(), rows("loss", &[1, 2], &[3.0, 2.0])),
            ("b".to_owned(), rows("loss", &[1, 2, 3], &[3.0, 2.0, 1.0])),
            ("c".to_owned(), rows("loss", &[1, 2], &[3.0, 2.5])),
        ];
        drop_copies(&mut sources);
        let names: Vec<&str> = sources.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
    }

    #[test]
    fn a_run_has_no_more_columns_than_its_values_are_worth() {
        // Names that one row of one source has would be as long as all sources together.
        let mut names = Rows::default();
        names.begin(9_000_000);
        for n in 0..2000 {
            let slot = names.slot(&format!("m{n:04}"));
            names.set(slot, 1.0);
        }
        let slot = names.slot("loss");
        names.set(slot, 2.0);
        let steps: Vec<u64> = (0..100_000).collect();
        let losses = vec![2.0; 100_000];
        let mut sources = vec![
            ("a".to_owned(), rows("loss", &steps, &losses)),
            ("b".to_owned(), names),
        ];
        bound(&mut sources);
        let kept = |r: &Rows| r.columns().filter(|(_, c)| c.has_values()).count();
        // (16 Mi + 64 * 102 001) / 100 001 columns.
        assert_eq!((kept(&sources[0].1), kept(&sources[1].1)), (1, 233));
        let what =
            "1768 metrics with the fewest values were left out: there are too many for a table";
        assert_eq!(sources[0].1.losses[0].what, what);
        bound(&mut sources[..1]);
        assert_eq!(sources[0].1.losses.len(), 1, "once");
    }

    #[test]
    fn one_file_a_metric_is_one_table() {
        let mut sources = vec![
            (
                "loss".to_owned(),
                rows("train_loss", &[10, 20, 30], &[3.0, 2.0, 1.0]),
            ),
            ("lr".to_owned(), rows("lr", &[10, 30], &[0.1, 0.3])),
        ];
        zip_metrics(&mut sources);
        assert_eq!(sources.len(), 1);
        let lr = sources[0].1.find("lr").unwrap();
        let values: Vec<Option<f64>> = sources[0].1.column(lr).iter().collect();
        assert_eq!(values, vec![Some(0.1), None, Some(0.3)]);
    }

    #[test]
    fn a_restart_stands_in_every_file_of_a_metric() {
        let mut sources = vec![
            (
                "loss".to_owned(),
                rows("train_loss", &[10, 20, 10, 20], &[3.0, 2.0, 3.0, 2.5]),
            ),
            ("lr".to_owned(), rows("lr", &[10, 20, 10], &[0.1, 0.2, 0.3])),
        ];
        zip_metrics(&mut sources);
        assert_eq!(sources[0].1.steps, vec![10, 20, 10, 20]);
    }
}
