//! A column of numbers in which "not logged" and "logged as NaN" stay different.

use std::borrow::Cow;
use std::ops::Range;

/// Bit pattern of a value that was not logged: a quiet NaN with a payload no arithmetic produces.
const MISSING: u64 = 0x7FF8_7768_7973_7069;
/// A column shorter than this is kept whole, however few values it has.
const SHORT: usize = 256;
/// One value in so many rows or fewer is kept as a list of values; see [`Cells::List`].
const RARE: usize = 4;

/// Numbers, one a row. A value that was not logged is missing, which is not the same as a NaN that was.
///
/// A metric that few rows have, such as a validation loss or a norm of a layer, takes the room of its values, not of
/// all rows.
#[derive(Clone, Default)]
pub struct Column {
    cells: Cells,
    /// Values that are not missing; where some were taken out again, at most so many.
    filled: usize,
}

#[derive(Debug, Clone)]
enum Cells {
    /// A cell a row.
    All(Vec<f64>),
    /// The rows that have a value, in order, and their values.
    List {
        rows: Vec<usize>,
        values: Vec<f64>,
        len: usize,
    },
}

impl Default for Cells {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Cells {
    /// The part of a list that lies in some rows.
    fn part<'a>(
        rows: &'a [usize],
        values: &'a [f64],
        within: &Range<usize>,
    ) -> impl Iterator<Item = (usize, f64)> + use<'a> {
        let from = rows.partition_point(|row| *row < within.start);
        let to = rows.partition_point(|row| *row < within.end).max(from);
        rows[from..to]
            .iter()
            .copied()
            .zip(values[from..to].iter().copied())
    }
}

const fn missing() -> f64 {
    f64::from_bits(MISSING)
}

fn is_missing(value: f64) -> bool {
    value.to_bits() == MISSING
}

impl std::fmt::Debug for Column {
    /// The values, whatever form they are kept in.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Column {
    /// A column of missing values.
    pub fn missing(len: usize) -> Self {
        let mut out = Self::default();
        out.pad(len);
        out
    }

    /// A column of values that are all present.
    pub fn from_values(values: Vec<f64>) -> Self {
        let filled = values.iter().filter(|v| !is_missing(**v)).count();
        let mut out = Self {
            cells: Cells::All(values),
            filled,
        };
        out.thin();
        out
    }

    /// A column from optional values.
    pub fn from_options(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        let values = values.into_iter().map(|v| v.unwrap_or(missing()));
        Self::from_values(values.collect())
    }

