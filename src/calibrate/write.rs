//! Rule files with other ratios, everything else as it was written.

use std::fmt::Write;

use crate::calibrate::Fitted;
use crate::rules::Basis;

/// The text of a rule file with the fitted ratios of its cause, each with a comment that says what it was before and what
/// was counted, and with what they rest on now. Lines that a fit does not touch, comments included, stay as they are.
pub fn with_ratios(text: &str, cause: &str, fitted: &[Fitted]) -> String {
    let mut out = String::with_capacity(text.len() + 80 * fitted.len());
    let lines: Vec<&str> = text.lines().collect();
    // A table reaches from its header to the next one.
    for table in lines.chunk_by(|_, next| !next.starts_with('[')) {
        let id = table.iter().find_map(|line| quoted(line, "id"));
        let new = id
            .and_then(|id| fitted.iter().find(|f| f.cause == cause && f.id == id))
            .filter(|f| f.of_cause.0 + f.of_others.0 > 0 && moves(table, f));
        match new {
            Some(f) => fit_table(&mut out, table, f),
            None => copy(&mut out, table),
        }
    }
    out
}

fn copy(out: &mut String, lines: &[&str]) {
    for line in lines {
        out.push_str(line);
        out.push('\n');
    }
}

/// Whether a fit changes a ratio of a piece of evidence.
fn moves(table: &[&str], f: &Fitted) -> bool {
    let moved = |key, new| {
        let old = table.iter().find_map(|line| value(line, key));
        old.is_some_and(|old| changed(old, new))
    };
    moved("ratio", f.ratio) || moved("ratio_if_not", f.ratio_if_not)
}

/// The lines of a piece of evidence with its fitted ratios.
fn fit_table(out: &mut String, table: &[&str], f: &Fitted) {
    let runs = f.of_cause.0 + f.of_others.0;
    for line in table {
        let old = |key| value(line, key);
        if let Some(old) = old("ratio").filter(|old| changed(*old, f.ratio)) {
            let _ = writeln!(out, "ratio = {}  # was {old}{}", rounded(f.ratio), note(f));
        } else if let Some(old) = old("ratio_if_not").filter(|old| changed(*old, f.ratio_if_not)) {
            let _ = writeln!(
                out,
                "ratio_if_not = {}  # was {old}",
                rounded(f.ratio_if_not)
            );
        } else if quoted(line, "basis").is_some() {
            let _ = writeln!(out, "basis = \"{}\"\nruns = {runs}", Basis::Fitted.name());
        } else if value(line, "runs").is_none() {
            copy(out, &[line]);
        }
    }
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
    fn only_what_the_fit_tells_of_the_evidence_changes() {
        let text = "cause = \"c\"\n# kept\n[[evidence]]\nid = \"A\"\nratio = 2.0\nratio_if_not = 0.5\nbasis = \"published\"\n[[evidence]]\nid = \"B\"\nratio = 3.0\nbasis = \"fitted\"\nruns = 7\n[[evidence]]\nid = \"C\"\nratio = 3.0\nbasis = \"fitted\"\nruns = 7\n[[experiment]]\nkind = \"skip\"\n";
        let fitted = |id: &str, ratio, ratio_if_not| Fitted {
            cause: "c".to_owned(),
            id: id.to_owned(),
            ratio,
            ratio_if_not,
            of_cause: (9, 8),
            of_others: (30, 1),
        };
        let all = [
            fitted("A", 4.567, 0.5),
            fitted("B", 3.0, 1.0),
            fitted("C", 2.0, 1.0),
        ];
        let counted = "fitted: 8 of 9 runs of the cause, 1 of 30 others";
        let expected = text
            .replace("ratio = 2.0", &format!("ratio = 4.6  # was 2; {counted}"))
            .replace("basis = \"published\"", "basis = \"fitted\"\nruns = 39");
        // The second stays as it is; the third was fitted before, to other runs.
        let (before, after) = expected.split_at(expected.find("id = \"C\"").unwrap());
        let after = after
            .replace("ratio = 3.0", &format!("ratio = 2  # was 3; {counted}"))
            .replace("runs = 7", "runs = 39");
        assert_eq!(with_ratios(text, "c", &all), format!("{before}{after}"));
    }
}
