//! nanotron consoles: `iteration: 100 / 18000 | consumed_tokens: 210M | … | lm_loss: 3.21 | …`.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::ranks;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::run::EventKind;
use crate::run::Rows;

/// nanotron. Its console has three digits of every value, the loss too.
pub(super) const INGESTER: Ingester = Ingester {
    name: "nanotron",
    recognised_by: "`iteration: N / M | consumed_tokens: … | lm_loss: …` lines",
    signals: &[
        "loss",
        "grad_norm",
        "learning_rate",
        "consumed_tokens",
        "step_time",
        "tokens_per_second",
        "tflops_per_device",
        "time",
    ],
    framework: Some("nanotron"),
    step_base: Some(1),
    averaged: false,
    interleaved: true,
    sniff,
    reader: Reader::Lines(Console::<Iterations>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    let ours = |p: &Piece<'_>| {
        record(p.text).is_some_and(|r| {
            ["consumed_", "lm_loss: "]
                .iter()
                .any(|n| fields::after(r.body, n).is_some())
        })
    };
    if records::any(head, ours) { 93 } else { 0 }
}

struct Record<'a> {
    step: u64,
    /// The fields, from the first bar on.
    body: &'a [u8],
    /// What stands before it.
    before: &'a [u8],
}

/// `iteration: N / M | `, at any place in the line.
fn record(text: &[u8]) -> Option<Record<'_>> {
    const ANCHOR: &str = "iteration: ";
    let at = memchr::memmem::find(text, ANCHOR.as_bytes())?;
    let mut cursor = Cursor::new(&text[at + ANCHOR.len()..]);
    let step = cursor.digits()?;
    cursor.eat(" / ")?;
    cursor.digits()?;
    cursor.eat(" | ")?;
    Some(Record {
        step,
        body: cursor.rest(),
        before: &text[..at],
    })
}

struct Iterations {
    /// The fields of 2024, when a batch was counted in samples.
    old: Names,
    /// The fields since 2025, when it is counted in tokens.
    new: Names,
    torn: Torn,
}

impl Default for Iterations {
    fn default() -> Self {
        Self {
            old: Names::new(column),
            new: Names::new(|name| match name {
                "global_batch_size" => Some("global_batch_tokens"),
                name => column(name),
            }),
            torn: Torn::default(),
        }
    }
}

/// The memory of the first process is no signal.
fn column(name: &str) -> Option<&str> {
    let memory = ["cuda_", "hd_"].iter().any(|p| name.starts_with(p));
    (!memory && name != "eta").then_some(name)
}

impl Records for Iterations {
    const ONE_ROW_A_STEP: bool = false;

    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let Some(record) = record(piece.text) else {
            event(piece.text, rows);
            return;
        };
        rows.begin(record.step);
        // Later versions leave out the year.
        if let Some(time) = fields::american_time(record.before) {
            let slot = rows.slot("time");
            rows.set(slot, time);
        }
        let old = fields::after(record.body, "elapsed_time_per_iteration_ms: ").is_some();
        let names = if old { &mut self.old } else { &mut self.new };
        names.begin();
        for (name, value, last) in fields::pairs(record.body, " | ", ": ") {
            let cut = piece.open && last;
            match fields::human(value).filter(|_| !cut) {
                Some(number) => {
                    if let Some(slot) = names.slot(name, rows) {
                        rows.set(slot, number);
                    }
                }
                None if name == b"eta" => {}
                None => self.torn.lose(piece.line, "not a whole field", value, rows),
            }
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        ranks::settle(rows, "lm_loss");
        records::settle_saves(rows);
        if !rows.steps.is_empty() {
            rows.facts.insert("loss_digits".to_owned(), "3".to_owned());
            // The rate is read after the scheduler's step: it is that of the next update.
            rows.facts.insert("lr_offset".to_owned(), "1".to_owned());
        }
    }
}

/// The line that a process begins with, and saves. A save is written before training goes on.
fn event(text: &[u8], rows: &mut Rows) {
    if let Some((step, _)) = fields::step_after(text, "start_iteration_step: ") {
        if step > 0 {
            rows.mark(EventKind::Loaded, Some(step), None);
        } else {
            rows.mark(EventKind::Start, None, None);
        }
        facts(text, rows);
    } else if let Some(path) = fields::after(text, "Saving checkpoint at ").and_then(fields::path) {
        rows.mark(
            EventKind::SaveStarted,
            fields::step_of_path(&path),
            Some(path),
        );
    }
}

