//! The transmit half of an ATM port: packets of the host become cells on the link.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;

use linkrate_wire::atm::{CELL, snap};
use linkrate_wire::control::AtmArp;
use linkrate_wire::segment::Cut;
use linkrate_wire::vnet::{Form, VnetHeader};
use linkrate_wire::{erf, frame};

use super::Atm;
use crate::atm::message_unit;
use crate::bus::DESCRIPTOR_BYTES;
use crate::cells::{CellTrain, Run, TRAIN_CELLS, Unit};
use crate::clock::time;
use crate::device::tx_prefetch::{self, BUDGET, FIFO_BYTES};
use crate::frame::{Burst, VNET_BYTES, WireFrame};
use crate::interface::rings::TxDescriptor;

/// A packet up to this length is copied, so that its block is free at once.
const SHORT: usize = 256;

/// Why a packet of the host is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unsendable {
    /// No IP packet, or one that is not complete.
    Malformed,
    Oversized,
    /// No connection leads to its destination.
    Unresolved,
}

/// The way of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Towards {
    Channel(usize),
    /// It waits for a call to this address.
    Call(Ipv4Addr),
}

impl Atm {
    /// Sends posted packets, as far ahead as the FIFO reaches. Trains go to `wire` with the time at
    /// which their last bit is on the link. Says whether anything was sent.
    pub(super) fn send_posted(
        &mut self,
        now_ps: u64,
        wire: &mut impl FnMut(CellTrain, u64),
    ) -> bool {
        let full_ps = now_ps + self.links[0].time_ps(FIFO_BYTES);
        let (mut sent, mut bytes) = (false, 0);
        self.host.interface.fetch(tx_prefetch::fetch_bytes(&self.links[0]));
        for _ in 0..BUDGET {
            if self.ahead_ps > full_ps || bytes >= FIFO_BYTES || self.is_held() {
                break;
            }
            let Some((queue, descriptor)) = self.host.interface.next_posted() else { break };
            sent = true;
            self.active_ps = now_ps;
            bytes += descriptor.length as u64;
            let end_ps = self.send(&descriptor, wire);
            self.host.sent(queue, &descriptor, end_ps);
        }
        self.release(full_ps, wire) || sent
    }

    /// Sends one packet of the host. Returns the time at which its last bit has left.
    fn send(&mut self, descriptor: &TxDescriptor, wire: &mut impl FnMut(CellTrain, u64)) -> u64 {
        let shared = Arc::clone(&self.shared);
        let (counters, link) = (&shared.counters, &shared.first_link().counters);
        let ready_ps = self.host.clock.at_ps(descriptor.posted_ns);
        let packet = descriptor.block.bytes(VNET_BYTES..descriptor.length);
        counters.tx_host_octets.add(packet.len() as u64);
        counters.tx_host_packets.add(1);
        shared.capture.host(descriptor.posted_ns, true, &[packet], counters);
        if !shared.first_link().is_up() {
            link.tx_drop_link_down.add(1);
            link.out_discards.add(1);
            return ready_ps;
        }
        // the packet comes over the bus once, and is cut behind it
        let on_bus = packet.len() + DESCRIPTOR_BYTES;
        let ready_ps = ready_ps + self.bus.to_device_ps(descriptor.posted_ns, on_bus);
        if self.lane.is_some() {
            return self.send_frame(descriptor, ready_ps, wire);
        }
        let (towards, unit) = match self.unit(descriptor) {
            Ok(ready) => ready,
            Err(why) => {
                match why {
                    Unsendable::Malformed => &counters.tx_drop_malformed,
                    Unsendable::Oversized => &counters.tx_drop_oversized,
                    Unsendable::Unresolved => &self.atm.counters.unresolved,
                }
                .add(1);
                link.out_errors.add(1);
                return ready_ps;
            }
        };
        match towards {
            Towards::Channel(channel) => self.put_on_link(Arc::new(unit), channel, ready_ps, wire),
            Towards::Call(ip) => {
                self.hold(ip, unit);
                ready_ps
            }
        }
    }

    /// Sends a message of address resolution, if the link is up.
    pub(super) fn send_message(
        &mut self,
        channel: usize,
        message: AtmArp,
        now_ps: u64,
        wire: &mut impl FnMut(CellTrain, u64),
    ) {
        if let Some(unit) = message_unit(&message)
            && self.links[0].shared.is_up()
        {
            self.put_on_link(Arc::new(unit), channel, now_ps, wire);
        }
    }

