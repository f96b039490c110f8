//! The calls through an ATM switch, and the servers of emulated LANs in it.
//!
//! The [`Exchange`] decides about calls. An open call between two ports is a connection as permanent
//! ones are. One to a server ends in the switch: its cells are put together here, and the server's
//! units leave by the queue of the port.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use linkrate_wire::atm::cell::{self, Cell, Header, Headers};
use linkrate_wire::atm::{AtmAddress, Connection, Defect};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::call::{
    Call, Cause, Exchange, ExchangeAction, ExchangeConfig, ExchangeEvent, PartyAction, PartyEvent,
    PortCircuit,
};
use linkrate_wire::machine::lane::ServerEvent;

use super::atmarp::ArpServer;
use super::servers::{self, ElanSpec, Server};
use super::{AtmSwitch, HIGHEST, ServerRequest, UnitState};
use crate::atm::assembly::{Assembly, Received};
use crate::atm::{ArpShared, server_address};
use crate::cells::Run;
use crate::clock::earlier;
use crate::counters::ElanCounters;
use crate::fabric::End;
use crate::lane_unit::LaneUnit;
use crate::pdu::Signal;

/// The port of the exchange that all servers are at: no link leads there.
const SERVERS: u16 = u16::MAX;

/// The same of the servers, which have a connection to each client.
const HIGHEST_OF_SERVERS: Connection = Connection { vpi: 255, vci: u16::MAX };

/// A connection that ends at a server.
#[derive(Debug)]
struct Taken {
    server: AtmAddress,
    call: Call,
    assembly: Assembly,
}

/// The way of a server's units.
#[derive(Debug)]
struct Back {
    port: usize,
    headers: Headers,
    unit: UnitState,
}

#[derive(Debug)]
pub(super) struct Calls {
    elans: Vec<ElanSpec>,
    exchange: Exchange,
    servers: BTreeMap<AtmAddress, Server>,
    counters: Arc<ElanCounters>,
    /// What others may know of its ATMARP server, if it has one.
    atmarp: Option<Arc<ArpShared>>,
    /// Ports with a carrier.
    up: BTreeSet<usize>,
    permanent: Vec<[End; 2]>,
    taken: HashMap<End, Taken>,
    backs: BTreeMap<(AtmAddress, Call), Back>,
    now_ps: u64,
}

impl Calls {
    /// For a switch with these ports and ELANs.
    pub(super) fn new(
        elans: Vec<ElanSpec>,
        counters: Arc<ElanCounters>,
        ports: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut calls = Self {
            exchange: Exchange::new(ExchangeConfig::default()),
            servers: servers::make(&elans).into_iter().collect(),
            elans,
            counters,
            atmarp: None,
            up: BTreeSet::new(),
            permanent: Vec::new(),
            taken: HashMap::new(),
            backs: BTreeMap::new(),
            now_ps: 0,
        };
        let mut none = Vec::new();
        let now = calls.now();
        let port = SERVERS;
        let event = ExchangeEvent::AddPort { port, highest: HIGHEST_OF_SERVERS };
        calls.exchange.handle(now, event, &mut none);
        for address in calls.servers.keys().copied() {
            calls.exchange.handle(now, ExchangeEvent::Register { port, address }, &mut none);
        }
        ports.into_iter().for_each(|port| calls.add(port));
        calls
    }

    /// The same switch with the same ports, without a memory of what was.
    pub(super) fn anew(self) -> Self {
        let Self { elans, counters, atmarp, up, permanent, now_ps, .. } = self;
        let mut anew = Self { now_ps, ..Self::new(elans, counters, up) };
        atmarp.into_iter().for_each(|shared| anew.serve_addresses(shared));
        permanent.into_iter().for_each(|ends| _ = anew.permanent(ends));
        anew
    }

