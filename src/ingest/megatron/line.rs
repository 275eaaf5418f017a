//! The iteration line: ` [time] iteration N/M | key: value | … |`. The hot path of the format.

use memchr::memmem::Finder;

use crate::ingest::megatron::TORN;
use crate::ingest::number;
use crate::ingest::text;
use crate::run::Rows;

const ANCHOR: &[u8] = b"iteration";
/// The most steps that a float holds exactly.
const MOST_STEPS: u64 = 1 << 53;
/// The most field names a chunk may have: garbage must not grow the table without end.
const MOST_KEYS: usize = 512;
/// The most unreadable fields of a chunk that are told one by one.
const MOST_TOLD: usize = 20;
const DAY: f64 = 86_400_000.0;

/// Finds the word that every record has.
pub(super) fn anchor() -> Finder<'static> {
    Finder::new(ANCHOR)
}

/// The start of a record.
pub(super) struct Header {
    /// Where its word `iteration` stands.
    start: usize,
    /// Where its fields begin.
    body: usize,
    step: u64,
}

/// The next start of a record, at any place in the line: ranks write over each other.
pub(super) fn header(anchor: &Finder<'_>, line: &[u8], from: usize) -> Option<Header> {
    let mut at = from;
    while let Some(found) = anchor.find(&line[at..]) {
        let start = at + found;
        at = start + ANCHOR.len();
        if let Some((step, len)) = counter(&line[at..])
            && stands_free(&line[..start])
        {
            return Some(Header {
                start,
                body: at + len,
                step,
            });
        }
    }
    None
}

/// ` N/M |` or, in one dialect, `= N/M |`.
fn counter(bytes: &[u8]) -> Option<(u64, usize)> {
    let rest = trim(bytes.strip_prefix(b"=").unwrap_or(bytes));
    let (step, len) = number::digits(rest).filter(|(step, _)| *step <= MOST_STEPS)?;
    let rest = trim(trim(&rest[len..]).strip_prefix(b"/")?);
    let (_, len) = number::digits(rest)?;
    let rest = trim(&rest[len..]).strip_prefix(b"|")?;
    Some((step, bytes.len() - rest.len()))
}

/// Not the end of another word, and not `NeMo`'s `Training epoch 0, iteration 1/9 |`.
fn stands_free(before: &[u8]) -> bool {
    let word = before
        .last()
        .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    !word && !before.ends_with(b", ")
}

fn trim(bytes: &[u8]) -> &[u8] {
    &bytes[spaces(bytes)..]
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().position(|b| *b != b' ').unwrap_or(bytes.len())
}

/// A field name that was seen in the chunk.
struct Key {
    /// The name and what parts it from the value.
    text: Vec<u8>,
    slot: usize,
    /// The key that followed last time, 0 if none did.
    next: usize,
    /// Whether it is the counter that closes a record.
    closes: bool,
}

