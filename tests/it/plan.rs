//! Plans: data order along batch ramps, what Megatron makes of the command, and which checkpoint is gone back to.

use proptest::prelude::*;
use whyspike::checkpoints::{Given, inventory};
use whyspike::data_order::DataOrder;
use whyspike::plan::Action;
use whyspike::resume::{Framework, Request, resume};
use whyspike::run::{BuildOptions, EventKind, Rows, Run};

use crate::support::{Curve, Noise, built, diagnosed, fixture, read};

/// A run that logs every k-th step of a schedule of batch sizes, with the samples read or the sizes alone.
fn ramp(batches: &[u64], base: u64, every: usize, samples: bool) -> Run {
    let mut rows = Rows::default();
    let (column, loss) = (
        rows.slot(if samples {
            "consumed_samples"
        } else {
            "global_batch_size"
        }),
        rows.slot("loss"),
    );
    let mut read = 0;
    for (i, batch) in batches.iter().enumerate() {
        read += batch;
        if (i + 1) % every == 0 {
            rows.begin(i as u64 + base);
            rows.set(column, if samples { read as f64 } else { *batch as f64 });
            rows.set(loss, 2.0);
        }
    }
    built(
        rows,
        BuildOptions {
            step_base: Some(base),
            ..BuildOptions::default()
        },
    )
}

fn order(run: &Run) -> DataOrder {
    DataOrder::of(run, &run.attempts[0]).expect("the log tells the order")
}

