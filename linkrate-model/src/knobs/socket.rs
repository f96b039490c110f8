//! Options of the test sockets.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::ByteSize;

/// The address family of the test sockets: the IP that carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "AddressFamily")]
pub enum Family {
    /// RFC 791.
    #[default]
    Ipv4,
    /// RFC 8200.
    Ipv6,
}

impl Family {
    /// The smallest MTU a link may have: 68 (RFC 791, 3.2), 1280 (RFC 8200, 5).
    #[must_use]
    pub fn smallest_mtu(self) -> u32 {
        match self {
            Self::Ipv4 => 68,
            Self::Ipv6 => 1280,
        }
    }

    /// Whether it is that of documents without one.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        *self == Self::Ipv4
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        })
    }
}

/// Largest socket buffer that may be asked for, bytes.
pub const MAX_SOCKET_BUFFER: u64 = 1 << 30;

/// Options of every test socket, at both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SocketKnobs {
    /// SO_SNDBUF and SO_RCVBUF in bytes as the application asks; the kernel doubles the value for
    /// its own bookkeeping, socket(7). `None` leaves autotuning on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<ByteSize>,
    /// TCP_CONGESTION, set before connect and on listeners: a socket that was connected under bbr
    /// keeps bbr's pacing even after it changes to another algorithm.
    pub congestion: String,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// AF_INET or AF_INET6.
    #[serde(default, skip_serializing_if = "Family::is_ipv4")]
    pub family: Family,
}

impl Default for SocketKnobs {
    fn default() -> Self {
        Self { buffer: None, congestion: "cubic".to_owned(), nodelay: false, family: Family::Ipv4 }
    }
}
