//! Parts the rows into processes, and gives them their steps, which the Trainer does not print.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Range;

use crate::ingest::hf_console::bar::Bar;
use crate::ingest::hf_console::place::Attempt;
use crate::ingest::late;
use crate::run::Column;
use crate::run::EventKind;
use crate::run::Rows;

/// Columns in which the readers of the chunks leave what is known of a row's place.
pub(super) const PRIVATE: [&str; 13] = [
    "\u{1}told",
    "\u{1}eval",
    "\u{1}before",
    "\u{1}before-total",
    "\u{1}earlier",
    "\u{1}earlier-total",
    "\u{1}after",
    "\u{1}after-total",
    "\u{1}cleared",
    "\u{1}redrawn",
    "\u{1}redrawn-total",
    "\u{1}redrawn-too",
    "\u{1}redrawn-too-total",
];
/// The step that the row itself names.
pub(super) const TOLD: usize = 0;
/// Set in rows of an evaluation.
pub(super) const EVAL: usize = 1;
/// The last bar before the row; its total is the next column.
pub(super) const BEFORE: usize = 2;
/// The last bar before that with another total.
pub(super) const EARLIER: usize = 4;
/// The first bar after the row.
pub(super) const AFTER: usize = 6;
/// Set in rows for which the bars were wiped.
pub(super) const CLEARED: usize = 8;
/// The bars of the first two totals with nothing between them and the row.
pub(super) const REDRAWN: [usize; 2] = [9, 11];

/// Facts about the length of the run.
pub(super) const EPOCHS: &str = "num_train_epochs";
pub(super) const TOTAL: &str = "max_steps";
pub(super) const PER_EPOCH: &str = "steps_per_epoch";
pub(super) const LOGGING: &str = "logging_steps";
/// The epoch of the summary at the end.
pub(super) const LAST_EPOCH: &str = "last_epoch";
/// The steps of the run by the rate in the summary at the end.
pub(super) const BY_RATE: &str = "\u{1}steps-by-rate";

/// Starts the paths of marks for bars at their beginning, until the totals of the bars of training are known.
pub(super) const FRESH: &str = "\u{1}fresh ";

/// Gives every row its step, and takes the private columns away.
pub(super) fn settle(rows: &mut Rows) {
    late::settle(rows);
    let mut lines = lines(rows);
    let totals = totals(&lines);
    doubt(&mut lines, &totals);
    starts(&lines, &totals, rows);
    let mut notes = BTreeMap::new();
    for part in attempts(&lines, &totals, rows) {
        let attempt = Attempt::of(&lines[part.clone()], &totals, rows);
        let (steps, note) = attempt.steps();
        for (row, step) in part.zip(steps) {
            rows.steps[row] = step;
        }
        *notes.entry(note).or_insert(0_usize) += attempt.lines.len();
    }
    for (note, count) in notes {
        if !note.is_empty() {
            rows.lose("", format!("{count} {note}"));
        }
    }
    for name in PRIVATE {
        rows.put(name, Column::default());
    }
    rows.facts.remove(BY_RATE);
}

/// Forgets the bars after rows where the epochs fit the bars before the rows better: those after are then not drawn
/// anew for the rows, but of later steps.
fn doubt(lines: &mut [Line], totals: &BTreeMap<u64, usize>) {
    /// Steps by which a bar may fit worse on average, for the rounding of the epochs.
    const ROUNDING: f64 = 0.25;
    let mut places: BTreeMap<u64, Vec<[f64; 3]>> = BTreeMap::new();
    for line in lines.iter().filter(|l| !l.eval) {
        if let (Some(epoch), Some(drawn), Some(before)) =
            (line.epoch, line.redrawn(totals), line.before)
            && before.total == drawn.total
        {
            let place = [epoch, before.done as f64, drawn.done as f64];
            places.entry(drawn.total).or_default().push(place);
        }
    }
    for (total, places) in places {
        let sum = |at: usize| places.iter().map(|p| p[at]).sum::<f64>();
        let misfit = |at: usize| {
            let per_epoch = sum(at) / sum(0);
            let off = places.iter().map(|p| (p[at] - p[0] * per_epoch).abs());
            off.sum::<f64>()
        };
        if misfit(2) > misfit(1) + ROUNDING * places.len() as f64 {
            for bar in lines.iter_mut().flat_map(|l| &mut l.redrawn) {
                *bar = bar.filter(|b| b.total != total);
            }
        }
    }
}

