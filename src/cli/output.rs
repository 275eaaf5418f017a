//! Prints and writes: results to standard output and files, errors and progress to standard error.

use std::fs;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
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

/// Writes a file beside its place and then puts it there: nobody opens half of it. A link is followed, and what is no file,
/// such as a pipe, is written to as it is.
pub(super) fn file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    put(path, bytes).with_context(|| path.display().to_string())
}

fn put(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|m| !m.is_file()) {
        return Ok(fs::write(&path, bytes)?);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".whyspike-");
    // It is for others to read: what the umask leaves, as of any file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(&path)?;
    Ok(())
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
        let bar = std::io::stderr().is_terminal().then(ProgressBar::hidden);
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
