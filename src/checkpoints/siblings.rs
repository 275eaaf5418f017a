//! A checkpoint compared with the ones saved before and after it: files that only it lacks, files cut short.
//!
//! Other ranks write other files, so their number alone tells nothing. When the parallel layout changes every shard
//! changes its size; when files are lost the remaining ones keep theirs.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoints::layout::{Found, Group, pattern, size};

/// Sizes within this share of each other are the same.
const SAME: f64 = 0.01;
/// A file below this share of its sibling's is cut short.
const CUT: f64 = 0.9;
/// Share of the files of one kind that keep their size as long as the parallel layout is the same.
const UNCHANGED: f64 = 0.5;
/// Below this share of its siblings' bytes a checkpoint holds less than they do.
const LIGHT: f64 = 0.7;

/// How a checkpoint looks beside one sibling.
#[derive(Debug, Default)]
struct Look {
    lost: Vec<String>,
    cut: Vec<String>,
    light: Option<f64>,
}

/// Adds what the comparison shows to the faults of each checkpoint.
pub(super) fn compare(group: &mut Group<'_>) {
    group.found.sort_by_key(|f| f.step);
    let looks: Vec<Vec<Look>> = (0..group.found.len())
        .map(|at| {
            let near = neighbours(&group.found, at).into_iter().flatten();
            near.map(|other| look(&group.found[at], other)).collect()
        })
        .collect();
    for (found, looks) in group.found.iter_mut().zip(looks) {
        judge(found, looks);
    }
}

/// The nearest siblings before and after that have files of the same name: if there is one, one that keeps the layout's
/// own rules. A torn one still shows what it has.
fn neighbours<'f, 'a>(found: &'f [Found<'a>], at: usize) -> [Option<&'f Found<'a>>; 2] {
    let own: BTreeSet<&str> = found[at].shards.iter().map(|s| s.0.as_str()).collect();
    let alike = |f: &&Found<'_>| f.shards.iter().any(|(n, _)| own.contains(n.as_str()));
    let good = |f: &&Found<'_>| !f.is_torn() && alike(f);
    let (before, after) = (&found[..at], &found[at + 1..]);
    [
        before
            .iter()
            .rfind(good)
            .or_else(|| before.iter().rfind(alike)),
        after.iter().find(good).or_else(|| after.iter().find(alike)),
    ]
}

/// Files whose names differ in numbers alone, by name, with this checkpoint's bytes and the sibling's.
type Kinds<'n> = BTreeMap<String, BTreeMap<&'n str, (Option<u64>, Option<u64>)>>;

fn look(this: &Found<'_>, other: &Found<'_>) -> Look {
    let mut kinds = Kinds::new();
    for (name, bytes) in &this.shards {
        let kind = kinds.entry(pattern(name).0).or_default();
        kind.entry(name.as_str()).or_default().0 = Some(*bytes);
    }
    for (name, bytes) in &other.shards {
        let kind = kinds.entry(pattern(name).0).or_default();
        kind.entry(name.as_str()).or_default().1 = Some(*bytes);
    }
    let mut out = Look::default();
    let mut alone = Vec::new();
    let mut steady = kinds.len() == 1;
    for files in kinds.values() {
        match kind(files, other.name()) {
            Kind::Steady(lost, cut) => {
                steady = true;
                out.lost.extend(lost);
                out.cut.extend(cut);
            }
            Kind::Alone(cut) => alone.push(cut),
            Kind::Changed => {}
        }
    }
    // If every file is smaller, it is another content, not a file cut short.
    if steady {
        out.cut.append(&mut alone);
    }
    let bytes = |f: &Found<'_>| f.shards.iter().map(|s| s.1).sum::<u64>() as f64;
    let share = bytes(this) / bytes(other).max(1.0);
    let whole = out.lost.is_empty() && out.cut.is_empty();
    out.light = Some(share).filter(|s| whole && *s < LIGHT);
    out
}

/// What the files of one kind show.
enum Kind {
    /// The common ones have their size: what is lost, and what is cut short.
    Steady(Vec<String>, Vec<String>),
    /// The only one is smaller.
    Alone(String),
    /// The common ones have other sizes.
    Changed,
}

