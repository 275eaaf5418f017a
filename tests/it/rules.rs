//! Rule files: their cases, their form, and the two checks of a condition when it is loaded.

use std::collections::BTreeMap;
use std::path::PathBuf;

use whyspike::features::{Row, Value, catalogue};
use whyspike::rules::{Basis, CAUSES, Case, Condition, Expect, Rule, RuleSet, parse_file};
use whyspike::verdict::{Outcome, decide};

use crate::support::{RULES, files, root};

fn rule_files() -> Vec<PathBuf> {
    let all = files(&root().join("rules")).into_iter();
    all.filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect()
}

#[test]
fn every_case_of_every_rule_passes() {
    for path in rule_files() {
        let rule = parse_file(&path).unwrap_or_else(|e| panic!("{e}"));
        let failures = rule.run_cases();
        assert!(failures.is_empty(), "{}: {failures:#?}", path.display());
    }
}

#[test]
fn a_file_is_named_after_its_cause_and_the_nine_are_there() {
    let mut of_files: Vec<String> = rule_files()
        .iter()
        .map(|path| {
            let rule = parse_file(path).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(
                path.file_name().unwrap().to_str(),
                Some(format!("{}.toml", rule.cause).as_str())
            );
            rule.cause
        })
        .collect();
    let mut causes = CAUSES.map(str::to_owned).to_vec();
    causes.sort();
    of_files.sort();
    assert_eq!(of_files, causes);
    let built_in: Vec<&str> = RULES.iter().map(|r| r.cause.as_str()).collect();
    assert_eq!(built_in, causes);
}

#[test]
fn every_rule_has_a_case_of_each_kind() {
    for rule in RULES.iter() {
        for kind in [
            Expect::Supported,
            Expect::Refuted,
            Expect::Undecided,
            Expect::LookAlike,
        ] {
            assert!(
                rule.cases.iter().any(|c| c.expect == kind),
                "{} has no case {kind:?}",
                rule.cause
            );
        }
        assert!(
            rule.cases.iter().all(|c| !c.given.is_empty()),
            "{} has an empty case",
            rule.cause
        );
    }
}

#[test]
fn every_rule_is_a_whole_page() {
    for rule in RULES.iter() {
        let cause = &rule.cause;
        assert!(!rule.title.is_empty() && rule.about.len() > 80, "{cause}");
        assert!(
            !rule.references.is_empty() && !rule.look_alikes.is_empty(),
            "{cause}"
        );
        assert!(
            !rule.evidence.is_empty() && !rule.remedy.change.is_empty(),
            "{cause}"
        );
        assert!(
            ["experimental", "stable"].contains(&rule.status.as_str()),
            "{cause}: {}",
            rule.status
        );
        assert!(
            rule.evidence
                .iter()
                .all(|e| !e.source.is_empty() && !e.says.is_empty()),
            "{cause}"
        );
    }
    let priors: f64 = RULES.iter().map(|r| r.prior).sum();
    assert!(
        priors < 1.0,
        "the priors leave room for `unknown`: {priors}"
    );
}

