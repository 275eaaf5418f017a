//! Folders of a run, or of several: what belongs together, and what is told as left out.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tempfile::TempDir;
use whyspike::ingest::{self, Options};
use whyspike::run::Run;

use crate::support::{ALIASES, read};

/// Writes a file, and the folders that it lies in.
fn put(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

fn told(run: &Run) -> Vec<&str> {
    run.losses.iter().map(|l| &*l.what).collect()
}

fn asked(folder: &Path, run: &str) -> Run {
    let options = Options {
        run: Some(run.to_owned()),
        ..Options::default()
    };
    let read = ingest::read(&[folder.to_owned()], &ALIASES, &options, &mut |_, _| {});
    read.unwrap_or_else(|e| panic!("{e}"))
}

/// A run in `MLflow`'s store of files, as `log_metrics` and `log_params` write it.
fn mlflow_run(folder: &TempDir, path: &str, name: &str, from: u64, rows: u64, stage: &str) {
    let inner = format!("mlruns/{path}");
    let about = format!("lifecycle_stage: {stage}\nrun_name: {name}\n");
    put(folder, &format!("{inner}/meta.yaml"), about);
    put(
        folder,
        &format!("{inner}/params/optimizer/adam_beta2"),
        "0.95",
    );
    for (metric, first) in [
        ("train/loss", 5.0),
        ("eval/deep/loss", 6.0),
        ("metrics/train/ce", 4.0),
        ("lr", 0.5),
    ] {
        let mut text = String::new();
        for row in 0..rows {
            let (time, step) = (1_772_366_400_000 + from + row, row * 10);
            writeln!(text, "{time} {} {step}", first - row as f64 / 8.0).expect("written");
        }
        put(folder, &format!("{inner}/metrics/{metric}"), text);
    }
}

#[test]
fn a_store_of_mlflow_is_read_from_any_of_its_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = |n: u8| format!("{n:032x}");
    put(&folder, "mlruns/0/meta.yaml", "experiment_id: '0'\n");
    mlflow_run(&folder, &format!("7/{}", id(1)), "first", 0, 6, "active");
    mlflow_run(&folder, &format!("7/{}", id(2)), "second", 100, 4, "active");
    mlflow_run(&folder, &format!("7/{}", id(3)), "gone", 200, 3, "deleted");
    mlflow_run(&folder, &format!("8/{}", id(4)), "other", 50, 5, "active");
    let others = "`second` is the newest run; 3 other runs left out, to be named with --run: `other`, \
                  `first`, `gone`";
    let in_one = "`second` is the newest run; 2 other runs left out, to be named with --run: `first`, \
                  `gone`";
    let run_folder = format!("mlruns/7/{}", id(2));
    let metrics = format!("{run_folder}/metrics");
    for (inside, says) in [
        ("", Some(others)),
        ("mlruns", Some(others)),
        ("mlruns/7", Some(in_one)),
        (&*run_folder, None),
        (&*metrics, None),
    ] {
        let run = read(folder.path().join(inside));
        assert_eq!(run.steps, [0, 10, 20, 30], "{inside}");
        assert_eq!(told(&run), says.into_iter().collect::<Vec<_>>(), "{inside}");
        let names: Vec<&str> = run.columns().map(|(n, _)| n).collect();
        let expected = [
            "eval/deep/loss",
            "learning_rate",
            "loss",
            "metrics/train/ce",
            "time",
        ];
        assert_eq!(names, expected);
        assert_eq!(run.beta2(), Some(0.95));
    }
    for run in ["first", &*id(1)] {
        let run = asked(folder.path(), run);
        assert_eq!((run.len(), told(&run).len()), (6, 0));
    }
    let gone = format!("mlruns/7/{}", id(3));
    assert_eq!(read(folder.path().join(gone)).len(), 3, "it was named");
}

/// What the HF Trainer logs of a row, under the names that it gives trackers.
fn hf_rows(names: [&str; 3], more: impl Fn(u64) -> String) -> String {
    let mut text = String::new();
    for step in (10..=60).step_by(10) {
        let row = |at: usize, value: f64| format!("\"{}\": {value}", names[at]);
        let loss = row(0, 5.0 - step as f64 / 100.0);
        let (rate, epoch) = (row(1, 0.001), row(2, step as f64 / 60.0));
        writeln!(text, "{{{}, {loss}, {rate}, {epoch}}}", more(step)).expect("written");
    }
    text
}

#[test]
fn rows_of_the_hf_trainer_in_a_tracker_are_means() {
    let folder = tempfile::tempdir().expect("a folder");
    let tracked = ["train/loss", "train/learning_rate", "train/epoch"];
    let counted = hf_rows(tracked, |step| {
        format!("\"_step\": {}, \"train/global_step\": {step}", step / 10)
    });
    put(&folder, "history.jsonl", counted);
    let run = read(folder.path().join("history.jsonl"));
    assert_eq!(run.meta.framework.as_deref(), Some("hf-trainer"));
    assert_eq!(
        (&run.steps[..2], &*run.intervals),
        (&[10, 20][..], &[10; 6][..])
    );
    assert_eq!((run.meta.step_base, run.meta.base_known), (1, true));

    let others = ["train/loss", "train/lr", "train/epoch"];
    put(
        &folder,
        "other.jsonl",
        hf_rows(others, |step| format!("\"step\": {step}")),
    );
    let run = read(folder.path().join("other.jsonl"));
    assert_eq!((run.meta.framework, &*run.intervals), (None, &[1; 6][..]));
}
