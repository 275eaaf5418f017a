//! Names of metrics: what each stands for, and names that a user adds.

use std::fs;

use assert_cmd::Command;
use regex::Regex;
use serde_json::Value;
use whyspike::ingest::{self, Options};
use whyspike::signal::{Aliases, Meaning};

use crate::support::{ALIASES, fixture, shared, shown};

/// Rows of `fixtures/aliases.tsv`: name, signal, factor.
fn names() -> Vec<(String, String, f64)> {
    let text = fs::read_to_string(fixture("aliases.tsv")).unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        (
            cells[0].to_owned(),
            cells[1].to_owned(),
            cells[2].parse().unwrap(),
        )
    });
    rows.collect()
}

/// A meaning as the table writes it.
fn written(meaning: Meaning) -> (String, f64) {
    match meaning {
        Meaning::Signal { name, scale } => (name, scale),
        Meaning::Step => ("step".to_owned(), 1.0),
        Meaning::Drop => ("drop".to_owned(), 1.0),
        other => (
            if other == Meaning::Other { "-" } else { "?" }.to_owned(),
            1.0,
        ),
    }
}

#[test]
fn every_name_of_the_table_has_its_signal_and_unit() {
    let names = names();
    assert!(names.len() > 350, "{}", names.len());
    for (name, signal, scale) in names {
        for spelled in [
            name.clone(),
            name.to_uppercase(),
            format!(" {name} "),
            format!("a - run - {name}"),
        ] {
            let (got, by) = written(ALIASES.meaning(&spelled));
            // An index keeps its case.
            assert!(
                got.eq_ignore_ascii_case(&signal),
                "{spelled}: {got}, not {signal}"
            );
            assert!(
                (by - scale).abs() < 1e-15,
                "{spelled}: times {by}, not {scale}"
            );
        }
    }
}

/// Names of the evidence for signals, and ours.
const RENAMED: [(&str, &str); 15] = [
    ("loss_max_rank", "max_rank_loss"),
    ("lr", "learning_rate"),
    ("lr[group]", "learning_rate"),
    ("grad_norm[param]", "grad_norm"),
    ("param_norm[param]", "param_norm"),
    ("num_zeros_in_grad", "num_zeros"),
    ("skipped_iterations", "skipped"),
    ("skipped_iterations_cumulative", "skipped_cumulative"),
    ("nan_iterations", "nan"),
    ("step_time_seconds", "step_time"),
    ("throughput_tflops_per_device", "tflops_per_device"),
    (
        "throughput_tokens_per_second_per_device",
        "tokens_per_second_per_device",
    ),
    ("throughput_tokens_per_second", "tokens_per_second"),
    ("throughput_samples_per_second", "samples_per_second"),
    ("wall_time", "time"),
];

/// Where ours says something else, and why.
const DIFFERENT: [(&str, &str); 8] = [
    (
        "decoupled learning rate",
        "it is of a group that has a name, beside the first one's rate",
    ),
    ("decoupled learning-rate", "the same"),
    ("decoupled-learning rate", "the same"),
    ("decoupled-learning-rate", "the same"),
    (
        "steps-vs-samples/y=samples,x=steps",
        "the evidence drops what begins with `steps-vs-` before the rule that names this one is asked",
    ),
    ("steps-vs-tokens/y=tokens,x=steps", "the same"),
    (
        "tbi_logs/layers.0.w/attn_probs/head_3_max",
        "a probability is no logit, and no rule asks for it: it stays under its own name, layer and head in it",
    ),
    (
        "time/total",
        "Composer counts it in hours: the factor is 3600",
    ),
];

/// What the evidence's table says of a name.
fn said(table: &Value, name: &str) -> (String, f64) {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let matches = |pattern: &str| {
        Regex::new(&format!("(?i){pattern}"))
            .unwrap()
            .is_match(name)
    };
    let dropped = table["drop"].as_array().unwrap().iter();
    if dropped.map(text).any(|p| matches(&format!("^(?:{p})"))) {
        return ("drop".to_owned(), 1.0);
    }
    assert!(!matches(&text(&table["eval_guard"])), "{name} is guarded");
    for rule in table["rules"].as_array().unwrap() {
        let pattern = Regex::new(&format!("(?i){}", text(&rule[0]))).unwrap();
        if let Some(found) = pattern.captures(name) {
            let signal = text(&rule[1]);
            let renamed = RENAMED.iter().find(|(theirs, _)| *theirs == signal);
            let ours = renamed.map_or(signal.as_str(), |(_, ours)| *ours);
            let index = pattern
                .capture_names()
                .flatten()
                .find_map(|group| found.name(group));
            let indexed = signal.contains('[');
            let suffix = index
                .filter(|_| indexed)
                .map_or(String::new(), |i| format!("/{}", i.as_str()));
            return (format!("{ours}{suffix}"), rule[2].as_f64().unwrap());
        }
    }
    ("-".to_owned(), 1.0)
}

#[test]
fn the_table_is_that_of_the_evidence_but_where_a_reason_is_given() {
    let Some(path) = shared("evidence/alias_table.json") else {
        return;
    };
    let table: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut different = Vec::new();
    for (name, signal, scale) in names() {
        let (theirs, by) = said(&table, &name);
        if theirs != signal || (by - scale).abs() > 1e-15 {
            different.push(name);
        }
    }
    let reasons = DIFFERENT.map(|(name, _)| name);
    different.sort();
    assert_eq!(different, reasons);
}

