//! Which steps and signals a figure has, on which scale, and between which values.

use std::ops::Range;

use crate::detect::HORIZON_STEPS;
use crate::diagnosis::{Diagnosed, Diagnosis};
use crate::report::figure::paths::Paths;
use crate::report::figure::reduce::{Grid, reduce};
use crate::report::figure::{Panel, Role, Scale, Series, bounds, knots};
use crate::report::words::goes_on;
use crate::run::{Column, Run};
use crate::signal::signal;

/// Signals of an incident that are told as absent where they are not logged, from top to bottom.
const ASKED: [&str; 8] = [
    "loss",
    "grad_norm",
    "learning_rate",
    "param_norm",
    "update_norm",
    "max_attention_logit",
    "loss_scale",
    "global_batch_size",
];
/// Signals of an incident that are shown where they are logged: only some trainers do.
const MORE: [&str; 6] = [
    "val_loss",
    "second_moment",
    "logz",
    "max_rank_loss",
    "z_loss",
    "attention_entropy",
];
/// Signals that hold until the next row.
const STEPPED: [&str; 3] = ["learning_rate", "loss_scale", "global_batch_size"];
/// From this ratio of the highest to the lowest value on, a curve is drawn on a logarithmic scale.
const WIDE: f64 = 8.0;
/// The same of a loss: an untrained model's would leave no room for the spikes of a trained one.
const WIDE_LOSS: f64 = 4.0;
/// Empty room above and below the curves, as a share of the height.
const ROOM: f64 = 0.06;

/// Rows before the onset that a window shows at least.
const LEAST_ROWS: u64 = 64;
/// A checkpoint this many widths of the window away is not worth the room that it takes.
const WORTH: f64 = 1.5;

/// The steps around an incident that its figure shows: the level before it, all of it, as much after it, and the
/// checkpoint to go back to unless that is far away.
pub fn window(d: &Diagnosis, x: &Diagnosed) -> (u64, u64) {
    let run = &d.run;
    let (i, spacing) = (&x.incident, run.spacing());
    let (first, last) = bounds(run);
    let at = |row: usize| run.steps.get(row).copied();
    let onset = at(i.onset_row).unwrap_or(first);
    let over = [i.return_row, i.grad_return_row, i.peak_row];
    let mut end = over
        .into_iter()
        .flatten()
        .filter_map(at)
        .max()
        .unwrap_or(onset);
    if i.return_row.is_none() {
        let away = at(i.end_row.saturating_sub(1)).unwrap_or(end);
        end = end.max(away.min(onset.saturating_add(HORIZON_STEPS)));
    }
    let skip = x.plan.skip.as_ref().filter(|_| goes_on(&x.plan));
    if let Some((_, b)) = skip.and_then(|s| s.steps.last()) {
        end = end.max((*b).min(onset.saturating_add(HORIZON_STEPS)));
    }
    let around = (LEAST_ROWS * spacing).max((end.saturating_sub(onset)) / 2);
    let mut from = onset.saturating_sub(around);
    let to = end.saturating_add(around).min(last);
    if let Some(back) = &x.plan.rollback {
        let width = (to.saturating_sub(from)) as f64;
        let margin = around / 8;
        if (from.saturating_sub(back.step) as f64) <= WORTH * width {
            from = from.min(back.step.saturating_sub(margin));
        }
    }
    (from.max(first), to.max(from.max(first)))
}

/// The signals of an incident: those that are asked for, and those that this log has besides.
pub(super) fn of_incident(run: &Run) -> Vec<String> {
    let more = MORE.into_iter().filter(|s| run.column(s).is_some());
    ASKED.into_iter().chain(more).map(str::to_owned).collect()
}

/// The panel of a signal; `None` if no row of these paths has it.
pub(super) fn panel(run: &Run, name: &str, paths: &Paths, grid: Grid) -> Option<Panel> {
    let column = run.column(name)?;
    let branches = paths.branches.iter().map(|b| b.rows.clone());
    let all = paths.line.iter().cloned().chain(branches);
    let scale = scale(name, all.flat_map(|r| column.range(r)).flatten());
    let spacing = spacing(run, column);
    let curve = |parts: &[Range<usize>]| {
        let cells = |rows: &Range<usize>| rows.clone().zip(column.range(rows.clone()));
        let values = parts.iter().flat_map(cells);
        let values = values.filter_map(|(row, value)| Some((run.steps[row], value?)));
        reduce(values, grid, scale == Scale::Log, spacing)
    };
    let mut series = vec![Series {
        name: title(name),
        role: Role::Value,
        attempt: None,
        curve: curve(&paths.line),
    }];
    for b in &paths.branches {
        series.push(Series {
            name: format!("attempt {}", b.attempt),
            role: b.role,
            attempt: Some(b.attempt),
            curve: curve(std::slice::from_ref(&b.rows)),
        });
    }
    series.retain(|s| !s.curve.is_empty());
    if series.is_empty() {
        return None;
    }
    let mut panel = Panel {
        signal: name.to_owned(),
        title: title(name),
        unit: unit(name),
        scale,
        low: 0.0,
        high: 1.0,
        stepped: STEPPED.contains(&name),
        series,
        band: None,
        knots: Vec::new(),
        heat: None,
    };
    if name == "learning_rate" {
        panel.knots = knots::of(run, column, paths);
    }
    fit(&mut panel);
    Some(panel)
}

