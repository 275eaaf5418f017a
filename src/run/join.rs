//! Sources that are not pieces one after another: copies, single metrics of one table, and other views of the same run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::run::budget;
use crate::run::builder::milliseconds;
use crate::run::rows::TIME_NAMES;
use crate::run::zip::zip;
use crate::run::{Column, DataLoss, EventKind, Meta, Rows, Run};

/// What was read from one source, or from several that were joined.
#[derive(Debug, Clone, Default)]
pub(super) struct Piece {
    /// The sources, as given.
    pub(super) paths: Vec<String>,
    pub(super) rows: Rows,
}

impl Piece {
    pub(super) fn new(path: &str, rows: Rows) -> Self {
        Self {
            paths: vec![path.to_owned()],
            rows,
        }
    }

    fn has_loss(&self) -> bool {
        self.rows
            .columns()
            .any(|(n, c)| n.ends_with("loss") && c.has_values())
    }

    fn folder(&self) -> PathBuf {
        let path = self.paths.first().map_or("", String::as_str);
        Path::new(path)
            .parent()
            .map_or_else(PathBuf::new, Path::to_owned)
    }

    /// Lowest and highest step.
    fn range(&self) -> Option<(u64, u64)> {
        let steps = &self.rows.steps;
        steps.iter().min().copied().zip(steps.iter().max().copied())
    }

    /// Adds a source that follows.
    fn append(&mut self, next: Self) {
        self.own_losses();
        let mut next = next;
        next.own_losses();
        self.rows.append(next.rows);
        self.paths.extend(next.paths);
    }

    /// Notes the source with each loss of data, before it is joined with others.
    pub(super) fn own_losses(&mut self) {
        let source = self.paths.first().cloned().unwrap_or_default();
        for loss in self
            .rows
            .losses
            .iter_mut()
            .filter(|l: &&mut DataLoss| l.source.is_empty())
        {
            loss.source.clone_from(&source);
        }
    }
}

/// Drops sources whose every row stands in another one too: each checkpoint of the HF Trainer, for one, holds the whole
/// history up to it. A source that differs in a row is an abandoned branch and stays.
pub(super) fn drop_copies(sources: &mut Vec<Piece>) {
    let mut keep = vec![true; sources.len()];
    for a in 0..sources.len() {
        let copied = (0..sources.len()).any(|b| {
            let (mine, theirs) = (&sources[a].rows, &sources[b].rows);
            let shorter = mine.steps.len() < theirs.steps.len()
                || (mine.steps.len() == theirs.steps.len() && a > b);
            a != b && keep[b] && shorter && contained(mine, theirs)
        });
        keep[a] = !copied;
    }
    let mut kept = keep.into_iter();
    sources.retain(|_| kept.next().unwrap_or(true));
}

/// Whether the rows of one source stand in the other too, in the same order. The other may hold the same steps more than
/// once: of the attempts of a run, each may have a log of its own beside the log of all.
fn contained(mine: &Rows, theirs: &Rows) -> bool {
    let columns: Option<Vec<(&Column, &Column)>> = mine
        .columns()
        .map(|(name, column)| Some((column, theirs.column(theirs.find(name)?))))
        .collect();
    let Some(columns) = columns.filter(|_| !mine.steps.is_empty()) else {
        return false;
    };
    let equal = |row: usize, there: usize| {
        let bits = |column: &Column, row: usize| column.get(row).map(f64::to_bits);
        mine.steps[row] == theirs.steps[there]
            && columns.iter().all(|(a, b)| bits(a, row) == bits(b, there))
    };
    let mut free = 0..theirs.steps.len();
    (0..mine.steps.len()).all(|row| free.any(|there| equal(row, there)))
}

