//! Turns the rows of one or more sources into a run: names into signals, rows into attempts.

use std::collections::BTreeMap;

use crate::run::join::{self, Piece};
use crate::run::printable;
use crate::run::renames;
use crate::run::rows::Mark;
use crate::run::sentinel;
use crate::run::streams;
use crate::run::{Attempt, Began, Column, DataLoss, Event, EventKind, Meta, Rows, Run};
use crate::signal::{Aliases, Meaning, Resolver};

/// What the format says about its numbers.
#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// Format name.
    pub format: String,
    /// Framework that writes the format, if it is one framework's.
    pub framework: Option<String>,
    /// Step base if the format or the user fixes it.
    pub step_base: Option<u64>,
    /// Whether values are means since the row before.
    pub averaged: bool,
    /// Whether several ranks print the same step.
    pub interleaved: bool,
}

/// No row with a step was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no row with a training step was found")]
pub struct NoRows;

/// Collects the rows of the sources of one run.
#[derive(Debug)]
pub struct RunBuilder<'a> {
    aliases: &'a Aliases,
    options: BuildOptions,
    sources: Vec<Piece>,
}

impl<'a> RunBuilder<'a> {
    /// A builder for one run.
    pub fn new(aliases: &'a Aliases, options: BuildOptions) -> Self {
        Self {
            aliases,
            options,
            sources: Vec::new(),
        }
    }

    /// Adds what was read from one source.
    pub fn add(&mut self, source: &str, rows: Rows) {
        self.sources.push(Piece::new(source, rows));
    }

    /// Sorts the rows into attempts.
    pub fn finish(mut self) -> Result<Run, NoRows> {
        join::drop_copies(&mut self.sources);
        let (loose, sources) = self
            .sources
            .into_iter()
            .partition(|p| p.rows.steps.is_empty());
        let mut sources = join::side_by_side(sources);
        order_sources(&mut sources);
        join::bound(&mut sources);
        let mut resolver = Resolver::new(self.aliases);
        let mut joined = Joined::default();
        for mut source in sources {
            if !self.options.interleaved {
                streams::part(&mut source.rows);
            }
            renames::join(&mut source.rows, &mut resolver);
            joined.add(source, &mut resolver);
        }
        if joined.steps.is_empty() {
            return Err(NoRows);
        }
        let layout = Layout::of(&mut joined, self.options.interleaved);
        let mut run = assemble(joined, &layout, &self.options);
        let loose: Vec<Piece> = loose;
        for piece in loose {
            add_loose(&mut run, piece);
        }
        Ok(run)
    }
}

fn shown(text: &str) -> String {
    printable(text).into_owned()
}

/// Adds the events of a source without rows, such as the log of a rank that only saves checkpoints: its n-th start is
/// that of the n-th attempt.
fn add_loose(run: &mut Run, mut piece: Piece) {
    piece.own_losses();
    let Piece { paths, mut rows } = piece;
    rows.tell();
    let last = run.attempts.len().saturating_sub(1);
    let (mut attempt, mut starting, mut any) = (0, false, false);
    for mark in rows.marks {
        let start = matches!(mark.kind, EventKind::Start | EventKind::Loaded);
        if start && !starting && any {
            attempt = (attempt + 1).min(last);
        }
        (starting, any) = (start, true);
        let event = Event {
            attempt: u32::try_from(attempt).unwrap_or(u32::MAX),
            step: mark.step,
            kind: mark.kind,
            path: mark.path.as_deref().map(shown),
        };
        // Another file may tell it too, with or without the path.
        let mut told = run.events.iter_mut();
        let told = told.find(|e| {
            e.step.is_some()
                && (e.attempt, e.kind, e.step) == (event.attempt, event.kind, event.step)
        });
        match told {
            Some(told) => told.path = told.path.take().or(event.path),
            None => run.events.push(event),
        }
    }
    run.events.sort_by_key(|e| e.attempt);
    for (key, value) in rows.facts {
        run.meta
            .facts
            .entry(shown(&key))
            .or_insert_with(|| shown(&value));
    }
    run.losses.extend(rows.losses);
    run.meta.sources.extend(paths);
}

