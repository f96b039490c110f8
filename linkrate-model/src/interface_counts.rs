//! What the kernel counts of an interface.

use serde::{Deserialize, Serialize};

use crate::is_zero;

/// Interface counters over the measurement. On veth one superframe counts as one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InterfaceCounts {
    /// Packets handed to the driver.
    pub tx_packets: u64,
    /// Their bytes, headers included.
    pub tx_bytes: u64,
    /// Packets the driver handed up.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets dropped on transmit.
    pub tx_dropped: u64,
    /// Packets dropped on receive.
    pub rx_dropped: u64,
    /// Packets that could not be sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tx_errors: u64,
    /// Packets that arrived damaged (CRC, length) or found no room in the adapter.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rx_errors: u64,
    /// Pause frames sent (IEEE 802.3 annex 31B), where the driver counts them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tx_pause_frames: u64,
    /// Pause frames received, where the driver counts them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rx_pause_frames: u64,
}

impl InterfaceCounts {
    /// The counts of two interfaces together.
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// The counts since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Self, count: fn(u64, u64) -> u64) -> Self {
        Self {
            tx_packets: count(self.tx_packets, other.tx_packets),
            tx_bytes: count(self.tx_bytes, other.tx_bytes),
            rx_packets: count(self.rx_packets, other.rx_packets),
            rx_bytes: count(self.rx_bytes, other.rx_bytes),
            tx_dropped: count(self.tx_dropped, other.tx_dropped),
            rx_dropped: count(self.rx_dropped, other.rx_dropped),
            tx_errors: count(self.tx_errors, other.tx_errors),
            rx_errors: count(self.rx_errors, other.rx_errors),
            tx_pause_frames: count(self.tx_pause_frames, other.tx_pause_frames),
            rx_pause_frames: count(self.rx_pause_frames, other.rx_pause_frames),
        }
    }
}
