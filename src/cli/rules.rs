//! `whyspike rules`: the rules that verdicts rest on.

mod calibrate;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args as ClapArgs, Subcommand};

use crate::cli::output;
use whyspike::rules::{Rule, RuleError, RuleSet, parse_file};

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Causes and their evidence
    List {
        /// Folder of rule files that are added to the built-in ones or replace them
        #[arg(long, value_name = "DIR")]
        rules: Option<PathBuf>,
    },
    /// One cause as a readable page
    Show {
        /// The cause, such as learning-rate
        cause: String,
        /// Folder of rule files that are added to the built-in ones or replace them
        #[arg(long, value_name = "DIR")]
        rules: Option<PathBuf>,
    },
    /// Fit the ratios to labelled runs, and measure how far verdicts can be trusted
    Calibrate(calibrate::Args),
    /// Check rule files and run their cases
    Check {
        /// Rule files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::List { rules } => list(&load(rules.as_ref())?),
        What::Show { cause, rules } => show(&load(rules.as_ref())?, cause),
        What::Check { files } => check(files),
        What::Calibrate(args) => calibrate::run(args),
    }
}

fn load(folder: Option<&PathBuf>) -> anyhow::Result<RuleSet> {
    Ok(match folder {
        Some(folder) => RuleSet::with_folder(folder)?,
        None => RuleSet::built_in()?,
    })
}

fn list(set: &RuleSet) -> anyhow::Result<ExitCode> {
    let mut out = String::new();
    for rule in set.iter() {
        let _ = writeln!(
            out,
            "\x1b[1m{}\x1b[0m  {} (prior {})",
            rule.cause, rule.title, rule.prior
        );
        for e in &rule.evidence {
            let not = if (e.ratio_if_not - 1.0).abs() > 1e-9 {
                format!(", if not x{}", e.ratio_if_not)
            } else {
                String::new()
            };
            let _ = writeln!(out, "  {:<5} x{:<5} {}{not}", e.id, e.ratio, e.when.sql());
        }
    }
    output::result(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn show(set: &RuleSet, cause: &str) -> anyhow::Result<ExitCode> {
    let Some(rule) = set.get(cause) else {
        let known: Vec<&str> = set.iter().map(|r| r.cause.as_str()).collect();
        bail!(
            "there is no rule for `{cause}`; the causes are {}",
            known.join(", ")
        );
    };
    output::result(&page(rule))?;
    Ok(ExitCode::SUCCESS)
}

fn page(rule: &Rule) -> String {
    let mut out = format!("\x1b[1m{}\x1b[0m: {}\n", rule.cause, rule.title);
    let _ = writeln!(
        out,
        "status {}, prior {}\n\n{}",
        rule.status, rule.prior, rule.about
    );
    heading(
        &mut out,
        "Evidence (likelihood ratio if it holds, and if not)",
    );
    for e in &rule.evidence {
        let _ = writeln!(
            out,
            "  {:<5} x{} / x{}  [{}]\n        when  {}",
            e.id,
            e.ratio,
            e.ratio_if_not,
            e.group,
            e.when.sql()
        );
        let counted = e.runs.map_or_else(String::new, |n| format!(", {n} runs"));
        let _ = writeln!(
            out,
            "        says  {}\n        from  {}\n        rests on  {}{counted}",
            e.says,
            e.source,
            e.basis.name()
        );
    }
    heading(&mut out, "Looks the same and is not");
    for l in &rule.look_alikes {
        let _ = writeln!(out, "  - {l}");
    }
    heading(&mut out, "Experiments: what this cause predicts");
    for x in &rule.experiments {
        let note = if x.note.is_empty() {
            String::new()
        } else {
            format!(" ({})", x.note)
        };
        let _ = writeln!(out, "  {:<19} {}{note}", x.kind, x.predicts.words());
    }
    heading(&mut out, "Remedy");
    let _ = writeln!(out, "  {}", rule.remedy.change);
    let skip = if rule.remedy.skip {
        "leaving batches out helps"
    } else {
        "leaving batches out does not help"
    };
    let _ = writeln!(out, "  {skip}");
    heading(&mut out, "References");
    for r in &rule.references {
        let _ = writeln!(out, "  - {r}");
    }
    out
}

fn heading(out: &mut String, text: &str) {
    let _ = writeln!(out, "\n\x1b[1m{text}\x1b[0m");
}

fn check(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut out = String::new();
    let mut failed = 0;
    for file in files {
        match parse_file(file) {
            Err(e @ RuleError::Io { .. }) => return Err(e.into()),
            Err(e) => {
                failed += 1;
                let _ = writeln!(out, "{e}");
            }
            Ok(rule) => {
                let failures = rule.run_cases();
                let passed = rule.cases.len() - failures.len();
                let _ = writeln!(
                    out,
                    "{}: {} evidence, {passed} of {} cases pass",
                    file.display(),
                    rule.evidence.len(),
                    rule.cases.len()
                );
                for f in &failures {
                    let _ = writeln!(out, "  case `{}`: {}", f.case, f.what);
                }
                failed += failures.len();
            }
        }
    }
    output::result(&out)?;
    Ok(ExitCode::from(if failed > 0 { 2 } else { 0 }))
}
