//! Tests of the figures: what is reduced, what is marked, where axes have their places.

use proptest::prelude::*;

use super::paths::Paths;
use super::reduce::{Grid, reduce};
use super::*;
use crate::diagnosis::{Told, diagnose};
use crate::rules::RuleSet;
use crate::run::{BuildOptions, Column, Rows, RunBuilder};
use crate::signal::Aliases;

fn run(steps: &[u64], columns: &[(&str, Vec<f64>)]) -> Run {
    let mut rows = Rows::default();
    rows.steps = steps.to_vec();
    for (name, values) in columns {
        rows.put(name, Column::from_values(values.clone()));
    }
    let aliases = Aliases::built_in();
    let options = BuildOptions {
        step_base: Some(1),
        ..BuildOptions::default()
    };
    let mut builder = RunBuilder::new(&aliases, options);
    builder.add("x", rows);
    builder.finish().unwrap()
}

fn diagnosed(run: Run) -> Diagnosis {
    diagnose(run, &RuleSet::built_in().unwrap(), &Told::default())
}

fn rows(values: &[f64]) -> impl Iterator<Item = (u64, f64)> + '_ {
    values.iter().enumerate().map(|(i, v)| (i as u64, *v))
}

fn values(curve: &Curve) -> Vec<Vec<f64>> {
    let pieces = curve.pieces.iter();
    pieces
        .map(|p| p.iter().map(|p| p.value).collect())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_row_is_lost_at_any_width(
        values in proptest::collection::vec(prop_oneof![8 => -1e3..1e3_f64, 1 => Just(f64::NAN)], 1..400),
        gaps in proptest::collection::vec(1_u64..60, 400),
        columns in 1_usize..120,
    ) {
        let mut at = 7;
        let all: Vec<(u64, f64)> = values.iter().zip(gaps).map(|(v, gap)| { at += gap; (at, *v) }).collect();
        let grid = Grid::new(all[0].0, at, columns);
        let curve = reduce(all.iter().copied(), grid, false, 1);
        let points: Vec<&Point> = curve.points().collect();
        prop_assert!(points.len() <= 2 * columns);
        prop_assert!(points.windows(2).all(|w| w[0].step < w[1].step), "in order");
        for (step, value) in &all {
            let column = grid.column(*step);
            if value.is_nan() {
                prop_assert!(curve.off.iter().any(|o| grid.column(o.step) == column));
                continue;
            }
            let here = || points.iter().filter(|p| grid.column(p.step) == column);
            prop_assert!(here().any(|p| p.value >= *value) && here().any(|p| p.value <= *value));
        }
        for p in points {
            prop_assert!(all.contains(&(p.step, p.value)), "a row of the log, not a mean");
        }
        let nans = all.iter().filter(|r| r.1.is_nan()).count();
        prop_assert_eq!(curve.off.iter().map(|o| o.rows).sum::<usize>(), nans);
    }

    #[test]
    fn ticks_are_round_inside_and_few(low in -1e9..1e9_f64, span in 1e-6..1e9_f64, count in 2_usize..12) {
        let ticks = ticks::linear(low, low + span, count);
        prop_assert!(ticks.len() <= count.max(4) + 3, "{ticks:?}");
        prop_assert!(ticks.iter().all(|t| t.value >= low - span * 1e-6 && t.value <= low + span * 1.000_001));
    }
}

#[test]
fn what_is_no_number_breaks_the_line_and_is_marked() {
    let nan = f64::NAN;
    let curve = reduce(
        rows(&[1.0, 2.0, nan, nan, 3.0, f64::INFINITY]),
        Grid::new(0, 5, 100),
        false,
        1,
    );
    assert_eq!(values(&curve), vec![vec![1.0, 2.0], vec![3.0]]);
    let kinds: Vec<_> = curve.off.iter().map(|o| (o.step, o.kind)).collect();
    assert_eq!(
        kinds,
        vec![(2, OffKind::Nan), (3, OffKind::Nan), (5, OffKind::Infinite)]
    );
}

