//! The common part of AAL5 (ITU-T I.363.5): a unit, padding, and a trailer of eight octets, together
//! a multiple of 48.
//!
//! ```text
//!  unit                     1 to 65,535 octets
//!  padding                  0 to 47, zero
//!  user-to-user indication  1
//!  common part indicator    1, zero
//!  length of the unit       2; 0 aborts the unit
//!  CRC-32                   4, over all before it
//! ```

use std::ops::Deref;

use crc_fast::{CrcAlgorithm, Digest};

use super::PAYLOAD;
use crate::link::LinkLaw;

/// Octets of the trailer.
pub const TRAILER: usize = crate::link::atm::AAL5_TRAILER as usize;

/// Octets of the longest unit.
pub const MAX_UNIT: usize = crate::link::atm::MAX_SDU as usize;

/// Octets of the CRC at the end of the trailer.
const CRC: usize = 4;

/// The CRC of octets that end with their own CRC.
const RESIDUE: u32 = 0x38fb_2284;

/// Cells of a unit of `octets` octets.
#[must_use]
pub fn cells(octets: usize) -> usize {
    LinkLaw::Atm.cells(octets as u64).unwrap_or_default() as usize
}

/// Why cells did not become a unit. RFC 2515 counts the first two as `aal5VccCrcErrors` and
/// `aal5VccOverSizedSDUs`, and time-outs as `aal5VccSarTimeOuts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Defect {
    /// The CRC is wrong: cells were lost or inserted, or bits are wrong.
    #[error("the CRC of the unit is wrong")]
    Crc,
    /// More octets came than the connection admits, or than AAL5 carries.
    #[error("the unit is longer than the connection admits")]
    TooLong,
    /// The length in the trailer does not fit the number of cells.
    #[error("the length in the trailer does not fit the number of cells")]
    Length,
    /// The length in the trailer is 0: the sender has given the unit up.
    #[error("the sender has aborted the unit")]
    Aborted,
    /// The last cell did not come in time.
    #[error("the last cell did not come in time")]
    TimeOut,
}

/// A CRC-32 as AAL5 has it: polynomial 0x04C11DB7, the highest bit first, all ones before the first
/// octet and exclusive or with all ones at the end.
#[derive(Debug, Clone, Copy)]
pub struct Crc(Digest);

impl Default for Crc {
    fn default() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Bzip2))
    }
}

impl Crc {
    /// Takes the next octets.
    pub fn update(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// The CRC of all octets so far.
    #[must_use]
    pub fn finish(self) -> u32 {
        // an algorithm of 32 bits has no more
        self.0.finalize() as u32
    }

    /// Whether the octets so far are a unit: they end with their own CRC.
    #[must_use]
    pub fn is_of_a_unit(self) -> bool {
        self.finish() == RESIDUE
    }
}

/// The CRC of octets.
#[must_use]
pub fn crc(octets: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Bzip2, octets) as u32
}

/// The trailer, without its CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// User-to-user indication: carried from user to user.
    pub user_to_user: u8,
    /// Octets of the unit.
    pub length: u16,
}

impl Trailer {
    /// The octets before the CRC.
    #[must_use]
    pub const fn emit(&self) -> [u8; TRAILER - CRC] {
        let [high, low] = self.length.to_be_bytes();
        [self.user_to_user, 0, high, low]
    }
}

/// The end of a unit: padding and trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    octets: [u8; PAYLOAD + TRAILER],
    length: usize,
}

