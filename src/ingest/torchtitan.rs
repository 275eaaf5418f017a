//! torchtitan consoles, 2024 to now: `step: 10  loss: 2.5  grad_norm: 0.3  memory: …  tps: …`.

mod event;
mod line;
mod structured;

use memchr::memmem::Finder;

use crate::ingest::Ingester;
use crate::ingest::LineReader;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Clock;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::peel;
use crate::ingest::ranks;
use crate::ingest::text;
use crate::run::Rows;

use event::Events;
use line::{ANCHOR, LOSS, Record, Value, name, record, skip, value};

pub(super) use structured::INGESTER as STRUCTURED;

/// torchtitan.
pub(super) const INGESTER: Ingester = Ingester {
    name: "torchtitan",
    recognised_by: "`step: N  loss: …  memory: …GiB(…%)  tps: …` lines",
    signals: &[
        "loss",
        "grad_norm",
        "val_loss",
        "learning_rate",
        "tokens_per_second_per_device",
        "tflops_per_device",
        "mfu",
        "time",
    ],
    framework: Some("torchtitan"),
    step_base: Some(1),
    averaged: false,
    interleaved: true,
    sniff,
    reader: Reader::Lines(|_| Box::new(Console)),
};

/// Lines that a head is searched for.
const LOOK_AT: usize = 4000;

fn sniff(head: &[u8]) -> u8 {
    let anchor = Finder::new(ANCHOR);
    let mut scratch = Vec::new();
    let lines = head
        .split(|b| *b == b'\n')
        .filter(|l| anchor.find(l).is_some());
    for line in lines.take(LOOK_AT) {
        let plain = peel::plain(line, &mut scratch);
        let memory = |r: &Record| {
            fields::after(&plain[r.body..], "memory:")
                .is_some_and(|m| fields::after(m, "GiB(").is_some())
        };
        if record(&anchor, plain, 0).is_some_and(|r| memory(&r)) {
            return 95;
        }
    }
    0
}

struct Console;

impl LineReader for Console {
    fn chunk(&self, chunk: &[u8], rows: &mut Rows) {
        let mut lines = Lines::new();
        let events = Events::new();
        let mut scratch = Vec::new();
        text::pieces(chunk, |number, piece| {
            let line = peel::plain(piece, &mut scratch);
            if !lines.read(number, line, rows) {
                events.read(line, rows);
            }
        });
        lines.torn.finish(rows);
    }

    fn settle(&self, rows: &mut Rows) {
        event::staged(rows);
        unknown_losses(rows);
        ranks::settle(rows, "loss");
    }
}

/// Ranks of the earlier stages of a pipeline print a loss of -1: they do not know it.
fn unknown_losses(rows: &mut Rows) {
    let Some(loss) = rows.find("loss") else {
        return;
    };
    let unknown: Vec<usize> = (0..rows.steps.len())
        .filter(|r| rows.column(loss).get(*r) == Some(-1.0))
        .collect();
    for row in &unknown {
        rows.column_mut(loss).clear(*row);
    }
    if !unknown.is_empty() && !rows.column(loss).has_values() {
        rows.lose("", "the ranks in this log print -1 for the loss: only the last stage of the pipeline knows it");
    }
}

/// Reads the records of a chunk.
struct Lines {
    anchor: Finder<'static>,
    names: Names,
    validation: Names,
    clock: Clock,
    time: Option<usize>,
    torn: Torn,
    /// Whether records of this chunk end in a rate.
    rated: bool,
}

impl Lines {
    fn new() -> Self {
        Self {
            anchor: Finder::new(ANCHOR),
            names: Names::new(column),
            validation: Names::new(|name| (name == "loss").then_some("val_loss")),
            clock: Clock::new(),
            time: None,
            torn: Torn::default(),
            rated: false,
        }
    }

    /// Reads the records of a line. Returns whether there were any.
    fn read(&mut self, number: u64, line: &[u8], rows: &mut Rows) -> bool {
        let (mut from, mut any) = (0, false);
        while let Some(record) = record(&self.anchor, line, from) {
            any = true;
            let end = record.body + LOSS.len();
            if self.value(line, end).is_none() {
                let what = "a step without a whole loss was left out";
                self.torn.lose(number, what, &line[record.start..], rows);
                from = record.body;
                continue;
            }
            rows.begin(record.step);
            if let Some(time) = self.clock.find(&line[from..record.start]) {
                let slot = *self.time.get_or_insert_with(|| rows.slot("time"));
                rows.set(slot, time);
            }
            from = self.fields(number, line, &record, rows);
        }
        any
    }

