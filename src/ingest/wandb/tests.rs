//! `.wandb` files of both generations of the SDK, whole and damaged.

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
    root().join("fixtures/logs/wandb").join(name)
}

fn rows_of(mut bytes: &[u8]) -> Rows {
    let mut rows = Rows::default();
    read(&mut bytes, &mut rows).expect("readable");
    rows
}

/// The run of files; none where one is absent.
fn run_of(paths: &[PathBuf]) -> Option<Run> {
    if !paths.iter().all(|p| p.exists()) {
        return None;
    }
    let options = ingest::Options::default();
    let run = ingest::read(paths, &Aliases::built_in(), &options, &mut |_, _| {}).expect("a run");
    assert_eq!(run.meta.format, "wandb");
    Some(run)
}

fn shared(name: &str) -> Option<Run> {
    run_of(&[root().join("../shared").join(name)])
}

fn sum(run: &Run, name: &str) -> f64 {
    let column = run.column(name).expect("a column");
    column.iter().flatten().filter(|v| v.is_finite()).sum()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * b.abs()
}

/// A record of history of the newer SDK.
fn history(step: u64, items: &[(&[&str], &str)]) -> Vec<u8> {
    let item = |(key, json): &(&[&str], &str)| {
        let parts: Vec<u8> = key.iter().flat_map(|k| build::bytes(2, k)).collect();
        build::bytes(1, [parts, build::bytes(16, json)].concat())
    };
    let items: Vec<u8> = items.iter().flat_map(item).collect();
    build::bytes(2, [items, build::bytes(2, build::int(1, step))].concat())
}

#[test]
fn the_newer_sdk_with_a_step_metric_and_a_step_back() {
    let run = run_of(&[fixture("run-abcd1234.wandb")]).expect("the fixture");
    assert_eq!(
        run.steps,
        [10, 20, 30, 20, 30],
        "by train/global_step; the evaluation joins step 30"
    );
    assert_eq!(
        run.attempts[1].began,
        Began::StepWentBack { from: 30, to: 20 }
    );
    let loss = run.column("loss").expect("loss").raw();
    assert_eq!((loss[0], loss[1], loss[3], loss[4]), (4.5, 4.0, 4.25, 3.75));
    assert!(loss[2].is_nan());
    let norm = run.column("grad_norm").expect("a norm").raw();
    assert!(norm[1].is_nan());
    assert_eq!((norm[2], norm[4]), (f64::INFINITY, 1.0));
    assert_eq!(run.value("val_loss", 2), Some(4.125));
    assert_eq!(run.value("layers/0", 3), Some(3.0));
    assert_eq!(run.value("time", 0), Some(1_772_366_400_000.0));
    let names: Vec<&str> = run.columns().map(|(n, _)| n).collect();
    assert_eq!(
        names,
        ["grad_norm", "layers/0", "loss", "time", "val_loss"],
        "no part of a histogram"
    );
    assert_eq!(run.beta2(), Some(0.95));
    let fact = |name: &str| run.meta.facts.get(name).map(String::as_str);
    assert_eq!(
        (fact("lr"), fact("optimizer/name")),
        (Some("0.001"), Some("AdamW"))
    );
    assert_eq!(
        (
            fact("summary/best"),
            fact("summary/train/loss"),
            fact("_wandb/x")
        ),
        (Some("3.5"), None, None)
    );
    assert_eq!(
        (fact("wandb_run_id"), fact("wandb_run_name")),
        (Some("abcd1234"), Some("a-run"))
    );
    let kinds: Vec<_> = run.events.iter().map(|e| (e.kind, e.attempt)).collect();
    assert_eq!(kinds, [(EventKind::Start, 0), (EventKind::Exit, 1)]);
    assert!(run.losses.is_empty(), "{:?}", run.losses);
}

#[test]
fn the_older_sdk_cut_in_its_third_row() {
    let run = run_of(&[fixture("old-sdk-cut.wandb")]).expect("the fixture");
    assert_eq!(run.steps, [0, 1]);
    assert!(close(sum(&run, "loss"), 5.0));
    assert_eq!(run.beta2(), Some(0.98));
    assert_eq!(run.columns().count(), 3, "no part of an image");
    assert_eq!(run.losses.len(), 1);
    assert!(
        run.losses[0].what.starts_with("the last record is cut"),
        "{:?}",
        run.losses
    );
}

