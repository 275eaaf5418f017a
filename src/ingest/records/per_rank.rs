//! Rows that several ranks print of one step, where the prefixes of the lines tell the ranks apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use crate::run::{Column, EventKind, Rows};
use crate::signal::{Aliases, Meaning};

/// The rank of each row.
pub(super) const RANK: &str = "\u{1}rank";
/// Ranks whose losses are kept one by one; of more, the largest loss only.
const MOST_RANKS: usize = 64;
/// Rows that may lie between those of two ranks.
const APART: usize = 64 * MOST_RANKS;

static ALIASES: LazyLock<Aliases> = LazyLock::new(Aliases::built_in);

/// Makes one row of the rows that ranks print of the same step. Where their losses differ each is kept as
/// `loss/rank N`, and the largest of them.
pub(super) fn join(rows: &mut Rows) {
    let Some(slot) = rows.find(RANK) else {
        return;
    };
    let ranks = std::mem::take(rows.column_mut(slot));
    let rank = |row: usize| ranks.finite(row).map(|r| r as u32);
    let found: BTreeSet<u32> = (0..rows.steps.len()).filter_map(rank).collect();
    let Some(main) = found.first().copied().filter(|_| found.len() > 1) else {
        return;
    };
    let groups = groups(rows, &rank, main);
    if groups.is_empty() {
        return;
    }
    if let Some(loss) = loss(rows) {
        losses(rows, loss, &groups, &rank, found.len() <= MOST_RANKS);
    }
    fill(rows, &groups);
    leave_out(rows, &groups);
}

/// Rows of a step: that of the main rank, and those of the others.
type Groups = BTreeMap<usize, Vec<usize>>;

/// Pairs each row of another rank with the row of the main rank that has its step, the n-th with the n-th: a step that
/// is done again is printed again by every rank. Ranks that do not take turns are those of different attempts.
fn groups(rows: &Rows, rank: &dyn Fn(usize) -> Option<u32>, main: u32) -> Groups {
    let mut mains: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut others: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (row, step) in rows.steps.iter().copied().enumerate() {
        match rank(row) {
            Some(r) if r == main => mains.entry(step).or_default().push(row),
            Some(r) => others.entry(r).or_default().push(row),
            None => {}
        }
    }
    let mains_in_order: Vec<usize> = (0..rows.steps.len())
        .filter(|r| rank(*r) == Some(main))
        .collect();
    let mut groups = Groups::new();
    for own in others.into_values() {
        let mut pairs = pairs(&rows.steps, &own, &mains);
        pairs.retain(|(home, row)| of_one_attempt(&rows.steps, &mains_in_order, *home, *row));
        if 2 * pairs.len() >= own.len() && 2 * turns(&pairs) > pairs.len() {
            for (home, row) in pairs {
                groups.entry(home).or_default().push(row);
            }
        }
    }
    groups
}

/// Whether the main rank did not go back between two rows.
fn of_one_attempt(steps: &[u64], mains: &[usize], home: usize, row: usize) -> bool {
    let (from, to) = (home.min(row), home.max(row));
    let between = &mains[mains.partition_point(|m| *m < from)..mains.partition_point(|m| *m <= to)];
    between.windows(2).all(|w| steps[w[0]] <= steps[w[1]])
}

/// The rows of another rank with those of the main rank that have their steps.
fn pairs(steps: &[u64], own: &[usize], mains: &HashMap<u64, Vec<usize>>) -> Vec<(usize, usize)> {
    let mut seen: HashMap<u64, usize> = HashMap::new();
    let mut out = Vec::with_capacity(own.len());
    for row in own {
        let step = steps[*row];
        let nth = seen.entry(step).or_default();
        let home = mains.get(&step).and_then(|m| m.get(*nth)).copied();
        *nth += 1;
        out.extend(
            home.filter(|h| h.abs_diff(*row) <= APART)
                .map(|h| (h, *row)),
        );
    }
    out
}

/// How often one of two ranks prints after the other.
fn turns(pairs: &[(usize, usize)]) -> usize {
    let both = pairs
        .iter()
        .flat_map(|(home, row)| [(*home, true), (*row, false)]);
    let order: BTreeMap<usize, bool> = both.collect();
    let order: Vec<bool> = order.into_values().collect();
    order.windows(2).filter(|w| w[0] != w[1]).count()
}

/// The column of the loss.
fn loss(rows: &Rows) -> Option<usize> {
    let is_loss =
        |raw: &str| matches!(ALIASES.meaning(raw), Meaning::Signal { name, .. } if name == "loss");
    let mut columns = rows.columns().enumerate();
    columns.find_map(|(slot, (raw, column))| (column.has_values() && is_loss(raw)).then_some(slot))
}

