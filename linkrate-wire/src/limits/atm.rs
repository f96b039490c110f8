//! The limit of an ATM link: AAL5 in cells of 53 bytes, cells in SONET frames.
//!
//! The paper of the `atm` study gives, for one packet per message and without a bound by the MTU,
//!
//! ```text
//! T = D / (D + 56 + p) × 48/53 × 26/27 × line rate
//! ```
//!
//! with D the message bytes, 56 = 20 TCP + 20 IP + 8 LLC/SNAP + 8 AAL5 trailer, and p the padding
//! to whole cells; [`AtmLink::published_formula`] is that. A real packet is bounded by the MTU
//! and Linux adds TCP timestamps; [`AtmLink::limit`] is that, and is what a measurement may be
//! held against.

use linkrate_terms::BitRate;

use super::packets::{IpVersion, TCP_HEADER, Traffic};
use super::{Limit, LimitError, check_line_rate};

/// OC-3c and STM-1, ITU-T G.707.
pub const OC3C: BitRate = BitRate(155_520_000.0);
/// OC-12c and STM-4.
pub const OC12C: BitRate = BitRate(622_080_000.0);
/// Bytes of a cell, ITU-T I.361.
pub const CELL: u64 = 53;
/// Bytes of a cell that are not its header.
pub const CELL_PAYLOAD: u64 = 48;
/// AAL5 trailer: user and common part indications, length, CRC-32; ITU-T I.363.5.
pub const AAL5_TRAILER: u64 = 8;
/// The largest AAL5 service data unit: its length field has 16 bits.
pub const LARGEST_SDU: u64 = 65_535;
/// LLC (AA-AA-03) and SNAP header of Classical IP, RFC 2684 section 5.1.
pub const LLC_SNAP: u64 = 8;
/// LAN Emulation: two bytes LAN emulation client identifier, then the Ethernet header without a
/// frame check sequence; ATM Forum LANE 1.0 section 4.1.
pub const LANE_HEADER: u64 = 2 + 14;

/// Of 27 columns of a SONET frame, 26 carry cells; the rest is section, line and path overhead.
const SONET_CELLS: f64 = 26.0;
const SONET_COLUMNS: f64 = 27.0;

/// How IP packets become AAL5 service data units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtmService {
    /// Classical IP with LLC/SNAP encapsulation, RFC 2225. The usual MTU is 9180.
    ClassicalIp,
    /// LAN Emulation of Ethernet: eight bytes more than Classical IP.
    ///
    /// Its sizes are often those of the whole unit. What the `atm` paper calls "LANE MTU 1516" is
    /// one: the IP MTU is 1500 (its 128.4 Mb/s is above the 126.4 Mb/s that IP packets of 1516
    /// bytes, in 33 cells, could reach). Its 9218 is an IP MTU, in units of 9234.
    LanEmulation,
}

impl AtmService {
    /// Bytes before the IP packet.
    pub fn header(self) -> u64 {
        match self {
            Self::ClassicalIp => LLC_SNAP,
            Self::LanEmulation => LANE_HEADER,
        }
    }

    fn header_name(self) -> &'static str {
        match self {
            Self::ClassicalIp => "LLC/SNAP header",
            Self::LanEmulation => "LANE header",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ClassicalIp => "Classical IP",
            Self::LanEmulation => "LAN Emulation",
        }
    }
}

/// One direction of an ATM link over SONET.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtmLink {
    /// Bits per second of the SONET line, overhead included: [`OC3C`], [`OC12C`].
    pub line_rate: BitRate,
    /// How packets are encapsulated.
    pub service: AtmService,
}

impl AtmLink {
    /// A link with Classical IP.
    pub fn classical_ip(line_rate: BitRate) -> Self {
        Self { line_rate, service: AtmService::ClassicalIp }
    }

    /// The limit for `traffic`. Its MTU is that of IP, not the size of the AAL5 unit.
    ///
    /// # Errors
    /// A line rate, MTU or message out of range.
    pub fn limit(&self, traffic: &Traffic) -> Result<Limit, LimitError> {
        check_line_rate(self.line_rate)?;
        let largest = LARGEST_SDU - self.service.header();
        traffic.check_mtu(u32::try_from(largest).unwrap_or(u32::MAX), self.service.name())?;
        let packets = traffic.packets()?;
        let count = packets.count();
        let cells = packets.sum(|length| self.cells(length));
        let padding = packets.sum(|length| self.padding(length));

        let mut layers = packets.layers;
        layers.add(self.service.header_name(), self.service.header() * count);
        layers.add("AAL5 padding", padding);
        layers.add("AAL5 trailer", AAL5_TRAILER * count);
        layers.add("cell headers", (CELL - CELL_PAYLOAD) * cells);
        let overhead = (SONET_COLUMNS - SONET_CELLS) / SONET_CELLS;
        layers.add_spread("SONET overhead", (CELL * cells) as f64 * overhead);
        Ok(Limit {
            line_rate: self.line_rate,
            payload: packets.payload,
            packets: count,
            cells: Some(cells),
            layers: layers.into_vec(),
        })
    }

    /// The theoretical TCP throughput as the `atm` paper defines it: every message of `message`
    /// bytes is one IPv4 packet without TCP options, however large.
    ///
    /// For messages that fit the MTU it is [`limit`](Self::limit) without timestamps. Above, it
    /// is a figure to compare with the paper's, not a limit: no packet of 64 KiB exists.
    ///
    /// # Errors
    /// A line rate out of range, or an empty message.
    pub fn published_formula(&self, message: u64) -> Result<BitRate, LimitError> {
        check_line_rate(self.line_rate)?;
        let highest = 1 << 53;
        if !(1..=highest).contains(&message) {
            let what = "the published formula".to_owned();
            return Err(LimitError::Message { given: message, lowest: 1, highest, what });
        }
        let line_bytes = CELL * self.cells(message + TCP_HEADER + IpVersion::V4.header());
        let share = message as f64 / line_bytes as f64;
        Ok(BitRate(self.line_rate.0 * share * SONET_CELLS / SONET_COLUMNS))
    }

    /// Cells that carry an IP packet of `packet` bytes.
    pub fn cells(&self, packet: u64) -> u64 {
        self.unpadded(packet).div_ceil(CELL_PAYLOAD)
    }

    /// Bytes of the AAL5 unit with its trailer, before padding.
    fn unpadded(&self, packet: u64) -> u64 {
        self.service.header() + packet + AAL5_TRAILER
    }

    fn padding(&self, packet: u64) -> u64 {
        self.cells(packet) * CELL_PAYLOAD - self.unpadded(packet)
    }
}
