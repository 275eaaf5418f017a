//! The whole chain on the bundled runs: a folder of `fixtures/runs` is named after the cause of what is in it.

use std::path::PathBuf;

use whyspike::diagnosis::{Diagnosed, Diagnosis};
use whyspike::features::Value;
use whyspike::rules::CAUSES;
use whyspike::run::{Attempt, Run};
use whyspike::verdict::Outcome;

use crate::support::{diagnosed, files, fixture, read, shared};

fn folder_name(folder: &std::path::Path) -> String {
    folder.file_name().unwrap().to_str().unwrap().to_owned()
}

fn checkpoints(folder: &std::path::Path) -> String {
    std::fs::read_to_string(folder.join("checkpoints.txt"))
        .map(|t| t.trim().to_owned())
        .unwrap_or_default()
}

fn diagnose(folder: &std::path::Path) -> Diagnosis {
    let log = files(folder)
        .into_iter()
        .find(|p| !p.ends_with("checkpoints.txt"))
        .expect("a log");
    diagnosed(read(log), &checkpoints(folder))
}

/// Runs of the folders that are named after a cause.
fn runs() -> Vec<(PathBuf, String)> {
    let all = files(&fixture("runs"))
        .into_iter()
        .map(|f| (f.clone(), folder_name(&f)));
    all.filter(|(_, name)| CAUSES.contains(&name.as_str()))
        .collect()
}

/// The incident that the run is about: the highest of the first attempt that has one.
fn main_incident(d: &Diagnosis) -> &Diagnosed {
    let first = d.incidents.first().expect("an incident").incident.attempt;
    assert!(
        first <= 1,
        "the fault is in the first attempt or at the first restart"
    );
    let of_loss = d
        .incidents
        .iter()
        .filter(|x| x.incident.attempt == first && x.incident.signal == "loss");
    let height = |x: &&Diagnosed| x.incident.excess.unwrap_or(f64::INFINITY);
    of_loss
        .max_by(|a, b| height(a).total_cmp(&height(b)))
        .expect("an incident of the loss")
}

#[test]
fn every_cause_is_decided_on_its_run() {
    let runs = runs();
    let names: Vec<&str> = runs.iter().map(|(_, n)| n.as_str()).collect();
    assert_eq!(
        names,
        [
            "attention-logit",
            "bad-data",
            "bf16",
            "learning-rate",
            "optimizer-state"
        ]
    );
    for (folder, name) in &runs {
        let d = diagnose(folder);
        let x = main_incident(&d);
        assert_eq!(
            (x.verdict.outcome, x.verdict.cause.as_deref()),
            (Outcome::Decided, Some(name.as_str())),
            "{name}"
        );
        let total: f64 = x.verdict.posterior.iter().map(|(_, p)| p).sum();
        assert!(
            (total - 1.0).abs() < 1e-9 && x.verdict.posterior.len() == CAUSES.len() + 1,
            "{name}"
        );
    }
}

#[test]
fn no_cause_is_claimed_on_the_run_of_another() {
    for (folder, name) in runs() {
        let d = diagnose(&folder);
        for x in d.incidents.iter().filter(|x| x.incident.signal == "loss") {
            let cause = x.verdict.cause.as_deref();
            assert!(
                cause.is_none_or(|c| c == name),
                "{name}: incident {} is given to {cause:?}",
                x.id
            );
        }
    }
}

#[test]
fn a_healthy_run_with_a_restart_is_silent() {
    let d = diagnose(&fixture("runs/healthy"));
    assert_eq!((d.incidents.len(), d.run.attempts.len()), (0, 2));
}

#[test]
fn a_way_back_leads_to_a_checkpoint_that_is_there_and_before_the_onset() {
    for (folder, name) in runs() {
        let d = diagnose(&folder);
        let kept: Vec<u64> = checkpoints(&folder)
            .split(',')
            .map(|s| s.parse().unwrap())
            .collect();
        let x = main_incident(&d);
        let back = x
            .plan
            .rollback
            .as_ref()
            .unwrap_or_else(|| panic!("{name}: {}", x.plan.why));
        let onset = d.run.steps[x.incident.onset_row];
        // These logs count from 0: checkpoint N is the state before step N.
        assert!(
            kept.contains(&back.step) && back.step <= onset,
            "{name}: {} for an onset at {onset}",
            back.step
        );
        let attempt = &d.run.attempts[x.incident.attempt as usize];
        assert_eq!(
            back.steps_lost,
            1 + d.run.steps[attempt.rows.end - 1] - back.step,
            "{name}: to its last logged step"
        );
    }
}

/// Known by construction: updates 529 to 540 read the samples 6348 to 6491, which were made bad.
#[test]
fn the_plan_for_bad_data_covers_the_bad_samples() {
    let d = diagnose(&fixture("runs/bad-data"));
    let x = main_incident(&d);
    assert_eq!(d.run.steps[x.incident.onset_row], 529);
    let skip = x.plan.skip.as_ref().expect("bad data are skipped");
    let [(from, until)] = skip.samples[..] else {
        panic!("{:?}", skip.samples)
    };
    assert!(from <= 6348 && 6492 <= until, "[{from}, {until})");
    assert!(
        until - from <= 6 * 144,
        "no wider than the evidence asks: [{from}, {until})"
    );
    let [(first, last)] = skip.steps[..] else {
        panic!("{:?}", skip.steps)
    };
    assert!(first <= 529 && 540 <= last);
    // Twelve samples an update, and step s reads [12 s, 12 s + 12).
    assert_eq!(
        (from, until, skip.batches),
        (12 * first, 12 * (last + 1), last + 1 - first)
    );
    assert_eq!(x.plan.rollback.as_ref().map(|r| r.step), Some(500));
}