fn kind(files: &BTreeMap<&str, (Option<u64>, Option<u64>)>, other: &str) -> Kind {
    let (mut common, mut same) = (0usize, 0usize);
    let (mut lost, mut cut) = (Vec::new(), Vec::new());
    let ours = files.values().filter(|f| f.0.is_some()).count();
    for (name, sizes) in files {
        match sizes {
            (None, Some(_)) => lost.push(format!("no {name}, which {other} has")),
            (Some(a), Some(b)) => {
                let (ours, theirs) = (*a as f64, *b as f64);
                common += 1;
                if (ours - theirs).abs() <= SAME * theirs {
                    same += 1;
                } else if ours < CUT * theirs {
                    let (ours, theirs) = (size(*a), size(*b));
                    cut.push(format!("{name} has {ours} where {other} has {theirs}"));
                }
            }
            (_, None) => {}
        }
    }
    if files.len() == 1 && cut.len() == 1 {
        return Kind::Alone(cut.remove(0));
    }
    // A file that may be cut cannot speak for the others.
    let others = common - cut.len().min(1);
    if ours == 0 || (others > 0 && same as f64 >= UNCHANGED * others as f64) {
        Kind::Steady(lost, cut)
    } else {
        Kind::Changed
    }
}

fn judge(found: &mut Found<'_>, looks: Vec<Look>) {
    if found.is_torn() || looks.is_empty() {
        return;
    }
    let all = |f: fn(&Look) -> bool| looks.iter().all(f);
    if all(|l| l.light.is_some()) {
        let share = looks.iter().filter_map(|l| l.light).fold(0.0, f64::max);
        found.notes.push(format!(
            "{} has {:.0} % of the bytes of its siblings: it may hold the weights alone",
            found.name(),
            100.0 * share
        ));
        found.optimizer = None;
        found.data = None;
    }
    // Growing files make an older checkpoint look short beside a newer one, so both must agree.
    let cut = all(|l| !l.cut.is_empty());
    for look in looks {
        if found.faults.is_empty() {
            found.faults.extend(look.lost);
            if cut {
                found.faults.extend(look.cut);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(step: u64, shards: &[(&str, u64)]) -> Found<'static> {
        let mut out = Found::new(step, Vec::new());
        out.shards = shards.iter().map(|(n, b)| ((*n).to_owned(), *b)).collect();
        out.shards.sort();
        out.optimizer = Some(true);
        out
    }

    fn faults(found: Vec<Found<'static>>) -> Vec<usize> {
        let mut group = Group::of("x", found, None).unwrap();
        compare(&mut group);
        group.found.iter().map(|f| f.faults.len()).collect()
    }

    #[test]
    fn lost_files() {
        let whole = [("a", 100), ("b", 100), ("c", 100), ("d", 100)];
        let all = vec![
            found(1, &whole),
            found(2, &whole[..2]),
            found(3, &whole),
            found(4, &whole[1..]),
        ];
        assert_eq!(faults(all), [0, 2, 0, 1]);
    }

    #[test]
    fn a_change_of_the_number_of_ranks_is_no_loss() {
        let few = [("0", 200), ("1", 200)];
        let many = [("0", 100), ("1", 100), ("2", 100), ("3", 100)];
        let all = vec![
            found(1, &few),
            found(2, &many),
            found(3, &few),
            found(4, &many),
        ];
        assert_eq!(faults(all), [0, 0, 0, 0]);
        let two = [("model-1", 500), ("zero_0", 100), ("zero_1", 100)];
        let one = [("model-1", 500), ("zero_0", 200)];
        let all = vec![found(1, &one), found(2, &two), found(3, &one)];
        assert_eq!(faults(all), [0, 0, 0]);
    }

    #[test]
    fn a_file_cut_short() {
        let whole = [("model", 500), ("optimizer", 1000)];
        let cut = [("model", 500), ("optimizer", 400)];
        assert_eq!(
            faults(vec![found(1, &whole), found(2, &cut), found(3, &whole)]),
            [0, 1, 0]
        );
        assert_eq!(faults(vec![found(1, &whole), found(2, &cut)]), [0, 1]);
        let one = |step, bytes| found(step, &[("file", bytes)]);
        assert_eq!(
            faults(vec![one(1, 1000), one(2, 1000), one(3, 0)]),
            [0, 0, 1]
        );
    }

    #[test]
    fn weights_alone_are_told() {
        let whole = [("a", 300), ("b", 300), ("c", 300)];
        let light = [("a", 100), ("b", 100), ("c", 100)];
        let mut group = Group::of("x", vec![found(1, &whole), found(2, &light)], None).unwrap();
        compare(&mut group);
        assert_eq!(group.found[1].faults, Vec::<String>::new());
        assert_eq!(group.found[1].optimizer, None);
        assert!(group.found[1].notes[0].contains("33 %"));
        assert_eq!(group.found[0].optimizer, Some(true));
    }
}
