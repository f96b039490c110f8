//! A test of iperf3, as its server sees it.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linkrate_sys::bounded::{Bound, Ended, is_passing};
use linkrate_sys::sched::{current_thread, own_thread_cpu_seconds, set_affinity};
use linkrate_sys::socket::{buffers, end_without_peer, send_now, wait_ready};
use linkrate_sys::tcp_info::tcp_info;
use serde_json::value::RawValue;

use super::admission::{Pending, Running};
use super::budget::{THREAD_BYTES, Taken};
use super::interface::InterfaceReport;
use super::recorder::Recorder;
use super::report::{DatagramReport, Ending, SessionReport, TcpReport};
use super::verdict::{Evidence, verdict};
use super::{Joined, POLL_INTERVAL, Shared, TIMEOUT, options};
use crate::iperf3::{
    Cookie, Directions, MAX_PARAMETER_BYTES, MAX_RESULT_BYTES, Parameters, Results, Role, State,
    StreamResult, Transport, lenient, misread,
};
use crate::json::{Fields, JsonError, LENGTH_BYTES, framed, length};
use crate::measured::{Connection, End, Measured, OwnEnd, Sampler, Start, StreamEnd};
use crate::payload::{Fill, MAX_CALL, Phase, Socket, Stream, Work};

/// How much longer than its time a test may take: ten changes of its state, on a path of 4 s, as for iperf3.
const GRACE: Duration = Duration::from_secs(40);

/// How long the end of a test waits for octets that have arrived and are not read yet.
const UNREAD: Duration = Duration::from_millis(500);

/// How long a test waits until it may open its UDP streams, because others of its source address open theirs.
const TURN: Duration = Duration::from_secs(60);

/// How long a client that opens UDP streams has at least for the next one while other tests of its address wait.
const LEAST_PATH_TIME: Duration = Duration::from_millis(40);
const MOST_PATH_TIME: Duration = Duration::from_secs(1);
/// How often a test looks for its streams.
const STREAMS_INTERVAL: Duration = Duration::from_millis(10);

/// Errors of iperf3 that a client shows in its own words.
const DATAGRAM: u32 = 20;
const FASTER_THAN_GRANTED: u32 = 27;
const LONGER_THAN_GRANTED: u32 = 37;
const PARAMETERS: u32 = 114;
const BUSY: u32 = 121;
const AFFINITY: u32 = 132;
const STREAMS: u32 = 204;
const SEND: u32 = 205;

/// Serves a client, and returns what there is to report on it.
pub(super) fn serve(
    shared: &Shared,
    control: &TcpStream,
    pending: Pending,
    cookie: Cookie,
) -> SessionReport {
    let mut report = SessionReport::of("iperf3", control.peer_addr().ok());
    let mut evidence = Evidence::default();
    let watched = end_without_peer(control).map_err(failed);
    let mut session = Session { shared, control, pending: Some(pending), running: None };
    let ended = watched.and_then(|()| run(&mut session, cookie, &mut report, &mut evidence));
    report.end(ended);
    if report.ending == Ending::Stopped {
        announce(control, State::ServerTerminate);
    }
    report.verdict = verdict(&report, evidence);
    report
}

/// Says it to a client that has room for an octet; one that has none does not read.
pub(super) fn announce(control: &TcpStream, state: State) {
    let _ = send_now(control, &[state.octet()]);
}

