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

/// A console of litgpt and its table, whose steps count micro-batches, four an update.
fn litgpt(folder: &TempDir, printed: u64, tabled: u64) {
    let loss = |step: u64| 5.0 - step as f64 / 64.0;
    let (mut console, mut table) = (String::new(), String::new());
    for step in 1..=printed {
        let (micro, loss) = (4 * step, loss(step));
        writeln!(
            console,
            "Epoch 1 | iter {micro} step {step} | loss train: {loss:.3}, val: n/a | iter time: 301.22 ms (step) \
             remaining time: 0:10:00"
        )
        .expect("written");
    }
    table.push_str(
        "epoch,iter,iter_time,learning_rate,loss,remaining_time,step,tokens,total_tokens\n",
    );
    for step in 1..=tabled {
        let (micro, tokens) = (4 * step, 8192 * step);
        let (before, loss) = (micro - 1, loss(step));
        writeln!(
            table,
            "1,{micro},0.301,0.0004,{loss},600.0,{before},{tokens},{tokens}"
        )
        .expect("written");
    }
    put(folder, "console.log", console);
    put(folder, "logs/csv/version_0/metrics.csv", table);
}

#[test]
fn a_table_of_litgpt_goes_before_its_console_if_it_lacks_nothing() {
    for (printed, tabled, format) in [
        (40, 40, "csv"),
        (40, 39, "litgpt"),
        (40, 4, "litgpt"),
        (40, 60, "csv"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        litgpt(&folder, printed, tabled);
        let run = read(folder.path());
        assert_eq!(run.meta.format, format, "{printed} rows and {tabled}");
        assert_eq!(run.meta.framework.as_deref(), Some("litgpt"));
        assert_eq!(run.steps, (1..=printed.max(tabled)).collect::<Vec<u64>>());
        assert_eq!(run.meta.step_base, 1);
        let rates = run.column("learning_rate").expect("the table's");
        assert_eq!(rates.iter().flatten().count() as u64, tabled);
        let exact = format == "csv";
        let value = if exact { 4.984_375 } else { 4.984 };
        assert_eq!(run.value("loss", 0), Some(value));
        assert!(told(&run).is_empty(), "{:?}", told(&run));
    }
    let folder = tempfile::tempdir().expect("a folder");
    litgpt(&folder, 0, 40);
    let run = read(folder.path());
    assert_eq!((run.steps[0], run.meta.step_base), (3, 0));
    assert!(told(&run)[0].contains("count micro-batches"));
}

#[test]
fn numbers_that_are_not_rounded_go_before_a_few_more_that_are() {
    // Two lines of the console are torn off the front of the table: as many rows within a few, and as far.
    let folder = tempfile::tempdir().expect("a folder");
    let (mut console, mut table) = (String::new(), "step,train/loss\n".to_owned());
    for step in 1..=100 {
        let loss = 5.0 - f64::from(step) / 128.0;
        writeln!(console, "{{\"step\": {step}, \"loss\": {loss:.2}}}").expect("written");
        if step > 2 {
            writeln!(table, "{step},{loss}").expect("written");
        }
    }
    put(&folder, "console.jsonl", console);
    put(&folder, "table.csv", table);
    let run = read(folder.path());
    assert_eq!((&*run.meta.format, run.len()), ("csv", 98));
}

#[test]
fn a_view_without_a_framework_has_that_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut console, mut table) = (String::new(), "step,loss\n".to_owned());
    for step in 1..=40 {
        let loss = 5.0 - f64::from(step) / 128.0;
        writeln!(table, "{step},{loss}").expect("written");
        if step % 10 == 0 {
            writeln!(
                console,
                " iteration {step:8}/     100 | consumed samples: {:12} | elapsed time per iteration (ms): 512.0 | \
                 learning rate: 1.000000E-04 | global batch size:     8 | lm loss: {loss:.6E} | loss scale: 1.0 | grad \
                 norm: 1.000 | number of skipped iterations:   0 | number of nan iterations:   0 |",
                step * 8
            )
            .expect("written");
        }
    }
    put(&folder, "scalars.csv", table);
    let alone = read(folder.path());
    assert_eq!(alone.meta.framework, None);
    put(&folder, "console.log", console);
    let run = read(folder.path());
    assert_eq!((&*run.meta.format, run.len()), ("csv", 40));
    assert_eq!(run.meta.framework.as_deref(), Some("megatron-lm"));
}

/// A table from step 7 on does not show whether it counts from 0. The console beside it does.
#[test]
fn a_view_that_counts_alike_has_the_base_of_the_framework() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut console, mut table) = (String::new(), "step,loss\n".to_owned());
    for step in 7..=30 {
        let loss = 5.0 - f64::from(step) / 32.0;
        writeln!(table, "{step},{loss}").expect("written");
        writeln!(
            console,
            "completed step: {step}, seconds: 1.250, TFLOP/s/device: 300.0, Tokens/s/device: 6500.0, total_weights: \
             65536, loss: {loss:.3}"
        )
        .expect("written");
    }
    put(&folder, "scalars.csv", table);
    assert!(!read(folder.path()).meta.base_known);
    put(&folder, "console.log", console);
    let run = read(folder.path());
    assert_eq!(
        (&*run.meta.format, run.meta.framework.as_deref()),
        ("csv", Some("maxtext"))
    );
    assert_eq!((run.meta.step_base, run.meta.base_known), (0, true));
}
