//! Megatron-LM and Megatron-Bridge: `iter_0001000/`, one file a rank (`mp_rank_*`) or distributed (`__r_k.distcp`).
//!
//! The iteration is the number of updates done. The tracker is written last.

use crate::checkpoints::layout::{
    Found, Group, Tracker, counted, gaps, is_distcp, need, numbered, shards, torch_distributed,
};
use crate::checkpoints::tree::Node;

const TRACKER: &str = "latest_checkpointed_iteration.txt";

/// The checkpoints of a folder.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let named = numbered(folder, "iter_");
    let found = named.into_iter().map(|(n, f)| look(n, f)).collect();
    // `release` instead of a number is a converted model, not a step of this run.
    let tracker = Tracker::read(folder, TRACKER, |says| says.parse().ok());
    Group::of("megatron", found, tracker)
}

fn look(number: u64, folder: Node<'_>) -> Found<'_> {
    let mut found = Found::folder(number, folder);
    found.shards = shards(folder);
    if folder.folders().any(|f| f.name().starts_with("mp_rank_")) {
        legacy(&mut found, folder);
    } else {
        distributed(&mut found, folder);
    }
    found
}

/// One folder for each tensor (and pipeline, and expert) rank.
fn legacy(found: &mut Found<'_>, folder: Node<'_>) {
    const WHOLE: [&str; 2] = ["model_optim_rng.pt", "model_rng.pt"];
    let ranks: Vec<Node<'_>> = folder
        .folders()
        .filter(|f| f.name().starts_with("mp_rank_"))
        .collect();
    found.faults = gaps(ranks.iter().map(|r| r.name()));
    for rank in &ranks {
        // The older distributed optimizer has files of its own beside `model_rng.pt`, in folders of their own.
        let own = WHOLE.iter().any(|f| rank.has(f)) || rank.has("optim.pt");
        if !own {
            found
                .faults
                .push(format!("no {}/{}", rank.name(), WHOLE[0]));
        }
    }
    found.optimizer = Some(true);
    found.data = Some(true);
}

/// `torch_dist` has `metadata.json` and `common.pt` beside the index, `fsdp_dtensor` and `torch_dcp` have not.
fn distributed(found: &mut Found<'_>, folder: Node<'_>) {
    let torch = folder.file_names().any(is_distcp);
    let marked = folder.has("metadata.json") || folder.has("common.pt");
    if marked && !torch && !folder.has(".metadata") {
        // The zarr format of 2023 and 2024 keeps a folder for each tensor.
        found.faults.extend(need(folder, "metadata.json"));
        found.faults.extend(need(folder, "common.pt"));
    } else {
        found.faults = torch_distributed(folder, "");
        if marked {
            found.faults.extend(need(folder, "metadata.json"));
            found.faults.extend(need(folder, "common.pt"));
        }
    }
    found.faults.extend(counted(folder.file_names()));
    found.optimizer = Some(true);
    found.data =
        (marked || folder.has("train_state.pt") || !folder.has(".metadata")).then_some(true);
}

#[cfg(test)]
mod tests {
    use crate::checkpoints::folder::tests::{Made, scan};

    fn distributed(made: &Made, step: u64, ranks: u64) {
        let at = format!("iter_{step:07}");
        made.text(
            &format!("{at}/metadata.json"),
            r#"{"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch"}"#,
        );
        made.file(&format!("{at}/common.pt"), 50);
        made.file(&format!("{at}/.metadata"), 60);
        for rank in 0..ranks {
            made.file(&format!("{at}/__{rank}_0.distcp"), 4000 / ranks);
            made.file(&format!("{at}/__{rank}_1.distcp"), 4000 / ranks);
        }
    }

    #[test]
    fn distributed_whole_and_torn() {
        let made = Made::new();
        for step in [1000, 2000, 3000, 4000, 5000] {
            distributed(&made, step, if step < 2500 { 8 } else { 4 });
        }
        made.remove("iter_0002000/__3_1.distcp");
        made.remove("iter_0004000/.metadata");
        made.remove("iter_0005000/common.pt");
        made.text("latest_checkpointed_iteration.txt", "1000\n");
        let found = scan(&made);
        assert_eq!(found.steps(), [1000, 2000, 3000, 4000, 5000]);
        assert_eq!(found.torn(), [2000, 4000, 5000]);
        assert!(
            found.why(2000).contains("no __3_1.distcp"),
            "{}",
            found.why(2000)
        );
        assert_eq!(found.why(4000), "no .metadata");
        assert_eq!(found.why(5000), "no common.pt");
        let first = &found.checkpoints[0];
        assert_eq!(first.layout, Some("megatron"));
        assert_eq!(first.bytes, Some(8000 + 110 + 90));
        assert_eq!(
            (first.optimizer, first.data_position),
            (Some(true), Some(true))
        );
        assert!(first.modified.is_some());
        assert!(
            found.warned("names 1000, and iter_0003000 is newer"),
            "{:?}",
            found.warnings
        );
    }

    #[test]
    fn one_file_a_rank() {
        let made = Made::new();
        for step in [500, 1000] {
            for (tensor, pipe) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let at = format!("iter_{step:07}/mp_rank_{tensor:02}_{pipe:03}");
                made.file(&format!("{at}/model_optim_rng.pt"), 1000);
                made.file(&format!("{at}/distrib_optim.pt"), 2000);
            }
        }
        made.text("latest_checkpointed_iteration.txt", "1500");
        let found = scan(&made);
        assert_eq!(found.torn(), [0; 0]);
        assert!(found.warned("names 1500, which is not there"));
        made.remove("iter_0001000/mp_rank_01_001/distrib_optim.pt");
        assert_eq!(scan(&made).torn(), [1000]);
        made.remove("iter_0001000/mp_rank_01_001");
        made.cut("iter_0000500/mp_rank_00_001/model_optim_rng.pt", 10);
        let found = scan(&made);
        assert_eq!(found.torn(), [500, 1000]);
        assert_eq!(found.why(1000), "only 3 of 4 mp_rank_*_*");
        assert!(found.why(500).contains("10 bytes"), "{}", found.why(500));
    }

    #[test]
    fn bridge_and_release() {
        let made = Made::new();
        made.file("iter_0000100/.metadata", 9);
        made.file("iter_0000100/__0_0.distcp", 90);
        made.file("iter_0000100/train_state.pt", 9);
        made.text("iter_0000100/run_config.yaml", "model: {}\n");
        made.file("release/common.pt", 9);
        made.text("latest_checkpointed_iteration.txt", "release");
        let found = scan(&made);
        assert_eq!((found.steps(), found.torn()), (vec![100], vec![]));
        assert_eq!(found.checkpoints[0].data_position, Some(true));
        assert_eq!(found.warnings, [""; 0]);
    }
}
