//! History records: one row each, the items in any order.

use std::collections::HashMap;

use crate::ingest::json;
use crate::ingest::number;
use crate::ingest::wire::Message;
use crate::run::Rows;

/// Metrics that are kept. More are keys that carry data in their names.
const MOST_METRICS: usize = 4096;

/// What a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// W&B's own counter of log calls.
    Step,
    /// When the row was logged.
    Time,
    Metric,
    /// Part of a histogram, an image or the like; W&B's own; one metric too many.
    Ignored,
}

#[derive(Debug)]
struct Key {
    name: Vec<u8>,
    role: Role,
    /// Its column, once it has a value.
    slot: Option<usize>,
}

/// Keys in the order in which they were first seen.
#[derive(Debug, Default)]
struct Keys {
    known: Vec<Key>,
    index: HashMap<Vec<u8>, usize>,
    next: usize,
    /// Keys that hold media; their parts are no metrics.
    media: Vec<Vec<u8>>,
    excess: usize,
}

impl Keys {
    #[inline]
    fn find(&mut self, name: &[u8]) -> Option<usize> {
        let expected = self.known.get(self.next).is_some_and(|k| k.name == name);
        let at = if expected {
            self.next
        } else {
            match self.index.get(name) {
                Some(at) => *at,
                None => self.learn(name)?,
            }
        };
        self.next = at + 1;
        Some(at)
    }

    fn learn(&mut self, name: &[u8]) -> Option<usize> {
        if self.known.len() >= MOST_METRICS {
            self.excess += 1;
            return None;
        }
        let role = match name {
            b"_step" => Role::Step,
            b"_timestamp" => Role::Time,
            b"_runtime" => Role::Ignored,
            _ if name.starts_with(b"_wandb") => Role::Ignored,
            _ if self.media.iter().any(|m| within(name, m)) => Role::Ignored,
            _ => Role::Metric,
        };
        self.index.insert(name.to_vec(), self.known.len());
        self.known.push(Key {
            name: name.to_vec(),
            role,
            slot: None,
        });
        Some(self.known.len() - 1)
    }

    /// Notes that a key holds media.
    fn ignore(&mut self, media: &[u8]) {
        if self.media.iter().any(|m| m == media) || self.media.len() >= MOST_METRICS {
            return;
        }
        self.media.push(media.to_vec());
        for key in self.known.iter_mut().filter(|k| within(&k.name, media)) {
            key.role = Role::Ignored;
        }
    }
}

/// Whether a name is that of a part of something.
fn within(name: &[u8], whole: &[u8]) -> bool {
    name.strip_prefix(whole)
        .is_some_and(|rest| rest.starts_with(b"/"))
}

/// Reads history records into rows.
#[derive(Debug, Default)]
pub(in crate::ingest) struct History {
    keys: Keys,
    /// Keys and values of the row.
    row: Vec<(usize, f64)>,
    step: Option<f64>,
    /// Scratch for names that are put together.
    path: Vec<u8>,
    /// Rows whose step is none.
    odd: usize,
}

impl History {
    /// Takes a record; `false` if it is damaged.
    pub(super) fn record(&mut self, record: &[u8], rows: &mut Rows) -> bool {
        self.row.clear();
        self.step = None;
        self.keys.next = 0;
        let mut counted = None;
        let mut whole = true;
        let mut message = Message::new(record);
        for (field, value) in message.by_ref() {
            match field {
                1 => whole &= self.item(value.bytes()).is_some(),
                2 => {
                    let num = Message::new(value.bytes()).find(|(field, _)| *field == 1);
                    counted = Some(num.map_or(0, |(_, num)| num.varint()) as f64);
                }
                _ => {}
            }
        }
        whole &= !message.damaged();
        let step = self.step.or(counted);
        self.end(step, rows);
        whole
    }

