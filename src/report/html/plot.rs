//! A figure as static pictures: a stack of panels over one axis, complete without any script.
//!
//! Curves are drawn in a box of fixed numbers that is stretched to the page; words stand beside it as ordinary text, so
//! that they keep their size on a telephone and on paper.

use std::fmt::Write;

use crate::report::figure::{
    Band, Curve, Figure, Mark, MarkKind, OffKind, Panel, Role, number, step,
};
use crate::report::html::escape::{esc, id};
use crate::report::html::heat;

/// Width and height of the box that curves are drawn in.
pub(super) const WIDE: f64 = 1000.0;
pub(super) const HIGH: f64 = 200.0;
/// Attempts and incidents that a legend names, and attempts that have signs.
const MOST_NAMED: usize = 6;
const MOST_SIGNS: usize = 40;
/// Round places on the two axes.
const STEPS: usize = 7;
const VALUES: usize = 4;

/// A stack of panels with its controls, marks, axis and legend. `name` makes ids unique.
/// `more` stands between the panels and the axis.
pub(super) fn stack(out: &mut String, name: &str, title: &str, f: &Figure, more: &str) {
    let _ = writeln!(
        out,
        "<div class=\"stack\" id=\"{name}\" data-figure=\"{name}\" role=\"group\" aria-label=\"{}\">",
        esc(title)
    );
    controls(out, name);
    legend(out, f);
    strip(out, f);
    for panel in &f.panels {
        one(out, name, f, panel);
    }
    out.push_str(more);
    axis(out, f);
    out.push_str("</div>\n");
}

/// The id of a panel.
pub(super) fn panel_id(name: &str, panel: &Panel) -> String {
    let kind = if panel.heat.is_some() { "-layers" } else { "" };
    format!("{name}-{}{kind}", id(&panel.signal))
}

/// Buttons that only a script can serve: it shows them.
fn controls(out: &mut String, name: &str) {
    let _ = write!(
        out,
        "<div class=\"controls\" hidden role=\"group\" aria-label=\"Zoom\">"
    );
    for (act, label, sign) in [
        ("in", "Zoom in", "+"),
        ("out", "Zoom out", "\u{2212}"),
        ("left", "Earlier steps", "\u{2190}"),
        ("right", "Later steps", "\u{2192}"),
        ("reset", "Show all steps", "All"),
    ] {
        let _ = write!(
            out,
            "<button type=\"button\" data-act=\"{act}\" aria-label=\"{label}\" aria-controls=\"{name}\" \
             title=\"{label}\">{sign}</button>"
        );
    }
    out.push_str("<span class=\"range\" aria-live=\"polite\"></span></div>\n");
}

/// The sign of a mark: its shape tells as much as its colour.
fn sign(kind: MarkKind) -> &'static str {
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

/// The signs of the marks above the panels.
fn strip(out: &mut String, f: &Figure) {
    let attempts = f.marks.iter().filter(|m| m.kind == MarkKind::Attempt);
    let crowded = attempts.count() > MOST_SIGNS;
    let shown = f.marks.iter().filter(|m| match m.kind {
        MarkKind::Checkpoint => false,
        MarkKind::Attempt => !crowded,
        _ => true,
    });
    let mut signs = String::new();
    let mut ends: Vec<f64> = Vec::new();
    for m in shown {
        let place = f.place(middle(f, m));
        let lane = lane(&mut ends, place);
        let number = m.incident.filter(|_| m.kind == MarkKind::Incident);
        let number = number.map(|n| n.to_string());
        let _ = write!(
            signs,
            "<span class=\"sign {}\" style=\"left:{}%;top:{}rem\" data-from=\"{}\" data-to=\"{}\" title=\"{}\">{}</span>",
            class(m.kind),
            percent(place),
            1.1 * lane as f64,
            m.from,
            m.to,
            esc(&m.label),
            number.as_deref().unwrap_or(sign(m.kind))
        );
    }
    let _ = writeln!(
        out,
        "<div class=\"strip\" style=\"height:{:.1}rem\" aria-hidden=\"true\">{signs}</div>",
        1.1 * ends.len().max(1) as f64 + 0.1
    );
    rug(out, f);
}

