//! nanotron: `resume_checkpoint_path`, and the sample counts in the checkpoint (rules/SOURCES.md).

use crate::resume::shared::{Jump, back, prefix, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let path = whole(request, "", &request.checkpoint.to_string());
    let mut command = format!("checkpoints:\n  resume_checkpoint_path: {path}");
    let mut caveats = vec!["load_optimizer and load_lr_scheduler must be on".to_owned()];
    if let Some(edit) = edit(request) {
        command = format!("{command}\n# in {path}/checkpoint_metadata.json\n{edit}");
        edit_caveats(request, &mut caveats);
    }
    prefix(request, &mut caveats);
    Resume {
        survives: "the data position survives a change of data-parallel size with nanosets; with the Hugging Face loader \
                   only if the size divides the skipped samples"
            .to_owned(),
        can_skip: true,
        price: Jump::of(request).map(|j| j.lost),
        caveats,
        ..back(framework, "samples", command)
    }
}

pub(super) fn fragment(_: &Framework, request: &Request) -> Option<String> {
    edit(request)
}

/// Counts are per stage of the data, so they are moved on rather than set.
fn edit(request: &Request) -> Option<String> {
    let samples = Jump::of(request)?.in_samples("global_batch_size");
    Some(format!(
        "metas.consumed_train_samples += {samples}\nmetas.data_stages[STAGE].consumed_train_samples += {samples}"
    ))
}

fn edit_caveats(request: &Request, caveats: &mut Vec<String>) {
    caveats.push(format!(
        "there is no option for it: the metadata must be edited; STAGE is the data stage that update {} belongs to, each \
         counts its own samples; or begin a new entry of data_stages with other data",
        request.checkpoint
    ));
    let jump = Jump::of(request).and_then(|j| j.samples);
    let tokens = jump.zip(request.sequence_length).map(|(s, l)| s * l);
    caveats.push(match tokens {
        Some(tokens) => format!(
            "where the metadata have consumed_tokens_per_dataset_folder, the same {tokens} tokens must be added there, \
             each folder its share"
        ),
        None => "where the metadata have consumed_tokens_per_dataset_folder, the same samples must be added there as \
                 tokens, each folder its share"
            .to_owned(),
    });
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("nanotron", &skip()),
            "checkpoints:
  resume_checkpoint_path: $CHECKPOINT_DIR/1000
# in $CHECKPOINT_DIR/1000/checkpoint_metadata.json
metas.consumed_train_samples += 20480
metas.data_stages[STAGE].consumed_train_samples += 20480
samples; can skip, price 14; the data position survives a change of data-parallel size with nanosets; with the Hugging Face loader only if the size divides the skipped samples
- load_optimizer and load_lr_scheduler must be on
- there is no option for it: the metadata must be edited; STAGE is the data stage that update 1000 belongs to, each counts its own samples; or begin a new entry of data_stages with other data
- where the metadata have consumed_tokens_per_dataset_folder, the same samples must be added there as tokens, each folder its share
- the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, 14 good batches before 1015 with them; a checkpoint closer to 1015 costs less
"
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("nanotron", &rollback()),
            "checkpoints:
  resume_checkpoint_path: $CHECKPOINT_DIR/1000
samples; can skip; the data position survives a change of data-parallel size with nanosets; with the Hugging Face loader only if the size divides the skipped samples
- load_optimizer and load_lr_scheduler must be on
"
        );
    }

    #[test]
    fn a_skip_with_tokens() {
        assert_eq!(
            told("nanotron", &Request { sequence_length: Some(2048), ..skip() }),
            "checkpoints:
  resume_checkpoint_path: $CHECKPOINT_DIR/1000
# in $CHECKPOINT_DIR/1000/checkpoint_metadata.json
metas.consumed_train_samples += 20480
metas.data_stages[STAGE].consumed_train_samples += 20480
samples; can skip, price 14; the data position survives a change of data-parallel size with nanosets; with the Hugging Face loader only if the size divides the skipped samples
- load_optimizer and load_lr_scheduler must be on
- there is no option for it: the metadata must be edited; STAGE is the data stage that update 1000 belongs to, each counts its own samples; or begin a new entry of data_stages with other data
- where the metadata have consumed_tokens_per_dataset_folder, the same 41943040 tokens must be added there, each folder its share
- the data can only be moved forward from the checkpoint: updates 1001 to 1040 (counted from 1) are left out, 14 good batches before 1015 with them; a checkpoint closer to 1015 costs less
"
        );
    }
}
