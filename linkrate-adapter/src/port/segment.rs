//! A segment as the controller holds it: ports are attached to its fabric while others carry
//! traffic.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_model::topology::Fabric;
use linkrate_model::{AggregateKnobs, PortKnobs};
use linkrate_wire::link::LinkLaw;
use linkrate_wire::machine::call::Circuits;
use rtrb::RingBuffer;

use super::link::SwitchEnd;
use super::{AtmBehind, Port};
use crate::AdapterError;
use crate::aggregate::Aggregate;
use crate::aggregate::decisions::DecisionLog;
use crate::atm::ArpShared;
use crate::atm::lane::LaneStation;
use crate::bus::Bus;
use crate::counters::{DriverCounters, ElanCounters};
use crate::device::atm::clients::Clients;
use crate::device::atm::{Atm, AtmLimits};
use crate::device::{Device, DeviceSpec, Mount};
use crate::device_threads::{DeviceThread, DeviceThreads};
use crate::engine::{Command, Place};
use crate::fabric::atm_switch::HIGHEST;
use crate::fabric::atm_switch::servers::ElanSpec;
use crate::fabric::bridged::BridgeShared;
use crate::fabric::faults::Faults;
use crate::fabric::vlans::Vlans;
use crate::fabric::{self, Discard, End, FabricCommand, GroupPort, GroupSpec};
use crate::interface::doorbell::ThreadDoorbell;
use crate::interface::driver::{Driver, DriverThreads, PortSink};
use crate::interface::polled::Polled;
use crate::interface::queue_pair::{ControlRings, DriverRings, QueuePair};
use crate::interface::rings::QueueShared;
use crate::interface::{ControlEnds, Ends, Interface, Queue, RingSizes};
use crate::link::LinkSpec;
use crate::path_change::{FirstPathChanges, PathChangeWatch};
use crate::port_shared::PortShared;
use crate::reordering::ReorderingCount;
use crate::segment::{LeadsTo, Segment as Owned};

/// Places for changes of the steering table between a driver and its device.
const STEERING_UPDATES: usize = 256;

/// Frames of the protocols of an aggregate that may wait in each direction: more than three protocols
/// send in a second.
const CONTROL_FRAMES: usize = 64;

/// What moves packets between a port's TAP and its device.
#[derive(Debug, Clone)]
pub enum HostSide {
    /// The driver threads of the host.
    Drivers(DriverThreads),
    /// The same, and the device thread for the TAP of the adapter's own TCP.
    Offloading(DriverThreads, Arc<OwnedFd>),
    /// The device thread: nothing is measured on this host.
    Device,
    /// The drivers of an aggregate, which has a TAP for all its ports. The port has this number there. With
    /// a descriptor, the device thread serves this queue of the TAP of the adapters' own TCP.
    Aggregate(Arc<Aggregate>, usize, Option<Arc<OwnedFd>>),
}

#[derive(Debug)]
pub struct PortSpec {
    /// The name of its interface.
    pub name: String,
    /// The TAP's queues, one for each queue pair; empty for a port of an aggregate.
    pub queues: Vec<OwnedFd>,
    /// The kind and abilities of its device.
    pub device: DeviceSpec,
    pub knobs: PortKnobs,
    pub bus: Option<Arc<Bus>>,
    pub host: HostSide,
    /// The switch of the fabric that its links lead to, from 0; 0 on a cable.
    pub switch: usize,
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
    pub(crate) switch: usize,
}

/// A port whose device is still to be built, and its drivers to be started.
struct Prepared {
    port: Port,
    /// `None` once the device has it.
    mount: Option<Mount>,
    drivers: Vec<(usize, Driver)>,
    queue_pairs: Vec<QueuePair>,
    host: HostSide,
    switch: usize,
}

impl Prepared {
    /// Starts the drivers.
    fn begin(self) -> Result<Port, AdapterError> {
        let Self { mut port, drivers, queue_pairs, host, .. } = self;
        match host {
            HostSide::Device => {}
            HostSide::Drivers(threads) | HostSide::Offloading(threads, _) => port
                .drivers
                .extend(drivers.into_iter().map(|(thread, driver)| threads.add(thread, driver))),
            HostSide::Aggregate(aggregate, number, _) => {
                aggregate.add(
                    number,
                    port.name(),
                    Arc::clone(port.shared.first_link()),
                    queue_pairs,
                );
                port.member_of = Some((aggregate, number));
            }
        }
        Ok(port)
    }
}

