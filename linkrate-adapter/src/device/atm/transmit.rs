//! The transmit half of an ATM port: packets of the host become cells on the link.

use std::sync::Arc;

use linkrate_wire::atm::{CELL, snap};
use linkrate_wire::control::{AtmArp, arp};
use linkrate_wire::erf;
use linkrate_wire::frame::packet;
use linkrate_wire::segment::Cut;
use linkrate_wire::vnet::{Form, VnetHeader};

use super::{Atm, TRAIN_CELLS, time};
use crate::cells::{CellTrain, Run, Unit};
use crate::device::posting::{self, BUDGET, FIFO_BYTES};
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
        self.interface.fetch(posting::fetch_bytes(&self.links[0]));
        for _ in 0..BUDGET {
            if self.ahead_ps > full_ps || bytes >= FIFO_BYTES {
                break;
            }
            let Some((queue, descriptor)) = self.interface.next_posted() else { break };
            sent = true;
            self.active_ps = now_ps;
            bytes += descriptor.length as u64;
            let end_ps = self.send(&descriptor, wire);
            self.interface.sent(queue, end_ps);
        }
        sent
    }

    /// Sends one packet of the host. Returns the time at which its last bit has left.
    fn send(&mut self, descriptor: &TxDescriptor, wire: &mut impl FnMut(CellTrain, u64)) -> u64 {
        let shared = Arc::clone(&self.shared);
        let (counters, link) = (&shared.counters, &shared.first_link().counters);
        let ready_ps = self.clock.at_ps(descriptor.posted_ns);
        let packet = descriptor.block.bytes(VNET_BYTES..descriptor.length);
        counters.tx_host_octets.add(packet.len() as u64);
        counters.tx_host_packets.add(1);
        shared.capture.host(descriptor.posted_ns, true, &[packet], counters);
        if !shared.first_link().is_up() {
            link.tx_drop_link_down.add(1);
            link.out_discards.add(1);
            return ready_ps;
        }
        let (channel, unit) = match self.unit(descriptor) {
            Ok(ready) => ready,
            Err(why) => {
                match why {
                    Unsendable::Malformed => &counters.tx_drop_malformed,
                    Unsendable::Oversized => &counters.tx_drop_oversized,
                    Unsendable::Unresolved => &shared.atm.unresolved,
                }
                .add(1);
                link.out_errors.add(1);
                return ready_ps;
            }
        };
        self.put_on_link(Arc::new(unit), channel, ready_ps, wire)
    }

    /// Sends a message of address resolution, if the link is up.
    pub(super) fn send_message(
        &mut self,
        channel: usize,
        message: AtmArp,
        now_ps: u64,
        wire: &mut impl FnMut(CellTrain, u64),
    ) {
        let unit = Unit::new(&snap::header(arp::ETHER_TYPE), WireFrame::copied(message.emit()));
        if let Ok(unit) = unit
            && self.links[0].shared.is_up()
        {
            self.put_on_link(Arc::new(unit), channel, now_ps, wire);
        }
    }

    /// Sends the cells of a unit on a channel, as soon as they are ready and the link is free. Returns
    /// the time at which the last bit has left.
    fn put_on_link(
        &mut self,
        unit: Arc<Unit>,
        channel: usize,
        ready_ps: u64,
        wire: &mut impl FnMut(CellTrain, u64),
    ) -> u64 {
        let (link, way) = (&mut self.links[0], &mut self.channels[channel]);
        let octets = unit.head().len() + unit.packet().len();
        let at = link.occupy(ready_ps, octets);
        let counted = link.counted_octets(octets);
        let cells = unit.cells();
        let cell_ps = link.time_ps(CELL as u64);
        // a connection with a peak rate leaves slots of the line to the others
        let (end_ps, spacing_ps) = match &mut way.shaper {
            None => (at.end_ps, cell_ps),
            Some(shaper) => {
                let (mut first_ps, mut last_ps) = (None, at.start_ps);
                for _ in 0..cells {
                    last_ps = shaper.earliest_ps(last_ps);
                    shaper.sent(last_ps);
                    first_ps = first_ps.or(Some(last_ps));
                }
                let apart_ps = last_ps - first_ps.unwrap_or(last_ps);
                let spacing_ps = apart_ps.checked_div(u64::from(cells) - 1).unwrap_or(cell_ps);
                (at.end_ps.max(last_ps + cell_ps), spacing_ps.max(cell_ps))
            }
        };
        self.ahead_ps = self.ahead_ps.max(end_ps);
        let at_ns = self.clock.monotonic_ns(at.start_ps);
        self.shared.capture.cells(0, at_ns, true, &self.shared.counters, |origin, record| {
            erf::whole(origin, way.headers.connection(), &unit.pieces(), record);
        });
        for start in (0..cells).step_by(TRAIN_CELLS as usize) {
            let range = start..(start + TRAIN_CELLS).min(cells);
            let train_ps = end_ps - u64::from(cells - range.end) * spacing_ps;
            let (unit, headers) = (Arc::clone(&unit), way.headers);
            wire(CellTrain::Run(Run { unit, headers, range, spacing_ps }), train_ps);
        }
        link.sent_units(1, counted);
        self.shared.atm.tx_cells.add(u64::from(cells));
        if let Some(shared) = self.shared.channels.get().and_then(|all| all.get(channel)) {
            shared.tx_cells.add(u64::from(cells));
        }
        end_ps
    }

    /// The unit of a packet of the host, and the channel to its destination.
    fn unit(&mut self, descriptor: &TxDescriptor) -> Result<(usize, Unit), Unsendable> {
        let bytes = descriptor.block.bytes(0..descriptor.length);
        let Ok((vnet, packet)) = VnetHeader::parse(bytes, Form::Plain) else {
            return Err(Unsendable::Malformed);
        };
        // the adapter cuts nothing and makes no checksum
        if vnet.gso.is_some() || vnet.checksum.is_some() {
            return Err(Unsendable::Malformed);
        }
        let ether_type = packet::ether_type(packet).ok_or(Unsendable::Malformed)?;
        if packet.len() > self.largest_packet {
            return Err(Unsendable::Oversized);
        }
        let channel = match (&mut self.resolution, self.channels.len()) {
            // it leads to the only other end that there is
            (_, 1) => 0,
            (Some(resolution), _) => {
                let ip = packet::destination(packet).ok_or(Unsendable::Unresolved)?;
                let now = time(self.clock.at_ps(descriptor.posted_ns));
                resolution.channel_to(now, ip).ok_or(Unsendable::Unresolved)?
            }
            (None, _) => return Err(Unsendable::Unresolved),
        };
        let frame = if packet.len() <= SHORT {
            WireFrame::copied(packet.to_vec())
        } else {
            let payload = 0..packet.len() as u32;
            let filled = self.trains.with_free(|train| {
                train.clear();
                train.cuts.push(Cut { header: 0..0, payload });
                train.block = Some(Arc::clone(&descriptor.block));
                train.base = VNET_BYTES;
                Ok::<_, Unsendable>(())
            });
            Burst::of(&filled?.0, 0..1).first()
        };
        let unit = Unit::new(&snap::header(ether_type), frame);
        Ok((channel, unit.map_err(|_| Unsendable::Oversized)?))
    }
}
