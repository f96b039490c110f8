//! Virtual adapters in a testbed: who has which ports, what is set on them, what they counted.
//!
//! Ports of the system under test are numbered through all its adapters. Behind each is a wire of
//! its own with the port's clients: a cable where there is one, a switch where there are more.

use std::sync::Arc;

use linkrate_adapter::{
    Bus, Faults, Port, PortLimits, PortSpec, Snapshot, Wire, WireError, WireKind, since,
};
use linkrate_agent::protocol::{Reply, Request};
use linkrate_sys::clock::monotonic_ns;
use linkrate_terms::knobs::PortRequest;
use linkrate_terms::measurement::{AdapterEvidence, PortEvidence, ThreadTime};
use linkrate_terms::model::LARGEST_SUPERFRAME;
use linkrate_terms::{BitRate, InterfaceKnobs, Model, PortKnobs, RunSpec, Steering};

use crate::LabError;
use crate::connection::expect_reply;
use crate::placement::{Placement, strayed};
use crate::testbed::Host;

/// Packets that wait at each queue of a TAP. A full one drops, where the queue discipline of a
/// real adapter would hold the sender back, so it takes more than a run's sockets can have under
/// way.
const TAP_QUEUE: u32 = 16_384;

/// The ports of one wire.
#[derive(Debug)]
pub struct Line {
    /// Number of the port of the system under test, through all its adapters.
    pub number: u32,
    /// The port of the system under test.
    pub sut: Port,
    /// Those of its clients.
    pub clients: Vec<Port>,
    /// What joins them.
    pub wire: Wire,
}

impl Line {
    /// Sets the knobs of the port, and of what lies behind it what must be the same there.
    /// Returns what is effective.
    pub fn set_knobs(&self, model: &Model, asked: &InterfaceKnobs) -> InterfaceKnobs {
        let knobs = asked.port.over(&model.defaults, asked.rx_checksum);
        self.sut.set_knobs(knobs.clone());
        for client in &self.clients {
            let common = client_knobs(&model.defaults);
            client.set_knobs(PortKnobs { vlan: knobs.vlan, snap: knobs.snap, ..common });
        }
        effective_knobs(&self.sut)
    }

    /// The rate of the system under test's link, where it is another than the model's.
    fn other_rate(&self, model: &Model) -> Option<BitRate> {
        self.sut.shared.link_rate().filter(|rate| Some(*rate) != model.rate)
    }

    /// Lets the link of one of its ports run at another rate: both ends of a cable, or a port and
    /// the switch's port that it leads to.
    pub fn set_link_rate(&self, port: &Port, rate: BitRate) {
        port.shared.set_link_rate(rate);
        if let [client] = &self.clients[..] {
            self.sut.shared.set_link_rate(rate);
            client.shared.set_link_rate(rate);
        }
    }
}

/// What a port has, as far as the port itself knows it.
pub fn effective_knobs(port: &Port) -> InterfaceKnobs {
    let now = port.shared.knobs();
    InterfaceKnobs {
        rx_checksum: Some(now.rx_checksum),
        port: PortRequest::of(&now),
        ..InterfaceKnobs::default()
    }
}

/// What the kernel told of a port's interface, with what only the port itself knows.
pub fn with_port(kernel: InterfaceKnobs, port: InterfaceKnobs) -> InterfaceKnobs {
    InterfaceKnobs { rx_checksum: port.rx_checksum, port: port.port, ..kernel }
}

/// All virtual adapters of a testbed.
#[derive(Debug)]
pub struct Adapters {
    model: Model,
    buses: Vec<Arc<Bus>>,
    lines: Vec<Line>,
}

