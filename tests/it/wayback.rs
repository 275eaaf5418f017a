//! The way back when it was gone before, and from checkpoints whose state the log shows.

use whyspike::diagnosis::Diagnosis;
use whyspike::plan::{Action, Plan};
use whyspike::replay::Data;

use crate::cli::{BAD_DATA, KEPT, json, stdout};
use crate::support::{Curve, Noise, diagnosed};

/// Steps from a start on, the loss no number any more from 300 to the end at 360; batches of 8, some left out.
fn attempt(start: u64, seed: u64, left_out: u64, lr: f64) -> Curve {
    let mut noise = Noise::new(seed);
    let steps: Vec<u64> = (start..=360).collect();
    let loss = |s: &u64| match *s {
        300.. => f64::NAN,
        s => (2.5 + 8.3 * (-(s as f64) / 12.0).exp()) * (1.0 + 0.01 * noise.normal()),
    };
    let samples = |s: &u64| (8 * (s + if *s >= 290 { left_out } else { 0 })) as f64;
    let columns = [
        ("loss", steps.iter().map(loss).map(Some).collect()),
        (
            "consumed_samples",
            steps.iter().map(samples).map(Some).collect(),
        ),
        ("learning_rate", steps.iter().map(|_| Some(lr)).collect()),
    ];
    Curve {
        columns: columns.into(),
        steps,
    }
}

const LR: f64 = 1e-3;

fn plan_of_last(curve: &Curve, checkpoints: &str) -> Plan {
    let mut d: Diagnosis = diagnosed(curve.run(), checkpoints);
    d.incidents.pop().expect("an incident in each attempt").plan
}

#[test]
fn a_second_strike_goes_further_back_with_another_remedy() {
    let first = attempt(1, 1, 0, LR);
    let kept = "100,200,250,280";
    let plan = plan_of_last(&first, kept);
    let back = plan.rollback.expect("a way back").step;
    assert_eq!(back, 250, "20 steps at least before 300");

    let again = first.clone().then(&attempt(251, 2, 0, LR));
    let plan = plan_of_last(&again, kept);
    let back = plan.rollback.expect("a way back");
    assert_eq!(back.step, 200, "{}", back.why);
    assert!(
        back.why.contains("from where it was met again"),
        "{}",
        back.why
    );
    assert_eq!(plan.action, Action::Rollback);
    assert!(plan.why.contains("second attempt"), "{}", plan.why);
    assert_eq!(plan.change.len(), 2, "{:?}", plan.change);
    assert!(plan.change[1].starts_with("if that was done before it came again, as for "));

    // Only the checkpoint that led there is left: it is named, with what it lacks.
    let plan = plan_of_last(&again, "250,280");
    let back = plan.rollback.expect("a way back");
    assert!(back.step == 280 || back.step == 250);
    assert!(back.why.contains("none is old enough"), "{}", back.why);
}

#[test]
fn a_wait_says_what_is_due_after_it() {
    let log = "fixtures/runs/optimizer-state/log.jsonl.gz";
    let why = |incident: &str| {
        let got = json(&[
            "plan",
            log,
            "--checkpoint-every",
            "100",
            "--incident",
            incident,
            "--format",
            "json",
        ]);
        got["plan"]["why"].as_str().unwrap().to_owned()
    };
    assert!(why("2").contains("then further back than last time, and with another remedy"));
    assert!(why("3").contains("it was met twice before: then stop"));
    let page = stdout(&[
        "diagnose",
        log,
        "--checkpoint-every",
        "100",
        "--format",
        "markdown",
    ]);
    assert!(page.contains("| checkpoint | | why | state |"), "{page}");
    assert!(
        page.contains("| 500 | ok | 101 steps before the first departure | gradient norm "),
        "{page}"
    );
}

#[test]
fn a_third_strike_stops() {
    let curve = attempt(1, 1, 0, LR)
        .then(&attempt(251, 2, 0, LR))
        .then(&attempt(201, 3, 0, LR));
    let plan = plan_of_last(&curve, "100,200,250");
    assert_eq!(plan.action, Action::Stop);
    assert!(plan.why.contains("3 attempts met it"), "{}", plan.why);
    assert_eq!(plan.rollback.expect("a way back all the same").step, 100);
}

#[test]
fn what_was_tried_is_not_advised_again() {
    let lowered = attempt(1, 1, 0, LR).then(&attempt(251, 2, 0, LR / 2.0));
    let plan = plan_of_last(&lowered, "100,200,250");
    assert!(
        plan.change
            .iter()
            .all(|c| !c.contains("as for learning-rate")),
        "{:?}",
        plan.change
    );

    let skipped = attempt(1, 1, 0, LR).then(&attempt(251, 1, 12, LR));
    let plan = plan_of_last(&skipped, "100,200,250");
    assert!(plan.skip.is_none(), "{:?}", plan.skip);
    assert!(
        plan.why.contains("leaving batches out did not help"),
        "{}",
        plan.why
    );
    assert!(
        plan.change.iter().all(|c| !c.contains("as for bad-data")),
        "{:?}",
        plan.change
    );
}

