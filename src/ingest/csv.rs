//! Tables in text: fields parted by commas, semicolons or tabs under a row of names, wide or long.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::ingest::number;
use crate::ingest::text;
use crate::ingest::{Ingester, LineReader, Reader};
use crate::run::{EventKind, Rows};
use crate::signal::{Aliases, Meaning, step_rank};
use crate::store::Long;

/// CSV, TSV and their like.
pub(super) const INGESTER: Ingester = Ingester {
    name: "csv",
    recognised_by: "a first line of names, one of them a step, parted by `,`, `;` or tabs",
    signals: &["any metric, by the alias table"],
    framework: None,
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Lines(|head| Box::new(Table::new(head))),
};

const SEPARATORS: [u8; 3] = *b",;\t";
/// Names under which long tables keep the name of a metric.
const NAME_COLUMNS: [&str; 6] = ["name", "tag", "metric", "key", "metric_name", "variable"];
/// Names of time columns that are not in the alias table.
const TIME_COLUMNS: [&str; 4] = ["wall time", "date", "datetime", "time_stamp"];
/// What writers put where there is no value.
const NO_VALUE: [&[u8]; 9] = [
    b"none", b"null", b"na", b"n/a", b"#n/a", b"<na>", b"nil", b"-", b"--",
];
/// Lines after the header that are looked at to tell a table from prose.
const LOOK_AT: usize = 20;
/// Damaged lines of a chunk that are told one by one.
const TOLD: usize = 5;
/// Changes of the header in one chunk that are followed.
const CHANGES: usize = 16;

static ALIASES: LazyLock<Aliases> = LazyLock::new(Aliases::built_in);

fn sniff(head: &[u8]) -> u8 {
    let Some(header) = Header::of_head(head) else {
        return 0;
    };
    let Below { lines, fitting } =
        Below::of(head, &header.line, header.separator, header.names.len());
    let number = |row: &[Cow<'_, [u8]>], at: usize| row.get(at).and_then(|f| number::number(f));
    let counted = fitting
        .iter()
        .filter(|row| number(row, header.step).is_some());
    if lines > 0 && 2 * counted.count() <= fitting.len() {
        return 0;
    }
    // Names alone tell nothing of a column that holds text.
    let holds_numbers =
        |at: usize| fitting.is_empty() || fitting.iter().any(|row| number(row, at).is_some());
    let others = |at: &usize| *at != header.step && holds_numbers(*at);
    let mut numbers = (0..header.names.len()).filter(others).peekable();
    if header.long.is_some() || numbers.clone().any(|at| is_signal(&header.names[at])) {
        60
    } else if numbers.peek().is_some() || header.comma {
        40
    } else {
        0
    }
}

/// The first lines under a header.
struct Below<'a> {
    /// How many were looked at.
    lines: usize,
    /// Fields of those that have as many as the header.
    fitting: Vec<Vec<Cow<'a, [u8]>>>,
}

impl<'a> Below<'a> {
    fn of(head: &'a [u8], header: &[u8], separator: u8, names: usize) -> Self {
        let under = lines(without_mark(head))
            .skip_while(|l| *l != header)
            .skip(1);
        let rows: Vec<Vec<_>> = under
            .take(LOOK_AT)
            .map(|l| fields(l, separator).collect())
            .collect();
        let lines = rows.len();
        let fitting = rows.into_iter().filter(|r| r.len() == names).collect();
        Self { lines, fitting }
    }
}

