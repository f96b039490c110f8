//! Segments and ports as the controller holds them: attach, look at, set, and let go.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use linkrate_sys::error::SysResult;
use linkrate_terms::topology::Fabric;
use linkrate_terms::{BitRate, PortKnobs};
use rtrb::RingBuffer;

use crate::AdapterError;
use crate::bus::Bus;
use crate::capture::{CaptureEnding, CaptureSlot};
use crate::counters::{Counter, DeviceCounters, DriverCounters, Snapshot, SwitchCounters};
use crate::device::nic::{Nic, PortLimits};
use crate::device_threads::DeviceThread;
use crate::engine::{Command, Place};
use crate::fabric;
use crate::fabric::faults::Faults;
use crate::fabric::vlans::Vlans;
use crate::interface::driver::{Driver, DriverRings};
use crate::interface::driver_threads::{self, DriverThreads};
use crate::interface::polled::Polled;
use crate::interface::rings::QueueShared;
use crate::interface::{Ends, Interface, InterfaceShared, Queue};
use crate::link::LinkShared;
use crate::settings::Settings;

/// Places for changes of the steering table between a driver and its device.
const STEERING_UPDATES: usize = 256;

/// How long a device thread may take to let a port go.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the file of a capture may take for its last packets when the port goes.
const CAPTURE_PATIENCE: Duration = Duration::from_secs(1);

/// Who moves packets between a port's TAP and its device.
#[derive(Debug, Clone)]
pub enum HostSide {
    /// The driver threads of the host.
    Drivers(DriverThreads),
    /// The device thread: nothing is measured on this host.
    Device,
}

/// A port to be attached.
#[derive(Debug)]
pub struct PortSpec {
    /// The name of its interface.
    pub name: String,
    /// The TAP's queues, one for each queue pair.
    pub queues: Vec<OwnedFd>,
    /// Its abilities.
    pub limits: PortLimits,
    /// Its settings.
    pub knobs: PortKnobs,
    /// The bus of its adapter.
    pub bus: Option<Arc<Bus>>,
    /// Who serves the TAP.
    pub host: HostSide,
}

/// What a port's device, its drivers and everyone who looks at it share.
#[derive(Debug)]
pub struct PortShared {
    /// What was requested and what is applied.
    pub settings: Settings,
    /// The host's side.
    pub interface: Arc<InterfaceShared>,
    /// The link.
    pub link: Arc<LinkShared>,
    /// What the device counts.
    pub counters: DeviceCounters,
    /// Frames by receive queue.
    pub(crate) queue_frames: Vec<Counter>,
    pub(crate) capture: CaptureSlot,
    stuck: AtomicBool,
}

impl PortShared {
    pub(crate) fn new(
        name: String,
        rate: Option<BitRate>,
        knobs: PortKnobs,
        queues: usize,
        taps: Vec<OwnedFd>,
    ) -> Self {
        Self {
            interface: Arc::new(InterfaceShared::new(name, &knobs, queues, taps)),
            settings: Settings::new(knobs),
            link: Arc::new(LinkShared::new(rate)),
            counters: DeviceCounters::default(),
            queue_frames: (0..queues).map(|_| Counter::default()).collect(),
            capture: CaptureSlot::default(),
            stuck: AtomicBool::new(false),
        }
    }

    /// Whether the device ignores requests: a fault.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Every counter of the device and its link.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        let queues = self.queue_frames.iter().enumerate();
        self.counters
            .values()
            .chain(self.link.counters.values())
            .map(|(name, value)| (name.to_owned(), value))
            .chain(queues.map(|(queue, count)| (format!("rxQueue{queue}Frames"), count.get())))
            .collect()
    }
}

/// A part of a testbed: a fabric and the ports on it. Dropping it removes the fabric.
#[derive(Debug)]
pub struct Segment {
    fabric: Fabric,
    number: usize,
    thread: Arc<DeviceThread>,
    attached: usize,
}

impl Segment {
    pub(crate) fn new(fabric: Fabric, number: usize, thread: Arc<DeviceThread>) -> Self {
        Self { fabric, number, thread, attached: 0 }
    }

