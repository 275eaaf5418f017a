//! What is drawn with: lines, surfaces and letters in pixels, on whichever backend.

use plotters::coord::Shift;
use plotters::prelude::{
    Circle, DrawingArea, DrawingBackend, PathElement, Polygon, Rectangle, Text,
};
use plotters::style::text_anchor::{Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle};

/// The family of the letters: that of the program's own font first, then what machines have.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";
/// Sizes of letters in pixels.
pub(super) const TITLE: f64 = 17.0;
pub(super) const HEADING: f64 = 14.0;
pub(super) const SMALL: f64 = 12.5;

/// What drawing may end with: what the backend said.
pub(super) type Drawn = Result<(), String>;
/// A place in pixels.
pub(super) type Place = (f64, f64);

/// Where letters stand: left of, over, or right of their place.
pub(super) use plotters::style::text_anchor::HPos as Side;

/// A drawing area with pixels of any fineness.
pub(super) struct Canvas<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    scale: f64,
    strokes: Strokes,
}

/// How the backend draws wide lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strokes {
    /// By itself.
    Own,
    /// As a surface a segment, for its own are thin where they are steep.
    Surfaces,
}

/// How a line looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pen {
    pub(super) colour: RGBColor,
    pub(super) width: f64,
    /// Lengths of dash and gap; `None` for a line without gaps.
    pub(super) dash: Option<(f64, f64)>,
}

impl Pen {
    pub(super) fn solid(colour: RGBColor, width: f64) -> Self {
        Self {
            colour,
            width,
            dash: None,
        }
    }

    pub(super) fn dashed(colour: RGBColor, width: f64, dash: (f64, f64)) -> Self {
        Self {
            colour,
            width,
            dash: Some(dash),
        }
    }
}

impl<'a, B: DrawingBackend> Canvas<'a, B> {
    pub(super) fn new(area: &'a DrawingArea<B, Shift>, scale: u32, strokes: Strokes) -> Self {
        super::with_font();
        Self {
            area,
            scale: f64::from(scale),
            strokes,
        }
    }

    fn at(&self, place: Place) -> (i32, i32) {
        let whole = |v: f64| (v * self.scale).round() as i32;
        (whole(place.0), whole(place.1))
    }

    fn stroke(&self, pen: &Pen) -> ShapeStyle {
        let width = (pen.width * self.scale).round().max(1.0) as u32;
        ShapeStyle::from(&pen.colour).stroke_width(width)
    }

    pub(super) fn background(&self, colour: RGBColor) -> Drawn {
        self.area.fill(&colour).map_err(|e| e.to_string())
    }

    pub(super) fn finish(&self) -> Drawn {
        self.area.present().map_err(|e| e.to_string())
    }

    /// A line through some places, without dashes.
    pub(super) fn path(&self, places: &[Place], pen: &Pen) -> Drawn {
        let mut all: Vec<(i32, i32)> = places.iter().map(|p| self.at(*p)).collect();
        all.dedup();
        if all.len() < 2 {
            return places
                .first()
                .map_or(Ok(()), |p| self.dot(*p, pen.width, pen.colour));
        }
        if self.strokes == Strokes::Surfaces && pen.width * self.scale >= 2.0 {
            return self.surfaces(places, pen);
        }
        let path = PathElement::new(all, self.stroke(pen));
        self.area.draw(&path).map_err(|e| e.to_string())
    }

    /// A line as a surface a segment, with a dot where two meet.
    fn surfaces(&self, places: &[Place], pen: &Pen) -> Drawn {
        let half = pen.width / 2.0;
        for (n, ends) in places.windows(2).enumerate() {
            let [(ax, ay), (bx, by)] = [ends[0], ends[1]];
            let (dx, dy) = (bx - ax, by - ay);
            let length = dx.hypot(dy);
            if length <= 0.0 {
                continue;
            }
            let (x, y) = (-half * dy / length, half * dx / length);
            let corners = [
                (ax + x, ay + y),
                (bx + x, by + y),
                (bx - x, by - y),
                (ax - x, ay - y),
            ];
            self.polygon(&corners, pen.colour, 1.0)?;
            if n > 0 {
                self.dot(ends[0], half, pen.colour)?;
            }
        }
        Ok(())
    }

