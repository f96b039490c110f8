//! Options of the test sockets.

use serde::{Deserialize, Serialize};

use crate::units::ByteSize;

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
}

impl Default for SocketKnobs {
    fn default() -> Self {
        Self { buffer: None, congestion: "cubic".to_owned(), nodelay: false }
    }
}
