//! verl consoles: `step:12 - actor/grad_norm:0.211 - actor/pg_loss:-0.013 - …`.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::number;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::run::Rows;

/// verl, which counts steps from 1.
pub(super) const INGESTER: Ingester = Ingester {
    name: "verl",
    recognised_by: "`step:N - name:value - name:value …` lines",
    signals: &[
        "loss",
        "grad_norm",
        "learning_rate",
        "val_loss",
        "step_time",
    ],
    framework: Some("verl"),
    step_base: Some(1),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Verl>::boxed),
};

const BETWEEN: &[u8] = b" - ";

fn sniff(head: &[u8]) -> u8 {
    let is_record = |p: &Piece<'_>| {
        let first = record(p.own).and_then(|(_, fields)| pair(until_bar(fields).0));
        first.is_some_and(|(name, _)| name.contains(&b'/'))
    };
    if records::any(head, is_record) { 80 } else { 0 }
}

fn record(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut cursor = Cursor::new(text);
    cursor.eat("step:")?;
    let step = cursor.digits()?;
    cursor.eat(" - ")?;
    Some((step, cursor.rest()))
}

/// The text up to the next dash between fields, and whether there is one.
fn until_bar(fields: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memmem::find(fields, BETWEEN) {
        Some(at) => (&fields[..at], Some(&fields[at + BETWEEN.len()..])),
        None => (fields, None),
    }
}

/// `name:value`; the value may be wrapped as `np.float64(0.5)`.
fn pair(field: &[u8]) -> Option<(&[u8], f64)> {
    let field = field.trim_ascii();
    let colon = memchr::memrchr(b':', field)?;
    let mut value = &field[colon + 1..];
    if let Some(inner) = value
        .strip_prefix(b"np.")
        .and_then(|v| v.strip_suffix(b")"))
    {
        value = &inner[memchr::memchr(b'(', inner)? + 1..];
    }
    Some((&field[..colon], number::number(value)?))
}

fn kept(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

struct Verl {
    names: Names,
    torn: Torn,
}

impl Default for Verl {
    fn default() -> Self {
        Self {
            names: Names::new(kept),
            torn: Torn::default(),
        }
    }
}

impl Records for Verl {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let Some((step, fields)) = record(piece.own) else {
            return;
        };
        rows.begin(step);
        self.names.begin();
        let mut rest = Some(fields);
        while let Some(fields) = rest {
            let (field, next) = until_bar(fields);
            rest = next;
            match pair(field).filter(|_| next.is_some() || !piece.open) {
                Some((name, value)) => self.set(name, value, rows),
                None => {
                    self.torn
                        .lose(piece.line, "not a number; the others are kept", field, rows);
                }
            }
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }
}

impl Verl {
    fn set(&mut self, name: &[u8], value: f64, rows: &mut Rows) {
        // With three decimals, which older versions print, a learning rate is zero.
        let rounded = value == 0.0 && name.ends_with(b"/lr");
        if let Some(slot) = self.names.slot(name, rows).filter(|_| !rounded) {
            rows.set(slot, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn fields_under_a_ray_prefix() {
        let text = include_bytes!("../../fixtures/logs/verl/ppo.log");
        for lines in [1, usize::MAX] {
            let rows = read_in::<Verl>(text, lines);
            assert_eq!(rows.steps, [12, 13, 14]);
            assert_eq!(
                column(&rows, "actor/grad_norm"),
                [Some(0.211), Some(0.25), None]
            );
            assert_eq!(
                column(&rows, "actor/pg_loss")[..2],
                [Some(-0.013), Some(0.5)]
            );
            assert_eq!(column(&rows, "actor/lr"), [None, Some(1e-6), None]);
            assert_eq!(column(&rows, "critic/score/mean")[0], Some(0.75));
            assert_eq!(rows.losses.len(), 2);
        }
        assert_eq!(sniff(text), 80);
        assert_eq!(sniff(b"step:3 - see below\n"), 0);
    }

    #[test]
    fn damage_is_survived() {
        survives::<Verl>(include_bytes!("../../fixtures/logs/verl/ppo.log"));
    }
}
