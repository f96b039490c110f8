//! Virtual adapters: the ports of a testbed, their knobs and their counters.
//!
//! Ports of the system under test are numbered through all its adapters. Behind each is a wire of
//! its own with the ports of its clients. Only this module and those below it name types of
//! [`linkrate_adapter`].

mod datagrams;
mod ports;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_adapter::{
    AdapterError, Bus, DeviceThreads, DriverThreads, HostSide, LinkLaw, Port, PortLimits, PortSpec,
    Priority, Snapshot, since,
};
use linkrate_agent::protocol::{Reply, Request};
use linkrate_study::belief::{RateSeen, Strayed};
use linkrate_sys::clock::monotonic_ns;
use linkrate_terms::knobs::Owner;
use linkrate_terms::measurement::{AdapterEvidence, PortEvidence, ThreadTime};
use linkrate_terms::model::LARGEST_SUPERFRAME;
use linkrate_terms::topology::{Fabric, Segment};
use linkrate_terms::{BitRate, InterfaceKnobs, Model, PortKnobs, RunSpec, Steering};

use super::made::Join;
use super::{ReceiveSteering, Threads};
use crate::connection::expect_reply;
use crate::error::LabError;
use crate::host::{Client, Host};
use crate::placement::{Placement, strayed};
use datagrams::Datagrams;

pub use linkrate_adapter::fabric::vlans::{VlanSet, parse_vlan};
pub use linkrate_adapter::{Faults, Vlans};
pub(crate) use ports::PortOnLine;

/// Packets that wait at each queue of a TAP. A full queue drops packets, where a real adapter would
/// stop its queue, so it takes more packets than the TCP connections of a run can have in flight.
/// Datagrams do not fill it (`datagrams`).
const TAP_QUEUE: u32 = 16_384;

/// The ports of one wire.
#[derive(Debug)]
pub struct Line {
    /// Number of the port of the system under test, through all its adapters.
    pub number: u32,
    /// What joins the ports.
    pub fabric: Fabric,
    /// The port of the system under test.
    pub sut: Port,
    /// Those of its clients.
    pub clients: Vec<Port>,
    /// The fabric with its device thread. It ends after its ports.
    pub segment: linkrate_adapter::Segment,
}

impl Line {
    /// The interface of the system under test's port.
    fn name(&self) -> String {
        self.sut.name().to_owned()
    }

    /// Sets the knobs of the port, and at the ports of its clients those that must be the same.
    /// Returns the effective knobs of the port.
    ///
    /// # Errors
    /// A device does not answer.
    pub fn set_knobs(
        &self,
        model: &Model,
        asked: &InterfaceKnobs,
    ) -> Result<InterfaceKnobs, LabError> {
        let knobs = model.defaults.with(asked);
        self.sut.set_knobs(knobs.clone());
        for client in &self.clients {
            client.set_knobs(client_knobs(&model.defaults).sharing(&knobs));
        }
        effective_knobs(&self.sut)
    }

    /// The ports, that of the system under test first.
    fn ports(&self) -> impl Iterator<Item = &Port> {
        std::iter::once(&self.sut).chain(&self.clients)
    }

    /// Lets the link of one of its ports run at another rate: both ends of a cable, or a port and
    /// the switch's port that it leads to.
    pub fn set_link_rate(&self, port: &Port, rate: BitRate) {
        match self.fabric {
            Fabric::Switch => port.set_link_rate(rate),
            Fabric::Cable => self.ports().for_each(|end| end.set_link_rate(rate)),
        }
    }
}

/// The knobs that only the port itself knows, as its device has applied them.
fn effective_knobs(port: &Port) -> Result<InterfaceKnobs, LabError> {
    Ok(port.applied_knobs()?.request())
}

/// The knobs that the kernel reads from a port's interface, with those of the port itself.
fn with_port(kernel: InterfaceKnobs, port: InterfaceKnobs) -> InterfaceKnobs {
    InterfaceKnobs { rx_checksum: port.rx_checksum, port: port.port, ..kernel }
}

/// All virtual adapters of a testbed.
#[derive(Debug)]
pub struct Adapters {
    model: Model,
    buses: Vec<Arc<Bus>>,
    lines: Vec<Line>,
    /// The device threads and the driver threads of the system under test; absent before the first
    /// segment.
    threads: Option<(DeviceThreads, DriverThreads)>,
    // a variant of `Ground` shall not be much larger than the others
    datagrams: Box<Datagrams>,
}

