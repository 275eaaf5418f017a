//! One panel: its heading, its axis of values, the level, the curves.

use plotters::prelude::DrawingBackend;
use plotters::style::RGBColor;

use crate::report::figure::{Band, Figure, Panel, Point, Role, Scale, Series};
use crate::report::plot::canvas::{Canvas, Drawn, HEADING, Pen, Place, SMALL, Side, cut};
use crate::report::plot::heat;
use crate::report::plot::layout::Frame;
use crate::report::plot::theme::Theme;

/// Pixels between two values of an axis.
const APART: f64 = 34.0;

/// Radius of the dot on a corner of a schedule.
pub(super) const KNOT: f64 = 4.0;

/// Draws a panel.
pub(super) fn draw<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    panel: &Panel,
    frame: &Frame,
    theme: &Theme,
) -> Drawn {
    let heading = cut(&heading(panel), HEADING, frame.width() - 200.0);
    let at = (frame.left, frame.top - 10.0);
    canvas.text(&heading, at, HEADING, Side::Left, theme.ink)?;
    if let Some(map) = &panel.heat {
        heat::draw(canvas, figure, map, frame, theme)?;
    } else {
        values(canvas, panel, frame, theme)?;
        if let Some(band) = &panel.band {
            level(canvas, figure, panel, band, frame, theme)?;
        }
        // The line that the figure is about lies on top.
        let (over, under): (Vec<&Series>, Vec<&Series>) =
            panel.series.iter().partition(|s| s.role == Role::Value);
        for s in under.into_iter().chain(over) {
            curve(canvas, figure, panel, s, frame, theme)?;
        }
        let broken = panel.series.iter().filter(|s| !s.curve.off.is_empty());
        for (row, s) in broken.enumerate() {
            let colour = match panel.series.len() {
                1 => theme.broken,
                _ => theme.series(s.role, s.attempt),
            };
            crosses(canvas, figure, s, (row, colour), frame)?;
        }
        knots(canvas, figure, panel, frame, theme)?;
    }
    let pen = Pen::solid(theme.ink, 1.0);
    let corner = (frame.left, frame.bottom);
    canvas.path(
        &[(frame.left, frame.top), corner, (frame.right, frame.bottom)],
        &pen,
    )
}

/// `Loss (nats per token), log scale`.
fn heading(panel: &Panel) -> String {
    let unit = if panel.unit.is_empty() {
        String::new()
    } else {
        format!(" ({})", panel.unit)
    };
    let scale = if panel.scale == Scale::Log && panel.heat.is_none() {
        ", log scale"
    } else {
        ""
    };
    format!("{}{unit}{scale}", panel.title)
}

/// Round values with a line each.
fn values<B: DrawingBackend>(
    canvas: &Canvas<B>,
    panel: &Panel,
    frame: &Frame,
    theme: &Theme,
) -> Drawn {
    let count = (frame.height() / APART).max(3.0) as usize;
    let pen = Pen::solid(theme.grid, 1.0);
    // From the bottom up: a value that would touch the one below it has no line either.
    let mut free = f64::INFINITY;
    for tick in panel.ticks(count) {
        let Some(share) = panel.height(tick.value) else {
            continue;
        };
        let y = frame.y(share);
        if y > free {
            continue;
        }
        free = y - SMALL - 1.0;
        canvas.line((frame.left, y), (frame.right, y), &pen)?;
        canvas.text(
            &tick.label,
            (frame.left - 8.0, y),
            SMALL,
            Side::Right,
            theme.ink,
        )?;
    }
    Ok(())
}

/// The level before an incident, and what it allows.
fn level<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    panel: &Panel,
    band: &Band,
    frame: &Frame,
    theme: &Theme,
) -> Drawn {
    let place = |step: u64, value: f64| {
        // Below every value that has a height.
        let share = panel.height(value).unwrap_or(0.0);
        (frame.x(figure.place(step)), frame.y(share))
    };
    let over = band.points.iter().map(|p| place(p.step, p.high));
    let under = band.points.iter().rev().map(|p| place(p.step, p.low));
    let around: Vec<Place> = over.chain(under).collect();
    canvas.polygon(&around, theme.level, 0.3)?;
    let middle = band.points.iter().map(|p| place(p.step, p.middle));
    let middle: Vec<Place> = middle.collect();
    canvas.path(&middle, &Pen::solid(theme.level, 1.0))
}

fn curve<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    panel: &Panel,
    series: &Series,
    frame: &Frame,
    theme: &Theme,
) -> Drawn {
    let colour = theme.series(series.role, series.attempt);
    let width = if series.role == Role::Value { 1.6 } else { 1.1 };
    let place = |p: &Point| {
        let share = panel.height(p.value)?;
        Some((frame.x(figure.place(p.step)), frame.y(share)))
    };
    for piece in &series.curve.pieces {
        let places: Vec<Place> = piece.iter().filter_map(place).collect();
        match places.as_slice() {
            [only] => canvas.dot(*only, 1.8, colour)?,
            all if panel.stepped => canvas.path(&stairs(all), &Pen::solid(colour, width))?,
            all => canvas.path(all, &Pen::solid(colour, width))?,
        }
    }
    Ok(())
}

/// The corners of a schedule.
fn knots<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    panel: &Panel,
    frame: &Frame,
    theme: &Theme,
) -> Drawn {
    for knot in &panel.knots {
        if let Some(share) = panel.height(knot.value) {
            let at = (frame.x(figure.place(knot.step)), frame.y(share));
            canvas.dot(at, KNOT, theme.line)?;
        }
    }
    Ok(())
}

/// What has no height, at the top or at the bottom edge; where it goes on, so many that they can be told apart. Each
/// curve has a row, in its colour: they go on over the same steps.
fn crosses<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    series: &Series,
    (row, colour): (usize, RGBColor),
    frame: &Frame,
) -> Drawn {
    const EACH: f64 = 9.0;
    const ROWS: usize = 4;
    let inset = 5.0 + EACH * row.min(ROWS - 1) as f64;
    for top in [true, false] {
        let y = if top {
            frame.top + inset
        } else {
            frame.bottom - inset
        };
        let mut free = f64::NEG_INFINITY;
        let here = series.curve.off.iter().filter(|o| o.kind.on_top() == top);
        for off in here {
            let x = frame.x(figure.place(off.step));
            if x >= free {
                canvas.cross((x, y), 3.5, colour)?;
                free = x + EACH;
            }
        }
    }
    Ok(())
}

/// Each value holds until the next one.
fn stairs(places: &[Place]) -> Vec<Place> {
    let mut out = Vec::with_capacity(2 * places.len());
    for (n, place) in places.iter().enumerate() {
        if n > 0 {
            out.push((place.0, places[n - 1].1));
        }
        out.push(*place);
    }
    out
}
