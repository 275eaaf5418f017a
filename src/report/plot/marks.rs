//! Stretches and steps that are drawn over all panels.

use plotters::prelude::DrawingBackend;

use crate::report::figure::{Figure, Mark, MarkKind};
use crate::report::plot::canvas::{Canvas, Drawn, Pen, SMALL, Side, width};
use crate::report::plot::layout::{Frame, Layout};
use crate::report::plot::theme::Theme;

/// Marks in the order of the key.
pub(super) const KINDS: [MarkKind; 9] = [
    MarkKind::Onset,
    MarkKind::Peak,
    MarkKind::Return,
    MarkKind::GradReturn,
    MarkKind::Incident,
    MarkKind::Skip,
    MarkKind::Chosen,
    MarkKind::Attempt,
    MarkKind::Checkpoint,
];

/// Incidents closer than this have their numbers together, so far from where the first begins.
const APART: f64 = 12.0;
const BESIDE: f64 = 3.0;

/// How strong a stretch is drawn; `None` for what is a step.
fn stretch(kind: MarkKind) -> Option<f64> {
    match kind {
        MarkKind::Incident => Some(0.22),
        MarkKind::Skip => Some(0.25),
        _ => None,
    }
}

/// How the line of a step is drawn; `None` for what is no line.
fn pen(kind: MarkKind, theme: &Theme) -> Option<Pen> {
    let colour = theme.mark(kind);
    match kind {
        MarkKind::Onset => Some(Pen::solid(colour, 1.5)),
        MarkKind::Chosen => Some(Pen::solid(colour, 2.5)),
        MarkKind::Peak => Some(Pen::dashed(colour, 1.5, (2.0, 3.0))),
        MarkKind::Return => Some(Pen::dashed(colour, 1.5, (7.0, 3.0))),
        MarkKind::GradReturn => Some(Pen::dashed(colour, 1.2, (3.0, 6.0))),
        MarkKind::Attempt => Some(Pen::dashed(colour, 1.0, (1.0, 3.0))),
        MarkKind::Incident | MarkKind::Skip | MarkKind::Checkpoint => None,
    }
}

/// The sign of a kind in the key.
pub(super) fn sign<B: DrawingBackend>(
    canvas: &Canvas<B>,
    kind: MarkKind,
    (from, to): (f64, f64),
    y: f64,
    theme: &Theme,
) -> Drawn {
    let middle = f64::midpoint(from, to);
    if let Some(alpha) = stretch(kind) {
        return canvas.surface(
            (from, y - 6.0),
            (to, y + 6.0),
            theme.mark(kind),
            alpha + 0.1,
        );
    }
    match pen(kind, theme) {
        Some(pen) => canvas.line((middle, y - 8.0), (middle, y + 8.0), &pen),
        None => triangle(canvas, (middle, y - 4.0), theme),
    }
}

/// Stretches, which curves are drawn over.
pub(super) fn below<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    layout: &Layout,
    theme: &Theme,
) -> Drawn {
    for kind in KINDS {
        let Some(alpha) = stretch(kind) else {
            continue;
        };
        for frame in &layout.panels {
            for (from, to) in joined(figure, kind, frame) {
                let colour = theme.mark(kind);
                canvas.surface((from, frame.top), (to, frame.bottom), colour, alpha)?;
            }
        }
    }
    Ok(())
}

/// The stretches of a kind, those that touch as one: two over one another would look like something worse.
fn joined(figure: &Figure, kind: MarkKind, frame: &Frame) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    for mark in figure.marks.iter().filter(|m| m.kind == kind) {
        let (from, to) = ends(figure, mark, frame);
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

/// A stretch in pixels, wide enough to be seen.
fn ends(figure: &Figure, mark: &Mark, frame: &Frame) -> (f64, f64) {
    let (from, to) = (
        frame.x(figure.place(mark.from)),
        frame.x(figure.place(mark.to)),
    );
    let lacking = (2.0 - (to - from)).max(0.0) / 2.0;
    (
        (from - lacking).max(frame.left),
        (to + lacking).min(frame.right),
    )
}

/// Steps, which are drawn over curves.
pub(super) fn above<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    layout: &Layout,
    theme: &Theme,
) -> Drawn {
    for mark in figure.marks.iter().rev() {
        let Some(pen) = pen(mark.kind, theme) else {
            continue;
        };
        // A mark of a stretch that begins before the picture is none.
        if !(figure.from..=figure.to).contains(&mark.from) {
            continue;
        }
        for frame in &layout.panels {
            let x = frame.x(figure.place(mark.from));
            canvas.line((x, frame.top), (x, frame.bottom), &pen)?;
        }
    }
    checkpoints(canvas, figure, layout, theme)?;
    numbers(canvas, figure, layout, theme)
}

fn checkpoints<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    layout: &Layout,
    theme: &Theme,
) -> Drawn {
    let Some(frame) = layout.panels.last() else {
        return Ok(());
    };
    let all = figure
        .marks
        .iter()
        .filter(|m| m.kind == MarkKind::Checkpoint);
    for mark in all {
        let x = frame.x(figure.place(mark.from.max(figure.from)));
        triangle(canvas, (x, frame.bottom + 2.0), theme)?;
    }
    Ok(())
}

/// A triangle with its tip here.
fn triangle<B: DrawingBackend>(canvas: &Canvas<B>, (x, y): (f64, f64), theme: &Theme) -> Drawn {
    let corners = [(x, y), (x - 4.0, y + 8.0), (x + 4.0, y + 8.0)];
    canvas.polygon(&corners, theme.mark(MarkKind::Checkpoint), 1.0)
}

/// Numbers of incidents where they begin, at the top of the first panel; neighbours stand together.
fn numbers<B: DrawingBackend>(
    canvas: &Canvas<B>,
    figure: &Figure,
    layout: &Layout,
    theme: &Theme,
) -> Drawn {
    let Some(frame) = layout.panels.first() else {
        return Ok(());
    };
    let mut groups: Vec<(f64, f64, Vec<usize>)> = Vec::new();
    for mark in &figure.marks {
        let (MarkKind::Incident, Some(id)) = (mark.kind, mark.incident) else {
            continue;
        };
        let (x, _) = ends(figure, mark, frame);
        match groups.last_mut() {
            Some((_, last, ids)) if x < *last + APART => {
                *last = x;
                ids.push(id);
            }
            _ => groups.push((x, x, vec![id])),
        }
    }
    let mut free = f64::NEG_INFINITY;
    for (first, _, mut ids) in groups {
        ids.sort_unstable();
        let text = match ids.as_slice() {
            [a, .., b] if ids.len() > 3 => format!("{a}…{b}"),
            few => few
                .iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        };
        // Beside the edge of the stretch, which a line of an attempt may share.
        let wide = width(&text, SMALL);
        let x = (first + BESIDE).min(frame.right - wide);
        if x > free {
            canvas.text(&text, (x, frame.top + 9.0), SMALL, Side::Left, theme.ink)?;
            free = x + wide + BESIDE;
        }
    }
    Ok(())
}
