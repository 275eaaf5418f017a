//! The key/value metadata of a stored run: its own layout, each value JSON.

use std::collections::{BTreeMap, HashMap};

use parquet::file::metadata::KeyValue;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::run::{Began, DataLoss, Event, EventKind, Meta, Run, message, printable};
use crate::store::StoreError;

/// The layout that is written, and the newest that is read.
const FORMAT: u64 = 1;

const FORMAT_VERSION: &str = "whyspike.format_version";
const VERSION: &str = "whyspike.version";
const SOURCE_FORMAT: &str = "whyspike.source_format";
const SOURCES: &str = "whyspike.sources";
const STEP_BASE: &str = "whyspike.step_base";
const FRAMEWORK: &str = "whyspike.framework";
const CONFIG: &str = "whyspike.config";
const ATTEMPTS: &str = "whyspike.attempts";
const EVENTS: &str = "whyspike.events";
const LOSSES: &str = "whyspike.losses";

#[derive(Serialize, Deserialize)]
struct StoredBase {
    base: u64,
    known: bool,
}

#[derive(Default, Serialize, Deserialize)]
struct StoredFramework {
    name: Option<String>,
    version: Option<String>,
}

/// An attempt for readers of the file; only the reason is read back, since the rows tell the rest.
#[derive(Serialize, Deserialize)]
struct StoredAttempt {
    attempt: u32,
    first_row: usize,
    rows: usize,
    first_step: Option<u64>,
    began: StoredBegan,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
enum StoredBegan {
    First,
    StepWentBack { from: u64, to: u64 },
    ProcessStart,
    Loaded { step: u64 },
    Logged,
}

#[derive(Serialize, Deserialize)]
struct StoredEvent {
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredLoss {
    source: String,
    place: String,
    what: String,
}

/// What a run is besides its columns, in the layout of the file.
pub(super) fn key_values(run: &Run) -> Result<Vec<KeyValue>, StoreError> {
    let meta = &run.meta;
    let framework = StoredFramework {
        name: meta.framework.clone(),
        version: meta.framework_version.clone(),
    };
    let attempts: Vec<StoredAttempt> = run
        .attempts
        .iter()
        .map(|a| stored_attempt(run, a.index, &a.rows, &a.began))
        .collect();
    let events: Vec<StoredEvent> = run.events.iter().map(stored_event).collect();
    let losses: Vec<StoredLoss> = run.losses.iter().map(stored_loss).collect();
    Ok(vec![
        entry(FORMAT_VERSION, &FORMAT)?,
        entry(VERSION, env!("CARGO_PKG_VERSION"))?,
        entry(SOURCE_FORMAT, &meta.format)?,
        entry(SOURCES, &meta.sources)?,
        entry(
            STEP_BASE,
            &StoredBase {
                base: meta.step_base,
                known: meta.base_known,
            },
        )?,
        entry(FRAMEWORK, &framework)?,
        entry(CONFIG, &meta.facts)?,
        entry(ATTEMPTS, &attempts)?,
        entry(EVENTS, &events)?,
        entry(LOSSES, &losses)?,
    ])
}

fn entry<T: Serialize + ?Sized>(key: &'static str, value: &T) -> Result<KeyValue, StoreError> {
    let json = serde_json::to_string(value).map_err(|source| StoreError::Footer { key, source })?;
    Ok(KeyValue::new(key.to_owned(), json))
}

fn stored_attempt(
    run: &Run,
    attempt: u32,
    rows: &std::ops::Range<usize>,
    began: &Began,
) -> StoredAttempt {
    let began = match *began {
        Began::First => StoredBegan::First,
        Began::StepWentBack { from, to } => StoredBegan::StepWentBack { from, to },
        Began::ProcessStart => StoredBegan::ProcessStart,
        Began::Loaded { step } => StoredBegan::Loaded { step },
        Began::Logged => StoredBegan::Logged,
    };
    let first_step = run.steps.get(rows.start).copied();
    StoredAttempt {
        attempt,
        first_row: rows.start,
        rows: rows.len(),
        first_step,
        began,
    }
}

fn stored_event(event: &Event) -> StoredEvent {
    let kind = event.kind.name().to_owned();
    StoredEvent {
        attempt: event.attempt,
        step: event.step,
        kind,
        path: event.path.clone(),
    }
}

fn stored_loss(loss: &DataLoss) -> StoredLoss {
    StoredLoss {
        source: loss.source.clone(),
        place: loss.place.clone(),
        what: loss.what.clone(),
    }
}

/// The metadata of a stored run, read back.
pub(super) struct Footer {
    pub(super) meta: Meta,
    pub(super) began: BTreeMap<u32, Began>,
    pub(super) events: Vec<Event>,
    pub(super) losses: Vec<DataLoss>,
}

/// Whether a file says that it is a stored run.
pub(super) fn is_stored(pairs: Option<&Vec<KeyValue>>) -> bool {
    pairs.is_some_and(|pairs| pairs.iter().any(|p| p.key == FORMAT_VERSION))
}

impl Footer {
    /// Reads the metadata; `None` if the file is not a stored run. What an older version did not write is empty.
    pub(super) fn of(pairs: Option<&Vec<KeyValue>>) -> Result<Option<Self>, StoreError> {
        let given: HashMap<&str, &str> = pairs
            .into_iter()
            .flatten()
            .filter_map(|p| Some((p.key.as_str(), p.value.as_deref()?)))
            .collect();
        let Some(found) = value::<u64>(&given, FORMAT_VERSION)? else {
            return Ok(None);
        };
        if found > FORMAT {
            return Err(StoreError::Newer {
                found,
                known: FORMAT,
            });
        }
        let base: StoredBase = value(&given, STEP_BASE)?.unwrap_or(StoredBase {
            base: 1,
            known: false,
        });
        let framework: StoredFramework = value(&given, FRAMEWORK)?.unwrap_or_default();
        let attempts: Vec<StoredAttempt> = value(&given, ATTEMPTS)?.unwrap_or_default();
        let sources: Vec<String> = value(&given, SOURCES)?.unwrap_or_default();
        let format: String = value(&given, SOURCE_FORMAT)?.unwrap_or_default();
        let facts: BTreeMap<String, String> = value(&given, CONFIG)?.unwrap_or_default();
        let events: Vec<StoredEvent> = value(&given, EVENTS)?.unwrap_or_default();
        let losses: Vec<StoredLoss> = value(&given, LOSSES)?.unwrap_or_default();
        Ok(Some(Self {
            meta: Meta {
                sources: sources.iter().map(|s| shown(s)).collect(),
                format: shown(&format),
                framework: framework.name.as_deref().map(shown),
                framework_version: framework.version.as_deref().map(shown),
                step_base: base.base,
                base_known: base.known,
                facts: facts.iter().map(|(k, v)| (shown(k), shown(v))).collect(),
            },
            began: attempts
                .into_iter()
                .map(|a| (a.attempt, began(&a.began)))
                .collect(),
            events: events.iter().map(event).collect::<Result<_, _>>()?,
            losses: losses.iter().map(loss).collect(),
        }))
    }
}

fn value<T: DeserializeOwned>(
    given: &HashMap<&str, &str>,
    key: &'static str,
) -> Result<Option<T>, StoreError> {
    let parsed = given
        .get(key)
        .map(|json| serde_json::from_str(json))
        .transpose();
    parsed.map_err(|source| StoreError::Footer { key, source })
}

fn began(stored: &StoredBegan) -> Began {
    match *stored {
        StoredBegan::First => Began::First,
        StoredBegan::StepWentBack { from, to } => Began::StepWentBack { from, to },
        StoredBegan::ProcessStart => Began::ProcessStart,
        StoredBegan::Loaded { step } => Began::Loaded { step },
        StoredBegan::Logged => Began::Logged,
    }
}

fn event(stored: &StoredEvent) -> Result<Event, StoreError> {
    let Some(kind) = EventKind::ALL.into_iter().find(|k| k.name() == stored.kind) else {
        return Err(StoreError::Changed {
            what: message(&format!("there is no event `{}`", stored.kind)),
        });
    };
    Ok(Event {
        attempt: stored.attempt,
        step: stored.step,
        kind,
        path: stored.path.as_deref().map(shown),
    })
}

fn loss(stored: &StoredLoss) -> DataLoss {
    DataLoss::new(&stored.source, &stored.place, &stored.what)
}

fn shown(text: &str) -> String {
    printable(text).into_owned()
}
