//! One training job's whole history: attempts, rows, events, and what could not be read.

mod align;
mod budget;
mod builder;
pub(crate) mod clipped;
mod column;
mod join;
mod printable;
mod renames;
mod rows;
mod sentinel;
mod streams;
mod zip;

use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) use budget::cells;
pub use builder::{BuildOptions, NoRows, RunBuilder};
pub(crate) use clipped::KEYS as CLIP_KEYS;
pub use column::Column;
pub(crate) use join::in_step;
pub(crate) use printable::{message, printable};
pub use rows::{Mark, Rows};

/// One training job's history in columns. Rows are in order of attempt, then step.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Where the rows come from and how to read their numbers.
    pub meta: Meta,
    /// The times between one start of the trainer and the next, in order.
    pub attempts: Vec<Attempt>,
    /// What happened besides the metrics.
    pub events: Vec<Event>,
    /// What could not be read.
    pub losses: Vec<DataLoss>,
    /// The source's own step number of each row.
    pub steps: Vec<u64>,
    /// The number of steps that each row averages.
    pub intervals: Vec<u32>,
    columns: BTreeMap<String, Column>,
}

/// Facts about the whole run.
#[derive(Debug, Clone, Default)]
pub struct Meta {
    /// Paths as given, in the order of their content.
    pub sources: Vec<String>,
    /// Name of the format that was read.
    pub format: String,
    /// Framework that wrote the log, if the format tells.
    pub framework: Option<String>,
    /// Version of the framework, if the log tells.
    pub framework_version: Option<String>,
    /// 0 if the source numbers its first update 0, else 1.
    pub step_base: u64,
    /// Whether the base was told, known of the format, or seen in the log; else 1 is assumed.
    pub base_known: bool,
    /// Configuration that the log prints (`adam_beta2`, `clip_grad`, `seq_length`, …), as printed.
    pub facts: BTreeMap<String, String>,
}

/// The time between one start of the trainer and the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Position among the attempts, from 0.
    pub index: u32,
    /// The rows of the run that belong to it.
    pub rows: Range<usize>,
    /// Why it is an attempt of its own.
    pub began: Began,
}

/// Why an attempt began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Began {
    /// The first rows of the log.
    First,
    /// The step counter went back.
    StepWentBack {
        /// Last step before.
        from: u64,
        /// First step after.
        to: u64,
    },
    /// The log says that the trainer started.
    ProcessStart,
    /// The log says that a checkpoint was loaded.
    Loaded {
        /// Its step.
        step: u64,
    },
    /// The attempt column changed.
    Logged,
}

impl Began {
    /// A few words for people.
    pub fn words(&self) -> String {
        match self {
            Self::First => "start of the log".to_owned(),
            Self::StepWentBack { from, to } => format!("step went back from {from} to {to}"),
            Self::ProcessStart => "the trainer started again".to_owned(),
            Self::Loaded { step } => format!("checkpoint {step} was loaded"),
            Self::Logged => "the log counts a new attempt".to_owned(),
        }
    }
}

/// Something that happened besides the metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The attempt during which it happened.
    pub attempt: u32,
    /// The source's step number, if the log tells; of a checkpoint the updates that it holds, whatever the log counts
    /// from and calls it.
    pub step: Option<u64>,
    /// What happened.
    pub kind: EventKind,
    /// The path it names, if any.
    pub path: Option<String>,
}

/// The kinds of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// A save began; not durable yet.
    SaveStarted,
    /// A checkpoint is on disk.
    Saved,
    /// A checkpoint was loaded.
    Loaded,
    /// A checkpoint was deleted.
    Deleted,
    /// The trainer started.
    Start,
    /// The trainer ended.
    Exit,
    /// Data were left out on purpose before this step.
    DataSkipped,
    /// An update was skipped: the gradient was not finite.
    Overflow,
    /// The loss was not printed although the step was: it was not a number.
    NanInferred,
    /// A printed zero that no loss stands behind was taken out.
    FakeZero,
    /// This row's loss counts an earlier row again.
    DoubleCounted,
    /// The global batch size changed.
    BatchSize,
    /// A node or device fault.
    NodeFault,
}

impl EventKind {
    /// All kinds, for readers of the stored name.
    pub const ALL: [Self; 13] = [
        Self::SaveStarted,
        Self::Saved,
        Self::Loaded,
        Self::Deleted,
        Self::Start,
        Self::Exit,
        Self::DataSkipped,
        Self::Overflow,
        Self::NanInferred,
        Self::FakeZero,
        Self::DoubleCounted,
        Self::BatchSize,
        Self::NodeFault,
    ];

    /// Whether it tells which checkpoints exist.
    pub(crate) fn is_of_checkpoint(self) -> bool {
        matches!(self, Self::SaveStarted | Self::Saved | Self::Deleted)
    }

