//! lingua consoles: `step: 10  acc: 0  loss: 10.1234  grad: 1.23e+00  flops: 3.10e+14  wps: 5.12e+04  …`.

use crate::ingest::fields::{Names, Torn};
use crate::ingest::records::{self, Console, Cursor, Piece, Records};
use crate::ingest::{Ingester, Reader, text};
use crate::run::Rows;

/// lingua, which counts steps from 1.
pub(super) const INGESTER: Ingester = Ingester {
    name: "lingua",
    recognised_by: "`step: N  acc: A  loss: …  grad: …  flops: …  wps: …` lines",
    signals: &[
        "loss",
        "grad_norm",
        "learning_rate",
        "step_time",
        "tokens_per_second_per_device",
        "tflops_per_device",
        "time",
    ],
    framework: Some("lingua"),
    step_base: Some(1),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Lingua>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    if records::any(head, |p| Record::of(p.text).is_some()) {
        95
    } else {
        0
    }
}

struct Record<'a> {
    /// What stands before it.
    before: &'a [u8],
    step: u64,
    /// The micro-batch of the step; 0 once the step is done.
    micro: u64,
    fields: &'a [u8],
}

impl<'a> Record<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        cursor.find("step: ")?;
        let before = &text[..text.len() - cursor.rest().len() - "step: ".len()];
        let step = cursor.digits()?;
        cursor.eat("  acc: ")?;
        let micro = cursor.digits()?;
        cursor.eat("  ")?;
        Some(Self {
            before,
            step,
            micro,
            fields: cursor.rest(),
        })
    }
}

fn kept(name: &str) -> Option<&str> {
    Some(match name {
        "loss" => "loss",
        "grad" => "grad_norm",
        "flops" => "speed/flops",
        "wps" => "wps",
        "iter" => "step_time",
        "lr" => "lr",
        _ => return None,
    })
}

struct Lingua {
    names: Names,
    torn: Torn,
    time: records::Slot,
}

impl Default for Lingua {
    fn default() -> Self {
        Self {
            names: Names::new(kept),
            torn: Torn::default(),
            time: records::Slot::default(),
        }
    }
}

impl Records for Lingua {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        // Lines within a step show the micro-batch before the gradient is complete.
        let Some(record) = Record::of(piece.text).filter(|r| r.micro == 0) else {
            return;
        };
        rows.begin(record.step);
        if let Some(time) = time(record.before) {
            self.time.set("time", time, rows);
        }
        self.names.begin();
        let mut rest = record.fields;
        while !rest.is_empty() {
            let end =
                memchr::memmem::find(rest, b"  ").map_or(rest.len(), |at| value_end(rest, at));
            let (field, next) = rest.split_at(end);
            let closed = !next.is_empty() || !piece.open;
            if self.field(field, closed, rows).is_none() {
                self.torn.lose(
                    piece.line,
                    "not a whole field; the others are kept",
                    field,
                    rows,
                );
            }
            rest = next.trim_ascii_start();
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }
}

impl Lingua {
    fn field(&mut self, field: &[u8], closed: bool, rows: &mut Rows) -> Option<()> {
        let colon = memchr::memchr(b':', field)?;
        let slot = self.names.slot(&field[..colon], rows);
        let value = Cursor::new(&field[colon + 1..])
            .number()
            .filter(|_| closed || slot.is_none())?;
        // -1 stands for a gradient norm that was not computed.
        let sentinel = &field[..colon] == b"grad" && value < 0.0;
        if let Some(slot) = slot.filter(|_| !sentinel) {
            rows.set(slot, value);
        }
        Some(())
    }
}

/// Where a field ends: values are padded, so two spaces may stand after the colon too.
fn value_end(rest: &[u8], at: usize) -> usize {
    if !rest[..at].ends_with(b":") {
        return at;
    }
    let start = at + rest[at..].iter().take_while(|b| **b == b' ').count();
    memchr::memmem::find(&rest[start..], b"  ").map_or(rest.len(), |len| start + len)
}

/// The time in `INFO    26-03-01 12:00:00.000000 - 0:00:10 - `, the last of what stands before a record.
fn time(before: &[u8]) -> Option<f64> {
    const LEN: usize = "26-03-01 12:00:00.000000".len();
    let elapsed = before.strip_suffix(b" - ")?;
    let end = memchr::memmem::rfind(elapsed, b" - ")?;
    let short = elapsed[..end].last_chunk::<LEN>()?;
    let mut full = [0; LEN + 2];
    full[..2].copy_from_slice(b"20");
    full[2..].copy_from_slice(short);
    text::timestamp(&full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn padded_values_micro_batches_and_a_torn_line() {
        let text = include_bytes!("../../fixtures/logs/lingua/train.log");
        for lines in [1, usize::MAX] {
            let rows = read_in::<Lingua>(text, lines);
            assert_eq!(rows.steps, [10, 20, 30]);
            assert_eq!(column(&rows, "loss"), [Some(10.1234), Some(9.5), Some(9.1)]);
            assert_eq!(column(&rows, "grad_norm"), [Some(1.23), None, None]);
            assert_eq!(column(&rows, "lr")[..2], [Some(3e-5), Some(6e-5)]);
            assert_eq!(column(&rows, "wps")[0], Some(51_200.0));
            assert_eq!(column(&rows, "step_time")[0], Some(0.1234));
            assert_eq!(column(&rows, "time")[0], Some(1_772_366_400_250.0));
            assert_eq!(rows.losses.len(), 1);
        }
        assert_eq!(sniff(text), 95);
    }

    #[test]
    fn damage_is_survived() {
        survives::<Lingua>(include_bytes!("../../fixtures/logs/lingua/train.log"));
    }
}
