//! Consoles of NVIDIA's GNMT: `TRAIN [0][10/1938]`, then `Time 0.105 (0.179)`, `Loss/tok 9.6102 (10.1416)` after tabs.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::run::Rows;

/// GNMT, whose iterations count from 0 in each epoch.
pub(super) const INGESTER: Ingester = Ingester {
    name: "gnmt",
    recognised_by: "`TRAIN [epoch][i/n] Time … Loss/tok … LR …` lines",
    signals: &["loss", "learning_rate", "val_loss", "step_time", "epoch"],
    framework: Some("gnmt"),
    step_base: Some(0),
    averaged: false,
    interleaved: true,
    sniff,
    reader: Reader::Lines(Console::<Gnmt>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    let ours = |p: &Piece<'_>| {
        let record = Record::of(p.text);
        record.is_some_and(|mut r| r.fields.find("Loss/tok ").is_some())
    };
    if records::any(head, ours) { 85 } else { 0 }
}

struct Record<'a> {
    epoch: u64,
    step: u64,
    training: bool,
    fields: Cursor<'a>,
}

impl<'a> Record<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        let training = cursor.find("TRAIN [").is_some();
        if !training {
            cursor.find("VALIDATION [")?;
        }
        let epoch = cursor.digits()?;
        cursor.eat("][")?;
        let iteration = cursor.digits()?;
        cursor.eat("/")?;
        let of = cursor.digits()?;
        cursor.eat("]")?;
        Some(Self {
            epoch,
            step: epoch.checked_mul(of)?.checked_add(iteration)?,
            training,
            fields: cursor,
        })
    }
}

fn kept(name: &str) -> Option<&str> {
    Some(match name {
        "Time" => "step_time",
        "Loss/tok" => "loss",
        "LR" => "lr",
        _ => return None,
    })
}

struct Gnmt {
    names: Names,
    torn: Torn,
    epoch: records::Slot,
}

impl Default for Gnmt {
    fn default() -> Self {
        Self {
            names: Names::new(kept),
            torn: Torn::default(),
            epoch: records::Slot::default(),
        }
    }
}

impl Records for Gnmt {
    const ONE_ROW_A_STEP: bool = false;

    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        // A validation row is that of one batch, at the iteration of the validation set.
        let Some(record) = Record::of(piece.text).filter(|r| r.training) else {
            return;
        };
        rows.begin(record.step);
        self.epoch.set("epoch", record.epoch as f64, rows);
        self.names.begin();
        let fields = record.fields.rest().split(|b| *b == b'\t');
        for field in fields.filter(|f| !f.trim_ascii().is_empty()) {
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

impl Gnmt {
    /// `name value (mean)`; the rate has no mean.
    fn field(&mut self, field: &[u8], open: bool, rows: &mut Rows) -> Option<()> {
        let space = memchr::memchr(b' ', field)?;
        let (name, rest) = field.split_at(space);
        let mut cursor = Cursor::new(rest);
        let value = cursor.number()?;
        if cursor.rest().is_empty() && (open || name != b"LR") {
            return None;
        }
        if let Some(slot) = self.names.slot(name, rows) {
            rows.set(slot, value);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn epochs_make_one_count() {
        let text = include_bytes!("../../fixtures/logs/gnmt/train.log");
        for lines in [1, usize::MAX] {
            let rows = read_in::<Gnmt>(text, lines);
            assert_eq!(rows.steps, [0, 10, 1938, 1948]);
            assert_eq!(column(&rows, "loss")[..2], [Some(10.7019), Some(9.6102)]);
            assert!(column(&rows, "loss")[2].is_some_and(f64::is_nan));
            assert_eq!(column(&rows, "lr")[1], Some(2.576e-5));
            assert_eq!(column(&rows, "step_time")[1], Some(0.105));
            assert_eq!(column(&rows, "epoch")[2], Some(1.0));
            assert_eq!(rows.losses.len(), 1);
        }
        assert_eq!(sniff(text), 85);
    }

    /// Figures from a separate reading of the file by regular expression.
    #[test]
    fn a_real_run() {
        let Some(text) = shared("corpus/mlperf-stdout__gnmt-dgx1.txt") else {
            return;
        };
        let rows = read_in::<Gnmt>(&text, 500);
        assert_eq!(rows.steps.len(), 776);
        assert_eq!((rows.steps[0], rows.steps[775]), (0, 7744));
        adds_up(&rows, "loss", 776, 2694.1564);
        adds_up(&rows, "lr", 776, 1.370_774_97);
        adds_up(&rows, "step_time", 776, 109.468);
        assert!(rows.losses.is_empty());
        assert_eq!(sniff(&text), 85);
    }

    #[test]
    fn damage_is_survived() {
        survives::<Gnmt>(include_bytes!("../../fixtures/logs/gnmt/train.log"));
    }
}