/// Expressions that answer although something is unknown, or are not conditions at all (rules/SOURCES.md).
const REFUSED: [&str; 43] = [
    // Turn unknown into an answer.
    "loss_z IS NULL",
    "loss_z IS NOT NULL",
    "NOT (loss_z IS NULL)",
    "COALESCE(loss_z, 0) > 5",
    "IFNULL(loss_z, 0) > 5",
    "CASE WHEN loss_z > 5 THEN TRUE ELSE FALSE END",
    "IF(loss_z > 5, TRUE, FALSE)",
    "loss_z <=> 5",
    "loss_z IS DISTINCT FROM 5",
    "loss_z IS NOT DISTINCT FROM 5",
    "NULLIF(loss_z, 0) > 5",
    // Skip the missing value.
    "GREATEST(12, loss_z) > 5",
    "LEAST(12, loss_z) > 5",
    "CONCAT(loss_z, 'a') = 'a'",
    // Read as an alias.
    "loss_z > 5 GARBAGE",
    "loss_z > 5 AS hit",
    // Not an expression.
    "lr_ratio > 1e-4",
    "loss_z >",
    "",
    "loss_z IS UNKNOWN",
    "loss_z > (SELECT 5)",
    "loss_z > 5; loss_z > 6",
    "LAG(loss_z) > 5",
    // One value for the whole frame.
    "SUM(loss_z) > 5",
    "COUNT(*) > 0",
    "MAX(loss_z) > 5",
    // The same answer always, or none ever.
    "1 = 1",
    "TRUE",
    "NULL",
    "1 / 0 > 5",
    "foreshock OR TRUE",
    "loss_z > NULL",
    // Another type, another name.
    "no_such_feature > 5",
    "loss_z + 1",
    "loss_z > 'five'",
    "loss_z",
    // Pass the check with nothing known, and leak: true with the first feature given and the other missing.
    "loss_z > 5 AND g_lead IS NULL",
    "loss_z > 5 AND COALESCE(g_lead, 0) < 1",
    "loss_z > 5 AND IFNULL(foreshock, TRUE)",
    "loss_z > 5 AND foreshock IS DISTINCT FROM TRUE",
    "loss_z > 5 AND CASE WHEN g_lead > 5 THEN FALSE ELSE TRUE END",
    "loss_z > 5 AND COUNT(g_lead) = 0",
    "GREATEST(loss_z, g_lead) > 5",
];

/// Conditions over four features: three numbers and a truth value.
const ADMITTED: [&str; 28] = [
    "loss_z > 5",
    "loss_z >= 3.0",
    "loss_z < 0.0001",
    "loss_z <= 1.0e-4",
    "loss_z = 6.5",
    "loss_z <> 6.5",
    "loss_z > g_lead",
    "loss_z > 5 AND g_lead > 0",
    "loss_z > 5 OR g_lead > 0",
    "NOT loss_z > 5",
    "NOT (loss_z > 5 AND g_lead > 0)",
    "NOT (loss_z > 5 OR g_lead > 0)",
    "(loss_z > 5 AND g_lead > 0) OR rise_time < 3",
    "loss_z > 5 AND (g_lead > 0 OR rise_time < 3)",
    "loss_z BETWEEN 1 AND 7",
    "loss_z NOT BETWEEN 1 AND 7",
    "loss_z IN (0.0, 6.5)",
    "loss_z NOT IN (0.0, 6.5)",
    "ABS(g_lead) > 0.5",
    "-loss_z < 0",
    "loss_z - g_lead > 2",
    "2 * loss_z + rise_time > 12",
    "POWER(loss_z, 2) > 20",
    "foreshock",
    "NOT foreshock",
    "foreshock AND loss_z > 5",
    "foreshock OR loss_z > 5",
    "loss_z > 5 AND FALSE OR rise_time > 3",
];

#[test]
fn conditions_that_could_erase_unknown_are_refused() {
    let admitted: Vec<&str> = REFUSED
        .into_iter()
        .filter(|sql| Condition::parse(sql).is_ok())
        .collect();
    assert!(admitted.is_empty(), "{admitted:#?}");
}

#[test]
fn plain_conditions_are_admitted() {
    for sql in ADMITTED {
        if let Err(e) = Condition::parse(sql) {
            panic!("`{sql}`: {e}");
        }
    }
}

#[test]
fn a_condition_knows_its_features() {
    let condition =
        Condition::parse("rise_time < 3 AND (loss_z > 5 OR loss_z < g_lead)").expect("plain");
    assert_eq!(condition.features(), ["g_lead", "loss_z", "rise_time"]);
    assert_eq!(
        condition.sql(),
        "rise_time < 3 AND (loss_z > 5 OR loss_z < g_lead)"
    );
}

