//! Third-party programs at the peer: their control connection is the controller's, and the connections that
//! carry payload are the system under test's.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linkrate_interop::client::{
    BUSY, ClientError, Control, Iperf3Test, NetperfTest, PADDING, PASSWORD, User, UserError,
};
use linkrate_interop::iperf3::{
    Directions, GREETING, Parameters, Results, Role, StreamResult, Transport, stream_id,
};
use linkrate_interop::netperf::{Dialect, OmniRequest, Shape, cpu_method};
use linkrate_model::interfaces::{Program, ProgramUser};
use linkrate_model::peer_report::{PeerDatagrams, PeerDirection, PeerReport};
use linkrate_model::{CpuSet, Direction, Family, MessageSize, Peer, Protocol, RunSpec, Workload};
use linkrate_protocol::{DatagramHabit, DialSpec, Ends, FlowFacts, Reply, Request};
use linkrate_sys::clock::monotonic_ns;

use crate::connection::{AgentError, expect_reply};
use crate::error::LabError;
use crate::host::Host;
use crate::options::LabOptions;

/// Extra duration requested when the server ends the test: a run may wait for flows
/// that do not move steadily yet.
const NETPERF_SLACK: Duration = Duration::from_secs(4);

/// The same of a test that its client ends.
const IPERF3_SLACK: Duration = Duration::from_secs(60);

/// The longest beginning that all versions of iperf3 leave out, s.
const MAX_OMIT: u64 = 60;

/// Most payload that waits in a socket of a server which sends, and in ours: four times `tcp_wmem` of a Linux that nobody
/// has changed.
const MAX_QUEUED: u64 = 16 << 20;

/// How long a netserver may take for its results.
const RESULTS: Duration = Duration::from_secs(20);

/// A program at the peer.
#[derive(Debug)]
pub struct PeerServer {
    /// The peer, as it was written.
    name: String,
    program: Program,
    port: u16,
    /// Its places, one of an address family at most.
    places: Vec<Place>,
    /// The interface of the system under test that leads to it.
    pub(crate) sut_interface: String,
    /// Who asks, where it asks for a user.
    user: Option<User>,
    stop: Arc<AtomicBool>,
    tests: Vec<Test>,
    /// Payload of each flow of the run as the system under test counted it, and what the program told.
    counted: Vec<u64>,
    told: Vec<PeerReport>,
    /// Octets of a datagram of the run, if it has datagrams.
    datagram: Option<u64>,
    /// Whether it has requests and responses.
    transacts: bool,
    /// Which way the streams of an iperf3 flow, and what it told of each.
    ways: Option<Directions>,
    theirs: Vec<StreamResult>,
    /// The beginning that an iperf3 leaves out of what it tells.
    omission: Option<Omission>,
    /// What a netserver speaks, once it is known.
    dialect: Option<Dialect>,
    /// The connection to an iperf3 server that is for its next test.
    ready: Option<Control>,
}

/// The beginning of a test that is left out.
#[derive(Debug, Clone, Copy, Default)]
struct Omission {
    seconds: u32,
    /// When it ends at the program, about, CLOCK_MONOTONIC.
    ends_ns: u64,
    /// Payload that the system under test had counted then, all flows together, between these.
    counted: Option<(u64, u64)>,
}

/// Where a program listens, and the address of the system under test that packets to it come from.
#[derive(Debug, Clone, Copy)]
struct Place {
    server: SocketAddr,
    sut_address: IpAddr,
}

impl Place {
    /// The place at `server`, to which packets leave by `sut_interface`.
    fn find(sut: &mut Host, server: SocketAddr, sut_interface: &str) -> Result<Self, LabError> {
        let address = server.ip();
        let (interface, source) = expect_reply!(
            sut.connection,
            Request::RouteTo { address },
            Reply::Route { interface, source } => (interface, source)
        )?;
        if interface != sut_interface {
            return Err(LabError::Invalid {
                what: format!(
                    "packets to {address} leave by {interface}, expected {sut_interface}"
                ),
                hint: format!("try: ip route get {address}"),
            });
        }
        let sut_address = source.ok_or_else(|| LabError::Invalid {
            what: format!("the route to {address} has no source address"),
            hint: format!("give {sut_interface} an address of the same family"),
        })?;
        Ok(Self { server, sut_address })
    }
}

