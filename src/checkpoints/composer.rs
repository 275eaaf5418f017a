//! Composer and LLM Foundry: `ep0-ba1000-rank0.pt`, or sharded in `ep0-ba1000/`.
//!
//! `ba` is the number of batches, hence of updates, done in all epochs.

use std::collections::BTreeMap;

use crate::checkpoints::layout::{
    Found, Group, after, counted, gaps, is_distcp, shards, torch_distributed,
};
use crate::checkpoints::tree::Node;

/// The checkpoints of a folder.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let mut files: BTreeMap<(u64, &str), Vec<Node<'_>>> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in folder.children() {
        let (stem, rank) = split(entry.name());
        let Some(batch) = batch(stem) else { continue };
        match rank {
            None if entry.is_folder() => found.push(sharded(batch, entry)),
            Some(_) if entry.is_file() => files.entry((batch, stem)).or_default().push(entry),
            _ => {}
        }
    }
    found.extend(files.into_iter().map(|((batch, _), f)| ranks(batch, f)));
    Group::of("composer", found, None)
}

/// The name without its rank, and the rank.
fn split(name: &str) -> (&str, Option<u64>) {
    let rank = name
        .strip_suffix(".pt")
        .and_then(|n| n.rsplit_once("-rank"))
        .and_then(|(stem, rank)| Some((stem, rank.parse().ok()?)));
    rank.map_or((name, None), |(stem, rank)| (stem, Some(rank)))
}

/// The batch of `ep0-ba1000`.
fn batch(stem: &str) -> Option<u64> {
    let (epoch, batch) = stem.split_once('-')?;
    after(epoch, "ep").and(after(batch, "ba"))
}

fn ranks(batch: u64, files: Vec<Node<'_>>) -> Found<'_> {
    let empty = files.iter().find(|f| f.bytes() == 0);
    let mut faults = Vec::from_iter(empty.map(|f| format!("{} is empty", f.name())));
    faults.extend(gaps(files.iter().map(|f| f.name())));
    let mut shards: Vec<(String, u64)> = files
        .iter()
        .filter_map(|f| Some((format!("rank{}", split(f.name()).1?), f.bytes())))
        .collect();
    shards.sort();
    let mut found = Found::new(batch, files);
    found.faults = faults;
    found.shards = shards;
    found.optimizer = Some(true);
    found
}

fn sharded(batch: u64, folder: Node<'_>) -> Found<'_> {
    let torch = folder.find(".metadata").is_some() || folder.file_names().any(is_distcp);
    let old: Vec<Node<'_>> = folder
        .children()
        .filter(|c| split(c.name()).1.is_some())
        .collect();
    if !torch && !old.is_empty() {
        // Before torch 2 every rank wrote a file of its own into the folder.
        let mut found = ranks(batch, old);
        found.parts = vec![folder];
        return found;
    }
    let mut found = Found::folder(batch, folder);
    found.faults = torch_distributed(folder, "");
    found.faults.extend(counted(folder.file_names()));
    found.shards = shards(folder);
    found.optimizer = Some(true);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoints::folder::tests::{Made, scan};

    #[test]
    fn names() {
        assert_eq!(split("ep0-ba1000-rank3.pt"), ("ep0-ba1000", Some(3)));
        assert_eq!(split("latest-rank0.pt"), ("latest", Some(0)));
        assert_eq!(batch("ep12-ba1000"), Some(1000));
        assert_eq!(batch("latest"), None);
    }

    #[test]
    fn files_of_ranks() {
        let made = Made::new();
        for batch in [100, 200, 300] {
            for rank in 0..3 {
                made.file(&format!("ckpt/ep0-ba{batch}-rank{rank}.pt"), 400);
            }
        }
        made.text("ckpt/latest-rank0.pt.symlink", "ep0-ba300-rank0.pt");
        let found = scan(&made);
        assert_eq!((found.steps(), found.torn()), (vec![100, 200, 300], vec![]));
        assert_eq!(found.checkpoints[2].bytes, Some(1200));
        assert!(
            found.checkpoints[0]
                .path
                .as_ref()
                .unwrap()
                .ends_with("ep0-ba100-rank0.pt")
        );
        made.remove("ckpt/ep0-ba200-rank1.pt");
        made.remove("ckpt/ep0-ba300-rank2.pt");
        let found = scan(&made);
        assert_eq!(found.torn(), [200, 300]);
        assert_eq!(found.why(200), "only 2 of 3 ep*-ba*-rank*.pt");
        assert_eq!(found.why(300), "no rank2, which ep0-ba100-rank0.pt has");
    }

    #[test]
    fn sharded_folders() {
        let made = Made::new();
        for batch in [100, 200] {
            made.file(&format!("ep1-ba{batch}/.metadata"), 9);
            made.file(&format!("ep1-ba{batch}/__0_0.distcp"), 90);
        }
        made.remove("ep1-ba200/.metadata");
        made.file("ep1-ba300/ep1-ba300-rank0.pt", 80);
        made.file("ep1-ba300/ep1-ba300-rank1.pt", 80);
        let found = scan(&made);
        assert_eq!(
            (found.steps(), found.torn()),
            (vec![100, 200, 300], vec![200])
        );
    }
}
