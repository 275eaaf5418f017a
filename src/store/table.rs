//! Reads Parquet tables that others write (pandas, polars, Spark, exports of W&B) into rows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::Schema;
use bytes::Bytes;
use parquet::file::reader::ChunkReader;

use crate::run::{Column, Event, EventKind, Rows, message};
use crate::signal::{Aliases, Meaning, step_rank};
use crate::store::arrays::{self, Kind};
use crate::store::footer::Footer;
use crate::store::{Long, StoreError, read};

static ALIASES: LazyLock<Aliases> = LazyLock::new(Aliases::built_in);

/// Names under which long tables keep the name of a metric.
const NAME_COLUMNS: [&str; 6] = ["name", "tag", "metric", "key", "metric_name", "variable"];
/// Columns that an error names at most.
const NAMED: usize = 20;

/// Reads a table from a file.
pub fn read_table_file(path: &Path) -> Result<Rows, StoreError> {
    let file = read::file(path)?;
    read::guarded(|| read_from(file))
}

/// Whether a file is a table with a column of steps. Its rows are not read.
pub fn has_steps(path: &Path) -> bool {
    let layout = || {
        let metadata = read::load(&read::file(path)?)?;
        Layout::of(metadata.schema(), &mut Rows::default())
    };
    read::guarded(layout).is_ok()
}

/// Reads a table from its bytes.
pub fn read_table(bytes: Vec<u8>) -> Result<Rows, StoreError> {
    read::guarded(|| read_from(Bytes::from(bytes)))
}

fn read_from<R: ChunkReader + 'static>(source: R) -> Result<Rows, StoreError> {
    let metadata = read::load(&source)?;
    let footer = Footer::of(read::pairs(metadata.metadata()))?;
    let mut rows = Rows::default();
    let layout = Layout::of(metadata.schema(), &mut rows)?;
    let places: Vec<usize> = layout.read.iter().map(|c| c.at).collect();
    read::fits(metadata.metadata(), places.len(), source.len())?;
    let batches = read::batches(source, &metadata, &places)?;
    let mut lost = Unstepped::default();
    if layout.long.is_some() {
        let mut long = Long::default();
        for batch in batches {
            layout.add_long(&batch?, &mut long, &mut lost);
        }
        long.pivot(&ALIASES, &mut rows);
    } else {
        let mut columns = vec![Column::default(); layout.read.len()];
        for batch in batches {
            layout.add_wide(&batch?, &mut rows, &mut columns, &mut lost);
        }
        let metrics = layout
            .read
            .into_iter()
            .zip(columns)
            .filter(|(read, _)| read.role != Role::Step);
        metrics.for_each(|(read, column)| rows.put(&read.name, column));
    }
    lost.tell(&mut rows);
    if let Some(footer) = footer {
        restore(footer, &mut rows);
    }
    Ok(rows)
}

/// The columns that are read, in the order of the file.
struct Layout {
    read: Vec<Read>,
    step: usize,
    long: Option<LongLayout>,
}

struct Read {
    /// Place in the file.
    at: usize,
    name: String,
    kind: Kind,
    role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Step,
    Metric,
    /// Text that is a date and time.
    Moment,
    /// Text that names metrics.
    Names,
}

/// Places among the columns that are read.
struct LongLayout {
    name: usize,
    value: usize,
    time: Option<usize>,
}

