//! OLMo-core: `load_path` and `steps_to_skip` (rules/SOURCES.md).

use crate::resume::shared::{back, in_force, joined, repeated, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let path = whole(request, "step", &format!("step{}", request.checkpoint));
    let load = format!("load_path=\"{path}\", load_strategy=LoadStrategy.always");
    let mut caveats = Vec::new();
    let command = match steps(request) {
        Some(steps) => {
            skip_caveats(request, &mut caveats);
            format!("TrainerConfig(..., {load}, {steps})")
        }
        None => format!("TrainerConfig(..., {load})"),
    };
    Resume {
        base: Some(1),
        survives: "the data position survives a change of data-parallel size, and of the batch size by a whole factor"
            .to_owned(),
        can_skip: true,
        caveats,
        ..back(framework, "steps", command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    request.skip?;
    steps(request)
}

fn steps(request: &Request) -> Option<String> {
    let ranges = in_force(request, 1);
    let all = joined(&ranges, ", ", |(first, last)| {
        format!("StepSkipRange(start={first}, stop={})", last + 1)
    });
    (!ranges.is_empty()).then(|| format!("steps_to_skip=[{all}]"))
}

fn skip_caveats(request: &Request, caveats: &mut Vec<String>) {
    caveats.push(
        "steps count from 1 and stop is not skipped; steps, tokens, scheduler and callbacks go on, and the batches are \
         loaded"
            .to_owned(),
    );
    caveats.push("a dataset with another fingerprint is refused".to_owned());
    caveats
        .push("with another batch size the steps name other data: recompute the ranges".to_owned());
    repeated(request, 1, caveats);
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("olmo-core", &skip()),
            r#"TrainerConfig(..., load_path="$CHECKPOINT_DIR/step1000", load_strategy=LoadStrategy.always, steps_to_skip=[StepSkipRange(start=1015, stop=1041)])
steps from 1; can skip; the data position survives a change of data-parallel size, and of the batch size by a whole factor
- steps count from 1 and stop is not skipped; steps, tokens, scheduler and callbacks go on, and the batches are loaded
- a dataset with another fingerprint is refused
- with another batch size the steps name other data: recompute the ranges
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("olmo-core", &rollback()),
            r#"TrainerConfig(..., load_path="$CHECKPOINT_DIR/step1000", load_strategy=LoadStrategy.always)
steps from 1; can skip; the data position survives a change of data-parallel size, and of the batch size by a whole factor
"#
        );
    }

    #[test]
    fn a_skip_with_earlier_ones() {
        assert_eq!(
            told(
                "olmo-core",
                &Request {
                    earlier: vec![
                        "905".to_owned(),
                        "906".to_owned(),
                        "907".to_owned(),
                        "x".to_owned()
                    ],
                    ..skip()
                }
            ),
            r#"TrainerConfig(..., load_path="$CHECKPOINT_DIR/step1000", load_strategy=LoadStrategy.always, steps_to_skip=[StepSkipRange(start=905, stop=908), StepSkipRange(start=1015, stop=1041)])
steps from 1; can skip; the data position survives a change of data-parallel size, and of the batch size by a whole factor
- steps count from 1 and stop is not skipped; steps, tokens, scheduler and callbacks go on, and the batches are loaded
- a dataset with another fingerprint is refused
- with another batch size the steps name other data: recompute the ranges
- earlier skips stay in force and are repeated in the list: 905, 906, 907
- earlier skips stay in force, add them to the list by hand: x
"#
        );
    }
}
