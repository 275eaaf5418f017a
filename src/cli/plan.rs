//! `whyspike plan`: the plan alone, and the skip list as a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde_json::json;

use crate::cli::input::Input;
use crate::cli::output;
use whyspike::diagnosis::{Diagnosed, Diagnosis};
use whyspike::report::{json as json_report, text};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Number of the incident; without it the one with the highest excess
    #[arg(long, value_name = "N")]
    incident: Option<usize>,
    /// Write the batches to skip to this file, as JSON
    #[arg(long, value_name = "FILE")]
    skip_list: Option<PathBuf>,
    /// How to print the plan
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let diagnosis = args.input.diagnosis()?;
    let Some(which) = choose(&diagnosis, args.incident)? else {
        let nothing = match args.format {
            Format::Text => "no incident, so nothing to plan\n".to_owned(),
            Format::Json => json_report::render_no_plan(),
        };
        output::result(&nothing)?;
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(path) = &args.skip_list {
        write_skip_list(path, which)?;
    }
    let printed = match args.format {
        Format::Text => text::render_plan(&diagnosis, which),
        Format::Json => json_report::render_plan(&diagnosis, which),
    };
    output::result(&printed)?;
    Ok(ExitCode::SUCCESS)
}

fn choose(d: &Diagnosis, asked: Option<usize>) -> anyhow::Result<Option<&Diagnosed>> {
    if let Some(id) = asked {
        let Some(found) = d.incidents.iter().find(|i| i.id == id) else {
            bail!(
                "there is no incident {id}: the run has {}",
                d.incidents.len()
            );
        };
        return Ok(Some(found));
    }
    let height = |x: &Diagnosed| match x.incident.peak_row {
        Some(_) if x.incident.signal == "loss" => x.incident.excess.unwrap_or(0.0),
        Some(_) => 0.0,
        None => f64::INFINITY,
    };
    // A replay meets the incident of an earlier attempt again: the first one has the history.
    let first = d.incidents.iter().filter(|x| x.same_as.is_none());
    let highest = first.max_by(|a, b| height(a).total_cmp(&height(b)));
    Ok(highest)
}

fn write_skip_list(path: &Path, x: &Diagnosed) -> anyhow::Result<()> {
    let Some(skip) = &x.plan.skip else {
        bail!("incident {} has no batches to skip: {}", x.id, x.plan.why);
    };
    let list = json!({
        "schema": 1,
        "whyspike": env!("CARGO_PKG_VERSION"),
        "incident": x.id,
        "rollback_step": x.plan.rollback.as_ref().map(|r| r.step),
        "steps": skip.steps,
        "samples": skip.samples,
        "batches": skip.batches,
    });
    std::fs::write(path, format!("{list:#}\n")).with_context(|| path.display().to_string())
}
