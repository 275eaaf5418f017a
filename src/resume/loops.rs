//! Small models of the frameworks' training loops, written from rules/SOURCES.md and the loops themselves, that
//! read a printed command back: what is left out must be what was planned.

use std::collections::VecDeque;

use proptest::prelude::*;

use crate::resume::{Framework, Request, frameworks, resume, skip_fragment};

/// The run that a command is tried on: every update reads `micro` items of `size` samples.
#[derive(Debug, Clone, Copy)]
struct World {
    checkpoint: u64,
    micro: u64,
    size: u64,
    /// Updates after which the models stop.
    end: u64,
}

impl World {
    fn batch(&self) -> u64 {
        self.micro * self.size
    }

    /// A product or a sum of products, with the names that the commands leave to be filled in.
    fn value(&self, text: &str) -> u64 {
        let factor = |name: &str| match name.trim() {
            "${MICRO_BATCHES:?}" | "accelerator.gradient_accumulation_steps" | "accumulation" => {
                self.micro
            }
            "global_batch_size" | "global_train_batch_size" => self.batch(),
            number => number
                .parse()
                .unwrap_or_else(|_| panic!("no number: {number:?} in {text:?}")),
        };
        let product = |term: &str| term.split('*').map(factor).product::<u64>();
        text.split('+').map(product).sum()
    }
}

/// The items, micro-batches in the order of the data, that are trained on; those before the checkpoint are done.
#[derive(Debug, Default)]
struct Trained(Vec<u64>);

impl Trained {
    /// One update on the next items of the loader.
    fn update(&mut self, world: &World, at: &mut u64) {
        self.0.extend(*at..*at + world.micro);
        *at += world.micro;
    }

    /// Items after the checkpoint, up to the last that was trained on, that were left out.
    fn left_out(&self, world: &World) -> Vec<u64> {
        assert!(
            self.0.windows(2).all(|w| w[0] < w[1]),
            "in order and each once"
        );
        let first = world.checkpoint * world.micro;
        let last = *self.0.last().expect("the model trains on");
        (first..last)
            .filter(|i| self.0.binary_search(i).is_err())
            .collect()
    }
}

fn after<'a>(text: &'a str, mark: &str) -> &'a str {
    let at = text
        .find(mark)
        .unwrap_or_else(|| panic!("no {mark:?} in {text:?}"));
    &text[at + mark.len()..]
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    let rest = after(text, open);
    &rest[..rest
        .find(close)
        .unwrap_or_else(|| panic!("no {close:?} after {open:?} in {text:?}"))]
}

fn number(text: &str) -> u64 {
    text.trim()
        .parse()
        .unwrap_or_else(|_| panic!("no number: {text:?}"))
}

/// The words of a shell line, without its comment.
fn words(line: &str) -> Vec<&str> {
    line.split(" # ")
        .next()
        .unwrap_or(line)
        .split_whitespace()
        .collect()
}

/// The numbers that follow a flag, up to the next flag.
fn numbers(line: &str, flag: &str) -> Vec<u64> {
    let words = words(line);
    let at = words
        .iter()
        .position(|w| *w == flag)
        .unwrap_or_else(|| panic!("no {flag} in {line:?}"));
    words[at + 1..]
        .iter()
        .take_while(|w| !w.starts_with("--"))
        .map(|w| number(w))
        .collect()
}

/// What `$(seq a b)` of a line expand to.
fn sequences(line: &str, start: &str) -> Vec<u64> {
    let expand = |piece: &str| {
        let ends: Vec<u64> = piece
            .split(')')
            .next()
            .unwrap_or(piece)
            .split_whitespace()
            .map(number)
            .collect();
        assert_eq!(ends.len(), 2, "{line}");
        ends[0]..=ends[1]
    };
    line.split(start).skip(1).flat_map(expand).collect()
}

/// `a-b` and `a`, with separators between.
fn pairs(text: &str, separator: char) -> Vec<(u64, u64)> {
    let pair = |piece: &str| {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        (number(first), number(last))
    };
    text.split(separator).map(pair).collect()
}

// ---- windows whose counter goes on ----

