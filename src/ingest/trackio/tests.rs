//! trackio databases of both schemas, with a log beside them, damaged, and of other kinds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rusqlite::Connection;

use crate::ingest::{self, IngestError, Options};
use crate::run::{Began, Run};
use crate::signal::Aliases;

static ALIASES: LazyLock<Aliases> = LazyLock::new(Aliases::built_in);

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/logs")
        .join(name)
}

fn read(path: &Path, run: Option<&str>) -> Result<Run, IngestError> {
    let options = Options {
        run: run.map(str::to_owned),
        ..Options::default()
    };
    ingest::read(&[path.to_owned()], &ALIASES, &options, &mut |_, _| {})
}

fn column(run: &Run, name: &str) -> Vec<Option<f64>> {
    run.column(name)
        .map_or_else(Vec::new, |c| c.iter().collect())
}

/// What is in a folder, to the byte.
fn bytes_in(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut out: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|p| (p.display().to_string(), fs::read(&p).unwrap()))
        .collect();
    out.sort();
    out
}

#[test]
fn the_newest_run_with_its_trainers_step() {
    let run = read(&fixture("trackio/project.db"), None).unwrap();
    assert_eq!(run.meta.format, "trackio");
    assert_eq!(run.steps, [10, 20, 30, 40, 30, 40, 50]);
    assert_eq!(
        run.attempts[1].began,
        Began::StepWentBack { from: 40, to: 30 }
    );
    let loss = column(&run, "loss");
    assert_eq!(
        (loss[0], loss[1], loss[3], loss[6]),
        (Some(4.0), Some(3.5), Some(3.0), Some(2.5))
    );
    assert!(loss[2].is_some_and(f64::is_nan));
    assert_eq!(run.value("grad_norm", 2), Some(f64::INFINITY));
    assert_eq!(run.value("val_loss", 1), Some(3.75));
    assert_eq!(run.value("nested/b/c", 3), Some(0.5));
    assert_eq!(run.value("time", 0), Some(1_772_367_000_250.0));
    let others: Vec<&str> = run
        .columns()
        .map(|(n, _)| n)
        .filter(|n| !n.starts_with("nested/"))
        .collect();
    assert_eq!(
        others,
        ["grad_norm", "loss", "time", "val_loss"],
        "no part of a histogram or a table"
    );
    assert_eq!(run.beta2(), Some(0.95));
    assert_eq!(run.meta.facts["trackio_run"], "second");
    assert!(
        !run.meta.facts.keys().any(|k| k.starts_with('_')),
        "{:?}",
        run.meta.facts
    );
    let told: Vec<&str> = run.losses.iter().map(|l| l.what.as_str()).collect();
    assert_eq!(
        told,
        [
            "`second` is the newest run; 1 other run left out, to be named with --run: `warm-up`",
            "the metrics are no whole JSON object"
        ]
    );
}

#[test]
fn another_run_by_its_name_or_id() {
    for name in ["warm-up", "aaaa1111"] {
        let run = read(&fixture("trackio/project.db"), Some(name)).unwrap();
        assert_eq!(run.steps, [0, 1, 2, 3]);
        assert_eq!(column(&run, "loss"), [9.0, 8.0, 7.0, 6.5].map(Some));
        assert!(run.losses.is_empty());
    }
    let error = read(&fixture("trackio/project.db"), Some("third"))
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("there is no run `third` in it; the runs are `second`, `warm-up`"),
        "{error}"
    );
}

#[test]
fn before_runs_had_ids() {
    let run = read(&fixture("trackio/before-run-ids.db"), None).unwrap();
    assert_eq!(
        (run.steps.as_slice(), run.meta.step_base),
        ([0, 1, 2, 3].as_slice(), 0)
    );
    assert_eq!(column(&run, "loss"), [4.0, 3.5, 3.0, 2.5].map(Some));
    assert_eq!(run.value("time", 1), Some(1_772_366_401_500.0));
    assert_eq!(run.beta2(), Some(0.99));
    assert!(run.losses.is_empty(), "{:?}", run.losses);
}