/// Sources in order of their content: by first step where each goes on where another ends, by first time otherwise.
/// Clocks and time zones of hosts differ.
fn order_sources(sources: &mut [Piece]) {
    let first_time = |rows: &Rows| {
        let mut times = rows.times()?.present();
        times
            .find(|(_, t)| t.is_finite())
            .map(|(_, t)| milliseconds(t))
    };
    let timed = sources.iter().all(|p| first_time(&p.rows).is_some()) && !join::is_chain(sources);
    sources.sort_by(|a_piece, b_piece| {
        let (a, b) = (&a_piece.rows, &b_piece.rows);
        let by_time = if timed {
            first_time(a).partial_cmp(&first_time(b))
        } else {
            None
        };
        let by_step = || a.steps.first().cmp(&b.steps.first());
        by_time
            .filter(|o| o.is_ne())
            .unwrap_or_else(by_step)
            .then_with(|| a_piece.paths.cmp(&b_piece.paths))
    });
}

/// A wall time in whatever unit it was logged, in milliseconds since 1970.
pub(super) fn milliseconds(t: f64) -> f64 {
    match t.abs() {
        a if a >= 1e17 => t / 1e6,
        a if a >= 1e14 => t / 1e3,
        a if a >= 1e11 => t,
        _ => t * 1e3,
    }
    .round()
}

/// The sources one after another, columns under canonical names.
#[derive(Default)]
struct Joined {
    steps: Vec<u64>,
    columns: BTreeMap<String, Column>,
    marks: Vec<Mark>,
    losses: Vec<DataLoss>,
    facts: BTreeMap<String, String>,
    sources: Vec<String>,
    attempt: Option<Column>,
    interval: Option<Column>,
}

impl Joined {
    fn add(&mut self, mut piece: Piece, resolver: &mut Resolver<'_>) {
        piece.own_losses();
        let Piece { paths, mut rows } = piece;
        let source = paths.first().map_or("", String::as_str);
        let before = self.steps.len();
        rows.tell();
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        for (raw, column) in rows.take_columns() {
            if !column.has_values() {
                continue;
            }
            let raw = printable(&raw);
            let (name, scale) = match resolver.meaning(&raw) {
                Meaning::Drop | Meaning::Step => continue,
                Meaning::Attempt => {
                    add_counter(&mut self.attempt, before, column);
                    continue;
                }
                Meaning::Interval => {
                    add_counter(&mut self.interval, before, column);
                    continue;
                }
                Meaning::Signal { name, scale } => (name, scale),
                Meaning::Other => (raw.clone().into_owned(), 1.0),
            };
            let name = self.untaken(name, &raw, source, &taken);
            append(
                self.columns.entry(name.clone()).or_default(),
                before,
                column,
                scale,
            );
            taken.insert(name, raw.into_owned());
        }
        self.steps.append(&mut rows.steps);
        self.marks.extend(rows.marks.into_iter().map(|m| Mark {
            row: m.row + before,
            ..m
        }));
        self.losses.append(&mut rows.losses);
        for (key, value) in rows.facts {
            self.facts.entry(key).or_insert(value);
        }
        self.sources.extend(paths);
    }

    /// The name under which a column is kept: its own, unless another column of the source stands for it already.
    fn untaken(
        &mut self,
        name: String,
        raw: &str,
        source: &str,
        taken: &BTreeMap<String, String>,
    ) -> String {
        let Some(first) = taken.get(&name) else {
            return name;
        };
        let what = format!("`{first}` already stands for {name}; kept under its own name");
        self.losses
            .push(DataLoss::new(source, &format!("column `{raw}`"), &what));
        let mut other = format!("{name} ({raw})");
        while taken.contains_key(&other) {
            other.push('\'');
        }
        other
    }

    fn value(&self, name: &str, row: usize) -> Option<f64> {
        self.columns.get(name).and_then(|c| c.get(row))
    }
}

/// Adds a column that counts attempts or intervals. Of several in one source the first counts.
fn add_counter(to: &mut Option<Column>, before: usize, column: Column) {
    let to = to.get_or_insert_with(Column::default);
    if to.len() <= before {
        append(to, before, column, 1.0);
    }
}

/// The first source's columns are moved, not copied: they are most of the memory.
fn append(to: &mut Column, before: usize, from: Column, scale: f64) {
    if to.is_empty() && before == 0 && scale.to_bits() == 1.0_f64.to_bits() {
        *to = from;
        return;
    }
    to.pad(before);
    to.append_scaled(&from, scale);
}

