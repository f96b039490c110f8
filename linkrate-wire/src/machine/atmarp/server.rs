//! The server of a logical IP subnet (RFC 2225, 8.4).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::{Circuit, MAX_ENTRIES, Question};
use crate::atm::AtmAddress;
use crate::control::atmarp::{AtmArp, Operation, Station};
use crate::machine::Machine;

/// How long an entry holds without news of its end system (RFC 2225, 8.4.4).
pub const AGE: Duration = Duration::from_secs(20 * 60);

/// How long the end system may take to answer when its entry has aged.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// What happens to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    /// An end system opened a connection.
    Opened(Circuit),
    /// A connection is gone.
    Closed(Circuit),
    /// A message came.
    Received {
        /// The connection that it came by.
        circuit: Circuit,
        /// The message.
        message: AtmArp,
    },
}

/// What a server wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAction {
    /// Send a message.
    Send {
        /// The connection to send it by.
        circuit: Circuit,
        /// The message.
        message: AtmArp,
    },
    /// Two end systems claim the same IP address. The first one keeps it while its connection is open.
    Conflict {
        /// The IP address.
        ip: Ipv4Addr,
        /// The end system that has it.
        holder: AtmAddress,
        /// The one that claims it too.
        other: AtmAddress,
    },
    /// An end system was not learnt, because the table is full.
    Full(Ipv4Addr),
}

/// An end system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    atm: AtmAddress,
    circuit: Circuit,
    expires: Duration,
    /// It has aged, and was asked whether it is still there.
    checking: bool,
}

/// The server.
#[derive(Debug, Clone)]
pub struct Server {
    own: Station,
    /// Open connections, with the question for their other end until it is answered.
    circuits: BTreeMap<Circuit, Option<Question>>,
    entries: BTreeMap<Ipv4Addr, Entry>,
}

impl Server {
    /// A server at this end system, which may have an IP address itself.
    #[must_use]
    pub fn new(own: Station) -> Self {
        Self { own, circuits: BTreeMap::new(), entries: BTreeMap::new() }
    }

    /// The addresses that it knows.
    pub fn entries(&self) -> impl Iterator<Item = (Ipv4Addr, AtmAddress)> + '_ {
        self.entries.iter().map(|(ip, entry)| (*ip, entry.atm))
    }

    /// The same, with the time at which each address was learnt, or confirmed last.
    pub fn known(&self) -> impl Iterator<Item = (Ipv4Addr, AtmAddress, Duration)> + '_ {
        self.entries.iter().map(|(ip, entry)| {
            let aged = if entry.checking { AGE + TIMEOUT } else { AGE };
            (*ip, entry.atm, entry.expires.saturating_sub(aged))
        })
    }

    fn find(&self, ip: Ipv4Addr) -> Option<AtmAddress> {
        if self.own.ip == Some(ip) {
            return self.own.atm;
        }
        self.entries.get(&ip).map(|entry| entry.atm)
    }

    /// Takes the addresses of the end system at the other end of a connection.
    fn learn(
        &mut self,
        now: Duration,
        circuit: Circuit,
        station: Station,
        actions: &mut Vec<ServerAction>,
    ) {
        let Station { atm: Some(atm), ip: Some(ip) } = station else { return };
        if ip.is_unspecified() || self.own.ip == Some(ip) {
            return;
        }
        let holder = self.entries.get(&ip).filter(|entry| entry.atm != atm);
        if let Some(holder) = holder.filter(|entry| self.circuits.contains_key(&entry.circuit)) {
            actions.push(ServerAction::Conflict { ip, holder: holder.atm, other: atm });
            return;
        }
        if self.entries.len() >= MAX_ENTRIES && !self.entries.contains_key(&ip) {
            actions.push(ServerAction::Full(ip));
            return;
        }
        if let Some(question) = self.circuits.get_mut(&circuit) {
            *question = None;
        }
        let entry = Entry { atm, circuit, expires: now + AGE, checking: false };
        self.entries.insert(ip, entry);
    }

    fn question(&self) -> AtmArp {
        let target = Station::default();
        AtmArp { operation: Operation::InverseRequest, source: self.own, target }
    }

    fn received(
        &mut self,
        now: Duration,
        circuit: Circuit,
        message: AtmArp,
        actions: &mut Vec<ServerAction>,
    ) {
        let mut answer = |operation, source, target| {
            let message = AtmArp { operation, source, target };
            actions.push(ServerAction::Send { circuit, message });
        };
        match message.operation {
            Operation::Request => match message.target.ip.and_then(|ip| Some((ip, self.find(ip)?)))
            {
                Some((ip, atm)) => {
                    answer(Operation::Reply, Station::new(atm, ip), message.source);
                }
                // a refusal is the request with another operation
                None => answer(Operation::Refusal, message.source, message.target),
            },
            Operation::InverseRequest => {
                answer(Operation::InverseReply, self.own, message.source);
            }
            Operation::InverseReply => {}
            // answers of other servers
            Operation::Reply | Operation::Refusal => return,
        }
        self.learn(now, circuit, message.source, actions);
    }
}

impl Machine for Server {
    type Event = ServerEvent;
    type Action = ServerAction;

    fn handle(&mut self, now: Duration, event: ServerEvent, actions: &mut Vec<ServerAction>) {
        match event {
            ServerEvent::Opened(circuit) => {
                self.circuits.insert(circuit, Some(Question::new(now)));
                actions.push(ServerAction::Send { circuit, message: self.question() });
            }
            ServerEvent::Closed(circuit) => {
                self.circuits.remove(&circuit);
            }
            ServerEvent::Received { circuit, message } => {
                if self.circuits.contains_key(&circuit) {
                    self.received(now, circuit, message, actions);
                }
            }
        }
    }

    fn due(&self) -> Option<Duration> {
        let questions = self.circuits.values().flatten().map(|question| question.again);
        questions.chain(self.entries.values().map(|entry| entry.expires)).min()
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<ServerAction>) {
        let message = self.question();
        for (circuit, question) in &mut self.circuits {
            if let Some(question) = question.as_mut().filter(|question| question.again <= now) {
                question.repeat(now);
                actions.push(ServerAction::Send { circuit: *circuit, message });
            }
        }
        let circuits = &self.circuits;
        self.entries.retain(|_, entry| {
            if entry.expires > now {
                return true;
            }
            // an entry that has aged is asked for once, while its connection is open
            let asks = !entry.checking && circuits.contains_key(&entry.circuit);
            if asks {
                entry.checking = true;
                entry.expires = now + TIMEOUT;
                actions.push(ServerAction::Send { circuit: entry.circuit, message });
            }
            asks
        });
    }
}
