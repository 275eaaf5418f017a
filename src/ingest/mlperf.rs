//! `MLPerf` training logs: `:::MLLOG {"key": "train_loss", "value": 1.5, "metadata": {"samples_count": 240}, …}`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::number;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::Column;
use crate::run::EventKind;
use crate::run::Rows;

/// `MLPerf` training logs. Most count samples, not steps.
pub(super) const INGESTER: Ingester = Ingester {
    name: "mlperf",
    recognised_by: "`:::MLLOG {…}` lines with a training loss",
    signals: &[
        "loss",
        "val_loss",
        "learning_rate",
        "consumed_samples",
        "time",
    ],
    framework: None,
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<MlPerf>::boxed),
};

const ANCHOR: &[u8] = b":::MLLOG ";
/// Members of the metadata that count steps, the best first, and the one that counts samples.
const COUNTS: [&str; 5] = ["step", "step_num", "iteration", "global_step", SAMPLES];
const SAMPLES: &str = "samples_count";
/// Benchmarks of language models whose `eval_accuracy` is the loss on held-out text.
const BY_LOSS: [&str; 4] = ["gpt3", "llama2_70b_lora", "llama31_405b", "llama31_8b"];
/// The benchmark, among the facts.
const BENCHMARK: &str = "submission_benchmark";
/// Column of the accuracies that may be losses.
const ACCURACY: &str = "eval_accuracy";
/// The longest value that is kept as a fact.
const LONGEST_FACT: usize = 256;

fn sniff(head: &[u8]) -> u8 {
    let has_loss = |p: &Piece<'_>| {
        let record = object(p.text).and_then(|o| Record::of(o).ok());
        record.is_some_and(|r| r.counter().is_some() && r.values().any(|(n, _)| n.contains("loss")))
    };
    if records::any(head, has_loss) { 85 } else { 0 }
}

fn object(text: &[u8]) -> Option<&[u8]> {
    let at = memchr::memmem::find(text, ANCHOR)?;
    Some(text[at + ANCHOR.len()..].trim_ascii())
}

#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    key: String,
    value: serde_json::Value,
    time_ms: Option<f64>,
    #[serde(default)]
    metadata: BTreeMap<String, serde_json::Value>,
}

impl Record {
    fn of(object: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(object)
    }

    /// What the row is counted by, and the count.
    fn counter(&self) -> Option<(&'static str, u64)> {
        COUNTS.iter().find_map(|name| {
            let count = self.metadata.get(*name)?.as_f64().and_then(number::step)?;
            Some((*name, count))
        })
    }

    /// Metrics: the value under its key, or the members of the value.
    fn values(&self) -> impl Iterator<Item = (&str, f64)> {
        let one = amount(&self.value).map(|v| (self.key.as_str(), v));
        let members = self.value.as_object().into_iter().flatten();
        one.into_iter()
            .chain(members.filter_map(|(name, v)| Some((name.as_str(), amount(v)?))))
    }
}

fn amount(value: &serde_json::Value) -> Option<f64> {
    match value {
        serde_json::Value::Number(n) => n.as_f64(),
        serde_json::Value::String(text) => number::number(text.as_bytes()),
        _ => None,
    }
}

fn kept(name: &str) -> Option<&str> {
    match name {
        "" => None,
        // Of the whole job; under this name other trainers have floating-point operations.
        "throughput" => Some("samples_per_second"),
        name => Some(name),
    }
}

struct MlPerf {
    names: Names,
    torn: Torn,
    samples: Slot,
    time: Slot,
}

impl Default for MlPerf {
    fn default() -> Self {
        Self {
            names: Names::new(kept),
            torn: Torn::default(),
            samples: Slot::default(),
            time: Slot::default(),
        }
    }
}

