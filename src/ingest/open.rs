//! Opens files, folders and standard input; decompresses; cuts into chunks of whole lines.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::ingest::IngestError;
use crate::run::Rows;

/// Bytes of the start of a source that formats are recognised from.
const HEAD: usize = 256 * 1024;
/// Bytes of a chunk.
const CHUNK: usize = 4 * 1024 * 1024;
/// Bytes of a part that need not end with a line.
const PART: usize = 1024 * 1024;
/// The longest line that is kept; a longer one is reported as lost. Per-layer JSON lines reach some 100 kB.
const LONGEST_LINE: usize = 32 * 1024 * 1024;
/// The most bytes that a source that must be read whole may have once decompressed.
const LARGEST_WHOLE: u64 = 4 * 1024 * 1024 * 1024;
/// How many folders deep a log is looked for.
const DEPTH: usize = 4;

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
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// The files behind the paths as given: folders become the logs in them.
pub(super) fn expand(
    paths: &[PathBuf],
    is_log: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<Source>, IngestError> {
    let mut out = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            out.push(Source::Stdin);
        } else if path.is_dir() {
            let mut found = Vec::new();
            walk(path, DEPTH, &mut found).map_err(|source| io_error(path, source))?;
            found.sort();
            found.retain(|f| peek(f).is_some_and(|head| is_log(&head)));
            if found.is_empty() {
                return Err(IngestError::NoLogs {
                    path: path.display().to_string(),
                });
            }
            out.extend(found.into_iter().map(Source::File));
        } else {
            out.push(Source::File(path.clone()));
        }
    }
    Ok(out)
}

fn walk(folder: &Path, depth: usize, out: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 0 && !hidden {
            walk(&entry.path(), depth - 1, out)?;
        } else if kind.is_file() && !hidden {
            out.push(entry.path());
        }
    }
    Ok(())
}

fn peek(path: &Path) -> Option<Vec<u8>> {
    Opened::open(&Source::File(path.to_owned()))
        .ok()
        .map(|o| o.head().to_vec())
}

fn io_error(path: &Path, source: io::Error) -> IngestError {
    IngestError::Io {
        path: path.display().to_string(),
        source,
    }
}

/// An open source, decompressed.
pub(super) struct Opened {
    source: Source,
    size: Option<u64>,
    /// Bytes read but not handed out yet; the head at first.
    pending: Vec<u8>,
    head_len: usize,
    handed_out: u64,
    input: Box<dyn Read + Send>,
    ended: bool,
    first: bool,
}

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
            pending: Vec::new(),
            head_len: 0,
            handed_out: 0,
            input,
            ended: false,
            first: true,
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

    /// Reads until at least `want` bytes are pending or the source ends. A damaged compressed stream ends it.
    fn fill(&mut self, want: usize) -> io::Result<()> {
        while !self.ended && self.pending.len() < want {
            let start = self.pending.len();
            self.pending.resize(want.max(start + 64 * 1024), 0);
            match self.input.read(&mut self.pending[start..]) {
                Ok(0) => {
                    self.pending.truncate(start);
                    self.ended = true;
                }
                Ok(n) => self.pending.truncate(start + n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => self.pending.truncate(start),
                Err(e) => {
                    self.pending.truncate(start);
                    self.ended = true;
                    if start == 0 && self.handed_out == 0 {
                        return Err(e);
                    }
                }
            }
        }
        Ok(())
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
            if self.pending.len() >= LONGEST_LINE {
                let lost = self
                    .skip_line()
                    .map_err(|e| failed(self.source.name(), e))?;
                rows.lose(
                    format!("byte {}", self.handed_out),
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

    fn hand_out(&mut self, end: usize) -> Vec<u8> {
        let rest = self.pending.split_off(end);
        let mut chunk = std::mem::replace(&mut self.pending, rest);
        self.handed_out += chunk.len() as u64;
        if std::mem::take(&mut self.first) && chunk.starts_with(b"\xEF\xBB\xBF") {
            chunk.drain(..3);
        }
        chunk
    }

    fn skip_line(&mut self) -> io::Result<u64> {
        let mut lost = 0;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.pending) {
                self.pending.drain(..=end);
                return Ok(lost + end as u64 + 1);
            }
            lost += self.pending.len() as u64;
            self.pending.clear();
            self.fill(CHUNK)?;
            if self.pending.is_empty() {
                return Ok(lost);
            }
        }
    }

    /// Everything that is left.
    pub(super) fn rest(&mut self) -> Result<Vec<u8>, IngestError> {
        let failed = |e| IngestError::Io {
            path: self.source.name(),
            source: e,
        };
        let mut out = std::mem::take(&mut self.pending);
        let room = LARGEST_WHOLE.saturating_sub(out.len() as u64);
        let mut input = (&mut self.input).take(room);
        input.read_to_end(&mut out).map_err(failed)?;
        if out.starts_with(b"\xEF\xBB\xBF") {
            out.drain(..3);
        }
        Ok(out)
    }
}

/// Puts a decompressor in front if the bytes ask for one, and says whether it did.
fn decompressed(mut raw: Box<dyn Read + Send>) -> io::Result<(Box<dyn Read + Send>, bool)> {
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
