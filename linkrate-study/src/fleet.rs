//! Studies over many hosts: each run is one of a pair of nodes, and the question is which node, which
//! direction or which pair stands out.
//!
//! A *turn* makes the runs of all cells between one sender and one receiver, so that effects stay paired. A
//! *round* has turns that share no node and run at the same time. A block has every turn once, its
//! rounds in random order. To the statistics of cells and effects a turn is what a block is to a study of
//! one pair: [`StoredRun::block`](crate::store::StoredRun::block) counts turns.
//!
//! - [`hosts`]: the list of nodes as a user writes it
//! - [`places`]: other nodes in place of those that the study began with
//! - [`missing_nodes`]: turns that continued without a node
//! - [`rounds`]: who is measured with whom, and when
//! - [`runner`]: turns side by side, each run stored the moment it ends; nodes that are lost
//! - [`two_way`]: sender, receiver and pair as effects, and those that stand out
//! - [`hubs`]: figures where one node is in the middle, and all others work at the same time
//! - [`results`]: matrices and names, from the stored runs alone

use std::collections::HashSet;

use linkrate_model::interfaces::{InterfacesError, PEER_SERVER};
use linkrate_model::{Interfaces, Peer};
use serde::{Deserialize, Serialize};

pub mod facts;
pub mod hosts;
pub mod hubs;
pub mod missing_nodes;
mod pairs;
pub mod places;
pub mod ports;
pub mod results;
pub mod rounds;
pub mod runner;
pub mod shared;
pub mod two_way;

pub use places::Move;
pub use rounds::{Hub, Pattern};

use crate::bounds::MAX_CLIENTS;

/// Most nodes of a fleet.
pub const MAX_NODES: usize = 1024;

/// Nodes that are asked at the same time: each needs a thread and a process of this machine.
pub const ASKED_AT_ONCE: usize = 64;

/// A host of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Node {
    /// Its name in results.
    pub name: String,
    /// How its agent is reached, and the address that others send to if that was given.
    pub end: Peer,
    /// The interface that is measured.
    pub interface: String,
    /// Its rack, if that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// Its switch, if that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
}

/// Nodes that take the place of those of a study file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub nodes: Vec<Node>,
    /// The pattern, if that of the study file is not to be taken.
    pub pattern: Option<Pattern>,
}

/// The nodes of a study, and who is measured with whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Fleet {
    /// The nodes, in the order of switch and rack, and otherwise as they were listed.
    pub nodes: Vec<Node>,
    /// Who is measured with whom.
    pub pattern: Pattern,
    /// Most pairs at once; they never share a node.
    pub at_once: u32,
    /// The places in the middle, of a pattern that has one; empty for each in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hubs: Vec<u32>,
    /// The linkrate program of the nodes: a path, or a name in the search path there.
    pub program: String,
    /// Nodes that came later. Their numbers follow those of `nodes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replacements: Vec<Node>,
    /// Nodes that took the places of others, in the order of their first runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
}

/// A sender and a receiver, by the numbers of their nodes. With a pattern that has a node in the middle
/// ([`Pattern::hub`]), both are this node, and all other nodes are its peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pair {
    /// The system under test, which sends unless the workload's direction says otherwise.
    pub sender: u32,
    /// Its peer.
    pub receiver: u32,
    /// The round, from 0, as [`rounds::rounds`] numbers them.
    pub round: u32,
}

impl Fleet {
    /// A fleet of these nodes, sorted by switch and rack, with all-pairs and as many pairs at once as there can
    /// be.
    pub fn of(mut nodes: Vec<Node>) -> Self {
        nodes.sort_by(|a, b| (&a.switch, &a.rack).cmp(&(&b.switch, &b.rack)));
        let at_once = u32::try_from(nodes.len() / 2).unwrap_or(u32::MAX).max(1);
        Self {
            nodes,
            pattern: Pattern::default(),
            at_once,
            hubs: Vec::new(),
            program: PEER_SERVER.to_owned(),
            replacements: Vec::new(),
            moves: Vec::new(),
        }
    }

    /// The interfaces of the testbed of a pair; fails for nodes that the fleet does not have. `absent` nodes are none
    /// of the clients of a node in the middle.
    pub fn interfaces(&self, pair: &Pair, absent: &[u32]) -> Result<Interfaces, InterfacesError> {
        let (Some(sender), Some(receiver)) = (self.node(pair.sender), self.node(pair.receiver))
        else {
            return Err(InterfacesError::NoClient);
        };
        let names = vec![sender.interface.clone()];
        let program = Some(self.program.clone());
        let ends = match self.pattern.hub() {
            None => vec![receiver.end.clone()],
            Some(_) => {
                let around = self.around(pair.sender, u32::MAX, absent).into_iter();
                around.filter_map(|number| Some(self.node(number)?.end.clone())).collect()
            }
        };
        let on = Interfaces::new(names, ends, program)?;
        Ok(on.at(sender.end.clone()))
    }