/// The two ends of the queues of a port: those of its device, and those of its host.
#[derive(Default)]
struct BothEnds {
    queues: Vec<Queue>,
    /// With the driver threads that are to serve them.
    drivers: Vec<(usize, Driver)>,
    /// Those of an aggregate's drivers.
    queue_pairs: Vec<QueuePair>,
}

impl BothEnds {
    /// The device reads and writes these TAPs itself.
    fn polled(&mut self, port: &mut Port, taps: Vec<OwnedFd>) {
        self.queues.extend(taps.into_iter().map(|tap| Queue::new(port.polled(tap))));
    }

    /// Drivers on these threads read and write the TAPs.
    fn driven(
        &mut self,
        port: &mut Port,
        threads: &DriverThreads,
        taps: Vec<OwnedFd>,
        rings: RingSizes,
    ) {
        for (number, tap) in taps.into_iter().enumerate() {
            let (thread, interrupt) = threads.next();
            let (ends, queue_pair) = port.driven(number as u16, rings, interrupt, false);
            self.queues.push(Queue::new(ends));
            let interface = Arc::clone(&port.shared.interface);
            let driver = Driver::new(tap, Box::new(PortSink(queue_pair)), interface);
            self.drivers.push((thread, driver));
        }
    }

    /// Each driver of an aggregate has a queue pair.
    fn queue_pairs(&mut self, port: &mut Port, aggregate: &Aggregate, rings: RingSizes) {
        for (number, interrupt) in aggregate.interrupts().enumerate() {
            let interrupt = Arc::clone(interrupt);
            let (ends, queue_pair) = port.driven(number as u16, rings, interrupt, true);
            self.queues.push(Queue::new(ends));
            self.queue_pairs.push(queue_pair);
        }
    }
}

/// A part of a testbed: a fabric and the ports on it. Dropping it removes the fabric. What changes the fabric fails
/// when the device thread has ended.
#[derive(Debug)]
pub struct Segment {
    fabric: Fabric,
    number: usize,
    thread: Arc<DeviceThread>,
    /// Devices that were attached so far.
    stations: usize,
    /// Ports of the fabric that links were led to so far.
    ports: usize,
    /// Permanent connections, by the number of their port.
    circuits: BTreeMap<usize, Circuits>,
    /// The decisions of its switch about the ports of groups.
    decisions: DecisionLog,
    /// Its servers of ATM, and its bridge.
    atm: AtmBehind,
}

impl DeviceThreads {
    /// A segment without ports, for links under `law`, on the thread that serves the fewest segments. Fails when a
    /// thread cannot be started or placed.
    pub fn segment(&mut self, fabric: Fabric, law: LinkLaw) -> Result<Segment, AdapterError> {
        let (thread, number) = self.next_segment()?;
        thread.send_command(Command::AddSegment(number, fabric::build(fabric, law)))?;
        Ok(Segment::new(fabric, number, thread))
    }
}

impl Segment {
    fn new(fabric: Fabric, number: usize, thread: Arc<DeviceThread>) -> Self {
        Self {
            fabric,
            number,
            thread,
            stations: 0,
            ports: 0,
            circuits: BTreeMap::new(),
            decisions: DecisionLog::default(),
            atm: AtmBehind::default(),
        }
    }

    /// Attaches a port, while others carry traffic, and starts its drivers. Fails when the fabric is full, or a
    /// thread cannot be started.
    pub fn attach(&mut self, spec: PortSpec) -> Result<Port, AdapterError> {
        let PortSpec { name, queues, device, knobs, bus, host, switch } = spec;
        let most_connections = device.most_connections();
        let end = HostEnd { name, queues, rings: device.rings(), knobs, bus, host, switch };
        let mut port = self.attach_device(end, &device.links(), |mount| device.build(mount))?;
        port.most_connections = most_connections;
        Ok(port)
    }

