//! The flows of one run at this end, from listening or connecting until the last close.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::socket;
use linkrate_terms::measurement::MOST_FLOWS;
use linkrate_terms::{Direction, MessageSize, Protocol, Workload};

use crate::flow::arrivals::{Connection, accept_all};
use crate::flow::preamble::{ClientRole, Preamble};
use crate::flow::record::{Record, RecordReport, RecordSpec};
use crate::flow::sizes::{ConnectionSizes, Sizes};
use crate::flow::strangers::Guard;
use crate::flow::transact::Exchange;
use crate::flow::verified::{self, Pattern};
use crate::flow::{Control, Flow, GLANCE, datagram, latency_histogram, single, stream, transact};
use crate::protocol::{ConnectSpec, Ends, Finished, FlowFacts, FlowPorts, ListenSpec};
use crate::sockets;

/// How long flows may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);

/// How long flows may take to end once their sockets are shut down.
const END: Duration = Duration::from_secs(5);

/// One run's flows.
#[derive(Debug)]
pub struct Session {
    /// Gate and signals of the flows.
    pub control: Arc<Control>,
    /// The flows.
    pub flows: Vec<Flow>,
    facts: FlowFacts,
    expected: usize,
    guard: Guard,
    arrivals: Option<Receiver<io::Result<Connection>>>,
    /// What verified streams carry; computed with the first of them.
    pattern: Option<Arc<Pattern>>,
}

/// Parameters of all flows of a run.
#[derive(Debug, Clone, Copy)]
struct Run {
    seed: u64,
    shared_cpus: bool,
    record: Option<RecordSpec>,
}

/// One end of a verified stream.
enum Verified {
    Sends(Sizes),
    Receives(RecordSpec, stream::Taking),
}

/// The roles of clients in a workload; bidirectional streams have one connection for each
/// direction.
fn client_roles(workload: &Workload) -> &'static [ClientRole] {
    match (workload.kind.is_transactional(), workload.direction) {
        (true, _) => &[ClientRole::Requests],
        (false, Direction::Transmit) => &[ClientRole::Receives],
        (false, Direction::Receive) => &[ClientRole::Sends],
        (false, Direction::Bidirectional) => &[ClientRole::Receives, ClientRole::Sends],
    }
}

fn exchange(workload: &Workload, seed: u64) -> Exchange {
    Exchange {
        requests: Sizes::new(workload.request, seed),
        responses: Sizes::new(workload.response, !seed),
    }
}

fn connection_sizes(workload: &Workload, seed: u64) -> ConnectionSizes {
    ConnectionSizes { requests: workload.request, responses: workload.response, seed }
}

impl Session {
    fn new(expected: usize) -> Self {
        Self {
            control: Arc::new(Control::default()),
            flows: Vec::new(),
            facts: FlowFacts::default(),
            expected,
            guard: Guard::default(),
            arrivals: None,
            pattern: None,
        }
    }

    /// Prepares the system under test. Returns the session, and the ports for each client.
    ///
    /// # Errors
    /// A refused socket option, or an error of the socket.
    pub fn listen(spec: &ListenSpec) -> io::Result<(Self, Vec<Vec<u16>>)> {
        let expected = spec.workload.flows(spec.clients.len() as u32) as usize;
        let mut session = Self::new(expected);
        session.guard = Guard::new(spec.nonce, spec.clients.iter().map(|ends| ends.client));
        let ports = match spec.workload.kind {
            kind if kind.is_udp() => session.listen_udp(spec)?,
            Protocol::ConnectRequestResponse => session.listen_for_single(spec)?,
            _ => session.listen_tcp(spec)?,
        };
        Ok((session, ports))
    }

    /// One listener for each address, and one responder for each flow.
    fn listen_for_single(&mut self, spec: &ListenSpec) -> io::Result<Vec<Vec<u16>>> {
        // each transaction is a connection, so steering by port would not help
        let listeners = listeners(spec, 1, self.expected)?;
        let sizes = connection_sizes(&spec.workload, spec.seed);
        let per_client = spec.workload.flows(1) as usize;
        for number in 0..self.expected {
            let address = spec.clients[number / per_client].listener;
            let listener = Arc::clone(&listeners[&address][0]);
            if self.flows.is_empty() {
                add_timeouts(&listeners)?;
                sockets::add_facts(&mut self.facts, &listener, false)?;
            }
            let (name, guard) = (format!("respond {number}"), self.guard.clone());
            self.flows.push(Flow::spawn(name, &self.control, None, false, move |flow| {
                single::accept_and_respond(flow, &listener, sizes, &guard)
            })?);
        }
        ports_of_clients(spec, &listeners)
    }