    pub(super) fn serve_addresses(&mut self, shared: Arc<ArpShared>) {
        shared.show(std::iter::empty());
        let (port, address) = (SERVERS, server_address());
        let server = ArpServer::new(Arc::clone(&shared));
        self.servers.insert(address, Server::Atmarp(Box::new(server)));
        self.atmarp = Some(shared);
        let now = self.now();
        self.exchange.handle(now, ExchangeEvent::Register { port, address }, &mut Vec::new());
    }

    /// A port has a carrier.
    pub(super) fn add(&mut self, port: usize) {
        if self.up.insert(port) {
            let event = ExchangeEvent::AddPort { port: port as u16, highest: HIGHEST };
            self.exchange.handle(self.now(), event, &mut Vec::new());
            // the exchange has forgotten them with the carrier
            for ends in self.permanent.iter().filter(|ends| ends.iter().any(|end| end.0 == port)) {
                // without a carrier at the other end, that end brings them back
                let _ = self.exchange.permanent(ends.map(circuit));
            }
        }
    }

    /// A port is gone for good, with its permanent connections.
    pub(super) fn forget(&mut self, port: usize) {
        self.permanent.retain(|ends| ends.iter().all(|end| end.0 != port));
    }

    /// Takes the circuits of a permanent connection. False if one of them is reserved or in use.
    pub(super) fn permanent(&mut self, ends: [End; 2]) -> bool {
        let is_free = self.exchange.permanent(ends.map(circuit)).is_ok();
        if is_free {
            self.permanent.push(ends);
        }
        is_free
    }

    /// The ports with a carrier.
    pub(super) fn ports(&self) -> impl Iterator<Item = usize> + '_ {
        self.up.iter().copied()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ps / 1000)
    }

    /// Whether a connection ends at a server.
    pub(super) fn takes(&self, end: End) -> bool {
        self.taken.contains_key(&end)
    }

    pub(super) fn due_ps(&self) -> Option<u64> {
        let ps = |due: Duration| due.as_nanos() as u64 * 1000;
        let servers = self.servers.values().filter_map(Server::due);
        let machines = servers.chain(self.exchange.due()).min().map(ps);
        let assemblies = self.taken.values().filter_map(|taken| taken.assembly.due_ps());
        earlier(machines, assemblies.min())
    }
}

/// An end as the exchange names it.
fn circuit((port, circuit): End) -> PortCircuit {
    PortCircuit { port: port as u16, circuit }
}

/// The calls of a switch at work on it.
struct AtWork<'a> {
    calls: &'a mut Calls,
    switch: &'a mut AtmSwitch,
    /// What the exchange has still to hear.
    events: VecDeque<ExchangeEvent>,
}