/// Joins what was written side by side: different metrics of the same steps, such as one CSV file a metric, and the
/// same ones written by several ranks. What follows one another stays apart: restarts, and pieces of one log.
pub(super) fn side_by_side(sources: Vec<Piece>) -> Vec<Piece> {
    if !sources.iter().enumerate().any(|(at, a)| {
        let others = sources[at + 1..].iter();
        others.map(|b| relation(a, b)).any(|r| r != Relation::None)
    }) {
        return sources;
    }
    let mut lanes = lanes(sources);
    lanes.sort_by_key(|l| (!l.has_loss(), Reverse(l.rows.steps.len())));
    let mut groups: Vec<Vec<Piece>> = Vec::new();
    for lane in lanes {
        match groups
            .iter_mut()
            .find(|g| g.iter().all(|have| relation(have, &lane) != Relation::None))
        {
            Some(group) => group.push(lane),
            None => groups.push(vec![lane]),
        }
    }
    groups.into_iter().map(joined).collect()
}

/// Whether the sources are pieces of which each goes on where another ends, without a hole and without a step back.
pub(super) fn is_chain(sources: &[Piece]) -> bool {
    let pieces = sources
        .iter()
        .map(|p| &p.rows.steps[..])
        .filter(|s| !s.is_empty());
    let mut pieces: Vec<&[u64]> = pieces.collect();
    pieces.sort_by_key(|steps| steps[0]);
    let rising = |steps: &&[u64]| steps.windows(2).all(|w| w[0] <= w[1]);
    let go_on = |w: &[&[u64]]| {
        let (last, first) = (w[0][w[0].len() - 1], w[1][0]);
        let usual = w.iter().filter_map(|steps| usual(steps)).max();
        first > last && usual.is_some_and(|usual| first - last <= usual)
    };
    pieces.iter().all(rising) && pieces.windows(2).all(go_on)
}

/// The usual distance in steps between rows.
fn usual(steps: &[u64]) -> Option<u64> {
    let gaps = steps.windows(2).map(|w| w[1] - w[0]);
    let mut gaps: Vec<u64> = gaps.filter(|g| *g > 0).collect();
    let middle = gaps.len() / 2;
    (!gaps.is_empty()).then(|| *gaps.select_nth_unstable(middle).1)
}

/// Leaves out the metrics with the fewest values where a table of all of them would take far more room than their
/// values: in a run every column is as long as all sources together.
pub(super) fn bound(sources: &mut [Piece]) {
    let rows: usize = sources.iter().map(|p| p.rows.steps.len()).sum();
    let values: usize = sources.iter().map(|p| p.rows.values()).sum();
    let room = budget::cells(values) / rows.max(1);
    let columns = || sources.iter().flat_map(|p| p.rows.columns());
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
    for piece in sources.iter_mut() {
        for name in &gone {
            if let Some(slot) = piece.rows.find(name) {
                piece.rows.empty(slot);
            }
        }
    }
    if let Some(first) = sources.first_mut() {
        first.rows.lose("", left_out(gone.len()));
    }
}

fn left_out(metrics: usize) -> String {
    format!(
        "{metrics} metrics with the fewest values were left out: there are too many for a table"
    )
}

fn joined(mut group: Vec<Piece>) -> Piece {
    if group.len() > 1 {
        return zip(group);
    }
    group.pop().unwrap_or_default()
}

/// How two sources belong together.
#[derive(Debug, PartialEq, Eq)]
enum Relation {
    /// One after the other, or not at all.
    None,
    /// Different metrics of the same steps.
    Metrics,
    /// The same metrics of the same steps, by several ranks.
    Ranks,
}

fn relation(a: &Piece, b: &Piece) -> Relation {
    let (Some(a_steps), Some(b_steps)) = (a.range(), b.range()) else {
        return Relation::None;
    };
    let other_run = matches!((&a.rows.run, &b.rows.run), (Some(x), Some(y)) if x != y);
    if other_run || a_steps.0 > b_steps.1 || b_steps.0 > a_steps.1 {
        return Relation::None;
    }
    let names = |p: &Piece| -> BTreeSet<String> {
        let own = p
            .rows
            .columns()
            .filter(|(n, c)| !is_shared(n) && c.has_values());
        own.map(|(n, _)| n.to_owned()).collect()
    };
    let (a_names, b_names) = (names(a), names(b));
    let common = a_names.intersection(&b_names).count();
    if common == 0 && !a_names.is_empty() && !b_names.is_empty() {
        return Relation::Metrics;
    }
    let alike = 2 * common >= a_names.len().max(b_names.len());
    if alike && (ranks_by_name(&a.paths, &b.paths) || in_step(&a.rows, &b.rows)) {
        return Relation::Ranks;
    }
    Relation::None
}

