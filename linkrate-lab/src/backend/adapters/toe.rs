//! The TCP offload engine of a testbed's adapters: its TCP, and moves of connections there and back.
//!
//! The adapter's TCP is that of an agent in a network namespace of the adapter's, on the CPUs of the
//! adapter. For each port of the SUT it has a TAP with the same addresses, whose other end is with the
//! port's device. [`linkrate_toe::moving`] says which steps a move has: the device holds the frames of the peer;
//! the connection leaves the socket, whose program continues at a stream pair; the adapter's agent takes it; the
//! device hands its frames to the adapter. [`offload_port`] takes those of the device, [`moves`] and [`programs`]
//! the others, of flows and of programs. [`rules`] says which connections are to move.

mod moves;
mod offload_port;
mod programs;
mod rules;
mod stay;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use linkrate_adapter::{ConnectionEnds, MAX_PORTS, Port};
use linkrate_model::lab::ConnectionStatus;
use linkrate_model::topology::{self, ipv6_address};
use linkrate_model::{InterfaceKnobs, Model};
use linkrate_protocol::toe::{FlowConnection, ToeReply, ToeRequest};
use linkrate_protocol::{Ipv6Setup, Reply, Request};
use linkrate_sys::open_file_limit;
use linkrate_sys::tap::{attach_queue, detach_queue};

pub(in crate::backend::adapters) use self::offload_port::OffloadPort;
pub(crate) use self::rules::{Back, Reason};
use super::{address, tap};
use crate::connection::{AgentError, Connection, expect_reply};
use crate::error::LabError;
use crate::host::Host;
use crate::options::LabOptions;
use crate::peer::Namespaces;
use crate::placement::Placement;

/// The engine of all adapters of a testbed.
#[derive(Debug)]
pub(super) struct Engine(Mutex<State>);

#[derive(Debug)]
struct State {
    host: Host,
    /// The SUT's agent, for moves while it measures, with its process id.
    sut: Option<(Connection, u32)>,
    /// Connections at the adapter by flow.
    away: BTreeMap<u32, Away>,
    /// Those of them of which the adapter told at the last look. The others are idle.
    told: BTreeSet<u32>,
    /// Connections of programs at the adapter by their numbers.
    programs: BTreeMap<u32, Place>,
    /// Those of them that have ended, with their last status and when it was seen.
    ended: BTreeMap<u32, (ConnectionStatus, Instant)>,
    /// The ports of each outlet that carried traffic at the last look, by its number.
    in_use: BTreeMap<u32, u64>,
    /// Connections that are at the host again, by flow.
    back: BTreeMap<u32, rules::Back>,
    /// Bytes that each flow with its connection at the host had carried at the last look.
    carried: BTreeMap<u32, u64>,
    /// Connections that stayed at the host, by the reason, and their flows.
    stayed: BTreeMap<String, u64>,
    stays: BTreeSet<u32>,
    /// Moves by port and kind, and the time that flows were stopped for those to the adapter, µs.
    moves: BTreeMap<(u32, String), u64>,
    stalled_us: Vec<u64>,
    /// CPU time of the SUT for these moves, ns.
    spent_ns: u64,
    /// How long the frames of the peer waited for these moves, µs.
    moved_us: Vec<u64>,
    /// Connections that go to the adapter once their sockets have sent what they had taken.
    prepared: BTreeMap<u32, Prepared>,
    /// The interface of the adapter's TCP for all ports of an aggregate, by the number of the segment.
    taps: BTreeMap<u32, TapOfAll>,
    /// Peers of IPv6 that both TCPs know a round trip time to.
    peers: BTreeSet<Ipv6Addr>,
    /// The MTU of the adapter's interfaces.
    mtu: Option<u32>,
    /// Connections that the tables of all ports have room for.
    places: u64,
    looked: Instant,
}

/// A TAP with a queue for each place of an aggregate. The queues of ports that carry traffic are attached.
#[derive(Debug)]
struct TapOfAll {
    queues: Vec<Arc<OwnedFd>>,
    /// The attached ones, a bit each.
    attached: u64,
}

/// A connection that goes to the adapter soon.
#[derive(Debug, Clone, Copy)]
struct Prepared {
    of: FlowConnection,
    /// Bytes that its flow has carried between the last two polls.
    lately: u64,
    since: Instant,
}

/// A connection of a flow at the adapter.
#[derive(Debug)]
struct Away {
    place: Place,
    use_of: rules::Use,
}

/// Where a connection at the adapter passes, and how it came there.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The number of its [outlet](OffloadPort).
    at: u32,
    ends: ConnectionEnds,
    /// The host had sent all before this sequence number.
    send_next: u32,
    /// The ports of the outlet that carried traffic when it came.
    in_use: u64,
    /// It was to return and has not: one end of it may have finished.
    stuck: bool,
}

