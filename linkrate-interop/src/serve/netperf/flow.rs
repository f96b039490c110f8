//! Payload and connections of a test.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use linkrate_sys::memory::PageBuffer;
use linkrate_sys::socket::is_out_of_buffers;

use super::super::POLL_INTERVAL;
use super::super::report::Ending;
use super::source::Source;
use super::watch::{Guard, Watch};
use super::{Ended, Keep, failed};
use crate::netperf::{Pace, Ring, Shape};
use linkrate_sys::bounded::is_passing;

/// What a test has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) received_bytes: u64,
    pub(super) receive_calls: u32,
    pub(super) sent_bytes: u64,
    pub(super) send_calls: u32,
    pub(super) transactions: u64,
}

impl Tally {
    /// Octets both ways.
    fn bytes(&self) -> u64 {
        self.received_bytes.saturating_add(self.sent_bytes)
    }
}

/// A test that runs.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) shape: Shape,
    pub(super) source: Source,
    pub(super) send: Ring<Arc<PageBuffer>>,
    pub(super) receive: Ring,
    /// Octets of a stream or transactions that are still to come, of a test that counts them.
    pub(super) units: Option<u64>,
    /// The bound of its calls.
    pub(super) pace: Option<Pace>,
    pub(super) tally: Tally,
}

/// What became of a message.
enum Moved {
    All(usize),
    Ended(Ended),
}

/// Leaves the test where a message was not moved.
macro_rules! moved {
    ($moved:expr) => {
        match $moved? {
            Moved::All(octets) => octets as u64,
            Moved::Ended(ended) => return Ok(Some(ended)),
        }
    };
}

