//! Folders in which a tracker keeps several runs: the newest counts, and what it was resumed from.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use crate::ingest::{Group, IngestError, Options, mlflow, tensorboard};
use crate::run::{DataLoss, Rows};
use crate::signal::{Aliases, Meaning, Resolver};

/// Other runs that are named.
const NAMED: usize = 5;
/// Signals of a training.
const TRAINED: [&str; 2] = ["loss", "grad_norm"];

/// The run that the path of a file says it belongs to: `…/run-20260301_120000-abcd1234/files/output.log` of W&B, or
/// `run-abcd1234.wandb` out of its folder, or `…/<id>/artifacts/log.jsonl` of `MLflow`.
pub(super) fn id_in_path(path: &str) -> Option<String> {
    id_in_folder(path)
        .or_else(|| id_of_artifact(path))
        .or_else(|| {
            let file = path.rsplit(['/', '\\']).next()?;
            let id = file.strip_prefix("run-")?.strip_suffix(".wandb")?;
            (!id.is_empty()).then(|| id.to_owned())
        })
}

fn id_of_artifact(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split(['/', '\\']).collect();
    let is_id = |id: &str| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    let at = parts.iter().position(|p| *p == "artifacts")?;
    let id = parts[..at].last().filter(|id| is_id(id))?;
    Some((*id).to_owned())
}