/// Reads the records of a chunk.
pub(super) struct Lines {
    anchor: Finder<'static>,
    /// The first stands for the start of a record.
    keys: Vec<Key>,
    previous: usize,
    day: ([u8; 10], f64),
    time: Option<usize>,
    rate: Option<usize>,
    line: u64,
    /// Whether the record's last counter was read.
    closed: bool,
    /// Whether a field of the record could not be read.
    torn: bool,
    told: usize,
    untold: usize,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self {
            anchor: anchor(),
            keys: vec![Key {
                text: Vec::new(),
                slot: 0,
                next: 0,
                closes: false,
            }],
            previous: 0,
            day: ([0; 10], 0.0),
            time: None,
            rate: None,
            line: 0,
            closed: false,
            torn: false,
            told: 0,
            untold: 0,
        }
    }

    /// Reads the records of a line. Returns whether it is nothing but whole records.
    pub(super) fn read(&mut self, number: u64, line: &[u8], rows: &mut Rows) -> bool {
        let (mut from, mut records, mut torn) = (0, 0, false);
        self.line = number;
        while let Some(header) = header(&self.anchor, line, from) {
            rows.begin(header.step);
            self.prefix(&line[from..header.start], rows);
            from = self.fields(line, header.body, rows);
            records += 1;
            torn |= self.torn;
            if self.torn && self.closed {
                let slot = rows.slot(TORN);
                rows.set(slot, 1.0);
            }
        }
        records > 0 && !torn
    }

    /// Tells of what was not told one by one.
    pub(super) fn finish(&self, rows: &mut Rows) {
        if self.untold > 0 {
            let what = format!("{} more fields up to here are not numbers", self.untold);
            rows.lose(text::place(self.line), what);
        }
    }

    /// Reads the fields from `at` on. Returns where the record ends.
    fn fields(&mut self, line: &[u8], mut at: usize, rows: &mut Rows) -> usize {
        (self.previous, self.closed, self.torn) = (0, false, false);
        loop {
            at += spaces(&line[at..]);
            let rest = &line[at..];
            if let Some(len) = self.known(rest, rows) {
                at += len;
                continue;
            }
            let Some(end) = memchr::memchr(b'|', rest) else {
                self.tail(rest, rows);
                return line.len();
            };
            if !self.learn(&rest[..end], rows) {
                let next = header(&self.anchor, &rest[..=end], 0);
                if next.is_none() || !self.closed {
                    self.lose(&rest[..end], rows);
                }
                if next.is_some() {
                    return at;
                }
            }
            at += end + 1;
        }
    }

    /// Reads a field whose name was seen before. Fields come in the same order line after line.
    fn known(&mut self, rest: &[u8], rows: &mut Rows) -> Option<usize> {
        let mut at = self.keys[self.previous].next;
        if at == 0 || !rest.starts_with(&self.keys[at].text) {
            at = (1..self.keys.len()).find(|k| rest.starts_with(&self.keys[*k].text))?;
            self.keys[self.previous].next = at;
        }
        let key = &self.keys[at];
        let start = key.text.len() + spaces(&rest[key.text.len()..]);
        let (value, len) = value(&rest[start..])?;
        rows.set(key.slot, value);
        self.closed |= key.closes;
        self.previous = at;
        Some(start + len)
    }

    /// Reads a field whose name is new. Returns whether it is a field.
    fn learn(&mut self, piece: &[u8], rows: &mut Rows) -> bool {
        let Some((name, text, value)) = split(piece) else {
            return false;
        };
        if self.keys.len() >= MOST_KEYS {
            return false;
        }
        let slot = rows.slot(name);
        rows.set(slot, value);
        note_dialect(name, rows);
        if self.keys.iter().all(|k| k.text != text) {
            let closes = matches!(
                name,
                "number of nan iterations" | "number_of_nan_iterations"
            );
            self.closed |= closes;
            self.keys[self.previous].next = self.keys.len();
            self.previous = self.keys.len();
            self.keys.push(Key {
                text: text.to_vec(),
                slot,
                next: 0,
                closes,
            });
        }
        true
    }

    /// What stands after the last bar: nothing, a field that was cut off, or another rank's text.
    fn tail(&mut self, rest: &[u8], rows: &mut Rows) {
        let rest = rest.trim_ascii();
        let field = |k: &Key| k.text.starts_with(rest) || rest.starts_with(&k.text);
        if !rest.is_empty() && (!self.closed || self.keys.iter().skip(1).any(field)) {
            self.lose(rest, rows);
        }
    }

    fn lose(&mut self, field: &[u8], rows: &mut Rows) {
        self.torn = true;
        if self.told == MOST_TOLD {
            self.untold += 1;
            return;
        }
        self.told += 1;
        let what = format!(
            "`{}` is not a whole field; the other fields are kept",
            text::excerpt(field)
        );
        rows.lose(text::place(self.line), what);
    }

    /// What stands before the word `iteration`: a time, or gpt-neox's rate.
    fn prefix(&mut self, before: &[u8], rows: &mut Rows) {
        let mut before = before.trim_ascii_end();
        if let Some(piece) = before.strip_suffix(b"|") {
            before = self.rate(piece, rows);
        }
        if let Some(time) = before.strip_suffix(b"]").and_then(|b| self.stamp(b)) {
            let slot = *self.time.get_or_insert_with(|| rows.slot("time"));
            rows.set(slot, time);
        }
    }

    fn rate<'a>(&mut self, piece: &'a [u8], rows: &mut Rows) -> &'a [u8] {
        const NAME: &[u8] = b"samples/sec:";
        let Some(at) = memchr::memmem::rfind(piece, NAME) else {
            return piece;
        };
        if let Some(rate) = number::number(&piece[at + NAME.len()..]) {
            let slot = *self.rate.get_or_insert_with(|| rows.slot("samples/sec"));
            rows.set(slot, rate);
        }
        piece[..at].trim_ascii_end()
    }

    /// The time in the last bracket that has one: some loggers put more brackets between, and launchers put theirs
    /// before.
    fn stamp(&mut self, before: &[u8]) -> Option<f64> {
        let mut brackets = memchr::memrchr_iter(b'[', before);
        brackets.find_map(|at| {
            let inside = &before[at + 1..];
            let end = memchr::memchr(b']', inside).unwrap_or(inside.len());
            self.time(&inside[..end])
        })
    }

    /// Milliseconds since 1970 of `YYYY-MM-DD HH:MM:SS[.ffffff]`, microseconds as its fraction.
    fn time(&mut self, stamp: &[u8]) -> Option<f64> {
        let (date, rest) = stamp.split_first_chunk::<10>()?;
        let (clock, fraction) = rest.split_first_chunk::<9>()?;
        let [b' ' | b'T', h0, h1, b':', m0, m1, b':', s0, s1] = *clock else {
            return None;
        };
        let seconds = (two(h0, h1)? * 60 + two(m0, m1)?) * 60 + two(s0, s1)?;
        let fraction = match fraction {
            [] => 0.0,
            [b'.' | b',', digits @ ..] => thousandths(digits)?,
            _ => return None,
        };
        if self.day.0 != *date {
            self.day = (*date, days(date)? * DAY);
        }
        Some(self.day.1 + f64::from(seconds) * 1000.0 + fraction)
    }
}