impl Flow {
    /// Runs over connections that `listener` accepts, the last one of which is left in `stream`. The time-outs of
    /// the listener are those of its connections, except where one connection lasts for the whole test.
    pub(super) fn connections(
        &mut self,
        listener: &TcpListener,
        stream: &mut Option<TcpStream>,
        watch: &mut Watch<'_, '_>,
    ) -> Result<Ended, Ending> {
        while self.units != Some(0) {
            if !watch.goes_on_with(self.tally.bytes())? {
                return Ok(Ended::TimeUp);
            }
            match listener.accept() {
                Ok((accepted, client)) => {
                    // that of a stranger is closed
                    *stream = self.source.admits(client.ip(), watch.limits()).then_some(accepted);
                    if stream.is_some() {
                        watch.begin();
                    }
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(failed(error)),
            }
            let Some(socket) = stream else { continue };
            let way = match self.shape {
                Shape::Connect | Shape::ConnectRequestResponse => {
                    if let Some(ended) = self.exchange(socket, watch)? {
                        return Ok(ended);
                    }
                    *stream = None;
                    self.pause(watch)?;
                    continue;
                }
                Shape::Stream => Shutdown::Read,
                Shape::Maerts => Shutdown::Write,
                Shape::RequestResponse => Shutdown::Both,
            };
            return Guard::run(watch, socket, way, |socket, guard| self.lasts(socket, guard));
        }
        Ok(Ended::Done)
    }

    /// Runs over one connection until the end of the test.
    fn lasts(&mut self, socket: &mut TcpStream, keep: &mut impl Keep) -> Result<Ended, Ending> {
        while self.units != Some(0) {
            if !keep.goes_on_with(self.tally.bytes())? {
                return Ok(Ended::TimeUp);
            }
            if let Some(ended) = self.exchange(socket, keep)? {
                return Ok(ended);
            }
            self.pause(keep)?;
        }
        Ok(Ended::Done)
    }

    /// Waits for the next interval where this one has had its calls, and no longer than the test lasts.
    fn pause(&mut self, keep: &mut impl Keep) -> Result<(), Ending> {
        let Some(pace) = &mut self.pace else { return Ok(()) };
        let until = Instant::now() + pace.take();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !keep.goes_on()? {
                return Ok(());
            }
            thread::sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Moves one message, or one transaction. `Some` where it ends the test.
    fn exchange(
        &mut self,
        socket: &mut TcpStream,
        keep: &mut impl Keep,
    ) -> Result<Option<Ended>, Ending> {
        match self.shape {
            Shape::Stream => {
                let octets = moved!(self.receive_some(socket, keep));
                self.count(octets);
            }
            Shape::Maerts => {
                let octets = moved!(self.send_all(socket, keep));
                self.count(octets);
            }
            Shape::RequestResponse | Shape::ConnectRequestResponse => {
                moved!(self.receive_all(socket, keep));
                moved!(self.send_all(socket, keep));
            }
            Shape::Connect => {}
        }
        self.count_transaction();
        Ok(None)
    }

    fn count(&mut self, octets: u64) {
        self.units = self.units.map(|left| left.saturating_sub(octets));
    }

    fn count_transaction(&mut self) {
        if !matches!(self.shape, Shape::Stream | Shape::Maerts) {
            self.tally.transactions += 1;
            self.count(1);
        }
    }

    /// Receives what is there.
    fn receive_some(
        &mut self,
        socket: &mut TcpStream,
        keep: &mut impl Keep,
    ) -> Result<Moved, Ending> {
        let buffer = self.receive.next_buffer();
        loop {
            match socket.read(buffer) {
                Ok(0) => return Ok(Moved::Ended(Ended::Done)),
                Ok(octets) => {
                    self.tally.received_bytes += octets as u64;
                    self.tally.receive_calls = self.tally.receive_calls.wrapping_add(1);
                    return Ok(Moved::All(octets));
                }
                Err(error) if is_passing(&error) => {
                    if !keep.goes_on()? {
                        return Ok(Moved::Ended(Ended::TimeUp));
                    }
                }
                // the client sees how its connection ended better than this end does
                Err(_) => return Ok(Moved::Ended(Ended::Done)),
            }
        }
    }

    /// Receives a whole message. What is there of one that has no end does not count.
    fn receive_all(
        &mut self,
        socket: &mut TcpStream,
        keep: &mut impl Keep,
    ) -> Result<Moved, Ending> {
        let buffer = self.receive.next_buffer();
        let (mut have, mut calls) = (0, 0_u32);
        while have < buffer.len() {
            match socket.read(&mut buffer[have..]) {
                Ok(0) => return Ok(Moved::Ended(Ended::Done)),
                Ok(octets) => (have, calls) = (have + octets, calls + 1),
                Err(error) if is_passing(&error) => {}
                Err(_) => return Ok(Moved::Ended(Ended::Done)),
            }
            // also where octets arrive: those of a message may be a trickle
            if have < buffer.len() && !keep.goes_on()? {
                return Ok(Moved::Ended(Ended::TimeUp));
            }
        }
        self.tally.received_bytes += have as u64;
        self.tally.receive_calls = self.tally.receive_calls.wrapping_add(calls);
        Ok(Moved::All(have))
    }

    /// Sends a whole message. Octets that TCP has taken count.
    fn send_all(&mut self, socket: &mut TcpStream, keep: &mut impl Keep) -> Result<Moved, Ending> {
        let buffer = self.send.next_payload();
        let mut have = 0;
        keep.before_sending(socket).map_err(failed)?;
        while have < buffer.len() {
            match socket.write(&buffer[have..]) {
                Ok(octets) => {
                    have += octets;
                    self.tally.sent_bytes += octets as u64;
                }
                Err(error) if is_passing(&error) => {}
                Err(_) => return Ok(Moved::Ended(Ended::Done)),
            }
            if have < buffer.len() && !keep.goes_on()? {
                return Ok(Moved::Ended(Ended::TimeUp));
            }
        }
        self.tally.send_calls = self.tally.send_calls.wrapping_add(1);
        Ok(Moved::All(have))
    }

    /// Why a test has nothing to tell whose datagrams all came from `address`.
    fn strange(&self, address: IpAddr, multiplies: bool) -> Ending {
        Ending::Refused(match multiplies {
            true => format!(
                "requests from {address}, whose responses are longer; expected the address of the control connection"
            ),
            false => format!(
                "datagrams from {address}, expected the address of the control connection, or one that -- -L names"
            ),
        })
    }

    /// Runs over datagrams. Those of the first sender that may count do. Its address may be false, except that of the
    /// control connection, so an answer that is longer than its question goes there alone.
    pub(super) fn datagrams(
        &mut self,
        socket: &UdpSocket,
        watch: &mut Watch<'_, '_>,
    ) -> Result<Ended, Ending> {
        let answers = self.shape == Shape::RequestResponse;
        let multiplies = answers && self.send.call() > self.receive.call();
        let (mut peer, mut stranger) = (None::<SocketAddr>, None);
        while self.units != Some(0) {
            if !watch.goes_on_with(self.tally.bytes())? {
                return match (peer, stranger) {
                    (None, Some(stranger)) => Err(self.strange(stranger, multiplies)),
                    _ => Ok(Ended::TimeUp),
                };
            }
            let (octets, sender) = match socket.recv_from(self.receive.next_buffer()) {
                Ok(received) => received,
                Err(error) if is_passing(&error) => continue,
                // a refusal of what was sent before
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(failed(error)),
            };
            let is_admitted = self.source.admits(sender.ip(), watch.limits())
                && (!multiplies || self.source.is_control(sender.ip()));
            if !is_admitted {
                stranger = Some(sender.ip().to_canonical());
                continue;
            }
            if peer.is_none() {
                watch.begin();
            }
            if *peer.get_or_insert(sender) != sender {
                continue;
            }
            // the client's sign of the end
            if octets == 0 {
                return Ok(Ended::Done);
            }
            self.tally.received_bytes += octets as u64;
            self.tally.receive_calls = self.tally.receive_calls.wrapping_add(1);
            if !answers {
                self.count(octets as u64);
                self.pause(watch)?;
                continue;
            }
            match socket.send_to(self.send.next_payload(), sender) {
                Ok(octets) => {
                    self.tally.sent_bytes += octets as u64;
                    self.tally.send_calls = self.tally.send_calls.wrapping_add(1);
                }
                Err(error) if is_passing(&error) || is_out_of_buffers(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(failed(error)),
            }
            self.count_transaction();
            self.pause(watch)?;
        }
        Ok(Ended::Done)
    }
}
