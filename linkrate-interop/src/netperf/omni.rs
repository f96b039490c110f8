//! The test of kind OMNI: request, response and results.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::message::{Kind, Message, MessageError};
use super::pace::Intervals;
use super::ring::Placement;

/// Bits of the flags of requests and responses.
pub mod flags {
    pub const NO_DELAY: u32 = 0x0000_0001;
    /// A connection for each transaction.
    pub const CONNECTIONS: u32 = 0x0000_0004;
    /// The peer is to measure its CPU.
    pub const MEASURE_CPU: u32 = 0x0000_0008;
    /// The peer's packets may go by a router. Without it, its sockets have SO_DONTROUTE, and the routes that the host
    /// was given are not theirs, nor is a congestion control that is set on one.
    pub const ROUTING_ALLOWED: u32 = 0x0000_0020;
    /// Payload in the first packet of a connection (TCP fast open, `-- -F`).
    pub const FAST_OPEN: u32 = 0x0000_0800;
    /// Packets are not fragmented (`-- -f`).
    pub const UNFRAGMENTED: u32 = 0x0001_0000;
}

/// Numbers of a request before its text.
const REQUEST_NUMBERS: usize = 38;
/// Numbers of the results before their text.
const RESULT_NUMBERS: usize = 27;
/// Words of the modes of the CPUs, which 2.7 has put before the service demand.
const MODES: usize = 5;
/// Octets of the name of a congestion control, with its zero.
const CONGESTION_BYTES: usize = 16;
/// The place of the name of a file that a server fills its payload from, and its octets with its zero.
const FILL_FILE: (usize, usize) = (REQUEST_NUMBERS + CONGESTION_BYTES / 4, 32);
/// Words of the names of the interface and of its driver, behind which the congestion control of the results is.
const RESULT_NAMES: usize = (16 + 4 * 32 + 16) / 4;

/// The words of the results, by the version of netperf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// 2.5, in short messages.
    TwoFive,
    /// 2.6.
    TwoSix,
    /// 2.7.
    TwoSeven,
}

impl Layout {
    /// That of results. Where 2.6 has the number of CPUs, 2.7 has a percentage of single precision, and no number of
    /// CPUs is the bits of one that can be.
    fn of(message: &Message) -> Self {
        match message.word(14) {
            1..=0xffff => Self::TwoSix,
            _ => Self::TwoSeven,
        }
    }

    /// Words by which everything from the service demand on comes earlier than in 2.7.
    fn earlier(self) -> usize {
        match self {
            Self::TwoFive | Self::TwoSix => MODES,
            Self::TwoSeven => 0,
        }
    }
}

/// Most octets of one call: what a server of linkrate has memory for.
pub(crate) const MAX_CALL: u32 = 64 << 20;
/// The longest test, s.
pub(super) const MAX_SECONDS: i32 = 86_400;

/// netperf's own numbers of families of addresses.
pub(super) const IPV4: u32 = 4;
pub(super) const IPV6: u32 = 6;
/// Numbers of protocols, RFC 790.
const TCP: u32 = 6;
const UDP: u32 = 17;

/// What flows between the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Payload from the client (TCP_STREAM, UDP_STREAM).
    Stream,
    /// Payload from the server (TCP_MAERTS).
    Maerts,
    /// Requests and responses (TCP_RR, UDP_RR).
    RequestResponse,
    /// The same, on a connection each (TCP_CRR).
    ConnectRequestResponse,
    /// Connections alone (TCP_CC).
    Connect,
}

impl Shape {
    /// Whether netperf lets packets go by a router unless it is told otherwise: except datagrams at any rate.
    #[must_use]
    pub fn may_be_routed(self, udp: bool) -> bool {
        !(udp && self == Self::Stream)
    }
}

