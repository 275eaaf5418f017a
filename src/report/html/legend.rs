//! What signs, lines and areas of a stack mean.

use std::fmt::Write;

use crate::report::figure::{BAND_SD, Figure, Mark, MarkKind, Role, step};
use crate::report::html::escape::esc;
use crate::report::html::marks::{class, sign};
use crate::report::html::plot::role;
use crate::report::words::span;

/// Attempts and incidents that a legend names.
pub(super) const MOST_NAMED: usize = 6;

/// What signs, lines and areas mean, with their steps.
pub(super) fn list(out: &mut String, f: &Figure) {
    out.push_str("<ul class=\"legend\">");
    let of = |kind: MarkKind| f.marks.iter().filter(move |m| m.kind == kind);
    for kind in [
        MarkKind::Onset,
        MarkKind::Peak,
        MarkKind::Return,
        MarkKind::GradReturn,
        MarkKind::Chosen,
        MarkKind::Skip,
    ] {
        for m in of(kind) {
            item(out, class(kind), sign(kind), &m.label);
        }
    }
    for kind in [MarkKind::Incident, MarkKind::Attempt] {
        let many = of(kind).count();
        if many > MOST_NAMED {
            let (sign, what) = match kind {
                MarkKind::Attempt => (sign(kind), "attempts begin"),
                _ => ("1\u{2026}", "incidents, numbered as in the table"),
            };
            item(out, class(kind), sign, &format!("{many} {what}"));
            continue;
        }
        let mut all: Vec<&Mark> = of(kind).collect();
        all.sort_by_key(|m| m.incident);
        for m in all {
            let number = m.incident.map(|n| n.to_string());
            item(
                out,
                class(kind),
                number.as_deref().unwrap_or(sign(kind)),
                &m.label,
            );
        }
    }
    let checkpoints: usize = of(MarkKind::Checkpoint).map(|m| m.count).sum();
    if checkpoints > 0 {
        let text = match of(MarkKind::Checkpoint).next() {
            Some(only) if checkpoints == 1 => only.label.clone(),
            _ => format!("{} checkpoints", step(checkpoints as u64)),
        };
        item(out, "checkpoint", "\u{2502}", &text);
    }
    for r in [Role::Superseded, Role::Later] {
        branches(out, f, r);
    }
    if f.panels.iter().any(|p| p.band.is_some()) {
        let text = format!("level before the onset, and {BAND_SD} sd to either side");
        out.push_str("<li><span class=\"swatch band\"></span>");
        let _ = write!(out, "{text}</li>");
    }
    let knots = f.panels.iter().any(|p| !p.knots.is_empty());
    if knots {
        item(
            out,
            "knot",
            "\u{25CB}",
            "the schedule changes its value or slope",
        );
    }
    let bad = f.panels.iter().flat_map(|p| &p.series);
    if bad.into_iter().any(|s| !s.curve.off.is_empty()) {
        item(
            out,
            "off",
            "\u{2502}",
            "no finite value (at the top edge), or none above zero (at the bottom edge)",
        );
    }
    out.push_str("</ul>\n");
}

fn item(out: &mut String, class: &str, sign: &str, text: &str) {
    let _ = write!(
        out,
        "<li><span class=\"sign {class}\" aria-hidden=\"true\">{sign}</span> {}</li>",
        esc(text)
    );
}

fn branches(out: &mut String, f: &Figure, r: Role) {
    let Some(panel) = f.panels.first() else {
        return;
    };
    let names = panel.series.iter().filter(|s| s.role == r);
    let names: Vec<u32> = names.filter_map(|s| s.attempt).collect();
    if names.is_empty() {
        return;
    }
    let what = match r {
        Role::Superseded => "left behind by a newer attempt",
        _ => "a later attempt over these steps",
    };
    let more = if f.more_branches > 0 && r == Role::Superseded {
        format!(", and {} older ones that are not drawn", f.more_branches)
    } else {
        String::new()
    };
    let _ = write!(
        out,
        "<li><span class=\"swatch {}\"></span>{what}: {}{more}</li>",
        role(r),
        attempts(&names)
    );
}

/// Attempts in order as `attempt 3` or `attempts 0-4, 7`.
pub(super) fn attempts(numbers: &[u32]) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match spans.last_mut() {
            Some((_, last)) if *n == *last + 1 => *last = *n,
            _ => spans.push((*n, *n)),
        }
    }
    let parts = spans
        .iter()
        .map(|(a, b)| span(u64::from(*a), u64::from(*b)));
    let parts: Vec<String> = parts.collect();
    let s = if numbers.len() == 1 { "" } else { "s" };
    format!("attempt{s} {}", parts.join(", "))
}
