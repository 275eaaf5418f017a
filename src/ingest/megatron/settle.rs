//! What only the whole log can tell: losses that were not printed, zeros and gradient norms that
//! stand for nothing, rows that count the row before again.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::ingest::deepspeed;
use crate::ingest::megatron::PRIVATE;
use crate::ingest::megatron::TORN;
use crate::ingest::megatron::event::VALIDATION;
use crate::run::Column;
use crate::run::EventKind;
use crate::run::Mark;
use crate::run::Rows;

pub(super) fn settle(rows: &mut Rows) {
    validations(rows);
    loads(rows);
    repeats(rows);
    if !rows.steps.is_empty() {
        let log = Log::of(rows);
        let spans = spans(rows, &log);
        let told = overflow_lines(rows, &spans);
        losses(rows, &log, &spans);
        for span in spans.iter().filter(|s| s.doubled) {
            second_row(rows, &log, span);
        }
        let stale = grad_norms(rows, &log, &spans);
        overflows(rows, &log, &told, &stale);
        rows.put("interval", intervals(rows, &spans));
        rows.facts
            .entry("lr_offset".to_owned())
            .or_insert_with(|| "1".to_owned());
    }
    if rows.find(TORN).is_some() {
        rows.put(TORN, Column::default());
    }
    rows.marks.sort_by_key(|m| m.row);
}

/// The columns that the corrections need, under whichever name the dialect gives them.
struct Log {
    losses: Vec<usize>,
    skipped: Option<usize>,
    nan: Option<usize>,
    norm: Option<usize>,
    scale: Option<usize>,
    time: Option<usize>,
    tokens: Option<usize>,
    elapsed: Option<usize>,
    torn: Option<usize>,
}

impl Log {
    fn of(rows: &Rows) -> Self {
        let any = |names: &[&str]| {
            let has_values = |s: &usize| rows.column(*s).has_values();
            names.iter().filter_map(|n| rows.find(n)).find(has_values)
        };
        let losses = ["lm loss", "lm_loss", "lm-loss"];
        Self {
            losses: losses.iter().filter_map(|n| any(&[n])).collect(),
            skipped: any(&[
                "number of skipped iterations",
                "number_of_skipped_iterations",
            ]),
            nan: any(&["number of nan iterations", "number_of_nan_iterations"]),
            norm: any(&["grad norm", "grad_norm"]),
            scale: any(&["loss scale", "loss_scale"]),
            time: any(&["time"]),
            tokens: any(&["consumed tokens", "consumed_tokens"]),
            elapsed: any(&[
                "elapsed time per iteration (ms)",
                "elapsed time per iteration (s)",
            ]),
            torn: any(&[TORN]),
        }
    }

    /// The loss of a row and its column.
    fn loss(&self, rows: &Rows, row: usize) -> Option<(usize, f64)> {
        self.losses
            .iter()
            .find_map(|s| Some((*s, rows.column(*s).get(row)?)))
    }

    fn skipped(&self, rows: &Rows, row: usize) -> u64 {
        value(rows, self.skipped, row).map_or(0, |v| v as u64)
    }

    /// Whether all that the row printed was read. In each version that leaves fields out, the
    /// counter comes last.
    fn complete(&self, rows: &Rows, row: usize) -> bool {
        value(rows, self.nan, row).is_some() && value(rows, self.torn, row).is_none()
    }

    /// Whether the time has microseconds, which came with the line for the first iteration; the
    /// forks that count tokens have neither, and loggers that print the line have milliseconds.
    fn has_microseconds(&self, rows: &Rows, row: usize) -> bool {
        let fine = value(rows, self.time, row).is_some_and(|t| t.fract() != 0.0);
        fine && value(rows, self.tokens, row).is_none()
    }
}

fn value(rows: &Rows, slot: Option<usize>, row: usize) -> Option<f64> {
    rows.column(slot?).get(row)
}

fn mark_at(rows: &mut Rows, row: usize, kind: EventKind) {
    let step = rows.steps[row];
    rows.mark(kind, Some(step), None);
    if let Some(mark) = rows.marks.last_mut() {
        mark.row = row;
    }
}

