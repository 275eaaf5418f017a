//! MaxText with grain: `load_full_state_path`, or nothing but older checkpoints left (rules/SOURCES.md).

use crate::resume::shared::{back, cannot_skip, whole};
use crate::resume::{Framework, Request, Resume};

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    // Named after the loop's counter, from 0, when the update was done.
    let name = request.checkpoint.saturating_sub(1).to_string();
    let path = request.path.as_deref().map(|p| p.trim_end_matches('/'));
    let path = match path.and_then(|p| p.strip_suffix("/items")) {
        Some(whole) => whole.to_owned(),
        None => whole(request, "", &name),
    };
    let folder = path
        .rsplit_once('/')
        .map_or("$CHECKPOINT_DIR", |(parent, _)| parent);
    let command = format!(
        "... run_name=$RUN   # with all later steps moved out of {folder}: state and data position\n\
         ... run_name=$NEW_RUN load_full_state_path={path}/items   # state alone, the data begin anew"
    );
    let mut caveats = vec![
        format!(
            "MaxText counts steps from 0 and names a checkpoint after the last finished one: {name} holds {} updates",
            request.checkpoint
        ),
        "with load_full_state_path the run must be new: if it has any checkpoint, its latest is taken and the path is \
         ignored; the iterator of grain is not restored from the path, the data begin anew"
            .to_owned(),
        "checkpoint_period is 10000 unless set".to_owned(),
    ];
    cannot_skip(
        "MaxText",
        request,
        "another data seed, or the position in the iterator's JSON of each host (grain has an experimental \
         set_next_index); with dataset_type=olmo_grain the data are a function of seed, shard and count",
        &mut caveats,
    );
    Resume {
        survives: "the data position survives only twice or half the hosts, with expansion_factor_real_data and the same \
                   per-device batch"
            .to_owned(),
        caveats,
        ..back(framework, "steps", command)
    }
}

#[cfg(test)]
mod tests {
    use crate::resume::Request;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip() {
        assert_eq!(
            told("maxtext", &skip()),
            "... run_name=$RUN   # with all later steps moved out of $CHECKPOINT_DIR: state and data position
... run_name=$NEW_RUN load_full_state_path=$CHECKPOINT_DIR/999/items   # state alone, the data begin anew
steps; cannot skip; the data position survives only twice or half the hosts, with expansion_factor_real_data and the same per-device batch
- MaxText counts steps from 0 and names a checkpoint after the last finished one: 999 holds 1000 updates
- with load_full_state_path the run must be new: if it has any checkpoint, its latest is taken and the path is ignored; the iterator of grain is not restored from the path, the data begin anew
- checkpoint_period is 10000 unless set
- MaxText cannot skip batches: the command only goes back, and the batches of updates 1015 to 1040 (counted from 1) are read again; ways out: another data seed, or the position in the iterator's JSON of each host (grain has an experimental set_next_index); with dataset_type=olmo_grain the data are a function of seed, shard and count
"
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("maxtext", &rollback()),
            "... run_name=$RUN   # with all later steps moved out of $CHECKPOINT_DIR: state and data position
... run_name=$NEW_RUN load_full_state_path=$CHECKPOINT_DIR/999/items   # state alone, the data begin anew
steps; cannot skip; the data position survives only twice or half the hosts, with expansion_factor_real_data and the same per-device batch
- MaxText counts steps from 0 and names a checkpoint after the last finished one: 999 holds 1000 updates
- with load_full_state_path the run must be new: if it has any checkpoint, its latest is taken and the path is ignored; the iterator of grain is not restored from the path, the data begin anew
- checkpoint_period is 10000 unless set
"
        );
    }

    #[test]
    fn a_rollback_to_a_path() {
        assert_eq!(
            told("maxtext", &Request { path: Some("gs://b/run/checkpoints/999/items".to_owned()), ..rollback() }),
            "... run_name=$RUN   # with all later steps moved out of gs://b/run/checkpoints: state and data position
... run_name=$NEW_RUN load_full_state_path=gs://b/run/checkpoints/999/items   # state alone, the data begin anew
steps; cannot skip; the data position survives only twice or half the hosts, with expansion_factor_real_data and the same per-device batch
- MaxText counts steps from 0 and names a checkpoint after the last finished one: 999 holds 1000 updates
- with load_full_state_path the run must be new: if it has any checkpoint, its latest is taken and the path is ignored; the iterator of grain is not restored from the path, the data begin anew
- checkpoint_period is 10000 unless set
"
        );
    }
}