/// A batch size that is doubled or kept, stretch by stretch: how ramps go.
fn ramps() -> impl Strategy<Value = Vec<u64>> {
    let stretch = (1_usize..30, any::<bool>());
    (1_u64..40, proptest::collection::vec(stretch, 1..8)).prop_map(|(first, stretches)| {
        let mut batch = first;
        let mut out = Vec::new();
        for (length, doubles) in stretches {
            out.extend(std::iter::repeat_n(batch, length));
            batch *= 1 + u64::from(doubles);
        }
        out.extend([batch, batch]);
        out
    })
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
    fn updates_part_the_samples(batches in ramps(), base in 0_u64..2, samples in any::<bool>()) {
        let run = ramp(&batches, base, 1, samples);
        let order = order(&run);
        let total: u64 = batches.iter().sum();
        let ranges: Vec<(u64, u64)> =
            (1..=batches.len() as u64).filter_map(|u| order.samples_of(u, u)).collect();
        // Nothing is claimed of the first update of a ramp that begins at once; all others are known.
        prop_assert!(ranges.len() + 1 >= batches.len());
        prop_assert_eq!(ranges.last().map(|r| r.1), Some(total));
        prop_assert!(ranges.windows(2).all(|w| w[0].1 == w[1].0), "{ranges:?}");
        let of_size: Vec<u64> = ranges.iter().map(|(a, b)| b - a).collect();
        prop_assert_eq!(&of_size, &batches[batches.len() - ranges.len()..]);
        for (update, (from, until)) in (1..=batches.len() as u64).rev().zip(ranges.iter().rev()) {
            prop_assert_eq!(order.update_of(*from), Some(update));
            prop_assert_eq!(order.update_of(until - 1), Some(update));
            prop_assert_eq!(order.batch_at(update), Some(until - from));
        }
        prop_assert_eq!(order.update_of(total), None);
    }

    /// Rows that are missing, as of steps that were left out, and a restart that repeats steps change nothing: each step
    /// reads what it reads, and each sample has its step.
    #[test]
    fn holes_and_restarts_keep_the_identity(
        batches in ramps(), base in 0_u64..2, hole in any::<prop::sample::Index>(), length in 1_usize..6,
        back in any::<prop::sample::Index>(),
    ) {
        let count = batches.len();
        let from = hole.index(count);
        // A ramp within a hole leaves no trace but the sum: ranges are rounded outwards there.
        let until = (from + length).min(count);
        let flat = batches[from.saturating_sub(1)..(until + 1).min(count)].windows(2).all(|w| w[0] == w[1]);
        prop_assume!(flat && from > 1 && until < count);
        let ends: Vec<u64> = batches.iter().scan(0, |sum, b| { *sum += b; Some(*sum) }).collect();
        let again = 2 + back.index(count - 2);
        let mut rows = Rows::default();
        let (column, loss) = (rows.slot("consumed_samples"), rows.slot("loss"));
        for i in (0..count).chain(again..count).filter(|i| !(from..until).contains(i)) {
            rows.begin(i as u64 + base);
            rows.set(column, ends[i] as f64);
            rows.set(loss, 2.0);
        }
        let run = built(rows, BuildOptions { step_base: Some(base), ..BuildOptions::default() });
        let order = DataOrder::of(&run, run.attempts.last().expect("an attempt")).expect("the order");
        for i in 2..count {
            let (first, update) = (ends[i - 1], i as u64 + 1);
            prop_assert_eq!(order.samples_of(update, update), Some((first, ends[i])));
            prop_assert_eq!((order.update_of(first), order.update_of(ends[i] - 1)), (Some(update), Some(update)));
        }
    }

    /// A counter of the samples of an epoch begins anew: the last epoch is told, in its own numbers, and no earlier one.
    #[test]
    fn a_counter_that_begins_anew_is_not_mixed_up(
        batch in 1_u64..20, steps in 3_u64..12, epochs in 2_u64..5, base in 0_u64..2,
    ) {
        let mut rows = Rows::default();
        let (column, loss) = (rows.slot("consumed_samples"), rows.slot("loss"));
        for n in 0..steps * epochs {
            rows.begin(n + base);
            rows.set(column, ((n % steps + 1) * batch) as f64);
            rows.set(loss, 2.0);
        }
        let order = order(&built(rows, BuildOptions { step_base: Some(base), ..BuildOptions::default() }));
        let start = steps * (epochs - 1);
        for update in 1..=steps * epochs {
            let got = order.samples_of(update, update);
            if update > start + 1 {
                let first = (update - 1 - start) * batch;
                prop_assert_eq!(got, Some((first, first + batch)));
                prop_assert_eq!(order.update_of(first), Some(update));
            } else {
                prop_assert_eq!(got, None);
            }
        }
    }

    #[test]
    fn stretches_add_up(batches in ramps(), base in 0_u64..2, cut in any::<prop::sample::Index>()) {
        let run = ramp(&batches, base, 1, true);
        let order = order(&run);
        let last = batches.len() as u64;
        let middle = 2 + cut.index(batches.len() - 2) as u64;
        let (left, right) = (order.samples_of(2, middle), order.samples_of(middle + 1, last));
        let whole = order.samples_of(2, last).expect("known");
        prop_assert_eq!(left.map(|r| r.0), Some(whole.0));
        prop_assert_eq!(right.map_or(whole.1, |r| r.0), left.expect("known").1);
    }

    /// Between the rows of a sparse log the ranges are rounded outwards: never a sample too few.
    #[test]
    fn a_sparse_log_leaves_no_sample_out(batch in 1_u64..50, rows in 3_usize..12, every in 2_usize..9, base in 0_u64..2) {
        let batches = vec![batch; rows * every];
        let order = order(&ramp(&batches, base, every, true));
        for update in 1..=batches.len() as u64 {
            prop_assert_eq!(order.samples_of(update, update), Some(((update - 1) * batch, update * batch)));
            prop_assert_eq!(order.update_of((update - 1) * batch), Some(update));
        }
    }

    /// A batch size that changes between two rows cannot be told: what is given holds all that may have been read.
    #[test]
    fn between_rows_ranges_are_rounded_outwards(total in 1_u64..2000, every in 2_u64..9, base in 0_u64..2) {
        let mut rows = Rows::default();
        let (column, loss) = (rows.slot("consumed_samples"), rows.slot("loss"));
        for n in 1..5 {
            rows.begin(n * every + base - 1);
            rows.set(column, (n * total) as f64);
            rows.set(loss, 2.0);
        }
        let order = order(&built(rows, BuildOptions { step_base: Some(base), ..BuildOptions::default() }));
        for update in every + 1..=4 * every {
            let Some((from, until)) = order.samples_of(update, update) else { panic!("{update}") };
            prop_assert!(from * every <= total * (update - 1) && total * update <= until * every);
            prop_assert!((from + 1) * every > total * (update - 1) && total * update > (until - 1) * every);
        }
    }
}

// ---- Megatron ----

/// The steps that Megatron's loop leaves out, by printed iteration. Up to core 0.16 it compares the counter before it
/// is increased with the list, from 0.17 on the counter after (rules/SOURCES.md).
fn megatron_skips(command: &str, after: bool, train_iters: u64) -> Vec<u64> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let value = |flag: &str| words.iter().position(|w| *w == flag).map(|i| words[i + 1]);
    let mut iteration: u64 = value("--ckpt-step")
        .expect("a checkpoint")
        .parse()
        .expect("a step");
    let list = command
        .split_once("--iterations-to-skip $(seq ")
        .map_or("", |(_, rest)| rest.split(')').next().unwrap());
    let bounds: Vec<u64> = list
        .split_whitespace()
        .map(|n| n.parse().expect("a step"))
        .collect();
    let to_skip = |n: u64| bounds.len() == 2 && (bounds[0]..=bounds[1]).contains(&n);
    let mut skipped = Vec::new();
    while iteration < train_iters {
        if to_skip(if after { iteration + 1 } else { iteration }) {
            skipped.push(iteration + 1);
        }
        iteration += 1;
    }
    skipped
}

