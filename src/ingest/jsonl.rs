//! JSON lines: one object a row, whatever the trainer calls its metrics.

mod form;
mod scan;

use std::collections::HashMap;

use crate::ingest::number;
use crate::ingest::records;
use crate::ingest::text;
use crate::ingest::{Ingester, LineReader, Reader};
use crate::run::{EventKind, Rows};
use crate::signal::step_rank;

use form::Form;
use scan::{Scanner, Value};

/// Generic JSON lines.
pub(super) const INGESTER: Ingester = Ingester {
    name: "jsonl",
    recognised_by: "lines that are JSON objects with a step",
    signals: &["any metric, by the alias table"],
    framework: None,
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(|_| Box::new(JsonLines)),
};

/// Objects looked at before a head is refused.
const LOOK_AT: usize = 200;

fn sniff(head: &[u8]) -> u8 {
    let (mut objects, mut rows, mut left) = (0, 0, LOOK_AT);
    records::each_piece(head, |piece| {
        let line = piece.own.trim_ascii();
        if rows > 0 || left == 0 || !line.starts_with(b"{") {
            return;
        }
        left -= 1;
        let (mut has_step, mut others) = (false, 0);
        let whole = Scanner::new(line).walk(
            &mut |key, _| match step_rank(&String::from_utf8_lossy(key)) {
                Some(_) => has_step = true,
                None => others += 1,
            },
        );
        objects += usize::from(whole.is_ok());
        rows += usize::from(whole.is_ok() && has_step && others > 0);
    });
    match (rows, objects) {
        (0, 0 | 1) => 0,
        (0, _) => 5,
        _ => 50,
    }
}

pub(super) struct JsonLines;

impl LineReader for JsonLines {
    fn chunk(&self, chunk: &[u8], rows: &mut Rows) {
        let mut keys = Keys::default();
        let mut values: Vec<(usize, f64)> = Vec::new();
        let (mut form, mut others) = (Form::default(), 0);
        records::each_piece(chunk, |piece| {
            let object = piece.own.trim_ascii();
            if !object.starts_with(b"{") {
                return;
            }
            values.clear();
            if let Some(step) = form.read(object, &mut values) {
                put(step, piece.line, &values, rows);
                return;
            }
            read_object(object, piece.line, rows, &mut keys, &mut values);
            if others < MOST_FORMS {
                others += 1;
                form.learn(object, &mut keys, rows);
            }
        });
    }
}

/// Lines of a chunk whose form is learnt. Where no line is like the one before, learning takes longer than it saves.
const MOST_FORMS: usize = 64;

/// What a key stands for, once resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Step(u8),
    Metric(usize),
    /// One metric too many.
    Ignored,
}

/// Metrics that are kept. More are keys that carry data in their names, and would take rows times keys of memory.
const MOST_METRICS: usize = 4096;

/// Keys in the order of the previous line: the next key is nearly always the next one here.
#[derive(Debug, Default)]
struct Keys {
    known: Vec<(Vec<u8>, Role)>,
    index: HashMap<Vec<u8>, usize>,
    next: usize,
    full: bool,
}

impl Keys {
    fn role(&mut self, key: &[u8], rows: &mut Rows) -> Role {
        let found = match self.known.get(self.next) {
            Some((k, _)) if k == key => Some(self.next),
            _ => self.index.get(key).copied(),
        };
        match found.or_else(|| self.learn(key, rows)) {
            Some(at) => {
                self.next = at + 1;
                self.known[at].1
            }
            None => Role::Ignored,
        }
    }

    fn learn(&mut self, key: &[u8], rows: &mut Rows) -> Option<usize> {
        let name = String::from_utf8_lossy(key).into_owned();
        if self.known.len() >= MOST_METRICS {
            if !std::mem::replace(&mut self.full, true) {
                rows.lose(
                    "",
                    format!("more than {MOST_METRICS} metrics: `{name}` and others are left out"),
                );
            }
            return None;
        }
        let role = step_rank(&name).map_or_else(|| Role::Metric(rows.slot(&name)), Role::Step);
        self.index.insert(key.to_vec(), self.known.len());
        self.known.push((key.to_vec(), role));
        Some(self.known.len() - 1)
    }
}

fn read_object(
    object: &[u8],
    line: u64,
    rows: &mut Rows,
    keys: &mut Keys,
    values: &mut Vec<(usize, f64)>,
) {
    values.clear();
    keys.next = 0;
    let mut step: form::Step = None;
    let mut restart = false;
    let outcome = Scanner::new(object).walk(&mut |key, value| {
        let role = keys.role(key, rows);
        match (role, value) {
            (Role::Step(rank), value) => {
                if step.is_none_or(|(best, _)| rank < best) {
                    step = Some((rank, step_of(&value)));
                }
            }
            (Role::Metric(slot), Value::Number(v)) => values.push((slot, v)),
            (Role::Metric(slot), Value::Bool(b)) => values.push((slot, f64::from(u8::from(b)))),
            (Role::Metric(slot), Value::Text(t)) => {
                if let Some(v) = number::number(t).or_else(|| text::timestamp(t)) {
                    values.push((slot, v));
                } else if key == b"event" && t == b"restart" {
                    restart = true;
                }
            }
            (Role::Ignored, _) | (_, Value::Null) => {}
        }
    });
    if restart {
        rows.mark(EventKind::Start, None, None);
    }
    if let Err(why) = outcome {
        rows.lose(
            text::place(line),
            format!("{why}: `{}`", text::excerpt(object)),
        );
        return;
    }
    put(step, line, values, rows);
}

