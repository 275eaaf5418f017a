//! `NeMo` consoles: `Training epoch 0, iteration 120/149 | lr: … | reduced_train_loss: …`, and the older progress bar.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::number;
use crate::ingest::ranks;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::run::EventKind;
use crate::run::Rows;

/// `NeMo` 1 and 2. Steps count from 0; `NeMo` 2 prints means over the log interval, to four digits.
pub(super) const INGESTER: Ingester = Ingester {
    name: "nemo",
    recognised_by: "`Training epoch E, iteration N/M | … | reduced_train_loss: …` lines or bars with `reduced_train_loss=`",
    signals: &[
        "loss",
        "learning_rate",
        "grad_norm",
        "val_loss",
        "global_batch_size",
        "consumed_samples",
        "step_time",
    ],
    framework: Some("nemo"),
    step_base: Some(0),
    averaged: true,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Printed>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    if records::any(head, |p| line(p.text).is_some()) {
        93
    } else if records::any(head, |p| bar(p.text).is_some()) {
        88
    } else {
        0
    }
}

/// The iteration and the fields of a line of `NeMo` 2.
fn line(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut cursor = Cursor::new(fields::after(text, "Training epoch ")?);
    cursor.digits()?;
    cursor.eat(", iteration ")?;
    let iteration = cursor.digits()?;
    cursor.eat("/")?;
    // The number of iterations is not always known.
    if cursor.digits().is_none() {
        cursor.find(" |")?;
        return Some((iteration, cursor.rest()));
    }
    cursor.eat(" |")?;
    Some((iteration, cursor.rest()))
}

/// A progress bar of `NeMo` 1: the batches done, its fields, and what follows it.
struct Bar<'a> {
    done: u64,
    fields: &'a [u8],
    whole: bool,
    rest: &'a [u8],
}

fn bar(text: &[u8]) -> Option<Bar<'_>> {
    let mut rest = text;
    while let Some(after) = fields::after(rest, "| ") {
        rest = after;
        let Some((done, inside)) = opening(after) else {
            continue;
        };
        let (fields, whole, rest) = fields::bracket(inside);
        if fields::after(fields, "reduced_train_loss=").is_some() {
            return Some(Bar {
                done,
                fields,
                whole,
                rest,
            });
        }
    }
    None
}

/// `795/77225 [`.
fn opening(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut cursor = Cursor::new(text);
    let done = cursor.digits()?;
    cursor.eat("/")?;
    cursor.digits()?;
    cursor.eat(" [")?;
    Some((done, cursor.rest()))
}

struct Printed {
    line: Names,
    bar: Names,
    torn: Torn,
}

impl Default for Printed {
    fn default() -> Self {
        Self {
            line: Names::new(|name| (name != "global_step").then_some(name)),
            // The bar's own loss is a mean over some batches.
            bar: Names::new(|name| {
                (!matches!(name, "global_step" | "loss" | "v_num")).then_some(name)
            }),
            torn: Torn::default(),
        }
    }
}

impl Records for Printed {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        if let Some((iteration, body)) = line(piece.text) {
            self.line(piece, iteration, body, rows);
            return;
        }
        let mut rest = piece.text;
        let mut any = false;
        while let Some(found) = bar(rest) {
            any = true;
            if found.whole {
                self.bar(&found, rows);
            } else {
                self.torn.lose(piece.line, "not a whole bar", rest, rows);
            }
            rest = found.rest;
        }
        if !any {
            event(piece.text, rows);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        fresh_validation(rows);
        mean_samples(rows);
        dated(rows);
        ranks::once(rows);
    }
}

impl Printed {
    fn line(&mut self, piece: &Piece<'_>, iteration: u64, body: &[u8], rows: &mut Rows) {
        // Iterations begin again with every epoch, the steps of the trainer do not.
        let step = fields::step_after(body, "| global_step: ").map_or(iteration, |(step, _)| step);
        rows.begin(step);
        self.line.begin();
        for (name, value, last) in fields::pairs(body, " | ", ": ") {
            let cut = piece.open && last;
            match number::number(value).filter(|_| !cut) {
                Some(number) => {
                    if let Some(slot) = self.line.slot(name, rows) {
                        rows.set(slot, number);
                    }
                }
                None => self.torn.lose(piece.line, "not a whole field", value, rows),
            }
        }
    }

