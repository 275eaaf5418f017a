//! What a twin run tells of each batch: subtracted from the loss, it lowers the floor of detection.

use crate::baseline::{pearson, residuals};
use crate::detect::Known;
use crate::replay::{HALF, OtherKind, OtherRun, SAME, clipped};
use crate::run::{Attempt, Run};

/// Fewest common rows on which a twin is believed, and the share of an attempt's rows that it must hold: a twin that
/// comes and goes would change the noise all the time.
const FEWEST: usize = 100;
const COVERS: f64 = 0.5;

/// Half-width of the rolling median from which the batches of a twin are measured: wide, so that its own wandering is
/// small beside what remains when they are taken off.
const SMOOTH: usize = 200;

/// What the other runs over the same data tell of the batches of this one; `None` if none does.
pub fn known(run: &Run, others: &[OtherRun]) -> Option<Known> {
    let twins = others
        .iter()
        .filter(|o| matches!(o.kind, OtherKind::Twin | OtherKind::Same));
    let mut out: Option<Known> = None;
    for twin in twins {
        for (mine, theirs) in run
            .attempts
            .iter()
            .flat_map(|a| twin.run.attempts.iter().map(move |b| (a, b)))
        {
            if let Some(shared) = Shared::of(run, mine, twin, theirs) {
                shared.add(out.get_or_insert_with(|| Known {
                    batch: vec![0.0; run.len()],
                    noise: vec![1.0; run.len()],
                }));
            }
        }
    }
    out
}

/// Rows of an attempt whose batch another attempt saw, too, with its residual there.
struct Shared {
    rows: Vec<usize>,
    batch: Vec<f64>,
    noise: f64,
}

impl Shared {
    fn of(run: &Run, mine: &Attempt, twin: &OtherRun, theirs: &Attempt) -> Option<Self> {
        let other = &twin.run;
        let (loss, there) = (run.column("loss")?, other.column("loss")?);
        let mut at = theirs.rows.start;
        let (mut rows, mut a, mut b, mut there_at) = (vec![], vec![], vec![], vec![]);
        for row in mine.rows.clone() {
            let step = run.steps[row];
            while at < theirs.rows.end && other.steps[at] < step {
                at += 1;
            }
            if at == theirs.rows.end {
                break;
            }
            if other.steps[at] == step
                && let (Some(x), Some(y)) = (loss.finite(row), there.finite(at))
            {
                rows.push(row);
                a.push(x);
                b.push(y);
                there_at.push(at);
            }
        }
        let enough = rows.len() >= FEWEST && rows.len() as f64 >= COVERS * mine.rows.len() as f64;
        if !enough {
            return None;
        }
        let r = pearson(&clipped(&a, HALF), &clipped(&b, HALF)).filter(|r| *r > SAME)?;
        // Not clipped: a batch that was hard for the twin explains as much here.
        let b = residuals(&b, SMOOTH);
        // Around an incident of its own the twin says nothing of the batch.
        let ordinary = |row: usize| {
            twin.incidents
                .iter()
                .all(|i| row + HALF < i.onset_row || row >= i.end_row.max(i.onset_row + 1) + HALF)
        };
        let told = rows.into_iter().zip(b).zip(there_at);
        let told = told.filter(|(_, at)| ordinary(*at)).map(|(told, _)| told);
        let (rows, batch) = told.unzip();
        Some(Self {
            rows,
            batch,
            noise: (1.0 - r * r).sqrt(),
        })
    }

    /// The first twin that saw a row speaks for it.
    fn add(self, to: &mut Known) {
        for (row, batch) in self.rows.into_iter().zip(self.batch) {
            if to.noise[row].to_bits() == 1.0_f64.to_bits() {
                to.batch[row] = batch;
                to.noise[row] = self.noise;
            }
        }
    }
}
