//! What the commands that diagnose take: logs, checkpoints, framework, rules.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;

use crate::cli::output::Progress;
use crate::cli::times::{duration, positive};
use whyspike::checkpoints::Given;
use whyspike::detect::detect;
use whyspike::diagnosis::{Diagnosis, Told, diagnose};
use whyspike::features::{Value, feature};
use whyspike::ingest::{self, Options};
use whyspike::plan::Prices;
use whyspike::replay::{OtherKind, OtherRun};
use whyspike::resume::Framework;
use whyspike::rules::RuleSet;
use whyspike::run::Run;
use whyspike::signal::Aliases;

/// The form of a file of names.
pub(super) const ALIASES_HELP: &str = "\
TOML file with names of metrics, which go before the built-in ones. One signal a rule:

[[rule]]
signal = \"loss\"
names = 'my_objective|train/nll'

`names` is a regular expression for the whole name, in which case does not matter. `scale = 0.001` multiplies
the values; `per = \"layer\"` and a group in the pattern make one column a layer; `drop = ['tmp/.*']` at the top
leaves metrics out. Signals are the columns of run.parquet.";

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
    /// Name or id of the run to read of a folder or database that holds several, instead of the newest
    #[arg(long = "run", value_name = "NAME")]
    pub(super) run_name: Option<String>,
    /// TOML file with names of metrics, which go before the built-in ones
    #[arg(long, value_name = "FILE", long_help = ALIASES_HELP)]
    pub(super) aliases: Option<PathBuf>,
}

/// Which checkpoints there are.
#[derive(Debug, Default, Args)]
pub(super) struct Kept {
    /// Folder that the checkpoints are saved into; what is torn in it is not gone back to
    #[arg(long, value_name = "DIR", conflicts_with_all = ["checkpoint_steps", "checkpoint_every"])]
    checkpoints: Option<PathBuf>,
    /// Steps of the checkpoints that exist, such as 1000,2000,3000
    #[arg(long, value_name = "A,B,C", conflicts_with = "checkpoint_every")]
    checkpoint_steps: Option<String>,
    /// A checkpoint exists every so many steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: Option<u64>,
    /// How many checkpoints are kept
    #[arg(long, value_name = "K", requires = "checkpoint_every", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
}

/// Everything that a diagnosis takes.
#[derive(Debug, Args)]
pub(super) struct Input {
    #[command(flatten)]
    pub(super) reading: Reading,
    #[command(flatten)]
    pub(super) kept: Kept,
    /// Framework of the run, such as megatron-lm@0.17
    #[arg(long, value_name = "NAME[@VERSION]")]
    framework: Option<String>,
    /// Time of a step, such as 12s; without it that of the log, where it is logged
    #[arg(long, value_name = "TIME", value_parser = positive)]
    step_time: Option<f64>,
    /// Time until a stopped job trains again; without it 10min are assumed
    #[arg(long, value_name = "TIME", value_parser = duration)]
    restart_time: Option<f64>,
    /// Number of GPUs of the job, for what each way to go on costs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    gpus: Option<u64>,
    /// What one GPU costs for an hour
    #[arg(long, value_name = "P", requires = "gpus", value_parser = price)]
    gpu_hour_price: Option<f64>,
    /// Folder of rule files that are added to the built-in ones or replace them
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// Another run over the same steps, and what was changed in it: twin (nothing, other weights), same, skip, reseed,
    /// lr, precision, reset-optimizer, earlier-checkpoint, other-nodes, sham
    #[arg(long, value_name = "PATH[=KIND]")]
    replay: Vec<String>,
    /// Take a feature as known, to see what the verdict becomes
    #[arg(long, value_name = "FEATURE=VALUE")]
    assume: Vec<String>,
    /// Leave a piece of evidence out, to see what the verdict becomes
    #[arg(long, value_name = "[CAUSE/]ID")]
    without: Vec<String>,
}

impl Kept {
    /// Where the inventory comes from.
    pub(super) fn given(&self) -> anyhow::Result<Given> {
        let given = (
            &self.checkpoints,
            &self.checkpoint_steps,
            self.checkpoint_every,
        );
        Ok(match given {
            (Some(folder), _, _) => Given::folder(folder).context("--checkpoints")?,
            (_, Some(list), _) => Given::parse_steps(list).context("--checkpoint-steps")?,
            (_, _, Some(every)) => Given::Every {
                every,
                keep: self.keep,
            },
            _ => Given::Nothing,
        })
    }
}

impl Reading {
    /// Reads the run.
    pub(super) fn run(&self) -> anyhow::Result<Run> {
        self.read(&self.logs)
    }

    /// How logs are read.
    pub(super) fn options(&self) -> Options {
        Options {
            format: self.input_format.clone(),
            step_base: self.step_base,
            run: self.run_name.clone(),
        }
    }

    /// Reads another run in the same way.
    pub(super) fn read(&self, logs: &[PathBuf]) -> anyhow::Result<Run> {
        let options = self.options();
        let mut progress = Progress::new();
        let aliases = aliases(self.aliases.as_deref())?;
        let run = ingest::read(logs, &aliases, &options, &mut |at, size| {
            progress.at(at, size);
        });
        progress.done();
        Ok(run?)
    }
}

