//! The line `step N/M | name value | …` of Karpathy's trainers.

use crate::ingest::fields::Names;
use crate::ingest::fields::Torn;
use crate::ingest::records::Cursor;
use crate::ingest::records::Piece;
use crate::run::Rows;

/// The start of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header<'a> {
    /// The step.
    pub(super) step: u64,
    /// Whether the number of steps follows it.
    pub(super) total: bool,
    /// Whether a percentage follows it.
    pub(super) percent: bool,
    /// The fields.
    pub(super) body: &'a [u8],
}

/// The first record of a piece, wherever it begins.
pub(super) fn header(text: &[u8]) -> Option<Header<'_>> {
    memchr::memmem::find_iter(text, b"tep ").find_map(|at| {
        let word = at > 0 && matches!(text[at - 1], b's' | b'S');
        let free = at < 2 || text[at - 2] != b'_';
        (word && free).then(|| opening(&text[at + 4..]))?
    })
}

/// `N`, `N/M` or `N/M (p%)` before the first bar.
fn opening(text: &[u8]) -> Option<Header<'_>> {
    let mut cursor = Cursor::new(text);
    let step = cursor.digits()?;
    let total = cursor.eat("/").is_some() && cursor.digits().is_some();
    cursor.spaces();
    let percent = cursor.eat("(").is_some();
    if percent {
        cursor.number()?;
        cursor.eat("%) ")?;
    }
    cursor.eat("|")?;
    Some(Header {
        step,
        total,
        percent,
        body: cursor.rest(),
    })
}

/// A field as its name, or its unit if it has none, and its value: `loss 3.1 (+0.1z)`, `dt: 12.5ms`, `29.2% bf16 MFU`.
fn field(text: &[u8]) -> Option<(&[u8], f64)> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"(").unwrap_or(text);
    let mut cursor = Cursor::new(text);
    if cursor.find(":").is_some() {
        let name = &text[..text.len() - cursor.rest().len() - 1];
        return Some((name, cursor.number()?));
    }
    let mut start = 0;
    loop {
        cursor = Cursor::new(&text[start..]);
        if let Some(value) = cursor.number() {
            let name = text[..start].trim_ascii_end();
            let key = if name.is_empty() {
                cursor.rest().trim_ascii()
            } else {
                name
            };
            return Some((key, value));
        }
        start += memchr::memchr(b' ', &text[start..])? + 1;
    }
}

/// Whether a record has a field of one of these names, or of one of these units.
pub(super) fn has(header: &Header<'_>, names: &[&str]) -> bool {
    let mut fields = header.body.split(|b| *b == b'|').filter_map(field);
    fields.any(|(name, _)| names.iter().any(|n| n.as_bytes() == name))
}

fn column(name: &str) -> Option<&str> {
    Some(match name {
        "loss" | "train loss" | "Training loss" => "loss",
        "norm" | "grad norm" => "grad_norm",
        "lr" => "lr",
        "lrm" => "lrm",
        "dt" | "ms" => "step_time_ms",
        "tok/sec" | "tok/s" | "tok/s)" => "tokens_per_sec",
        "mfu" | "bf16_mfu" => "mfu",
        "epoch" => "epoch",
        "Validation bpb" => "val_bpb",
        "Validation loss" => "val_loss",
        _ if name.ends_with("MFU") => "mfu",
        _ => return None,
    })
}

/// Whether a field that nothing follows may be taken for whole.
fn may_end(name: &[u8]) -> bool {
    !matches!(
        name,
        b"loss" | b"train loss" | b"norm" | b"grad norm" | b"lr"
    )
}

/// Reads the fields of records.
pub(super) struct Fields {
    names: Names,
    torn: Torn,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            names: Names::new(column),
            torn: Torn::default(),
        }
    }
}

impl Fields {
    /// Begins a row and reads its fields.
    pub(super) fn read(&mut self, header: &Header<'_>, piece: &Piece<'_>, rows: &mut Rows) {
        rows.begin(header.step);
        self.names.begin();
        let mut rest = header.body;
        loop {
            let end = memchr::memchr(b'|', rest);
            self.field(
                &rest[..end.unwrap_or(rest.len())],
                end.is_some(),
                piece.line,
                rows,
            );
            let Some(end) = end else { break };
            rest = &rest[end + 1..];
        }
    }

    fn field(&mut self, text: &[u8], closed: bool, line: u64, rows: &mut Rows) {
        match field(text) {
            Some((name, value)) if closed || may_end(name) => {
                if let Some(slot) = self.names.slot(name, rows) {
                    rows.set(slot, value);
                }
            }
            _ if text.trim_ascii().is_empty() => {}
            _ => self
                .torn
                .lose(line, "not a whole field; the others are kept", text, rows),
        }
    }

    /// Ends the chunk.
    pub(super) fn finish(&self, rows: &mut Rows) {
        self.torn.finish(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_by_name_or_unit() {
        assert_eq!(field(b" loss 10.99 (+nanz)"), Some((&b"loss"[..], 10.99)));
        assert_eq!(field(b" 3056.36 ms "), Some((&b"ms"[..], 3056.36)));
        assert_eq!(field(b" 42.6% bf16 MFU "), Some((&b"% bf16 MFU"[..], 42.6)));
        assert_eq!(
            field(b" tok/sec: 424,000 "),
            Some((&b"tok/sec"[..], 424_000.0))
        );
        assert_eq!(field(b" (21.43 ms"), Some((&b"ms"[..], 21.43)));
        let (name, value) = field(b" norm    -nan (+nanz)").expect("a field");
        assert!(name == b"norm" && value.is_nan());
        assert_eq!(field(b"slurmstepd: error: *** JOB 11"), None);
        assert_eq!(field(b" "), None);
    }

    #[test]
    fn headers_of_three_dialects() {
        let of = |text: &str| header(text.as_bytes()).map(|h| (h.step, h.total, h.percent));
        assert_eq!(of("step    1/18865 | loss"), Some((1, true, false)));
        assert_eq!(of("x step     0 | loss: 1"), Some((0, false, false)));
        assert_eq!(
            of("step 00100/21400 (0.47%) | loss"),
            Some((100, true, true))
        );
        assert_eq!(
            of("Step 00500 | Validation bpb: 0.8"),
            Some((500, false, false))
        );
        assert_eq!(of("global_step 5 | loss"), None);
        assert_eq!(of("step 5: loss"), None);
        assert_eq!(of("tep 5 |"), None);
    }
}
