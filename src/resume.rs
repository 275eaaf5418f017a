//! How to go back and how to skip, framework by framework. Numbers that come in and go out are the framework's own.

mod megatron;

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

fn normal(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase().replace(['_', ' '], "-");
    match name.as_str() {
        "megatron" | "megatronlm" | "megatron-core" | "mcore" => "megatron-lm".to_owned(),
        _ => name,
    }
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
    /// Earlier ranges that stay in force, as the log names them.
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
}

/// The command and the caveats for a framework.
pub fn resume(framework: Option<&Framework>, request: &Request) -> Resume {
    match framework {
        Some(f) if f.name == "megatron-lm" => megatron::resume(f, request),
        Some(f) => neutral(f.label(), request),
        None => neutral("unknown".to_owned(), request),
    }
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
    if framework == "unknown" {
        caveats.push(
            "name the framework with --framework NAME[@VERSION] to get its command".to_owned(),
        );
    }
    Resume {
        framework,
        command: None,
        caveats,
    }
}
