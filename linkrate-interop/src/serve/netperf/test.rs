//! One test of netperf: what is granted, the response, the run, the results.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use linkrate_sys::bound_socket::{Buffers, datagrams, listener};
use linkrate_sys::sched::{current_thread, set_affinity, thread_cpu_ns};
use linkrate_sys::socket::{
    buffers, congestion, set_listed_congestion, set_nodelay, set_priority, set_receive_timeout,
    set_send_timeout, set_type_of_service,
};
use linkrate_sys::tcp_info::tcp_info;

use super::super::POLL_INTERVAL;
use super::super::budget::THREAD_BYTES;
use super::super::interface::InterfaceReport;
use super::super::report::{Ending, SessionReport, TcpReport};
use super::super::verdict::{Evidence, verdict};
use super::cpu::{METHOD, Meter};
use super::flow::{Flow, Tally};
use super::source::Source;
use super::watch::{PAD, Watch};
use super::{BETWEEN, Control, Ended, Shared, cpus, failed, rate, refusal};
use crate::iperf3::Transport;
use crate::netperf::{
    Form, Kind, MAX_CALL, Message, OmniRequest, OmniResponse, OmniResults, Pace, Placement, Ring,
    RingSize, Shape,
};

/// Connections that may wait while the server is busy with one.
const BACKLOG: i32 = 128;
/// Open files of a test: its control connection, what listens, what that accepts, and that of the thread that watches it.
const FILES: u64 = 4;
/// Most octets of a datagram of IPv4.
const MAX_DATAGRAM: usize = 65_507;

/// Serves a test, and returns what there is to report on it.
pub(super) fn serve<'a>(
    shared: &'a Shared<'a>,
    control: &mut Control<'a>,
    form: Form,
    message: &Message,
    mut report: SessionReport,
) -> SessionReport {
    let mut evidence = Evidence::default();
    let ended = run(shared, control, form, message, &mut report, &mut evidence);
    if let Some(client) = report.client.filter(|_| control.pending.is_none()) {
        control.pending = Some(shared.admission.arrived(&control.stream, client.ip()).0);
    }
    report.end(ended);
    report.verdict = verdict(&report, evidence);
    report
}

fn run(
    shared: &Shared,
    control: &mut Control,
    form: Form,
    message: &Message,
    report: &mut SessionReport,
    evidence: &mut Evidence,
) -> Result<(), Ending> {
    let kind = message.kind();
    let asked = form
        .request(message)
        .map_err(|error| control.refuse(kind, refusal::INVALID, error.to_string()))?;
    report.test = Some(name(&asked));
    report.direction = ways(asked.shape);
    grant(shared, &asked).map_err(|(errno, reason)| control.refuse(kind, errno, reason))?;
    let _running = match report.client {
        Some(client) => shared.admission.begin(client.ip()),
        None => return Err(Ending::ClientLeft),
    }
    .map_err(|reason| control.refuse(kind, refusal::BUSY, reason))?;
    control.pending = None;
    let address = address(shared, control, &asked)
        .map_err(|(errno, reason)| control.refuse(kind, errno, reason))?;
    let source = source(control, address, &asked)?;
    let sockets = Sockets::of(&asked, address).map_err(|error| {
        // why is for the log alone
        let reason = format!("socket of the test at {address}: {error}");
        control.refuse(kind, refusal::NOT_GRANTED, reason)
    })?;
    let rings = rings(&asked, sizes(&sockets));
    let memory = (rings.0.bytes() + rings.1.bytes()) as u64 + 2 * THREAD_BYTES;
    let _taken = shared
        .budget
        .take(memory, FILES)
        .map_err(|reason| control.refuse(kind, refusal::BUSY, reason))?;
    if let Some(cpu) = message.cpu() {
        // one that this host lacks is no reason to measure nothing
        let _ = set_affinity(current_thread(), &[cpu].into_iter().collect());
    }
    let transport = if asked.udp { Transport::Udp } else { Transport::Tcp };
    let far = report.client.unwrap_or(address);
    report.interface = InterfaceReport::of(address.ip(), far.ip(), transport);
    measure(control, form, &asked, &sockets, source, rings, report)?;
    // the thread of the session is the only one
    evidence.busiest_percent = report.cpu_percent;
    Ok(())
}

/// What netperf calls a test.
fn name(asked: &OmniRequest) -> &'static str {
    match (asked.shape, asked.udp) {
        (Shape::Stream, false) => "TCP_STREAM",
        (Shape::Maerts, false) => "TCP_MAERTS",
        (Shape::RequestResponse, false) => "TCP_RR",
        (Shape::ConnectRequestResponse, false) => "TCP_CRR",
        (Shape::Connect, false) => "TCP_CC",
        (Shape::Stream, true) => "UDP_STREAM",
        (Shape::Maerts, true) => "UDP_MAERTS",
        (Shape::RequestResponse, true) => "UDP_RR",
        (Shape::ConnectRequestResponse | Shape::Connect, true) => "UDP_CRR",
    }
}

