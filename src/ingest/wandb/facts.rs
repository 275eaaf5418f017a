//! Configuration and summary: what stays the same over the run.

use std::collections::BTreeMap;

use crate::ingest::config::{self, note};
use crate::ingest::wandb::history::{History, named};
use crate::ingest::wire::Message;
use crate::run::Rows;

/// Facts as they are found.
#[derive(Debug, Default)]
pub(super) struct Facts {
    config: BTreeMap<String, String>,
    summary: BTreeMap<String, String>,
    path: Vec<u8>,
}

impl Facts {
    /// `ConfigRecord{update*}`; `false` if it is damaged.
    pub(super) fn config(&mut self, record: &[u8]) -> bool {
        let Self { config, path, .. } = self;
        items(record, |item| {
            let (name, json) = named(item, path)?;
            if name.starts_with(b"_wandb") {
                return Some(());
            }
            config::leaves(config, name.to_vec(), json)
        })
    }

    /// `SummaryRecord{update*}`, of which the last value of each metric is left out: a row has it. `false` if it is
    /// damaged.
    pub(super) fn summary(&mut self, record: &[u8], history: &History) -> bool {
        let Self { summary, path, .. } = self;
        items(record, |item| {
            let (name, json) = named(item, path)?;
            let plain = !matches!(json.first(), None | Some(b'{' | b'['));
            if plain && !name.starts_with(b"_") && !history.knows(name) {
                note(summary, &String::from_utf8_lossy(name), json, true);
            }
            Some(())
        })
    }

    /// `RunRecord{run_id, project, config, display_name}`; `false` if it is damaged.
    pub(super) fn run(&mut self, record: &[u8]) -> bool {
        let mut message = Message::new(record);
        let mut whole = true;
        for (field, value) in message.by_ref() {
            let name = match field {
                1 => "wandb_run_id",
                3 => "wandb_project",
                4 => {
                    whole &= self.config(value.bytes());
                    continue;
                }
                8 => "wandb_run_name",
                _ => continue,
            };
            note(&mut self.config, name, value.bytes(), true);
        }
        whole && !message.damaged()
    }

    /// Hands the facts over. Those of the summary have a name of their own.
    pub(super) fn finish(self, history: &History, rows: &mut Rows) {
        rows.run = self.config.get("wandb_run_id").cloned();
        rows.facts.extend(self.config);
        // The first summary of a metric stands before its first row.
        let summary = self
            .summary
            .into_iter()
            .filter(|(name, _)| !history.knows(name.as_bytes()));
        rows.facts
            .extend(summary.map(|(name, value)| (format!("summary/{name}"), value)));
    }
}

/// Calls `each` with the items of a record; `false` if any is damaged.
fn items<'a>(record: &'a [u8], mut each: impl FnMut(&'a [u8]) -> Option<()>) -> bool {
    let mut message = Message::new(record);
    let mut whole = true;
    for (field, value) in message.by_ref() {
        if field == 1 {
            whole &= each(value.bytes()).is_some();
        }
    }
    whole && !message.damaged()
}
