//! The form that lines of one writer share: what stands between their values. Lines of it are read without looking for
//! keys, quotes and commas one by one.

use super::scan::Value;
use super::{Keys, Role};
use crate::ingest::number;
use crate::run::Rows;

/// What stands before each value of a line, and what the value is.
#[derive(Debug, Default)]
pub(super) struct Form {
    fields: Vec<(Vec<u8>, Role)>,
    end: Vec<u8>,
}

/// A step by the rank of its name, and what its number says.
pub(super) type Step = Option<(u8, Option<u64>)>;

impl Form {
    /// Reads a line of this form. `None` if it is of another, whatever of it was read.
    pub(super) fn read(&self, line: &[u8], values: &mut Vec<(usize, f64)>) -> Option<Step> {
        if self.fields.is_empty() {
            return None;
        }
        let mut rest = line;
        let mut step: Step = None;
        for (before, role) in &self.fields {
            rest = rest.strip_prefix(before.as_slice())?;
            let (value, len) = number::leading(rest)?;
            rest = &rest[len..];
            match role {
                Role::Step(rank) if step.is_none_or(|(best, _)| *rank < best) => {
                    step = Some((*rank, number::step(value)));
                }
                Role::Metric(slot) => values.push((*slot, value)),
                Role::Step(_) | Role::Ignored => {}
            }
        }
        (rest == self.end).then_some(step)
    }

    /// Learns the form of a line that holds nothing but numbers, one deep.
    pub(super) fn learn(&mut self, line: &[u8], keys: &mut Keys, rows: &mut Rows) {
        self.fields.clear();
        let (mut from, mut flat) = (0, true);
        keys.next = 0;
        let whole = super::Scanner::new(line).walk(&mut |key, value| {
            let at = place(line, key).filter(|_| matches!(value, Value::Number(_)));
            let found = at.and_then(|at| Some((at, value_at(line, at + key.len())?)));
            let Some((_, (start, len))) = found.filter(|(at, _)| flat && *at >= from) else {
                flat = false;
                return;
            };
            let role = keys.role(key, rows);
            self.fields.push((line[from..start].to_vec(), role));
            from = start + len;
        });
        if whole.is_err() || !flat {
            self.fields.clear();
        }
        self.end = line[from..].to_vec();
    }
}

/// Where a part of the line begins in it; keys of nested objects are put together elsewhere.
fn place(line: &[u8], part: &[u8]) -> Option<usize> {
    let at = (part.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    (at + part.len() <= line.len()).then_some(at)
}

/// Start and length of the number after a key that ends before `end`.
fn value_at(line: &[u8], end: usize) -> Option<(usize, usize)> {
    let colon = end + memchr::memchr(b':', line.get(end..)?)?;
    let start = colon
        + 1
        + line[colon + 1..]
            .iter()
            .take_while(|b| b.is_ascii_whitespace())
            .count();
    number::leading(&line[start..]).map(|(_, len)| (start, len))
}
