//! trackio: one database a project, a row of JSON a log call.

use std::collections::BTreeSet;

use crate::ingest::config;
use crate::ingest::sqlite::{self, Database, Entry};
use crate::ingest::text;
use crate::ingest::wandb::history::History;
use crate::ingest::wandb::step;
use crate::ingest::{Ingester, Reader};
use crate::run::Rows;

/// `PROJECT.db` of trackio, with and without ids of runs (before 0.24).
pub(super) const INGESTER: Ingester = Ingester {
    name: "trackio",
    recognised_by: "an SQLite database with a table `metrics(run_name, step, metrics)`",
    signals: &["any metric, by the alias table", "time"],
    framework: None,
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff: sqlite::sniff,
    reader: Reader::Database { fits, read },
};

/// Lines that are damaged and told one by one.
const TOLD: usize = 100;
/// The longest row of metrics that is read. A row with a table of generated texts has some 100 kB.
const LONGEST: usize = 32 * 1024 * 1024;

fn fits(database: &Database) -> bool {
    let columns = database.columns("metrics");
    ["run_name", "step", "metrics"]
        .iter()
        .all(|c| columns.contains(*c))
}

fn read(database: &Database, asked: Option<&str>, rows: &mut Rows) -> Result<(), String> {
    let columns = database.columns("metrics");
    let key = key(&columns);
    let entry = sqlite::choose(runs(database, &columns)?, asked, rows)?;
    facts(database, &entry, rows);
    let time = if columns.contains("timestamp") {
        "timestamp"
    } else {
        "NULL"
    };
    let mut history = History::default();
    let mut damaged = 0_usize;
    database.metrics(
        &format!("step, metrics, {time}"),
        (key, &entry.id),
        rows,
        &mut |row, rows| {
            let object = sqlite::bytes(row, 2);
            let time = text::moment(sqlite::bytes(row, 3));
            let whole = object.len() <= LONGEST
                && history.object(object, sqlite::number(row, 1), time, rows);
            if !whole {
                damaged += 1;
                if damaged <= TOLD {
                    let id = row.get::<_, i64>(0).unwrap_or_default();
                    rows.lose(
                        format!("table `metrics`, row {id}"),
                        "the metrics are no whole JSON object",
                    );
                }
            }
        },
    )?;
    if damaged > TOLD {
        rows.lose(
            "table `metrics`",
            format!("{damaged} rows are no whole JSON objects"),
        );
    }
    history.tell(rows);
    // trackio's own counter counts log calls; trainers log their step beside it.
    step::settle(rows, &[]);
    Ok(())
}

/// The column that tells runs apart.
fn key(columns: &BTreeSet<String>) -> &'static str {
    if columns.contains("run_id") {
        "run_id"
    } else {
        "run_name"
    }
}

/// The runs, the one that was logged last first.
fn runs(database: &Database, columns: &BTreeSet<String>) -> Result<Vec<Entry>, String> {
    let last = if columns.contains("timestamp") {
        "MAX(timestamp)"
    } else {
        "NULL"
    };
    let sql = format!(
        "SELECT {key}, MAX(run_name) FROM metrics WHERE {key} IS NOT NULL GROUP BY {key} \
         ORDER BY {last} DESC, MAX(rowid) DESC",
        key = key(columns)
    );
    let time = if columns.contains("timestamp") {
        "timestamp"
    } else {
        "NULL"
    };
    database.runs(&sql, [key(columns), "run_name", time])
}

/// What the run was configured with. A database without it is fine.
fn facts(database: &Database, entry: &Entry, rows: &mut Rows) {
    config::note(&mut rows.facts, "trackio_run", entry.name.as_bytes(), true);
    let columns = database.columns("configs");
    if !columns.contains("config") || !columns.contains(key(&columns)) {
        return;
    }
    let sql = format!(
        "SELECT config FROM configs WHERE {} = ?1 ORDER BY rowid",
        key(&columns)
    );
    let read = database.each(&sql, &[&entry.id], &mut |row| {
        // Text that is cut gives the leaves before the cut.
        let _ = config::leaves(&mut rows.facts, Vec::new(), sqlite::bytes(row, 0));
    });
    // trackio's own, such as the user.
    rows.facts.retain(|name, _| !name.starts_with('_'));
    if let Err(what) = read {
        rows.lose("table `configs`", what);
    }
}

#[cfg(test)]
mod tests;
