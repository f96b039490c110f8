//! The transmit half of a port: packets of the host become frames on the link.

use std::sync::Arc;

use linkrate_model::PortKnobs;
use linkrate_sys::prefetch::prefetch;
use linkrate_wire::checksum::Sum;
use linkrate_wire::control::is_of_the_link;
use linkrate_wire::encapsulation::{self, Encapsulation, EncapsulationError};
use linkrate_wire::frame::{ChecksumPlace, FrameError, Headers, link};
use linkrate_wire::link::LinkLaw;
use linkrate_wire::lro::Parts;
use linkrate_wire::segment::{Cut, Request, SegmentError};
use linkrate_wire::vnet::{self, Form, GsoKind, VnetError, VnetHeader};
use linkrate_wire::{tso, uso};

use super::{Nic, NicLimits};
use crate::bus::DESCRIPTOR_BYTES;
use crate::device::tx_prefetch::{self, BUDGET, FIFO_BYTES};
use crate::frame::{Block, Burst, Train, VNET_BYTES};
use crate::interface::rings::TxDescriptor;

/// A frame up to this length is copied to the headers, so that its block is free at once.
const SHORT: usize = 256;

/// Why a packet of the host is not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsendable {
    #[error(transparent)]
    Vnet(#[from] VnetError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Encapsulation(#[from] EncapsulationError),
    #[error("checksum at {start} + {offset}, expected that of the transport or one behind it")]
    Checksum { start: u16, offset: u16 },
    #[error("frame of {found} bytes, expected at most {largest}")]
    Oversized { found: usize, largest: usize },
}

impl Nic {
    /// Sends posted packets, as far ahead as the FIFO reaches. Frames go to `wire` with the time at
    /// which their last bit is on the link. Says whether anything was sent.
    pub(super) fn send_posted(&mut self, now_ps: u64, wire: &mut impl FnMut(Burst, u64)) -> bool {
        // frames of the protocols of an aggregate wait for no packet, and for no room in the FIFO
        let mut sent = false;
        while let Some(descriptor) = self.host.interface.next_control() {
            sent = true;
            self.send(&descriptor, Turn::First, wire);
        }
        let full_ps = now_ps + self.link().time_ps(FIFO_BYTES);
        let mut bytes = 0;
        self.host.interface.fetch(tx_prefetch::fetch_bytes(self.link()));
        for _ in 0..BUDGET {
            if self.link().free_at_ps() > full_ps || bytes >= FIFO_BYTES {
                break;
            }
            let Some((queue, descriptor)) = self.host.interface.next_posted() else { break };
            sent = true;
            self.active_ps = now_ps;
            bytes += descriptor.length as u64;
            let turn = match self.adapter_queue() == Some(queue) {
                true => Turn::OfAdapter,
                false => Turn::InOrder,
            };
            let end_ps = match self.lets_out(queue, &descriptor) {
                true => self.send(&descriptor, turn, wire),
                false => now_ps,
            };
            self.host.sent(queue, &descriptor, end_ps);
        }
        sent
    }

    /// Sends one packet of the host. Returns the time at which its last bit has left.
    fn send(
        &mut self,
        descriptor: &TxDescriptor,
        turn: Turn,
        wire: &mut impl FnMut(Burst, u64),
    ) -> u64 {
        if turn != Turn::OfAdapter {
            self.take_over(descriptor);
        }
        let ready_ps = self.host.clock.at_ps(descriptor.posted_ns);
        let link = self.shared.first_link();
        if !link.is_up() {
            link.counters.tx_drop_link_down.add(1);
            link.counters.out_discards.add(1);
            return ready_ps;
        }
        let Some(train) = self.prepare(descriptor, turn) else { return ready_ps };
        let takes_time = self.bus.is_limit() || self.link().rate().is_some();
        match train.segments && !takes_time && !self.shared.capture.is_on() {
            true => self.leave_together(&train, ready_ps, wire),
            false => self.leave_in_turn(&train, turn, descriptor.posted_ns, wire),
        }
    }

