//! The binary: standard output, standard error, exit codes, contracts of rules/SOURCES.md The environment is scrubbed.

use std::io::Read;
use std::process::Stdio;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::root;

/// The binary in the crate's folder with nothing of the caller's environment.
fn whyspike(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("whyspike").expect("the binary");
    command.env_clear().current_dir(root()).args(args);
    command
}

/// What a command that works prints; it must say nothing on standard error.
pub(crate) fn stdout(args: &[&str]) -> String {
    let out = whyspike(args).output().expect("it runs");
    let (text, error) = (
        String::from_utf8(out.stdout).unwrap(),
        String::from_utf8(out.stderr).unwrap(),
    );
    assert_eq!(
        (out.status.code(), error.as_str()),
        (Some(0), ""),
        "{args:?}"
    );
    assert!(
        !text.contains('\u{1b}'),
        "no colour where there is no terminal: {text}"
    );
    text
}

/// The one line that a command prints which cannot run.
pub(crate) fn fails(args: &[&str]) -> String {
    let out = whyspike(args).output().expect("it runs");
    let (text, error) = (
        String::from_utf8(out.stdout).unwrap(),
        String::from_utf8(out.stderr).unwrap(),
    );
    assert_eq!(
        (out.status.code(), text.as_str()),
        (Some(2), ""),
        "{args:?}: {error}"
    );
    assert!(
        error.starts_with("error: ") && error.ends_with('\n'),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

pub(crate) fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).expect("JSON")
}

pub(crate) const BAD_DATA: &str = "fixtures/runs/bad-data/log.jsonl.gz";
pub(crate) const KEPT: &str = "100,200,300,400,500,600,700,800";
pub(crate) const BLOOM: &str = "fixtures/runs/bloom-176b/spike-2022-04-12.log";

// ---- reports ----

#[test]
fn text_of_bloom_176b() {
    insta::assert_snapshot!(stdout(&["diagnose", BLOOM]));
}

#[test]
fn text_of_bad_data() {
    insta::assert_snapshot!(stdout(&["diagnose", BAD_DATA, "--checkpoint-steps", KEPT]));
}

#[test]
fn text_of_bad_data_with_charts() {
    let args = ["diagnose", BAD_DATA, "--checkpoint-steps", KEPT];
    let with = stdout(&[&args[..], &["--chart", "always"]].concat());
    let without = stdout(&[&args[..], &["--chart", "never"]].concat());
    assert_eq!(without, stdout(&args), "auto draws nothing into a pipe");
    let from = with.find("  loss ").expect("a chart");
    let until = with.find("  cause ").expect("the cause after it");
    assert_eq!(format!("{}{}", &with[..from], &with[until..]), without);
    assert!(
        with.lines()
            .all(|l| l.chars().count() <= 96 || l.contains("--ckpt-step"))
    );
    insta::assert_snapshot!(with[from..until].trim_end());
}

#[test]
fn plan_of_bad_data_for_megatron() {
    let args = [
        "plan",
        BAD_DATA,
        "--checkpoint-steps",
        KEPT,
        "--framework",
        "megatron-lm@0.16",
    ];
    insta::assert_snapshot!(stdout(&args));
}

#[test]
fn formats() {
    insta::assert_snapshot!(stdout(&["formats"]));
}

#[test]
fn rules_show_bad_data() {
    insta::assert_snapshot!(stdout(&["rules", "show", "bad-data"]));
}

#[test]
fn a_report_puts_the_answer_first_and_fits_a_terminal() {
    for args in [
        &["diagnose", BLOOM][..],
        &["diagnose", BAD_DATA, "--checkpoint-steps", KEPT],
        &["plan", BLOOM],
    ] {
        let text = stdout(args);
        let is_command = |l: &&str| !l.contains("--ckpt-step");
        let widest = text
            .lines()
            .filter(is_command)
            .map(|l| l.chars().count())
            .max()
            .unwrap_or(0);
        assert!(widest <= 100, "{widest} columns:\n{text}");
        let place = |word: &str| text.lines().position(|l| l.trim_start().starts_with(word));
        assert!(place("incident 1").is_some_and(|at| at <= 3), "{text}");
        assert!(place("when") < place("do"), "{text}");
    }
}

