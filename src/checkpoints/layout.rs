//! What the layouts share: a checkpoint as found, and the rules on names that show what is missing.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoints::tree::Node;

/// Combinations of indices beyond which a set of names is not checked.
const MOST_COMBINATIONS: u64 = 1_000_000;

/// A checkpoint as its layout sees it.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// The number in its name.
    pub(super) number: u64,
    /// Updates done when it was written.
    pub(super) step: u64,
    /// Its folder, or its files.
    pub(super) parts: Vec<Node<'a>>,
    /// Its name says that the save did not finish.
    pub(super) unfinished: Option<String>,
    /// What is missing by the layout's own rules.
    pub(super) faults: Vec<String>,
    /// Whether the optimizer state is in it; nothing if the names do not tell.
    pub(super) optimizer: Option<bool>,
    /// Whether the data position is in it; nothing if the names do not tell.
    pub(super) data: Option<bool>,
    /// Weights and optimizer state by a name that is the same in every sibling, with their bytes; what has random names
    /// is left out.
    pub(super) shards: Vec<(String, u64)>,
    /// What else to tell the user.
    pub(super) notes: Vec<String>,
}

/// The checkpoints of one layout in one folder.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// Name of the layout.
    pub(super) layout: &'static str,
    /// The checkpoints.
    pub(super) found: Vec<Found<'a>>,
    /// The file that names the newest one.
    pub(super) tracker: Option<Tracker>,
}

/// A file that names the newest checkpoint.
#[derive(Debug)]
pub(super) struct Tracker {
    /// Its path.
    pub(super) path: String,
    /// What it says.
    pub(super) says: String,
    /// The number that it means, if it is one.
    pub(super) number: Option<u64>,
}

impl<'a> Found<'a> {
    /// A checkpoint named after the updates done.
    pub(super) fn new(number: u64, parts: Vec<Node<'a>>) -> Self {
        Self {
            number,
            step: number,
            parts,
            unfinished: None,
            faults: Vec::new(),
            optimizer: None,
            data: None,
            shards: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// A checkpoint in a folder of its own.
    pub(super) fn folder(number: u64, folder: Node<'a>) -> Self {
        Self::new(number, vec![folder])
    }

    /// A checkpoint whose temporary folder was never renamed.
    pub(super) fn unfinished(number: u64, folder: Node<'a>) -> Self {
        let why = format!(
            "its save did not finish: it is still named {}",
            folder.name()
        );
        Self {
            unfinished: Some(why),
            ..Self::folder(number, folder)
        }
    }

    /// The name of its folder or of its first file.
    pub(super) fn name(&self) -> &'a str {
        self.parts.first().map_or("", |p| p.name())
    }

    /// Whether it has a fault that is known so far.
    pub(super) fn is_torn(&self) -> bool {
        self.unfinished.is_some() || !self.faults.is_empty()
    }
}

impl Group<'_> {
    /// The group, if it holds anything or something says that it should.
    pub(super) fn of<'a>(
        layout: &'static str,
        found: Vec<Found<'a>>,
        tracker: Option<Tracker>,
    ) -> Option<Group<'a>> {
        let named = tracker.as_ref().is_some_and(|t| t.number.is_some());
        (named || !found.is_empty()).then_some(Group {
            layout,
            found,
            tracker,
        })
    }
}

impl Tracker {
    /// Reads a tracker next to the checkpoints; `number` makes the checkpoint's number of what it says.
    pub(super) fn read(
        folder: Node<'_>,
        file: &str,
        number: impl Fn(&str) -> Option<u64>,
    ) -> Option<Self> {
        const MOST: u64 = 4096;
        let node = folder.find(file)?;
        let says = node.head(MOST)?.trim().to_owned();
        Some(Self {
            path: node.path().display().to_string(),
            number: number(&says),
            says,
        })
    }
}

/// The number that follows a prefix and ends the name.
pub(super) fn after(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let only_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    only_digits.then(|| digits.parse().ok())?
}

/// The folders whose names are a prefix and a number.
pub(super) fn numbered<'a>(folder: Node<'a>, prefix: &str) -> Vec<(u64, Node<'a>)> {
    let folders = folder.folders();
    folders
        .filter_map(|f| Some((after(f.name(), prefix)?, f)))
        .collect()
}

