//! Whether to act at all: over, wait, go back, or stop.

use crate::detect::{HORIZON_STEPS, Incident, Kind, Shape, TRANSIENT_STEPS, growing, return_odds};
use crate::plan::Situation;
use crate::plan::strikes::Strikes;
use crate::verdict::Outcome;

/// What is advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is over, or needs nothing.
    None,
    /// Pin the checkpoint and decide at a named step.
    Wait,
    /// Go back to a checkpoint.
    Rollback,
    /// Go back and leave batches out.
    RollbackAndSkip,
    /// Stop: going back has not helped.
    Stop,
}

impl Action {
    /// The action of a name in reports.
    pub fn named(name: &str) -> Option<Self> {
        let all = [
            Self::None,
            Self::Wait,
            Self::Rollback,
            Self::RollbackAndSkip,
            Self::Stop,
        ];
        all.into_iter().find(|a| a.name() == name)
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Wait => "wait",
            Self::Rollback => "rollback",
            Self::RollbackAndSkip => "rollback-and-skip",
            Self::Stop => "stop",
        }
    }
}

/// Attempts that met the same incident before a plan says stop: the third strike.
const STRIKES: usize = 3;
/// Posterior from which on bad data are skipped although the cause is not decided.
const SKIP_ANYWAY: f64 = 0.3;

/// What a way back would have.
#[derive(Clone, Copy)]
struct Way<'a> {
    strikes: &'a Strikes,
    /// A checkpoint to go back to.
    checkpoint: bool,
    /// Batches to leave out.
    skip: bool,
}

/// The advice and its reason.
pub(super) fn advise(
    s: &Situation<'_>,
    strikes: &Strikes,
    checkpoint: bool,
    skip: bool,
) -> (Action, String) {
    let way = Way {
        strikes,
        checkpoint,
        skip,
    };
    let i = s.incident;
    if i.signal != "loss" {
        return (
            Action::None,
            "the gradient norm moved alone: the loss did not follow".to_owned(),
        );
    }
    if i.return_row.is_some() && matches!(i.shape, Shape::Transient | Shape::Recoverable) {
        let back = s.run.steps[i.return_row.unwrap_or(i.onset_row)];
        return (
            Action::None,
            format!("it is over: the loss was back at {back}{}", grad_note(s)),
        );
    }
    if i.return_row.is_some() && growing(s.run, up_to(s)) {
        return (
            Action::Wait,
            "the last three spikes grow and come closer, as before a divergence: keep the checkpoint before the first of \
             them, and go back there if the next is larger still"
                .to_owned(),
        );
    }
    if let (Shape::LevelShift, Some(back), Some(left)) = (i.shape, i.return_row, i.residual)
        && !large(s, left.value)
    {
        return (
            Action::None,
            format!(
                "it came back at {}, but only to {:.4} ± {:.4} above its level: watch whether the next spike leaves more",
                s.run.steps[back], left.value, left.margin
            ),
        );
    }
    match i.shape {
        Shape::LevelShift if i.norm_moved == Some(false) => (
            Action::None,
            format!(
                "the loss settled at another level ({:+.3}) and the gradient norm never moved: no optimizer does that, other \
                 data or settings do; compare with what was changed",
                i.residual.map_or(0.0, |r| r.value)
            ),
        ),
        Shape::LevelShift => settled(s, way),
        _ if changed_on_purpose(s) => (
            Action::Wait,
            "the optimizer is quiet and the loss stays up, as after a change of data or settings: compare with what was \
             changed before anything is rolled back"
                .to_owned(),
        ),
        Shape::Divergent if !may_wait(s) => back(s, way, &lost_reason(i)),
        _ => wait(s, strikes),
    }
}

/// The incidents up to the one that is asked about.
fn up_to<'a>(s: &Situation<'a>) -> &'a [Incident] {
    let n = s.incidents.iter().position(|i| std::ptr::eq(i, s.incident));
    &s.incidents[..n.map_or(0, |n| n + 1)]
}

fn grad_note(s: &Situation<'_>) -> String {
    match (s.incident.grad_return_row, s.incident.return_row) {
        (Some(g), Some(l)) if g > l => format!(", the gradient norm at {}", s.run.steps[g]),
        _ => String::new(),
    }
}

fn changed_on_purpose(s: &Situation<'_>) -> bool {
    s.verdict
        .leading()
        .next()
        .is_some_and(|(c, p)| c == "config-change" && p >= 0.3)
}

/// An open incident may be waited for while it is young, finite, and the model has not lost what it learned.
fn may_wait(s: &Situation<'_>) -> bool {
    let i = s.incident;
    let young = i.waited <= TRANSIENT_STEPS;
    let finite = i.kind != Kind::NonFinite && s.number("nonfinite").is_none_or(|n| n == 0.0);
    i.open && young && finite && !i.lost
}