/// A rule with these conditions as evidence, and the other causes without any.
fn rule_set(conditions: &[&str]) -> RuleSet {
    let folder = tempfile::tempdir().expect("a folder");
    let head = |cause: &str| {
        format!(
            "cause = {cause:?}\ntitle = \"t\"\nstatus = \"experimental\"\nprior = 0.1\nabout = \"a\"\nreferences = []\n\
             look_alikes = []\n"
        )
    };
    let remedy = "[remedy]\nbefore = \"onset\"\nskip = false\nchange = \"c\"\n";
    for cause in CAUSES {
        let text = format!("{}evidence = []\n{remedy}", head(cause));
        std::fs::write(folder.path().join(format!("{cause}.toml")), text).expect("written");
    }
    let evidence = |(i, sql): (usize, &&str)| {
        format!(
            "[[evidence]]\nid = \"{i:02}\"\nwhen = {sql:?}\nratio = 2.0\ngroup = \"g\"\nsays = \"s\"\nbasis = \"judgement\"\nsource = \"test\"\n"
        )
    };
    let all: String = conditions.iter().enumerate().map(evidence).collect();
    let text = format!("{}{all}{remedy}", head("bad-data"));
    std::fs::write(folder.path().join("bad-data.toml"), text).expect("written");
    RuleSet::with_folder(folder.path()).unwrap_or_else(|e| panic!("{e}"))
}

/// Every mix of given and missing values of the four features.
fn mixes() -> Vec<[Option<Value>; 4]> {
    let number = |v| Some(Value::Number(v));
    let numbers = [
        None,
        number(-1.0),
        number(0.0),
        number(6.5),
        number(f64::NAN),
        number(f64::INFINITY),
    ];
    let truths = [None, Some(Value::Bool(false)), Some(Value::Bool(true))];
    let mut out = Vec::new();
    for a in numbers {
        for b in [None, number(-1.0), number(0.0), number(6.5)] {
            for c in [None, number(0.0), number(6.5)] {
                out.extend(truths.map(|d| [a, b, c, d]));
            }
        }
    }
    out
}

const FOUR: [&str; 4] = ["loss_z", "g_lead", "rise_time", "foreshock"];

fn row_of(mix: &[Option<Value>; 4]) -> Row {
    let mut row: Row = catalogue().map(|f| (f.name, None)).collect();
    row.extend(FOUR.into_iter().zip(*mix));
    row
}

/// Whether a mix is another one with one missing value filled in. A value that is not finite is a missing one.
fn fills_in(full: &[Option<Value>; 4], part: &[Option<Value>; 4]) -> bool {
    let known = |v: &Option<Value>| v.filter(|v| v.number().is_finite());
    let changed: Vec<usize> = (0..4)
        .filter(|i| known(&full[*i]) != known(&part[*i]))
        .collect();
    matches!(changed[..], [only] if known(&part[only]).is_none())
}

#[test]
fn filling_in_a_missing_value_never_changes_an_answer() {
    let set = rule_set(&ADMITTED);
    let mixes = mixes();
    let answers: Vec<Vec<Option<bool>>> = mixes
        .iter()
        .map(|mix| set.evaluate(&row_of(mix)).iter().map(|f| f.holds).collect())
        .collect();
    let mut pairs = 0;
    for (part, before) in mixes.iter().zip(&answers) {
        for (full, after) in mixes
            .iter()
            .zip(&answers)
            .filter(|(full, _)| fills_in(full, part))
        {
            pairs += 1;
            for (i, sql) in ADMITTED.iter().enumerate() {
                let kept = before[i].is_none() || before[i] == after[i];
                assert!(
                    kept,
                    "`{sql}` with {part:?} is {:?}, with {full:?} {:?}",
                    before[i], after[i]
                );
            }
        }
    }
    assert!(pairs > 500, "{pairs}");
    let given = |answer: Option<bool>| answers.iter().flatten().filter(|a| **a == answer).count();
    assert!(given(None) > 500 && given(Some(true)) > 500 && given(Some(false)) > 500);
}

