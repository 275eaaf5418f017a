//! Batches left out by a loop whose counter goes on: the later attempt has no rows for steps that the earlier one has.

use crate::replay::Data;
use crate::run::Run;

/// Steps that a hole has at least: single lines get lost.
const FEWEST: u64 = 2;
/// Rows after a hole whose losses tell whether the steps in it were made after all.
const AFTER: usize = 10;

/// The longest such hole, if the positions in the data agree around it. Where the losses after it are those of the earlier
/// attempt to the last digit, the steps were made, and only their lines are lost.
pub(super) fn left_out(run: &Run, pairs: &[(usize, usize)]) -> Option<Data> {
    let samples = run.column("consumed_samples")?;
    let agree = |(a, b): (usize, usize)| {
        let (a, b) = (samples.finite(a)?, samples.finite(b)?);
        ((a - b).abs() < 0.5).then_some(a)
    };
    let holes = pairs.windows(2).enumerate().filter_map(|(n, w)| {
        let (before, after) = (w[0], w[1]);
        let missing = after.0 - before.0 - 1;
        let steps = run.steps[after.0] - run.steps[before.0];
        // The later attempt goes on in its very next row.
        let next = after.1 == before.1 + 1;
        if !next
            || missing == 0
            || steps <= FEWEST.max(run.spacing())
            || same_after(run, &pairs[n + 1..])
        {
            return None;
        }
        let (from, _) = agree(before).zip(agree(after))?;
        let until = samples.finite(after.0 - 1)?;
        Some((run.steps[before.0] + 1, (until - from).max(0.0) as u64))
    });
    let (from_step, samples) = holes.max_by_key(|(_, samples)| *samples)?;
    Some(Data::Skipped { from_step, samples })
}

/// Whether the losses of both attempts are the same number in row after row.
fn same_after(run: &Run, pairs: &[(usize, usize)]) -> bool {
    let Some(loss) = run.column("loss") else {
        return true;
    };
    let both = |(a, b): &(usize, usize)| Some((loss.finite(*a)?, loss.finite(*b)?));
    let rows = pairs.iter().take(AFTER).filter_map(both);
    rows.filter(|(a, b)| a.to_bits() != b.to_bits()).count() == 0
}
