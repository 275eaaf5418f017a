//! What is drawn over all panels: incidents, attempts, checkpoints, and what the plan says.

use std::fmt::Write;

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::report::figure::reduce::Grid;
use crate::report::words::{goes_on, span};

/// Something at a step, or between two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What it is.
    pub kind: MarkKind,
    /// Its step, or its first one.
    pub from: u64,
    /// Its last step; the same where it has no length.
    pub to: u64,
    /// A few words for a label.
    pub label: String,
    /// How many it stands for, where neighbours share a column.
    pub count: usize,
    /// The number of the incident, where it is one's.
    pub incident: Option<usize>,
}

/// The kinds of mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkKind {
    /// An attempt begins.
    Attempt,
    /// A checkpoint, or several within a column.
    Checkpoint,
    /// An incident from its onset to its return, or to where its signal was last away.
    Incident,
    /// Batches to leave out.
    Skip,
    /// The checkpoint to go back to.
    Chosen,
    /// The first departure.
    Onset,
    /// The highest value.
    Peak,
    /// The signal was back.
    Return,
    /// The gradient norm was back.
    GradReturn,
}

impl MarkKind {
    /// The name for a legend.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attempt => "attempt begins",
            Self::Checkpoint => "checkpoint",
            Self::Incident => "incident",
            Self::Skip => "skip",
            Self::Chosen => "checkpoint to go back to",
            Self::Onset => "onset",
            Self::Peak => "peak",
            Self::Return => "back",
            Self::GradReturn => "gradient norm back",
        }
    }
}

fn mark(kind: MarkKind, from: u64, to: u64, label: String) -> Mark {
    Mark {
        kind,
        from,
        to,
        label,
        count: 1,
        incident: None,
    }
}

/// Marks of a stretch of the run.
pub(super) fn of_run(d: &Diagnosis, from: u64, to: u64, columns: usize) -> Vec<Mark> {
    let mut out = timeline(d, from, to, columns);
    out.extend(d.incidents.iter().map(|x| extent(d, x)));
    sorted(out, from, to)
}

/// An incident as a stretch of the axis.
fn extent(d: &Diagnosis, x: &Diagnosed) -> Mark {
    let i = &x.incident;
    let at = |row: usize| d.run.steps.get(row).copied();
    let onset = at(i.onset_row).unwrap_or(0);
    let end = i.return_row.or_else(|| i.end_row.checked_sub(1));
    let end = end.and_then(at).unwrap_or(onset).max(onset);
    let label = format!("incident {}: {}, {}", x.id, i.kind.name(), i.shape.name());
    Mark {
        incident: Some(x.id),
        ..mark(MarkKind::Incident, onset, end, label)
    }
}

/// Marks of an incident and of what its plan says.
pub(super) fn of_incident(
    d: &Diagnosis,
    x: &Diagnosed,
    (from, to): (u64, u64),
    columns: usize,
) -> Vec<Mark> {
    let mut out = timeline(d, from, to, columns);
    let i = &x.incident;
    let mut point = |kind: MarkKind, row: Option<usize>| {
        if let Some(step) = row.and_then(|r| d.run.steps.get(r)) {
            let label = format!("{} {step}", kind.name());
            let incident = Some(x.id);
            out.push(Mark {
                incident,
                ..mark(kind, *step, *step, label)
            });
        }
    };
    point(MarkKind::Onset, Some(i.onset_row));
    point(MarkKind::Peak, i.peak_row);
    point(MarkKind::Return, i.return_row);
    if i.signal == "loss" {
        point(MarkKind::GradReturn, i.grad_return_row);
    }
    if i.return_is_bound {
        let back = out.iter_mut().filter(|m| m.kind == MarkKind::Return);
        back.for_each(|m| m.label.push_str(" at the latest"));
    }
    if let Some(back) = &x.plan.rollback {
        out.retain(|m| m.kind != MarkKind::Checkpoint || m.count > 1 || m.from != back.step);
        let label = format!("way back: checkpoint {}", back.step);
        out.push(mark(MarkKind::Chosen, back.step, back.step, label));
    }
    // What no renderer tells of is not drawn.
    let skip = x.plan.skip.iter().filter(|_| goes_on(&x.plan));
    for (a, b) in skip.flat_map(|s| &s.steps) {
        let label = format!("skip {}", span(*a, *b));
        out.push(mark(MarkKind::Skip, *a, *b, label));
    }
    // Other incidents within the window are told, too: they explain what a reader sees.
    let others = d.incidents.iter().filter(|o| o.id != x.id);
    let others = others.filter(|o| o.incident.attempt == i.attempt);
    out.extend(others.map(|o| extent(d, o)));
    sorted(out, from, to)
}

/// Attempts and checkpoints between two steps.
fn timeline(d: &Diagnosis, from: u64, to: u64, columns: usize) -> Vec<Mark> {
    let mut out = Vec::new();
    for a in d.run.attempts.iter().skip(1) {
        let Some(step) = d.run.steps.get(a.rows.start) else {
            continue;
        };
        // Attempts that begin at one step are one mark.
        match out.iter_mut().find(|m: &&mut Mark| m.from == *step) {
            Some(m) if m.count == 1 => {
                let first = m.label.split(':').next().unwrap_or_default();
                m.label = format!("{}, {}", first.replacen("attempt", "attempts", 1), a.index);
                m.count = 2;
            }
            Some(m) => {
                let _ = write!(m.label, ", {}", a.index);
                m.count += 1;
            }
            None => {
                let label = format!("attempt {}: {}", a.index, a.began.words());
                out.push(mark(MarkKind::Attempt, *step, *step, label));
            }
        }
    }
    let grid = Grid::new(from, to, columns);
    let mut column = None;
    let all = &d.inventory.checkpoints;
    let inside = all.iter().filter(|c| c.torn.is_none());
    for c in inside.filter(|c| (from..=to).contains(&c.step)) {
        let at = grid.column(c.step);
        match out.last_mut() {
            Some(m) if m.kind == MarkKind::Checkpoint && column == Some(at) => {
                m.count += usize::from(m.to != c.step);
                m.to = c.step;
                m.label = format!("{} checkpoints {}", m.count, span(m.from, m.to));
            }
            _ => {
                let label = format!("checkpoint {}", c.step);
                out.push(mark(MarkKind::Checkpoint, c.step, c.step, label));
            }
        }
        column = Some(at);
    }
    for m in &mut out {
        if m.kind == MarkKind::Checkpoint && m.count == 1 {
            m.label = format!("checkpoint {}", m.from);
        }
    }
    out
}

/// The marks that touch the axis, in order.
fn sorted(mut marks: Vec<Mark>, from: u64, to: u64) -> Vec<Mark> {
    marks.retain(|m| m.to >= from && m.from <= to);
    let order = |m: &Mark| (m.from, m.kind, m.incident, m.to);
    marks.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.label.cmp(&b.label)));
    marks
}
