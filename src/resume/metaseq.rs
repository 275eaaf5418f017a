//! metaseq: `--restore-file` and `dataset.skip_batches` (rules/SOURCES.md).

use crate::resume::shared::{Range, back, dashed, earlier, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let name = format!("checkpoint_{}.pt", request.checkpoint);
    let path = whole(request, "checkpoint_", &name);
    let mut command = format!("... --restore-file {path}");
    let mut caveats = Vec::new();
    if let Some(skip) = skip(request) {
        command = format!("{command} {skip}");
    }
    if request.skip.is_some() || !request.earlier.is_empty() {
        skip_caveats(request, &mut caveats);
    }
    Resume {
        base: Some(1),
        survives: "what the data position survives is not known: keep the number of ranks and the batch size".to_owned(),
        can_skip: true,
        caveats,
        ..back(framework, "updates", command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    request.skip?;
    skip(request)
}

/// Earlier ranges that the loop comes by again; of two that begin together it knows only the later one.
fn again(request: &Request) -> Vec<Range> {
    let begin = request.skip.map_or(u64::MAX, |(first, _)| first);
    let mut again = earlier(request, 1).0;
    again.retain(|(first, _)| *first > request.checkpoint && *first < begin);
    again.sort_unstable();
    again
}

/// Not melted: the number of the first update says when, the length says how many.
fn skip(request: &Request) -> Option<String> {
    let mut ranges = again(request);
    ranges.extend(request.skip);
    (!ranges.is_empty()).then(|| format!("--skip-batches {}", dashed(&ranges, ",")))
}

fn skip_caveats(request: &Request, caveats: &mut Vec<String>) {
    if let Some((first, last)) = request.skip {
        caveats.push(format!(
            "when update {first} is due, {} batches are dropped while the count of updates stands still: the length of \
             the range counts, not its end",
            last - first + 1
        ));
        caveats.push("from here on the steps of the log no longer name the same data: later ranges must be recomputed".to_owned());
        caveats.push("in a configuration file the option is dataset.skip_batches".to_owned());
    }
    let again = again(request);
    if !again.is_empty() {
        caveats.push(format!(
            "earlier skips after the checkpoint are repeated: {}",
            dashed(&again, ", ")
        ));
    }
    if again.len() < request.earlier.len() {
        caveats.push(format!(
            "this run has skipped before ({}), and its steps may no longer name the data that a restart reads: recompute \
             the range from the samples that are read after the restart",
            request.earlier.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("metaseq", &skip()),
            "... --restore-file $CHECKPOINT_DIR/checkpoint_1000.pt --skip-batches 1015-1040
updates from 1; can skip; what the data position survives is not known: keep the number of ranks and the batch size
- when update 1015 is due, 26 batches are dropped while the count of updates stands still: the length of the range counts, not its end
- from here on the steps of the log no longer name the same data: later ranges must be recomputed
- in a configuration file the option is dataset.skip_batches
"
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("metaseq", &rollback()),
            "... --restore-file $CHECKPOINT_DIR/checkpoint_1000.pt
updates from 1; can skip; what the data position survives is not known: keep the number of ranks and the batch size
"
        );
    }

    #[test]
    fn a_skip_with_earlier_ones() {
        assert_eq!(
            told("metaseq", &Request { earlier: vec!["905-907".to_owned(), "1005-1008".to_owned()], ..skip() }),
            "... --restore-file $CHECKPOINT_DIR/checkpoint_1000.pt --skip-batches 1005-1008,1015-1040
updates from 1; can skip; what the data position survives is not known: keep the number of ranks and the batch size
- when update 1015 is due, 26 batches are dropped while the count of updates stands still: the length of the range counts, not its end
- from here on the steps of the log no longer name the same data: later ranges must be recomputed
- in a configuration file the option is dataset.skip_batches
- earlier skips after the checkpoint are repeated: 1005-1008
- this run has skipped before (905-907, 1005-1008), and its steps may no longer name the data that a restart reads: recompute the range from the samples that are read after the restart
"
        );
    }
}
