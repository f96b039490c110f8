//! Control formats: the messages that stations exchange about the link itself.
//!
//! Every format is a type with a total decoder and an encoder. A decoder takes any bytes and
//! returns the message or a [`FrameError`], which names the field, its place, its value and the
//! values that would be right. An encoder writes the bytes that its decoder reads. The behaviour of
//! a protocol is a [`Machine`](crate::machine::Machine).
//!
//! - [`arp`]: the Ethernet address of an IPv4 address
//! - [`atmarp`]: the ATM address of an IPv4 address
//! - [`bfd`]: whether a member link of an aggregate carries frames both ways
//! - [`icmp`]: what a router tells the sender of a packet
//! - [`lan_monitor`]: polls between the ports of a failover group
//! - [`lan_emulation`], [`lane_data`]: control and data frames of LAN Emulation over ATM
//! - [`nd`]: the Ethernet address of an IPv6 address, after a move
//! - [`slow`]: the header of the slow protocols, link aggregation among them
//! - [`lacp`]: link aggregation control
//! - [`marker`]: proof that a link is empty of earlier frames

pub mod arp;
pub mod atmarp;
pub mod bfd;
pub mod icmp;
pub mod lacp;
pub mod lan_emulation;
pub mod lan_monitor;
pub mod lane_data;
pub mod marker;
pub mod nd;
pub mod slow;

pub use arp::Arp;
pub use atmarp::AtmArp;
pub use bfd::Bfd;
pub use lacp::Lacpdu;
pub use lan_emulation::LaneControl;
pub use lan_monitor::Poll;
pub use lane_data::Data;
pub use marker::Marker;
pub use slow::Slow;

use crate::frame::link::{ETHERNET, destination};
use crate::frame::{FrameError, Headers, MacAddress, ipv4, ipv6};

/// A control message of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control<'a> {
    /// Address resolution.
    Arp(Arp),
    /// Forwarding detection on a member link.
    Bfd(Bfd),
    /// A poll of a failover group.
    Poll(Poll),
    /// A slow protocol.
    Slow(Slow<'a>),
}

impl<'a> Control<'a> {
    /// The control message of a frame with these headers; `None` for a frame of another protocol. Fails if the
    /// message is cut off or a field contradicts the format. Slow protocols are sent untagged (IEEE 802.3, Annex
    /// 57A), so a tagged frame gives `None`.
    pub fn of(frame: &'a [u8], headers: &Headers) -> Result<Option<Self>, FrameError> {
        let link = &headers.link;
        let (frame, at) = (&frame[..headers.end.min(frame.len())], headers.payload);
        match link.ether_type {
            arp::ETHER_TYPE => Ok(Some(Self::Arp(Arp::read(frame, at)?))),
            slow::ETHER_TYPE if link.tags == 0 && !link.snap => {
                Ok(Some(Self::Slow(Slow::read(frame, at)?)))
            }
            ipv4::ETHER_TYPE | ipv6::ETHER_TYPE => Ok(Bfd::of(frame, headers)?.map(Self::Bfd)),
            lan_monitor::ETHER_TYPE => Ok(Poll::read(frame, at)?.map(Self::Poll)),
            _ => Ok(None),
        }
    }
}

/// Whether a frame is a message about the link itself, by its first bytes: a slow protocol, or
/// micro-BFD. It is for the other end of the link, has no tag, and no switch passes it on.
#[must_use]
pub fn is_of_the_link(head: &[u8]) -> bool {
    matches!(destination(head), Some(slow::GROUP | bfd::GROUP))
}

/// Whether a frame is a message about the link itself or about the aggregate that the link belongs to,
/// by its first bytes: [one of the link](is_of_the_link), or a poll of a failover group. Such a frame
/// is never for the programs of a host.
#[must_use]
pub fn is_of_aggregates(head: &[u8]) -> bool {
    matches!(destination(head), Some(slow::GROUP | bfd::GROUP | lan_monitor::GROUP))
}

/// Whether a frame asks its receiver whether the frames before it have arrived (IEEE 802.1AX, 6.5). It
/// must overtake none of them.
#[must_use]
pub fn is_marker(frame: &[u8]) -> bool {
    let control = Headers::parse(frame).and_then(|headers| Control::of(frame, &headers));
    let Ok(Some(Control::Slow(slow))) = control else { return false };
    let marker = (slow.subtype == slow::Subtype::Marker).then(|| Marker::parse(slow.data));
    marker.is_some_and(|one| one.is_ok_and(|one| one.kind == marker::Kind::Information))
}

/// A frame with `message` behind an Ethernet II header, without padding and FCS, which the line
/// adds.
#[must_use]
pub fn frame(
    destination: MacAddress,
    source: MacAddress,
    ether_type: u16,
    message: &[u8],
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET + message.len());
    for part in [&destination.0[..], &source.0, &ether_type.to_be_bytes(), message] {
        frame.extend_from_slice(part);
    }
    frame
}

/// A message of which the fields before `at` are read.
///
/// Places in errors count from the first byte of `bytes`, which is the whole frame where there is
/// one.
#[derive(Debug, Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// What a message that is cut off lacks: "bytes of ...".
    lacks: &'static str,
}

impl<'a> Reader<'a> {
    /// The message that begins at byte `at` of `bytes`.
    const fn new(bytes: &'a [u8], at: usize, lacks: &'static str) -> Self {
        Self { bytes, at, lacks }
    }

    const fn at(&self) -> usize {
        self.at
    }

    /// The next `N` bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let rest = self.rest();
        let Some(array) = rest.first_chunk::<N>() else {
            let (field, at, found) = (self.lacks, self.at, rest.len());
            return Err(FrameError { field, at, lowest: N, highest: None, found });
        };
        self.at += N;
        Ok(*array)
    }

    /// The next byte, whose value is in `lowest..=highest`.
    fn byte(&mut self, field: &'static str, lowest: u8, highest: u8) -> Result<u8, FrameError> {
        let at = self.at;
        let [value] = self.array()?;
        FrameError::within(field, at, value.into(), lowest.into(), highest.into())?;
        Ok(value)
    }

    /// The next two bytes as a number, whose value is in `lowest..=highest`.
    fn word(&mut self, field: &'static str, lowest: u16, highest: u16) -> Result<u16, FrameError> {
        let at = self.at;
        let value = u16::from_be_bytes(self.array()?);
        FrameError::within(field, at, value.into(), lowest.into(), highest.into())?;
        Ok(value)
    }

    /// The next two bytes as a number.
    fn any_word(&mut self) -> Result<u16, FrameError> {
        self.array().map(u16::from_be_bytes)
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}
