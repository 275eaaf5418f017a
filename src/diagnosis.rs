//! The whole way from a run to its diagnosis.

use std::collections::{BTreeMap, BTreeSet};

use crate::cautions::{Caution, cautions};
use crate::checkpoints::{Given, Inventory, inventory};
use crate::cores;
use crate::data_order::DataOrder;
use crate::detect::{Found, Incident, detect_knowing};
use crate::features::{History, Row, Value, cut, has, measure};
use crate::plan::{Plan, Prices, Situation, plan};
use crate::replay::{OtherRun, Replay, known, pairs};
use crate::resume::Framework;
use crate::rules::{Finding, RuleSet};
use crate::run::{Run, clipped};
use crate::verdict::{Verdict, decide};

/// What a diagnosis may be told besides the run.
#[derive(Debug, Default)]
pub struct Told {
    /// The checkpoints.
    pub checkpoints: Given,
    /// The framework, if the user names it.
    pub framework: Option<Framework>,
    /// Other runs over the same steps.
    pub others: Vec<OtherRun>,
    /// Features that are to be taken as known.
    pub assume: Vec<(&'static str, Value)>,
    /// Evidence that is to be left out, as `ID` or `cause/ID`.
    pub without: Vec<String>,
    /// Times and prices.
    pub prices: Prices,
}

/// A run with everything that is concluded about it.
#[derive(Debug)]
pub struct Diagnosis {
    /// The run.
    pub run: Run,
    /// The checkpoints that exist.
    pub inventory: Inventory,
    /// The framework, given or told by the log.
    pub framework: Option<Framework>,
    /// Signals that the causes ask for and the log does not have.
    pub missing: Vec<&'static str>,
    /// Later attempts that went over the steps of earlier ones.
    pub replays: Vec<Replay>,
    /// The incidents in order of attempt and onset.
    pub incidents: Vec<Diagnosed>,
    /// Lasting changes of the level that are no incidents.
    pub changes: Vec<Incident>,
    /// What limits what the log can show.
    pub cautions: Vec<Caution>,
}

/// An incident with everything that is concluded about it.
#[derive(Debug)]
pub struct Diagnosed {
    /// Number for people, from 1.
    pub id: usize,
    /// The incident.
    pub incident: Incident,
    /// Its measurements.
    pub features: Row,
    /// The verdict.
    pub verdict: Verdict,
    /// The plan.
    pub plan: Plan,
    /// The incident of an earlier attempt that this one meets again at the same place.
    pub same_as: Option<usize>,
}

/// Signals whose absence every report names.
const ASKED_FOR: [&str; 9] = [
    "loss",
    "grad_norm",
    "param_norm",
    "max_attention_logit",
    "learning_rate",
    "loss_scale",
    "update_norm",
    "consumed_samples",
    "val_loss",
];

/// Diagnoses a run.
pub fn diagnose(mut run: Run, rules: &RuleSet, told: &Told) -> Diagnosis {
    clipped::rename(&mut run);
    let Found {
        incidents: found,
        changes,
        smoothed,
    } = detect_knowing(&run, known(&run, &told.others).as_ref());
    let inventory = inventory(&run, &told.checkpoints);
    let framework = told.framework.clone().or_else(|| Framework::of(&run));
    let history = History::new(&run, &found);
    let orders = orders(&run, &found);
    let features: Vec<Row> = cores::each(found.len(), &|n| {
        let mut row = measure(&run, &found[n], &found, &history, &told.others);
        row.extend(told.assume.iter().map(|(name, v)| (*name, Some(*v))));
        row
    });
    let evidence = weigh(rules, &features, &found, &told.assume);
    let replays = pairs(&run, &found);
    let conclude = |n: usize| {
        let (incident, features) = (&found[n], &features[n]);
        let verdict = decide(&run, rules, evidence[n].clone(), &told.without);
        let plan = plan(&Situation {
            run: &run,
            incident,
            incidents: &found,
            features,
            verdict: &verdict,
            rules,
            inventory: &inventory,
            framework: framework.as_ref(),
            order: orders.get(&incident.attempt).and_then(Option::as_ref),
            replays: &replays,
            prices: &told.prices,
        });
        Diagnosed {
            id: n + 1,
            incident: incident.clone(),
            features: features.clone(),
            verdict,
            plan,
            same_as: same_as(&run, &found, n),
        }
    };
    let incidents = cores::each(found.len(), &conclude);
    let cautions = cautions(&run, smoothed);
    let missing = ASKED_FOR.into_iter().filter(|s| !has(&run, s)).collect();
    Diagnosis {
        run,
        inventory,
        framework,
        missing,
        replays,
        incidents,
        changes,
        cautions,
    }
}

/// The evidence of each incident. Where the log ends before a feature's window does, evidence that could still turn out
/// otherwise is unknown.
fn weigh(
    rules: &RuleSet,
    features: &[Row],
    found: &[Incident],
    assume: &[(&'static str, Value)],
) -> Vec<Vec<Finding>> {
    let mut evidence = rules.evaluate_all(features);
    let raised = features.iter().zip(found).enumerate();
    let (which, mut rows): (Vec<usize>, Vec<Row>) = raised
        .filter_map(|(n, (row, incident))| Some((n, cut::raised(row, incident)?)))
        .unzip();
    for row in &mut rows {
        row.extend(assume.iter().map(|(name, v)| (*name, Some(*v))));
    }
    for (n, other) in which.into_iter().zip(rules.evaluate_all(&rows)) {
        for (finding, other) in evidence[n].iter_mut().zip(other) {
            if finding.holds != other.holds {
                (finding.holds, finding.ratio) = (None, 1.0);
            }
        }
    }
    evidence
}

/// The data order along each attempt with an incident.
fn orders(run: &Run, found: &[Incident]) -> BTreeMap<u32, Option<DataOrder>> {
    let attempts: BTreeSet<u32> = found.iter().map(|i| i.attempt).collect();
    attempts
        .into_iter()
        .map(|a| (a, DataOrder::of(run, &run.attempts[a as usize])))
        .collect()
}

/// Steps by which onsets of the same place may lie apart: 20, and two rows more.
pub(crate) fn same_place(run: &Run) -> u64 {
    20 + 2 * run.spacing()
}

fn same_as(run: &Run, found: &[Incident], n: usize) -> Option<usize> {
    let (mine, apart) = (&found[n], same_place(run));
    let near = |i: &Incident| {
        i.attempt < mine.attempt
            && i.signal == mine.signal
            && run.steps[i.onset_row].abs_diff(run.steps[mine.onset_row]) <= apart
    };
    found[..n].iter().position(near).map(|at| at + 1)
}