fn megatron(version: &str, request: &Request) -> String {
    let framework = Framework::parse(&format!("megatron-lm@{version}"));
    resume(Some(&framework), request)
        .command
        .expect("a command")
}

proptest! {
    #![proptest_config(quick())]

    #[test]
    fn megatron_leaves_out_what_was_planned(checkpoint in 0_u64..5000, gap in 1_u64..300, length in 1_u64..200) {
        let (first, last) = (checkpoint + gap, checkpoint + gap + length - 1);
        let request = Request { checkpoint, skip: Some((first, last)), ..Request::default() };
        let planned: Vec<u64> = (first..=last).collect();
        for (version, after) in [("0.16", false), ("core_v0.16.1", false), ("0.17", true), ("core_v0.17.0rc0", true)] {
            let command = megatron(version, &request);
            prop_assert_eq!(&megatron_skips(&command, after, last + 100), &planned, "{}: {}", version, command);
            // The other version's loop would leave out other batches.
            prop_assert_ne!(&megatron_skips(&command, !after, last + 100), &planned);
        }
    }

    #[test]
    fn without_a_skip_the_command_only_goes_back(checkpoint in 0_u64..100_000) {
        let request = Request { checkpoint, ..Request::default() };
        for (version, after) in [("0.16", false), ("0.17", true)] {
            let command = megatron(version, &request);
            prop_assert!(!command.contains("iterations-to-skip") && command.contains("--exit-on-missing-checkpoint"));
            prop_assert!(megatron_skips(&command, after, checkpoint + 50).is_empty());
        }
    }
}

/// A Megatron log of 400 iterations with a spike of the loss, its batches of 8 samples.
fn megatron_log(spike: std::ops::RangeInclusive<u64>) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut noise = Noise::new(5);
    let line = |s: u64| {
        let extra = if spike.contains(&s) { 3.0 } else { 0.0 };
        let saved = if s.is_multiple_of(100) {
            format!("  successfully saved checkpoint at iteration {s:7} to /ckpt\n")
        } else {
            String::new()
        };
        format!(
            " iteration {s:8}/     999 | consumed samples: {:12} | learning rate: 1.000E-04 | global batch size:     8 | \
             lm loss: {:.6E} | grad norm: {:.3} | number of skipped iterations:   0 | number of nan iterations:   0 |\n{saved}",
            8 * s,
            2.5 + 8.3 * (-(s as f64) / 12.0).exp() + 0.025 * noise.normal() + extra,
            if extra > 0.0 {
                9.0
            } else {
                0.3 + 0.01 * noise.normal()
            },
        )
    };
    std::fs::write(&path, (1..=400).map(line).collect::<String>()).unwrap();
    read(path)
}

#[test]
fn the_steps_of_a_megatron_plan_are_those_its_command_leaves_out() {
    for (version, after) in [("0.16", false), ("0.17", true)] {
        let run = megatron_log(351..=353);
        let framework = Some(Framework::parse(&format!("megatron-lm@{version}")));
        let told = whyspike::diagnosis::Told {
            framework,
            ..Default::default()
        };
        let d = whyspike::diagnosis::diagnose(run, &crate::support::RULES, &told);
        let plan = &d.incidents[0].plan;
        let back = plan
            .rollback
            .as_ref()
            .expect("three checkpoints were saved before it");
        assert!(
            [100, 200, 300].contains(&back.step) && back.path.as_deref() == Some("/ckpt"),
            "{back:?}"
        );
        let skip = plan
            .skip
            .as_ref()
            .expect("a spike of three rows may be data");
        let [(first, last)] = skip.steps[..] else {
            panic!("{:?}", skip.steps)
        };
        assert!(first <= 351 && 353 <= last, "{first}-{last}");
        assert_eq!(skip.samples, [(8 * (first - 1), 8 * last)]);
        let command = plan
            .resume
            .as_ref()
            .and_then(|r| r.command.as_deref())
            .expect("a command");
        assert!(
            command.contains(&format!("--load /ckpt --ckpt-step {}", back.step)),
            "{command}"
        );
        assert_eq!(
            megatron_skips(command, after, 999),
            (first..=last).collect::<Vec<_>>(),
            "{command}"
        );
    }
}

#[test]
fn a_framework_without_a_command_says_so() {
    let request = Request {
        checkpoint: 100,
        skip: Some((120, 130)),
        ..Request::default()
    };
    for framework in [None, Some(Framework::parse("in-house@1"))] {
        let out = resume(framework.as_ref(), &request);
        assert_eq!(out.command, None);
        assert!(
            out.caveats[0].starts_with("no command yet"),
            "{:?}",
            out.caveats
        );
    }
}

