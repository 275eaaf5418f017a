//! Megatron-Bridge: `checkpoint.ckpt_step` and `train.iterations_to_skip` (rules/SOURCES.md).

use crate::resume::megatron::{SURVIVES, scheduler};
use crate::resume::shared::{Range, back, in_force, joined, repeated, root};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let load = format!(
        "... checkpoint.load={} checkpoint.ckpt_step={}",
        root(request, "iter_"),
        request.checkpoint
    );
    let lists = lists(request);
    let mut caveats = Vec::new();
    if !lists.is_empty() {
        skip_caveats(request, &mut caveats);
    }
    let lines: Vec<String> = lists.iter().map(|list| format!("{load} {list}")).collect();
    let command = if lines.is_empty() {
        load
    } else {
        lines.join("\n")
    };
    Resume {
        survives: SURVIVES.to_owned(),
        can_skip: true,
        caveats,
        ..back(framework, "iterations", command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    request.skip.map(|_| lists(request).join("\n"))
}

/// Every version that was read counts from 0, yet the option's own description says 1: both are given.
fn lists(request: &Request) -> Vec<String> {
    let ranges = in_force(request, 1);
    if ranges.is_empty() {
        return Vec::new();
    }
    vec![
        format!(
            "{}   # train.py tests the step before it is increased (031e7de6)",
            list(&ranges, 0)
        ),
        format!("{}   # it tests the step after", list(&ranges, 1)),
    ]
}

fn list(ranges: &[Range], base: u64) -> String {
    let numbers = joined(ranges, ",", |(first, last)| {
        format!("$(seq -s, {} {})", first + base - 1, last + base - 1)
    });
    format!("\"train.iterations_to_skip=[{numbers}]\"")
}

fn skip_caveats(request: &Request, caveats: &mut Vec<String>) {
    caveats.push(
        "the installed version decides by one which batches are skipped: 031e7de6 counts from 0, while its configuration \
         class describes the field as counting from 1; look up iterations_to_skip in megatron/bridge/training/train.py \
         and take the line that fits"
            .to_owned(),
    );
    caveats.push(
        "the right batches are skipped only if global batch size, seed, sequence length, split, tokenizer and number of \
         samples are unchanged; dataloader_type \"batch\" takes one item for each skip, and Energon refuses another \
         data-parallel size since PR #5637 (2026-08), before which it dropped state without a word"
            .to_owned(),
    );
    scheduler(caveats);
    if request.ramp {
        caveats.push("the batch size changes between the checkpoint and the skipped range: keep the same ramp-up".to_owned());
    }
    repeated(request, 1, caveats);
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("megatron-bridge", &skip()),
            r#"... checkpoint.load=$CHECKPOINT_DIR checkpoint.ckpt_step=1000 "train.iterations_to_skip=[$(seq -s, 1014 1039)]"   # train.py tests the step before it is increased (031e7de6)
... checkpoint.load=$CHECKPOINT_DIR checkpoint.ckpt_step=1000 "train.iterations_to_skip=[$(seq -s, 1015 1040)]"   # it tests the step after
iterations; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
- the installed version decides by one which batches are skipped: 031e7de6 counts from 0, while its configuration class describes the field as counting from 1; look up iterations_to_skip in megatron/bridge/training/train.py and take the line that fits
- the right batches are skipped only if global batch size, seed, sequence length, split, tokenizer and number of samples are unchanged; dataloader_type "batch" takes one item for each skip, and Energon refuses another data-parallel size since PR #5637 (2026-08), before which it dropped state without a word
- the learning-rate scheduler is not stepped while batches are skipped: the rate lags the samples from then on, until a restart with --override-opt-param-scheduler makes it jump and takes its maximum and minimum from the command line
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("megatron-bridge", &rollback()),
            "... checkpoint.load=$CHECKPOINT_DIR checkpoint.ckpt_step=1000
iterations; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
"
        );
    }

    #[test]
    fn a_skip_with_earlier_ones() {
        assert_eq!(
            told(
                "megatron-bridge",
                &Request {
                    earlier: vec!["1005-1006".to_owned()],
                    ramp: true,
                    ..skip()
                }
            ),
            r#"... checkpoint.load=$CHECKPOINT_DIR checkpoint.ckpt_step=1000 "train.iterations_to_skip=[$(seq -s, 1004 1005),$(seq -s, 1014 1039)]"   # train.py tests the step before it is increased (031e7de6)
... checkpoint.load=$CHECKPOINT_DIR checkpoint.ckpt_step=1000 "train.iterations_to_skip=[$(seq -s, 1005 1006),$(seq -s, 1015 1040)]"   # it tests the step after
iterations; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
- the installed version decides by one which batches are skipped: 031e7de6 counts from 0, while its configuration class describes the field as counting from 1; look up iterations_to_skip in megatron/bridge/training/train.py and take the line that fits
- the right batches are skipped only if global batch size, seed, sequence length, split, tokenizer and number of samples are unchanged; dataloader_type "batch" takes one item for each skip, and Energon refuses another data-parallel size since PR #5637 (2026-08), before which it dropped state without a word
- the learning-rate scheduler is not stepped while batches are skipped: the rate lags the samples from then on, until a restart with --override-opt-param-scheduler makes it jump and takes its maximum and minimum from the command line
- the batch size changes between the checkpoint and the skipped range: keep the same ramp-up
- earlier skips stay in force and are repeated in the list: 1005-1006
"#
        );
    }
}
