//! Subcommands, one file each, and what they share.

mod cadence;
mod check;
mod deliver;
mod diagnose;
mod formats;
mod ingest;
mod input;
mod output;
mod plan;
mod plot;
mod report;
mod rules;
mod times;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Explains loss spikes in large-model training from the logs that the run already wrote.
#[derive(Debug, Parser)]
#[command(
    name = "whyspike",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
#[command(
    after_help = "Exit status: 0 it ran; 1 `check` found what it fails on; 2 it could not run."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find incidents, weigh their causes, and say what to do
    Diagnose(diagnose::Args),
    /// The plan for an incident alone, and its skip list as a file
    Plan(plan::Args),
    /// Fail a job whose training spiked, or drifted from a golden run
    Check(check::Args),
    /// Follow a growing log, and tell of each incident as it happens
    Watch(watch::Args),
    /// Draw the run or an incident as SVG or PNG
    Plot(plot::Args),
    /// The whole answer as one page to look at, to mail and to print
    Report(report::Args),
    /// Read logs into a run store (Parquet)
    Ingest(ingest::Args),
    /// How often to save a checkpoint and how many to keep
    Cadence(cadence::Args),
    /// Show and check the rules that verdicts rest on
    Rules(rules::Args),
    /// The log formats that can be read
    Formats,
    /// Hand one piece of news on; `watch` starts this
    #[command(hide = true)]
    Deliver(deliver::Args),
}

/// Runs the command line; errors go to standard error and make exit status 2.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    let outcome = match cli.command {
        Command::Diagnose(args) => diagnose::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Plot(args) => plot::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Ingest(args) => ingest::run(&args),
        Command::Cadence(args) => cadence::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Formats => formats::run(),
        Command::Deliver(args) => deliver::run(&args),
    };
    match outcome {
        Ok(code) => code,
        Err(e) => {
            output::error(&e);
            ExitCode::from(2)
        }
    }
}
