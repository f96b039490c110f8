//! TCP transactions on connections that stay open (request/response, TCP_RR).
//!
//! Clients send requests, the system under test answers. Both ends draw the sizes from the same
//! seed, so no length is sent. Requests begin when responses have come (a closed loop), or at a given rate (an open
//! loop).

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use linkrate_sys::socket;

use super::FlowContext;
use super::outstanding::Pace;
use super::send_path::payload;
use super::sizes::Sizes;

/// How long a flow waits before it looks for the end of the run.
const TIMEOUT: Duration = Duration::from_millis(200);

/// The sizes of the requests and responses of one flow, equal at both ends.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub requests: Sizes,
    pub responses: Sizes,
}

/// Makes requests until told to stop. In an open loop the latency of each counts from the time that it was due, also
/// where it was sent later. `UnexpectedEof` when the peer closes first.
pub fn request(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut exchange: Exchange,
    pace: Pace,
) -> io::Result<()> {
    let out = payload(exchange.requests.largest());
    let mut buffer = vec![0; exchange.responses.largest()];
    if let Pace::Closed(0 | 1) = pace {
        while !flow.control.sending_ended() {
            flow.begin();
            send_all(flow, socket, &out[..exchange.requests.draw()])?;
            receive_exactly(flow, socket, &mut buffer, exchange.responses.draw())?;
            flow.completed();
        }
        return Ok(());
    }
    flow.keep(pace)?;
    request_several(flow, socket, exchange, &out, &mut buffer)
}

/// With several outstanding requests, a blocking send could wait for a peer that itself waits to
/// send a response. So only the poll blocks, and neither direction does.
fn request_several(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut exchange: Exchange,
    out: &[u8],
    buffer: &mut [u8],
) -> io::Result<()> {
    let (mut unsent, mut request_length) = (0, 0);
    let mut unreceived = exchange.responses.draw();
    while !flow.control.stopped() {
        let mut moved = false;
        let ended = flow.control.sending_ended();
        if ended && flow.outstanding.is_empty() {
            break;
        }
        while unsent > 0 || !ended && flow.begin_if_due() {
            if unsent == 0 {
                request_length = exchange.requests.draw();
                unsent = request_length;
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
                flow.completed();
                break;
            }
        }
        if !moved {
            let due = flow.due_in().filter(|_| unsent == 0 && !ended);
            let wait = due.unwrap_or(TIMEOUT).min(TIMEOUT);
            flow.parking.call(|| socket::wait_ready(socket, unsent > 0, wait))?;
        }
    }
    Ok(())
}

