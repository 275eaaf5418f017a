//! A curve as a line of blocks, its highest value in each column kept: no spike is averaged away.

use crate::run::Run;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A signal over the rows of a run in so many characters at most, on a logarithmic scale where it spans decades, with its
/// lowest and highest value. `None` without two finite values.
pub fn line(run: &Run, signal: &str, width: usize) -> Option<String> {
    let column = run.column(signal)?;
    let values: Vec<Option<f64>> = column.iter().map(|v| v.filter(|v| v.is_finite())).collect();
    let per = values.len().div_ceil(width.max(1)).max(1);
    let highest = |part: &[Option<f64>]| part.iter().flatten().copied().reduce(f64::max);
    let columns: Vec<Option<f64>> = values.chunks(per).map(highest).collect();
    let all = || values.iter().flatten().copied();
    let (low, high) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let logs = low > 0.0 && high / low > 10.0;
    let at = |v: f64| if logs { v.ln() } else { v };
    let (floor, span) = (at(low), at(high) - at(low));
    if span <= 0.0 {
        return None;
    }
    let block = |v: &Option<f64>| {
        v.map_or(' ', |v| {
            let share = (at(v) - floor) / span;
            BLOCKS[((share * BLOCKS.len() as f64) as usize).min(BLOCKS.len() - 1)]
        })
    };
    let blocks: String = columns.iter().map(block).collect();
    Some(format!("{signal} {low:.3} to {high:.3}\n{blocks}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Column;

    #[test]
    fn a_spike_of_one_row_in_a_thousand_shows() {
        let mut run = Run::default();
        run.steps = (0..1000).collect();
        run.insert(
            "loss",
            Column::from_values(
                (0..1000)
                    .map(|i| if i == 505 { 9.0 } else { 2.0 })
                    .collect(),
            ),
        );
        let text = line(&run, "loss", 10).expect("a curve");
        assert_eq!(text, "loss 2.000 to 9.000\n▁▁▁▁▁█▁▁▁▁");
        assert_eq!(line(&run, "grad_norm", 10), None);
    }
}
