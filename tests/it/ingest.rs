//! Logs of every format into runs: rows, steps, attempts, events, losses; and what bad input gets.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use whyspike::ingest::{self, INGESTERS, IngestError, Options, recognise};
use whyspike::run::{Began, Column, EventKind, Run};

use crate::support::{ALIASES, files, fixture, read, read_all, shared, shown, values};

fn events(run: &Run, kind: EventKind) -> Vec<(u32, Option<u64>)> {
    run.events
        .iter()
        .filter(|e| e.kind == kind)
        .map(|e| (e.attempt, e.step))
        .collect()
}

fn losses(run: &Run) -> Vec<&str> {
    run.losses.iter().map(|l| l.place.as_str()).collect()
}

fn steps_of(run: &Run, attempt: usize) -> &[u64] {
    &run.steps[run.attempts[attempt].rows.clone()]
}

fn forced(path: &Path, format: &str) -> Result<Run, IngestError> {
    let options = Options {
        format: Some(format.to_owned()),
        step_base: None,
        ..Options::default()
    };
    ingest::read(&[path.to_owned()], &ALIASES, &options, &mut |_, _| {})
}

// ---- the formats ----

#[test]
fn jsonl() {
    let run = read(fixture("logs/jsonl/restart.jsonl"));
    assert_eq!(
        (
            run.meta.format.as_str(),
            run.meta.step_base,
            run.meta.base_known
        ),
        ("jsonl", 0, true)
    );
    assert_eq!(run.attempts.len(), 2);
    assert_eq!(
        (steps_of(&run, 0), steps_of(&run, 1)),
        ([0, 1, 2].as_slice(), [1, 2].as_slice())
    );
    assert_eq!(run.attempts[1].began, Began::ProcessStart);
    assert_eq!(shown(&run, "loss"), "4 3.5 NaN 3.25 3");
    assert_eq!(shown(&run, "grad_norm"), "1 1.5 inf - 0.75");
    assert_eq!(shown(&run, "update_norm"), "- 0.25 - - -");
    assert_eq!(
        shown(&run, "learning_rate"),
        "0.001 0.001 0.001 0.0005 0.0005"
    );
    assert_eq!(run.intervals, [1; 5]);
    assert_eq!(events(&run, EventKind::Start), [(1, None)]);
    assert_eq!(losses(&run), ["line 9"], "{:?}", run.losses);
    assert_eq!(run.superseded_from(0), Some(1));
}

#[test]
fn csv_wide() {
    let run = read(fixture("logs/csv/wide.csv"));
    assert_eq!(run.meta.format, "csv");
    assert_eq!(run.steps, [10, 20, 30, 40]);
    assert_eq!(shown(&run, "loss"), "3.5 - 2.5 2.25");
    assert_eq!(
        shown(&run, "grad_norm"),
        "1.25 NaN -inf -",
        "the last field of a cut line is not to be trusted"
    );
    assert_eq!(shown(&run, "learning_rate"), "0.001 0.001 1000 -");
    assert_eq!(losses(&run), ["line 5"], "{:?}", run.losses);
    assert!(run.column("note").is_none());
}

#[test]
fn csv_with_decimal_commas() {
    let run = read(fixture("logs/csv/semicolon.csv"));
    assert_eq!(run.steps, [1, 2, 3]);
    assert_eq!(shown(&run, "loss"), "4.5 4.25 -");
    assert_eq!(shown(&run, "learning_rate"), "0.001 0.001 0.0005");
    assert!(run.losses.is_empty());
}

#[test]
fn csv_long() {
    let run = read(fixture("logs/csv/long.tsv"));
    assert_eq!(run.steps, [1, 2, 3]);
    assert_eq!(shown(&run, "loss"), "4 3 NaN");
    assert_eq!(shown(&run, "grad_norm"), "1.5 - -");
    assert_eq!(shown(&run, "val_loss"), "- 3.5 -");
}

#[test]
fn hf_trainer_state() {
    let run = read(fixture("logs/hf-trainer-state/trainer_state.json"));
    assert_eq!(run.meta.format, "hf-trainer-state");
    assert_eq!(
        (run.meta.step_base, run.meta.framework.as_deref()),
        (1, Some("hf-trainer"))
    );
    assert_eq!(run.steps, [10, 20, 30, 40]);
    assert_eq!(run.intervals, [10; 4]);
    assert_eq!(
        shown(&run, "loss"),
        "4 3.5 NaN 3",
        "the mean of the whole run is no row"
    );
    assert_eq!(shown(&run, "val_loss"), "- 3.75 - -");
    assert_eq!(shown(&run, "grad_norm"), "2 1.5 NaN 1.25");
    assert!(run.losses.is_empty());
}