#[test]
fn earlier_skips_stay_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(fixture("logs/megatron/restart.log")).unwrap();
    let path = folder.path().join("log");
    std::fs::write(
        &path,
        format!("Skipped iterations 8 to 9 due to --skip-train-iteration-range flag.\n{text}"),
    )
    .unwrap();
    let run = read(path);
    assert!(
        run.events
            .iter()
            .any(|e| e.kind == EventKind::DataSkipped && e.path.as_deref() == Some("8-9"))
    );
    let request = Request {
        skip: Some((5, 6)),
        earlier: vec!["8-9".into()],
        ..Request::default()
    };
    let caveats = resume(Some(&Framework::parse("megatron-lm@0.17")), &request).caveats;
    assert!(caveats.iter().any(|c| c.contains("8-9")), "{caveats:?}");
    // A plan that skips nothing itself has to keep them, too.
    let plan = diagnosed(run, "").incidents.remove(0).plan;
    let caveats = plan.resume.expect("checkpoint 3 was saved").caveats;
    assert!(
        plan.skip.is_none() && caveats.iter().any(|c| c.contains("8-9")),
        "{caveats:?}"
    );
}

// ---- checkpoints ----

proptest! {
    #![proptest_config(quick())]

    #[test]
    fn a_plan_never_goes_back_to_after_the_onset(
        seed in 0_u64..1000,
        onset in 150_u64..380,
        height in 0.5_f64..5.0,
        length in 1_u64..40,
        every in 1_u64..60,
        base in 0_u64..2,
        norm_leads in 0_u64..6,
    ) {
        let mut noise = Noise::new(seed);
        let loss = |i: usize| (2.5 + 8.3 * (-(i as f64) / 12.0).exp()) * (1.0 + 0.01 * noise.normal());
        let mut curve = Curve::of_loss((0..400).map(loss));
        (0..length.min(400 - onset)).for_each(|n| curve.raise(onset + n, height));
        let mut quiet = Noise::new(seed + 1);
        let away = (onset - norm_leads) as usize..onset as usize + 3;
        let norm = (0..400).map(|i| if away.contains(&i) { 40.0 } else { 0.3 * 10_f64.powf(0.05 * quiet.normal()) });
        let curve = curve.with("grad_norm", norm.collect::<Vec<f64>>());
        let list: Vec<String> = (1..400 / every).map(|n| (n * every).to_string()).collect();
        let d = diagnosed(curve.run_from(base), &list.join(","));
        prop_assert!(!d.incidents.is_empty());
        for x in &d.incidents {
            // A checkpoint of N updates holds nothing of update N + 1.
            let update = d.run.updates_after(d.run.steps[x.incident.onset_row]);
            if let Some(back) = &x.plan.rollback {
                prop_assert!(back.step < update, "checkpoint {} for an onset in update {update}", back.step);
                prop_assert!(list.contains(&back.step.to_string()));
            }
            prop_assert!(x.plan.candidates.iter().all(|c| !c.fits || c.step < update));
        }
    }
}

#[test]
fn without_a_checkpoint_before_the_onset_there_is_no_way_back() {
    let mut noise = Noise::new(9);
    let level = |i: u32| (2.5 + 8.3 * (-f64::from(i) / 12.0).exp()) * (1.0 + 0.01 * noise.normal());
    let mut curve = Curve::of_loss((0..400).map(level));
    curve.column("loss")[299..].fill(Some(f64::NAN));
    let plan = diagnosed(curve.run(), "310,350,400")
        .incidents
        .remove(0)
        .plan;
    assert_eq!(
        (plan.rollback, plan.resume, plan.action),
        (None, None, Action::Stop)
    );
    assert!(plan.why.contains("checkpoint"), "{}", plan.why);
    let plan = diagnosed(curve.run(), "").incidents.remove(0).plan;
    assert!(
        plan.rollback.is_none() && plan.why.contains("--checkpoint-steps"),
        "{}",
        plan.why
    );
}

#[test]
fn inventories() {
    let run = read(fixture("logs/megatron/restart.log"));
    let steps = |given: &Given| {
        inventory(&run, given)
            .checkpoints
            .into_iter()
            .map(|c| c.step)
            .collect::<Vec<u64>>()
    };
    assert_eq!(steps(&Given::Nothing), [3]);
    assert_eq!(steps(&Given::Steps(vec![4, 2, 4])), [2, 4]);
    assert_eq!(
        steps(&Given::Every {
            every: 2,
            keep: None
        }),
        [2, 4, 6]
    );
    assert_eq!(
        steps(&Given::Every {
            every: 2,
            keep: Some(2)
        }),
        [4, 6]
    );
    assert_eq!(
        inventory(&run, &Given::Nothing).checkpoints[0]
            .path
            .as_deref(),
        Some("/ckpt")
    );
}