/// What a table lacks that is not taken for a log; nothing if it is no table.
pub(super) fn lacks(head: &[u8]) -> Option<String> {
    const SHOWN: usize = 12;
    let line = lines(without_mark(head)).next()?;
    let (separator, names) = SEPARATORS.into_iter().find_map(|separator| {
        let names: Vec<_> = fields(line, separator).collect();
        let below = Below::of(head, line, separator, names.len());
        let table =
            names.len() > 1 && !below.fitting.is_empty() && 2 * below.fitting.len() >= below.lines;
        table.then_some((separator, names))
    })?;
    let named = |names: &[Cow<'_, [u8]>]| {
        let shown = names.iter().take(SHOWN).map(|n| text::excerpt(n));
        let more = if names.len() > SHOWN { ", …" } else { "" };
        shown.collect::<Vec<_>>().join(", ") + more
    };
    Some(match Header::parse(line, separator) {
        Some(header) => format!(
            "a table whose column `{}` does not count steps; its columns are {}",
            header.names[header.step],
            named(&names)
        ),
        None if names.iter().any(|n| number::number(n).is_some()) => {
            "a table without a line of names; put one above it, with `step` among them".to_owned()
        }
        None => format!(
            "a table without a column of steps; if it is a log, name one of its columns `step`: {}",
            named(&names)
        ),
    })
}

fn is_signal(name: &str) -> bool {
    let family = |signal: &str| signal != "time" && signal != "epoch";
    matches!(ALIASES.meaning(name), Meaning::Signal { name, .. } if family(&name))
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

/// Lines that are not empty, without their ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = bytes
        .split(|b| *b == b'\n')
        .map(|l| l.strip_suffix(b"\r").unwrap_or(l));
    whole.filter(|l| !l.trim_ascii().is_empty())
}

/// The fields of a line, quotes taken off.
fn fields(line: &[u8], separator: u8) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut at = Some(0);
    std::iter::from_fn(move || {
        let (field, end) = field(line, at?, separator);
        at = (end < line.len()).then_some(end + 1);
        Some(field)
    })
}

/// The field that starts at a place, and where it ends.
fn field(line: &[u8], at: usize, separator: u8) -> (Cow<'_, [u8]>, usize) {
    let rest = &line[at..];
    let space = rest.iter().take_while(|b| **b == b' ').count();
    if rest.get(space) == Some(&b'"') {
        return quoted(line, at + space + 1, separator);
    }
    let len = memchr::memchr(separator, rest).unwrap_or(rest.len());
    (Cow::Borrowed(rest[..len].trim_ascii()), at + len)
}

/// A quoted field whose inside starts at a place. Quotes inside are doubled; what stands between the closing quote
/// and the separator is left out. An open quote ends with the line.
fn quoted(line: &[u8], start: usize, separator: u8) -> (Cow<'_, [u8]>, usize) {
    let mut at = start;
    let mut doubled = false;
    let close = loop {
        match memchr::memchr(b'"', &line[at..]) {
            Some(offset) if line.get(at + offset + 1) == Some(&b'"') => {
                doubled = true;
                at += offset + 2;
            }
            Some(offset) => break at + offset,
            None => break line.len(),
        }
    };
    let after = line.get(close + 1..).unwrap_or_default();
    let end = memchr::memchr(separator, after).map_or(line.len(), |offset| close + 1 + offset);
    let inside = &line[start..close];
    if !doubled {
        return (Cow::Borrowed(inside), end);
    }
    let mut single = Vec::with_capacity(inside.len());
    let mut quote_before = false;
    for byte in inside {
        quote_before = *byte == b'"' && !quote_before;
        if !quote_before {
            single.push(*byte);
        }
    }
    (Cow::Owned(single), end)
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Skip,
    Step,
    Metric,
    Time,
    /// Names of metrics, in a long table.
    Names,
}

/// The row of names.
#[derive(Debug, Clone)]
struct Header {
    line: Vec<u8>,
    separator: u8,
    names: Vec<String>,
    roles: Vec<Role>,
    step: usize,
    long: Option<LongColumns>,
    /// Whether numbers are written with a decimal comma.
    comma: bool,
}

/// Places of the columns of a long table.
#[derive(Debug, Clone, Copy)]
struct LongColumns {
    names: usize,
    value: usize,
    time: Option<usize>,
}

