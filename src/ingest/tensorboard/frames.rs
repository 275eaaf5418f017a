//! The records of a `TFRecord` file: their frames, their checksums, and the way on after damage.

use std::io::{ErrorKind, Read};
use std::ops::Range;

/// Bytes before the data of a record: its length and the checksum of that.
pub(super) const HEADER: usize = 12;
/// Bytes after the data: their checksum.
const FOOTER: usize = 4;
/// The largest record that is read. Events with scalars have some 50 bytes; graphs and images are far larger.
const LARGEST: usize = 32 * 1024 * 1024;
/// Lengths below this have their checksums worked out beforehand.
const SHORT: usize = 256;
/// Bytes read at once.
const BUFFER: usize = 1 << 20;

/// A record, or what stands where one should.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// The data of a record whose checksums match.
    Record(&'a [u8]),
    /// Bytes from an offset on that hold no record.
    Lost { at: u64, what: String },
}

/// Reads records one after another.
pub(super) struct Frames<'a> {
    input: &'a mut dyn Read,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were read from the source but not handed out.
    unread: Range<usize>,
    /// Offset in the source of the first byte of the buffer.
    base: u64,
    ended: bool,
    error: Option<String>,
    /// Bytes of damaged records that were looked into.
    looked_into: u64,
    /// Checksums of the lengths that events have.
    lengths: [u32; SHORT],
}

/// What was found: the place of the data in the buffer, or a loss.
enum Found {
    Record(Range<usize>),
    Lost { at: u64, what: String },
}

impl<'a> Frames<'a> {
    pub(super) fn new(input: &'a mut dyn Read) -> Self {
        Self {
            input,
            buffer: vec![0; BUFFER],
            unread: 0..0,
            base: 0,
            ended: false,
            error: None,
            looked_into: 0,
            lengths: std::array::from_fn(|len| masked(&(len as u64).to_le_bytes())),
        }
    }

    /// Whether a record, whole or not, stands here.
    pub(super) fn begins(&mut self) -> bool {
        self.have(HEADER) && self.length().is_some()
    }

    /// The next record or loss; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        Some(match self.find()? {
            Found::Record(data) => Frame::Record(&self.buffer[data]),
            Found::Lost { at, what } => Frame::Lost { at, what },
        })
    }

    /// Offset in the source of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.unread.start as u64
    }

    #[inline]
    fn find(&mut self) -> Option<Found> {
        if !self.have(HEADER) {
            return self.last_bytes();
        }
        let Some(len) = self.length() else {
            return Some(self.resume(1, false));
        };
        if len > LARGEST as u64 {
            return Some(self.pass_over(len));
        }
        let len = len as usize;
        if !self.have(HEADER + len + FOOTER) {
            return Some(self.resume(HEADER, true));
        }
        let start = self.unread.start + HEADER;
        let data = start..start + len;
        let stored = self.buffer[data.end..].first_chunk().copied();
        if stored != Some(masked(&self.buffer[data.clone()]).to_le_bytes()) {
            let past = self.past(len);
            return Some(self.resume(past, false));
        }
        self.unread.start = data.end + FOOTER;
        Some(Found::Record(data))
    }

    /// How far to go on from a record whose data are damaged: its length may be, too, so others may begin inside of
    /// it. Looking into ever more of them would never end.
    fn past(&mut self, len: usize) -> usize {
        self.looked_into += len as u64;
        if self.looked_into > self.offset() + LARGEST as u64 {
            HEADER + len + FOOTER
        } else {
            HEADER
        }
    }

    /// The length of the next record, if its checksum matches.
    #[inline]
    fn length(&self) -> Option<u64> {
        let here = &self.buffer[self.unread.clone()];
        let (len, rest) = here.split_first_chunk::<8>()?;
        let len = u64::from_le_bytes(*len);
        match self.lengths.get(usize::try_from(len).ok()?) {
            Some(sum) => (rest.first_chunk() == Some(&sum.to_le_bytes())).then_some(len),
            None => length(here),
        }
    }

    /// Fewer bytes than the header of a record are left.
    fn last_bytes(&mut self) -> Option<Found> {
        let (at, left) = (self.offset(), self.unread.len());
        if left > 0 {
            return Some(self.resume(left, true));
        }
        let what = self.error.take()?;
        Some(Found::Lost { at, what })
    }

    /// Looks for the next header that is whole, past the first bytes. `cut`: the source ends inside of the record.
    fn resume(&mut self, past: usize, cut: bool) -> Found {
        let at = self.offset();
        let skipped = &self.buffer[self.unread.clone()][..past];
        let mut zeros = skipped.iter().all(|b| *b == 0);
        self.unread.start += past;
        while self.have(HEADER) {
            let here = &self.buffer[self.unread.clone()];
            if likely_length(here) {
                let what = format!("{} bytes are damaged", self.offset() - at);
                return Found::Lost { at, what };
            }
            zeros &= here[0] == 0;
            self.unread.start += 1;
        }
        zeros &= self.buffer[self.unread.clone()].iter().all(|b| *b == 0);
        self.unread.start = self.unread.end;
        let lost = self.offset() - at;
        let what = match (self.error.take(), zeros, cut) {
            (Some(error), ..) => error,
            (None, true, _) => format!("{lost} zero bytes at the end hold no record"),
            (None, false, true) => {
                format!("the last record is cut after {lost} bytes: still being written, or killed")
            }
            (None, false, false) => format!("{lost} bytes at the end are damaged"),
        };
        Found::Lost { at, what }
    }

    /// Leaves out a record that is too large to hold scalars.
    fn pass_over(&mut self, len: u64) -> Found {
        let at = self.offset();
        let what = format!("a record of {len} bytes was left out: too large to hold scalars");
        let mut left = len.saturating_add((HEADER + FOOTER) as u64);
        while left > 0 && self.have(1) {
            let part = left.min(self.unread.len() as u64);
            self.unread.start += part as usize;
            left -= part;
        }
        Found::Lost { at, what }
    }

    /// Whether this many bytes are there, once read.
    #[inline]
    fn have(&mut self, want: usize) -> bool {
        self.unread.len() >= want || self.fill(want)
    }

    fn fill(&mut self, want: usize) -> bool {
        if self.ended {
            return false;
        }
        self.buffer.copy_within(self.unread.clone(), 0);
        self.base += self.unread.start as u64;
        self.unread = 0..self.unread.len();
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        while !self.ended && self.unread.len() < want {
            match self.input.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.unread.end += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.ended = true;
                    self.error = Some(format!("cannot be read from here on: {e}"));
                }
            }
        }
        self.unread.len() >= want
    }
}