impl AtmSwitch {
    /// Lets the calls of the switch work at `at_ps`, if it has any.
    fn with_calls(&mut self, at_ps: u64, work: impl FnOnce(&mut AtWork<'_>)) {
        let Some(mut calls) = self.calls.take() else { return };
        calls.now_ps = calls.now_ps.max(at_ps);
        let mut at = AtWork { calls: &mut calls, switch: self, events: VecDeque::new() };
        work(&mut at);
        at.settle();
        servers::count(calls.servers.values(), &calls.counters);
        self.calls = Some(calls);
    }

    /// A message came by a port.
    pub(super) fn signalled(&mut self, from: usize, signal: Signal, at_ps: u64) {
        self.with_calls(at_ps, |at| at.signalled(from, signal));
    }

    /// Cells for a server came by a port.
    pub(super) fn serve_run(&mut self, end: End, run: Run, at_ps: u64) {
        self.with_calls(at_ps, |at| {
            let taken = at.calls.taken.get_mut(&end);
            let done = taken.and_then(|taken| taken.assembly.take_run(run, at_ps));
            at.arrived(end, done);
        });
    }

    /// The same of a cell by itself, whose header is right.
    pub(super) fn serve_cell(&mut self, end: End, cell: &Cell, at_ps: u64) {
        self.with_calls(at_ps, |at| {
            let is_last = Header::read(cell::header(cell)).payload_type.is_last();
            let taken = at.calls.taken.get_mut(&end);
            let payload = cell::payload(cell);
            let done = taken.and_then(|taken| taken.assembly.take_cell(payload, is_last, at_ps));
            at.arrived(end, done);
        });
    }

    /// The port has got or lost its carrier, or is gone.
    pub(super) fn carrier(&mut self, port: usize, up: bool) {
        let Some(calls) = &mut self.calls else { return };
        if up {
            return calls.add(port);
        }
        if calls.up.remove(&port) {
            let now_ps = calls.now_ps;
            self.with_calls(now_ps, |at| {
                at.events.push_back(ExchangeEvent::RemovePort(port as u16));
            });
        }
    }

    /// Does what is due by `now_ps`. Says whether anything was.
    pub(super) fn poll_calls(&mut self, now_ps: u64) -> bool {
        let due_ps = self.calls.as_ref().and_then(|calls| calls.due_ps());
        let is_due = due_ps.is_some_and(|due_ps| due_ps <= now_ps);
        if is_due {
            self.with_calls(now_ps, |at| at.poll(now_ps));
        }
        is_due
    }

    /// Sends a message to a port, behind what is on its way there.
    fn tell(&mut self, port: usize, signal: Signal, at_ps: u64) {
        if let Some(port) = self.ports.get_mut(port) {
            let at_ps = at_ps.max(port.line.free_at_ps());
            port.in_flight.outwards.add(at_ps, signal);
        }
    }

    /// Begins again with all ports.
    pub(super) fn restart_calls(&mut self) {
        let Some(calls) = self.calls.take() else { return };
        let calls = calls.anew();
        let (ports, at_ps): (Vec<usize>, _) = (calls.ports().collect(), calls.now_ps);
        let permanent: BTreeSet<End> = calls.permanent.iter().flatten().copied().collect();
        self.legs.retain(|end, _| permanent.contains(end));
        self.calls = Some(Box::new(calls));
        ports.into_iter().for_each(|port| self.tell(port, Signal::Restarted, at_ps));
    }
}

impl AtWork<'_> {
    /// Has the exchange hear everything that there is.
    fn settle(&mut self) {
        while let Some(event) = self.events.pop_front() {
            let mut actions = Vec::new();
            let now = self.calls.now();
            self.calls.exchange.handle(now, event, &mut actions);
            actions.into_iter().for_each(|action| self.carry_out(action));
        }
    }

    fn signalled(&mut self, from: usize, signal: Signal) {
        match signal {
            Signal::Register(address) => {
                let port = from as u16;
                self.events.push_back(ExchangeEvent::Register { port, address });
            }
            Signal::Asked { party, action } => {
                // an end system speaks for itself alone
                if self.port_of(party) == Some(from) {
                    self.events.push_back(ExchangeEvent::Asked { party, action });
                } else if let PartyAction::SetUp { call, .. } = action {
                    let event = PartyEvent::Released { call, cause: Cause::OutOfOrder };
                    self.tell(from, Signal::Event { party, event });
                }
            }
            // a device sends no others
            Signal::NotRegistered(_)
            | Signal::Opened { .. }
            | Signal::Closed(_)
            | Signal::Event { .. }
            | Signal::Restarted => {}
        }
    }

    fn tell(&mut self, port: usize, signal: Signal) {
        self.switch.tell(port, signal, self.calls.now_ps);
    }

    /// The port that an end system is at; `None` of servers and of end systems that are gone.
    fn port_of(&self, party: AtmAddress) -> Option<usize> {
        let mut parties = self.calls.exchange.parties();
        let (_, port) = parties.find(|(address, _)| *address == party)?;
        (port != SERVERS).then_some(usize::from(port))
    }

