//! How often to save a checkpoint and how many to keep: what machine failures ask for, and what loss spikes ask for.
//!
//! Times are in seconds. The formulas and the numbers that test them are those of rules/SOURCES.md

/// What a checkpoint and a failure cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Seconds that training stands still for a save; of an asynchronous save the stall alone.
    pub save: f64,
    /// Mean seconds between failures.
    pub between_failures: f64,
    /// Seconds from a failure until training goes on: to notice it, to start again, to load.
    pub recovery: f64,
}

/// Steps that a way back covers at least.
const LEAST_COVER: u64 = 1000;
/// Memories of Adam's second moment that a way back covers.
const COVERED_MEMORIES: f64 = 3.0;
/// Widest spacing of the checkpoints that a way back chooses from.
const WIDEST_SPACING: u64 = 100;
/// Spacing of the checkpoints for slow drifts of logits and precision.
const SPARSE_SPACING: u64 = 1000;
/// The deepest way back that helped a run: 7000 to 3000 of tr8.
const DEEPEST_USEFUL: u64 = 4000;

/// The checkpoints that a way back from a loss spike needs, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stability {
    /// Steps that the dense checkpoints reach back: the larger of 1000 and 3 / (1 - β₂).
    pub cover: u64,
    /// Steps between them, at most.
    pub spacing: u64,
    /// How many of them to keep, so that one is always `cover` steps old.
    pub keep: u64,
    /// Steps between those kept for longer.
    pub sparse_spacing: u64,
    /// How far back those have been of use.
    pub sparse_reach: u64,
}

impl Costs {
    /// Young's interval: √(2 d M).
    pub fn young(&self) -> f64 {
        (2.0 * self.save * self.between_failures).sqrt()
    }

    /// Daly's interval: √(2 d M) (1 + ⅓ √(d / 2M) + ⅑ d / 2M) - d, and M for saves longer than 2 M.
    pub fn daly(&self) -> f64 {
        let (d, m) = (self.save, self.between_failures);
        let x = d / (2.0 * m);
        if x >= 1.0 {
            return m;
        }
        self.young() * (1.0 + x.sqrt() / 3.0 + x / 9.0) - d
    }

    /// The share of the time that saves and repeated work take at least: √(2 d / M), to first order, without recovery.
    pub fn least_waste(&self) -> f64 {
        (2.0 * self.save / self.between_failures).sqrt()
    }

    /// The share of the time that is effective with a save every `interval` seconds of training, to first order:
    /// G = (1 - (R + τ/2) / M) / (1 + d / τ), at least 0.
    pub fn effective_time(&self, interval: f64) -> f64 {
        let lost = (self.recovery + interval / 2.0) / self.between_failures;
        ((1.0 - lost) / (1.0 + self.save / interval)).max(0.0)
    }

    /// The same share exactly, for failures at random: τ / (M exp(R / M) (exp((τ + d) / M) - 1)).
    pub fn efficiency(&self, interval: f64) -> f64 {
        let m = self.between_failures;
        let tries = ((interval + self.save) / m).exp_m1();
        interval / (m * (self.recovery / m).exp() * tries)
    }
}

