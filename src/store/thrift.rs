//! Looks through what the Parquet library takes on trust in the compact encoding of Thrift: it would go through lists of
//! 2³¹ elements that take no bytes, and make room for pages of any size.

use bytes::Bytes;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;

use crate::store::StoreError;
use crate::store::read::damaged;

/// How deep structures may nest; those of the format nest some six deep.
const DEPTH: u8 = 32;
/// Bytes of a page header that are looked at first. Most have some thirty; statistics of text make them longer.
const FIRST_LOOK: usize = 512;
/// The largest page that is unpacked, and how many times its packed size a larger one may have. Writers make pages of
/// about 1 MiB; some make one of a whole row group.
const LARGEST_PAGE: u64 = 256 << 20;
const MOST_TIMES: u64 = 64;
/// Bytes at the end of a file: the length of the footer and `PAR1`.
const TAIL: u64 = 8;

/// Why a structure cannot be walked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// The bytes end inside of it.
    Cut,
    /// It is not what the format allows.
    Bad,
}

/// Whether the footer is a structure whose lists are as long as they say. Of a file without one the library tells.
pub(super) fn footer<R: ChunkReader>(source: &R) -> Result<(), StoreError> {
    let Some(end) = source.len().checked_sub(TAIL) else {
        return Ok(());
    };
    let tail = bytes_at(source, end, TAIL as usize)?;
    let Some((len, b"PAR1")) = tail.split_first_chunk::<4>() else {
        return Ok(());
    };
    let len = u32::from_le_bytes(*len);
    let Some(start) = end.checked_sub(u64::from(len)) else {
        return Ok(());
    };
    let bytes = bytes_at(source, start, len as usize)?;
    let walked = Walk::new(&bytes).structure(DEPTH);
    walked.map_err(|_| damaged("its footer is damaged"))
}

fn bytes_at<R: ChunkReader>(source: &R, at: u64, len: usize) -> Result<Bytes, StoreError> {
    source.get_bytes(at, len).map_err(StoreError::Parquet)
}

/// Whether the pages of the columns at these places fill them, and none is too large.
pub(super) fn pages<R: ChunkReader>(
    source: &R,
    metadata: &ParquetMetaData,
    columns: &[usize],
) -> Result<(), StoreError> {
    let schema = metadata.file_metadata().schema_descr();
    for group in metadata.row_groups() {
        for (leaf, chunk) in group.columns().iter().enumerate() {
            if leaf < schema.num_columns() && columns.contains(&schema.get_column_root_idx(leaf)) {
                let (start, len) = chunk.byte_range();
                chunk_pages(source, start, len)?;
            }
        }
    }
    Ok(())
}

fn chunk_pages<R: ChunkReader>(source: &R, mut at: u64, mut left: u64) -> Result<(), StoreError> {
    let flawed = || damaged("its pages are damaged");
    while left > 0 {
        let page = header(source, at, left)?;
        let whole = (page.header as u64)
            .checked_add(page.packed)
            .ok_or_else(flawed)?;
        left = left.checked_sub(whole).ok_or_else(flawed)?;
        at = at.checked_add(whole).ok_or_else(flawed)?;
        if page.unpacked > LARGEST_PAGE.max(page.packed.saturating_mul(MOST_TIMES)) {
            let what = format!(
                "a page of {} MiB once unpacked is not read",
                page.unpacked >> 20
            );
            return Err(damaged(&what));
        }
    }
    Ok(())
}

/// A page: bytes of its header, and of its data before and after unpacking.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    header: usize,
    packed: u64,
    unpacked: u64,
}