#[test]
fn the_newest_rows_of_a_live_writer_and_nothing_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live #1?.db");
    fs::copy(fixture("trackio/before-run-ids.db"), &path).unwrap();
    let writer = Connection::open(&path).unwrap();
    writer
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;")
        .unwrap();
    let log = "INSERT INTO metrics(timestamp, run_name, step, metrics) VALUES ('2026-03-01T12:00:09', 'only', 4, '{\"loss\": 1.5}')";
    writer.execute(log, []).unwrap();
    let before = bytes_in(folder.path());
    assert!(
        before
            .iter()
            .any(|(name, bytes)| name.ends_with("-wal") && !bytes.is_empty())
    );
    let run = read(&path, None).unwrap();
    assert_eq!(run.steps, [0, 1, 2, 3, 4]);
    assert!(run.losses.is_empty(), "{:?}", run.losses);
    assert_eq!(bytes_in(folder.path()), before);
    drop(writer);
    let before = bytes_in(folder.path());
    assert_eq!(
        read(&path, None).unwrap().len(),
        5,
        "the log was taken into the database"
    );
    assert_eq!(
        bytes_in(folder.path()),
        before,
        "a database that ends cleanly is read where it is"
    );
}

#[test]
fn a_change_that_was_cut_short_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, crashed) = (folder.path().join("a.db"), folder.path().join("b.db"));
    fs::copy(fixture("trackio/before-run-ids.db"), &path).unwrap();
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE metrics SET metrics = '{\"loss\": 9}', step = step + 100;").unwrap();
    for i in 0..200 {
        writer.execute("INSERT INTO configs(run_name, config, created_at) VALUES (?1, hex(zeroblob(400)), '')", [i]).unwrap();
    }
    fs::copy(&path, &crashed).unwrap();
    fs::copy(
        folder.path().join("a.db-journal"),
        folder.path().join("b.db-journal"),
    )
    .unwrap();
    let run = read(&crashed, None).unwrap();
    assert_eq!(run.steps, [0, 1, 2, 3]);
    assert_eq!(column(&run, "loss"), [4.0, 3.5, 3.0, 2.5].map(Some));
}

#[test]
fn packed_and_piped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.db.zst");
    let bytes = fs::read(fixture("trackio/before-run-ids.db")).unwrap();
    fs::write(&path, zstd::encode_all(&bytes[..], 3).unwrap()).unwrap();
    assert_eq!(read(&path, None).unwrap().len(), 4);
}

/// A database of many pages, so that one page is not all.
fn large(path: &Path, rows: i64) {
    fs::copy(fixture("trackio/before-run-ids.db"), path).unwrap();
    let writer = Connection::open(path).unwrap();
    writer.execute_batch("DELETE FROM metrics; BEGIN").unwrap();
    for step in 0..rows {
        let log = "INSERT INTO metrics(timestamp, run_name, step, metrics) VALUES ('2026-03-01T12:00:00', 'only', ?1, '{\"loss\": 2.5, \"lr\": 0.001}')";
        writer.execute(log, [step]).unwrap();
    }
    writer.execute_batch("COMMIT").unwrap();
}

#[test]
fn what_stands_before_and_after_a_damaged_page_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    large(&path, 400);
    let mut bytes = fs::read(&path).unwrap();
    let page = bytes.len() / 512 / 2 * 512;
    bytes[page..page + 512].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let run = read(&path, None).unwrap();
    assert!(run.len() > 350 && run.len() < 400, "{}", run.len());
    assert_eq!((run.steps[0], run.steps.last()), (0, Some(&399)));
    assert_eq!(run.attempts.len(), 1);
    let told = &run.losses[0];
    assert_eq!(told.place, "table `metrics`");
    assert!(
        told.what.starts_with("the database is damaged after row "),
        "{}",
        told.what
    );
}

