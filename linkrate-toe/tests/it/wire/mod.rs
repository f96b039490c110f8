//! A host, an adapter and a peer in namespaces of their own, and a wire that steers, holds and loses
//! frames: the part of a device that moves need.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::IoSlice;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_model::lab::{Asked, ConnectionStatus};
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::sched::{ThreadId, current_thread};
use linkrate_sys::socket;
use linkrate_sys::tap::{self, Offloads, Tap, VNET_HEADER_BYTES};
use linkrate_toe::linux::Linux;
use linkrate_toe::program::{ParkedSocket, Parking, offload};
use linkrate_toe::{Connection, Engine, round_trip};

use super::common::leave_network;

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

/// The byte at a place of a stream, with a long period.
fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13 ^ at >> 20 ^ at >> 9) as u8
}

/// A TAP in the namespace of the calling thread.
fn interface(name: &str, mac: [u8; 6], address: Ipv4Addr) -> OwnedFd {
    let tap = Tap::open(name, 1).unwrap();
    let queue = tap.queues()[0].try_clone().unwrap();
    tap::set_offloads(&queue, Offloads { checksum: true, tso4: true, ..Offloads::NONE }).unwrap();
    let mut route = RouteSocket::open().unwrap();
    route.disable_ipv6(name).unwrap();
    route.set_hardware_address(name, mac).unwrap();
    route.set_tx_queue_length(name, 10_000).unwrap();
    route.add_address(name, address, 24).unwrap();
    route.set_up(name).unwrap();
    route.wait_running(name, Duration::from_secs(5)).unwrap();
    queue
}

/// Runs `make` in a network namespace of its own, and keeps that alive.
fn apart<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(move || {
        leave_network();
        make()
    })
    .join()
    .unwrap()
}

/// What the wire does with the frames of the connection.
#[derive(Debug, Default)]
struct Rules {
    /// The peer's frames wait.
    holds: bool,
    /// They go to the adapter instead of the host.
    to_adapter: bool,
    /// The peer has reset the connection, which is to return: the host's TCP takes the segment.
    asks: bool,
    /// It cannot return.
    stuck: bool,
    held: Vec<Vec<u8>>,
    /// Frames of the host that are not of the connection as it was, by their flags.
    strays: u64,
    /// One frame in so many is lost.
    loses: u64,
    random: u64,
    lost: u64,
    resets: u64,
}

impl Rules {
    fn loses(&mut self) -> bool {
        if self.loses == 0 {
            return false;
        }
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let lost = (self.random >> 33).is_multiple_of(self.loses);
        self.lost += u64::from(lost);
        lost
    }
}

#[derive(Debug)]
struct Taps {
    host: OwnedFd,
    adapter: OwnedFd,
    far: OwnedFd,
}

fn put(tap: &OwnedFd, frame: &[u8]) {
    let _ = tap::write_vectored(tap, &[IoSlice::new(frame)]);
}

/// Whether a frame is TCP, and its flags.
fn tcp_flags(frame: &[u8]) -> Option<u8> {
    let frame = frame.get(VNET_HEADER_BYTES..)?;
    (frame.get(12..14)? == [8, 0] && *frame.get(23)? == 6)
        .then(|| frame.get(14 + 20 + 13))
        .flatten()
        .copied()
}

/// Whether a frame is a segment that resets.
fn is_reset(frame: &[u8]) -> bool {
    tcp_flags(frame).is_some_and(|flags| flags & 4 != 0)
}

