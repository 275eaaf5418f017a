//! What trainers print: one line a step.

use std::io::{self, Write};

use super::curve::Curve;

const BATCH: u64 = 1024;
/// Steps between saves.
const SAVE_EVERY: u64 = 1000;

/// Date and time of day without zone.
struct Clock {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    micros: u64,
}

impl Clock {
    /// By the algorithm of days from a civil date that counts years from March.
    fn at(time: f64) -> Self {
        let micros = (time * 1e6) as u64;
        let (days, left) = (micros / 86_400_000_000, micros % 86_400_000_000);
        let days = days + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        Self {
            year: year + era * 400 + u64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: left / 3_600_000_000,
            minute: left / 60_000_000 % 60,
            second: left / 1_000_000 % 60,
            micros: left % 1_000_000,
        }
    }

    fn date(&self) -> String {
        let Self {
            year, month, day, ..
        } = self;
        let Self {
            hour,
            minute,
            second,
            ..
        } = self;
        format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// `{:.6E}` of Python: at least two digits of exponent, and its sign.
fn upper_e(value: f64) -> String {
    let text = format!("{value:.6E}");
    match text.split_once('E') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}E-{exponent:0>2}"),
            None => format!("{digits}E+{exponent:0>2}"),
        },
        None => text,
    }
}

/// `{:,}` of Python.
fn grouped(value: u64) -> String {
    if value < 1000 {
        value.to_string()
    } else {
        format!("{},{:03}", grouped(value / 1000), value % 1000)
    }
}

/// Megatron-LM's line until 0.15. Later versions count the first step twice, and a reader may or may not undo that.
pub(super) fn megatron(out: &mut dyn Write, curve: Curve) -> io::Result<()> {
    let steps = curve.steps;
    for s in curve {
        writeln!(
            out,
            " [{}] iteration {:8}/{steps:8} | consumed samples: {:12} | elapsed time per iteration (ms): {:.1} | \
             throughput per GPU (TFLOP/s/GPU): {:.1} | learning rate: {} | global batch size: {BATCH:5} | \
             lm loss: {} | loss scale: 1.0 | grad norm: {:.3} | num zeros: 0.0 | params norm: {:.3} | number of skipped iterations:   0 | number of nan iterations:   0 |",
            Clock::at(s.time).date(),
            s.step,
            s.step * BATCH,
            s.step_time * 1e3,
            s.tflops,
            upper_e(s.learning_rate),
            upper_e(s.loss),
            s.grad_norm,
            s.param_norm,
        )?;
        if s.step % SAVE_EVERY == 0 {
            writeln!(
                out,
                "  successfully saved checkpoint from iteration {:7} to checkpoints [ t 1/8, p 1/4 ]",
                s.step
            )?;
        }
    }
    Ok(())
}

/// torchtitan's line with its colours, behind the prefix of its launcher.
pub(super) fn torchtitan(out: &mut dyn Write, curve: Curve) -> io::Result<()> {
    for s in curve {
        let clock = Clock::at(s.time);
        let at = format!(
            "[rank0]:[titan] {},{:03} - root - INFO -",
            clock.date(),
            clock.micros / 1000
        );
        writeln!(
            out,
            "{at} \x1b[31mstep: {:2}  \x1b[32mloss: {:8.5}  \x1b[38;2;180;60;0mgrad_norm: {:7.4}  \
             \x1b[38;2;54;234;195mmemory: 47.50GiB(50.01%)  \x1b[34mtps: {}  \x1b[36mtflops: {:.2}  \
             \x1b[35mmfu: {:.2}%\x1b[39m",
            s.step,
            s.loss,
            s.grad_norm,
            grouped(s.tokens_per_second as u64),
            s.tflops,
            s.mfu,
        )?;
        if s.step % SAVE_EVERY == 0 {
            writeln!(out, "{at} Saving the checkpoint.")?;
        }
    }
    Ok(())
}
