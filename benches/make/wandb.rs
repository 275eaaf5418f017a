//! An offline `.wandb` file of the newer SDK: blocks of 32 KiB around protobuf records, keys of a row in any order.

use std::io::{self, Write};

use super::curve::{Curve, Measured};
use super::random::Random;
use super::tables::repr;
use super::wire;

const BLOCK: usize = 32 * 1024;
/// Bytes before a fragment: checksum, length, type.
const HEADER: usize = 7;
const MAGIC: [u8; 7] = [b':', b'W', b'&', b'B', 0xe1, 0xbe, 0];

/// Cuts records into fragments, so that none crosses the end of a block.
struct Blocks<'a> {
    out: &'a mut dyn Write,
    /// Bytes of the block that are left.
    left: usize,
}

impl<'a> Blocks<'a> {
    fn new(out: &'a mut dyn Write) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        Ok(Self {
            out,
            left: BLOCK - MAGIC.len(),
        })
    }

    fn record(&mut self, mut data: &[u8]) -> io::Result<()> {
        let mut first = true;
        loop {
            if self.left < HEADER {
                self.out.write_all(&[0; HEADER][..self.left])?;
                self.left = BLOCK;
            }
            let (now, later) = data.split_at(data.len().min(self.left - HEADER));
            let kind = match (first, later.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            self.fragment(kind, now)?;
            if later.is_empty() {
                return Ok(());
            }
            (data, first) = (later, false);
        }
    }

    fn fragment(&mut self, kind: u8, data: &[u8]) -> io::Result<()> {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&[kind]);
        crc.update(data);
        self.out.write_all(&crc.finalize().to_le_bytes())?;
        self.out.write_all(&(data.len() as u16).to_le_bytes())?;
        self.out.write_all(&[kind])?;
        self.out.write_all(data)?;
        self.left -= HEADER + data.len();
        Ok(())
    }
}

/// Each name as the parts that the SDK splits it into, and its JSON.
fn items(s: &Measured) -> Vec<(&'static [&'static str], String)> {
    let tokens = s.step * 4_194_304;
    vec![
        (&["_step"], s.step.to_string()),
        (&["_timestamp"], repr(s.time)),
        (&["_runtime"], repr(s.time - 1_772_366_400.0)),
        (&["train/loss"], repr(s.loss)),
        (&["train/grad_norm"], repr(s.grad_norm)),
        (&["train/learning_rate"], repr(s.learning_rate)),
        (&["train/z_loss"], repr(s.z_loss)),
        (&["train/aux_loss"], repr(s.aux_loss)),
        (&["train/param_norm"], repr(s.param_norm)),
        (&["train/update_norm"], repr(s.update_norm)),
        (&["attention", "max_logit"], repr(s.max_attention_logit)),
        (
            &["throughput", "tokens_per_second"],
            repr(s.tokens_per_second),
        ),
        (&["throughput", "total_tokens"], tokens.to_string()),
        (&["throughput", "tflops"], repr(s.tflops)),
        (&["throughput", "mfu"], repr(s.mfu)),
        (&["throughput", "step_time"], repr(s.step_time)),
        (&["train/loss_scale"], "1".to_owned()),
        (
            &["throughput", "batches_per_second"],
            repr(1.0 / s.step_time),
        ),
        (
            &["throughput", "samples_per_second"],
            repr(1024.0 / s.step_time),
        ),
        (
            &["optimizer", "update_per_lr"],
            repr(s.update_norm / s.learning_rate),
        ),
        (
            &["train/bits_per_token"],
            repr(s.loss / std::f64::consts::LN_2),
        ),
        (&["data", "epoch"], repr(s.step as f64 / 50_000.0)),
        (&["data", "consumed_samples"], (s.step * 1024).to_string()),
    ]
}

/// `HistoryItem{nested_key*, value_json}` in an order that changes from row to row, then `HistoryStep{num}`.
fn row(s: &Measured, random: &mut Random) -> Vec<u8> {
    let mut items = items(s);
    for at in (1..items.len()).rev() {
        items.swap(at, (random.next() % (at as u64 + 1)) as usize);
    }
    let mut history = Vec::new();
    for (name, json) in items {
        let mut item = Vec::new();
        for part in name {
            wire::bytes(&mut item, 2, part.as_bytes());
        }
        wire::bytes(&mut item, 16, json.as_bytes());
        wire::bytes(&mut history, 1, &item);
    }
    let mut step = Vec::new();
    wire::int(&mut step, 1, s.step);
    wire::bytes(&mut history, 2, &step);
    history
}

/// A record and its number.
fn numbered(number: u64, field: u64, message: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    wire::int(&mut record, 1, number);
    wire::bytes(&mut record, field, message);
    record
}

fn run() -> Vec<u8> {
    let mut run = Vec::new();
    wire::bytes(&mut run, 1, b"bench000");
    wire::bytes(&mut run, 3, b"whyspike");
    wire::bytes(&mut run, 8, b"a-long-run");
    run
}

pub(super) fn history(out: &mut dyn Write, curve: Curve) -> io::Result<()> {
    let mut blocks = Blocks::new(out)?;
    let mut random = Random::new(1);
    blocks.record(&numbered(1, 17, &run()))?;
    let last = curve.steps + 2;
    for s in curve {
        blocks.record(&numbered(s.step + 1, 2, &row(&s, &mut random)))?;
    }
    blocks.record(&numbered(last, 18, &[]))
}
