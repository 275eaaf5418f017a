//! Likelihood ratios from counts, pulled towards the published ones.

use std::collections::BTreeMap;

use crate::calibrate::Labelled;
use crate::rules::{EXPERIMENT_GROUP, Evidence, RuleSet, caps};

/// A piece of evidence with the ratios that labelled runs give.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The cause it speaks of.
    pub cause: String,
    /// Its id within the rule.
    pub id: String,
    /// Likelihood ratio if it holds.
    pub ratio: f64,
    /// Likelihood ratio if it does not.
    pub ratio_if_not: f64,
    /// Runs of the cause in which it is known, and of those the ones in which it holds.
    pub of_cause: (usize, usize),
    /// The same for all other runs.
    pub of_others: (usize, usize),
}

/// Fits every piece of evidence to labelled runs. `strength` is the number of runs, on each side, that the published
/// ratio is worth. Results of experiments are left as they are: an injected fault recurs more cleanly than a cluster's.
pub fn fit(rules: &RuleSet, runs: &[&Labelled], strength: f64) -> Vec<Fitted> {
    let mut counts: BTreeMap<(String, String), [(usize, usize); 2]> = BTreeMap::new();
    for run in runs {
        for f in run.findings(rules) {
            let Some(holds) = f.holds else { continue };
            let side = usize::from(!run.is(&f.cause));
            let count = &mut counts.entry((f.cause, f.id)).or_default()[side];
            count.0 += 1;
            count.1 += usize::from(holds);
        }
    }
    let evidence = rules
        .iter()
        .flat_map(|r| r.evidence.iter().map(move |e| (r, e)));
    evidence
        .map(|(rule, e)| {
            let key = (rule.cause.clone(), e.id.clone());
            let [of_cause, of_others] = counts.get(&key).copied().unwrap_or_default();
            let (ratio, ratio_if_not) = if e.group == EXPERIMENT_GROUP {
                (e.ratio, e.ratio_if_not)
            } else {
                ratios(e, of_cause, of_others, strength)
            };
            Fitted {
                cause: key.0,
                id: key.1,
                ratio,
                ratio_if_not,
                of_cause,
                of_others,
            }
        })
        .collect()
}

/// Both ratios of a piece of evidence, given how often it is known and holds on either side.
fn ratios(
    e: &Evidence,
    of_cause: (usize, usize),
    of_others: (usize, usize),
    strength: f64,
) -> (f64, f64) {
    let (low, high) = caps(&e.group);
    let fitted = |published: f64, a: (usize, usize), b: (usize, usize)| {
        // Nothing was seen, or the author says that this answer tells nothing.
        let neutral = (published - 1.0).abs() < 1e-9;
        if neutral || a.0 == 0 || b.0 == 0 {
            published
        } else {
            pulled(published, a, b, strength).clamp(low, high)
        }
    };
    let failing = |(known, holds): (usize, usize)| (known, known - holds);
    (
        fitted(e.ratio, of_cause, of_others),
        fitted(e.ratio_if_not, failing(of_cause), failing(of_others)),
    )
}

/// A ratio of two shares, pulled towards the published one: the mean of the two logarithms, each weighted by how sure it
/// is. A share of n runs is as unsure as counting makes it; the published ratio is as sure as if it had been counted in
/// `strength` runs on each side. Where evidence holds in no run, next to nothing is learned.
fn pulled(published: f64, a: (usize, usize), b: (usize, usize), strength: f64) -> f64 {
    // Half a run more in each share keeps its logarithm finite (Haldane and Anscombe).
    let share = |(known, holds): (usize, usize)| (holds as f64 + 0.5) / (known as f64 + 1.0);
    let unsure =
        |(known, holds): (usize, usize)| 1.0 / (holds as f64 + 0.5) - 1.0 / (known as f64 + 1.0);
    let counted = (share(a) / share(b)).ln();
    let (sure, prior) = (1.0 / (unsure(a) + unsure(b)), strength / 2.0);
    ((sure * counted + prior * published.ln()) / (sure + prior)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(ratio: f64, if_not: f64) -> Evidence {
        let text = format!(
            "id = \"X\"\nwhen = \"loss_z > 5\"\nratio = {ratio}\nratio_if_not = {if_not}\ngroup = \"g\"\nsays = \"s\"\nbasis = \"judgement\"\nsource = \"s\""
        );
        toml::from_str(&text).unwrap()
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn what_was_never_seen_stays_as_published() {
        let e = evidence(4.0, 0.5);
        for seen in [((0, 0), (0, 0)), ((0, 0), (30, 2)), ((9, 9), (0, 0))] {
            let (ratio, if_not) = ratios(&e, seen.0, seen.1, 10.0);
            assert!(
                near(ratio, 4.0) && near(if_not, 0.5),
                "{seen:?}: {ratio} {if_not}"
            );
        }
        // It held in no run at all: that says little of how much it would mean.
        let (ratio, _) = ratios(&e, (11, 0), (42, 0), 10.0);
        assert!((3.0..4.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn runs_pull_it_and_the_caps_hold_it() {
        let e = evidence(2.0, 1.0);
        // ln 2 with weight 5; ln((10.5/11)/(5.5/21)) = ln 3.645 with weight 1/(1/10.5 - 1/11 + 1/5.5 - 1/21) = 7.23.
        let (ratio, if_not) = ratios(&e, (10, 10), (20, 5), 10.0);
        let weight = 1.0 / (1.0 / 10.5 - 1.0 / 11.0 + 1.0 / 5.5 - 1.0 / 21.0);
        let expected =
            (weight * (10.5 / 11.0 * 21.0 / 5.5_f64).ln() + 5.0 * 2.0_f64.ln()) / (weight + 5.0);
        assert!(
            near(ratio, expected.exp()) && near(if_not, 1.0),
            "{ratio} {if_not}"
        );
        let (most, _) = ratios(&e, (1000, 1000), (1000, 1), 10.0);
        let (least, _) = ratios(&e, (1000, 1), (1000, 1000), 10.0);
        assert!(near(most, 12.0) || most < 12.0 && most > 2.0, "{most}");
        assert!((0.1..1.0).contains(&least), "{least}");
    }
}