/// The first lane in which a sign has room; where none has, signs overlap.
fn lane(ends: &mut Vec<f64>, place: f64) -> usize {
    const ROOM: f64 = 0.02;
    const MOST: usize = 3;
    let free = ends.iter().position(|end| (place - end).abs() >= ROOM);
    let lane = free.unwrap_or(ends.len().min(MOST - 1));
    match ends.get_mut(lane) {
        Some(end) => *end = place,
        None => ends.push(place),
    }
    lane
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

/// The middle of what shows of a mark.
fn middle(f: &Figure, m: &Mark) -> u64 {
    let (a, b) = (m.from.max(f.from), m.to.min(f.to));
    a + b.saturating_sub(a) / 2
}

fn one(out: &mut String, name: &str, f: &Figure, panel: &Panel) {
    let id = panel_id(name, panel);
    let unit = match (panel.unit.as_str(), panel.heat.is_some()) {
        (_, true) => String::new(),
        ("", _) => scale(panel).to_owned(),
        (unit, _) => format!("{}{}", esc(unit), prefixed(scale(panel))),
    };
    let unit = if unit.is_empty() {
        unit
    } else {
        format!(" <span class=\"unit\">{unit}</span>")
    };
    let _ = writeln!(
        out,
        "<figure class=\"panel{}\" id=\"{id}\" data-panel=\"{id}\"><figcaption>{}{unit}</figcaption><div class=\"plot\">",
        if panel.heat.is_some() { " layers" } else { "" },
        esc(&panel.title)
    );
    values(out, panel);
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDE} {HIGH}\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
        esc(&panel.title),
        esc(&described(f, panel))
    );
    grid(out, panel);
    marks(out, f);
    out.push_str("<g class=\"curves\">");
    if let Some(heat) = &panel.heat {
        heat::cells(out, f, heat);
    }
    if let Some(b) = &panel.band {
        band(out, f, panel, b);
    }
    // The line that counts is drawn over the branches.
    for (n, s) in panel.series.iter().enumerate().rev() {
        let d = path(f, panel, &s.curve);
        let role = role(s.role);
        let _ = write!(
            out,
            "<path class=\"line {role}\" data-s=\"{n}\" d=\"{d}\"/>"
        );
        off(out, f, n, &s.curve);
    }
    knots(out, f, panel);
    out.push_str("</g></svg></div>");
    if let Some(heat) = &panel.heat {
        heat::key(out, heat);
    }
    out.push_str("</figure>\n");
}

fn scale(panel: &Panel) -> &'static str {
    match panel.scale {
        crate::report::figure::Scale::Log => "log scale",
        crate::report::figure::Scale::Linear => "",
    }
}

fn prefixed(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(", {text}")
    }
}

/// The name of a role in style sheet and script.
pub(super) fn role(role: Role) -> &'static str {
    match role {
        Role::Value => "value",
        Role::Superseded => "superseded",
        Role::Later => "later",
    }
}

/// What a picture shows, in a sentence for those who do not see it.
fn described(f: &Figure, panel: &Panel) -> String {
    let mut text = format!("Steps {} to {}", f.from, f.to);
    let drawn = panel.series.first().map(|s| &s.curve);
    let points = || drawn.into_iter().flat_map(Curve::points);
    let (mut low, mut high) = (points().next(), points().next());
    for p in points() {
        low = low.filter(|l| l.value <= p.value).or(Some(p));
        high = high.filter(|h| h.value >= p.value).or(Some(p));
    }
    if let (Some(low), Some(high)) = (low, high) {
        let _ = write!(
            text,
            "; lowest {} at {}, highest {} at {}",
            number(low.value),
            low.step,
            number(high.value),
            high.step
        );
    }
    let bad: usize = drawn.map_or(0, |c| {
        let none = c.off.iter().filter(|o| o.kind != OffKind::NotPositive);
        none.map(|o| o.rows).sum()
    });
    if bad > 0 {
        let rows = if bad == 1 { "row" } else { "rows" };
        let _ = write!(text, "; {bad} {rows} without a finite value");
    }
    let branches = panel.series.iter().filter(|s| s.role != Role::Value);
    let branches: Vec<&str> = branches.map(|s| s.name.as_str()).collect();
    if !branches.is_empty() {
        let _ = write!(text, "; branches: {}", branches.join(", "));
    }
    if let Some(heat) = &panel.heat {
        let _ = write!(
            text,
            "; {} rows of layers, from {} to {}",
            heat.layers.len(),
            number(heat.low),
            number(heat.high)
        );
    }
    text.push('.');
    text
}

/// The values at the left edge.
fn values(out: &mut String, panel: &Panel) {
    out.push_str("<div class=\"values\" aria-hidden=\"true\">");
    if let Some(heat) = &panel.heat {
        heat::layers(out, heat);
    } else {
        for tick in panel.ticks(VALUES) {
            if let Some(h) = panel.height(tick.value) {
                let top = percent(1.0 - h);
                let _ = write!(
                    out,
                    "<span style=\"top:{top}%\">{}</span>",
                    esc(&tick.label)
                );
            }
        }
    }
    out.push_str("</div>");
}

