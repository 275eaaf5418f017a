//! The bytes of a log as they come: a file that grows, is cut, or is put aside for another; or standard input.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::SystemTime;

use crate::ingest::follow::Identity;

/// Bytes read at once.
const PART: usize = 256 * 1024;
/// First bytes by which a file that was written anew in place is told from one that grew.
const HEAD: usize = 256;
/// Parts of standard input that wait.
const WAITING: usize = 4;

/// What comes next.
#[derive(Debug)]
pub(super) enum Got {
    /// More bytes.
    Bytes(Vec<u8>),
    /// What follows begins a file: why, for people.
    Began(String),
    /// Nothing for now.
    Nothing,
    /// Nothing any more.
    Ended,
}

/// A log as it grows.
#[derive(Debug)]
pub(super) enum Tail {
    Pipe(Receiver<io::Result<Vec<u8>>>),
    File(Growing),
}

/// A file that grows.
#[derive(Debug)]
pub(super) struct Growing {
    path: PathBuf,
    open: Option<Open>,
    /// A file to be read before the one at the path.
    first: Option<PathBuf>,
    /// Whether any file was opened yet.
    begun: bool,
    /// Whether the last look found nothing more to read.
    idle: bool,
    /// The file that could not be read any more, and how far it was read.
    lost: Option<(Identity, u64)>,
}

#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    identity: Option<Identity>,
    offset: u64,
    head: Vec<u8>,
    /// Time of the last change when the head was last compared.
    compared: Option<SystemTime>,
}

impl Tail {
    /// Standard input.
    pub(super) fn stdin() -> Self {
        Self::pipe(io::stdin())
    }

    /// What only gives its bytes once, read on a thread of its own.
    fn pipe(mut input: impl Read + Send + 'static) -> Self {
        let (give, take) = sync_channel(WAITING);
        std::thread::spawn(move || {
            loop {
                let mut part = vec![0; PART];
                let got = match input.read(&mut part) {
                    Ok(0) => return,
                    Ok(n) => {
                        part.truncate(n);
                        Ok(part)
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) => Err(e),
                };
                let over = got.is_err();
                if give.send(got).is_err() || over {
                    return;
                }
            }
        });
        Self::Pipe(take)
    }

    /// A file. If another has taken the place of the file `last`, that one is read first.
    pub(super) fn file(path: &Path, last: Option<Identity>) -> Self {
        if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
            && let Ok(file) = File::open(path)
        {
            return Self::pipe(file);
        }
        Self::File(Growing {
            path: path.to_owned(),
            open: None,
            first: last.and_then(|last| put_aside(path, last)),
            begun: false,
            idle: false,
            lost: None,
        })
    }

    /// What comes next, up to so many bytes.
    pub(super) fn next(&mut self, most: usize) -> io::Result<Got> {
        match self {
            Self::Pipe(parts) => match parts.try_recv() {
                Ok(part) => part.map(Got::Bytes),
                Err(TryRecvError::Empty) => Ok(Got::Nothing),
                Err(TryRecvError::Disconnected) => Ok(Got::Ended),
            },
            Self::File(file) => file.next(most.min(PART)),
        }
    }

    pub(super) fn unread(&self) -> u64 {
        let Self::File(file) = self else { return 0 };
        let size = |o: &Open| o.file.metadata().map_or(0, |m| m.len());
        file.open
            .as_ref()
            .map_or(0, |o| size(o).saturating_sub(o.offset))
    }

    pub(super) fn written(&self) -> Option<SystemTime> {
        let Self::File(file) = self else { return None };
        file.open.as_ref()?.file.metadata().ok()?.modified().ok()
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        let Self::File(file) = self else { return None };
        file.open.as_ref()?.identity
    }
}

impl Growing {
    fn next(&mut self, most: usize) -> io::Result<Got> {
        let was_idle = std::mem::replace(&mut self.idle, false);
        if let Some(open) = &mut self.open {
            if was_idle && open.was_written_anew() {
                return Ok(open.begin_anew());
            }
            match open.read(most) {
                // It may be gone from under us, as network file systems do: it is opened again at the next look.
                Err(e) => {
                    self.lost = open.identity.map(|id| (id, open.offset));
                    self.open = None;
                    return Err(e);
                }
                Ok(bytes) if !bytes.is_empty() => return Ok(Got::Bytes(bytes)),
                Ok(_) => {}
            }
        }
        self.at_end()
    }

