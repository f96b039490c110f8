//! One run, and the testbed that all runs of a study share.

mod emulated;

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cpus::CpuSet;
use crate::event::Event;
use crate::interfaces::Interfaces;
use crate::is_zero;
use crate::knobs::{InterfaceKnobs, SocketKnobs};
use crate::model::Model;
use crate::workload::{Direction, Item, Workload};

pub use emulated::{BridgeError, ElanError};

/// What the hosts do during a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a run has one, and all but one run of a study have a workload"
)]
pub enum Task {
    /// Nothing: the background load is measured.
    #[default]
    Idle,
    /// Traffic.
    Workload(Workload),
}

/// One run: everything that is set and done, from knobs to measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunSpec {
    /// What the hosts do.
    pub task: Task,
    /// Knobs of the SUT's interfaces.
    pub interface: InterfaceKnobs,
    /// Options of the test sockets.
    pub socket: SocketKnobs,
    /// How many of the testbed's clients take part, from the first.
    pub clients: u32,
    /// How many ports of virtual adapters or existing interfaces take part, from the first, each
    /// with [`TestbedSpec::clients_per_port`] clients; `None` on veth, where `clients` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<u32>,
    /// The model of the run's virtual adapters, one of [`TestbedSpec::others`]; `None` is the adapter
    /// of the testbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// Traffic before the measurement opens.
    pub warm_up: Duration,
    /// The length of the common measurement in which both ends count.
    pub duration: Duration,
    /// Whether the SUT's CPUs are sampled for a profile, which costs CPU time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub profile: bool,
    /// What fails inside the measurement, and when; the run then keeps a record over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// Share of frames, or of ATM cells, that the links of virtual adapters lose while traffic flows, both
    /// ways, in millionths.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub loss_ppm: u32,
    /// Seed for random choices inside the run (message sizes, frames that are lost); each run has its own.
    pub seed: u64,
}

impl RunSpec {
    /// A run of `task` with one client, everything else as it comes and nothing before the measurement.
    pub fn new(task: Task, duration: Duration) -> Self {
        Self {
            task,
            interface: InterfaceKnobs::default(),
            socket: SocketKnobs::default(),
            clients: 1,
            ports: None,
            adapter: None,
            warm_up: Duration::ZERO,
            duration,
            profile: false,
            event: None,
            loss_ppm: 0,
            seed: 0,
        }
    }

    /// What the run completes one by one; `None` for streams and idle runs.
    pub fn item(&self) -> Option<Item> {
        match &self.task {
            Task::Workload(workload) => workload.item(),
            Task::Idle => None,
        }
    }

    /// Whether the run's unit of work is a transaction.
    pub fn is_transactional(&self) -> bool {
        match &self.task {
            Task::Workload(workload) => workload.kind.is_transactional(),
            Task::Idle => false,
        }
    }

    /// Whether payload of both directions is a stream of its own.
    pub fn is_bidirectional(&self) -> bool {
        matches!(&self.task, Task::Workload(workload)
            if workload.direction == Direction::Bidirectional && !self.is_transactional())
    }
}

/// The adapters a testbed can be built on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adapter {
    /// A veth pair per client.
    Veth,
    /// Virtual adapters of this model, as many as the ports need.
    Model(Box<Model>),
    /// Existing interfaces of the host under test.
    Interfaces(Interfaces),
    /// Not known: the runs were measured by another program and imported. No testbed can be built of it.
    Unknown,
}

impl Adapter {
    /// Whether the clients are other machines, whose CPUs are not those of the system under test.
    pub fn has_remote_clients(&self) -> bool {
        matches!(self, Self::Interfaces(on) if on.is_remote())
    }

    /// Whether the system under test is another machine than the controller's.
    pub fn has_remote_sut(&self) -> bool {
        matches!(self, Self::Interfaces(on) if on.sut.is_some())
    }

    /// The word for it, as study files have it.
    pub fn name(&self) -> &str {
        match self {
            Self::Veth => "veth",
            Self::Model(model) => &model.name,
            Self::Interfaces(_) => "interface",
            Self::Unknown => "not known",
        }
    }
}

/// How a testbed measures CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuMeter {
    /// The kernel's idle time where it is exact, and the idle counter where it is not.
    #[default]
    Auto,
    /// The kernel's idle time, in nanoseconds where it may be read so.
    IdleTime,
    /// Threads that run only when nothing else wants the CPU, and count for how long.
    IdleCounter,
}

