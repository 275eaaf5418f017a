//! Step to samples and back: which samples an update read.

use crate::run::{Attempt, Run};

/// Half-open range of samples.
pub type Samples = (u64, u64);

/// Cumulative samples along an attempt, at updates counted from 1.
#[derive(Debug, Clone)]
pub struct DataOrder {
    /// Updates done and samples read by then, in order.
    points: Vec<(u64, u64)>,
    /// Whether samples were logged, rather than summed up from batch sizes.
    pub logged: bool,
}

impl DataOrder {
    /// From the logged count of samples, or summed up from batch sizes where the log begins with the run.
    pub fn of(run: &Run, attempt: &Attempt) -> Option<Self> {
        let rows = crate::detect::lineage(run, attempt).0;
        Self::from_samples(run, &rows).or_else(|| Self::from_batches(run, &rows))
    }

    fn from_samples(run: &Run, rows: &[usize]) -> Option<Self> {
        let column = run.column("consumed_samples")?;
        let mut points: Vec<(u64, u64)> = Vec::with_capacity(rows.len() + 1);
        for row in rows {
            if let Some(samples) = column.finite(*row).filter(|s| *s >= 0.0) {
                let update = run.updates_after(run.steps[*row]);
                if points.last().is_none_or(|(u, _)| *u < update) {
                    points.push((update, samples as u64));
                }
            }
        }
        // A counter that begins anew, each epoch or after a restart, names other samples by the same numbers: only what
        // it counted since then can be told.
        let fell = points.windows(2).rposition(|w| w[1].1 < w[0].1);
        if let Some(at) = fell {
            points.drain(..=at);
        } else if let Some(start) = start_point(&points) {
            points.insert(0, start);
        }
        (points.len() >= 2).then_some(Self {
            points,
            logged: true,
        })
    }

    fn from_batches(run: &Run, rows: &[usize]) -> Option<Self> {
        let column = run.column("global_batch_size")?;
        let first = run.updates_after(run.steps[*rows.first()?]);
        if first > run.spacing() + 1 {
            return None;
        }
        let (mut update, mut samples) = (0, 0);
        let mut points = vec![(0, 0)];
        for row in rows {
            let batch = column.finite(*row).filter(|b| *b >= 1.0)? as u64;
            let now = run.updates_after(run.steps[*row]);
            samples += batch * now.saturating_sub(update);
            update = now;
            points.push((update, samples));
        }
        Some(Self {
            points,
            logged: false,
        })
    }

    /// Samples read once `update` is done; linear between logged points, and on from the last two.
    fn read_by(&self, update: u64, up: bool) -> Option<u64> {
        let at = self.points.partition_point(|(u, _)| *u < update);
        if let Some((u, s)) = self.points.get(at)
            && *u == update
        {
            return Some(*s);
        }
        let upper = at.clamp(1, self.points.len() - 1);
        let ((u0, s0), (u1, s1)) = (self.points[upper - 1], self.points[upper]);
        if update < u0 || s1 < s0 {
            return None;
        }
        let part = u128::from(s1 - s0) * u128::from(update - u0);
        let span = u128::from(u1 - u0);
        let inside = if up { part.div_ceil(span) } else { part / span };
        Some(s0 + u64::try_from(inside).ok()?)
    }

    /// The samples that updates `first..=last` read, rounded outwards where the log has no exact point.
    pub fn samples_of(&self, first: u64, last: u64) -> Option<Samples> {
        let from = self.read_by(first.checked_sub(1)?, false)?;
        let until = self.read_by(last, true)?;
        (from < until).then_some((from, until))
    }

    /// The update that reads a sample.
    pub fn update_of(&self, sample: u64) -> Option<u64> {
        let at = self.points.partition_point(|(_, s)| *s <= sample);
        if at == 0 || at >= self.points.len() {
            return None;
        }
        let ((u0, s0), (u1, s1)) = (self.points[at - 1], self.points[at]);
        let part = u128::from(sample - s0) * u128::from(u1 - u0);
        Some(u0 + 1 + u64::try_from(part / u128::from((s1 - s0).max(1))).ok()?)
    }

    /// Samples of one update at or after an update.
    pub fn batch_at(&self, update: u64) -> Option<u64> {
        let (from, until) = self.samples_of(update, update)?;
        Some(until - from)
    }
}

/// The start of the run, where the first point fits batches of the size that follows.
fn start_point(points: &[(u64, u64)]) -> Option<(u64, u64)> {
    let [(u0, s0), (u1, s1), ..] = points else {
        return None;
    };
    let batch = s1.checked_sub(*s0)? / (u1 - u0).max(1);
    match u0 {
        0 => return None,
        // The first update of a run begins at its first sample, whatever the next batch is.
        1 => return Some((0, 0)),
        _ => {}
    }
    // A ramp-up leaves another count at the start: then no more than one batch before the first row is claimed.
    if *s0 == batch * u0 {
        Some((0, 0))
    } else {
        s0.checked_sub(batch).map(|s| (u0 - 1, s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(points: &[(u64, u64)]) -> DataOrder {
        DataOrder {
            points: points.to_vec(),
            logged: true,
        }
    }

    #[test]
    fn a_ramp_is_followed() {
        let o = order(&[(0, 0), (10, 100), (20, 300)]);
        assert_eq!(o.samples_of(10, 11), Some((90, 120)));
        assert_eq!(o.update_of(100), Some(11));
        assert_eq!(o.update_of(99), Some(10));
    }

    #[test]
    fn ranges_round_outwards_between_points() {
        let o = order(&[(0, 0), (3, 10)]);
        assert_eq!(o.samples_of(2, 2), Some((3, 7)));
    }

    #[test]
    fn the_start_is_claimed_only_where_it_fits() {
        assert_eq!(start_point(&[(2, 24), (4, 48)]), Some((0, 0)));
        assert_eq!(
            start_point(&[(31_214, 47_768_496), (31_215, 47_770_544)]),
            Some((31_213, 47_766_448))
        );
    }
}