/// Adds a row, if the line has a step.
fn put(step: form::Step, line: u64, values: &[(usize, f64)], rows: &mut Rows) {
    match step {
        Some((_, Some(step))) => {
            rows.begin(step);
            for (slot, value) in values {
                rows.set(*slot, *value);
            }
        }
        Some((_, None)) => rows.lose(
            text::place(line),
            "the step is not a whole number that fits",
        ),
        None => {}
    }
}

/// A step given as a number, as text, or as `10/100`.
fn step_of(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Number(v) => number::step(*v),
        Value::Text(t) => match number::digits(t) {
            Some((step, len)) if len == t.len() || t[len] == b'/' => Some(step),
            _ => number::number(t).and_then(number::step),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Rows {
        let mut rows = Rows::default();
        JsonLines.chunk(text.as_bytes(), &mut rows);
        rows
    }

    fn get(rows: &Rows, name: &str, row: usize) -> Option<f64> {
        rows.find(name).and_then(|s| rows.column(s).get(row))
    }

    #[test]
    fn tokens_that_are_not_json_are_numbers_here() {
        let rows = read(
            "{\"step\": 1, \"loss\": NaN}\n{\"loss\": -Infinity, \"step\": \"2\"}\n{\"step\":3,\"loss\":null}\n",
        );
        assert_eq!(rows.steps, vec![1, 2, 3]);
        assert!(get(&rows, "loss", 0).is_some_and(f64::is_nan));
        assert_eq!(get(&rows, "loss", 1), Some(f64::NEG_INFINITY));
        assert_eq!(get(&rows, "loss", 2), None);
    }

    #[test]
    fn nested_objects_and_lists_are_flattened() {
        let rows =
            read("{\"step\":4,\"a\":{\"b\":2.5,\"c\":{\"d\":1}},\"layer_logits\":[1.0,2.0]}\n");
        assert_eq!(get(&rows, "a/b", 0), Some(2.5));
        assert_eq!(get(&rows, "a/c/d", 0), Some(1.0));
        assert_eq!(get(&rows, "layer_logits/1", 0), Some(2.0));
    }

    /// Lines of one form are read by it, and mean what each would mean alone.
    #[test]
    fn lines_of_one_form_and_of_others_are_read_alike() {
        let lines = [
            "{\"step\": 1, \"loss\": 2.5, \"lr\": 1e-4}",
            "{\"step\": 2, \"loss\": NaN, \"lr\": 2e-4}",
            "{\"step\": 3, \"loss\": -0, \"lr\": null}",
            "{\"step\": 4.0, \"loss\": 1.5, \"lr\": 3e-4}",
            "{\"step\": 5, \"loss\": 1.25, \"lr\": 3e-4",
            "{\"step\": 6, \"loss\": 1.0, \"lr\": 3e-4, \"more\": {\"a\": 7}}",
            "{\"step\": 7, \"loss\": 0.5, \"lr\": 3e-4} x",
            "{\"step\": 8.5, \"loss\": 0.5, \"lr\": 3e-4}",
            "{\"_step\": 1, \"step\": 9, \"loss\": 0.25}",
            "{\"_step\": 2, \"step\": 10, \"loss\": 0.125}",
        ];
        let together = read(&lines.join("\n"));
        assert_eq!(together.steps, [1, 2, 3, 4, 6, 9, 10]);
        assert_eq!(together.losses.len(), 3);
        let mut row = 0;
        for line in lines {
            let alone = read(line);
            for name in ["loss", "lr", "more/a"] {
                let bits = |v: Option<f64>| v.map(f64::to_bits);
                if !alone.steps.is_empty() {
                    assert_eq!(
                        bits(get(&alone, name, 0)),
                        bits(get(&together, name, row)),
                        "{line} {name}"
                    );
                }
            }
            row += alone.steps.len();
        }
        assert_eq!(row, 7);
    }

    #[test]
    fn a_torn_line_is_a_loss_and_reading_goes_on() {
        let rows = read(
            "{\"step\": 1, \"loss\": 2.0}\n{\"step\": 2, \"lo\nnoise\n{\"step\": 3, \"loss\": 1.0}\n",
        );
        assert_eq!(rows.steps, vec![1, 3]);
        assert_eq!(rows.losses.len(), 1);
        assert_eq!(rows.losses[0].place, "line +1");
    }

    #[test]
    fn wandb_own_counter_is_not_the_step_when_there_is_a_better_one() {
        let rows = read("{\"_step\": 7, \"train/global_step\": 100, \"train/loss\": 1.0}\n");
        assert_eq!(rows.steps, vec![100]);
        assert_eq!(
            read("{\"global_step/max_steps\": \"10/100\", \"loss\": 1.0}\n").steps,
            vec![10]
        );
    }

    #[test]
    fn a_step_that_overflows_is_a_loss() {
        let rows = read(
            "{\"step\": 1e300, \"loss\": 1.0}\n{\"step\": 99999999999999999999, \"loss\": 1.0}\n",
        );
        assert!(rows.steps.is_empty());
        assert_eq!(rows.losses.len(), 2);
    }

    #[test]
    fn deep_nesting_ends() {
        let deep = format!(
            "{{\"step\":1,\"a\":{}1{}}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(read(&deep).steps.is_empty());
    }
}
