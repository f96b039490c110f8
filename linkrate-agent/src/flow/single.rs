//! One connection for each transaction (connect/request/response, TCP_CRR).
//!
//! A client connects, sends the number of the run and one request, and reads the response and the
//! end of the stream. Both ends know the sizes: from the workload if they are fixed, otherwise from
//! the port of the client. Sockets have time-outs, so that no thread waits longer than [`POLL_INTERVAL`]
//! without a look at the end of the run.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use linkrate_model::SocketKnobs;
use linkrate_sys::socket;

use super::send_path::payload;
use super::sizes::ConnectionSizes;
use super::unexpected_peers::Guard;
use super::{FlowContext, GREETING, POLL_INTERVAL, is_passing};
use crate::sockets;

/// How long a connection of the run may stall.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The most accepted connections of one thread that stall; of more, the oldest is refused.
const MAX_SILENT: usize = 64;

/// Length of the number of the run before each request, bytes.
const NUMBER_BYTES: usize = 8;

/// Where and how a client connects.
#[derive(Debug, Clone)]
pub struct Target {
    /// The listening socket.
    pub peer: SocketAddr,
    /// The client's address, where its routes would choose another one.
    pub from: Option<IpAddr>,
    pub knobs: SocketKnobs,
    /// Number of the run before each request; `None` for a third-party program, which knows of no run and waits
    /// for the client to close first.
    pub nonce: Option<u64>,
}

/// Repeatedly connects, sends one request, and reads the response and the end of the stream; `TimedOut` for a
/// connection that stalls.
pub fn connect_and_request(
    flow: &mut FlowContext,
    target: &Target,
    sizes: ConnectionSizes,
) -> io::Result<()> {
    let mut out = target.nonce.map(|nonce| nonce.to_be_bytes().to_vec()).unwrap_or_default();
    let number = out.len();
    out.extend(payload(sizes.requests.largest().0 as usize));
    let mut buffer = vec![0; sizes.responses.largest().0 as usize];
    let fixed = sizes.are_fixed().then(|| sizes.of(0));
    while !flow.control.stopped() {
        flow.begin();
        let socket = sockets::tcp(&target.knobs)?;
        socket::set_send_timeout(&socket, Some(POLL_INTERVAL))?;
        socket::set_receive_timeout(&socket, POLL_INTERVAL)?;
        if let Some(from) = target.from {
            socket::bind_address(&socket, from)?;
        }
        connect(flow, &socket, target.peer).map_err(named)?;
        let (request, response) = match fixed {
            Some(sizes) => sizes,
            None => sizes.of(socket::local_port(&socket)?),
        };
        send_all(flow, &socket, &out[..number + request])?;
        flow.counters.add_sent(request as u64);
        receive_exactly(flow, &socket, &mut buffer[..response])?;
        flow.counters.add_received(response as u64);
        if target.nonce.is_none() {
            socket::end_sending(&socket);
        }
        // the peer closes first, so TIME_WAIT does not use up the port range of this host
        if patiently(flow, || socket::receive(&socket, &mut [0]))? != 0 {
            let reason = "the response is longer than the workload says";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        flow.completed();
    }
    if target.nonce.is_none() {
        tell_end(target);
    }
    Ok(())
}

/// Connects once more without a request, which tells a netserver that the test is over. It would wait for some seconds
/// and count their CPU time otherwise.
fn tell_end(target: &Target) {
    // a program that has ended already does not listen
    let _ = sockets::tcp(&target.knobs).and_then(|socket| {
        if let Some(from) = target.from {
            socket::bind_address(&socket, from)?;
        }
        socket::connect_within(&socket, target.peer, POLL_INTERVAL)
    });
}

/// Accepts connections, answers one request on each and closes it, until told to stop. A connection
/// that stalls is set aside, and delays no other. Fails at errors of the listener, and of connections with the number
/// of the run.
pub fn accept_and_respond(
    flow: &mut FlowContext,
    listener: &OwnedFd,
    sizes: ConnectionSizes,
    guard: &Guard,
) -> io::Result<()> {
    let mut server = Server {
        guard,
        sizes,
        fixed: sizes.are_fixed().then(|| sizes.of(0)),
        out: payload(sizes.responses.largest().0 as usize),
        buffer: vec![0; NUMBER_BYTES + sizes.requests.largest().0 as usize],
        silent: Vec::new(),
    };
    while !flow.control.stopped() {
        if !server.silent.is_empty() && !server.look_at_silent(flow, listener)? {
            continue;
        }
        let (socket, peer) = match socket::accept(listener) {
            Ok(accepted) => accepted,
            Err(error) if is_passing(&error) => continue,
            Err(error) => return Err(error),
        };
        if guard.admits(peer.ip()) {
            server.serve(flow, socket, peer)?;
        }
    }
    Ok(())
}

struct Server<'a> {
    guard: &'a Guard,
    sizes: ConnectionSizes,
    fixed: Option<(usize, usize)>,
    out: Vec<u8>,
    buffer: Vec<u8>,
    silent: Vec<Silent>,
}

