//! `DeepSpeed` consoles: the engine's reports, the pipeline's lines, overflows, and `DeepSpeed-Chat`.

mod chat;

use std::collections::BTreeMap;

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Clock;
use crate::ingest::fields::Names;
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

pub(super) use chat::INGESTER as CHAT;

/// The engine under a trainer that logs elsewhere: its reports have no loss, those of its pipeline do.
pub(super) const INGESTER: Ingester = Ingester {
    name: "deepspeed",
    recognised_by: "`steps: N loss: … iter time (s): …` and `[Rank 0] step=N, skipped=…, lr=[…]` lines",
    signals: &[
        "loss",
        "learning_rate",
        "skipped_cumulative",
        "loss_scale",
        "samples_per_second",
        "step_time",
        "time",
    ],
    framework: Some("deepspeed"),
    step_base: Some(1),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Engine>::boxed),
};

/// The other lines of a trainer tell more than the engine's own.
fn sniff(head: &[u8]) -> u8 {
    if records::any(head, |p| pipeline(p.text).is_some()) {
        70
    } else if records::any(head, |p| report(p.text).is_some()) {
        30
    } else {
        0
    }
}

/// `[Rank 0] step=10, skipped=2, lr=[3e-05, 3e-05], mom=[(0.9, 0.95), …]`.
struct Report {
    step: u64,
    skipped: f64,
    rate: Option<f64>,
    beta2: Option<f64>,
    /// Where it begins.
    start: usize,
}

fn report(text: &[u8]) -> Option<Report> {
    let start = memchr::memmem::find(text, b"[Rank ")?;
    let mut cursor = Cursor::new(&text[start..]);
    cursor.find(" step=")?;
    let step = cursor.digits()?;
    cursor.eat(", skipped=")?;
    let skipped = cursor.number()?;
    cursor.eat(", lr=[")?;
    let rate = cursor.number();
    let beta2 = betas(cursor);
    let whole = fields::after(cursor.rest(), "]").is_some();
    Some(Report {
        step,
        skipped,
        rate: rate.filter(|_| whole),
        beta2,
        start,
    })
}

/// The second number of the first parameter group's momentum.
fn betas(mut cursor: Cursor<'_>) -> Option<f64> {
    cursor.find("], mom=[")?;
    cursor.eat("(").or_else(|| cursor.eat("["))?;
    cursor.number()?;
    cursor.eat(",")?;
    cursor.number().filter(|b| (0.0..1.0).contains(b))
}

/// What stands between `steps: N ` and the end of a pipeline's line.
fn pipeline(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut cursor = Cursor::new(fields::after(text, "steps: ")?);
    let step = cursor.digits()?;
    cursor.eat(" ")?;
    let body = cursor.rest();
    (body.starts_with(b"loss: ") && fields::after(body, "iter time (s): ").is_some())
        .then_some((step, body))
}

struct Engine {
    names: Names,
    shared: Shared,
    torn: Torn,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            names: Names::new(|name| Some(name)),
            shared: Shared::default(),
            torn: Torn::default(),
        }
    }
}

impl Records for Engine {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        if let Some((step, body)) = pipeline(piece.text) {
            rows.begin(step);
            self.fields(piece, body, rows);
        } else if let Some(report) = report(piece.text) {
            rows.begin(report.step);
            Shared::report(&report, rows);
            if let Some(time) = self.shared.clock.find(&piece.text[..report.start]) {
                let slot = rows.slot("time");
                rows.set(slot, time);
            }
        } else if let Some(rate) = self.shared.read(piece.text, rows) {
            late::of_last(rows, "samples/sec", rate);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        late::settle(rows);
        ranks::once(rows);
        saved_paths(rows);
    }
}

impl Engine {
    /// `loss: 9.5 aux_loss: 0.01 iter time (s): 1.234 samples/sec: 415.012`.
    fn fields(&mut self, piece: &Piece<'_>, mut rest: &[u8], rows: &mut Rows) {
        self.names.begin();
        while let Some(colon) = memchr::memmem::find(rest, b": ") {
            let name = rest[..colon].trim_ascii_start();
            let value = rest[colon + 2..].trim_ascii_start();
            let len = memchr::memchr(b' ', value).unwrap_or(value.len());
            let cut = piece.open && len == value.len();
            match number::number(&value[..len]).filter(|_| !cut) {
                Some(number) => {
                    if let Some(slot) = self.names.slot(name, rows) {
                        rows.set(slot, number);
                    }
                }
                None => self.torn.lose(piece.line, "not a whole field", rest, rows),
            }
            rest = &value[len..];
        }
    }
}

/// What both readers find between the records.
struct Shared {
    clock: Clock,
    /// Whether overflow lines are of one model, so that their scale is that of the row.
    one_model: bool,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            clock: Clock::new(),
            one_model: true,
        }
    }
}

