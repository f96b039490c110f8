//! One run, and the testbed that all runs of a study share.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cpus::CpuSet;
use crate::knobs::{InterfaceKnobs, SocketKnobs};
use crate::workload::Workload;

/// What the hosts do during a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Nothing: the background load is measured.
    Idle,
    /// Traffic.
    Workload(Workload),
}

/// One run: everything that is set and done, from knobs to window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Traffic before the window opens.
    pub warm_up: Duration,
    /// The length of the common window in which both ends count.
    pub window: Duration,
    /// Seed for what is random inside the run (message sizes); another one for each run.
    pub seed: u64,
}

/// The adapters a testbed can be built on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adapter {
    /// A veth pair per client.
    Veth,
}

/// What a study asks of its testbed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TestbedSpec {
    /// What joins the hosts.
    pub adapter: Adapter,
    /// Number of client hosts.
    pub clients: u32,
    /// Most queue pairs any run asks for; a wire is made with so many and uses one by default.
    pub queues: u32,
    /// CPUs of the system under test; `None` lets the lab choose.
    pub sut_cpus: Option<CpuSet>,
    /// CPUs of everything else; `None` lets the lab choose.
    pub client_cpus: Option<CpuSet>,
}

impl Default for TestbedSpec {
    fn default() -> Self {
        Self { adapter: Adapter::Veth, clients: 1, queues: 1, sut_cpus: None, client_cpus: None }
    }
}
