//! Megatron-LM: `--ckpt-step` and `--iterations-to-skip` (rollback-and-resume.md §2).

use crate::resume::{Framework, Request, Resume};

/// How a version counts `--iterations-to-skip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    /// The flag does not exist before core 0.9.
    Absent,
    /// Compares the counter before it is increased: from 0 (core 0.9 to 0.16).
    FromZero,
    /// Compares the printed iteration: from 1 (core 0.17.0rc0 on, PR #3957).
    FromOne,
    /// The version is not known.
    Unknown,
}

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let index = framework
        .version
        .as_deref()
        .map_or(Index::Unknown, index_of);
    let mut caveats = Vec::new();
    let command = command(index, request, &mut caveats);
    if request.skip.is_some() {
        skip_caveats(index, request, &mut caveats);
    }
    Resume {
        framework: framework.label(),
        command: Some(command),
        caveats,
    }
}

fn index_of(version: &str) -> Index {
    let numbers = version
        .trim_start_matches("core_")
        .trim_start_matches(['v', 'r']);
    let mut parts = numbers.split(['.', '-']).map(|p| {
        p.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    });
    let part = |p: Option<String>| p.and_then(|p| p.parse::<u64>().ok());
    match (part(parts.next()), part(parts.next())) {
        (Some(0), Some(minor)) if minor < 9 => Index::Absent,
        (Some(0), Some(minor)) if minor < 17 => Index::FromZero,
        (Some(0), Some(_)) | (Some(1..), _) => Index::FromOne,
        _ => Index::Unknown,
    }
}

fn command(index: Index, request: &Request, caveats: &mut Vec<String>) -> String {
    let load = request.path.as_deref().map_or("$CHECKPOINT_DIR", folder);
    let back = format!(
        "... --load {load} --ckpt-step {} --exit-on-missing-checkpoint",
        request.checkpoint
    );
    let Some((first, last)) = request.skip else {
        return back;
    };
    let from_one = format!("--iterations-to-skip $(seq {first} {last})");
    let from_zero = format!("--iterations-to-skip $(seq {} {})", first - 1, last - 1);
    match index {
        Index::FromOne => format!("{back} {from_one}"),
        Index::FromZero => format!("{back} {from_zero}"),
        Index::Absent => {
            caveats.push(
                "this version has no --iterations-to-skip: the command only goes back".to_owned(),
            );
            back
        }
        Index::Unknown => {
            caveats.push(
                "the version decides by one which batches are skipped: give it with --framework megatron-lm@VERSION, \
                 or take the line for your version"
                    .to_owned(),
            );
            format!(
                "{back} {from_one}   # core 0.17 and later\n{back} {from_zero}   # core 0.9 to 0.16"
            )
        }
    }
}

/// The folder that holds `iter_0001000`, or the path itself.
fn folder(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit_once('/') {
        Some((parent, last)) if last.starts_with("iter_") => parent,
        _ => trimmed,
    }
}

fn skip_caveats(index: Index, request: &Request, caveats: &mut Vec<String>) {
    if index == Index::Absent {
        return;
    }
    match index {
        Index::FromZero => caveats.push(
            "core 0.9 to 0.16 count --iterations-to-skip from 0: the list is one below the printed iterations; tracker \
             files of these versions count from 0 too"
                .to_owned(),
        ),
        Index::FromOne => {
            caveats.push("core 0.17 and later count --iterations-to-skip from 1, as the log prints them".to_owned());
        }
        _ => {}
    }
    caveats.push(
        "the right batches are skipped only if global batch size, seed, sequence length, split, tokenizer and number of \
         samples are unchanged and the sampler is sequential (not cyclic, not an external loader)"
            .to_owned(),
    );
    caveats.push("the learning-rate scheduler is not stepped while batches are skipped".to_owned());
    if request.ramp {
        caveats.push("the batch size changes between the checkpoint and the skipped range: keep the same ramp-up".to_owned());
    }
    if !request.earlier.is_empty() {
        caveats.push(format!(
            "earlier skips stay in force, add them to the list: {}",
            request.earlier.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(version: Option<&str>) -> Resume {
        let framework = Framework {
            name: "megatron-lm".into(),
            version: version.map(str::to_owned),
        };
        let request = Request {
            checkpoint: 1000,
            skip: Some((1015, 1040)),
            ..Request::default()
        };
        resume(&framework, &request)
    }

    #[test]
    fn versions_differ_by_one() {
        let new = asked(Some("0.17")).command.unwrap();
        let old = asked(Some("core_v0.16.1")).command.unwrap();
        assert!(
            new.contains("--iterations-to-skip $(seq 1015 1040)"),
            "{new}"
        );
        assert!(
            old.contains("--iterations-to-skip $(seq 1014 1039)"),
            "{old}"
        );
        assert!(new.contains("--ckpt-step 1000 --exit-on-missing-checkpoint"));
    }

    #[test]
    fn boundaries() {
        assert_eq!(index_of("core_v0.17.0rc0"), Index::FromOne);
        assert_eq!(index_of("0.16.1"), Index::FromZero);
        assert_eq!(index_of("0.8"), Index::Absent);
        assert_eq!(index_of("main"), Index::Unknown);
        assert_eq!(index_of("1.0"), Index::FromOne);
    }

    #[test]
    fn an_unknown_version_gets_both_lines_and_is_told() {
        let both = asked(None);
        assert_eq!(both.command.unwrap().lines().count(), 2);
        assert!(both.caveats[0].contains("by one"));
    }
}
