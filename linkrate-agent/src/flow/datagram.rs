//! UDP streams and transactions.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::socket;

use super::FlowContext;
use super::preamble::{PREAMBLE_BYTES, Preamble};
use super::send_path::payload;
use super::sizes::Sizes;
use super::transact::Exchange;

/// Largest UDP payload over IPv4: 65535 less 20 and 8 bytes of headers. UDP_GRO returns no more at
/// once either.
pub const LARGEST_DATAGRAM: usize = 65507;

/// How long a receive waits before the flow checks for the end of the run.
const PATIENCE: Duration = Duration::from_millis(100);

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
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer from the far end"))
}

/// Waits for the client of this flow, connects the socket to it and answers.
///
/// # Errors
/// `TimedOut` when no client of this run sends a preamble.
pub fn await_introduction(socket: &OwnedFd, nonce: u64) -> io::Result<Preamble> {
    socket::set_receive_timeout(socket, PATIENCE)?;
    let mut bytes = [0; PREAMBLE_BYTES];
    for _ in 0..INTRODUCTIONS * 2 {
        match socket::receive_and_connect(socket, &mut bytes) {
            Ok(PREAMBLE_BYTES) => {
                let preamble = Preamble::from_bytes(&bytes, nonce)?;
                socket::send(socket, &bytes)?;
                return Ok(preamble);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
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