impl Header {
    /// The header of a source, from its first bytes.
    fn of_head(head: &[u8]) -> Option<Self> {
        let head = without_mark(head);
        let line = lines(head).next()?;
        let mut header = SEPARATORS
            .into_iter()
            .find_map(|separator| Self::parse(line, separator))?;
        header.comma = header.separator != b',' && header.commas(head);
        Some(header)
    }

    /// Reads a line as names, one of them the step and none of them a number.
    fn parse(line: &[u8], separator: u8) -> Option<Self> {
        let names: Vec<String> = fields(line, separator)
            .map(|f| String::from_utf8(f.into_owned()).ok())
            .collect::<Option<_>>()?;
        if names.len() < 2 || names.iter().any(|n| number::number(n.as_bytes()).is_some()) {
            return None;
        }
        let step = step_column(&names)?;
        let long = long_columns(&names);
        let mut seen = HashSet::new();
        let roles = names
            .iter()
            .enumerate()
            .map(|(at, name)| role(at, name, step, long, seen.insert(name)))
            .collect();
        Some(Self {
            line: line.to_vec(),
            separator,
            names,
            roles,
            step,
            long,
            comma: false,
        })
    }

    /// Whether the numbers below have decimal commas: none has a decimal point.
    fn commas(&self, head: &[u8]) -> bool {
        let mut numbers = lines(head)
            .skip(1)
            .take(LOOK_AT)
            .flat_map(|line| fields(line, self.separator));
        !numbers.any(|f| f.contains(&b'.') && number::number(&f).is_some())
    }
}

/// The best of the names that count steps.
fn step_column(names: &[String]) -> Option<usize> {
    let ranked = names
        .iter()
        .enumerate()
        .filter_map(|(at, name)| Some((step_rank(name)?, at)));
    ranked.min().map(|(_, at)| at)
}

fn long_columns(names: &[String]) -> Option<LongColumns> {
    let find = |known: &[&str]| {
        names
            .iter()
            .position(|n| known.iter().any(|k| n.eq_ignore_ascii_case(k)))
    };
    Some(LongColumns {
        names: find(&NAME_COLUMNS)?,
        value: find(&["value"])?,
        time: names.iter().position(|n| is_time(n, &ALIASES.meaning(n))),
    })
}

fn is_time(name: &str, meaning: &Meaning) -> bool {
    let known = matches!(meaning, Meaning::Signal { name, .. } if name == "time");
    known || TIME_COLUMNS.iter().any(|t| name.eq_ignore_ascii_case(t))
}

/// `first`: no column before has this name.
fn role(at: usize, name: &str, step: usize, long: Option<LongColumns>, first: bool) -> Role {
    if at == step {
        return Role::Step;
    }
    if let Some(long) = long {
        return match at {
            _ if at == long.names => Role::Names,
            _ if at == long.value => Role::Metric,
            _ if Some(at) == long.time => Role::Time,
            _ => Role::Skip,
        };
    }
    match ALIASES.meaning(name) {
        Meaning::Drop | Meaning::Step => Role::Skip,
        // Of two columns of one name the first counts.
        _ if !first => Role::Skip,
        meaning if is_time(name, &meaning) => Role::Time,
        _ => Role::Metric,
    }
}

/// Reads the rows under a header.
struct Table {
    header: Option<Header>,
    seen: Mutex<Seen>,
}

/// What the chunks have in common.
#[derive(Default)]
struct Seen {
    /// Cells of a column that are not numbers.
    text: BTreeMap<String, u64>,
    /// Metric names of a long table, and their numbers.
    names: Vec<String>,
    index: HashMap<Vec<u8>, u32>,
}

/// Columns of a long table until it is turned into rows.
const LONG: [&str; 3] = ["name", "value", "wall_time"];

impl Table {
    fn new(head: &[u8]) -> Self {
        Self {
            header: Header::of_head(head),
            seen: Mutex::default(),
        }
    }