    /// Counts and captures a packet of the host.
    fn take_over(&self, descriptor: &TxDescriptor) {
        let TxDescriptor { block, length, posted_ns } = descriptor;
        let counters = &self.shared.counters;
        counters.tx_host_octets.add(length.saturating_sub(VNET_BYTES) as u64);
        counters.tx_host_packets.add(1);
        let packet = block.bytes(VNET_BYTES..*length);
        self.shared.capture.host(*posted_ns, true, &[packet], counters);
    }

    /// Makes the frames of a packet; `None` if it cannot be sent.
    fn prepare(&mut self, descriptor: &TxDescriptor, turn: Turn) -> Option<Arc<Train>> {
        let TxDescriptor { block, length, .. } = descriptor;
        let plain;
        let knobs = match turn {
            Turn::First if is_of_the_link(block.bytes(VNET_BYTES..*length)) => {
                // the peer of the link may be in no VLAN
                plain = PortKnobs { vlan: 0, snap: false, ..self.knobs.clone() };
                &plain
            }
            Turn::First | Turn::InOrder | Turn::OfAdapter => &self.knobs,
        };
        let limits = &self.limits;
        let cut = self.trains.with_free(|train| cut(train, block, *length, limits, knobs));
        let counters = &self.shared.counters;
        let (train, kind) = match cut {
            Ok(cut) => cut,
            Err(error) => {
                let drop = match error {
                    Unsendable::Oversized { .. } => &counters.tx_drop_oversized,
                    _ => &counters.tx_drop_malformed,
                };
                drop.add(1);
                self.shared.first_link().counters.out_errors.add(1);
                return None;
            }
        };
        match kind {
            Kind::Whole => {}
            Kind::Completed => counters.tx_checksums.add(1),
            Kind::Cut => {
                counters.tx_superframes.add(1);
                counters.tx_segments.add(train.cuts.len() as u64);
            }
        }
        Some(train)
    }

    /// Puts the segments of a superframe on a link where nothing takes time: all leave at once. Returns
    /// that time.
    fn leave_together(
        &mut self,
        train: &Arc<Train>,
        ready_ps: u64,
        wire: &mut impl FnMut(Burst, u64),
    ) -> u64 {
        let end_ps = self.links[0].occupy(ready_ps, 0).end_ps;
        let octets = |cut: &Cut| self.links[0].counted_octets(cut.header.len() + cut.payload.len());
        let octets = train.cuts.iter().map(octets).sum();
        let all = Burst::of(train, 0..train.cuts.len());
        self.links[0].sent(all.head(), train.cuts.len(), octets);
        wire(all, end_ps);
        end_ps
    }

    /// Fetches a superframe that is ready at `ready_ps` into the store, which the one before leaves when its
    /// last bit is on the link. Returns the time at which it is there.
    fn store(&mut self, train: &Train, ready_ps: u64) -> u64 {
        let room_ps = ready_ps.max(self.links[0].free_at_ps());
        let payload = train.cuts.iter().map(|cut| cut.payload.len()).sum::<usize>();
        let at_ns = self.host.clock.monotonic_ns(room_ps);
        let took_ps = self.bus.to_device_ps(at_ns, payload + DESCRIPTOR_BYTES);
        self.shared.counters.tx_store_ns.add(took_ps / 1000);
        room_ps + took_ps
    }

