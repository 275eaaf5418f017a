//! Looks for the logs in a folder: what is in it besides is passed over, and what looks like a log but is left out is told.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::ingest::open::{Opened, Source};
use crate::ingest::{Ingester, parquet, recognise_file, sqlite, tensorboard, wandb};
use crate::run::DataLoss;

/// How many folders deep a log is looked for. A metric of `MLflow` lies five deep in the folder of its store.
const DEPTH: usize = 8;
/// The most files that are looked at.
const MOST: usize = 100_000;
/// Bytes that tell text from what is none.
const GLANCE: u64 = 4096;
/// How sure a format must be of a file that is taken beside others.
const SURE: u8 = 50;
/// How sure it must be of one that is alone.
const LIKELY: u8 = 30;
/// Endings of files that are no logs: weights, code, notes, pictures, configuration.
const NO_LOGS: [&str; 46] = [
    "bin",
    "bmp",
    "c",
    "cfg",
    "ckpt",
    "cpp",
    "cu",
    "distcp",
    "gif",
    "h",
    "html",
    "idx",
    "ini",
    "ipynb",
    "jpeg",
    "jpg",
    "js",
    "lock",
    "md",
    "metadata",
    "model",
    "msgpack",
    "npy",
    "npz",
    "onnx",
    "pdf",
    "pickle",
    "pkl",
    "png",
    "pt",
    "pth",
    "py",
    "pyc",
    "rs",
    "rst",
    "safetensors",
    "sh",
    "so",
    "svg",
    "tar",
    "toml",
    "ttf",
    "wav",
    "yaml",
    "yml",
    "zip",
];
/// Files that trainers and trackers write beside their logs: the last values again, or what was installed.
const BESIDE_LOGS: [&str; 14] = [
    "wandb-summary.json",
    "wandb-metadata.json",
    "all_results.json",
    "train_results.json",
    "eval_results.json",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "requirements.txt",
    "special_tokens_map.json",
    "added_tokens.json",
];

/// What was found in a folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) logs: Vec<PathBuf>,
    /// Files that were looked at.
    pub(super) looked_at: usize,
    /// What looks like a log and was left out, and why.
    pub(super) left_out: Vec<DataLoss>,
}

/// A file that a format claims.
struct Claimed {
    path: PathBuf,
    format: &'static str,
    sure: u8,
}

/// Looks through a folder. `fits` says how sure a format is of a file with these first bytes.
pub(super) fn search(folder: &Path, forced: Option<&'static Ingester>) -> io::Result<Found> {
    let mut walk = Walk::default();
    walk.folder(folder, DEPTH)?;
    walk.links();
    walk.files.sort();
    let mut found = Found {
        looked_at: walk.files.len(),
        ..Found::default()
    };
    if walk.cut {
        let what = format!(
            "more than {MOST} files: those after them were not looked at; name a folder further down"
        );
        found.left_out.push(left_out(folder, what));
    }
    let claimed = walk
        .files
        .into_iter()
        .filter_map(|path| claim(path, forced));
    choose(claimed.collect(), &mut found);
    Ok(found)
}

/// The files of a folder that may be logs, or a file itself, with size and time of the last change: as long as these
/// stay, nothing was written.
pub(super) fn state(path: &Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let mut walk = Walk::default();
    if walk.folder(path, DEPTH).is_err() {
        walk.files.push(path.to_owned());
    }
    walk.files.append(&mut walk.links);
    walk.files.sort();
    let known = |path: PathBuf| {
        let meta = fs::metadata(&path).ok()?;
        Some((path, meta.len(), meta.modified().ok()))
    };
    walk.files.into_iter().filter_map(known).collect()
}

fn left_out(path: &Path, what: String) -> DataLoss {
    DataLoss {
        source: path.display().to_string(),
        place: String::new(),
        what,
    }
}

/// The files below a folder.
#[derive(Default)]
struct Walk {
    files: Vec<PathBuf>,
    /// Links to files, taken only if they lead out of the folder: else the file itself is found.
    links: Vec<PathBuf>,
    cut: bool,
}

impl Walk {
    fn folder(&mut self, folder: &Path, depth: usize) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            if self.files.len() >= MOST {
                self.cut = true;
                return Ok(());
            }
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if name.as_encoded_bytes().starts_with(b".") || is_no_log(&name) {
                continue;
            }
            if kind.is_dir() && depth > 0 {
                // One that may not be read hides no more than itself.
                let _ = self.folder(&entry.path(), depth - 1);
            } else if kind.is_file() {
                self.files.push(entry.path());
            } else if kind.is_symlink() {
                self.links.push(entry.path());
            }
        }
        Ok(())
    }

    fn links(&mut self) {
        let resolved = |path: &PathBuf| fs::canonicalize(path).ok();
        let mut known: BTreeSet<PathBuf> = BTreeSet::new();
        if !self.links.is_empty() {
            known = self.files.iter().filter_map(resolved).collect();
        }
        for link in std::mem::take(&mut self.links) {
            let target = resolved(&link).filter(|t| t.is_file());
            if target.is_some_and(|t| known.insert(t)) {
                self.files.push(link);
            }
        }
    }
}