    /// Listeners on the requested number of ports of each address, and a thread that accepts on all.
    fn listen_tcp(&mut self, spec: &ListenSpec) -> io::Result<Vec<Vec<u16>>> {
        let listeners = listeners(spec, spec.listeners.max(1), self.expected)?;
        let ports = ports_of_clients(spec, &listeners)?;
        let all: Vec<Arc<OwnedFd>> = listeners.into_values().flatten().collect();
        for listener in &all {
            socket::set_nonblocking(listener, true)?;
        }
        let (arrived, arrivals) = channel();
        let (guard, control, expected) =
            (self.guard.clone(), Arc::clone(&self.control), self.expected);
        std::thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept_all(&all, expected, &guard, &control, &arrived))?;
        self.arrivals = Some(arrivals);
        Ok(ports)
    }

    /// A socket and a thread for each flow.
    fn listen_udp(&mut self, spec: &ListenSpec) -> io::Result<Vec<Vec<u16>>> {
        let (arrived, arrivals) = channel();
        let per_client = spec.workload.flows(1) as usize;
        let mut ports = Vec::with_capacity(spec.clients.len());
        for ends in &spec.clients {
            let mut of_client = Vec::with_capacity(per_client);
            for number in 0..per_client {
                let socket = sockets::udp(&spec.socket, &spec.workload, ends.listener)?;
                of_client.push(socket::local_port(&socket)?);
                let (arrived, control) = (arrived.clone(), Arc::clone(&self.control));
                let guard = Guard { clients: Arc::new([ends.client].into()), ..self.guard.clone() };
                std::thread::Builder::new().name(format!("await {number}")).spawn(move || {
                    let arrival = datagram::await_introduction(&socket, &guard, &control)
                        .map(|preamble| Connection { preamble, socket });
                    // a closed channel means that the session has ended
                    let _ = arrived.send(arrival);
                })?;
            }
            ports.push(of_client);
        }
        self.arrivals = Some(arrivals);
        Ok(ports)
    }

    /// Waits until every expected flow has arrived and has its thread.
    ///
    /// # Errors
    /// `TimedOut` with the number of flows that arrived, or the error of a connection.
    pub fn await_flows(&mut self, spec: &ListenSpec) -> io::Result<FlowFacts> {
        let Some(arrivals) = self.arrivals.take() else { return Ok(self.facts.clone()) };
        let run = Run { seed: spec.seed, shared_cpus: spec.shared_cpus, record: spec.record };
        let deadline = Instant::now() + ARRIVAL;
        while self.flows.len() < self.expected {
            let patience = deadline.saturating_duration_since(Instant::now());
            let arrival = match arrivals.recv_timeout(patience) {
                Ok(arrival) => arrival?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let message =
                        format!("{} of {} flows arrived", self.flows.len(), self.expected);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
            };
            self.add_flow(arrival, &spec.workload, run, false)?;
        }
        Ok(self.facts.clone())
    }

    /// Connects all flows of one client.
    ///
    /// # Errors
    /// A refused socket option, or an error of the connection; `TimedOut` when not all connect in
    /// ten seconds.
    pub fn connect(spec: &ConnectSpec) -> io::Result<Self> {
        let workload = &spec.workload;
        let run = Run { seed: spec.seed, shared_cpus: spec.shared_cpus, record: spec.record };
        let mut session = Self::new(workload.flows(1) as usize);
        let deadline = Instant::now() + ARRIVAL;
        let from = source(spec);
        for role in client_roles(workload) {
            for number in 0..workload.connections {
                let preamble = Preamble {
                    nonce: spec.nonce,
                    client: spec.client as u16,
                    flow: number as u16,
                    role: *role,
                };
                let far_end = SocketAddrV4::new(spec.ends.listener, session.next_port(spec)?);
                if workload.kind == Protocol::ConnectRequestResponse {
                    session.add_connecting_flow(spec, from, far_end, number)?;
                    continue;
                }
                let socket = if workload.kind.is_udp() {
                    let socket = sockets::udp(&spec.socket, workload, spec.ends.client)?;
                    socket::connect(&socket, far_end)?;
                    datagram::introduce(&socket, preamble)?;
                    socket
                } else {
                    let socket = sockets::tcp(&spec.socket)?;
                    if let Some(from) = from {
                        socket::bind_address(&socket, from)?;
                    }
                    let left = deadline.saturating_duration_since(Instant::now());
                    socket::connect_within(&socket, far_end, left)?;
                    let mut connection = TcpStream::from(socket);
                    connection.write_all(&preamble.to_bytes())?;
                    connection.into()
                };
                session.keep_ports(&socket, far_end, *role)?;
                session.add_flow(Connection { preamble, socket }, workload, run, true)?;
            }
        }
        Ok(session)
    }

    /// Keeps the ports of a flow for those who ask which of an aggregate's ports it takes.
    fn keep_ports(
        &mut self,
        socket: &OwnedFd,
        far_end: SocketAddrV4,
        role: ClientRole,
    ) -> io::Result<()> {
        if self.facts.ports.len() < MOST_FLOWS {
            let direction = match role {
                ClientRole::Requests => Direction::Bidirectional,
                ClientRole::Receives => Direction::Transmit,
                ClientRole::Sends => Direction::Receive,
            };
            let client = socket::local_port(socket)?;
            self.facts.ports.push(FlowPorts { listener: far_end.port(), client, direction });
        }
        Ok(())
    }

    /// The port for the next flow of a client: for UDP its own; for TCP the flows of all clients are
    /// spread over the ports.
    fn next_port(&self, spec: &ConnectSpec) -> io::Result<u16> {
        let number = self.flows.len();
        let index = if spec.workload.kind.is_udp() {
            number
        } else {
            (spec.client as usize * self.expected + number) % spec.ports.len().max(1)
        };
        spec.ports.get(index).copied().ok_or_else(|| {
            let message = format!("flow {number} has no port among {}", spec.ports.len());
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })
    }

    /// Facts of the sockets of all flows.
    pub fn facts(&self) -> FlowFacts {
        self.facts.clone()
    }

    fn add_connecting_flow(
        &mut self,
        spec: &ConnectSpec,
        from: Option<Ipv4Addr>,
        far_end: SocketAddrV4,
        number: u32,
    ) -> io::Result<()> {
        let knobs = spec.socket.clone();
        sockets::add_facts(&mut self.facts, &sockets::tcp(&knobs)?, false)?;
        let sizes = connection_sizes(&spec.workload, spec.seed);
        let target = single::Target { far_end, from, knobs, nonce: spec.nonce };
        let name = format!("request {number}");
        self.flows.push(Flow::spawn(name, &self.control, None, false, move |flow| {
            single::connect_and_request(flow, &target, sizes)
        })?);
        Ok(())
    }

    /// Creates the flow of a connection. `client` tells which end this is.
    fn add_flow(
        &mut self,
        connection: Connection,
        workload: &Workload,
        run: Run,
        client: bool,
    ) -> io::Result<()> {
        let shared_cpus = run.shared_cpus;
        let Connection { preamble, socket } = connection;
        let udp = workload.kind.is_udp();
        sockets::add_facts(&mut self.facts, &socket, udp)?;
        let socket = Arc::new(socket);
        let shared = Some(Arc::clone(&socket));
        let seed = preamble.size_seed(run.seed);
        let number = format!("{}.{}", preamble.client, preamble.flow);
        let (control, workload) = (&self.control, workload.clone());
        let sends = match preamble.role {
            ClientRole::Requests => false,
            ClientRole::Sends => client,
            ClientRole::Receives => !client,
        };
        let sizes = |size: MessageSize| Sizes::new(size, seed);
        if let Some(record) = run.record.filter(|_| workload.kind == Protocol::Stream) {
            let role = match sends {
                true => Verified::Sends(sizes(workload.message)),
                false => Verified::Receives(record, stream::Taking::of(client, shared_cpus)),
            };
            let flow = self.verified_flow(&number, socket, role)?;
            self.flows.push(flow);
            return Ok(());
        }
        let flow = match (preamble.role, udp) {
            (ClientRole::Requests, false) if client => {
                let exchange = exchange(&workload, seed);
                Flow::spawn(format!("request {number}"), control, shared, sends, move |flow| {
                    transact::request(flow, &socket, exchange, workload.burst)
                })
            }
            (ClientRole::Requests, false) => {
                let exchange = exchange(&workload, seed);
                Flow::spawn(format!("respond {number}"), control, shared, sends, move |flow| {
                    transact::respond(flow, &socket, exchange)
                })
            }
            (ClientRole::Requests, true) if client => {
                let exchange = exchange(&workload, seed);
                Flow::spawn(format!("request {number}"), control, shared, sends, move |flow| {
                    datagram::request(flow, &socket, exchange, workload.burst)
                })
            }
            (ClientRole::Requests, true) => {
                let responses = exchange(&workload, seed).responses;
                Flow::spawn(format!("respond {number}"), control, shared, sends, move |flow| {
                    datagram::respond(flow, &socket, responses)
                })
            }
            (_, udp) if sends => {
                let sizes = sizes(workload.message);
                Flow::spawn(format!("send {number}"), control, shared, sends, move |flow| {
                    if udp {
                        datagram::transmit(flow, &socket, sizes)
                    } else {
                        stream::transmit(flow, socket, workload.send_path, sizes, shared_cpus)
                    }
                })
            }
            (_, udp) => {
                let taking = stream::Taking::of(client, shared_cpus);
                Flow::spawn(format!("receive {number}"), control, shared, sends, move |flow| {
                    if udp {
                        datagram::receive(flow, &socket)
                    } else {
                        stream::receive(flow, &socket, workload.receive_path, taking)
                    }
                })
            }
        };
        self.flows.push(flow?);
        Ok(())
    }

    /// Creates a flow whose payload is verified at its receiver.
    fn verified_flow(
        &mut self,
        number: &str,
        socket: Arc<OwnedFd>,
        role: Verified,
    ) -> io::Result<Flow> {
        let pattern = Arc::clone(self.pattern.get_or_insert_with(Arc::default));
        let (control, shared) = (&self.control, Some(Arc::clone(&socket)));
        match role {
            Verified::Sends(sizes) => {
                Flow::spawn(format!("send {number}"), control, shared, true, move |flow| {
                    verified::transmit(flow, &socket, &pattern, sizes)
                })
            }
            Verified::Receives(spec, taking) => {
                let record = Arc::new(Record::new(spec));
                let kept = Some(Arc::clone(&record));
                let name = format!("receive {number}");
                let mut flow = Flow::spawn(name, control, shared, false, move |flow| {
                    verified::receive(flow, &socket, &pattern, &record, taking)
                })?;
                flow.record = kept;
                Ok(flow)
            }
        }
    }

    /// What the records of the flows say of a window that closed at `closes_ns`.
    pub fn record(&self, closes_ns: u64) -> RecordReport {
        let mut report = RecordReport::default();
        for flow in &self.flows {
            let Some(record) = &flow.record else { continue };
            record.add_to(&mut report.received);
            report.slot_us = record.slot_us();
            report.flows.push(record.report(&flow.name, &self.control.moments, closes_ns));
        }
        report
    }

    /// The reason why a flow broke, if one ended before it was told to.
    pub fn broken(&self) -> Option<String> {
        let ended = self.flows.iter().find(|flow| flow.has_ended())?;
        Some(format!("flow \"{}\" ended before the window closed", ended.name))
    }

    /// Payload bytes that each flow has sent and received so far.
    pub fn progress(&self) -> Vec<u64> {
        let flows = self.flows.iter();
        flows.map(|flow| flow.counters.sent().saturating_add(flow.counters.received())).collect()
    }

    /// Ends all flows and closes their sockets. A flow that does not end is broken, and left alone.
    pub fn finish(self) -> Finished {
        self.control.stop();
        for socket in self.flows.iter().filter_map(|flow| flow.socket.as_ref()) {
            socket::shut_down(socket);
        }
        let deadline = Instant::now() + END;
        let mut latency = latency_histogram();
        let mut broken = None;
        for flow in self.flows {
            let (failure, recorded) = flow.join(deadline);
            broken = broken.or(failure);
            // all histograms have the same bounds
            let _ = latency.add(recorded);
        }
        let latency =
            latency.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()));
        let strangers = self.guard.strangers.report();
        Finished { latency: latency.collect(), broken, strangers }
    }
}

