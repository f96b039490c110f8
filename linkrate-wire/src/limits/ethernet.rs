//! The limit of an Ethernet link (IEEE 802.3): what each frame occupies beside its packet.

use linkrate_terms::BitRate;

use super::packets::Traffic;
use super::{Limit, LimitError, check_line_rate};

/// Preamble and start-of-frame delimiter, IEEE 802.3 clause 3.1.1.
pub const PREAMBLE: u64 = 8;
/// Destination, source and type or length, clause 3.2.
pub const HEADER: u64 = 14;
/// One VLAN tag, IEEE 802.1Q clause 9.
pub const VLAN_TAG: u64 = 4;
/// LLC (AA-AA-03) and SNAP (organisation and type) header, RFC 1042.
pub const LLC_SNAP: u64 = 8;
/// Frame check sequence, clause 3.2.9.
pub const FCS: u64 = 4;
/// Inter-frame gap, clause 4.4.2.
pub const GAP: u64 = 12;
/// The shortest frame from destination address to frame check sequence, clause 4.4.2.
pub const SHORTEST_FRAME: u64 = 64;
/// The most VLAN tags considered.
pub const MOST_VLAN_TAGS: u8 = 2;

/// What follows the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// A type field, then the packet (RFC 894).
    EthernetII,
    /// A length field, an LLC and SNAP header, then the packet (RFC 1042). A length field means a
    /// length up to 1500 only, so by the letter the MTU is at most 1492; adapters with jumbo SNAP
    /// frames exist nevertheless, and the limit is computed for the MTU as given.
    Snap,
}

/// One direction of an Ethernet link.
///
/// Lines that code their bits (8b/10b, 64b/66b) are named by the rate above the code, so nothing
/// is subtracted for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EthernetLink {
    /// Bits per second of frames, preambles and gaps.
    pub line_rate: BitRate,
    /// VLAN tags on each frame, 0 to 2. They come on top of the MTU.
    pub vlan_tags: u8,
    /// What follows the addresses.
    pub encapsulation: Encapsulation,
}

impl EthernetLink {
    /// A link without VLAN tags, in Ethernet II encapsulation.
    pub fn new(line_rate: BitRate) -> Self {
        Self { line_rate, vlan_tags: 0, encapsulation: Encapsulation::EthernetII }
    }

    /// The limit for `traffic`.
    ///
    /// # Errors
    /// A line rate, number of tags, MTU or message out of range.
    pub fn limit(&self, traffic: &Traffic) -> Result<Limit, LimitError> {
        check_line_rate(self.line_rate)?;
        if self.vlan_tags > MOST_VLAN_TAGS {
            return Err(LimitError::VlanTags { given: self.vlan_tags });
        }
        traffic.check_mtu(u32::MAX, "Ethernet")?;
        let packets = traffic.packets()?;
        let count = packets.count();
        let padding = packets.sum(|length| self.padding(length));

        let mut layers = packets.layers;
        layers.add("LLC/SNAP header", self.llc_snap() * count);
        layers.add("VLAN tags", self.tags() * count);
        layers.add("Ethernet header", HEADER * count);
        layers.add("frame padding", padding);
        layers.add("frame check sequence", FCS * count);
        layers.add("preamble", PREAMBLE * count);
        layers.add("inter-frame gap", GAP * count);
        Ok(Limit {
            line_rate: self.line_rate,
            payload: packets.payload,
            packets: count,
            cells: None,
            layers: layers.into_vec(),
        })
    }

    /// Bytes for which a frame with an IP packet of `packet` bytes occupies the link: preamble,
    /// padding, frame check sequence and gap included.
    pub fn occupied(&self, packet: u64) -> u64 {
        PREAMBLE + self.unpadded(packet) + self.padding(packet) + GAP
    }

    /// Bytes from destination address to frame check sequence, before padding.
    fn unpadded(&self, packet: u64) -> u64 {
        HEADER + self.tags() + self.llc_snap() + packet + FCS
    }

    fn padding(&self, packet: u64) -> u64 {
        SHORTEST_FRAME.saturating_sub(self.unpadded(packet))
    }

    fn tags(&self) -> u64 {
        VLAN_TAG * u64::from(self.vlan_tags)
    }

    fn llc_snap(&self) -> u64 {
        match self.encapsulation {
            Encapsulation::EthernetII => 0,
            Encapsulation::Snap => LLC_SNAP,
        }
    }
}
