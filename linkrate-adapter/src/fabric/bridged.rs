//! An ATM switch with an Ethernet switch behind a bridge: the Ethernet ports are stations of an emulated
//! LAN (ELAN).
//!
//! ```text
//!  ATM ports ═ cells ═▶ ATM switch ═▶ bridge: proxy LE client ─ frames ─▶ Ethernet switch ─▶ Ethernet ports
//! ```
//!
//! The bridge is an end system of the ATM switch, and a port of the Ethernet switch. Its LE client is a
//! proxy (LANE 1.0, 3.1.3): it answers questions for the stations behind it (LE_ARP), which it learns from
//! their frames and forgets after [`AGEING`]. It receives all frames of the BUS for stations that nobody
//! knows. When an Ethernet port loses its carrier, the stations behind it may be anywhere: the bridge
//! tells the clients that the topology changes, so that they ask again after 15 s at the latest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use linkrate_model::BitRate;
use linkrate_wire::atm::cell::{self, Header, Headers};
use linkrate_wire::atm::{CELL, Connection};
use linkrate_wire::frame::link::Addresses;
use linkrate_wire::frame::{Cast, MacAddress};
use linkrate_wire::link::LinkLaw;
use linkrate_wire::lro::Parts;
use linkrate_wire::machine::lane::ClientEvent;

use super::atm_switch::AtmSwitch;
use super::{End, Fabric, FabricCommand, InFlight, Switch};
use crate::atm::assembly::{Assembly, Received};
use crate::atm::lane::{Change, Lane, LaneShared, LaneStation, Outgoing};
use crate::cells::{CellTrain, Run, TRAIN_CELLS, Unit};
use crate::clock::{earlier, time};
use crate::counters::BridgeCounters;
use crate::frame::WireFrame;
use crate::lane_unit::LaneUnit;
use crate::link::LinkSpec;
use crate::pacing::Line;
use crate::pdu::{Pdu, Signal};

/// The port of both switches that leads to the bridge.
const BRIDGE: usize = 0;

/// How long a station stays known that sends nothing (IEEE 802.1D, 7.9.2).
const AGEING: Duration = Duration::from_secs(300);

/// How long the topology changes: until a bridge would forward again that has lost a port (802.1D, 8.10.2:
/// twice the forward delay of 15 s).
const TOPOLOGY_CHANGE: Duration = Duration::from_secs(30);

/// Most stations behind the bridge.
const MAX_STATIONS: usize = 4096;

/// The longest queue before the ATM link of the bridge, in octets of the line.
const QUEUE_OCTETS: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct BridgeShared {
    pub(crate) lane: LaneShared,
    pub(crate) counters: BridgeCounters,
}

/// Two switches with a bridge between them.
#[derive(Debug, Default)]
pub(crate) struct Bridged {
    atm: AtmSwitch,
    ethernet: Switch,
    bridge: Option<Bridge>,
    /// The law of each port's link, by number; a port that was removed leaves its place.
    laws: Vec<Option<LinkLaw>>,
    /// The latest time that it was called at.
    now_ps: u64,
    dead: bool,
}

#[derive(Debug)]
struct Bridge {
    lane: Lane,
    shared: Arc<BridgeShared>,
    /// Its line to the ATM switch.
    line: Line,
    /// The connections of its calls.
    channels: BTreeMap<Connection, Channel>,
    /// When each station behind it was heard last.
    stations: BTreeMap<MacAddress, Duration>,
    /// When it looks for stations that are silent.
    look: Option<Duration>,
    /// When the topology no longer changes.
    settled: Option<Duration>,
}

#[derive(Debug)]
struct Channel {
    headers: Headers,
    assembly: Assembly,
}

/// The number of a port of the fabric at its switch.
fn at_switch(port: usize) -> usize {
    BRIDGE + 1 + port
}

fn ps(time: Duration) -> u64 {
    time.as_nanos() as u64 * 1000
}

impl Bridged {
    fn law(&self, port: usize) -> Option<LinkLaw> {
        self.laws.get(port).copied().flatten()
    }

    /// The switch that a port is at.
    fn at(&mut self, port: usize) -> Option<&mut dyn Fabric> {
        Some(match self.law(port)? {
            LinkLaw::Atm => &mut self.atm,
            LinkLaw::Ethernet => &mut self.ethernet,
        })
    }

