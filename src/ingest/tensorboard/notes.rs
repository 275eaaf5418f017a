//! What event files hold besides scalars that tells of the run: hyperparameters, and the arguments as text.

use std::collections::BTreeMap;

use crate::ingest::config;
use crate::ingest::wire::{Message, Value};
use crate::run::Rows;

/// A private fact of a file in which hyperparameters were noted.
pub(super) const HPARAMS: &str = "\u{1}hparams";
/// Tags of hyperparameters begin with it.
const PLUGIN: &[u8] = b"_hparams_/";
/// The text in which the HF Trainer writes its arguments, as JSON.
const ARGUMENTS: [&[u8]; 2] = [b"args/text_summary", b"args"];
/// The longest text that is read.
const LONGEST: usize = 1 << 20;

/// Facts as they are found.
#[derive(Debug, Default)]
pub(super) struct Notes {
    facts: BTreeMap<String, String>,
    hparams: bool,
}

impl Notes {
    /// Takes a value that is no scalar. What is damaged in it is passed over: nothing depends on it.
    pub(super) fn value(&mut self, tag: &[u8], bytes: &[u8]) {
        if tag.starts_with(PLUGIN) {
            self.hparams = true;
            for content in at(bytes, &[9, 1, 2, 3]) {
                self.hyperparameters(content);
            }
        } else if ARGUMENTS.contains(&tag) {
            for text in at(bytes, &[8, 8])
                .into_iter()
                .filter(|t| t.len() <= LONGEST)
            {
                // Text that is no JSON is for people.
                let _ = config::leaves(&mut self.facts, Vec::new(), text);
            }
        }
    }

    /// `SessionStartInfo{hparams: map<string, Value>}`.
    fn hyperparameters(&mut self, session: &[u8]) {
        for entry in at(session, &[1]) {
            let (mut name, mut value) = (String::new(), String::new());
            for (field, inner) in Message::new(entry) {
                match field {
                    1 => name = String::from_utf8_lossy(inner.bytes()).into_owned(),
                    2 => value = plain(inner.bytes()).unwrap_or_default(),
                    _ => {}
                }
            }
            config::note(&mut self.facts, &name, value.as_bytes(), true);
        }
    }

    pub(super) fn finish(self, rows: &mut Rows) {
        rows.facts.extend(self.facts);
        if self.hparams {
            rows.facts.insert(HPARAMS.to_owned(), String::new());
        }
    }
}

/// The messages or strings at a path of field numbers.
fn at<'a>(bytes: &'a [u8], path: &[u64]) -> Vec<&'a [u8]> {
    let Some((first, rest)) = path.split_first() else {
        return vec![bytes];
    };
    let inner = Message::new(bytes).filter(|(field, _)| field == first);
    inner
        .flat_map(|(_, value)| at(value.bytes(), rest))
        .collect()
}

/// `google.protobuf.Value` of a number, a string or a truth value.
fn plain(bytes: &[u8]) -> Option<String> {
    Message::new(bytes).find_map(|(field, value)| match (field, value) {
        (2, Value::Fixed64(bits)) => Some(f64::from_bits(bits).to_string()),
        (3, Value::Bytes(text)) => Some(String::from_utf8_lossy(text).into_owned()),
        (4, Value::Varint(truth)) => Some((truth != 0).to_string()),
        _ => None,
    })
}
