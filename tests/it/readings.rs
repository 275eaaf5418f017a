//! Every log that there is, ours, the samples and those of real runs, against a reading of its own.
//!
//! The numbers are those of short Python scripts that share no code with the readers: regular expressions written by
//! hand for each console, `json`, `csv` and pyarrow for files of those kinds, and for event files and `.wandb` a dozen
//! lines that walk the frames and the protobuf fields. Rows are one a step of an attempt. What a trainer is known to
//! print wrongly was corrected by hand: Megatron's loss that vanishes is NaN, its zero behind skipped updates and its
//! norm that repeats while the loss scale falls are none, the second row of a process is 2 x mean - first; fairseq's
//! bits were multiplied by ln 2. A loss that goes on under another name, `lm loss` and later `train/loss`, is one.

use std::collections::BTreeSet;
use std::path::Path;

use whyspike::run::Run;

use crate::support::{files, fixture, read, shared};

/// Path, format, rows, first and last step; number of losses and the sum of the finite ones; the same of gradient norms.
type Reading = (
    &'static str,
    &'static str,
    usize,
    u64,
    u64,
    (usize, f64),
    (usize, f64),
);

/// Under `fixtures/logs`.
#[rustfmt::skip]
const OURS: &[Reading] = &[
    ("csv/duplicate.csv", "csv", 2, 1, 2, (2, 7.0), (0, 0.0)),
    ("csv/long.tsv", "csv", 3, 1, 3, (3, 7.0), (1, 1.5)),
    ("csv/semicolon.csv", "csv", 3, 1, 3, (2, 8.75), (0, 0.0)),
    ("csv/wide.csv", "csv", 4, 10, 40, (3, 8.25), (3, 1.25)),
    ("build-nanogpt/console.log", "build-nanogpt", 3, 0, 2, (3, 29.855_029), (3, 43.6098)),
    ("build-nanogpt/log.txt", "build-nanogpt", 3, 0, 250, (2, 20.455_029), (0, 0.0)),
    // Read with Python: a regular expression a line, sqlite3 for the databases.
    ("composer/after.txt", "composer-file", 3, 18, 20, (3, 9.5249), (3, 2.2597)),
    ("hf-trainer/fast.log", "hf-trainer", 12, 5, 60, (12, 40.124), (12, 15.724)),
    ("hf-trainer/no-bars.log", "hf-trainer", 6, 10, 60, (6, 20.055), (6, 7.858)),
    ("mlflow-db/mlflow.db", "mlflow-db", 6, 0, 30, (6, 16.5), (4, 2.75)),
    ("trackio/before-run-ids.db", "trackio", 4, 0, 3, (4, 13.0), (0, 0.0)),
    ("trackio/project.db", "trackio", 7, 10, 50, (7, 19.0), (4, 4.75)),
    ("composer/console.log", "composer", 5, 1, 3, (4, 32.4025), (4, 3.7035)),
    ("composer/metrics.txt", "composer-file", 3, 0, 2, (3, 22.152_512_3), (0, 0.0)),
    ("deepspeed-chat/chat.log", "deepspeed-chat", 4, 0, 3, (3, 0.166), (0, 0.0)),
    ("deepspeed/pipeline.log", "deepspeed", 5, 10, 30, (4, 25.1623), (0, 0.0)),
    ("fairseq/metaseq.log", "fairseq", 5, 1, 3, (5, 42.717_274_443_548_305), (5, 32.981)),
    ("gnmt/train.log", "gnmt", 4, 0, 1948, (3, 20.3121), (0, 0.0)),
    ("hf-trainer-state/cut.json", "hf-trainer-state", 3, 10, 30, (3, 7.5), (3, 3.5)),
    ("hf-trainer-state/trainer_state.json", "hf-trainer-state", 4, 10, 40, (4, 10.5), (4, 4.75)),
    ("hf-trainer/swift.log", "hf-trainer", 4, 5, 10, (4, 9.35), (4, 4.0)),
    ("hf-trainer/trl.log", "hf-trainer", 3, 10, 30, (3, 8.4), (3, 4.5)),
    ("jsonl/pieces", "jsonl", 6, 1, 6, (6, 39.0), (0, 0.0)),
    ("jsonl/restart.jsonl", "jsonl", 5, 0, 2, (5, 13.75), (4, 3.25)),
    ("jsonl/restart.jsonl.gz", "jsonl", 5, 0, 2, (5, 13.75), (4, 3.25)),
    ("levanter/hosts.out", "levanter", 5, 1, 4, (5, 62.5), (0, 0.0)),
    ("levanter/tracker.jsonl", "levanter-json", 2, 0, 1, (2, 10.5), (1, 1.5)),
    ("lightning/lightning_logs/version_0/metrics.csv", "lightning-csv", 2, 49, 99, (2, 4.5), (0, 0.0)),
    ("lightning/lightning_logs/version_1/metrics.csv", "lightning-csv", 2, 99, 149, (2, 3.875), (0, 0.0)),
    ("lingua/train.log", "lingua", 3, 10, 30, (3, 28.7234), (1, 1.23)),
    ("litgpt/pretrain.log", "litgpt", 5, 4, 8, (4, 28.923), (0, 0.0)),
    ("llama-factory/trainer_log.jsonl", "llama-factory", 4, 5, 20, (2, 4.75), (0, 0.0)),
    ("llm.c-log/main.log", "llm.c-log", 5, 0, 2, (4, 25.2363), (4, 30.95)),
    ("llm.c/console.log", "llm.c", 9, 0, 5, (6, 60.859), (6, 47.1455)),
    ("maxtext/console.log", "maxtext", 5, 0, 2, (5, 30.373), (0, 0.0)),
    ("maxtext/metrics.txt", "maxtext-metrics", 2, 99, 100, (2, 2.5), (2, 6.0)),
    ("megatron-golden-values/keyed.json", "megatron-golden-values", 3, 1, 10, (3, 30.75), (0, 0.0)),
    ("megatron/neox.log", "megatron", 2, 1, 2, (2, 11.0), (0, 0.0)),
    ("megatron/restart.log", "megatron", 8, 1, 6, (7, 47.1), (7, 18.0)),
    ("megatron/restart.log.gz", "megatron", 8, 1, 6, (7, 47.1), (7, 18.0)),
    ("megatron/restart.log.zst", "megatron", 8, 1, 6, (7, 47.1), (7, 18.0)),
    ("megatron/torn.log", "megatron", 7, 10, 70, (4, 15.0), (5, 6.1)),
    ("mlflow/mlruns", "mlflow", 3, 0, 20, (3, 5.75), (3, 2.75)),
    ("mlperf/result.txt", "mlperf", 3, 80, 240, (2, 5.75), (0, 0.0)),
    ("modded-nanogpt/record.txt", "modded-nanogpt", 8, 0, 127, (3, 20.3258), (0, 0.0)),
    ("ms-swift/logging.jsonl", "ms-swift", 3, 1, 20, (3, 4.75), (3, 2.75)),
    ("nanochat/base_train.log", "nanochat", 5, 0, 103, (4, 17.956_789), (1, 0.25)),
    ("nanogpt/train.log", "nanogpt", 6, 0, 510, (6, 30.7637), (0, 0.0)),
    ("nanotron/restart.log", "nanotron", 5, 1, 21, (5, 53.8), (5, 5_990_004.5)),
    ("nemo/two.log", "nemo", 7, 0, 30, (6, 46.262), (0, 0.0)),
    ("olmo/core.log", "olmo", 4, 1, 10, (4, 30.012), (4, 1_237.000_000_077_2)),
    ("parquet/metrics.parquet", "parquet", 4, 2, 8, (3, 7.0), (4, 3.5)),
    ("tensorboard/damaged.tfevents", "tensorboard", 3, 1, 3, (3, 27.0), (3, 10.5)),
    ("tensorboard/deepspeed.tfevents", "tensorboard", 3, 512, 1536, (3, 6.0), (0, 0.0)),
    ("tensorboard/restart", "tensorboard", 10, 1, 8, (10, 65.25), (9, 23.75)),
    // Read with the protobuf classes of tensorboardX.
    ("tensorboard/writer", "tensorboard", 4, 0, 3, (4, 17.0), (0, 0.0)),
    ("torchtitan-structured/structured.jsonl", "torchtitan-structured", 2, 1, 2, (1, 12.25), (0, 0.0)),
    ("torchtitan/restart.log", "torchtitan", 6, 1, 30, (6, 50.947_31), (6, 26.6234)),
    ("verl/ppo.log", "verl", 3, 12, 14, (2, 0.487), (2, 0.461)),
    ("wandb/old-sdk-cut.wandb", "wandb", 2, 0, 1, (2, 5.0), (0, 0.0)),
    ("wandb/run-abcd1234.wandb", "wandb", 5, 10, 30, (5, 16.5), (5, 3.75)),
];

