//! Which starts of the trainer in one table are those of another, by the steps that both have.

/// Steps of a stretch that are looked at.
const LOOKED_AT: usize = 64;
/// Pairs of stretches that are weighed against each other. More are matched in order.
const MOST_PAIRS: usize = 4_000_000;

/// The match of each stretch of steps among others, each at most once and in order; none where no steps fit. As many
/// stretches on both sides are the same starts.
pub(super) fn align(mine: &[&[u64]], theirs: &[&[u64]]) -> Vec<Option<usize>> {
    if mine.len() == theirs.len() {
        return (0..mine.len()).map(Some).collect();
    }
    if mine.len().saturating_mul(theirs.len()) > MOST_PAIRS {
        return (0..mine.len())
            .map(|at| (at < theirs.len()).then_some(at))
            .collect();
    }
    let width = theirs.len() + 1;
    let mut best = vec![0_u64; (mine.len() + 1) * width];
    for (i, a) in mine.iter().enumerate() {
        for (j, b) in theirs.iter().enumerate() {
            let matched = best[i * width + j] + likeness(a, b);
            let either = best[i * width + j + 1].max(best[(i + 1) * width + j]);
            best[(i + 1) * width + j + 1] = matched.max(either);
        }
    }
    // From the end: where several fit equally, the later ones, as for a metric that was logged only later.
    let mut out = vec![None; mine.len()];
    let (mut i, mut j) = (mine.len(), theirs.len());
    while i > 0 && j > 0 {
        let here = best[i * width + j];
        let like = likeness(mine[i - 1], theirs[j - 1]);
        if like > 0 && here == best[(i - 1) * width + j - 1] + like {
            out[i - 1] = Some(j - 1);
            (i, j) = (i - 1, j - 1);
        } else if here == best[i * width + j - 1] {
            j -= 1;
        } else {
            i -= 1;
        }
    }
    out
}

/// How well two stretches fit: steps of the first that the second has, then steps that lie within its range.
fn likeness(a: &[u64], b: &[u64]) -> u64 {
    let (Some(first), Some(last)) = (b.first(), b.last()) else {
        return 0;
    };
    let every = a.len().div_ceil(LOOKED_AT).max(1);
    let looked = a.iter().step_by(every);
    let weigh = |step: &u64| {
        if b.binary_search(step).is_ok() {
            4
        } else {
            u64::from((first..=last).contains(&step))
        }
    };
    looked.map(weigh).sum::<u64>() * every as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64, every: usize) -> Vec<u64> {
        (from..=to).step_by(every).collect()
    }

    fn matched(mine: &[Vec<u64>], theirs: &[Vec<u64>]) -> Vec<Option<usize>> {
        let slices = |all: &'_ [Vec<u64>]| all.to_vec();
        let (mine, theirs) = (slices(mine), slices(theirs));
        let mine: Vec<&[u64]> = mine.iter().map(Vec::as_slice).collect();
        let theirs: Vec<&[u64]> = theirs.iter().map(Vec::as_slice).collect();
        align(&mine, &theirs)
    }

    #[test]
    fn a_metric_that_was_logged_later_or_no_longer() {
        let starts = [range(10, 50, 10), range(30, 80, 10), range(60, 120, 10)];
        assert_eq!(
            matched(&[range(30, 80, 10), range(60, 120, 10)], &starts),
            [Some(1), Some(2)]
        );
        assert_eq!(
            matched(&[range(10, 50, 10), range(30, 80, 10)], &starts),
            [Some(0), Some(1)]
        );
        assert_eq!(
            matched(&[range(10, 50, 20), range(60, 120, 20)], &starts),
            [Some(0), Some(2)]
        );
        assert_eq!(matched(&[range(70, 120, 10)], &starts), [Some(2)]);
        assert_eq!(
            matched(&[vec![40]], &starts),
            [Some(1)],
            "of equal ones the later"
        );
        assert_eq!(
            matched(&[range(15, 45, 10)], &starts),
            [Some(0)],
            "between its steps"
        );
    }

    #[test]
    fn a_start_that_the_others_do_not_have() {
        let mine = [range(10, 50, 10), range(30, 80, 10), range(60, 90, 10)];
        assert_eq!(matched(&mine, &[range(30, 80, 10)]), [None, Some(0), None]);
        assert_eq!(
            matched(
                &[range(500, 600, 10), range(10, 20, 10)],
                &[range(10, 30, 10)]
            ),
            [None, Some(0)]
        );
        assert_eq!(
            matched(
                &[range(500, 600, 10), range(500, 510, 10)],
                &[range(10, 30, 10)]
            ),
            [None, None]
        );
        assert_eq!(matched(&[], &[range(1, 2, 1)]), [None; 0]);
    }

    #[test]
    fn many_starts_end() {
        let many: Vec<Vec<u64>> = (0..3000).map(|k| vec![k]).collect();
        assert_eq!(matched(&many, &many[..2999])[..2], [Some(0), Some(1)]);
    }
}
