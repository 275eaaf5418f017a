//! Follows a log that is still being written: new lines are read once, and the last rows are kept as a run.

mod lines;
mod pieces;
mod tail;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::ingest::open::Source;
use crate::ingest::{Group, IngestError, Options, by_name, join_groups, read, search, with_path};
use crate::run::Run;
use crate::signal::Aliases;

pub use pieces::Mark;

use lines::{Lines, State};
use tail::{Got, Tail};

/// Bytes that are read before the run is looked at again.
const BATCH: usize = 2 * 1024 * 1024;
/// Rows that are kept at least: what a level, the spikes before and the way back of an incident rest on.
const KEPT_ROWS: usize = 32 * 1024;
/// Cells from which on fewer rows are kept, and the fewest.
const MOST_CELLS: usize = 16 * 1024 * 1024;
const FEWEST_ROWS: usize = 4096;

/// What one look at the log gave.
#[derive(Debug, Default)]
pub struct Poll {
    /// Whether there is anything new.
    pub grew: bool,
    /// Whether more waits to be read.
    pub more: bool,
    /// Whether nothing will ever follow: standard input was closed.
    pub ended: bool,
    /// What happened to the log, in a sentence each: it was cut, or another file took its place. What comes next begins it.
    pub notes: Vec<String>,
}

/// What lies before the rows that are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Before {
    /// Attempts that lie wholly before them.
    pub attempts: u32,
    /// Whether any row was let go of.
    pub rows: bool,
}

/// Where an earlier follower of the same log ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Last {
    /// How far it had read its file.
    pub mark: Option<Mark>,
    /// Attempt and step of the last row that it saw.
    pub place: Option<(u32, u64)>,
}

/// Follows one log.
#[derive(Debug)]
pub struct Follower<'a> {
    path: PathBuf,
    aliases: &'a Aliases,
    options: Options,
    way: Way,
    before: Before,
    /// Attempt and step that the first row comes after, until it is there.
    start: Option<(u32, u64)>,
    /// Likewise of the file at hand; and, until its first row is there, the rows before it.
    began: Option<(u32, u64)>,
    rows_before: Option<usize>,
    /// The last mark: of a file of which nothing was read yet, there is none.
    kept: Option<Mark>,
    /// Step base and whether it is known, once the first rows are gone.
    base: Option<(u64, bool)>,
}

/// How a log is followed.
#[derive(Debug)]
enum Way {
    /// Line by line.
    Lines(Box<(Tail, Lines)>),
    /// Read anew whenever it changed: what is no text, and folders.
    Whole(Box<Whole>),
}

#[derive(Debug, Default)]
struct Whole {
    seen: Vec<(PathBuf, u64, Option<SystemTime>)>,
    run: Option<Run>,
}

impl<'a> Follower<'a> {
    /// Follows the log at a path, which need not exist yet; `-` is standard input. If the file that was read `last` was
    /// rotated away, it is read first, where it still lies beside the log; if it is gone, the log goes on after it.
    pub fn new(
        path: &Path,
        aliases: &'a Aliases,
        options: Options,
        last: &Last,
    ) -> Result<Self, IngestError> {
        let forced = options.format.as_deref().map(by_name).transpose()?;
        let way = if path.as_os_str() == "-" {
            Way::Lines(Box::new((Tail::stdin(), Lines::new(forced))))
        } else {
            match one_log(path) {
                Some(file) => {
                    let tail = Tail::file(&file, last.mark.as_ref());
                    Way::Lines(Box::new((tail, Lines::new(forced))))
                }
                None => Way::Whole(Box::default()),
            }
        };
        let start = match &way {
            Way::Lines(way) => starts_after(path, &way.0, last),
            Way::Whole(_) => None,
        };
        Ok(Self {
            path: path.to_owned(),
            aliases,
            options,
            way,
            before: Before::default(),
            start,
            began: start,
            rows_before: None,
            kept: last.mark.clone(),
            base: None,
        })
    }

    /// Reads what is new, up to some megabytes.
    pub fn poll(&mut self) -> Result<Poll, IngestError> {
        match &mut self.way {
            Way::Lines(way) => {
                let (tail, lines) = way.as_mut();
                let poll = follow(tail, lines).map_err(|source| IngestError::Io {
                    path: self.path.display().to_string(),
                    source,
                })?;
                if lines.state() == State::NoLines {
                    self.way = Way::Whole(Box::default());
                    return self.poll();
                }
                if !poll.notes.is_empty() {
                    self.note_began();
                } else if let Some(mark) = self.mark() {
                    self.kept = Some(mark);
                }
                Ok(poll)
            }
            Way::Whole(whole) => whole.poll(&self.path, self.aliases, &self.options),
        }
    }

    /// The last rows as a run, and what lies before them; `None` as long as there is no row.
    pub fn run(&mut self) -> Option<(Run, Before)> {
        let run = self.build()?;
        self.number(&run);
        let Way::Lines(way) = &mut self.way else {
            return Some((run, Before::default()));
        };
        let before = self.before;
        if way.1.trim(keep(way.1.columns())) {
            self.base = Some((run.meta.step_base, run.meta.base_known));
            let left = self.build().map_or(1, |r| r.attempts.len());
            let gone = run.attempts.len().saturating_sub(left);
            self.before.attempts += u32::try_from(gone).unwrap_or(0);
            self.before.rows = true;
            self.rows_before = None;
        }
        Some((run, before))
    }

