//! What the files of the frameworks share: ranges, paths and sentences.

use crate::resume::{Framework, Request, Resume};

/// Inclusive updates, counted from 1.
pub(super) type Range = (u64, u64);

/// An answer that only goes back; the file of the framework fills in the rest.
pub(super) fn back(framework: &Framework, unit: &'static str, command: String) -> Resume {
    Resume {
        framework: framework.label(),
        command: Some(command),
        caveats: Vec::new(),
        unit,
        base: None,
        survives: String::new(),
        can_skip: false,
        price: None,
    }
}

/// The request without what is already part of the checkpoint, and what is to be said of it.
pub(super) fn reachable(request: &Request) -> (Request, Option<String>) {
    let mut request = request.clone();
    let done = request.checkpoint;
    let Some((first, last)) = request.skip.filter(|(first, _)| *first <= done) else {
        return (request, None);
    };
    if last <= done {
        request.skip = None;
        request.samples = None;
        let note = format!(
            "updates {first} to {last} are part of the checkpoint already: they cannot be skipped any more"
        );
        return (request, Some(note));
    }
    request.skip = Some((done + 1, last));
    let kept = request.samples.zip(request.batch);
    request.samples = kept
        .map(|((from, until), batch)| (from + batch * (done + 1 - first), until))
        .filter(|(from, until)| from < until);
    let note = format!(
        "updates {first} to {done} of the range are part of the checkpoint already: the skip begins at {}",
        done + 1
    );
    (request, Some(note))
}

/// Earlier ranges as updates, from a log that counts from `log_base`, and the names that could not be read.
pub(super) fn earlier(request: &Request, log_base: u64) -> (Vec<Range>, Vec<&str>) {
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    for name in &request.earlier {
        match range_of(name).filter(|(first, _)| *first >= log_base) {
            Some((first, last)) => read.push((first + 1 - log_base, last + 1 - log_base)),
            None => unread.push(name.as_str()),
        }
    }
    (read, unread)
}

fn range_of(name: &str) -> Option<Range> {
    let (first, last) = name.split_once('-').unwrap_or((name, name));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some((first, last))
}

/// All ranges in force, for a framework whose list stays valid when steps are repeated.
pub(super) fn in_force(request: &Request, log_base: u64) -> Vec<Range> {
    let mut ranges = earlier(request, log_base).0;
    ranges.extend(request.skip);
    ranges.sort_unstable();
    let mut out: Vec<Range> = Vec::new();
    for (first, last) in ranges {
        match out.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => out.push((first, last)),
        }
    }
    out
}

/// Says of earlier ranges that they are in the list, or that they could not be put there.
pub(super) fn repeated(request: &Request, log_base: u64, caveats: &mut Vec<String>) {
    let unread = earlier(request, log_base).1;
    let read: Vec<&str> = request
        .earlier
        .iter()
        .map(String::as_str)
        .filter(|e| !unread.contains(e))
        .collect();
    if !read.is_empty() {
        caveats.push(format!(
            "earlier skips stay in force and are repeated in the list: {}",
            read.join(", ")
        ));
    }
    if !unread.is_empty() {
        caveats.push(format!(
            "earlier skips stay in force, add them to the list by hand: {}",
            unread.join(", ")
        ));
    }
}

/// `5-6` of inclusive ranges.
pub(super) fn dashed(ranges: &[Range], separator: &str) -> String {
    joined(ranges, separator, |(first, last)| format!("{first}-{last}"))
}

/// Ranges written one way, with something between them.
pub(super) fn joined(ranges: &[Range], separator: &str, write: impl Fn(Range) -> String) -> String {
    let all: Vec<String> = ranges.iter().map(|r| write(*r)).collect();
    all.join(separator)
}

/// A move of the data forward from the checkpoint, for a framework that can do nothing else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jump {
    /// Batches from the checkpoint to the end of the range.
    pub(super) batches: u64,
    /// Those of them that are good.
    pub(super) lost: u64,
    /// The samples of all of them, if the size of a batch is known and does not change on the way.
    pub(super) samples: Option<u64>,
}

