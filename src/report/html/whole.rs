//! What the page tells of the whole run: the answer in a table, the overview, attempts, and what limits the log.

use std::fmt::Write;

use crate::detect::Incident;
use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::report::figure::Figure;
use crate::report::html::escape::esc;
use crate::report::html::plot;
use crate::report::words::{self, capital, span};
use crate::verdict::Outcome;

/// Incidents in the table.
const MOST_INCIDENTS: usize = 200;
/// More incidents than this are folded away, but for those that are drawn.
const MOST_ROWS: usize = 15;
/// More links to incidents than this are numbers.
const MOST_WORDS: usize = 6;
/// Attempts in the table, replays, changes, warnings and losses of data that are listed.
const MOST_ATTEMPTS: usize = 100;
/// Attempts that have a bar in a lane of their own, and lanes.
const OWN_LANES: usize = 8;
const MOST_LANES: usize = 24;
const MOST_LISTED: usize = 20;

/// What was read, and the way through the page.
pub(super) fn top(out: &mut String, d: &Diagnosis, drawn: &[&Diagnosed]) {
    let _ = writeln!(
        out,
        "<a class=\"jump\" href=\"#main\">Skip to the answer</a>\n<header>\n<p class=\"tool\">whyspike</p>\n<h1>{}</h1>\n\
         <p class=\"read\">{}</p>\n</header>",
        esc(&words::source(d)),
        esc(&words::run(d))
    );
    out.push_str(
        "<nav aria-label=\"Sections\"><ul><li><a href=\"#overview\">The whole run</a></li>",
    );
    for (n, x) in drawn.iter().enumerate() {
        // Of many the word would push the last ones out of sight.
        let link = if n > 0 && drawn.len() > MOST_WORDS {
            format!(" aria-label=\"Incident {0}\">{0}", x.id)
        } else {
            format!(">Incident {}", x.id)
        };
        let _ = write!(out, "<li><a href=\"#incident-{}\"{link}</a></li>", x.id);
    }
    out.push_str("<li><a href=\"#notes\">The log</a></li></ul></nav>\n");
}

/// The answer: all incidents in a table; of very many those that are drawn, and the others to unfold.
pub(super) fn answer(
    out: &mut String,
    d: &Diagnosis,
    drawn: &[&Diagnosed],
    sections: &[&Diagnosed],
) {
    out.push_str("<section id=\"answer\" aria-labelledby=\"answer-h\">\n");
    if d.incidents.is_empty() {
        let _ = writeln!(
            out,
            "<h2 id=\"answer-h\">Nothing found</h2>\n<p class=\"verdict\">No incident in {} rows.</p>\n</section>",
            d.run.len()
        );
        return;
    }
    let _ = writeln!(out, "<h2 id=\"answer-h\">{}</h2>", words::found(d));
    let all: Vec<&Diagnosed> = d.incidents.iter().take(MOST_INCIDENTS).collect();
    if d.incidents.len() <= MOST_ROWS {
        let caption =
            "Incidents in order of attempt and onset; steps are the log\u{2019}s own numbers";
        table(out, d, &all, sections, caption);
    } else {
        let caption = format!(
            "The {} largest; steps are the log\u{2019}s own numbers",
            drawn.len()
        );
        table(out, d, drawn, sections, &caption);
        let n = d.incidents.len();
        let _ = writeln!(out, "<details><summary>All {n} incidents</summary>");
        table(
            out,
            d,
            &all,
            sections,
            "All incidents in order of attempt and onset",
        );
        if n > MOST_INCIDENTS {
            let more = n - MOST_INCIDENTS;
            let _ = writeln!(
                out,
                "<p class=\"lead\">{more} more: see <code>whyspike diagnose --format json</code>.</p>"
            );
        }
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
}

fn table(
    out: &mut String,
    d: &Diagnosis,
    rows: &[&Diagnosed],
    sections: &[&Diagnosed],
    caption: &str,
) {
    let _ = write!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>\n\
         <caption>{caption}</caption>\n<thead><tr>\
         <th scope=\"col\">Incident</th><th scope=\"col\" class=\"number\">Onset</th>\
         <th scope=\"col\" class=\"number detail\">Peak</th><th scope=\"col\" class=\"number detail\">Over its level</th>\
         <th scope=\"col\" class=\"number detail\">Back</th><th scope=\"col\" class=\"detail\">Shape</th>\
         <th scope=\"col\">Cause</th><th scope=\"col\">Do</th></tr></thead>\n<tbody>\n",
    );
    for x in rows {
        let linked = sections.iter().any(|s| s.id == x.id);
        incident(out, d, x, linked);
    }
    out.push_str("</tbody></table></div>\n");
}

