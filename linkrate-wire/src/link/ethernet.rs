//! The octets of Ethernet, IEEE 802.3.

use crate::frame::link;

/// Preamble and start-of-frame delimiter, clause 3.1.1.
pub const PREAMBLE: u64 = 8;
/// Inter-frame gap, clause 4.4.2.
pub const GAP: u64 = 12;
/// Frame check sequence, clause 3.2.9.
pub const FCS: u64 = 4;
/// The shortest frame from destination address to frame check sequence, clause 4.4.2.
pub const MIN_FRAME: u64 = 64;
/// Destination, source and type or length, clause 3.2.
pub const HEADER: u64 = link::ETHERNET as u64;
/// One VLAN tag, IEEE 802.1Q clause 9.
pub const VLAN_TAG: u64 = link::TAG as u64;
/// LLC (AA-AA-03) and SNAP (organisation and type) header, RFC 1042.
pub const LLC_SNAP: u64 = link::SNAP as u64;
