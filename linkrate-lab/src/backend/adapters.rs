//! Virtual adapters: the ports of a testbed, their knobs and their counters.
//!
//! Ports of the system under test (SUT) are numbered through all its adapters. Each is on a segment,
//! with the ports of its clients and, where the topology says so, other ports of the SUT. Only this
//! module and those below it name types of [`linkrate_adapter`].

mod aggregate;
mod attach;
mod connections;
mod datagrams;
mod failed_port;
mod napi;
mod ports;
mod regroup;
mod segment;
mod toe;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use linkrate_adapter::{
    AdapterError, Aggregate, Bus, CaptureEnding, DeviceSpec, DeviceThreads, DriverThreads,
    HostSide, LinkLaw, Port, PortLink, PortSpec, Priority, Snapshot, since,
};
use linkrate_model::driver_counts::DriverCounts;
use linkrate_model::knobs::{AggregateRequest, AtmRequest, Owner};
use linkrate_model::measurement::{AdapterEvidence, PortEvidence, ThreadTime};
use linkrate_model::model::LinkKind;
use linkrate_model::topology;
use linkrate_model::{BitRate, InterfaceKnobs, Model, PortKnobs, RunSpec, Steering};
use linkrate_protocol::{Carries, Reply, Request};
use linkrate_study::validity::{RateSeen, Rescheduled, Strayed};
use linkrate_sys::clock::monotonic_ns;

use self::napi::Napi;
use super::namespaces::Join;
use super::{ReceiveSteering, Threads};
use crate::connection::expect_reply;
use crate::error::LabError;
use crate::host::{Client, Host};
use crate::options::LabOptions;
use crate::peer::Namespaces;
use crate::placement::{Placement, strayed_from_one};
use attach::Making;
use datagrams::Datagrams;
use toe::Engine;
pub(crate) use toe::{Back, Reason};

pub(crate) use failed_port::FailedPort;
pub use linkrate_adapter::fabric::vlans::{VlanSet, parse_vlan};
pub use linkrate_adapter::{Faults, Vlans};
pub(crate) use ports::PortOnSegment;
pub use segment::{Segment, SutPort};

/// Packets that may wait at each queue of a TAP. A full queue drops packets, where the queue
/// discipline of a real adapter would hold the sender back. The queue therefore takes more packets
/// than the TCP connections of a run can have in flight. Datagrams do not fill it (`datagrams`).
const TAP_QUEUE: u32 = 16_384;

/// The counters of a client's port that are kept: what frames waited for.
const WAITS: [&str; 5] = ["rxWaitedFrames", "rxWaitNs", "rxLateNs", "txWireNs", "switchTransitNs"];

/// Time between two looks at the links before a run.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The longest wait for silent links. The queues of a slow link hold a second of packets.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Octets that a link carries between two polls without being busy: address resolution, protocols of
/// an aggregate.
const FEW_OCTETS: u64 = 4096;

/// The knobs that the port itself owns, as its device has applied them.
fn effective_knobs(port: &Port) -> Result<InterfaceKnobs, LabError> {
    let atm = port.applied_atm_knobs()?;
    let atm = atm.map_or(AtmRequest::default(), |knobs| AtmRequest::of(&knobs));
    Ok(InterfaceKnobs { atm, ..port.applied_knobs()?.request() })
}

/// The knobs that the kernel reads from a port's interface, with those of the port itself.
fn with_port(kernel: InterfaceKnobs, port: InterfaceKnobs) -> InterfaceKnobs {
    InterfaceKnobs { rx_checksum: port.rx_checksum, port: port.port, atm: port.atm, ..kernel }
}

#[derive(Debug)]
pub struct Adapters {
    model: Model,
    buses: Vec<Arc<Bus>>,
    /// In the order of the first ports that they were made with.
    segments: Vec<Segment>,
    /// The device threads and the driver threads of the system under test; absent before the first
    /// segment.
    threads: Option<(DeviceThreads, DriverThreads)>,
    datagrams: Datagrams,
    /// The TCP of the adapters, if the model has a TCP offload engine.
    engine: Option<Engine>,
    napi: Napi,
}

