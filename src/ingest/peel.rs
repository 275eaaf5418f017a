//! Takes off what launchers and terminals put around a line: colours, ranks, hosts, times.

use crate::ingest::number;

/// Prefixes that may stand one before the other: a container's, a time, a scheduler's, a launcher's.
const ROUNDS: usize = 4;
/// The longest name of a host, a container or an actor.
const LONGEST_NAME: usize = 128;

/// A line without the prefixes of launchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peeled<'a> {
    /// What the program itself printed, its leading spaces included.
    pub(super) rest: &'a [u8],
    /// The rank or task that the innermost prefix names: often the rank on its node only.
    pub(super) rank: Option<u32>,
}

/// Takes launcher prefixes off the front of a line without colours (see [`plain`]).
pub(super) fn peel(line: &[u8]) -> Peeled<'_> {
    let mut peeled = Peeled {
        rest: line,
        rank: None,
    };
    for _ in 0..ROUNDS {
        let Some((len, rank)) = prefix(peeled.rest) else {
            break;
        };
        peeled.rest = &peeled.rest[len..];
        peeled.rank = rank.or(peeled.rank);
    }
    peeled
}

/// Length of the prefix at the start, and the rank it names.
fn prefix(line: &[u8]) -> Option<(usize, Option<u32>)> {
    match line.first()? {
        b'[' => bracket(line),
        b'(' => actor(line).map(|len| (len, None)),
        b' ' => padded_task(line),
        b'0'..=b'9' => task(line).or_else(|| Some((iso_time(line)?, None))),
        b's' => slurm_task(line).or_else(|| Some((host(line)?, None))),
        b if b.is_ascii_alphabetic() => host(line).map(|len| (len, None)),
        _ => None,
    }
}

/// `[default7]:`, `[rank0]: `, `[0012:0]:`, `[1,0]<stdout>:`, `[pod/x/y] `.
fn bracket(line: &[u8]) -> Option<(usize, Option<u32>)> {
    let end = position(line, b']')?;
    let (inner, after) = (&line[1..end], &line[end + 1..]);
    if inner.starts_with(b"pod/") {
        return after.starts_with(b" ").then_some((end + 2, None));
    }
    let name = inner
        .iter()
        .take_while(|b| b.is_ascii_alphabetic() || **b == b'_')
        .count();
    let (first, len) = small(&inner[name..])?;
    let more = &inner[name + len..];
    let stream = [&b"<stdout>:"[..], b"<stderr>:"];
    let (rank, colon) = match more.split_first() {
        None => (first, after.strip_prefix(b":")?),
        Some((b':', second)) if name == 0 => (whole(second)?, after.strip_prefix(b":")?),
        Some((b',', second)) if name == 0 => {
            let rest = stream.iter().find_map(|s| after.strip_prefix(*s))?;
            (whole(second)?, rest)
        }
        _ => return None,
    };
    Some((line.len() - one_space(colon).len(), Some(rank)))
}

/// `(TaskRunner pid=4242, ip=10.0.0.3) `.
fn actor(line: &[u8]) -> Option<usize> {
    let pid = memchr::memmem::find(&line[..line.len().min(LONGEST_NAME)], b" pid=")? + 5;
    let (_, len) = small(&line[pid..])?;
    let end = pid + len + position(&line[pid + len..], b')')?;
    let between = &line[pid + len..end];
    let named = line[1].is_ascii_alphabetic() || line[1] == b'_';
    (named && (between.is_empty() || between.starts_with(b", ip=")))
        .then(|| line.len() - one_space(&line[end + 1..]).len())
}

/// `srun --label` pads task numbers to one width.
fn padded_task(line: &[u8]) -> Option<(usize, Option<u32>)> {
    let spaces = line.iter().take(6).take_while(|b| **b == b' ').count();
    let (len, rank) = task(&line[spaces..])?;
    Some((spaces + len, rank))
}

