//! Two jobs that append to one log at the same time, as after a requeue while the old job still runs.

use crate::run::{EventKind, Rows};

/// Rows of the one job between rows of the other before they are believed to be two: a single one may be a hole.
const TURNS: usize = 3;
/// How much further apart than usual two rows of one job may be.
const STRETCH: u64 = 2;

/// Puts the rows of the job that began first before those of the other, and marks where the other starts.
pub(super) fn part(rows: &mut Rows) {
    let mut order: Vec<usize> = Vec::new();
    let mut starts = Vec::new();
    for region in regions(&rows.steps) {
        order.extend(order.len()..region.first);
        let turn = |second: bool| {
            let flags = region.second.iter().enumerate();
            flags
                .filter(move |(_, s)| **s == second)
                .map(|(at, _)| region.first + at)
        };
        order.extend(turn(false));
        starts.push(order.len());
        order.extend(turn(true));
    }
    if starts.is_empty() {
        return;
    }
    order.extend(order.len()..rows.steps.len());
    rearrange(rows, &order);
    for start in &starts {
        begin_at(rows, *start);
    }
    rows.marks.sort_by_key(|m| m.row);
    let what = "two jobs wrote into this log at the same time: their rows were parted";
    rows.lose("", what);
}

fn rearrange(rows: &mut Rows, order: &[usize]) {
    let mut place = vec![0; order.len()];
    for (at, row) in order.iter().enumerate() {
        place[*row] = at;
    }
    rows.steps = order.iter().map(|row| rows.steps[*row]).collect();
    for slot in 0..rows.columns().count() {
        *rows.column_mut(slot) = rows.column(slot).take(order);
    }
    for mark in &mut rows.marks {
        mark.row = place.get(mark.row).copied().unwrap_or(mark.row);
    }
}

/// Marks a start before a row unless one is marked there.
fn begin_at(rows: &mut Rows, row: usize) {
    let starts = |kind| matches!(kind, EventKind::Start | EventKind::Loaded);
    if rows.marks.iter().any(|m| m.row == row && starts(m.kind)) {
        return;
    }
    rows.mark(EventKind::Start, None, None);
    if let Some(mark) = rows.marks.last_mut() {
        mark.row = row;
    }
}

/// Rows that two jobs wrote by turns, up to where one of them is alone.
struct Region {
    first: usize,
    /// For each row whether it is of the second job.
    second: Vec<bool>,
}

fn regions(steps: &[u64]) -> Vec<Region> {
    let mut out = Vec::new();
    let near = usual_gap(steps).saturating_mul(STRETCH);
    let mut from = 1;
    while let Some(back) = (from..steps.len()).find(|i| steps[*i] < steps[*i - 1]) {
        let (second, turns) = turns(&steps[back..], steps[back - 1], near);
        from = back + second.len();
        if turns >= TURNS {
            out.push(Region {
                first: back,
                second,
            });
        }
    }
    out
}

/// Gives each row to the job that it follows, up to one that follows neither, and counts how often the first job comes
/// back between rows of the second. The first row is of the second job.
fn turns(steps: &[u64], mut first: u64, near: u64) -> (Vec<bool>, usize) {
    let mut last = steps[0];
    let (mut second, mut turns) = (vec![true], 0);
    let follows = |before: u64, step: u64| step > before && step - before <= near;
    for step in &steps[1..] {
        let before = second.last() == Some(&true);
        let of_second = *step == last || follows(last, *step);
        let of_first = *step == first || follows(first, *step);
        if !of_second && !of_first {
            break;
        }
        // Where both fit, the job that wrote last goes on.
        let of_second = of_second && (before || !of_first);
        turns += usize::from(before && !of_second);
        if of_second {
            last = *step;
        } else {
            first = *step;
        }
        second.push(of_second);
    }
    (second, turns)
}

/// The usual distance between rows that follow each other.
fn usual_gap(steps: &[u64]) -> u64 {
    let gaps = steps.windows(2).filter_map(|w| w[1].checked_sub(w[0]));
    let mut gaps: Vec<u64> = gaps.filter(|g| *g > 0).collect();
    if gaps.is_empty() {
        return 1;
    }
    // Half of the gaps lead from one job to the other.
    let at = gaps.len() / 4;
    *gaps.select_nth_unstable(at).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Column;

    fn rows(steps: &[u64]) -> Rows {
        let mut rows = Rows::default();
        rows.steps.extend_from_slice(steps);
        rows.put(
            "loss",
            Column::from_values(steps.iter().map(|s| *s as f64).collect()),
        );
        rows
    }

    fn parted(steps: &[u64]) -> Vec<u64> {
        let mut rows = rows(steps);
        part(&mut rows);
        let losses: Vec<u64> = rows.column(0).raw().iter().map(|v| *v as u64).collect();
        assert_eq!(losses, rows.steps, "values go with their steps");
        rows.steps
    }

    #[test]
    fn the_old_job_and_the_requeued_one_are_told_apart() {
        let log = [
            1480, 1490, 1500, 1010, 1510, 1020, 1520, 1030, 1530, 1040, 1050, 1060,
        ];
        let mut r = rows(&log);
        r.mark(EventKind::Saved, Some(1530), None);
        r.marks[0].row = 9;
        part(&mut r);
        assert_eq!(
            r.steps,
            [
                1480, 1490, 1500, 1510, 1520, 1530, 1010, 1020, 1030, 1040, 1050, 1060
            ]
        );
        let marks: Vec<_> = r.marks.iter().map(|m| (m.row, m.kind)).collect();
        assert_eq!(marks, [(6, EventKind::Start), (9, EventKind::Saved)]);
        assert_eq!(r.losses.len(), 1);
    }

    #[test]
    fn the_requeued_job_goes_on_past_the_old_one() {
        let log = [10, 20, 30, 5, 40, 15, 50, 25, 60, 35, 45, 55, 65, 75];
        assert_eq!(
            parted(&log),
            [10, 20, 30, 40, 50, 60, 5, 15, 25, 35, 45, 55, 65, 75]
        );
    }

    #[test]
    fn restarts_holes_and_one_job_stay_as_they_are() {
        for log in [
            &[1, 2, 3, 4][..],
            &[10, 20, 30, 20, 30, 40, 30, 40, 50],
            &[10, 20, 30, 10, 20, 40, 50, 60],
            &[100, 110, 120, 100, 130, 140, 150],
            &[10, 20, 30, 10, 20, 30, 10, 20, 30],
            &[5, 5, 6, 6, 7, 7],
            &[],
        ] {
            assert_eq!(parted(log), log);
        }
    }
}
