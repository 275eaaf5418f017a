//! The start of a log without the lines that repeat others but for their numbers: enough to tell its format by.

use std::borrow::Cow;
use std::collections::HashMap;

/// Lines of one form that are kept: enough for what counts them.
const KEPT: u32 = 32;
/// A start that is not mostly repetition is left whole: how long it is, and how its lines follow each other, may tell.
const SHARE: usize = 2;
/// The shortest start that is worth looking through.
const WORTH: usize = 16 * 1024;

/// The start with at most so many lines of each form, if that leaves less than half of it. Bytes that are no text are
/// left as they are.
pub(super) fn of(head: &[u8]) -> Cow<'_, [u8]> {
    if head.len() < WORTH || memchr::memchr(0, &head[..WORTH]).is_some() {
        return Cow::Borrowed(head);
    }
    let mut seen: HashMap<u64, u32> = HashMap::new();
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut size = 0;
    for line in head.split_inclusive(|b| *b == b'\n') {
        let times = seen.entry(form(line)).or_default();
        *times += 1;
        if *times > KEPT {
            continue;
        }
        size += line.len();
        if size * SHARE > head.len() {
            return Cow::Borrowed(head);
        }
        kept.push(line);
    }
    Cow::Owned(kept.concat())
}

/// A hash of a line in which all numbers are alike (FNV-1a).
fn form(line: &[u8]) -> u64 {
    let (mut hash, mut number) = (0xcbf2_9ce4_8422_2325_u64, false);
    for b in line {
        let digit = b.is_ascii_digit() || number && matches!(b, b'.' | b',');
        if digit && number {
            continue;
        }
        number = digit;
        let b = if digit { b'0' } else { *b };
        hash = (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_thinned_and_what_is_said_once_stays() {
        let row = |n: u32| {
            let said = if n % 500 == 100 {
                format!("a word of its own: {}\n", "x".repeat(n as usize))
            } else {
                String::new()
            };
            format!("{said}step: {n} loss: {:.3}\n", 2.0 + f64::from(n) / 7.0)
        };
        let text = (0..2000).map(row).collect::<Vec<_>>().concat();
        let digest = of(text.as_bytes());
        let digest = std::str::from_utf8(&digest).unwrap();
        assert_eq!(digest.lines().filter(|l| l.starts_with("step")).count(), 32);
        assert_eq!(
            digest.lines().filter(|l| l.starts_with("a word")).count(),
            4
        );
        assert!(digest.starts_with("step: 0 "));
    }

    #[test]
    fn a_start_that_is_not_mostly_rows_is_left_whole() {
        let lines: Vec<String> = (0..400).map(|n| "y".repeat(n)).collect();
        let text = lines.join("\n");
        assert!(matches!(of(text.as_bytes()), Cow::Borrowed(b) if b.len() == text.len()));
        let short = "step: 1\n".repeat(100);
        assert!(matches!(of(short.as_bytes()), Cow::Borrowed(b) if b.len() == 800));
    }
}
