//! The checkpoint to go back to: before what the cause asks for, and not contaminated.

use crate::baseline::median_of;
use crate::checkpoints::{Checkpoint, gone_at};
use crate::detect::lineage;
use crate::plan::health::{Health, Past};
use crate::plan::strikes::Strikes;
use crate::plan::{Rollback, Situation};
use crate::rules::Target;

/// A checkpoint that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its step.
    pub step: u64,
    /// Whether it can be taken.
    pub fits: bool,
    /// Why, or why not.
    pub why: String,
    /// The state that it holds, as far as the log tells.
    pub health: Health,
}

/// Steps before the onset that are kept between it and any checkpoint (rules/SOURCES.md).
const LEAST_MARGIN: u64 = 20;
/// Candidates that a plan lists.
const LISTED: usize = 6;

/// How far back the plan must reach, in updates done.
struct Reach {
    /// Newest checkpoint that holds for every likely cause.
    wanted: u64,
    /// Newest checkpoint before the first departure.
    before_onset: u64,
    why: String,
}

/// What was looked at, and what came of it.
pub(super) struct Choice {
    /// Updates done at the newest checkpoint that would be old enough.
    pub(super) wanted: u64,
    /// The way back.
    pub(super) rollback: Option<Rollback>,
    /// The checkpoints looked at.
    pub(super) candidates: Vec<Candidate>,
    /// Why there is no way back.
    pub(super) no_way: Option<String>,
}

/// Looks at the checkpoints. The state of one is only measured where it decides or is listed: a log of a million steps
/// has thousands of them for every incident.
pub(super) fn choose(s: &Situation<'_>, strikes: &Strikes) -> Choice {
    let reach = reach(s, strikes);
    let past = Past::of(s);
    let checkpoints = &s.inventory.checkpoints;
    let until = |step: u64| {
        let end = checkpoints.partition_point(|c| c.step <= step);
        checkpoints[..end].iter().rev()
    };
    let clean = |c: &&Checkpoint| {
        unusable(c).is_none()
            && past.dirty(c.step).is_none()
            && past.health(c.step).fault().is_none()
    };
    let (chosen, why) = match until(reach.wanted).find(clean) {
        Some(c) => (Some(c.step), format!("newest checkpoint {}", reach.why)),
        None => (
            until(reach.before_onset).find(clean).map(|c| c.step),
            format!(
                "none is old enough ({}); this is the newest before the first departure",
                reach.why
            ),
        ),
    };
    let no_way = chosen.is_none().then(|| no_way(s, &reach));
    let rollback = chosen.map(|step| Rollback {
        step,
        path: sound(s, step).and_then(|c| c.path.clone()),
        steps_lost: lost(s, step),
        why: match gone(s, step) {
            Some(gone) => format!("{why}; {gone}"),
            None => why,
        },
    });
    Choice {
        wanted: reach.wanted,
        rollback,
        candidates: nearest(s, &reach, &past),
        no_way,
    }
}

/// The checkpoints nearest to the one that is wanted, the newest first.
fn nearest(s: &Situation<'_>, reach: &Reach, past: &Past<'_>) -> Vec<Candidate> {
    // A step that was saved twice is as good as the better of the two, which the inventory has first.
    let mut around: Vec<&Checkpoint> = s.inventory.checkpoints.iter().collect();
    around.dedup_by_key(|c| c.step);
    let at = around.partition_point(|c| c.step < reach.wanted);
    let mut around = around[at.saturating_sub(LISTED)..(at + LISTED).min(around.len())].to_vec();
    around.sort_by_key(|c| (c.step.abs_diff(reach.wanted), c.step));
    around.truncate(LISTED);
    around.sort_by_key(|c| std::cmp::Reverse(c.step));
    around
        .into_iter()
        .map(|c| candidate(s, reach, past, c))
        .collect()
}

fn lost(s: &Situation<'_>, step: u64) -> u64 {
    let attempt = &s.run.attempts[s.incident.attempt as usize];
    s.run
        .updates_after(s.run.steps[attempt.rows.end - 1])
        .saturating_sub(step)
}

fn no_way(s: &Situation<'_>, reach: &Reach) -> String {
    if s.inventory.checkpoints.is_empty() {
        return "no checkpoint is known: give them with --checkpoints DIR, --checkpoint-steps or --checkpoint-every"
            .to_owned();
    }
    let unfit = s
        .inventory
        .checkpoints
        .iter()
        .filter(|c| c.step <= reach.before_onset && unusable(c).is_some());
    let unfit = match unfit.count() {
        0 => String::new(),
        n => format!(" ({n} there cannot be resumed from)"),
    };
    format!(
        "no clean checkpoint at or before {} is known{unfit}",
        reach.before_onset
    )
}

fn candidate(
    s: &Situation<'_>,
    reach: &Reach,
    past: &Past<'_>,
    checkpoint: &Checkpoint,
) -> Candidate {
    let step = checkpoint.step;
    let health = past.health(step);
    let onset = s.run.updates_after(s.first_departure());
    let (fits, why) = if let Some(why) = unusable(checkpoint) {
        (false, why)
    } else if step > reach.before_onset {
        (false, "after the first departure".to_owned())
    } else if let Some(why) = past.dirty(step).or_else(|| health.fault()) {
        (false, why)
    } else if step > reach.wanted {
        (
            false,
            format!("only {} steps before the first departure", onset - step),
        )
    } else {
        (
            true,
            format!("{} steps before the first departure", onset - step),
        )
    };
    Candidate {
        step,
        fits,
        why,
        health,
    }
}

/// Why training cannot be resumed from a checkpoint, if its files show it.
fn unusable(c: &Checkpoint) -> Option<String> {
    match (&c.torn, c.optimizer) {
        (Some(why), _) => Some(format!("torn: {why}")),
        (None, Some(false)) => Some("weights alone: no optimizer state in it".to_owned()),
        _ => None,
    }
}