#[test]
fn hf_trainer_state_that_is_cut() {
    let run = read(fixture("logs/hf-trainer-state/cut.json"));
    assert_eq!(run.steps, [10, 20, 30]);
    assert_eq!(shown(&run, "loss"), "4 3.5 NaN");
    assert_eq!(losses(&run), ["byte 605"], "{:?}", run.losses);
}

#[test]
fn parquet_of_others() {
    let run = read(fixture("logs/parquet/metrics.parquet"));
    assert_eq!(run.meta.format, "parquet");
    assert_eq!(run.steps, [2, 4, 6, 8]);
    assert_eq!(shown(&run, "loss"), "4 - NaN 3");
    assert_eq!(shown(&run, "grad_norm"), "1 2 inf 0.5");
    assert_eq!(shown(&run, "learning_rate"), "0.5 0.5 0.25 -");
    assert_eq!(
        shown(&run, "time"),
        "1772366400000 1772366401000 1772366402000 1772366403000"
    );
}

#[test]
fn megatron_with_a_restart() {
    let run = read(fixture("logs/megatron/restart.log"));
    assert_eq!(
        (
            run.meta.format.as_str(),
            run.meta.step_base,
            run.meta.base_known
        ),
        ("megatron", 1, true)
    );
    assert_eq!(
        (steps_of(&run, 0), steps_of(&run, 1)),
        ([1, 2, 3, 4, 5].as_slice(), [4, 5, 6].as_slice())
    );
    assert_eq!(run.attempts[1].began, Began::Loaded { step: 3 });
    // The second line of a process counts the first again: 2 * 9.5 - 10.
    assert_eq!(shown(&run, "loss"), "10 9 8 7 NaN 7.1 - 6");
    assert_eq!(
        shown(&run, "grad_norm"),
        "4 3.5 3 2.5 NaN 2.6 - 2.4",
        "a skipped update repeats an older norm"
    );
    assert_eq!(shown(&run, "val_loss"), "- - 8.25 - - - - -");
    assert_eq!(shown(&run, "consumed_samples"), "8 16 24 32 40 32 40 48");
    assert_eq!(events(&run, EventKind::Saved), [(0, Some(3))]);
    assert_eq!(events(&run, EventKind::Loaded), [(1, Some(3))]);
    assert_eq!(events(&run, EventKind::Exit), [(0, Some(5))]);
    assert_eq!(events(&run, EventKind::Overflow), [(1, Some(5))]);
    assert_eq!(events(&run, EventKind::NanInferred), [(0, Some(5))]);
    assert_eq!(run.beta2(), Some(0.95));
    assert!(run.losses.is_empty());
}

#[test]
fn megatron_with_torn_lines() {
    let run = read(fixture("logs/megatron/torn.log"));
    assert_eq!(run.steps, [10, 20, 30, 40, 50, 60, 70]);
    assert_eq!(run.intervals, [10; 7]);
    assert_eq!(
        losses(&run),
        ["line 2", "line 4", "line 5"],
        "{:?}",
        run.losses
    );
    let loss = values(&run, "loss");
    assert_eq!(
        (loss[0], loss[1], loss[2], loss[6]),
        (Some(4.0), None, Some(3.8), None)
    );
}

#[test]
fn gpt_neox() {
    let run = read(fixture("logs/megatron/neox.log"));
    assert_eq!(run.steps, [1, 2]);
    assert_eq!(shown(&run, "loss"), "11 NaN");
    assert_eq!(shown(&run, "val_loss"), "- 10.5");
    assert_eq!(events(&run, EventKind::Overflow), [(0, Some(2))]);
    assert_eq!(run.beta2(), Some(0.95));
}

