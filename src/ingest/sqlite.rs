//! Databases of `SQLite`, read without touching a byte or a lock of the user's files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};
use tempfile::TempDir;

use crate::run::Rows;

/// The first bytes of a database.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
/// The table that holds the metrics, in the formats that are known.
const METRICS: &str = "metrics";
/// What a writer leaves beside a database: pages that are not in it yet, or not whole in it.
const BESIDE: [&str; 2] = ["-wal", "-journal"];
/// How often a copy is tried again because the writer wrote meanwhile.
const TRIES: usize = 4;
/// Other runs that are named.
const NAMED: usize = 5;

/// How sure the first bytes are those of a database; what it holds is told by its tables.
pub(super) fn sniff(head: &[u8]) -> u8 {
    if head.starts_with(MAGIC) { 20 } else { 0 }
}

/// An open database.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    still: Still,
    /// Holds the copy until the database is closed, which is before.
    _copy: Option<TempDir>,
}

impl Database {
    /// Opens a database. Without a file beside it, it is read where it is, as one that does not change: no lock is
    /// taken and no file is made. With one, the newest rows are only there, and both are read in a temporary copy.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let beside = BESIDE.iter().any(|end| holds_bytes(&with_end(path, end)));
        let before = Stamp::of(path).map_err(|e| e.to_string())?;
        let (connection, copy, still) = if beside {
            let (folder, still) = copied(path).map_err(|e| {
                format!("its newest rows are in the file beside it, and a temporary copy of both cannot be made ({e})")
            })?;
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(folder.path().join(COPY), flags);
            (
                connection,
                Some(folder),
                if still { Still::Yes } else { Still::No },
            )
        } else {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_URI;
            let connection = Connection::open_with_flags(unchanging(path), flags);
            (connection, None, Still::If(path.to_owned(), before))
        };
        let connection = connection.map_err(|e| words(&e))?;
        // The schema is not ours: nothing in it may run more than reading takes.
        let guarded =
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;";
        connection.execute_batch(guarded).map_err(|e| words(&e))?;
        Ok(Self {
            connection,
            still,
            _copy: copy,
        })
    }

    /// Names of the tables that hold rows of their own.
    pub(super) fn tables(&self) -> Result<BTreeSet<String>, String> {
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
        let mut names = BTreeSet::new();
        self.each(sql, &[], &mut |row| {
            names.insert(text(row, 0));
        })?;
        Ok(names)
    }

    /// Names of the columns of a table; none if there is no such table.
    pub(super) fn columns(&self, table: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let real = self.tables().is_ok_and(|t| t.contains(table));
        if real {
            // What cannot be told is not there.
            let _ = self.each(
                "SELECT name FROM pragma_table_info(?1)",
                &[table],
                &mut |row| {
                    names.insert(text(row, 0));
                },
            );
        }
        names
    }

    /// Calls `each` with every row of a query.
    pub(super) fn each(
        &self,
        sql: &str,
        given: &[&str],
        each: &mut dyn FnMut(&Row<'_>),
    ) -> Result<(), String> {
        let mut run = || {
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(given))?;
            while let Some(row) = rows.next()? {
                each(row);
            }
            Ok(())
        };
        run().map_err(|e| words(&e))
    }

    /// Calls `each` with the metrics of a run in the order in which they were written. `columns` are those of the
    /// table. Where the table is damaged, what stands before and after is read, and the gap is told.
    pub(super) fn metrics(
        &self,
        columns: &str,
        run: (&str, &str),
        rows: &mut Rows,
        each: &mut dyn FnMut(&Row<'_>, &mut Rows),
    ) -> Result<(), String> {
        let gap = self.through(columns, Some(run), &mut |row| each(row, rows))?;
        if let Some(after) = gap {
            let from = if after == i64::MIN {
                "its start".to_owned()
            } else {
                format!("row {after}")
            };
            rows.lose(
                format!("table `{METRICS}`"),
                format!("the database is damaged after {from}: rows there are lost"),
            );
        }
        let still = match &self.still {
            Still::Yes => true,
            Still::No => false,
            Still::If(path, before) => Stamp::of(path).is_ok_and(|now| now == *before),
        };
        if !still {
            let what = "the database was written to while it was read: rows of the last moments may be missing";
            rows.lose("", what);
        }
        Ok(())
    }

    /// The runs that have metrics, the one that was logged last first: `listing` tells their ids and names. Where the
    /// database is damaged, the metrics themselves do; `columns` are those of their id, name and time.
    pub(super) fn runs(&self, listing: &str, columns: [&str; 3]) -> Result<Vec<Entry>, String> {
        let mut entries = Vec::new();
        let listed = self.each(listing, &[], &mut |row| {
            entries.push(Entry {
                id: text(row, 0),
                name: text(row, 1),
            });
        });
        if listed.is_ok() {
            return Ok(entries);
        }
        let mut found: BTreeMap<String, (String, i64, String)> = BTreeMap::new();
        self.through(&columns.join(", "), None, &mut |row| {
            let last = (text(row, 3), row.get(0).unwrap_or(0), text(row, 2));
            let known = found.entry(text(row, 1)).or_insert_with(|| last.clone());
            *known = last.max(std::mem::take(known));
        })?;
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by(|a, b| b.1.cmp(&a.1));
        let entry = |(id, (_, _, name))| Entry { id, name };
        Ok(found.into_iter().map(entry).collect())
    }

    /// Calls `each` with the metrics of one run or all, on both sides of a damaged place. Says after which row that is.
    fn through(
        &self,
        columns: &str,
        run: Option<(&str, &str)>,
        each: &mut dyn FnMut(&Row<'_>),
    ) -> Result<Option<i64>, String> {
        // The plus keeps indexes out of it: they would be followed out of order, and may be damaged themselves.
        let only = run.map_or_else(|| "?1".to_owned(), |(column, _)| format!("+{column}"));
        let sql = format!(
            "SELECT rowid, {columns} FROM {METRICS} WHERE {only} = ?1 AND rowid >= ?2 ORDER BY rowid"
        );
        let run = run.map_or("", |(_, id)| id);
        let mut last = i64::MIN;
        let Err(error) = self.pass(&sql, run, &mut last, each) else {
            return Ok(None);
        };
        let (before, after) = (last, self.whole_after(last));
        if !is_damage(&error) || (before == i64::MIN && after.is_none()) {
            return Err(words(&error));
        }
        if let Some(after) = after {
            last = after;
            // A second damaged place ends it: what is between both is lost, too.
            let _ = self.pass(&sql, run, &mut last, each);
        }
        Ok(Some(before))
    }

    fn pass(
        &self,
        sql: &str,
        run: &str,
        last: &mut i64,
        each: &mut dyn FnMut(&Row<'_>),
    ) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(sql)?;
        let mut found = statement.query((run, *last))?;
        // `last` is the row to begin with, then the last that was read.
        while let Some(row) = found.next()? {
            *last = row.get(0)?;
            each(row);
        }
        Ok(())
    }

    /// The first row after a damaged place that can be reached from the end of the table.
    fn whole_after(&self, before: i64) -> Option<i64> {
        let sql = format!("SELECT rowid FROM {METRICS} WHERE rowid > ?1 ORDER BY rowid DESC");
        let mut statement = self.connection.prepare(&sql).ok()?;
        let mut found = statement.query([before]).ok()?;
        let mut first = None;
        while let Ok(Some(row)) = found.next() {
            first = row.get(0).ok().or(first);
        }
        first
    }
}

/// A run of a database that holds several.
#[derive(Debug)]
pub(super) struct Entry {
    /// What its rows are found by.
    pub(super) id: String,
    pub(super) name: String,
}

/// The run that is asked for by name or id, else the newest; what else there is is told. `entries` are the newest first.
pub(super) fn choose(
    entries: Vec<Entry>,
    asked: Option<&str>,
    rows: &mut Rows,
) -> Result<Entry, String> {
    let fits = |e: &Entry| asked.is_none_or(|a| e.name == a || e.id == a);
    let Some(at) = entries.iter().position(fits) else {
        return Err(match asked {
            Some(asked) if !entries.is_empty() => format!(
                "there is no run `{asked}` in it; the runs are {}",
                listed(&entries)
            ),
            _ => "it holds no run with a metric yet".to_owned(),
        });
    };
    let mut entries = entries;
    let chosen = entries.remove(at);
    if asked.is_none() && !entries.is_empty() {
        let (count, others) = (entries.len(), listed(&entries));
        let runs = if count == 1 { "run" } else { "runs" };
        rows.lose(
            "",
            format!("`{}` is the newest run; {count} other {runs} left out, to be named with --run: {others}", chosen.name),
        );
    }
    Ok(chosen)
}

fn listed(entries: &[Entry]) -> String {
    let mut out: Vec<String> = entries
        .iter()
        .take(NAMED)
        .map(|e| format!("`{}`", e.name))
        .collect();
    if entries.len() > NAMED {
        out.push("…".to_owned());
    }
    out.join(", ")
}

/// The text of a column, whether it was stored as text or as bytes; empty for anything else.
pub(super) fn text(row: &Row<'_>, column: usize) -> String {
    String::from_utf8_lossy(bytes(row, column)).into_owned()
}

/// The bytes of a column that holds text or bytes; none for anything else.
pub(super) fn bytes<'r>(row: &'r Row<'_>, column: usize) -> &'r [u8] {
    match row.get_ref(column) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes,
        _ => &[],
    }
}

