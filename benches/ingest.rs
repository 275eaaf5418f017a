//! How fast logs are read and stored: `cargo bench --bench ingest`. Inputs that are missing are written first.

mod make;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use criterion::{Criterion, SamplingMode, Throughput};

use whyspike::ingest::{self, Options};
use whyspike::signal::Aliases;
use whyspike::store;

/// The readers that get the longest logs.
const READERS: [&str; 6] = [
    "megatron",
    "torchtitan",
    "jsonl",
    "csv",
    "tensorboard",
    "wandb",
];

/// Reads a log and writes it as a store, as `whyspike ingest` does; gives its rows.
fn store(log: &Path, output: &Path) -> anyhow::Result<usize> {
    let options = Options::default();
    let aliases = Aliases::built_in();
    let run = ingest::read(&[log.to_owned()], &aliases, &options, &mut |_, _| {})?;
    store::write(&run, output)?;
    Ok(run.len())
}

fn bench(criterion: &mut Criterion, reader: &str) -> anyhow::Result<()> {
    let folder = make::folder();
    let input = make::INPUTS
        .iter()
        .find(|i| i.name.contains(reader))
        .with_context(|| format!("no input for {reader}"))?;
    make::make(input, &folder, 1)?;
    let log = folder.join(input.name);
    let output = folder.join("bench.parquet");
    // An error is told here; within a sample it could only be a panic.
    let rows = store(&log, &output)?;
    let mut group = criterion.benchmark_group("ingest");
    group
        .throughput(Throughput::Bytes(log.metadata()?.len()))
        .sampling_mode(SamplingMode::Flat)
        .sample_size(10)
        .measurement_time(Duration::from_secs(10));
    group.bench_function(reader, |b| {
        b.iter(|| assert_eq!(store(&log, &output).ok(), Some(rows)));
    });
    group.finish();
    Ok(())
}

fn main() -> anyhow::Result<()> {
    // Cargo tests that benchmarks start; that must not write gigabytes.
    if !std::env::args().any(|a| a == "--bench") {
        return Ok(());
    }
    let mut criterion = Criterion::default().configure_from_args();
    for reader in READERS {
        bench(&mut criterion, reader)?;
    }
    criterion.final_summary();
    Ok(())
}