/// Patterns of evaluation metrics: their loss is the validation loss, the rest is no training signal.
#[test]
fn what_is_of_an_evaluation_is_no_training_signal() {
    for name in [
        "eval_loss",
        "eval/loss",
        "val_loss",
        "validation_metrics/loss",
        "lm loss validation",
        "validation/lm_loss",
        "lm-loss-validation/lm loss validation",
        "metrics/eval/LanguageCrossEntropy",
        "loss/eval/total",
    ] {
        assert_eq!(written(ALIASES.meaning(name)).0, "val_loss", "{name}");
    }
    for name in [
        "eval_runtime",
        "val/grad_norm",
        "test/lr",
        "valid_ppl",
        "lm loss validation ppl",
        "validation/lm_loss_ppl",
        "eval/global_step",
    ] {
        assert_eq!(written(ALIASES.meaning(name)).0, "-", "{name}");
    }
    for name in [
        "lm loss vs samples",
        "x - train/loss__MIN",
        "_runtime",
        "_wandb",
        "system/gpu.0.temp",
        "memory/x",
        "mem-reserved-bytes",
    ] {
        assert_eq!(written(ALIASES.meaning(name)).0, "drop", "{name}");
    }
}

const LOG: &str = "{\"step\": 1, \"my_objective\": 3.5, \"my_timer_ms\": 250.0, \"attn/12/max_logit\": 40.0, \"debug/x\": 1.0, \"loss\": 9.0}\n\
                   {\"step\": 2, \"my_objective\": 3.0, \"my_timer_ms\": 500.0, \"attn/12/max_logit\": 41.0, \"debug/x\": 2.0, \"loss\": 9.5}\n";

/// The example of the README, and the names that it gives.
#[test]
fn the_example_of_the_readme_works() {
    let readme = include_str!("../../README.md");
    let (_, after) = readme.split_once("```toml\n").expect("an example");
    let (example, _) = after.split_once("```").expect("its end");
    let aliases = Aliases::built_in().extended(example).expect("a table");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    fs::write(
        &path,
        LOG.replace(", \"loss\": 9.0", "")
            .replace(", \"loss\": 9.5", ""),
    )
    .unwrap();
    let run = ingest::read(&[path], &aliases, &Options::default(), &mut |_, _| {}).unwrap();
    assert_eq!(shown(&run, "loss"), "3.5 3");
    assert_eq!(shown(&run, "step_time"), "0.25 0.5");
    assert_eq!(shown(&run, "max_attention_logit/12"), "40 41");
    assert_eq!(run.columns().count(), 3);
}

fn whyspike(args: &[&str]) -> (bool, String, String) {
    let out = Command::cargo_bin("whyspike")
        .unwrap()
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.success(), text(out.stdout), text(out.stderr))
}

#[test]
fn names_from_a_file_go_before_the_built_in_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("log"), LOG).unwrap();
    fs::write(
        path("names.toml"),
        "drop = ['loss']\n[[rule]]\nsignal = \"loss\"\nnames = 'my_objective'\n",
    )
    .unwrap();
    let (ok, _, error) = whyspike(&[
        "ingest",
        &path("log"),
        "-o",
        &path("run.parquet"),
        "--aliases",
        &path("names.toml"),
    ]);
    assert!(ok, "{error}");
    let run = whyspike::store::read_file(&folder.path().join("run.parquet")).unwrap();
    assert_eq!(shown(&run, "loss"), "3.5 3");
    let (ok, out, error) = whyspike(&["diagnose", &path("log"), "--aliases", &path("names.toml")]);
    assert!(ok && out.contains("2 rows"), "{out}{error}");
    for (text, says) in [
        ("[[rule]]\nsignal = \"losss\"\nnames = 'x'\n", "`losss`"),
        ("[[rule]]\nsignal = \"loss\"\nnames = '('\n", "`(`"),
        (
            "[[rule]]\nsignal = \"step\"\nnames = 'my_step'\n",
            "rename the column",
        ),
        ("signal = \"loss\"\n", "signal"),
    ] {
        fs::write(path("bad.toml"), text).unwrap();
        let (ok, _, error) = whyspike(&[
            "ingest",
            &path("log"),
            "-o",
            &path("x.parquet"),
            "--aliases",
            &path("bad.toml"),
        ]);
        assert!(
            !ok && error.contains("bad.toml") && error.contains(says),
            "{error}"
        );
    }
    let (ok, _, error) = whyspike(&[
        "ingest",
        &path("log"),
        "-o",
        &path("x.parquet"),
        "--aliases",
        &path("absent.toml"),
    ]);
    assert!(!ok && error.contains("absent.toml"), "{error}");
}

#[test]
fn the_help_shows_how_names_are_written() {
    for command in ["ingest", "diagnose"] {
        let (ok, out, _) = whyspike(&[command, "--help"]);
        assert!(
            ok && out.contains("[[rule]]") && out.contains("names = 'my_objective|train/nll'"),
            "{out}"
        );
        let (_, short, _) = whyspike(&[command, "-h"]);
        assert!(
            short.contains("--aliases <FILE>") && !short.contains("[[rule]]"),
            "{short}"
        );
    }
}
