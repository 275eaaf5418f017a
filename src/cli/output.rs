//! Prints and writes: results to standard output and files, errors and progress to standard error.

use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use whyspike::files;
use whyspike::report::text::Layout;

/// Prints a result. A reader that closed the pipe early is no error.
pub(super) fn result(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}

/// Refuses to write over a log that is read.
pub(super) fn spares(path: &Path, logs: &[PathBuf]) -> anyhow::Result<()> {
    let same = |log: &PathBuf| {
        let real = |p: &Path| fs::canonicalize(p).ok();
        log == path && path != Path::new("-") || real(log).is_some_and(|l| real(path) == Some(l))
    };
    if logs.iter().any(same) {
        bail!(
            "{}: that is the log; name another file to write",
            path.display()
        );
    }
    Ok(())
}

/// Writes a file that appears whole or not at all.
pub(super) fn file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written: io::Result<()> = files::replace(path, |file| file.write_all(bytes));
    written.with_context(|| path.display().to_string())
}

/// Columns of the terminal that standard output is; `None` if it is none.
pub(super) fn columns() -> Option<usize> {
    let (_, columns) = console::Term::stdout().size_checked()?;
    Some(columns.into())
}

/// The layout of text for standard output.
pub(super) fn layout() -> Layout {
    let usual = Layout::default();
    Layout {
        columns: columns().unwrap_or(usual.columns),
        ..usual
    }
}

/// Prints an error in one line: what was done, then what caused it, each said once.
pub(super) fn error(e: &anyhow::Error) {
    let mut text = String::new();
    for cause in e.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text = if text.is_empty() {
                cause
            } else {
                format!("{text}: {cause}")
            };
        }
    }
    let mut err = anstream::stderr().lock();
    let _ = writeln!(err, "\x1b[31m\x1b[1merror:\x1b[0m {text}");
}

/// A bar on standard error, only if that is a terminal; it appears after the first chunk of a long input.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    shown: bool,
}

/// Shorter inputs are read before a bar could be seen.
const LONG: u64 = 64 * 1024 * 1024;

impl Progress {
    pub(super) fn new() -> Self {
        let bar = io::stderr().is_terminal().then(ProgressBar::hidden);
        Self { bar, shown: false }
    }

    /// Bytes read so far, and in all if known.
    pub(super) fn at(&mut self, bytes: u64, size: Option<u64>) {
        let Some(bar) = &self.bar else { return };
        if !self.shown && size.unwrap_or(bytes) >= LONG {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            let form = if size.is_some() {
                "reading {wide_bar} {bytes}/{total_bytes} {eta}"
            } else {
                "reading {spinner} {bytes}"
            };
            bar.set_style(
                ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            self.shown = true;
        }
        bar.set_length(size.unwrap_or(bytes));
        bar.set_position(bytes);
    }

    pub(super) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
