//! nanoGPT consoles: `iter 250: loss 3.4567, time 561.94ms, mfu 41.20%` and `step 500: train loss 3.40, val loss 3.43`.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Torn;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::EventKind;
use crate::run::Rows;

/// nanoGPT and its many copies. Steps count from 0; the loss is that of the last micro-batch of one rank.
pub(super) const INGESTER: Ingester = Ingester {
    name: "nanogpt",
    recognised_by: "`iter N: loss …, time …ms` and `step N: train loss …, val loss …` lines",
    signals: &["loss", "val_loss", "step_time", "mfu"],
    framework: Some("nanogpt"),
    step_base: Some(0),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<NanoGpt>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    if records::any(head, |p| begins(p.text).is_some()) {
        90
    } else if records::any(head, |p| {
        evaluation(p.text).is_some_and(|e| e.validation.is_some())
    }) {
        60
    } else {
        0
    }
}

/// Whether a piece begins as a record does.
fn begins(text: &[u8]) -> Option<()> {
    let (_, mut cursor) = step(text, "iter ")?;
    cursor.eat(" loss ")?;
    cursor.number()?;
    cursor.eat(", time ")
}

/// The step after a word and before a colon, wherever they stand, and what follows.
fn step<'a>(text: &'a [u8], word: &str) -> Option<(u64, Cursor<'a>)> {
    let mut cursor = Cursor::new(text);
    cursor.find(word)?;
    let step = cursor.digits()?;
    cursor.eat(":")?;
    Some((step, cursor))
}

/// Losses estimated over some batches of each set.
struct Evaluation {
    step: u64,
    training: f64,
    /// Missing if the line is cut off.
    validation: Option<f64>,
}

fn evaluation(text: &[u8]) -> Option<Evaluation> {
    let (step, mut cursor) = step(text, "step ")?;
    cursor.eat(" train loss ")?;
    let training = cursor.number()?;
    let validation = cursor.eat(", val loss ").and_then(|()| cursor.number());
    Some(Evaluation {
        step,
        training,
        validation,
    })
}

#[derive(Default)]
struct NanoGpt {
    loss: Slot,
    time: Slot,
    mfu: Slot,
    training: Slot,
    validation: Slot,
    torn: Torn,
}

impl Records for NanoGpt {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        if let Some((step, cursor)) = step(piece.text, "iter ") {
            self.row(step, cursor, piece, rows);
        } else if let Some(found) = evaluation(piece.text) {
            self.evaluation(&found, piece, rows);
        } else {
            event(piece.own, rows);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        records::settle_saves(rows);
        records::settle_overwritten(rows);
    }
}

impl NanoGpt {
    fn row(&mut self, step: u64, mut cursor: Cursor<'_>, piece: &Piece<'_>, rows: &mut Rows) {
        let loss = cursor.eat(" loss ").and_then(|()| cursor.number());
        // The comma tells that the number is whole.
        let Some(loss) = loss.filter(|_| cursor.rest().starts_with(b",")) else {
            self.torn
                .lose(piece.line, "not a whole record", piece.text, rows);
            return;
        };
        rows.begin(step);
        self.loss.set("loss", loss, rows);
        if cursor.eat(", time ").is_some()
            && let Some(time) = cursor.number()
            && cursor.eat("ms").is_some()
        {
            self.time.set("step_time_ms", time, rows);
        }
        // Before it can be estimated it is -100.
        if cursor.eat(", mfu ").is_some()
            && let Some(mfu) = cursor.number().filter(|v| *v >= 0.0)
            && cursor.eat("%").is_some()
        {
            self.mfu.set("mfu", mfu, rows);
        }
    }

    fn evaluation(&mut self, found: &Evaluation, piece: &Piece<'_>, rows: &mut Rows) {
        rows.begin(found.step);
        self.training.set("eval/train_loss", found.training, rows);
        match found.validation.filter(|_| !piece.open) {
            Some(value) => self.validation.set("val_loss", value, rows),
            None => self
                .torn
                .lose(piece.line, "cut off before its end", piece.text, rows),
        }
    }
}

/// Starts, resumptions and saves.
fn event(text: &[u8], rows: &mut Rows) {
    if let Some(folder) = text.strip_prefix(b"saving checkpoint to ") {
        rows.mark(EventKind::SaveStarted, None, fields::path(folder));
    } else if text.starts_with(b"Initializing a new model from scratch") {
        rows.mark(EventKind::Start, None, None);
    } else if let Some(folder) = text.strip_prefix(b"Resuming training from ") {
        rows.mark(EventKind::Loaded, None, fields::path(folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn evaluations_a_resume_and_a_torn_line() {
        let text = include_bytes!("../../fixtures/logs/nanogpt/train.log");
        for lines in [4, usize::MAX] {
            let rows = read_in::<NanoGpt>(text, lines);
            assert_eq!(rows.steps, [0, 0, 10, 500, 500, 510, 500, 500, 510]);
            let loss = column(&rows, "loss");
            assert_eq!(loss[..3], [None, Some(10.9), Some(9.5)]);
            assert!(loss[5].is_some_and(f64::is_nan));
            assert_eq!(column(&rows, "val_loss")[3], Some(3.431));
            assert_eq!(column(&rows, "eval/train_loss")[3], Some(3.4001));
            assert_eq!(column(&rows, "mfu")[1..3], [None, Some(41.2)]);
            assert_eq!(column(&rows, "step_time_ms")[2], Some(561.94));
            assert_eq!(marks(&rows, EventKind::Start), [(0, None)]);
            assert!(marks(&rows, EventKind::Deleted).is_empty());
            assert_eq!(marks(&rows, EventKind::Loaded), [(6, None)]);
            assert_eq!(
                marks(&rows, EventKind::Saved),
                [(4, Some(500)), (8, Some(500))]
            );
            assert_eq!(rows.losses.len(), 1);
        }
        assert_eq!(sniff(text), 90);
        assert_eq!(sniff(b"Epoch 1 | iter 64 step 4 | loss train: 10.123"), 0);
    }

    /// Figures from a separate reading of the file by regular expression.
    #[test]
    fn a_real_run() {
        let Some(text) = shared("corpus/nanogpt-console-wandb-output__char-model-a.log") else {
            return;
        };
        let rows = read_in::<NanoGpt>(&text, 1000);
        assert_eq!(rows.steps.len(), 2167);
        assert_eq!((rows.steps[0], rows.steps[2166]), (0, 2155));
        adds_up(&rows, "loss", 2156, 1857.377);
        adds_up(&rows, "step_time_ms", 2156, 578_301.79);
        adds_up(&rows, "mfu", 2151, 230_756.91);
        adds_up(&rows, "val_loss", 11, 32.9806);
        adds_up(&rows, "eval/train_loss", 11, 12.3151);
        let burst = rows.steps.iter().position(|s| *s == 1685);
        assert_eq!(
            burst.and_then(|row| column(&rows, "loss")[row]),
            Some(0.8024)
        );
        // Every save went over the one before it.
        assert_eq!(marks(&rows, EventKind::Saved).len(), 10);
        let gone = marks(&rows, EventKind::Deleted);
        assert_eq!(gone.last().map(|(_, step)| *step), Some(Some(1800)));
        assert!(rows.losses.is_empty());
    }

    #[test]
    fn damage_is_survived() {
        survives::<NanoGpt>(include_bytes!("../../fixtures/logs/nanogpt/train.log"));
    }
}