#[test]
fn every_fixture_is_told_by_its_bytes() {
    let packed = |p: &Path| p.extension().is_some_and(|e| e == "gz" || e == "zst");
    for format in ["csv", "hf-trainer-state", "jsonl", "megatron", "parquet"] {
        let all = files(&fixture("logs").join(format));
        let plain: Vec<&PathBuf> = all.iter().filter(|p| p.is_file() && !packed(p)).collect();
        assert!(!plain.is_empty(), "no fixture of {format}");
        for path in plain {
            let head = fs::read(path).unwrap();
            assert_eq!(
                recognise(&head).map(|i| i.name),
                Some(format),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn a_name_tells_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.csv");
    fs::copy(fixture("logs/megatron/restart.log"), &path).unwrap();
    assert_eq!(read(path).meta.format, "megatron");
}

#[test]
fn formats_have_names_of_their_own() {
    let mut names: Vec<&str> = INGESTERS.iter().map(|i| i.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] < w[1]), "{names:?}");
    for format in INGESTERS {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let kebab = format.name.chars().all(plain);
        assert!(
            kebab && !format.recognised_by.is_empty() && !format.signals.is_empty(),
            "{}",
            format.name
        );
        assert_eq!(
            (format.sniff)(b""),
            0,
            "{} claims an empty file",
            format.name
        );
    }
}

// ---- packed, in pieces, in folders ----

/// A run but for the name of its source.
fn nameless(mut run: Run) -> String {
    run.meta.sources.clear();
    for loss in &mut run.losses {
        loss.source.clear();
    }
    format!("{run:?}")
}

#[test]
fn gzip_and_zstd_read_as_what_is_in_them() {
    let plain = nameless(read(fixture("logs/megatron/restart.log")));
    assert_eq!(
        nameless(read(fixture("logs/megatron/restart.log.gz"))),
        plain
    );
    assert_eq!(
        nameless(read(fixture("logs/megatron/restart.log.zst"))),
        plain
    );
    let plain = nameless(read(fixture("logs/jsonl/restart.jsonl")));
    assert_eq!(
        nameless(read(fixture("logs/jsonl/restart.jsonl.gz"))),
        plain
    );
}

#[test]
fn gzip_members_one_after_another_are_one_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.gz");
    let member = fs::read(fixture("logs/megatron/restart.log.gz")).unwrap();
    fs::write(&path, [member.clone(), member].concat()).unwrap();
    let run = read(path);
    assert_eq!((run.len(), run.attempts.len()), (16, 4));
}

#[test]
fn a_packed_log_that_is_cut_gives_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["gz", "zst"] {
        let whole = fs::read(fixture(&format!("logs/megatron/restart.log.{name}"))).unwrap();
        let path = folder.path().join(name);
        fs::write(&path, &whole[..whole.len() - 100]).unwrap();
        match read_all(std::slice::from_ref(&path)) {
            Ok(run) => {
                assert!(run.len() <= 8);
                let told = run
                    .losses
                    .iter()
                    .filter(|l| l.what.starts_with("the compressed data are cut"));
                assert_eq!(told.count(), 1, "{:?}", run.losses);
            }
            Err(e) => one_line(&e, name),
        }
    }
}

#[test]
fn a_packed_log_of_many_rows_that_is_cut_gives_the_rows_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl.gz");
    let whole = fs::read(fixture("runs/healthy/log.jsonl.gz")).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let (cut, all) = (read(&path), read(fixture("runs/healthy/log.jsonl.gz")));
    assert!(cut.len() > all.len() / 3 && cut.len() < all.len());
    assert_eq!(cut.steps, all.steps[..cut.len()]);
    let what = "the compressed data are cut or damaged here";
    assert!(
        cut.losses.iter().any(|l| l.what.starts_with(what)),
        "{:?}",
        cut.losses
    );
    assert!(all.losses.iter().all(|l| !l.what.starts_with(what)));
}

#[test]
fn text_of_other_encodings_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let log = fs::read_to_string(fixture("logs/megatron/restart.log")).unwrap();
    let little: Vec<u8> = log.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = log.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for (mark, rest) in [(b"\xFF\xFE", little), (b"\xFE\xFF", big)] {
        let path = text_file(&folder, "utf16.log", [&mark[..], &rest].concat());
        let error = read_all(&[path]).unwrap_err().to_string();
        assert!(error.contains("iconv -f UTF-16 -t UTF-8"), "{error}");
    }
}

