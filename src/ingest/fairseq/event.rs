//! Lines of fairseq and metaseq between the records: overflows, checkpoints, starts, skipped data, configuration.

use crate::ingest::fields;
use crate::ingest::records::Cursor;
use crate::run::EventKind;
use crate::run::Rows;

pub(super) fn read(text: &[u8], rows: &mut Rows) {
    if fields::after(text, "setting loss scale to: ").is_some() {
        rows.mark(EventKind::Overflow, None, None);
    } else if fields::after(text, "Minimum loss scale reached").is_some() {
        rows.mark(EventKind::Exit, None, None);
    } else if let Some(rest) = fields::after(text, "aved checkpoint ") {
        checkpoint(EventKind::Saved, rest, rows);
    } else if let Some(rest) = fields::after(text, "oaded checkpoint ") {
        checkpoint(EventKind::Loaded, rest, rows);
    } else if fields::after(text, "training on ").is_some_and(counts_devices) {
        rows.mark(EventKind::Start, None, None);
    } else if let Some((step, rest)) =
        fields::step_after(text, "Skipping batches starting from step")
    {
        let left = fields::step_after(rest, "with").map(|(left, _)| format!("{left} batches"));
        rows.mark(EventKind::DataSkipped, Some(step), left);
    } else if let Some(betas) = fields::after(text, "adam_betas") {
        note(betas, text, rows);
    }
}

/// `P (epoch 1 @ 1000 updates)`.
fn checkpoint(kind: EventKind, rest: &[u8], rows: &mut Rows) {
    let step = fields::after(rest, "(epoch ").and_then(|r| fields::step_after(r, "@"));
    if let Some((step, rest_of_it)) = step
        && rest_of_it.starts_with(b" updates")
    {
        rows.mark(kind, Some(step), fields::path(rest));
    }
}

/// `8 devices (GPUs/TPUs)`, formerly `4 GPUs`.
fn counts_devices(rest: &[u8]) -> bool {
    let mut cursor = Cursor::new(rest);
    let many = cursor.digits().is_some();
    many && (cursor.eat(" devices").is_some() || cursor.eat(" GPUs").is_some())
}

/// `adam_betas='(0.9, 0.95)'` in the dump of the arguments, which has the norm that gradients are clipped to too.
fn note(betas: &[u8], text: &[u8], rows: &mut Rows) {
    let mut cursor = Cursor::new(&betas[..betas.len().min(40)]);
    let second = cursor.find("(").and_then(|()| {
        cursor.number()?;
        cursor.eat(",")?;
        cursor.number()
    });
    if let Some(beta2) = second.filter(|b| (0.0..1.0).contains(b)) {
        let fact = rows.facts.entry("adam_beta2".to_owned());
        fact.or_insert_with(|| beta2.to_string());
    }
    let clip = fields::after(text, "clip_norm")
        .map(|c| &c[c.iter().take_while(|b| b"'\": =".contains(b)).count()..]);
    if let Some(clip) = clip.and_then(|c| Cursor::new(c).number()) {
        let fact = rows.facts.entry("clip_grad".to_owned());
        fact.or_insert_with(|| clip.to_string());
    }
}
