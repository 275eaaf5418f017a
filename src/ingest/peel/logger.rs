//! Times and levels that loggers, `ts` and container runtimes put before a message.

use crate::ingest::fields;
use crate::ingest::number;

/// Bytes of a time with its fraction and its zone.
const LONGEST_TIME: usize = 48;
/// The longest word of a logger: a name, a level, a place in a file.
const LONGEST_WORD: usize = 160;
/// Words that a logger may put before the level.
const BEFORE_LEVEL: usize = 6;
const LEVELS: [&[u8]; 8] = [
    b"DEBUG",
    b"INFO",
    b"NOTICE",
    b"WARNING",
    b"WARN",
    b"ERROR",
    b"CRITICAL",
    b"TRACE",
];
const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// What stands before a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stamp {
    /// Its length.
    pub(super) len: usize,
    /// The time in milliseconds since 1970, read as UTC, if its date is whole.
    pub(super) time: Option<f64>,
}

/// The time at the start of a line with the names and levels after it: `2026-03-01T12:00:00.123456789Z `,
/// `2026-03-01 12:00:00,123 - root - INFO - `, `[2026-03-01 12:00:00,123] [INFO] [launch.py:10:main] `,
/// `2026-03-01 12:00:00.123 | INFO     | pkg.module:main:10 - `, `Mar 01 12:00:00 `, `12:00:00 `.
pub(super) fn stamp(line: &[u8]) -> Option<Stamp> {
    let inside = line.strip_prefix(b"[");
    let text = inside.unwrap_or(line);
    let (len, time) = moment(text)?;
    let mut end = line.len() - text.len() + len;
    if inside.is_some() {
        (line.get(end) == Some(&b']')).then_some(())?;
        end += 1;
    }
    let after = &line[end..];
    // A message parted by something else is part of a grammar, such as a column of tabs.
    let parted = after.is_empty()
        || after.starts_with(b" ")
        || (inside.is_some() && after.starts_with(b"["));
    let rest = after.strip_prefix(b" ").unwrap_or(after);
    let len = line.len() - rest.len() + level(rest).unwrap_or(0);
    parted.then_some(Stamp { len, time })
}

/// `INFO:root:`, `[INFO] ` and absl's `I0301 12:00:00.948187 140110937163584 train.py:196] `.
pub(super) fn tagged(line: &[u8]) -> Option<usize> {
    if let Some(rest) = line.strip_prefix(b"[") {
        let level = level_word(rest)?;
        let rest = rest[level..].strip_prefix(b"]")?;
        return Some(line.len() - one_space(rest).len());
    }
    absl(line).or_else(|| {
        let level = level_word(line)?;
        let rest = line[level..].strip_prefix(b":")?;
        let name = word(rest, |b| {
            b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')
        });
        let rest = rest[name..].strip_prefix(b":")?;
        (name > 0).then(|| line.len() - rest.len())
    })
}

fn absl(line: &[u8]) -> Option<usize> {
    matches!(line.first()?, b'I' | b'W' | b'E' | b'F').then_some(())?;
    let rest = after_shape(&line[1..], b"0000 ")?;
    let rest = &rest[clock(rest)?..];
    let near = &rest[..rest.len().min(LONGEST_WORD)];
    let close = memchr::memmem::find(near, b"] ")?;
    let place = near[..close].rsplit(|b| *b == b':').next()?;
    (!place.is_empty() && place.iter().all(u8::is_ascii_digit))
        .then(|| line.len() - rest.len() + close + 2)
}

/// A time at the start: its length, and the time if its date is whole.
fn moment(text: &[u8]) -> Option<(usize, Option<f64>)> {
    if after_shape(text, b"0000-00-00").is_some() {
        let rest = text[10..]
            .strip_prefix(b" ")
            .or_else(|| text[10..].strip_prefix(b"T"))?;
        let len = 11 + clock(rest)?;
        let len = len + zone(&text[len..]);
        return (len <= LONGEST_TIME).then(|| (len, fields::Clock::new().find(&text[..len])));
    }
    if MONTHS.iter().any(|m| text.starts_with(m)) {
        let rest = after_shape(&text[3..], b" 00 ").or_else(|| after_shape(&text[3..], b"  0 "))?;
        return Some((text.len() - rest.len() + clock(rest)?, None));
    }
    clock(text).map(|len| (len, None))
}

