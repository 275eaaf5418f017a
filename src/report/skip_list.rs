//! The batches to leave out, for a program: as JSON (`schemas/skip-list.json`) or as a framework's own list.

use serde_json::json;

use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::resume::{Framework, Resume, resume, skip_fragment};

/// Version of the layout.
pub const SCHEMA: u32 = 1;

/// The list as JSON, or why there is none.
pub fn json(d: &Diagnosis, x: &Diagnosed) -> Result<String, String> {
    let skip = x.plan.skip.as_ref().ok_or_else(|| nothing(x))?;
    let request = &x.plan.request;
    let tokens = request.sequence_length.map(|length| {
        let samples = skip.samples.iter();
        samples
            .map(|(from, until)| (from * length, until * length))
            .collect::<Vec<_>>()
    });
    let list = json!({
        "schema": SCHEMA,
        "whyspike": env!("CARGO_PKG_VERSION"),
        "incident": x.id,
        "step_base": d.run.meta.step_base,
        "rollback_step": x.plan.rollback.as_ref().map(|r| r.step),
        "steps": skip.steps,
        "samples": skip.samples,
        "tokens": tokens.filter(|t| !t.is_empty()),
        "batches": skip.batches,
        "micro_batches": request.micro_batches.map(|n| n * skip.batches),
        "earlier": request.earlier,
    });
    Ok(format!("{list:#}\n"))
}

/// The list as a framework reads it, or why there is none.
pub fn of_framework(d: &Diagnosis, x: &Diagnosed, framework: &Framework) -> Result<String, String> {
    if x.plan.skip.is_none() {
        return Err(nothing(x));
    }
    if x.plan.rollback.is_none() {
        return Err(format!(
            "incident {} has no way back that a list could be counted from: {}",
            x.id, x.plan.why
        ));
    }
    let own = d.framework.as_ref();
    // The run's own version is meant where the name is given alone.
    let framework = own
        .filter(|own| framework.version.is_none() && own.name == framework.name)
        .unwrap_or(framework);
    match skip_fragment(Some(framework), &x.plan.request) {
        Some(list) => Ok(format!("{list}\n")),
        None => Err(no_way(&resume(Some(framework), &x.plan.request))),
    }
}

fn nothing(x: &Diagnosed) -> String {
    format!("incident {} has no batches to skip: {}", x.id, x.plan.why)
}

/// Why a framework leaves nothing out, and what can be done instead.
fn no_way(answer: &Resume) -> String {
    let caveats = &answer.caveats;
    let ways = caveats.iter().find(|c| c.contains("ways out"));
    ways.or(caveats.last())
        .cloned()
        .unwrap_or_else(|| format!("{} has no list of batches to leave out", answer.framework))
}
