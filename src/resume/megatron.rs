//! Megatron-LM: `--ckpt-step` and `--iterations-to-skip` (rules/SOURCES.md).

use crate::resume::shared::{Jump, Range, back, in_force, joined, repeated, root};
use crate::resume::{Framework, Request, Resume};

/// How a version counts `--iterations-to-skip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    /// The flag does not exist before core 0.9.
    Absent,
    /// Compares the counter before it is increased: from 0 (up to core 0.16). Read at 0.14 to 0.16 only.
    FromZero { read: bool },
    /// Compares the printed iteration: from 1 (core 0.17.0rc0 on, PR #3957).
    FromOne,
    /// The version is not known.
    Unknown,
}

pub(super) const SURVIVES: &str = "the data position survives a change of data-parallel size, if global batch size, \
     seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one";

/// Asks for the checkpoint of so many updates; `FlagScale` shares it.
pub(super) fn load(request: &Request) -> String {
    format!(
        "... --load {} --ckpt-step {} --exit-on-missing-checkpoint",
        root(request, "iter_"),
        request.checkpoint
    )
}

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let index = index_of(framework.version.as_deref());
    let load = load(request);
    let lines: Vec<String> = lists(index, request)
        .iter()
        .map(|list| format!("{load} {list}"))
        .collect();
    let command = if lines.is_empty() {
        load
    } else {
        lines.join("\n")
    };
    let mut caveats = Vec::new();
    if request.skip.is_some() || !request.earlier.is_empty() {
        index_caveats(index, request, &mut caveats);
    }
    if !lines.is_empty() {
        skip_caveats(request, &mut caveats);
    }
    Resume {
        base: match index {
            Index::FromZero { .. } => Some(0),
            Index::FromOne => Some(1),
            Index::Absent | Index::Unknown => None,
        },
        survives: SURVIVES.to_owned(),
        can_skip: index != Index::Absent,
        caveats,
        ..back(framework, "iterations", command)
    }
}

pub(super) fn fragment(framework: &Framework, request: &Request) -> Option<String> {
    request.skip?;
    let lists = lists(index_of(framework.version.as_deref()), request);
    (!lists.is_empty()).then(|| lists.join("\n"))
}

fn index_of(version: Option<&str>) -> Index {
    let Some(version) = version else {
        return Index::Unknown;
    };
    let core = version.strip_prefix("core_").unwrap_or(version);
    let numbers = core.trim_start_matches(['v', 'r']);
    let mut parts = numbers.split(['.', '-']).map(|p| {
        p.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    });
    let part = |p: Option<String>| p.and_then(|p| p.parse::<u64>().ok());
    match (part(parts.next()), part(parts.next())) {
        (Some(0), Some(minor)) if minor < 9 => Index::Absent,
        (Some(0), Some(minor)) if minor < 17 => Index::FromZero { read: minor >= 14 },
        (Some(0), Some(_)) => Index::FromOne,
        // Without the prefix this may be one of the releases of before core: v1.0 to v3.0, 23.06.
        (Some(1..), _) if core != version => Index::FromOne,
        _ => Index::Unknown,
    }
}

/// The flag and its list, once for each way to count that the version leaves open.
fn lists(index: Index, request: &Request) -> Vec<String> {
    let ranges = in_force(request, 1);
    if ranges.is_empty() {
        return Vec::new();
    }
    let (one, zero) = (list(&ranges, 1), list(&ranges, 0));
    match index {
        Index::Absent => Vec::new(),
        Index::FromZero { .. } => vec![zero],
        Index::FromOne => vec![one],
        Index::Unknown => vec![
            format!("{one}   # core 0.17 and later"),
            format!("{zero}   # core 0.9 to 0.16"),
        ],
    }
}

fn list(ranges: &[Range], base: u64) -> String {
    let numbers = joined(ranges, " ", |(first, last)| {
        format!("$(seq {} {})", first + base - 1, last + base - 1)
    });
    format!("--iterations-to-skip {numbers}")
}