/// A fault unless there is something at a path.
pub(super) fn need(folder: Node<'_>, path: &str) -> Option<String> {
    match folder.find(path) {
        Some(_) if folder.has(path) => None,
        Some(_) => Some(format!("{path} is empty")),
        None => Some(format!("no {path}")),
    }
}

/// Faults of a folder that `torch.distributed.checkpoint` wrote: its index is written last. An empty path is the folder
/// itself.
pub(super) fn torch_distributed(folder: Node<'_>, path: &str) -> Vec<String> {
    let (inner, lead) = match path {
        "" => (Some(folder), String::new()),
        path => (folder.find(path), format!("{path}/")),
    };
    let mut faults = Vec::from_iter(need(folder, &format!("{lead}.metadata")));
    if !inner.is_some_and(|f| f.file_names().any(is_distcp)) {
        faults.push(format!("no {lead}__*.distcp"));
    }
    faults
}

/// Whether a file holds shards of `torch.distributed.checkpoint`.
pub(super) fn is_distcp(name: &str) -> bool {
    name.starts_with("__") && has_ending(name, "distcp")
}

/// Whether a name ends with a dot and this.
pub(super) fn has_ending(name: &str, ending: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, e)| e == ending)
}

/// The weights and the optimizer state of a folder, with their bytes. What each rank writes in the same size whatever
/// their number, such as random states, tells nothing of what is missing.
pub(super) fn shards(folder: Node<'_>) -> Vec<(String, u64)> {
    const ENDINGS: [&str; 7] = [
        "distcp",
        "pt",
        "pth",
        "bin",
        "safetensors",
        "ckpt",
        "msgpack",
    ];
    const SMALL: [&str; 8] = [
        "rng_state",
        "random_states",
        "scheduler",
        "lr_scheduler",
        "scaler",
        "training_args",
        "train_state",
        "train_dataloader",
    ];
    let mut files = folder.files();
    files.retain(|(path, _)| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let counted = ENDINGS.iter().any(|e| has_ending(name, e));
        counted && !SMALL.iter().any(|s| name.starts_with(s)) && !path.starts_with("train/")
    });
    files
}

/// A name with stars for its numbers, and the numbers.
pub(super) fn pattern(name: &str) -> (String, Vec<u64>) {
    let (mut stars, mut numbers) = (String::new(), Vec::new());
    let mut rest = name;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[at..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(rest.len(), |e| at + e);
        stars.push_str(&rest[..at]);
        stars.push('*');
        numbers.push(rest[at..end].parse().unwrap_or(u64::MAX));
        rest = &rest[end..];
    }
    stars.push_str(rest);
    (stars, numbers)
}

/// Faults of names that should count every rank from 0 on in every combination, such as those of `ZeRO`. A number that
/// is the same in all names, such as that of `bf16`, counts nothing.
pub(super) fn gaps<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut sets: BTreeMap<String, BTreeSet<Vec<u64>>> = BTreeMap::new();
    for name in names {
        let (stars, numbers) = pattern(name);
        sets.entry(stars).or_default().insert(numbers);
    }
    let fault = |(stars, set): (String, BTreeSet<Vec<u64>>)| {
        let first = set.first()?;
        let size = |axis: usize| {
            let most = set.iter().map(|n| n[axis]).max().unwrap_or(0);
            let varies = set.iter().any(|n| n[axis] != first[axis]);
            if varies { most.saturating_add(1) } else { 1 }
        };
        few(set.len(), (0..first.len()).map(size), &stars)
    };
    sets.into_iter().filter_map(fault).collect()
}

/// The fault of a set of names that is smaller than the product of its sizes.
fn few(here: usize, mut sizes: impl Iterator<Item = u64>, stars: &str) -> Option<String> {
    let whole = sizes.try_fold(1u64, |product, size| {
        let product = product.checked_mul(size)?;
        (product <= MOST_COMBINATIONS).then_some(product)
    })?;
    ((here as u64) < whole).then(|| format!("only {here} of {whole} {stars}"))
}