#[test]
fn markdown_has_the_same_answer() {
    let text = stdout(&[
        "diagnose",
        BAD_DATA,
        "--checkpoint-steps",
        KEPT,
        "--format",
        "markdown",
    ]);
    for part in [
        "# whyspike",
        "### Incident 1",
        "bad-data",
        "onset 529",
        "checkpoint 500",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn markdown_of_bad_data() {
    let args = [
        "diagnose",
        BAD_DATA,
        "--checkpoint-steps",
        KEPT,
        "--framework",
        "megatron-lm@0.17",
        "--format",
        "markdown",
    ];
    let text = stdout(&args);
    assert!(text.contains("```text\nloss "), "{text}");
    let without = stdout(&[&args[..], &["--chart", "never"]].concat());
    assert!(!without.contains("```text"), "{without}");
    insta::assert_snapshot!(text);
}

#[test]
fn markdown_of_bloom_176b() {
    insta::assert_snapshot!(stdout(&["diagnose", BLOOM, "--format", "markdown"]));
}

/// Names come from the log, its path and its checkpoints: none of them becomes markup of the issue.
#[test]
fn markdown_shows_names_as_they_are() {
    let folder = TempDir::new().unwrap();
    let name = "a|b`c<img src=x>.jsonl";
    let log = folder.path().join(name);
    let row = |step: u64| {
        let loss = if step == 300 {
            9.0
        } else {
            2.0 + 0.01 * ((step * 7) % 13) as f64
        };
        format!("{{\"step\": {step}, \"loss\": {loss}}}\n")
    };
    let rows: String = (1..400).map(row).collect();
    std::fs::write(&log, rows + "{\"step\": 401, \"lo|<b>`x").unwrap();
    let text = stdout(&["diagnose", log.to_str().unwrap(), "--format", "markdown"]);
    assert!(text.contains("a|b`c<img src=x>.jsonl``"), "{text}");
    assert!(!text.replace(name, "").contains("<b>"), "{text}");
    assert!(text.contains("\\|\\<b\\>"), "{text}");
}

#[test]
fn a_healthy_run_says_that_nothing_was_found() {
    let text = stdout(&["diagnose", "fixtures/runs/healthy/log.jsonl.gz"]);
    assert!(text.contains("nothing found"), "{text}");
    assert!(stdout(&["plan", "fixtures/runs/healthy/log.jsonl.gz"]).contains("nothing to plan"));
}

// ---- JSON, schema 1 ----

/// The layout of rules/SOURCES.md; a list stands for one or more like its first.
const SCHEMA: &str = r#"{"schema": 1, "whyspike": "0.1.0",
 "run": {"sources": ["…"], "format": "megatron", "framework": "megatron-lm", "rows": 0, "attempts": 1,
         "first_step": 1, "last_step": 0, "signals": ["loss"], "missing": ["max_attention_logit"], "data_losses": []},
 "incidents": [{
   "id": 1, "attempt": 0, "signal": "loss", "kind": "acute", "onset_step": 0, "peak_step": 0, "return_step": null,
   "grad_return_step": null, "baseline": 0.0, "peak": 0.0, "excess": 0.0, "score": 0.0, "shape": "transient", "open": false,
   "verdict": {"outcome": "decided", "cause": null,
               "posterior": {"learning-rate": 0.0, "bf16": 0.0, "attention-logit": 0.0, "bad-data": 0.0, "optimizer-state": 0.0,
                             "resume-fault": 0.0, "hardware": 0.0, "config-change": 0.0, "output-logit": 0.0, "unknown": 0.0},
               "evidence": [{"cause": "…", "id": "…", "holds": true, "ratio": 1.0, "says": "…", "basis": "published",
                             "runs": null, "source": "…"}],
               "would_decide": {"signals": ["…"], "experiment": null}},
   "features": {"loss_z": 0.0},
   "plan": {"action": "rollback-and-skip", "why": "…",
            "rollback": {"step": 0, "path": null, "steps_lost": 0},
            "skip": {"steps": [[0, 0]], "samples": [[0, 0]], "batches": 0},
            "change": "…", "resume": {"framework": "…", "command": "…", "caveats": ["…"]}}}]}"#;

/// Every key of the layout is there, with a value of its kind or `null`.
fn has_layout(layout: &Value, got: &Value, path: &str) {
    let may_be_none = ["rollback", "skip", "resume"]
        .iter()
        .any(|k| path.ends_with(k));
    match (layout, got) {
        (Value::Null, _) => {}
        (_, Value::Null) => assert!(
            may_be_none || !layout.is_object() && !layout.is_array(),
            "{path} is null"
        ),
        (Value::Object(keys), Value::Object(there)) => {
            for (key, inner) in keys {
                let value = there
                    .get(key)
                    .unwrap_or_else(|| panic!("{path}.{key} is missing"));
                has_layout(inner, value, &format!("{path}.{key}"));
            }
        }
        (Value::Array(like), Value::Array(items)) => {
            for (item, first) in items.iter().zip(like.iter().cycle()) {
                has_layout(first, item, &format!("{path}[]"));
            }
        }
        _ => {
            let same_kind = std::mem::discriminant(layout) == std::mem::discriminant(got);
            assert!(same_kind, "{path} is {got}, not like {layout}");
        }
    }
}

fn runs() -> Vec<Vec<&'static str>> {
    vec![
        vec!["diagnose", BLOOM, "--format", "json"],
        vec![
            "diagnose",
            BAD_DATA,
            "--checkpoint-steps",
            KEPT,
            "--format",
            "json",
        ],
        vec![
            "diagnose",
            "fixtures/runs/bf16/log.jsonl.gz",
            "--checkpoint-every",
            "100",
            "--keep",
            "3",
            "--format",
            "json",
        ],
        vec![
            "diagnose",
            "fixtures/runs/healthy/log.jsonl.gz",
            "--format",
            "json",
        ],
        vec![
            "diagnose",
            "fixtures/logs/megatron/restart.log",
            "--format",
            "json",
            "--framework",
            "megatron-lm@0.17",
        ],
    ]
}

