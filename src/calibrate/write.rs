//! Rule files with other ratios, everything else as it was written.

use std::fmt::Write;

use crate::calibrate::Fitted;

/// The text of a rule file with the fitted ratios of its cause, each with a comment that says what was published and from
/// how many runs it was fitted. Lines that a fit does not touch, comments included, stay as they are.
pub fn with_ratios(text: &str, cause: &str, fitted: &[Fitted]) -> String {
    let mut out = String::with_capacity(text.len() + 80 * fitted.len());
    let mut current: Option<&Fitted> = None;
    for line in text.lines() {
        if line.starts_with('[') {
            current = None;
        }
        if let Some(id) = quoted(line, "id") {
            current = fitted.iter().find(|f| f.cause == cause && f.id == id);
        }
        let new = current.filter(|f| f.of_cause.0 + f.of_others.0 > 0);
        let ratio = new.and_then(|f| {
            if let Some(old) = value(line, "ratio") {
                Some(("ratio", old, f.ratio, note(f)))
            } else {
                let old = value(line, "ratio_if_not")?;
                Some(("ratio_if_not", old, f.ratio_if_not, String::new()))
            }
        });
        match ratio {
            Some((key, old, new, note)) if changed(old, new) => {
                let _ = write!(out, "{key} = {}  # published {old}{note}", rounded(new));
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

fn note(f: &Fitted) -> String {
    let (of, others) = (f.of_cause, f.of_others);
    format!(
        "; fitted: {} of {} runs of the cause, {} of {} others",
        of.1, of.0, others.1, others.0
    )
}

/// Whether a ratio moved by more than it is printed with.
fn changed(old: f64, new: f64) -> bool {
    (rounded(new) - old).abs() > 0.005 * old
}

/// Two significant digits: a handful of runs tells no more.
fn rounded(ratio: f64) -> f64 {
    format!("{ratio:.1e}").parse().unwrap_or(ratio)
}

fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (k, v) = line.split_once('=')?;
    (k.trim() == key).then(|| v.trim().trim_matches('"'))
}

fn value(line: &str, key: &str) -> Option<f64> {
    let (k, v) = line.split_once('=')?;
    let number = v.split('#').next()?.trim();
    (k.trim() == key).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ratios_of_the_evidence_change() {
        let text = "cause = \"c\"\n# kept\n[[evidence]]\nid = \"A\"\nratio = 2.0\nratio_if_not = 0.5\n[[evidence]]\nid = \"B\"\nratio = 3.0\n[[experiment]]\nkind = \"skip\"\n";
        let fitted = |id: &str, ratio, ratio_if_not| Fitted {
            cause: "c".to_owned(),
            id: id.to_owned(),
            ratio,
            ratio_if_not,
            of_cause: (9, 8),
            of_others: (30, 1),
        };
        let new = with_ratios(text, "c", &[fitted("A", 4.567, 0.5), fitted("B", 3.0, 1.0)]);
        let expected = text.replace(
            "ratio = 2.0",
            "ratio = 4.6  # published 2; fitted: 8 of 9 runs of the cause, 1 of 30 others",
        );
        assert_eq!(new, expected);
    }
}
