//! Classical IP over switched connections (RFC 2225): the port calls the ATMARP server of its subnet,
//! asks it for the ATM address behind an IP address, and calls the end system there.
//!
//! Packets wait while their end system is asked for and called. A connection that carries nothing for
//! [`IDLE`] is released, except the one to the server.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use linkrate_wire::atm::{AtmAddress, Connection};
use linkrate_wire::control::atmarp::{AtmArp, Operation};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::atmarp::{Circuit, Client, ClientAction, ClientEvent, Route};
use linkrate_wire::machine::call::{Call, Cause, PartyAction, PartyEvent, Purpose};

use super::Atm;
use crate::atm::server_address;
use crate::cells::{CellTrain, Unit};
use crate::clock::time;
use crate::counters::ArpCounters;
use crate::pdu::Signal;

/// Time to the next attempt to register the ATM address, or to reach the server.
const AGAIN: Duration = Duration::from_secs(5);

/// How long a connection stays that carries nothing (RFC 1755, 3.4: 15 minutes or more).
pub(super) const IDLE: Duration = Duration::from_secs(20 * 60);

/// Time from one look for such connections to the next.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Packets that wait for their connections at most.
const MAX_HELD: usize = 64;

/// A connection of a call.
#[derive(Debug, Clone, Copy)]
struct Open {
    connection: Connection,
    /// When it was last found in use, and the cells that had passed then.
    used: (Duration, u64),
}

/// The client of a port.
#[derive(Debug)]
pub(super) struct Switched {
    atm: AtmAddress,
    client: Client,
    /// The number of the next call.
    next: u32,
    /// The other end of each call.
    calls: BTreeMap<Call, AtmAddress>,
    open: BTreeMap<Call, Open>,
    /// Packets that wait for a connection.
    held: VecDeque<(Ipv4Addr, Arc<Unit>)>,
    actions: Vec<ClientAction>,
    signals: Vec<Signal>,
    /// When the switch is to hear the address; `None` once it has.
    register: Option<Duration>,
    /// When the server is to be called; `None` while there is a call to it.
    call_server: Option<Duration>,
    /// When idle connections are looked for.
    look: Duration,
    /// Something waits for the next turn to send.
    pending: bool,
    now: Duration,
}

impl Switched {
    pub(super) fn new(atm: AtmAddress, ip: Ipv4Addr) -> Self {
        Self {
            atm,
            client: Client::new(atm, ip),
            next: 0,
            calls: BTreeMap::new(),
            open: BTreeMap::new(),
            held: VecDeque::new(),
            actions: Vec::new(),
            signals: Vec::new(),
            register: Some(Duration::ZERO),
            call_server: Some(Duration::ZERO),
            look: POLL_INTERVAL,
            pending: true,
            now: Duration::ZERO,
        }
    }

    /// When it must be called again, on a link that is up or down.
    pub(super) fn due_ps(&self, up: bool) -> Option<u64> {
        if self.pending {
            return Some(0);
        }
        let own = [self.register, self.call_server, Some(self.look)];
        let own = own.into_iter().flatten().filter(|_| up);
        let due = self.client.due().into_iter().chain(own).min();
        due.map(|due| due.as_nanos() as u64 * 1000)
    }

    fn handle(&mut self, event: ClientEvent) {
        self.client.handle(self.now, event, &mut self.actions);
        self.pending = true;
    }

    fn ask(&mut self, action: PartyAction) {
        self.signals.push(Signal::Asked { party: self.atm, action });
        self.pending = true;
    }

    /// Calls an end system, unless there is a call to it or from it.
    fn call(&mut self, to: AtmAddress) {
        if self.calls.values().any(|peer| *peer == to) {
            return;
        }
        let call = Call::outgoing(self.next);
        self.next = self.next.wrapping_add(1);
        self.calls.insert(call, to);
        self.ask(PartyAction::SetUp { call, to, purpose: Purpose::ClassicalIp });
    }

    /// The open connection to an end system.
    fn open_to(&self, atm: AtmAddress) -> Option<Connection> {
        let calls = self.calls.iter().filter(|(_, peer)| **peer == atm);
        calls.filter_map(|(call, _)| self.open.get(call)).map(|open| open.connection).next()
    }

    /// The connection to an IP address. Without one it is asked for.
    fn connection_to(&mut self, ip: Ipv4Addr) -> Option<Connection> {
        match self.client.route(ip) {
            Some(Route::EndSystem(atm)) => {
                let open = self.open_to(atm);
                if open.is_none() {
                    self.call(atm);
                }
                open
            }
            Some(Route::Circuit(_)) => None,
            None => {
                self.handle(ClientEvent::Wanted(ip));
                None
            }
        }
    }

    /// A call is over. Its packets wait for the next one.
    fn over(&mut self, call: Call) {
        self.open.remove(&call);
        if self.calls.remove(&call) == Some(server_address()) {
            self.call_server = Some(self.now + AGAIN);
        }
        self.handle(ClientEvent::Closed(circuit(call)));
    }
}

/// The machine's name for a connection.
fn circuit(call: Call) -> Circuit {
    Circuit(call.number << 1 | u32::from(call.is_incoming))
}