#[test]
fn json_has_the_keys_of_the_schema_and_is_the_same_on_a_second_run() {
    let layout: Value = serde_json::from_str(SCHEMA).expect("the layout");
    for args in runs() {
        let text = stdout(&args);
        assert_eq!(text, stdout(&args), "{args:?}");
        let got: Value = serde_json::from_str(&text).expect("JSON");
        has_layout(&layout, &got, "");
        assert_eq!(got["schema"], 1);
        assert_eq!(got["whyspike"], env!("CARGO_PKG_VERSION"));
        for incident in got["incidents"].as_array().expect("a list") {
            words_of_the_schema(incident);
        }
    }
}

fn words_of_the_schema(incident: &Value) {
    let one_of = |value: &Value, words: &[&str]| {
        assert!(
            value.as_str().is_some_and(|w| words.contains(&w)),
            "{value}"
        );
    };
    one_of(&incident["signal"], &["loss", "grad_norm"]);
    one_of(&incident["kind"], &["acute", "chronic", "non-finite"]);
    one_of(
        &incident["shape"],
        &["transient", "recoverable", "divergent", "level-shift"],
    );
    one_of(
        &incident["verdict"]["outcome"],
        &["decided", "undecided", "unexplained"],
    );
    one_of(
        &incident["plan"]["action"],
        &["none", "wait", "rollback", "rollback-and-skip", "stop"],
    );
    let posterior = incident["verdict"]["posterior"]
        .as_object()
        .expect("a table");
    let total: f64 = posterior.values().filter_map(Value::as_f64).sum();
    assert!(
        posterior.len() == 10 && (total - 1.0).abs() < 0.001,
        "{total}"
    );
    let decided = incident["verdict"]["outcome"] == "decided";
    assert_eq!(decided, incident["verdict"]["cause"].is_string());
    let keys: Vec<&String> = incident["features"]
        .as_object()
        .expect("a table")
        .keys()
        .collect();
    assert!(
        whyspike::features::catalogue().all(|f| keys.iter().any(|k| *k == f.name)),
        "every feature, unknown ones as null"
    );
}

#[test]
fn json_of_bad_data_holds_the_known_numbers() {
    let got = json(&[
        "diagnose",
        BAD_DATA,
        "--checkpoint-steps",
        KEPT,
        "--format",
        "json",
    ]);
    let run = &got["run"];
    assert_eq!(
        (run["rows"].as_u64(), run["attempts"].as_u64()),
        (Some(1160), Some(4))
    );
    assert_eq!(
        (run["first_step"].as_u64(), run["last_step"].as_u64()),
        (Some(0), Some(799))
    );
    assert_eq!(run["sources"], serde_json::json!([BAD_DATA]));
    let x = &got["incidents"][0];
    assert_eq!(
        (x["onset_step"].as_u64(), x["peak_step"].as_u64()),
        (Some(529), Some(529))
    );
    assert_eq!(x["verdict"]["cause"], "bad-data");
    assert_eq!(x["plan"]["rollback"]["step"], 500);
}

