//! How dense the checkpoints of a run were where one was needed, and what that cost.

use std::fmt::Write;

use anyhow::bail;

use crate::cli::cadence::{Args, Basis};
use crate::cli::input::{Reading, holds_something};
use whyspike::baseline::median_of;
use whyspike::cadence::Stability;
use whyspike::checkpoints::Given;
use whyspike::diagnosis::{Diagnosed, Diagnosis, Told, diagnose};
use whyspike::plan::contaminated;
use whyspike::report::shown;
use whyspike::rules::RuleSet;

/// Reads and diagnoses the run, if one is given.
pub(super) fn read(args: &Args) -> anyhow::Result<Option<Diagnosis>> {
    let checkpoints = args.kept.given()?;
    if args.logs.is_empty() {
        if !matches!(checkpoints, Given::Nothing) {
            bail!("checkpoints of which run? give its log, too");
        }
        return Ok(None);
    }
    let reading = Reading {
        logs: args.logs.clone(),
        input_format: None,
        step_base: None,
        run_name: None,
        aliases: None,
    };
    let run = reading.run()?;
    holds_something(&run)?;
    let told = Told {
        checkpoints,
        ..Told::default()
    };
    Ok(Some(diagnose(run, &RuleSet::built_in()?, &told)))
}

/// The time of a step as logged, if there was an incident.
pub(super) fn step_time(d: &Diagnosis) -> Option<f64> {
    let first = d.incidents.first()?;
    first.plan.cost.step_time.map(|(seconds, _)| seconds)
}

/// Incidents of the loss, each once.
fn needs(d: &Diagnosis) -> impl Iterator<Item = &Diagnosed> {
    let once = |x: &&Diagnosed| x.same_as.is_none() && x.incident.signal == "loss";
    d.incidents.iter().filter(once)
}

pub(super) fn tell(out: &mut String, d: &Diagnosis, basis: &Basis, s: &Stability) {
    let _ = writeln!(out, "\n\x1b[1mfor this run\x1b[0m: {}", kept(d));
    let mut spaced = Vec::new();
    for x in needs(d) {
        let (text, cost) = need(d, x, basis);
        spaced.extend(cost);
        let _ = writeln!(out, "  at {:<7} {text}", d.run.steps[x.incident.onset_row]);
    }
    if needs(d).next().is_none() {
        out.push_str("  no incident of the loss: nothing had to be gone back to\n");
    }
    if spaced.is_empty() {
        return;
    }
    let (sum, most) = (
        spaced.iter().sum::<u64>(),
        spaced.len() as u64 * s.spacing.saturating_sub(1),
    );
    let _ = writeln!(
        out,
        "  in all     {sum} steps{} again because of the spacing; with one every {} steps at most {most}",
        time(basis, sum),
        s.spacing
    );
}

/// How many checkpoints are known, and how far apart they are.
fn kept(d: &Diagnosis) -> String {
    let whole = d.inventory.checkpoints.iter().filter(|c| c.torn.is_none());
    let mut steps: Vec<u64> = whole.map(|c| c.step).collect();
    steps.dedup();
    let apart: Vec<f64> = steps.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    match (steps.len(), apart.is_empty()) {
        (0, _) => "no checkpoint is known (--checkpoints, --checkpoint-steps, --checkpoint-every)"
            .to_owned(),
        (1, _) | (_, true) => format!("checkpoint {} is known", steps[0]),
        (n, false) => format!(
            "{n} checkpoints are known, {} steps apart",
            median_of(&apart)
        ),
    }
}

/// Which checkpoint there was for an incident, and the steps that a denser spacing would have saved.
fn need(d: &Diagnosis, x: &Diagnosed, basis: &Basis) -> (String, Option<u64>) {
    let (wanted, onset) = (
        x.plan.wanted,
        d.run.updates_after(d.run.steps[x.incident.onset_row]),
    );
    let margin = onset.saturating_sub(wanted + 1);
    let asked = if margin == 0 {
        "any before it is old enough".to_owned()
    } else {
        format!("{margin} steps of margin are asked for")
    };
    let spoilt = match spoilt(d, x, basis) {
        0 => String::new(),
        n => format!("; {n} saved within 5 memories after it carry it"),
    };
    let Some(back) = &x.plan.rollback else {
        return (
            format!("no clean checkpoint before it; {asked}{spoilt}"),
            None,
        );
    };
    let before = onset.saturating_sub(back.step + 1);
    let lead = format!(
        "newest clean checkpoint {}, {before} steps before it; {asked}",
        back.step
    );
    match wanted.checked_sub(back.step) {
        Some(cost) => (
            format!(
                "{lead}: {cost} steps{} again because of the spacing{spoilt}",
                time(basis, cost)
            ),
            Some(cost),
        ),
        None => (format!("{lead}, none is as old{spoilt}"), None),
    }
}

/// Checkpoints that were saved while the second moment carried the incident.
fn spoilt(d: &Diagnosis, x: &Diagnosed, basis: &Basis) -> usize {
    let within = contaminated(&d.run, &x.incident, 1.0 / (1.0 - basis.beta2));
    let saved = d.inventory.checkpoints.iter();
    saved.filter(|c| within.contains(&c.step)).count()
}

fn time(basis: &Basis, steps: u64) -> String {
    basis
        .step_time
        .map_or(String::new(), |t| format!(" ({})", shown(t * steps as f64)))
}