fn run(
    session: &mut Session,
    cookie: Cookie,
    report: &mut SessionReport,
    evidence: &mut Evidence,
) -> Result<(), Ending> {
    session.tell(State::ParamExchange)?;
    let document = match session.document(MAX_PARAMETER_BYTES) {
        Err(Ending::Refused(reason)) => return Err(session.refuse(PARAMETERS, reason)),
        document => lenient(&document?),
    };
    let asked = Fields::parse(document.as_bytes()).and_then(|fields| {
        let asked = Parameters::parse(&fields)?;
        let ignored = ignored(&fields, &asked);
        Ok((asked, ignored))
    });
    let asked = match asked {
        Ok((asked, ignored)) => {
            report.ignored = ignored;
            asked
        }
        Err(error) => {
            let of_datagrams =
                matches!(error, JsonError::Field { key: "len", .. }) && is_udp(&document);
            let number = if of_datagrams { DATAGRAM } else { PARAMETERS };
            return Err(session.refuse(number, error.to_string()));
        }
    };
    report.client_version.clone_from(&asked.client_version);
    report.direction = Some(word(asked.ways));
    report.transport = Some(protocol(asked.transport));
    report.user = session.admit(&asked)?;
    session.grant(&asked)?;
    if let Some(cpu) = asked.server_cpu {
        // threads of the streams inherit it
        let set = set_affinity(current_thread(), &[cpu].into_iter().collect());
        set.map_err(|error| session.refuse(AFFINITY, format!("CPU {cpu}: {error}")))?;
    }
    let here = session.control.local_addr().map_err(failed)?;
    let far = report.client.unwrap_or(here);
    report.interface = InterfaceReport::of(here.ip(), far.ip(), asked.transport);
    evidence.asked = asked.bandwidth as f64 * f64::from(asked.parallel);
    let (sockets, left_out) = session.streams(&asked, cookie)?;
    report.ignored.extend(left_out);
    let printed = session.shared.printed;
    let opened = printed.prints(&asked).then(|| session.start(&asked, cookie, &sockets));
    let opened = opened.transpose().map_err(failed)?;
    report.streams = sockets.len() as u32;
    session.tell(State::TestStart)?;
    let phase = Arc::new(Phase::default());
    let mut streams = Vec::with_capacity(sockets.len());
    for (index, socket) in (0..).zip(sockets) {
        let work = Work {
            sends: asked.ways.sends(Role::Server, index, asked.parallel),
            block: asked.block as usize,
            bandwidth: asked.bandwidth,
            burst: asked.burst,
            counters: asked.counters,
            zero_copy: asked.zero_copy,
            fill: if asked.repeating { Fill::Digits } else { Fill::Random },
            discards: asked.discards,
            segments: asked.segments,
            merges: asked.merges,
            makes_up_for_loss: true,
        };
        let started = Stream::start(socket, work, &phase);
        match started {
            Ok(stream) => streams.push(stream),
            Err(error) => {
                phase.end();
                for stream in streams {
                    stream.join();
                }
                return Err(failed(error));
            }
        }
    }
    let is_udp = asked.transport == Transport::Udp;
    let sampler = Sampler::new(&streams, is_udp);
    let mut recorder = Recorder::new(sampler, printed.step(&asked), &asked);
    // what the session has used until here is no part of a short test
    let before = own_thread_cpu_seconds().unwrap_or_default();
    let ended = session.test(&asked, &streams, &phase, &mut recorder, report);
    let (ends, intervals) = recorder.end(report.seconds);
    phase.end();
    let now = own_thread_cpu_seconds().unwrap_or(before);
    report.tcp = TcpReport::of(streams.iter().filter_map(Stream::tcp_info));
    let congestion = streams.first().and_then(Stream::congestion);
    let used: Vec<[f64; 2]> = streams.into_iter().map(Stream::join).collect();
    let total = |sends: bool| {
        let of_way = ends.iter().filter(|end| end.sends == sends);
        of_way.map(OwnEnd::bytes).sum::<u64>()
    };
    (report.sent_bytes, report.received_bytes) = (total(true), total(false));
    let counted =
        if asked.ways == Directions::Reverse { report.sent_bytes } else { report.received_bytes };
    let results = (0..).zip(&ends).map(|(index, end)| end.result(index, report.seconds, is_udp));
    let results: Vec<StreamResult> = results.collect();
    let known = results.iter().filter_map(|result| result.retransmits);
    report.retransmits = known.reduce(|a, b| a + b);
    let mut cpu_percent = [0.0; 3];
    if report.seconds > 0.0 {
        report.bits_per_second = counted as f64 * 8.0 / report.seconds;
        let all = report.seconds + f64::from(asked.omit_seconds);
        let own = [0, 1].map(|kind| (now[kind] - before[kind]).max(0.0));
        let [user, system] = [0, 1].map(|kind| {
            let streams: f64 = used.iter().map(|used| used[kind]).sum();
            (own[kind] + streams) * 100.0 / all
        });
        cpu_percent = [user + system, user, system];
        let busiest = used.iter().map(|used| used[0] + used[1]).fold(0.0, f64::max);
        evidence.busiest_percent = busiest * 100.0 / all;
    }
    report.cpu_percent = cpu_percent[0];
    if is_udp {
        report.datagrams = Some(datagrams(&ends));
    }
    let streams = |theirs: &[StreamResult]| -> Vec<StreamEnd> {
        let each = ends.iter().zip(&results);
        each.map(|(end, own)| {
            let their = theirs.iter().find(|their| their.id == own.id);
            end.with(own, their, is_udp)
        })
        .collect()
    };
    report.measured = opened.map(|start| {
        let end = End {
            streams: streams(&[]),
            own_cpu_percent: cpu_percent,
            remote_cpu_percent: [0.0; 3],
            own_congestion: congestion.clone(),
            remote_congestion: None,
            server_output: None,
            is_interrupted: false,
        };
        Box::new(Measured { start, intervals, end })
    });
    ended?;
    let own = Results {
        cpu_percent,
        knows_retransmits: report.retransmits.is_some().then_some(true),
        congestion,
        streams: results.clone(),
        server_output: None,
    };
    let output = asked.wants_server_output.then(|| {
        // as far as it goes
        report.ending = Ending::Complete;
        (printed.document)(report)
    });
    report.ending = Ending::ClientLeft;
    let theirs = session.exchange(&own, output, report.streams)?;
    if asked.ways == Directions::Reverse && report.seconds > 0.0 {
        // a client cannot have more than was sent to it
        let received = theirs.streams.iter().map(|stream| stream.bytes);
        let received = received.fold(0, u64::saturating_add).min(report.sent_bytes);
        report.bits_per_second = received as f64 * 8.0 / report.seconds;
    }
    if let Some(measured) = &mut report.measured {
        let end = &mut measured.end;
        end.streams = streams(&theirs.streams);
        end.remote_cpu_percent = theirs.cpu_percent;
        end.remote_congestion = theirs.congestion;
    }
    Ok(())
}

