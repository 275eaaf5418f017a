//! How far stated posteriors can be trusted, on runs that were not fitted on.

use std::collections::{BTreeMap, BTreeSet};

use crate::calibrate::{Fitted, Labelled, fit};
use crate::rules::{Finding, RuleSet};
use crate::verdict::{Outcome, UNKNOWN, conclusion};

/// The verdict on a run that was held back.
#[derive(Debug)]
pub struct Judged {
    /// The cause by the label; `unknown` for none of them.
    pub truth: String,
    /// The decided cause, or `undecided`.
    pub said: String,
    /// The leading cause and its posterior.
    pub leading: (String, f64),
    /// Whether the leading cause is what the label says.
    pub right: bool,
    /// Sum over the causes of the squared difference between posterior and truth, from 0 to 2.
    pub brier: f64,
}

/// Verdicts on held-back runs, put together.
#[derive(Debug, Default)]
pub struct Reliability {
    /// Families that were held back in turn.
    pub families: usize,
    /// One verdict a run.
    pub judged: Vec<Judged>,
}

impl Reliability {
    /// By fifths of the stated posterior: runs, the mean of what was stated, the share that was right.
    pub fn fifths(&self) -> [(usize, f64, f64); 5] {
        let mut out = [(0, 0.0, 0.0); 5];
        for j in &self.judged {
            let at = ((j.leading.1 * 5.0) as usize).min(4);
            out[at].0 += 1;
            out[at].1 += j.leading.1;
            out[at].2 += f64::from(u8::from(j.right));
        }
        for (n, stated, right) in &mut out {
            let n = (*n).max(1) as f64;
            (*stated, *right) = (*stated / n, *right / n);
        }
        out
    }

    /// Mean Brier score.
    pub fn brier(&self) -> f64 {
        self.judged.iter().map(|j| j.brier).sum::<f64>() / self.judged.len().max(1) as f64
    }

    /// Truth against what was said, with the number of runs.
    pub fn confusion(&self) -> BTreeMap<(&str, &str), usize> {
        let mut out = BTreeMap::new();
        for j in &self.judged {
            *out.entry((j.truth.as_str(), j.said.as_str())).or_default() += 1;
        }
        out
    }

    /// Runs with a cause: decided and right, decided and wrong, undecided.
    pub fn verdicts(&self) -> (usize, usize, usize) {
        let mut out = (0, 0, 0);
        for j in self.judged.iter().filter(|j| j.truth != UNKNOWN) {
            match (j.said == UNDECIDED, j.right) {
                (true, _) => out.2 += 1,
                (false, true) => out.0 += 1,
                (false, false) => out.1 += 1,
            }
        }
        out
    }
}

const UNDECIDED: &str = "undecided";

/// Holds each family back in turn, fits on the others, and judges it.
pub fn cross_validate(rules: &RuleSet, runs: &[Labelled], strength: f64) -> Reliability {
    let families: BTreeSet<&str> = runs.iter().map(|r| r.family.as_str()).collect();
    let mut out = Reliability {
        families: families.len(),
        judged: Vec::with_capacity(runs.len()),
    };
    for family in families {
        let (held, others): (Vec<&Labelled>, Vec<&Labelled>) =
            runs.iter().partition(|r| r.family == family);
        let fitted = fit(rules, &others, strength);
        out.judged
            .extend(held.into_iter().map(|r| judge(rules, &fitted, r)));
    }
    out
}

fn judge(rules: &RuleSet, fitted: &[Fitted], run: &Labelled) -> Judged {
    let mut evidence = run.findings(rules);
    for (f, new) in evidence.iter_mut().zip(fitted) {
        apply(f, new);
    }
    let (posterior, outcome, cause) = conclusion(rules, &evidence);
    let said = match (outcome, cause) {
        (Outcome::Decided, Some(cause)) => cause,
        _ => UNDECIDED.to_owned(),
    };
    let truth = run.cause.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let right = |c: &str| c == truth || run.is(c);
    let leading = posterior.first().cloned().unwrap_or_default();
    let brier = posterior
        .iter()
        .map(|(c, p)| (p - f64::from(u8::from(*c == truth))).powi(2))
        .sum();
    Judged {
        right: right(&leading.0),
        truth,
        said,
        leading,
        brier,
    }
}

/// Evidence and fit come from the same rules, in the same order.
fn apply(f: &mut Finding, new: &Fitted) {
    debug_assert!(f.cause == new.cause && f.id == new.id);
    f.ratio_if = new.ratio;
    f.ratio_if_not = new.ratio_if_not;
    f.ratio = match f.holds {
        Some(true) => new.ratio,
        Some(false) => new.ratio_if_not,
        None => 1.0,
    };
}
