//! The receive half of a port: frames from the link become packets for the host.

use linkrate_wire::control::{bfd, is_marker, is_of_aggregates, is_of_the_link};
use linkrate_wire::encapsulation::{self, LinkHeader, Tag};
use linkrate_wire::frame::{ChecksumPlace, Headers, Verification};
use linkrate_wire::lro::{Delivery, Parts, Reason, Row};
use linkrate_wire::vnet::{Checksum, VnetHeader};

use super::Nic;
use super::toe::To;
use crate::device::host_bus::ToHost;
use crate::frame::{Burst, WireFrame};
use crate::interface::rings::RxDescriptor;

impl Nic {
    /// Takes frames whose last bit came at `at_ps`.
    pub(super) fn arrived(&mut self, burst: Burst, at_ps: u64, now_ps: u64) {
        self.active_ps = now_ps;
        if !self.links[0].received(&burst) {
            return;
        }
        let (shared, clock) = (&self.shared, &self.host.clock);
        let counters = &shared.counters;
        if shared.capture.is_on() {
            for frame in burst.each() {
                shared.capture.link(0, clock.monotonic_ns(at_ps), false, &frame, counters);
            }
        }
        if self.bus.is_limit() {
            burst.each().for_each(|frame| self.receive_over_bus(frame, at_ps, now_ps));
        } else {
            self.take(burst, at_ps);
        }
    }

    /// Takes a frame that the bus has to carry to the host's memory first.
    fn receive_over_bus(&mut self, frame: WireFrame, at_ps: u64, now_ps: u64) {
        match self.bus.towards_host(frame, at_ps, now_ps, (&self.host.clock, &self.links[0])) {
            ToHost::There(frame, done_ps) => self.take(frame.into(), done_ps),
            ToHost::Waits => {}
            ToHost::Lost => {
                self.shared.counters.rx_drop_fifo.add(1);
                self.link_counters().in_discards.add(1);
            }
        }
    }

    /// Takes the frames that the bus has carried by now.
    pub(super) fn carried(&mut self, now_ps: u64) -> bool {
        let mut any = false;
        while let Some((frame, done_ps)) = self.bus.carried(now_ps) {
            self.take(frame.into(), done_ps);
            any = true;
        }
        any
    }

    /// Processes frames that the adapter has received.
    fn take(&mut self, burst: Burst, at_ps: u64) {
        if let Some(vnet) = burst.untouched().copied() {
            let queue = match headers_of(&burst) {
                Some(headers) => self.steer(&burst.first(), &headers, at_ps),
                None => 0,
            };
            self.host.interface.place(queue, 1, at_ps);
            let delivery = Delivery::Frame { frame: burst, reason: Reason::Flushed };
            self.host.push(
                queue,
                RxDescriptor { vnet, delivery, replaced: None, unmade: None },
                at_ps,
            );
            return;
        }
        let mut rest = Some(burst);
        while let Some(burst) = rest.take() {
            let Some(burst) = self.take_next(burst, at_ps) else { return };
            let (first, after) = burst.split(1);
            self.take_one(first.first(), at_ps);
            rest = after;
        }
    }