/// The length of the record that starts here, if its checksum matches.
#[inline]
pub(super) fn length(bytes: &[u8]) -> Option<u64> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    let stored = rest.first_chunk::<4>()?;
    (masked(len).to_le_bytes() == *stored).then_some(u64::from_le_bytes(*len))
}

/// Whether a record of a plausible length starts here; cheap where none does.
fn likely_length(bytes: &[u8]) -> bool {
    let Some(len) = bytes.first_chunk().copied().map(u64::from_le_bytes) else {
        return false;
    };
    (1..=LARGEST as u64).contains(&len) && length(bytes).is_some()
}

/// The checksum that the format stores: CRC-32C, rotated and offset.
#[inline]
pub(super) fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

#[cfg(test)]
pub(super) fn framed(data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u64).to_le_bytes();
    let parts: [&[u8]; 4] = [
        &len,
        &masked(&len).to_le_bytes(),
        data,
        &masked(data).to_le_bytes(),
    ];
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let (part, rest) = self.0.split_at(self.0.len().min(3).min(out.len()));
            out[..part.len()].copy_from_slice(part);
            self.0 = rest;
            Ok(part.len())
        }
    }

    /// Records as text, losses as offset and words.
    fn read(bytes: &[u8]) -> (Vec<String>, Vec<(u64, String)>) {
        let mut input = Slow(bytes);
        let mut frames = Frames::new(&mut input);
        let (mut records, mut losses) = (Vec::new(), Vec::new());
        while let Some(frame) = frames.next() {
            match frame {
                Frame::Record(data) => records.push(String::from_utf8_lossy(data).into_owned()),
                Frame::Lost { at, what } => losses.push((at, what)),
            }
        }
        assert_eq!(frames.offset(), bytes.len() as u64);
        (records, losses)
    }

    #[test]
    fn the_checksum_of_the_format() {
        // The first record of a file that TensorBoard 2.21 wrote has 72 bytes of data.
        assert_eq!(
            masked(&72_u64.to_le_bytes()).to_le_bytes(),
            [0xfe, 0x92, 0x48, 0x9d]
        );
    }

    #[test]
    fn a_file_cut_anywhere_keeps_the_records_before() {
        let whole = [framed(b"one"), framed(b""), framed(b"three")].concat();
        for end in 0..whole.len() {
            let (records, losses) = read(&whole[..end]);
            let before = [19, 35].iter().filter(|start| end >= **start).count();
            assert_eq!(records.len(), before, "cut at {end}");
            assert_eq!(losses.len(), usize::from(![0, 19, 35].contains(&end)));
        }
        assert_eq!(read(&whole).0, ["one", "", "three"]);
    }

    #[test]
    fn zeros_and_damage_are_told_apart_and_reading_goes_on() {
        let (a, b) = (framed(b"first record"), framed(b"second record"));
        let (records, losses) = read(&[a.clone(), vec![0; 64]].concat());
        assert_eq!(records.len(), 1);
        assert_eq!(
            losses,
            [(28, "64 zero bytes at the end hold no record".to_owned())]
        );

        let (records, losses) = read(&[a.clone(), vec![0; 64], b.clone()].concat());
        assert_eq!(records, ["first record", "second record"]);
        assert_eq!(losses, [(28, "64 bytes are damaged".to_owned())]);

        for at in 0..a.len() {
            let mut bytes = [a.clone(), b.clone()].concat();
            bytes[at] ^= 0x10;
            let (records, losses) = read(&bytes);
            assert_eq!(records, ["second record"], "flipped at {at}");
            assert_eq!(losses, [(0, "28 bytes are damaged".to_owned())]);
        }
        // Bytes that are missing from the middle of a record.
        let (records, losses) = read(&[&a[..15], &b[..]].concat());
        assert_eq!((records.len(), losses.len()), (1, 1));
    }

    #[test]
    fn records_that_claim_each_other_end() {
        let len = 1_000_000_u64.to_le_bytes();
        let header = [&len[..], &masked(&len).to_le_bytes()].concat();
        let bytes = header.repeat(1_000_000);
        let mut input = bytes.as_slice();
        let mut frames = Frames::new(&mut input);
        let mut losses = 0;
        while let Some(frame) = frames.next() {
            losses += usize::from(matches!(frame, Frame::Lost { .. }));
        }
        assert!(losses > 10);
    }

    #[test]
    fn a_record_that_claims_to_be_huge_takes_no_memory() {
        let len = (1_u64 << 40).to_le_bytes();
        let bytes = [&len[..], &masked(&len).to_le_bytes(), &[7; 100]].concat();
        let (records, losses) = read(&bytes);
        assert!(records.is_empty());
        assert!(losses[0].1.contains("too large"), "{losses:?}");
    }
}
