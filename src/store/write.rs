//! Writes `run.parquet`: columns encoded on all cores, the file put in place in one step.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, compute_leaves};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::cores;
use crate::files;
use crate::run::{Column, Run};
use crate::signal::{SIGNALS, Signal, signal};
use crate::store::{StoreError, arrays, footer};

/// Rows of a row group: a megabyte a column, so that readers can take columns and stretches apart, and little is held while
/// it is encoded.
const GROUP: usize = 128 * 1024;
/// Rows that one core encodes alone, and for which setting up a better compressor takes longer than compressing.
const FEW: usize = 16 * 1024;
/// Higher levels gain a few per cent on floats and take several times as long.
const LEVEL: i32 = 1;

/// Writes a run. The file appears whole or not at all; the disk is not waited for: a log can be read again, and what a power
/// failure tears is refused when it is read.
pub fn write(run: &Run, path: &Path) -> Result<(), StoreError> {
    files::replace(path, |file| encode(run, file))
}

/// A column of the file.
struct Planned<'a> {
    field: Field,
    content: Content<'a>,
}

/// Where the values of a column come from.
enum Content<'a> {
    Attempt(&'a [u32]),
    Step(&'a [u64]),
    Interval(&'a [u32]),
    Time(&'a Column),
    Whole(&'a Column),
    Count(&'a Column),
    Real(&'a Column),
}

impl Planned<'_> {
    fn array(&self, rows: Range<usize>) -> ArrayRef {
        match self.content {
            Content::Attempt(values) | Content::Interval(values) => {
                Arc::new(UInt32Array::from(values[rows].to_vec()))
            }
            Content::Step(values) => Arc::new(UInt64Array::from(values[rows].to_vec())),
            Content::Time(column) => arrays::times(column, rows),
            Content::Whole(column) => arrays::wholes(column, rows),
            Content::Count(column) => arrays::counts(column, rows),
            Content::Real(column) => arrays::reals(column, rows),
        }
    }

    /// Counters compress best as differences; repeated small numbers as a dictionary; floats with their bytes parted, for
    /// those of the exponent repeat and those of the noise do not.
    fn tuned(&self, properties: WriterPropertiesBuilder) -> WriterPropertiesBuilder {
        let column = ColumnPath::from(self.field.name().as_str());
        match self.content {
            Content::Step(_) | Content::Time(_) | Content::Whole(_) => {
                properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
            }
            Content::Attempt(_) | Content::Interval(_) | Content::Count(_) => {
                properties.set_column_dictionary_enabled(column, true)
            }
            Content::Real(_) => properties.set_column_encoding(column, Encoding::BYTE_STREAM_SPLIT),
        }
    }
}

type WriterPropertiesBuilder = parquet::file::properties::WriterPropertiesBuilder;

fn plan<'a>(run: &'a Run, attempts: &'a [u32]) -> Vec<Planned<'a>> {
    let mut out = vec![
        key(
            "attempt",
            "count from 0",
            "start of the trainer that the row belongs to",
            Content::Attempt(attempts),
        ),
        key(
            "step",
            "steps",
            "optimizer step as the source numbers it",
            Content::Step(&run.steps),
        ),
        key(
            "interval",
            "steps",
            "steps that the row averages",
            Content::Interval(&run.intervals),
        ),
    ];
    out.extend(SIGNALS.iter().filter_map(|s| canonical(run, s)));
    let others = run.columns().filter(|(name, _)| signal(name).is_none());
    out.extend(others.map(|(name, column)| {
        let unit = name.split('/').next().and_then(signal);
        let field = Field::new(name, DataType::Float64, true);
        let field = unit.map_or(field.clone(), |s| described(field, s.unit, s.about));
        Planned {
            field,
            content: Content::Real(column),
        }
    }));
    out
}

fn key<'a>(name: &str, unit: &str, about: &str, content: Content<'a>) -> Planned<'a> {
    let data = if matches!(content, Content::Step(_)) {
        DataType::UInt64
    } else {
        DataType::UInt32
    };
    Planned {
        field: described(Field::new(name, data, false), unit, about),
        content,
    }
}

fn described(field: Field, unit: &str, about: &str) -> Field {
    let pairs = [("unit", unit), ("description", about)];
    field.with_metadata(pairs.map(|(k, v)| (k.to_owned(), v.to_owned())))
}

/// The column of a canonical signal, if a row of it can be stored.
fn canonical<'a>(run: &'a Run, signal: &Signal) -> Option<Planned<'a>> {
    let column = run.column(signal.name)?;
    let stored = |keep: fn(f64) -> bool| column.iter().flatten().any(keep);
    let (data, content) = match signal.name {
        "time" if stored(|v| arrays::whole(v).is_some_and(|v| i64::try_from(v).is_ok())) => (
            DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            Content::Time(column),
        ),
        "skipped" | "nan" if stored(|v| arrays::count(v).is_some()) => {
            (DataType::UInt32, Content::Count(column))
        }
        "time" | "skipped" | "nan" => return None,
        _ if !signal.whole => (DataType::Float64, Content::Real(column)),
        _ if stored(|v| arrays::whole(v).is_some()) => (DataType::UInt64, Content::Whole(column)),
        _ => return None,
    };
    let unit = if signal.name == "time" {
        "ms"
    } else {
        signal.unit
    };
    Some(Planned {
        field: described(Field::new(signal.name, data, true), unit, signal.about),
        content,
    })
}

/// The attempt of each row.
fn attempts(run: &Run) -> Vec<u32> {
    let mut out = vec![0; run.len()];
    for attempt in &run.attempts {
        if let Some(rows) = out.get_mut(attempt.rows.clone()) {
            rows.fill(attempt.index);
        }
    }
    out
}

fn properties(run: &Run, plan: &[Planned<'_>]) -> Result<WriterProperties, StoreError> {
    let level = ZstdLevel::try_new(LEVEL).map_err(StoreError::Encode)?;
    let properties = WriterProperties::builder()
        .set_created_by(format!("whyspike {}", env!("CARGO_PKG_VERSION")))
        .set_compression(if run.len() < FEW {
            Compression::SNAPPY
        } else {
            Compression::ZSTD(level)
        })
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_data_page_row_count_limit(GROUP)
        .set_key_value_metadata(Some(footer::key_values(run)?));
    Ok(plan
        .iter()
        .fold(properties, |properties, column| column.tuned(properties))
        .build())
}

fn encode(run: &Run, file: &File) -> Result<(), StoreError> {
    let attempts = attempts(run);
    let plan = plan(run, &attempts);
    let fields: Vec<Field> = plan.iter().map(|p| p.field.clone()).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, HashMap::new()));
    let properties = properties(run, &plan)?;
    encode_groups(run.len(), &plan, schema, properties, file).map_err(StoreError::Encode)
}