impl Stability {
    /// What is asked for with Adam's β₂ and, if known, the steps between checkpoints that failures ask for.
    pub fn of(beta2: f64, every: Option<u64>) -> Self {
        // β₂ is a decimal, so that 1 - β₂ is off by a rounding error that would count as a step more.
        let memory = (COVERED_MEMORIES / (1.0 - beta2) * (1.0 - 1e-9)).ceil() as u64;
        let cover = memory.max(LEAST_COVER);
        let spacing = every.map_or(WIDEST_SPACING, |e| e.clamp(1, WIDEST_SPACING));
        Self {
            cover,
            spacing,
            keep: cover.div_ceil(spacing) + 1,
            sparse_spacing: SPARSE_SPACING,
            sparse_reach: DEEPEST_USEFUL.max(cover),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(save: f64, between_failures: f64, recovery: f64) -> Costs {
        Costs {
            save,
            between_failures,
            recovery,
        }
    }

    #[track_caller]
    fn close(value: f64, golden: f64, within: f64) {
        assert!((value - golden).abs() <= within, "{value} is not {golden}");
    }

    /// rules/SOURCES.md, M = 11 135 s and R = 600 s: d, Young, Daly, waste, G, exact at Young and at Daly.
    const TABLE: [[f64; 7]; 6] = [
        [1.0, 149.0, 149.0, 1.34, 0.9332, 0.9349, 0.9349],
        [5.0, 334.0, 330.0, 3.00, 0.9174, 0.9194, 0.9194],
        [30.0, 817.0, 797.0, 7.34, 0.8772, 0.8797, 0.8797],
        [60.0, 1156.0, 1116.0, 10.38, 0.8501, 0.8525, 0.8526],
        [120.0, 1635.0, 1556.0, 14.68, 0.8130, 0.8150, 0.8152],
        [300.0, 2585.0, 2389.0, 23.21, 0.7437, 0.7438, 0.7443],
    ];

    #[test]
    fn the_table_of_the_evidence() {
        for [save, young, daly, waste, effective, at_young, at_daly] in TABLE {
            let c = costs(save, 11_135.0, 600.0);
            close(c.young(), young, 0.5);
            close(c.daly(), daly, 0.5);
            close(100.0 * c.least_waste(), waste, 0.005);
            close(c.effective_time(c.young()), effective, 0.000_05);
            close(c.efficiency(c.young()), at_young, 0.000_05);
            close(c.efficiency(c.daly()), at_daly, 0.000_05);
            let low = c.efficiency(c.young()) - c.effective_time(c.young());
            assert!((0.0..0.003).contains(&low), "G is low by {low}");
        }
    }

    #[test]
    fn mean_time_between_the_failures_of_llama_3() {
        close(54.0 * 24.0 / 419.0, 3.093, 0.0005);
        close(54.0 * 24.0 * 3600.0 / 419.0, 11_135.0, 0.5);
    }

    #[test]
    fn anchors_of_daly() {
        for (hours, minutes) in [(24.0, 116.7), (6.0, 56.7), (0.25, 9.1)] {
            let c = costs(300.0, hours * 3600.0, 600.0);
            close(c.daly() / 60.0, minutes, 0.05);
        }
        let hopeless = costs(2000.0, 900.0, 0.0);
        close(hopeless.daly(), 900.0, 0.0);
    }

    #[test]
    fn bloom() {
        let week = costs(40.0, 7.0 * 24.0 * 3600.0, 0.0);
        close((week.young() / 105.0).round(), 66.0, 0.0);
        close(100.0 * 105.0 / 3600.0, 2.917, 0.0005);
    }

    #[test]
    fn ten_minutes_and_two_seconds_at_three_hours() {
        // Figured apart from this code: √(2 d M) with M = 11 160 s.
        let (slow, fast) = (costs(600.0, 11_160.0, 0.0), costs(2.0, 11_160.0, 0.0));
        close(slow.young(), 3659.5, 0.1);
        close(slow.daly(), 3270.4, 0.1);
        close(slow.efficiency(slow.daly()), 0.7069, 0.000_05);
        close(fast.young(), 211.3, 0.1);
        close(fast.efficiency(fast.daly()), 0.9812, 0.000_05);
    }

    #[test]
    fn no_other_interval_is_better_than_dalys_by_much() {
        for save in [1.0, 30.0, 300.0] {
            let c = costs(save, 11_135.0, 600.0);
            let best = c.efficiency(c.daly());
            for share in [0.5, 0.8, 1.25, 2.0] {
                assert!(c.efficiency(share * c.daly()) < best);
            }
        }
    }

    #[test]
    fn what_stability_asks_for() {
        let usual = Stability::of(0.95, None);
        assert_eq!((usual.cover, usual.spacing, usual.keep), (1000, 100, 11));
        assert_eq!((usual.sparse_spacing, usual.sparse_reach), (1000, 4000));
        let long = Stability::of(0.999, Some(500));
        assert_eq!((long.cover, long.spacing, long.keep), (3000, 100, 31));
        let dense = Stability::of(0.95, Some(66));
        assert_eq!((dense.cover, dense.spacing, dense.keep), (1000, 66, 17));
        assert_eq!(Stability::of(0.9999, None).cover, 30_000);
        assert_eq!(Stability::of(0.9999, None).sparse_reach, 30_000);
        assert_eq!(Stability::of(0.5, Some(0)).spacing, 1);
    }
}
