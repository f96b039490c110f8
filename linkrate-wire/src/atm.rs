//! ATM: cells, their header check, and AAL5.
//!
//! A *unit* is the service data unit of AAL5 (ITU-T I.363.5): a packet behind the header of its
//! encapsulation. AAL5 pads it, adds a trailer with a CRC-32, and cuts it into the payload of cells.
//!
//! - [`AtmAddress`]: addresses of end systems
//! - [`cell`]: the header of a cell (ITU-T I.361)
//! - [`hec`]: the header error control, which corrects one bit (ITU-T I.432.1)
//! - [`aal5`]: the trailer and its CRC
//! - [`segmentation`]: a unit becomes cells
//! - [`reassembly`]: cells become a unit, or one of the defects that RFC 2515 counts
//! - [`snap`]: LLC/SNAP before a packet
//! - [`rate`]: the peak rate of a connection (GCRA, ITU-T I.371)

pub mod aal5;
pub mod cell;
pub mod hec;
pub mod rate;
pub mod reassembly;
pub mod segmentation;
pub mod snap;

use std::fmt;

pub use aal5::Defect;
pub use cell::{Connection, Header, PayloadType};
pub use reassembly::Reassembler;
pub use segmentation::Segmenter;

/// Octets of a cell.
pub const CELL: usize = crate::link::atm::CELL as usize;

/// Octets of the payload of a cell.
pub const PAYLOAD: usize = crate::link::atm::CELL_PAYLOAD as usize;

/// Octets of the header of a cell, with the header error control.
pub const HEADER: usize = CELL - PAYLOAD;

/// The address of an end system (ATM Forum UNI 3.1, 5.1.3). The first thirteen octets are the prefix of its switch, then come
/// six octets of the end system's own, and a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AtmAddress(pub [u8; AtmAddress::LENGTH]);

impl AtmAddress {
    /// Octets of an address.
    pub const LENGTH: usize = 20;

    /// No end system: what a request has where the answer is to be.
    pub const UNKNOWN: Self = Self([0; Self::LENGTH]);

    /// An address in the format of locally assigned numbers (AFI 39, data country code), at switch
    /// `switch`.
    #[must_use]
    pub const fn local(switch: u16, end_system: [u8; 6], selector: u8) -> Self {
        let [high, low] = switch.to_be_bytes();
        let [a, b, c, d, e, f] = end_system;
        Self([0x39, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low, a, b, c, d, e, f, selector])
    }
}

impl fmt::Display for AtmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, octet) in self.0.iter().enumerate() {
            // prefix, end system, selector
            let point = if at == 13 || at == 19 { "." } else { "" };
            write!(f, "{point}{octet:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_its_parts() {
        let address = AtmAddress::local(1, [2, 0, 0, 0, 0, 7], 3);
        assert_eq!(address.to_string(), "39000000000000000000000001.020000000007.03");
    }
}
