//! Takes off what launchers, loggers and terminals put around a line: colours, ranks, hosts, times, levels.

mod logger;

use crate::ingest::number;

/// Prefixes that may stand one before the other: a container's, a time, a scheduler's, a launcher's, a logger's, and
/// those that the program itself puts there.
const ROUNDS: usize = 8;
/// The longest name of a host, a container or an actor.
const LONGEST_NAME: usize = 128;

/// A line without its prefixes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Peeled<'a> {
    /// What the program itself printed, its leading spaces included.
    pub(super) rest: &'a [u8],
    /// The rank or task that the innermost prefix names: often the rank on its node only.
    pub(super) rank: Option<u32>,
    /// The time that the innermost prefix names, in milliseconds since 1970, read as UTC.
    pub(super) time: Option<f64>,
}

/// Takes prefixes off the front of a line without colours (see [`plain`]).
pub(super) fn peel(line: &[u8]) -> Peeled<'_> {
    let mut peeled = Peeled {
        rest: line,
        rank: None,
        time: None,
    };
    for _ in 0..ROUNDS {
        let rest = &peeled.rest[lost_colour(peeled.rest)..];
        let Some(found) = prefix(rest) else {
            break;
        };
        let rest = &rest[found.len..];
        peeled.rest = &rest[lost_colour(rest)..];
        peeled.rank = found.rank.or(peeled.rank);
        peeled.time = found.time.or(peeled.time);
    }
    peeled
}

/// A prefix, and what it names.
#[derive(Debug, Default, Clone, Copy)]
struct Prefix {
    len: usize,
    rank: Option<u32>,
    time: Option<f64>,
}

impl Prefix {
    fn plain(len: usize) -> Self {
        Self {
            len,
            ..Self::default()
        }
    }

    fn of_rank((len, rank): (usize, Option<u32>)) -> Self {
        Self {
            len,
            rank,
            time: None,
        }
    }

    fn stamp(line: &[u8]) -> Option<Self> {
        logger::stamp(line).map(|s| Self {
            len: s.len,
            rank: None,
            time: s.time,
        })
    }
}

fn prefix(line: &[u8]) -> Option<Prefix> {
    let tagged = || logger::tagged(line).map(Prefix::plain);
    match line.first()? {
        b'[' => bracket(line)
            .map(Prefix::of_rank)
            .or_else(|| Prefix::stamp(line))
            .or_else(tagged),
        b'(' => actor(line).map(Prefix::plain),
        b' ' => padded_task(line).map(Prefix::of_rank),
        b'0'..=b'9' => task(line)
            .map(Prefix::of_rank)
            .or_else(|| Prefix::stamp(line)),
        b if b.is_ascii_alphabetic() => slurm_task(line)
            .map(Prefix::of_rank)
            .or_else(|| host(line).or_else(|| container(line)).map(Prefix::plain))
            .or_else(tagged)
            .or_else(|| Prefix::stamp(line)),
        _ => None,
    }
}

/// Length of a colour at the start of which a collector dropped the escape or wrote it out: `[36m`, `^[[0m`.
fn lost_colour(line: &[u8]) -> usize {
    let rest = line.strip_prefix(b"^[").unwrap_or(line);
    let Some(codes) = rest.strip_prefix(b"[") else {
        return 0;
    };
    let inside = |b: &&u8| b.is_ascii_digit() || **b == b';';
    let len = codes.iter().take(15).take_while(inside).count();
    if len > 0 && codes.get(len) == Some(&b'm') {
        line.len() - codes.len() + len + 1
    } else {
        0
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

/// `(TaskRunner pid=4242, ip=10.0.0.3) `, of older versions `(pid=4242) `.
fn actor(line: &[u8]) -> Option<usize> {
    let near = &line[..line.len().min(LONGEST_NAME)];
    let pid = if near.starts_with(b"(pid=") {
        5
    } else {
        memchr::memmem::find(near, b" pid=")? + 5
    };
    let (_, len) = small(&line[pid..])?;
    let end = pid + len + position(&line[pid + len..], b')')?;
    let between = &line[pid + len..end];
    let named = line[1].is_ascii_alphabetic() || line[1] == b'_';
    // The colour of the name may end behind it.
    let rest = &line[end + 1..];
    let rest = one_space(&rest[lost_colour(rest)..]);
    (named && (between.is_empty() || between.starts_with(b", ip=")))
        .then(|| line.len() - rest.len())
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

/// `worker-1: `. Only names with a number in them: words before a colon are mostly keys.
fn host(line: &[u8]) -> Option<usize> {
    let (name, rest) = line.split_at(name(line));
    let last = name.last()?.is_ascii_digit();
    let numbered = last || (name.contains(&b'.') && name.iter().any(u8::is_ascii_digit));
    (numbered && rest.starts_with(b": ")).then_some(name.len() + 2)
}

/// docker's `trainer-1  | `, or `trainer | ` where the container has a name of its own.
fn container(line: &[u8]) -> Option<usize> {
    let (name, rest) = line.split_at(name(line));
    let spaces = rest.iter().take(64).take_while(|b| **b == b' ').count();
    (spaces > 0 && rest[spaces..].starts_with(b"| ")).then_some(name.len() + spaces + 2)
}

/// Length of the name of a host or a container at the start.
fn name(line: &[u8]) -> usize {
    let inside = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    line.iter().take(LONGEST_NAME).take_while(inside).count()
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
                "slurm_procid 4 : 2026-03-01 12:00:00 | INFO | s:1",
                "s:1",
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
            ("(pid=4242) step:12", "step:12", None),
            ("[36m(TaskRunner pid=4242)[0m step:12", "step:12", None),
            ("^[[36m(pid=7)^[[0m step:12", "step:12", None),
            (
                "[default1]:2026-03-01 12:00:00,123 - root - INFO - s:1",
                "s:1",
                Some(1),
            ),
            ("12:34:56 3: s:1", "s:1", Some(3)),
            ("INFO:root:s:1", "s:1", None),
            ("trainer  | s:1", "s:1", None),
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
            "[1,2]: x",
            "step: 1 loss: 2",
            "loss: 2.0",
            "2026-03-01 10:00:05.520\thost-a:0\tolmo_core.train:68\tINFO\t[step=1/9,epoch=1]",
            "iter 250: loss 3.4567, time 561.94ms",
            "step    1/18865 | loss 10.99",
            "| epoch 001:    450 / 1891 loss=11.521",
            "Epoch 1 | iter 64 step 4 | loss train: 10.123",
            "1234567: too many tasks",
            "99999999999999999999: x",
            "(pid=4",
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