/// Answers requests until told to stop; `UnexpectedEof` when the peer closes first.
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread::sleep;
    use std::time::Instant;

    use hdrhistogram::Histogram;
    use linkrate_model::{ByteSize, MessageSize, Workload};

    use super::super::{Control, Flow, Recorded};
    use super::*;

    const STALL: Duration = Duration::from_millis(100);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        near.set_nodelay(true).unwrap();
        far.set_nodelay(true).unwrap();
        (near, far)
    }

    fn requesting(stream: TcpStream, control: &Arc<Control>, workload: &Workload) -> Flow {
        let socket = Arc::new(OwnedFd::from(stream));
        let shared = Some(Arc::clone(&socket));
        let pace = Pace::of(workload, 1);
        Flow::spawn("request 0.0".to_owned(), control, shared, false, move |flow| {
            let sizes = || Sizes::new(MessageSize::Fixed(ByteSize(1)), 1);
            request(flow, &socket, Exchange { requests: sizes(), responses: sizes() }, pace)
        })
        .unwrap()
    }

    /// Answers one request after the other, so many.
    fn answer(far: &mut TcpStream, requests: usize) {
        let mut octet = [0];
        for _ in 0..requests {
            far.read_exact(&mut octet).unwrap();
            far.write_all(&octet).unwrap();
        }
    }

    fn recorded(control: &Control, flow: Flow) -> Recorded {
        control.stop();
        socket::shut_down(flow.socket.as_ref().unwrap());
        let (reason, recorded) = flow.join(Instant::now() + Duration::from_secs(10));
        assert_eq!(reason, None);
        recorded
    }

    fn latencies(control: &Control, flow: Flow) -> Histogram<u64> {
        recorded(control, flow).all
    }

    /// How many took at least half of the stall.
    fn long(latency: &Histogram<u64>) -> u64 {
        latency.count_between(STALL.as_nanos() as u64 / 2, latency.high())
    }

    fn open(rate: u32) -> Workload {
        Workload { request_rate_per_s: Some(rate), ..Workload::default() }
    }

    #[test]
    fn a_stall_over_the_closing_edge_leaves_its_trace() {
        for (workload, least) in [
            (Workload::default(), 1),
            (Workload { burst: 4, ..Workload::default() }, 4),
            // the requests of the first half of the stall
            (open(1000), 40),
        ] {
            let (near, mut far) = pair();
            let control = Arc::new(Control::default());
            let flow = requesting(near, &control, &workload);
            control.begin();
            control.open_measurement();
            answer(&mut far, 50);
            sleep(STALL);
            control.close_measurement();
            let recorded = recorded(&control, flow);
            let latency = &recorded.all;
            assert!(long(latency) >= least, "{workload:?}: {}", long(latency));
            // none of those of the stall has ended
            let half = STALL.as_nanos() as u64 / 2;
            let long_ages = recorded.open.iter().filter(|(age_ns, _)| *age_ns > half);
            assert!(long_ages.map(|(_, count)| count).sum::<u64>() >= least, "{recorded:?}");
        }
    }

    /// The peer stalls for a tenth of a second. A closed loop has one request in it.
    #[test]
    fn all_that_was_due_in_a_stall_is_late() {
        for (workload, least, most) in [(Workload::default(), 1, 1), (open(1000), 40, u64::MAX)] {
            let (near, mut far) = pair();
            let control = Arc::new(Control::default());
            let flow = requesting(near, &control, &workload);
            control.begin();
            control.open_measurement();
            answer(&mut far, 50);
            sleep(STALL);
            // in the closed loop one request waits; in the open one at least those of the stall
            answer(&mut far, least as usize);
            while flow.counters.transactions() < 50 + least {
                sleep(Duration::from_millis(1));
            }
            control.close_measurement();
            let latency = latencies(&control, flow);
            assert!((least..=most).contains(&long(&latency)), "{workload:?}: {}", long(&latency));
        }
    }

    /// A socket that takes nothing more holds requests back. They count with their ages all the same.
    #[test]
    fn what_was_due_and_not_sent_is_open_too() {
        let (near, far) = pair();
        let control = Arc::new(Control::default());
        let workload = Workload { request: MessageSize::Fixed(ByteSize(1)), ..open(20_000) };
        let flow = requesting(near, &control, &workload);
        let before = Instant::now();
        control.begin();
        control.open_measurement();
        // more than may be outstanding
        sleep(Duration::from_millis(400));
        control.close_measurement();
        let due = before.elapsed().as_secs_f64() * 20_000.0;
        let latency = latencies(&control, flow);
        assert!(latency.len() > 4200, "{} of {due}", latency.len());
        assert!((latency.len() as f64) <= due + 1.0, "{} of {due}", latency.len());
        drop(far);
    }

    /// A request that began behind the close is not of the measurement, and one that is younger than all that ended tells
    /// nothing.
    #[test]
    fn the_youngest_requests_do_not_count() {
        let (near, mut far) = pair();
        let control = Arc::new(Control::default());
        let flow = requesting(near, &control, &Workload::default());
        control.begin();
        control.open_measurement();
        for _ in 0..5 {
            sleep(Duration::from_millis(20));
            answer(&mut far, 1);
        }
        while flow.counters.transactions() < 5 {
            sleep(Duration::from_millis(1));
        }
        control.close_measurement();
        sleep(Duration::from_millis(20));
        answer(&mut far, 3);
        let latency = latencies(&control, flow);
        // on a busy machine the sixth may have been open for as long as another
        assert!((5..=6).contains(&latency.len()), "{}", latency.len());
        // the age of the sixth was that of a moment
        assert!(latency.min() >= 5_000_000, "{}", latency.min());
    }
}
