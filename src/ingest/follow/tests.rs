//! Logs that grow, rotate, are cut, or are no text.

use std::fs::{self, OpenOptions};
use std::io::Write;

use super::*;

fn line(step: u64, loss: f64) -> String {
    format!("{{\"step\": {step}, \"loss\": {loss:.4}, \"grad_norm\": 1.0}}\n")
}

fn lines(steps: std::ops::Range<u64>) -> String {
    steps.map(|s| line(s, 2.0)).collect()
}

fn add(path: &Path, text: &str) {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut f| f.write_all(text.as_bytes()))
        .expect("written");
}

fn follower<'a>(path: &Path, aliases: &'a Aliases) -> Follower<'a> {
    Follower::new(path, aliases, Options::default(), &Last::default()).expect("follows")
}

/// Polls until nothing is new; the notes on the way.
fn drain(f: &mut Follower<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    loop {
        let poll = f.poll().expect("readable");
        notes.extend(poll.notes);
        if !poll.grew && !poll.more {
            return notes;
        }
    }
}

fn steps(f: &mut Follower<'_>) -> Vec<u64> {
    f.run().map_or(Vec::new(), |(run, _)| run.steps)
}

#[test]
fn a_log_that_does_not_exist_yet_is_waited_for_and_lines_count_once_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("late/log.jsonl");
    let aliases = Aliases::built_in();
    let mut f = follower(&log, &aliases);
    assert!(drain(&mut f).is_empty() && f.run().is_none());
    fs::create_dir(folder.path().join("late")).expect("a folder");
    add(&log, "");
    assert!(!f.poll().expect("readable").grew);
    let text = lines(0..30);
    for byte in text.as_bytes().chunks(7) {
        add(&log, std::str::from_utf8(byte).expect("ASCII"));
        f.poll().expect("readable");
        let seen = steps(&mut f);
        let whole = fs::read_to_string(&log)
            .expect("there")
            .matches('\n')
            .count();
        assert_eq!(seen, (0..whole as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_rotated_log_is_read_to_its_end_and_then_its_successor() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("train.log");
    let aliases = Aliases::built_in();
    let mut f = follower(&log, &aliases);
    add(&log, &lines(0..20));
    drain(&mut f);
    // The last line has no end: the file will not grow any more.
    add(&log, lines(20..23).trim_end());
    fs::rename(&log, folder.path().join("train.log.1")).expect("moved");
    assert!(drain(&mut f).is_empty(), "the successor is not there yet");
    add(&log, &lines(23..25));
    assert_eq!(drain(&mut f), ["another file took the place of the log"]);
    assert_eq!(steps(&mut f), (0..25).collect::<Vec<_>>());
}

#[test]
fn a_follower_that_starts_after_a_rotation_reads_the_rest_of_the_file_it_knew() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("train.log");
    let aliases = Aliases::built_in();
    add(&log, &lines(0..20));
    let mut before = follower(&log, &aliases);
    drain(&mut before);
    before.run();
    let known = Last {
        mark: before.mark(),
        place: Some((0, 19)),
    };
    add(&log, &lines(20..30));
    fs::rename(&log, folder.path().join("train.log.1")).expect("moved");
    add(&log, &lines(30..40));
    let mut after = Follower::new(&log, &aliases, Options::default(), &known).expect("follows");
    drain(&mut after);
    assert_eq!(steps(&mut after), (0..40).collect::<Vec<_>>());
}

/// Where a follower of a log ends that has read all of it.
fn last_of(log: &Path) -> Last {
    let aliases = Aliases::built_in();
    let mut f = follower(log, &aliases);
    drain(&mut f);
    let (run, before) = f.run().expect("rows");
    let attempts = before.attempts as usize + run.attempts.len();
    Last {
        mark: f.mark(),
        place: Some((attempts as u32 - 1, run.steps[run.len() - 1])),
    }
}

fn pack(from: &Path, to: &Path) {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed
        .write_all(&fs::read(from).expect("there"))
        .expect("packed");
    fs::write(to, packed.finish().expect("packed")).expect("written");
    fs::remove_file(from).expect("gone");
}

#[test]
fn what_was_rotated_away_meanwhile_is_read_first_however_often_copied_or_packed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (log, aliases) = (path("train.log"), Aliases::built_in());
    add(&log, &lines(0..20));
    let last = last_of(&log);
    // Copied and cut, packed, and rotated twice more.
    add(&log, &lines(20..30));
    fs::copy(&log, path("a")).expect("copied");
    pack(&path("a"), &path("train.log.3.gz"));
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(path("train.log.2"), lines(30..40)).expect("written");
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(path("train.log.1"), lines(40..50)).expect("written");
    fs::write(path("train.log.err"), lines(900..990)).expect("written");
    fs::write(&log, lines(50..60)).expect("written");
    let mut after = Follower::new(&log, &aliases, Options::default(), &last).expect("follows");
    drain(&mut after);
    assert_eq!(steps(&mut after), (0..60).collect::<Vec<_>>());
}

