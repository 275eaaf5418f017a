//! The named measurements of an incident, F01 to F50 of rules/SOURCES.md and the outcomes of replays.
//!
//! A feature whose signals were not logged is unknown (`None`), never zero; a value that is not finite is unknown too,
//! for a NaN must not reach a condition.

mod acute;
mod attention;
mod context;
pub(crate) mod cut;
mod data;
mod gradient;
mod layers;
mod ops;
mod optimizer;
mod precision;
mod schedule;

use std::collections::BTreeMap;

use crate::detect::Incident;
use crate::replay::OtherRun;
use crate::run::Run;

pub use context::{Context, History};

/// A measurement.
#[derive(Debug)]
pub struct Feature {
    /// F-number of the catalogue, or what it belongs to.
    pub id: &'static str,
    /// Name in conditions and reports.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Window in steps, in words.
    pub window: &'static str,
    /// Signals without which it is unknown.
    pub needs: &'static [&'static str],
    /// What it measures.
    pub about: &'static str,
    /// Whether it is true or false rather than a number.
    pub boolean: bool,
    compute: fn(&Context<'_>) -> Option<f64>,
}

const fn number(
    id: &'static str,
    name: &'static str,
    unit: &'static str,
    window: &'static str,
    needs: &'static [&'static str],
    about: &'static str,
    compute: fn(&Context<'_>) -> Option<f64>,
) -> Feature {
    Feature {
        id,
        name,
        unit,
        window,
        needs,
        about,
        boolean: false,
        compute,
    }
}

const fn boolean(
    id: &'static str,
    name: &'static str,
    window: &'static str,
    needs: &'static [&'static str],
    about: &'static str,
    compute: fn(&Context<'_>) -> Option<f64>,
) -> Feature {
    Feature {
        id,
        name,
        unit: "true or false",
        window,
        needs,
        about,
        boolean: true,
        compute,
    }
}

/// A feature of the catalogue that this version does not compute; it is always unknown.
const fn later(
    id: &'static str,
    name: &'static str,
    unit: &'static str,
    window: &'static str,
    needs: &'static [&'static str],
    about: &'static str,
) -> Feature {
    number(id, name, unit, window, needs, about, |_| None)
}

/// A value of a feature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A finite number.
    Number(f64),
    /// True or false.
    Bool(bool),
}

impl Value {
    /// The value as a number; true is 1.
    pub fn number(self) -> f64 {
        match self {
            Self::Number(v) => v,
            Self::Bool(b) => f64::from(u8::from(b)),
        }
    }
}

/// One row of features: every name of the catalogue, unknown ones as `None`.
pub type Row = BTreeMap<&'static str, Option<Value>>;

/// Every feature, in order of its number.
pub fn catalogue() -> impl Iterator<Item = &'static Feature> {
    [
        acute::FEATURES,
        gradient::FEATURES,
        optimizer::FEATURES,
        layers::FEATURES,
        schedule::FEATURES,
        attention::FEATURES,
        precision::FEATURES,
        data::FEATURES,
        ops::FEATURES,
    ]
    .into_iter()
    .flatten()
}

/// Looks a feature up by name.
pub fn feature(name: &str) -> Option<&'static Feature> {
    catalogue().find(|f| f.name == name)
}

/// Measures an incident. `incidents` are all incidents of the run, `history` the rows behind their attempts, `others`
/// the runs over the same steps that the user gave.
pub fn measure(
    run: &Run,
    incident: &Incident,
    incidents: &[Incident],
    history: &History,
    others: &[OtherRun],
) -> Row {
    let context = Context::new(run, incident, incidents, history, others);
    catalogue()
        .map(|f| (f.name, value(f, (f.compute)(&context))))
        .collect()
}

fn value(feature: &Feature, raw: Option<f64>) -> Option<Value> {
    let raw = raw.filter(|v| v.is_finite())?;
    Some(if feature.boolean {
        Value::Bool(raw != 0.0)
    } else {
        Value::Number(raw)
    })
}

/// Whether the run has a signal, a member of its family, or prints the setting of that name.
pub fn has(run: &Run, signal: &str) -> bool {
    let fact = match signal {
        "beta2" => run.beta2(),
        "clip_grad" => run.fact(&crate::run::CLIP_KEYS),
        _ => None,
    };
    fact.is_some() || run.column(signal).is_some() || run.family(signal).next().is_some()
}
