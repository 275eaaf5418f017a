//! `whyspike check`: exit codes, policy files, golden runs, and what CI systems read.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use whyspike::gate::{Comparison, compare};

use crate::support::{Curve, Noise};

const BLOOM: &str = "fixtures/runs/bloom-176b/spike-2022-04-12.log";

fn check(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyspike"));
    command.current_dir(folder).env("NO_COLOR", "1");
    command.env_remove("GITHUB_STEP_SUMMARY");
    command.arg("check").args(args).output().expect("it runs")
}

fn said(out: &Output) -> (Option<i32>, String) {
    let text = [&out.stdout[..], &out.stderr[..]].concat();
    (out.status.code(), String::from_utf8(text).expect("text"))
}

/// A log as JSON lines in a folder of its own.
fn log(curve: &Curve) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(curve, &folder.path().join("train.jsonl"));
    folder
}

fn write(curve: &Curve, path: &Path) {
    let losses = curve.columns[0].1.iter();
    let lines: Vec<String> = curve
        .steps
        .iter()
        .zip(losses)
        .map(|(step, loss)| {
            format!(
                "{{\"step\": {step}, \"loss\": {:.6}}}\n",
                loss.unwrap_or(f64::NAN)
            )
        })
        .collect();
    fs::write(path, lines.concat()).expect("written");
}

/// Loss of batches that are drawn with one seed, seen through weights that differ by a little noise of another.
fn trained(data: u64, weights: u64) -> Curve {
    let (mut batch, mut own) = (Noise::new(data), Noise::new(weights));
    Curve::of_loss((0..1200).map(|i| {
        2.5 + 8.0 * (-f64::from(i) / 30.0).exp() + 0.02 * batch.normal() + 0.002 * own.normal()
    }))
}

fn spiked(at: u64, rows: u64) -> Curve {
    let mut curve = trained(1, 2);
    (at..at + rows).for_each(|s| curve.raise(s, 1.0));
    curve
}

#[test]
fn a_spike_that_comes_back_at_once_passes_and_one_that_stays_fails() {
    let short = log(&spiked(700, 2));
    let (code, text) = said(&check(short.path(), &["train.jsonl"]));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("passed  no divergent incident"), "{text}");

    let (code, text) = said(&check(
        short.path(),
        &["train.jsonl", "--fail-on", "transient"],
    ));
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("failed  no transient incident") && text.contains("at 700"),
        "{text}"
    );
    let after = ["train.jsonl", "--fail-on", "transient", "--after", "700"];
    assert_eq!(
        check(short.path(), &after).status.code(),
        Some(0),
        "up to 700 is let pass"
    );
    let none = ["train.jsonl", "--max-incidents", "0"];
    assert_eq!(check(short.path(), &none).status.code(), Some(1));
    let one = ["train.jsonl", "--max-incidents", "1"];
    assert_eq!(check(short.path(), &one).status.code(), Some(0));

    let lasting = log(&spiked(700, 501));
    let (code, text) = said(&check(lasting.path(), &["train.jsonl"]));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("failed  no divergent incident"), "{text}");
}

#[test]
fn a_policy_is_found_above_the_log_and_teaches_what_is_wrong_with_it() {
    let folder = log(&spiked(700, 2));
    let below = folder.path().join("runs/a");
    fs::create_dir_all(&below).expect("folders");
    fs::rename(folder.path().join("train.jsonl"), below.join("train.jsonl")).expect("moved");
    let policy =
        |text: &str| fs::write(folder.path().join("whyspike.toml"), text).expect("written");
    let run = || said(&check(&below, &["train.jsonl"]));

    policy("[check]\nfail_on = [\"transient\"]\n");
    let (code, text) = run();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("whyspike.toml"), "{text}");
    let (code, _) = said(&check(&below, &["train.jsonl", "--fail-on", "divergent"]));
    assert_eq!(code, Some(0), "the command line goes first");

    for (text, told) in [
        ("[check]\nfail_onn = []\n", "fail_onn"),
        ("[check]\nfail_on = [\"spike\"]\n", "the shapes are"),
        (
            "[check]\nfail_on_cause = [\"gremlins\"]\n",
            "the causes are",
        ),
        ("[gate]\n", "gate"),
    ] {
        policy(text);
        let (code, said) = run();
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains(told) && said.contains("whyspike.toml"),
            "{said}"
        );
    }
}

