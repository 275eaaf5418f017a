//! Event files of several writers, whole and damaged.

use std::path::{Path, PathBuf};

use super::*;
use crate::ingest;
use crate::ingest::search::search;
use crate::ingest::wire::build;
use crate::run::{Began, Run};
use crate::signal::Aliases;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn fixture(name: &str) -> PathBuf {
    root().join("fixtures/logs/tensorboard").join(name)
}

fn rows_of(mut bytes: &[u8]) -> Rows {
    let mut rows = Rows::default();
    if read(&mut bytes, &mut rows).is_err() {
        assert!(rows.steps.is_empty());
    }
    rows
}

/// The run of a file or folder; none where it is absent.
fn run_of(path: &Path) -> Option<Run> {
    if !path.exists() {
        return None;
    }
    let options = ingest::Options::default();
    let run = ingest::read(
        &[path.to_owned()],
        &Aliases::built_in(),
        &options,
        &mut |_, _| {},
    );
    let run = run.expect("a run");
    assert_eq!(run.meta.format, "tensorboard");
    Some(run)
}

fn sample(name: &str) -> Option<Run> {
    run_of(&root().join("../shared/samples/tensorboard").join(name))
}

fn column(rows: &Rows, name: &str) -> Vec<Option<f64>> {
    let column = rows.column(rows.find(name).expect("a column"));
    (0..rows.steps.len()).map(|row| column.get(row)).collect()
}

fn sum(run: &Run, name: &str) -> f64 {
    let column = run.column(name).expect("a column");
    column.iter().flatten().filter(|v| v.is_finite()).sum()
}

fn event(step: u64, values: &[(&str, f32)]) -> Vec<u8> {
    let value = |(tag, v): &(&str, f32)| {
        build::bytes(1, [build::bytes(1, tag), build::float(2, *v)].concat())
    };
    let summary: Vec<u8> = values.iter().flat_map(value).collect();
    let step = if step > 0 {
        build::int(2, step)
    } else {
        Vec::new()
    };
    frames::framed(&[build::double(1, 1.7e9), step, build::bytes(5, summary)].concat())
}

#[test]
fn a_restart_without_a_start_record_keeps_both_branches() {
    let run = run_of(&fixture("restart")).expect("the fixture");
    assert_eq!(
        run.steps,
        [1, 2, 3, 4, 5, 6, 5, 6, 7, 8],
        "steps of the twins over samples make no rows"
    );
    assert_eq!(run.attempts[1].began, Began::ProcessStart);
    assert_eq!(run.attempts[1].rows, 6..10);
    assert_eq!(run.meta.step_base, 1, "told by the samples");
    let loss: Vec<f64> = run.column("loss").expect("loss").raw().to_vec();
    assert_eq!((loss[3], loss[5], loss[6], loss[9]), (7.0, 6.5, 6.75, 5.75));
    assert!(loss[4].is_nan());
    assert_eq!(run.value("grad_norm", 4), None);
    assert_eq!(run.value("val_loss", 3), Some(7.25), "logged after step 6");
    assert_eq!(run.value("consumed_samples", 3), Some(32.0));
    assert_eq!(run.value("time", 0), Some(1_772_366_402_000.0));
    assert_eq!(run.columns().count(), 6);
    assert!(run.losses.is_empty(), "{:?}", run.losses);
    assert_eq!(run.superseded_from(0), Some(5));
}

#[test]
fn folders_of_a_writer_are_no_attempts() {
    let run = run_of(&fixture("writer")).expect("the fixture");
    assert_eq!((&run.steps[..], run.attempts.len()), (&[0, 1, 2, 3][..], 1));
    let names: Vec<&str> = run.columns().map(|(n, _)| n).collect();
    let expected = [
        "learning_rate",
        "loss",
        "parts/ce",
        "parts/z",
        "time",
        "val_loss",
    ];
    assert_eq!(names, expected);
    assert!(
        (sum(&run, "loss") - 17.0).abs() < 1e-12 && (sum(&run, "val_loss") - 9.5).abs() < 1e-12
    );
    assert_eq!(run.beta2(), Some(0.95));
    let fact = |name: &str| run.meta.facts.get(name).map(String::as_str);
    assert_eq!(
        (fact("optimizer"), fact("fused")),
        (Some("adamw"), Some("true"))
    );
    assert_eq!(fact("summary/hparam/loss"), Some("3.5"));
    assert_eq!(run.meta.facts.len(), 5, "the last rate, too");
    assert!(run.losses.is_empty(), "{:?}", run.losses);
    let starts = run.events.iter().filter(|e| e.kind == EventKind::Start);
    assert_eq!(starts.count(), 1);
}

