//! The whole way: a log that is recognised, its diagnosis, and each of the reports.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use whyspike::checkpoints::Given;
use whyspike::diagnosis::{Told, diagnose};
use whyspike::report::plot::{self, Look};
use whyspike::report::{figure, json, markdown, text};
use whyspike::rules::RuleSet;
use whyspike_fuzz::read_plain;

static RULES: LazyLock<RuleSet> =
    LazyLock::new(|| RuleSet::built_in().expect("the built-in rules"));

fuzz_target!(|bytes: &[u8]| {
    let Some(run) = read_plain(bytes, None) else {
        return;
    };
    let told = Told {
        checkpoints: Given::Every {
            every: 5,
            keep: None,
        },
        ..Told::default()
    };
    let diagnosis = diagnose(run, &RULES, &told);
    let printed = [
        text::render(
            &diagnosis,
            text::Layout {
                columns: 100,
                charts: true,
            },
        ),
        json::render(&diagnosis),
        markdown::render(&diagnosis),
    ];
    assert!(printed.iter().all(|p| !p.is_empty()));
    printed.iter().for_each(|p| steers_nothing(p));
    let first = diagnosis.incidents.first();
    let figure = first.map_or_else(
        || figure::overview(&diagnosis, 300),
        |x| figure::incident(&diagnosis, x, 300),
    );
    let picture = plot::svg(&figure, "", &Look::default());
    assert!(picture.is_ok_and(|p| p.ends_with("</svg>\n")) || figure.panels.is_empty());
});

/// A report has colours and line ends of its own; nothing else in it steers a terminal.
fn steers_nothing(report: &str) {
    for (at, c) in report
        .char_indices()
        .filter(|(_, c)| c.is_control() && *c != '\n')
    {
        let style = report[at..]
            .strip_prefix("\x1b[")
            .map(|s| s.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        assert!(style.is_some_and(|s| s.starts_with('m')), "{c:?} at {at}");
    }
}
