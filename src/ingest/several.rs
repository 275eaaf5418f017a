//! Folders in which a tracker keeps several runs: the newest counts, and what it was resumed from.

use std::collections::BTreeMap;

use crate::ingest::{Group, IngestError, Options};
use crate::run::{DataLoss, Rows};

/// Other runs that are named.
const NAMED: usize = 5;

/// The run that the path of a file says it belongs to: `…/run-20260301_120000-abcd1234/files/output.log` of W&B.
pub(super) fn id_in_path(path: &str) -> Option<String> {
    const STAMP: usize = "20260301_120000-".len();
    let folder = path.split(['/', '\\']).find_map(|part| {
        let rest = part
            .strip_prefix("offline-")
            .unwrap_or(part)
            .strip_prefix("run-")?;
        let (stamp, id) = rest.split_at_checked(STAMP)?;
        let digits = stamp.bytes().filter(u8::is_ascii_digit).count();
        (digits == 14 && stamp.as_bytes()[8] == b'_' && stamp.ends_with('-')).then_some(id)
    })?;
    (!folder.is_empty() && !folder.contains('.')).then(|| folder.to_owned())
}

/// What is known of a run.
#[derive(Debug, Clone)]
struct Run {
    name: Option<String>,
    steps: (u64, u64),
    /// First and last time, in milliseconds; the paths stand in for times that were not logged.
    span: Option<(f64, f64)>,
    path: String,
    files: usize,
}

impl Run {
    fn of(path: &str, rows: &Rows) -> Option<Self> {
        let steps = rows.steps.iter();
        Some(Self {
            name: rows.facts.get("wandb_run_name").cloned(),
            steps: (*steps.clone().min()?, *steps.max()?),
            span: rows.span(),
            path: path.to_owned(),
            files: 1,
        })
    }