/// Which raw rows are kept, in which order, and where attempts begin.
struct Layout {
    /// Raw rows in order.
    keep: Vec<usize>,
    /// First kept row and reason of each attempt.
    starts: Vec<(usize, Began)>,
    /// Kept row of each raw row (rows that were merged point to the row they were merged into).
    place: Vec<usize>,
}

impl Layout {
    fn of(joined: &mut Joined, interleaved: bool) -> Self {
        let mut layout = Self {
            keep: Vec::new(),
            starts: Vec::new(),
            place: Vec::new(),
        };
        let mut restarts = Restarts::new(&joined.marks);
        let mut merges = Vec::new();
        let mut conflicts = 0_usize;
        for row in 0..joined.steps.len() {
            let step = joined.steps[row];
            let marked = restarts.before(row);
            let logged = row > 0 && attempt_changed(joined, row);
            let last = layout.keep.last().map(|r| joined.steps[*r]);
            let began = match last {
                None => Some(Began::First),
                Some(_) if logged => Some(Began::Logged),
                Some(_) if marked.is_some() => marked,
                Some(last) if step < last && !(interleaved && layout.repeats(joined, step)) => {
                    Some(Began::StepWentBack {
                        from: last,
                        to: step,
                    })
                }
                Some(_) => None,
            };
            if began.is_none() && last.is_some_and(|l| step <= l) {
                let kept = layout
                    .kept_row(joined, step)
                    .unwrap_or(layout.keep.len() - 1);
                conflicts += usize::from(conflicting(joined, layout.keep[kept], row));
                merges.push((layout.keep[kept], row));
                layout.place.push(kept);
                continue;
            }
            if let Some(began) = began {
                layout.starts.push((layout.keep.len(), began));
            }
            layout.place.push(layout.keep.len());
            layout.keep.push(row);
        }
        merge(joined, &merges);
        if conflicts > 0 && !interleaved {
            let what =
                format!("{conflicts} rows repeat a step with another loss; the first was kept");
            let source = joined.sources.first().cloned().unwrap_or_default();
            joined.losses.push(DataLoss::new(&source, "", &what));
        }
        layout
    }

    /// Whether a step that goes back is a row that the current attempt already has.
    fn repeats(&self, joined: &Joined, step: u64) -> bool {
        self.kept_row(joined, step).is_some()
    }

    fn kept_row(&self, joined: &Joined, step: u64) -> Option<usize> {
        let from = self.starts.last().map_or(0, |(row, _)| *row);
        let rows = &self.keep[from..];
        rows.binary_search_by_key(&step, |r| joined.steps[*r])
            .ok()
            .map(|i| from + i)
    }
}

/// Restart markers in the order of the rows.
struct Restarts<'a> {
    marks: Vec<&'a Mark>,
    next: usize,
}

impl<'a> Restarts<'a> {
    fn new(marks: &'a [Mark]) -> Self {
        let mut marks: Vec<&Mark> = marks
            .iter()
            .filter(|m| {
                matches!(
                    m.kind,
                    EventKind::Start | EventKind::Loaded | EventKind::DataSkipped
                )
            })
            .collect();
        marks.sort_by_key(|m| m.row);
        Self { marks, next: 0 }
    }

    /// The reason for a new attempt that stands before a row, if any.
    fn before(&mut self, row: usize) -> Option<Began> {
        let mut began = None;
        while let Some(mark) = self.marks.get(self.next).filter(|m| m.row <= row) {
            began = match (mark.kind, mark.step) {
                (EventKind::Loaded, Some(step)) => Some(Began::Loaded { step }),
                (EventKind::Loaded | EventKind::Start, _) => began.or(Some(Began::ProcessStart)),
                _ => began,
            };
            self.next += 1;
        }
        began.filter(|_| row > 0)
    }
}

fn attempt_changed(joined: &Joined, row: usize) -> bool {
    let Some(column) = &joined.attempt else {
        return false;
    };
    matches!((column.finite(row - 1), column.finite(row)), (Some(a), Some(b)) if (a - b).abs() > 0.5)
}

fn conflicting(joined: &Joined, kept: usize, row: usize) -> bool {
    match (joined.value("loss", kept), joined.value("loss", row)) {
        (Some(a), Some(b)) => a.to_bits() != b.to_bits(),
        _ => false,
    }
}

/// Fills what a kept row lacks from the rows that repeat its step.
fn merge(joined: &mut Joined, merges: &[(usize, usize)]) {
    for column in joined.columns.values_mut() {
        column.fill(merges);
    }
}

