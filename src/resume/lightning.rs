//! Lightning: `ckpt_path` (rules/SOURCES.md).

use crate::resume::shared::{back, cannot_skip};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let command = format!("trainer.fit(model, ckpt_path=\"{}\")", path(request));
    let mut caveats = vec![
        "within an epoch the data position comes back only if the loader has state_dict and load_state_dict of its own"
            .to_owned(),
    ];
    cannot_skip("Lightning", request, &ways(request), &mut caveats);
    if request.skip.is_some() {
        caveats.push("SpikeDetection writes a skip_batches.json, but nothing reads it".to_owned());
    }
    Resume {
        survives: "the data position survives what the state_dict of your own loader survives"
            .to_owned(),
        caveats,
        ..back(framework, "global steps", command)
    }
}

fn path(request: &Request) -> String {
    match request.path.as_deref().map(|p| p.trim_end_matches('/')) {
        Some(p) if p.contains(".ckpt") || p.contains("step=") => p.to_owned(),
        p => format!(
            "{}/<epoch=E-step={}.ckpt>",
            p.unwrap_or("$CHECKPOINT_DIR"),
            request.checkpoint
        ),
    }
}

/// The numbers of the batches as `training_step` counts them, but for the epoch.
fn ways(request: &Request) -> String {
    let (first, last) = request.skip.unwrap_or_default();
    let batches = match request.micro_batches {
        Some(n) => format!(
            "batches {} to {}",
            first.saturating_sub(1) * n,
            (last * n).saturating_sub(1)
        ),
        None => format!(
            "batches {} * accumulate_grad_batches to {last} * accumulate_grad_batches - 1",
            first.saturating_sub(1)
        ),
    };
    format!(
        "a sampler that leaves the samples out, or training_step returning None for {batches}, counted from 0 since the \
         start of the run while batch_idx starts anew each epoch (not on several GPUs and not in 16 bit)"
    )
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("lightning", &skip()),
            r#"trainer.fit(model, ckpt_path="$CHECKPOINT_DIR/<epoch=E-step=1000.ckpt>")
global steps; cannot skip; the data position survives what the state_dict of your own loader survives
- within an epoch the data position comes back only if the loader has state_dict and load_state_dict of its own
- Lightning cannot skip batches: the command only goes back, and the batches of updates 1015 to 1040 (counted from 1) are read again; ways out: a sampler that leaves the samples out, or training_step returning None for batches 4056 to 4159, counted from 0 since the start of the run while batch_idx starts anew each epoch (not on several GPUs and not in 16 bit)
- SpikeDetection writes a skip_batches.json, but nothing reads it
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("lightning", &rollback()),
            r#"trainer.fit(model, ckpt_path="$CHECKPOINT_DIR/<epoch=E-step=1000.ckpt>")
global steps; cannot skip; the data position survives what the state_dict of your own loader survives
- within an epoch the data position comes back only if the loader has state_dict and load_state_dict of its own
"#
        );
    }

    #[test]
    fn a_skip_whose_accumulation_is_not_known() {
        assert_eq!(
            told(
                "lightning",
                &Request {
                    micro_batches: None,
                    path: Some("/ckpt/epoch=0-step=1000.ckpt".to_owned()),
                    ..skip()
                }
            ),
            r#"trainer.fit(model, ckpt_path="/ckpt/epoch=0-step=1000.ckpt")
global steps; cannot skip; the data position survives what the state_dict of your own loader survives
- within an epoch the data position comes back only if the loader has state_dict and load_state_dict of its own
- Lightning cannot skip batches: the command only goes back, and the batches of updates 1015 to 1040 (counted from 1) are read again; ways out: a sampler that leaves the samples out, or training_step returning None for batches 1014 * accumulate_grad_batches to 1040 * accumulate_grad_batches - 1, counted from 0 since the start of the run while batch_idx starts anew each epoch (not on several GPUs and not in 16 bit)
- SpikeDetection writes a skip_batches.json, but nothing reads it
"#
        );
    }
}
