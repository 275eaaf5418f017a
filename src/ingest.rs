//! Opens logs, recognises their format from the bytes, and reads them into a run.
//!
//! One file a format. An ingester is a constant of type [`Ingester`]; adding one is its file, its `mod` line and its
//! place in [`INGESTERS`].

mod bars;
mod build_nanogpt;
mod composer;
mod csv;
mod deepspeed;
mod fairseq;
mod fields;
mod gnmt;
mod golden;
mod hf_console;
mod hf_jsonl;
mod hf_state;
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
mod tensorboard;
mod text;
mod torchtitan;
mod verl;
mod wandb;
mod wire;

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::run::{BuildOptions, NoRows, Rows, Run, RunBuilder, message};
use crate::signal::Aliases;
use crate::store::StoreError;

use open::{LARGEST_WHOLE, Opened, Source};

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
        "{path}: no log of a known format in this folder; name the file, or see `whyspike formats`"
    )]
    NoLogs {
        /// The path.
        path: String,
    },
    /// The format of a source is not known.
    #[error(
        "{path}: not a log of a known format ({hint}); see `whyspike formats`, or name one with --format"
    )]
    Unknown {
        /// The path.
        path: String,
        /// What the first bytes look like.
        hint: &'static str,
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
    let files = open::expand(paths, &|head| recognise(head).is_some())?;
    let Some(first) = files.first().cloned() else {
        return Err(IngestError::NoInput);
    };
    let mut groups: Vec<Group> = Vec::new();
    for file in &files {
        let mut opened = Opened::open(file)?;
        let Some(found) = forced.or_else(|| recognise(opened.head())) else {
            return Err(unknown(&opened, file));
        };
        if found.name == parquet::INGESTER.name && files.len() == 1 && parquet::is_store(file) {
            return parquet::read_store(file, options.step_base);
        }
        let mut rows = read_source(&mut opened, found, progress)?;
        if found.name == mlflow::INGESTER.name {
            rows = mlflow::named(&rows, &show(file));
        }
        match groups.iter_mut().find(|g| g.format.name == found.name) {
            Some(group) => group.pieces.push((show(file), rows)),
            None => groups.push(Group {
                format: found,
                pieces: vec![(show(file), rows)],
            }),
        }
    }
    join_groups(groups, aliases, options, &show(&first))
}

/// The sources of one format.
struct Group {
    format: &'static Ingester,
    pieces: Vec<(String, Rows)>,
}

/// Builds a run from the sources of each format. The one with the most losses is the run; the others, views of the same
/// run such as its TensorBoard files beside its console, add what it lacks.
fn join_groups(
    groups: Vec<Group>,
    aliases: &Aliases,
    options: &Options,
    first: &str,
) -> Result<Run, IngestError> {
    let alone = groups.len() == 1;
    let mut runs: Vec<Run> = Vec::new();
    for group in groups {
        match build(group.pieces, group.format, aliases, options, first) {
            Ok(run) => runs.push(run),
            Err(e) if alone => return Err(e),
            Err(_) => {}
        }
    }
    let losses = |run: &Run| run.column("loss").map_or(0, |c| c.iter().flatten().count());
    let best = (0..runs.len()).max_by_key(|i| {
        (
            losses(&runs[*i]),
            runs[*i].columns().count(),
            std::cmp::Reverse(*i),
        )
    });
    let Some(best) = best else {
        return Err(IngestError::NoLogs {
            path: first.to_owned(),
        });
    };
    let mut run = runs.swap_remove(best);
    for other in &runs {
        run.enrich(other);
    }
    Ok(run)
}

