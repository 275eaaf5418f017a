//! torchtitan: `--checkpoint.load_step` (rules/SOURCES.md).

use crate::resume::shared::{back, cannot_skip};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let command = format!("... --checkpoint.load_step {}", request.checkpoint);
    let mut caveats = vec![
        format!(
            "keep_latest_k is 10 unless set: see that step-{} still exists and is not one of the poisoned ones",
            request.checkpoint
        ),
        "the state of the random generators is not saved".to_owned(),
    ];
    cannot_skip(
        "torchtitan",
        request,
        "--checkpoint.exclude_from_loading dataloader with another order of the data, or a dataset that leaves the \
         samples out (excluding optimizer asks for excluding lr_scheduler too)",
        &mut caveats,
    );
    Resume {
        survives: "the data position does not survive a change of data-parallel size: it is refused, and before PR #816 \
                   the state of some ranks was dropped without a word"
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
            told("torchtitan", &skip()),
            "... --checkpoint.load_step 1000
steps; cannot skip; the data position does not survive a change of data-parallel size: it is refused, and before PR #816 the state of some ranks was dropped without a word
- keep_latest_k is 10 unless set: see that step-1000 still exists and is not one of the poisoned ones
- the state of the random generators is not saved
- torchtitan cannot skip batches: the command only goes back, and the batches of updates 1015 to 1040 (counted from 1) are read again; ways out: --checkpoint.exclude_from_loading dataloader with another order of the data, or a dataset that leaves the samples out (excluding optimizer asks for excluding lr_scheduler too)
"
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("torchtitan", &rollback()),
            "... --checkpoint.load_step 1000
steps; cannot skip; the data position does not survive a change of data-parallel size: it is refused, and before PR #816 the state of some ranks was dropped without a word
- keep_latest_k is 10 unless set: see that step-1000 still exists and is not one of the poisoned ones
- the state of the random generators is not saved
"
        );
    }
}
