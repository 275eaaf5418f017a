//! `MaxText`: the console line `completed step: 12, seconds: …, loss: …` and the metrics file with one object a step.

use crate::ingest::Ingester;
use crate::ingest::LineReader;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::jsonl;
use crate::ingest::number;
use crate::ingest::ranks;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::run::EventKind;
use crate::run::Rows;

/// The console. Steps count from 0; every host prints the same loss.
pub(super) const INGESTER: Ingester = Ingester {
    name: "maxtext",
    recognised_by: "`completed step: N, seconds: …, loss: …` lines",
    signals: &[
        "loss",
        "loss_ce",
        "step_time",
        "tflops_per_device",
        "tokens_per_second_per_device",
        "moe_aux_loss",
        "mtp_loss",
    ],
    framework: Some("maxtext"),
    step_base: Some(0),
    averaged: false,
    interleaved: true,
    sniff: sniff_console,
    reader: Reader::Lines(Console::<Completed>::boxed),
};

/// The file of metrics.
pub(super) const METRICS: Ingester = Ingester {
    name: "maxtext-metrics",
    recognised_by: "lines of JSON with `step` and `learning/loss`",
    signals: &[
        "loss",
        "grad_norm",
        "grad_norm_clipped",
        "param_norm",
        "learning_rate",
        "max_attention_logit",
        "step_time",
        "tflops_per_device",
    ],
    framework: Some("maxtext"),
    step_base: Some(0),
    averaged: false,
    interleaved: false,
    sniff: sniff_metrics,
    reader: Reader::Lines(metrics),
};

fn sniff_console(head: &[u8]) -> u8 {
    let ours = |p: &Piece<'_>| {
        record(p.text).is_some_and(|(_, body)| fields::after(body, "loss: ").is_some())
    };
    if records::any(head, ours) { 92 } else { 0 }
}

fn sniff_metrics(head: &[u8]) -> u8 {
    let has = |line: &[u8], name: &str| fields::after(line, name).is_some();
    let ours = |line: &[u8]| {
        line.starts_with(b"{") && has(line, "\"learning/loss\":") && has(line, "\"step\":")
    };
    if !records::any(head, |p| ours(p.own)) {
        return 0;
    }
    match (jsonl::INGESTER.sniff)(head) {
        sure if sure > 10 => sure + 20,
        _ => 0,
    }
}

/// The step of a line and its fields. Lines around a profile name that too.
fn record(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut cursor = Cursor::new(fields::after(text, "completed ")?);
    if cursor.eat("step: ").is_none() {
        cursor.eat("profiler activation/deactivation step: ")?;
    }
    let step = cursor.digits()?;
    cursor.eat(", ")?;
    Some((step, cursor.rest()))
}

struct Completed {
    names: Names,
    torn: Torn,
}

impl Default for Completed {
    fn default() -> Self {
        Self {
            names: Names::new(|name| Some(column(name))),
            torn: Torn::default(),
        }
    }
}

fn column(name: &str) -> &str {
    match name {
        // The loss without the auxiliary ones.
        "lm_loss" | "main_model_loss" => "loss_ce",
        "moe_lb_loss" => "moe_aux_loss",
        name => name,
    }
}

impl Records for Completed {
    const ONE_ROW_A_STEP: bool = false;

    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let Some((step, body)) = record(piece.text) else {
            event(piece.text, rows);
            return;
        };
        rows.begin(step);
        self.names.begin();
        for (name, value, last) in fields::pairs(body, ", ", ": ") {
            let cut = piece.open && last;
            match number::number(value).filter(|_| !cut) {
                Some(number) => {
                    if let Some(slot) = self.names.slot(name, rows) {
                        rows.set(slot, number);
                    }
                }
                None => self.torn.lose(piece.line, "not a whole field", value, rows),
            }
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        ranks::settle(rows, "loss");
    }
}

fn event(text: &[u8], rows: &mut Rows) {
    const EVENTS: [(&str, EventKind); 3] = [
        ("aved a checkpoint at step", EventKind::Saved),
        (
            "tarted an asynchronous checkpoint save for step",
            EventKind::SaveStarted,
        ),
        (
            "restoring from this run's directory step",
            EventKind::Loaded,
        ),
    ];
    for (words, kind) in EVENTS {
        // A checkpoint is named after the step that was done last, which counts from 0.
        if let Some((step, _)) = fields::step_after(text, words) {
            rows.mark(kind, Some(step + 1), None);
        }
    }
    if fields::after(text, "Aborting training due to NaN loss").is_some() {
        rows.mark(EventKind::Exit, None, None);
    }
}

/// Reads the metrics as any lines of JSON.
struct Metrics(Box<dyn LineReader>);

