use super::*;
use crate::fleet::{Pattern, rounds};
use linkrate_stats::simulate::Simulator;

/// What the truth is beside noise.
type Truth = fn(u32, u32) -> f64;

const STANDARD: Standard = Standard { error: 0.05, confidence: 0.95, minimum: 0.02, two_way: true };

/// A fleet whose runs scatter by `noise`, with a level of its own in each block.
fn fleet(simulator: &mut Simulator, nodes: u32, blocks: u32, noise: f64, truth: Truth) -> Blocks {
    let mut found = Blocks::new();
    for block in 0..blocks {
        let level = 23.0 + simulator.lognormal(0.05).ln();
        for sender in 0..nodes {
            for receiver in (0..nodes).filter(|receiver| *receiver != sender) {
                let log = level + truth(sender, receiver) + simulator.lognormal(noise).ln();
                found.entry(block).or_default().insert((sender, receiver), log);
            }
        }
    }
    found
}

fn subjects(search: &Search) -> Vec<Subject> {
    search.found.iter().map(|found| found.subject).collect()
}

#[test]
fn where_nothing_stands_out_nothing_is_named_more_often_than_stated() {
    let mut simulator = Simulator::new(11);
    // without a smallest effect, so that the test alone protects
    let standard = Standard { minimum: 0.0, ..STANDARD };
    for (nodes, blocks) in [(4, 5), (6, 8)] {
        let tries = 400;
        let wrong = (0..tries)
            .filter(|_| {
                let blocks = fleet(&mut simulator, nodes, blocks, 0.03, |_, _| 0.0);
                !search(&blocks, &standard).found.is_empty()
            })
            .count();
        // 20 are allowed; of 400 tries at 5 %, one in a thousand has more than 34
        assert!(wrong <= 34, "{wrong} of {tries} with {nodes} nodes");
    }
}

/// Pairs that are measured at the same time share what the network and the controller did to them.
#[test]
fn noise_that_the_pairs_of_a_round_share_names_nothing_more_often_than_stated() {
    let mut simulator = Simulator::new(12);
    let standard = Standard { minimum: 0.0, ..STANDARD };
    for nodes in [4, 6] {
        let fleet = rounds::tests::fleet(nodes, Pattern::AllPairs);
        let tries = 400;
        let wrong = (0..tries)
            .filter(|_| {
                let mut blocks = Blocks::new();
                for block in 0..6 {
                    for round in rounds::block_rounds(&fleet, 7, block) {
                        let shared = simulator.lognormal(0.05).ln();
                        for turn in round {
                            let log = 23.0 + shared + simulator.lognormal(0.02).ln();
                            let ends = (turn.pair.sender, turn.pair.receiver);
                            blocks.entry(block).or_default().insert(ends, log);
                        }
                    }
                }
                !search(&blocks, &standard).found.is_empty()
            })
            .count();
        assert!(wrong <= 34, "{wrong} of {tries} with {nodes} nodes");
    }
}

#[test]
fn what_stands_out_is_named_and_nothing_else() {
    let cases: [(&str, Truth, Subject); 4] = [
        ("node", |a, b| if a == 2 || b == 2 { -0.5 } else { 0.0 }, Subject::Node { node: 2 }),
        ("sender", |a, _| if a == 0 { -0.3 } else { 0.0 }, Subject::Sender { node: 0 }),
        ("receiver", |_, b| if b == 3 { -0.3 } else { 0.0 }, Subject::Receiver { node: 3 }),
        (
            "pair",
            |a, b| if (a, b) == (1, 3) { -0.4 } else { 0.0 },
            Subject::Pair { sender: 1, receiver: 3 },
        ),
    ];
    let mut simulator = Simulator::new(5);
    for (what, truth, subject) in cases {
        for nodes in [4, 6] {
            let tries = 60;
            let (mut exact, mut missed) = (0, 0);
            for _ in 0..tries {
                let found = search(&fleet(&mut simulator, nodes, 5, 0.02, truth), &STANDARD);
                exact += u32::from(subjects(&found) == [subject]);
                missed += u32::from(!subjects(&found).contains(&subject));
            }
            assert!(missed <= 1, "{what}: missed {missed} of {tries} with {nodes} nodes");
            assert!(exact >= 55, "{what}: {exact} of {tries} are exact with {nodes} nodes");
        }
    }
}

#[test]
fn two_slow_nodes_do_not_make_their_pair_fast() {
    // the slower of both decides
    let truth: Truth =
        |a, b| if [a, b].iter().any(|node| [1, 4].contains(node)) { -1.0 } else { 0.0 };
    let found = search(&fleet(&mut Simulator::new(3), 6, 6, 0.01, truth), &STANDARD);
    let mut named = subjects(&found);
    named.sort();
    assert_eq!(named, [Subject::Node { node: 1 }, Subject::Node { node: 4 }]);
    for found in &found.found {
        assert!((found.ratio.mean - (-1.0f64).exp()).abs() < 0.02, "{found:?}");
    }
}

#[test]
fn an_effect_has_its_size_and_its_interval() {
    let truth: Truth = |a, b| if (a, b) == (0, 1) { 0.7f64.ln() } else { 0.0 };
    let mut simulator = Simulator::new(8);
    let tries = 300;
    let covered = (0..tries)
        .filter(|_| {
            let found = search(&fleet(&mut simulator, 5, 6, 0.02, truth), &STANDARD);
            let of = |f: &&Found| f.subject == Subject::Pair { sender: 0, receiver: 1 };
            found.found.iter().find(of).is_some_and(|found| {
                found.ratio.low.is_some_and(|low| low <= 0.7)
                    && found.ratio.high.is_some_and(|high| high >= 0.7)
            })
        })
        .count();
    // 285 are expected; fewer than 272 come once in a thousand times
    assert!(covered >= 272, "{covered} of {tries}");
}

#[test]
fn a_lost_node_costs_its_own_pairs() {
    let truth: Truth = |a, _| if a == 1 { -0.5 } else { 0.0 };
    let mut blocks = fleet(&mut Simulator::new(4), 6, 7, 0.02, truth);
    for (block, pairs) in &mut blocks {
        pairs.retain(|(a, b), _| *block < 2 || (*a != 5 && *b != 5));
    }
    assert_eq!(subjects(&search(&blocks, &STANDARD)), [Subject::Sender { node: 1 }]);
}

#[test]
fn a_ring_names_pairs() {
    let mut simulator = Simulator::new(6);
    let mut blocks = Blocks::new();
    for block in 0..6 {
        for node in 0..8u32 {
            let slow = if node == 3 { -0.4 } else { 0.0 };
            let log = 20.0 + slow + simulator.lognormal(0.02).ln();
            blocks.entry(block).or_default().insert((node, (node + 1) % 8), log);
        }
    }
    let found = search(&blocks, &Standard { two_way: false, ..STANDARD });
    assert_eq!(subjects(&found), [Subject::Pair { sender: 3, receiver: 4 }]);
    assert_eq!(found.comparisons, 8);
}

#[test]
fn few_blocks_and_small_effects_name_nothing() {
    let truth: Truth = |a, _| if a == 1 { -0.5 } else { 0.0 };
    let few = fleet(&mut Simulator::new(9), 5, 4, 0.01, truth);
    assert!(search(&few, &STANDARD).found.is_empty());
    let small: Truth = |a, _| if a == 1 { -0.015 } else { 0.0 };
    let many = fleet(&mut Simulator::new(9), 5, 12, 0.001, small);
    assert!(search(&many, &STANDARD).found.is_empty());
    assert!(search(&Blocks::new(), &STANDARD).found.is_empty());
}
