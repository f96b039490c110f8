//! An Ethernet adapter's port: segmentation, checksums, reassembly and steering between one
//! interface and one link.

mod receive;
mod steer;
mod toe;
mod transmit;

use std::sync::Arc;

use linkrate_model::knobs::Toe;
use linkrate_model::model::MAX_SUPERFRAME;
use linkrate_model::{Model, PortKnobs};
use linkrate_wire::lro::Coalescer;

use super::tx_prefetch::{self, Activity};
use super::{Device, FrameSink, Mount};
use crate::counters::LinkCounters;
use crate::device::host_bus::HostBus;
use crate::device::host_ring::HostRing;
use crate::fabric::InFlight;
use crate::frame::{Burst, Train};
use crate::interface::moderation::{Adaptive, Moderation, follow};
use crate::interface::{Interface, RingSizes};
use crate::link::{Link, LinkSpec};
use crate::pdu::Pdu;
use crate::pool::Pool;
use crate::port_shared::PortShared;

/// Flows that one queue merges at a time. A further flow takes the place of the flow that was held
/// longest, which is handed up.
const FLOWS: usize = 16;

/// Trains kept for use again.
const TRAINS: usize = 1024;

/// The abilities of an Ethernet port.
#[derive(Debug, Clone, PartialEq)]
pub struct NicLimits {
    pub link: LinkSpec,
    /// Largest frame it sends and takes, without FCS and tags.
    pub largest_frame: usize,
    /// Largest IP packet it cuts.
    pub superframe: usize,
    pub rings: RingSizes,
    /// A superframe is fetched as a whole before its first segment is sent, one at a time.
    pub stores_superframes: bool,
    /// Packets pass as the host made them: superframes stay whole, checksums are not made. No
    /// adapter does that; it is the reference for the work of the offloads.
    pub hand_through: bool,
    /// Connections that its TCP offload engine holds; 0 without one.
    pub connections: usize,
}

impl NicLimits {
    #[must_use]
    pub fn of(model: &Model) -> Self {
        Self {
            link: LinkSpec::of(model),
            largest_frame: model.max_mtu as usize + linkrate_wire::frame::link::ETHERNET,
            superframe: model.superframe as usize,
            rings: RingSizes::of(model),
            stores_superframes: model.stores_superframes,
            hand_through: model.hand_through,
            connections: model.toe_connections as usize,
        }
    }

    /// The same port, without a bound to its superframes, and without a store that they wait for.
    pub(super) fn peer(self) -> Self {
        Self {
            superframe: MAX_SUPERFRAME as usize,
            stores_superframes: false,
            connections: 0,
            ..self
        }
    }
}

/// The device of one port. One thread owns it.
#[derive(Debug)]
pub(crate) struct Nic {
    shared: Arc<PortShared>,
    limits: NicLimits,
    /// The settings that it works with, and the number of the request that asked for them.
    knobs: PortKnobs,
    request: u64,
    host: HostRing,
    adaptive: Adaptive,
    /// An array: a Nic has exactly one link.
    links: [Link; 1],
    /// Merging, by queue.
    coalescers: Vec<Coalescer<Burst>>,
    bus: HostBus,
    trains: Pool<Train>,
    steer: steer::Steer,
    /// Present if the port has such an engine, with a TAP of its own.
    toe: Option<toe::Toe>,
    /// When the host or the link last had frames for it.
    active_ps: u64,
}

impl Nic {
    pub(crate) fn new(limits: NicLimits, mount: Mount) -> Self {
        let Mount { shared, interface, bus, clock } = mount;
        let host = HostRing { shared: Arc::clone(&shared), interface, clock };
        let (_, knobs) = shared.settings.requested();
        let queues = host.interface.queues();
        let adapter = host.interface.adapter_queue().filter(|_| limits.connections > 0);
        Self {
            links: [Link::new(Arc::clone(shared.first_link()))],
            shared,
            limits,
            knobs,
            request: 0,
            host,
            adaptive: Adaptive::default(),
            coalescers: (0..queues).map(|_| Coalescer::new(FLOWS)).collect(),
            bus: HostBus::new(bus),
            trains: Pool::new(TRAINS, Train::default),
            steer: steer::Steer::new(adapter.unwrap_or(queues)),
            toe: adapter.map(toe::Toe::new),
            active_ps: 0,
        }
    }