/// The server sends payload: the direction is told by the server's view.
const TRANSMIT: u32 = 2;
/// It receives payload.
const RECEIVE: u32 = 4;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct OmniRequest {
    pub shape: Shape,
    /// Whether it flows in datagrams.
    pub udp: bool,
    /// The length of the test: seconds, or what the client counts where it is negative.
    pub test_length: i32,
    /// SO_SNDBUF of the server's sockets; `None` leaves it.
    pub send_buffer: Option<u32>,
    /// SO_RCVBUF of the server's sockets; `None` leaves it.
    pub receive_buffer: Option<u32>,
    /// Octets of the server's send calls; `None`: the server chooses.
    pub send_size: Option<u32>,
    /// Octets of the server's receive calls; `None`: the server chooses.
    pub receive_size: Option<u32>,
    /// Buffers that the server sends from, around and around; `None`: the server chooses.
    pub send_width: Option<u32>,
    /// Buffers that it receives into; `None`: the server chooses.
    pub receive_width: Option<u32>,
    /// Where the buffers of its send calls begin.
    pub send_placement: Placement,
    /// Where those of its receive calls do.
    pub receive_placement: Placement,
    /// Octets of a request.
    pub request_size: u32,
    /// Octets of a response.
    pub response_size: u32,
    /// The bound of the server's calls.
    pub intervals: Option<Intervals>,
    /// Whether packets may go by a router. A server of linkrate leaves it to the routes of its host.
    pub may_be_routed: bool,
    pub nodelay: bool,
    /// Whether the server is to measure its CPU.
    pub measures_cpu: bool,
    /// The port that the server is to listen on; 0 for any.
    pub data_port: u16,
    /// The address that it is to listen on, where the client names one. The data connection has its family.
    pub data_address: Option<IpAddr>,
    /// The address that the client's end of the data has, where it names one, of the same family.
    pub client_address: Option<IpAddr>,
    /// SO_PRIORITY of the server's sockets; `None` leaves it.
    pub priority: Option<u32>,
    /// Type of service of the server's packets; `None` leaves it.
    pub tos: Option<u8>,
    /// The congestion control of the server's sockets; empty leaves it.
    pub congestion: String,
    /// A file of the server's host that its payload is of; empty leaves it.
    pub fill_file: String,
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq)]
pub struct OmniResponse {
    /// The port of its data connections.
    pub data_port: u16,
    /// SO_SNDBUF as granted.
    pub send_buffer: i32,
    /// SO_RCVBUF as granted.
    pub receive_buffer: i32,
    /// Octets of its send calls.
    pub send_size: u32,
    /// Octets of its receive calls.
    pub receive_size: u32,
    /// Buffers that it sends from.
    pub send_width: u32,
    /// Buffers that it receives into.
    pub receive_width: u32,
    /// TCP_NODELAY of its sockets.
    pub nodelay: bool,
    /// Whether it measures its CPU.
    pub measures_cpu: bool,
    /// The rate of its CPU by its own unit.
    pub cpu_rate: f32,
    /// The length of the test as it was asked for.
    pub test_length: u32,
    /// The bound of its calls; `None` where it has none, or knows none.
    pub intervals: Option<Intervals>,
    /// SO_PRIORITY of its sockets; `None` where it has not set one.
    pub priority: Option<u32>,
    /// Type of service of its packets; `None` where it has not set one.
    pub tos: Option<u8>,
}

/// Use of CPUs by what they did, per cent of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuModes {
    /// Programs of normal priority.
    pub user: f32,
    /// The kernel on behalf of programs.
    pub system: f32,
    /// Nothing, while I/O was on its way.
    pub iowait: f32,
    /// Interrupts.
    pub irq: f32,
    /// Softirqs.
    pub softirq: f32,
}

/// What a server has measured.
#[derive(Debug, Clone, PartialEq)]
pub struct OmniResults {
    /// Octets that it received.
    pub received_bytes: u64,
    /// Its receive calls.
    pub receive_calls: u32,
    /// SO_RCVBUF at the end.
    pub receive_buffer: i32,
    /// Octets that it sent.
    pub sent_bytes: u64,
    /// Its send calls.
    pub send_calls: u32,
    /// SO_SNDBUF at the end.
    pub send_buffer: i32,
    pub transactions: u32,
    /// Length of its test, s.
    pub seconds: f32,
    /// Use of all its CPUs, per cent; `None` if it was not measured.
    pub cpu_percent: Option<f32>,
    /// The same by what they did; `None` if it was not measured.
    pub modes: Option<CpuModes>,
    /// CPU time for each KB or transaction, µs; `None` if it was not measured.
    pub service_demand: Option<f32>,
    /// How it measured its CPU, by netperf's number: 8 for `/proc/stat`.
    pub cpu_method: u32,
    pub cpus: u32,
    /// The busiest one; `None` if it does not know.
    pub peak_cpu: Option<(u32, f32)>,
    /// Segments that it sent again; `None` if it does not know.
    pub retransmits: Option<u32>,
    /// The congestion control of its sockets; empty if it does not report.
    pub congestion: String,
}