    /// Reads the fields of a record. Returns where it ends.
    fn fields(&mut self, number: u64, line: &[u8], record: &Record, rows: &mut Rows) -> usize {
        self.names.begin();
        self.validation.begin();
        let mut at = record.body;
        let mut whole = false;
        while let Some((name, start)) = name(&line[at..]) {
            whole |= matches!(name, b"tps" | b"wps");
            self.rated |= whole;
            let value = if whole {
                value(line, at + start)
            } else {
                self.value(line, at + start)
            };
            let Some((value, end)) = value else {
                break;
            };
            let names = if record.validation {
                &mut self.validation
            } else {
                &mut self.names
            };
            if let (Value::Number(value), Some(slot)) = (value, names.slot(name, rows)) {
                rows.set(slot, value);
            }
            at = end + skip(&line[end..]);
        }
        if at < line.len() && (self.rated && !whole || name(&line[at..]).is_some()) {
            let what = "the fields from here on are not whole";
            self.torn.lose(number, what, &line[at..], rows);
        }
        at
    }

    /// A value and where it ends. The last number of a line that was cut off may lack digits.
    fn value(&self, line: &[u8], at: usize) -> Option<(Value, usize)> {
        value(line, at).filter(|(_, end)| *end < line.len() || !self.rated)
    }
}