    fn bridge(&mut self, station: &LaneStation, link: LinkSpec, shared: Arc<BridgeShared>) {
        self.atm.attach(BRIDGE, link, 0);
        // nothing takes any time between the bridge and its Ethernet switch
        let inside = LinkSpec { law: LinkLaw::Ethernet, rate: None };
        self.ethernet.attach(BRIDGE, inside, 0);
        self.bridge = Some(Bridge {
            lane: Lane::bridging(station),
            shared,
            line: link.line(),
            channels: BTreeMap::new(),
            stations: BTreeMap::new(),
            look: None,
            settled: None,
        });
    }

    /// All of it is one system.
    fn set_alive(&mut self, alive: bool) {
        if alive != self.dead {
            return;
        }
        self.dead = !alive;
        self.atm.set_alive(alive);
        self.ethernet.set_alive(alive);
        if let Some(bridge) = &mut self.bridge {
            bridge.forget(self.now_ps, |_| true);
            bridge.settled = None;
            bridge.channels.clear();
            bridge.lane.restart(self.now_ps);
            bridge.lane.show(&bridge.shared.lane);
        }
    }

    /// Carries what has come to the bridge by `now_ps`, and does what is due.
    fn serve_bridge(&mut self, now_ps: u64) -> bool {
        let Self { atm, ethernet, bridge: Some(bridge), dead: false, .. } = self else {
            return false;
        };
        let mut any = false;
        while let Some((at_ps, pdu)) =
            ethernet.to(BRIDGE).and_then(|in_flight| in_flight.arrived(now_ps))
        {
            any = true;
            let Some(burst) = pdu.into_frames() else { continue };
            burst.each().for_each(|frame| bridge.take_frame(&frame, at_ps));
            bridge.act(at_ps, atm, ethernet);
        }
        while let Some((at_ps, pdu)) =
            atm.to(BRIDGE).and_then(|in_flight| in_flight.arrived(now_ps))
        {
            any = true;
            match pdu {
                Pdu::Cells(train) => bridge.take_cells(train, at_ps, ethernet),
                Pdu::Signal(signal) => bridge.take_signal(*signal, at_ps),
                Pdu::Frames(_) => {}
            }
            bridge.act(at_ps, atm, ethernet);
        }
        if bridge.due_ps().is_some_and(|due_ps| due_ps <= now_ps) {
            any = true;
            bridge.poll(now_ps);
            bridge.act(now_ps, atm, ethernet);
        }
        any
    }
}

impl Bridge {
    fn due_ps(&self) -> Option<u64> {
        let assemblies = self.channels.values().filter_map(|one| one.assembly.due_ps()).min();
        let own = [self.look, self.settled].into_iter().flatten().min().map(ps);
        earlier(earlier(self.lane.due_ps(true), assemblies), own)
    }

    /// Takes a frame of a station behind the bridge.
    fn take_frame(&mut self, frame: &WireFrame, at_ps: u64) {
        let Some(Addresses { source, .. }) = Addresses::of(frame.head()) else { return };
        self.shared.counters.in_frames.add(1);
        if source.cast() == Cast::Unicast {
            self.learn(source, at_ps);
        }
        let waits_ps = self.line.free_at_ps().saturating_sub(at_ps);
        if waits_ps > self.line.time_ps(QUEUE_OCTETS) {
            self.shared.counters.full.add(1);
            return;
        }
        // the machine looks at the length of the frame too
        self.lane.handle(at_ps, ClientEvent::Frame(LaneUnit::Octets(frame.to_vec())));
    }

    fn learn(&mut self, station: MacAddress, at_ps: u64) {
        let is_known = self.stations.contains_key(&station);
        if !is_known && self.stations.len() >= MAX_STATIONS {
            self.shared.counters.not_learnt.add(1);
            return;
        }
        if !is_known {
            self.lane.handle(at_ps, ClientEvent::Behind(station));
        }
        self.stations.insert(station, time(at_ps));
        self.look.get_or_insert(time(at_ps) + AGEING);
    }

    fn take_signal(&mut self, signal: Signal, at_ps: u64) {
        match self.lane.signalled(signal, at_ps) {
            Change::Nothing => {}
            Change::Opened(connection, ..) => {
                let assembly = Assembly::new(self.lane.longest());
                let headers = Headers::of(connection);
                self.channels.insert(connection, Channel { headers, assembly });
            }
            Change::Closed(connection) => _ = self.channels.remove(&connection),
            Change::Cleared => self.channels.clear(),
        }
    }

