//! The names, sizes and times of a folder, read once, breadth first; links are not followed out of it.

use std::fs::{self, DirEntry, File};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// Most entries that are read; what lies beyond is reported.
const MOST_ENTRIES: usize = 200_000;
/// Most folders below each other.
const DEEPEST: usize = 24;
/// Most single troubles that are named.
const MOST_NOTES: usize = 5;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A regular file, or a link to one in the folder.
    File,
    /// A folder.
    Folder,
    /// A link to a folder or out of the folder: there, and not looked into.
    Link,
}

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    parent: usize,
    depth: usize,
    kind: Kind,
    bytes: u64,
    modified: Option<Timestamp>,
    children: Range<usize>,
    /// Whether everything in it was read; of a folder alone, without those below.
    read: bool,
}

/// A folder, read. Its first entry stands above the folder, so that the folder itself may be a checkpoint.
#[derive(Debug)]
pub(super) struct Tree {
    given: PathBuf,
    real: PathBuf,
    entries: Vec<Entry>,
    notes: Vec<String>,
    more_notes: usize,
}

/// An entry of the folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    tree: &'a Tree,
    at: usize,
}

impl Tree {
    /// Reads a folder.
    pub(super) fn read(folder: &Path) -> Self {
        Self::read_within(folder, MOST_ENTRIES, DEEPEST)
    }

    fn read_within(folder: &Path, most: usize, deepest: usize) -> Self {
        let mut tree = Self {
            given: folder.to_owned(),
            real: fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()),
            entries: Vec::new(),
            notes: Vec::new(),
            more_notes: 0,
        };
        let name = tree.real.file_name().map(|n| n.to_string_lossy());
        let own = Entry {
            name: name.map_or_else(String::new, std::borrow::Cow::into_owned),
            parent: 0,
            depth: 0,
            kind: Kind::Folder,
            bytes: 0,
            modified: None,
            children: 0..0,
            read: true,
        };
        let above = Entry {
            name: String::new(),
            children: 1..2,
            ..own.clone()
        };
        tree.entries = vec![above, own];
        let mut at = 1;
        while at < tree.entries.len() {
            if tree.entries[at].kind == Kind::Folder {
                tree.open(at, most, deepest);
            }
            at += 1;
        }
        tree
    }

    /// Reads one folder's entries.
    fn open(&mut self, at: usize, most: usize, deepest: usize) {
        let (path, depth) = (self.path(at), self.entries[at].depth);
        if depth >= deepest {
            self.unread(at, &format!("more than {deepest} folders deep"));
            return;
        }
        let listing = match fs::read_dir(&path) {
            Ok(listing) => listing,
            Err(e) => return self.unread(at, &e.to_string()),
        };
        let mut found = Vec::new();
        for entry in listing {
            if self.entries.len() + found.len() >= most {
                self.unread(
                    at,
                    &format!("only the first {most} entries of the folder are read"),
                );
                break;
            }
            match entry.and_then(|e| self.entry(&e, at)) {
                Ok(found_one) => found.extend(found_one),
                Err(e) => self.unread(at, &e.to_string()),
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let start = self.entries.len();
        self.entries.append(&mut found);
        self.entries[at].children = start..self.entries.len();
    }

    fn entry(&mut self, from: &DirEntry, parent: usize) -> std::io::Result<Option<Entry>> {
        let is = from.file_type()?;
        let mut about = from.metadata()?;
        let kind = if is.is_symlink() {
            let Some((kind, target)) = self.link(&from.path()) else {
                return Ok(None);
            };
            about = target.unwrap_or(about);
            kind
        } else if is.is_dir() {
            Kind::Folder
        } else if is.is_file() {
            Kind::File
        } else {
            // Pipes and devices are no part of a checkpoint, and opening one may never return.
            return Ok(None);
        };
        let modified = about.modified().ok();
        Ok(Some(Entry {
            name: from.file_name().to_string_lossy().into_owned(),
            parent,
            depth: self.entries[parent].depth + 1,
            kind,
            bytes: if kind == Kind::File { about.len() } else { 0 },
            modified: modified.and_then(|t| Timestamp::try_from(t).ok()),
            children: 0..0,
            read: true,
        }))
    }

    /// What a link stands for, unless it leads nowhere. Its target is not opened.
    fn link(&mut self, path: &Path) -> Option<(Kind, Option<fs::Metadata>)> {
        let shown = path.display();
        let Ok(target) = fs::canonicalize(path) else {
            self.note(format!("{shown} is a link that leads nowhere"));
            return None;
        };
        if !target.starts_with(&self.real) {
            self.note(format!("{shown} is a link out of the folder: not followed"));
            return Some((Kind::Link, None));
        }
        match fs::metadata(&target) {
            Ok(about) if about.is_file() => Some((Kind::File, Some(about))),
            // A folder inside is met at its own place; going there twice could go on for ever.
            _ => Some((Kind::Link, None)),
        }
    }

    fn unread(&mut self, at: usize, why: &str) {
        self.entries[at].read = false;
        let path = self.path(at);
        self.note(format!("{}: {why}", path.display()));
    }

    fn note(&mut self, text: String) {
        if self.notes.contains(&text) {
            return;
        }
        if self.notes.len() < MOST_NOTES {
            self.notes.push(text);
        } else {
            self.more_notes += 1;
        }
    }

    /// What could not be read.
    pub(super) fn troubles(&self) -> Vec<String> {
        let mut out = self.notes.clone();
        if self.more_notes > 0 {
            out.push(format!(
                "{} more entries could not be read or followed",
                self.more_notes
            ));
        }
        out
    }

    /// The path of an entry, beginning as the folder was given.
    fn path(&self, at: usize) -> PathBuf {
        let mut names = Vec::new();
        let mut at = at;
        while at > 1 {
            names.push(self.entries[at].name.as_str());
            at = self.entries[at].parent;
        }
        names
            .iter()
            .rev()
            .fold(self.given.clone(), |path, name| path.join(name))
    }

    /// Number of entries, the folder's own not counted.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - 2
    }

    /// What stands above the folder; its only child is the folder.
    pub(super) fn above(&self) -> Node<'_> {
        Node { tree: self, at: 0 }
    }
}

