//! The console of the Hugging Face Trainer and of what is built on it: dictionaries between progress bars.

mod bar;
mod dict;
mod place;
mod steps;

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::late;
use crate::ingest::number;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::EventKind;
use crate::run::Rows;
use crate::signal::step_rank;

use bar::Bar;
use dict::Value;

/// Hugging Face Trainer, TRL, axolotl, ms-swift. Loss is the mean since the line before; steps count from 1.
pub(super) const INGESTER: Ingester = Ingester {
    name: "hf-trainer",
    recognised_by: "`{'loss': …, 'learning_rate': …, 'epoch': …}` lines",
    signals: &["loss", "grad_norm", "learning_rate", "epoch", "val_loss"],
    framework: Some("hf-trainer"),
    step_base: Some(1),
    averaged: true,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<HfConsole>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    let is_row = |p: &Piece<'_>| {
        let at = dict::start(p.text);
        at.is_some_and(
            |at| matches!(Entry::of(&p.text[at..]), Some((e, _)) if e.is_row() && !e.eval),
        )
    };
    if records::any(head, is_row) { 85 } else { 0 }
}

/// What a dictionary is, from its keys.
#[derive(Debug, Default, Clone, Copy)]
struct Entry {
    loss: bool,
    eval: bool,
    /// Only the summary at the end of training has a run time.
    summary: bool,
    epoch: Option<f64>,
    /// Seconds and steps a second, in the summary.
    rate: [Option<f64>; 2],
    /// The step, if it is among them.
    step: Option<u64>,
    rank: Option<u8>,
}

impl Entry {
    /// Reads the dictionary at the start, and its length. `None` if it is not whole.
    fn of(text: &[u8]) -> Option<(Self, usize)> {
        let mut entry = Self::default();
        let len = dict::walk(text, &mut |key, value| entry.see(key, value))?;
        Some((entry, len))
    }

    fn see(&mut self, key: &[u8], value: Value<'_>) {
        match key {
            b"loss" => self.loss = true,
            b"train_runtime" => {
                self.summary = true;
                self.rate[0] = value.number();
            }
            b"train_steps_per_second" => self.rate[1] = value.number(),
            b"epoch" => self.epoch = value.number().or(self.epoch),
            _ if key.starts_with(b"eval_") => self.eval = true,
            _ => {
                let rank = std::str::from_utf8(key).ok().and_then(step_rank);
                if rank.is_some() && self.rank.is_none_or(|best| rank < Some(best)) {
                    (self.rank, self.step) = (rank, step(value));
                }
            }
        }
    }

    fn is_row(&self) -> bool {
        let placed = self.epoch.is_some() || self.step.is_some();
        (self.loss || self.eval) && placed && !self.summary
    }
}

/// A step as a number or as `10/100`.
fn step(value: Value<'_>) -> Option<u64> {
    match value {
        Value::Number(value) => number::step(value),
        Value::Text(text) => {
            let (step, len) = number::digits(text)?;
            (text.get(len) == Some(&b'/')).then_some(step)
        }
        Value::Other => None,
    }
}

fn kept(name: &str) -> Option<&str> {
    step_rank(name).is_none().then_some(name)
}

/// Lines that are worth keeping as facts, and their names there. They are indented by two spaces, of which a launcher may
/// take one away.
const FACTS: [(&str, &str); 7] = [
    (" Num Epochs = ", steps::EPOCHS),
    (" Num update steps per epoch = ", steps::PER_EPOCH),
    (" Total optimization steps = ", steps::TOTAL),
    (" Num examples = ", "num_examples"),
    (
        " Instantaneous batch size per device = ",
        "per_device_train_batch_size",
    ),
    (
        " Total train batch size (w. parallel, distributed & accumulation) = ",
        "total_train_batch_size",
    ),
    ("logging_steps=", steps::LOGGING),
];

struct HfConsole {
    names: Names,
    torn: Torn,
    /// The last bar and the last one before it with another total: evaluation has a bar of its own.
    bars: [Option<Bar>; 2],
    /// Whether the next bar follows the last row.
    follows: bool,
    /// Whether the last piece was blank: bars are wiped for a row.
    cleared: bool,
    /// Whether only bars stand between the last row, which may be in the chunk before, and here.
    adjacent: bool,
    /// Bars of different totals there.
    redrawn: [Option<Bar>; 2],
    private: [Slot; steps::PRIVATE.len()],
}

