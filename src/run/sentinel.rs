//! Values that stand for "not measured" and would be read as measurements.

use crate::run::Run;

/// A metric and whether a value of it stands for none.
type Sentinel = (&'static str, fn(f64) -> bool);

/// Signals and what a trainer prints for one that it has not measured: lingua a gradient norm of -1 between updates,
/// nanoGPT an MFU of -100 % before it can be estimated, Megatron-DeepSpeed a loss scale of -1 where there is none,
/// Megatron-LM a largest attention logit of 0, from which the search for it begins.
const SENTINELS: [Sentinel; 5] = [
    ("grad_norm", |v| v.is_finite() && v < 0.0),
    ("param_norm", |v| v.is_finite() && v < 0.0),
    ("mfu", |v| v.is_finite() && v < 0.0),
    ("loss_scale", |v| v.is_finite() && v <= 0.0),
    ("max_attention_logit", |v| v == 0.0),
];

/// Makes such values missing.
pub(super) fn clear(run: &mut Run) {
    for (name, stands_for_nothing) in SENTINELS {
        let family: Vec<String> = run
            .columns()
            .map(|(n, _)| n)
            .filter(|n| {
                *n == name
                    || n.strip_prefix(name)
                        .is_some_and(|rest| rest.starts_with('/'))
            })
            .map(str::to_owned)
            .collect();
        for column in family {
            if run
                .column(&column)
                .is_some_and(|c| c.iter().flatten().any(stands_for_nothing))
                && let Some(mut values) = run.remove(&column)
            {
                for row in 0..values.len() {
                    if values.get(row).is_some_and(stands_for_nothing) {
                        values.clear(row);
                    }
                }
                run.insert(&column, values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Column;

    #[test]
    fn what_was_not_measured_is_missing_and_what_was_stays() {
        let mut run = Run::default();
        let nan = f64::NAN;
        run.insert(
            "grad_norm",
            Column::from_values(vec![-1.0, f64::NEG_INFINITY, 0.0, nan]),
        );
        run.insert("mfu", Column::from_values(vec![-100.0, 41.2, 0.0, 1.0]));
        run.insert("loss_scale", Column::from_values(vec![-1.0; 4]));
        run.insert(
            "max_attention_logit",
            Column::from_values(vec![0.0, 43.2, -3.0, 0.0]),
        );
        run.insert(
            "max_attention_logit/1",
            Column::from_values(vec![0.0, 1.0, 2.0, 3.0]),
        );
        run.insert("loss", Column::from_values(vec![-1.0, 0.0, 2.5, nan]));
        clear(&mut run);
        let missing = |name: &str| {
            let column = run.column(name)?;
            Some(
                (0..4)
                    .map(|r| if column.get(r).is_some() { 'x' } else { '.' })
                    .collect::<String>(),
            )
        };
        assert_eq!(missing("grad_norm").as_deref(), Some(".xxx"));
        assert_eq!(missing("mfu").as_deref(), Some(".xxx"));
        assert_eq!(missing("loss_scale"), None);
        assert_eq!(missing("max_attention_logit").as_deref(), Some(".xx."));
        assert_eq!(missing("max_attention_logit/1").as_deref(), Some(".xxx"));
        assert_eq!(
            missing("loss").as_deref(),
            Some("xxxx"),
            "a policy loss may be -1"
        );
    }
}