    /// A thread that panicked elsewhere leaves counts behind that are still good.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineReader for Table {
    fn chunk(&self, chunk: &[u8], rows: &mut Rows) {
        let Some(header) = &self.header else {
            rows.lose("line +0", "there is no row of names with a step among them");
            return;
        };
        let cut = chunk.last().is_some_and(|b| *b != b'\n');
        let mut part = Part::new(self, header, rows);
        let (mut start, mut line) = (0, 0);
        while start < chunk.len() {
            let end = memchr::memchr(b'\n', &chunk[start..]).map_or(chunk.len(), |i| start + i);
            let text = &chunk[start..end];
            part.line(
                text.strip_suffix(b"\r").unwrap_or(text),
                line,
                cut && end == chunk.len(),
            );
            start = end + 1;
            line += 1;
        }
        part.finish();
    }

    fn settle(&self, rows: &mut Rows) {
        // The header at the top is no restart.
        rows.marks
            .retain(|m| m.row > 0 || m.kind != EventKind::Start);
        let seen = self.seen();
        for (name, count) in &seen.text {
            let numbers = rows
                .find(name)
                .is_some_and(|slot| rows.column(slot).has_values());
            if numbers || is_signal(name) {
                rows.lose(
                    format!("column `{name}`"),
                    format!("{count} cells are text, not numbers; left out"),
                );
            }
        }
        if self.header.as_ref().is_some_and(|h| h.long.is_some()) {
            pivot(&seen.names, rows);
        }
    }
}

/// Turns the lines of a long table, read as rows of [`LONG`], into rows.
fn pivot(names: &[String], rows: &mut Rows) {
    let lines = std::mem::take(rows);
    let column = |name: &str| lines.find(name).map(|slot| lines.column(slot));
    let mut long = Long::default();
    let numbers: Vec<u32> = names.iter().map(|n| long.name(n)).collect();
    for (row, step) in lines.steps.iter().enumerate() {
        let get = |at: usize| column(LONG[at]).and_then(|c| c.get(row));
        if let (Some(name), Some(value)) = (get(0), get(1)) {
            long.push(*step, numbers[name as usize], value, get(2));
        }
    }
    rows.take_over(&lines);
    rows.facts.clone_from(&lines.facts);
    long.pivot(&ALIASES, rows);
}

/// A cell as far as it is read.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    Empty,
    Number(f64),
    Text,
}

/// The reading of one chunk.
struct Part<'a> {
    table: &'a Table,
    rows: &'a mut Rows,
    header: Cow<'a, Header>,
    /// Slot of each column, for those that are kept.
    slots: Vec<Option<usize>>,
    /// Cells of the line, one a column.
    cells: Vec<Cell>,
    /// Cells of each column that are not numbers.
    text: Vec<u64>,
    /// Metric names of a long table that this chunk has met.
    names: HashMap<Vec<u8>, u32>,
    changes: usize,
    told: usize,
    untold: usize,
}

impl<'a> Part<'a> {
    fn new(table: &'a Table, header: &'a Header, rows: &'a mut Rows) -> Self {
        let mut part = Self {
            table,
            rows,
            header: Cow::Borrowed(header),
            slots: Vec::new(),
            cells: Vec::new(),
            text: Vec::new(),
            names: HashMap::new(),
            changes: 0,
            told: 0,
            untold: 0,
        };
        part.resolve();
        part
    }

    /// Gives the columns of the header their slots.
    fn resolve(&mut self) {
        let columns = self.header.names.iter().zip(&self.header.roles);
        self.slots = match self.header.long {
            Some(long) => {
                let slots = LONG.map(|name| self.rows.slot(name));
                let at = |column| {
                    [Some(long.names), Some(long.value), long.time]
                        .iter()
                        .position(|c| *c == Some(column))
                };
                (0..self.header.names.len())
                    .map(|column| at(column).map(|i| slots[i]))
                    .collect()
            }
            None => columns
                .map(|(name, role)| {
                    matches!(role, Role::Metric | Role::Time).then(|| self.rows.slot(name))
                })
                .collect(),
        };
        self.cells = vec![Cell::Empty; self.slots.len()];
        self.text = vec![0; self.slots.len()];
    }