impl Default for HfConsole {
    fn default() -> Self {
        Self {
            names: Names::new(kept),
            torn: Torn::default(),
            bars: [None; 2],
            follows: false,
            cleared: false,
            adjacent: true,
            redrawn: [None; 2],
            private: [Slot::default(); steps::PRIVATE.len()],
        }
    }
}

impl Records for HfConsole {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let mut rest = piece.own;
        if rest.trim_ascii().is_empty() {
            self.cleared = true;
            return;
        }
        let mut found = false;
        while let Some(at) = dict::start(rest) {
            found = true;
            self.bars(&rest[..at], rows);
            rest = &rest[at..];
            if let Some((entry, len)) = Entry::of(rest) {
                self.entry(&entry, &rest[..len], rows);
                rest = &rest[len..];
                continue;
            }
            if rest.starts_with(b"{'loss':") || rest.starts_with(b"{'eval_loss':") {
                let what = "not a whole dictionary";
                self.torn.lose(piece.line, what, rest, rows);
            }
            rest = &rest[2..];
        }
        let barred = self.bars(rest, rows);
        if !barred && !found {
            self.adjacent = false;
        }
        // What the logger prints goes on in the line of the bar.
        let bare = barred && rest.trim_ascii_end().ends_with(b"]");
        if !(found || bare) {
            event(rest, rows);
        }
        self.cleared = false;
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        steps::settle(rows);
        records::settle_saves(rows);
    }
}

impl HfConsole {
    /// Reads bars. Returns whether there are any.
    fn bars(&mut self, text: &[u8], rows: &mut Rows) -> bool {
        let mut any = false;
        bar::bars(text, |bar| {
            any = true;
            if std::mem::take(&mut self.follows) {
                self.note(steps::AFTER, Some(bar), rows);
            }
            self.redrawn(bar, rows);
            if bar.done == 0 && self.bars[0] != Some(bar) {
                let path = format!("{}{}", steps::FRESH, bar.total);
                rows.mark(EventKind::Start, None, Some(path));
            }
            if self.bars[0].is_some_and(|last| last.total != bar.total) {
                self.bars[1] = self.bars[0];
            }
            self.bars[0] = Some(bar);
        });
        any
    }

    /// Notes the first bar of each total right after a row.
    fn redrawn(&mut self, bar: Bar, rows: &mut Rows) {
        let known = self.redrawn.iter().flatten().any(|b| b.total == bar.total);
        let free = self.redrawn.iter().position(Option::is_none);
        if let Some(at) = free.filter(|_| self.adjacent && !known) {
            self.redrawn[at] = Some(bar);
            let at = steps::REDRAWN[at];
            late::of_last(rows, steps::PRIVATE[at], bar.done as f64);
            late::of_last(rows, steps::PRIVATE[at + 1], bar.total as f64);
        }
    }

    fn note(&mut self, at: usize, bar: Option<Bar>, rows: &mut Rows) {
        if let Some(bar) = bar {
            self.private[at].set(steps::PRIVATE[at], bar.done as f64, rows);
            self.private[at + 1].set(steps::PRIVATE[at + 1], bar.total as f64, rows);
        }
    }

    fn entry(&mut self, entry: &Entry, text: &[u8], rows: &mut Rows) {
        if let Some(epoch) = entry.epoch.filter(|_| entry.summary) {
            let fact = || epoch.to_string();
            rows.facts
                .entry(steps::LAST_EPOCH.to_owned())
                .or_insert_with(fact);
        }
        if let [Some(seconds), Some(rate)] = entry.rate {
            let fact = || (seconds * rate).round().to_string();
            rows.facts
                .entry(steps::BY_RATE.to_owned())
                .or_insert_with(fact);
        }
        if !entry.is_row() {
            return;
        }
        rows.begin(entry.step.unwrap_or(0));
        if let Some(step) = entry.step {
            self.private[steps::TOLD].set(steps::PRIVATE[steps::TOLD], step as f64, rows);
        }
        if !entry.loss {
            self.private[steps::EVAL].set(steps::PRIVATE[steps::EVAL], 1.0, rows);
        }
        self.note(steps::BEFORE, self.bars[0], rows);
        self.note(steps::EARLIER, self.bars[1], rows);
        if self.cleared {
            self.private[steps::CLEARED].set(steps::PRIVATE[steps::CLEARED], 1.0, rows);
        }
        (self.follows, self.adjacent, self.redrawn) = (true, true, [None; 2]);
        self.names.begin();
        let set = &mut |key: &[u8], value: Value<'_>| {
            if let Value::Number(value) = value
                && let Some(slot) = self.names.slot(key, rows)
            {
                rows.set(slot, value);
            }
        };
        dict::walk(text, set);
    }
}

