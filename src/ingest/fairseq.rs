//! fairseq and metaseq consoles: JSON or `key=value` behind a logger's prefix; losses in bits become nats.

mod event;

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields;
use crate::ingest::fields::Clock;
use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::number;
use crate::ingest::ranks;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::Rows;

/// fairseq, metaseq and their forks. Steps count updates that were not skipped.
pub(super) const INGESTER: Ingester = Ingester {
    name: "fairseq",
    recognised_by: "`| train_inner | {\"…\": …}` and `| epoch 001: N / M loss=…, num_updates=…` lines",
    signals: &[
        "loss",
        "grad_norm",
        "learning_rate",
        "loss_scale",
        "val_loss",
        "param_norm",
        "activation_norm",
        "global_batch_size",
        "tokens_per_second",
        "time",
    ],
    framework: Some("fairseq"),
    step_base: Some(1),
    averaged: true,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Progress>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    let trains = |p: &Piece<'_>| record(p.text).is_some_and(|r| r.trains && step(r.body).is_some());
    if records::any(head, trains) { 92 } else { 0 }
}

/// How fields are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `"loss": "12.8", "lr": "1e-05"}`.
    Json,
    /// `loss=12.8, lr=1e-05`.
    Equals,
    /// `loss 12.8 | lr 1e-05`.
    Bars,
}

/// A line with metrics.
struct Record<'a> {
    style: Style,
    body: &'a [u8],
    /// Where its words begin.
    start: usize,
    /// Whether it is of training, not of validation.
    trains: bool,
}

fn record(text: &[u8]) -> Option<Record<'_>> {
    let of = |style, body: &'static str, trains| {
        let body = fields::after(text, body)?;
        let start = text.len() - body.len();
        Some(Record {
            style,
            body,
            start,
            trains,
        })
    };
    let json = |r: &Record<'_>| r.body.starts_with(b"{");
    of(Style::Json, "| train_inner | ", true)
        .filter(json)
        .or_else(|| of(Style::Json, "| valid | ", false).filter(json))
        .or_else(|| of(Style::Bars, "valid on 'valid' subset | ", false))
        .or_else(|| progress(text))
}

/// `epoch 001:    100 / 1975 loss=12.8, …`.
fn progress(text: &[u8]) -> Option<Record<'_>> {
    let after = fields::after(text, "| epoch ")?;
    let mut cursor = Cursor::new(after);
    cursor.digits()?;
    cursor.eat(":")?;
    cursor.digits()?;
    cursor.eat(" / ")?;
    cursor.digits()?;
    cursor.eat(" ")?;
    let body = cursor.rest();
    let start = text.len() - after.len();
    memchr::memchr(b'=', body).map(|_| Record {
        style: Style::Equals,
        body,
        start,
        trains: true,
    })
}

/// The number of updates, which stands somewhere among the fields.
fn step(body: &[u8]) -> Option<u64> {
    let value = fields::after(body, "num_updates")?;
    let skip = value.iter().take_while(|b| b"\"': =".contains(b)).count();
    let (step, len) = number::digits(&value[skip..])?;
    // A step that the log ends in may lack digits.
    (skip + len < value.len()).then_some(step)
}

struct Progress {
    training: Names,
    validation: Names,
    clock: Clock,
    time: Slot,
    torn: Torn,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            training: Names::new(column),
            validation: Names::new(|name| {
                matches!(name, "loss" | "valid_loss").then_some("val_loss")
            }),
            clock: Clock::new(),
            time: Slot::default(),
            torn: Torn::default(),
        }
    }
}

fn column(name: &str) -> Option<&str> {
    match name {
        "num_updates" | "update" => None,
        // Words of all ranks together.
        "wps" => Some("tokens_per_second"),
        name => Some(name),
    }
}

impl Records for Progress {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        let Some(record) = record(piece.text) else {
            event::read(piece.text, rows);
            return;
        };
        let step = step(record.body).or_else(|| last_step(&record, piece));
        let cut = record.style == Style::Json && !record.body.trim_ascii_end().ends_with(b"}");
        let Some(step) = step.filter(|_| !cut) else {
            self.torn
                .lose(piece.line, "not a whole record", piece.text, rows);
            return;
        };
        rows.begin(step);
        if let Some(time) = self.clock.find(&piece.text[..record.start]) {
            self.time.set("time", time, rows);
        }
        self.fields(piece, &record, rows);
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        to_nats(rows);
        ranks::once(rows);
    }
}

/// The step of a record that ends in it.
fn last_step(record: &Record<'_>, piece: &Piece<'_>) -> Option<u64> {
    let value = fields::after(record.body, "num_updates")?;
    let skip = value.iter().take_while(|b| b" =".contains(b)).count();
    let whole = number::digits(&value[skip..]).filter(|(_, len)| skip + len == value.len());
    whole.filter(|_| !piece.open).map(|(step, _)| step)
}

