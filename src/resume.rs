//! How to go back and how to skip, framework by framework. Numbers that come in and go out are the framework's own.

mod accelerate;
mod composer;
mod deepspeed;
mod flagscale;
mod gpt_neox;
mod hf_trainer;
mod internevo;
mod levanter;
mod lightning;
#[cfg(test)]
mod loops;
mod maxtext;
mod megatron;
mod megatron_bridge;
mod megatron_deepspeed;
mod metaseq;
mod nanotron;
mod nemo;
mod olmo;
mod olmo_core;
mod pytorch;
mod shared;
mod torchdata;
mod torchtitan;

use crate::run::Run;

/// A framework, and its version if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framework {
    /// Name, such as `megatron-lm`.
    pub name: String,
    /// Version as given, such as `0.16`.
    pub version: Option<String>,
}

impl Framework {
    /// Parses `NAME` or `NAME@VERSION`.
    pub fn parse(text: &str) -> Self {
        match text.split_once('@') {
            Some((name, version)) => Self {
                name: normal(name),
                version: Some(version.trim().to_owned()),
            },
            None => Self {
                name: normal(text),
                version: None,
            },
        }
    }

    /// What the log says of it.
    pub fn of(run: &Run) -> Option<Self> {
        let name = run.meta.framework.as_deref()?;
        let name = run.meta.facts.get("dialect").map_or(name, String::as_str);
        Some(Self {
            name: normal(name),
            version: run.meta.framework_version.clone(),
        })
    }

    /// `name@version`, or the name alone.
    pub fn label(&self) -> String {
        self.version
            .as_ref()
            .map_or_else(|| self.name.clone(), |v| format!("{}@{v}", self.name))
    }
}

/// One spelling for the names that are in use.
fn normal(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase().replace(['_', ' '], "-");
    match name.as_str() {
        "megatron" | "megatronlm" | "megatron-core" | "mcore" => "megatron-lm",
        "bridge" => "megatron-bridge",
        "bigscience-megatron-deepspeed" => "bigscience",
        "argonne" => "argonne-megatron-deepspeed",
        "glm" | "glm130b" => "glm-130b",
        "nemo2" | "nemo-2" => "nemo",
        "neox" | "gptneox" => "gpt-neox",
        "hf" | "huggingface" | "transformers" | "trainer" => "hf-trainer",
        "pytorch-lightning" | "pl" => "lightning",
        "llm-foundry" | "llmfoundry" | "mosaicml" | "mosaicml-streaming" => "composer",
        "olmocore" => "olmo-core",
        "olmo1" | "olmo-1" => "olmo-v1",
        "statefuldataloader" => "torchdata",
        "torch" | "plain-pytorch" => "pytorch",
        other => other,
    }
    .to_owned()
}

/// What is to be done, in numbers that no framework's habits have touched.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Updates done at the checkpoint to go back to.
    pub checkpoint: u64,
    /// Its path, if known.
    pub path: Option<String>,
    /// Updates to leave out, inclusive, counted from 1.
    pub skip: Option<(u64, u64)>,
    /// The samples that those updates read, half-open, if the log has data positions.
    pub samples: Option<(u64, u64)>,
    /// Samples of one update at the skipped range, if known.
    pub batch: Option<u64>,
    /// Micro-batches of one update, if the log prints enough to tell.
    pub micro_batches: Option<u64>,
    /// Tokens of one sample, if the log prints it.
    pub sequence_length: Option<u64>,
    /// Earlier ranges that stay in force, as the log names them: `8-9` or `8`, in its own numbers.
    pub earlier: Vec<String>,
    /// Whether the batch size changes between checkpoint and the end of the skip.
    pub ramp: bool,
}

/// How to carry a plan out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// Framework as reported.
    pub framework: String,
    /// What to type; `None` if this version knows no command for the framework.
    pub command: Option<String>,
    /// What to know before typing it.
    pub caveats: Vec<String>,
    /// What the command counts in, such as `iterations`.
    pub unit: &'static str,
    /// Where its count begins, if it names places rather than amounts and the version is settled.
    pub base: Option<u64>,
    /// What changes of the layout the position in the data survives, in a sentence.
    pub survives: String,
    /// Whether the framework can leave batches out at all, if only all from the checkpoint on.
    pub can_skip: bool,
    /// Good batches that are left out too where the data can only be moved forward.
    pub price: Option<u64>,
}

