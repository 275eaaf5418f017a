//! The database store of `MLflow`, its default since version 3: a row a value in the table `metrics`.

use std::sync::LazyLock;

use crate::ingest::config;
use crate::ingest::number;
use crate::ingest::sqlite::{self, Database, Entry};
use crate::ingest::{Ingester, Reader};
use crate::run::Rows;
use crate::signal::Aliases;
use crate::store::Long;

/// `mlflow.db`.
pub(super) const INGESTER: Ingester = Ingester {
    name: "mlflow-db",
    recognised_by: "an SQLite database with a table `metrics(key, value, step, run_uuid)`",
    signals: &["any metric, by the alias table", "time"],
    framework: None,
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff: sqlite::sniff,
    reader: Reader::Database { fits, read },
};

/// Infinity as the store writes it: the column takes none.
const INFINITE: f64 = f64::MAX;

static ALIASES: LazyLock<Aliases> = LazyLock::new(Aliases::built_in);

fn fits(database: &Database) -> bool {
    let columns = database.columns("metrics");
    ["key", "value", "step", "timestamp", "run_uuid"]
        .iter()
        .all(|c| columns.contains(*c))
}

fn read(database: &Database, asked: Option<&str>, rows: &mut Rows) -> Result<(), String> {
    let entry = sqlite::choose(runs(database)?, asked, rows)?;
    let nan = if database.columns("metrics").contains("is_nan") {
        "is_nan"
    } else {
        "0"
    };
    let mut long = Long::default();
    let mut odd = 0_usize;
    database.metrics(
        &format!("key, value, step, timestamp, {nan}"),
        ("run_uuid", &entry.id),
        rows,
        &mut |row, _| {
            let value = sqlite::number(row, 2).map(|v| {
                let nan = sqlite::number(row, 5).is_some_and(|n| n > 0.0);
                if nan { f64::NAN } else { logged(v) }
            });
            let step = sqlite::number(row, 3).and_then(number::step);
            if let Some((value, step)) = value.zip(step) {
                let name = long.name(&sqlite::text(row, 1));
                long.push(step, name, value, sqlite::number(row, 4));
            } else {
                odd += 1;
            }
        },
    )?;
    if odd > 0 {
        rows.lose(
            "table `metrics`",
            format!("{odd} values without a step that counts were left out"),
        );
    }
    long.pivot(&ALIASES, rows);
    facts(database, &entry, rows);
    Ok(())
}

fn logged(value: f64) -> f64 {
    if value.abs() >= INFINITE {
        f64::INFINITY.copysign(value)
    } else {
        value
    }
}

/// The runs that have metrics and were not deleted, the one that was started last first.
fn runs(database: &Database) -> Result<Vec<Entry>, String> {
    let columns = database.columns("runs");
    let known = columns.contains("run_uuid");
    let column = |name: &str| {
        if known && columns.contains(name) {
            format!("runs.{name}")
        } else {
            "NULL".to_owned()
        }
    };
    let join = if known {
        "LEFT JOIN runs ON runs.run_uuid = found.run_uuid"
    } else {
        ""
    };
    let sql = format!(
        "SELECT found.run_uuid, COALESCE(NULLIF({name}, ''), found.run_uuid) \
         FROM (SELECT run_uuid, MAX(rowid) AS last FROM metrics GROUP BY run_uuid) AS found {join} \
         WHERE COALESCE({stage}, '') <> 'deleted' ORDER BY {start} DESC, found.last DESC",
        name = column("name"),
        stage = column("lifecycle_stage"),
        start = column("start_time"),
    );
    database.runs(&sql, ["run_uuid", "run_uuid", "timestamp"])
}

/// The parameters of the run. A database without them is fine.
fn facts(database: &Database, entry: &Entry, rows: &mut Rows) {
    config::note(&mut rows.facts, "mlflow_run", entry.name.as_bytes(), true);
    if !database.columns("params").contains("run_uuid") {
        return;
    }
    let sql = "SELECT key, value FROM params WHERE run_uuid = ?1 ORDER BY key";
    let read = database.each(sql, &[&entry.id], &mut |row| {
        let (key, value) = (sqlite::text(row, 0), sqlite::bytes(row, 1));
        // Parameters are text, and may be JSON.
        if config::leaves(&mut rows.facts, key.clone().into_bytes(), value).is_none() {
            config::note(&mut rows.facts, &key, value, true);
        }
    });
    if let Err(what) = read {
        rows.lose("table `params`", what);
    }
}
