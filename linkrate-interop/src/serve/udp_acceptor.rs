//! UDP acceptor: one socket receives the first datagram of every stream.
//!
//! A first datagram says nothing of its test. It belongs to the test that waits for streams from its source
//! address, and of each address one test waits at a time. So a client gets datagrams only at the address that
//! its control connection comes from, and nobody can have them sent to another one.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use linkrate_sys::bound_socket;

use super::POLL_INTERVAL;
use crate::iperf3::answer;

/// Octets of a datagram that are read: one more than a greeting has, so that a longer one is none.
const HEARD: usize = 5;

/// The socket, and the tests that wait for streams.
#[derive(Debug)]
pub(super) struct UdpAcceptor {
    listener: UdpSocket,
    waiting: Mutex<HashMap<IpAddr, Opening>>,
    freed: Condvar,
}

/// A test that waits for streams.
#[derive(Debug)]
struct Opening {
    /// Where its control connection came in.
    here: SocketAddr,
    streams: Sender<UdpSocket>,
}

/// The turn of a test to open its streams, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    udp_acceptor: &'a UdpAcceptor,
    client: IpAddr,
    /// Its streams, in the order in which the client opens them.
    pub(super) streams: Receiver<UdpSocket>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.udp_acceptor.waiting().remove(&self.client);
        self.udp_acceptor.freed.notify_all();
    }
}

impl UdpAcceptor {
    /// Listens at `address`.
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = bound_socket::shared(address)?;
        listener.set_read_timeout(Some(POLL_INTERVAL))?;
        Ok(Self { listener, waiting: Mutex::default(), freed: Condvar::new() })
    }

    /// Lets `client`, whose control connection came in at `here`, open streams, when no other test waits for
    /// streams from its address; `None` if that is not before `deadline`, or at the end of the server.
    pub(super) fn turn(
        &self,
        client: IpAddr,
        here: SocketAddr,
        deadline: Instant,
        stop: &AtomicBool,
    ) -> Option<Turn<'_>> {
        let client = client.to_canonical();
        let mut waiting = self.waiting();
        while waiting.contains_key(&client) {
            if stop.load(Ordering::Relaxed) || Instant::now() >= deadline {
                return None;
            }
            let woken = self.freed.wait_timeout(waiting, POLL_INTERVAL);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (sender, streams) = channel();
        waiting.insert(client, Opening { here, streams: sender });
        drop(waiting);
        Some(Turn { udp_acceptor: self, client, streams })
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<IpAddr, Opening>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
        let waiting = self.waiting();
        let Some(opening) = waiting.get(&from.ip().to_canonical()) else { return Ok(()) };
        let stream = bound_socket::shared(opening.here)?;
        stream.connect(from)?;
        // before it was connected it took the datagrams of others
        stream.set_nonblocking(true)?;
        let mut octets = [0; HEARD];
        while let Ok((length, other)) = stream.recv_from(&mut octets) {
            if other != from {
                heard.push_back((octets, length, other));
            }
        }
        stream.set_nonblocking(false)?;
        // the client opens the next one as soon as it has the answer
        let answering = stream.try_clone()?;
        if opening.streams.send(stream).is_ok() {
            answering.send(&answer)?;
        }
        Ok(())
    }
}

/// Datagrams that are to be looked at, with their lengths and senders.
type Heard = VecDeque<([u8; HEARD], usize, SocketAddr)>;

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            let soon = || Instant::now() + Duration::from_millis(200);
            // nobody waits
            assert_eq!(greet(here, b"9876").1, None);
            let turn = udp_acceptor.turn(here.ip(), here, soon(), &stop).expect("the first turn");
            assert!(udp_acceptor.turn(here.ip(), here, soon(), &stop).is_none());
            assert!(udp_acceptor.turn("192.0.2.1".parse().unwrap(), here, soon(), &stop).is_some());
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
            assert!(udp_acceptor.turn(here.ip(), here, soon(), &stop).is_some());
            stop.store(true, Ordering::Relaxed);
        });
    }
}