fn forward(taps: &Taps, rules: &Mutex<Rules>, ends: &AtomicBool) {
    let mut buffer = vec![0; tap::MAX_READ];
    while !ends.load(Ordering::Relaxed) {
        let mut any = false;
        while let Ok(length) = tap::read(&taps.host, &mut buffer) {
            any = true;
            let mut rules = rules.lock().unwrap();
            let is_reset = is_reset(&buffer[..length]);
            if rules.to_adapter && is_reset {
                rules.strays += 1;
                continue;
            }
            rules.resets += u64::from(is_reset);
            if !rules.loses() {
                put(&taps.far, &buffer[..length]);
            }
        }
        while let Ok(length) = tap::read(&taps.adapter, &mut buffer) {
            any = true;
            let mut rules = rules.lock().unwrap();
            rules.resets += u64::from(is_reset(&buffer[..length]));
            if tcp_flags(&buffer[..length]).is_some() && !rules.loses() {
                put(&taps.far, &buffer[..length]);
            }
        }
        while let Ok(length) = tap::read(&taps.far, &mut buffer) {
            any = true;
            let mut rules = rules.lock().unwrap();
            let of_connection = tcp_flags(&buffer[..length]).is_some();
            if of_connection && rules.loses() {
                continue;
            }
            if is_reset(&buffer[..length]) && rules.to_adapter && !rules.holds && !rules.stuck {
                (rules.holds, rules.asks) = (true, true);
            }
            if of_connection && rules.holds {
                rules.held.push(buffer[..length].to_vec());
            } else if of_connection && rules.to_adapter {
                put(&taps.adapter, &buffer[..length]);
            } else {
                put(&taps.host, &buffer[..length]);
            }
        }
        if !any {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// A thread of the program, or of the peer.
#[derive(Debug)]
pub struct Talker {
    pub parking: Arc<Parking>,
    pub thread: ThreadId,
    bytes: Arc<AtomicU64>,
    pub handle: JoinHandle<()>,
}

pub fn talker(body: impl FnOnce(&Parking, &AtomicU64) + Send + 'static) -> Talker {
    let (parking, bytes) = (Arc::new(Parking::default()), Arc::new(AtomicU64::new(0)));
    let (told, tells) = std::sync::mpsc::channel();
    let handle = std::thread::spawn({
        let (parking, bytes) = (Arc::clone(&parking), Arc::clone(&bytes));
        move || {
            told.send(current_thread()).unwrap();
            body(&parking, &bytes);
        }
    });
    Talker { parking, thread: tells.recv().unwrap(), bytes, handle }
}

/// Sends the pattern until `stops`, at a pace, and then ends the stream.
fn sender(socket: Arc<OwnedFd>, stops: Arc<AtomicBool>) -> Talker {
    talker(move |parking, bytes| {
        let mut at = 0;
        while !stops.load(Ordering::Relaxed) {
            let chunk: Vec<u8> = (at..at + 32_768).map(pattern).collect();
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let sent = parking.call(|| socket::send(&socket, rest)).expect("send");
                rest = &rest[sent..];
            }
            at += chunk.len() as u64;
            bytes.store(at, Ordering::Relaxed);
            parking.pass();
            std::thread::sleep(Duration::from_micros(800));
        }
        linkrate_sys::socket_swap::end_sending(&socket);
    })
}

/// Receives and compares until the stream ends.
fn receiver(socket: Arc<OwnedFd>) -> Talker {
    talker(move |parking, bytes| {
        let (mut at, mut buffer) = (0u64, vec![0; 65_536]);
        loop {
            let count = parking.call(|| socket::receive(&socket, &mut buffer)).expect("receive");
            if count == 0 {
                return;
            }
            for (offset, byte) in buffer[..count].iter().enumerate() {
                assert_eq!(*byte, pattern(at + offset as u64), "byte {}", at + offset as u64);
            }
            at += count as u64;
            bytes.store(at, Ordering::Relaxed);
        }
    })
}

/// Both ends, the wire and the adapter's engine.
pub struct Testbed {
    rules: Arc<Mutex<Rules>>,
    near: Arc<OwnedFd>,
    far: Arc<OwnedFd>,
    engine: Engine,
    parked_socket: Option<ParkedSocket>,
    ends: Arc<AtomicBool>,
    wire: Option<JoinHandle<()>>,
    taps: Arc<Taps>,
}

impl Testbed {
    /// `loses`: one frame in so many is lost; 0 for none.
    pub fn new(loses: u64) -> Self {
        let host = interface("near", NEAR_MAC, NEAR);
        round_trip::leave_one(NEAR.into(), FAR.into()).unwrap();
        let (far_tap, listener) = apart(|| {
            let tap = interface("far", FAR_MAC, FAR);
            (tap, TcpListener::bind((FAR, 7100)).unwrap())
        });
        let (adapter, engine) = apart(|| {
            let tap = interface("adapter", NEAR_MAC, NEAR);
            RouteSocket::open().unwrap().set_neighbour("adapter", FAR, FAR_MAC).unwrap();
            round_trip::leave_one(NEAR.into(), FAR.into()).unwrap();
            (tap, Engine::start(Linux).unwrap())
        });
        let rules = Arc::new(Mutex::new(Rules { random: 7, ..Rules::default() }));
        let ends = Arc::new(AtomicBool::new(false));
        let taps = Arc::new(Taps { host, adapter, far: far_tap });
        let wire = std::thread::spawn({
            let (rules, ends, taps) = (Arc::clone(&rules), Arc::clone(&ends), Arc::clone(&taps));
            move || forward(&taps, &rules, &ends)
        });
        let near = TcpStream::connect((FAR, 7100)).unwrap();
        let (far, _) = listener.accept().unwrap();
        rules.lock().unwrap().loses = loses;
        Self {
            rules,
            near: Arc::new(near.into()),
            far: Arc::new(far.into()),
            engine,
            parked_socket: None,
            ends,
            wire: Some(wire),
            taps,
        }
    }

    fn end(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(wire) = self.wire.take() {
            wire.join().expect("the wire");
        }
    }

    /// What came before is through when this returns.
    fn hold(&self) {
        self.rules.lock().unwrap().holds = true;
        std::thread::sleep(Duration::from_micros(300));
    }

    fn release(&self, to_adapter: bool) {
        let mut rules = self.rules.lock().unwrap();
        rules.to_adapter = to_adapter;
        rules.holds = false;
        // frames that come now wait for the lock, and so stay behind these
        let tap = if to_adapter { &self.taps.adapter } else { &self.taps.host };
        for frame in std::mem::take(&mut rules.held) {
            put(tap, &frame);
        }
    }

    /// Moves the connection to the adapter, or back to the host, while the program is in no call.
    pub fn move_to(&mut self, adapter: bool) {
        match adapter {
            true => self.offload(),
            false => self.reclaim(),
        }
    }

    /// Moves the connection to the adapter, while the program is in no call.
    pub fn offload(&mut self) {
        self.hold();
        let offloaded = offload(self.near.as_fd()).expect("lowered");
        let offloaded = offloaded.swap(self.near.as_fd()).expect("swapped");
        // what the host had sent is on the wire
        std::thread::sleep(Duration::from_micros(300));
        let connection = offloaded.connection;
        assert_eq!(Connection::decode(&connection.encode()).as_ref(), Ok(&connection));
        self.engine.import(1, offloaded.adapter, connection).expect("imported");
        self.release(true);
        self.parked_socket = Some(offloaded.parked_socket);
    }

    fn reclaim(&mut self) {
        self.hold();
        let connection = self.engine.export(1).expect("exported");
        std::thread::sleep(Duration::from_micros(300));
        self.take_back(connection);
    }

    fn take_back(&mut self, connection: Connection) {
        let parked_socket = self.parked_socket.take().expect("a shelf");
        parked_socket.reclaim(self.near.as_fd(), connection).expect("raised");
        self.release(false);
    }

    /// The program's socket, and that of the peer.
    pub fn sockets(&self) -> (Arc<OwnedFd>, Arc<OwnedFd>) {
        (Arc::clone(&self.near), Arc::clone(&self.far))
    }

    /// Loses every frame of the connection from now on, or none.
    pub fn lose_all(&self, all: bool) {
        self.rules.lock().unwrap().loses = u64::from(all);
    }

    /// How connections fare at the adapter.
    pub fn look(&self, asked: Asked) -> Vec<ConnectionStatus> {
        self.engine.look(asked).expect("the engine runs")
    }

    /// Brings a connection back that the peer has reset, and says whether there was one. The threads of
    /// the program stand still.
    pub fn tend(&mut self) -> bool {
        if !std::mem::take(&mut self.rules.lock().unwrap().asks) {
            return false;
        }
        match self.engine.export(1) {
            Ok(connection) => self.take_back(connection),
            Err(_) => {
                self.rules.lock().unwrap().stuck = true;
                self.release(true);
            }
        }
        true
    }

    /// Whether the connection asks to return.
    pub fn asks(&self) -> bool {
        self.rules.lock().unwrap().asks
    }

    /// Moves the connection down and up `cycles` times under traffic, and looks at every byte.
    pub fn carry(mut self, cycles: u32) {
        let stops = Arc::new(AtomicBool::new(false));
        let senders = [
            sender(Arc::clone(&self.near), Arc::clone(&stops)),
            sender(Arc::clone(&self.far), Arc::clone(&stops)),
        ];
        let receivers = [receiver(Arc::clone(&self.near)), receiver(Arc::clone(&self.far))];
        let (mut longest, mut all) = (Duration::ZERO, Vec::new());
        for _ in 0..cycles {
            for down in [true, false] {
                let before = [0, 1].map(|end| receivers[end].bytes.load(Ordering::Relaxed));
                let began = Instant::now();
                for talker in [&senders[0], &receivers[0]] {
                    talker.parking.park(talker.thread).expect("stands still");
                }
                self.move_to(down);
                for talker in [&senders[0], &receivers[0]] {
                    talker.parking.release();
                }
                all.push(began.elapsed());
                longest = longest.max(began.elapsed());
                // both directions continue
                let deadline = Instant::now() + Duration::from_secs(20);
                let moved = |end: usize| {
                    receivers[end].bytes.load(Ordering::Relaxed) > before[end] + 65_536
                };
                while !(moved(0) && moved(1)) {
                    assert!(Instant::now() < deadline, "it stands still");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        stops.store(true, Ordering::Relaxed);
        let [near_sender, far_sender] = senders;
        let [near_receiver, far_receiver] = receivers;
        let sent = [near_sender, far_sender].map(|talker| {
            talker.handle.join().expect("sent");
            talker.bytes.load(Ordering::Relaxed)
        });
        let received = [far_receiver, near_receiver].map(|talker| {
            talker.handle.join().expect("every byte is right");
            talker.bytes.load(Ordering::Relaxed)
        });
        assert_eq!(sent, received);
        self.end();
        let rules = self.rules.lock().unwrap();
        all.sort_unstable();
        println!(
            "{cycles} times down and up, {sent:?} bytes, {} frames lost, move {:?} (median), {longest:?} at most",
            rules.lost,
            all[all.len() / 2]
        );
        assert_eq!((rules.strays, rules.resets), (0, 0));
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.end();
    }
}
