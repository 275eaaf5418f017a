//! Megatron consoles: Megatron-LM, Bridge, Megatron-DeepSpeed, `BigScience`, gpt-neox.

mod event;
mod line;
mod progress;
mod settle;

use crate::ingest::Ingester;
use crate::ingest::LineReader;
use crate::ingest::Reader;
use crate::ingest::peel;
use crate::ingest::text;
use crate::run::Rows;

use event::Events;
use line::Lines;

pub(super) const INGESTER: Ingester = Ingester {
    name: "megatron",
    recognised_by: "` iteration N/M | key: value | …` lines",
    signals: &[
        "loss",
        "grad_norm",
        "param_norm",
        "learning_rate",
        "loss_scale",
        "global_batch_size",
        "consumed_samples",
        "consumed_tokens",
        "skipped",
        "nan",
        "num_zeros",
        "max_attention_logit",
        "val_loss",
        "step_time",
        "time",
    ],
    framework: Some("megatron-lm"),
    step_base: Some(1),
    averaged: true,
    interleaved: false,
    sniff,
    reader: Reader::Lines(|_| Box::new(Console)),
};

/// Starts what the chunk reader keeps for [`settle`]: column names and mark paths that leave the
/// ingester without it.
const PRIVATE: char = '\u{1}';

/// Set in rows of which a field could not be read: what they lack says nothing.
const TORN: &str = "\u{1}torn";

fn sniff(head: &[u8]) -> u8 {
    if line::header(&line::anchor(), head, 0).is_some() {
        95
    } else if progress::sniff(head) {
        60
    } else if event::sniff(head) {
        20
    } else {
        0
    }
}

struct Console;

impl LineReader for Console {
    fn chunk(&self, chunk: &[u8], rows: &mut Rows) {
        let mut lines = Lines::new();
        let events = Events::new();
        let mut scratch = Vec::new();
        text::pieces(chunk, |number, piece| {
            let line = peel::plain(piece, &mut scratch);
            if !lines.read(number, line, rows) {
                events.read(peel::peel(line).rest, rows);
            }
        });
        lines.finish(rows);
    }