/// What the file of a framework answers with: all of it, or the skip alone.
type Make = fn(&Framework, &Request) -> Resume;
type Fragment = fn(&Framework, &Request) -> Option<String>;

const FRAMEWORKS: &[(&str, &str)] = &[
    (
        "megatron-lm",
        "skips a window of iterations; the version decides whether they count from 0 or 1",
    ),
    (
        "megatron-bridge",
        "skips a window of iterations, counted from 0 as far as read",
    ),
    (
        "megatron-deepspeed",
        "which fork is open: the lines of BigScience and of Argonne",
    ),
    (
        "bigscience",
        "skips a window by micro-batches; step numbers and data part from there on",
    ),
    (
        "argonne-megatron-deepspeed",
        "skips a window of iterations, counted from 1",
    ),
    (
        "glm-130b",
        "skips a window as BigScience does; its loop was not read",
    ),
    ("flagscale", "skips one window, of samples or of iterations"),
    (
        "nemo",
        "NeMo 2: moves the data forward from the checkpoint, by samples",
    ),
    ("deepspeed", "goes back only"),
    ("gpt-neox", "goes back only"),
    ("torchtitan", "goes back only"),
    ("hf-trainer", "goes back only"),
    (
        "accelerate",
        "moves the data forward to a batch of the epoch",
    ),
    ("lightning", "goes back only"),
    (
        "composer",
        "Composer and Streaming: moves the data forward, by samples of the epoch",
    ),
    ("olmo-core", "skips a window of steps, counted from 1"),
    (
        "olmo",
        "which of the two is open: the lines of OLMo v1 and of OLMo-core",
    ),
    (
        "olmo-v1",
        "moves the data forward from the checkpoint, by batches",
    ),
    ("levanter", "goes back only"),
    ("maxtext", "MaxText with grain: goes back only"),
    (
        "nanotron",
        "moves the data forward from the checkpoint, by samples",
    ),
    (
        "metaseq",
        "skips a window; step numbers and data part from there on",
    ),
    ("internevo", "skips a window of batches, counted from 0"),
    (
        "torchdata",
        "StatefulDataLoader in a loop of your own: the loop leaves a window out",
    ),
    ("pytorch", "a loop of your own leaves a window out"),
];

/// The frameworks that have a command, each with what it can do in one line.
pub fn frameworks() -> &'static [(&'static str, &'static str)] {
    FRAMEWORKS
}

/// Whether a framework has a flag or a piece of configuration that leaves batches out.
pub fn can_skip(name: &str) -> bool {
    let request = Request {
        skip: Some((1, 1)),
        ..Request::default()
    };
    skip_fragment(Some(&Framework::parse(name)), &request).is_some()
}

fn known(name: &str) -> Option<(Make, Fragment)> {
    let none: Fragment = |_, _| None;
    Some(match name {
        "megatron-lm" => (megatron::resume, megatron::fragment),
        "megatron-bridge" => (megatron_bridge::resume, megatron_bridge::fragment),
        "megatron-deepspeed" | "bigscience" | "argonne-megatron-deepspeed" | "glm-130b" => {
            (megatron_deepspeed::resume, megatron_deepspeed::fragment)
        }
        "flagscale" => (flagscale::resume, flagscale::fragment),
        "nemo" => (nemo::resume, nemo::fragment),
        "deepspeed" => (deepspeed::resume, none),
        "gpt-neox" => (gpt_neox::resume, none),
        "torchtitan" => (torchtitan::resume, none),
        "hf-trainer" => (hf_trainer::resume, none),
        "accelerate" => (accelerate::resume, accelerate::fragment),
        "lightning" => (lightning::resume, none),
        "composer" => (composer::resume, composer::fragment),
        "olmo-core" => (olmo_core::resume, olmo_core::fragment),
        "olmo" | "olmo-v1" => (olmo::resume, olmo::fragment),
        "levanter" => (levanter::resume, none),
        "maxtext" => (maxtext::resume, none),
        "nanotron" => (nanotron::resume, nanotron::fragment),
        "metaseq" => (metaseq::resume, metaseq::fragment),
        "internevo" => (internevo::resume, internevo::fragment),
        "torchdata" => (torchdata::resume, torchdata::fragment),
        "pytorch" => (pytorch::resume, pytorch::fragment),
        _ => return None,
    })
}

