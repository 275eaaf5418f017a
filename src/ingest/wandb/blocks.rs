//! The framing of `.wandb` files: a log in the manner of `LevelDB`, of 32 KiB blocks and records that may span them.

use std::io::{ErrorKind, Read};
use std::ops::Range;

/// Bytes of a block; the first block begins with the file.
const BLOCK: usize = 32 * 1024;
/// Bytes before a fragment: checksum, length, type.
const HEADER: usize = 7;
/// Bytes before the first fragment of a file.
pub(super) const MAGIC: [u8; 6] = [b':', b'W', b'&', b'B', 0xe1, 0xbe];
/// Bytes of the magic number and the version after it.
const PREFACE: usize = 7;
/// The largest record that is put together. A row of history with a histogram for each layer has some 100 kB.
const LARGEST: usize = 32 * 1024 * 1024;
/// Bytes read at once, a number of blocks.
const BUFFER: usize = 32 * BLOCK;

/// A record, or what stands where one should.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// A whole record.
    Record(&'a [u8]),
    /// Bytes from an offset on that hold no record.
    Lost { at: u64, what: String },
}

/// Reads records one after another.
pub(super) struct Blocks<'a> {
    input: &'a mut dyn Read,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were read from the source but not handed out.
    unread: Range<usize>,
    /// Offset in the source of the first byte of the buffer.
    base: u64,
    ended: bool,
    error: Option<String>,
    /// The parts so far of a record that spans blocks, and where it begins.
    joined: Vec<u8>,
    joining: Option<u64>,
    /// Whether fragments go on a record that is lost already.
    headless: bool,
}

/// Where a record was found.
enum Found {
    Whole(Range<usize>),
    Joined,
    Lost { at: u64, what: String },
}

/// A fragment whose checksum matches, or why there is none.
enum Fragment {
    Whole {
        kind: u8,
        data: Range<usize>,
    },
    /// Zeros, as a file system leaves after a crash. A writer leaves fewer than a header's.
    Zeros,
    Damaged,
    Cut,
}

impl<'a> Blocks<'a> {
    /// Reads past the magic number; says so if there is another.
    pub(super) fn new(input: &'a mut dyn Read) -> Result<Self, String> {
        let mut blocks = Self {
            input,
            buffer: vec![0; BUFFER],
            unread: 0..0,
            base: 0,
            ended: false,
            error: None,
            joined: Vec::new(),
            joining: None,
            headless: false,
        };
        if !blocks.have(PREFACE) || !blocks.buffer.starts_with(&MAGIC) {
            return Err("it does not begin as a `.wandb` file does".to_owned());
        }
        blocks.unread.start += PREFACE;
        Ok(blocks)
    }