#[test]
fn what_a_log_says_does_not_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let log = "{\"step\":1,\"loss\":2.0,\"a\x1b]0;x\x07\":1}\n{\"step\": 2, \"lo\x1b[2J\n{\"step\":3,\"loss\":1.5}\n";
    let run = read(text_file(&folder, "log.jsonl", log));
    assert_eq!(run.steps, [1, 3]);
    assert_eq!(run.losses.len(), 1);
    let names = run.columns().map(|(n, _)| n.to_owned());
    let told = run.losses.iter().map(|l| l.what.clone());
    for text in names.chain(told) {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

#[test]
fn pieces_come_out_in_order_of_content() {
    let piece = |name: &str| fixture(&format!("logs/jsonl/pieces/{name}.jsonl"));
    let folder = read(fixture("logs/jsonl/pieces"));
    assert_eq!(folder.steps, [1, 2, 3, 4, 5, 6]);
    assert_eq!(shown(&folder, "loss"), "9 8 7 6 5 4");
    assert_eq!(folder.attempts.len(), 1);
    let names: Vec<&str> = folder
        .meta
        .sources
        .iter()
        .map(|s| s.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(names, ["b.jsonl", "c.jsonl", "a.jsonl"]);
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]] {
        let run = read_all(&order.map(piece)).unwrap();
        assert_eq!(run.steps, folder.steps, "{order:?}");
        assert_eq!(shown(&run, "loss"), shown(&folder, "loss"), "{order:?}");
    }
}

fn text_file(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn pieces_that_overlap_go_by_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let row = |step: u64, time: u64, loss: f64| {
        format!("{{\"step\":{step},\"timestamp\":{time},\"loss\":{loss}}}\n")
    };
    let later = row(2, 1_772_366_500, 8.0) + &row(3, 1_772_366_501, 7.0);
    let earlier =
        row(1, 1_772_366_400, 9.0) + &row(2, 1_772_366_401, 8.5) + &row(3, 1_772_366_402, 99.0);
    let paths = [
        text_file(&folder, "a", later),
        text_file(&folder, "b", earlier),
    ];
    let run = read_all(&paths).unwrap();
    assert_eq!(run.steps, [1, 2, 3, 2, 3]);
    assert_eq!(
        shown(&run, "loss"),
        "9 8.5 99 8 7",
        "the spike that caused the rollback is kept"
    );
    assert_eq!(
        run.attempts[1].began,
        Began::StepWentBack { from: 3, to: 2 }
    );
    assert_eq!(run.superseded_from(0), Some(2));
}

/// By step alone the piece after a rollback would come first.
#[test]
fn a_piece_after_a_rollback_comes_after_by_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let row =
        |step: u64, minute: u64| format!("{step},{}.0,2026-03-01 12:{minute:02}:00\n", 20 - step);
    let head = "step,loss,timestamp\n";
    let later = format!("{head}{}{}", row(2, 30), row(3, 31));
    let earlier = format!("{head}{}{}{}", row(3, 10), row(4, 11), row(5, 12));
    let paths = [
        text_file(&folder, "1.csv", later),
        text_file(&folder, "2.csv", earlier),
    ];
    let run = read_all(&paths).unwrap();
    assert_eq!(run.steps, [3, 4, 5, 2, 3]);
    assert_eq!(
        run.attempts[1].began,
        Began::StepWentBack { from: 5, to: 2 }
    );
}

#[test]
fn a_folder_is_searched_for_logs() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("logs")).unwrap();
    fs::copy(
        fixture("logs/jsonl/pieces/b.jsonl"),
        folder.path().join("logs/0.jsonl"),
    )
    .unwrap();
    fs::copy(
        fixture("logs/jsonl/pieces/c.jsonl"),
        folder.path().join("1.jsonl"),
    )
    .unwrap();
    text_file(&folder, "README.md", "# notes\n\nnothing to see\n");
    text_file(&folder, "weights.bin", [0_u8; 64]);
    text_file(&folder, ".hidden.jsonl", "{\"step\": 77, \"loss\": 1.0}\n");
    text_file(&folder, "empty.log", "");
    assert_eq!(read(folder.path()).steps, [1, 2, 3, 4]);
}

#[test]
fn another_format_adds_what_the_main_one_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    text_file(
        &folder,
        "a.jsonl",
        "{\"step\": 1, \"loss\": 3.0}\n{\"step\": 2, \"loss\": 2.0}\n",
    );
    text_file(&folder, "b.csv", "step,lr\n2,0.5\n");
    let run = read(folder.path());
    assert_eq!(run.steps, [1, 2]);
    assert_eq!(run.value("learning_rate", 0), None);
    assert_eq!(run.value("learning_rate", 1), Some(0.5));
}

#[test]
fn format_and_base_can_be_told() {
    let path = fixture("logs/csv/semicolon.csv");
    let error = forced(&path, "nonsense").expect_err("no such format");
    one_line(&error, "whyspike formats");
    let options = Options {
        format: Some("csv".into()),
        step_base: Some(0),
        ..Options::default()
    };
    let run = ingest::read(&[path], &ALIASES, &options, &mut |_, _| {}).unwrap();
    assert_eq!(
        (
            run.meta.step_base,
            run.meta.base_known,
            run.updates_after(1)
        ),
        (0, true, 2)
    );
}

