//! Marks over a stack of panels: their signs above it, their lines and stretches in it.

use std::fmt::Write;

use crate::report::figure::{Figure, Mark, MarkKind};
use crate::report::html::escape::esc;
use crate::report::html::legend::MOST_NAMED;
use crate::report::html::plot::{HIGH, WIDE, coordinate, percent};

/// Attempts that have signs and lines.
const MOST_LINES: usize = 40;
/// Signs on the page: of more, the first.
const MOST_SIGNS: usize = 400;
/// Rows of signs, and of so many incidents that a legend does not name them.
const LANES: usize = 7;
const FEW_LANES: usize = 3;

/// The sign of a mark: its shape tells as much as its colour.
pub(super) fn sign(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Attempt => "\u{21BB}",
        MarkKind::Checkpoint => "\u{25AB}",
        MarkKind::Incident => "\u{25B2}",
        MarkKind::Skip => "\u{25AC}",
        MarkKind::Chosen => "\u{25A0}",
        MarkKind::Onset => "\u{25BC}",
        MarkKind::Peak => "\u{25CF}",
        MarkKind::Return => "\u{25C6}",
        MarkKind::GradReturn => "\u{25C7}",
    }
}

/// The name of a kind in style sheet and script.
pub(super) fn class(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Attempt => "attempt",
        MarkKind::Checkpoint => "checkpoint",
        MarkKind::Incident => "incident",
        MarkKind::Skip => "skip",
        MarkKind::Chosen => "chosen",
        MarkKind::Onset => "onset",
        MarkKind::Peak => "peak",
        MarkKind::Return => "back",
        MarkKind::GradReturn => "gradback",
    }
}

/// The signs of the marks above the panels. What has no room is hidden: the script shows it when it has.
pub(super) fn strip(out: &mut String, f: &Figure) {
    let mut signs = String::new();
    let incidents = f.marks.iter().filter(|m| m.kind == MarkKind::Incident);
    let most = if incidents.count() > MOST_NAMED {
        FEW_LANES
    } else {
        LANES
    };
    let mut lanes = Lanes {
        ends: Vec::new(),
        most,
    };
    let curtain = curtain(f);
    let signed = f.marks.iter().filter(|m| match m.kind {
        MarkKind::Checkpoint => false,
        MarkKind::Attempt => !curtain,
        _ => true,
    });
    for m in signed.take(MOST_SIGNS) {
        let number = m.incident.filter(|_| m.kind == MarkKind::Incident);
        let number = number.map(|n| n.to_string());
        let text = number.as_deref().unwrap_or(sign(m.kind));
        let place = f.place(anchor(f, m));
        // Of very many incidents and attempts only so many have a sign as there is room for.
        let many = matches!(m.kind, MarkKind::Incident | MarkKind::Attempt);
        let lane = lanes.take(place, text.chars().count(), !many);
        let hidden = if lane.is_none() { " hidden" } else { "" };
        let must = if many { "" } else { " data-must" };
        let _ = write!(
            signs,
            "<span class=\"sign {}\"{hidden}{must} style=\"left:{}%;top:{:.1}rem\" data-from=\"{}\" data-to=\"{}\" title=\"{}\">{text}</span>",
            class(m.kind),
            percent(place),
            1.1 * lane.unwrap_or(0) as f64,
            m.from,
            m.to,
            esc(&m.label),
        );
    }
    let _ = writeln!(
        out,
        "<div class=\"strip\" style=\"height:{:.1}rem\" data-lanes=\"{most}\" aria-hidden=\"true\">{signs}</div>",
        1.1 * lanes.ends.len().max(1) as f64 + 0.1
    );
    rug(out, f);
}

/// Hundreds of attempts would hide what is behind them; their bars are below.
fn curtain(f: &Figure) -> bool {
    let attempts = f.marks.iter().filter(|m| m.kind == MarkKind::Attempt);
    attempts.count() > MOST_LINES
}

/// Rows of signs above the panels, each with the place at which it is taken up to.
struct Lanes {
    ends: Vec<f64>,
    most: usize,
}

impl Lanes {
    /// The first row in which a sign of so many characters has room. Where none has, what must be shown overlaps.
    fn take(&mut self, place: f64, characters: usize, must: bool) -> Option<usize> {
        let half = 0.006 * characters as f64 + 0.004;
        let free = self.ends.iter().position(|end| *end <= place - half);
        let lane = match free {
            Some(lane) => lane,
            None if self.ends.len() < self.most => {
                self.ends.push(0.0);
                self.ends.len() - 1
            }
            None if must => self.most - 1,
            None => return None,
        };
        self.ends[lane] = place + half;
        Some(lane)
    }
}

/// The checkpoints as a row of strokes.
fn rug(out: &mut String, f: &Figure) {
    let checkpoints = || f.marks.iter().filter(|m| m.kind == MarkKind::Checkpoint);
    if checkpoints().next().is_none() {
        return;
    }
    let _ = write!(
        out,
        "<div class=\"rug\"><svg viewBox=\"0 0 {WIDE} 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <g class=\"stretch\"><path d=\""
    );
    for m in checkpoints() {
        let _ = write!(out, "M{} 0v10", coordinate(f.place(m.from) * WIDE));
    }
    out.push_str("\"/></g></svg></div>\n");
}

/// Where the sign of a mark stands: an incident's where it begins, others in the middle of what shows of them.
fn anchor(f: &Figure, m: &Mark) -> u64 {
    if m.kind == MarkKind::Incident {
        return m.from.max(f.from);
    }
    let (a, b) = (m.from.max(f.from), m.to.min(f.to));
    a + b.saturating_sub(a) / 2
}

/// The kinds of mark that are drawn over the panels: areas first, what matters most last.
const DRAWN: [MarkKind; 8] = [
    MarkKind::Incident,
    MarkKind::Skip,
    MarkKind::Attempt,
    MarkKind::GradReturn,
    MarkKind::Return,
    MarkKind::Chosen,
    MarkKind::Onset,
    MarkKind::Peak,
];

/// The marks as lines and stretches behind the curves: one path a kind, so that stretches which overlap are not darker.
pub(super) fn lines(out: &mut String, f: &Figure) {
    out.push_str("<g class=\"marks\">");
    for kind in DRAWN {
        let of_kind: Vec<&Mark> = f.marks.iter().filter(|m| m.kind == kind).collect();
        if of_kind.is_empty() || (kind == MarkKind::Attempt && curtain(f)) {
            continue;
        }
        let _ = write!(out, "<path class=\"mark {}\" d=\"", class(kind));
        for m in of_kind {
            let x = f.place(m.from) * WIDE;
            if matches!(kind, MarkKind::Skip | MarkKind::Incident) {
                area(out, x.max(0.0), (f.place(m.to) * WIDE).min(WIDE));
            } else {
                let _ = write!(out, "M{} 0v{HIGH}", coordinate(x));
            }
        }
        out.push_str("\"/>");
    }
    out.push_str("</g>");
}

/// A stretch over the whole height; one of a single step still is to be seen.
fn area(out: &mut String, a: f64, b: f64) {
    let (a, b) = if b - a < 2.0 {
        (a - 1.0, a + 1.0)
    } else {
        (a, b)
    };
    let width = coordinate(b - a);
    let _ = write!(out, "M{} 0h{width}v{HIGH}h-{width}z", coordinate(a));
}