/// A loop that asks of its counter, before or after it is increased, whether to train on what it reads.
fn absolute(world: &World, increased: bool, skip: impl Fn(u64) -> bool) -> Trained {
    let (mut iteration, mut at) = (world.checkpoint, world.checkpoint * world.micro);
    let mut trained = Trained::default();
    while iteration < world.end {
        if skip(if increased { iteration + 1 } else { iteration }) {
            at += world.micro;
        } else {
            trained.update(world, &mut at);
        }
        iteration += 1;
    }
    trained
}

/// Up to core 0.16 the counter before it is increased is looked up, from 0.17 on the one after.
fn megatron(world: &World, line: &str, increased: bool) -> Trained {
    assert_eq!(numbers(line, "--ckpt-step")[0], world.checkpoint);
    let list = sequences(after(line, "--iterations-to-skip "), "$(seq ");
    absolute(world, increased, |n| list.contains(&n))
}

fn bridge(world: &World, line: &str, increased: bool) -> Trained {
    assert!(line.contains(&format!("checkpoint.ckpt_step={} ", world.checkpoint)));
    let inside = between(line, "\"train.iterations_to_skip=[", "]\"");
    let list = sequences(inside, "$(seq -s, ");
    absolute(world, increased, |n| list.contains(&n))
}

/// `any(i <= iteration + 1 <= j)` over pairs.
fn argonne(world: &World, line: &str) -> Trained {
    let ends = numbers(line, "--train-range-to-skip");
    assert!(ends.len().is_multiple_of(2));
    absolute(world, true, |n| {
        ends.chunks(2).any(|p| p[0] <= n && n <= p[1])
    })
}

/// The step is increased first, and a range ends before its stop.
fn olmo_core(world: &World, text: &str) -> Trained {
    assert!(text.contains(&format!("step{}\"", world.checkpoint)));
    let range = |piece: &str| {
        (
            number(between(piece, "", ", stop=")),
            number(between(piece, ", stop=", ")")),
        )
    };
    let ranges: Vec<(u64, u64)> = text
        .split("StepSkipRange(start=")
        .skip(1)
        .map(range)
        .collect();
    absolute(world, true, |step| {
        ranges
            .iter()
            .any(|(start, stop)| (*start..*stop).contains(&step))
    })
}

/// `BatchSkipper`: the batch count, from 0, is looked up among the ends of spans.
fn internevo(world: &World, text: &str) -> Trained {
    let mut spans: Vec<u64> = Vec::new();
    for (start, end) in pairs(between(text, "skip_batches=\"", "\""), ',') {
        assert!(
            spans.last().is_none_or(|s| *s <= start),
            "asserted by the skipper: {text}"
        );
        spans.extend([start, end + 1]);
    }
    absolute(world, false, |count| {
        spans.partition_point(|s| *s <= count) % 2 == 1
    })
}

/// The loop as it is printed: micro-batches are drawn, then left out by the update that they would make.
fn own_loop(world: &World, text: &str) -> Trained {
    assert_eq!(
        number(between(text, "for update in range(", ",")),
        world.checkpoint + 1
    );
    let each = world.value(between(text, "for _ in range(", ")]"));
    let inside = between(text, "for first, last in [(", ")])");
    let pair = |p: &str| {
        p.split_once(", ")
            .map(|(a, b)| (number(a), number(b)))
            .expect("a pair")
    };
    let ranges: Vec<(u64, u64)> = inside.split("), (").map(pair).collect();
    assert_eq!(each, world.micro);
    absolute(world, true, |update| {
        ranges.iter().any(|(a, b)| *a <= update && update <= *b)
    })
}

/// `FlagScale` looks at one window before it trains, drops what lies in it, and trains on what follows.
fn flagscale(world: &World, line: &str) -> Trained {
    let by_samples = line.contains("--skip-samples-range");
    let flag = if by_samples {
        "--skip-samples-range"
    } else {
        "--skip-iters-range"
    };
    let range = numbers(line, flag);
    let (mut iteration, mut consumed) = (world.checkpoint, world.checkpoint * world.batch());
    let (mut at, mut trained) = (world.checkpoint * world.micro, Trained::default());
    while iteration < world.end {
        let mut until = iteration;
        if by_samples && consumed + world.batch() > range[0] && consumed < range[1] {
            until = iteration + (range[1] - consumed).div_ceil(world.batch());
        } else if !by_samples && range[0] <= iteration && iteration < range[1] {
            until = range[1];
        }
        while iteration < until {
            at += world.micro;
            consumed += world.batch();
            iteration += 1;
        }
        trained.update(world, &mut at);
        consumed += world.batch();
        iteration += 1;
    }
    trained
}

