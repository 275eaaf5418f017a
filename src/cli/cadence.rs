//! `whyspike cadence`: how often to save and how many to keep.

mod dense;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use crate::cli::input::Kept;
use crate::cli::output;
use crate::cli::times::{duration, positive};
use whyspike::cadence::{Costs, Stability};
use whyspike::plan::USUAL_BETA2;
use whyspike::report::shown;

#[derive(Debug, clap::Args)]
#[command(after_help = "Times have a unit: 40s, 10min, 3.1h, 7d, 1h30min.")]
pub(super) struct Args {
    /// Logs or stored runs, the pieces of one run: how dense its checkpoints were where one was needed
    #[arg(value_name = "LOG")]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    kept: Kept,
    /// How long training stands still for a save, such as 40s
    #[arg(long, value_name = "TIME", value_parser = positive)]
    save_time: f64,
    /// Mean time between failures, such as 3.1h
    #[arg(long, value_name = "TIME", value_parser = positive)]
    mtbf: f64,
    /// Time until a failure is noticed
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    detect: f64,
    /// Time until the job runs again
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    restart: f64,
    /// Time to load a checkpoint
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    load: f64,
    /// Time of a step: intervals are then told in steps, too; of a run it may be logged
    #[arg(long, value_name = "TIME", value_parser = positive)]
    step_time: Option<f64>,
    /// Adam's beta2, for what a way back from a loss spike needs; of a run it may be logged [default: 0.95]
    #[arg(long, value_name = "B", value_parser = beta)]
    beta2: Option<f64>,
}

/// What the two sides are figured from.
struct Basis {
    costs: Costs,
    step_time: Option<f64>,
    beta2: f64,
}

/// Saves beyond this share of the time between failures make the first-order formulas coarse.
const COARSE: f64 = 0.05;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    output::result(&text(args)?)?;
    Ok(ExitCode::SUCCESS)
}

fn text(args: &Args) -> anyhow::Result<String> {
    let run = dense::read(args)?;
    let run = run.as_ref();
    let basis = Basis {
        costs: Costs {
            save: args.save_time,
            between_failures: args.mtbf,
            recovery: args.detect + args.restart + args.load,
        },
        step_time: args.step_time.or_else(|| dense::step_time(run?)),
        beta2: args
            .beta2
            .or_else(|| run?.run.beta2())
            .unwrap_or(USUAL_BETA2),
    };
    let every = basis.step_time.map(|s| whole_steps(basis.costs.daly(), s));
    let stability = Stability::of(basis.beta2, every);
    let mut out = String::new();
    failures(&mut out, &basis);
    spikes(&mut out, &basis, &stability);
    together(&mut out, &basis, &stability);
    if let Some(run) = run {
        dense::tell(&mut out, run, &basis, &stability);
    }
    Ok(out)
}

/// The nearest whole number of steps, at least one.
fn whole_steps(time: f64, step: f64) -> u64 {
    ((time / step).round() as u64).max(1)
}

fn failures(out: &mut String, basis: &Basis) {
    let costs = &basis.costs;
    let _ = writeln!(
        out,
        "\x1b[1mfor machine failures\x1b[0m: a save takes {}, a failure comes every {} and takes {} besides the work \
         that is lost",
        shown(costs.save),
        shown(costs.between_failures),
        shown(costs.recovery)
    );
    for (name, interval, formula) in [
        ("Young", costs.young(), "sqrt(2 d M)"),
        (
            "Daly",
            costs.daly(),
            "sqrt(2 d M) (1 + sqrt(d/2M)/3 + d/2M/9) - d; M if d >= 2 M",
        ),
    ] {
        let steps = basis.step_time.map_or(String::new(), |s| {
            format!(" = {} steps", whole_steps(interval, s))
        });
        let _ = writeln!(
            out,
            "  {name:<10} save every {}{steps}, effective time {:.1} %, exactly {:.1} %",
            shown(interval),
            100.0 * costs.effective_time(interval),
            100.0 * costs.efficiency(interval)
        );
        let _ = writeln!(out, "  {:<10} \x1b[2m{formula}\x1b[0m", "");
    }
    let _ = writeln!(
        out,
        "  waste      at least {:.2} % for saves and repeated work \x1b[2m(sqrt(2 d / M))\x1b[0m",
        100.0 * costs.least_waste()
    );
    out.push_str(
        "\x1b[2m  d save, M between failures, R detect + restart + load, t interval\n  \
         effective time (1 - (R + t/2) / M) / (1 + d/t), exactly t / (M exp(R/M) (exp((t+d)/M) - 1))\n  \
         of an asynchronous save d is the stall alone; the lost work counts from the end of the save\x1b[0m\n",
    );
    if costs.save > COARSE * costs.between_failures {
        out.push_str(
            "  a save is long beside the time between failures: go by Daly and the exact figure\n",
        );
    }
}

