//! The project's words as types.
//!
//! The types that several layers share. They do no I/O, read no clock and make no system call. A
//! study file is parsed into them, the controller sends them to agents, agents answer with them,
//! the store keeps them and the report prints them.
//!
//! - [`units`]: bytes, bit rates, durations and percentages as people write them
//! - [`cpus`]: sets of CPUs in the kernel's list format
//! - [`workload`]: the traffic of a run
//! - [`knobs`]: the settings of the interface, its port and the sockets
//! - [`interfaces`]: existing interfaces, and the clients at their peers
//! - [`model`]: the properties of a virtual adapter
//! - [`shell`]: words quoted for a shell
//! - [`spec`]: one run, and the testbed it needs
//! - [`topology`]: the segments of a testbed: ports, clients, fabric
//! - [`measurement`]: the result of one run
//! - [`evidence`]: what the counters of a run prove of it
//! - [`cpu_use`]: CPU time over the measurement of a run, and what the CPUs worked for
//! - [`peer_report`]: what a third-party program at the peer reports on a run
//! - [`interface_counts`]: what the kernel counts of an interface
//! - [`latency`]: latency of which a part may not be known
//! - [`imported`]: a run that another program measured
//! - [`discipline`]: queue disciplines of interfaces
//! - [`driver_counts`]: what the driver threads of virtual adapters count
//! - [`profile`]: samples of the CPUs
//! - [`lab`]: reports about a running lab
//! - [`host`]: what is known of a host: its kernel and its network stack
//! - [`date`]: dates of the Gregorian calendar
//! - [`clean`]: untrusted text, made harmless
//! - [`nearest`]: "did you mean" for mistyped names

#![forbid(unsafe_code)]
// printing panics when nobody reads: lines to the user go through linkrate_sys::stderr
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod aggregate;
pub mod backup;
pub mod clean;
pub mod cpu_use;
pub mod cpus;
pub mod date;
pub mod discipline;
pub mod driver_counts;
pub mod event;
pub mod evidence;
pub mod existing_aggregate;
pub mod failure;
pub mod host;
pub mod imported;
pub mod interface_counts;
pub mod interfaces;
pub mod knobs;
pub mod lab;
pub mod latency;
pub mod measurement;
pub mod mix;
pub mod model;
pub mod nearest;
pub mod peer_report;
pub mod profile;
pub mod shell;
pub mod spec;
pub mod topology;
pub mod units;
pub mod workload;

pub use cpus::CpuSet;
pub use event::{Event, Fault};
pub use imported::Imported;
pub use interfaces::{Interfaces, Peer};
pub use knobs::{
    AggregateKnobs, AtmKnobs, Balance, Family, InterfaceKnobs, Offload, PortKnobs, SocketKnobs,
    Steering,
};
pub use measurement::Measurement;
pub use model::Model;
pub use profile::Profile;
pub use spec::{CpuMeter, RunSpec, Task, TestbedSpec};
pub use units::{BitRate, ByteSize};
pub use workload::{Direction, MessageSize, Protocol, ReceivePath, SendPath, Workload};

/// Whether a field may be left out because it says nothing: serde asks with a reference.
fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}