fn index_caveats(index: Index, request: &Request, caveats: &mut Vec<String>) {
    match index {
        Index::Absent => caveats.push(
            "this version has no --iterations-to-skip: the command only goes back; ways out: core 0.9 or later, another \
             seed, or consumed_train_samples moved forward in the checkpoint"
                .to_owned(),
        ),
        Index::FromZero { read } => {
            caveats.push(
                "core 0.9 to 0.16 count --iterations-to-skip from 0: the list is one below the printed iterations; \
                 tracker files of these versions count from 0 too"
                    .to_owned(),
            );
            if !read {
                caveats.push(
                    "counting from 0 was checked at 0.14 to 0.16 and is not verified for this version; the flag came with \
                     4dc6b7157a (2025-02-14), an older build refuses it"
                        .to_owned(),
                );
            }
        }
        Index::FromOne => caveats.push(
            "core 0.17 and later count --iterations-to-skip from 1, as the log prints them".to_owned(),
        ),
        Index::Unknown => caveats.push(
            "the version decides by one which batches are skipped: give it with --framework megatron-lm@VERSION, or take \
             the line for your version (core before 0.9 has no such flag)"
                .to_owned(),
        ),
    }
    if index == Index::Absent && !request.earlier.is_empty() {
        caveats.push(format!(
            "earlier skips stay in force, see that they still are left out: {}",
            request.earlier.join(", ")
        ));
    }
}

fn skip_caveats(request: &Request, caveats: &mut Vec<String>) {
    caveats.push(
        "the right batches are skipped only if global batch size, seed, sequence length, split, tokenizer and number of \
         samples are unchanged and the sampler is sequential: --dataloader-type cyclic and external loaders \
         (--dataloader-save) keep a position for each data-parallel rank"
            .to_owned(),
    );
    scheduler(caveats);
    caveats.push("skipped batches are loaded and dropped, which takes its time".to_owned());
    if request.ramp {
        caveats.push("the batch size changes between the checkpoint and the skipped range: keep the same ramp-up".to_owned());
    }
    repeated(request, 1, caveats);
    if let (Some(jump), Some((_, last))) = (Jump::of(request), request.skip) {
        caveats.push(format!(
            "newer versions have --override-ckpt-iteration {last} instead of the list: it moves the data and the step \
             counter to {last} at once and loses {} good batches more",
            jump.lost
        ));
    }
}

