//! DeepSpeed without a framework on top: `load_checkpoint` with a tag (rules/SOURCES.md).

use crate::resume::shared::{back, cannot_skip, root};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let command = format!(
        "engine.load_checkpoint(\"{}\", tag=\"global_step{}\")",
        root(request, "global_step"),
        request.checkpoint
    );
    let mut caveats = vec![
        "without a tag the file latest decides".to_owned(),
        "the position of the loader is not saved: bring it to the checkpoint yourself, or from the client_state that you \
         saved"
            .to_owned(),
    ];
    cannot_skip(
        "DeepSpeed",
        request,
        "leave the batches out in the loop that calls the engine, or another order of the data",
        &mut caveats,
    );
    Resume {
        survives: "the data position is not part of the checkpoint; with another number of ranks the ZeRO state needs a \
                   universal checkpoint"
            .to_owned(),
        caveats,
        ..back(framework, "global steps", command)
    }
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("deepspeed", &skip()),
            r#"engine.load_checkpoint("$CHECKPOINT_DIR", tag="global_step1000")
global steps; cannot skip; the data position is not part of the checkpoint; with another number of ranks the ZeRO state needs a universal checkpoint
- without a tag the file latest decides
- the position of the loader is not saved: bring it to the checkpoint yourself, or from the client_state that you saved
- DeepSpeed cannot skip batches: the command only goes back, and the batches of updates 1015 to 1040 (counted from 1) are read again; ways out: leave the batches out in the loop that calls the engine, or another order of the data
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("deepspeed", &rollback()),
            r#"engine.load_checkpoint("$CHECKPOINT_DIR", tag="global_step1000")
global steps; cannot skip; the data position is not part of the checkpoint; with another number of ranks the ZeRO state needs a universal checkpoint
- without a tag the file latest decides
- the position of the loader is not saved: bring it to the checkpoint yourself, or from the client_state that you saved
"#
        );
    }

    #[test]
    fn a_skip_with_earlier_ones() {
        assert_eq!(
            told(
                "deepspeed",
                &Request {
                    earlier: vec!["905-907".to_owned()],
                    ..skip()
                }
            ),
            r#"engine.load_checkpoint("$CHECKPOINT_DIR", tag="global_step1000")
global steps; cannot skip; the data position is not part of the checkpoint; with another number of ranks the ZeRO state needs a universal checkpoint
- without a tag the file latest decides
- the position of the loader is not saved: bring it to the checkpoint yourself, or from the client_state that you saved
- DeepSpeed cannot skip batches: the command only goes back, and the batches of updates 1015 to 1040 (counted from 1) are read again; ways out: leave the batches out in the loop that calls the engine, or another order of the data
- earlier skips stay in force, see that they still are left out: 905-907
"#
        );
    }
}
