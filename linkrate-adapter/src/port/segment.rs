//! A segment as the controller holds it: ports are attached to its fabric while others carry
//! traffic.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_terms::PortKnobs;
use linkrate_terms::topology::Fabric;
use rtrb::RingBuffer;

use super::link::SwitchEnd;
use super::{Port, PortShared};
use crate::AdapterError;
use crate::bus::Bus;
use crate::counters::DriverCounters;
use crate::device::{Device, DeviceSpec, Mount};
use crate::device_threads::DeviceThread;
use crate::engine::{Command, Place};
use crate::fabric;
use crate::fabric::faults::Faults;
use crate::fabric::vlans::Vlans;
use crate::interface::driver::{Driver, DriverRings};
use crate::interface::driver_threads::DriverThreads;
use crate::interface::polled::Polled;
use crate::interface::rings::QueueShared;
use crate::interface::{Ends, Interface, Queue, RingSizes};
use crate::link::LinkSpec;

/// Places for changes of the steering table between a driver and its device.
const STEERING_UPDATES: usize = 256;

/// What moves packets between a port's TAP and its device.
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
    /// The kind and abilities of its device.
    pub device: DeviceSpec,
    /// Its settings.
    pub knobs: PortKnobs,
    /// The bus of its adapter.
    pub bus: Option<Arc<Bus>>,
    /// What moves packets between the TAP and the device.
    pub host: HostSide,
}

/// The host's side of a port to be attached.
#[derive(Debug)]
pub(crate) struct HostEnd {
    pub(crate) name: String,
    pub(crate) queues: Vec<OwnedFd>,
    pub(crate) rings: RingSizes,
    pub(crate) knobs: PortKnobs,
    pub(crate) bus: Option<Arc<Bus>>,
    pub(crate) host: HostSide,
}

/// A part of a testbed: a fabric and the ports on it. Dropping it removes the fabric.
#[derive(Debug)]
pub struct Segment {
    fabric: Fabric,
    number: usize,
    thread: Arc<DeviceThread>,
    /// Devices that were attached so far.
    stations: usize,
    /// Ports of the fabric that links were led to so far.
    ports: usize,
}

impl Segment {
    pub(crate) fn new(fabric: Fabric, number: usize, thread: Arc<DeviceThread>) -> Self {
        Self { fabric, number, thread, stations: 0, ports: 0 }
    }

    /// Attaches a port, while others carry traffic, and starts its drivers.
    ///
    /// # Errors
    /// The fabric is full, the device thread has ended, or a thread cannot be started.
    pub fn attach(&mut self, spec: PortSpec) -> Result<Port, AdapterError> {
        let PortSpec { name, queues, device, knobs, bus, host } = spec;
        let end = HostEnd { name, queues, rings: device.rings(), knobs, bus, host };
        self.attach_device(end, &device.links(), |mount| device.build(mount))
    }

    /// Attaches the device that `build` makes. Each of its links leads to a port of the fabric.
    pub(crate) fn attach_device(
        &mut self,
        end: HostEnd,
        links: &[LinkSpec],
        build: impl FnOnce(Mount) -> Box<dyn Device>,
    ) -> Result<Port, AdapterError> {
        let free = fabric::most_ports(self.fabric).saturating_sub(self.ports);
        if links.len() > free {
            return Err(AdapterError::CableFull { name: end.name, needed: links.len(), free });
        }
        let taps: io::Result<Vec<_>> = match end.queues.len() {
            0 => Err(io::Error::new(io::ErrorKind::InvalidInput, "no queue")),
            _ => end.queues.iter().map(OwnedFd::try_clone).collect(),
        };
        let taps = taps.map_err(|cause| {
            let what = format!("attach port {}", end.name);
            AdapterError::Io { what, cause }
        })?;
        let shared = Arc::new(PortShared::new(end.name, links, end.knobs, taps.len(), taps));
        let place = Place { segment: self.number, station: self.stations };
        let leads_to: Vec<usize> = (self.ports..self.ports + links.len()).collect();
        let mut port = Port {
            shared: Arc::clone(&shared),
            place,
            counters: Vec::new(),
            switch: match self.fabric {
                Fabric::Switch => leads_to.iter().copied().map(SwitchEnd::new).collect(),
                Fabric::Cable => Vec::new(),
            },
            drivers: Vec::new(),
            thread: Arc::clone(&self.thread),
            attached: true,
        };
        let (mut queues, mut drivers) = (Vec::new(), Vec::new());
        for (number, tap) in end.queues.into_iter().enumerate() {
            let ends = match &end.host {
                HostSide::Device => port.polled(tap),
                HostSide::Drivers(threads) => {
                    let (ends, thread, driver) =
                        port.driven(tap, number as u16, end.rings, threads)?;
                    drivers.push((thread, driver));
                    ends
                }
            };
            queues.push(Queue::new(ends));
        }
        let interface = Interface::new(Arc::clone(&shared.interface), queues);
        let clock = self.thread.clock;
        let device = build(Mount { shared, interface, bus: end.bus, clock });
        self.thread.tell(Command::Attach(place, device, leads_to))?;
        self.stations += 1;
        self.ports += links.len();
        for end in &port.switch {
            let counters = Arc::clone(&end.counters);
            self.thread.tell(Command::Vlans(
                self.number,
                end.number,
                Vlans::default(),
                counters,
            ))?;
        }
        if let HostSide::Drivers(threads) = &end.host {
            port.drivers
                .extend(drivers.into_iter().map(|(thread, driver)| threads.add(thread, driver)));
        }
        Ok(port)
    }

    /// Sets the faults of the segment's links.
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
        rings: RingSizes,
        threads: &DriverThreads,
    ) -> Result<(Ends, usize, Driver), AdapterError> {
        let (tx, tx_device) = RingBuffer::new(rings.transmit);
        let (rx_device, rx) = RingBuffer::new(rings.receive);
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
}
