//! What to do: go back, skip, wait or stop; to which checkpoint, which batches, at what cost, and why not.

mod action;
mod cost;
mod health;
mod rollback;
mod skip;
mod strikes;

use crate::checkpoints::Inventory;
use crate::data_order::{DataOrder, Samples};
use crate::detect::Incident;
use crate::features::{Row, Value};
use crate::replay::Replay;
use crate::resume::{Framework, Request, Resume, resume};
use crate::rules::RuleSet;
use crate::run::{EventKind, Run};
use crate::verdict::{Outcome, Verdict};

pub use action::Action;
pub use cost::{Cost, Price, Prices, Source, Waiting};
pub use health::{Health, Reading, contaminated};
pub use rollback::Candidate;

use rollback::Choice;
use strikes::Strikes;

/// β₂ that is assumed where the log does not print it: what nearly all large runs use.
pub const USUAL_BETA2: f64 = 0.95;

/// Everything a plan is made from.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// The run.
    pub run: &'a Run,
    /// The incident.
    pub incident: &'a Incident,
    /// All incidents of the run.
    pub incidents: &'a [Incident],
    /// Its features.
    pub features: &'a Row,
    /// The verdict on it.
    pub verdict: &'a Verdict,
    /// The rules, for their remedies.
    pub rules: &'a RuleSet,
    /// The checkpoints that exist.
    pub inventory: &'a Inventory,
    /// The framework, if known.
    pub framework: Option<&'a Framework>,
    /// Which samples the updates of the attempt read, if the log tells.
    pub order: Option<&'a DataOrder>,
    /// Later attempts that went over the steps of earlier ones.
    pub replays: &'a [Replay],
    /// What the user tells of times and prices.
    pub prices: &'a Prices,
}

/// What to do about an incident.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is advised.
    pub action: Action,
    /// Why.
    pub why: String,
    /// The best way back, whatever is advised.
    pub rollback: Option<Rollback>,
    /// Updates done at the newest checkpoint that would be old enough.
    pub wanted: u64,
    /// The batches to leave out, where that may help.
    pub skip: Option<Skip>,
    /// What else to change: the remedy of the decided cause, or one for each of the leading two.
    pub change: Vec<String>,
    /// How to carry it out.
    pub resume: Option<Resume>,
    /// What is asked of a framework; its checkpoint means nothing without a way back.
    pub request: Request,
    /// What waiting, going back and stopping cost.
    pub cost: Cost,
    /// The checkpoints looked at, the nearest first.
    pub candidates: Vec<Candidate>,
}

/// A way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollback {
    /// The checkpoint, in the source's numbers.
    pub step: u64,
    /// Its path, if known.
    pub path: Option<String>,
    /// Steps to be done again, up to the last one logged.
    pub steps_lost: u64,
    /// Why this one.
    pub why: String,
}

/// Batches to leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// Inclusive pairs of steps, in the source's numbers.
    pub steps: Vec<(u64, u64)>,
    /// Half-open ranges of samples; empty if the log has no data positions.
    pub samples: Vec<Samples>,
    /// Number of batches.
    pub batches: u64,
    /// Why these.
    pub why: String,
}

/// Makes the plan for an incident.
pub fn plan(s: &Situation<'_>) -> Plan {
    let strikes = Strikes::of(s);
    let Choice {
        wanted,
        rollback,
        candidates,
        no_way,
    } = rollback::choose(s, &strikes);
    // Batches that were left out without help are not left out again.
    let skip = skip::choose(s, s.order).filter(|_| !strikes.skipped);
    let (action, mut why) = action::advise(s, &strikes, rollback.is_some(), skip.is_some());
    if let Some(no_way) = no_way {
        why = format!("{why}; {no_way}");
    }
    let request = request(s, rollback.as_ref(), skip.as_ref());
    let resume = rollback.as_ref().map(|_| how(s, &request));
    Plan {
        cost: cost::of(s, rollback.as_ref()),
        action,
        why,
        rollback,
        wanted,
        skip,
        change: change(s, &strikes),
        resume,
        request,
        candidates,
    }
}