/// The length of `12:00:00`, `12:00:00.123456` or `12:00:00,123` at the start.
fn clock(text: &[u8]) -> Option<usize> {
    let rest = after_shape(text, b"00:00:00")?;
    let fraction = match rest {
        [b'.' | b',', digits @ ..] => number::digits(digits).map_or(0, |(_, len)| len + 1),
        _ => 0,
    };
    Some(text.len() - rest.len() + fraction)
}

/// The length of `Z`, `+00:00` or `-0700` at the start.
fn zone(text: &[u8]) -> usize {
    match text.first() {
        Some(b'Z') => 1,
        Some(b'+' | b'-') => 1 + word(&text[1..], |b| b.is_ascii_digit() || b == b':'),
        _ => 0,
    }
}

/// What follows bytes of a shape, in which `0` stands for any digit.
fn after_shape<'a>(text: &'a [u8], shape: &[u8]) -> Option<&'a [u8]> {
    let head = text.get(..shape.len())?;
    let fits = |(b, s): (&u8, &u8)| {
        if *s == b'0' {
            b.is_ascii_digit()
        } else {
            b == s
        }
    };
    head.iter()
        .zip(shape)
        .all(fits)
        .then(|| &text[shape.len()..])
}

/// The length of the names and the level that a logger puts after the time. `None` if there is no level.
fn level(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for _ in 0..BEFORE_LEVEL {
        let len = word(&text[at..], |b| !b.is_ascii_whitespace());
        let token = &text[at..at + len];
        let bare = token.strip_prefix(b"[").and_then(|t| t.strip_suffix(b"]"));
        let plain = bare.unwrap_or(token);
        if level_word(plain) == Some(plain.len()) {
            return Some(at + len + behind_level(&text[at + len..], bare.is_some()));
        }
        // A word with a colon, such as `step:12`, is the message already.
        let name = |b: &u8| b.is_ascii_alphanumeric() || b"_.-|".contains(b);
        if token.is_empty() || !plain.iter().all(name) {
            return None;
        }
        at += len + spaces(&text[at + len..]);
    }
    None
}

/// The length of what follows the level: ` - `, ` | name | `, ` | module:function:10 - `, ` [launch.py:10:main] `.
fn behind_level(text: &[u8], bracket: bool) -> usize {
    let mut rest = &text[spaces(text)..];
    if let Some(message) = rest.strip_prefix(b"- ") {
        rest = message;
    } else if let Some(message) = rest.strip_prefix(b"| ") {
        rest = &message[place(message)..];
    } else if bracket && rest.starts_with(b"[") {
        let close = memchr::memchr(b']', &rest[..rest.len().min(LONGEST_WORD)]);
        let place = close.filter(|end| rest[..*end].contains(&b':'));
        rest = place.map_or(rest, |end| one_space(&rest[end + 1..]));
    } else {
        rest = one_space(text);
    }
    text.len() - rest.len()
}

/// The length of `metaseq.trainer | ` or `pkg.module:main:10 - ` at the start.
fn place(text: &[u8]) -> usize {
    let len = word(text, |b| b.is_ascii_alphanumeric() || b"_.:<>".contains(&b));
    let (token, rest) = text.split_at(len);
    // With one colon it may be the message already, as in `step:12 - `.
    let numbered = memchr::memchr_iter(b':', token).count() == 2
        && token.last().is_some_and(u8::is_ascii_digit);
    let named = !token.is_empty() && !token.contains(&b':');
    match rest {
        [b' ', b'-', b' ', ..] if numbered => len + 3,
        [b' ', b'|', b' ', ..] if named || numbered => len + 3,
        _ => 0,
    }
}