/// The command and the caveats for a framework.
pub fn resume(framework: Option<&Framework>, request: &Request) -> Resume {
    let (request, note) = shared::reachable(request);
    let mut out = match framework {
        Some(f) => match known(&f.name) {
            Some((make, _)) => make(f, &request),
            None => neutral(f.label(), &request),
        },
        None => neutral("unknown".to_owned(), &request),
    };
    out.caveats.extend(note);
    out
}

/// The skip alone, as the framework's own flag or piece of configuration; none where it has no such thing.
pub fn skip_fragment(framework: Option<&Framework>, request: &Request) -> Option<String> {
    let framework = framework?;
    let (_, fragment) = known(&framework.name)?;
    let (request, _) = shared::reachable(request);
    request.skip?;
    fragment(framework, &request)
}

fn neutral(framework: String, request: &Request) -> Resume {
    let named = if framework == "unknown" {
        "a framework that the log does not name".to_owned()
    } else {
        framework.clone()
    };
    let mut caveats = vec![format!(
        "no command yet for {named}: load the checkpoint of {} updates with its optimizer, scheduler and loader state",
        request.checkpoint
    )];
    if request.skip.is_some() {
        caveats.push(
            "leave the samples out in the loader; check first whether this loader can skip at all and keeps its order \
             after a restart"
                .to_owned(),
        );
    }
    if !request.earlier.is_empty() {
        caveats.push(format!(
            "earlier skips stay in force, see that they still are left out: {}",
            request.earlier.join(", ")
        ));
    }
    if framework == "unknown" {
        caveats.push(
            "name the framework with --framework NAME[@VERSION] to get its command".to_owned(),
        );
    }
    Resume {
        framework,
        command: None,
        caveats,
        unit: "updates",
        base: None,
        survives: "what the data position survives is not known".to_owned(),
        can_skip: false,
        price: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_use_stand_for_one_framework() {
        let name = |text: &str| Framework::parse(text).label();
        assert_eq!(name("MCore@0.17"), "megatron-lm@0.17");
        assert_eq!(name("Megatron_LM"), "megatron-lm");
        assert_eq!(name("NeMo 2@2.4 "), "nemo@2.4");
        assert_eq!(name("transformers"), "hf-trainer");
        assert_eq!(name("LLM-Foundry"), "composer");
        assert_eq!(name("nanoGPT"), "nanogpt");
    }

    #[test]
    fn an_unknown_framework_gets_no_command() {
        let request = Request {
            skip: Some((1015, 1040)),
            earlier: vec!["905-907".to_owned()],
            ..shared::tests::rollback()
        };
        assert_eq!(
            shared::tests::told("nanogpt", &request),
            "\nupdates; cannot skip; what the data position survives is not known\n\
             - no command yet for nanogpt: load the checkpoint of 1000 updates with its optimizer, scheduler and loader state\n\
             - leave the samples out in the loader; check first whether this loader can skip at all and keeps its order \
             after a restart\n\
             - earlier skips stay in force, see that they still are left out: 905-907\n"
        );
        let none = resume(None, &request);
        assert_eq!((none.framework.as_str(), none.command), ("unknown", None));
        assert!(
            none.caveats
                .last()
                .is_some_and(|c| c.contains("--framework NAME[@VERSION]"))
        );
        assert_eq!(skip_fragment(None, &request), None);
        assert_eq!(
            skip_fragment(Some(&Framework::parse("nanogpt")), &request),
            None
        );
    }

    #[test]
    fn the_skip_alone() {
        let alone =
            |name: &str| skip_fragment(Some(&Framework::parse(name)), &shared::tests::skip());
        assert_eq!(
            alone("megatron-lm@0.17").as_deref(),
            Some("--iterations-to-skip $(seq 1015 1040)")
        );
        assert_eq!(
            alone("olmo-core").as_deref(),
            Some("steps_to_skip=[StepSkipRange(start=1015, stop=1041)]")
        );
        assert_eq!(
            alone("olmo-v1").as_deref(),
            Some("--fast_forward_batches=40")
        );
        assert_eq!(
            alone("internevo").as_deref(),
            Some("skip_batches=\"1014-1039\"")
        );
        assert_eq!(alone("torchtitan"), None);
    }
}