/// Everything that counts, at one moment.
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
        Self { model, buses: Vec::new(), lines: Vec::new() }
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
        self.lines.iter().find(|line| line.sut.shared.name() == port)
    }

    /// Nanoseconds each adapter's bus was busy; empty where it never limits.
    pub fn buses_busy_ns(&self) -> Vec<u64> {
        self.buses.iter().map(|bus| bus.busy_ns()).collect()
    }

    /// The number of the port that [`add_port`](Self::add_port) adds: the lowest that is free.
    pub fn next_number(&self) -> u32 {
        let taken = self.lines.iter().zip(0..).take_while(|(line, number)| line.number == *number);
        taken.count() as u32
    }

    /// Takes a port away, with its wire and the ports of its clients; their interfaces go with
    /// them. False when there is no such port.
    pub fn remove_port(&mut self, port: &str) -> bool {
        let before = self.lines.len();
        self.lines.retain(|line| line.sut.shared.name() != port);
        self.lines.len() < before
    }

    /// Adds the system under test's next port, with `clients` behind it.
    ///
    /// # Errors
    /// A host refuses the TAP, or a thread cannot be started.
    pub fn add_port(
        &mut self,
        sut: &mut Host,
        name: &str,
        clients: &mut [(&mut Host, &str)],
        placement: &Placement,
    ) -> Result<(), LabError> {
        let number = self.next_number();
        let adapter = (number / self.model.ports) as usize;
        if let (Some(rate), true) = (self.model.bus, self.buses.len() == adapter) {
            self.buses.push(Arc::new(Bus::new(rate)));
        }
        let kind = if clients.len() == 1 { WireKind::Cable } else { WireKind::Switch };
        let mut wire = Wire::start(&format!("wire{number}"), kind, &placement.clients)?;
        let queues = self.model.queues;
        let address = |host: u8| [0x02, 0, 0, (number >> 8) as u8, number as u8, host];
        let sut = wire.attach(PortSpec {
            name: name.to_owned(),
            queues: tap(sut, name, queues, address(1))?,
            limits: PortLimits::of(&self.model),
            knobs: self.model.defaults.clone(),
            bus: self.buses.get(adapter).cloned(),
            driver_cpus: placement.sut.clone(),
            drivers_wait: placement.is_shared(),
        })?;
        let mut ports = Vec::new();
        for (index, (host, interface)) in clients.iter_mut().enumerate() {
            ports.push(wire.attach(PortSpec {
                name: host.name.clone(),
                queues: tap(host, interface, 1, address(2 + index as u8))?,
                limits: PortLimits {
                    superframe: LARGEST_SUPERFRAME as usize,
                    ..PortLimits::of(&self.model)
                },
                knobs: client_knobs(&self.model.defaults),
                bus: None,
                driver_cpus: placement.clients.clone(),
                drivers_wait: true,
            })?);
        }
        // in the order of their numbers; one that was taken away may have left a gap
        self.lines.insert(number as usize, Line { number, sut, clients: ports, wire });
        Ok(())
    }

    /// Lets the first `ports` ports use so many of their queue pairs; all if `None`.
    ///
    /// # Errors
    /// More than there are, or an interface that is gone.
    pub fn use_queues(&self, ports: usize, queues: Option<u32>) -> Result<(), LabError> {
        if let Some(queues) = queues.filter(|queues| *queues > self.model.queues) {
            return Err(LabError::Invalid {
                what: format!("queues is {queues}"),
                hint: format!("{} has {}", self.model.name, self.model.queues),
            });
        }
        let queues = queues.unwrap_or(self.model.queues) as usize;
        for line in self.lines.iter().take(ports) {
            line.sut.shared.use_queues(queues)?;
        }
        Ok(())
    }

    /// Sets the knobs of the first `ports` ports, and of what lies behind them what must be the
    /// same there. Returns what is effective.
    pub fn set_knobs(&self, ports: usize, asked: &InterfaceKnobs) -> InterfaceKnobs {
        let lines = self.lines.iter().take(ports);
        lines.fold(InterfaceKnobs::default(), |_, line| line.set_knobs(&self.model, asked))
    }

    /// Whether a run's connections must come to ports of their own to be told apart.
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
            line.wire.set_faults(faults)?;
        }
        Ok(())
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
                name: line.sut.shared.name().to_owned(),
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

    fn device_times(&self) -> Vec<ThreadTime> {
        self.lines.iter().filter_map(|line| line.wire.device_time()).collect()
    }

    fn driver_times(&self) -> Vec<ThreadTime> {
        self.lines.iter().flat_map(|line| line.sut.driver_times()).collect()
    }

    /// A thread that is not where it was put, as a sentence.
    pub fn strayed(&self, placement: &Placement) -> Option<String> {
        strayed(&self.driver_times(), &placement.sut)
            .or_else(|| strayed(&self.device_times(), &placement.clients))
    }

    /// A link of the first `ports` ports that does not run at its model's rate, as a sentence.
    pub fn other_rate(&self, ports: usize) -> Option<String> {
        let rate = self.model.rate?;
        self.lines.iter().take(ports).find_map(|line| {
            let now = line.other_rate(&self.model)?;
            Some(format!("the link of {} runs at {now}, expected {rate}", line.sut.shared.name()))
        })
    }

    /// A port whose drivers have ended, by name.
    pub fn broken(&self) -> Option<&str> {
        let ports =
            self.lines.iter().flat_map(|line| std::iter::once(&line.sut).chain(&line.clients));
        ports.into_iter().find(|port| port.is_broken()).map(|port| port.shared.name())
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

/// A client is to be no limit: it merges what it receives, whatever the adapter under test does.
fn client_knobs(model: &PortKnobs) -> PortKnobs {
    PortKnobs { lro: true, rx_checksum: true, ..model.clone() }
}

/// Makes a TAP in a host and takes its descriptors; with the last of them the interface goes.
fn tap(
    host: &mut Host,
    name: &str,
    queues: u32,
    address: [u8; 6],
) -> Result<Vec<std::os::fd::OwnedFd>, LabError> {
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
    let release = Request::ReleaseTap { name: name.to_owned() };
    expect_reply!(host.connection, release, Reply::Done => ())?;
    Ok(taken)
}

impl From<WireError> for LabError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::System(error) => Self::System(error),
            other => Self::Io(std::io::Error::other(other.to_string())),
        }
    }
}
