//! Between arrow arrays and columns: the three values stay apart, null for missing and NaN for a logged NaN.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Float64Array, TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, TimeUnit};

use crate::run::Column;

/// The first number that a `u64` does not hold.
const PAST_U64: f64 = 18_446_744_073_709_551_616.0;
const MILLIS_OF_DAY: f64 = 86_400_000.0;

/// What can be read of a column type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Numbers of any width, truth values, and points in time.
    Number,
    /// Text.
    Text,
    /// Never a value.
    Nothing,
    /// Lists, structures, bytes, durations.
    Other,
}

/// What can be read of a column type.
pub(super) fn kind(data: &DataType) -> Kind {
    match data {
        DataType::Utf8 => Kind::Text,
        DataType::Null => Kind::Nothing,
        DataType::Boolean | DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            Kind::Number
        }
        DataType::Decimal256(..) => Kind::Other,
        other if other.is_numeric() => Kind::Number,
        _ => Kind::Other,
    }
}

/// An array of [`Kind::Number`] as a column: points in time as milliseconds since 1970, truth values as 0 and 1.
pub(super) fn numbers(array: &dyn Array) -> Column {
    let mut values = Vec::with_capacity(array.len());
    append(array, &mut values);
    Column::from_values(values)
}

/// Appends an array of [`Kind::Number`] to the values of a column.
pub(super) fn append(array: &dyn Array, to: &mut Vec<f64>) {
    match array.data_type() {
        DataType::Float64 => each::<Float64Type>(array, to, |v| v),
        DataType::Float32 => each::<Float32Type>(array, to, f64::from),
        DataType::Float16 => each::<Float16Type>(array, to, f64::from),
        DataType::Int8 => each::<Int8Type>(array, to, f64::from),
        DataType::Int16 => each::<Int16Type>(array, to, f64::from),
        DataType::Int32 => each::<Int32Type>(array, to, f64::from),
        DataType::Int64 => each::<Int64Type>(array, to, |v| v as f64),
        DataType::UInt8 => each::<UInt8Type>(array, to, f64::from),
        DataType::UInt16 => each::<UInt16Type>(array, to, f64::from),
        DataType::UInt32 => each::<UInt32Type>(array, to, f64::from),
        DataType::UInt64 => each::<UInt64Type>(array, to, |v| v as f64),
        DataType::Decimal32(_, scale) => {
            each::<Decimal32Type>(array, to, |v| f64::from(v) / ten_to(*scale));
        }
        DataType::Decimal64(_, scale) => {
            each::<Decimal64Type>(array, to, |v| v as f64 / ten_to(*scale));
        }
        DataType::Decimal128(_, scale) => {
            each::<Decimal128Type>(array, to, |v| v as f64 / ten_to(*scale));
        }
        DataType::Date32 => each::<Date32Type>(array, to, |v| f64::from(v) * MILLIS_OF_DAY),
        DataType::Date64 => each::<Date64Type>(array, to, |v| v as f64),
        DataType::Timestamp(TimeUnit::Second, _) => {
            each::<TimestampSecondType>(array, to, |v| v as f64 * 1e3);
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            each::<TimestampMillisecondType>(array, to, |v| v as f64);
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            each::<TimestampMicrosecondType>(array, to, |v| v as f64 / 1e3);
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            each::<TimestampNanosecondType>(array, to, |v| v as f64 / 1e6);
        }
        DataType::Boolean => {
            let bits = array.as_boolean().iter();
            to.extend(bits.map(|v| v.map_or_else(missing, |v| f64::from(u8::from(v)))));
        }
        _ => to.extend(std::iter::repeat_n(missing(), array.len())),
    }
}

fn each<T: ArrowPrimitiveType>(
    array: &dyn Array,
    to: &mut Vec<f64>,
    convert: impl Fn(T::Native) -> f64,
) {
    let values = array.as_primitive::<T>();
    if values.null_count() == 0 {
        to.extend(values.values().iter().map(|v| convert(*v)));
    } else {
        to.extend(values.iter().map(|v| v.map_or_else(missing, &convert)));
    }
}

/// What a column holds where there is no value.
fn missing() -> f64 {
    Column::missing(1).raw()[0]
}

fn ten_to(scale: i8) -> f64 {
    10_f64.powi(i32::from(scale))
}

/// An array of [`Kind::Text`] as a column: what does not parse is missing.
pub(super) fn parsed(array: &dyn Array, parse: impl Fn(&str) -> Option<f64>) -> Column {
    Column::from_options(array.as_string::<i32>().iter().map(|v| v.and_then(&parse)))
}

