//! Accepts the connections of a run, and reads the preambles of all at the same time: a connection
//! that stays silent delays no other.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use linkrate_sys::socket;

use super::preamble::{PREAMBLE_BYTES, Preamble};
use super::unexpected_peers::Guard;
use super::{Control, GREETING, POLL_INTERVAL, is_passing};

/// The most connections without a preamble; of more, the oldest is refused.
const MAX_SILENT: usize = if cfg!(test) { 32 } else { 512 };

/// A connection after its preamble.
#[derive(Debug)]
pub struct Connection {
    pub preamble: Preamble,
    pub socket: OwnedFd,
}

/// A connection before its preamble.
struct Silent {
    socket: OwnedFd,
    address: IpAddr,
    bytes: [u8; PREAMBLE_BYTES],
    filled: usize,
    deadline: Instant,
}

/// Accepts on all `listeners` until `expected` connections of the run have arrived, and sends each
/// to `arrived`. The listeners are closed then, so that the kernel refuses others. An error goes to `arrived` too.
pub fn accept_all(
    listeners: &[Arc<OwnedFd>],
    expected: usize,
    guard: &Guard,
    control: &Control,
    arrived: &Sender<io::Result<Connection>>,
) {
    let mut incoming = Acceptor { listeners, guard, silent: Vec::new() };
    let mut missing = expected;
    while missing > 0 && !control.stopped() {
        match incoming.step() {
            Ok(connections) => {
                for connection in connections {
                    missing = missing.saturating_sub(1);
                    // a closed channel means that the session has ended
                    if arrived.send(Ok(connection)).is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                let _ = arrived.send(Err(error));
                return;
            }
        }
    }
}

struct Acceptor<'a> {
    listeners: &'a [Arc<OwnedFd>],
    guard: &'a Guard,
    silent: Vec<Silent>,
}

impl Acceptor<'_> {
    /// Waits for a moment. Returns the connections whose preamble is complete.
    fn step(&mut self) -> io::Result<Vec<Connection>> {
        let sockets: Vec<BorrowedFd<'_>> = self
            .listeners
            .iter()
            .map(|listener| listener.as_fd())
            .chain(self.silent.iter().map(|silent| silent.socket.as_fd()))
            .collect();
        let ready = socket::wait_any(&sockets, POLL_INTERVAL)?;
        let first = self.listeners.len();
        let mut complete = Vec::new();
        // from the last to the first, since some are removed
        for index in ready.iter().rev().filter_map(|index| index.checked_sub(first)) {
            match self.silent[index].read(self.guard.nonce) {
                Ok(None) => {}
                Ok(Some(preamble)) => {
                    let socket = self.silent.swap_remove(index).socket;
                    complete.push(Connection { preamble, socket });
                }
                Err(_) => self.refuse(index),
            }
        }
        for index in ready.into_iter().filter(|index| *index < first) {
            self.accept(index)?;
        }
        let now = Instant::now();
        for index in (0..self.silent.len()).rev() {
            if self.silent[index].deadline <= now {
                self.refuse(index);
            }
        }
        Ok(complete)
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        let (socket, peer) = match socket::accept(&self.listeners[listener]) {
            Ok(accepted) => accepted,
            // the connection was reset meanwhile
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let address = peer.ip();
        if !self.guard.admits(address) {
            return Ok(());
        }
        if self.silent.len() >= MAX_SILENT {
            let oldest = (0..self.silent.len()).min_by_key(|index| self.silent[*index].deadline);
            oldest.into_iter().for_each(|index| self.refuse(index));
        }
        let deadline = Instant::now() + GREETING;
        let bytes = [0; PREAMBLE_BYTES];
        self.silent.push(Silent { socket, address, bytes, filled: 0, deadline });
        Ok(())
    }

    fn refuse(&mut self, index: usize) {
        let refused = self.silent.swap_remove(index);
        self.guard.unexpected_peers.refuse(refused.address);
    }
}

