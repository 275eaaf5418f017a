//! `whyspike diagnose`: the whole answer.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::cli::input::Input;
use crate::cli::output;
use whyspike::report::{json, markdown, text};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let diagnosis = args.input.diagnosis()?;
    let printed = match args.format {
        Format::Text => text::render(&diagnosis),
        Format::Json => json::render(&diagnosis),
        Format::Markdown => markdown::render(&diagnosis),
    };
    output::result(&printed)?;
    Ok(ExitCode::SUCCESS)
}