    /// Puts frames on the bus and on the link one behind the other. Returns the time at which the last bit
    /// has left.
    fn leave_in_turn(
        &mut self,
        train: &Arc<Train>,
        turn: Turn,
        posted_ns: u64,
        wire: &mut impl FnMut(Burst, u64),
    ) -> u64 {
        let mut ready_ps = self.host.clock.at_ps(posted_ns);
        let captured = self.shared.capture.is_on();
        let mut descriptor_bytes = DESCRIPTOR_BYTES;
        let is_stored = self.limits.stores_superframes && train.segments;
        if is_stored {
            ready_ps = self.store(train, ready_ps);
        }
        // frames with the same time travel as one burst, as on a link without a rate
        let (mut first, mut end_ps, mut octets) = (0, ready_ps, 0);
        for (index, frame) in train.cuts.iter().enumerate() {
            let length = frame.header.len() + frame.payload.len();
            // headers and the descriptor come over the bus once, payload with its frame
            let on_bus = frame.payload.len() + descriptor_bytes;
            let on_bus_ps = match is_stored {
                true => 0,
                false => self.bus.to_device_ps(posted_ns, on_bus),
            };
            descriptor_bytes = 0;
            let at = match turn {
                Turn::First => self.links[0].occupy_first(ready_ps + on_bus_ps, length),
                Turn::InOrder | Turn::OfAdapter => {
                    self.links[0].occupy(ready_ps + on_bus_ps, length)
                }
            };
            octets += self.links[0].counted_octets(length);
            if captured {
                let frame = Burst::of(train, index..index + 1).first();
                let at_ns = self.host.clock.monotonic_ns(at.start_ps);
                self.shared.capture.link(0, at_ns, true, &frame, &self.shared.counters);
            }
            let adjoins = index > first && train.cuts[index - 1].payload.end == frame.payload.start;
            if index > first && !(adjoins && at.end_ps == end_ps) {
                wire(Burst::of(train, first..index), end_ps);
                first = index;
            }
            end_ps = at.end_ps;
        }
        let last = Burst::of(train, first..train.cuts.len());
        self.links[0].sent(last.head(), train.cuts.len(), octets);
        wire(last, end_ps);
        end_ps
    }
}

/// The turn of a packet on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Before those that wait.
    First,
    /// Behind them.
    InOrder,
    /// Behind them too: a packet of the adapter's own TCP.
    OfAdapter,
}

/// The work on a packet.
enum Kind {
    /// Nothing.
    Whole,
    /// Its checksum was completed.
    Completed,
    /// It was cut.
    Cut,
}

/// Makes a train of a packet of the host.
fn cut(
    train: &mut Train,
    block: &Arc<Block>,
    length: usize,
    limits: &NicLimits,
    knobs: &PortKnobs,
) -> Result<Kind, Unsendable> {
    train.clear();
    let (vnet, packet) = VnetHeader::parse(block.bytes(0..length), Form::Plain)?;
    if limits.hand_through {
        return hand_through(train, block, packet, vnet);
    }
    let tci = (knobs.vlan != 0).then_some(knobs.vlan);
    let Some(gso) = vnet.gso else {
        let largest = limits.largest_frame + link::tag_bytes(packet);
        if packet.len() > largest {
            return Err(Unsendable::Oversized { found: packet.len(), largest });
        }
        return single(train, block, packet, &vnet, Encapsulation { vlan: tci, snap: knobs.snap });
    };
    let parsed = Headers::parse(packet)?;
    let ip = packet.len() - parsed.link.length;
    if ip > limits.superframe {
        return Err(Unsendable::Oversized { found: ip, largest: limits.superframe });
    }
    let request = Request { snap: knobs.snap, vlan: tci, ..Request::new(vnet.segment_size) };
    let (headers, cuts) = (&mut train.headers, &mut train.cuts);
    match gso.kind {
        GsoKind::Tcp4 | GsoKind::Tcp6 => {
            tso::cut_into(packet, &request, headers, cuts, prefetch)?;
            train.segments = true;
        }
        GsoKind::UdpL4 => uso::cut_into(packet, &request, headers, cuts, prefetch)?,
    }
    let found = train.cuts.iter().map(|cut| cut.header.len() + cut.payload.len()).max();
    // tags, of the host and of the adapter, and SNAP are not counted against the MTU
    let tags = link::tag_bytes(packet) + if tci.is_some() { link::TAG } else { 0 };
    let room = limits.largest_frame + tags + if knobs.snap { link::SNAP } else { 0 };
    if let Some(found) = found.filter(|found| *found > room) {
        return Err(Unsendable::Oversized { found, largest: room });
    }
    train.block = Some(Arc::clone(block));
    train.base = VNET_BYTES;
    Ok(Kind::Cut)
}

