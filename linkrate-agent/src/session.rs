//! The flows of one run at this end, from listening or connecting until the last close.

use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use linkrate_sys::socket;
use linkrate_terms::{Direction, MessageSize, Protocol, SocketKnobs, Workload};

use crate::flow::preamble::{ClientRole, PREAMBLE_BYTES, Preamble};
use crate::flow::sizes::{ConnectionSizes, Sizes};
use crate::flow::transact::Exchange;
use crate::flow::{Control, Flow, datagram, latency_histogram, stream, transact};
use crate::protocol::{ConnectSpec, Finished, FlowFacts, ListenSpec};
use crate::sockets;

/// How long flows may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);

/// How long an accepted connection may take to send its preamble.
const GREETING: Duration = Duration::from_secs(2);

/// One run's flows.
#[derive(Debug)]
pub struct Session {
    /// Gate and signals of the flows.
    pub control: Arc<Control>,
    /// The flows.
    pub flows: Vec<Flow>,
    facts: FlowFacts,
    expected: usize,
    listeners: Vec<Arc<OwnedFd>>,
    arrivals: Option<Receiver<io::Result<Connection>>>,
}

/// A connection after its preamble, from which both ends create a flow.
struct Connection {
    preamble: Preamble,
    socket: OwnedFd,
}

