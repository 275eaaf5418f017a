//! The command line: the only place that prints and exits.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::run()
}
