//! Configuration that a run stores as JSON: its leaves become facts.

use std::collections::BTreeMap;

use crate::ingest::json;

/// Facts that are kept, and the longest name and value of one. A model's configuration can list every class it knows.
const MOST_FACTS: usize = 1024;
const LONGEST: usize = 256;
/// Names of β₂ of Adam under which configurations nest it.
const BETA2: [&str; 4] = ["adam_beta2", "beta2", "adam_b2", "optim_adam_beta2"];

/// Notes the leaves of a value, named by their paths, which begin with `name`. β₂ is noted under its usual name too.
/// `None` if the text is cut or does not fit.
pub(super) fn leaves(
    facts: &mut BTreeMap<String, String>,
    mut name: Vec<u8>,
    json: &[u8],
) -> Option<()> {
    json::leaves(json, &mut name, &mut |name, in_list, leaf| {
        let name = String::from_utf8_lossy(name);
        if second_beta(&name) {
            note(facts, "adam_beta2", leaf, false);
        }
        if !in_list {
            note(facts, &name, leaf, true);
        }
    })
}

/// Notes a fact; one that is known already only if `again`.
pub(super) fn note(facts: &mut BTreeMap<String, String>, name: &str, json: &[u8], again: bool) {
    let value = json::unquoted(json);
    let known = facts.contains_key(name);
    let fits =
        name.len() <= LONGEST && value.len() <= LONGEST && (known || facts.len() < MOST_FACTS);
    if fits && json != b"null" && !json.is_empty() && (again || !known) {
        facts.insert(name.to_owned(), String::from_utf8_lossy(value).into_owned());
    }
}

/// Whether a nested name is one of β₂, on its own or as the second of both.
fn second_beta(name: &str) -> bool {
    match name.rsplit_once('/') {
        Some((rest, "1")) => {
            ["betas", "adam_betas"].contains(&rest.rsplit('/').next().unwrap_or(rest))
        }
        Some((_, last)) => BETA2.contains(&last),
        None => false,
    }
}