fn expect(message: &Message, kind: Kind) -> Result<(), MessageError> {
    match message.kind() == kind {
        true => Ok(()),
        false => {
            Err(MessageError::Kind { found: message.kind().number(), expected: kind.number() })
        }
    }
}

fn refused(field: &'static str, found: impl ToString, expected: &'static str) -> MessageError {
    MessageError::Field { field, found: found.to_string(), expected }
}

/// A size that the peer may leave open by any number that is no size.
pub(super) fn size(field: &'static str, found: i32) -> Result<Option<u32>, MessageError> {
    match u32::try_from(found) {
        Err(_) | Ok(0) => Ok(None),
        Ok(size) if size <= MAX_CALL => Ok(Some(size)),
        Ok(size) => Err(refused(field, size, "at most 67108864 octets")),
    }
}

/// A type of service; zero and what is none leave it.
fn tos(found: i32) -> Option<u8> {
    u8::try_from(found).ok().filter(|tos| *tos > 0)
}

pub(super) fn port(found: u32) -> Result<u16, MessageError> {
    u16::try_from(found).map_err(|_| refused("data_port", found, "at most 65535"))
}

fn with(flag: u32, on: bool) -> u32 {
    if on { flag } else { 0 }
}

/// The four words of an address of IPv6. netperf turns each of them, as if its octets were a number, by the order of its
/// host: that of x86 and ARM is taken.
fn ipv6_of_words(words: [u32; 4]) -> Ipv6Addr {
    let mut octets = [0; 16];
    for (octets, word) in octets.chunks_exact_mut(4).zip(words) {
        octets.copy_from_slice(&word.to_le_bytes());
    }
    octets.into()
}

/// The address whose words begin at `index`; `None` where none is named.
fn address(message: &Message, family: u32, index: usize) -> Option<IpAddr> {
    let word = |place| message.word(index + place);
    let found: IpAddr = match family {
        IPV4 => Ipv4Addr::from_bits(word(0)).into(),
        IPV6 => ipv6_of_words([word(0), word(1), word(2), word(3)]).into(),
        _ => return None,
    };
    Some(found).filter(|address| !address.is_unspecified())
}

fn put_address(message: &mut Message, index: usize, address: Option<IpAddr>) {
    match address {
        None => {}
        Some(IpAddr::V4(address)) => message.put(index, address.to_bits()),
        Some(IpAddr::V6(address)) => {
            for (word, octets) in (index..).zip(address.octets().as_chunks().0) {
                message.put(word, u32::from_le_bytes(*octets));
            }
        }
    }
}

impl OmniRequest {
    /// A request that leaves all choices to the server, for a test of this length, without octets of a
    /// transaction.
    #[must_use]
    pub fn of(shape: Shape, udp: bool, test_length: i32) -> Self {
        Self {
            shape,
            udp,
            test_length,
            send_buffer: None,
            receive_buffer: None,
            send_size: None,
            receive_size: None,
            send_width: None,
            receive_width: None,
            send_placement: Placement::default(),
            receive_placement: Placement::default(),
            request_size: 0,
            response_size: 0,
            intervals: None,
            may_be_routed: shape.may_be_routed(udp),
            nodelay: false,
            measures_cpu: false,
            data_port: 0,
            data_address: None,
            client_address: None,
            priority: None,
            tos: None,
            congestion: String::new(),
            fill_file: String::new(),
        }
    }