fn call_of(Circuit(number): Circuit) -> Call {
    Call { is_incoming: number & 1 == 1, number: number >> 1 }
}

impl Atm {
    fn arp_counters(&self) -> Option<&ArpCounters> {
        self.atm.atmarp.get().map(|shared| &shared.counters)
    }

    /// The channel of a call to an IP address; `None` where a packet has to wait.
    pub(super) fn switched_channel(&mut self, ip: Ipv4Addr, at_ps: u64) -> Option<usize> {
        let switched = self.switched.as_mut()?;
        switched.now = switched.now.max(time(at_ps));
        let connection = switched.connection_to(ip)?;
        self.channel_of(connection)
    }

    fn channel_of(&self, connection: Connection) -> Option<usize> {
        self.channels.iter().position(|one| one.headers.connection() == connection)
    }

    /// Lets a packet wait for a connection to its destination.
    pub(super) fn hold(&mut self, ip: Ipv4Addr, unit: Unit) {
        let Some(switched) = &mut self.switched else { return };
        switched.held.push_back((ip, Arc::new(unit)));
        if switched.held.len() > MAX_HELD {
            switched.held.pop_front();
            self.atm.counters.unresolved.add(1);
            self.links[0].shared.counters.out_discards.add(1);
        }
    }

    /// The link has got or lost its carrier, or the switch begins again: all calls are over.
    pub(super) fn switched_cleared(&mut self, at_ps: u64) {
        let Some(switched) = &mut self.switched else { return };
        switched.now = switched.now.max(time(at_ps));
        switched.signals.clear();
        let calls: Vec<Call> = switched.calls.keys().copied().collect();
        calls.into_iter().for_each(|call| switched.over(call));
        (switched.register, switched.call_server) = (Some(switched.now), Some(switched.now));
        self.channels.clear();
        self.atm.channels().clear();
    }

    pub(super) fn switched_signalled(&mut self, signal: Signal, at_ps: u64) {
        let atm = Arc::clone(&self.atm);
        let (Some(switched), Some(arp)) = (&mut self.switched, atm.atmarp.get()) else { return };
        switched.now = switched.now.max(time(at_ps));
        match signal {
            Signal::NotRegistered(_) => {
                arp.set_trouble(Some("another port has this ATM address"));
                arp.counters.not_registered.add(1);
                switched.register = Some(switched.now + AGAIN);
            }
            Signal::Opened { call, connection, .. } => {
                // one that was given up meanwhile is closed soon
                let Some(peer) = switched.calls.get(&call).copied() else { return };
                let used = (switched.now, 0);
                switched.open.insert(call, Open { connection, used });
                switched.pending = true;
                arp.counters.calls.add(1);
                if peer == server_address() {
                    arp.set_trouble(None);
                    switched.handle(ClientEvent::Server(circuit(call)));
                }
                self.add_channel(connection, Purpose::ClassicalIp, peer);
            }
            Signal::Closed(connection) => self.remove_channel(connection),
            Signal::Event { event, .. } => match event {
                PartyEvent::Offered { call, from, purpose: Purpose::ClassicalIp } => {
                    switched.calls.insert(call, from);
                    switched.ask(PartyAction::Accept(call));
                }
                PartyEvent::Offered { call, .. } => {
                    switched.ask(PartyAction::Release { call, cause: Cause::Rejected });
                }
                PartyEvent::Released { call, cause } => {
                    if switched.open.contains_key(&call) {
                        arp.counters.calls_over.add(1);
                    } else {
                        arp.counters.calls_failed.add(1);
                    }
                    let peer = switched.calls.get(&call).copied();
                    if peer == Some(server_address()) && arp.trouble().is_none() {
                        arp.set_trouble(Some(&format!("no connection to the server: {cause}")));
                    }
                    switched.over(call);
                    // an end system that takes no call: its packets do not wait for ever
                    switched.held.retain(|(ip, _)| {
                        let route = switched.client.route(*ip);
                        let lost =
                            matches!(route, Some(Route::EndSystem(atm)) if Some(atm) == peer);
                        self.atm.counters.unresolved.add(u64::from(lost));
                        !lost
                    });
                }
                PartyEvent::Connected(_) => {}
            },
            Signal::Restarted => self.switched_cleared(at_ps),
            // a switch sends no others
            Signal::Register(_) | Signal::Asked { .. } => {}
        }
    }

    pub(super) fn take_switched_message(&mut self, channel: usize, message: AtmArp, at_ps: u64) {
        let connection = self.channels[channel].headers.connection();
        if let Some(counters) = self.arp_counters() {
            match message.operation {
                Operation::Reply => &counters.in_replies,
                Operation::Refusal => &counters.in_refusals,
                Operation::InverseRequest => &counters.in_inverse_requests,
                Operation::Request | Operation::InverseReply => &counters.in_others,
            }
            .add(1);
        }
        let Some(switched) = &mut self.switched else { return };
        switched.now = switched.now.max(time(at_ps));
        let open = switched.open.iter().find(|(_, open)| open.connection == connection);
        let Some(call) = open.map(|(call, _)| *call) else { return };
        switched.handle(ClientEvent::Received { circuit: circuit(call), message });
    }

