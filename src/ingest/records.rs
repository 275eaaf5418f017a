//! What readers of short records share: the walk over the pieces of a chunk, and a cursor over one record.

mod per_rank;

use std::marker::PhantomData;

use crate::ingest::LineReader;
use crate::ingest::fields;
use crate::ingest::number;
use crate::ingest::peel;
use crate::ingest::text;
use crate::run::Column;
use crate::run::EventKind;
use crate::run::Rows;

/// A piece of a line, without colours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    /// Number of the line in the chunk.
    pub(super) line: u64,
    /// What stands in it, for records that may begin anywhere.
    pub(super) text: &'a [u8],
    /// What the program itself printed, for records that begin a line.
    pub(super) own: &'a [u8],
    /// The time that a launcher or a logger put before it, in milliseconds since 1970.
    pub(super) time: Option<f64>,
    /// The rank or task that a launcher put before it.
    pub(super) rank: Option<u32>,
    /// Whether the log ends in it without a line end: its last value may be cut off.
    pub(super) open: bool,
}

/// Reads the records of one chunk. It keeps what one piece says of the next.
pub(super) trait Records: Default {
    /// Whether a step that several ranks print is to become one row here. False where the reader sees to it.
    const ONE_ROW_A_STEP: bool = true;

    /// Reads a piece.
    fn read(&mut self, piece: &Piece<'_>, rows: &mut Rows);

    /// Ends the chunk.
    fn finish(&mut self, rows: &mut Rows) {
        let _ = rows;
    }

    /// Corrects what only the whole log can tell.
    fn settle(rows: &mut Rows) {
        let _ = rows;
    }
}

/// A line reader made of a reader of records.
pub(super) struct Console<R>(PhantomData<fn() -> R>);

impl<R: Records + 'static> Console<R> {
    pub(super) fn boxed(_: &[u8]) -> Box<dyn LineReader> {
        Box::new(Self(PhantomData))
    }
}

impl<R: Records> LineReader for Console<R> {
    fn chunk(&self, chunk: &[u8], rows: &mut Rows) {
        let mut records = R::default();
        let (mut time, mut rank) = (Slot::default(), Slot::default());
        each_piece(chunk, |piece| {
            let before = rows.steps.len();
            records.read(&piece, rows);
            if rows.steps.len() == before {
                return;
            }
            if let Some(stamp) = piece.time {
                time.set(PREFIX_TIME, stamp, rows);
            }
            if let Some(number) = piece.rank {
                rank.set(per_rank::RANK, f64::from(number), rows);
            }
        });
        records.finish(rows);
    }

    fn settle(&self, rows: &mut Rows) {
        R::settle(rows);
        times(rows);
        if R::ONE_ROW_A_STEP {
            per_rank::join(rows);
        } else if rows.find(per_rank::RANK).is_some() {
            rows.put(per_rank::RANK, Column::default());
        }
    }
}

/// The times that stand before the records, until it is known whether the records have times of their own.
const PREFIX_TIME: &str = "\u{1}prefix-time";

/// A log whose records have no time has those of its launcher or its logger.
fn times(rows: &mut Rows) {
    let Some(slot) = rows.find(PREFIX_TIME) else {
        return;
    };
    let before = std::mem::take(rows.column_mut(slot));
    let own = rows.find("time").map(|s| rows.column(s));
    if !own.is_some_and(Column::has_values) {
        rows.put("time", before);
    }
}

