//! The diagnosis for a terminal: the answer first, then why, then what was not logged.
//!
//! Bold and colour are ANSI sequences; whoever prints to something else than a terminal strips them.

use std::fmt::Write;

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::plan::{Action, Plan};
use crate::report::ansi::{self, BOLD, DIM, GREEN, PLAIN, RED, YELLOW};
use crate::report::chart::{self, Ink, Tone};
use crate::report::cost;
use crate::report::words;
use crate::verdict::{Outcome, UNKNOWN};

/// Widest line of text, however wide the terminal is.
const WIDTH: usize = 96;
/// Narrowest: a terminal that is narrower breaks the lines itself.
const NARROWEST: usize = 48;
/// Column at which the text of a labelled line begins.
const LABEL: usize = 10;
/// Pieces of evidence shown for and against a cause.
const MOST_EVIDENCE: usize = 5;
/// Losses of data shown.
const MOST_LOSSES: usize = 3;

/// How a report is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the terminal: text is wrapped at these, or at 96 if there are more.
    pub columns: usize,
    /// Whether each incident has a chart.
    pub charts: bool,
}

impl Default for Layout {
    /// What a file or a pipe gets.
    fn default() -> Self {
        Self {
            columns: WIDTH,
            charts: false,
        }
    }
}

/// Text as it is put together.
struct Page {
    text: String,
    layout: Layout,
}

impl Page {
    fn new(layout: Layout) -> Self {
        Self {
            text: String::new(),
            layout,
        }
    }

    /// Columns of a line.
    fn width(&self) -> usize {
        self.layout.columns.clamp(NARROWEST, WIDTH)
    }
}

impl Write for Page {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.text.push_str(text);
        Ok(())
    }
}

/// The whole report.
pub fn render(d: &Diagnosis, layout: Layout) -> String {
    let mut out = Page::new(layout);
    header(&mut out, d);
    if d.incidents.is_empty() {
        let _ = writeln!(
            out,
            "\n{GREEN}{BOLD}nothing found{PLAIN}: no incident in {} rows",
            d.run.len()
        );
    }
    for i in &d.incidents {
        incident(&mut out, d, i);
    }
    footer(&mut out, d);
    out.text
}

/// The plan of one incident alone.
pub fn render_plan(d: &Diagnosis, x: &Diagnosed, layout: Layout) -> String {
    let mut out = Page::new(layout);
    title(&mut out, x);
    labelled(&mut out, "when", &words::when(d, x));
    plan(&mut out, &x.plan, true);
    out.text
}

fn header(out: &mut Page, d: &Diagnosis) {
    let source = words::source(d);
    let _ = writeln!(out, "{DIM}{source} · {}{PLAIN}", words::run(d));
}

/// Pairs of attempts that the foot tells of at most.
const MOST_REPLAYS: usize = 4;

fn title(out: &mut Page, x: &Diagnosed) {
    let colour = ansi::of(x.plan.action);
    let _ = writeln!(out, "\n{BOLD}{colour}{}{PLAIN}", words::title(x));
}

fn incident(out: &mut Page, d: &Diagnosis, x: &Diagnosed) {
    title(out, x);
    labelled(out, "when", &words::when(d, x));
    if let Some(id) = x.same_as {
        labelled(
            out,
            "",
            &format!(
                "incident {id} met again by attempt {}; `plan --incident {}` has its plan",
                x.incident.attempt, x.id
            ),
        );
        return;
    }
    charts(out, d, x);
    labelled(out, "cause", &words::cause(&x.verdict));
    plan(out, &x.plan, false);
    evidence(out, x);
    would_decide(out, x);
}

/// Widest chart: more columns make it longer, not clearer.
const WIDEST_CHART: usize = 140;

fn charts(out: &mut Page, d: &Diagnosis, x: &Diagnosed) {
    let width = out.layout.columns.min(WIDEST_CHART);
    let width = width.saturating_sub(LABEL + 2);
    let chart = out
        .layout
        .charts
        .then(|| chart::around(d, x, width, Ink::Braille));
    let Some(chart) = chart.flatten() else { return };
    for line in &chart.lines {
        let _ = write!(
            out,
            "  {:<LABEL$}{DIM}{:>w$}{PLAIN} ",
            line.label,
            line.value,
            w = chart::VALUE
        );
        coloured(out, &line.cells);
    }
    labelled(out, "steps", &chart.legend);
}