    /// Reads a request.
    pub fn parse(message: &Message) -> Result<Self, MessageError> {
        expect(message, Kind::Omni)?;
        let (flags, direction) = (message.word(12), message.word(24));
        let connections = flags & flags::CONNECTIONS != 0;
        const BOTH: u32 = TRANSMIT | RECEIVE;
        let shape = match (direction & BOTH, connections) {
            (RECEIVE, false) => Shape::Stream,
            (TRANSMIT, false) => Shape::Maerts,
            (BOTH, false) => Shape::RequestResponse,
            (BOTH, true) => Shape::ConnectRequestResponse,
            (0, true) => Shape::Connect,
            (_, true) => {
                return Err(refused("direction", direction, "both or none with connections"));
            }
            _ => return Err(refused("direction", direction, "2 (transmit), 4 (receive) or both")),
        };
        let udp = match message.word(23) {
            TCP => false,
            UDP => true,
            other => return Err(refused("protocol", other, "6 (TCP) or 17 (UDP)")),
        };
        if flags & (flags::FAST_OPEN | flags::UNFRAGMENTED) != 0 {
            let expected = "none of 0x800 (TCP fast open) and 0x10000 (no fragments)";
            return Err(refused("flags", format!("{flags:#x}"), expected));
        }
        if let Some(touched) =
            (17..20).map(|index| message.signed(index)).find(|octets| *octets > 0)
        {
            return Err(refused("dirty_count", touched, "0: no octets are touched between calls"));
        }
        let placement = |field, index| {
            let (alignment, offset) = (message.word(index), message.word(index + 1));
            Placement::of(alignment.max(1), offset).ok_or_else(|| {
                let found = format!("{alignment},{offset}");
                refused(field, found, "a power of two up to 4096, and at most 65536")
            })
        };
        let family = message.word(21);
        let address = |index| address(message, family, index);
        let test_length = message.signed(14);
        if test_length > MAX_SECONDS {
            return Err(refused("test_length", test_length, "at most 86400 s"));
        }
        Ok(Self {
            shape,
            udp,
            test_length,
            send_buffer: size("send_buf_size", message.signed(0))?,
            receive_buffer: size("recv_buf_size", message.signed(6))?,
            send_size: size("send_size", message.signed(1))?,
            receive_size: size("receive_size", message.signed(7))?,
            send_width: Some(message.word(4)).filter(|width| *width != 0),
            receive_width: Some(message.word(10)).filter(|width| *width != 0),
            send_placement: placement("send_alignment", 2)?,
            receive_placement: placement("recv_alignment", 8)?,
            request_size: size("request_size", message.signed(5))?.unwrap_or(0),
            response_size: size("response_size", message.signed(11))?.unwrap_or(0),
            intervals: Intervals::of(message.word(26), message.word(27)),
            may_be_routed: flags & flags::ROUTING_ALLOWED != 0,
            nodelay: flags & flags::NO_DELAY != 0,
            measures_cpu: flags & flags::MEASURE_CPU != 0,
            data_port: port(message.word(20))?,
            data_address: address(32),
            client_address: address(28),
            priority: u32::try_from(message.signed(36)).ok(),
            tos: tos(message.signed(37)),
            congestion: message.text(REQUEST_NUMBERS, CONGESTION_BYTES),
            fill_file: message.text(FILL_FILE.0, FILL_FILE.1),
        })
    }

    /// The message that a client sends. `ipv6` is the family of its control connection, which the data connection has
    /// too where no address is named.
    #[must_use]
    pub fn message(&self, ipv6: bool) -> Message {
        let mut message = Message::new(Kind::Omni);
        message.set_cpu(None);
        // netserver divides by the size; never send zero
        let open = |size: Option<u32>| size.map_or(-1, u32::cast_signed);
        message.put_signed(0, open(self.send_buffer));
        message.put_signed(1, open(self.send_size));
        for (index, Placement { alignment, offset }) in
            [(2, self.send_placement), (8, self.receive_placement)]
        {
            message.put(index, alignment);
            message.put(index + 1, offset);
        }
        message.put(4, self.send_width.unwrap_or(0));
        message.put(10, self.receive_width.unwrap_or(0));
        // a size there would be that of the server's calls in a stream too
        let reported = |size: u32| if size == 0 { -1 } else { size.cast_signed() };
        message.put_signed(5, reported(self.request_size));
        message.put_signed(6, open(self.receive_buffer));
        message.put_signed(7, open(self.receive_size));
        message.put_signed(11, reported(self.response_size));
        let connections = matches!(self.shape, Shape::Connect | Shape::ConnectRequestResponse);
        message.put(
            12,
            with(flags::ROUTING_ALLOWED, self.may_be_routed)
                | with(flags::NO_DELAY, self.nodelay)
                | with(flags::MEASURE_CPU, self.measures_cpu)
                | with(flags::CONNECTIONS, connections),
        );
        message.put_signed(14, self.test_length);
        // octets that the server is to touch before each call: it is not told
        (17..20).for_each(|index| message.put_signed(index, -1));
        message.put(20, self.data_port.into());
        // streams and datagrams by netperf's own numbers
        let named = self.data_address.or(self.client_address);
        let ipv6 = named.map_or(ipv6, |address| address.is_ipv6());
        message.put(21, if ipv6 { IPV6 } else { IPV4 });
        message.put(22, if self.udp { 2 } else { 1 });
        message.put(23, if self.udp { UDP } else { TCP });
        message.put(
            24,
            match self.shape {
                Shape::Stream => RECEIVE,
                Shape::Maerts => TRANSMIT,
                Shape::RequestResponse | Shape::ConnectRequestResponse => TRANSMIT | RECEIVE,
                Shape::Connect => 0,
            },
        );
        let [calls, microseconds] = Intervals::words(self.intervals);
        message.put(26, calls);
        message.put(27, microseconds);
        put_address(&mut message, 28, self.client_address);
        put_address(&mut message, 32, self.data_address);
        message.put_signed(36, self.priority.map_or(-1, u32::cast_signed));
        message.put_signed(37, self.tos.map_or(-1, i32::from));
        message.put_text(REQUEST_NUMBERS, CONGESTION_BYTES, &self.congestion);
        message.put_text(FILL_FILE.0, FILL_FILE.1, &self.fill_file);
        message
    }
}

