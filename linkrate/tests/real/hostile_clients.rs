//! `linkrate serve` among hostile clients: honest ones keep their rates, and when the hostile ones have gone the server is as
//! it was at its beginning.

use std::collections::VecDeque;
use std::fs;
use std::io::{Error, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use linkrate_sys::connect::{self, Options};
use linkrate_sys::open_file_limit;
use rustix::net::sockopt::set_socket_linger;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::ends::{await_connections, await_listener};
use crate::common::{Finished, LINKRATE, Running, command, wait_until};
use crate::own_host::{in_a_host, ip};

/// Ports of both programs, in a network namespace of a test's own.
const IPERF3: u16 = 5201;
const NETPERF: u16 = 12_865;

/// How long the server may take until nothing of its clients is left.
const GONE: Duration = Duration::from_secs(30);

/// What a rate may lose, of a client that is far from needing all of the machine.
const LEAST: f64 = 0.9;

/// A server of both programs.
pub struct Server(Running);

impl Server {
    /// The server, once it listens.
    #[track_caller]
    pub fn start(program: &str, options: &str) -> Self {
        let running = Running::start(&mut command(program, &format!("serve {options}")));
        [IPERF3, NETPERF].into_iter().for_each(await_listener);
        Self(running)
    }

    pub fn figures(&self) -> Figures {
        Figures::of(self.0.pid())
    }

    /// Waits until it has as many threads and descriptors as before.
    #[track_caller]
    pub fn await_quiet(&self, before: Figures) {
        let is_as_before = || {
            let now = self.figures();
            (now.threads, now.descriptors) == (before.threads, before.descriptors)
        };
        assert!(wait_until(GONE, is_as_before), "{:?}, not {before:?}", self.figures());
    }

    /// Ends it.
    #[track_caller]
    pub fn end(self) -> Finished {
        self.0.signal(Signal::INT);
        self.0.wait().expect_code(0)
    }
}

/// What a process has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    pub threads: usize,
    pub descriptors: usize,
    /// Octets that are resident.
    pub memory: u64,
    /// The most that were.
    pub peak: u64,
}

impl Figures {
    /// Of a process; nothing of one that has ended.
    pub fn of(pid: u32) -> Self {
        let entries = |what: &str| {
            fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, |entries| entries.count())
        };
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let octets = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok())
                .map_or(0, |kib: u64| kib << 10)
        };
        Self {
            threads: entries("task"),
            descriptors: entries("fd"),
            memory: octets("VmRSS:"),
            peak: octets("VmHWM:"),
        }
    }
}

/// What a hostile client does with its connection.
#[derive(Debug, Clone, Copy)]
enum Manner {
    Silent,
    /// An octet now and then.
    Trickling,
    Garbage,
    /// Begins in order, and resets the connection.
    Reset,
    /// Begins in order, and says no more.
    HalfClosed,
}

const MANNERS: [Manner; 5] =
    [Manner::Silent, Manner::Trickling, Manner::Garbage, Manner::Reset, Manner::HalfClosed];

/// Addresses that they come from. That of honest clients is one of them.
const SOURCES: u32 = 20;

/// How often each crowd opens connections and trickles.
const TURN: Duration = Duration::from_millis(250);

impl Manner {
    fn begin(self, mut stream: &TcpStream, number: u32) {
        let cookie = format!("{number:036}\0");
        let octets: Vec<u8> = match self {
            Self::Silent => return,
            Self::Trickling => b"x".to_vec(),
            Self::Garbage if number.is_multiple_of(2) => vec![0xa5; 4096],
            Self::Garbage => [cookie.as_bytes(), &[0xff; 4096]].concat(),
            Self::Reset | Self::HalfClosed => cookie.into_bytes(),
        };
        // the server may have closed it
        let _ = stream.write_all(&octets);
        let _ = match self {
            Self::Reset => set_socket_linger(stream, Some(Duration::ZERO)).map_err(Error::from),
            Self::HalfClosed => stream.shutdown(Shutdown::Write),
            _ => Ok(()),
        };
    }
}

/// Hostile clients at both ports, until it is dropped.
pub struct HostileClients {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicU32>,
    crowds: Vec<JoinHandle<()>>,
}

impl HostileClients {
    /// So many connections in all, each of which lasts for `life`, and is followed by another one.
    pub fn start(count: u32, life: Duration) -> Self {
        open_file_limit::raise(u64::from(count) + 4096);
        let (stop, opened) = <(Arc<AtomicBool>, Arc<AtomicU32>)>::default();
        let crowds =
            MANNERS.iter().flat_map(|manner| [IPERF3, NETPERF].map(|port| (*manner, port)));
        let each = (count / 10).max(1) as usize;
        let crowds = crowds.map(|(manner, port)| {
            let (stop, opened) = (Arc::clone(&stop), Arc::clone(&opened));
            std::thread::spawn(move || crowd(manner, port, each, life, &stop, &opened))
        });
        let crowds = crowds.collect();
        Self { stop, opened, crowds }
    }

    /// Connections that were opened so far.
    pub fn opened(&self) -> u32 {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for HostileClients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for crowd in self.crowds.drain(..) {
            // a panic has been told of
            let _ = crowd.join();
        }
    }
}

