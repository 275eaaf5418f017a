//! The checkpoints of a folder: every layout looks at every folder in it, and what one finds is not opened further.
//!
//! Names, sizes, times, text and JSON are read. Nothing is unpickled, so what is inside a file is known from the
//! layout alone.

use std::collections::BTreeSet;
use std::path::Path;

use crate::checkpoints::layout::{Found, Group};
use crate::checkpoints::tree::{Node, Tree};
use crate::checkpoints::{
    Checkpoint, composer, deepspeed, hf, levanter, lightning, maxtext, megatron, nanotron, olmo,
    siblings, torchtitan,
};

/// Finds a layout's checkpoints among the entries of a folder.
type Find = for<'a> fn(Node<'a>) -> Option<Group<'a>>;

const LAYOUTS: [Find; 10] = [
    megatron::find,
    deepspeed::find,
    torchtitan::find,
    hf::find,
    lightning::find,
    composer::find,
    olmo::find,
    nanotron::find,
    levanter::find,
    maxtext::find,
];

/// Faults of a checkpoint that are named.
const MOST_FAULTS: usize = 3;

/// What a folder holds.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The checkpoints in order of step; the whole ones first where a step has several.
    pub(super) checkpoints: Vec<Checkpoint>,
    /// What the user should know.
    pub(super) warnings: Vec<String>,
}

/// Takes the inventory of a folder.
pub(super) fn scan(path: &Path) -> Scan {
    let tree = Tree::read(path);
    let mut out = Scan {
        warnings: tree.troubles(),
        ..Scan::default()
    };
    let (mut unread, mut places) = (Vec::new(), BTreeSet::new());
    for mut group in groups(&tree) {
        siblings::compare(&mut group);
        for found in &mut group.found {
            if !found.parts.iter().all(|p| p.is_read()) {
                // What is missing may be what was not read.
                found.faults.clear();
                unread.push(found.name());
            }
        }
        out.warnings.extend(tracker(&group));
        for found in group.found {
            let path = found.parts.first().map(|p| p.path());
            places.extend(path.and_then(|p| Some(p.parent()?.to_owned())));
            out.checkpoints.push(checkpoint(&found, group.layout));
            out.warnings.extend(found.notes);
        }
    }
    if let Some(names) = some(&unread) {
        out.warnings.push(format!(
            "{names} could not be read in full: whether anything is missing there is not known"
        ));
    }
    let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    out.warnings.extend(place(&places, path, tree.len()));
    out.checkpoints.sort_by(|a, b| {
        let key = |c: &Checkpoint| (c.step, c.torn.is_some());
        key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path))
    });
    out
}

/// What every layout finds, folder by folder from the top.
fn groups(tree: &Tree) -> Vec<Group<'_>> {
    let mut out = Vec::new();
    let mut open = vec![tree.above()];
    let mut at = 0;
    while at < open.len() {
        let folder = open[at];
        let found = LAYOUTS.iter().filter_map(|find| find(folder));
        let start = out.len();
        out.extend(found);
        let taken: BTreeSet<usize> = out[start..]
            .iter()
            .flat_map(|g: &Group<'_>| &g.found)
            .flat_map(|f| f.parts.iter().map(|p| p.id()))
            .collect();
        open.extend(folder.folders().filter(|f| !taken.contains(&f.id())));
        at += 1;
    }
    out
}

/// What is wrong with where the checkpoints are.
fn place(places: &[String], path: &Path, entries: usize) -> Option<String> {
    match places {
        [] => Some(format!(
            "no checkpoint of a known layout is in {} ({entries} entries)",
            path.display()
        )),
        [_] => None,
        several => some(several).map(|names| {
            format!(
                "the checkpoints are in several folders ({names}): if they are of several runs, give this run's"
            )
        }),
    }
}

/// The first names of a list, if there are any.
pub(super) fn some<T: AsRef<str>>(names: &[T]) -> Option<String> {
    const NAMED: usize = 3;
    let first: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    (!first.is_empty()).then(|| format!("{}{more}", first.join(", ")))
}

fn torn(found: &Found<'_>) -> Option<String> {
    if let Some(why) = &found.unfinished {
        return Some(why.clone());
    }
    let more = found.faults.len().saturating_sub(MOST_FAULTS);
    let named = &found.faults[..found.faults.len() - more];
    match (named.is_empty(), more) {
        (true, _) => None,
        (_, 0) => Some(named.join(", ")),
        _ => Some(format!("{} and {more} more faults", named.join(", "))),
    }
}

fn checkpoint(found: &Found<'_>, layout: &'static str) -> Checkpoint {
    let read = found.parts.iter().all(|p| p.is_read());
    let bytes = found.parts.iter().map(|p| p.bytes()).sum();
    let path = found.parts.first().map(|p| p.path());
    Checkpoint {
        step: found.step,
        path: path.map(|p| p.display().to_string()),
        layout: Some(layout),
        torn: torn(found),
        optimizer: found.optimizer,
        data_position: found.data,
        bytes: read.then_some(bytes),
        modified: found.parts.iter().filter_map(|p| p.modified()).max(),
    }
}

