//! The line `step: 10  loss: 2.5  grad_norm: 0.3  …`: where a record begins, and its fields. The hot path of the format.

use memchr::memmem::Finder;

use crate::ingest::fields;
use crate::ingest::number;

pub(super) const ANCHOR: &[u8] = b"step:";
pub(super) const LOSS: &[u8] = b"loss:";
/// The start of a record.
pub(super) struct Record {
    /// Where its word `step` stands.
    pub(super) start: usize,
    /// Where its fields begin.
    pub(super) body: usize,
    pub(super) step: u64,
    pub(super) validation: bool,
}

/// The next start of a record, at any place in the line.
pub(super) fn record(anchor: &Finder<'_>, line: &[u8], from: usize) -> Option<Record> {
    let mut at = from;
    while let Some(found) = anchor.find(&line[at..]) {
        let start = at + found;
        at = start + ANCHOR.len();
        let rest = &line[at..];
        let spaces = spaces(rest);
        let Some((step, len)) =
            number::digits(&rest[spaces..]).filter(|_| stands_free(&line[..start]))
        else {
            continue;
        };
        let body = at + spaces + len;
        let next = skip(&line[body..]);
        let field = &line[body + next..];
        // A line that was cut off here is told of later.
        if next > 0 && (field.starts_with(LOSS) || (next > 1 && LOSS.starts_with(field))) {
            let validation = line[..start].trim_ascii_end().ends_with(b"validate");
            return Some(Record {
                start,
                body: body + next,
                step,
                validation,
            });
        }
    }
    None
}

/// Not the end of another word. Some collectors drop the first byte of a colour and leave `[31m`.
fn stands_free(before: &[u8]) -> bool {
    let word = before
        .last()
        .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'/' | b'.'));
    !word
        || (before.ends_with(b"m")
            && before[..before.len() - 1]
                .last()
                .is_some_and(u8::is_ascii_digit))
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| **b == b' ').count()
}

/// Length of the spaces at the start and of what is left of a colour there.
pub(super) fn skip(bytes: &[u8]) -> usize {
    let at = spaces(bytes);
    let rest = &bytes[at..];
    let caret = usize::from(rest.starts_with(b"^[")) * 2;
    if !rest[caret..].starts_with(b"[") {
        return at;
    }
    let digits = rest[caret + 1..]
        .iter()
        .take_while(|b| b.is_ascii_digit() || **b == b';')
        .count();
    let end = caret + 1 + digits;
    if digits > 0 && rest.get(end) == Some(&b'm') {
        at + end + 1
    } else {
        at
    }
}

/// A field name with its colon at the start, and the length of both.
pub(super) fn name(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let inside = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'/' | b'.' | b'-');
    let len = bytes.iter().take(64).take_while(inside).count();
    (len > 0 && bytes.get(len) == Some(&b':')).then(|| (&bytes[..len], len + 1))
}

/// What stands after a colon.
pub(super) enum Value {
    Number(f64),
    /// `N/A`.
    Nothing,
}

/// The value after a colon and where it ends.
pub(super) fn value(line: &[u8], at: usize) -> Option<(Value, usize)> {
    let start = at + skip(line.get(at..)?);
    let len = memchr::memchr(b' ', &line[start..]).unwrap_or(line.len() - start);
    field(&line[start..start + len]).map(|value| (value, start + len))
}

/// A value with its unit: `2.5`, `7,322`, `14.39%`, `47.50GiB(50.01%)`. `N/A` is a field without a value.
fn field(token: &[u8]) -> Option<Value> {
    if let Some(value) = fields::amount(token) {
        return Some(Value::Number(value));
    }
    let (value, len) = number::leading(token).unwrap_or((f64::NAN, 0));
    let unit = &token[len..];
    if len == 0 {
        return (unit == b"N/A").then_some(Value::Nothing);
    }
    let unit = memchr::memchr(b'(', unit).map_or(unit, |share| &unit[..share]);
    matches!(unit, b"GiB" | b"MiB" | b"GB" | b"MB" | b"s" | b"ms").then_some(Value::Number(value))
}
