//! What waiting, going back and stopping cost: in steps, and in hours and money where these are known.

use crate::baseline::median_of;
use crate::detect::return_odds;
use crate::plan::{Rollback, Situation, action};

/// What the user tells of times and prices.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prices {
    /// Seconds of a step.
    pub step_time: Option<f64>,
    /// Seconds until a stopped job trains again.
    pub restart: Option<f64>,
    /// Number of GPUs.
    pub gpus: Option<u64>,
    /// Price of one GPU for an hour.
    pub gpu_hour: Option<f64>,
}

/// Seconds of a restart that are assumed (rules/SOURCES.md, wait or roll).
const USUAL_RESTART: f64 = 600.0;
/// Rows whose median is the time of a step, and the fewest that tell it.
const RECENT: usize = 200;
const FEWEST: usize = 3;
const HOUR: f64 = 3600.0;

/// Where the time of a step comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The user.
    Told,
    /// The log's own times of steps.
    Logged,
    /// The times of the log's rows.
    Clock,
}

/// A number of steps and what they come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Steps of training.
    pub steps: f64,
    /// Hours, if the time of a step is known.
    pub hours: Option<f64>,
    /// Hours times GPUs, if their number is known too.
    pub gpu_hours: Option<f64>,
    /// What these cost, if their price is known too.
    pub money: Option<f64>,
}

/// Waiting until the shape can be told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting {
    /// Step at which to decide, in the source's numbers.
    pub until: u64,
    /// The steps until then.
    pub price: Price,
    /// Documented spikes that were out as long and were back by then, and of how many.
    pub returned: (u32, u32),
    /// What waiting costs on average by that count, the way back of those that were not included. `None` without one.
    pub expected: Option<Price>,
}

/// What each way to go on costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Seconds of a step, and who says so.
    pub step_time: Option<(f64, Source)>,
    /// Seconds of a restart.
    pub restart: f64,
    /// Whether nobody told the time of a restart.
    pub restart_assumed: bool,
    /// Number of GPUs.
    pub gpus: Option<u64>,
    /// Waiting; `None` if the incident is over.
    pub wait: Option<Waiting>,
    /// Going back now: steps to do again, and the restart; `None` without a way back.
    pub rollback: Option<Price>,
    /// Stopping: the steps that are to be done again whenever training goes on; `None` without a way back.
    pub stop: Option<Price>,
    /// What each hour costs that the job stands.
    pub standing: Option<f64>,
}

/// The costs of an incident whose best way back is known.
pub(super) fn of(s: &Situation<'_>, back: Option<&Rollback>) -> Cost {
    let told = s.prices;
    let step_time = step_time(s);
    let restart = told.restart.unwrap_or(USUAL_RESTART);
    let price = |steps: f64, seconds: f64| priced(told, step_time.map(|t| t.0), steps, seconds);
    let lost = back.map(|b| b.steps_lost as f64);
    Cost {
        step_time,
        restart,
        restart_assumed: told.restart.is_none(),
        gpus: told.gpus,
        wait: waiting(s).map(|(until, steps)| {
            let returned = returned(s.incident.waited, s.incident.waited + steps as u64);
            let fails = 1.0 - f64::from(returned.0) / f64::from(returned.1);
            Waiting {
                until,
                price: price(steps, 0.0),
                returned,
                expected: lost.map(|l| price(fails * (l + steps), fails * restart)),
            }
        }),
        rollback: lost.map(|l| price(l, restart)),
        stop: lost.map(|l| price(l, 0.0)),
        standing: told.gpus.zip(told.gpu_hour).map(|(n, p)| n as f64 * p),
    }
}

/// Steps of training and seconds without any: where the time of a step is known, the seconds are steps too.
fn priced(told: &Prices, step_time: Option<f64>, steps: f64, seconds: f64) -> Price {
    let hours = step_time.map(|t| (steps * t + seconds) / HOUR);
    let gpu_hours = hours.zip(told.gpus).map(|(h, n)| h * n as f64);
    Price {
        steps: steps + step_time.map_or(0.0, |t| seconds / t),
        hours,
        gpu_hours,
        money: gpu_hours.zip(told.gpu_hour).map(|(h, p)| h * p),
    }
}

/// The step at which to decide, and the steps until then, for an incident that is not over.
fn waiting(s: &Situation<'_>) -> Option<(u64, f64)> {
    let i = s.incident;
    if i.return_row.is_some() || i.signal != "loss" {
        return None;
    }
    let after = action::decide_after(i.waited);
    let left = after.saturating_sub(i.waited);
    (left > 0).then(|| (s.run.steps[i.onset_row] + after, left as f64))
}

/// How many of the documented spikes that were out after so many steps were back after so many, and of how many.
fn returned(waited: u64, until: u64) -> (u32, u32) {
    let (out, left) = (return_odds(waited).1, return_odds(until).1);
    (out - left, out)
}

/// Told, else logged, else from the clock of the rows before the onset.
fn step_time(s: &Situation<'_>) -> Option<(f64, Source)> {
    if let Some(t) = s.prices.step_time {
        return Some((t, Source::Told));
    }
    let attempt = &s.run.attempts[s.incident.attempt as usize];
    let first = attempt.rows.end.saturating_sub(RECENT);
    let rows = first.max(attempt.rows.start)..attempt.rows.end;
    let logged = s.run.column("step_time").map(|column| {
        let values = rows.clone().filter_map(|r| column.finite(r));
        values.filter(|t| *t > 0.0).collect::<Vec<_>>()
    });
    let enough = |v: &Vec<f64>| v.len() >= FEWEST;
    if let Some(times) = logged.filter(enough) {
        return Some((median_of(&times), Source::Logged));
    }
    let clock = s.run.column("time")?;
    let between = rows.clone().zip(rows.skip(1)).filter_map(|(a, b)| {
        let steps = s.run.steps[b].checked_sub(s.run.steps[a])?;
        let passed = (clock.finite(b)? - clock.finite(a)?) / 1000.0;
        (steps > 0 && passed > 0.0).then(|| passed / steps as f64)
    });
    let times: Vec<f64> = between.collect();
    enough(&times).then(|| (median_of(&times), Source::Clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_that_come_back_while_one_waits() {
        assert_eq!(returned(10, 60), (31, 37));
        assert_eq!(returned(298, 300), (0, 5));
        assert_eq!(returned(2000, 2000), (0, 3));
    }

    #[test]
    fn steps_come_to_hours_and_money() {
        let told = Prices {
            gpus: Some(256),
            gpu_hour: Some(2.5),
            ..Prices::default()
        };
        let p = priced(&told, Some(12.0), 250.0, 600.0);
        assert_eq!((p.steps, p.hours), (300.0, Some(1.0)));
        assert_eq!((p.gpu_hours, p.money), (Some(256.0), Some(640.0)));
        let bare = priced(&Prices::default(), None, 250.0, 600.0);
        assert_eq!((bare.steps, bare.hours, bare.money), (250.0, None, None));
    }
}