/// The characters of a chart; spaces at its end are left out.
fn coloured(out: &mut Page, cells: &[(char, Tone)]) {
    let until = cells
        .iter()
        .rposition(|(c, _)| *c != ' ')
        .map_or(0, |at| at + 1);
    for part in cells[..until].chunk_by(|a, b| a.1 == b.1) {
        let colour = match part[0].1 {
            Tone::Plain => "",
            Tone::Incident => YELLOW,
            Tone::Broken => RED,
        };
        let _ = out.write_str(colour);
        out.text.extend(part.iter().map(|(c, _)| c));
        let _ = out.write_str(if colour.is_empty() { "" } else { PLAIN });
    }
    let _ = writeln!(out);
}

fn plan(out: &mut Page, p: &Plan, whole: bool) {
    labelled(
        out,
        "do",
        &format!("{}: {}", words::action(p.action), p.why),
    );
    let acts = words::acts(p);
    if let Some(r) = &p.rollback {
        let lead = if acts { "back to" } else { "way back" };
        let text = words::back(r);
        labelled(out, lead, &text);
    }
    if !whole && !words::goes_on(p) {
        return;
    }
    skip(out, p);
    if acts || whole {
        for (n, change) in p.change.iter().enumerate() {
            labelled(out, if n == 0 { "change" } else { "" }, change);
        }
    }
    resume(out, p, acts || whole);
    if acts || whole || matches!(p.action, Action::Wait | Action::Stop) {
        costs(out, p);
    }
    if whole {
        for (n, c) in p.candidates.iter().enumerate() {
            let mark = if c.fits { "ok" } else { "no" };
            labelled(
                out,
                if n == 0 { "looked at" } else { "" },
                &format!(
                    "{:>8} {mark}  {}{}",
                    c.step,
                    c.why,
                    words::health(&c.health)
                ),
            );
        }
    }
}

/// Without a way back and nothing to wait for there is nothing to tell.
fn costs(out: &mut Page, p: &Plan) {
    let lines = cost::lines(p);
    if lines.len() < 2 {
        return;
    }
    for (n, (way, text)) in lines.iter().enumerate() {
        let lead = if way.is_empty() {
            String::new()
        } else {
            format!("{way}: ")
        };
        let label = if n == 0 { "cost" } else { "" };
        labelled(out, label, &format!("{lead}{text}"));
    }
}

fn skip(out: &mut Page, p: &Plan) {
    let Some(k) = &p.skip else { return };
    labelled(out, "skip", &words::skip(k));
}

fn resume(out: &mut Page, p: &Plan, caveats: bool) {
    let Some(resume) = &p.resume else { return };
    for (n, line) in resume.command.iter().flat_map(|c| c.lines()).enumerate() {
        let _ = writeln!(
            out,
            "  {:<w$}{BOLD}{line}{PLAIN}",
            if n == 0 { "type" } else { "" },
            w = LABEL
        );
    }
    if caveats {
        for (n, caveat) in resume.caveats.iter().enumerate() {
            labelled(
                out,
                if n == 0 { "mind" } else { "" },
                &format!("- {caveat}"),
            );
        }
    }
}

fn evidence(out: &mut Page, x: &Diagnosed) {
    let leading: Vec<&str> = x.verdict.leading().take(2).map(|(c, _)| c).collect();
    for (n, cause) in leading.iter().enumerate() {
        let speaks = words::speaking(&x.verdict, cause);
        if speaks.is_empty() || (n > 0 && x.verdict.outcome == Outcome::Decided) {
            continue;
        }
        let _ = writeln!(out, "  {DIM}for and against {cause}{PLAIN}");
        for f in speaks.iter().take(MOST_EVIDENCE) {
            let (sign, colour) = if f.ratio > 1.0 {
                ("+", GREEN)
            } else {
                ("-", RED)
            };
            let text = format!("{} (x{}, {})", words::says(f), words::ratio(f.ratio), f.id);
            wrapped(out, &format!("    {colour}{sign}{PLAIN} "), 6, &text);
        }
    }
}