    /// Takes cells of a connection. Frames in them go to the Ethernet switch.
    fn take_cells(&mut self, train: CellTrain, at_ps: u64, ethernet: &mut Switch) {
        let connection = match &train {
            CellTrain::Run(run) => run.headers.connection(),
            // the switch has checked the header
            CellTrain::Lone(cell) => Header::read(cell::header(cell)).connection,
        };
        let Some(channel) = self.channels.get_mut(&connection) else { return };
        let done = match train {
            CellTrain::Run(run) => channel.assembly.take_run(run, at_ps),
            CellTrain::Lone(cell) => {
                let is_last = Header::read(cell::header(&cell)).payload_type.is_last();
                channel.assembly.take_cell(cell::payload(&cell), is_last, at_ps)
            }
        };
        match done {
            None => {}
            Some(Err(_)) => self.shared.counters.defects.add(1),
            Some(Ok(received)) => self.take_unit(connection, received, at_ps, ethernet),
        }
    }

    fn take_unit(
        &mut self,
        connection: Connection,
        received: Received,
        at_ps: u64,
        ethernet: &mut Switch,
    ) {
        for unit in self.lane.received(connection, received, at_ps) {
            self.pass_on(unit, at_ps, ethernet);
        }
    }

    /// Passes a frame of the ELAN on to the Ethernet switch.
    fn pass_on(&mut self, unit: LaneUnit, at_ps: u64, ethernet: &mut Switch) {
        // an Ethernet frame begins with its header, and a unit of AAL5 with the memory of its host
        let frame = WireFrame::copied(unit.frame().to_vec());
        let source = Addresses::of(frame.head()).map(|addresses| addresses.source);
        // a station that was behind the bridge has moved
        if let Some(source) = source.filter(|source| self.stations.remove(source).is_some()) {
            self.lane.handle(at_ps, ClientEvent::NotBehind(source));
        }
        self.shared.counters.out_frames.add(1);
        ethernet.enter(BRIDGE, frame.into(), at_ps);
    }

    /// Does what the client wants, from `at_ps` on.
    fn act(&mut self, at_ps: u64, atm: &mut AtmSwitch, ethernet: &mut Switch) {
        let shared = Arc::clone(&self.shared);
        let mut frames = Vec::new();
        let Self { lane, line, channels, .. } = self;
        lane.act(Some(&shared.lane), |outgoing| match outgoing {
            Outgoing::Frame(unit) => frames.push(unit),
            Outgoing::Unit(unit) => {
                let unit = unit.and_then(|(connection, unit)| {
                    Some((channels.get(&connection)?.headers, unit))
                });
                if let Some((headers, unit)) = unit {
                    send(headers, Arc::new(unit), line, at_ps, atm);
                }
            }
        });
        for signal in lane.take_signals(at_ps, true, Some(&shared.lane)) {
            // behind the cells that are on their way
            atm.enter(BRIDGE, signal.into(), at_ps.max(line.free_at_ps()));
        }
        frames.into_iter().for_each(|unit| self.pass_on(unit, at_ps, ethernet));
    }

    /// Does what is due by `now_ps`.
    fn poll(&mut self, now_ps: u64) {
        let now = time(now_ps);
        self.lane.poll(now_ps, true);
        for channel in self.channels.values_mut() {
            if channel.assembly.expire(now_ps).is_some() {
                self.shared.counters.defects.add(1);
            }
        }
        if self.look.is_some_and(|at| at <= now) {
            self.forget(now_ps, |seen| seen + AGEING <= now);
        }
        if self.settled.is_some_and(|at| at <= now) {
            self.settled = None;
            self.lane.handle(now_ps, ClientEvent::Topology { changing: false });
        }
    }

    /// Forgets stations, by when they were heard last.
    fn forget(&mut self, now_ps: u64, is_gone: impl Fn(Duration) -> bool) {
        let gone: Vec<MacAddress> =
            self.stations.iter().filter(|(_, seen)| is_gone(**seen)).map(|(mac, _)| *mac).collect();
        for mac in gone {
            self.stations.remove(&mac);
            self.lane.handle(now_ps, ClientEvent::NotBehind(mac));
        }
        self.look = self.stations.values().min().map(|oldest| *oldest + AGEING);
    }

    /// An Ethernet port has lost its carrier.
    fn topology_changes(&mut self, now_ps: u64) {
        self.shared.counters.topology_changes.add(1);
        self.forget(now_ps, |_| true);
        self.settled = Some(time(now_ps) + TOPOLOGY_CHANGE);
        self.lane.handle(now_ps, ClientEvent::Topology { changing: true });
    }
}

