//! Hugging Face Trainer: `checkpoint-1000/` with `trainer_state.json`, which is written last.
//!
//! `global_step` is the number of updates done.

use crate::checkpoints::deepspeed;
use crate::checkpoints::layout::{
    Found, Group, after, counted, has_ending, need, numbered, shards, torch_distributed,
};
use crate::checkpoints::tree::Node;

const STATE: &str = "trainer_state.json";
/// What shows that a folder with this name is the Trainer's.
const MARKS: [&str; 7] = [
    STATE,
    "training_args.bin",
    "optimizer.pt",
    "optimizer.bin",
    "scheduler.pt",
    "model.safetensors",
    "adapter_model.safetensors",
];

/// The checkpoints of a folder.
pub(super) fn find(folder: Node<'_>) -> Option<Group<'_>> {
    let named = numbered(folder, "checkpoint-");
    if !named
        .iter()
        .any(|(_, f)| MARKS.iter().any(|m| f.find(m).is_some()))
    {
        return None;
    }
    let mut found: Vec<Found<'_>> = named.into_iter().map(|(n, f)| look(n, f)).collect();
    let temporary = numbered(folder, "tmp-checkpoint-");
    found.extend(temporary.into_iter().map(|(n, f)| Found::unfinished(n, f)));
    let with_scheduler = found.iter().any(|f| has(f, "scheduler.pt"));
    let with_random = found.iter().any(|f| random(f));
    for f in found.iter_mut().filter(|f| f.unfinished.is_none()) {
        if with_scheduler && f.optimizer == Some(true) && !has(f, "scheduler.pt") {
            f.faults
                .push("no scheduler.pt, which its siblings have".to_owned());
        }
        if with_random && !random(f) {
            f.data = None;
            f.notes.push(format!(
                "{} has no rng_state: the order of the data after it may differ",
                f.name()
            ));
        }
    }
    Group::of("hf-trainer", found, None)
}

fn has(found: &Found<'_>, file: &str) -> bool {
    found.parts.iter().any(|p| p.has(file))
}

fn random(found: &Found<'_>) -> bool {
    let mut names = found.parts.iter().flat_map(|p| p.file_names());
    names.any(|n| n.starts_with("rng_state"))
}

fn look(number: u64, folder: Node<'_>) -> Found<'_> {
    let mut found = Found::folder(number, folder);
    let fault = state(&mut found, folder);
    found.faults.extend(fault);
    let engine = folder
        .folders()
        .find(|f| after(f.name(), deepspeed::PREFIX).is_some());
    if !weights(folder) && engine.is_none() {
        found.faults.push("no weights".to_owned());
    }
    found.faults.extend(counted(folder.file_names()));
    let sharded: Vec<Node<'_>> = folder.folders().filter(|f| is_sharded(f.name())).collect();
    for part in &sharded {
        found.faults.extend(torch_distributed(folder, part.name()));
    }
    if let Some(engine) = engine {
        found.faults.extend(deepspeed::faults(engine));
        found.optimizer = deepspeed::optimizer(engine).or(Some(true));
    } else {
        found.optimizer = Some(optimizer(folder, &sharded));
    }
    found.shards = shards(folder);
    for (name, _) in &mut found.shards {
        // Its name holds the step, so that no sibling has it.
        if let (true, Some((_, rest))) = (name.starts_with(deepspeed::PREFIX), name.split_once('/'))
        {
            *name = format!("{}*/{rest}", deepspeed::PREFIX);
        }
    }
    found.shards.sort();
    found
}

/// The fault of the state file, if it has one; sets what it tells.
fn state(found: &mut Found<'_>, folder: Node<'_>) -> Option<String> {
    // Keys are in order, so that the step stands before the long history.
    const HEAD: u64 = 64 * 1024;
    const TAIL: u64 = 64;
    if let Some(fault) = need(folder, STATE) {
        return Some(fault);
    }
    let file = folder.find(STATE)?;
    let head = file.head(HEAD).unwrap_or_default();
    let whole = file.tail(TAIL).is_some_and(|t| t.trim_end().ends_with('}'));
    if !whole {
        return Some(format!("{STATE} is cut short"));
    }
    let step = head.split_once("\"global_step\"").and_then(|(_, rest)| {
        let digits = rest.trim_start_matches([':', ' ']);
        let end = digits.find(|c: char| !c.is_ascii_digit())?;
        digits[..end].parse::<u64>().ok()
    });
    // A resume continues from this number, whatever the folder is called.
    found.data = Some(true);
    if let Some(step) = step.filter(|s| *s != found.number) {
        found.step = step;
        found.notes.push(format!(
            "{} holds step {step}: its name is not its step",
            folder.name()
        ));
    }
    None
}

fn weights(folder: Node<'_>) -> bool {
    const STEMS: [&str; 4] = ["model", "pytorch_model", "adapter_model", "tf_model"];
    folder.children().any(|c| {
        let name = c.name();
        let file = has_ending(name, "safetensors") || has_ending(name, "bin");
        STEMS.iter().any(|s| name.starts_with(s)) && (file || is_sharded(name))
    })
}

/// The sharded form of `FSDP`.
fn is_sharded(name: &str) -> bool {
    after(name, "pytorch_model_fsdp_").is_some() || after(name, "optimizer_").is_some()
}

fn optimizer(folder: Node<'_>, sharded: &[Node<'_>]) -> bool {
    let files = ["optimizer.pt", "optimizer.bin", "optimizer.safetensors"];
    files.iter().any(|f| folder.has(f))
        || sharded.iter().any(|f| f.name().starts_with("optimizer_"))
}

#[cfg(test)]
mod tests {
    use crate::checkpoints::folder::tests::{Made, scan};

    fn state(step: u64) -> String {
        format!(
            "{{\n  \"best_metric\": null,\n  \"epoch\": 0.5,\n  \"global_step\": {step},\n  \"log_history\": [\n    \
             {{\n      \"loss\": NaN,\n      \"step\": {step}\n    }}\n  ],\n  \"train_batch_size\": 8\n}}"
        )
    }

    fn plain(made: &Made, step: u64) {
        let at = format!("checkpoint-{step}");
        made.text(&format!("{at}/trainer_state.json"), &state(step));
        made.text(&format!("{at}/config.json"), "{}");
        for (file, bytes) in [
            ("model.safetensors", 1000),
            ("optimizer.pt", 2000),
            ("scheduler.pt", 10),
            ("rng_state.pth", 20),
            ("training_args.bin", 5),
        ] {
            made.file(&format!("{at}/{file}"), bytes);
        }
    }

    #[test]
    fn whole_and_torn() {
        let made = Made::new();
        for step in [500, 1000, 1500, 2000, 2500, 3000] {
            plain(&made, step);
        }
        let found = scan(&made);
        assert_eq!(found.torn(), [0; 0]);
        assert_eq!(found.checkpoints[0].layout, Some("hf-trainer"));
        assert_eq!(found.checkpoints[0].optimizer, Some(true));
        assert_eq!(found.checkpoints[0].data_position, Some(true));
        made.remove("checkpoint-1000/trainer_state.json");
        made.remove("checkpoint-1500/scheduler.pt");
        made.cut("checkpoint-2000/optimizer.pt", 300);
        made.cut("checkpoint-2500/trainer_state.json", 80);
        made.remove("checkpoint-3000/rng_state.pth");
        made.file("tmp-checkpoint-3500/model.safetensors", 10);
        let found = scan(&made);
        assert_eq!(found.torn(), [1000, 1500, 2000, 2500, 3500]);
        assert_eq!(found.why(1000), "no trainer_state.json");
        assert!(found.why(1500).contains("scheduler.pt"));
        assert!(found.why(2000).contains("optimizer.pt has 300 bytes"));
        assert!(found.why(2500).contains("cut short"));
        assert!(found.why(3500).contains("tmp-checkpoint-3500"));
        assert!(found.warned("rng_state"), "{:?}", found.warnings);
    }

    #[test]
    fn sharded_forms() {
        let made = Made::new();
        for step in [10, 20] {
            let at = format!("checkpoint-{step}");
            made.text(&format!("{at}/trainer_state.json"), &state(step));
            made.text(&format!("{at}/latest"), &format!("global_step{step}"));
            made.file(&format!("{at}/model-00001-of-00002.safetensors"), 100);
            made.file(&format!("{at}/model-00002-of-00002.safetensors"), 100);
            let inner = format!("{at}/global_step{step}");
            for rank in 0..2 {
                made.file(
                    &format!("{inner}/zero_pp_rank_{rank}_mp_rank_00_model_states.pt"),
                    10,
                );
                made.file(
                    &format!("{inner}/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"),
                    90,
                );
                made.file(&format!("{at}/rng_state_{rank}.pth"), 5);
            }
        }
        let found = scan(&made);
        assert_eq!((found.steps(), found.torn()), (vec![10, 20], vec![]));
        assert_eq!(found.checkpoints[1].optimizer, Some(true));
        made.remove("checkpoint-10/global_step10/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
        made.remove("checkpoint-20/model-00002-of-00002.safetensors");
        let found = scan(&made);
        assert_eq!(found.torn(), [10, 20]);
        assert!(
            found.why(10).contains("global_step*/bf16_zero_pp_rank_1"),
            "{}",
            found.why(10)
        );
        assert_eq!(found.why(20), "only 1 of 2 model-*-of-00002.safetensors");

        let made = Made::new();
        made.text("checkpoint-5/trainer_state.json", &state(5));
        for part in ["pytorch_model_fsdp_0", "optimizer_0"] {
            made.file(&format!("checkpoint-5/{part}/.metadata"), 9);
            made.file(&format!("checkpoint-5/{part}/__0_0.distcp"), 9);
        }
        assert_eq!(scan(&made).torn(), [0; 0]);
        assert_eq!(scan(&made).checkpoints[0].optimizer, Some(true));
        made.remove("checkpoint-5/optimizer_0/.metadata");
        assert_eq!(scan(&made).why(5), "no optimizer_0/.metadata");
    }

    #[test]
    fn weights_alone_and_a_renamed_folder() {
        let made = Made::new();
        made.text("checkpoint-5/trainer_state.json", &state(5));
        made.file("checkpoint-5/model.safetensors", 9);
        made.text("checkpoint-9/trainer_state.json", &state(6));
        made.file("checkpoint-9/adapter_model.safetensors", 9);
        let found = scan(&made);
        assert_eq!((found.steps(), found.torn()), (vec![5, 6], vec![]));
        assert_eq!(found.checkpoints[0].optimizer, Some(false));
        assert!(found.warned("checkpoint-9 holds step 6"));
    }
}