fn incident(out: &mut String, d: &Diagnosis, x: &Diagnosed, linked: bool) {
    let i = &x.incident;
    let step = |row: Option<usize>| {
        row.and_then(|r| d.run.steps.get(r))
            .map_or("\u{2013}".to_owned(), u64::to_string)
    };
    let number = if linked {
        format!("<a href=\"#incident-{0}\">{0}</a>", x.id)
    } else {
        x.id.to_string()
    };
    let _ = write!(
        out,
        "<tr{}><th scope=\"row\">{number}</th><td class=\"number\">{}</td><td class=\"number detail\">{}</td>\
         <td class=\"number detail\">{}</td><td class=\"number detail\">{}</td><td class=\"detail\">{}</td>",
        if x.same_as.is_some() {
            " class=\"again\""
        } else {
            ""
        },
        step(Some(i.onset_row)),
        step(i.peak_row),
        words::size(i).unwrap_or("\u{2013}".to_owned()),
        back(i, step(i.return_row)),
        shape(i)
    );
    let _ = match x.same_as {
        Some(id) => writeln!(
            out,
            "<td colspan=\"2\">incident {id} met again by attempt {}</td></tr>",
            i.attempt
        ),
        None => writeln!(
            out,
            "<td>{}</td><td>{}</td></tr>",
            esc(&cause(x)),
            words::advice(&x.plan)
        ),
    };
}

fn back(i: &Incident, step: String) -> String {
    match i.return_row {
        Some(_) if i.return_is_bound => format!("\u{2264} {step}"),
        Some(_) => step,
        None => "not back".to_owned(),
    }
}

fn shape(i: &Incident) -> String {
    let open = if i.open { ", still open" } else { "" };
    let norm = if i.signal == "loss" {
        ""
    } else {
        ", gradient norm alone"
    };
    format!("{}{open}{norm}", i.shape.name())
}

/// The verdict in a few words; an undecided one stays so.
fn cause(x: &Diagnosed) -> String {
    let v = &x.verdict;
    match (v.outcome, &v.cause) {
        (Outcome::Decided, Some(cause)) => format!("{cause} ({:.2})", v.posterior_of(cause)),
        (outcome, _) => outcome.name().to_owned(),
    }
}

/// The pictures of the whole run, and its attempts.
pub(super) fn overview(out: &mut String, d: &Diagnosis, figure: Option<&Figure>) {
    out.push_str(
        "<section id=\"overview\" aria-labelledby=\"overview-h\">\n<h2 id=\"overview-h\">The whole run</h2>\n",
    );
    if let Some(f) = figure {
        let title = format!("The whole run, steps {} to {}", f.from, f.to);
        plot::stack(out, "run", &title, f, &lanes(d, f));
    }
    attempts(out, d);
    out.push_str("</section>\n");
}

/// The attempts as bars one above the other: what a later one repeats is thin. Very many share lanes.
fn lanes(d: &Diagnosis, f: &Figure) -> String {
    let all = &d.run.attempts;
    if all.len() < 2 {
        return String::new();
    }
    let (mut kept, mut left) = (String::new(), String::new());
    let mut ends: Vec<u64> = Vec::new();
    for a in all {
        let steps = d.run.steps.get(a.rows.clone()).unwrap_or_default();
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
            continue;
        };
        let free = ends.iter().position(|end| end < first);
        let lane = free.filter(|_| all.len() > OWN_LANES);
        let lane = lane.unwrap_or_else(|| match ends.len() {
            MOST_LANES.. => MOST_LANES - 1,
            n => {
                ends.push(0);
                n
            }
        });
        ends[lane] = *last;
        let y = 10.0 * lane as f64 + 5.0;
        let cut = d.run.superseded_from(a.index).unwrap_or(u64::MAX);
        let bar = |d: &mut String, from: u64, to: u64| {
            let x = |s: u64| plot::coordinate(f.place(s) * plot::WIDE);
            let _ = write!(d, "M{} {y}H{}", x(from), x(to));
        };
        if cut > *first {
            bar(&mut kept, *first, (*last).min(cut));
        }
        if cut <= *last {
            bar(&mut left, (*first).max(cut), *last);
        }
    }
    format!(
        "<figure class=\"panel lanes\"><figcaption>Attempts <span class=\"unit\">thin: left behind by a newer \
         one</span></figcaption><div class=\"plot\"><svg style=\"height:{:.2}rem\" viewBox=\"0 0 {} {}\" \
         preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Attempts over the steps of the run; the table below \
         lists them\"><g class=\"stretch\"><path class=\"lane\" d=\"{kept}\"/><path class=\"lane superseded\" \
         d=\"{left}\"/></g></svg></div></figure>\n",
        0.55 * ends.len() as f64,
        plot::WIDE,
        10 * ends.len()
    )
}