fn grid(out: &mut String, panel: &Panel) {
    if panel.heat.is_some() {
        return;
    }
    out.push_str("<path class=\"grid\" d=\"");
    for tick in panel.ticks(VALUES) {
        if let Some(h) = panel.height(tick.value) {
            let _ = write!(out, "M0 {}h{WIDE}", coordinate((1.0 - h) * HIGH));
        }
    }
    out.push_str("\"/>");
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
fn marks(out: &mut String, f: &Figure) {
    out.push_str("<g class=\"marks\">");
    for kind in DRAWN {
        let of_kind: Vec<&Mark> = f.marks.iter().filter(|m| m.kind == kind).collect();
        if of_kind.is_empty() {
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

fn band(out: &mut String, f: &Figure, panel: &Panel, b: &Band) {
    let at = |step: u64, value: f64| {
        let h = panel.height(value).unwrap_or(0.0).clamp(-1.0, 2.0);
        format!(
            "{} {}",
            coordinate(f.place(step) * WIDE),
            coordinate((1.0 - h) * HIGH)
        )
    };
    let up = b.points.iter().map(|p| at(p.step, p.high));
    let down = b.points.iter().rev().map(|p| at(p.step, p.low));
    let area: Vec<String> = up.chain(down).collect();
    let middle: Vec<String> = b.points.iter().map(|p| at(p.step, p.middle)).collect();
    let _ = write!(
        out,
        "<path class=\"band\" d=\"M{}z\"/><path class=\"level\" d=\"M{}\"/>",
        area.join("L"),
        middle.join("L")
    );
}

/// The pieces of a curve; a single point is a line of no length, which round ends make a dot.
pub(super) fn path(f: &Figure, panel: &Panel, curve: &Curve) -> String {
    let mut d = String::new();
    for piece in &curve.pieces {
        let mut last = String::new();
        for (n, p) in piece.iter().enumerate() {
            let h = panel.height(p.value).unwrap_or(0.0);
            let x = coordinate(f.place(p.step) * WIDE);
            let y = coordinate((1.0 - h) * HIGH);
            if n == 0 {
                let _ = write!(d, "M{x} {y}");
            } else if panel.stepped {
                let _ = write!(d, "H{x}V{y}");
            } else {
                let _ = write!(d, "L{x} {y}");
            }
            last = x;
        }
        if piece.len() == 1 {
            let _ = write!(d, "H{last}");
        }
    }
    d
}

/// Marks of values without a height: crosses at the edge where they belong.
fn off(out: &mut String, f: &Figure, n: usize, curve: &Curve) {
    if curve.off.is_empty() {
        return;
    }
    let _ = write!(out, "<path class=\"off\" data-s=\"{n}\" d=\"");
    for o in &curve.off {
        let x = coordinate(f.place(o.step) * WIDE);
        let y = if o.kind.on_top() { 0.0 } else { HIGH - 14.0 };
        let _ = write!(out, "M{x} {y}v14");
    }
    out.push_str("\"/>");
}

fn knots(out: &mut String, f: &Figure, panel: &Panel) {
    if panel.knots.is_empty() {
        return;
    }
    out.push_str("<path class=\"knot\" d=\"");
    for k in &panel.knots {
        if let Some(h) = panel.height(k.value) {
            let x = coordinate(f.place(k.step) * WIDE);
            let _ = write!(out, "M{x} {}h0", coordinate((1.0 - h) * HIGH));
        }
    }
    out.push_str("\"/>");
}

fn axis(out: &mut String, f: &Figure) {
    out.push_str("<div class=\"axis\" aria-hidden=\"true\">");
    for (n, tick) in f.ticks(STEPS).iter().enumerate() {
        let place = if f.from == f.to {
            0.5
        } else {
            (tick.value - f.from as f64) / (f.to - f.from) as f64
        };
        let even = if n % 2 == 1 { " class=\"odd\"" } else { "" };
        let _ = write!(
            out,
            "<span{even} style=\"left:{}%\">{}</span>",
            percent(place),
            tick.label
        );
    }
    out.push_str("<span class=\"name\">step</span></div>\n");
}

/// What signs, lines and areas mean, with their steps.
fn legend(out: &mut String, f: &Figure) {
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
        let sd = crate::report::figure::BAND_SD;
        let text = format!("level before the onset, and {sd} sd to either side");
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
    let names: Vec<String> = names
        .filter_map(|s| s.attempt)
        .map(|a| a.to_string())
        .collect();
    if names.is_empty() {
        return;
    }
    let s = if names.len() == 1 { "" } else { "s" };
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
        "<li><span class=\"swatch {}\"></span>{what}: attempt{s} {}{more}</li>",
        role(r),
        names.join(", ")
    );
}

/// A share in per cent with two digits.
pub(super) fn percent(share: f64) -> String {
    coordinate2(share * 100.0, 2)
}

/// A number in a picture with one digit.
pub(super) fn coordinate(v: f64) -> String {
    coordinate2(v, 1)
}

fn coordinate2(v: f64, digits: usize) -> String {
    // Far outside of the box nothing is seen.
    let text = format!("{:.digits$}", v.clamp(-1e4, 1e4));
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}