fn ways(shape: Shape) -> Option<&'static str> {
    match shape {
        Shape::Stream => Some("forward"),
        Shape::Maerts => Some("reverse"),
        Shape::RequestResponse | Shape::ConnectRequestResponse => Some("both"),
        Shape::Connect => None,
    }
}

/// Why a test cannot be, with the number that its client is told.
type Refused = (u32, String);

fn grant(shared: &Shared, asked: &OmniRequest) -> Result<(), Refused> {
    let limits = shared.admission.limits;
    if asked.udp && !matches!(asked.shape, Shape::Stream | Shape::RequestResponse) {
        let reason = format!("{}, expected UDP_STREAM or UDP_RR", name(asked));
        return Err((refusal::UNSUPPORTED, reason));
    }
    if !asked.fill_file.is_empty() && !matches!(asked.shape, Shape::Stream | Shape::Connect) {
        // no client has files of this host sent to it
        let reason = format!("payload of the file {}, expected none (-F FILE,)", asked.fill_file);
        return Err((refusal::UNSUPPORTED, reason));
    }
    let seconds = asked.test_length.max(0).cast_unsigned();
    if seconds > limits.seconds {
        let reason = format!("a test of {seconds} s, expected at most {} s", limits.seconds);
        return Err((refusal::NOT_GRANTED, reason));
    }
    let units = u64::from(asked.test_length.min(0).unsigned_abs());
    let bytes = match asked.shape {
        Shape::Stream | Shape::Maerts => units,
        Shape::Connect => 0,
        Shape::RequestResponse | Shape::ConnectRequestResponse => {
            let both = u64::from(asked.request_size) + u64::from(asked.response_size);
            units.saturating_mul(both)
        }
    };
    if bytes > limits.bytes {
        let reason = format!("{bytes} bytes, expected at most {}", limits.bytes);
        return Err((refusal::NOT_GRANTED, reason));
    }
    Ok(())
}

/// Where the test listens: at the address of the control connection, at a free port. A client of a network that is
/// granted by name may choose another address that the server listens on, and a port that needs no privilege: what others
/// learn by that about ports and addresses of this host is not theirs.
fn address(shared: &Shared, control: &Control, asked: &OmniRequest) -> Result<SocketAddr, Refused> {
    /// The first port that needs no privilege.
    const FIRST_PORT: u16 = 1024;
    let here = control.stream.local_addr().map_err(|error| {
        (refusal::INVALID, format!("address of the control connection: {error}"))
    })?;
    let is_trusted = !shared.admission.limits.networks.is_empty();
    // a listener of all addresses of IPv6 has those of IPv4 too
    let is_everywhere = |named: IpAddr| {
        shared.address.is_unspecified() && (shared.address.is_ipv6() || named.is_ipv4())
    };
    let address = match asked.data_address {
        None => here.ip(),
        Some(named) if named == here.ip().to_canonical() => named,
        Some(named) if is_trusted && is_everywhere(named) => named,
        Some(named) => {
            let reason = format!("data connection to {named}, expected {}", here.ip());
            return Err((refusal::NOT_GRANTED, reason));
        }
    };
    let port = asked.data_port;
    if port != 0 && (!is_trusted || port < FIRST_PORT) {
        let expected = if is_trusted { "1024 or more" } else { "0, or --allow" };
        let reason = format!("data connection to port {port}, expected {expected}");
        return Err((refusal::NOT_GRANTED, reason));
    }
    // that of the control connection may have a zone
    let mut address = if address == here.ip() { here } else { SocketAddr::new(address, 0) };
    address.set_port(port);
    Ok(address)
}

fn source(control: &Control, data: SocketAddr, asked: &OmniRequest) -> Result<Source, Ending> {
    let client = control.stream.peer_addr().map_err(|_| Ending::ClientLeft)?;
    let here = control.stream.local_addr().map_err(failed)?;
    Ok(Source::of(client, here, data, asked.client_address))
}

