//! Lightning and NeMo: `epoch=0-step=1000.ckpt` and names like it, a file or a folder.
//!
//! `step` is the number of updates done in Lightning and NeMo 1. NeMo 2 (a folder with `weights/`) counts from 0: its
//! `step=9` holds ten updates.

use crate::checkpoints::deepspeed;
use crate::checkpoints::layout::{
    Found, Group, has_ending, is_distcp, need, pattern, shards, torch_distributed,
};
use crate::checkpoints::tree::Node;

/// The file beside a checkpoint that NeMo takes away when the save is done.
const UNFINISHED: &str = "-unfinished";

/// The checkpoints of a folder.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let mut found = Vec::new();
    for entry in folder.children() {
        let name = entry.name();
        let averaged = stem(name).ends_with("-EMA");
        if let (Some(step), false) = (step(name), averaged || name.ends_with(UNFINISHED)) {
            found.extend(look(step, entry, folder));
        }
    }
    Group::of("lightning", found, None)
}

/// The number after `step=`, at the start of the name or after a dash.
fn step(name: &str) -> Option<u64> {
    const KEY: &str = "step=";
    let starts = name.match_indices(KEY);
    let mut starts = starts.filter(|(at, _)| *at == 0 || name.as_bytes()[at - 1] == b'-');
    let rest = &name[starts.next()?.0 + KEY.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

fn stem(name: &str) -> &str {
    name.strip_suffix(".ckpt").unwrap_or(name)
}

fn look<'a>(number: u64, entry: Node<'a>, beside: Node<'a>) -> Option<Found<'a>> {
    let mut found = Found::folder(number, entry);
    let marker = format!("{}{UNFINISHED}", stem(entry.name()));
    if beside.find(&marker).is_some() {
        found.unfinished = Some(format!("its save did not finish: {marker} is there"));
    }
    if entry.name().contains("consumed_samples=") {
        found.data = Some(true);
    }
    if entry.is_folder() {
        return inside(&mut found, entry).then_some(found);
    }
    if !entry.is_file() || !has_ending(entry.name(), "ckpt") {
        return None;
    }
    // Files with other names, such as those of weights alone, have other sizes.
    found.shards = vec![(pattern(entry.name()).0, entry.bytes())];
    if entry.bytes() == 0 {
        found.faults.push("it is empty".to_owned());
    }
    Some(found)
}

/// Looks into a folder; `false` if it is no checkpoint.
fn inside(found: &mut Found<'_>, folder: Node<'_>) -> bool {
    found.shards = shards(folder);
    if folder.find("weights").is_some() || folder.find("context").is_some() {
        found.step = found.number.saturating_add(1);
        found.faults = torch_distributed(folder, "weights");
        found.optimizer = Some(true);
    } else if let Some(engine) = folder.find("checkpoint") {
        found.faults = deepspeed::faults(engine);
        found.optimizer = deepspeed::optimizer(engine);
    } else if folder.find("common.pt").is_some() || folder.find("metadata.json").is_some() {
        // NeMo 1 with the distributed format of Megatron, in which zarr folders or shards may stand.
        found.faults.extend(need(folder, "common.pt"));
        found.faults.extend(need(folder, "metadata.json"));
        if folder.file_names().any(is_distcp) {
            found.faults.extend(need(folder, ".metadata"));
        }
        found.optimizer = Some(true);
    } else if folder.find(".metadata").is_some() || folder.file_names().any(is_distcp) {
        found.faults = torch_distributed(folder, "");
        found.optimizer = Some(true);
    } else if has_ending(folder.name(), "ckpt") || found.unfinished.is_some() {
        found
            .faults
            .push("nothing of a checkpoint in it".to_owned());
    } else {
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoints::folder::tests::{Made, scan};

    #[test]
    fn steps_in_names() {
        assert_eq!(step("epoch=0-step=1000.ckpt"), Some(1000));
        assert_eq!(step("epoch=0-step=1000-v1.ckpt"), Some(1000));
        assert_eq!(
            step("m--step=900-validation_loss=6.47-last.ckpt"),
            Some(900)
        );
        assert_eq!(step("last.ckpt"), None);
        assert_eq!(step("substep=4.ckpt"), None);
        assert_eq!(step("step=.ckpt"), None);
    }

    #[test]
    fn files() {
        let made = Made::new();
        let at = "lightning_logs/version_0/checkpoints";
        for step in [100, 200, 300] {
            made.file(&format!("{at}/epoch=0-step={step}.ckpt"), 5000);
        }
        made.file(&format!("{at}/weights-step=300.ckpt"), 900);
        made.file(&format!("{at}/last.ckpt"), 5000);
        let found = scan(&made);
        assert_eq!(
            (found.steps(), found.torn()),
            (vec![100, 200, 300, 300], vec![])
        );
        assert_eq!(found.checkpoints[0].layout, Some("lightning"));
        assert_eq!(found.checkpoints[0].optimizer, None);
        made.cut(&format!("{at}/epoch=0-step=300.ckpt"), 1000);
        made.cut(&format!("{at}/epoch=0-step=100.ckpt"), 0);
        let found = scan(&made);
        assert_eq!(found.torn(), [100, 300]);
        assert!(found.why(300).contains("1.0 kB"), "{}", found.why(300));
    }

    #[test]
    fn names_of_nemo() {
        let made = Made::new();
        made.file(
            "megatron_gpt--step=900-validation_loss=6.47-consumed_samples=35960.0-last.ckpt",
            70,
        );
        let second = |step: u64| {
            format!("default--reduced_train_loss=0.01-epoch=2-step={step}-consumed_samples=80.0")
        };
        for step in [9, 19, 29] {
            for file in [
                ".metadata",
                "common.pt",
                "metadata.json",
                "__0_0.distcp",
                "__0_1.distcp",
            ] {
                made.file(&format!("{}/weights/{file}", second(step)), 70);
            }
            made.text(&format!("{}/context/model.yaml", second(step)), "a: 1\n");
        }
        made.text(&format!("{}-unfinished", second(29)), "");
        made.remove(&format!("{}/weights/.metadata", second(19)));
        let found = scan(&made);
        assert_eq!(found.steps(), [10, 20, 30, 900]);
        assert_eq!(found.torn(), [20, 30]);
        assert_eq!(found.why(20), "no weights/.metadata");
        assert!(found.why(30).contains("-unfinished"));
        assert_eq!(found.checkpoints[0].data_position, Some(true));
    }
}
