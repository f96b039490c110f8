//! Ports and segments as the controller holds them: attach, read, set, and remove.

mod link;
mod segment;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use linkrate_terms::PortKnobs;

use crate::AdapterError;
use crate::capture::CaptureSlot;
use crate::counters::{Counter, DeviceCounters, DriverCounters, Snapshot};
use crate::device_threads::DeviceThread;
use crate::engine::{Command, Place};
use crate::interface::InterfaceShared;
use crate::interface::driver_threads;
use crate::link::{LinkShared, LinkSpec};
use crate::settings::Settings;

pub use link::PortLink;
use link::SwitchEnd;
#[cfg(test)]
pub(crate) use segment::HostEnd;
pub use segment::{HostSide, PortSpec, Segment};

/// How long a device thread may take to release a port.
const PATIENCE: Duration = Duration::from_secs(5);

/// The state that a port's device and drivers share with the controller.
#[derive(Debug)]
pub struct PortShared {
    /// The requested settings and the applied settings.
    pub settings: Settings,
    /// The host's side.
    pub interface: Arc<InterfaceShared>,
    /// The links, by their numbers.
    pub links: Vec<Arc<LinkShared>>,
    /// The counters of the device.
    pub counters: DeviceCounters,
    /// Frames by receive queue.
    pub(crate) queue_frames: Vec<Counter>,
    pub(crate) capture: CaptureSlot,
    stuck: AtomicBool,
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
            queue_frames: (0..queues).map(|_| Counter::default()).collect(),
            capture: CaptureSlot::default(),
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
        let mut all: Snapshot = device.chain(queues).collect();
        for (name, value) in self.links.iter().flat_map(|link| link.counters.values()) {
            *all.entry(name.to_owned()).or_default() += value;
        }
        all
    }
}

/// A port. Dropping it ends its drivers, and with the last handle of the TAP its interface goes.
#[derive(Debug)]
pub struct Port {
    /// Its state, which the device shares.
    pub shared: Arc<PortShared>,
    place: Place,
    /// Of each queue.
    counters: Vec<Arc<DriverCounters>>,
    /// The switch's ports that its links lead to; empty on a cable.
    switch: Vec<SwitchEnd>,
    /// Its queues that driver threads serve.
    drivers: Vec<driver_threads::Polled>,
    thread: Arc<DeviceThread>,
}

impl Port {
    /// The name of its interface.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.interface.name()
    }

    /// Every counter, with those of its queues and of the switch's ports that it leads to.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        let mut all = self.shared.counters();
        for (name, value) in self.counters.iter().flat_map(|queue| queue.values()) {
            *all.entry(name.to_owned()).or_default() += value;
        }
        for (name, value) in self.switch.iter().flat_map(|end| end.counters.values()) {
            *all.entry(name.to_owned()).or_default() += value;
        }
        all
    }

    /// Whether its interface is gone, or a thread that serves it has ended.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.shared.interface.is_broken()
            || self.thread.has_ended()
            || self.drivers.iter().any(driver_threads::Polled::has_ended)
    }

    /// Requests settings while traffic flows.
    pub fn set_knobs(&self, knobs: PortKnobs) {
        self.shared.settings.request(knobs);
        self.thread.doorbell.wake();
    }

    /// The settings that the device says it works with.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn applied_knobs(&self) -> Result<PortKnobs, AdapterError> {
        let unanswered = |_| AdapterError::NotAcknowledged { name: self.name().to_owned() };
        self.shared.settings.applied().map_err(unanswered)
    }

    /// Makes the device ignore requests for settings, or obey them again. This fault tests the
    /// read-back.
    pub fn set_stuck(&self, stuck: bool) {
        self.shared.stuck.store(stuck, Ordering::Relaxed);
    }

    /// Its links, by their numbers.
    pub fn links(&self) -> impl ExactSizeIterator<Item = PortLink<'_>> {
        (0..self.shared.links.len()).map(|number| PortLink { port: self, number })
    }

    /// Begins a capture of this port into a pcapng file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start_capture(&self, path: &Path) -> Result<(), AdapterError> {
        let laws = self.shared.links.iter().map(|link| link.law());
        self.shared.capture.start(path, self.name(), laws).map_err(|cause| AdapterError::Io {
            what: format!("write capture {}", path.display()),
            cause,
        })
    }

    /// Ends the capture. Returns the number of its packets.
    ///
    /// # Errors
    /// The file could not be written to its end.
    pub fn stop_capture(&self) -> Result<u64, AdapterError> {
        self.shared
            .capture
            .stop()
            .map_err(|cause| AdapterError::Io { what: "write capture".to_owned(), cause })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // driver threads release its queues
        self.drivers.clear();
        // after its answer, the device thread holds no handle of the TAP
        let (answer, answered) = sync_channel(1);
        if self.thread.tell(Command::Detach(self.place, answer)).is_ok() {
            let _ = answered.recv_timeout(PATIENCE);
        }
        let _ = self.shared.capture.stop();
    }
}