/// A connection that stalls before the end of its request.
struct Silent {
    socket: OwnedFd,
    peer: SocketAddr,
    /// What has arrived.
    bytes: Vec<u8>,
    since: Instant,
}

impl Server<'_> {
    fn sizes(&self, peer: SocketAddr) -> (usize, usize) {
        self.fixed.unwrap_or_else(|| self.sizes.of(peer.port()))
    }

    /// Answers a new connection, or sets it aside.
    fn serve(&mut self, flow: &FlowContext, socket: OwnedFd, peer: SocketAddr) -> io::Result<()> {
        let (request, response) = self.sizes(peer);
        let wanted = NUMBER_BYTES + request;
        // a wait for this connection would delay the others. With silent ones about, it is set aside
        // at once, since many could come one after the other
        let receive = if self.silent.is_empty() { socket::receive } else { socket::receive_now };
        let mut filled = 0;
        while filled < wanted {
            match receive(&socket, &mut self.buffer[filled..wanted]) {
                Ok(count) if count > 0 => filled += count,
                Err(error) if is_passing(&error) => {
                    let bytes = self.buffer[..filled].to_vec();
                    self.set_aside(Silent { socket, peer, bytes, since: Instant::now() });
                    return Ok(());
                }
                ended => return self.ended(ended, &self.buffer[..filled], peer),
            }
        }
        if !self.is_of_run(&self.buffer[..wanted]) {
            self.guard.unexpected_peers.refuse(peer.ip());
            return Ok(());
        }
        self.respond(flow, &socket, request, response)
    }

    fn respond(
        &self,
        flow: &FlowContext,
        socket: &OwnedFd,
        request: usize,
        response: usize,
    ) -> io::Result<()> {
        flow.counters.add_received(request as u64);
        send_all(flow, socket, &self.out[..response])?;
        flow.counters.add_sent(response as u64);
        Ok(())
    }

    fn is_of_run(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(&self.guard.nonce.to_be_bytes())
    }

    /// The end of a connection in the middle of a request: an error only with the number of the run.
    fn ended(&self, ended: io::Result<usize>, bytes: &[u8], peer: SocketAddr) -> io::Result<()> {
        if !self.is_of_run(bytes) {
            self.guard.unexpected_peers.refuse(peer.ip());
            return Ok(());
        }
        ended.and(Err(io::ErrorKind::UnexpectedEof.into()))
    }

    fn set_aside(&mut self, silent: Silent) {
        if self.silent.len() >= MAX_SILENT {
            // the first is the oldest
            let oldest = self.silent.remove(0);
            self.guard.unexpected_peers.refuse(oldest.peer.ip());
        }
        self.silent.push(silent);
    }

    /// Waits until a connection that was set aside continues, or a new one arrives. True if one waits
    /// to be accepted.
    fn look_at_silent(&mut self, flow: &FlowContext, listener: &OwnedFd) -> io::Result<bool> {
        let sockets: Vec<BorrowedFd<'_>> = std::iter::once(listener.as_fd())
            .chain(self.silent.iter().map(|silent| silent.socket.as_fd()))
            .collect();
        let ready = socket::wait_any(&sockets, POLL_INTERVAL)?;
        for index in ready.iter().rev().filter_map(|index| index.checked_sub(1)) {
            let mut silent = self.silent.remove(index);
            let (request, response) = self.sizes(silent.peer);
            let missing = (NUMBER_BYTES + request).saturating_sub(silent.bytes.len());
            match socket::receive_now(&silent.socket, &mut self.buffer[..missing]) {
                Ok(count) if count > 0 => silent.bytes.extend_from_slice(&self.buffer[..count]),
                Err(error) if is_passing(&error) => {}
                ended => {
                    self.ended(ended, &silent.bytes, silent.peer)?;
                    continue;
                }
            }
            let whole = silent.bytes.len() == NUMBER_BYTES + request;
            match self.is_of_run(&silent.bytes) {
                true if whole => self.respond(flow, &silent.socket, request, response)?,
                false if silent.bytes.len() >= NUMBER_BYTES => {
                    self.guard.unexpected_peers.refuse(silent.peer.ip());
                }
                _ => self.silent.insert(index, silent),
            }
        }
        for index in (0..self.silent.len()).rev() {
            let silent = &self.silent[index];
            let known = self.is_of_run(&silent.bytes);
            if silent.since.elapsed() > if known { TIMEOUT } else { GREETING } {
                let silent = self.silent.remove(index);
                self.ended(Err(io::ErrorKind::TimedOut.into()), &silent.bytes, silent.peer)?;
            }
        }
        Ok(ready.first() == Some(&0))
    }
}

