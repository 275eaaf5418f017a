//! `DeepSpeed-Chat`'s PPO console: `epoch: 0|step: 0|ppo_ep: 1|act_loss: 0.2|cri_loss: 0.1|unsuper_loss: 0.0`.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::deepspeed;
use crate::ingest::deepspeed::Shared;
use crate::ingest::fields;
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
use crate::run::Rows;

/// `DeepSpeed-Chat`, step 3. Steps count from 0 in every epoch.
pub(in crate::ingest) const INGESTER: Ingester = Ingester {
    name: "deepspeed-chat",
    recognised_by: "`epoch: E|step: N|ppo_ep: …|act_loss: …` lines",
    signals: &[
        "loss",
        "learning_rate",
        "skipped_cumulative",
        "samples_per_second",
    ],
    framework: Some("deepspeed"),
    step_base: Some(0),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Chat>::boxed),
};

fn sniff(head: &[u8]) -> u8 {
    if records::any(head, |p| record(p.text).is_some()) {
        85
    } else {
        0
    }
}

/// The step within its epoch and the fields of a line.
fn record(text: &[u8]) -> Option<(u64, &[u8])> {
    let start = fields::after(text, "poch: ")?;
    let before = text.len() - start.len();
    let body = &text[before.checked_sub("epoch: ".len())?..];
    let mut cursor = Cursor::new(start);
    cursor.digits()?;
    cursor.spaces();
    cursor.eat("|")?;
    cursor.spaces();
    cursor.eat("step: ").or_else(|| cursor.eat("Step: "))?;
    let step = cursor.digits()?;
    cursor.spaces();
    cursor.eat("|")?;
    let ppo = fields::after(cursor.rest(), "ppo_ep: ")
        .or_else(|| fields::after(cursor.rest(), "PPO Epoch: "));
    ppo.map(|_| (step, body))
}

struct Chat {
    names: Names,
    shared: Shared,
    torn: Torn,
}

impl Default for Chat {
    fn default() -> Self {
        Self {
            names: Names::new(column),
            shared: Shared {
                one_model: false,
                ..Shared::default()
            },
            torn: Torn::default(),
        }
    }
}

/// The column of a field: later versions write names out.
fn column(name: &str) -> Option<&str> {
    match name {
        "step" | "Step" => None,
        "Epoch" => Some("epoch"),
        "PPO Epoch" => Some("ppo_ep"),
        "Actor Loss" => Some("act_loss"),
        "Critic Loss" => Some("cri_loss"),
        "Unsupervised Loss" => Some("unsuper_loss"),
        name => Some(name),
    }
}

impl Records for Chat {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        if let Some((step, body)) = record(piece.text) {
            rows.begin(step);
            self.fields(piece, body, rows);
        } else if let Some(report) = deepspeed::report(piece.text) {
            // The actor's comes first, the critic's second; both before the line of their step.
            late::of_next(rows, "skipped", report.skipped);
            if let Some(rate) = report.rate {
                late::of_next(rows, "lr", rate);
            }
            deepspeed::note(&report, rows);
        } else if let Some(reward) = after_any(piece.text, &["verage reward score: "]) {
            late::of_last(rows, "reward", reward);
        } else if let Some(rate) = after_any(piece.text, &["CurSamplesPerSec=", "Samples/sec: "]) {
            late::of_last(rows, "samples/sec", rate);
        } else {
            self.shared.read(piece.text, rows);
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }

    fn settle(rows: &mut Rows) {
        late::settle(rows);
        ranks::once(rows);
        count_on(rows);
    }
}

fn after_any(text: &[u8], words: &[&str]) -> Option<f64> {
    let rest = words.iter().find_map(|w| fields::after(text, w))?;
    Cursor::new(rest).number()
}

impl Chat {
    fn fields(&mut self, piece: &Piece<'_>, body: &[u8], rows: &mut Rows) {
        self.names.begin();
        let mut pieces = body.split(|b| *b == b'|').peekable();
        while let Some(field) = pieces.next() {
            let cut = piece.open && pieces.peek().is_none();
            let colon = memchr::memchr(b':', field).filter(|_| !cut);
            let value = colon.and_then(|at| Some((at, number::number(&field[at + 1..])?)));
            let Some((colon, value)) = value else {
                self.torn.lose(piece.line, "not a whole field", field, rows);
                continue;
            };
            if let Some(slot) = self.names.slot(field[..colon].trim_ascii(), rows) {
                rows.set(slot, value);
            }
        }
    }
}

