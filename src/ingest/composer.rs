//! Composer and LLM Foundry consoles: `[batch=12/4800]:` with lines `\t Train loss/train/total: 9.5` under it.

mod align;
mod file;

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::late;
use crate::ingest::number;
use crate::ingest::ranks;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::each_piece;
use crate::run::EventKind;
use crate::run::Rows;

pub(super) use align::align;
pub(super) use file::INGESTER as FILE;

/// The console. Its headers count batches that are done, so from 1.
pub(super) const INGESTER: Ingester = Ingester {
    name: "composer",
    recognised_by: "`[batch=N/M]:` with lines `\\t Train name: value` under it",
    signals: SIGNALS,
    framework: Some("composer"),
    step_base: Some(1),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Blocks>::boxed),
};

const SIGNALS: &[&str] = &[
    "loss",
    "loss_ce",
    "grad_norm",
    "learning_rate",
    "val_loss",
    "consumed_samples",
    "consumed_tokens",
    "tokens_per_second",
    "mfu",
];
/// A rate that never prints more than this has too few of the console's four decimals.
const SMALL_RATE: f64 = 0.01;

fn sniff(head: &[u8]) -> u8 {
    let (mut under, mut found) = (false, false);
    each_piece(head, |p| {
        let text = p.own;
        under |= header(text).is_some();
        found |= under && field(text).is_some_and(|(trains, ..)| trains);
    });
    if found { 90 } else { 0 }
}

/// The batches done by a header such as `[batch=12/4800]:` or, where epochs count, `[epoch=2][batch=3/64]:`.
fn header(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(text);
    let epoch = match cursor.eat("[epoch=") {
        Some(()) => {
            let epoch = cursor.digits()?;
            cursor.find("]")?;
            Some(epoch)
        }
        None => None,
    };
    cursor.eat("[batch=")?;
    let batch = cursor.digits()?;
    let total = cursor.eat("/").and_then(|()| cursor.digits());
    cursor.eat("]")?;
    cursor.eat(":")?;
    let before = epoch
        .map_or(0, |e| e.saturating_sub(1))
        .checked_mul(total.unwrap_or(0))?;
    before.checked_add(batch).filter(|s| *s < 1 << 53)
}

/// Whether a line is of training, its name and its value.
fn field(text: &[u8]) -> Option<(bool, &[u8], &[u8])> {
    let text = text.strip_prefix(b"\t ")?;
    let (trains, rest) = match text.strip_prefix(b"Train ") {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix(b"Eval ")?),
    };
    let middle = memchr::memmem::find(rest, b": ")?;
    Some((trains, &rest[..middle], rest[middle + 2..].trim_ascii()))
}

struct Blocks {
    names: Names,
    torn: Torn,
    /// A header without a metric yet.
    header: Option<u64>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            names: Names::new(column),
            torn: Torn::default(),
            header: None,
        }
    }
}

/// The counter of batches is that of the batch's start.
fn column(name: &str) -> Option<&str> {
    match name {
        "time/batch" | "trainer/global_step" => None,
        name => Some(name),
    }
}

impl Records for Blocks {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let text = piece.own;
        if let Some(step) = header(text) {
            self.header = Some(step);
        } else if let Some((trains, name, value)) = field(text) {
            let value = number::number(value).filter(|_| !piece.open);
            match value {
                Some(value) if trains => self.set(name, value, rows),
                Some(value) => {
                    let name = String::from_utf8_lossy(name);
                    late::of_last(rows, &name, value);
                }
                None if piece.open => self.torn.lose(piece.line, "not a whole field", text, rows),
                // Words, such as `None`.
                None => {}
            }
        } else {
            event(text, rows);
        }
    }

    /// The metrics of the last header may stand in the next chunk.
    fn finish(&mut self, rows: &mut Rows) {
        self.begin(rows);
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        late::settle(rows);
        rounded_rates(rows);
        ranks::once(rows);
    }
}

impl Blocks {
    fn begin(&mut self, rows: &mut Rows) {
        if let Some(step) = self.header.take() {
            rows.begin(step);
            self.names.begin();
        }
    }

