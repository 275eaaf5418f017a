//! What the colours stand for.

use plotters::prelude::DrawingBackend;

use crate::report::figure::{BAND_SD, Figure, Mark, MarkKind, OffKind, Role, Series};
use crate::report::plot::canvas::{Canvas, Drawn, Pen, SMALL, Side, cut, width};
use crate::report::plot::layout::{KEY_LINE, Layout};
use crate::report::plot::marks;
use crate::report::plot::panel::KNOT;
use crate::report::plot::theme::Theme;

/// Width of a sign, and of the gap behind an entry.
const SIGN: f64 = 26.0;
const GAP: f64 = 20.0;
/// Incidents and attempts that the key tells of one by one.
const MOST: usize = 6;

/// A sign and what it stands for.
pub(super) struct Entry {
    sign: Sign,
    text: String,
}

/// How something is drawn.
enum Sign {
    Curve(Role, Option<u32>),
    Level,
    Mark(MarkKind),
    Cross,
    Knot,
    Nothing,
}

/// Everything that the panels and marks of a figure show, each once.
pub(super) fn entries(figure: &Figure) -> Vec<Entry> {
    let mut out = Vec::new();
    curves(figure, &mut out);
    if figure.panels.iter().any(|p| p.band.is_some()) {
        let text = format!("level before it, ± {BAND_SD:.0} sd");
        out.push(Entry {
            sign: Sign::Level,
            text,
        });
    }
    for kind in marks::KINDS {
        let mut of_kind: Vec<&Mark> = figure.marks.iter().filter(|m| m.kind == kind).collect();
        of_kind.sort_by_key(|m| m.incident);
        let each = !matches!(kind, MarkKind::Attempt | MarkKind::Checkpoint);
        let texts = match of_kind.len() {
            0 => Vec::new(),
            n if each && n > MOST => vec![format!("{n} {}s", kind.name())],
            _ if each => of_kind.iter().map(|m| m.label.clone()).collect(),
            _ => vec![kind.name().to_owned()],
        };
        let entry = |text| Entry {
            sign: Sign::Mark(kind),
            text,
        };
        out.extend(texts.into_iter().map(entry));
    }
    if figure.panels.iter().any(|p| !p.knots.is_empty()) {
        out.push(Entry {
            sign: Sign::Knot,
            text: "schedule bends or jumps".to_owned(),
        });
    }
    off(figure, &mut out);
    out
}

/// The curves, where there are several in a panel.
fn curves(figure: &Figure, out: &mut Vec<Entry>) {
    let mut all: Vec<&Series> = Vec::new();
    for s in figure.panels.iter().flat_map(|p| &p.series) {
        if !all
            .iter()
            .any(|k| (k.role, k.attempt) == (s.role, s.attempt))
        {
            all.push(s);
        }
    }
    all.sort_by_key(|s| (s.role != Role::Value, s.attempt));
    if all.iter().all(|s| s.role == Role::Value) {
        return;
    }
    // Around an incident the line is that of its attempt, whether it was kept or not.
    let line = if all.iter().any(|s| s.role == Role::Later) {
        "attempt of the incident"
    } else {
        "the run"
    };
    for s in all.iter().take(MOST + 1) {
        let text = match s.role {
            Role::Value => line.to_owned(),
            Role::Superseded => format!("{}, superseded", s.name),
            Role::Later => format!("{}, later", s.name),
        };
        out.push(Entry {
            sign: Sign::Curve(s.role, s.attempt),
            text,
        });
    }
    let more = all.len().saturating_sub(MOST + 1) + figure.more_branches;
    if more > 0 {
        out.push(Entry {
            sign: Sign::Nothing,
            text: format!("and {more} more attempts"),
        });
    }
}

/// What has no height.
fn off(figure: &Figure, out: &mut Vec<Entry>) {
    let curves = figure.panels.iter().flat_map(|p| &p.series);
    let mut kinds: Vec<OffKind> = curves.flat_map(|s| &s.curve.off).map(|o| o.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if !kinds.is_empty() {
        let names: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
        out.push(Entry {
            sign: Sign::Cross,
            text: names.join(", "),
        });
    }
}

/// Entries in lines between two places, from a height on; and the number of lines.
pub(super) fn placed(
    entries: Vec<Entry>,
    (left, right): (f64, f64),
    top: f64,
) -> (Vec<(f64, f64, Entry)>, usize) {
    let (mut x, mut lines) = (left, usize::from(!entries.is_empty()));
    let mut out = Vec::with_capacity(entries.len());
    for mut entry in entries {
        entry.text = cut(&entry.text, SMALL, right - left - SIGN);
        let long = SIGN + width(&entry.text, SMALL);
        if x > left && x + long > right {
            x = left;
            lines += 1;
        }
        out.push((x, top + (lines as f64 - 0.5) * KEY_LINE, entry));
        x += long + GAP;
    }
    (out, lines)
}

/// Draws the key.
pub(super) fn draw<B: DrawingBackend>(canvas: &Canvas<B>, layout: &Layout, theme: &Theme) -> Drawn {
    for (x, y, entry) in &layout.key {
        let (from, to) = (*x, *x + SIGN - 7.0);
        let middle = f64::midpoint(from, to);
        match &entry.sign {
            Sign::Curve(role, attempt) => {
                let pen = Pen::solid(theme.series(*role, *attempt), 2.0);
                canvas.line((from, *y), (to, *y), &pen)?;
            }
            Sign::Level => {
                canvas.surface((from, y - 5.0), (to, y + 5.0), theme.level, 0.3)?;
                canvas.line((from, *y), (to, *y), &Pen::solid(theme.level, 1.0))?;
            }
            Sign::Mark(kind) => marks::sign(canvas, *kind, (from, to), *y, theme)?,
            Sign::Cross => canvas.cross((middle, *y), 4.0, theme.ink)?,
            Sign::Knot => canvas.dot((middle, *y), KNOT, theme.line)?,
            Sign::Nothing => {}
        }
        canvas.text(&entry.text, (x + SIGN, *y), SMALL, Side::Left, theme.ink)?;
    }
    Ok(())
}
