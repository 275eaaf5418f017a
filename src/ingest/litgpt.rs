//! litgpt consoles: `Epoch 1 | iter 64 step 4 | loss train: 10.123, val: n/a | iter time: 301.22 ms (step) …`.

pub(super) mod align;

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Torn;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::Column;
use crate::run::EventKind;
use crate::run::Rows;

/// litgpt. It prints after the optimizer's step, so steps count from 1; the loss is the mean of the step's
/// micro-batches.
pub(super) const INGESTER: Ingester = Ingester {
    name: "litgpt",
    recognised_by: "`Epoch E | iter I step N | loss train: …, val: … | iter time: … ms` lines",
    signals: &["loss", "val_loss", "step_time", "epoch"],
    framework: Some("litgpt"),
    step_base: Some(1),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<LitGpt>::boxed),
};

/// The last validation loss, which each line repeats; a private column.
const REPEATED: &str = "\u{1}val";

fn sniff(head: &[u8]) -> u8 {
    if records::any(head, |p| Record::of(p.text).is_some()) {
        90
    } else {
        0
    }
}

struct Record<'a> {
    epoch: u64,
    /// Micro-batches and updates so far.
    micro: u64,
    step: u64,
    fields: Cursor<'a>,
}

impl<'a> Record<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        cursor.find("Epoch ")?;
        let epoch = cursor.digits()?;
        cursor.eat(" | iter ")?;
        let micro = cursor.digits()?;
        cursor.eat(" step ")?;
        let step = cursor.digits()?;
        cursor.eat(" |")?;
        Some(Self {
            epoch,
            micro,
            step,
            fields: cursor,
        })
    }
}

#[derive(Default)]
struct LitGpt {
    loss: Slot,
    epoch: Slot,
    time: Slot,
    repeated: Slot,
    /// Whether it is noted how many micro-batches an update takes.
    counted: bool,
    torn: Torn,
}

/// The updates in `…/step-00000005/lit_model.pth`.
fn step_of(path: Option<&str>) -> Option<u64> {
    let folders = path?.rsplit('/');
    let mut named = folders.filter_map(|f| fields::step_after(f.as_bytes(), "step-"));
    named.next().map(|(step, _)| step)
}

impl Records for LitGpt {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        if let Some(record) = Record::of(piece.text) {
            rows.begin(record.step);
            self.epoch.set("epoch", record.epoch as f64, rows);
            self.count(&record, rows);
            if self.fields(&record, rows).is_none() {
                let what = "not a whole record; what is whole was kept";
                self.torn.lose(piece.line, what, piece.text, rows);
            }
        } else if let Some(folder) = piece.own.strip_prefix(b"Saving checkpoint to ") {
            let path = fields::path(folder);
            rows.mark(EventKind::SaveStarted, step_of(path.as_deref()), path);
        } else if let Some(path) = piece.own.strip_prefix(b"Resuming training from ") {
            let path = fields::path(path);
            rows.mark(EventKind::Loaded, step_of(path.as_deref()), path);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        validations(rows);
        records::settle_saves(rows);
    }
}

impl LitGpt {
    fn count(&mut self, record: &Record<'_>, rows: &mut Rows) {
        let many = align::per_update(record.micro, record.step);
        if let Some(many) = many.filter(|_| !self.counted) {
            let fact = (align::ACCUMULATION.to_owned(), many.to_string());
            rows.facts.extend([fact]);
            self.counted = true;
        }
    }

    fn fields(&mut self, record: &Record<'_>, rows: &mut Rows) -> Option<()> {
        let mut cursor = record.fields;
        cursor.eat(" loss train: ")?;
        let loss = cursor.number()?;
        cursor.eat(",")?;
        self.loss.set("loss", loss, rows);
        cursor.eat(" val: ")?;
        if let Some(value) = cursor.number() {
            self.repeated.set(REPEATED, value, rows);
        }
        cursor.find("| iter time: ")?;
        let time = cursor.number()?;
        cursor.eat(" ms")?;
        // The time is that of one micro-batch.
        let many = record.micro.checked_div(record.step)?;
        self.time
            .set("step_time_ms", time * many.max(1) as f64, rows);
        Some(())
    }
}

/// A validation loss belongs to the first row that shows it.
fn validations(rows: &mut Rows) {
    let Some(slot) = rows.find(REPEATED) else {
        return;
    };
    let mut before = None;
    let first = |value: Option<f64>| {
        let new = value.filter(|v| before.is_none_or(|b: f64| b.to_bits() != v.to_bits()));
        before = value.or(before);
        new
    };
    let first: Vec<Option<f64>> = rows.column(slot).iter().map(first).collect();
    rows.put("val_loss", Column::from_options(first));
    rows.put(REPEATED, Column::default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn a_validation_loss_is_told_once() {
        let text = include_bytes!("../../fixtures/logs/litgpt/pretrain.log");
        for lines in [1, usize::MAX] {
            let rows = read_in::<LitGpt>(text, lines);
            assert_eq!(rows.steps, [4, 5, 6, 7, 8]);
            assert_eq!(column(&rows, "loss")[..2], [Some(10.123), Some(9.5)]);
            assert!(column(&rows, "loss")[2].is_some_and(f64::is_nan));
            let val = column(&rows, "val_loss");
            assert_eq!(val, [None, Some(9.6), None, Some(9.1), None]);
            assert_eq!(column(&rows, "step_time_ms")[0], Some(301.22 * 16.0));
            assert_eq!(column(&rows, "loss")[4], None);
            assert_eq!(marks(&rows, EventKind::Saved), [(2, Some(5))]);
            assert_eq!(rows.losses.len(), 1);
        }
        assert_eq!(sniff(text), 90);
    }

    #[test]
    fn damage_is_survived() {
        survives::<LitGpt>(include_bytes!("../../fixtures/logs/litgpt/pretrain.log"));
    }
}
