//! build-nanogpt: the console `step     0 | loss: 10.95 | lr 8.3e-07 | norm: 15.5 | …` and `log.txt` with `250 train 3.45`.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::bars;
use crate::ingest::bars::Fields;
use crate::ingest::bars::Header;
use crate::ingest::fields::Torn;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::Rows;

/// build-nanogpt and its copies, which count steps from 0.
pub(super) const INGESTER: Ingester = Ingester {
    name: "build-nanogpt",
    recognised_by: "`step N | loss: … | lr … | norm: … |` lines, or `N train …` and `N val …` lines",
    signals: &[
        "loss",
        "grad_norm",
        "learning_rate",
        "val_loss",
        "step_time",
        "tokens_per_second",
    ],
    framework: Some("build-nanogpt"),
    step_base: Some(0),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Build>::boxed),
};

/// Words of `log.txt` and their columns.
const WORDS: [(&str, &str); 3] = [
    ("train ", "loss"),
    ("val ", "val_loss"),
    ("hella ", "hellaswag_accuracy"),
];
/// Lines of `log.txt` before it is believed: they have little in them that is their own.
const ENOUGH: usize = 3;

fn sniff(head: &[u8]) -> u8 {
    let console = |p: &Piece<'_>| record(p.text).is_some_and(|h| bars::has(&h, &["dt", "norm"]));
    if records::any(head, console) {
        return 85;
    }
    let (mut lines, mut plain) = (0, 0);
    records::each_piece(head, |p| {
        lines += 1;
        plain += usize::from(entry(&p).is_some());
    });
    // Nothing else is ever written into it; a last line may be cut off.
    if plain >= ENOUGH && plain + 1 >= lines {
        70
    } else {
        0
    }
}

fn record(text: &[u8]) -> Option<Header<'_>> {
    let header = bars::header(text)?;
    let ours = header.body.starts_with(b" loss: ");
    (ours && !header.total && !header.percent).then_some(header)
}

/// A line of `log.txt`: its step, which of the words it has, and the value as printed.
fn entry<'a>(piece: &Piece<'a>) -> Option<(u64, usize, &'a [u8])> {
    let text = piece.own;
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let mut cursor = Cursor::new(text);
    let step = cursor.digits()?;
    cursor.eat(" ")?;
    let word = WORDS
        .iter()
        .position(|(word, _)| cursor.eat(word).is_some())?;
    let value = cursor.rest();
    cursor.number()?;
    cursor.rest().is_empty().then_some((step, word, value))
}

#[derive(Default)]
struct Build {
    fields: Fields,
    slots: [Slot; WORDS.len()],
    /// Digits after the point of each word's last value.
    decimals: [usize; WORDS.len()],
    /// A validation loss that waits for the step it was measured before, which has the same number.
    validation: Option<f64>,
    step: Option<u64>,
    torn: Torn,
}

impl Records for Build {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        if let Some(header) = record(piece.text) {
            self.validated(header.step, rows);
            self.step = Some(header.step);
            self.fields.read(&header, piece, rows);
        } else if let Some((step, word, text)) = entry(piece) {
            self.entry(step, word, text, piece, rows);
        } else if let Some(rest) = piece.own.strip_prefix(b"validation loss: ") {
            self.validation = Cursor::new(rest).number();
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        if let Some(step) = self.step {
            self.validated(step + 1, rows);
        }
        self.fields.finish(rows);
        self.torn.finish(rows);
    }
}

impl Build {
    fn validated(&mut self, step: u64, rows: &mut Rows) {
        if let Some(value) = self.validation.take() {
            rows.begin(step);
            self.slots[1].set("val_loss", value, rows);
        }
    }

    fn entry(&mut self, step: u64, word: usize, text: &[u8], piece: &Piece<'_>, rows: &mut Rows) {
        let decimals = memchr::memchr(b'.', text).map_or(0, |at| text.len() - at - 1);
        if piece.open && decimals < self.decimals[word] {
            self.torn
                .lose(piece.line, "cut off before its end", piece.text, rows);
            return;
        }
        if let Some(value) = Cursor::new(text).number() {
            if value.is_finite() {
                self.decimals[word] = decimals;
            }
            rows.begin(step);
            self.slots[word].set(WORDS[word].1, value, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn the_console() {
        let text = include_bytes!("../../fixtures/logs/build-nanogpt/console.log");
        for lines in [5, usize::MAX] {
            let rows = read_in::<Build>(text, lines);
            assert_eq!(rows.steps, [0, 0, 1, 2, 2]);
            assert_eq!(column(&rows, "loss")[1..3], [Some(10.955_029), Some(9.5)]);
            assert_eq!(column(&rows, "grad_norm")[1], Some(15.5366));
            assert_eq!(column(&rows, "lr")[1], Some(8.3916e-7));
            assert_eq!(column(&rows, "val_loss")[0], Some(10.9512));
            assert_eq!(column(&rows, "val_loss")[3], Some(9.4));
            assert_eq!(column(&rows, "step_time_ms")[1], Some(3061.08));
            assert!(rows.losses.is_empty());
        }
        assert_eq!(sniff(text), 85);
    }

    #[test]
    fn the_log_file() {
        let text = include_bytes!("../../fixtures/logs/build-nanogpt/log.txt");
        for lines in [1, usize::MAX] {
            let rows = read_in::<Build>(text, lines);
            assert_eq!(rows.steps[..5], [0, 0, 0, 1, 250]);
            assert_eq!(column(&rows, "loss")[2..4], [Some(10.955_029), Some(9.5)]);
            assert_eq!(column(&rows, "val_loss")[0], Some(10.9512));
            assert_eq!(column(&rows, "hellaswag_accuracy")[1], Some(0.2463));
        }
        let rows = read_in::<Build>(text, usize::MAX);
        assert_eq!((rows.steps.len(), rows.losses.len()), (5, 1));
        assert_eq!(sniff(text), 70);
        assert_eq!(sniff(b"10 train tickets\n20 val d'or\nx\n"), 0);
    }

    #[test]
    fn damage_is_survived() {
        survives::<Build>(include_bytes!(
            "../../fixtures/logs/build-nanogpt/console.log"
        ));
    }
}