#[test]
fn every_file_is_a_process() {
    let part = |first: u64| -> Vec<Vec<u8>> {
        let row = |i: u64| {
            let (loss, time) = (format!("{}", 10 - i), format!("{}", 1_772_366_400 + i));
            history(
                i,
                &[
                    (&["_step"], &i.to_string()),
                    (&["loss"], &loss),
                    (&["_timestamp"], &time),
                ],
            )
        };
        (first..first + 3).map(row).collect()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let paths = [3, 0].map(|first| {
        let path = folder.path().join(format!("{first}.wandb"));
        std::fs::write(&path, blocks::written(&part(first))).expect("written");
        path
    });
    let run = run_of(&paths).expect("both");
    assert_eq!(run.steps, [0, 1, 2, 3, 4, 5]);
    assert_eq!(
        run.attempts[1].began,
        Began::ProcessStart,
        "though the steps go on"
    );
}

/// A folder of W&B with a run that was resumed under its id, and two others of one name.
fn folder_of_runs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |stamp: &str, id: &str, name: &str, first: u64, from: u64| {
        let run = [build::bytes(1, id), build::bytes(8, name)].concat();
        let mut records = vec![build::bytes(17, run)];
        records.extend((first..first + 4).map(|i| {
            let (loss, time) = (format!("{}", 10 - i), format!("{}", from + i));
            let names: [&[&str]; 2] = [&["loss"], &["_timestamp"]];
            history(i, &[(names[0], &loss), (names[1], &time)])
        }));
        let inner = folder.path().join(format!("wandb/run-{stamp}-{id}"));
        std::fs::create_dir_all(&inner).expect("a folder");
        let path = inner.join(format!("run-{id}.wandb"));
        std::fs::write(path, blocks::written(&records)).expect("written");
    };
    put("20260301_120000", "aaaa1111", "llama", 0, 1_772_366_400);
    put("20260301_130000", "bbbb2222", "tries", 0, 1_772_370_000);
    put("20260301_140000", "bbbb2222", "tries", 2, 1_772_373_600);
    put("20260301_150000", "cccc3333", "llama", 0, 1_772_377_200);
    folder
}

#[test]
fn several_runs_in_one_folder_are_told_apart() {
    let folder = folder_of_runs();
    let of = |asked: Option<&str>| {
        let options = ingest::Options {
            run: asked.map(str::to_owned),
            ..ingest::Options::default()
        };
        let folder = [folder.path().to_owned()];
        let run = ingest::read(&folder, &Aliases::built_in(), &options, &mut |_, _| {});
        let run = run.expect("a run");
        let id = run.meta.facts["wandb_run_id"].clone();
        let told: Vec<String> = run.losses.into_iter().map(|l| l.what).collect();
        (id, run.steps, run.attempts.len(), told)
    };
    let newest = "`cccc3333` is the newest run; 2 other runs left out, to be named with --run: `tries`, `aaaa1111`";
    let (id, steps, attempts, told) = of(None);
    assert_eq!(
        (&*id, attempts, &told[..]),
        ("cccc3333", 1, &[newest.to_owned()][..])
    );
    assert_eq!(steps, [0, 1, 2, 3]);
    let (id, steps, attempts, told) = of(Some("tries"));
    assert_eq!(
        (&*id, attempts),
        ("bbbb2222", 2),
        "resumes of one id are one run"
    );
    assert_eq!(steps, [0, 1, 2, 3, 2, 3, 4, 5]);
    assert!(told.is_empty());
    assert_eq!(of(Some("aaaa1111")).0, "aaaa1111");
    let (id, steps, ..) = of(Some("llama"));
    assert_eq!(
        (&*id, steps.len()),
        ("cccc3333", 4),
        "the newest of the name"
    );
}

#[test]
fn partial_rows_and_rows_without_numbers() {
    let rows = rows_of(&blocks::written(&[
        history(5, &[(&["loss"], "2.5")]),
        history(
            5,
            &[
                (&["lr"], "1e-3"),
                (&["flag"], "true"),
                (&["list"], "[1, 2]"),
            ],
        ),
        history(6, &[(&["note"], "\"text\""), (&["_timestamp"], "1.7e9")]),
        history(7, &[(&["_step"], "-1"), (&["loss"], "1.0")]),
        build::bytes(2, build::bytes(1, [0x0a, 0x7f])),
    ]));
    assert_eq!(
        rows.steps,
        [5, 5],
        "the counter of the record stands in for `_step`"
    );
    assert_eq!(
        rows.columns().map(|(n, _)| n).collect::<Vec<_>>(),
        ["loss", "lr", "flag"]
    );
    let told: Vec<_> = rows.losses.iter().map(|l| &*l.what).collect();
    assert_eq!(
        told,
        [
            "a part of this record is damaged",
            "1 rows without a step that counts were left out"
        ]
    );
}

