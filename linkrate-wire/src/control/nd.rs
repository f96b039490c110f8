//! Neighbour advertisements of IPv6 (RFC 4861, 4.4): the Ethernet address of an IPv6 address, also
//! unasked, after it has changed (7.2.6).

use std::net::Ipv6Addr;

use super::Reader;
use crate::frame::{FrameError, IpEnds, MacAddress, Route};

/// All stations of a link (RFC 4291, 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Their Ethernet address (RFC 2464, 7).
pub const ALL_NODES_GROUP: MacAddress = MacAddress([0x33, 0x33, 0, 0, 0, 1]);
/// The hop limit, which no router can have passed on (RFC 4861, 7.1.2).
pub const HOPS: u8 = 255;
/// Bytes of an advertisement with the Ethernet address.
pub const LENGTH: usize = 32;

const TYPE: u8 = 136;
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// The option with the Ethernet address of the target, in units of 8 bytes.
const TARGET_ADDRESS: u8 = 2;
const UNITS: u8 = 1;

/// An advertisement with the Ethernet address of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertisement {
    /// The sender is a router.
    pub router: bool,
    /// It answers a solicitation.
    pub solicited: bool,
    /// Receivers replace what they know.
    pub replaces: bool,
    /// The address that is advertised.
    pub target: Ipv6Addr,
    /// Where it is.
    pub hardware: MacAddress,
}

impl Advertisement {
    /// Says unasked that `target` is at `hardware`.
    #[must_use]
    pub const fn unsolicited(target: Ipv6Addr, hardware: MacAddress) -> Self {
        Self { router: false, solicited: false, replaces: true, target, hardware }
    }

    /// Reads an ICMPv6 message. Its checksum is not verified; bytes after the first option are not looked at. Fails
    /// if it is cut off, is another message, or its first option is not the Ethernet address.
    pub fn parse(message: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(message, 0, "bytes of neighbour advertisement");
        reader.byte("ICMPv6 type", TYPE, TYPE)?;
        reader.byte("ICMPv6 code", 0, 0)?;
        let [_, _, flags, _, _, _] = reader.array()?;
        let target = Ipv6Addr::from(reader.array::<16>()?);
        reader.byte("neighbour discovery option", TARGET_ADDRESS, TARGET_ADDRESS)?;
        reader.byte("length of target address option", UNITS, UNITS)?;
        Ok(Self {
            router: flags & ROUTER != 0,
            solicited: flags & SOLICITED != 0,
            replaces: flags & OVERRIDE != 0,
            target,
            hardware: MacAddress(reader.array()?),
        })
    }

    /// The bytes of the message, without its checksum.
    #[must_use]
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut flags = 0;
        for (flag, bit) in
            [(self.router, ROUTER), (self.solicited, SOLICITED), (self.replaces, OVERRIDE)]
        {
            flags |= if flag { bit } else { 0 };
        }
        let mut message = [0; LENGTH];
        (message[0], message[4]) = (TYPE, flags);
        message[8..24].copy_from_slice(&self.target.octets());
        message[24..26].copy_from_slice(&[TARGET_ADDRESS, UNITS]);
        message[26..].copy_from_slice(&self.hardware.0);
        message
    }

    /// The frame that tells all stations of the link, without padding and FCS.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let ip = IpEnds::V6 { source: self.target, destination: ALL_NODES };
        let (source, destination) = (self.hardware, ALL_NODES_GROUP);
        let route = Route { source, destination, ip, hops: HOPS, class: 0 };
        // 32 bytes over IPv6 always fit a packet
        route.icmpv6(&self.emit()).unwrap_or_default()
    }
}