/// Answers of conditions on the four features.
fn answers(conditions: &[&str], mix: [Option<Value>; 4]) -> Vec<Option<bool>> {
    rule_set(conditions)
        .evaluate(&row_of(&mix))
        .iter()
        .map(|f| f.holds)
        .collect()
}

#[test]
fn logic_has_three_values() {
    let conditions = [
        "loss_z > 5",
        "NOT loss_z > 5",
        "g_lead > 5 AND loss_z > 5",
        "g_lead < 5 OR loss_z > 5",
        "g_lead < 5 AND loss_z > 5",
        "loss_z IN (1.0, 2.0)",
        "loss_z BETWEEN 1 AND 7",
        "foreshock",
    ];
    let only_lead = answers(&conditions, [None, Some(Value::Number(1.0)), None, None]);
    assert_eq!(
        only_lead,
        [None, None, Some(false), Some(true), None, None, None, None]
    );
    let nan = Some(Value::Number(f64::NAN));
    assert_eq!(
        answers(&["loss_z > 5", "NOT loss_z > 5"], [nan, None, None, None]),
        [None, None],
        "NaN sorts above all"
    );
    let both = [
        Some(Value::Number(6.0)),
        Some(Value::Number(1.0)),
        None,
        Some(Value::Bool(true)),
    ];
    let yes_no = [true, false, false, true, true, false, true, true].map(Some);
    assert_eq!(answers(&conditions, both), yes_no);
}

#[test]
fn unknown_evidence_weighs_nothing_and_is_said_to_be_unknown() {
    let set = rule_set(&["loss_z > 5"]);
    let finding = set.evaluate(&row_of(&[None; 4])).remove(0);
    assert_eq!((finding.holds, finding.ratio), (None, 1.0));
    assert_eq!(finding.features, ["loss_z"]);
    let known = set
        .evaluate(&row_of(&[Some(Value::Number(9.0)), None, None, None]))
        .remove(0);
    assert_eq!((known.holds, known.ratio), (Some(true), 2.0));
}

/// The factor of a rule with these ratios and groups, every condition true.
fn factor(evidence: &[(f64, &str)]) -> f64 {
    let each = |(i, (ratio, group)): (usize, &(f64, &str))| {
        format!(
            "[[evidence]]\nid = \"E{i}\"\nwhen = \"loss_z > 5\"\nratio = {ratio:?}\ngroup = {group:?}\nsays = \"s\"\n\
             basis = \"judgement\"\nsource = \"test\"\n"
        )
    };
    let all: String = evidence.iter().enumerate().map(each).collect();
    let text = format!(
        "cause = \"c\"\ntitle = \"t\"\nstatus = \"stable\"\nprior = 0.1\nabout = \"a\"\nreferences = []\nlook_alikes = []\n\
         {all}[remedy]\nbefore = \"onset\"\nskip = false\nchange = \"c\"\n"
    );
    let rule = Rule::parse("c", &text).unwrap_or_else(|e| panic!("{e}"));
    rule.factor(&row_of(&[Some(Value::Number(9.0)), None, None, None]))
}

#[test]
fn ratios_of_a_group_are_capped_together() {
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
    near(factor(&[(2.0, "a"), (3.0, "a")]), 6.0);
    near(factor(&[(5.0, "a"), (6.0, "a")]), 12.0);
    near(factor(&[(5.0, "a"), (6.0, "b")]), 30.0);
    near(factor(&[(0.2, "a"), (0.2, "a")]), 0.1);
    near(factor(&[(9.0, "experiment"), (9.0, "experiment")]), 50.0);
    near(factor(&[(0.1, "experiment"), (0.1, "experiment")]), 0.02);
}

/// The row of features of a case.
fn row_of_case(case: &Case) -> Row {
    let mut row: Row = catalogue().map(|f| (f.name, None)).collect();
    for (name, given) in &case.given {
        let value = match given {
            toml::Value::Boolean(b) => Value::Bool(*b),
            toml::Value::Integer(v) => Value::Number(*v as f64),
            other => Value::Number(other.as_float().expect("a number")),
        };
        let known = catalogue().find(|f| f.name == name).expect("a feature");
        row.insert(known.name, Some(value));
    }
    row
}

