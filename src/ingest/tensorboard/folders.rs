//! What the folders of event files tell: writers that work side by side put the same tags into folders of their own.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::ingest::tensorboard::notes::HPARAMS;
use crate::run::{Rows, in_step};

/// A file and what was read from it.
type File = (String, Rows);

/// How much further the steps of others must go than those of `epoch_…` tags for these to count epochs.
const FURTHER: u64 = 4;
/// Folders that are compared each with each, to tell runs from writers of one.
const MOST_COMPARED: usize = 32;

/// Gives the tags of evaluations, and of scalars that were added together, the names of their folders, so that they are
/// not taken for the training's own; and settles on one meaning of the steps.
pub(in crate::ingest) fn settle(files: &mut [File]) {
    summaries(files);
    let inner = inner_folders(files);
    let inner_training = inner
        .iter()
        .any(|f| f.iter().any(|part| part == "train_inner"));
    for ((_, rows), folder) in files.iter_mut().zip(&inner) {
        if let Some(name) = added_together(folder, rows) {
            rows.rename(|tag| is_metric(tag).then(|| name.clone()));
        } else if let Some(prefix) = evaluation(folder) {
            rows.rename(|tag| {
                (is_metric(tag) && !is_evaluation(tag)).then(|| format!("{prefix}/{tag}"))
            });
        } else if inner_training && folder.iter().any(|part| part == "train") {
            // fairseq: means of an epoch beside those of an interval.
            rows.rename(|tag| is_metric(tag).then(|| format!("train_epoch/{tag}")));
        }
    }
    count_alike(files);
}

/// The runs of a folder in which each has one of its own, as `runs/` of PyTorch and of the HF Trainer and `lightning_logs/`:
/// their folders, and what they are called. None if the folders are those of several writers of one run.
pub(in crate::ingest) fn runs(files: &[File]) -> Vec<(PathBuf, String)> {
    let mut found: BTreeMap<PathBuf, Vec<&Rows>> = BTreeMap::new();
    for ((path, rows), folder) in files.iter().zip(inner_folders(files)) {
        // One row is that of `add_hparams`.
        if rows.steps.len() < 2 {
            continue;
        }
        let own = folder
            .first()
            .filter(|f| !is_training(f) && !is_evaluation(f));
        let outer = Path::new(path).ancestors().nth(folder.len());
        let Some((_, outer)) = own.zip(outer) else {
            return Vec::new();
        };
        found.entry(outer.to_owned()).or_default().push(rows);
    }
    let all: Vec<&Vec<&Rows>> = found.values().collect();
    let compared = &all[..all.len().min(MOST_COMPARED)];
    let apart = |(at, a): (usize, &&Vec<&Rows>)| compared[at + 1..].iter().all(|b| others(a, b));
    if all.len() < 2 || !compared.iter().enumerate().all(apart) {
        return Vec::new();
    }
    let name = |folder: &PathBuf| folder.file_name().map(|n| n.to_string_lossy().into_owned());
    let named = found.into_keys().filter_map(|f| Some((name(&f)?, f)));
    named.map(|(name, folder)| (folder, name)).collect()
}

/// Whether the files of two folders are of two runs: they have metrics in common, and were not written side by side.
fn others(a: &[&Rows], b: &[&Rows]) -> bool {
    let common = |a: &Rows, b: &Rows| {
        let mut tags = a.columns().map(|(tag, _)| tag).filter(|t| is_metric(t));
        tags.any(|tag| b.find(tag).is_some())
    };
    let follows = |a: &Rows, b: &Rows| {
        let (Some(a), Some(b)) = (a.span(), b.span()) else {
            return false;
        };
        a.1 <= b.0 || b.1 <= a.0
    };
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (*a, *b)));
    let mut alike = pairs.filter(|(a, b)| common(a, b)).peekable();
    alike.peek().is_some() && alike.all(|(a, b)| follows(a, b) || !in_step(a, b))
}

