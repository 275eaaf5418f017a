//! Opens logs, recognises their format from the bytes, and reads them into a run.
//!
//! One file a format. An ingester is a constant of type [`Ingester`]; adding one is its file, its `mod` line and its
//! place in [`INGESTERS`].

mod bars;
mod build_nanogpt;
mod composer;
mod config;
mod crew;
mod csv;
mod deepspeed;
mod digest;
mod fairseq;
mod fields;
pub mod follow;
mod gnmt;
mod golden;
mod hf_console;
mod hf_jsonl;
mod hf_state;
mod hf_tracked;
mod holes;
mod json;
mod jsonl;
mod late;
mod levanter;
mod lightning;
mod lingua;
mod litgpt;
mod llmc;
mod llmc_log;
mod maxtext;
mod megatron;
mod mlflow;
mod mlflow_db;
mod mlperf;
mod modded;
mod nanochat;
mod nanogpt;
mod nanotron;
mod nemo;
mod number;
mod olmo;
mod open;
mod parquet;
mod peel;
mod pump;
mod ranks;
mod records;
mod search;
mod several;
mod sqlite;
mod tensorboard;
mod text;
mod torchtitan;
mod trackio;
mod verl;
mod views;
mod wandb;
mod wire;

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::run::{BuildOptions, DataLoss, NoRows, Rows, Run, RunBuilder, message};
use crate::signal::Aliases;
use crate::store::{self, StoreError};

use open::{LARGEST_WHOLE, Opened, Source};
use sqlite::Database;

/// A format that can be read.
#[derive(Debug)]
pub struct Ingester {
    /// Name for `--format` and reports.
    pub name: &'static str,
    /// What it is recognised by.
    pub recognised_by: &'static str,
    /// The signals it can give.
    pub signals: &'static [&'static str],
    /// The framework that writes it, if it is one framework's.
    pub framework: Option<&'static str>,
    /// The step base if the format fixes it.
    pub step_base: Option<u64>,
    /// Whether values are means over the interval since the row before.
    pub averaged: bool,
    /// Whether several ranks may print the same step into one file.
    pub interleaved: bool,
    /// How sure the format is of the first bytes of a source: 0 (no) to 100.
    pub sniff: fn(&[u8]) -> u8,
    /// How it is read.
    pub reader: Reader,
}

/// How a format is read.
#[derive(Debug, Clone, Copy)]
pub enum Reader {
    /// In chunks of whole lines, several at once. The function gets the first bytes and returns what reads a chunk.
    Lines(fn(&[u8]) -> Box<dyn LineReader>),
    /// All bytes at once.
    Whole(fn(Vec<u8>, &mut Rows) -> Result<(), String>),
    /// As a stream of bytes, on a thread of its own.
    Stream(fn(&mut dyn Read, &mut Rows) -> Result<(), String>),
    /// As a database, whose tables tell which format it is; of several runs in it one is asked for, or the newest.
    Database {
        /// Whether its tables are those of the format.
        fits: fn(&Database) -> bool,
        /// How it is read.
        read: fn(&Database, Option<&str>, &mut Rows) -> Result<(), String>,
    },
}

/// Reads chunks of whole lines. Chunks may be read at the same time; their rows are joined in order.
pub trait LineReader: Sync {
    /// Reads the lines of a chunk.
    fn chunk(&self, chunk: &[u8], rows: &mut Rows);

    /// Corrects what only the whole log can tell.
    fn settle(&self, rows: &mut Rows) {
        let _ = rows;
    }
}

