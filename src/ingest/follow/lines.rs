//! Lines as they come, turned into rows of which the last are kept.

use crate::ingest::open::{HEAD, LONGEST_LINE};
use crate::ingest::{Ingester, LineReader, Reader, best_of, crew, holes};
use crate::run::Rows;

/// Rows after which the format is settled; until then each new line may show another.
const SURE_ROWS: usize = 8;

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
pub(super) struct Lines {
    forced: Option<&'static Ingester>,
    known: Option<Known>,
    state: State,
    /// The file from its start, as long as its format is open; then a line that is not whole yet.
    pending: Vec<u8>,
    /// Bytes of the file before those that are pending.
    offset: u64,
    /// Number of the first pending line.
    line: u64,
    /// Rows of what is pending, as the format that fits best reads it.
    trial: Rows,
    rows: Rows,
    /// Rows that came since all were last looked at.
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
            pending: Vec::new(),
            offset: 0,
            line: 1,
            trial: Rows::default(),
            rows: Rows::default(),
            fresh: 0,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// What follows is the start of another file, or nothing: the last line is whole, whether it ends or not.
    pub(super) fn begin(&mut self) {
        if !self.pending.is_empty() && !self.pending.ends_with(b"\n") {
            self.push(b"\n");
        }
        let trial = std::mem::take(&mut self.trial);
        self.append(trial);
        self.pending.clear();
        (self.offset, self.line, self.state) = (0, 1, State::Open);
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        if self.offset == 0 && self.line == 1 && self.pending.starts_with(b"\xEF\xBB\xBF") {
            self.pending.drain(..3);
        }
        if self.state == State::Open {
            self.recognise();
        } else {
            self.advance();
        }
    }

    /// The last whole line's end.
    fn whole(&self) -> usize {
        memchr::memrchr(b'\n', &self.pending).map_or(0, |end| end + 1)
    }

    fn recognise(&mut self) {
        if PACKED.iter().any(|magic| self.pending.starts_with(magic)) {
            self.state = State::NoLines;
            return;
        }
        let head = &self.pending[..self.pending.len().min(HEAD)];
        let found = self
            .forced
            .or_else(|| best_of(head).map(|(format, _)| format));
        let whole = self.whole();
        match found.map(|format| (format, format.reader)) {
            Some((format, Reader::Lines(make))) => {
                let reader = make(&self.pending[..whole.min(HEAD)]);
                self.known = Some(Known { format, reader });
            }
            Some(_) if self.known.is_none() => {
                self.state = State::NoLines;
                return;
            }
            // A file without a head of its own goes on where the one before it ended.
            _ if self.known.is_some() => {}
            _ => return self.forget(),
        }
        self.trial = self.parse(whole);
        if self.trial.steps.len() >= SURE_ROWS || whole >= HEAD {
            let trial = std::mem::take(&mut self.trial);
            self.append(trial);
            self.done_with(whole);
            self.state = State::Lines;
        }
    }

    /// Lets go of what no format knows, but for the last of it, which is looked at again.
    fn forget(&mut self) {
        let whole = self.whole();
        if whole > HEAD {
            let middle = whole - HEAD / 2;
            let end = memchr::memchr(b'\n', &self.pending[middle..]);
            self.done_with(end.map_or(whole, |e| middle + e + 1));
            self.recognise();
        }
        self.bound();
    }

    fn advance(&mut self) {
        let whole = self.whole();
        if whole > 0 {
            let part = self.parse(whole);
            self.append(part);
            self.done_with(whole);
        }
        self.bound();
    }

    fn append(&mut self, part: Rows) {
        self.fresh += part.steps.len();
        self.rows.append(part);
    }

    /// Number of metrics.
    pub(super) fn columns(&self) -> usize {
        self.rows.columns().count()
    }

    /// Rows that came since all were last looked at.
    pub(super) fn fresh(&self) -> usize {
        self.fresh
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

    /// A line without end is let go of, or cut where a progress bar writes over itself.
    fn bound(&mut self) {
        if self.pending.len() < LONGEST_LINE {
            return;
        }
        if let Some(end) = memchr::memrchr(b'\r', &self.pending) {
            let part = self.parse(end + 1);
            self.append(part);
            self.done_with(end + 1);
            return;
        }
        let lost = self.pending.len();
        self.rows.lose(
            format!("line {}", self.line),
            format!("a line of more than {lost} bytes is too long to be a row"),
        );
        self.done_with(lost);
    }

    /// The last rows, with what only all of them tell put right, and their format.
    pub(super) fn rows(&self) -> Option<(&'static Ingester, Rows)> {
        let known = self.known.as_ref()?;
        let mut rows = self.rows.clone();
        rows.append(self.trial.clone());
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
