//! Weights & Biases: the `.wandb` files that runs write, offline or not.

mod blocks;
mod facts;
pub(super) mod history;
pub(super) mod step;

use std::io::Read;

use crate::ingest::wire::Message;
use crate::ingest::wire::Value;
use crate::ingest::{Ingester, Reader};
use crate::run::EventKind;
use crate::run::Rows;

use blocks::{Blocks, Item};
use facts::Facts;
use history::History;

/// `run-*.wandb` of both generations of the SDK.
pub(super) const INGESTER: Ingester = Ingester {
    name: "wandb",
    recognised_by: "the bytes `:W&B` at the start",
    signals: &["any metric, by the alias table", "time"],
    framework: None,
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Stream(read),
};

/// Damaged places that are told one by one.
const TOLD: usize = 100;
/// Step metrics that a run may declare.
const MOST_DEFINED: usize = 64;

fn sniff(head: &[u8]) -> u8 {
    if head.starts_with(&blocks::MAGIC) {
        100
    } else {
        0
    }
}

fn read(input: &mut dyn Read, rows: &mut Rows) -> Result<(), String> {
    let mut blocks = Blocks::new(input)?;
    let mut log = Log::default();
    let mut damaged = 0_usize;
    // Each file is written by one process.
    rows.mark(EventKind::Start, None, None);
    loop {
        let at = blocks.offset();
        let lost = match blocks.next() {
            None => break,
            Some(Item::Lost { at, what }) => Some((at, what)),
            Some(Item::Record(record)) => {
                let whole = log.record(record, rows);
                (!whole).then(|| (at, "a part of this record is damaged".to_owned()))
            }
        };
        if let Some((at, what)) = lost {
            damaged += 1;
            if damaged <= TOLD {
                rows.lose(format!("byte {at}"), what);
            }
        }
    }
    if damaged > TOLD {
        rows.lose("", format!("{damaged} places are damaged"));
    }
    if rows.steps.is_empty() {
        rows.marks.clear();
    }
    log.history.tell(rows);
    log.facts.finish(&log.history, rows);
    step::settle(rows, &log.defined);
    Ok(())
}

/// What is read from the records of a file.
#[derive(Debug, Default)]
struct Log {
    history: History,
    facts: Facts,
    /// Step metrics that the run declared.
    defined: Vec<String>,
}

impl Log {
    /// Takes a record; `false` if a part of it is damaged.
    fn record(&mut self, record: &[u8], rows: &mut Rows) -> bool {
        let mut message = Message::new(record);
        let mut whole = true;
        for (field, value) in message.by_ref() {
            let Value::Bytes(bytes) = value else {
                continue;
            };
            whole &= match field {
                2 => self.history.record(bytes, rows),
                3 => self.facts.summary(bytes, &self.history),
                5 => self.facts.config(bytes),
                12 => self.metric(bytes),
                17 => self.facts.run(bytes),
                18 => {
                    rows.mark(EventKind::Exit, None, None);
                    true
                }
                _ => true,
            };
        }
        whole && !message.damaged()
    }

    /// `MetricRecord{step_metric}`: what `define_metric` declares.
    fn metric(&mut self, record: &[u8]) -> bool {
        let mut message = Message::new(record);
        for (field, value) in message.by_ref() {
            let name = String::from_utf8_lossy(value.bytes());
            if field == 4
                && self.defined.len() < MOST_DEFINED
                && !self.defined.iter().any(|d| *d == name)
            {
                self.defined.push(name.into_owned());
            }
        }
        !message.damaged()
    }
}

#[cfg(test)]
mod tests;
