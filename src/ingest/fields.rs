//! What the readers of consoles share: field names, numbers as people write them, times, words before a step.

use std::collections::HashMap;

use crate::ingest::number;
use crate::ingest::text;
use crate::run::Rows;

/// Field names that are kept. More are keys that carry data in their names.
const MOST_NAMES: usize = 4096;
/// Losses of a chunk that are told one by one.
const MOST_TOLD: usize = 20;
/// The longest number with its thousands commas.
const LONGEST_NUMBER: usize = 48;
/// The longest progress bar.
pub(super) const LONGEST_BAR: usize = 4096;
const DAY: f64 = 86_400_000.0;

/// Columns by field name. Records have the same fields in the same order, so the next name is nearly always known.
pub(super) struct Names {
    column: fn(&str) -> Option<&str>,
    known: Vec<(Vec<u8>, Option<usize>)>,
    index: HashMap<Vec<u8>, usize>,
    next: usize,
    full: bool,
}

impl Names {
    /// `column` gives the column of a field, `None` if it is not to be kept.
    pub(super) fn new(column: fn(&str) -> Option<&str>) -> Self {
        Self {
            column,
            known: Vec::new(),
            index: HashMap::new(),
            next: 0,
            full: false,
        }
    }

    /// A record begins.
    pub(super) fn begin(&mut self) {
        self.next = 0;
    }

    /// The slot of a field, if it is kept.
    pub(super) fn slot(&mut self, name: &[u8], rows: &mut Rows) -> Option<usize> {
        let at = match self.known.get(self.next) {
            Some((known, _)) if known == name => Some(self.next),
            _ => self.index.get(name).copied(),
        };
        let at = at.or_else(|| self.learn(name, rows))?;
        self.next = at + 1;
        self.known[at].1
    }

    fn learn(&mut self, name: &[u8], rows: &mut Rows) -> Option<usize> {
        let text = String::from_utf8_lossy(name);
        if self.known.len() >= MOST_NAMES {
            if !std::mem::replace(&mut self.full, true) {
                let what =
                    format!("more than {MOST_NAMES} metrics: `{text}` and others are left out");
                rows.lose("", what);
            }
            return None;
        }
        let slot = (self.column)(&text).map(|column| rows.slot(column));
        self.index.insert(name.to_vec(), self.known.len());
        self.known.push((name.to_vec(), slot));
        Some(self.known.len() - 1)
    }
}

/// Tells of what could not be read without telling too much.
#[derive(Default)]
pub(super) struct Torn {
    told: usize,
    untold: usize,
    line: u64,
}

impl Torn {
    /// A field, or a whole record, that could not be read.
    pub(super) fn lose(&mut self, line: u64, what: &str, piece: &[u8], rows: &mut Rows) {
        self.line = line;
        if self.told == MOST_TOLD {
            self.untold += 1;
            return;
        }
        self.told += 1;
        rows.lose(
            text::place(line),
            format!("{what}: `{}`", text::excerpt(piece)),
        );
    }

    /// Tells how many more there were.
    pub(super) fn finish(&self, rows: &mut Rows) {
        if self.untold > 0 {
            let what = format!("{} more fields up to here could not be read", self.untold);
            rows.lose(text::place(self.line), what);
        }
    }
}

/// A whole field as a number: thousands commas and a percent sign are allowed.
pub(super) fn amount(field: &[u8]) -> Option<f64> {
    let field = field.trim_ascii();
    let field = field.strip_suffix(b"%").unwrap_or(field);
    if memchr::memchr(b',', field).is_none() {
        return number::number(field);
    }
    let mut plain = [0; LONGEST_NUMBER];
    let mut len = 0;
    for b in field.iter().filter(|b| **b != b',') {
        *plain.get_mut(len)? = *b;
        len += 1;
    }
    field[0]
        .is_ascii_digit()
        .then(|| number::number(&plain[..len]))?
}

