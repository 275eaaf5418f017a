//! OLMo-core and OLMo: `step1000/`, and `step1000-unsharded/` of OLMo.
//!
//! The step is the number of updates done. OLMo-core writes `.metadata.json` last; OLMo renames a temporary folder.

use crate::checkpoints::layout::{
    Found, Group, after, counted, gaps, need, shards, torch_distributed,
};
use crate::checkpoints::tree::Node;

const CORE: &str = ".metadata.json";
const STATE: &str = "model_and_optim";
/// What shows that a folder with this name is ours.
const MARKS: [&str; 9] = [
    CORE,
    STATE,
    "train",
    "train.pt",
    "model.pt",
    "model.safetensors",
    "rank0.pt",
    "optim",
    ".metadata",
];

/// The checkpoints of a folder.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let mut found = Vec::new();
    for f in folder.folders() {
        let (name, temporary) = match f.name().strip_suffix("-tmp") {
            Some(name) => (name, true),
            None => (f.name(), false),
        };
        let name = name.strip_suffix("-unsharded").unwrap_or(name);
        match after(name, "step") {
            Some(n) if temporary => found.push(Found::unfinished(n, f)),
            Some(n) => found.push(look(n, f)),
            None => {}
        }
    }
    let marked = |f: &Found<'_>| {
        let has = |m: &str| f.parts.iter().any(|p| p.find(m).is_some());
        MARKS.iter().any(|m| has(m))
    };
    let core = found.iter().any(|f| f.parts.iter().any(|p| p.has(CORE)));
    if !found.iter().any(marked) {
        return None;
    }
    Group::of(if core { "olmo-core" } else { "olmo" }, found, None)
}

fn look(number: u64, folder: Node<'_>) -> Found<'_> {
    let mut found = Found::folder(number, folder);
    found.shards = shards(folder);
    let ranks = |path: &str| {
        let files = folder.find(path).into_iter().flat_map(Node::file_names);
        files.filter(|n| n.starts_with("rank"))
    };
    if folder.find(STATE).is_some() || folder.has(CORE) {
        // OLMo has a configuration where OLMo-core has its mark.
        if !folder.has("config.yaml") {
            found.faults.extend(need(folder, CORE));
        }
        found.faults.extend(torch_distributed(folder, STATE));
        found.faults.extend(need(folder, "train/rank0.pt"));
        found.faults.extend(gaps(ranks("train")));
        found.optimizer = Some(true);
        found.data = Some(folder.has("train/rank0.pt"));
    } else if folder.find(".metadata").is_some() {
        found.faults = torch_distributed(folder, "");
        found.data = Some(false);
    } else if folder.find("rank0.pt").is_some() {
        found.faults = gaps(folder.file_names().filter(|n| n.starts_with("rank")));
        found.optimizer = Some(true);
        found.data = Some(true);
    } else {
        parts(&mut found, folder);
        for part in ["model", "optim", "train"] {
            found.faults.extend(gaps(ranks(part)));
        }
    }
    found
}

/// Model, optimizer and trainer each in a file or folder of its own.
fn parts(found: &mut Found<'_>, folder: Node<'_>) {
    let has = |part: &str| {
        let files = [format!("{part}.pt"), format!("{part}.safetensors")];
        let inner = folder.find(part).filter(|f| f.is_folder());
        files.iter().any(|f| folder.has(f)) || inner.is_some_and(|f| f.bytes() > 0)
    };
    let sharded = folder
        .file_names()
        .any(|n| n.starts_with("model-") && n.contains("-of-"));
    if !has("model") && !sharded {
        found.faults.push("no model".to_owned());
    }
    found.faults.extend(counted(folder.file_names()));
    found.optimizer = Some(has("optim"));
    found.data = Some(has("train") || has("other"));
}

#[cfg(test)]
mod tests {
    use crate::checkpoints::folder::tests::{Made, scan};

    #[test]
    fn core() {
        let made = Made::new();
        for step in [1000, 2000, 3000] {
            let at = format!("step{step}");
            made.text(&format!("{at}/.metadata.json"), r#"{"version": "2.2.0"}"#);
            made.text(&format!("{at}/config.json"), "{}");
            made.file(&format!("{at}/model_and_optim/.metadata"), 10);
            for rank in 0..2 {
                made.file(&format!("{at}/model_and_optim/__{rank}_0.distcp"), 500);
                made.file(&format!("{at}/train/rank{rank}.pt"), 30);
            }
        }
        made.text("config.json", "{}");
        let found = scan(&made);
        assert_eq!(
            (found.steps(), found.torn()),
            (vec![1000, 2000, 3000], vec![])
        );
        let first = &found.checkpoints[0];
        assert_eq!(first.layout, Some("olmo-core"));
        assert_eq!(
            (first.optimizer, first.data_position),
            (Some(true), Some(true))
        );
        made.remove("step1000/train/rank0.pt");
        made.remove("step2000/model_and_optim/__1_0.distcp");
        made.remove("step3000/.metadata.json");
        made.file("step4000-tmp/train/rank0.pt", 30);
        let found = scan(&made);
        assert_eq!(found.torn(), [1000, 2000, 3000, 4000]);
        assert_eq!(found.why(3000), "no .metadata.json");
        assert_eq!(found.why(1000), "no train/rank0.pt");
    }

    #[test]
    fn first_version() {
        let made = Made::new();
        for file in ["model.pt", "optim.pt", "train.pt", "config.yaml"] {
            made.file(&format!("step500-unsharded/{file}"), 40);
        }
        made.text("step500/config.yaml", "run_name: x\n");
        made.file("step500/model_and_optim/.metadata", 9);
        made.file("step500/model_and_optim/__0_0.distcp", 90);
        made.file("step500/train/rank0.pt", 9);
        made.file("step600/config.yaml", 9);
        made.file("step600/model.safetensors", 9);
        made.file("step700/optim.pt", 9);
        let found = scan(&made);
        assert_eq!(
            (found.steps(), found.torn()),
            (vec![500, 500, 600, 700], vec![700])
        );
        assert_eq!(found.checkpoints[2].layout, Some("olmo"));
        assert_eq!(found.checkpoints[2].optimizer, Some(false));
        assert_eq!(found.checkpoints[2].data_position, Some(false));
        assert_eq!(found.why(700), "no model");
    }
}