    /// Processes one frame: checks, steering, merging. A packet that contradicts itself goes up unread: the line was
    /// good, and its host counts it.
    pub(super) fn take_one(&mut self, frame: WireFrame, at_ps: u64) {
        let Some(headers) = headers_of(&frame) else {
            self.shared.counters.rx_drop_malformed.add(1);
            self.link_counters().in_errors.add(1);
            return;
        };
        if frame.len() > self.limits.largest_frame + headers.link.encapsulation() {
            self.link_counters().too_long.add(1);
            self.link_counters().in_errors.add(1);
            return;
        }
        let to_station = bfd::is_to_a_station(frame.head()) && self.host.interface.has_control();
        let is_of_the_link = to_station || is_of_the_link(frame.head());
        if !is_of_the_link && !self.is_of_its_vlan(&frame, &headers) {
            self.shared.counters.rx_drop_vlan.add(1);
            self.link_counters().in_discards.add(1);
            return;
        }
        if self.goes_first(&frame, to_station) {
            self.hand_to_aggregate(frame, at_ps);
            return;
        }
        let to = self.offloaded(&frame, &headers, at_ps);
        let to_adapter = self.adapter_queue().filter(|_| to == To::Adapter);
        if to == To::Later {
            return;
        }
        let verified =
            (self.knobs.rx_checksum || to_adapter.is_some()) && self.verify(&frame, &headers);
        let queue = match to_adapter {
            Some(queue) => queue,
            None => self.steer(&frame, &headers, at_ps),
        };
        self.host.interface.place(queue, 1, at_ps);
        if !self.knobs.lro && to_adapter.is_none() {
            let delivery = Delivery::Frame { frame: frame.into(), reason: Reason::Flushed };
            self.hand_up(queue, delivery, Some(headers), verified, at_ps);
            return;
        }
        let coalescer = &mut self.coalescers[queue];
        let offered = if verified {
            coalescer.offer_verified(frame.into(), &headers)
        } else {
            // verifies the frame, and hands up the held packet of the flow first
            coalescer.offer(frame.into())
        };
        // held packets were verified before; the last packet is this frame, unless it is held now
        let mut flushed = offered.flushed.into_iter().peekable();
        while let Some(delivery) = flushed.next() {
            let held = offered.kept || flushed.peek().is_some();
            self.deliver(queue, delivery, held || verified, at_ps);
        }
    }

    /// Whether a frame is of the protocols of an aggregate and waits for no packet: one to their groups, or micro-BFD
    /// to this station. A marker asks whether the packets before it have arrived.
    fn goes_first(&mut self, frame: &WireFrame, to_station: bool) -> bool {
        (to_station || is_of_aggregates(frame.head()))
            && self.host.interface.has_control()
            && !is_marker(&frame.to_vec())
    }

    /// Hands a frame of the protocols to the aggregate, as it came.
    fn hand_to_aggregate(&mut self, frame: WireFrame, at_ps: u64) {
        let delivery = Delivery::Frame { frame: frame.into(), reason: Reason::Flushed };
        let vnet = VnetHeader::default();
        let descriptor = RxDescriptor { vnet, delivery, replaced: None, unmade: None };
        if !self.host.interface.push_control(descriptor, at_ps) {
            self.shared.counters.rx_drop_ring.add(1);
            self.link_counters().in_discards.add(1);
        }
    }

    /// Merges frames that continue the flow of the frame before them, and returns the rest. With
    /// several queues it returns all frames, because the steering tables must see them.
    fn take_next(&mut self, burst: Burst, at_ps: u64) -> Option<Burst> {
        if !self.knobs.lro || !self.knobs.rx_checksum || self.host.interface.queues() > 1 {
            return Some(burst);
        }
        let offered = self.coalescers[0].offer_row(burst);
        if offered.taken > 0 {
            self.shared.counters.rx_checksum_good.add(offered.taken as u64);
            self.host.interface.place(0, offered.taken, at_ps);
        }
        if let Some(delivery) = offered.flushed {
            self.deliver(0, delivery, true, at_ps);
        }
        offered.rest
    }

    /// Whether the port takes the frame: a port with a VLAN takes frames of this VLAN, a port without
    /// a VLAN takes all frames, with their tags.
    fn is_of_its_vlan(&self, frame: &WireFrame, headers: &Headers) -> bool {
        let outer_tag = || headers.link.outer_tag(frame.head());
        self.knobs.vlan == 0 || outer_tag().is_some_and(|tag| tag.vlan() == self.knobs.vlan)
    }

    /// The link header of a packet without SNAP and the port's own tag, and the number of bytes that
    /// it replaces. `None` for a packet with neither.
    fn plain(&self, head: &[u8], headers: &Headers) -> Option<(LinkHeader, usize)> {
        let tag = if self.knobs.vlan == 0 { Tag::Keep } else { Tag::Strip };
        if tag == Tag::Keep && !headers.link.snap {
            return None;
        }
        let plain = encapsulation::decapsulate(head, headers, tag).ok()?;
        Some((plain.link, headers.link.length))
    }

