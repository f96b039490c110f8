//! The flows of one run at this end, from listening or connecting until the last close.

mod connect;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use linkrate_model::measurement::MAX_REPORTED_FLOWS;
use linkrate_model::workload::MAX_FLOWS;
use linkrate_model::{CpuSet, Direction, MessageSize, Protocol, ReceivePath, Workload};
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::{sched, socket};

use crate::flow::accept::{Connection, accept_all};
use crate::flow::backup::drive::Drive;
use crate::flow::backup::tree::Tree;
use crate::flow::outstanding::Pace;
use crate::flow::preamble::{ClientRole, Preamble};
use crate::flow::record::Record;
use crate::flow::sizes::{ConnectionSizes, Sizes};
use crate::flow::transact::Exchange;
use crate::flow::unexpected_peers::Guard;
use crate::flow::verified::{self, Pattern};
use crate::flow::{
    Control, Flow, FlowContext, POLL_INTERVAL, Recorded, backup, datagram, latency_histogram,
    send_path, single, stream, transact, transfer,
};
use crate::sockets;
use linkrate_protocol::{
    ConnectSpec, Ends, Finished, FlowFacts, FlowPorts, Latencies, ListenSpec, RecordReport,
    RecordSpec,
};

/// How long flows may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);

/// How long flows may take to end once their sockets are shut down.
const END: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Session {
    pub control: Arc<Control>,
    pub flows: Vec<Flow>,
    facts: FlowFacts,
    expected: usize,
    guard: Guard,
    incoming: Option<AcceptChannel>,
    /// CPUs that the flows of a client are bound to, by its number.
    bind: BTreeMap<u16, CpuSet>,
    /// What flows that arrive do, by the number of their workload in a mix.
    workloads: BTreeMap<u8, Workload>,
    /// The files of backups, by the number of their workload.
    trees: BTreeMap<u8, Arc<Tree>>,
    /// The tape drives of backups, by the number of their workload.
    drives: BTreeMap<u8, Arc<Drive>>,
    /// What verified streams carry; computed with the first of them.
    pattern: Option<Arc<Pattern>>,
}

