//! The hard cases of training logs: fifty things that logs do, and for each the tests that hold it.
//!
//! The table is checked: every case is in it, and every test that it names is in the sources.
//!
//! ```text
//! case  what the log does                                           held by
//!    1  Megatron leaves the loss out where it was NaN               megatron_with_a_restart, a_loss_that_vanished_was_nan_unless_all_was_skipped_or_no_row_has_one
//!    2  Megatron 0.17 prints a zero where all was skipped           a_zero_is_fake_only_if_all_was_skipped
//!    3  Megatron 0.16 counts the first row of a process twice       a_first_row_counts_twice_only_in_logs_that_show_it, times_of_a_second_row_are_those_of_an_iteration
//!    4  NAN, INF, nan, inf, -nan in every place                     spellings_of_what_is_no_number
//!    5  counters wider than their columns                           only_iteration_lines_have_a_header, counters_wider_than_their_columns
//!    6  three forms of time in one file                             an_upgrade_within_a_file_changes_times_and_units
//!    7  milliseconds here, seconds there                            an_upgrade_within_a_file_changes_times_and_units, a_new_name_and_a_new_unit_go_on_where_the_old_ones_end
//!    8  rows on the last rank, checkpoints on the first             saves_that_other_files_tell_join_the_attempts_of_the_rows
//!    9  a restart does steps again, samples go back too             megatron_with_a_restart
//!   10  a restart that no line tells                                a_step_that_goes_back_starts_an_attempt_and_nothing_is_lost, a_restart_that_no_line_tells
//!   11  data left out after a rollback                              data_left_out_after_a_rollback, every_line_gives_its_event
//!   12  a new run that starts at step 1 on purpose                  a_new_run_in_the_same_log_stands_on_nothing_of_the_old_one
//!   13  a batch size that ramps up                                  a_ramp_is_followed, samples_along_a_ramp_without_a_count
//!   14  two jobs append at the same time                            the_old_job_and_the_requeued_one_are_told_apart, two_jobs_in_one_log
//!   15  every rank prints the same line                             colours_ranks_validation_and_a_restart, several_ranks_that_print_one_step_are_one_row
//!   16  every rank prints a loss of its own                         losses_that_were_not_reduced_are_kept_one_by_one
//!   17  torn lines, two records on one, a record cut by a warning   torn_lines_keep_what_is_whole_and_infer_nothing, torn_lines_and_two_records_on_one
//!   18  progress bars glued to dictionaries                         steps_from_bars_and_a_character_that_was_cut
//!   19  quoted values, and epochs in place of steps                 quoted_values_of_the_newer_trainer, rows_that_were_held_back_are_placed_by_their_epochs
//!   20  a filter hides NaN: loss 0, gradient norm nan               a_zero_loss_beside_a_norm_that_is_no_number_stays
//!   21  trainer states with NaN, of branches, half written          hf_trainer_state, hf_trainer_state_that_is_cut, states_of_branches_are_joined_and_copies_dropped
//!   22  broken colours, and colours without their escape            colours_between_fields_go, colours_without_their_escape
//!   23  validation rows that look like training rows, stale ones    a_validation_row_is_no_training_row, means_and_stale_validation_losses
//!   24  N/A, thousands commas, widths                               fields_of_torchtitan_without_a_number
//!   25  three digits of every value                                 three_digits_make_no_incident, new_headers_ranks_and_a_restart
//!   26  suffixes of two ages, batches in samples or in tokens       old_headers_count_a_batch_in_samples, new_headers_ranks_and_a_restart
//!   27  blocks that another logger interrupts, a missing last one   blocks_of_the_core
//!   28  strings, bits, updates that do not advance, missing chunks  strings_in_json_and_losses_in_bits, means_cover_the_usual_interval_after_a_hole
//!   29  the console counts one more than the log of one trainer     console_and_log_of_one_trainer_meet, a_restart_a_skip_and_a_torn_line, three_kinds_of_record_share_a_step
//!   30  the program itself before the first record                  the_program_before_the_records_is_skipped
//!   31  a table with its header again, over samples                 a_header_again_is_a_restart
//!   32  overflows without a step, a count that goes back            a_pipeline_with_overflows_and_a_restart
//!   33  event files: starts, tails, tensors, twins, step 0          a_restart_without_a_start_record_keeps_both_branches, sessions_begin_attempts_and_save_checkpoints, damage_is_told_and_reading_goes_on, every_encoding_of_one_number
//!   34  clocks of hosts that differ                                 pieces_from_hosts_with_other_clocks, pieces_that_go_on_are_told_from_restarts_and_holes
//!   35  .wandb: nested keys, any order, blocks, no end              the_newer_sdk_with_a_step_metric_and_a_step_back, the_older_sdk_cut_in_its_third_row, partial_rows_and_rows_without_numbers, the_trainers_step_goes_before_the_counter
//!   36  exported charts: envelopes, several runs, dashes in names   quotes_and_words, an_exported_chart_of_several_runs
//!   37  Lightning: sparse rows, steps from 0, one file a process    a_sorted_header_is_lightning_s, lightning_writes_a_table_a_process
//!   38  NeMo averages samples and rates                             means_and_stale_validation_losses, every_step_keeps_its_samples
//!   39  Composer: rounded rates, hours, two counts                  blocks_evaluation_and_a_restart, hours_become_seconds, metrics_of_a_batch_are_a_row
//!   40  times without a year, a last step that is not printed       a_time_without_a_year_is_not_made_up
//!   41  sentinels: -1, -100 %, 0                                    what_was_not_measured_is_missing_and_what_was_stays, stages_of_a_pipeline_that_do_not_know_the_loss, padded_values_micro_batches_and_a_torn_line
//!   42  twins over samples, counts in single precision              the_axis_is_known_by_the_name, counts_in_single_precision_tell_no_base
//!   43  clocks that are set back within a log                       a_clock_that_is_set_back_parts_nothing
//!   44  rotated, packed, truncated in place, with holes of zeros    pieces_come_out_in_order_of_content, gzip_and_zstd_read_as_what_is_in_them, a_packed_log_that_is_cut_gives_what_is_there, zeros_where_a_log_was_truncated_in_place
//!   45  lines of megabytes, metrics of every layer                  ten_megabytes_on_one_line, a_line_past_all_measure_is_a_loss, a_record_with_every_layer_in_it
//!   46  the search for a loss scale at the start                    a_search_for_the_loss_scale_is_no_incident
//!   47  another world size after a restart                          another_world_size_is_no_incident
//!   48  a last row without a loss, rows missing in the middle       nulls_and_the_last_line_have_no_loss
//!   49  decimal commas, tabs, marks, 10.0, an index column          csv_with_decimal_commas, line_ends_and_marks_of_other_systems, an_index_and_steps_with_a_point
//!   50  one metric under two names                                  two_columns_for_one_signal_are_told, two_metrics_that_take_turns_stay_two
//! ```

