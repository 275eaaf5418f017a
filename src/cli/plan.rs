//! `whyspike plan`: the plan alone, and the skip list as a file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::cli::input::Input;
use crate::cli::output;
use whyspike::diagnosis::{Diagnosed, Diagnosis};
use whyspike::report::{json as json_report, skip_list as list, text};
use whyspike::resume::{Framework, can_skip, frameworks};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Number of the incident; without it the one with the highest excess
    #[arg(long, value_name = "N")]
    incident: Option<usize>,
    /// Write the batches to skip to this file
    #[arg(long, value_name = "FILE")]
    skip_list: Option<PathBuf>,
    /// How to write them: json, or a framework's own flags or configuration, such as megatron-lm@0.17; without
    /// --skip-list they are printed instead of the plan [default: json]
    #[arg(long, value_name = "FORMAT", value_parser = skip_format)]
    skip_format: Option<SkipFormat>,
    /// How to print the plan
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// How a skip list is written.
#[derive(Debug, Clone)]
enum SkipFormat {
    Json,
    Framework(Framework),
}

/// A name that is known, also of a framework that cannot skip: what it says of the ways out is the answer.
fn skip_format(text: &str) -> anyhow::Result<SkipFormat> {
    if text == "json" {
        return Ok(SkipFormat::Json);
    }
    let framework = Framework::parse(text);
    if frameworks().iter().any(|(n, _)| *n == framework.name) {
        return Ok(SkipFormat::Framework(framework));
    }
    let able = frameworks().iter().map(|(n, _)| *n).filter(|n| can_skip(n));
    bail!(
        "the formats are json, {} (with @VERSION where it decides)",
        able.collect::<Vec<_>>().join(", ")
    )
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
    if args.skip_list.is_some() || args.skip_format.is_some() {
        let list = skip_list(args.skip_format.as_ref(), &diagnosis, which)?;
        let Some(path) = &args.skip_list else {
            output::result(&list)?;
            return Ok(ExitCode::SUCCESS);
        };
        std::fs::write(path, list).with_context(|| path.display().to_string())?;
    }
    let printed = match args.format {
        Format::Text => text::render_plan(&diagnosis, which, output::layout()),
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

fn skip_list(
    format: Option<&SkipFormat>,
    d: &Diagnosis,
    which: &Diagnosed,
) -> anyhow::Result<String> {
    let list = match format {
        None | Some(SkipFormat::Json) => list::json(d, which),
        Some(SkipFormat::Framework(framework)) => list::of_framework(d, which, framework),
    };
    list.map_err(anyhow::Error::msg)
}