impl Layout {
    fn of(schema: &Schema, rows: &mut Rows) -> Result<Self, StoreError> {
        // The columns of a stored run, whether or not what rewrote the file kept the footer.
        let stored = ["attempt", "step", "interval"]
            .iter()
            .all(|name| schema.field_with_name(name).is_ok());
        let at_step = step_column(schema).ok_or_else(|| no_step(schema))?;
        let names_column = long_names(schema);
        let mut read = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let (name, kind) = (field.name().as_str(), arrays::kind(field.data_type()));
            let meaning = ALIASES.meaning(name);
            let role = match kind {
                _ if at == at_step => Role::Step,
                _ if matches!(meaning, Meaning::Drop | Meaning::Step) => continue,
                Kind::Number => Role::Metric,
                Kind::Text if names_column == Some(at) => Role::Names,
                Kind::Text if is_time(&meaning) => Role::Moment,
                Kind::Nothing => continue,
                Kind::Text if meaning == Meaning::Other => continue,
                Kind::Text | Kind::Other => {
                    rows.lose(
                        format!("column `{name}`"),
                        "left out: it holds text or nested values, not numbers",
                    );
                    continue;
                }
            };
            read.push(Read {
                at,
                name: raw_name(name, stored),
                kind,
                role,
            });
        }
        let find = |role: Role| read.iter().position(|r| r.role == role);
        let long = find(Role::Names)
            .zip(read.iter().position(is_value))
            .map(|(name, value)| LongLayout {
                name,
                value,
                time: read.iter().position(|r| is_time(&ALIASES.meaning(&r.name))),
            });
        let step = find(Role::Step).ok_or_else(|| no_step(schema))?;
        Ok(Self { read, step, long })
    }

    fn column(&self, batch: &RecordBatch, at: usize) -> Column {
        let array = batch.column(at);
        match (self.read[at].kind, self.read[at].role) {
            (Kind::Number, _) => arrays::numbers(array),
            (Kind::Text, Role::Moment) => arrays::parsed(array, arrays::moment),
            (Kind::Text, Role::Step) => arrays::parsed(array, |text| text.trim().parse().ok()),
            _ => Column::missing(array.len()),
        }
    }

    fn add_wide(
        &self,
        batch: &RecordBatch,
        rows: &mut Rows,
        columns: &mut [Column],
        lost: &mut Unstepped,
    ) {
        let steps = self.column(batch, self.step);
        let kept: Vec<usize> = (0..steps.len())
            .filter(|row| lost.keep(steps.get(*row)))
            .collect();
        rows.steps.extend(
            kept.iter()
                .filter_map(|row| steps.get(*row).and_then(arrays::step)),
        );
        for (at, column) in columns
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| *at != self.step)
        {
            let all = self.column(batch, at);
            let chosen = if kept.len() == all.len() {
                all
            } else {
                all.take(&kept)
            };
            column.append_scaled(&chosen, 1.0);
        }
    }

    fn add_long(&self, batch: &RecordBatch, long: &mut Long, lost: &mut Unstepped) {
        let Some(layout) = &self.long else { return };
        let (steps, values) = (
            self.column(batch, self.step),
            self.column(batch, layout.value),
        );
        let times = layout.time.map(|at| self.column(batch, at));
        let names = batch.column(layout.name).as_string::<i32>();
        let mut last: Option<(&str, u32)> = None;
        for row in 0..batch.num_rows() {
            if !lost.keep(steps.get(row)) || names.is_null(row) {
                continue;
            }
            let (Some(step), Some(value)) =
                (steps.get(row).and_then(arrays::step), values.get(row))
            else {
                continue;
            };
            let name = names.value(row);
            let number = last
                .filter(|(known, _)| *known == name)
                .map_or_else(|| long.name(name), |(_, n)| n);
            last = Some((name, number));
            long.push(step, number, value, times.as_ref().and_then(|t| t.get(row)));
        }
    }
}

/// The best of the columns that count steps.
fn step_column(schema: &Schema) -> Option<usize> {
    let readable = |data| matches!(arrays::kind(data), Kind::Number | Kind::Text);
    let columns = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, f)| readable(f.data_type()));
    let ranked = columns.filter_map(|(at, f)| Some((step_rank(f.name().trim())?, at)));
    ranked.min().map(|(_, at)| at)
}

/// The column of metric names, if the table is long.
fn long_names(schema: &Schema) -> Option<usize> {
    let named = |f: &str| {
        NAME_COLUMNS
            .iter()
            .any(|n| f.trim().eq_ignore_ascii_case(n))
    };
    let has_value = schema.fields().iter().any(|f| {
        f.name().trim().eq_ignore_ascii_case("value") && arrays::kind(f.data_type()) == Kind::Number
    });
    let mut columns = schema.fields().iter();
    has_value.then(|| {
        columns.position(|f| named(f.name()) && arrays::kind(f.data_type()) == Kind::Text)
    })?
}

