//! Megatron-LM golden values: `{"lm loss": {"start_step": 1, "end_step": 50, "step_interval": 5, "values": {…}}}`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::number;
use crate::run::Rows;

/// The reference values of Megatron's tests: single iterations, not means.
pub(super) const INGESTER: Ingester = Ingester {
    name: "megatron-golden-values",
    recognised_by: "a JSON object of metrics with `start_step`, `step_interval` and `values`",
    signals: &["loss", "num_zeros", "step_time"],
    framework: Some("megatron-lm"),
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Whole(read),
};

/// The largest file that is read: the JSON is held as a tree, of some thirty bytes for each of the text. Real files have
/// some hundred kB.
const LARGEST: usize = 32 * 1024 * 1024;

fn sniff(head: &[u8]) -> u8 {
    let start = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
    let keys = has(b"\"start_step\"") && has(b"\"step_interval\"") && has(b"\"values\"");
    if start.trim_ascii_start().starts_with(b"{") && keys {
        90
    } else {
        0
    }
}

/// A member of the object. The oldest files have a bare number among them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Member {
    Metric {
        #[serde(default)]
        start_step: u64,
        #[serde(default)]
        step_interval: u64,
        values: Values,
    },
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Values {
    Listed(Vec<Value>),
    Keyed(BTreeMap<String, Value>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Text(String),
    Other(serde::de::IgnoredAny),
}

impl Value {
    /// The text `nan` stands for an iteration that was not run.
    fn read(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Text(text) => number::number(text.as_bytes()).filter(|v| !v.is_nan()),
            Self::Other(_) => None,
        }
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "every reader of whole sources takes the bytes"
)]
fn read(bytes: Vec<u8>, rows: &mut Rows) -> Result<(), String> {
    if bytes.len() > LARGEST {
        return Err(format!(
            "golden values of {} MiB are not read, at most {}: leave out the metrics that do not matter",
            bytes.len() >> 20,
            LARGEST >> 20
        ));
    }
    let members: BTreeMap<String, Member> = serde_json::from_slice(&bytes)
        .map_err(|e| format!("not a whole JSON object of metrics: {e}"))?;
    let mut points: BTreeMap<u64, Vec<(usize, f64)>> = BTreeMap::new();
    for (name, member) in &members {
        let Member::Metric {
            start_step,
            step_interval,
            values,
        } = member
        else {
            continue;
        };
        let slot = rows.slot(name);
        let mut odd = 0;
        each(
            *start_step,
            *step_interval,
            values,
            &mut |step, value| match (step, value.read()) {
                (Some(step), Some(value)) => points.entry(step).or_default().push((slot, value)),
                (Some(_), None) => {}
                (None, _) => odd += 1,
            },
        );
        if odd > 0 {
            rows.lose(format!("`{name}`"), format!("{odd} keys are not steps"));
        }
    }
    for (step, values) in points {
        rows.begin(step);
        for (slot, value) in values {
            rows.set(slot, value);
        }
    }
    Ok(())
}

/// Calls `each` with every value and its step, if it has one.
fn each(start: u64, interval: u64, values: &Values, each: &mut dyn FnMut(Option<u64>, &Value)) {
    match values {
        Values::Listed(list) => {
            for (at, value) in (0_u64..).zip(list) {
                let step = at.checked_mul(interval.max(1));
                each(step.and_then(|s| s.checked_add(start)), value);
            }
        }
        Values::Keyed(map) => {
            for (key, value) in map {
                let whole = |(step, len)| (len == key.len()).then_some(step);
                each(number::digits(key.as_bytes()).and_then(whole), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::adds_up;
    use crate::ingest::records::testing::column;
    use crate::ingest::records::testing::shared;

    fn load(text: &[u8]) -> Rows {
        let mut rows = Rows::default();
        read(text.to_vec(), &mut rows).expect("whole");
        rows
    }

    #[test]
    fn keyed_values_and_what_was_not_run() {
        let text = include_bytes!("../../fixtures/logs/megatron-golden-values/keyed.json");
        let rows = load(text);
        assert_eq!(rows.steps, [1, 5, 10]);
        assert_eq!(
            column(&rows, "lm loss"),
            [Some(10.5), Some(10.25), Some(10.0)]
        );
        assert_eq!(
            column(&rows, "iteration-time"),
            [Some(11.5), None, Some(1.5)]
        );
        assert_eq!(sniff(text), 90);
        assert!(read(text[..100].to_vec(), &mut Rows::default()).is_err());
        let spaces = [&text[..], &vec![b' '; LARGEST]].concat();
        let refused = read(spaces, &mut Rows::default()).expect_err("too large");
        assert!(
            refused.starts_with("golden values of 32 MiB are not read"),
            "{refused}"
        );
    }

    #[test]
    fn listed_values() {
        let text = br#"{"lm loss": {"start_step": 0, "end_step": 15, "step_interval": 5, "values": [3.0, "nan", 1.0]}, "iteration_timing_avg": 0.12}"#;
        let rows = load(text);
        assert_eq!(rows.steps, [0, 10]);
        assert_eq!(column(&rows, "lm loss"), [Some(3.0), Some(1.0)]);
    }

    /// Figures from a separate reading of the files as JSON.
    #[test]
    fn real_files() {
        for (name, rows_of, first, last, loss, zeros) in [
            (
                "mixtral-8x7b-release-lts-a100",
                3094,
                1,
                23_405,
                7_504.128_35,
                1_275_383_753_216.0,
            ),
            (
                "bert-tp2pp2-small-lts-a100",
                11,
                1,
                50,
                112.300_45,
                29_677.0,
            ),
            (
                "jet-gpt3-345m-resume-array-form",
                20,
                0,
                95,
                199.806_07,
                48_664.0,
            ),
        ] {
            let Some(text) = shared(&format!("corpus/megatron-golden-json__{name}.json")) else {
                return;
            };
            let rows = load(&text);
            assert_eq!(rows.steps.len(), rows_of);
            assert_eq!((rows.steps[0], rows.steps[rows_of - 1]), (first, last));
            adds_up(&rows, "lm loss", rows_of, loss);
            adds_up(&rows, "num-zeros", rows_of, zeros);
            assert!(rows.losses.is_empty());
            assert_eq!(sniff(&text), 90);
        }
    }
}
