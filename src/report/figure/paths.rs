//! Which rows are the line that a figure is about, and which are branches that left it.

use std::ops::Range;

use crate::report::figure::Role;
use crate::run::Run;

/// Branches that a figure draws, and how often they may cover its axis; of more, the newest.
const MOST_BRANCHES: usize = 256;
const MOST_COVERS: u64 = 12;

/// Rows in order of step: the line, and other attempts over the same steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Paths {
    /// The rows of each attempt that the line goes through, in order.
    pub(super) line: Vec<Range<usize>>,
    /// What other attempts logged of the same steps, the oldest first.
    pub(super) branches: Vec<Branch>,
    /// Branches that are left out.
    pub(super) more: usize,
}

/// The rows of an attempt that are not part of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) attempt: u32,
    pub(super) role: Role,
    pub(super) rows: Range<usize>,
}

impl Paths {
    /// The line that ends in the newest attempt.
    pub(super) fn newest(run: &Run) -> Self {
        Self::of(run, run.attempts.len().saturating_sub(1) as u32)
    }

    /// The line that ends in an attempt: its rows, and before its first step what earlier ones had kept.
    pub(super) fn of(run: &Run, attempt: u32) -> Self {
        let mut out = Self::default();
        let mut first = u64::MAX;
        for a in run.attempts.iter().rev() {
            if a.index > attempt {
                out.branch(a.index, Role::Later, a.rows.clone());
                continue;
            }
            let kept = run.steps[a.rows.clone()].partition_point(|s| *s < first);
            let middle = a.rows.start + kept;
            out.branch(a.index, Role::Superseded, middle..a.rows.end);
            if kept > 0 {
                out.line.push(a.rows.start..middle);
                first = run.steps[a.rows.start];
            }
        }
        out.line.reverse();
        out.branches.reverse();
        out
    }

    fn branch(&mut self, attempt: u32, role: Role, rows: Range<usize>) {
        if !rows.is_empty() {
            self.branches.push(Branch {
                attempt,
                role,
                rows,
            });
        }
    }

    /// The rows between two steps.
    pub(super) fn within(mut self, run: &Run, from: u64, to: u64) -> Self {
        let cut = |rows: &Range<usize>| {
            let steps = &run.steps[rows.clone()];
            let a = steps.partition_point(|s| *s < from);
            let b = steps.partition_point(|s| *s <= to);
            rows.start + a..rows.start + b
        };
        self.line = self
            .line
            .iter()
            .map(cut)
            .filter(|r| !r.is_empty())
            .collect();
        for branch in &mut self.branches {
            branch.rows = cut(&branch.rows);
        }
        self.branches.retain(|b| !b.rows.is_empty());
        let room = (to - from).saturating_add(1).saturating_mul(MOST_COVERS);
        let mut covered = 0_u64;
        let newest = self.branches.iter().rev().take(MOST_BRANCHES);
        let fit = newest.take_while(|b| {
            let steps = run.steps[b.rows.end - 1] - run.steps[b.rows.start];
            covered = covered.saturating_add(steps);
            covered <= room
        });
        self.more = self.branches.len() - fit.count();
        self.branches.drain(..self.more);
        self
    }

    /// The rows of the line.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.line.iter().flat_map(Clone::clone)
    }
}