/// A value with its unit up to a bar, and the length with the bar.
fn value(bytes: &[u8]) -> Option<(f64, usize)> {
    let (value, len) = number::leading(bytes)?;
    if bytes[len..].starts_with(b" |") {
        return Some((value, len + 2));
    }
    let end = memchr::memchr(b'|', &bytes[len..])?;
    Some((value * unit(&bytes[len..len + end])?, len + end + 1))
}

/// The factor of `TFLOPS` and the like; percentages stay as they are.
fn unit(text: &[u8]) -> Option<f64> {
    match text.trim_ascii() {
        b"" | b"%" | b"FLOPS" => Some(1.0),
        [prefix, rest @ ..] if rest == b"FLOPS" => {
            let power = b"KMGTPEZ".iter().position(|p| p == prefix)?;
            Some(1000_f64.powi(i32::try_from(power).ok()? + 1))
        }
        _ => None,
    }
}

/// The name of a field, the name with what follows it, and the value.
fn split(piece: &[u8]) -> Option<(&str, &[u8], f64)> {
    let piece = piece.trim_ascii();
    let colon = memchr::memmem::rfind(piece, b": ").map(|at| (at, at + 2));
    let (end, start) = colon.or_else(|| memchr::memchr(b'=', piece).map(|at| (at, at + 1)))?;
    let name = std::str::from_utf8(&piece[..end])
        .ok()
        .filter(|n| is_name(n))?;
    let text = piece[start..].trim_ascii();
    let plain = || number::leading(text).and_then(|(v, len)| Some(v * unit(&text[len..])?));
    let value = number::number(text).or_else(plain)?;
    Some((name, &piece[..start], value))
}

/// Whether text can be the name of a field rather than a field with another rank's text in it.
fn is_name(text: &str) -> bool {
    let odd = |b: u8| !matches!(b, b' '..=b'~') || b"[]{}:;=\"'<>".contains(&b);
    !text.is_empty() && text.len() <= 80 && !text.bytes().any(odd)
}

