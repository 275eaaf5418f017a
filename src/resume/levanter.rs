//! levanter: `--trainer.load_checkpoint_path` (rules/SOURCES.md).

use crate::resume::shared::{back, cannot_skip, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    // Named after the step that was finished last, which levanter counts from 0.
    let name = format!("step-{}", request.checkpoint.saturating_sub(1));
    let path = whole(request, "step-", &name);
    let command = format!("... --trainer.load_checkpoint_path {path}");
    let mut caveats = vec![format!(
        "levanter counts steps from 0 and names a checkpoint after the last finished one: {name} holds {} updates",
        request.checkpoint
    )];
    cannot_skip(
        "levanter",
        request,
        "another data seed or permutation, or another step in the checkpoint: the data are a function of the step alone; \
         optimizer.skip_bad_steps leaves out by loss, not by place",
        &mut caveats,
    );
    Resume {
        survives: "the data position survives a change of data-parallel size: it is a function of the step".to_owned(),
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
            told("levanter", &skip()),
            "... --trainer.load_checkpoint_path $CHECKPOINT_DIR/step-999
steps; cannot skip; the data position survives a change of data-parallel size: it is a function of the step
- levanter counts steps from 0 and names a checkpoint after the last finished one: step-999 holds 1000 updates
- levanter cannot skip batches: the command only goes back, and the batches of updates 1015 to 1040 (counted from 1) are read again; ways out: another data seed or permutation, or another step in the checkpoint: the data are a function of the step alone; optimizer.skip_bad_steps leaves out by loss, not by place
"
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("levanter", &rollback()),
            "... --trainer.load_checkpoint_path $CHECKPOINT_DIR/step-999
steps; cannot skip; the data position survives a change of data-parallel size: it is a function of the step
- levanter counts steps from 0 and names a checkpoint after the last finished one: step-999 holds 1000 updates
"
        );
    }
}