    /// Attaches one ATM port with several clients of emulated LANs: each has an interface of the host, with
    /// drivers, and all share the link of the first one. Fails as [`attach`](Self::attach), and if a port is no
    /// client of an emulated LAN or has no drivers.
    pub fn attach_clients(&mut self, specs: Vec<PortSpec>) -> Result<Vec<Port>, AdapterError> {
        let (mut prepared, mut clients) = (Vec::<Prepared>::new(), Vec::new());
        for spec in specs {
            let PortSpec { name, queues, device, knobs, bus, host, switch } = spec;
            let (DeviceSpec::Atm(limits @ AtmLimits { lane: Some(_), .. }), HostSide::Drivers(_)) =
                (device, &host)
            else {
                let cause = io::Error::new(io::ErrorKind::InvalidInput, "no client with drivers");
                return Err(AdapterError::Io { what: format!("attach port {name}"), cause });
            };
            let (links, rings) = ([limits.link], limits.rings);
            let end = HostEnd { name, queues, rings, knobs, bus, host, switch };
            let shared = prepared.first().map(|first| &first.port);
            let mut next = self.prepare(end, &links, shared)?;
            clients.extend(next.mount.take().map(|mount| Atm::new(limits, mount)));
            prepared.push(next);
        }
        let mut clients = clients.into_iter();
        let Some(first) = clients.next() else { return Ok(Vec::new()) };
        let switch = prepared.first().map_or(0, |first| first.switch);
        let device = Box::new(Clients::new(first, clients));
        self.place(device, 1, prepared.first().map(|first| &first.port), switch)?;
        prepared.into_iter().map(Prepared::begin).collect()
    }

    /// Attaches the device that `build` makes. Each of its links leads to a port of the fabric.
    pub(crate) fn attach_device(
        &mut self,
        end: HostEnd,
        links: &[LinkSpec],
        build: impl FnOnce(Mount) -> Box<dyn Device>,
    ) -> Result<Port, AdapterError> {
        let mut prepared = self.prepare(end, links, None)?;
        if let Some(mount) = prepared.mount.take() {
            self.place(build(mount), links.len(), Some(&prepared.port), prepared.switch)?;
        }
        prepared.begin()
    }

    /// Makes a port, which shares the links of another one if there is one, and what its device works
    /// with.
    fn prepare(
        &self,
        end: HostEnd,
        links: &[LinkSpec],
        shares: Option<&Port>,
    ) -> Result<Prepared, AdapterError> {
        let free = fabric::most_ports(self.fabric).saturating_sub(self.ports);
        if links.len() > free {
            return Err(AdapterError::CableFull { name: end.name, needed: links.len(), free });
        }
        let count = match &end.host {
            HostSide::Aggregate(aggregate, ..) => aggregate.interrupts().len(),
            HostSide::Device | HostSide::Drivers(_) | HostSide::Offloading(..) => end.queues.len(),
        };
        let taps: io::Result<Vec<_>> = match count {
            0 => Err(io::Error::new(io::ErrorKind::InvalidInput, "no queue")),
            _ => end.queues.iter().map(OwnedFd::try_clone).collect(),
        };
        let what = format!("attach port {}", end.name);
        let cannot = |cause| AdapterError::Io { what: what.clone(), cause };
        let taps = taps.map_err(cannot)?;
        let mut shared = PortShared::new(end.name, links, end.knobs, count, taps);
        if let Some(other) = shares {
            shared.links.clone_from(&other.shared.links);
        }
        let shared = Arc::new(shared);
        let mut port = self.port(&shared, links, shares);
        let mut ends = BothEnds::default();
        match &end.host {
            HostSide::Device => ends.polled(&mut port, end.queues),
            HostSide::Drivers(threads) | HostSide::Offloading(threads, _) => {
                ends.driven(&mut port, threads, end.queues, end.rings);
            }
            HostSide::Aggregate(aggregate, ..) => ends.queue_pairs(&mut port, aggregate, end.rings),
        }
        if let HostSide::Offloading(_, tap) | HostSide::Aggregate(.., Some(tap)) = &end.host {
            ends.polled(&mut port, vec![tap.try_clone().map_err(cannot)?]);
            // no driver of the host moves its packets
            port.counters.pop();
        }
        let BothEnds { queues, drivers, queue_pairs } = ends;
        let interface = Interface::new(Arc::clone(&shared.interface), queues);
        let clock = self.thread.clock;
        let mount = Some(Mount { shared, interface, bus: end.bus, clock });
        let (host, switch) = (end.host, end.switch);
        Ok(Prepared { port, mount, drivers, queue_pairs, host, switch })
    }