/// `3: `.
fn task(line: &[u8]) -> Option<(usize, Option<u32>)> {
    let (rank, len) = small(line).filter(|(_, len)| *len <= 6)?;
    let rest = line[len..].strip_prefix(b":")?;
    // A line that the program left empty ends after the colon.
    let ends = rest.is_empty() || rest.starts_with(b" ");
    ends.then(|| (line.len() - one_space(rest).len(), Some(rank)))
}

/// `slurm_procid 0 : `.
fn slurm_task(line: &[u8]) -> Option<(usize, Option<u32>)> {
    let rest = line.strip_prefix(b"slurm_procid ")?;
    let (rank, len) = small(rest)?;
    let rest = rest[len..].strip_prefix(b" :")?;
    Some((line.len() - one_space(rest).len(), Some(rank)))
}

/// `2026-03-01T12:00:00.123456789Z `, as container runtimes print it. With a space in place of the `T` it is the
/// program's own.
fn iso_time(line: &[u8]) -> Option<usize> {
    let shape = b"0000-00-00T00:00:00";
    let head = line.get(..shape.len())?;
    let fits = |(b, s): (&u8, &u8)| {
        if *s == b'0' {
            b.is_ascii_digit()
        } else {
            b == s
        }
    };
    if !head.iter().zip(shape).all(fits) {
        return None;
    }
    let mut rest = &line[shape.len()..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        rest = &fraction[fraction.iter().take_while(|b| b.is_ascii_digit()).count()..];
    }
    let zone = match rest.first()? {
        b'Z' => 1,
        b'+' | b'-' => {
            1 + rest[1..]
                .iter()
                .take_while(|b| b.is_ascii_digit() || **b == b':')
                .count()
        }
        _ => return None,
    };
    rest[zone..]
        .starts_with(b" ")
        .then(|| line.len() - rest.len() + zone + 1)
}

/// `worker-1: ` and docker's `trainer-1  | `. Only names with a number in them: words before a colon are mostly keys.
fn host(line: &[u8]) -> Option<usize> {
    let inside = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let len = line.iter().take(LONGEST_NAME).take_while(inside).count();
    let (name, rest) = line.split_at(len);
    let last = name.last()?.is_ascii_digit();
    if rest.starts_with(b": ") {
        let numbered = last || (name.contains(&b'.') && name.iter().any(u8::is_ascii_digit));
        return numbered.then_some(len + 2);
    }
    let spaces = rest.iter().take(64).take_while(|b| **b == b' ').count();
    (spaces > 0 && last && rest[spaces..].starts_with(b"| ")).then_some(len + spaces + 2)
}

fn one_space(rest: &[u8]) -> &[u8] {
    rest.strip_prefix(b" ").unwrap_or(rest)
}

fn position(bytes: &[u8], byte: u8) -> Option<usize> {
    memchr::memchr(byte, &bytes[..bytes.len().min(LONGEST_NAME)])
}

/// Digits at the start as a small number, and their count.
fn small(bytes: &[u8]) -> Option<(u32, usize)> {
    let (value, len) = number::digits(bytes)?;
    Some((u32::try_from(value).ok()?, len))
}

fn whole(bytes: &[u8]) -> Option<u32> {
    small(bytes)
        .filter(|(_, len)| *len == bytes.len())
        .map(|(value, _)| value)
}

/// A line without ANSI sequences. Nothing is copied unless there is one.
pub(super) fn plain<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr::memchr(0x1b, line).is_none() {
        return line;
    }
    scratch.clear();
    let mut rest = line;
    while let Some(at) = memchr::memchr(0x1b, rest) {
        scratch.extend_from_slice(&rest[..at]);
        rest = &rest[at + sequence(&rest[at..])..];
    }
    scratch.extend_from_slice(rest);
    scratch
}

