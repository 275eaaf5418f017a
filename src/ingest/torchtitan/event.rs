//! Lines of torchtitan between the records: starts, loads and saves.

use memchr::memmem::Finder;

use crate::ingest::fields;
use crate::run::EventKind;
use crate::run::Rows;

/// The path of a save that may be in memory only, until the whole log is known.
const STAGED: &str = "\u{1}staged";
/// The path of a save that is in memory only.
const IN_MEMORY: &str = "\u{1}in memory";

type Event = fn(&[u8], usize, &mut Rows);

/// What a line must contain, and what reads it from there.
const EVENTS: [(&str, Event); 9] = [
    ("Training starts at step", started),
    ("Loading the checkpoint", loading),
    ("aving the checkpoint", saving),
    ("taging the checkpoint", saving),
    ("Last step checkpoint completed in", saved_last),
    ("Checkpointer is deleting ", deleting),
    ("at last step, step", saving_last),
    ("async_mode", mode),
    ("is not finite on at least one rank at step", not_finite),
];

/// Reads what is not a record.
pub(super) struct Events {
    events: [(Finder<'static>, Event); 9],
}

impl Events {
    pub(super) fn new() -> Self {
        Self {
            events: EVENTS.map(|(words, event)| (Finder::new(words), event)),
        }
    }

    pub(super) fn read(&self, line: &[u8], rows: &mut Rows) {
        for (words, event) in &self.events {
            if let Some(at) = words.find(line) {
                event(line, at, rows);
            }
        }
    }
}

fn started(line: &[u8], at: usize, rows: &mut Rows) {
    if let Some((step, _)) = fields::step_after(&line[at..], "at step") {
        rows.mark(EventKind::Start, Some(step), None);
    }
}

/// `Loading the checkpoint from P/step-1000.`, formerly `Loading the checkpoint at step 1000.`.
fn loading(line: &[u8], at: usize, rows: &mut Rows) {
    let rest = &line[at..];
    if let Some((step, _)) = fields::step_after(rest, "checkpoint at step") {
        rows.mark(EventKind::Loaded, Some(step), None);
    } else if let Some(path) = fields::after(rest, "checkpoint from").and_then(fields::path) {
        rows.mark(EventKind::Loaded, fields::step_of_path(&path), Some(path));
    }
}

/// Lines about saves name no step: it is that of the last row. Since 0.3 saves in the background print `Staging`.
fn saving(line: &[u8], at: usize, rows: &mut Rows) {
    let path = if line[at..].starts_with(b"taging") {
        Some(IN_MEMORY.to_owned())
    } else {
        fields::after(&line[at..], "or staging").map(|_| STAGED.to_owned())
    };
    match line[..at].last() {
        Some(b'S') => rows.mark(EventKind::SaveStarted, None, None),
        _ if line[..at].ends_with(b"Finished s") => rows.mark(EventKind::Saved, None, path),
        _ => {}
    }
}

fn saving_last(line: &[u8], at: usize, rows: &mut Rows) {
    if let Some((step, _)) = fields::step_after(&line[at..], ", step") {
        rows.mark(EventKind::SaveStarted, Some(step), None);
    }
}

fn saved_last(_: &[u8], _: usize, rows: &mut Rows) {
    rows.mark(EventKind::Saved, None, None);
}

fn deleting(line: &[u8], at: usize, rows: &mut Rows) {
    if let Some(path) = fields::after(&line[at..], "deleting ").and_then(fields::path) {
        let step = fields::step_of_path(&path);
        rows.mark(EventKind::Deleted, step, Some(path));
    }
}

/// The trainer stops before it logs such a step. If the loss is not finite, neither is the gradient norm.
fn not_finite(line: &[u8], at: usize, rows: &mut Rows) {
    if let Some((step, _)) = fields::step_after(&line[at..], "at step") {
        rows.mark(EventKind::NanInferred, Some(step), None);
        rows.begin(step);
        let norm = rows.slot("grad_norm");
        rows.set(norm, f64::NAN);
        rows.mark(EventKind::Exit, Some(step), None);
    }
}

/// The configuration that is printed at the start says whether `Finished saving` means that a save is on disk.
fn mode(line: &[u8], at: usize, rows: &mut Rows) {
    const MODES: [&str; 2] = ["disabled", "async"];
    let value = line[at..].iter().skip("async_mode".len()).take(24);
    let value: Vec<u8> = value.map(u8::to_ascii_lowercase).collect();
    if let Some(mode) = MODES.iter().find(|m| fields::after(&value, m).is_some()) {
        let fact = rows.facts.entry("async_mode".to_owned());
        fact.or_insert_with(|| (*mode).to_owned());
    }
}

/// With saves in the background, `Finished saving the checkpoint (or staging …)` and `Finished staging the checkpoint`
/// say that the copy is in memory. It is on disk when the next save begins, which waits for it.
pub(super) fn staged(rows: &mut Rows) {
    let background = rows.facts.get("async_mode").is_some_and(|m| m == "async");
    let (mut pending, mut done) = (None, Vec::new());
    for mark in &mut rows.marks {
        let step = mark
            .row
            .checked_sub(1)
            .and_then(|r| rows.steps.get(r))
            .copied();
        let staged = match mark.path.as_deref() {
            Some(STAGED) => background,
            path => path == Some(IN_MEMORY),
        };
        match mark.kind {
            EventKind::Saved if staged => {
                mark.kind = EventKind::SaveStarted;
                pending = step;
            }
            EventKind::SaveStarted if step > pending => {
                done.extend(pending.take().map(|step| (mark.row, step)));
            }
            EventKind::Start | EventKind::Loaded => pending = None,
            _ => {}
        }
        mark.path.take_if(|p| p == STAGED || p == IN_MEMORY);
    }
    let count = done.len();
    for (row, step) in done {
        rows.mark(EventKind::Saved, Some(step), None);
        if let Some(mark) = rows.marks.last_mut() {
            mark.row = row;
        }
    }
    // Before the save that begins there.
    rows.marks.rotate_right(count);
    rows.marks.sort_by_key(|m| m.row);
}
