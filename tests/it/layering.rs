//! Imports go one way: the order of the `pub mod` lines of `src/lib.rs` is the order of imports.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{files, root};

/// The modules of the library in order.
fn order() -> Vec<String> {
    let text = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let lines = text.lines().filter_map(|l| l.strip_prefix("pub mod "));
    lines.map(|l| l.trim_end_matches(';').to_owned()).collect()
}

/// Every `.rs` file under a folder, at any depth.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for path in files(folder) {
        if path.is_dir() {
            out.append(&mut sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
    out
}

/// The files of the library with the names of their modules: `src/detect/scan.rs` is `[detect, scan]`.
fn library() -> Vec<(PathBuf, Vec<String>)> {
    let src = root().join("src");
    let module = |path: &PathBuf| -> Vec<String> {
        let inside = path
            .strip_prefix(&src)
            .expect("under src")
            .with_extension("");
        inside
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect()
    };
    let all = sources(&src).into_iter().map(|p| (p.clone(), module(&p)));
    all.filter(|(_, m)| !["main", "lib", "cli"].contains(&m[0].as_str()))
        .collect()
}

/// The code without comments and without what stands in quotes.
fn code_only(text: &str) -> String {
    let all: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < all.len() {
        let end = comment(&all, at)
            .or_else(|| raw_string(&all, at))
            .or_else(|| quoted(&all, at));
        if let Some(end) = end {
            out.push(' ');
            at = end;
        } else {
            out.push(all[at]);
            at += 1;
        }
    }
    out
}

/// The place after a comment that starts here.
fn comment(all: &[char], at: usize) -> Option<usize> {
    match (all[at], all.get(at + 1)?) {
        ('/', '/') => Some(
            (at..all.len())
                .find(|i| all[*i] == '\n')
                .unwrap_or(all.len()),
        ),
        ('/', '*') => {
            let closes = |i: &usize| all[*i] == '*' && all.get(i + 1) == Some(&'/');
            Some(
                (at + 2..all.len())
                    .find(closes)
                    .map_or(all.len(), |i| i + 2),
            )
        }
        _ => None,
    }
}

/// The place after a raw string that starts here.
fn raw_string(all: &[char], at: usize) -> Option<usize> {
    let in_word =
        at > 0 && (all[at - 1].is_alphanumeric() || all[at - 1] == '_') && all[at - 1] != 'b';
    if all[at] != 'r' || in_word {
        return None;
    }
    let hashes = all[at + 1..].iter().take_while(|c| **c == '#').count();
    if all.get(at + 1 + hashes) != Some(&'"') {
        return None;
    }
    let closes = |i: &usize| {
        all[*i] == '"' && all[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    (at + 2 + hashes..all.len())
        .find(closes)
        .map(|i| i + 1 + hashes)
}

/// The place after a string or character that starts here; a lifetime is neither.
fn quoted(all: &[char], at: usize) -> Option<usize> {
    let quote = all[at];
    let character =
        quote == '\'' && (all.get(at + 1) == Some(&'\\') || all.get(at + 2) == Some(&'\''));
    if quote != '"' && !character {
        return None;
    }
    let mut i = at + 1;
    while i < all.len() && all[i] != quote {
        i += 1 + usize::from(all[i] == '\\');
    }
    Some(i + 1)
}

/// The code without what is compiled for unit tests only.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let Some((before, after)) = code.split_once(MARK) else {
        return code.to_owned();
    };
    let mut depth = 0;
    let end = after.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0 && (*c == '}' || *c == ';')
    });
    let rest = end.map_or("", |(i, _)| &after[i + 1..]);
    format!("{before}{}", without_tests(rest))
}

/// One space at most between words, none around punctuation of paths.
fn packed(code: &str) -> String {
    let mut out = code.split_whitespace().collect::<Vec<_>>().join(" ");
    for sign in ["::", "{", "}", ","] {
        out = out
            .replace(&format!("{sign} "), sign)
            .replace(&format!(" {sign}"), sign);
    }
    out
}

/// The first names of a path or of a group of paths.
fn heads(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        let name: String = path
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '*')
            .collect();
        return vec![name];
    };
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        parts.last_mut().expect("never empty").push(c);
    }
    parts
        .iter()
        .filter(|p| !p.is_empty())
        .flat_map(|p| heads(p))
        .collect()
}