    /// The name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::SaveStarted => "checkpoint-save-started",
            Self::Saved => "checkpoint-saved",
            Self::Loaded => "checkpoint-loaded",
            Self::Deleted => "checkpoint-deleted",
            Self::Start => "start",
            Self::Exit => "exit",
            Self::DataSkipped => "data-skipped",
            Self::Overflow => "overflow",
            Self::NanInferred => "nan-inferred",
            Self::FakeZero => "fake-zero",
            Self::DoubleCounted => "double-counted",
            Self::BatchSize => "batch-size",
            Self::NodeFault => "node-fault",
        }
    }
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataLoss {
    /// The source, as given.
    pub source: String,
    /// Line (from 1), byte, or what the format has instead; empty where the place is the whole source.
    pub place: String,
    /// What was lost and why.
    pub what: String,
}

impl DataLoss {
    /// A loss in one line that a terminal can show: control characters are replaced, and what is too long is cut.
    pub fn new(source: &str, place: &str, what: &str) -> Self {
        Self {
            source: printable(source).into_owned(),
            place: message(place),
            what: message(what),
        }
    }
}

impl Run {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether the run has no rows.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The column of a signal, if any row has it.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(name)
    }

    /// Puts a column in place. Columns without a value are left out. Control characters in the name are replaced.
    pub fn insert(&mut self, name: &str, column: Column) {
        if column.has_values() {
            self.columns.insert(printable(name).into_owned(), column);
        }
    }

    /// Takes a column out.
    pub fn remove(&mut self, name: &str) -> Option<Column> {
        self.columns.remove(name)
    }

    /// All columns in order of name.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Column)> {
        self.columns.iter().map(|(n, c)| (n.as_str(), c))
    }

    /// The value of a signal in a row: `None` if it was not logged, NaN if NaN was logged or inferred.
    pub fn value(&self, name: &str, row: usize) -> Option<f64> {
        self.column(name).and_then(|c| c.get(row))
    }

    /// The members of a family of signals, such as `max_attention_logit/0…`.
    pub fn family<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, &'a Column)> {
        let prefix = format!("{name}/");
        self.columns().filter(move |(n, _)| n.starts_with(&prefix))
    }

    /// The usual distance in steps between rows: the median over all attempts, at least 1. In a long run some thousand
    /// distances, evenly picked, stand for all.
    pub fn spacing(&self) -> u64 {
        const ENOUGH: usize = 4096;
        let every = self.len() / ENOUGH + 1;
        let mut gaps: Vec<u64> = self
            .attempts
            .iter()
            .flat_map(|a| self.steps[a.rows.clone()].windows(2).step_by(every))
            .map(|w| w[1] - w[0])
            .filter(|gap| *gap > 0)
            .collect();
        if gaps.is_empty() {
            return u64::from(self.intervals.first().copied().unwrap_or(1)).max(1);
        }
        let middle = gaps.len() / 2;
        *gaps.select_nth_unstable(middle).1
    }

    /// The lowest and the highest step, in the source's own numbers.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((*self.steps.iter().min()?, *self.steps.iter().max()?))
    }

    /// The attempt that a row belongs to.
    pub fn attempt_of(&self, row: usize) -> u32 {
        let after = self.attempts.partition_point(|a| a.rows.end <= row);
        self.attempts.get(after).map_or(0, |a| a.index)
    }

    /// The first step of `attempt` that a later attempt repeats: its rows from there on are superseded.
    pub fn superseded_from(&self, attempt: u32) -> Option<u64> {
        let later = self.attempts.iter().filter(|a| a.index > attempt);
        later
            .filter_map(|a| self.steps.get(a.rows.start).copied())
            .min()
    }

    /// Updates done once the row of `step` is complete.
    pub fn updates_after(&self, step: u64) -> u64 {
        step + 1 - self.meta.step_base.min(1)
    }

    /// The row of an attempt at or after a step.
    pub fn row_at(&self, attempt: &Attempt, step: u64) -> Option<usize> {
        let steps = &self.steps[attempt.rows.clone()];
        let at = steps.partition_point(|s| *s < step);
        (at < steps.len()).then_some(attempt.rows.start + at)
    }

    /// A number that the log prints among its configuration under any of these names.
    pub fn fact(&self, names: &[&str]) -> Option<f64> {
        names
            .iter()
            .find_map(|n| self.meta.facts.get(*n))
            .and_then(|v| v.trim().parse().ok())
    }

    /// β₂ of Adam, if the log prints it.
    pub fn beta2(&self) -> Option<f64> {
        self.fact(&["adam_beta2", "beta2", "optim_adam_beta2"])
            .filter(|b| (0.0..1.0).contains(b))
    }
}
