//! Bidirectional Forwarding Detection: the control packet (RFC 5880, 4.1), and its frame on a member
//! link of an aggregate (micro-BFD, RFC 7130, 2.2 and 2.3).
//!
//! Authentication is not supported: a packet with it is refused.

use std::fmt;
use std::time::Duration;

use super::Reader;
use crate::frame::{
    FrameError, Headers, IpEnds, MacAddress, Network, Route, Transport, UDP, ipv4, ipv6, link,
};

/// The UDP port that micro-BFD packets go to (RFC 7130, 2.2).
pub const PORT: u16 = 6784;
/// The group address that they are sent to (RFC 7130, 2.3). A session that is up may send to the
/// other end's own address instead; this crate does not, but [knows](is_to_a_station) such frames.
pub const GROUP: MacAddress = MacAddress([0x01, 0x00, 0x5e, 0x90, 0x00, 0x01]);
/// Whether a frame is a micro-BFD packet to the address of one station: from a partner that has taken it from the
/// packets it got (RFC 7130, 2.3). By the first bytes, without tags and IP options, and with the TTL or hop limit that
/// no router can have passed on.
#[inline]
#[must_use]
pub fn is_to_a_station(head: &[u8]) -> bool {
    const IP: usize = link::ETHERNET;
    let octet = |at: usize| head.get(IP + at).copied();
    let word = |at: usize| head.get(at..).and_then(|rest| rest.first_chunk()).copied();
    let (hops, protocol, port_at) = match word(IP - 2).map(u16::from_be_bytes) {
        Some(ipv4::ETHER_TYPE) if octet(0) == Some(0x45) => {
            (octet(ipv4::TTL), octet(ipv4::PROTOCOL), IP + ipv4::HEADER + 2)
        }
        Some(ipv6::ETHER_TYPE) => {
            (octet(ipv6::HOP_LIMIT), octet(ipv6::NEXT_HEADER), IP + ipv6::HEADER + 2)
        }
        _ => return false,
    };
    protocol == Some(UDP)
        && hops == Some(HOPS)
        && word(port_at).map(u16::from_be_bytes) == Some(PORT)
        && head[0] & 1 == 0
}

/// The TTL or hop limit, which no router can have passed on (RFC 5881, 5).
pub const HOPS: u8 = 255;
/// The lowest source port (RFC 5881, 4).
pub const LOWEST_SOURCE_PORT: u16 = 49_152;
/// Bytes of a packet without authentication.
pub const LENGTH: usize = 24;

const VERSION: u8 = 1;
/// Network control (RFC 4594, 3.2), in the upper six bits.
const CLASS: u8 = 48 << 2;
const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const CONTROL_PLANE_INDEPENDENT: u8 = 0x08;
const AUTHENTICATION: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

/// A control packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bfd {
    /// Why the sender last left the state up.
    pub diagnostic: Diagnostic,
    /// The state of the sender's session.
    pub state: State,
    /// The sender wants to be answered with a final packet.
    pub poll: bool,
    /// The answer to a poll.
    pub is_final: bool,
    /// The sender's BFD continues while its control plane restarts.
    pub control_plane_independent: bool,
    /// The sender wants no periodic packets while both ends are up.
    pub demand: bool,
    /// Packets in sequence that the receiver may miss before it declares the session down; not 0.
    pub detect_multiplier: u8,
    /// The sender's number of the session; not 0.
    pub own: u32,
    /// The receiver's number of the session as the sender knows it; 0 if it does not.
    pub other: u32,
    /// The shortest interval in which the sender would send, µs.
    pub desired_min_tx_us: u32,
    /// The shortest interval in which the sender can receive, µs; 0 if it wants no periodic packets.
    pub required_min_rx_us: u32,
    /// The shortest interval of echo packets that the sender returns, µs; 0 if it returns none.
    pub required_min_echo_rx_us: u32,
}