impl Deref for End {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

/// A unit that AAL5 cannot carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a unit of {found} octets; AAL5 carries 1 to {MAX_UNIT} octets")]
pub struct Uncuttable {
    /// Octets of the unit.
    pub found: usize,
}

/// The end of a unit, which lies in pieces. With it, the unit fills its cells. Fails if the unit is empty or too
/// long.
pub fn end(unit: &[&[u8]], user_to_user: u8) -> Result<End, Uncuttable> {
    let found = unit.iter().map(|piece| piece.len()).sum();
    let length = u16::try_from(found).ok().filter(|length| *length > 0);
    let length = length.ok_or(Uncuttable { found })?;
    let mut crc = Crc::default();
    unit.iter().for_each(|piece| crc.update(piece));
    let padding = LinkLaw::Atm.padding(found as u64) as usize;
    Ok(end_of(crc, Trailer { user_to_user, length }, padding))
}

/// Padding and trailer behind a unit whose CRC is `before`.
fn end_of(mut before: Crc, trailer: Trailer, padding: usize) -> End {
    let mut end = End { octets: [0; PAYLOAD + TRAILER], length: padding + TRAILER };
    let End { octets, length } = &mut end;
    octets[padding..][..TRAILER - CRC].copy_from_slice(&trailer.emit());
    before.update(&octets[..*length - CRC]);
    octets[*length - CRC..*length].copy_from_slice(&before.finish().to_be_bytes());
    end
}

/// Checks whether the octets of complete cells are a unit of up to `longest` octets. They lie in
/// pieces, of which the last has the whole trailer. The common part indicator is not read: values other than zero are
/// for further study (I.363.5, 9.2.1.2).
pub fn judge(pieces: &[&[u8]], longest: usize) -> Result<Trailer, Defect> {
    let octets: usize = pieces.iter().map(|piece| piece.len()).sum();
    let trailer = pieces.last().and_then(|last| last.last_chunk::<TRAILER>());
    let Some([user_to_user, _, high, low, ..]) = trailer else { return Err(Defect::Length) };
    let mut crc = Crc::default();
    pieces.iter().for_each(|piece| crc.update(piece));
    if !crc.is_of_a_unit() {
        return Err(Defect::Crc);
    }
    let length = u16::from_be_bytes([*high, *low]);
    match usize::from(length) {
        0 => Err(Defect::Aborted),
        // first, as a length that cannot be is none that a connection could admit
        length if cells(length) * PAYLOAD != octets => Err(Defect::Length),
        length if length > longest => Err(Defect::TooLong),
        _ => Ok(Trailer { user_to_user: *user_to_user, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_crcs() {
        // CRC-32/BZIP2
        assert_eq!(crc(b"123456789"), 0xfc89_1918);
        // I.363.5 and the documents of Bellcore: 40 octets of zero, of ones, and 1 to 40, with their
        // trailers
        for (unit, expected) in [
            ([0; 40], 0x864d_7f99),
            ([0xff; 40], 0xc55e_457a),
            (std::array::from_fn(|at| at as u8 + 1), 0xbf67_1ed0),
        ] {
            let mut crc = Crc::default();
            crc.update(&unit);
            let trailer = Trailer { user_to_user: 0, length: 40 };
            let end = end_of(crc, trailer, 0);
            assert_eq!(end[TRAILER - CRC..], u32::to_be_bytes(expected));
            assert_eq!(super::end(&[&unit], 0), Ok(end));
            assert_eq!(judge(&[&unit, &end], 40), Ok(trailer));
            assert_eq!(judge(&[&[9], &unit[1..], &end], 40), Err(Defect::Crc));
        }
    }

    #[test]
    fn a_length_that_does_not_fit_the_cells_is_no_long_unit() {
        let trailer = |length| end_of(crc_of(&[0; 88]), Trailer { user_to_user: 0, length }, 0);
        let judged = |length, longest| judge(&[&[0; 88], &trailer(length)], longest);
        assert_eq!(judged(60_000, 9188), Err(Defect::Length));
        assert_eq!(judged(88, 80), Err(Defect::TooLong));
        assert_eq!(judged(0, 80), Err(Defect::Aborted));
        assert_eq!(judged(88, 88).map(|trailer| trailer.length), Ok(88));
    }

    fn crc_of(octets: &[u8]) -> Crc {
        let mut crc = Crc::default();
        crc.update(octets);
        crc
    }

    #[test]
    fn pieces_have_the_crc_of_the_whole() {
        let octets: Vec<u8> = (0..1000).map(|at| (at * 7) as u8).collect();
        for cut in [0, 1, 47, 500, 999, 1000] {
            let mut pieces = Crc::default();
            pieces.update(&octets[..cut]);
            pieces.update(&octets[cut..]);
            assert_eq!(pieces.finish(), crc(&octets));
        }
    }
}
