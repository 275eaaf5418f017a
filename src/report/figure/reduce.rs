//! Fewer points that show the same curve: of each column of the picture its lowest and its highest row.

/// A row of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Step of the row.
    pub step: u64,
    /// Its value: finite, and positive on a logarithmic scale.
    pub value: f64,
}

/// Rows of one column that have a value without a height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Off {
    /// Step of the first of them.
    pub step: u64,
    /// Step of the last of them.
    pub last: u64,
    /// How many there are.
    pub rows: usize,
    /// What the first of them holds.
    pub kind: OffKind,
}

/// Values without a height.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OffKind {
    /// Not a number.
    Nan,
    /// Above every number.
    Infinite,
    /// Below every number.
    MinusInfinite,
    /// Zero or below, on a logarithmic scale.
    NotPositive,
}

impl OffKind {
    /// The value as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nan => "NaN",
            Self::Infinite => "inf",
            Self::MinusInfinite => "-inf",
            Self::NotPositive => "≤ 0",
        }
    }

    /// Whether the mark belongs to the top edge of a panel.
    pub fn on_top(self) -> bool {
        matches!(self, Self::Nan | Self::Infinite)
    }

    /// What keeps a value from having a height.
    fn of(value: f64, log: bool) -> Option<Self> {
        if value.is_nan() {
            Some(Self::Nan)
        } else if value == f64::INFINITY {
            Some(Self::Infinite)
        } else if value == f64::NEG_INFINITY {
            Some(Self::MinusInfinite)
        } else if log && value <= 0.0 {
            Some(Self::NotPositive)
        } else {
            None
        }
    }
}

/// A curve in pieces: between two of them nothing was logged, or nothing that has a height.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// Connected stretches in order of step; none is empty, one of a single point is a dot.
    pub pieces: Vec<Vec<Point>>,
    /// What has no height.
    pub off: Vec<Off>,
}

impl Curve {
    /// All points.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.pieces.iter().flatten()
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.off.is_empty()
    }
}

/// The columns of a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    from: u64,
    to: u64,
    columns: u64,
}

impl Grid {
    /// Columns between two steps, the last one included; at least one.
    pub(super) fn new(from: u64, to: u64, columns: usize) -> Self {
        Self {
            from,
            to: to.max(from),
            columns: (columns as u64).max(1),
        }
    }

    /// The column of a step.
    pub(super) fn column(self, step: u64) -> usize {
        let along = u128::from(step.clamp(self.from, self.to) - self.from);
        let steps = u128::from(self.to - self.from) + 1;
        (along * u128::from(self.columns) / steps) as usize
    }

    /// First step of a column.
    pub(super) fn first(self, column: usize) -> u64 {
        let steps = u128::from(self.to - self.from) + 1;
        let along = (column as u128 * steps).div_ceil(u128::from(self.columns));
        self.from.saturating_add(along as u64)
    }

    /// Number of columns.
    pub(super) fn columns(self) -> usize {
        self.columns as usize
    }
}

/// Holes of so many usual distances between rows are left open (detection bridges no wider ones either).
const HOLE: u64 = 20;

/// What one column holds.
struct Bin {
    column: usize,
    low: Point,
    high: Point,
}

/// Reduces rows in order of step to a grid. `spacing` is the usual distance between them.
pub(super) fn reduce(
    rows: impl Iterator<Item = (u64, f64)>,
    grid: Grid,
    log: bool,
    spacing: u64,
) -> Curve {
    let mut out = Curve::default();
    let mut bin: Option<Bin> = None;
    let mut broken = true;
    let mut last: Option<u64> = None;
    for (step, value) in rows {
        if let Some(kind) = OffKind::of(value, log) {
            note(&mut out.off, grid, step, kind);
            broken = true;
            continue;
        }
        let column = grid.column(step);
        let point = Point { step, value };
        let hole = last.is_some_and(|l| step.saturating_sub(l) > HOLE.saturating_mul(spacing));
        last = Some(step);
        // Within a column nobody could see a gap.
        if let Some(b) = bin.as_mut().filter(|b| b.column == column) {
            b.take(point);
            broken = false;
            continue;
        }
        close(&mut out, bin.take());
        if broken || hole {
            out.pieces.push(Vec::new());
            broken = false;
        }
        bin = Some(Bin {
            column,
            low: point,
            high: point,
        });
    }
    close(&mut out, bin);
    out
}

impl Bin {
    fn take(&mut self, point: Point) {
        if point.value < self.low.value {
            self.low = point;
        }
        if point.value > self.high.value {
            self.high = point;
        }
    }
}

fn close(out: &mut Curve, bin: Option<Bin>) {
    let (Some(b), Some(piece)) = (bin, out.pieces.last_mut()) else {
        return;
    };
    let (first, second) = if b.low.step <= b.high.step {
        (b.low, b.high)
    } else {
        (b.high, b.low)
    };
    piece.push(first);
    if second.step != first.step {
        piece.push(second);
    }
}

/// Notes a row without a height: one note a column and kind.
fn note(off: &mut Vec<Off>, grid: Grid, step: u64, kind: OffKind) {
    let column = grid.column(step);
    let same = off
        .iter_mut()
        .rev()
        .take_while(|o| grid.column(o.step) == column)
        .find(|o| o.kind == kind);
    match same {
        Some(o) => {
            o.rows += 1;
            o.last = step;
        }
        None => off.push(Off {
            step,
            last: step,
            rows: 1,
            kind,
        }),
    }
}
