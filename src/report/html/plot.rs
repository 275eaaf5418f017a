//! A figure as static pictures: a stack of panels over one axis, complete without any script.
//!
//! Curves are drawn in a box of fixed numbers that is stretched to the page; words stand beside it as ordinary text, so
//! that they keep their size on a telephone and on paper.

use std::fmt::Write;

use crate::report::figure::{Curve, Figure, OffKind, Panel, Role, Scale, number};
use crate::report::html::escape::{esc, id};
use crate::report::html::{curves, heat, legend, marks};

/// Width and height of the box that curves are drawn in.
pub(super) const WIDE: f64 = 1000.0;
pub(super) const HIGH: f64 = 200.0;
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
    legend::list(out, f);
    marks::strip(out, f);
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
    marks::lines(out, f);
    out.push_str("<g class=\"curves\">");
    if let Some(heat) = &panel.heat {
        heat::cells(out, f, heat);
    }
    curves::draw(out, f, panel);
    out.push_str("</g></svg></div>");
    if let Some(heat) = &panel.heat {
        heat::key(out, heat);
    }
    out.push_str("</figure>\n");
}

fn scale(panel: &Panel) -> &'static str {
    match panel.scale {
        Scale::Log => "log scale",
        Scale::Linear => "",
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
    let branches: Vec<u32> = branches.filter_map(|s| s.attempt).collect();
    if !branches.is_empty() {
        let _ = write!(text, "; branches: {}", legend::attempts(&branches));
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