/// Decided only with half of the posterior, twice the next and more than a weak sign; what is said to decide was not
/// logged.
#[test]
fn doubt_is_kept_where_it_is_due() {
    let run = crate::support::Curve::of_loss([2.0; 20]).run();
    let mut outcomes = BTreeMap::new();
    for case in RULES.iter().flat_map(|r| &r.cases) {
        let (name, row) = (&case.name, row_of_case(case));
        let verdict = decide(&run, &RULES, RULES.evaluate(&row), &[]);
        let total: f64 = verdict.posterior.iter().map(|(_, p)| p).sum();
        assert!((total - 1.0).abs() < 1e-9, "{name}: {total}");
        assert!(
            verdict.posterior.windows(2).all(|w| w[0].1 >= w[1].1),
            "{name}"
        );
        let ((first, p), next) = (&verdict.posterior[0], verdict.posterior[1].1);
        let leads = *p >= 0.5 && *p >= 2.0 * next;
        let factor = RULES.get(first).map_or(0.0, |rule| rule.factor(&row));
        let decided = verdict.outcome == Outcome::Decided;
        assert!(
            !decided || (leads && factor >= 3.0),
            "{name}: {factor}, {:?}",
            verdict.posterior
        );
        assert!(
            decided || !leads || factor <= 12.0,
            "{name}: {factor}, {:?}",
            verdict.posterior
        );
        assert_eq!(
            verdict.cause.as_deref(),
            decided.then_some(first.as_str()),
            "{name}"
        );
        assert!(
            !verdict.deciding_signals.iter().any(|s| s == "loss"),
            "{name}: the loss was logged"
        );
        *outcomes.entry(verdict.outcome.name()).or_insert(0) += 1;
    }
    assert!(
        outcomes["decided"] > 5 && outcomes["undecided"] > 5,
        "{outcomes:?}"
    );
}

/// The hardware rule with a change.
fn broken(from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(root().join("rules/hardware.toml")).expect("the rule");
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text, "`{from}` is not in the file");
    Rule::parse("hardware", &changed).expect_err("a broken rule is refused")
}

fn says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in:\n{error}");
    }
}

#[test]
fn errors_of_a_bad_rule_show_the_place() {
    let text = std::fs::read_to_string(root().join("rules/hardware.toml")).expect("the rule");
    let line_of = |part: &str| {
        1 + text
            .lines()
            .position(|l| l.contains(part))
            .expect("in the file")
    };
    let place = |part: &str| format!("line {}", line_of(part));
    let at = place("when = \"hw_event\"");
    says(
        &broken("when = \"hw_event\"", "when = \"hw_evnt\""),
        &[&at, "hw_evnt"],
    );
    says(
        &broken("when = \"hw_event\"", "when = \"hw_event IS NULL\""),
        &[&at, "is_null", "unknown"],
    );
    says(&broken("when = \"hw_event\"", "when = 5"), &[&at]);
    says(&broken("ratio = 6.0", "ratio = 0.0"), &["HW1", "above 0"]);
    says(&broken("ratio = 6.0", "ratio = -2.0"), &["HW1", "above 0"]);
    says(&broken("ratio = 6.0", "ratio = nan"), &["HW1", "above 0"]);
    says(
        &broken("ratio = 6.0", "ratio = 6.0\nweight = 3"),
        &["weight", &format!("line {}", line_of("ratio = 6.0") + 1)],
    );
    says(
        &broken("basis = \"published\"\n", ""),
        &[
            "basis",
            "published, measured, fitted, definition, judgement",
            "README",
        ],
    );
    says(
        &broken("basis = \"published\"", "basis = \"guess\""),
        &[
            "guess",
            "`published`",
            "`judgement`",
            &place("basis = \"published\""),
        ],
    );
    says(
        &broken("basis = \"published\"", "basis = \"fitted\""),
        &["HW1", "runs", "how many"],
    );
    says(
        &broken("basis = \"published\"", "basis = \"published\"\nruns = 0"),
        &["HW1", "runs"],
    );
    says(&broken("id = \"HW2\"", "id = \"HW1\""), &["HW1", "twice"]);
    says(&broken("{hw_event}", "{no_such}"), &["HW1", "no_such"]);
    says(&broken("{hw_event}", "{hw_event"), &["HW1", "`}`"]);
    says(&broken("prior = 0.03", "prior = 0.0"), &["prior"]);
    says(
        &broken("cause = \"hardware\"", "cause = \"hardwear\""),
        &["hardwear", "hardware"],
    );
    says(
        &broken("kind = \"same\"", "kind = \"sam\""),
        &["sam", "forward-only"],
    );
    says(
        &broken("[remedy]", "[remedi]"),
        &["remedi", &place("[remedy]")],
    );
}

