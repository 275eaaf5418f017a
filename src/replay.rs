//! Is attempt B the same data as attempt A? Answered from data positions, seeds, and the correlation of the losses.

use crate::baseline::{pearson, residuals};
use crate::detect::{Incident, Kind};
use crate::run::{Attempt, Run};

/// Fewest common rows for a correlation (causes.md §5: with fewer, a scan over lags fires by chance).
const FEWEST: usize = 20;
/// Correlation above which the data are the same, and below which they differ (causes.md M2b, OP9).
const SAME: f64 = 0.8;
const OTHER: f64 = 0.3;
/// Half-width of the rolling median that detrends (causes.md M2).
const HALF: usize = 20;
/// Lags looked at, in rows, either way.
const LAGS: usize = 50;
/// Residuals are clipped at so many robust deviations, for a spike must not carry the correlation.
const CLIP: f64 = 4.0;

/// How the data of a later attempt relate to those of an earlier one over the steps that both hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Data {
    /// The same samples at the same steps.
    Same,
    /// The same stream with samples left out from this step of the later attempt on.
    Skipped {
        /// First step whose data position differs.
        from_step: u64,
        /// Samples left out.
        samples: u64,
    },
    /// Another order or seed.
    Other,
    /// Nothing tells.
    Unknown,
}

/// A later attempt that went over steps of an earlier one.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The earlier attempt.
    pub earlier: u32,
    /// The later attempt.
    pub later: u32,
    /// First common step.
    pub first_step: u64,
    /// Last common step.
    pub last_step: u64,
    /// Common rows with a loss on both sides, before the incident that is asked about.
    pub rows: usize,
    /// Correlation of the detrended losses at the same step, if there are enough rows.
    pub correlation: Option<f64>,
    /// The lag in rows with the highest correlation, and that correlation.
    pub best_lag: Option<(i64, f64)>,
    /// What the data were.
    pub data: Data,
    /// Learning rate of the later attempt over that of the earlier one at common steps, if logged.
    pub lr_ratio: Option<f64>,
}

/// What happened to an incident in a later attempt over the same steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It came again.
    Recurs,
    /// It did not come within the steps replayed, which reach far enough past the onset.
    Gone,
    /// The later attempt ends too early to tell.
    TooShort,
}

/// Compares two attempts over their common steps. `until` cuts the comparison of losses off before an incident.
pub fn compare(
    run: &Run,
    earlier: &Attempt,
    later: &Attempt,
    until: Option<u64>,
) -> Option<Replay> {
    let pairs = common(run, earlier, later);
    let (first, last) = (pairs.first()?, pairs.last()?);
    let quiet: Vec<(usize, usize)> = pairs
        .iter()
        .copied()
        .filter(|(a, _)| until.is_none_or(|u| run.steps[*a] < u))
        .collect();
    let (a, b) = losses(run, &quiet);
    let (correlation, best_lag) = correlate(&a, &b);
    Some(Replay {
        earlier: earlier.index,
        later: later.index,
        first_step: run.steps[first.0],
        last_step: run.steps[last.0],
        rows: a.len(),
        correlation,
        best_lag,
        data: data(run, &pairs, correlation),
        lr_ratio: lr_ratio(run, &pairs),
    })
}

/// Rows of the two attempts that hold the same step.
fn common(run: &Run, earlier: &Attempt, later: &Attempt) -> Vec<(usize, usize)> {
    let mut a = earlier.rows.start;
    let mut out = Vec::new();
    for b in later.rows.clone() {
        while a < earlier.rows.end && run.steps[a] < run.steps[b] {
            a += 1;
        }
        if a < earlier.rows.end && run.steps[a] == run.steps[b] {
            out.push((a, b));
        }
    }
    out
}

fn losses(run: &Run, pairs: &[(usize, usize)]) -> (Vec<f64>, Vec<f64>) {
    let Some(loss) = run.column("loss") else {
        return (Vec::new(), Vec::new());
    };
    pairs
        .iter()
        .filter_map(|(a, b)| Some((loss.finite(*a)?, loss.finite(*b)?)))
        .unzip()
}

fn correlate(a: &[f64], b: &[f64]) -> (Option<f64>, Option<(i64, f64)>) {
    if a.len() < FEWEST {
        return (None, None);
    }
    let (ra, rb) = (clipped(a), clipped(b));
    let same = pearson(&ra, &rb);
    let most = LAGS.min(a.len().saturating_sub(FEWEST));
    let mut best: Option<(i64, f64)> = same.map(|r| (0, r));
    for lag in 1..=most {
        let forth = pearson(&ra[lag..], &rb).map(|r| (signed(lag), r));
        let back = pearson(&ra, &rb[lag..]).map(|r| (-signed(lag), r));
        for candidate in [forth, back].into_iter().flatten() {
            if best.is_none_or(|(_, r)| candidate.1 > r) {
                best = Some(candidate);
            }
        }
    }
    (same, best)
}