/// A number that may have been cut to a few digits and a letter: `210M`, `1.05K`, `3.146B`.
pub(super) fn human(field: &[u8]) -> Option<f64> {
    let field = field.trim_ascii();
    let (last, head) = field.split_last()?;
    let power = match last {
        b'K' => 1e3,
        b'M' => 1e6,
        b'B' | b'G' => 1e9,
        b'T' => 1e12,
        b'P' => 1e15,
        b'E' => 1e18,
        _ => return amount(field),
    };
    amount(head).map(|v| v * power)
}

/// Reads the times that loggers put before their messages, in milliseconds since 1970, read as UTC: they are local
/// times without a zone, so only differences are to be trusted.
pub(super) struct Clock {
    date: [u8; 10],
    day: f64,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            date: [0; 10],
            day: 0.0,
        }
    }

    /// The last `YYYY-MM-DD HH:MM:SS[.,]fff` of a text, with a space or a `T` between: what launchers print comes
    /// before what the program prints.
    pub(super) fn find(&mut self, text: &[u8]) -> Option<f64> {
        let mut dashes = memchr::memrchr_iter(b'-', text);
        dashes.find_map(|dash| self.read(&text[dash.checked_sub(4)?..]))
    }

    fn read(&mut self, text: &[u8]) -> Option<f64> {
        let (date, rest) = text.split_first_chunk::<10>()?;
        let (clock, rest) = rest.split_first_chunk::<9>()?;
        let [b' ' | b'T', clock @ ..] = clock else {
            return None;
        };
        let time = of_day(*clock)? + thousandths(rest);
        if self.date != *date {
            let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *date else {
                return None;
            };
            let year = two(y0, y1)? * 100 + two(y2, y3)?;
            self.day = days(year, two(m0, m1)?, two(d0, d1)?)? * DAY;
            self.date = *date;
        }
        Some(self.day + time)
    }
}

/// Milliseconds since 1970 of the last `MM/DD/YYYY HH:MM:SS` of a text, read as UTC.
pub(super) fn american_time(text: &[u8]) -> Option<f64> {
    let mut slashes = memchr::memrchr_iter(b'/', text);
    slashes.find_map(|slash| american(&text[slash.checked_sub(2)?..]))
}

fn american(text: &[u8]) -> Option<f64> {
    let (date, rest) = text.split_first_chunk::<10>()?;
    let clock = rest.strip_prefix(b" ")?.first_chunk::<8>()?;
    let [m0, m1, b'/', d0, d1, b'/', y0, y1, y2, y3] = *date else {
        return None;
    };
    let year = two(y0, y1)? * 100 + two(y2, y3)?;
    Some(days(year, two(m0, m1)?, two(d0, d1)?)? * DAY + of_day(*clock)?)
}

fn of_day(clock: [u8; 8]) -> Option<f64> {
    let [h0, h1, b':', m0, m1, b':', s0, s1] = clock else {
        return None;
    };
    let seconds = (two(h0, h1)? * 60 + two(m0, m1)?) * 60 + two(s0, s1)?;
    Some(f64::from(seconds) * 1000.0)
}

/// The milliseconds of `.123456` or `,123` at the start.
fn thousandths(rest: &[u8]) -> f64 {
    let [b'.' | b',', digits @ ..] = rest else {
        return 0.0;
    };
    let digits = &digits[..digits.len().min(9)];
    number::digits(digits).map_or(0.0, |(value, len)| {
        value as f64 / 10_f64.powi(i32::try_from(len).unwrap_or(9) - 3)
    })
}

fn two(tens: u8, ones: u8) -> Option<u32> {
    let digit = |b: u8| char::from(b).to_digit(10);
    Some(digit(tens)? * 10 + digit(ones)?)
}

fn days(year: u32, month: u32, day: u32) -> Option<f64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March put the leap day last.
    let (year, month) = if month > 2 {
        (i64::from(year), i64::from(month) - 3)
    } else {
        (i64::from(year) - 1, i64::from(month) + 9)
    };
    let leaps = year / 4 - year / 100 + year / 400;
    Some((365 * year + leaps + (153 * month + 2) / 5 + i64::from(day) - 719_469) as f64)
}