    fn line(&mut self, line: &[u8], number: u64, cut: bool) {
        let count = self.read(line);
        if count == 1 && line.trim_ascii().is_empty() {
            return;
        }
        let width = self.cells.len();
        // In a line that is cut the last field may be, too.
        let whole = if cut && count < width {
            count - 1
        } else {
            count
        };
        self.cells[whole.min(width)..].fill(Cell::Empty);
        let step = match self.cells[self.header.step] {
            Cell::Number(value) => number::step(value),
            _ => None,
        };
        match step {
            Some(step) if count == width => self.keep(step),
            Some(step) if cut && count < width => {
                self.keep(step);
                self.lose(
                    number,
                    format!("the last line is cut: {whole} of {width} fields were kept"),
                );
            }
            None if self.is_header(line, number) => {}
            _ if cut && count < width => {
                self.lose(number, "the last line is cut before its step".to_owned());
            }
            Some(_) => self.lose(
                number,
                format!(
                    "{count} fields under {width} names: `{}`",
                    text::excerpt(line)
                ),
            ),
            None => self.lose(
                number,
                format!("no step that counts: `{}`", text::excerpt(line)),
            ),
        }
    }

    /// Reads the cells of a line and counts its fields; empty ones past the last name do not count.
    fn read(&mut self, line: &[u8]) -> usize {
        let (mut at, mut count, mut filled) = (0, 0, 0);
        loop {
            let role = self.header.roles.get(count).copied();
            let (cell, end) = self.cell(line, at, role);
            if let Some(place) = self.cells.get_mut(count) {
                *place = cell;
            }
            count += 1;
            if count <= self.cells.len() || cell != Cell::Empty {
                filled = count;
            }
            if end >= line.len() {
                return filled;
            }
            at = end + 1;
        }
    }

    fn cell(&mut self, line: &[u8], at: usize, role: Option<Role>) -> (Cell, usize) {
        let separator = self.header.separator;
        if let Some(Role::Skip) = role {
            return (Cell::Empty, field(line, at, separator).1);
        }
        // The name of a metric can look like a number.
        if role != Some(Role::Names)
            && let Some((value, len)) = number::leading(&line[at..])
            && line.get(at + len).is_none_or(|b| *b == separator)
        {
            return (Cell::Number(value), at + len);
        }
        let (field, end) = field(line, at, separator);
        if role == Some(Role::Names) {
            return (self.name(&field), end);
        }
        (
            other_cell(&field, self.header.comma, role == Some(Role::Time)),
            end,
        )
    }

    /// The number of a metric name, as a cell.
    fn name(&mut self, name: &[u8]) -> Cell {
        let known = self.names.get(name).copied();
        let number = known.unwrap_or_else(|| {
            let mut seen = self.table.seen();
            let number = seen.index.get(name).copied().unwrap_or_else(|| {
                let number = u32::try_from(seen.names.len()).unwrap_or(u32::MAX);
                seen.names.push(String::from_utf8_lossy(name).into_owned());
                seen.index.insert(name.to_vec(), number);
                number
            });
            self.names.insert(name.to_vec(), number);
            number
        });
        Cell::Number(f64::from(number))
    }

    fn keep(&mut self, step: u64) {
        self.rows.begin(step);
        for (at, cell) in self.cells.iter().enumerate() {
            match (cell, self.slots[at]) {
                (Cell::Number(value), Some(slot)) => self.rows.set(slot, *value),
                (Cell::Text, Some(_)) => self.text[at] += 1,
                _ => {}
            }
        }
    }

