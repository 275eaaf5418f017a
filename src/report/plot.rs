//! Figures as pictures, SVG or PNG, for slides and issues: plotters draws what `figure` decided to show.

mod canvas;
mod heat;
mod key;
mod layout;
mod marks;
mod panel;
mod pixels;
mod theme;

use plotters::prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea, SVGBackend};

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::report::figure::Figure;
use crate::report::words;

use canvas::{Canvas, FAMILY, Strokes};
use layout::Layout;
use theme::Theme;

/// How a picture is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels; `None` for what the panels ask for.
    pub height: Option<u32>,
    /// Light on dark instead of dark on light.
    pub dark: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            width: 1200,
            height: None,
            dark: false,
        }
    }
}

/// A picture could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The panels do not fit.
    #[error(
        "{panels} panels have no room in {height} pixels: name fewer with --signals, or give --height {least} or more"
    )]
    NoRoom {
        /// How many panels there are.
        panels: usize,
        /// The height that was asked for.
        height: u32,
        /// The height that would do.
        least: u32,
    },
    /// There is no panel.
    #[error("nothing to draw: none of these signals was logged in these steps")]
    Nothing,
    /// The backend could not draw.
    #[error("the picture could not be drawn: {0}")]
    Backend(String),
}

/// Columns of curves in a picture of this width: a figure of as many shows every spike.
pub fn columns(look: &Look) -> usize {
    layout::inner(f64::from(look.width)) as usize
}

/// What a picture of the whole run is called.
pub fn caption(d: &Diagnosis) -> String {
    format!("{}: {}", name(d), words::found(d))
}

/// The last part of the path of the log.
fn name(d: &Diagnosis) -> &str {
    let source = d.run.meta.sources.first().map_or("-", String::as_str);
    let parts = source.rsplit(['/', '\\']);
    parts.into_iter().find(|p| !p.is_empty()).unwrap_or(source)
}

/// What a picture of an incident is called.
pub fn caption_of_incident(d: &Diagnosis, x: &Diagnosed) -> String {
    let i = &x.incident;
    let cause = words::cause(&x.verdict);
    format!(
        "{}: incident {}, {}, {}; {cause}",
        name(d),
        x.id,
        i.kind.name(),
        i.shape.name()
    )
}

/// A figure as SVG. Its letters are text in a family of sans-serif fonts.
///
/// # Errors
/// Where there is nothing to draw, or too little room for it.
pub fn svg(figure: &Figure, caption: &str, look: &Look) -> Result<String, PlotError> {
    /// Places are whole numbers to the backend: so many of them make a pixel.
    const FINE: u32 = 8;
    let layout = Layout::of(figure, caption, look)?;
    let (width, height) = (look.width, layout.height as u32);
    let mut out = String::new();
    let size = (FINE * width, FINE * height);
    {
        let area = SVGBackend::with_string(&mut out, size).into_drawing_area();
        let canvas = Canvas::new(&area, FINE, Strokes::Own);
        paint(&canvas, figure, &layout, look)?;
    }
    let wide = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    Ok(out.replacen(&wide, &format!("width=\"{width}\" height=\"{height}\""), 1))
}

/// A figure as a PNG file. Its letters are drawn with a font of the program's own: it looks the same everywhere.
///
/// # Errors
/// Where there is nothing to draw, or too little room for it.
pub fn png(figure: &Figure, caption: &str, look: &Look) -> Result<Vec<u8>, PlotError> {
    let layout = Layout::of(figure, caption, look)?;
    let (width, height) = (look.width, layout.height as u32);
    let finer = pixels::finer(width, height);
    let size = (finer * width, finer * height);
    let mut pixels = vec![0; 3 * size.0 as usize * size.1 as usize];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        let canvas = Canvas::new(&area, finer, Strokes::Surfaces);
        paint(&canvas, figure, &layout, look)?;
    }
    let pixels = pixels::smaller(&pixels, width as usize, finer as usize);
    pixels::encoded(&pixels, (width, height)).map_err(|e| PlotError::Backend(e.to_string()))
}

/// Draws a figure on a backend.
fn paint<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    layout: &Layout,
    look: &Look,
) -> Result<(), PlotError> {
    let theme = Theme::of(look.dark);
    let drawn = (|| {
        canvas.background(theme.paper)?;
        key::draw(canvas, layout, &theme)?;
        marks::below(canvas, figure, layout, &theme)?;
        for (panel, place) in figure.panels.iter().zip(&layout.panels) {
            panel::draw(canvas, figure, panel, place, &theme)?;
        }
        marks::above(canvas, figure, layout, &theme)?;
        layout::around(canvas, figure, layout, &theme)?;
        canvas.finish()
    })();
    drawn.map_err(PlotError::Backend)
}

/// Makes the font known to plotters, which measures letters with it, in pictures of both kinds.
fn with_font() {
    use std::sync::Once;
    static FONT: &[u8] = include_bytes!("plot/dejavu-sans.ttf");
    static KNOWN: Once = Once::new();
    KNOWN.call_once(|| {
        // A font that could not be read shows when the first letter is drawn.
        let _ = plotters::style::register_font(FAMILY, plotters::style::FontStyle::Normal, FONT);
    });
}
