//! An ATM adapter: AAL5 segmentation and reassembly between one interface of IP packets and one link
//! (Classical IP, RFC 2225, with LLC/SNAP of RFC 2684).
//!
//! The adapter adds encapsulation, padding and trailer to a packet and describes its cells as trains
//! ([`cells`](crate::cells)). A train has [`TRAIN_CELLS`](crate::cells::TRAIN_CELLS) cells at most, so that connections share a line
//! cell by cell nearly. Received trains of a unit are put together without a copy ([`assembly`]).
//!
//! The adapter has no offloads: packets of its host are complete and as long as the MTU at most.

pub(crate) mod clients;
mod lane;
mod receive;
mod resolution;
mod shaping;
pub(crate) mod switched;
mod transmit;

use std::net::Ipv4Addr;
use std::sync::Arc;

use linkrate_model::{AtmKnobs, BitRate, Model, PortKnobs};
use linkrate_wire::atm::cell::Headers;
use linkrate_wire::atm::{AtmAddress, Connection, hec, snap};
use linkrate_wire::machine::call::Purpose;

use super::host_bus::HostBus;
use super::host_ring::HostRing;
use super::tx_prefetch::{self, Activity};
use super::{Device, FrameSink, Mount};
use crate::atm::assembly::Assembly;
use crate::atm::lane::{Lane, LaneShared, LaneStation};
use crate::atm::{ArpShared, AtmShared, ChannelShared};
use crate::cells::CellTrain;
use crate::clock::{earlier, time};
use crate::fabric::InFlight;
use crate::frame::Train;
use crate::interface::moderation::{Adaptive, Moderation, follow};
use crate::interface::{Interface, RingSizes};
use crate::link::{Link, LinkSpec};
use crate::pdu::Pdu;
use crate::pool::Pool;
use crate::port_shared::PortShared;
use resolution::Resolution;
use shaping::Shaping;
use switched::Switched;

/// Trains of packets kept for use again.
const TRAINS: usize = 1024;

/// The permanent connection of a cable.
const OF_A_CABLE: Connection = Connection { vpi: 0, vci: 100 };

/// The abilities of an ATM port.
#[derive(Debug, Clone, PartialEq)]
pub struct AtmLimits {
    pub link: LinkSpec,
    /// Largest IP packet.
    pub largest_packet: usize,
    pub rings: RingSizes,
    /// Its permanent connections.
    pub connections: Vec<Connection>,
    /// The addresses that it tells the other ends of its connections; `None` where it has one connection
    /// and tells nothing.
    pub station: Option<(AtmAddress, Ipv4Addr)>,
    /// Its connections are calls, and an ATMARP server in the switch knows the other ends. It has no
    /// permanent connections.
    pub switched: bool,
    /// The client of an emulated LAN. It has no permanent connections.
    pub lane: Option<LaneStation>,
}

impl AtmLimits {
    /// The abilities of a model's ports, with the connection of a cable.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        Self {
            link: LinkSpec::of(model),
            largest_packet: model.max_mtu as usize,
            rings: RingSizes::of(model),
            connections: vec![OF_A_CABLE],
            station: None,
            switched: model.connections.is_switched(),
            lane: LaneStation::of(model.encapsulation),
        }
    }
}

/// The device of one port. One thread owns it.
#[derive(Debug)]
pub(crate) struct Atm {
    shared: Arc<PortShared>,
    atm: Arc<AtmShared>,
    largest_packet: usize,
    /// Octets of the longest unit that its connections carry.
    longest_unit: usize,
    /// The settings that it works with, and the number of the request that asked for them.
    knobs: PortKnobs,
    request: u64,
    /// The same for those of ATM.
    atm_knobs: AtmKnobs,
    atm_request: u64,
    host: HostRing,
    bus: HostBus,
    adaptive: Adaptive,
    /// An array: the device has exactly one link.
    links: [Link; 1],
    trains: Pool<Train>,
    channels: Vec<Channel>,
    resolution: Option<Resolution>,
    /// The client of an ATMARP server.
    switched: Option<Box<Switched>>,
    lane: Option<Box<Lane>>,
    /// Its connections were opened.
    begun: bool,
    /// Its link had a carrier.
    was_up: bool,
    /// Checks the headers of the cells that arrive.
    headers: hec::Receiver,
    /// When the last cell leaves that was sent so far.
    ahead_ps: u64,
    /// When the host or the link last had packets for it.
    active_ps: u64,
}

