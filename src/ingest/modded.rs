//! modded-nanogpt records: `step:1500/1555 val_loss:3.29 train_time:87592ms step_avg:58.39ms` after the whole program.

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

/// modded-nanogpt. A row's step counts the updates done, so the first training loss stands at 1 and the first
/// validation loss at 0. Recent versions print no training loss.
pub(super) const INGESTER: Ingester = Ingester {
    name: "modded-nanogpt",
    recognised_by: "`step:N/M train_loss:… train_time:…` and `step:N/M val_loss:…` lines",
    signals: &["loss", "val_loss", "elapsed_seconds"],
    framework: Some("modded-nanogpt"),
    step_base: Some(1),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Modded>::boxed),
};

/// From this length on, a head may hold nothing but the program.
const LONG: usize = 256 * 1024;

fn sniff(head: &[u8]) -> u8 {
    if records::any(head, |p| Record::of(p.own).is_some()) {
        return 90;
    }
    let prints = |text: &str| memchr::memmem::find(head, text.as_bytes()).is_some();
    if head.len() >= LONG && prints("val_loss:{") && prints("train_time:{") {
        60
    } else {
        0
    }
}

/// A record. The program that precedes it prints braces where these have digits.
struct Record<'a> {
    step: u64,
    fields: Cursor<'a>,
}

impl<'a> Record<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        cursor.eat("step:")?;
        let step = cursor.digits()?;
        cursor.eat("/")?;
        cursor.digits()?;
        cursor.eat(" ")?;
        let starts = |name: &str| cursor.rest().starts_with(name.as_bytes());
        let ours = starts("train_loss:") || starts("val_loss:") || starts("train_time:");
        ours.then_some(Self {
            step,
            fields: cursor,
        })
    }
}

#[derive(Default)]
struct Modded {
    training: Slot,
    validation: Slot,
    elapsed: Slot,
    torn: Torn,
}

impl Records for Modded {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let Some(record) = Record::of(piece.own) else {
            return;
        };
        rows.begin(record.step);
        if self.fields(record.fields, rows).is_none() {
            self.torn
                .lose(piece.line, "not a whole record", piece.text, rows);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }
}

impl Modded {
    fn fields(&mut self, mut cursor: Cursor<'_>, rows: &mut Rows) -> Option<()> {
        let columns = [
            ("train_loss:", "loss", &mut self.training),
            ("val_loss:", "val_loss", &mut self.validation),
        ];
        for (name, column, slot) in columns {
            if cursor.eat(name).is_some() {
                let value = cursor.number()?;
                cursor.eat(" ")?;
                slot.set(column, value, rows);
            }
        }
        cursor.eat("train_time:")?;
        let time = cursor.number()?;
        let seconds = if cursor.eat("ms").is_some() {
            time / 1000.0
        } else {
            cursor.eat("s")?;
            time
        };
        self.elapsed.set("elapsed_time", seconds, rows);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn the_program_before_the_records_is_skipped() {
        let text = include_bytes!("../../fixtures/logs/modded-nanogpt/record.txt");
        for lines in [1, usize::MAX] {
            let rows = read_in::<Modded>(text, lines);
            assert_eq!(rows.steps, [0, 1, 2, 125, 125, 0, 125, 126, 127]);
            let loss = column(&rows, "loss");
            assert_eq!(loss[..3], [None, Some(10.8258), Some(9.5)]);
            assert!(loss[3].is_some_and(f64::is_nan));
            assert_eq!(column(&rows, "val_loss")[0], Some(10.8258));
            assert_eq!(column(&rows, "val_loss")[6], Some(4.84442));
            assert_eq!(column(&rows, "elapsed_time")[2], Some(14.707));
            assert_eq!(
                column(&rows, "elapsed_time")[6..8],
                [Some(137.467), Some(138.5)]
            );
            assert_eq!(loss[8], None);
            assert_eq!(rows.losses.len(), 1);
        }
        assert_eq!(sniff(text), 90);
        let program = "print0(f\"step:{step}/{n} val_loss:{v:.4f} train_time:{t:.0f}ms\")\n";
        assert_eq!(sniff(program.as_bytes()), 0);
        assert_eq!(sniff(program.repeat(5000).as_bytes()), 60);
    }

    /// Figures from a separate reading of the files by regular expression.
    #[test]
    fn real_records() {
        for (name, rows_of, loss, val) in [
            ("modernarch", 5142, (5100, 18_444.689_6), (42, 161.6955)),
            ("unet-double-lr", 3025, (3000, 10_947.987), (25, 96.4466)),
            ("track3-ortho-many-vals", 388, (0, 0.0), (388, 1_372.488_14)),
        ] {
            let Some(text) = shared(&format!("corpus/modded-nanogpt-txt__{name}.txt")) else {
                return;
            };
            let rows = read_in::<Modded>(&text, 1000);
            assert_eq!(rows.steps.len(), rows_of);
            adds_up(&rows, "loss", loss.0, loss.1);
            adds_up(&rows, "val_loss", val.0, val.1);
            let runs = rows.steps.iter().filter(|s| **s == 0).count();
            assert_eq!(runs, if loss.0 == 0 { 4 } else { 1 });
            assert!(rows.losses.is_empty());
            assert_eq!(sniff(&text), 90);
        }
    }

    #[test]
    fn damage_is_survived() {
        survives::<Modded>(include_bytes!(
            "../../fixtures/logs/modded-nanogpt/record.txt"
        ));
    }
}