/// Parameters of all flows of a run.
#[derive(Debug, Clone, Copy)]
struct Run {
    seed: u64,
    shared_cpus: bool,
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
            listeners: Vec::new(),
            arrivals: None,
        }
    }

    /// Prepares the system under test. Returns the session, and the ports that clients connect to.
    ///
    /// # Errors
    /// A refused socket option, or an error of the socket.
    pub fn listen(spec: &ListenSpec) -> io::Result<(Self, Vec<u16>)> {
        let expected = spec.workload.flows(spec.clients) as usize;
        let mut session = Self::new(expected);
        if spec.workload.kind.is_udp() {
            let ports = session.listen_udp(spec)?;
            return Ok((session, ports));
        }
        // each transaction is a connection, so steering by port would not help
        let count = match spec.workload.kind {
            Protocol::ConnectRequestResponse => 1,
            _ => spec.listeners.max(1),
        };
        let mut ports = Vec::new();
        for _ in 0..count {
            let listener = Arc::new(sockets::tcp_listener(&spec.socket, expected as u32)?);
            ports.push(socket::local_port(&listener)?);
            session.listeners.push(listener);
        }
        if spec.workload.kind == Protocol::ConnectRequestResponse {
            let listener = Arc::clone(&session.listeners[0]);
            sockets::add_facts(&mut session.facts, &listener, false)?;
            for number in 0..expected {
                let listener = Arc::clone(&listener);
                let sizes = connection_sizes(&spec.workload, spec.seed);
                let name = format!("respond {number}");
                session.flows.push(Flow::spawn(
                    name,
                    &session.control,
                    None,
                    false,
                    move |flow| transact::accept_and_respond(flow, &listener, sizes),
                )?);
            }
            return Ok((session, ports));
        }
        let (arrived, arrivals) = channel();
        for listener in &session.listeners {
            let (listener, arrived, nonce) = (Arc::clone(listener), arrived.clone(), spec.nonce);
            std::thread::Builder::new().name("accept".to_owned()).spawn(move || {
                // until the session ends, which shuts the listener down
                loop {
                    let socket = match socket::accept(&listener) {
                        Ok(socket) => socket,
                        Err(error) => {
                            // a closed channel means the session has ended
                            let _ = arrived.send(Err(error));
                            return;
                        }
                    };
                    // a connection without a valid preamble does not belong to this run
                    let Ok(connection) = greet(socket, nonce) else { continue };
                    if arrived.send(Ok(connection)).is_err() {
                        return;
                    }
                }
            })?;
        }
        session.arrivals = Some(arrivals);
        Ok((session, ports))
    }

    fn listen_udp(&mut self, spec: &ListenSpec) -> io::Result<Vec<u16>> {
        let (arrived, arrivals) = channel();
        let mut ports = Vec::with_capacity(self.expected);
        for number in 0..self.expected {
            let socket = sockets::udp(&spec.socket, &spec.workload)?;
            ports.push(socket::local_port(&socket)?);
            let (arrived, nonce) = (arrived.clone(), spec.nonce);
            std::thread::Builder::new().name(format!("await {number}")).spawn(move || {
                let arrival = datagram::await_introduction(&socket, nonce)
                    .map(|preamble| Connection { preamble, socket });
                // a closed channel means the session has ended
                let _ = arrived.send(arrival);
            })?;
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
        let run = Run { seed: spec.seed, shared_cpus: spec.shared_cpus };
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
    /// A refused socket option, or an error of the connection.
    pub fn connect(spec: &ConnectSpec) -> io::Result<Self> {
        let workload = &spec.workload;
        let per_client = workload.flows(1) as usize;
        let run = Run { seed: spec.seed, shared_cpus: spec.shared_cpus };
        let mut session = Self::new(per_client);
        let port = |index: usize| {
            spec.ports.get(index).copied().ok_or_else(|| {
                let message = format!("flow {index} has no port among {}", spec.ports.len());
                io::Error::new(io::ErrorKind::InvalidInput, message)
            })
        };
        for (role_number, role) in client_roles(workload).iter().enumerate() {
            for number in 0..workload.connections {
                let preamble = Preamble {
                    nonce: spec.nonce,
                    client: spec.client as u16,
                    flow: number as u16,
                    role: *role,
                };
                if workload.kind == Protocol::ConnectRequestResponse {
                    let far_end = SocketAddrV4::new(spec.address, port(0)?);
                    session.add_connecting_flow(spec, far_end, number)?;
                } else if workload.kind.is_udp() {
                    let index = spec.client as usize * per_client
                        + role_number * workload.connections as usize
                        + number as usize;
                    let socket = sockets::udp(&spec.socket, workload)?;
                    socket::connect(&socket, SocketAddrV4::new(spec.address, port(index)?))?;
                    datagram::introduce(&socket, preamble)?;
                    let connection = Connection { preamble, socket };
                    session.add_flow(connection, workload, run, true)?;
                } else {
                    let socket = sockets::tcp(&spec.socket)?;
                    let flow = spec.client as usize * per_client + session.flows.len();
                    let index = flow % spec.ports.len().max(1);
                    socket::connect(&socket, SocketAddrV4::new(spec.address, port(index)?))?;
                    let mut connection = TcpStream::from(socket);
                    connection.write_all(&preamble.to_bytes())?;
                    let connection = Connection { preamble, socket: connection.into() };
                    session.add_flow(connection, workload, run, true)?;
                }
            }
        }
        Ok(session)
    }

    /// Facts of the sockets of all flows.
    pub fn facts(&self) -> FlowFacts {
        self.facts.clone()
    }

    fn add_connecting_flow(
        &mut self,
        spec: &ConnectSpec,
        far_end: SocketAddrV4,
        number: u32,
    ) -> io::Result<()> {
        let knobs: SocketKnobs = spec.socket.clone();
        sockets::add_facts(&mut self.facts, &sockets::tcp(&knobs)?, false)?;
        let sizes = connection_sizes(&spec.workload, spec.seed);
        let name = format!("request {number}");
        self.flows.push(Flow::spawn(name, &self.control, None, false, move |flow| {
            transact::connect_and_request(flow, far_end, &knobs, sizes)
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

    /// The reason why a flow broke, if one ended before it was told to.
    pub fn broken(&self) -> Option<String> {
        let ended = self.flows.iter().find(|flow| flow.has_ended())?;
        Some(format!("flow \"{}\" ended before the window closed", ended.name))
    }

    /// Ends all flows and closes their sockets.
    pub fn finish(self) -> Finished {
        self.control.stop();
        for socket in self.flows.iter().filter_map(|flow| flow.socket.as_ref()) {
            socket::shut_down(socket);
        }
        // wake the threads that accept connections
        for listener in &self.listeners {
            socket::shut_down(listener);
        }
        let mut latency = latency_histogram();
        let mut broken = None;
        for flow in self.flows {
            let (failure, recorded) = flow.join();
            broken = broken.or(failure);
            // all histograms have the same bounds
            let _ = latency.add(recorded);
        }
        let latency =
            latency.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()));
        Finished { latency: latency.collect(), broken }
    }
}

/// Reads the preamble of an accepted connection.
fn greet(socket: OwnedFd, nonce: u64) -> io::Result<Connection> {
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(GREETING))?;
    let mut bytes = [0; PREAMBLE_BYTES];
    stream.read_exact(&mut bytes)?;
    stream.set_read_timeout(None)?;
    let preamble = Preamble::from_bytes(&bytes, nonce)?;
    Ok(Connection { preamble, socket: stream.into() })
}