impl Atm {
    pub(crate) fn new(limits: AtmLimits, mount: Mount) -> Self {
        let Mount { shared, interface, bus, clock } = mount;
        let host = HostRing { shared: Arc::clone(&shared), interface, clock };
        let (_, knobs) = shared.settings.requested();
        let atm = shared.atm.clone().unwrap_or_default();
        let lane = limits.lane.as_ref().map(|station| Box::new(Lane::new(station)));
        let of_packets = limits.largest_packet + snap::HEADER;
        let longest = lane.as_ref().map_or(of_packets, |lane| lane.longest());
        let channel = |(number, connection): (usize, &Connection)| Channel {
            headers: Headers::of(*connection),
            assembly: Assembly::new(longest),
            shaping: None,
            number,
            shared: Arc::new(ChannelShared::new(*connection)),
        };
        let channels: Vec<_> = limits.connections.iter().enumerate().map(channel).collect();
        *atm.channels() = channels.iter().map(|channel| Arc::clone(&channel.shared)).collect();
        if limits.lane.is_some() {
            // a device is made once
            let _ = atm.lane.set(LaneShared::default());
        }
        let switched = limits.station.filter(|_| limits.switched);
        if switched.is_some() {
            let _ = atm.atmarp.set(ArpShared::default());
        }
        let permanent = limits.station.filter(|_| !limits.switched);
        Self {
            switched: switched.map(|(atm, ip)| Box::new(Switched::new(atm, ip))),
            lane,
            longest_unit: longest,
            links: [Link::new(Arc::clone(shared.first_link()))],
            shared,
            atm,
            largest_packet: limits.largest_packet,
            knobs,
            request: 0,
            atm_knobs: AtmKnobs::default(),
            atm_request: 0,
            host,
            bus: HostBus::new(bus),
            adaptive: Adaptive::default(),
            trains: Pool::new(TRAINS, Train::default),
            channels,
            resolution: permanent.map(|(atm, ip)| Resolution::new(atm, ip)),
            begun: false,
            was_up: true,
            headers: hec::Receiver::default(),
            ahead_ps: 0,
            active_ps: 0,
        }
    }

    fn moderation(&self) -> Moderation {
        Moderation::of(&self.knobs, self.links[0].rate().is_some(), &self.adaptive)
    }

    /// Takes up requests, unless the port ignores them, and acknowledges the settings that the device
    /// works with.
    fn apply_settings(&mut self) {
        let (request, knobs) = self.shared.settings.requested();
        let (atm_request, atm_knobs) = self.atm.settings.requested();
        (self.request, self.atm_request) = (request, atm_request);
        if !self.shared.is_stuck() {
            self.knobs = knobs;
            if atm_knobs.peak_rate != self.atm_knobs.peak_rate {
                self.set_peak_rate(BitRate(f64::from(atm_knobs.peak_rate) * 1e3));
            }
            self.atm_knobs = atm_knobs;
        }
        self.shared.interface.apply_settings(&self.knobs, self.links[0].rate());
        self.shared.settings.acknowledge(request, self.knobs.clone());
        self.atm.settings.acknowledge(atm_request, self.atm_knobs.clone());
    }

    /// Raises the interrupts that are due, and says whether one was.
    fn interrupt(&mut self, now_ps: u64) -> bool {
        follow(&mut self.adaptive, &self.knobs, &self.links[0].shared.counters, now_ps);
        let (mut any, moderation) = (false, self.moderation());
        for queue in 0..self.host.interface.queues() {
            any |= self.host.complete(queue, moderation, now_ps);
            let due_ps = self.host.interface.receive_due_ps(queue, moderation);
            if let Some(due_ps) = due_ps.filter(|due_ps| *due_ps <= now_ps) {
                self.host.interrupt(queue, due_ps, now_ps);
                any = true;
            }
        }
        any
    }

    /// Sends the messages of address resolution that are due, and says whether there was any.
    fn resolve(&mut self, now_ps: u64, wire: &mut impl FnMut(CellTrain, u64)) -> bool {
        let now = time(now_ps);
        let begins = !std::mem::replace(&mut self.begun, true);
        let Some(resolution) = &mut self.resolution else { return false };
        if begins {
            (0..self.channels.len()).for_each(|channel| resolution.opened(now, channel));
        }
        let messages = resolution.poll(now);
        let any = !messages.is_empty();
        for (channel, message) in messages {
            self.send_message(channel, message, now_ps, wire);
        }
        any
    }

    fn resolution_due_ps(&self) -> Option<u64> {
        let resolution = self.resolution.as_ref()?;
        if !self.begun {
            return Some(0);
        }
        resolution.due().map(|due| due.as_nanos() as u64 * 1000)
    }

    fn refresh_settings(&mut self) {
        let Self { shared, atm, request, atm_request, .. } = &*self;
        if shared.settings.latest() != *request || atm.settings.latest() != *atm_request {
            self.apply_settings();
        }
    }

    /// The link has another state or rate.
    fn follow_link(&mut self) {
        self.shared.interface.apply_settings(&self.knobs, self.links[0].rate());
        self.follow_carrier();
    }

    fn follow_carrier(&mut self) {
        let was_up = std::mem::replace(&mut self.was_up, self.shared.first_link().is_up());
        if was_up != self.was_up {
            self.calls_cleared(self.host.clock.now_ps());
            self.switched_cleared(self.host.clock.now_ps());
        }
    }

    /// Sends messages about calls, behind the cells that are on their way.
    fn signal(&mut self, now_ps: u64, out: &mut FrameSink<'_>) {
        let at_ps = now_ps.max(self.ahead_ps);
        let signals = self.take_signals(now_ps).into_iter().chain(self.take_switched_signals());
        signals.for_each(|signal| out(0, signal.into(), at_ps));
    }

