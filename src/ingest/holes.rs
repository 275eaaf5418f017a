//! Zero bytes in text: what a sparse write over a network or a truncation in place leaves in a log.

use crate::run::Rows;

/// The shortest run of zeros that is a hole. Text in two bytes a character has one zero after the other.
const SHORTEST: usize = 8;

/// Takes holes out of a chunk that ends at a byte of its source, and tells of them.
pub(super) fn close(chunk: Vec<u8>, end: u64, rows: &mut Rows) -> Vec<u8> {
    if memchr::memmem::find(&chunk, &[0; SHORTEST]).is_none() {
        return chunk;
    }
    let start = end.saturating_sub(chunk.len() as u64);
    let mut out = Vec::with_capacity(chunk.len());
    let mut rest = &chunk[..];
    while let Some(at) = memchr::memmem::find(rest, &[0; SHORTEST]) {
        let zeros = rest[at..].iter().take_while(|b| **b == 0).count();
        let place = start + (chunk.len() - rest.len() + at) as u64;
        rows.lose(
            format!("byte {place}"),
            format!("{zeros} zero bytes: nothing was written here, or it was truncated"),
        );
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + zeros..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_told_and_what_is_around_them_is_joined() {
        let mut rows = Rows::default();
        let chunk = [&b"ab\0\0c"[..], &[0; 9], b"d\ne", &[0; 20]].concat();
        let end = 1000 + chunk.len() as u64;
        assert_eq!(close(chunk, end, &mut rows), b"ab\0\0cd\ne");
        let told: Vec<_> = rows
            .losses
            .iter()
            .map(|l| (&*l.place, &l.what[..2]))
            .collect();
        assert_eq!(told, [("byte 1005", "9 "), ("byte 1017", "20")]);
        assert_eq!(close(b"plain\n".to_vec(), 6, &mut rows), b"plain\n");
    }
}