impl Progress {
    fn fields(&mut self, piece: &Piece<'_>, record: &Record<'_>, rows: &mut Rows) {
        let names = if record.trains {
            &mut self.training
        } else {
            &mut self.validation
        };
        names.begin();
        let mut rest = record.body;
        while let Some((name, value, after)) = field(record.style, rest) {
            let cut = piece.open && after.is_empty() && record.style != Style::Json;
            match fields::amount(value).filter(|_| !cut) {
                Some(number) => {
                    if let Some(slot) = names.slot(name, rows) {
                        rows.set(slot, number);
                    }
                }
                None if cut => self.torn.lose(piece.line, "not a whole field", value, rows),
                // Words, such as the name of a subset.
                None => {}
            }
            rest = after;
        }
    }
}

/// The first field of a text, and what follows it.
fn field(style: Style, text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    if style == Style::Json {
        return fields::json_field(text);
    }
    let (parts, pair): (&[u8], u8) = if style == Style::Bars {
        (b" | ", b' ')
    } else {
        (b", ", b'=')
    };
    if text.is_empty() {
        return None;
    }
    let end = memchr::memmem::find(text, parts);
    let (field, after) = match end {
        Some(end) => (&text[..end], &text[end + parts.len()..]),
        None => (text, &text[text.len()..]),
    };
    let field = field.trim_ascii();
    let middle = memchr::memrchr(pair, field).unwrap_or(field.len());
    Some((
        &field[..middle],
        field.get(middle + 1..).unwrap_or_default(),
        after,
    ))
}

/// fairseq's losses are in bits, by division by ln 2. A perplexity beside them tells the forks that do not divide.
fn to_nats(rows: &mut Rows) {
    let columns = ["loss", "nll_loss", "val_loss"];
    let found: Vec<usize> = columns.iter().filter_map(|n| rows.find(n)).collect();
    if found.is_empty() || rows.facts.contains_key("loss_factor") {
        return;
    }
    let (bits, nats) = bases(rows);
    let plausible = median_loss(rows).is_none_or(|m| m < 64.0);
    let factor = if bits > nats || (bits == nats && plausible) {
        std::f64::consts::LN_2
    } else {
        1.0
    };
    for slot in found.into_iter().filter(|_| factor < 1.0) {
        for row in 0..rows.steps.len() {
            if let Some(value) = rows.column(slot).get(row) {
                rows.column_mut(slot).set(row, value * factor);
            }
        }
    }
    let words = if factor < 1.0 {
        "ln 2: the log has bits"
    } else {
        "1: the log is not in bits"
    };
    rows.facts
        .insert("loss_factor".to_owned(), words.to_owned());
}

/// In how many rows the perplexity is two to the power of a loss, and in how many e.
fn bases(rows: &Rows) -> (usize, usize) {
    let Some(ppl) = rows.find("ppl") else {
        return (0, 0);
    };
    let losses: Vec<usize> = ["nll_loss", "loss"]
        .iter()
        .filter_map(|n| rows.find(n))
        .collect();
    let (mut bits, mut nats) = (0, 0);
    for row in 0..rows.steps.len() {
        let Some(ppl) = rows.column(ppl).finite(row).filter(|p| *p > 1.5) else {
            continue;
        };
        for loss in losses.iter().filter_map(|s| rows.column(*s).finite(row)) {
            let close = |log: f64| (log - loss).abs() <= 0.02 * loss.abs();
            bits += usize::from(close(ppl.log2()));
            nats += usize::from(close(ppl.ln()));
        }
    }
    (bits, nats)
}

