//! Reads a log of lines with a crew: one thread reads and joins, the others parse chunk after chunk.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cores;
use crate::ingest::open::Opened;
use crate::ingest::{IngestError, LineReader, holes};
use crate::run::Rows;

/// Chunks that wait for a parser besides those that are being parsed.
const WAITING: usize = 1;

/// Reads all lines into rows, in order. `progress` hears of every chunk.
pub(super) fn read(
    opened: &mut Opened,
    reader: &dyn LineReader,
    rows: &mut Rows,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), IngestError> {
    let mut joined = Joined {
        rows,
        line: 1,
        next: 0,
        early: BTreeMap::new(),
    };
    if let Some(first) = take(opened, 0)? {
        if opened.is_at_end() {
            joined.add(parse(reader, first));
        } else {
            with_others(opened, reader, first, &mut joined, progress)?;
        }
    }
    progress(opened.bytes_read(), opened.size());
    opened.tell_damage(Some(joined.line), joined.rows);
    Ok(())
}

/// A chunk of lines, and what was lost around it.
struct Job {
    at: usize,
    chunk: Vec<u8>,
    part: Rows,
}

/// A job that is done.
struct Done {
    at: usize,
    chunk: Vec<u8>,
    part: Rows,
    lines: u64,
}

/// What a parser leaves: a part, or why it panicked.
type Outcome = Result<Done, Box<dyn Any + Send>>;

fn take(opened: &mut Opened, at: usize) -> Result<Option<Job>, IngestError> {
    let mut part = Rows::default();
    let Some(chunk) = opened.next_chunk(&mut part)? else {
        return Ok(None);
    };
    let chunk = holes::close(chunk, opened.bytes_read(), &mut part);
    Ok(Some(Job { at, chunk, part }))
}

fn parse(reader: &dyn LineReader, job: Job) -> Done {
    let Job {
        at,
        chunk,
        mut part,
    } = job;
    reader.chunk(&chunk, &mut part);
    let lines = memchr::memchr_iter(b'\n', &chunk).count() as u64;
    Done {
        at,
        chunk,
        part,
        lines,
    }
}

fn with_others(
    opened: &mut Opened,
    reader: &dyn LineReader,
    first: Job,
    joined: &mut Joined<'_>,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), IngestError> {
    let cores = cores::count();
    std::thread::scope(|scope| {
        let (give, jobs) = channel();
        let (finish, done) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..cores {
            let (jobs, finish) = (Arc::clone(&jobs), finish.clone());
            scope.spawn(move || work(reader, &jobs, &finish));
        }
        let (mut next, mut given, mut away) = (Ok(Some(first)), 0, 0);
        while matches!(next, Ok(Some(_))) || away > 0 {
            if let Ok(Some(job)) = next {
                given += 1;
                away += usize::from(give.send(job).is_ok());
                progress(opened.bytes_read(), opened.size());
                next = take(opened, given);
            }
            // Wait only if there is nothing more to read, or enough waits to be parsed.
            if away > 0 && (away >= cores + WAITING || !matches!(next, Ok(Some(_)))) {
                let Ok(outcome) = done.recv() else { break };
                away -= 1;
                opened.give_back(joined.add(outcome.unwrap_or_else(|e| resume_unwind(e))));
            }
        }
        drop(give);
        next.map(|_| ())
    })
}

/// Parses jobs until there are no more.
fn work(reader: &dyn LineReader, jobs: &Mutex<Receiver<Job>>, finish: &Sender<Outcome>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // The one that joins must hear of it, or it would wait for this chunk for ever.
        let outcome = catch_unwind(AssertUnwindSafe(|| parse(reader, job)));
        if finish.send(outcome).is_err() {
            return;
        }
    }
}

/// The rows so far.
struct Joined<'a> {
    rows: &'a mut Rows,
    /// Number of the first line of the next part.
    line: u64,
    /// The part that comes next.
    next: usize,
    /// Parts that were done before those that they follow.
    early: BTreeMap<usize, (Rows, u64)>,
}

impl Joined<'_> {
    /// Adds a part when its turn comes. Gives back the chunk, to be used again.
    fn add(&mut self, done: Done) -> Vec<u8> {
        self.early.insert(done.at, (done.part, done.lines));
        while let Some((part, lines)) = self.early.remove(&self.next) {
            self.rows.append(numbered(part, self.line));
            self.line += lines;
            self.next += 1;
        }
        done.chunk
    }
}

/// Turns the line numbers of a chunk, which count from its start, into those of the source.
pub(super) fn numbered(mut part: Rows, first_line: u64) -> Rows {
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
