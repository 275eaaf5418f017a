//! A run with an incident put into it by hand, so that a feature rests on nothing but its series.

use whyspike::detect::{Incident, Kind, Level, Over, Residual, Shape};
use whyspike::features::{History, Row, Value, measure};
use whyspike::replay::{OtherKind, OtherRun};
use whyspike::run::{Event, EventKind, Run};

use crate::support::Curve;

/// The step at which the incident of a scene begins, unless it is moved.
pub(super) const ONSET: u64 = 301;
/// The level of the loss of a scene, and its robust standard deviation.
pub(super) const LEVEL: f64 = 2.0;
pub(super) const SCALE: f64 = 0.01;
/// The robust standard deviation of values that swing by one: 1.4826 times their median absolute deviation.
pub(super) const SWING: f64 = 1.4826;

/// Steps 1 to 400 with a loss of [`LEVEL`], and an incident at [`ONSET`].
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) curve: Curve,
    signal: &'static str,
    attempt: usize,
    onset: u64,
    peak: Option<u64>,
    back: Option<u64>,
    residual: Option<f64>,
    others: Vec<(usize, u64, f64)>,
    faults: Vec<u64>,
    facts: Vec<(&'static str, &'static str)>,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::of_rows(400)
    }

    pub(super) fn of_rows(rows: usize) -> Self {
        Self::of_curve(Curve::of_loss(std::iter::repeat_n(LEVEL, rows)))
    }

    pub(super) fn of_curve(curve: Curve) -> Self {
        Self {
            curve,
            signal: "loss",
            attempt: 0,
            onset: ONSET,
            peak: Some(ONSET),
            back: None,
            residual: None,
            others: Vec::new(),
            faults: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// Adds a signal, by step; in place of what it was.
    pub(super) fn with(mut self, name: &'static str, value: impl Fn(u64) -> f64) -> Self {
        self.curve.columns.retain(|(n, _)| *n != name);
        let values: Vec<f64> = self.curve.steps.iter().map(|s| value(*s)).collect();
        self.curve = self.curve.with(name, values);
        self
    }

    /// The same scene with nothing but a signal other than the loss, whose incident it is then.
    pub(super) fn only(mut self, name: &'static str, value: impl Fn(u64) -> f64) -> Self {
        self.curve.columns.clear();
        self.signal = name;
        self.with(name, value)
    }

    /// Keeps every tenth step.
    pub(super) fn sparse(mut self) -> Self {
        let keep: Vec<bool> = self.curve.steps.iter().map(|s| s % 10 == 1).collect();
        let mut kept = keep.iter();
        self.curve.steps.retain(|_| kept.next() == Some(&true));
        for (_, column) in &mut self.curve.columns {
            let mut kept = keep.iter();
            column.retain(|_| kept.next() == Some(&true));
        }
        self
    }

    pub(super) fn onset(mut self, step: u64) -> Self {
        self.onset = step;
        self.peak = Some(step);
        self
    }

    pub(super) fn peak(mut self, step: u64) -> Self {
        self.peak = Some(step);
        self
    }

    pub(super) fn without_peak(mut self) -> Self {
        self.peak = None;
        self
    }

    pub(super) fn back(mut self, step: u64) -> Self {
        self.back = Some(step);
        self
    }

    pub(super) fn residual(mut self, value: f64) -> Self {
        self.residual = Some(value);
        self
    }

    /// In which attempt the incident is.
    pub(super) fn in_attempt(mut self, attempt: usize) -> Self {
        self.attempt = attempt;
        self
    }

    /// Another incident: its attempt, onset and excess.
    pub(super) fn also(mut self, attempt: usize, step: u64, excess: f64) -> Self {
        self.others.push((attempt, step, excess));
        self
    }

    pub(super) fn fault(mut self, step: u64) -> Self {
        self.faults.push(step);
        self
    }

    pub(super) fn fact(mut self, key: &'static str, value: &'static str) -> Self {
        self.facts.push((key, value));
        self
    }

    fn run(&self) -> Run {
        let mut run = self.curve.run();
        for (key, value) in &self.facts {
            run.meta
                .facts
                .insert((*key).to_owned(), (*value).to_owned());
        }
        run.events.extend(self.faults.iter().map(|step| Event {
            attempt: 0,
            step: Some(*step),
            kind: EventKind::NodeFault,
            path: None,
        }));
        run
    }

    fn incident(&self, run: &Run) -> Incident {
        let value = |row: usize| run.value(self.signal, row);
        let row = |step: u64| row_of(run, self.attempt, step);
        let excess = self.peak.and_then(|p| Some(value(row(p))? - LEVEL));
        let mut incident = made(run, self.attempt, self.onset, excess.unwrap_or(0.0));
        incident.signal = self.signal;
        incident.excess = excess;
        incident.peak_row = self.peak.map(row);
        incident.return_row = self.back.map(row);
        incident.residual = self.residual.map(|value| Residual { value, margin: 0.0 });
        incident
    }

    /// All features.
    pub(super) fn row(&self) -> Row {
        self.row_beside(&[])
    }

    /// All features, beside other runs.
    pub(super) fn row_beside(&self, others: &[OtherRun]) -> Row {
        let run = self.run();
        let mut incidents = vec![self.incident(&run)];
        let more = self
            .others
            .iter()
            .map(|(a, step, excess)| made(&run, *a, *step, *excess));
        incidents.extend(more);
        let history = History::new(&run, &incidents);
        measure(&run, &incidents[0], &incidents, &history, others)
    }

    /// One feature.
    pub(super) fn of(&self, feature: &str) -> Option<f64> {
        self.row()[feature].map(Value::number)
    }

    /// The scene as a run beside another one.
    pub(super) fn other(&self, kind: OtherKind) -> OtherRun {
        let run = self.run();
        OtherRun {
            path: "other".to_owned(),
            kind,
            incidents: vec![self.incident(&run)],
            run,
        }
    }
}

fn row_of(run: &Run, attempt: usize, step: u64) -> usize {
    run.row_at(&run.attempts[attempt], step)
        .expect("a step of the attempt")
}

/// An incident of the loss of one row.
fn made(run: &Run, attempt: usize, onset: u64, excess: f64) -> Incident {
    let row = row_of(run, attempt, onset);
    let last = run.steps[run.attempts[attempt].rows.end - 1];
    Incident {
        attempt: u32::try_from(attempt).expect("few"),
        signal: "loss",
        kind: Kind::Acute,
        onset_row: row,
        peak_row: Some(row),
        return_row: None,
        grad_return_row: None,
        return_is_bound: false,
        peaks: vec![row],
        end_row: row + 1,
        level: Level {
            x: onset as f64 - 1.0,
            value: LEVEL,
            slope: 0.0,
            memory: 64.0,
            scale: SCALE,
            median: LEVEL,
            rows: 128,
            prior: false,
        },
        peak: Some(LEVEL + excess),
        excess: Some(excess),
        score: Some(excess / SCALE),
        shape: Shape::Transient,
        open: false,
        lost: false,
        residual: None,
        norm_moved: None,
        over: Over::Level,
        waited: last - onset,
    }
}

/// Holds that a value is known and right.
pub(super) fn near(value: Option<f64>, expected: f64) {
    let within = 1e-6 * expected.abs().max(1.0);
    let close = value.is_some_and(|v| (v - expected).abs() <= within);
    assert!(close, "{value:?} is not {expected}");
}

/// Swings about zero by one, with a median of zero over any number of steps: -1, 0, 1 and so on.
pub(super) fn swing(step: u64) -> f64 {
    (step % 3) as f64 - 1.0
}

/// A norm whose log₁₀ swings by 0.05 about zero, and stands at `log` at [`ONSET`]: a z of `log / (0.05 SWING)`.
pub(super) fn norm(log: f64) -> impl Fn(u64) -> f64 {
    move |s| 10_f64.powf(if s == ONSET { log } else { 0.05 * swing(s) })
}
