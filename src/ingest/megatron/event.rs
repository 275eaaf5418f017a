//! Lines between the records: checkpoints, starts and ends, validation, the dump of arguments.

use memchr::memmem::Finder;

use crate::ingest::deepspeed;
use crate::ingest::megatron::PRIVATE;
use crate::ingest::megatron::progress;
use crate::ingest::number;
use crate::run::EventKind;
use crate::run::Rows;

type Rule = fn(&[u8], usize, &mut Rows);

const STARTED: &str = "[before the start of training step]";

/// What a line must contain, and what reads it from there.
const RULES: [(&str, Rule); 9] = [
    ("checkpoint", checkpoint),
    (STARTED, started),
    ("[exiting program", exited),
    ("Skipping step", overflow),
    ("Skipped iterations", data_skipped),
    ("loss value: ", validation),
    (" ...", argument),
    ("global_step", engine),
    (progress::ANCHOR, progress::read),
];

/// Words before the step of a checkpoint line, what it is, and the word before its path.
const CHECKPOINTS: [(&str, EventKind, &str); 7] = [
    (
        "successfully saved checkpoint at iteration",
        EventKind::Saved,
        " to ",
    ),
    (
        "successfully saved checkpoint from iteration",
        EventKind::Saved,
        " to ",
    ),
    (
        "successfully saved local checkpoint from iteration",
        EventKind::Saved,
        " to ",
    ),
    (
        "scheduled an async checkpoint save at iteration",
        EventKind::SaveStarted,
        " to ",
    ),
    (
        "saving checkpoint at iteration",
        EventKind::SaveStarted,
        " to ",
    ),
    (
        "successfully deleted checkpoint from iteration",
        EventKind::Deleted,
        " at ",
    ),
    (
        "Loading checkpoint and starting from iteration",
        EventKind::Loaded,
        " from ",
    ),
];

/// The kind under which [`validation`] hands its value to the settling of the log.
pub(super) const VALIDATION: EventKind = EventKind::BatchSize;

/// The longest value of an argument that is kept: lists of data sets can be megabytes.
const LONGEST_VALUE: usize = 4096;

/// Whether the start of a log has lines about checkpoints or starts: that of the first rank, while the last one prints
/// the iterations.
pub(super) fn sniff(head: &[u8]) -> bool {
    let told = |(words, ..): &(&str, EventKind, &str)| step_after(head, words).is_some();
    let started = after(head, STARTED).is_some_and(|rest| rest.starts_with(b" datetime: "));
    started || CHECKPOINTS.iter().any(told)
}