/// The connections that arrive, and the end at which listeners hand them over.
type AcceptChannel = (Sender<io::Result<Connection>>, Receiver<io::Result<Connection>>);

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
    pub fn new() -> Self {
        Self {
            control: Arc::new(Control::default()),
            flows: Vec::new(),
            facts: FlowFacts::default(),
            expected: 0,
            guard: Guard::default(),
            incoming: None,
            bind: BTreeMap::new(),
            workloads: BTreeMap::new(),
            trees: BTreeMap::new(),
            drives: BTreeMap::new(),
            pattern: None,
        }
    }

    /// Prepares the system under test for one workload. Returns the ports for each client.
    /// Fails at a refused socket option, or with more flows than a run may have.
    pub fn listen(&mut self, spec: &ListenSpec) -> io::Result<Vec<Vec<u16>>> {
        let expected = self.expect(spec.workload.flows(spec.clients.len() as u32))?;
        let clients = spec.clients.iter().map(|ends| ends.client).collect();
        let unexpected_peers = Arc::clone(&self.guard.unexpected_peers);
        self.guard = Guard { nonce: spec.nonce, clients: Arc::new(clients), unexpected_peers };
        self.workloads.insert(spec.part, spec.workload.clone());
        self.bind.extend(spec.bind.clone());
        match spec.workload.kind {
            kind if kind.is_udp() => self.listen_udp(spec),
            Protocol::ConnectRequestResponse => self.listen_for_single(spec, expected),
            _ => self.listen_tcp(spec, expected),
        }
    }

    /// Counts flows that are to come, and returns their number.
    fn expect(&mut self, flows: u64) -> io::Result<usize> {
        let all = flows.saturating_add(self.expected as u64);
        if all > MAX_FLOWS {
            let message = format!("{all} flows, at most {MAX_FLOWS} are possible");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.expected = all as usize;
        Ok(flows as usize)
    }

    /// Where listeners hand over what arrives.
    fn arrived(&mut self) -> Sender<io::Result<Connection>> {
        self.incoming.get_or_insert_with(channel).0.clone()
    }

    /// One listener for each address, and one responder for each flow.
    fn listen_for_single(
        &mut self,
        spec: &ListenSpec,
        expected: usize,
    ) -> io::Result<Vec<Vec<u16>>> {
        // each transaction is a connection, so steering by port would not help
        let listeners = listeners(spec, 1, expected)?;
        let sizes = connection_sizes(&spec.workload, spec.seed);
        let per_client = spec.workload.flows(1) as usize;
        for number in 0..expected {
            let address = spec.clients[number / per_client].listener;
            let listener = Arc::clone(&listeners[&address][0]);
            if number == 0 {
                add_timeouts(&listeners)?;
                sockets::add_facts(&mut self.facts, &listener, false)?;
            }
            let (name, guard) = (format!("respond {number}"), self.guard.clone());
            let flow = Flow::spawn(name, &self.control, None, false, move |flow| {
                single::accept_and_respond(flow, &listener, sizes, &guard)
            })?;
            self.flows.push(flow.of_part(spec.part));
        }
        ports_of_clients(spec, &listeners)
    }

    /// Listeners on the requested number of ports of each address, and a thread that accepts on all.
    fn listen_tcp(&mut self, spec: &ListenSpec, expected: usize) -> io::Result<Vec<Vec<u16>>> {
        let listeners = listeners(spec, spec.listeners.max(1), expected)?;
        let ports = ports_of_clients(spec, &listeners)?;
        let all: Vec<Arc<OwnedFd>> = listeners.into_values().flatten().collect();
        for listener in &all {
            socket::set_nonblocking(listener, true)?;
        }
        let arrived = self.arrived();
        let (guard, control) = (self.guard.clone(), Arc::clone(&self.control));
        std::thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept_all(&all, expected, &guard, &control, &arrived))?;
        Ok(ports)
    }

    /// A socket and a thread for each flow.
    fn listen_udp(&mut self, spec: &ListenSpec) -> io::Result<Vec<Vec<u16>>> {
        let arrived = self.arrived();
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
        Ok(ports)
    }

    /// Waits until every expected flow has arrived and has its thread; `TimedOut` with the number of those that have.
    pub fn await_flows(&mut self, spec: &ListenSpec) -> io::Result<FlowFacts> {
        // with the last of the listeners the channel closes
        let Some((_, incoming)) = self.incoming.take() else { return Ok(self.facts.clone()) };
        let run = Run { seed: spec.seed, shared_cpus: spec.shared_cpus, record: spec.record };
        let deadline = Instant::now() + ARRIVAL;
        while self.flows.len() < self.expected {
            let timeout = deadline.saturating_duration_since(Instant::now());
            let arrival = match incoming.recv_timeout(timeout) {
                Ok(arrival) => arrival?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let message =
                        format!("{} of {} flows arrived", self.flows.len(), self.expected);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
            };
            let part = arrival.preamble.part;
            let workload = self.workloads.get(&part).cloned().ok_or_else(|| {
                let message = format!("a flow of workload {part}, of which there is none");
                io::Error::new(io::ErrorKind::InvalidData, message)
            })?;
            self.add_flow(arrival, &workload, run, false)?;
        }
        Ok(self.facts.clone())
    }

    /// Connects all flows of one workload of a client; `TimedOut` when not all connect in ten seconds.
    pub fn connect(&mut self, spec: &ConnectSpec) -> io::Result<()> {
        let workload = &spec.workload;
        let run = Run { seed: spec.seed, shared_cpus: spec.shared_cpus, record: spec.record };
        let expected = self.expect(workload.flows(1))?;
        if workload.kind == Protocol::Backup {
            // before a sink waits for it
            let seed = spec.seed ^ u64::from(spec.client);
            self.trees.insert(spec.part, Arc::new(Tree::new(&workload.backup, seed)?));
        }
        let before = self.flows.len();
        let deadline = Instant::now() + ARRIVAL;
        let from = source(spec);
        for role in client_roles(workload) {
            for number in 0..workload.connections {
                let preamble = Preamble {
                    nonce: spec.nonce,
                    client: spec.client as u16,
                    flow: number as u16,
                    part: spec.part,
                    role: *role,
                };
                let port = port_of(spec, self.flows.len() - before, expected)?;
                let peer = SocketAddr::new(spec.ends.listener, port);
                if workload.kind == Protocol::ConnectRequestResponse {
                    self.add_connecting_flow(spec, from, peer, number)?;
                    continue;
                }
                let socket = if workload.kind.is_udp() {
                    let socket = sockets::udp(&spec.socket, workload, spec.ends.client)?;
                    socket::connect(&socket, peer)?;
                    datagram::introduce(&socket, preamble)?;
                    socket
                } else {
                    let socket = sockets::tcp(&spec.socket)?;
                    if let Some(from) = from {
                        socket::bind_address(&socket, from)?;
                    }
                    let left = deadline.saturating_duration_since(Instant::now());
                    socket::connect_within(&socket, peer, left)?;
                    let mut connection = TcpStream::from(socket);
                    connection.write_all(&preamble.to_bytes())?;
                    connection.into()
                };
                self.keep_ports(&socket, peer, *role)?;
                self.add_flow(Connection { preamble, socket }, workload, run, true)?;
            }
        }
        Ok(())
    }

    /// Keeps the ports of a flow for those who ask which of an aggregate's ports it takes.
    fn keep_ports(
        &mut self,
        socket: &OwnedFd,
        peer: SocketAddr,
        role: ClientRole,
    ) -> io::Result<()> {
        if self.facts.ports.len() < MAX_REPORTED_FLOWS {
            let direction = match role {
                ClientRole::Requests => Direction::Bidirectional,
                ClientRole::Receives => Direction::Transmit,
                ClientRole::Sends => Direction::Receive,
            };
            let client = socket::local_port(socket)?;
            self.facts.ports.push(FlowPorts { listener: peer.port(), client, direction });
        }
        Ok(())
    }

    pub fn facts(&self) -> FlowFacts {
        self.facts.clone()
    }

    fn add_connecting_flow(
        &mut self,
        spec: &ConnectSpec,
        from: Option<IpAddr>,
        peer: SocketAddr,
        number: u32,
    ) -> io::Result<()> {
        let knobs = spec.socket.clone();
        let sizes = connection_sizes(&spec.workload, spec.seed);
        let target = single::Target { peer, from, knobs, nonce: Some(spec.nonce) };
        self.request_by_connections(target, sizes, number, spec.part)
    }

    /// Creates a flow that makes a connection for each request.
    fn request_by_connections(
        &mut self,
        target: single::Target,
        sizes: ConnectionSizes,
        number: u32,
        part: u8,
    ) -> io::Result<()> {
        sockets::add_facts(&mut self.facts, &sockets::tcp(&target.knobs)?, false)?;
        let name = format!("request {number}");
        let flow = Flow::spawn(name, &self.control, None, false, move |flow| {
            single::connect_and_request(flow, &target, sizes)
        })?;
        self.flows.push(flow.of_part(part));
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
        let part = match preamble.part {
            0 => String::new(),
            part => format!("{part}:"),
        };
        let number = format!("{part}{}.{}", preamble.client, preamble.flow);
        let (control, workload) = (&self.control, workload.clone());
        let sends = match preamble.role {
            ClientRole::Requests => false,
            ClientRole::Sends => client,
            ClientRole::Receives => !client,
        };
        let sizes = |size: MessageSize| Sizes::new(size, seed);
        let taking = stream::Taking::of(client, shared_cpus, workload.receive_batching);
        if let Some(record) = run.record.filter(|_| workload.kind == Protocol::Stream) {
            let role = match sends {
                true => Verified::Sends(sizes(workload.message)),
                false => Verified::Receives(record, taking),
            };
            let mut flow = self.verified_flow(&number, socket, role)?;
            flow.counts_arrivals = !sends;
            self.bind(&flow, &preamble)?;
            self.flows.push(flow.of_part(preamble.part));
            return Ok(());
        }
        let kind = workload.kind;
        let discards = workload.receive_path == ReceivePath::Truncate;
        let transfer = (kind == Protocol::Transfer).then_some(workload.transfer.0);
        let flow = match (preamble.role, udp) {
            (ClientRole::Requests, false) if client => {
                let (exchange, pace) = (exchange(&workload, seed), Pace::of(&workload, seed));
                Flow::spawn(format!("request {number}"), control, shared, sends, move |flow| {
                    transact::request(flow, &socket, exchange, pace)
                })
            }
            (ClientRole::Requests, false) => {
                let exchange = exchange(&workload, seed);
                Flow::spawn(format!("respond {number}"), control, shared, sends, move |flow| {
                    transact::respond(flow, &socket, exchange)
                })
            }
            (ClientRole::Requests, true) if client => {
                let (exchange, pace) = (exchange(&workload, seed), Pace::of(&workload, seed));
                Flow::spawn(format!("request {number}"), control, shared, sends, move |flow| {
                    datagram::request(flow, &socket, exchange, pace)
                })
            }
            (ClientRole::Requests, true) => {
                let responses = exchange(&workload, seed).responses;
                Flow::spawn(format!("respond {number}"), control, shared, sends, move |flow| {
                    datagram::respond(flow, &socket, responses)
                })
            }
            (_, true) if sends => {
                let sizes = sizes(workload.message);
                Flow::spawn(format!("send {number}"), control, shared, sends, move |flow| {
                    datagram::transmit(flow, &socket, sizes)
                })
            }
            (_, true) => {
                Flow::spawn(format!("receive {number}"), control, shared, sends, move |flow| {
                    datagram::receive(flow, &socket)
                })
            }
            (_, false) if sends && kind == Protocol::Backup => {
                let tree = self.trees.get(&preamble.part).cloned();
                let sizes = sizes(workload.message);
                Flow::spawn(format!("send {number}"), control, shared, sends, move |flow| {
                    match &tree {
                        Some(tree) => backup::send(flow, &socket, tree, sizes),
                        None => Err(io::ErrorKind::NotFound.into()),
                    }
                })
            }
            (_, false) if kind == Protocol::Backup => {
                let drives = || Arc::new(Drive::new(workload.backup.rate()));
                let drive = Arc::clone(self.drives.entry(preamble.part).or_insert_with(drives));
                Flow::spawn(format!("receive {number}"), control, shared, sends, move |flow| {
                    backup::sink(flow, &socket, &drive)
                })
            }
            (_, false) if sends => {
                let name = format!("send {number}");
                let (own, sizes) = (Arc::clone(&socket), sizes(workload.message));
                let turns = stream::Turns::of(workload.send_path, shared_cpus);
                let prepare = move || send_path::Sender::new(own, &workload);
                Flow::spawn_prepared(name, control, shared, sends, prepare, move |flow, sender| {
                    match transfer {
                        Some(bytes) => {
                            transfer::transmit(flow, &socket, sender, sizes, bytes, turns)
                        }
                        None => stream::transmit(flow, sender, sizes, turns),
                    }
                })
            }
            (_, false) => {
                let name = format!("receive {number}");
                let prepare = move || stream::Receiver::new(&workload, taking);
                let body = move |flow: &mut FlowContext, receiver| match transfer {
                    Some(bytes) => transfer::receive(flow, &socket, receiver, bytes),
                    None => stream::receive(flow, &socket, receiver),
                };
                Flow::spawn_prepared(name, control, shared, sends, prepare, body)
            }
        };
        let mut flow = flow?.of_part(preamble.part);
        flow.discards = discards && !sends;
        // what waits before the drives of a backup is not stored yet
        let is_taken_at_once = !udp && kind != Protocol::Backup;
        flow.counts_arrivals = !sends && is_taken_at_once && preamble.role != ClientRole::Requests;
        self.bind(&flow, &preamble)?;
        self.flows.push(flow);
        Ok(())
    }

    /// Binds a flow to its CPU, if those of its client are bound. They take turns.
    fn bind(&self, flow: &Flow, preamble: &Preamble) -> io::Result<()> {
        let Some(cpus) = self.bind.get(&preamble.client) else { return Ok(()) };
        let turn = usize::from(preamble.flow) % cpus.len().max(1);
        let Some(cpu) = cpus.iter().nth(turn) else { return Ok(()) };
        sched::set_affinity(flow.thread_id, &CpuSet::from_iter([cpu])).map_err(io::Error::other)
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

    /// What the records of the flows say of a measurement that closed at `closes_ns`.
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
        Some(format!("flow \"{}\" ended before the measurement ended", ended.name))
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
        let mut all = Timed::default();
        let mut parts = vec![Timed::default(); parts_of(&self.flows)];
        let mut broken = None;
        for flow in self.flows {
            let part = flow.part;
            let (failure, recorded) = flow.join(deadline);
            broken = broken.or(failure);
            all.add(&recorded);
            parts.get_mut(usize::from(part)).into_iter().for_each(|part| part.add(&recorded));
        }
        let unexpected_peers = self.guard.unexpected_peers.report();
        let parts = parts.iter().map(Timed::report).collect();
        Finished { latency: all.report(), parts, broken, unexpected_peers }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of workloads in a mix that the flows run, or those up to the last of them; 0 without a
/// mix.
pub fn parts_of(flows: &[Flow]) -> usize {
    match flows.iter().map(|flow| usize::from(flow.part)).max() {
        None | Some(0) => 0,
        Some(last) => last + 1,
    }
}

/// Latencies of several flows.
#[derive(Clone)]
struct Timed {
    all: Histogram<u64>,
    open: Histogram<u64>,
}

impl Default for Timed {
    fn default() -> Self {
        Self { all: latency_histogram(), open: latency_histogram() }
    }
}

impl Timed {
    fn add(&mut self, flow: &Recorded) {
        // all histograms have the same bounds
        let _ = self.all.add(&flow.all);
        for (age_ns, count) in &flow.open {
            self.open.saturating_record_n(*age_ns, *count);
        }
    }

    fn report(&self) -> Latencies {
        Latencies { all: steps(&self.all), open: steps(&self.open) }
    }
}

/// A histogram as (nanoseconds, count).
fn steps(latency: &Histogram<u64>) -> Vec<(u64, u64)> {
    let steps = latency.iter_recorded();
    steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

/// Listeners by address of the listening host, `count` on each.
type Listeners = BTreeMap<IpAddr, Vec<Arc<OwnedFd>>>;

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
        socket::set_receive_timeout(listener, POLL_INTERVAL)?;
        socket::set_send_timeout(listener, Some(POLL_INTERVAL))?;
    }
    Ok(())
}

/// The port for flow `number` of a client, of `expected`: for UDP its own; for TCP the flows of all
/// clients are spread over the ports.
fn port_of(spec: &ConnectSpec, number: usize, expected: usize) -> io::Result<u16> {
    let index = if spec.workload.kind.is_udp() {
        number
    } else {
        (spec.client as usize * expected + number) % spec.ports.len().max(1)
    };
    spec.ports.get(index).copied().ok_or_else(|| {
        let message = format!("flow {number} has no port among {}", spec.ports.len());
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })
}

/// The client's address, if routes would choose another one.
fn source(spec: &ConnectSpec) -> Option<IpAddr> {
    let Ends { client, listener } = spec.ends;
    let IpAddr::V4(to) = listener else { return Some(client) };
    let route = RouteSocket::open().and_then(|mut route| route.route_to(to.into()));
    let chosen = route.ok().and_then(|(_, source)| source);
    (chosen != Some(client)).then_some(client)
}