    /// The next record or loss; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Item<'_>> {
        Some(match self.find()? {
            Found::Whole(data) => Item::Record(&self.buffer[data]),
            Found::Joined => Item::Record(&self.joined),
            Found::Lost { at, what } => Item::Lost { at, what },
        })
    }

    /// Offset in the source of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.unread.start as u64
    }

    fn find(&mut self) -> Option<Found> {
        loop {
            let left = BLOCK - (self.offset() % BLOCK as u64) as usize;
            if left < HEADER {
                self.pass(left);
                continue;
            }
            let at = self.offset();
            match self.fragment(left) {
                Fragment::Whole { kind, data } => {
                    if let Some(found) = self.take(kind, data, at) {
                        return Some(found);
                    }
                }
                Fragment::Zeros => return Some(self.zeros(at, left)),
                Fragment::Damaged => return Some(self.damaged(at, left)),
                Fragment::Cut => return self.end(at),
            }
        }
    }

    /// The fragment that starts here, in a block of which this many bytes are left.
    fn fragment(&mut self, left: usize) -> Fragment {
        if !self.have(HEADER) {
            return Fragment::Cut;
        }
        let start = self.unread.start;
        let header = &self.buffer[start..start + HEADER];
        let len = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let (kind, zeros) = (header[6], header.iter().all(|b| *b == 0));
        if zeros {
            return Fragment::Zeros;
        }
        if HEADER + len > left || !(1..=4).contains(&kind) {
            return Fragment::Damaged;
        }
        if !self.have(HEADER + len) {
            return Fragment::Cut;
        }
        if !self.verified(self.unread.start, len) {
            return Fragment::Damaged;
        }
        let data = self.unread.start + HEADER;
        self.unread.start = data + len;
        Fragment::Whole {
            kind,
            data: data..data + len,
        }
    }

    /// Whether the checksum at a place of the buffer is that of the type and the data after it.
    fn verified(&self, start: usize, len: usize) -> bool {
        let stored = self.buffer[start..].first_chunk().copied();
        let summed = &self.buffer[start + HEADER - 1..start + HEADER + len];
        stored.map(u32::from_le_bytes) == Some(crc32fast::hash(summed))
    }

    /// Joins a fragment to those before. `None` if the record goes on.
    fn take(&mut self, kind: u8, data: Range<usize>, at: u64) -> Option<Found> {
        const FIRST: u8 = 2;
        const LAST: u8 = 4;
        let starts = kind <= FIRST;
        let unfinished = if starts { self.joining.take() } else { None };
        if let Some(began) = unfinished {
            // Handed out again after the loss was told.
            self.unread.start = data.start - HEADER;
            let what = "the end of this record is missing".to_owned();
            return Some(Found::Lost { at: began, what });
        }
        if starts {
            self.headless = false;
            if kind == FIRST {
                self.joined.clear();
                self.joined.extend_from_slice(&self.buffer[data]);
                self.joining = Some(at);
                return None;
            }
            return Some(Found::Whole(data));
        }
        if self.joining.is_none() {
            let told = std::mem::replace(&mut self.headless, true);
            let what = "the start of this record is missing".to_owned();
            return (!told).then_some(Found::Lost { at, what });
        }
        if self.joined.len() + data.len() > LARGEST {
            let began = self.joining.take().unwrap_or(at);
            self.headless = true;
            let what = format!("a record of more than {LARGEST} bytes was left out");
            return Some(Found::Lost { at: began, what });
        }
        self.joined.extend_from_slice(&self.buffer[data]);
        if kind == LAST {
            self.joining = None;
            return Some(Found::Joined);
        }
        None
    }

    /// Passes over damage: the fragment alone if another follows it, else the rest of the block. What the lost
    /// fragment belongs to is lost, too.
    fn damaged(&mut self, at: u64, left: usize) -> Found {
        self.have(left);
        let left = left.min(self.unread.len());
        let block = &self.buffer[self.unread.start..][..left];
        let len = usize::from(u16::from_le_bytes([block[4], block[5]]));
        let next = HEADER + len;
        let follows = block.get(next..).is_some_and(|rest| {
            let len = |r: &[u8]| usize::from(u16::from_le_bytes([r[4], r[5]]));
            rest.len() > HEADER
                && HEADER + len(rest) <= rest.len()
                && self.verified(self.unread.start + next, len(rest))
        });
        self.pass(if follows { next } else { left });
        let began = self.joining.take().unwrap_or(at);
        self.headless = true;
        let what = format!("{} bytes are damaged", self.offset() - began);
        Found::Lost { at: began, what }
    }

    /// Passes over zeros to the first block that begins otherwise. A record that they stand in is lost.
    fn zeros(&mut self, at: u64, left: usize) -> Found {
        self.pass(left);
        while self.have(1) {
            self.have(HEADER);
            let header = &self.buffer[self.unread.clone()];
            if header.iter().take(HEADER).any(|b| *b != 0) {
                break;
            }
            self.pass(BLOCK);
        }
        let began = self.joining.take().unwrap_or(at);
        self.headless = true;
        let what = format!("{} zero bytes hold no record", self.offset() - at);
        Found::Lost { at: began, what }
    }

    /// The source ends, perhaps inside of a record: the writer fills up blocks, so this is where one stops.
    fn end(&mut self, at: u64) -> Option<Found> {
        let rest = self.unread.len();
        self.unread.start = self.unread.end;
        let began = self.joining.take();
        if rest == 0 && began.is_none() && self.error.is_none() {
            return None;
        }
        let at = began.unwrap_or(at);
        let what = self.error.take().unwrap_or_else(|| {
            let lost = self.offset() - at;
            format!("the last record is cut after {lost} bytes: still being written, or killed")
        });
        Some(Found::Lost { at, what })
    }

    /// Goes on by this many bytes, or to the end.
    fn pass(&mut self, bytes: usize) {
        self.have(bytes);
        self.unread.start += bytes.min(self.unread.len());
    }

    /// Whether this many bytes are there, once read. They are never more than a block.
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

