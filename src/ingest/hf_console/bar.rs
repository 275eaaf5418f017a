//! Progress bars: ` 38%|███▊      | 379/1000 [10:00<16:23,  1.58s/it]`.

use memchr::memmem;

use crate::ingest::records::Cursor;

/// Where a progress bar stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bar {
    /// Steps done.
    pub(super) done: u64,
    /// Steps in all.
    pub(super) total: u64,
}

/// Calls `each` with every bar without a description: those have other things to count than steps.
pub(super) fn bars(text: &[u8], mut each: impl FnMut(Bar)) {
    let mut from = 0;
    for at in memmem::find_iter(text, b" [") {
        if let Some(bar) = bar(&text[from..at]) {
            each(bar);
            from = at;
        }
    }
}

/// The bar that ends here.
fn bar(text: &[u8]) -> Option<Bar> {
    let count = memchr::memrchr(b'|', text)?;
    let mut cursor = Cursor::new(&text[count + 1..]);
    let done = cursor.digits()?;
    cursor.eat("/")?;
    let total = cursor.digits()?;
    let ends = cursor.rest().is_empty() && total > 0 && done <= total;
    (ends && !is_described(&text[..count])).then_some(Bar { done, total })
}

/// `Map:  38%|███▊`.
fn is_described(text: &[u8]) -> bool {
    let Some(percent) = memmem::rfind(text, b"%|") else {
        return true;
    };
    let digits = text[..percent]
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let before = text[..percent - digits].trim_ascii_end();
    digits == 0 || before.ends_with(b":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        bars(text.as_bytes(), |b| out.push((b.done, b.total)));
        out
    }

    #[test]
    fn bars_of_training_only() {
        assert_eq!(
            all(" 38%|███▊   | 379/1000 [10:00<16:23,  1.58s/it]"),
            [(379, 1000)]
        );
        let two = "  1%|1 | 10/1000 [00:00<10:00,  1.6s/it]  2%|2 | 20/1000 [00:00<10:00]";
        assert_eq!(all(two), [(10, 1000), (20, 1000)]);
        assert_eq!(all("text 100%|##########| 5/5 [00:01<?, ?it/s]"), [(5, 5)]);
        for other in [
            "Map: 100%|██████████| 1000/1000 [00:00<00:00]",
            "Loading checkpoint shards:  50%|█████     | 2/4 [00:01<00:01]",
            "12it [00:01, 10.0it/s]",
            "| 7/5 [",
            " 50%|██| 1.2k/2.4k [00:01<00:01]",
            "see a/b [1]",
        ] {
            assert!(all(other).is_empty(), "{other}");
        }
    }
}
