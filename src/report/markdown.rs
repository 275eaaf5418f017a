//! The diagnosis as Markdown for issue trackers and chat: the answer first, evidence and the log's own gaps folded in.

mod escape;

use std::fmt::Write;

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::plan::{Action, Plan};
use crate::report::chart::{self, Ink, Line};
use crate::report::cost;
use crate::report::words::{self, span};
use crate::verdict::Outcome;

use escape::{code, fenced};
pub(super) use escape::{escaped, html};

/// Characters of a chart: more are wrapped or scrolled where an issue is read.
const CHART: usize = 72;
/// Losses of data, pairs of attempts and notes told of each.
const MOST_NOTES: usize = 5;

/// The whole report.
pub fn render(d: &Diagnosis) -> String {
    render_with_charts(d, true)
}

/// The whole report with or without a chart of each incident.
pub fn render_with_charts(d: &Diagnosis, charts: bool) -> String {
    let source = d.run.meta.sources.first().map_or("-", String::as_str);
    let mut out = format!(
        "## whyspike: {} in {}\n\n{}\n",
        words::found(d),
        code(source),
        escaped(&words::run(d))
    );
    if d.incidents.len() > 1 {
        overview(&mut out, d);
    }
    for x in &d.incidents {
        incident(&mut out, d, x, charts);
    }
    notes(&mut out, d);
    // What is put behind the report would be part of its last tag.
    out.push('\n');
    out
}

/// All incidents in a table: what a reader of several wants first.
fn overview(out: &mut String, d: &Diagnosis) {
    out.push_str("\n| incident | onset | peak | back | shape | cause | do |\n|--:|--:|--:|--:|---|---|---|\n");
    for x in &d.incidents {
        let i = &x.incident;
        let step = |row: Option<usize>| row.map_or("-".to_owned(), |r| d.run.steps[r].to_string());
        let (cause, act) = match x.same_as {
            Some(id) => (
                format!("incident {id} met again by attempt {}", i.attempt),
                "-".to_owned(),
            ),
            None => (in_short(x), words::advice(&x.plan)),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {}{} | {cause} | {act} |",
            x.id,
            d.run.steps[i.onset_row],
            step(i.peak_row),
            step(i.return_row),
            i.shape.name(),
            if i.open { ", open" } else { "" },
        );
    }
}

/// The verdict in as few words as a cell of a table has room for.
fn in_short(x: &Diagnosed) -> String {
    let v = &x.verdict;
    match &v.cause {
        Some(cause) => format!("{} {:.2}", escaped(cause), v.posterior_of(cause)),
        None => v.outcome.name().to_owned(),
    }
}

fn incident(out: &mut String, d: &Diagnosis, x: &Diagnosed, charts: bool) {
    let _ = writeln!(out, "\n### {}\n", words::capital(&words::title(x)));
    let when = escaped(&words::when(d, x));
    if let Some(id) = x.same_as {
        let _ = writeln!(
            out,
            "Incident {id} met again by attempt {}: {when}.",
            x.incident.attempt
        );
        return;
    }
    item(out, "Cause", &escaped(&words::cause(&x.verdict)));
    let action = words::action(x.plan.action);
    item(
        out,
        "Do",
        &format!("**{action}**: {}", escaped(&x.plan.why)),
    );
    item(out, "When", &when);
    would_decide(out, x);
    if charts {
        charted(out, d, x);
    }
    plan(out, &x.plan);
    candidates(out, &x.plan);
    evidence(out, x);
}

fn item(out: &mut String, label: &str, what: &str) {
    let _ = writeln!(out, "- **{label}:** {what}");
}

fn charted(out: &mut String, d: &Diagnosis, x: &Diagnosed) {
    let Some(chart) = chart::around(d, x, CHART, Ink::Blocks) else {
        return;
    };
    let widest = chart.lines.iter().map(|l| l.label.len()).max().unwrap_or(0);
    let line = |l: &Line| format!("{:<widest$} {}", l.label, l.plain());
    let mut lines: Vec<String> = chart.lines.iter().map(line).collect();
    lines.push(format!("steps {}", chart.legend));
    let _ = write!(out, "\n{}", fenced("text", &lines.join("\n")));
}

/// The plan: in sight where it is to be done now, folded where it is only wanted if things change.
fn plan(out: &mut String, p: &Plan) {
    let acts = words::acts(p);
    out.push('\n');
    if acts {
        way_back(out, p, "Back to");
    }
    if p.action != Action::None {
        costs(out, p);
    }
    if acts {
        command(out, p);
    } else if p.rollback.is_some() {
        let mut inside = String::new();
        way_back(&mut inside, p, "Way back");
        command(&mut inside, p);
        folded(out, "The way back, if it is wanted", &inside);
    }
}

fn way_back(out: &mut String, p: &Plan, label: &str) {
    if let Some(r) = &p.rollback {
        let path = r.path.as_ref().map(|p| format!(" ({})", code(p)));
        let what = format!(
            "checkpoint {}{}, {} steps to do again; {}",
            r.step,
            path.unwrap_or_default(),
            r.steps_lost,
            escaped(&r.why)
        );
        item(out, label, &what);
    }
    if let Some(k) = &p.skip {
        let steps: Vec<String> = k.steps.iter().map(|(a, b)| span(*a, *b)).collect();
        let samples = k.samples.iter().map(|(a, b)| code(&format!("[{a}, {b})")));
        let samples: Vec<String> = samples.collect();
        let samples = if samples.is_empty() {
            String::new()
        } else {
            format!(", samples {}", samples.join(" "))
        };
        let what = format!("{} batches, steps {}{samples}", k.batches, steps.join(", "));
        item(out, "Skip", &what);
    }
    for change in &p.change {
        item(out, "Change", &escaped(change));
    }
}

