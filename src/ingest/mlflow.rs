//! The file store of `MLflow`: one file a metric, `mlruns/…/metrics/train/loss` with lines `timestamp value step`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::ingest::Ingester;
use crate::ingest::Reader;
use crate::ingest::config;
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
const FOLDER: &str = "metrics";
/// The file in which a run is described.
const ABOUT: &str = "meta.yaml";
/// Facts: what the run is called, and whether it was deleted.
pub(super) const NAME: &str = "mlflow_run";
pub(super) const STAGE: &str = "mlflow_stage";
/// Parameters of one folder that are read.
const MOST_PARAMETERS: usize = 1024;
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

/// Where a file stands in a store.
struct Place {
    /// The folder of the run.
    run: PathBuf,
    /// The name of the metric: its path below the folder of metrics.
    name: String,
}

impl Place {
    /// A metric may itself be called `metrics/…`, and the store may lie below a folder of that name: the run is where its
    /// `meta.yaml` lies, or else above the last folders of metrics.
    fn of(path: &str) -> Option<Self> {
        let path = fs::canonicalize(path).map_or_else(|_| path.into(), |p| p.display().to_string());
        let parts: Vec<&str> = path.split(['/', '\\']).collect();
        let folders = 0..parts.len().saturating_sub(1);
        let metrics: Vec<usize> = folders.filter(|i| parts[*i] == FOLDER).collect();
        let run = |at: usize| PathBuf::from(parts[..at].join("/"));
        let is_run = |at: &&usize| run(**at).join(ABOUT).is_file();
        let ends_in_metrics = |at: &usize| *at > 0 && parts[at - 1] == FOLDER;
        let at = match metrics.iter().find(is_run) {
            Some(at) => *at,
            None => *metrics.iter().rfind(|at| !ends_in_metrics(at))?,
        };
        Some(Self {
            run: run(at),
            name: parts[at + 1..].join("/"),
        })
    }

    fn id(&self) -> Option<String> {
        let id = self.run.file_name()?.to_string_lossy().into_owned();
        Some(id).filter(|id| !id.is_empty())
    }
}

/// The rows under the metric's name, which is the path below the folder of metrics.
pub(super) fn named(rows: &Rows, path: &str) -> Rows {
    let place = Place::of(path);
    let file = || path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
    let name = place.as_ref().map_or_else(file, |p| p.name.clone());
    let mut out = Rows::default();
    if let Some(place) = &place {
        out.run = place.id();
        about(&place.run, &mut out);
    }
    out.take_over(rows);
    if let Some(slot) = rows.find(VALUE).filter(|_| !name.starts_with(MACHINE)) {
        out.steps.clone_from(&rows.steps);
        out.put(&name, rows.column(slot).clone());
        if let Some(time) = rows.find(TIME) {
            out.put(TIME, rows.column(time).clone());
        }
    }
    out
}

/// The name of the run, and whether it was deleted.
fn about(run: &Path, rows: &mut Rows) {
    let Some(text) = small_file(&run.join(ABOUT)) else {
        return;
    };
    for line in text.lines() {
        let Some((key, value)) = line.split_once(": ") else {
            continue;
        };
        let value = value.trim().trim_matches(['\'', '"']);
        let fact = match key {
            "run_name" => NAME,
            "lifecycle_stage" => STAGE,
            _ => continue,
        };
        config::note(&mut rows.facts, fact, value.as_bytes(), true);
    }
}

/// Adds the parameters of the run to its first metric.
pub(super) fn parameters(metrics: &mut [(String, Rows)]) {
    let Some((path, rows)) = metrics.first_mut() else {
        return;
    };
    if let Some(place) = Place::of(path) {
        let folder = place.run.join("params");
        below(&folder, "", &mut rows.facts);
    }
}

/// The parameters in a folder; those with a `/` in their names lie in folders below it.
fn below(folder: &Path, inside: &str, facts: &mut BTreeMap<String, String>) {
    const DEEPEST: usize = 8;
    let mut entries: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries.into_iter().take(MOST_PARAMETERS) {
        let name = format!("{inside}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) && name.matches('/').count() < DEEPEST {
            below(&entry.path(), &format!("{name}/"), facts);
        } else if let Some(value) = small_file(&entry.path()) {
            // Parameters are text, and may be JSON.
            let value = value.trim().as_bytes();
            if config::leaves(facts, name.clone().into_bytes(), value).is_none() {
                config::note(facts, &name, value, true);
            }
        }
    }
}

fn small_file(path: &Path) -> Option<String> {
    const LARGEST: u64 = 64 * 1024;
    let is_file = fs::metadata(path).is_ok_and(|m| m.is_file());
    let mut text = String::new();
    let file = is_file.then(|| fs::File::open(path).ok())??;
    file.take(LARGEST).read_to_string(&mut text).ok()?;
    Some(text)
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
    fn a_metric_may_be_called_as_the_folder_of_metrics() {
        let placed = |path: &str| {
            let place = Place::of(path)?;
            Some((place.id()?, place.name))
        };
        let of = |run: &str, name: &str| Some((run.to_owned(), name.to_owned()));
        assert_eq!(
            placed("mlruns/0/ab/metrics/metrics/train/ce"),
            of("ab", "metrics/train/ce")
        );
        assert_eq!(placed("/metrics/mlruns/0/ab/metrics/lr"), of("ab", "lr"));
        let store = "fixtures/logs/mlflow/mlruns/0/ab12";
        assert_eq!(placed(&format!("{store}/metrics/lr")), of("ab12", "lr"));
        assert_eq!(placed("lr"), None);
    }

    #[test]
    fn damage_is_survived() {
        survives::<Metric>(include_bytes!(
            "../../fixtures/logs/mlflow/mlruns/0/ab12/metrics/train/loss"
        ));
    }
}