#[test]
fn a_stored_run_is_read_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.parquet");
    let run = read(fixture("logs/megatron/restart.log"));
    whyspike::store::write(&run, &path).unwrap();
    assert_eq!(format!("{:?}", read(path)), format!("{run:?}"));
}

#[test]
fn progress_hears_of_every_byte() {
    let path = fixture("logs/megatron/restart.log");
    let mut last = (0, None);
    ingest::read(
        std::slice::from_ref(&path),
        &ALIASES,
        &Options::default(),
        &mut |at, size| last = (at, size),
    )
    .unwrap();
    let size = fs::metadata(path).unwrap().len();
    assert_eq!(last, (size, Some(size)));
}

// ---- bad input: one clear message, or a loss and a result; never a panic ----

/// An error that names the place and fits on one line.
fn one_line(error: &IngestError, says: &str) {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 400, "{text}");
    assert!(text.contains(says), "`{says}` is not in: {text}");
}

fn refused(text: impl AsRef<[u8]>, says: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = text_file(&folder, "bad.log", text);
    let error = read_all(std::slice::from_ref(&path)).expect_err("bad input");
    one_line(&error, says);
    assert!(error.to_string().contains("bad.log"), "{error}");
}

fn accepted(text: impl AsRef<[u8]>) -> Run {
    let folder = tempfile::tempdir().unwrap();
    read(text_file(&folder, "odd.log", text))
}

#[test]
fn what_is_no_log_is_refused_in_one_line() {
    refused("", "empty");
    refused([0_u8, 159, 146, 150, 0, 1, 2, 3].repeat(100), "binary");
    refused([0xFF; 4096], "not a log");
    refused(
        "Dear diary,\ntoday the loss went up.\n",
        "not a log of a known format",
    );
    refused("{\"loss\": 1.0}\n{\"loss\": 2.0}\n", "step");
    refused("time,loss\n1,2.0\n2,3.0\n", "not a log");
    refused("{\"log_history\": []}", "step");
    refused("PAR1 and nothing else", "Parquet");
    refused("PAR1", "Parquet");
    refused([0x1f, 0x8b, 8, 0, 0, 0, 0, 0], "bad.log");
    refused([0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3], "bad.log");
}

#[test]
fn paths_that_lead_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    one_line(&read_all(&[]).expect_err("nothing"), "no log was given");
    one_line(
        &read_all(&[folder.path().join("absent.log")]).expect_err("absent"),
        "absent.log",
    );
    one_line(
        &read_all(&[folder.path().to_owned()]).expect_err("empty folder"),
        "no log of a known format",
    );
    text_file(&folder, "notes.txt", "nothing\n");
    one_line(
        &read_all(&[folder.path().to_owned()]).expect_err("no logs"),
        "no log of a known format",
    );
}

#[test]
fn a_parquet_without_steps_names_the_columns_it_has() {
    let error = read_all(&[fixture("logs/parquet/no-step.parquet")]).expect_err("no step");
    one_line(&error, "train/loss, grad_norm, lr, timestamp, note");
}

#[test]
fn two_columns_for_one_signal_are_told() {
    let run = read(fixture("logs/csv/duplicate.csv"));
    assert_eq!(shown(&run, "loss"), "4 3");
    assert_eq!(shown(&run, "loss (train_loss)"), "4.5 3.5");
    assert_eq!(losses(&run), ["column `train_loss`"]);
    assert!(
        run.losses[0]
            .what
            .contains("`loss` already stands for loss"),
        "{:?}",
        run.losses
    );
}

#[test]
fn a_last_line_that_is_cut_is_a_loss() {
    let run =
        accepted("{\"step\": 1, \"loss\": 2.0}\n{\"step\": 2, \"loss\": 1.0}\n{\"step\": 3, \"lo");
    assert_eq!(
        (run.steps.as_slice(), losses(&run).as_slice()),
        ([1, 2].as_slice(), ["line 3"].as_slice())
    );
    let run = accepted("step,loss,lr\n1,2.0,0.1\n2,1.0,0.1\n3,");
    assert_eq!(losses(&run), ["line 4"]);
    assert_eq!(
        shown(&run, "loss"),
        if run.len() == 3 { "2 1 -" } else { "2 1" }
    );
    let whole = fs::read_to_string(fixture("logs/megatron/restart.log")).unwrap();
    let run = accepted(&whole[..whole.len() - 120]);
    assert_eq!(run.steps, [1, 2, 3, 4, 5, 4, 5, 6]);
    assert_eq!(
        events(&run, EventKind::NanInferred),
        [(0, Some(5))],
        "what a torn line lacks tells nothing"
    );
}

