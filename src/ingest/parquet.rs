//! Parquet: runs that whyspike stored, and tables that others write.

use crate::ingest::open::Source;
use crate::ingest::{IngestError, Ingester, Reader, file_of, show};
use crate::run::{Rows, Run};
use crate::store;

/// Parquet files.
pub(super) const INGESTER: Ingester = Ingester {
    name: "parquet",
    recognised_by: "the bytes `PAR1` at the start",
    signals: &["any metric, by the alias table"],
    framework: None,
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Whole(read),
};

fn sniff(head: &[u8]) -> u8 {
    if head.starts_with(b"PAR1") { 100 } else { 0 }
}

fn read(bytes: Vec<u8>, rows: &mut Rows) -> Result<(), String> {
    *rows = store::read_table(bytes).map_err(|e| e.to_string())?;
    Ok(())
}

/// Whether a source is a file that whyspike stored.
pub(super) fn is_store(source: &Source) -> bool {
    file_of(source).is_some_and(store::is_store)
}

/// Reads a stored run as it was, its attempts and events included.
pub(super) fn read_store(source: &Source, step_base: Option<u64>) -> Result<Run, IngestError> {
    let path = file_of(source).ok_or(IngestError::NoInput)?;
    let failed = |source_error| IngestError::Store {
        path: show(source),
        source: source_error,
    };
    let mut run = store::read_file(path).map_err(failed)?;
    if let Some(base) = step_base {
        run.meta.step_base = base;
        run.meta.base_known = true;
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pandas_tables() {
        for name in ["pandas.parquet", "pandas_int64na.parquet"] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/samples/generic");
            let Ok(bytes) = std::fs::read(format!("{folder}/{name}")) else {
                return;
            };
            assert_eq!(sniff(&bytes), 100);
            let mut rows = Rows::default();
            read(bytes, &mut rows).expect("readable");
            let loss = rows.column(rows.find("loss").expect("a column"));
            assert_eq!(rows.steps, [1, 2, 3], "{name}");
            assert!(loss.iter().eq([Some(3.0), None, Some(f64::INFINITY)]));
            assert!(rows.losses.is_empty(), "{name}: {:?}", rows.losses);
        }
    }
}
