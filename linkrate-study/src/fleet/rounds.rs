//! Who is measured with whom, and when: rounds of pairs that share no node.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fleet, Pair};
use linkrate_stats::random::{generator, shuffle};

/// Who is measured with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each node sends to each other node.
    #[default]
    AllPairs,
    /// Each node sends to the next one, the last one to the first.
    Ring,
    /// Each node of the first half sends to one of the second half, and the other way round.
    Bisection,
    /// All other nodes send to one node at the same time, each node or some in turn.
    Incast,
    /// One node sends to all other nodes at the same time, each node or some in turn.
    OneToMany,
}

/// What the node in the middle of a pattern does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hub {
    /// It receives from all others.
    Receives,
    /// It sends to all others.
    Sends,
}

impl Pattern {
    /// All, in the order of their words.
    pub const ALL: [Self; 5] =
        [Self::AllPairs, Self::Ring, Self::Bisection, Self::Incast, Self::OneToMany];

    /// What the node in the middle does, if there is one. It is the system under test of its turn, and all other
    /// nodes are clients, so that the traffic of all has one measurement.
    pub fn hub(self) -> Option<Hub> {
        match self {
            Self::AllPairs | Self::Ring | Self::Bisection => None,
            Self::Incast => Some(Hub::Receives),
            Self::OneToMany => Some(Hub::Sends),
        }
    }

    /// The word for it, as study files have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::AllPairs => "all-pairs",
            Self::Ring => "ring",
            Self::Bisection => "bisection",
            Self::Incast => "incast",
            Self::OneToMany => "one-to-many",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pattern| pattern.word() == word)
    }
}

/// One turn: all cells between the nodes of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Its number in the study, from 0: no other turn of any block has it.
    pub number: u32,
    /// Its nodes, by their places; those of a turn that is made, by their numbers.
    pub pair: Pair,
}

/// Makes the key of the order of rounds another one than that of the order of runs.
const ROUNDS: u64 = 0x726f_756e_6473;

/// The rounds of a block in their order, with [`Fleet::at_once`] turns or fewer each. The order depends
/// on the fleet, the seed and the number of the block alone.
pub fn block_rounds(fleet: &Fleet, seed: u64, block: u32) -> Vec<Vec<Turn>> {
    let mut rounds = rounds(fleet);
    let mut rng = generator(seed ^ ROUNDS, block);
    shuffle(&mut rounds, &mut rng);
    let mut number = block.saturating_mul(fleet.turns());
    let mut numbered = |pair| {
        let turn = Turn { number, pair };
        number = number.saturating_add(1);
        turn
    };
    let in_order = rounds.into_iter().map(|mut pairs| {
        shuffle(&mut pairs, &mut rng);
        pairs.into_iter().map(&mut numbered).collect()
    });
    in_order.collect()
}

/// All rounds of a fleet, each pair once, in an order of their own.
pub fn rounds(fleet: &Fleet) -> Vec<Vec<Pair>> {
    let nodes = u32::try_from(fleet.nodes.len()).unwrap_or(u32::MAX);
    let disjoint = match fleet.pattern {
        Pattern::AllPairs => tournament(nodes),
        Pattern::Ring => ring(nodes),
        Pattern::Bisection => {
            let half = nodes / 2;
            let there: Vec<(u32, u32)> = (0..half).map(|node| (node, node + half)).collect();
            let back = there.iter().map(|(a, b)| (*b, *a)).collect();
            vec![there, back]
        }
        Pattern::Incast | Pattern::OneToMany => {
            fleet.in_the_middle().into_iter().map(|hub| vec![(hub, hub)]).collect()
        }
    };
    let most = (fleet.at_once as usize).max(1);
    let parts = disjoint.iter().flat_map(|round| round.chunks(most));
    let numbered = (0..).zip(parts).map(|(round, pairs)| {
        let pair =
            |(sender, receiver): &(u32, u32)| Pair { sender: *sender, receiver: *receiver, round };
        pairs.iter().map(pair).collect()
    });
    numbered.collect()
}

/// Rounds in which each node sends to each other one, by the circle method: one node stays, all others move
/// on by a place for each round. With an odd number of nodes one of them rests in each round.
fn tournament(nodes: u32) -> Vec<Vec<(u32, u32)>> {
    let places = nodes + nodes % 2;
    let mut rounds = Vec::new();
    for shift in 0..places.saturating_sub(1) {
        let at = |place: u32| match place {
            0 => 0,
            _ => 1 + (place - 1 + shift) % (places - 1),
        };
        let met: Vec<(u32, u32)> = (0..places / 2)
            .map(|place| (at(place), at(places - 1 - place)))
            .filter(|(a, b)| *a < nodes && *b < nodes)
            .collect();
        let back = met.iter().map(|(a, b)| (*b, *a)).collect();
        rounds.extend([met, back]);
    }
    rounds
}