fn attempts(out: &mut String, d: &Diagnosis) {
    let all = &d.run.attempts;
    if all.len() < 2 {
        return;
    }
    let _ = writeln!(
        out,
        "<details{}><summary>{} attempts</summary><div class=\"wide\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Attempts\"><table class=\"narrow\">\n<caption>Attempts in order; the rows of an older attempt that a newer one \
         repeats are kept as a branch</caption>\n<thead><tr><th scope=\"col\" class=\"number\">Attempt</th>\
         <th scope=\"col\">Steps</th><th scope=\"col\">Repeated from</th><th scope=\"col\">Why it began</th></tr></thead>\n\
         <tbody>",
        if all.len() <= 6 { " open" } else { "" },
        all.len()
    );
    for a in all.iter().take(MOST_ATTEMPTS) {
        let steps = d.run.steps.get(a.rows.clone()).unwrap_or_default();
        let (first, last) = (steps.first().copied(), steps.last().copied());
        let reach = first.zip(last).map_or(String::new(), |(a, b)| span(a, b));
        let repeated = d
            .run
            .superseded_from(a.index)
            .filter(|s| last.is_some_and(|l| *s <= l));
        let repeated = repeated.map_or("\u{2013}".to_owned(), |s| s.to_string());
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\" class=\"number\">{}</th><td class=\"short\">{reach}</td><td>{repeated}</td><td>{}</td></tr>",
            a.index,
            esc(&a.began.words())
        );
    }
    out.push_str("</tbody></table></div>");
    if all.len() > MOST_ATTEMPTS {
        let _ = write!(out, "<p>{} more.</p>", all.len() - MOST_ATTEMPTS);
    }
    out.push_str("</details>\n");
}

/// What limits what the log can show, and what was not in it.
pub(super) fn notes(out: &mut String, d: &Diagnosis) {
    out.push_str(
        "<section id=\"notes\" aria-labelledby=\"notes-h\">\n<h2 id=\"notes-h\">The log</h2>\n",
    );
    if d.run.meta.sources.len() > 1 {
        list(out, "Sources", d.run.meta.sources.iter().cloned());
    }
    if !d.missing.is_empty() {
        let _ = writeln!(
            out,
            "<h3>Not logged</h3>\n<p>{}</p>",
            esc(&d.missing.join(", "))
        );
    }
    let mut mind: Vec<String> = d.cautions.iter().map(ToString::to_string).collect();
    if d.incidents.iter().any(|i| i.incident.level.prior) {
        mind.push(words::FEW_ROWS.to_owned());
    }
    mind.extend(d.inventory.warnings.iter().cloned());
    list(out, "Mind", mind.iter().map(|m| capital(m)));
    list(
        out,
        "Replays",
        d.replays.iter().map(|r| capital(&words::replay(r))),
    );
    let changes = d
        .changes
        .iter()
        .map(|c| capital(&words::level_change(d, c)));
    list(out, "Changes of the level", changes);
    list(
        out,
        "Could not be read",
        d.run.losses.iter().map(words::lost),
    );
    if !d.run.meta.base_known {
        out.push_str(
            "<p>Whether the log counts steps from 0 or 1 could not be told: 1 is assumed.</p>\n",
        );
    }
    out.push_str("</section>\n");
}

/// A list with its heading; nothing where there is nothing.
fn list(out: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    let _ = writeln!(out, "<h3>{title}</h3>\n<ul class=\"plain\">");
    for item in items.by_ref().take(MOST_LISTED) {
        let _ = writeln!(out, "<li>{}</li>", esc(&item));
    }
    let more = items.count();
    if more > 0 {
        let _ = writeln!(
            out,
            "<li>and {more} more: see <code>whyspike diagnose --format json</code></li>"
        );
    }
    out.push_str("</ul>\n");
}
