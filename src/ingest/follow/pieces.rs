//! Pieces of a log that were rotated away: which file goes on where reading ended.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::ingest::open::decompressed;

/// Last bytes before a place in a file by which the file is known again.
pub(super) const LAST: usize = 256;

/// How far a file was read, by which it is known again under another name, as a copy, or packed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Bytes that were read.
    pub(super) offset: u64,
    /// Checksum of the last of them.
    pub(super) last: u32,
    /// Attempt and step that the file's first row comes after, if it is not the first file.
    pub(super) after: Option<(u32, u64)>,
}

impl Mark {
    pub(super) fn new(offset: u64, last: &[u8]) -> Self {
        Self {
            offset,
            last: crc32fast::hash(last),
            after: None,
        }
    }

    /// Whether a file holds what was read.
    pub(super) fn fits(&self, path: &Path) -> bool {
        self.offset > 0 && self.holds(path).unwrap_or(false)
    }

    fn holds(&self, path: &Path) -> io::Result<bool> {
        let mut file = File::open(path)?;
        let len = self.offset.min(LAST as u64);
        let skip = self.offset - len;
        let (mut input, packed) = decompressed(Box::new(file.try_clone()?))?;
        let mut bytes = Vec::with_capacity(LAST);
        if packed {
            io::copy(&mut (&mut input).take(skip), &mut io::sink())?;
            input.take(len).read_to_end(&mut bytes)?;
        } else {
            file.seek(SeekFrom::Start(skip))?;
            file.take(len).read_to_end(&mut bytes)?;
        }
        Ok(bytes.len() as u64 == len && crc32fast::hash(&bytes) == self.last)
    }
}

/// The files beside a log that it was rotated into since it was read: the one that was read, and those after it.
pub(super) fn since(log: &Path, mark: &Mark) -> Vec<PathBuf> {
    let mut aside = aside(log);
    let read = aside.iter().rposition(|(_, path)| mark.fits(path));
    let since = read.map_or(Vec::new(), |n| aside.split_off(n));
    since.into_iter().map(|(_, path)| path).collect()
}

/// The files that bear a log's name and a number or a date, oldest first.
fn aside(log: &Path) -> Vec<(SystemTime, PathBuf)> {
    let folder = log.parent().filter(|p| !p.as_os_str().is_empty());
    let name = log.file_name().map(|n| n.to_string_lossy().into_owned());
    let (Some(name), Ok(beside)) = (name, fs::read_dir(folder.unwrap_or(Path::new(".")))) else {
        return Vec::new();
    };
    let changed = |path: PathBuf| {
        let meta = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let fits = is_piece(&path.file_name()?.to_string_lossy(), &name);
        fits.then_some((meta.modified().ok()?, path))
    };
    let mut out: Vec<_> = beside.filter_map(|e| changed(e.ok()?.path())).collect();
    out.sort();
    out
}

/// Whether a name is that of a log with a number or a date: `train.log.1`, `train.log-20261130.gz`, `train.1.log`.
fn is_piece(name: &str, log: &str) -> bool {
    let plain = [".gz", ".zst"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    let plain = plain.unwrap_or(name);
    let (stem, ending) = log.rfind('.').map_or((log, ""), |dot| log.split_at(dot));
    let inner = plain
        .strip_suffix(ending)
        .and_then(|p| p.strip_prefix(stem));
    let added = plain.strip_prefix(log).or(inner);
    added.is_some_and(|a| {
        a.starts_with(['.', '-', '_']) && a[1..].starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_known_by_their_names() {
        for piece in [
            "train.log.1",
            "train.log.12.gz",
            "train.log-20261130",
            "train.log-20261130.zst",
            "train.1.log",
            "train-20261130.log.gz",
        ] {
            assert!(is_piece(piece, "train.log"), "{piece}");
        }
        for other in [
            "train.log",
            "train.log.gz",
            "train.log.err",
            "train2.log",
            "trainer.1.log",
        ] {
            assert!(!is_piece(other, "train.log"), "{other}");
        }
        assert!(is_piece("log.2", "log") && !is_piece("log2", "log"));
    }
}
