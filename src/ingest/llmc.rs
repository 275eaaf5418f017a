//! llm.c consoles: `step    1/18865 | loss 10.99 (+nanz)| norm 15.3 (+nanz)| lr 8.57e-07 | …`.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::bars;
use crate::ingest::bars::Fields;
use crate::ingest::bars::Header;
use crate::ingest::fields;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::EventKind;
use crate::run::Rows;

/// The standard output of llm.c, which counts steps from 1.
pub(super) const INGESTER: Ingester = Ingester {
    name: "llm.c",
    recognised_by: "`step N/M | loss … | norm … | lr … | … ms | …` lines",
    signals: &[
        "loss",
        "grad_norm",
        "learning_rate",
        "val_loss",
        "step_time",
        "tokens_per_second",
        "mfu",
        "skipped",
    ],
    framework: Some("llm.c"),
    step_base: Some(1),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<LlmC>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    let console = |p: &Piece<'_>| record(p.text).is_some_and(|h| bars::has(&h, &["norm"]));
    if records::any(head, console) { 90 } else { 0 }
}

fn record(text: &[u8]) -> Option<Header<'_>> {
    let header = bars::header(text)?;
    let loss = header.body.trim_ascii_start();
    let ours = loss.starts_with(b"loss ") || loss.starts_with(b"train loss ");
    (header.total && !header.percent && ours).then_some(header)
}

/// Rows of the table of parameters that have a common name, or that are worth keeping under their own.
const FACTS: [(&str, &str); 12] = [
    ("sequence length T", "seq_length"),
    ("micro batch size B", "micro_batch_size"),
    ("num_processes", "data_parallel_size"),
    ("total batch size", "total_batch_size"),
    ("learning rate (LR)", "learning_rate"),
    ("warmup iterations", "warmup_iterations"),
    ("weight decay", "weight_decay"),
    ("skip update lossz", "skip_update_lossz"),
    ("skip update gradz", "skip_update_gradz"),
    ("precision", "precision"),
    ("num_parameters", "num_parameters"),
    ("output log dir", "output_log_dir"),
];

#[derive(Default)]
struct LlmC {
    fields: Fields,
    /// The last step of the chunk.
    step: Option<u64>,
    /// A validation loss that waits for the next step: it was measured before it.
    validation: Option<f64>,
    /// Whether the update of the next step was left out.
    left_out: bool,
    val_loss: Slot,
    skipped: Slot,
}

impl Records for LlmC {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        match record(piece.text) {
            Some(header) => self.row(&header, piece, rows),
            None => self.other(piece.own, rows),
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        if let Some(step) = self.step {
            self.validated(step, rows);
        }
        self.fields.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        records::settle_saves(rows);
    }
}

impl LlmC {
    fn row(&mut self, header: &Header<'_>, piece: &Piece<'_>, rows: &mut Rows) {
        self.validated(header.step.saturating_sub(1), rows);
        self.step = Some(header.step);
        self.fields.read(header, piece, rows);
        if std::mem::take(&mut self.left_out) {
            self.skipped.set("skipped_iterations", 1.0, rows);
        }
    }

    /// Puts the validation loss that waits into the row of the updates it was measured after.
    fn validated(&mut self, step: u64, rows: &mut Rows) {
        if let Some(value) = self.validation.take() {
            rows.begin(step);
            self.val_loss.set("val_loss", value, rows);
        }
    }

    fn other(&mut self, text: &[u8], rows: &mut Rows) {
        if let Some(rest) = text.strip_prefix(b"val loss ") {
            self.validation = Cursor::new(rest).number();
        } else if text.starts_with(b"skipping update due to") {
            self.left_out = true;
        } else if let Some(cell) = text.strip_prefix(b"| ") {
            parameter(cell, rows);
        } else if let Some((step, _)) = fields::step_after(text, "Writing checkpoint at step ") {
            rows.mark(EventKind::SaveStarted, Some(step), None);
        }
    }
}

