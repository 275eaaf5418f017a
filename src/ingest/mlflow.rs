//! The file store of `MLflow`: one file a metric, `mlruns/…/metrics/train/loss` with lines `timestamp value step`.

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::fields::Torn;
use crate::ingest::number;
use crate::ingest::records;
use crate::ingest::records::Console;
use crate::ingest::records::Piece;
use crate::ingest::records::Records;
use crate::ingest::records::Slot;
use crate::run::Rows;

/// `MLflow`'s metric files. What a file holds is told by its path alone: see [`named`].
pub(super) const INGESTER: Ingester = Ingester {
    name: "mlflow",
    recognised_by: "files of nothing but `milliseconds value step` lines, named by their path",
    signals: &["any metric, by the alias table"],
    framework: None,
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(Console::<Metric>::boxed),
};

/// The column until its name is known.
const VALUE: &str = "value";
/// The column of the times at which values were logged.
const TIME: &str = "timestamp";
/// The folder below which the path is the name.
const FOLDER: &str = "/metrics/";
/// Metrics of the machine, which have a step count of their own.
const MACHINE: &str = "system/";

fn sniff(head: &[u8]) -> u8 {
    let (mut lines, mut records) = (0, 0);
    records::each_piece(head, |p| {
        lines += 1;
        records += usize::from(record(p.text).is_some());
    });
    // The last line may be cut off.
    if records > 1 && records + 1 >= lines {
        65
    } else if records == 1 && lines == 1 {
        30
    } else {
        0
    }
}

/// Time, value and step. More fields name a data set.
fn record(text: &[u8]) -> Option<(f64, f64, u64)> {
    let mut fields = text.trim_ascii_end().split(|b| *b == b' ');
    let (time, value, step) = (fields.next()?, fields.next()?, fields.next()?);
    let milliseconds = (12..=14).contains(&time.len()) && time.iter().all(u8::is_ascii_digit);
    let (step, _) = number::digits(step).filter(|(_, len)| milliseconds && *len == step.len())?;
    Some((number::number(time)?, number::number(value)?, step))
}

#[derive(Default)]
struct Metric {
    value: Slot,
    time: Slot,
    torn: Torn,
}

impl Records for Metric {
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows) {
        // The step stands last: without a line end it may be cut off.
        match record(piece.text).filter(|_| !piece.open) {
            Some((time, value, step)) => {
                rows.begin(step);
                self.value.set(VALUE, value, rows);
                self.time.set(TIME, time, rows);
            }
            None => self.torn.lose(
                piece.line,
                "not a time, a value and a step",
                piece.text,
                rows,
            ),
        }
    }

    fn finish(&mut self, rows: &mut Rows) {
        self.torn.finish(rows);
    }
}

/// The rows under the metric's name, which is the path below the folder of metrics.
pub(super) fn named(rows: &Rows, path: &str) -> Rows {
    let path = path.replace('\\', "/");
    let (run, name) = match path.rsplit_once(FOLDER) {
        Some((run, name)) => (run.rsplit('/').next(), name),
        None => (None, path.rsplit('/').next().unwrap_or(&path)),
    };
    let mut out = Rows::default();
    out.run = run.filter(|r| !r.is_empty()).map(str::to_owned);
    out.take_over(rows);
    if let Some(slot) = rows.find(VALUE).filter(|_| !name.starts_with(MACHINE)) {
        out.steps.clone_from(&rows.steps);
        out.put(name, rows.column(slot).clone());
        if let Some(time) = rows.find(TIME) {
            out.put(TIME, rows.column(time).clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::records::testing::*;

    #[test]
    fn the_path_names_the_metric() {
        let text = include_bytes!("../../fixtures/logs/mlflow/mlruns/0/ab12/metrics/train/loss");
        for lines in [1, usize::MAX] {
            let rows = read_in::<Metric>(text, lines);
            assert_eq!(rows.losses.len(), 1);
            let rows = named(&rows, "mlruns/0/ab12/metrics/train/loss");
            assert_eq!(rows.steps, [0, 10, 20]);
            let loss = column(&rows, "train/loss");
            assert_eq!(loss[..2], [Some(3.5), Some(2.25)]);
            assert!(loss[2].is_some_and(f64::is_nan));
        }
        assert_eq!(sniff(text), 65);
        assert_eq!(sniff(b"1772366400000 3.5 0\n"), 30);
        assert_eq!(sniff(b"1 2 3\n4 5 6\n"), 0);
        let rows = read_in::<Metric>(text, 9);
        assert!(named(&rows, "a/metrics/system/cpu").steps.is_empty());
        assert_eq!(named(&rows, "loss").find("loss"), Some(0));
    }

    #[test]
    fn damage_is_survived() {
        survives::<Metric>(include_bytes!(
            "../../fixtures/logs/mlflow/mlruns/0/ab12/metrics/train/loss"
        ));
    }
}
