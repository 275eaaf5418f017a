//! Where everything stands: caption, key, panels, the axis of steps.

use plotters::prelude::DrawingBackend;

use crate::report::figure::{Figure, Panel};
use crate::report::plot::canvas::{Canvas, Drawn, Pen, SMALL, Side, TITLE, cut, width};
use crate::report::plot::key::{self, Entry};
use crate::report::plot::theme::Theme;
use crate::report::plot::{Look, PlotError};

/// Room for values left of the panels, and for nothing right of them.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 22.0;
/// The middle of the caption, and what it takes with the key behind it.
const CAPTION: f64 = 24.0;
const HEAD: f64 = 46.0;
/// What a line of the key, and the heading of a panel with the gap above it, take.
pub(super) const KEY_LINE: f64 = 20.0;
const HEADING: f64 = 30.0;
/// What stands below the panels: checkpoints, steps, the word step; and the line for signals that were not logged.
const FOOT: f64 = 52.0;
const ABSENT: f64 = 20.0;
/// The first panel is this many times as high as another one, and one alone.
const FIRST: f64 = 1.5;
const ALONE: f64 = 2.0;
/// Heights of a panel: of a few, of many, and the least that can be read.
const FEW: f64 = 150.0;
const MANY: f64 = 100.0;
const LEAST: f64 = 44.0;

/// The rectangle of a panel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// The place of a share of its width.
    pub(super) fn x(&self, share: f64) -> f64 {
        self.left + share.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// The place of a share of its height, from the bottom.
    pub(super) fn y(&self, share: f64) -> f64 {
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top)
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }

    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }
}

/// Where everything stands, in pixels.
pub(super) struct Layout {
    pub(super) caption: String,
    /// What stands in the key, with the place of each entry.
    pub(super) key: Vec<(f64, f64, Entry)>,
    pub(super) panels: Vec<Frame>,
    pub(super) height: f64,
    /// Signals that were not logged, in a line.
    absent: String,
}

/// Width of the panels of a picture.
pub(super) fn inner(width: f64) -> f64 {
    (width - LEFT - RIGHT).max(1.0)
}

impl Layout {
    pub(super) fn of(figure: &Figure, caption: &str, look: &Look) -> Result<Self, PlotError> {
        if figure.panels.is_empty() {
            return Err(PlotError::Nothing);
        }
        let right = LEFT + inner(f64::from(look.width));
        let (key, lines) = key::placed(key::entries(figure), (LEFT, right), HEAD);
        let top = HEAD + lines as f64 * KEY_LINE;
        let foot = FOOT
            + if figure.absent.is_empty() {
                0.0
            } else {
                ABSENT
            };
        let headings = HEADING * figure.panels.len() as f64;
        let weights = weights(&figure.panels);
        let all: f64 = weights.iter().sum();
        let unit = if figure.panels.len() > 3 { MANY } else { FEW };
        let wanted = look
            .height
            .map_or(top + headings + foot + unit * all, f64::from);
        let each = (wanted - top - headings - foot) / all;
        if each < LEAST {
            return Err(PlotError::NoRoom {
                panels: figure.panels.len(),
                height: look.height.unwrap_or(0),
                least: (top + headings + foot + LEAST * all).ceil() as u32,
            });
        }
        let mut at = top;
        let frame = |weight: &f64| {
            let top = at + HEADING;
            at = top + each * weight;
            Frame {
                left: LEFT,
                right,
                top,
                bottom: at,
            }
        };
        Ok(Self {
            caption: cut(caption, TITLE, right - LEFT),
            key,
            panels: weights.iter().map(frame).collect(),
            height: wanted.ceil(),
            absent: absent(figure, right - LEFT),
        })
    }

    /// From the top of the first panel to the bottom of the last one.
    pub(super) fn bottom(&self) -> f64 {
        self.panels.last().map_or(0.0, |f| f.bottom)
    }
}

fn weights(panels: &[Panel]) -> Vec<f64> {
    match panels.len() {
        1 => vec![ALONE],
        n => (0..n).map(|n| if n == 0 { FIRST } else { 1.0 }).collect(),
    }
}

fn absent(figure: &Figure, room: f64) -> String {
    if figure.absent.is_empty() {
        return String::new();
    }
    let text = format!("not logged in these steps: {}", figure.absent.join(", "));
    cut(&text, SMALL, room)
}

/// Caption, steps below the last panel, and what was not logged.
pub(super) fn around<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    layout: &Layout,
    theme: &Theme,
) -> Drawn {
    let Some(frame) = layout.panels.last() else {
        return Ok(());
    };
    canvas.text(
        &layout.caption,
        (LEFT, CAPTION),
        TITLE,
        Side::Left,
        theme.ink,
    )?;
    let bottom = layout.bottom();
    let mut free = f64::NEG_INFINITY;
    for tick in figure.ticks((frame.width() / 110.0).max(2.0) as usize) {
        let x = frame.x(figure.place(tick.value as u64));
        let half = width(&tick.label, SMALL) / 2.0;
        canvas.line((x, bottom), (x, bottom + 4.0), &Pen::solid(theme.ink, 1.0))?;
        if x - half > free {
            canvas.text(
                &tick.label,
                (x, bottom + 20.0),
                SMALL,
                Side::Center,
                theme.ink,
            )?;
            free = x + half + 8.0;
        }
    }
    let middle = f64::midpoint(frame.left, frame.right);
    canvas.text(
        "step",
        (middle, bottom + 38.0),
        SMALL,
        Side::Center,
        theme.ink,
    )?;
    if layout.absent.is_empty() {
        return Ok(());
    }
    canvas.text(
        &layout.absent,
        (LEFT, bottom + 58.0),
        SMALL,
        Side::Left,
        theme.faint,
    )
}
