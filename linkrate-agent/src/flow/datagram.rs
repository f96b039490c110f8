//! UDP streams and transactions.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::socket;

use super::preamble::{PREAMBLE_BYTES, Preamble};
use super::send_path::payload;
use super::sizes::Sizes;
use super::strangers::Guard;
use super::transact::Exchange;
use super::{Control, FlowContext};

/// Largest UDP payload over IPv4: 65535 less 20 and 8 bytes of headers. UDP_GRO returns no more at
/// once either.
pub const LARGEST_DATAGRAM: usize = 65507;

/// How long a receive waits before the flow checks for the end of the run.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long the client of a flow may take to introduce itself.
const ARRIVAL: Duration = Duration::from_secs(10);

/// The most introductions of a client without an answer.
const INTRODUCTIONS: u32 = 50;

/// Sends the preamble of a client's flow and waits for its echo.
///
/// # Errors
/// `TimedOut` without an answer.
pub fn introduce(socket: &OwnedFd, preamble: Preamble) -> io::Result<()> {
    socket::set_receive_timeout(socket, PATIENCE)?;
    let mut echo = [0; PREAMBLE_BYTES];
    for _ in 0..INTRODUCTIONS {
        socket::send(socket, &preamble.to_bytes())?;
        match socket::receive(socket, &mut echo) {
            Ok(PREAMBLE_BYTES) if echo == preamble.to_bytes() => return Ok(()),
            Ok(_) => {}
            Err(error) if transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer from the far end"))
}

/// Waits for the client of this flow, connects the socket to it and answers. Datagrams of strangers
/// are counted and not answered.
///
/// # Errors
/// `TimedOut` when no client of this run sends a preamble; `Interrupted` when the run ends before.
pub fn await_introduction(
    socket: &OwnedFd,
    guard: &Guard,
    control: &Control,
) -> io::Result<Preamble> {
    socket::set_receive_timeout(socket, PATIENCE)?;
    let deadline = Instant::now() + ARRIVAL;
    // one byte more, to tell a longer datagram
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    while Instant::now() < deadline {
        if control.stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let (length, sender) = match socket::receive_from(socket, &mut bytes) {
            Ok(received) => received,
            Err(error) if transient(&error) => continue,
            Err(error) => return Err(error),
        };
        if !guard.admits(*sender.ip()) {
            continue;
        }
        let preamble = bytes[..length].try_into().map_err(io::Error::other);
        match preamble.and_then(|bytes| Preamble::from_bytes(bytes, guard.nonce)) {
            Ok(preamble) => {
                socket::connect(socket, sender)?;
                // what strangers sent before
                drain(socket, &mut bytes);
                socket::send(socket, &preamble.to_bytes())?;
                return Ok(preamble);
            }
            Err(_) => guard.strangers.refuse(*sender.ip()),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no client sent a preamble"))
}

/// Sends datagrams until told to stop. If the send buffer is full, it waits until a discipline or the
/// device has released a packet. A datagram that a full queue dropped is counted as sent, because
/// the kernel tells the sender nothing.
///
/// # Errors
/// Errors of the socket.
pub fn transmit(flow: &mut FlowContext, socket: &OwnedFd, mut sizes: Sizes) -> io::Result<()> {
    let payload = payload(sizes.largest());
    while !flow.control.stopped() {
        match socket::send(socket, &payload[..sizes.draw()]) {
            Ok(sent) => flow.counters.add_sent(sent as u64),
            Err(error) if transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Receives datagrams until told to stop.
///
/// # Errors
/// Errors of the socket.
pub fn receive(flow: &mut FlowContext, socket: &OwnedFd) -> io::Result<()> {
    socket::set_receive_timeout(socket, PATIENCE)?;
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    while !flow.control.stopped() {
        match socket::receive(socket, &mut buffer) {
            Ok(received) => flow.counters.add_received(received as u64),
            Err(error) if transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes requests with at most `burst` outstanding. A request without an answer in time is counted
/// and sent again; netperf does not do this.
///
/// # Errors
/// Errors of the socket.
pub fn request(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut exchange: Exchange,
    burst: u32,
) -> io::Result<()> {
    socket::set_receive_timeout(socket, PATIENCE)?;
    let out = payload(exchange.requests.largest());
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    let mut outstanding: VecDeque<u64> = VecDeque::with_capacity(burst as usize);
    drain(socket, &mut buffer);
    while !flow.control.stopped() {
        while outstanding.len() < burst as usize {
            outstanding.push_back(monotonic_ns());
            let sent = socket::send(socket, &out[..exchange.requests.draw()])?;
            flow.counters.add_sent(sent as u64);
        }
        match socket::receive(socket, &mut buffer) {
            Ok(received) => {
                flow.counters.add_received(received as u64);
                if let Some(begun) = outstanding.pop_front() {
                    flow.completed(begun);
                }
            }
            Err(error) if transient(&error) => {
                flow.counters.add_timeouts(outstanding.len() as u64);
                outstanding.clear();
                // a late answer must not count as the answer to the next request
                drain(socket, &mut buffer);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Answers requests until told to stop.
///
/// # Errors
/// Errors of the socket.
pub fn respond(flow: &mut FlowContext, socket: &OwnedFd, mut responses: Sizes) -> io::Result<()> {
    socket::set_receive_timeout(socket, PATIENCE)?;
    let out = payload(responses.largest());
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    drain(socket, &mut buffer);
    while !flow.control.stopped() {
        match socket::receive(socket, &mut buffer) {
            Ok(received) => {
                flow.counters.add_received(received as u64);
                match socket::send(socket, &out[..responses.draw()]) {
                    Ok(sent) => flow.counters.add_sent(sent as u64),
                    // a response without room in the queue is lost, like one on the link
                    Err(error) if transient(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            Err(error) if transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Discards received datagrams: repeated introductions and late answers.
fn drain(socket: &OwnedFd, buffer: &mut [u8]) {
    while socket::receive_now(socket, buffer).is_ok() {}
}

/// A timeout, a full queue, or an ICMP error of an earlier send while the far end's socket was
/// closed.
fn transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused
    ) || socket::is_out_of_buffers(error)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
    use std::sync::Arc;

    use linkrate_terms::{Protocol, SocketKnobs, Workload};

    use super::super::preamble::ClientRole;
    use super::*;
    use crate::sockets;

    #[test]
    fn a_socket_is_connected_to_its_client_and_to_no_stranger() {
        let workload = Workload { kind: Protocol::UdpStream, ..Workload::default() };
        let socket = sockets::udp(&SocketKnobs::default(), &workload, Ipv4Addr::LOCALHOST).unwrap();
        let port = socket::local_port(&socket).unwrap();
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let preamble = Preamble { nonce: 5, client: 0, flow: 0, role: ClientRole::Sends };
        // from another address, with another number, too long, too short
        let stranger = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
        stranger.send_to(&preamble.to_bytes(), at).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.send_to(&Preamble { nonce: 6, ..preamble }.to_bytes(), at).unwrap();
        client.send_to(&[&preamble.to_bytes()[..], b"x"].concat(), at).unwrap();
        client.send_to(b"", at).unwrap();
        client.send_to(&preamble.to_bytes(), at).unwrap();
        // it waits in the queue when the socket is connected
        stranger.send_to(b"queued", at).unwrap();
        let guard = Guard::new(5, [Ipv4Addr::LOCALHOST]);
        let introduced = await_introduction(&socket, &guard, &Control::default()).unwrap();
        assert_eq!(introduced, preamble);
        assert_eq!(guard.strangers.report().refused, 4);
        // what a stranger sends now, the kernel drops
        stranger.send_to(b"late", at).unwrap();
        client.send_to(b"payload", at).unwrap();
        let mut bytes = [0; 16];
        assert_eq!(socket::receive(&socket, &mut bytes).unwrap(), 7);
        let mut echo = [0; PREAMBLE_BYTES];
        assert_eq!(client.recv(&mut echo).unwrap(), PREAMBLE_BYTES);
        assert_eq!(echo, preamble.to_bytes());
    }

    #[test]
    fn waiting_for_a_client_ends_with_the_run() {
        let workload = Workload { kind: Protocol::UdpStream, ..Workload::default() };
        let socket = sockets::udp(&SocketKnobs::default(), &workload, Ipv4Addr::LOCALHOST).unwrap();
        let control = Arc::new(Control::default());
        control.stop();
        let begun = Instant::now();
        let ended = await_introduction(&socket, &Guard::default(), &control).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::Interrupted);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
}
