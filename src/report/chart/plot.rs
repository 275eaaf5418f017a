//! A curve on a grid of dots or blocks.

/// Place along the axis from 0, and value; one that is not finite is a mark of its own.
pub(super) type Point = (f64, f64);

/// Stands where a value is not finite.
pub(super) const BROKEN: char = '×';

/// Values that span more are drawn on a logarithmic scale.
const DECADE: f64 = 10.0;

/// A curve with its scale.
pub(super) struct Plot<'a> {
    points: &'a [Point],
    /// The place of the right end; the left one is 0.
    end: f64,
    low: f64,
    high: f64,
    logs: bool,
    /// Neighbours further apart are not joined.
    hole: f64,
}

/// The column of a place between 0 and `end`.
pub(super) fn place(x: f64, end: f64, columns: usize) -> usize {
    let share = if end > 0.0 { x / end } else { 0.5 };
    ((share * columns as f64) as usize).min(columns - 1)
}

impl<'a> Plot<'a> {
    /// A curve; `decades` asks for a logarithmic scale wherever one is possible. `None` without a finite value.
    pub(super) fn of(points: &'a [Point], end: f64, decades: bool) -> Option<Self> {
        let finite = || points.iter().map(|p| p.1).filter(|v| v.is_finite());
        let (low, high) = (finite().reduce(f64::min)?, finite().reduce(f64::max)?);
        Some(Self {
            points,
            end,
            low,
            high,
            logs: low > 0.0 && (decades || high / low > DECADE),
            hole: 0.0,
        })
    }

    /// The same with neighbours joined that are at most so far apart.
    pub(super) fn joined(self, hole: f64) -> Self {
        Self { hole, ..self }
    }

    pub(super) fn lowest(&self) -> f64 {
        self.low
    }

    pub(super) fn highest(&self) -> f64 {
        self.high
    }

    /// Whether the scale is logarithmic.
    pub(super) fn logs(&self) -> bool {
        self.logs && self.high > self.low
    }

    /// The dot of a value, from 0 at the bottom. A curve that does not move lies in the middle.
    fn level(&self, v: f64, dots: usize) -> usize {
        let at = |v: f64| if self.logs { v.ln() } else { v };
        // Halves, for the difference of two large numbers may not be one.
        let (floor, span) = (at(self.low) / 2.0, at(self.high) / 2.0 - at(self.low) / 2.0);
        let share = if span > 0.0 {
            (at(v) / 2.0 - floor) / span
        } else {
            0.5
        };
        (share * (dots - 1) as f64).round() as usize
    }

    /// The lowest and the highest dot of each column, and the columns with a value that is not finite.
    fn columns(
        &self,
        columns: usize,
        dots: usize,
        upright: bool,
    ) -> (Vec<Option<(usize, usize)>>, Vec<bool>) {
        let mut out = Columns(vec![None; columns]);
        let mut broken = vec![false; columns];
        let mut before: Option<(f64, usize, usize)> = None;
        for &(x, v) in self.points {
            let column = place(x, self.end, columns);
            if !v.is_finite() {
                broken[column] = true;
                before = None;
                continue;
            }
            let level = self.level(v, dots);
            match before {
                Some((from, c, l)) if x - from <= self.hole => {
                    out.join((c, l), (column, level), upright);
                }
                _ => {}
            }
            out.cover(column, level);
            before = Some((x, column, level));
        }
        (out.0, broken)
    }

    /// As lines of braille, four dots high and two wide a character.
    pub(super) fn braille(&self, columns: usize, height: usize) -> Vec<Vec<char>> {
        const DOTS: [[u32; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
        let (ranges, broken) = self.columns(2 * columns, 4 * height, true);
        let mut cells = vec![vec![0_u32; columns]; height];
        for (at, range) in ranges.iter().enumerate() {
            let Some((low, high)) = range else { continue };
            for dot in *low..=*high {
                cells[height - 1 - dot / 4][at / 2] |= DOTS[at % 2][dot % 4];
            }
        }
        let sign = |bits: &u32| match bits {
            0 => ' ',
            bits => char::from_u32(0x2800 + bits).unwrap_or(' '),
        };
        let mut lines: Vec<Vec<char>> =
            cells.iter().map(|l| l.iter().map(sign).collect()).collect();
        let broken: Vec<bool> = broken.chunks(2).map(|pair| pair.contains(&true)).collect();
        mark(&mut lines, &broken);
        lines
    }

    /// As columns of blocks, eight levels a character.
    pub(super) fn blocks(&self, columns: usize, height: usize) -> Vec<Vec<char>> {
        const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let (ranges, broken) = self.columns(columns, 8 * height, false);
        let filled = |range: &Option<(usize, usize)>, line: usize| {
            let filled = range.map_or(0, |(_, high)| high + 1);
            BLOCKS[filled.saturating_sub(8 * (height - 1 - line)).min(8)]
        };
        let mut lines: Vec<Vec<char>> = (0..height)
            .map(|line| ranges.iter().map(|r| filled(r, line)).collect())
            .collect();
        mark(&mut lines, &broken);
        lines
    }
}

/// Puts a mark into each column with a value that is not finite: at the top, or at the next place that is free.
fn mark(lines: &mut [Vec<char>], broken: &[bool]) {
    for (column, _) in broken.iter().enumerate().filter(|(_, b)| **b) {
        let free = lines.iter().position(|l| l[column] == ' ').unwrap_or(0);
        lines[free][column] = BROKEN;
    }
}

/// The lowest and the highest dot of each column.
struct Columns(Vec<Option<(usize, usize)>>);

impl Columns {
    fn cover(&mut self, column: usize, level: usize) {
        let (low, high) = self.0[column].unwrap_or((level, level));
        self.0[column] = Some((low.min(level), high.max(level)));
    }

    /// Draws from one dot to one in the same or a later column; `upright` leaves no gap where it is steep.
    fn join(&mut self, (c, l): (usize, usize), (column, level): (usize, usize), upright: bool) {
        let mut last = l;
        for k in c + 1..=column {
            let share = (k - c) as f64 / (column - c) as f64;
            let here = (l as f64 + share * (level as f64 - l as f64)).round() as usize;
            self.cover(k, here);
            if upright {
                self.cover(
                    k,
                    if here > last {
                        last + 1
                    } else {
                        last.saturating_sub(1).max(here)
                    },
                );
            }
            last = here;
        }
    }
}
