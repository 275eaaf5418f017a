//! Sentences that several renderers share.

use crate::detect::{Incident, Kind, Over, Shape};
use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::features::Value;
use crate::plan::{Action, Health, Plan, Rollback, Skip};
use crate::replay::{Data, Replay, SAME};
use crate::rules::Finding;
use crate::run::DataLoss;
use crate::verdict::{Outcome, Separating, Verdict};

/// What was read, in a line.
pub(super) fn run(d: &Diagnosis) -> String {
    let steps = d.run.span();
    let steps = steps.map_or("-".to_owned(), |(a, b)| span(a, b));
    let attempts = d.run.attempts.len();
    let attempts = if attempts == 1 {
        "1 attempt".to_owned()
    } else {
        format!("{attempts} attempts")
    };
    format!(
        "{} · {} rows, steps {steps}, {attempts}",
        d.run.meta.format,
        d.run.len()
    )
}

/// Where the rows come from.
pub(super) fn source(d: &Diagnosis) -> String {
    match d.run.meta.sources.as_slice() {
        [] => "-".to_owned(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

/// Something that could not be read.
pub(super) fn lost(loss: &DataLoss) -> String {
    let place = if loss.place.is_empty() {
        String::new()
    } else {
        format!(", {}", loss.place)
    };
    format!("{}{place}: {}", loss.source, loss.what)
}

/// What is said where the level of any incident rests on few rows.
pub(super) const FEW_ROWS: &str = "with few rows before it, the noise of the loss leans on that of a healthy run: about 1 % of its level";

/// How many incidents there are, and how many of them are met again.
pub(super) fn found(d: &Diagnosis) -> String {
    let again = d.incidents.iter().filter(|x| x.same_as.is_some()).count();
    let own = match d.incidents.len() - again {
        0 => "no incident".to_owned(),
        1 => "1 incident".to_owned(),
        n => format!("{n} incidents"),
    };
    match again {
        0 => own,
        n => format!("{own}, and {n} met again"),
    }
}

/// An incident in a few words.
pub(super) fn title(x: &Diagnosed) -> String {
    let i = &x.incident;
    let open = if i.open { ", still open" } else { "" };
    let attempt = if i.attempt > 0 {
        format!(", attempt {}", i.attempt)
    } else {
        String::new()
    };
    format!(
        "incident {}: {}, {}, {}{open}{attempt}",
        x.id,
        signal(i),
        i.kind.name(),
        i.shape.name()
    )
}

/// The signal that left its level.
pub(super) fn signal(i: &Incident) -> &'static str {
    if i.signal == "loss" {
        "loss"
    } else {
        "gradient norm alone"
    }
}

/// A sentence with a capital letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

/// The checkpoint to go back to, and why.
pub(super) fn back(r: &Rollback) -> String {
    let path = r.path.as_ref().map_or(String::new(), |p| format!(" ({p})"));
    format!(
        "checkpoint {}{path}, {} steps to do again; {}",
        r.step, r.steps_lost, r.why
    )
}

/// The batches to leave out, and why.
pub(super) fn skip(k: &Skip) -> String {
    let steps: Vec<String> = k.steps.iter().map(|(a, b)| span(*a, *b)).collect();
    let samples: Vec<String> = k
        .samples
        .iter()
        .map(|(a, b)| format!("[{a}, {b})"))
        .collect();
    let samples = if samples.is_empty() {
        String::new()
    } else {
        format!(", samples {}", samples.join(" "))
    };
    format!(
        "{} batches: steps {}{samples}; {}",
        k.batches,
        steps.join(", "),
        k.why
    )
}

/// A range of steps.
pub(super) fn span(a: u64, b: u64) -> String {
    if a == b {
        a.to_string()
    } else {
        format!("{a}-{b}")
    }
}

/// A lasting change of the level that is no incident.
pub(super) fn level_change(d: &Diagnosis, c: &Incident) -> String {
    let by = c.residual.map_or(String::new(), |r| {
        format!(" by {:+.3} ± {:.3}", r.value, r.margin)
    });
    let norm = if d.run.column("grad_norm").is_some() {
        ", the gradient norm unmoved"
    } else {
        ""
    };
    format!(
        "the loss moved{by} at {} and stayed there{norm}: other data or settings, no incident",
        d.run.steps[c.onset_row]
    )
}

/// What a later attempt did over the steps of an earlier one.
pub(super) fn replay(r: &Replay) -> String {
    let data = match r.data {
        Data::Same => "the same data".to_owned(),
        Data::Skipped { from_step, samples } => {
            format!("the same data with {samples} samples left out from {from_step}")
        }
        Data::Other => "other data".to_owned(),
        Data::Unknown => "data that nothing tells apart".to_owned(),
    };
    let shown = match (r.correlation, r.best_lag) {
        (Some(_), Some((lag, best))) if lag != 0 && best > SAME => format!(
            " (the losses correlate with {best:.2} when shifted by {lag} rows, {} rows)",
            r.rows
        ),
        (Some(c), _) => format!(" (the losses correlate with {c:.2} over {} rows)", r.rows),
        _ => String::new(),
    };
    let lr = match r.lr_ratio {
        Some(ratio) if (ratio - 1.0).abs() > 0.02 => format!(", learning rate times {ratio:.2}"),
        _ => String::new(),
    };
    format!(
        "attempt {} went over steps {} of attempt {} with {data}{shown}{lr}",
        r.later,
        span(r.first_step, r.last_step),
        r.earlier
    )
}

/// Onset, peak, returns and what led.
pub(super) fn when(d: &Diagnosis, x: &Diagnosed) -> String {
    let i = &x.incident;
    let step = |row: usize| d.run.steps[row];
    let mut parts = vec![format!("onset {}", step(i.onset_row))];
    if let (Some(row), Some(peak)) = (i.peak_row, i.peak) {
        let level = i.level.value;
        let z = i.score.map_or(String::new(), |z| format!(", {z:.0} sd"));
        parts.push(match i.signal {
            "loss" if i.over == Over::Twin => format!(
                "peak {} ({peak:.4}: {:+.4} over what the other run tells of its batch{z})",
                step(row),
                i.excess.unwrap_or(0.0)
            ),
            "loss" if i.excess.is_some_and(|x| x < 0.0) => format!(
                "the loss fell at once by {:.4} from {level:.4}{z}",
                -i.excess.unwrap_or(0.0)
            ),
            "loss" => format!(
                "peak {} ({peak:.4}: {:+.4} over {level:.4}{z})",
                step(row),
                i.excess.unwrap_or(0.0)
            ),
            _ => format!(
                "peak {} ({peak:.3}: {:.0} times {level:.3})",
                step(row),
                peak / level
            ),
        });
    }
    if i.peaks.len() > 1 {
        parts.push(format!("{} peaks", i.peaks.len()));
    }
    parts.push(match i.return_row {
        Some(row) if i.return_is_bound => format!("back at {} at the latest", step(row)),
        Some(row) => format!("back at {}", step(row)),
        None => format!("not back after {} steps", i.waited),
    });
    // Of a loss that is no number and did not come back, what is left is no number either.
    let measured = i.kind != Kind::NonFinite || i.return_row.is_some();
    if let (Some(left), "loss", Shape::Recoverable | Shape::Divergent | Shape::LevelShift) =
        (i.residual.filter(|_| measured), i.signal, i.shape)
    {
        parts.push(format!(
            "{:+.4} ± {:.4} of it left",
            left.value, left.margin
        ));
    }
    if let (Some(row), "loss") = (i.grad_return_row, i.signal) {
        parts.push(format!("gradient norm back at {}", step(row)));
    }
    if let Some(lead) = lead(x) {
        parts.push(lead);
    }
    parts.join(", ")
}

fn lead(x: &Diagnosed) -> Option<String> {
    let number = |name: &str| match x.features.get(name).copied().flatten() {
        Some(Value::Number(v)) => Some(v),
        _ => None,
    };
    let (name, steps) = ["u_lead", "g_lead"]
        .iter()
        .find_map(|n| Some((*n, number(n).filter(|v| *v >= 1.0)?)))?;
    let what = if name == "u_lead" {
        "the update norm"
    } else {
        "the gradient norm"
    };
    let s = if steps > 1.5 { "s" } else { "" };
    Some(format!("{what} moved {steps:.0} step{s} earlier"))
}

/// The verdict in a line.
pub(super) fn cause(v: &Verdict) -> String {
    let leading: Vec<String> = v
        .posterior
        .iter()
        .take(3)
        .map(|(c, p)| format!("{c} {p:.2}"))
        .collect();
    match (v.outcome, &v.cause) {
        (Outcome::Decided, Some(cause)) => {
            format!("{cause} (posterior {:.2})", v.posterior_of(cause))
        }
        (Outcome::Unexplained, _) => format!(
            "unexplained: what is known speaks against every cause ({})",
            leading.join(", ")
        ),
        _ => format!("undecided: {}", leading.join(", ")),
    }
}

/// The sentence of a piece of evidence; what does not hold is said to be not so, unless the sentence says it itself.
pub(super) fn says(f: &Finding) -> String {
    let denied = f.holds == Some(false) && !f.says.ends_with(": no");
    if denied {
        format!("not so: {}", f.says)
    } else {
        f.says.clone()
    }
}

/// The evidence that speaks for or against a cause.
pub(super) fn speaking<'a>(v: &'a Verdict, cause: &str) -> Vec<&'a Finding> {
    let speaks = |f: &&Finding| f.cause == cause && (f.ratio - 1.0).abs() > 1e-9;
    v.evidence.iter().filter(speaks).collect()
}