/// What the data of a test comes to.
enum Sockets {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl AsFd for Sockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

impl Sockets {
    fn of(asked: &OmniRequest, address: SocketAddr) -> std::io::Result<Self> {
        let sizes = Buffers { send: asked.send_buffer, receive: asked.receive_buffer };
        let sockets = match asked.udp {
            true => Self::Udp(datagrams(address, sizes)?),
            false => {
                let listener = listener(address, sizes, BACKLOG)?;
                if asked.nodelay {
                    set_nodelay(&listener, true)?;
                }
                if !asked.congestion.is_empty() {
                    // the results say which one it was
                    let _ = set_listed_congestion(&listener, &asked.congestion);
                }
                Self::Tcp(listener)
            }
        };
        if let Some(tos) = asked.tos {
            set_type_of_service(&sockets, tos)?;
        }
        // the type of service has set it too
        if let Some(priority) = asked.priority {
            set_priority(&sockets, priority)?;
        }
        set_receive_timeout(&sockets, POLL_INTERVAL)?;
        set_send_timeout(&sockets, Some(POLL_INTERVAL))?;
        Ok(sockets)
    }

    fn port(&self) -> std::io::Result<u16> {
        let address = match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
        };
        address.map(|address| address.port())
    }
}

/// SO_SNDBUF and SO_RCVBUF.
fn sizes(socket: impl AsFd) -> (u32, u32) {
    buffers(socket).map_or((0, 0), |(send, receive)| (send as u32, receive as u32))
}

/// The buffers of both ways, sizes and numbers as a netserver chooses them, up to [`MAX_CALL`] octets each way.
fn rings(asked: &OmniRequest, (send, receive): (u32, u32)) -> (RingSize, RingSize) {
    let ring = |message: u32, call: Option<u32>, width: Option<u32>, place: Placement, buffer| {
        let (call, own) = match (message, call) {
            (0, call) => {
                let call = call.unwrap_or(buffer).max(1);
                (call, <Ring>::width_of_stream(call, buffer))
            }
            (message, _) => (message, 1),
        };
        RingSize::of(call as usize, width.unwrap_or(own) as usize, place)
    };
    let most = if asked.udp { MAX_DATAGRAM as u32 } else { MAX_CALL };
    (
        ring(
            asked.response_size,
            asked.send_size,
            asked.send_width,
            asked.send_placement,
            send.min(most),
        ),
        ring(
            asked.request_size,
            asked.receive_size,
            asked.receive_width,
            asked.receive_placement,
            receive.min(MAX_CALL),
        ),
    )
}

fn measure(
    control: &mut Control,
    form: Form,
    asked: &OmniRequest,
    sockets: &Sockets,
    source: Source,
    (send, receive): (RingSize, RingSize),
    report: &mut SessionReport,
) -> Result<(), Ending> {
    let (send_buffer, receive_buffer) = sizes(sockets);
    let response = OmniResponse {
        data_port: sockets.port().map_err(failed)?,
        send_buffer: send_buffer.cast_signed(),
        receive_buffer: receive_buffer.cast_signed(),
        send_size: send.call() as u32,
        receive_size: receive.call() as u32,
        send_width: send.width() as u32,
        receive_width: receive.width() as u32,
        nodelay: asked.nodelay,
        measures_cpu: asked.measures_cpu,
        cpu_rate: if asked.measures_cpu { rate() } else { 0.0 },
        test_length: asked.test_length.max(0).cast_unsigned(),
        intervals: asked.intervals,
        priority: asked.priority,
        tos: asked.tos,
    };
    control.tell(&form.response(&response))?;
    let meter = asked.measures_cpu.then(Meter::start).flatten();
    let own = thread_cpu_ns(current_thread()).unwrap_or(0);
    let receives = asked.shape != Shape::Maerts;
    let pad = if receives { PAD } else { Duration::ZERO };
    let timer = u64::try_from(asked.test_length).ok().filter(|seconds| *seconds > 0);
    let timer = timer.map(|seconds| Duration::from_secs(seconds) + pad);
    // a lost datagram is not waited for
    let wait = if asked.udp { Duration::ZERO } else { BETWEEN };
    let mut watch = Watch::start(control, timer, pad, wait, meter);
    let mut flow = Flow {
        shape: asked.shape,
        source,
        send: Ring::to_send(send).map_err(failed)?,
        receive: Ring::to_receive(receive).map_err(failed)?,
        units: (asked.test_length < 0).then_some(asked.test_length.unsigned_abs().into()),
        pace: asked.intervals.map(Pace::of),
        tally: Tally::default(),
    };
    let mut stream = None;
    let ended = match sockets {
        Sockets::Tcp(listener) => flow.connections(listener, &mut stream, &mut watch),
        Sockets::Udp(socket) => flow.datagrams(socket, &mut watch),
    };
    let tally = flow.tally;
    let elapsed = watch.elapsed();
    let cpu_ns = thread_cpu_ns(current_thread()).unwrap_or(0).saturating_sub(own);
    let meter = watch.meter.take();
    let (late, seconds) = match (&ended, timer) {
        // the test itself ended with its time
        (Ok(Ended::TimeUp), Some(timer)) if receives => (true, timer.saturating_sub(pad)),
        _ => (false, elapsed),
    };
    let seconds = seconds.as_secs_f64();
    fill(report, asked, tally, seconds);
    report.cpu_percent = cpu_ns as f64 / 1e7 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let info = stream.as_ref().and_then(|stream| tcp_info(stream).ok());
    report.tcp = TcpReport::of(info);
    // what waits in the send buffer at the end has not arrived; kernels before 4.1 do not report
    let acknowledged = info.map(|info| info.bytes_acked).filter(|octets| *octets > 0);
    if let Some(octets) = acknowledged.filter(|_| asked.shape == Shape::Maerts && seconds > 0.0) {
        report.bits_per_second = octets.min(tally.sent_bytes) as f64 * 8.0 / seconds;
    }
    let retransmits = info.map(|info| info.total_retrans);
    report.retransmits = retransmits.filter(|_| tally.sent_bytes > 0).map(u64::from);
    if let Err(Ending::Refused(reason)) = ended {
        return Err(control.refuse(Kind::OmniResponse, refusal::TIMED_OUT, reason));
    }
    ended?;
    let used = meter.and_then(|meter| meter.used(late));
    let (send_end, receive_end) = stream.as_ref().map_or((send_buffer, receive_buffer), sizes);
    let results = OmniResults {
        received_bytes: tally.received_bytes,
        receive_calls: tally.receive_calls,
        receive_buffer: asked.receive_buffer.map_or(receive_end, |_| receive_buffer).cast_signed(),
        sent_bytes: tally.sent_bytes,
        send_calls: tally.send_calls,
        send_buffer: asked.send_buffer.map_or(send_end, |_| send_buffer).cast_signed(),
        transactions: tally.transactions as u32,
        seconds: seconds as f32,
        cpu_percent: used.map(|used| used.percent),
        modes: used.map(|used| used.modes),
        service_demand: used.map(|used| service_demand(tally, seconds, used.percent, used.cpus)),
        cpu_method: if used.is_some() { METHOD } else { 0 },
        cpus: used.map_or_else(cpus, |used| used.cpus),
        peak_cpu: used.and_then(|used| used.peak),
        retransmits,
        congestion: stream.as_ref().and_then(|stream| congestion(stream).ok()).unwrap_or_default(),
    };
    // the client waits for the end of its connection before it reads the results
    drop(stream);
    if control.has_closed() {
        return Err(Ending::ClientLeft);
    }
    control.tell(&form.results(&results, control.layout()))
}