    /// Sends the cells of a unit on a channel, as soon as they are ready and the link is free, or as its
    /// peak rate lets them go. Returns the time at which the host may use the memory of the packet
    /// again.
    pub(super) fn put_on_link(
        &mut self,
        unit: Arc<Unit>,
        channel: usize,
        ready_ps: u64,
        wire: &mut impl FnMut(CellTrain, u64),
    ) -> u64 {
        if let Some(shaping) = &mut self.channels[channel].shaping {
            if shaping.is_full() {
                self.atm.counters.peak_rate_full.add(1);
                self.links[0].shared.counters.out_discards.add(1);
            } else {
                shaping.add(unit, ready_ps);
            }
            return ready_ps;
        }
        let link = &mut self.links[0];
        let at = link.occupy(ready_ps, unit.head().len() + unit.packet().len());
        let cell_ps = link.time_ps(CELL as u64);
        self.ahead_ps = self.ahead_ps.max(at.end_ps);
        let cells = unit.cells();
        for start in (0..cells).step_by(TRAIN_CELLS as usize) {
            let range = start..(start + TRAIN_CELLS).min(cells);
            let end_ps = at.end_ps - u64::from(cells - range.end) * cell_ps;
            self.put_cells(channel, &unit, range, (at.start_ps, end_ps, cell_ps), wire);
        }
        at.end_ps
    }

    /// Hands cells of a unit to the link, which they occupy already. The times are those of the first
    /// bit and the last one, and that from cell to cell.
    pub(super) fn put_cells(
        &mut self,
        channel: usize,
        unit: &Arc<Unit>,
        range: Range<u32>,
        (start_ps, end_ps, spacing_ps): (u64, u64, u64),
        wire: &mut impl FnMut(CellTrain, u64),
    ) {
        let (link, headers) = (&self.links[0], self.channels[channel].headers);
        if range.start == 0 {
            let at_ns = self.host.clock.monotonic_ns(start_ps);
            self.shared.capture.cells(0, at_ns, true, &self.shared.counters, |origin, record| {
                erf::whole(origin, headers.connection(), &unit.pieces(), record);
            });
        }
        let (ends, cells) = (range.end == unit.cells(), range.len() as u64);
        let run = Run { unit: Arc::clone(unit), headers, range, spacing_ps };
        wire(CellTrain::Run(run), end_ps);
        link.sent_units(u64::from(ends), cells * CELL as u64);
        self.atm.counters.tx_cells.add(cells);
        self.channels[channel].shared.tx_cells.add(cells);
    }

    /// The unit of a packet of the host, and its way.
    fn unit(&mut self, descriptor: &TxDescriptor) -> Result<(Towards, Unit), Unsendable> {
        let bytes = descriptor.block.bytes(0..descriptor.length);
        let Ok((vnet, packet)) = VnetHeader::parse(bytes, Form::Plain) else {
            return Err(Unsendable::Malformed);
        };
        // the adapter cuts nothing and makes no checksum
        if vnet.gso.is_some() || vnet.checksum.is_some() {
            return Err(Unsendable::Malformed);
        }
        let ether_type = frame::ether_type_of(packet).ok_or(Unsendable::Malformed)?;
        if packet.len() > self.largest_packet {
            return Err(Unsendable::Oversized);
        }
        let ready_ps = self.host.clock.at_ps(descriptor.posted_ns);
        let towards = match (&mut self.resolution, self.channels.len()) {
            (None, _) if self.switched.is_some() => {
                let ip = frame::destination_of(packet).ok_or(Unsendable::Unresolved)?;
                let channel = self.switched_channel(ip, ready_ps);
                channel.map_or(Towards::Call(ip), Towards::Channel)
            }
            // it leads to the only other end that there is
            (_, 1) => Towards::Channel(0),
            (Some(resolution), _) => {
                let ip = frame::destination_of(packet).ok_or(Unsendable::Unresolved)?;
                let channel = resolution.channel_to(time(ready_ps), ip);
                Towards::Channel(channel.ok_or(Unsendable::Unresolved)?)
            }
            (None, _) => return Err(Unsendable::Unresolved),
        };
        let frame = if packet.len() <= SHORT {
            WireFrame::copied(packet.to_vec())
        } else {
            let payload = 0..packet.len() as u32;
            let filled = self.trains.with_free(|train| {
                train.clear();
                train.cuts.push(Cut { header: 0..0, payload, sum: None });
                train.block = Some(Arc::clone(&descriptor.block));
                train.base = VNET_BYTES;
                Ok::<_, Unsendable>(())
            });
            Burst::of(&filled?.0, 0..1).first()
        };
        let unit = Unit::new(&snap::header(ether_type), frame);
        Ok((towards, unit.map_err(|_| Unsendable::Oversized)?))
    }
}