/// Makes the steps count on over the epochs, each of which counts from 0.
fn count_on(rows: &mut Rows) {
    let Some(epochs) = rows.find("epoch") else {
        return;
    };
    // First step of each epoch that was begun.
    let mut begins: Vec<(u64, u64)> = Vec::new();
    let mut last = None;
    for row in 0..rows.steps.len() {
        let Some(epoch) = rows.column(epochs).finite(row).and_then(number::step) else {
            continue;
        };
        let at = begins.partition_point(|(e, _)| *e < epoch);
        if begins.get(at).is_none_or(|(e, _)| *e != epoch) {
            let next: u64 = last.map_or(0, |l: u64| l + 1);
            begins.insert(at, (epoch, if at == 0 { 0 } else { next }));
        }
        rows.steps[row] += begins[at].1;
        last = Some(rows.steps[row]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{adds_up, column, marks, read_in, shared, survives};
    use crate::run::EventKind;

    fn read(text: &str) -> Rows {
        read_in::<Chat>(text.as_bytes(), usize::MAX)
    }

    #[test]
    fn rewards_and_rates_find_their_rows() {
        let text = include_bytes!("../../../fixtures/logs/deepspeed-chat/chat.log");
        assert_eq!(sniff(text), 85);
        for lines in [1, 2, usize::MAX] {
            let rows = read_in::<Chat>(text, lines);
            assert_eq!(rows.steps, [0, 1, 2, 3]);
            assert_eq!(
                column(&rows, "act_loss"),
                [Some(0.21), Some(-0.048), Some(0.004), None]
            );
            assert_eq!(column(&rows, "cri_loss")[2], Some(0.092));
            assert_eq!(
                column(&rows, "reward"),
                [Some(-0.679), Some(0.125), None, None]
            );
            assert_eq!(
                column(&rows, "samples/sec"),
                [Some(8.01), Some(6.2), None, None]
            );
            assert_eq!(column(&rows, "lr"), [None, Some(5.79e-7), None, None]);
            assert_eq!(column(&rows, "skipped")[1], Some(4.0));
            assert_eq!(column(&rows, "epoch")[2..], [Some(1.0), Some(1.0)]);
            assert_eq!(marks(&rows, EventKind::Overflow), [(0, None), (0, None)]);
            assert_eq!(rows.losses.len(), 1);
        }
    }

    #[test]
    fn an_epoch_that_is_done_again_counts_as_before() {
        let line = |e, s| format!("epoch: {e}|step: {s}|ppo_ep: 1|act_loss: 0.2\n");
        let text: String = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 0)]
            .map(|(e, s)| line(e, s))
            .concat();
        assert_eq!(read(&text).steps, [0, 1, 2, 3, 2]);
    }

    #[test]
    fn damage_does_no_harm() {
        let text = include_bytes!("../../../fixtures/logs/deepspeed-chat/chat.log");
        survives::<Chat>(text);
    }

    /// Counts and sums taken with a short script that splits each line at its bars.
    #[test]
    fn the_shared_log() {
        let Some(text) = shared("corpus/deepspeed-console__dschat-rlhf-opt1.3b.log") else {
            return;
        };
        assert_eq!((sniff(&text), deepspeed::sniff(&text)), (85, 30));
        let rows = read_in::<Chat>(&text, usize::MAX);
        assert_eq!(
            (rows.steps.len(), rows.steps[0], rows.steps[476]),
            (477, 0, 476)
        );
        for (name, count, total) in SUMS {
            adds_up(&rows, name, count, total);
        }
        assert_eq!(marks(&rows, EventKind::Overflow).len(), 14);
        assert!(rows.losses.is_empty(), "{:?}", rows.losses);
    }

    const SUMS: [(&str, usize, f64); 6] = [
        ("act_loss", 477, 23.569_013_595_581_055),
        ("cri_loss", 477, 26.843_187_332_153_32),
        ("reward", 477, 1_491.033_798_217_773_4),
        ("samples/sec", 476, 8_003.77),
        ("skipped", 47, 314.0),
        ("lr", 47, 0.000_231_597_420_352_576_3),
    ];
}
