//! Whatever a client of iperf3 or netperf sends, in whatever pieces, order and pace: its session ends, no thread of the server
//! panics, and the next client is served.
//!
//! An input drives sessions of both programs by their scripts. For each message it says whether the message is whole, comes
//! in pieces with pauses between them, comes in another order, is cut off, comes twice, or is octets of the input's own.
//! Pauses are of a millisecond or two: what the server does in them is the same as in longer ones.

#![no_main]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use linkrate_interop::iperf3::{Directions, GREETING, Parameters, Transport};
use linkrate_interop::json::framed;
use linkrate_interop::netperf::{Kind, Message, OmniRequest, Shape};
use linkrate_interop::serve::{self, Budget, Limits, Printed};

/// How long an answer may take. Later ones are left out: the client goes on.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(5);

/// How long an honest client waits for an answer.
const HONEST_TIMEOUT: Duration = Duration::from_secs(5);

const MOST_SESSIONS: usize = 3;

/// Memory of all tests, and octets of one.
const MEMORY: u64 = 64 << 20;
const MOST_BYTES: u64 = 1 << 20;

/// States of iperf3 that a client says.
const TEST_END: u8 = 4;
const DONE: u8 = 16;

fuzz_target!(|bytes: &[u8]| {
    let [iperf3, netperf] = servers();
    let mut script = Script(bytes);
    for _ in 0..MOST_SESSIONS {
        let Some(program) = script.byte() else { break };
        match program % 2 {
            0 => session_of_iperf3(iperf3, &mut script),
            _ => session_of_netperf(netperf, &mut script),
        };
    }
    // the next clients are served
    let cookie = [&[b'a'; 36][..], &[0]].concat();
    let debug = Message::new(Kind::DebugOn);
    for (server, asked) in [(iperf3, &cookie[..]), (netperf, &debug.octets()[..])] {
        let mut honest = connect(server, HONEST_TIMEOUT).expect("a server");
        honest.write_all(asked).expect("a server that reads");
        honest.read_exact(&mut [0]).expect("an answer");
    }
});

/// Both servers, which live as long as this process.
fn servers() -> [SocketAddr; 2] {
    static SERVERS: OnceLock<[SocketAddr; 2]> = OnceLock::new();
    static STOP: AtomicBool = AtomicBool::new(false);
    *SERVERS.get_or_init(|| {
        // as in every Rust program: here main is libFuzzer's
        signal_hook::flag::register(signal_hook::consts::SIGPIPE, Arc::default())
            .expect("a handler");
        let limits: &Limits = Box::leak(Box::new(Limits {
            seconds: 1,
            session_seconds: 2,
            bytes: MOST_BYTES,
            ..Limits::default()
        }));
        let budget: &Budget = Box::leak(Box::new(Budget::new(MEMORY)));
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let addresses = listeners.each_ref().map(|of| of.local_addr().expect("its address"));
        let [iperf3, netperf] = listeners;
        std::thread::spawn(move || {
            serve::iperf3(&iperf3, limits, budget, None, Printed::default(), &STOP, &|_| {})
        });
        std::thread::spawn(move || serve::netperf(&netperf, limits, budget, &STOP, &|_| {}));
        addresses
    })
}

fn connect(server: SocketAddr, timeout: Duration) -> Option<TcpStream> {
    let stream = TcpStream::connect(server).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    stream.set_write_timeout(Some(timeout)).ok()?;
    Some(stream)
}

/// What is left of an input.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number below `end`; 0 at the end of the input.
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte().unwrap_or(0)) % end.max(1)
    }

    fn octets(&mut self, most: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }

    /// Sends a message as the input says. `None` where its connection has ended.
    fn send(&mut self, mut to: &TcpStream, message: &[u8]) -> Option<()> {
        let at = |script: &mut Self, end: usize| match script.below(256) {
            far if far >= 128 => end * (far - 128) / 128,
            near => near.min(end),
        };
        let pieces: Vec<Vec<u8>> = match self.below(16) {
            8 | 9 => {
                let (first, rest) = message.split_at(at(self, message.len()));
                vec![first.to_vec(), rest.to_vec()]
            }
            10 => message.chunks((message.len() / 8).max(1)).map(<[u8]>::to_vec).collect(),
            11 => {
                let (first, rest) = message.split_at(at(self, message.len()));
                vec![rest.to_vec(), first.to_vec()]
            }
            12 => vec![message[..at(self, message.len())].to_vec()],
            13 => vec![message.to_vec(), message.to_vec()],
            14 => {
                let count = self.below(64);
                vec![self.octets(count)]
            }
            15 => {
                let mut changed = message.to_vec();
                for _ in 0..self.below(8) {
                    let place = at(self, message.len().saturating_sub(1));
                    changed[place] = self.byte().unwrap_or(0);
                }
                vec![changed]
            }
            _ => vec![message.to_vec()],
        };
        for piece in pieces {
            to.write_all(&piece).ok()?;
            self.pause();
        }
        Some(())
    }

    fn pause(&mut self) {
        if let pause @ 1..3 = self.below(16) {
            std::thread::sleep(Duration::from_millis(pause as u64));
        }
    }

    /// Takes an answer of that length, or goes on without it.
    fn receive<const COUNT: usize>(&mut self, mut from: &TcpStream) -> [u8; COUNT] {
        let mut octets = [0; COUNT];
        // most of the time: others do not read
        if self.below(16) != 15 {
            let _ = from.read_exact(&mut octets);
        }
        octets
    }

    /// Ends a connection in one of several ways, or lets it end with its session.
    fn end(&mut self, stream: &TcpStream) {
        let way = match self.below(8) {
            4 => Shutdown::Write,
            5 => Shutdown::Read,
            6 => Shutdown::Both,
            _ => return,
        };
        let _ = stream.shutdown(way);
    }
}

