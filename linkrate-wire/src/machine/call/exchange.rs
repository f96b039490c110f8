//! All calls of a network.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Call, Cause, CircuitError, Circuits, PartyAction, PartyEvent, Purpose};
use crate::atm::{AtmAddress, Connection};
use crate::machine::Machine;

/// A virtual channel connection at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortCircuit {
    /// The number of the port.
    pub port: u16,
    /// The connection.
    pub circuit: Connection,
}

/// The settings of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeConfig {
    /// How long a called party may take to answer. Q.2931 has timers of 4 s (T303) and 10 s (T310).
    pub patience: Duration,
    /// Most calls of a party, open and offered.
    pub most_calls: usize,
    /// Most addresses of a port.
    pub most_addresses: usize,
}

impl Default for ExchangeConfig {
    fn default() -> Self {
        Self { patience: Duration::from_secs(10), most_calls: 4096, most_addresses: 64 }
    }
}

/// What happens to an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeEvent {
    /// A port is there, with the highest VPI and VCI that it has. One with this number goes first.
    AddPort {
        /// Its number.
        port: u16,
        /// Its highest VPI and VCI.
        highest: Connection,
    },
    /// A port is gone, with its parties and their calls. Both parties of each call are told.
    RemovePort(u16),
    /// An end system at a port has this address. ILMI would tell it.
    Register {
        /// The port.
        port: u16,
        /// The address.
        address: AtmAddress,
    },
    /// An address is gone, with its calls. Both parties of each are told.
    Unregister(AtmAddress),
    /// A party wants something done.
    Asked {
        /// The party.
        party: AtmAddress,
        /// What it wants.
        action: PartyAction,
    },
}

/// What an exchange wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeAction {
    /// Connect two circuits, both ways.
    Open {
        /// The party that called, the name it has for the call, and its circuit.
        caller: (AtmAddress, Call, PortCircuit),
        /// The same of the party that was called.
        called: (AtmAddress, Call, PortCircuit),
    },
    /// Part the two circuits. Cells under way are lost.
    Close {
        /// The circuit of the party that called.
        caller: PortCircuit,
        /// That of the party that was called.
        called: PortCircuit,
    },
    /// Tell a party.
    Tell {
        /// The party.
        party: AtmAddress,
        /// What.
        event: PartyEvent,
    },
    /// An address was not registered.
    NotRegistered {
        /// The port that asked.
        port: u16,
        /// The address.
        address: AtmAddress,
        /// The port that has the address; `None` where the port that asked is unknown or has too many.
        holder: Option<u16>,
    },
}

/// What an exchange counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExchangeCounters {
    /// Calls that were asked for.
    pub asked: u64,
    /// Calls that were open.
    pub opened: u64,
    /// Calls that did not come about.
    pub refused: u64,
    /// Actions about a call that the party does not have.
    pub unknown: u64,
}

/// One end of a call.
#[derive(Debug, Clone, Copy)]
struct End {
    party: AtmAddress,
    call: Call,
    at: PortCircuit,
}

/// A call.
#[derive(Debug, Clone, Copy)]
struct Entry {
    caller: End,
    called: End,
    /// When the called party must have answered; `None` once it has.
    answer: Option<Duration>,
}

/// The calls of a network: it finds the party that is called, gives both ends a circuit, and clears
/// what is over.
#[derive(Debug, Clone)]
pub struct Exchange {
    config: ExchangeConfig,
    ports: BTreeMap<u16, Circuits>,
    parties: BTreeMap<AtmAddress, u16>,
    calls: BTreeMap<u32, Entry>,
    /// The number of the call that a party names so.
    names: BTreeMap<(AtmAddress, Call), u32>,
    /// Permanent connections, by their first end.
    permanent: BTreeMap<PortCircuit, PortCircuit>,
    next: u32,
    counters: ExchangeCounters,
}

impl Exchange {
    /// An exchange without ports.
    #[must_use]
    pub const fn new(config: ExchangeConfig) -> Self {
        Self {
            config,
            ports: BTreeMap::new(),
            parties: BTreeMap::new(),
            calls: BTreeMap::new(),
            names: BTreeMap::new(),
            permanent: BTreeMap::new(),
            next: 0,
            counters: ExchangeCounters { asked: 0, opened: 0, refused: 0, unknown: 0 },
        }
    }

    /// What it has counted.
    #[must_use]
    pub const fn counters(&self) -> ExchangeCounters {
        self.counters
    }