impl Jump {
    pub(super) fn of(request: &Request) -> Option<Self> {
        let (first, last) = request.skip?;
        let batches = last.saturating_sub(request.checkpoint);
        let batch = request.batch.filter(|_| !request.ramp);
        Some(Self {
            batches,
            lost: first.saturating_sub(request.checkpoint + 1),
            samples: batch.map(|b| b * batches),
        })
    }

    /// The samples, or what to multiply for them.
    pub(super) fn in_samples(&self, batch: &str) -> String {
        self.samples
            .map_or_else(|| format!("{} * {batch}", self.batches), |s| s.to_string())
    }
}

/// Says what a prefix jump leaves out and what it costs.
pub(super) fn prefix(request: &Request, caveats: &mut Vec<String>) {
    let (Some(jump), Some((first, last))) = (Jump::of(request), request.skip) else {
        return;
    };
    let at = request.checkpoint + 1;
    caveats.push(if jump.lost == 0 {
        format!(
            "the data can only be moved forward from the checkpoint: updates {at} to {last} (counted from 1) are left out, \
             no good batch is lost"
        )
    } else {
        format!(
            "the data can only be moved forward from the checkpoint: updates {at} to {last} (counted from 1) are left out, \
             {} good batches before {first} with them; a checkpoint closer to {first} costs less",
            jump.lost
        )
    });
    if request.ramp {
        caveats.push(
            "the batch size changes between the checkpoint and the end of the range: see that the jump ends at the \
             sample where the range ends"
                .to_owned(),
        );
    }
    if !request.earlier.is_empty() {
        caveats.push(format!(
            "earlier skips ({}): those before the checkpoint are part of its data position, the batches of any after it \
             must be added to the jump",
            request.earlier.join(", ")
        ));
    }
}

/// Says that the framework cannot skip, and what can be done instead.
pub(super) fn cannot_skip(name: &str, request: &Request, ways: &str, caveats: &mut Vec<String>) {
    if let Some((first, last)) = request.skip {
        caveats.push(format!(
            "{name} cannot skip batches: the command only goes back, and the batches of updates {first} to {last} (counted \
             from 1) are read again; ways out: {ways}"
        ));
    }
    if !request.earlier.is_empty() {
        caveats.push(format!(
            "earlier skips stay in force, see that they still are left out: {}",
            request.earlier.join(", ")
        ));
    }
}

/// Whether the last part of a path names a checkpoint: the prefix, a number, and at most an ending.
fn names_checkpoint(last: &str, prefix: &str) -> bool {
    let Some(number) = last.strip_prefix(prefix) else {
        return false;
    };
    let ending = number.trim_start_matches(|c: char| c.is_ascii_digit());
    ending != number
        && (ending.is_empty() || (!prefix.is_empty() && ending.starts_with(['-', '_', '.'])))
}

/// The folder of the checkpoints: the path, or its parent where the path is a checkpoint.
pub(super) fn root<'a>(request: &'a Request, prefix: &str) -> &'a str {
    let Some(path) = request.path.as_deref() else {
        return "$CHECKPOINT_DIR";
    };
    let path = path.trim_end_matches('/');
    match path.rsplit_once('/') {
        Some((parent, last)) if names_checkpoint(last, prefix) => parent,
        _ => path,
    }
}