fn metrics(head: &[u8]) -> Box<dyn LineReader> {
    let Reader::Lines(make) = jsonl::INGESTER.reader else {
        unreachable!("it is read by lines")
    };
    Box::new(Metrics(make(head)))
}

impl LineReader for Metrics {
    fn chunk(&self, chunk: &[u8], rows: &mut Rows) {
        self.0.chunk(chunk, rows);
    }

    /// `learning/grad_norm` is that after clipping in versions that log the raw norm too. Before, it was the raw one.
    fn settle(&self, rows: &mut Rows) {
        self.0.settle(rows);
        let norm = rows
            .find("learning/grad_norm")
            .filter(|_| rows.find("learning/raw_grad_norm").is_none());
        if let Some(norm) = norm {
            let column = std::mem::take(rows.column_mut(norm));
            rows.put("learning/raw_grad_norm", column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{adds_up, column, marks, read_in, shared, survives};

    #[test]
    fn hosts_print_the_same_steps() {
        let text = include_bytes!("../../fixtures/logs/maxtext/console.log");
        assert_eq!((sniff_console(text), sniff_metrics(text)), (92, 0));
        for lines in [1, 2, usize::MAX] {
            let rows = read_in::<Completed>(text, lines);
            assert_eq!(rows.steps, [0, 0, 1, 1, 2, 1, 2]);
            let loss = column(&rows, "loss");
            assert_eq!(loss[..4], [8.123, 8.123, 7.5, 7.5].map(Some));
            assert!(loss[4].is_some_and(f64::is_nan));
            assert_eq!(loss[5..], [Some(7.75), Some(7.0)]);
            assert_eq!(column(&rows, "loss_ce")[0], Some(8.0));
            assert_eq!(column(&rows, "seconds")[0], Some(1.234));
            assert_eq!(column(&rows, "Tokens/s/device")[1], Some(5120.001));
            assert_eq!(marks(&rows, EventKind::SaveStarted), [(4, Some(2))]);
            assert_eq!(marks(&rows, EventKind::Exit), [(5, None)]);
            assert_eq!(marks(&rows, EventKind::Loaded), [(5, Some(1))]);
            assert_eq!(rows.losses.len(), 1);
        }
    }

    #[test]
    fn other_lines_are_no_steps() {
        let text = b"completed step: 12\ncompleted 12, loss: 3\nsteps completed step: x, loss: 1\n";
        assert!(read_in::<Completed>(text, 1).steps.is_empty());
        assert_eq!(sniff_metrics(b"{\"step\": 1, \"loss\": 2.0}\n"), 0);
    }

    #[test]
    fn damage_does_no_harm() {
        survives::<Completed>(include_bytes!("../../fixtures/logs/maxtext/console.log"));
    }

    fn read_metrics(text: &[u8]) -> Rows {
        let mut rows = Rows::default();
        let reader = metrics(text);
        reader.chunk(text, &mut rows);
        reader.settle(&mut rows);
        rows
    }

    #[test]
    fn a_clipped_norm_stays_what_it_is() {
        let text = include_bytes!("../../fixtures/logs/maxtext/metrics.txt");
        assert_eq!(sniff_metrics(text), 70);
        let rows = read_metrics(text);
        assert_eq!(rows.steps, [99, 100]);
        assert_eq!(
            column(&rows, "learning/raw_grad_norm"),
            [Some(3.5), Some(2.5)]
        );
        assert_eq!(column(&rows, "learning/grad_norm"), [Some(1.0), Some(1.0)]);
        assert!(column(&rows, "learning/loss")[1].is_some_and(f64::is_nan));
    }

    /// Counts and sums taken with a short script and a JSON parser.
    #[test]
    fn the_shared_logs() {
        let Some(text) = shared("corpus/maxtext-metrics-jsonl__manual-test-param-norm.txt") else {
            return;
        };
        assert_eq!(sniff_metrics(&text), 70);
        let rows = read_metrics(&text);
        assert_eq!(
            (rows.steps.len(), rows.steps[0], rows.steps[95]),
            (96, 0, 95)
        );
        for (name, total) in SUMS {
            adds_up(&rows, name, 96, total);
        }
        assert!(
            column(&rows, "learning/grad_norm")
                .iter()
                .all(Option::is_none)
        );
        let text = shared("samples/synthetic/mixed.log").unwrap();
        let rows = read_in::<Completed>(&text, 1);
        assert_eq!(
            (&rows.steps[..], column(&rows, "perplexity")[0]),
            (&[12][..], Some(3371.123))
        );
    }

    const SUMS: [(&str, f64); 3] = [
        ("learning/loss", 683.634_078_979_492_2),
        ("learning/raw_grad_norm", 117_632.509_056_091_31),
        ("learning/param_norm", 788_151.523_437_5),
    ];
}
