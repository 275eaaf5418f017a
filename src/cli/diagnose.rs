//! `whyspike diagnose`: the whole answer.

use std::process::ExitCode;

use clap::ValueEnum;

use crate::cli::input::Input;
use crate::cli::output;
use whyspike::report::text::{self, Layout};
use whyspike::report::{json, markdown};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Whether to draw loss and gradient norm around each incident; auto does on a terminal that is wide enough, and in
    /// Markdown
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Chart::Auto)]
    chart: Chart,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Markdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Chart {
    Auto,
    Always,
    Never,
}

impl Chart {
    fn layout(self) -> Layout {
        /// A narrower terminal has no room for a chart.
        const ENOUGH: usize = 80;
        let terminal = output::columns();
        let layout = output::layout();
        let charts = match self {
            Self::Auto => terminal.is_some_and(|columns| columns >= ENOUGH),
            Self::Always => true,
            Self::Never => false,
        };
        Layout { charts, ..layout }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let diagnosis = args.input.diagnosis()?;
    let printed = match args.format {
        Format::Text => text::render(&diagnosis, args.chart.layout()),
        Format::Json => json::render(&diagnosis),
        Format::Markdown => markdown::render_with_charts(&diagnosis, args.chart != Chart::Never),
    };
    output::result(&printed)?;
    Ok(ExitCode::SUCCESS)
}
