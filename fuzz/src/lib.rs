//! What the fuzz targets share: the way a user takes from bytes to a run, and what must hold of every run.

pub mod mend;
mod panics;

use std::path::PathBuf;
use std::sync::LazyLock;

use whyspike::ingest::{self, INGESTERS, Options};
use whyspike::run::Run;
use whyspike::signal::Aliases;

pub use panics::let_guarded_panics_pass;

/// Cells that any log may take, and that each of its bytes may take besides.
const CELLS: usize = 64 << 20;
const CELLS_A_BYTE: usize = 64;
/// Steps that a float holds exactly; no reader hands out larger ones.
const EXACT: u64 = 1 << 53;
/// Places of damage that a report may name, whatever the log.
const MOST_LOSSES: usize = 10_000;
/// The longest message of an error or a loss of data.
const LONGEST_MESSAGE: usize = 4096;

static ALIASES: LazyLock<Aliases> = LazyLock::new(Aliases::built_in);

/// The file that the bytes are given in. In a folder in memory (`TMPDIR=/dev/shm`) writing it costs little.
static LOG: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("whyspike-fuzz-{}", std::process::id())));

/// Reads bytes as a user's file: opened, unpacked, recognised unless a format is forced, read, and built into a run.
pub fn read(bytes: &[u8], format: Option<&str>) -> Option<Run> {
    std::fs::write(&*LOG, bytes).expect("the folder for temporary files can be written");
    let options = Options {
        format: format.map(str::to_owned),
        ..Options::default()
    };
    let paths = std::slice::from_ref(&*LOG);
    match ingest::read(paths, &ALIASES, &options, &mut |_, _| {}) {
        Ok(run) => {
            check(&run);
            Some(run)
        }
        Err(e) => {
            message(&e.to_string());
            None
        }
    }
}

/// Reads bytes of a format that has at most one row a byte.
pub fn read_plain(bytes: &[u8], format: Option<&str>) -> Option<Run> {
    let run = read(bytes, format)?;
    let packed = [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd", b"PAR1"];
    if !packed.iter().any(|magic| bytes.starts_with(magic)) {
        assert!(run.len() <= bytes.len(), "{} rows", run.len());
        let cells = run.len() * run.columns().count();
        assert!(
            cells <= CELLS + CELLS_A_BYTE * bytes.len(),
            "{cells} cells from {} bytes",
            bytes.len()
        );
    }
    Some(run)
}

/// The name of the format that a byte stands for.
pub fn format(byte: u8) -> &'static str {
    INGESTERS[usize::from(byte) % INGESTERS.len()].name
}

/// What everything that takes a run relies on.
pub fn check(run: &Run) {
    assert!(!run.is_empty(), "a run has rows");
    assert_eq!(run.intervals.len(), run.len());
    assert!(run.intervals.iter().all(|i| *i > 0), "a row averages steps");
    assert!(run.steps.iter().all(|s| *s < EXACT), "a step is exact");
    let mut next = 0;
    for (index, attempt) in (0..).zip(&run.attempts) {
        assert_eq!((attempt.index, attempt.rows.start), (index, next));
        assert!(attempt.rows.end > next, "an attempt has rows");
        let steps = &run.steps[attempt.rows.clone()];
        assert!(steps.windows(2).all(|w| w[0] < w[1]), "steps grow");
        next = attempt.rows.end;
    }
    assert_eq!(next, run.len(), "every row lies in an attempt");
    for (name, column) in run.columns() {
        assert_eq!(column.len(), run.len(), "{name}");
        assert!(column.has_values(), "{name}");
    }
    let attempts = run.attempts.len();
    assert!(run.events.iter().all(|e| (e.attempt as usize) < attempts));
    assert!(
        run.losses.len() <= MOST_LOSSES,
        "{} losses",
        run.losses.len()
    );
    for loss in &run.losses {
        message(&loss.what);
        message(&loss.place);
    }
}

/// A message is one line that a terminal can show.
fn message(text: &str) {
    assert!(
        text.len() <= LONGEST_MESSAGE,
        "{} bytes: {}…",
        text.len(),
        &text.escape_debug().to_string()[..200]
    );
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
