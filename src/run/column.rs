//! A column of numbers in which "not logged" and "logged as NaN" stay different.

/// Bit pattern of a value that was not logged: a quiet NaN with a payload no arithmetic produces.
const MISSING: u64 = 0x7FF8_7768_7973_7069;

/// Numbers, one a row. A value that was not logged is missing, which is not the same as a NaN that was.
#[derive(Debug, Clone, Default)]
pub struct Column {
    values: Vec<f64>,
}

impl Column {
    /// A column of missing values.
    pub fn missing(len: usize) -> Self {
        Self {
            values: vec![f64::from_bits(MISSING); len],
        }
    }

    /// A column of values that are all present.
    pub fn from_values(values: Vec<f64>) -> Self {
        Self { values }
    }

    /// A column from optional values.
    pub fn from_options(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self {
            values: values
                .into_iter()
                .map(|v| v.unwrap_or(f64::from_bits(MISSING)))
                .collect(),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of a row: `None` if it was not logged.
    pub fn get(&self, row: usize) -> Option<f64> {
        self.values
            .get(row)
            .copied()
            .filter(|v| v.to_bits() != MISSING)
    }

    /// The value of a row if it is a finite number.
    pub fn finite(&self, row: usize) -> Option<f64> {
        self.values.get(row).copied().filter(|v| v.is_finite())
    }

    /// Sets the value of a row, padding with missing values before it.
    pub fn set(&mut self, row: usize, value: f64) {
        if row >= self.values.len() {
            self.pad(row);
            self.values.push(value);
        } else {
            self.values[row] = value;
        }
    }

    /// Makes a row missing.
    pub fn clear(&mut self, row: usize) {
        if let Some(v) = self.values.get_mut(row) {
            *v = f64::from_bits(MISSING);
        }
    }

    /// Fills up with missing values to a length.
    pub fn pad(&mut self, len: usize) {
        if self.values.len() < len {
            self.values.resize(len, f64::from_bits(MISSING));
        }
    }

    /// Appends the values of another column, multiplied; missing values stay missing.
    pub fn append_scaled(&mut self, other: &Self, scale: f64) {
        if scale.to_bits() == 1.0_f64.to_bits() {
            self.values.extend_from_slice(&other.values);
        } else {
            let scaled = |v: &f64| {
                if v.to_bits() == MISSING {
                    *v
                } else {
                    v * scale
                }
            };
            self.values.extend(other.values.iter().map(scaled));
        }
    }

    /// Keeps the rows at these positions, in this order.
    #[must_use]
    pub fn take(&self, rows: &[usize]) -> Self {
        let missing = f64::from_bits(MISSING);
        Self {
            values: rows
                .iter()
                .map(|r| self.values.get(*r).copied().unwrap_or(missing))
                .collect(),
        }
    }

    /// Whether any row has a value.
    pub fn has_values(&self) -> bool {
        self.values.iter().any(|v| v.to_bits() != MISSING)
    }

    /// The values, missing ones as `None`.
    pub fn iter(&self) -> impl Iterator<Item = Option<f64>> + '_ {
        self.values
            .iter()
            .map(|v| (v.to_bits() != MISSING).then_some(*v))
    }

    /// The raw values; missing ones are NaN.
    pub fn raw(&self) -> &[f64] {
        &self.values
    }

    /// Whether a raw value stands for "not logged".
    pub fn is_missing(value: f64) -> bool {
        value.to_bits() == MISSING
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
}
