//! torchtitan's structured logs: one JSON object an event, of which the ends of steps and the metrics are kept.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::number;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::Rows;

/// `structured_logs/*.jsonl`, one file a rank.
pub(in crate::ingest) const INGESTER: Ingester = Ingester {
    name: "torchtitan-structured",
    recognised_by: "lines of JSON with `log_type_name` and `relative_step`",
    signals: &["loss", "grad_norm", "step_time", "time"],
    framework: Some("torchtitan"),
    step_base: Some(1),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Events>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    let ours = |p: &Piece<'_>| {
        let has = |name| fields::after(p.text, name).is_some();
        p.own.starts_with(b"{") && has("\"log_type_name\"") && has("\"relative_step\"")
    };
    if records::any(head, ours) { 85 } else { 0 }
}

/// What an event says.
#[derive(Default)]
struct Event<'a> {
    step: Option<u64>,
    kind: &'a [u8],
    name: &'a [u8],
    value: Option<f64>,
    /// In microseconds.
    time: Option<f64>,
}

fn event(text: &[u8]) -> Event<'_> {
    let mut event = Event::default();
    let mut rest = text;
    while let Some((name, value, after)) = fields::json_field(rest) {
        match name {
            b"step" => event.step = number::number(value).and_then(number::step),
            b"log_type_name" => event.kind = value,
            b"event_name" => event.name = value,
            b"value" => event.value = number::number(value),
            b"time_us" => event.time = number::number(value),
            _ => {}
        }
        rest = after;
    }
    event
}

struct Events {
    names: Names,
    step_time: Slot,
    time: Slot,
    torn: Torn,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            names: Names::new(|name| Some(name)),
            step_time: Slot::default(),
            time: Slot::default(),
            torn: Torn::default(),
        }
    }
}

impl Records for Events {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let text = piece.own.trim_ascii();
        if !text.starts_with(b"{") {
            return;
        }
        if !text.ends_with(b"}") {
            self.torn.lose(piece.line, "not a whole object", text, rows);
            return;
        }
        let event = event(text);
        let metric = event.kind == b"metric_value" && !event.name.is_empty();
        let (Some(step), Some(value)) = (event.step, event.value) else {
            return;
        };
        if !metric && event.kind != b"step_end" {
            return;
        }
        if rows.steps.last() != Some(&step) {
            rows.begin(step);
            self.names.begin();
        }
        if let Some(time) = event.time {
            self.time.set("time", time / 1000.0, rows);
        }
        if metric {
            if let Some(slot) = self.names.slot(event.name, rows) {
                rows.set(slot, value);
            }
        } else {
            self.step_time.set("step_time", value / 1000.0, rows);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{column, read_in, survives};

    #[test]
    fn ends_of_steps_and_metrics() {
        let text = include_bytes!("../../../fixtures/logs/torchtitan-structured/structured.jsonl");
        assert_eq!(sniff(text), 85);
        let rows = read_in::<Events>(text, usize::MAX);
        assert_eq!(rows.steps, [1, 2]);
        assert_eq!(column(&rows, "step_time"), [Some(1.25), Some(0.5)]);
        assert_eq!(column(&rows, "loss"), [Some(12.25), None]);
        assert_eq!(column(&rows, "time")[0], Some(1_772_366_401_500.0));
        assert_eq!(rows.losses.len(), 1);
    }

    #[test]
    fn damage_does_no_harm() {
        survives::<Events>(include_bytes!(
            "../../../fixtures/logs/torchtitan-structured/structured.jsonl"
        ));
    }
}
