//! `whyspike check`: fails a job whose training spiked, or drifted from a golden run.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::input::Input;
use crate::cli::output;
use whyspike::diagnosis::Diagnosis;
use whyspike::gate::{Check, Policy, check};
use whyspike::report::gate;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Shapes of incidents that fail the run (default: recoverable,divergent)
    #[arg(long, value_name = "SHAPE,...", value_delimiter = ',')]
    fail_on: Option<Vec<String>>,
    /// Causes that fail the run where they are decided
    #[arg(long, value_name = "CAUSE,...", value_delimiter = ',')]
    fail_on_cause: Option<Vec<String>>,
    /// Incidents of any shape that are let pass
    #[arg(long, value_name = "N")]
    max_incidents: Option<usize>,
    /// Let pass what happens up to this step
    #[arg(long, value_name = "STEP")]
    after: Option<u64>,
    /// A golden run of the same recipe, whose loss this one must keep to
    #[arg(long, value_name = "RUN")]
    baseline: Option<PathBuf>,
    /// Policy file; without it the nearest whyspike.toml in the folder of the log or above
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Write the checks as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the failures as GitLab code quality JSON
    #[arg(long, value_name = "FILE")]
    gitlab: Option<PathBuf>,
    /// Write a summary in Markdown
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Print annotations for GitHub Actions, and append to the job summary where there is one
    #[arg(long)]
    github: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (origin, policy) = policy(args)?;
    let golden = policy.baseline.as_deref().map(|path| {
        let run = args.input.reading.read(&[path.to_owned()]);
        run.with_context(|| format!("baseline {}", path.display()))
    });
    let golden = golden.transpose()?;
    let diagnosis = args.input.diagnosis()?;
    let checks = check(&diagnosis, &policy, golden.as_ref())?;
    write(args, &diagnosis, &checks)?;
    let mut printed = gate::text(&checks);
    if let Some(file) = origin {
        let _ = writeln!(printed, "\x1b[2mpolicy  {}\x1b[0m", file.display());
    }
    if args.github {
        printed.push_str(&gate::github(&diagnosis, &checks));
    }
    output::result(&printed)?;
    let passed = checks.iter().all(Check::passed);
    Ok(ExitCode::from(u8::from(!passed)))
}

/// The policy of the file with what the command line says instead, and the file if there is one.
fn policy(args: &Args) -> anyhow::Result<(Option<PathBuf>, Policy)> {
    let log = args
        .input
        .reading
        .logs
        .first()
        .map_or(Path::new("."), PathBuf::as_path);
    let found = match &args.policy {
        Some(file) => Some((file.clone(), Policy::read(file)?)),
        None => Policy::find(log)?,
    };
    let (origin, mut policy) = found.map_or((None, Policy::default()), |(f, p)| (Some(f), p));
    policy.fail_on = args.fail_on.clone().or(policy.fail_on);
    policy.fail_on_cause = args.fail_on_cause.clone().unwrap_or(policy.fail_on_cause);
    policy.max_incidents = args.max_incidents.or(policy.max_incidents);
    policy.after = args.after.or(policy.after);
    policy.baseline = args.baseline.clone().or(policy.baseline);
    policy.checked()?;
    Ok((origin, policy))
}

fn write(args: &Args, d: &Diagnosis, checks: &[Check]) -> anyhow::Result<()> {
    let put = |path: &Path, text: String| {
        std::fs::write(path, text).with_context(|| path.display().to_string())
    };
    if let Some(path) = &args.junit {
        put(path, gate::junit(d, checks))?;
    }
    if let Some(path) = &args.gitlab {
        put(path, gate::gitlab(d, checks))?;
    }
    if let Some(path) = &args.summary {
        put(path, gate::summary(d, checks))?;
    }
    match std::env::var_os("GITHUB_STEP_SUMMARY").filter(|_| args.github) {
        Some(path) => append(Path::new(&path), &gate::summary(d, checks)),
        None => Ok(()),
    }
}

/// Other steps of the job write to the summary, too.
fn append(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    file.and_then(|mut f| f.write_all(text.as_bytes()))
        .with_context(|| path.display().to_string())
}