/// Without a way back and nothing to wait for there is nothing to tell.
fn costs(out: &mut String, p: &Plan) {
    let lines = cost::lines(p);
    let [(_, basis), ways @ ..] = lines.as_slice() else {
        return;
    };
    if ways.is_empty() {
        return;
    }
    item(out, "Cost", &escaped(basis));
    for (way, what) in ways {
        let _ = writeln!(out, "  - {way}: {}", escaped(what));
    }
}

fn command(out: &mut String, p: &Plan) {
    let Some(r) = &p.resume else { return };
    if let Some(command) = &r.command {
        let _ = write!(out, "\n{}", fenced("sh", command));
    }
    if !r.caveats.is_empty() {
        out.push('\n');
    }
    for caveat in &r.caveats {
        let _ = writeln!(out, "- {}", escaped(caveat));
    }
}

/// What is folded away until it is asked for. Blank lines let Markdown be Markdown within.
fn folded(out: &mut String, title: &str, inside: &str) {
    let _ = writeln!(
        out,
        "\n<details><summary>{title}</summary>\n\n{inside}\n</details>"
    );
}

/// The checkpoints looked at, where it comes to going back.
fn candidates(out: &mut String, p: &Plan) {
    if p.candidates.is_empty() || p.action == Action::None {
        return;
    }
    let mut rows = "| checkpoint | | why | state |\n|--:|---|---|---|\n".to_owned();
    for c in &p.candidates {
        let mark = if c.fits { "ok" } else { "no" };
        let state = words::health(&c.health);
        let state = escaped(state.trim_start_matches("; "));
        let _ = writeln!(
            rows,
            "| {} | {mark} | {} | {state} |",
            c.step,
            escaped(&c.why)
        );
    }
    folded(out, "Checkpoints that were looked at", &rows);
}

fn evidence(out: &mut String, x: &Diagnosed) {
    let leading: Vec<&str> = x.verdict.leading().take(2).map(|(c, _)| c).collect();
    let mut rows = "| cause | ratio | evidence | rests on |\n|---|--:|---|---|\n".to_owned();
    let (mut causes, mut pieces) = (Vec::new(), 0);
    for cause in leading {
        let found = words::speaking(&x.verdict, cause);
        if !found.is_empty() {
            causes.push(html(cause));
        }
        for f in found {
            pieces += 1;
            let runs = f.runs.map_or(String::new(), |n| format!(", {n} runs"));
            let _ = writeln!(
                rows,
                "| {} | x{} | {} ({}) | {}{runs} |",
                escaped(&f.cause),
                words::ratio(f.ratio),
                escaped(&words::says(f)),
                escaped(&f.id),
                f.basis.name()
            );
        }
    }
    if pieces > 0 {
        let s = if pieces == 1 { "piece" } else { "pieces" };
        let title = format!(
            "Evidence: {pieces} {s} for and against {}",
            causes.join(" and ")
        );
        folded(out, &title, &rows);
    }
}

fn would_decide(out: &mut String, x: &Diagnosed) {
    let v = &x.verdict;
    if v.outcome == Outcome::Decided {
        return;
    }
    if !v.deciding_signals.is_empty() {
        item(
            out,
            "Would help to decide",
            &escaped(&v.deciding_signals.join(", ")),
        );
    }
    if let Some(e) = &v.experiment {
        item(out, "Try", &escaped(&words::experiment(e)));
    }
}

/// What the log says besides, and what it lacks.
fn notes(out: &mut String, d: &Diagnosis) {
    let mut said: Vec<String> = Vec::new();
    let mut several = |what: Vec<String>| {
        let more = what.len().saturating_sub(MOST_NOTES);
        said.extend(what.into_iter().take(MOST_NOTES));
        if more > 0 {
            said.push(format!(
                "and {more} more like it (`--format json` lists all)"
            ));
        }
    };
    several(
        d.replays
            .iter()
            .map(|r| escaped(&words::replay(r)))
            .collect(),
    );
    several(
        d.changes
            .iter()
            .map(|c| escaped(&words::level_change(d, c)))
            .collect(),
    );
    several(d.inventory.warnings.iter().map(|w| escaped(w)).collect());
    several(d.cautions.iter().map(|c| escaped(&c.to_string())).collect());
    let loss = |l: &crate::run::DataLoss| {
        let place = if l.place.is_empty() {
            String::new()
        } else {
            format!(", {}", escaped(&l.place))
        };
        format!("{}{place}: {}", code(&l.source), escaped(&l.what))
    };
    several(d.run.losses.iter().map(loss).collect());
    if !d.missing.is_empty() {
        said.push(format!("not logged: {}", escaped(&d.missing.join(", "))));
    }
    if said.is_empty() {
        return;
    }
    let list: Vec<String> = said.iter().map(|s| format!("- {s}")).collect();
    folded(out, "About this log", &format!("{}\n", list.join("\n")));
}
