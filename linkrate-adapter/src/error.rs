//! Why a virtual adapter cannot be built or changed.

use std::io;

use linkrate_sys::error::SysError;
use linkrate_wire::machine::call::CircuitError;

/// Why a virtual adapter cannot be built or changed.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The kernel refused.
    #[error(transparent)]
    System(#[from] SysError),
    /// A thread could not be started, or a file not be written.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: io::Error,
    },
    /// A cable has two ends.
    #[error(
        "the cable of port {name} is connected already: {free} of its 2 ends are free, {needed} needed"
    )]
    CableFull {
        /// The port.
        name: String,
        /// Links of its device.
        needed: usize,
        /// Ends of the cable without a link.
        free: usize,
    },
    /// A permanent connection that a port of an ATM switch cannot have.
    #[error("end {end} of a permanent connection: {why}")]
    Circuit {
        /// The number of the port.
        end: usize,
        /// Why it cannot have it.
        why: CircuitError,
    },
    /// A cable has no VLANs of its own.
    #[error("port {name} is on a cable; only a switch has VLANs")]
    NoSwitch {
        /// The port.
        name: String,
    },
    /// The fabric has no switch of that number.
    #[error("switch {switch} of a fabric with {switches} switches, expected less than {switches}")]
    NoSuchSwitch {
        /// The number, from 0.
        switch: usize,
        /// How many it has.
        switches: usize,
    },
    /// The device thread has ended.
    #[error("{why}")]
    Ended {
        /// The thread and the reason.
        why: String,
    },
    /// Ports of an aggregate carry no traffic.
    #[error("aggregate {name} carries no traffic on {ports}")]
    Idle {
        /// The aggregate.
        name: String,
        /// The ports with their reasons.
        ports: String,
    },
    /// The TCP offload engine of a port has no room.
    #[error("port {name} has {most} connections at the adapter, expected less than {most}")]
    TableFull {
        /// The port.
        name: String,
        /// Connections that it can have.
        most: usize,
    },
    /// The device did not answer a request for settings.
    #[error("the device of port {name} did not acknowledge its settings")]
    NotAcknowledged {
        /// The port.
        name: String,
    },
}
