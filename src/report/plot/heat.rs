//! Layers against steps, as colours.

use plotters::prelude::DrawingBackend;

use crate::report::figure::{Cell, Figure, Heat, number};
use crate::report::plot::canvas::{Canvas, Drawn, SMALL, Side, width};
use crate::report::plot::layout::Frame;
use crate::report::plot::theme::{Theme, heat};

/// Pixels between two names of layers.
const APART: f64 = 15.0;
/// The scale of colours: its width and the number of its colours.
const SCALE: f64 = 90.0;
const COLOURS: usize = 30;
/// Neighbouring surfaces overlap by this.
const SEAM: f64 = 0.75;

/// Draws a heat map, the lowest layer at the bottom, and its scale of colours above it.
pub(super) fn draw<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    map: &Heat,
    frame: &Frame,
    theme: &Theme,
) -> Drawn {
    let high = frame.height() / map.cells.len().max(1) as f64;
    let every = (APART / high).ceil().max(1.0) as usize;
    for (n, row) in map.cells.iter().enumerate() {
        let bottom = frame.bottom - n as f64 * high;
        for (column, cell) in row.iter().enumerate() {
            let colour = match cell {
                Cell::Empty => continue,
                Cell::NotFinite => theme.broken,
                Cell::Value(v) => heat(map.strength(*v)),
            };
            let (from, to) = ends(figure, map, column, frame);
            let top = (bottom - high - SEAM).max(frame.top);
            canvas.surface((from, top), (to, bottom), colour, 1.0)?;
        }
        if n.is_multiple_of(every) {
            let name = map.layers.get(n).map_or("", String::as_str);
            let at = (frame.left - 8.0, bottom - high / 2.0);
            canvas.text(name, at, SMALL, Side::Right, theme.ink)?;
        }
    }
    scale(canvas, map, frame, theme)
}

/// A column in pixels: it ends behind where the next one begins, which is drawn over it, so that no seam shows.
fn ends(figure: &Figure, map: &Heat, column: usize, frame: &Frame) -> (f64, f64) {
    let at = |n: usize| map.steps.get(n).map(|s| frame.x(figure.place(*s)));
    let from = at(column).unwrap_or(frame.left);
    let to = at(column + 1).map_or(frame.right, |x| x + SEAM);
    (from, to.min(frame.right))
}

fn scale<B: DrawingBackend>(canvas: &Canvas<B>, map: &Heat, frame: &Frame, theme: &Theme) -> Drawn {
    let y = frame.top - 10.0;
    let high = number(map.high);
    let right = frame.right - width(&high, SMALL) - 6.0;
    let left = right - SCALE;
    canvas.text(&high, (frame.right, y), SMALL, Side::Right, theme.ink)?;
    canvas.text(
        &number(map.low),
        (left - 6.0, y),
        SMALL,
        Side::Right,
        theme.ink,
    )?;
    for n in 0..COLOURS {
        let at = |n: usize| left + SCALE * n as f64 / COLOURS as f64;
        let colour = heat(n as f64 / (COLOURS - 1) as f64);
        let to = at(n + 1) + if n + 1 < COLOURS { SEAM } else { 0.0 };
        canvas.surface((at(n), y - 5.0), (to, y + 5.0), colour, 1.0)?;
    }
    Ok(())
}
