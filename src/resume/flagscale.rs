//! `FlagScale`: Megatron's way back, and one window of samples or iterations (rules/SOURCES.md).

use crate::resume::megatron::{SURVIVES, load};
use crate::resume::shared::back;
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let load = load(request);
    let mut caveats = Vec::new();
    let command = match window(request) {
        Some(window) => {
            skip_caveats(request, &mut caveats);
            format!("{load} {window}")
        }
        None => load,
    };
    earlier(request, &mut caveats);
    Resume {
        base: Some(0),
        survives: SURVIVES.to_owned(),
        can_skip: true,
        caveats,
        ..back(framework, unit(request), command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    window(request)
}

fn unit(request: &Request) -> &'static str {
    if request.samples.is_some() {
        "samples"
    } else {
        "iterations"
    }
}

/// By samples where the log has them: they mean the same whatever the loop counts from.
fn window(request: &Request) -> Option<String> {
    let (first, last) = request.skip?;
    Some(match request.samples {
        Some((from, until)) => format!("--skip-samples-range {from} {until}"),
        None => format!("--skip-iters-range {} {last}", first - 1),
    })
}

fn skip_caveats(request: &Request, caveats: &mut Vec<String>) {
    caveats.push(if request.samples.is_some() {
        "the range of samples is half-open and widened to whole batches".to_owned()
    } else {
        "--skip-iters-range is half-open and compared with the counter before it is increased, as read at 18bf354963: it \
         begins one below the printed iteration"
            .to_owned()
    });
    caveats.push("iterations and samples count on while skipping, the learning-rate scheduler is not stepped".to_owned());
    if request.ramp && request.samples.is_none() {
        caveats.push("the batch size changes between the checkpoint and the skipped range: keep the same ramp-up".to_owned());
    }
}

fn earlier(request: &Request, caveats: &mut Vec<String>) {
    if !request.earlier.is_empty() {
        caveats.push(format!(
            "FlagScale takes one range only, and earlier skips ({}) stay in force: go back to a checkpoint after them, or \
             name them with --iterations-to-skip, counted as in the Megatron-LM it is built on",
            request.earlier.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip_by_samples() {
        assert_eq!(
            told("flagscale", &skip()),
            "... --load $CHECKPOINT_DIR --ckpt-step 1000 --exit-on-missing-checkpoint --skip-samples-range 519168 532480
samples from 0; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
- the range of samples is half-open and widened to whole batches
- iterations and samples count on while skipping, the learning-rate scheduler is not stepped
"
        );
    }

    #[test]
    fn a_skip_by_iterations() {
        assert_eq!(
            told("flagscale", &Request { samples: None, ramp: true, earlier: vec!["905-907".to_owned()], ..skip() }),
            "... --load $CHECKPOINT_DIR --ckpt-step 1000 --exit-on-missing-checkpoint --skip-iters-range 1014 1040
iterations from 0; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
- --skip-iters-range is half-open and compared with the counter before it is increased, as read at 18bf354963: it begins one below the printed iteration
- iterations and samples count on while skipping, the learning-rate scheduler is not stepped
- the batch size changes between the checkpoint and the skipped range: keep the same ramp-up
- FlagScale takes one range only, and earlier skips (905-907) stay in force: go back to a checkpoint after them, or name them with --iterations-to-skip, counted as in the Megatron-LM it is built on
"
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("flagscale", &rollback()),
            "... --load $CHECKPOINT_DIR --ckpt-step 1000 --exit-on-missing-checkpoint
iterations from 0; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
"
        );
    }
}
