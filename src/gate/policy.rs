//! The policy of a gate: a file beside the logs, so that the command line stays short.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::detect::Shape;
use crate::gate::FAIL_ON;
use crate::rules::CAUSES;

/// What fails a run. All keys may be left out.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Shapes of incidents that fail it: `transient`, `recoverable`, `divergent`, `level-shift`. Unless named,
    /// recoverable and divergent ones.
    pub fail_on: Option<Vec<String>>,
    /// Causes that fail it where they are decided.
    pub fail_on_cause: Vec<String>,
    /// Incidents of any shape that are let pass.
    pub max_incidents: Option<usize>,
    /// Incidents and drift up to this step are let pass.
    pub after: Option<u64>,
    /// A golden run of the same recipe; a path from the folder of the file.
    pub baseline: Option<PathBuf>,
}

/// A policy that cannot be in force.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no policy.
    #[error("{path}: {what}")]
    Form {
        /// The file.
        path: String,
        /// What is wrong, with its line.
        what: String,
    },
    /// There is no such shape.
    #[error(
        "there is no shape `{0}`; the shapes are transient, recoverable, divergent, level-shift"
    )]
    Shape(String),
    /// There is no such cause.
    #[error("there is no cause `{name}`; the causes are {}", CAUSES.join(", "))]
    Cause {
        /// The name as given.
        name: String,
    },
}

/// The file in which a policy stands under `[check]`.
const FILE: &str = "whyspike.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    check: Policy,
}

impl Policy {
    /// The policy for a log: of the nearest `whyspike.toml` in its folder or one above. `None` where there is none.
    pub fn find(log: &Path) -> Result<Option<(PathBuf, Self)>, PolicyError> {
        let start = std::path::absolute(log).unwrap_or_else(|_| log.to_owned());
        let found = start
            .ancestors()
            .map(|folder| folder.join(FILE))
            .find(|f| f.is_file());
        found.map(|f| Self::read(&f).map(|p| (f, p))).transpose()
    }

    /// Reads a policy from a file.
    pub fn read(file: &Path) -> Result<Self, PolicyError> {
        let path = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|source| PolicyError::Io {
            path: path.clone(),
            source,
        })?;
        let parsed: File = toml::from_str(&text).map_err(|e| PolicyError::Form {
            path: path.clone(),
            what: e.to_string().trim().replace('\n', " "),
        })?;
        let mut policy = parsed.check;
        policy.checked().map_err(|e| PolicyError::Form {
            path,
            what: e.to_string(),
        })?;
        let folder = file.parent().unwrap_or(Path::new(""));
        policy.baseline = policy.baseline.map(|b| folder.join(b));
        Ok(policy)
    }

    /// Whether all names are known.
    pub fn checked(&self) -> Result<(), PolicyError> {
        for name in self.fail_on.iter().flatten() {
            shape(name).ok_or_else(|| PolicyError::Shape(name.clone()))?;
        }
        match self
            .fail_on_cause
            .iter()
            .find(|c| !CAUSES.contains(&c.as_str()))
        {
            Some(name) => Err(PolicyError::Cause { name: name.clone() }),
            None => Ok(()),
        }
    }

    /// The shapes that fail a run.
    pub(super) fn shapes(&self) -> impl Iterator<Item = Shape> {
        let named = self
            .fail_on
            .as_ref()
            .map(|names| names.iter().filter_map(|n| shape(n)).collect());
        named.unwrap_or_else(|| FAIL_ON.to_vec()).into_iter()
    }

    /// The causes that fail a run.
    pub(super) fn causes(&self) -> impl Iterator<Item = &str> {
        self.fail_on_cause.iter().map(String::as_str)
    }
}

fn shape(name: &str) -> Option<Shape> {
    Shape::ALL.into_iter().find(|s| s.name() == name)
}
