//! torchtitan and other users of `torch.distributed.checkpoint`: `step-1000/` with its `.metadata`.
//!
//! The step is the number of updates done.

use crate::checkpoints::layout::{
    Found, Group, counted, is_distcp, numbered, shards, torch_distributed,
};
use crate::checkpoints::tree::Node;

/// The index of an export in the format of Hugging Face, which holds the weights alone.
const EXPORT: &str = "model.safetensors.index.json";

/// The checkpoints of a folder. Folders named the same way without any such file are another layout's.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let named = numbered(folder, "step-");
    let ours = |f: Node<'_>| {
        f.file_names()
            .any(|n| n == ".metadata" || n == EXPORT || is_distcp(n))
    };
    if !named.iter().any(|(_, f)| ours(*f)) {
        return None;
    }
    let found = named.into_iter().map(|(n, f)| look(n, f)).collect();
    Group::of("torchtitan", found, None)
}

fn look(number: u64, folder: Node<'_>) -> Found<'_> {
    let mut found = Found::folder(number, folder);
    if folder.has(EXPORT) && !folder.has(".metadata") {
        found.faults = counted(folder.file_names());
        found.optimizer = Some(false);
        found.data = Some(false);
        return found;
    }
    found.faults = torch_distributed(folder, "");
    found.shards = shards(folder);
    found.optimizer = Some(true);
    found.data = Some(true);
    found
}

#[cfg(test)]
mod tests {
    use crate::checkpoints::folder::tests::{Made, scan};

    #[test]
    fn whole_torn_and_weights_alone() {
        let made = Made::new();
        for step in [500, 1000, 1500] {
            made.file(&format!("checkpoint/step-{step}/.metadata"), 100);
            for rank in 0..4 {
                made.file(&format!("checkpoint/step-{step}/__{rank}_0.distcp"), 1200);
            }
        }
        made.remove("checkpoint/step-1500/.metadata");
        made.remove("checkpoint/step-1500/__3_0.distcp");
        made.folder("checkpoint/step-2000");
        made.text("tb/20260101-0000/note", "x");
        let found = scan(&made);
        assert_eq!(found.steps(), [500, 1000, 1500, 2000]);
        assert_eq!(found.torn(), [1500, 2000]);
        assert_eq!(found.why(2000), "no .metadata, no __*.distcp");
        assert_eq!(found.checkpoints[0].layout, Some("torchtitan"));
        assert!(
            found.checkpoints[0]
                .path
                .as_ref()
                .unwrap()
                .ends_with("checkpoint/step-500")
        );

        let made = Made::new();
        for (step, bytes) in [(10, 600), (20, 600), (30, 100)] {
            made.file(&format!("step-{step}/.metadata"), 100);
            made.file(&format!("step-{step}/__0_0.distcp"), bytes);
            made.file(&format!("step-{step}/__1_0.distcp"), bytes);
        }
        made.text("step-40/model.safetensors.index.json", "{}");
        made.file("step-40/model-00001-of-00002.safetensors", 50);
        let found = scan(&made);
        assert_eq!(found.torn(), [40]);
        assert_eq!(found.checkpoints[0].optimizer, Some(true));
        assert_eq!(found.checkpoints[2].optimizer, None);
        assert_eq!(found.checkpoints[3].optimizer, Some(false));
        assert!(found.warned("17 %"), "{:?}", found.warnings);
    }

    #[test]
    fn the_checkpoint_itself_may_be_given() {
        let made = Made::new();
        made.file("step-7/.metadata", 1);
        made.file("step-7/__0_0.distcp", 1);
        let found = crate::checkpoints::folder::scan(&made.path().join("step-7"));
        assert_eq!(found.checkpoints.len(), 1);
        assert_eq!(found.checkpoints[0].step, 7);
    }
}