/// A test that runs.
#[derive(Debug)]
enum Test {
    Iperf3(Iperf3Test),
    Netperf(NetperfTest),
}

impl PeerServer {
    /// The program at `end`, to which packets leave by `sut_interface`. Fails for a name without an address, and for
    /// addresses that another interface leads to.
    pub(crate) fn find(
        sut: &mut Host,
        end: &Peer,
        sut_interface: &str,
        options: &LabOptions,
    ) -> Result<Self, LabError> {
        let Peer::Program { program, host, port, user } = end else {
            return Err(LabError::Invalid {
                what: format!("{end} is not a netperf or iperf3 server"),
                hint: "for example iperf3:lab2".to_owned(),
            });
        };
        let found = (host.as_str(), *port).to_socket_addrs();
        let found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
        let first = |is: fn(&SocketAddr) -> bool| found.iter().copied().find(is);
        let each = [first(SocketAddr::is_ipv4), first(SocketAddr::is_ipv6)];
        let (mut places, mut refused) = (Vec::new(), None);
        for server in each.into_iter().flatten() {
            match Place::find(sut, server, sut_interface) {
                Ok(place) => places.push(place),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        if places.is_empty() {
            return Err(refused.unwrap_or_else(|| LabError::Invalid {
                what: format!("{end}: host {host} has no address"),
                hint: format!("give its address: {program}:ADDRESS"),
            }));
        }
        Ok(Self {
            name: end.to_string(),
            program: *program,
            port: *port,
            places,
            sut_interface: sut_interface.to_owned(),
            user: user.as_deref().map(read_user).transpose()?,
            stop: Arc::clone(&options.stop),
            tests: Vec::new(),
            counted: Vec::new(),
            told: Vec::new(),
            datagram: None,
            transacts: false,
            ways: None,
            theirs: Vec::new(),
            omission: None,
            dialect: None,
            ready: None,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its address of this family.
    pub(crate) fn address(&self, family: Family) -> Option<IpAddr> {
        self.place(family).ok().map(|place| place.server.ip())
    }

    fn place(&self, family: Family) -> Result<Place, LabError> {
        let of_family = |place: &&Place| place.server.is_ipv4() == family.is_ipv4();
        self.places.iter().find(of_family).copied().ok_or_else(|| {
            let (lacks, has) = match family.is_ipv4() {
                true => ("IPv4", "ipv6"),
                false => ("IPv6", "ipv4"),
            };
            LabError::Invalid {
                what: format!("{} has no address of {lacks} that is reached", self.name),
                hint: format!("use family {has}, or give its address"),
            }
        })
    }

    /// Connects before the first run. A netserver is asked what it speaks; an iperf3 server waits for the test.
    pub(crate) fn reach(&mut self, family: Family) -> Result<(), LabError> {
        let server = self.place(family)?.server;
        let reached = match self.program {
            Program::Iperf3 => {
                Control::connect(server, &self.stop).map(|control| self.ready = Some(control))
            }
            Program::Netperf => {
                NetperfTest::dialect(server, &self.stop).map(|dialect| self.dialect = Some(dialect))
            }
        };
        reached.map_err(|error| match self.failed(error) {
            LabError::Invalid { what, hint } => LabError::CannotMeasure { what, hint: Some(hint) },
            other => other,
        })
    }

    /// Asks for the tests of a run, and lets the system under test connect its flows. Afterwards the peer
    /// is ready for traffic, and sends it if it is the one that does.
    pub(crate) fn connect(
        &mut self,
        sut: &mut Host,
        workload: &Workload,
        spec: &RunSpec,
        client: u32,
        bind: &BTreeMap<u16, CpuSet>,
    ) -> Result<FlowFacts, LabError> {
        self.tests.clear();
        self.told.clear();
        self.datagram = workload.kind.is_udp().then(|| workload.message.largest().0.max(1));
        self.transacts = workload.kind.is_transactional();
        (self.ways, self.theirs, self.omission) = (None, Vec::new(), None);
        let run = spec.warm_up + spec.duration;
        let place = self.place(spec.socket.family)?;
        let datagrams = match self.program {
            Program::Iperf3 => DatagramHabit::Numbered,
            Program::Netperf => DatagramHabit::EmptyAtEnd,
        };
        let dial = |ports: Vec<u16>, first_octets: &[u8], workload: &Workload, beside: bool| {
            Request::Dial(DialSpec {
                datagrams,
                workload: workload.clone(),
                socket: spec.socket.clone(),
                client,
                ends: Ends { client: place.server.ip(), listener: place.sut_address },
                ports,
                first_octets: first_octets.to_vec(),
                seed: spec.seed,
                concurrent: beside,
                bind: bind.clone(),
            })
        };
        match self.program {
            Program::Iperf3 => {
                let asked = parameters(workload, spec, seconds(run + IPERF3_SLACK));
                let (stop, ready) = (&self.stop, &mut self.ready);
                let connect = &mut || match ready.take() {
                    Some(control) => Ok(control),
                    None => Control::connect(place.server, stop),
                };
                let user = self.user.as_ref();
                let with =
                    &mut |_| Parameters { authentication: user.map(User::token), ..asked.clone() };
                let test = Iperf3Test::ask_over(connect, with, BUSY);
                let mut test = test.map_err(|error| self.failed(error))?;
                let ports = vec![place.server.port()];
                let first_octets = match workload.kind.is_udp() {
                    true => &GREETING[..],
                    false => test.first_octets(),
                };
                let dial = dial(ports, first_octets, workload, client > 0);
                let facts = expect_reply!(sut.connection, dial, Reply::Flows(facts) => facts)?;
                test.begin().map_err(|error| self.failed(error))?;
                self.omission = (asked.omit_seconds > 0).then(|| Omission {
                    seconds: asked.omit_seconds,
                    ends_ns: monotonic_ns() + u64::from(asked.omit_seconds) * 1_000_000_000,
                    counted: None,
                });
                self.tests.push(Test::Iperf3(test));
                Ok(facts)
            }
            Program::Netperf => {
                let dialect = match self.dialect {
                    Some(dialect) => dialect,
                    None => NetperfTest::dialect(place.server, &self.stop)
                        .map_err(|error| self.failed(error))?,
                };
                self.dialect = Some(dialect);
                if dialect == Dialect::Short
                    && let Some(test) = not_of_old_servers(workload.kind)
                {
                    return Err(LabError::Invalid {
                        what: format!(
                            "{}: netserver before 2.6 reports no reliable results of {test}",
                            self.name
                        ),
                        hint: "start a newer netserver there, or linkrate serve".to_owned(),
                    });
                }
                let mut ports = Vec::new();
                let mut tests = Vec::new();
                for shape in shapes(workload) {
                    let asked = omni(*shape, workload, spec, seconds(run + NETPERF_SLACK));
                    for _ in 0..workload.connections {
                        let test = NetperfTest::ask_in(dialect, place.server, &asked, &self.stop);
                        let test = test.map_err(|error| self.failed(error))?;
                        ports.push(test.response().data_port);
                        tests.push(Test::Netperf(test));
                    }
                }
                let dial = dial(ports, &[], workload, client > 0);
                let facts = expect_reply!(sut.connection, dial, Reply::Flows(facts) => facts)?;
                self.tests = tests;
                Ok(facts)
            }
        }
    }

    /// When the program's beginning that is left out ends, CLOCK_MONOTONIC; `None` without one.
    pub(crate) fn omits_until_ns(&self) -> Option<u64> {
        self.omission.map(|omission| omission.ends_ns)
    }

    /// Keeps what the system under test had counted of its flows at both sides of that moment. Payload that was not
    /// acknowledged before it is not in the first count.
    pub(crate) fn leave_out(&mut self, before: &[u64], unacknowledged: u64, after: &[u64]) {
        let total = |all: &[u64]| all.iter().copied().fold(0, u64::saturating_add);
        if let Some(omission) = &mut self.omission {
            omission.counted = Some((total(before).saturating_sub(unacknowledged), total(after)));
        }
    }

    /// Ends the tests that their client ends, and exchanges results. All senders have ended. `flows` are those
    /// of this program among the flows of the system under test.
    pub(crate) fn end(&mut self, sut: &mut Host, flows: Range<usize>) -> Result<(), LabError> {
        if self.program != Program::Iperf3 {
            return Ok(());
        }
        let so_far = counted(sut, flows)?;
        let datagram = self.datagram;
        for test in std::mem::take(&mut self.tests) {
            let Test::Iperf3(test) = test else { continue };
            let ways = test.ways();
            let own = own_results(&so_far, ways, datagram);
            let theirs = test.end(&own).map_err(|error| self.failed(error))?;
            self.ways = Some(ways);
            self.told.push(report_of_iperf3(&theirs, self.omission, ways));
            self.theirs = theirs.streams;
        }
        Ok(())
    }

    /// Keeps what the system under test has counted. All flows have ended.
    pub(crate) fn count(&mut self, sut: &mut Host, flows: Range<usize>) -> Result<(), LabError> {
        self.counted = counted(sut, flows)?;
        Ok(())
    }

    /// What the program told of the run, whose connections are closed.
    pub(crate) fn reported(&mut self) -> Result<PeerReport, LabError> {
        for test in std::mem::take(&mut self.tests) {
            let Test::Netperf(test) = test else { continue };
            let results = test.end(RESULTS).map_err(|error| self.failed(error))?;
            self.told.push(PeerReport {
                program: String::new(),
                bytes: results.received_bytes.saturating_add(results.sent_bytes),
                bytes_here: 0,
                edge_bytes: 0,
                omitted_seconds: 0,
                seconds: f64::from(results.seconds),
                cpu_percent: results.cpu_percent.map(f64::from),
                cpu_method: results.cpu_percent.map(|_| cpu_method(results.cpu_method).to_owned()),
                retransmits: results.retransmits.map(u64::from).filter(|_| !self.is_udp()),
                datagrams: None,
            });
        }
        let datagrams = self.is_udp().then(|| self.datagrams());
        let all = std::mem::take(&mut self.told).into_iter().reduce(PeerReport::plus);
        let all_here = self.counted.iter().copied().fold(0, u64::saturating_add);
        let left_out = self.omission.and_then(|omission| omission.counted);
        let left_out = left_out.map_or(0, |(least, most)| least.midpoint(most));
        let bytes_here = all_here.saturating_sub(left_out);
        let name = self.name.clone();
        all.map(|all| PeerReport { program: name, bytes_here, datagrams, ..all }).ok_or_else(|| {
            LabError::Invalid {
                what: format!("{}: no test ran", self.name),
                hint: "run it again".to_owned(),
            }
        })
    }

    fn is_udp(&self) -> bool {
        self.datagram.is_some()
    }

    /// What both ends counted of the datagrams of the run. Of transactions neither way is known alone.
    fn datagrams(&self) -> PeerDatagrams {
        let mut reported = PeerDatagrams::default();
        match self.ways {
            Some(ways) => {
                let parallel = match ways {
                    Directions::Both => self.theirs.len() / 2,
                    _ => self.theirs.len(),
                } as u32;
                for ((index, here), theirs) in (0..).zip(&self.counted).zip(&self.theirs) {
                    let (here, there, jitter) = (*here, theirs.bytes, theirs.jitter_seconds);
                    if ways.sends(Role::Client, index, parallel) {
                        // what was sent behind the beginning, only the numbers of the datagrams tell
                        let lost = theirs.lost.saturating_mul(self.datagram.unwrap_or(0));
                        let sent_bytes = match self.omission {
                            Some(_) => there.saturating_add(lost),
                            None => here,
                        };
                        let way = PeerDirection { sent_bytes, received_bytes: there };
                        reported.from_sut = reported.from_sut.plus(way);
                        reported.jitter_seconds = Some(
                            reported.jitter_seconds.map_or(jitter, |most: f64| most.max(jitter)),
                        );
                    } else {
                        let way = PeerDirection { sent_bytes: there, received_bytes: here };
                        reported.to_sut = reported.to_sut.plus(way);
                    }
                }
            }
            None if !self.transacts => {
                reported.from_sut = PeerDirection {
                    sent_bytes: self.counted.iter().copied().fold(0, u64::saturating_add),
                    received_bytes: self
                        .told
                        .iter()
                        .fold(0, |sum, reported| sum.saturating_add(reported.bytes)),
                };
            }
            None => {}
        }
        reported
    }

    fn failed(&self, error: ClientError) -> LabError {
        match error {
            ClientError::Interrupted => AgentError::Interrupted.into(),
            error => {
                let port = self.port;
                let hint = match (&error, self.program) {
                    (ClientError::Unreachable { .. }, Program::Iperf3) => {
                        format!("start it there: iperf3 -s -p {port}")
                    }
                    (ClientError::Unreachable { .. }, Program::Netperf) => {
                        format!("start it there: netserver -p {port}")
                    }
                    (ClientError::Ended { .. } | ClientError::Denied, _) if self.user.is_some() => {
                        format!(
                            "see what the server says there; one before 3.17 needs {PADDING}=pkcs1"
                        )
                    }
                    _ => format!("see what the server of {} says there", self.program),
                };
                LabError::Invalid { what: format!("{}: {error}", self.name), hint }
            }
        }
    }
}

/// The user that a server asks for.
fn read_user(user: &ProgramUser) -> Result<User, LabError> {
    User::read(&user.name, Path::new(&user.key)).map_err(|error| {
        let hint = match &error {
            UserError::Key { .. } => {
                "give the file of the server's public key: iperf3:USER@HOST,FILE".to_owned()
            }
            UserError::NoPassword(_) => format!("set {PASSWORD}, as for iperf3 itself"),
            UserError::Padding(_) => format!("unset {PADDING}, except for iperf3 before 3.17"),
            UserError::Credentials { .. } => "use another password, or a longer key".to_owned(),
        };
        LabError::Invalid { what: error.to_string(), hint }
    })
}

/// The payload of these flows, as the system under test counts it.
fn counted(sut: &mut Host, flows: Range<usize>) -> Result<Vec<u64>, LabError> {
    let bytes =
        expect_reply!(sut.connection, Request::Progress, Reply::Progress { bytes, .. } => bytes)?;
    match bytes.get(flows) {
        Some(bytes) => Ok(bytes.to_vec()),
        None => Err(sut.connection.unexpected("progress").into()),
    }
}

/// A length in whole seconds, rounded up.
fn seconds(length: Duration) -> u32 {
    u32::try_from(length.as_secs().saturating_add(1)).unwrap_or(u32::MAX)
}

/// The largest size of a message, which a peer that sends has alone.
fn bytes(size: MessageSize) -> u32 {
    u32::try_from(size.largest().0).unwrap_or(u32::MAX)
}

fn buffer(spec: &RunSpec) -> Option<u32> {
    spec.socket.buffer.and_then(|size| u32::try_from(size.0).ok())
}

fn parameters(workload: &Workload, spec: &RunSpec, seconds: u32) -> Parameters {
    let udp = workload.kind.is_udp();
    // it leaves out whole seconds. Datagrams that it sends are counted whole: their loss takes the counts of both ends,
    // and these leave out different ones
    let omits = !udp || workload.direction == Direction::Transmit;
    let omit = if omits { spec.warm_up.as_secs().min(MAX_OMIT) } else { 0 };
    Parameters {
        transport: if udp { Transport::Udp } else { Transport::Tcp },
        seconds,
        omit_seconds: omit as u32,
        parallel: workload.connections,
        ways: match workload.direction {
            Direction::Transmit => Directions::Forward,
            Direction::Receive => Directions::Reverse,
            Direction::Bidirectional => Directions::Both,
        },
        window: buffer(spec),
        block: bytes(workload.message).min(1 << 20),
        nodelay: spec.socket.nodelay,
        congestion: (!udp).then(|| spec.socket.congestion.clone()),
        client_version: Some("3.1+".to_owned()),
        ..Parameters::default()
    }
}

fn shapes(workload: &Workload) -> &'static [Shape] {
    match (workload.kind.is_transactional(), workload.direction) {
        _ if workload.kind == Protocol::ConnectRequestResponse => &[Shape::ConnectRequestResponse],
        (true, _) => &[Shape::RequestResponse],
        (false, Direction::Transmit) => &[Shape::Stream],
        (false, Direction::Receive) => &[Shape::Maerts],
        (false, Direction::Bidirectional) => &[Shape::Stream, Shape::Maerts],
    }
}

fn omni(shape: Shape, workload: &Workload, spec: &RunSpec, seconds: u32) -> OmniRequest {
    let transacts = matches!(shape, Shape::RequestResponse | Shape::ConnectRequestResponse);
    OmniRequest {
        send_buffer: buffer(spec),
        receive_buffer: buffer(spec),
        send_size: (shape == Shape::Maerts).then(|| bytes(workload.message)),
        // the octets of a call, by which counts of datagrams become octets
        receive_size: (shape == Shape::Stream && workload.kind.is_udp())
            .then(|| bytes(workload.message)),
        request_size: if transacts { bytes(workload.request) } else { 0 },
        response_size: if transacts { bytes(workload.response) } else { 0 },
        nodelay: spec.socket.nodelay,
        measures_cpu: true,
        ..OmniRequest::of(shape, workload.kind.is_udp(), seconds.cast_signed())
    }
}

/// What the server is told of the client's end. Flows that the system under test sends come first.
/// `datagram` has the octets of a datagram where they
/// have some; how many are missing here is not looked at.
fn own_results(bytes: &[u64], ways: Directions, datagram: Option<u64>) -> Results {
    let parallel = match ways {
        Directions::Both => bytes.len() / 2,
        _ => bytes.len(),
    };
    let stream = |(index, bytes): (u32, &u64)| StreamResult {
        id: stream_id(index),
        bytes: *bytes,
        retransmits: ways.sends(Role::Client, index, parallel as u32).then_some(0),
        jitter_seconds: 0.0,
        lost: 0,
        omitted_lost: 0,
        packets: datagram.map_or(0, |octets| bytes / octets),
        omitted_packets: 0,
        seconds: 0.0,
    };
    Results {
        cpu_percent: [0.0; 3],
        knows_retransmits: None,
        congestion: None,
        streams: (0..).zip(bytes).map(stream).collect(),
        server_output: None,
    }
}

fn report_of_iperf3(theirs: &Results, omission: Option<Omission>, ways: Directions) -> PeerReport {
    let streams = &theirs.streams;
    let [cpu, ..] = theirs.cpu_percent;
    // a document without the field reads as zero, which costs no server its payload
    let cpu = Some(cpu).filter(|percent| *percent > 0.0);
    PeerReport {
        program: String::new(),
        bytes: streams.iter().map(|stream| stream.bytes).fold(0, u64::saturating_add),
        bytes_here: 0,
        edge_bytes: omission.and_then(|omission| omission.counted).map_or(0, |(least, most)| {
            // a server counts what it has written, of which the rest waits in its socket
            let senders = match ways {
                Directions::Forward => 0,
                Directions::Reverse => streams.len() as u64,
                Directions::Both => streams.len() as u64 / 2,
            };
            most.abs_diff(least).saturating_add(senders.saturating_mul(MAX_QUEUED))
        }),
        omitted_seconds: omission.map_or(0, |omission| omission.seconds.into()),
        seconds: streams.iter().map(|stream| stream.seconds).fold(0.0, f64::max),
        cpu_percent: cpu,
        cpu_method: cpu.map(|_| "CPU time of the process, of one CPU".to_owned()),
        retransmits: streams
            .iter()
            .filter_map(|stream| stream.retransmits)
            .reduce(u64::saturating_add),
        datagrams: None,
    }
}

/// The test of netperf for such a workload, if netserver before 2.6 fails at it: with `UDP_RR`, 2.4.3 told bytes
/// that had not been sent; with `TCP_CRR`, 2.5.0 does not end.
fn not_of_old_servers(kind: Protocol) -> Option<&'static str> {
    match kind {
        Protocol::UdpRequestResponse => Some("UDP_RR"),
        Protocol::ConnectRequestResponse => Some("TCP_CRR"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_tells_no_cpu_use_has_not_used_none() {
        let reported = |total| {
            let results = Results {
                cpu_percent: [total, 0.0, 0.0],
                knows_retransmits: None,
                congestion: None,
                streams: Vec::new(),
                server_output: None,
            };
            let reported = report_of_iperf3(&results, None, Directions::Forward);
            (reported.cpu_percent, reported.cpu_method.is_some())
        };
        assert_eq!(reported(0.0), (None, false));
        assert_eq!(reported(12.5), (Some(12.5), true));
    }
}