/// What a client asks for and its server does not do, by the names of iperf3's fields. A flow label of what is sent is left to
/// the client by iperf3's server too.
fn ignored(fields: &Fields, asked: &Parameters) -> Vec<&'static str> {
    let mut ignored = misread(fields);
    let is_udp = asked.transport == Transport::Udp;
    let sends = asked.ways != Directions::Forward;
    for (field, is_left_out) in [
        ("flowlabel", sends && asked.flow_label.is_some()),
        ("mptcp", asked.multipath),
        ("skip_rx_copy", is_udp && asked.discards),
    ] {
        if is_left_out && !ignored.contains(&field) {
            ignored.push(field);
        }
    }
    ignored
}

fn word(ways: Directions) -> &'static str {
    match ways {
        Directions::Forward => "forward",
        Directions::Reverse => "reverse",
        Directions::Both => "both",
    }
}

fn protocol(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    }
}

/// Whether a document that is wrong asks for UDP.
fn is_udp(document: &str) -> bool {
    Fields::parse(document.as_bytes()).is_ok_and(|fields| fields.switch("udp"))
}

/// The datagrams of all streams, without the beginning.
fn datagrams(ends: &[OwnEnd]) -> DatagramReport {
    let mut report = DatagramReport::default();
    let mut jitters = Vec::new();
    for end in ends {
        let [early, all] = end.marks.map(|mark| mark.count.datagrams);
        let packets = all.highest.saturating_sub(early.highest);
        if end.sends {
            report.sent_packets = report.sent_packets.saturating_add(packets);
        } else {
            // a client may number them as it likes
            report.expected_packets = report.expected_packets.saturating_add(packets);
            // one that was late made a loss of the beginning good
            let lost = all.lost.saturating_sub(early.lost);
            report.lost_packets = report.lost_packets.saturating_add(lost);
            report.out_of_order_packets += all.out_of_order.saturating_sub(early.out_of_order);
            jitters.push(all.jitter_us / 1e6);
        }
    }
    if !jitters.is_empty() {
        report.jitter_seconds = Some(jitters.iter().sum::<f64>() / jitters.len() as f64);
    }
    report
}

