//! Megatron-DeepSpeed and its forks: `BigScience`, Argonne, GLM-130B (rules/SOURCES.md).

use crate::resume::shared::{Range, back, dashed, earlier, in_force, joined, repeated, root};
use crate::resume::{Framework, Request, Resume};

/// The forks skip each in a way of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fork {
    BigScience,
    Argonne,
    Glm,
    Unknown,
}

fn fork(framework: &Framework) -> Fork {
    match framework.name.as_str() {
        "bigscience" => Fork::BigScience,
        "argonne-megatron-deepspeed" => Fork::Argonne,
        "glm-130b" => Fork::Glm,
        _ => Fork::Unknown,
    }
}

pub(super) fn resume(framework: &Framework, request: &Request) -> Resume {
    let fork = fork(framework);
    let root = root(request, "global_step");
    let tag = format!("echo global_step{} > {root}/latest", request.checkpoint);
    let load = format!("... --load {root}");
    let flags = flags(fork, request);
    let mut lines = vec![tag];
    if flags.is_empty() {
        lines.push(load);
    } else {
        lines.extend(flags.iter().map(|f| format!("{load} {f}")));
    }
    let mut caveats = Vec::new();
    if request.skip.is_some() || !request.earlier.is_empty() {
        fork_caveats(fork, request, &mut caveats);
    }
    caveats.push("the checkpoint is chosen by the file latest: keep a copy of it".to_owned());
    Resume {
        base: Some(1),
        survives: "what the data position survives is not known: keep data-parallel size, micro-batch and global batch \
                   size as they were"
            .to_owned(),
        can_skip: request.skip.is_none() || !flags.is_empty(),
        caveats,
        ..back(framework, unit(fork), lines.join("\n"))
    }
}

fn unit(fork: Fork) -> &'static str {
    match fork {
        Fork::BigScience | Fork::Glm => "iterations of one micro-batch",
        Fork::Argonne | Fork::Unknown => "iterations",
    }
}

pub(super) fn fragment(framework: &Framework, request: &Request) -> Option<String> {
    request.skip?;
    let flags = flags(fork(framework), request);
    (!flags.is_empty()).then(|| flags.join("\n"))
}

/// The flag, once for each loop that may be meant.
fn flags(fork: Fork, request: &Request) -> Vec<String> {
    let argonne = argonne(request);
    let micro = relative(request, true);
    match fork {
        Fork::BigScience => micro.into_iter().collect(),
        Fork::Argonne => argonne.into_iter().collect(),
        Fork::Glm => {
            let whole =
                relative(request, false).map(|f| format!("{f}   # if it takes a whole batch"));
            let micro =
                micro.map(|f| format!("{f}   # if the loop takes one micro-batch an iteration"));
            micro.into_iter().chain(whole).collect()
        }
        Fork::Unknown => {
            let micro = micro.map(|f| format!("{f}   # BigScience"));
            let argonne = argonne.map(|f| format!("{f}   # Argonne"));
            micro.into_iter().chain(argonne).collect()
        }
    }
}

fn argonne(request: &Request) -> Option<String> {
    let ranges = in_force(request, 1);
    let pairs = joined(&ranges, " ", |(first, last)| format!("{first} {last}"));
    (!ranges.is_empty()).then(|| format!("--train-range-to-skip {pairs}"))
}

/// Earlier ranges by what they mean for a loop whose counter stands still while it skips.
struct Past {
    /// Between the checkpoint and the new range: the loop comes by again and must skip again.
    again: Vec<Range>,
    /// In the data before the checkpoint, after the new range, or not readable.
    shifts: bool,
    /// Runs into the new range, and the loop would melt the two into one.
    collides: bool,
}

fn past(request: &Request) -> Past {
    let (read, unread) = earlier(request, 1);
    let begin = request.skip.map_or(u64::MAX, |(first, _)| first);
    let (again, other): (Vec<Range>, Vec<Range>) = read
        .into_iter()
        .partition(|(first, _)| *first > request.checkpoint && *first < begin);
    Past {
        collides: again.iter().any(|(_, last)| *last >= begin),
        shifts: !other.is_empty() || !unread.is_empty(),
        again,
    }
}