/// Frames records as the writer does, with fragments of at most `most` bytes, for tests.
#[cfg(test)]
pub(super) fn written(records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(0);
    for record in records {
        let mut rest = record.as_slice();
        let mut first = true;
        loop {
            let left = BLOCK - out.len() % BLOCK;
            if left < HEADER {
                out.extend(vec![0; left]);
                continue;
            }
            let (part, after) = rest.split_at(rest.len().min(left - HEADER));
            let kind = match (first, after.is_empty()) {
                (true, true) => 1_u8,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            let summed = [&[kind], part].concat();
            out.extend(crc32fast::hash(&summed).to_le_bytes());
            out.extend((part.len() as u16).to_le_bytes());
            out.extend(summed);
            (rest, first) = (after, false);
            if rest.is_empty() {
                break;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Vec<u8>> {
        // The fourth leaves five bytes of its block, which are padding.
        let sizes = [10, 100_000, 0, 30_000, 31_000, 5];
        let fill = |(i, n): (usize, &usize)| vec![b'a' + i as u8; *n];
        sizes.iter().enumerate().map(fill).collect()
    }

    fn read(mut bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<(u64, String)>) {
        let end = bytes.len() as u64;
        let mut blocks = Blocks::new(&mut bytes).expect("magic");
        let (mut records, mut losses) = (Vec::new(), Vec::new());
        while let Some(item) = blocks.next() {
            match item {
                Item::Record(data) => records.push(data.to_vec()),
                Item::Lost { at, what } => losses.push((at, what)),
            }
        }
        assert_eq!(blocks.offset(), end);
        (records, losses)
    }

    #[test]
    fn records_that_span_blocks() {
        let bytes = written(&records());
        assert_eq!(read(&bytes), (records(), Vec::new()));
        for left in 0..HEADER {
            let first = BLOCK - PREFACE - HEADER - left;
            let both = [vec![1; first], vec![2; 20]];
            assert_eq!(
                read(&written(&both)),
                (both.to_vec(), Vec::new()),
                "{left} left"
            );
        }
    }

    #[test]
    fn a_file_cut_anywhere_keeps_the_records_before() {
        let bytes = written(&[vec![1; 40_000], vec![2; 12]]);
        for end in [
            7,
            8,
            14,
            100,
            32_768,
            32_770,
            40_020,
            40_021,
            40_022,
            40_035,
            bytes.len(),
        ] {
            let (kept, losses) = read(&bytes[..end]);
            let whole = [40_021, bytes.len()].iter().filter(|e| end >= **e).count();
            assert_eq!(kept.len(), whole, "cut at {end}");
            let clean = [7, 40_021, bytes.len()].contains(&end);
            assert_eq!(
                losses.len(),
                usize::from(!clean),
                "cut at {end}: {losses:?}"
            );
        }
    }

    #[test]
    fn damage_costs_a_record_or_a_block() {
        let all = [vec![1; 100], vec![2; 100], vec![3; 100]];
        let bytes = written(&all);
        let mut flipped = bytes.clone();
        flipped[150] ^= 1;
        let (kept, losses) = read(&flipped);
        assert_eq!(kept, [all[0].clone(), all[2].clone()]);
        assert_eq!(losses, [(114, "107 bytes are damaged".to_owned())]);
        let mut length = bytes;
        length[119] ^= 0x40;
        let (kept, losses) = read(&length);
        assert_eq!((kept.len(), losses.len()), (1, 1));
    }

    #[test]
    fn a_damaged_part_loses_its_record_once() {
        let all = [vec![1; 90_000], vec![2; 30]];
        let mut bytes = written(&all);
        for at in [100, 40_000, 70_000] {
            bytes[at] ^= 1;
            let (kept, losses) = read(&bytes);
            assert_eq!(kept, [all[1].clone()], "{losses:?}");
            assert!(!losses.is_empty());
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn zeros_hold_nothing() {
        let mut bytes = written(&[vec![1; 10]]);
        bytes.resize(200_000, 0);
        let (kept, losses) = read(&bytes);
        assert_eq!(kept.len(), 1);
        assert_eq!(
            losses,
            [(24, "199976 zero bytes hold no record".to_owned())]
        );
        bytes.resize(196_608, 0);
        bytes.extend(&written(&[vec![7; BLOCK], vec![3; 9]])[BLOCK..]);
        let (kept, losses) = read(&bytes);
        assert_eq!(kept, [vec![1; 10], vec![3; 9]]);
        assert_eq!(losses.len(), 1, "{losses:?}");
        assert!(Blocks::new(&mut &b":W&Bxx"[..]).is_err());
    }
}