// ---- windows whose counter stands still ----

/// The ranges of `BigScience`'s flag as its arguments are read: in order, those that overlap made one.
fn bigscience_ranges(world: &World, line: &str) -> VecDeque<(u64, u64)> {
    let rest = after(line, "--skip-train-iteration-range ")
        .split(" # ")
        .next()
        .unwrap_or_default();
    // The arithmetic is the shell's: it is done before the words are told apart.
    let done = match rest.find("$((") {
        Some(at) => {
            let inside = between(rest, "$((", "))");
            let tail = after(&rest[at..], "))");
            format!("{}{}{tail}", &rest[..at], world.value(inside))
        }
        None => rest.to_owned(),
    };
    let mut ranges = pairs(done.trim(), ' ');
    ranges.sort_unstable();
    let mut out: VecDeque<(u64, u64)> = VecDeque::new();
    for (start, end) in ranges {
        match out.back_mut() {
            Some(before) if before.1 >= start => before.1 = before.1.max(end),
            _ => out.push_back((start, end)),
        }
    }
    out
}

/// One item of the loader is taken for each iteration of the range, and the iteration does not move.
fn bigscience(world: &World, line: &str, items_of_one: u64) -> Trained {
    let mut ranges = bigscience_ranges(world, line);
    let (mut iteration, mut at) = (world.checkpoint, world.checkpoint * world.micro);
    while ranges.front().is_some_and(|(_, end)| *end < iteration) {
        ranges.pop_front();
    }
    let mut trained = Trained::default();
    while iteration < world.end {
        if ranges
            .front()
            .is_some_and(|(start, end)| (*start..=*end).contains(&(iteration + 1)))
        {
            let (_, end) = ranges.pop_front().expect("looked at");
            at += (end - iteration) * items_of_one;
            continue;
        }
        trained.update(world, &mut at);
        iteration += 1;
    }
    trained
}

/// The number of batches still to drop is kept for each update at which a range begins.
fn metaseq(world: &World, line: &str) -> Trained {
    let words = words(line);
    let at_flag = words
        .iter()
        .position(|w| *w == "--skip-batches")
        .expect("the flag");
    let mut left: Vec<(u64, u64)> = pairs(words[at_flag + 1], ',')
        .into_iter()
        .map(|(start, end)| (start, end - start + 1))
        .collect();
    let (mut updates, mut at) = (world.checkpoint, world.checkpoint * world.micro);
    let mut trained = Trained::default();
    while updates < world.end {
        // A dictionary by first update: of two that begin together the later one stays.
        if let Some((_, count)) = left
            .iter_mut()
            .rev()
            .find(|(start, _)| *start == updates + 1)
            && *count > 0
        {
            *count -= 1;
            at += world.micro;
            continue;
        }
        trained.update(world, &mut at);
        updates += 1;
    }
    trained
}

// ---- the data can only be moved forward ----

/// Trains on from an item, as the loaders do that are given a position.
fn from_item(world: &World, mut at: u64) -> Trained {
    let mut trained = Trained::default();
    for _ in 0..world.end - world.checkpoint {
        trained.update(world, &mut at);
    }
    trained
}

/// A position in samples that is set, or moved by so many.
fn from_samples(world: &World, text: &str, name: &str) -> Trained {
    let rest = after(text, name).split(" # ").next().unwrap_or_default();
    let rest = rest.lines().next().unwrap_or_default().trim();
    let samples = match rest.strip_prefix("+=") {
        Some(by) => world.checkpoint * world.batch() + world.value(by),
        None => world.value(rest.strip_prefix('=').expect("a value")),
    };
    assert!(
        samples.is_multiple_of(world.size),
        "{samples} in micro-batches of {}",
        world.size
    );
    from_item(world, samples / world.size)
}

