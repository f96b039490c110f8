//! Why a connection stays where it is.

use std::net::SocketAddr;

use linkrate_adapter::AdapterError;
use linkrate_protocol::toe::Stays;
use linkrate_sys::error::SysError;
use linkrate_toe::Refusal as Obstacle;

use crate::connection::AgentError;
use crate::error::LabError;

/// Why a connection does not move.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stay {
    /// It is not between a port with an engine and a client of this port.
    #[error(
        "the connection from {own} to {far} is not between a port with a TCP offload engine and one of its \
         clients"
    )]
    OtherInterface {
        /// Its address.
        own: SocketAddr,
        /// That of the peer.
        far: SocketAddr,
    },
    /// The knob `toe` of its port is off.
    #[error("toe is off on {port}")]
    Off { port: String },
    #[error("the table of {port} is full: it has {most} connections")]
    TableFull {
        port: String,
        /// Its places.
        most: usize,
    },
    /// Its state cannot move.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// The same, as an agent says it.
    #[error("{}", .0.reason)]
    Agent(Stays),
    /// An agent or a device refused.
    #[error("{0}")]
    Lab(LabError),
}

impl Stay {
    /// The word for the reason in counters.
    pub(super) fn word(&self) -> &str {
        match self {
            Self::OtherInterface { .. } => "no-engine",
            Self::Off { .. } => "off",
            Self::TableFull { .. } => "table-full",
            Self::Obstacle(obstacle) => obstacle.word(),
            Self::Agent(stays) => &stays.word,
            Self::Lab(_) => "system",
        }
    }
}

macro_rules! of_the_testbed {
    ($($error:ty),*) => {
        $(impl From<$error> for Stay {
            fn from(error: $error) -> Self {
                Self::Lab(error.into())
            }
        })*
    };
}

of_the_testbed!(AgentError, AdapterError, SysError, std::io::Error, LabError);