    /// Whether a line is a row of names: the one at the top again, after a restart, or another one.
    fn is_header(&mut self, line: &[u8], number: u64) -> bool {
        if line == self.header.line {
            self.rows.mark(EventKind::Start, None, None);
            return true;
        }
        if self.cells[self.header.step] != Cell::Text
            || self.header.long.is_some()
            || self.changes >= CHANGES
        {
            return false;
        }
        let Some(mut header) =
            Header::parse(line, self.header.separator).filter(|h| h.long.is_none())
        else {
            return false;
        };
        self.changes += 1;
        self.count_text();
        header.comma = self.header.comma;
        self.header = Cow::Owned(header);
        self.resolve();
        let what = "the names of the columns change here: the rows up to some 4 MB further were read by the new ones, \
                    later ones by the first; cut the file here and give both parts";
        self.rows.lose(text::place(number), what);
        true
    }

    fn lose(&mut self, line: u64, what: String) {
        if self.told < TOLD {
            self.told += 1;
            self.rows.lose(text::place(line), what);
        } else {
            self.untold += 1;
        }
    }

    fn count_text(&mut self) {
        let columns = self
            .header
            .names
            .iter()
            .zip(&self.text)
            .filter(|(_, count)| **count > 0);
        let mut seen = self.table.seen();
        columns.for_each(|(name, count)| *seen.text.entry(name.clone()).or_default() += count);
    }

    fn finish(mut self) {
        self.count_text();
        if self.untold > 0 {
            let what = format!(
                "{} more lines of this part of the file could not be read",
                self.untold
            );
            self.rows.lose("line +0", what);
        }
    }
}

/// A field that is not simply a number.
fn other_cell(field: &[u8], comma: bool, time: bool) -> Cell {
    if field.is_empty() || NO_VALUE.iter().any(|n| field.eq_ignore_ascii_case(n)) {
        return Cell::Empty;
    }
    if comma && let Some(value) = with_comma(field) {
        return Cell::Number(value);
    }
    if let Some(value) = number::number(field) {
        return Cell::Number(value);
    }
    match field {
        b"true" | b"True" | b"TRUE" => Cell::Number(1.0),
        b"false" | b"False" | b"FALSE" => Cell::Number(0.0),
        _ if time => text::moment(field).map_or(Cell::Text, Cell::Number),
        _ => Cell::Text,
    }
}

