//! The header of a cell at the user-network interface (ITU-T I.361).
//!
//! ```text
//!  bit  8   7   6   5   4   3   2   1
//!       GFC             VPI               octet 1
//!       VPI             VCI               octet 2
//!       VCI                               octet 3
//!       VCI             PTI         CLP   octet 4
//!       HEC                               octet 5
//! ```

use super::{CELL, HEADER, PAYLOAD, hec};

/// A cell, as it is on the line.
pub type Cell = [u8; CELL];

/// A virtual channel connection at one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// Virtual path identifier.
    pub vpi: u8,
    /// Virtual channel identifier.
    pub vci: u16,
}

/// The lowest virtual channel identifier that is not reserved (ITU-T I.361, ATM Forum UNI 3.1).
pub const FIRST_FREE_VCI: u16 = 32;

/// The payload type of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadType(u8);

impl PayloadType {
    /// User data that is not the last cell of a unit.
    pub const DATA: Self = Self(0);
    /// User data, the last cell of a unit of AAL5.
    pub const LAST: Self = Self(1);

    /// The three bits of the header.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether the cell carries user data, and not operation and maintenance or resource management.
    #[must_use]
    pub const fn is_data(self) -> bool {
        self.0 & 0b100 == 0
    }

    /// Whether the cell, of user data, is the last one of its unit.
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.0 & 0b101 == 0b001
    }
}

/// The fields of a header. The header error control follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// Generic flow control, 4 bits: 0 where it is not used.
    pub gfc: u8,
    /// The connection.
    pub connection: Connection,
    /// The payload type.
    pub payload_type: PayloadType,
    /// Cell loss priority: a switch drops such cells first.
    pub low_priority: bool,
}

impl Header {
    /// The header of user data of a connection.
    #[must_use]
    pub const fn data(connection: Connection, payload_type: PayloadType) -> Self {
        Self { gfc: 0, connection, payload_type, low_priority: false }
    }

    /// The five octets, with the header error control.
    #[must_use]
    pub const fn emit(&self) -> [u8; HEADER] {
        let Connection { vpi, vci } = self.connection;
        let fields = [
            self.gfc << 4 | vpi >> 4,
            vpi << 4 | (vci >> 12) as u8,
            (vci >> 4) as u8,
            (vci as u8) << 4 | self.payload_type.0 << 1 | self.low_priority as u8,
        ];
        [fields[0], fields[1], fields[2], fields[3], hec::of(fields)]
    }

    /// The fields of five octets whose header error control was found right, or mended.
    #[must_use]
    pub const fn read(octets: [u8; HEADER]) -> Self {
        let [a, b, c, d, _] = octets;
        Self {
            gfc: a >> 4,
            connection: Connection {
                vpi: a << 4 | b >> 4,
                vci: ((b & 0xf) as u16) << 12 | (c as u16) << 4 | (d >> 4) as u16,
            },
            payload_type: PayloadType(d >> 1 & 0b111),
            low_priority: d & 1 == 1,
        }
    }
}

/// The headers of the user data of a connection, with their header error control. They are computed
/// once, at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    pub(super) data: [u8; HEADER],
    pub(super) last: [u8; HEADER],
}

impl Headers {
    /// Of a connection.
    #[must_use]
    pub const fn of(connection: Connection) -> Self {
        let data = Header::data(connection, PayloadType::DATA).emit();
        let last = Header::data(connection, PayloadType::LAST).emit();
        Self { data, last }
    }

    /// The header of a cell, of the last one of a unit or of another.
    #[must_use]
    pub const fn of_cell(&self, is_last: bool) -> [u8; HEADER] {
        if is_last { self.last } else { self.data }
    }

    /// The connection.
    #[must_use]
    pub const fn connection(&self) -> Connection {
        Header::read(self.data).connection
    }

    /// The payload type of a cell of this connection whose header is right; `None` of another cell,
    /// whose header must be read.
    #[inline]
    #[must_use]
    pub fn payload_type(&self, header: [u8; HEADER]) -> Option<PayloadType> {
        match header {
            _ if header == self.data => Some(PayloadType::DATA),
            _ if header == self.last => Some(PayloadType::LAST),
            _ => None,
        }
    }
}

/// The header of a cell.
#[must_use]
pub const fn header(cell: &Cell) -> [u8; HEADER] {
    [cell[0], cell[1], cell[2], cell[3], cell[4]]
}

/// The payload of a cell.
#[must_use]
pub fn payload(cell: &Cell) -> &[u8; PAYLOAD] {
    const { assert!(PAYLOAD <= CELL) };
    cell.last_chunk().unwrap_or(&[0; PAYLOAD])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_have_their_places() {
        let connection = Connection { vpi: 0xab, vci: 0x1234 };
        let header =
            Header { gfc: 0xf, connection, payload_type: PayloadType::LAST, low_priority: true };
        assert_eq!(header.emit()[..4], [0xfa, 0xb1, 0x23, 0x43]);
        let data = Header::data(Connection { vpi: 0, vci: 32 }, PayloadType::DATA);
        assert_eq!(data.emit()[..4], [0, 0, 2, 0]);
    }

    #[test]
    fn the_last_cell_of_user_data_ends_a_unit() {
        for bits in 0..8 {
            let kind = PayloadType(bits);
            assert_eq!(kind.is_data(), bits < 4, "{bits}");
            // bit 2 reports on congestion
            assert_eq!(kind.is_last(), bits == 1 || bits == 3, "{bits}");
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read(
            gfc in 0u8..16, vpi: u8, vci: u16, bits in 0u8..8, low_priority: bool,
        ) {
            let connection = Connection { vpi, vci };
            let header = Header { gfc, connection, payload_type: PayloadType(bits), low_priority };
            prop_assert_eq!(Header::read(header.emit()), header);
        }
    }
}
