//! Lines as they come, turned into rows of which the last are kept.

use crate::ingest::open::{CHUNK, HEAD, LONGEST_LINE};
use crate::ingest::{Ingester, LineReader, Reader, best_of, crew, holes};
use crate::run::Rows;

/// First bytes of what is packed: gzip, zstd.
const PACKED: [&[u8]; 2] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd"];

/// How far the format is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It may still turn out.
    Open,
    /// It is one of lines.
    Lines,
    /// It is none of lines.
    NoLines,
}

/// Lines read so far, and the last rows of them.
///
/// Readers may carry what one line says to a later one, so lines are only done with in chunks as large as those of a log
/// that is read whole; those after the last chunk are read again at every look.
pub(super) struct Lines {
    forced: Option<&'static Ingester>,
    known: Option<Known>,
    state: State,
    /// Whether enough of the file is known that more of it shows no other format.
    sure: bool,
    /// What is not done with, from a line's start on.
    pending: Vec<u8>,
    /// Bytes of the file before those that are pending.
    offset: u64,
    /// Number of the first pending line.
    line: u64,
    /// Rows of what is done with.
    rows: Rows,
    /// Rows of what is pending, as of the last look.
    last: Rows,
    /// Rows that were done with since all were last asked for.
    fresh: usize,
}

struct Known {
    format: &'static Ingester,
    reader: Box<dyn LineReader>,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("format", &self.known.as_ref().map(|k| k.format.name))
            .field("state", &self.state)
            .field("line", &self.line)
            .field("rows", &self.rows.steps.len())
            .finish_non_exhaustive()
    }
}

impl Lines {
    pub(super) fn new(forced: Option<&'static Ingester>) -> Self {
        Self {
            forced,
            known: None,
            state: State::Open,
            sure: false,
            pending: Vec::new(),
            offset: 0,
            line: 1,
            rows: Rows::default(),
            last: Rows::default(),
            fresh: 0,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Number of metrics.
    pub(super) fn columns(&self) -> usize {
        self.rows.columns().count()
    }

    /// Rows that were done with since all were last asked for.
    pub(super) fn fresh(&self) -> usize {
        self.fresh
    }

    /// What follows is the start of another file, or nothing: the last line is whole, whether it ends or not.
    pub(super) fn begin(&mut self) {
        if !self.pending.is_empty() && !self.pending.ends_with(b"\n") {
            self.pending.push(b'\n');
        }
        self.look();
        let last = std::mem::take(&mut self.last);
        self.append(last);
        self.pending.clear();
        (self.offset, self.line, self.sure) = (0, 1, false);
        if self.state == State::Lines {
            self.state = State::Open;
        }
    }

    /// Takes bytes, and is done with whole chunks of them.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        if self.offset == 0 && self.pending.starts_with(b"\xEF\xBB\xBF") {
            self.pending.drain(..3);
        }
        while self.pending.len() >= CHUNK {
            self.recognise();
            let Some(end) = self.chunk() else { return };
            let part = self.parse(end);
            self.append(part);
            self.done_with(end);
        }
    }

    /// Reads what is pending, as far as its lines are whole.
    pub(super) fn look(&mut self) {
        self.recognise();
        self.last = self.parse(self.whole());
    }

    fn append(&mut self, part: Rows) {
        self.fresh += part.steps.len();
        self.rows.append(part);
    }

    /// The last whole line's end.
    fn whole(&self) -> usize {
        memchr::memrchr(b'\n', &self.pending).map_or(0, |end| end + 1)
    }

    /// The end of the first chunk, if it is there. A line without end is let go of, or cut where a progress bar writes over
    /// itself.
    fn chunk(&mut self) -> Option<usize> {
        self.known.as_ref()?;
        let mut want = CHUNK;
        while want <= self.pending.len() {
            if let Some(end) = memchr::memrchr(b'\n', &self.pending[..want]) {
                return Some(end + 1);
            }
            if want >= LONGEST_LINE {
                if let Some(end) = memchr::memrchr(b'\r', &self.pending[..want]) {
                    return Some(end + 1);
                }
                self.rows.lose(
                    format!("line {}", self.line),
                    format!("a line of more than {want} bytes is too long to be a row"),
                );
                self.done_with(want);
                return None;
            }
            want = (2 * want).min(LONGEST_LINE);
        }
        None
    }

    /// Finds out the format, as long as more of the file may show another.
    fn recognise(&mut self) {
        if self.sure || self.state == State::NoLines {
            return;
        }
        if PACKED.iter().any(|magic| self.pending.starts_with(magic)) {
            self.state = State::NoLines;
            return;
        }
        let head = &self.pending[..self.pending.len().min(HEAD)];
        let found = self
            .forced
            .or_else(|| best_of(head).map(|(format, _)| format));
        self.sure = head.len() == HEAD;
        match found.map(|format| (format, format.reader)) {
            Some((format, Reader::Lines(make))) => {
                let reader = make(head);
                self.known = Some(Known { format, reader });
                self.state = State::Lines;
            }
            Some(_) if self.known.is_none() => self.state = State::NoLines,
            // A file without a head of its own goes on where the one before it ended.
            _ if self.known.is_some() => self.state = State::Lines,
            _ => self.forget(),
        }
    }

    /// Lets go of what no format knows, but for the last of it, which is looked at again.
    fn forget(&mut self) {
        self.sure = false;
        let whole = self.whole();
        if whole > HEAD {
            let middle = whole - HEAD / 2;
            let end = memchr::memchr(b'\n', &self.pending[middle..]);
            self.done_with(end.map_or(whole, |e| middle + e + 1));
            self.recognise();
        } else if self.pending.len() >= LONGEST_LINE {
            self.done_with(self.pending.len());
        }
    }

    /// The rows of the first pending bytes.
    fn parse(&self, whole: usize) -> Rows {
        let mut part = Rows::default();
        let Some(known) = &self.known else {
            return part;
        };
        let chunk = self.pending[..whole].to_vec();
        let chunk = holes::close(chunk, self.offset + whole as u64, &mut part);
        known.reader.chunk(&chunk, &mut part);
        crew::numbered(part, self.line)
    }

    fn done_with(&mut self, bytes: usize) {
        self.line += memchr::memchr_iter(b'\n', &self.pending[..bytes]).count() as u64;
        self.offset += bytes as u64;
        self.pending.drain(..bytes);
    }

    /// The last rows, with what only all of them tell put right, and their format.
    pub(super) fn rows(&self) -> Option<(&'static Ingester, Rows)> {
        let known = self.known.as_ref()?;
        let mut rows = self.rows.clone();
        rows.append(self.last.clone());
        known.reader.settle(&mut rows);
        (!rows.steps.is_empty()).then_some((known.format, rows))
    }

    /// All were looked at: lets go of rows once there are twice as many as are kept. Says whether it did.
    pub(super) fn trim(&mut self, keep: usize) -> bool {
        self.fresh = 0;
        let over = self.rows.steps.len() >= 2 * keep;
        if over {
            self.rows.keep_last(keep);
        }
        over
    }
}
