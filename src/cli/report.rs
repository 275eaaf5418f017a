//! `whyspike report`: the whole answer as one page.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::cli::input::Input;
use crate::cli::output;
use whyspike::report::html;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// The page to write; - for standard output
    #[arg(short, long, value_name = "REPORT.html")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let to_stdout = args.output == Path::new("-");
    if !to_stdout && args.input.reading.logs.contains(&args.output) {
        bail!(
            "{}: the page would overwrite the log",
            args.output.display()
        );
    }
    let diagnosis = args.input.diagnosis()?;
    let page = html::render(&diagnosis);
    if to_stdout {
        output::result(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    write(&args.output, &page).with_context(|| args.output.display().to_string())?;
    let incidents = diagnosis.incidents.len();
    let told = format!(
        "{}: {incidents} incident{}, {} kB\n",
        args.output.display(),
        if incidents == 1 { "" } else { "s" },
        page.len().div_ceil(1000)
    );
    output::result(&told)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page beside its place and then puts it there: nobody opens half a page. A link is followed, and what is no
/// file, such as a pipe, is written to as it is.
fn write(path: &Path, page: &str) -> anyhow::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|m| !m.is_file()) {
        return Ok(fs::write(&path, page)?);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".whyspike-").suffix(".html");
    // A page is for others to read: what the umask leaves, as of any file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(page.as_bytes())?;
    file.persist(&path)?;
    Ok(())
}
