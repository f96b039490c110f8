//! Address resolution for IPv4 over Ethernet (RFC 826), with announcements (RFC 5227).

use std::net::Ipv4Addr;

use super::Reader;
use crate::frame::{FrameError, MacAddress, ipv4};

/// The EtherType.
pub const ETHER_TYPE: u16 = 0x0806;
/// Bytes of a message.
pub const LENGTH: usize = 28;

/// Ethernet, as RFC 826 numbers it.
const HARDWARE: u16 = 1;
const HARDWARE_LENGTH: u8 = 6;
const PROTOCOL_LENGTH: u8 = 4;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// Question or answer.
    pub operation: Operation,
    /// The station that sends the message.
    pub sender: Station,
    /// The station that a reply goes to, or whose address a request asks for.
    pub target: Station,
}

/// Question or answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Which station has the target's IP address?
    Request,
    /// The sender has it.
    Reply,
}

/// A station's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Station {
    /// The Ethernet address; [`MacAddress::UNKNOWN`] for the target of a request.
    pub hardware: MacAddress,
    /// The IPv4 address; unspecified for the sender of a probe.
    pub ip: Ipv4Addr,
}

/// The purpose of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// It asks for a station.
    Request,
    /// It answers.
    Reply,
    /// It asks whether any station uses an address before its sender does (RFC 5227, 1.1): a
    /// request of a sender without an IP address.
    Probe,
    /// It says that the sender has an address, unasked, so that others update what they know
    /// ("gratuitous ARP"): sender and target have the same IP address. RFC 5227 (2.3) sends it as a
    /// request; as a reply it has the same effect (section 3).
    Announcement,
}

impl Arp {
    /// Asks for the station with address `ip`.
    #[must_use]
    pub const fn request(sender: Station, ip: Ipv4Addr) -> Self {
        let target = Station { hardware: MacAddress::UNKNOWN, ip };
        Self { operation: Operation::Request, sender, target }
    }

    /// Announces `station`: to be sent to all stations.
    #[must_use]
    pub const fn announcement(station: Station) -> Self {
        Self::request(station, station.ip)
    }

    /// The reply of the station that has the target's IP address and is at `hardware`; `None` where
    /// the message asks nothing.
    #[must_use]
    pub fn answer(&self, hardware: MacAddress) -> Option<Self> {
        let asks = matches!(self.purpose(), Purpose::Request | Purpose::Probe);
        asks.then_some(Self {
            operation: Operation::Reply,
            sender: Station { hardware, ip: self.target.ip },
            target: self.sender,
        })
    }

    /// The purpose of the message.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        let unknown = self.sender.ip.is_unspecified();
        match self.operation {
            _ if self.sender.ip == self.target.ip && !unknown => Purpose::Announcement,
            Operation::Reply => Purpose::Reply,
            Operation::Request if unknown => Purpose::Probe,
            Operation::Request => Purpose::Request,
        }
    }

    /// Reads a message. Bytes after it are padding. Fails if it is cut off, is not of IPv4 over Ethernet, or is
    /// neither request nor reply.
    pub fn parse(message: &[u8]) -> Result<Self, FrameError> {
        Self::read(message, 0)
    }

    pub(super) fn read(frame: &[u8], at: usize) -> Result<Self, FrameError> {
        let mut reader = Reader::new(frame, at, "bytes of ARP message");
        reader.word("ARP hardware type", HARDWARE, HARDWARE)?;
        reader.word("ARP protocol type", ipv4::ETHER_TYPE, ipv4::ETHER_TYPE)?;
        reader.byte("ARP hardware address length", HARDWARE_LENGTH, HARDWARE_LENGTH)?;
        reader.byte("ARP protocol address length", PROTOCOL_LENGTH, PROTOCOL_LENGTH)?;
        let operation = match reader.word("ARP operation", REQUEST, REPLY)? {
            REQUEST => Operation::Request,
            _ => Operation::Reply,
        };
        let mut station = || {
            Ok(Station {
                hardware: MacAddress(reader.array()?),
                ip: Ipv4Addr::from(reader.array()?),
            })
        };
        Ok(Self { operation, sender: station()?, target: station()? })
    }

    /// The bytes of the message.
    #[must_use]
    pub fn emit(&self) -> [u8; LENGTH] {
        let operation = match self.operation {
            Operation::Request => REQUEST,
            Operation::Reply => REPLY,
        };
        let mut message = [0; LENGTH];
        let mut rest = &mut message[..];
        let mut put = |bytes: &[u8]| {
            let (field, after) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            field.copy_from_slice(bytes);
            rest = after;
        };
        put(&HARDWARE.to_be_bytes());
        put(&ipv4::ETHER_TYPE.to_be_bytes());
        put(&[HARDWARE_LENGTH, PROTOCOL_LENGTH]);
        put(&operation.to_be_bytes());
        for station in [self.sender, self.target] {
            put(&station.hardware.0);
            put(&station.ip.octets());
        }
        message
    }
}
