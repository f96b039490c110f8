//! What slow nodes have in common, and other nodes have not.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_stats::independent::holm;

use crate::results::fleet::{NodeResult, Shared};

/// Facts that the nodes of `slow` have more often than others, with probabilities up to `error`; the most certain one
/// first.
pub(super) fn of(nodes: &[NodeResult], slow: &BTreeSet<u32>, error: f64) -> Vec<Shared> {
    let names: BTreeSet<&String> = nodes.iter().flat_map(|node| node.facts.keys()).collect();
    let mut all = Vec::new();
    for name in names {
        // how many slow nodes and others have each value
        let mut by_value: BTreeMap<Option<&String>, [u32; 2]> = BTreeMap::new();
        for (number, node) in (0..).zip(nodes) {
            let counts = by_value.entry(node.facts.get(name)).or_default();
            counts[usize::from(!slow.contains(&number))] += 1;
        }
        let is_uniform = by_value.len() < 2;
        let of_slow = by_value.values().map(|counts| counts[0]).sum();
        let of_others = by_value.values().map(|counts| counts[1]).sum();
        all.extend(by_value.into_iter().filter(|(_, [slow, _])| !is_uniform && *slow > 0).map(
            |(value, [slow, others])| Shared {
                fact: name.clone(),
                value: value.cloned(),
                slow,
                of_slow,
                others,
                of_others,
                p: fisher(slow, of_slow, others, of_others),
            },
        ));
    }
    let adjusted = holm(&all.iter().map(|shared| shared.p).collect::<Vec<_>>());
    for (shared, p) in all.iter_mut().zip(adjusted) {
        shared.p = p;
    }
    all.retain(|shared| shared.p <= error);
    all.sort_by(|a, b| a.p.total_cmp(&b.p));
    all
}

/// Probability that `slow` or more of `of_slow` nodes have a value that `slow + others` of all nodes have, if it has
/// nothing to do with being slow (hypergeometric distribution).
fn fisher(slow: u32, of_slow: u32, others: u32, of_others: u32) -> f64 {
    let (have, all) = (slow + others, of_slow + of_others);
    let log_choose = |n: u32, k: u32| -> f64 {
        (0..k).map(|i| f64::from(n - i).ln() - f64::from(k - i).ln()).sum()
    };
    let most = have.min(of_slow);
    let total = log_choose(all, of_slow);
    let of = |count: u32| {
        // the other slow nodes are among those without the value
        let rest = of_slow - count;
        if rest > all - have {
            return 0.0;
        }
        (log_choose(have, count) + log_choose(all - have, rest) - total).exp()
    };
    (slow..=most).map(of).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(firmware: &[&str]) -> Vec<NodeResult> {
        let node = |(number, firmware): (usize, &&str)| NodeResult {
            name: format!("n{number}"),
            end: String::new(),
            rack: None,
            switch: None,
            facts: BTreeMap::from([
                ("firmware".to_owned(), (*firmware).to_owned()),
                ("kernel".to_owned(), "6.18".to_owned()),
                ("serial".to_owned(), number.to_string()),
            ]),
            counters: BTreeMap::new(),
        };
        firmware.iter().enumerate().map(node).collect()
    }

    #[test]
    fn fisher_worked_by_hand() {
        // 3 of 3 slow nodes and none of 9 others: 1 of 220 choices
        assert!((fisher(3, 3, 0, 9) - 1.0 / 220.0).abs() < 1e-12);
        // the tea of a lady: 3 or more of 4 of 8 cups
        assert!((fisher(3, 4, 1, 4) - 17.0 / 70.0).abs() < 1e-12);
        assert!((fisher(0, 2, 5, 6) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_firmware_of_slow_nodes_alone_is_reported() {
        let mut firmware = ["2.0"; 16];
        for node in [1, 4, 6] {
            firmware[node] = "1.9";
        }
        let slow = BTreeSet::from([1, 4, 6]);
        let found = of(&fleet(&firmware), &slow, 0.05);
        let [shared] = &found[..] else { panic!("{found:?}") };
        assert_eq!((shared.fact.as_str(), shared.value.as_deref()), ("firmware", Some("1.9")));
        assert_eq!((shared.slow, shared.of_slow, shared.others, shared.of_others), (3, 3, 0, 13));
        // four values were compared: one of the firmware, and three serial numbers
        assert!((shared.p - 4.0 / 560.0).abs() < 1e-9, "{shared:?}");
    }

    #[test]
    fn one_slow_node_shares_nothing() {
        let mut firmware = ["2.0"; 8];
        firmware[3] = "1.9";
        assert_eq!(of(&fleet(&firmware), &BTreeSet::from([3]), 0.05), []);
    }
}