/// Listeners by address of the listening host, `count` on each.
type Listeners = BTreeMap<Ipv4Addr, Vec<Arc<OwnedFd>>>;

fn listeners(spec: &ListenSpec, count: u32, expected: usize) -> io::Result<Listeners> {
    let mut all = Listeners::new();
    for address in spec.clients.iter().map(|ends| ends.listener) {
        if all.contains_key(&address) {
            continue;
        }
        let listen =
            |_| sockets::tcp_listener(&spec.socket, address, expected as u32).map(Arc::new);
        all.insert(address, (0..count).map(listen).collect::<Result<_, _>>()?);
    }
    Ok(all)
}

/// The ports of the listeners for each client.
fn ports_of_clients(spec: &ListenSpec, listeners: &Listeners) -> io::Result<Vec<Vec<u16>>> {
    let ports = |ends: &Ends| listeners[&ends.listener].iter().map(socket::local_port).collect();
    spec.clients.iter().map(ports).collect()
}

/// Bounds how long an accept, or an operation of an accepted connection, waits.
fn add_timeouts(listeners: &Listeners) -> io::Result<()> {
    for listener in listeners.values().flatten() {
        socket::set_receive_timeout(listener, GLANCE)?;
        socket::set_send_timeout(listener, Some(GLANCE))?;
    }
    Ok(())
}

/// The client's address, if routes would choose another one.
fn source(spec: &ConnectSpec) -> Option<Ipv4Addr> {
    let route = RouteSocket::open().and_then(|mut route| route.route_to(spec.ends.listener));
    let chosen = route.ok().and_then(|(_, source)| source);
    (chosen != Some(spec.ends.client)).then_some(spec.ends.client)
}
