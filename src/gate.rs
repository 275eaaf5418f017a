//! Whether a run passes: what a policy fails on, and drift from a golden run of the same recipe.

mod baseline;
mod policy;

use crate::detect::Shape;
use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::run::Run;

pub use baseline::{Comparison, Drift, NoPairs, compare};
pub use policy::{Policy, PolicyError};

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What must hold, in a few words that stay the same from run to run.
    pub name: String,
    /// What did not hold, each with the step that it concerns; empty if it holds.
    pub failures: Vec<Failure>,
}

impl Check {
    /// Whether it holds.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Step of the source that it begins at.
    pub step: u64,
    /// The incident, if it is one.
    pub incident: Option<usize>,
    /// What happened and what to do, in a sentence.
    pub says: String,
}

/// Checks a diagnosis, and the run against a golden one if there is one.
///
/// # Errors
/// Where the golden run has no step in common with the run.
pub fn check(d: &Diagnosis, policy: &Policy, golden: Option<&Run>) -> Result<Vec<Check>, NoPairs> {
    let counted: Vec<&Diagnosed> = d
        .incidents
        .iter()
        .filter(|x| counts(d, x, policy))
        .collect();
    let mut out: Vec<Check> = policy
        .shapes()
        .map(|shape| Check {
            name: format!("no {} incident", shape.name()),
            failures: of(d, &counted, |x| x.incident.shape == shape),
        })
        .collect();
    out.extend(policy.causes().map(|cause| Check {
        name: format!("no incident decided to be {cause}"),
        failures: of(d, &counted, |x| x.verdict.cause.as_deref() == Some(cause)),
    }));
    if let Some(most) = policy.max_incidents {
        let over = if counted.len() > most {
            &counted[most..]
        } else {
            &[]
        };
        out.push(Check {
            name: format!(
                "at most {most} incident{}",
                if most == 1 { "" } else { "s" }
            ),
            failures: of(d, over, |_| true),
        });
    }
    if let Some(golden) = golden {
        let compared = compare(&d.run, golden, policy.after)?;
        out.push(Check {
            name: "the loss of the golden run".to_owned(),
            failures: compared.failure().into_iter().collect(),
        });
    }
    Ok(out)
}

/// Whether an incident is one that is judged: of the loss, late enough, and not an earlier one met again in a replay.
fn counts(d: &Diagnosis, x: &Diagnosed, policy: &Policy) -> bool {
    let onset = d.run.steps[x.incident.onset_row];
    x.incident.signal == "loss"
        && x.same_as.is_none()
        && policy.after.is_none_or(|after| onset > after)
}

fn of(d: &Diagnosis, among: &[&Diagnosed], fails: impl Fn(&Diagnosed) -> bool) -> Vec<Failure> {
    let failing = among.iter().filter(|x| fails(x));
    failing
        .map(|x| Failure {
            step: d.run.steps[x.incident.onset_row],
            incident: Some(x.id),
            says: says(d, x),
        })
        .collect()
}

/// What happened, why and what to do, in a sentence.
fn says(d: &Diagnosis, x: &Diagnosed) -> String {
    let i = &x.incident;
    let height = match (i.excess, i.score) {
        (Some(excess), Some(score)) => {
            format!(", {excess:+.3} over {:.3} ({score:.0} sd)", i.level.value)
        }
        _ => String::new(),
    };
    let cause = x.verdict.cause.as_deref().map_or_else(
        || "cause undecided".to_owned(),
        |c| format!("cause {c} ({:.2})", x.verdict.posterior_of(c)),
    );
    let open = if i.open { ", still open" } else { "" };
    format!(
        "{} {} incident at {}{height}{open}; {cause}; {}: {}",
        i.kind.name(),
        i.shape.name(),
        d.run.steps[i.onset_row],
        x.plan.action.name(),
        x.plan.why
    )
}

/// The shapes that fail a run unless the policy names others.
pub const FAIL_ON: [Shape; 2] = [Shape::Recoverable, Shape::Divergent];