    /// The next port, without queues.
    fn port(&self, shared: &Arc<PortShared>, links: &[LinkSpec], shares: Option<&Port>) -> Port {
        let is_atm = links.first().is_some_and(|link| link.law == LinkLaw::Atm);
        let leads_to = self.ports..self.ports + links.len();
        Port {
            shared: Arc::clone(shared),
            place: Place { segment: self.number, station: self.stations },
            counters: Vec::new(),
            switch: match self.fabric {
                // an ATM switch has no VLANs
                _ if is_atm => Vec::new(),
                Fabric::Switch | Fabric::Bridged | Fabric::Switches | Fabric::Router(_) => {
                    leads_to.map(SwitchEnd::new).collect()
                }
                Fabric::Cable => Vec::new(),
            },
            atm: AtmBehind {
                cells: match shares {
                    Some(other) => other.atm.cells.clone(),
                    None => (is_atm && self.fabric != Fabric::Cable).then(Arc::default),
                },
                elans: self.atm.elans.clone().filter(|_| is_atm),
                bridge: self.atm.bridge.clone().filter(|_| !is_atm),
                server: self.atm.server.clone(),
            },
            drivers: Vec::new(),
            member_of: None,
            thread: Arc::clone(&self.thread),
            most_connections: 0,
            attached: true,
        }
    }

    /// Gives a device with `links` links to the device thread, and tells the fabric where they count.
    fn place(
        &mut self,
        device: Box<dyn Device>,
        links: usize,
        port: Option<&Port>,
        switch: usize,
    ) -> Result<(), AdapterError> {
        let Some(port) = port else { return Ok(()) };
        let first = self.ports;
        let leads_to = LeadsTo { ports: (first..first + links).collect(), switch };
        self.thread.send_command(Command::Attach(port.place, device, leads_to))?;
        self.stations += 1;
        self.ports += links;
        if let Some(counters) = &port.atm.cells {
            self.control(FabricCommand::CountCells(first, Arc::clone(counters)))?;
        }
        for end in &port.switch {
            let counters = Arc::clone(&end.counters);
            self.control(FabricCommand::SetVlans(end.number, Vlans::default(), counters))?;
        }
        Ok(())
    }

