//! What a port's device and drivers share with the controller.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use linkrate_model::{AtmKnobs, PortKnobs};
use linkrate_wire::link::LinkLaw;

use crate::atm::lane::LaneShared;
use crate::atm::{ArpShared, ChannelShared};
use crate::capture::CaptureSlot;
use crate::counters::{AtmCounters, Counter, DefectCounters, DeviceCounters, Snapshot};
use crate::flow_steering::Orders;
use crate::interface::InterfaceShared;
use crate::link::{LinkShared, LinkSpec};
use crate::settings::Settings;

/// The state that a port's device and drivers share with the controller.
#[derive(Debug)]
pub struct PortShared {
    pub settings: Settings,
    pub atm_settings: Settings<AtmKnobs>,
    pub interface: Arc<InterfaceShared>,
    /// The links, by their numbers.
    pub links: Vec<Arc<LinkShared>>,
    pub counters: DeviceCounters,
    /// The counters of cells and units, if the links carry those.
    pub atm: AtmCounters,
    /// The units that it did not receive.
    pub defects: DefectCounters,
    /// Frames by receive queue.
    pub(crate) queue_frames: Vec<Counter>,
    pub(crate) capture: CaptureSlot,
    /// Those about connections of its TCP offload engine.
    pub(crate) orders: Orders,
    /// The connections of an ATM port.
    channels: Mutex<Vec<Arc<ChannelShared>>>,
    pub(crate) lane: OnceLock<LaneShared>,
    /// The client of an ATMARP server.
    pub(crate) atmarp: OnceLock<ArpShared>,
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
            atm_settings: Settings::new(AtmKnobs::default()),
            links: links.iter().map(|link| Arc::new(LinkShared::new(*link))).collect(),
            counters: DeviceCounters::default(),
            atm: AtmCounters::default(),
            defects: DefectCounters::default(),
            queue_frames: (0..queues).map(|_| Counter::default()).collect(),
            capture: CaptureSlot::default(),
            orders: Orders::default(),
            channels: Mutex::default(),
            lane: OnceLock::new(),
            atmarp: OnceLock::new(),
            stuck: AtomicBool::new(false),
        }
    }

    /// The first link; devices with one link have no other. Every device has a link.
    pub(crate) fn first_link(&self) -> &Arc<LinkShared> {
        &self.links[0]
    }

    /// The connections of an ATM port, as its device has them.
    pub(crate) fn channels(&self) -> MutexGuard<'_, Vec<Arc<ChannelShared>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
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
        let has_cells = self.first_link().law() == LinkLaw::Atm;
        let cells = self.atm.values().chain(self.defects.values()).filter(|_| has_cells);
        let lane = self.lane.get().into_iter().flat_map(|lane| lane.counters.values());
        let atmarp = self.atmarp.get().into_iter().flat_map(|atmarp| atmarp.counters.values());
        let atmarp = atmarp.filter(|(name, _)| !name.starts_with("ipoaArpSrvr"));
        let cells = cells.chain(lane).chain(atmarp).map(|(name, value)| (name.to_owned(), value));
        let mut all: Snapshot = device.chain(cells).chain(queues).collect();
        let of_links = self.links.iter().flat_map(|link| link.counters.values());
        for (name, value) in of_links.filter(|(name, _)| !(has_cells && name.starts_with("dot3"))) {
            *all.entry(name.to_owned()).or_default() += value;
        }
        all
    }
}
