//! TensorBoard event files: `TFRecord` frames around protobuf events, a scalar of one tag each.

pub(super) mod folders;
mod frames;
mod notes;
mod scalar;
mod table;
mod tags;

use std::io::Read;

use crate::ingest::wire::Message;
use crate::ingest::wire::Value;
use crate::ingest::{Ingester, Reader};
use crate::run::EventKind;
use crate::run::Rows;

use frames::{Frame, Frames};
use notes::Notes;
use table::{Sample, Table};
use tags::{Axis, Tags};

/// Event files of TensorBoard, PyTorch's writer, tensorboardX and TensorFlow.
pub(super) const INGESTER: Ingester = Ingester {
    name: "tensorboard",
    recognised_by: "records whose lengths carry a CRC-32C, the first of them `brain.Event`",
    signals: &["any scalar, by the alias table", "time"],
    framework: None,
    step_base: None,
    averaged: false,
    interleaved: false,
    sniff,
    reader: Reader::Stream(read),
};

/// Damaged places that are told one by one.
const TOLD: usize = 100;

fn sniff(head: &[u8]) -> u8 {
    let Some(len) = frames::length(head) else {
        return 0;
    };
    let data = &head[frames::HEADER..];
    let data = &data[..data.len().min(len.min(1 << 20) as usize)];
    if memchr::memmem::find(data, b"brain.Event:").is_some() {
        return 100;
    }
    // Records of other kinds have the same frame.
    let event = Event::parse(data);
    if event.is_some_and(|e| e.wall > 0.0 && e.summary.is_some()) {
        90
    } else {
        0
    }
}

fn read(input: &mut dyn Read, rows: &mut Rows) -> Result<(), String> {
    let mut frames = Frames::new(input);
    let mut log = Log::new();
    let framed = frames.begins();
    let (mut records, mut damaged) = (0_usize, 0_usize);
    loop {
        let at = frames.offset();
        let lost = match frames.next() {
            None => break,
            Some(Frame::Lost { at, what }) => Some((at, what)),
            Some(Frame::Record(data)) => {
                records += 1;
                let whole = log.event(data);
                (!whole).then(|| (at, "the event in this record is damaged".to_owned()))
            }
        };
        if let Some((at, what)) = lost {
            damaged += 1;
            if damaged <= TOLD {
                rows.lose(format!("byte {at}"), what);
            }
        }
    }
    if records == 0 && !framed {
        return Err("it does not begin as an event file does, and no record is in it".to_owned());
    }
    if damaged > TOLD {
        rows.lose("", format!("{damaged} places are damaged"));
    }
    log.finish(rows);
    Ok(())
}

/// The parts of an event that are of use.
#[derive(Debug, Default, Clone, Copy)]
struct Event<'a> {
    wall: f64,
    /// 0 if it is left out.
    step: u64,
    summary: Option<&'a [u8]>,
    session: Option<&'a [u8]>,
}

impl<'a> Event<'a> {
    /// `None` if it is damaged.
    #[inline]
    fn parse(data: &'a [u8]) -> Option<Self> {
        let mut event = Self::default();
        let mut message = Message::new(data);
        for (field, value) in message.by_ref() {
            match (field, value) {
                (1, Value::Fixed64(bits)) => event.wall = f64::from_bits(bits),
                (2, Value::Varint(step)) => event.step = step,
                (5, Value::Bytes(bytes)) => event.summary = Some(bytes),
                (7, Value::Bytes(bytes)) => event.session = Some(bytes),
                _ => {}
            }
        }
        (!message.damaged()).then_some(event)
    }
}

/// What is read from the events of a file.
struct Log {
    tags: Tags,
    /// Rows over training steps.
    steps: Table,
    /// Rows over samples.
    samples: Table,
    notes: Notes,
    /// Values whose step is negative or too large.
    odd: usize,
}

impl Log {
    fn new() -> Self {
        Self {
            tags: Tags::default(),
            steps: Table::new(),
            samples: Table::new(),
            notes: Notes::default(),
            odd: 0,
        }
    }

    /// Takes an event; `false` if it is damaged.
    #[inline]
    fn event(&mut self, data: &[u8]) -> bool {
        let Some(event) = Event::parse(data) else {
            return false;
        };
        if let Some(session) = event.session {
            self.session(session, event.step);
        }
        let Some(summary) = event.summary else {
            return true;
        };
        let mut message = Message::new(summary);
        let mut whole = true;
        for (field, value) in message.by_ref() {
            if field == 1 {
                whole &= self.value(value.bytes(), &event).is_some();
            }
        }
        whole && !message.damaged()
    }

    /// Takes a value of a summary; `None` if it is damaged.
    #[inline]
    fn value(&mut self, bytes: &[u8], event: &Event<'_>) -> Option<()> {
        let point = scalar::point(bytes)?;
        let tag = self.tags.find(point.tag);
        tag.foreign |= point.foreign;
        if tag.foreign {
            self.notes.value(point.tag, bytes);
        }
        let (Some(value), false) = (point.value, tag.foreign) else {
            return Some(());
        };
        let table = match tag.axis {
            Axis::Steps => &mut self.steps,
            Axis::Samples => &mut self.samples,
            Axis::Twin | Axis::Excess => return Some(()),
        };
        if event.step >= 1 << 53 {
            self.odd += 1;
            return Some(());
        }
        let slot = match tag.slot {
            Some(slot) => slot,
            None => *tag
                .slot
                .insert(table.slot(&String::from_utf8_lossy(&tag.name))),
        };
        let sample = Sample {
            step: event.step,
            wall: event.wall,
            value,
        };
        table.add(slot, sample);
        Some(())
    }

    /// `SessionLog{status, checkpoint_path}`. TensorBoard purges what a start repeats; here it begins an attempt.
    fn session(&mut self, session: &[u8], step: u64) {
        let (mut status, mut path) = (0, None);
        for (field, value) in Message::new(session) {
            match field {
                1 => status = value.varint(),
                2 => path = Some(String::from_utf8_lossy(value.bytes()).into_owned()),
                _ => {}
            }
        }
        let kind = match status {
            1 => EventKind::Start,
            2 => EventKind::Exit,
            3 => EventKind::Saved,
            _ => return,
        };
        // The step of a start is the first that is logged again, not one that was done.
        let named = (kind == EventKind::Saved && step < 1 << 53).then_some(step);
        self.steps.mark(kind, named, path.clone());
        self.samples.mark(kind, named, path);
    }

    fn finish(self, rows: &mut Rows) {
        if self.odd > 0 {
            let what = format!(
                "{} values at a negative or huge step were left out",
                self.odd
            );
            rows.lose("", what);
        }
        if self.tags.excess() > 0 {
            let what = format!(
                "{} values of too many tags were left out",
                self.tags.excess()
            );
            rows.lose("", what);
        }
        let (steps, samples) = (self.steps.values(), self.samples.values());
        let by_samples = samples > steps;
        if by_samples {
            let what =
                "`Train/Samples/…` counts samples: the steps of these rows are numbers of samples";
            rows.lose("", what);
        }
        if steps > 0 && samples > 0 {
            let (left_out, axis) = if by_samples {
                (steps, "steps")
            } else {
                (samples, "samples")
            };
            let what = format!(
                "{left_out} values over {axis} were left out: most values are over the other"
            );
            rows.lose("", what);
        }
        let table = if by_samples { self.samples } else { self.steps };
        let mut read = table.finish();
        read.losses.splice(0..0, std::mem::take(&mut rows.losses));
        self.notes.finish(&mut read);
        *rows = read;
    }
}

#[cfg(test)]
mod tests;
