//! Hugging Face Trainer: `resume_from_checkpoint` (rules/SOURCES.md).

use crate::resume::shared::{back, cannot_skip, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let name = format!("checkpoint-{}", request.checkpoint);
    let command = format!(
        "trainer.train(resume_from_checkpoint=\"{}\")",
        whole(request, "checkpoint-", &name)
    );
    let mut caveats = vec![
        "trainer_state.json brings back its train_batch_size (transformers#43718): do not change the batch size".to_owned(),
        "an iterable dataset is read through up to the checkpoint, which can take hours".to_owned(),
        "with accelerate before PR #4071 (2026-06) the order starts again from epoch 0 after the batches that are passed \
         over"
            .to_owned(),
    ];
    cannot_skip(
        "the Trainer",
        request,
        "a sampler of your own that leaves the samples out, or another data seed; ignore_data_skip=True only starts the \
         epoch's data over",
        &mut caveats,
    );
    Resume {
        survives: "the data position does not survive a change of world size, per-device batch size or gradient \
                   accumulation"
            .to_owned(),
        caveats,
        ..back(framework, "steps", command)
    }
}

#[cfg(test)]
mod tests {
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("hf-trainer", &skip()),
            r#"trainer.train(resume_from_checkpoint="$CHECKPOINT_DIR/checkpoint-1000")
steps; cannot skip; the data position does not survive a change of world size, per-device batch size or gradient accumulation
- trainer_state.json brings back its train_batch_size (transformers#43718): do not change the batch size
- an iterable dataset is read through up to the checkpoint, which can take hours
- with accelerate before PR #4071 (2026-06) the order starts again from epoch 0 after the batches that are passed over
- the Trainer cannot skip batches: the command only goes back, and the batches of updates 1015 to 1040 (counted from 1) are read again; ways out: a sampler of your own that leaves the samples out, or another data seed; ignore_data_skip=True only starts the epoch's data over
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("hf-trainer", &rollback()),
            r#"trainer.train(resume_from_checkpoint="$CHECKPOINT_DIR/checkpoint-1000")
steps; cannot skip; the data position does not survive a change of world size, per-device batch size or gradient accumulation
- trainer_state.json brings back its train_batch_size (transformers#43718): do not change the batch size
- an iterable dataset is read through up to the checkpoint, which can take hours
- with accelerate before PR #4071 (2026-06) the order starts again from epoch 0 after the batches that are passed over
"#
        );
    }
}
