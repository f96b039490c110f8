//! The payload of a test at this end.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use linkrate_model::Family;
use linkrate_sys::socket;
use linkrate_sys::tcp_info::tcp_info;
use linkrate_sys::unnamed_file::{memory_file, sendfile};

use linkrate_interop::netperf::{OmniResponse, Ring, Shape};
use linkrate_interop::payload::guarded;
use linkrate_sys::bounded::is_passing;

use super::options::{Length, Options};
use super::report::{Progress, Tally};

/// How long a call may wait before it looks at the end of the test.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a connection may take to be made, or the peer to close it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A UDP transaction without a response for so long ends the test, as a lost datagram would end netperf's.
const SILENCE: Duration = Duration::from_secs(5);
/// An interval that is not named.
const INTERVAL: Duration = Duration::from_millis(1);
/// Empty datagrams that tell a server of the end, as netperf sends them: some may be lost.
const FAREWELLS: usize = 3;
/// The largest datagram of IPv4.
const MAX_DATAGRAM: u32 = 65_507;
/// Latencies are kept with three digits, up to a minute, in ns.
const MAX_NS: u64 = 60_000_000_000;

/// The end of a test.
struct Clock<'a> {
    begun: Instant,
    until: Option<Instant>,
    units: Option<u64>,
    stop: &'a AtomicBool,
}

impl Clock<'_> {
    fn goes_on(&self, units: u64) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
            && self.units.is_none_or(|most| units < most)
            && !self.stop.load(Ordering::Relaxed)
    }
}

/// A bound of the calls in each interval.
#[derive(Debug)]
struct Pace {
    burst: u32,
    interval: Duration,
    /// Calls that are left in this one.
    left: u32,
    /// When the next one begins.
    next: Instant,
}

impl Pace {
    fn of(burst: u32, interval: Option<Duration>) -> Self {
        let interval = interval.unwrap_or(INTERVAL);
        Self { burst, interval, left: burst, next: Instant::now() + interval }
    }

    /// Takes a call. Where it was the last one of its interval, this is how long the next one is to be waited for. An
    /// interval that the calls outlast is left out, as by a timer that fires meanwhile.
    fn take(&mut self) -> Duration {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return Duration::ZERO;
        }
        self.left = self.burst;
        let now = Instant::now();
        while self.next <= now {
            self.next += self.interval;
        }
        let pause = self.next - now;
        self.next += self.interval;
        pause
    }
}

/// Moves the payload of a test until it is over, and until the peer has closed.
pub(super) fn run(
    options: &Options,
    server: Ipv4Addr,
    response: &OmniResponse,
    progress: &Progress,
    stop: &AtomicBool,
) -> io::Result<Tally> {
    let peer = SocketAddr::new(server.into(), response.data_port);
    let socket = open(options)?;
    let before = socket::buffers(&socket)?;
    let choice = |size: Option<u32>, buffer: u64| {
        let most = if options.test.udp { MAX_DATAGRAM } else { u32::MAX };
        size.unwrap_or(u32::try_from(buffer).unwrap_or(u32::MAX)).clamp(1, most)
    };
    let transacts = !matches!(options.test.shape, Shape::Stream | Shape::Maerts);
    let calls = match transacts {
        true => options.sizes(),
        false => [choice(options.message[0][0], before.0), choice(options.message[0][1], before.1)],
    };
    let latencies = match transacts {
        true => Some(Histogram::new_with_bounds(1, MAX_NS, 3).map_err(io::Error::other)?),
        false => None,
    };
    let mut tally = Tally {
        sent_bytes: 0,
        received_bytes: 0,
        send_calls: 0,
        receive_calls: 0,
        failed_calls: 0,
        transactions: 0,
        seconds: 0.0,
        paused_seconds: 0.0,
        local: None,
        latencies,
        buffers: [before; 2],
        calls,
        info: None,
        congestion: None,
    };
    let begun = Instant::now();
    let (until, units) = match options.length {
        Length::Seconds(seconds) => (Some(begun + Duration::from_secs(seconds.into())), None),
        Length::Units(units) => (None, Some(units)),
    };
    let clock = Clock { begun, until, units, stop };
    let pace = options.interval_burst.map(|burst| Pace::of(burst, options.interval));
    let mut flow = Flow { options, progress, clock, pace, tally: &mut tally };
    match (options.test.udp, options.test.shape) {
        (true, shape) => {
            socket::connect(&socket, peer)?;
            flow.datagrams(&UdpSocket::from(socket), shape)?;
        }
        (false, Shape::Connect | Shape::ConnectRequestResponse) => {
            drop(socket);
            flow.connections(peer)?;
        }
        (false, shape) => {
            flow.connection(TcpStream::from(socket), peer, shape)?;
        }
    }
    Ok(tally)
}

