//! `OLMo` and `OLMo-core` consoles: `[step=20/1000,epoch=1,eta=1h3m]` and lines `    train/CE loss=9.512` under it.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Clock;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::late;
use crate::ingest::number;
use crate::ingest::ranks;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::each_piece;
use crate::run::EventKind;
use crate::run::Rows;

/// `OLMo` and `OLMo-core`.
pub(super) const INGESTER: Ingester = Ingester {
    name: "olmo",
    recognised_by: "`[step=N/M,epoch=E…]` with lines `    name/metric=value` under it",
    signals: &[
        "loss",
        "grad_norm",
        "learning_rate",
        "z_loss",
        "consumed_tokens",
        "skipped",
        "tokens_per_second_per_device",
        "mfu",
        "time",
    ],
    framework: Some("olmo"),
    step_base: Some(1),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Blocks>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    let (mut under, mut found) = (false, false);
    each_piece(head, |p| {
        under |= marker(p.text).is_some();
        found |= under && field(p.own).is_some_and(|(_, v)| fields::human(v).is_some());
    });
    if found { 90 } else { 0 }
}

/// The step of a marker, and where it stands.
fn marker(text: &[u8]) -> Option<(u64, usize)> {
    let at = memchr::memmem::find(text, b"[step=")?;
    let mut cursor = Cursor::new(&text[at + "[step=".len()..]);
    let step = cursor.digits()?;
    cursor.eat("/")?;
    cursor.eat("???").or_else(|| cursor.digits().map(|_| ()))?;
    cursor.eat(",epoch=")?;
    cursor.digits()?;
    (cursor.eat("]").is_some() || cursor.eat(",").is_some()).then_some((step, at))
}

/// `    train/CE loss=9.512`. Names have a group before a slash.
fn field(text: &[u8]) -> Option<(&[u8], &[u8])> {
    // A launcher may add a space to the four, or take one away.
    let spaces = text.iter().take_while(|b| **b == b' ').count();
    let text = text.get(spaces..).filter(|_| (3..=5).contains(&spaces))?;
    let middle = memchr::memchr(b'=', text)?;
    let (name, value) = (&text[..middle], &text[middle + 1..]);
    let starts = name.first().is_some_and(u8::is_ascii_alphanumeric);
    let slash = name.contains(&b'/') && !name.ends_with(b" ");
    (starts && slash).then(|| (name, value.trim_ascii_end()))
}

struct Blocks {
    names: Names,
    clock: Clock,
    torn: Torn,
    /// A marker without a metric yet: its step and time.
    marker: Option<(u64, Option<f64>)>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            names: Names::new(|name| Some(column(name))),
            clock: Clock::new(),
            torn: Torn::default(),
            marker: None,
        }
    }
}

/// `OLMo-core` counts batches in tokens.
fn column(name: &str) -> &str {
    match name {
        "train/global batch size" => "global_batch_tokens",
        name => name,
    }
}

impl Records for Blocks {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        if let Some((step, at)) = marker(piece.text) {
            let time = self.clock.find(&piece.text[..at]).or(piece.time);
            self.marker = Some((step, time));
        } else if let Some((name, value)) = field(piece.own) {
            self.begin(rows);
            match fields::human(value).filter(|_| !piece.open) {
                Some(number) => self.set(name, number, rows),
                None if piece.open => {
                    let what = "not a whole field";
                    self.torn.lose(piece.line, what, piece.text, rows);
                }
                // Words, such as the name of a device.
                None => {}
            }
        } else {
            event(piece.text, rows);
        }
    }

    /// The metrics of the last marker may stand in the next chunk.
    fn finish(&mut self, rows: &mut Rows) {
        self.begin(rows);
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        late::settle(rows);
        saved_steps(rows);
        ranks::once(rows);
    }
}

impl Blocks {
    /// Other ranks print markers without metrics, so a row begins with the first metric.
    fn begin(&mut self, rows: &mut Rows) {
        if let Some((step, time)) = self.marker.take() {
            rows.begin(step);
            self.names.begin();
            if let Some(time) = time {
                let slot = rows.slot("time");
                rows.set(slot, time);
            }
        }
    }

    fn set(&mut self, name: &[u8], value: f64, rows: &mut Rows) {
        if rows.steps.is_empty() {
            let name = String::from_utf8_lossy(name);
            late::of_last(rows, column(&name), value);
        } else if let Some(slot) = self.names.slot(name, rows) {
            rows.set(slot, value);
        }
    }
}