/// Makes the bars of training at their beginning starts of the trainer, and forgets those of evaluations. Where bars
/// are not drawn anew after each row, the two cannot be told apart for certain.
fn starts(lines: &[Line], totals: &BTreeMap<u64, usize>, rows: &mut Rows) {
    let training = || lines.iter().filter(|l| !l.eval);
    let exact = || training().filter_map(|l| l.redrawn(totals));
    let certain = exact().count() * 10 >= training().count() * 9;
    let of_training: BTreeSet<u64> = exact().filter(|_| certain).map(|b| b.total).collect();
    let total = |path: &str| path.strip_prefix(FRESH)?.parse::<u64>().ok();
    let is_start = |kind| matches!(kind, EventKind::Start | EventKind::Loaded);
    let mut told: BTreeSet<usize> = rows
        .marks
        .iter()
        .filter(|m| is_start(m.kind) && !m.path.as_deref().is_some_and(|p| p.starts_with(FRESH)))
        .map(|m| m.row)
        .collect();
    rows.marks.retain_mut(|mark| {
        let Some(total) = mark.path.as_deref().and_then(total) else {
            return true;
        };
        mark.path = None;
        of_training.contains(&total) && told.insert(mark.row)
    });
}

/// What is known of a row's place.
pub(super) struct Line {
    pub(super) told: Option<u64>,
    pub(super) eval: bool,
    pub(super) before: Option<Bar>,
    pub(super) earlier: Option<Bar>,
    pub(super) after: Option<Bar>,
    pub(super) epoch: Option<f64>,
    cleared: bool,
    redrawn: [Option<Bar>; 2],
    loss: Option<f64>,
}

fn lines(rows: &Rows) -> Vec<Line> {
    let slots = PRIVATE.map(|name| rows.find(name));
    let (epoch, loss) = (rows.find("epoch"), rows.find("loss"));
    let value = |slot: Option<usize>, row| rows.column(slot?).get(row);
    let count = |at: usize, row| value(slots[at], row).map(|v| v as u64);
    let bar = |at: usize, row| {
        Some(Bar {
            done: count(at, row)?,
            total: count(at + 1, row)?,
        })
    };
    let line = |row| Line {
        told: count(TOLD, row),
        eval: count(EVAL, row).is_some(),
        before: bar(BEFORE, row),
        earlier: bar(EARLIER, row),
        after: bar(AFTER, row),
        epoch: value(epoch, row),
        cleared: count(CLEARED, row).is_some(),
        redrawn: REDRAWN.map(|at| bar(at, row)),
        loss: value(loss, row),
    };
    (0..rows.steps.len()).map(line).collect()
}

/// How many training rows follow a bar of each total.
fn totals(lines: &[Line]) -> BTreeMap<u64, usize> {
    let mut out = BTreeMap::new();
    for line in lines.iter().filter(|l| !l.eval) {
        for bar in [line.before, line.redrawn[0]].into_iter().flatten() {
            *out.entry(bar.total).or_insert(0) += 1;
        }
    }
    out
}

impl Line {
    /// The bar of training as it stood when the row was printed: tqdm wipes its bars, prints the row and draws them
    /// anew at once. Without a wiped bar before the row only one that did not move tells that it was drawn anew.
    pub(super) fn redrawn(&self, totals: &BTreeMap<u64, usize>) -> Option<Bar> {
        let weight = |bar: &Bar| (totals.get(&bar.total).copied().unwrap_or(0), bar.total);
        let bars = self.redrawn.iter().flatten();
        let known = bars.filter(|b| weight(b).0 > 0).max_by_key(|b| weight(b))?;
        self.redrawn_of(known.total)
    }

    /// The bar of this total, if it was drawn anew after the row.
    pub(super) fn redrawn_of(&self, total: u64) -> Option<Bar> {
        let bar = self.redrawn.iter().flatten().find(|b| b.total == total)?;
        (self.cleared || self.before == Some(*bar)).then_some(*bar)
    }

    /// The bar of training at a training row: as drawn anew after it, or else the last before it. Right after an
    /// evaluation its full bar may stand in between.
    pub(super) fn bar(&self, totals: &BTreeMap<u64, usize>) -> Option<Bar> {
        let weight = |bar: &Bar| totals.get(&bar.total).copied().unwrap_or(0);
        if let Some(redrawn) = self.redrawn(totals) {
            return Some(redrawn);
        }
        let before = self.before?;
        let earlier = self
            .earlier
            .filter(|e| before.done == before.total && weight(e) > weight(&before));
        Some(earlier.unwrap_or(before))
    }

    /// Whether a row follows a restart, seen from the training row before it.
    fn goes_back(&self, last: &Self, totals: &BTreeMap<u64, usize>) -> bool {
        if let (Some(a), Some(b)) = (last.told, self.told) {
            return b < a;
        }
        let (forward, back) = match (last.epoch, self.epoch) {
            (Some(a), Some(b)) => (b > a, b < a),
            _ => (false, false),
        };
        let bars = last.bar(totals).zip(self.bar(totals));
        back || (!forward && bars.is_some_and(|(a, b)| b.done < a.done))
    }

    /// Whether another node prints the same row again.
    pub(super) fn repeats(&self, last: &Self) -> bool {
        let same = |a: Option<f64>, b: Option<f64>| a.map(f64::to_bits) == b.map(f64::to_bits);
        let number = self.loss.is_some_and(|l| l.is_finite() && l != 0.0);
        number && self.epoch.is_some() && same(self.loss, last.loss) && same(self.epoch, last.epoch)
    }
}

