//! What to do, on the page: the way back, the command, the checkpoints looked at, the costs.

use std::fmt::Write;

use crate::plan::{Action, Plan};
use crate::report::cost;
use crate::report::html::escape::esc;
use crate::report::words;

/// A row of a list of answers.
pub(super) fn row(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "<div><dt>{label}</dt><dd>{}</dd></div>", esc(text));
}

/// The same with several answers.
fn rows(out: &mut String, label: &str, texts: &[String]) {
    if texts.is_empty() {
        return;
    }
    let _ = write!(out, "<div><dt>{label}</dt>");
    for text in texts {
        let _ = write!(out, "<dd>{}</dd>", esc(text));
    }
    out.push_str("</div>\n");
}

/// The advice and what carries it out, as rows of answers.
pub(super) fn answers(out: &mut String, p: &Plan) {
    let advice = format!("{}: {}", words::action(p.action), p.why);
    row(out, "Do", &advice);
    if let Some(r) = &p.rollback {
        let label = if words::acts(p) {
            "Back to"
        } else {
            "Way back"
        };
        row(out, label, &words::back(r));
    }
    if !words::goes_on(p) {
        return;
    }
    if let Some(k) = &p.skip {
        row(out, "Skip", &words::skip(k));
    }
    if words::acts(p) {
        rows(out, "Change", &p.change);
    }
}

/// The command to copy, and what to know before typing it.
pub(super) fn command(out: &mut String, p: &Plan, name: &str) {
    let Some(resume) = p.resume.as_ref().filter(|_| words::goes_on(p)) else {
        return;
    };
    let Some(command) = &resume.command else {
        caveats(out, &resume.caveats);
        return;
    };
    let title = if words::acts(p) {
        "Type"
    } else {
        "To go back, type"
    };
    let _ = writeln!(
        out,
        "<h3>{title}</h3>\n<div class=\"command\"><pre id=\"{name}-command\" tabindex=\"0\"><code>{}</code></pre>\
         <button type=\"button\" hidden data-copy=\"{name}-command\">Copy</button></div>",
        esc(command)
    );
    caveats(out, &resume.caveats);
}

fn caveats(out: &mut String, caveats: &[String]) {
    if caveats.is_empty() {
        return;
    }
    out.push_str("<p class=\"lead\">Mind:</p>\n<ul class=\"plain\">");
    for caveat in caveats {
        let _ = write!(out, "<li>{}</li>", esc(caveat));
    }
    out.push_str("</ul>\n");
}

/// The checkpoints looked at.
pub(super) fn candidates(out: &mut String, p: &Plan, id: usize) {
    if p.candidates.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<h3>Checkpoints looked at</h3>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Checkpoints looked at for incident {id}\"><table class=\"broad\">\n\
         <caption>The checkpoints nearest to where the way back should begin, the newest first</caption>\n\
         <thead><tr><th scope=\"col\" class=\"number\">Checkpoint</th><th scope=\"col\">Fits</th>\
         <th scope=\"col\">Why, or why not</th><th scope=\"col\">State</th></tr></thead>\n<tbody>\n",
    );
    let chosen = p.rollback.as_ref().map(|r| r.step);
    for c in &p.candidates {
        let state = words::health(&c.health);
        let state = state.trim_start_matches("; ");
        let taken = chosen == Some(c.step);
        let _ = writeln!(
            out,
            "<tr{}><th scope=\"row\" class=\"number\">{}</th><td class=\"short\">{}</td><td>{}</td><td>{}</td></tr>",
            if taken { " class=\"taken\"" } else { "" },
            c.step,
            match (taken, c.fits) {
                (true, _) => "\u{25A0} chosen",
                (false, true) => "yes",
                (false, false) => "no",
            },
            esc(&c.why),
            esc(if state.is_empty() { "\u{2013}" } else { state })
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// What waiting, going back and stopping cost.
pub(super) fn costs(out: &mut String, p: &Plan) {
    let lines = cost::lines(p);
    let told = words::acts(p) || matches!(p.action, Action::Wait | Action::Stop);
    if lines.len() < 2 || !told {
        return;
    }
    out.push_str("<h3>What each way costs</h3>\n<dl class=\"answer\">\n");
    for (way, text) in &lines {
        let label = match *way {
            "" => "Assumed".to_owned(),
            way => words::capital(way),
        };
        row(out, &esc(&label), text);
    }
    out.push_str("</dl>\n");
}
