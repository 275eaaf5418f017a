//! NeMo 2: `AutoResume` with a path, and the sample position in the checkpoint (rules/SOURCES.md).

use crate::resume::shared::{Jump, back, prefix};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    if let Some(other) = other_generation(framework) {
        let mut out = crate::resume::neutral(framework.label(), request);
        out.caveats.insert(0, other.to_owned());
        return out;
    }
    let path = path(request);
    let mut command = format!("AutoResume(resume_from_path=\"{path}\")");
    let mut caveats = vec![
        "give the path: in automatic mode the checkpoint named -last wins, even if it is the poisoned one".to_owned(),
    ];
    if let Some(edit) = edit(request) {
        command = format!("{command}\n{edit}");
        caveats.push(
            "there is no option for it: PreTrainingDataModule(init_consumed_samples=...) is overwritten by the \
             consumed_samples of the checkpoint when that is loaded, so the value there must be edited"
                .to_owned(),
        );
    }
    prefix(request, &mut caveats);
    Resume {
        survives: "the data position survives a change of data-parallel size: it counts samples of all ranks".to_owned(),
        can_skip: true,
        price: Jump::of(request).map(|j| j.lost),
        caveats,
        ..back(framework, "samples", command)
    }
}

pub(super) fn fragment(framework: &Framework, request: &Request) -> Option<String> {
    if other_generation(framework).is_some() {
        return None;
    }
    edit(request)
}

/// What stands here holds for the generation in between.
fn other_generation(framework: &Framework) -> Option<&'static str> {
    let major = framework.version.as_deref()?.split('.').next()?;
    match major.parse::<u64>().ok()? {
        0 | 1 => Some("NeMo 1 has other commands than NeMo 2"),
        2 => None,
        _ => Some("NeMo 3 trains no language models any more: its successor is megatron-bridge"),
    }
}

/// NeMo's names hold a loss, so a path that is not known cannot be made up.
fn path(request: &Request) -> String {
    match request.path.as_deref().map(|p| p.trim_end_matches('/')) {
        Some(p) if p.contains("step=") || p.contains("consumed_samples") => p.to_owned(),
        p => format!(
            "{}/<checkpoint of {} updates>",
            p.unwrap_or("$CHECKPOINT_DIR"),
            request.checkpoint
        ),
    }
}

fn edit(request: &Request) -> Option<String> {
    let jump = Jump::of(request)?;
    Some(match request.samples {
        Some((_, until)) => {
            format!("consumed_samples = {until}   # in the checkpoint, state of the data module")
        }
        None => format!(
            "consumed_samples += {}   # in the checkpoint, state of the data module",
            jump.in_samples("global_batch_size")
        ),
    })
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("nemo", &skip()),
            r#"AutoResume(resume_from_path="$CHECKPOINT_DIR/<checkpoint of 1000 updates>")
consumed_samples = 532480   # in the checkpoint, state of the data module
samples; can skip, price 14; the data position survives a change of data-parallel size: it counts samples of all ranks
- give the path: in automatic mode the checkpoint named -last wins, even if it is the poisoned one
- there is no option for it: PreTrainingDataModule(init_consumed_samples=...) is overwritten by the consumed_samples of the checkpoint when that is loaded, so the value there must be edited
- the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, 14 good batches before 1015 with them; a checkpoint closer to 1015 costs less
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("nemo", &rollback()),
            r#"AutoResume(resume_from_path="$CHECKPOINT_DIR/<checkpoint of 1000 updates>")
samples; can skip; the data position survives a change of data-parallel size: it counts samples of all ranks
- give the path: in automatic mode the checkpoint named -last wins, even if it is the poisoned one
"#
        );
    }

    #[test]
    fn a_skip_without_samples() {
        assert_eq!(
            told(
                "nemo@2.4",
                &Request {
                    samples: None,
                    path: Some(
                        "/ckpt/default--val=2.1-step=999-consumed_samples=512000.0".to_owned()
                    ),
                    ..skip()
                }
            ),
            r#"AutoResume(resume_from_path="/ckpt/default--val=2.1-step=999-consumed_samples=512000.0")
consumed_samples += 20480   # in the checkpoint, state of the data module
samples; can skip, price 14; the data position survives a change of data-parallel size: it counts samples of all ranks
- give the path: in automatic mode the checkpoint named -last wins, even if it is the poisoned one
- there is no option for it: PreTrainingDataModule(init_consumed_samples=...) is overwritten by the consumed_samples of the checkpoint when that is loaded, so the value there must be edited
- the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, 14 good batches before 1015 with them; a checkpoint closer to 1015 costs less
"#
        );
    }

    #[test]
    fn another_generation() {
        assert_eq!(
            told("nemo@1.23", &skip()),
            "
updates; cannot skip; what the data position survives is not known
- NeMo 1 has other commands than NeMo 2
- no command yet for nemo@1.23: load the checkpoint of 1000 updates with its optimizer, scheduler and loader state
- leave the samples out in the loader; check first whether this loader can skip at all and keeps its order after a restart
"
        );
    }
}