/// Says why a client that closes first runs out of ports.
fn named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            let reason = "no free port: connections that this end closed hold their ports for a \
                          minute (TIME_WAIT); net.ipv4.tcp_tw_reuse=1 or a wider \
                          net.ipv4.ip_local_port_range helps";
            io::Error::new(error.kind(), reason)
        }
        _ => error,
    }
}

/// Connects; the socket has a send time-out of [`POLL_INTERVAL`].
fn connect(flow: &FlowContext, socket: &OwnedFd, peer: SocketAddr) -> io::Result<()> {
    match socket::connect(socket, peer) {
        Err(error) if socket::is_in_progress(&error) => {}
        connected => return connected,
    }
    let deadline = Instant::now() + TIMEOUT;
    while !socket::wait_ready(socket, true, POLL_INTERVAL)? {
        look(flow, deadline, &format!("connect to {peer}"))?;
    }
    socket::take_error(socket)
}

/// Repeats `step` as long as it would wait.
fn patiently(flow: &FlowContext, mut step: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    let mut deadline = None;
    loop {
        match step() {
            Err(error) if is_passing(&error) => {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + TIMEOUT);
                look(flow, deadline, "a transaction")?;
            }
            done => return done,
        }
    }
}

/// An error when the run has ended or the deadline is over.
fn look(flow: &FlowContext, deadline: Instant, what: &str) -> io::Result<()> {
    if flow.control.stopped() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    if Instant::now() >= deadline {
        let message = format!("{what}: no answer within {} s", TIMEOUT.as_secs());
        return Err(io::Error::new(io::ErrorKind::TimedOut, message));
    }
    Ok(())
}

