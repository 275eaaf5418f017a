//! `whyspike rules calibrate`: ratios from labelled runs, and how far verdicts can be trusted.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args as ClapArgs;

use crate::cli::output;
use whyspike::calibrate::{Fitted, Labelled, Reliability, cross_validate, fit, with_ratios};
use whyspike::rules::RuleSet;
use whyspike::signal::Aliases;

/// Runs that a published ratio is worth, on each side.
const STRENGTH: f64 = 10.0;

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "truth.json: {\"label\": CAUSE or \"ok\", \"spike\": {\"onset_step\": N, \"peak_step\": N}, \
                  \"also_acceptable\": [CAUSE], \"family\": NAME}; all but the label may be left out. Runs of one \
                  family are never on both sides of a fit."
)]
pub(super) struct Args {
    /// Folders of labelled runs, or folders of such folders: each holds a log and a truth.json that names the cause
    #[arg(required = true, value_name = "LABELLED")]
    labelled: Vec<PathBuf>,
    /// Folder of rule files that are added to the built-in ones or replace them
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// Folder in which to write the rule files with the fitted ratios
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// How many runs a published ratio is worth
    #[arg(long, value_name = "N", default_value_t = STRENGTH)]
    strength: f64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !(args.strength.is_finite() && args.strength > 0.0) {
        bail!("--strength must be above 0");
    }
    let rules = super::load(args.rules.as_ref())?;
    let (runs, silent) = read(&args.labelled)?;
    let reliability = cross_validate(&rules, &runs, args.strength);
    let all: Vec<&Labelled> = runs.iter().collect();
    let fitted = fit(&rules, &all, args.strength);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} labelled runs with an incident, {} families of configurations, each held back in turn; {silent} runs \
         without one",
        runs.len(),
        reliability.families
    );
    table(&mut out, &reliability);
    if let Some(folder) = &args.output {
        write(&rules, args.rules.as_deref(), folder, &fitted)?;
        let _ = writeln!(out, "\nrule files written to {}", folder.display());
    } else {
        changes(&mut out, &rules, &fitted);
    }
    output::result(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// The labelled runs, and how many have no incident that their label is about.
fn read(paths: &[PathBuf]) -> anyhow::Result<(Vec<Labelled>, usize)> {
    let aliases = Aliases::built_in();
    let mut folders = Vec::new();
    for path in paths {
        collect(path, &mut folders)?;
    }
    if folders.is_empty() {
        bail!("no labelled run: a folder of one holds a log and its truth.json");
    }
    let (mut runs, mut silent) = (Vec::new(), 0);
    for folder in folders {
        match Labelled::read(&folder, &aliases)? {
            Some(run) => runs.push(run),
            None => silent += 1,
        }
    }
    Ok((runs, silent))
}

fn collect(path: &Path, to: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if path.join("truth.json").is_file() {
        to.push(path.to_owned());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
    let mut inside: Vec<PathBuf> = entries
        .map(|e| Ok(e?.path()))
        .collect::<std::io::Result<_>>()?;
    inside.retain(|p| p.join("truth.json").is_file());
    inside.sort();
    to.extend(inside);
    Ok(())
}

fn table(out: &mut String, r: &Reliability) {
    super::heading(
        out,
        "Stated posterior of the leading cause against how often it was right",
    );
    for (i, (n, stated, right)) in r.fifths().into_iter().enumerate() {
        let range = format!("{:.1} to {:.1}", i as f64 / 5.0, (i + 1) as f64 / 5.0);
        if n == 0 {
            let _ = writeln!(out, "  {range}   none");
        } else {
            let _ = writeln!(
                out,
                "  {range}   {n:>4} runs   stated {stated:.2}   right {right:.2}"
            );
        }
    }
    let (right, wrong, undecided) = r.verdicts();
    let _ = writeln!(
        out,
        "  Brier score {:.3} (0 is perfect, 2 the worst)\n  with a cause: {right} decided and right, {wrong} decided \
         and wrong, {undecided} undecided",
        r.brier()
    );
    super::heading(out, "Label, and what was said");
    for ((truth, said), n) in r.confusion() {
        let _ = writeln!(out, "  {truth:<16} {said:<16} {n:>4}");
    }
}

fn changes(out: &mut String, rules: &RuleSet, fitted: &[Fitted]) {
    super::heading(
        out,
        "Ratios that move by a fifth or more (-o DIR writes them)",
    );
    for f in fitted {
        let Some(e) = rules
            .get(&f.cause)
            .and_then(|r| r.evidence.iter().find(|e| e.id == f.id))
        else {
            continue;
        };
        let moved = |old: f64, new: f64| (new / old).ln().abs() > 1.2_f64.ln();
        if moved(e.ratio, f.ratio) || moved(e.ratio_if_not, f.ratio_if_not) {
            let _ = writeln!(
                out,
                "  {:<16} {:<5} x{} -> x{:.2}, if not x{} -> x{:.2}   ({} of {} runs of the cause, {} of {} others)",
                f.cause,
                f.id,
                e.ratio,
                f.ratio,
                e.ratio_if_not,
                f.ratio_if_not,
                f.of_cause.1,
                f.of_cause.0,
                f.of_others.1,
                f.of_others.0
            );
        }
    }
}

/// Writes a rule file a cause, from the text that is in force.
fn write(
    rules: &RuleSet,
    given: Option<&Path>,
    folder: &Path,
    fitted: &[Fitted],
) -> anyhow::Result<()> {
    let at = || folder.display().to_string();
    std::fs::create_dir_all(folder).with_context(at)?;
    for rule in rules.iter() {
        let name = format!("{}.toml", rule.cause);
        let own = given.map(|g| g.join(&name)).filter(|p| p.is_file());
        let text = match &own {
            Some(path) => {
                std::fs::read_to_string(path).with_context(|| path.display().to_string())?
            }
            None => RuleSet::built_in_text(&rule.cause)
                .unwrap_or_default()
                .to_owned(),
        };
        let path = folder.join(&name);
        std::fs::write(&path, with_ratios(&text, &rule.cause, fitted))
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}