/// Every format, in the order in which equal certainty is decided.
pub const INGESTERS: &[&Ingester] = &[
    &parquet::INGESTER,
    &tensorboard::INGESTER,
    &wandb::INGESTER,
    &trackio::INGESTER,
    &mlflow_db::INGESTER,
    &megatron::INGESTER,
    &torchtitan::INGESTER,
    &torchtitan::STRUCTURED,
    &deepspeed::CHAT,
    &deepspeed::INGESTER,
    &levanter::INGESTER,
    &levanter::JSON,
    &fairseq::INGESTER,
    &nemo::INGESTER,
    &nanotron::INGESTER,
    &olmo::INGESTER,
    &composer::INGESTER,
    &composer::FILE,
    &maxtext::INGESTER,
    &maxtext::METRICS,
    &lightning::INGESTER,
    &hf_state::INGESTER,
    &llmc::INGESTER,
    &llmc_log::INGESTER,
    &nanogpt::INGESTER,
    &build_nanogpt::INGESTER,
    &nanochat::INGESTER,
    &modded::INGESTER,
    &litgpt::INGESTER,
    &lingua::INGESTER,
    &verl::INGESTER,
    &gnmt::INGESTER,
    &golden::INGESTER,
    &mlperf::INGESTER,
    &hf_jsonl::LLAMA_FACTORY,
    &hf_jsonl::MS_SWIFT,
    &hf_console::INGESTER,
    &mlflow::INGESTER,
    &jsonl::INGESTER,
    &csv::INGESTER,
];

/// Options of [`read`].
#[derive(Debug, Default)]
pub struct Options {
    /// Format name that overrides recognition.
    pub format: Option<String>,
    /// Step base that overrides what the format says.
    pub step_base: Option<u64>,
    /// Name or id of the run that is read of a folder or database that holds several.
    pub run: Option<String>,
}

/// A run could not be read.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// No path was given.
    #[error("no log was given")]
    NoInput,
    /// A source could not be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A source is empty.
    #[error("{path}: the file is empty: nothing has been logged yet")]
    Empty {
        /// The path.
        path: String,
    },
    /// A folder holds nothing that is recognised.
    #[error(
        "{path}: no log of a known format among the {files} files that may be one; name the file, or see `whyspike formats`"
    )]
    NoLogs {
        /// The path.
        path: String,
        /// Files that were looked at.
        files: usize,
    },
    /// The format of a source is not known.
    #[error(
        "{path}: not a log of a known format ({hint}); see `whyspike formats`, or name one with --format"
    )]
    Unknown {
        /// The path.
        path: String,
        /// What the first bytes look like.
        hint: String,
    },
    /// There is no run of this name.
    #[error("{path}: there is no run `{run}`; {known}")]
    NoRun {
        /// The path.
        path: String,
        /// The name as given.
        run: String,
        /// What runs there are.
        known: String,
    },
    /// There is no format of this name.
    #[error("there is no format `{name}`; `whyspike formats` lists them")]
    NoFormat {
        /// The name as given.
        name: String,
    },
    /// A source of a known format cannot be read at all.
    #[error("{path}: {what}")]
    Broken {
        /// The path.
        path: String,
        /// What is wrong and what to do.
        what: String,
    },
    /// A stored run cannot be read.
    #[error("{path}: {source}")]
    Store {
        /// The path.
        path: String,
        /// What is wrong.
        source: StoreError,
    },
    /// A source was read but has no steps.
    #[error("{path}: {source} (read as {format}); if it is another format, name it with --format")]
    NoSteps {
        /// The path.
        path: String,
        /// The format.
        format: &'static str,
        /// No rows.
        source: NoRows,
    },
}

