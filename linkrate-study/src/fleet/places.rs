//! The places of a fleet, and which node has each: a study may continue with other nodes.
//!
//! Patterns, rounds and the order of turns are about *places*. A place belongs to the node that the study began
//! with ([`Fleet::nodes`]), until another one takes it. Nodes keep their numbers for ever, and stored runs
//! have those of the nodes that took part.

use std::collections::BTreeSet;
use std::fmt;

use linkrate_model::Peer;
use serde::{Deserialize, Serialize};

use super::{Fleet, Node, Pair};

/// Most changes of places in a study.
const MAX_MOVES: usize = 4096;

/// A node takes the place of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Move {
    /// The place: the number of the node that the study began with there.
    pub place: u32,
    /// The number of the node.
    pub node: u32,
    /// The number of the first run with it.
    pub from_run: u32,
}

/// A change of places for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A node takes the place of another one.
    Replaced { before: String, now: String },
    /// A node is not there, and nor is another one for its place.
    Vacant { node: String },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replaced { before, now } => write!(f, "node {now} takes the place of {before}"),
            Self::Vacant { node } => {
                write!(f, "node {node} is not there, and no other node can take its place")
            }
        }
    }
}

/// A node that may take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidate {
    /// A node of a list.
    Listed(Node),
    /// A node of an allocation. Its interface is that of the place it takes.
    Allocated {
        /// Its name, in Slurm and in results.
        name: String,
    },
}

impl Candidate {
    fn name(&self) -> &str {
        match self {
            Self::Listed(node) => &node.name,
            Self::Allocated { name } => name,
        }
    }

    /// The node at the place of `before`.
    fn in_place_of(&self, before: &Node) -> Node {
        match self {
            Self::Listed(node) => node.clone(),
            Self::Allocated { name } => Node {
                name: name.clone(),
                end: Peer::Slurm { node: name.clone(), address: None },
                interface: before.interface.clone(),
                rack: None,
                switch: None,
            },
        }
    }
}

impl Fleet {
    /// All nodes by their numbers: those that the study began with, and those that came later.
    pub fn all_nodes(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.iter().chain(&self.replacements)
    }

    /// How many nodes there have been.
    pub fn count(&self) -> u32 {
        u32::try_from(self.nodes.len() + self.replacements.len()).unwrap_or(u32::MAX)
    }

    pub fn node(&self, number: u32) -> Option<&Node> {
        let number = number as usize;
        self.nodes
            .get(number)
            .or_else(|| self.replacements.get(number.checked_sub(self.nodes.len())?))
    }

    /// The node at each place when a run was made, by numbers.
    pub fn at_places(&self, run: u32) -> Vec<u32> {
        let mut nodes: Vec<u32> = (0..).zip(&self.nodes).map(|(number, _)| number).collect();
        for one in self.moves.iter().take_while(|one| one.from_run <= run) {
            if let Some(node) = nodes.get_mut(one.place as usize) {
                *node = one.node;
            }
        }
        nodes
    }

    /// The node at each place now.
    pub fn now_at_places(&self) -> Vec<u32> {
        self.at_places(u32::MAX)
    }

    /// The nodes that take part now, in the order of their places.
    pub fn nodes_now(&self) -> Vec<&Node> {
        self.now_at_places().into_iter().filter_map(|number| self.node(number)).collect()
    }

    /// The nodes at all times: at the begin, and after each change.
    pub fn times(&self) -> Vec<Vec<u32>> {
        let begins: BTreeSet<u32> =
            std::iter::once(0).chain(self.moves.iter().map(|one| one.from_run)).collect();
        begins.into_iter().map(|run| self.at_places(run)).collect()
    }

    /// The nodes that have been at these places, in the order of their numbers.
    pub fn ever_at(&self, places: &[u32]) -> Vec<u32> {
        let later = self.moves.iter().filter(|one| places.contains(&one.place));
        let nodes: BTreeSet<u32> =
            places.iter().copied().chain(later.map(|one| one.node)).collect();
        nodes.into_iter().collect()
    }

    /// What has changed, each as a sentence.
    pub fn changes(&self) -> Vec<String> {
        let change = |(index, one): (usize, &Move)| {
            let earlier = self.moves[..index].iter().rfind(|other| other.place == one.place);
            let before = earlier.map_or(one.place, |other| other.node);
            format!(
                "from run {} on, {} has the place of {}",
                one.from_run,
                self.name(one.node),
                self.name(before)
            )
        };
        self.moves.iter().enumerate().map(change).collect()
    }

    /// Whether a node had its place for the whole study.
    pub fn has_stayed(&self, number: u32) -> bool {
        (number as usize) < self.nodes.len()
            && !self.moves.iter().any(|one| one.place == number || one.node == number)
    }