/// The modules of the crate's root that a file names, whichever way it does; `depth` is that of its own module.
fn named(text: &str, depth: usize) -> Vec<String> {
    let code = packed(&without_tests(&code_only(text)));
    let word = |at: usize| {
        code[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
    };
    let mut out = Vec::new();
    for (at, found) in code.match_indices("crate::").filter(|(at, _)| !word(*at)) {
        out.append(&mut heads(&code[at + found.len()..]));
    }
    for (at, _) in code
        .match_indices("super::")
        .filter(|(at, _)| !word(*at) && !code[..*at].ends_with("super::"))
    {
        let rest = code[at..].trim_start_matches("super::");
        let up = (code.len() - at - rest.len()) / "super::".len();
        if up >= depth {
            out.append(&mut heads(rest));
        }
    }
    out.sort();
    out.dedup();
    out
}

/// What a file names that does not stand above its own module.
fn violations(order: &[String], module: &[String], text: &str) -> Vec<String> {
    let place = |name: &String| order.iter().position(|m| m == name);
    let Some(own) = place(&module[0]) else {
        return vec![format!("`{}` is not in lib.rs", module[0])];
    };
    let below = |name: &String| place(name).is_none_or(|at| at > own);
    named(text, module.len())
        .into_iter()
        .filter(below)
        .map(|n| format!("imports `{n}` from below"))
        .collect()
}

#[test]
fn modules_name_only_modules_above() {
    let order = order();
    assert!(order.len() >= 14, "lib.rs lists {order:?}");
    let files = library();
    assert!(files.len() > order.len());
    let bad: Vec<String> = files
        .iter()
        .flat_map(|(path, module)| {
            let text = fs::read_to_string(path).unwrap();
            violations(&order, module, &text)
                .into_iter()
                .map(|v| format!("{}: {v}", path.display()))
        })
        .collect();
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

#[test]
fn every_way_to_name_a_module_is_seen() {
    let order: Vec<String> = ["signal", "run", "report"].map(str::to_owned).into();
    let deep: Vec<String> = ["run", "rows", "more"].map(str::to_owned).into();
    let planted = [
        "use crate::report::Text;",
        "pub use crate::report;",
        "fn f() {\n    use crate::report::Text;\n}",
        "pub(crate) use crate::{\n    signal::{self, Aliases},\n    report::{json, text},\n};",
        "use crate::{signal, report as other};",
        "fn f() -> crate::report::Text { todo() }",
        "let x = crate::report::render(&d);",
        "use super::super::super::report::Text;",
        "use super::super::super::{signal, report};",
        "let c = '\"'; use crate::report::x; let d = '\"';",
        "#[cfg(test)]\nmod tests { use crate::report; }\nuse crate::report;",
        "use crate::*;",
    ];
    for text in planted {
        assert_eq!(violations(&order, &deep, text).len(), 1, "{text}");
    }
    let fine = [
        "use crate::signal::Aliases;\nuse crate::run::{Run, rows::Rows};",
        "// use crate::report::Text;\n/// like [`crate::report`]\nuse super::super::builder;",
        "let text = \"use crate::report;\"; let raw = r#\"crate::report \" \"#;",
        "#[cfg(test)]\nmod tests {\n    use crate::report;\n    const B: char = '{';\n}\n",
        "#[cfg(test)]\nuse crate::report;\nfn f<'a>(x: &'a str) {}",
        "macro_rules! m { () => { $crate::report } }",
        "use mycrate::report;",
    ];
    for text in fine {
        assert_eq!(
            violations(&order, &deep, text),
            Vec::<String>::new(),
            "{text}"
        );
    }
}

#[test]
fn only_the_binary_prints_and_exits() {
    const OUTPUT: [&str; 7] = [
        "println!",
        "print!(",
        "eprint!(",
        "dbg!(",
        "process::exit",
        "io::stdout",
        "io::stderr",
    ];
    for (path, _) in library() {
        let code = without_tests(&code_only(&fs::read_to_string(&path).unwrap()));
        for call in OUTPUT {
            assert!(!code.contains(call), "{} has {call}", path.display());
        }
    }
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    let folders = ["src", "tests", "examples", "benches"].map(|f| root().join(f));
    let all: Vec<PathBuf> = folders
        .iter()
        .filter(|f| f.exists())
        .flat_map(|f| sources(f))
        .collect();
    assert!(all.len() > 60, "{} files", all.len());
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap_or_default();
        let says = first
            .strip_prefix("//! ")
            .is_some_and(|s| !s.trim().is_empty());
        assert!(says, "{} opens with `{first}`", path.display());
    }
}