impl Records for MlPerf {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let Some(object) = object(piece.text) else {
            return;
        };
        match Record::of(object) {
            Ok(record) => self.record(&record, rows),
            Err(_) => self
                .torn
                .lose(piece.line, "not a whole JSON object", object, rows),
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        accuracies(rows);
        // Rows that count samples have a column of them.
        if rows.find("consumed_samples").is_some() {
            let what = "rows are counted in samples, not in steps: every step below is a number of samples";
            rows.lose("", what);
        }
    }
}

impl MlPerf {
    fn record(&mut self, record: &Record, rows: &mut Rows) {
        if record.key == "run_start" {
            rows.mark(EventKind::Start, None, None);
        }
        match record.counter().filter(|_| record.key != "run_stop") {
            Some((counter, count)) => self.row(record, counter, count, rows),
            None => fact(record, rows),
        }
    }

    fn row(&mut self, record: &Record, counter: &str, count: u64, rows: &mut Rows) {
        self.names.begin();
        let mut begun = false;
        for (name, value) in record.values() {
            if !std::mem::replace(&mut begun, true) {
                rows.begin(count);
            }
            if let Some(slot) = self.names.slot(name.as_bytes(), rows) {
                rows.set(slot, value);
            }
        }
        if begun && counter == SAMPLES {
            self.samples.set("consumed_samples", count as f64, rows);
        }
        if let Some(time) = record.time_ms.filter(|_| begun) {
            self.time.set("time", time, rows);
        }
    }
}

fn fact(record: &Record, rows: &mut Rows) {
    let text = match &record.value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(n) => n.to_string(),
        _ => return,
    };
    if !text.is_empty() && text.len() <= LONGEST_FACT {
        rows.facts.entry(record.key.clone()).or_insert(text);
    }
}

/// Turns accuracies that are losses into what they are.
fn accuracies(rows: &mut Rows) {
    let by_loss = rows
        .facts
        .get(BENCHMARK)
        .is_some_and(|b| BY_LOSS.contains(&b.as_str()));
    if let Some(slot) = rows.find(ACCURACY).filter(|_| by_loss) {
        let column = rows.column(slot).clone();
        rows.put("val_loss", column);
        rows.put(ACCURACY, Column::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn samples_stay_samples() {
        let text = include_bytes!("../../fixtures/logs/mlperf/result.txt");
        for lines in [1, usize::MAX] {
            let rows = read_in::<MlPerf>(text, lines);
            assert_eq!(rows.steps, [80, 160, 160, 240]);
            assert_eq!(column(&rows, "train_loss")[..2], [Some(3.5), Some(2.25)]);
            assert_eq!(column(&rows, "val_loss")[2], Some(0.9375));
            assert_eq!(column(&rows, "consumed_samples")[3], Some(240.0));
            assert_eq!(column(&rows, "samples_per_second")[3], Some(12.5));
            assert_eq!(column(&rows, "time")[0], Some(1_772_366_400_000.0));
            assert_eq!(rows.facts["global_batch_size"], "8");
            assert_eq!(marks(&rows, EventKind::Start), [(0, None)]);
            // One for the samples, one for the line that is cut off.
            assert_eq!(rows.losses.len(), 2);
        }
        assert_eq!(sniff(text), 85);
    }

    /// Figures from a separate reading of the file as JSON.
    #[test]
    fn a_real_run() {
        let Some(text) = shared("corpus/mlperf-mllog__llama2-lora-h100-dgx.txt") else {
            return;
        };
        let rows = read_in::<MlPerf>(&text, 20);
        assert_eq!((rows.steps[0], rows.steps.last()), (80, Some(&3840)));
        adds_up(&rows, "train_loss", 46, 64.0053);
        adds_up(&rows, "val_loss", 7, 6.524_968_683_719_635);
        assert_eq!(rows.losses.len(), 1);
        let Some(text) = shared("corpus/mlperf-stdout__fairseq-transformer-c4140.txt") else {
            return;
        };
        assert_eq!(sniff(&text), 0);
    }

    #[test]
    fn damage_is_survived() {
        survives::<MlPerf>(include_bytes!("../../fixtures/logs/mlperf/result.txt"));
    }
}
