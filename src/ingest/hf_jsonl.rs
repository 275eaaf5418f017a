//! The JSON lines that LLaMA-Factory and ms-swift write beside the Hugging Face Trainer's own files.

use std::borrow::Cow;

use memchr::memmem;

use crate::ingest::Ingester;
use crate::ingest::LineReader;
use crate::ingest::Reader;
use crate::ingest::jsonl::JsonLines;
use crate::ingest::records;
use crate::run::Rows;

/// LLaMA-Factory's `trainer_log.jsonl`. Loss is the mean since the line before; steps count from 1.
pub(super) const LLAMA_FACTORY: Ingester = Ingester {
    name: "llama-factory",
    recognised_by: "JSON lines with `current_steps` and `total_steps`",
    signals: &["loss", "learning_rate", "epoch", "val_loss"],
    framework: Some("llama-factory"),
    step_base: Some(1),
    averaged: true,
    interleaved: false,
    sniff: sniff_llama_factory,
    reader: Reader::Lines(|_| Box::new(HfJsonl)),
};

/// ms-swift's `logging.jsonl`. Loss is the mean since the line before; steps count from 1.
pub(super) const MS_SWIFT: Ingester = Ingester {
    name: "ms-swift",
    recognised_by: "JSON lines with `global_step/max_steps`, or with `iteration` as `N/M`",
    signals: &[
        "loss",
        "grad_norm",
        "learning_rate",
        "epoch",
        "val_loss",
        "step_time",
    ],
    framework: Some("ms-swift"),
    step_base: Some(1),
    averaged: true,
    interleaved: false,
    sniff: sniff_ms_swift,
    reader: Reader::Lines(|_| Box::new(HfJsonl)),
};

/// Whether the start of a log has an object that is one by `is_ours`.
fn any_object(head: &[u8], is_ours: impl Fn(&[u8]) -> bool) -> bool {
    records::any(head, |p| {
        let line = p.own.trim_ascii();
        line.starts_with(b"{") && line.ends_with(b"}") && is_ours(line)
    })
}

fn has(line: &[u8], text: &str) -> bool {
    memmem::find(line, text.as_bytes()).is_some()
}

fn sniff_llama_factory(head: &[u8]) -> u8 {
    let ours = |l: &[u8]| has(l, "\"current_steps\":") && has(l, "\"total_steps\":");
    if any_object(head, ours) { 80 } else { 0 }
}

/// Surer than a `trainer_state.json`: the last line has a history in it too.
fn sniff_ms_swift(head: &[u8]) -> u8 {
    let ours = |l: &[u8]| has(l, "\"global_step/max_steps\":") || fraction(l).is_some();
    if any_object(head, ours) { 97 } else { 0 }
}

/// Newer versions count as `"iteration": "10/100"`.
fn fraction(line: &[u8]) -> Option<()> {
    const KEY: &[u8] = b"\"iteration\": \"";
    let at = memmem::find(line, KEY)?;
    let rest = &line[at + KEY.len()..];
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    (digits > 0 && rest[digits..].starts_with(b"/")).then_some(())
}

/// Keys of the lines at the end that sum the run up: they are no rows.
const SUMMARIES: [&str; 2] = ["\"train_runtime\":", "\"log_history\":"];

struct HfJsonl;

impl LineReader for HfJsonl {
    fn chunk(&self, chunk: &[u8], rows: &mut Rows) {
        JsonLines.chunk(&without_summaries(chunk), rows);
    }
}

/// The chunk with such lines left empty, so that the others keep their numbers.
fn without_summaries(chunk: &[u8]) -> Cow<'_, [u8]> {
    if !SUMMARIES.iter().any(|s| has(chunk, s)) {
        return Cow::Borrowed(chunk);
    }
    let mut out = Vec::with_capacity(chunk.len());
    for line in chunk.split_inclusive(|b| *b == b'\n') {
        if !SUMMARIES.iter().any(|s| has(line, s)) {
            out.extend_from_slice(line);
        } else if line.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::adds_up;
    use crate::ingest::records::testing::column;
    use crate::ingest::records::testing::shared;

    fn read(text: &[u8]) -> Rows {
        let mut rows = Rows::default();
        HfJsonl.chunk(text, &mut rows);
        HfJsonl.settle(&mut rows);
        rows
    }

    #[test]
    fn nulls_and_the_last_line_have_no_loss() {
        let text = include_bytes!("../../fixtures/logs/llama-factory/trainer_log.jsonl");
        let rows = read(text);
        assert_eq!(rows.steps, [5, 10, 10, 15, 20]);
        let loss = [Some(2.5), Some(2.25), None, None, None];
        assert_eq!(column(&rows, "loss"), loss);
        assert_eq!(column(&rows, "eval_loss")[2], Some(2.5));
        assert_eq!(rows.losses.len(), 1);
        assert_eq!(sniff_llama_factory(text), 80);
        assert_eq!(sniff_ms_swift(text), 0);
    }

    #[test]
    fn summaries_are_no_rows() {
        let text = include_bytes!("../../fixtures/logs/ms-swift/logging.jsonl");
        let rows = read(text);
        assert_eq!(rows.steps, [1, 10, 10, 20]);
        let loss = column(&rows, "loss");
        assert_eq!(loss[..3], [Some(2.5), Some(2.25), None]);
        assert!(loss[3].is_some_and(f64::is_nan));
        assert_eq!(column(&rows, "eval_loss")[2], Some(2.375));
        assert_eq!(column(&rows, "train_speed(s/it)")[1], Some(1.5));
        assert!(rows.find("train_loss").is_none());
        // The line behind the summaries is cut off, and keeps its number.
        assert_eq!(rows.losses.len(), 1);
        assert_eq!(rows.losses[0].place, "line +6");
        assert_eq!(sniff_ms_swift(text), 97);
    }

    /// Figures from a separate reading of the file as JSON.
    #[test]
    fn a_real_run() {
        let Some(text) = shared("corpus/llamafactory-trainer-log-jsonl__nsllm.jsonl") else {
            return;
        };
        let rows = read(&text);
        assert_eq!(rows.steps.len(), 436);
        assert_eq!((rows.steps[0], rows.steps[435]), (5, 2178));
        adds_up(&rows, "loss", 435, 867.8893);
        adds_up(&rows, "epoch", 436, 218.621_304_915_305_33);
        assert!(rows.losses.is_empty());
        assert_eq!(sniff_llama_factory(&text), 80);
    }
}
