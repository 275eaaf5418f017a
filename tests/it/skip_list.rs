//! Skip lists: what is written follows its schema, and each framework's list is its own.

use serde_json::{Value, json};
use whyspike::resume::{can_skip, frameworks};

use crate::cli::{BAD_DATA, KEPT, fails, stdout};
use crate::support::root;

fn schema() -> Value {
    let text = std::fs::read_to_string(root().join("schemas/skip-list.json")).unwrap();
    serde_json::from_str(&text).expect("JSON")
}

/// Whether a value is of a JSON Schema type.
fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        other => panic!("the schema has a type that this test does not know: {other}"),
    }
}

fn words(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

/// The keywords of JSON Schema that the schema uses; any other is an error, so that none is passed over.
fn faults(schema: &Value, rule: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (keyword, want) in rule.as_object().expect("a rule") {
        let number = |v: &Value| v.as_u64().unwrap_or_else(|| panic!("{keyword} of {at}"));
        let items = value.as_array();
        let holds = match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let path = want.as_str().expect("a path").trim_start_matches('#');
                let target = schema.pointer(path).expect("a definition");
                out.extend(faults(schema, target, value, at));
                true
            }
            "type" => words(want).iter().any(|kind| is_of(kind, value)),
            "const" => want == value,
            "enum" => want.as_array().is_some_and(|all| all.contains(value)),
            "minimum" => {
                value.as_u64().is_none_or(|v| v >= number(want)) && value.as_i64() != Some(-1)
            }
            "minItems" => items.is_none_or(|i| i.len() as u64 >= number(want)),
            "maxItems" => items.is_none_or(|i| i.len() as u64 <= number(want)),
            "items" => {
                for (n, item) in items.into_iter().flatten().enumerate() {
                    out.extend(faults(schema, want, item, &format!("{at}[{n}]")));
                }
                true
            }
            "required" => words(want).iter().all(|key| value.get(key).is_some()),
            "additionalProperties" => want == true,
            "properties" => {
                for (key, inner) in want.as_object().expect("properties") {
                    if let Some(part) = value.get(key) {
                        out.extend(faults(schema, inner, part, &format!("{at}.{key}")));
                    }
                }
                true
            }
            other => panic!("the schema has a keyword that this test does not know: {other}"),
        };
        if !holds {
            out.push(format!("{at}: {keyword} {want}, got {value}"));
        }
    }
    out
}

fn wrong(list: &Value) -> Vec<String> {
    let schema = schema();
    faults(&schema, &schema, list, "list")
}

fn list(more: &[&str]) -> String {
    let plan = ["plan", BAD_DATA, "--checkpoint-steps", KEPT];
    stdout(&[&plan[..], more].concat())
}

#[test]
fn what_is_written_follows_the_schema() {
    let written: Value = serde_json::from_str(&list(&["--skip-format", "json"])).expect("JSON");
    assert_eq!(wrong(&written), Vec::<String>::new());
    let described = schema()["properties"].as_object().unwrap().clone();
    for key in written.as_object().unwrap().keys() {
        assert!(described.contains_key(key), "{key} is not in the schema");
    }
    // Nothing is known of the checkpoints, so there is no way back: the list holds all the same.
    let alone = stdout(&["plan", BAD_DATA, "--skip-format", "json"]);
    let alone: Value = serde_json::from_str(&alone).expect("JSON");
    assert_eq!(wrong(&alone), Vec::<String>::new());
    assert!(alone["rollback_step"].is_null());
}

#[test]
fn the_schema_refuses_what_is_no_list() {
    let good: Value = serde_json::from_str(&list(&["--skip-format", "json"])).expect("JSON");
    for (key, bad) in [
        ("schema", json!(2)),
        ("steps", json!([[1]])),
        ("steps", json!([])),
        ("steps", json!([[1, 2, 3]])),
        ("samples", json!([["1", "2"]])),
        ("batches", json!(0)),
        ("rollback_step", json!("500")),
        ("earlier", json!([7])),
    ] {
        let mut list = good.clone();
        list[key] = bad.clone();
        assert!(!wrong(&list).is_empty(), "{key}: {bad}");
    }
    let mut list = good;
    list.as_object_mut().unwrap().remove("steps");
    assert!(!wrong(&list).is_empty());
}

#[test]
fn each_framework_has_its_own_list() {
    let of = |format: &str| list(&["--skip-format", format]);
    // The log counts from 0: its steps 528 to 573 are updates 529 to 574.
    assert_eq!(
        of("megatron-lm@0.17"),
        "--iterations-to-skip $(seq 529 574)\n"
    );
    assert_eq!(
        of("megatron-lm@0.16"),
        "--iterations-to-skip $(seq 528 573)\n"
    );
    assert_eq!(
        of("olmo-core"),
        "steps_to_skip=[StepSkipRange(start=529, stop=575)]\n"
    );
    assert_eq!(of("olmo-v1"), "--fast_forward_batches=74\n");
    for (name, _) in frameworks().iter().filter(|(n, _)| can_skip(n)) {
        assert!(!of(name).trim().is_empty(), "{name}");
    }
}

#[test]
fn a_framework_of_the_run_lends_its_version() {
    let args = ["--framework", "megatron-lm@0.16", "--skip-format", "mcore"];
    assert_eq!(list(&args), "--iterations-to-skip $(seq 528 573)\n");
}

#[test]
fn the_list_goes_to_a_file_and_the_plan_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("skip");
    let args = [
        "--skip-list",
        path.to_str().unwrap(),
        "--skip-format",
        "internevo",
    ];
    assert!(list(&args).contains("way back  checkpoint 500"));
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, "skip_batches=\"528-573\"\n");
}

#[test]
fn a_framework_that_cannot_skip_names_the_ways_out() {
    let plan = [
        "plan",
        BAD_DATA,
        "--checkpoint-steps",
        KEPT,
        "--skip-format",
    ];
    for (name, _) in frameworks().iter().filter(|(n, _)| !can_skip(n)) {
        let error = fails(&[&plan[..], &[name]].concat());
        assert!(
            error.contains("cannot skip") && error.contains("ways out: "),
            "{name}: {error}"
        );
    }
    let old = fails(&[&plan[..], &["megatron-lm@0.8"]].concat());
    assert!(old.contains("ways out: core 0.9 or later"), "{old}");
}