/// The built-in aliases with those of a file before them.
pub(super) fn aliases(file: Option<&Path>) -> anyhow::Result<Aliases> {
    let Some(path) = file else {
        return Ok(Aliases::built_in());
    };
    let at = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(at)?;
    Aliases::built_in().extended(&text).with_context(at)
}

impl Input {
    /// Reads and diagnoses the run.
    pub(super) fn diagnosis(&self) -> anyhow::Result<Diagnosis> {
        let told = self.told()?;
        // The rules are checked while the log is read.
        let (rules, run) = std::thread::scope(|scope| {
            let rules = scope.spawn(|| self.rules());
            let run = self.reading.run();
            let rules = rules.join();
            (rules.unwrap_or_else(|e| std::panic::resume_unwind(e)), run)
        });
        let (rules, run) = (rules?, run?);
        holds_something(&run)?;
        Ok(diagnose(run, &rules, &told))
    }

    /// The rules that are in force; those that are asked about must be among them.
    pub(super) fn rules(&self) -> anyhow::Result<RuleSet> {
        let rules = match &self.rules {
            Some(folder) => RuleSet::with_folder(folder)?,
            None => RuleSet::built_in()?,
        };
        for asked in &self.without {
            known_evidence(&rules, asked)?;
        }
        Ok(rules)
    }

    fn others(&self) -> anyhow::Result<Vec<OtherRun>> {
        self.replay.iter().map(|text| self.other(text)).collect()
    }

    fn other(&self, text: &str) -> anyhow::Result<OtherRun> {
        let (path, kind) = match text.rsplit_once('=') {
            Some((path, kind)) => (path, kind),
            None => (text, "twin"),
        };
        let Some(kind) = OtherKind::parse(kind) else {
            let kinds: Vec<&str> = OtherKind::NAMES.iter().map(|(n, _)| *n).collect();
            bail!(
                "--replay: `{kind}` is not a kind of replay; the kinds are {}",
                kinds.join(", ")
            );
        };
        let run = self
            .reading
            .read(&[PathBuf::from(path)])
            .context("--replay")?;
        let incidents = detect(&run);
        Ok(OtherRun {
            path: path.to_owned(),
            kind,
            run,
            incidents,
        })
    }

    fn assumed(&self) -> anyhow::Result<Vec<(&'static str, Value)>> {
        self.assume.iter().map(|text| assumption(text)).collect()
    }

    /// What the command line tells besides the run.
    pub(super) fn told(&self) -> anyhow::Result<Told> {
        Ok(Told {
            checkpoints: self.kept.given()?,
            framework: self.framework.as_deref().map(Framework::parse),
            others: self.others()?,
            assume: self.assumed()?,
            without: self.without.clone(),
            prices: Prices {
                step_time: self.step_time,
                restart: self.restart_time,
                gpus: self.gpus,
                gpu_hour: self.gpu_hour_price,
            },
        })
    }
}

fn price(text: &str) -> anyhow::Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(p) if p.is_finite() && p >= 0.0 => Ok(p),
        _ => bail!("`{text}` is no price: give a number without a currency, such as 2.5"),
    }
}

/// An incident is one of the loss or of the gradient norm: without either there is nothing to look at.
pub(super) fn holds_something(run: &Run) -> anyhow::Result<()> {
    const SHOWN: usize = 12;
    if run.column("loss").is_some() || run.column("grad_norm").is_some() {
        return Ok(());
    }
    let mut names: Vec<&str> = run.columns().map(|(n, _)| n).take(SHOWN + 1).collect();
    if names.len() > SHOWN {
        names[SHOWN] = "…";
    }
    let source = run.meta.sources.first().map_or("-", String::as_str);
    bail!(
        "{source}: neither a loss nor a gradient norm in it, so there is nothing to diagnose; if one of its metrics is \
         either, name it with --aliases: {}",
        names.join(", ")
    )
}

fn assumption(text: &str) -> anyhow::Result<(&'static str, Value)> {
    let Some((name, value)) = text.split_once('=') else {
        bail!("--assume: `{text}` is not FEATURE=VALUE, such as u_per_lr=1.0");
    };
    let Some(feature) = feature(name.trim()) else {
        bail!("--assume: `{name}` is not a feature; `diagnose --format json` lists them");
    };
    let value = value.trim();
    let parsed = if feature.boolean {
        value.parse().ok().map(Value::Bool)
    } else {
        value
            .parse()
            .ok()
            .filter(|v: &f64| v.is_finite())
            .map(Value::Number)
    };
    match parsed {
        Some(value) => Ok((feature.name, value)),
        None => bail!("--assume: `{name}` is {}, not `{value}`", feature.unit),
    }
}

fn known_evidence(rules: &RuleSet, asked: &str) -> anyhow::Result<()> {
    let known = rules.iter().any(|r| {
        r.evidence
            .iter()
            .any(|e| e.id == asked || format!("{}/{}", r.cause, e.id) == asked)
    });
    if known {
        return Ok(());
    }
    bail!("--without: there is no evidence `{asked}`; `rules list` shows all")
}
