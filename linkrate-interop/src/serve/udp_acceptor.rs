//! UDP acceptor: one socket receives the first datagram of every stream.
//!
//! A first datagram says nothing of its test. It belongs to the test that waits for streams from its source
//! address, and of each address one test waits at a time. So a client gets datagrams only at the address that
//! its control connection comes from, and nobody can have them sent to another one.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linkrate_sys::bound_socket;

use super::POLL_INTERVAL;
use crate::iperf3::answer;

/// Octets of a datagram that are read: one more than a greeting has, so that a longer one is none.
const HEARD: usize = 5;

/// How long the tests of an address that wait for their turn wait for one that opens no stream.
const ALL_TIMEOUT: Duration = Duration::from_secs(3);
/// So many count as few.
const FEW: u32 = 8;

/// Most datagrams that sockets have taken before they were connected: a buffer has no room for more.
const MAX_OTHERS: usize = 4096;

/// The socket, and the tests that wait for streams.
#[derive(Debug)]
pub(super) struct UdpAcceptor {
    listener: UdpSocket,
    turns: Mutex<Turns>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    /// The test of each address that opens its streams.
    opening: HashMap<IpAddr, Opening>,
    /// Tests that wait for that, by their addresses, in the order in which they came.
    queues: HashMap<IpAddr, Vec<u64>>,
    next: u64,
}

impl Turns {
    fn leave(&mut self, client: IpAddr, number: u64) {
        if let Some(queue) = self.queues.get_mut(&client) {
            queue.retain(|other| *other != number);
            if queue.is_empty() {
                self.queues.remove(&client);
            }
        }
    }
}

/// A test that opens its streams.
#[derive(Debug)]
struct Opening {
    /// Where its control connection came in.
    here: SocketAddr,
    streams: SyncSender<UdpSocket>,
    /// When its client was told to, or has opened the last one.
    last: Instant,
}

/// The turn of a test to open its streams, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    udp_acceptor: &'a UdpAcceptor,
    client: IpAddr,
    /// The least time that its client has for the next stream.
    least: Duration,
    /// Its streams, in the order in which the client opens them.
    pub(super) streams: Receiver<UdpSocket>,
}

impl Turn<'_> {
    /// Counts from now on: the client is told to open its streams.
    pub(super) fn begin(&self) {
        if let Some(opening) = self.udp_acceptor.turns().opening.get_mut(&self.client) {
            opening.last = Instant::now();
        }
    }

    /// Whether others wait while its client opens no stream. The more wait, the less time it has: all together wait
    /// some seconds, or as long as the path takes.
    pub(super) fn is_in_the_way(&self) -> bool {
        let turns = self.udp_acceptor.turns();
        let Some(waiting) = turns.queues.get(&self.client).map(Vec::len) else { return false };
        let share = ALL_TIMEOUT / FEW.max(waiting as u32);
        let opening = turns.opening.get(&self.client);
        opening.is_some_and(|opening| opening.last.elapsed() > share.max(self.least))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.udp_acceptor.turns().opening.remove(&self.client);
        self.udp_acceptor.freed.notify_all();
    }
}

impl UdpAcceptor {
    /// Listens at `address`.
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = bound_socket::shared(address)?;
        listener.set_read_timeout(Some(POLL_INTERVAL))?;
        Ok(Self { listener, turns: Mutex::default(), freed: Condvar::new() })
    }

    /// Lets `client`, whose control connection came in at `here`, open streams, when no other test waits for
    /// streams from its address; `None` if it does not go on so long. It opens at most `most`. While others wait, it has
    /// `least` for each stream, or more where few do.
    pub(super) fn turn(
        &self,
        client: IpAddr,
        here: SocketAddr,
        most: usize,
        least: Duration,
        goes_on: impl Fn() -> bool,
    ) -> Option<Turn<'_>> {
        let client = client.to_canonical();
        let mut turns = self.turns();
        let number = turns.next;
        turns.next += 1;
        turns.queues.entry(client).or_default().push(number);
        while turns.opening.contains_key(&client)
            || turns.queues.get(&client).and_then(|queue| queue.first()) != Some(&number)
        {
            if !goes_on() {
                turns.leave(client, number);
                return None;
            }
            let woken = self.freed.wait_timeout(turns, POLL_INTERVAL);
            turns = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        turns.leave(client, number);
        let (sender, streams) = sync_channel(most);
        let opening = Opening { here, streams: sender, last: Instant::now() };
        turns.opening.insert(client, opening);
        drop(turns);
        Some(Turn { udp_acceptor: self, client, least, streams })
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers first datagrams until `stop` is set.
    pub(super) fn run(&self, stop: &AtomicBool) {
        let mut heard = VecDeque::new();
        while !stop.load(Ordering::Relaxed) {
            let mut octets = [0; HEARD];
            // errors are those of peers that have gone, and the time that is up
            if let Ok((length, from)) = self.listener.recv_from(&mut octets) {
                heard.push_back((octets, length, from));
            }
            while let Some((octets, length, from)) = heard.pop_front() {
                let Some(answer) = answer(&octets[..length]) else { continue };
                // a client whose stream cannot be opened hears nothing, and its test ends in time
                let _ = self.begin(from, answer, &mut heard);
            }
        }
    }

    /// Opens the stream of the client at `from`, if its test waits for one.
    fn begin(&self, from: SocketAddr, answer: [u8; 4], heard: &mut Heard) -> io::Result<()> {
        let mut turns = self.turns();
        let client = from.ip().to_canonical();
        let Some(opening) = turns.opening.get_mut(&client) else { return Ok(()) };
        opening.last = Instant::now();
        let stream = bound_socket::shared(opening.here)?;
        stream.connect(from)?;
        // before it was connected it took the datagrams of others
        stream.set_nonblocking(true)?;
        let mut octets = [0; HEARD];
        for _ in 0..MAX_OTHERS {
            let Ok((length, other)) = stream.recv_from(&mut octets) else { break };
            if other != from && heard.len() < MAX_OTHERS {
                heard.push_back((octets, length, other));
            }
        }
        stream.set_nonblocking(false)?;
        // the client opens the next one as soon as it has the answer
        let answering = stream.try_clone()?;
        if opening.streams.try_send(stream).is_ok() {
            answering.send(&answer)?;
        }
        Ok(())
    }
}

