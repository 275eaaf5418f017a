//! What waiting, going back and stopping cost, as far as times and prices are known.

use serde_json::Value;

use crate::cli::{BAD_DATA, BLOOM, json, stdout};
use crate::support::{Curve, Noise};

/// A spike that is still out when the log ends, ten steps after its onset at 391.
fn open_spike(folder: &std::path::Path, more: &str) -> String {
    let mut noise = Noise::new(3);
    let loss = |i: u32| 2.5 * (1.0 + 0.01 * noise.normal()) + if i >= 390 { 2.0 } else { 0.0 };
    let rows = (0..401).map(loss).enumerate();
    let lines = rows.map(|(i, y)| {
        let more = more.replace("TIME", &(1_700_000_000 + 30 * i).to_string());
        format!("{{\"step\": {}, \"loss\": {y:.5}{more}}}\n", i + 1)
    });
    let path = folder.join("log.jsonl");
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn cost(log: &str, more: &[&str]) -> Value {
    let plan = ["plan", log, "--format", "json"];
    json(&[&plan[..], more].concat())["plan"]["cost"].clone()
}

#[track_caller]
fn close(value: &Value, golden: f64) {
    let value = value.as_f64().expect("a number");
    assert!(
        (value - golden).abs() <= 1e-4 * golden.abs(),
        "{value} is not {golden}"
    );
}

#[test]
fn an_open_spike_is_priced_each_way() {
    let folder = tempfile::tempdir().unwrap();
    let log = open_spike(folder.path(), "");
    let told = [
        "--checkpoint-steps",
        "300",
        "--step-time",
        "36s",
        "--restart-time",
        "1h",
        "--gpus",
        "100",
        "--gpu-hour-price",
        "2",
    ];
    let c = cost(&log, &told);
    assert_eq!(
        (&c["step_time_from"], &c["restart_time_assumed"]),
        (&"told".into(), &false.into())
    );
    // 101 steps to do again and an hour: 100 steps more.
    close(&c["rollback"]["steps"], 201.0);
    close(&c["rollback"]["hours"], 2.01);
    close(&c["rollback"]["gpu_hours"], 201.0);
    close(&c["rollback"]["money"], 402.0);
    close(&c["stop"]["steps"], 101.0);
    close(&c["standing_hour"], 200.0);
    let wait = &c["wait"];
    assert_eq!(wait["until_step"], 451);
    close(&wait["cost"]["steps"], 50.0);
    assert_eq!((&wait["returned"], &wait["of"]), (&31.into(), &37.into()));
    // 6 of 37 are not back after 50 steps more, and then the way back is due.
    close(&wait["expected"]["steps"], 6.0 / 37.0 * (50.0 + 201.0));
    let text = stdout(&[&["plan", &log][..], &told].concat());
    for part in [
        "wait: 50 steps (30 min, 100.00) until 451",
        "31 of 37",
        "200.00 for each hour",
    ] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(part), "{part}: {text}");
    }
    let markdown = [&["diagnose", &log, "--format", "markdown"][..], &told].concat();
    assert!(stdout(&markdown).contains("- **Cost:** a step takes 36 s (as told)"));
}

#[test]
fn the_time_of_a_step_is_read_from_the_log() {
    let folder = tempfile::tempdir().unwrap();
    for (more, from, seconds) in [
        (", \"step_time\": 12.5, \"time\": TIME", "logged", 12.5),
        (", \"time\": TIME", "clock", 30.0),
    ] {
        let log = open_spike(folder.path(), more);
        let c = cost(&log, &["--checkpoint-steps", "300"]);
        assert_eq!(c["step_time_from"], from, "{c}");
        close(&c["step_time"], seconds);
        assert!(c["rollback"]["gpu_hours"].is_null() && c["restart_time_assumed"] == true);
        close(&c["rollback"]["steps"], 101.0 + 600.0 / seconds);
    }
}

#[test]
fn what_is_not_known_is_not_priced() {
    let folder = tempfile::tempdir().unwrap();
    let log = open_spike(folder.path(), "");
    let c = cost(&log, &[]);
    assert!(c["step_time"].is_null() && c["rollback"].is_null() && c["stop"].is_null());
    assert!(c["wait"]["expected"].is_null() && c["wait"]["cost"]["hours"].is_null());
    // What is over is not waited for.
    assert!(cost(BAD_DATA, &[])["wait"].is_null());
    close(&cost(BLOOM, &[])["step_time"], 106.0);
}

#[test]
fn a_price_needs_a_number_of_gpus() {
    let wrong = |args: &[&str]| {
        let out = assert_cmd::Command::cargo_bin("whyspike")
            .unwrap()
            .args(args)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}");
    };
    wrong(&["plan", BLOOM, "--gpu-hour-price", "2"]);
    wrong(&["plan", BLOOM, "--gpus", "8", "--gpu-hour-price", "-2"]);
    wrong(&["plan", BLOOM, "--step-time", "12"]);
}

#[test]
fn curves_without_checkpoints_have_no_way_back_to_price() {
    let mut noise = Noise::new(4);
    let curve = Curve::of_loss(
        (0..300).map(|i| 2.5 + 0.02 * noise.normal() + if i >= 280 { 3.0 } else { 0.0 }),
    );
    let plan = crate::support::diagnosed(curve.run(), "")
        .incidents
        .remove(0)
        .plan;
    assert_eq!((plan.cost.rollback, plan.cost.stop), (None, None));
}