    /// The nodes that can take part where `allocated` names those of an allocation of Slurm: these, and all nodes that
    /// are reached without it. `None` of a fleet that does not need it.
    pub fn present_in(&self, allocated: &[String]) -> Option<Vec<Candidate>> {
        let is_of_slurm = |node: &&Node| matches!(node.end, Peer::Slurm { .. });
        let now = self.nodes_now();
        if !now.iter().any(is_of_slurm) {
            return None;
        }
        let others = now.into_iter().filter(|node| !is_of_slurm(node)).cloned();
        let of_slurm = allocated.iter().map(|name| {
            let is_it =
                |node: &&Node| matches!(&node.end, Peer::Slurm { node, .. } if node == name);
            match self.all_nodes().find(is_it) {
                Some(known) => Candidate::Listed(known.clone()),
                None => Candidate::Allocated { name: name.clone() },
            }
        });
        Some(others.map(Candidate::Listed).chain(of_slurm).collect())
    }

    /// Gives the places of nodes that are not among `present` to others of these, from run `next_run` on. `None` for
    /// the fleet if nothing changes. Fails for too many changes, and if a node that the study has already is listed
    /// with another interface or way.
    pub fn moved(
        &self,
        present: &[Candidate],
        next_run: u32,
    ) -> Result<(Option<Self>, Vec<Change>), String> {
        let now = self.now_at_places();
        let is_present = |number: u32| present.iter().any(|one| one.name() == self.name(number));
        let names: Vec<&str> = now.iter().map(|number| self.name(*number)).collect();
        let mut free = present.iter().filter(|one| !names.contains(&one.name()));
        let (mut moved, mut changes) = (self.clone(), Vec::new());
        for (place, before) in (0..).zip(&now).filter(|(_, number)| !is_present(**number)) {
            let name = self.name(*before).to_owned();
            let (Some(next), Some(node_before)) = (free.next(), self.node(*before)) else {
                changes.push(Change::Vacant { node: name });
                continue;
            };
            changes.push(Change::Replaced { before: name, now: next.name().to_owned() });
            let node = moved.number_of(next.in_place_of(node_before))?;
            moved.moves.push(Move { place, node, from_run: next_run });
        }
        if moved.moves.len() == self.moves.len() {
            return Ok((None, changes));
        }
        moved.check()?;
        Ok((Some(moved), changes))
    }

    /// The number of a node, which is a new one unless it took part already.
    fn number_of(&mut self, node: Node) -> Result<u32, String> {
        let known = (0..).zip(self.all_nodes()).find(|(_, known)| known.name == node.name);
        match known {
            None => {
                self.replacements.push(node);
                Ok(self.count() - 1)
            }
            Some((number, known))
                if (&known.end, &known.interface) == (&node.end, &node.interface) =>
            {
                Ok(number)
            }
            Some((_, known)) => Err(format!(
                "node {} is {} {}, and the study has it as {} {}",
                node.name, node.end, node.interface, known.end, known.interface
            )),
        }
    }

    /// Checks what others rely on: places and nodes that exist, and one node at each place.
    pub(super) fn check_places(&self) -> Result<(), String> {
        let count = self.moves.len();
        if count > MAX_MOVES || self.replacements.len() > count {
            return Err(format!(
                "{count} changes of places and {} nodes that came later, expected at most {MAX_MOVES} changes, and \
                 one for each node",
                self.replacements.len()
            ));
        }
        let exist = |one: &Move| (one.place as usize) < self.nodes.len() && one.node < self.count();
        let in_order = self.moves.is_sorted_by_key(|one| one.from_run);
        if !in_order || !self.moves.iter().all(exist) {
            return Err("a change of places without such a place or node".to_owned());
        }
        for nodes in self.times() {
            if nodes.iter().collect::<BTreeSet<_>>().len() < nodes.len() {
                return Err("a node has two places at the same time".to_owned());
            }
        }
        Ok(())
    }
}

