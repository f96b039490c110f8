//! A test: its streams, its time, and the exchange of results.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linkrate_interop::client::{BUSY, ClientError, Control, Iperf3Test, User, UserError};
use linkrate_interop::iperf3::{Padding, Parameters, Results, Role, Transport};
use linkrate_interop::measured::{Connection, End, Interval, OwnEnd, Sampler, Start, StreamEnd};
use linkrate_interop::payload::{Fill, Phase, Socket, Stream, Work};
use linkrate_interop::serve::InterfaceReport;
use linkrate_model::CpuSet;
use linkrate_sys::sched::{current_thread, own_cpu_seconds, set_affinity};
use linkrate_sys::socket;

use super::open;
use super::options::{Options, Wrong};

/// How often the test checks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The same where octets end it.
const SHORT_POLL_INTERVAL: Duration = Duration::from_micros(200);
/// How long octets that end a test may take to be acknowledged, and how long a server of TCP then has to read them.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);
const READ: Duration = Duration::from_millis(10);
/// An interval that the end cuts short is told of from this part of its length on.
const MIN_PART: f64 = 0.1;

/// A moment of a test.
#[derive(Debug)]
pub enum Event<'a> {
    /// Its streams are open.
    Start(&'a Start),
    /// Meters are to begin: before the streams are open, or behind the beginning that is left out.
    Started,
    /// An interval has ended.
    Interval(&'a Interval),
    /// The figures end; results have not been exchanged yet.
    Over,
    /// It has ended.
    End(&'a End),
}

/// Why a test has no end.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Options that cannot be.
    #[error("parameter error: {0}")]
    Options(#[from] Wrong),
    /// The server has no address.
    #[error("unable to connect to server: {host}: {reason}")]
    Address { host: String, reason: String },
    /// There is no user.
    #[error("unable to authenticate: {0}")]
    User(#[from] UserError),
    /// The server did not answer, or refused.
    #[error("{}", words(.0))]
    Client(#[from] ClientError),
    /// A stream could not be opened.
    #[error("unable to connect stream: {}", plain(.0))]
    Stream(io::Error),
    /// The figures cannot be right.
    #[error("no result: {0}")]
    NoResult(String),
    /// Nothing arrived.
    #[error("idle timeout for receiving data")]
    Silent,
    /// A stream could not continue.
    #[error("unable to send or receive on stream: {0}")]
    Broken(String),
    /// The system refused something else.
    #[error("{0}")]
    System(String),
}

/// The reason without the number of the system.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The words of iperf3, which scripts may look for.
fn words(error: &ClientError) -> String {
    match error {
        ClientError::Unreachable { reason, .. } => {
            format!("unable to connect to server: {}", plain(reason))
        }
        ClientError::Busy { .. } => "the server is busy running a test. try again later".to_owned(),
        ClientError::Denied => "test authorization failed".to_owned(),
        ClientError::Interrupted => "interrupt - the client has terminated".to_owned(),
        other => other.to_string(),
    }
}

/// Runs a test until its end, or until `stop` is set. `hear` is told of each moment. Returns the end.
pub fn run(
    options: &Options,
    stop: &Arc<AtomicBool>,
    hear: &mut dyn FnMut(Event<'_>),
) -> Result<End, Problem> {
    options.check()?;
    let server = resolve(options)?;
    if let Some(cpu) = options.cpu {
        let cpus: CpuSet = [cpu].into_iter().collect();
        // threads inherit it
        set_affinity(current_thread(), &cpus)
            .map_err(|error| Problem::System(format!("--affinity: {error}")))?;
    }
    let of_control = options.of_control();
    let mut asked = None;
    let mut ask = |user: Option<&User>| {
        let with =
            |mss| Parameters { authentication: user.map(User::token), ..options.parameters(mss) };
        Iperf3Test::ask_over(
            &mut || Control::connect_with(server, &of_control, options.timeout(), stop),
            &mut |mss| asked.insert(with(mss)).clone(),
            BUSY,
        )
    };
    let mut test = match user(options)? {
        None => ask(None),
        Some(user) if options.pkcs1_padding => ask(Some(&user.padded(Padding::Pkcs1))),
        Some(user) => ask(Some(&user)),
    }?;
    let Some(asked) = asked else { return Err(ClientError::Interrupted.into()) };
    if asked.omit_seconds == 0 {
        // meters take their time, and the server sends as soon as it has all streams
        hear(Event::Started);
    }
    let cpu = CpuShare::start();
    let (mut sockets, mut opened) = (Vec::new(), Instant::now());
    for index in 0..asked.ways.streams(asked.parallel) {
        let stream = open::stream(server, options, index, test.first_octets());
        let (socket, before) = stream.map_err(Problem::Stream)?;
        sockets.push(socket);
        opened = before;
    }
    let start = start(options, &asked, &test, &sockets).map_err(Problem::Stream)?;
    hear(Event::Start(&start));
    let phase = Arc::new(Phase::default());
    let own_congestion = sockets.first().and_then(|first| socket::congestion(first).ok());
    let mut streams = Vec::with_capacity(sockets.len());
    for (index, socket) in (0..).zip(sockets) {
        let work = Work {
            sends: asked.ways.sends(Role::Client, index, asked.parallel),
            block: asked.block as usize,
            bandwidth: asked.bandwidth,
            burst: asked.burst,
            counters: asked.counters,
            zero_copy: options.zero_copy,
            fill: if asked.repeating { Fill::Digits } else { Fill::Random },
            discards: asked.discards,
            segments: asked.segments,
            merges: asked.merges,
            makes_up_for_loss: false,
        };
        match Stream::start(socket, work, &phase) {
            Ok(stream) => streams.push(stream),
            Err(error) => {
                end(&phase, streams);
                return Err(Problem::Stream(error));
            }
        }
    }
    let mut run = Run {
        options,
        asked: &asked,
        stop,
        test: &mut test,
        phase: &phase,
        cpu,
        opened,
        spent_at: None,
        heard: (0, Instant::now()),
    };
    let ended = run
        .through(&streams, hear)
        .and_then(|measured| exchange(test, measured, &asked, own_congestion));
    end(&phase, streams);
    let ended = ended?;
    let link = start.streams.first().and_then(|first| {
        InterfaceReport::of(first.local.ip(), first.remote.ip(), asked.transport)
    });
    if let Some(reason) = ended.defect(link.as_ref()) {
        return Err(Problem::NoResult(reason));
    }
    hear(Event::End(&ended));
    Ok(ended)
}

/// The user that the options name.
fn user(options: &Options) -> Result<Option<User>, Problem> {
    let read = options.user.as_ref().map(|(name, key)| User::read(name, key));
    Ok(read.transpose()?)
}

fn end(phase: &Phase, streams: Vec<Stream>) {
    phase.end();
    for stream in streams {
        stream.join();
    }
}

fn resolve(options: &Options) -> Result<SocketAddr, Problem> {
    let host = options.host.clone();
    let failed = |reason: String| Problem::Address { host: host.clone(), reason };
    let found = (options.host.as_str(), options.port).to_socket_addrs();
    let found = found.map_err(|error| failed(error.to_string()))?;
    let is_ipv6 = options.wants_ipv6.or(options.from().map(|from| from.is_ipv6()));
    let mut fitting = found.filter(|address| is_ipv6.is_none_or(|ipv6| address.is_ipv6() == ipv6));
    fitting.next().ok_or_else(|| failed("no address of this family".to_owned()))
}

fn start(
    options: &Options,
    asked: &Parameters,
    test: &Iperf3Test,
    sockets: &[Socket],
) -> io::Result<Start> {
    let cookie = test.first_octets().split(|octet| *octet == 0).next().unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Start {
        role: Role::Client,
        host: options.host.clone(),
        port: options.port,
        parameters: asked.clone(),
        cookie: String::from_utf8_lossy(cookie).into_owned(),
        mss: test.mss(),
        buffers: sockets.first().map_or(Ok((0, 0)), socket::buffers)?,
        streams: sockets.iter().map(Connection::of).collect::<io::Result<_>>()?,
        unix_milliseconds: now.as_millis() as u64,
        interval_seconds: options.interval_seconds,
    })
}

/// What this end knows at the end.
#[derive(Debug)]
struct Measured {
    ends: Vec<OwnEnd>,
    seconds: f64,
    cpu_percent: [f64; 3],
    is_interrupted: bool,
}

/// A test that runs.
struct Run<'a> {
    options: &'a Options,
    asked: &'a Parameters,
    stop: &'a AtomicBool,
    test: &'a mut Iperf3Test,
    phase: &'a Phase,
    /// The CPU time of the figures.
    cpu: CpuShare,
    /// Before the server could know of the last stream, and send.
    opened: Instant,
    /// When the streams had sent the amount of the test.
    spent_at: Option<Instant>,
    /// Octets that had arrived, and when there were more last.
    heard: (u64, Instant),
}

impl Run<'_> {
    /// Lets the streams send until the end of the test.
    fn through(
        &mut self,
        streams: &[Stream],
        hear: &mut dyn FnMut(Event<'_>),
    ) -> Result<Measured, Problem> {
        let asked = self.asked;
        let mut sampler = Sampler::new(streams, asked.transport == Transport::Udp);
        let most = asked.amount();
        let receives = streams.iter().any(|stream| !stream.sends);
        let omit = f64::from(asked.omit_seconds);
        self.test.begin()?;
        let mut begun = Instant::now();
        if omit > 0.0 {
            self.phase.begin();
            self.intervals(&mut sampler, streams, begun, Some(omit), true, hear)?;
            // meters take their time, in which nothing is counted
            hear(Event::Started);
            self.cpu = CpuShare::start();
            sampler.leave_out();
            self.phase.limit_to(most);
            begun = Instant::now();
        } else {
            self.phase.limit_to(most);
            self.phase.begin();
            if most.is_some() && receives {
                // a small amount may be here before this thread hears of the beginning
                begun = self.opened;
            }
        }
        let length = (most.is_none() && asked.seconds > 0).then_some(f64::from(asked.seconds));
        let seconds = self.intervals(&mut sampler, streams, begun, length, false, hear)?;
        let cpu_percent = self.cpu.percent();
        self.phase.end();
        hear(Event::Over);
        let is_interrupted = self.stop.load(Ordering::Relaxed);
        if most.is_some() && streams.iter().any(|stream| stream.sends) {
            // the server counts nothing after the end
            std::thread::sleep(match asked.transport {
                Transport::Tcp => READ,
                // nothing tells when the server has them
                Transport::Udp => READ * 5,
            });
            // what was in a call when the octets were reached
            sampler.interval(seconds, seconds, false);
        }
        if is_interrupted {
            // a second request ends the program
            self.test.persist();
        }
        Ok(Measured { ends: sampler.ends(), seconds, cpu_percent, is_interrupted })
    }

    /// Reports on one interval after the other, for `length` seconds behind `begun`, or until octets or the user end the
    /// test. Returns the time.
    fn intervals(
        &mut self,
        sampler: &mut Sampler<'_>,
        streams: &[Stream],
        begun: Instant,
        length: Option<f64>,
        is_omitted: bool,
        hear: &mut dyn FnMut(Event<'_>),
    ) -> Result<f64, Problem> {
        let step = match self.options.interval_seconds {
            0.0 => f64::INFINITY,
            step => step,
        };
        let has_limit = length.is_none() && self.asked.amount().is_some();
        self.heard.1 = begun;
        let (mut reported, mut count) = (0.0, 0.0);
        loop {
            let tick = step * (count + 1.0);
            let due = tick.min(length.unwrap_or(f64::INFINITY));
            let goes_on = self.wait(begun, due, has_limit, sampler, streams)?;
            let now = begun.elapsed().as_secs_f64();
            let is_last = !goes_on || length.is_some_and(|length| length <= due);
            let is_long = now - reported >= MIN_PART * step || count == 0.0;
            // the last counters are those of the end
            let interval = sampler.interval(reported, now, is_omitted);
            if step.is_finite() && (!is_last || is_long) {
                hear(Event::Interval(&interval));
            }
            if is_last {
                return Ok(now);
            }
            (reported, count) = (now, count + 1.0);
        }
    }

    /// Whether the amount of the test is sent, and acknowledged where it is TCP's, or has arrived here.
    fn is_through(&mut self, sampler: &Sampler<'_>) -> bool {
        if self.asked.amount().is_some_and(|most| sampler.received() >= most) {
            return true;
        }
        if !self.phase.is_spent() {
            return false;
        }
        let spent_at = *self.spent_at.get_or_insert_with(Instant::now);
        sampler.is_acknowledged() || spent_at.elapsed() > ACKNOWLEDGED
    }

    /// Whether a receiver has waited for too long.
    fn is_silent(&mut self, sampler: &Sampler<'_>, streams: &[Stream]) -> bool {
        if streams.iter().all(|stream| stream.sends) {
            return false;
        }
        let received = sampler.received();
        if received != self.heard.0 {
            self.heard = (received, Instant::now());
        }
        self.heard.1.elapsed() > self.options.receive_timeout()
    }

    /// Waits until `due` seconds after the beginning. False if the test ends before.
    fn wait(
        &mut self,
        begun: Instant,
        due: f64,
        has_limit: bool,
        sampler: &Sampler<'_>,
        streams: &[Stream],
    ) -> Result<bool, Problem> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if has_limit && self.is_through(sampler) {
                return Ok(false);
            }
            if let Some(reason) = streams.iter().find_map(Stream::failure) {
                return Err(Problem::Broken(reason));
            }
            if self.is_silent(sampler, streams) {
                return Err(Problem::Silent);
            }
            self.test.glance()?;
            let left = due - begun.elapsed().as_secs_f64();
            if left <= 0.0 {
                return Ok(true);
            }
            let glance = if has_limit { SHORT_POLL_INTERVAL } else { POLL_INTERVAL };
            std::thread::sleep(glance.min(Duration::from_secs_f64(left.min(1.0))));
        }
    }
}

/// CPU time of this process since a moment.
#[derive(Debug)]
struct CpuShare {
    begun: Instant,
    from: [f64; 2],
}

impl CpuShare {
    fn start() -> Self {
        // a system that does not report shows no use
        Self { begun: Instant::now(), from: own_cpu_seconds().unwrap_or_default() }
    }

    /// All, user and system, per cent of the time.
    fn percent(&self) -> [f64; 3] {
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-9);
        let now = own_cpu_seconds().unwrap_or(self.from);
        let [user, system] =
            [0, 1].map(|index| (now[index] - self.from[index]).max(0.0) * 100.0 / seconds);
        [user + system, user, system]
    }
}

fn exchange(
    test: Iperf3Test,
    measured: Measured,
    asked: &Parameters,
    own_congestion: Option<String>,
) -> Result<End, Problem> {
    let is_udp = asked.transport == Transport::Udp;
    // all of it was acknowledged at the end of this end's time
    let is_amount = asked.amount().is_some() && !is_udp;
    let own =
        (0..).zip(&measured.ends).map(|(index, end)| end.result(index, measured.seconds, is_udp));
    let sends = measured.ends.iter().any(|end| end.sends);
    let own = Results {
        cpu_percent: measured.cpu_percent,
        knows_retransmits: sends.then_some(!is_udp),
        congestion: own_congestion.clone(),
        streams: own.collect(),
        server_output: None,
    };
    let theirs = match asked.wants_server_output {
        true => test.end_with_output(&own),
        false => test.end_now(&own),
    }?;
    let streams = measured.ends.iter().zip(&own.streams).map(|(end, own)| {
        // the results have been checked for each stream
        let their = theirs.streams.iter().find(|their| their.id == own.id);
        let all = end.with(own, their, is_udp);
        // the server's time continues until it hears of the end
        match end.sends && is_amount && all.received_bytes == own.bytes {
            true => StreamEnd { received_seconds: measured.seconds, ..all },
            false => all,
        }
    });
    Ok(End {
        streams: streams.collect(),
        own_cpu_percent: measured.cpu_percent,
        remote_cpu_percent: theirs.cpu_percent,
        own_congestion,
        remote_congestion: theirs.congestion,
        server_output: theirs.server_output,
        is_interrupted: measured.is_interrupted,
    })
}
