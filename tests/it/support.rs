//! What the tests share: paths, reading, generated series, the built-in rules.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use whyspike::checkpoints::Given;
use whyspike::detect::{Incident, detect};
use whyspike::diagnosis::{Diagnosis, Told, diagnose};
use whyspike::ingest::{self, IngestError, Options};
use whyspike::rules::RuleSet;
use whyspike::run::{BuildOptions, Column, Rows, Run, RunBuilder};
use whyspike::signal::Aliases;

pub(crate) static ALIASES: LazyLock<Aliases> = LazyLock::new(Aliases::built_in);
pub(crate) static RULES: LazyLock<RuleSet> =
    LazyLock::new(|| RuleSet::built_in().expect("the built-in rules"));

/// The folder of the crate.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A path under `fixtures/`.
pub(crate) fn fixture(path: &str) -> PathBuf {
    root().join("fixtures").join(path)
}

/// A path under the shared samples and corpus, if they are there.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    Some(root().join("../shared").join(path)).filter(|p| p.exists())
}

/// The files of a folder in order of name.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut out: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    out.sort();
    out
}

/// Reads the pieces of a run.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Run, IngestError> {
    ingest::read(paths, &ALIASES, &Options::default(), &mut |_, _| {})
}

/// Reads a log that is good.
pub(crate) fn read(path: impl AsRef<Path>) -> Run {
    read_all(&[path.as_ref().to_owned()]).unwrap_or_else(|e| panic!("{e}"))
}

/// Values of a signal, row by row.
pub(crate) fn values(run: &Run, name: &str) -> Vec<Option<f64>> {
    (0..run.len()).map(|row| run.value(name, row)).collect()
}

/// Values of a signal, where NaN is equal to NaN and nothing is `-`.
pub(crate) fn shown(run: &Run, name: &str) -> String {
    let word = |v: Option<f64>| v.map_or("-".to_owned(), |v| v.to_string());
    values(run, name)
        .into_iter()
        .map(word)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Pseudo-noise that is the same on every machine: a 64-bit linear congruential generator (Knuth's MMIX).
#[derive(Clone)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        let mut noise = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D123_4567);
        for _ in 0..8 {
            noise.uniform();
        }
        noise
    }

    /// In [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal with variance 1: the sum of twelve.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Rows of generated columns. A value that is `None` was not logged.
#[derive(Clone, Default)]
pub(crate) struct Curve {
    pub(crate) steps: Vec<u64>,
    pub(crate) columns: Vec<(&'static str, Vec<Option<f64>>)>,
}

impl Curve {
    /// Loss at steps counted from 1.
    pub(crate) fn of_loss(loss: impl IntoIterator<Item = f64>) -> Self {
        let loss: Vec<Option<f64>> = loss.into_iter().map(Some).collect();
        Self {
            steps: (1..=loss.len() as u64).collect(),
            columns: vec![("loss", loss)],
        }
    }

    pub(crate) fn with(
        mut self,
        name: &'static str,
        values: impl IntoIterator<Item = f64>,
    ) -> Self {
        let values: Vec<Option<f64>> = values.into_iter().map(Some).collect();
        assert_eq!(values.len(), self.steps.len(), "{name}");
        self.columns.push((name, values));
        self
    }

    /// The column of a name, to be changed.
    pub(crate) fn column(&mut self, name: &str) -> &mut Vec<Option<f64>> {
        let found = self.columns.iter_mut().find(|(n, _)| *n == name);
        &mut found.unwrap_or_else(|| panic!("no column {name}")).1
    }

    /// Adds to the loss of a step.
    pub(crate) fn raise(&mut self, step: u64, by: f64) {
        let at = self
            .steps
            .iter()
            .position(|s| *s == step)
            .expect("a step of the curve");
        let loss = &mut self.column("loss")[at];
        *loss = loss.map(|v| v + by);
    }

    /// The same with something added to the loss of each row.
    pub(crate) fn bumped(mut self, by: impl Fn(usize) -> f64) -> Self {
        for (i, v) in self.column("loss").iter_mut().enumerate() {
            *v = v.map(|v| v + by(i));
        }
        self
    }

    /// The first rows.
    pub(crate) fn head(&self, rows: usize) -> Self {
        let columns = self
            .columns
            .iter()
            .map(|(n, c)| (*n, c[..rows].to_vec()))
            .collect();
        Self {
            steps: self.steps[..rows].to_vec(),
            columns,
        }
    }

    /// These rows, then those of another curve: a log in which the trainer came back.
    pub(crate) fn then(mut self, other: &Self) -> Self {
        self.steps.extend(&other.steps);
        for (name, column) in &mut self.columns {
            let (_, more) = other
                .columns
                .iter()
                .find(|(n, _)| n == name)
                .expect("the same columns");
            column.extend(more);
        }
        self
    }

    pub(crate) fn run(&self) -> Run {
        self.run_from(1)
    }

    /// The run, its steps counted from a base.
    pub(crate) fn run_from(&self, base: u64) -> Run {
        let mut rows = Rows::default();
        rows.steps.clone_from(&self.steps);
        for (name, values) in &self.columns {
            rows.put(name, Column::from_options(values.iter().copied()));
        }
        built(
            rows,
            BuildOptions {
                format: "generated".into(),
                step_base: Some(base),
                ..BuildOptions::default()
            },
        )
    }

    pub(crate) fn incidents(&self) -> (Run, Vec<Incident>) {
        let run = self.run();
        let found = detect(&run);
        (run, found)
    }
}

/// A run of rows that hold at least one step.
pub(crate) fn built(rows: Rows, options: BuildOptions) -> Run {
    let mut builder = RunBuilder::new(&ALIASES, options);
    builder.add("generated", rows);
    builder.finish().expect("rows with steps")
}

/// A diagnosis with the built-in rules.
pub(crate) fn diagnosed(run: Run, checkpoints: &str) -> Diagnosis {
    let given = if checkpoints.is_empty() {
        Given::Nothing
    } else {
        Given::parse_steps(checkpoints).expect("steps")
    };
    diagnose(
        run,
        &RULES,
        &Told {
            checkpoints: given,
            ..Told::default()
        },
    )
}
