//! What a training run measures at each step: a falling loss with noise and a spike now and then.

use super::random::Random;

/// Seconds since 1970 of the first step: 2026-03-01 12:00:00.
const BEGAN: f64 = 1_772_366_400.0;
/// Steps of the warm-up.
const WARM_UP: f64 = 2_000.0;
const PEAK_RATE: f64 = 3e-4;
/// One step in so many begins a spike.
const SPIKE_EVERY: f64 = 20_000.0;

/// The measurements of one step. Those of the trainer's tensors have the 24 bits of a float.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// From 1.
    pub(super) step: u64,
    /// Seconds since 1970.
    pub(super) time: f64,
    pub(super) loss: f64,
    pub(super) grad_norm: f64,
    pub(super) learning_rate: f64,
    pub(super) param_norm: f64,
    pub(super) max_attention_logit: f64,
    pub(super) z_loss: f64,
    pub(super) aux_loss: f64,
    pub(super) update_norm: f64,
    /// Seconds.
    pub(super) step_time: f64,
    pub(super) tokens_per_second: f64,
    pub(super) tflops: f64,
    /// Per cent.
    pub(super) mfu: f64,
}

/// The steps of one run.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    pub(super) steps: u64,
    done: u64,
    time: f64,
    /// How far above its level the loss is, from 1 at the peak of a spike.
    excess: f64,
    /// Slow noise, as the order of the data makes it.
    drift: f64,
    random: Random,
}

impl Curve {
    pub(super) fn new(seed: u64, steps: u64) -> Self {
        Self {
            steps,
            done: 0,
            time: BEGAN,
            excess: 0.0,
            drift: 0.0,
            random: Random::new(seed),
        }
    }

    fn learning_rate(&self) -> f64 {
        let (done, steps) = (self.done as f64, self.steps as f64);
        let warm_up = WARM_UP.min(steps / 2.0);
        if done < warm_up {
            return PEAK_RATE * (done + 1.0) / warm_up;
        }
        PEAK_RATE * (1.0 - 0.9 * (done - warm_up) / (steps - warm_up + 1.0))
    }

    fn disturb(&mut self) {
        self.excess *= 0.9;
        if self.random.unit() * SPIKE_EVERY < 1.0 {
            self.excess = 1.0;
        }
        self.drift = 0.98 * self.drift + 0.004 * self.random.normal();
    }
}

impl Iterator for Curve {
    type Item = Measured;

    fn next(&mut self) -> Option<Measured> {
        if self.done == self.steps {
            return None;
        }
        self.disturb();
        let learning_rate = self.learning_rate();
        self.done += 1;
        let (done, excess) = (self.done as f64, self.excess);
        let mut around = |level: f64, spread: f64| level * (1.0 + spread * self.random.normal());
        let level = 1.8 + 9.0 / (1.0 + done / 300.0).sqrt() + self.drift;
        let step_time = around(1.2, 0.02);
        let tokens_per_second = 8_800.0 / step_time;
        let step = Measured {
            step: self.done,
            time: self.time,
            loss: single(around(level, 0.006) + 2.5 * excess),
            grad_norm: single(around(0.25 + 20.0 / (20.0 + done), 0.12) + 6.0 * excess),
            learning_rate,
            param_norm: single(around(1000.0 + done.sqrt(), 1e-4)),
            max_attention_logit: single(around(18.0, 0.03) + 9.0 * excess),
            z_loss: single(around(2.3e-3, 0.05)),
            aux_loss: single(around(1.02, 0.003)),
            update_norm: single(around(900.0 * learning_rate, 0.02)),
            step_time,
            tokens_per_second,
            tflops: tokens_per_second * 0.0548,
            mfu: tokens_per_second * 0.0055,
        };
        self.time += step_time;
        Some(step)
    }
}

/// As trainers print what was a tensor.
fn single(value: f64) -> f64 {
    f64::from(value as f32)
}
