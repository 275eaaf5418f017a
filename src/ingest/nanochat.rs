//! nanochat consoles: `step 00100/21400 (0.47%) | loss: 3.456789 | lrm: 1.00 | dt: 1234.56ms | tok/sec: 424,000 | …`.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::bars;
use crate::ingest::bars::Fields;
use crate::ingest::bars::Header;
use crate::ingest::fields;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::run::EventKind;
use crate::run::Rows;

/// nanochat, which counts steps from 0 and prints a running mean of the loss.
pub(super) const INGESTER: Ingester = Ingester {
    name: "nanochat",
    recognised_by: "`step N/M (…%) | loss: … | lrm: … | dt: …ms |` lines",
    signals: &["loss", "grad_norm", "step_time", "tokens_per_second", "mfu"],
    framework: Some("nanochat"),
    step_base: Some(0),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<NanoChat>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    let console = |p: &Piece<'_>| record(p.text).is_some_and(|h| bars::has(&h, &["lrm", "dt"]));
    if records::any(head, console) { 90 } else { 0 }
}

fn record(text: &[u8]) -> Option<Header<'_>> {
    let header = bars::header(text)?;
    let row = header.body.starts_with(b" loss: ") && header.percent;
    (row || header.body.starts_with(b" Validation ")).then_some(header)
}

#[derive(Default)]
struct NanoChat {
    fields: Fields,
}

impl Records for NanoChat {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        if let Some(header) = record(piece.text) {
            self.fields.read(&header, piece, rows);
        } else if let Some(path) = fields::after(piece.text, "Saved model parameters to: ") {
            let path = fields::path(path);
            let step = path
                .as_deref()
                .and_then(|p| fields::step_of_path(p.trim_end_matches(".pt")));
            rows.mark(EventKind::Saved, step, path);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.fields.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        let fact = "loss_smoothing".to_owned();
        rows.facts
            .entry(fact)
            .or_insert_with(|| "running mean, 0.9 a step".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn rows_validation_and_saves() {
        let text = include_bytes!("../../fixtures/logs/nanochat/base_train.log");
        for lines in [1, usize::MAX] {
            let rows = read_in::<NanoChat>(text, lines);
            assert_eq!(rows.steps, [0, 0, 100, 101, 102, 103]);
            let loss = column(&rows, "loss");
            assert_eq!(loss[1..4], [Some(11.0), Some(3.456_789), Some(3.5)]);
            assert!(loss[4].is_some_and(f64::is_nan));
            assert_eq!(column(&rows, "val_bpb")[0], Some(3.2));
            assert_eq!(column(&rows, "grad_norm")[3], Some(0.25));
            assert_eq!(column(&rows, "tokens_per_sec")[2], Some(424_000.0));
            assert_eq!(column(&rows, "mfu")[2], Some(48.2));
            assert_eq!(column(&rows, "lr"), [None; 6]);
            assert_eq!(marks(&rows, EventKind::Saved), [(5, Some(102))]);
            assert_eq!(rows.losses.len(), 1);
        }
        assert_eq!(sniff(text), 90);
    }

    #[test]
    fn damage_is_survived() {
        survives::<NanoChat>(include_bytes!(
            "../../fixtures/logs/nanochat/base_train.log"
        ));
    }
}
