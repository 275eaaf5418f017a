//! Reads `run.parquet` back, the inverse of writing.

use std::collections::BTreeMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Schema;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;

use crate::cores;
use crate::run::{Attempt, Began, Column, Run, message};
use crate::store::arrays::Kind;
use crate::store::footer::{self, Footer};
use crate::store::{StoreError, arrays, thrift};

/// Rows that are decoded at once; fewer where there is text, of which a dictionary can repeat a long one.
const BATCH: usize = 64 * 1024;
const BATCH_OF_TEXT: usize = 8 * 1024;
/// Cells that are read of any file, of each byte of it besides, and at most. Losses and their like take some bytes a
/// row, so a run of a thousand columns that hardly ever have a value stays far below; a few bytes can promise any
/// number of rows, though.
const CELLS: u64 = 16 << 20;
const CELLS_A_BYTE: u64 = 1024;
const MOST_CELLS: u64 = 1 << 31;
/// The first step that a float does not hold exactly.
const PAST_STEPS: u64 = 1 << 53;
/// Rows for which room is made before they are there, whatever the footer claims.
const LIKELY: usize = 1 << 20;

/// Reads a stored run from a file.
pub fn read_file(path: &Path) -> Result<Run, StoreError> {
    // Each thread has a handle of its own, since the clones of one share a position.
    read_from(
        (0..cores::count())
            .map(|_| file(path))
            .collect::<Result<_, _>>()?,
    )
}

/// Reads a stored run from its bytes.
pub fn read(bytes: Vec<u8>) -> Result<Run, StoreError> {
    read_from(vec![Bytes::from(bytes); cores::count()])
}

/// Whether a file is a stored run.
pub fn is_store(path: &Path) -> bool {
    file(path)
        .and_then(|file| load(&file))
        .is_ok_and(|m| footer::is_stored(pairs(m.metadata())))
}

pub(super) fn file(path: &Path) -> Result<File, StoreError> {
    File::open(path).map_err(|source| StoreError::Io {
        doing: "cannot open",
        source,
    })
}

/// Reads the footer of a table. The schema that arrow writers embed is left aside: the Parquet types say what is
/// needed.
pub(super) fn load<R: ChunkReader>(source: &R) -> Result<ArrowReaderMetadata, StoreError> {
    thrift::footer(source)?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(source, options).map_err(StoreError::Parquet)?;
    known_codec(metadata.metadata())?;
    in_bounds(metadata.metadata())?;
    Ok(metadata)
}

/// Runs what decodes. The library trusts its pages and panics on some that are damaged.
pub(super) fn guarded<T>(decode: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(damaged("its pages are damaged")))
}

/// Whether a table of this many columns may be read from a file of this many bytes.
pub(super) fn fits(
    metadata: &ParquetMetaData,
    columns: usize,
    bytes: u64,
) -> Result<(), StoreError> {
    let rows = promised(metadata);
    let room = CELLS.saturating_add(CELLS_A_BYTE.saturating_mul(bytes));
    if rows.saturating_mul(columns as u64) <= room.min(MOST_CELLS) {
        return Ok(());
    }
    Err(StoreError::Large {
        rows,
        columns,
        bytes,
    })
}

/// Rows that the footer promises.
fn promised(metadata: &ParquetMetaData) -> u64 {
    u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0)
}

/// The columns at these places, in batches of rows. Rows past those that the footer promises are an error.
pub(super) fn batches<R: ChunkReader + 'static>(
    source: R,
    metadata: &ArrowReaderMetadata,
    columns: &[usize],
) -> Result<impl Iterator<Item = Result<RecordBatch, StoreError>> + use<R>, StoreError> {
    thrift::pages(&source, metadata.metadata(), columns)?;
    let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
    let table = ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata.clone());
    let fields = metadata.schema().fields();
    let text = columns
        .iter()
        .any(|at| arrays::kind(fields[*at].data_type()) == Kind::Text);
    let batches = table
        .with_batch_size(if text { BATCH_OF_TEXT } else { BATCH })
        .with_projection(mask)
        .build()
        .map_err(StoreError::Parquet)?;
    let mut left = promised(metadata.metadata());
    Ok(batches.map(move |batch| {
        let batch = batch?;
        left = left
            .checked_sub(batch.num_rows() as u64)
            .ok_or_else(|| damaged("it has more rows than its footer promises"))?;
        Ok(batch)
    }))
}

pub(super) fn damaged(what: &str) -> StoreError {
    StoreError::Parquet(ParquetError::General(what.to_owned()))
}

pub(super) fn pairs(metadata: &ParquetMetaData) -> Option<&Vec<KeyValue>> {
    metadata.file_metadata().key_value_metadata()
}

fn known_codec(metadata: &ParquetMetaData) -> Result<(), StoreError> {
    let mut columns = metadata
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns);
    let known = |c: Compression| {
        matches!(
            c,
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)
        )
    };
    match columns.find(|c| !known(c.compression())) {
        Some(c) => Err(StoreError::Codec {
            column: message(&c.column_path().string()),
            codec: codec(c.compression()),
        }),
        None => Ok(()),
    }
}

