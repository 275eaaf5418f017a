//! Joins tables that hold different metrics of the same steps into one: each start of the trainer by itself.

use std::ops::Range;

use crate::run::align::align;
use crate::run::builder::milliseconds;
use crate::run::join::{Piece, is_shared};
use crate::run::rows::Mark;
use crate::run::{Column, DataLoss, EventKind, Rows};

/// Rows over which the step does not fall, from one start of the trainer or step back to the next.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub(super) rows: Range<usize>,
    /// Whether a mark of a start stands before it.
    started: bool,
}

/// The stretches of a table.
pub(super) fn stretches(rows: &Rows) -> Vec<Stretch> {
    let start = |m: &&Mark| matches!(m.kind, EventKind::Start | EventKind::Loaded);
    let mut marked: Vec<usize> = rows.marks.iter().filter(start).map(|m| m.row).collect();
    marked.sort_unstable();
    let steps = &rows.steps;
    let is_marked = |row: usize| marked.binary_search(&row).is_ok();
    let begins = |row: &usize| *row == 0 || steps[*row] < steps[row - 1] || is_marked(*row);
    let starts: Vec<usize> = (0..steps.len()).filter(begins).collect();
    let ends = starts.iter().skip(1).copied().chain([steps.len()]);
    let both = starts.iter().copied().zip(ends);
    both.map(|(from, to)| Stretch {
        rows: from..to,
        started: is_marked(from),
    })
    .collect()
}

/// A stretch of the joined table.
#[derive(Debug)]
struct Joint {
    /// Steps of all parts so far, in order, each once.
    steps: Vec<u64>,
    /// When it begins; NaN if that is not logged.
    time: f64,
    started: bool,
    parts: Vec<Part>,
}

/// Rows of a table in a joint stretch.
#[derive(Debug)]
struct Part {
    table: usize,
    rows: Range<usize>,
}

/// Joins tables, the one that goes before in what they share first. Attempts are those of the first; what another has
/// before or after is put into attempts of its own.
pub(super) fn zip(pieces: Vec<Piece>) -> Piece {
    let mut joints: Vec<Joint> = Vec::new();
    for (table, piece) in pieces.iter().enumerate() {
        let stretches = stretches(&piece.rows);
        let places = place(&piece.rows, &stretches, &joints);
        insert(table, &piece.rows, &stretches, &places, &mut joints);
    }
    fill(pieces, &joints)
}

/// Joint stretches beside its match that rows of a stretch may belong to.
const FAR: usize = 64;

/// Rows of a stretch and the joint stretch that they belong to; none where there is no match.
type Placed = Vec<(Range<usize>, Option<usize>)>;

fn place(rows: &Rows, stretches: &[Stretch], joints: &[Joint]) -> Vec<Placed> {
    if joints.is_empty() {
        return stretches
            .iter()
            .map(|s| vec![(s.rows.clone(), None)])
            .collect();
    }
    if stretches.len() != joints.len()
        && let Some(times) = rows.times()
        && joints.iter().all(|j| j.time.is_finite())
        && times
            .present()
            .any(|(_, t)| milliseconds(t) >= joints[0].time)
    {
        return stretches
            .iter()
            .map(|s| by_time(s, times, joints))
            .collect();
    }
    by_steps(&rows.steps, stretches, joints)
}

/// Rows by the time at which they were logged. One that is logged before the first row of a start is that start's.
fn by_time(stretch: &Stretch, times: &Column, joints: &[Joint]) -> Placed {
    let mut out: Placed = Vec::new();
    let mut at = 0;
    for row in stretch.rows.clone() {
        if let Some(time) = times.finite(row) {
            let after = joints.partition_point(|j| j.time <= milliseconds(time));
            at = at.max(after.saturating_sub(1));
        }
        push(&mut out, row, at);
    }
    out
}

/// Stretches by the steps that they have in common; rows outside of their match by the neighbour that has them.
fn by_steps(steps: &[u64], stretches: &[Stretch], joints: &[Joint]) -> Vec<Placed> {
    let mine: Vec<&[u64]> = stretches.iter().map(|s| &steps[s.rows.clone()]).collect();
    let theirs: Vec<&[u64]> = joints.iter().map(|j| j.steps.as_slice()).collect();
    let matches = align(&mine, &theirs);
    let mut out = Vec::with_capacity(stretches.len());
    for (at, stretch) in stretches.iter().enumerate() {
        let Some(joint) = matches[at] else {
            out.push(vec![(stretch.rows.clone(), None)]);
            continue;
        };
        let free_from = matches[..at]
            .iter()
            .flatten()
            .next_back()
            .map_or(0, |j| j + 1);
        let free_to = matches[at + 1..]
            .iter()
            .flatten()
            .next()
            .copied()
            .unwrap_or(joints.len());
        out.push(spread(steps, stretch, joint, free_from..free_to, joints));
    }
    out
}

