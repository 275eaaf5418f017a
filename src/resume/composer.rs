//! Composer with Streaming: `load_path`, and the sample position in the checkpoint (rules/SOURCES.md).

use crate::resume::shared::{Jump, back, prefix, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let name = format!("epE-ba{}-rank{{rank}}.pt", request.checkpoint);
    let path = whole(request, "ep", &name).replace("-rank0.", "-rank{rank}.");
    let mut command = format!("load_path: {path}");
    let mut caveats = Vec::new();
    if path.contains("epE-") {
        caveats.push("put the number of the epoch for E".to_owned());
    }
    if let Some(edit) = edit(request) {
        command = format!("{command}\n{edit}");
        edit_caveats(&mut caveats);
    }
    prefix(request, &mut caveats);
    caveats.push(
        "with autoresume the newest checkpoint of the save folder may be taken instead (not verified): switch it off"
            .to_owned(),
    );
    Resume {
        survives: "the data position survives a change of data-parallel size, if it divides the global batch size and \
                   num_canonical_nodes, seed and initial_physical_nodes stay"
            .to_owned(),
        can_skip: true,
        price: Jump::of(request).map(|j| j.lost),
        caveats,
        ..back(framework, "samples of the epoch", command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    edit(request)
}

fn edit(request: &Request) -> Option<String> {
    let jump = Jump::of(request)?;
    Some(format!(
        "state[\"dataset_state\"][\"train\"][\"sample_in_epoch\"] += {}   # in the state of the checkpoint",
        jump.in_samples("global_train_batch_size")
    ))
}

fn edit_caveats(caveats: &mut Vec<String>) {
    caveats.push(
        "there is no option for it: the checkpoint must be edited; past the end of the epoch take the size of the epoch \
         off and add one to the epoch"
            .to_owned(),
    );
    caveats.push(
        "the next checkpoint takes its position from the timestamp, which does not know of the edit: a later restart goes \
         back in the data by the same number of samples, so the edit must be made again"
            .to_owned(),
    );
    caveats
        .push("with packing the position does not come back right (llm-foundry#1277)".to_owned());
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("composer", &skip()),
            r#"load_path: $CHECKPOINT_DIR/epE-ba1000-rank{rank}.pt
state["dataset_state"]["train"]["sample_in_epoch"] += 20480   # in the state of the checkpoint
samples of the epoch; can skip, price 14; the data position survives a change of data-parallel size, if it divides the global batch size and num_canonical_nodes, seed and initial_physical_nodes stay
- put the number of the epoch for E
- there is no option for it: the checkpoint must be edited; past the end of the epoch take the size of the epoch off and add one to the epoch
- the next checkpoint takes its position from the timestamp, which does not know of the edit: a later restart goes back in the data by the same number of samples, so the edit must be made again
- with packing the position does not come back right (llm-foundry#1277)
- the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, 14 good batches before 1015 with them; a checkpoint closer to 1015 costs less
- with autoresume the newest checkpoint of the save folder may be taken instead (not verified): switch it off
"#
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("composer", &rollback()),
            "load_path: $CHECKPOINT_DIR/epE-ba1000-rank{rank}.pt
samples of the epoch; can skip; the data position survives a change of data-parallel size, if it divides the global batch size and num_canonical_nodes, seed and initial_physical_nodes stay
- put the number of the epoch for E
- with autoresume the newest checkpoint of the save folder may be taken instead (not verified): switch it off
"
        );
    }

    #[test]
    fn a_skip_without_the_size_of_a_batch() {
        assert_eq!(
            told(
                "composer",
                &Request {
                    batch: None,
                    path: Some("/ckpt/ep0-ba1000-rank0.pt".to_owned()),
                    ..skip()
                }
            ),
            r#"load_path: /ckpt/ep0-ba1000-rank{rank}.pt
state["dataset_state"]["train"]["sample_in_epoch"] += 40 * global_train_batch_size   # in the state of the checkpoint
samples of the epoch; can skip, price 14; the data position survives a change of data-parallel size, if it divides the global batch size and num_canonical_nodes, seed and initial_physical_nodes stay
- there is no option for it: the checkpoint must be edited; past the end of the epoch take the size of the epoch off and add one to the epoch
- the next checkpoint takes its position from the timestamp, which does not know of the edit: a later restart goes back in the data by the same number of samples, so the edit must be made again
- with packing the position does not come back right (llm-foundry#1277)
- the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, 14 good batches before 1015 with them; a checkpoint closer to 1015 costs less
- with autoresume the newest checkpoint of the save folder may be taken instead (not verified): switch it off
"#
        );
    }
}
