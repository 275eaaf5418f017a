//! llm.c `main.log`, which the oldest modded-nanogpt records share: `s:250 trl:3.45 lr:0.0006 norm:0.31`.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields::Torn;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::Rows;

/// The log file of llm.c, which counts steps from 0. Several records share a step.
pub(super) const INGESTER: Ingester = Ingester {
    name: "llm.c-log",
    recognised_by: "`s:N trl:… lr:… norm:…` and `s:N tel:…` lines",
    signals: &["loss", "grad_norm", "learning_rate", "val_loss"],
    framework: Some("llm.c"),
    step_base: Some(0),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Log>::boxed),
};

/// Keys and their columns: training loss, validation loss, the accuracy on `HellaSwag`, rate, gradient norm.
const KEYS: [(&str, &str); 5] = [
    ("trl:", "loss"),
    ("tel:", "val_loss"),
    ("eval:", "hellaswag_accuracy"),
    ("lr:", "lr"),
    ("norm:", "grad_norm"),
];

/// Records looked for before a head is believed: one could be chance.
const ENOUGH: usize = 2;

fn sniff(head: &[u8]) -> u8 {
    let is_record = |p: &Piece<'_>| {
        step(p.own).is_some_and(|(_, rest)| {
            KEYS[..3]
                .iter()
                .any(|(k, _)| rest.starts_with(k.as_bytes()))
        })
    };
    match records::count(head, is_record) {
        0 => 0,
        n if n < ENOUGH => 40,
        _ => 90,
    }
}

/// The step and the fields of a record.
fn step(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut cursor = Cursor::new(text);
    cursor.eat("s:")?;
    let step = cursor.digits()?;
    cursor.eat(" ")?;
    Some((step, cursor.rest()))
}

#[derive(Default)]
struct Log {
    slots: [Slot; KEYS.len()],
    /// The decimals of each key's last value: it is printed with as many each time.
    decimals: [usize; KEYS.len()],
    torn: Torn,
}

impl Records for Log {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let text = piece.own;
        let Some((step, fields)) = step(text) else {
            return;
        };
        if !KEYS[..3]
            .iter()
            .any(|(k, _)| fields.starts_with(k.as_bytes()))
        {
            self.torn.lose(piece.line, "not a whole record", text, rows);
            return;
        }
        rows.begin(step);
        for field in fields.split(|b| *b == b' ').filter(|f| !f.is_empty()) {
            if self.field(field, piece.open, rows).is_none() {
                self.torn.lose(
                    piece.line,
                    "not a whole field; the others are kept",
                    field,
                    rows,
                );
            }
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }
}

impl Log {
    fn field(&mut self, field: &[u8], open: bool, rows: &mut Rows) -> Option<()> {
        let key = KEYS
            .iter()
            .position(|(k, _)| field.starts_with(k.as_bytes()))?;
        let (name, column) = KEYS[key];
        let text = &field[name.len()..];
        let mut cursor = Cursor::new(text);
        let value = cursor.number()?;
        if !cursor.rest().is_empty() || (open && decimals(text) < self.decimals[key]) {
            return None;
        }
        if value.is_finite() {
            self.decimals[key] = decimals(text);
        }
        // Rates below half a millionth are printed as zero.
        if value == 0.0 && column == "lr" {
            return Some(());
        }
        self.slots[key].set(column, value, rows);
        Some(())
    }
}

/// Digits after the point.
fn decimals(text: &[u8]) -> usize {
    memchr::memchr(b'.', text).map_or(0, |at| text.len() - at - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn three_kinds_of_record_share_a_step() {
        let text = include_bytes!("../../fixtures/logs/llm.c-log/main.log");
        for lines in [1, usize::MAX] {
            let rows = read_in::<Log>(text, lines);
            assert_eq!(rows.steps, [0, 0, 1, 250, 250, 250, 1, 2]);
            let all = column(&rows, "loss");
            assert_eq!(all[1..3], [Some(10.9656), Some(10.814)]);
            assert!(all[6].is_some_and(f64::is_nan));
            assert_eq!(column(&rows, "val_loss")[3], Some(3.431));
            assert_eq!(column(&rows, "hellaswag_accuracy")[4], Some(0.294));
            assert_eq!(column(&rows, "grad_norm")[5], Some(0.31));
            assert_eq!(column(&rows, "lr")[1], None);
            assert_eq!(column(&rows, "lr")[5], Some(0.0006));
        }
        // A value that lost decimals at the end of the log is not a value.
        let rows = read_in::<Log>(text, usize::MAX);
        assert_eq!(column(&rows, "loss")[7], None);
        assert_eq!(rows.losses.len(), 1);
        assert_eq!(sniff(text), 90);
    }

    /// Figures from a separate reading of the file by regular expression.
    #[test]
    fn a_real_run() {
        let Some(text) = shared("corpus/llmc-main-log__modded-nanogpt-adamw-2024-06.log") else {
            return;
        };
        let rows = read_in::<Log>(&text, 1000);
        assert_eq!(rows.steps.len(), 9612);
        assert_eq!((rows.steps[0], rows.steps[9611]), (0, 9536));
        adds_up(&rows, "loss", 9536, 34_971.520_093);
        adds_up(&rows, "val_loss", 76, 282.123_188);
        let outlier = rows.steps.iter().position(|s| *s == 7851);
        assert_eq!(
            outlier.and_then(|row| column(&rows, "loss")[row]),
            Some(3.776_415)
        );
        assert!(rows.losses.is_empty());
        assert_eq!(sniff(&text), 90);
    }

    #[test]
    fn damage_is_survived() {
        survives::<Log>(include_bytes!("../../fixtures/logs/llm.c-log/main.log"));
    }
}
