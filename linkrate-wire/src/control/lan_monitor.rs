//! Poll frames of a failover group, which its ports send to each other, as those of HP LAN Monitor.
//!
//! HP did not publish its format. This one is linkrate's own, under the first EtherType that IEEE
//! 802 leaves to local experiments (0x88B5), with a signature, because others may use it too. Frames
//! go to a locally administered group address, so a switch floods them within their VLAN, and no
//! station learns anything from them.
//!
//! ```text
//! 0          4         5          6      8       12         16
//! signature  version   reserved   port   group   sequence   system (6)
//! ```

use super::Reader;
use crate::balance::PortIndex;
use crate::frame::{FrameError, MacAddress};

/// The EtherType: local experimental EtherType 1 (IEEE 802, 9.2.4).
pub const ETHER_TYPE: u16 = 0x88b5;
/// The group address that polls go to: locally administered.
pub const GROUP: MacAddress = MacAddress([0x03, 0x6c, 0x6b, 0x72, 0x74, 0x01]);
/// Bytes of a poll.
pub const LENGTH: usize = 22;

const SIGNATURE: [u8; 4] = *b"lkrt";
const VERSION: u8 = 1;

/// A poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// The host: the Ethernet address of its failover group.
    pub system: MacAddress,
    /// The number of the group at this host.
    pub group: u32,
    /// The port that sends it.
    pub port: PortIndex,
    /// The number of the round of polls, which grows by one.
    pub sequence: u32,
}

impl Poll {
    /// Reads a poll; `None` for a message of another experiment. Bytes after it are padding. Fails if it is cut
    /// off, of another version, or has a port that no group has.
    pub fn parse(message: &[u8]) -> Result<Option<Self>, FrameError> {
        Self::read(message, 0)
    }

    pub(super) fn read(frame: &[u8], at: usize) -> Result<Option<Self>, FrameError> {
        let mut reader = Reader::new(frame, at, "bytes of LAN monitor poll");
        if reader.rest().first_chunk() != Some(&SIGNATURE) {
            return Ok(None);
        }
        let [_, _, _, _] = reader.array()?;
        reader.byte("LAN monitor version", VERSION, VERSION)?;
        let [_] = reader.array()?;
        let port = reader.word("LAN monitor port", 0, u8::MAX.into())?;
        Ok(Some(Self {
            port: PortIndex(port.to_be_bytes()[1]),
            group: u32::from_be_bytes(reader.array()?),
            sequence: u32::from_be_bytes(reader.array()?),
            system: MacAddress(reader.array()?),
        }))
    }

    /// The bytes of the poll.
    #[must_use]
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut message = [0; LENGTH];
        message[..4].copy_from_slice(&SIGNATURE);
        (message[4], message[7]) = (VERSION, self.port.0);
        message[8..12].copy_from_slice(&self.group.to_be_bytes());
        message[12..16].copy_from_slice(&self.sequence.to_be_bytes());
        message[16..].copy_from_slice(&self.system.0);
        message
    }

    /// The frame of a poll from a port with address `source`, without padding and FCS.
    #[must_use]
    pub fn frame(&self, source: MacAddress) -> Vec<u8> {
        super::frame(GROUP, source, ETHER_TYPE, &self.emit())
    }
}
