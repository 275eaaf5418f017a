//! Pixels as a PNG file.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Pixels that are drawn at most, for memory's sake.
const MOST: u64 = 32_000_000;

/// How many times as large a picture is drawn before it is averaged: lines and letters get smooth edges.
pub(super) fn finer(width: u32, height: u32) -> u32 {
    let pixels = u64::from(width) * u64::from(height);
    let fits = |times: &u32| pixels * u64::from(times * times) <= MOST;
    [3, 2].into_iter().find(fits).unwrap_or(1)
}

/// The mean of every `finer` by `finer` pixels, for a picture of this width.
pub(super) fn smaller(pixels: &[u8], width: usize, finer: usize) -> Vec<u8> {
    let line = 3 * width * finer;
    let mut out = Vec::with_capacity(pixels.len() / (finer * finer));
    for lines in pixels.chunks_exact(line * finer) {
        for x in 0..width {
            for channel in 0..3 {
                let mut sum = 0_usize;
                for y in 0..finer {
                    for dx in 0..finer {
                        sum += usize::from(lines[y * line + 3 * (x * finer + dx) + channel]);
                    }
                }
                out.push((sum / (finer * finer)) as u8);
            }
        }
    }
    out
}

/// RGB pixels as a PNG file of this width and height.
pub(super) fn encoded(pixels: &[u8], (width, height): (u32, u32)) -> std::io::Result<Vec<u8>> {
    /// What a PNG file begins with.
    const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
    /// Bits of a channel, RGB, and the only compression, filters and order of lines that there are but for one.
    const KIND: [u8; 5] = [8, 2, 0, 0, 0];
    let mut header = Vec::from(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend(KIND);
    let mut out = Vec::from(SIGNATURE);
    chunk(&mut out, *b"IHDR", &header);
    chunk(&mut out, *b"IDAT", &compressed(pixels, 3 * width as usize)?);
    chunk(&mut out, *b"IEND", &[]);
    Ok(out)
}

/// The lines one after another, as they are: surfaces of one colour pack better than their differences.
fn compressed(pixels: &[u8], line: usize) -> std::io::Result<Vec<u8>> {
    const AS_IT_IS: u8 = 0;
    let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
    for here in pixels.chunks_exact(line.max(1)) {
        out.write_all(&[AS_IT_IS])?;
        out.write_all(here)?;
    }
    out.finish()
}

/// A piece of the file: its length, what it is, what it holds, and a sum of both.
fn chunk(out: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    out.extend((data.len() as u32).to_be_bytes());
    let begin = out.len();
    out.extend(name);
    out.extend(data);
    let sum = crc32fast::hash(&out[begin..]);
    out.extend(sum.to_be_bytes());
}