fn crowd(
    manner: Manner,
    port: u16,
    most: usize,
    life: Duration,
    stop: &AtomicBool,
    opened: &AtomicU32,
) {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut open = VecDeque::new();
    let turns = life.div_duration_f64(TURN);
    let in_turn = (most as f64 / turns).ceil() as usize;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..in_turn {
            let number = opened.fetch_add(1, Ordering::Relaxed);
            let from = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + number % SOURCES);
            let options = Options { from: Some(from.into()), ..Options::default() };
            let Ok(stream) = connect::tcp(server, &options, TURN) else { continue };
            stream.set_nonblocking(true).expect("a socket");
            manner.begin(&stream, number);
            if !matches!(manner, Manner::Reset) {
                open.push_back(stream);
            }
        }
        while open.len() > most {
            open.pop_front();
        }
        if matches!(manner, Manner::Trickling) {
            open.iter_mut().for_each(|stream| _ = stream.write_all(b"x"));
        }
        std::thread::sleep(TURN);
    }
}

/// Honest clients of one kind.
struct Clients {
    words: String,
    rate: fn(&Finished) -> f64,
}

impl Clients {
    /// Of both programs, which send far less than they could for so many seconds.
    fn paced(seconds: u32) -> [Self; 2] {
        let iperf3 = format!(
            "iperf3 -J -c 127.0.0.1 -t {seconds} -b 1M -l 8K --pacing-timer 50000 --connect-timeout 20000"
        );
        let netperf =
            format!("{LINKRATE} netperf -P 0 -v 0 -H 127.0.0.1 -t TCP_RR -l {seconds} -b 1 -w 100");
        [
            Self { words: iperf3, rate: |finished| received(&finished.json()) },
            Self { words: netperf, rate: |finished| number(&finished.stdout) },
        ]
    }

    fn start(&self) -> Running {
        let (program, words) = self.words.split_once(' ').expect("words");
        Running::start(&mut command(program, words))
    }

    /// The rate of one that has ended well.
    #[track_caller]
    fn rate(&self, running: Running) -> f64 {
        let finished = running.wait();
        assert_eq!(finished.code(), Some(0), "{}: {finished:?}", self.words);
        (self.rate)(&finished)
    }
}

#[track_caller]
fn received(document: &Value) -> f64 {
    let rate = &document["end"]["sum_received"]["bits_per_second"];
    rate.as_f64().unwrap_or_else(|| panic!("no rate: {document}"))
}

#[track_caller]
fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The rates of so many clients of each kind, all at once, by the numbers of their kinds.
#[track_caller]
fn rates(seconds: u32, count: usize) -> Vec<(usize, f64)> {
    let clients = Clients::paced(seconds);
    let kinds = (0..clients.len()).cycle().take(clients.len() * count);
    let running: Vec<_> = kinds.map(|kind| (kind, clients[kind].start())).collect();
    std::thread::sleep(Duration::from_secs(seconds.into()));
    running.into_iter().map(|(kind, running)| (kind, clients[kind].rate(running))).collect()
}

/// How much of a load.
struct Load {
    clients: usize,
    hostile: u32,
    life: Duration,
    seconds: u32,
}

fn among_hostile_clients(load: &Load) {
    needs!("iperf3");
    ip("link set lo up");
    const BUDGET: u64 = 256 << 20;
    let server = Server::start(LINKRATE, "--max-memory 256MiB --client-sessions 64");
    // the first session of each kind loads what stays
    for client in &Clients::paced(1) {
        client.rate(client.start());
    }
    std::thread::sleep(Duration::from_millis(500));
    let before = server.figures();
    let alone = rates(load.seconds.min(20), load.clients);
    server.await_quiet(before);
    let hostile = HostileClients::start(load.hostile, load.life);
    // all are there
    assert!(wait_until(load.life * 4, || hostile.opened() >= load.hostile));
    [IPERF3, NETPERF].into_iter().for_each(|port| await_connections(port, 10));
    let at_once = server.figures();
    let among = rates(load.seconds, load.clients);
    println!("{} hostile connections; {at_once:?}", hostile.opened());
    drop(hostile);
    server.await_quiet(before);
    let after = server.figures();
    println!("before {before:?}, after {after:?}");
    assert!(after.peak < BUDGET, "{after:?}");
    let share = |(alone, among): (&(usize, f64), &(usize, f64))| (alone.0, among.1 / alone.1);
    let shares: Vec<(usize, f64)> = alone.iter().zip(&among).map(share).collect();
    let least = shares.iter().map(|(_, share)| *share).fold(f64::INFINITY, f64::min);
    println!("the least share of a rate: {least:.3}");
    assert!(least >= LEAST, "of iperf3 (0) and netperf (1): {shares:.3?}");
    server.end();
}

#[test]
#[ignore = "exhaustive: fourteen seconds alone on the machine"]
fn honest_clients_keep_their_rates_among_hostile_ones() {
    in_a_host(|| {
        let life = Duration::from_secs(3);
        among_hostile_clients(&Load { clients: 8, hostile: 600, life, seconds: 4 });
    });
}

#[test]
#[ignore = "exhaustive: all sessions, and thousands of hostile clients for two minutes"]
fn all_sessions_keep_their_rates_for_two_minutes_among_thousands_of_hostile_clients() {
    in_a_host(|| {
        let life = Duration::from_secs(10);
        among_hostile_clients(&Load { clients: 64, hostile: 5000, life, seconds: 120 });
    });
}