    fn link(&self) -> &Link {
        &self.links[0]
    }

    fn link_counters(&self) -> &LinkCounters {
        &self.links[0].shared.counters
    }

    fn moderation(&self) -> Moderation {
        Moderation::of(&self.knobs, self.link().rate().is_some(), &self.adaptive)
    }

    /// Takes up a request, unless the port ignores requests, and acknowledges the settings that the
    /// device works with.
    fn apply_settings(&mut self) {
        let (request, knobs) = self.shared.settings.requested();
        self.request = request;
        if !self.shared.is_stuck() {
            self.knobs = knobs;
        }
        if self.toe.is_none() {
            self.knobs.toe = Toe::Off;
        }
        self.shared.interface.apply_settings(&self.knobs, self.link().rate());
        self.shared.settings.acknowledge(request, self.knobs.clone());
    }

    /// Raises the interrupts that are due, and says whether one was.
    fn interrupt(&mut self, now_ps: u64) -> bool {
        follow(&mut self.adaptive, &self.knobs, &self.links[0].shared.counters, now_ps);
        let (mut any, moderation) = (false, self.moderation());
        for queue in 0..self.host.interface.queues() {
            any |= self.host.complete(queue, moderation, now_ps);
            let due_ps = self.host.interface.receive_due_ps(queue, moderation);
            if let Some(due_ps) = due_ps.filter(|due_ps| *due_ps <= now_ps) {
                // merging ends with the batch
                for delivery in self.coalescers[queue].flush() {
                    self.deliver(queue, delivery, true, now_ps);
                }
                self.host.interrupt(queue, due_ps, now_ps);
                any = true;
            }
        }
        any
    }
}

impl Device for Nic {
    fn refresh(&mut self, other_rate: &mut dyn FnMut(usize, &Link)) {
        if self.shared.settings.latest() != self.request {
            self.apply_settings();
        }
        if self.links[0].refresh() {
            self.shared.interface.apply_settings(&self.knobs, self.link().rate());
            other_rate(0, &self.links[0]);
        }
        self.learn();
        self.take_orders();
    }

    fn transmit(&mut self, now_ps: u64, out: &mut FrameSink<'_>) -> bool {
        self.send_posted(now_ps, &mut |burst, at_ps| out(0, burst.into(), at_ps))
    }

    fn receive(&mut self, _link: usize, pdu: Pdu, at_ps: u64, now_ps: u64) {
        if let Some(burst) = pdu.into_frames() {
            self.arrived(burst, at_ps, now_ps);
        }
    }

    fn poll(&mut self, now_ps: u64, _out: &mut FrameSink<'_>) -> bool {
        let carried = self.carried(now_ps);
        let settled = self.settle();
        self.interrupt(now_ps) || carried || settled
    }

    fn due_ps(&mut self, now_ps: u64) -> Option<u64> {
        // blocks go back to their drivers
        self.trains.sweep(Train::clear);
        let moderation = self.moderation();
        let (active_ps, free_at_ps) = (self.active_ps, self.link().free_at_ps());
        let activity = Activity { now_ps, active_ps, free_at_ps, moderation };
        let transmit = tx_prefetch::transmit_due_ps(&self.host.interface, self.link(), activity);
        let interrupt = self.host.interface.interrupt_due_ps(moderation);
        let settling = self.settling_due_ps(now_ps);
        [transmit, interrupt, self.bus.due_ps(), settling].into_iter().flatten().min()
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

#[cfg(test)]
mod tests;
