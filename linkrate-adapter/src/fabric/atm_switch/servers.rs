//! The servers of emulated LANs that live in an ATM switch: one LECS, and a LES and a BUS of each ELAN.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linkrate_wire::atm::AtmAddress;
use linkrate_wire::control::lan_emulation::{FrameSize, LENGTH, Name};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::call::Call;
use linkrate_wire::machine::lane::{
    Bus, BusAction, BusConfig, Elan, Lecs, LecsConfig, Les, LesConfig, ServerAction, ServerEvent,
};

use super::ServerRequest;
use super::atmarp::{self, ArpServer};
use crate::atm::lane::LECS;
use crate::cells::Unit;
use crate::counters::{Counter, ElanCounters};
use crate::frame::WireFrame;
use crate::lane_unit::LaneUnit;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElanSpec {
    /// Its name, which no other ELAN of the switch has: up to 32 bytes.
    pub name: String,
    /// Its largest data frame.
    pub size: FrameSize,
}

/// A server, an end system of the switch.
#[derive(Debug)]
pub(super) enum Server {
    Lecs(Lecs),
    Les(Les),
    Bus(Bus<LaneUnit>),
    /// It resolves addresses of Classical IP, and has nothing to do with ELANs.
    Atmarp(Box<ArpServer>),
}

/// The servers of these ELANs, with their addresses. Those of ELAN `n` are `lane_server(n, ..)`. A name
/// that is too long, or taken, is refused.
pub(super) fn make(elans: &[ElanSpec]) -> Vec<(AtmAddress, Server)> {
    let (mut servers, mut known) = (Vec::new(), Vec::new());
    for (number, ElanSpec { name, size }) in elans.iter().enumerate() {
        let Some(name) = Name::new(name) else { continue };
        if known.iter().any(|elan: &Elan| elan.name == name) {
            continue;
        }
        let (les, bus) = (lane_server(number, 1), lane_server(number, 2));
        known.push(Elan { name, size: *size, les });
        servers.push((les, Server::Les(Les::new(LesConfig::new(name, *size, bus)))));
        servers.push((bus, Server::Bus(Bus::new(BusConfig::new(*size)))));
    }
    // a client that names no ELAN gets the first one
    let otherwise = known.first().map(|elan| elan.name);
    let config = LecsConfig { otherwise, ..LecsConfig::new(known) };
    servers.push((LECS, Server::Lecs(Lecs::new(config))));
    servers
}

/// The address of a server of ELAN `elan`: its LES has selector 1 and its BUS 2. A local address of
/// switch 0, where no host is.
fn lane_server(elan: usize, selector: u8) -> AtmAddress {
    let [high, low] = (elan as u16).to_be_bytes();
    AtmAddress::local(0, [2, 0, 0, 0xe1, high, low], selector)
}

impl Server {
    /// Octets of the longest unit that it takes.
    pub(super) fn longest(&self) -> usize {
        match self {
            // triples may follow a control frame
            Self::Lecs(_) | Self::Les(_) => LENGTH + 1024,
            Self::Bus(bus) => usize::from(bus.config().size.octets()),
            Self::Atmarp(_) => atmarp::MAX_LENGTH,
        }
    }

    pub(super) fn handle(
        &mut self,
        now: Duration,
        event: ServerEvent<LaneUnit>,
    ) -> Vec<ServerRequest> {
        match self {
            Self::Lecs(lecs) => {
                let mut actions = Vec::new();
                lecs.handle(now, octets(event), &mut actions);
                requests(actions)
            }
            Self::Atmarp(server) => server.handle(now, event),
            Self::Les(les) => {
                let mut actions = Vec::new();
                les.handle(now, octets(event), &mut actions);
                requests(actions)
            }
            Self::Bus(bus) => {
                let mut actions = Vec::new();
                bus.handle(now, event, &mut actions);
                let forwards: Vec<Call> = bus.forwards().collect();
                let mut requests = Vec::new();
                for action in actions {
                    match action {
                        BusAction::Call(action) => requests.push(ServerRequest::Call(action)),
                        BusAction::Forward(unit) => {
                            let Ok(unit) = unit.again() else { continue };
                            let each = forwards.iter().map(|call| (*call, Arc::clone(&unit)));
                            requests
                                .extend(each.map(|(call, unit)| ServerRequest::Send(call, unit)));
                        }
                    }
                }
                requests
            }
        }
    }

    pub(super) fn due(&self) -> Option<Duration> {
        match self {
            Self::Lecs(lecs) => lecs.due(),
            Self::Les(les) => les.due(),
            Self::Bus(bus) => bus.due(),
            Self::Atmarp(server) => server.due(),
        }
    }

    pub(super) fn poll(&mut self, now: Duration) -> Vec<ServerRequest> {
        let mut actions = Vec::new();
        match self {
            Self::Lecs(lecs) => lecs.poll(now, &mut actions),
            Self::Les(les) => les.poll(now, &mut actions),
            // it has no timers
            Self::Bus(_) => {}
            Self::Atmarp(server) => return server.poll(now),
        }
        requests(actions)
    }
}

/// Brings the counters of all servers up to date. They never go back, also when a switch begins
/// again.
pub(super) fn count<'a>(servers: impl Iterator<Item = &'a Server>, into: &ElanCounters) {
    let mut sums: BTreeMap<&'static str, (&Counter, u64)> = BTreeMap::new();
    let mut add = |name, counter, count| sums.entry(name).or_insert((counter, 0)).1 += count;
    for server in servers {
        match server {
            Server::Lecs(lecs) => {
                let of = lecs.counters();
                add("configured", &into.configured, of.configured);
                add("refused", &into.refused, of.refused);
                add("dropped", &into.dropped, of.dropped);
                add("lies", &into.lies, of.malformed);
            }
            Server::Les(les) => {
                let of = les.counters();
                add("joined", &into.joined, of.joined);
                add("refused", &into.refused, of.refused);
                add("answered", &into.answered, of.answered);
                add("forwarded", &into.forwarded, of.forwarded + of.asked_proxies);
                add("dropped", &into.dropped, of.dropped);
                add("lies", &into.lies, of.malformed + of.unexpected);
            }
            Server::Bus(bus) => {
                let of = bus.counters();
                add("frames", &into.bus_frames, of.frames);
                add("flushes", &into.bus_flushes, of.flushes);
                add("bus dropped", &into.bus_dropped, of.dropped);
            }
            // it counts by itself
            Server::Atmarp(_) => {}
        }
    }
    sums.into_values().for_each(|(counter, sum)| counter.set(counter.get().max(sum)));
}

/// The event for a server that reads control frames alone.
fn octets(event: ServerEvent<LaneUnit>) -> ServerEvent<Vec<u8>> {
    match event {
        ServerEvent::Call(event) => ServerEvent::Call(event),
        ServerEvent::Received { call, unit } => {
            ServerEvent::Received { call, unit: unit.as_ref().to_vec() }
        }
    }
}

fn requests(actions: Vec<ServerAction>) -> Vec<ServerRequest> {
    let wish = |action| match action {
        ServerAction::Call(action) => Some(ServerRequest::Call(action)),
        ServerAction::Send { call, frame } => {
            let unit = Unit::new(&[], WireFrame::copied(frame.emit())).ok()?;
            Some(ServerRequest::Send(call, Arc::new(unit)))
        }
        // the answer tells the client, and the counters tell it of all
        ServerAction::Refused { .. } => None,
    };
    actions.into_iter().filter_map(wish).collect()
}
