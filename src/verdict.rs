//! From evidence to a verdict: posterior over the causes, doubt where it is due, and what would settle it.

use std::collections::BTreeMap;

use crate::features::feature;
use crate::rules::{CAUSES, Finding, Outlook, RuleSet, capped_log, experiment_kinds};
use crate::run::Run;

/// Probability that none of the known causes is to blame, before any evidence (rules/SOURCES.md).
const PRIOR_UNKNOWN: f64 = 0.07;
/// A cause is decided with at least this posterior …
const DECIDED: f64 = 0.5;
/// … and this many times the next one (rules/SOURCES.md).
const LEAD: f64 = 2.0;
/// All evidence together, for the cause and against the others, must multiply the odds of a decided cause by this much,
/// near "strong" (10) on Jeffreys' scale: a high prior and one weak sign do not make a verdict.
const STRONG: f64 = 8.0;
/// Below this posterior, with `unknown` in front, everything known speaks against every cause.
const UNEXPLAINED: f64 = 0.5;
/// Signals named as deciding, at most.
const MOST_SIGNALS: usize = 6;

/// The name of the mass that no cause gets.
pub const UNKNOWN: &str = "unknown";

/// What is concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// One cause has the lead that a decision needs.
    Decided,
    /// Two or more causes remain.
    Undecided,
    /// What is known speaks against every cause.
    Unexplained,
}

impl Outcome {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decided => "decided",
            Self::Undecided => "undecided",
            Self::Unexplained => "unexplained",
        }
    }
}

/// The verdict on an incident.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What is concluded.
    pub outcome: Outcome,
    /// The decided cause.
    pub cause: Option<String>,
    /// Posterior of every cause and of `unknown`, highest first; ties in order of name.
    pub posterior: Vec<(String, f64)>,
    /// All evidence, the strongest of the leading causes first.
    pub evidence: Vec<Finding>,
    /// What was not logged and could decide or change the order.
    pub deciding_signals: Vec<String>,
    /// The cheapest experiment that separates the two leading causes.
    pub experiment: Option<Separating>,
}

/// An experiment that separates two causes.
#[derive(Debug, Clone)]
pub struct Separating {
    /// Its kind.
    pub kind: String,
    /// What each of the two causes predicts.
    pub predictions: Vec<(String, Outlook, String)>,
}

impl Verdict {
    /// The causes in order, `unknown` left out.
    pub fn leading(&self) -> impl Iterator<Item = (&str, f64)> {
        self.posterior
            .iter()
            .filter(|(c, _)| c != UNKNOWN)
            .map(|(c, p)| (c.as_str(), *p))
    }

    /// The posterior of a cause.
    pub fn posterior_of(&self, cause: &str) -> f64 {
        self.posterior
            .iter()
            .find(|(c, _)| c == cause)
            .map_or(0.0, |(_, p)| *p)
    }
}

/// Weighs the evidence on an incident. What `without` names, as `ID` or `cause/ID`, is left out.
pub fn decide(
    run: &Run,
    rules: &RuleSet,
    mut evidence: Vec<Finding>,
    without: &[String],
) -> Verdict {
    evidence.retain(|f| {
        !without
            .iter()
            .any(|w| *w == f.id || *w == format!("{}/{}", f.cause, f.id))
    });
    let (posterior, outcome, cause) = conclusion(rules, &evidence);
    let deciding_signals = deciding(run, rules, &evidence, &posterior);
    let experiment = if outcome == Outcome::Decided {
        None
    } else {
        separating(rules, &posterior)
    };
    let place = |cause: &str| {
        posterior
            .iter()
            .position(|(c, _)| c == cause)
            .unwrap_or(usize::MAX)
    };
    let weight = |f: &Finding| f.ratio.ln().abs();
    evidence.sort_by(|a, b| {
        place(&a.cause)
            .cmp(&place(&b.cause))
            .then(weight(b).total_cmp(&weight(a)))
            .then(a.id.cmp(&b.id))
    });
    Verdict {
        outcome,
        cause,
        posterior,
        evidence,
        deciding_signals,
        experiment,
    }
}

/// The posterior, what it amounts to, and the cause if one is decided: a verdict without its explanation.
pub fn conclusion(
    rules: &RuleSet,
    evidence: &[Finding],
) -> (Vec<(String, f64)>, Outcome, Option<String>) {
    let posterior = posterior(rules, evidence, None);
    let (outcome, cause) = conclude(rules, &posterior);
    (posterior, outcome, cause)
}

/// Prior times capped ratios, normalised. `assume` answers one piece of evidence differently.
fn posterior(
    rules: &RuleSet,
    evidence: &[Finding],
    assume: Option<(usize, bool)>,
) -> Vec<(String, f64)> {
    let mut out: Vec<(String, f64)> = rules
        .iter()
        .map(|r| {
            (
                r.cause.clone(),
                r.prior * factor(evidence, &r.cause, assume),
            )
        })
        .collect();
    out.push((UNKNOWN.to_owned(), PRIOR_UNKNOWN));
    let total: f64 = out.iter().map(|(_, p)| p).sum();
    for (_, p) in &mut out {
        *p /= total;
    }
    let listed = |c: &str| CAUSES.iter().position(|k| *k == c).unwrap_or(CAUSES.len());
    out.sort_by(|a, b| b.1.total_cmp(&a.1).then(listed(&a.0).cmp(&listed(&b.0))));
    out
}