fn assemble(mut joined: Joined, layout: &Layout, options: &BuildOptions) -> Run {
    let rows = layout.keep.len();
    let whole = rows == joined.steps.len();
    let steps: Vec<u64> = if whole {
        std::mem::take(&mut joined.steps)
    } else {
        layout.keep.iter().map(|r| joined.steps[*r]).collect()
    };
    let mut run = Run {
        steps,
        ..Run::default()
    };
    for (name, mut column) in std::mem::take(&mut joined.columns) {
        column.pad(layout.place.len());
        let mut column = if whole {
            column
        } else {
            column.take(&layout.keep)
        };
        if name == "time" {
            column.change(milliseconds);
        }
        run.insert(&name, column);
    }
    sentinel::clear(&mut run);
    run.attempts = attempts(layout, rows);
    let logged = joined.interval.as_ref().map(|c| c.take(&layout.keep));
    run.intervals = intervals(&run, logged.as_ref(), options.averaged);
    run.meta = meta(&run, joined.sources, joined.facts, options);
    run.events = events(&run, &joined.marks, layout);
    run.losses = joined.losses;
    run.losses.sort();
    run
}

fn attempts(layout: &Layout, rows: usize) -> Vec<Attempt> {
    let ends = layout
        .starts
        .iter()
        .skip(1)
        .map(|(row, _)| *row)
        .chain([rows]);
    let starts = layout.starts.iter().zip(ends).enumerate();
    starts
        .map(|(i, ((start, began), end))| Attempt {
            index: u32::try_from(i).unwrap_or(u32::MAX),
            rows: *start..end,
            began: began.clone(),
        })
        .collect()
}

fn intervals(run: &Run, logged: Option<&Column>, averaged: bool) -> Vec<u32> {
    let narrow = |gap: u64| u32::try_from(gap).unwrap_or(u32::MAX).max(1);
    let mut out = vec![1; run.len()];
    if averaged {
        let usual = narrow(run.spacing());
        let loss = run.column("loss");
        for attempt in &run.attempts {
            let mut before = None;
            for row in attempt.rows.clone() {
                // The first row of an attempt, and the first after a hole, average no more than the usual interval.
                out[row] = before.map_or(usual, |b: u64| narrow(run.steps[row] - b).min(usual));
                if run.steps[row] < u64::from(out[row]) {
                    out[row] = narrow(run.steps[row]);
                }
                // A row without a loss, such as one of an evaluation, does not end an interval.
                let has_loss = loss.is_none_or(|c| c.get(row).is_some());
                before = if has_loss {
                    Some(run.steps[row])
                } else {
                    before
                };
            }
        }
    }
    let Some(logged) = logged else { return out };
    for (row, out) in out.iter_mut().enumerate() {
        if let Some(k) = logged.finite(row).filter(|k| *k >= 1.0) {
            *out = narrow(k as u64);
        }
    }
    out
}

fn events(run: &Run, marks: &[Mark], layout: &Layout) -> Vec<Event> {
    let mut out = Vec::with_capacity(marks.len());
    let mut started = None;
    for mark in marks {
        let row = layout.place.get(mark.row).copied();
        let restart = matches!(mark.kind, EventKind::Start | EventKind::Loaded);
        if restart {
            started = Some(mark.row);
        }
        let attempt = match row {
            None => run.attempts.last().map_or(0, |a| a.index),
            Some(row) => attempt_of_mark(run, mark, row, started == Some(mark.row)),
        };
        // A skipped update is printed before the row of its own step.
        let own = (mark.kind == EventKind::Overflow)
            .then(|| row.map(|r| run.steps[r]))
            .flatten();
        out.push(Event {
            attempt,
            step: mark.step.or(own),
            kind: mark.kind,
            path: mark.path.as_deref().map(shown),
        });
    }
    out.sort_by_key(|e| e.attempt);
    out
}

/// The attempt of a mark that stands before a row. What stands before the first row of an attempt and before the
/// marks of its start ended the attempt before.
fn attempt_of_mark(run: &Run, mark: &Mark, row: usize, started: bool) -> u32 {
    let attempt = run.attempt_of(row);
    let first = run
        .attempts
        .get(attempt as usize)
        .is_some_and(|a| a.rows.start == row);
    let before = run.updates_after(run.steps[row]).saturating_sub(1);
    let ahead = match mark.kind {
        EventKind::Exit => true,
        EventKind::Saved | EventKind::SaveStarted => mark.step.is_some_and(|s| s >= before),
        _ => mark.step.is_some_and(|s| s > run.steps[row]),
    };
    if first && !started && attempt > 0 && ahead {
        attempt - 1
    } else {
        attempt
    }
}

