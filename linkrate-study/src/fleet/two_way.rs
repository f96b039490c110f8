//! Sender, receiver and pair as effects, and those that stand out.
//!
//! The logarithm of a figure is taken for the sum of an effect of its sender, one of its receiver and one
//! of the pair. In each block, effects are fitted by least squares; those of different blocks are the
//! sample of a t test. An effect of a sender is measured against the median sender, one of a receiver against
//! the median receiver, and one of a pair against what its sender and its receiver explain, with this
//! pair left out of the fit. What stands out is found one by one, the largest first. It is then no part of the
//! reference any more, so that it does not make others stand out.
//!
//! An effect stands out if it is shown to be larger than the smallest that counts: if its probability under that one,
//! adjusted by Holm's method for the number of all effects, is below the permitted error. The model of
//! effects that add up does not hold where the slower of two nodes decides: between two slow nodes
//! a pair is then faster than both explain. Such a pair is not named.

mod fit;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Interval;
use linkrate_stats::interval::{MIN_TO_CLAIM, of_mean};
use linkrate_stats::mean_test::MeanTest;
use linkrate_stats::trend::median;

use fit::Fit;

/// Logarithms of a figure, by block and (sender, receiver).
pub type Blocks = BTreeMap<u32, BTreeMap<(u32, u32), f64>>;

/// What may stand out.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Subject {
    /// A node, in both directions.
    Node {
        /// Its number.
        node: u32,
    },
    /// A node as a sender.
    Sender {
        /// Its number.
        node: u32,
    },
    /// A node as a receiver.
    Receiver {
        /// Its number.
        node: u32,
    },
    /// One sender with one receiver.
    Pair {
        /// The number of the sender.
        sender: u32,
        /// The number of the receiver.
        receiver: u32,
    },
}

impl Subject {
    /// Whether it is about the figures of this pair.
    pub fn concerns(self, of_sender: u32, of_receiver: u32) -> bool {
        match self {
            Self::Node { node } => node == of_sender || node == of_receiver,
            Self::Sender { node } => node == of_sender,
            Self::Receiver { node } => node == of_receiver,
            Self::Pair { sender, receiver } => (sender, receiver) == (of_sender, of_receiver),
        }
    }

    /// The node that it is about; `None` of a pair.
    pub(super) fn node(self) -> Option<u32> {
        match self {
            Self::Node { node } | Self::Sender { node } | Self::Receiver { node } => Some(node),
            Self::Pair { .. } => None,
        }
    }

    pub(super) fn nodes(self) -> Vec<u32> {
        match self {
            Self::Node { node } | Self::Sender { node } | Self::Receiver { node } => vec![node],
            Self::Pair { sender, receiver } => vec![sender, receiver],
        }
    }
}

/// What counts as standing out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standard {
    /// Chance of naming anything where nothing stands out.
    pub error: f64,
    /// Level of the intervals.
    pub confidence: f64,
    /// Smallest effect that counts, as a fraction.
    pub minimum: f64,
    /// Whether each node meets so many others that its effects can be told from those of its pairs.
    pub two_way: bool,
}

/// Something that stands out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    pub subject: Subject,
    /// Its figure over that of its reference.
    pub ratio: Interval,
    /// Probability of an effect so large where there is none, adjusted for the number of all effects.
    pub p: f64,
}

/// What was looked for, and what was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Search {
    /// What stands out, the largest effect first.
    pub found: Vec<Found>,
    /// Effects that were compared.
    pub comparisons: u32,
    /// Blocks with figures.
    pub blocks: u32,
}

/// Fewer blocks than these can tell nothing.
pub const MIN_BLOCKS: u32 = MIN_TO_CLAIM;

/// Nodes that a two-way model needs at least: with three, nothing is left to compare pairs with.
pub const MIN_NODES: usize = 4;

pub fn search(blocks: &Blocks, standard: &Standard) -> Search {
    let pairs: BTreeSet<(u32, u32)> =
        blocks.values().flat_map(|block| block.keys().copied()).collect();
    let mut apart: BTreeMap<Subject, Found> = BTreeMap::new();
    let mut searched = Search { blocks: blocks.len() as u32, ..Search::default() };
    loop {
        let effects = effects(blocks, standard, &apart);
        searched.comparisons = effects.len() as u32 + apart.len() as u32;
        let tested = tested(&effects, standard, apart.len());
        let largest = tested
            .into_iter()
            .filter(|found| found.p < standard.error)
            .max_by(|a, b| size(a).total_cmp(&size(b)));
        match largest {
            // a fit needs more pairs than nodes
            Some(found) if apart.len() < pairs.len() / 2 => apart.insert(found.subject, found),
            _ => break,
        };
    }
    // effects that were found first were measured against references with the others in them
    let again = effects_of(blocks, standard, &apart);
    for (subject, values) in &again {
        if let Some(found) = apart.get_mut(subject)
            && let Some(ratio) = ratio(values, standard.confidence)
        {
            found.ratio = ratio;
        }
    }
    searched.found = together(apart, &again, standard);
    searched.found.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.subject.cmp(&b.subject)));
    searched
}

fn size(found: &Found) -> f64 {
    found.ratio.mean.ln().abs()
}