#[test]
fn ten_megabytes_on_one_line() {
    let long = "x".repeat(10 << 20);
    refused(&long, "not a log of a known format");
    let rows = "{\"step\": 1, \"loss\": 2.0}\n";
    let run = accepted(format!("{rows}{long}\n{{\"step\": 2, \"loss\": 1.0}}\n"));
    assert_eq!(shown(&run, "loss"), "2 1");
    let run = accepted(format!(
        "{rows}{{\"step\": 2, \"loss\": 1.5, \"text\": \"{long}\"}}\n"
    ));
    assert_eq!(shown(&run, "loss"), "2 1.5");
    let run = accepted(format!("{rows}{{\"step\": 2, \"text\": \"{long}"));
    assert_eq!((run.len(), losses(&run)), (1, vec!["line 2"]));
    assert!(run.losses[0].what.len() < 300);
    let megatron = " iteration 1/ 9 | lm loss: 2.0E+00 | grad norm: 1.0 |\n";
    let run = accepted(format!("{megatron}{long}{megatron}"));
    assert_eq!(run.steps, [1]);
}

#[test]
fn a_line_past_all_measure_is_a_loss() {
    let rows = "{\"step\": 1, \"loss\": 2.0}\n";
    let run = accepted(format!(
        "{rows}{}\n{{\"step\": 2, \"loss\": 1.0}}\n",
        "x".repeat(40 << 20)
    ));
    assert_eq!(shown(&run, "loss"), "2 1");
    assert!(
        run.losses.iter().any(|l| l.what.contains("too long")),
        "{:?}",
        run.losses
    );
}

#[test]
fn a_step_counter_that_overflows_is_a_loss_or_an_error() {
    const HUGE: &str = "99999999999999999999999";
    let run = accepted(format!(
        "{{\"step\": 1, \"loss\": 2.0}}\n{{\"step\": {HUGE}, \"loss\": 1.0}}\n"
    ));
    assert_eq!(
        (run.steps.as_slice(), losses(&run).as_slice()),
        ([1].as_slice(), ["line 2"].as_slice())
    );
    refused(
        format!("{{\"step\": {HUGE}, \"loss\": 1.0}}\n"),
        "no row with a training step",
    );
    let run = accepted(format!("step,loss\n1,2.0\n{HUGE},1.0\n"));
    assert_eq!(
        (run.steps.as_slice(), losses(&run).as_slice()),
        ([1].as_slice(), ["line 3"].as_slice())
    );
    refused(
        format!("step,loss\n{HUGE},1.0\n-1,2.0\n"),
        "no row with a training step",
    );
    let run = accepted(format!(
        " iteration 1/ 9 | lm loss: 2.0E+00 |\n iteration {HUGE}/ {HUGE} | lm loss: 1.0E+00 |\n"
    ));
    assert_eq!(run.steps, [1]);
    let state = format!(
        "{{\"log_history\": [{{\"loss\": 2.0, \"step\": 1}}, {{\"loss\": 1.0, \"step\": {HUGE}}}]}}"
    );
    let run = accepted(state);
    assert_eq!(
        (run.steps.as_slice(), run.losses.len()),
        ([1].as_slice(), 1)
    );
    let run = accepted(
        "{\"step\": 9007199254740991, \"loss\": 2.0}\n{\"step\": 9007199254740993, \"loss\": 2.0}\n",
    );
    assert_eq!(
        run.steps,
        [9_007_199_254_740_991],
        "beyond 2^53 a float is no counter"
    );
}

#[test]
fn line_ends_and_marks_of_other_systems() {
    let run = accepted("\u{FEFF}{\"step\": 1, \"loss\": 2.0}\r\n{\"step\": 2, \"loss\": 1.0}\r\n");
    assert_eq!(shown(&run, "loss"), "2 1");
    let run = accepted("\u{FEFF}step,loss\r\n1,2.0\r\n2,1.0\r\n");
    assert_eq!(shown(&run, "loss"), "2 1");
    let run = accepted(
        " 1%|#| 1/9\r iteration 1/ 9 | lm loss: 2.0E+00 |\r iteration 2/ 9 | lm loss: 1.0E+00 |\n",
    );
    assert_eq!(run.steps, [1, 2]);
}

