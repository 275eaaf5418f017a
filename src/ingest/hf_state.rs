//! `trainer_state.json` of the Hugging Face Trainer: the whole history in each checkpoint.

use std::collections::HashMap;

use crate::ingest::number;
use crate::ingest::{Ingester, Reader};
use crate::run::Rows;

/// `trainer_state.json`. Loss is the mean since the last entry; steps count from 1.
pub(super) const INGESTER: Ingester = Ingester {
    name: "hf-trainer-state",
    recognised_by: "a JSON object with `log_history`",
    signals: &[
        "loss",
        "grad_norm",
        "learning_rate",
        "epoch",
        "consumed_tokens",
        "val_loss",
    ],
    framework: Some("hf-trainer"),
    step_base: Some(1),
    averaged: true,
    interleaved: false,
    sniff,
    reader: Reader::Whole(read),
};

/// Values beside the history that are worth keeping.
const FACTS: [&str; 8] = [
    "global_step",
    "max_steps",
    "num_train_epochs",
    "train_batch_size",
    "logging_steps",
    "save_steps",
    "eval_steps",
    "best_model_checkpoint",
];

/// Metrics of one history; a real one has some ten, and each takes a column of the length of the history.
const METRICS: usize = 2048;

fn sniff(head: &[u8]) -> u8 {
    let head = head
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(head)
        .trim_ascii_start();
    let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
    let state =
        has(b"\"log_history\"") || (has(b"\"global_step\"") && has(b"\"is_world_process_zero\""));
    if head.starts_with(b"{") && state {
        95
    } else {
        0
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "every reader of whole sources takes the bytes"
)]
fn read(bytes: Vec<u8>, rows: &mut Rows) -> Result<(), String> {
    let mut scanner = Scanner {
        bytes: &bytes,
        at: 0,
    };
    let mut history = History::default();
    let whole = state(&mut scanner, &mut history, rows).is_some();
    let (at, empty) = (scanner.at, rows.steps.is_empty());
    if !whole && empty && !history.found {
        return Err(format!(
            "damaged or cut at byte {at}, before the `log_history`: take an older checkpoint's file"
        ));
    }
    if !history.found {
        return Err(
            "there is no `log_history` in it: name the file `trainer_state.json`".to_owned(),
        );
    }
    if !whole {
        rows.lose(
            format!("byte {at}"),
            "the file is cut or damaged here; the entries before it were kept",
        );
    }
    history.tell(rows);
    Ok(())
}

/// Reads the object. `None` where it is cut or damaged.
fn state(scanner: &mut Scanner<'_>, history: &mut History, rows: &mut Rows) -> Option<()> {
    scanner.expect(b'{')?;
    if scanner.eat(b'}') {
        return Some(());
    }
    loop {
        let key = scanner.key()?;
        if key == b"log_history" && scanner.next()? == b'[' {
            history.found = true;
            entries(scanner, history, rows)?;
        } else {
            let start = scanner.at;
            let value = scanner.value()?;
            let printed = String::from_utf8_lossy(&scanner.bytes[start..scanner.at]);
            let name = String::from_utf8_lossy(key);
            if value != Value::Other && FACTS.contains(&&*name) {
                rows.facts.insert(
                    name.into_owned(),
                    printed.trim().trim_matches('"').to_owned(),
                );
            }
        }
        if scanner.ends(b'}')? {
            return Some(());
        }
    }
}

fn entries(scanner: &mut Scanner<'_>, history: &mut History, rows: &mut Rows) -> Option<()> {
    scanner.expect(b'[')?;
    if scanner.eat(b']') {
        return Some(());
    }
    loop {
        if scanner.next()? == b'{' {
            entry(scanner, history, rows)?;
        } else {
            scanner.value()?;
            history.odd += 1;
        }
        if scanner.ends(b']')? {
            return Some(());
        }
    }
}

fn entry(scanner: &mut Scanner<'_>, history: &mut History, rows: &mut Rows) -> Option<()> {
    history.begin();
    scanner.expect(b'{')?;
    if scanner.eat(b'}') {
        history.odd += 1;
        return Some(());
    }
    loop {
        let key = scanner.key()?;
        let value = scanner.value()?;
        history.value(key, value);
        if scanner.ends(b'}')? {
            history.end(rows);
            return Some(());
        }
    }
}

