//! Layers against steps: the highest value of each layer in each column.

use crate::report::figure::choice;
use crate::report::figure::paths::Paths;
use crate::report::figure::reduce::Grid;
use crate::report::figure::{Panel, Scale};
use crate::run::Run;

/// Rows of a heat map; of more layers, neighbours share one.
const MOST_ROWS: usize = 64;
/// Columns of a heat map: a cell of it is read, not traced.
const MOST_COLUMNS: usize = 160;
/// Heat maps of an incident.
const MOST_MAPS: usize = 3;
/// Families that come first, where a log has more.
const FIRST: [&str; 5] = [
    "max_attention_logit",
    "grad_norm",
    "update_norm",
    "param_norm",
    "activation_norm",
];

/// Layers against steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// Names of the rows, the lowest layer first: `3`, or `4-5` where layers share one.
    pub layers: Vec<String>,
    /// First step of each column, in order; a column ends where the next one begins.
    pub steps: Vec<u64>,
    /// Cells, row by row.
    pub cells: Vec<Vec<Cell>>,
    /// Lowest finite value.
    pub low: f64,
    /// Highest finite value.
    pub high: f64,
    /// How values become colours.
    pub scale: Scale,
}

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell {
    /// Nothing was logged.
    Empty,
    /// Something that is no finite number.
    NotFinite,
    /// The highest value.
    Value(f64),
}

impl Heat {
    /// The row with the highest value of each column and that value; `None` where the column has none.
    pub fn tops(&self) -> Vec<Option<(usize, f64)>> {
        let top = |column: usize| {
            let values =
                self.cells
                    .iter()
                    .enumerate()
                    .filter_map(|(n, row)| match row.get(column)? {
                        Cell::Value(v) => Some((n, *v)),
                        _ => None,
                    });
            // Of equals the lowest layer counts.
            values.reduce(|a, b| if b.1 > a.1 { b } else { a })
        };
        (0..self.steps.len()).map(top).collect()
    }

    /// Strength of a value, 0 to 1.
    pub fn strength(&self, value: f64) -> f64 {
        let at = |v: f64| match self.scale {
            Scale::Linear => v,
            Scale::Log => v.max(f64::MIN_POSITIVE).log10(),
        };
        let share = (at(value) - at(self.low)) / (at(self.high) - at(self.low));
        if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.5
        }
    }
}

/// The names of per-layer signals, those that tell most first.
pub(super) fn families(run: &Run) -> Vec<String> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for (name, _) in run.columns() {
        let Some((family, _)) = layer(name) else {
            continue;
        };
        match counts.iter_mut().find(|(f, _)| f == family) {
            Some((_, n)) => *n += 1,
            None => counts.push((family.to_owned(), 1)),
        }
    }
    counts.retain(|(_, n)| *n > 1);
    let rank = |f: &str| FIRST.iter().position(|k| *k == f).unwrap_or(FIRST.len());
    counts.sort_by(|a, b| rank(&a.0).cmp(&rank(&b.0)).then(a.0.cmp(&b.0)));
    counts.truncate(MOST_MAPS);
    counts.into_iter().map(|(f, _)| f).collect()
}

/// Family and layer of a per-layer signal.
fn layer(name: &str) -> Option<(&str, u64)> {
    let (family, layer) = name.rsplit_once('/')?;
    Some((family, layer.parse().ok()?))
}

/// The heat map of a family between two steps; `None` where nothing of it was logged.
pub(super) fn of(
    run: &Run,
    family: &str,
    paths: &Paths,
    (from, to): (u64, u64),
    columns: usize,
) -> Option<Heat> {
    let mut layers: Vec<(u64, &str)> = run
        .family(family)
        .filter_map(|(name, _)| layer(name).filter(|l| l.0 == family).map(|l| (l.1, name)))
        .collect();
    layers.sort_unstable();
    if layers.is_empty() {
        return None;
    }
    let steps = (to - from).saturating_add(1);
    let most = (columns.min(MOST_COLUMNS) as u64).min(steps / run.spacing() + 1);
    let grid = Grid::new(from, to, most as usize);
    let per = layers.len().div_ceil(MOST_ROWS);
    let cells: Vec<Vec<Cell>> = layers
        .chunks(per)
        .map(|part| row(run, part, paths, grid))
        .collect();
    let values = || {
        cells.iter().flatten().filter_map(|c| match c {
            Cell::Value(v) => Some(*v),
            _ => None,
        })
    };
    if cells.iter().flatten().all(|c| *c == Cell::Empty) {
        return None;
    }
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
    let scale = if low > 0.0 && high / low > 8.0 {
        Scale::Log
    } else {
        Scale::Linear
    };
    Some(Heat {
        layers: layers.chunks(per).map(named).collect(),
        steps: (0..grid.columns()).map(|c| grid.first(c)).collect(),
        cells,
        low,
        high,
        scale,
    })
}

fn named(part: &[(u64, &str)]) -> String {
    match part {
        [(only, _)] => only.to_string(),
        [(a, _), .., (b, _)] => format!("{a}-{b}"),
        [] => String::new(),
    }
}

fn row(run: &Run, part: &[(u64, &str)], paths: &Paths, grid: Grid) -> Vec<Cell> {
    let mut out = vec![Cell::Empty; grid.columns()];
    for column in part.iter().filter_map(|(_, name)| run.column(name)) {
        for rows in &paths.line {
            for (row, value) in rows.clone().zip(column.range(rows.clone())) {
                if let Some(v) = value {
                    let cell = &mut out[grid.column(run.steps[row])];
                    *cell = higher(*cell, v);
                }
            }
        }
    }
    out
}

fn higher(cell: Cell, value: f64) -> Cell {
    match cell {
        _ if !value.is_finite() => Cell::NotFinite,
        Cell::Empty => Cell::Value(value),
        Cell::Value(v) => Cell::Value(v.max(value)),
        Cell::NotFinite => Cell::NotFinite,
    }
}

/// A panel of a heat map.
pub(super) fn panel(family: &str, heat: Heat) -> Panel {
    Panel {
        signal: family.to_owned(),
        title: format!("{} by layer", choice::title(family)),
        unit: choice::unit(family),
        scale: heat.scale,
        low: heat.low,
        high: heat.high,
        stepped: false,
        series: Vec::new(),
        band: None,
        knots: Vec::new(),
        heat: Some(heat),
    }
}