// ---- what real trainers wrote ----

#[test]
fn samples_of_megatron() {
    let Some(folder) = shared("samples/megatron") else {
        return;
    };
    let logs = files(&folder);
    assert_eq!(logs.len(), 26);
    for path in logs {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let run = read(path);
        let prints_first = ["v0.16", "v0.17", "v0.19", "NVIDIA_HEAD"]
            .iter()
            .any(|v| name.contains(v));
        let every = name.contains("interval1");
        let expected: &[u64] = match (every, prints_first) {
            (true, _) => &[1, 2, 3, 4, 5, 6],
            (false, true) => &[1, 3, 6],
            (false, false) => &[3, 6],
        };
        assert_eq!(run.steps, expected, "{name}");
        assert_eq!((run.attempts.len(), run.meta.step_base), (1, 1), "{name}");
        assert!(run.losses.is_empty(), "{name}: {:?}", run.losses);
        if every {
            sample_of_every_step(&run, &name);
        }
    }
}

/// The six iterations of every version: normal, skipped, skipped, normal, NaN, zero.
fn sample_of_every_step(run: &Run, name: &str) {
    let loss = values(run, "loss");
    assert_eq!((loss[0], loss[3]), (Some(11.2), Some(10.9)), "{name}");
    assert!(loss[4].is_some_and(f64::is_nan), "{name}");
    if name.contains("_v1.0_") {
        assert!(run.column("skipped").is_none(), "{name} counts no skips");
        return;
    }
    let skipped: Vec<Option<u64>> = events(run, EventKind::Overflow)
        .into_iter()
        .map(|(_, step)| step)
        .collect();
    assert_eq!(skipped, [Some(2), Some(3)], "{name}");
    assert_eq!(shown(run, "skipped"), "0 1 1 0 0 0", "{name}");
    assert_eq!(
        (loss[1], loss[2]),
        (None, None),
        "{name}: no loss stands behind a skipped update"
    );
}

#[test]
fn samples_of_generic_tables() {
    let Some(folder) = shared("samples/generic") else {
        return;
    };
    for name in [
        "pandas.parquet",
        "pandas_int64na.parquet",
        "pandas.tsv",
        "pandas_default.csv",
        "pandas_eu.csv",
        "pandas_noindex.csv",
    ] {
        let run = read(folder.join(name));
        assert_eq!(run.steps, [1, 2, 3], "{name}");
        assert_eq!(shown(&run, "loss"), "3 - inf", "{name}");
        assert_eq!(shown(&run, "grad_norm"), "1 2 -inf", "{name}");
        assert_eq!(
            shown(&run, "learning_rate"),
            "0.0001 0.0000001 0.000012345678901234568",
            "{name}"
        );
        assert!(run.losses.is_empty(), "{name}: {:?}", run.losses);
    }
    let run = read(folder.join("pandas_records.jsonl"));
    assert_eq!(
        (shown(&run, "loss"), shown(&run, "grad_norm")),
        ("3 - -".to_owned(), "1 2 -".to_owned())
    );
    let run = read(folder.join("python_json.jsonl"));
    assert_eq!(shown(&run, "loss"), "NaN inf - NaN");
    assert_eq!(shown(&run, "nested/a"), "- 1 - -");
    assert_eq!(losses(&run), ["line 5"]);
}

#[test]
fn sample_of_a_trainer_state_in_its_folder() {
    let Some(folder) = shared("samples/hf_trainer/checkpoint-30") else {
        return;
    };
    let run = read(folder);
    assert_eq!(
        (run.steps.as_slice(), run.intervals.as_slice()),
        ([10, 20, 30].as_slice(), [10; 3].as_slice())
    );
    assert_eq!(shown(&run, "loss"), "10.4123 NaN 0");
    assert_eq!(shown(&run, "grad_norm"), "3.21 NaN inf");
    assert_eq!(shown(&run, "val_loss"), "- - 9.1");
}

fn corpus(name: &str) -> Option<Run> {
    shared(&format!("corpus/{name}")).map(read)
}

#[test]
fn corpus_bloom_176b() {
    let Some(run) = corpus("megatron-console__bloom-tr11-176B-chronicle-lines.log") else {
        return;
    };
    assert_eq!((run.len(), run.attempts.len()), (18, 1));
    assert_eq!(
        losses(&run),
        ["line 13", "line 14", "line 15", "line 16", "line 17"],
        "lines cut after `learning`"
    );
    let loss = values(&run, "loss");
    assert_eq!(
        (loss[1], loss[6], loss[10]),
        (Some(2.198_845), Some(5.098_124), Some(2.215_699))
    );
    assert!(
        loss[12..17].iter().all(Option::is_none),
        "nothing is inferred from a cut line"
    );
    assert_eq!(run.value("grad_norm", 6), Some(960.351));
    assert_eq!(run.value("consumed_samples", 12), Some(71_455_664.0));
}