/// The checkpoint itself: the path where it is one, or its name in the folder.
pub(super) fn whole(request: &Request, prefix: &str, name: &str) -> String {
    let path = request.path.as_deref().map(|p| p.trim_end_matches('/'));
    match path {
        Some(p) if names_checkpoint(p.rsplit('/').next().unwrap_or(p), prefix) => p.to_owned(),
        Some(p) => format!("{p}/{name}"),
        None => format!("$CHECKPOINT_DIR/{name}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::resume::resume;

    /// Checkpoint 1000, bad updates 1015 to 1040, batches of 512 samples in 4 micro-batches.
    pub(crate) fn skip() -> Request {
        Request {
            skip: Some((1015, 1040)),
            samples: Some((1014 * 512, 1040 * 512)),
            batch: Some(512),
            micro_batches: Some(4),
            ..rollback()
        }
    }

    /// The way back alone, to a checkpoint whose path is not known.
    pub(crate) fn rollback() -> Request {
        Request {
            checkpoint: 1000,
            ..Request::default()
        }
    }

    /// The answer for a framework by name.
    pub(crate) fn asked(name: &str, request: &Request) -> Resume {
        resume(Some(&Framework::parse(name)), request)
    }

    /// All that is answered, as one text.
    pub(crate) fn told(name: &str, request: &Request) -> String {
        let r = asked(name, request);
        let base = r.base.map_or(String::new(), |b| format!(" from {b}"));
        let price = r.price.map_or(String::new(), |p| format!(", price {p}"));
        let can = if r.can_skip { "can" } else { "cannot" };
        let caveats: Vec<String> = r.caveats.iter().map(|c| format!("- {c}\n")).collect();
        format!(
            "{}\n{}{base}; {can} skip{price}; {}\n{}",
            r.command.unwrap_or_default(),
            r.unit,
            r.survives,
            caveats.concat()
        )
    }

    #[test]
    fn names_of_earlier_ranges() {
        let names = ["8-9", "12", "x", "9-8", "0-3"].map(str::to_owned);
        let request = Request {
            earlier: names.to_vec(),
            ..Request::default()
        };
        assert_eq!(
            earlier(&request, 1),
            (vec![(8, 9), (12, 12)], vec!["x", "9-8", "0-3"])
        );
        assert_eq!(earlier(&request, 0).0, [(9, 10), (13, 13), (1, 4)]);
    }

    #[test]
    fn ranges_in_force_are_in_order_and_apart() {
        let request = Request {
            skip: Some((5, 7)),
            earlier: ["20-22", "8-9", "3", "30", "21-25"]
                .map(str::to_owned)
                .to_vec(),
            ..Request::default()
        };
        assert_eq!(in_force(&request, 1), [(3, 3), (5, 9), (20, 25), (30, 30)]);
    }

    #[test]
    fn paths() {
        let at = |path: &str| Request {
            path: Some(path.to_owned()),
            ..Request::default()
        };
        let iter = at("/ckpt/iter_0001000/");
        assert_eq!(root(&iter, "iter_"), "/ckpt");
        assert_eq!(root(&at("/ckpt"), "iter_"), "/ckpt");
        assert_eq!(root(&Request::default(), "iter_"), "$CHECKPOINT_DIR");
        assert_eq!(
            whole(&at("/c/step5-unsharded"), "step", "step7"),
            "/c/step5-unsharded"
        );
        assert_eq!(
            whole(&at("/c/stepwise"), "step", "step7"),
            "/c/stepwise/step7"
        );
        assert_eq!(whole(&at("/c/1000"), "", "7"), "/c/1000");
        assert_eq!(whole(&at("/c/2024-run"), "", "7"), "/c/2024-run/7");
    }

    #[test]
    fn what_the_checkpoint_holds_is_not_skipped() {
        let request = |skip| Request {
            checkpoint: 1000,
            skip: Some(skip),
            samples: Some((990 * 8, 1005 * 8)),
            batch: Some(8),
            ..Request::default()
        };
        let (inside, note) = reachable(&request((991, 1005)));
        assert_eq!(inside.skip, Some((1001, 1005)));
        assert_eq!(inside.samples, Some((8000, 8040)));
        assert_eq!(
            note.as_deref(),
            Some(
                "updates 991 to 1000 of the range are part of the checkpoint already: the skip begins at 1001"
            )
        );
        let (gone, note) = reachable(&request((990, 1000)));
        assert_eq!((gone.skip, gone.samples), (None, None));
        assert!(note.is_some_and(|n| n.contains("cannot be skipped any more")));
        assert_eq!(reachable(&request((1001, 1002))).1, None);
    }
}