fn spikes(out: &mut String, basis: &Basis, s: &Stability) {
    let memory = 1.0 / (1.0 - basis.beta2);
    let _ = writeln!(
        out,
        "\n\x1b[1mfor loss spikes\x1b[0m: beta2 {}, memory 1 / (1 - beta2) = {memory:.0} steps, way back {} steps",
        basis.beta2, s.cover
    );
    let _ = writeln!(out, "  save       every {} steps or oftener", s.spacing);
    let _ = writeln!(
        out,
        "  keep       the newest {} of one every {} steps, and one every {} steps back to {} for slow drifts",
        s.keep, s.spacing, s.sparse_spacing, s.sparse_reach
    );
    out.push_str(
        "\x1b[2m  way back max(1000, 3 / (1 - beta2)), at most 100 steps apart (rules/SOURCES.md)\n  \
         3 memories undo what a stale second moment did; the deepest rollback of use was 4000 steps\n  \
         what is saved within 5 memories after a spike carries it and does not count\x1b[0m\n",
    );
}

/// The two sides in one rule.
fn together(out: &mut String, basis: &Basis, s: &Stability) {
    let costs = &basis.costs;
    let Some(step) = basis.step_time else {
        out.push_str("\ngive --step-time to hold the two against each other\n");
        return;
    };
    let failures = whole_steps(costs.daly(), step);
    let side = if failures <= s.spacing {
        "failures"
    } else {
        "spikes"
    };
    let interval = s.spacing as f64 * step;
    let _ = writeln!(
        out,
        "\n\x1b[1mtogether\x1b[0m: save every {} steps (the {side} decide), keep the newest {}; \
         saves take {:.2} % of the time, effective {:.1} %",
        s.spacing,
        s.keep,
        100.0 * costs.save / (costs.save + interval),
        100.0 * costs.efficiency(interval)
    );
}

fn beta(text: &str) -> anyhow::Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(b) if (0.0..1.0).contains(&b) => Ok(b),
        _ => bail!(
            "`{text}` is no beta2: give a number from 0 up to, not including, 1, such as 0.95"
        ),
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test says what is wrong by panicking")]
mod tests {
    use super::*;

    #[test]
    fn betas() {
        assert!(beta("1").is_err() && beta("0.95").is_ok() && beta("NaN").is_err());
    }

    #[test]
    fn bloom_in_words() {
        let args = |step_time| Args {
            logs: Vec::new(),
            kept: Kept::default(),
            save_time: 40.0,
            mtbf: 604_800.0,
            detect: 0.0,
            restart: 600.0,
            load: 0.0,
            step_time,
            beta2: None,
        };
        let text = text(&args(Some(105.0))).expect("no log to read");
        assert!(text.contains("= 66 steps"), "{text}");
        assert!(
            text.contains("save every 66 steps (the failures decide), keep the newest 17"),
            "{text}"
        );
        let text = super::text(&args(None)).expect("no log to read");
        assert!(text.contains("give --step-time"), "{text}");
    }
}
