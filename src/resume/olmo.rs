//! `OLMo` v1: `--load_path` and `--fast_forward_batches` (rules/SOURCES.md); and what is only called olmo.

use crate::resume::olmo_core;
use crate::resume::shared::{Jump, back, prefix, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let v1 = v1(framework, request);
    if framework.name == "olmo-v1" {
        return v1;
    }
    let core = olmo_core::resume(framework, request);
    either(v1, core)
}

/// The logs of `OLMo` v1 and of `OLMo-core` look the same.
fn either(v1: Resume, core: Resume) -> Resume {
    let named = |command: &Option<String>, name: &str| {
        format!("{}   # {name}", command.as_deref().unwrap_or_default())
    };
    let command = format!(
        "{}\n{}",
        named(&v1.command, "OLMo v1"),
        named(&core.command, "OLMo-core")
    );
    let mut caveats = vec![
        "OLMo v1 and OLMo-core go back in ways of their own: name it with --framework olmo-v1 or olmo-core, or take the \
         line for yours"
            .to_owned(),
    ];
    caveats.extend(v1.caveats.into_iter().map(|c| format!("OLMo v1: {c}")));
    caveats.extend(core.caveats.into_iter().map(|c| format!("OLMo-core: {c}")));
    Resume {
        framework: v1.framework,
        command: Some(command),
        caveats,
        unit: "batches or steps",
        base: None,
        survives: format!("OLMo v1: {}; OLMo-core: {}", v1.survives, core.survives),
        can_skip: true,
        price: v1.price,
    }
}

fn v1(framework: &Framework, request: &Request) -> Resume {
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

pub(super) fn fragment(framework: &Framework, request: &Request) -> Option<String> {
    let forward = forward(request)?;
    if framework.name == "olmo-v1" {
        return Some(forward);
    }
    let steps = olmo_core::fragment(framework, request)?;
    Some(format!("{forward}   # OLMo v1\n{steps}   # OLMo-core"))
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
            told("olmo-v1", &skip()),
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
            told("olmo-v1", &rollback()),
            "... --load_path=$CHECKPOINT_DIR/step1000
batches; can skip; the data position survives a change of data-parallel size with the same global batch size
"
        );
    }

    #[test]
    fn a_skip_that_may_be_of_either() {
        assert_eq!(
            told("olmo", &skip()),
            r#"... --load_path=$CHECKPOINT_DIR/step1000 --fast_forward_batches=40   # OLMo v1
TrainerConfig(..., load_path="$CHECKPOINT_DIR/step1000", load_strategy=LoadStrategy.always, steps_to_skip=[StepSkipRange(start=1015, stop=1041)])   # OLMo-core
batches or steps; can skip, price 14; OLMo v1: the data position survives a change of data-parallel size with the same global batch size; OLMo-core: the data position survives a change of data-parallel size, and of the batch size by a whole factor
- OLMo v1 and OLMo-core go back in ways of their own: name it with --framework olmo-v1 or olmo-core, or take the line for yours
- OLMo v1: take the flag off at the next restart: it is added again each time a checkpoint is loaded, and the checkpoints hold the position that it led to
- OLMo v1: the step counter is not moved: from here on steps and data part
- OLMo v1: data-indices/rankR.tsv.gz tells which samples a step read, if save_data_indices was on
- OLMo v1: the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, 14 good batches before 1015 with them; a checkpoint closer to 1015 costs less
- OLMo-core: steps count from 1 and stop is not skipped; steps, tokens, scheduler and callbacks go on, and the batches are loaded
- OLMo-core: a dataset with another fingerprint is refused
- OLMo-core: with another batch size the steps name other data: recompute the ranges
"#
        );
    }

    #[test]
    fn a_rollback_that_may_be_of_either() {
        assert_eq!(
            told("olmo", &rollback()),
            r#"... --load_path=$CHECKPOINT_DIR/step1000   # OLMo v1
TrainerConfig(..., load_path="$CHECKPOINT_DIR/step1000", load_strategy=LoadStrategy.always)   # OLMo-core
batches or steps; can skip; OLMo v1: the data position survives a change of data-parallel size with the same global batch size; OLMo-core: the data position survives a change of data-parallel size, and of the batch size by a whole factor
- OLMo v1 and OLMo-core go back in ways of their own: name it with --framework olmo-v1 or olmo-core, or take the line for yours
"#
        );
    }

    #[test]
    fn a_skip_that_begins_at_the_checkpoint() {
        assert_eq!(
            told("olmo-v1", &Request { skip: Some((1001, 1040)), earlier: vec!["905-907".to_owned()], ramp: true, ..skip() }),
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
