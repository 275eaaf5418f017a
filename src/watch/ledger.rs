//! What was told of a run: kept in a file, so that nothing is told twice whatever happens to the one who tells.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::detect::TRANSIENT_STEPS;
use crate::files;
use crate::ingest::follow::{Last, Mark};
use crate::plan::Action;
use crate::watch::{Change, Hang, News, Seen};

/// Version of the file.
const VERSION: u32 = 1;
/// Entries of rows that are gone are kept up to this number.
const MOST: usize = 4096;

/// A place in the history of a run: in order of attempt, then step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The attempt, counted from the start of the log.
    pub attempt: u32,
    /// The step, in the source's own numbers.
    pub step: u64,
}

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Loss or gradient norm left their level.
    Incident,
    /// The step no longer advanced.
    Hang,
}

/// What was said last of an incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// `loss` or `grad_norm`; `step` of a hang.
    pub signal: String,
    /// The kind, as in reports.
    pub kind: String,
    /// The shape, as in reports; empty of a hang.
    pub shape: String,
    /// Whether the shape could not be told yet; of a hang, whether it lasts.
    pub open: bool,
    /// The decided cause.
    pub cause: Option<String>,
    /// The advice, as in reports.
    pub action: String,
}

/// An incident that was told, or is about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Number among the incidents of the watch, from 1.
    pub id: u64,
    /// What it is about.
    pub what: What,
    /// Its first step; of a hang the last step that came.
    pub onset: Place,
    /// Its last step so far.
    pub end: Place,
    /// Its last step when it was told.
    pub shown_to: Place,
    /// What was said last.
    pub told: Told,
    /// Whether it was taken back since.
    pub withdrawn: bool,
    /// Since when it looks calmer than what was said last.
    pub(super) calmer_since: Option<Place>,
}

/// News that are to be handed to a command or a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// Name of the files that belong to it.
    pub name: String,
    /// Where to.
    pub channel: Channel,
}

/// Where news are handed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channel {
    /// The command for new incidents.
    Incident,
    /// The command for what became of them.
    Update,
    /// The webhook.
    Webhook,
}

/// What was told of one log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ledger {
    version: u32,
    /// The log, from the root on.
    pub log: String,
    /// How far which file was read.
    #[serde(default)]
    pub mark: Option<Mark>,
    next: u64,
    /// Number of the news so far.
    pub news: u64,
    /// The last place that was looked at.
    pub seen_to: Place,
    /// Rows up to here are gone: what there was of them was told.
    pub(super) settled_to: Place,
    /// When a new step came last, in seconds since 1970.
    pub advanced_at: Option<f64>,
    /// What was told, in order.
    pub entries: Vec<Entry>,
    /// Lines that are to be printed.
    pub unsaid: Vec<String>,
    /// News that are to be handed on.
    pub due: Vec<Due>,
}

/// The ledger cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file holds something else.
    #[error(
        "it is no state of `whyspike watch` ({0}): remove it, and what was told may be told again"
    )]
    Broken(String),
    /// The file is of another version.
    #[error(
        "it was written by another version of whyspike (state {0}, this one has {VERSION}): remove it, and what was told may be told again"
    )]
    Version(u32),
}

impl Ledger {
    /// A ledger in which nothing was told yet.
    pub fn new(log: &str) -> Self {
        Self {
            version: VERSION,
            log: log.to_owned(),
            next: 1,
            ..Self::default()
        }
    }

    /// Where the reading ended.
    pub fn last(&self) -> Last {
        let seen = self.seen_to;
        Last {
            mark: self.mark.clone(),
            place: (seen != Place::default()).then_some((seen.attempt, seen.step)),
        }
    }