#[test]
fn a_logarithm_of_nothing_is_a_mark() {
    let curve = reduce(rows(&[1.0, 0.0, -3.0, 10.0]), Grid::new(0, 3, 4), true, 1);
    assert_eq!(values(&curve), vec![vec![1.0], vec![10.0]]);
    assert!(curve.off.iter().all(|o| o.kind == OffKind::NotPositive));
    assert_eq!(curve.off.len(), 2);
}

#[test]
fn holes_stay_open_and_a_rare_signal_has_none() {
    let steps = [0, 1, 2, 3, 500, 501];
    let rows = steps.iter().map(|s| (*s, 1.0));
    let curve = reduce(rows, Grid::new(0, 501, 50), false, 1);
    assert_eq!(curve.pieces.len(), 2);
    let rare = (0..10).map(|i| (i * 100, 1.0));
    assert_eq!(
        reduce(rare, Grid::new(0, 900, 50), false, 100).pieces.len(),
        1
    );
}

#[test]
fn nothing_one_row_and_a_constant_can_be_drawn() {
    let empty = reduce([].into_iter(), Grid::new(0, 0, 10), false, 1);
    assert!(empty.is_empty());

    let one = diagnosed(run(&[7], &[("loss", vec![2.5])]));
    let figure = overview(&one, 100);
    assert_eq!((figure.from, figure.to, figure.place(7)), (7, 7, 0.5));
    let panel = &figure.panels[0];
    assert!(panel.low < 2.5 && panel.high > 2.5);
    assert_eq!(figure.absent, ["grad_norm", "learning_rate"]);

    let steps: Vec<u64> = (1..=50).collect();
    let flat = diagnosed(run(&steps, &[("loss", vec![0.0; 50])]));
    let panel = &overview(&flat, 100).panels[0];
    assert!(panel.low < 0.0 && panel.high > 0.0 && !panel.ticks(4).is_empty());

    let nan = diagnosed(run(&steps, &[("loss", vec![f64::NAN; 50])]));
    let panel = &overview(&nan, 10).panels[0];
    assert_eq!(panel.series[0].curve.off.len(), 10);
    assert!(panel.low < panel.high);
}

#[test]
fn rows_that_a_later_attempt_repeats_are_branches() {
    let steps = [1, 2, 3, 4, 5, 6, 3, 4, 5, 2, 3, 4, 5, 6, 7];
    let run = run(&steps, &[("loss", vec![1.0; 15])]);
    let paths = Paths::newest(&run).within(&run, 1, 7);
    assert_eq!(paths.line, vec![0..1, 9..15]);
    let branches: Vec<_> = paths.branches.iter().map(|b| b.rows.clone()).collect();
    assert_eq!(branches, vec![1..6, 6..9]);
    assert!(paths.branches.iter().all(|b| b.role == Role::Superseded));

    let first = Paths::of(&run, 0).within(&run, 3, 4);
    assert_eq!(first.line, vec![2..4]);
    assert!(first.branches.iter().all(|b| b.role == Role::Later));
}

#[test]
fn numbers_are_short_and_steps_are_grouped() {
    let shown: Vec<String> = [
        0.0,
        2.5,
        1.234_567_89,
        123_456.0,
        1e7,
        3e-4,
        2.5e-5,
        -0.5,
        99999.6,
        f64::NAN,
        f64::INFINITY,
    ]
    .map(number)
    .into();
    let expected = [
        "0", "2.5", "1.23457", "123456", "1e7", "0.0003", "2.5e-5", "-0.5", "99999.6", "NaN", "inf",
    ];
    assert_eq!(shown, expected);
    assert_eq!(step(1234), "1234");
    assert_eq!(step(1_234_567), "1\u{2009}234\u{2009}567");
}