/// The factor by which the evidence multiplies the odds of a cause.
fn factor(evidence: &[Finding], cause: &str, assume: Option<(usize, bool)>) -> f64 {
    let of_cause = evidence
        .iter()
        .enumerate()
        .filter(|(_, f)| f.cause == cause);
    let ratios = of_cause.map(|(i, f)| (f.group.as_str(), answered(f, i, assume)));
    capped_log(ratios).exp()
}

/// The ratio of a piece of evidence, as it is or as it is assumed to be.
fn answered(f: &Finding, i: usize, assume: Option<(usize, bool)>) -> f64 {
    match assume {
        Some((at, true)) if at == i => f.ratio_if,
        Some((at, false)) if at == i => f.ratio_if_not,
        _ => f.ratio,
    }
}

/// The factor by which all evidence together multiplied the odds of a cause.
fn gained(rules: &RuleSet, cause: &str, posterior: f64) -> f64 {
    let total: f64 = PRIOR_UNKNOWN + rules.iter().map(|r| r.prior).sum::<f64>();
    let prior = rules.get(cause).map_or(0.0, |r| r.prior / total);
    let odds = |p: f64| p / (1.0 - p).max(f64::MIN_POSITIVE);
    odds(posterior) / odds(prior)
}

fn conclude(rules: &RuleSet, posterior: &[(String, f64)]) -> (Outcome, Option<String>) {
    let [(first, p), (_, next), ..] = posterior else {
        return (Outcome::Unexplained, None);
    };
    if first == UNKNOWN {
        let outcome = if *p >= UNEXPLAINED {
            Outcome::Unexplained
        } else {
            Outcome::Undecided
        };
        return (outcome, None);
    }
    if *p >= DECIDED && *p >= LEAD * next && gained(rules, first, *p) >= STRONG {
        (Outcome::Decided, Some(first.clone()))
    } else {
        (Outcome::Undecided, None)
    }
}

/// Signals whose absence leaves evidence unknown that could decide, or change who leads; the most telling first.
fn deciding(
    run: &Run,
    rules: &RuleSet,
    evidence: &[Finding],
    now: &[(String, f64)],
) -> Vec<String> {
    let conclusion = conclude(rules, now);
    let mut power: BTreeMap<&str, f64> = BTreeMap::new();
    for (i, f) in evidence
        .iter()
        .enumerate()
        .filter(|(_, f)| f.holds.is_none())
    {
        let strongest = [true, false]
            .into_iter()
            .filter_map(|answer| {
                let assume = Some((i, answer));
                let then = posterior(rules, evidence, assume);
                let leader = then.first().map(|x| &x.0) != now.first().map(|x| &x.0);
                (leader || conclude(rules, &then) != conclusion)
                    .then(|| then.first().map_or(0.0, |x| x.1))
            })
            .fold(0.0, f64::max);
        if strongest > 0.0 {
            for signal in missing(run, f) {
                let best = power.entry(signal).or_default();
                *best = best.max(strongest);
            }
        }
    }
    let mut out: Vec<(&str, f64)> = power.into_iter().collect();
    out.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    out.into_iter()
        .take(MOST_SIGNALS)
        .map(|(s, _)| s.to_owned())
        .collect()
}

fn missing<'a>(run: &'a Run, finding: &'a Finding) -> impl Iterator<Item = &'static str> + 'a {
    let needs = finding
        .features
        .iter()
        .filter_map(|f| feature(f))
        .flat_map(|f| f.needs.iter().copied());
    // What is not a signal (a replay, a restart marker) is the business of the experiment.
    needs.filter(move |signal| !signal.contains(' ') && !crate::features::has(run, signal))
}

/// The cheapest experiment for which the two leading causes predict different things.
fn separating(rules: &RuleSet, posterior: &[(String, f64)]) -> Option<Separating> {
    let mut causes = posterior
        .iter()
        .filter(|(c, _)| c != UNKNOWN)
        .filter_map(|(c, _)| rules.get(c));
    let (first, second) = (causes.next()?, causes.next()?);
    experiment_kinds().iter().find_map(|kind| {
        let of = |rule: &crate::rules::Rule| {
            let found = rule.experiments.iter().find(|x| x.kind == *kind)?;
            Some((rule.cause.clone(), found.predicts, found.note.clone()))
        };
        let (a, b) = (of(first)?, of(second)?);
        (a.1 != b.1).then(|| Separating {
            kind: (*kind).to_owned(),
            predictions: vec![a, b],
        })
    })
}