    /// A column of so many rows, of which these, in order, have these values.
    fn from_list(rows: Vec<usize>, values: Vec<f64>, len: usize) -> Self {
        let mut out = Self {
            filled: values.len(),
            cells: Cells::List { rows, values, len },
        };
        out.thicken();
        out
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match &self.cells {
            Cells::All(values) => values.len(),
            Cells::List { len, .. } => *len,
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a row: `None` if it was not logged.
    pub fn get(&self, row: usize) -> Option<f64> {
        let value = match &self.cells {
            Cells::All(values) => values.get(row).copied(),
            Cells::List { rows, values, .. } => rows.binary_search(&row).ok().map(|at| values[at]),
        };
        value.filter(|v| !is_missing(*v))
    }

    /// The value of a row if it is a finite number.
    pub fn finite(&self, row: usize) -> Option<f64> {
        self.get(row).filter(|v| v.is_finite())
    }

    /// Sets the value of a row, padding with missing values before it.
    pub fn set(&mut self, row: usize, value: f64) {
        if row >= self.len() {
            self.pad(row);
            self.push(row, value);
            return;
        }
        match &mut self.cells {
            Cells::All(values) => {
                self.filled += usize::from(is_missing(values[row]));
                values[row] = value;
            }
            Cells::List { rows, values, .. } => match rows.binary_search(&row) {
                Ok(at) => values[at] = value,
                Err(at) => {
                    rows.insert(at, row);
                    values.insert(at, value);
                    self.filled += 1;
                }
            },
        }
        self.thicken();
    }

    /// Appends the value of the row behind the last.
    fn push(&mut self, row: usize, value: f64) {
        self.filled += 1;
        match &mut self.cells {
            Cells::All(values) => values.push(value),
            Cells::List { rows, values, len } => {
                rows.push(row);
                values.push(value);
                *len = row + 1;
                self.thicken();
            }
        }
    }

    /// Makes a row missing.
    pub fn clear(&mut self, row: usize) {
        match &mut self.cells {
            Cells::All(values) => {
                if let Some(value) = values.get_mut(row) {
                    *value = missing();
                }
            }
            Cells::List { rows, values, .. } => {
                if let Ok(at) = rows.binary_search(&row) {
                    values[at] = missing();
                }
            }
        }
    }

    /// Changes every value that is there.
    pub(crate) fn change(&mut self, change: impl Fn(f64) -> f64) {
        let values = match &mut self.cells {
            Cells::All(values) | Cells::List { values, .. } => values,
        };
        for value in values.iter_mut().filter(|v| !is_missing(**v)) {
            *value = change(*value);
        }
    }

    /// Fills up with missing values to a length.
    pub fn pad(&mut self, to: usize) {
        let len = self.len();
        if len >= to {
            return;
        }
        if to >= SHORT && self.filled < to / RARE {
            self.list();
        }
        match &mut self.cells {
            Cells::All(values) => values.resize(to, missing()),
            Cells::List { len, .. } => *len = to,
        }
    }

    /// Appends the values of another column, multiplied; missing values stay missing.
    pub fn append_scaled(&mut self, other: &Self, scale: f64) {
        let before = self.len();
        let as_is = scale.to_bits() == 1.0_f64.to_bits();
        let scaled = |v: f64| if as_is || is_missing(v) { v } else { v * scale };
        let rare = (self.filled + other.filled) < (before + other.len()) / RARE;
        if rare && before + other.len() >= SHORT {
            self.list();
        }
        match (&mut self.cells, &other.cells) {
            (Cells::All(mine), Cells::All(theirs)) if as_is => mine.extend_from_slice(theirs),
            (Cells::All(mine), Cells::All(theirs)) => {
                mine.extend(theirs.iter().map(|v| scaled(*v)));
            }
            (Cells::All(mine), Cells::List { rows, values, len }) => {
                mine.resize(before + len, missing());
                for (row, value) in rows.iter().zip(values) {
                    mine[before + row] = scaled(*value);
                }
            }
            (Cells::List { rows, values, len }, _) => {
                for (row, value) in other.present() {
                    rows.push(before + row);
                    values.push(scaled(value));
                }
                *len = before + other.len();
            }
        }
        self.filled += other.filled;
        self.thicken();
    }

    /// Keeps the rows at these positions, in this order.
    #[must_use]
    pub fn take(&self, rows: &[usize]) -> Self {
        match &self.cells {
            Cells::All(values) => {
                let cell = |row: &usize| values.get(*row).copied().unwrap_or(missing());
                Self::from_values(rows.iter().map(cell).collect())
            }
            Cells::List { .. } => self.take_of_list(rows),
        }
    }

    fn take_of_list(&self, kept: &[usize]) -> Self {
        let (mut rows, mut values) = (
            Vec::with_capacity(self.filled),
            Vec::with_capacity(self.filled),
        );
        if kept.is_sorted() {
            // Each value looks for its place: they are few.
            for (row, value) in self.present() {
                let first = kept.partition_point(|k| *k < row);
                let same = kept[first..].iter().take_while(|k| **k == row).count();
                rows.extend(first..first + same);
                values.extend(std::iter::repeat_n(value, same));
            }
        } else {
            for (at, row) in kept.iter().enumerate() {
                if let Some(value) = self.get(*row) {
                    rows.push(at);
                    values.push(value);
                }
            }
        }
        Self::from_list(rows, values, kept.len())
    }

    /// Gives rows that have no value that of another row: pairs of the row and the other, in order of the other.
    pub(super) fn fill(&mut self, pairs: &[(usize, usize)]) {
        let mut found: Vec<(usize, f64)> = match &self.cells {
            Cells::All(_) => pairs
                .iter()
                .filter_map(|(row, other)| Some((*row, self.get(*other)?)))
                .collect(),
            Cells::List { .. } => self
                .present()
                .flat_map(|(other, value)| {
                    let first = pairs.partition_point(|p| p.1 < other);
                    let same = pairs[first..].iter().take_while(move |p| p.1 == other);
                    same.map(move |p| (p.0, value))
                })
                .collect(),
        };
        found.retain(|(row, _)| self.get(*row).is_none());
        // Of several others the first counts.
        found.sort_by_key(|(row, _)| *row);
        found.dedup_by_key(|(row, _)| *row);
        if found.is_empty() {
            return;
        }
        match &mut self.cells {
            Cells::All(_) => found
                .into_iter()
                .for_each(|(row, value)| self.set(row, value)),
            Cells::List { rows, values, .. } => {
                let new: Vec<usize> = found.iter().map(|(row, _)| *row).collect();
                let old = rows.iter().copied().zip(values.iter().copied());
                let mut all: Vec<(usize, f64)> = old
                    .filter(|(row, _)| new.binary_search(row).is_err())
                    .collect();
                all.extend(found);
                all.sort_by_key(|(row, _)| *row);
                (*rows, *values) = all.into_iter().unzip();
                self.filled = values.len();
                self.thicken();
            }
        }
    }

    /// Whether any row has a value.
    pub fn has_values(&self) -> bool {
        self.filled > 0 && self.present().next().is_some()
    }

    /// The values, missing ones as `None`.
    pub fn iter(&self) -> impl Iterator<Item = Option<f64>> + '_ {
        self.range(0..self.len())
    }

    /// The rows that have a value, in order, with their values.
    pub fn present(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let (all, rows, values) = match &self.cells {
            Cells::All(values) => (values.as_slice(), [].as_slice(), [].as_slice()),
            Cells::List { rows, values, .. } => ([].as_slice(), rows.as_slice(), values.as_slice()),
        };
        let list = rows.iter().copied().zip(values.iter().copied());
        all.iter()
            .copied()
            .enumerate()
            .chain(list)
            .filter(|(_, value)| !is_missing(*value))
    }

    /// The raw values, one a row; missing ones are NaN.
    pub fn raw(&self) -> Cow<'_, [f64]> {
        match &self.cells {
            Cells::All(values) => Cow::Borrowed(values),
            Cells::List { .. } => Cow::Owned(self.iter().map(|v| v.unwrap_or(missing())).collect()),
        }
    }