/// The advice in a word or two.
pub(super) fn action(a: Action) -> &'static str {
    match a {
        Action::None => "nothing",
        Action::Wait => "wait",
        Action::Rollback => "go back",
        Action::RollbackAndSkip => "go back and skip",
        Action::Stop => "stop",
    }
}

/// Whether a plan advises to go back.
pub(super) fn acts(p: &Plan) -> bool {
    matches!(p.action, Action::Rollback | Action::RollbackAndSkip)
}

/// Whether there is more to a plan than its advice: without a way back and nothing to do, the rest is of no use.
pub(super) fn goes_on(p: &Plan) -> bool {
    acts(p) || p.rollback.is_some()
}

/// The advice with where to: enough for a table.
pub(super) fn advice(p: &Plan) -> String {
    let action = action(p.action);
    match (p.action, &p.rollback) {
        (Action::Rollback, Some(to)) => format!("{action} to {}", to.step),
        (Action::RollbackAndSkip, Some(to)) => {
            let batches = p.skip.as_ref().map_or(String::new(), |s| {
                let many = if s.batches == 1 { "" } else { "es" };
                format!(" {} batch{many}", s.batches)
            });
            format!("go back to {} and skip{batches}", to.step)
        }
        _ => action.to_owned(),
    }
}

/// How far an incident was from its level at its peak.
pub(super) fn size(i: &Incident) -> Option<String> {
    match (i.signal, i.peak) {
        ("loss", _) if i.kind == Kind::NonFinite => Some("not finite".to_owned()),
        ("loss", _) => i.excess.map(|by| format!("{by:+.4}")),
        (_, Some(peak)) => Some(format!("{:.0} times", peak / i.level.value)),
        _ => None,
    }
}

