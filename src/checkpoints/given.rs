//! What the user says about checkpoints.

use std::path::{Path, PathBuf};

/// What the user says about checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Given {
    /// Nothing: the log is asked.
    #[default]
    Nothing,
    /// These steps.
    Steps(Vec<u64>),
    /// One every so many steps, the last `keep` of them.
    Every {
        /// Steps between checkpoints.
        every: u64,
        /// How many are kept.
        keep: Option<u64>,
    },
    /// Those in this folder.
    Folder(PathBuf),
}

/// A list of checkpoints does not parse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GivenError {
    /// An entry is not a step.
    #[error("`{0}` is not a checkpoint step: give whole numbers, such as 1000,2000,3000")]
    NotAStep(String),
    /// Nothing in it.
    #[error("the list of checkpoint steps is empty: give whole numbers, such as 1000,2000,3000")]
    Empty,
    /// Checkpoints in a store that is not a file system.
    #[error("`{0}` is not a local folder: mount it, or list the steps with --checkpoint-steps")]
    Remote(String),
    /// No folder.
    #[error("{0} is not a folder: give the one that the checkpoints are saved into")]
    NotAFolder(String),
}

impl Given {
    /// Parses `1000,2000,3000`; space is allowed too.
    pub fn parse_steps(text: &str) -> Result<Self, GivenError> {
        let words = text
            .split([',', ' ', '\n', '\t'])
            .map(str::trim)
            .filter(|w| !w.is_empty());
        let steps = words.map(|w| w.parse().map_err(|_| GivenError::NotAStep(w.to_owned())));
        let steps = steps.collect::<Result<Vec<u64>, _>>()?;
        if steps.is_empty() {
            Err(GivenError::Empty)
        } else {
            Ok(Self::Steps(steps))
        }
    }

    /// The checkpoints in a folder; it must be there.
    pub fn folder(path: &Path) -> Result<Self, GivenError> {
        let shown = path.display().to_string();
        if path.is_dir() {
            Ok(Self::Folder(path.to_owned()))
        } else if shown.contains("://") {
            Err(GivenError::Remote(shown))
        } else {
            Err(GivenError::NotAFolder(shown))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(
            Given::parse_steps("100, 200,300"),
            Ok(Given::Steps(vec![100, 200, 300]))
        );
        assert_eq!(
            Given::parse_steps("100,x"),
            Err(GivenError::NotAStep("x".into()))
        );
        assert_eq!(Given::parse_steps(" , "), Err(GivenError::Empty));
    }

    #[test]
    fn folders() {
        let here = tempfile::tempdir().unwrap();
        let given = Given::folder(here.path());
        assert_eq!(given, Ok(Given::Folder(here.path().to_owned())));
        let gone = Given::folder(&here.path().join("x"));
        assert!(matches!(gone, Err(GivenError::NotAFolder(_))));
        let remote = Given::folder(Path::new("gs://bucket/run"));
        assert!(matches!(remote, Err(GivenError::Remote(_))));
    }
}