/// A date and time as milliseconds since 1970; UTC unless it says otherwise.
pub(super) fn moment(text: &str) -> Option<f64> {
    let text = text.trim();
    let zoned = text.parse::<jiff::Timestamp>().ok();
    let stamp = zoned.or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        jiff::tz::Offset::UTC.to_timestamp(civil).ok()
    })?;
    Some(stamp.as_millisecond() as f64)
}

/// A column of real numbers as an array.
pub(super) fn reals(column: &Column, rows: Range<usize>) -> ArrayRef {
    let many = rows.len();
    let whole: Option<Vec<f64>> = column.range(rows.clone()).collect();
    Arc::new(match whole.filter(|values| values.len() == many) {
        Some(values) => Float64Array::from(values),
        None => rows.map(|row| column.get(row)).collect::<Float64Array>(),
    })
}

/// A column of whole numbers as an array.
pub(super) fn wholes(column: &Column, rows: Range<usize>) -> ArrayRef {
    Arc::new(
        rows.map(|row| whole(column.get(row)?))
            .collect::<UInt64Array>(),
    )
}

/// A column of small whole numbers as an array.
pub(super) fn counts(column: &Column, rows: Range<usize>) -> ArrayRef {
    Arc::new(
        rows.map(|row| count(column.get(row)?))
            .collect::<UInt32Array>(),
    )
}

/// A column of milliseconds since 1970 as an array.
pub(super) fn times(column: &Column, rows: Range<usize>) -> ArrayRef {
    let millis = |row| i64::try_from(whole(column.get(row)?)?).ok();
    Arc::new(
        rows.map(millis)
            .collect::<TimestampMillisecondArray>()
            .with_timezone("UTC"),
    )
}

/// A number that is whole and not negative.
pub(super) fn whole(value: f64) -> Option<u64> {
    ((0.0..PAST_U64).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

/// A whole number that 32 bits hold.
pub(super) fn count(value: f64) -> Option<u32> {
    whole(value).and_then(|v| u32::try_from(v).ok())
}

/// A step: whole, not negative, and within what a float holds exactly.
pub(super) fn step(value: f64) -> Option<u64> {
    whole(value).filter(|v| *v < 1 << 53)
}

#[cfg(test)]
mod tests {
    use arrow_array::{BooleanArray, Decimal128Array, Float32Array, TimestampNanosecondArray};

    use super::*;
    use crate::store::read_file;
    use crate::store::write::tests::{example, saved};

    #[test]
    fn any_width_becomes_a_number() {
        let of = |a: &dyn Array| numbers(a).iter().collect::<Vec<_>>();
        assert_eq!(
            of(&BooleanArray::from(vec![Some(true), None])),
            [Some(1.0), None]
        );
        assert_eq!(of(&UInt32Array::from(vec![7])), [Some(7.0)]);
        assert!(of(&Float32Array::from(vec![f32::NAN]))[0].is_some_and(f64::is_nan));
        let price = Decimal128Array::from(vec![1250])
            .with_precision_and_scale(6, 3)
            .expect("fits");
        assert_eq!(of(&price), [Some(1.25)]);
        let zoned =
            TimestampNanosecondArray::from(vec![1_772_366_400_500_000_000]).with_timezone("+02:00");
        assert_eq!(of(&zoned), [Some(1_772_366_400_500.0)]);
    }

    #[test]
    fn moments_are_read_from_text() {
        assert_eq!(moment("2026-03-01 12:00:00.5"), Some(1_772_366_400_500.0));
        assert_eq!(moment("2026-03-01T12:00:00Z"), Some(1_772_366_400_000.0));
        assert_eq!(
            moment("2026-03-01 14:00:00+02:00"),
            Some(1_772_366_400_000.0)
        );
        assert_eq!(moment("soon"), None);
    }

    #[test]
    fn whole_columns_hold_whole_numbers() {
        let mut run = example();
        let odd = [Some(f64::NAN), Some(-1.0), Some(0.5), Some(5e9), Some(7.0)];
        run.insert("skipped", Column::from_options(odd));
        run.insert("nan", Column::from_values(vec![f64::NAN; 5]));
        let (_folder, path) = saved(&run, "run.parquet");
        let back = read_file(&path).expect("read");
        let column = back.column("skipped").expect("one value is left");
        assert_eq!(
            column.iter().collect::<Vec<_>>(),
            [None, None, None, None, Some(7.0)]
        );
        assert!(back.column("nan").is_none());
    }
}