    /// The calls that are open: both parties, their circuits.
    pub fn open(&self) -> impl Iterator<Item = [(AtmAddress, PortCircuit); 2]> + '_ {
        let open = self.calls.values().filter(|entry| entry.answer.is_none());
        open.map(|Entry { caller, called, .. }| {
            [(caller.party, caller.at), (called.party, called.at)]
        })
    }

    /// The addresses and their ports.
    pub fn parties(&self) -> impl Iterator<Item = (AtmAddress, u16)> + '_ {
        self.parties.iter().map(|(address, port)| (*address, *port))
    }

    /// Takes the circuits of a permanent connection. Fails if one of them is reserved, beyond its port, or in use,
    /// and with `None` if a port is unknown. Neither is taken then.
    pub fn permanent(&mut self, ends: [PortCircuit; 2]) -> Result<(), Option<CircuitError>> {
        let [first, second] = ends;
        for end in ends {
            self.ports.get(&end.port).ok_or(None)?;
        }
        let taken = |exchange: &mut Self, end: PortCircuit| {
            exchange.ports.get_mut(&end.port).map_or(Ok(()), |port| port.take(end.circuit))
        };
        taken(self, first)?;
        if let Err(error) = taken(self, second) {
            self.free(first);
            return Err(Some(error));
        }
        self.permanent.insert(first, second);
        Ok(())
    }

    /// Gives the circuits of a permanent connection back. Says whether there is such a connection.
    pub fn remove_permanent(&mut self, ends: [PortCircuit; 2]) -> bool {
        let found = self.permanent.get(&ends[0]) == Some(&ends[1]);
        if found {
            self.permanent.remove(&ends[0]);
            ends.into_iter().for_each(|end| self.free(end));
        }
        found
    }

    fn free(&mut self, end: PortCircuit) {
        if let Some(port) = self.ports.get_mut(&end.port) {
            port.free(end.circuit);
        }
    }

    fn calls_of(&self, party: AtmAddress) -> impl Iterator<Item = u32> + '_ {
        let first = (party, Call::outgoing(0));
        let last = (party, Call::incoming(u32::MAX));
        self.names.range(first..=last).map(|(_, number)| *number)
    }

    fn register(&mut self, port: u16, address: AtmAddress, actions: &mut Vec<ExchangeAction>) {
        let holder = self.parties.get(&address).copied();
        let addresses = self.parties.values().filter(|other| **other == port).count();
        let is_free = holder.is_none() && addresses < self.config.most_addresses;
        if self.ports.contains_key(&port) && is_free {
            self.parties.insert(address, port);
        } else if holder != Some(port) {
            actions.push(ExchangeAction::NotRegistered { port, address, holder });
        }
    }

    fn unregister(&mut self, address: AtmAddress, actions: &mut Vec<ExchangeAction>) {
        self.parties.remove(&address);
        for number in self.calls_of(address).collect::<Vec<_>>() {
            self.clear(number, None, Cause::OutOfOrder, actions);
        }
    }

    fn remove_port(&mut self, port: u16, actions: &mut Vec<ExchangeAction>) {
        let gone: Vec<AtmAddress> =
            self.parties().filter(|(_, at)| *at == port).map(|(address, _)| address).collect();
        gone.into_iter().for_each(|address| self.unregister(address, actions));
        self.ports.remove(&port);
        let lost: Vec<[PortCircuit; 2]> = self
            .permanent
            .iter()
            .map(|(first, second)| [*first, *second])
            .filter(|ends| ends.iter().any(|end| end.port == port))
            .collect();
        lost.into_iter().for_each(|ends| _ = self.remove_permanent(ends));
    }

    fn asked(
        &mut self,
        now: Duration,
        party: AtmAddress,
        action: PartyAction,
        actions: &mut Vec<ExchangeAction>,
    ) {
        match action {
            PartyAction::SetUp { call, to, purpose } => {
                self.counters.asked += 1;
                if let Err(cause) = self.set_up(now, (party, call), to, purpose, actions) {
                    self.counters.refused += 1;
                    let event = PartyEvent::Released { call, cause };
                    actions.push(ExchangeAction::Tell { party, event });
                }
            }
            PartyAction::Accept(call) => self.accept(party, call, actions),
            PartyAction::Release { call, cause } => match self.names.get(&(party, call)) {
                Some(number) => self.clear(*number, Some(party), cause, actions),
                None => self.counters.unknown += 1,
            },
        }
    }

    fn set_up(
        &mut self,
        now: Duration,
        (party, call): (AtmAddress, Call),
        to: AtmAddress,
        purpose: Purpose,
        actions: &mut Vec<ExchangeAction>,
    ) -> Result<(), Cause> {
        let port = *self.parties.get(&party).ok_or(Cause::OutOfOrder)?;
        if call.is_incoming || self.names.contains_key(&(party, call)) {
            return Err(Cause::CallNumber);
        }
        let other_port = *self.parties.get(&to).ok_or(Cause::NoSuchAddress)?;
        if self.calls_of(party).count() >= self.config.most_calls {
            return Err(Cause::TooManyCalls);
        }
        if to == party || self.calls_of(to).count() >= self.config.most_calls {
            return Err(Cause::Busy);
        }
        let circuit = self.allocate(port).ok_or(Cause::NoCircuit)?;
        let caller = End { party, call, at: PortCircuit { port, circuit } };
        let Some(circuit) = self.allocate(other_port) else {
            self.free(caller.at);
            return Err(Cause::NoCircuit);
        };
        while self.calls.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        let called = Call::incoming(number);
        let at = PortCircuit { port: other_port, circuit };
        let called = End { party: to, call: called, at };
        self.names.insert((party, call), number);
        self.names.insert((to, called.call), number);
        let answer = Some(now + self.config.patience);
        self.calls.insert(number, Entry { caller, called, answer });
        let event = PartyEvent::Offered { call: called.call, from: party, purpose };
        actions.push(ExchangeAction::Tell { party: to, event });
        Ok(())
    }

    fn allocate(&mut self, port: u16) -> Option<Connection> {
        self.ports.get_mut(&port)?.allocate()
    }

    fn accept(&mut self, party: AtmAddress, call: Call, actions: &mut Vec<ExchangeAction>) {
        let number = self.names.get(&(party, call)).filter(|_| call.is_incoming);
        let entry = number.and_then(|number| self.calls.get_mut(number));
        let Some(entry) = entry.filter(|entry| entry.answer.is_some()) else {
            self.counters.unknown += 1;
            return;
        };
        entry.answer = None;
        self.counters.opened += 1;
        let Entry { caller, called, .. } = *entry;
        let end = |end: End| (end.party, end.call, end.at);
        actions.push(ExchangeAction::Open { caller: end(caller), called: end(called) });
        let event = PartyEvent::Connected(caller.call);
        actions.push(ExchangeAction::Tell { party: caller.party, event });
    }

    /// A call is over. The party that ended it is not told.
    fn clear(
        &mut self,
        number: u32,
        by: Option<AtmAddress>,
        cause: Cause,
        actions: &mut Vec<ExchangeAction>,
    ) {
        let Some(Entry { caller, called, answer }) = self.calls.remove(&number) else { return };
        match answer {
            None => {
                let (caller, called) = (caller.at, called.at);
                actions.push(ExchangeAction::Close { caller, called });
            }
            Some(_) => self.counters.refused += 1,
        }
        for End { party, call, at } in [caller, called] {
            self.names.remove(&(party, call));
            self.free(at);
            if by != Some(party) {
                let event = PartyEvent::Released { call, cause };
                actions.push(ExchangeAction::Tell { party, event });
            }
        }
    }
}

impl Machine for Exchange {
    type Event = ExchangeEvent;
    type Action = ExchangeAction;

    fn handle(&mut self, now: Duration, event: ExchangeEvent, actions: &mut Vec<ExchangeAction>) {
        match event {
            ExchangeEvent::AddPort { port, highest } => {
                self.remove_port(port, actions);
                self.ports.insert(port, Circuits::new(highest));
            }
            ExchangeEvent::RemovePort(port) => self.remove_port(port, actions),
            ExchangeEvent::Register { port, address } => self.register(port, address, actions),
            ExchangeEvent::Unregister(address) => self.unregister(address, actions),
            ExchangeEvent::Asked { party, action } => self.asked(now, party, action, actions),
        }
    }

    fn due(&self) -> Option<Duration> {
        self.calls.values().filter_map(|entry| entry.answer).min()
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<ExchangeAction>) {
        let is_late = |entry: &Entry| entry.answer.is_some_and(|answer| answer <= now);
        let late: Vec<u32> =
            self.calls.iter().filter(|(_, entry)| is_late(entry)).map(|(at, _)| *at).collect();
        for number in late {
            self.clear(number, None, Cause::NoAnswer, actions);
        }
    }
}
