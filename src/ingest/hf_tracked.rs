//! Logs of the Hugging Face Trainer in trackers: `TensorBoard` files, W&B, `MLflow` and others name no framework.

use std::collections::BTreeSet;

use crate::run::Rows;

/// Name of the framework.
pub(super) const FRAMEWORK: &str = "hf-trainer";
/// What stands before the names of its metrics.
const PREFIXES: [&str; 4] = ["train/", "eval/", "test/", "predict/"];
/// Metrics that it logs together.
const TOGETHER: [&str; 3] = ["train/loss", "train/learning_rate", "train/epoch"];
/// Its own count of updates, which it adds where a tracker has a step of its own.
const COUNT: &str = "train/global_step";
/// Arguments of it that no other trainer has.
const ARGUMENTS: [&str; 3] = [
    "logging_steps",
    "logging_strategy",
    "per_device_train_batch_size",
];

/// Whether what was read from the sources of one format was logged by the Trainer. Its losses are means since the row
/// before, and its steps count from 1.
pub(super) fn wrote<'a>(sources: impl Iterator<Item = &'a Rows>) -> bool {
    let sources: Vec<&Rows> = sources.collect();
    let facts = |name: &str| sources.iter().any(|rows| rows.facts.contains_key(name));
    let columns = sources.iter().flat_map(|rows| rows.columns());
    let names: BTreeSet<&str> = columns
        .filter(|(_, c)| c.has_values())
        .map(|(name, _)| name)
        .collect();
    let has = |name: &str| names.contains(name);
    let own = |name: &&str| {
        let name = *name;
        name.contains('/') && !PREFIXES.iter().any(|p| name.starts_with(p))
    };
    let logged = has("train/loss") || has("loss");
    let arguments = ARGUMENTS.iter().all(|name| facts(name));
    let counted = has(COUNT) && has("train/loss") && has("train/epoch");
    let together = TOGETHER.iter().all(|name| has(name)) && !names.iter().any(own);
    logged && arguments || counted || together
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Column;

    fn rows(names: &[&str], facts: &[&str]) -> Rows {
        let mut rows = Rows::default();
        rows.begin(10);
        for name in names {
            rows.put(name, Column::from_values(vec![1.0]));
        }
        let facts = facts.iter().map(|f| ((*f).to_owned(), "1".to_owned()));
        rows.facts.extend(facts);
        rows
    }

    #[test]
    fn it_is_known_by_its_names_or_its_arguments() {
        let known = |sources: &[Rows]| wrote(sources.iter());
        let of = |names: &[&str], facts: &[&str]| known(&[rows(names, facts)]);
        assert!(of(
            &[
                "time",
                "train/loss",
                "train/learning_rate",
                "train/epoch",
                "eval/loss"
            ],
            &[]
        ));
        assert!(of(
            &[
                "train/loss",
                "train/epoch",
                "train/global_step",
                "profiling/x"
            ],
            &[]
        ));
        assert!(of(&["loss"], &ARGUMENTS));
        let apart = [
            rows(&["train/loss"], &ARGUMENTS[..2]),
            rows(&["lr"], &ARGUMENTS[2..]),
        ];
        assert!(known(&apart), "one file a metric");
        assert!(!of(&["train/loss", "train/lr", "train/epoch"], &[]));
        assert!(!of(
            &[
                "train/loss",
                "train/learning_rate",
                "train/epoch",
                "optim/x"
            ],
            &[]
        ));
        assert!(!of(&["loss"], &["logging_steps", "transformers_version"]));
        assert!(!of(&["eval/loss"], &ARGUMENTS));
    }
}