fn send_all(flow: &FlowContext, socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = patiently(flow, || socket::send(socket, bytes))?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

fn receive_exactly(flow: &FlowContext, socket: &OwnedFd, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        let received = patiently(flow, || socket::receive(socket, buffer))?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[received..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Ipv4Addr;
    use std::net::TcpStream;
    use std::sync::Arc;

    use linkrate_model::{ByteSize, MessageSize};

    use super::super::{Control, Flow};
    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    const NONCE: u64 = 5;

    fn knobs() -> SocketKnobs {
        SocketKnobs { congestion: "reno".to_owned(), ..SocketKnobs::default() }
    }

    fn sizes() -> ConnectionSizes {
        let size = |bytes| MessageSize::Fixed(ByteSize(bytes));
        ConnectionSizes { requests: size(100), responses: size(1000), seed: 1 }
    }

    /// A responder that admits this host, and its port.
    fn responder(control: &Arc<Control>) -> (Flow, Guard, SocketAddr) {
        responder_for(control, HERE)
    }

    /// A responder that admits `client`.
    fn responder_for(control: &Arc<Control>, client: IpAddr) -> (Flow, Guard, SocketAddr) {
        let listener = sockets::tcp_listener(&knobs(), HERE, 64).unwrap();
        socket::set_receive_timeout(&listener, POLL_INTERVAL).unwrap();
        socket::set_send_timeout(&listener, Some(POLL_INTERVAL)).unwrap();
        let peer = SocketAddr::new(HERE, socket::local_port(&listener).unwrap());
        let guard = Guard::new(NONCE, [client]);
        let theirs = guard.clone();
        let flow = Flow::spawn(format!("respond {}", 0), control, None, false, move |flow| {
            accept_and_respond(flow, &listener, sizes(), &theirs)
        });
        (flow.unwrap(), guard, peer)
    }

    fn requester(control: &Arc<Control>, peer: SocketAddr) -> Flow {
        let target = Target { peer, from: None, knobs: knobs(), nonce: Some(NONCE) };
        Flow::spawn(format!("request {}", 0), control, None, false, move |flow| {
            connect_and_request(flow, &target, sizes())
        })
        .unwrap()
    }

    fn wait_for(mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition() {
            assert!(Instant::now() < deadline, "it does not happen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn unexpected_peers_are_not_answered_and_delay_no_transaction() {
        let control = Arc::new(Control::default());
        let (respond, guard, peer) = responder(&control);
        control.begin();
        let silent: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(peer).unwrap()).collect();
        let mut foreign = TcpStream::connect(peer).unwrap();
        foreign.write_all(&[0; NUMBER_BYTES + 100]).unwrap();
        let request = requester(&control, peer);
        wait_for(|| request.counters.transactions() >= 50);
        wait_for(|| guard.unexpected_peers.report().refused >= 1);
        foreign.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let answered = std::io::Read::read(&mut foreign, &mut [0; 1]).unwrap_or(0);
        assert_eq!(answered, 0, "a stranger gets no response");
        // the silent ones are refused later
        wait_for(|| guard.unexpected_peers.report().refused >= 6);
        control.stop();
        let deadline = Instant::now() + Duration::from_secs(5);
        assert_eq!(request.join(deadline).0, None);
        assert_eq!(respond.join(deadline).0, None);
        drop(silent);
    }

    #[test]
    fn many_silent_unexpected_peers_delay_a_transaction_as_little_as_one() {
        let control = Arc::new(Control::default());
        let (respond, guard, peer) = responder(&control);
        let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(peer).unwrap()).collect();
        let request = requester(&control, peer);
        let begun = Instant::now();
        control.begin();
        wait_for(|| request.counters.transactions() >= 1);
        assert!(begun.elapsed() < 10 * POLL_INTERVAL, "{:?}", begun.elapsed());
        control.stop();
        let deadline = Instant::now() + Duration::from_secs(5);
        assert_eq!(request.join(deadline).0, None);
        assert_eq!(respond.join(deadline).0, None);
        drop((silent, guard));
    }

    #[test]
    fn the_oldest_of_too_many_silent_unexpected_peers_are_refused_at_once() {
        let control = Arc::new(Control::default());
        let (respond, guard, peer) = responder(&control);
        control.begin();
        let begun = Instant::now();
        let silent: Vec<TcpStream> =
            (0..MAX_SILENT + 4).map(|_| TcpStream::connect(peer).unwrap()).collect();
        wait_for(|| guard.unexpected_peers.report().refused >= 4);
        assert!(begun.elapsed() < GREETING, "{:?}", begun.elapsed());
        assert_eq!(guard.unexpected_peers.report().refused, 4);
        control.stop();
        assert_eq!(respond.join(Instant::now() + Duration::from_secs(5)).0, None);
        drop(silent);
    }

    #[test]
    fn another_address_gets_no_response_with_the_right_number_either() {
        let control = Arc::new(Control::default());
        let (respond, guard, peer) = responder_for(&control, IpAddr::from([198, 51, 100, 2]));
        control.begin();
        let mut stranger = TcpStream::connect(peer).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // the connection may be closed already
        let _ = stranger.write_all(&[&NONCE.to_be_bytes()[..], &[0; 100]].concat());
        let answered = std::io::Read::read(&mut stranger, &mut [0; 1]).unwrap_or(0);
        assert_eq!(answered, 0, "a stranger gets no response");
        assert_eq!(guard.unexpected_peers.report().addresses, [HERE]);
        assert_eq!(respond.counters.sent(), 0);
        control.stop();
        assert_eq!(respond.join(Instant::now() + Duration::from_secs(5)).0, None);
    }

    #[test]
    fn a_flow_without_responses_ends_in_time() {
        // accepts and never responds
        let listener = sockets::tcp_listener(&knobs(), HERE, 64).unwrap();
        let peer = SocketAddr::new(HERE, socket::local_port(&listener).unwrap());
        let control = Arc::new(Control::default());
        let request = requester(&control, peer);
        control.begin();
        wait_for(|| request.counters.sent() == 100);
        let begun = Instant::now();
        control.stop();
        assert_eq!(request.join(begun + Duration::from_secs(5)).0, None);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}