    fn set(&mut self, name: &[u8], value: f64, rows: &mut Rows) {
        self.begin(rows);
        if rows.steps.is_empty() {
            let name = String::from_utf8_lossy(name);
            if let Some(name) = column(&name) {
                late::of_last(rows, name, value);
            }
        } else if let Some(slot) = self.names.slot(name, rows) {
            rows.set(slot, value);
        }
    }
}

/// Learning rates of which four decimals say next to nothing would look like jumps.
fn rounded_rates(rows: &mut Rows) {
    let small = |values: &[f64]| {
        values
            .iter()
            .copied()
            .filter(|v| v.is_finite())
            .fold(0.0, f64::max)
            < SMALL_RATE
    };
    let slots = rows.columns().enumerate();
    let rates: Vec<usize> = slots
        .filter(|(_, (name, column))| {
            name.starts_with("lr-") && column.has_values() && small(&column.raw())
        })
        .map(|(slot, _)| slot)
        .collect();
    for slot in rates {
        for row in 0..rows.steps.len() {
            rows.column_mut(slot).clear(row);
        }
        let what = format!(
            "`{}` is printed with four decimals only: left out",
            rows.name(slot)
        );
        rows.lose("", what);
    }
}

/// Lines about checkpoints, whose files tell the batches that are done: `ep0-ba1000-rank0.pt`.
fn event(text: &[u8], rows: &mut Rows) {
    const EVENTS: [(&str, EventKind); 3] = [
        ("Checkpoint locally saved to ", EventKind::Saved),
        ("Loading checkpoint from ", EventKind::Loaded),
        ("Loading checkpoint at ", EventKind::Loaded),
    ];
    for (words, kind) in EVENTS {
        if let Some(path) = fields::after(text, words).and_then(fields::path)
            && let Some((batches, _)) = fields::step_after(path.as_bytes(), "-ba")
        {
            rows.mark(kind, Some(batches), Some(path));
        }
    }
    if text.ends_with(b"Starting training...") {
        rows.mark(EventKind::Start, None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{column, marks, read_in, survives};

    #[test]
    fn blocks_evaluation_and_a_restart() {
        let text = include_bytes!("../../fixtures/logs/composer/console.log");
        assert_eq!((sniff(text), (FILE.sniff)(text)), (90, 0));
        for lines in [1, 2, 5, usize::MAX] {
            let rows = read_in::<Blocks>(text, lines);
            assert_eq!(rows.steps, [1, 2, 3, 2, 3]);
            let loss = column(&rows, "loss/train/total");
            assert_eq!(loss[..2], [Some(11.6525), Some(10.5)]);
            assert!(loss[2].is_some_and(f64::is_nan));
            assert_eq!(loss[3..], [Some(10.25), None]);
            assert_eq!(column(&rows, "l2_norm/grad/global")[0], Some(1.2345));
            let validation = column(&rows, "metrics/eval/LanguageCrossEntropy");
            assert_eq!(validation, [None, Some(10.75), None, None, None]);
            assert_eq!(column(&rows, "time/total")[0], Some(0.0025));
            assert!(
                column(&rows, "lr-DecoupledAdamW/group0")
                    .iter()
                    .all(Option::is_none)
            );
            assert_eq!(marks(&rows, EventKind::Start), [(0, None), (3, None)]);
            assert_eq!(marks(&rows, EventKind::Saved), [(2, Some(2))]);
            assert_eq!(marks(&rows, EventKind::Loaded), [(3, Some(1))]);
            assert_eq!(rows.losses.len(), 2, "{:?}", rows.losses);
        }
    }

    #[test]
    fn batches_count_on_over_epochs() {
        let text = b"[epoch=1][batch=64/64]:\n\t Train loss/train/total: 3.0000\n[epoch=2][batch=3/64]:\n\t Train loss/train/total: 2.0000\n";
        assert_eq!(read_in::<Blocks>(text, usize::MAX).steps, [64, 67]);
        assert_eq!(header(b"[batch=12/4800]: x"), Some(12));
        assert_eq!(header(b"[Eval batch=1/32]: x"), None);
        assert_eq!(header(b"[epoch=99999999999][batch=1/99999999999]:"), None);
    }

    #[test]
    fn damage_does_no_harm() {
        survives::<Blocks>(include_bytes!("../../fixtures/logs/composer/console.log"));
    }
}
