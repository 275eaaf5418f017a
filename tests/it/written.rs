//! Logs that trainers wrote: small real runs, cut to a few lines.

use std::fs;

use tempfile::TempDir;
use whyspike::run::{Began, EventKind};

use crate::support::{fixture, read, shown};

/// transformers 5.24, killed and resumed: the console of all, and that of the second process alone, as W&B keeps it.
#[test]
fn a_console_beside_a_copy_of_a_part_of_it() {
    let folder = TempDir::new().unwrap();
    let console = fs::read(fixture("logs/hf-trainer/fast.log")).unwrap();
    let fresh = b"\r  0%|          | 0/60";
    let second = console.windows(fresh.len()).rposition(|w| w == fresh);
    let files = folder.path().join("wandb/run/files");
    fs::create_dir_all(&files).unwrap();
    fs::write(folder.path().join("console.log"), &console).unwrap();
    fs::write(files.join("output.log"), &console[second.unwrap()..]).unwrap();
    let run = read(folder.path());
    assert_eq!((run.len(), run.attempts.len()), (12, 2));
    assert_eq!(run.attempts[1].began, Began::ProcessStart);
    assert_eq!(run.steps, [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60]);
    assert!(run.intervals.iter().all(|i| *i == 5));
    assert_eq!(
        shown(&run, "val_loss"),
        "- - - 3.351 - - - 3.169 - - - 3.11"
    );
    let starts = run.events.iter().filter(|e| e.kind == EventKind::Start);
    assert_eq!(starts.count(), 2);
}

/// Composer 0.32.1: what is logged once a batch is done stands under the number of the next one.
#[test]
fn composers_norms_beside_the_loss_of_their_batch() {
    let run = read(fixture("logs/composer/after.txt"));
    assert_eq!(
        (run.steps.as_slice(), run.meta.step_base),
        ([18, 19, 20].as_slice(), 0)
    );
    assert_eq!(shown(&run, "loss"), "3.2783 3.1396 3.107");
    assert_eq!(shown(&run, "grad_norm"), "0.7783 0.7252 0.7562");
    assert_eq!(shown(&run, "consumed_samples"), "76 80 84");
    let validation = run.column("val_loss").unwrap();
    assert_eq!(
        validation.iter().collect::<Vec<_>>(),
        [None, Some(3.2222), None]
    );
}

/// A metric in a folder of its own, as deep as `MLflow` puts it below a project.
#[test]
fn metrics_deep_below_the_folder_that_is_given() {
    let folder = TempDir::new().unwrap();
    let metrics = folder.path().join("project/mlruns/0/ab12/metrics");
    fs::create_dir_all(metrics.join("train")).unwrap();
    fs::write(
        metrics.join("train/loss"),
        "1772366400000 3.5 0\n1772366400010 3.25 1\n",
    )
    .unwrap();
    fs::write(
        metrics.join("grad_norm"),
        "1772366400001 1.5 0\n1772366400011 1.25 1\n",
    )
    .unwrap();
    let run = read(folder.path());
    assert_eq!(shown(&run, "loss"), "3.5 3.25");
    assert_eq!(shown(&run, "grad_norm"), "1.5 1.25");
    assert_eq!(run.attempts.len(), 1);
}
