//! Opens files, folders and standard input; decompresses; cuts into chunks of whole lines.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::ingest::IngestError;
use crate::run::{Rows, printable};

/// Bytes of the start of a source that formats are recognised from.
pub(super) const HEAD: usize = 256 * 1024;
/// Bytes of a chunk.
pub(super) const CHUNK: usize = 2 * 1024 * 1024;
/// Bytes of a part that need not end with a line.
const PART: usize = 1024 * 1024;
/// The longest line that is kept; a longer one is reported as lost. Per-layer JSON lines reach some 100 kB.
pub(super) const LONGEST_LINE: usize = 32 * 1024 * 1024;
/// The most bytes that a source that must be read whole may have once decompressed.
pub(super) const LARGEST_WHOLE: u64 = 2 * 1024 * 1024 * 1024;

/// Where bytes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Source {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Stdin => "standard input".to_owned(),
            Self::File(path) => printable(&path.display().to_string()).into_owned(),
        }
    }
}

/// An open source, decompressed.
pub(super) struct Opened {
    source: Source,
    size: Option<u64>,
    packed: bool,
    /// Bytes read but not handed out yet; the head at first.
    pending: Vec<u8>,
    head_len: usize,
    handed_out: u64,
    input: Box<dyn Read + Send>,
    ended: bool,
    first: bool,
    /// Why the source ended before its end.
    damage: Option<io::Error>,
    /// Room of chunks that are done with.
    spare: Vec<Vec<u8>>,
}

/// A source that is too large to be read whole.
#[derive(Debug)]
pub(super) struct TooLarge;

impl Opened {
    /// Opens a source and reads its head.
    pub(super) fn open(source: &Source) -> Result<Self, IngestError> {
        let failed = |e| IngestError::Io {
            path: source.name(),
            source: e,
        };
        let (raw, size): (Box<dyn Read + Send>, _) = match source {
            Source::Stdin => (Box::new(io::stdin()), None),
            Source::File(path) => {
                let file = File::open(path).map_err(failed)?;
                let meta = file.metadata().map_err(failed)?;
                if meta.is_dir() {
                    return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
                }
                (Box::new(file), meta.is_file().then_some(meta.len()))
            }
        };
        let (input, packed) = decompressed(raw).map_err(failed)?;
        let mut opened = Self {
            source: source.clone(),
            size: size.filter(|_| !packed),
            packed,
            pending: Vec::new(),
            head_len: 0,
            handed_out: 0,
            input,
            ended: false,
            first: true,
            damage: None,
            spare: Vec::new(),
        };
        opened.fill(HEAD).map_err(failed)?;
        opened.head_len = opened.pending.len().min(HEAD);
        Ok(opened)
    }

    pub(super) fn name(&self) -> String {
        self.source.name()
    }

    /// The first bytes. Valid until the first chunk is taken.
    pub(super) fn head(&self) -> &[u8] {
        &self.pending[..self.head_len.min(self.pending.len())]
    }

