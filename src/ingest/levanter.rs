//! levanter consoles: a progress bar whose text ends in `loss=`, written by every host into one log.

mod json;

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Torn;
use crate::ingest::late;
use crate::ingest::number;
use crate::ingest::ranks;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::run::EventKind;
use crate::run::Rows;

pub(super) use json::INGESTER as JSON;

/// levanter. Its bar counts steps that are done, so from 1; its checkpoints count from 0.
pub(super) const INGESTER: Ingester = Ingester {
    name: "levanter",
    recognised_by: "progress bars `train: … N/M [… loss=…]`",
    signals: &["loss", "val_loss"],
    framework: Some("levanter"),
    step_base: Some(1),
    averaged: false,
    interleaved: true,
    sniff,
    reader: Reader::Lines(Console::<Bars>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    let has_loss = |p: &Piece<'_>| bar(p.text).is_some_and(|(bar, _)| bar.loss != Loss::Absent);
    if !records::any(head, has_loss) {
        0
    } else if fields::after(head, "levanter").is_some() {
        90
    } else {
        55
    }
}

/// What stands after `loss=`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loss {
    Absent,
    CutOff,
    Is(f64),
}

/// A state of the progress bar.
struct Bar {
    step: u64,
    loss: Loss,
    /// Whether no step was done yet.
    fresh: bool,
    /// Whether the step was cut to three digits.
    rounded: bool,
}

/// The first bar of a text, and what follows it.
fn bar(text: &[u8]) -> Option<(Bar, &[u8])> {
    let mut rest = text;
    while let Some(after) = fields::after(rest, "train") {
        let near = &after[..after.len().min(fields::LONGEST_BAR)];
        if let Some((bar, rest)) = drawn(near).or_else(|| logged(near)) {
            return Some((bar, &after[near.len() - rest.len()..]));
        }
        rest = after;
    }
    None
}

/// `:  12%|███   | 120/1000 [00:12<01:30, 9.5it/s, loss=3.2]`.
fn drawn(text: &[u8]) -> Option<(Bar, &[u8])> {
    let mut cursor = Cursor::new(text);
    cursor.eat(":")?;
    cursor.digits()?;
    cursor.eat("%|")?;
    cursor.find("| ")?;
    let step = cursor.digits()?;
    cursor.eat("/")?;
    cursor.digits()?;
    cursor.eat(" [")?;
    let (inside, whole, rest) = fields::bracket(cursor.rest());
    let bar = Bar {
        step,
        loss: loss(inside, whole),
        fresh: fields::after(inside, "<?").is_some(),
        rounded: false,
    };
    Some((bar, rest))
}

/// ` 1.23kit/10.0kit rate:9.5it/s remaining:… elapsed:00:12 postfix:loss=3.2`, where no terminal was.
fn logged(text: &[u8]) -> Option<(Bar, &[u8])> {
    let mut cursor = Cursor::new(text);
    cursor.eat(" ")?;
    let number = cursor.number()?;
    let factor = [("kit", 1e3), ("Mit", 1e6), ("it", 1.0)];
    let factor = factor
        .iter()
        .find(|(unit, _)| cursor.eat(unit).is_some())?
        .1;
    cursor.eat("/")?;
    cursor.find(" postfix:")?;
    let bar = Bar {
        step: number::step((number * factor).round())?,
        loss: loss(cursor.rest(), true),
        fresh: false,
        rounded: factor > 1.0,
    };
    Some((bar, &[]))
}

fn loss(text: &[u8], whole: bool) -> Loss {
    let Some(value) = fields::after(text, "loss=") else {
        return Loss::Absent;
    };
    let len = value.iter().position(|b| matches!(b, b',' | b' '));
    let number = fields::amount(&value[..len.unwrap_or(value.len())]);
    number
        .filter(|_| whole || len.is_some())
        .map_or(Loss::CutOff, Loss::Is)
}

#[derive(Default)]
struct Bars {
    torn: Torn,
    /// The first row of the process.
    first: usize,
}

impl Records for Bars {
    const ONE_ROW_A_STEP: bool = false;

    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let mut rest = piece.text;
        let mut any = false;
        while let Some((bar, after)) = bar(rest) {
            any = true;
            if bar.fresh {
                rows.mark(EventKind::Start, None, None);
                self.first = rows.steps.len();
            }
            match bar.loss {
                Loss::Is(loss) => self.row(&bar, loss, rows),
                Loss::CutOff => self.torn.lose(piece.line, "not a whole loss", rest, rows),
                Loss::Absent => {}
            }
            rest = after;
        }
        if !any {
            event(piece.text, rows);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        late::settle(rows);
        ranks::last_of_step(rows);
        ranks::once(rows);
    }
}

impl Bars {
    /// The bar is drawn twice a step: at first with the loss of the step before.
    fn row(&mut self, bar: &Bar, loss: f64, rows: &mut Rows) {
        let slot = rows.slot("loss");
        let known = ranks::known(&rows.steps, rows.steps.len(), self.first, bar.step);
        if let Some(row) = known {
            rows.column_mut(slot).set(row, loss);
        } else {
            rows.begin(bar.step);
            rows.set(slot, loss);
        }
        if bar.rounded {
            let fact = rows.facts.entry("step_digits".to_owned());
            fact.or_insert_with(|| "3".to_owned());
        }
    }
}