/// All counters and clocks at one moment.
#[derive(Debug)]
pub struct Reading {
    at_ns: u64,
    ports: Vec<Snapshot>,
    buses_busy_ns: Vec<u64>,
    device: Vec<ThreadTime>,
    drivers: Vec<ThreadTime>,
}

impl Adapters {
    /// Adapters of `model`, without ports yet.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            buses: Vec::new(),
            lines: Vec::new(),
            threads: None,
            datagrams: Box::default(),
        }
    }

    /// The model, at the testbed's scale.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The wires, by port of the system under test.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The wire of the system under test's port of that name.
    pub fn line(&self, port: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.sut.name() == port)
    }

    /// Nanoseconds each adapter's bus was busy; empty where it never limits.
    pub fn buses_busy_ns(&self) -> Vec<u64> {
        self.buses.iter().map(|bus| bus.busy_ns()).collect()
    }

    /// Removes a port, with its wire and the ports of its clients; their interfaces go with them.
    pub(crate) fn remove(&mut self, port: &str) {
        self.lines.retain(|line| line.sut.name() != port);
    }

    /// Sets knobs on ports of the system under test: of the port itself, of its interface in the
    /// kernel, and at its clients' ports those that must be the same there. Returns the effective
    /// knobs of each interface.
    pub(super) fn set_knobs(
        &self,
        sut: &mut Host,
        interfaces: &[String],
        asked: &InterfaceKnobs,
    ) -> Result<BTreeMap<String, InterfaceKnobs>, LabError> {
        let queues = asked.queues.unwrap_or(self.model.queues);
        if queues > self.model.queues {
            return Err(LabError::Invalid {
                what: format!("knob \"queues\": requested {queues}"),
                hint: format!("a port of {} has {}", self.model.name, self.model.queues),
            });
        }
        let of_the_kernel = InterfaceKnobs {
            // the virtual MTU is the model's
            gso_max_size: asked.gso_max_size.or(Some(self.model.superframe)),
            ..asked.of(Owner::Kernel)
        };
        let lines = || self.lines.iter().filter(|line| interfaces.contains(&line.name()));
        for line in lines() {
            line.sut.shared.interface.use_queues(queues as usize)?;
        }
        let mut effective = sut.set_knobs(interfaces, of_the_kernel)?;
        for line in lines() {
            let of_the_port = line.set_knobs(&self.model, asked)?;
            if let Some(knobs) = effective.get_mut(line.sut.name()) {
                *knobs = with_port(knobs.clone(), of_the_port);
            }
        }
        Ok(effective)
    }

    /// Adds the knobs that only the port knows to those that the kernel reads from its interface.
    pub(super) fn with_port_knobs(
        &self,
        interface: &str,
        kernel: InterfaceKnobs,
    ) -> Result<InterfaceKnobs, LabError> {
        match self.line(interface) {
            Some(line) => Ok(with_port(kernel, effective_knobs(&line.sut)?)),
            None => Ok(kernel),
        }
    }

    /// Whether a run's connections need a destination port each, because the adapter tells flows
    /// apart by it.
    pub fn steers_by_port(&self, run: &RunSpec) -> bool {
        let steering = run.interface.port.steering.unwrap_or(self.model.defaults.steering);
        steering == Steering::DestinationPort
    }

    /// Sets the faults of every wire.
    ///
    /// # Errors
    /// A device thread has ended.
    pub fn set_faults(&self, faults: Faults) -> Result<(), LabError> {
        for line in &self.lines {
            line.segment.set_faults(faults)?;
        }
        Ok(())
    }

    /// Limits the datagrams of a port of the system under test to the rate that its link has now.
    pub(crate) fn follow_link_rate(&mut self, sut: &mut Host, port: &str) -> Result<(), LabError> {
        let line = self.line(port).map(|line| line.sut.shared.link.rate());
        let law = LinkLaw::of(&self.model);
        self.datagrams.limit(sut, port, law, line.flatten())
    }

    /// Reads every counter and clock.
    pub fn read(&self) -> Reading {
        Reading {
            at_ns: monotonic_ns(),
            ports: self.lines.iter().map(|line| line.sut.counters()).collect(),
            buses_busy_ns: self.buses_busy_ns(),
            device: self.device_times(),
            drivers: self.driver_times(),
        }
    }

    /// What happened between two readings, on the first `ports` ports.
    pub fn evidence(&self, from: &Reading, to: &Reading, ports: usize) -> AdapterEvidence {
        let window_ns = to.at_ns.saturating_sub(from.at_ns).max(1);
        let percent = |busy_ns: u64| busy_ns as f64 * 100.0 / window_ns as f64;
        let port = |(line, (to, from)): (&Line, (&Snapshot, &Snapshot))| {
            let counters = since(to, from);
            let busy = |name: &str| {
                let busy_ns = counters.get(name).copied().unwrap_or(0);
                self.model.rate.map(|_| percent(busy_ns))
            };
            PortEvidence {
                name: line.sut.name().to_owned(),
                tx_link_percent: busy("txLinkBusyNs"),
                rx_link_percent: busy("rxLinkBusyNs"),
                counters,
            }
        };
        let snapshots = to.ports.iter().zip(&from.ports);
        let buses = to.buses_busy_ns.iter().zip(&from.buses_busy_ns);
        AdapterEvidence {
            window_ns,
            ports: self.lines.iter().zip(snapshots).take(ports).map(port).collect(),
            bus_percent: buses.map(|(to, from)| percent(to.saturating_sub(*from))).collect(),
            device_threads: times_since(&to.device, &from.device),
            driver_threads: times_since(&to.drivers, &from.drivers),
        }
    }

    /// CPU time of each device thread so far.
    pub(crate) fn device_times(&self) -> Vec<ThreadTime> {
        self.threads.as_ref().map(|(devices, _)| devices.times()).unwrap_or_default()
    }

    /// CPU time of each driver thread so far.
    pub(crate) fn driver_times(&self) -> Vec<ThreadTime> {
        self.threads.as_ref().map(|(_, drivers)| drivers.times()).unwrap_or_default()
    }

    /// The threads that may run on other CPUs than their own.
    pub fn strayed(&self, placement: &Placement) -> Vec<Strayed> {
        let mut found = strayed(&self.driver_times(), &placement.sut);
        found.extend(strayed(&self.device_times(), &placement.clients));
        found
    }

    /// The links of the first `ports` ports of the system under test beside the model's rate.
    pub fn rates(&self, ports: usize) -> Vec<RateSeen> {
        let seen = self.lines.iter().take(ports).map(|line| RateSeen {
            interface: line.name(),
            expected: self.model.rate,
            seen: line.sut.shared.link.rate(),
        });
        seen.collect()
    }

    /// A port whose drivers have ended, by name.
    pub fn broken(&self) -> Option<&str> {
        let mut ports = self.lines.iter().flat_map(Line::ports);
        ports.find(|port| port.is_broken()).map(Port::name)
    }

    /// How the drivers share the CPUs of the system under test, and whether datagrams wait for the
    /// link, as (name, value).
    pub(super) fn facts(&self) -> Vec<(String, String)> {
        let how = self.driver_priority().map(|priority| match priority {
            Priority::Napi => "real-time priority for 300 packets at a time, as a NAPI poll",
            Priority::Refused => "the priority of programs",
            Priority::Batch => "after the device, which has the same CPUs",
        });
        let drivers = how.map(|how| ("drivers".to_owned(), how.to_owned()));
        drivers.into_iter().chain(self.datagrams.fact()).collect()
    }

    /// What a reader must know of the drivers and of datagrams, as sentences.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.datagrams.warning().into_iter().collect();
        if self.driver_priority() != Some(Priority::Refused) {
            return warnings;
        }
        let sentence = "the drivers of the virtual adapters have no real-time priority, so each \
                        packet that wakes a program costs a change of thread, which receiving \
                        through a real adapter does not; run as root, or give linkrate CAP_SYS_NICE";
        warnings.push(sentence.to_owned());
        warnings
    }

    fn driver_priority(&self) -> Option<Priority> {
        self.threads.as_ref().and_then(|(_, drivers)| drivers.priority())
    }

    /// The drivers of all ports, and the device threads.
    pub(super) fn threads(&self) -> Threads {
        let Some((devices, drivers)) = &self.threads else { return Threads::default() };
        Threads { drivers: drivers.ids().collect(), devices: devices.ids().collect() }
    }
}