    /// The values of some rows, missing ones as `None`; fewer where the column ends.
    pub fn range(&self, rows: Range<usize>) -> impl Iterator<Item = Option<f64>> + '_ {
        let rows = rows.start.min(self.len())..rows.end.min(self.len());
        let (all, list) = match &self.cells {
            Cells::All(values) => (&values[rows.clone()], Cells::part(&[], &[], &rows)),
            Cells::List {
                rows: at, values, ..
            } => ([].as_slice(), Cells::part(at, values, &rows)),
        };
        let cell = |value: f64| (!is_missing(value)).then_some(value);
        let mut list = list.peekable();
        let listed = if all.is_empty() { rows } else { 0..0 };
        let listed = listed.map(move |row| {
            list.next_if(|(at, _)| *at == row)
                .and_then(|(_, v)| cell(v))
        });
        all.iter().map(move |v| cell(*v)).chain(listed)
    }

    /// Whether a raw value stands for "not logged".
    pub fn is_missing(value: f64) -> bool {
        is_missing(value)
    }

    /// Keeps the values as a list if they are few.
    fn thin(&mut self) {
        if self.len() >= SHORT && self.filled < self.len() / RARE {
            self.list();
        }
    }

    /// Keeps a cell a row if so few rows lack a value that a list would take more room.
    fn thicken(&mut self) {
        if let Cells::List { rows, len, .. } = &self.cells
            && rows.len() * 2 > *len
        {
            let mut all = vec![missing(); *len];
            self.present().for_each(|(row, value)| all[row] = value);
            self.cells = Cells::All(all);
        }
    }

    fn list(&mut self) {
        if let Cells::All(all) = &self.cells {
            let len = all.len();
            let (rows, values): (Vec<usize>, Vec<f64>) = self.present().unzip();
            self.filled = values.len();
            self.cells = Cells::List { rows, values, len };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_nan_is_not_missing() {
        let mut c = Column::default();
        c.set(0, f64::NAN);
        c.set(2, 1.0);
        assert!(c.get(0).is_some_and(f64::is_nan));
        assert_eq!(c.get(1), None);
        assert_eq!(c.get(2), Some(1.0));
        assert_eq!(c.get(3), None);
    }

    #[test]
    fn scaling_keeps_missing_values_missing() {
        let mut out = Column::default();
        out.append_scaled(&Column::from_options([None, Some(2.0)]), 0.001);
        assert_eq!(out.iter().collect::<Vec<_>>(), vec![None, Some(0.002)]);
    }

    /// The same column, a cell a row.
    fn plain(column: &Column) -> Vec<Option<u64>> {
        column.iter().map(|v| v.map(f64::to_bits)).collect()
    }

    /// Every operation, on columns of every density, against a list of optional values.
    #[test]
    fn few_values_and_many_behave_alike() {
        let mut state: u64 = 7;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        for every in [1, 2, 3, 5, 40, 1000] {
            let (mut column, mut model): (Column, Vec<Option<f64>>) =
                (Column::default(), Vec::new());
            for turn in 0..4000 {
                let row = match random(10) {
                    0 => random(model.len() + 1),
                    _ => model.len() + random(every),
                };
                let value = if random(20) == 0 {
                    f64::NAN
                } else {
                    f64::from(turn)
                };
                model.resize(model.len().max(row + 1), None);
                if random(30) == 0 {
                    model[row] = None;
                    column.pad(row + 1);
                    column.clear(row);
                } else {
                    model[row] = Some(value);
                    column.set(row, value);
                }
            }
            let bits = |m: &[Option<f64>]| -> Vec<Option<u64>> {
                m.iter().map(|v| v.map(f64::to_bits)).collect()
            };
            assert_eq!(plain(&column), bits(&model));
            assert!((0..model.len() + 2).all(|r| column.get(r).map(f64::to_bits)
                == model.get(r).copied().flatten().map(f64::to_bits)));
            let kept: Vec<usize> = (0..model.len() + 5)
                .filter(|r| r % 3 != 1)
                .flat_map(|r| [r, r])
                .collect();
            let taken: Vec<Option<f64>> = kept
                .iter()
                .map(|r| model.get(*r).copied().flatten())
                .collect();
            assert_eq!(plain(&column.take(&kept)), bits(&taken));
            let part: Vec<Option<f64>> = column.range(100..model.len() - 7).collect();
            assert_eq!(bits(&part), bits(&model[100..model.len() - 7]));
            assert_eq!(column.range(model.len()..model.len() + 9).count(), 0);
            let back: Vec<usize> = kept.iter().rev().copied().collect();
            let taken: Vec<Option<f64>> = back
                .iter()
                .map(|r| model.get(*r).copied().flatten())
                .collect();
            assert_eq!(plain(&column.take(&back)), bits(&taken));
            let mut twice = column.clone();
            twice.append_scaled(&column, 1.0);
            assert_eq!(plain(&twice), bits(&[&model[..], &model[..]].concat()));
            let pairs: Vec<(usize, usize)> = (0..model.len() / 2)
                .map(|r| (r, r + model.len() / 2))
                .collect();
            let (mut filled, mut expected) = (column.clone(), model.clone());
            filled.fill(&pairs);
            for (row, other) in pairs {
                expected[row] = expected[row].or(expected[other]);
            }
            assert_eq!(plain(&filled), bits(&expected));
            assert_eq!(
                Column::from_options(model.clone()).iter().count(),
                model.len()
            );
        }
    }

    #[test]
    fn rare_values_take_the_room_of_values() {
        let mut column = Column::default();
        for row in (0..10_000_000).step_by(1000) {
            column.set(row, 1.0);
        }
        column.pad(10_000_000);
        assert!(matches!(&column.cells, Cells::List { rows, .. } if rows.len() == 10_000));
        assert_eq!(
            (column.len(), column.present().count()),
            (10_000_000, 10_000)
        );
        let mut late = Column::default();
        (5_000_000..5_000_100).for_each(|row| late.set(row, 1.0));
        assert!(matches!(&late.cells, Cells::List { .. }));
        (0..200).for_each(|row| late.set(row, 1.0));
        assert_eq!(late.present().count(), 300);
    }
}
