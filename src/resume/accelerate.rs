//! Accelerate: `load_state` and `skip_first_batches` (rules/SOURCES.md).

use crate::resume::shared::{Jump, back, prefix};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let path = request.path.as_deref().unwrap_or("$CHECKPOINT_DIR");
    let until = request.skip.map_or(request.checkpoint, |(_, last)| last);
    let command = format!(
        "accelerator.load_state(\"{path}\")\n{}",
        pass_over(request, until)
    );
    let mut caveats = vec![
        "the state holds no data position: the batches before the checkpoint are passed over by count, those of one rank, \
         within the epoch; start the loop in that epoch, and use the shortened loader for it alone"
            .to_owned(),
        "with use_stateful_dataloader the loader may come back with a position of its own (not verified): count from there"
            .to_owned(),
        "before PR #4071 (2026-06) the sampler starts again from epoch 0 after skip_first_batches".to_owned(),
    ];
    if request.micro_batches.is_none() {
        caveats.push("the gradient accumulation is not known from the log: it is multiplied in when the line runs".to_owned());
    }
    prefix(request, &mut caveats);
    Resume {
        survives: "the data position does not survive a change of world size, per-device batch size or gradient \
                   accumulation"
            .to_owned(),
        can_skip: true,
        price: Jump::of(request).map(|j| j.lost),
        caveats,
        ..back(framework, "batches of one rank", command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    let (_, last) = request.skip?;
    Some(pass_over(request, last))
}

/// Passes over the batches of so many updates.
fn pass_over(request: &Request, updates: u64) -> String {
    let batches = request.micro_batches.map_or_else(
        || format!("{updates} * accelerator.gradient_accumulation_steps"),
        |n| (updates * n).to_string(),
    );
    format!(
        "train_dataloader = accelerator.skip_first_batches(train_dataloader, {batches} % len(train_dataloader))"
    )
}

#[cfg(test)]
mod tests {
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("accelerate", &skip()),
            r#"accelerator.load_state("$CHECKPOINT_DIR")
train_dataloader = accelerator.skip_first_batches(train_dataloader, 4160 % len(train_dataloader))
batches of one rank; can skip, price 14; the data position does not survive a change of world size, per-device batch size or gradient accumulation
- the state holds no data position: the batches before the checkpoint are passed over by count, those of one rank, within the epoch; start the loop in that epoch, and use the shortened loader for it alone
- with use_stateful_dataloader the loader may come back with a position of its own (not verified): count from there
- before PR #4071 (2026-06) the sampler starts again from epoch 0 after skip_first_batches
- the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, 14 good batches before 1015 with them; a checkpoint closer to 1015 costs less
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("accelerate", &rollback()),
            r#"accelerator.load_state("$CHECKPOINT_DIR")
train_dataloader = accelerator.skip_first_batches(train_dataloader, 1000 * accelerator.gradient_accumulation_steps % len(train_dataloader))
batches of one rank; can skip; the data position does not survive a change of world size, per-device batch size or gradient accumulation
- the state holds no data position: the batches before the checkpoint are passed over by count, those of one rank, within the epoch; start the loop in that epoch, and use the shortened loader for it alone
- with use_stateful_dataloader the loader may come back with a position of its own (not verified): count from there
- before PR #4071 (2026-06) the sampler starts again from epoch 0 after skip_first_batches
- the gradient accumulation is not known from the log: it is multiplied in when the line runs
"#
        );
    }
}