#[test]
fn the_arguments_of_the_hf_trainer_tell_that_rows_are_means() {
    let arguments = "{\"logging_steps\": 5, \"logging_strategy\": \"steps\", \"adam_beta2\": 0.98, \
                     \"per_device_train_batch_size\": 8}";
    let text = [build::int(1, 7), build::bytes(8, arguments)].concat();
    let plugin = build::bytes(1, build::bytes(1, "text"));
    let value = [
        build::bytes(1, "args/text_summary"),
        build::bytes(8, text),
        build::bytes(9, plugin),
    ];
    let summary = build::bytes(5, build::bytes(1, value.concat()));
    let mut file = frames::framed(&[build::double(1, 1.7e9), summary].concat());
    for step in [5, 10, 15] {
        file.extend(event(step, &[("train/loss", 4.0), ("profiling/x", 1.0)]));
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a"), file).expect("written");
    let run = run_of(folder.path()).expect("a run");
    assert_eq!(
        (&run.intervals[..], run.beta2()),
        (&[5, 5, 5][..], Some(0.98))
    );
    assert_eq!(run.meta.framework.as_deref(), Some("hf-trainer"));
    assert!(run.column("args/text_summary").is_none());
}

/// Event files of a folder, with steps at even times, a second each.
fn events_in(folder: &Path, name: &str, tag: &str, steps: std::ops::Range<u64>, from: f64) {
    let file: Vec<u8> = steps
        .flat_map(|step| {
            let value = [
                build::bytes(1, tag),
                build::float(2, 9.0 - step as f32 / 8.0),
            ];
            let summary = build::bytes(5, build::bytes(1, value.concat()));
            let wall = build::double(1, from + step as f64);
            frames::framed(&[wall, build::int(2, step), summary].concat())
        })
        .collect();
    let inner = folder.join(name);
    std::fs::create_dir_all(&inner).expect("a folder");
    std::fs::write(inner.join("events"), file).expect("written");
}

#[test]
fn folders_of_runs_are_told_from_those_of_writers() {
    let runs = tempfile::tempdir().expect("a folder");
    let put = |name: &str, steps, from: f64| events_in(runs.path(), name, "loss", steps, from);
    put("first", 1..9, 1.7e9);
    put("second", 1..7, 1.71e9);
    put("third", 5..12, 1.72e9);
    events_in(runs.path(), "third/validation", "loss", 5..7, 1.72e9);
    let run = run_of(runs.path()).expect("a run");
    assert_eq!(run.steps, [1, 2, 3, 4, 5, 6, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(run.attempts.len(), 2, "the third goes on from the second");
    assert_eq!(run.column("val_loss").map(|c| c.present().count()), Some(2));
    assert_eq!(
        run.losses[0].what,
        "`third` is the newest run; 1 other run left out, to be named with --run: `first`"
    );

    let ranks = tempfile::tempdir().expect("a folder");
    for (name, from) in [("a", 1.7e9), ("b", 1.7e9 + 0.25)] {
        events_in(ranks.path(), name, "loss", 1..9, from);
    }
    let run = run_of(ranks.path()).expect("a run");
    assert_eq!((run.len(), run.losses.len()), (8, 0));

    let starts = tempfile::tempdir().expect("a folder");
    for (name, from) in [(".", 1.7e9), ("again", 1.71e9)] {
        events_in(starts.path(), name, "loss", 1..5, from);
    }
    assert_eq!(run_of(starts.path()).expect("a run").attempts.len(), 2);
}

#[test]
fn a_step_back_within_a_file_is_a_restart() {
    let losses = [(1, 9.0), (2, 8.0), (3, 7.0), (2, 8.5), (3, 7.5)];
    let file: Vec<u8> = losses
        .iter()
        .flat_map(|(step, loss)| event(*step, &[("loss", *loss)]))
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a"), file).expect("written");
    let run = run_of(folder.path()).expect("a run");
    assert_eq!(run.steps, [1, 2, 3, 2, 3]);
    assert_eq!(
        run.attempts[1].began,
        Began::StepWentBack { from: 3, to: 2 }
    );
}

#[test]
fn damage_is_told_and_reading_goes_on() {
    let run = run_of(&fixture("damaged.tfevents")).expect("the fixture");
    assert_eq!(run.steps, [1, 2, 3]);
    assert_eq!(
        (run.value("learning_rate", 1), run.value("loss", 1)),
        (None, Some(9.0))
    );
    let told: Vec<_> = run.losses.iter().map(|l| (&*l.place, &*l.what)).collect();
    let zeros = "100 zero bytes at the end hold no record";
    assert_eq!(
        told,
        [
            ("byte 1013", zeros),
            ("byte 351", "51 bytes are damaged"),
            ("byte 662", "40 bytes are damaged")
        ]
    );
}

#[test]
fn steps_that_count_samples_are_told() {
    let run = run_of(&fixture("deepspeed.tfevents")).expect("the fixture");
    assert_eq!(run.steps, [512, 1024, 1536]);
    assert!(
        (sum(&run, "loss") - 6.0).abs() < 1e-12
            && (sum(&run, "learning_rate") - 0.875).abs() < 1e-12
    );
    assert!(run.losses[0].what.contains("counts samples"));
    let both = [
        event(1, &[("loss", 1.0), ("lr", 0.5)]),
        event(64, &[("Train/Samples/lr", 0.5)]),
    ]
    .concat();
    let rows = rows_of(&both);
    assert_eq!(rows.steps, [1]);
    assert!(
        rows.losses[0]
            .what
            .starts_with("1 values over samples were left out")
    );
}

#[test]
fn sessions_begin_attempts_and_save_checkpoints() {
    let session = |step: u64, status: u64, path: &str| {
        let log = [build::int(1, status), build::bytes(2, path)].concat();
        frames::framed(&[build::int(2, step), build::bytes(7, log)].concat())
    };
    let rows = rows_of(
        &[
            event(0, &[("loss", 9.0)]),
            event(1, &[("loss", 8.0)]),
            session(1, 3, "dir/model.ckpt-1"),
            session(5, 1, ""),
            event(5, &[("loss", 7.0), ("time", 0.25)]),
            event(4, &[("eval", 7.5)]),
            session(0, 2, ""),
        ]
        .concat(),
    );
    assert_eq!(
        rows.steps,
        [0, 1, 4, 5],
        "the late value stays behind the start"
    );
    let marks: Vec<_> = rows
        .marks
        .iter()
        .map(|m| (m.row, m.kind, m.step, m.path.as_deref()))
        .collect();
    assert_eq!(
        (marks.len(), marks[0].0, marks[0].1),
        (4, 0, EventKind::Start)
    );
    assert_eq!(
        marks[1],
        (2, EventKind::Saved, Some(1), Some("dir/model.ckpt-1"))
    );
    assert_eq!(
        (marks[2].0, marks[2].1, marks[3].0, marks[3].1),
        (2, EventKind::Start, 4, EventKind::Exit)
    );
    assert_eq!(column(&rows, "tag/time")[3], Some(0.25));
    assert!(column(&rows, "time")[3].is_some_and(|t| (t - 1.7e12).abs() < 1e-3));
}

#[test]
fn odd_events_are_told() {
    let negative = frames::framed(
        &[
            build::int(2, u64::MAX),
            build::bytes(
                5,
                build::bytes(1, [build::bytes(1, "loss"), build::float(2, 1.0)].concat()),
            ),
        ]
        .concat(),
    );
    let cut = frames::framed(&[0x2a, 0x7f, 0x0a]);
    let rows = rows_of(&[event(1, &[("loss", 2.0)]), cut, negative].concat());
    assert_eq!(rows.steps, [1]);
    let told: Vec<_> = rows.losses.iter().map(|l| &*l.what).collect();
    assert_eq!(
        told,
        [
            "the event in this record is damaged",
            "1 values at a negative or huge step were left out"
        ]
    );
}

#[test]
fn any_bytes_end() {
    let bytes = std::fs::read(fixture("damaged.tfevents")).expect("the fixture");
    let mut state = 1_u64;
    for at in (0..bytes.len()).step_by(3) {
        let mut broken = bytes.clone();
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(at as u64);
        broken[at] = (state >> 56) as u8;
        assert!(rows_of(&broken).steps.len() <= 4);
        assert!(rows_of(&bytes[at..]).steps.len() <= 3);
        rows_of(&bytes[..at]);
    }
}

#[test]
fn samples_of_writers() {
    let Some(run) = sample("pytorch_style_restart") else {
        return;
    };
    // Sums of the values as the library of TensorBoard reads them: 94.5 and 70.75999927520752.
    assert_eq!((run.len(), run.attempts.len()), (18, 2));
    assert_eq!((run.steps[9], run.steps[10], run.steps[17]), (10, 7, 14));
    assert_eq!(run.attempts[1].began, Began::ProcessStart);
    assert!((sum(&run, "loss") - 165.259_999_275_207_52).abs() < 1e-9);
    assert_eq!(run.columns().count(), 2);

    let run = sample("tensor_encoded").expect("a sample");
    assert_eq!(run.steps, [1, 2, 3]);
    for (name, total) in [
        ("pt_new_style/loss", 9.166_666_626_930_237),
        ("tf2/loss", 12.833_333_253_860_474),
        ("tf2_double/loss", 5.5),
    ] {
        assert!((sum(&run, name) - total).abs() < 1e-12, "{name}");
    }

    let run = sample("tensorboardX_run").expect("a sample");
    assert_eq!(run.steps, [0, 1, 2, 3, 4]);
    let loss = run.column("loss").expect("loss").raw();
    assert_eq!(
        (loss[0], loss[1], loss[3], loss[4]),
        (10.0, 9.5, f64::INFINITY, 8.0)
    );
    assert!(loss[2].is_nan());
    assert_eq!(run.value("default_step_none", 0), Some(3.0));
    assert!(run.losses.is_empty());
}

#[test]
fn tails_that_are_cut_or_zero() {
    for (name, place) in [("truncated_tail", "byte 1050"), ("zero_tail", "byte 1107")] {
        let Some(run) = sample(name) else { return };
        // The record that is cut is a twin over samples.
        assert_eq!((run.len(), run.losses.len()), (10, 1));
        assert_eq!(run.losses[0].place, place);
        assert!((sum(&run, "loss") - 94.5).abs() < 1e-9);
    }
}

#[test]
fn a_file_of_2016() {
    let path = root().join("../shared/corpus/tfevents__tensorboard-testdata-eval.tfevents");
    let Some(run) = run_of(&path) else { return };
    assert_eq!(run.steps, [1000, 3000]);
    // The sum of both values as the library of TensorBoard reads them.
    assert!((sum(&run, "loss") - 0.002_265_756_775_159_388_9).abs() < 1e-15);
    assert!(run.losses.is_empty());
}

#[test]
fn no_other_format_is_taken_for_one() {
    assert_eq!(sniff(&[0; 4096]), 0);
    assert_eq!(sniff(b""), 0);
    let example = frames::framed(&build::bytes(1, build::bytes(1, "features of a data set")));
    assert_eq!(sniff(&example), 0, "records of a data set");
    assert_eq!(sniff(&event(1, &[("loss", 1.0)])), 90);
    let shared = ["samples", "corpus"].map(|f| root().join("../shared").join(f));
    if shared.iter().all(|f| f.exists()) {
        let found = shared
            .iter()
            .map(|f| search(f, Some(&INGESTER)).expect("event files"));
        let claimed: Vec<PathBuf> = found.flat_map(|f| f.logs).collect();
        let name = |path: &PathBuf| path.display().to_string();
        let event_file = |p: &PathBuf| name(p).contains("tfevents") && !name(p).contains("-csv");
        assert!(claimed.iter().all(event_file), "{claimed:?}");
        assert_eq!(claimed.len(), 7);
    }
}
