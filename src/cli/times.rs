//! Durations on the command line: `40s`, `10min`, `1h30min`.

use anyhow::bail;

/// Units of time and their seconds.
const UNITS: [(&str, f64); 16] = [
    ("ms", 1e-3),
    ("s", 1.0),
    ("sec", 1.0),
    ("second", 1.0),
    ("seconds", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("minutes", 60.0),
    ("h", 3600.0),
    ("hour", 3600.0),
    ("hours", 3600.0),
    ("d", 86400.0),
    ("day", 86400.0),
    ("days", 86400.0),
    ("w", 604_800.0),
    ("week", 604_800.0),
];

/// Reads `40s`, `10min`, `3.1h`, `1h30min` as seconds.
pub(super) fn duration(text: &str) -> anyhow::Result<f64> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    if rest.is_empty() {
        bail!("it is empty: write a number and a unit, such as 40s, 10min or 3.1h");
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, left) = after.split_at(end.unwrap_or(after.len()));
        let Ok(number) = number.parse::<f64>() else {
            bail!("`{text}` is no duration: write a number and a unit, such as 40s, 10min or 3.1h");
        };
        if unit.is_empty() {
            bail!("`{text}` has no unit: write {number}s, {number}min or {number}h");
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            bail!("`{unit}` is no unit of time: write ms, s, min, h, d or w");
        };
        seconds += number * size;
        rest = left.trim_start();
    }
    if !seconds.is_finite() {
        bail!("`{text}` is too long");
    }
    Ok(seconds)
}

/// A duration that is not zero.
pub(super) fn positive(text: &str) -> anyhow::Result<f64> {
    match duration(text)? {
        0.0 => bail!("`{text}` is no time: give more than 0"),
        seconds => Ok(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("40s", 40.0),
            ("10min", 600.0),
            ("10 min", 600.0),
            ("3.1h", 11_160.0),
            ("1h30min", 5400.0),
            ("1week", 604_800.0),
            ("250ms", 0.25),
            ("0s", 0.0),
        ] {
            let read = duration(text).unwrap();
            assert!((read - seconds).abs() < 1e-6, "{text}: {read}");
        }
        for text in [
            "",
            "40",
            "s",
            "-3s",
            "1.2.3s",
            "4 parsecs",
            "1h30",
            "NaNs",
            "1e400s",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(positive("0s").is_err());
    }
}