impl Shared {
    fn report(report: &Report, rows: &mut Rows) {
        for (name, value) in [("skipped", Some(report.skipped)), ("lr", report.rate)] {
            if let Some(value) = value {
                let slot = rows.slot(name);
                rows.set(slot, value);
            }
        }
        note(report, rows);
    }

    /// Reads a line about overflows, checkpoints or speed. Returns the samples per second, if it tells them.
    fn read(&self, text: &[u8], rows: &mut Rows) -> Option<f64> {
        if fields::after(text, "kipping step").is_some() {
            self.overflow(text, rows);
        } else if fields::after(text, "cale already at minimum").is_some() {
            rows.mark(EventKind::Exit, None, None);
        } else if let Some(version) = fields::after(text, "DeepSpeed info: version=") {
            rows.mark(EventKind::Start, None, None);
            let version = version
                .split(|b| matches!(b, b',' | b' '))
                .next()
                .and_then(fields::path);
            if let Some(version) = version {
                rows.facts
                    .entry("framework_version".to_owned())
                    .or_insert(version);
            }
        } else if fields::after(text, "global_step").is_some_and(|t| !t.starts_with(b"=")) {
            checkpoint(text, rows);
        } else if fields::after(text, "/global_step=").is_some() {
            let mut cursor = Cursor::new(fields::after(text, ", CurrSamplesPerSec=")?);
            return cursor
                .number()
                .filter(|v| v.is_finite() && fields::after(cursor.rest(), ",").is_some());
        }
        None
    }

    /// An overflow names no step: it is that of the next row, as is the scale that was too large.
    fn overflow(&self, text: &[u8], rows: &mut Rows) {
        if fields::after(text, "OVERFLOW!").is_none() {
            return;
        }
        rows.mark(EventKind::Overflow, None, None);
        let scale =
            fields::after(text, "Attempted loss scale: ").and_then(|t| Cursor::new(t).number());
        if let Some(scale) = scale.filter(|_| self.one_model) {
            late::of_next(rows, "loss_scale", scale);
        }
    }
}

/// Notes what a report says of the configuration. Its rate is read after the scheduler's step: it is that of the next
/// update.
fn note(report: &Report, rows: &mut Rows) {
    let offset = rows.facts.entry("lr_offset".to_owned());
    offset.or_insert_with(|| "1".to_owned());
    if let Some(beta2) = report.beta2 {
        let fact = rows.facts.entry("adam_beta2".to_owned());
        fact.or_insert_with(|| beta2.to_string());
    }
}

/// Lines about checkpoints, of the engine and of its checkpoint engine. A save is of many files; only its end says that
/// all are on disk. Trainers on top of the engine print them too.
pub(super) fn checkpoint(text: &[u8], rows: &mut Rows) {
    let step = |t| fields::step_after(t, "global_step").map(|(step, _)| step);
    if let Some(path) = fields::after(text, "Saving model checkpoint: ") {
        if step(path).is_some() {
            rows.mark(EventKind::SaveStarted, step(path), folder(path));
        }
    } else if let Some(tag) = fields::after(text, "[Torch] Checkpoint ") {
        let saved = fields::after(tag, "is ready now!").is_some();
        let kind = if saved {
            EventKind::Saved
        } else {
            EventKind::SaveStarted
        };
        if step(tag).is_some() {
            rows.mark(kind, step(tag), None);
        }
    } else if let Some(path) = fields::after(text, "[Torch] Loaded checkpoint from ")
        && step(path).is_some()
    {
        rows.mark(EventKind::Loaded, step(path), folder(path));
    }
}

/// The end of a save names no path: it is that of its start.
pub(super) fn saved_paths(rows: &mut Rows) {
    let mut begun: BTreeMap<u64, String> = BTreeMap::new();
    for mark in &mut rows.marks {
        match (mark.kind, mark.step, &mark.path) {
            (EventKind::SaveStarted, Some(step), Some(path)) => {
                begun.insert(step, path.clone());
            }
            (EventKind::Saved, Some(step), None) => mark.path = begun.get(&step).cloned(),
            _ => {}
        }
    }
}