/// Faults of names that say once how many there are, such as `model-00001-of-00004.safetensors`.
pub(super) fn counted<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    short_of(names, |pairs| pairs == 1)
}

/// Faults of names that say how many there are in every direction, all combinations of which must be there.
pub(super) fn counted_grid<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    short_of(names, |_| true)
}

fn short_of<'n>(names: impl Iterator<Item = &'n str>, fits: impl Fn(usize) -> bool) -> Vec<String> {
    let mut sets: BTreeMap<(String, Vec<u64>), BTreeSet<Vec<u64>>> = BTreeMap::new();
    for name in names {
        let (stars, indices, sizes) = indices_of(name);
        if !sizes.is_empty() && fits(sizes.len()) {
            sets.entry((stars, sizes)).or_default().insert(indices);
        }
    }
    sets.into_iter()
        .filter_map(|((stars, sizes), here)| few(here.len(), sizes.into_iter(), &stars))
        .collect()
}

/// The indices of a name and what each is of: `dp-3-of-8_tp-0-of-2` has 3 of 8 and 0 of 2. Stars stand for the indices.
fn indices_of(name: &str) -> (String, Vec<u64>, Vec<u64>) {
    const OF: &str = "-of-";
    let (mut stars, mut indices, mut sizes) = (String::new(), Vec::new(), Vec::new());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once(OF) {
        let stem = before.trim_end_matches(|c: char| c.is_ascii_digit());
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        stars.push_str(stem);
        if let (Ok(index), Ok(size)) = (before[stem.len()..].parse(), after[..end].parse()) {
            indices.push(index);
            sizes.push(size);
            stars.push('*');
        } else {
            stars.push_str(&before[stem.len()..]);
        }
        stars.push_str(OF);
        stars.push_str(&after[..end]);
        rest = &after[end..];
    }
    stars.push_str(rest);
    (stars, indices, sizes)
}

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(&str, f64); 4] = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let value = bytes as f64;
    UNITS.iter().find(|(_, unit)| value >= *unit).map_or_else(
        || format!("{bytes} bytes"),
        |(name, unit)| format!("{:.1} {name}", value / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names() {
        assert_eq!(after("global_step100", "global_step"), Some(100));
        assert_eq!(after("global_step100_universal", "global_step"), None);
        assert_eq!(after("global_step", "global_step"), None);
        assert_eq!(after("step-99999999999999999999999", "step-"), None);
        assert_eq!(
            pattern("zero_pp_rank_3_mp_rank_00_optim_states.pt"),
            (
                "zero_pp_rank_*_mp_rank_*_optim_states.pt".to_owned(),
                vec![3, 0]
            )
        );
    }

    #[test]
    fn gaps_in_ranks() {
        let all = ["r_0_0", "r_0_1", "r_1_0", "r_1_1"];
        assert_eq!(gaps(all.into_iter()), Vec::<String>::new());
        assert_eq!(gaps(all[..3].iter().copied()), ["only 3 of 4 r_*_*"]);
        assert_eq!(gaps(["r_0", "r_999999999999"].into_iter()), [""; 0]);
        assert_eq!(gaps(["bf16_r_0", "bf16_r_1"].into_iter()), [""; 0]);
    }

    #[test]
    fn names_that_count_themselves() {
        let names = [
            "model-00001-of-00003.safetensors",
            "model-00003-of-00003.safetensors",
            "config.json",
            "process_0-of-1.json",
            "m_pp-rank-1-of-2_tp-rank-0-of-2.safetensors",
        ];
        assert_eq!(
            counted(names.into_iter()),
            ["only 2 of 3 model-*-of-00003.safetensors"]
        );
        let grid = ["o_dp-0-of-2_tp-0-of-2.pt", "o_dp-1-of-2_tp-0-of-2.pt"];
        assert_eq!(
            counted_grid(grid.into_iter()),
            ["only 2 of 4 o_dp-*-of-2_tp-*-of-2.pt"]
        );
        assert_eq!(counted_grid(["best-of-all"].into_iter()), [""; 0]);
    }

    #[test]
    fn sizes() {
        assert_eq!(size(12), "12 bytes");
        assert_eq!(size(2_300_000_000_000), "2.3 TB");
    }
}