    /// The places in the middle, each in turn, of a pattern that has one.
    pub fn in_the_middle(&self) -> Vec<u32> {
        match self.hubs.is_empty() {
            true => (0..).zip(&self.nodes).map(|(number, _)| number).collect(),
            false => self.hubs.clone(),
        }
    }

    /// A pair whose testbed is like those of all others, on which cells are checked.
    pub fn first_pair(&self) -> Pair {
        let (sender, receiver) = match self.pattern.hub() {
            None => (0, 1),
            Some(_) => {
                let hub = self.hubs.first().copied().unwrap_or_default();
                (hub, hub)
            }
        };
        places::at(&self.now_at_places(), Pair { sender, receiver, round: 0 })
    }

    /// All nodes except the one in the middle and those that were absent when a run was made, in the order of the
    /// clients of its testbed.
    pub fn around(&self, hub: u32, run: u32, absent: &[u32]) -> Vec<u32> {
        let mut nodes = self.at_places(run);
        nodes.retain(|number| *number != hub && !absent.contains(number));
        nodes
    }

    /// The nodes that take part in the turn of a pair now.
    pub fn nodes_of(&self, pair: &Pair) -> Vec<u32> {
        match self.pattern.hub() {
            None => vec![pair.sender, pair.receiver],
            Some(_) => self.now_at_places(),
        }
    }

    /// Sender and receiver of a turn, for people.
    pub fn ends(&self, pair: &Pair) -> (&str, &str) {
        const OTHERS: &str = "all others";
        match self.pattern.hub() {
            None => (self.name(pair.sender), self.name(pair.receiver)),
            Some(Hub::Receives) => (OTHERS, self.name(pair.receiver)),
            Some(Hub::Sends) => (self.name(pair.sender), OTHERS),
        }
    }

    pub fn name(&self, number: u32) -> &str {
        self.node(number).map_or("?", |node| node.name.as_str())
    }

    /// Turns of a block.
    pub fn turns(&self) -> u32 {
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        match self.pattern {
            Pattern::AllPairs => nodes.saturating_mul(nodes.saturating_sub(1)),
            Pattern::Ring | Pattern::Bisection => nodes,
            Pattern::Incast | Pattern::OneToMany => {
                u32::try_from(self.in_the_middle().len()).unwrap_or(u32::MAX)
            }
        }
    }

    /// Checks everything that runner and statistics rely on; the error has the value, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        let count = self.nodes.len();
        if !(2..=MAX_NODES).contains(&count) {
            return Err(format!("{count} nodes, expected 2 to {MAX_NODES}"));
        }
        if self.pattern == Pattern::Bisection && !count.is_multiple_of(2) {
            return Err(format!("bisection of {count} nodes, expected an even number"));
        }
        self.check_hubs()?;
        let most = if self.pattern.hub().is_some() { 1 } else { count / 2 };
        if !(1..=most).contains(&(self.at_once as usize)) {
            return Err(format!("{} pairs at once, expected 1 to {most}", self.at_once));
        }
        let mut names = HashSet::new();
        for node in self.all_nodes() {
            node.check()?;
            if !names.insert(&node.name) {
                return Err(format!("node {} is named twice", node.name));
            }
        }
        self.check_places()?;
        self.interfaces(&self.first_pair(), &[]).map(|_| ()).map_err(|error| error.to_string())
    }

    fn check_hubs(&self) -> Result<(), String> {
        let (count, word) = (self.nodes.len(), self.pattern.word());
        if self.pattern.hub().is_none() {
            return match self.hubs.len() {
                0 => Ok(()),
                _ => Err(format!("hubs with pattern {word}, which has none")),
            };
        }
        let most = MAX_CLIENTS as usize + 1;
        if !(3..=most).contains(&count) {
            return Err(format!("{word} of {count} nodes, expected 3 to {most}"));
        }
        let twice = |index: usize, hub: &u32| self.hubs[..index].contains(hub);
        let wrong = |(index, hub): (usize, &u32)| *hub as usize >= count || twice(index, hub);
        match self.hubs.iter().enumerate().any(wrong) {
            true => Err("the hub is listed twice, or is not in the list of nodes".to_owned()),
            false => Ok(()),
        }
    }
}

impl Node {
    fn check(&self) -> Result<(), String> {
        for word in
            [Some(&self.name), self.rack.as_ref(), self.switch.as_ref()].into_iter().flatten()
        {
            if !hosts::is_word(word) {
                return Err(format!("{word:?} is not {}", hosts::WORD_EXPECTED));
            }
        }
        if !linkrate_model::interfaces::is_interface_name(&self.interface) {
            return Err(format!("{:?} is not an interface name", self.interface));
        }
        if !self.end.is_agent_elsewhere() || self.end.is_command() {
            return Err(format!(
                "node {} is reached by {}, {}",
                self.name,
                self.end,
                hosts::END_EXPECTED
            ));
        }
        Ok(())
    }
}