    /// Takes a row given as one JSON object; `false` if it is cut or does not fit: what is read of it is kept.
    pub(in crate::ingest) fn object(
        &mut self,
        object: &[u8],
        step: Option<f64>,
        time: Option<f64>,
        rows: &mut Rows,
    ) -> bool {
        self.row.clear();
        self.step = None;
        self.keys.next = 0;
        if let Some((at, time)) = self.keys.find(b"_timestamp").zip(time) {
            self.row.push((at, time));
        }
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let whole = json::leaves(object, &mut path, &mut |name, in_list, leaf| {
            if !in_list {
                self.value(name, leaf);
            }
        });
        self.path = path;
        self.end(step, rows);
        whole.is_some()
    }

    /// Whether any row has this key.
    pub(super) fn knows(&self, name: &[u8]) -> bool {
        self.keys.index.contains_key(name)
    }

    /// Tells what was left out.
    pub(in crate::ingest) fn tell(&self, rows: &mut Rows) {
        for (count, what) in [
            (self.odd, "rows without a step that counts were left out"),
            (self.keys.excess, "values of too many metrics were left out"),
        ] {
            if count > 0 {
                rows.lose("", format!("{count} {what}"));
            }
        }
    }

    /// `HistoryItem{key, nested_key*, value_json}`; `None` if it is damaged.
    #[inline]
    fn item(&mut self, item: &[u8]) -> Option<()> {
        let mut path = std::mem::take(&mut self.path);
        let outcome = named(item, &mut path).and_then(|(name, json)| {
            if json.starts_with(b"{") {
                self.nested(name, json)
            } else {
                self.value(name, json);
                Some(())
            }
        });
        self.path = path;
        outcome
    }

    /// A value that is an object, as older writers have it for nested metrics.
    fn nested(&mut self, name: &[u8], object: &[u8]) -> Option<()> {
        if object.starts_with(b"{\"_type\"") {
            return Some(());
        }
        let mut path = name.to_vec();
        json::leaves(object, &mut path, &mut |name, in_list, leaf| {
            if !in_list {
                self.value(name, leaf);
            }
        })
    }

    #[inline]
    fn value(&mut self, name: &[u8], json: &[u8]) {
        if json.starts_with(b"[") {
            return;
        }
        let Some(at) = self.keys.find(name) else {
            return;
        };
        match self.keys.known[at].role {
            Role::Step => self.step = json::scalar(json),
            Role::Time | Role::Metric => match json::scalar(json) {
                Some(value) => self.row.push((at, value)),
                None => {
                    if let Some(media) = name.strip_suffix(b"/_type") {
                        self.keys.ignore(media);
                    }
                }
            },
            Role::Ignored => {}
        }
    }

    fn end(&mut self, step: Option<f64>, rows: &mut Rows) {
        let keys = &mut self.keys.known;
        if !self
            .row
            .iter()
            .any(|(at, _)| keys[*at].role == Role::Metric)
        {
            return;
        }
        let Some(step) = step.and_then(number::step) else {
            self.odd += 1;
            return;
        };
        rows.begin(step);
        for (at, value) in &self.row {
            let key = &mut keys[*at];
            if key.role == Role::Ignored {
                continue;
            }
            let name = || String::from_utf8_lossy(&key.name);
            let slot = *key.slot.get_or_insert_with(|| rows.slot(&name()));
            rows.set(slot, *value);
        }
    }
}

/// The name and the JSON text of an item of a history, a summary or a configuration. Newer writers give the parts of
/// the name, even of a single one; older ones give one key. `None` if it is damaged.
#[inline]
pub(super) fn named<'a>(item: &'a [u8], path: &'a mut Vec<u8>) -> Option<(&'a [u8], &'a [u8])> {
    let (mut key, mut json) = (&item[..0], &item[..0]);
    let mut parts = 0;
    let mut message = Message::new(item);
    for (field, value) in message.by_ref() {
        match field {
            1 => key = value.bytes(),
            2 => {
                match parts {
                    0 => key = value.bytes(),
                    1 => {
                        path.clear();
                        path.extend_from_slice(key);
                    }
                    _ => {}
                }
                if parts > 0 {
                    path.push(b'/');
                    path.extend_from_slice(value.bytes());
                }
                parts += 1;
            }
            16 => json = value.bytes(),
            _ => {}
        }
    }
    if message.damaged() {
        return None;
    }
    Some((if parts > 1 { path } else { key }, json.trim_ascii()))
}