/// The plan in numbers that no framework's habits have touched.
fn request(s: &Situation<'_>, back: Option<&Rollback>, skip: Option<&Skip>) -> Request {
    let checkpoint = back.map_or(0, |b| b.step);
    let updates = skip
        .and_then(|k| k.steps.first())
        .map(|(a, b)| (s.run.updates_after(*a), s.run.updates_after(*b)));
    let ramp = updates.zip(s.order).is_some_and(|((_, last), o)| {
        matches!((o.batch_at(checkpoint + 1), o.batch_at(last)), (Some(a), Some(b)) if a != b)
    });
    let events = s.run.events.iter();
    let earlier = events
        .filter(|e| e.kind == EventKind::DataSkipped)
        .filter_map(|e| e.path.clone().or(e.step.map(|x| x.to_string())))
        .collect();
    let fact = |names: &[&str]| s.run.fact(names).filter(|v| *v >= 1.0).map(|v| v as u64);
    let batch = updates
        .zip(s.order)
        .and_then(|((first, _), o)| o.batch_at(first));
    let micro = fact(&["micro_batch_size", "train_micro_batch_size_per_gpu"]);
    let ranks = fact(&["data_parallel_size", "dp_world_size"]);
    let micro_batches = batch
        .zip(micro.zip(ranks))
        .map(|(b, (m, r))| b / (m * r).max(1));
    Request {
        checkpoint,
        path: back.and_then(|b| b.path.clone()),
        skip: updates,
        samples: skip.and_then(|k| k.samples.first().copied()),
        batch,
        micro_batches: micro_batches.filter(|n| *n >= 1),
        sequence_length: fact(&["seq_length", "seq_len", "max_seq_len"]),
        earlier,
        ramp,
    }
}

fn how(s: &Situation<'_>, request: &Request) -> Resume {
    let mut out = resume(s.framework, request);
    if !s.run.meta.base_known {
        out.caveats.push("whether the log counts steps from 0 or 1 could not be told: 1 is assumed (--step-base)".to_owned());
    }
    out
}

fn change(s: &Situation<'_>, strikes: &Strikes) -> Vec<String> {
    let remedy = |cause: &str| s.rules.get(cause).map(|r| r.remedy.change.clone());
    if strikes.again() {
        return another(s, strikes, &remedy);
    }
    match (&s.verdict.cause, s.verdict.outcome) {
        (Some(cause), _) => remedy(cause).into_iter().collect(),
        (None, Outcome::Unexplained) => Vec::new(),
        (None, _) => {
            let leading = s.verdict.leading().take(2);
            leading
                .filter_map(|(c, _)| Some(format!("if {c}: {}", remedy(c)?)))
                .collect()
        }
    }
}

/// On the second strike: the remedy of the leading cause that was not tried yet, and what to do where it was.
fn another(
    s: &Situation<'_>,
    strikes: &Strikes,
    remedy: &impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let open = s
        .verdict
        .leading()
        .filter(|(cause, _)| !strikes.tried(cause))
        .filter_map(|(cause, _)| Some((cause, remedy(cause)?)));
    let lead = ["as for", "if that was done before it came again, as for"];
    lead.iter()
        .zip(open)
        .map(|(lead, (cause, remedy))| format!("{lead} {cause}: {remedy}"))
        .collect()
}

impl Situation<'_> {
    /// A number among the features.
    fn number(&self, name: &str) -> Option<f64> {
        match self.features.get(name).copied().flatten()? {
            Value::Number(v) => Some(v),
            Value::Bool(_) => None,
        }
    }

    /// Memory of Adam's second moment in steps, and whether β₂ had to be assumed.
    fn memory(&self) -> (f64, bool) {
        match self.run.beta2() {
            Some(b) => (1.0 / (1.0 - b), false),
            None => (1.0 / (1.0 - USUAL_BETA2), true),
        }
    }

    /// First departure of any signal, as a step of the source.
    fn first_departure(&self) -> u64 {
        let onset = self.run.steps[self.incident.onset_row];
        self.number("onset_step")
            .map_or(onset, |s| (s as u64).min(onset))
    }

    /// The causes that the plan must hold for: the decided one, or all that are still likely.
    fn likely_causes(&self) -> Vec<String> {
        const LIKELY: f64 = 0.15;
        match &self.verdict.cause {
            Some(cause) => vec![cause.clone()],
            None => self
                .verdict
                .leading()
                .filter(|(_, p)| *p >= LIKELY)
                .map(|(c, _)| c.to_owned())
                .collect(),
        }
    }
}
