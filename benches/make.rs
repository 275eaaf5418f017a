//! Generated logs of long runs: the same bytes on every machine.

mod consoles;
mod curve;
mod random;
mod tables;
mod tensorboard;
mod wandb;
mod wire;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use curve::Curve;

/// A log to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input {
    /// Name of the file, or of the folder where it is many runs.
    pub(crate) name: &'static str,
    steps: u64,
    /// One where it is a single file.
    runs: u64,
    write: fn(&mut dyn Write, Curve) -> io::Result<()>,
}

impl Input {
    const fn new(
        name: &'static str,
        steps: u64,
        write: fn(&mut dyn Write, Curve) -> io::Result<()>,
    ) -> Self {
        Self {
            name,
            steps,
            runs: 1,
            write,
        }
    }
}

/// All of them, by the names that the comparison knows.
pub(crate) const INPUTS: [Input; 8] = [
    Input::new("megatron.log", 1_000_000, consoles::megatron),
    Input::new("torchtitan.log", 1_000_000, consoles::torchtitan),
    Input::new("metrics.jsonl", 1_000_000, tables::jsonl),
    Input::new("metrics.csv", 1_000_000, tables::csv),
    Input::new(
        "tensorboard/events.out.tfevents.1772366400.host-a.1.0",
        1_000_000,
        tensorboard::events,
    ),
    Input::new("run-bench000.wandb", 100_000, wandb::history),
    Input::new("trainer_state.json", 100_000, tables::trainer_state),
    Input {
        name: "runs",
        steps: 5_000,
        runs: 1_000,
        write: tables::short_jsonl,
    },
];

/// Where the inputs are unless another folder is named.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("inputs")
}

/// Writes an input that is not there yet, with its number of steps (or of runs) divided; tells whether it was written.
pub(crate) fn make(input: &Input, folder: &Path, divide: u64) -> io::Result<bool> {
    let path = folder.join(input.name);
    if path.exists() {
        return Ok(false);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // A file that was cut short by an interruption must not pass for a whole one.
    let part = folder.join("unfinished");
    if input.runs > 1 {
        many(input, &part, divide)?;
    } else {
        one(input, &part, Curve::new(0, (input.steps / divide).max(1)))?;
    }
    fs::rename(&part, &path)?;
    Ok(true)
}

fn one(input: &Input, path: &Path, curve: Curve) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    (input.write)(&mut out, curve)?;
    out.flush()
}

fn many(input: &Input, folder: &Path, divide: u64) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for run in 0..(input.runs / divide).max(1) {
        let path = folder.join(format!("run-{run:04}.jsonl"));
        one(input, &path, Curve::new(run, input.steps))?;
    }
    Ok(())
}
