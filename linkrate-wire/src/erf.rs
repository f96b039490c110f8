//! Records of the Extensible Record Format (ERF) for ATM: the packets of a pcap or pcapng file with
//! [`LINK_TYPE_ERF`](crate::link::LINK_TYPE_ERF).
//!
//! Wireshark checks the CRC of a record of an AAL5 unit, and reads what is in it. A record is:
//!
//! ```text
//!  time stamp     8  in 2^-32 s since 1970, the lowest octet first
//!  type           1  3: a cell, 4: an AAL5 unit
//!  flags          1  bits 0 and 1: number of the interface; bit 2: lengths vary; bit 3: cut off
//!  record length  2  octets of the record
//!  lost           2  records that were lost before this one
//!  wire length    2  octets after these 16, before any were cut off
//! ```
//!
//! A cell follows with the four octets of its header and its payload, without the header error
//! control, so it has 52 octets. A unit follows behind the header of its last cell, with padding and
//! trailer.

use crate::atm::aal5;
use crate::atm::cell::{self, Cell, Header};
use crate::atm::{Connection, PAYLOAD, PayloadType};

const HEAD: usize = 16;
/// Octets of the header of a cell, without the header error control.
const CELL_HEADER: usize = 4;
const MAX_RECORD: usize = u16::MAX as usize;

const CELL_RECORD: u8 = 3;
const UNIT_RECORD: u8 = 4;

const INTERFACES: u8 = 0b11;
const VARYING: u8 = 1 << 2;
const TRUNCATED: u8 = 1 << 3;

/// What all records have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The number of the interface, of which the lowest two bits are kept. Wireshark takes the lowest
    /// bit for the direction: 0 from the end system to the switch, 1 to the end system.
    pub interface: u8,
    /// Records that were lost before this one. More than 65,535 are written as 65,535.
    pub lost: u64,
}

/// Appends the record of a cell.
pub fn cell(origin: Origin, cell: &Cell, out: &mut Vec<u8>) {
    let length = CELL_HEADER + PAYLOAD;
    head(origin, CELL_RECORD, length, length, out);
    out.extend_from_slice(&cell::header(cell)[..CELL_HEADER]);
    out.extend_from_slice(cell::payload(cell));
}

/// Appends the record of an AAL5 unit, which lies in pieces. Only of a unit near the longest that AAL5
/// carries are the last octets cut off, because a record has at most 65,535.
pub fn unit(
    origin: Origin,
    connection: Connection,
    user_to_user: u8,
    pieces: &[&[u8]],
    out: &mut Vec<u8>,
) {
    if let Ok(end) = aal5::end(pieces, user_to_user) {
        let all: Vec<&[u8]> = pieces.iter().copied().chain([&*end]).collect();
        whole(origin, connection, &all, out);
    }
}

/// Appends the record of an AAL5 unit with its padding and trailer, as its cells have it. It lies in
/// pieces.
pub fn whole(origin: Origin, connection: Connection, pieces: &[&[u8]], out: &mut Vec<u8>) {
    let octets: usize = pieces.iter().map(|piece| piece.len()).sum();
    let wire = CELL_HEADER + octets;
    let captured = wire.min(MAX_RECORD - HEAD);
    let first = out.len();
    head(origin, UNIT_RECORD, captured, wire, out);
    out.extend_from_slice(&Header::data(connection, PayloadType::LAST).emit()[..CELL_HEADER]);
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    out.truncate(first + HEAD + captured);
}

/// The first 16 octets.
fn head(origin: Origin, kind: u8, captured: usize, wire: usize, out: &mut Vec<u8>) {
    const SECOND: u64 = 1_000_000_000;
    let (seconds, rest) = (origin.time_ns / SECOND, origin.time_ns % SECOND);
    let time = seconds << 32 | (rest << 32).div_ceil(SECOND);
    let narrow = |value: usize| u16::try_from(value).unwrap_or(u16::MAX);
    let truncated = if captured < wire { TRUNCATED } else { 0 };
    out.extend(time.to_le_bytes());
    out.extend([kind, origin.interface & INTERFACES | VARYING | truncated]);
    out.extend(narrow(HEAD + captured).to_be_bytes());
    out.extend(u16::try_from(origin.lost).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(narrow(wire).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atm::Segmenter;

    const ORIGIN: Origin = Origin { time_ns: 1_500_000_000, interface: 2, lost: 70_000 };
    const CONNECTION: Connection = Connection { vpi: 1, vci: 0x123 };

    #[test]
    fn a_unit_stands_behind_a_cell_header() {
        let mut record = vec![9];
        unit(ORIGIN, CONNECTION, 5, &[&[7; 30], &[8; 11]], &mut record);
        assert_eq!(record[..9], [9, 0, 0, 0, 0x80, 1, 0, 0, 0]);
        // 41 octets with a trailer take two cells
        assert_eq!(record[9..17], [4, 0b110, 0, 16 + 4 + 96, 0xff, 0xff, 0, 4 + 96]);
        assert_eq!(record[17..21], [0, 0x10, 0x12, 0x32]);
        let mut cells = Vec::new();
        Segmenter::new(CONNECTION).cut(&[&[7; 30], &[8; 11]], 5, &mut cells).unwrap();
        let payload: Vec<u8> = cells.iter().flat_map(|one| *cell::payload(one)).collect();
        assert_eq!(record[21..], payload);
    }

    #[test]
    fn a_cell_stands_without_its_header_check() {
        let mut cells = Vec::new();
        Segmenter::new(CONNECTION).cut(&[&[7; 40]], 0, &mut cells).unwrap();
        let mut record = Vec::new();
        cell(ORIGIN, &cells[0], &mut record);
        assert_eq!(record[8..16], [3, 0b110, 0, 68, 0xff, 0xff, 0, 52]);
        assert_eq!((&record[16..20], &record[20..]), (&cells[0][..4], &cells[0][5..]));
    }

    #[test]
    fn the_longest_unit_is_cut_off_and_says_so() {
        let mut record = Vec::new();
        unit(ORIGIN, CONNECTION, 0, &[&vec![1; 65_535]], &mut record);
        assert_eq!(record.len(), 65_535);
        assert_eq!(record[9..12], [0b1110, 0xff, 0xff]);
        record.clear();
        unit(ORIGIN, CONNECTION, 0, &[&vec![1; 65_536]], &mut record);
        assert!(record.is_empty(), "no unit");
    }
}