fn is_value(read: &Read) -> bool {
    read.role == Role::Metric && read.name.trim().eq_ignore_ascii_case("value")
}

fn is_time(meaning: &Meaning) -> bool {
    matches!(meaning, Meaning::Signal { name, .. } if name == "time")
}

/// The column's name for the alias table. In a stored run, `skipped` is what each interval skipped; in other tables
/// it is a running count.
fn raw_name(name: &str, stored: bool) -> String {
    if stored && name == "skipped" {
        "number of skipped iterations".to_owned()
    } else {
        name.to_owned()
    }
}

fn no_step(schema: &Schema) -> StoreError {
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .take(NAMED)
        .map(|f| f.name().as_str())
        .collect();
    let rest = schema.fields().len() - names.len();
    let more = if rest > 0 {
        format!(" and {rest} more")
    } else {
        String::new()
    };
    StoreError::NoStep {
        columns: format!("{}{more}", message(&names.join(", "))),
    }
}

/// Rows that were left out because their step does not count.
#[derive(Default)]
struct Unstepped {
    missing: usize,
    odd: usize,
}

impl Unstepped {
    fn keep(&mut self, step: Option<f64>) -> bool {
        match step {
            None => self.missing += 1,
            Some(value) if value.is_nan() => self.missing += 1,
            Some(value) if arrays::step(value).is_none() => self.odd += 1,
            Some(_) => return true,
        }
        false
    }

    fn tell(&self, rows: &mut Rows) {
        if self.missing > 0 {
            rows.lose(
                "",
                format!("{} rows without a step were left out", self.missing),
            );
        }
        if self.odd > 0 {
            rows.lose(
                "",
                format!(
                    "{} rows whose step is not a whole number from 0 were left out",
                    self.odd
                ),
            );
        }
    }
}

/// Gives the rows of a stored run back what its footer holds.
fn restore(footer: Footer, rows: &mut Rows) {
    let stretches = stretches(rows);
    for event in &footer.events {
        let Some(stretch) = stretches.get(&event.attempt) else {
            continue;
        };
        let row = stretch.start + place(event, &rows.steps[stretch.clone()]);
        rows.mark(event.kind, event.step, event.path.clone());
        if let Some(mark) = rows.marks.last_mut() {
            mark.row = row;
        }
    }
    rows.losses.extend(footer.losses);
    rows.facts.extend(footer.meta.facts);
    if let Some(version) = footer.meta.framework_version {
        rows.facts
            .entry("framework_version".to_owned())
            .or_insert(version);
    }
}

/// The rows of each attempt.
fn stretches(rows: &Rows) -> BTreeMap<u32, Range<usize>> {
    let mut out: BTreeMap<u32, Range<usize>> = BTreeMap::new();
    let Some(slot) = rows.find("attempt") else {
        return out;
    };
    for (row, attempt) in rows.column(slot).iter().enumerate() {
        if let Some(attempt) = attempt.and_then(arrays::count) {
            out.entry(attempt).or_insert(row..row).end = row + 1;
        }
    }
    out
}