fn encode_groups(
    rows: usize,
    plan: &[Planned<'_>],
    schema: Arc<Schema>,
    properties: WriterProperties,
    file: &File,
) -> Result<(), ParquetError> {
    let writer = ArrowWriter::try_new(BufWriter::new(file), schema, Some(properties))?;
    let (mut out, factory) = writer.into_serialized_writer()?;
    for (group, start) in (0..rows).step_by(GROUP).enumerate() {
        let encoders = factory.create_column_writers(group)?;
        let chunks = encode_columns(plan, encoders, &(start..rows.min(start + GROUP)))?;
        let mut row_group = out.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut row_group)?;
        }
        row_group.close()?;
    }
    out.close()?;
    Ok(())
}

/// Encodes the columns of one row group, every core taking each so-many-th.
fn encode_columns(
    plan: &[Planned<'_>],
    encoders: Vec<ArrowColumnWriter>,
    rows: &Range<usize>,
) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
    // Starting threads for a few rows takes longer than encoding them.
    let cores = if rows.len() < FEW { 1 } else { cores::count() };
    let mut shares: Vec<Vec<_>> = (0..cores).map(|_| Vec::new()).collect();
    for (at, job) in plan.iter().zip(encoders).enumerate() {
        shares[at % cores].push((at, job));
    }
    let encode = |share: Vec<(usize, (&Planned<'_>, ArrowColumnWriter))>| {
        let one = |(at, (column, encoder))| Ok((at, encode_column(column, encoder, rows.clone())?));
        share
            .into_iter()
            .map(one)
            .collect::<Result<Vec<_>, ParquetError>>()
    };
    let mut chunks = std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(|| encode(share)))
            .collect();
        let results = threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        results
            .collect::<Result<Vec<_>, _>>()
            .map(|all| all.into_iter().flatten().collect::<Vec<_>>())
    })?;
    chunks.sort_by_key(|(at, _)| *at);
    Ok(chunks.into_iter().map(|(_, chunk)| chunk).collect())
}