impl OmniResponse {
    /// Reads the answer of a server.
    pub fn parse(message: &Message) -> Result<Self, MessageError> {
        expect(message, Kind::OmniResponse)?;
        Ok(Self {
            receive_buffer: message.signed(0),
            receive_size: message.word(1),
            send_buffer: message.signed(3),
            send_size: message.word(4),
            receive_width: message.word(2),
            send_width: message.word(5),
            nodelay: message.word(6) & flags::NO_DELAY != 0,
            measures_cpu: message.word(6) & flags::MEASURE_CPU != 0,
            cpu_rate: message.float(7),
            test_length: message.word(8),
            data_port: port(message.word(11))?,
            intervals: Intervals::of(message.word(12), message.word(13)),
            priority: u32::try_from(message.signed(16)).ok(),
            tos: tos(message.signed(17)),
        })
    }

    /// The message that a server sends.
    #[must_use]
    pub fn message(&self) -> Message {
        let mut message = Message::new(Kind::OmniResponse);
        message.put_signed(0, self.receive_buffer);
        message.put(1, self.receive_size);
        message.put(2, self.receive_width);
        message.put_signed(3, self.send_buffer);
        message.put(4, self.send_size);
        message.put(5, self.send_width);
        message.put(
            6,
            with(flags::NO_DELAY, self.nodelay) | with(flags::MEASURE_CPU, self.measures_cpu),
        );
        message.put_float(7, self.cpu_rate);
        message.put(8, self.test_length);
        message.put(11, self.data_port.into());
        let [calls, microseconds] = Intervals::words(self.intervals);
        message.put(12, calls);
        message.put(13, microseconds);
        message.put_signed(16, self.priority.map_or(-1, u32::cast_signed));
        message.put_signed(17, self.tos.map_or(-1, i32::from));
        message
    }
}