#[test]
fn any_bytes_end() {
    let bytes = std::fs::read(fixture("run-abcd1234.wandb")).expect("the fixture");
    let mut state = 1_u64;
    for at in (7..bytes.len()).step_by(3) {
        let mut broken = bytes.clone();
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(at as u64);
        broken[at] = (state >> 56) as u8;
        assert!(rows_of(&broken).steps.len() <= 6);
        rows_of(&bytes[..at]);
        // Damage behind the checksum.
        let record = bytes[at..bytes.len().min(at + 200)].to_vec();
        rows_of(&blocks::written(&[
            record.clone(),
            build::bytes(2, &record),
            build::bytes(17, record),
        ]));
    }
}

#[test]
fn the_samples_of_the_newer_sdk() {
    let folder = "samples/wandb/raw/wandb/offline-run-20261129_152530-rawsampl";
    let Some(run) = shared(&format!("{folder}/run-rawsampl.wandb")) else {
        return;
    };
    // Rows and sums as read with the schema of wandb 0.31 and Python's own JSON reader.
    assert_eq!(
        run.steps,
        [1, 2, 3, 4, 5, 6, 7, 8, 9],
        "two rows have a global step: too few"
    );
    // `lm loss` stands in five rows, `train/loss` in two: one signal has two names.
    let losses: f64 = run
        .columns()
        .filter(|(n, _)| n.starts_with("loss"))
        .map(|(n, _)| sum(&run, n))
        .sum();
    assert!(close(losses, 22.833_333_333_333_332 + 2.9));
    assert!(close(sum(&run, "grad_norm"), 12.0) && close(sum(&run, "learning_rate"), 0.0005));
    assert!(close(sum(&run, "optim/nested/deep"), 15.0));
    assert_eq!(run.value("inf_metric", 5), Some(f64::INFINITY));
    assert_eq!(
        (run.value("neg", 5), run.value("c", 7)),
        (Some(f64::NEG_INFINITY), Some(3.0))
    );
    assert!(run.column("hist/values").is_none() && run.column("hist/bins").is_none());
    let fact = |name: &str| run.meta.facts.get(name).map(String::as_str);
    assert_eq!((fact("lr"), fact("model/dim")), (Some("0.001"), Some("64")));

    let folder = "samples/wandb/multiblock/wandb/offline-run-20261129_152726-multiblk";
    let run = shared(&format!("{folder}/run-multiblk.wandb.gz")).expect("a sample");
    assert_eq!((run.len(), run.steps[0], run.steps[1499]), (1500, 1, 1500));
    assert!(close(sum(&run, "loss"), 6374.25) && close(sum(&run, "grad_norm"), 1500.0));
    assert!(run.losses.is_empty());

    let run = shared("samples/wandb/truncated/run-trunc.wandb").expect("a sample");
    assert_eq!((run.len(), run.steps[265]), (266, 266));
    assert!(close(sum(&run, "loss"), 1294.489) && close(sum(&run, "grad_norm"), 266.0));
    assert_eq!((run.losses.len(), &*run.losses[0].place), (1, "byte 99857"));
    assert!(run.events.iter().all(|e| e.kind != EventKind::Exit));
}

#[test]
fn a_run_of_the_older_sdk() {
    let Some(run) = shared("corpus/wandb-offline-run__coati-sft.wandb") else {
        return;
    };
    // Rows and sums as read with the schema of wandb 0.31 and Python's own JSON reader.
    assert_eq!((run.len(), run.steps[0], run.steps[15]), (16, 0, 15));
    assert!(
        close(sum(&run, "loss"), 5.389_434_814_453_125)
            && close(sum(&run, "learning_rate"), 0.000_16)
    );
    assert!(close(sum(&run, "batch_id"), 1072.0));
    assert!(run.losses.is_empty());
}

#[test]
fn no_other_format_is_taken_for_one() {
    let folders = ["samples", "corpus"].map(|f| root().join("../shared").join(f));
    if folders.iter().all(|f| f.exists()) {
        let found = folders
            .iter()
            .map(|f| search(f, Some(&INGESTER)).expect("files"));
        let claimed: Vec<PathBuf> = found.flat_map(|f| f.logs).collect();
        let own = |p: &PathBuf| p.display().to_string().contains(".wandb");
        assert!(claimed.iter().all(own), "{claimed:?}");
        assert_eq!(claimed.len(), 4);
    }
}