fn build(
    pieces: Vec<(String, Rows)>,
    format: &'static Ingester,
    aliases: &Aliases,
    options: &Options,
    first: &str,
) -> Result<Run, IngestError> {
    let mut builder = RunBuilder::new(
        aliases,
        BuildOptions {
            format: format.name.to_owned(),
            framework: format.framework.map(str::to_owned),
            step_base: options.step_base.or(format.step_base),
            averaged: format.averaged,
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

/// The format of a source, from its first bytes.
pub fn recognise(head: &[u8]) -> Option<&'static Ingester> {
    let mut best: Option<(&'static Ingester, u8)> = None;
    for ingester in INGESTERS {
        let sure = (ingester.sniff)(head);
        if sure > best.map_or(0, |(_, s)| s) {
            best = Some((ingester, sure));
        }
    }
    best.map(|(i, _)| i)
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
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Rows, IngestError> {
    let mut rows = Rows::default();
    match format.reader {
        Reader::Lines(make) => {
            let reader = make(opened.head());
            read_lines(opened, reader.as_ref(), &mut rows, progress)?;
            reader.settle(&mut rows);
        }
        Reader::Whole(read) => {
            let path = opened.name();
            let broken = |what| IngestError::Broken {
                path: path.clone(),
                what,
            };
            let bytes = opened
                .rest(LARGEST_WHOLE)
                .map_err(|_| broken(too_large(format)))?;
            progress(bytes.len() as u64, Some(bytes.len() as u64));
            read(bytes, &mut rows).map_err(|what| broken(message(&what)))?;
        }
        Reader::Stream(parse) => rows = pump::run(opened, parse, progress)?,
    }
    opened.tell_damage(&mut rows);
    Ok(rows)
}

fn too_large(format: &Ingester) -> String {
    format!(
        "it has more than {} GiB once unpacked, and {} is read whole: give a file of fewer rows, or one of only the \
         metrics that matter",
        LARGEST_WHOLE >> 30,
        format.name
    )
}

/// Reads as many chunks at once as there are cores, and joins their rows in order.
fn read_lines(
    opened: &mut Opened,
    reader: &dyn LineReader,
    rows: &mut Rows,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), IngestError> {
    let cores = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8);
    let mut line: u64 = 1;
    loop {
        let mut chunks = Vec::with_capacity(cores);
        while chunks.len() < cores {
            match opened.next_chunk(rows)? {
                Some(chunk) => chunks.push(chunk),
                None => break,
            }
        }
        if chunks.is_empty() {
            return Ok(());
        }
        for part in parse_together(&chunks, reader) {
            let (part, lines) = part;
            rows.append(numbered(part, line));
            line += lines;
        }
        progress(opened.bytes_read(), opened.size());
    }
}

fn parse_together(chunks: &[Vec<u8>], reader: &dyn LineReader) -> Vec<(Rows, u64)> {
    let parse = |chunk: &[u8]| {
        let mut part = Rows::default();
        reader.chunk(chunk, &mut part);
        (part, memchr::memchr_iter(b'\n', chunk).count() as u64)
    };
    if let [only] = chunks {
        return vec![parse(only)];
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = chunks
            .iter()
            .map(|chunk| scope.spawn(move || parse(chunk)))
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
            .collect()
    })
}

/// Turns the line numbers of a chunk, which count from its start, into those of the source.
fn numbered(mut part: Rows, first_line: u64) -> Rows {
    for loss in &mut part.losses {
        if let Some(n) = loss
            .place
            .strip_prefix("line +")
            .and_then(|n| n.parse::<u64>().ok())
        {
            loss.place = format!("line {}", first_line + n);
        }
    }
    part
}

fn unknown(opened: &Opened, path: &Source) -> IngestError {
    let head = opened.head();
    if head.is_empty() {
        return IngestError::Empty { path: show(path) };
    }
    let hint = if head.starts_with(b"\xFF\xFE") || head.starts_with(b"\xFE\xFF") {
        "it is UTF-16: write it again with `iconv -f UTF-16 -t UTF-8`"
    } else if memchr::memchr(0, head).is_some() {
        "it looks binary"
    } else {
        "no line of it looks like a training step"
    };
    IngestError::Unknown {
        path: show(path),
        hint,
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
