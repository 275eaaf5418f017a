//! Keeps columns that are mostly empty from taking far more memory than the log they come from.

/// Empty cells that any log may cause.
const FREE: usize = 16 * 1024 * 1024;
/// Empty cells that each value may cause besides. Metrics logged every hundred steps for each of a thousand layers,
/// beside ten logged every step, cause some fifty.
const PER_VALUE: usize = 64;

/// Cells that may be taken for a number of values.
pub(crate) fn cells(values: usize) -> usize {
    FREE.saturating_add(PER_VALUE.saturating_mul(values))
}

/// Counts values and the empty cells before them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Budget {
    values: usize,
    empty: usize,
    refused: usize,
}

impl Budget {
    /// Whether a value may be set at a row of a column that has `len` rows so far.
    #[inline]
    pub(super) fn allows(&mut self, len: usize, row: usize) -> bool {
        self.values += 1;
        if row <= len {
            return true;
        }
        self.grow(row - len)
    }

    fn grow(&mut self, gap: usize) -> bool {
        let fits = self.empty.saturating_add(gap) <= cells(self.values);
        if fits {
            self.empty += gap;
        } else {
            self.refused += 1;
        }
        fits
    }

    /// Whether a column may grow by this many empty cells and this many values at once.
    pub(super) fn allows_many(&mut self, empty: usize, values: usize) -> bool {
        self.values += values;
        let fits = empty == 0 || self.grow(empty);
        if !fits {
            self.refused += values.saturating_sub(1);
        }
        fits
    }

    /// Takes over what another has refused.
    pub(super) fn and(&mut self, other: Self) {
        self.refused += other.refused;
    }

    /// Whether there are empty cells.
    pub(super) fn has_gaps(&self) -> bool {
        self.empty > 0
    }

    /// Values so far, those that were refused included.
    pub(super) fn values(&self) -> usize {
        self.values
    }

    /// Values that were refused.
    pub(super) fn refused(&self) -> usize {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_columns_cost_nothing_and_sparse_ones_end() {
        let mut budget = Budget::default();
        assert!((0..10_000).all(|row| budget.allows(row, row)));
        assert!(budget.allows(0, FREE));
        assert!(!budget.allows(0, FREE));
        assert_eq!(budget.refused(), 1);
    }
}