/// The usual distance in steps between values: wider than that of rows where few rows have one.
fn spacing(run: &Run, column: &Column) -> u64 {
    let share = column.len() / column.present().count().max(1);
    run.spacing().saturating_mul(share.max(1) as u64)
}

/// Norms by their logarithm, what is set by hand in proportion unless it spans decades, and everything else by its range.
fn scale(name: &str, values: impl Iterator<Item = f64>) -> Scale {
    // A schedule is read by its slopes.
    if name == "learning_rate" {
        return Scale::Linear;
    }
    let (mut low, mut high, mut negative) = (f64::INFINITY, 0.0_f64, false);
    for v in values.filter(|v| v.is_finite()) {
        negative |= v < 0.0;
        if v > 0.0 {
            (low, high) = (low.min(v), high.max(v));
        }
    }
    if high <= 0.0 || (negative && name != "grad_norm") {
        return Scale::Linear;
    }
    let wide = match name {
        "grad_norm" | "loss_scale" => 1.0,
        "global_batch_size" => 1000.0,
        "loss" => WIDE_LOSS,
        _ => WIDE,
    };
    if high / low >= wide {
        Scale::Log
    } else {
        Scale::Linear
    }
}

/// Sets the values at the bottom and at the top to what is drawn, with some room.
pub(super) fn fit(panel: &mut Panel) {
    if panel.heat.is_some() {
        return;
    }
    let curves = panel.series.iter().flat_map(|s| s.curve.points());
    let band = panel.band.iter().flat_map(|b| &b.points);
    let band = band.flat_map(|p| [p.low, p.high]);
    let values = curves.map(|p| p.value).chain(band);
    let values = values.filter(|v| v.is_finite() && (panel.scale == Scale::Linear || *v > 0.0));
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
        (a.min(v), b.max(v))
    });
    (panel.low, panel.high) = roomy(low, high, panel.scale);
}

/// A range with room at its ends; never empty.
fn roomy(low: f64, high: f64, scale: Scale) -> (f64, f64) {
    if low > high {
        return match scale {
            Scale::Linear => (0.0, 1.0),
            Scale::Log => (0.1, 1.0),
        };
    }
    match scale {
        Scale::Linear => {
            // Halves: the difference of two huge values may be none.
            let half = high / 2.0 - low / 2.0;
            let size = low.abs().max(high.abs());
            let room = if half > size * 1e-9 {
                2.0 * half * ROOM
            } else if size > 0.0 {
                size * 0.1
            } else {
                1.0
            };
            (
                (low - room).max(f64::MIN / 4.0),
                (high + room).min(f64::MAX / 4.0),
            )
        }
        Scale::Log => {
            let room = ((high / low).log10() * ROOM).max(0.02);
            let (low, high) = (low.log10() - room, high.log10() + room);
            (10_f64.powf(low.max(-300.0)), 10_f64.powf(high.min(300.0)))
        }
    }
}

/// The name of a signal for people.
pub(super) fn title(name: &str) -> String {
    let (family, layer) = name
        .split_once('/')
        .map_or((name, None), |(f, l)| (f, Some(l)));
    let known = match family {
        "loss" => "Loss",
        "grad_norm" => "Gradient norm",
        "learning_rate" => "Learning rate",
        "param_norm" => "Parameter norm",
        "update_norm" => "Update norm",
        "max_attention_logit" => "Largest attention logit",
        "loss_scale" => "Loss scale",
        "global_batch_size" => "Batch size",
        "val_loss" => "Validation loss",
        "second_moment" => "Second moment",
        "logz" => "Output logits (log Z)",
        "max_rank_loss" => "Largest loss of a rank",
        "attention_entropy" => "Attention entropy",
        "z_loss" => "Z-loss",
        _ => return name.to_owned(),
    };
    match layer {
        Some(layer) => format!("{known}, {layer}"),
        None => known.to_owned(),
    }
}

/// The unit of a signal, short enough for an axis.
pub(super) fn unit(name: &str) -> String {
    match signal(name).map_or("", |s| s.unit) {
        "1" => "",
        "nats per token unless the source says otherwise" => "nats per token",
        other => other,
    }
    .to_owned()
}