    /// Attaches a port, while others carry traffic, and starts its drivers.
    ///
    /// # Errors
    /// The fabric is full, the device thread has ended, or a thread cannot be started.
    pub fn attach(&mut self, spec: PortSpec) -> Result<Port, AdapterError> {
        if self.attached >= fabric::most_ports(self.fabric) {
            return Err(AdapterError::CableFull { name: spec.name });
        }
        let taps: io::Result<Vec<_>> = match spec.queues.len() {
            0 => Err(io::Error::new(io::ErrorKind::InvalidInput, "no queue")),
            _ => spec.queues.iter().map(OwnedFd::try_clone).collect(),
        };
        let taps = taps.map_err(|cause| {
            let what = format!("attach port {}", spec.name);
            AdapterError::Io { what, cause }
        })?;
        let shared = Arc::new(PortShared::new(
            spec.name.clone(),
            spec.limits.rate,
            spec.knobs,
            taps.len(),
            taps,
        ));
        let number = self.attached;
        let place = Place { segment: self.number, station: number };
        let mut port = Port {
            shared: Arc::clone(&shared),
            place,
            counters: Vec::new(),
            switch: (self.fabric == Fabric::Switch).then(SwitchEnd::default),
            drivers: Vec::new(),
            thread: Arc::clone(&self.thread),
        };
        let (mut queues, mut drivers) = (Vec::new(), Vec::new());
        for (queue, tap) in spec.queues.into_iter().enumerate() {
            let ends = match &spec.host {
                HostSide::Device => port.polled(tap),
                HostSide::Drivers(threads) => {
                    let (ends, thread, driver) =
                        port.driven(tap, queue as u16, &spec.limits, threads)?;
                    drivers.push((thread, driver));
                    ends
                }
            };
            queues.push(Queue::new(ends));
        }
        let interface = Interface::new(Arc::clone(&shared.interface), queues);
        let device = Nic::new(shared, spec.limits, spec.bus, self.thread.clock, interface);
        self.thread.tell(Command::Attach(place, Box::new(device), vec![number]))?;
        self.attached += 1;
        if let Some(end) = &port.switch {
            let counters = Arc::clone(&end.counters);
            self.thread.tell(Command::Vlans(self.number, number, Vlans::default(), counters))?;
        }
        if let HostSide::Drivers(threads) = &spec.host {
            port.drivers
                .extend(drivers.into_iter().map(|(thread, driver)| threads.add(thread, driver)));
        }
        Ok(port)
    }

    /// Sets the faults of the segment's lines.
    ///
    /// # Errors
    /// The device thread has ended.
    pub fn set_faults(&self, faults: Faults) -> Result<(), AdapterError> {
        self.thread.tell(Command::Faults(self.number, Box::new(faults)))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // a thread that has ended has no segments any more
        let _ = self.thread.tell(Command::RemoveSegment(self.number));
        self.thread.released();
    }
}

/// A port. Dropping it ends its drivers, and with the last handle of the TAP its interface goes.
#[derive(Debug)]
pub struct Port {
    /// What is known of it and may be set.
    pub shared: Arc<PortShared>,
    place: Place,
    /// Of each queue.
    counters: Vec<Arc<DriverCounters>>,
    /// The switch's port that it leads to.
    switch: Option<SwitchEnd>,
    /// Its queues in the hands of driver threads.
    drivers: Vec<driver_threads::Polled>,
    thread: Arc<DeviceThread>,
}

/// A port of a switch, as the controller knows it.
#[derive(Debug, Default)]
struct SwitchEnd {
    vlans: Mutex<Vlans>,
    counters: Arc<SwitchCounters>,
}

impl Port {
    /// A queue that the device thread serves itself.
    fn polled(&mut self, tap: OwnedFd) -> Ends {
        let counters = Arc::new(DriverCounters::default());
        self.counters.push(Arc::clone(&counters));
        Ends::Polled(Polled::new(tap, self.thread.next_tap(), counters))
    }

    /// A queue with a driver thread, and the driver.
    fn driven(
        &mut self,
        tap: OwnedFd,
        number: u16,
        limits: &PortLimits,
        threads: &DriverThreads,
    ) -> Result<(Ends, usize, Driver), AdapterError> {
        let (tx, tx_device) = RingBuffer::new(limits.transmit_ring);
        let (rx_device, rx) = RingBuffer::new(limits.receive_ring);
        let (steering, steering_device) = RingBuffer::new(STEERING_UPDATES);
        let (thread, interrupt) = threads.next();
        let queue = Arc::new(QueueShared::new(interrupt));
        self.counters.push(Arc::clone(&queue.counters));
        let ends = Ends::Driver {
            tx: tx_device,
            rx: rx_device,
            steering: steering_device,
            shared: Arc::clone(&queue),
        };
        let (doorbell, interface) =
            (Arc::clone(&self.thread.doorbell), Arc::clone(&self.shared.interface));
        let rings = DriverRings { tx, rx, steering };
        Ok((ends, thread, Driver::new(tap, number, rings, queue, doorbell, interface)))
    }