/// The state of a session (RFC 5880, 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Its owner has switched it off.
    AdminDown,
    /// The other end is not heard, or says that it is down.
    Down,
    /// The other end is heard, and does not hear this one yet.
    Init,
    /// Both ends hear each other.
    Up,
}

impl State {
    const ALL: [Self; 4] = [Self::AdminDown, Self::Down, Self::Init, Self::Up];

    const fn bits(self) -> u8 {
        match self {
            Self::AdminDown => 0,
            Self::Down => 1,
            Self::Init => 2,
            Self::Up => 3,
        }
    }
}

/// Why a session changed its state (RFC 5880, 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Diagnostic {
    /// No diagnostic.
    None,
    /// No packet came within the detection time.
    DetectionTimeExpired,
    /// Echo packets did not come back.
    EchoFailed,
    /// The other end said that it is down.
    NeighborDown,
    /// The forwarding plane was reset.
    ForwardingReset,
    /// The path is down, by other knowledge: the carrier is lost.
    PathDown,
    /// A path that this one depends on is down.
    ConcatenatedPathDown,
    /// The owner has switched the session off.
    AdministrativelyDown,
    /// The path back is down.
    ReverseConcatenatedPathDown,
    /// Reserved: 9 to 31.
    Reserved(u8),
}

/// By the names of RFC 5880.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AdminDown => "AdminDown",
            Self::Down => "Down",
            Self::Init => "Init",
            Self::Up => "Up",
        })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no diagnostic",
            Self::DetectionTimeExpired => "control detection time expired",
            Self::EchoFailed => "echo function failed",
            Self::NeighborDown => "neighbor signaled session down",
            Self::ForwardingReset => "forwarding plane reset",
            Self::PathDown => "path down",
            Self::ConcatenatedPathDown => "concatenated path down",
            Self::AdministrativelyDown => "administratively down",
            Self::ReverseConcatenatedPathDown => "reverse concatenated path down",
            Self::Reserved(bits) => return write!(f, "reserved diagnostic {bits}"),
        })
    }
}

impl Diagnostic {
    const fn of(bits: u8) -> Self {
        match bits {
            0 => Self::None,
            1 => Self::DetectionTimeExpired,
            2 => Self::EchoFailed,
            3 => Self::NeighborDown,
            4 => Self::ForwardingReset,
            5 => Self::PathDown,
            6 => Self::ConcatenatedPathDown,
            7 => Self::AdministrativelyDown,
            8 => Self::ReverseConcatenatedPathDown,
            bits => Self::Reserved(bits),
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::None => 0,
            Self::DetectionTimeExpired => 1,
            Self::EchoFailed => 2,
            Self::NeighborDown => 3,
            Self::ForwardingReset => 4,
            Self::PathDown => 5,
            Self::ConcatenatedPathDown => 6,
            Self::AdministrativelyDown => 7,
            Self::ReverseConcatenatedPathDown => 8,
            Self::Reserved(bits) => bits & 0x1f,
        }
    }
}

impl Bfd {
    /// Reads a packet. Bytes after it are not looked at. Fails if it is cut off, or is one that RFC 5880 (6.8.6)
    /// discards whatever the session: another version, no multiplier, no number of the sender, no number of the
    /// receiver beyond the state down, multipoint, or authentication.
    pub fn parse(message: &[u8]) -> Result<Self, FrameError> {
        Self::read(message, 0)
    }

