//! TCP transactions on connections that stay open (request/response, TCP_RR).
//!
//! Clients send requests, the system under test answers. Both ends draw the sizes from the same
//! seed, so no length is sent.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::socket;

use super::FlowContext;
use super::send_path::payload;
use super::sizes::Sizes;

/// The sizes of the requests and responses of one flow, equal at both ends.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Request sizes.
    pub requests: Sizes,
    /// Response sizes.
    pub responses: Sizes,
}

impl FlowContext {
    /// Counts a transaction that started at `begun_ns`, and inside the window its latency.
    pub(super) fn completed(&mut self, begun_ns: u64) {
        self.counters.add_transactions(1);
        self.timed(begun_ns);
    }

    /// Keeps the time of what started at `begun_ns`, if it ends inside the window.
    pub(super) fn timed(&mut self, begun_ns: u64) {
        if self.control.recording() {
            let latency = monotonic_ns().saturating_sub(begun_ns);
            self.latency.saturating_record(latency.max(1));
        }
    }
}

/// Makes requests with at most `burst` outstanding until told to stop.
///
/// # Errors
/// Errors of the socket; `UnexpectedEof` when the far end closes first.
pub fn request(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut exchange: Exchange,
    burst: u32,
) -> io::Result<()> {
    let out = payload(exchange.requests.largest());
    let mut buffer = vec![0; exchange.responses.largest()];
    if burst <= 1 {
        while !flow.control.sending_ended() {
            let begun = monotonic_ns();
            send_all(flow, socket, &out[..exchange.requests.draw()])?;
            receive_exactly(flow, socket, &mut buffer, exchange.responses.draw())?;
            flow.completed(begun);
        }
        return Ok(());
    }
    request_burst(flow, socket, exchange, burst, &out, &mut buffer)
}

/// With several outstanding requests, a blocking send could wait for a far end that itself waits to
/// send a response. So only the poll blocks, and neither direction does.
fn request_burst(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut exchange: Exchange,
    burst: u32,
    out: &[u8],
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut outstanding: VecDeque<u64> = VecDeque::with_capacity(burst as usize);
    let (mut unsent, mut request_length) = (0, 0);
    let mut unreceived = exchange.responses.draw();
    while !flow.control.stopped() {
        let mut moved = false;
        let ended = flow.control.sending_ended();
        if ended && outstanding.is_empty() {
            break;
        }
        while unsent > 0 || !ended && outstanding.len() < burst as usize {
            if unsent == 0 {
                request_length = exchange.requests.draw();
                unsent = request_length;
                outstanding.push_back(monotonic_ns());
            }
            let from = request_length - unsent;
            match unless_it_would_block(socket::send_now(socket, &out[from..request_length]))? {
                None => break,
                Some(sent) => {
                    flow.counters.add_sent(sent as u64);
                    unsent -= sent;
                    moved = true;
                }
            }
        }
        while let Some(received) = unless_it_would_block(socket::receive_now(
            socket,
            // receive up to the end of the next response only, to see when each one ends
            &mut buffer[..unreceived],
        ))? {
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            moved = true;
            flow.counters.add_received(received as u64);
            unreceived -= received;
            if unreceived == 0 {
                unreceived = exchange.responses.draw();
                if let Some(begun) = outstanding.pop_front() {
                    flow.completed(begun);
                }
                break;
            }
        }
        if !moved {
            flow.parking
                .call(|| socket::wait_ready(socket, unsent > 0, Duration::from_millis(200)))?;
        }
    }
    Ok(())
}

/// Answers requests until told to stop.
///
/// # Errors
/// Errors of the socket; `UnexpectedEof` when the far end closes first.
pub fn respond(flow: &mut FlowContext, socket: &OwnedFd, mut exchange: Exchange) -> io::Result<()> {
    let out = payload(exchange.responses.largest());
    let mut buffer = vec![0; exchange.requests.largest()];
    while !flow.control.stopped() {
        receive_exactly(flow, socket, &mut buffer, exchange.requests.draw())?;
        send_all(flow, socket, &out[..exchange.responses.draw()])?;
    }
    Ok(())
}

fn send_all(flow: &FlowContext, socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = flow.parking.call(|| socket::send(socket, bytes))?;
        flow.counters.add_sent(sent as u64);
        bytes = &bytes[sent..];
    }
    Ok(())
}

fn receive_exactly(
    flow: &FlowContext,
    socket: &OwnedFd,
    buffer: &mut [u8],
    length: usize,
) -> io::Result<()> {
    let mut missing = length;
    while missing > 0 {
        let received = flow.parking.call(|| socket::receive(socket, &mut buffer[..missing]))?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        flow.counters.add_received(received as u64);
        missing -= received;
    }
    Ok(())
}

/// The count of a call that does not wait; `None` where it would have.
pub(super) fn unless_it_would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
