//! Data frames of LAN Emulation (ATM Forum LANE 1.0, section 4.1): the LECID of the sender, then an
//! Ethernet frame without its frame check sequence.

use super::Reader;
use super::lan_emulation::{Lecid, MARKER};
use crate::frame::{FrameError, MacAddress, link};

/// Octets of the LECID.
pub const HEAD: usize = 2;

/// Octets of the shortest data frame: that of an Ethernet frame of 64 octets, without its FCS.
pub const MIN_LENGTH: usize = HEAD + MIN_FRAME;

const MIN_FRAME: usize = 60;

/// A data frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// The client that sent it.
    pub lecid: Lecid,
    /// The Ethernet frame, without FCS, perhaps with padding behind the packet.
    pub frame: &'a [u8],
}

/// The octets before an Ethernet frame in its unit.
#[must_use]
pub const fn head(lecid: Lecid) -> [u8; HEAD] {
    lecid.to_be_bytes()
}

/// The zeros behind an Ethernet frame of `octets` octets in its unit.
#[must_use]
pub fn padding(octets: usize) -> &'static [u8] {
    &[0; MIN_FRAME][octets.min(MIN_FRAME)..]
}

/// Octets of the unit of an Ethernet frame of `octets` octets.
#[must_use]
pub const fn length(octets: usize) -> usize {
    HEAD + if octets < MIN_FRAME { MIN_FRAME } else { octets }
}

impl<'a> Data<'a> {
    /// Reads an AAL5 unit that [is no control frame](super::lan_emulation::is_control). Fails if it is shorter than
    /// [`MIN_LENGTH`], or has a LECID that no client has.
    pub fn parse(unit: &'a [u8]) -> Result<Self, FrameError> {
        let field = "octets of LANE data frame";
        if unit.len() < MIN_LENGTH {
            let (at, found) = (0, unit.len());
            return Err(FrameError { field, at, lowest: MIN_LENGTH, highest: None, found });
        }
        let mut reader = Reader::new(unit, 0, field);
        let lecid = reader.word("LECID", 0, MARKER - 1)?;
        Ok(Self { lecid, frame: reader.rest() })
    }

    /// The station or group that the frame goes to.
    #[must_use]
    pub fn destination(&self) -> MacAddress {
        link::destination(self.frame).unwrap_or(MacAddress::UNKNOWN)
    }

    /// The octets of the unit.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        [&head(self.lecid), self.frame, padding(self.frame.len())].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_frame_is_padded() {
        let frame = [7; 20];
        let unit = Data { lecid: 0x0102, frame: &frame }.emit();
        assert_eq!((unit.len(), length(20)), (MIN_LENGTH, MIN_LENGTH));
        assert_eq!(
            (&unit[..2], &unit[2..22], &unit[22..]),
            (&[1, 2][..], &frame[..], &[0; 40][..])
        );
        assert_eq!(length(1514), 1516);
    }

    #[test]
    fn wrong_units_are_refused() {
        for (unit, said) in [
            (vec![0; 61], "octets of LANE data frame at byte 0 is 61, expected at least 62"),
            (vec![0xff; 62], "LECID at byte 0 is 65535, expected 0 to 65279"),
        ] {
            assert_eq!(Data::parse(&unit).unwrap_err().to_string(), said);
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read(
            lecid in 0..MARKER, frame in prop::collection::vec(any::<u8>(), 14..200),
        ) {
            let data = Data { lecid, frame: &frame };
            let unit = data.emit();
            prop_assert_eq!(unit.len(), length(frame.len()));
            let read = Data::parse(&unit).expect("a data frame");
            prop_assert_eq!((read.lecid, &read.frame[..frame.len()]), (lecid, &frame[..]));
            prop_assert!(read.frame[frame.len()..].iter().all(|octet| *octet == 0));
            prop_assert_eq!(read.destination(), data.destination());
        }
    }
}