/// Rounds in which each node sends to the next one: two, and a third one for the last node of an odd number.
fn ring(nodes: u32) -> Vec<Vec<(u32, u32)>> {
    let edge = |node: u32| (node, (node + 1) % nodes.max(1));
    let even = nodes - nodes % 2;
    let of = |first: u32| (first..even).step_by(2).map(edge).collect::<Vec<_>>();
    let last = (nodes > even).then(|| vec![edge(even)]);
    [of(0), of(1)].into_iter().chain(last).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::fleet::{Given, Node};
    use crate::study::Study;

    pub(crate) fn fleet(nodes: u32, pattern: Pattern) -> Fleet {
        let node = |number: u32| Node {
            name: format!("n{number}"),
            end: format!("ssh:n{number}").parse().unwrap(),
            interface: "eth1".to_owned(),
            rack: None,
            switch: None,
        };
        Fleet { pattern, ..Fleet::of((0..nodes).map(node).collect()) }
    }

    /// The study in `text` on so many nodes.
    pub(crate) fn study_of(nodes: u32, pattern: Pattern, text: &str) -> Study {
        let given = Given { nodes: fleet(nodes, pattern).nodes, pattern: Some(pattern) };
        let mut load = |_: &str| Err("no file".to_owned());
        crate::file::parse_nodes("t", "t.toml", text, &mut load, &given).unwrap()
    }

    proptest! {
        #[test]
        fn a_round_has_each_node_once_and_a_block_each_pair_once(
            half in 1u32..12,
            odd in 0u32..2,
            pattern in proptest::sample::select(Pattern::ALL.to_vec()),
            at_once in 1u32..12,
            block in 0u32..4,
        ) {
            let nodes = match pattern {
                Pattern::Bisection => 2 * half,
                _ if pattern.hub().is_some() => 2 * half + 1,
                _ => 2 * half + odd,
            };
            let most = if pattern.hub().is_some() { 1 } else { nodes / 2 };
            let fleet = Fleet { at_once: at_once.min(most), ..fleet(nodes, pattern) };
            prop_assert_eq!(fleet.check(), Ok(()));
            let rounds = block_rounds(&fleet, 7, block);
            let mut pairs = BTreeSet::new();
            let mut numbers = BTreeSet::new();
            for round in &rounds {
                prop_assert!((1..=fleet.at_once as usize).contains(&round.len()));
                let mut busy = BTreeSet::new();
                for turn in round {
                    let Pair { sender, receiver, round: number } = turn.pair;
                    prop_assert!(busy.insert(sender));
                    prop_assert!(pattern.hub().map_or_else(|| busy.insert(receiver), |_| sender == receiver));
                    prop_assert!(pairs.insert((sender, receiver)));
                    prop_assert_eq!(number, round[0].pair.round);
                    numbers.insert(turn.number);
                }
            }
            prop_assert_eq!(pairs.len() as u32, fleet.turns());
            let first = block * fleet.turns();
            prop_assert_eq!(numbers, (first..first + fleet.turns()).collect());
        }
    }

    #[test]
    fn as_many_pairs_at_once_as_there_can_be() {
        let of = |nodes, pattern| {
            rounds(&fleet(nodes, pattern)).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(of(4, Pattern::AllPairs), [2; 6]);
        assert_eq!(of(5, Pattern::AllPairs), [2; 10]);
        assert_eq!(of(4, Pattern::Ring), [2, 2]);
        assert_eq!(of(5, Pattern::Ring), [2, 2, 1]);
        assert_eq!(of(6, Pattern::Bisection), [3, 3]);
        assert_eq!(of(4, Pattern::Incast), [1; 4]);
    }

    #[test]
    fn all_others_are_the_clients_of_the_node_in_the_middle() {
        for pattern in [Pattern::Incast, Pattern::OneToMany] {
            let fleet = Fleet { at_once: 1, hubs: vec![2, 0], ..fleet(4, pattern) };
            assert_eq!(fleet.check(), Ok(()));
            assert_eq!(fleet.turns(), 2);
            let pair = fleet.first_pair();
            assert_eq!((pair.sender, pair.receiver), (2, 2));
            assert_eq!(fleet.nodes_of(&pair), [0, 1, 2, 3]);
            let on = fleet.interfaces(&pair, &[]).unwrap();
            assert_eq!(on.sut.as_ref().unwrap().to_string(), "ssh:n2");
            let ends: Vec<String> = on.clients.iter().map(ToString::to_string).collect();
            assert_eq!(ends, ["ssh:n0", "ssh:n1", "ssh:n3"]);
            let without = fleet.interfaces(&pair, &[1]).unwrap();
            let left: Vec<String> = without.clients.iter().map(ToString::to_string).collect();
            assert_eq!(left, ["ssh:n0", "ssh:n3"]);
            let around = fleet.around(pair.sender, 0, &[]);
            let around = around.iter().map(|node| fleet.node(*node).unwrap().end.to_string());
            assert_eq!(around.collect::<Vec<_>>(), ends);
        }
    }

    #[test]
    fn a_node_in_the_middle_needs_a_pattern_and_others() {
        let of = |nodes, pattern, hubs: &[u32]| {
            Fleet { at_once: 1, hubs: hubs.to_vec(), ..fleet(nodes, pattern) }.check()
        };
        assert_eq!(of(65, Pattern::Incast, &[64]), Ok(()));
        for (nodes, pattern, hubs, part) in [
            (4, Pattern::Ring, &[1][..], "with pattern ring, which has none"),
            (66, Pattern::Incast, &[], "incast of 66 nodes, expected 3 to 65"),
            (2, Pattern::OneToMany, &[], "one-to-many of 2 nodes"),
            (4, Pattern::Incast, &[1, 1], "listed twice"),
            (4, Pattern::Incast, &[4], "not in the list of nodes"),
        ] {
            let error = of(nodes, pattern, hubs).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn blocks_have_orders_of_their_own() {
        let fleet = fleet(6, Pattern::AllPairs);
        let order = |seed, block| -> Vec<Pair> {
            block_rounds(&fleet, seed, block).concat().iter().map(|turn| turn.pair).collect()
        };
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }
}