    /// Does what is due by `now_ps`. Says whether anything was.
    pub(super) fn poll_switched(
        &mut self,
        now_ps: u64,
        wire: &mut impl FnMut(CellTrain, u64),
    ) -> bool {
        let is_up = self.shared.first_link().is_up();
        let Some(switched) = &mut self.switched else { return false };
        let now = time(now_ps).max(switched.now);
        switched.now = now;
        if is_up && switched.register.is_some_and(|at| at <= now) {
            switched.register = None;
            switched.signals.push(Signal::Register(switched.atm));
            switched.pending = true;
        }
        if is_up && switched.call_server.is_some_and(|at| at <= now) {
            switched.call_server = None;
            switched.call(server_address());
        }
        if switched.client.due().is_some_and(|due| due <= now) {
            switched.client.poll(now, &mut switched.actions);
            switched.pending = true;
        }
        if switched.look <= now {
            self.release_idle(now);
        }
        let pending = self.switched.as_mut().is_some_and(|all| std::mem::take(&mut all.pending));
        if pending {
            self.act_switched(now_ps, wire);
        }
        pending
    }

    /// Releases calls that have carried nothing for [`IDLE`].
    fn release_idle(&mut self, now: Duration) {
        let Some(switched) = &mut self.switched else { return };
        switched.look = now + POLL_INTERVAL;
        let mut idle = Vec::new();
        for (call, open) in &mut switched.open {
            let mut channels = self.channels.iter();
            let of_it = channels.find(|one| one.headers.connection() == open.connection);
            let shared = of_it.map(|channel| &channel.shared);
            let cells = shared.map_or(0, |shared| shared.tx_cells.get() + shared.rx_cells.get());
            if cells != open.used.1 {
                open.used = (now, cells);
            } else if now.saturating_sub(open.used.0) >= IDLE {
                idle.push(*call);
            }
        }
        for call in idle {
            if switched.calls.get(&call) != Some(&server_address()) {
                switched.over(call);
                switched.ask(PartyAction::Release { call, cause: Cause::Normal });
            }
        }
    }

    /// Does what the client wants, and sends packets that have got a connection.
    fn act_switched(&mut self, now_ps: u64, wire: &mut impl FnMut(CellTrain, u64)) {
        let Some(switched) = &mut self.switched else { return };
        for action in std::mem::take(&mut switched.actions) {
            let Some(switched) = &mut self.switched else { return };
            match action {
                ClientAction::Send { circuit, message } => {
                    let open = switched.open.get(&call_of(circuit)).copied();
                    let Some(channel) = open.and_then(|open| self.channel_of(open.connection))
                    else {
                        continue;
                    };
                    if let Some(counters) = self.arp_counters() {
                        match message.operation {
                            Operation::Request => &counters.out_requests,
                            Operation::InverseReply => &counters.out_inverse_replies,
                            _ => &counters.out_others,
                        }
                        .add(1);
                    }
                    self.send_message(channel, message, now_ps, wire);
                }
                ClientAction::Route(ip, Route::EndSystem(atm)) => {
                    let waits = switched.held.iter().any(|(held, _)| *held == ip);
                    if waits && switched.open_to(atm).is_none() {
                        switched.call(atm);
                    }
                }
                ClientAction::Route(_, Route::Circuit(_)) => {}
                ClientAction::NoRoute(ip) => {
                    let before = switched.held.len();
                    switched.held.retain(|(held, _)| *held != ip);
                    self.atm.counters.unresolved.add((before - switched.held.len()) as u64);
                }
            }
        }
        let Some(switched) = &mut self.switched else { return };
        for (ip, unit) in std::mem::take(&mut switched.held) {
            let Some(switched) = &mut self.switched else { return };
            let open = match switched.client.route(ip) {
                Some(Route::EndSystem(atm)) => switched.open_to(atm),
                _ => None,
            };
            match open.and_then(|connection| self.channel_of(connection)) {
                Some(channel) => _ = self.put_on_link(unit, channel, now_ps, wire),
                None => {
                    if let Some(switched) = &mut self.switched {
                        switched.held.push_back((ip, unit));
                    }
                }
            }
        }
        self.show_known();
    }

    /// Shows what the client of the port knows.
    fn show_known(&self) {
        if let (Some(switched), Some(shared)) = (&self.switched, self.atm.atmarp.get()) {
            shared.show(switched.client.known().filter_map(|(ip, known)| match known.route {
                Route::EndSystem(atm) => Some((ip, atm, known.learnt())),
                Route::Circuit(_) => None,
            }));
        }
    }

    /// The messages for the switch since the last call. Without a carrier there is no switch.
    pub(super) fn take_switched_signals(&mut self) -> Vec<Signal> {
        let is_up = self.shared.first_link().is_up();
        let Some(switched) = &mut self.switched else { return Vec::new() };
        let signals = std::mem::take(&mut switched.signals);
        if is_up {
            return signals;
        }
        for signal in signals {
            if let Signal::Asked { action: PartyAction::SetUp { call, .. }, .. } = signal {
                switched.over(call);
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
