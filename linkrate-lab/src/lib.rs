//! Testbeds: hosts, wires, CPU placement; the executor that studies run on.
//!
//! A run's way: [`executor`] sets knobs on the hosts of a [`testbed`], lets flows connect, opens
//! the window on all of them at once and makes one measurement of their reports ([`figures`]);
//! [`recheck`] looks whether everything is still as it was.
//! [`placement`] decides who owns which CPU, [`connection`] is the controller's end of the agents'
//! protocol, `standing` builds a testbed of interfaces that are there already, with clients that
//! `ssh` reaches or that are other interfaces of this machine. [`adapters`] are the virtual adapters of a testbed, [`congestion`] knows which
//! algorithms the kernel has. [`control`]
//! keeps a lab up for people, and lets other processes look at it and change it.

#![forbid(unsafe_code)]

pub mod adapters;
pub mod congestion;
pub mod connection;
pub mod control;
pub mod executor;
pub mod figures;
pub mod placement;
mod profile;
pub mod recheck;
mod ssh;
mod standing;
pub mod testbed;

use std::io;

use linkrate_sys::error::SysError;

pub use executor::Lab;
pub use placement::Placement;
pub use testbed::LabOptions;

use crate::connection::AgentError;

/// Why there is no testbed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This host lacks a privilege or a kernel feature.
    #[error("cannot measure here: {what}")]
    CannotMeasure {
        /// What is missing.
        what: String,
        /// The remedy.
        hint: Option<String>,
    },
    /// What was asked for does not fit this host.
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: String,
        /// What would be right.
        hint: String,
    },
    /// An agent refused or was lost while the testbed was built.
    #[error("testbed: {0}")]
    Agent(#[from] AgentError),
    /// The kernel refused.
    #[error("testbed: {0}")]
    System(#[from] SysError),
    /// An input or output error.
    #[error("testbed: {0}")]
    Io(#[from] io::Error),
}

impl LabError {
    /// A refusal that means this host cannot measure.
    pub fn cannot_measure(error: SysError) -> Self {
        Self::CannotMeasure { what: error.to_string(), hint: error.hint().map(str::to_owned) }
    }

    /// The remedy, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::CannotMeasure { hint, .. } => hint.clone(),
            Self::Invalid { hint, .. } => Some(hint.clone()),
            Self::Agent(AgentError::Refused(refusal)) => refusal.hint.clone(),
            Self::System(error) => error.hint().map(str::to_owned),
            Self::Agent(_) | Self::Io(_) => None,
        }
    }
}