impl Engine {
    /// Starts the agent with the adapter's TCP.
    pub(super) fn start(
        namespaces: &mut Namespaces,
        placement: &Placement,
        options: &LabOptions,
    ) -> Result<Self, LabError> {
        let host = namespaces.start("adapter", &placement.clients, options)?;
        Ok(Self(Mutex::new(State {
            host,
            sut: None,
            away: BTreeMap::new(),
            told: BTreeSet::new(),
            programs: BTreeMap::new(),
            ended: BTreeMap::new(),
            in_use: BTreeMap::new(),
            back: BTreeMap::new(),
            carried: BTreeMap::new(),
            stayed: BTreeMap::new(),
            stays: BTreeSet::new(),
            moves: BTreeMap::new(),
            stalled_us: Vec::new(),
            spent_ns: 0,
            moved_us: Vec::new(),
            prepared: BTreeMap::new(),
            taps: BTreeMap::new(),
            peers: BTreeSet::new(),
            mtu: None,
            places: 0,
            looked: Instant::now(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // a holder that panicked takes the testbed with it
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the adapter's interface for a port of the SUT, with the addresses of the port. Returns its
    /// other end. `segment` is that of the port, and `index` the place of the port in it.
    pub(super) fn interface(
        &self,
        segment: &topology::Segment,
        index: usize,
        model: &Model,
    ) -> Result<OwnedFd, LabError> {
        let end = &segment.ports[index];
        let made = (end.interface.as_str(), 1, address(end.number, 0));
        let queues = self.lock().interface(made, segment, index, model)?;
        let missing = || LabError::Io(std::io::Error::other("a TAP without a queue"));
        queues.into_iter().next().ok_or_else(missing)
    }

    /// Makes the adapter's interface for all ports of an aggregate, with its addresses. Returns its queues by the
    /// places of the ports, none of which is in use. None behind a router, which is no neighbour by a fixed address.
    pub(super) fn interface_of_all(
        &self,
        segment: &topology::Segment,
        model: &Model,
    ) -> Result<Vec<Arc<OwnedFd>>, LabError> {
        let Some(name) = segment.aggregate.as_deref().filter(|_| segment.gateways().is_none())
        else {
            return Ok(Vec::new());
        };
        let mut state = self.lock();
        // ports may join
        let made = (name, MAX_PORTS as u32, address(0, 0));
        let queues = state.interface(made, segment, 0, model)?;
        let queues: Vec<_> = queues.into_iter().map(Arc::new).collect();
        for queue in &queues {
            detach_queue(queue)?;
        }
        let tap = TapOfAll { queues: queues.clone(), attached: 0 };
        state.taps.insert(segment.number, tap);
        Ok(queues)
    }

    /// The queue of a port of an aggregate by its place.
    pub(super) fn queue_of(&self, segment: u32, place: usize) -> Option<Arc<OwnedFd>> {
        self.lock().taps.get(&segment)?.queues.get(place).cloned()
    }

    /// Lets the adapter's TCP send by the ports of an aggregate that are in use, a bit each by their places.
    fn send_by(&self, segment: u32, in_use: u64) -> Result<(), LabError> {
        let mut state = self.lock();
        let Some(tap) = state.taps.get_mut(&segment) else { return Ok(()) };
        let changed = tap.attached ^ in_use;
        for (place, queue) in tap.queues.iter().enumerate() {
            let bit = 1_u64 << place;
            if changed & bit == 0 {
                continue;
            }
            match in_use & bit == 0 {
                true => detach_queue(queue)?,
                false => attach_queue(queue)?,
            }
            tap.attached ^= bit;
        }
        Ok(())
    }

    /// Lets go of the interface for all ports of an aggregate, before its ports do.
    pub(super) fn drop_interface_of_all(&self, segment: u32) {
        self.lock().taps.remove(&segment);
    }

    /// Tells a port that has joined an aggregate of the connections that are at the adapter.
    pub(super) fn tell(&self, port: &Port, offload_port: u32) -> Result<(), LabError> {
        let state = self.lock();
        for place in state.places_at(offload_port) {
            port.hold(place.ends)?;
            port.to_adapter(place.ends, place.send_next)?;
        }
        Ok(())
    }

    /// Lets the adapter's TCP reach over IPv6 whom the SUT reaches.
    pub(super) fn reach_over_ipv6(
        &self,
        sut: &mut Host,
        setup: &Ipv6Setup,
    ) -> Result<(), LabError> {
        let mut state = self.lock();
        state.host.order(&Request::ReachOverIpv6(setup.clone()))?;
        for (far, _) in &setup.neighbours {
            // before anything is sent to it
            if state.peers.contains(far) {
                continue;
            }
            let [own, to] = [setup.address, *far].map(IpAddr::V6);
            done(&mut state.host, ToeRequest::RoundTrip { own, far: to })?;
            done(sut, ToeRequest::RoundTrip { own, far: to })?;
            state.peers.insert(*far);
        }
        Ok(())
    }

    /// Gives the adapter's interfaces the MTU of the SUT's.
    pub(super) fn set_mtu(&self, interfaces: &[String], mtu: Option<u32>) -> Result<(), LabError> {
        let knobs = InterfaceKnobs { mtu, ..InterfaceKnobs::default() };
        let mut state = self.lock();
        state.host.set_knobs(interfaces, knobs)?;
        state.mtu = mtu;
        Ok(())
    }

    /// Why its agent answers no request any more, as a phrase.
    pub(super) fn broken(&self) -> Option<String> {
        self.lock().host.broken()
    }

    /// The process id of its agent.
    pub(super) fn pid(&self) -> u32 {
        self.lock().host.pid()
    }

    /// Connections at the adapter, by the number of their outlet, and counts by reason, as counters.
    /// `is_first`: those of all ports together are among them.
    fn counts(&self, offload_port: u32, is_first: bool) -> Vec<(String, u64)> {
        let state = self.lock();
        let there = state.places_at(offload_port).count() as u64;
        let mut counts = vec![("toeConnections".to_owned(), there)];
        let moves = state.moves.iter().filter(|((at, _), _)| *at == offload_port);
        counts.extend(moves.map(|((_, kind), count)| (format!("toeMoves.{kind}"), *count)));
        if is_first {
            let stayed = state.stayed.iter();
            counts.extend(stayed.map(|(word, count)| (format!("toeStayed.{word}"), *count)));
            if state.spent_ns > 0 {
                counts.push(("toeDownCpuNs".to_owned(), state.spent_ns));
            }
            if let Some(median) = median(&state.stalled_us) {
                counts.push(("toeStoodUs".to_owned(), median));
            }
            if let Some(median) = median(&state.moved_us) {
                counts.push(("toeMovedUs".to_owned(), median));
            }
        }
        counts
    }
}

impl State {
    /// The places of all connections at the adapter that pass this outlet.
    fn places_at(&self, offload_port: u32) -> impl Iterator<Item = &Place> {
        let flows = self.away.values().map(|away| &away.place);
        flows.chain(self.programs.values()).filter(move |place| place.at == offload_port)
    }

    /// Makes an interface of this name, with so many queues and this Ethernet address, for the port of a segment
    /// with that index and its clients.
    fn interface(
        &mut self,
        (name, queues, hardware_address): (&str, u32, [u8; 6]),
        segment: &topology::Segment,
        index: usize,
        model: &Model,
    ) -> Result<Vec<OwnedFd>, LabError> {
        self.places += u64::from(model.toe_connections);
        self.allow_files();
        let host = &mut self.host;
        let queues = tap(host, name, model, queues, hardware_address)?;
        host.configure(name, segment.port_address(index), None, None)?;
        let first = segment.home;
        for client in (0..segment.clients.len()).filter(|of| segment.port_of(*of) == index) {
            toe(
                host,
                ToeRequest::Neighbour {
                    name: name.to_owned(),
                    address: segment.client_address(client).into(),
                    hardware_address: address(first, 1 + client as u8),
                },
            )?;
            let (own, far) = (segment.port_address(index), segment.client_address(client));
            let [own, far] = [own, far].map(IpAddr::V4);
            done(host, ToeRequest::RoundTrip { own, far })?;
        }
        Ok(queues)
    }

    /// Lets the tables be filled: a connection has two open files in the adapter's process, and one in this.
    /// Where the limits stay lower, connections stay at the host, and are counted.
    fn allow_files(&self) {
        let _ = open_file_limit::allow_of(self.host.pid(), self.places.saturating_mul(2));
        let _ = open_file_limit::allow(self.places);
    }
}

/// Lets the SUT's TCP know a round trip time to each client of a segment, before anything is sent.
pub(super) fn leave_round_trips(
    sut: &mut Host,
    segment: &topology::Segment,
) -> Result<(), LabError> {
    (0..segment.clients.len()).try_for_each(|client| {
        let own = segment.port_address(segment.port_of(client));
        let far = segment.client_address(client);
        let [own, far] = [own, far].map(IpAddr::V4);
        Ok(done(sut, ToeRequest::RoundTrip { own, far })?)
    })
}

fn toe(host: &mut Host, request: ToeRequest) -> Result<ToeReply, AgentError> {
    expect_reply!(host.connection, Request::Toe(request), Reply::Toe(reply) => reply)
}

fn done(host: &mut Host, request: ToeRequest) -> Result<(), AgentError> {
    match toe(host, request)? {
        ToeReply::Done => Ok(()),
        _ => Err(host.connection.unexpected("toe")),
    }
}

/// Whether an address of a connection is that of the end with the IPv4 address `end`.
fn is_of(address: IpAddr, end: Ipv4Addr) -> bool {
    match address {
        IpAddr::V4(address) => address == end,
        IpAddr::V6(address) => address == ipv6_address(end),
    }
}

fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}
