//! Pixels as a PNG file.

use png::{BitDepth, ColorType, Encoder, EncodingError};

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

/// RGB pixels as a file.
pub(super) fn encoded(
    pixels: &[u8],
    (width, height): (u32, u32),
) -> Result<Vec<u8>, EncodingError> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(out)
}