/// The folders of each file below the one that all have in common.
fn inner_folders(files: &[File]) -> Vec<Vec<String>> {
    let folder = |path: &str| {
        Path::new(path)
            .parent()
            .map_or_else(PathBuf::new, Path::to_owned)
    };
    let folders: Vec<PathBuf> = files.iter().map(|(path, _)| folder(path)).collect();
    let mut common = folders.first().cloned().unwrap_or_default();
    while !folders.iter().all(|f| f.starts_with(&common)) {
        if !common.pop() {
            break;
        }
    }
    let parts = |folder: &PathBuf| {
        let inner = folder.strip_prefix(&common).unwrap_or(folder);
        let names = inner
            .components()
            .filter(|c| matches!(c, Component::Normal(_)));
        names
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    folders.iter().map(parts).collect()
}

/// The name of an evaluation, from the first folder that is one's.
fn evaluation(folder: &[String]) -> Option<String> {
    let at = folder.iter().position(|part| is_evaluation(part))?;
    Some(folder[at..].join("/"))
}

/// Whether a word of a name says that it is of an evaluation.
fn is_evaluation(name: &str) -> bool {
    const WORDS: [&str; 7] = [
        "eval",
        "evaluation",
        "val",
        "valid",
        "validation",
        "dev",
        "test",
    ];
    let words = name.split(|c: char| !c.is_ascii_alphabetic());
    words
        .map(str::to_ascii_lowercase)
        .any(|w| WORDS.contains(&w.as_str()))
}

fn is_training(name: &str) -> bool {
    ["train", "training"].contains(&name.to_ascii_lowercase().as_str())
}

fn is_metric(tag: &str) -> bool {
    tag != "time"
}

/// What `add_hparams` writes, beside the files of the run and in a folder of its own, is no attempt: hyperparameters, and
/// the last values of some metrics at step 0. They are facts.
fn summaries(files: &mut [File]) {
    let trained = files.iter().any(|(_, rows)| rows.steps.len() > 1);
    for (_, rows) in files {
        let noted = rows.facts.remove(HPARAMS).is_some();
        if !noted || !trained || rows.steps.len() > 1 {
            continue;
        }
        let read = std::mem::take(rows);
        rows.facts.clone_from(&read.facts);
        for (tag, column) in read.columns().filter(|(tag, _)| is_metric(tag)) {
            if let Some((_, value)) = column.present().last() {
                let fact = (format!("summary/{tag}"), value.to_string());
                rows.facts.extend([fact]);
            }
        }
        rows.take_over(&read);
    }
}

/// The name of a scalar that `add_scalars` puts into a folder of its own, called by its tag and its name among those that
/// were added together: `loss_train` for PyTorch, `loss/train` for tensorboardX, and any sign of the tag that may not
/// stand in a name of a file is another there.
fn added_together(folder: &[String], rows: &Rows) -> Option<String> {
    let mut tags = rows.columns().map(|(tag, _)| tag).filter(|t| is_metric(t));
    let (tag, None) = (tags.next()?, tags.next()) else {
        return None;
    };
    let name = (0..folder.len()).find_map(|at| after(&folder[at..].join("/"), tag))?;
    let own = name.to_ascii_lowercase().ends_with("loss");
    Some(if is_training(&name) || is_evaluation(&name) && !own {
        format!("{name}/{tag}")
    } else if own && (is_evaluation(&name) || name.to_ascii_lowercase().starts_with("train")) {
        name
    } else {
        format!("{tag}/{name}")
    })
}

/// What follows a tag in a path.
fn after(path: &str, tag: &str) -> Option<String> {
    let plain = |c: char| {
        if c.is_alphanumeric() || c == '-' || c == '.' {
            c
        } else {
            '_'
        }
    };
    let mut rest = path.chars();
    for c in tag.chars().chain(['_']) {
        if rest.next().map(plain) != Some(plain(c)) {
            return None;
        }
    }
    Some(rest.as_str().to_owned()).filter(|name| !name.is_empty())
}

/// Keras counts epochs in `epoch_…` and batches in the rest. One of both is kept in all files.
fn count_alike(files: &mut [File]) {
    let by_epoch = |tag: &str| {
        tag.rsplit('/')
            .next()
            .is_some_and(|t| t.starts_with("epoch_"))
    };
    let iterations = |tag: &str| tag.ends_with("_vs_iterations");
    let last = |which: &dyn Fn(&str) -> bool| {
        let columns = files
            .iter()
            .flat_map(|(_, rows)| rows.columns().map(move |c| (rows, c)));
        let kept = columns.filter(|(_, (tag, _))| is_metric(tag) && which(tag));
        kept.filter_map(|(rows, (_, column))| Some(rows.steps[column.present().last()?.0]))
            .max()
    };
    let Some(epochs) = last(&by_epoch) else {
        return;
    };
    let trained = last(&|tag| !by_epoch(tag) && !iterations(tag));
    let (drop, what): (&dyn Fn(&str) -> bool, &str) = match trained {
        Some(steps) if steps > epochs.saturating_mul(FURTHER) => (
            &by_epoch,
            "`epoch_…` tags count epochs, others steps: they were left out",
        ),
        Some(_) => return,
        None => (&iterations, "the steps of these rows are numbers of epochs"),
    };
    for (_, rows) in files.iter_mut() {
        if rows.columns().any(|(tag, _)| by_epoch(tag)) {
            rows.lose("", what);
        }
        rows.leave_out(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Column, EventKind};

    fn file(path: &str, tags: &[(&str, &[(u64, f64)])]) -> File {
        let mut all: Vec<u64> = tags
            .iter()
            .flat_map(|(_, v)| v.iter().map(|(s, _)| *s))
            .collect();
        all.sort_unstable();
        all.dedup();
        let mut rows = Rows::default();
        rows.steps.clone_from(&all);
        rows.put("time", Column::from_values(vec![1.0; all.len()]));
        for (tag, values) in tags {
            let slot = rows.slot(tag);
            for (step, value) in *values {
                let row = all.partition_point(|s| s < step);
                rows.column_mut(slot).set(row, *value);
            }
        }
        (path.to_owned(), rows)
    }

    fn tags(file: &File) -> Vec<&str> {
        file.1.columns().map(|(t, _)| t).collect()
    }

    #[test]
    fn evaluations_have_the_name_of_their_folder() {
        let one: &[(u64, f64)] = &[(1, 2.0)];
        let mut files = [
            file("logs/train/e1", &[("loss", one)]),
            file("logs/validation/e2", &[("loss", one), ("val_acc", one)]),
            file("logs/inference_eval/glue/e3", &[("loss", one)]),
        ];
        settle(&mut files);
        assert_eq!(tags(&files[0]), ["time", "loss"]);
        assert_eq!(tags(&files[1]), ["time", "validation/loss", "val_acc"]);
        assert_eq!(tags(&files[2])[1], "inference_eval/glue/loss");
        let mut alone = [file("logs/validation/e", &[("loss", one)])];
        settle(&mut alone);
        assert_eq!(tags(&alone[0])[1], "loss", "it is all there is");
        let mut beside = [
            file("out/e1", &[("loss", one)]),
            file("out/eval/e2", &[("loss", one)]),
        ];
        settle(&mut beside);
        assert_eq!(
            (tags(&beside[0])[1], tags(&beside[1])[1]),
            ("loss", "eval/loss")
        );
        let mut fairseq = [
            file("tb/train/e", &[("loss", one)]),
            file("tb/train_inner/e", &[("loss", one)]),
            file("tb/valid/e", &[("loss", one)]),
        ];
        settle(&mut fairseq);
        let names: Vec<&str> = fairseq.iter().map(|f| tags(f)[1]).collect();
        assert_eq!(names, ["train_epoch/loss", "loss", "valid/loss"]);
    }

    #[test]
    fn scalars_that_were_added_together() {
        let one: &[(u64, f64)] = &[(1, 2.0)];
        let mut files = [
            file("r/e", &[("lr", one)]),
            file("r/loss_train/e", &[("loss", one)]),
            file("r/loss_val/e", &[("loss", one)]),
            file("r/a_b_left/e", &[("a/b", one)]),
            file("r/other/e", &[("a/b", one)]),
        ];
        settle(&mut files);
        let names: Vec<&str> = files.iter().map(|f| tags(f)[1]).collect();
        assert_eq!(names, ["lr", "train/loss", "val/loss", "a/b/left", "a/b"]);
        let mut slashes = [
            file("r/e", &[("lr", one)]),
            file("r/Loss/train/e", &[("Loss", one)]),
            file("r/Loss/parts/ce/e", &[("Loss/parts", one)]),
            file("r/Loss/parts/z/e", &[("Loss/parts", one)]),
            file("r/lm loss_test/e", &[("lm_loss", one)]),
            file("r/losses_train_loss/e", &[("losses", one)]),
            file("r/losses_val_loss/e", &[("losses", one)]),
        ];
        settle(&mut slashes);
        let names: Vec<&str> = slashes.iter().skip(1).map(|f| tags(f)[1]).collect();
        let expected = [
            "train/Loss",
            "Loss/parts/ce",
            "Loss/parts/z",
            "test/lm_loss",
            "train_loss",
            "val_loss",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn hyperparameters_are_no_attempt() {
        let steps: &[(u64, f64)] = &[(0, 5.0), (1, 4.0)];
        let noted = |path: &str, tags: &[(&str, &[(u64, f64)])]| {
            let (path, mut rows) = file(path, tags);
            rows.mark(EventKind::Start, None, None);
            let facts = [(HPARAMS, ""), ("adam_beta2", "0.95")];
            let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
            rows.facts.extend(facts);
            (path, rows)
        };
        let last: &[(u64, f64)] = &[(0, 4.5)];
        let mut files = [
            file("r/e", &[("loss", steps)]),
            noted("r/1772366400.25/e", &[("hparam/loss", last)]),
            noted("r/same/e", &[("loss", steps)]),
        ];
        settle(&mut files);
        let summary = &files[1].1;
        assert!(summary.steps.is_empty() && summary.marks.is_empty());
        let facts: Vec<_> = summary.facts.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(
            facts,
            [("adam_beta2", "0.95"), ("summary/hparam/loss", "4.5")]
        );
        assert_eq!(
            files[2].1.steps,
            [0, 1],
            "those noted in the file of the run"
        );
        assert_eq!(files[2].1.facts.len(), 1);
        let mut alone = [noted("r/e", &[("loss", last)])];
        settle(&mut alone);
        assert_eq!(alone[0].1.steps, [0], "it is all there is");
    }

    #[test]
    fn epochs_and_batches_are_not_mixed() {
        let epochs: &[(u64, f64)] = &[(0, 5.0), (1, 4.0)];
        let batches: &[(u64, f64)] = &[(0, 5.5), (100, 5.0), (199, 4.0)];
        let ends: &[(u64, f64)] = &[(100, 5.0), (200, 4.0)];
        let validation = || {
            file(
                "k/validation/e",
                &[
                    ("epoch_loss", epochs),
                    ("evaluation_loss_vs_iterations", ends),
                ],
            )
        };
        let mut by_batch = [
            file(
                "k/train/e",
                &[("epoch_loss", epochs), ("batch_loss", batches)],
            ),
            validation(),
        ];
        settle(&mut by_batch);
        assert_eq!(
            (tags(&by_batch[0])[1], by_batch[0].1.steps.as_slice()),
            ("batch_loss", [0, 100, 199].as_slice())
        );
        assert_eq!(
            (tags(&by_batch[1])[1], by_batch[1].1.steps.as_slice()),
            ("evaluation_loss_vs_iterations", [100, 200].as_slice())
        );
        let mut by_epoch = [file("k/train/e", &[("epoch_loss", epochs)]), validation()];
        settle(&mut by_epoch);
        assert_eq!(
            (tags(&by_epoch[1])[1], by_epoch[1].1.steps.as_slice()),
            ("validation/epoch_loss", [0, 1].as_slice())
        );
        assert_eq!(
            by_epoch[0].1.losses[0].what,
            "the steps of these rows are numbers of epochs"
        );
        let mut own = [file(
            "u/e",
            &[("epoch_loss", &[(100, 5.0), (200, 4.0)]), ("loss", batches)],
        )];
        settle(&mut own);
        assert_eq!(tags(&own[0]), ["time", "epoch_loss", "loss"]);
    }
}
