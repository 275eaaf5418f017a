//! gpt-neox: the file `latest` (rules/SOURCES.md).

use crate::resume::shared::{back, cannot_skip, root};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let root = root(request, "global_step");
    let command = format!(
        "echo global_step{} > {root}/latest\n\"load\": \"{root}\"",
        request.checkpoint
    );
    let mut caveats =
        vec!["the checkpoint is chosen by the file latest: keep a copy of it".to_owned()];
    cannot_skip(
        "gpt-neox",
        request,
        "another seed of the data, or a sampler of your own; the position of the loader follows from the iteration \
         (times gradient accumulation, modulo its length) and cannot be moved alone",
        &mut caveats,
    );
    Resume {
        survives: "the data position survives only if gradient accumulation, micro-batch size and data-parallel layout \
                   stay"
            .to_owned(),
        caveats,
        ..back(framework, "iterations", command)
    }
}

#[cfg(test)]
mod tests {
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("gpt-neox", &skip()),
            r#"echo global_step1000 > $CHECKPOINT_DIR/latest
"load": "$CHECKPOINT_DIR"
iterations; cannot skip; the data position survives only if gradient accumulation, micro-batch size and data-parallel layout stay
- the checkpoint is chosen by the file latest: keep a copy of it
- gpt-neox cannot skip batches: the command only goes back, and the batches of updates 1015 to 1040 (counted from 1) are read again; ways out: another seed of the data, or a sampler of your own; the position of the loader follows from the iteration (times gradient accumulation, modulo its length) and cannot be moved alone
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("gpt-neox", &rollback()),
            r#"echo global_step1000 > $CHECKPOINT_DIR/latest
"load": "$CHECKPOINT_DIR"
iterations; cannot skip; the data position survives only if gradient accumulation, micro-batch size and data-parallel layout stay
- the checkpoint is chosen by the file latest: keep a copy of it
"#
        );
    }
}
