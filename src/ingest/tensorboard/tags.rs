//! Tags: which one a value belongs to, and what its steps count.

use std::collections::HashMap;

/// Tags that are kept. More are tags that carry data in their names.
const MOST_TAGS: usize = 4096;

/// What the steps of a tag count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    /// Training steps.
    Steps,
    /// Samples, as in the events of DeepSpeed's monitor.
    Samples,
    /// Samples, tokens or operations, beside a twin of the tag over steps.
    Twin,
    /// Nothing: the tag is left out.
    Excess,
}

/// A tag that was seen.
#[derive(Debug)]
pub(super) struct Tag {
    pub(super) name: Vec<u8>,
    pub(super) axis: Axis,
    /// Its column, once it has a value.
    pub(super) slot: Option<usize>,
    /// Whether it holds something other than scalars.
    pub(super) foreign: bool,
}

/// Tags in the order in which they were first seen.
#[derive(Debug, Default)]
pub(super) struct Tags {
    known: Vec<Tag>,
    index: HashMap<Vec<u8>, usize>,
    next: usize,
    excess: usize,
}

impl Tags {
    /// The tag of a name. Writers go through their tags in the same order at every step.
    #[inline]
    pub(super) fn find(&mut self, name: &[u8]) -> &mut Tag {
        let expected = self.known.get(self.next).is_some_and(|t| t.name == name);
        let at = if expected {
            self.next
        } else {
            self.look_up(name)
        };
        self.next = if at + 1 < self.known.len() { at + 1 } else { 0 };
        &mut self.known[at]
    }

    /// Values of tags beyond the number that is kept.
    pub(super) fn excess(&self) -> usize {
        self.excess
    }

    fn look_up(&mut self, name: &[u8]) -> usize {
        if let Some(at) = self.index.get(name) {
            return *at;
        }
        let full = self.known.len() >= MOST_TAGS;
        self.excess += usize::from(full);
        if full && self.known.len() > MOST_TAGS {
            return MOST_TAGS;
        }
        let axis = if full { Axis::Excess } else { axis(name) };
        self.known.push(Tag {
            name: if full { Vec::new() } else { name.to_vec() },
            axis,
            slot: None,
            foreign: false,
        });
        let at = self.known.len() - 1;
        if !full {
            self.index.insert(name.to_vec(), at);
        }
        at
    }
}

/// What the steps of a tag count, by its name.
fn axis(name: &[u8]) -> Axis {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let counted = |x: &str| matches!(x, "samples" | "tokens") || x.starts_with("gigaflos");
    let twin = |part: &str| name.rsplit_once(part).is_some_and(|(_, x)| counted(x));
    if twin(" vs ") || twin("x=") {
        Axis::Twin
    } else if name.starts_with("train/samples/") {
        Axis::Samples
    } else {
        Axis::Steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_known_by_the_name() {
        for twin in [
            "lm loss vs samples",
            "lm-loss-training/lm loss vs gigaflos (without embeddings)",
            "batch-size/batch-size vs tokens",
            "steps-vs-samples/y=steps,x=samples",
        ] {
            assert_eq!(axis(twin.as_bytes()), Axis::Twin, "{twin}");
        }
        for steps in [
            "samples vs steps",
            "steps-vs-tokens/y=tokens,x=steps",
            "loss",
        ] {
            assert_eq!(axis(steps.as_bytes()), Axis::Steps, "{steps}");
        }
        assert_eq!(axis(b"Train/Samples/train_loss"), Axis::Samples);
    }

    #[test]
    fn tags_without_end_are_counted() {
        let mut tags = Tags::default();
        for i in 0..MOST_TAGS + 10 {
            let name = format!("t{i}");
            let kept = tags.find(name.as_bytes()).axis == Axis::Steps;
            assert_eq!(kept, i < MOST_TAGS);
        }
        assert_eq!(tags.excess(), 10);
        assert_eq!(tags.find(b"t7").name, b"t7");
    }
}
