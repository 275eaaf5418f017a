//! What a watch tells: one line for people, JSON for programs, a message for chat.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::plan::{Action, Plan};
use crate::report::ansi::{self, BOLD, DIM, GREEN, PLAIN, RED};
// Slack's markup asks for the same three characters to be escaped.
use crate::report::markdown::html as escaped;
use crate::report::words;
use crate::report::{json as document, shown};
use crate::run::printable;
use crate::watch::{Change, Doing, Hang, News, Told};

/// A log's name as it is shown: names may hold what steers a terminal.
pub fn name(log: &std::path::Path) -> String {
    printable(&log.display().to_string()).into_owned()
}

/// News in one line for a terminal, without its end.
pub fn line(d: Option<&Diagnosis>, news: &News) -> String {
    let (colour, text) = says(d, news);
    format!("{colour}{BOLD}incident {}{PLAIN}  {text}", news.id)
}

/// What is said of the incident, and in which colour.
fn says(d: Option<&Diagnosis>, news: &News) -> (&'static str, String) {
    let (colour, text) = match (&news.what, at(d, news)) {
        (Change::New(_), Some((d, x))) => (ansi::of(x.plan.action), new(d, x)),
        (Change::Updated(was, _), Some((d, x))) => (ansi::of(x.plan.action), updated(d, x, was)),
        (Change::Withdrawn, _) => (DIM, WITHDRAWN.to_owned()),
        (Change::Hung(hang), _) => (RED, hung(hang)),
        (Change::GoesOn { step, after }, _) => (GREEN, goes_on(*step, *after)),
        (Change::New(_) | Change::Updated(..), None) => (PLAIN, String::new()),
    };
    (colour, printable(&text).into_owned())
}

const WITHDRAWN: &str = "taken back: with more rows it does not stand out";

/// The incident that news are about.
fn at<'a>(d: Option<&'a Diagnosis>, news: &News) -> Option<(&'a Diagnosis, &'a Diagnosed)> {
    let d = d?;
    let (Change::New(n) | Change::Updated(_, n)) = news.what else {
        return None;
    };
    Some((d, d.incidents.get(n)?))
}

/// Signal, kind and shape; of a shape that cannot be told yet, that it is open.
fn title(x: &Diagnosed) -> String {
    let i = &x.incident;
    let shape = if i.open { "open" } else { i.shape.name() };
    format!("{}, {}, {shape}", words::signal(i), i.kind.name())
}

fn new(d: &Diagnosis, x: &Diagnosed) -> String {
    let again = x.same_as.map_or("", |_| ", met again");
    format!(
        "{}{again} · {} · {} · {}",
        title(x),
        words::when(d, x),
        words::cause(&x.verdict),
        advice(&x.plan)
    )
}

/// The advice and where it leads.
fn advice(p: &Plan) -> String {
    let to = p
        .rollback
        .as_ref()
        .map_or(String::new(), |r| match p.action {
            Action::Rollback | Action::RollbackAndSkip => format!(" to {}", r.step),
            Action::Wait => format!(", way back {}", r.step),
            _ => String::new(),
        });
    format!("{}{to}: {}", words::action(p.action), p.why)
}

fn updated(d: &Diagnosis, x: &Diagnosed, was: &Told) -> String {
    let mut parts = vec![format!("now {}", title(x)), words::when(d, x)];
    if was.cause != x.verdict.cause {
        parts.push(words::cause(&x.verdict));
    }
    let action = x.plan.action;
    if was.action == action.name() {
        parts.push(advice(&x.plan));
    } else {
        let before = Action::named(&was.action).map_or("", words::action);
        parts.push(format!("{before} becomes {}", advice(&x.plan)));
    }
    parts.join(" · ")
}

fn hung(h: &Hang) -> String {
    let usual = h.usual.map_or(String::new(), |s| {
        format!("; a row comes every {}", shown(round(s)))
    });
    let longest = h.longest.map_or(String::new(), |s| {
        format!(", the longest pause was {}", shown(round(s)))
    });
    let saving = if h.doing == Doing::Saving {
        "; the log says that a checkpoint is being saved"
    } else {
        ""
    };
    format!(
        "hang · no step after {} for {}{usual}{longest}{saving} · look at the ranks: a stuck collective, a dead node or a full \
         file system",
        h.step,
        shown(h.waited.round())
    )
}

/// Seconds to three places.
fn round(s: f64) -> f64 {
    (s * 1000.0).round() / 1000.0
}

fn goes_on(step: u64, after: u64) -> String {
    format!("steps come again: {step} after {}", shown(after as f64))
}

/// The name of what happened, for programs.
fn event(what: &Change) -> &'static str {
    match what {
        Change::New(_) => "incident",
        Change::Updated(..) => "update",
        Change::Withdrawn => "withdrawn",
        Change::Hung(_) => "hang",
        Change::GoesOn { .. } => "goes-on",
    }
}

/// News for programs: what happened, the run, and the incident as a diagnosis prints it.
pub fn payload(log: &str, d: Option<&Diagnosis>, news: &News) -> Value {
    let incident = at(d, news).map(|(d, x)| document::incident(d, x));
    let mut out = json!({
        "schema": document::SCHEMA, "whyspike": env!("CARGO_PKG_VERSION"), "event": event(&news.what), "id": news.id,
        "log": printable(log), "says": says(d, news).1, "incident": incident,
        "run": d.map(|d| json!({ "format": d.run.meta.format, "last_step": d.run.steps.last(), "rows": d.run.len() })),
    });
    match &news.what {
        Change::Updated(was, _) => out["was"] = json!(was.as_ref()),
        Change::Hung(h) => {
            out["hang"] = json!({ "last_step": h.step, "seconds": round(h.waited), "allowed_seconds": round(h.limit),
                "usual_seconds": h.usual.map(round), "longest_pause_seconds": h.longest.map(round) });
        }
        Change::GoesOn { step, after } => {
            out["hang"] = json!({ "step": step, "seconds": after });
        }
        Change::New(_) | Change::Withdrawn => {}
    }
    out
}

/// News for a webhook that takes what Slack's incoming webhooks take: `text`, in its own markup.
pub fn message(log: &str, d: Option<&Diagnosis>, news: &News) -> Value {
    let name = log.rsplit('/').next().unwrap_or(log);
    let mut text = format!(
        "*whyspike: incident {}* in `{}`\n{}",
        news.id,
        escaped(&name.replace('`', "'")),
        escaped(&says(d, news).1).replace(" · ", "\n")
    );
    let resume = at(d, news).and_then(|(_, x)| Some((x, x.plan.resume.as_ref()?)));
    if let Some((x, resume)) = resume
        && words::acts(&x.plan)
        && let Some(command) = &resume.command
    {
        let command = escaped(&command.replace("```", "'''"));
        let _ = write!(text, "\n```{command}```");
    }
    json!({ "text": text })
}
