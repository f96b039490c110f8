//! What is set before a run, on the SUT's interface and on every test socket.
//!
//! `None` means "leave as the testbed made it". A knob that is `Some` is read back after it was
//! set, and a difference fails the run by the knob's name.

use serde::{Deserialize, Serialize};

use crate::units::ByteSize;

/// The transmit offload ladder. Since Linux 4.17 TCP always builds large segments, so "TSO off"
/// alone means software GSO; what the papers called "off" is the lowest rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offload {
    /// One TCP segment per socket buffer: `gso_max_segs` 1.
    None,
    /// TCP builds superframes, the kernel cuts them just before the driver: TSO features off.
    Gso,
    /// The superframe reaches the adapter: TSO features on.
    Tso,
}

impl Offload {
    /// The word for it, as study files and tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gso => "gso",
            Self::Tso => "tso",
        }
    }
}

/// Knobs of the adapter's interface in the system under test.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct InterfaceKnobs {
    /// Rung of the transmit ladder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<Offload>,
    /// Generic receive offload (`rx-gro`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gro: Option<bool>,
    /// Transmit checksum offload (`tx-checksum-*`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_checksum: Option<bool>,
    /// Receive checksum offload (`rx-checksum`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_checksum: Option<bool>,
    /// Largest IP packet in bytes; set on both ends of a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Largest superframe in bytes: the virtual MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gso_max_size: Option<u32>,
    /// Receive and transmit queue pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u32>,
}

/// Options of every test socket, on both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SocketKnobs {
    /// SO_SNDBUF and SO_RCVBUF in bytes as the application asks; the kernel doubles it for its
    /// own bookkeeping, socket(7). `None` leaves autotuning on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<ByteSize>,
    /// TCP_CONGESTION, set before connect and on listeners: a socket that was connected under bbr
    /// keeps bbr's pacing even after it changes to another algorithm.
    pub congestion: String,
    /// TCP_NODELAY.
    pub nodelay: bool,
}

impl Default for SocketKnobs {
    fn default() -> Self {
        Self { buffer: None, congestion: "cubic".to_owned(), nodelay: false }
    }
}
