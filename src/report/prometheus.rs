//! How a watched run stands, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::watch::Pulse;

/// Content type of the text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Kinds of incidents, so that each has a series from the start.
const KINDS: [&str; 4] = ["acute", "chronic", "non-finite", "hang"];
/// Actions that may be advised, likewise.
const ACTIONS: [&str; 6] = [
    "none",
    "wait",
    "rollback",
    "rollback-and-skip",
    "stop",
    "look",
];

/// The metrics of a run; `unread` bytes of its log wait. What is not known has no series.
pub fn render(log: &str, pulse: Option<&Pulse>, unread: u64) -> String {
    let mut out = String::new();
    let mut put = |name: &str, kind: &str, help: &str, series: &[(String, f64)]| {
        if series.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "# HELP whyspike_{name} {help}\n# TYPE whyspike_{name} {kind}"
        );
        for (labels, value) in series {
            let _ = writeln!(out, "whyspike_{name}{labels} {}", number(*value));
        }
    };
    let one = |value: f64| vec![(String::new(), value)];
    let known = |value: Option<f64>| value.map_or(Vec::new(), one);
    let info = format!(
        "{{version=\"{}\",log=\"{}\"}}",
        env!("CARGO_PKG_VERSION"),
        label(log)
    );
    put(
        "info",
        "gauge",
        "The version of whyspike and the log that it watches.",
        &[(info, 1.0)],
    );
    put(
        "unread_bytes",
        "gauge",
        "Bytes of the log that are not read yet.",
        &one(unread as f64),
    );
    let Some(p) = pulse else { return out };
    put(
        "last_step",
        "gauge",
        "Last step in the log, in its own numbers.",
        &one(p.last_step as f64),
    );
    put(
        "attempt",
        "gauge",
        "Attempt of the last step, counted from 0.",
        &one(f64::from(p.attempt)),
    );
    put("loss", "gauge", "Last loss.", &known(p.loss));
    put(
        "grad_norm",
        "gauge",
        "Last gradient norm.",
        &known(p.grad_norm),
    );
    put(
        "robust_z",
        "gauge",
        "Last loss over its recent level, in robust standard deviations.",
        &known(p.robust_z),
    );
    put(
        "steps_since_progress",
        "gauge",
        "Steps since the median of 25 losses was lowest.",
        &known(p.steps_since_progress.map(|s| s as f64)),
    );
    put(
        "seconds_since_step",
        "gauge",
        "Seconds since a new step was seen in the log.",
        &known(p.seconds_since_step),
    );
    put(
        "hung",
        "gauge",
        "Whether no step comes any more.",
        &one(f64::from(u8::from(p.hung))),
    );
    put(
        "open_incidents",
        "gauge",
        "Incidents that are not over, by the action that is advised.",
        &by("action", &ACTIONS, &p.open),
    );
    put(
        "incidents_total",
        "counter",
        "Incidents told so far, by kind.",
        &by("kind", &KINDS, &p.told),
    );
    out
}

/// A series for each name, with what was counted.
fn by(key: &str, names: &[&str], counts: &BTreeMap<String, u64>) -> Vec<(String, f64)> {
    let count = |name: &&str| counts.get(*name).copied().unwrap_or(0) as f64;
    let series = |name: &&str| (format!("{{{key}=\"{name}\"}}"), count(name));
    names.iter().map(series).collect()
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        format!("{value}")
    }
}

/// A label's value as the format quotes it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_no_series_and_what_is_no_number_is_told() {
        let text = render("a\"b\\c\nd", None, 7);
        assert!(text.contains("log=\"a\\\"b\\\\c\\nd\"} 1\n"), "{text}");
        assert!(text.contains("\nwhyspike_unread_bytes 7\n") && !text.contains("last_step"));
        let pulse = Pulse {
            last_step: 12,
            loss: Some(f64::NAN),
            open: BTreeMap::from([("wait".to_owned(), 2)]),
            ..Pulse::default()
        };
        let text = render("log", Some(&pulse), 0);
        for line in [
            "whyspike_last_step 12",
            "whyspike_loss NaN",
            "whyspike_open_incidents{action=\"wait\"} 2",
            "whyspike_open_incidents{action=\"rollback\"} 0",
            "whyspike_incidents_total{kind=\"acute\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
        assert!(!text.contains("grad_norm"));
    }
}