#[test]
fn json_of_a_plan() {
    let got = json(&["plan", BLOOM, "--format", "json", "--incident", "1"]);
    assert_eq!(
        (
            got["schema"].as_u64(),
            got["incident"].as_u64(),
            got["onset_step"].as_u64()
        ),
        (Some(1), Some(1), Some(31216))
    );
    assert!(got["plan"]["why"].is_string());
}

// ---- plan ----

#[test]
fn a_skip_list_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skip.json");
    stdout(&[
        "plan",
        BAD_DATA,
        "--checkpoint-steps",
        KEPT,
        "--skip-list",
        path.to_str().unwrap(),
    ]);
    let list: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).expect("JSON");
    let (from, until) = (
        list["samples"][0][0].as_u64().unwrap(),
        list["samples"][0][1].as_u64().unwrap(),
    );
    assert!(from <= 6348 && 6492 <= until, "{list}");
    let (first, last) = (
        list["steps"][0][0].as_u64().unwrap(),
        list["steps"][0][1].as_u64().unwrap(),
    );
    assert_eq!(list["batches"].as_u64(), Some(last + 1 - first));
    assert!(
        list["rollback_step"] == 500 && list["incident"].is_u64(),
        "{list}"
    );
}

#[test]
fn a_skip_list_that_cannot_be_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skip.json");
    let skip = path.to_str().unwrap();
    let error = fails(&[
        "plan",
        "fixtures/runs/bf16/log.jsonl.gz",
        "--skip-list",
        skip,
    ]);
    assert!(
        error.contains("no batches to skip") && !path.exists(),
        "{error}"
    );
    fails(&[
        "plan",
        BAD_DATA,
        "--skip-list",
        folder.path().join("absent/skip.json").to_str().unwrap(),
    ]);
    assert!(fails(&["plan", BAD_DATA, "--incident", "99"]).contains("no incident 99"));
    let error = fails(&["plan", BAD_DATA, "--skip-format", "megatron-lm"]);
    assert!(
        error.contains("no way back") && error.contains("--checkpoint-steps"),
        "{error}"
    );
    let out = whyspike(&["plan", BAD_DATA, "--skip-format", "yaml"])
        .output()
        .unwrap();
    let error = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(
        error.contains("the formats are json, megatron-lm, ") && !error.contains("torchtitan"),
        "{error}"
    );
}

// ---- ingest ----

fn stored(folder: &TempDir, log: &str) -> String {
    let path = folder
        .path()
        .join("run.parquet")
        .to_str()
        .unwrap()
        .to_owned();
    stdout(&["ingest", log, "-o", &path]);
    path
}

#[test]
fn a_stored_run_answers_as_its_log() {
    let folder = tempfile::tempdir().unwrap();
    for log in [BAD_DATA, "fixtures/logs/megatron/restart.log"] {
        let path = stored(&folder, log);
        let of = |input: &str| {
            stdout(&[
                "diagnose",
                input,
                "--checkpoint-steps",
                KEPT,
                "--format",
                "json",
            ])
        };
        assert_eq!(of(&path), of(log));
    }
}

#[test]
fn ingest_says_what_it_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.parquet");
    let text = stdout(&[
        "ingest",
        "fixtures/logs/jsonl/restart.jsonl",
        "-o",
        path.to_str().unwrap(),
    ]);
    assert!(
        text.contains("5 rows") && text.contains("2 attempts") && text.lines().count() == 1,
        "{text}"
    );
    assert!(path.exists());
    let text = stdout(&[
        "ingest",
        "fixtures/logs/csv/semicolon.csv",
        "--step-base",
        "0",
        "--format",
        "csv",
        "-o",
        path.to_str().unwrap(),
    ]);
    assert!(text.contains("3 rows"), "{text}");
    fails(&[
        "ingest",
        BLOOM,
        "-o",
        folder.path().join("absent/run.parquet").to_str().unwrap(),
    ]);
}

