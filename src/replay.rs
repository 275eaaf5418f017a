//! Is attempt B the same data as attempt A? Answered from data positions, seeds, and the correlation of the losses.

mod hole;
mod twin;

use crate::baseline::{pearson, residuals};
use crate::detect::{Incident, Kind};
use crate::run::{Attempt, Run};

pub use twin::known;

/// Fewest common rows for a correlation (rules/SOURCES.md: with fewer, a scan over lags fires by chance).
const FEWEST: usize = 20;
/// Correlation above which the data are the same, and below which they differ (rules/SOURCES.md M2b, OP9).
pub(crate) const SAME: f64 = 0.8;
const OTHER: f64 = 0.3;
/// Half-width of the rolling median that detrends (rules/SOURCES.md M2).
const HALF: usize = 20;
/// Lags looked at, in rows, either way: more cost time in proportion, and a loader that comes back is off by few batches.
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

/// Pairs of attempts that are compared at most, the latest first: a run of hundreds of restarts has thousands.
const MOST_PAIRS: usize = 200;

/// Every pair of attempts with steps in common, in order of the earlier and the later one. The losses are compared up to
/// the first incident of either.
pub fn pairs(run: &Run, incidents: &[Incident]) -> Vec<Replay> {
    let overlap = |a: &Attempt, b: &Attempt| {
        let ends = |x: &Attempt| (run.steps[x.rows.start], run.steps[x.rows.end - 1]);
        let ((a0, a1), (b0, b1)) = (ends(a), ends(b));
        a0 <= b1 && b0 <= a1
    };
    let both = run.attempts.iter().rev().flat_map(|b| {
        let earlier = run.attempts[..b.index as usize].iter().rev();
        earlier.map(move |a| (a, b))
    });
    let first_incident = |a: &Attempt, b: &Attempt| {
        let of_either = |i: &&Incident| {
            i.signal == "loss"
                && (i.attempt == a.index || i.attempt == b.index)
                && run.steps[i.onset_row] >= run.steps[b.rows.start]
        };
        let onsets = incidents.iter().filter(of_either);
        onsets.map(|i| run.steps[i.onset_row]).min()
    };
    let mut out: Vec<Replay> = both
        .filter(|(a, b)| overlap(a, b))
        .take(MOST_PAIRS)
        .filter_map(|(a, b)| compare(run, a, b, first_incident(a, b)))
        .collect();
    out.sort_by_key(|r| (r.earlier, r.later));
    out
}