/// The checkpoint of a step that training can be resumed from.
fn sound<'a>(s: &Situation<'a>, step: u64) -> Option<&'a Checkpoint> {
    let mut of_step = s.inventory.checkpoints.iter().filter(|c| c.step == step);
    of_step.find(|c| unusable(c).is_none())
}

/// When retention deletes a checkpoint.
fn gone(s: &Situation<'_>, step: u64) -> Option<String> {
    let (rule, at) = (s.inventory.retention?, gone_at(s.inventory, step)?);
    Some(format!(
        "with {} kept and one every {} steps it is deleted at step {at}",
        rule.keep, rule.every
    ))
}

fn reach(s: &Situation<'_>, strikes: &Strikes) -> Reach {
    let first = s.first_departure();
    let before_onset = s.run.updates_after(first).saturating_sub(1);
    let causes = s.likely_causes();
    let mut wanted = before_onset.saturating_sub(if s.verdict.cause.is_some() {
        0
    } else {
        LEAST_MARGIN
    });
    let mut why = format!(
        "{} the first departure at {first}",
        ahead(before_onset - wanted)
    );
    for cause in &causes {
        let Some(rule) = s.rules.get(cause) else {
            continue;
        };
        let (memory, assumed) = s.memory();
        let (target, what) = target(s, rule.remedy.before, before_onset);
        let margin = rule
            .remedy
            .margin_steps
            .max((rule.remedy.margin_memories * memory) as u64);
        let reach = target.saturating_sub(margin);
        if reach <= wanted {
            let beta = if assumed && rule.remedy.margin_memories > 0.0 {
                " (beta2 0.95 assumed)"
            } else {
                ""
            };
            wanted = reach;
            why = format!("{} {what}, as {cause} asks{beta}", ahead(margin));
        }
    }
    // The same way back led to the same place: this one must be longer.
    if let Some(from) = strikes
        .from
        .filter(|from| strikes.again() && *from <= wanted)
    {
        wanted = from.saturating_sub(1);
        why = format!("before {from}, from where it was met again");
    }
    Reach {
        wanted,
        before_onset,
        why,
    }
}

fn ahead(margin: u64) -> String {
    if margin == 0 {
        "before".to_owned()
    } else {
        format!("at least {margin} steps before")
    }
}

/// The update before which a cause asks to be, and its name.
fn target(s: &Situation<'_>, before: Target, onset: u64) -> (u64, String) {
    let first = s.first_departure();
    let at_onset = (onset, format!("the first departure at {first}"));
    match before {
        Target::Onset => at_onset,
        Target::LrRise => match s.number("lr_event_dist").filter(|d| *d <= 300.0) {
            Some(distance) => {
                let knot =
                    s.run.steps[s.incident.onset_row].saturating_sub(distance.max(0.0) as u64);
                let update = s.run.updates_after(knot).saturating_sub(1).min(onset);
                (update, format!("the rise of the learning rate at {knot}"))
            }
            None => at_onset,
        },
        Target::Restart => match s
            .number("restart_dist")
            .filter(|d| *d <= 50.0 && s.incident.attempt > 0)
        {
            Some(_) => {
                let attempt = &s.run.attempts[s.incident.attempt as usize];
                let start = s.run.steps[attempt.rows.start];
                let loaded = s.run.updates_after(start).saturating_sub(1);
                (
                    loaded.saturating_sub(1).min(onset),
                    format!("the restart at {start}, whose checkpoint is suspect"),
                )
            }
            None => at_onset,
        },
        Target::LogitGrowth => match growth_start(s) {
            Some(step) => (
                s.run.updates_after(step).saturating_sub(1).min(onset),
                format!("the growth of the logits from {step} on"),
            ),
            None => at_onset,
        },
    }
}

/// The step from which on the attention logits (or, unlogged, the gradient norm) only grew.
fn growth_start(s: &Situation<'_>) -> Option<u64> {
    const GREW: f64 = 1.25;
    const BACK: usize = 2000;
    const SMOOTH: usize = 16;
    let attempt = &s.run.attempts[s.incident.attempt as usize];
    let rows = lineage(s.run, attempt).0;
    let end = rows.partition_point(|r| *r < s.incident.onset_row);
    let rows = &rows[end.saturating_sub(BACK)..end];
    let signal = ["max_attention_logit", "grad_norm"]
        .into_iter()
        .find(|n| s.run.column(n).is_some())?;
    let column = s.run.column(signal)?;
    let values: Vec<(u64, f64)> = rows
        .iter()
        .filter_map(|r| Some((s.run.steps[*r], column.finite(*r)?)))
        .collect();
    let smooth: Vec<f64> = values
        .windows(SMOOTH)
        .map(|w| median_of(&w.iter().map(|v| v.1).collect::<Vec<_>>()))
        .collect();
    let last = *smooth.last()?;
    let low = smooth[smooth.len().saturating_sub(400)..]
        .iter()
        .copied()
        .fold(f64::INFINITY, f64::min);
    if last < GREW * low {
        return None;
    }
    let at = smooth.iter().rposition(|v| *v <= GREW * low)?;
    values.get(at).map(|v| v.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_resumed_from_is_refused() {
        let mut c = Checkpoint::at(100);
        assert_eq!(unusable(&c), None);
        c.optimizer = Some(true);
        assert_eq!(unusable(&c), None);
        c.optimizer = Some(false);
        assert!(unusable(&c).is_some_and(|why| why.contains("no optimizer state")));
        c.torn = Some("no .metadata".to_owned());
        assert_eq!(unusable(&c).as_deref(), Some("torn: no .metadata"));
    }
}
