//! Heat maps as static pictures: cells of a colour are one path, runs of equal cells one line of it.

use std::fmt::Write;

use crate::report::figure::{Cell, Figure, Heat, number};
use crate::report::html::escape::esc;
use crate::report::html::plot::{HIGH, WIDE, coordinate, percent};

/// Colours from weak to strong.
const COLOURS: usize = 8;
/// Names of layers beside a map.
const NAMES: usize = 5;

/// The colour of a cell: none, one of the scale, or that of what is no number.
fn colour(heat: &Heat, cell: Cell) -> Option<usize> {
    match cell {
        Cell::Empty => None,
        Cell::NotFinite => Some(COLOURS),
        Cell::Value(v) => Some(((heat.strength(v) * COLOURS as f64) as usize).min(COLOURS - 1)),
    }
}

/// The cells, the lowest layer at the bottom.
pub(super) fn cells(out: &mut String, f: &Figure, heat: &Heat) {
    let rows = heat.cells.len().max(1) as f64;
    let high = HIGH / rows;
    let edge = |n: usize| {
        let step = heat.steps.get(n).copied().unwrap_or(f.to);
        f.place(step).min(1.0) * WIDE
    };
    let mut paths = vec![String::new(); COLOURS + 1];
    for (n, row) in heat.cells.iter().enumerate() {
        let y = coordinate(HIGH - (n as f64 + 0.5) * high);
        let mut at = 0;
        while at < row.len() {
            let mine = colour(heat, row[at]);
            let same = row[at..].iter().take_while(|c| colour(heat, **c) == mine);
            let end = at + same.count();
            if let Some(c) = mine {
                let _ = write!(
                    paths[c],
                    "M{} {y}H{}",
                    coordinate(edge(at)),
                    coordinate(edge(end))
                );
            }
            at = end;
        }
    }
    // A little more than a row, so that no seams show.
    let width = coordinate(high + 0.4);
    let _ = write!(out, "<g class=\"stretch\" stroke-width=\"{width}\">");
    for (n, d) in paths.iter().enumerate().filter(|(_, d)| !d.is_empty()) {
        let _ = write!(out, "<path class=\"cell {}\" d=\"{d}\"/>", name(n));
    }
    out.push_str("</g>");
}

fn name(colour: usize) -> String {
    if colour == COLOURS {
        "bad".to_owned()
    } else {
        format!("c{colour}")
    }
}

/// The names of some layers at the left edge.
pub(super) fn layers(out: &mut String, heat: &Heat) {
    let rows = heat.layers.len();
    let every = rows.div_ceil(NAMES).max(1);
    for (n, layer) in heat.layers.iter().enumerate().step_by(every) {
        let top = 1.0 - (n as f64 + 0.5) / rows as f64;
        let _ = write!(
            out,
            "<span style=\"top:{}%\">{}</span>",
            percent(top),
            esc(layer)
        );
    }
}

/// What the colours mean.
pub(super) fn key(out: &mut String, heat: &Heat) {
    let _ = write!(out, "<p class=\"key\">{} ", number(heat.low));
    for n in 0..COLOURS {
        let _ = write!(out, "<span class=\"cell {}\"></span>", name(n));
    }
    let _ = write!(out, " {}", number(heat.high));
    let bad = heat.cells.iter().flatten().any(|c| *c == Cell::NotFinite);
    if bad {
        out.push_str(", <span class=\"cell bad\"></span> no finite value");
    }
    out.push_str("</p>");
}
