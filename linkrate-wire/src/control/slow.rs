//! The slow protocols of Ethernet (IEEE 802.3, Annex 57A): one EtherType and one group address, and
//! an octet that says which protocol it is.
//!
//! A station sends at most ten frames of a slow protocol in a second (57A.2). Bridges do not
//! forward them: they are for the other end of the link.

use super::Reader;
use crate::frame::{FrameError, MacAddress};

/// The EtherType.
pub const ETHER_TYPE: u16 = 0x8809;
/// The group address that they are sent to (57A.3).
pub const GROUP: MacAddress = MacAddress([0x01, 0x80, 0xc2, 0, 0, 0x02]);
/// Frames of one slow protocol that a station may send in any second (57A.2).
pub const MAX_PER_SECOND: u32 = 10;

const LACP: u8 = 1;
const MARKER: u8 = 2;
const OAM: u8 = 3;
const ORGANIZATION: u8 = 10;

/// A message of a slow protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow<'a> {
    /// Which protocol it is.
    pub subtype: Subtype,
    /// What follows the subtype. The decoder of the protocol ignores padding at its end.
    pub data: &'a [u8],
}

/// A slow protocol (57A.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subtype {
    /// Link Aggregation Control Protocol, IEEE 802.1AX.
    Lacp,
    /// Marker protocol of link aggregation, IEEE 802.1AX.
    Marker,
    /// Operations, administration and maintenance, IEEE 802.3 clause 57.
    Oam,
    /// Of an organisation, Annex 57B.
    Organization,
    /// Reserved for a slow protocol to come: 4 to 9.
    Reserved(u8),
}

impl Subtype {
    const fn of(octet: u8) -> Self {
        match octet {
            LACP => Self::Lacp,
            MARKER => Self::Marker,
            OAM => Self::Oam,
            ORGANIZATION => Self::Organization,
            octet => Self::Reserved(octet),
        }
    }

    /// Its octet.
    #[must_use]
    pub const fn octet(self) -> u8 {
        match self {
            Self::Lacp => LACP,
            Self::Marker => MARKER,
            Self::Oam => OAM,
            Self::Organization => ORGANIZATION,
            Self::Reserved(octet) => octet,
        }
    }
}

impl<'a> Slow<'a> {
    /// Reads a message. Fails if it is empty, or its subtype is one that no slow protocol may have.
    pub fn parse(message: &'a [u8]) -> Result<Self, FrameError> {
        Self::read(message, 0)
    }

    pub(super) fn read(frame: &'a [u8], at: usize) -> Result<Self, FrameError> {
        let mut reader = Reader::new(frame, at, "bytes of slow protocol message");
        let octet = reader.byte("slow protocol subtype", LACP, ORGANIZATION)?;
        Ok(Self { subtype: Subtype::of(octet), data: reader.rest() })
    }

    /// The bytes of the message.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        [&[self.subtype.octet()], self.data].concat()
    }
}
