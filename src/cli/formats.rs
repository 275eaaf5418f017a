//! `whyspike formats`: what can be read.

use std::fmt::Write;
use std::process::ExitCode;

use crate::cli::output;
use whyspike::ingest::INGESTERS;

pub(super) fn run() -> anyhow::Result<ExitCode> {
    let mut out = String::new();
    for i in INGESTERS {
        let _ = writeln!(out, "\x1b[1m{}\x1b[0m", i.name);
        let _ = writeln!(out, "  recognised by  {}", i.recognised_by);
        let _ = writeln!(out, "  signals        {}", i.signals.join(", "));
        let base = i
            .step_base
            .map_or("told by the log, or --step-base".to_owned(), |b| {
                b.to_string()
            });
        let _ = writeln!(out, "  first step     {base}");
        let mean = if i.averaged {
            "means over the log interval"
        } else {
            "the step's own"
        };
        let _ = writeln!(out, "  values         {mean}");
    }
    out.push_str("\nplain, gzip and zstd; files, folders and standard input (-)\n");
    output::result(&out)?;
    Ok(ExitCode::SUCCESS)
}