#[test]
fn attempts_are_counted_on_in_a_file_that_another_follower_began() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, aliases) = (folder.path().join("train.log"), Aliases::built_in());
    add(&log, &[lines(0..20), lines(10..30), lines(15..40)].concat());
    let last = last_of(&log);
    let attempt = |log: &Path, last: &Last| {
        let mut f = Follower::new(log, &aliases, Options::default(), last).expect("follows");
        drain(&mut f);
        let (run, before) = f.run().expect("rows");
        let attempts = before.attempts + u32::try_from(run.attempts.len()).expect("few");
        let mark = f.mark();
        let place = Some((attempts - 1, run.steps[run.len() - 1]));
        (attempts - 1, Last { mark, place })
    };
    assert_eq!(attempt(&log, &last).0, 2, "the same file");
    // What went before is gone: the run goes on, or goes back.
    fs::write(&log, lines(40..60)).expect("written");
    let (number, on) = attempt(&log, &last);
    assert_eq!(number, 2);
    add(&log, &lines(60..70));
    assert_eq!(attempt(&log, &on).0, 2, "the second file is known too");
    fs::write(&log, lines(5..200)).expect("written");
    let (number, back) = attempt(&log, &on);
    assert_eq!(number, 3);
    assert_eq!(attempt(&log, &back).0, 3);
    // A follower that saw the file begin notes the same as one that starts with it.
    let mut live = follower(&log, &aliases);
    drain(&mut live);
    live.run();
    fs::rename(&log, folder.path().join("train.log.1")).expect("moved");
    add(&log, &lines(100..120));
    drain(&mut live);
    live.run();
    let mark = live.mark();
    assert_eq!(mark.as_ref().and_then(|m| m.after), Some((1, 0)));
    let last = Last {
        mark,
        place: Some((1, 119)),
    };
    fs::remove_file(folder.path().join("train.log.1")).expect("gone");
    assert_eq!(attempt(&log, &last).0, 1);
}

#[test]
fn a_file_of_which_nothing_was_read_leaves_the_mark_of_the_one_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, aliases) = (folder.path().join("train.log"), Aliases::built_in());
    let mut f = follower(&log, &aliases);
    add(&log, &lines(0..20));
    drain(&mut f);
    fs::rename(&log, folder.path().join("train.log.1")).expect("moved");
    add(&log, "");
    assert_eq!(drain(&mut f).len(), 1);
    let last = Last {
        mark: f.mark(),
        place: Some((0, 19)),
    };
    add(&log, &lines(20..30));
    let mut after = Follower::new(&log, &aliases, Options::default(), &last).expect("follows");
    drain(&mut after);
    assert_eq!(steps(&mut after), (0..30).collect::<Vec<_>>());
}

#[test]
fn rows_between_the_last_look_and_a_cut_are_read_from_the_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, aliases) = (folder.path().join("train.log"), Aliases::built_in());
    let mut f = follower(&log, &aliases);
    add(&log, &lines(0..20));
    drain(&mut f);
    add(&log, &lines(20..30));
    fs::copy(&log, folder.path().join("train.log.1")).expect("copied");
    fs::write(&log, lines(30..35)).expect("cut");
    assert_eq!(drain(&mut f).len(), 1);
    assert_eq!(steps(&mut f), (0..35).collect::<Vec<_>>());
}

#[test]
fn a_log_that_is_cut_begins_anew_whether_it_is_shorter_or_has_grown_past_its_old_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log.jsonl");
    let aliases = Aliases::built_in();
    let mut f = follower(&log, &aliases);
    add(&log, &lines(0..20));
    drain(&mut f);
    fs::write(&log, lines(10..15)).expect("written");
    assert_eq!(drain(&mut f), ["the log was cut and begins anew"]);
    let (run, _) = f.run().expect("rows");
    assert_eq!((run.len(), run.attempts.len()), (25, 2));
    // Past its old end, with the same start.
    let again = lines(10..11) + &(0..199).map(|s| line(s, 3.0)).collect::<String>();
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(&log, again).expect("written");
    assert_eq!(drain(&mut f), ["the log was cut and begins anew"]);
    assert_eq!(f.run().expect("rows").0.len(), 225);
}