fn losses(
    rows: &mut Rows,
    loss: usize,
    groups: &Groups,
    rank: &dyn Fn(usize) -> Option<u32>,
    one_by_one: bool,
) {
    let of = |rows: &Rows, row: usize| rows.column(loss).get(row);
    let differ = groups.iter().any(|(home, others)| {
        let mine = of(rows, *home).map(f64::to_bits);
        others
            .iter()
            .any(|o| of(rows, *o).is_some_and(|v| Some(v.to_bits()) != mine))
    });
    if !differ {
        return;
    }
    let largest = rows.slot("max_rank_loss");
    for (home, others) in groups {
        let all = std::iter::once(home).chain(others);
        let values: Vec<(u32, f64)> = all
            .filter_map(|r| Some((rank(*r)?, of(rows, *r)?)))
            .collect();
        // A loss that is not a number is larger than any.
        let most = values
            .iter()
            .map(|(_, v)| *v)
            .reduce(|a, b| if b > a || b.is_nan() { b } else { a });
        if let Some(most) = most {
            rows.column_mut(largest).set(*home, most);
        }
        for (rank, value) in values.into_iter().filter(|_| one_by_one) {
            let slot = rows.slot(&format!("loss/rank{rank}"));
            rows.column_mut(slot).set(*home, value);
        }
    }
}

/// Gives a row of the main rank what only others printed.
fn fill(rows: &mut Rows, groups: &Groups) {
    for slot in 0..rows.columns().count() {
        for (home, others) in groups {
            if rows.column(slot).get(*home).is_none()
                && let Some(value) = others.iter().find_map(|o| rows.column(slot).get(*o))
            {
                rows.column_mut(slot).set(*home, value);
            }
        }
    }
}

/// Leaves the rows of the other ranks out. A start that stood before one of them stands before the next row.
fn leave_out(rows: &mut Rows, groups: &Groups) {
    let gone: BTreeSet<usize> = groups.values().flatten().copied().collect();
    let keep: Vec<usize> = (0..rows.steps.len())
        .filter(|r| !gone.contains(r))
        .collect();
    rows.steps = keep.iter().map(|r| rows.steps[*r]).collect();
    for slot in 0..rows.columns().count() {
        let column: Column = rows.column(slot).take(&keep);
        *rows.column_mut(slot) = column;
    }
    let mut told = BTreeSet::new();
    rows.marks.retain_mut(|m| {
        m.row = keep.partition_point(|r| *r < m.row);
        let start = matches!(m.kind, EventKind::Start | EventKind::Loaded);
        !start || told.insert((m.row, m.kind, m.step))
    });
}

#[cfg(test)]
mod tests {
    use crate::ingest::nanogpt;
    use crate::ingest::records::testing::column;
    use crate::ingest::{LineReader, Reader};
    use crate::run::Rows;

    fn read(text: &str) -> Rows {
        let Reader::Lines(make) = nanogpt::INGESTER.reader else {
            unreachable!("it is read by lines")
        };
        let reader: Box<dyn LineReader> = make(text.as_bytes());
        let mut rows = Rows::default();
        reader.chunk(text.as_bytes(), &mut rows);
        reader.settle(&mut rows);
        rows
    }

    #[test]
    fn losses_that_were_not_reduced_are_kept_one_by_one() {
        let rows = read(
            "[rank1]:iter 0: loss 4.50, time 1.00ms\n[rank0]:iter 0: loss 4.25, time 2.00ms\n\
             [rank0]:iter 10: loss 4.00, time 2.00ms\n[rank0]:iter 20: loss 3.50, time 2.00ms\n\
             [rank1]:iter 10: loss nan, time 1.00ms\n[rank1]:iter 20: loss 3.25, time 1.00ms\n",
        );
        assert_eq!(rows.steps, [0, 10, 20]);
        assert_eq!(column(&rows, "loss"), [4.25, 4.0, 3.5].map(Some));
        assert_eq!(column(&rows, "loss/rank0"), [4.25, 4.0, 3.5].map(Some));
        let other = column(&rows, "loss/rank1");
        assert_eq!((other[0], other[2]), (Some(4.5), Some(3.25)));
        assert!(other[1].is_some_and(f64::is_nan));
        let most = column(&rows, "max_rank_loss");
        assert_eq!((most[0], most[2]), (Some(4.5), Some(3.5)));
        assert!(most[1].is_some_and(f64::is_nan));
    }

    #[test]
    fn ranks_that_print_the_same_are_one_row_and_a_restart_stays_one() {
        let line = |rank: u32, step: u64, loss: f64| {
            format!("[rank{rank}]:iter {step}: loss {loss:.2}, time 1.00ms\n")
        };
        let text: String = [(0, 4.0), (1, 3.0), (0, 4.0), (1, 3.5)]
            .iter()
            .flat_map(|(step, loss)| [line(0, *step, *loss), line(1, *step, *loss)])
            .collect();
        let rows = read(&text);
        assert_eq!(rows.steps, [0, 1, 0, 1]);
        assert_eq!(column(&rows, "loss"), [4.0, 3.0, 4.0, 3.5].map(Some));
        assert!(rows.find("loss/rank0").is_none() && rows.find("max_rank_loss").is_none());
    }

    #[test]
    fn after_a_restart_another_rank_may_print() {
        let line =
            |rank: u32, step: u64| format!("[rank{rank}]:iter {step}: loss 4.00, time 1.00ms\n");
        let before = (0..6).map(|step| line(7, step));
        let after = (3..9).map(|step| line(3, step));
        let rows = read(&before.chain(after).collect::<String>());
        assert_eq!(rows.steps, [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_rank_that_prints_alone_keeps_its_rows() {
        let rows = read(
            "[rank3]:iter 0: loss 4.00, time 1.00ms\n[rank3]:iter 1: loss 3.00, time 1.00ms\n",
        );
        assert_eq!(rows.steps, [0, 1]);
    }
}