/// A socket with the options that are asked for.
fn open(options: &Options) -> io::Result<std::os::fd::OwnedFd> {
    let socket = socket::ip_socket(Family::Ipv4, options.test.udp)?;
    if options.data_ports[0] > 0 || options.local.is_some() {
        socket::set_reuse_address(&socket)?;
        let local = options.local.unwrap_or(Ipv4Addr::UNSPECIFIED);
        socket::bind(&socket, SocketAddr::new(local.into(), options.data_ports[0]))?;
    }
    if let Some(tos) = options.tos[0] {
        socket::set_type_of_service(&socket, tos)?;
    }
    if !options.may_be_routed() {
        socket::keep_off_routers(&socket)?;
    }
    socket::ask_for_each_buffer(&socket, options.buffers[0])?;
    if !options.test.udp {
        if options.nodelay {
            socket::set_nodelay(&socket, true)?;
        }
        if let Some(congestion) = &options.congestion[0] {
            socket::set_congestion(&socket, congestion)?;
        }
    }
    socket::set_send_timeout(&socket, Some(POLL_INTERVAL))?;
    socket::set_receive_timeout(&socket, POLL_INTERVAL)?;
    Ok(socket)
}

struct Flow<'a> {
    options: &'a Options,
    progress: &'a Progress,
    clock: Clock<'a>,
    pace: Option<Pace>,
    tally: &'a mut Tally,
}