/// The stage that is trained on counts its own samples; here it began with the run.
fn nanotron(world: &World, text: &str) -> Trained {
    let stage = from_samples(
        world,
        text,
        "metas.data_stages[STAGE].consumed_train_samples",
    );
    let all = from_samples(world, text, "metas.consumed_train_samples");
    assert_eq!(stage.0, all.0);
    stage
}

/// So many batches are added to the position that the checkpoint holds.
fn olmo(world: &World, line: &str) -> Trained {
    let batches = number(
        after(line, "--fast_forward_batches=")
            .split_whitespace()
            .next()
            .unwrap_or_default(),
    );
    from_item(world, (world.checkpoint + batches) * world.micro)
}

/// The position is a batch of the epoch that it lies in.
fn accelerate(world: &World, text: &str) -> Trained {
    let inside = between(text, "skip_first_batches(train_dataloader, ", ")");
    let (batches, of) = inside.split_once(" % ").expect("a remainder");
    assert_eq!(of, "len(train_dataloader");
    let (batches, length) = (world.value(batches), 7 * world.micro);
    let epoch = batches / length;
    from_item(world, epoch * length + batches % length)
}

// ---- what all of them must do ----

/// The models by framework: each line of a command is tried on the loop that it is meant for.
fn trained(name: &str, world: &World, command: &str) -> Vec<Trained> {
    let line = |n: usize| {
        command
            .lines()
            .nth(n)
            .unwrap_or_else(|| panic!("no line {n} in {command:?}"))
    };
    match name {
        "megatron-lm" => vec![
            megatron(world, line(0), true),
            megatron(world, line(1), false),
        ],
        "megatron-lm@0.16" => vec![megatron(world, command, false)],
        "megatron-lm@core_v0.17.0rc0" => vec![megatron(world, command, true)],
        "megatron-bridge" => vec![bridge(world, line(0), false), bridge(world, line(1), true)],
        "megatron-deepspeed" => vec![bigscience(world, line(1), 1), argonne(world, line(2))],
        "bigscience" => vec![bigscience(world, line(1), 1)],
        "argonne-megatron-deepspeed" => vec![argonne(world, line(1))],
        "glm-130b" => vec![
            bigscience(world, line(1), 1),
            bigscience(world, line(2), world.micro),
        ],
        "flagscale" => vec![flagscale(world, command)],
        "nemo" => vec![from_samples(world, command, "consumed_samples ")],
        "composer" => vec![from_samples(world, command, "[\"sample_in_epoch\"] ")],
        "accelerate" => vec![accelerate(world, command)],
        "olmo" => vec![olmo(world, line(0)), olmo_core(world, line(1))],
        "olmo-v1" => vec![olmo(world, command)],
        "olmo-core" => vec![olmo_core(world, command)],
        "nanotron" => vec![nanotron(world, command)],
        "metaseq" => vec![metaseq(world, command)],
        "internevo" => vec![internevo(world, line(1))],
        "torchdata" | "pytorch" => vec![own_loop(world, command)],
        _ => Vec::new(),
    }
}

