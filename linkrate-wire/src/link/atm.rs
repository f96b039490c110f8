//! The octets of ATM: AAL5 in cells of 53, cells in SONET frames.

use linkrate_model::BitRate;

/// OC-3c and STM-1, ITU-T G.707.
pub const OC3C: BitRate = BitRate(155_520_000.0);
/// OC-12c and STM-4.
pub const OC12C: BitRate = BitRate(622_080_000.0);
/// Octets of a cell, ITU-T I.361.
pub const CELL: u64 = 53;
/// Octets of a cell that are not its header.
pub const CELL_PAYLOAD: u64 = 48;
/// AAL5 trailer: user and common part indications, length, CRC-32; ITU-T I.363.5.
pub const AAL5_TRAILER: u64 = 8;
/// The largest AAL5 service data unit: its length field has 16 bits.
pub const MAX_SDU: u64 = 65_535;
/// LLC (AA-AA-03) and SNAP header of Classical IP, RFC 2684 section 5.1.
pub const LLC_SNAP: u64 = 8;
/// LAN Emulation: two octets LAN emulation client identifier, then the Ethernet header without a
/// frame check sequence; ATM Forum LANE 1.0 section 4.1.
pub const LANE_HEADER: u64 = 2 + 14;

/// Of 27 columns of a SONET frame, 26 carry cells. The rest is section, line and path overhead.
pub(super) const SONET_SHARE: (u32, u32) = (26, 27);

/// Cells that carry an AAL5 service data unit of `unit` octets, trailer and padding included.
#[inline]
pub(super) const fn cells(unit: u64) -> u64 {
    (unit + AAL5_TRAILER).div_ceil(CELL_PAYLOAD)
}
