//! Datagrams to and from a third-party program, which knows of no preamble and repeats no numbers.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::socket;

use super::FlowContext;
use super::datagram::{MAX_DATAGRAM, TIMEOUT, drain, transient};
use super::send_path::payload;
use super::sizes::Sizes;
use super::transact::Exchange;
use linkrate_protocol::DatagramHabit;

/// How long the program may take to answer the first datagram of a flow.
const ANSWER: Duration = Duration::from_secs(10);

/// The longest answer to a first datagram, and one octet more.
const ANSWER_BYTES: usize = 65;

/// Octets of the header that a numbered datagram has: seconds and microseconds of its sender's clock, and its number
/// from 1, each of 32 bits in network order.
pub const HEADER_BYTES: usize = 12;

/// How often an empty datagram says that a flow is over. One may be lost.
const GOODBYES: u32 = 3;
/// Time in which the peer takes what waits in its queue.
const BEFORE_GOODBYE: Duration = Duration::from_millis(10);

/// Sends the first datagram of a flow once, because a second one could open a second flow, and waits for the answer:
/// `TimedOut` without one, `ConnectionRefused` where nobody listens.
pub fn greet(socket: &OwnedFd, first: &[u8]) -> io::Result<()> {
    socket::set_receive_timeout(socket, TIMEOUT)?;
    socket::send(socket, first)?;
    let deadline = Instant::now() + ANSWER;
    while Instant::now() < deadline {
        match socket::receive(socket, &mut [0; ANSWER_BYTES]) {
            // programs of machines with another order of octets answer with others
            Ok(count) if count == first.len() => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
            Err(error) if transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer to the first datagram"))
}

/// Sends datagrams until sending ends, as the program wants them.
pub fn transmit(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut sizes: Sizes,
    habit: DatagramHabit,
) -> io::Result<()> {
    let mut payload = payload(sizes.largest());
    let mut number: u32 = 0;
    while !flow.control.sending_ended() {
        let size = sizes.draw();
        if habit == DatagramHabit::Numbered {
            write_header(&mut payload[..size], time_of_day_us(), number.wrapping_add(1));
        }
        match socket::send(socket, &payload[..size]) {
            Ok(sent) => {
                flow.counters.add_sent(sent as u64);
                number = number.wrapping_add(1);
            }
            // the same number goes out again, so that only the network loses datagrams
            Err(error) if transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    say_goodbye(socket, habit);
    Ok(())
}

/// Writes as much of the header as the datagram has room for.
fn write_header(datagram: &mut [u8], micros: u64, number: u32) {
    let words = [(micros / 1_000_000) as u32, (micros % 1_000_000) as u32, number];
    let octets = words.into_iter().flat_map(u32::to_be_bytes);
    for (to, from) in datagram.iter_mut().zip(octets) {
        *to = from;
    }
}

/// The time of day, which old programs compare with theirs.
fn time_of_day_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or(u64::MAX))
}

/// Says that the flow is over, if that is how the program hears of it.
fn say_goodbye(socket: &OwnedFd, habit: DatagramHabit) {
    if habit == DatagramHabit::EmptyAtEnd {
        for _ in 0..GOODBYES {
            // the peer's queue may be full of what was sent until now
            std::thread::sleep(BEFORE_GOODBYE);
            // the program that has heard of it listens no more
            let _ = socket::send(socket, &[]);
        }
    }
}

/// Receives datagrams until sending has ended and none has come for a tenth of a second.
pub fn receive(flow: &mut FlowContext, socket: &OwnedFd) -> io::Result<()> {
    socket::set_receive_timeout(socket, TIMEOUT)?;
    let mut buffer = vec![0; MAX_DATAGRAM];
    while !flow.control.stopped() {
        match socket::receive(socket, &mut buffer) {
            Ok(received) => flow.counters.add_received(received as u64),
            Err(error) if transient(&error) => {
                if flow.control.sending_ended() {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes one request after the other. A response does not report which request it answers. So a request without
/// a response in time is given up, and the next one waits until nothing has come for as long again: no late
/// response is taken for its own.
pub fn request(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut exchange: Exchange,
    habit: DatagramHabit,
) -> io::Result<()> {
    socket::set_receive_timeout(socket, TIMEOUT)?;
    let out = payload(exchange.requests.largest());
    let mut buffer = vec![0; MAX_DATAGRAM];
    drain(socket, &mut buffer);
    while !flow.control.sending_ended() {
        let begun_ns = monotonic_ns();
        let sent = socket::send(socket, &out[..exchange.requests.draw()]);
        match sent {
            Ok(sent) => {
                flow.begin_at(begun_ns);
                flow.counters.add_sent(sent as u64);
            }
            Err(error) if transient(&error) => continue,
            Err(error) => return Err(error),
        }
        match socket::receive(socket, &mut buffer) {
            Ok(received) => {
                flow.counters.add_received(received as u64);
                flow.completed();
            }
            Err(error) if transient(&error) => {
                flow.counters.add_timeouts(1);
                // at least so long: it belongs to the tail
                flow.ended();
                while socket::receive(socket, &mut buffer).is_ok() {}
            }
            Err(error) => return Err(error),
        }
    }
    say_goodbye(socket, habit);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
    use std::sync::Arc;

    use linkrate_model::{ByteSize, MessageSize, SocketKnobs, Workload};

    use super::super::{Control, Flow};
    use super::*;
    use crate::sockets;

    const PATIENT: Duration = Duration::from_secs(20);

    fn sizes(bytes: u64) -> Sizes {
        Sizes::new(MessageSize::Fixed(ByteSize(bytes)), 1)
    }

    /// A program, and a socket that is connected to it.
    fn ends() -> (UdpSocket, Arc<OwnedFd>) {
        let program = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        program.set_read_timeout(Some(PATIENT)).unwrap();
        let workload = Workload::default();
        let here = Ipv4Addr::LOCALHOST.into();
        let socket = sockets::udp(&SocketKnobs::default(), &workload, here).unwrap();
        let port = program.local_addr().unwrap().port();
        socket::connect(&socket, SocketAddr::new(here, port)).unwrap();
        (program, Arc::new(socket))
    }

    /// A flow that runs.
    fn flow(
        control: &Arc<Control>,
        body: impl FnOnce(&mut FlowContext) -> io::Result<()> + Send + 'static,
    ) -> Flow {
        let flow = Flow::spawn("send 0.0".to_owned(), control, None, true, body).unwrap();
        control.begin();
        flow
    }

    #[test]
    fn a_first_datagram_waits_for_an_answer_of_its_length() {
        let (program, socket) = ends();
        let answers = std::thread::spawn(move || {
            let mut octets = [0; 16];
            let (count, client) = program.recv_from(&mut octets).unwrap();
            program.send_to(b"too long", client).unwrap();
            program.send_to(b"6789", client).unwrap();
            octets[..count].to_vec()
        });
        greet(&socket, b"9876").unwrap();
        assert_eq!(answers.join().unwrap(), b"9876");
        // the program has ended
        let refused = greet(&socket, b"9876").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn datagrams_have_numbers_without_a_gap() {
        let (program, socket) = ends();
        let control = Arc::new(Control::default());
        let sends =
            flow(&control, move |flow| transmit(flow, &socket, sizes(64), DatagramHabit::Numbered));
        let mut octets = [0; 65];
        for number in 1..=20_u32 {
            assert_eq!(program.recv(&mut octets).unwrap(), 64);
            assert!(u32::from_be_bytes(octets[4..8].try_into().unwrap()) < 1_000_000);
            assert_eq!(octets[8..12], number.to_be_bytes());
        }
        control.end_sending();
        assert_eq!(sends.join(Instant::now() + PATIENT).0, None);
    }

    #[test]
    fn an_empty_datagram_tells_the_end() {
        let (program, socket) = ends();
        let control = Arc::new(Control::default());
        let sends = flow(&control, move |flow| {
            transmit(flow, &socket, sizes(64), DatagramHabit::EmptyAtEnd)
        });
        let mut octets = [0; 65];
        assert_eq!(program.recv(&mut octets).unwrap(), 64);
        control.end_sending();
        while program.recv(&mut octets).unwrap() > 0 {}
        assert_eq!(sends.join(Instant::now() + PATIENT).0, None);
    }

    #[test]
    fn a_late_response_answers_no_other_request() {
        let (program, socket) = ends();
        let control = Arc::new(Control::default());
        let requests = flow(&control, move |flow| {
            let exchange = Exchange { requests: sizes(8), responses: sizes(8) };
            request(flow, &socket, exchange, DatagramHabit::EmptyAtEnd)
        });
        let mut octets = [0; 16];
        let (_, client) = program.recv_from(&mut octets).unwrap();
        // behind its time, and before the time that the next request waits for
        let given_up = || requests.counters.timeouts() == 1;
        while !given_up() {
            std::thread::sleep(Duration::from_millis(1));
        }
        program.send_to(&octets[..8], client).unwrap();
        // the next request comes when nothing has come for a while
        program.recv_from(&mut octets).unwrap();
        assert_eq!(requests.counters.transactions(), 0);
        program.send_to(&octets[..8], client).unwrap();
        let deadline = Instant::now() + PATIENT;
        while requests.counters.transactions() == 0 {
            assert!(Instant::now() < deadline, "the response is not counted");
            // one that waited too long on a busy machine is asked for again
            program.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
            if program.recv_from(&mut octets).is_ok() {
                program.send_to(&octets[..8], client).unwrap();
            }
        }
        control.end_sending();
        assert_eq!(requests.join(Instant::now() + PATIENT).0, None);
    }
}