fn facts(text: &[u8], rows: &mut Rows) {
    const FACTS: [(&[u8], &str); 4] = [
        (b"mbs", "micro_batch_size"),
        (b"global_batch_size", "global_batch_size"),
        (b"sequence_length", "seq_length"),
        (b"train_steps", "train_steps"),
    ];
    for (name, value, _) in fields::pairs(text, " | ", ": ") {
        if let Some((_, fact)) = FACTS.iter().find(|(n, _)| name.ends_with(n)) {
            let value = String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
            rows.facts.entry((*fact).to_owned()).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{column, marks, read_in, shared, survives};

    #[test]
    fn new_headers_ranks_and_a_restart() {
        let text = include_bytes!("../../fixtures/logs/nanotron/restart.log");
        assert_eq!(sniff(text), 93);
        for lines in [1, 2, usize::MAX] {
            let rows = read_in::<Iterations>(text, lines);
            assert_eq!(rows.steps, [1, 1, 11, 11, 21, 11, 21]);
            let loss = [11.2, 11.2, 10.9, 10.9, 10.5, 10.8, 10.4];
            assert_eq!(column(&rows, "lm_loss"), loss.map(Some));
            assert_eq!(column(&rows, "consumed_tokens")[2], Some(23.1e6));
            assert_eq!(column(&rows, "time_per_iteration_ms")[0], Some(1050.0));
            assert_eq!(column(&rows, "grad_norm")[4], Some(5.99e6));
            assert_eq!(column(&rows, "global_batch_tokens")[0], Some(2.1e6));
            assert!(rows.find("global_batch_size").is_none() && rows.find("time").is_none());
            assert_eq!(marks(&rows, EventKind::Start), [(0, None)]);
            assert_eq!(marks(&rows, EventKind::Saved), [(4, Some(11))]);
            assert_eq!(marks(&rows, EventKind::Loaded), [(5, Some(10))]);
            assert_eq!(rows.facts["seq_length"], "4096");
            assert_eq!(rows.facts["lr_offset"], "1");
            assert_eq!(rows.losses.len(), 1);
        }
    }

    #[test]
    fn old_headers_count_a_batch_in_samples() {
        let rows = read_in::<Iterations>(
            b"[0012:0]:11/01/2026 11:05:18 [INFO|DP=0|PP=0|TP=0|n]: iteration: 7 / 175 | consumed_tokens: 25.2G | elapsed_time_per_iteration_ms: 28.2K | \
              global_batch_size: 1.02K | lm_loss: nan | lr: 0.0003 | cuda_memory_allocated: 1.2G | hd_total_memory_tb: 1T | grad_norm: inf\n",
            1,
        );
        assert_eq!(rows.steps, [7]);
        assert_eq!(column(&rows, "global_batch_size"), [Some(1020.0)]);
        assert_eq!(column(&rows, "consumed_tokens"), [Some(25.2e9)]);
        assert!(column(&rows, "lm_loss")[0].is_some_and(f64::is_nan));
        assert_eq!(column(&rows, "grad_norm"), [Some(f64::INFINITY)]);
        assert_eq!(column(&rows, "time"), [Some(1_793_531_118_000.0)]);
        assert!(rows.find("cuda_memory_allocated").is_none());
    }

    #[test]
    fn damage_does_no_harm() {
        survives::<Iterations>(include_bytes!("../../fixtures/logs/nanotron/restart.log"));
    }

    #[test]
    fn one_line_of_each_age() {
        let Some(text) = shared("samples/synthetic/mixed.log") else {
            return;
        };
        let rows = read_in::<Iterations>(&text, usize::MAX);
        assert_eq!(rows.steps, [100, 7]);
        assert_eq!(column(&rows, "lr"), [Some(0.0003), None]);
        assert_eq!(column(&rows, "model_tflops_per_gpu"), [Some(201.0), None]);
        assert!(rows.losses.is_empty());
    }
}
