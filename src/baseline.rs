//! Robust level, trend and scale of a series: pure functions over slices.

/// Makes a median absolute deviation the standard deviation of a normal sample.
pub const MAD_TO_SD: f64 = 1.4826;

/// Standard error of a median over that of a mean, of normal values.
pub const MEDIAN_TO_MEAN: f64 = 1.2533;

/// The value at a share of the sorted sample, 0 to 1; reorders the slice. NaN for an empty one.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let at = ((values.len() - 1) as f64 * share.clamp(0.0, 1.0)).round() as usize;
    select(values, at)
}

/// The value that would stand at a place of the sorted slice; reorders the slice, smaller ones before it.
fn select(values: &mut [f64], at: usize) -> f64 {
    // As in `total_cmp`: flipping the other bits of negative numbers makes the order of floats that of integers. Done
    // once a value instead of twice a comparison.
    let key = |v: &f64| v.to_bits().cast_signed();
    let flip = |values: &mut [f64]| {
        for v in values {
            let others = (key(v) >> 63).cast_unsigned() >> 1;
            *v = f64::from_bits(v.to_bits() ^ others);
        }
    };
    flip(values);
    values.select_nth_unstable_by_key(at, key);
    flip(values);
    values[at]
}

/// The median; reorders the slice. The mean of the middle two for an even number. NaN for an empty one.
pub fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len() / 2;
    let upper = select(values, middle);
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = values[..middle]
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, upper)
}

/// The median of a copy.
pub fn median_of(values: &[f64]) -> f64 {
    median(&mut values.to_vec())
}

/// Robust standard deviation about a centre: 1.4826 times the median absolute deviation.
pub fn mad(values: &[f64], centre: f64) -> f64 {
    let mut deviations: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    MAD_TO_SD * median(&mut deviations)
}

/// The smallest positive difference between values: the step in which the log prints. Zero if all are equal.
pub fn quantum(values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let gaps = sorted
        .windows(2)
        .map(|w| w[1] - w[0])
        .filter(|d| *d > 1e-12);
    let smallest = gaps.fold(f64::INFINITY, f64::min);
    if smallest.is_finite() { smallest } else { 0.0 }
}

/// Slope by two half medians (rules/SOURCES.md): robust, and linear in time.
pub fn half_median_slope(x: &[f64], y: &[f64]) -> f64 {
    let half = y.len() / 2;
    if half == 0 {
        return 0.0;
    }
    let (early_x, late_x) = (median_of(&x[..half]), median_of(&x[y.len() - half..]));
    let (early_y, late_y) = (median_of(&y[..half]), median_of(&y[y.len() - half..]));
    if late_x > early_x {
        (late_y - early_y) / (late_x - early_x)
    } else {
        0.0
    }
}

/// Theil–Sen slope: the median of the slopes of all pairs. At most 200 points are used, evenly picked.
pub fn theil_sen(x: &[f64], y: &[f64]) -> Option<f64> {
    let picked = picks(x.len());
    let mut slopes = Vec::with_capacity(picked.len() * picked.len() / 2);
    for (n, &i) in picked.iter().enumerate() {
        for &j in &picked[n + 1..] {
            let dx = x[j] - x[i];
            let slope = (y[j] - y[i]) / dx;
            if dx > 0.0 && slope.is_finite() {
                slopes.push(slope);
            }
        }
    }
    (!slopes.is_empty()).then(|| median(&mut slopes))
}

/// Mann–Kendall τ of a series: −1 always falling, 1 always rising. At most 200 points are used, evenly picked.
pub fn kendall(y: &[f64]) -> Option<f64> {
    let picked = picks(y.len());
    let (mut up, mut pairs) = (0.0, 0.0);
    for (n, &i) in picked.iter().enumerate() {
        for &j in &picked[n + 1..] {
            pairs += 1.0;
            up += f64::from(i8::from(y[j] > y[i]) - i8::from(y[j] < y[i]));
        }
    }
    (pairs > 0.0).then(|| up / pairs)
}

fn picks(len: usize) -> Vec<usize> {
    const MOST: usize = 200;
    if len <= MOST {
        (0..len).collect()
    } else {
        (0..MOST).map(|i| i * (len - 1) / (MOST - 1)).collect()
    }
}