impl<'a> Node<'a> {
    fn entry(self) -> &'a Entry {
        &self.tree.entries[self.at]
    }

    fn of(self, at: usize) -> Self {
        Self { at, ..self }
    }

    /// A number of its own among the entries.
    pub(super) fn id(self) -> usize {
        self.at
    }

    pub(super) fn name(self) -> &'a str {
        &self.entry().name
    }

    pub(super) fn is_folder(self) -> bool {
        self.entry().kind == Kind::Folder
    }

    pub(super) fn is_file(self) -> bool {
        self.entry().kind == Kind::File
    }

    /// The path, beginning as the folder was given.
    pub(super) fn path(self) -> PathBuf {
        self.tree.path(self.at)
    }

    /// What is in it, in order of name.
    pub(super) fn children(self) -> impl Iterator<Item = Self> {
        self.entry().children.clone().map(move |at| self.of(at))
    }

    /// The folders in it.
    pub(super) fn folders(self) -> impl Iterator<Item = Self> {
        self.children().filter(|c| c.is_folder())
    }

    /// The names of the files in it.
    pub(super) fn file_names(self) -> impl Iterator<Item = &'a str> {
        self.children().filter(|c| c.is_file()).map(Self::name)
    }

    /// The entry at a path below it, such as `train/rank0.pt`.
    pub(super) fn find(self, path: &str) -> Option<Self> {
        path.split('/').try_fold(self, |node, name| {
            let range = node.entry().children.clone();
            let among = &self.tree.entries[range.clone()];
            let at = among.binary_search_by(|e| e.name.as_str().cmp(name)).ok()?;
            Some(self.of(range.start + at))
        })
    }

    /// Whether there is something at a path below it: a file with contents, a folder, or a link.
    pub(super) fn has(self, path: &str) -> bool {
        self.find(path)
            .is_some_and(|n| n.entry().kind != Kind::File || n.entry().bytes > 0)
    }

    /// The files in it at any depth, by their path from here, with their bytes.
    pub(super) fn files(self) -> Vec<(String, u64)> {
        let mut out = Vec::new();
        let mut open = vec![(String::new(), self)];
        while let Some((lead, node)) = open.pop() {
            for child in node.children() {
                let path = format!("{lead}{}", child.name());
                match child.entry().kind {
                    Kind::File => out.push((path, child.entry().bytes)),
                    Kind::Folder => open.push((path + "/", child)),
                    Kind::Link => {}
                }
            }
        }
        out.sort();
        out
    }

    /// All entries below it and itself.
    fn below(self) -> Vec<Self> {
        let mut out = vec![self];
        let mut at = 0;
        while at < out.len() {
            let node = out[at];
            out.extend(node.children());
            at += 1;
        }
        out
    }

    /// Bytes of its files.
    pub(super) fn bytes(self) -> u64 {
        self.below().iter().map(|n| n.entry().bytes).sum()
    }

    /// When the newest of its files was written.
    pub(super) fn modified(self) -> Option<Timestamp> {
        let all = self.below();
        let newest = |files: bool| {
            let some = all.iter().filter(|n| n.is_file() || !files);
            some.filter_map(|n| n.entry().modified).max()
        };
        newest(true).or_else(|| newest(false))
    }

    /// Whether everything below it was read.
    pub(super) fn is_read(self) -> bool {
        self.below().iter().all(|n| n.entry().read)
    }

    /// Whether any folder or file at any depth has a name like this.
    pub(super) fn any_name(self, like: impl Fn(&str) -> bool) -> bool {
        self.below().iter().any(|n| like(n.name()))
    }

    /// The first bytes of a file as text.
    pub(super) fn head(self, most: u64) -> Option<String> {
        let file = self.is_file().then(|| File::open(self.path()).ok())??;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The last bytes of a file as text.
    pub(super) fn tail(self, most: u64) -> Option<String> {
        let mut file = self.is_file().then(|| File::open(self.path()).ok())??;
        let start = self.entry().bytes.saturating_sub(most);
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A small file that should be JSON; `None` if it is cut or something else.
    pub(super) fn json(self) -> Option<serde_json::Value> {
        const MOST: u64 = 16 << 20;
        serde_json::from_str(&self.head(MOST)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, bytes: usize) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![b'x'; bytes]).unwrap();
    }

    #[test]
    fn names_sizes_and_paths() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "b/deep/er.pt", 7);
        put(folder.path(), "a.txt", 3);
        put(folder.path(), "b/empty", 0);
        let tree = Tree::read(folder.path());
        assert_eq!(tree.len(), 5);
        let own = tree.above().children().next().unwrap();
        assert_eq!(own.path(), folder.path());
        assert_eq!(own.bytes(), 10);
        assert!(own.has("b/deep/er.pt") && !own.has("b/empty") && !own.has("c"));
        assert_eq!(own.files()[1], ("b/deep/er.pt".to_owned(), 7));
        assert_eq!(own.find("a.txt").unwrap().head(2).as_deref(), Some("xx"));
        assert_eq!(own.find("a.txt").unwrap().tail(1).as_deref(), Some("x"));
        assert!(own.modified().is_some() && own.is_read());
        assert_eq!(tree.troubles(), Vec::<String>::new());
    }

    #[test]
    fn a_folder_that_is_not_there() {
        let tree = Tree::read(Path::new("/no/such/folder"));
        assert_eq!(tree.len(), 0);
        assert_eq!(tree.troubles().len(), 1);
    }

    #[test]
    fn caps_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..20 {
            put(folder.path(), &format!("f{n:02}"), 1);
        }
        put(folder.path(), "x/y/z", 1);
        let tree = Tree::read_within(folder.path(), 10, 24);
        assert!(tree.len() <= 10 && !tree.above().is_read());
        assert!(
            tree.troubles()[0].contains("first 10"),
            "{:?}",
            tree.troubles()
        );
        let tree = Tree::read_within(folder.path(), 100, 1);
        assert!(!tree.above().is_read());
        assert!(tree.troubles()[0].contains("deep"), "{:?}", tree.troubles());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed_out() {
        use std::os::unix::fs::symlink;
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(other.path(), "secret/file", 100);
        put(folder.path(), "step-1/real", 5);
        symlink(other.path().join("secret"), folder.path().join("out")).unwrap();
        symlink(other.path().join("secret/file"), folder.path().join("file")).unwrap();
        symlink(folder.path(), folder.path().join("step-1/loop")).unwrap();
        symlink("step-1/real", folder.path().join("in")).unwrap();
        symlink("nowhere", folder.path().join("dangling")).unwrap();
        let tree = Tree::read(folder.path());
        let own = tree.above().children().next().unwrap();
        assert_eq!(own.bytes(), 10);
        assert!(own.has("out") && own.has("file") && !own.has("dangling"));
        assert_eq!(own.find("file").unwrap().head(9), None);
        assert_eq!(own.find("in").unwrap().head(9).as_deref(), Some("xxxxx"));
        assert_eq!(tree.troubles().len(), 3, "{:?}", tree.troubles());
    }
}
