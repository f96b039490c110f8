//! How payload is cut into IP packets, for any link.

use std::fmt;

use linkrate_model::{ByteSize, Family};

use super::LimitError;
use super::breakdown::Layers;

/// TCP header without options, RFC 9293 section 3.1.
pub const TCP_HEADER: u64 = 20;
/// The timestamps option with its two padding bytes, RFC 7323 appendix A. Linux sends it on every
/// segment unless `net.ipv4.tcp_timestamps` is 0.
pub const TCP_TIMESTAMPS: u64 = 12;
/// UDP header, RFC 768.
pub const UDP_HEADER: u64 = 8;
/// IPv6 fragment header, RFC 8200 section 4.5.
const IPV6_FRAGMENT_HEADER: u64 = 8;
/// Fragment offsets count in these, RFC 791 section 3.1.
const FRAGMENT_UNIT: u64 = 8;
/// The largest message of a stream: above it, counts no longer fit a double exactly.
const MAX_STREAM_MESSAGE: u64 = 1 << 53;

/// Which IP header a packet has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// RFC 791, without options.
    V4,
    /// RFC 8200, without extension headers unless a datagram must be fragmented.
    V6,
}

impl From<Family> for IpVersion {
    fn from(family: Family) -> Self {
        match family {
            Family::Ipv4 => Self::V4,
            Family::Ipv6 => Self::V6,
        }
    }
}

impl IpVersion {
    /// Bytes of the header.
    pub fn header(self) -> u64 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    /// The smallest MTU a link may have.
    pub fn smallest_mtu(self) -> u32 {
        match self {
            Self::V4 => Family::Ipv4.smallest_mtu(),
            Self::V6 => Family::Ipv6.smallest_mtu(),
        }
    }

    /// The largest packet its 16-bit length field can say. IPv6 does not count its own header;
    /// jumbograms (RFC 2675) are left out.
    pub fn largest_packet(self) -> u32 {
        match self {
            Self::V4 => 65_535,
            Self::V6 => 65_535 + 40,
        }
    }

    /// Payload of a fragment that is not the last, for packets of at most `mtu` bytes.
    fn fragment_payload(self, mtu: u64) -> u64 {
        (mtu - self.header() - self.fragment_header()) / FRAGMENT_UNIT * FRAGMENT_UNIT
    }

    /// Bytes of a fragment beyond the header that every packet has.
    fn fragment_header(self) -> u64 {
        match self {
            Self::V4 => 0,
            Self::V6 => IPV6_FRAGMENT_HEADER,
        }
    }

    /// The name of the header in an account.
    fn header_name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4 header",
            Self::V6 => "IPv6 header",
        }
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// The protocol inside the IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP data segments.
    Tcp {
        /// Whether each carries the timestamps option.
        timestamps: bool,
    },
    /// UDP datagrams.
    Udp,
}

impl Transport {
    /// Bytes of the header with the options on every packet.
    pub fn header(self) -> u64 {
        match self {
            Self::Tcp { timestamps: false } => TCP_HEADER,
            Self::Tcp { timestamps: true } => TCP_HEADER + TCP_TIMESTAMPS,
            Self::Udp => UDP_HEADER,
        }
    }
}

/// Where packets begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Every packet as full as the MTU allows: a TCP stream with enough data waiting, or UDP
    /// datagrams that just fit.
    Full,
    /// Every message begins a packet of its own: TCP_NODELAY with one message at a time, or
    /// UDP. A TCP message above the MSS becomes full segments and a rest; a datagram above the
    /// MTU becomes IP fragments.
    Message(ByteSize),
}

/// Traffic in one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Traffic {
    /// The IP header.
    pub ip: IpVersion,
    /// The protocol inside the packets.
    pub transport: Transport,
    /// The largest IP packet in bytes.
    pub mtu: u32,
    /// Where packets begin and end.
    pub cut: Cut,
}

/// IP packets of the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) count: u64,
    /// Bytes of each, IP header included.
    pub(super) length: u64,
}

/// One unit of traffic as IP packets.
#[derive(Debug)]
pub(super) struct Packets {
    /// Payload bytes of the unit.
    pub(super) payload: u64,
    /// The packets, full ones first.
    pub(super) groups: Vec<Group>,
    /// Transport and IP headers.
    pub(super) layers: Layers,
}

impl Packets {
    pub(super) fn count(&self) -> u64 {
        self.groups.iter().map(|group| group.count).sum()
    }
}

impl Traffic {
    /// A TCP stream over IPv4 with timestamps and full segments, as Linux sends it.
    pub fn tcp(mtu: u32) -> Self {
        Self {
            ip: IpVersion::V4,
            transport: Transport::Tcp { timestamps: true },
            mtu,
            cut: Cut::Full,
        }
    }