fn would_decide(out: &mut Page, x: &Diagnosed) {
    let v = &x.verdict;
    if v.outcome == Outcome::Decided {
        return;
    }
    if !v.deciding_signals.is_empty() {
        labelled(
            out,
            "missing",
            &format!("would help to decide: {}", v.deciding_signals.join(", ")),
        );
    }
    if let Some(e) = &v.experiment {
        labelled(out, "try", &words::experiment(e));
    }
    if v.posterior.first().is_some_and(|(c, _)| c == UNKNOWN) {
        labelled(out, "", "what is known speaks against every cause");
    }
}

fn replays(out: &mut Page, d: &Diagnosis) {
    if !d.replays.is_empty() {
        let _ = writeln!(out);
    }
    for replay in d.replays.iter().take(MOST_REPLAYS) {
        labelled(out, "replay", &words::replay(replay));
    }
    if d.replays.len() > MOST_REPLAYS {
        let more = d.replays.len() - MOST_REPLAYS;
        labelled(
            out,
            "",
            &format!("{more} more pairs of attempts over the same steps: see --format json"),
        );
    }
}

/// Lasting changes of the level that are no incidents.
fn changes(out: &mut Page, d: &Diagnosis) {
    if !d.changes.is_empty() {
        let _ = writeln!(out);
    }
    for (n, change) in d.changes.iter().take(MOST_REPLAYS).enumerate() {
        let label = if n == 0 { "level" } else { "" };
        labelled(out, label, &words::level_change(d, change));
    }
    if d.changes.len() > MOST_REPLAYS {
        let more = d.changes.len() - MOST_REPLAYS;
        labelled(
            out,
            "",
            &format!("{more} more changes of the level: see --format json"),
        );
    }
}

fn footer(out: &mut Page, d: &Diagnosis) {
    replays(out, d);
    changes(out, d);
    for (n, warning) in d.inventory.warnings.iter().take(MOST_LOSSES).enumerate() {
        let label = if n == 0 { "note" } else { "" };
        labelled(out, label, warning);
    }
    for (n, caution) in d.cautions.iter().enumerate() {
        let label = if n == 0 { "mind" } else { "" };
        labelled(out, label, &caution.to_string());
    }
    let leaned = d.incidents.iter().any(|i| i.incident.level.prior);
    if leaned {
        labelled_after_gap(out, "few rows", words::FEW_ROWS);
    }
    if !d.missing.is_empty() {
        labelled_after_gap(out, "unlogged", &d.missing.join(", "));
    }
    for (n, loss) in d.run.losses.iter().take(MOST_LOSSES).enumerate() {
        let label = if n == 0 { "lost" } else { "" };
        labelled(out, label, &words::lost(loss));
    }
    if d.run.losses.len() > MOST_LOSSES {
        labelled(
            out,
            "",
            &format!(
                "and {} more (--format json lists all)",
                d.run.losses.len() - MOST_LOSSES
            ),
        );
    }
}

fn labelled_after_gap(out: &mut Page, label: &str, text: &str) {
    let _ = writeln!(out);
    labelled(out, label, text);
}

fn labelled(out: &mut Page, label: &str, text: &str) {
    wrapped(out, &format!("  {label:<LABEL$}"), LABEL + 2, text);
}

/// Wraps at spaces; later lines are indented to where the text begins.
fn wrapped(out: &mut Page, lead: &str, indent: usize, text: &str) {
    let _ = out.write_str(lead);
    let mut column = indent;
    for (n, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if n > 0 && column + 1 + length > out.width() {
            let _ = write!(out, "\n{:indent$}", "");
            column = indent;
        } else if n > 0 {
            let _ = out.write_char(' ');
            column += 1;
        }
        let _ = out.write_str(word);
        column += length;
    }
    let _ = writeln!(out);
}