/// What skipping does to the learning rate.
pub(super) fn scheduler(caveats: &mut Vec<String>) {
    caveats.push(
        "the learning-rate scheduler is not stepped while batches are skipped: the rate lags the samples from then on, \
         until a restart with --override-opt-param-scheduler makes it jump and takes its maximum and minimum from the \
         command line"
            .to_owned(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip_of_an_unknown_version() {
        assert_eq!(
            told("megatron-lm", &skip()),
            "... --load $CHECKPOINT_DIR --ckpt-step 1000 --exit-on-missing-checkpoint --iterations-to-skip $(seq 1015 1040)   # core 0.17 and later
... --load $CHECKPOINT_DIR --ckpt-step 1000 --exit-on-missing-checkpoint --iterations-to-skip $(seq 1014 1039)   # core 0.9 to 0.16
iterations; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
- the version decides by one which batches are skipped: give it with --framework megatron-lm@VERSION, or take the line for your version (core before 0.9 has no such flag)
- the right batches are skipped only if global batch size, seed, sequence length, split, tokenizer and number of samples are unchanged and the sampler is sequential: --dataloader-type cyclic and external loaders (--dataloader-save) keep a position for each data-parallel rank
- the learning-rate scheduler is not stepped while batches are skipped: the rate lags the samples from then on, until a restart with --override-opt-param-scheduler makes it jump and takes its maximum and minimum from the command line
- skipped batches are loaded and dropped, which takes its time
- newer versions have --override-ckpt-iteration 1040 instead of the list: it moves the data and the step counter to 1040 at once and loses 14 good batches more
"
        );
    }

    #[test]
    fn a_skip_from_one() {
        assert_eq!(
            told("megatron-lm@0.17", &Request { path: Some("/ckpt/iter_0001000".to_owned()), earlier: vec!["905-907".to_owned(), "twice".to_owned()], ramp: true, ..skip() }),
            "... --load /ckpt --ckpt-step 1000 --exit-on-missing-checkpoint --iterations-to-skip $(seq 905 907) $(seq 1015 1040)
iterations from 1; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
- core 0.17 and later count --iterations-to-skip from 1, as the log prints them
- the right batches are skipped only if global batch size, seed, sequence length, split, tokenizer and number of samples are unchanged and the sampler is sequential: --dataloader-type cyclic and external loaders (--dataloader-save) keep a position for each data-parallel rank
- the learning-rate scheduler is not stepped while batches are skipped: the rate lags the samples from then on, until a restart with --override-opt-param-scheduler makes it jump and takes its maximum and minimum from the command line
- skipped batches are loaded and dropped, which takes its time
- the batch size changes between the checkpoint and the skipped range: keep the same ramp-up
- earlier skips stay in force and are repeated in the list: 905-907
- earlier skips stay in force, add them to the list by hand: twice
- newer versions have --override-ckpt-iteration 1040 instead of the list: it moves the data and the step counter to 1040 at once and loses 14 good batches more
"
        );
    }

    #[test]
    fn a_skip_from_zero() {
        assert_eq!(
            told("megatron-lm@core_v0.16.1", &skip()),
            "... --load $CHECKPOINT_DIR --ckpt-step 1000 --exit-on-missing-checkpoint --iterations-to-skip $(seq 1014 1039)
iterations from 0; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
- core 0.9 to 0.16 count --iterations-to-skip from 0: the list is one below the printed iterations; tracker files of these versions count from 0 too
- the right batches are skipped only if global batch size, seed, sequence length, split, tokenizer and number of samples are unchanged and the sampler is sequential: --dataloader-type cyclic and external loaders (--dataloader-save) keep a position for each data-parallel rank
- the learning-rate scheduler is not stepped while batches are skipped: the rate lags the samples from then on, until a restart with --override-opt-param-scheduler makes it jump and takes its maximum and minimum from the command line
- skipped batches are loaded and dropped, which takes its time
- newer versions have --override-ckpt-iteration 1040 instead of the list: it moves the data and the step counter to 1040 at once and loses 14 good batches more
"
        );
    }

    #[test]
    fn a_skip_of_a_version_that_was_not_read() {
        assert_eq!(
            told("megatron-lm@0.12", &skip()),
            "... --load $CHECKPOINT_DIR --ckpt-step 1000 --exit-on-missing-checkpoint --iterations-to-skip $(seq 1014 1039)
iterations from 0; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
- core 0.9 to 0.16 count --iterations-to-skip from 0: the list is one below the printed iterations; tracker files of these versions count from 0 too
- counting from 0 was checked at 0.14 to 0.16 and is not verified for this version; the flag came with 4dc6b7157a (2025-02-14), an older build refuses it
- the right batches are skipped only if global batch size, seed, sequence length, split, tokenizer and number of samples are unchanged and the sampler is sequential: --dataloader-type cyclic and external loaders (--dataloader-save) keep a position for each data-parallel rank
- the learning-rate scheduler is not stepped while batches are skipped: the rate lags the samples from then on, until a restart with --override-opt-param-scheduler makes it jump and takes its maximum and minimum from the command line
- skipped batches are loaded and dropped, which takes its time
- newer versions have --override-ckpt-iteration 1040 instead of the list: it moves the data and the step counter to 1040 at once and loses 14 good batches more
"
        );
    }

    #[test]
    fn a_skip_of_a_version_without_the_flag() {
        assert_eq!(
            told("megatron-lm@0.8", &Request { earlier: vec!["905-907".to_owned()], ..skip() }),
            "... --load $CHECKPOINT_DIR --ckpt-step 1000 --exit-on-missing-checkpoint
iterations; cannot skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
- this version has no --iterations-to-skip: the command only goes back; ways out: core 0.9 or later, another seed, or consumed_train_samples moved forward in the checkpoint
- earlier skips stay in force, see that they still are left out: 905-907
"
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("megatron-lm@0.17", &rollback()),
            "... --load $CHECKPOINT_DIR --ckpt-step 1000 --exit-on-missing-checkpoint
iterations from 1; can skip; the data position survives a change of data-parallel size, if global batch size, seed, sequence length, split, tokenizer and number of samples stay and the sampler is the sequential one
"
        );
    }

    #[test]
    fn boundaries() {
        let index = |version: &str| index_of(Some(version));
        assert_eq!(index("core_v0.17.0rc0"), Index::FromOne);
        assert_eq!(index("0.17"), Index::FromOne);
        assert_eq!(index("core_r0.16.0"), Index::FromZero { read: true });
        assert_eq!(index("0.16.1"), Index::FromZero { read: true });
        assert_eq!(index("0.13"), Index::FromZero { read: false });
        assert_eq!(index("0.9.0"), Index::FromZero { read: false });
        assert_eq!(index("v0.8"), Index::Absent);
        assert_eq!(index("main"), Index::Unknown);
        assert_eq!(index("core_v1.0"), Index::FromOne);
        // Older than core, or newer? Neither may be assumed.
        assert_eq!(index("3.0"), Index::Unknown);
        assert_eq!(index("23.06"), Index::Unknown);
        assert_eq!(index_of(None), Index::Unknown);
    }
}