    /// A straight line.
    pub(super) fn line(&self, from: Place, to: Place, pen: &Pen) -> Drawn {
        let Some((dash, gap)) = pen.dash else {
            return self.path(&[from, to], pen);
        };
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let along = |l: f64| {
            let share = (l / length).min(1.0);
            (from.0 + share * dx, from.1 + share * dy)
        };
        let dashes = (length / (dash + gap)).ceil().min(1e5) as usize;
        for n in 0..dashes {
            let begin = n as f64 * (dash + gap);
            self.path(&[along(begin), along(begin + dash)], pen)?;
        }
        Ok(())
    }

    /// A rectangle from corner to corner, at least half a pixel wide.
    pub(super) fn surface(&self, from: Place, to: Place, colour: RGBColor, alpha: f64) -> Drawn {
        let to = (to.0.max(from.0 + 0.5), to.1.max(from.1 + 0.5));
        let corners = [self.at(from), self.at(to)];
        let style = colour.mix(alpha).filled();
        let surface = Rectangle::new(corners, style);
        self.area.draw(&surface).map_err(|e| e.to_string())
    }

    /// A surface between some places.
    pub(super) fn polygon(&self, places: &[Place], colour: RGBColor, alpha: f64) -> Drawn {
        let all: Vec<(i32, i32)> = places.iter().map(|p| self.at(*p)).collect();
        let polygon = Polygon::new(all, colour.mix(alpha));
        self.area.draw(&polygon).map_err(|e| e.to_string())
    }

    pub(super) fn dot(&self, at: Place, radius: f64, colour: RGBColor) -> Drawn {
        let radius = (radius * self.scale).round().max(1.0) as i32;
        let dot = Circle::new(self.at(at), radius, colour.filled());
        self.area.draw(&dot).map_err(|e| e.to_string())
    }

    /// A cross.
    pub(super) fn cross(&self, (x, y): Place, size: f64, colour: RGBColor) -> Drawn {
        let pen = Pen::solid(colour, 1.6);
        self.path(&[(x - size, y - size), (x + size, y + size)], &pen)?;
        self.path(&[(x - size, y + size), (x + size, y - size)], &pen)
    }

    /// Letters, their middle at the height of their place.
    pub(super) fn text(
        &self,
        text: &str,
        at: Place,
        size: f64,
        side: Side,
        colour: RGBColor,
    ) -> Drawn {
        let style = style(size * self.scale)
            .color(&colour)
            .pos(Pos::new(side, VPos::Center));
        let text = Text::new(printable(text), self.at(at), style);
        self.area.draw(&text).map_err(|e| e.to_string())
    }
}

/// The height of a line of the font over that of its letters, which is what sizes are here. An SVG gets a size 6 % smaller,
/// for plotters divides by 1.24 there: other fonts of the family are wider.
const LINE: f64 = 1.164;

fn style(size: f64) -> TextStyle<'static> {
    (FAMILY, size * LINE).into_font().into()
}

/// Width of letters in pixels.
pub(super) fn width(text: &str, size: f64) -> f64 {
    /// Measured finer than a pixel.
    const FINE: f64 = 16.0;
    super::with_font();
    let box_of = style(size * FINE).font.box_size(&printable(text));
    box_of.map_or(0.6 * size * text.chars().count() as f64, |(w, _)| {
        f64::from(w) / FINE
    })
}

/// Text cut to a width, with an ellipsis where it was cut.
pub(super) fn cut(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut out = text.to_owned();
    while out.pop().is_some() {
        let shown = format!("{}…", out.trim_end());
        if width(&shown, size) <= room {
            return shown;
        }
    }
    String::new()
}

/// Letters that XML and fonts have a place for.
fn printable(text: &str) -> String {
    let fits = |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().filter(fits).collect()
}
