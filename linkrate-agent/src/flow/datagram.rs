//! UDP streams and transactions.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::socket;

use super::outstanding::{Outstanding, Pace, Pending};
use super::preamble::{PREAMBLE_BYTES, Preamble};
use super::send_path::payload;
use super::sizes::Sizes;
use super::transact::Exchange;
use super::unexpected_peers::Guard;
use super::{Control, FlowContext};

/// Largest UDP payload over IPv4: 65535 less 20 and 8 bytes of headers. UDP_GRO returns no more at
/// once either.
pub const MAX_DATAGRAM: usize = 65507;

/// How long a receive waits before the flow checks for the end of the run.
pub(super) const TIMEOUT: Duration = Duration::from_millis(100);

/// How long the client of a flow may take to introduce itself.
const ARRIVAL: Duration = Duration::from_secs(10);

/// The most introductions of a client without an answer.
const INTRODUCTIONS: u32 = 50;

/// Sends the preamble of a client's flow and waits for its echo; `TimedOut` without an answer.
pub fn introduce(socket: &OwnedFd, preamble: Preamble) -> io::Result<()> {
    socket::set_receive_timeout(socket, TIMEOUT)?;
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
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer from the peer"))
}

/// Waits for the client of this flow, connects the socket to it and answers. Datagrams of
/// unexpected peers are counted and not answered. Fails with `TimedOut` when no client of this run sends a preamble,
/// and with `Interrupted` when the run ends before.
pub fn await_introduction(
    socket: &OwnedFd,
    guard: &Guard,
    control: &Control,
) -> io::Result<Preamble> {
    socket::set_receive_timeout(socket, TIMEOUT)?;
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
        if !guard.admits(sender.ip()) {
            continue;
        }
        let preamble = bytes[..length].try_into().map_err(io::Error::other);
        match preamble.and_then(|bytes| Preamble::from_bytes(bytes, guard.nonce)) {
            Ok(preamble) => {
                socket::connect(socket, sender)?;
                // what unexpected peers sent before
                drain(socket, &mut bytes);
                socket::send(socket, &preamble.to_bytes())?;
                return Ok(preamble);
            }
            Err(_) => guard.unexpected_peers.refuse(sender.ip()),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no client sent a preamble"))
}

/// Sends datagrams until told to stop. If the send buffer is full, it waits until a discipline or the
/// device has released a packet. A datagram that a full queue dropped is counted as sent, because
/// the kernel tells the sender nothing.
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
pub fn receive(flow: &mut FlowContext, socket: &OwnedFd) -> io::Result<()> {
    socket::set_receive_timeout(socket, TIMEOUT)?;
    let mut buffer = vec![0; MAX_DATAGRAM];
    while !flow.control.stopped() {
        match socket::receive(socket, &mut buffer) {
            Ok(received) => flow.counters.add_received(received as u64),
            Err(error) if transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Bytes at the beginning of a request that its response repeats: its number. Messages that are shorter
/// have fewer.
const NUMBER_BYTES: usize = 4;

/// The numbers of requests, which tell responses apart.
#[derive(Debug)]
struct Numbers {
    next: u32,
    /// Bytes of a number that every request and every response can hold. With one byte, 256 requests
    /// differ, and come around while a lost one still waits.
    bytes: usize,
}

impl Numbers {
    fn new(exchange: &Exchange) -> Self {
        let shortest = exchange.requests.smallest().min(exchange.responses.smallest());
        Self { next: 0, bytes: shortest.min(NUMBER_BYTES) }
    }

    fn count(&self) -> usize {
        1_usize.checked_shl(8 * self.bytes as u32).unwrap_or(usize::MAX)
    }

    /// Whether a request with this number still waits, as far as messages hold it.
    fn waits(&self, outstanding: &Outstanding, number: u32) -> bool {
        let held = |number: u32| number << (8 * (NUMBER_BYTES - self.bytes));
        outstanding.iter().any(|begun| held(begun.number) == held(number))
    }

    /// Writes the number of the next request, and returns it. No request that waits has it, unless there
    /// are more of them than numbers.
    fn write(&mut self, outstanding: &Outstanding, request: &mut [u8]) -> u32 {
        let is_short = self.bytes > 0 && self.bytes < NUMBER_BYTES;
        if is_short && outstanding.len() < self.count() {
            while self.waits(outstanding, self.next) {
                self.next = self.next.wrapping_add(1);
            }
        }
        let number = self.next;
        for (to, from) in request.iter_mut().zip(number.to_le_bytes()) {
            *to = from;
        }
        self.next = number.wrapping_add(1);
        number
    }

    /// The request of a response has ended. Returns when it began; `None` where it was given up, or answered before.
    fn answered(&self, outstanding: &mut Outstanding, response: &[u8]) -> Option<u64> {
        let number = response.get(..self.bytes)?;
        outstanding.end(|begun| begun.number.to_le_bytes()[..self.bytes] == *number)
    }
}

/// Gives up the oldest request, if it has waited for [`TIMEOUT`]. Returns when it began.
fn overdue(outstanding: &mut Outstanding, now_ns: u64) -> Option<u64> {
    let waited = Duration::from_nanos(now_ns.saturating_sub(outstanding.oldest()?.sent_ns));
    (waited >= TIMEOUT).then(|| outstanding.end_oldest()).flatten()
}

/// Makes requests. Responses repeat the number of their request, so that one that is lost or late shifts no
/// other. A request without a response in time is counted, with the time that it waited among the latencies, and in
/// a closed loop another one takes its place; netperf does not do this.
pub fn request(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut exchange: Exchange,
    mut pace: Pace,
) -> io::Result<()> {
    socket::set_receive_timeout(socket, TIMEOUT)?;
    let mut out = payload(exchange.requests.largest());
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut numbers = Numbers::new(&exchange);
    drain(socket, &mut buffer);
    pace.bound(numbers.count());
    flow.keep(pace)?;
    while !flow.control.stopped() {
        let mut now_ns = monotonic_ns();
        while let Some(begun_ns) = flow.pace.next(now_ns, flow.outstanding.len()) {
            let request = &mut out[..exchange.requests.draw()];
            let number = numbers.write(&flow.outstanding, request);
            flow.outstanding.begin(Pending { number, begun_ns, sent_ns: now_ns });
            let sent = socket::send(socket, request)?;
            flow.counters.add_sent(sent as u64);
            now_ns = monotonic_ns();
        }
        match response(flow, socket, &mut buffer) {
            Ok(received) => {
                flow.counters.add_received(received as u64);
                if let Some(begun_ns) = numbers.answered(&mut flow.outstanding, &buffer[..received])
                {
                    flow.counters.add_transactions(1);
                    flow.timed(begun_ns);
                }
            }
            Err(error) if transient(&error) => {}
            Err(error) => return Err(error),
        }
        while let Some(begun_ns) = overdue(&mut flow.outstanding, monotonic_ns()) {
            flow.counters.add_timeouts(1);
            // at least so long: it belongs to the tail
            flow.timed(begun_ns);
        }
    }
    Ok(())
}

/// Receives the next response; `WouldBlock` when none has come before the next request is due, or in time.
fn response(flow: &mut FlowContext, socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    match flow.due_in() {
        Some(due) if !socket::wait_ready(socket, false, due.min(TIMEOUT))? => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        _ => socket::receive(socket, buffer),
    }
}

/// Answers requests until told to stop.
pub fn respond(flow: &mut FlowContext, socket: &OwnedFd, mut responses: Sizes) -> io::Result<()> {
    socket::set_receive_timeout(socket, TIMEOUT)?;
    let mut out = payload(responses.largest());
    let mut buffer = vec![0; MAX_DATAGRAM];
    drain(socket, &mut buffer);
    while !flow.control.stopped() {
        match socket::receive(socket, &mut buffer) {
            Ok(received) => {
                flow.counters.add_received(received as u64);
                let response = &mut out[..responses.draw()];
                for (to, from) in response.iter_mut().zip(&buffer[..received.min(NUMBER_BYTES)]) {
                    *to = *from;
                }
                match socket::send(socket, response) {
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
pub(super) fn drain(socket: &OwnedFd, buffer: &mut [u8]) {
    while socket::receive_now(socket, buffer).is_ok() {}
}

/// A timeout, a full queue, or an ICMP error of an earlier send while the peer's socket was
/// closed.
pub(super) fn transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused
    ) || socket::is_out_of_buffers(error)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
    use std::sync::Arc;

    use linkrate_model::{ByteSize, MessageSize, Protocol, SocketKnobs, Workload};

    use super::super::Flow;
    use super::super::preamble::ClientRole;
    use super::*;
    use crate::sockets;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_socket_is_connected_to_its_client_and_to_no_unexpected_peer() {
        let workload = Workload { kind: Protocol::UdpStream, ..Workload::default() };
        let socket = sockets::udp(&SocketKnobs::default(), &workload, HERE).unwrap();
        let port = socket::local_port(&socket).unwrap();
        let at = SocketAddr::new(HERE, port);
        let preamble = Preamble { nonce: 5, client: 0, flow: 0, part: 0, role: ClientRole::Sends };
        // from another address, with another number, too long, too short
        let stranger = UdpSocket::bind((IpAddr::from([127, 0, 0, 2]), 0)).unwrap();
        stranger.send_to(&preamble.to_bytes(), at).unwrap();
        let client = UdpSocket::bind((HERE, 0)).unwrap();
        client.send_to(&Preamble { nonce: 6, ..preamble }.to_bytes(), at).unwrap();
        client.send_to(&[&preamble.to_bytes()[..], b"x"].concat(), at).unwrap();
        client.send_to(b"", at).unwrap();
        client.send_to(&preamble.to_bytes(), at).unwrap();
        // it waits in the queue when the socket is connected
        stranger.send_to(b"queued", at).unwrap();
        let guard = Guard::new(5, [HERE]);
        let introduced = await_introduction(&socket, &guard, &Control::default()).unwrap();
        assert_eq!(introduced, preamble);
        assert_eq!(guard.unexpected_peers.report().refused, 4);
        // what an unexpected peer sends now, the kernel drops
        stranger.send_to(b"late", at).unwrap();
        client.send_to(b"payload", at).unwrap();
        let mut bytes = [0; 16];
        assert_eq!(socket::receive(&socket, &mut bytes).unwrap(), 7);
        let mut echo = [0; PREAMBLE_BYTES];
        assert_eq!(client.recv(&mut echo).unwrap(), PREAMBLE_BYTES);
        assert_eq!(echo, preamble.to_bytes());
    }

    fn exchange(request: u64, response: u64) -> Exchange {
        let sizes = |bytes| Sizes::new(MessageSize::Fixed(ByteSize(bytes)), 1);
        Exchange { requests: sizes(request), responses: sizes(response) }
    }

    /// The beginnings of requests that were sent at these times, ms.
    fn asked(
        numbers: &mut Numbers,
        outstanding: &mut Outstanding,
        length: usize,
        at_ms: &[u64],
    ) -> Vec<Vec<u8>> {
        let number = |at_ms: &u64| {
            let mut request = vec![0xee; length];
            let (number, at_ns) = (numbers.write(outstanding, &mut request), at_ms * 1_000_000);
            outstanding.begin(Pending { number, begun_ns: at_ns, sent_ns: at_ns });
            request
        };
        at_ms.iter().map(number).collect()
    }

    #[test]
    fn a_lost_response_shifts_no_other() {
        for (request, response) in [(1, 1), (2, 64), (64, 1472)] {
            let mut numbers = Numbers::new(&exchange(request, response));
            let mut outstanding = Outstanding::default();
            let requests = asked(&mut numbers, &mut outstanding, request as usize, &[1, 2, 3, 4]);
            // the second is lost, and the fourth overtakes the third
            let of = [&requests[0], &requests[3], &requests[2]];
            let answered =
                of.map(|one| numbers.answered(&mut outstanding, one).map(|ns| ns / 1_000_000));
            assert_eq!(answered, [Some(1), Some(4), Some(3)], "{request}, {response}");
            // twice, or given up
            assert_eq!(numbers.answered(&mut outstanding, &requests[0]), None);
            assert_eq!(overdue(&mut outstanding, 101_999_999), None);
            assert_eq!(overdue(&mut outstanding, 102_000_000), Some(2_000_000));
            assert_eq!(numbers.answered(&mut outstanding, &requests[1]), None);
            assert!(outstanding.is_empty());
        }
    }

    /// At 10,000 requests a second, 256 numbers come around four times before a lost one is given up.
    #[test]
    fn a_lost_request_keeps_its_number_from_later_ones() {
        let mut numbers = Numbers::new(&exchange(1, 1));
        let mut outstanding = Outstanding::default();
        let lost = asked(&mut numbers, &mut outstanding, 1, &[0]).remove(0);
        for at_ms in 1..1024 {
            let later = asked(&mut numbers, &mut outstanding, 1, &[at_ms]).remove(0);
            assert_ne!(later, lost);
            assert_eq!(numbers.answered(&mut outstanding, &later), Some(at_ms * 1_000_000));
        }
        assert_eq!(overdue(&mut outstanding, 100_000_000), Some(0));
        // more requests than numbers
        asked(&mut numbers, &mut outstanding, 1, &[1; 300]);
        assert_eq!((outstanding.len(), numbers.count()), (300, 256));
    }

    /// In an open loop a request may go out long after it was due.
    #[test]
    fn the_patience_with_a_request_counts_from_where_it_was_sent() {
        let mut outstanding = Outstanding::default();
        outstanding.begin(Pending { number: 0, begun_ns: 5, sent_ns: 900_000_000 });
        assert_eq!(overdue(&mut outstanding, 999_999_999), None);
        assert_eq!(overdue(&mut outstanding, 1_000_000_000), Some(5));
    }

    #[test]
    fn a_response_that_is_too_short_answers_nothing() {
        let mut numbers = Numbers::new(&exchange(8, 8));
        let mut outstanding = Outstanding::default();
        asked(&mut numbers, &mut outstanding, 8, &[1]);
        assert_eq!(numbers.answered(&mut outstanding, &[0, 0, 0]), None);
        assert_eq!(numbers.answered(&mut outstanding, &[]), None);
    }

    /// Datagrams in an open loop: all that was due while the peer stalled is late.
    #[test]
    fn an_open_loop_sends_on_while_the_peer_stalls() {
        let far = UdpSocket::bind((HERE, 0)).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let workload = Workload { request_rate_per_s: Some(1000), ..Workload::default() };
        let socket = Arc::new(sockets::udp(&SocketKnobs::default(), &workload, HERE).unwrap());
        socket::connect(&socket, far.local_addr().unwrap()).unwrap();
        let control = Arc::new(Control::default());
        let pace = Pace::of(&workload, 1);
        let flow = Flow::spawn("request 0.0".to_owned(), &control, None, false, move |flow| {
            request(flow, &socket, exchange(4, 4), pace)
        });
        let flow = flow.unwrap();
        control.begin();
        control.open_measurement();
        let mut octets = [0; 4];
        let mut answer = |count: usize| {
            for _ in 0..count {
                let (length, from) = far.recv_from(&mut octets).unwrap();
                far.send_to(&octets[..length], from).unwrap();
            }
        };
        answer(20);
        // shorter than the patience with a request
        std::thread::sleep(Duration::from_millis(60));
        answer(50);
        while flow.counters.transactions() + flow.counters.timeouts() < 70 {
            std::thread::sleep(Duration::from_millis(1));
        }
        control.close_measurement();
        control.stop();
        let (reason, recorded) = flow.join(Instant::now() + Duration::from_secs(10));
        let latency = recorded.all;
        assert_eq!(reason, None);
        let late = latency.count_between(30_000_000, latency.high());
        assert!(late >= 25, "{late} of {}", latency.len());
    }

    #[test]
    fn waiting_for_a_client_ends_with_the_run() {
        let workload = Workload { kind: Protocol::UdpStream, ..Workload::default() };
        let socket = sockets::udp(&SocketKnobs::default(), &workload, HERE).unwrap();
        let control = Arc::new(Control::default());
        control.stop();
        let begun = Instant::now();
        let ended = await_introduction(&socket, &Guard::default(), &control).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::Interrupted);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
}
