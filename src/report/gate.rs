//! What CI systems read of a gate: text, JUnit XML, GitHub annotations and job summary, GitLab code quality.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::diagnosis::Diagnosis;
use crate::gate::Check;
use crate::report::ansi::{BOLD, GREEN, PLAIN, RED};
use crate::report::{chart, markdown};

/// The checks as lines for people; what failed first.
pub fn text(checks: &[Check]) -> String {
    let mut out = String::new();
    let (failed, passed): (Vec<&Check>, Vec<&Check>) = checks.iter().partition(|c| !c.passed());
    for check in failed {
        let _ = writeln!(out, "{RED}{BOLD}failed{PLAIN}  {}", check.name);
        for failure in &check.failures {
            let _ = writeln!(out, "        {}", failure.says);
        }
    }
    for check in passed {
        let _ = writeln!(out, "{GREEN}passed{PLAIN}  {}", check.name);
    }
    out
}

/// `JUnit` XML: a test case a check, all failures of it in its failure.
pub fn junit(d: &Diagnosis, checks: &[Check]) -> String {
    let failed = checks.iter().filter(|c| !c.passed()).count();
    let source = d.run.meta.sources.first().map_or("-", String::as_str);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"{n}\" failures=\"{failed}\">\n  <testsuite \
         name=\"whyspike\" tests=\"{n}\" failures=\"{failed}\">\n",
        n = checks.len()
    );
    for check in checks {
        let _ = write!(
            out,
            "    <testcase classname=\"{}\" name=\"{}\"",
            xml(source),
            xml(&check.name)
        );
        if check.passed() {
            out.push_str("/>\n");
            continue;
        }
        let says: Vec<&str> = check.failures.iter().map(|f| f.says.as_str()).collect();
        let _ = writeln!(
            out,
            ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
            xml(says[0]),
            xml(&says.join("\n"))
        );
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// Text as XML holds it. Characters that XML has no place for are left out.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// GitHub's workflow commands: an annotation a failure.
pub fn github(d: &Diagnosis, checks: &[Check]) -> String {
    let source = d.run.meta.sources.first().map_or("-", String::as_str);
    let mut out = String::new();
    for check in checks {
        for failure in &check.failures {
            let _ = writeln!(
                out,
                "::error file={},title={}::{}",
                property(source),
                property(&format!("whyspike: {}", check.name)),
                data(&failure.says)
            );
        }
    }
    out
}

/// Escapes of a workflow command's message.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes of a workflow command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Characters of the curve in a summary.
const CURVE: usize = 72;

/// A job summary in Markdown: the checks, the loss as blocks, and the whole answer.
pub fn summary(d: &Diagnosis, checks: &[Check]) -> String {
    let failed = checks.iter().filter(|c| !c.passed()).count();
    let head = if failed == 0 {
        "whyspike: passed".to_owned()
    } else {
        format!("whyspike: {failed} of {} checks failed", checks.len())
    };
    let mut out = format!("## {head}\n\n| check | |\n|---|---|\n");
    for check in checks {
        let says: Vec<String> = check
            .failures
            .iter()
            .map(|f| markdown::escaped(&f.says))
            .collect();
        let state = if check.passed() {
            "passed".to_owned()
        } else {
            says.join("<br>")
        };
        let _ = writeln!(out, "| {} | {state} |", markdown::escaped(&check.name));
    }
    if let Some(lines) = chart::whole(&d.run, "loss", CURVE) {
        let curve: Vec<String> = lines.iter().map(chart::Line::plain).collect();
        let _ = write!(out, "\n```text\nloss\n{}\n```\n", curve.join("\n"));
    }
    let _ = write!(out, "\n{}", markdown::render(d));
    out
}

/// GitLab's code quality report: an issue a failure. A log has no line that a reader could be sent to: it is the first.
pub fn gitlab(d: &Diagnosis, checks: &[Check]) -> String {
    let source = d.run.meta.sources.first().map_or("-", String::as_str);
    let issues: Vec<Value> = checks
        .iter()
        .flat_map(|c| c.failures.iter().map(move |f| (c, f)))
        .map(|(check, failure)| {
            json!({
                "description": failure.says,
                "check_name": format!("whyspike: {}", check.name),
                "fingerprint": fingerprint(&[source, &check.name, &failure.step.to_string()]),
                "severity": "major",
                "location": { "path": source, "lines": { "begin": 1 } },
            })
        })
        .collect();
    format!("{:#}\n", Value::Array(issues))
}

/// The same for the same failure in every pipeline (FNV-1a).
fn fingerprint(parts: &[&str]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.join("\0").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_for_each_reader() {
        assert_eq!(xml("a<b & \"c\"\u{7}"), "a&lt;b &amp; &quot;c&quot;");
        assert_eq!(property("C:\\a,b\n50%"), "C%3A\\a%2Cb%0A50%25");
        assert_eq!(data("a: b\n"), "a: b%0A");
        assert_eq!(fingerprint(&["a", "b"]), fingerprint(&["a", "b"]));
        assert_ne!(fingerprint(&["a", "b"]), fingerprint(&["a", "c"]));
    }
}