#[test]
fn each_log_becomes_a_store_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("stores");
    let output = output.to_str().unwrap();
    let logs = [
        "fixtures/logs/jsonl/restart.jsonl",
        "fixtures/logs/csv/semicolon.csv",
    ];
    let text = stdout(&["ingest", "--each", logs[0], logs[1], "-o", output]);
    let rows: Vec<&str> = text.lines().filter_map(|l| l.split(' ').nth(1)).collect();
    assert_eq!(rows, ["5", "3"], "{text}");
    assert!(text.contains("restart.parquet: ") && text.contains("semicolon.parquet: "));

    // One that cannot be read does not keep the others from it.
    let out = whyspike(&["ingest", "--each", "README.md", logs[0], "-o", output])
        .output()
        .unwrap();
    let [text, error] = [out.stdout, out.stderr].map(|b| String::from_utf8(b).unwrap());
    assert_eq!(
        (out.status.code(), text.lines().count()),
        (Some(2), 1),
        "{text}{error}"
    );
    assert!(
        error.contains("README.md: ") && error.contains("1 of 2 logs"),
        "{error}"
    );
    let answer = json(&[
        "diagnose",
        &format!("{output}/restart.parquet"),
        "--format",
        "json",
    ]);
    assert_eq!(answer["run"]["attempts"], 2);
    assert!(fails(&["ingest", "--each", logs[0], logs[0], "-o", output]).contains("both become"));
}

#[test]
fn standard_input_is_read() {
    let log = std::fs::read(root().join(BLOOM)).unwrap();
    let out = whyspike(&["diagnose", "-", "--format", "json"])
        .write_stdin(log)
        .output()
        .unwrap();
    assert_eq!((out.status.code(), out.stderr.len()), (Some(0), 0));
    let got: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(
        (
            got["run"]["rows"].as_u64(),
            got["incidents"][0]["peak_step"].as_u64()
        ),
        (Some(10), Some(31219))
    );
    let packed = std::fs::read(root().join(BAD_DATA)).unwrap();
    let out = whyspike(&["diagnose", "-", "--format", "json"])
        .write_stdin(packed)
        .output()
        .unwrap();
    let got: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(got["run"]["rows"], 1160);
    let out = whyspike(&["diagnose", "-"])
        .write_stdin("")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(
        String::from_utf8(out.stderr)
            .unwrap()
            .contains("standard input")
    );
}

// ---- rules ----

#[test]
fn rules_are_listed_and_shown() {
    let list = stdout(&["rules", "list"]);
    for cause in whyspike::rules::CAUSES {
        assert!(
            list.lines().any(|l| l.starts_with(cause)),
            "{cause} is not in:\n{list}"
        );
    }
    let page = stdout(&["rules", "show", "learning-rate"]);
    assert!(page.starts_with("learning-rate: "), "{page}");
    for part in ["Evidence", "Experiments", "Remedy", "References", "prior"] {
        assert!(page.contains(part), "`{part}` is not in:\n{page}");
    }
    let error = fails(&["rules", "show", "cosmic-rays"]);
    assert!(
        error.contains("cosmic-rays") && error.contains("learning-rate"),
        "{error}"
    );
}

#[test]
fn rules_are_checked() {
    let text = stdout(&["rules", "check", "rules/bad-data.toml", "rules/bf16.toml"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    let folder = tempfile::tempdir().unwrap();
    let rule = std::fs::read_to_string(root().join("rules/hardware.toml")).unwrap();
    let check = |text: &str| {
        let path = folder.path().join("hardware.toml");
        std::fs::write(&path, text).unwrap();
        let out = whyspike(&["rules", "check", path.to_str().unwrap()])
            .output()
            .unwrap();
        let said = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains("hardware.toml"), "{said}");
        said
    };
    let said = check(&rule.replacen("when = \"hw_event\"", "when = \"hw_evnt\"", 1));
    assert!(said.contains("hw_evnt") && said.contains("line "), "{said}");
    let said = check(&rule.replacen("expect = \"supported\"", "expect = \"refuted\"", 1));
    assert!(
        said.contains("expected refuted") && said.contains("case `"),
        "{said}"
    );
    check("nonsense");
}

#[test]
fn a_folder_of_rules_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let rule = std::fs::read_to_string(root().join("rules/hardware.toml")).unwrap();
    std::fs::write(
        folder.path().join("my-cause.toml"),
        rule.replace("cause = \"hardware\"", "cause = \"my-cause\""),
    )
    .unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(stdout(&["rules", "list", "--rules", path]).contains("my-cause"));
    let got = json(&["diagnose", BLOOM, "--rules", path, "--format", "json"]);
    assert!(got["incidents"][0]["verdict"]["posterior"]["my-cause"].is_number());
    fails(&["diagnose", BLOOM, "--rules", "fixtures/logs"]);
    fails(&["diagnose", BLOOM, "--rules", "no-such-folder"]);
}