/// `| sequence length T     | 1024      |`; its head tells that the program starts.
fn parameter(cell: &[u8], rows: &mut Rows) {
    let mut cells = cell.split(|b| *b == b'|').map(<[u8]>::trim_ascii);
    let (Some(name), Some(value), Some(b"")) = (cells.next(), cells.next(), cells.next()) else {
        return;
    };
    if name == b"Parameter" {
        rows.mark(EventKind::Start, None, None);
    }
    let known = FACTS.iter().find(|(printed, _)| printed.as_bytes() == name);
    if let Some((_, fact)) = known {
        let value = || String::from_utf8_lossy(value).into_owned();
        rows.facts.entry((*fact).to_owned()).or_insert_with(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn a_restart_a_skip_and_a_torn_line() {
        let text = include_bytes!("../../fixtures/logs/llm.c/console.log");
        for lines in [9, usize::MAX] {
            let rows = read_in::<LlmC>(text, lines);
            assert_eq!(rows.steps, [0, 1, 2, 3, 3, 4, 2, 3, 4, 5]);
            let loss = column(&rows, "loss");
            assert_eq!(loss[1..4], [Some(11.009), Some(10.95), Some(10.5)]);
            assert!(loss[5].is_some_and(f64::is_nan));
            assert_eq!(loss[9], None);
            assert_eq!(column(&rows, "grad_norm")[8], Some(2.5));
            assert!(column(&rows, "grad_norm")[5].is_some_and(f64::is_nan));
            assert_eq!(column(&rows, "val_loss")[0], Some(11.01));
            assert_eq!(column(&rows, "val_loss")[4], Some(10.4));
            assert_eq!(column(&rows, "val_loss")[6], Some(10.6));
            assert_eq!(column(&rows, "lr")[1], Some(8.57e-7));
            assert_eq!(column(&rows, "step_time_ms")[2], Some(3006.5));
            assert_eq!(column(&rows, "tokens_per_sec")[2], Some(172_000.0));
            assert_eq!(column(&rows, "mfu")[2], Some(42.9));
            assert_eq!(rows.facts["seq_length"], "1024");
            assert_eq!(marks(&rows, EventKind::Start), [(0, None), (6, None)]);
            assert_eq!(rows.losses.len(), 1);
        }
        let rows = read_in::<LlmC>(text, usize::MAX);
        assert_eq!(column(&rows, "skipped_iterations")[8], Some(1.0));
        assert_eq!(marks(&rows, EventKind::Saved), [(4, Some(3))]);
        assert_eq!(sniff(text), 90);
    }

    /// Figures from a separate reading of the files by regular expression.
    #[test]
    fn a_real_run_and_one_that_is_all_nan() {
        let path = "corpus/llmc-console__a100-gpt2-124M-";
        let Some(text) = shared(&format!("{path}11672114.log")) else {
            return;
        };
        let rows = read_in::<LlmC>(&text, usize::MAX);
        // 750 rows and 4 validations: before the first step, and after steps that have rows.
        assert_eq!(rows.steps.len(), 754);
        assert_eq!((rows.steps[0], rows.steps[753]), (0, 750));
        adds_up(&rows, "loss", 750, 4_539.182_203);
        adds_up(&rows, "grad_norm", 750, 813.4024);
        adds_up(&rows, "lr", 750, 0.240_299_567);
        adds_up(&rows, "step_time_ms", 750, 3_157_148.78);
        adds_up(&rows, "tokens_per_sec", 750, 93_459_854.0);
        let val: Vec<f64> = column(&rows, "val_loss").into_iter().flatten().collect();
        assert_eq!(val, [11.008_742, 6.208_999, 5.421_806, 4.723_455]);
        assert!(rows.losses.is_empty());
        let Some(text) = shared(&format!("{path}11672255.log")) else {
            return;
        };
        let rows = read_in::<LlmC>(&text, usize::MAX);
        // The last line was cut off behind its loss by the end of the job.
        adds_up(&rows, "loss", 902, 0.0);
        adds_up(&rows, "grad_norm", 901, 0.0);
        adds_up(&rows, "lr", 901, 0.330_899_567);
        assert_eq!(rows.losses.len(), 1);
    }

    #[test]
    fn damage_is_survived() {
        survives::<LlmC>(include_bytes!("../../fixtures/logs/llm.c/console.log"));
    }
}