/// Steps after the onset at which the shape of an incident is looked at next, after so many: when a transient one would
/// be back, long after that, and when it is given up.
pub(super) fn decide_after(waited: u64) -> u64 {
    let steps = [TRANSIENT_STEPS, 5 * TRANSIENT_STEPS];
    let next = steps.into_iter().find(|s| waited <= *s);
    next.unwrap_or(HORIZON_STEPS)
}

fn wait(s: &Situation<'_>, strikes: &Strikes) -> (Action, String) {
    let i = s.incident;
    let onset = s.run.steps[i.onset_row];
    let decide = onset + decide_after(i.waited);
    let (returned, of) = return_odds(i.waited);
    let odds = format!(
        "of {of} documented spikes that were still out after so long, {returned} came back by themselves \
         (rules/SOURCES.md M5)"
    );
    let later = s.run.attempts.len() > i.attempt as usize + 1;
    let ended = if later { "this attempt" } else { "the log" };
    let text = format!(
        "{ended} ends {} steps after the onset: keep the checkpoint before {onset} and decide at {decide}{}; {odds}",
        i.waited,
        met_before(strikes)
    );
    (Action::Wait, text)
}

/// What is due at the end of the wait, if other attempts met the incident too.
fn met_before(strikes: &Strikes) -> &'static str {
    match strikes.count {
        0 | 1 => "",
        2 => " (it was met before: then further back than last time, and with another remedy)",
        _ => " (it was met twice before: then stop)",
    }
}

fn lost_reason(i: &Incident) -> String {
    if i.kind == Kind::NonFinite {
        return "the loss is no number any more".to_owned();
    }
    match (i.residual, i.excess) {
        (Some(r), Some(e)) if e > 0.0 => {
            format!(
                "after {} steps the loss is still {:.3} above its level ({:.0} % of its peak)",
                i.waited,
                r.value,
                100.0 * r.value / e
            )
        }
        _ => format!("after {} steps the loss is not back", i.waited),
    }
}

fn settled(s: &Situation<'_>, way: Way<'_>) -> (Action, String) {
    let residual = s.incident.residual.map_or(0.0, |r| r.value);
    let harmless = |c: &str| c == "config-change" || c == "bad-data";
    let state = match s.verdict.cause.as_deref() {
        Some(cause) => !harmless(cause),
        // Undecided: a large shift is a loss to be taken back unless harder data lead the list.
        None => !s.verdict.leading().next().is_some_and(|(c, _)| harmless(c)) && large(s, residual),
    };
    if state && residual > 0.0 {
        let reason = format!("the loss settled {residual:.3} above its level");
        return back(s, way, &reason);
    }
    (
        Action::None,
        format!(
            "the loss settled at another level ({residual:+.3}): compare validation loss and settings"
        ),
    )
}

/// On the second strike the reason says what follows from it.
fn again(strikes: &Strikes, reason: &str) -> String {
    if !strikes.again() {
        return reason.to_owned();
    }
    let skipped = if strikes.skipped {
        ", and leaving batches out did not help"
    } else {
        ""
    };
    format!(
        "{reason}; it is the second attempt that met it at the same place{skipped}: further back than before, and with \
         another remedy"
    )
}

/// Whether a shift is more than 5 % of the level: far above what mixtures drift by themselves.
fn large(s: &Situation<'_>, residual: f64) -> bool {
    const LARGE: f64 = 0.05;
    residual > LARGE * s.incident.level.value.abs()
}

fn back(s: &Situation<'_>, way: Way<'_>, reason: &str) -> (Action, String) {
    if way.strikes.count >= STRIKES {
        return (
            Action::Stop,
            format!(
                "{reason}; {} attempts met it at the same place: change something before going back again",
                way.strikes.count
            ),
        );
    }
    let reason = again(way.strikes, reason);
    if !way.checkpoint && s.inventory.checkpoints.is_empty() {
        return (Action::Rollback, reason);
    }
    if !way.checkpoint {
        return (
            Action::Stop,
            format!("{reason}, and there is no checkpoint to go back to"),
        );
    }
    let bad_data = s.verdict.posterior_of("bad-data");
    let skips =
        way.skip && (s.verdict.cause.as_deref() == Some("bad-data") || bad_data >= SKIP_ANYWAY);
    if skips {
        return (
            Action::RollbackAndSkip,
            format!("{reason}, and bad data is likely ({bad_data:.2})"),
        );
    }
    let doubt = if s.verdict.outcome == Outcome::Decided {
        ""
    } else {
        "; the cause is not decided: pick the change with care"
    };
    (Action::Rollback, format!("{reason}{doubt}"))
}