fn signed(lag: usize) -> i64 {
    i64::try_from(lag).unwrap_or(i64::MAX)
}

fn clipped(y: &[f64]) -> Vec<f64> {
    let mut r = residuals(y, HALF);
    let sd = crate::baseline::mad(&r, 0.0).max(f64::MIN_POSITIVE);
    for v in &mut r {
        *v = v.clamp(-CLIP * sd, CLIP * sd);
    }
    r
}

fn data(run: &Run, pairs: &[(usize, usize)], correlation: Option<f64>) -> Data {
    if seeds_differ(run, pairs) {
        return Data::Other;
    }
    if let Some(skip) = position_jump(run, pairs) {
        return skip;
    }
    match correlation {
        Some(r) if r > SAME => Data::Same,
        Some(r) if r < OTHER => Data::Other,
        _ if positions_agree(run, pairs) && seeds_agree(run, pairs) => Data::Same,
        _ => Data::Unknown,
    }
}

const SEEDS: [&str; 4] = ["data_seed", "seed", "dataloader_seed", "shuffle_seed"];

fn seeds(run: &Run, pairs: &[(usize, usize)]) -> Option<(f64, f64)> {
    let (a, b) = *pairs.first()?;
    SEEDS
        .iter()
        .find_map(|s| Some((run.value(s, a)?, run.value(s, b)?)))
}

fn seeds_differ(run: &Run, pairs: &[(usize, usize)]) -> bool {
    seeds(run, pairs).is_some_and(|(a, b)| (a - b).abs() > 0.5)
}

fn seeds_agree(run: &Run, pairs: &[(usize, usize)]) -> bool {
    seeds(run, pairs).is_some_and(|(a, b)| (a - b).abs() < 0.5)
}

fn positions_agree(run: &Run, pairs: &[(usize, usize)]) -> bool {
    let Some(samples) = run.column("consumed_samples") else {
        return false;
    };
    pairs
        .iter()
        .all(|(a, b)| samples.finite(*a) == samples.finite(*b) && samples.finite(*a).is_some())
}

fn position_jump(run: &Run, pairs: &[(usize, usize)]) -> Option<Data> {
    let samples = run.column("consumed_samples")?;
    let shift = |(a, b): &(usize, usize)| Some(samples.finite(*b)? - samples.finite(*a)?);
    let last = pairs.iter().rev().find_map(shift)?;
    let (from, _) = pairs
        .iter()
        .find(|p| shift(p).is_some_and(|s| s.abs() > 0.5))?;
    (last > 0.5).then_some(Data::Skipped {
        from_step: run.steps[*from],
        samples: last as u64,
    })
}

fn lr_ratio(run: &Run, pairs: &[(usize, usize)]) -> Option<f64> {
    let lr = run.column("learning_rate")?;
    let mut ratios: Vec<f64> = pairs
        .iter()
        .filter_map(|(a, b)| Some(lr.finite(*b)? / lr.finite(*a).filter(|v| *v > 0.0)?))
        .collect();
    (!ratios.is_empty()).then(|| crate::baseline::median(&mut ratios))
}

/// What became of an incident of attempt `earlier` in a later attempt, whose own incidents are given.
pub fn outcome(
    run: &Run,
    incident: &Incident,
    later: &Attempt,
    incidents: &[Incident],
) -> Option<Outcome> {
    let onset = run.steps[incident.onset_row];
    let first = run.steps[later.rows.start];
    let last = run.steps[later.rows.end - 1];
    if first > onset || last < onset {
        return (first <= onset && last < onset).then_some(Outcome::TooShort);
    }
    let peak = incident.peak_row.map_or(onset, |r| run.steps[r]);
    let before = onset.saturating_sub(50.max(3 * run.spacing()));
    let again = |i: &&Incident| {
        let at = run.steps[i.onset_row];
        i.attempt == later.index
            && i.signal == incident.signal
            && at >= before
            && comparable(i, incident)
    };
    if incidents.iter().any(|i| again(&i)) {
        return Some(Outcome::Recurs);
    }
    // A slow climb needs as long again to show as it took to peak.
    let need = onset + (peak - onset).clamp(10, 200) + 2 * run.spacing();
    Some(if last >= need {
        Outcome::Gone
    } else {
        Outcome::TooShort
    })
}

/// Whether a later incident is of a size with the first: a blip is not the spike coming again.
fn comparable(later: &Incident, first: &Incident) -> bool {
    if later.kind == Kind::NonFinite || first.kind == Kind::NonFinite {
        return true;
    }
    match (later.excess, first.excess) {
        (Some(l), Some(f)) => l > 0.25 * f,
        _ => true,
    }
}