/// All counters and clocks at one moment.
#[derive(Debug)]
pub struct Reading {
    at_ns: u64,
    ports: Vec<Snapshot>,
    buses_busy_ns: Vec<u64>,
    device: Vec<ThreadTime>,
    drivers: Vec<ThreadTime>,
    driver_counts: DriverCounts,
    /// Of the clients' ports together.
    clients: Snapshot,
}

impl Adapters {
    /// Adapters of `model`, without ports yet.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            buses: Vec::new(),
            segments: Vec::new(),
            threads: None,
            datagrams: Datagrams::default(),
            engine: None,
            napi: Napi::default(),
        }
    }

    /// The model, at the testbed's scale.
    pub fn model(&self) -> &Model {
        &self.model
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The ports of the system under test, in the order of their segments.
    pub fn sut_ports(&self) -> impl Iterator<Item = &SutPort> {
        self.segments.iter().flat_map(|segment| &segment.ports)
    }

    /// The segment with the system under test's port or aggregate of that name.
    pub fn segment(&self, interface: &str) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.topology.has_interface(interface))
    }

    /// Nanoseconds each adapter's bus was busy; empty where it never limits.
    pub fn buses_busy_ns(&self) -> Vec<u64> {
        self.buses.iter().map(|bus| bus.busy_ns()).collect()
    }

    /// Removes the segment of a port or aggregate, with all its ports and their interfaces. Returns the
    /// captures that were on, whose files may take longer.
    pub(crate) fn remove(&mut self, interface: &str) -> Vec<CaptureEnding> {
        let has = |segment: &Segment| segment.topology.has_interface(interface);
        let Some(at) = self.segments.iter().position(has) else { return Vec::new() };
        // connections that cannot return end with the port
        let _ = self.before_removal(interface);
        let Segment { topology, ports, clients, joined, aggregate } = self.segments.remove(at);
        self.napi.forget(&topology);
        if let Some(engine) = &self.engine {
            engine.drop_interface_of_all(topology.number);
        }
        let ports = ports.into_iter().map(|end| end.port).chain(clients);
        let captures = ports.filter_map(Port::remove).collect();
        // the aggregate and the fabric end after their ports
        drop((aggregate, joined));
        captures
    }

    /// Sets knobs on ports of the system under test: on the port, on its interface in the kernel, and
    /// on the clients' ports those that must be the same there. Returns the effective knobs of each
    /// interface.
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
        self.napi.check(asked)?;
        let of_the_kernel = InterfaceKnobs {
            // the virtual MTU is the model's
            gso_max_size: asked.gso_max_size.or(Some(self.model.superframe)),
            ..asked.of(Owner::Kernel)
        };
        let named = |name: &str| interfaces.iter().any(|on| on == name);
        let mut of_the_kernel = of_the_kernel;
        for segment in &self.segments {
            let aggregate = segment.aggregate.as_ref().filter(|aggregate| named(aggregate.name()));
            if let Some(aggregate) = aggregate {
                aggregate.interface().use_queues(queues as usize)?;
                // before the kernel is asked for TSO
                segment.set_aggregate_knobs(aggregate, asked)?;
                of_the_kernel = aggregate::of_the_kernel(asked, of_the_kernel);
            }
            for port in
                segment.ports.iter().filter(|port| aggregate.is_some() || named(port.name()))
            {
                port.port.shared.interface.use_queues(queues as usize)?;
            }
        }
        self.before_setting(interfaces, asked)?;
        let mtu = of_the_kernel.mtu;
        let mut effective = sut.set_knobs(interfaces, of_the_kernel)?;
        if let Some(engine) = &self.engine {
            engine.set_mtu(interfaces, mtu)?;
        }
        for segment in &self.segments {
            segment.set_knobs(&self.model, interfaces, asked, &mut effective)?;
        }
        Ok(effective)
    }

    /// Adds the knobs that the port owns to those that the kernel reads from its interface.
    pub(super) fn with_port_knobs(
        &self,
        interface: &str,
        kernel: InterfaceKnobs,
    ) -> Result<InterfaceKnobs, LabError> {
        let Some(segment) = self.segment(interface) else { return Ok(kernel) };
        let is_it = |port: &&SutPort| segment.aggregate.is_some() || port.name() == interface;
        let knobs = match segment.ports.iter().find(is_it) {
            Some(port) => with_port(kernel, effective_knobs(&port.port)?),
            None => kernel,
        };
        match &segment.aggregate {
            Some(aggregate) => with_aggregate(knobs, aggregate),
            None => Ok(knobs),
        }
    }

    /// Whether a run's connections need a destination port each, because the adapter tells flows
    /// apart by it.
    pub fn steers_by_port(&self, run: &RunSpec) -> bool {
        let steering = run.interface.port.steering.unwrap_or(self.model.defaults.steering);
        steering == Steering::DestinationPort
    }

    /// Sets the faults of every segment.
    pub fn set_faults(&self, faults: Faults) -> Result<(), LabError> {
        for segment in &self.segments {
            segment.joined.set_faults(faults)?;
        }
        Ok(())
    }

    /// Limits the datagrams of a port of the system under test to the rate that its link has now.
    pub(crate) fn follow_link_rate(&mut self, sut: &mut Host, port: &str) -> Result<(), LabError> {
        let Some(segment) = self.segments.iter().find(|of| of.topology.has_interface(port)) else {
            return Ok(());
        };
        let aggregate = segment.aggregate.as_ref();
        let ports = segment.ports.iter().filter(|end| aggregate.is_some() || end.name() == port);
        let rates = ports.flat_map(|end| end.port.links()).map(|link| link.shared().rate());
        // packets of the host take any link of the interface; without a rate nothing is limited
        let sum = rates.map(|rate| rate.map(|rate| rate.0)).sum::<Option<f64>>();
        let rate = sum.filter(|rate| *rate > 0.0).map(BitRate);
        let interface = aggregate.map_or(port, |aggregate| aggregate.name());
        self.datagrams.limit(sut, interface, &self.model, rate)
    }

    pub fn read(&self) -> Reading {
        Reading {
            at_ns: monotonic_ns(),
            ports: self.sut_ports().map(|port| port.port.counters()).collect(),
            buses_busy_ns: self.buses_busy_ns(),
            device: self.device_times(),
            drivers: self.driver_times(),
            driver_counts: self
                .threads
                .as_ref()
                .map(|(_, drivers)| drivers.counts())
                .unwrap_or_default(),
            clients: self.waits_of_clients(),
        }
    }

    /// The evidence of the time between two readings, from the first `ports` ports.
    pub fn evidence(&self, from: &Reading, to: &Reading, ports: usize) -> AdapterEvidence {
        let interval_ns = to.at_ns.saturating_sub(from.at_ns).max(1);
        let percent = |busy_ns: u64| busy_ns as f64 * 100.0 / interval_ns as f64;
        let port = |(number, (port, (to, from))): (usize, (&SutPort, (&Snapshot, &Snapshot)))| {
            let mut counters = since(to, from);
            counters.extend(self.counts_at(port.number, number == 0));
            // the mean of the port's links
            let links = port.port.links().len().max(1) as u64;
            let busy = |name: &str| {
                let busy_ns = counters.get(name).copied().unwrap_or(0);
                self.model.rate.map(|_| percent(busy_ns / links))
            };
            PortEvidence {
                name: port.name().to_owned(),
                tx_link_percent: busy("txLinkBusyNs"),
                rx_link_percent: busy("rxLinkBusyNs"),
                counters,
            }
        };
        let snapshots = to.ports.iter().zip(&from.ports);
        let buses = to.buses_busy_ns.iter().zip(&from.buses_busy_ns);
        AdapterEvidence {
            interval_ns,
            ports: self.sut_ports().zip(snapshots).take(ports).enumerate().map(port).collect(),
            bus_percent: buses.map(|(to, from)| percent(to.saturating_sub(*from))).collect(),
            device_threads: times_since(&to.device, &from.device),
            driver_threads: times_since(&to.drivers, &from.drivers),
            driver_counts: to.driver_counts.since(from.driver_counts),
            receives_in_drivers: self.napi.why_absent().is_some(),
            clients: since(&to.clients, &from.clients),
            frames_overtaken: None,
        }
    }

    /// What the frames of the clients' ports waited for so far.
    fn waits_of_clients(&self) -> Snapshot {
        let mut all = Snapshot::new();
        for port in self.segments.iter().flat_map(|segment| &segment.clients) {
            let waits = port.counters().into_iter();
            for (name, count) in waits.filter(|(name, _)| WAITS.contains(&name.as_str())) {
                *all.entry(name).or_default() += count;
            }
        }
        all
    }

    /// CPU time of each device thread so far.
    pub(crate) fn device_times(&self) -> Vec<ThreadTime> {
        self.threads.as_ref().map(|(devices, _)| devices.times()).unwrap_or_default()
    }

    /// CPU time of each driver thread so far.
    pub(crate) fn driver_times(&self) -> Vec<ThreadTime> {
        self.threads.as_ref().map(|(_, drivers)| drivers.times()).unwrap_or_default()
    }

    /// Kernel ids of the driver threads.
    pub(crate) fn driver_ids(&self) -> Vec<u32> {
        let threads = self.threads.iter().flat_map(|(_, drivers)| drivers.ids());
        threads.map(|id| id as u32).collect()
    }

    /// Kernel ids of the system under test's NAPI threads.
    pub fn napi_ids(&self) -> Vec<u32> {
        self.napi.ids()
    }

    /// The threads that may run on other CPUs than their own.
    pub fn strayed(&self, placement: &Placement) -> Vec<Strayed> {
        let mut found = strayed_from_one(&self.driver_times(), &placement.sut);
        found.extend(strayed_from_one(&self.device_times(), &placement.clients));
        found.extend(self.napi.strayed(&placement.sut));
        found
    }

    /// The threads of the kernel whose policy or nice value somebody has changed.
    pub fn rescheduled(&self) -> Vec<Rescheduled> {
        self.napi.rescheduled()
    }

    /// The driver threads that take the interrupts of an interface of the system under test, as indices
    /// among its CPUs.
    pub(crate) fn driver_threads(&self, interface: &str) -> BTreeSet<usize> {
        let ports = self.sut_ports().filter(|port| port.name() == interface);
        ports.flat_map(|port| port.port.driver_threads()).collect()
    }

    /// The links of the first `ports` ports of the system under test beside the model's rate.
    pub fn rates(&self, ports: usize) -> Vec<RateSeen> {
        let links = |port: &'_ SutPort| {
            let of = |link: PortLink<'_>| RateSeen {
                interface: port.name().to_owned(),
                expected: self.model.rate,
                seen: link.shared().rate(),
            };
            port.port.links().map(of).collect::<Vec<_>>()
        };
        self.sut_ports().take(ports).flat_map(links).collect()
    }

    /// A port that carries no packets any more, or an engine without TCP, with the reason.
    pub fn broken(&self) -> Option<String> {
        let mut ports = self.segments.iter().flat_map(Segment::all_ports);
        ports
            .find_map(|port| Some(format!("port {}: {}", port.name(), port.broken()?)))
            .or_else(|| self.engine.as_ref()?.broken())
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
                        packet that wakes a program costs a context switch, which a real adapter \
                        does not need; run as root, or give linkrate CAP_SYS_NICE";
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

impl Adapters {
    /// The bus of the adapter with port number `number`, which is made with the first of its ports.
    fn bus(&mut self, number: u32) -> Option<Arc<Bus>> {
        let rate = self.model.bus?;
        let adapter = (number / self.model.ports) as usize;
        while self.buses.len() <= adapter {
            self.buses.push(Arc::new(Bus::new(rate)));
        }
        Some(Arc::clone(&self.buses[adapter]))
    }

    /// Waits until the links are silent: nothing that the run before has left takes them from the next one. Returns the octets between the last two polls if they are not
    /// after [`MAX_WAIT`].
    pub(crate) fn drain(&self) -> Option<u64> {
        let begun = Instant::now();
        let mut before = self.carried();
        loop {
            sleep(POLL_INTERVAL);
            let now = self.carried();
            let carried = now.wrapping_sub(before);
            if carried <= FEW_OCTETS * self.segments().len() as u64 {
                return None;
            }
            if begun.elapsed() >= MAX_WAIT {
                return Some(carried);
            }
            before = now;
        }
    }

    fn carried(&self) -> u64 {
        self.octets(usize::MAX).map(|(_, octets)| octets).fold(0, u64::wrapping_add)
    }
}

impl Join for Adapters {
    fn prepare(
        &mut self,
        namespaces: &mut Namespaces,
        placement: &Placement,
        options: &LabOptions,
    ) -> Result<(), LabError> {
        self.napi.prepare(&self.model, placement);
        if self.model.toe_connections > 0 && self.engine.is_none() {
            self.engine = Some(Engine::start(namespaces, placement, options)?);
        }
        Ok(())
    }

    fn join(
        &mut self,
        segment: &topology::Segment,
        sut: &mut Host,
        clients: &mut [Client],
        placement: &Placement,
    ) -> Result<(), LabError> {
        let model = &self.model.clone();
        let device = DeviceSpec::of(model);
        let ports = segment.ports.iter().map(|port| segment.adapter_port(port.number));
        let buses: Vec<_> = ports.map(|port| self.bus(port)).collect();
        if self.threads.is_none() {
            let drivers = DriverThreads::start(&placement.sut, placement.is_shared())?;
            self.threads = Some((DeviceThreads::new(&placement.clients), drivers));
        }
        let Some((devices, drivers)) = &mut self.threads else {
            return Err(LabError::Io(std::io::Error::other("no threads for adapters")));
        };
        let mut joined = devices.segment(segment.fabric, LinkLaw::of(&self.model))?;
        // before the ports: they ask for the other ends at once
        connections::make(&mut joined, segment, &device)?;
        let engine = self.engine.as_ref();
        let making = Making {
            model: &self.model,
            drivers,
            datagrams: &mut self.datagrams,
            buses,
            engine,
            napi: &mut self.napi,
        };
        let (aggregate, ports) = making.attach(segment, &mut joined, sut)?;
        let first = segment.home;
        let on_ethernet = connections::bridged_model()?;
        let ethernet = DeviceSpec::of(&on_ethernet);
        let mut peers = Vec::new();
        for (index, client) in clients.iter_mut().enumerate() {
            let host = &mut client.host;
            let (model, device) = match segment.is_bridged(index) {
                true => (&on_ethernet, &ethernet),
                false => (model, &device),
            };
            peers.push(joined.attach(PortSpec {
                name: host.name.clone(),
                queues: tap(host, &client.interface, model, 1, address(first, 1 + index as u8))?,
                device: connections::of_end(device, segment, segment.ports.len() + index).peer(),
                knobs: client_knobs(&model.defaults, &model.defaults),
                bus: None,
                // nothing is measured on a client
                host: HostSide::Device,
                switch: segment.switch_of_client(index),
            })?);
        }
        let topology = segment.clone();
        let made = Segment { topology, ports, clients: peers, aggregate, joined };
        made.group()?;
        let at = self.segments.partition_point(|other| other.topology.home < first);
        self.segments.insert(at, made);
        Ok(())
    }

    fn addressed(&self, segments: &[topology::Segment], sut: &mut Host) -> Result<(), LabError> {
        match &self.engine {
            Some(_) => segments.iter().try_for_each(|segment| toe::leave_round_trips(sut, segment)),
            None => Ok(()),
        }
    }

    fn receive_steering(&self, _placement: &Placement) -> ReceiveSteering {
        match self.napi.why_absent() {
            None => ReceiveSteering::Napi,
            // a driver thread runs the receive processing of its host
            Some(why) => ReceiveSteering::Drivers(why.to_owned()),
        }
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

/// The MAC address of an end of a segment. `first` is the number of the SUT's port, or of the first
/// one of the segment; `end` is 0 for this port and counts clients from 1.
fn address(first: u32, end: u8) -> [u8; 6] {
    [0x02, 0, 0, (first >> 8) as u8, first as u8, 1 + end]
}

/// The knobs of a client's port, opposite a port with the knobs `sut`. A client must not be the limit: it
/// merges received segments, even if the adapter under test does not, unless `client-lro` is off.
fn client_knobs(model: &PortKnobs, sut: &PortKnobs) -> PortKnobs {
    PortKnobs { lro: sut.client_lro, rx_checksum: true, ..model.clone() }.sharing(sut)
}

/// Makes the interface of a port in a host and takes its descriptors: a TAP, or a TUN for Classical IP. The
/// interface exists as long as one of them.
fn tap(
    host: &mut Host,
    name: &str,
    model: &Model,
    queues: u32,
    address: [u8; 6],
) -> Result<Vec<OwnedFd>, LabError> {
    Ok(tap_with(host, name, model, queues, address, false)?.queues)
}

/// An interface of a port.
#[derive(Debug)]
struct Tap {
    queues: Vec<OwnedFd>,
    /// The NAPI thread of each queue, or why there are none.
    napi: Result<Vec<u32>, String>,
}

/// The same; with `napi`, NAPI threads process what it receives if they can be had.
fn tap_with(
    host: &mut Host,
    name: &str,
    model: &Model,
    queues: u32,
    address: [u8; 6],
    napi: bool,
) -> Result<Tap, LabError> {
    let (carries, address, mtu) = match model.link {
        LinkKind::Ethernet => (Carries::Frames, Some(address), None),
        LinkKind::Atm if model.encapsulation.is_emulated() => {
            (Carries::PlainFrames, Some(address), Some(model.default_mtu()))
        }
        LinkKind::Atm => (Carries::Packets, None, Some(model.default_mtu())),
    };
    let create = Request::CreateTap {
        name: name.to_owned(),
        carries,
        queues,
        address,
        mtu,
        tx_queue_length: TAP_QUEUE,
        napi,
    };
    taken(host, name, create)
}

/// Makes an interface by `create` and takes its descriptors.
fn taken(host: &mut Host, name: &str, create: Request) -> Result<Tap, LabError> {
    let (descriptors, napi) = expect_reply!(host.connection, create,
        Reply::Tap { descriptors, napi_threads, napi_refused } =>
            (descriptors, napi_refused.map_or(Ok(napi_threads), Err)))?;
    let mut queues = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        queues.push(host.take_descriptor(descriptor)?);
    }
    host.order(&Request::ReleaseTap { name: name.to_owned() })?;
    Ok(Tap { queues, napi })
}

impl From<AdapterError> for LabError {
    fn from(error: AdapterError) -> Self {
        match error {
            AdapterError::System(error) => Self::System(error),
            other => Self::Io(std::io::Error::other(other.to_string())),
        }
    }
}

/// Adds the effective knobs of an aggregate.
fn with_aggregate(
    knobs: InterfaceKnobs,
    aggregate: &Aggregate,
) -> Result<InterfaceKnobs, LabError> {
    let aggregate = AggregateRequest::of(&aggregate.applied_knobs()?);
    Ok(InterfaceKnobs { aggregate, ..knobs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_merges_unless_the_port_of_the_sut_asks_it_not_to() {
        let model = PortKnobs { lro: false, rx_checksum: false, ..PortKnobs::default() };
        for client_lro in [true, false] {
            let sut = PortKnobs { client_lro, lro: false, ..model.clone() };
            let client = client_knobs(&model, &sut);
            assert_eq!((client.lro, client.rx_checksum), (client_lro, true));
        }
    }
}
