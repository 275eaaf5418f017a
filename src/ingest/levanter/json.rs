//! levanter's JSON tracker: `{"tracker": "json_logger", "event": "log", "step": 7, "metrics": {…}}`.

use crate::ingest::Ingester;
use crate::ingest::LineReader;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::jsonl;
use crate::ingest::records;
use crate::run::Rows;

/// The tracker's lines, read as any lines of JSON. Steps count from 0.
pub(in crate::ingest) const INGESTER: Ingester = Ingester {
    name: "levanter-json",
    recognised_by: "lines of JSON with `\"tracker\": \"json_logger\"`",
    signals: &[
        "loss",
        "grad_norm",
        "param_norm",
        "learning_rate",
        "update_norm",
        "skipped",
        "val_loss",
        "consumed_tokens",
        "mfu",
    ],
    framework: Some("levanter"),
    step_base: Some(0),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(tracker),
};

/// The group that all metrics are in.
const GROUP: &str = "metrics/";

fn sniff(head: &[u8]) -> u8 {
    let ours = |line: &[u8]| {
        let tracker = fields::after(line, "\"tracker\":").map(<[u8]>::trim_ascii_start);
        tracker.is_some_and(|t| t.starts_with(b"\"json_logger\""))
            && fields::after(line, "\"step\":").is_some()
    };
    if records::any(head, |p| ours(p.text)) {
        80
    } else {
        0
    }
}

struct Tracker(Box<dyn LineReader>);

fn tracker(head: &[u8]) -> Box<dyn LineReader> {
    let Reader::Lines(make) = jsonl::INGESTER.reader else {
        unreachable!("it is read by lines")
    };
    Box::new(Tracker(make(head)))
}

impl LineReader for Tracker {
    fn chunk(&self, chunk: &[u8], rows: &mut Rows) {
        self.0.chunk(chunk, rows);
    }

    fn settle(&self, rows: &mut Rows) {
        self.0.settle(rows);
        let grouped: Vec<String> = rows.columns().map(|(name, _)| name.to_owned()).collect();
        for name in grouped.iter().filter(|n| n.starts_with(GROUP)) {
            let slot = rows.slot(name);
            let column = std::mem::take(rows.column_mut(slot));
            rows.put(&name[GROUP.len()..], column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::column;

    #[test]
    fn metrics_leave_their_group() {
        let text = include_bytes!("../../../fixtures/logs/levanter/tracker.jsonl");
        assert_eq!(sniff(text), 80);
        let mut rows = Rows::default();
        let reader = tracker(text);
        reader.chunk(text, &mut rows);
        reader.settle(&mut rows);
        assert_eq!(rows.steps, [0, 1]);
        assert_eq!(column(&rows, "train/loss")[0], Some(10.5));
        assert!(column(&rows, "train/loss")[1].is_some_and(f64::is_nan));
        assert_eq!(column(&rows, "grad/norm/total"), [Some(1.5), None]);
        assert_eq!(rows.losses.len(), 1);
        assert_eq!(sniff(b"{\"step\": 1, \"metrics\": {\"loss\": 2}}\n"), 0);
    }
}