    /// The name of its interface.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.interface.name()
    }

    /// Every counter, those of its queues and of its end of a switch included.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        let mut all = self.shared.counters();
        for (name, value) in self.counters.iter().flat_map(|queue| queue.values()) {
            *all.entry(name.to_owned()).or_default() += value;
        }
        let switch = self.switch.iter().flat_map(|end| end.counters.values());
        all.extend(switch.map(|(name, value)| (name.to_owned(), value)));
        all
    }

    /// Why it carries no packets any more: a thread that serves it has ended, or its interface is
    /// gone.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        let of_driver = || self.drivers.iter().find_map(driver_threads::Polled::why_ended);
        let of_interface =
            || self.shared.interface.is_broken().then(|| "its interface is gone".to_owned());
        self.thread.why_ended().or_else(of_driver).or_else(of_interface)
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

    /// Lets the device ignore requests from now on, or obey them again: a fault that a read-back
    /// must find.
    pub fn set_stuck(&self, stuck: bool) {
        self.shared.stuck.store(stuck, Ordering::Relaxed);
    }

    /// Takes the link down or up; the host's interface loses or gets its carrier.
    ///
    /// # Errors
    /// When the TAP is gone.
    pub fn set_link(&self, up: bool) -> SysResult<()> {
        self.shared.link.set_up(up);
        self.shared.interface.set_carrier(up)
    }

    /// Lets the link run at another rate, as after a new negotiation. Both ends of a cable should
    /// have the same rate.
    pub fn set_link_rate(&self, rate: BitRate) {
        self.shared.link.set_rate(rate);
        self.thread.doorbell.wake();
    }

    /// The VLANs of the switch's port that it leads to; `None` on a cable.
    #[must_use]
    pub fn vlans(&self) -> Option<Vlans> {
        let end = self.switch.as_ref()?;
        Some(end.vlans.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Makes the switch's port that it leads to a member of other VLANs, while traffic flows.
    ///
    /// # Errors
    /// It is on a cable, or the device thread has ended.
    pub fn set_vlans(&self, vlans: Vlans) -> Result<(), AdapterError> {
        let no_switch = || AdapterError::NoSwitch { name: self.name().to_owned() };
        let end = self.switch.as_ref().ok_or_else(no_switch)?;
        let Place { segment, station } = self.place;
        let counters = Arc::clone(&end.counters);
        self.thread.tell(Command::Vlans(segment, station, vlans.clone(), counters))?;
        *end.vlans.lock().unwrap_or_else(PoisonError::into_inner) = vlans;
        Ok(())
    }

    /// Begins a capture of this port into a file that is open for writing, as pcapng. The file is
    /// emptied.
    ///
    /// # Errors
    /// The file cannot be emptied, or the thread that writes it not be started.
    pub fn start_capture(&self, file: File) -> Result<(), AdapterError> {
        let failed = |cause| AdapterError::Io { what: "start capture".to_owned(), cause };
        self.shared.capture.start(file, self.name()).map_err(failed)
    }

    /// Ends the capture, if one is on. The file may take longer.
    #[must_use]
    pub fn stop_capture(&self) -> Option<CaptureEnding> {
        self.shared.capture.stop()
    }

    /// Why the file of the capture gets no more packets, if writing it has failed.
    #[must_use]
    pub fn capture_failure(&self) -> Option<String> {
        self.shared.capture.failure()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // driver threads let its queues go
        self.drivers.clear();
        // when the device thread has answered, it holds no handle of the TAP any more
        let (answer, answered) = sync_channel(1);
        if self.thread.tell(Command::Detach(self.place, answer)).is_ok() {
            let _ = answered.recv_timeout(PATIENCE);
        }
        if let Some(ending) = self.shared.capture.stop() {
            ending.wait(CAPTURE_PATIENCE);
        }
    }
}