/// Starts, resumptions and saves, and lines that say how long the run is.
fn event(text: &[u8], rows: &mut Rows) {
    let resumed = ["Continuing training from global step ", " and global step "];
    if fields::after(text, "***** Running training *****").is_some() {
        rows.mark(EventKind::Start, None, None);
    } else if let Some((step, _)) = resumed.iter().find_map(|w| fields::step_after(text, w)) {
        rows.mark(EventKind::Loaded, Some(step), None);
    } else if let Some(path) = fields::after(text, "Saving model checkpoint to ") {
        let path = fields::path(path);
        let step = path.as_deref().and_then(fields::step_of_path);
        rows.mark(EventKind::SaveStarted, step, path);
    } else if let Some(rest) = fields::after(text, "Fast-forwarding the dataloader past ") {
        fast_forwarded(rest, rows);
    } else {
        fact(text, rows);
    }
}

/// `3 epochs and 40 batches`: a resumed run reads on where it stopped. Without the line its data begin anew.
fn fast_forwarded(rest: &[u8], rows: &mut Rows) {
    let mut cursor = records::Cursor::new(rest);
    let read = |cursor: &mut records::Cursor<'_>| {
        let epochs = cursor.digits()?;
        cursor.eat(" epochs and ")?;
        Some((epochs, cursor.digits()?))
    };
    if let Some((epochs, batches)) = read(&mut cursor) {
        let value = format!("{epochs} epochs and {batches} batches");
        rows.facts.insert("data_fast_forwarded".to_owned(), value);
    }
}