/// The row of an attempt before which an event is put. What begins an attempt stays at its start.
fn place(event: &Event, steps: &[u64]) -> usize {
    let begins = matches!(event.kind, EventKind::Start | EventKind::Loaded);
    match event.step {
        _ if begins => 0,
        Some(step) => steps
            .partition_point(|s| *s < step)
            .min(steps.len().saturating_sub(1)),
        None => steps.len().saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, StringArray,
    };
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::store::write::tests::{example, saved};

    fn table(columns: Vec<(&str, ArrayRef)>) -> Result<Rows, StoreError> {
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
        read_table(bytes)
    }

    fn values(rows: &Rows, name: &str) -> Vec<Option<f64>> {
        rows.column(rows.find(name).expect("a column"))
            .iter()
            .collect()
    }

    #[test]
    fn a_wide_table_of_any_types() {
        let rows = table(vec![
            (
                "_step",
                Arc::new(Int64Array::from(vec![0, 1, 2, 3])) as ArrayRef,
            ),
            (
                "train/global_step",
                Arc::new(Float64Array::from(vec![
                    Some(10.0),
                    None,
                    Some(20.5),
                    Some(30.0),
                ])),
            ),
            (
                "loss",
                Arc::new(Float32Array::from(vec![
                    Some(1.5),
                    Some(9.0),
                    Some(9.0),
                    Some(f32::NAN),
                ])),
            ),
            (
                "ok",
                Arc::new(BooleanArray::from(vec![Some(true), None, None, None])),
            ),
            (
                "_timestamp",
                Arc::new(StringArray::from(vec![
                    Some("2026-03-01T12:00:00Z"),
                    None,
                    None,
                    None,
                ])),
            ),
            (
                "note",
                Arc::new(StringArray::from(vec!["a", "b", "c", "d"])),
            ),
            (
                "grad_norm",
                Arc::new(StringArray::from(vec!["1", "2", "3", "4"])),
            ),
        ])
        .expect("readable");
        assert_eq!(rows.steps, [10, 30]);
        let loss = values(&rows, "loss");
        assert!(loss[0] == Some(1.5) && loss[1].is_some_and(f64::is_nan));
        assert_eq!(values(&rows, "ok"), [Some(1.0), None]);
        assert_eq!(
            values(&rows, "_timestamp"),
            [Some(1_772_366_400_000.0), None]
        );
        let places: Vec<&str> = rows.losses.iter().map(|l| l.place.as_str()).collect();
        assert_eq!(places, ["column `grad_norm`", "", ""]);
    }

    #[test]
    fn a_long_table() {
        let rows = table(vec![
            (
                "metric",
                Arc::new(StringArray::from(vec!["loss", "lr", "loss", "lr"])) as ArrayRef,
            ),
            ("step", Arc::new(Int64Array::from(vec![1, 1, 2, 2]))),
            (
                "value",
                Arc::new(Float64Array::from(vec![
                    Some(3.0),
                    Some(f64::NAN),
                    Some(2.0),
                    None,
                ])),
            ),
        ])
        .expect("readable");
        assert_eq!(rows.steps, [1, 2]);
        assert_eq!(values(&rows, "loss"), [Some(3.0), Some(2.0)]);
        assert!(values(&rows, "lr")[0].is_some_and(f64::is_nan));
    }

    #[test]
    fn a_table_without_steps_says_what_it_has() {
        let error = table(vec![(
            "loss",
            Arc::new(Float64Array::from(vec![1.0])) as ArrayRef,
        )])
        .expect_err("no step");
        assert_eq!(
            error.to_string(),
            "no column says which step a row is (the columns are loss); name one `step`"
        );
    }

    #[test]
    fn a_stored_run_is_a_table_too() {
        let (_folder, path) = saved(&example(), "run.parquet");
        let rows = read_table_file(&path).expect("read");
        assert_eq!(rows.steps, [10, 20, 30, 20, 30]);
        let names: Vec<&str> = rows.columns().map(|(n, _)| n).collect();
        let expected = [
            "attempt",
            "interval",
            "time",
            "loss",
            "number of skipped iterations",
        ];
        assert_eq!(
            names,
            [&expected[..], &["max_attention_logit/12", "my metric.x"]].concat()
        );
        let marks: Vec<_> = rows.marks.iter().map(|m| (m.row, m.kind, m.step)).collect();
        assert_eq!(
            marks,
            [(1, EventKind::Saved, Some(20)), (3, EventKind::Start, None)]
        );
        assert_eq!(rows.losses.len(), 1);
        assert_eq!(rows.facts["adam_beta2"], "0.95");
    }
}
