//! `progress.txt`, which Megatron-LM keeps beside its checkpoints: starts and saves of every job, no metric.

use crate::ingest::fields;
use crate::run::EventKind;
use crate::run::Rows;

/// What every line of it has: `2026-03-01 12:00:00\tJob ID: 7\t# GPUs: 8\tSaved checkpoint\tIteration: 1000\t…`.
pub(super) const ANCHOR: &str = "\tJob ID: ";

/// What a line tells. Only an end of a save is durable.
const EVENTS: [(&[u8], EventKind); 6] = [
    (b"Starting job", EventKind::Start),
    (b"Saving async checkpoint", EventKind::SaveStarted),
    (b"Saved async checkpoint", EventKind::Saved),
    (b"Saved async local checkpoint", EventKind::Saved),
    (b"Saved checkpoint", EventKind::Saved),
    (b"Deleted checkpoint", EventKind::Deleted),
];

/// Whether the start of a file is one of it.
pub(super) fn sniff(head: &[u8]) -> bool {
    fields::after(head, ANCHOR).is_some_and(|rest| fields::after(rest, "\t# GPUs: ").is_some())
}

pub(super) fn read(line: &[u8], _: usize, rows: &mut Rows) {
    let mut cells = line.split(|b| *b == b'\t').map(<[u8]>::trim_ascii);
    let gpus = cells.by_ref().find_map(|c| c.strip_prefix(b"# GPUs: "));
    let known = |what: &[u8]| EVENTS.iter().find(|(words, _)| *words == what);
    let (Some(gpus), Some((_, kind))) = (gpus, cells.next().and_then(known)) else {
        return;
    };
    let step = cells
        .find_map(|c| fields::step_after(c, "Iteration: "))
        .map(|(step, _)| step);
    if *kind == EventKind::Start {
        let gpus = String::from_utf8_lossy(gpus).into_owned();
        rows.facts.entry("world_size".to_owned()).or_insert(gpus);
    }
    if *kind == EventKind::Start || step.is_some() {
        rows.mark(*kind, step, None);
    }
}