/// A loop whose counter goes on while it skips prints nothing for the steps that it leaves out.
#[test]
fn steps_without_rows_are_batches_left_out_unless_their_lines_are_lost() {
    let first = attempt(1, 1, 0, LR);
    let without = |curve: &Curve, hole: std::ops::Range<u64>| {
        let keep: Vec<usize> = (0..curve.steps.len())
            .filter(|i| !hole.contains(&curve.steps[*i]))
            .collect();
        let columns = curve.columns.iter();
        Curve {
            steps: keep.iter().map(|i| curve.steps[*i]).collect(),
            columns: columns
                .map(|(n, c)| (*n, keep.iter().map(|i| c[*i]).collect()))
                .collect(),
        }
    };
    let found = |later: &Curve| {
        let d = diagnosed(first.clone().then(later).run(), "100,200");
        d.replays[0].data
    };
    // Other losses after it: what was left out was not trained on.
    let left_out = without(&attempt(201, 2, 0, LR), 230..240);
    assert_eq!(
        found(&left_out),
        Data::Skipped {
            from_step: 230,
            samples: 80
        }
    );
    // The same losses to the last digit: it was, and its lines are lost.
    let rows = first.steps.len();
    let same = Curve {
        steps: first.steps[200..rows].to_vec(),
        columns: first
            .columns
            .iter()
            .map(|(n, c)| (*n, c[200..rows].to_vec()))
            .collect(),
    };
    assert_eq!(found(&without(&same, 230..240)), Data::Same);
    // A single missing line is no skip.
    assert!(!matches!(
        found(&without(&attempt(201, 2, 0, LR), 230..231)),
        Data::Skipped { .. }
    ));
}

#[test]
fn replays_that_got_over_it_are_no_strikes() {
    let got = json(&[
        "plan",
        BAD_DATA,
        "--checkpoint-steps",
        KEPT,
        "--incident",
        "2",
        "--format",
        "json",
    ]);
    assert_eq!(got["plan"]["rollback"]["step"], 500);
    assert!(
        !got["plan"]["why"]
            .as_str()
            .unwrap()
            .contains("second attempt")
    );
}

// ---- the state at a checkpoint ----

/// 400 steps, a spike at 350, and a gradient norm that is raised over some steps.
fn raised(from: usize, until: usize, times: f64) -> Curve {
    let (mut noise, mut quiet) = (Noise::new(7), Noise::new(8));
    let loss = |i: usize| (2.5 + 8.3 * (-(i as f64) / 12.0).exp()) * (1.0 + 0.01 * noise.normal());
    let mut curve = Curve::of_loss((0..400).map(loss));
    (350..360).for_each(|s| curve.raise(s, 3.0));
    let norm = |i: usize| {
        let times = if (from..until).contains(&i) {
            times
        } else {
            1.0
        };
        times * 0.3 * 10_f64.powf(0.05 * quiet.normal())
    };
    curve.with("grad_norm", (0..400).map(norm).collect::<Vec<f64>>())
}

#[test]
fn a_checkpoint_whose_norm_is_away_from_its_level_is_refused() {
    let kept = "100,200,300";
    let plan = |curve: Curve| diagnosed(curve.run(), kept).incidents.remove(0).plan;
    let calm = plan(raised(0, 0, 1.0));
    let back = calm.rollback.as_ref().expect("a way back").step;
    let readings = |p: &Plan, step| {
        let c = p
            .candidates
            .iter()
            .find(|c| c.step == step)
            .expect("looked at");
        (c.fits, c.why.clone(), c.health.readings.clone())
    };
    let (fits, _, seen) = readings(&calm, back);
    assert!(
        fits && seen.len() == 1 && seen[0].sd.abs() < 3.0,
        "{seen:?}"
    );
    assert!((seen[0].level - 0.3).abs() < 0.03, "{seen:?}");

    // Three times its level over the ten steps up to that checkpoint.
    let at = back as usize;
    let p = plan(raised(at - 10, at, 3.0));
    let (fits, why, seen) = readings(&p, back);
    assert!(
        !fits && why.contains("the gradient norm is 3") && why.contains("times its level there"),
        "{why}"
    );
    assert!(seen[0].sd > 5.0, "{seen:?}");
    assert!(p.rollback.is_some_and(|b| b.step < back));

    // One row is noise: norms have heavy tails.
    let p = plan(raised(at - 1, at, 3.0));
    assert_eq!(p.rollback.expect("a way back").step, back);
}

#[test]
fn readings_and_distances_are_told() {
    let got = json(&[
        "plan",
        BAD_DATA,
        "--checkpoint-steps",
        KEPT,
        "--format",
        "json",
    ]);
    let candidates = got["plan"]["candidates"].as_array().unwrap();
    let taken = candidates
        .iter()
        .find(|c| c["step"] == 500)
        .expect("looked at");
    for signal in ["grad_norm", "update_norm", "max_attention_logit"] {
        let reading = &taken["health"][signal];
        assert!(
            reading["sd"].as_f64().is_some_and(|sd| sd.abs() < 6.0),
            "{signal}: {reading}"
        );
    }
    assert!(taken["health"]["clean_for_steps"].is_null());
    let text = stdout(&["plan", BAD_DATA, "--checkpoint-steps", KEPT]);
    assert!(
        text.contains("30 steps before the first departure; gradient norm "),
        "{text}"
    );
}

#[test]
fn the_distance_to_the_traces_of_an_earlier_incident_is_told() {
    let mut noise = Noise::new(5);
    let mut curve = Curve::of_loss(
        (0..600).map(|i| 2.5 * (1.0 + 0.01 * noise.normal()) + f64::from(u8::from(i == 150))),
    );
    (500..520).for_each(|s| curve.raise(s, 3.0));
    let d = diagnosed(curve.run(), "140,160,300,400");
    let plan = &d.incidents.last().expect("two incidents").plan;
    let at = |step| {
        plan.candidates
            .iter()
            .find(|c| c.step == step)
            .expect("looked at")
    };
    assert!(
        at(160).why.contains("the second moment still carries it"),
        "{}",
        at(160).why
    );
    let (near, far) = (at(300).health.clean_for, at(400).health.clean_for);
    assert_eq!(far.zip(near).map(|(f, n)| f - n), Some(100));
    assert_eq!(at(140).health.clean_for, None);
}