    /// A bar is drawn more than once a step, at first with the values of the step before.
    fn bar(&mut self, bar: &Bar<'_>, rows: &mut Rows) {
        let value = fields::after(bar.fields, "global_step=").unwrap_or_default();
        let value = &value[..memchr::memchr(b',', value).unwrap_or(value.len())];
        // Large numbers are cut to three digits.
        let step = exact(value)
            .and_then(number::step)
            .unwrap_or(bar.done.saturating_sub(1));
        if rows.steps.last() != Some(&step) {
            rows.begin(step);
        }
        self.bar.begin();
        for (name, value, _) in fields::pairs(bar.fields, ", ", "=") {
            let value = if name == b"consumed_samples" {
                exact(value)
            } else {
                padded(value)
            };
            if let (Some(number), Some(slot)) =
                (value, value.and_then(|_| self.bar.slot(name, rows)))
            {
                rows.set(slot, number);
            }
        }
        let interval = rows.slot("interval");
        rows.set(interval, 1.0);
    }
}

/// Bars pad what is short with `.0`, `nan` too.
fn padded(value: &[u8]) -> Option<f64> {
    let word = || value.split(|b| *b == b'.').next().and_then(number::number);
    number::number(value).or_else(|| word().filter(|v| !v.is_finite()))
}

fn exact(value: &[u8]) -> Option<f64> {
    number::number(value).filter(|_| !value.contains(&b'e'))
}

/// The validation loss is printed on until there is a new one: it counts where it changes.
fn fresh_validation(rows: &mut Rows) {
    let Some(slot) = rows.find("val_loss") else {
        return;
    };
    let mut last = None;
    for row in 0..rows.steps.len() {
        let value = rows.column(slot).get(row).map(f64::to_bits);
        if value.is_some() && value == last {
            rows.column_mut(slot).clear(row);
        }
        last = value.or(last);
    }
}

/// Of more than one step, the samples read so far are a mean too, which says nothing of any step.
fn mean_samples(rows: &mut Rows) {
    let Some(slot) = rows.find("consumed_samples") else {
        return;
    };
    let interval = rows.find("interval");
    let printed = |row: usize| interval.is_none_or(|i| rows.column(i).get(row).is_none());
    let gaps = (1..rows.steps.len())
        .filter(|r| printed(*r))
        .map(|r| rows.steps[r].saturating_sub(rows.steps[r - 1]));
    let mut gaps: Vec<u64> = gaps.filter(|g| *g > 0).collect();
    if gaps.is_empty() {
        return;
    }
    let middle = gaps.len() / 2;
    let usual = *gaps.select_nth_unstable(middle).1;
    if usual > 1 {
        for row in 0..rows.steps.len() {
            rows.column_mut(slot).clear(row);
        }
        let what = format!("consumed_samples is printed as a mean over {usual} steps: left out");
        rows.lose("", what);
    }
}

/// Lines about checkpoints. Those of the trainer count steps that are done.
fn event(text: &[u8], rows: &mut Rows) {
    if let Some(path) = fields::after(text, "Scheduled async checkpoint save for ") {
        rows.mark(EventKind::SaveStarted, None, fields::path(path));
    } else if let Some((step, rest)) = fields::step_after(text, "Async checkpoint save for step") {
        if fields::after(rest, "finalized successfully").is_some() {
            let path = fields::after(rest, "(").and_then(|p| p.split(|b| *b == b')').next());
            let path = path.and_then(fields::path);
            rows.mark(EventKind::Saved, Some(step), path);
        }
    } else if let Some(path) = fields::after(text, "Restoring states from the checkpoint path at ")
    {
        rows.mark(EventKind::Loaded, None, fields::path(path));
    }
}