#[test]
fn what_the_trainer_prints_first_does_not_fix_the_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("out.log");
    let aliases = Aliases::built_in();
    let mut f = follower(&log, &aliases);
    add(
        &log,
        &"NCCL INFO comm 0x1, rank 0, nranks 8\n".repeat(20_000),
    );
    add(&log, &lines(1..4));
    drain(&mut f);
    assert_eq!(steps(&mut f), [1, 2, 3]);
    let losses = f.run().expect("rows").0.losses;
    assert!(losses.is_empty(), "{losses:?}");
}

#[test]
fn old_rows_go_and_the_attempts_before_them_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log.jsonl");
    let aliases = Aliases::built_in();
    let mut f = follower(&log, &aliases);
    let (mut attempts, mut most) = (0, 0);
    for _ in 0..12 {
        add(&log, &lines(0..20_000));
        while f.poll().expect("readable").grew {
            let (run, before) = f.run().expect("rows");
            attempts = before.attempts as usize + run.attempts.len();
            most = most.max(run.len());
        }
    }
    assert_eq!(attempts, 12);
    assert!(most < 2 * KEPT_ROWS + 60_000, "{most}");
    let (run, _) = f.run().expect("rows");
    assert_eq!((run.meta.step_base, run.meta.base_known), (0, true));
    assert_eq!(run.steps.last(), Some(&19_999));
}

#[test]
fn what_cannot_be_read_is_an_error_at_every_look_and_no_end_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log.jsonl");
    let aliases = Aliases::built_in();
    let mut f = follower(&log, &aliases);
    assert!(drain(&mut f).is_empty());
    fs::create_dir(&log).expect("a folder in its place");
    assert!(f.poll().is_err() && f.poll().is_err());
    fs::remove_dir(&log).expect("gone");
    add(&log, &lines(0..10));
    drain(&mut f);
    assert_eq!(steps(&mut f).len(), 10);
}

#[test]
fn a_packed_log_is_read_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log.jsonl.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(lines(0..10).as_bytes()).expect("packed");
    fs::write(&log, packed.finish().expect("packed")).expect("written");
    let aliases = Aliases::built_in();
    let mut f = follower(&log, &aliases);
    drain(&mut f);
    assert!(f.reads_anew() && steps(&mut f).len() == 10);
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, lines(0..10)).expect("written")
    });
    let aliases = Aliases::built_in();
    let mut f = follower(&pipe, &aliases);
    writer.join().expect("written");
    while !f.poll().expect("readable").ended {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(steps(&mut f).len(), 10);
}

#[test]
fn what_is_no_text_and_folders_are_read_anew_when_they_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("trainer_state.json");
    let aliases = Aliases::built_in();
    let entry = |s: u64| {
        format!("{{\"step\": {s}, \"loss\": 2.5, \"learning_rate\": 0.001, \"epoch\": 0.1}}")
    };
    let text = |n: u64| {
        let all: Vec<String> = (1..=n).map(entry).collect();
        format!(
            "{{\"global_step\": {n}, \"log_history\": [{}]}}",
            all.join(",")
        )
    };
    fs::write(&state, text(3)).expect("written");
    for path in [state.as_path(), folder.path()] {
        fs::write(&state, text(3)).expect("written");
        let mut f = follower(path, &aliases);
        drain(&mut f);
        assert_eq!(steps(&mut f), [1, 2, 3], "{}", path.display());
        assert!(!f.poll().expect("readable").grew);
        fs::write(&state, text(5)).expect("written");
        assert!(f.poll().expect("readable").grew);
        assert_eq!(steps(&mut f).len(), 5);
        assert!(f.reads_anew());
    }
    // One log of lines alone in a folder is followed line by line.
    let alone = tempfile::tempdir().expect("a folder");
    add(&alone.path().join("log.jsonl"), &lines(0..10));
    let mut f = follower(alone.path(), &aliases);
    drain(&mut f);
    assert!(!f.reads_anew() && steps(&mut f).len() == 10);
}