    pub(super) fn read(frame: &[u8], at: usize) -> Result<Self, FrameError> {
        let room = frame.len().saturating_sub(at).min(u8::MAX.into());
        let mut reader = Reader::new(frame, at, "bytes of BFD packet");
        let [first, flags, multiplier, length] = reader.array()?;
        FrameError::within("BFD version", at, usize::from(first >> 5), 1, 1)?;
        let bit = |name, bit: u8| FrameError::within(name, at + 1, (flags & bit).into(), 0, 0);
        bit("BFD authentication flag", AUTHENTICATION)?;
        bit("BFD multipoint flag", MULTIPOINT)?;
        FrameError::within("BFD detect multiplier", at + 2, multiplier.into(), 1, 255)?;
        FrameError::within("BFD length", at + 3, length.into(), LENGTH, room.max(LENGTH))?;
        let mut number = || reader.array().map(u32::from_be_bytes);
        let [own, other] = [number()?, number()?];
        let [desired_min_tx_us, required_min_rx_us, required_min_echo_rx_us] =
            [number()?, number()?, number()?];
        let state = State::ALL[usize::from(flags >> 6)];
        let least = |name, at, number: u32, lowest| match number as usize {
            found if found < lowest => {
                Err(FrameError { field: name, at, lowest, highest: None, found })
            }
            _ => Ok(()),
        };
        least("BFD my discriminator", at + 4, own, 1)?;
        let known = matches!(state, State::Init | State::Up);
        least("BFD your discriminator", at + 8, other, known.into())?;
        Ok(Self {
            diagnostic: Diagnostic::of(first & 0x1f),
            state,
            poll: flags & POLL != 0,
            is_final: flags & FINAL != 0,
            control_plane_independent: flags & CONTROL_PLANE_INDEPENDENT != 0,
            demand: flags & DEMAND != 0,
            detect_multiplier: multiplier,
            own,
            other,
            desired_min_tx_us,
            required_min_rx_us,
            required_min_echo_rx_us,
        })
    }

    /// The micro-BFD packet of a frame; `None` for a frame of another protocol.
    pub(super) fn of(frame: &[u8], headers: &Headers) -> Result<Option<Self>, FrameError> {
        let to_port = headers.ports(frame).is_some_and(|(_, to)| to == PORT);
        if !to_port || !matches!(headers.transport, Transport::Udp { .. }) {
            return Ok(None);
        }
        let hops_at = match headers.network {
            Network::V4(ip) => ip.at + ipv4::TTL,
            Network::V6(ip) => ip.at + ipv6::HOP_LIMIT,
            Network::Other => return Ok(None),
        };
        let mut reader = Reader::new(frame, hops_at, "bytes of IP header");
        reader.byte("TTL of a BFD packet", HOPS, HOPS)?;
        Self::read(frame, headers.payload).map(Some)
    }

    /// The bytes of the packet.
    #[must_use]
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut flags = self.state.bits() << 6;
        for (flag, bit) in [
            (self.poll, POLL),
            (self.is_final, FINAL),
            (self.control_plane_independent, CONTROL_PLANE_INDEPENDENT),
            (self.demand, DEMAND),
        ] {
            flags |= if flag { bit } else { 0 };
        }
        let mut packet = [0; LENGTH];
        packet[..4].copy_from_slice(&[
            VERSION << 5 | self.diagnostic.bits(),
            flags,
            self.detect_multiplier,
            LENGTH as u8,
        ]);
        let numbers = [
            self.own,
            self.other,
            self.desired_min_tx_us,
            self.required_min_rx_us,
            self.required_min_echo_rx_us,
        ];
        packet[4..].copy_from_slice(numbers.map(u32::to_be_bytes).as_flattened());
        packet
    }

    /// The frame of a micro-BFD packet, without padding and FCS. `ip` are the addresses of the two
    /// aggregates. `source_port` is at least [`LOWEST_SOURCE_PORT`] and always the same in a
    /// session.
    #[must_use]
    pub fn frame(&self, source: MacAddress, ip: IpEnds, source_port: u16) -> Vec<u8> {
        let route = Route { source, destination: GROUP, ip, hops: HOPS, class: CLASS };
        // 24 bytes always fit a packet
        route.udp(source_port, PORT, &self.emit()).unwrap_or_default()
    }
}

pub(crate) fn time(us: u32) -> Duration {
    Duration::from_micros(us.into())
}
