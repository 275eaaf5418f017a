//! Puts checksums right after a mutation: without that, hardly any mutated record would get past its frame.

/// Bytes before the data of a record of an event file, and after it.
const HEADER: usize = 12;
const FOOTER: usize = 4;
/// Bytes of the preface of a `.wandb` file, of a block, and before a fragment.
const PREFACE: usize = 7;
const BLOCK: usize = 32 * 1024;
const FRAGMENT: usize = 7;

/// The records of an event file: each length gets its checksum, and each record that fits gets that of its data.
pub fn event_file(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(len) = bytes.get(at..).and_then(|b| b.first_chunk::<8>()) {
        let len = u64::from_le_bytes(*len);
        if !put(bytes, at + 8, at..at + 8, masked) {
            return;
        }
        let data = at + HEADER;
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| data.checked_add(len));
        let Some(end) = end.filter(|end| *end <= bytes.len()) else {
            return;
        };
        if !put(bytes, end, data..end, masked) {
            return;
        }
        at = end + FOOTER;
    }
}

/// The fragments of a `.wandb` file: each that fits its block gets the checksum of its type and data.
pub fn wandb(bytes: &mut [u8]) {
    let mut at = PREFACE;
    while at < bytes.len() {
        let left = (BLOCK - at % BLOCK).min(bytes.len() - at);
        if left < FRAGMENT {
            at += left;
            continue;
        }
        let len = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        if FRAGMENT + len > left {
            at += left;
            continue;
        }
        put(
            bytes,
            at,
            at + FRAGMENT - 1..at + FRAGMENT + len,
            crc32fast::hash,
        );
        at += FRAGMENT + len;
    }
}

/// Writes a checksum, if there is room for it.
fn put(bytes: &mut [u8], at: usize, of: std::ops::Range<usize>, sum: fn(&[u8]) -> u32) -> bool {
    let sum = sum(&bytes[of]).to_le_bytes();
    let Some(place) = bytes.get_mut(at..at + 4) else {
        return false;
    };
    place.copy_from_slice(&sum);
    true
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}