/// Reads what is not a record.
pub(super) struct Events {
    rules: [(Finder<'static>, Rule); 9],
}

impl Events {
    pub(super) fn new() -> Self {
        Self {
            rules: RULES.map(|(words, rule)| (Finder::new(words), rule)),
        }
    }

    pub(super) fn read(&self, line: &[u8], rows: &mut Rows) {
        for (words, rule) in &self.rules {
            if let Some(at) = words.find(line) {
                rule(line, at, rows);
            }
        }
    }
}

fn checkpoint(line: &[u8], _: usize, rows: &mut Rows) {
    for (words, kind, to) in CHECKPOINTS {
        if let Some((step, rest)) = step_after(line, words) {
            rows.mark(kind, Some(step), after(rest, to).and_then(word));
            return;
        }
    }
    loaded(line, rows);
}

/// A load is told at its start, at its end or both; the start is private until that is known.
fn loaded(line: &[u8], rows: &mut Rows) {
    const STARTS: [&[u8]; 4] = [
        b"loading",
        b"loading release",
        b"loading distributed",
        b"loading release distributed",
    ];
    const FROM: &str = "checkpoint from ";
    let Some(rest) = after(line, FROM) else {
        return;
    };
    let before = line[..line.len() - rest.len() - FROM.len()].trim_ascii_end();
    let step = step_after(rest, " at iteration").map(|(step, _)| step);
    if before.ends_with(b"successfully loaded") {
        rows.mark(EventKind::Loaded, step, word(rest));
    } else if step.is_some() && STARTS.iter().any(|s| before.ends_with(s)) {
        let path = format!("{PRIVATE}{}", word(rest).unwrap_or_default());
        rows.mark(EventKind::Loaded, step, Some(path));
    }
}

/// Checkpoints that `DeepSpeed` saves for its forks and for gpt-neox.
fn engine(line: &[u8], _: usize, rows: &mut Rows) {
    deepspeed::checkpoint(line, rows);
}

fn started(_: &[u8], _: usize, rows: &mut Rows) {
    rows.mark(EventKind::Start, None, None);
}

fn exited(line: &[u8], _: usize, rows: &mut Rows) {
    let step = step_after(line, "[exiting program at iteration").map(|(step, _)| step);
    rows.mark(EventKind::Exit, step, None);
}

/// `DeepSpeed`'s `OVERFLOW! Rank 0 Skipping step.`
fn overflow(line: &[u8], _: usize, rows: &mut Rows) {
    if after(line, "OVERFLOW!")
        .or_else(|| after(line, "overflow!"))
        .is_some()
    {
        rows.mark(EventKind::Overflow, None, None);
    }
}

/// `BigScience`'s `Skipped iterations A to B due to --skip-train-iteration-range flag.`
fn data_skipped(line: &[u8], _: usize, rows: &mut Rows) {
    let Some((from, rest)) = step_after(line, "Skipped iterations") else {
        return;
    };
    let Some((to, _)) = step_after(rest, " to") else {
        return;
    };
    rows.mark(
        EventKind::DataSkipped,
        Some(from),
        Some(format!("{from}-{to}")),
    );
}

/// The loss of the validation set, not of the test set or of a named extra set.
fn validation(line: &[u8], at: usize, rows: &mut Rows) {
    let step = step_after(line, "validation loss at iteration")
        .or_else(|| step_after(line, "validation results at iteration"));
    let ours = line[..at.saturating_sub(1)].ends_with(b"lm");
    let test = after(line, "test set").is_some();
    let value = after(&line[at..], ": ").and_then(|v| number::leading(v.trim_ascii_start()));
    if let (Some((step, _)), true, false, Some((value, _))) = (step, ours, test, value) {
        rows.mark(VALIDATION, Some(step), Some(format!("{PRIVATE}{value:?}")));
    }
}

/// `  adam_beta2 ...... 0.95`, and gpt-neox's `  adam_beta2 ...... 0.95......default`.
fn argument(line: &[u8], at: usize, rows: &mut Rows) {
    let (before, dots) = line.split_at(at);
    let start = before
        .iter()
        .rposition(|b| !b.is_ascii_alphanumeric() && *b != b'_');
    let (lead, key) = before.split_at(start.map_or(0, |s| s + 1));
    let lead = lead.trim_ascii_end();
    // Sentences that trail off, and timers, have something else before their last word.
    let first = lead.is_empty() || lead.ends_with(b":") || lead.ends_with(b"]");
    let named = key.first().is_some_and(|b| !b.is_ascii_digit());
    if let Some(value) = argument_value(dots).filter(|_| first && named) {
        note(key, value, rows);
        // gpt-neox and DeepSpeed have no argument of its own for this.
        if let Some(beta2) = after(value, "'betas': [").and_then(|b| after(b, ", ")) {
            let len = number::leading(beta2).map_or(0, |(_, len)| len);
            note(b"adam_beta2", &beta2[..len], rows);
        }
    }
}

fn note(key: &[u8], value: &[u8], rows: &mut Rows) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    rows.facts.entry(text(key)).or_insert_with(|| text(value));
}

fn argument_value(dots: &[u8]) -> Option<&[u8]> {
    let end = dots[1..].iter().position(|b| *b != b'.')? + 1;
    let value = dots[end..].strip_prefix(b" ")?.trim_ascii();
    let value = value.strip_suffix(b"updated").unwrap_or(value);
    let value = value.strip_suffix(b".default").unwrap_or(value);
    let value = &value[..=value.iter().rposition(|b| *b != b'.')?];
    // DeepSpeed's report on its installation looks the same.
    let report = [&b"[OKAY]"[..], b"[NO]", b"[YES]", b"\x1b"];
    let report = report.iter().any(|r| value.starts_with(r));
    (value.len() <= LONGEST_VALUE && !report).then_some(value)
}

fn after<'a>(line: &'a [u8], words: &str) -> Option<&'a [u8]> {
    memchr::memmem::find(line, words.as_bytes()).map(|at| &line[at + words.len()..])
}

/// The number that follows some words, and the rest of the line.
fn step_after<'a>(line: &'a [u8], words: &str) -> Option<(u64, &'a [u8])> {
    let rest = after(line, words)?.trim_ascii_start();
    let (step, len) = number::digits(rest)?;
    Some((step, &rest[len..]))
}

fn word(text: &[u8]) -> Option<String> {
    let text = text.trim_ascii_start();
    let end = text
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(text.len());
    (end > 0).then(|| String::from_utf8_lossy(&text[..end]).into_owned())
}