/// Reads the pieces of one run. `-` is standard input; a folder is searched for logs. `progress` hears of every chunk:
/// bytes read of this source so far, and its size if known.
pub fn read(
    paths: &[PathBuf],
    aliases: &Aliases,
    options: &Options,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Run, IngestError> {
    let forced = options.format.as_deref().map(by_name).transpose()?;
    let (files, mut left_out) = sources(paths, forced)?;
    let mut groups: Vec<Group> = Vec::new();
    let mut failed = None;
    for file in &files {
        match piece(file, forced, options, files.len() == 1, progress) {
            Ok(Piece::Stored(run)) => return Ok(*run),
            Ok(Piece::Rows(format, rows)) => {
                let piece = (show(&file.source), *rows);
                match groups.iter_mut().find(|g| g.format.name == format.name) {
                    Some(group) => group.pieces.push(piece),
                    None => groups.push(Group {
                        format,
                        pieces: vec![piece],
                    }),
                }
            }
            // Of what was only found, others may be the log.
            Err(e) if file.searched => {
                left_out.push(e.as_loss(&file.source));
                failed = failed.or(Some(e));
            }
            Err(e) => return Err(e),
        }
    }
    let Some(first) = groups
        .iter()
        .flat_map(|g| &g.pieces)
        .map(|(path, _)| path.clone())
        .next()
    else {
        return Err(failed.unwrap_or(IngestError::NoInput));
    };
    if let [folder] = paths
        && folder.is_dir()
    {
        several::by_folder(&mut groups);
    }
    left_out.extend(several::pick(&mut groups, aliases, options, &first)?);
    let mut run = join_groups(groups, aliases, options, &first)?;
    run.losses.append(&mut left_out);
    Ok(run)
}

/// A file to read.
struct Given {
    source: Source,
    /// Whether it was found in a folder, not named.
    searched: bool,
}

/// The files behind the paths as given: folders become the logs in them. Also what was left out of the folders.
fn sources(
    paths: &[PathBuf],
    forced: Option<&'static Ingester>,
) -> Result<(Vec<Given>, Vec<DataLoss>), IngestError> {
    let (mut out, mut left_out) = (Vec::new(), Vec::new());
    for path in paths {
        if path.as_os_str() == "-" {
            out.push(Given {
                source: Source::Stdin,
                searched: false,
            });
        } else if path.is_dir() {
            let mut found = search::search(path, forced).map_err(|source| IngestError::Io {
                path: path.display().to_string(),
                source,
            })?;
            if found.logs.is_empty() {
                return Err(IngestError::NoLogs {
                    path: path.display().to_string(),
                    files: found.looked_at,
                });
            }
            left_out.append(&mut found.left_out);
            let logs = found.logs.into_iter().map(Source::File);
            out.extend(logs.map(|source| Given {
                source,
                searched: true,
            }));
        } else {
            out.push(Given {
                source: Source::File(path.clone()),
                searched: false,
            });
        }
    }
    Ok((out, left_out))
}

/// What a file holds.
enum Piece {
    /// A run that whyspike stored.
    Stored(Box<Run>),
    Rows(&'static Ingester, Box<Rows>),
}

fn piece(
    file: &Given,
    forced: Option<&'static Ingester>,
    options: &Options,
    alone: bool,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Piece, IngestError> {
    let mut opened = Opened::open(&file.source)?;
    let Some(found) = forced.or_else(|| recognise(opened.head())) else {
        return Err(unknown(&opened, &file.source));
    };
    if found.name == parquet::INGESTER.name && alone && parquet::is_store(&file.source) {
        return parquet::read_store(&file.source, options.step_base)
            .map(|r| Piece::Stored(Box::new(r)));
    }
    let (found, rows) = read_source(&mut opened, found, options, progress)?;
    let rows = with_path(rows, found, &show(&file.source));
    Ok(Piece::Rows(found, Box::new(rows)))
}

/// Adds what the path of a source tells of its rows.
fn with_path(mut rows: Rows, format: &'static Ingester, path: &str) -> Rows {
    if format.name == mlflow::INGESTER.name {
        rows = mlflow::named(&rows, path);
    }
    rows.run = rows.run.take().or_else(|| several::id_in_path(path));
    rows
}

/// The sources of one format.
struct Group {
    format: &'static Ingester,
    pieces: Vec<(String, Rows)>,
}

impl Group {
    fn is_database(&self) -> bool {
        matches!(self.format.reader, Reader::Database { .. })
    }
}

/// Builds a run from the sources of each format: views of the same run, which are joined.
fn join_groups(
    groups: Vec<Group>,
    aliases: &Aliases,
    options: &Options,
    first: &str,
) -> Result<Run, IngestError> {
    let alone = groups.len() == 1;
    let mut all = groups.iter().flat_map(|g| &g.pieces);
    let accumulation = all.find_map(|(_, rows)| litgpt::align::accumulation(rows));
    let mut runs: Vec<Run> = Vec::new();
    let mut left_out = Vec::new();
    for mut group in groups {
        if group.format.name == tensorboard::INGESTER.name {
            tensorboard::folders::settle(&mut group.pieces);
        }
        if group.format.name == mlflow::INGESTER.name {
            mlflow::parameters(&mut group.pieces);
        }
        for (_, rows) in &mut group.pieces {
            composer::align(group.format, rows);
            if group.format.framework.is_none() && litgpt::align::wrote(rows) {
                litgpt::align::align(rows, accumulation);
            }
        }
        let path = group
            .pieces
            .first()
            .map_or_else(String::new, |(path, _)| path.clone());
        match build(group.pieces, group.format, aliases, options, &path) {
            Ok(run) => runs.push(run),
            Err(e) if alone => return Err(e),
            Err(e) => left_out.push(e.as_loss(&Source::File(path.into()))),
        }
    }
    let mut run = views::join(runs).ok_or_else(|| IngestError::NoSteps {
        path: first.to_owned(),
        format: "several formats",
        source: NoRows,
    })?;
    run.losses.append(&mut left_out);
    Ok(run)
}

/// Which trainer wrote sources of one format, and what its numbers mean: as the format says, or, where it is that of a
/// tracker, as what was logged shows.
struct Writer {
    framework: Option<&'static str>,
    step_base: Option<u64>,
    averaged: bool,
}

impl Writer {
    fn of(format: &'static Ingester, pieces: &[(String, Rows)]) -> Self {
        let own = Self {
            framework: format.framework,
            step_base: format.step_base,
            averaged: format.averaged,
        };
        let mut rows = pieces.iter().map(|(_, rows)| rows);
        if own.framework.is_some() {
            own
        } else if hf_tracked::wrote(rows.clone()) {
            Self {
                framework: Some(hf_tracked::FRAMEWORK),
                step_base: own.step_base.or(Some(1)),
                averaged: true,
            }
        } else if let Some(rows) = rows.find(|r| litgpt::align::wrote(r)) {
            let updates = litgpt::align::counts_updates(rows);
            Self {
                framework: litgpt::INGESTER.framework,
                step_base: own.step_base.or(Some(u64::from(updates))),
                ..own
            }
        } else {
            own
        }
    }
}

fn build(
    pieces: Vec<(String, Rows)>,
    format: &'static Ingester,
    aliases: &Aliases,
    options: &Options,
    first: &str,
) -> Result<Run, IngestError> {
    let writer = Writer::of(format, &pieces);
    let mut builder = RunBuilder::new(
        aliases,
        BuildOptions {
            format: format.name.to_owned(),
            framework: writer.framework.map(str::to_owned),
            step_base: options.step_base.or(writer.step_base),
            averaged: writer.averaged,
            interleaved: format.interleaved,
        },
    );
    for (path, rows) in pieces {
        builder.add(&path, rows);
    }
    let no_steps = |source| IngestError::NoSteps {
        path: first.to_owned(),
        format: format.name,
        source,
    };
    builder.finish().map_err(no_steps)
}

impl IngestError {
    /// The error as a loss of a source that was only found, not named.
    fn as_loss(&self, source: &Source) -> DataLoss {
        let (source, text) = (show(source), self.to_string());
        let what = text.strip_prefix(&format!("{source}: ")).unwrap_or(&text);
        DataLoss {
            what: format!("left out: {what}"),
            place: String::new(),
            source,
        }
    }
}

/// The format of a source, from its first bytes.
pub fn recognise(head: &[u8]) -> Option<&'static Ingester> {
    best_of(head).map(|(i, _)| i)
}

/// The format of a file that was only found, and how sure it is; what its first bytes leave open is looked up.
fn recognise_file(path: &Path, head: &[u8]) -> Option<(&'static Ingester, u8)> {
    const TABLE: u8 = 50;
    const STORED: u8 = 40;
    let (format, sure) = best_of(head)?;
    match format.reader {
        Reader::Database { .. } => {
            let (format, _) = by_tables(&Database::open(path).ok()?, None).ok()?;
            Some((format, 100))
        }
        _ if format.name != parquet::INGESTER.name => Some((format, sure)),
        _ if store::is_store(path) => Some((format, STORED)),
        _ => store::has_steps(path).then_some((format, TABLE)),
    }
}

fn best_of(head: &[u8]) -> Option<(&'static Ingester, u8)> {
    let head = &digest::of(head);
    let mut best: Option<(&'static Ingester, u8)> = None;
    for ingester in INGESTERS {
        let sure = (ingester.sniff)(head);
        if sure > best.map_or(0, |(_, s)| s) {
            best = Some((ingester, sure));
        }
    }
    best
}

fn by_name(name: &str) -> Result<&'static Ingester, IngestError> {
    INGESTERS
        .iter()
        .copied()
        .find(|i| i.name == name)
        .ok_or_else(|| IngestError::NoFormat {
            name: name.to_owned(),
        })
}

fn read_source(
    opened: &mut Opened,
    format: &'static Ingester,
    options: &Options,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(&'static Ingester, Rows), IngestError> {
    let mut rows = Rows::default();
    let broken = |opened: &Opened, what: String| IngestError::Broken {
        path: opened.name(),
        what: match opened.damage() {
            Some(damage) => format!("{what}; {damage}"),
            None => what,
        },
    };
    match format.reader {
        Reader::Lines(make) => {
            let reader = make(opened.head());
            crew::read(opened, reader.as_ref(), &mut rows, progress)?;
            reader.settle(&mut rows);
            return Ok((format, rows));
        }
        Reader::Whole(read) => {
            let bytes = opened
                .rest(LARGEST_WHOLE)
                .map_err(|_| broken(opened, too_large(format)))?;
            progress(bytes.len() as u64, Some(bytes.len() as u64));
            read(bytes, &mut rows).map_err(|what| broken(opened, message(&what)))?;
        }
        Reader::Stream(parse) => rows = pump::run(opened, parse, progress)?,
        Reader::Database { .. } => {
            let file = opened.file()?;
            let database = Database::open(file.path()).map_err(|what| broken(opened, what))?;
            progress(opened.bytes_read(), opened.size());
            let forced = options.format.as_ref().map(|_| format);
            let (format, read) =
                by_tables(&database, forced).map_err(|what| broken(opened, what))?;
            read(&database, options.run.as_deref(), &mut rows)
                .map_err(|what| broken(opened, what))?;
            return Ok((format, rows));
        }
    }
    opened.tell_damage(None, &mut rows);
    Ok((format, rows))
}

/// How a database is read.
type Query = fn(&Database, Option<&str>, &mut Rows) -> Result<(), String>;

/// The format that the tables of a database are of.
fn by_tables(
    database: &Database,
    forced: Option<&'static Ingester>,
) -> Result<(&'static Ingester, Query), String> {
    let tables = database.tables()?;
    let mut known = Vec::new();
    for format in INGESTERS {
        let Reader::Database { fits, read } = format.reader else {
            continue;
        };
        known.push(format.name);
        if forced.is_none_or(|f| f.name == format.name) && fits(database) {
            return Ok((format, read));
        }
    }
    let tables: Vec<&str> = tables.iter().map(String::as_str).take(6).collect();
    Err(if tables.is_empty() {
        "an SQLite database without a table: nothing has been logged yet".to_owned()
    } else {
        format!(
            "an SQLite database of another kind (its tables: {}); known are those of {}",
            tables.join(", "),
            known.join(", ")
        )
    })
}

fn too_large(format: &Ingester) -> String {
    format!(
        "it has more than {} GiB once unpacked, and {} is read whole: give a file of fewer rows, or one of only the \
         metrics that matter",
        LARGEST_WHOLE >> 30,
        format.name
    )
}

fn unknown(opened: &Opened, path: &Source) -> IngestError {
    let head = opened.head();
    if head.is_empty() {
        return IngestError::Empty { path: show(path) };
    }
    let hint = if head.starts_with(b"\xFF\xFE") || head.starts_with(b"\xFE\xFF") {
        "it is UTF-16: write it again with `iconv -f UTF-16 -t UTF-8`".to_owned()
    } else if memchr::memchr(0, head).is_some() {
        "it looks binary".to_owned()
    } else {
        csv::lacks(head).unwrap_or_else(|| "no line of it looks like a training step".to_owned())
    };
    IngestError::Unknown {
        path: show(path),
        hint: message(&hint),
    }
}

fn show(source: &Source) -> String {
    source.name()
}

/// The path of a source that is a file.
fn file_of(source: &Source) -> Option<&Path> {
    match source {
        Source::File(path) => Some(path),
        Source::Stdin => None,
    }
}
