//! nanotron: `1000/` with `checkpoint_metadata.json`, which is written last, and `latest.txt` beside it.
//!
//! The number is that of updates done (`last_train_step`).

use crate::checkpoints::layout::{
    Found, Group, Tracker, counted_grid, has_ending, need, numbered, shards,
};
use crate::checkpoints::tree::Node;

const METADATA: &str = "checkpoint_metadata.json";

/// The checkpoints of a folder.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let named = numbered(folder, "");
    let ours = |f: Node<'_>| f.find(METADATA).is_some() || f.find("model_config.json").is_some();
    if !named.iter().any(|(_, f)| ours(*f)) {
        return None;
    }
    let found = named.into_iter().map(|(n, f)| look(n, f)).collect();
    let tracker = Tracker::read(folder, "latest.txt", |says| says.parse().ok());
    Group::of("nanotron", found, tracker)
}

fn look(number: u64, folder: Node<'_>) -> Found<'_> {
    let mut found = Found::folder(number, folder);
    found.shards = shards(folder);
    found.faults.extend(need(folder, METADATA));
    metadata(&mut found, folder);
    let model = folder.find("model").map(Node::files).unwrap_or_default();
    if !model.iter().any(|(n, _)| has_ending(n, "safetensors")) {
        found.faults.push("no model/".to_owned());
    }
    let optimizer = folder.find("optimizer");
    let states = || {
        let names = optimizer.into_iter().flat_map(Node::file_names);
        names.filter(|n| has_ending(n, "pt"))
    };
    found.faults.extend(counted_grid(states()));
    found.optimizer = Some(states().next().is_some());
    found
}

fn metadata(found: &mut Found<'_>, folder: Node<'_>) {
    let Some(file) = folder.find(METADATA).filter(|_| folder.has(METADATA)) else {
        return;
    };
    let Some(json) = file.json() else {
        found.faults.push(format!("{METADATA} is cut short"));
        return;
    };
    let meta = |key: &str| json.pointer(&format!("/metas/{key}"))?.as_u64();
    found.data = Some(meta("consumed_train_samples").is_some());
    if let Some(step) = meta("last_train_step").filter(|s| *s != found.number) {
        found.step = step;
        found.notes.push(format!(
            "{} holds step {step}: its name is not its step",
            folder.name()
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::checkpoints::folder::tests::{Made, scan};

    fn checkpoint(made: &Made, step: u64) {
        made.text(
            &format!("{step}/checkpoint_metadata.json"),
            &format!(
                "{{\"dp\": 2, \"tp\": 2, \"version\": \"1.4\", \"metas\": {{\"consumed_train_samples\": {}, \
                 \"last_train_step\": {step}}}}}",
                step * 8
            ),
        );
        made.text(&format!("{step}/config.yaml"), "general: {}\n");
        made.file(&format!("{step}/lr_scheduler/lr_scheduler.pt"), 5);
        made.text(&format!("{step}/optimizer/optimizer_config.json"), "{}");
        for tensor in 0..2 {
            let at = format!("{step}/model/model/decoder/0/pp_block/attn");
            made.file(
                &format!("{at}/model_weight_pp-rank-0-of-1_tp-rank-{tensor}-of-2.safetensors"),
                300,
            );
            for data in 0..2 {
                let name =
                    format!("optimizer_pp-0-of-1_dp-{data}-of-2_tp-{tensor}-of-2_exp-0-of-1.pt");
                made.file(&format!("{step}/optimizer/{name}"), 400);
            }
        }
    }

    #[test]
    fn whole_and_torn() {
        let made = Made::new();
        for step in [100, 200, 300] {
            checkpoint(&made, step);
        }
        made.text("latest.txt", "300");
        let found = scan(&made);
        assert_eq!((found.steps(), found.torn()), (vec![100, 200, 300], vec![]));
        let first = &found.checkpoints[0];
        assert_eq!(first.layout, Some("nanotron"));
        assert_eq!(
            (first.optimizer, first.data_position),
            (Some(true), Some(true))
        );
        assert_eq!(found.warnings, [""; 0]);
        made.cut("100/checkpoint_metadata.json", 30);
        made.remove("200/optimizer/optimizer_pp-0-of-1_dp-1-of-2_tp-1-of-2_exp-0-of-1.pt");
        made.remove("300/checkpoint_metadata.json");
        let found = scan(&made);
        assert_eq!(found.torn(), [100, 200, 300]);
        assert!(
            found.why(200).starts_with("only 3 of 4 optimizer_pp"),
            "{}",
            found.why(200)
        );
        assert!(
            found.warned("names 300, which is torn"),
            "{:?}",
            found.warnings
        );
    }
}
