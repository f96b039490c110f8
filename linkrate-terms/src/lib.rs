//! The project's words as types.
//!
//! Everything that more than one layer must name lives here, and nothing else does: no I/O,
//! no clock, no system call. A study file is parsed into these types, the controller sends them
//! to agents, agents answer with them, the store keeps them and the report prints them.
//!
//! - [`units`]: bytes, bit rates, durations and percentages as people write them
//! - [`cpus`]: sets of CPUs in the kernel's list format
//! - [`workload`]: what traffic flows
//! - [`knobs`]: what is set on the interface and on the sockets
//! - [`interfaces`]: existing interfaces, and the clients at their far ends
//! - [`model`]: what a virtual adapter is made like
//! - [`spec`]: one run, and the testbed it needs
//! - [`topology`]: the segments of a testbed: ports, clients, fabric
//! - [`measurement`]: what one run gave
//! - [`profile`]: what the CPUs were doing, by samples
//! - [`lab`]: a running lab, as seen from outside
//! - [`nearest`]: "did you mean" for every name a person can mistype

#![forbid(unsafe_code)]

pub mod cpus;
pub mod interfaces;
pub mod knobs;
pub mod lab;
pub mod measurement;
pub mod model;
pub mod nearest;
pub mod profile;
pub mod spec;
pub mod topology;
pub mod units;
pub mod workload;

pub use cpus::CpuSet;
pub use interfaces::{FarEnd, Interfaces};
pub use knobs::{InterfaceKnobs, Offload, PortKnobs, SocketKnobs, Steering};
pub use measurement::Measurement;
pub use model::Model;
pub use profile::Profile;
pub use spec::{CpuMeter, RunSpec, Task, TestbedSpec};
pub use units::{BitRate, ByteSize};
pub use workload::{Direction, MessageSize, Protocol, ReceivePath, SendPath, Workload};
