//! The receive half of an ATM port: cells from the link become packets for the host.

use linkrate_wire::atm::cell::{self, Cell, Header};
use linkrate_wire::atm::hec::Found;
use linkrate_wire::atm::{CELL, Defect, snap};
use linkrate_wire::control::arp;
use linkrate_wire::control::atmarp::{AtmArp, Operation};
use linkrate_wire::erf;
use linkrate_wire::frame::{ipv4, ipv6};
use linkrate_wire::lro::{Delivery, Reason};
use linkrate_wire::vnet::VnetHeader;

use super::Atm;
use crate::atm::assembly::Received;
use crate::cells::CellTrain;
use crate::clock::time;
use crate::device::host_bus::ToHost;
use crate::frame::WireFrame;
use crate::interface::rings::RxDescriptor;

/// The queue that packets come up by: the port has one.
const QUEUE: usize = 0;

impl Atm {
    /// Takes cells, the last bit of which came at `at_ps`.
    pub(super) fn arrived(&mut self, train: CellTrain, at_ps: u64, now_ps: u64) {
        self.active_ps = now_ps;
        let count = train.count();
        if !self.links[0].received_cells(count) {
            return;
        }
        let counters = &self.atm.counters;
        counters.rx_cells.add(count as u64);
        let completed = match train {
            CellTrain::Run(run) => {
                // its headers are those that both ends have computed for the connection
                self.headers.right();
                let known = |headers| headers == run.headers;
                match self.channels.iter_mut().find(|channel| known(channel.headers)) {
                    Some(channel) => {
                        channel.shared.rx_cells.add(count as u64);
                        channel.assembly.take_run(run, at_ps).map(|done| (channel.number, done))
                    }
                    None => {
                        counters.unknown.add(count as u64);
                        None
                    }
                }
            }
            CellTrain::Lone(cell) => {
                self.capture(at_ps, |origin, record| erf::cell(origin, &cell, record));
                self.take_cell(&cell, at_ps)
            }
        };
        match completed {
            None => {}
            Some((channel, Ok(received))) => self.take_unit(channel, received, at_ps, now_ps),
            Some((channel, Err(defect))) => self.count_defect(channel, defect),
        }
    }

    fn capture(&self, at_ps: u64, write: impl FnOnce(erf::Origin, &mut Vec<u8>)) {
        let at_ns = self.host.clock.monotonic_ns(at_ps);
        self.shared.capture.cells(0, at_ns, false, &self.shared.counters, write);
    }

    /// Takes a cell whose header may be wrong.
    fn take_cell(&mut self, cell: &Cell, at_ps: u64) -> Option<(usize, Result<Received, Defect>)> {
        let counters = &self.atm.counters;
        let cell_ps = self.links[0].time_ps(CELL as u64);
        let header = match self.headers.check(cell::header(cell), at_ps, cell_ps) {
            Found::Right => cell::header(cell),
            Found::Corrected(header) => {
                counters.hec_corrected.add(1);
                header
            }
            Found::Wrong => {
                counters.hec_dropped.add(1);
                self.links[0].shared.counters.in_errors.add(1);
                return None;
            }
        };
        let Header { connection, payload_type, .. } = Header::read(header);
        let mut channels = self.channels.iter_mut();
        let channel = channels.find(|channel| channel.headers.connection() == connection);
        match channel.filter(|_| payload_type.is_data()) {
            Some(channel) => {
                channel.shared.rx_cells.add(1);
                let (payload, is_last) = (cell::payload(cell), payload_type.is_last());
                let done = channel.assembly.take_cell(payload, is_last, at_ps);
                done.map(|done| (channel.number, done))
            }
            None => {
                counters.unknown.add(1);
                None
            }
        }
    }

    /// Counts a unit that a channel did not receive.
    pub(super) fn count_defect(&self, channel: usize, defect: Defect) {
        self.channels[channel].shared.defects.count(defect);
        self.atm.defects.count(defect);
        // RFC 2515: units with an error of AAL5 are errors of the interface
        self.links[0].shared.counters.in_errors.add(1);
    }

    fn take_unit(&mut self, channel: usize, received: Received, at_ps: u64, now_ps: u64) {
        let connection = self.channels[channel].headers.connection();
        self.capture(at_ps, |origin, record| match &received {
            Received::Whole(unit) => erf::whole(origin, connection, &unit.pieces(), record),
            Received::Copied(octets) => erf::unit(origin, connection, 0, &[octets], record),
        });
        if self.lane.is_some() {
            return self.take_lane_unit(channel, received, at_ps, now_ps);
        }
        let (ether_type, frame) = match received {
            Received::Whole(unit) => (ether_type(unit.head()), unit.packet().clone()),
            Received::Copied(octets) => {
                let packet = octets.get(snap::HEADER..).unwrap_or_default();
                (ether_type(&octets), WireFrame::copied(packet.to_vec()))
            }
        };
        match ether_type {
            Some(ipv4::ETHER_TYPE | ipv6::ETHER_TYPE) => self.bring_up(frame, at_ps, now_ps),
            Some(arp::ETHER_TYPE) if self.resolution.is_some() || self.switched.is_some() => {
                self.take_message(channel, &frame.to_vec(), at_ps);
            }
            _ => self.atm.counters.unknown_protocol.add(1),
        }
    }

    fn take_message(&mut self, channel: usize, message: &[u8], at_ps: u64) {
        let Ok(message) = AtmArp::parse(message) else {
            self.atm.counters.unknown_protocol.add(1);
            return;
        };
        let reported =
            matches!(message.operation, Operation::InverseRequest | Operation::InverseReply);
        if reported {
            self.channels[channel].shared.set_peer(message.source);
        }
        self.links[0].shared.counters.in_unicast.add(1);
        match &mut self.resolution {
            Some(resolution) => resolution.received(time(at_ps), channel, message),
            None => self.take_switched_message(channel, message, at_ps),
        }
    }

    /// Brings a packet or frame to the host over the bus.
    pub(super) fn bring_up(&mut self, frame: WireFrame, at_ps: u64, now_ps: u64) {
        match self.bus.towards_host(frame, at_ps, now_ps, (&self.host.clock, &self.links[0])) {
            ToHost::There(frame, done_ps) => self.hand_up(frame, done_ps),
            ToHost::Waits => {}
            ToHost::Lost => {
                self.shared.counters.rx_drop_fifo.add(1);
                self.links[0].shared.counters.in_discards.add(1);
            }
        }
    }

    /// Hands up the packets that the bus has carried by now.
    pub(super) fn carried(&mut self, now_ps: u64) -> bool {
        let mut any = false;
        while let Some((packet, done_ps)) = self.bus.carried(now_ps) {
            self.hand_up(packet, done_ps);
            any = true;
        }
        any
    }

    fn hand_up(&mut self, frame: WireFrame, at_ps: u64) {
        self.links[0].shared.counters.in_unicast.add(1);
        self.host.interface.place(QUEUE, 1, at_ps);
        let delivery = Delivery::Frame { frame: frame.into(), reason: Reason::Flushed };
        // no checksum was looked at: that is the host's work
        let vnet = VnetHeader::default();
        let descriptor = RxDescriptor { vnet, delivery, replaced: None, unmade: None };
        self.host.push(QUEUE, descriptor, at_ps);
    }
}

/// The EtherType that a unit begins with.
fn ether_type(unit: &[u8]) -> Option<u16> {
    snap::split(unit).map(|(ether_type, _)| ether_type)
}
