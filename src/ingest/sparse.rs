//! Keeps columns that are mostly empty from taking far more memory than the log they come from.

/// Empty cells that any log may cause.
const FREE: usize = 64 * 1024 * 1024;
/// Empty cells that each value may cause besides. Metrics logged every hundred steps for each of a thousand layers,
/// beside ten logged every step, cause some fifty.
const PER_VALUE: usize = 64;

/// Counts values and the empty cells before them.
#[derive(Debug, Default)]
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
        let most = FREE.saturating_add(PER_VALUE.saturating_mul(self.values));
        let fits = self.empty.saturating_add(gap) <= most;
        if fits {
            self.empty += gap;
        } else {
            self.refused += 1;
        }
        fits
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
