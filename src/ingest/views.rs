//! Views of one run, such as its console beside its event files: which one is the run, and what it takes from others.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::run::Run;

/// How many losses in a hundred a view may lack of those that the fullest has, and still be the run.
const LACKING: usize = 5;
/// Digits behind the point that a reading needs; more tell nothing more.
const ENOUGH: usize = 5;
/// Losses that are looked at for their digits.
const LOOK_AT: usize = 256;

/// The view that is the run: the one with the most losses. Of those with about as many, over the same attempts and no
/// less far, it is one whose numbers are not rounded.
pub(super) fn best(runs: &[Run]) -> Option<usize> {
    let fullness = |at: &usize| {
        (
            losses(&runs[*at]),
            runs[*at].columns().count(),
            Reverse(*at),
        )
    };
    let fullest = (0..runs.len()).max_by_key(fullness)?;
    let near = (0..runs.len()).filter(|at| *at == fullest || as_good(&runs[*at], &runs[fullest]));
    near.max_by_key(|at| (digits(&runs[*at]), fullness(at)))
}

fn losses(run: &Run) -> usize {
    run.column("loss").map_or(0, |c| c.iter().flatten().count())
}

/// Whether nothing of the fullest view would be missed.
fn as_good(run: &Run, fullest: &Run) -> bool {
    // Where a base is not known, what looks like a row less may be none.
    let slack = u64::from(!run.meta.base_known || !fullest.meta.base_known);
    run.attempts.len() == fullest.attempts.len()
        && 100 * losses(run) >= (100 - LACKING) * losses(fullest)
        && reach(run) + slack >= reach(fullest)
}

/// Updates done at the last row with a loss.
fn reach(run: &Run) -> u64 {
    let losses = run.column("loss");
    let last = (0..run.len()).rfind(|row| losses.is_some_and(|c| c.get(*row).is_some()));
    last.map_or(0, |row| run.updates_after(run.steps[row]))
}

/// Digits behind the point of the losses, up to those that are enough.
fn digits(run: &Run) -> usize {
    let Some(column) = run.column("loss") else {
        return 0;
    };
    let behind = |value: f64| {
        let printed = value.to_string();
        printed
            .split_once('.')
            .map_or(0, |(_, digits)| digits.len())
    };
    let every = column.len() / LOOK_AT + 1;
    let finite = column
        .iter()
        .step_by(every)
        .flatten()
        .filter(|v| v.is_finite());
    finite.map(behind).max().unwrap_or(0).min(ENOUGH)
}

/// Joins the views into one run.
pub(super) fn join(mut runs: Vec<Run>) -> Option<Run> {
    let mut run = runs.swap_remove(best(&runs)?);
    for other in &runs {
        run.enrich(other);
    }
    take_framework(&mut run, &runs);
    Some(run)
}

/// A view that names no framework, such as event files, was written by that of another: by the one with the most losses.
fn take_framework(run: &mut Run, others: &[Run]) {
    if run.meta.framework.is_some() {
        return;
    }
    let named = others
        .iter()
        .enumerate()
        .filter(|(_, o)| o.meta.framework.is_some());
    if let Some((_, other)) = named.max_by_key(|(at, o)| (losses(o), Reverse(*at))) {
        run.meta.framework.clone_from(&other.meta.framework);
        let version = other.meta.framework_version.as_ref();
        run.meta.framework_version = version.or(run.meta.framework_version.as_ref()).cloned();
        if !run.meta.base_known && other.meta.base_known && counts_alike(run, other) {
            run.meta.step_base = other.meta.step_base;
            run.meta.base_known = true;
        }
    }
}

/// Whether the losses show that a step has the same number in both: they agree there, and not at the next.
fn counts_alike(run: &Run, other: &Run) -> bool {
    const FEWEST: usize = 3;
    const ROUNDED: f64 = 2e-3;
    let losses = |run: &Run| -> BTreeMap<u64, f64> {
        let last = run.attempts.last().map_or(0..0, |a| a.rows.clone());
        let logged = last.filter_map(|row| Some((run.steps[row], run.value("loss", row)?)));
        logged.filter(|(_, loss)| loss.is_finite()).collect()
    };
    let (mine, theirs) = (losses(run), losses(other));
    let agreeing = |shift: u64| {
        let pairs = mine
            .iter()
            .filter_map(|(step, a)| Some((a, theirs.get(&(step + shift))?)));
        let (mut common, mut alike) = (0_usize, 0_usize);
        for (a, b) in pairs {
            common += 1;
            alike += usize::from((a - b).abs() <= ROUNDED * b.abs());
        }
        (common, alike)
    };
    let ((common, alike), (_, shifted)) = (agreeing(0), agreeing(1));
    common >= FEWEST && 10 * alike >= 9 * common && 2 * shifted < alike
}
