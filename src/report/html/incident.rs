//! The section of an incident: the answer, the pictures around it, and what speaks for and against.

use std::fmt::Write;

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::features::feature;
use crate::report::figure::Figure;
use crate::report::html::escape::esc;
use crate::report::html::plan::{self, row};
use crate::report::html::{plot, stack_name};
use crate::report::words;
use crate::rules::Finding;
use crate::verdict::{Outcome, UNKNOWN};

/// Pieces of evidence of a cause that are shown at once; the rest unfolds.
const SHOWN: usize = 6;

/// The section; without a figure the incident was not among those that are drawn.
pub(super) fn section(out: &mut String, d: &Diagnosis, x: &Diagnosed, figure: Option<&Figure>) {
    let name = stack_name(x);
    let again = if x.same_as.is_some() { " again" } else { "" };
    let _ = writeln!(
        out,
        "<section class=\"incident{again}\" id=\"incident-{0}\" aria-labelledby=\"incident-{0}-h\">\n<h2 \
         id=\"incident-{0}-h\">{1}</h2>\n<dl class=\"answer\">",
        x.id,
        esc(&words::capital(&words::title(x)))
    );
    row(out, "When", &words::when(d, x));
    if let Some(id) = x.same_as {
        let _ = writeln!(
            out,
            "<div><dt>Again</dt><dd>incident {id} met again by attempt {}; <code>whyspike plan --incident {}</code> has its \
             plan</dd></div>",
            x.incident.attempt, x.id
        );
        out.push_str("</dl>\n</section>\n");
        return;
    }
    row(out, "Cause", &words::cause(&x.verdict));
    plan::answers(out, &x.plan);
    out.push_str("</dl>\n");
    plan::command(out, &x.plan, &name);
    match figure {
        Some(f) => pictures(out, x, &name, f),
        None => out.push_str("<p class=\"lead\">Only the largest incidents are drawn.</p>\n"),
    }
    evidence(out, x, &name, figure);
    posterior(out, x);
    would_decide(out, x);
    plan::candidates(out, &x.plan, x.id);
    plan::costs(out, &x.plan);
    out.push_str("</section>\n");
}

fn pictures(out: &mut String, x: &Diagnosed, name: &str, f: &Figure) {
    let _ = writeln!(
        out,
        "<h3>What the log shows, steps {} to {}</h3>",
        f.from, f.to
    );
    let title = format!("Incident {}, steps {} to {}", x.id, f.from, f.to);
    plot::stack(out, name, &title, f, "");
    if let Some(back) = x.plan.rollback.as_ref().filter(|b| b.step < f.from) {
        let _ = writeln!(
            out,
            "<p class=\"lead\">Checkpoint {} lies {} steps before the left edge.</p>",
            back.step,
            f.from - back.step
        );
    }
    if !f.absent.is_empty() {
        let absent = f.absent.join(", ");
        let _ = writeln!(
            out,
            "<p class=\"lead\">No panel, since not logged here: {}.</p>",
            esc(&absent)
        );
    }
}

fn evidence(out: &mut String, x: &Diagnosed, name: &str, f: Option<&Figure>) {
    let leading: Vec<&str> = x.verdict.leading().take(2).map(|(c, _)| c).collect();
    for (n, cause) in leading.iter().enumerate() {
        let speaks = words::speaking(&x.verdict, cause);
        if speaks.is_empty() || (n > 0 && x.verdict.outcome == Outcome::Decided) {
            continue;
        }
        let _ = writeln!(out, "<h3>For and against {}</h3>", esc(cause));
        let (first, rest) = speaks.split_at(speaks.len().min(SHOWN));
        findings(out, first, name, f);
        if !rest.is_empty() {
            let _ = write!(out, "<details><summary>{} more</summary>", rest.len());
            findings(out, rest, name, f);
            out.push_str("</details>\n");
        }
    }
}

fn findings(out: &mut String, all: &[&Finding], name: &str, figure: Option<&Figure>) {
    out.push_str("<ul class=\"evidence\">\n");
    for f in all {
        let (class, sign, word) = if f.ratio > 1.0 {
            ("for", "+", "for")
        } else {
            ("against", "\u{2212}", "against")
        };
        let _ = write!(
            out,
            "<li class=\"{class}\"><span class=\"weigh\"><span aria-hidden=\"true\">{sign}</span> {word} \
             <b>\u{d7}{}</b></span> <span>{} <span class=\"from\">{}",
            words::ratio(f.ratio),
            esc(&words::says(f)),
            esc(&f.id)
        );
        for (id, title) in panels(f, name, figure) {
            let _ = write!(out, " \u{b7} <a href=\"#{id}\">{}</a>", esc(&title));
        }
        out.push_str("</span></span></li>\n");
    }
    out.push_str("</ul>\n");
}

/// The panels that a piece of evidence was read off: ids and names.
fn panels(f: &Finding, name: &str, figure: Option<&Figure>) -> Vec<(String, String)> {
    let needs: Vec<&str> = f
        .features
        .iter()
        .filter_map(|n| feature(n))
        .flat_map(|f| f.needs.iter().copied())
        .collect();
    let all = figure.into_iter().flat_map(|f| &f.panels);
    all.filter(|p| needs.contains(&p.signal.as_str()))
        .map(|p| (plot::panel_id(name, p), p.title.clone()))
        .collect()
}

fn posterior(out: &mut String, x: &Diagnosed) {
    let _ = writeln!(
        out,
        "<h3>How likely each cause is</h3>\n<table class=\"bars\"><caption>Posterior after all evidence: {}</caption>\n\
         <thead><tr><th scope=\"col\">Cause</th><th scope=\"col\" class=\"number\">Posterior</th>\
         <td></td></tr></thead>\n<tbody>",
        x.verdict.outcome.name()
    );
    for (cause, p) in &x.verdict.posterior {
        let decided = x.verdict.cause.as_deref() == Some(cause);
        let _ = writeln!(
            out,
            "<tr{}><th scope=\"row\">{}</th><td class=\"number\">{p:.2}</td><td class=\"bar\" \
             aria-hidden=\"true\"><span style=\"width:{}%\"></span></td></tr>",
            if decided { " class=\"decided\"" } else { "" },
            esc(cause),
            plot::percent(*p)
        );
    }
    out.push_str("</tbody></table>\n");
}

fn would_decide(out: &mut String, x: &Diagnosed) {
    let v = &x.verdict;
    if v.outcome == Outcome::Decided {
        return;
    }
    out.push_str("<h3>What would decide</h3>\n<dl class=\"answer\">\n");
    if !v.deciding_signals.is_empty() {
        let text = format!("would help to decide: {}", v.deciding_signals.join(", "));
        row(out, "Missing", &text);
    }
    match &v.experiment {
        Some(e) => row(out, "Try", &words::experiment(e)),
        None if v.deciding_signals.is_empty() => {
            row(
                out,
                "Try",
                "no experiment that is known separates the leading causes",
            );
        }
        None => {}
    }
    if v.posterior.first().is_some_and(|(c, _)| c == UNKNOWN) {
        row(out, "Unknown", "what is known speaks against every cause");
    }
    out.push_str("</dl>\n");
}