#[test]
fn corpus_104b() {
    let Some(run) = corpus("megatron-console__bloom-tr8-104B-chronicle-lines.log") else {
        return;
    };
    assert_eq!(run.len(), 19);
    assert_eq!(steps_of(&run, 0), [7000, 7010, 7220]);
    assert_eq!(
        steps_of(&run, 1),
        [6900, 6910, 6920, 6930, 6940, 11446, 11447, 11448]
    );
    assert_eq!(
        steps_of(&run, 2),
        [8738, 8739, 8740, 8741, 8742, 8743, 9026, 9027]
    );
    assert_eq!(
        run.attempts[1].began,
        Began::StepWentBack {
            from: 7220,
            to: 6900
        }
    );
    assert_eq!(
        run.attempts[2].began,
        Began::StepWentBack {
            from: 11448,
            to: 8738
        }
    );
    assert_eq!(run.value("val_loss", 0), Some(7.1742));
    assert!(
        events(&run, EventKind::Overflow).contains(&(2, Some(9027))),
        "{:?}",
        run.events
    );
    // The loss that was not printed was NaN (the update was skipped, but DeepSpeed counts none); the norm is stale.
    assert!(run.value("loss", 18).is_none_or(f64::is_nan) && run.value("grad_norm", 18).is_none());
}

#[test]
fn corpus_104b_with_embed_norm() {
    let Some(run) = corpus("megatron-console__bloom-tr8b-104B-chronicle-lines.log") else {
        return;
    };
    assert_eq!((run.len(), run.attempts.len()), (19, 1));
    assert_eq!(losses(&run), ["line 7"]);
    // 464441.887 stands on five lines and 879946.622 on three, while the loss scale halves: each is one real norm.
    let stale = [17062, 17063, 17064, 17065, 17067, 17068];
    let overflows: Vec<u64> = events(&run, EventKind::Overflow)
        .into_iter()
        .filter_map(|(_, s)| s)
        .collect();
    assert_eq!(overflows, stale);
    let norm = |step: u64| {
        run.value(
            "grad_norm",
            run.steps.iter().position(|s| *s == step).unwrap(),
        )
    };
    assert_eq!(
        (norm(17061), norm(17066)),
        (Some(464_441.887), Some(879_946.622))
    );
    assert!(stale.into_iter().all(|s| norm(s).is_none()));
    assert_eq!(run.value("loss", 12), Some(4.374_269));
}

#[test]
fn corpus_gpt2_base() {
    let Some(run) = corpus("megatron-console__bigscience-gpt2-base_n4_dp1_tp4_pp4-1809579.out")
    else {
        return;
    };
    let steps: Vec<u64> = (1..=20).map(|n| 10 * n).collect();
    assert_eq!(
        (run.steps.as_slice(), run.attempts.len()),
        (steps.as_slice(), 1)
    );
    assert_eq!(run.intervals, [10; 20]);
    let overflows: Vec<u64> = events(&run, EventKind::Overflow)
        .into_iter()
        .filter_map(|(_, s)| s)
        .collect();
    assert_eq!(overflows, [10, 20, 30]);
    assert!(
        events(&run, EventKind::NanInferred).is_empty(),
        "ten of ten updates were skipped"
    );
    let loss = values(&run, "loss");
    assert_eq!(
        (loss[0], loss[1], loss[2]),
        (None, Some(12.031_15), Some(22.475_05))
    );
    assert_eq!(
        (run.value("val_loss", 9), run.value("val_loss", 19)),
        (Some(8.017_406), Some(7.487_306))
    );
    assert!(run.losses.is_empty(), "{:?}", run.losses);
}

#[test]
fn corpus_hf_trainer_state() {
    let Some(run) = corpus("hf-trainer-state__nsllm.json") else {
        return;
    };
    assert_eq!((run.len(), run.steps[0], run.steps[434]), (435, 5, 2175));
    assert!(
        run.column("loss")
            .is_some_and(|c| c.iter().all(|v| v.is_some_and(f64::is_finite)))
    );
    assert!(run.column("grad_norm").is_some_and(Column::has_values) && run.losses.is_empty());
}