#[test]
fn a_bad_file_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my-cause.toml");
    std::fs::write(&path, "cause = \"my-cause\"\n").expect("written");
    let error = parse_file(&path).expect_err("not whole").to_string();
    says(&error, &["my-cause.toml", "missing field"]);
    let error = RuleSet::with_folder(folder.path())
        .expect_err("not whole")
        .to_string();
    says(&error, &["my-cause.toml"]);
    let empty = tempfile::tempdir().expect("a folder");
    says(
        &RuleSet::with_folder(empty.path())
            .expect_err("empty")
            .to_string(),
        &["no rule file"],
    );
}

#[test]
fn a_folder_adds_and_replaces() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = std::fs::read_to_string(root().join("rules/hardware.toml")).expect("the rule");
    let mine = text.replace("cause = \"hardware\"", "cause = \"cosmic-rays\"");
    std::fs::write(folder.path().join("cosmic-rays.toml"), mine).expect("written");
    std::fs::write(
        folder.path().join("hardware.toml"),
        text.replace("prior = 0.03", "prior = 0.2"),
    )
    .expect("written");
    let set = RuleSet::with_folder(folder.path()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(set.iter().count(), CAUSES.len() + 1);
    assert!(set.get("cosmic-rays").is_some());
    assert_eq!(set.get("hardware").map(|r| r.prior), Some(0.2));
}

#[test]
fn features_have_one_name_and_say_what_they_measure() {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for f in catalogue() {
        assert_eq!(
            names.insert(f.name, f.id),
            None,
            "{} is there twice",
            f.name
        );
        assert!(!f.about.is_empty() && !f.needs.is_empty(), "{}", f.name);
    }
    assert!(names.len() >= 50);
}

#[test]
fn what_a_ratio_rests_on_agrees_with_its_source() {
    for (rule, e) in RULES
        .iter()
        .flat_map(|r| r.evidence.iter().map(move |e| (r, e)))
    {
        let place = format!("{} {}", rule.cause, e.id);
        let small = e.source.contains("small runs with the cause known");
        assert!(
            small || e.basis != Basis::Fitted,
            "{place}: fitted to what?"
        );
        // A count such as `9 of 10`, or a list of measurements, stands in the source.
        let counted =
            e.source.contains(" of ") || e.source.contains(" in ") || e.source.contains("(M");
        assert!(
            e.runs.is_none() || counted || e.basis == Basis::Measured,
            "{place}: counted where?"
        );
        let measured = ["M1", "M2", "M3", "M4", "M5", "M6"];
        let cites = measured.iter().any(|m| e.source.contains(m));
        assert!(
            cites || e.basis != Basis::Measured,
            "{place}: measured where?"
        );
    }
}

#[test]
fn the_example_of_the_rules_page_is_a_rule() {
    let page = include_str!("../../rules/README.md");
    let (_, rest) = page.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let rule = Rule::parse("tokenizer-change", example).expect("a rule");
    assert!(rule.run_cases().is_empty(), "{:?}", rule.run_cases());
}