/// Moves validation losses from their marks into the row of their step.
fn validations(rows: &mut Rows) {
    let mut found = Vec::new();
    rows.marks.retain(|m| {
        let text = m.path.as_deref().and_then(|p| p.strip_prefix(PRIVATE));
        let Some(text) = text.filter(|_| m.kind == VALIDATION) else {
            return true;
        };
        found.extend(text.parse::<f64>().ok().map(|v| (m.row, m.step, v)));
        false
    });
    for (before, step, value) in found {
        let Some(row) = before
            .checked_sub(1)
            .filter(|r| Some(rows.steps[*r]) == step)
        else {
            continue;
        };
        let slot = rows.slot("val_loss");
        rows.column_mut(slot).set(row, value);
    }
}

/// Drops the start of a load whose end is told too.
fn loads(rows: &mut Rows) {
    let begun = |path: &Option<String>| path.as_deref().is_some_and(|p| p.starts_with(PRIVATE));
    let ended = |at: usize| {
        let start = &rows.marks[at];
        let mut later = rows.marks[at + 1..]
            .iter()
            .take_while(|m| m.row == start.row);
        later
            .find(|m| m.kind == EventKind::Loaded)
            .is_some_and(|m| !begun(&m.path) && (m.step == start.step || m.step.is_none()))
    };
    let superfluous: BTreeSet<usize> = (0..rows.marks.len())
        .filter(|at| begun(&rows.marks[*at].path) && ended(*at))
        .collect();
    let mut at = 0;
    rows.marks.retain_mut(|m| {
        if begun(&m.path) {
            m.path = m
                .path
                .take()
                .map(|p| p[PRIVATE.len_utf8()..].to_owned())
                .filter(|p| !p.is_empty());
        }
        at += 1;
        !superfluous.contains(&(at - 1))
    });
}

/// Drops what several ranks, the files of one checkpoint, or the start and the scheduling of one save tell again. What
/// is told first may lack the path.
fn repeats(rows: &mut Rows) {
    const KINDS: [EventKind; 4] = [
        EventKind::SaveStarted,
        EventKind::Saved,
        EventKind::Deleted,
        EventKind::Loaded,
    ];
    deepspeed::saved_paths(rows);
    let mut kept: Vec<Mark> = Vec::with_capacity(rows.marks.len());
    let mut last = [None; KINDS.len()];
    for mark in std::mem::take(&mut rows.marks) {
        if let Some(kind) = KINDS.iter().position(|k| *k == mark.kind) {
            let told = last[kind].map(|at: usize| &mut kept[at]);
            if let Some(told) = told.filter(|t| same(t, &mark)) {
                told.path = told.path.take().or(mark.path);
                continue;
            }
            last[kind] = Some(kept.len());
        }
        kept.push(mark);
    }
    rows.marks = kept;
}

/// Whether two marks of a kind tell of one thing. A checkpoint is loaded from one place, but saved into a folder of
/// which one line names the checkpoint's own.
fn same(told: &Mark, mark: &Mark) -> bool {
    let other = mark.kind == EventKind::Loaded && mark.path.is_some() && told.path != mark.path;
    told.row == mark.row && told.step == mark.step && !other
}

/// Rows that one process printed, as far as the log tells.
struct Span {
    rows: Range<usize>,
    /// The usual distance in steps.
    usual: u64,
    /// Whether the first row was printed out of turn and counts again in the second.
    doubled: bool,
}

impl Span {
    /// The number of iterations that the mean and the counters of a row cover.
    fn covers(&self, steps: &[u64], row: usize) -> u64 {
        if row == self.rows.start {
            return if self.doubled {
                1
            } else {
                self.usual.min(steps[row]).max(1)
            };
        }
        let gap = (steps[row] - steps[row - 1]).min(self.usual).max(1);
        gap + u64::from(self.is_second(row))
    }

    /// Whether a row counts the first row of its process again.
    fn is_second(&self, row: usize) -> bool {
        self.doubled && row == self.rows.start + 1
    }
}

