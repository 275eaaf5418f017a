//! OLMo v1: `--load_path` and `--fast_forward_batches` (rollback-and-resume.md §2).

use crate::resume::shared::{Jump, back, prefix, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let path = whole(request, "step", &format!("step{}", request.checkpoint));
    let mut command = format!("... --load_path={path}");
    let mut caveats = Vec::new();
    if let Some(forward) = forward(request) {
        command = format!("{command} {forward}");
        caveats.push(
            "take the flag off at the next restart: it is added again each time a checkpoint is loaded, and the \
             checkpoints hold the position that it led to"
                .to_owned(),
        );
        caveats.push("the step counter is not moved: from here on steps and data part".to_owned());
        caveats.push("data-indices/rankR.tsv.gz tells which samples a step read, if save_data_indices was on".to_owned());
    }
    prefix(request, &mut caveats);
    Resume {
        survives: "the data position survives a change of data-parallel size with the same global batch size".to_owned(),
        can_skip: true,
        price: Jump::of(request).map(|j| j.lost),
        caveats,
        ..back(framework, "batches", command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    forward(request)
}

fn forward(request: &Request) -> Option<String> {
    let jump = Jump::of(request)?;
    Some(format!("--fast_forward_batches={}", jump.batches))
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("olmo", &skip()),
            "... --load_path=$CHECKPOINT_DIR/step1000 --fast_forward_batches=40
batches; can skip, price 14; the data position survives a change of data-parallel size with the same global batch size
- take the flag off at the next restart: it is added again each time a checkpoint is loaded, and the checkpoints hold the position that it led to
- the step counter is not moved: from here on steps and data part
- data-indices/rankR.tsv.gz tells which samples a step read, if save_data_indices was on
- the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, 14 good batches before 1015 with them; a checkpoint closer to 1015 costs less
"
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("olmo", &rollback()),
            "... --load_path=$CHECKPOINT_DIR/step1000
batches; can skip; the data position survives a change of data-parallel size with the same global batch size
"
        );
    }

    #[test]
    fn a_skip_that_begins_at_the_checkpoint() {
        assert_eq!(
            told("olmo", &Request { skip: Some((1001, 1040)), earlier: vec!["905-907".to_owned()], ramp: true, ..skip() }),
            "... --load_path=$CHECKPOINT_DIR/step1000 --fast_forward_batches=40
batches; can skip, price 0; the data position survives a change of data-parallel size with the same global batch size
- take the flag off at the next restart: it is added again each time a checkpoint is loaded, and the checkpoints hold the position that it led to
- the step counter is not moved: from here on steps and data part
- data-indices/rankR.tsv.gz tells which samples a step read, if save_data_indices was on
- the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, no good batch is lost
- the batch size changes between the checkpoint and the end of the range: see that the jump ends at the sample where the range ends
- earlier skips (905-907): those before the checkpoint are part of its data position, the batches of any after it must be added to the jump
"
        );
    }
}
