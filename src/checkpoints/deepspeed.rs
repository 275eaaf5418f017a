//! DeepSpeed, Megatron-DeepSpeed and gpt-neox: `global_step1000/`, with `latest` beside it.
//!
//! The number is that of updates done, those skipped for an overflow included.

use crate::checkpoints::layout::{Found, Group, Tracker, after, gaps, numbered, shards};
use crate::checkpoints::tree::Node;

/// What the name of a checkpoint begins with.
pub(super) const PREFIX: &str = "global_step";

/// The checkpoints of a folder.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let named = numbered(folder, PREFIX);
    let ours = |f: Node<'_>| f.file_names().any(|n| n.ends_with("_states.pt"));
    let tracker = Tracker::read(folder, "latest", |says| after(says, PREFIX));
    if tracker.is_none() && !named.iter().any(|(_, f)| ours(*f)) {
        return None;
    }
    let found = named.into_iter().map(|(n, f)| look(n, f)).collect();
    Group::of("deepspeed", found, tracker)
}

fn look(number: u64, folder: Node<'_>) -> Found<'_> {
    let mut found = Found::folder(number, folder);
    found.shards = shards(folder);
    found.faults = faults(folder);
    found.optimizer = optimizer(folder);
    found
}

/// What is missing in a folder that DeepSpeed wrote.
pub(super) fn faults(folder: Node<'_>) -> Vec<String> {
    let ranked = |n: &&str| n.contains("mp_rank_") && n.ends_with("_states.pt");
    let layer = |n: &&str| n.starts_with("layer_");
    let model = folder
        .file_names()
        .any(|n| n.ends_with("model_states.pt") && !n.starts_with("layer_"));
    let mut faults = gaps(folder.file_names().filter(ranked).filter(|n| !layer(n)));
    if !model {
        faults.push("no mp_rank_*_model_states.pt".to_owned());
    }
    faults
}

/// Without `ZeRO` the optimizer state is in the model's file, and the names do not tell.
pub(super) fn optimizer(folder: Node<'_>) -> Option<bool> {
    folder
        .file_names()
        .any(|n| n.ends_with("optim_states.pt"))
        .then_some(true)
}

#[cfg(test)]
mod tests {
    use crate::checkpoints::folder::tests::{Made, scan};

    #[test]
    fn zero_whole_and_torn() {
        let made = Made::new();
        for step in [100, 200, 300] {
            let at = format!("global_step{step}");
            for model in 0..2 {
                made.file(&format!("{at}/mp_rank_{model:02}_model_states.pt"), 500);
                for data in 0..4 {
                    let name =
                        format!("bf16_zero_pp_rank_{data}_mp_rank_{model:02}_optim_states.pt");
                    made.file(&format!("{at}/{name}"), 900);
                }
            }
        }
        made.text("latest", "global_step300");
        made.text("zero_to_fp32.py", "#!/usr/bin/env python\n");
        let found = scan(&made);
        assert_eq!((found.steps(), found.torn()), (vec![100, 200, 300], vec![]));
        assert_eq!(found.checkpoints[0].layout, Some("deepspeed"));
        assert_eq!(found.checkpoints[0].optimizer, Some(true));
        assert_eq!(found.checkpoints[0].data_position, None);
        assert_eq!(found.warnings, [""; 0]);
        made.remove("global_step200/bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt");
        made.remove("global_step300/mp_rank_01_model_states.pt");
        made.text("latest", "global_step400");
        let found = scan(&made);
        assert_eq!(found.torn(), [200, 300]);
        assert!(
            found.why(200).starts_with("only 7 of 8"),
            "{}",
            found.why(200)
        );
        assert!(
            found.why(300).contains("mp_rank_01_model"),
            "{}",
            found.why(300)
        );
        assert!(found.warned("global_step400, which is not there"));
    }

    #[test]
    fn pipeline_of_gpt_neox() {
        let made = Made::new();
        for step in [10, 20] {
            let at = format!("global_step{step}");
            for layer in [0, 2, 3] {
                made.file(
                    &format!("{at}/layer_{layer:02}-model_00-model_states.pt"),
                    300,
                );
            }
            made.file(&format!("{at}/mp_rank_00_model_states.pt"), 40);
        }
        assert_eq!(scan(&made).torn(), [0; 0]);
        assert_eq!(scan(&made).checkpoints[0].optimizer, None);
        made.remove("global_step20/layer_02-model_00-model_states.pt");
        assert_eq!(scan(&made).torn(), [20]);
    }
}