fn meta(
    run: &Run,
    sources: Vec<String>,
    facts: BTreeMap<String, String>,
    options: &BuildOptions,
) -> Meta {
    let seen = options.step_base.or_else(|| seen_base(run));
    let facts: BTreeMap<String, String> = facts
        .into_iter()
        .map(|(key, value)| (shown(&key), shown(&value)))
        .collect();
    Meta {
        sources,
        format: options.format.clone(),
        framework: options.framework.clone(),
        framework_version: facts.get("framework_version").cloned(),
        step_base: seen.unwrap_or(1),
        base_known: seen.is_some(),
        facts,
    }
}

/// The step base that the rows themselves show: a loss at step 0, or consumed samples that count one step more or as
/// many. An evaluation before training, or a checkpoint that was loaded, may be logged at a step 0 that is no update.
fn seen_base(run: &Run) -> Option<u64> {
    let trained = |row: usize| run.column("loss").is_none_or(|c| c.get(row).is_some());
    let mut steps = run.steps.iter().enumerate();
    if steps.any(|(row, step)| *step == 0 && trained(row)) {
        return Some(0);
    }
    if let Some(base) = base_from_samples(run) {
        return Some(base);
    }
    let spacing = run.spacing();
    let multiples = |offset: u64| {
        run.steps
            .iter()
            .filter(|s| (**s + offset).is_multiple_of(spacing))
            .count()
    };
    if spacing < 2 || run.len() < 5 {
        None
    } else if multiples(1) * 10 >= run.len() * 9 {
        Some(0)
    } else if multiples(0) * 10 >= run.len() * 9 {
        Some(1)
    } else {
        None
    }
}