    /// Size in bytes, if it is known and not compressed.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Bytes handed out so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.handed_out
    }

    /// Reads until `want` bytes are pending or the source ends. A damaged compressed stream ends it.
    fn fill(&mut self, want: usize) -> io::Result<()> {
        let room = want.saturating_sub(self.pending.len());
        if self.ended || room == 0 {
            return Ok(());
        }
        self.pending.reserve(room);
        let outcome = (&mut self.input)
            .take(room as u64)
            .read_to_end(&mut self.pending);
        self.ended = self.pending.len() < want;
        match outcome {
            Err(e) if self.pending.is_empty() && self.handed_out == 0 => Err(e),
            Err(e) => {
                self.damage = Some(e);
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// The next whole lines. The last chunk may end without a newline: a log that is still being written.
    pub(super) fn next_chunk(&mut self, rows: &mut Rows) -> Result<Option<Vec<u8>>, IngestError> {
        let failed = |path: String, e| IngestError::Io { path, source: e };
        let mut want = CHUNK;
        loop {
            self.fill(want).map_err(|e| failed(self.source.name(), e))?;
            if self.pending.is_empty() {
                return Ok(None);
            }
            if self.ended {
                return Ok(Some(self.hand_out(self.pending.len())));
            }
            if let Some(end) = memchr::memrchr(b'\n', &self.pending) {
                return Ok(Some(self.hand_out(end + 1)));
            }
            let full = self.pending.len() >= LONGEST_LINE;
            // The frames of a progress bar, each written over the one before.
            if let Some(end) = memchr::memrchr(b'\r', &self.pending).filter(|_| full) {
                return Ok(Some(self.hand_out(end + 1)));
            }
            if full {
                let at = self.handed_out;
                let lost = self
                    .skip_line()
                    .map_err(|e| failed(self.source.name(), e))?;
                rows.lose(
                    format!("byte {at}"),
                    format!("a line of {lost} bytes is too long to be a row"),
                );
                continue;
            }
            want = (self.pending.len() * 2).min(LONGEST_LINE);
        }
    }

    /// The next bytes, wherever they end.
    pub(super) fn next_part(&mut self) -> Result<Option<Vec<u8>>, IngestError> {
        self.fill(PART).map_err(|source| IngestError::Io {
            path: self.source.name(),
            source,
        })?;
        let len = self.pending.len();
        Ok((len > 0).then(|| self.hand_out(len)))
    }

    /// Takes back a chunk that is done with: its room is used for another.
    pub(super) fn give_back(&mut self, mut chunk: Vec<u8>) {
        chunk.clear();
        self.spare.push(chunk);
    }

    /// Whether all bytes were handed out.
    pub(super) fn is_at_end(&self) -> bool {
        self.ended && self.pending.is_empty()
    }

    fn hand_out(&mut self, end: usize) -> Vec<u8> {
        let mut rest = self.spare.pop().unwrap_or_default();
        rest.extend_from_slice(&self.pending[end..]);
        self.pending.truncate(end);
        let mut chunk = std::mem::replace(&mut self.pending, rest);
        self.handed_out += chunk.len() as u64;
        if std::mem::take(&mut self.first) && chunk.starts_with(b"\xEF\xBB\xBF") {
            chunk.drain(..3);
        }
        chunk
    }

    /// Goes on at the end of the line, which stays: the lines after it keep their numbers.
    fn skip_line(&mut self) -> io::Result<u64> {
        let mut lost = 0;
        loop {
            let end = memchr::memchr(b'\n', &self.pending);
            let part = end.unwrap_or(self.pending.len());
            self.pending.drain(..part);
            lost += part as u64;
            self.handed_out += part as u64;
            if end.is_some() {
                return Ok(lost);
            }
            self.fill(CHUNK)?;
            if self.pending.is_empty() {
                return Ok(lost);
            }
        }
    }

    /// The source as a file: itself, or a temporary copy of what is piped in or packed.
    pub(super) fn file(&mut self) -> Result<Spooled, IngestError> {
        if let (Source::File(path), Some(_)) = (&self.source, self.size) {
            return Ok(Spooled::Itself(path.clone()));
        }
        let failed = |source| IngestError::Io {
            path: self.source.name(),
            source,
        };
        let mut file = NamedTempFile::with_prefix("whyspike-").map_err(failed)?;
        file.write_all(&std::mem::take(&mut self.pending))
            .map_err(failed)?;
        io::copy(&mut (&mut self.input).take(LARGEST_WHOLE), &mut file).map_err(failed)?;
        Ok(Spooled::Copy(file))
    }

    /// Everything that is left, or that it is more than `most` bytes. A damaged stream ends where the damage is.
    pub(super) fn rest(&mut self, most: u64) -> Result<Vec<u8>, TooLarge> {
        let mut out = std::mem::take(&mut self.pending);
        let room = most.saturating_sub(out.len() as u64);
        let outcome = if self.ended {
            Ok(0)
        } else {
            (&mut self.input).take(room + 1).read_to_end(&mut out)
        };
        if out.len() as u64 > most {
            return Err(TooLarge);
        }
        self.damage = outcome.err().or(self.damage.take());
        self.ended = true;
        self.handed_out += out.len() as u64;
        if out.starts_with(b"\xEF\xBB\xBF") {
            out.drain(..3);
        }
        Ok(out)
    }

    /// Why the source ended before its end, if it did.
    pub(super) fn damage(&self) -> Option<String> {
        let error = self.damage.as_ref()?;
        Some(if self.packed {
            format!(
                "the compressed data are cut or damaged here ({error}); what comes before was kept"
            )
        } else {
            format!("cannot be read from here on ({error}); what comes before was kept")
        })
    }

    /// Notes it if the source ended before its end: after a line, or a byte.
    pub(super) fn tell_damage(&mut self, line: Option<u64>, rows: &mut Rows) {
        let Some(what) = self.damage() else { return };
        let place = match line {
            Some(line) => format!("line {line}"),
            None => format!("byte {}", self.handed_out),
        };
        rows.lose(place, what);
        self.damage = None;
    }
}

/// A source as a file.
#[derive(Debug)]
pub(super) enum Spooled {
    /// The file as given.
    Itself(PathBuf),
    /// A copy that goes when it is dropped.
    Copy(NamedTempFile),
}

impl Spooled {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Itself(path) => path,
            Self::Copy(file) => file.path(),
        }
    }
}