/// `BigScience`'s flag: the loop takes one item of the loader an iteration of the range, and the items are micro-batches.
fn relative(request: &Request, micro: bool) -> Option<String> {
    let past = past(request);
    if past.collides {
        return None;
    }
    let mut ranges: Vec<String> = Vec::new();
    if !past.again.is_empty() {
        ranges.push(dashed(&past.again, " "));
    }
    if let Some((first, last)) = request.skip {
        ranges.push(format!("{first}-{}", end(request, first, last, micro)));
    }
    (!ranges.is_empty()).then(|| format!("--skip-train-iteration-range {}", ranges.join(" ")))
}

fn end(request: &Request, first: u64, last: u64, micro: bool) -> String {
    let updates = last - first + 1;
    if !micro {
        return last.to_string();
    }
    match items(request, updates) {
        Some(items) => (first - 1 + items).to_string(),
        None => format!("$(({} + {updates} * ${{MICRO_BATCHES:?}}))", first - 1),
    }
}

/// Micro-batches of one rank in the range: from its samples, or by the size of its first batch.
fn items(request: &Request, updates: u64) -> Option<u64> {
    let micro = request.micro_batches?;
    let by_samples = || {
        let (from, until) = request.samples?;
        let batch = request.batch.filter(|b| *b > 0)?;
        let whole = (until - from) * micro;
        (whole % batch == 0).then_some(whole / batch)
    };
    Some(by_samples().unwrap_or(updates * micro))
}

fn fork_caveats(fork: Fork, request: &Request, caveats: &mut Vec<String>) {
    match fork {
        Fork::Unknown => caveats.push(
            "the fork decides what a range means: name it with --framework bigscience, argonne-megatron-deepspeed or \
             glm-130b, or take the line for your fork"
                .to_owned(),
        ),
        Fork::Glm => caveats.push(
            "the loop of this fork is not verified, only its flag and its log: take the line that fits what a skipped \
             iteration takes from the loader"
                .to_owned(),
        ),
        Fork::BigScience | Fork::Argonne => {}
    }
    if fork != Fork::Argonne {
        relative_caveats(fork, request, caveats);
    }
    if matches!(fork, Fork::Argonne | Fork::Unknown) {
        argonne_caveats(request, caveats);
    }
}

fn relative_caveats(fork: Fork, request: &Request, caveats: &mut Vec<String>) {
    let past = past(request);
    past_caveats(&past, request, caveats);
    let Some((first, last)) = request.skip.filter(|_| !past.collides) else {
        return;
    };
    match request.micro_batches {
        None => caveats.push(
            "--skip-train-iteration-range takes one micro-batch for each iteration of the range: set MICRO_BATCHES to \
             global batch size / (micro-batch size x data-parallel size)"
                .to_owned(),
        ),
        Some(n) if fork != Fork::Glm => caveats.push(format!(
            "--skip-train-iteration-range takes one micro-batch for each iteration of the range: it is {n} times as long \
             as the {} batches",
            last - first + 1
        )),
        Some(_) => {}
    }
    caveats.push(format!(
        "neither the iteration nor consumed_train_samples moves while it skips: take the range off once a checkpoint \
         after {first} is loaded, and mind that such a restart goes back in the data by what was skipped (#189, #230)"
    ));
    caveats.push(
        "from here on the steps of the log no longer name the same data: later ranges must be recomputed"
            .to_owned(),
    );
    if request.ramp {
        caveats.push("the batch size changes between the checkpoint and the skipped range: keep the same ramp-up".to_owned());
    }
}