    /// Numbers attempts on from those that lie before the first row, and notes which one the file at hand begins with.
    fn number(&mut self, run: &Run) {
        if let Some((attempt, step)) = self.start.take() {
            let back = run.steps.first().is_some_and(|first| *first < step);
            self.before.attempts = attempt + u32::from(back);
            self.before.rows = true;
        }
        if let Some(row) = self.rows_before.filter(|row| *row < run.len()) {
            self.rows_before = None;
            self.began = Some((self.before.attempts + run.attempt_of(row), 0));
        }
    }

    /// Another file begins: what comes before it.
    fn note_began(&mut self) {
        let Some(run) = self.build() else { return };
        self.number(&run);
        let last = run.len() - 1;
        let attempt = self.before.attempts + run.attempt_of(last);
        self.began = Some((attempt, run.steps[last]));
        self.rows_before = Some(run.len());
    }

    fn build(&self) -> Option<Run> {
        let way = match &self.way {
            Way::Whole(whole) => return whole.run.clone(),
            Way::Lines(way) => way,
        };
        let (format, rows) = way.1.rows()?;
        let name = Source::File(self.path.clone()).name();
        let options = Options {
            format: None,
            step_base: self.options.step_base.or(self.base.map(|b| b.0)),
            run: None,
        };
        let group = Group {
            format,
            pieces: vec![(name.clone(), with_path(rows, format, &name))],
        };
        let mut run = join_groups(vec![group], self.aliases, &options, &name).ok()?;
        if let Some((_, known)) = self.base.filter(|_| self.options.step_base.is_none()) {
            run.meta.base_known = known;
        }
        Some(run)
    }

    /// Whether so many rows have come since the last [`run`](Self::run) that more of them could push some out unseen.
    pub fn is_full(&self) -> bool {
        match &self.way {
            Way::Lines(way) => way.1.fresh() >= keep(way.1.columns()) / 2,
            Way::Whole(_) => false,
        }
    }

    /// Bytes of the log that are not read yet.
    pub fn unread(&self) -> u64 {
        match &self.way {
            Way::Lines(way) => way.0.unread(),
            Way::Whole(_) => 0,
        }
    }

    /// When the log was last written to, as its file system tells.
    pub fn written(&self) -> Option<SystemTime> {
        match &self.way {
            Way::Lines(way) => way.0.written(),
            Way::Whole(whole) => whole.seen.iter().filter_map(|(_, _, t)| *t).max(),
        }
    }

    /// How far which file was read, for a follower that comes after this one.
    pub fn mark(&self) -> Option<Mark> {
        let Way::Lines(way) = &self.way else {
            return None;
        };
        let read = way.0.mark().filter(|m| m.offset > 0);
        let fresh = read.map(|mark| Mark {
            after: self.began,
            ..mark
        });
        fresh.or_else(|| self.kept.clone())
    }

    /// Whether every change makes the whole log be read anew.
    pub fn reads_anew(&self) -> bool {
        matches!(self.way, Way::Whole(_))
    }
}

/// Attempt and step that the first row comes after: those before the file that is known again, or the last that were seen.
fn starts_after(path: &Path, tail: &Tail, last: &Last) -> Option<(u32, u64)> {
    match (tail, &last.mark) {
        (Tail::Pipe(_), _) => last.place,
        (_, Some(mark)) if tail.reads_aside() || mark.fits(path) => mark.after,
        (_, Some(_)) => last.place,
        (_, None) => None,
    }
}

/// The file to follow line by line, if the path is no folder of several.
fn one_log(path: &Path) -> Option<PathBuf> {
    if !path.is_dir() {
        return Some(path.to_owned());
    }
    let found = search::search(path, None).ok()?;
    match <[PathBuf; 1]>::try_from(found.logs) {
        Ok([only]) => Some(only),
        Err(_) => None,
    }
}

/// Rows to keep: fewer of a log with thousands of metrics.
fn keep(columns: usize) -> usize {
    (MOST_CELLS / columns.max(1)).clamp(FEWEST_ROWS, KEPT_ROWS)
}

fn follow(tail: &mut Tail, lines: &mut Lines) -> std::io::Result<Poll> {
    let mut poll = Poll::default();
    let mut read = 0;
    poll.more = loop {
        if read >= BATCH {
            break true;
        }
        match tail.next(BATCH - read)? {
            Got::Bytes(bytes) => {
                read += bytes.len();
                lines.push(&bytes);
                poll.grew = true;
            }
            Got::Began(note) => {
                lines.begin();
                poll.notes.push(note);
                break true;
            }
            Got::Nothing => break false,
            Got::Ended => {
                lines.begin();
                poll.ended = true;
                break false;
            }
        }
    };
    if poll.grew {
        lines.look();
    }
    Ok(poll)
}

impl Whole {
    fn poll(
        &mut self,
        path: &Path,
        aliases: &Aliases,
        options: &Options,
    ) -> Result<Poll, IngestError> {
        let seen = search::state(path);
        if seen == self.seen || seen.is_empty() {
            return Ok(Poll::default());
        }
        let outcome = read(&[path.to_owned()], aliases, options, &mut |_, _| {});
        self.seen = seen;
        match outcome {
            Ok(run) => self.run = Some(run),
            // What is being written may hold nothing yet, or be cut where it cannot be read.
            Err(
                IngestError::Empty { .. }
                | IngestError::NoSteps { .. }
                | IngestError::NoLogs { .. }
                | IngestError::Unknown { .. },
            ) => return Ok(Poll::default()),
            Err(e) => return Err(e),
        }
        Ok(Poll {
            grew: true,
            ..Poll::default()
        })
    }
}

#[cfg(test)]
mod tests;