/// The rows of each process.
fn attempts(lines: &[Line], totals: &BTreeMap<u64, usize>, rows: &Rows) -> Vec<Range<usize>> {
    let starts = |kind| matches!(kind, EventKind::Start | EventKind::Loaded);
    let told: BTreeSet<usize> = rows
        .marks
        .iter()
        .filter(|m| starts(m.kind))
        .map(|m| m.row)
        .collect();
    let mut out = Vec::new();
    let (mut start, mut last) = (0, None);
    for (row, line) in lines.iter().enumerate() {
        let back = !line.eval && last.is_some_and(|l| line.goes_back(l, totals));
        if row > start && (back || told.contains(&row)) {
            out.push(start..row);
            (start, last) = (row, None);
        }
        if !line.eval {
            last = Some(line);
        }
    }
    if start < lines.len() {
        out.push(start..lines.len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::hf_console::HfConsole;
    use crate::ingest::records::testing::read_in;

    fn dict(loss: f64, epoch: f64) -> String {
        format!("{{'loss': {loss}, 'learning_rate': 1e-05, 'epoch': {epoch:.2}}}\n")
    }

    fn bar(done: u64, total: u64) -> String {
        format!(
            "\r {}%|##   | {done}/{total} [00:10<10:00,  1.60s/it]",
            done * 100 / total
        )
    }

    fn read(text: &str) -> Rows {
        read_in::<HfConsole>(text.as_bytes(), usize::MAX)
    }

    #[test]
    fn bars_that_are_drawn_again_after_the_row() {
        let mut text = String::new();
        for step in 1..=60_u64 {
            text += &bar(step, 600);
            if step % 10 == 0 || step == 1 {
                text += "\r      \r";
                text += &dict(3.0 - step as f64 / 100.0, step as f64 / 200.0);
                text += &bar(step, 600);
            }
        }
        let rows = read(&text);
        assert_eq!(rows.steps, [1, 10, 20, 30, 40, 50, 60]);
        assert!(rows.losses.is_empty());
    }

    #[test]
    fn bars_that_are_behind_their_rows() {
        let mut text = String::new();
        for step in (20..=200_u64).step_by(20) {
            text += &bar(step - step / 20 % 4, 600);
            text += "\r      \r";
            text += &dict(3.0 - step as f64 / 1000.0, step as f64 / 200.0);
            text += &bar(step, 600);
        }
        let steps: Vec<u64> = (20..=200).step_by(20).collect();
        assert_eq!(read(&text).steps, steps);
    }

    #[test]
    fn an_evaluation_has_a_bar_of_its_own() {
        let mut text = bar(10, 100) + &dict(3.0, 0.1) + &bar(15, 100);
        for done in 1..=8 {
            text += &bar(done, 8);
        }
        text += "\r      \r{'eval_loss': 2.5, 'eval_runtime': 1.2, 'epoch': 0.15}\n";
        text += &(dict(2.9, 0.2) + &bar(20, 100) + &bar(30, 100) + &dict(2.8, 0.3));
        let rows = read(&text);
        assert_eq!(rows.steps, [10, 15, 20, 30]);
        assert_eq!(rows.losses.len(), 0);
    }

    #[test]
    fn rows_that_were_held_back_are_placed_by_their_epochs() {
        let mut text = bar(1, 1000) + &bar(1000, 1000);
        for row in 1..=40_u32 {
            let epoch = f64::from(row) * 25.0 / 333.3;
            text += &dict(3.0 - f64::from(row) / 50.0, epoch);
        }
        text += "{'train_runtime': 100.1, 'train_loss': 2.5, 'epoch': 3.0}\n";
        let rows = read(&text);
        let steps: Vec<u64> = (1..=40).map(|row| row * 25).collect();
        assert_eq!(rows.steps, steps);
        assert_eq!(rows.losses.len(), 1);
    }

    #[test]
    fn runs_in_one_file_and_another_node() {
        let mut text = String::new();
        for (total, last) in [(100, 40), (100, 60), (50, 20)] {
            for step in (10..=last).step_by(10) {
                text += &bar(step, total);
                let loss = 3.0 - step as f64 / 64.0 - last as f64 / 1024.0;
                text += &dict(loss, step as f64 / 50.0);
                text += &dict(loss, step as f64 / 50.0);
            }
        }
        let rows = read(&text);
        let twice = |last: u64| (10..=last).step_by(10).flat_map(|s| [s, s]);
        let steps: Vec<u64> = [40, 60, 20].into_iter().flat_map(twice).collect();
        assert_eq!(rows.steps, steps);
    }

    #[test]
    fn without_bars_rows_are_numbered() {
        let text = "logging_steps=5,\n".to_owned() + &dict(3.0, 0.1) + &dict(2.9, 0.2);
        let rows = read(&text);
        assert_eq!(rows.steps, [5, 10]);
        assert_eq!(rows.losses.len(), 1);
    }
}
