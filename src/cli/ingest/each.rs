//! `whyspike ingest --each`: many logs, each a run of its own, as many at once as there are cores.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::cli::output;
use whyspike::cores;
use whyspike::ingest::{self, Options};
use whyspike::signal::Aliases;
use whyspike::store;

/// Endings of what is packed: the ending before them tells more.
const PACKED: [&str; 4] = ["gz", "zst", "zstd", "gzip"];

/// Reads every log into a store of its own in a folder. A log that cannot be read does not keep the others from it.
pub(super) fn run(
    logs: &[PathBuf],
    folder: &Path,
    aliases: &Aliases,
    options: &Options,
) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let names = names(logs)?;
    let outcomes = cores::each(logs.len(), &|at| {
        let output = folder.join(format!("{}.parquet", names[at]));
        one(&logs[at], &output, aliases, options)
    });
    tell(outcomes)
}

/// Prints what became of the logs, in their order.
fn tell(outcomes: Vec<anyhow::Result<String>>) -> anyhow::Result<ExitCode> {
    let (count, mut text, mut failed) = (outcomes.len(), String::new(), 0);
    for outcome in outcomes {
        match outcome {
            Ok(line) => text.push_str(&line),
            Err(e) => {
                failed += 1;
                output::error(&e);
            }
        }
    }
    output::result(&text)?;
    if failed > 0 {
        bail!("{failed} of {count} logs could not be read; the others are stored");
    }
    Ok(ExitCode::SUCCESS)
}

fn one(log: &Path, output: &Path, aliases: &Aliases, options: &Options) -> anyhow::Result<String> {
    let run = ingest::read(&[log.to_owned()], aliases, options, &mut |_, _| {})?;
    store::write(&run, output).with_context(|| output.display().to_string())?;
    Ok(super::told(output, &run))
}

/// A name for each store: the log's own, with those of its folders where others have the same.
fn names(logs: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, log) in logs.iter().enumerate() {
        alike.entry(stem(log)).or_default().push(at);
    }
    let mut names = vec![String::new(); logs.len()];
    for (name, places) in alike {
        if let [at] = places[..] {
            names[at] = name;
            continue;
        }
        let folders: Vec<Vec<String>> = places.iter().map(|at| folders(&logs[*at])).collect();
        let same = |n: &usize| {
            let part = folders[0].get(*n);
            folders.iter().all(|f| f.get(*n) == part)
        };
        let shared = (0..folders[0].len()).take_while(same).count();
        for (at, parts) in places.iter().zip(&folders) {
            let apart = parts[shared..].iter().chain([&name]);
            names[*at] = apart.map(String::as_str).collect::<Vec<_>>().join("-");
        }
    }
    let mut seen = BTreeMap::new();
    for (at, name) in names.iter().enumerate() {
        if let Some(first) = seen.insert(name, at) {
            let (a, b) = (logs[first].display(), logs[at].display());
            bail!(
                "{a} and {b} would both become {name}.parquet: rename one of them, or give it in a call of its own"
            );
        }
    }
    Ok(names)
}

/// The names of the folders above a log, outermost first.
fn folders(log: &Path) -> Vec<String> {
    let above = log.parent().into_iter().flat_map(Path::components);
    let name = |c: Component<'_>| match c {
        Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
        _ => None,
    };
    above.filter_map(name).collect()
}

/// The name of a log without its endings, of a folder as it is.
fn stem(log: &Path) -> String {
    let mut path = PathBuf::from(log.file_name().unwrap_or(log.as_os_str()));
    let packed = |p: &Path| {
        p.extension()
            .is_some_and(|e| PACKED.iter().any(|k| e == *k))
    };
    if !log.is_dir() {
        if packed(&path) {
            path.set_extension("");
        }
        path.set_extension("");
    }
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(logs: &[&str]) -> anyhow::Result<Vec<String>> {
        names(&logs.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn stores_have_the_names_of_their_logs_and_of_folders_where_those_are_the_same() {
        let names = of(&[
            "a/x.jsonl",
            "b/y.log.gz",
            "runs/one/train.log",
            "runs/two/train.log",
        ]);
        assert_eq!(names.unwrap(), ["x", "y", "one-train", "two-train"]);
        assert!(
            of(&["a/x.log", "./a/x.jsonl"])
                .unwrap_err()
                .to_string()
                .contains("both become")
        );
        assert_eq!(of(&["src"]).unwrap(), ["src"]);
    }
}
