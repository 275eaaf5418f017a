//! Lightning's `metrics.csv`: a table whose steps count from 0, one file a process.

use crate::ingest::Ingester;
use crate::ingest::LineReader;
use crate::ingest::Reader;
use crate::ingest::csv;
use crate::run::EventKind;
use crate::run::Rows;

/// The table of Lightning's `CSVLogger`, read as any other.
pub(super) const INGESTER: Ingester = Ingester {
    name: "lightning-csv",
    recognised_by: "a sorted header with `epoch`, `step` and names in `_step` or `_epoch` or after `lr-`",
    signals: &["any metric, by the alias table"],
    framework: Some("lightning"),
    step_base: Some(0),
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(table),
};

/// One more than any table whose names are known.
fn sniff(head: &[u8]) -> u8 {
    let line = head.split(|b| *b == b'\n').next().unwrap_or_default();
    let names: Vec<&[u8]> = line.trim_ascii_end().split(|b| *b == b',').collect();
    let has = |name: &[u8]| names.contains(&name);
    let own = |n: &&[u8]| n.ends_with(b"_step") || n.ends_with(b"_epoch") || n.starts_with(b"lr-");
    let ours = has(b"step") && has(b"epoch") && names.is_sorted() && names.iter().any(own);
    match ours.then(|| (csv::INGESTER.sniff)(head)) {
        None | Some(0) => 0,
        Some(sure) => sure.max(60) + 5,
    }
}

struct Table(Box<dyn LineReader>);

fn table(head: &[u8]) -> Box<dyn LineReader> {
    let Reader::Lines(make) = csv::INGESTER.reader else {
        unreachable!("it is read by lines")
    };
    Box::new(Table(make(head)))
}

impl LineReader for Table {
    fn chunk(&self, chunk: &[u8], rows: &mut Rows) {
        self.0.chunk(chunk, rows);
    }

    /// Every process writes a folder `version_K` of its own.
    fn settle(&self, rows: &mut Rows) {
        self.0.settle(rows);
        rows.mark(EventKind::Start, None, None);
        if let Some(mark) = rows.marks.last_mut() {
            mark.row = 0;
        }
        rows.marks.sort_by_key(|m| m.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::{column, marks, shared};

    fn read(text: &[u8]) -> Rows {
        let mut rows = Rows::default();
        let reader = table(text);
        reader.chunk(text, &mut rows);
        reader.settle(&mut rows);
        rows
    }

    #[test]
    fn a_sorted_header_is_lightning_s() {
        let text =
            include_bytes!("../../fixtures/logs/lightning/lightning_logs/version_0/metrics.csv");
        assert_eq!(sniff(text), 65);
        let rows = read(text);
        assert_eq!(rows.steps, [49, 99, 99]);
        assert_eq!(
            column(&rows, "train_loss_step"),
            [Some(2.5), Some(2.0), None]
        );
        assert_eq!(column(&rows, "val_loss"), [None, None, Some(2.25)]);
        assert_eq!(marks(&rows, EventKind::Start), [(0, None)]);
        for other in [
            "step,loss\n1,2\n",
            "step,epoch,a_step\n1,2,3\n",
            "epoch,loss,step\n0,1,2\n",
        ] {
            assert_eq!(sniff(other.as_bytes()), 0, "{other}");
        }
    }

    #[test]
    fn the_shared_table() {
        let Some(text) = shared("samples/lightning_csv/lightning_logs/version_0/metrics.csv")
        else {
            return;
        };
        assert_eq!(sniff(&text), 65);
        let rows = read(&text);
        assert_eq!(rows.steps, [49, 99, 99, 149, 199]);
        let loss = column(&rows, "train_loss_step");
        assert!(loss[3].is_some_and(f64::is_nan));
        assert_eq!(loss[4], Some(f64::INFINITY));
        assert_eq!(column(&rows, "lr-Adam")[3], Some(0.0001));
        assert!(rows.losses.is_empty());
    }
}
