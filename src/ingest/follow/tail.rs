//! The bytes of a log as they come: a file that grows, is cut, or is put aside for another; or standard input.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::SystemTime;

use crate::ingest::follow::pieces::{self, LAST, Mark};
use crate::ingest::open::decompressed;

/// Bytes read at once.
const PART: usize = 256 * 1024;
/// Parts of standard input that wait.
const WAITING: usize = 4;

/// A file in a file system, whatever it is called: device and number.
type Identity = (u64, u64);

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
    File(Box<Growing>),
}

/// A file that grows.
#[derive(Debug)]
pub(super) struct Growing {
    path: PathBuf,
    open: Option<Open>,
    /// Files to be read before the one at the path, the next one last.
    first: Vec<PathBuf>,
    /// Whether any file was opened yet.
    begun: bool,
    /// Whether the last look found nothing more to read.
    idle: bool,
    /// The file that could not be read any more.
    lost: Option<Open>,
}

struct Open {
    file: File,
    /// What the file unpacks to, of a piece that is packed.
    unpacked: Option<Box<dyn Read + Send>>,
    path: PathBuf,
    identity: Option<Identity>,
    offset: u64,
    /// The last bytes that were read: a file that was written anew in place does not hold them.
    last: Vec<u8>,
    /// Time of the last change when they were last compared.
    compared: Option<SystemTime>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("path", &self.path)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
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

    /// A file. If another has taken the place of the one that was read, that one is read first, and those between them.
    pub(super) fn file(path: &Path, read: Option<&Mark>) -> Self {
        if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
            && let Ok(file) = File::open(path)
        {
            return Self::pipe(file);
        }
        let gone = read.filter(|mark| !mark.fits(path));
        let mut first = gone.map_or(Vec::new(), |mark| pieces::since(path, mark));
        first.reverse();
        Self::File(Box::new(Growing {
            path: path.to_owned(),
            open: None,
            first,
            begun: false,
            idle: false,
            lost: None,
        }))
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

    /// Whether a file that was put aside is read first.
    pub(super) fn reads_aside(&self) -> bool {
        matches!(self, Self::File(file) if !file.first.is_empty())
    }

    /// How far the file at hand was read.
    pub(super) fn mark(&self) -> Option<Mark> {
        let Self::File(file) = self else { return None };
        file.open.as_ref().map(Open::mark)
    }
}

impl Growing {
    fn next(&mut self, most: usize) -> io::Result<Got> {
        let was_idle = std::mem::replace(&mut self.idle, false);
        if let Some(open) = &mut self.open {
            if was_idle && open.was_written_anew() {
                return self.begin_anew();
            }
            match open.read(most) {
                // It may be gone from under us, as network file systems do: it is opened again at the next look.
                Err(e) => {
                    self.lost = self.open.take();
                    return Err(e);
                }
                Ok(bytes) if !bytes.is_empty() => return Ok(Got::Bytes(bytes)),
                Ok(_) => {}
            }
        }
        self.at_end()
    }

    /// The file was cut. A copy of it may hold what was written since the last look.
    fn begin_anew(&mut self) -> io::Result<Got> {
        let Some(open) = &mut self.open else {
            return Ok(Got::Nothing);
        };
        if open.path == self.path && open.go_on_in_copy(&mut self.first) {
            return self.next(PART);
        }
        Ok(open.begin_anew())
    }

    /// The file is read to its end, or none is open.
    fn at_end(&mut self) -> io::Result<Got> {
        if self.open.as_ref().is_some_and(Open::is_cut) {
            return self.begin_anew();
        }
        let next = self.first.pop().unwrap_or_else(|| self.path.clone());
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
        let mut open = Open::new(&next, next != self.path)?;
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
    fn new(path: &Path, aside: bool) -> io::Result<Self> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        // One of its own: what looks whether it is packed moves on in it.
        let packed = aside.then(|| decompressed(Box::new(File::open(path)?)));
        let unpacked = packed.transpose()?.filter(|(_, packed)| *packed);
        Ok(Self {
            identity: identity(&meta),
            compared: meta.modified().ok(),
            path: path.to_owned(),
            offset: 0,
            last: Vec::new(),
            unpacked: unpacked.map(|(input, _)| input),
            file,
        })
    }

    fn mark(&self) -> Mark {
        Mark::new(self.offset, &self.last)
    }

    /// Goes on in the copy that was made of a file before it was cut, if there is one.
    fn go_on_in_copy(&mut self, first: &mut Vec<PathBuf>) -> bool {
        let mut copies = pieces::since(&self.path, &self.mark());
        copies.reverse();
        let Some(mut copy) = copies.pop().and_then(|c| Self::new(&c, true).ok()) else {
            return false;
        };
        let there = match &mut copy.unpacked {
            Some(input) => io::copy(&mut input.take(self.offset), &mut io::sink()).is_ok(),
            None => copy.file.seek(SeekFrom::Start(self.offset)).is_ok(),
        };
        if there {
            (copy.offset, copy.last) = (self.offset, std::mem::take(&mut self.last));
            *self = copy;
            first.append(&mut copies);
        }
        there
    }

    /// Goes on where the same file was left, if it is the same.
    fn go_on(&mut self, lost: Self) -> bool {
        let same = self.identity.is_some() && self.identity == lost.identity;
        let whole = self.file.metadata().is_ok_and(|m| m.len() >= lost.offset);
        let there = same && whole && self.file.seek(SeekFrom::Start(lost.offset)).is_ok();
        if there {
            (self.offset, self.last) = (lost.offset, lost.last);
        }
        there
    }

    fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut part = vec![0; most];
        let n = loop {
            let got = match &mut self.unpacked {
                // What is damaged ends where it cannot be unpacked.
                Some(input) => input.read(&mut part).or_else(|e| match e.kind() {
                    io::ErrorKind::Interrupted => Err(e),
                    _ => Ok(0),
                }),
                None => self.file.read(&mut part),
            };
            match got {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        part.truncate(n);
        self.offset += n as u64;
        self.last.extend_from_slice(&part[n.saturating_sub(LAST)..]);
        let spare = self.last.len().saturating_sub(LAST);
        self.last.drain(..spare);
        Ok(part)
    }

    fn is_cut(&self) -> bool {
        let shorter = |m: Metadata| m.len() < self.offset;
        self.unpacked.is_none() && self.file.metadata().is_ok_and(shorter)
    }

    /// Whether the bytes that were read are others now: the file was cut and has grown past its old end.
    fn was_written_anew(&mut self) -> bool {
        let changed = self.file.metadata().and_then(|m| m.modified()).ok();
        if changed == self.compared || self.offset == 0 {
            return false;
        }
        self.compared = changed;
        let is_it = |m: Metadata| identity(&m) == self.identity && m.len() >= self.offset;
        fs::metadata(&self.path).is_ok_and(is_it) && !self.mark().fits(&self.path)
    }

    fn begin_anew(&mut self) -> Got {
        (self.offset, self.last) = (0, Vec::new());
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