/// What a key of an entry stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Step,
    /// Only the summary at the end of training has it; its `train_loss` is the mean of the whole run.
    Summary,
    Metric,
    Excess,
}

/// The entry that is being read, and what was seen of all.
#[derive(Debug, Default)]
struct History {
    found: bool,
    /// Keys in the order in which they came up; the next key is nearly always the next of them.
    keys: Vec<(Vec<u8>, Role)>,
    index: HashMap<Vec<u8>, usize>,
    /// Slots of the keys, once a row has a value.
    slots: Vec<Option<usize>>,
    next: usize,
    /// Keys and values of the entry.
    values: Vec<(usize, f64)>,
    step: Option<f64>,
    summary: bool,
    odd: usize,
    excess: usize,
}

impl History {
    fn begin(&mut self) {
        self.values.clear();
        self.step = None;
        self.summary = false;
    }

    fn value(&mut self, key: &[u8], value: Value) {
        let at = self.key(key);
        let role = at.map_or(Role::Excess, |at| self.keys[at].1);
        match (role, value) {
            (Role::Summary, _) => self.summary = true,
            (Role::Step, Value::Number(step)) => self.step = Some(step),
            (Role::Metric, Value::Number(value)) => self.values.extend(at.map(|at| (at, value))),
            (Role::Excess, Value::Number(_)) => self.excess += 1,
            _ => {}
        }
    }

    /// The place of a key among the known ones.
    fn key(&mut self, key: &[u8]) -> Option<usize> {
        let expected = self
            .keys
            .get(self.next)
            .is_some_and(|(known, _)| known == key);
        let at = if expected {
            Some(self.next)
        } else {
            self.index.get(key).copied()
        };
        if let Some(at) = at {
            self.next = (at + 1) % self.keys.len();
            return Some(at);
        }
        if self.keys.len() >= METRICS {
            return None;
        }
        let role = match key {
            b"step" => Role::Step,
            b"train_runtime" => Role::Summary,
            _ => Role::Metric,
        };
        self.index.insert(key.to_vec(), self.keys.len());
        self.keys.push((key.to_vec(), role));
        self.slots.push(None);
        self.next = 0;
        Some(self.keys.len() - 1)
    }

    fn end(&mut self, rows: &mut Rows) {
        if self.summary {
            return;
        }
        let Some(step) = self.step.and_then(number::step) else {
            self.odd += 1;
            return;
        };
        rows.begin(step);
        for (at, value) in &self.values {
            let name = || String::from_utf8_lossy(&self.keys[*at].0);
            let slot = *self.slots[*at].get_or_insert_with(|| rows.slot(&name()));
            rows.set(slot, *value);
        }
    }

    fn tell(&self, rows: &mut Rows) {
        if self.odd > 0 {
            rows.lose(
                "log_history",
                format!(
                    "{} entries without a step that counts were left out",
                    self.odd
                ),
            );
        }
        if self.excess > 0 {
            let what = format!(
                "{} values left out: more than {METRICS} metrics",
                self.excess
            );
            rows.lose("log_history", what);
        }
    }
}

/// A value as far as it is of use here.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    /// A number; `NaN`, `Infinity` and numbers in quotes are numbers here.
    Number(f64),
    /// Text that is not a number, a truth value.
    Text,
    /// `null`, an object or a list.
    Other,
}

