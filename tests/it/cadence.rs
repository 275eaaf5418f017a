//! `cadence` with a run: how dense its checkpoints were where one was needed.

use crate::cli::{BAD_DATA, fails, stdout};

const COSTS: [&str; 6] = ["--save-time", "40s", "--mtbf", "3.1h", "--step-time", "12s"];

fn cadence(args: &[&str]) -> String {
    stdout(&[&["cadence"], &COSTS[..], args].concat())
}

#[test]
fn the_checkpoint_that_there_was_is_held_against_the_one_that_was_needed() {
    let text = cadence(&[BAD_DATA, "--checkpoint-steps", "100,300,500,550,700"]);
    for part in [
        "for this run: 5 checkpoints are known, 175 steps apart",
        // Step 529 of a log that counts from 0 is update 530: 529 were done before it.
        "at 529     newest clean checkpoint 500, 29 steps before it; any before it is old enough: 29 steps (5 min 48 s) again",
        "1 saved within 5 memories after it carry it",
        "in all     29 steps (5 min 48 s) again because of the spacing",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let log = "fixtures/runs/optimizer-state/log.jsonl.gz";
    let text = cadence(&[log, "--checkpoint-steps", "100,300,550"]);
    assert!(
        text.contains("61 steps of margin are asked for: 240 steps (48 min) again"),
        "{text}"
    );
    let text = cadence(&[log, "--checkpoint-steps", "550"]);
    assert!(
        text.contains("checkpoint 550, 51 steps before it") && text.contains("none is as old"),
        "{text}"
    );
}

#[test]
fn without_a_need_or_a_checkpoint_it_says_so() {
    let healthy = cadence(&[
        "fixtures/runs/healthy/log.jsonl.gz",
        "--checkpoint-every",
        "100",
    ]);
    assert!(
        healthy.contains("nothing had to be gone back to"),
        "{healthy}"
    );
    let unknown = cadence(&[BAD_DATA]);
    assert!(
        unknown.contains("no checkpoint is known")
            && unknown.contains("no clean checkpoint before it"),
        "{unknown}"
    );
    assert!(!cadence(&[]).contains("for this run"));
    let mut args = vec!["cadence", "--checkpoint-every", "100"];
    args.extend(COSTS);
    assert!(fails(&args).contains("give its log"));
}

#[test]
fn the_time_of_a_step_may_come_from_the_log() {
    let text = stdout(&["cadence", BAD_DATA, "--save-time", "40s", "--mtbf", "3.1h"]);
    assert!(text.contains("together: save every "), "{text}");
}