/// Lines about validation and checkpoints. A checkpoint of step N holds N + 1 steps.
fn event(text: &[u8], rows: &mut Rows) {
    if let Some(value) = fields::after(text, "INFO :: validation loss: ") {
        if let Some(value) = fields::amount(value) {
            late::of_last(rows, "val_loss", value);
        }
    } else if let Some(path) =
        fields::after(text, "Loading checkpoint from ").and_then(fields::path)
    {
        if let Some(step) = fields::step_of_path(&path) {
            rows.mark(EventKind::Loaded, Some(step + 1), Some(path));
        }
    } else if let Some((kind, rest)) = save(text) {
        let step = fields::step_after(rest, " for step").map(|(step, _)| step + 1);
        if step.is_some() {
            rows.mark(kind, step, fields::path(rest));
        }
    } else if let Some(rest) = fields::after(text, "Deleted old checkpoint ") {
        let step = fields::path(rest).as_deref().and_then(fields::step_of_path);
        if let Some(step) = step {
            rows.mark(EventKind::Deleted, Some(step + 1), None);
        }
    }
}

fn save(text: &[u8]) -> Option<(EventKind, &[u8])> {
    let saved = fields::after(text, "Saved checkpoint to ").map(|rest| (EventKind::Saved, rest));
    saved.or_else(|| {
        Some((
            EventKind::SaveStarted,
            fields::after(text, "Saving checkpoint to ")?,
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{adds_up, column, marks, read_in, shared, survives};
    use crate::run::{BuildOptions, RunBuilder};
    use crate::signal::Aliases;

    fn bar_of(step: u64, loss: &str) -> String {
        format!("\rtrain:   1%|▏         | {step}/2000 [00:16<40:03,  7.21s/it, loss={loss}]")
    }

    fn read(text: &str) -> Rows {
        read_in::<Bars>(text.as_bytes(), usize::MAX)
    }

    #[test]
    fn the_last_bar_of_a_step_has_its_loss() {
        let text = include_bytes!("../../fixtures/logs/levanter/hosts.out");
        assert_eq!(sniff(text), 90);
        for lines in [1, 2, 5, usize::MAX] {
            let rows = read_in::<Bars>(text, lines);
            let aliases = Aliases::built_in();
            let options = BuildOptions {
                interleaved: true,
                ..BuildOptions::default()
            };
            assert_eq!(
                marks(&rows, EventKind::SaveStarted),
                [(rows.marks[1].row, Some(2))]
            );
            let mut builder = RunBuilder::new(&aliases, options);
            builder.add("x", rows);
            let run = builder.finish().unwrap();
            assert_eq!(run.steps, [1, 2, 3, 3, 4]);
            let loss: Vec<_> = (0..5).map(|r| run.value("loss", r)).collect();
            assert_eq!(loss, [12.6, 12.7, 12.5, 12.4, 12.3].map(Some));
            assert_eq!(run.value("val_loss", 0), Some(3.728));
            assert_eq!(run.attempts.len(), 2);
            assert_eq!(run.losses.len(), 1);
        }
    }

    #[test]
    fn bars_in_a_log_without_a_terminal() {
        let rows = read(
            "2026-03-01T12:00:00 - 0 - x - INFO :: Progress on:train 999it/10.0kit rate:9.5it/s remaining:15:00 elapsed:01:45 postfix:loss=3.25\n\
             Progress on:train 1.23kit/10.0kit rate:9.5it/s remaining:15:00 elapsed:01:55 postfix:loss=nan\n\
             Progress on:eval 3.00it/10.0it rate:- remaining:? elapsed:00:00 postfix:-\n",
        );
        assert_eq!(rows.steps, [999, 1230]);
        assert_eq!(column(&rows, "loss")[0], Some(3.25));
        assert!(column(&rows, "loss")[1].is_some_and(f64::is_nan));
        assert_eq!(rows.facts.get("step_digits").map(String::as_str), Some("3"));
    }

    #[test]
    fn a_bar_written_over_another() {
        let torn = &bar_of(3, "2.5")[..50];
        let text = format!("{torn}{}\n", &bar_of(4, "2.25")[1..]);
        assert_eq!(read(&text).steps, [4]);
        // Bars without an end must not be searched for one again and again.
        assert!(read(&"train: 1%|| 1/2 [".repeat(200_000)).steps.is_empty());
        assert!(read(&"train 1it/".repeat(200_000)).steps.is_empty());
    }

    #[test]
    fn other_bars_are_not_training() {
        let rows = read(
            "\reval : 1it [00:00,  4.58it/s, loss=3.66]\rtrain:   0%|          | 0/20 [00:00<?, ?it/s]\n",
        );
        assert!(rows.steps.is_empty() && rows.losses.is_empty());
        assert_eq!(
            sniff(b"\rEpoch 0:   1%|  | 795/77225 [9:07:58<1, loss=3.1]"),
            0
        );
        assert_eq!(sniff(bar_of(3, "2.5").as_bytes()), 55);
    }

    #[test]
    fn damage_does_no_harm() {
        let text = include_bytes!("../../fixtures/logs/levanter/hosts.out");
        survives::<Bars>(text);
    }

    /// Counts and sums taken with a short script that keeps the last loss printed with each step.
    #[test]
    fn the_shared_log() {
        let Some(text) = shared("corpus/levanter-tqdm-nohup__multi-host-interleaved.out") else {
            return;
        };
        assert_eq!(sniff(&text), 90);
        let rows = read_in::<Bars>(&text, usize::MAX);
        assert_eq!(
            (rows.steps.len(), rows.steps[0], rows.steps[1300]),
            (1301, 1, 1301)
        );
        assert!(rows.steps.is_sorted());
        adds_up(&rows, "loss", 1301, 16_486.1);
        let validations = column(&rows, "val_loss").into_iter().flatten().count();
        assert_eq!(validations, 26);
        assert_eq!(marks(&rows, EventKind::Start).len(), 1);
        assert!(rows.losses.is_empty(), "{:?}", rows.losses);
    }
}