/// A skip list alone, typed after what loads the checkpoint of the same framework.
fn typed(name: &str, checkpoint: u64, list: &str) -> String {
    let before_each = |lead: String| {
        let lines = list.lines().map(|l| format!("{lead} {l}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    match name.split('@').next().unwrap_or(name) {
        "megatron-lm" => before_each(format!("... --ckpt-step {checkpoint}")),
        "megatron-bridge" => before_each(format!("... checkpoint.ckpt_step={checkpoint}")),
        "olmo" | "olmo-core" => before_each(format!("load_path=\"step{checkpoint}\"")),
        "megatron-deepspeed"
        | "bigscience"
        | "argonne-megatron-deepspeed"
        | "glm-130b"
        | "internevo" => format!("what loads {checkpoint}\n{list}"),
        _ => list.to_owned(),
    }
}

const WINDOW: &[&str] = &[
    "megatron-lm",
    "megatron-lm@0.16",
    "megatron-lm@core_v0.17.0rc0",
    "megatron-bridge",
    "megatron-deepspeed",
    "bigscience",
    "argonne-megatron-deepspeed",
    "glm-130b",
    "flagscale",
    "olmo-core",
    "metaseq",
    "internevo",
    "torchdata",
    "pytorch",
];
const PREFIX: &[&str] = &["nemo", "composer", "accelerate", "olmo-v1", "nanotron"];
/// Lines for two frameworks: the first jumps, the second leaves out a window.
const EITHER: &[&str] = &["olmo"];
const BACK_ONLY: &[&str] = &[
    "deepspeed",
    "gpt-neox",
    "torchtitan",
    "hf-trainer",
    "lightning",
    "levanter",
    "maxtext",
    "megatron-lm@0.8",
];

/// A request and the run it is about; what the log does not tell is left open now and then.
fn planned() -> impl Strategy<Value = (World, Request)> {
    let open = (any::<bool>(), any::<bool>(), any::<bool>());
    (
        0_u64..5000,
        1_u64..200,
        1_u64..150,
        1_u64..9,
        1_u64..5,
        open,
    )
        .prop_map(
            |(checkpoint, gap, length, micro, size, (knows_micro, knows_batch, knows_samples))| {
                let (first, last) = (checkpoint + gap, checkpoint + gap + length - 1);
                let world = World {
                    checkpoint,
                    micro,
                    size,
                    end: last + 50,
                };
                let batch = world.batch();
                let request = Request {
                    checkpoint,
                    skip: Some((first, last)),
                    micro_batches: knows_micro.then_some(micro),
                    batch: knows_batch.then_some(batch),
                    samples: knows_samples.then_some(((first - 1) * batch, last * batch)),
                    ..Request::default()
                };
                (world, request)
            },
        )
}

/// The items of updates.
fn items(world: &World, first: u64, last: u64) -> Vec<u64> {
    ((first - 1) * world.micro..last * world.micro).collect()
}

fn command(name: &str, request: &Request) -> String {
    resume(Some(&Framework::parse(name)), request)
        .command
        .expect("a command")
}

fn quick() -> ProptestConfig {
    ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(quick())]

    #[test]
    fn a_window_is_left_out_and_nothing_else((world, request) in planned()) {
        let (first, last) = request.skip.expect("planned");
        for name in WINDOW {
            let command = command(name, &request);
            let trained = trained(name, &world, &command);
            prop_assert!(!trained.is_empty(), "{}", name);
            for t in trained {
                prop_assert_eq!(t.left_out(&world), items(&world, first, last), "{}: {}", name, command);
            }
        }
    }

    #[test]
    fn a_prefix_jump_leaves_out_all_from_the_checkpoint_to_the_end((world, request) in planned()) {
        let (first, last) = request.skip.expect("planned");
        for name in PREFIX {
            let answer = resume(Some(&Framework::parse(name)), &request);
            prop_assert_eq!(answer.price, Some(first - 1 - world.checkpoint), "{}", name);
            let command = answer.command.expect("a command");
            for t in trained(name, &world, &command) {
                let out = t.0.first().copied().expect("trains on");
                prop_assert_eq!(out, last * world.micro, "{}: {}", name, command);
                prop_assert_eq!(t.left_out(&world), items(&world, world.checkpoint + 1, last), "{}", name);
            }
        }
    }

    #[test]
    fn each_line_is_for_its_own_framework((world, request) in planned()) {
        let (first, last) = request.skip.expect("planned");
        for name in EITHER {
            let both = trained(name, &world, &command(name, &request));
            prop_assert_eq!(both.len(), 2);
            prop_assert_eq!(both[0].0[0], last * world.micro);
            prop_assert_eq!(both[1].left_out(&world), items(&world, first, last));
        }
    }

    /// The loop of the other count leaves out other batches: the two must not be mixed up.
    #[test]
    fn an_index_off_by_one_is_another_window((world, request) in planned()) {
        let (first, last) = request.skip.expect("planned");
        let (old, new) = (command("megatron-lm@0.16", &request), command("megatron-lm@0.17", &request));
        for t in [megatron(&world, &old, true), megatron(&world, &new, false)] {
            prop_assert_ne!(t.left_out(&world), items(&world, first, last));
        }
    }

    #[test]
    fn lists_keep_earlier_ranges((world, request) in planned(), start in 0_u64..400, length in 1_u64..60) {
        let (first, last) = request.skip.expect("planned");
        let earlier = (world.checkpoint + 1 + start, world.checkpoint + start + length);
        let mut planned = items(&world, first, last);
        planned.extend(items(&world, earlier.0, earlier.1));
        planned.sort_unstable();
        planned.dedup();
        let world = World { end: world.end.max(earlier.1 + 1), ..world };
        let keep = ["megatron-lm", "megatron-bridge", "argonne-megatron-deepspeed", "olmo-core", "internevo", "pytorch"];
        for name in keep {
            // InternEvo's log counts from 0, the others' from 1.
            let by = u64::from(name == "internevo");
            let request = Request { earlier: vec![format!("{}-{}", earlier.0 - by, earlier.1 - by)], ..request.clone() };
            let command = command(name, &request);
            for t in trained(name, &world, &command) {
                prop_assert_eq!(t.left_out(&world), planned.clone(), "{}: {}", name, command);
            }
        }
    }

    #[test]
    fn a_mere_rollback_keeps_earlier_ranges((world, request) in planned(), start in 0_u64..400) {
        let earlier = (world.checkpoint + 1 + start, world.checkpoint + 3 + start);
        let world = World { end: world.end.max(earlier.1 + 1), ..world };
        for name in ["megatron-lm@0.16", "argonne-megatron-deepspeed", "olmo-core", "pytorch"] {
            let earlier = vec![format!("{}-{}", earlier.0, earlier.1)];
            let request = Request { skip: None, samples: None, earlier, ..request.clone() };
            prop_assert_eq!(skip_fragment(Some(&Framework::parse(name)), &request), None);
            for t in trained(name, &world, &command(name, &request)) {
                prop_assert_eq!(t.left_out(&world), items(&world, world.checkpoint + 1 + start, world.checkpoint + 3 + start));
            }
        }
    }

    /// What is part of the checkpoint cannot be left out; the rest of the range is.
    #[test]
    fn a_range_from_before_the_checkpoint_is_cut((world, request) in planned(), before in 0_u64..500) {
        let (first, last) = request.skip.expect("planned");
        let begin = world.checkpoint.saturating_sub(before).max(1);
        prop_assume!(begin < first);
        let batch = world.batch();
        let samples = request.samples.map(|_| ((begin - 1) * batch, last * batch));
        let request = Request { skip: Some((begin, last)), samples, ..request };
        for name in WINDOW.iter().chain(PREFIX) {
            let answer = resume(Some(&Framework::parse(name)), &request);
            let command = answer.command.expect("a command");
            for t in trained(name, &world, &command) {
                prop_assert_eq!(t.left_out(&world), items(&world, begin.max(world.checkpoint + 1), last), "{}", name);
            }
            prop_assert!(answer.price.is_none_or(|p| p == begin.saturating_sub(world.checkpoint + 1)));
        }
    }

    /// After a skip that the counter knows nothing of, the log's steps name data further on.
    #[test]
    fn relative_ranges_follow_the_shift_of_earlier_ones(
        (world, request) in planned(), before in 1_u64..100, length in 1_u64..40,
    ) {
        let (first, last) = request.skip.expect("planned");
        prop_assume!(before < first - world.checkpoint);
        let start = first - before;
        let request = Request { earlier: vec![format!("{start}-{}", start + length - 1)], ..request };
        for (name, shift) in [("bigscience", length), ("metaseq", length * world.micro)] {
            let answer = resume(Some(&Framework::parse(name)), &request);
            if name == "bigscience" && length > before {
                prop_assert!(!answer.can_skip && answer.caveats[0].contains("melts"), "{:?}", answer);
                continue;
            }
            let mut planned: Vec<u64> = ((start - 1) * world.micro..(start - 1) * world.micro + shift).collect();
            planned.extend(items(&world, first, last).iter().map(|i| i + shift));
            let command = answer.command.expect("a command");
            for t in trained(name, &world, &command) {
                prop_assert_eq!(t.left_out(&world), planned.clone(), "{}: {}", name, command);
            }
        }
    }

    /// A range that is behind the checkpoint would block BigScience's queue if it ended there; it is not repeated.
    #[test]
    fn relative_ranges_behind_the_checkpoint_are_not_repeated((world, request) in planned(), back in 0_u64..3) {
        let (first, last) = request.skip.expect("planned");
        prop_assume!(world.checkpoint > 5);
        let end = world.checkpoint - back;
        let request = Request { earlier: vec![format!("{}-{end}", end - 2)], ..request };
        for name in ["bigscience", "metaseq"] {
            let answer = resume(Some(&Framework::parse(name)), &request);
            let command = answer.command.expect("a command");
            for t in trained(name, &world, &command) {
                prop_assert_eq!(t.left_out(&world), items(&world, first, last), "{}: {}", name, command);
            }
            prop_assert!(answer.caveats.iter().any(|c| c.contains("recompute the range")), "{:?}", answer.caveats);
        }
    }

    #[test]
    fn the_skip_alone_is_part_of_the_command((_, request) in planned()) {
        for name in WINDOW.iter().chain(PREFIX) {
            let fragment = skip_fragment(Some(&Framework::parse(name)), &request).expect("a fragment");
            let command = command(name, &request);
            prop_assert!(fragment.lines().all(|l| command.contains(l)), "{}: {} in {}", name, fragment, command);
        }
    }

    /// What `--skip-format` prints, read back by the loop of each framework that can skip.
    #[test]
    fn the_skip_alone_leaves_out_what_was_planned((world, request) in planned()) {
        let (first, last) = request.skip.expect("planned");
        let window = items(&world, first, last);
        let prefix = items(&world, world.checkpoint + 1, last);
        for name in WINDOW.iter().chain(PREFIX).chain(EITHER) {
            let list = skip_fragment(Some(&Framework::parse(name)), &request).expect("a list");
            let all = trained(name, &world, &typed(name, world.checkpoint, &list));
            prop_assert!(!all.is_empty(), "{}", name);
            for (n, t) in all.iter().enumerate() {
                let jumps = PREFIX.contains(name) || (EITHER.contains(name) && n == 0);
                let planned = if jumps { &prefix } else { &window };
                prop_assert_eq!(&t.left_out(&world), planned, "{}: {}", name, list);
            }
        }
    }

    #[test]
    fn those_that_cannot_skip_say_so((_, request) in planned()) {
        for name in BACK_ONLY {
            let framework = Framework::parse(name);
            let answer = resume(Some(&framework), &request);
            prop_assert!(!answer.can_skip && answer.price.is_none() && answer.base.is_none());
            prop_assert_eq!(skip_fragment(Some(&framework), &request), None);
            prop_assert!(answer.caveats.iter().any(|c| c.contains("ways out")), "{:?}", answer.caveats);
            let back = Request { skip: None, ..request.clone() };
            prop_assert_eq!(answer.command, Some(command(name, &back)));
        }
    }

    #[test]
    fn without_a_skip_nothing_is_left_out(checkpoint in 0_u64..100_000) {
        let request = Request { checkpoint, ..Request::default() };
        for (name, _) in frameworks() {
            let framework = Framework::parse(name);
            let answer = resume(Some(&framework), &request);
            let command = answer.command.expect("a command");
            prop_assert!(!command.contains("skip") || *name == "accelerate", "{}", command);
            prop_assert!(!command.contains("forward") && !command.contains("+="), "{}", command);
            prop_assert_eq!((answer.price, skip_fragment(Some(&framework), &request)), (None, None));
        }
    }
}

#[test]
fn every_framework_has_its_model() {
    for (name, line) in frameworks() {
        let kinds = [WINDOW, PREFIX, EITHER, BACK_ONLY]
            .iter()
            .filter(|k| k.contains(name))
            .count();
        assert_eq!(kinds, 1, "{name}");
        assert!(!line.is_empty() && line.len() < 100);
        assert_eq!(
            Framework::parse(name).name,
            *name,
            "the name stands for itself"
        );
    }
}
