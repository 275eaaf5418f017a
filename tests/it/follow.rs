//! A log that is followed as it grows shows what the same log shows when it is read whole.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use whyspike::ingest::Options;
use whyspike::ingest::follow::{Follower, Last};
use whyspike::run::Run;

use crate::support::{ALIASES, Noise, files, fixture, read_all, shared};

/// Every file below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let all = files(folder).into_iter();
    all.flat_map(|p| if p.is_dir() { below(&p) } else { vec![p] })
        .collect()
}

/// What is compared: all but where it was read from.
fn shown(run: &Run) -> String {
    let columns: Vec<String> = run
        .columns()
        .map(|(name, c)| {
            let cells: Vec<String> = c
                .iter()
                .map(|v| v.map_or("-".into(), |v| v.to_string()))
                .collect();
            format!("{name}: {}", cells.join(" "))
        })
        .collect();
    let losses: Vec<String> = run
        .losses
        .iter()
        .map(|l| format!("{} {}", l.place, l.what))
        .collect();
    format!(
        "{} base {} {}\nsteps {:?}\nintervals {:?}\nattempts {:?}\nevents {:?}\nfacts {:?}\nlosses {losses:#?}\n{}",
        run.meta.format,
        run.meta.step_base,
        run.meta.base_known,
        run.steps,
        run.intervals,
        run.attempts,
        run.events,
        run.meta.facts,
        columns.join("\n")
    )
}

/// The run of a log that is written in pieces of any size and looked at after each.
fn followed(bytes: &[u8], name: &str, noise: &mut Noise) -> Option<Run> {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join(name);
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&log)
        .expect("a log");
    let mut follower =
        Follower::new(&log, &ALIASES, Options::default(), &Last::default()).expect("follows");
    let mut rest = bytes;
    let most = 1 + bytes.len() / 6;
    while !rest.is_empty() {
        let n = (1 + (noise.uniform() * most as f64) as usize).min(rest.len());
        file.write_all(&rest[..n]).expect("written");
        rest = &rest[n..];
        // What is read whole may be cut where it cannot be read.
        while follower.poll().is_ok_and(|p| p.grew) {}
        if noise.uniform() < 0.3 {
            follower.run();
        }
    }
    follower.run().map(|(run, _)| run)
}

/// The log without its last line if that has no end: whoever follows waits for the rest of it.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |e| e + 1);
    &bytes[..end]
}

fn compare(path: &Path) -> bool {
    let bytes = fs::read(path).expect("a file");
    let text = !bytes.contains(&0)
        && !bytes.starts_with(b"\x1f\x8b")
        && !bytes.starts_with(b"\x28\xb5\x2f\xfd");
    let bytes = if text { whole_lines(&bytes) } else { &bytes };
    let folder = tempfile::tempdir().expect("a folder");
    let name = path
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let copy = folder.path().join(&name);
    fs::write(&copy, bytes).expect("written");
    let Ok(read) = read_all(&[copy]) else {
        return false;
    };
    let mut noise = Noise::new(bytes.len() as u64);
    for _ in 0..2 {
        let followed = followed(bytes, &name, &mut noise);
        let followed = followed.unwrap_or_else(|| panic!("{}: nothing followed", path.display()));
        let (read, followed) = (shown(&read), shown(&followed));
        if let Some((a, b)) = read.lines().zip(followed.lines()).find(|(a, b)| a != b) {
            let cut = |s: &str| s.chars().take(400).collect::<String>();
            panic!(
                "{}:\nread     {}\nfollowed {}",
                path.display(),
                cut(a),
                cut(b)
            );
        }
        assert_eq!(read.len(), followed.len(), "{}", path.display());
    }
    true
}

#[test]
fn logs_show_the_same_whether_they_are_followed_or_read() {
    let mut logs = below(&fixture("logs"));
    logs.extend(shared("samples").map_or(Vec::new(), |p| below(&p)));
    let compared = logs.iter().filter(|p| compare(p)).count();
    assert!(compared >= 50, "{compared}");
}
