//! Facts about the nodes of a fleet, by their names.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::executor::Facts;

/// What is known of a node's fact begins so; the node's name and the fact's follow.
const FACT: &str = "node";

/// The name of a fact about a node in [`Facts`].
pub fn fact_name(node: &str, fact: &str) -> String {
    format!("{FACT} {node} {fact}")
}

/// The name of the node that a fact is about. It has no space.
fn node_of(name: &str) -> Option<&str> {
    name.strip_prefix(FACT)?.strip_prefix(' ')?.split(' ').next()
}

/// Whether a fact is about a node of a fleet.
pub fn is_of_a_node(name: &str) -> bool {
    node_of(name).is_some()
}

/// Whether both have facts about the node that a fact is about; yes for facts about no node.
pub fn of_both(name: &str, one: &Facts, other: &Facts) -> bool {
    node_of(name).is_none_or(|node| {
        let prefix = fact_name(node, "");
        [one, other].into_iter().all(|facts| about(facts, &prefix).next().is_some())
    })
}

/// The facts about a node, by their own names.
pub(super) fn facts_of(facts: &Facts, node: &str) -> BTreeMap<String, String> {
    let prefix = fact_name(node, "");
    about(facts, &prefix).map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

/// The facts whose names begin so, by the rest of their names.
fn about<'a>(
    facts: &'a Facts,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a str, &'a String)> + 'a {
    // they are beside each other
    let from = facts.facts.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
    from.map_while(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
}