/// One line that names the file, whatever the bytes.
#[test]
fn damaged_empty_and_other_databases_are_told_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let whole = fs::read(fixture("trackio/project.db")).unwrap();
    let sql = |sql: &str| {
        let _ = fs::remove_file(&path);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        fs::read(&path).unwrap()
    };
    let trackio = "CREATE TABLE metrics(id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INT, metrics TEXT);";
    let cases = [
        (sql(trackio), "it holds no run with a metric yet"),
        (
            sql("CREATE TABLE t(x)"),
            "an SQLite database of another kind (its tables: t); known are those of trackio, mlflow-db",
        ),
        (
            sql(
                "CREATE VIEW metrics AS WITH RECURSIVE c(run_name, step, metrics) AS (SELECT 'a', 0, '{}' UNION ALL SELECT 'a', step + 1, '{}' FROM c) SELECT * FROM c",
            ),
            "without a table",
        ),
        (
            sql("PRAGMA user_version = 1"),
            "without a table: nothing has been logged yet",
        ),
        (whole[..100].to_vec(), "damaged"),
        ([&whole[..16], &[0xff; 4000]].concat(), "damaged"),
        (whole[..1024].to_vec(), "damaged"),
        (
            sql(&format!(
                "{trackio} INSERT INTO metrics VALUES (1, '', 'a', 'x', '{{\"loss\": 1}}')"
            )),
            "no row with a training step",
        ),
        (
            sql(&format!(
                "{trackio} INSERT INTO metrics VALUES (1, '', 'a', 1, x'00ff')"
            )),
            "no row with a training step",
        ),
    ];
    for (bytes, told) in cases {
        fs::write(&path, bytes).unwrap();
        let error = read(&path, None).unwrap_err().to_string();
        assert!(
            error.contains(told) && error.contains("x.db") && !error.contains('\n'),
            "{told}: {error}"
        );
    }
}

#[test]
fn any_bytes_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let whole = fs::read(fixture("trackio/project.db")).unwrap();
    let mut state: u64 = 3;
    for round in 0..200 {
        let mut bytes = whole.clone();
        for _ in 0..=round % 8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 25) as u8;
        }
        if round % 10 == 0 {
            bytes.truncate((state >> 40) as usize % whole.len());
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(run) = read(&path, None) {
            assert!(run.len() <= 12);
        }
    }
}

#[test]
fn a_database_of_the_newest_version() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/samples/trackio/demo.db");
    if !path.exists() {
        return;
    }
    let run = read(&path, None).unwrap();
    assert_eq!(run.steps, [0, 1, 2, 10]);
    assert_eq!(run.value("loss", 1), Some(1.0));
    assert_eq!(run.value("train/nested", 2), Some(2.0));
    assert!(run.value("nan", 0).is_some_and(f64::is_nan));
    assert_eq!(run.value("inf", 0), Some(f64::INFINITY));
    assert_eq!(run.meta.facts["lr"], "0.001");
}

#[test]
fn mlflows_database() {
    let run = read(&fixture("mlflow-db/mlflow.db"), None).unwrap();
    assert_eq!(run.meta.format, "mlflow-db");
    assert_eq!(run.steps, [0, 10, 20, 30, 20, 30]);
    let loss = column(&run, "loss");
    assert_eq!(
        (loss[1], loss[3], loss[4], loss[5]),
        (Some(3.5), Some(3.0), Some(3.25), Some(2.75))
    );
    assert!(loss[2].is_some_and(f64::is_nan));
    let norm = [
        Some(1.5),
        Some(f64::INFINITY),
        Some(1.25),
        Some(f64::NEG_INFINITY),
        None,
        None,
    ];
    assert_eq!(column(&run, "grad_norm"), norm);
    assert_eq!(run.value("val_loss", 1), Some(3.75));
    assert_eq!(run.value("time", 1), Some(1_772_366_401_000.0));
    assert_eq!(run.beta2(), Some(0.95));
    assert_eq!(run.meta.facts["name"], "tiny");
    assert_eq!(
        run.losses[0].what,
        "`second` is the newest run; 2 other runs left out, to be named with --run: `r3`, `first`"
    );
    assert_eq!(
        read(&fixture("mlflow-db/mlflow.db"), Some("r3"))
            .unwrap()
            .steps,
        [1]
    );
}
