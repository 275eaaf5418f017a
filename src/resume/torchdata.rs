//! torchdata's `StatefulDataLoader` in a loop of one's own (rules/SOURCES.md).

use crate::resume::pytorch::{path, with_loop};
use crate::resume::shared::back;
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let load = format!(
        "loader.load_state_dict(torch.load(\"{}\", weights_only=False)[\"loader\"])   # one state for each rank\n\
         batches = iter(loader)",
        path(request)
    );
    let (command, mut caveats) = with_loop(load, request);
    caveats
        .push("a dataset without state of its own is read through up to the checkpoint".to_owned());
    Resume {
        base: Some(1),
        survives: "the data position does not survive a change of the number of ranks or of num_workers: each rank's \
                   loader has its own state"
            .to_owned(),
        can_skip: true,
        caveats,
        ..back(framework, "updates", command)
    }
}

pub(super) fn fragment(framework: &Framework, request: &Request) -> Option<String> {
    crate::resume::pytorch::fragment(framework, request)
}

#[cfg(test)]
mod tests {
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("torchdata", &skip()),
            r#"loader.load_state_dict(torch.load("$CHECKPOINT_DIR/<checkpoint of 1000 updates>", weights_only=False)["loader"])   # one state for each rank
batches = iter(loader)
for update in range(1001, total_updates + 1):
    micro_batches = [next(batches) for _ in range(4)]
    if any(first <= update <= last for first, last in [(1015, 1040)]):
        continue
updates from 1; can skip; the data position does not survive a change of the number of ranks or of num_workers: each rank's loader has its own state
- the loop is yours: micro_batches are those that one update reads on one rank; the left-out ones are drawn all the same, on all ranks, and update counts on; step the scheduler for them or not, but know which
- a dataset without state of its own is read through up to the checkpoint
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("torchdata", &rollback()),
            r#"loader.load_state_dict(torch.load("$CHECKPOINT_DIR/<checkpoint of 1000 updates>", weights_only=False)["loader"])   # one state for each rank
batches = iter(loader)
updates from 1; can skip; the data position does not survive a change of the number of ranks or of num_workers: each rank's loader has its own state
- a dataset without state of its own is read through up to the checkpoint
"#
        );
    }
}