/// A packet that is one frame: its checksum is completed where the host left that to the adapter.
fn single(
    train: &mut Train,
    block: &Arc<Block>,
    packet: &[u8],
    vnet: &VnetHeader,
    wanted: Encapsulation,
) -> Result<Kind, Unsendable> {
    let encapsulated = wanted != Encapsulation::default();
    let headers = match Headers::parse(packet) {
        Ok(headers) => Some(headers),
        // a packet with a request must be well formed; other packets pass unread
        Err(error) if vnet.checksum.is_some() || encapsulated => return Err(error.into()),
        Err(_) => None,
    };
    let inner = match (&headers, vnet.checksum) {
        (Some(headers), Some(checksum)) => is_inner(headers, checksum)?,
        _ => false,
    };
    // the headers are rewritten, the payload stays where it is
    let split = match &headers {
        Some(headers) if packet.len() > SHORT && !inner => headers.payload.min(packet.len()),
        _ => packet.len(),
    };
    train.headers.extend_from_slice(&packet[..split]);
    let (mut kind, mut sum) = (Kind::Whole, None);
    if let Some(vnet::Checksum { start, offset }) = vnet.checksum {
        let tail = Sum::of(&packet[split..]);
        vnet::complete_checksum_parts(&mut train.headers, tail, start.into(), offset.into())?;
        sum = Some(tail);
        kind = Kind::Completed;
    }
    if let Some(headers) = headers.filter(|_| encapsulated) {
        let link = encapsulation::encapsulate(packet, &headers, wanted)?;
        train.headers.splice(..headers.link.length, link.iter().copied());
    }
    if split == packet.len() {
        // padding is a part of an Ethernet frame
        let padding = LinkLaw::Ethernet.padding(train.headers.len() as u64) as usize;
        train.headers.resize(train.headers.len() + padding, 0);
    }
    if split < packet.len() {
        train.block = Some(Arc::clone(block));
        train.base = VNET_BYTES;
    }
    let header = 0..train.headers.len() as u32;
    train.cuts.push(Cut { header, payload: split as u32..packet.len() as u32, sum });
    Ok(kind)
}

/// Whether a checksum belongs to the inside of the payload, as that of a tunnelled packet. A field in
/// the headers that is not the transport's checksum would overwrite other fields.
fn is_inner(headers: &Headers, checksum: vnet::Checksum) -> Result<bool, Unsendable> {
    let vnet::Checksum { start, offset } = checksum;
    let is_own = |place: ChecksumPlace| place.at == usize::from(start) && place.offset == offset;
    if headers.checksum_place().is_some_and(is_own) {
        return Ok(false);
    }
    if usize::from(start) >= headers.payload {
        return Ok(true);
    }
    Err(Unsendable::Checksum { start, offset })
}

/// A packet that stays as the host made it.
fn hand_through(
    train: &mut Train,
    block: &Arc<Block>,
    packet: &[u8],
    vnet: VnetHeader,
) -> Result<Kind, Unsendable> {
    let split = Headers::parse(packet).map_or(packet.len(), |headers| headers.payload);
    train.headers.extend_from_slice(&packet[..split]);
    let payload = split as u32..packet.len() as u32;
    train.cuts.push(Cut { header: 0..split as u32, payload, sum: None });
    train.block = Some(Arc::clone(block));
    train.base = VNET_BYTES;
    train.untouched = Some(vnet);
    Ok(Kind::Whole)
}