/// The length of a level at the start, if no letter follows it.
fn level_word(text: &[u8]) -> Option<usize> {
    let level = LEVELS.iter().find(|l| text.starts_with(l))?;
    let next = text.get(level.len());
    (!next.is_some_and(u8::is_ascii_alphanumeric)).then_some(level.len())
}

fn word(text: &[u8], inside: impl Fn(u8) -> bool) -> usize {
    let near = text.iter().take(LONGEST_WORD);
    near.take_while(|b| inside(**b)).count()
}

fn spaces(text: &[u8]) -> usize {
    word(text, |b| b == b' ')
}

fn one_space(rest: &[u8]) -> &[u8] {
    rest.strip_prefix(b" ").unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_names_and_levels_go_and_messages_stay() {
        for (prefix, message) in [
            ("2026-03-01T12:00:00.123456789Z ", "s:1"),
            ("2026-03-01T12:00:00+00:00 ", "s:1"),
            ("2026-03-01 12:00:00 ", "    train/loss=1"),
            ("2026-03-01 12:00:00 ", "step:12 - actor/lr:0.1 - INFO"),
            (
                "2026-03-01 12:00:00,123 - root - INFO - ",
                "step:12 - actor/lr:0.1",
            ),
            ("2026-03-01 12:00:00,123 INFO ", "step:12 - actor/lr:0.1"),
            (
                "[2026-03-01 12:00:00,123] [INFO] [launch.py:10:main] ",
                "s:1",
            ),
            (
                "[2026-03-01 12:00:00,123][INFO] ",
                "[metric][batch=7]: loss: 2.0",
            ),
            ("2026-03-01 12:00:00 | INFO | metaseq.trainer | ", "s:1"),
            (
                "2026-03-01 12:00:00.123 | INFO     | __main__:main:10 - ",
                "s:1 trl:2",
            ),
            ("2026-03-01 12:00:00 | INFO | ", "step:12 - actor/lr:0.1"),
            ("Mar 01 12:00:00 ", "\t Train loss: 1"),
            ("Mar  1 12:00:00.123456 ", "s:1"),
            ("12:00:00 ", "s:1"),
            ("00:00:05.250000 ", "INFO is what it logs"),
        ] {
            let line = format!("{prefix}{message}");
            let found = stamp(line.as_bytes()).map(|s| &line[s.len..]);
            let whole = if message.starts_with("INFO") {
                &message[5..]
            } else {
                message
            };
            assert_eq!(found, Some(whole), "{line}");
        }
        for line in [
            "2026-03-01 12:00:00.520\thost-a:0\tolmo_core.train:68\tINFO\t[step=1/9,epoch=1]",
            "2026-03-01",
            "2026-03-01T12:00",
            "[2026-03-01 12:00:00",
            "[2026-03-01 12:00:00]: x",
            "May be 12:00:00 x",
            "1:2:3",
            "",
        ] {
            assert_eq!(stamp(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn the_time_is_read_where_the_date_is_whole() {
        let time = |line: &str| stamp(line.as_bytes()).and_then(|s| s.time);
        assert_eq!(
            time("2026-03-01T12:00:00.250Z x"),
            Some(1_772_366_400_250.0)
        );
        assert_eq!(time("[2026-03-01 12:00:00] x"), Some(1_772_366_400_000.0));
        assert_eq!(time("Mar 01 12:00:00 x"), None);
    }

    #[test]
    fn levels_without_a_time() {
        for (prefix, message) in [
            ("INFO:root:", "s:1"),
            ("WARNING:my.module:", "step:1 - a:2"),
            ("[INFO] ", "s:1"),
            (
                "I0301 12:00:00.948187 140110937163584 train.py:196] ",
                "s:1",
            ),
        ] {
            let line = format!("{prefix}{message}");
            assert_eq!(tagged(line.as_bytes()), Some(prefix.len()), "{line}");
        }
        for line in [
            "INFO: name: x",
            "INFORM:x:",
            "[INFO",
            "I0301 12:00:00 no place",
            "INFO::x",
            "Iter",
        ] {
            assert_eq!(tagged(line.as_bytes()), None, "{line}");
        }
    }
}