/// Walks JSON without building a tree. Every function gives `None` where the bytes end or do not fit.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The next byte that is not space.
    fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.next() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }

    /// Whether a list or object ends here; else there has to be a comma.
    fn ends(&mut self, close: u8) -> Option<bool> {
        if self.eat(close) {
            Some(true)
        } else {
            self.expect(b',').map(|()| false)
        }
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        self.next()?;
        let key = self.string()?;
        self.expect(b':')?;
        self.next()?;
        Some(key)
    }

    /// The inside of a string, its escapes as they are.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let end = self.at + memchr::memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            self.at = end + 1;
            if self.bytes[end] == b'"' {
                return Some(&self.bytes[start..end]);
            }
            self.at += 1;
        }
    }

    fn value(&mut self) -> Option<Value> {
        match self.next()? {
            b'"' => self
                .string()
                .map(|text| number::number(text).map_or(Value::Text, Value::Number)),
            b'{' | b'[' => self.nested(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Option<Value> {
        let rest = &self.bytes[self.at..];
        if let Some((value, len)) = number::leading(rest)
            && let Some(b',' | b'}' | b' ' | b'\n') = rest.get(len)
        {
            self.at += len;
            return Some(Value::Number(value));
        }
        // A word that runs to the end of the bytes may be cut.
        let len = rest
            .iter()
            .position(|b| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'))?;
        let word = &rest[..len];
        let value = match word {
            b"null" => Value::Other,
            b"true" | b"false" => Value::Text,
            _ => Value::Number(number::number(word)?),
        };
        self.at += len;
        Some(value)
    }

    fn nested(&mut self) -> Option<Value> {
        let mut depth = 0_usize;
        loop {
            match self.next()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(Value::Other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parsed(text: &[u8]) -> Rows {
        let mut rows = Rows::default();
        read(text.to_vec(), &mut rows).expect("readable");
        rows
    }

    fn values(rows: &Rows, name: &str) -> Vec<Option<f64>> {
        let column = rows.column(rows.find(name).expect("a column"));
        (0..rows.steps.len()).map(|row| column.get(row)).collect()
    }

    #[test]
    fn the_sample_of_transformers_5() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join("../shared/samples/hf_trainer/checkpoint-30/trainer_state.json");
        let Ok(bytes) = std::fs::read(path) else {
            return;
        };
        assert_eq!(sniff(&bytes), 95);
        let rows = parsed(&bytes);
        assert_eq!(rows.steps, [10, 20, 30, 30], "the summary is no row");
        let loss = values(&rows, "loss");
        assert!(loss[1].is_some_and(f64::is_nan));
        assert_eq!(
            (loss[0], loss[2], loss[3]),
            (Some(10.4123), Some(0.0), None)
        );
        assert_eq!(values(&rows, "grad_norm")[2], Some(f64::INFINITY));
        assert_eq!(values(&rows, "eval_loss")[3], Some(9.1));
        assert_eq!(rows.find("train_loss"), None);
        assert_eq!(
            (&*rows.facts["max_steps"], &*rows.facts["logging_steps"]),
            ("1000", "10")
        );
        assert!(rows.losses.is_empty());
    }

    #[test]
    fn a_cut_file_keeps_the_entries_before_the_cut() {
        let whole = b"{\"epoch\":1.0,\"log_history\":[{\"loss\":2.5,\"step\":5},{\"loss\":NaN,\"step\":10}],\"max_steps\":20}";
        for end in 0..whole.len() {
            let mut rows = Rows::default();
            let outcome = read(whole[..end].to_vec(), &mut rows);
            let entries = memchr::memchr_iter(b'}', &whole[..end]).count();
            assert_eq!(rows.steps.len(), entries, "cut at {end}");
            assert!(outcome.is_err() || rows.losses.len() == 1, "cut at {end}");
        }
        assert!(parsed(whole).losses.is_empty());
    }

    #[test]
    fn odd_entries_are_told_and_others_kept() {
        let rows = parsed(
            b"{\"log_history\": [{\"loss\": 1.0}, 7, {\"step\": 2.5, \"loss\": 1}, {}, {\"step\": \"3\", \"loss\": \"0.5\",
              \"nested\": {\"a\": [1, \"]\"]}, \"flag\": true, \"none\": null}]}",
        );
        assert_eq!(rows.steps, [3]);
        assert_eq!(values(&rows, "loss"), [Some(0.5)]);
        assert_eq!(
            rows.losses[0].what,
            "4 entries without a step that counts were left out"
        );
    }

    #[test]
    fn other_json_is_refused() {
        assert_eq!(sniff(b"{\"step\": 1, \"loss\": 2.0}\n"), 0);
        assert!(read(b"{\"step\": 1}".to_vec(), &mut Rows::default()).is_err());
        assert!(read(b"[1, 2]".to_vec(), &mut Rows::default()).is_err());
    }
}