impl Join for Adapters {
    fn join(
        &mut self,
        segment: &Segment,
        sut_host: &mut Host,
        clients: &mut [Client],
        placement: &Placement,
    ) -> Result<(), LabError> {
        // a segment has one port of the system under test
        let (number, name) = (segment.ports[0].number, segment.ports[0].interface.clone());
        let adapter = (number / self.model.ports) as usize;
        if let (Some(rate), true) = (self.model.bus, self.buses.len() == adapter) {
            self.buses.push(Arc::new(Bus::new(rate)));
        }
        if self.threads.is_none() {
            let drivers = DriverThreads::start(&placement.sut, placement.is_shared())?;
            self.threads = Some((DeviceThreads::new(&placement.clients), drivers));
        }
        let Some((devices, drivers)) = &mut self.threads else {
            return Err(LabError::Io(std::io::Error::other("no threads for adapters")));
        };
        let mut wire = devices.segment(segment.fabric)?;
        let queues = self.model.queues;
        let address = |host: u8| [0x02, 0, 0, (number >> 8) as u8, number as u8, host];
        let sut = wire.attach(PortSpec {
            queues: tap(sut_host, &name, queues, address(1))?,
            name,
            limits: PortLimits::of(&self.model),
            knobs: self.model.defaults.clone(),
            bus: self.buses.get(adapter).cloned(),
            host: HostSide::Drivers(drivers.clone()),
        })?;
        self.datagrams.limit(sut_host, sut.name(), LinkLaw::of(&self.model), self.model.rate)?;
        let mut ports = Vec::new();
        for (index, client) in clients.iter_mut().enumerate() {
            let host = &mut client.host;
            ports.push(wire.attach(PortSpec {
                name: host.name.clone(),
                queues: tap(host, &client.interface, 1, address(2 + index as u8))?,
                limits: PortLimits {
                    superframe: LARGEST_SUPERFRAME as usize,
                    ..PortLimits::of(&self.model)
                },
                knobs: client_knobs(&self.model.defaults),
                bus: None,
                // nothing is measured on a client
                host: HostSide::Device,
            })?);
        }
        let line = Line { number, fabric: segment.fabric, sut, clients: ports, segment: wire };
        let at = self.lines.partition_point(|other| other.number < number);
        self.lines.insert(at, line);
        Ok(())
    }

