//! The payload of a test at this end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use linkrate_sys::socket;
use linkrate_sys::tcp_info::tcp_info;
use linkrate_sys::unnamed_file::{memory_file, sendfile};

use linkrate_interop::netperf::{OmniResponse, Pace, Ring, RingSize, Shape};
use linkrate_interop::payload::guarded;
use linkrate_sys::bounded::is_passing;

use super::ends::{Ends, family_of};
use super::options::{Length, Options};
use super::report::{Progress, Tally, Unit};

/// How long a call may wait before it looks at the end of the test.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a connection may take to be made, or the peer to close it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A UDP transaction without a response for so long ends the test, as a lost datagram would end netperf's.
const SILENCE: Duration = Duration::from_secs(5);
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

/// Moves the payload of a test until it is over, and until the peer has closed.
pub(super) fn run(
    options: &Options,
    ends: &Ends,
    response: &OmniResponse,
    progress: &Progress,
    stop: &AtomicBool,
) -> io::Result<Tally> {
    let mut peer = ends.data;
    peer.set_port(response.data_port);
    let socket = open(options, ends)?;
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
    let latencies = match options.keeps_latencies() {
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
        widths: [0; 2],
        info: None,
        congestion: None,
    };
    // a file may take its time
    let rings = [ring(options, &mut tally, 0)?, ring(options, &mut tally, 1)?];
    let begun = Instant::now();
    let (until, units) = match options.length {
        Length::Seconds(seconds) => (Some(begun + Duration::from_secs(seconds.into())), None),
        Length::Units(units) => (None, Some(units)),
    };
    let clock = Clock { begun, until, units, stop };
    let pace = options.intervals_of(0).map(Pace::of);
    let mut flow = Flow { options, ends, progress, clock, pace, tally: &mut tally };
    match (options.test.udp, options.test.shape) {
        (true, shape) => {
            socket::connect(&socket, peer)?;
            flow.datagrams(&UdpSocket::from(socket), shape, rings)?;
        }
        (false, Shape::Connect | Shape::ConnectRequestResponse) => {
            drop(socket);
            flow.connections(peer, rings)?;
        }
        (false, shape) => {
            flow.connection(TcpStream::from(socket), peer, shape, rings)?;
        }
    }
    Ok(tally)
}

/// The buffers that calls send from (0), or receive into (1).
fn ring(options: &Options, tally: &mut Tally, way: usize) -> io::Result<Ring> {
    let (send, receive) = tally.buffers[0];
    let buffer = u32::try_from([send, receive][way]).unwrap_or(u32::MAX);
    let call = tally.calls[way];
    let usual = match options.test.shape {
        Shape::Stream | Shape::Maerts => <Ring>::width_of_stream(call, buffer),
        _ => 1,
    };
    let width = options.width[way].unwrap_or(usual) as usize;
    let size = RingSize::of(call as usize, width, options.placement[0][way]);
    tally.widths[way] = size.width();
    let mut ring = Ring::of(size)?;
    if let Some(file) = options.fill[0].as_ref().filter(|_| way == 0) {
        let filled = File::open(file).and_then(|mut file| ring.fill_from(&mut file));
        named(&format!("-F {file}"), filled)?;
    }
    Ok(ring)
}

/// A socket with the options that are asked for.
fn open(options: &Options, ends: &Ends) -> io::Result<std::os::fd::OwnedFd> {
    let socket = socket::ip_socket(family_of(ends.data), options.test.udp)?;
    if let Some(local) = ends.local {
        socket::set_reuse_address(&socket)?;
        named("address of this end", socket::bind(&socket, local))?;
    }
    if let Some(rate) = options.pacing_rate {
        named("-q", socket::set_max_pacing_rate(&socket, rate.into()))?;
    }
    if let Some(tos) = options.tos[0] {
        socket::set_type_of_service(&socket, tos)?;
    }
    // the type of service has set it too
    if let Some(priority) = options.priority[0] {
        named("-y", socket::set_priority(&socket, priority))?;
    }
    if !options.may_be_routed() {
        socket::keep_off_routers(&socket)?;
    }
    socket::ask_for_each_buffer(&socket, options.buffers[0])?;
    if !options.test.udp {
        if options.nodelay {
            socket::set_nodelay(&socket, true)?;
        }
        if let Some(mss) = options.mss {
            named("-G", socket::set_mss(&socket, mss))?;
        }
        if options.cork {
            socket::set_cork(&socket)?;
        }
        if let Some(congestion) = &options.congestion[0] {
            named("-K", socket::set_congestion(&socket, congestion))?;
        }
    }
    socket::set_send_timeout(&socket, Some(POLL_INTERVAL))?;
    socket::set_receive_timeout(&socket, POLL_INTERVAL)?;
    Ok(socket)
}

