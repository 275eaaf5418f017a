//! What `diagnose` and `plan` take: logs, checkpoints, framework, rules.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::cli::output::Progress;
use whyspike::checkpoints::Given;
use whyspike::diagnosis::{Diagnosis, Told, diagnose};
use whyspike::ingest::{self, Options};
use whyspike::resume::Framework;
use whyspike::rules::RuleSet;
use whyspike::run::Run;
use whyspike::signal::Aliases;

/// How a log is read.
#[derive(Debug, Args)]
pub(super) struct Reading {
    /// Logs or stored runs: the pieces of one run, a folder, or - for standard input
    #[arg(required = true, value_name = "LOG")]
    pub(super) logs: Vec<PathBuf>,
    /// Read as this format instead of recognising it (see `whyspike formats`)
    #[arg(long = "input-format", value_name = "NAME")]
    pub(super) input_format: Option<String>,
    /// Whether the log counts its first update 0 or 1
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u64).range(0..=1))]
    pub(super) step_base: Option<u64>,
}

/// Everything that a diagnosis takes.
#[derive(Debug, Args)]
pub(super) struct Input {
    #[command(flatten)]
    pub(super) reading: Reading,
    /// Steps of the checkpoints that exist, such as 1000,2000,3000
    #[arg(long, value_name = "A,B,C", conflicts_with = "checkpoint_every")]
    checkpoint_steps: Option<String>,
    /// A checkpoint exists every so many steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: Option<u64>,
    /// How many checkpoints are kept
    #[arg(long, value_name = "K", requires = "checkpoint_every", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Framework of the run, such as megatron-lm@0.17
    #[arg(long, value_name = "NAME[@VERSION]")]
    framework: Option<String>,
    /// Folder of rule files that are added to the built-in ones or replace them
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
}

impl Reading {
    /// Reads the run.
    pub(super) fn run(&self) -> anyhow::Result<Run> {
        let options = Options {
            format: self.input_format.clone(),
            step_base: self.step_base,
        };
        let mut progress = Progress::new();
        let aliases = Aliases::built_in();
        let run = ingest::read(&self.logs, &aliases, &options, &mut |at, size| {
            progress.at(at, size);
        });
        progress.done();
        Ok(run?)
    }
}

impl Input {
    /// Reads and diagnoses the run.
    pub(super) fn diagnosis(&self) -> anyhow::Result<Diagnosis> {
        let told = self.told()?;
        let rules = match &self.rules {
            Some(folder) => RuleSet::with_folder(folder)?,
            None => RuleSet::built_in()?,
        };
        Ok(diagnose(self.reading.run()?, &rules, &told))
    }

    fn told(&self) -> anyhow::Result<Told> {
        let checkpoints = match (&self.checkpoint_steps, self.checkpoint_every) {
            (Some(list), _) => Given::parse_steps(list).context("--checkpoint-steps")?,
            (None, Some(every)) => Given::Every {
                every,
                keep: self.keep,
            },
            (None, None) => Given::Nothing,
        };
        Ok(Told {
            checkpoints,
            framework: self.framework.as_deref().map(Framework::parse),
        })
    }
}
