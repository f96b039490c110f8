//! Connections to a third-party program, which knows nothing of flows.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linkrate_model::Protocol;
use linkrate_sys::send_queue::send_queue;
use linkrate_sys::socket;

use super::{ARRIVAL, Connection, Run, Session, client_roles, connection_sizes, exchange};
use crate::flow::preamble::{ClientRole, Preamble};
use crate::flow::single::Target;
use crate::flow::sizes::Sizes;
use crate::flow::{Flow, third_party};
use crate::sockets;
use linkrate_protocol::DialSpec;

/// How long flows may take to end, and their payload to be acknowledged.
const SETTLED: Duration = Duration::from_secs(12);

/// Time between two polls of them.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Session {
    /// Connects all flows of one client to the program at its place. They do what the flows that a client of
    /// linkrate opens do, except that the system under test makes the connections, and the requests of
    /// transactions. Streams that it sends come first.
    pub fn dial(&mut self, spec: &DialSpec) -> io::Result<()> {
        let workload = &spec.workload;
        self.expect(workload.flows(1))?;
        self.bind.extend(spec.bind.clone());
        let run = Run { seed: spec.seed, shared_cpus: false, record: None };
        let deadline = Instant::now() + ARRIVAL;
        let mut ports = spec.ports.iter().cycle();
        for role in client_roles(workload) {
            for number in 0..workload.connections {
                let (client, flow) = (spec.client as u16, number as u16);
                let preamble = Preamble { nonce: 0, client, flow, part: 0, role: *role };
                let port = ports.next().copied().unwrap_or_default();
                let peer = SocketAddr::new(spec.ends.client, port);
                if workload.kind == Protocol::ConnectRequestResponse {
                    let (from, knobs) = (Some(spec.ends.listener), spec.socket.clone());
                    let target = Target { peer, from, knobs, nonce: None };
                    let sizes = connection_sizes(workload, spec.seed);
                    self.request_by_connections(target, sizes, number, 0)?;
                    continue;
                }
                if workload.kind.is_udp() {
                    self.dial_datagrams(spec, preamble, peer)?;
                    continue;
                }
                let socket = sockets::tcp(&spec.socket)?;
                socket::bind_address(&socket, spec.ends.listener)?;
                let left = deadline.saturating_duration_since(Instant::now());
                socket::connect_within(&socket, peer, left)?;
                let mut connection = TcpStream::from(socket);
                connection.write_all(&spec.first_octets)?;
                let socket = connection.into();
                let requests = *role == ClientRole::Requests;
                self.add_flow(Connection { preamble, socket }, workload, run, requests)?;
                if let Some(flow) = self.flows.last_mut() {
                    flow.counts_acknowledged = flow.sends;
                }
            }
        }
        Ok(())
    }

    fn dial_datagrams(
        &mut self,
        spec: &DialSpec,
        preamble: Preamble,
        peer: SocketAddr,
    ) -> io::Result<()> {
        let workload = &spec.workload;
        let socket = sockets::udp(&spec.socket, workload, spec.ends.listener)?;
        socket::connect(&socket, peer)?;
        if !spec.first_octets.is_empty() {
            third_party::greet(&socket, &spec.first_octets)?;
        }
        sockets::add_facts(&mut self.facts, &socket, true)?;
        let socket = Arc::new(socket);
        let (control, shared) = (&self.control, Some(Arc::clone(&socket)));
        let (seed, habit) = (preamble.size_seed(spec.seed), spec.datagrams);
        let number = format!("{}.{}", preamble.client, preamble.flow);
        let flow = match preamble.role {
            ClientRole::Requests => {
                let exchange = exchange(workload, seed);
                Flow::spawn(format!("request {number}"), control, shared, false, move |flow| {
                    third_party::request(flow, &socket, exchange, habit)
                })
            }
            ClientRole::Receives => {
                let sizes = Sizes::new(workload.message, seed);
                Flow::spawn(format!("send {number}"), control, shared, true, move |flow| {
                    third_party::transmit(flow, &socket, sizes, habit)
                })
            }
            ClientRole::Sends => {
                Flow::spawn(format!("receive {number}"), control, shared, false, move |flow| {
                    third_party::receive(flow, &socket)
                })
            }
        }?;
        self.bind(&flow, &preamble)?;
        self.flows.push(flow);
        Ok(())
    }

    /// Payload that the program has not acknowledged yet, all flows of streams together.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        let flows = self.flows.iter().filter(|flow| flow.counts_acknowledged);
        let queues = flows.filter_map(|flow| send_queue(flow.socket.as_deref()?).ok());
        queues.map(|queue| u64::from(queue.queued_bytes)).fold(0, u64::saturating_add)
    }

    /// Lets the flows that send come to their end, while the others continue; with `all` waits for those
    /// too. Returns when the peer has acknowledged everything that was sent; `TimedOut` with the number of flows that
    /// continue.
    pub fn settle(&self, all: bool) -> io::Result<()> {
        self.control.end_sending();
        let goes_on = |flow: &&Flow| {
            let queue = flow.socket.as_deref().map(send_queue).and_then(Result::ok);
            let unacknowledged = queue.is_some_and(|queue| queue.queued_bytes > 0);
            (all || flow.sends) && (!flow.has_ended() || flow.sends && unacknowledged)
        };
        let deadline = Instant::now() + SETTLED;
        loop {
            let going_on = self.flows.iter().filter(goes_on).count();
            if going_on == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                let message = format!("{going_on} flows did not come to their end");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
