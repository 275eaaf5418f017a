//! What launchers, loggers and terminals put before the lines of a log does not change what is read from it.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use whyspike::ingest::{self, Options, recognise};
use whyspike::run::Run;

use crate::support::{ALIASES, fixture};

/// A log of each format that is made of lines. Tables and `MLflow`'s files are not printed by anything.
const LOGS: [&str; 33] = [
    "megatron/restart.log",
    "megatron/neox.log",
    "torchtitan/restart.log",
    "torchtitan-structured/structured.jsonl",
    "deepspeed-chat/chat.log",
    "deepspeed/pipeline.log",
    "levanter/hosts.out",
    "levanter/tracker.jsonl",
    "fairseq/metaseq.log",
    "nemo/two.log",
    "nanotron/restart.log",
    "olmo/core.log",
    "composer/console.log",
    "composer/metrics.txt",
    "maxtext/console.log",
    "maxtext/metrics.txt",
    "llm.c/console.log",
    "llm.c-log/main.log",
    "nanogpt/train.log",
    "build-nanogpt/console.log",
    "build-nanogpt/log.txt",
    "nanochat/base_train.log",
    "modded-nanogpt/record.txt",
    "litgpt/pretrain.log",
    "lingua/train.log",
    "verl/ppo.log",
    "gnmt/train.log",
    "mlperf/result.txt",
    "llama-factory/trainer_log.jsonl",
    "ms-swift/logging.jsonl",
    "hf-trainer/swift.log",
    "hf-trainer/trl.log",
    "jsonl/restart.jsonl",
];

/// What may stand before a line. `%S` is replaced by the seconds of a clock that goes on.
const PREFIXES: [&str; 24] = [
    // torchrun, with and without a role
    "[rank0]:",
    "[default7]: ",
    "[0]:",
    // srun --label, padded and not
    " 0: ",
    "12: ",
    // submitit, metaseq's wrapper, mpirun
    "[0012:0]:",
    "slurm_procid 3 : ",
    "[1,0]<stdout>:",
    // Ray, its colours, those colours without their escape
    "(pid=4242) ",
    "(TaskRunner pid=4242, ip=10.0.0.3) ",
    "\u{1b}[36m(WorkerDict pid=7)\u{1b}[0m ",
    "[36m(WorkerDict pid=7)[0m ",
    // pdsh, kubectl, docker compose
    "worker-1: ",
    "[pod/train-0/main] ",
    "2026-03-02T10:00:%S.123456789Z ",
    "trainer-1  | ",
    "trainer | ",
    // ts, ts -s, ts '%F %T'
    "Mar 02 10:00:%S ",
    "00:00:%S ",
    "2026-03-02 10:00:%S ",
    // loggers
    "2026-03-02 10:00:%S,123 - root - INFO - ",
    "[2026-03-02 10:00:%S,123] [INFO] [launch.py:10:main] ",
    "2026-03-02 10:00:%S.123 | INFO     | pkg.module:main:10 - ",
    "INFO:root:",
];

/// The log with the prefixes before each of its lines.
fn prefixed(log: &[u8], stack: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, line) in log.split_inclusive(|b| *b == b'\n').enumerate() {
        let seconds = format!("{:02}", n % 60);
        for prefix in stack {
            out.extend_from_slice(PREFIXES[*prefix].replace("%S", &seconds).as_bytes());
        }
        out.extend_from_slice(line);
    }
    out
}

/// Reads bytes as the format that they are recognised as.
fn read(bytes: &[u8]) -> Result<Run, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("log");
    fs::write(&path, bytes).expect("written");
    let options = Options::default();
    ingest::read(&[path], &ALIASES, &options, &mut |_, _| {}).map_err(|e| e.to_string())
}

/// What differs between a log and the same with prefixes. Excerpts in messages may, and there may be more times.
fn difference(plain: &Run, other: &Run) -> Option<String> {
    let places = |r: &Run| r.losses.iter().map(|l| l.place.clone()).collect::<Vec<_>>();
    let same = |a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug, what: &str| {
        let (a, b) = (format!("{a:?}"), format!("{b:?}"));
        (a != b).then(|| format!("{what}: {a} became {b}"))
    };
    let names = |r: &Run| {
        r.columns()
            .map(|(n, _)| n.to_owned())
            .filter(|n| n != "time")
            .collect::<Vec<_>>()
    };
    let values = |r: &Run, name: &str| {
        (0..r.len())
            .map(|row| r.value(name, row).map(f64::to_bits))
            .collect::<Vec<_>>()
    };
    let columns = names(plain)
        .into_iter()
        .find_map(|name| same(&values(plain, &name), &values(other, &name), &name));
    let times = (0..plain.len()).find_map(|row| {
        let logged = plain.value("time", row)?;
        same(&Some(logged), &other.value("time", row), "time")
    });
    same(&plain.meta.format, &other.meta.format, "format")
        .or_else(|| same(&plain.steps, &other.steps, "steps"))
        .or_else(|| same(&plain.attempts, &other.attempts, "attempts"))
        .or_else(|| same(&plain.intervals, &other.intervals, "intervals"))
        .or_else(|| same(&names(plain), &names(other), "columns"))
        .or(columns)
        .or(times)
        .or_else(|| same(&plain.events, &other.events, "events"))
        .or_else(|| same(&plain.meta.facts, &other.meta.facts, "facts"))
        .or_else(|| same(&places(plain), &places(other), "losses"))
}

fn unchanged(log: &str, stack: &[usize]) -> Result<(), String> {
    let bytes = fs::read(fixture("logs").join(log)).expect("a fixture");
    let plain = read(&bytes)?;
    let told = || {
        stack
            .iter()
            .map(|p| PREFIXES[*p])
            .collect::<Vec<_>>()
            .concat()
    };
    let other =
        read(&prefixed(&bytes, stack)).map_err(|e| format!("{log} under `{}`: {e}", told()))?;
    match difference(&plain, &other) {
        None => Ok(()),
        Some(what) => Err(format!("{log} under `{}`: {what}", told())),
    }
}

#[test]
fn every_prefix_leaves_every_log_as_it_was() {
    let pairs = LOGS
        .iter()
        .flat_map(|log| (0..PREFIXES.len()).map(move |p| (log, p)));
    let wrong: Vec<String> = pairs
        .filter_map(|(log, p)| unchanged(log, &[p]).err())
        .collect();
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_log_made_of_lines_is_among_them() {
    let formats: Vec<&str> = LOGS
        .iter()
        .filter_map(|log| {
            let bytes = fs::read(fixture("logs").join(log)).expect("a fixture");
            recognise(&bytes).map(|i| i.name)
        })
        .collect();
    let tables = ["csv", "lightning-csv", "mlflow"];
    for format in ingest::INGESTERS
        .iter()
        .filter(|i| matches!(i.reader, ingest::Reader::Lines(_)))
    {
        assert!(
            tables.contains(&format.name) || formats.contains(&format.name),
            "{}",
            format.name
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stacks_of_prefixes_leave_logs_as_they_were(
        log in proptest::sample::select(&LOGS[..]),
        stack in proptest::collection::vec(0..PREFIXES.len(), 1..=4),
    ) {
        let outcome = unchanged(log, &stack);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}
