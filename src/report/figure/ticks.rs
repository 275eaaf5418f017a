//! Round places on axes, and numbers for people.

/// A round place on an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// The value or step.
    pub value: f64,
    /// How it is written.
    pub label: String,
}

/// Digits that a number is shown with.
const DIGITS: i32 = 6;

/// A number with six digits at most, without zeros that say nothing.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let rounded = format!("{value:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..7).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent).max(0);
        return trimmed(&format!("{value:.*}", decimals as usize)).to_owned();
    }
    format!("{}e{exponent}", trimmed(mantissa))
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

/// A step number with thin spaces between groups of three digits, for axes and captions.
pub fn step(step: u64) -> String {
    const THIN: char = '\u{2009}';
    let digits = step.to_string();
    let mut out = String::with_capacity(digits.len() + 6);
    for (i, c) in digits.chars().enumerate() {
        // Four digits read well without a space.
        if i > 0 && digits.len() > 4 && (digits.len() - i).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(c);
    }
    out
}

/// The least of 1, 2 and 5 times a power of ten that is not below a value.
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|m| m * decade);
    let fits = steps.into_iter().find(|s| *s >= value * (1.0 - 1e-9));
    fits.unwrap_or(10.0 * decade)
}

/// About so many round values between two.
pub(super) fn linear(low: f64, high: f64, count: usize) -> Vec<Tick> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 {
        return Vec::new();
    }
    let ends = |every: f64| ((low / every - 1e-9).ceil(), (high / every + 1e-9).floor());
    let mut every = round_up(span / count.max(1) as f64);
    let (a, b) = ends(every);
    // One or two places say little: the next finer ones are few, too.
    if b - a < 2.0 {
        every = round_up(0.3 * every);
    }
    let (first, last) = ends(every);
    if !(every > 0.0 && (0.0..1000.0).contains(&(last - first))) {
        return Vec::new();
    }
    // Multiples of a power of ten are exact only when they are divided by it.
    let decimals = (-every.log10().floor()).max(0.0) as usize;
    (0..=(last - first) as usize)
        .map(|i| (first + i as f64) * every)
        .map(|value| Tick {
            value,
            label: label(value, every, decimals),
        })
        .collect()
}

fn label(value: f64, every: f64, decimals: usize) -> String {
    if value.abs() < every / 2.0 {
        return "0".to_owned();
    }
    if decimals <= 4 && value.abs() < 1e6 {
        return format!("{value:.decimals$}");
    }
    number(value)
}

/// Powers of ten between two positive values; of a narrow range 2 and 5 times them too, of a wide one every so-many-th.
pub(super) fn log(low: f64, high: f64, count: usize) -> Vec<Tick> {
    if !(low > 0.0 && high > low && high.is_finite()) {
        return Vec::new();
    }
    let decades = high.log10() - low.log10();
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let inside = |v: &f64| *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9);
    let tick = |value: f64| Tick {
        value,
        label: number(value),
    };
    let every = ((decades / count.max(1) as f64).ceil() as i32).max(1);
    let whole = (first..=last).filter(|e| e.rem_euclid(every) == 0);
    let whole: Vec<f64> = whole.map(|e| 10_f64.powi(e)).filter(inside).collect();
    if whole.len() >= 3 || whole.len() > count {
        return whole.into_iter().map(tick).collect();
    }
    for parts in [&[1.0, 3.0][..], &[1.0, 2.0, 5.0][..]] {
        let all = (first..=last).flat_map(|e| parts.iter().map(move |m| m * 10_f64.powi(e)));
        let all: Vec<f64> = all.filter(inside).collect();
        if all.len() >= 3 {
            return all.into_iter().map(tick).collect();
        }
    }
    // Less than half a decade: round values serve better than powers.
    linear(low, high, count)
}

/// About so many round steps between two.
pub(super) fn steps(from: u64, to: u64, count: usize) -> Vec<Tick> {
    let tick = |s: u64| Tick {
        value: s as f64,
        label: step(s),
    };
    if from == to {
        return vec![tick(from)];
    }
    let every = round_up((to - from) as f64 / count.max(1) as f64).max(1.0) as u64;
    let first = from.div_ceil(every);
    (first..=to / every).map(|n| tick(n * every)).collect()
}