/// Lines about checkpoints and data.
fn event(text: &[u8], rows: &mut Rows) {
    if let Some((step, rest)) = fields::step_after(text, "Saving checkpoint for step") {
        let path = fields::after(rest, " to ").and_then(fields::path);
        rows.mark(EventKind::SaveStarted, Some(step), path);
    } else if let Some(rest) = fields::after(text, "heckpoint saved") {
        let path = rest.strip_prefix(b" to ").and_then(fields::path);
        rows.mark(EventKind::Saved, path.as_deref().and_then(step_of), path);
    } else if let Some(path) =
        fields::after(text, "Loading checkpoint from ").and_then(fields::path)
    {
        rows.mark(EventKind::Loaded, step_of(&path), Some(path));
    } else if let Some((step, rest)) = fields::step_after(text, "Skipping training on step")
        && rest.starts_with(b" intentionally")
    {
        rows.mark(EventKind::DataSkipped, Some(step), None);
    }
}

/// The step of `…/step1000` and `…/step1000-unsharded`.
fn step_of(path: &str) -> Option<u64> {
    let at = path.rfind("/step")? + "/step".len();
    number::digits(&path.as_bytes()[at..]).map(|(step, _)| step)
}

/// The end of a save does not always tell its step: it is that of the save that began last.
fn saved_steps(rows: &mut Rows) {
    let mut begun = None;
    for mark in &mut rows.marks {
        match mark.kind {
            EventKind::SaveStarted => begun = Some((mark.step, mark.path.clone())),
            EventKind::Saved if mark.step.is_none() => {
                if let Some((step, path)) = &begun {
                    mark.step = *step;
                    mark.path = mark.path.take().or_else(|| path.clone());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{column, marks, read_in, survives};

    #[test]
    fn blocks_of_the_core() {
        let text = include_bytes!("../../fixtures/logs/olmo/core.log");
        assert_eq!(sniff(text), 90);
        for lines in [1, 2, 5, usize::MAX] {
            let rows = read_in::<Blocks>(text, lines);
            let losses = column(&rows, "train/CE loss");
            let pairs = rows.steps.iter().zip(losses);
            let with_loss: Vec<_> = pairs.filter_map(|(s, l)| Some((*s, l?))).collect();
            assert_eq!(with_loss[..2], [(1, 11.25), (5, 9.512)]);
            assert!(with_loss[2].0 == 10 && with_loss[2].1.is_nan());
            assert_eq!(with_loss[3..], [(10, 9.25)]);
            let of = |name: &str| {
                column(&rows, name)
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
            };
            assert_eq!(of("optim/total grad norm"), [1234.0, 2.5, 7.72e-8, 0.5]);
            assert_eq!(of("throughput/total tokens"), [4_194_304.0, 3.146e9]);
            assert_eq!(of("optim/LR (group 0)"), [3e-5]);
            assert_eq!(of("global_batch_tokens"), [4_194_304.0]);
            assert!((of("time")[0] - 1_772_359_205_520.0).abs() < 0.5);
            let steps = |kind| {
                marks(&rows, kind)
                    .into_iter()
                    .map(|m| m.1)
                    .collect::<Vec<_>>()
            };
            assert_eq!(steps(EventKind::SaveStarted), [Some(5)]);
            assert_eq!(steps(EventKind::Saved), [Some(5)]);
            assert_eq!(steps(EventKind::Loaded), [Some(5)]);
            assert_eq!(steps(EventKind::DataSkipped), [Some(7)]);
            assert_eq!(rows.losses.len(), 1, "{:?}", rows.losses);
        }
    }

    #[test]
    fn markers_without_metrics_are_no_rows() {
        let rows = read_in::<Blocks>(
            b"[step=10/???,epoch=1]\n[step=11/???,epoch=1]\n    train/Perplexity=1,234\n[step=12/20,epoch=0]\nx\n",
            usize::MAX,
        );
        assert_eq!(rows.steps[0], 11);
        assert_eq!(column(&rows, "train/Perplexity")[0], Some(1234.0));
        assert_eq!(sniff(b"[step=10/???,epoch=1]\n    x = 3\n    a/b = 3\n"), 0);
    }

    #[test]
    fn saves_of_the_first_version() {
        let rows = read_in::<Blocks>(
            b"[step=1000/2000,epoch=0]\n    train/CrossEntropyLoss=2.5\nCheckpoint saved to /c/step1000\n\
              Unsharded checkpoint saved to /c/step1000-unsharded\nLoading checkpoint from /c/latest\n",
            1,
        );
        assert_eq!(marks(&rows, EventKind::Saved), [(1, Some(1000))]);
        assert_eq!(marks(&rows, EventKind::Loaded), [(1, None)]);
    }

    #[test]
    fn damage_does_no_harm() {
        survives::<Blocks>(include_bytes!("../../fixtures/logs/olmo/core.log"));
    }
}
