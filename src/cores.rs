//! The cores of the machine: how many there are to use, and work that they share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// More bring nothing: what they share has to be read and joined by one.
const MOST: usize = 8;

/// Cores to use.
pub fn count() -> usize {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MOST)
}

/// Does the same for each number below `n`, whichever core is free takes the next; the results are in order.
pub fn each<T: Send>(n: usize, job: &(impl Fn(usize) -> T + Sync)) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= n {
                return done;
            }
            done.push((at, job(at)));
        }
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..count().min(n)).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            let more = other.join();
            all.extend(more.unwrap_or_else(|e| std::panic::resume_unwind(e)));
        }
        all
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whoever_does_them() {
        let slow_first = |at: usize| {
            let turns = if at == 0 { 100_000 } else { 1 };
            (0..turns).fold(at, |a, _| std::hint::black_box(a))
        };
        assert!(each(1000, &slow_first).into_iter().eq(0..1000));
        assert!(each(0, &slow_first).is_empty());
    }
}