#[test]
fn axes_have_round_places() {
    let labels = |ticks: Vec<Tick>| -> Vec<String> { ticks.into_iter().map(|t| t.label).collect() };
    assert_eq!(
        labels(ticks::linear(0.93, 1.31, 4)),
        ["1.0", "1.1", "1.2", "1.3"]
    );
    assert_eq!(
        labels(ticks::linear(-1.0, 1.0, 4)),
        ["-1.0", "-0.5", "0", "0.5", "1.0"]
    );
    assert_eq!(
        labels(ticks::log(0.5, 2000.0, 5)),
        ["1", "10", "100", "1000"]
    );
    assert_eq!(labels(ticks::log(0.9, 17.0, 4)), ["1", "3", "10"]);
    assert_eq!(labels(ticks::log(1e-12, 1e12, 4)).len(), 5);
    assert_eq!(labels(ticks::steps(3, 3, 4)), ["3"]);
    assert_eq!(labels(ticks::steps(465, 640, 5)), ["500", "550", "600"]);
    assert!(ticks::linear(f64::MIN, f64::MAX, 4).len() < 10);
}

#[test]
fn a_schedule_shows_its_corners() {
    let steps: Vec<u64> = (1..=300).collect();
    // Warm-up to 100, constant to 200, then ten times as much.
    let rate = |s: u64| match s {
        0..=100 => s as f64 * 1e-5,
        101..=200 => 1e-3,
        _ => 1e-2,
    };
    let rates: Vec<f64> = steps.iter().map(|s| rate(*s)).collect();
    let d = diagnosed(run(
        &steps,
        &[("loss", vec![2.0; 300]), ("learning_rate", rates)],
    ));
    let figure = overview(&d, 600);
    let panel = figure.panels.iter().find(|p| p.signal == "learning_rate");
    let knots: Vec<_> = panel
        .unwrap()
        .knots
        .iter()
        .map(|k| (k.step, k.from))
        .collect();
    assert_eq!(knots, vec![(100, None), (201, Some(1e-3))]);
}

#[test]
fn an_incident_has_its_marks_its_band_and_its_layers() {
    let steps: Vec<u64> = (1..=600).collect();
    let wave = |s: u64| 0.01 * ((s * 7919 % 101) as f64 / 50.0 - 1.0);
    let loss: Vec<f64> = steps
        .iter()
        .map(|s| 2.0 + wave(*s) + if (400..410).contains(s) { 3.0 } else { 0.0 })
        .collect();
    let logits: Vec<f64> = steps.iter().map(|s| *s as f64).collect();
    let d = diagnosed(run(
        &steps,
        &[
            ("loss", loss),
            ("max_attention_logit/0", logits.clone()),
            ("max_attention_logit/11", logits),
        ],
    ));
    let x = &d.incidents[0];
    let figure = incident(&d, x, 2000);
    assert!(figure.from <= 336 && figure.to >= 410);
    let kinds: Vec<_> = figure.marks.iter().map(|m| (m.kind, m.from)).collect();
    assert!(kinds.contains(&(MarkKind::Onset, 400)), "{kinds:?}");
    assert!(kinds.contains(&(MarkKind::Return, 410)), "{kinds:?}");
    let loss = &figure.panels[0];
    let band = loss.band.as_ref().unwrap();
    assert!(band.points.iter().all(|p| p.low < 2.0 && p.high > 2.0));
    assert!(loss.low < 2.0 && loss.high > 5.0);
    let heat = figure.panels.iter().find_map(|p| p.heat.as_ref()).unwrap();
    assert_eq!(heat.layers, ["0", "11"]);
    assert!(heat.cells.iter().all(|row| row.len() == heat.steps.len()));
    assert!(figure.absent.contains(&"grad_norm".to_owned()));
}

#[test]
fn a_selection_has_what_was_asked_for_in_that_order() {
    let steps: Vec<u64> = (1..=100).collect();
    let d = diagnosed(run(
        &steps,
        &[
            ("loss", vec![2.0; 100]),
            ("grad_norm", (1..=100).map(f64::from).collect()),
        ],
    ));
    let asked = ["grad_norm", "nothing", "loss"].map(str::to_owned);
    let figure = selection(&d, &asked, Some(10), Some(20), 50);
    let signals: Vec<_> = figure.panels.iter().map(|p| p.signal.as_str()).collect();
    assert_eq!(signals, ["grad_norm", "loss"]);
    assert_eq!(figure.absent, ["nothing"]);
    assert_eq!((figure.from, figure.to), (10, 20));
    assert_eq!(figure.panels[0].series[0].curve.points().count(), 11);
}