/// Puts a decompressor in front if the bytes ask for one, and says whether it did.
pub(super) fn decompressed(
    mut raw: Box<dyn Read + Send>,
) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut magic = Vec::with_capacity(4);
    (&mut raw).take(4).read_to_end(&mut magic)?;
    let gzip = magic.starts_with(&[0x1f, 0x8b]);
    let zstd = magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let whole = io::Cursor::new(magic).chain(raw);
    if gzip {
        #[expect(
            clippy::disallowed_types,
            reason = "this is the capped reader: it hands out bounded chunks"
        )]
        return Ok((
            Box::new(flate2::read::MultiGzDecoder::new(BufReader::with_capacity(
                1 << 16,
                whole,
            ))),
            true,
        ));
    }
    if zstd {
        #[expect(
            clippy::disallowed_types,
            reason = "this is the capped reader: it hands out bounded chunks"
        )]
        return Ok((Box::new(zstd::stream::read::Decoder::new(whole)?), true));
    }
    Ok((Box::new(whole), false))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn opened(bytes: impl Read + Send + 'static) -> Opened {
        let (input, packed) = decompressed(Box::new(bytes)).expect("readable");
        Opened {
            source: Source::Stdin,
            size: None,
            packed,
            pending: Vec::new(),
            head_len: 0,
            handed_out: 0,
            input,
            ended: false,
            first: true,
            damage: None,
            spare: Vec::new(),
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).expect("written");
        out.finish().expect("finished")
    }

    #[test]
    fn what_is_read_whole_has_a_limit() {
        let bomb = gzip(&vec![b' '; 1 << 20]);
        assert!(bomb.len() < 8192);
        let rest = |most| {
            opened(io::Cursor::new(bomb.clone()))
                .rest(most)
                .map(|b| b.len())
        };
        assert_eq!(rest(1 << 20).ok(), Some(1 << 20));
        assert!(rest((1 << 20) - 1).is_err());
        assert!(rest(0).is_err());
        let plain = |most| opened(io::Cursor::new(b"12345".to_vec())).rest(most).ok();
        assert_eq!((plain(5).as_deref(), plain(4)), (Some(&b"12345"[..]), None));
    }

    #[test]
    fn what_stands_before_damage_is_kept_and_the_damage_is_told() {
        let text: Vec<u8> = (0..2000_u32)
            .flat_map(|i| format!("{}\n", i * 7919 % 1000).into_bytes())
            .collect();
        let whole = gzip(&text);
        let mut source = opened(io::Cursor::new(whole[..whole.len() / 2].to_vec()));
        let kept = source.rest(1 << 20).expect("small");
        assert!(kept.len() > 500 && text.starts_with(&kept));
        let mut rows = Rows::default();
        source.tell_damage(None, &mut rows);
        assert_eq!(rows.losses[0].place, format!("byte {}", kept.len()));
        assert!(
            rows.losses[0]
                .what
                .starts_with("the compressed data are cut or damaged here (")
        );
        source.tell_damage(None, &mut rows);
        assert_eq!(rows.losses.len(), 1, "once");

        let mut sound = opened(io::Cursor::new(whole));
        assert_eq!(sound.rest(1 << 20).expect("small"), text);
        sound.tell_damage(None, &mut rows);
        assert_eq!(rows.losses.len(), 1);
    }

    #[test]
    fn frames_of_a_bar_part_a_line_that_is_too_long() {
        let frame = format!("step: 1 loss: 2.0{}\r", " ".repeat(983));
        let frames = LONGEST_LINE / frame.len() + 10;
        let mut source = opened(io::Cursor::new(frame.repeat(frames).into_bytes()));
        let mut rows = Rows::default();
        let mut sizes = Vec::new();
        while let Some(chunk) = source.next_chunk(&mut rows).expect("readable") {
            assert!(chunk.ends_with(b"\r"));
            sizes.push(chunk.len());
        }
        assert_eq!(sizes.iter().sum::<usize>(), frames * frame.len());
        assert!(rows.losses.is_empty() && sizes.len() == 2);
    }

    #[test]
    fn a_line_that_is_too_long_is_a_loss_and_reading_goes_on() {
        let mut text = vec![b'x'; LONGEST_LINE + 5];
        text.extend(b"\nlast\n");
        let mut source = opened(io::Cursor::new(text));
        let mut rows = Rows::default();
        let chunk = source.next_chunk(&mut rows).expect("readable");
        assert_eq!(chunk.as_deref(), Some(&b"\nlast\n"[..]), "the second line");
        let what = format!(
            "a line of {} bytes is too long to be a row",
            LONGEST_LINE + 5
        );
        assert_eq!(
            (&*rows.losses[0].place, rows.losses[0].what.clone()),
            ("byte 0", what)
        );
        assert_eq!(source.bytes_read(), LONGEST_LINE as u64 + 11);
    }
}