fn encode_column(
    column: &Planned<'_>,
    mut encoder: ArrowColumnWriter,
    rows: Range<usize>,
) -> Result<ArrowColumnChunk, ParquetError> {
    for leaf in compute_leaves(&column.field, &column.array(rows))? {
        encoder.write(&leaf)?;
    }
    encoder.close()
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::path::PathBuf;

    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    use super::*;
    use crate::run::{Attempt, Began, DataLoss, Event, EventKind};
    use crate::store::{is_store, read, read_file};

    /// Two attempts, every kind of value, and names that need care.
    pub(in crate::store) fn example() -> Run {
        let mut run = Run::default();
        run.meta.sources = vec!["a.log".into(), "b \"quoted\".log".into()];
        run.meta.format = "megatron".into();
        run.meta.framework = Some("megatron-lm".into());
        run.meta.base_known = true;
        run.meta.facts = [("adam_beta2".to_owned(), "0.95".to_owned())].into();
        let back = Began::StepWentBack { from: 30, to: 20 };
        let attempt = |index, rows, began| Attempt { index, rows, began };
        run.attempts = vec![attempt(0, 0..3, Began::First), attempt(1, 3..5, back)];
        let event = |attempt, step, kind, path: Option<&str>| {
            let path = path.map(str::to_owned);
            Event {
                attempt,
                step,
                kind,
                path,
            }
        };
        run.events = vec![
            event(0, Some(20), EventKind::Saved, Some("ckpt/20")),
            event(1, None, EventKind::Start, None),
        ];
        let [source, place, what] = ["a.log", "line 7", "torn"].map(str::to_owned);
        run.losses = vec![DataLoss {
            source,
            place,
            what,
        }];
        run.steps = vec![10, 20, 30, 20, 30];
        run.intervals = vec![10; 5];
        let (time, nan, inf) = (
            Some(1_772_366_400_500.0),
            Some(f64::NAN),
            Some(f64::INFINITY),
        );
        let columns = [
            ("time", [time, None, Some(1_772_366_401_000.0), None, None]),
            ("loss", [Some(3.0), nan, None, inf, Some(0.1)]),
            (
                "max_attention_logit/12",
                [1.0, 2.0, 3.0, 4.0, 5.0].map(Some),
            ),
            (
                "skipped",
                [Some(0.0), Some(1.0), None, Some(0.0), Some(0.0)],
            ),
            ("my metric.x", [None, None, Some(-1e-300), None, None]),
        ];
        for (name, values) in columns {
            run.insert(name, Column::from_options(values));
        }
        run
    }

    pub(in crate::store) fn text(run: &Run) -> String {
        format!("{run:?}")
    }

    pub(in crate::store) fn saved(run: &Run, name: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        write(run, &path).expect("written");
        (folder, path)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let run = example();
        let (folder, path) = saved(&run, "run.parquet");
        assert_eq!(text(&read_file(&path).expect("read")), text(&run));
        assert_eq!(
            text(&read(fs::read(&path).expect("bytes")).expect("read")),
            text(&run)
        );
        assert!(is_store(&path));
        assert_eq!(
            fs::read_dir(folder.path()).expect("listed").count(),
            1,
            "no temporary file is left"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_what_is_no_file_is_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let (folder, path) = saved(&example(), "run.parquet");
        let link = folder.path().join("link.parquet");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        fs::write(&path, "").expect("written");
        write(&example(), &link).expect("written");
        assert!(is_store(&path) && fs::symlink_metadata(&link).expect("there").is_symlink());

        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).expect("read")
        });
        write(&example(), &pipe).expect("written");
        let bytes = reader.join().expect("read");
        assert_eq!(text(&read(bytes).expect("a store")), text(&example()));
        assert!(fs::metadata(&pipe).expect("there").file_type().is_fifo());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_numbers_are_read_back(bits in proptest::collection::vec(any::<Option<u64>>(), 1..40)) {
            let mut run = Run::default();
            run.attempts = vec![Attempt { index: 0, rows: 0..bits.len(), began: Began::Loaded { step: 3 } }];
            run.steps = (0..bits.len() as u64).collect();
            run.intervals = vec![1; bits.len()];
            run.insert("loss", Column::from_options(bits.iter().map(|b| b.map(f64::from_bits))));
            let (_folder, path) = saved(&run, "run.parquet");
            prop_assert_eq!(text(&read_file(&path).expect("read")), text(&run));
        }
    }

    #[test]
    fn several_row_groups() {
        let rows = GROUP + 1000;
        let mut run = Run::default();
        run.attempts = vec![Attempt {
            index: 0,
            rows: 0..rows,
            began: Began::First,
        }];
        run.steps = (0..rows as u64).collect();
        run.intervals = vec![1; rows];
        run.insert(
            "loss",
            Column::from_options((0..rows).map(|r| (r % 7 != 0).then_some(1.0 / (r + 1) as f64))),
        );
        let (_folder, path) = saved(&run, "run.parquet");
        assert!(text(&read_file(&path).expect("read")) == text(&run));
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let (folder, path) = saved(&example(), "run.parquet");
        let before = fs::read(&path).expect("bytes");
        assert!(
            write(
                &example(),
                &folder.path().join("absent").join("run.parquet")
            )
            .is_err()
        );
        fs::create_dir(folder.path().join("taken")).expect("a folder");
        assert!(write(&example(), &folder.path().join("taken")).is_err());
        assert_eq!(fs::read(&path).expect("bytes"), before);
        assert_eq!(
            fs::read_dir(folder.path()).expect("listed").count(),
            2,
            "the temporary file was removed"
        );
    }
}
