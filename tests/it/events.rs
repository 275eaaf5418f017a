//! Lines about starts, checkpoints and skipped data: which event each gives, of which step and path, and whether it
//! says that a checkpoint is on disk.

use std::fs;

use whyspike::ingest::{self, Options};
use whyspike::run::{EventKind, Run};

use crate::support::{ALIASES, read_all};

use EventKind::{DataSkipped, Deleted, Exit, Loaded, SaveStarted, Saved, Start};

/// Rows of steps 10 and 20 around a line, in the format of a trainer.
fn log(format: &str, line: &str) -> String {
    let rows = |row: &dyn Fn(u64) -> String| format!("{}\n{line}\n{}\n", row(10), row(20));
    match format {
        "megatron" => rows(&|s| format!(" iteration {s}/ 99 | lm loss: 2.0E+00 |")),
        "torchtitan" => {
            rows(&|s| format!("step: {s}  loss: 2.50000  memory: 9.46GiB(64.99%)  tps: 7,282"))
        }
        "olmo" => rows(&|s| format!("[step={s}/99,epoch=1]\n    train/CE loss=2.5")),
        "fairseq" => rows(&|s| {
            format!(
                "| INFO | train_inner | {{\"epoch\": 1, \"loss\": \"3\", \"num_updates\": \"{s}\"}}"
            )
        }),
        "deepspeed" => {
            rows(&|s| format!("steps: {s} loss: 2.5 iter time (s): 1.0 samples/sec: 4.0"))
        }
        "nanotron" => {
            rows(&|s| format!("iteration: {s} / 99 | consumed_tokens: 1M | lm_loss: 2.5 | lr: 0.1"))
        }
        "hf-trainer" => {
            rows(&|s| format!("{{'loss': 2.5, 'global_step/max_steps': '{s}/99', 'epoch': 0.{s}}}"))
        }
        other => panic!("no rows of {other}"),
    }
}

fn read(format: &str, line: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, log(format, line)).unwrap();
    let run = ingest::read(&[path], &ALIASES, &Options::default(), &mut |_, _| {}).unwrap();
    assert_eq!(run.meta.format, format, "{line}");
    assert_eq!(run.steps, [10, 20], "{line}");
    run
}