/// The fields of a text that `parts` stands between, each a name and a value with `middle` between them. The last one
/// may be cut off, so it is said whether a field is that.
pub(super) fn pairs<'a>(
    text: &'a [u8],
    parts: &'a str,
    middle: &'a str,
) -> impl Iterator<Item = (&'a [u8], &'a [u8], bool)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr::memmem::find(text, parts.as_bytes());
        rest = end.map(|end| &text[end + parts.len()..]);
        let field = &text[..end.unwrap_or(text.len())];
        Some((field, end.is_none()))
    })
    .filter_map(move |(field, last)| {
        let at = memchr::memmem::find(field, middle.as_bytes())?;
        let name = field[..at].trim_ascii();
        let value = field[at + middle.len()..].trim_ascii();
        Some((name, value, last))
    })
}

/// What stands in the bracket of a progress bar that was opened before, whether the bracket is whole, and what follows.
/// Another bar may have been written over its end: what follows is then all of it.
pub(super) fn bracket(text: &[u8]) -> (&[u8], bool, &[u8]) {
    let near = &text[..text.len().min(LONGEST_BAR)];
    match memchr::memchr2(b'[', b']', near) {
        Some(end) if near[end] == b']' => (&text[..end], true, &text[end..]),
        other => (&text[..other.unwrap_or(near.len())], false, text),
    }
}

/// The first field of a flat JSON object, its quotes taken off, and what follows it.
pub(super) fn json_field(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let start = memchr::memchr(b'"', text)? + 1;
    let (name, rest) = json_string(&text[start..])?;
    let value = rest.trim_ascii_start().strip_prefix(b":")?;
    let value = value.trim_ascii_start();
    if let Some(inside) = value.strip_prefix(b"\"") {
        let (value, rest) = json_string(inside)?;
        return Some((name, value, rest));
    }
    let ends = |b: &u8| matches!(b, b',' | b'}');
    let len = value.iter().position(ends).unwrap_or(value.len());
    Some((name, value[..len].trim_ascii_end(), &value[len..]))
}

/// What stands before the closing quote, escapes as they are, and what follows that.
fn json_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[at] == b'"' {
            return Some((&text[..at], &text[at + 1..]));
        }
        from = at + 2;
    }
}

/// What follows some words.
pub(super) fn after<'a>(line: &'a [u8], words: &str) -> Option<&'a [u8]> {
    memchr::memmem::find(line, words.as_bytes()).map(|at| &line[at + words.len()..])
}

/// The number that follows some words, and the rest of the line.
pub(super) fn step_after<'a>(line: &'a [u8], words: &str) -> Option<(u64, &'a [u8])> {
    let rest = after(line, words)?.trim_ascii_start();
    let (step, len) = number::digits(rest)?;
    Some((step, &rest[len..]))
}

/// The first word of a text, without the quotes and the full stop that messages put around paths.
pub(super) fn path(text: &[u8]) -> Option<String> {
    let text = text.trim_ascii_start();
    let quote = text.first().filter(|b| matches!(b, b'\'' | b'"'));
    let text = &text[usize::from(quote.is_some())..];
    let ends = |b: &u8| quote.map_or(b.is_ascii_whitespace(), |q| q == b);
    let word = &text[..text.iter().position(ends).unwrap_or(text.len())];
    let dots = word.iter().rev().take_while(|b| **b == b'.').count();
    let word = &word[..word.len() - dots];
    (!word.is_empty()).then(|| String::from_utf8_lossy(word).into_owned())
}