/// Calls `each` with every piece of a chunk, its colours taken off.
pub(super) fn each_piece(chunk: &[u8], mut each: impl FnMut(Piece<'_>)) {
    let mut scratch = Vec::new();
    let end = chunk.as_ptr_range().end;
    let torn = chunk.last() != Some(&b'\n');
    text::pieces(chunk, |line, piece| {
        let open = torn && piece.as_ptr_range().end == end;
        let text = peel::plain(piece, &mut scratch);
        let peeled = peel::peel(text);
        each(Piece {
            line,
            text,
            own: peeled.rest,
            time: peeled.time,
            rank: peeled.rank,
            open,
        });
    });
}

/// How many pieces of the start of a log are records by `is_record`.
pub(super) fn count(head: &[u8], mut is_record: impl FnMut(&Piece<'_>) -> bool) -> usize {
    let mut found = 0;
    each_piece(head, |piece| found += usize::from(is_record(&piece)));
    found
}

/// Whether the start of a log has a piece that is a record by `is_record`.
pub(super) fn any(head: &[u8], mut is_record: impl FnMut(&Piece<'_>) -> bool) -> bool {
    let mut found = false;
    each_piece(head, |piece| found = found || is_record(&piece));
    found
}

/// Gives saves without a step that of the row before them. A save that rows follow is on disk: these trainers write it
/// before they go on.
pub(super) fn settle_saves(rows: &mut Rows) {
    let steps = &rows.steps;
    let saves = rows.marks.iter_mut();
    for mark in saves.filter(|m| m.kind == EventKind::SaveStarted) {
        let before = mark.row.checked_sub(1).map(|row| steps[row]);
        mark.step = mark.step.or(before);
        if mark.row < steps.len() {
            mark.kind = EventKind::Saved;
        }
    }
}

/// Marks what each save overwrites: these trainers keep one checkpoint.
pub(super) fn settle_overwritten(rows: &mut Rows) {
    let saves = rows.marks.iter().filter(|m| m.kind == EventKind::Saved);
    let saves: Vec<_> = saves.cloned().collect();
    for pair in saves.windows(2).filter(|p| p[0].step != p[1].step) {
        let mut gone = pair[0].clone();
        (gone.kind, gone.row) = (EventKind::Deleted, pair[1].row);
        rows.marks.push(gone);
    }
    rows.marks.sort_by_key(|m| m.row);
}

/// The slot of a column whose name is always the same, looked up once a chunk.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Slot(Option<usize>);

impl Slot {
    /// Sets the value of the last row.
    pub(super) fn set(&mut self, name: &str, value: f64, rows: &mut Rows) {
        let slot = *self.0.get_or_insert_with(|| rows.slot(name));
        rows.set(slot, value);
    }
}

/// Reads a record from left to right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    /// What is left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes a text that must come next.
    pub(super) fn eat(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text.as_bytes())?;
        Some(())
    }

    /// Goes behind the next place where a text stands.
    pub(super) fn find(&mut self, text: &str) -> Option<()> {
        self.rest = fields::after(self.rest, text)?;
        Some(())
    }

    /// Takes the spaces that come next.
    pub(super) fn spaces(&mut self) {
        let len = self.rest.iter().take_while(|b| **b == b' ').count();
        self.rest = &self.rest[len..];
    }

    /// Takes a counter, spaces before it included.
    pub(super) fn digits(&mut self) -> Option<u64> {
        self.spaces();
        let (value, len) = number::digits(self.rest)?;
        self.rest = &self.rest[len..];
        Some(value)
    }

    /// Takes a number, spaces before it and thousands commas in it included. `info` does not begin with one.
    pub(super) fn number(&mut self) -> Option<f64> {
        self.spaces();
        let (mut value, mut len) = number::leading(self.rest)?;
        let after = &self.rest[len..];
        if after.first().is_some_and(u8::is_ascii_alphabetic) && !value.is_finite() {
            return None;
        }
        if let [b',', group @ ..] = after
            && group.iter().take_while(|b| b.is_ascii_digit()).count() == 3
        {
            let inside = |b: &&u8| b.is_ascii_digit() || matches!(b, b',' | b'.');
            len += after.iter().take_while(inside).count();
            value = fields::amount(&self.rest[..len])?;
        }
        self.rest = &self.rest[len..];
        Some(value)
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Reads a log as chunks of so many lines each.
    pub(in crate::ingest) fn read_in<R: Records>(text: &[u8], lines: usize) -> Rows {
        let console: Console<R> = Console(PhantomData);
        let mut rows = Rows::default();
        let ends: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
        for part in ends.chunks(lines) {
            let mut next = Rows::default();
            console.chunk(&part.concat(), &mut next);
            rows.append(next);
        }
        console.settle(&mut rows);
        rows
    }

    /// Reads a log that is damaged in many ways: there must be an end to it.
    pub(in crate::ingest) fn survives<R: Records>(text: &[u8]) {
        let read = |bytes: &[u8]| drop(read_in::<R>(bytes, usize::MAX));
        fields::tests::damage(&read, text);
    }

    /// Reads a file that lies beside the project, if it is there.
    pub(in crate::ingest) fn shared(path: &str) -> Option<Vec<u8>> {
        std::fs::read(format!("{}/../shared/{path}", env!("CARGO_MANIFEST_DIR"))).ok()
    }

    /// A column.
    pub(in crate::ingest) fn column(rows: &Rows, name: &str) -> Vec<Option<f64>> {
        let column = rows.find(name).map(|s| rows.column(s));
        (0..rows.steps.len())
            .map(|r| column.and_then(|c| c.get(r)))
            .collect()
    }

    /// Checks the number of values, and the sum of the finite ones.
    pub(in crate::ingest) fn adds_up(rows: &Rows, name: &str, count: usize, sum: f64) {
        let values: Vec<f64> = column(rows, name).into_iter().flatten().collect();
        let got: f64 = values.iter().filter(|v| v.is_finite()).sum();
        assert_eq!(values.len(), count, "{name}");
        assert!(
            (got - sum).abs() <= 1e-9 * sum.abs().max(1.0),
            "{name}: {got}"
        );
    }

    /// Rows and steps of the marks of a kind.
    pub(in crate::ingest) fn marks(rows: &Rows, kind: EventKind) -> Vec<(usize, Option<u64>)> {
        let of_kind = rows.marks.iter().filter(|m| m.kind == kind);
        of_kind.map(|m| (m.row, m.step)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_piece_without_a_line_end_is_open() {
        let mut open = Vec::new();
        each_piece(b"a\rb\nc\rd", |p| open.push((p.text.to_vec(), p.open)));
        let expected = [("a", false), ("b", false), ("c", false), ("d", true)];
        assert_eq!(open, expected.map(|(t, o)| (t.as_bytes().to_vec(), o)));
        each_piece(b"a\n", |p| assert!(!p.open));
    }

    #[test]
    fn a_cursor_reads_numbers_and_not_words() {
        let mut cursor = Cursor::new(b"loss     -nan, info 1e-3ms 1,424.31 7,3");
        assert_eq!(cursor.eat("loss"), Some(()));
        assert!(cursor.number().is_some_and(f64::is_nan));
        assert_eq!(cursor.eat(", "), Some(()));
        assert_eq!(cursor.number(), None);
        assert_eq!(cursor.find("info"), Some(()));
        assert_eq!(cursor.number(), Some(0.001));
        assert_eq!(cursor.eat("ms"), Some(()));
        assert_eq!(cursor.number(), Some(1424.31));
        assert_eq!(cursor.number(), Some(7.0));
        assert_eq!(cursor.rest(), b",3");
        assert_eq!(Cursor::new(b" 12/3").digits(), Some(12));
    }

    #[test]
    fn a_save_is_on_disk_once_rows_follow() {
        let mut rows = Rows::default();
        for step in 1..4 {
            rows.begin(step);
            rows.mark(EventKind::SaveStarted, None, None);
        }
        settle_saves(&mut rows);
        settle_overwritten(&mut rows);
        let saved: Vec<_> = rows.marks.iter().map(|m| (m.step, m.kind)).collect();
        let expected = [
            (Some(1), EventKind::Saved),
            (Some(2), EventKind::Saved),
            (Some(1), EventKind::Deleted),
            (Some(3), EventKind::SaveStarted),
        ];
        assert_eq!(saved, expected);
    }
}
