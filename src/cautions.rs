//! What a reader should know of the log before trusting what it shows: smoothed, sampled, averaged, clipped.

use std::fmt;

use crate::run::Run;

/// Something about the log that limits what it can show.
#[derive(Debug, Clone, PartialEq)]
pub enum Caution {
    /// The loss was smoothed before it was logged.
    Smoothed {
        /// Correlation of neighbouring rows apart from trends.
        correlation: f64,
    },
    /// Rows were picked out of a longer history.
    Sampled {
        /// Rows that are there.
        rows: usize,
    },
    /// Each row is a mean over steps.
    Averaged {
        /// Steps of a row.
        steps: u32,
    },
    /// Gradient norms were logged after clipping.
    Clipped {
        /// The threshold.
        at: f64,
    },
    /// Rows whose gradient norm is no number while the loss is one.
    Masked {
        /// How many.
        rows: usize,
    },
    /// The log has losses that may or may not be part of the loss.
    Parts {
        /// Their columns.
        names: Vec<String>,
    },
}

impl Caution {
    /// The name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Smoothed { .. } => "smoothed",
            Self::Sampled { .. } => "sampled",
            Self::Averaged { .. } => "averaged",
            Self::Clipped { .. } => "clipped",
            Self::Masked { .. } => "masked",
            Self::Parts { .. } => "parts",
        }
    }
}

impl fmt::Display for Caution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Smoothed { correlation } => write!(
                f,
                "the loss looks smoothed (neighbouring rows correlate by {correlation:.2}): short spikes do not show, and \
                 onsets are dated late; give the unsmoothed log"
            ),
            Self::Sampled { rows } => write!(
                f,
                "{rows} rows at uneven steps look like a sample of a longer history: short spikes may be missing; export the \
                 whole history (W&B: scan_history)"
            ),
            Self::Averaged { steps } => write!(
                f,
                "each row is the mean of {steps} steps: a spike of one step shows with a share of 1/{steps} of its height, \
                 and is dated to within {steps} steps"
            ),
            Self::Clipped { at } => write!(
                f,
                "the gradient norm never exceeds {at}: it was logged after clipping, and is no evidence of what it was \
                 before"
            ),
            Self::Masked { rows } => write!(
                f,
                "in {rows} rows the gradient norm is no number while the loss is one: the trainer may replace losses that \
                 are not finite (HF Trainer's logging_nan_inf_filter) or skip the update"
            ),
            Self::Parts { names } => write!(
                f,
                "the log also has {}: whether the loss contains it is not known, so compare it with no other run's",
                names.join(", ")
            ),
        }
    }
}

/// All cautions about a run, whose neighbouring losses may correlate like smoothed ones (see
/// [`Found::smoothed`](crate::detect::Found::smoothed)).
pub fn cautions(run: &Run, smoothed: Option<f64>) -> Vec<Caution> {
    let all = [
        smoothed.map(|correlation| Caution::Smoothed { correlation }),
        sampled(run),
        averaged(run),
        clipped(run),
        masked(run),
        parts(run),
    ];
    all.into_iter().flatten().collect()
}

/// Formats that people export from a tracker, which samples.
const EXPORTS: [&str; 3] = ["csv", "jsonl", "parquet"];
/// Rows that trackers sample to by default, and the fewest that tell an even from an uneven distance.
const SAMPLES: [usize; 5] = [500, 1000, 1500, 3000, 10_000];
/// Share of distances that differ from the usual one in a log that a trainer writes: holes and restarts.
const UNEVEN: f64 = 0.2;

fn sampled(run: &Run) -> Option<Caution> {
    let attempt = run.attempts.first().filter(|_| run.attempts.len() == 1)?;
    if !EXPORTS.contains(&run.meta.format.as_str()) || !SAMPLES.contains(&run.len()) {
        return None;
    }
    let usual = run.spacing();
    let gaps = run.steps[attempt.rows.clone()].windows(2);
    let uneven = gaps.filter(|w| w[1] - w[0] != usual).count();
    (uneven as f64 > UNEVEN * run.len() as f64).then_some(Caution::Sampled { rows: run.len() })
}

fn averaged(run: &Run) -> Option<Caution> {
    let steps = run.intervals.get(run.intervals.len() / 2).copied()?;
    (steps > 1).then_some(Caution::Averaged { steps })
}

fn clipped(run: &Run) -> Option<Caution> {
    if run.column("grad_norm").is_some() {
        return None;
    }
    let norms = run.column("grad_norm_clipped")?;
    let finite = norms.iter().flatten().filter(|v| v.is_finite());
    Some(Caution::Clipped {
        at: finite.fold(0.0, f64::max),
    })
}

fn masked(run: &Run) -> Option<Caution> {
    let (loss, norm) = (run.column("loss")?, run.column("grad_norm")?);
    let hidden = |row: &usize| {
        norm.get(*row).is_some_and(|v| !v.is_finite()) && loss.get(*row).is_some_and(f64::is_finite)
    };
    let rows = (0..run.len()).filter(hidden).count();
    (rows > 0).then_some(Caution::Masked { rows })
}

fn parts(run: &Run) -> Option<Caution> {
    const PARTS: [&str; 3] = ["moe_aux_loss", "z_loss", "mtp_loss"];
    if run.column("loss_ce").is_some() || run.column("loss").is_none() {
        return None;
    }
    let of = |name: &&str| {
        let family = name.split('/').next().unwrap_or(name);
        PARTS.contains(&family)
    };
    let mut names: Vec<String> = run
        .columns()
        .map(|(n, _)| n)
        .filter(of)
        .map(|n| n.split('/').next().unwrap_or(n).to_owned())
        .collect();
    names.dedup();
    (!names.is_empty()).then_some(Caution::Parts { names })
}