/// Joins the two directions of a node, and leaves out pairs that are fast only because both nodes are slow.
fn together(
    apart: BTreeMap<Subject, Found>,
    values: &BTreeMap<Subject, Vec<f64>>,
    standard: &Standard,
) -> Vec<Found> {
    let is_slow =
        |subject: Subject| apart.get(&subject).is_some_and(|found| found.ratio.mean < 1.0);
    let mut named = Vec::new();
    for (subject, found) in &apart {
        let joined = match *subject {
            Subject::Pair { sender, receiver } => {
                let slow = is_slow(Subject::Sender { node: sender })
                    && is_slow(Subject::Receiver { node: receiver });
                if slow && found.ratio.mean > 1.0 {
                    continue;
                }
                None
            }
            Subject::Sender { node } => {
                apart.get(&Subject::Receiver { node }).map(|other| (node, other))
            }
            Subject::Receiver { node } => match apart.get(&Subject::Sender { node }) {
                Some(other) if is_slow(*subject) == is_slow(other.subject) => continue,
                _ => None,
            },
            Subject::Node { .. } => None,
        };
        match joined {
            Some((node, other)) if is_slow(*subject) == is_slow(other.subject) => {
                let of = |subject: &Subject| values.get(subject).map_or(&[][..], Vec::as_slice);
                let both: Vec<f64> = of(subject)
                    .iter()
                    .zip(of(&other.subject))
                    .map(|(a, b)| (a + b) / 2.0)
                    .collect();
                let ratio = ratio(&both, standard.confidence).unwrap_or(found.ratio);
                named.push(Found {
                    subject: Subject::Node { node },
                    ratio,
                    p: found.p.max(other.p),
                });
            }
            _ => named.push(*found),
        }
    }
    named
}

/// Effects that are not named yet, with their probabilities adjusted by Holm's method. `named` effects have
/// passed it already.
fn tested(effects: &BTreeMap<Subject, Vec<f64>>, standard: &Standard, named: usize) -> Vec<Found> {
    let mut found: Vec<Found> = effects
        .iter()
        .filter_map(|(subject, values)| {
            if values.len() < MIN_BLOCKS as usize {
                return None;
            }
            let ratio = ratio(values, standard.confidence)?;
            let bound = standard.minimum.ln_1p();
            let p = MeanTest::of(values)?.outside(-bound, bound);
            Some(Found { subject: *subject, ratio, p })
        })
        .collect();
    found.sort_by(|a, b| a.p.total_cmp(&b.p));
    // with those that are named already: the search must not get cheaper by what it finds
    let all = effects.len() + named;
    let mut least: f64 = 0.0;
    for (rank, found) in found.iter_mut().enumerate() {
        let left = all.saturating_sub(rank).max(1) as f64;
        least = least.max((found.p * left).min(1.0));
        found.p = least;
    }
    found
}

fn ratio(values: &[f64], confidence: f64) -> Option<Interval> {
    let log = of_mean(values, confidence)?;
    Some(Interval {
        mean: log.mean.exp(),
        low: log.low.map(f64::exp),
        high: log.high.map(f64::exp),
    })
}

/// The effects that are not named yet, each with its value in each block.
fn effects(
    blocks: &Blocks,
    standard: &Standard,
    apart: &BTreeMap<Subject, Found>,
) -> BTreeMap<Subject, Vec<f64>> {
    let mut effects = effects_of(blocks, standard, apart);
    effects.retain(|subject, _| !apart.contains_key(subject));
    effects
}

/// All effects, each with its value in each block, measured against those that are not `apart`.
fn effects_of(
    blocks: &Blocks,
    standard: &Standard,
    apart: &BTreeMap<Subject, Found>,
) -> BTreeMap<Subject, Vec<f64>> {
    let mut effects: BTreeMap<Subject, Vec<f64>> = BTreeMap::new();
    let is_apart = |subject: Subject| apart.contains_key(&subject);
    let mut fitted: Option<Fit> = None;
    for block in blocks.values() {
        let mut tell = |subject, value: f64| effects.entry(subject).or_default().push(value);
        let pair = |(sender, receiver): (u32, u32)| Subject::Pair { sender, receiver };
        let reference: Vec<(u32, u32)> =
            block.keys().copied().filter(|nodes| !is_apart(pair(*nodes))).collect();
        if !standard.two_way {
            for (nodes, log) in block {
                let others = reference.iter().filter(|other| *other != nodes);
                let mut logs: Vec<f64> =
                    others.filter_map(|other| block.get(other).copied()).collect();
                if let Some(median) = median(&mut logs) {
                    tell(pair(*nodes), log - median);
                }
            }
            continue;
        }
        let fit = match fitted.take().filter(|fit| fit.pairs() == reference) {
            Some(fit) => fit,
            None => match Fit::of(reference) {
                Some(fit) => fit,
                // nodes that have no pair in common cannot be compared in this block
                None => continue,
            },
        };
        let of_nodes = fit.solve(block);
        for (nodes, log) in block {
            if let Some(residual) = fit.residual(&of_nodes, *nodes, *log) {
                tell(pair(*nodes), residual);
            }
        }
        type Named = fn(u32) -> Subject;
        let sides: [(&BTreeMap<u32, f64>, Named); 2] = [
            (&of_nodes.senders, |node| Subject::Sender { node }),
            (&of_nodes.receivers, |node| Subject::Receiver { node }),
        ];
        for (side, subject) in sides {
            for (node, effect) in side {
                let others =
                    side.iter().filter(|(other, _)| *other != node && !is_apart(subject(**other)));
                let mut effects: Vec<f64> = others.map(|(_, effect)| *effect).collect();
                if let Some(median) = median(&mut effects) {
                    tell(subject(*node), effect - median);
                }
            }
        }
        fitted = Some(fit);
    }
    effects
}

#[cfg(test)]
mod tests;
