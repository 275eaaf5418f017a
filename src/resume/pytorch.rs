//! A training loop of one's own in PyTorch.

use crate::resume::shared::{back, in_force, joined, repeated};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let load = format!(
        "checkpoint = torch.load(\"{}\", weights_only=False)\n\
         model.load_state_dict(checkpoint[\"model\"])\n\
         optimizer.load_state_dict(checkpoint[\"optimizer\"])\n\
         scheduler.load_state_dict(checkpoint[\"scheduler\"])",
        path(request)
    );
    let to = request.micro_batches.map_or_else(
        || format!("{} * accumulation", request.checkpoint),
        |n| (request.checkpoint * n).to_string(),
    );
    let mut caveats = vec![format!(
        "the loader must stand at batch {to}, counted from 0: if its position is not saved, draw that many batches first; \
         a loader that draws at random without its saved state reads other data after the restart, there is nothing to skip then"
    )];
    let (command, more) = with_loop(load, request);
    caveats.extend(more);
    Resume {
        base: Some(1),
        survives: "what the data position survives is not known: keep the number of ranks, the workers of the loader, the \
                   batch size and the seed"
            .to_owned(),
        can_skip: true,
        caveats,
        ..back(framework, "updates", command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    request.skip?;
    lines(request)
}

pub(super) fn path(request: &Request) -> String {
    request.path.clone().unwrap_or_else(|| {
        format!(
            "$CHECKPOINT_DIR/<checkpoint of {} updates>",
            request.checkpoint
        )
    })
}

/// The loop after what loads the state, and what is to be said of it.
pub(super) fn with_loop(load: String, request: &Request) -> (String, Vec<String>) {
    let Some(lines) = lines(request) else {
        return (load, Vec::new());
    };
    let mut caveats = vec![
        "the loop is yours: micro_batches are those that one update reads on one rank; the left-out ones are drawn all the \
         same, on all ranks, and update counts on; step the scheduler for them or not, but know which"
            .to_owned(),
    ];
    repeated(request, 1, &mut caveats);
    (format!("{load}\n{lines}"), caveats)
}

fn lines(request: &Request) -> Option<String> {
    let ranges = in_force(request, 1);
    let pairs = joined(&ranges, ", ", |(first, last)| format!("({first}, {last})"));
    let each = request
        .micro_batches
        .map_or_else(|| "accumulation".to_owned(), |n| n.to_string());
    (!ranges.is_empty()).then(|| {
        format!(
            "for update in range({}, total_updates + 1):\n    \
             micro_batches = [next(batches) for _ in range({each})]\n    \
             if any(first <= update <= last for first, last in [{pairs}]):\n        \
             continue",
            request.checkpoint + 1
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("pytorch", &skip()),
            r#"checkpoint = torch.load("$CHECKPOINT_DIR/<checkpoint of 1000 updates>", weights_only=False)
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
scheduler.load_state_dict(checkpoint["scheduler"])
for update in range(1001, total_updates + 1):
    micro_batches = [next(batches) for _ in range(4)]
    if any(first <= update <= last for first, last in [(1015, 1040)]):
        continue
updates from 1; can skip; what the data position survives is not known: keep the number of ranks, the workers of the loader, the batch size and the seed
- the loader must stand at batch 4000, counted from 0: if its position is not saved, draw that many batches first; a loader that draws at random without its saved state reads other data after the restart, there is nothing to skip then
- the loop is yours: micro_batches are those that one update reads on one rank; the left-out ones are drawn all the same, on all ranks, and update counts on; step the scheduler for them or not, but know which
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("pytorch", &rollback()),
            r#"checkpoint = torch.load("$CHECKPOINT_DIR/<checkpoint of 1000 updates>", weights_only=False)
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
scheduler.load_state_dict(checkpoint["scheduler"])
updates from 1; can skip; what the data position survives is not known: keep the number of ranks, the workers of the loader, the batch size and the seed
- the loader must stand at batch 1000 * accumulation, counted from 0: if its position is not saved, draw that many batches first; a loader that draws at random without its saved state reads other data after the restart, there is nothing to skip then
"#
        );
    }

    #[test]
    fn a_skip_with_earlier_ones() {
        assert_eq!(
            told(
                "pytorch",
                &Request {
                    earlier: vec!["905-907".to_owned()],
                    micro_batches: None,
                    ..skip()
                }
            ),
            r#"checkpoint = torch.load("$CHECKPOINT_DIR/<checkpoint of 1000 updates>", weights_only=False)
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
scheduler.load_state_dict(checkpoint["scheduler"])
for update in range(1001, total_updates + 1):
    micro_batches = [next(batches) for _ in range(accumulation)]
    if any(first <= update <= last for first, last in [(905, 907), (1015, 1040)]):
        continue
updates from 1; can skip; what the data position survives is not known: keep the number of ranks, the workers of the loader, the batch size and the seed
- the loader must stand at batch 1000 * accumulation, counted from 0: if its position is not saved, draw that many batches first; a loader that draws at random without its saved state reads other data after the restart, there is nothing to skip then
- the loop is yours: micro_batches are those that one update reads on one rank; the left-out ones are drawn all the same, on all ranks, and update counts on; step the scheduler for them or not, but know which
- earlier skips stay in force and are repeated in the list: 905-907
"#
        );
    }
}