/// What is wrong with the checkpoint that the tracker names.
fn tracker(group: &Group<'_>) -> Option<String> {
    let tracker = group.tracker.as_ref()?;
    let number = tracker.number?;
    let names = format!("{} names {}", tracker.path, tracker.says);
    let Some(found) = group.found.iter().find(|f| f.number == number) else {
        return Some(format!("{names}, which is not there"));
    };
    if let Some(why) = torn(found) {
        return Some(format!("{names}, which is torn ({why})"));
    }
    let newest = group.found.iter().filter(|f| !f.is_torn());
    let newest = newest.max_by_key(|f| f.number)?;
    (newest.number > number).then(|| {
        format!(
            "{names}, and {} is newer: its save was not finished, or the file was set back; a restart goes to {}",
            newest.name(),
            tracker.says
        )
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    /// A folder made for a test.
    pub(in crate::checkpoints) struct Made(tempfile::TempDir);

    impl Made {
        pub(in crate::checkpoints) fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        pub(in crate::checkpoints) fn path(&self) -> &Path {
            self.0.path()
        }

        fn write(&self, path: &str, bytes: &[u8]) {
            let path = self.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }

        pub(in crate::checkpoints) fn text(&self, path: &str, text: &str) {
            self.write(path, text.as_bytes());
        }

        pub(in crate::checkpoints) fn file(&self, path: &str, bytes: u64) {
            self.write(path, &vec![0x80; usize::try_from(bytes).unwrap()]);
        }

        pub(in crate::checkpoints) fn folder(&self, path: &str) {
            fs::create_dir_all(self.path().join(path)).unwrap();
        }

        /// Cuts a file to its first bytes.
        pub(in crate::checkpoints) fn cut(&self, path: &str, bytes: u64) {
            let file = fs::OpenOptions::new();
            let file = file.clone().write(true).open(self.path().join(path));
            file.unwrap().set_len(bytes).unwrap();
        }

        pub(in crate::checkpoints) fn remove(&self, path: &str) {
            let path = self.path().join(path);
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
    }

    pub(in crate::checkpoints) fn scan(made: &Made) -> Scan {
        super::scan(made.path())
    }

    impl Scan {
        pub(in crate::checkpoints) fn steps(&self) -> Vec<u64> {
            self.checkpoints.iter().map(|c| c.step).collect()
        }

        pub(in crate::checkpoints) fn torn(&self) -> Vec<u64> {
            let torn = self.checkpoints.iter().filter(|c| c.torn.is_some());
            torn.map(|c| c.step).collect()
        }

        pub(in crate::checkpoints) fn why(&self, step: u64) -> &str {
            let mut torn = self.checkpoints.iter().filter(|c| c.step == step);
            torn.find_map(|c| c.torn.as_deref()).unwrap()
        }

        pub(in crate::checkpoints) fn warned(&self, words: &str) -> bool {
            self.warnings.iter().any(|w| w.contains(words))
        }
    }

    #[test]
    fn nothing_that_is_known() {
        let made = Made::new();
        made.text("notes.txt", "x");
        made.file("step-5/lit_model.pth", 9);
        made.file("12/data.bin", 9);
        made.file("checkpoint-3/readme", 9);
        let found = scan(&made);
        assert_eq!(found.checkpoints, []);
        assert!(found.warned("no checkpoint of a known layout"));
        assert!(super::scan(&made.path().join("gone")).warned("No such file"));
    }

    #[test]
    fn numbers_out_of_range() {
        let made = Made::new();
        let most = u64::MAX;
        made.text(&format!("{most}/_CHECKPOINT_METADATA"), "{}");
        made.text(&format!("step-{most}/metadata.json"), "{}");
        made.file(&format!("ep1-ba{most}-rank{most}.pt"), 9);
        made.file(&format!("a--step={most}/weights/.metadata"), 9);
        made.file(&format!("step={most}9.ckpt"), 9);
        made.text(
            "latest_checkpointed_iteration.txt",
            "99999999999999999999999",
        );
        assert_eq!(scan(&made).steps(), [most; 4]);
    }

    #[test]
    fn several_layouts_in_one_folder() {
        let made = Made::new();
        made.file("a/step-5/.metadata", 9);
        made.file("a/step-5/__0_0.distcp", 9);
        made.file("b/global_step9/mp_rank_00_model_states.pt", 9);
        made.file("b/epoch=0-step=3.ckpt", 9);
        let found = scan(&made);
        assert_eq!((found.steps(), found.torn()), (vec![3, 5, 9], vec![]));
        assert!(found.warned("in several folders"), "{:?}", found.warnings);
    }

    #[cfg(unix)]
    #[test]
    fn what_cannot_be_read_is_not_called_torn() {
        use std::os::unix::fs::PermissionsExt;
        let made = Made::new();
        made.file("global_step9/mp_rank_00_model_states.pt", 9);
        made.file("global_step8/mp_rank_00_model_states.pt", 9);
        let closed = made.path().join("global_step8");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        // Root reads everything, whatever the permissions.
        let readable = fs::read_dir(&closed).is_ok();
        let found = scan(&made);
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!((found.steps(), found.torn()), (vec![8, 9], vec![]));
        assert_eq!(found.checkpoints[0].bytes.is_some(), readable);
        assert_eq!(found.warned("could not be read in full"), !readable);
    }

    #[cfg(unix)]
    #[test]
    fn links_out_are_told() {
        let (made, other) = (Made::new(), Made::new());
        other.file("step-2/.metadata", 9);
        made.file("step-1/.metadata", 9);
        made.file("step-1/__0_0.distcp", 9);
        std::os::unix::fs::symlink(other.path().join("step-2"), made.path().join("step-2"))
            .unwrap();
        let found = scan(&made);
        assert_eq!(found.steps(), [1]);
        assert!(found.warned("step-2 is a link out of the folder"));
    }
}