/// The step at the end of a path such as `…/step-1000` or `…/global_step500`.
pub(super) fn step_of_path(path: &str) -> Option<u64> {
    let path = path.trim_end_matches('/');
    let start = path
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |i| i + 1);
    number::digits(&path.as_bytes()[start..]).map(|(step, _)| step)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Reads a text cut off at every byte, and with bytes replaced, left out and doubled.
    pub(in crate::ingest) fn damage(read: &dyn Fn(&[u8]), text: &[u8]) {
        for end in 0..text.len() {
            let start = end.saturating_sub(600);
            read(&text[start..end]);
        }
        let mut state: u64 = 1;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        for _ in 0..300 {
            let mut bytes = text.to_vec();
            for _ in 0..20 {
                let at = random(bytes.len());
                match random(3) {
                    0 => bytes[at] = b" \n\r\x1b[]:|=,.0-9x\xff\0"[random(16)],
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"[]:|=, \x1b"[random(8)]),
                }
            }
            read(&bytes);
        }
    }

    #[test]
    fn amounts() {
        assert_eq!(amount(b" 1,424.31 "), Some(1424.31));
        assert_eq!(amount(b"14.39%"), Some(14.39));
        assert_eq!(amount(b"1e-3"), Some(0.001));
        assert!(amount(b"nan").is_some_and(f64::is_nan));
        assert_eq!(amount(b",5"), None);
        assert_eq!(amount(b"N/A"), None);
        assert_eq!(amount(&[b'1', b','].repeat(200)), None);
    }

    #[test]
    fn human_amounts() {
        assert_eq!(human(b"210M"), Some(210e6));
        assert_eq!(human(b"25.2G"), Some(25.2e9));
        assert_eq!(human(b"1.05K"), Some(1050.0));
        assert_eq!(human(b"0.412"), Some(0.412));
        assert_eq!(human(b"K"), None);
        assert_eq!(human(b""), None);
    }

    #[test]
    fn times() {
        let mut clock = Clock::new();
        let noon = 1_772_366_400_000.0;
        for (line, after) in [
            (
                "2026-02-01T10:00:00Z [titan] 2026-03-01 12:00:01,123 - root - INFO",
                1123.0,
            ),
            ("[2026-03-01 12:00:00,954794][I]", 954.794),
            ("a-b 2026-03-01T12:00:00 - 2 - x", 0.0),
            ("2026-02-30 24:61:00 2026-03-01 12:00:00.5", 500.0),
        ] {
            let got = clock.find(line.as_bytes());
            let got = got.filter(|t| (t - noon - after).abs() < 1e-3);
            assert!(got.is_some() || line.starts_with("2026-02-30"), "{line}");
        }
        assert_eq!(clock.find(b"2026-13-01 12:00:00"), None);
        assert_eq!(clock.find(b"no-time"), None);
        assert_eq!(american_time(b"03/01/2026 12:00:00 [INFO"), Some(noon));
        assert_eq!(american_time(b"03/01 12:00:00 [INFO|DP"), None);
    }

    #[test]
    fn fields_of_json() {
        let text = br#"{"a \"b": "c, \\", "d": 1.5, "e":nan}"#;
        let mut rest = &text[..];
        let mut found = Vec::new();
        while let Some((name, value, after)) = json_field(rest) {
            found.push((name, value));
            rest = after;
        }
        let expected: [(&[u8], &[u8]); 3] =
            [(br#"a \"b"#, br"c, \\"), (b"d", b"1.5"), (b"e", b"nan")];
        assert_eq!(found, expected);
        assert!(json_field(br#"{"cut": "x\"#).is_none() && json_field(b"{}").is_none());
    }

    #[test]
    fn brackets_of_bars() {
        assert_eq!(bracket(b"a=1] x"), (&b"a=1"[..], true, &b"] x"[..]));
        let cut = &b"a=1train: 2/3 [a=2]"[..];
        assert_eq!(bracket(cut), (&cut[..14], false, cut));
    }

    #[test]
    fn fields_between_bars() {
        let found: Vec<_> = pairs(b"a b: 1 | c: | d | e: 2", " | ", ": ").collect();
        let expected: [(&[u8], &[u8], bool); 2] = [(b"a b", b"1", false), (b"e", b"2", true)];
        assert_eq!(found, expected);
    }

    #[test]
    fn paths_and_their_steps() {
        let got = path(b" ./outputs/checkpoint/step-1000.").unwrap_or_default();
        assert_eq!(got, "./outputs/checkpoint/step-1000");
        assert_eq!(step_of_path(&got), Some(1000));
        assert_eq!(path(b"'/a b/step7'...").as_deref(), Some("/a b/step7"));
        assert_eq!(step_of_path("/ckpt/global_step500/"), Some(500));
        assert_eq!(step_of_path("/ckpt/last"), None);
        assert_eq!(path(b"  "), None);
    }
}