    /// A driver thread runs the receive processing of its host.
    fn receive_steering(&self, _placement: &Placement) -> ReceiveSteering {
        ReceiveSteering::Drivers
    }
}

fn times_since(to: &[ThreadTime], from: &[ThreadTime]) -> Vec<ThreadTime> {
    let earlier = |name: &str| from.iter().find(|thread| thread.name == name);
    to.iter()
        .map(|thread| {
            let (cpu_ns, user_ns) =
                earlier(&thread.name).map_or((0, 0), |thread| (thread.cpu_ns, thread.user_ns));
            ThreadTime {
                cpu_ns: thread.cpu_ns.saturating_sub(cpu_ns),
                user_ns: thread.user_ns.saturating_sub(user_ns),
                ..thread.clone()
            }
        })
        .collect()
}

/// A client must not be the limit: it merges received segments, whatever the adapter under test does.
fn client_knobs(model: &PortKnobs) -> PortKnobs {
    PortKnobs { lro: true, rx_checksum: true, ..model.clone() }
}

/// Makes a TAP in a host and takes its descriptors; with the last of them the interface goes.
fn tap(
    host: &mut Host,
    name: &str,
    queues: u32,
    address: [u8; 6],
) -> Result<Vec<OwnedFd>, LabError> {
    let create = Request::CreateTap {
        name: name.to_owned(),
        queues,
        address: Some(address),
        tx_queue_length: TAP_QUEUE,
    };
    let descriptors =
        expect_reply!(host.connection, create, Reply::Tap { descriptors } => descriptors)?;
    let mut taken = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        taken.push(host.take_descriptor(descriptor)?);
    }
    host.order(&Request::ReleaseTap { name: name.to_owned() })?;
    Ok(taken)
}

impl From<AdapterError> for LabError {
    fn from(error: AdapterError) -> Self {
        match error {
            AdapterError::System(error) => Self::System(error),
            other => Self::Io(std::io::Error::other(other.to_string())),
        }
    }
}
