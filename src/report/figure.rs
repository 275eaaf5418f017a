//! What a picture of a run shows, before anybody draws it: panels on one step axis, marks, reduced curves.
//!
//! Every renderer draws the same figure, so that the page, the picture files and the text tell the same steps. Points are
//! rows of the log, never means: where there are more rows than columns, the lowest and the highest of each column stay.

mod choice;
mod heat;
mod knots;
mod level;
mod marks;
mod paths;
mod reduce;
mod ticks;

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::run::Run;

pub use choice::window;
pub use heat::{Cell, Heat};
pub use knots::Knot;
pub use level::{BAND_SD, Band, BandPoint};
pub use marks::{Mark, MarkKind};
pub use reduce::{Curve, Off, OffKind, Point};
pub use ticks::{Tick, number, step};

use paths::Paths;

/// Panels over one axis of steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it shows, in a few words.
    pub title: String,
    /// First step of the axis, in the source's numbers.
    pub from: u64,
    /// Last step of the axis.
    pub to: u64,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
    /// Signals that were looked for and that the log does not have in these steps.
    pub absent: Vec<String>,
    /// What is drawn over all panels, in order of step.
    pub marks: Vec<Mark>,
    /// Other attempts over these steps that are not drawn, because there are too many.
    pub more_branches: usize,
}

/// One signal over the axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The column in the store; of per-layer signals the part before the slash.
    pub signal: String,
    /// Its name for people.
    pub title: String,
    /// The unit of the values; empty where it is not known, or a bare number.
    pub unit: String,
    /// How values become heights.
    pub scale: Scale,
    /// Value at the bottom; on a logarithmic scale above zero.
    pub low: f64,
    /// Value at the top, above `low`.
    pub high: f64,
    /// Whether a value holds until the next one: learning rate, batch size, loss scale.
    pub stepped: bool,
    /// The curves: the line that was kept first, then the branches.
    pub series: Vec<Series>,
    /// The level that detection measured against, if it is known.
    pub band: Option<Band>,
    /// Where a schedule changes its value or slope at once.
    pub knots: Vec<Knot>,
    /// Layers against steps, instead of curves.
    pub heat: Option<Heat>,
}

/// How values become heights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// In proportion.
    Linear,
    /// By their logarithm; what is not positive is a mark at the bottom edge.
    Log,
}

/// One curve of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name for a legend.
    pub name: String,
    /// What it stands for.
    pub role: Role,
    /// The attempt, where all of it is one's.
    pub attempt: Option<u32>,
    /// Its points.
    pub curve: Curve,
}

/// What a curve stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The line that the figure is about: each step as the newest attempt on the way to it logged it.
    Value,
    /// Rows of an older attempt that a newer one repeats.
    Superseded,
    /// A later attempt over the same steps.
    Later,
}

impl Panel {
    /// Height of a value, 0 at the bottom to 1 at the top; `None` where it has none.
    pub fn height(&self, value: f64) -> Option<f64> {
        let at = |v: f64| match self.scale {
            Scale::Linear => v,
            Scale::Log => v.log10(),
        };
        let share = (at(value) - at(self.low)) / (at(self.high) - at(self.low));
        share.is_finite().then_some(share)
    }

    /// About so many round values for the axis, in order.
    ///
    /// A panel without a finite value has none: its height would be made up.
    pub fn ticks(&self, count: usize) -> Vec<Tick> {
        if self.series.iter().all(|s| s.curve.pieces.is_empty()) {
            return Vec::new();
        }
        match self.scale {
            Scale::Linear => ticks::linear(self.low, self.high, count),
            Scale::Log => ticks::log(self.low, self.high, count),
        }
    }
}

impl Figure {
    /// Place of a step, 0 at the left edge to 1 at the right one. A figure of one step has it in the middle.
    pub fn place(&self, step: u64) -> f64 {
        if self.from == self.to {
            return 0.5;
        }
        let from = self.from as f64;
        (step as f64 - from) / (self.to as f64 - from)
    }

    /// About so many round steps for the axis, in order.
    pub fn ticks(&self, count: usize) -> Vec<Tick> {
        ticks::steps(self.from, self.to, count)
    }
}

/// Signals of the overview, from top to bottom.
const OVERVIEW: [&str; 3] = ["loss", "grad_norm", "learning_rate"];