/// The number in a column that holds one.
pub(super) fn number(row: &Row<'_>, column: usize) -> Option<f64> {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(value)) => Some(value as f64),
        Ok(ValueRef::Real(value)) => Some(value),
        _ => None,
    }
}

/// What is wrong, in a line.
fn words(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            "it begins as an SQLite database does, but is none: cut, or damaged".to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "the database is damaged; `sqlite3 FILE .recover | sqlite3 NEW` saves what can be saved"
                .to_owned()
        }
        _ => {
            let text = error.to_string();
            format!(
                "the database cannot be read ({})",
                text.lines().next().unwrap_or_default()
            )
        }
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure)
    )
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

fn holds_bytes(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() > 0)
}

/// The address of a database that is taken not to change while it is read.
fn unchanging(path: &Path) -> String {
    let mut out = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                out.push(char::from(*byte));
            }
            b'\\' if cfg!(windows) => out.push('/'),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out + "?mode=ro&immutable=1"
}

/// The name of a copy.
const COPY: &str = "copy.db";

/// Whether the database stayed as it was while it was read.
#[derive(Debug)]
enum Still {
    Yes,
    No,
    /// If it is still what it was.
    If(PathBuf, Stamp),
}

/// What shows that a database was written to.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    written: Option<SystemTime>,
    /// The first bytes of the log beside it, which are new each time it is begun again.
    log: Vec<u8>,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        const HEADER: u64 = 32;
        let meta = fs::metadata(path)?;
        let mut log = Vec::new();
        if let Ok(file) = File::open(with_end(path, BESIDE[0])) {
            file.take(HEADER).read_to_end(&mut log)?;
        }
        Ok(Self {
            size: meta.len(),
            written: meta.modified().ok(),
            log,
        })
    }
}

/// A copy of a database and of what is beside it, and whether it stayed as it was meanwhile. What is only added to
/// the log beside it does no harm: it is read up to its last whole entry.
fn copied(path: &Path) -> io::Result<(TempDir, bool)> {
    let folder = tempfile::Builder::new().prefix("whyspike-").tempdir()?;
    let copy = folder.path().join(COPY);
    for _ in 0..TRIES {
        let before = Stamp::of(path)?;
        copy_bytes(path, &copy)?;
        for end in BESIDE {
            let (from, to) = (with_end(path, end), with_end(&copy, end));
            if holds_bytes(&from) {
                copy_bytes(&from, &to)?;
            } else if to.exists() {
                fs::remove_file(to)?;
            }
        }
        if Stamp::of(path)? == before {
            return Ok((folder, true));
        }
    }
    Ok((folder, false))
}

/// Copies the bytes and nothing else: permissions may forbid to write.
fn copy_bytes(from: &Path, to: &Path) -> io::Result<()> {
    io::copy(&mut File::open(from)?, &mut File::create(to)?)?;
    Ok(())
}