// ---- what cannot run ----

#[test]
fn bad_input_is_one_line_and_exit_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        (file("empty.log", b""), "empty"),
        (file("binary.log", &[0, 1, 2, 255].repeat(500)), "binary"),
        (file("prose.log", b"no step here\n"), "not a log"),
        (
            file("no-step.jsonl", b"{\"loss\": 1.0}\n{\"loss\": 2.0}\n"),
            "step",
        ),
        (file("long.log", &vec![b'x'; 10 << 20]), "not a log"),
        (
            file("overflow.csv", b"step,loss\n99999999999999999999999,1.0\n"),
            "step",
        ),
        (
            "fixtures/logs/parquet/no-step.parquet".to_owned(),
            "no column says which step",
        ),
        ("rules".to_owned(), "no log of a known format"),
        ("no-such.log".to_owned(), "no-such.log"),
    ];
    for (path, says) in &cases {
        let out = folder.path().join("out.parquet");
        let error = fails(&["ingest", path, "-o", out.to_str().unwrap()]);
        assert!(error.contains(says), "`{says}` is not in: {error}");
        assert!(!out.exists(), "nothing half-written is left");
    }
    for (path, says) in &cases[4..7] {
        assert!(fails(&["diagnose", path]).contains(says));
        assert!(fails(&["plan", path]).contains(says));
    }
}

#[test]
fn bad_lists_of_checkpoints_are_one_line_and_exit_2() {
    for (list, says) in [
        ("x", "`x`"),
        ("100,2x0", "`2x0`"),
        (",", "empty"),
        ("-5", "-5"),
        ("99999999999999999999", "99999"),
    ] {
        let error = fails(&["diagnose", BLOOM, &format!("--checkpoint-steps={list}")]);
        assert!(
            error.contains("--checkpoint-steps") && error.contains(says),
            "{error}"
        );
    }
}

#[test]
fn bad_arguments_are_exit_2_and_help_is_exit_0() {
    for args in [
        &["diagnose"][..],
        &["nonsense"],
        &[],
        &["diagnose", BLOOM, "--format", "xml"],
        &["diagnose", BLOOM, "--step-base", "2"],
        &["diagnose", BLOOM, "--checkpoint-every", "0"],
        &["diagnose", BLOOM, "--keep", "3"],
        &[
            "diagnose",
            BLOOM,
            "--checkpoint-steps",
            "1",
            "--checkpoint-every",
            "2",
        ],
        &["ingest", BLOOM],
        &["rules"],
    ] {
        let out = whyspike(args).output().unwrap();
        assert_eq!(
            (out.status.code(), out.stdout.len()),
            (Some(2), 0),
            "{args:?}"
        );
        assert!(!out.stderr.is_empty(), "{args:?}");
    }
    for args in [
        &["--help"][..],
        &["--version"],
        &["diagnose", "--help"],
        &["rules", "check", "--help"],
    ] {
        assert!(
            stdout(args).contains("whyspike") || stdout(args).contains("Usage"),
            "{args:?}"
        );
    }
}

#[test]
fn a_reader_that_closes_early_is_no_error() {
    let binary = Command::cargo_bin("whyspike").expect("the binary");
    for args in [
        &["rules", "list"][..],
        &["formats"],
        &["diagnose", BAD_DATA, "--format", "json"],
    ] {
        let mut child = std::process::Command::new(binary.get_program())
            .env_clear()
            .current_dir(root())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        drop(child.stdout.take());
        let mut error = String::new();
        child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut error)
            .unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), error.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_framework_named_by_the_user_comes_first() {
    let args = [
        "diagnose",
        "fixtures/logs/megatron/restart.log",
        "--format",
        "json",
    ];
    assert_eq!(json(&args)["run"]["framework"], "megatron-lm");
    let named = [&args[..], &["--framework", "Megatron_LM@0.16"]].concat();
    assert_eq!(json(&named)["run"]["framework"], "megatron-lm");
    let other = [&args[..], &["--framework", "nemo@2.0"]].concat();
    assert_eq!(json(&other)["run"]["framework"], "nemo");
}
