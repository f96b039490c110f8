//! What a port's device and drivers share with the controller.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linkrate_model::PortKnobs;
use linkrate_wire::link::LinkLaw;

use crate::atm::AtmShared;
use crate::capture::CaptureSlot;
use crate::counters::{Counter, DeviceCounters, Snapshot};
use crate::flow_steering::Orders;
use crate::interface::InterfaceShared;
use crate::link::{LinkShared, LinkSpec};
use crate::settings::Settings;

/// The state that a port's device and drivers share with the controller.
#[derive(Debug)]
pub struct PortShared {
    pub settings: Settings,
    pub interface: Arc<InterfaceShared>,
    /// The links, by their numbers.
    pub links: Vec<Arc<LinkShared>>,
    pub counters: DeviceCounters,
    /// That of an ATM port.
    pub(crate) atm: Option<Arc<AtmShared>>,
    /// Frames by receive queue.
    pub(crate) queue_frames: Vec<Counter>,
    pub(crate) capture: CaptureSlot,
    /// Those about connections of its TCP offload engine.
    pub(crate) orders: Orders,
    pub(crate) stuck: AtomicBool,
}

impl PortShared {
    pub(crate) fn new(
        name: String,
        links: &[LinkSpec],
        knobs: PortKnobs,
        queues: usize,
        taps: Vec<OwnedFd>,
    ) -> Self {
        Self {
            interface: Arc::new(InterfaceShared::new(name, &knobs, queues, taps)),
            settings: Settings::new(knobs),
            links: links.iter().map(|link| Arc::new(LinkShared::new(*link))).collect(),
            counters: DeviceCounters::default(),
            atm: (links[0].law == LinkLaw::Atm).then(Arc::default),
            queue_frames: (0..queues).map(|_| Counter::default()).collect(),
            capture: CaptureSlot::default(),
            orders: Orders::default(),
            stuck: AtomicBool::new(false),
        }
    }

    /// The first link; devices with one link have no other. Every device has a link.
    pub(crate) fn first_link(&self) -> &Arc<LinkShared> {
        &self.links[0]
    }

    /// Whether the device ignores requests: a fault.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Every counter of the device, and those of its links, added up.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        let queues = self.queue_frames.iter().enumerate();
        let queues = queues.map(|(queue, count)| (format!("rxQueue{queue}Frames"), count.get()));
        let device = self.counters.values().map(|(name, value)| (name.to_owned(), value));
        let cells = self.atm.iter().flat_map(|atm| atm.values());
        let cells = cells.map(|(name, value)| (name.to_owned(), value));
        let mut all: Snapshot = device.chain(cells).chain(queues).collect();
        let of_links = self.links.iter().flat_map(|link| link.counters.values());
        for (name, value) in
            of_links.filter(|(name, _)| self.atm.is_none() || !name.starts_with("dot3"))
        {
            *all.entry(name.to_owned()).or_default() += value;
        }
        all
    }
}
