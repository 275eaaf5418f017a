//! What the user says about checkpoints.

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
}
