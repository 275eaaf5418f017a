//! The figures as JSON for the script of the page: rows of the log, steps as differences.

use std::fmt::Write;

use crate::report::figure::{Band, Curve, Figure, Heat, Panel, Scale, number};
use crate::report::html::marks::class;
use crate::report::html::plot::{panel_id, role};

/// All figures by the names of their stacks.
pub(super) fn json(figures: &[(String, Figure)]) -> String {
    let mut out = String::from("{");
    for (n, (name, f)) in figures.iter().enumerate() {
        let _ = write!(
            out,
            "{}{}:{{\"from\":{},\"to\":{},\"panels\":[",
            if n > 0 { "," } else { "" },
            text(name),
            f.from,
            f.to
        );
        each(&mut out, &f.panels, |out, p| panel(out, name, p));
        out.push_str("],\"marks\":[");
        each(&mut out, &f.marks, |out, m| {
            let _ = write!(out, "[\"{}\",{},{}]", class(m.kind), m.from, m.to);
        });
        out.push_str("]}");
    }
    out.push('}');
    out
}

/// A string as JSON holds it.
fn text(s: &str) -> String {
    serde_json::Value::from(s).to_string()
}

/// A list of things with commas between them.
fn each<T>(out: &mut String, items: &[T], mut put: impl FnMut(&mut String, &T)) {
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        put(out, item);
    }
}

fn panel(out: &mut String, name: &str, p: &Panel) {
    let _ = write!(
        out,
        "{{\"id\":{},\"title\":{},\"log\":{},\"stepped\":{},\"low\":{},\"high\":{},\"series\":[",
        text(&panel_id(name, p)),
        text(&p.title),
        p.scale == Scale::Log,
        p.stepped,
        number(p.low),
        number(p.high)
    );
    each(out, &p.series, |out, s| {
        let _ = write!(
            out,
            "{{\"role\":\"{}\",\"name\":{},",
            role(s.role),
            text(&s.name)
        );
        curve(out, &s.curve);
        out.push('}');
    });
    out.push_str("],\"tops\":");
    match &p.heat {
        Some(h) => tops(out, h),
        None => out.push_str("null"),
    }
    out.push_str(",\"band\":");
    match &p.band {
        Some(b) => band(out, b),
        None => out.push_str("null"),
    }
    out.push_str(",\"knots\":[");
    each(out, &p.knots, |out, k| {
        let _ = write!(out, "[{},{}]", k.step, number(k.value));
    });
    out.push_str("]}");
}

/// Of each column of a heat map its first step, the highest value, and the layer that has it.
fn tops(out: &mut String, heat: &Heat) {
    let all: Vec<(u64, usize, f64)> = heat
        .steps
        .iter()
        .zip(heat.tops())
        .filter_map(|(step, top)| top.map(|(layer, value)| (*step, layer, value)))
        .collect();
    out.push('[');
    each(out, &all, |out, (step, layer, value)| {
        let layer = heat.layers.get(*layer).map_or("", String::as_str);
        let _ = write!(out, "[{step},{},{}]", number(*value), text(layer));
    });
    out.push(']');
}

fn curve(out: &mut String, c: &Curve) {
    out.push_str("\"pieces\":[");
    each(out, &c.pieces, |out, piece| {
        let mut last = 0;
        out.push('[');
        each(out, piece, |out, p| {
            let _ = write!(out, "{},{}", p.step - last, number(p.value));
            last = p.step;
        });
        out.push(']');
    });
    out.push_str("],\"off\":[");
    each(out, &c.off, |out, o| {
        let _ = write!(
            out,
            "[{},{},{},\"{}\",{}]",
            o.step,
            o.last,
            o.rows,
            o.kind.name(),
            u8::from(o.kind.on_top())
        );
    });
    out.push(']');
}

fn band(out: &mut String, b: &Band) {
    out.push('[');
    each(out, &b.points, |out, p| {
        let _ = write!(
            out,
            "[{},{},{},{}]",
            p.step,
            number(p.middle),
            number(p.low),
            number(p.high)
        );
    });
    out.push(']');
}