    fn join(&mut self, other: Self) {
        self.name = self.name.take().or(other.name);
        self.steps = (
            self.steps.0.min(other.steps.0),
            self.steps.1.max(other.steps.1),
        );
        self.span = match (self.span, other.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.path = std::mem::take(&mut self.path).min(other.path);
        self.files += 1;
    }

    fn began(&self) -> f64 {
        self.span.map_or(f64::NEG_INFINITY, |s| s.0)
    }

    /// Whether `next` goes on from this run, later and from a step that it had reached.
    fn goes_on_in(&self, next: &Self) -> bool {
        let (Some(mine), Some(theirs)) = (self.span, next.span) else {
            return false;
        };
        theirs.0 >= mine.1
            && next.steps.0 > self.steps.0
            && next.steps.0 <= self.steps.1.saturating_add(1)
    }
}

/// Keeps the files of one run and says which others there are: the one that is asked for by name or id, else the newest
/// together with those that it goes on from.
pub(super) fn pick(
    groups: &mut Vec<Group>,
    options: &Options,
    first: &str,
) -> Result<Option<DataLoss>, IngestError> {
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    for (path, rows) in groups.iter().flat_map(|g| &g.pieces) {
        if let (Some(id), Some(run)) = (&rows.run, Run::of(path, rows)) {
            match runs.get_mut(id) {
                Some(known) => known.join(run),
                None => drop(runs.insert(id.clone(), run)),
            }
        }
    }
    let mut order: Vec<(&String, &Run)> = runs.iter().collect();
    order.sort_by(|(_, a), (_, b)| {
        b.began()
            .total_cmp(&a.began())
            .then_with(|| b.path.cmp(&a.path))
    });
    let shown = |all: &mut dyn Iterator<Item = &(&String, &Run)>| -> String {
        let names: Vec<String> = all
            .map(|(id, r)| format!("`{}`", r.name.as_ref().unwrap_or(id)))
            .collect();
        let more = if names.len() > NAMED { ", …" } else { "" };
        names[..names.len().min(NAMED)].join(", ") + more
    };
    let kept = match &options.run {
        Some(asked) => {
            let fits = |r: &&(&String, &Run)| r.0 == asked || r.1.name.as_ref() == Some(asked);
            let found: Vec<String> = order
                .iter()
                .filter(fits)
                .map(|(id, _)| (*id).clone())
                .collect();
            let database = groups.iter().any(Group::is_database);
            if found.is_empty() && !database {
                return Err(IngestError::NoRun {
                    path: first.to_owned(),
                    run: asked.clone(),
                    known: if order.is_empty() {
                        "it tells of no run by name".to_owned()
                    } else {
                        format!("the runs are {}", shown(&mut order.iter()))
                    },
                });
            }
            found
        }
        None => newest(&order),
    };
    let others: Vec<&(&String, &Run)> = order.iter().filter(|(id, _)| !kept.contains(id)).collect();
    if kept.is_empty() || others.is_empty() {
        return Ok(None);
    }
    let told = options.run.is_none().then(|| {
        let (count, newest) = (others.len(), shown(&mut order.iter().take(1)));
        let plural = if count == 1 { "" } else { "s" };
        let others = shown(&mut others.into_iter());
        DataLoss {
            source: first.to_owned(),
            place: String::new(),
            what: format!("{newest} is the newest run; {count} other run{plural} left out, to be named with --run: {others}"),
        }
    });
    for group in groups.iter_mut() {
        group
            .pieces
            .retain(|(_, rows)| rows.run.as_ref().is_none_or(|id| kept.contains(id)));
    }
    groups.retain(|g| !g.pieces.is_empty());
    Ok(told)
}

/// The newest run and those before it that it goes on from.
fn newest(order: &[(&String, &Run)]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut chain: Option<&Run> = None;
    for (id, run) in order {
        if chain.is_none_or(|next| run.goes_on_in(next)) {
            kept.push((*id).clone());
            chain = Some(run);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::jsonl;
    use crate::run::Column;

    #[test]
    fn ids_in_paths() {
        let id = |path: &str| id_in_path(path);
        assert_eq!(
            id("x/wandb/run-20260301_120000-ab12cd34/files/output.log").as_deref(),
            Some("ab12cd34")
        );
        assert_eq!(
            id("wandb/offline-run-20260301_120000-my-run/run-my-run.wandb").as_deref(),
            Some("my-run")
        );
        assert_eq!(id("run-2026/log"), None);
        assert_eq!(id("run-20260301_120000-ab.log"), None);
        assert_eq!(id("run-é0260301_12000-ab/x"), None);
    }

    fn piece(path: &str, id: &str, steps: &[u64], from: f64) -> (String, Rows) {
        let mut rows = Rows::default();
        rows.steps.extend_from_slice(steps);
        rows.put(
            "time",
            Column::from_values((0..steps.len()).map(|i| from + i as f64 * 1e3).collect()),
        );
        rows.put("loss", Column::from_values(vec![1.0; steps.len()]));
        rows.run = Some(id.to_owned());
        (path.to_owned(), rows)
    }

    fn picked(pieces: Vec<(String, Rows)>, asked: Option<&str>) -> (Vec<String>, Option<String>) {
        let mut groups = vec![Group {
            format: &jsonl::INGESTER,
            pieces,
        }];
        let options = Options {
            run: asked.map(str::to_owned),
            ..Options::default()
        };
        let told = pick(&mut groups, &options, "x").unwrap();
        let kept = groups
            .into_iter()
            .flat_map(|g| g.pieces)
            .map(|(path, _)| path)
            .collect();
        (kept, told.map(|l| l.what))
    }

    #[test]
    fn the_newest_run_and_what_it_goes_on_from() {
        let all = || {
            vec![
                piece("other", "o", &[0, 10, 20], 1.6e12),
                piece("new", "n", &[30, 40, 50], 1.8e12),
                piece("before", "b", &[0, 10, 20, 30], 1.7e12),
            ]
        };
        let (kept, told) = picked(all(), None);
        assert_eq!(kept, ["new", "before"]);
        assert_eq!(
            told.as_deref(),
            Some("`n` is the newest run; 1 other run left out, to be named with --run: `o`")
        );
        assert_eq!(picked(all(), Some("o")), (vec!["other".to_owned()], None));
        assert_eq!(
            picked(all()[..1].to_vec(), None),
            (vec!["other".to_owned()], None)
        );
        let mut groups = vec![Group {
            format: &jsonl::INGESTER,
            pieces: all(),
        }];
        let options = Options {
            run: Some("z".to_owned()),
            ..Options::default()
        };
        let error = pick(&mut groups, &options, "x").unwrap_err().to_string();
        assert_eq!(error, "x: there is no run `z`; the runs are `n`, `b`, `o`");
    }
}