    /// The file is read to its end, or none is open.
    fn at_end(&mut self) -> io::Result<Got> {
        if let Some(open) = &mut self.open
            && open.is_cut()
        {
            return Ok(open.begin_anew());
        }
        let next = match self.first.take() {
            Some(aside) => aside,
            None => self.path.clone(),
        };
        let meta = match fs::metadata(&next) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.idle = true;
                return Ok(Got::Nothing);
            }
            Err(e) => return Err(e),
        };
        let same = |o: &Open| o.path == next && o.identity == identity(&meta);
        if self.open.as_ref().is_some_and(same) {
            self.idle = true;
            return Ok(Got::Nothing);
        }
        let mut open = Open::new(&next)?;
        let goes_on = self.lost.take().is_some_and(|lost| open.go_on(lost));
        self.open = Some(open);
        if goes_on {
            return self.next(PART);
        }
        if std::mem::replace(&mut self.begun, true) {
            Ok(Got::Began(
                "another file took the place of the log".to_owned(),
            ))
        } else {
            self.next(PART)
        }
    }
}

impl Open {
    fn new(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        Ok(Self {
            identity: identity(&meta),
            compared: meta.modified().ok(),
            path: path.to_owned(),
            offset: 0,
            head: Vec::new(),
            file,
        })
    }

    /// Goes on where the same file was left, if it is the same.
    fn go_on(&mut self, (identity, offset): (Identity, u64)) -> bool {
        let same = self.identity == Some(identity);
        let whole = self.file.metadata().is_ok_and(|m| m.len() >= offset);
        let there = same && whole && self.file.seek(SeekFrom::Start(offset)).is_ok();
        if there {
            self.offset = offset;
        }
        there
    }

    fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut part = vec![0; most];
        let n = loop {
            match self.file.read(&mut part) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        part.truncate(n);
        self.offset += n as u64;
        // Of a file that is gone on with the head is not known.
        if self.offset == self.head.len() as u64 + n as u64 {
            let room = HEAD.saturating_sub(self.head.len()).min(n);
            self.head.extend_from_slice(&part[..room]);
        }
        Ok(part)
    }

    fn is_cut(&self) -> bool {
        self.file.metadata().is_ok_and(|m| m.len() < self.offset)
    }

    /// Whether the first bytes are others than those that were read: the file was cut and has grown past its old end.
    fn was_written_anew(&mut self) -> bool {
        let changed = self.file.metadata().and_then(|m| m.modified()).ok();
        if changed == self.compared || self.head.is_empty() {
            return false;
        }
        self.compared = changed;
        let mut head = Vec::with_capacity(HEAD);
        let again = File::open(&self.path).and_then(|file| {
            let same = identity(&file.metadata()?) == self.identity;
            file.take(self.head.len() as u64).read_to_end(&mut head)?;
            Ok(same)
        });
        again.unwrap_or(false) && head.len() == self.head.len() && head != self.head
    }

    fn begin_anew(&mut self) -> Got {
        (self.offset, self.head) = (0, Vec::new());
        let _ = self.file.seek(SeekFrom::Start(0));
        Got::Began("the log was cut and begins anew".to_owned())
    }
}

/// Device and number of a file, where the system has them.
fn identity(meta: &Metadata) -> Option<Identity> {
    #[cfg(unix)]
    let identity = {
        use std::os::unix::fs::MetadataExt;
        Some((meta.dev(), meta.ino()))
    };
    #[cfg(not(unix))]
    let identity = None;
    identity
}

/// The file beside a log that was the log before it was rotated.
fn put_aside(path: &Path, last: Identity) -> Option<PathBuf> {
    let is_last = |p: &Path| fs::metadata(p).is_ok_and(|m| identity(&m) == Some(last));
    if is_last(path) {
        return None;
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let beside = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let mut files = beside.filter_map(|e| Some(e.ok()?.path()));
    files.find(|p| is_last(p))
}