/// Memory and open files of a test. Payload that is sent is shared by all, and counts for each.
fn cost(asked: &Parameters) -> (u64, u64) {
    let streams = asked.ways.streams(asked.parallel);
    let block = match asked.segments || asked.merges {
        true => MAX_CALL as u64,
        false => asked.block.into(),
    };
    let buffers = block.max(asked.block.into()) * if asked.zero_copy { 2 } else { 1 };
    let memory = u64::from(streams) * (THREAD_BYTES + buffers) + Results::most_memory(streams);
    // each end of a session has one, each stream two, and one more that sends a file
    let files = if asked.zero_copy { 3 } else { 2 };
    (memory + THREAD_BYTES, u64::from(streams) * files + 2)
}

fn failed(error: io::Error) -> Ending {
    Ending::Failed(error.to_string())
}

/// What a wait for the client that has ended says of the session.
fn ending(ended: Ended) -> Ending {
    match ended {
        Ended::Stopped => Ending::Stopped,
        Ended::Late | Ended::Closed | Ended::Failed(_) => Ending::ClientLeft,
    }
}

/// The server's end of the control connection.
struct Session<'a> {
    shared: &'a Shared<'a>,
    control: &'a TcpStream,
    /// Until the test begins.
    pending: Option<Pending<'a>>,
    /// From then on.
    running: Option<(Running<'a>, Taken<'a>)>,
}