/// The library asserts that places in the file are not negative.
fn in_bounds(metadata: &ParquetMetaData) -> Result<(), StoreError> {
    let mut columns = metadata
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns);
    let start = |c: &ColumnChunkMetaData| {
        c.dictionary_page_offset()
            .unwrap_or(0)
            .min(c.data_page_offset())
    };
    if columns.any(|c| start(c) < 0 || c.compressed_size() < 0) {
        return Err(damaged("its footer is damaged"));
    }
    Ok(())
}

fn codec(compression: Compression) -> String {
    let name = compression.to_string().to_lowercase();
    name.split('(').next().unwrap_or_default().to_owned()
}

fn read_from<R: ChunkReader + 'static>(sources: Vec<R>) -> Result<Run, StoreError> {
    let Some(first) = sources.first() else {
        return Err(StoreError::NotStored);
    };
    let metadata = load(first)?;
    let Some(footer) = Footer::of(pairs(metadata.metadata()))? else {
        return Err(StoreError::NotStored);
    };
    let schema = metadata.schema().clone();
    let keys = Keys::of(&schema)?;
    fits(metadata.metadata(), schema.fields().len(), first.len())?;
    let shares: Vec<Vec<usize>> = (0..sources.len())
        .map(|k| (k..schema.fields().len()).step_by(sources.len()).collect())
        .collect();
    let parts = std::thread::scope(|scope| {
        let decode =
            |(source, share): (R, Vec<usize>)| Columns::decode(source, &metadata, &share, &keys);
        let threads: Vec<_> = sources
            .into_iter()
            .zip(shares)
            .map(|job| scope.spawn(move || guarded(|| decode(job))))
            .collect();
        let results = threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        results.collect::<Result<Vec<_>, _>>()
    })?;
    run(
        footer,
        parts.into_iter().fold(Columns::default(), Columns::and),
        &schema,
    )
}

/// Where the columns stand that every stored run has.
struct Keys {
    attempt: usize,
    step: usize,
    interval: usize,
}

impl Keys {
    fn of(schema: &Schema) -> Result<Self, StoreError> {
        let find = |name: &str| {
            let at = schema.fields().iter().position(|f| f.name() == name);
            at.ok_or_else(|| StoreError::Changed {
                what: format!("there is no column `{name}`"),
            })
        };
        Ok(Self {
            attempt: find("attempt")?,
            step: find("step")?,
            interval: find("interval")?,
        })
    }
}

/// Columns of a stored run, or some of them.
#[derive(Default)]
struct Columns {
    attempts: Vec<u32>,
    steps: Vec<u64>,
    intervals: Vec<u32>,
    others: Vec<(usize, Vec<f64>)>,
}

impl Columns {
    /// Decodes the columns at these places.
    fn decode<R: ChunkReader + 'static>(
        source: R,
        metadata: &ArrowReaderMetadata,
        share: &[usize],
        keys: &Keys,
    ) -> Result<Self, StoreError> {
        let room = (promised(metadata.metadata()) as usize).min(LIKELY);
        let mut out = Self::default();
        let others = share
            .iter()
            .filter(|at| ![keys.attempt, keys.step, keys.interval].contains(at));
        out.others
            .extend(others.map(|at| (*at, Vec::with_capacity(room))));
        for batch in batches(source, metadata, share)? {
            let batch = batch?;
            let mut others = out.others.iter_mut();
            for (at, array) in share.iter().zip(batch.columns()) {
                match *at {
                    at if at == keys.attempt => {
                        extend::<UInt32Type>(&mut out.attempts, array, "attempt")?;
                    }
                    at if at == keys.step => extend::<UInt64Type>(&mut out.steps, array, "step")?,
                    at if at == keys.interval => {
                        extend::<UInt32Type>(&mut out.intervals, array, "interval")?;
                    }
                    _ => others
                        .next()
                        .into_iter()
                        .for_each(|(_, values)| arrays::append(array, values)),
                }
            }
        }
        Ok(out)
    }

    /// These and those of another share.
    fn and(mut self, mut other: Self) -> Self {
        self.attempts.append(&mut other.attempts);
        self.steps.append(&mut other.steps);
        self.intervals.append(&mut other.intervals);
        self.others.append(&mut other.others);
        self
    }
}

fn extend<T: ArrowPrimitiveType>(
    to: &mut Vec<T::Native>,
    array: &ArrayRef,
    name: &str,
) -> Result<(), StoreError> {
    let Some(array) = array
        .as_primitive_opt::<T>()
        .filter(|array| array.null_count() == 0)
    else {
        return Err(StoreError::Changed {
            what: format!("column `{name}` has rows without a whole number"),
        });
    };
    to.extend_from_slice(array.values());
    Ok(())
}

