//! Why a virtual adapter cannot be built or changed.

use std::io;

use linkrate_sys::error::SysError;
use linkrate_wire::machine::call::CircuitError;

/// Why a virtual adapter cannot be built or changed.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    #[error(transparent)]
    System(#[from] SysError),
    #[error("{what}: {cause}")]
    Io { what: String, cause: io::Error },
    #[error(
        "the cable of port {name} is connected already: {free} of its 2 ends are free, {needed} needed"
    )]
    CableFull { name: String, needed: usize, free: usize },
    #[error("end {end} of a permanent connection: {why}")]
    Circuit { end: usize, why: CircuitError },
    #[error("port {name} is on a cable; only a switch has VLANs")]
    NoSwitch { name: String },
    #[error("switch {switch} of a fabric with {switches} switches, expected less than {switches}")]
    NoSuchSwitch { switch: usize, switches: usize },
    #[error("{why}")]
    Ended { why: String },
    #[error("aggregate {name} carries no traffic on {ports}")]
    Idle { name: String, ports: String },
    #[error("port {name} has {most} connections at the adapter, expected less than {most}")]
    TableFull { name: String, most: usize },
    #[error("the device of port {name} did not acknowledge its settings")]
    NotAcknowledged { name: String },
}
