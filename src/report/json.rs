//! The diagnosis as JSON, schema 1: a layout of its own, in the source's step numbers.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::detect::{Incident, Over, return_odds};
use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::features::Value as Feature;
use crate::plan::{Cost, Health, Plan, Price, Reading, Source};
use crate::replay::{Data, Replay};
use crate::verdict::Verdict;

/// Version of the layout.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    whyspike: &'static str,
    run: RunPart<'a>,
    incidents: Vec<Value>,
}

#[derive(Serialize)]
struct RunPart<'a> {
    sources: &'a [String],
    format: &'a str,
    framework: Option<&'a str>,
    rows: usize,
    attempts: usize,
    first_step: Option<u64>,
    last_step: Option<u64>,
    step_base: u64,
    step_base_known: bool,
    signals: Vec<&'a str>,
    missing: &'a [&'static str],
    checkpoints: Vec<u64>,
    checkpoint_warnings: &'a [String],
    replays: Vec<Value>,
    level_changes: Vec<Value>,
    cautions: Vec<Value>,
    data_losses: Vec<Value>,
}

/// The whole document, indented, with a newline at its end.
pub fn render(d: &Diagnosis) -> String {
    let document = Document {
        schema: SCHEMA,
        whyspike: env!("CARGO_PKG_VERSION"),
        run: run(d),
        incidents: d.incidents.iter().map(|i| incident(d, i)).collect(),
    };
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_else(|_| "{}".to_owned());
    text.push('\n');
    text
}

/// One plan alone, for `plan --format json`.
pub fn render_plan(d: &Diagnosis, which: &Diagnosed) -> String {
    let whole = json!({ "schema": SCHEMA, "whyspike": env!("CARGO_PKG_VERSION"), "incident": which.id,
        "onset_step": d.run.steps[which.incident.onset_row], "plan": plan(&which.plan) });
    format!("{whole:#}\n")
}

/// What `plan --format json` prints for a run without incidents.
pub fn render_no_plan() -> String {
    let whole = json!({ "schema": SCHEMA, "whyspike": env!("CARGO_PKG_VERSION"), "incident": null, "plan": null });
    format!("{whole:#}\n")
}

fn run(d: &Diagnosis) -> RunPart<'_> {
    let losses = d.run.losses.iter();
    let span = d.run.span();
    RunPart {
        sources: &d.run.meta.sources,
        format: &d.run.meta.format,
        framework: d.framework.as_ref().map(|f| f.name.as_str()),
        rows: d.run.len(),
        attempts: d.run.attempts.len(),
        first_step: span.map(|s| s.0),
        last_step: span.map(|s| s.1),
        step_base: d.run.meta.step_base,
        step_base_known: d.run.meta.base_known,
        signals: d.run.columns().map(|(n, _)| n).collect(),
        missing: &d.missing,
        checkpoints: d.inventory.checkpoints.iter().map(|c| c.step).collect(),
        checkpoint_warnings: &d.inventory.warnings,
        replays: d.replays.iter().map(replay).collect(),
        cautions: d
            .cautions
            .iter()
            .map(|c| json!({ "kind": c.name(), "says": c.to_string() }))
            .collect(),
        level_changes: d.changes.iter().map(|c| change(d, c)).collect(),
        data_losses: losses
            .map(|l| json!({ "source": l.source, "place": l.place, "what": l.what }))
            .collect(),
    }
}

/// A later attempt over the steps of an earlier one: whether the data were the same, and how that shows.
fn replay(r: &Replay) -> Value {
    let (data, skipped) = match r.data {
        Data::Same => ("same", None),
        Data::Skipped { from_step, samples } => ("skipped", Some((from_step, samples))),
        Data::Other => ("other", None),
        Data::Unknown => ("unknown", None),
    };
    json!({
        "earlier": r.earlier, "later": r.later, "steps": [r.first_step, r.last_step], "data": data,
        "skipped_from": skipped.map(|s| s.0), "skipped_samples": skipped.map(|s| s.1), "rows": r.rows,
        "correlation": number(r.correlation), "best_lag": r.best_lag.map(|b| b.0),
        "best_correlation": number(r.best_lag.map(|b| b.1)), "learning_rate_ratio": number(r.lr_ratio),
    })
}

/// A lasting change of the level that is no incident.
fn change(d: &Diagnosis, c: &Incident) -> Value {
    json!({
        "attempt": c.attempt, "step": d.run.steps[c.onset_row], "baseline": number(Some(c.level.value)),
        "by": number(c.residual.map(|r| r.value)), "margin": number(c.residual.map(|r| r.margin)),
    })
}

/// An incident with everything that is concluded about it.
pub(super) fn incident(d: &Diagnosis, x: &Diagnosed) -> Value {
    let i = &x.incident;
    let step = |row: Option<usize>| row.map(|r| d.run.steps[r]);
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("id", json!(x.id));
    put("attempt", json!(i.attempt));
    put("same_as", json!(x.same_as));
    put("signal", json!(i.signal));
    put("kind", json!(i.kind.name()));
    put("onset_step", json!(d.run.steps[i.onset_row]));
    put("peak_step", json!(step(i.peak_row)));
    put("return_step", json!(step(i.return_row)));
    put("return_is_latest_bound", json!(i.return_is_bound));
    put("grad_return_step", json!(step(i.grad_return_row)));
    put(
        "peaks",
        json!(i.peaks.iter().map(|p| d.run.steps[*p]).collect::<Vec<_>>()),
    );
    put("baseline", number(Some(i.level.value)));
    put("noise", number(Some(i.level.scale)));
    put("noise_is_prior", json!(i.level.prior));
    put("peak", number(i.peak));
    put("excess", number(i.excess));
    put("score", number(i.score));
    put("shape", json!(i.shape.name()));
    put("open", json!(i.open));
    put("against_twin", json!(i.over == Over::Twin));
    put("residual", residual(i));
    put("documented_returns", returns(i));
    put("verdict", verdict(&x.verdict));
    put("features", features(x));
    put("plan", plan(&x.plan));
    Value::Object(out)
}

