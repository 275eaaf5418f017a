//! The example in CONTRIBUTING.md is a reader of the product, word for word.

use std::fs;

use crate::support::root;

/// The fenced blocks of a page in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let after = page.split(fence.as_str()).skip(1);
    after.filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_example_is_the_reader_that_is_compiled() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect(path);
    let (page, reader) = (read("CONTRIBUTING.md"), read("src/ingest/lingua.rs"));
    let code = blocks(&page, "rust");
    assert!(code.len() >= 5, "{} blocks of code", code.len());
    for block in code {
        assert!(reader.contains(block), "not in lingua.rs:\n{block}");
    }
    let log = read("fixtures/logs/lingua/train.log");
    for line in blocks(&page, "text").concat().lines() {
        assert!(log.lines().any(|l| l == line), "not in the fixture: {line}");
    }
}