/// Length of the escape sequence at the start.
fn sequence(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        Some(b'[') => {
            let body = bytes[2..]
                .iter()
                .take_while(|b| (0x20..=0x3f).contains(*b))
                .count();
            (2 + body + 1).min(bytes.len())
        }
        Some(b']') => {
            let end = bytes.iter().position(|b| *b == 0x07).map(|i| i + 1);
            let long = memchr::memmem::find(&bytes[2..], b"\x1b\\").map(|i| i + 4);
            end.or(long).unwrap_or(bytes.len())
        }
        Some(_) => 2,
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_between_fields_go() {
        let mut scratch = Vec::new();
        let line = b"\x1b[31mstep:  1  \x1b[32mloss: 2.5\x1b[38;2;180;60;0mgrad_norm: 1\x1b[39m";
        assert_eq!(
            plain(line, &mut scratch),
            b"step:  1  loss: 2.5grad_norm: 1"
        );
        assert_eq!(plain(b"no colour", &mut scratch), b"no colour");
        assert_eq!(plain(b"cut \x1b[3", &mut scratch), b"cut ");
    }

    #[test]
    fn launchers_ranks_and_hosts_go() {
        let cases: &[(&str, &str, Option<u32>)] = &[
            ("[default7]: iteration 7/ 9 |", "iteration 7/ 9 |", Some(7)),
            (
                "[rank0]:step:  1  loss: 8.0",
                "step:  1  loss: 8.0",
                Some(0),
            ),
            ("[0]:s:1 trl:2.0", "s:1 trl:2.0", Some(0)),
            ("3: s:1 trl:2.0", "s:1 trl:2.0", Some(3)),
            ("  12:     train/loss=1", "    train/loss=1", Some(12)),
            ("3:", "", Some(3)),
            (
                "[0012:5]:11/01/2026 12:00:00 [INFO",
                "11/01/2026 12:00:00 [INFO",
                Some(5),
            ),
            ("[1,3]<stdout>:steps: 10", "steps: 10", Some(3)),
            ("[1,3]<stderr>: \t Train x: 1", "\t Train x: 1", Some(3)),
            (
                "slurm_procid 4 : 2026-03-01 12:00:00 | INFO",
                "2026-03-01 12:00:00 | INFO",
                Some(4),
            ),
            (
                "(TaskRunner pid=4242, ip=10.0.0.3) step:12 - a:1",
                "step:12 - a:1",
                None,
            ),
            ("(Worker(rank=0) pid=7) step:12", "step:12", None),
            ("[pod/train-0/main] s:1 tel:2", "s:1 tel:2", None),
            ("2026-03-01T12:00:00.123456789Z s:1", "s:1", None),
            ("2026-03-01T12:00:00+00:00 s:1", "s:1", None),
            ("worker-1: s:1", "s:1", None),
            ("ip-10-0-0-1.ec2.internal: s:1", "s:1", None),
            ("trainer-1  | s:1", "s:1", None),
            (
                "node3: 2026-03-01T12:00:00Z 5: [rank1]: s:1",
                "s:1",
                Some(1),
            ),
        ];
        for (line, rest, rank) in cases {
            let got = peel(line.as_bytes());
            assert_eq!(String::from_utf8_lossy(got.rest), *rest, "{line}");
            assert_eq!(got.rank, *rank, "{line}");
        }
    }

    #[test]
    fn what_programs_print_stays() {
        for line in [
            "",
            "    train/CrossEntropyLoss=2.345",
            "\t Train loss/train/total: 9.5",
            "[batch=12/4800]:",
            "[metric][batch=7]: loss: 2.0",
            "[step=100/739328,epoch=0]",
            "[Rank 0] step=10, skipped=2",
            "[2026-03-01 12:00:00,123] [INFO]",
            "[1,2]: x",
            "step: 1 loss: 2",
            "loss: 2.0",
            "2026-03-01 12:00:00 | INFO | train_inner | {}",
            "2026-03-01T12:00:00 no zone",
            "12:34:56 INFO",
            "1234567: too many tasks",
            "99999999999999999999: x",
            "(pid=4",
            "epoch | x",
            "[",
            "[rank",
            " 3",
        ] {
            let got = peel(line.as_bytes());
            assert_eq!(String::from_utf8_lossy(got.rest), line);
            assert_eq!(got.rank, None, "{line}");
        }
    }
}