/// The pair of the nodes that have the places of `pair`.
pub(super) fn at(nodes: &[u32], pair: Pair) -> Pair {
    let node = |place: u32| nodes.get(place as usize).copied().unwrap_or(place);
    Pair { sender: node(pair.sender), receiver: node(pair.receiver), round: pair.round }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Pattern;
    use crate::fleet::rounds::tests::fleet;

    /// Nodes of a list, or of an allocation.
    fn present(fleet: &Fleet, names: &[&str]) -> Vec<Candidate> {
        let one = |name: &&str| match fleet.all_nodes().find(|node| node.name == *name) {
            Some(known) => Candidate::Listed(known.clone()),
            None => Candidate::Allocated { name: (*name).to_owned() },
        };
        names.iter().map(one).collect()
    }

    fn moved(fleet: &Fleet, names: &[&str], next_run: u32) -> (Fleet, Vec<Change>) {
        let (moved, changes) = fleet.moved(&present(fleet, names), next_run).unwrap();
        (moved.expect("a change"), changes)
    }

    #[test]
    fn other_nodes_take_the_places_of_absent_ones_and_keep_their_numbers() {
        let began = fleet(4, Pattern::AllPairs);
        let (one, changes) = moved(&began, &["n0", "x", "n2", "y"], 10);
        let replaced = |before: &str, now: &str| Change::Replaced {
            before: before.to_owned(),
            now: now.to_owned(),
        };
        assert_eq!(changes, [replaced("n1", "x"), replaced("n3", "y")]);
        assert_eq!((one.at_places(9), one.at_places(10)), (vec![0, 1, 2, 3], vec![0, 4, 2, 5]));
        assert_eq!((one.name(4), one.name(5), one.count()), ("x", "y", 6));
        assert_eq!(one.node(4).unwrap().interface, began.nodes[1].interface);
        // n1 comes back, at the place that is free now
        let (two, changes) = moved(&one, &["n0", "n1", "n2", "x"], 20);
        assert_eq!(changes, [replaced("y", "n1")]);
        assert_eq!(two.now_at_places(), [0, 4, 2, 1]);
        assert_eq!(two.times().len(), 3);
        assert_eq!(two.ever_at(&[1, 3]), [1, 3, 4, 5]);
        let stayed: Vec<u32> = (0..two.count()).filter(|node| two.has_stayed(*node)).collect();
        assert_eq!(stayed, [0, 2]);
    }

    #[test]
    fn the_same_nodes_change_nothing_and_too_few_leave_a_place_vacant() {
        let began = fleet(4, Pattern::Ring);
        let all = present(&began, &["n3", "n2", "n1", "n0", "spare"]);
        assert_eq!(began.moved(&all, 5), Ok((None, Vec::new())));
        let (none, changes) = began.moved(&present(&began, &["n0", "n1", "n2"]), 5).unwrap();
        assert_eq!((none, changes), (None, vec![Change::Vacant { node: "n3".to_owned() }]));
    }

    #[test]
    fn an_allocation_has_its_nodes_and_those_that_need_none() {
        let mut began = fleet(3, Pattern::Ring);
        assert_eq!(began.present_in(&["n1".to_owned()]), None, "all are reached by ssh");
        began.nodes[1].end = "slurm:c17,10.0.0.17".parse().unwrap();
        began.nodes[2].end = "slurm:c18".parse().unwrap();
        let present = began.present_in(&["c17", "c40"].map(str::to_owned)).unwrap();
        let (moved, changes) = began.moved(&present, 4).unwrap();
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(changes[0].to_string(), "node c40 takes the place of n2");
        let moved = moved.unwrap();
        assert_eq!(moved.now_at_places(), [0, 1, 3]);
        assert_eq!(moved.node(3).unwrap().end.to_string(), "slurm:c40");
        assert_eq!(moved.changes(), ["from run 4 on, c40 has the place of n2"]);
    }

    #[test]
    fn a_known_node_by_another_way_is_refused() {
        let (one, _) = moved(&fleet(3, Pattern::Ring), &["n0", "n1", "x"], 1);
        let mut other = one.nodes[2].clone();
        other.interface = "eth9".to_owned();
        let listed =
            [&one.nodes[0], &one.nodes[1], &other].map(|node| Candidate::Listed(node.clone()));
        let error = one.moved(&listed, 2).unwrap_err();
        assert!(error.contains("node n2 is ssh:n2 eth9, and the study has it as"), "{error}");
    }

    #[test]
    fn damaged_places_are_refused() {
        let (good, _) = moved(&fleet(4, Pattern::Ring), &["n0", "n1", "n2", "x"], 3);
        assert_eq!(good.check(), Ok(()));
        type Damage = fn(&mut Fleet);
        let damages: [(&str, Damage); 5] = [
            ("without such a place", |fleet| fleet.moves[0].place = 4),
            ("without such a place", |fleet| fleet.moves[0].node = 5),
            ("two places", |fleet| fleet.moves[0].node = 1),
            ("one for each node", |fleet| fleet.moves.clear()),
            ("named twice", |fleet| fleet.replacements[0].name = "n1".to_owned()),
        ];
        for (part, damage) in damages {
            let mut fleet = good.clone();
            damage(&mut fleet);
            let error = fleet.check().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
