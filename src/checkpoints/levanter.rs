//! levanter: `step-1000/` with `metadata.json`, which is written last.
//!
//! levanter counts from 0 and names a checkpoint after the step just done: `step-1000` holds 1001 updates.

use crate::checkpoints::layout::{Found, Group, is_distcp, need, numbered};
use crate::checkpoints::tree::Node;

const METADATA: &str = "metadata.json";

/// The checkpoints of a folder. Folders of the same name with an index of torch are another layout's.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let named = numbered(folder, "step-");
    let torch = |f: Node<'_>| f.file_names().any(|n| n == ".metadata" || is_distcp(n));
    let ours = |f: Node<'_>| {
        let parts = ["model", "opt_state", "training_state", "manifest.ocdbt"];
        f.find(METADATA).is_some() || parts.iter().any(|p| f.find(p).is_some())
    };
    let any = |what: &dyn Fn(Node<'_>) -> bool| named.iter().any(|(_, f)| what(*f));
    if any(&torch) || !any(&ours) {
        return None;
    }
    let found = named.into_iter().map(|(n, f)| look(n, f)).collect();
    Group::of("levanter", found, None)
}

fn look(number: u64, folder: Node<'_>) -> Found<'_> {
    let mut found = Found::folder(number, folder);
    found.step = number.saturating_add(1);
    let optimizer = ["opt_state", "training_state"];
    if optimizer.iter().any(|p| folder.has(p)) {
        found.optimizer = Some(true);
    } else if folder.has("model") && !folder.has("manifest.ocdbt") {
        found.optimizer = Some(false);
    }
    if let Some(fault) = need(folder, METADATA) {
        found.faults.push(fault);
        return found;
    }
    let Some(json) = folder.find(METADATA).and_then(Node::json) else {
        found.faults.push(format!("{METADATA} is cut short"));
        return found;
    };
    // The data are a function of the step.
    found.data = Some(json.get("step").is_some_and(serde_json::Value::is_u64));
    if json
        .get("is_temporary")
        .and_then(serde_json::Value::as_bool)
        == Some(true)
    {
        found.notes.push(format!(
            "{} is a temporary checkpoint: it is deleted after the next save",
            folder.name()
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::checkpoints::folder::tests::{Made, scan};

    #[test]
    fn whole_and_torn() {
        let made = Made::new();
        for step in [1000, 2000, 3000] {
            let at = format!("run/step-{step}");
            made.file(&format!("{at}/model/transformer/.zarray"), 40);
            made.file(&format!("{at}/model/transformer/0.0"), 400);
            made.file(&format!("{at}/opt_state/inner/0.0"), 800);
            let temporary = step == 2000;
            made.text(
                &format!("{at}/metadata.json"),
                &format!(
                    "{{\"step\": {step}, \"timestamp\": \"2026-03-01T12:00:00\", \"is_temporary\": {temporary}}}"
                ),
            );
        }
        made.remove("run/step-3000/metadata.json");
        let found = scan(&made);
        assert_eq!(found.steps(), [1001, 2001, 3001]);
        assert_eq!(found.torn(), [3001]);
        assert_eq!(found.checkpoints[0].layout, Some("levanter"));
        assert_eq!(found.checkpoints[0].optimizer, Some(true));
        assert_eq!(found.checkpoints[0].data_position, Some(true));
        assert!(found.warned("step-2000 is a temporary checkpoint"));
    }
}