fn past_caveats(past: &Past, request: &Request, caveats: &mut Vec<String>) {
    if past.collides {
        caveats.push(format!(
            "an earlier range ({}) runs into the new one, and --skip-train-iteration-range melts ranges that overlap: \
             take a checkpoint after the earlier skip, or move consumed_train_samples in the checkpoint",
            request.earlier.join(", ")
        ));
    } else if !past.again.is_empty() {
        caveats.push(format!(
            "earlier skips after the checkpoint are repeated as they were typed: {}",
            dashed(&past.again, ", ")
        ));
    }
    if past.shifts {
        caveats.push(format!(
            "this run has skipped before ({}), and its steps may no longer name the data that a restart reads: recompute \
             the range from the samples that are read after the restart",
            request.earlier.join(", ")
        ));
    }
}

fn argonne_caveats(request: &Request, caveats: &mut Vec<String>) {
    caveats.push(
        "--train-range-to-skip takes pairs of printed iterations, both ends included; iteration, samples and learning \
         rate move on while it skips; --train-iters-to-skip is another thing: it runs forward and leaves the backward \
         pass out"
            .to_owned(),
    );
    repeated(request, 1, caveats);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resume::shared::tests::{rollback, skip, told};

    #[test]
    fn a_skip_of_an_unknown_fork() {
        assert_eq!(
            told("megatron-deepspeed", &skip()),
            "echo global_step1000 > $CHECKPOINT_DIR/latest
... --load $CHECKPOINT_DIR --skip-train-iteration-range 1015-1118   # BigScience
... --load $CHECKPOINT_DIR --train-range-to-skip 1015 1040   # Argonne
iterations from 1; can skip; what the data position survives is not known: keep data-parallel size, micro-batch and global batch size as they were
- the fork decides what a range means: name it with --framework bigscience, argonne-megatron-deepspeed or glm-130b, or take the line for your fork
- --skip-train-iteration-range takes one micro-batch for each iteration of the range: it is 4 times as long as the 26 batches
- neither the iteration nor consumed_train_samples moves while it skips: take the range off once a checkpoint after 1015 is loaded, and mind that such a restart goes back in the data by what was skipped (#189, #230)
- from here on the steps of the log no longer name the same data: later ranges must be recomputed
- --train-range-to-skip takes pairs of printed iterations, both ends included; iteration, samples and learning rate move on while it skips; --train-iters-to-skip is another thing: it runs forward and leaves the backward pass out
- the checkpoint is chosen by the file latest: keep a copy of it
"
        );
    }

    #[test]
    fn a_skip_by_bigscience() {
        assert_eq!(
            told("bigscience", &Request { path: Some("/ckpt/global_step1000".to_owned()), earlier: vec!["905-907".to_owned(), "1005-1008".to_owned()], ..skip() }),
            "echo global_step1000 > /ckpt/latest
... --load /ckpt --skip-train-iteration-range 1005-1008 1015-1118
iterations of one micro-batch from 1; can skip; what the data position survives is not known: keep data-parallel size, micro-batch and global batch size as they were
- earlier skips after the checkpoint are repeated as they were typed: 1005-1008
- this run has skipped before (905-907, 1005-1008), and its steps may no longer name the data that a restart reads: recompute the range from the samples that are read after the restart
- --skip-train-iteration-range takes one micro-batch for each iteration of the range: it is 4 times as long as the 26 batches
- neither the iteration nor consumed_train_samples moves while it skips: take the range off once a checkpoint after 1015 is loaded, and mind that such a restart goes back in the data by what was skipped (#189, #230)
- from here on the steps of the log no longer name the same data: later ranges must be recomputed
- the checkpoint is chosen by the file latest: keep a copy of it
"
        );
    }

    #[test]
    fn a_skip_whose_micro_batches_are_not_known() {
        assert_eq!(
            told("bigscience", &Request { micro_batches: None, ramp: true, ..skip() }),
            "echo global_step1000 > $CHECKPOINT_DIR/latest
... --load $CHECKPOINT_DIR --skip-train-iteration-range 1015-$((1014 + 26 * ${MICRO_BATCHES:?}))
iterations of one micro-batch from 1; can skip; what the data position survives is not known: keep data-parallel size, micro-batch and global batch size as they were
- --skip-train-iteration-range takes one micro-batch for each iteration of the range: set MICRO_BATCHES to global batch size / (micro-batch size x data-parallel size)
- neither the iteration nor consumed_train_samples moves while it skips: take the range off once a checkpoint after 1015 is loaded, and mind that such a restart goes back in the data by what was skipped (#189, #230)
- from here on the steps of the log no longer name the same data: later ranges must be recomputed
- the batch size changes between the checkpoint and the skipped range: keep the same ramp-up
- the checkpoint is chosen by the file latest: keep a copy of it
"
        );
    }

    #[test]
    fn a_skip_that_runs_into_an_earlier_one() {
        assert_eq!(
            told("bigscience", &Request { earlier: vec!["1005-1015".to_owned()], ..skip() }),
            "echo global_step1000 > $CHECKPOINT_DIR/latest
... --load $CHECKPOINT_DIR
iterations of one micro-batch from 1; cannot skip; what the data position survives is not known: keep data-parallel size, micro-batch and global batch size as they were
- an earlier range (1005-1015) runs into the new one, and --skip-train-iteration-range melts ranges that overlap: take a checkpoint after the earlier skip, or move consumed_train_samples in the checkpoint
- the checkpoint is chosen by the file latest: keep a copy of it
"
        );
    }

    #[test]
    fn a_skip_by_argonne() {
        assert_eq!(
            told("argonne-megatron-deepspeed", &Request { earlier: vec!["905-907".to_owned()], ..skip() }),
            "echo global_step1000 > $CHECKPOINT_DIR/latest
... --load $CHECKPOINT_DIR --train-range-to-skip 905 907 1015 1040
iterations from 1; can skip; what the data position survives is not known: keep data-parallel size, micro-batch and global batch size as they were
- --train-range-to-skip takes pairs of printed iterations, both ends included; iteration, samples and learning rate move on while it skips; --train-iters-to-skip is another thing: it runs forward and leaves the backward pass out
- earlier skips stay in force and are repeated in the list: 905-907
- the checkpoint is chosen by the file latest: keep a copy of it
"
        );
    }

    #[test]
    fn a_skip_by_glm() {
        assert_eq!(
            told("glm-130b", &skip()),
            "echo global_step1000 > $CHECKPOINT_DIR/latest
... --load $CHECKPOINT_DIR --skip-train-iteration-range 1015-1118   # if the loop takes one micro-batch an iteration
... --load $CHECKPOINT_DIR --skip-train-iteration-range 1015-1040   # if it takes a whole batch
iterations of one micro-batch from 1; can skip; what the data position survives is not known: keep data-parallel size, micro-batch and global batch size as they were
- the loop of this fork is not verified, only its flag and its log: take the line that fits what a skipped iteration takes from the loader
- neither the iteration nor consumed_train_samples moves while it skips: take the range off once a checkpoint after 1015 is loaded, and mind that such a restart goes back in the data by what was skipped (#189, #230)
- from here on the steps of the log no longer name the same data: later ranges must be recomputed
- the checkpoint is chosen by the file latest: keep a copy of it
"
        );
    }

    #[test]
    fn a_rollback_alone() {
        assert_eq!(
            told("bigscience", &rollback()),
            "echo global_step1000 > $CHECKPOINT_DIR/latest
... --load $CHECKPOINT_DIR
iterations of one micro-batch from 1; can skip; what the data position survives is not known: keep data-parallel size, micro-batch and global batch size as they were
- the checkpoint is chosen by the file latest: keep a copy of it
"
        );
    }

    /// Batches that grow hold more micro-batches than the first one tells.
    #[test]
    fn micro_batches_follow_the_samples_of_a_ramp() {
        let request = Request {
            samples: Some((500_000, 500_000 + 26 * 512 + 128)),
            ramp: true,
            ..skip()
        };
        let last = 1014 + 26 * 4 + 1;
        assert_eq!(
            relative(&request, true),
            Some(format!("--skip-train-iteration-range 1015-{last}"))
        );
    }
}