    /// Makes the ports of the switch that `members` lead to a group. Those that their aggregate uses with
    /// these settings are in use. Without members, the group is no more.
    pub fn set_group<'a>(
        &self,
        number: usize,
        members: impl IntoIterator<Item = &'a Port>,
        knobs: AggregateKnobs,
    ) -> Result<(), AdapterError> {
        let mut ports = Vec::new();
        for (member, (aggregate, place)) in
            members.into_iter().filter_map(|port| Some((port, port.member_of.as_ref()?)))
        {
            let in_use = aggregate.in_use(&knobs).contains(place);
            let place = *place;
            let ends = member.switch.iter().map(|end| end.number);
            ports.extend(ends.map(|port| GroupPort { port, place, in_use }));
        }
        let spec = GroupSpec { ports, knobs, decisions: self.decisions.clone() };
        self.control(FabricCommand::SetGroup(number, spec))
    }

    /// The decisions of its switch about the ports of its groups.
    #[must_use]
    pub fn decisions(&self) -> &DecisionLog {
        &self.decisions
    }

    /// Counts frames that come after later ones of their connection into `count` from now on, until
    /// every other copy of it is dropped.
    pub fn count_reordering(&self, count: &ReorderingCount) -> Result<(), AdapterError> {
        let count = count.clone();
        self.with(move |segment| segment.count_reordering(count))
    }

    /// Notes in `moves` when connections change between ports of an aggregate, in the order of `members`,
    /// until every other copy of it is dropped.
    pub fn watch_path_changes<'a>(
        &self,
        moves: &FirstPathChanges,
        members: impl IntoIterator<Item = &'a Port>,
    ) -> Result<(), AdapterError> {
        let ends = members.into_iter().flat_map(|port| &port.switch);
        let ports = ends.map(|end| end.number).collect();
        let watch = PathChangeWatch::new(moves, ports, self.thread.clock);
        self.with(move |segment| segment.watch_path_changes(watch))
    }

    /// Makes a permanent connection between two ports of the fabric, in both directions. Ports have numbers in the
    /// order in which they were attached. Only an ATM switch has connections. Fails if an identifier is reserved,
    /// beyond the port, or in use there; the connection that has it stays.
    pub fn connect(&mut self, one: End, other: End) -> Result<(), AdapterError> {
        self.take_circuit(one)?;
        if let Err(refused) = self.take_circuit(other) {
            self.circuits.entry(one.0).and_modify(|circuits| _ = circuits.free(one.1));
            return Err(refused);
        }
        self.control(FabricCommand::Connect(one, other))
    }

    fn take_circuit(&mut self, (end, connection): End) -> Result<(), AdapterError> {
        let circuits = self.circuits.entry(end).or_insert_with(|| Circuits::new(HIGHEST));
        circuits.take(connection).map_err(|why| AdapterError::Circuit { end, why })
    }

    /// Makes emulated LANs in its ATM switch: a LECS, and for each ELAN a LES and a BUS. Before the first
    /// port is attached.
    pub fn emulate(&mut self, elans: Vec<ElanSpec>) -> Result<(), AdapterError> {
        let counters = Arc::<ElanCounters>::default();
        self.atm.elans = Some(Arc::clone(&counters));
        self.control(FabricCommand::Emulate(elans, counters))
    }

    /// Makes a bridge between its Ethernet ports and an emulated LAN of its ATM switch: a proxy client
    /// with these addresses, on a link of this kind. Behind [`emulate`](Self::emulate), before the first
    /// port is attached. Only [`Fabric::Bridged`] has Ethernet ports beside ATM ports.
    pub fn bridge(&mut self, station: LaneStation, link: LinkSpec) -> Result<(), AdapterError> {
        let shared = Arc::<BridgeShared>::default();
        self.atm.bridge = Some(Arc::clone(&shared));
        self.control(FabricCommand::Bridge(station, link, shared))
    }

    /// Makes an ATMARP server (RFC 2225) in its ATM switch, which the ports with switched connections
    /// call. Before the first port is attached.
    pub fn serve_addresses(&mut self) -> Result<(), AdapterError> {
        let shared = Arc::<ArpShared>::default();
        self.atm.server = Some(Arc::clone(&shared));
        self.control(FabricCommand::ServeAddresses(shared))
    }

    /// Sets how the queues of its ATM switch drop cells.
    pub fn set_discard(&self, discard: Discard) -> Result<(), AdapterError> {
        (0..self.ports).try_for_each(|port| self.control(FabricCommand::SetDiscard(port, discard)))
    }

    /// Lets switch number `switch` of the fabric, from 0, die or live again. A dead switch takes and sends nothing,
    /// while the links to it stay up: all its ports are silent. One that lives again begins again, without the
    /// addresses that it had learnt and without partners. Fails if the fabric has no such switch.
    pub fn set_switch_alive(&self, switch: usize, alive: bool) -> Result<(), AdapterError> {
        let switches = fabric::switches(self.fabric);
        if switch >= switches {
            return Err(AdapterError::NoSuchSwitch { switch, switches });
        }
        self.control(FabricCommand::SetSwitchAlive(switch, alive))
    }

    /// Sets the faults of the segment's links.
    pub fn set_faults(&self, faults: Faults) -> Result<(), AdapterError> {
        self.with(move |segment| segment.set_faults(faults))
    }

    fn control(&self, command: FabricCommand) -> Result<(), AdapterError> {
        self.with(move |segment| segment.fabric().control(command))
    }

    /// Gives the device thread something to do with the segment.
    fn with(&self, work: impl FnOnce(&mut Owned) + Send + 'static) -> Result<(), AdapterError> {
        self.thread.in_segment(self.number, work)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // a thread that has ended has no segments any more
        let _ = self.thread.send_command(Command::RemoveSegment(self.number));
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

    /// A queue with a driver, and the driver's lane. The device wakes the driver by `interrupt`. Frames
    /// of the protocols have rings of their own in an aggregate.
    fn driven(
        &mut self,
        number: u16,
        rings: RingSizes,
        interrupt: Arc<ThreadDoorbell>,
        in_aggregate: bool,
    ) -> (Ends, QueuePair) {
        let (tx, tx_device) = RingBuffer::new(rings.transmit);
        let (rx_device, rx) = RingBuffer::new(rings.receive);
        let (steering, steering_device) = RingBuffer::new(STEERING_UPDATES);
        let (control, control_device) = match in_aggregate {
            true => {
                let (tx, tx_device) = RingBuffer::new(CONTROL_FRAMES);
                let (rx_device, rx) = RingBuffer::new(CONTROL_FRAMES);
                let device = ControlEnds { tx: tx_device, rx: rx_device };
                (Some(ControlRings { tx, rx }), Some(device))
            }
            false => (None, None),
        };
        let queue = Arc::new(QueueShared::new(interrupt));
        self.counters.push(Arc::clone(&queue.counters));
        let ends = Ends::Driver {
            tx: tx_device,
            rx: rx_device,
            steering: steering_device,
            control: control_device,
            shared: Arc::clone(&queue),
        };
        let (doorbell, interface) =
            (Arc::clone(&self.thread.doorbell), Arc::clone(&self.shared.interface));
        let rings = DriverRings { tx, rx, steering, control };
        (ends, QueuePair::new(number, rings, queue, doorbell, interface))
    }
}