/// The header of the page at a place of which a column has this many bytes left.
fn header<R: ChunkReader>(source: &R, at: u64, left: u64) -> Result<Page, StoreError> {
    let most = usize::try_from(left).unwrap_or(usize::MAX);
    let mut look = FIRST_LOOK.min(most);
    loop {
        let bytes = bytes_at(source, at, look)?;
        match Walk::new(&bytes).page() {
            Ok(page) => return Ok(page),
            Err(Flaw::Cut) if look < most => look = look.saturating_mul(16).min(most),
            Err(_) => return Err(damaged("its pages are damaged")),
        }
    }
}

/// The types of the encoding that are told apart here.
const STOP: u8 = 0;
const FALSE: u8 = 2;
const I32: u8 = 5;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Walks through a structure.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// `PageHeader`: four numbers and structures, in which no list stands.
    fn page(&mut self) -> Result<Page, Flaw> {
        let (mut id, mut packed, mut unpacked) = (0, None, None);
        loop {
            let (next, kind) = self.field(id)?;
            id = next;
            match (id, kind) {
                (_, STOP) => break,
                (1..=4, I32) => {
                    let value = self.varint()?;
                    // Zigzag: odd numbers are negative.
                    let size = (value % 2 == 0).then_some(value / 2);
                    match id {
                        2 => unpacked = Some(size.ok_or(Flaw::Bad)?),
                        3 => packed = Some(size.ok_or(Flaw::Bad)?),
                        _ => {}
                    }
                }
                (1..=4, _) => return Err(Flaw::Bad),
                (_, STRUCT) => self.plain_structure(DEPTH)?,
                (_, kind) => self.plain(kind, DEPTH)?,
            }
        }
        match (packed, unpacked) {
            (Some(packed), Some(unpacked)) => Ok(Page {
                header: self.at,
                packed,
                unpacked,
            }),
            _ => Err(Flaw::Bad),
        }
    }

    fn plain_structure(&mut self, depth: u8) -> Result<(), Flaw> {
        loop {
            match self.field(0)?.1 {
                STOP => return Ok(()),
                kind => self.plain(kind, depth.checked_sub(1).ok_or(Flaw::Bad)?)?,
            }
        }
    }

    /// A value without lists.
    fn plain(&mut self, kind: u8, depth: u8) -> Result<(), Flaw> {
        match kind {
            STRUCT => self.plain_structure(depth),
            LIST | SET | MAP | DOUBLE => Err(Flaw::Bad),
            _ => self.value(kind, depth),
        }
    }

    fn structure(&mut self, depth: u8) -> Result<(), Flaw> {
        loop {
            match self.field(0)?.1 {
                STOP => return Ok(()),
                kind => self.value(kind, depth)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: u8) -> Result<(), Flaw> {
        let deeper = depth.checked_sub(1).ok_or(Flaw::Bad)?;
        match kind {
            1 | FALSE => Ok(()),
            3 => self.pass(1),
            4..=6 => self.varint().map(drop),
            DOUBLE => self.pass(8),
            BINARY => {
                let len = self.varint()?;
                self.pass(usize::try_from(len).map_err(|_| Flaw::Cut)?)
            }
            LIST | SET => self.list(deeper),
            MAP => self.map(deeper),
            STRUCT => self.structure(deeper),
            _ => Err(Flaw::Bad),
        }
    }

    fn list(&mut self, depth: u8) -> Result<(), Flaw> {
        let head = self.byte()?;
        let size = match head >> 4 {
            15 => self.varint()?,
            short => u64::from(short),
        };
        self.elements(size, &[head & 15], depth)
    }

    fn map(&mut self, depth: u8) -> Result<(), Flaw> {
        let size = self.varint()?;
        if size == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        self.elements(size, &[kinds >> 4, kinds & 15], depth)
    }

    /// Each element takes a byte at least. Lists of truth values, of which the library passes over none, are no part of
    /// a footer.
    fn elements(&mut self, size: u64, kinds: &[u8], depth: u8) -> Result<(), Flaw> {
        if size > 0 && kinds.iter().any(|kind| matches!(kind, 1 | 2)) {
            return Err(Flaw::Bad);
        }
        for _ in 0..size {
            for kind in kinds {
                self.value(*kind, depth)?;
            }
        }
        Ok(())
    }

    /// The number and the type of the next field, after one of this number.
    fn field(&mut self, before: i64) -> Result<(i64, u8), Flaw> {
        let head = self.byte()?;
        let kind = head & 15;
        let id = match head >> 4 {
            0 if kind != STOP => {
                let id = self.varint()?;
                i64::try_from(id / 2).map_err(|_| Flaw::Bad)?
            }
            delta => before.saturating_add(i64::from(delta)),
        };
        Ok((id, kind))
    }

    fn byte(&mut self) -> Result<u8, Flaw> {
        let byte = self.bytes.get(self.at).copied().ok_or(Flaw::Cut)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, Flaw> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Flaw::Bad)
    }

    fn pass(&mut self, bytes: usize) -> Result<(), Flaw> {
        let end = self
            .at
            .checked_add(bytes)
            .filter(|end| *end <= self.bytes.len());
        self.at = end.ok_or(Flaw::Cut)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: &[u8]) -> Result<Page, Flaw> {
        Walk::new(bytes).page()
    }

    fn structure(bytes: &[u8]) -> Result<(), Flaw> {
        Walk::new(bytes).structure(DEPTH)
    }

    /// Type 0, 300 bytes unpacked, 20 packed, and a data page header of one number.
    const DATA: [u8; 13] = [0x15, 0, 0x15, 0xd8, 4, 0x15, 40, 0x2c, 0x15, 10, 0, 0, 99];

    #[test]
    fn a_page_header_tells_its_sizes() {
        let expected = Page {
            header: 12,
            packed: 20,
            unpacked: 300,
        };
        assert_eq!(page(&DATA), Ok(expected));
        for end in 0..12 {
            assert_eq!(page(&DATA[..end]), Err(Flaw::Cut), "cut at {end}");
        }
    }

    #[test]
    fn no_list_stands_in_a_page_header() {
        // 2³¹ - 1 numbers of eight bytes; the library goes through all of them at the end of the file.
        let endless = [0xf7, 0xff, 0xff, 0xff, 0xff, 7];
        for field in [&[0x29][..], &[0x2a], &[0x2c, 0x19]] {
            let bytes = [&DATA[..7], field, &endless[..]].concat();
            assert_eq!(page(&bytes), Err(Flaw::Bad), "{field:?}");
        }
        assert_eq!(page(&[0x15, 0, 0x15, 1]), Err(Flaw::Bad), "a negative size");
        assert_eq!(page(&[0x19, 0x15]), Err(Flaw::Bad), "a list for a number");
        assert_eq!(page(&[0x15, 0, 0]), Err(Flaw::Bad), "no sizes");
        let deep = [&DATA[..7], &[0x1c; 1000]].concat();
        assert_eq!(page(&deep), Err(Flaw::Bad));
    }

    #[test]
    fn lists_are_as_long_as_they_say() {
        assert_eq!(structure(&[0x19, 0x35, 2, 4, 6, 0]), Ok(()));
        assert_eq!(structure(&[0x1b, 1, 0x58, 2, 1, b'a', 0]), Ok(()));
        assert_eq!(structure(&[0x1b, 0, 0]), Ok(()));
        assert_eq!(
            structure(&[0x11, 0x12, 0]),
            Ok(()),
            "truth values are types"
        );
        let endless = |kind: u8| [0x19, 0xf0 | kind, 0xff, 0xff, 0xff, 0xff, 7, 0];
        for kind in [1, 2] {
            assert_eq!(structure(&endless(kind)), Err(Flaw::Bad), "{kind}");
        }
        for kind in 3..=12 {
            assert!(structure(&endless(kind)).is_err(), "{kind}");
        }
        assert_eq!(structure(&[0x1c; 1000]), Err(Flaw::Bad));
    }
}