/// Names that several sources have in common although each tells only of its own rows.
pub(super) fn is_shared(name: &str) -> bool {
    TIME_NAMES.contains(&name) || name == "epoch"
}

/// Whether paths differ in nothing but the number of a rank.
fn ranks_by_name(a: &[String], b: &[String]) -> bool {
    const WORDS: [&str; 5] = ["rank", "replica", "process", "worker", "proc"];
    let (Some(a), Some(b)) = (a.first(), b.first()) else {
        return false;
    };
    let same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let stem = a[..same].trim_end_matches(|c: char| c.is_ascii_digit());
    let (a, b) = (&a[stem.len()..], &b[stem.len()..]);
    let word = stem
        .trim_end_matches(['_', '-', '.', '='])
        .to_ascii_lowercase();
    let (a_digits, b_digits) = (digits(a), digits(b));
    a_digits > 0
        && b_digits > 0
        && a[a_digits..] == b[b_digits..]
        && WORDS.iter().any(|w| word.ends_with(w))
}

/// Whether two sources come to the same steps at the same time, from the first that both have to the last: ranks wait
/// for one another, and other runs drift apart.
pub(crate) fn in_step(a: &Rows, b: &Rows) -> bool {
    const SLACK: f64 = 2_000.0;
    let (Some(a_times), Some(b_times)) = (a.times(), b.times()) else {
        return false;
    };
    let when = |rows: &Rows, times: &Column| -> BTreeMap<u64, f64> {
        let timed = times.present().filter(|(_, t)| t.is_finite());
        timed
            .map(|(row, t)| (rows.steps[row], milliseconds(t)))
            .collect()
    };
    let (a, b) = (when(a, a_times), when(b, b_times));
    let common: Vec<(u64, f64, f64)> = a
        .iter()
        .filter_map(|(s, t)| Some((*s, *t, *b.get(s)?)))
        .collect();
    let (Some(first), Some(last)) = (common.first(), common.last()) else {
        return false;
    };
    let rows_took = (last.1 - first.1) / (common.len() - 1).max(1) as f64;
    let together = |(_, x, y): &(u64, f64, f64)| (x - y).abs() <= SLACK.max(rows_took);
    2 * common.len() >= a.len().min(b.len())
        && common.len() > 1
        && [first, last, &common[common.len() / 2]]
            .into_iter()
            .all(together)
}

/// The files of each folder one after another, where they have metrics in common and their times follow one another:
/// what one writer left behind over its starts.
fn lanes(mut sources: Vec<Piece>) -> Vec<Piece> {
    let start = |p: &Piece| p.rows.span().map_or(f64::INFINITY, |s| s.0);
    sources.sort_by(|a, b| start(a).total_cmp(&start(b)));
    let mut out: Vec<Piece> = Vec::new();
    for source in sources {
        let goes_on = |lane: &&mut Piece| {
            let (Some(before), Some(after)) = (lane.rows.span(), source.rows.span()) else {
                return false;
            };
            let common = source
                .rows
                .columns()
                .any(|(n, _)| !is_shared(n) && lane.rows.find(n).is_some());
            lane.folder() == source.folder()
                && lane.rows.run == source.rows.run
                && common
                && before.1 <= after.0
        };
        match out.iter_mut().find(goes_on) {
            Some(lane) => lane.append(source),
            None => out.push(source),
        }
    }
    out
}