    fn settle(&self, rows: &mut Rows) {
        settle::settle(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::EventKind;

    /// Reads a log as chunks of `lines` lines each.
    fn read_in(text: &[u8], lines: usize) -> Rows {
        let mut rows = Rows::default();
        let ends: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
        for part in ends.chunks(lines) {
            let mut next = Rows::default();
            Console.chunk(&part.concat(), &mut next);
            rows.append(next);
        }
        Console.settle(&mut rows);
        rows
    }

    fn read(text: &str) -> Rows {
        read_in(text.as_bytes(), usize::MAX)
    }

    fn column(rows: &Rows, name: &str) -> Vec<Option<f64>> {
        let column = rows.find(name).map(|s| rows.column(s));
        (0..rows.steps.len())
            .map(|r| column.and_then(|c| c.get(r)))
            .collect()
    }

    /// A column in letters: number, zero, infinity, NaN, nothing.
    fn shape(rows: &Rows, name: &str) -> String {
        let letter = |v: Option<f64>| match v {
            None => '.',
            Some(v) if v.is_nan() => 'N',
            Some(v) if v.is_infinite() => 'I',
            Some(0.0) => '0',
            Some(_) => 'f',
        };
        column(rows, name).into_iter().map(letter).collect()
    }

    fn marks(rows: &Rows, kind: EventKind) -> Vec<(usize, Option<u64>)> {
        let of_kind = rows.marks.iter().filter(|m| m.kind == kind);
        of_kind.map(|m| (m.row, m.step)).collect()
    }

    /// Rows of step, loss, loss scale, gradient norm and skips; a field that is `-` is left out.
    fn log(stamp: &str, lines: &[&str]) -> String {
        const NAMES: [&str; 4] = [
            "lm loss",
            "loss scale",
            "grad norm",
            "number of skipped iterations",
        ];
        let row = |line: &&str| {
            let (step, values) = line.split_once(' ').unwrap();
            let pairs = NAMES
                .iter()
                .zip(values.split(' '))
                .filter(|(_, v)| *v != "-");
            let fields: Vec<String> = pairs.map(|(n, v)| format!(" {n}: {v} |")).collect();
            let fields = fields.concat();
            format!(" {stamp} iteration {step}/ 999 |{fields} number of nan iterations:   0 |\n")
        };
        lines.iter().map(row).collect()
    }

    #[test]
    fn a_restart_with_everything_in_it() {
        let text = include_bytes!("../../fixtures/logs/megatron/restart.log");
        for lines in [1, 2, 7, usize::MAX] {
            let rows = read_in(text, lines);
            assert_eq!(rows.steps, [1, 2, 3, 4, 5, 4, 5, 6]);
            let loss = column(&rows, "lm loss");
            assert!(loss[4].is_some_and(f64::is_nan));
            assert_eq!(loss[..4], [Some(10.0), Some(9.0), Some(8.0), Some(7.0)]);
            assert_eq!(loss[5..], [Some(7.1), None, Some(6.0)]);
            assert_eq!(shape(&rows, "grad norm"), "ffffNf.f");
            assert_eq!(shape(&rows, "val_loss"), "..f.....");
            assert_eq!(column(&rows, "time")[1], Some(1_772_366_411_250.001));
            assert_eq!(
                marks(&rows, EventKind::DoubleCounted),
                [(1, Some(2)), (6, Some(5))]
            );
            assert_eq!(marks(&rows, EventKind::NanInferred), [(4, Some(5))]);
            assert_eq!(marks(&rows, EventKind::Overflow), [(6, Some(5))]);
            assert_eq!(marks(&rows, EventKind::SaveStarted), [(3, Some(3))]);
            assert_eq!(marks(&rows, EventKind::Saved), [(4, Some(3))]);
            assert_eq!(marks(&rows, EventKind::Exit), [(5, Some(5))]);
            assert_eq!(marks(&rows, EventKind::Loaded), [(5, Some(3))]);
            assert_eq!(marks(&rows, EventKind::Start), [(0, None), (5, None)]);
            assert!(rows.marks.is_sorted_by_key(|m| m.row));
            assert!(
                rows.marks
                    .iter()
                    .flat_map(|m| &m.path)
                    .all(|p| p == "/ckpt")
            );
            assert_eq!(
                rows.facts.get("adam_beta2").map(String::as_str),
                Some("0.95")
            );
            assert_eq!(rows.facts.get("lr_offset").map(String::as_str), Some("1"));
            assert!(rows.losses.is_empty());
        }
    }

    #[test]
    fn torn_lines_keep_what_is_whole_and_infer_nothing() {
        let text = include_bytes!("../../fixtures/logs/megatron/torn.log");
        for lines in [1, usize::MAX] {
            let rows = read_in(text, lines);
            assert_eq!(rows.steps, [10, 20, 30, 40, 50, 60, 70]);
            assert_eq!(shape(&rows, "lm loss"), "f.ff.f.");
            assert_eq!(shape(&rows, "grad norm"), "ffff.f.");
            assert_eq!(column(&rows, "learning rate")[6], Some(7e-5));
            assert_eq!(column(&rows, "time")[5], Some(1_772_366_400_000.0));
            assert!(marks(&rows, EventKind::NanInferred).is_empty());
            assert_eq!(rows.losses.len(), 3);
            assert_eq!(shape(&rows, TORN), ".......");
        }
        let rows = read_in(text, usize::MAX);
        let places: Vec<&str> = rows.losses.iter().map(|l| l.place.as_str()).collect();
        assert_eq!(places, ["line +1", "line +3", "line +4"]);
    }

    #[test]
    fn gpt_neox() {
        let rows = read(include_str!("../../fixtures/logs/megatron/neox.log"));
        assert_eq!(rows.steps, [1, 2]);
        assert_eq!(column(&rows, "samples/sec"), [Some(206.693), Some(250.374)]);
        assert_eq!(
            column(&rows, "approx flops per GPU"),
            [Some(13.3 * 1e12), Some(16.1 * 1e12)]
        );
        assert_eq!(column(&rows, "MFU"), [Some(38.05), Some(38.1)]);
        assert_eq!(shape(&rows, "lm_loss"), "fN");
        assert_eq!(column(&rows, "val_loss"), [None, Some(10.5)]);
        assert_eq!(marks(&rows, EventKind::Overflow), [(1, Some(2))]);
        assert_eq!(marks(&rows, EventKind::Loaded), [(2, Some(1))]);
        let fact = |name: &str| rows.facts.get(name).map(String::as_str);
        assert_eq!(fact("dialect"), Some("gpt-neox"));
        assert_eq!(
            (fact("clip_grad"), fact("iteration")),
            (Some("1.0"), Some("None"))
        );
        assert_eq!(fact("adam_beta2"), Some("0.95"));
        assert!(fact("optimizer_params").is_some_and(|p| p.ends_with("1e-08}")));
        assert_eq!(fact("ninja"), None);
    }

    #[test]
    fn key_value_dialect_of_ezpz() {
        let rows = read(
            "[2025-11-10 09:43:36,161992][I][megatron/training_log:402:training_log]  iteration=  \
             136004/  136100 | consumed_tokens=6845305454592 | learning_rate=2.0127e-05 | \
             lm loss=12.316531 | grad_norm=1020.352 | number_of_nan_iterations=  0 |\n",
        );
        assert_eq!(rows.steps, [136_004]);
        assert_eq!(column(&rows, "lm loss"), [Some(12.316_531)]);
        assert_eq!(column(&rows, "grad_norm"), [Some(1020.352)]);
        assert_eq!(column(&rows, "time"), [Some(1_762_767_816_161.992)]);
        assert!(rows.losses.is_empty());
    }

    #[test]
    fn an_upgrade_in_one_file_changes_units_and_times() {
        let rows = read(
            " iteration 1/ 9 | elapsed time per iteration (ms): 1230.0 | lm loss: 9.0E+00 |\n \
             [2026-03-01 12:00:00] iteration 2/ 9 | elapsed time per iteration (s): 1.23 | \
             lm loss: 8.0E+00 |\n",
        );
        assert_eq!(
            column(&rows, "elapsed time per iteration (ms)"),
            [Some(1230.0), None]
        );
        assert_eq!(
            column(&rows, "elapsed time per iteration (s)"),
            [None, Some(1.23)]
        );
        assert_eq!(column(&rows, "time"), [None, Some(1_772_366_400_000.0)]);
        assert_eq!(
            rows.facts.get("dialect").map(String::as_str),
            Some("bigscience")
        );
    }

    #[test]
    fn a_zero_is_fake_only_if_all_was_skipped() {
        let rows = read(&log(
            "",
            &["10 3.0 1.0 1.0 0", "20 0.0 1.0 - 10", "30 0.0 1.0 1.1 4"],
        ));
        assert_eq!(shape(&rows, "lm loss"), "f.0");
        assert_eq!(marks(&rows, EventKind::FakeZero), [(1, Some(20))]);
        assert_eq!(
            marks(&rows, EventKind::Overflow),
            [(1, Some(20)), (2, Some(30))]
        );
        assert_eq!(column(&rows, "interval"), [Some(10.0); 3]);
    }

    #[test]
    fn a_loss_that_vanished_was_nan_unless_all_was_skipped_or_no_row_has_one() {
        let rows = read(&log(
            "",
            &["10 - 1.0 - 10", "20 3.0 1.0 1.0 8", "30 - 1.0 nan 3"],
        ));
        assert_eq!(shape(&rows, "lm loss"), ".fN");
        assert_eq!(marks(&rows, EventKind::NanInferred), [(2, Some(30))]);
        let rows = read(&log("", &["10 - 1.0 1.0 0", "20 - 1.0 1.0 0"]));
        assert!(rows.find("lm loss").is_none() && rows.marks.is_empty());
    }

    #[test]
    fn gradient_norms_that_were_not_computed() {
        let lines = [
            "1 2.0 64.0 464441.887 0",
            "2 2.1 64.0 464441.887 0",
            "3 2.2 32.0 464441.887 0",
        ];
        let rows = read(&log("", &lines));
        assert_eq!(shape(&rows, "grad norm"), "f..");
        assert_eq!(
            marks(&rows, EventKind::Overflow),
            [(1, Some(2)), (2, Some(3))]
        );
        let rows = read(&log(
            "",
            &[
                "1 2.0 1.0 0.150 0",
                "2 2.1 1.0 0.150 0",
                "3 2.2 1.0 0.000 0",
            ],
        ));
        assert_eq!(shape(&rows, "grad norm"), "ff0");
        let rows = read(&log("", &["1 2.0 1.0 0.000 0", "2 2.1 1.0 0.000 0"]));
        assert_eq!(shape(&rows, "grad norm"), "..");
    }

    #[test]
    fn a_first_row_counts_twice_only_in_logs_that_show_it() {
        let lines = [
            "1001 4.0 1.0 1.0 0",
            "1010 3.9 1.0 1.0 0",
            "1020 3.8 1.0 1.0 0",
            "1030 3.7 1.0 1.0 0",
        ];
        let fine = "[2026-03-01 12:00:00.250001]";
        let rows = read(&log(fine, &lines));
        assert_eq!(marks(&rows, EventKind::DoubleCounted), [(1, Some(1010))]);
        assert_eq!(column(&rows, "lm loss")[1], Some(3.9));
        assert_eq!(
            column(&rows, "interval"),
            [Some(1.0), Some(10.0), Some(10.0), Some(10.0)]
        );
        assert!(
            marks(
                &read(&log("[2026-03-01 12:00:00]", &lines)),
                EventKind::DoubleCounted
            )
            .is_empty()
        );
        // A log that begins in the middle of a process.
        let rows = read(&log(fine, &["501 4.0 1.0 1.0 0", "502 3.0 1.0 1.0 0"]));
        assert_eq!(column(&rows, "lm loss"), [Some(4.0), Some(3.0)]);
    }

    #[test]
    fn one_load_gives_one_mark() {
        let rows = read(
            " loading checkpoint from /a at iteration 1000\n \
             iteration 1001/ 9999 | lm loss: 2.0E+00 |\n \
             loading release checkpoint from /b\n  \
             successfully loaded checkpoint from /b at iteration 7\n\
             Skipped iterations 8 to 9 due to --skip-train-iteration-range flag.\n \
             loading checkpoint from /c at iteration 7\n  \
             successfully deleted checkpoint from iteration 3 at /c\n",
        );
        let got: Vec<_> = rows
            .marks
            .iter()
            .map(|m| (m.row, m.kind, m.step, m.path.as_deref()))
            .collect();
        let expected = [
            (0, EventKind::Loaded, Some(1000), Some("/a")),
            (1, EventKind::Loaded, Some(7), Some("/b")),
            (1, EventKind::DataSkipped, Some(8), Some("8-9")),
            (1, EventKind::Loaded, Some(7), Some("/c")),
            (1, EventKind::Deleted, Some(3), Some("/c")),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn saves_of_deepspeed_under_a_fork() {
        let rows = read(
            " iteration 512/ 512 | lm_loss: 2.0E+00 |\n\
             [2026-03-01 12:00:00,1] [INFO] [logging.py:96:log_dist] [Rank 0] Saving model checkpoint: /c/global_step512/mp_rank_00_model_states.pt\n\
             [2026-03-01 12:00:01,1] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step512 is ready now!\n\
             [2026-03-01 12:00:01,2] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step512 is ready now!\n  \
             successfully saved checkpoint at iteration 512 to /c\n\
             [Torch] Loaded checkpoint from /c/global_step512/mp_rank_00_model_states.pt.\n\
             [Torch] Loaded checkpoint from /c/global_step512/zero_pp_rank_0_mp_rank_00_optim_states.pt.\n",
        );
        let got: Vec<_> = rows
            .marks
            .iter()
            .map(|m| (m.kind, m.step, m.path.as_deref()))
            .collect();
        let path = Some("/c/global_step512");
        let expected = [
            (EventKind::SaveStarted, Some(512), path),
            (EventKind::Saved, Some(512), path),
            (EventKind::Loaded, Some(512), path),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn the_file_of_progress_tells_starts_and_what_is_on_disk() {
        let at = |what: &str| format!("2026-03-01 12:00:00\tJob ID: 7\t# GPUs: 8\t{what}\n");
        let saved = "Saved checkpoint\tIteration: 1000\tJob throughput: 401.2 TFLOP/s/GPU\tTokens (in billions): 1.23";
        let text: String = [
            "Starting job",
            saved,
            "Saving async checkpoint\tIteration: 2000",
            "Saved async checkpoint\tIteration: 2000",
            "Saving async checkpoint\tIteration: 3000",
            "Deleted checkpoint\tIteration: 1000",
            "Starting job",
            "Saved async local checkpoint\tIteration: 2500",
            "Something else\tIteration: 9",
        ]
        .map(at)
        .concat();
        assert_eq!(sniff(text.as_bytes()), 60);
        let rows = read(&text);
        assert!(rows.steps.is_empty());
        assert_eq!(marks(&rows, EventKind::Start).len(), 2);
        let steps = |kind| {
            marks(&rows, kind)
                .into_iter()
                .filter_map(|m| m.1)
                .collect::<Vec<_>>()
        };
        assert_eq!(steps(EventKind::Saved), [1000, 2000, 2500]);
        assert_eq!(steps(EventKind::SaveStarted), [2000, 3000]);
        assert_eq!(steps(EventKind::Deleted), [1000]);
        assert_eq!(rows.facts["world_size"], "8");
    }

    #[test]
    fn other_lines_are_neither_rows_nor_arguments() {
        let rows = read(
            "[Rank 7] (after 20 iterations) memory (MB) | allocated: 21633.08 |\n\
             time (ms) | forward-compute: 193.77 | backward: 1.0\n    \
             forward-compute ......: (790.01, 801.22)\n\
             Training epoch 0, iteration 120/149 | lr: 3e-05 | reduced_train_loss: 4.1\n\
             done with setups ... ok\n[default0]:  clip_grad ...... 1.0\n  9lives ...... 1\n",
        );
        assert!(rows.steps.is_empty() && rows.marks.is_empty());
        assert_eq!(
            rows.facts.into_iter().collect::<Vec<_>>(),
            [("clip_grad".to_owned(), "1.0".to_owned())]
        );
        assert_eq!(
            sniff(b"Training epoch 0, iteration 120/149 | lr: 3e-05\n"),
            0
        );
        assert_eq!(
            sniff(b"x\n[default7]: iteration 7/ 9 | lm loss: 2.0E+00 |"),
            95
        );
    }

    /// What each version's own printing function gives for the same six steps.
    #[test]
    fn samples_of_every_version() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/samples/megatron");
        let Ok(files) = std::fs::read_dir(folder) else {
            return;
        };
        let mut seen = 0;
        for file in files.map(Result::unwrap) {
            let name = file.file_name().into_string().unwrap();
            let rows = read_in(&std::fs::read(file.path()).unwrap(), 1);
            let fine = ["v0.16", "v0.17", "v0.19", "HEAD"]
                .iter()
                .any(|v| name.contains(v));
            let fine = fine && name.starts_with("NVIDIA");
            let zeros = fine && !name.contains("v0.16");
            let expected = match (name.contains("interval1"), name.contains("_v1.0_")) {
                (true, true) => "fNIfN0",
                (false, true) => "NN",
                (true, false) if zeros => "f..fN0",
                (true, false) => "f..fNN",
                (false, false) if fine => "ffN",
                (false, false) => "fN",
            };
            assert_eq!(shape(&rows, "lm loss"), expected, "{name}");
            assert!(rows.losses.is_empty(), "{name}");
            assert_eq!(
                marks(&rows, EventKind::DoubleCounted).len(),
                usize::from(fine),
                "{name}"
            );
            let third = zeros && expected.len() == 6;
            assert_eq!(
                marks(&rows, EventKind::FakeZero).len(),
                usize::from(third),
                "{name}"
            );
            seen += 1;
        }
        assert_eq!(seen, 26);
    }
}