/// Rows of the two attempts that hold the same step.
fn common(run: &Run, earlier: &Attempt, later: &Attempt) -> Vec<(usize, usize)> {
    let steps = |x: &Attempt| &run.steps[x.rows.clone()];
    let (Some(first), Some(last)) = (steps(later).first(), steps(earlier).last()) else {
        return Vec::new();
    };
    // Of hundreds of attempts most have nothing in common.
    let mut a = earlier.rows.start + steps(earlier).partition_point(|s| s < first);
    let end = later.rows.start + steps(later).partition_point(|s| s <= last);
    let mut out = Vec::new();
    for b in later.rows.start..end {
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

/// Correlation of two losses row by row, their trends taken off and their spikes clipped.
pub(crate) fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    (a.len() >= FEWEST).then(|| pearson(&clipped(a, HALF), &clipped(b, HALF)))?
}

/// The same, and the lag with the highest.
fn correlate(a: &[f64], b: &[f64]) -> (Option<f64>, Option<(i64, f64)>) {
    if a.len() < FEWEST {
        return (None, None);
    }
    let (ra, rb) = (clipped(a, HALF), clipped(b, HALF));
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

fn clipped(y: &[f64], half: usize) -> Vec<f64> {
    let mut r = residuals(y, half);
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
    if let Some(skip) = position_jump(run, pairs).or_else(|| hole::left_out(run, pairs)) {
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

/// What became of an incident in an attempt, of the same run or another, that goes over the same steps.
pub fn outcome(
    run: &Run,
    incident: &Incident,
    other: &Run,
    attempt: &Attempt,
    incidents: &[Incident],
) -> Option<Outcome> {
    let onset = run.steps[incident.onset_row];
    let first = other.steps[attempt.rows.start];
    let last = other.steps[attempt.rows.end - 1];
    if first > onset {
        return None;
    }
    let rise = incident
        .peak_row
        .map_or(0, |r| run.steps[r] - onset)
        .clamp(10, 200);
    let near = onset.saturating_sub(50.max(3 * run.spacing()))..=onset + 2 * rise + AFTER_STEPS;
    let again = |i: &Incident| {
        i.attempt == attempt.index
            && i.signal == incident.signal
            && near.contains(&other.steps[i.onset_row])
            && comparable(i, incident)
    };
    if incidents.iter().any(again) {
        return Some(Outcome::Recurs);
    }
    // A slow climb needs as long again to show as it took to peak.
    let enough = last >= onset + rise + 2 * run.spacing();
    Some(if enough {
        Outcome::Gone
    } else {
        Outcome::TooShort
    })
}

/// Steps after an onset within which an incident of a replay is the same one, shifted.
const AFTER_STEPS: u64 = 100;

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

/// Another run over the same steps, given by the user.
#[derive(Debug)]
pub struct OtherRun {
    /// Where it was read from.
    pub path: String,
    /// What was changed in it.
    pub kind: OtherKind,
    /// The run.
    pub run: Run,
    /// Its incidents.
    pub incidents: Vec<Incident>,
}

/// What was changed in another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherKind {
    /// Another run of the same recipe and data order: a twin or a sibling.
    Twin,
    /// Nothing: an exact replay.
    Same,
    /// The batches were skipped.
    Skip,
    /// The data came in another order.
    Reseed,
    /// The learning rate was lowered.
    LowerLr,
    /// Attention, softmax or state in higher precision.
    Precision,
    /// The optimizer state was reset.
    ResetOptimizer,
    /// The same batches from an earlier checkpoint.
    EarlierCheckpoint,
    /// Other nodes.
    OtherNodes,
    /// Something that should not matter, to see how often a change alone moves the incident.
    Sham,
}

impl OtherKind {
    /// Names on the command line.
    pub const NAMES: [(&'static str, Self); 10] = [
        ("twin", Self::Twin),
        ("same", Self::Same),
        ("skip", Self::Skip),
        ("reseed", Self::Reseed),
        ("lr", Self::LowerLr),
        ("precision", Self::Precision),
        ("reset-optimizer", Self::ResetOptimizer),
        ("earlier-checkpoint", Self::EarlierCheckpoint),
        ("other-nodes", Self::OtherNodes),
        ("sham", Self::Sham),
    ];

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, k)| *k)
    }
}

/// What became of an incident in the other runs of a kind.
pub fn outcomes<'a>(
    run: &'a Run,
    incident: &'a Incident,
    others: &'a [OtherRun],
    kind: OtherKind,
) -> impl Iterator<Item = Outcome> + 'a {
    others
        .iter()
        .filter(move |o| o.kind == kind)
        .flat_map(move |o| {
            let attempts = o.run.attempts.iter();
            attempts.filter_map(|a| outcome(run, incident, &o.run, a, &o.incidents))
        })
}

/// z of the loss of the same batch in another run of the same data order: how hard the batch was for other weights.
/// Unknown unless the losses of the two runs before the incident show that the data are the same.
pub fn batch_z(run: &Run, incident: &Incident, other: &OtherRun) -> Option<f64> {
    let onset = run.steps[incident.onset_row];
    let mine = &run.attempts[incident.attempt as usize];
    let z = |attempt: &Attempt| {
        let (a, b) = shared_losses(run, mine, &other.run, attempt, onset);
        let same = a.len() >= FEWEST && pearson(&clipped(&a, HALF), &clipped(&b, HALF))? > SAME;
        let row = other
            .run
            .row_at(attempt, onset)
            .filter(|r| other.run.steps[*r] == onset)?;
        same.then(|| local_z(&other.run, attempt, row))?
    };
    other.run.attempts.iter().find_map(z)
}

/// Losses of both runs at the common steps of the 400 before an onset.
fn shared_losses(
    run: &Run,
    mine: &Attempt,
    other: &Run,
    theirs: &Attempt,
    onset: u64,
) -> (Vec<f64>, Vec<f64>) {
    let (Some(a), Some(b)) = (run.column("loss"), other.column("loss")) else {
        return (Vec::new(), Vec::new());
    };
    let from = onset.saturating_sub(400 * run.spacing());
    let rows = mine
        .rows
        .clone()
        .filter(|r| (from..onset).contains(&run.steps[*r]));
    rows.filter_map(|r| {
        let there = other
            .row_at(theirs, run.steps[r])
            .filter(|t| other.steps[*t] == run.steps[r])?;
        Some((a.finite(r)?, b.finite(there)?))
    })
    .unzip()
}

/// Robust z of a row's loss among the 20 rows on either side.
fn local_z(run: &Run, attempt: &Attempt, row: usize) -> Option<f64> {
    let loss = run.column("loss")?;
    let from = row.saturating_sub(HALF).max(attempt.rows.start);
    let until = (row + HALF + 1).min(attempt.rows.end);
    let around: Vec<f64> = (from..until)
        .filter(|r| *r != row)
        .filter_map(|r| loss.finite(r))
        .collect();
    let centre = crate::baseline::median_of(&around);
    let scale = crate::baseline::mad(&around, centre);
    (around.len() >= HALF && scale > 0.0).then(|| Some((loss.finite(row)? - centre) / scale))?
}