fn median_loss(rows: &Rows) -> Option<f64> {
    let column = rows.column(rows.find("loss")?);
    let mut values: Vec<f64> = column
        .raw()
        .iter()
        .copied()
        .filter(|v| v.is_finite())
        .collect();
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{adds_up, column, marks, read_in, shared, survives};
    use crate::run::EventKind;
    use std::f64::consts::LN_2;

    fn read(text: &str) -> Rows {
        read_in::<Progress>(text.as_bytes(), usize::MAX)
    }

    #[test]
    fn strings_in_json_and_losses_in_bits() {
        let text = include_bytes!("../../fixtures/logs/fairseq/metaseq.log");
        assert_eq!(sniff(text), 92);
        for lines in [1, 3, usize::MAX] {
            let rows = read_in::<Progress>(text, lines);
            assert_eq!(rows.steps, [1, 2, 2, 3, 2, 3]);
            let bits = [
                Some(15.878),
                Some(15.5),
                None,
                None,
                Some(15.25),
                Some(15.0),
            ];
            let loss = column(&rows, "loss");
            assert_eq!(loss[..3], bits.map(|b| b.map(|b| b * LN_2))[..3]);
            assert!(loss[3].is_some_and(f64::is_nan));
            assert_eq!(loss[4..], bits.map(|b| b.map(|b| b * LN_2))[4..]);
            assert_eq!(column(&rows, "val_loss")[2], Some(14.0 * LN_2));
            assert_eq!(column(&rows, "gnorm")[0], Some(16.981));
            assert_eq!(column(&rows, "gnorm_layers.0.fc1.weight")[1], Some(0.125));
            assert_eq!(column(&rows, "tokens_per_second")[1], Some(51_000.0));
            assert_eq!(column(&rows, "wpb")[0], Some(1_048_580.0));
            assert_eq!(column(&rows, "time")[0], Some(1_772_373_927_000.0));
            assert_eq!(marks(&rows, EventKind::Overflow), [(3, None)]);
            assert_eq!(marks(&rows, EventKind::Saved), [(3, Some(2))]);
            assert_eq!(marks(&rows, EventKind::Loaded), [(4, Some(1))]);
            assert_eq!(marks(&rows, EventKind::Start), [(0, None), (4, None)]);
            assert_eq!(marks(&rows, EventKind::DataSkipped), [(4, Some(2))]);
            assert_eq!(rows.losses.len(), 1, "{:?}", rows.losses);
            assert_eq!(rows.facts["adam_beta2"], "0.95");
            assert!(rows.facts["loss_factor"].starts_with("ln 2"));
        }
    }

    #[test]
    fn lists_of_pairs_old_and_new() {
        let rows = read(
            "2026-03-01 02:34:53 | INFO | train_inner | epoch 001:    100 / 1975 loss=12.834, nll_loss=12.424, ppl=5496.24, wps=130830, bsz=1960, num_updates=100, lr=1.009e-05, gnorm=1.448, clip=41, train_wall=48, wall=54\n\
             2026-03-01 02:35:53 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 10.5 | nll_loss 10 | ppl 1024 | num_updates 100 | best_loss 10.5\n\
             2026-03-01 02:35:53 | INFO | train | epoch 001 | loss 12.9 | num_updates 100 | lr 1e-05\n\
             | epoch 001:    200 / 1975 loss=11.0, nll_loss=10.5, ppl=1448.15, num_updates=200, gnorm=nan, clip=100%, oom=0, wall=5",
        );
        assert_eq!(rows.steps, [100, 100, 200]);
        assert_eq!(
            column(&rows, "loss"),
            [Some(12.834 * LN_2), None, Some(11.0 * LN_2)]
        );
        assert_eq!(column(&rows, "val_loss"), [None, Some(10.5 * LN_2), None]);
        assert!(column(&rows, "gnorm")[2].is_some_and(f64::is_nan));
        assert_eq!(column(&rows, "wall"), [Some(54.0), None, None]);
        assert_eq!(rows.losses.len(), 1);
    }

    #[test]
    fn a_fork_in_nats_stays_in_nats() {
        let rows =
            read("| epoch 001: 1 / 9 loss=3, nll_loss=3, ppl=20.0855, num_updates=1, wall=5\n");
        assert_eq!(column(&rows, "loss"), [Some(3.0)]);
        assert!(rows.facts["loss_factor"].starts_with('1'));
    }

    #[test]
    fn damage_does_no_harm() {
        survives::<Progress>(include_bytes!("../../fixtures/logs/fairseq/metaseq.log"));
    }

    /// Counts and sums taken with a short script that splits the progress lines at commas. The loss is a sum over
    /// words, so it stays as it is.
    #[test]
    fn the_shared_logs() {
        let Some(text) = shared("corpus/mlperf-stdout__fairseq-transformer-c4140.txt") else {
            return;
        };
        assert_eq!(sniff(&text), 92);
        let rows = read_in::<Progress>(&text, usize::MAX);
        assert_eq!(rows.steps, [997, 1995, 3178, 4177, 5360, 6360]);
        adds_up(&rows, "loss", 6, 325_453.383);
        adds_up(&rows, "gnorm", 6, 374_711.439);
        assert_eq!(marks(&rows, EventKind::Overflow).len(), 9);
        let text = shared("samples/synthetic/mixed.log").unwrap();
        let rows = read_in::<Progress>(&text, 1);
        assert_eq!(rows.steps, [1, 100]);
        assert_eq!(
            column(&rows, "loss"),
            [Some(15.878 * LN_2), Some(12.834 * LN_2)]
        );
        assert_eq!(marks(&rows, EventKind::Saved), [(2, Some(1000))]);
    }
}