impl Session<'_> {
    fn tell(&mut self, state: State) -> Result<(), Ending> {
        self.say(&[state.octet()])
    }

    /// A client that takes nothing has left.
    fn say(&self, octets: &[u8]) -> Result<(), Ending> {
        self.bound().write_all(self.control, octets).map_err(ending)
    }

    /// Says that the test cannot be, with iperf3's number for the reason.
    fn refuse(&mut self, number: u32, reason: String) -> Ending {
        let reported = [
            &[State::ServerError.octet()][..],
            &number.to_be_bytes(),
            // no error of the system
            &0_u32.to_be_bytes(),
        ];
        let _ = self.say(&reported.concat());
        Ending::Refused(reason)
    }

    /// The user who asks, where the server asks for one.
    fn admit(&mut self, asked: &Parameters) -> Result<Option<String>, Ending> {
        let Some(users) = self.shared.users else { return Ok(None) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let client = self.control.peer_addr().map_err(|_| Ending::ClientLeft)?.ip();
        let guesses = &self.shared.guesses;
        let reason = match &asked.authentication {
            Some(token) if guesses.may_guess(client) => {
                if let Some(user) = users.admit_once(token, now) {
                    return Ok(Some(user));
                }
                self.pause(guesses.wrong(client))?;
                "no user has this name, password and time"
            }
            Some(_) => "too many wrong passwords",
            None => "the client names no user",
        };
        self.tell(State::AccessDenied)?;
        Err(Ending::Refused(reason.to_owned()))
    }

    /// The test whose streams are open, as it is printed.
    fn start(&self, asked: &Parameters, cookie: Cookie, streams: &[Socket]) -> io::Result<Start> {
        let client = self.control.peer_addr()?;
        let cookie = cookie.octets().split(|octet| *octet == 0).next().unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Start {
            role: Role::Server,
            host: client.ip().to_canonical().to_string(),
            port: client.port(),
            parameters: asked.clone(),
            cookie: String::from_utf8_lossy(cookie).into_owned(),
            mss: tcp_info(self.control).ok().map(|info| info.snd_mss),
            buffers: streams.first().map_or(Ok((0, 0)), buffers)?,
            streams: streams.iter().map(Connection::of).collect::<io::Result<_>>()?,
            unix_milliseconds: now.as_millis() as u64,
            interval_seconds: self.shared.printed.interval_seconds,
        })
    }

    /// Waits, but not longer than the client and the server.
    fn pause(&self, until: Instant) -> Result<(), Ending> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.is_stopped() {
                return Err(Ending::Stopped);
            }
            if self.has_left() {
                return Err(Ending::ClientLeft);
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Refuses what is not granted.
    fn grant(&mut self, asked: &Parameters) -> Result<(), Ending> {
        let limits = self.shared.admission.limits;
        let seconds = asked.seconds.saturating_add(asked.omit_seconds);
        if asked.is_endless() && limits.refuses_endless {
            let reason = format!("a test without end, expected at most {} s", limits.seconds);
            return Err(self.refuse(LONGER_THAN_GRANTED, reason));
        }
        let streams = u64::from(asked.ways.streams(asked.parallel));
        let rate = asked.bandwidth.max(asked.pacing_rate).saturating_mul(streams);
        if let Some((most, _)) = limits.rate.filter(|(most, _)| rate > *most) {
            let reason = format!("{rate} bit/s, expected at most {most}");
            return Err(self.refuse(FASTER_THAN_GRANTED, reason));
        }
        if seconds > limits.seconds {
            let reason = format!("a test of {seconds} s, expected at most {} s", limits.seconds);
            return Err(self.refuse(LONGER_THAN_GRANTED, reason));
        }
        if asked.bytes > limits.bytes {
            let reason = format!("{} bytes, expected at most {}", asked.bytes, limits.bytes);
            return Err(self.refuse(PARAMETERS, reason));
        }
        Ok(())
    }

    /// Takes a place, memory and descriptors for the test, which begins.
    fn begin(&mut self, asked: &Parameters) -> Result<(), Ending> {
        let client = self.control.peer_addr().map_err(|_| Ending::ClientLeft)?.ip();
        let (memory, files) = cost(asked);
        let memory = memory + self.shared.printed.memory(asked);
        let admission = self.shared.admission;
        let running = admission.begin(client).and_then(|running| {
            let taken = self.shared.budget.take(memory, files)?;
            Ok((running, taken))
        });
        self.running = Some(running.map_err(|reason| self.refuse(BUSY, reason))?);
        self.pending = None;
        Ok(())
    }

    /// A document of at most `most` octets, which has its time from the first octet of its length on.
    fn document(&self, most: u32) -> Result<Vec<u8>, Ending> {
        let bound = self.bound();
        let mut announced = [0; LENGTH_BYTES];
        bound.read_exact(self.control, &mut announced).map_err(ending)?;
        let length = length(announced, most).map_err(|error| Ending::Refused(error.to_string()))?;
        let mut document = vec![0; length];
        bound.read_exact(self.control, &mut document).map_err(ending)?;
        Ok(document)
    }

    /// When the next thing that a client has to say, or to take, must be through.
    fn bound(&self) -> Bound<'_> {
        Bound::within(TIMEOUT, self.shared.stop)
    }

    /// Lets the client open its streams, and returns them in this order.
    /// With the name of the field that the host has not granted them.
    fn streams(
        &mut self,
        asked: &Parameters,
        cookie: Cookie,
    ) -> Result<(Vec<Socket>, Option<&'static str>), Ending> {
        let streams = match asked.transport {
            Transport::Tcp => self.connections(asked, cookie),
            Transport::Udp => self.datagram_streams(asked),
        }?;
        let mut left_out = None;
        for stream in &streams {
            let set = options::set(stream, asked);
            left_out = set.map_err(|(number, reason)| self.refuse(number, reason))?.or(left_out);
        }
        Ok((streams, left_out))
    }

    fn connections(&mut self, asked: &Parameters, cookie: Cookie) -> Result<Vec<Socket>, Ending> {
        self.begin(asked)?;
        let (sender, receiver) = sync_channel(asked.ways.streams(asked.parallel) as usize);
        // before the client knows that it may begin
        self.waiting(|waiting| waiting.insert(cookie, sender));
        let reported = self.tell(State::CreateStreams);
        let opened = reported.and_then(|()| self.opened(asked, &receiver, || false));
        self.waiting(|waiting| waiting.remove(&cookie));
        let mut streams: Vec<Joined> = opened?;
        // the client numbers its streams in the order in which it opened them
        streams.sort_by_key(|joined| joined.place);
        let streams = streams.into_iter().map(|joined| Arc::into_inner(joined.stream));
        let streams: Option<Vec<_>> = streams.map(|stream| stream.map(Socket::Tcp)).collect();
        streams.ok_or(Ending::ClientLeft)
    }

    fn datagram_streams(&mut self, asked: &Parameters) -> Result<Vec<Socket>, Ending> {
        let shared = self.shared;
        let client = self.control.peer_addr().map_err(|_| Ending::ClientLeft)?;
        let here = self.control.local_addr().map_err(failed)?;
        let deadline = Instant::now() + TURN;
        let goes_on = || !self.is_stopped() && !self.has_left() && Instant::now() < deadline;
        let most = asked.ways.streams(asked.parallel) as usize;
        let turn = shared.udp_acceptor.turn(client.ip(), here, most, self.path_time(), goes_on);
        let Some(turn) = turn else {
            if self.has_left() {
                return Err(Ending::ClientLeft);
            }
            if self.is_stopped() {
                return Err(Ending::Stopped);
            }
            let reason = format!("other tests of {} open UDP streams", client.ip());
            return Err(self.refuse(STREAMS, reason));
        };
        self.begin(asked)?;
        turn.begin();
        self.tell(State::CreateStreams)?;
        let streams = self.opened(asked, &turn.streams, || turn.is_in_the_way())?;
        Ok(streams.into_iter().map(Socket::Udp).collect())
    }

    /// How long the next datagram of a client takes at least that is told to open a UDP stream.
    fn path_time(&self) -> Duration {
        let round_trip = tcp_info(self.control).map_or(0, |info| info.rtt_us.into());
        Duration::from_micros(4 * round_trip).clamp(LEAST_PATH_TIME, MOST_PATH_TIME)
    }

    fn waiting<T>(&self, change: impl FnOnce(&mut HashMap<Cookie, SyncSender<Joined>>) -> T) -> T {
        change(&mut self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All streams of the test out of `receiver`, which come in time, and before it is in the way of others.
    fn opened<T>(
        &mut self,
        asked: &Parameters,
        receiver: &Receiver<T>,
        is_in_the_way: impl Fn() -> bool,
    ) -> Result<Vec<T>, Ending> {
        let begun = Instant::now();
        let deadline = begun + TIMEOUT;
        let all = asked.ways.streams(asked.parallel) as usize;
        let mut streams = Vec::with_capacity(all);
        while streams.len() < all {
            streams.extend(receiver.recv_timeout(STREAMS_INTERVAL).ok());
            if self.has_left() {
                return Err(Ending::ClientLeft);
            }
            if self.is_stopped() {
                return Err(Ending::Stopped);
            }
            if streams.len() < all && (Instant::now() >= deadline || is_in_the_way()) {
                let (found, waited) = (streams.len(), begun.elapsed().as_secs_f64());
                let reason = format!("{found} streams within {waited:.0} s, expected {all}");
                return Err(self.refuse(STREAMS, reason));
            }
        }
        Ok(streams)
    }

    /// Whether the server has been told to end.
    fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Whether the client has closed its control connection.
    fn has_left(&self) -> bool {
        wait_ready(self.control, false, Duration::ZERO).unwrap_or(true)
            && !matches!(self.control.peek(&mut [0]), Ok(1))
    }

    /// Runs the test until the client ends it.
    fn test(
        &mut self,
        asked: &Parameters,
        streams: &[Stream],
        phase: &Phase,
        recorder: &mut Recorder<'_>,
        report: &mut SessionReport,
    ) -> Result<(), Ending> {
        let omit = Duration::from_secs(asked.omit_seconds.into());
        if omit.is_zero() {
            phase.limit_to(asked.amount());
        }
        self.tell(State::TestRunning)?;
        phase.begin();
        let begun = Instant::now();
        let granted = match asked.seconds {
            0 => self.shared.admission.limits.seconds,
            seconds => seconds,
        };
        let longest = omit + Duration::from_secs(granted.into()) + GRACE;
        let mut from = begun;
        let mut waits = !omit.is_zero();
        let mut counted = (begun, 0_u64);
        loop {
            if waits && begun.elapsed() >= omit {
                recorder.leave_out(begun.elapsed().as_secs_f64());
                (from, waits) = (Instant::now(), false);
                phase.limit_to(asked.amount());
            }
            report.seconds = from.elapsed().as_secs_f64();
            recorder.look(report.seconds);
            let wait = recorder.until_next(report.seconds).min(POLL_INTERVAL);
            self.control.set_read_timeout(Some(wait)).map_err(failed)?;
            let mut octet = [0];
            match (&mut &*self.control).read(&mut octet) {
                Ok(0) => return Err(Ending::ClientLeft),
                Ok(_) => match State::of(octet[0]) {
                    Some(State::TestEnd) => break,
                    Some(State::ClientTerminate | State::Done) => return Err(Ending::ClientLeft),
                    _ => {
                        let reason = format!("state {}, expected the end of the test", octet[0]);
                        return Err(Ending::Refused(reason));
                    }
                },
                Err(error) if is_passing(&error) => {}
                Err(_) => return Err(Ending::ClientLeft),
            }
            if self.is_stopped() {
                return Err(Ending::Stopped);
            }
            if let Some(reason) = streams.iter().find_map(Stream::failure) {
                return Err(self.refuse(SEND, reason));
            }
            let carried =
                streams.iter().map(|stream| stream.count().bytes).fold(0, u64::saturating_add);
            let bytes = self.shared.admission.limits.bytes;
            if carried > bytes {
                let reason = format!("{carried} bytes, expected at most {bytes}");
                return Err(self.refuse(LONGER_THAN_GRANTED, reason));
            }
            if let Some((most, time)) = self.shared.admission.limits.rate
                && counted.0.elapsed() >= time
            {
                let seconds = counted.0.elapsed().as_secs_f64();
                let rate = carried.saturating_sub(counted.1) as f64 * 8.0 / seconds;
                if rate > most as f64 {
                    let reason = format!("{rate:.0} bit/s, expected at most {most}");
                    return Err(self.refuse(FASTER_THAN_GRANTED, reason));
                }
                counted = (Instant::now(), carried);
            }
            if begun.elapsed() > longest {
                let reason = format!("no end after {} s", longest.as_secs());
                return Err(self.refuse(LONGER_THAN_GRANTED, reason));
            }
        }
        report.seconds = from.elapsed().as_secs_f64();
        // what the client has sent before it said so is here, and a thread may be behind
        let patient = || from.elapsed().as_secs_f64() < report.seconds + UNREAD.as_secs_f64();
        while streams.iter().any(Stream::has_unread) && patient() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Exchanges results, and lets the client show them. `output` is the JSON text of what the server has printed.
    fn exchange(
        &mut self,
        own: &Results,
        output: Option<String>,
        streams: u32,
    ) -> Result<Results, Ending> {
        self.tell(State::ExchangeResults)?;
        let document = self.document(MAX_RESULT_BYTES)?;
        let theirs = Results::read(&document, streams)
            .map_err(|error| Ending::Refused(error.to_string()))?;
        let document = match output.map(RawValue::from_string) {
            Some(Ok(output)) => framed(&own.with_output(&output)),
            _ => framed(&own.document()),
        };
        let document = document.ok_or_else(|| Ending::Failed("results of 4 GiB".to_owned()))?;
        self.say(&document)?;
        self.tell(State::DisplayResults)?;
        let mut octet = [0];
        self.bound().read_exact(self.control, &mut octet).map_err(ending)?;
        match State::of(octet[0]) {
            Some(State::Done) => Ok(theirs),
            _ => Err(Ending::ClientLeft),
        }
    }
}