/// A number with a decimal comma, and points between the thousands if any.
fn with_comma(field: &[u8]) -> Option<f64> {
    const LONGEST: usize = 48;
    let mut plain = [0_u8; LONGEST];
    let mut len = 0;
    for byte in field.iter().filter(|b| **b != b'.') {
        *plain.get_mut(len)? = if *byte == b',' { b'.' } else { *byte };
        len += 1;
    }
    fast_float2::parse(&plain[..len])
        .ok()
        .filter(|_| field.contains(&b','))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parsed(text: &str) -> Rows {
        let mut rows = Rows::default();
        let table = Table::new(text.as_bytes());
        table.chunk(without_mark(text.as_bytes()), &mut rows);
        table.settle(&mut rows);
        rows
    }

    fn sample(name: &str) -> Option<Rows> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../shared/samples")
            .join(name);
        let text = std::fs::read_to_string(path).ok()?;
        assert_eq!(sniff(text.as_bytes()), 60, "{name}");
        Some(parsed(&text))
    }

    fn values(rows: &Rows, name: &str) -> Vec<Option<f64>> {
        let column = rows.column(rows.find(name).expect("a column"));
        (0..rows.steps.len()).map(|row| column.get(row)).collect()
    }

    #[test]
    fn what_is_no_log_is_told() {
        let manifest = "file\tformat\tnotes\na.log\tmegatron\tx\nb.log\tcsv\ty\n";
        assert_eq!(sniff(manifest.as_bytes()), 0);
        assert_eq!(
            lacks(manifest.as_bytes()).as_deref(),
            Some(
                "a table without a column of steps; if it is a log, name one of its columns `step`: file, format, notes"
            )
        );
        let text = "step,loss,file\nfirst,n/a,a.log\nsecond,n/a,b.log\n";
        assert_eq!(sniff(text.as_bytes()), 0);
        assert_eq!(
            lacks(text.as_bytes()).as_deref(),
            Some(
                "a table whose column `step` does not count steps; its columns are step, loss, file"
            )
        );
        let files = "step,file\n1,a.log\n2,b.log\n";
        assert_eq!(sniff(files.as_bytes()), 0, "no numbers");
        assert_eq!(
            lacks("1,2.5\n2,2.25\n".as_bytes()).as_deref(),
            Some("a table without a line of names; put one above it, with `step` among them")
        );
        assert_eq!(
            lacks(b"Some prose, with commas.\n\nAnd more of it.\n"),
            None
        );
        assert_eq!(sniff(b"step,accuracy\n1,0.5\n"), 40);
        assert_eq!(sniff(b"step,loss\n1,0.5\n"), 60);
        assert_eq!(sniff(b"step,loss\n"), 60, "nothing logged yet");
        assert_eq!(sniff("step;loss\n1;0,5\n".as_bytes()), 60);
    }

    #[test]
    fn pandas_samples() {
        for name in [
            "pandas_default.csv",
            "pandas_noindex.csv",
            "pandas.tsv",
            "pandas_eu.csv",
        ] {
            let Some(rows) = sample(&format!("generic/{name}")) else {
                return;
            };
            assert_eq!(rows.steps, [1, 2, 3], "{name}");
            assert_eq!(
                values(&rows, "loss"),
                [Some(3.0), None, Some(f64::INFINITY)],
                "{name}"
            );
            assert_eq!(
                values(&rows, "grad_norm"),
                [Some(1.0), Some(2.0), Some(f64::NEG_INFINITY)],
                "{name}"
            );
            assert_eq!(
                values(&rows, "lr"),
                [Some(0.0001), Some(1e-7), Some(1.234_567_890_123_456_8e-5)],
                "{name}"
            );
            assert_eq!(
                (rows.columns().count(), rows.losses.len()),
                (3, 0),
                "{name}"
            );
        }
    }

    #[test]
    fn a_metric_of_a_long_table_can_be_called_a_number() {
        let rows = parsed("step,name,value\n1,5,2.5\n1,loss,3\n2,5,1.5\n2,nan,1\n2,,7\n");
        assert_eq!(rows.steps, [1, 2]);
        assert_eq!(values(&rows, "5"), [Some(2.5), Some(1.5)]);
        assert_eq!(values(&rows, "loss"), [Some(3.0), None]);
        assert_eq!(values(&rows, "nan"), [None, Some(1.0)]);
    }

    #[test]
    fn deepspeed_repeats_its_header_at_a_restart() {
        let Some(rows) = sample("deepspeed_csv/job/Train_Samples_train_loss.csv") else {
            return;
        };
        assert_eq!(rows.steps, [512, 1024, 1536, 1024, 1536, 2048]);
        assert!(values(&rows, "train_loss")[1].is_some_and(f64::is_nan));
        assert_eq!(
            rows.marks
                .iter()
                .map(|m| (m.row, m.kind))
                .collect::<Vec<_>>(),
            [(3, EventKind::Start)]
        );
        assert!(rows.losses.is_empty());
    }

    #[test]
    fn lightning_rows_are_sparse() {
        let Some(rows) = sample("lightning_csv/lightning_logs/version_0/metrics.csv") else {
            return;
        };
        assert_eq!(rows.steps, [49, 99, 99, 149, 199]);
        assert_eq!(
            values(&rows, "val_loss"),
            [None, None, Some(2.5), None, None]
        );
        assert_eq!(values(&rows, "lr-Adam")[3], Some(0.0001));
    }

    #[test]
    fn quotes_and_words() {
        let text = "\u{feff}\"Step\",\"run - train/loss\",\"run - train/loss__MIN\",\"a \"\"b\"\", c\",when,timestamp\r\n\
                    10.0,\" 1.5\",0,None,x,2026-03-01T12:00:00Z\r\n\"20\",nan,0,\"1,234.5\",y,2026-03-01 12:00:01\r\n";
        assert_eq!(sniff(text.as_bytes()), 60);
        let rows = parsed(text);
        assert_eq!(rows.steps, [10, 20]);
        let loss = values(&rows, "run - train/loss");
        assert!(loss[0] == Some(1.5) && loss[1].is_some_and(f64::is_nan));
        assert_eq!(values(&rows, "a \"b\", c"), [None, Some(1234.5)]);
        assert_eq!(
            values(&rows, "timestamp"),
            [Some(1_772_366_400_000.0), Some(1_772_366_401_000.0)]
        );
        assert!(rows.find("run - train/loss__MIN").is_none());
        assert!(
            rows.losses.is_empty(),
            "a column of text alone is no loss: {:?}",
            rows.losses
        );
    }

    #[test]
    fn damage_is_told_and_reading_goes_on() {
        let rows = parsed(
            "step,loss,lr\n1,3.0,0.1\n2,2.9\n3,bad,0.1\n\n,2.8,0.1\n-4,1,1\n5,1,1,9\n6,1,1,\n7,2.5,0.0",
        );
        assert_eq!(rows.steps, [1, 3, 6, 7]);
        assert_eq!(
            values(&rows, "loss"),
            [Some(3.0), None, Some(1.0), Some(2.5)]
        );
        let places: Vec<&str> = rows.losses.iter().map(|l| l.place.as_str()).collect();
        assert_eq!(
            places,
            ["line +2", "line +5", "line +6", "line +7", "column `loss`"]
        );
    }

    #[test]
    fn a_cut_last_line_keeps_the_fields_before_the_cut() {
        let rows = parsed("step,loss,lr\n1,3.0,0.1\n2,2.5,0");
        assert_eq!(values(&rows, "lr"), [Some(0.1), Some(0.0)]);
        let rows = parsed("step,loss,grad_norm,lr\n1,3.0,1.0,0.1\n2,2.5,0");
        assert_eq!(rows.steps, [1, 2]);
        assert_eq!(
            (values(&rows, "loss")[1], values(&rows, "grad_norm")[1]),
            (Some(2.5), None)
        );
        assert_eq!(rows.losses.len(), 1);
        assert_eq!(parsed("step,loss\n1,3.0\n12").steps, [1]);
    }

    #[test]
    fn a_new_header_is_followed() {
        let rows = parsed("step,loss\n1,3.0\nloss,lr,step\n2.0,0.1,2\n");
        assert_eq!(rows.steps, [1, 2]);
        assert_eq!(values(&rows, "loss"), [Some(3.0), Some(2.0)]);
        assert_eq!(rows.losses.len(), 1);
    }

    #[test]
    fn long_tables_become_wide() {
        let text = "wall_time,step,tag,value\n10.5,1,loss,3.0\n10.6,1,lr,nan\n11.5,2,loss,2.0\n11.6,2,lr,\n";
        assert_eq!(sniff(text.as_bytes()), 60);
        let rows = parsed(text);
        assert_eq!(rows.steps, [1, 2]);
        assert_eq!(values(&rows, "loss"), [Some(3.0), Some(2.0)]);
        assert!(values(&rows, "lr")[0].is_some_and(f64::is_nan));
        assert_eq!(values(&rows, "lr")[1], None);
        assert_eq!(values(&rows, "wall_time"), [Some(10.5), Some(11.5)]);
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "{\"step\": 1, \"loss\": 2}\n",
            "step, loss and more are logged\nhello\n",
            "a,b\n1,2\n",
            "1,2\n",
            "",
        ] {
            assert_eq!(sniff(text.as_bytes()), 0, "{text}");
        }
        assert_eq!(sniff(b"step,foo\n1,2\n"), 40);
        assert_eq!(sniff(b"step,loss\n"), 60);
    }
}