fn fill(report: &mut SessionReport, asked: &OmniRequest, tally: Tally, seconds: f64) {
    report.streams = 1;
    report.seconds = seconds;
    (report.received_bytes, report.sent_bytes) = (tally.received_bytes, tally.sent_bytes);
    let counted = match asked.shape {
        Shape::Maerts => tally.sent_bytes,
        _ => tally.received_bytes,
    };
    if seconds > 0.0 {
        report.bits_per_second = counted as f64 * 8.0 / seconds;
    }
    let transacts = !matches!(asked.shape, Shape::Stream | Shape::Maerts);
    report.transactions = transacts.then_some(tally.transactions);
}

/// CPU time of the host for each transaction, or for each KB (1024 octets) of a stream, µs.
fn service_demand(tally: Tally, seconds: f64, percent: f32, cpus: u32) -> f32 {
    let units = match tally.transactions {
        0 => (tally.received_bytes + tally.sent_bytes) as f64 / 1024.0,
        transactions => transactions as f64,
    };
    if units == 0.0 {
        return 0.0;
    }
    (f64::from(percent) * 1e4 * f64::from(cpus) * seconds / units) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_bounded_whatever_sockets_have_and_clients_ask_for() {
        let asked = OmniRequest::of(Shape::Stream, false, 1);
        let many = Some(u32::MAX);
        for (asked, most) in [
            // buffers of sockets on a host with large limits
            (asked.clone(), MAX_CALL),
            (OmniRequest { send_width: many, receive_width: many, ..asked.clone() }, MAX_CALL),
            (OmniRequest { request_size: MAX_CALL, response_size: 1, ..asked.clone() }, MAX_CALL),
            (
                OmniRequest {
                    send_size: Some(1000),
                    receive_size: Some(1000),
                    send_width: many,
                    receive_width: many,
                    ..asked
                },
                8 << 20,
            ),
        ] {
            let (send, receive) = rings(&asked, (u32::MAX, u32::MAX));
            let octets = [send.bytes(), receive.bytes()];
            // and what the places of the buffers take
            let most = most as usize + 8192;
            assert!(octets.iter().all(|octets| *octets <= most), "{octets:?} {asked:?}");
        }
    }
}
