//! What is set before a run, on the SUT's interface and on every test socket.
//!
//! `None` means "leave as the testbed made it". A knob that is `Some` is read back after it was
//! set, and a difference fails the run by the knob's name.

use serde::{Deserialize, Serialize};

use crate::model::{PortKnobs, Steering};
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
    /// Knobs of a virtual adapter's port, which its host's kernel does not know.
    #[serde(default, skip_serializing_if = "PortRequest::is_empty")]
    pub port: PortRequest,
}

impl InterfaceKnobs {
    /// Every knob that is known, by its key, as it is written.
    pub fn values(&self) -> Vec<(&'static str, String)> {
        let word = |on: bool| if on { "on" } else { "off" }.to_owned();
        let number = |number: u32| number.to_string();
        let port = &self.port;
        let all = [
            ("offload", self.offload.map(|offload| offload.name().to_owned())),
            ("gso-max-size", self.gso_max_size.map(number)),
            ("tx-checksum", self.tx_checksum.map(word)),
            ("rx-checksum", self.rx_checksum.map(word)),
            ("lro", port.lro.map(word)),
            ("gro", self.gro.map(word)),
            ("mtu", self.mtu.map(number)),
            ("vlan", port.vlan.map(u32::from).map(number)),
            ("snap", port.snap.map(word)),
            ("queues", self.queues.map(number)),
            ("steering", port.steering.map(|steering| steering.name().to_owned())),
            ("rx-usecs", port.rx_usecs.map(number)),
            ("rx-frames", port.rx_frames.map(number)),
            ("tx-usecs", port.tx_usecs.map(number)),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

/// What is asked of a virtual adapter's port; [`PortKnobs`] says what each means. The port's
/// receive checksum is [`InterfaceKnobs::rx_checksum`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PortRequest {
    /// Merging of received TCP segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lro: Option<bool>,
    /// How received frames are shared out to queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steering: Option<Steering>,
    /// Receive interrupts by time, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_usecs: Option<u32>,
    /// Receive interrupts by number of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_frames: Option<u32>,
    /// Transmit completion interrupts by time, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_usecs: Option<u32>,
    /// VLAN on the wire; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// LLC/SNAP on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snap: Option<bool>,
}

impl PortRequest {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What a port has that had `fresh` before it was asked.
    pub fn over(&self, fresh: &PortKnobs, rx_checksum: Option<bool>) -> PortKnobs {
        PortKnobs {
            lro: self.lro.unwrap_or(fresh.lro),
            rx_checksum: rx_checksum.unwrap_or(fresh.rx_checksum),
            steering: self.steering.unwrap_or(fresh.steering),
            rx_usecs: self.rx_usecs.unwrap_or(fresh.rx_usecs),
            rx_frames: self.rx_frames.unwrap_or(fresh.rx_frames),
            tx_usecs: self.tx_usecs.unwrap_or(fresh.tx_usecs),
            vlan: self.vlan.unwrap_or(fresh.vlan),
            snap: self.snap.unwrap_or(fresh.snap),
        }
    }

    /// What a port has, as the request that would set all of it.
    pub fn of(knobs: &PortKnobs) -> Self {
        Self {
            lro: Some(knobs.lro),
            steering: Some(knobs.steering),
            rx_usecs: Some(knobs.rx_usecs),
            rx_frames: Some(knobs.rx_frames),
            tx_usecs: Some(knobs.tx_usecs),
            vlan: Some(knobs.vlan),
            snap: Some(knobs.snap),
        }
    }
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