/// Gives checkpoints whose line does not tell it the updates that they hold: by their names, of which those of `NeMo` 2
/// count from 0 and those of `NeMo` 1 do not, else by the row before.
fn dated(rows: &mut Rows) {
    // Only the bars of NeMo 1 tell the interval.
    let first = u64::from(rows.find("interval").is_none());
    let steps = &rows.steps;
    for mark in rows.marks.iter_mut().filter(|m| m.step.is_none()) {
        let name = mark
            .path
            .as_deref()
            .and_then(|p| p.rsplit('/').next())
            .unwrap_or_default();
        let named = fields::step_after(name.as_bytes(), "step=").map(|(step, _)| step + first);
        let before = || mark.row.checked_sub(1).map(|row| steps[row] + 1);
        mark.step = match mark.kind {
            EventKind::SaveStarted => named.or_else(before),
            EventKind::Loaded => named,
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{column, marks, read_in, shared, survives};

    fn read(text: &str) -> Rows {
        read_in::<Printed>(text.as_bytes(), usize::MAX)
    }

    #[test]
    fn means_and_stale_validation_losses() {
        let text = include_bytes!("../../fixtures/logs/nemo/two.log");
        assert_eq!(sniff(text), 93);
        for lines in [1, 2, usize::MAX] {
            let rows = read_in::<Printed>(text, lines);
            assert_eq!(rows.steps, [0, 10, 20, 30, 40, 20, 30]);
            let loss = column(&rows, "reduced_train_loss");
            assert_eq!(loss[..4], [10.9, 9.812, 8.7, 8.1].map(Some));
            assert!(loss[4].is_some_and(f64::is_nan));
            assert_eq!(loss[5..], [Some(8.75), None]);
            let validation = [None, None, Some(9.1), None, Some(8.2), Some(9.1), None];
            assert_eq!(column(&rows, "val_loss"), validation);
            assert_eq!(column(&rows, "lr")[1], Some(3e-5));
            assert_eq!(column(&rows, "train_step_timing in s")[0], Some(0.031_46));
            assert!(
                column(&rows, "consumed_samples")
                    .iter()
                    .all(Option::is_none)
            );
            assert_eq!(marks(&rows, EventKind::SaveStarted), [(3, Some(21))]);
            assert_eq!(marks(&rows, EventKind::Saved), [(4, Some(21))]);
            assert_eq!(marks(&rows, EventKind::Loaded), [(5, Some(21))]);
            assert_eq!(rows.losses.len(), 2, "{:?}", rows.losses);
        }
    }

    #[test]
    fn every_step_keeps_its_samples() {
        let rows = read(
            "Training epoch 0, iteration 8/9 | global_step: 8 | reduced_train_loss: 2 | consumed_samples: 4608\n\
             Training epoch 1, iteration 0/9 | consumed_samples: 5120 | global_step: 9 | reduced_train_loss: 1.5\n",
        );
        assert_eq!(rows.steps, [8, 9]);
        assert_eq!(
            column(&rows, "consumed_samples"),
            [Some(4608.0), Some(5120.0)]
        );
    }

    #[test]
    fn bars_of_the_first_version() {
        let bar = |n: u64, g: &str, l: &str| {
            format!(
                "\rEpoch 0:   1%|▏  | {n}/77225 [9:07:58<87:05:01, loss=3.1, v_num=, reduced_train_loss={l}, global_step={g}, consumed_samples=1.63e+6, val_loss=3.500]"
            )
        };
        let text = [
            bar(795, "793.0", "3.080"),
            bar(795, "794.0", "3.090"),
            bar(796, "794.0", "3.090"),
            bar(796, "795.0", "nan.0"),
            bar(123_457, "1.23e+5", "3.000"),
            "\rValidation DataLoader 0:  10%|█ | 5/50 [00:01<00:09]\n".to_owned(),
            bar(123_458, "1.23e+5", "2.9")[..90].to_owned(),
        ];
        let rows = read(&text.concat());
        assert_eq!(sniff(text.concat().as_bytes()), 88);
        assert_eq!(rows.steps, [793, 794, 795, 123_456]);
        let loss = column(&rows, "reduced_train_loss");
        assert_eq!((loss[1], loss[3]), (Some(3.09), Some(3.0)));
        assert!(loss[2].is_some_and(f64::is_nan));
        assert_eq!(column(&rows, "interval"), [Some(1.0); 4]);
        assert!(rows.find("loss").is_none() && rows.find("consumed_samples").is_none());
        assert_eq!(column(&rows, "val_loss")[..2], [Some(3.5), None]);
    }

    #[test]
    fn bars_without_an_end() {
        assert!(read(&"| 1/2 [".repeat(200_000)).steps.is_empty());
    }

    #[test]
    fn damage_does_no_harm() {
        survives::<Printed>(include_bytes!("../../fixtures/logs/nemo/two.log"));
    }

    #[test]
    fn the_line_in_the_shared_log() {
        let Some(text) = shared("samples/synthetic/mixed.log") else {
            return;
        };
        let rows = read_in::<Printed>(&text, usize::MAX);
        assert_eq!(rows.steps, [120]);
        assert!(column(&rows, "reduced_train_loss")[0].is_some_and(f64::is_nan));
        assert_eq!(column(&rows, "val_loss"), [Some(4.106)]);
        assert!(rows.losses.is_empty());
    }
}