/// What trainers of many versions wrote when they were run for it.
#[rustfmt::skip]
const SAMPLES: &[Reading] = &[
    ("deepspeed_csv/job/Train_Samples_train_loss.csv", "csv", 6, 512, 2048, (6, 24.275), (0, 0.0)),
    ("generic/pandas.parquet", "parquet", 3, 1, 3, (2, 3.0), (3, 3.0)),
    ("generic/pandas.tsv", "csv", 3, 1, 3, (2, 3.0), (3, 3.0)),
    ("generic/pandas_default.csv", "csv", 3, 1, 3, (2, 3.0), (3, 3.0)),
    ("generic/pandas_eu.csv", "csv", 3, 1, 3, (2, 3.0), (3, 3.0)),
    ("generic/pandas_int64na.parquet", "parquet", 3, 1, 3, (2, 3.0), (3, 3.0)),
    ("generic/pandas_noindex.csv", "csv", 3, 1, 3, (2, 3.0), (3, 3.0)),
    ("generic/pandas_records.jsonl", "jsonl", 3, 1, 3, (1, 3.0), (2, 3.0)),
    ("generic/python_json.jsonl", "jsonl", 4, 1, 4, (3, 0.0), (0, 0.0)),
    ("hf_trainer/checkpoint-30/trainer_state.json", "hf-trainer-state", 3, 10, 30, (3, 10.4123), (3, 3.21)),
    ("hf_trainer/console_v4_tqdm.log", "hf-trainer", 4, 10, 40, (3, 10.4123), (3, 3.21)),
    ("hf_trainer/console_v5.log", "hf-trainer", 4, 33, 100, (3, 10.41), (3, 3.21)),
    ("lightning_csv/lightning_logs/version_0/metrics.csv", "lightning-csv", 4, 49, 199, (4, 4.52), (0, 0.0)),
    ("megatron/NVIDIA_23.06_pt_23.09_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_23.06_pt_23.09_loginterval3.log", "megatron", 2, 3, 6, (2, 11.2), (2, 0.0)),
    ("megatron/NVIDIA_HEAD_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_HEAD_loginterval3.log", "megatron", 3, 1, 6, (3, 22.4), (3, 25.3)),
    ("megatron/NVIDIA_core_v0.15.0_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_core_v0.15.0_loginterval3.log", "megatron", 2, 3, 6, (2, 11.2), (2, 0.0)),
    ("megatron/NVIDIA_core_v0.16.0_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_core_v0.16.0_loginterval3.log", "megatron", 3, 1, 6, (3, 22.4), (3, 25.3)),
    ("megatron/NVIDIA_core_v0.17.0_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_core_v0.17.0_loginterval3.log", "megatron", 3, 1, 6, (3, 22.4), (3, 25.3)),
    ("megatron/NVIDIA_core_v0.19.0_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_core_v0.19.0_loginterval3.log", "megatron", 3, 1, 6, (3, 22.4), (3, 25.3)),
    ("megatron/NVIDIA_core_v0.6.0_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_core_v0.6.0_loginterval3.log", "megatron", 2, 3, 6, (2, 11.2), (2, 0.0)),
    ("megatron/NVIDIA_core_v0.9.0_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_core_v0.9.0_loginterval3.log", "megatron", 2, 3, 6, (2, 11.2), (2, 0.0)),
    ("megatron/NVIDIA_v0.11.0_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_v0.11.0_loginterval3.log", "megatron", 2, 3, 6, (2, 11.2), (2, 0.0)),
    ("megatron/NVIDIA_v1.0_loginterval1.log", "megatron", 6, 1, 6, (6, 22.1), (0, 0.0)),
    ("megatron/NVIDIA_v1.0_loginterval3.log", "megatron", 2, 3, 6, (2, 0.0), (0, 0.0)),
    ("megatron/NVIDIA_v2.0_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (0, 0.0)),
    ("megatron/NVIDIA_v2.0_loginterval3.log", "megatron", 2, 3, 6, (2, 11.2), (0, 0.0)),
    ("megatron/NVIDIA_v2.6_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/NVIDIA_v2.6_loginterval3.log", "megatron", 2, 3, 6, (2, 11.2), (2, 0.0)),
    ("megatron/bigscience-workshop_HEAD_loginterval1.log", "megatron", 6, 1, 6, (4, 22.1), (5, 43.423)),
    ("megatron/bigscience-workshop_HEAD_loginterval3.log", "megatron", 2, 3, 6, (2, 11.2), (2, 0.0)),
    ("tensorboard/pytorch_style_restart", "tensorboard", 18, 1, 14, (18, 165.259_999_275_207_52), (0, 0.0)),
    ("tensorboard/tensor_encoded", "tensorboard", 3, 1, 3, (0, 0.0), (0, 0.0)),
    ("tensorboard/tensorboardX_run", "tensorboard", 5, 0, 4, (5, 27.5), (0, 0.0)),
    ("tensorboard/truncated_tail", "tensorboard", 10, 1, 10, (10, 94.5), (0, 0.0)),
    ("tensorboard/zero_tail", "tensorboard", 10, 1, 10, (10, 94.5), (0, 0.0)),
    ("torchtitan/console_2024_wps.log", "torchtitan", 2, 1, 10, (2, 18.05), (0, 0.0)),
    ("torchtitan/console_color_head.log", "torchtitan", 5, 1, 1000, (5, 34.347_31), (5, 24.6546)),
    ("torchtitan/console_plain_head.log", "torchtitan", 2, 14, 15, (2, 6.350_85), (2, 2.0)),
    ("wandb/multiblock", "wandb", 1500, 1, 1500, (1500, 6374.25), (1500, 1500.0)),
    ("wandb/raw/wandb/offline-run-20261129_152530-rawsampl/run-rawsampl.wandb", "wandb", 9, 1, 9, (7, 25.733_333_333_333_33), (5, 12.0)),
    ("wandb/truncated", "wandb", 266, 1, 266, (266, 1294.489), (266, 266.0)),
];

/// What real runs wrote.
#[rustfmt::skip]
const CORPUS: &[Reading] = &[
    ("deepspeed-console__dschat-rlhf-opt1.3b.log", "deepspeed-chat", 477, 0, 476, (477, 23.569_013_595_581_055), (0, 0.0)),
    ("gpt-neox-console__llemma-scaling-70M-512step.out", "megatron", 512, 1, 512, (512, 1_801.161_384), (0, 0.0)),
    ("hf-trainer-state__nsllm.json", "hf-trainer-state", 435, 5, 2175, (435, 867.8893), (435, 171.549_240_484_833_72)),
    ("issue-series-csv__gemma-lora-isolated-gradnorm.csv", "csv", 9, 1, 9, (9, 12.86), (9, 11_314.33)),
    ("levanter-tqdm-nohup__multi-host-interleaved.out", "levanter", 1301, 1, 1301, (1301, 16_486.1), (0, 0.0)),
    ("llamafactory-trainer-log-jsonl__nsllm.jsonl", "llama-factory", 436, 5, 2178, (435, 867.8893), (0, 0.0)),
    ("llmc-console__a100-gpt2-124M-11672114.log", "llm.c", 751, 0, 750, (750, 4_539.182_203), (750, 813.4024)),
    ("llmc-console__a100-gpt2-124M-11672255.log", "llm.c", 903, 0, 902, (902, 0.0), (901, 0.0)),
    ("llmc-main-log__modded-nanogpt-adamw-2024-06.log", "llm.c-log", 9537, 0, 9536, (9536, 34_971.520_093), (0, 0.0)),
    ("maxtext-metrics-jsonl__manual-test-param-norm.txt", "maxtext-metrics", 96, 0, 95, (96, 683.634_078_979_492_2), (96, 117_632.509_056_091_31)),
    ("megatron-console__bigscience-gpt2-base_n4_dp1_tp4_pp4-1809579.out", "megatron", 20, 10, 200, (19, 174.093_103), (18, 139.844)),
    ("megatron-console__bloom-tr11-176B-chronicle-lines.log", "megatron", 18, 12_695, 45_000, (13, 35.237_968), (13, 2508.497)),
    ("megatron-console__bloom-tr8-104B-chronicle-lines.log", "megatron", 19, 7000, 9027, (19, 114.985_669), (18, 9_808_937.088)),
    ("megatron-console__bloom-tr8b-104B-chronicle-lines.log", "megatron", 19, 6502, 17_068, (18, 65.091_231), (12, 2_360_736.587)),
    ("megatron-deepspeed-console__aurora-cooldown-ezpz.log", "megatron", 7, 136_004, 136_010, (7, 81.480_149), (7, 3604.389)),
    ("megatron-deepspeed-console__bigscience-3d-perf-n16-ds-on.out", "megatron", 49, 1, 49, (49, 657.912_324), (0, 0.0)),
    ("megatron-golden-json__bert-tp2pp2-small-lts-a100.json", "megatron-golden-values", 11, 1, 50, (11, 112.300_45), (0, 0.0)),
    ("megatron-golden-json__jet-gpt3-345m-resume-array-form.json", "megatron-golden-values", 20, 0, 95, (20, 199.806_07), (0, 0.0)),
    ("megatron-golden-json__mixtral-8x7b-release-lts-a100.json", "megatron-golden-values", 3094, 1, 23_405, (3094, 7_504.128_35), (0, 0.0)),
    ("mlperf-mllog__llama2-lora-h100-dgx.txt", "mlperf", 53, 80, 3840, (46, 64.0053), (0, 0.0)),
    ("mlperf-stdout__fairseq-transformer-c4140.txt", "fairseq", 6, 997, 6360, (6, 325_453.383), (6, 374_711.439)),
    ("mlperf-stdout__gnmt-dgx1.txt", "gnmt", 776, 0, 7744, (776, 2694.1564), (0, 0.0)),
    ("modded-nanogpt-txt__modernarch.txt", "modded-nanogpt", 5101, 0, 5100, (5100, 18_444.689_6), (0, 0.0)),
    ("modded-nanogpt-txt__track3-ortho-many-vals.txt", "modded-nanogpt", 388, 0, 8500, (0, 0.0), (0, 0.0)),
    ("modded-nanogpt-txt__unet-double-lr.txt", "modded-nanogpt", 3001, 0, 3000, (3000, 10_947.987), (0, 0.0)),
    ("nanogpt-console-wandb-output__char-model-a.log", "nanogpt", 2156, 0, 2155, (2156, 1857.377), (0, 0.0)),
    ("tfevents-scalars-csv__megatron-gpt3-357m-a.csv", "csv", 100, 1, 100, (100, 989.955_341_339_111_3), (84, 570.929_132_699_966_4)),
    ("tfevents__tensorboard-testdata-eval.tfevents", "tensorboard", 2, 1000, 3000, (2, 0.002_265_756_775_159_388_8), (0, 0.0)),
    ("torchtitan-console__aurora-blendcorpus-2B.log", "torchtitan", 105, 1, 105, (105, 706.5832), (105, 564.1011)),
    ("wandb-export-csv__char-models.csv", "csv", 386, 0, 385, (51, 251.717_252_731_323_24), (0, 0.0)),
    ("wandb-offline-run__coati-sft.wandb", "wandb", 16, 0, 15, (16, 5.389_434_814_453_125), (0, 0.0)),
];

/// What lies beside the logs, or is not read on its own: rates and scales of DeepSpeed beside its losses, a log of lines
/// of every format, which each reader's own tests read, and a database.
const BESIDE: [&str; 8] = [
    "README.md",
    "MANIFEST.tsv",
    "output.log",
    "mixed.log",
    "Train_Samples_lr.csv",
    "Train_Samples_loss_scale.csv",
    "demo.db",
    "no-step.parquet",
];

fn of(run: &Run, name: &str) -> (usize, f64) {
    let values: Vec<f64> = run
        .column(name)
        .map_or(Vec::new(), |c| c.iter().flatten().collect());
    (values.len(), values.iter().filter(|v| v.is_finite()).sum())
}

/// What differs from an independent reading.
fn difference(folder: &Path, reading: &Reading) -> Option<String> {
    let (path, format, rows, first, last, loss, norm) = reading;
    let run = read(folder.join(path));
    let near = |a: (usize, f64), b: (usize, f64)| {
        a.0 == b.0 && (a.1 - b.1).abs() <= 1e-9 * b.1.abs().max(1.0)
    };
    let steps = (run.len(), run.steps[0], run.steps[run.len() - 1]);
    let same = run.meta.format == *format
        && steps == (*rows, *first, *last)
        && near(of(&run, "loss"), *loss)
        && near(of(&run, "grad_norm"), *norm);
    (!same).then(|| {
        let got = (
            &run.meta.format,
            steps,
            of(&run, "loss"),
            of(&run, "grad_norm"),
        );
        format!("{path}: {got:?}")
    })
}

fn as_read_independently(folder: &Path, readings: &[Reading]) {
    let wrong: Vec<String> = readings
        .iter()
        .filter_map(|r| difference(folder, r))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut left: BTreeSet<String> = BTreeSet::new();
    walk(folder, folder, &mut left);
    let held = |path: &String| {
        readings
            .iter()
            .any(|r| path == r.0 || path.starts_with(&format!("{}/", r.0)))
    };
    left.retain(|path| {
        !held(path)
            && !BESIDE
                .iter()
                .any(|name| path.rsplit('/').next() == Some(name))
    });
    assert!(left.is_empty(), "no reading of {left:?}");
}

fn walk(folder: &Path, root: &Path, out: &mut BTreeSet<String>) {
    for path in files(folder) {
        if path.is_dir() {
            walk(&path, root, out);
        } else if let Ok(inside) = path.strip_prefix(root) {
            out.insert(inside.display().to_string());
        }
    }
}

#[test]
fn our_logs() {
    as_read_independently(&fixture("logs"), OURS);
}

#[test]
fn the_samples() {
    if let Some(folder) = shared("samples") {
        as_read_independently(&folder, SAMPLES);
    }
}

#[test]
fn the_logs_of_real_runs() {
    if let Some(folder) = shared("corpus") {
        as_read_independently(&folder, CORPUS);
    }
}
