//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::Builder;

/// The system refused to put a file in place.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub struct Refused {
    /// What was being done.
    pub doing: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        refused.source
    }
}

/// Has a file filled beside its place, and then puts it there: whoever reads finds the old file or the whole new one. Where
/// a link leads is written, not the link; and what is no file, such as a pipe or a device, is written to as it is. The disk
/// is not waited for.
pub fn replace<E: From<Refused>>(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let refused = |doing| move |source| Refused { doing, source };
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let file = File::options().write(true).open(path);
        return fill(&mut file.map_err(refused("cannot write to it"))?);
    }
    if path.file_name().is_none() {
        let source = io::Error::from(io::ErrorKind::IsADirectory);
        return Err(refused("cannot write: the path names no file")(source).into());
    }
    let mut beside = Builder::new();
    beside.prefix(".whyspike-").suffix(".tmp");
    // It is for others to read: what the umask leaves, as of any file.
    #[cfg(unix)]
    beside.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let file = beside.tempfile_in(folder.unwrap_or(Path::new(".")));
    let mut file = file.map_err(refused("cannot create a file in this folder"))?;
    fill(file.as_file_mut())?;
    let placed = file.persist(path).map_err(|e| e.error);
    placed.map_err(refused("cannot put the file in place"))?;
    Ok(())
}