fn session_of_iperf3(server: SocketAddr, script: &mut Script) -> Option<()> {
    let control = connect(server, ANSWER_TIMEOUT)?;
    let mut cookie = [b'a'; 37];
    cookie[..2].copy_from_slice(&[b'b' + script.byte()? % 8, b'b' + script.byte()? % 8]);
    cookie[36] = 0;
    script.send(&control, &cookie)?;
    script.receive::<1>(&control);
    let asked = asked_of_iperf3(script);
    script.send(&control, &framed(&asked.document())?)?;
    script.receive::<1>(&control);
    let (mut connections, mut sockets) = (Vec::new(), Vec::new());
    // some clients open more streams than they have asked for, or fewer
    let count = asked.ways.streams(asked.parallel) as usize + script.below(3);
    for _ in 0..count.saturating_sub(script.below(2)).min(8) {
        match asked.transport {
            Transport::Tcp => {
                let stream = connect(server, ANSWER_TIMEOUT)?;
                script.send(&stream, &cookie);
                connections.push(stream);
            }
            Transport::Udp => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
                socket.set_read_timeout(Some(ANSWER_TIMEOUT)).ok()?;
                socket.send_to(&GREETING, server).ok()?;
                let _ = socket.recv(&mut [0; 8]);
                sockets.push(socket);
            }
        }
    }
    // it begins, and runs
    script.receive::<2>(&control);
    for stream in &connections {
        let _ = script.send(stream, &[0x5a; 4096]);
        script.end(stream);
    }
    for socket in &sockets {
        let _ = socket.send_to(&script.octets(32), server);
    }
    script.send(&control, &[TEST_END])?;
    script.receive::<1>(&control);
    let streams = (0..count).map(|number| {
        serde_json::json!({
            "id": if number == 0 { 1 } else { number + 2 },
            "bytes": 4096, "retransmits": 0, "jitter": 0, "errors": 0, "packets": 1
        })
    });
    let streams: Vec<_> = streams.collect();
    let results = serde_json::json!({
        "cpu_util_total": 1, "cpu_util_user": 1, "cpu_util_system": 0,
        "sender_has_retransmits": 0, "streams": streams
    });
    script.send(&control, &framed(&results)?)?;
    let length = u32::from_be_bytes(script.receive(&control));
    let mut document = vec![0; length.min(1 << 16) as usize];
    let _ = (&control).read_exact(&mut document);
    script.receive::<1>(&control);
    script.send(&control, &[DONE])?;
    script.end(&control);
    Some(())
}

fn asked_of_iperf3(script: &mut Script) -> Parameters {
    let switches = script.below(256);
    let has = |bit: usize| switches & 1 << bit != 0;
    Parameters {
        transport: if has(0) { Transport::Udp } else { Transport::Tcp },
        ways: match (has(1), has(2)) {
            (false, _) => Directions::Forward,
            (true, false) => Directions::Reverse,
            (true, true) => Directions::Both,
        },
        seconds: 1,
        parallel: 1 + u32::from(has(3)),
        block: if has(0) { 1000 } else { 4096 },
        bytes: if has(4) { 8192 } else { 0 },
        bandwidth: if has(5) { 1_000_000 } else { 0 },
        zero_copy: has(6),
        nodelay: has(7),
        ..Parameters::default()
    }
}

fn session_of_netperf(server: SocketAddr, script: &mut Script) -> Option<()> {
    const SHAPES: [Shape; 5] = [
        Shape::Stream,
        Shape::Maerts,
        Shape::RequestResponse,
        Shape::ConnectRequestResponse,
        Shape::Connect,
    ];
    let control = connect(server, ANSWER_TIMEOUT)?;
    for _ in 0..=script.below(3) {
        let udp = script.below(2) == 1;
        let shape = SHAPES[script.below(SHAPES.len())];
        let units = script.below(8) as i32;
        let asked = OmniRequest {
            request_size: 1 + script.below(64) as u32,
            response_size: 1 + script.below(64) as u32,
            send_size: Some(4096).filter(|_| script.below(2) == 1),
            receive_size: Some(4096).filter(|_| script.below(2) == 1),
            ..OmniRequest::of(shape, udp, 1 - units)
        };
        script.send(&control, asked.message(false).octets())?;
        let answer = script.receive::<656>(&control);
        let port = u16::from_be_bytes([answer[54], answer[55]]);
        let data = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if udp {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
            for _ in 0..script.below(8) {
                let count = script.below(64);
                let _ = socket.send_to(&script.octets(count), data);
                script.pause();
            }
        } else if port != 0 {
            for _ in 0..=script.below(3) {
                let Some(stream) = connect(data, ANSWER_TIMEOUT) else { break };
                let _ = script.send(&stream, &vec![0x5a; asked.request_size as usize * 4]);
                script.receive::<16>(&stream);
                script.end(&stream);
            }
        }
        script.receive::<656>(&control);
    }
    script.end(&control);
    Some(())
}