/// The folder of a checkpoint's file.
fn folder(path: &[u8]) -> Option<String> {
    let path = fields::path(path)?;
    Some(
        path.rsplit_once('/')
            .map_or(path.as_str(), |(folder, _)| folder)
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{column, marks, read_in, shared, survives};

    fn read(text: &str) -> Rows {
        read_in::<Engine>(text.as_bytes(), usize::MAX)
    }

    #[test]
    fn a_pipeline_with_overflows_and_a_restart() {
        let text = include_bytes!("../../fixtures/logs/deepspeed/pipeline.log");
        assert_eq!(sniff(text), 70);
        for lines in [1, 2, usize::MAX] {
            let rows = read_in::<Engine>(text, lines);
            assert_eq!(rows.steps, [10, 10, 20, 20, 30, 20, 20, 30]);
            let loss = column(&rows, "loss");
            assert_eq!(
                loss[..6],
                [Some(9.5123), None, Some(8.25), None, None, None]
            );
            assert!(loss[6].is_some_and(f64::is_nan));
            assert_eq!(loss[7], Some(7.4));
            assert_eq!(column(&rows, "iter time (s)")[7], None);
            assert_eq!(column(&rows, "lr")[1], Some(3e-5));
            assert_eq!(column(&rows, "skipped")[3], Some(2.0));
            assert_eq!(column(&rows, "aux_loss")[0], Some(0.01));
            assert_eq!(column(&rows, "samples/sec")[0], Some(415.012));
            assert_eq!(column(&rows, "samples/sec")[1], Some(30.9));
            assert_eq!(column(&rows, "loss_scale")[2], Some(65_536.0));
            assert_eq!(column(&rows, "time")[1], Some(1_772_366_400_123.0));
            assert_eq!(marks(&rows, EventKind::Overflow), [(2, None), (2, None)]);
            assert_eq!(marks(&rows, EventKind::SaveStarted), [(4, Some(20))]);
            assert_eq!(marks(&rows, EventKind::Saved), [(4, Some(20))]);
            assert_eq!(marks(&rows, EventKind::Start), [(0, None), (5, None)]);
            assert_eq!(marks(&rows, EventKind::Loaded), [(5, Some(10))]);
            assert_eq!(
                rows.facts.get("adam_beta2").map(String::as_str),
                Some("0.95")
            );
            assert_eq!(
                rows.facts.get("framework_version").map(String::as_str),
                Some("0.9.1")
            );
            assert_eq!(rows.facts["lr_offset"], "1");
            assert_eq!(rows.losses.len(), 2);
        }
    }

    #[test]
    fn odd_reports() {
        let rows = read(
            "[Rank 0] rank=0 step=10, skipped=0, lr=[], mom=[0.9]\n[Rank 0] step=20, skipped=1, lr=[3e-0",
        );
        assert_eq!(rows.steps, [10, 20]);
        assert!(column(&rows, "lr").iter().all(Option::is_none));
        assert!(!rows.facts.contains_key("adam_beta2"));
        let rows = read("step=10, skipped=2\nsteps: 10 of 20\nsteps: x loss: 1 iter time (s): 2\n");
        assert!(rows.steps.is_empty());
    }

    #[test]
    fn a_save_is_of_many_files_and_of_many_ranks() {
        let rows = read(
            "steps: 500 loss: 2.5 iter time (s): 1.0 samples/sec: 4.0\n\
             [2026-03-01 12:00:00,1] [INFO] [logging.py:96:log_dist] [Rank 0] Saving model checkpoint: /c/global_step500/mp_rank_00_model_states.pt\n\
             [Torch] Saved /c/global_step500/zero_pp_rank_6_mp_rank_00_optim_states.pt.\n\
             [Torch] Checkpoint global_step500 is ready now!\n[Torch] Checkpoint global_step500 is ready now!\n",
        );
        let got: Vec<_> = rows
            .marks
            .iter()
            .map(|m| (m.kind, m.step, m.path.as_deref()))
            .collect();
        let path = Some("/c/global_step500");
        let expected = [
            (EventKind::SaveStarted, Some(500), path),
            (EventKind::Saved, Some(500), path),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn a_scale_that_cannot_sink_ends_the_run() {
        let rows = read(
            "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n\
             [deepscale] OVERFLOW! Skipping step. Attempted loss scale: 2.0, reducing to 1.0\n",
        );
        assert_eq!(marks(&rows, EventKind::Exit).len(), 1);
        assert_eq!(marks(&rows, EventKind::Overflow).len(), 1);
    }

    #[test]
    fn damage_does_no_harm() {
        let text = include_bytes!("../../fixtures/logs/deepspeed/pipeline.log");
        survives::<Engine>(text);
    }

    #[test]
    fn one_line_of_each_kind() {
        let Some(text) = shared("samples/synthetic/mixed.log") else {
            return;
        };
        let rows = read_in::<Engine>(&text, usize::MAX);
        assert_eq!(rows.steps, [10, 10]);
        assert_eq!(column(&rows, "loss"), [None, Some(9.5123)]);
        assert_eq!(column(&rows, "lr"), [Some(3e-5), None]);
        assert_eq!(column(&rows, "samples/sec"), [Some(30.9), Some(415.012)]);
        assert_eq!(marks(&rows, EventKind::Overflow).len(), 2);
    }
}
