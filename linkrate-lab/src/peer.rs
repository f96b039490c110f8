//! How an agent is reached: each way starts a process whose standard input and output carry the
//! protocol, and makes a [`Host`] of it.
//!
//! `LocalAgent` starts the agent on this machine, in namespaces of its own or where the controller is;
//! `Remote` starts it elsewhere, through `ssh`, a step of Slurm or a command of the user, and brings the program along
//! where it is missing (`deploy`), or in a namespace of this one that has a name or a process. [`PeerServer`] is no agent: a third-party program, which knows its own
//! protocol alone. [`PeerMeasurement`] types how much a peer reports of a measurement: an agent reports
//! everything, a third-party program its traffic alone.

mod command;
mod deploy;
mod elf;
mod local;
mod named_namespace;
mod process_namespace;
mod program;
mod remote;
mod report;
mod slurm;
mod ssh;
mod stderr;

use crate::error::LabError;
use crate::host::Host;
use crate::options::LabOptions;

pub(crate) use command::UserCommand;
pub(crate) use local::{LAB, LENDS, LocalAgent, Namespaces};
pub(crate) use named_namespace::NamedNamespace;
pub(crate) use process_namespace::ProcessNamespace;
pub use program::PeerServer;
pub(crate) use remote::{Remote, Transport};
pub(crate) use report::agents;
pub use report::{PeerMeasurement, TrafficReport};
pub(crate) use slurm::Slurm;
pub use slurm::{allocated_nodes, is_in_allocation};
pub(crate) use ssh::Ssh;
pub(crate) use stderr::StderrLines;

pub(crate) trait Reach {
    /// Starts an agent as the host `name`, bound to its CPUs.
    fn start(&self, name: &str, options: &LabOptions) -> Result<Host, LabError>;
}