/// Whether a name alone says that it is no log.
fn is_no_log(name: &OsStr) -> bool {
    let path = Path::new(name);
    let ending = path
        .extension()
        .map(|e| e.to_string_lossy().to_ascii_lowercase());
    let name = name.to_string_lossy();
    ending.is_some_and(|e| NO_LOGS.contains(&e.as_str()))
        || BESIDE_LOGS.contains(&&*name)
        || name.ends_with(".index.json")
        || name == "node_modules"
        || name == "__pycache__"
}

/// The format of a file, if one claims it.
fn claim(path: PathBuf, forced: Option<&'static Ingester>) -> Option<Claimed> {
    if !may_be_log(&path) {
        return None;
    }
    let opened = Opened::open(&Source::File(path.clone())).ok()?;
    let (format, sure) = match forced {
        Some(format) => (format, (format.sniff)(opened.head())),
        None => recognise_file(&path, opened.head())?,
    };
    (sure > 0).then_some(Claimed {
        path,
        format: format.name,
        sure,
    })
}

/// Whether the first bytes are text, or those of a format that is none: what is large and neither is not read further.
fn may_be_log(path: &Path) -> bool {
    let mut glance = Vec::new();
    let read = File::open(path).and_then(|f| f.take(GLANCE).read_to_end(&mut glance));
    if read.is_err() || glance.is_empty() {
        return false;
    }
    let packed = glance.starts_with(&[0x1f, 0x8b]) || glance.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let known = [parquet::INGESTER, tensorboard::INGESTER, wandb::INGESTER];
    packed
        || memchr::memchr(0, &glance).is_none()
        || glance.starts_with(sqlite::MAGIC)
        || known.iter().any(|f| (f.sniff)(&glance) > 0)
        // A log whose disk filled up, or that was cut while it was written to, may begin with zeros.
        || glance.iter().all(|b| *b == 0)
}

/// Takes the files that a format is sure of, and of the others those of the same formats; without any, the likely ones.
fn choose(claimed: Vec<Claimed>, found: &mut Found) {
    let sure: BTreeSet<&str> = claimed
        .iter()
        .filter(|c| c.sure >= SURE)
        .map(|c| c.format)
        .collect();
    for file in claimed {
        if file.sure < LIKELY {
            continue;
        }
        if sure.is_empty() || sure.contains(file.format) {
            found.logs.push(file.path);
        } else {
            let what = format!(
                "left out: it can be read as {}, but says less than the other logs here; name it alone to read it",
                file.format
            );
            found.left_out.push(left_out(&file.path, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn names(found: &Found, folder: &Path) -> Vec<String> {
        let inner = |p: &PathBuf| p.strip_prefix(folder).unwrap().display().to_string();
        found.logs.iter().map(inner).collect()
    }

    const ROW: &str = "{\"step\": 1, \"loss\": 2.0}\n{\"step\": 2, \"loss\": 1.5}\n";

    #[test]
    fn only_logs_are_found() {
        let made = tempfile::tempdir().unwrap();
        let folder = made.path();
        for name in [
            "README.md",
            "train.py",
            "config.yaml",
            ".hidden",
            ".git/x",
            "wandb-summary.json",
            "a.safetensors",
        ] {
            put(folder, name, ROW);
        }
        put(
            folder,
            "weights",
            [&[0x80, 2, 0, 0][..], ROW.as_bytes()].concat(),
        );
        put(
            folder,
            "data.jsonl",
            "{\"text\": \"a\"}\n{\"text\": \"b\"}\n",
        );
        put(folder, "empty", "");
        put(folder, "a/b/c/d/e/f/log.jsonl", ROW);
        put(folder, "log.jsonl", ROW);
        let found = search(folder, None).unwrap();
        assert_eq!(
            names(&found, folder),
            ["a/b/c/d/e/f/log.jsonl", "log.jsonl"]
        );
        assert!(found.left_out.is_empty(), "{:?}", found.left_out);
        assert_eq!(found.looked_at, 5);
    }

    #[test]
    fn a_table_that_says_less_is_told() {
        let made = tempfile::tempdir().unwrap();
        let folder = made.path();
        put(folder, "eval.csv", "step,accuracy\n1,0.5\n2,0.6\n");
        let found = search(folder, None).unwrap();
        assert_eq!(names(&found, folder), ["eval.csv"], "alone it will do");
        put(folder, "log.jsonl", ROW);
        let found = search(folder, None).unwrap();
        assert_eq!(names(&found, folder), ["log.jsonl"]);
        assert!(found.left_out[0].source.ends_with("eval.csv"));
        assert!(
            found.left_out[0]
                .what
                .starts_with("left out: it can be read as csv")
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_nowhere_twice() {
        use std::os::unix::fs::symlink;
        let (made, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = made.path();
        put(folder, "run/log.jsonl", ROW);
        put(other.path(), "far.jsonl", ROW);
        symlink(folder, folder.join("run/up")).unwrap();
        symlink("log.jsonl", folder.join("run/latest.jsonl")).unwrap();
        symlink("nowhere", folder.join("run/broken.jsonl")).unwrap();
        symlink(other.path().join("far.jsonl"), folder.join("out.jsonl")).unwrap();
        let found = search(folder, None).unwrap();
        assert_eq!(names(&found, folder), ["out.jsonl", "run/log.jsonl"]);
    }
}
