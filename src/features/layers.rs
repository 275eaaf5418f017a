//! F26: where in the model the gradient is.

use std::collections::BTreeMap;

use crate::features::context::Context;
use crate::features::{Feature, number};

const NEEDS: &[&str] = &["gradient norm of each layer or parameter"];

pub(super) const FEATURES: &[Feature] = &[
    number(
        "F26",
        "layer_concentration",
        "share",
        "20",
        NEEDS,
        "share of the squared gradient norm in the largest layer, largest norms of the 20 steps up to the onset",
        |c| share(c, |part, most| part == most),
    ),
    number(
        "F26b",
        "embedding_share",
        "share",
        "20",
        NEEDS,
        "share of the squared gradient norm in the embedding, largest norms of the 20 steps up to the onset",
        |c| {
            let known = squares(c).iter().any(|(p, _)| *p == Part::Embedding);
            known.then(|| share(c, |part, _| *part == Part::Embedding))?
        },
    ),
    number(
        "F26c",
        "layer_depth",
        "share",
        "20",
        NEEDS,
        "depth of the numbered layer with the largest gradient norm: 0 the first, 1 the last",
        depth,
    ),
];

/// A part of the model, as told by the name of a parameter or the number of a layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Embedding,
    Layer(u32),
    Other(String),
}

/// Parts of the names of embeddings of tokens and positions.
const EMBEDDING: [&str; 3] = ["embed", "wte", "wpe"];

impl Part {
    fn of(name: &str) -> Self {
        let lower = name.to_lowercase();
        let number = lower
            .split(|c: char| !c.is_ascii_alphanumeric())
            .find_map(|word| word.parse().ok());
        match number {
            Some(n) => Self::Layer(n),
            None if EMBEDDING.iter().any(|e| lower.contains(e)) => Self::Embedding,
            None => Self::Other(lower),
        }
    }
}

/// The squared gradient norm of each part: the parameters of one layer added up. Empty with fewer than two parts.
fn squares(c: &Context<'_>) -> BTreeMap<Part, f64> {
    let mut out = BTreeMap::new();
    for (name, _) in c.run.family("grad_norm") {
        let from = c.onset - 20.0_f64.max(2.0 * c.spacing);
        if let Some(norm) = c.max(name, from, c.onset + 1.0) {
            let part = Part::of(name.trim_start_matches("grad_norm/"));
            *out.entry(part).or_default() += norm * norm;
        }
    }
    if out.len() < 2 { BTreeMap::new() } else { out }
}

fn largest(squares: &BTreeMap<Part, f64>) -> Option<&Part> {
    let most = squares.iter().max_by(|a, b| a.1.total_cmp(b.1));
    most.filter(|(_, s)| **s > 0.0).map(|(part, _)| part)
}

/// The share of the parts that are meant, given the largest.
fn share(c: &Context<'_>, meant: impl Fn(&Part, &Part) -> bool) -> Option<f64> {
    let all = squares(c);
    let most = largest(&all)?;
    let of = all.iter().filter(|(part, _)| meant(part, most));
    Some(of.map(|(_, s)| s).sum::<f64>() / all.values().sum::<f64>())
}

fn depth(c: &Context<'_>) -> Option<f64> {
    let mut layers = squares(c);
    layers.retain(|part, _| matches!(part, Part::Layer(_)));
    let number = |part: &Part| match part {
        Part::Layer(n) => Some(f64::from(*n)),
        _ => None,
    };
    let (first, _) = layers.first_key_value()?;
    let (last, _) = layers.last_key_value()?;
    let (first, last) = (number(first)?, number(last)?);
    (last > first).then(|| Some((number(largest(&layers)?)? - first) / (last - first)))?
}