#[test]
fn causes_other_than_bad_data_skip_nothing() {
    for (folder, name) in runs().into_iter().filter(|(_, n)| n != "bad-data") {
        let d = diagnose(&folder);
        assert_eq!(main_incident(&d).plan.skip, None, "{name}");
    }
}

#[test]
fn a_replay_that_meets_the_incident_again_points_to_the_first() {
    let d = diagnose(&fixture("runs/bad-data"));
    let same: Vec<(u32, Option<usize>)> = d
        .incidents
        .iter()
        .map(|x| (x.incident.attempt, x.same_as))
        .collect();
    assert_eq!(
        same,
        [(0, None), (1, Some(1))],
        "the replay of the same data; those with a skip or a seed are clean"
    );
}

fn bloom(d: &Diagnosis) {
    let [x] = d.incidents.as_slice() else {
        panic!("{} incidents", d.incidents.len())
    };
    let step = |row: Option<usize>| row.map(|r| d.run.steps[r]);
    assert_ne!(
        x.verdict.outcome,
        Outcome::Decided,
        "its authors found no cause"
    );
    assert_eq!(x.verdict.cause, None);
    assert_eq!(step(x.incident.peak_row), Some(31219));
    assert_eq!(step(x.incident.return_row), Some(31250));
    assert!(
        x.incident.return_is_bound,
        "31250 is the first line after a hole"
    );
    let lead = x.features["g_lead"].map(Value::number);
    assert!(
        lead.is_some_and(|l| l >= 1.0),
        "the gradient norm is seen to lead: {lead:?}"
    );
    assert!(
        !x.verdict.deciding_signals.is_empty() && x.verdict.experiment.is_some(),
        "what would decide is named"
    );
    assert!(d.missing.contains(&"update_norm") && d.missing.contains(&"max_attention_logit"));
}

#[test]
fn bloom_176b_is_not_decided() {
    bloom(&diagnose(&fixture("runs/bloom-176b")));
    if let Some(path) = shared("corpus/megatron-console__bloom-tr11-176B-chronicle-lines.log") {
        bloom(&diagnosed(read(path), ""));
    }
}

#[test]
fn a_stored_run_gives_the_same_diagnosis() {
    let folder = tempfile::tempdir().unwrap();
    for (run, _) in runs().into_iter().take(2) {
        let log = read(run.join("log.jsonl.gz"));
        let stored = folder.path().join("run.parquet");
        whyspike::store::write(&log, &stored).unwrap();
        let (a, b) = (
            diagnosed(log, &checkpoints(&run)),
            diagnosed(read(stored), &checkpoints(&run)),
        );
        assert_eq!(
            whyspike::report::json::render(&a),
            whyspike::report::json::render(&b)
        );
    }
}

#[test]
fn what_is_not_logged_is_unknown_never_zero() {
    let d = diagnose(&fixture("runs/bloom-176b"));
    let row = &d.incidents[0].features;
    for f in whyspike::features::catalogue() {
        let absent = f.needs.iter().any(|s| {
            [
                "update_norm",
                "max_attention_logit",
                "param_norm",
                "val_loss",
            ]
            .contains(s)
        });
        assert!(
            !absent || row[f.name].is_none(),
            "{} is {:?}",
            f.name,
            row[f.name]
        );
    }
}

/// A run up to so many rows of its first attempt after a step.
fn cut(run: &Run, step: u64, rows: usize) -> Run {
    let attempt = &run.attempts[0];
    let end = run.row_at(attempt, step).expect("a row") + rows;
    let end = end.min(attempt.rows.end);
    let mut out = Run::default();
    out.meta = run.meta.clone();
    out.steps = run.steps[..end].to_vec();
    out.intervals = run.intervals[..end].to_vec();
    out.attempts.push(Attempt {
        rows: 0..end,
        ..attempt.clone()
    });
    let kept: Vec<usize> = (0..end).collect();
    for (name, column) in run.columns() {
        out.insert(name, column.take(&kept));
    }
    out
}

/// The morning after may come soon: what is decided from the first rows of an incident is what all of them decide.
#[test]
fn no_cause_is_decided_early_that_the_rest_of_the_log_takes_back() {
    let mut decided = 0;
    for (folder, cause) in runs() {
        let whole = diagnose(&folder);
        let main = main_incident(&whole);
        if main.incident.attempt > 0 {
            continue;
        }
        let onset = whole.run.steps[main.incident.onset_row];
        for rows in [1, 3, 8, 15, 25, 45, 80, 120] {
            let d = diagnosed(cut(&whole.run, onset, rows), "");
            let near = |x: &&Diagnosed| d.run.steps[x.incident.onset_row].abs_diff(onset) <= 30;
            let early = d.incidents.iter().rev().find(near);
            let early = early.and_then(|x| x.verdict.cause.as_deref());
            decided += usize::from(early.is_some());
            assert!(
                early.is_none_or(|e| e == cause),
                "{cause}: {early:?} after {rows} rows"
            );
        }
    }
    assert!(decided >= 8, "{decided}");
}