    fn carry_out(&mut self, action: ExchangeAction) {
        match action {
            ExchangeAction::Tell { party, event } => {
                let now = self.calls.now();
                if let Some(server) = self.calls.servers.get_mut(&party) {
                    let requests = server.handle(now, ServerEvent::Call(event));
                    self.grant(party, requests);
                } else if let Some(port) = self.port_of(party) {
                    self.tell(port, Signal::Event { party, event });
                }
            }
            ExchangeAction::Open { caller, called } => self.open([caller, called]),
            ExchangeAction::Close { caller, called } => {
                [caller, called].into_iter().for_each(|end| self.close(end));
            }
            ExchangeAction::NotRegistered { port, address, .. } => {
                self.tell(usize::from(port), Signal::NotRegistered(address));
            }
        }
    }

    fn open(&mut self, ends: [(AtmAddress, Call, PortCircuit); 2]) {
        let end = |at: PortCircuit| (usize::from(at.port), at.circuit);
        match ends.map(|(.., at)| at.port == SERVERS) {
            [false, false] => {
                let [one, other] = ends.map(|(.., at)| end(at));
                self.switch.lead(one, other);
            }
            [true, true] => return,
            [is_first, _] => {
                let [first, second] = ends;
                let ((server, call, _), (.., at)) =
                    if is_first { (first, second) } else { (second, first) };
                let longest = self.calls.servers.get(&server).map_or(0, Server::longest);
                let taken = Taken { server, call, assembly: Assembly::new(longest) };
                self.calls.taken.insert(end(at), taken);
                let (port, circuit) = end(at);
                let (headers, unit) = (Headers::of(circuit), UnitState::default());
                self.calls.backs.insert((server, call), Back { port, headers, unit });
            }
        }
        for (party, call, at) in ends.into_iter().filter(|(.., at)| at.port != SERVERS) {
            let connection = at.circuit;
            self.tell(usize::from(at.port), Signal::Opened { party, call, connection });
        }
    }

    fn close(&mut self, at: PortCircuit) {
        if at.port == SERVERS {
            return;
        }
        let end = (usize::from(at.port), at.circuit);
        self.switch.legs.remove(&end);
        if let Some(Taken { server, call, .. }) = self.calls.taken.remove(&end) {
            self.calls.backs.remove(&(server, call));
        }
        self.tell(end.0, Signal::Closed(at.circuit));
    }

    /// A unit for a server has come, or not.
    fn arrived(&mut self, end: End, done: Option<Result<Received, Defect>>) {
        let Some(taken) = self.calls.taken.get(&end) else { return };
        let (party, call) = (taken.server, taken.call);
        match done {
            None => {}
            Some(Err(_)) => self.calls.counters.defects.add(1),
            Some(Ok(received)) => {
                let (now, unit) = (self.calls.now(), LaneUnit::of(received));
                if let Some(server) = self.calls.servers.get_mut(&party) {
                    let requests = server.handle(now, ServerEvent::Received { call, unit });
                    self.grant(party, requests);
                }
            }
        }
    }

    /// Does what a server wants.
    fn grant(&mut self, party: AtmAddress, requests: Vec<ServerRequest>) {
        for request in requests {
            match request {
                ServerRequest::Call(action) => {
                    self.events.push_back(ExchangeEvent::Asked { party, action });
                }
                ServerRequest::Send(call, unit) => {
                    let at_ps = self.calls.now_ps;
                    if let Some(back) = self.calls.backs.get_mut(&(party, call)) {
                        let Back { port, headers, unit: state } = back;
                        self.switch.send_unit((*port, *headers), state, &unit, at_ps);
                    }
                }
            }
        }
    }

    fn poll(&mut self, now_ps: u64) {
        let now = self.calls.now();
        let parties: Vec<AtmAddress> = self.calls.servers.keys().copied().collect();
        for party in parties {
            let Some(server) = self.calls.servers.get_mut(&party) else { continue };
            let requests = server.poll(now);
            self.grant(party, requests);
        }
        let mut actions = Vec::new();
        self.calls.exchange.poll(now, &mut actions);
        actions.into_iter().for_each(|action| self.carry_out(action));
        let taken = self.calls.taken.values_mut();
        let late = taken.filter_map(|taken| taken.assembly.expire(now_ps)).count();
        self.calls.counters.defects.add(late as u64);
    }
}