impl Silent {
    /// Reads what has arrived. Returns the preamble when it is complete.
    fn read(&mut self, nonce: u64) -> io::Result<Option<Preamble>> {
        match socket::receive_now(&self.socket, &mut self.bytes[self.filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.filled += count,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        if self.filled < PREAMBLE_BYTES {
            return Ok(None);
        }
        Preamble::from_bytes(&self.bytes, nonce).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpStream};
    use std::sync::mpsc::channel;

    use linkrate_model::SocketKnobs;

    use super::super::preamble::ClientRole;
    use super::*;
    use crate::sockets;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn preamble(flow: u16) -> Preamble {
        Preamble { nonce: 5, client: 0, flow, part: 0, role: ClientRole::Sends }
    }

    fn started(
        clients: impl IntoIterator<Item = IpAddr>,
        expected: usize,
    ) -> (u16, Guard, std::sync::mpsc::Receiver<io::Result<Connection>>) {
        let knobs = SocketKnobs { congestion: "reno".to_owned(), ..SocketKnobs::default() };
        let listener = sockets::tcp_listener(&knobs, HERE, 64).unwrap();
        socket::set_nonblocking(&listener, true).unwrap();
        let port = socket::local_port(&listener).unwrap();
        let (guard, listeners) = (Guard::new(5, clients), [Arc::new(listener)]);
        let (sender, incoming) = channel();
        let theirs = guard.clone();
        std::thread::spawn(move || {
            accept_all(&listeners, expected, &theirs, &Control::default(), &sender);
        });
        (port, guard, incoming)
    }

    #[test]
    fn silent_and_foreign_connections_delay_no_flow_and_are_counted() {
        let (port, guard, incoming) = started([HERE], 3);
        let connect = || TcpStream::connect((HERE, port)).unwrap();
        let begun = Instant::now();
        let silent: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
        let mut foreign = connect();
        foreign.write_all(&Preamble { nonce: 6, ..preamble(0) }.to_bytes()).unwrap();
        let mut flows: Vec<TcpStream> = (0..3).map(|_| connect()).collect();
        for (flow, stream) in (0..).zip(&mut flows) {
            // in two parts
            let bytes = preamble(flow).to_bytes();
            stream.write_all(&bytes[..5]).unwrap();
            stream.write_all(&bytes[5..]).unwrap();
        }
        for _ in 0..3 {
            let connection = incoming.recv_timeout(GREETING / 2).unwrap().unwrap();
            assert!(connection.preamble.flow < 3);
        }
        assert!(begun.elapsed() < GREETING, "{:?}", begun.elapsed());
        assert_eq!(guard.unexpected_peers.report().refused, 1);
        drop(silent);
    }

    #[test]
    fn silent_connections_are_refused_in_time_and_the_oldest_of_many_at_once() {
        let (port, guard, incoming) = started([HERE], 1);
        let begun = Instant::now();
        let all = MAX_SILENT as u64 + 3;
        let silent: Vec<TcpStream> =
            (0..all).map(|_| TcpStream::connect((HERE, port)).unwrap()).collect();
        let wait_for = |refused| {
            while guard.unexpected_peers.report().refused < refused {
                assert!(begun.elapsed() < 5 * GREETING, "{:?}", guard.unexpected_peers.report());
                std::thread::sleep(POLL_INTERVAL / 10);
            }
        };
        wait_for(3);
        assert!(begun.elapsed() < GREETING, "{:?}", begun.elapsed());
        assert_eq!(guard.unexpected_peers.report().refused, 3);
        wait_for(all);
        assert!(begun.elapsed() >= GREETING, "{:?}", begun.elapsed());
        drop((silent, incoming));
    }

    #[test]
    fn a_connection_from_another_address_is_refused_at_once() {
        let (port, guard, incoming) = started([IpAddr::from([198, 51, 100, 2])], 1);
        let mut stream = TcpStream::connect((HERE, port)).unwrap();
        stream.write_all(&preamble(0).to_bytes()).unwrap();
        assert!(incoming.recv_timeout(GREETING / 4).is_err());
        assert_eq!(guard.unexpected_peers.report().addresses, [HERE]);
    }
}