/// Sends a unit to the ATM switch, as soon as the line is free.
fn send(headers: Headers, unit: Arc<Unit>, line: &mut Line, at_ps: u64, atm: &mut AtmSwitch) {
    let spacing_ps = line.time_ps(CELL as u64);
    for start in (0..unit.cells()).step_by(TRAIN_CELLS as usize) {
        let range = start..(start + TRAIN_CELLS).min(unit.cells());
        let at = line.occupy_octets(at_ps, range.len() as u64 * CELL as u64);
        let run = Run { unit: Arc::clone(&unit), headers, range, spacing_ps };
        atm.enter(BRIDGE, CellTrain::Run(run).into(), at.end_ps);
    }
}

impl Fabric for Bridged {
    fn attach(&mut self, number: usize, link: LinkSpec, switch: usize) {
        if self.laws.len() <= number {
            self.laws.resize(number + 1, None);
        }
        self.laws[number] = Some(link.law);
        if let Some(at) = self.at(number) {
            at.attach(at_switch(number), link, switch);
        }
    }

    fn detach(&mut self, number: usize) {
        let Some(law) = self.law(number) else { return };
        if let Some(at) = self.at(number) {
            at.detach(at_switch(number));
        }
        self.laws[number] = None;
        if let (LinkLaw::Ethernet, Some(bridge)) = (law, &mut self.bridge) {
            bridge.topology_changes(self.now_ps);
        }
    }

    fn set_link(&mut self, number: usize, rate: Option<BitRate>, up: bool) {
        if let Some(at) = self.at(number) {
            at.set_link(at_switch(number), rate, up);
        }
        let is_lost = self.law(number) == Some(LinkLaw::Ethernet) && !up;
        if let Some(bridge) = self.bridge.as_mut().filter(|_| is_lost) {
            bridge.topology_changes(self.now_ps);
        }
    }

    fn cut(&mut self, number: usize, now_ps: u64) {
        if let Some(at) = self.at(number) {
            at.cut(at_switch(number), now_ps);
        }
    }

    fn control(&mut self, command: FabricCommand) {
        use FabricCommand::{Bridge, Connect, CountCells, Emulate, ServeAddresses, SetDiscard};
        use FabricCommand::{SetGroup, SetSwitchAlive, SetVlans};
        let there = |(port, connection): End| (at_switch(port), connection);
        let command = match command {
            SetVlans(port, vlans, counters) => {
                return self.ethernet.control(SetVlans(at_switch(port), vlans, counters));
            }
            SetSwitchAlive(0, alive) => return self.set_alive(alive),
            Bridge(station, link, shared) => return self.bridge(&station, link, shared),
            Connect(one, other) => Connect(there(one), there(other)),
            SetDiscard(port, discard) => SetDiscard(at_switch(port), discard),
            CountCells(port, counters) => CountCells(at_switch(port), counters),
            Emulate(..) | ServeAddresses(_) => command,
            SetGroup(..) | SetSwitchAlive(..) => return,
        };
        self.atm.control(command);
    }

    fn enter(&mut self, from: usize, pdu: Pdu, at_ps: u64) {
        if let Some(at) = self.at(from) {
            at.enter(at_switch(from), pdu, at_ps);
        }
    }

    fn forward(&mut self, now_ps: u64) -> bool {
        self.now_ps = self.now_ps.max(now_ps);
        let mut any = false;
        while self.atm.forward(now_ps) | self.ethernet.forward(now_ps) | self.serve_bridge(now_ps) {
            any = true;
        }
        any
    }

    fn due_ps(&self, when: &dyn Fn(&InFlight) -> Option<u64>) -> Option<u64> {
        let to_bridge = earlier(
            self.atm.outwards(BRIDGE).and_then(when),
            self.ethernet.outwards(BRIDGE).and_then(when),
        );
        let bridge = self.bridge.as_ref().filter(|_| !self.dead).and_then(Bridge::due_ps);
        let switches = earlier(self.atm.due_ps(when), self.ethernet.due_ps(when));
        earlier(earlier(switches, to_bridge), bridge)
    }

    fn to(&mut self, to: usize) -> Option<&mut InFlight> {
        self.at(to)?.to(at_switch(to))
    }
}

#[cfg(test)]
mod tests;
