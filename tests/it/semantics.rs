//! What the numbers of each format mean: from which number its steps count, over how many steps a row is a mean, which
//! update the learning rate is that of, and in which unit each signal comes out.

use std::collections::BTreeSet;
use std::fmt::Write;

use whyspike::ingest::INGESTERS;
use whyspike::run::Run;

use crate::support::{fixture, read};

/// Signals whose unit or kind differs from trainer to trainer.
const SIGNALS: [&str; 18] = [
    "loss",
    "loss_ce",
    "val_loss",
    "grad_norm",
    "grad_norm_clipped",
    "learning_rate",
    "step_time",
    "elapsed_seconds",
    "skipped",
    "skipped_cumulative",
    "global_batch_size",
    "consumed_samples",
    "consumed_tokens",
    "tflops_per_device",
    "tokens_per_second_per_device",
    "tokens_per_second",
    "samples_per_second",
    "mfu",
];

/// A value to twelve digits: a factor may cost the last one.
fn short(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// Base and whether it is known, interval of each row, rows between a learning rate and the update that it is used in,
/// and the first two values of each signal that is logged.
fn says(run: &Run) -> String {
    let known = if run.meta.base_known { "" } else { "?" };
    let mut intervals = run.intervals.clone();
    intervals.dedup();
    let offset = run.meta.facts.get("lr_offset").map_or("0", String::as_str);
    let mut out = format!(
        "base {}{known}, every {intervals:?}, lr +{offset}",
        run.meta.step_base
    );
    for name in SIGNALS {
        if let Some(column) = run.column(name) {
            let first: Vec<String> = column
                .iter()
                .flatten()
                .take(2)
                .map(|v| short(v).to_string())
                .collect();
            let _ = write!(out, ", {name} {}", first.join(" "));
        }
    }
    out
}

/// A log of each format and what its numbers mean. The values are those of the fixture by hand, in the unit of the
/// column: `812.3 ms` is 0.8123, `1.05K` is 1050, bits times ln 2 are nats, and
/// a time of a micro-batch or of an interval is that of a step.
const LOGS: &[(&str, &str, &str)] = &[
    (
        "parquet/metrics.parquet",
        "parquet",
        "base 1?, every [1], lr +0, loss 4 NaN, grad_norm 1 2, learning_rate 0.5 0.5",
    ),
    (
        "tensorboard/restart",
        "tensorboard",
        "base 1, every [1], lr +0, loss 10 9, val_loss 7.25, grad_norm 4 3.5, learning_rate 0.0010000000475 0.0010000000475, consumed_samples 8 16",
    ),
    (
        "tensorboard/deepspeed.tfevents",
        "tensorboard",
        "base 1?, every [1], lr +0, loss 3 2, learning_rate 0.5 0.25",
    ),
    (
        "wandb/run-abcd1234.wandb",
        "wandb",
        "base 1, every [1], lr +0, loss 4.5 4, val_loss 4.125, grad_norm 1.5 NaN",
    ),
    (
        "megatron/restart.log",
        "megatron",
        "base 1, every [1], lr +1, loss 10 9, val_loss 8.25, grad_norm 4 3.5, learning_rate 0.00001 0.00002, step_time 9 1, skipped 0 0, global_batch_size 8 8, consumed_samples 8 16",
    ),
    (
        "megatron/neox.log",
        "megatron",
        "base 1, every [1], lr +1, loss 11 NaN, val_loss 10.5, learning_rate 0.00001 0.00001, step_time 2.4771 2.0449, skipped 0 1, tflops_per_device 13.3 16.1, samples_per_second 206.693 250.374, mfu 38.05 38.1",
    ),
    (
        "torchtitan/restart.log",
        "torchtitan",
        "base 1, every [1], lr +0, loss 12.24731 10.5, val_loss 10.25 9.9, grad_norm 1.1234 23.5, tflops_per_device 1424.31 1424.31, tokens_per_second_per_device 7320 7320, mfu 14.39 14.39",
    ),
    (
        "torchtitan-structured",
        "torchtitan-structured",
        "base 1, every [1], lr +0, loss 12.25, step_time 1.25 0.5",
    ),
    (
        "deepspeed-chat/chat.log",
        "deepspeed-chat",
        "base 0, every [1], lr +1, loss 0.21 -0.048, learning_rate 0.000000579, skipped_cumulative 4, samples_per_second 8.01 6.2",
    ),
    (
        "deepspeed/pipeline.log",
        "deepspeed",
        "base 1, every [1], lr +1, loss 9.5123 8.25, learning_rate 0.00003 0.00006, step_time 1.234 1.234, skipped_cumulative 0 2, samples_per_second 415.012 415.012",
    ),
    (
        "levanter/hosts.out",
        "levanter",
        "base 1, every [1], lr +0, loss 12.6 12.7, val_loss 3.728",
    ),
    (
        "levanter/tracker.jsonl",
        "levanter-json",
        "base 0, every [1], lr +0, loss 10.5 NaN, grad_norm 1.5",
    ),
    (
        "fairseq/metaseq.log",
        "fairseq",
        "base 1, every [1], lr +0, loss 11.0057909329 10.7437812987, val_loss 9.70406052784, grad_norm 16.981 8, learning_rate 0.00000028 0.00000028, elapsed_seconds 73 73, global_batch_size 512 512, tokens_per_second 0 51000",
    ),
    (
        "nemo/two.log",
        "nemo",
        "base 0, every [1, 10], lr +0, loss 10.9 9.812, val_loss 9.1 8.2, learning_rate 0.00003 0.00003, step_time 0.03146 0.03146, global_batch_size 512 512",
    ),
    (
        "nanotron/restart.log",
        "nanotron",
        "base 1, every [1], lr +1, loss 11.2 10.9, grad_norm 1.2 1.1, learning_rate 0.0003 0.0003, step_time 1.05 1.05, consumed_tokens 2100000 23100000, tflops_per_device 201 201, tokens_per_second_per_device 31200 31200, tokens_per_second 2000000 2000000",
    ),
    (
        "olmo/core.log",
        "olmo",
        "base 1, every [1], lr +0, loss 11.25 9.512, grad_norm 1234 2.5, learning_rate 0.00003, consumed_tokens 4194304 3146000000",
    ),
    (
        "composer/console.log",
        "composer",
        "base 1, every [1], lr +0, loss 11.6525 10.5, val_loss 10.75, grad_norm 1.2345 1.2345, elapsed_seconds 9 9, consumed_tokens 2048 4096",
    ),
    (
        "composer/metrics.txt",
        "composer-file",
        "base 0, every [1], lr +0, loss 11.6525123 10.5, learning_rate 0.000003 0.000006, consumed_tokens 2048 4096",
    ),
    (
        "maxtext/console.log",
        "maxtext",
        "base 0, every [1], lr +0, loss 8.123 7.5, loss_ce 8 8, step_time 1.234 1.234, tflops_per_device 210.123 210.123, tokens_per_second_per_device 5120.001 5120.001",
    ),
    (
        "maxtext/metrics.txt",
        "maxtext-metrics",
        "base 0, every [1], lr +0, loss 2.5 NaN, grad_norm 3.5 2.5, grad_norm_clipped 1 1, learning_rate 0.0003 0.0003, step_time 1.5 1.5",
    ),
    (
        "lightning/lightning_logs/version_0/metrics.csv",
        "lightning-csv",
        "base 0, every [1], lr +0, loss 2.5 2, val_loss 2.25, learning_rate 0.0001 0.0001",
    ),
    (
        "hf-trainer-state/trainer_state.json",
        "hf-trainer-state",
        "base 1, every [10], lr +0, loss 4 3.5, val_loss 3.75, grad_norm 2 1.5, learning_rate 0.001 0.0009",
    ),
    (
        "llm.c/console.log",
        "llm.c",
        "base 1, every [1], lr +0, loss 11.009 10.95, val_loss 11.01 10.4, grad_norm 15.3455 14.3, learning_rate 0.000000857 0.00000171, step_time 3.05636 3.0065, skipped 1, tokens_per_second 171541 172000, mfu 42.6 42.9",
    ),
    (
        "llm.c-log/main.log",
        "llm.c-log",
        "base 0, every [1], lr +0, loss 10.9656 10.814, val_loss 10.9688 3.431, grad_norm 15.34 15.3, learning_rate 0.000001 0.0006",
    ),
    (
        "nanogpt/train.log",
        "nanogpt",
        "base 0, every [1], lr +0, loss 10.9 9.5, val_loss 10.91 3.431, step_time 9 0.56194, mfu 41.2 40.2",
    ),
    (
        "build-nanogpt/console.log",
        "build-nanogpt",
        "base 0, every [1], lr +0, loss 10.955029 9.5, val_loss 10.9512 9.4, grad_norm 15.5366 14.5366, learning_rate 0.00000083916 0.0000016783, step_time 3.06108 3.06108, tokens_per_second 171274.47 171274.47",
    ),
    (
        "build-nanogpt/log.txt",
        "build-nanogpt",
        "base 0, every [1], lr +0, loss 10.955029 9.5, val_loss 10.9512 6.1",
    ),
    (
        "nanochat/base_train.log",
        "nanochat",
        "base 0, every [1], lr +0, loss 11 3.456789, grad_norm 0.25, step_time 9.23456 1.23456, tokens_per_second 56000 424000, mfu 6.2 48.2",
    ),
    (
        "modded-nanogpt/record.txt",
        "modded-nanogpt",
        "base 1, every [1], lr +0, loss 10.8258 9.5, val_loss 10.8258 NaN, elapsed_seconds 0.411 14.6",
    ),
    (
        "litgpt/pretrain.log",
        "litgpt",
        "base 1, every [1], lr +0, loss 10.123 9.5, val_loss 9.6 9.1, step_time 4.81952 4.81952",
    ),
    (
        "lingua/train.log",
        "lingua",
        "base 1, every [1], lr +0, loss 10.1234 9.5, grad_norm 1.23, learning_rate 0.00003 0.00006, step_time 0.1234 0.1234, tflops_per_device 310 310, tokens_per_second_per_device 51200 51200",
    ),
    (
        "verl/ppo.log",
        "verl",
        "base 1, every [1], lr +0, loss -0.013 0.5, grad_norm 0.211 0.25, learning_rate 0.000001",
    ),
    (
        "gnmt/train.log",
        "gnmt",
        "base 0, every [1], lr +0, loss 10.7019 9.6102, learning_rate 0.00002047 0.00002576, step_time 0.451 0.105",
    ),
    (
        "megatron-golden-values/keyed.json",
        "megatron-golden-values",
        "base 1?, every [1], lr +0, loss 10.5 10.25, step_time 11.5 1.5",
    ),
    (
        "mlperf/result.txt",
        "mlperf",
        "base 1, every [1], lr +0, loss 3.5 2.25, val_loss 0.9375, consumed_samples 80 160, samples_per_second 12.5",
    ),
    (
        "llama-factory/trainer_log.jsonl",
        "llama-factory",
        "base 1, every [5], lr +0, loss 2.5 2.25, val_loss 2.5, learning_rate 0.000001 0.000002",
    ),
    (
        "ms-swift/logging.jsonl",
        "ms-swift",
        "base 1, every [1, 9, 10], lr +0, loss 2.5 2.25, val_loss 2.375, grad_norm 1.5 1.25, learning_rate 0.000001 0.00001, step_time 1.6 1.5",
    ),
    (
        "hf-trainer/swift.log",
        "hf-trainer",
        "base 1, every [5], lr +0, loss 2.5 2.25, val_loss 2.125, grad_norm 1.5 NaN, learning_rate 0.00001 0.00002",
    ),
    (
        "hf-trainer/trl.log",
        "hf-trainer",
        "base 1, every [10], lr +0, loss 2.9 2.8, val_loss 2.5, grad_norm 1.5 1.5, learning_rate 0.00001 0.00001",
    ),
    (
        "mlflow/mlruns",
        "mlflow",
        "base 0, every [1], lr +0, loss 3.5 2.25, grad_norm 1.5 1.25",
    ),
    (
        "jsonl/restart.jsonl",
        "jsonl",
        "base 0, every [1], lr +0, loss 4 3.5, grad_norm 1 1.5, learning_rate 0.001 0.001",
    ),
    (
        "csv/wide.csv",
        "csv",
        "base 1?, every [1], lr +0, loss 3.5 2.5, grad_norm 1.25 NaN, learning_rate 0.001 0.001",
    ),
    (
        "mlflow-db/mlflow.db",
        "mlflow-db",
        "base 0, every [1], lr +0, loss 4 3.5, val_loss 3.75, grad_norm 1.5 inf",
    ),
    (
        "trackio/before-run-ids.db",
        "trackio",
        "base 0, every [1], lr +0, loss 4 3.5, learning_rate 0.001 0.001",
    ),
];

#[test]
fn every_format_says_what_its_numbers_mean() {
    let mut wrong = String::new();
    for (log, format, expected) in LOGS {
        let run = read(fixture("logs").join(log));
        assert_eq!(run.meta.format, *format, "{log}");
        let got = says(&run);
        if got != *expected {
            let _ = writeln!(wrong, "{log}\n  is       {expected}\n  was read {got}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let held: BTreeSet<&str> = LOGS.iter().map(|(_, format, _)| *format).collect();
    let all: BTreeSet<&str> = INGESTERS.iter().map(|i| i.name).collect();
    assert_eq!(held, all, "every format has a row");
}
