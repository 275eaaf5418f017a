//! The diagnosis as Markdown for issue trackers and chat.

use std::fmt::Write;

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::plan::{Action, Plan};
use crate::report::cost;
use crate::report::words::{self, span};
use crate::verdict::Outcome;

/// The whole report.
pub fn render(d: &Diagnosis) -> String {
    let mut out = String::new();
    let source = d.run.meta.sources.first().map_or("-", String::as_str);
    let _ = writeln!(out, "# whyspike: `{source}`\n\n{}\n", words::run(d));
    if d.incidents.is_empty() {
        out.push_str("Nothing found.\n");
    }
    for x in &d.incidents {
        incident(&mut out, d, x);
    }
    if !d.missing.is_empty() {
        let _ = writeln!(out, "Not logged: {}.", d.missing.join(", "));
    }
    out
}

fn incident(out: &mut String, d: &Diagnosis, x: &Diagnosed) {
    let i = &x.incident;
    let open = if i.open { ", still open" } else { "" };
    let _ = writeln!(
        out,
        "## Incident {}: {}, {}, {}{open}\n",
        x.id,
        i.signal,
        i.kind.name(),
        i.shape.name()
    );
    let _ = writeln!(out, "- **When:** {}", words::when(d, x));
    let _ = writeln!(out, "- **Cause:** {}", words::cause(&x.verdict));
    let _ = writeln!(
        out,
        "- **Do:** {}: {}",
        words::action(x.plan.action),
        x.plan.why
    );
    plan(out, x);
    evidence(out, x);
}

fn plan(out: &mut String, x: &Diagnosed) {
    let p = &x.plan;
    if let Some(r) = &p.rollback {
        let _ = writeln!(
            out,
            "- **Way back:** checkpoint {}, {} steps to do again; {}",
            r.step, r.steps_lost, r.why
        );
    }
    if let Some(k) = &p.skip {
        let steps: Vec<String> = k.steps.iter().map(|(a, b)| span(*a, *b)).collect();
        let samples: Vec<String> = k
            .samples
            .iter()
            .map(|(a, b)| format!("[{a}, {b})"))
            .collect();
        let samples = if samples.is_empty() {
            String::new()
        } else {
            format!(", samples {}", samples.join(" "))
        };
        let _ = writeln!(
            out,
            "- **Skip:** {} batches, steps {}{samples}",
            k.batches,
            steps.join(", ")
        );
    }
    for change in &p.change {
        let _ = writeln!(out, "- **Change:** {change}");
    }
    let costs = cost::lines(p);
    if costs.len() > 1 {
        let ways = costs.iter().skip(1);
        let ways: Vec<String> = ways.map(|(way, text)| format!("{way}: {text}")).collect();
        let _ = writeln!(out, "- **Cost:** {}. {}", costs[0].1, ways.join(". "));
    }
    candidates(out, p);
    if let Some(r) = &p.resume {
        if let Some(command) = &r.command {
            let _ = writeln!(out, "\n```sh\n{command}\n```");
        }
        for caveat in &r.caveats {
            let _ = writeln!(out, "- {caveat}");
        }
    }
}

/// The checkpoints looked at, where it comes to going back.
fn candidates(out: &mut String, p: &Plan) {
    if p.candidates.is_empty() || p.action == Action::None {
        return;
    }
    let _ = writeln!(out, "\n| checkpoint | | why | state |\n|---|---|---|---|");
    for c in &p.candidates {
        let mark = if c.fits { "ok" } else { "no" };
        let state = words::health(&c.health);
        let state = state.trim_start_matches("; ");
        let _ = writeln!(
            out,
            "| {} | {mark} | {} | {state} |",
            c.step,
            c.why.replace('|', "\\|")
        );
    }
    out.push('\n');
}

fn evidence(out: &mut String, x: &Diagnosed) {
    let leading: Vec<&str> = x.verdict.leading().take(2).map(|(c, _)| c).collect();
    let speaks = x
        .verdict
        .evidence
        .iter()
        .filter(|f| leading.contains(&f.cause.as_str()) && (f.ratio - 1.0).abs() > 1e-9);
    let rows: Vec<_> = speaks.collect();
    if !rows.is_empty() {
        let _ = writeln!(out, "\n| cause | ratio | evidence |\n|---|---|---|");
        for f in rows {
            let says = words::says(f).replace('|', "\\|");
            let _ = writeln!(
                out,
                "| {} | {} | {says} ({}) |",
                f.cause,
                words::ratio(f.ratio),
                f.id
            );
        }
    }
    if x.verdict.outcome != Outcome::Decided {
        if !x.verdict.deciding_signals.is_empty() {
            let _ = writeln!(
                out,
                "\nWould help to decide: {}.",
                x.verdict.deciding_signals.join(", ")
            );
        }
        if let Some(e) = &x.verdict.experiment {
            let _ = writeln!(out, "\nTry {}.", words::experiment(e));
        }
    }
    out.push('\n');
}
