//! The flows of a run, by their addresses.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::workload::Direction;

/// A flow, as the headers of its frames name it. With them the port that a hash chooses is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FlowEnds {
    /// The number of the client, from 0.
    pub client: u32,
    /// Who sends payload: `transmit` the SUT, `receive` the client, `bidirectional` both.
    pub direction: Direction,
    /// Address and port of the SUT.
    pub sut: SocketAddr,
    /// Address and port of the client.
    pub peer: SocketAddr,
    /// The SUT's Ethernet address in the flow's frames: `02:00:00:00:00:01`.
    pub sut_mac: String,
    /// The other one: the client's, or that of the router before it.
    pub peer_mac: String,
}