fn run(footer: Footer, columns: Columns, schema: &Schema) -> Result<Run, StoreError> {
    in_order(&columns)?;
    let mut run = Run::default();
    run.meta = footer.meta;
    run.attempts = attempts(&columns.attempts, &footer.began);
    run.events = footer.events;
    run.losses = footer.losses;
    run.steps = columns.steps;
    run.intervals = columns.intervals;
    if let Some(event) = run
        .events
        .iter()
        .find(|e| e.attempt as usize >= run.attempts.len().max(1))
    {
        return Err(StoreError::Changed {
            what: format!(
                "an event names attempt {}, which has no rows",
                event.attempt
            ),
        });
    }
    for (at, values) in columns.others {
        run.insert(schema.field(at).name(), Column::from_values(values));
    }
    Ok(run)
}

/// Attempts count up by one and steps grow within an attempt: everything after this relies on it.
fn in_order(columns: &Columns) -> Result<(), StoreError> {
    let rows = columns.steps.len();
    let others = columns.others.iter().map(|(_, values)| values.len());
    let mut lengths = others.chain([columns.attempts.len(), columns.intervals.len()]);
    if lengths.any(|len| len != rows) {
        return Err(StoreError::Changed {
            what: "its columns differ in length".to_owned(),
        });
    }
    if let Some(row) = columns.steps.iter().position(|s| *s >= PAST_STEPS) {
        return Err(StoreError::Changed {
            what: format!("the step of row {row} is too large to count"),
        });
    }
    let keys: Vec<(u32, u64)> = columns
        .attempts
        .iter()
        .copied()
        .zip(columns.steps.iter().copied())
        .collect();
    let follows = |w: &[(u32, u64)]| {
        let ((a, s), (b, t)) = (w[0], w[1]);
        (a == b && s < t) || a.checked_add(1) == Some(b)
    };
    let first = keys
        .first()
        .is_some_and(|(attempt, _)| *attempt != 0)
        .then_some(0);
    let bad = first.or_else(|| keys.windows(2).position(|w| !follows(w)).map(|at| at + 1));
    match bad {
        Some(row) => Err(StoreError::Changed {
            what: format!("row {row} is out of the order of attempt and step"),
        }),
        None if columns.intervals.contains(&0) => Err(StoreError::Changed {
            what: "a row averages 0 steps".to_owned(),
        }),
        None => Ok(()),
    }
}

fn attempts(of_row: &[u32], began: &BTreeMap<u32, Began>) -> Vec<Attempt> {
    let mut out: Vec<Attempt> = Vec::new();
    let mut start = 0;
    for rows in of_row.chunk_by(|a, b| a == b) {
        let index = rows[0];
        let usual = if index == 0 {
            Began::First
        } else {
            Began::Logged
        };
        let began = began.get(&index).cloned().unwrap_or(usual);
        out.push(Attempt {
            index,
            rows: start..start + rows.len(),
            began,
        });
        start += rows.len();
    }
    out
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::run::EventKind;
    use crate::store::write::tests::{example, saved, text};

    #[test]
    fn an_empty_run_is_stored() {
        let (_folder, path) = saved(&Run::default(), "run.parquet");
        assert_eq!(
            text(&read_file(&path).expect("read")),
            text(&Run::default())
        );
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let (_folder, path) = saved(&example(), "run.parquet");
        let whole = fs::read(&path).expect("bytes");
        for end in 0..whole.len() {
            assert!(read(whole[..end].to_vec()).is_err(), "cut at {end}");
        }
        assert!(matches!(
            read(b"PAR1 nothing PAR1".to_vec()),
            Err(StoreError::Parquet(_))
        ));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let refused = |change: fn(&mut Run)| {
            let mut run = example();
            change(&mut run);
            let (_folder, path) = saved(&run, "run.parquet");
            read_file(&path)
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default()
        };
        assert!(refused(|run| run.steps.swap(0, 1)).starts_with("row 1 is out of the order"));
        assert!(refused(|run| run.attempts.clear()).starts_with("row 3 is out of the order"));
        assert!(refused(|run| run.intervals[0] = 0).starts_with("a row averages 0 steps"));
        assert!(refused(|run| run.events[0].attempt = 2).starts_with("an event names attempt 2"));
        assert!(refused(|run| run.steps[4] = u64::MAX).starts_with("the step of row 4 is too"));
        assert_eq!(refused(|run| run.steps[4] = PAST_STEPS - 1), "");
        assert_eq!(refused(|run| run.events[0].kind = EventKind::Exit), "");
        let uneven = Columns {
            attempts: vec![0, 0],
            steps: vec![1, 2],
            intervals: vec![1],
            others: Vec::new(),
        };
        let what = in_order(&uneven).expect_err("uneven").to_string();
        assert!(what.starts_with("its columns differ in length"), "{what}");
    }

    #[test]
    fn a_footer_that_promises_too_much_is_refused() {
        let (_folder, path) = saved(&example(), "run.parquet");
        let metadata = load(&file(&path).expect("opened")).expect("a footer");
        // Five rows.
        assert!(fits(metadata.metadata(), 4_000_000, 1 << 20).is_ok());
        let refused = fits(metadata.metadata(), 4_000_000, 100).expect_err("too many");
        let what = "its footer promises 5 rows of 4000000 columns in 100 bytes, more than is read";
        assert!(refused.to_string().starts_with(what), "{refused}");
        assert!(fits(metadata.metadata(), 500_000_000, u64::MAX).is_err());
    }
}