/// Datagrams that are to be looked at, with their lengths and senders.
type Heard = VecDeque<([u8; HEARD], usize, SocketAddr)>;

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket of a client that has sent `greeting`, and the answer, if there is one in time.
    fn greet(udp_acceptor: SocketAddr, greeting: &[u8]) -> (UdpSocket, Option<Vec<u8>>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(udp_acceptor).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        socket.send(greeting).unwrap();
        let mut answer = [0; 16];
        let count = socket.recv(&mut answer);
        (socket, count.ok().map(|count| answer[..count].to_vec()))
    }

    #[test]
    fn streams_go_to_the_test_that_waits_and_one_waits_at_a_time() {
        let udp_acceptor = UdpAcceptor::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let here = udp_acceptor.listener.local_addr().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| udp_acceptor.run(&stop));
            let soon = || {
                let deadline = Instant::now() + Duration::from_millis(200);
                move || Instant::now() < deadline
            };
            let least = Duration::from_secs(10);
            // nobody waits
            assert_eq!(greet(here, b"9876").1, None);
            let turn =
                udp_acceptor.turn(here.ip(), here, 2, least, soon()).expect("the first turn");
            assert!(udp_acceptor.turn(here.ip(), here, 2, least, soon()).is_none());
            let other = "192.0.2.1".parse().unwrap();
            assert!(udp_acceptor.turn(other, here, 2, least, soon()).is_some());
            for (greeting, expected) in [
                (&b"9876"[..], Some(&b"6789"[..])),
                (b"98765", None),
                (b"none", None),
                (b"6789", Some(b"9876")),
            ] {
                let (client, answer) = greet(here, greeting);
                assert_eq!(answer.as_deref(), expected);
                if expected.is_some() {
                    let stream = turn.streams.recv_timeout(Duration::from_secs(5)).unwrap();
                    assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
                    client.send(b"payload").unwrap();
                    let mut payload = [0; 16];
                    assert_eq!(stream.recv(&mut payload).unwrap(), 7);
                }
            }
            drop(turn);
            assert!(udp_acceptor.turn(here.ip(), here, 2, least, soon()).is_some());
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_client_that_sends_nothing_is_soon_in_the_way_of_others() {
        let udp_acceptor = UdpAcceptor::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let here = udp_acceptor.listener.local_addr().unwrap();
        let least = Duration::from_millis(30);
        let turn = || udp_acceptor.turn(here.ip(), here, 2, least, || true).expect("a turn");
        let first = turn();
        std::thread::sleep(least);
        first.begin();
        assert!(!first.is_in_the_way(), "nobody waits");
        let order = Mutex::new(Vec::new());
        let waiting = || udp_acceptor.turns().queues.get(&here.ip()).map_or(0, Vec::len);
        std::thread::scope(|scope| {
            for number in 0..3 {
                let (order, turn) = (&order, &turn);
                scope.spawn(move || {
                    let _turn = turn();
                    order.lock().unwrap().push(number);
                });
                while waiting() <= number {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            let begun = Instant::now();
            while !first.is_in_the_way() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(begun.elapsed() < ALL_TIMEOUT, "three share it");
            drop(first);
        });
        assert_eq!(order.into_inner().unwrap(), [0, 1, 2]);
        assert_eq!(waiting(), 0);
    }
}