/// What is left of the excess, with its 95 % interval.
fn residual(i: &Incident) -> Value {
    let Some(r) = i.residual else {
        return Value::Null;
    };
    json!({ "value": number(Some(r.value)), "low": number(Some(r.value - r.margin)),
        "high": number(Some(r.value + r.margin)) })
}

/// For an open incident: how many documented spikes that were out as long came back.
fn returns(i: &Incident) -> Value {
    let (returned, of) = return_odds(i.waited);
    if i.open {
        json!({ "waited": i.waited, "returned": returned, "of": of })
    } else {
        Value::Null
    }
}

/// A number with six significant digits, `null` if it is not known or not finite.
fn number(v: Option<f64>) -> Value {
    let Some(v) = v.filter(|v| v.is_finite()) else {
        return Value::Null;
    };
    let rounded: f64 = format!("{v:.5e}").parse().unwrap_or(v);
    json!(rounded)
}

fn verdict(v: &Verdict) -> Value {
    let posterior: Map<String, Value> = v
        .posterior
        .iter()
        .map(|(c, p)| (c.clone(), json!(rounded(*p))))
        .collect();
    let evidence: Vec<Value> = v
        .evidence
        .iter()
        .map(|f| {
            json!({ "cause": f.cause, "id": f.id, "holds": f.holds, "ratio": f.ratio, "says": f.says,
                "basis": f.basis.name(), "runs": f.runs, "source": f.source })
        })
        .collect();
    let experiment = v.experiment.as_ref().map(|x| {
        let predicts: Map<String, Value> = x
            .predictions
            .iter()
            .map(|(cause, outlook, note)| {
                let text = if note.is_empty() {
                    outlook.words().to_owned()
                } else {
                    format!("{}: {note}", outlook.words())
                };
                (cause.clone(), json!(text))
            })
            .collect();
        json!({ "kind": x.kind, "predicts": predicts })
    });
    json!({
        "outcome": v.outcome.name(),
        "cause": v.cause,
        "posterior": posterior,
        "evidence": evidence,
        "would_decide": { "signals": v.deciding_signals, "experiment": experiment },
    })
}

fn rounded(p: f64) -> f64 {
    (p * 10_000.0).round() / 10_000.0
}

fn features(x: &Diagnosed) -> Value {
    let of = |v: Option<Feature>| match v {
        None => Value::Null,
        Some(Feature::Bool(b)) => json!(b),
        Some(Feature::Number(v)) => number(Some(v)),
    };
    Value::Object(
        x.features
            .iter()
            .map(|(name, v)| ((*name).to_owned(), of(*v)))
            .collect(),
    )
}

fn plan(p: &Plan) -> Value {
    let rollback = p.rollback.as_ref();
    let rollback = rollback.map(
        |r| json!({ "step": r.step, "path": r.path, "steps_lost": r.steps_lost, "why": r.why }),
    );
    let skip = p.skip.as_ref();
    let skip = skip.map(
        |k| json!({ "steps": k.steps, "samples": k.samples, "batches": k.batches, "why": k.why }),
    );
    let resume = p.resume.as_ref();
    let resume = resume
        .map(|r| json!({ "framework": r.framework, "command": r.command, "caveats": r.caveats }));
    let candidates: Vec<Value> = p
        .candidates
        .iter()
        .map(|c| json!({ "step": c.step, "fits": c.fits, "why": c.why, "health": health(&c.health) }))
        .collect();
    json!({
        "action": p.action.name(),
        "why": p.why,
        "rollback": rollback,
        "candidates": candidates,
        "skip": skip,
        "change": if p.change.is_empty() { Value::Null } else { json!(p.change.join("; ")) },
        "resume": resume,
        "cost": cost(&p.cost),
    })
}

fn health(h: &Health) -> Value {
    let reading = |r: &Reading| {
        let value = json!({ "value": number(Some(r.value)), "level": number(Some(r.level)),
            "sd": number(Some(r.sd)) });
        (r.signal.to_owned(), value)
    };
    let mut out: Map<String, Value> = h.readings.iter().map(reading).collect();
    out.insert("clean_for_steps".to_owned(), json!(h.clean_for));
    Value::Object(out)
}

fn cost(c: &Cost) -> Value {
    let source = c.step_time.map(|(_, source)| match source {
        Source::Told => "told",
        Source::Logged => "logged",
        Source::Clock => "clock",
    });
    let wait = c.wait.map(|w| {
        json!({ "until_step": w.until, "returned": w.returned.0, "of": w.returned.1, "cost": price(&w.price),
            "expected": w.expected.as_ref().map(price) })
    });
    json!({
        "step_time": number(c.step_time.map(|(t, _)| t)),
        "step_time_from": source,
        "restart_time": number(Some(c.restart)),
        "restart_time_assumed": c.restart_assumed,
        "gpus": c.gpus,
        "wait": wait,
        "rollback": c.rollback.as_ref().map(price),
        "stop": c.stop.as_ref().map(price),
        "standing_hour": number(c.standing),
    })
}

/// Steps, and what they come to.
fn price(p: &Price) -> Value {
    json!({ "steps": number(Some(p.steps)), "hours": number(p.hours), "gpu_hours": number(p.gpu_hours),
        "money": number(p.money) })
}