/// The state at a checkpoint, after a semicolon; nothing if nothing is known.
pub(super) fn health(h: &Health) -> String {
    let readings = h.readings.iter();
    let mut parts: Vec<String> = readings
        .map(|r| format!("{} {:+.1} sd", r.words, r.sd))
        .collect();
    parts.extend(
        h.clean_for
            .map(|n| format!("{n} steps after the traces of the incident before")),
    );
    if parts.is_empty() {
        return String::new();
    }
    format!("; {}", parts.join(", "))
}

/// A likelihood ratio.
pub(super) fn ratio(r: f64) -> String {
    if r >= 10.0 || r.fract() == 0.0 {
        format!("{r:.0}")
    } else {
        format!("{r:.2}").trim_end_matches('0').to_owned()
    }
}

/// What an experiment would show.
pub(super) fn experiment(e: &Separating) -> String {
    let what = match e.kind.as_str() {
        "forward-only" => {
            "a forward pass over the batches, sequence by sequence, on the checkpoint before"
        }
        "same" => "the same data again from the checkpoint before",
        "skip" => "the batches skipped, from the checkpoint before",
        "other-seed" => "another data order from the checkpoint before",
        "earlier-checkpoint" => "the same batches from an earlier checkpoint",
        "lower-lr" => "half the learning rate from the checkpoint before",
        "fp32-attention" => "attention in fp32 from the checkpoint before",
        "optimizer-reset" => "the optimizer state reset at the checkpoint before",
        "other-nodes" => "the same step on other nodes",
        other => other,
    };
    let predicts: Vec<String> = e
        .predictions
        .iter()
        .map(|(cause, outlook, note)| {
            let note = if note.is_empty() {
                String::new()
            } else {
                format!(" ({note})")
            };
            format!("if {cause}, {}{note}", outlook.words())
        })
        .collect();
    format!("{what}: {}", predicts.join("; "))
}