fn base_from_samples(run: &Run) -> Option<u64> {
    let samples = run.column("consumed_samples")?;
    let rows = run.attempts.first()?.rows.clone();
    let points: Vec<(u64, f64)> = rows
        .filter_map(|r| Some((run.steps[r], samples.finite(r)?)))
        .take(2)
        .collect();
    let [(s0, c0), (s1, c1)] = points[..] else {
        return None;
    };
    let batch = (c1 - c0) / (s1 - s0) as f64;
    let updates = c0 / batch;
    let off = updates - s0 as f64;
    (batch >= 1.0
        && s0 < 1000
        && off.fract().abs() < 1e-9
        && (off.abs() < 0.5 || (off - 1.0).abs() < 0.5))
        .then_some(u64::from(off <= 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(steps: &[u64], losses: &[f64]) -> Rows {
        let mut rows = Rows::default();
        let slot = rows.slot("loss");
        for (s, l) in steps.iter().zip(losses) {
            rows.begin(*s);
            rows.set(slot, *l);
        }
        rows
    }

    fn build(rows: Rows, options: BuildOptions) -> Run {
        let aliases = Aliases::built_in();
        let mut b = RunBuilder::new(&aliases, options);
        b.add("x", rows);
        b.finish().expect("has rows")
    }

    #[test]
    fn a_step_that_goes_back_starts_an_attempt_and_nothing_is_lost() {
        let run = build(
            rows(&[1, 2, 3, 2, 3, 4], &[9.0, 8.0, 7.0, 8.5, 7.5, 6.0]),
            BuildOptions::default(),
        );
        assert_eq!(run.attempts.len(), 2);
        assert_eq!(
            run.attempts[1].began,
            Began::StepWentBack { from: 3, to: 2 }
        );
        assert_eq!(run.len(), 6);
        assert_eq!(run.superseded_from(0), Some(2));
    }

    #[test]
    fn every_column_of_a_signal_has_a_name_of_its_own() {
        let mut r = Rows::default();
        let names = [
            "loss (lm loss)",
            "train_loss",
            "lm loss",
            "a\u{1b}b",
            "a\u{7}b",
        ];
        let slots = names.map(|name| r.slot(name));
        for step in [1, 2] {
            r.begin(step);
            for (slot, value) in slots.iter().zip(0_u8..) {
                r.set(*slot, f64::from(value));
            }
        }
        let run = build(r, BuildOptions::default());
        let columns: Vec<_> = run.columns().map(|(n, c)| (n, c.raw().to_vec())).collect();
        let twice = |value: f64| vec![value; 2];
        let expected = [
            ("a\u{fffd}b", twice(3.0)),
            ("a\u{fffd}b (a\u{fffd}b)", twice(4.0)),
            ("loss", twice(1.0)),
            ("loss (lm loss)", twice(0.0)),
            ("loss (lm loss)'", twice(2.0)),
        ];
        assert_eq!(columns, expected);
    }

    #[test]
    fn of_two_columns_that_count_attempts_the_first_counts() {
        let part = |steps: [u64; 2], attempt: f64| {
            let mut r = rows(&steps, &[2.0, 2.0]);
            r.put("attempt", Column::from_values(vec![attempt; 2]));
            r.put("Attempt", Column::from_values(vec![9.0, attempt]));
            r
        };
        let aliases = Aliases::built_in();
        let mut b = RunBuilder::new(&aliases, BuildOptions::default());
        b.add("a", part([1, 2], 0.0));
        b.add("b", part([3, 4], 1.0));
        let run = b.finish().expect("has rows");
        let spans: Vec<_> = run.attempts.iter().map(|a| a.rows.clone()).collect();
        assert_eq!(spans, [0..2, 2..4]);
    }

    #[test]
    fn rows_of_one_step_are_merged() {
        let mut r = rows(&[1, 2], &[9.0, 8.0]);
        let val = r.slot("val_loss");
        r.begin(2);
        r.set(val, 8.5);
        let run = build(r, BuildOptions::default());
        assert_eq!(run.len(), 2);
        assert_eq!(run.value("val_loss", 1), Some(8.5));
        assert!(run.losses.is_empty());
    }

    #[test]
    fn consumed_samples_tell_the_base() {
        let mut r = rows(&[9, 19, 29], &[3.0, 2.0, 1.0]);
        r.put(
            "consumed_samples",
            Column::from_values(vec![120.0, 240.0, 360.0]),
        );
        assert_eq!(build(r, BuildOptions::default()).meta.step_base, 0);
        let mut r = rows(&[10, 20, 30], &[3.0, 2.0, 1.0]);
        r.put(
            "consumed_samples",
            Column::from_values(vec![120.0, 240.0, 360.0]),
        );
        let run = build(r, BuildOptions::default());
        assert_eq!((run.meta.step_base, run.meta.base_known), (1, true));
    }

    #[test]
    fn a_step_0_without_a_loss_is_no_update() {
        let base = |steps: &[u64], losses: &[f64]| {
            let mut all = Rows::default();
            let validation = all.slot("eval/loss");
            all.begin(0);
            all.set(validation, 9.5);
            all.append(rows(steps, losses));
            let meta = build(all, BuildOptions::default()).meta;
            (meta.step_base, meta.base_known)
        };
        assert_eq!(base(&[1, 2], &[9.0, 8.0]), (1, false));
        assert_eq!(base(&[0, 1], &[9.0, 8.0]), (0, true));
        let steps = [10, 20, 30, 40, 50];
        assert_eq!(base(&steps, &[9.0, 8.0, 7.0, 6.0, 5.0]), (1, true));
    }

    #[test]
    fn means_cover_the_usual_interval_after_a_hole() {
        let options = BuildOptions {
            averaged: true,
            ..BuildOptions::default()
        };
        let run = build(
            rows(&[10, 20, 30, 900, 910], &[5.0, 4.0, 3.0, 2.0, 2.0]),
            options,
        );
        assert_eq!(run.intervals, vec![10, 10, 10, 10, 10]);
    }

    #[test]
    fn several_ranks_that_print_one_step_are_one_row() {
        let options = BuildOptions {
            interleaved: true,
            ..BuildOptions::default()
        };
        let run = build(rows(&[1, 2, 1, 2, 3], &[5.0, 4.0, 5.0, 4.0, 3.0]), options);
        assert_eq!((run.len(), run.attempts.len()), (3, 1));
    }

    #[test]
    fn times_come_out_in_milliseconds() {
        let (a, b) = (1_700_000_000.0, 1_700_000_000_000.0);
        assert!((milliseconds(a) - b).abs() < 0.5 && (milliseconds(b) - b).abs() < 0.5);
        assert!((milliseconds(a * 1e9) - b).abs() < 0.5);
    }
}