fn spans(rows: &Rows, log: &Log) -> Vec<Span> {
    let steps = &rows.steps;
    let starts = |kind: EventKind| matches!(kind, EventKind::Start | EventKind::Loaded);
    let told: BTreeSet<usize> = rows
        .marks
        .iter()
        .filter(|m| starts(m.kind))
        .map(|m| m.row)
        .collect();
    let begins = |r: &usize| *r == 0 || steps[*r] < steps[*r - 1] || told.contains(r);
    let firsts: Vec<usize> = (0..steps.len()).filter(begins).collect();
    let ends = firsts.iter().skip(1).copied().chain([steps.len()]);
    let ranges: Vec<Range<usize>> = firsts.iter().zip(ends).map(|(a, b)| *a..b).collect();
    let of_log = median(
        ranges
            .iter()
            .flat_map(|r| gaps(&steps[r.clone()]))
            .collect(),
    )
    .unwrap_or(1);
    ranges
        .into_iter()
        .map(|range| {
            let own: Vec<u64> = gaps(&steps[range.clone()]).collect();
            let usual = if own.len() < 3 {
                of_log
            } else {
                median(own).unwrap_or(of_log)
            };
            let doubled = is_doubled(rows, log, &range, usual, told.contains(&range.start));
            Span {
                rows: range,
                usual,
                doubled,
            }
        })
        .collect()
}

fn gaps(steps: &[u64]) -> impl Iterator<Item = u64> + '_ {
    steps.windows(2).map(|w| w[1] - w[0]).filter(|gap| *gap > 0)
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(middle).1)
}

/// Since core 0.16 a process prints its first iteration whatever the interval, and does not reset
/// the sums after it.
fn is_doubled(rows: &Rows, log: &Log, range: &Range<usize>, usual: u64, told: bool) -> bool {
    let (first, second) = (range.start, range.start + 1);
    let fine = |row| log.has_microseconds(rows, row);
    if second >= range.end || !(fine(first) || fine(second)) {
        return false;
    }
    let (from, to) = (rows.steps[first], rows.steps[second]);
    if usual > 1 {
        return to - from < usual && from % usual != 0 && to % usual == 0;
    }
    // A log may begin in the middle of a process: then only the second line's halved time tells.
    to == from + 1 && (told || from == 1 || is_halved(rows, log, range))
}

fn is_halved(rows: &Rows, log: &Log, range: &Range<usize>) -> bool {
    let elapsed = |at: usize| {
        let row = range.start + at;
        value(rows, log.elapsed, row).filter(|_| range.contains(&row))
    };
    matches!((elapsed(1), elapsed(2)), (Some(second), Some(third)) if second <= 0.7 * third)
}

/// Gives `DeepSpeed`'s overflow lines the step of the row that they stand before, and returns the
/// rows.
fn overflow_lines(rows: &mut Rows, spans: &[Span]) -> BTreeSet<usize> {
    let firsts: BTreeSet<usize> = spans.iter().skip(1).map(|s| s.rows.start).collect();
    let steps = &rows.steps;
    let (mut told, mut started) = (BTreeSet::new(), None);
    rows.marks.retain_mut(|m| {
        if matches!(m.kind, EventKind::Start | EventKind::Loaded) {
            started = Some(m.row);
        }
        // Before a restart it belongs to a step of the process that ended, which has no row.
        let lost = firsts.contains(&m.row) && started != Some(m.row);
        if m.kind != EventKind::Overflow || lost || m.row >= steps.len() {
            return true;
        }
        m.step = Some(steps[m.row]);
        told.insert(m.row)
    });
    told
}

/// Takes out zeros that no loss stands behind, and puts NaN where the loss was NaN: since v2.0 it
/// is then left out of the line.
fn losses(rows: &mut Rows, log: &Log, spans: &[Span]) {
    let Some(&main) = log.losses.first() else {
        return;
    };
    for span in spans {
        for row in span.rows.clone() {
            let all_skipped = |rows: &Rows| log.skipped(rows, row) >= span.covers(&rows.steps, row);
            match log.loss(rows, row) {
                Some((slot, 0.0)) if all_skipped(rows) => {
                    rows.column_mut(slot).clear(row);
                    mark_at(rows, row, EventKind::FakeZero);
                }
                None if !all_skipped(rows)
                    && log.complete(rows, row)
                    && !is_poisoned(rows, log, span, row) =>
                {
                    rows.column_mut(main).set(row, f64::NAN);
                    mark_at(rows, row, EventKind::NanInferred);
                }
                _ => {}
            }
        }
    }
}

/// Whether a row's own loss cannot be known because the NaN of the row before counts in it.
fn is_poisoned(rows: &Rows, log: &Log, span: &Span, row: usize) -> bool {
    let nan_before = || log.loss(rows, row - 1).is_some_and(|(_, v)| v.is_nan());
    span.is_second(row) && span.usual == 1 && nan_before()
}

