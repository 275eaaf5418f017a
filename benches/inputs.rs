//! Writes the inputs of the benchmarks: `cargo bench --bench inputs [-- [--divide N] [--folder DIR]]`.

mod make;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;

/// What the command line asks for.
struct Asked {
    folder: PathBuf,
    /// The inputs are this many times shorter: for trying the scripts.
    divide: u64,
}

impl Asked {
    /// `None` where cargo only tests that benchmarks start. What is not known is for criterion: cargo gives all
    /// benchmarks the same arguments.
    fn read() -> anyhow::Result<Option<Self>> {
        let mut asked = Self {
            folder: make::folder(),
            divide: 1,
        };
        let mut bench = false;
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| argument.clone());
            match argument.as_str() {
                "--bench" => bench = true,
                "--test" => return Ok(None),
                "--divide" => asked.divide = value()?.parse().context("--divide")?,
                "--folder" => asked.folder = value()?.into(),
                _ => {}
            }
        }
        Ok(bench.then_some(asked))
    }
}

fn main() -> anyhow::Result<()> {
    let Some(asked) = Asked::read()? else {
        return Ok(());
    };
    let mut out = io::stdout().lock();
    for input in &make::INPUTS {
        let written = make::make(input, &asked.folder, asked.divide.max(1))
            .with_context(|| input.name.to_owned())?;
        let what = if written { "written" } else { "kept" };
        writeln!(out, "{what} {}", asked.folder.join(input.name).display())?;
    }
    Ok(())
}