    /// Reads a ledger; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Self>, LedgerError> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let ledger: Self =
            serde_json::from_slice(&text).map_err(|e| LedgerError::Broken(e.to_string()))?;
        if ledger.version != VERSION {
            return Err(LedgerError::Version(ledger.version));
        }
        Ok(Some(ledger))
    }

    /// Writes the ledger: the old one stands until the new one is whole.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        files::replace(path, |file| file.write_all(&text))
    }

    /// Rows before a place are gone; so are the oldest of too many entries.
    pub(super) fn settle(&mut self, place: Place) {
        self.settled_to = self.settled_to.max(place);
        let spare = self.entries.len().saturating_sub(MOST);
        let gone = self.settled_to;
        let mut left = spare;
        self.entries.retain(|e| {
            let go = left > 0 && e.end < gone;
            left -= usize::from(go);
            !go
        });
    }

    /// Whether what begins at a place was told: it lies before what is kept, or in what an entry had shown when it was told.
    pub(super) fn covers(&self, onset: Place) -> bool {
        let inside =
            |e: &Entry| e.what == What::Incident && e.onset <= onset && onset <= e.shown_to;
        let gone = self.settled_to != Place::default() && onset < self.settled_to;
        gone || self.entries.iter().any(inside)
    }

    pub(super) fn open(&mut self, told: Told, seen: &Seen) -> News {
        let id = self.push(What::Incident, told, seen.onset, seen.end);
        News {
            id,
            what: Change::New(seen.at),
        }
    }

    fn push(&mut self, what: What, told: Told, onset: Place, end: Place) -> u64 {
        let id = self.next;
        self.next += 1;
        self.entries.push(Entry {
            id,
            what,
            onset,
            end,
            shown_to: end,
            told,
            withdrawn: false,
            calmer_since: None,
        });
        id
    }

    /// An incident as it is now, and the last place in the log. News if the advice, the decided cause or its end are others
    /// than told: what is worse at once, what is calmer once it has held.
    pub(super) fn update(
        &mut self,
        entry: usize,
        now: &Told,
        seen: &Seen,
        last: Place,
    ) -> Option<News> {
        let e = &mut self.entries[entry];
        (e.onset, e.end) = (seen.onset, seen.end);
        let differs = e.withdrawn
            || now.action != e.told.action
            || now.cause.is_some() && now.cause != e.told.cause
            || e.told.open && !now.open;
        if !differs {
            e.calmer_since = None;
            return None;
        }
        let worse = e.withdrawn || urgency(&now.action) > urgency(&e.told.action);
        let since = if now.open {
            *e.calmer_since.get_or_insert(last)
        } else {
            seen.end
        };
        let held = last.attempt > since.attempt || last.step >= since.step + TRANSIENT_STEPS;
        if !worse && !held {
            return None;
        }
        (e.withdrawn, e.calmer_since) = (false, None);
        let before = std::mem::replace(&mut e.told, now.clone());
        Some(News {
            id: e.id,
            what: Change::Updated(Box::new(before), seen.at),
        })
    }

    pub(super) fn withdraw(&mut self, entry: usize) -> Option<News> {
        let e = &mut self.entries[entry];
        if e.what != What::Incident || std::mem::replace(&mut e.withdrawn, true) {
            return None;
        }
        e.told.open = false;
        Some(News {
            id: e.id,
            what: Change::Withdrawn,
        })
    }

    /// Opens a hang, unless it is open.
    pub(super) fn open_hang(&mut self, hang: &Hang, last: Place) -> Option<u64> {
        let same = |e: &Entry| e.what == What::Hang && e.onset == last;
        if self.entries.iter().any(same) {
            return None;
        }
        let told = Told {
            signal: "step".to_owned(),
            kind: "hang".to_owned(),
            open: true,
            action: hang.advice().to_owned(),
            ..Told::default()
        };
        Some(self.push(What::Hang, told, last, last))
    }

    /// Ends the hang that is open, if any.
    pub(super) fn end_hang(&mut self) -> Option<u64> {
        let mut open = self.entries.iter_mut();
        let e = open.find(|e| e.what == What::Hang && e.told.open)?;
        e.told.open = false;
        Some(e.id)
    }

    /// Incidents that are open: their shape cannot be told yet, or the loss is not back.
    pub fn open_incidents(&self) -> impl Iterator<Item = &Entry> {
        let lasting = |e: &&Entry| e.told.open || e.told.shape == "divergent";
        self.entries.iter().filter(|e| !e.withdrawn).filter(lasting)
    }
}

/// How much an action asks for.
fn urgency(action: &str) -> u8 {
    match Action::named(action) {
        Some(Action::None) | None => 0,
        Some(Action::Wait) => 1,
        Some(Action::Rollback | Action::RollbackAndSkip) => 2,
        Some(Action::Stop) => 3,
    }
}
