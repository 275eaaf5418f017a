//! The curves of a panel: lines, what has no height, levels with their bands, corners of schedules.

use std::fmt::Write;

use crate::report::figure::{Band, Curve, Figure, Panel, Point};
use crate::report::html::plot::{HIGH, WIDE, coordinate, role};

/// Everything that is drawn of a panel besides its heat map; the line that counts lies over the branches.
pub(super) fn draw(out: &mut String, f: &Figure, panel: &Panel) {
    if let Some(b) = &panel.band {
        band(out, f, panel, b);
    }
    for (n, s) in panel.series.iter().enumerate().rev() {
        let d = path(f, panel, &s.curve);
        let role = role(s.role);
        let _ = write!(
            out,
            "<path class=\"line {role}\" data-s=\"{n}\" d=\"{d}\"/>"
        );
        alone(out, f, panel, n, role, &s.curve);
        off(out, f, n, role, &s.curve);
    }
    knots(out, f, panel);
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

/// The pieces of a curve that have a length.
fn path(f: &Figure, panel: &Panel, curve: &Curve) -> String {
    let mut d = String::new();
    for piece in curve.pieces.iter().filter(|p| p.len() > 1) {
        for (n, p) in piece.iter().enumerate() {
            let (x, y) = place(f, panel, p);
            if n == 0 {
                let _ = write!(d, "M{x} {y}");
            } else if panel.stepped {
                let _ = write!(d, "H{x}V{y}");
            } else {
                let _ = write!(d, "L{x} {y}");
            }
        }
    }
    d
}

fn place(f: &Figure, panel: &Panel, p: &Point) -> (String, String) {
    let h = panel.height(p.value).unwrap_or(0.0);
    (
        coordinate(f.place(p.step) * WIDE),
        coordinate((1.0 - h) * HIGH),
    )
}

/// Rows without a neighbour: lines of no length, which round ends make dots.
fn alone(out: &mut String, f: &Figure, panel: &Panel, n: usize, role: &str, curve: &Curve) {
    let alone = curve.pieces.iter().filter(|p| p.len() == 1).flatten();
    let mut d = String::new();
    for p in alone {
        let (x, y) = place(f, panel, p);
        let _ = write!(d, "M{x} {y}h0");
    }
    let _ = write!(
        out,
        "<path class=\"alone {role}\" data-s=\"{n}\" d=\"{d}\"/>"
    );
}

/// Marks of values without a height: crosses at the edge where they belong.
fn off(out: &mut String, f: &Figure, n: usize, role: &str, curve: &Curve) {
    if curve.off.is_empty() {
        return;
    }
    let _ = write!(out, "<path class=\"off {role}\" data-s=\"{n}\" d=\"");
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
