//! Numbers as trainers print them.

/// A whole field as a number: any spelling of NaN and infinity, thousands commas, surrounding space. `None` if it is
/// something else.
pub(super) fn number(field: &[u8]) -> Option<f64> {
    let field = field.trim_ascii();
    match fast_float2::parse::<f64, _>(field) {
        Ok(value) => Some(value),
        Err(_) => slow(field),
    }
}

/// The number at the start of the bytes, and its length.
pub(super) fn leading(bytes: &[u8]) -> Option<(f64, usize)> {
    match fast_float2::parse_partial::<f64, _>(bytes) {
        Ok((value, len)) if len > 0 => Some((value, len)),
        _ => None,
    }
}

/// Digits at the start of the bytes, and their number. `None` without a digit or past what a float holds exactly.
pub(super) fn digits(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value: u64 = 0;
    let mut len = 0;
    for b in bytes {
        if !b.is_ascii_digit() {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
        len += 1;
    }
    (len > 0 && value < 1 << 53).then_some((value, len))
}

/// A step as a number: whole, not negative, and within what a float holds exactly.
pub(super) fn step(value: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    ((0.0..EXACT).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

fn slow(field: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(field).ok()?;
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    if rest.eq_ignore_ascii_case("inf") || rest.eq_ignore_ascii_case("infinity") {
        return Some(sign * f64::INFINITY);
    }
    let starts_right = rest.starts_with(|c: char| c.is_ascii_digit());
    (starts_right && rest.contains(','))
        .then(|| rest.replace(',', ""))?
        .parse::<f64>()
        .ok()
        .map(|v| sign * v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        assert_eq!(number(b" 1.5E-03 "), Some(0.0015));
        assert_eq!(number(b"7,322"), Some(7322.0));
        assert_eq!(number(b"1,424.31"), Some(1424.31));
        assert_eq!(number(b"-Infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(number(b"INF"), Some(f64::INFINITY));
        assert!(number(b"NAN").is_some_and(f64::is_nan));
        assert!(number(b"-nan").is_some_and(f64::is_nan));
        assert_eq!(number(b"12abc"), None);
        assert_eq!(number(b""), None);
    }

    #[test]
    fn a_step_counter_that_overflows_is_not_a_step() {
        assert_eq!(digits(b"99999999999999999999999"), None);
        assert_eq!(digits(b"12/500"), Some((12, 2)));
        assert_eq!(step(1e300), None);
        assert_eq!(step(-1.0), None);
        assert_eq!(step(10.0), Some(10));
    }
}
