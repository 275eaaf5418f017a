//! `whyspike report`: the whole answer as one page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::input::Input;
use crate::cli::output;
use whyspike::report::html;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// The page to write; - for standard output
    #[arg(short, long, value_name = "REPORT.html")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let to_stdout = args.output == Path::new("-");
    output::spares(&args.output, &args.input.reading.logs)?;
    let diagnosis = args.input.diagnosis()?;
    let page = html::render(&diagnosis);
    if to_stdout {
        output::result(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::file(&args.output, page.as_bytes())?;
    let incidents = diagnosis.incidents.len();
    let told = format!(
        "{}: {incidents} incident{}, {} kB\n",
        args.output.display(),
        if incidents == 1 { "" } else { "s" },
        page.len().div_ceil(1000)
    );
    output::result(&told)?;
    Ok(ExitCode::SUCCESS)
}
