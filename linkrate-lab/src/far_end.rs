//! How an agent is reached: each way starts a process whose standard input and output carry the
//! protocol, and makes a [`Host`] of it.
//!
//! `Child` starts the agent on this machine, in namespaces of its own or where the controller
//! is; `Remote` starts it on another machine, through `ssh` or a step of Slurm, and brings the program
//! along where it is missing (`carry`). [`FarProgram`] is no agent: a program of others, which knows its
//! own protocol alone. [`FarEndReport`] types how much a far end reports of a window: an agent reports
//! everything, a foreign program its traffic alone.

mod carry;
mod child;
mod elf;
mod program;
mod remote;
mod report;
mod slurm;
mod ssh;
mod words;

use crate::error::LabError;
use crate::host::Host;
use crate::options::LabOptions;

pub(crate) use child::{Child, LAB, LENDS, Namespaces};
pub use program::FarProgram;
pub(crate) use remote::{Remote, Way};
pub(crate) use report::agents;
pub use report::{FarEndReport, TrafficReport};
pub(crate) use slurm::Slurm;
pub use slurm::{allocated_nodes, is_in_allocation};
pub(crate) use ssh::Ssh;
pub(crate) use words::Words;

/// A way to an agent.
pub(crate) trait Reach {
    /// Starts an agent as the host `name`, bound to its CPUs.
    ///
    /// # Errors
    /// The host, the cause and the remedy.
    fn start(&self, name: &str, options: &LabOptions) -> Result<Host, LabError>;
}