fn id_in_folder(path: &str) -> Option<String> {
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

/// Calls runs by their folders where event files of several lie in one, and no tracker has named them.
pub(super) fn by_folder(groups: &mut [Group]) {
    let pieces = |g: &Group| g.pieces.iter().any(|(_, rows)| rows.run.is_some());
    if groups.iter().any(pieces) {
        return;
    }
    let events = groups
        .iter()
        .find(|g| g.format.name == tensorboard::INGESTER.name);
    let runs = events.map_or_else(Vec::new, |g| tensorboard::folders::runs(&g.pieces));
    for (path, rows) in groups.iter_mut().flat_map(|g| &mut g.pieces) {
        let run = runs
            .iter()
            .find(|(folder, _)| Path::new(path).starts_with(folder));
        rows.run = run.map(|(_, name)| name.clone());
    }
}

/// What is known of a run.
#[derive(Debug, Clone)]
struct Run {
    name: Option<String>,
    steps: (u64, u64),
    /// First and last time, in milliseconds; the paths stand in for times that were not logged.
    span: Option<(f64, f64)>,
    path: String,
    deleted: bool,
    /// Whether it has a loss or a gradient norm: a run of an evaluation has neither.
    trained: bool,
    /// The usual distance between its steps.
    gap: u64,
    /// Whether its first step is the first of a training, and not one that it was resumed at.
    anew: bool,
}

impl Run {
    fn of(path: &str, rows: &Rows, resolver: &mut Resolver<'_>) -> Option<Self> {
        let steps = rows.steps.iter();
        let steps = (*steps.clone().min()?, *steps.max()?);
        let gap = usual_gap(&rows.steps);
        let mut trained = |name: &str| match resolver.meaning(name) {
            Meaning::Signal { name, .. } => TRAINED.contains(&name.as_str()),
            _ => false,
        };
        Some(Self {
            name: ["wandb_run_name", mlflow::NAME]
                .iter()
                .find_map(|n| rows.facts.get(*n).cloned()),
            steps,
            span: rows.span(),
            path: path.to_owned(),
            deleted: rows
                .facts
                .get(mlflow::STAGE)
                .is_some_and(|s| s == "deleted"),
            trained: rows.columns().any(|(n, c)| c.has_values() && trained(n)),
            gap: gap.unwrap_or(u64::MAX),
            anew: gap.is_some_and(|gap| steps.0 <= gap),
        })
    }

    fn join(&mut self, other: Self) {
        self.name = self.name.take().or(other.name);
        self.trained |= other.trained;
        self.gap = self.gap.min(other.gap);
        self.anew = match other.steps.0.cmp(&self.steps.0) {
            Ordering::Less => other.anew,
            Ordering::Equal => self.anew || other.anew,
            Ordering::Greater => self.anew,
        };
        self.steps = (
            self.steps.0.min(other.steps.0),
            self.steps.1.max(other.steps.1),
        );
        self.span = match (self.span, other.span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.path = std::mem::take(&mut self.path).min(other.path);
    }

    fn began(&self) -> f64 {
        self.span.map_or(f64::NEG_INFINITY, |s| s.0)
    }

    /// Whether `next` goes on from this run, later and from a step that it had reached, or a row after it. One that logs
    /// its first row at the usual distance from 0 began by itself, though this one may have logged earlier.
    fn goes_on_in(&self, next: &Self) -> bool {
        let (Some(mine), Some(theirs)) = (self.span, next.span) else {
            return false;
        };
        let row = if next.gap == u64::MAX { 1 } else { next.gap };
        !next.anew
            && theirs.0 >= mine.1
            && next.steps.0 > self.steps.0
            && next.steps.0 - self.steps.1.min(next.steps.0) <= row
    }
}

/// The usual distance between steps that follow each other.
fn usual_gap(steps: &[u64]) -> Option<u64> {
    let gaps = steps.windows(2).filter_map(|w| w[1].checked_sub(w[0]));
    let mut gaps: Vec<u64> = gaps.filter(|g| *g > 0).collect();
    let middle = gaps.len() / 2;
    (!gaps.is_empty()).then(|| *gaps.select_nth_unstable(middle).1)
}

/// Keeps the files of one run and says which others there are: the one that is asked for by name or id, else the newest
/// that trained, together with those that it goes on from.
pub(super) fn pick(
    groups: &mut Vec<Group>,
    aliases: &Aliases,
    options: &Options,
    first: &str,
) -> Result<Option<DataLoss>, IngestError> {
    let runs = Runs::of(groups, aliases);
    let candidates = match &options.run {
        Some(asked) => runs.called(asked),
        None => runs.order.clone(),
    };
    if let Some(asked) = options.run.as_ref().filter(|_| candidates.is_empty()) {
        if groups.iter().any(Group::is_database) {
            return Ok(None);
        }
        return Err(IngestError::NoRun {
            path: first.to_owned(),
            run: asked.clone(),
            known: if runs.order.is_empty() {
                "it tells of no run by name".to_owned()
            } else {
                format!("the runs are {}", runs.shown(&runs.order))
            },
        });
    }
    let kept = runs.newest(&candidates);
    let left_out = |among: &[String]| -> Vec<String> {
        let others = among.iter().filter(|id| !kept.contains(id));
        others.cloned().collect()
    };
    if left_out(&runs.order).is_empty() {
        return Ok(None);
    }
    let told = runs.told(&kept, &left_out(&candidates));
    for group in groups.iter_mut() {
        group
            .pieces
            .retain(|(_, rows)| rows.run.as_ref().is_none_or(|id| kept.contains(id)));
    }
    groups.retain(|g| !g.pieces.is_empty());
    Ok(told.map(|what| DataLoss {
        source: first.to_owned(),
        place: String::new(),
        what,
    }))
}

/// The runs of a folder.
struct Runs {
    runs: BTreeMap<String, Run>,
    /// Their ids: those that trained before others, and those that were deleted last; the newest first.
    order: Vec<String>,
}

impl Runs {
    fn of(groups: &[Group], aliases: &Aliases) -> Self {
        let mut resolver = Resolver::new(aliases);
        let mut runs: BTreeMap<String, Run> = BTreeMap::new();
        for (path, rows) in groups.iter().flat_map(|g| &g.pieces) {
            let Some(id) = &rows.run else { continue };
            let Some(run) = Run::of(path, rows, &mut resolver) else {
                continue;
            };
            match runs.get_mut(id) {
                Some(known) => known.join(run),
                None => drop(runs.insert(id.clone(), run)),
            }
        }
        let mut order: Vec<(&String, &Run)> = runs.iter().collect();
        order.sort_by(|(_, a), (_, b)| {
            let by_time = b.began().total_cmp(&a.began());
            let worth = |r: &Run| (r.deleted, !r.trained);
            worth(a)
                .cmp(&worth(b))
                .then(by_time)
                .then_with(|| b.path.cmp(&a.path))
        });
        let order = order.into_iter().map(|(id, _)| id.clone()).collect();
        Self { runs, order }
    }

    /// The run of an id; else those of a name, which several may have.
    fn called(&self, asked: &str) -> Vec<String> {
        if self.runs.contains_key(asked) {
            return vec![asked.to_owned()];
        }
        let ids = self.order.iter();
        let named = ids.filter(|id| self.runs[*id].name.as_deref() == Some(asked));
        named.cloned().collect()
    }

    /// What a run is asked for by: its name, if no other has it, or its id.
    fn label<'a>(&'a self, id: &'a String) -> &'a String {
        let name = self.runs[id].name.as_ref();
        let alone = |name: &&String| {
            let same = self.runs.values().filter(|r| r.name.as_ref() == Some(name));
            same.count() == 1
        };
        name.filter(alone).unwrap_or(id)
    }

    fn shown(&self, ids: &[String]) -> String {
        let names = ids.iter().take(NAMED);
        let names: Vec<String> = names.map(|id| format!("`{}`", self.label(id))).collect();
        let more = if ids.len() > NAMED { ", …" } else { "" };
        names.join(", ") + more
    }

    /// The first of these and those after it that it goes on from.
    fn newest(&self, ids: &[String]) -> Vec<String> {
        let mut kept: Vec<String> = Vec::new();
        let mut chain: Option<&Run> = None;
        for id in ids {
            let run = &self.runs[id];
            if chain.is_none_or(|next| run.goes_on_in(next)) {
                kept.push(id.clone());
                chain = Some(run);
            }
        }
        kept
    }

    /// What is said of the runs that were left out.
    fn told(&self, kept: &[String], left_out: &[String]) -> Option<String> {
        let (count, newest) = (left_out.len(), kept.first()?);
        let plural = if count == 1 { "" } else { "s" };
        let evaluation = |id: &String| !self.runs[id].trained;
        let trained = if self.runs[newest].trained && left_out.iter().any(evaluation) {
            " with a loss"
        } else {
            ""
        };
        (count > 0).then(|| {
            format!(
                "{} is the newest run{trained}; {count} other run{plural} left out, to be named with --run: {}",
                self.shown(std::slice::from_ref(newest)),
                self.shown(left_out)
            )
        })
    }
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
        assert_eq!(id("copied/run-my-run.wandb").as_deref(), Some("my-run"));
        let artifact =
            "mlruns/0/0a741f5e2b0a4bdfac2c6efd299442ff/artifacts/ckpt/trainer_state.json";
        assert_eq!(
            id(artifact).as_deref(),
            Some("0a741f5e2b0a4bdfac2c6efd299442ff")
        );
        assert_eq!(id("run/artifacts/log"), None);
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
        let told = pick(&mut groups, &Aliases::built_in(), &options, "x").unwrap();
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
        let error = pick(&mut groups, &Aliases::built_in(), &options, "x");
        let error = error.unwrap_err().to_string();
        assert_eq!(error, "x: there is no run `z`; the runs are `n`, `b`, `o`");
    }

    #[test]
    fn a_run_that_begins_anew_goes_on_from_none() {
        // One logs from step 1, the next every ten steps from step 10: neither was resumed.
        let pieces = vec![
            piece("eager", "e", &[1, 10, 20, 30], 1.6e12),
            piece("new", "n", &[10, 20, 30], 1.7e12),
        ];
        let (kept, told) = picked(pieces, None);
        assert_eq!(kept, ["new"]);
        assert!(told.is_some_and(|t| t.contains("1 other run left out")));
    }

    #[test]
    fn a_run_goes_on_a_row_after_the_last() {
        let of = |first: u64| {
            let steps: Vec<u64> = (0..3).map(|i| first + 10 * i).collect();
            let before = piece("before", "b", &[10, 20, 30], 1.6e12);
            picked(vec![before, piece("new", "n", &steps, 1.7e12)], None).0
        };
        assert_eq!(of(40), ["before", "new"]);
        assert_eq!(of(50), ["new"], "a hole");
    }

    #[test]
    fn runs_of_one_name_are_told_apart_by_their_ids() {
        let named = |path: &str, id: &str, from: f64| {
            let (path, mut rows) = piece(path, id, &[0, 10, 20], from);
            let name = "llama".to_owned();
            rows.facts.insert("wandb_run_name".to_owned(), name);
            (path, rows)
        };
        let all = || vec![named("old", "o", 1.6e12), named("new", "n", 1.7e12)];
        let says = "`n` is the newest run; 1 other run left out, to be named with --run: `o`";
        for asked in [None, Some("llama")] {
            let expected = (vec!["new".to_owned()], Some(says.to_owned()));
            assert_eq!(picked(all(), asked), expected);
        }
        assert_eq!(picked(all(), Some("o")), (vec!["old".to_owned()], None));
    }

    #[test]
    fn an_evaluation_after_the_training_is_not_the_run() {
        let (path, rows) = piece("eval", "e", &[0, 10], 1.9e12);
        let mut evaluation = Rows::default();
        evaluation.steps.clone_from(&rows.steps);
        evaluation.put("eval/accuracy", Column::from_values(vec![0.5; 2]));
        evaluation.run = rows.run;
        let training = piece("train", "t", &[0, 10, 20], 1.7e12);
        let (kept, told) = picked(vec![training, (path, evaluation)], None);
        assert_eq!(kept, ["train"]);
        assert_eq!(
            told.as_deref(),
            Some(
                "`t` is the newest run with a loss; 1 other run left out, to be named with --run: `e`"
            )
        );
    }
}