    /// Gives up units whose last cell did not come in time.
    fn expire(&mut self, now_ps: u64) -> bool {
        let late = self.channels.iter_mut().filter_map(|channel| {
            let defect = channel.assembly.expire(now_ps)?;
            Some((channel.number, defect))
        });
        let late: Vec<_> = late.collect();
        late.iter().for_each(|(channel, defect)| self.count_defect(*channel, *defect));
        !late.is_empty()
    }

    /// A call has a connection.
    fn add_channel(&mut self, connection: Connection, purpose: Purpose, peer: AtmAddress) {
        let shared = Arc::new(ChannelShared::of_call(connection, purpose, peer));
        self.atm.channels().push(Arc::clone(&shared));
        let rate = BitRate(f64::from(self.atm_knobs.peak_rate) * 1e3);
        self.channels.push(Channel {
            headers: Headers::of(connection),
            assembly: Assembly::new(self.longest_unit),
            shaping: Shaping::new(rate),
            number: self.channels.len(),
            shared,
        });
    }

    /// A connection is no more.
    fn remove_channel(&mut self, connection: Connection) {
        self.channels.retain(|channel| channel.headers.connection() != connection);
        for (number, channel) in self.channels.iter_mut().enumerate() {
            channel.number = number;
        }
        let known = self.channels.iter().map(|channel| Arc::clone(&channel.shared));
        *self.atm.channels() = known.collect();
    }
}

impl Device for Atm {
    fn refresh(&mut self, other_rate: &mut dyn FnMut(usize, &Link)) {
        self.refresh_settings();
        if self.links[0].refresh() {
            other_rate(0, &self.links[0]);
            self.follow_link();
        }
    }

    fn transmit(&mut self, now_ps: u64, out: &mut FrameSink<'_>) -> bool {
        let any = self.send_posted(now_ps, &mut |train, at_ps| out(0, train.into(), at_ps));
        self.signal(now_ps, out);
        any
    }

    fn receive(&mut self, _link: usize, pdu: Pdu, at_ps: u64, now_ps: u64) {
        match pdu {
            Pdu::Cells(train) => self.arrived(train, at_ps, now_ps),
            Pdu::Signal(signal) if self.switched.is_some() => {
                self.switched_signalled(*signal, at_ps)
            }
            Pdu::Signal(signal) => self.signalled(*signal, at_ps),
            Pdu::Frames(_) => {}
        }
    }

    fn poll(&mut self, now_ps: u64, out: &mut FrameSink<'_>) -> bool {
        let carried = self.carried(now_ps);
        let expired = self.expire(now_ps) || carried;
        let resolved = self.resolve(now_ps, &mut |train, at_ps| out(0, train.into(), at_ps));
        let lane = self.poll_lane(now_ps, &mut |train, at_ps| out(0, train.into(), at_ps))
            | self.poll_switched(now_ps, &mut |train, at_ps| out(0, train.into(), at_ps));
        self.signal(now_ps, out);
        self.interrupt(now_ps) || expired || resolved || lane
    }

    fn due_ps(&mut self, now_ps: u64) -> Option<u64> {
        // blocks go back to their drivers
        self.trains.sweep(Train::clear);
        let moderation = self.moderation();
        let release = self.release_due_ps();
        // a device that takes no packet sees none that waits
        let held_ps = release.filter(|_| self.is_held());
        let low_ps = self.links[0].time_ps(tx_prefetch::FIFO_LOW_BYTES);
        let free_at_ps = held_ps.map_or(self.ahead_ps, |due_ps| due_ps + low_ps);
        let activity = Activity { now_ps, active_ps: self.active_ps, free_at_ps, moderation };
        let transmit = tx_prefetch::transmit_due_ps(&self.host.interface, &self.links[0], activity);
        let interrupt = self.host.interface.interrupt_due_ps(moderation);
        let assemblies = self.channels.iter().map(|channel| channel.assembly.due_ps());
        let shaped = earlier(release, self.bus.due_ps());
        let own = assemblies.fold(earlier(earlier(transmit, interrupt), shaped), earlier);
        let lane = self.lane.as_ref().and_then(|lane| lane.due_ps(self.was_up));
        let switched = self.switched.as_ref().and_then(|all| all.due_ps(self.was_up));
        earlier(earlier(own, self.resolution_due_ps()), earlier(lane, switched))
    }

    fn arrival_due_ps(&self, _link: usize, in_flight: &InFlight) -> Option<u64> {
        let moderation = self.moderation();
        in_flight.take_by_ps(moderation.batch(), |first_ps| moderation.tick_ps(first_ps))
    }

    fn interface(&mut self) -> &mut Interface {
        &mut self.host.interface
    }

    fn links(&self) -> &[Link] {
        &self.links
    }
}

/// A connection, in the hands of its device.
#[derive(Debug)]
struct Channel {
    headers: Headers,
    assembly: Assembly,
    /// Holds its cells to its peak rate; `None` where the line alone does.
    shaping: Option<Shaping>,
    number: usize,
    shared: Arc<ChannelShared>,
}

#[cfg(test)]
pub(crate) mod rig;

#[cfg(test)]
mod tests;
