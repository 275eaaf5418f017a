//! A TensorBoard event file as Megatron-LM writes it: one event a tag and step, a simple value each.

use std::io::{self, Write};

use super::curve::{Curve, Measured};
use super::wire;

/// Spells the polynomial of CRC-32C, the lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut crc, mut bit) = (at as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

fn masked_crc(data: &[u8]) -> u32 {
    let crc = !data.iter().fold(!0_u32, |crc, byte| {
        (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)]
    });
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn record(out: &mut dyn Write, data: &[u8]) -> io::Result<()> {
    let length = (data.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked_crc(&length).to_le_bytes())?;
    out.write_all(data)?;
    out.write_all(&masked_crc(data).to_le_bytes())
}

fn tags(s: &Measured) -> [(&'static str, f64); 10] {
    [
        ("learning-rate", s.learning_rate),
        ("batch-size", 1024.0),
        ("lm loss", s.loss),
        ("loss-scale", 1.0),
        ("grad-norm", s.grad_norm),
        ("params-norm", s.param_norm),
        ("max_attention_logit", s.max_attention_logit),
        ("z_loss", s.z_loss),
        ("iteration-time", s.step_time),
        ("throughput", s.tflops),
    ]
}

/// `Event{wall_time, step, summary{value{tag, simple_value}}}`.
fn event(s: &Measured, tag: &str, value: f64) -> Vec<u8> {
    let (mut one, mut summary, mut event) = (Vec::new(), Vec::new(), Vec::new());
    wire::bytes(&mut one, 1, tag.as_bytes());
    wire::float(&mut one, 2, value as f32);
    wire::bytes(&mut summary, 1, &one);
    wire::double(&mut event, 1, s.time);
    wire::int(&mut event, 2, s.step);
    wire::bytes(&mut event, 5, &summary);
    event
}

pub(super) fn events(out: &mut dyn Write, curve: Curve) -> io::Result<()> {
    let mut begun = false;
    for s in curve {
        if !std::mem::replace(&mut begun, true) {
            let mut version = Vec::new();
            wire::double(&mut version, 1, s.time);
            wire::bytes(&mut version, 3, b"brain.Event:2");
            record(out, &version)?;
        }
        for (tag, value) in tags(&s) {
            record(out, &event(&s, tag, value))?;
        }
    }
    Ok(())
}