fn fact(text: &[u8], rows: &mut Rows) {
    for (words, name) in FACTS {
        let value = fields::after(text, words).and_then(|rest| records::Cursor::new(rest).number());
        if let Some(value) = value.filter(|v| v.is_finite()) {
            rows.facts
                .entry(name.to_owned())
                .or_insert_with(|| value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn steps_that_are_told_a_resume_and_a_torn_row() {
        let text = include_bytes!("../../fixtures/logs/hf-trainer/swift.log");
        for lines in [1, usize::MAX] {
            let rows = read_in::<HfConsole>(text, lines);
            assert_eq!(rows.steps, [5, 10, 10, 5, 10]);
            assert_eq!(column(&rows, "loss")[..3], [Some(2.5), Some(2.25), None]);
            assert!(column(&rows, "grad_norm")[1].is_some_and(f64::is_nan));
            assert_eq!(column(&rows, "eval_loss")[2], Some(2.125));
            assert_eq!(column(&rows, "learning_rate")[0], Some(1e-5));
            assert_eq!(marks(&rows, EventKind::Start), [(0, None), (3, None)]);
            assert_eq!(marks(&rows, EventKind::Loaded), [(3, Some(3))]);
            assert_eq!(marks(&rows, EventKind::Saved), [(3, Some(10))]);
            assert_eq!(rows.facts["max_steps"], "2000");
            assert_eq!(rows.losses.len(), 1);
            assert!(rows.find("train_loss").is_none());
        }
        assert_eq!(sniff(text), 85);
    }

    #[test]
    fn the_samples_of_both_generations() {
        let Some(text) = shared("samples/hf_trainer/console_v4_tqdm.log") else {
            return;
        };
        let rows = read_in::<HfConsole>(&text, 2);
        assert_eq!(rows.steps, [10, 20, 30, 40]);
        let loss = column(&rows, "loss");
        assert!(loss[1].is_some_and(f64::is_nan));
        assert_eq!((loss[0], loss[2]), (Some(10.4123), Some(0.0)));
        assert_eq!(column(&rows, "grad_norm")[2], Some(f64::INFINITY));
        assert_eq!(column(&rows, "eval_loss")[3], Some(9.1));
        assert!(rows.losses.is_empty());
        assert_eq!(sniff(&text), 85);
        let Some(text) = shared("samples/hf_trainer/console_v5.log") else {
            return;
        };
        let rows = read_in::<HfConsole>(&text, usize::MAX);
        // Without bars: of 100 steps by the rate in the summary.
        assert_eq!(rows.steps, [33, 66, 99, 100]);
        assert_eq!(column(&rows, "loss")[0], Some(10.41));
        assert_eq!(rows.losses.len(), 1);
    }

    #[test]
    fn steps_from_bars_and_a_character_that_was_cut() {
        let text = include_bytes!("../../fixtures/logs/hf-trainer/trl.log");
        for lines in [1, usize::MAX] {
            let rows = read_in::<HfConsole>(text, lines);
            assert_eq!(rows.steps, [10, 20, 30, 30]);
            assert_eq!(
                column(&rows, "loss")[..3],
                [Some(2.9), Some(2.8), Some(2.7)]
            );
            assert_eq!(column(&rows, "rewards/chosen")[2], Some(0.25));
            assert_eq!(column(&rows, "eval_loss")[3], Some(2.5));
            assert!(rows.losses.is_empty());
        }
        assert_eq!(sniff(text), 85);
    }

    #[test]
    fn bars_far_behind_their_rows_and_a_resume_that_only_a_new_bar_tells() {
        let text = include_bytes!("../../fixtures/logs/hf-trainer/fast.log");
        let steps = [5, 10, 15, 20, 20, 25, 30, 35, 40, 40, 45, 50, 55, 60, 60];
        for lines in [1, 2, 7, usize::MAX] {
            let rows = read_in::<HfConsole>(text, lines);
            assert_eq!(rows.steps, steps, "{lines} lines");
            let loss = column(&rows, "loss");
            assert_eq!(
                (loss[0], loss[4], loss[13]),
                (Some(3.674), None, Some(3.163))
            );
            adds_up(&rows, "loss", 12, 40.124);
            adds_up(&rows, "grad_norm", 12, 15.724);
            let validation = column(&rows, "eval_loss");
            let at = [validation[4], validation[9], validation[14]];
            assert_eq!(at, [Some(3.351), Some(3.169), Some(3.11)]);
            assert_eq!(marks(&rows, EventKind::Start), [(0, None), (10, None)]);
            assert!(rows.losses.is_empty(), "{:?}", rows.losses);
        }
    }

    #[test]
    fn saves_are_told_in_the_lines_of_bars() {
        let text = "  Num update steps per epoch = 50\n\
            \r 33%|###3      | 20/60 [00:00<00:00, 92.90it/s][transformers] Saving model checkpoint to /runs/a/checkpoint-20\n\
            {'loss': '3.338', 'epoch': '0.6'}\n{'loss': '3.25', 'epoch': '0.8'}\n\
            \r 67%|######7   | 40/60 [00:00<00:00, 99.83it/s]Saving model checkpoint to /runs/a/checkpoint-40\n";
        let rows = read_in::<HfConsole>(text.as_bytes(), usize::MAX);
        assert_eq!(rows.steps, [30, 40]);
        assert_eq!(marks(&rows, EventKind::Saved), [(0, Some(20))]);
        assert_eq!(marks(&rows, EventKind::SaveStarted), [(2, Some(40))]);
    }

    #[test]
    fn without_bars_the_rate_in_the_summary_tells_the_steps() {
        let text = include_bytes!("../../fixtures/logs/hf-trainer/no-bars.log");
        let rows = read_in::<HfConsole>(text, usize::MAX);
        assert_eq!(rows.steps, [10, 20, 30, 40, 50, 60]);
        assert_eq!(column(&rows, "loss")[5], Some(3.171));
        assert!(marks(&rows, EventKind::Start).is_empty());
        assert_eq!(rows.losses.len(), 1);
        assert_eq!(rows.facts.keys().collect::<Vec<_>>(), ["last_epoch"]);
    }

    #[test]
    fn damage_is_survived() {
        survives::<HfConsole>(include_bytes!("../../fixtures/logs/hf-trainer/fast.log"));
        survives::<HfConsole>(include_bytes!("../../fixtures/logs/hf-trainer/swift.log"));
        survives::<HfConsole>(include_bytes!("../../fixtures/logs/hf-trainer/trl.log"));
    }
}
