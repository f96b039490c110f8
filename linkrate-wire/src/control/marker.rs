//! The PDU of the Marker protocol (IEEE 802.1AX-2020, 6.5).
//!
//! A distributor sends a marker behind the frames of a flow. The answer proves that the partner has
//! taken them in, so the flow may move to another link without being reordered.
//!
//! ```text
//! subtype 2 · version · 1 or 2, 16, requester's port, system, transaction, 2 · 0, 0 · reserved 90
//! ```

use super::Reader;
use super::slow::{self, Subtype};
use crate::frame::{FrameError, MacAddress};

/// The version that this module writes.
pub const VERSION: u8 = 1;
/// Bytes of a PDU, from the subtype on.
pub const LENGTH: usize = 110;

const INFORMATION: u8 = 1;
const RESPONSE: u8 = 2;
const INFORMATION_LENGTH: u8 = 16;

/// A PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Marker {
    /// Question or answer.
    pub kind: Kind,
    /// Who asked; an answer repeats it.
    pub requester: Requester,
}

/// Question or answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Marker Information: asks for an answer once all earlier frames are taken in.
    Information,
    /// Marker Response.
    Response,
}

/// The sender of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Requester {
    /// The number of its port.
    pub port: u16,
    /// The address in its system identifier.
    pub system: MacAddress,
    /// Its number for this marker.
    pub transaction: u32,
}

impl Marker {
    /// The answer; `None` where the PDU is itself an answer.
    #[must_use]
    pub fn answer(&self) -> Option<Self> {
        (self.kind == Kind::Information).then_some(Self { kind: Kind::Response, ..*self })
    }

    /// Reads what follows the subtype of a slow protocol message. Version, terminator and reserved bytes are not
    /// looked at. Fails if it is cut off, is neither marker nor response, or has a wrong length.
    pub fn parse(data: &[u8]) -> Result<Self, FrameError> {
        Self::read(data, 0)
    }

    /// Reads the PDU whose version is byte `at` of a frame.
    pub(super) fn read(frame: &[u8], at: usize) -> Result<Self, FrameError> {
        let mut reader = Reader::new(frame, at, "bytes of Marker PDU");
        let [_version] = reader.array()?;
        let kind = match reader.byte("Marker TLV type", INFORMATION, RESPONSE)? {
            INFORMATION => Kind::Information,
            _ => Kind::Response,
        };
        reader.byte("Marker information length", INFORMATION_LENGTH, INFORMATION_LENGTH)?;
        let requester = Requester {
            port: reader.any_word()?,
            system: MacAddress(reader.array()?),
            transaction: u32::from_be_bytes(reader.array()?),
        };
        reader.array::<2>()?;
        Ok(Self { kind, requester })
    }

    /// The bytes of the slow protocol message, from the subtype on.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let kind = match self.kind {
            Kind::Information => INFORMATION,
            Kind::Response => RESPONSE,
        };
        let Requester { port, system, transaction } = self.requester;
        let mut message = Vec::with_capacity(LENGTH);
        message.extend([Subtype::Marker.octet(), VERSION, kind, INFORMATION_LENGTH]);
        message.extend(port.to_be_bytes());
        message.extend(system.0);
        message.extend(transaction.to_be_bytes());
        // two bytes of padding, then the terminator (0, 0), then reserved
        message.resize(LENGTH, 0);
        message
    }

    /// The frame, from the address of the port that sends it; without FCS.
    #[must_use]
    pub fn frame(&self, source: MacAddress) -> Vec<u8> {
        super::frame(slow::GROUP, source, slow::ETHER_TYPE, &self.emit())
    }
}
