//! Features whose window the end of the log cuts off: what is known of them so far is the least that they can be.

use crate::detect::{Incident, TRANSIENT_STEPS};
use crate::features::{Row, Value};

/// Features that look for the highest of something, or count it, up to so many steps after the onset: more may come.
const WINDOWS: [(&str, u64); 5] = [
    ("attn_growth", 60),
    ("u_persist", 60),
    ("u_heals", 60),
    ("u_bursts", 100),
    ("lossscale_halvings", 60),
];
/// The same up to the peak, which is open as long as the loss is not back and may still climb.
const TO_THE_PEAK: [&str; 6] = [
    "loss_z",
    "loss_cusum",
    "peak_excess",
    "rise_time",
    "u_per_lr_growth",
    "lr_rise_in_peak",
];
/// The row with everything that is only known to be at least what it is as large as can be, and no word of a return that
/// may still come: what holds for both rows, or for neither, does so whatever the log goes on to show. `None` if no window is cut.
pub(crate) fn raised(row: &Row, incident: &Incident) -> Option<Row> {
    const FAR: f64 = 1e12;
    let cut = WINDOWS.iter().filter(|(_, steps)| incident.waited < *steps);
    let mut names: Vec<&str> = cut.map(|(name, _)| *name).collect();
    let may_return = incident.return_row.is_none() && incident.waited < TRANSIENT_STEPS;
    if may_return {
        names.extend(TO_THE_PEAK);
    }
    let mut out = row.clone();
    let mut any = may_return && out.insert("returned", None).flatten().is_some();
    for (name, value) in &mut out {
        if let Some(Value::Number(v)) = value
            && names.contains(name)
        {
            *v = v.max(1.0) * FAR;
            any = true;
        }
    }
    any.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{Kind, Level, Over, Shape};

    fn incident(waited: u64, back: bool) -> Incident {
        Incident {
            attempt: 0,
            signal: "loss",
            kind: Kind::Acute,
            onset_row: 0,
            peak_row: None,
            return_row: back.then_some(1),
            grad_return_row: None,
            return_is_bound: false,
            peaks: Vec::new(),
            end_row: 1,
            level: Level {
                x: 0.0,
                value: 2.0,
                slope: 0.0,
                memory: 1.0,
                scale: 0.1,
                median: 2.0,
                rows: 100,
                prior: false,
            },
            peak: None,
            excess: None,
            score: None,
            shape: Shape::Transient,
            open: !back,
            lost: false,
            residual: None,
            norm_moved: None,
            over: Over::Level,
            waited,
        }
    }

    #[test]
    fn only_what_is_cut_is_open_upwards() {
        let row = Row::from([
            ("attn_growth", Some(Value::Number(0.5))),
            ("u_bursts", None),
            ("rise_time", Some(Value::Number(3.0))),
            ("u_before", Some(Value::Number(1.1))),
            ("returned", Some(Value::Bool(false))),
        ]);
        let open = |waited, back| -> Vec<&str> {
            let raised = raised(&row, &incident(waited, back)).unwrap_or_else(|| row.clone());
            let higher = |name: &&str| raised[name] != row[name];
            row.keys().copied().filter(|n| higher(n)).collect()
        };
        assert_eq!(open(10, false), ["attn_growth", "returned", "rise_time"]);
        assert_eq!(open(10, true), ["attn_growth"], "its peak is known");
        assert_eq!(open(59, false), ["attn_growth", "returned", "rise_time"]);
        assert!(open(60, false).is_empty());
        assert!(raised(&row, &incident(200, false)).is_none());
    }
}