impl Flow<'_> {
    fn count(&self, units: u64) {
        self.progress.units.store(units, Ordering::Relaxed);
    }

    /// Waits for the next interval where this one has had its calls, and no longer than the test lasts.
    fn pause(&mut self) {
        let Some(pace) = &mut self.pace else { return };
        let until = Instant::now() + pace.take();
        let until = self.clock.until.map_or(until, |end| until.min(end));
        let begun = Instant::now();
        while !self.clock.stop.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
        self.tally.paused_seconds += begun.elapsed().as_secs_f64();
    }

    fn end(&mut self) {
        self.tally.seconds = self.clock.begun.elapsed().as_secs_f64();
    }

    fn connection(
        &mut self,
        mut stream: TcpStream,
        peer: SocketAddr,
        shape: Shape,
    ) -> io::Result<()> {
        match shape {
            Shape::Maerts => self.receive(&mut stream, peer)?,
            Shape::Stream => self.send(&mut stream, peer)?,
            _ => {
                socket::connect_within(&stream, peer, TIMEOUT)?;
                self.transact(&mut stream)?;
            }
        }
        self.tally.local = stream.local_addr().ok();
        self.tally.info = tcp_info(&stream).ok();
        self.tally.congestion = socket::congestion(&stream).ok();
        self.tally.buffers[1] = socket::buffers(&stream)?;
        if shape != Shape::Maerts {
            socket::end_sending(&stream);
            self.await_end(&mut stream)?;
        }
        if shape == Shape::Stream {
            // everything has arrived, as netperf waits for it too
            self.end();
        }
        Ok(())
    }

    /// Connects to `peer`, and runs `work` over the connection, whose calls wait without a limit, until it ends or the
    /// clock says so at `until`: then calls that go `way` return. The flag says whether that was the end.
    fn guarded(
        &mut self,
        stream: &mut TcpStream,
        peer: SocketAddr,
        way: Shutdown,
        until: Option<Instant>,
        work: impl FnOnce(&mut Self, &mut TcpStream, &AtomicBool) -> io::Result<()>,
    ) -> io::Result<()> {
        let (is_over, stop) = (AtomicBool::new(false), self.clock.stop);
        let watch = || {
            let left = until
                .map_or(POLL_INTERVAL, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() || stop.load(Ordering::Relaxed) {
                is_over.store(true, Ordering::Relaxed);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(left.min(POLL_INTERVAL))
        };
        guarded(stream, way, watch, |stream| {
            // the peer may send at once, and what waits for the first call makes the receive buffer grow
            socket::connect_within(&*stream, peer, TIMEOUT)?;
            work(self, stream, &is_over)
        })?
    }

    /// The buffers that a stream is sent from (0), or received into (1).
    fn ring(&self, way: usize) -> io::Result<Ring> {
        let (send, receive) = self.tally.buffers[0];
        let buffer = [send, receive][way];
        Ring::of_stream(self.tally.calls[way], u32::try_from(buffer).unwrap_or(u32::MAX))
    }

    fn send(&mut self, stream: &mut TcpStream, peer: SocketAddr) -> io::Result<()> {
        let ring = self.ring(0)?;
        let until = self.clock.until;
        self.guarded(stream, peer, Shutdown::Write, until, |flow, stream, is_over| {
            flow.send_until(stream, ring, is_over)
        })
    }

    fn send_until(
        &mut self,
        stream: &mut TcpStream,
        mut ring: Ring,
        is_over: &AtomicBool,
    ) -> io::Result<()> {
        let sends_files = self.options.test.sends_files;
        let file = sends_files.then(|| memory_file(ring.next_buffer())).transpose()?;
        while !is_over.load(Ordering::Relaxed) {
            let left = self.clock.units.map_or(u64::MAX, |most| most - self.tally.sent_bytes);
            if left == 0 {
                break;
            }
            let most = ring.call().min(usize::try_from(left).unwrap_or(usize::MAX));
            let sent = match &file {
                None => stream.write(&ring.next_buffer()[..most]),
                Some(file) => sendfile(&*stream, file, 0, most),
            };
            match sent {
                Ok(octets) => {
                    self.tally.sent_bytes += octets as u64;
                    self.tally.send_calls += 1;
                    self.count(self.tally.sent_bytes);
                    self.pause();
                }
                Err(error) if is_passing(&error) => {}
                // the end of the test, and not of the connection
                Err(_) if is_over.load(Ordering::Relaxed) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives until the peer closes, which is when its own time is over.
    fn receive(&mut self, stream: &mut TcpStream, peer: SocketAddr) -> io::Result<()> {
        let ring = self.ring(1)?;
        let latest = self.clock.until.map(|until| until + TIMEOUT);
        self.guarded(stream, peer, Shutdown::Read, latest, |flow, stream, is_over| {
            flow.receive_until(stream, ring, is_over)
        })?;
        self.end();
        Ok(())
    }

    fn receive_until(
        &mut self,
        stream: &mut TcpStream,
        mut ring: Ring,
        is_over: &AtomicBool,
    ) -> io::Result<()> {
        while !is_over.load(Ordering::Relaxed) {
            match stream.read(ring.next_buffer()) {
                Ok(0) => break,
                Ok(octets) => {
                    self.tally.received_bytes += octets as u64;
                    self.tally.receive_calls += 1;
                    self.count(self.tally.received_bytes);
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if is_over.load(Ordering::Relaxed) && !self.clock.stop.load(Ordering::Relaxed) {
            let message = "the server goes on after its time";
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        Ok(())
    }

    fn await_end(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        socket::set_receive_timeout(&*stream, POLL_INTERVAL)?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match stream.read(&mut [0; 4096]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.clock.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let message = format!("the server did not close in {} s", TIMEOUT.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
    }

    /// Requests and responses with a burst of requests outstanding; latencies are those of each request.
    fn transact(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let [request, response] = self.tally.calls;
        let (request, mut buffer) = (vec![0x5a; request as usize], vec![0; response as usize]);
        let mut begun = VecDeque::new();
        while self.clock.goes_on(self.tally.transactions) {
            while self.may_ask(&begun) {
                begun.push_back(Instant::now());
                if !self.send_all(stream, &request)? {
                    self.end();
                    return Ok(());
                }
            }
            if !self.receive_all(stream, &mut buffer)? {
                break;
            }
            self.completed(begun.pop_front());
            self.pause();
        }
        self.end();
        Ok(())
    }

    /// Whether one more request may be outstanding beside those that began at these times. A server that counts
    /// transactions closes behind the last one.
    fn may_ask(&self, begun: &VecDeque<Instant>) -> bool {
        let asked = self.tally.transactions + begun.len() as u64;
        begun.len() <= self.options.burst as usize
            && self.clock.units.is_none_or(|most| asked < most)
    }

    fn completed(&mut self, begun: Option<Instant>) {
        self.tally.transactions += 1;
        self.count(self.tally.transactions);
        if let (Some(begun), Some(latencies)) = (begun, &mut self.tally.latencies) {
            latencies
                .saturating_record(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Whether the test was not over before.
    fn send_all(&mut self, stream: &mut TcpStream, mut octets: &[u8]) -> io::Result<bool> {
        while !octets.is_empty() {
            match stream.write(octets) {
                Ok(count) => {
                    octets = &octets[count..];
                    self.tally.sent_bytes += count as u64;
                    self.tally.send_calls += 1;
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            // also where the server takes a little at a time
            if !octets.is_empty() && !self.clock.goes_on(self.tally.transactions) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the test was not over before.
    fn receive_all(&mut self, stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<bool> {
        let mut have = 0;
        while have < buffer.len() {
            match stream.read(&mut buffer[have..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    have += count;
                    self.tally.received_bytes += count as u64;
                    self.tally.receive_calls += 1;
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            if have < buffer.len() && !self.clock.goes_on(self.tally.transactions) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A connection for each request, or for nothing.
    fn connections(&mut self, peer: SocketAddr) -> io::Result<()> {
        let [request, response] = self.tally.calls;
        let (request, mut buffer) = (vec![0x5a; request as usize], vec![0; response as usize]);
        while self.clock.goes_on(self.tally.transactions) {
            let begun = Instant::now();
            let socket = open(self.options)?;
            socket::connect_within(&socket, peer, TIMEOUT)?;
            let mut stream = TcpStream::from(socket);
            if !self.send_all(&mut stream, &request)?
                || !self.receive_all(&mut stream, &mut buffer)?
            {
                break;
            }
            socket::end_sending(&stream);
            self.await_end(&mut stream)?;
            self.completed(Some(begun));
            self.tally.buffers[1] = socket::buffers(&stream)?;
            self.tally.congestion = socket::congestion(&stream).ok();
            self.tally.local = stream.local_addr().ok();
            self.pause();
        }
        self.end();
        if self.clock.units.is_none() {
            // a connection without a request tells the server that the test is over
            let last = open(self.options)?;
            // one that has ended already does not listen
            let _ = socket::connect_within(&last, peer, POLL_INTERVAL);
        }
        Ok(())
    }

    fn datagrams(&mut self, socket: &UdpSocket, shape: Shape) -> io::Result<()> {
        self.tally.local = socket.local_addr().ok();
        match shape {
            Shape::Stream => self.send_datagrams(socket),
            _ => self.transact_datagrams(socket),
        }?;
        for _ in 0..FAREWELLS {
            // without it the server waits some seconds longer
            let _ = socket.send(&[]);
        }
        Ok(())
    }

    fn send_datagrams(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let mut ring = self.ring(0)?;
        while self.clock.goes_on(self.tally.sent_bytes) {
            match socket.send(ring.next_buffer()) {
                Ok(octets) => {
                    self.tally.sent_bytes += octets as u64;
                    self.tally.send_calls += 1;
                    self.count(self.tally.sent_bytes);
                    self.pause();
                }
                Err(error) if is_passing(&error) => {}
                Err(error) if socket::is_out_of_buffers(&error) => self.tally.failed_calls += 1,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.tally.failed_calls += 1;
                }
                Err(error) => return Err(error),
            }
        }
        self.end();
        Ok(())
    }

    fn transact_datagrams(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let [request, response] = self.tally.calls;
        let (request, mut buffer) = (vec![0x5a; request as usize], vec![0; response as usize + 1]);
        let mut begun = VecDeque::new();
        let silence = self.options.socket_timeout.unwrap_or(SILENCE);
        let mut heard = Instant::now();
        while self.clock.goes_on(self.tally.transactions) {
            while self.may_ask(&begun) {
                begun.push_back(Instant::now());
                self.tally.sent_bytes += socket.send(&request)? as u64;
                self.tally.send_calls += 1;
            }
            match socket.recv(&mut buffer) {
                Ok(octets) => {
                    heard = Instant::now();
                    self.tally.received_bytes += octets as u64;
                    self.tally.receive_calls += 1;
                    self.completed(begun.pop_front());
                    self.pause();
                }
                Err(error) if is_passing(&error) && heard.elapsed() < silence => {}
                Err(error) if is_passing(&error) && self.options.socket_timeout.is_some() => {
                    // they are lost, and others take their place
                    self.tally.failed_calls += begun.len() as u64;
                    begun.clear();
                    heard = Instant::now();
                }
                Err(error) if is_passing(&error) => {
                    let message =
                        format!("no response in {} s: a datagram is lost", SILENCE.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                Err(error) => return Err(error),
            }
        }
        self.end();
        Ok(())
    }
}
