//! Composer's file logger: one metric a line, `[metric][batch=12]: l2_norm/grad/global: 1.2345 `.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::composer;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::number;
use crate::ingest::ranks;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::run::Rows;

/// The file logger. Its batches count from 0.
pub(in crate::ingest) const INGESTER: Ingester = Ingester {
    name: "composer-file",
    recognised_by: "`[metric][batch=N]: name: value` lines",
    signals: composer::SIGNALS,
    framework: Some("composer"),
    step_base: Some(0),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Metrics>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    if records::any(head, |p| metric(p.own).is_some()) {
        92
    } else {
        0
    }
}

/// The batch, the name and the value of a line. Metrics before the first batch have none.
fn metric(text: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let mut cursor = Cursor::new(text);
    cursor.eat("[metric][batch=")?;
    let step = cursor.digits()?;
    cursor.eat("]: ")?;
    let rest = cursor.rest();
    let middle = memchr::memmem::find(rest, b": ")?;
    Some((step, &rest[..middle], rest[middle + 2..].trim_ascii()))
}

struct Metrics {
    names: Names,
    torn: Torn,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            names: Names::new(composer::column),
            torn: Torn::default(),
        }
    }
}

impl Records for Metrics {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let text = piece.own;
        let Some((step, name, value)) = metric(text) else {
            composer::event(text, rows);
            return;
        };
        if piece.open {
            self.torn.lose(piece.line, "not a whole line", text, rows);
            return;
        }
        // Words, such as `None`, are no values.
        let Some(value) = number::number(value) else {
            return;
        };
        if rows.steps.last() != Some(&step) {
            rows.begin(step);
            self.names.begin();
        }
        if let Some(slot) = self.names.slot(name, rows) {
            rows.set(slot, value);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        ranks::once(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{column, marks, read_in, shared, survives};
    use crate::run::EventKind;

    #[test]
    fn metrics_of_a_batch_are_a_row() {
        let text = include_bytes!("../../../fixtures/logs/composer/metrics.txt");
        assert_eq!((sniff(text), (composer::INGESTER.sniff)(text)), (92, 0));
        let rows = read_in::<Metrics>(text, usize::MAX);
        assert_eq!(rows.steps, [0, 1, 2]);
        let loss = column(&rows, "loss/train/total");
        assert_eq!(loss[..2], [Some(11.652_512_3), Some(10.5)]);
        assert!(loss[2].is_some_and(f64::is_nan));
        assert_eq!(column(&rows, "lr-DecoupledAdamW/group0")[1], Some(6e-6));
        assert_eq!(column(&rows, "time/token")[1], Some(2048.0));
        assert_eq!(marks(&rows, EventKind::Saved), [(2, Some(2))]);
        assert_eq!(rows.losses.len(), 1);
        // A batch that two chunks share is two rows of one step.
        assert!(read_in::<Metrics>(text, 1).steps.is_sorted());
    }

    #[test]
    fn damage_does_no_harm() {
        survives::<Metrics>(include_bytes!(
            "../../../fixtures/logs/composer/metrics.txt"
        ));
    }

    #[test]
    fn the_line_in_the_shared_log() {
        let Some(text) = shared("samples/synthetic/mixed.log") else {
            return;
        };
        let rows = read_in::<Metrics>(&text, usize::MAX);
        assert_eq!(rows.steps, [12]);
        assert_eq!(column(&rows, "l2_norm/grad/global"), [Some(1.2345)]);
    }
}