impl OmniResults {
    /// Reads the results of a server.
    pub fn parse(message: &Message) -> Result<Self, MessageError> {
        // a netserver turns this word twice where its host has the other order
        if message.kind() != Kind::Other(Kind::OmniResponse.number().swap_bytes()) {
            expect(message, Kind::OmniResponse)?;
        }
        let layout = Layout::of(message);
        let measured = |index| Some(message.float(index)).filter(|number| *number >= 0.0);
        // the place of a word in this layout
        let at = |index: usize| index - layout.earlier();
        let seconds = message.float(10);
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(refused("elapsed_time", seconds, "a time in seconds"));
        }
        let peak = u32::try_from(message.signed(at(20))).ok();
        Ok(Self {
            received_bytes: message.long(0),
            receive_calls: message.word(2),
            receive_buffer: message.signed(3),
            sent_bytes: message.long(4),
            send_calls: message.word(6),
            send_buffer: message.signed(7),
            transactions: message.word(9),
            seconds,
            cpu_percent: measured(11),
            modes: measured(12).filter(|_| layout == Layout::TwoSeven).map(|user| CpuModes {
                user,
                system: message.float(13),
                iowait: message.float(14),
                irq: message.float(15),
                softirq: message.float(16),
            }),
            service_demand: measured(at(17)),
            cpu_method: message.word(at(18)),
            cpus: message.word(at(19)),
            peak_cpu: peak.zip(measured(at(21))),
            retransmits: u32::try_from(message.signed(at(26))).ok(),
            congestion: message.text(at(RESULT_NUMBERS) + RESULT_NAMES, CONGESTION_BYTES),
        })
    }

    /// The message that a server of this version sends.
    #[must_use]
    pub fn message(&self, layout: Layout) -> Message {
        let mut message = Message::new(Kind::OmniResponse);
        let measured = |number: Option<f32>| number.unwrap_or(-1.0);
        let at = |index: usize| index - layout.earlier();
        message.put_long(0, self.received_bytes);
        message.put(2, self.receive_calls);
        message.put_signed(3, self.receive_buffer);
        message.put_long(4, self.sent_bytes);
        message.put(6, self.send_calls);
        message.put_signed(7, self.send_buffer);
        message.put(9, self.transactions);
        message.put_float(10, self.seconds);
        message.put_float(11, measured(self.cpu_percent));
        if layout == Layout::TwoSeven {
            let modes = self.modes.map_or([-1.0; MODES], |modes| {
                [modes.user, modes.system, modes.iowait, modes.irq, modes.softirq]
            });
            for (index, percent) in (12..).zip(modes) {
                message.put_float(index, percent);
            }
        }
        message.put_float(at(17), measured(self.service_demand));
        message.put(at(18), self.cpu_method);
        message.put(at(19), self.cpus);
        message.put_signed(at(20), self.peak_cpu.map_or(-1, |(cpu, _)| cpu.cast_signed()));
        message.put_float(at(21), measured(self.peak_cpu.map(|(_, percent)| percent)));
        // in 2.5 the names begin there
        if layout != Layout::TwoFive {
            message.put_signed(at(26), self.retransmits.map_or(-1, u32::cast_signed));
            let congestion = at(RESULT_NUMBERS) + RESULT_NAMES;
            message.put_text(congestion, CONGESTION_BYTES, &self.congestion);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::MESSAGE_BYTES;
    use super::*;

    fn stream() -> OmniRequest {
        OmniRequest {
            shape: Shape::Stream,
            udp: false,
            test_length: 10,
            send_buffer: None,
            receive_buffer: Some(131_072),
            send_size: None,
            receive_size: Some(16_384),
            send_width: Some(2),
            receive_width: None,
            send_placement: Placement { alignment: 4096, offset: 16 },
            receive_placement: Placement::default(),
            request_size: 1,
            response_size: 1,
            intervals: Intervals::of(3, 10_000),
            may_be_routed: true,
            nodelay: true,
            measures_cpu: true,
            data_port: 0,
            data_address: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
            client_address: Some(Ipv4Addr::new(192, 0, 2, 7).into()),
            priority: Some(5),
            tos: Some(0xb8),
            congestion: "cubic".to_owned(),
            fill_file: "/dev/urandom".to_owned(),
        }
    }

    #[test]
    fn a_server_reads_what_a_client_asks_for() {
        let shapes = [
            Shape::Stream,
            Shape::Maerts,
            Shape::RequestResponse,
            Shape::ConnectRequestResponse,
            Shape::Connect,
        ];
        for shape in shapes {
            for udp in [false, true] {
                let asked = OmniRequest { shape, udp, ..stream() };
                assert_eq!(OmniRequest::parse(&asked.message(false)), Ok(asked));
            }
        }
        let [data, client] = ["fd77::2", "2001:db8::1:7"].map(|text| text.parse().ok());
        let asked = OmniRequest { data_address: data, client_address: client, ..stream() };
        // over a control connection of IPv4
        assert_eq!(OmniRequest::parse(&asked.message(false)), Ok(asked));
    }

    #[test]
    fn an_address_of_ipv6_has_the_words_of_netperf() {
        let mut message = Message::new(Kind::Omni);
        put_address(&mut message, 32, Some("fd77::2".parse().unwrap()));
        assert_eq!([32, 33, 34, 35].map(|word| message.word(word)), [0x77fd, 0, 0, 0x0200_0000]);
    }

    #[test]
    fn a_server_may_send_by_a_router_except_datagrams_at_any_rate() {
        let may = |udp, shape| {
            let message = OmniRequest::of(shape, udp, 10).message(false);
            // priority and what to touch are the server's own choice
            assert_eq!([17, 18, 19, 36, 37].map(|word| message.signed(word)), [-1; 5]);
            message.word(12) & flags::ROUTING_ALLOWED != 0
        };
        assert_eq!([Shape::Stream, Shape::Maerts].map(|shape| may(false, shape)), [true; 2]);
        assert_eq!(
            [Shape::Stream, Shape::RequestResponse].map(|shape| may(true, shape)),
            [false, true]
        );
    }

    #[test]
    fn what_no_server_can_do_is_refused_by_its_name() {
        let wrong = |index, word| {
            let mut message = stream().message(false);
            message.put(index, word);
            OmniRequest::parse(&message).unwrap_err().to_string()
        };
        assert_eq!(wrong(23, 132), "protocol is 132, expected 6 (TCP) or 17 (UDP)");
        assert_eq!(wrong(20, 70_000), "data_port is 70000, expected at most 65535");
        assert_eq!(wrong(14, 90_000), "test_length is 90000, expected at most 86400 s");
        assert!(wrong(1, 1 << 30).starts_with("send_size is 1073741824, expected at most"));
        assert!(wrong(24, 0).starts_with("direction is 0, expected 2"));
        assert!(wrong(12, 0x820).starts_with("flags is 0x820, expected none of 0x800"));
        assert!(wrong(17, 8).starts_with("dirty_count is 8, expected 0"));
        assert!(wrong(8, 24).starts_with("recv_alignment is 24,0, expected a power of two"));
        let other = OmniRequest::parse(&Message::new(Kind::Other(10))).unwrap_err();
        assert_eq!(other.to_string(), "message 10, expected 97");
    }

    prop_compose! {
        fn results()(
            received_bytes: u64, sent_bytes: u64, receive_calls: u32, send_calls: u32,
            receive_buffer: i32, send_buffer: i32, transactions: u32, seconds in 0.0_f32..1e5,
            cpu_percent in prop::option::of(0.0_f32..100.0),
            service_demand in prop::option::of(0.0_f32..1e4),
            modes in prop::option::of(prop::array::uniform5(0.0_f32..100.0)),
            cpu_method: u32, cpus: u32,
            peak_cpu in prop::option::of((0_u32..4096, 0.0_f32..100.0)),
            retransmits in prop::option::of(0_u32..1 << 31), congestion in "[a-z]{0,15}",
        ) -> OmniResults {
            OmniResults {
                received_bytes, sent_bytes, receive_calls, send_calls, receive_buffer, send_buffer,
                transactions, seconds, cpu_percent,
                modes: modes.map(|[user, system, iowait, irq, softirq]| CpuModes {
                    user, system, iowait, irq, softirq,
                }),
                service_demand, cpu_method, cpus, peak_cpu,
                retransmits, congestion,
            }
        }
    }

    proptest! {
        #[test]
        fn results_read_back(results in results()) {
            prop_assert_eq!(OmniResults::parse(&results.message(Layout::TwoSeven)), Ok(results));
        }

        #[test]
        fn results_of_an_earlier_version_read_back(results in results(), cpus in 1_u32..=0xffff) {
            let results = OmniResults { modes: None, cpus, ..results };
            prop_assert_eq!(OmniResults::parse(&results.message(Layout::TwoSix)), Ok(results));
        }

        #[test]
        fn a_response_reads_back(
            data_port: u16, send_buffer: i32, receive_buffer: i32, send_size: u32,
            receive_size: u32, send_width: u32, receive_width: u32, nodelay: bool,
            measures_cpu: bool, cpu_rate in 0.0_f32..1e9, test_length: u32,
            calls: u32, microseconds in 1_u32.., priority in prop::option::of(0_u32..1 << 31),
            tos in prop::option::of(1_u8..),
        ) {
            let intervals = Intervals::of(calls, microseconds);
            let response = OmniResponse {
                data_port, send_buffer, receive_buffer, send_size, receive_size, send_width,
                receive_width, nodelay, measures_cpu, cpu_rate, test_length, intervals, priority,
                tos,
            };
            prop_assert_eq!(OmniResponse::parse(&response.message()), Ok(response));
        }

        #[test]
        fn any_octets_are_a_message_or_an_error(octets in prop::collection::vec(any::<u8>(), MESSAGE_BYTES)) {
            let mut message = Message::of(octets.as_slice().try_into().unwrap());
            for kind in [Kind::Omni, Kind::OmniResponse] {
                message = Message::of(&{
                    let mut octets = *message.octets();
                    octets[..4].copy_from_slice(&kind.number().to_be_bytes());
                    octets
                });
                let _ = OmniRequest::parse(&message);
                let _ = OmniResponse::parse(&message);
                let _ = OmniResults::parse(&message);
            }
        }
    }
}