impl CpuMeter {
    /// All, in the order of their words.
    pub const ALL: [Self; 3] = [Self::Auto, Self::IdleTime, Self::IdleCounter];

    /// The word for it, as study files and options have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::IdleTime => "idle-time",
            Self::IdleCounter => "idle-counter",
        }
    }

    /// The meter of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|meter| meter.word() == word)
    }

    /// Whether the meter is left to the testbed.
    pub fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// The testbed that a study asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TestbedSpec {
    /// The adapter that joins the hosts.
    pub adapter: Adapter,
    /// Models that some runs ask for by name instead of `adapter`. The testbed is then built again with
    /// virtual adapters of that model, and is the same in everything else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Model>,
    /// Number of client hosts; `ports` times `clients_per_port` except on veth.
    pub clients: u32,
    /// The largest number of ports that a run asks for; unused on veth.
    #[serde(default = "one")]
    pub ports: u32,
    /// Clients behind each port, on a switch where there is more than one; unused on a veth.
    #[serde(default = "one")]
    pub clients_per_port: u32,
    /// The largest number of ports that act as one interface of the SUT, which all clients reach
    /// through one switch; 0 where each port has an interface of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub aggregate: u32,
    /// Switches before the ports of an aggregate: 1, or 2 with a link between them, of which the first
    /// has ports 0, 2, ... and the second ports 1, 3, ...
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub switches: u32,
    /// With two switches, clients are on both in turn; otherwise all are on the second.
    #[serde(default, skip_serializing_if = "is_false")]
    pub spread_clients: bool,
    /// The clients of an aggregate are behind a router, in a network of their own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub router: bool,
    /// Clients of each port, the last ones, that are on Ethernet behind a bridge into the emulated LAN of
    /// the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bridged_clients: u32,
    /// Names of the emulated LANs that each ATM port is a client of, each with an interface of the SUT and
    /// clients of its own; empty for one, with a name that the lab chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elans: Vec<String>,
    /// Links and buses run at this share of their rates: 1, or less on a machine that is too
    /// small for the model.
    #[serde(default = "whole")]
    pub scale: f64,
    /// The largest number of queue pairs that a run asks for; a veth pair is made with so many and
    /// uses one by default.
    pub queues: u32,
    /// CPUs of the system under test; `None` lets the lab choose.
    pub sut_cpus: Option<CpuSet>,
    /// CPUs of everything else; `None` lets the lab choose.
    pub client_cpus: Option<CpuSet>,
    /// How CPU time is measured.
    #[serde(default, skip_serializing_if = "CpuMeter::is_auto")]
    pub cpu_meter: CpuMeter,
}

impl TestbedSpec {
    /// This testbed as `run` needs it.
    #[must_use]
    pub fn of_run(&self, run: &RunSpec) -> Cow<'_, Self> {
        self.with_model(run.adapter.as_deref())
    }

    /// This testbed with virtual adapters of the model that is called `name`, if it is one of `others`.
    #[must_use]
    pub fn with_model(&self, name: Option<&str>) -> Cow<'_, Self> {
        let other = self.others.iter().find(|model| Some(model.name.as_str()) == name);
        other.map_or(Cow::Borrowed(self), |model| {
            Cow::Owned(Self { adapter: Adapter::Model(Box::new(model.clone())), ..self.clone() })
        })
    }

    /// This testbed on existing interfaces, all of them with all of their clients.
    #[must_use]
    pub fn on_interfaces(self, interfaces: Interfaces) -> Self {
        let (ports, clients_per_port) = (interfaces.ports(), interfaces.clients_per_port());
        let clients = ports.saturating_mul(clients_per_port);
        let adapter = Adapter::Interfaces(interfaces);
        Self { adapter, clients, ports, clients_per_port, ..self }
    }
}

fn is_false(switch: &bool) -> bool {
    !switch
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn one() -> u32 {
    1
}

fn whole() -> f64 {
    1.0
}

impl Default for TestbedSpec {
    fn default() -> Self {
        Self {
            adapter: Adapter::Veth,
            others: Vec::new(),
            clients: 1,
            ports: 1,
            clients_per_port: 1,
            aggregate: 0,
            switches: 1,
            spread_clients: false,
            router: false,
            bridged_clients: 0,
            elans: Vec::new(),
            scale: 1.0,
            queues: 1,
            sut_cpus: None,
            client_cpus: None,
            cpu_meter: CpuMeter::Auto,
        }
    }
}