    /// UDP datagrams over IPv4 that fill the MTU.
    pub fn udp(mtu: u32) -> Self {
        Self { transport: Transport::Udp, ..Self::tcp(mtu) }
    }

    /// Payload of one full packet in bytes: the MSS less options for TCP. Fails if the IP version does not allow
    /// the MTU.
    pub fn largest_payload(&self) -> Result<u64, LimitError> {
        self.check_mtu(self.ip.largest_packet(), "any link")?;
        Ok(u64::from(self.mtu) - self.ip.header() - self.transport.header())
    }

    /// Refuses an MTU that is impossible for the IP version or the link.
    pub(super) fn check_mtu(&self, largest: u32, link: &'static str) -> Result<(), LimitError> {
        let (lowest, highest) = (self.ip.smallest_mtu(), largest.min(self.ip.largest_packet()));
        if (lowest..=highest).contains(&self.mtu) {
            return Ok(());
        }
        Err(LimitError::Mtu { given: self.mtu, lowest, highest, ip: self.ip, link })
    }

    /// The largest message that can be sent as one unit, in bytes.
    fn largest_message(&self) -> u64 {
        match self.transport {
            Transport::Tcp { .. } => MAX_STREAM_MESSAGE,
            Transport::Udp => u64::from(self.ip.largest_packet()) - self.ip.header() - UDP_HEADER,
        }
    }

    /// Cuts one unit into IP packets. The MTU has been checked against the link before.
    pub(super) fn packets(&self) -> Result<Packets, LimitError> {
        let full = self.largest_payload()?;
        let message = match self.cut {
            Cut::Full => full,
            Cut::Message(ByteSize(message)) => message,
        };
        let highest = self.largest_message();
        if !(1..=highest).contains(&message) {
            let what = match self.transport {
                Transport::Tcp { .. } => "a TCP message".to_owned(),
                Transport::Udp => format!("a UDP datagram over {}", self.ip),
            };
            return Err(LimitError::Message { given: message, lowest: 1, highest, what });
        }
        Ok(match self.transport {
            Transport::Tcp { timestamps } => self.segments(message, full, timestamps),
            Transport::Udp => self.datagram(message),
        })
    }

    fn segments(&self, message: u64, full: u64, timestamps: bool) -> Packets {
        let headers = self.ip.header() + self.transport.header();
        let groups = divide(message, full, headers);
        let mut packets = Packets { payload: message, groups, layers: Layers::default() };
        let count = packets.count();
        packets.layers.add("TCP header", TCP_HEADER * count);
        if timestamps {
            packets.layers.add("TCP timestamps", TCP_TIMESTAMPS * count);
        }
        packets.layers.add(self.ip.header_name(), self.ip.header() * count);
        packets
    }

    fn datagram(&self, message: u64) -> Packets {
        let mtu = u64::from(self.mtu);
        let length = UDP_HEADER + message;
        let fits = self.ip.header() + length <= mtu;
        let (groups, extra) = if fits {
            (vec![Group { count: 1, length: self.ip.header() + length }], 0)
        } else {
            self.fragments(length)
        };
        let mut packets = Packets { payload: message, groups, layers: Layers::default() };
        let count = packets.count();
        packets.layers.add("UDP header", UDP_HEADER);
        packets.layers.add("IPv6 fragment header", extra * count);
        packets.layers.add(self.ip.header_name(), self.ip.header() * count);
        packets
    }

    /// The fragments of `length` bytes of IP payload, and the bytes of each beyond the IP header.
    ///
    /// Only the last fragment may fill the MTU to the byte. The others end on a multiple of eight.
    fn fragments(&self, length: u64) -> (Vec<Group>, u64) {
        let extra = self.ip.fragment_header();
        let headers = self.ip.header() + extra;
        let full = self.ip.fragment_payload(u64::from(self.mtu));
        let last_fits = u64::from(self.mtu) - headers;
        let whole = length.saturating_sub(last_fits).div_ceil(full);
        let mut groups = vec![Group { count: whole, length: headers + full }];
        groups.push(Group { count: 1, length: headers + length - whole * full });
        (groups, extra)
    }
}

/// Divides `payload` into packets of `full` payload bytes and a rest, each with `headers`.
fn divide(payload: u64, full: u64, headers: u64) -> Vec<Group> {
    [
        Group { count: payload / full, length: headers + full },
        Group { count: u64::from(!payload.is_multiple_of(full)), length: headers + payload % full },
    ]
    .into_iter()
    .filter(|group| group.count > 0)
    .collect()
}
