//! JSON lines, CSV and `trainer_state.json`.

use std::io::{self, Write};

use super::curve::{Curve, Measured};

/// The shortest text that reads back as the number, with Python's exponents.
pub(super) fn repr(value: f64) -> String {
    if value == 0.0 || value.abs() >= 1e-4 {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

/// The number of digits that a logger rounds to.
fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// The twelve metrics of a row.
fn metrics(s: &Measured) -> [(&'static str, f64); 12] {
    [
        ("time", rounded(s.time, 3)),
        ("loss", s.loss),
        ("grad_norm", s.grad_norm),
        ("learning_rate", s.learning_rate),
        ("param_norm", s.param_norm),
        ("max_attn_logit", s.max_attention_logit),
        ("z_loss", s.z_loss),
        ("aux_loss", s.aux_loss),
        ("update_norm", s.update_norm),
        ("step_time", rounded(s.step_time, 6)),
        ("tps", rounded(s.tokens_per_second, 2)),
        ("mfu", rounded(s.mfu, 4)),
    ]
}

/// As `json.dumps` writes a row with twelve metrics.
pub(super) fn jsonl(out: &mut dyn Write, curve: Curve) -> io::Result<()> {
    for s in curve {
        write!(out, "{{\"step\": {}", s.step)?;
        for (name, value) in metrics(&s) {
            write!(out, ", \"{name}\": {}", repr(value))?;
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

/// One of many short runs: fewer metrics.
pub(super) fn short_jsonl(out: &mut dyn Write, curve: Curve) -> io::Result<()> {
    for s in curve {
        writeln!(
            out,
            "{{\"step\": {}, \"loss\": {}, \"grad_norm\": {}, \"lr\": {}, \"tokens_per_second\": {}, \"time\": {}}}",
            s.step,
            repr(s.loss),
            repr(s.grad_norm),
            repr(s.learning_rate),
            repr(rounded(s.tokens_per_second, 1)),
            repr(rounded(s.time, 2)),
        )?;
    }
    Ok(())
}

/// As a table of floats is written that keeps what they hold.
pub(super) fn csv(out: &mut dyn Write, curve: Curve) -> io::Result<()> {
    let mut begun = false;
    for s in curve {
        let row = metrics(&s);
        if !std::mem::replace(&mut begun, true) {
            write!(out, "step")?;
            for (name, _) in row {
                write!(out, ",{name}")?;
            }
            writeln!(out)?;
        }
        write!(out, "{}", s.step)?;
        for (_, value) in row {
            write!(out, ",{}", repr(value))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// As `TrainerState.save_to_json` writes it, keys in order.
pub(super) fn trainer_state(out: &mut dyn Write, curve: Curve) -> io::Result<()> {
    let steps = curve.steps;
    write!(
        out,
        "{{\n  \"best_metric\": null,\n  \"best_model_checkpoint\": null,\n  \"epoch\": 1.0,\n  \
         \"global_step\": {steps},\n  \"is_hyper_param_search\": false,\n  \"is_local_process_zero\": true,\n  \
         \"is_world_process_zero\": true,\n  \"log_history\": ["
    )?;
    for s in curve {
        let comma = if s.step > 1 { "," } else { "" };
        write!(
            out,
            "{comma}\n    {{\n      \"epoch\": {},\n      \"grad_norm\": {},\n      \"learning_rate\": {},\n      \
             \"loss\": {},\n      \"step\": {}\n    }}",
            repr(s.step as f64 / steps as f64),
            repr(s.grad_norm),
            repr(s.learning_rate),
            repr(rounded(s.loss, 4)),
            s.step,
        )?;
    }
    writeln!(
        out,
        "\n  ],\n  \"logging_steps\": 1,\n  \"max_steps\": {steps},\n  \"num_input_tokens_seen\": 0,\n  \
         \"num_train_epochs\": 1,\n  \"save_steps\": 1000,\n  \"train_batch_size\": 8,\n  \"trial_params\": null\n}}"
    )
}