/// Takes the first row of a process out of the second again.
fn second_row(rows: &mut Rows, log: &Log, span: &Span) {
    let (first, second) = (span.rows.start, span.rows.start + 1);
    mark_at(rows, second, EventKind::DoubleCounted);
    let (counted, done) = (
        span.covers(&rows.steps, second),
        rows.steps[second] - rows.steps[first],
    );
    if done > 0 {
        per_iteration(rows, log, second, counted as f64 / done as f64);
    }
    for slot in [log.skipped, log.nan].into_iter().flatten() {
        let column = rows.column_mut(slot);
        if let (Some(before), Some(both)) = (column.get(first), column.get(second)) {
            column.set(second, (both - before).max(0.0));
        }
    }
    // With longer intervals the mean over both is the mean of the interval.
    if span.usual > 1 || log.skipped(rows, first) > 0 {
        return;
    }
    let Some((slot, mean)) = log.loss(rows, second) else {
        return;
    };
    if log.skipped(rows, second) > 0 {
        rows.column_mut(slot).clear(second);
    } else if let Some(before) = rows.column(slot).finite(first) {
        rows.column_mut(slot).set(second, 2.0 * mean - before);
    }
}

/// Times since the print before were divided by a number of iterations that counts the first one again.
fn per_iteration(rows: &mut Rows, log: &Log, row: usize, factor: f64) {
    let rate = rows.find("throughput per GPU (TFLOP/s/GPU)");
    for (slot, factor) in [(log.elapsed, factor), (rate, factor.recip())] {
        if let Some(slot) = slot
            && let Some(value) = rows.column(slot).get(row)
        {
            rows.column_mut(slot).set(row, value * factor);
        }
    }
}

/// Clears gradient norms that were not computed, and returns the rows where an older one stood.
fn grad_norms(rows: &mut Rows, log: &Log, spans: &[Span]) -> BTreeSet<usize> {
    let Some(norm) = log.norm else {
        return BTreeSet::new();
    };
    if rows.column(norm).raw().iter().any(|v| *v > 0.0) {
        let stale: BTreeSet<usize> = spans
            .iter()
            .flat_map(|s| stale(rows, log, norm, s))
            .collect();
        for row in &stale {
            rows.column_mut(norm).clear(*row);
        }
        return stale;
    }
    for row in 0..rows.steps.len() {
        if rows.column(norm).get(row) == Some(0.0) {
            rows.column_mut(norm).clear(row);
        }
    }
    BTreeSet::new()
}

/// Rows whose gradient norm is that of the last update that was not skipped. `DeepSpeed` counts no
/// skips, but lowers the loss scale, at the second of two in a row at the latest.
fn stale(rows: &Rows, log: &Log, norm: usize, span: &Span) -> Vec<usize> {
    let norms = rows.column(norm);
    let scale = |row| value(rows, log.scale, row);
    let lowered =
        |r: usize| scale(r).is_some_and(|s| scale(r - 1).is_some_and(|before| s < before));
    let same = |r: usize| norms.finite(r).is_some() && norms.finite(r) == norms.finite(r - 1);
    let next = |r: usize| r + 1 < span.rows.end && same(r + 1) && lowered(r + 1);
    let skipped = |r: usize| log.skipped(rows, r) > 0 || lowered(r) || next(r);
    let later = span.rows.start + 1..span.rows.end;
    later.filter(|r| same(*r) && skipped(*r)).collect()
}

/// Marks the rows in whose interval updates were skipped.
fn overflows(rows: &mut Rows, log: &Log, told: &BTreeSet<usize>, stale: &BTreeSet<usize>) {
    for row in 0..rows.steps.len() {
        let skipped = log.skipped(rows, row) > 0 || stale.contains(&row);
        if skipped && !told.contains(&row) {
            mark_at(rows, row, EventKind::Overflow);
        }
    }
}

/// The number of iterations behind each row's loss as it now stands.
fn intervals(rows: &Rows, spans: &[Span]) -> Column {
    let each = spans
        .iter()
        .flat_map(|span| span.rows.clone().map(move |row| (span, row)));
    let interval = |(span, row): (&Span, usize)| {
        let parted = span.usual == 1 && span.is_second(row);
        if parted {
            1.0
        } else {
            span.covers(&rows.steps, row) as f64
        }
    };
    Column::from_values(each.map(interval).collect())
}