/// Names what was asked for where it fails.
fn named<T>(what: &str, done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| io::Error::new(error.kind(), format!("{what}: {error}")))
}

struct Flow<'a> {
    options: &'a Options,
    ends: &'a Ends,
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
        [to_send, to_receive]: [Ring; 2],
    ) -> io::Result<()> {
        match shape {
            Shape::Maerts => self.receive(&mut stream, peer, to_receive)?,
            Shape::Stream => self.send(&mut stream, peer, to_send)?,
            _ => {
                socket::connect_within(&stream, peer, TIMEOUT)?;
                self.transact(&mut stream, [to_send, to_receive])?;
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

    /// When a call begins, where its time is a result.
    fn now(&self) -> Option<Instant> {
        self.tally.latencies.as_ref().map(|_| Instant::now())
    }

    fn record(&mut self, begun: Option<Instant>) {
        if let (Some(begun), Some(latencies)) = (begun, &mut self.tally.latencies) {
            latencies
                .saturating_record(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }

    fn send(&mut self, stream: &mut TcpStream, peer: SocketAddr, ring: Ring) -> io::Result<()> {
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
            let begun = self.now();
            let sent = match &file {
                None => stream.write(&ring.next_buffer()[..most]),
                Some(file) => sendfile(&*stream, file, 0, most),
            };
            match sent {
                Ok(octets) => {
                    self.record(begun);
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
    fn receive(&mut self, stream: &mut TcpStream, peer: SocketAddr, ring: Ring) -> io::Result<()> {
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
            let begun = self.now();
            match stream.read(ring.next_buffer()) {
                Ok(0) => break,
                Ok(octets) => {
                    self.record(begun);
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
    fn transact(
        &mut self,
        stream: &mut TcpStream,
        [mut requests, mut responses]: [Ring; 2],
    ) -> io::Result<()> {
        let mut begun = VecDeque::new();
        while self.clock.goes_on(self.tally.transactions) {
            while self.may_ask(&begun) {
                begun.push_back(Instant::now());
                if !self.send_all(stream, requests.next_buffer())? {
                    self.end();
                    return Ok(());
                }
            }
            if !self.receive_all(stream, responses.next_buffer())? {
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
        self.count(match Unit::of(self.options).is_transactions() {
            true => self.tally.transactions,
            false => self.tally.sent_bytes + self.tally.received_bytes,
        });
        self.record(begun);
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
    fn connections(
        &mut self,
        peer: SocketAddr,
        [mut requests, mut responses]: [Ring; 2],
    ) -> io::Result<()> {
        // none where connections are all that is counted
        let [request, response] = self.tally.calls.map(|octets| octets as usize);
        while self.clock.goes_on(self.tally.transactions) {
            let begun = Instant::now();
            let socket = open(self.options, self.ends)?;
            match socket::connect_within(&socket, peer, TIMEOUT) {
                Err(_) if self.options.retries => {
                    self.tally.failed_calls += 1;
                    continue;
                }
                connected => connected?,
            }
            let mut stream = TcpStream::from(socket);
            if !self.send_all(&mut stream, &requests.next_buffer()[..request])?
                || !self.receive_all(&mut stream, &mut responses.next_buffer()[..response])?
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
            let last = open(self.options, self.ends)?;
            // one that has ended already does not listen
            let _ = socket::connect_within(&last, peer, POLL_INTERVAL);
        }
        Ok(())
    }

    fn datagrams(&mut self, socket: &UdpSocket, shape: Shape, rings: [Ring; 2]) -> io::Result<()> {
        self.tally.local = socket.local_addr().ok();
        match shape {
            Shape::Stream => self.send_datagrams(socket, rings),
            _ => self.transact_datagrams(socket, rings),
        }?;
        for _ in 0..FAREWELLS {
            // without it the server waits some seconds longer
            let _ = socket.send(&[]);
        }
        Ok(())
    }

    fn send_datagrams(&mut self, socket: &UdpSocket, [mut ring, _]: [Ring; 2]) -> io::Result<()> {
        while self.clock.goes_on(self.tally.sent_bytes) {
            let begun = self.now();
            match socket.send(ring.next_buffer()) {
                Ok(octets) => {
                    self.record(begun);
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

    fn transact_datagrams(
        &mut self,
        socket: &UdpSocket,
        [mut requests, mut responses]: [Ring; 2],
    ) -> io::Result<()> {
        let mut begun = VecDeque::new();
        let silence = self.options.socket_timeout.unwrap_or(SILENCE);
        let mut heard = Instant::now();
        while self.clock.goes_on(self.tally.transactions) {
            while self.may_ask(&begun) {
                begun.push_back(Instant::now());
                self.tally.sent_bytes += socket.send(requests.next_buffer())? as u64;
                self.tally.send_calls += 1;
            }
            match socket.recv(responses.next_buffer()) {
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
