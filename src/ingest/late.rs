//! Values on lines of their own that belong to the row before or after them, which may be in another chunk.

use crate::run::EventKind;
use crate::run::Rows;

/// Starts the paths of marks that carry a value until the whole log is known.
const LAST: &str = "\u{1}last ";
const NEXT: &str = "\u{1}next ";
/// The kind of such marks.
const CARRIER: EventKind = EventKind::BatchSize;

/// A value of the last row.
pub(super) fn of_last(rows: &mut Rows, name: &str, value: f64) {
    if rows.steps.is_empty() {
        carry(rows, LAST, name, value);
    } else {
        let slot = rows.slot(name);
        rows.set(slot, value);
    }
}

/// A value of the next row. Of several, the first counts.
pub(super) fn of_next(rows: &mut Rows, name: &str, value: f64) {
    carry(rows, NEXT, name, value);
}

fn carry(rows: &mut Rows, whose: &str, name: &str, value: f64) {
    rows.mark(CARRIER, None, Some(format!("{whose}{value:?} {name}")));
}

/// Puts the values into their rows.
pub(super) fn settle(rows: &mut Rows) {
    let mut carried = Vec::new();
    rows.marks.retain(|m| {
        let path = m.path.as_deref().filter(|_| m.kind == CARRIER);
        let last = path.and_then(|p| p.strip_prefix(LAST));
        let next = path.and_then(|p| p.strip_prefix(NEXT));
        let row = if last.is_some() {
            m.row.checked_sub(1)
        } else {
            Some(m.row)
        };
        let Some(text) = last.or(next) else {
            return true;
        };
        if let (Some(row), Some((value, name))) = (row, text.split_once(' ')) {
            let value = value.parse::<f64>().ok();
            carried.extend(value.map(|v| (row, name.to_owned(), v)));
        }
        false
    });
    for (row, name, value) in carried {
        if row >= rows.steps.len() {
            continue;
        }
        let slot = rows.slot(&name);
        if rows.column(slot).get(row).is_none() {
            rows.column_mut(slot).set(row, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_find_their_rows_over_chunks() {
        let mut first = Rows::default();
        first.begin(10);
        of_last(&mut first, "a", 1.0);
        of_next(&mut first, "b", f64::NAN);
        let mut second = Rows::default();
        of_last(&mut second, "c", 3.0);
        second.begin(20);
        of_next(&mut second, "f", 6.0);
        first.append(second);
        settle(&mut first);
        let get = |name: &str, row| first.find(name).and_then(|s| first.column(s).get(row));
        assert_eq!((get("a", 0), get("c", 0)), (Some(1.0), Some(3.0)));
        assert!(get("b", 1).is_some_and(f64::is_nan));
        assert!(first.find("f").is_none());
        assert!(first.marks.is_empty());
    }
}