/// The column of a field. The rate was renamed, and may change its name within a log.
fn column(name: &str) -> Option<&str> {
    match name {
        "memory" => None,
        "wps" => Some("tps"),
        _ => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::EventKind;

    /// Reads a log as chunks of `lines` lines each.
    fn read_in(text: &[u8], lines: usize) -> Rows {
        let mut rows = Rows::default();
        let ends: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
        for part in ends.chunks(lines) {
            let mut next = Rows::default();
            Console.chunk(&part.concat(), &mut next);
            rows.append(next);
        }
        Console.settle(&mut rows);
        rows
    }

    fn column_of(rows: &Rows, name: &str) -> Vec<Option<f64>> {
        let column = rows.find(name).map(|s| rows.column(s));
        let get = |r| column.and_then(|c| c.get(r));
        (0..rows.steps.len()).map(get).collect()
    }

    fn marks(rows: &Rows) -> Vec<(usize, EventKind, Option<u64>)> {
        rows.marks.iter().map(|m| (m.row, m.kind, m.step)).collect()
    }

    #[test]
    fn colours_ranks_validation_and_a_restart() {
        let text = include_bytes!("../../fixtures/logs/torchtitan/restart.log");
        for lines in [1, 3, usize::MAX] {
            let rows = read_in(text, lines);
            assert_eq!(
                rows.steps,
                [1, 1, 10, 10, 10, 10, 20, 20, 20, 30, 20, 20, 30]
            );
            let loss = column_of(&rows, "loss");
            assert_eq!(loss[..2], [Some(12.24731), Some(12.24731)]);
            assert_eq!(loss[2..6], [Some(10.5), None, Some(10.5), None]);
            assert!(loss[6].is_some_and(f64::is_nan));
            assert_eq!(
                column_of(&rows, "val_loss")[3..6],
                [Some(10.25), None, Some(10.25)]
            );
            assert_eq!(column_of(&rows, "grad_norm")[6], Some(f64::INFINITY));
            assert_eq!(column_of(&rows, "tflops")[0], Some(1424.31));
            assert_eq!(
                column_of(&rows, "mfu")[..3],
                [Some(14.39), Some(14.39), None]
            );
            assert_eq!(column_of(&rows, "time")[0], Some(1_772_366_401_123.0));
            let expected = [
                (0, EventKind::Start, Some(1)),
                (6, EventKind::SaveStarted, Some(10)),
                (6, EventKind::Saved, Some(10)),
                (10, EventKind::Loaded, Some(10)),
                (10, EventKind::Start, Some(11)),
            ];
            assert_eq!(marks(&rows), expected);
            assert_eq!(rows.losses.len(), 1, "{:?}", rows.losses);
        }
    }

    #[test]
    fn damage_does_no_harm() {
        let text = include_bytes!("../../fixtures/logs/torchtitan/restart.log");
        fields::tests::damage(&|t| drop(read_in(t, usize::MAX)), text);
    }

    #[test]
    fn a_validation_row_is_no_training_row() {
        let rows = read_in(
            b"validate step: 10  loss:  7.1000  memory:  9.46GiB(64.99%)  tps: 7,282\n",
            1,
        );
        assert_eq!(column_of(&rows, "val_loss"), [Some(7.1)]);
        assert!(rows.find("loss").is_none() && rows.find("tps").is_none());
    }

    #[test]
    fn colours_without_their_escape() {
        let rows = read_in(
            b"- INFO - [31mstep:  1  [32mloss: 12.5  ^[[38;2;180;60;0mgrad_norm:  1.5  [34mtps: 7,322[39m\n",
            1,
        );
        assert_eq!(rows.steps, [1]);
        assert_eq!(column_of(&rows, "loss"), [Some(12.5)]);
        assert_eq!(column_of(&rows, "grad_norm"), [Some(1.5)]);
    }

    #[test]
    fn torn_lines_and_two_records_on_one() {
        let text = b"step:  1  loss: 3.50000  memory: 9.46GiB(64.99%)  tps: 7,282  mfu: 0.17%\n\
            step:  2  loss: 3.2[rank3]:step:  2  loss: 3.25000  memory: 9.46GiB(64.99%)  tps: 7,282\n\
            step:  3  loss: 3.10000  grad_norm: 1.0WARNING x\nstep:  4  lo\nstep: 5  loss: 3.0";
        let rows = read_in(text, usize::MAX);
        assert_eq!(rows.steps, [1, 2, 3]);
        assert_eq!(column_of(&rows, "loss"), [Some(3.5), Some(3.25), Some(3.1)]);
        assert!(column_of(&rows, "grad_norm").iter().all(Option::is_none));
        let places: Vec<&str> = rows.losses.iter().map(|l| l.place.as_str()).collect();
        assert_eq!(places, ["line +1", "line +2", "line +3", "line +4"]);
    }

    #[test]
    fn a_save_in_the_background_is_on_disk_when_the_next_begins() {
        let row = |s: u64| format!("step: {s}  loss: 3.5  memory: 9.46GiB(64.99%)  tps: 7,282\n");
        let save = "Saving the checkpoint (or staging if async is enabled).\n\
                    Finished saving the checkpoint (or staging if async is enabled)in 2.00 seconds.\n";
        let config = "\"async_mode\": \"async_with_pinned_mem\",\n";
        let text = [config, &row(1), save, &row(2), save].concat();
        let rows = read_in(text.as_bytes(), usize::MAX);
        let saved: Vec<_> = marks(&rows)
            .into_iter()
            .filter(|m| m.1 == EventKind::Saved)
            .collect();
        assert_eq!(saved, [(2, EventKind::Saved, Some(1))]);
        let rows = read_in(
            text.replace("async_with_pinned_mem", "disabled").as_bytes(),
            1,
        );
        let saved: Vec<_> = marks(&rows)
            .into_iter()
            .filter(|m| m.1 == EventKind::Saved)
            .collect();
        assert_eq!(
            saved,
            [
                (1, EventKind::Saved, Some(1)),
                (2, EventKind::Saved, Some(2))
            ]
        );
    }

    #[test]
    fn saves_as_0_3_tells_them() {
        let row = |s: u64| format!("step: {s}  loss: 3.5  memory: 9.46GiB(64.99%)  tps: 7,282\n");
        let save = "Staging the checkpoint.\nFinished staging the checkpoint in 2.00 seconds.\n";
        let last = "Saving the checkpoint.\nSaving a full checkpoint at last step, step 3.\n\
                    Last step checkpoint completed in 1.50s\n\
                    Checkpointer is deleting ./outputs/checkpoint/step-1.\n";
        let text = [&row(1), save, &row(2), save, &row(3), last].concat();
        for lines in [1, usize::MAX] {
            let found = marks(&read_in(text.as_bytes(), lines));
            let of = |kind: EventKind| -> Vec<Option<u64>> {
                let steps = found.iter().filter(|m| m.1 == kind).map(|m| m.2);
                steps.collect()
            };
            assert_eq!(of(EventKind::Saved), [Some(1), Some(2), Some(3)]);
            assert_eq!(of(EventKind::Deleted), [Some(1)]);
        }
    }

    #[test]
    fn stages_of_a_pipeline_that_do_not_know_the_loss() {
        let text = "[rank0]:step:  1  loss: -1.00000  memory: 9.46GiB(64.99%)  tps: 7\n\
                    [rank7]:step:  1  loss:  3.50000  memory: 9.46GiB(64.99%)  tps: 7\n";
        let rows = read_in(text.as_bytes(), 1);
        assert_eq!(column_of(&rows, "loss"), [None, Some(3.5)]);
        let rows = read_in(text.lines().next().unwrap().as_bytes(), 1);
        assert_eq!((rows.steps.len(), rows.losses.len()), (1, 1));
    }

    #[test]
    fn a_step_that_is_not_finite_is_not_logged() {
        let row = "step:  9  loss: 3.5  grad_norm: 1.0  memory: 9.46GiB(64.99%)  tps: 7\n";
        let stop = "RuntimeError: Loss or gradient norm is not finite on at least one rank at step 10. Stopping\n";
        let rows = read_in([row, stop, stop].concat().as_bytes(), 1);
        assert_eq!(rows.steps, [9, 10, 10]);
        assert_eq!(column_of(&rows, "loss"), [Some(3.5), None, None]);
        assert!(column_of(&rows, "grad_norm")[1].is_some_and(f64::is_nan));
        let expected = [
            (1, EventKind::NanInferred, Some(10)),
            (2, EventKind::Exit, Some(10)),
        ];
        assert_eq!(marks(&rows), expected);
    }

    #[test]
    fn other_lines_are_not_recognised() {
        for line in [
            "step: 10  acc: 0  loss: 10.1234  grad: 1.23e+00  mem: 50%",
            "step:1500/1555 val_loss:3.2946 train_time:87592ms",
            "epoch: 0|step: 0|ppo_ep: 1|act_loss: 0.2|",
            "print(f\"step: {step}  loss: {loss}  memory: {x}GiB(\")",
            "completed step: 12, seconds: 1.2, loss: 8.1, memory: 1GiB(2",
        ] {
            assert_eq!(sniff(line.as_bytes()), 0, "{line}");
        }
    }

    /// Counts and sums taken with a short script that splits each line at its field names.
    #[test]
    fn the_shared_logs() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/");
        let open = |name: &str| std::fs::read(format!("{folder}{name}")).ok();
        let Some(text) = open("corpus/torchtitan-console__aurora-blendcorpus-2B.log") else {
            return;
        };
        assert_eq!(sniff(&text), 95);
        let rows = read_in(&text, usize::MAX);
        assert_eq!(
            (rows.steps.len(), rows.steps[0], rows.steps[104]),
            (105, 1, 105)
        );
        let sum = |name: &str| column_of(&rows, name).into_iter().flatten().sum::<f64>();
        assert!((sum("loss") - SUMS.0).abs() < 1e-6, "{}", sum("loss"));
        assert!(
            (sum("grad_norm") - SUMS.1).abs() < 1e-6,
            "{}",
            sum("grad_norm")
        );
        assert!(rows.losses.is_empty());
        for (name, steps) in [
            ("color_head", vec![1, 10, 20, 30, 1000]),
            ("plain_head", vec![14, 15]),
            ("2024_wps", vec![1, 10]),
        ] {
            let text = open(&format!("samples/torchtitan/console_{name}.log")).unwrap();
            let rows = read_in(&text, 1);
            assert_eq!((sniff(&text), &rows.steps), (95, &steps));
            assert!(rows.losses.is_empty() && column_of(&rows, "loss").iter().all(Option::is_some));
            assert!(column_of(&rows, "tps").iter().all(Option::is_some));
        }
    }

    const SUMS: (f64, f64) = (706.5832, 564.1011);
}