#[test]
fn what_ci_systems_read() {
    let folder = log(&spiked(700, 501));
    let args = [
        "train.jsonl",
        "--junit",
        "junit.xml",
        "--gitlab",
        "gitlab.json",
        "--summary",
        "summary.md",
        "--github",
    ];
    let (code, text) = said(&check(folder.path(), &args));
    assert_eq!(code, Some(1), "{text}");
    let annotation = text
        .lines()
        .find(|l| l.starts_with("::error "))
        .expect("an annotation");
    assert!(
        annotation.contains("file=train.jsonl,") && annotation.contains("::chronic")
            || annotation.contains("::acute")
    );

    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
    let junit = read("junit.xml");
    assert!(junit.starts_with("<?xml version=\"1.0\""));
    assert!(
        junit.contains("<testsuites tests=\"2\" failures=\"1\">"),
        "{junit}"
    );
    assert_eq!(junit.matches("<testcase ").count(), 2);
    assert_eq!(junit.matches("<failure ").count(), 1);
    let gitlab: Value = serde_json::from_str(&read("gitlab.json")).expect("JSON");
    let issue = &gitlab[0];
    assert_eq!(
        (&issue["severity"], &issue["location"]["path"]),
        (&"major".into(), &"train.jsonl".into())
    );
    assert_eq!(issue["fingerprint"].as_str().map(str::len), Some(16));
    let summary = read("summary.md");
    assert!(
        summary.starts_with("## whyspike: 1 of 2 checks failed") && summary.contains('█'),
        "{summary}"
    );
}

#[test]
fn the_job_summary_is_appended_to() {
    let folder = log(&spiked(700, 2));
    fs::write(folder.path().join("summary"), "before\n").expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyspike"));
    command
        .current_dir(folder.path())
        .env("GITHUB_STEP_SUMMARY", "summary");
    let out = command
        .args(["check", "train.jsonl", "--github"])
        .output()
        .expect("it runs");
    assert_eq!(out.status.code(), Some(0));
    let text = fs::read_to_string(folder.path().join("summary")).expect("a summary");
    assert!(text.starts_with("before\n## whyspike: passed"), "{text}");
}

#[test]
fn what_cannot_run_is_exit_2() {
    let folder = log(&spiked(700, 2));
    for args in [
        &["absent.jsonl"][..],
        &["train.jsonl", "--fail-on", "spikes"],
        &["train.jsonl", "--baseline", "absent.jsonl"],
        &["train.jsonl", "--policy", "absent.toml"],
        &["train.jsonl", "--junit", "absent/x.xml"],
    ] {
        let (code, text) = said(&check(folder.path(), args));
        assert_eq!(code, Some(2), "{args:?}: {text}");
    }
}

fn compared(run: &Curve, golden: &Curve) -> Comparison {
    compare(&run.run(), &golden.run(), None).expect("steps in common")
}

#[test]
fn the_same_data_make_the_comparison_sharp() {
    let golden = trained(1, 2);
    let same = compared(&trained(1, 3), &golden);
    assert!(same.same_data && same.drift.is_none(), "{same:?}");
    assert!(same.tolerance < 0.005, "{same:?}");
    let other = compared(&trained(4, 3), &golden);
    assert!(!other.same_data && other.drift.is_none(), "{other:?}");
    assert!(other.tolerance > 3.0 * same.tolerance, "{other:?}");
}

#[test]
fn drift_is_told_with_its_step_and_size() {
    let golden = trained(1, 2);
    for (by, data, slack) in [(0.01, 1, 32), (0.1, 4, 32), (-0.05, 1, 32)] {
        let mut run = trained(data, 3);
        (801..=1200).for_each(|s| run.raise(s, by));
        let drift = compared(&run, &golden)
            .drift
            .unwrap_or_else(|| panic!("{by} {data}"));
        assert!(drift.from_step.abs_diff(801) <= slack, "{drift:?}");
        assert!((drift.by - by).abs() < 0.2 * by.abs() + 0.004, "{drift:?}");
    }
    // A spike that is over is no drift.
    let mut run = trained(1, 3);
    (801..821).for_each(|s| run.raise(s, 1.0));
    assert!(compared(&run, &golden).drift.is_none());
}

#[test]
fn a_golden_run_fails_the_job() {
    let folder = log(&trained(1, 2));
    let mut drifted = trained(1, 3);
    (801..=1200).for_each(|s| drifted.raise(s, 0.01));
    write(&drifted, &folder.path().join("new.jsonl"));
    write(&trained(1, 4), &folder.path().join("good.jsonl"));
    let (code, text) = said(&check(
        folder.path(),
        &["new.jsonl", "--baseline", "train.jsonl"],
    ));
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("parts from the golden run at") && text.contains("the same data"),
        "{text}"
    );
    let (code, text) = said(&check(
        folder.path(),
        &["good.jsonl", "--baseline", "train.jsonl"],
    ));
    assert_eq!(code, Some(0), "{text}");
    let far = Curve {
        steps: (5001..=6200).collect(),
        ..trained(1, 2)
    };
    write(&far, &folder.path().join("far.jsonl"));
    let (code, text) = said(&check(
        folder.path(),
        &["far.jsonl", "--baseline", "train.jsonl"],
    ));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("no step with a loss in common"), "{text}");
}

#[test]
fn a_real_spike_that_came_back_passes() {
    let log = crate::support::root().join(BLOOM);
    let out = check(&crate::support::root(), &[log.to_str().expect("a path")]);
    assert_eq!(said(&out).0, Some(0));
}