    /// Hands a packet up, without the port's own tag and SNAP. `verified` says that its checksums are
    /// right. `known` are the headers, if the caller has parsed them.
    fn hand_up(
        &mut self,
        queue: usize,
        delivery: Delivery<Burst>,
        known: Option<Headers>,
        verified: bool,
        at_ps: u64,
    ) {
        let (mut vnet, mut replaced, mut unmade) = (VnetHeader::default(), None, None);
        match &delivery {
            Delivery::Frame { frame, .. } => {
                if let Some(headers) = known.or_else(|| headers_of(frame)) {
                    replaced = self.plain(frame.head(), &headers);
                    if verified {
                        (vnet.checksum, unmade) = left_to_be_made(frame, &headers);
                        vnet.data_valid = unmade.is_none();
                    }
                }
            }
            Delivery::Superframe { superframe, .. } => {
                vnet = superframe.vnet_header();
                // it is Ethernet II already
                if self.knobs.vlan != 0 {
                    let payload = superframe.pieces.iter().map(|piece| piece.payload.len()).sum();
                    let headers = Headers::parse_parts(&superframe.header, payload).ok();
                    replaced = headers.and_then(|headers| self.plain(&superframe.header, &headers));
                }
            }
        }
        if let (Some((link, covered)), Some(checksum)) = (&replaced, &mut vnet.checksum) {
            let less = (covered - link.len()) as u16;
            checksum.start -= less;
            vnet.header_length = vnet.header_length.saturating_sub(less);
        }
        self.host.push(queue, RxDescriptor { vnet, delivery, replaced, unmade }, at_ps);
    }

    /// Verifies all checksums of a frame. True if the frame has checksums and all are right.
    fn verify(&self, frame: &WireFrame, headers: &Headers) -> bool {
        let counters = &self.shared.counters;
        let network = headers.network_checksum_verifies(frame.head());
        match headers.transport_checksum(frame) {
            Verification::Right if network => {
                counters.rx_checksum_good.add(1);
                true
            }
            Verification::None if network => false,
            _ => {
                // the host verifies such frames itself, and counts them too
                counters.rx_checksum_bad.add(1);
                false
            }
        }
    }

    /// Hands up a packet that merging released. `verified` is about a frame that was not merged.
    pub(super) fn deliver(
        &mut self,
        queue: usize,
        delivery: Delivery<Burst>,
        verified: bool,
        at_ps: u64,
    ) {
        let counters = &self.shared.counters;
        let of_adapter = self.adapter_queue() == Some(queue);
        match &delivery {
            // inside the adapter: nothing that the host has chosen
            _ if of_adapter => {}
            Delivery::Frame { reason, .. } => counters.unmerged(*reason),
            Delivery::Superframe { superframe, reason } => {
                counters.rx_merged.add(superframe.segments as u64);
                counters.rx_superframes.add(1);
                counters.flushed(*reason);
            }
        }
        self.hand_up(queue, delivery, None, verified, at_ps);
    }
}

/// The headers of a frame; of one that contradicts itself the link header alone. `None` without one.
fn headers_of(frame: &impl Parts) -> Option<Headers> {
    let (head, tail) = (frame.head(), frame.tail().len());
    Headers::parse_parts(head, tail).or_else(|_| Headers::of_link(head, tail)).ok()
}

/// Tells a TAP that the checksum of TCP or UDP was verified: as a checksum that is still to be made,
/// with the sum of the pseudo-header in its place. The flag for verified checksums (DATA_VALID) is
/// for drivers of virtio devices; a TAP ignores it. A host that forwards the packet makes the checksum over all that
/// follows (`skb_checksum_help`), so one that does not cover it stays as it came, for the host to verify.
fn left_to_be_made(
    frame: &impl Parts,
    headers: &Headers,
) -> (Option<Checksum>, Option<(usize, [u8; 2])>) {
    let place = headers.checksum_place().filter(|_| headers.checksum_covers_rest(frame));
    let Some(ChecksumPlace { at, offset, protocol }) = place else { return (None, None) };
    let head = frame.head();
    let Some(pseudo) = headers.pseudo_header(head, protocol, headers.end - at) else {
        return (None, None);
    };
    let checksum = Checksum { start: at as u16, offset };
    (Some(checksum), Some((at + usize::from(offset), pseudo.folded().to_be_bytes())))
}