#![allow(
    clippy::format_collect,
    clippy::format_push_string,
    reason = "logs of a test are short"
)]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use whyspike::data_order::DataOrder;
use whyspike::detect::detect;
use whyspike::run::{Began, EventKind, Run};

use crate::support::{Curve, Noise, read, read_all, root, shown, values};

/// Sources in which a test may stand.
fn sources(folder: &Path, out: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_case_is_held() {
    let rows = include_str!("cases.rs")
        .lines()
        .filter_map(|l| l.strip_prefix("//! "));
    let rows = rows
        .skip_while(|l| *l != "```text")
        .skip(2)
        .take_while(|l| *l != "```");
    let mut code = String::new();
    sources(&root().join("src"), &mut code);
    sources(&root().join("tests"), &mut code);
    let mut cases = Vec::new();
    for row in rows {
        let (case, rest) = row.trim_start().split_once("  ").expect("a number");
        let (_, tests) = rest.rsplit_once("  ").expect("tests");
        cases.push(case.parse::<u32>().expect("a number"));
        for test in tests.trim().split(", ") {
            let found = code.contains(&format!("#[test]\n    fn {test}("))
                || code.contains(&format!("#[test]\nfn {test}("));
            assert!(found, "case {case}: there is no test `{test}`");
        }
    }
    assert_eq!(cases, (1..=50).collect::<Vec<u32>>());
}

fn file(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn of(text: impl AsRef<[u8]>) -> Run {
    let folder = tempfile::tempdir().unwrap();
    read(file(&folder, "log", text))
}

fn steps_of(run: &Run, kind: EventKind) -> Vec<Option<u64>> {
    run.events
        .iter()
        .filter(|e| e.kind == kind)
        .map(|e| e.step)
        .collect()
}

/// 3
#[test]
fn times_of_a_second_row_are_those_of_an_iteration() {
    let row = |s: u64, at: u64, elapsed: f64, rate: f64| {
        format!(
            " [2026-03-01 12:00:0{at}.250001] iteration {s}/ 99 | elapsed time per iteration (ms): {elapsed} | throughput per GPU (TFLOP/s/GPU): {rate} | lm loss: 9.0E+00 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )
    };
    let run = of([
        row(1, 1, 1200.0, 400.0),
        row(2, 2, 600.0, 800.0),
        row(3, 3, 1200.0, 400.0),
    ]
    .concat());
    assert_eq!(shown(&run, "step_time"), "1.2 1.2 1.2");
    assert_eq!(shown(&run, "tflops_per_device"), "400 400 400");
}

/// 4
#[test]
fn spellings_of_what_is_no_number() {
    let run = of(
        " iteration 1/ 9 | learning rate: 1.000E-06 | lm loss: NAN | grad norm: 2.000 | number of nan iterations:   0 |\n \
                  iteration 2/ 9 | learning rate: NAN | lm loss: INF | grad norm: inf | number of nan iterations:   0 |\n \
                  iteration 3/ 9 | learning rate: 3.000E-06 | lm loss: 2.0E+00 | grad norm: -nan | number of nan iterations:   0 |\n",
    );
    assert_eq!(shown(&run, "loss"), "NaN inf 2");
    assert_eq!(shown(&run, "learning_rate"), "0.000001 NaN 0.000003");
    assert_eq!(shown(&run, "grad_norm"), "2 inf NaN");
    assert!(run.losses.is_empty() && steps_of(&run, EventKind::NanInferred).is_empty());
    let run = of(
        "{\"step\": 1, \"loss\": \"NaN\"}\n{\"step\": 2, \"loss\": -Infinity}\n{\"step\": 3, \"loss\": \"Infinity\"}\n",
    );
    assert_eq!(shown(&run, "loss"), "NaN -inf inf");
}

/// 5
#[test]
fn counters_wider_than_their_columns() {
    let run = of(
        " iteration 12345678/123456789 | consumed samples: 1234567890123 | lm loss: 2.0E+00 |\n iteration 12345679/ 123456789 | consumed samples: 1234567890223 | lm loss: 1.0E+00 |\n",
    );
    assert_eq!(run.steps, [12_345_678, 12_345_679]);
    assert_eq!(
        shown(&run, "consumed_samples"),
        "1234567890123 1234567890223"
    );
}

/// 6, 7
#[test]
fn an_upgrade_within_a_file_changes_times_and_units() {
    let row = |stamp: &str, s: u64, elapsed: &str| {
        format!(
            "{stamp} iteration {s}/ 99 | elapsed time per iteration {elapsed} | lm loss: 9.0E+00 |\n"
        )
    };
    let run = of([
        row("", 10, "(s): 1.23"),
        row(" [2026-03-01 12:00:00]", 20, "(ms): 1230.0"),
        row(" [2026-03-01 12:00:01.250000]", 30, "(ms): 1240.0"),
    ]
    .concat());
    assert_eq!(shown(&run, "time"), "- 1772366400000 1772366401250");
    let times = values(&run, "step_time");
    let near = |at: usize, t: f64| times[at].is_some_and(|v| (v - t).abs() < 1e-12);
    assert!(near(0, 1.23) && near(1, 1.23) && near(2, 1.24), "{times:?}");
    assert!(run.losses.is_empty(), "{:?}", run.losses);
}

/// 10
#[test]
fn a_restart_that_no_line_tells() {
    let row = |s: u64| {
        format!(
            " iteration {s}/ 9999 | consumed samples: {} | lm loss: 2.0E+00 |\n",
            8 * s
        )
    };
    let run = of([1480, 1490, 1500, 1010, 1020].map(row).concat());
    assert_eq!(
        run.attempts[1].began,
        Began::StepWentBack {
            from: 1500,
            to: 1010
        }
    );
    assert_eq!(
        shown(&run, "consumed_samples"),
        "11840 11920 12000 8080 8160"
    );
}

/// 11: no line at all for what was left out; the counters jump.
#[test]
fn data_left_out_after_a_rollback() {
    let row = |s: u64, samples: u64| {
        format!(" iteration {s}/ 9999 | consumed samples: {samples} | lm loss: 2.0E+00 |\n")
    };
    let run = of([
        row(10, 80),
        row(11, 88),
        " loading checkpoint from /c at iteration 10\n".to_owned(),
        "Skipped iterations 11 to 15 due to --skip-train-iteration-range flag.\n".to_owned(),
        row(16, 128),
        row(17, 136),
    ]
    .concat());
    assert_eq!((run.len(), run.attempts.len()), (4, 2));
    assert_eq!(steps_of(&run, EventKind::DataSkipped), [Some(11)]);
    let order = DataOrder::of(&run, &run.attempts[1]).expect("samples are counted");
    assert_eq!(order.samples_of(17, 17), Some((128, 136)));
    // metaseq leaves data out without moving the step.
    let run = of(
        "| INFO | train_inner | {\"epoch\": 1, \"loss\": \"3\", \"num_updates\": \"10\"}\n\
                  Skipping batches starting from step 11 with 2 batches left to skip\n\
                  Skipping batches starting from step 11 with 1 batches left to skip\n\
                  | INFO | train_inner | {\"epoch\": 1, \"loss\": \"3\", \"num_updates\": \"11\"}\n",
    );
    assert_eq!(
        (run.steps.as_slice(), run.attempts.len()),
        ([10, 11].as_slice(), 1)
    );
    assert_eq!(steps_of(&run, EventKind::DataSkipped), [Some(11); 2]);
}

/// 12
#[test]
fn a_new_run_in_the_same_log_stands_on_nothing_of_the_old_one() {
    let mut noise = Noise::new(12);
    let mut run_of =
        |level: f64| Curve::of_loss((0..400).map(|_| level * (1.0 + 0.01 * noise.normal())));
    let (old, new) = (run_of(2.0), run_of(6.0));
    let run = old.then(&new).run();
    assert_eq!(run.attempts.len(), 2);
    assert_eq!(
        run.superseded_from(0),
        Some(1),
        "every step of the old run is done again"
    );
    let found: Vec<u64> = detect(&run)
        .iter()
        .map(|i| run.steps[i.onset_row])
        .collect();
    assert!(
        found.is_empty(),
        "a loss that begins higher is no spike: {found:?}"
    );
}

/// 13
#[test]
fn samples_along_a_ramp_without_a_count() {
    let row = |s: u64, batch: u64| {
        format!(
            " iteration {s}/ 99 | global batch size: {batch:>5} | lm loss: 2.0E+00 | actual seqlen: {:>5} |\n",
            64 * batch
        )
    };
    let run = of([row(1, 16), row(2, 16), row(3, 32), row(4, 48)].concat());
    let order = DataOrder::of(&run, &run.attempts[0]).expect("batches are known");
    assert_eq!(
        [1, 2, 3, 4].map(|u| order.samples_of(u, u)),
        [
            Some((0, 16)),
            Some((16, 32)),
            Some((32, 64)),
            Some((64, 112))
        ]
    );
    assert_eq!(shown(&run, "actual seqlen"), "1024 1024 2048 3072");
}

/// 14
#[test]
fn two_jobs_in_one_log() {
    let row = |stamp: &str, s: u64, loss: f64| {
        format!(" [2026-03-01 {stamp}] iteration {s}/ 9999 | lm loss: {loss:.6E} |\n")
    };
    let old = |n: u64| row(&format!("13:00:{n:02}"), 1500 + 10 * n, 2.0);
    let new = |n: u64| row(&format!("12:00:{n:02}"), 1000 + 10 * n, 3.0);
    let mut text = row("12:59:50", 1490, 2.0) + &old(0);
    for n in 1..=5 {
        text += &(new(n) + &old(n));
    }
    text += &(6..=9).map(new).collect::<String>();
    let run = of(text);
    assert_eq!(run.attempts.len(), 2);
    let steps = |at: usize| run.steps[run.attempts[at].rows.clone()].to_vec();
    assert_eq!(steps(0), [1490, 1500, 1510, 1520, 1530, 1540, 1550]);
    assert_eq!(
        steps(1),
        (1..=9).map(|n| 1000 + 10 * n).collect::<Vec<u64>>()
    );
    let loss = values(&run, "loss");
    assert!(loss[..7].iter().all(|v| *v == Some(2.0)) && loss[7..].iter().all(|v| *v == Some(3.0)));
    assert_eq!(run.losses.len(), 1, "{:?}", run.losses);
}

/// 19
#[test]
fn quoted_values_of_the_newer_trainer() {
    let run = of(
        "{'loss': '2.049', 'grad_norm': 'nan', 'learning_rate': '1.96e-05', 'epoch': '0.28', 'global_step/max_steps': '10/100'}\n\
                  {'loss': '1.5', 'grad_norm': 'inf', 'learning_rate': '1e-05', 'epoch': '0.56', 'global_step/max_steps': '20/100'}\n",
    );
    assert_eq!(run.steps, [10, 20]);
    assert_eq!(shown(&run, "loss"), "2.049 1.5");
    assert_eq!(shown(&run, "grad_norm"), "NaN inf");
    assert_eq!(shown(&run, "epoch"), "0.28 0.56");
}

/// 20
#[test]
fn a_zero_loss_beside_a_norm_that_is_no_number_stays() {
    let text = "{\"log_history\": [{\"loss\": 2.5, \"grad_norm\": 1.0, \"step\": 10}, {\"loss\": 0.0, \"grad_norm\": NaN, \"step\": 20}]}";
    let run = of(text);
    assert_eq!(
        (shown(&run, "loss"), shown(&run, "grad_norm")),
        ("2.5 0".to_owned(), "1 NaN".to_owned())
    );
    assert!(run.events.is_empty() && run.losses.is_empty());
}

/// 21
#[test]
fn states_of_branches_are_joined_and_copies_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let state = |rows: &[(u64, f64)]| {
        let entries: Vec<String> = rows
            .iter()
            .map(|(s, l)| format!("{{\"loss\": {l}, \"step\": {s}}}"))
            .collect();
        format!("{{\"log_history\": [{}]}}", entries.join(", "))
    };
    // Checkpoint 10 is part of both others; 30 is of the branch that was given up at 20.
    for (name, rows) in [
        ("checkpoint-10", &[(10, 4.0)][..]),
        ("checkpoint-30", &[(10, 4.0), (20, 3.5), (30, 9.0)]),
        (
            "checkpoint-40",
            &[(10, 4.0), (20, 3.5), (30, 3.25), (40, 3.0)],
        ),
    ] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(
            folder.path().join(name).join("trainer_state.json"),
            state(rows),
        )
        .unwrap();
    }
    let run = read(folder.path());
    let losses = values(&run, "loss");
    assert!(
        losses.contains(&Some(9.0)),
        "the branch is kept: {losses:?}"
    );
    let last = run.attempts.last().expect("an attempt").rows.clone();
    assert_eq!(run.steps[last.clone()], [10, 20, 30, 40]);
    assert_eq!(losses[last], [4.0, 3.5, 3.25, 3.0].map(Some));
    assert_eq!(run.len(), 7, "the copy adds nothing");
}

/// 24
#[test]
fn fields_of_torchtitan_without_a_number() {
    let run = of(
        "step:  1  loss: 12.24731  grad_norm:  4.1250  memory: 47.50GiB(50.01%)  tps: 7,322  tflops: 1,424.31  mfu: N/A\n\
                  step: 1000  loss:  2.24731  grad_norm:  1.1250  memory: 47.50GiB(50.01%)  tps: 17,322  tflops: 424.31  mfu: 14.39%\n",
    );
    assert_eq!(run.steps, [1, 1000]);
    assert_eq!(shown(&run, "tokens_per_second_per_device"), "7322 17322");
    assert_eq!(shown(&run, "tflops_per_device"), "1424.31 424.31");
    assert_eq!(shown(&run, "mfu"), "- 14.39");
    assert!(run.losses.is_empty());
}

/// 25
#[test]
fn three_digits_make_no_incident() {
    let mut noise = Noise::new(25);
    let row = |s: u64, loss: f64| {
        format!(
            "iteration: {s} / 900 | consumed_tokens: 1M | lm_loss: {loss:.3} | lr: 0.0003 | grad_norm: 0.412\n"
        )
    };
    let text: String = (1..=900)
        .map(|s| {
            row(
                s,
                ((2.4 - 1e-5 * s as f64 + 0.004 * noise.normal()) * 100.0).round() / 100.0,
            )
        })
        .collect();
    let run = of(text);
    assert_eq!((run.len(), &*run.meta.facts["loss_digits"]), (900, "3"));
    let distinct: std::collections::BTreeSet<u64> = values(&run, "loss")
        .into_iter()
        .flatten()
        .map(f64::to_bits)
        .collect();
    assert!(
        distinct.len() < 8,
        "the loss has few values: {}",
        distinct.len()
    );
    assert!(detect(&run).is_empty());
}

/// 29
#[test]
fn console_and_log_of_one_trainer_meet() {
    let folder = tempfile::tempdir().unwrap();
    let line = |s: u64, loss: f64| {
        format!(
            "step {s:4}/99 | loss {loss:.6} (+nanz)| norm 1.5000 (+nanz)| lr 8.57e-07 | 3000.00 ms | 42.6% bf16 MFU | 171541 tok/s\n"
        )
    };
    file(
        &folder,
        "console.log",
        [line(1, 11.0), line(2, 10.5), line(3, 10.0)].concat(),
    );
    file(
        &folder,
        "main.log",
        "s:0 tel:11.0100\ns:0 trl:11.0000\ns:1 trl:10.5000\ns:2 eval:0.2500\ns:2 trl:10.0000\n",
    );
    let run = read(folder.path());
    assert_eq!((run.meta.format.as_str(), run.meta.step_base), ("llm.c", 1));
    assert_eq!(run.steps, [1, 2, 3]);
    assert_eq!(
        shown(&run, "hellaswag_accuracy"),
        "- - 0.25",
        "step 2 of the log is step 3 of the console"
    );
    assert_eq!(shown(&run, "val_loss"), "11.01 - -");
}

/// 31
#[test]
fn a_header_again_is_a_restart() {
    let run = of(
        "step,train_loss\r\n512,3.5\r\n1024,nan\r\n1536,3.0\r\nstep,train_loss\r\n1024,3.25\r\n1536,2.75\r\n2048,2.5\r\n",
    );
    assert_eq!(run.steps, [512, 1024, 1536, 1024, 1536, 2048]);
    assert_eq!(shown(&run, "loss"), "3.5 NaN 3 3.25 2.75 2.5");
    assert_eq!(
        (run.attempts.len(), &run.attempts[1].began),
        (2, &Began::ProcessStart)
    );
    assert!(run.losses.is_empty());
}

/// 34: the second host's clock is an hour behind.
#[test]
fn pieces_from_hosts_with_other_clocks() {
    let folder = tempfile::tempdir().unwrap();
    let row = |s: u64, t: u64| {
        format!(
            "{{\"step\": {s}, \"timestamp\": {t}, \"loss\": {}}}\n",
            10 - s
        )
    };
    let first: String = (1..=3).map(|s| row(s, 1_772_366_400 + s)).collect();
    let second: String = (4..=6).map(|s| row(s, 1_772_362_800 + s)).collect();
    let paths = [file(&folder, "b", second), file(&folder, "a", first)];
    let run = read_all(&paths).unwrap();
    assert_eq!(
        (run.steps.as_slice(), run.attempts.len()),
        ([1, 2, 3, 4, 5, 6].as_slice(), 1)
    );
}

/// 36
#[test]
fn an_exported_chart_of_several_runs() {
    let run = of(
        "\"Step\",\"a - lr 3e-4 - train/loss\",\"a - lr 3e-4 - train/loss__MIN\",\"a - lr 3e-4 - train/loss__MAX\",\"b - train/loss\",\"b - train/loss__MIN\",\"b - train/loss__MAX\"\n\
                  \"0\",\"4.5\",\"4.5\",\"4.5\",\"4.25\",\"4.25\",\"4.25\"\n\"10\",\"NaN\",\"NaN\",\"NaN\",\"\",\"\",\"\"\n\"20\",\"3.5\",\"3.25\",\"3.75\",\"3.0\",\"3.0\",\"3.0\"\n",
    );
    assert_eq!(run.steps, [0, 10, 20]);
    assert_eq!(shown(&run, "loss"), "4.5 NaN 3.5");
    assert_eq!(shown(&run, "loss (b - train/loss)"), "4.25 - 3");
    assert_eq!(run.columns().count(), 2);
    assert_eq!(
        run.losses.len(),
        1,
        "the second run is told: {:?}",
        run.losses
    );
}

/// 37
#[test]
fn lightning_writes_a_table_a_process() {
    let run = read(crate::support::fixture("logs/lightning"));
    assert_eq!(
        (run.meta.format.as_str(), run.meta.step_base),
        ("lightning-csv", 0)
    );
    assert_eq!(run.attempts.len(), 2);
    assert_eq!(run.steps[..2], [49, 99]);
    assert_eq!(
        run.value("val_loss", 1),
        Some(2.25),
        "in a row of its own at the same step"
    );
}

/// 39
#[test]
fn hours_become_seconds() {
    let run = of(
        "[metric][batch=0]: time/total: 0.5 \n[metric][batch=0]: loss/train/total: 9.5 \n[metric][batch=1]: time/total: 0.75 \n[metric][batch=1]: loss/train/total: 9.0 \n",
    );
    assert_eq!(shown(&run, "elapsed_seconds"), "1800 2700");
    let run = of("{\"step\": 1, \"time/total\": 0.5, \"loss/train/total\": 2.0}\n");
    assert_eq!(shown(&run, "elapsed_seconds"), "1800");
}

/// 40: a step is printed with the next one, so that the step of the abort never is.
#[test]
fn a_time_without_a_year_is_not_made_up() {
    let run = of(
        "I0301 12:00:00.948187 140110937163584 metric_logger.py:196] completed step: 0, seconds: 1.234, TFLOP/s/device: 210.123, loss: 8.123\n\
                  I0301 12:00:01.948187 140110937163584 metric_logger.py:196] completed step: 1, seconds: 1.234, TFLOP/s/device: 210.123, loss: 7.500\n\
                  Aborting training due to NaN loss.\n",
    );
    assert_eq!(
        (run.steps.as_slice(), run.meta.step_base),
        ([0, 1].as_slice(), 0)
    );
    assert!(run.column("time").is_none());
    assert_eq!(steps_of(&run, EventKind::Exit), [None]);
    let run = of(
        "03/01 12:00:00 [INFO|DP=0|PP=3|TP=0|n]: iteration: 1 / 9 | consumed_tokens: 1M | lm_loss: 3.21 | lr: 0.1\n",
    );
    assert!(run.column("time").is_none());
}

/// 42: above 2^24 a float loses ones. A count that is rounded must not pass for a step more or less.
#[test]
fn counts_in_single_precision_tell_no_base() {
    for base in [0_u64, 1] {
        let samples = |s: u64| f64::from(((s + 1 - base) * 20_011) as f32);
        let rows: String = (850..860)
            .map(|s| {
                format!(
                    "{{\"step\": {s}, \"consumed samples\": {}, \"loss\": 2.0}}\n",
                    samples(s)
                )
            })
            .collect();
        let run = of(rows);
        assert!(
            run.meta.step_base == base || !run.meta.base_known,
            "{base}: {:?}",
            run.meta.step_base
        );
    }
}

/// 43
#[test]
fn a_clock_that_is_set_back_parts_nothing() {
    let row =
        |s: u64, t: &str| format!(" [2026-10-25 {t}] iteration {s}/ 99 | lm loss: 2.0E+00 |\n");
    let run = of([
        row(1, "02:58:00"),
        row(2, "02:59:30"),
        row(3, "02:01:00"),
        row(4, "02:02:30"),
    ]
    .concat());
    assert_eq!(
        (run.steps.as_slice(), run.attempts.len()),
        ([1, 2, 3, 4].as_slice(), 1)
    );
    let times = values(&run, "time");
    assert!(times[2] < times[1], "times are as they were printed");
}

/// 44: what a rotation by copying and truncating, or a sparse write over the network, leaves.
#[test]
fn zeros_where_a_log_was_truncated_in_place() {
    let row = |s: u64| format!("{{\"step\": {s}, \"loss\": 2.0}}\n").into_bytes();
    let zeros = vec![0_u8; 70_000];
    let run = of([row(1), zeros.clone(), row(2), row(3), zeros.clone()].concat());
    assert_eq!(run.steps, [1, 2, 3]);
    assert_eq!(run.losses.len(), 2, "{:?}", run.losses);
    let run = of([zeros, b"ep 4: the end of a line\n".to_vec(), row(5), row(6)].concat());
    assert_eq!(run.steps, [5, 6]);
    let line = |s: u64| format!(" iteration {s}/ 9 | lm loss: 2.0E+00 |\n").into_bytes();
    let run = of([line(1), vec![0; 300], line(2), line(3)].concat());
    assert_eq!(run.steps, [1, 2, 3]);
}

/// 45: a line of metaseq with the norms of every parameter is longer than 30 kB.
#[test]
fn a_record_with_every_layer_in_it() {
    let layers: String = (0..800)
        .map(|n| format!(", \"gnorm_decoder.layers.{n}.fc1.weight\": \"0.{n:03}\", \"pnorm_decoder.layers.{n}.fc1.weight\": \"{n}\""))
        .collect();
    let line = |s: u64| {
        format!(
            "2026-03-01 12:00:00 | INFO | train_inner | {{\"epoch\": 1, \"loss\": \"3\", \"num_updates\": \"{s}\", \"gnorm\": \"1.5\"{layers}}}\n"
        )
    };
    assert!(line(1).len() > 60_000);
    let run = of([line(1), line(2)].concat());
    assert_eq!(run.family("grad_norm").count(), 800);
    assert_eq!(
        run.value("param_norm/decoder.layers.799.fc1.weight", 1),
        Some(799.0)
    );
    assert_eq!(shown(&run, "grad_norm"), "1.5 1.5");
    assert!(run.losses.is_empty());
}

/// 46
#[test]
fn a_search_for_the_loss_scale_is_no_incident() {
    let mut noise = Noise::new(46);
    let mut text = String::new();
    for s in 1..=15_u64 {
        let scale = 2_f64.powi(33 - s as i32);
        text += &format!(
            " iteration {s}/ 999 | consumed samples: {} | learning rate: 0.000E+00 | loss scale: {scale:.1} | number of skipped iterations:   1 | number of nan iterations:   0 |\n",
            8 * s
        );
    }
    for s in 16..=600_u64 {
        let level = 2.5 + 8.0 * (-(s as f64) / 40.0).exp();
        let loss = level * (1.0 + 0.01 * noise.normal());
        text += &format!(
            " iteration {s}/ 999 | consumed samples: {} | learning rate: 1.000E-04 | lm loss: {loss:.6E} | loss scale: 131072.0 | grad norm: 1.5 | number of skipped iterations:   0 | number of nan iterations:   0 |\n",
            8 * s
        );
    }
    let run = of(text);
    assert_eq!(steps_of(&run, EventKind::Overflow).len(), 15);
    assert!(
        values(&run, "loss")[..15].iter().all(Option::is_none),
        "no loss stands behind a skipped update"
    );
    let found: Vec<_> = detect(&run)
        .iter()
        .map(|i| (run.steps[i.onset_row], i.kind))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

/// 47
#[test]
fn another_world_size_is_no_incident() {
    let mut noise = Noise::new(47);
    let mut text = String::new();
    for (from, to, tps) in [(1, 500, 8000.0), (401, 900, 4000.0)] {
        for s in from..=to {
            let loss = 2.5 * (1.0 + 0.01 * noise.normal());
            text += &format!(
                "{{\"step\": {s}, \"loss\": {loss}, \"grad_norm\": {}, \"tps\": {}}}\n",
                0.5 * (1.0 + 0.05 * noise.normal()),
                tps * (1.0 + 0.01 * noise.normal())
            );
        }
    }
    let run = of(text);
    assert_eq!(run.attempts.len(), 2);
    assert!(detect(&run).is_empty());
    let rate = values(&run, "tokens_per_second_per_device");
    assert!(rate[0] > Some(7000.0) && rate[900] < Some(5000.0));
}

/// 49
#[test]
fn an_index_and_steps_with_a_point() {
    let run = of(",step,loss\n0,10.0,4.5\n1,20.0,\n2,30.0,inf\n");
    assert_eq!(
        (run.steps.as_slice(), shown(&run, "loss").as_str()),
        ([10, 20, 30].as_slice(), "4.5 - inf")
    );
    assert_eq!(run.columns().count(), 1, "an index is no metric");
}