impl Run {
    /// Adds what another view of the same run holds and this one lacks: metrics at the same step of the same attempt,
    /// events of kinds that this one has none of, facts. With another number of attempts only the steps of the newest
    /// count.
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
        if other.attempts.len() == self.attempts.len() {
            let kinds: BTreeSet<EventKind> = self.events.iter().map(|e| e.kind).collect();
            let lacking = other.events.iter().filter(|e| !kinds.contains(&e.kind));
            let lacking = lacking.cloned().map(|mut event| {
                event.step = event.step.and_then(|s| self.meta.step_of(s, &other.meta));
                event
            });
            self.events.extend(lacking.collect::<Vec<_>>());
            self.events.sort_by_key(|e| e.attempt);
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
                let step = other.meta.step_of(self.steps[row], &self.meta);
                let there = step.and_then(|step| other.row_at(theirs, step));
                out[row] = there.filter(|t| Some(other.steps[*t]) == step);
            }
        }
        out
    }
}

impl Meta {
    /// The step here of a step of another view of the same run. Two logs of one framework may count from different
    /// bases; a base that was only seen in the rows is not certain enough to shift them.
    fn step_of(&self, step: u64, other: &Self) -> Option<u64> {
        let known = self.base_known && other.base_known;
        if known || self.framework.is_some() && self.framework == other.framework {
            (step + self.step_base).checked_sub(other.step_base)
        } else {
            Some(step)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::EventKind;

    fn rows(name: &str, steps: &[u64], values: &[f64]) -> Rows {
        let mut rows = Rows::default();
        rows.steps.extend_from_slice(steps);
        rows.put(name, Column::from_values(values.to_vec()));
        rows
    }

    fn piece(path: &str, metrics: &[(&str, &[f64])], steps: &[u64]) -> Piece {
        let mut all = Rows::default();
        all.steps.extend_from_slice(steps);
        for (name, values) in metrics {
            all.put(name, Column::from_values(values.to_vec()));
        }
        Piece::new(path, all)
    }

    fn values(piece: &Piece, name: &str) -> Vec<Option<f64>> {
        let slot = piece.rows.find(name).expect("a column");
        let column = piece.rows.column(slot);
        (0..piece.rows.steps.len()).map(|r| column.get(r)).collect()
    }

    #[test]
    fn a_longer_history_makes_a_shorter_copy_needless_but_not_a_branch() {
        let mut sources = vec![
            Piece::new("a", rows("loss", &[1, 2], &[3.0, 2.0])),
            Piece::new("b", rows("loss", &[1, 2, 3], &[3.0, 2.0, 1.0])),
            Piece::new("c", rows("loss", &[1, 2], &[3.0, 2.5])),
        ];
        drop_copies(&mut sources);
        let names: Vec<&str> = sources.iter().map(|p| p.paths[0].as_str()).collect();
        assert_eq!(names, ["b", "c"]);
    }

    #[test]
    fn pieces_that_go_on_are_told_from_restarts_and_holes() {
        let chain = |pieces: &[&[u64]]| {
            let rows =
                |steps: &&[u64]| Piece::new("", rows("loss", steps, &vec![1.0; steps.len()]));
            is_chain(&pieces.iter().map(rows).collect::<Vec<_>>())
        };
        assert!(chain(&[&[30, 40], &[1, 10, 20], &[]]));
        assert!(
            !chain(&[&[1, 10, 20], &[20, 30]]),
            "a step that is done again"
        );
        assert!(!chain(&[&[1, 2, 3], &[100, 101]]), "a hole");
        assert!(!chain(&[&[1, 2, 1, 2], &[3, 4]]), "a restart within");
    }

    fn run_of(rows: Rows, base: u64) -> Run {
        let aliases = crate::signal::Aliases::built_in();
        let options = crate::run::BuildOptions {
            step_base: Some(base),
            ..crate::run::BuildOptions::default()
        };
        let mut builder = crate::run::RunBuilder::new(&aliases, options);
        builder.add("x", rows);
        builder.finish().expect("rows")
    }

    #[test]
    fn a_view_that_counts_from_0_meets_one_that_counts_from_1() {
        let mut console = run_of(rows("loss", &[1, 2, 3], &[3.0, 2.0, 1.0]), 1);
        let mut file = rows("lr", &[0, 1, 2], &[0.1, 0.2, 0.3]);
        file.mark(crate::run::EventKind::Saved, Some(1), None);
        console.enrich(&run_of(file, 0));
        let rates = console.column("learning_rate").map(|c| c.raw().to_vec());
        assert_eq!(rates, Some(vec![0.1, 0.2, 0.3]));
        assert_eq!(console.events[0].step, Some(2));
    }

    #[test]
    fn the_log_of_one_attempt_is_a_copy_of_its_part_of_the_log_of_all() {
        let (steps, losses) = ([1, 2, 3, 2, 3], [3.0, 2.0, 1.0, 2.5, 1.5]);
        let mut sources = vec![
            Piece::new("all", rows("loss", &steps, &losses)),
            Piece::new("first", rows("loss", &steps[..3], &losses[..3])),
            Piece::new("second", rows("loss", &steps[3..], &losses[3..])),
            Piece::new("other", rows("loss", &[2, 3], &[2.5, 1.0])),
        ];
        drop_copies(&mut sources);
        let names: Vec<&str> = sources.iter().map(|p| p.paths[0].as_str()).collect();
        assert_eq!(names, ["all", "other"]);
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
            Piece::new("a", rows("loss", &steps, &losses)),
            Piece::new("b", names),
        ];
        bound(&mut sources);
        let kept = |r: &Rows| r.columns().filter(|(_, c)| c.has_values()).count();
        // (16 Mi + 64 * 102 001) / 100 001 columns.
        assert_eq!((kept(&sources[0].rows), kept(&sources[1].rows)), (1, 233));
        let what =
            "1768 metrics with the fewest values were left out: there are too many for a table";
        assert_eq!(sources[0].rows.losses[0].what, what);
        bound(&mut sources[..1]);
        assert_eq!(sources[0].rows.losses.len(), 1, "once");
    }

    #[test]
    fn one_file_a_metric_is_one_table() {
        let sources = vec![
            Piece::new("lr", rows("lr", &[10, 30], &[0.1, 0.3])),
            Piece::new("loss", rows("train_loss", &[10, 20, 30], &[3.0, 2.0, 1.0])),
        ];
        let sources = side_by_side(sources);
        assert_eq!(sources.len(), 1);
        assert_eq!(values(&sources[0], "lr"), [Some(0.1), None, Some(0.3)]);
        assert_eq!(sources[0].paths, ["loss", "lr"]);
    }

    /// Four files of a metric each, three starts: one metric has all of them, one was logged from the second on, one
    /// until the second, one has too few rows to show any.
    #[test]
    fn files_whose_restarts_differ_are_joined() {
        let all = [10, 20, 30, 40, 30, 40, 50, 60, 40, 50, 60, 70];
        let count: Vec<f64> = (0..12_u8).map(f64::from).collect();
        let sources = vec![
            Piece::new("late", rows("scale", &all[4..], &count[4..])),
            Piece::new("loss", rows("train_loss", &all, &count)),
            Piece::new("early", rows("norm", &all[..8], &count[..8])),
            Piece::new("rare", rows("val", &[20, 60, 70], &[2.0, 20.0, 11.0])),
        ];
        let sources = side_by_side(sources);
        assert_eq!(sources.len(), 1);
        let joined = &sources[0];
        assert_eq!(joined.rows.steps, all);
        let some = |from: usize, to: usize| -> Vec<Option<f64>> {
            (0..12)
                .map(|at| (from..to).contains(&at).then_some(at as f64))
                .collect()
        };
        assert_eq!(values(joined, "train_loss"), some(0, 12));
        assert_eq!(values(joined, "scale"), some(4, 12));
        assert_eq!(values(joined, "norm"), some(0, 8));
        assert_eq!(values(joined, "val").iter().flatten().count(), 3);
        assert_eq!(values(joined, "val")[11], Some(11.0));
        assert!(joined.rows.losses.is_empty());
    }

    #[test]
    fn a_start_that_only_a_lesser_file_has_is_kept() {
        let sources = vec![
            Piece::new(
                "loss",
                rows("train_loss", &[30, 40, 50, 60], &[3.0, 2.0, 2.0, 1.0]),
            ),
            Piece::new(
                "lr",
                rows(
                    "lr",
                    &[10, 20, 30, 40, 30, 40],
                    &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
                ),
            ),
        ];
        let sources = side_by_side(sources);
        assert_eq!(sources[0].rows.steps, [10, 20, 30, 40, 30, 40, 50, 60]);
        assert_eq!(
            values(&sources[0], "train_loss")[4..6],
            [Some(3.0), Some(2.0)]
        );
        assert_eq!(
            values(&sources[0], "lr")[3..6],
            [Some(4.0), Some(5.0), Some(6.0)]
        );
    }

    #[test]
    fn ranks_are_one_and_other_runs_are_not() {
        let steps: Vec<u64> = (1..=200).collect();
        let timed = |path: &str, pace: f64, loss: f64| {
            let times: Vec<f64> = steps.iter().map(|s| 1.7e12 + *s as f64 * pace).collect();
            let losses = vec![loss; steps.len()];
            piece(path, &[("time", &times), ("loss", &losses)], &steps)
        };
        let ranks = side_by_side(vec![timed("a", 500.0, 2.0), timed("b", 500.5, 2.0)]);
        assert_eq!((ranks.len(), ranks[0].rows.steps.len()), (1, 200));
        assert!(ranks[0].rows.losses.is_empty());
        let unreduced = side_by_side(vec![timed("a", 500.0, 2.0), timed("b", 500.5, 2.5)]);
        assert_eq!(
            unreduced[0].rows.losses[0].what,
            "200 values are others than those of a at the same step, which were kept"
        );
        assert_eq!(unreduced[0].rows.losses[0].source, "b");
        let sweep = side_by_side(vec![timed("a", 500.0, 2.0), timed("b", 550.0, 2.5)]);
        assert_eq!(sweep.len(), 2, "they drift apart");
        let named =
            |path: &str| Piece::new(path, rows("loss", &[1, 2], &[3.0, 2.0 + path.len() as f64]));
        assert_eq!(
            side_by_side(vec![named("x/rank_0/log"), named("x/rank_11/log")]).len(),
            1
        );
        assert_eq!(
            side_by_side(vec![named("x/seed_0/log"), named("x/seed_11/log")]).len(),
            2
        );
    }

    /// Validation beside training, over a restart, each in files of its own.
    #[test]
    fn files_of_two_folders_are_joined_start_by_start() {
        let part = |path: &str, name: &str, steps: &[u64], from: f64| {
            let times: Vec<f64> = (0..steps.len())
                .map(|i| 1.7e12 + from + i as f64 * 1000.0)
                .collect();
            let losses: Vec<f64> = steps.iter().map(|s| from + *s as f64).collect();
            let mut piece = piece(path, &[("time", &times), (name, &losses)], steps);
            piece.rows.mark(EventKind::Start, None, None);
            piece.rows.marks[0].row = 0;
            piece
        };
        let sources = side_by_side(vec![
            part("v/2", "val", &[30, 50], 100_500.0),
            part("t/1", "loss", &[10, 20, 30, 40], 0.0),
            part("v/1", "val", &[10, 30], 500.0),
            part("t/2", "loss", &[30, 40, 50], 100_000.0),
        ]);
        assert_eq!(sources.len(), 1);
        let joined = &sources[0];
        assert_eq!(joined.rows.steps, [10, 20, 30, 40, 30, 40, 50]);
        let val: Vec<Option<f64>> = values(joined, "val");
        assert_eq!(
            val,
            [
                Some(510.0),
                None,
                Some(530.0),
                None,
                Some(100_530.0),
                None,
                Some(100_550.0)
            ]
        );
        let starts: Vec<usize> = joined.rows.marks.iter().map(|m| m.row).collect();
        assert_eq!(starts, [0, 4]);
    }
}
