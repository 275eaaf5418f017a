//! MaxText and other users of Orbax: `1000/`, renamed from `1000.orbax-checkpoint-tmp…` when the save is done.
//!
//! MaxText counts from 0 and names a checkpoint after the step just done: `1000` holds 1001 updates.

use crate::checkpoints::layout::{Found, Group, after, counted, numbered};
use crate::checkpoints::tree::Node;

const TEMPORARY: &str = ".orbax-checkpoint-tmp";
/// Written into a finished checkpoint.
const MARKS: [&str; 2] = ["_CHECKPOINT_METADATA", "commit_success.txt"];

/// The checkpoints of a folder.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let named = numbered(folder, "");
    let temporary: Vec<(u64, Node<'_>)> = folder
        .folders()
        .filter_map(|f| Some((after(f.name().split_once(TEMPORARY)?.0, "")?, f)))
        .collect();
    let ours = |f: Node<'_>| MARKS.iter().any(|m| f.find(m).is_some()) || state(f);
    if temporary.is_empty() && !named.iter().any(|(_, f)| ours(*f)) {
        return None;
    }
    let marks: Vec<&str> = MARKS
        .into_iter()
        .filter(|m| named.iter().any(|(_, f)| f.find(m).is_some()))
        .collect();
    let mut found: Vec<Found<'_>> = named.into_iter().map(|(n, f)| look(n, f, &marks)).collect();
    found.extend(temporary.into_iter().map(|(n, f)| Found::unfinished(n, f)));
    for f in &mut found {
        f.step = f.number.saturating_add(1);
    }
    Group::of("orbax", found, None)
}

/// Whether arrays are in it: Orbax writes an index into each item's folder.
fn state(folder: Node<'_>) -> bool {
    const INDEX: [&str; 2] = ["_METADATA", "manifest.ocdbt"];
    let has = |f: Node<'_>| INDEX.iter().any(|i| f.has(i));
    has(folder) || folder.folders().any(has)
}

fn look<'a>(number: u64, folder: Node<'a>, marks: &[&str]) -> Found<'a> {
    let mut found = Found::folder(number, folder);
    for mark in marks {
        if folder.find(mark).is_none() {
            found
                .faults
                .push(format!("no {mark}, which its siblings have"));
        }
    }
    if !state(folder) {
        found.faults.push("no items/_METADATA".to_owned());
    }
    if folder.any_name(|n| n.contains(TEMPORARY)) {
        found
            .faults
            .push(format!("a {TEMPORARY} folder is left in it"));
    }
    let items: Vec<&str> = folder.folders().map(Node::name).collect();
    let weights = !items.is_empty() && items.iter().all(|i| ["params", "iter"].contains(i));
    found.optimizer = Some(!weights);
    // The iterator of grain; other pipelines keep no position.
    let position = folder.find("iter");
    let names = || position.into_iter().flat_map(Node::file_names);
    found.data = Some(names().next().is_some());
    found.faults.extend(counted(names()));
    found
}

#[cfg(test)]
mod tests {
    use crate::checkpoints::folder::tests::{Made, scan};

    #[test]
    fn whole_and_torn() {
        let made = Made::new();
        for step in [0, 1000, 2000, 3000] {
            let at = format!("checkpoints/{step}");
            made.text(
                &format!("{at}/_CHECKPOINT_METADATA"),
                "{\"item_handlers\": null}",
            );
            made.text(&format!("{at}/items/_METADATA"), "{\"tree_metadata\": {}}");
            made.file(&format!("{at}/items/manifest.ocdbt"), 100);
            made.file(&format!("{at}/items/ocdbt.process_0/d/{step}abcd"), 500);
            for host in 0..2 {
                made.text(&format!("{at}/iter/process_{host}-of-2.json"), "{}");
            }
        }
        let found = scan(&made);
        assert_eq!(
            (found.steps(), found.torn()),
            (vec![1, 1001, 2001, 3001], vec![])
        );
        assert_eq!(found.checkpoints[0].layout, Some("orbax"));
        assert_eq!(found.checkpoints[0].optimizer, Some(true));
        assert_eq!(found.checkpoints[0].data_position, Some(true));
        made.remove("checkpoints/0/iter");
        made.remove("checkpoints/1000/iter/process_1-of-2.json");
        made.remove("checkpoints/2000/items");
        made.remove("checkpoints/3000/_CHECKPOINT_METADATA");
        made.file("checkpoints/4000.orbax-checkpoint-tmp-1712/items/x", 3);
        let found = scan(&made);
        assert_eq!(found.torn(), [1001, 2001, 3001, 4001]);
        assert_eq!(found.checkpoints[0].data_position, Some(false));
        assert_eq!(found.why(1001), "only 1 of 2 process_*-of-2.json");
        assert_eq!(found.why(2001), "no items/_METADATA");
        assert!(found.why(4001).contains("did not finish"));
    }
}