/// Pearson correlation of pairs. `None` for fewer than three pairs or a constant side.
pub fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let n = a.len().min(b.len());
    if n < 3 {
        return None;
    }
    let mean = |v: &[f64]| v[..n].iter().sum::<f64>() / n as f64;
    let (ma, mb) = (mean(a), mean(b));
    let (mut sab, mut saa, mut sbb) = (0.0, 0.0, 0.0);
    for (x, y) in a[..n].iter().zip(&b[..n]) {
        sab += (x - ma) * (y - mb);
        saa += (x - ma) * (x - ma);
        sbb += (y - mb) * (y - mb);
    }
    (saa > 0.0 && sbb > 0.0).then(|| sab / (saa * sbb).sqrt())
}

/// Residuals from a two-sided rolling median of `half` values on either side.
pub fn residuals(y: &[f64], half: usize) -> Vec<f64> {
    // The values around are kept sorted: one comes and one goes a row, which is cheaper than a median of all anew.
    let mut around: Vec<f64> = Vec::with_capacity(2 * half + 1);
    let place = |sorted: &[f64], v: f64| sorted.partition_point(|w| w.total_cmp(&v).is_lt());
    let mut out = Vec::with_capacity(y.len());
    for i in 0..y.len() {
        let come = if i == 0 { 0 } else { i + half }..(i + half + 1);
        for v in y.get(come.start..come.end.min(y.len())).unwrap_or_default() {
            around.insert(place(&around, *v), *v);
        }
        if i > half {
            around.remove(place(&around, y[i - half - 1]));
        }
        let middle = around.len() / 2;
        let median = if around.len() % 2 == 1 {
            around[middle]
        } else {
            f64::midpoint(around[middle - 1], around[middle])
        };
        out.push(y[i] - median);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn rolling_residuals_are_those_of_medians_taken_anew() {
        let y: Vec<f64> = (0..97).map(|i| f64::from(i * 37 % 53) - 20.0).collect();
        for half in [0, 1, 20, 96, 200] {
            let around = |i: usize| &y[i.saturating_sub(half)..(i + half + 1).min(y.len())];
            let anew = (0..y.len()).map(|i| y[i] - median_of(around(i)));
            assert!(residuals(&y, half).into_iter().eq(anew), "{half}");
        }
        assert!(residuals(&[], 3).is_empty());
    }

    #[test]
    fn medians_and_quantiles() {
        assert!(near(median_of(&[3.0, 1.0, 2.0]), 2.0));
        assert!(near(median_of(&[4.0, 1.0, 2.0, 3.0]), 2.5));
        assert!(near(quantile(&mut [1.0, 2.0, 3.0, 4.0, 5.0], 0.75), 4.0));
        assert!(near(median_of(&[-3.0, 1.0, -2.0, -0.0, 0.5]), 0.0));
        assert!(near(quantile(&mut [-1.0, -5.0, 2.0], 0.0), -5.0));
        assert!(median_of(&[1.0, f64::NAN, f64::NAN]).is_nan());
        assert!(median_of(&[]).is_nan());
        assert!(near(mad(&[1.0, 2.0, 3.0, 4.0, 100.0], 3.0), MAD_TO_SD));
    }

    #[test]
    fn the_quantum_of_bf16_losses() {
        assert!(near(quantum(&[1.6562, 1.664_012_5, 1.6562]), 0.007_812_5));
        assert!(near(quantum(&[2.0, 2.0]), 0.0));
    }

    #[test]
    fn slopes_ignore_an_outlier() {
        let x: Vec<f64> = (0..20).map(f64::from).collect();
        let mut y: Vec<f64> = x.iter().map(|v| 5.0 - 0.5 * v).collect();
        y[7] = 1000.0;
        assert!(near(theil_sen(&x, &y).unwrap(), -0.5));
        assert!((half_median_slope(&x, &y) + 0.5).abs() < 0.06);
    }

    #[test]
    fn correlation_and_trend() {
        assert!(near(
            pearson(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]).unwrap(),
            1.0
        ));
        assert_eq!(pearson(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert!(near(kendall(&[1.0, 2.0, 3.0, 4.0]).unwrap(), 1.0));
    }
}
