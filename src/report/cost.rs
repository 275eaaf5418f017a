//! What waiting, going back and stopping cost, in sentences.

use crate::plan::{Cost, Plan, Price, Source};
use crate::report::times::shown;

/// A sentence each: what the figures rest on, and every way to go on, the label of which comes first.
pub(super) fn lines(p: &Plan) -> Vec<(&'static str, String)> {
    let c = &p.cost;
    let mut out = vec![("", basis(c))];
    if let Some(w) = &c.wait {
        let (returned, of) = w.returned;
        let expected = w.expected.as_ref().map_or(String::new(), |e| {
            format!(
                "; with the way back that is then due for the others, {} on average",
                amount(e)
            )
        });
        let text = format!(
            "{} until {}; {returned} of {of} documented spikes that were out as long were back by then{expected}",
            amount(&w.price),
            w.until
        );
        out.push(("wait", text));
    }
    if let Some(r) = &c.rollback {
        let and = if c.step_time.is_some() {
            ", the restart with them"
        } else {
            ", and a restart"
        };
        out.push(("go back", format!("{}{and}", amount(r))));
    }
    let standing = c.standing.map_or(String::new(), |m| {
        format!(", and {m:.2} for each hour that it stands")
    });
    if let Some(s) = &c.stop {
        out.push((
            "stop",
            format!("{} to do again when it goes on{standing}", amount(s)),
        ));
    }
    out
}

fn basis(c: &Cost) -> String {
    let step = match c.step_time {
        Some((t, source)) => format!(
            "a step takes {} ({})",
            shown(t),
            match source {
                Source::Told => "as told",
                Source::Logged => "as logged",
                Source::Clock => "by the clock of the log",
            }
        ),
        None => "the time of a step is not known (--step-time)".to_owned(),
    };
    let assumed = if c.restart_assumed {
        " (assumed: --restart-time)"
    } else {
        ""
    };
    format!("{step}, a restart {}{assumed}", shown(c.restart))
}

/// Steps, hours, money: as far as they are known.
fn amount(p: &Price) -> String {
    // Shares of a step only count where there are few.
    let steps = if p.steps < 10.0 && p.steps.fract() > 0.0 {
        format!("{:.1} steps", p.steps)
    } else {
        format!("{:.0} steps", p.steps)
    };
    let mut more = Vec::new();
    more.extend(p.hours.map(|h| shown(3600.0 * h)));
    if p.money.is_none() {
        more.extend(p.gpu_hours.map(|h| format!("{h:.1} GPU hours")));
    }
    more.extend(p.money.map(|m| format!("{m:.2}")));
    if more.is_empty() {
        steps
    } else {
        format!("{steps} ({})", more.join(", "))
    }
}