/// Notes which member of the family prints such a field.
fn note_dialect(name: &str, rows: &mut Rows) {
    let dialect = match name {
        "elapsed time per iteration (s)" => "bigscience",
        "consumed tokens" | "samples per second" | "consumed_tokens" => "megatron-deepspeed",
        "lm_loss" | "approx flops per GPU" => "gpt-neox",
        "max attention logit" => "megatron-bridge",
        _ => return,
    };
    let known = rows
        .facts
        .entry("dialect".to_owned())
        .or_insert_with(|| dialect.to_owned());
    // BigScience's is a Megatron-DeepSpeed with one field of its own.
    if dialect == "bigscience" {
        dialect.clone_into(known);
    }
}

fn two(tens: u8, ones: u8) -> Option<u32> {
    let digit = |b: u8| char::from(b).to_digit(10);
    Some(digit(tens)? * 10 + digit(ones)?)
}

/// The milliseconds of the digits after the seconds' point.
fn thousandths(digits: &[u8]) -> Option<f64> {
    let (value, len) = number::digits(digits)?;
    let power = i32::try_from(len)
        .ok()
        .filter(|_| len == digits.len() && len <= 9)?;
    Some(value as f64 * 10_f64.powi(3 - power))
}

/// Days since 1970 of `YYYY-MM-DD`.
fn days(date: &[u8; 10]) -> Option<f64> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *date else {
        return None;
    };
    let year = i64::from(two(y0, y1)? * 100 + two(y2, y3)?);
    let month = i64::from(two(m0, m1)?);
    let day = i64::from(two(d0, d1)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March put the leap day last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leaps = year / 4 - year / 100 + year / 400;
    Some((365 * year + leaps + (153 * month + 2) / 5 + day - 719_469) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_slow_parser() {
        let mut lines = Lines::new();
        for stamp in [
            "2026-03-01 12:00:00",
            "2024-02-29 23:59:59",
            "1970-01-01 00:00:00",
        ] {
            assert_eq!(
                lines.time(stamp.as_bytes()),
                text::timestamp(stamp.as_bytes()),
                "{stamp}"
            );
        }
        assert_eq!(
            lines.time(b"2026-03-01 12:00:00.500250"),
            Some(1_772_366_400_500.25)
        );
        for odd in [
            "rank3",
            "2026-13-01 12:00:00",
            "2026-03-01 12:00:00 +0100",
            "2026-03-01",
        ] {
            assert_eq!(lines.time(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn values_and_units() {
        assert_eq!(value(b"118.7TFLOPS | x"), Some((118.7 * 1e12, 13)));
        assert_eq!(value(b"38.05% | x"), Some((38.05, 8)));
        assert_eq!(value(b"1.0|"), Some((1.0, 4)));
        assert_eq!(value(b"2.34[rank3]: x |"), None);
        assert_eq!(value(b"2.34"), None);
        assert!(value(b"NAN |").is_some_and(|(v, len)| v.is_nan() && len == 5));
    }

    #[test]
    fn only_iteration_lines_have_a_header() {
        let step = |line: &str| header(&anchor(), line.as_bytes(), 0).map(|h| h.step);
        assert_eq!(step(" iteration 12345678/123456789 | x"), Some(12_345_678));
        assert_eq!(step(" iteration     1000/    1000 |"), Some(1000));
        assert_eq!(step("[default7]: iteration  7/ 9 |"), Some(7));
        assert_eq!(
            step("iteration=  136004/  136100 | lm loss=12.3"),
            Some(136_004)
        );
        assert_eq!(
            step("Training epoch 0, iteration 120/149 | lr: 3e-05"),
            None
        );
        assert_eq!(
            step("[Rank 7] (after 20 iterations) memory (MB) | allocated: 2.0"),
            None
        );
        assert_eq!(
            step(" validation loss at iteration 200 | lm loss value: 7.4"),
            None
        );
        assert_eq!(step("INFO: iteration: 100 / 18000 | lm_loss: 3.21"), None);
        assert_eq!(step(" iteration 99999999999999999999/5 |"), None);
    }
}
