//! The pieces of a console log that a record may stand in: lines, cut at carriage returns.

/// Calls `each` with the number of the line in the chunk (from 0) and every non-empty piece of it. Progress bars put
/// several pieces on one line, parted by carriage returns.
pub(super) fn pieces<'a>(chunk: &'a [u8], mut each: impl FnMut(u64, &'a [u8])) {
    let mut number = 0;
    let mut start = 0;
    while start < chunk.len() {
        let end = memchr::memchr(b'\n', &chunk[start..]).map_or(chunk.len(), |i| start + i);
        let line = &chunk[start..end];
        if memchr::memchr(b'\r', line).is_none() {
            if !line.is_empty() {
                each(number, line);
            }
        } else {
            for piece in line.split(|b| *b == b'\r').filter(|p| !p.is_empty()) {
                each(number, piece);
            }
        }
        number += 1;
        start = end + 1;
    }
}

/// The line number in the form that is later turned into that of the source.
pub(super) fn place(line: u64) -> String {
    format!("line +{line}")
}

/// Milliseconds since 1970 of `YYYY-MM-DD HH:MM:SS[.ffffff]` or with a `T`, read as UTC: trainers print local time
/// without a zone, so only differences are to be trusted.
pub(super) fn timestamp(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes)
        .ok()?
        .trim()
        .trim_end_matches('Z');
    let civil: jiff::civil::DateTime = text.parse().ok()?;
    let stamp = jiff::tz::Offset::UTC.to_timestamp(civil).ok()?;
    Some(stamp.as_millisecond() as f64)
}

/// A date and time as milliseconds since 1970; UTC unless it says otherwise.
pub(super) fn moment(field: &[u8]) -> Option<f64> {
    let zoned = std::str::from_utf8(field)
        .ok()?
        .parse::<jiff::Timestamp>()
        .ok();
    zoned
        .map(|t| t.as_millisecond() as f64)
        .or_else(|| timestamp(field))
}

/// A part of a line for a message: at most 60 characters.
pub(super) fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(240)]);
    let short: String = text.trim().chars().take(60).collect();
    if short.len() < text.trim().len() {
        format!("{short}…")
    } else {
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriage_returns_part_pieces_and_keep_the_line() {
        let mut out = Vec::new();
        pieces(b"a\r\n\n1%\r2%{x}\nend", |n, p| {
            out.push((n, String::from_utf8_lossy(p).into_owned()));
        });
        let expected = [(0, "a"), (2, "1%"), (2, "2%{x}"), (3, "end")];
        assert_eq!(out, expected.map(|(n, p)| (n, p.to_owned())));
    }

    #[test]
    fn timestamps_of_megatron_and_iso() {
        assert_eq!(
            timestamp(b"2026-03-01 12:00:00.5"),
            Some(1_772_366_400_500.0)
        );
        assert_eq!(
            timestamp(b"2026-03-01T12:00:00Z"),
            Some(1_772_366_400_000.0)
        );
        assert_eq!(timestamp(b"yesterday"), None);
    }
}
