//! `whyspike ingest`: logs into a run store.

mod each;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;

use crate::cli::input::{ALIASES_HELP, aliases};
use crate::cli::output::{self, Progress};
use whyspike::ingest::{self, Options};
use whyspike::run::Run;
use whyspike::store;

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// Logs: the pieces of one run, a folder, or - for standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The run store to write; with --each the folder of the stores
    #[arg(short, long, value_name = "RUN.parquet")]
    output: PathBuf,
    /// Every LOG is a run of its own, and becomes a store of its name in the folder of -o
    #[arg(long)]
    each: bool,
    /// Read as this format instead of recognising it (see `whyspike formats`)
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Whether the log counts its first update 0 or 1
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u64).range(0..=1))]
    step_base: Option<u64>,
    /// Name or id of the run to read of a folder or database that holds several, instead of the newest
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// TOML file with names of metrics, which go before the built-in ones
    #[arg(long, value_name = "FILE", long_help = ALIASES_HELP)]
    aliases: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        format: args.format.clone(),
        step_base: args.step_base,
        run: args.run.clone(),
    };
    let aliases = aliases(args.aliases.as_deref())?;
    if args.each {
        return each::run(&args.logs, &args.output, &aliases, &options);
    }
    let mut progress = Progress::new();
    let run = ingest::read(&args.logs, &aliases, &options, &mut |at, size| {
        progress.at(at, size);
    });
    progress.done();
    let run = run?;
    store::write(&run, &args.output)?;
    output::result(&told(&args.output, &run))?;
    Ok(ExitCode::SUCCESS)
}

/// What was stored, in a line.
fn told(output: &Path, run: &Run) -> String {
    let attempts = run.attempts.len();
    format!(
        "{}: {} rows, {} columns, {attempts} attempt{}, {} events, {} losses of data\n",
        output.display(),
        run.len(),
        run.columns().count() + 3,
        if attempts == 1 { "" } else { "s" },
        run.events.len(),
        run.losses.len()
    )
}