/// The whole run: its loss, and what goes with it, in so many columns.
pub fn overview(d: &Diagnosis, columns: usize) -> Figure {
    let (from, to) = bounds(&d.run);
    let paths = Paths::newest(&d.run).within(&d.run, from, to);
    let names: Vec<String> = OVERVIEW.map(str::to_owned).into();
    let mut out = drawn(&d.run, &names, &paths, (from, to), columns);
    "the whole run".clone_into(&mut out.title);
    out.marks = marks::of_run(d, from, to, columns);
    out
}

/// The surroundings of an incident: every signal that tells of causes, in so many columns.
pub fn incident(d: &Diagnosis, x: &Diagnosed, columns: usize) -> Figure {
    incident_within(d, x, &[], window(d, x), columns)
}

/// An incident between two steps of one's own; only these signals where any are named.
pub fn incident_within(
    d: &Diagnosis,
    x: &Diagnosed,
    signals: &[String],
    (from, to): (u64, u64),
    columns: usize,
) -> Figure {
    let to = to.max(from);
    let paths = Paths::of(&d.run, x.incident.attempt).within(&d.run, from, to);
    let mut out = if signals.is_empty() {
        let names = choice::of_incident(&d.run);
        let mut out = drawn(&d.run, &names, &paths, (from, to), columns);
        let heats = heat::families(&d.run);
        let heats = heats.iter().filter_map(|f| {
            let heat = heat::of(&d.run, f, &paths, (from, to), columns)?;
            Some(heat::panel(f, heat))
        });
        out.panels.extend(heats);
        let by_layer = |s: &String| out.panels.iter().any(|p| p.signal == *s);
        out.absent.retain(|s| !by_layer(s));
        out
    } else {
        chosen(&d.run, signals, &paths, (from, to), columns)
    };
    let drawn = |p: &&mut Panel| p.series.iter().any(|s| !s.curve.pieces.is_empty());
    for panel in out.panels.iter_mut().filter(drawn) {
        panel.band = level::band(&d.run, &x.incident, &panel.signal, (from, to));
        choice::fit(panel);
    }
    out.title = format!("incident {}", x.id);
    out.marks = marks::of_incident(d, x, (from, to), columns);
    out
}

/// Chosen signals between two steps, or from the first or to the last one; `name` of a per-layer signal is its heat map.
pub fn selection(
    d: &Diagnosis,
    signals: &[String],
    from: Option<u64>,
    to: Option<u64>,
    columns: usize,
) -> Figure {
    let (first, last) = bounds(&d.run);
    let from = from.unwrap_or(first);
    let to = to.unwrap_or(last).max(from);
    let paths = Paths::newest(&d.run).within(&d.run, from, to);
    let mut out = chosen(&d.run, signals, &paths, (from, to), columns);
    out.title = format!("steps {}", crate::report::words::span(from, to));
    out.marks = marks::of_run(d, from, to, columns);
    out
}

/// The panels of some signals in their order, heat maps among them.
fn chosen(
    run: &Run,
    signals: &[String],
    paths: &Paths,
    (from, to): (u64, u64),
    columns: usize,
) -> Figure {
    let mut out = drawn(run, signals, paths, (from, to), columns);
    let absent = std::mem::take(&mut out.absent);
    for name in absent {
        match heat::of(run, &name, paths, (from, to), columns) {
            Some(heat) => out.panels.push(heat::panel(&name, heat)),
            None => out.absent.push(name),
        }
    }
    let place = |signal: &String| signals.iter().position(|s| s == signal);
    out.panels.sort_by_key(|p| place(&p.signal));
    out
}

/// First and last step of a run.
fn bounds(run: &Run) -> (u64, u64) {
    run.span().unwrap_or_default()
}

/// The panels of some signals along some paths.
fn drawn(
    run: &Run,
    names: &[String],
    paths: &Paths,
    (from, to): (u64, u64),
    columns: usize,
) -> Figure {
    let grid = reduce::Grid::new(from, to, columns);
    let mut panels = Vec::new();
    let mut absent = Vec::new();
    for name in names {
        match choice::panel(run, name, paths, grid) {
            Some(panel) => panels.push(panel),
            None => absent.push(name.clone()),
        }
    }
    Figure {
        title: String::new(),
        from,
        to,
        panels,
        absent,
        marks: Vec::new(),
        more_branches: paths.more,
    }
}

#[cfg(test)]
mod tests;