/// Kind, step and path of what a line tells.
type Told = (EventKind, Option<u64>, Option<&'static str>);

/// Events by format and line. `SaveStarted` is not durable, `Saved` is.
const LINES: &[(&str, &str, &[Told])] = &[
    // Megatron-LM, from v1 to now
    (
        "megatron",
        "global rank 3 is saving checkpoint at iteration    1000 to /ckpt",
        &[(SaveStarted, Some(1000), Some("/ckpt"))],
    ),
    (
        "megatron",
        "saving checkpoint at iteration    1000 to /ckpt in torch_dist format",
        &[(SaveStarted, Some(1000), Some("/ckpt"))],
    ),
    (
        "megatron",
        "[2026-03-01 12:00:00.123456] saving checkpoint at iteration    1000 to /ckpt in torch format",
        &[(SaveStarted, Some(1000), Some("/ckpt"))],
    ),
    (
        "megatron",
        "  successfully saved checkpoint at iteration    1000 to /ckpt",
        &[(Saved, Some(1000), Some("/ckpt"))],
    ),
    (
        "megatron",
        "  [2026-03-01 12:00:09.123456] successfully saved checkpoint from iteration    1000 to /ckpt [ t 1/8, gtp_remat 1/1, p 1/4 ]",
        &[(Saved, Some(1000), Some("/ckpt"))],
    ),
    (
        "megatron",
        "  successfully saved local checkpoint from iteration 1000",
        &[(Saved, Some(1000), None)],
    ),
    (
        "megatron",
        "  [2026-03-01 12:00:09.123456] scheduled an async checkpoint save at iteration    2000 to /ckpt",
        &[(SaveStarted, Some(2000), Some("/ckpt"))],
    ),
    (
        "megatron",
        " loading checkpoint from /ckpt at iteration 1000",
        &[(Loaded, Some(1000), Some("/ckpt"))],
    ),
    (
        "megatron",
        " loading distributed checkpoint from /ckpt at iteration 1000",
        &[(Loaded, Some(1000), Some("/ckpt"))],
    ),
    // The step comes with the line that says that it was loaded.
    ("megatron", " loading release checkpoint from /ckpt", &[]),
    (
        "megatron",
        "  successfully loaded checkpoint from /ckpt [ t 1/8, p 1/4 ] at iteration 1000",
        &[(Loaded, Some(1000), Some("/ckpt"))],
    ),
    (
        "megatron",
        "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt",
        &[],
    ),
    (
        "megatron",
        "  successfully deleted checkpoint from iteration     500 at /ckpt",
        &[(Deleted, Some(500), Some("/ckpt"))],
    ),
    (
        "megatron",
        "[before the start of training step] datetime: 2026-03-01 12:00:00 ",
        &[(Start, None, None)],
    ),
    (
        "megatron",
        "[exiting program at iteration 10] datetime: 2026-03-01 12:00:00 ",
        &[(Exit, Some(10), None)],
    ),
    (
        "megatron",
        "[exiting program after receiving SIGTERM.] datetime: 2026-03-01 12:00:00",
        &[(Exit, None, None)],
    ),
    // BigScience, gpt-neox and DeepSpeed under both
    (
        "megatron",
        "Skipped iterations 11 to 15 due to --skip-train-iteration-range flag.",
        &[(DataSkipped, Some(11), Some("11-15"))],
    ),
    (
        "megatron",
        "Loading checkpoint and starting from iteration 1000",
        &[(Loaded, Some(1000), None)],
    ),
    (
        "megatron",
        "[2026-03-01 12:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] Saving model checkpoint: /c/global_step10/mp_rank_00_model_states.pt",
        &[(SaveStarted, Some(10), Some("/c/global_step10"))],
    ),
    (
        "megatron",
        "[2026-03-01 12:00:00,123] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step10 is ready now!",
        &[(Saved, Some(10), None)],
    ),
    // torchtitan names no step where it saves: it is that of the row before
    (
        "torchtitan",
        "[titan] 2026-03-01 12:00:00,123 - root - INFO - Loading the checkpoint from ./outputs/checkpoint/step-1000.",
        &[(Loaded, Some(1000), Some("./outputs/checkpoint/step-1000"))],
    ),
    (
        "torchtitan",
        "Loading the checkpoint at step 1000.",
        &[(Loaded, Some(1000), None)],
    ),
    (
        "torchtitan",
        "Finished loading the checkpoint in 3.00 seconds.",
        &[],
    ),
    (
        "torchtitan",
        "Training starts at step 11.",
        &[(Start, Some(11), None)],
    ),
    (
        "torchtitan",
        "Saving the checkpoint (or staging if async is enabled).",
        &[(SaveStarted, Some(10), None)],
    ),
    (
        "torchtitan",
        "Finished saving the checkpoint (or staging if async is enabled)in 2.00 seconds.",
        &[(Saved, Some(10), None)],
    ),
    (
        "torchtitan",
        "Saving a full checkpoint at last step, step 10.",
        &[(SaveStarted, Some(10), None)],
    ),
    // OLMo-core differs from Megatron by the case of a letter
    (
        "olmo",
        "2026-03-01 10:00:05.520\thost-a:0\tolmo_core.train:970\tINFO\tSaving checkpoint for step 10 to '/ckpt/step10'...",
        &[(SaveStarted, Some(10), Some("/ckpt/step10"))],
    ),
    (
        "olmo",
        "Loading checkpoint from '/ckpt/step1000'...",
        &[(Loaded, Some(1000), Some("/ckpt/step1000"))],
    ),
    (
        "olmo",
        "Skipping training on step 11 intentionally",
        &[(DataSkipped, Some(11), None)],
    ),
    // fairseq and metaseq
    (
        "fairseq",
        "2026-03-01 14:05:27 | INFO | metaseq.checkpoint_utils | Saved checkpoint /c/checkpoint_1_10-shard0.pt (epoch 1 @ 10 updates) (writing took 2.1 seconds)",
        &[(Saved, Some(10), Some("/c/checkpoint_1_10-shard0.pt"))],
    ),
    // It may not be there.
    (
        "fairseq",
        "attempting to load checkpoint from: /c/checkpoint_last.pt",
        &[],
    ),
    (
        "fairseq",
        "| INFO | fairseq.trainer | Loaded checkpoint /c/checkpoint_last.pt (epoch 1 @ 1000 updates)",
        &[(Loaded, Some(1000), Some("/c/checkpoint_last.pt"))],
    ),
    (
        "fairseq",
        "Skipping batches starting from step 11 with 40 batches left to skip",
        &[(DataSkipped, Some(11), Some("40 batches"))],
    ),
    (
        "deepspeed",
        "[Rank 0] Saving model checkpoint: /c/global_step10/mp_rank_00_model_states.pt",
        &[(SaveStarted, Some(10), Some("/c/global_step10"))],
    ),
    (
        "deepspeed",
        "[Torch] Checkpoint global_step10 is about to be saved!",
        &[(SaveStarted, Some(10), None)],
    ),
    (
        "deepspeed",
        "[Torch] Checkpoint global_step10 is ready now!",
        &[(Saved, Some(10), None)],
    ),
    // These two write the checkpoint before they go on.
    (
        "nanotron",
        "[INFO|DP=0]: Saving checkpoint at /c/10",
        &[(Saved, Some(10), Some("/c/10"))],
    ),
    (
        "hf-trainer",
        "Saving model checkpoint to out/checkpoint-10",
        &[(Saved, Some(10), Some("out/checkpoint-10"))],
    ),
    (
        "hf-trainer",
        "  Resuming training from checkpoint with epoch 3 and global step 1000",
        &[(Loaded, Some(1000), None)],
    ),
    (
        "hf-trainer",
        "***** Running training *****",
        &[(Start, None, None)],
    ),
];

#[test]
fn every_line_gives_its_event() {
    for (format, line, told) in LINES {
        let run = read(format, line);
        let events: Vec<_> = run
            .events
            .iter()
            .map(|e| (e.kind, e.step, e.path.as_deref()))
            .collect();
        assert_eq!(events, *told, "{line}");
    }
}

#[test]
fn a_resumed_trainer_tells_where_it_reads_on() {
    let run = read(
        "hf-trainer",
        "  Fast-forwarding the dataloader past 3 epochs and 40 batches, this may take a while",
    );
    assert_eq!(
        run.meta.facts["data_fast_forwarded"],
        "3 epochs and 40 batches"
    );
    assert!(run.events.is_empty());
}

/// The iterations are on the last rank's console, the saves on the first one's and in `progress.txt`.
#[test]
fn saves_that_other_files_tell_join_the_attempts_of_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let row = |s: u64| {
        format!(" iteration {s}/ 99 | lm loss: 2.0E+00 | number of nan iterations:   0 |\n")
    };
    let saved = |s: u64| {
        format!("  successfully saved checkpoint from iteration {s:>7} to /ckpt [ t 1/8 ]\n")
    };
    let start = "[before the start of training step] datetime: 2026-03-01 12:00:00 \n";
    let loaded = "  successfully loaded checkpoint from /ckpt at iteration 20\n";
    let progress = |what: &str| format!("2026-03-01 12:00:00\tJob ID: 7\t# GPUs: 8\t{what}\n");
    let files = [
        ("rank7.log", [10, 20, 30, 21, 40].map(row).concat()),
        (
            "rank0.log",
            [
                start.to_owned(),
                saved(20),
                start.to_owned(),
                loaded.to_owned(),
                saved(40),
            ]
            .concat(),
        ),
        (
            "progress.txt",
            [
                progress("Starting job"),
                progress("Saved checkpoint\tIteration: 20\tJob throughput: 401.2 TFLOP/s/GPU"),
                progress("Saving async checkpoint\tIteration: 30"),
                progress("Starting job"),
                progress("Saved checkpoint\tIteration: 40"),
            ]
            .concat(),
        ),
    ];
    let paths = files.map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let run = read_all(&paths).unwrap();
    assert_eq!(run.steps, [10, 20, 30, 21, 40]);
    let of = |kind| {
        let events = run.events.iter().filter(move |e| e.kind == kind);
        events.map(|e| (e.attempt, e.step)).collect::<Vec<_>>()
    };
    assert_eq!(of(Saved), [(0, Some(20)), (1, Some(40))], "told once each");
    assert_eq!(of(SaveStarted), [(0, Some(30))]);
    assert_eq!(of(Loaded), [(1, Some(20))]);
    let paths: Vec<_> = run
        .events
        .iter()
        .filter(|e| e.kind == Saved)
        .map(|e| e.path.as_deref())
        .collect();
    assert_eq!(paths, [Some("/ckpt"); 2]);
}

#[test]
fn a_log_of_events_alone_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("progress.txt");
    fs::write(
        &path,
        "2026-03-01 12:00:00\tJob ID: 7\t# GPUs: 8\tStarting job\n",
    )
    .unwrap();
    let error = read_all(&[path]).expect_err("no rows").to_string();
    assert!(
        error.contains("no row with a training step") && error.contains("megatron"),
        "{error}"
    );
}
