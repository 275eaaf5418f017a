//! The diagnosis as one page that needs nothing else: to look at, to mail, to print.
//!
//! All words and pictures are there without a script; the script only zooms, reads values off, and copies.

mod curves;
mod data;
mod escape;
mod heat;
mod incident;
mod legend;
mod marks;
mod plan;
mod plot;
mod whole;

use std::fmt::Write;

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::report::figure::{self, Figure};
use crate::report::words;

use escape::{esc, script};

const STYLE: &str = include_str!("html/report.css");
const SCRIPT: &str = include_str!("html/report.js");

/// Nothing may be fetched, sent or framed, whatever a log calls its metrics.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";

/// A page that is larger than this is drawn again in less detail: it is to be mailed.
const LARGEST: usize = 1_800_000;
/// Incidents that have pictures; of more, the largest.
const MOST_PICTURES: usize = 12;
/// What is not finite has no score: among others it counts as a large spike.
const NOT_FINITE_SD: f64 = 50.0;
/// Incidents that have a section; of more, those with pictures and the first ones.
const MOST_SECTIONS: usize = 60;

/// Columns of a curve: as it stands on the page, and as it can be zoomed into.
#[derive(Debug, Clone, Copy)]
struct Detail {
    shown: usize,
    zoomed: usize,
}

/// From the most to the least detail.
const DETAILS: [Detail; 5] = [
    Detail {
        shown: 700,
        zoomed: 2000,
    },
    Detail {
        shown: 500,
        zoomed: 1200,
    },
    Detail {
        shown: 360,
        zoomed: 700,
    },
    Detail {
        shown: 260,
        zoomed: 400,
    },
    Detail {
        shown: 160,
        zoomed: 200,
    },
];

/// The figures of a page by the names of their stacks.
struct Pictures {
    shown: Vec<(String, Figure)>,
    zoomed: Vec<(String, Figure)>,
}

impl Pictures {
    fn of(d: &Diagnosis, drawn: &[&Diagnosed], detail: Detail) -> Self {
        let all = |columns: usize| {
            let mut out = vec![("run".to_owned(), figure::overview(d, columns))];
            out.extend(
                drawn
                    .iter()
                    .map(|x| (stack_name(x), figure::incident(d, x, columns))),
            );
            out
        };
        Self {
            shown: all(detail.shown),
            zoomed: all(detail.zoomed),
        }
    }

    fn get(&self, name: &str) -> Option<&Figure> {
        self.shown.iter().find(|(n, _)| n == name).map(|(_, f)| f)
    }
}

/// The name of the stack of an incident.
fn stack_name(x: &Diagnosed) -> String {
    format!("i{}", x.id)
}

/// The whole page.
pub fn render(d: &Diagnosis) -> String {
    let drawn = largest(d, MOST_PICTURES);
    let mut out = String::new();
    for detail in DETAILS {
        out = page(d, &drawn, detail);
        if out.len() <= LARGEST {
            return out;
        }
    }
    // Many attempts with many signals: fewer pictures, then.
    let mut most = drawn.len();
    while out.len() > LARGEST && most > 1 {
        most /= 2;
        out = page(d, &largest(d, most), DETAILS[DETAILS.len() - 1]);
    }
    out
}

/// The incidents that have pictures: those that are not back, then the furthest from their level; those that repeat an
/// earlier one are left out.
fn largest(d: &Diagnosis, most: usize) -> Vec<&Diagnosed> {
    let mut out: Vec<&Diagnosed> = d.incidents.iter().filter(|x| x.same_as.is_none()).collect();
    let score = |x: &Diagnosed| x.incident.score.map_or(NOT_FINITE_SD, f64::abs);
    let over = |x: &Diagnosed| x.incident.return_row.is_some();
    out.sort_by(|a, b| {
        let by_score = score(b).total_cmp(&score(a));
        over(a).cmp(&over(b)).then(by_score).then(a.id.cmp(&b.id))
    });
    out.truncate(most);
    out.sort_by_key(|x| x.id);
    out
}

fn page(d: &Diagnosis, drawn: &[&Diagnosed], detail: Detail) -> String {
    let pictures = Pictures::of(d, drawn, detail);
    let mut out = String::new();
    head(&mut out, d);
    let sections = sections(d, drawn);
    whole::top(&mut out, d, drawn);
    out.push_str("<main id=\"main\">\n");
    whole::answer(&mut out, d, drawn, &sections);
    whole::overview(&mut out, d, pictures.get("run"));
    for x in &sections {
        incident::section(&mut out, d, x, pictures.get(&stack_name(x)));
    }
    whole::notes(&mut out, d);
    out.push_str("</main>\n");
    let _ = writeln!(
        out,
        "<footer>Written by whyspike {}. Steps are the log\u{2019}s own numbers.</footer>",
        env!("CARGO_PKG_VERSION")
    );
    let _ = writeln!(
        out,
        "<script type=\"application/json\" id=\"figures\">{}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>",
        script(&data::json(&pictures.zoomed))
    );
    out
}

fn head(out: &mut String, d: &Diagnosis) {
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{} \u{b7} whyspike</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        esc(&words::source(d))
    );
}

/// The incidents that have a section of their own, in order.
fn sections<'a>(d: &'a Diagnosis, drawn: &[&'a Diagnosed]) -> Vec<&'a Diagnosed> {
    let is_drawn = |x: &Diagnosed| drawn.iter().any(|y| y.id == x.id);
    let room = MOST_SECTIONS.saturating_sub(drawn.len());
    let others = d.incidents.iter().filter(|x| !is_drawn(x)).take(room);
    let mut out: Vec<&Diagnosed> = drawn.iter().copied().chain(others).collect();
    out.sort_by_key(|x| x.id);
    out
}