/// The rows of a stretch over its match and the joint stretches around it that no other stretch matches: a start that
/// this table does not show, since it has no row that was logged again.
fn spread(
    steps: &[u64],
    stretch: &Stretch,
    joint: usize,
    free: Range<usize>,
    joints: &[Joint],
) -> Placed {
    let free = free.start.max(joint.saturating_sub(FAR))..free.end.min(joint + FAR);
    let first = |j: &usize| joints[*j].steps.first().copied().unwrap_or(0);
    let last = |j: &usize| joints[*j].steps.last().copied().unwrap_or(u64::MAX);
    let at = |step: u64| {
        if step < first(&joint) {
            let found = (free.start..joint).rev().find(|j| first(j) <= step);
            found.unwrap_or(free.start.min(joint))
        } else if step > last(&joint) {
            let found = (joint..free.end).find(|j| step <= last(j));
            found.unwrap_or(free.end - 1)
        } else {
            joint
        }
    };
    let mut out: Placed = Vec::new();
    for row in stretch.rows.clone() {
        push(&mut out, row, at(steps[row]));
    }
    out
}

/// Adds a row to the rows before it if it stands in the same joint stretch.
fn push(out: &mut Placed, row: usize, at: usize) {
    match out.last_mut() {
        Some((rows, Some(last))) if *last == at => rows.end = row + 1,
        _ => out.push((row..row + 1, Some(at))),
    }
}

/// Adds the rows of a table to the joint stretches. A stretch without a match becomes one of its own, behind that of the
/// stretch before it.
fn insert(
    table: usize,
    rows: &Rows,
    stretches: &[Stretch],
    places: &[Placed],
    joints: &mut Vec<Joint>,
) {
    let times = rows.times();
    // How many were put in before each, so that the places still hold.
    let mut behind = 0;
    let mut added = 0;
    for (stretch, placed) in stretches.iter().zip(places) {
        for (range, at) in placed {
            let part = Part {
                table,
                rows: range.clone(),
            };
            let steps = &rows.steps[range.clone()];
            if let Some(at) = at {
                let joint = &mut joints[at + added];
                joint.steps.extend_from_slice(steps);
                joint.steps.sort_unstable();
                joint.steps.dedup();
                joint.parts.push(part);
                behind = at + added + 1;
                continue;
            }
            let mut steps = steps.to_vec();
            steps.dedup();
            let time = times.and_then(|t| range.clone().find_map(|row| t.finite(row)));
            let joint = Joint {
                steps,
                time: time.map_or(f64::NAN, milliseconds),
                started: stretch.started,
                parts: vec![part],
            };
            joints.insert(behind, joint);
            added += usize::from(table > 0);
            behind += 1;
        }
    }
}

/// The joined table.
fn fill(pieces: Vec<Piece>, joints: &[Joint]) -> Piece {
    let mut out = Rows::default();
    let mut places: Vec<Vec<usize>> = pieces.iter().map(|p| vec![0; p.rows.steps.len()]).collect();
    let mut starts = Vec::new();
    for joint in joints {
        let before = out.steps.len();
        out.steps.extend_from_slice(&joint.steps);
        if joint.started {
            starts.push(before);
        }
        for part in &joint.parts {
            let steps = &pieces[part.table].rows.steps;
            for row in part.rows.clone() {
                places[part.table][row] = before + joint.steps.partition_point(|s| *s < steps[row]);
            }
        }
    }
    let mut paths = Vec::new();
    for (piece, places) in pieces.into_iter().zip(&places) {
        take_over(piece, places, &mut out, &mut paths);
    }
    for row in starts {
        out.marks.push(Mark {
            row,
            kind: EventKind::Start,
            step: None,
            path: None,
        });
    }
    out.marks.sort_by_key(|m| m.row);
    Piece { paths, rows: out }
}

/// Puts a table into the joined one. What stands there already goes before.
fn take_over(mut piece: Piece, places: &[usize], out: &mut Rows, paths: &mut Vec<String>) {
    let len = out.steps.len();
    let source = piece.paths.first().cloned().unwrap_or_default();
    let mut differ = 0_usize;
    for (name, column) in piece.rows.take_columns() {
        let slot = out.slot(&name);
        let wide = out.column_mut(slot);
        for (row, value) in column.present() {
            match wide.get(places[row]) {
                None => wide.set(places[row], value),
                Some(have) => {
                    differ += usize::from(have.to_bits() != value.to_bits() && !is_shared(&name));
                }
            }
        }
        wide.pad(len);
    }
    let restart = |m: &Mark| matches!(m.kind, EventKind::Start);
    let marks = std::mem::take(&mut piece.rows.marks)
        .into_iter()
        .filter(|m| !restart(m));
    out.marks.extend(marks.map(|m| Mark {
        row: places.get(m.row).copied().unwrap_or(len),
        ..m
    }));
    if differ > 0 {
        let first = paths.first().cloned().unwrap_or_default();
        piece.rows.lose(
            "",
            format!(
                "{differ} values are others than those of {first} at the same step, which were kept"
            ),
        );
    }
    out.losses
        .extend(piece.rows.losses.into_iter().map(|l| DataLoss {
            source: if l.source.is_empty() {
                source.clone()
            } else {
                l.source
            },
            ..l
        }));
    for (key, value) in piece.rows.facts {
        out.facts.entry(key).or_insert(value);
    }
    out.run = out.run.take().or(piece.rows.run);
    paths.extend(piece.paths);
}
