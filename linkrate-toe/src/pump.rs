//! Bytes of one connection between the program's stream pair and a TCP, and the ends of both.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use linkrate_sys::{socket, socket_swap};

use crate::backlog::Backlog;
use crate::connection::{Connection, MAX_QUEUED};
use crate::migrate::Refusal;
use crate::moderation::Moderation;
use crate::stack::Stack;

/// Most bytes that a TCP takes before it sends them, with room to spare.
const MAX_UNSENT: usize = 1 << 20;

/// Most bytes that one turn carries in each direction, so that no connection keeps the others waiting.
const BUDGET: usize = 512 << 10;

/// The least room of the TCP for which the pair is read. A TCP with less room has enough to send, and each
/// read of the pair takes the lock that the program's sends take.
const WORTH: usize = 64 << 10;

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Both directions ended in order.
    Finished,
    /// The program closed its descriptor before the peer had finished.
    Closed,
    /// The program closed its descriptor with bytes that it had not read, or the peer sent on
    /// afterwards: the peer gets RST.
    Reset,
    /// The connection failed, with the error.
    Failed(io::ErrorKind),
}

/// What one turn did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Turn {
    /// Bytes carried in both directions.
    pub bytes: usize,
    /// Bytes wait for room: the next turn must come without an event.
    pub stalled: bool,
    pub ended: Option<Ended>,
}

/// One connection between a stream pair and a TCP.
#[derive(Debug)]
pub struct Pump<S: Stack> {
    pair: OwnedFd,
    tcp: S::Handle,
    /// Taken from the program, not from the TCP's send queue yet.
    outward: Backlog,
    /// Taken from the TCP, not given to the program yet.
    inward: Backlog,
    /// The program has ended its direction, and FIN was sent.
    out_ended: bool,
    finished: bool,
    /// The peer has finished, and the program was told.
    in_ended: bool,
    told: bool,
    reset_on_close: bool,
    moderation: Moderation,
    sent: u64,
    received: u64,
}

impl<S: Stack> Pump<S> {
    /// Gives a connection to `stack`. `pair` is the adapter's end of the program's stream pair.
    pub fn new(stack: &mut S, pair: OwnedFd, mut connection: Connection) -> Result<Self, Refusal> {
        let tcp = stack.import(&mut connection)?;
        Ok(Self {
            pair,
            tcp,
            outward: Backlog::of(connection.unsent),
            inward: Backlog::of(connection.unread),
            out_ended: false,
            finished: false,
            in_ended: false,
            told: false,
            reset_on_close: connection.settings.linger == Some(0),
            moderation: Moderation::default(),
            sent: 0,
            received: 0,
        })
    }

    /// The adapter's end of the pair.
    pub fn pair(&self) -> BorrowedFd<'_> {
        self.pair.as_fd()
    }

    /// The connection in the stack.
    pub fn tcp(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }

    /// Whether the end of the program's stream was read, and that of the peer's.
    pub fn ends_read(&self) -> (bool, bool) {
        (self.out_ended, self.in_ended)
    }

    /// Bytes from the program, and for it.
    pub fn carried(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    /// Whether bytes of the program are on their way, or are to be sent.
    pub fn has_unacknowledged(&self, stack: &S) -> bool {
        !self.outward.is_empty() || stack.has_unacknowledged(&self.tcp)
    }

    /// Retransmission time-outs of its connection in sequence.
    pub fn timeouts(&self, stack: &S) -> u8 {
        stack.timeouts(&self.tcp)
    }

    /// Carries what there is, and room for. `buffer` is for the caller's use again afterwards.
    pub fn turn(&mut self, stack: &mut S, buffer: &mut [u8]) -> Turn {
        let mut turn = Turn::default();
        let out = self.carry_out(stack, buffer, &mut turn);
        let inward = self.carry_in(stack, buffer, &mut turn);
        turn.ended = out.and(inward).err();
        if turn.ended.is_none() && self.finished && self.told {
            turn.ended = Some(Ended::Finished);
        }
        turn
    }

    fn carry_out(
        &mut self,
        stack: &mut S,
        buffer: &mut [u8],
        turn: &mut Turn,
    ) -> Result<(), Ended> {
        let mut carried = 0;
        while carried < BUDGET {
            if !self.outward.is_empty() {
                let taken = some(stack.send(&self.tcp, self.outward.bytes())).map_err(failed)?;
                let Some(count) = taken else {
                    turn.stalled = true;
                    break;
                };
                self.outward.remove(count);
                turn.bytes += count;
                continue;
            }
            if self.out_ended {
                break;
            }
            let room = stack.room(&self.tcp).min(buffer.len());
            if room < WORTH {
                turn.stalled = true;
                break;
            }
            match some(socket::receive_now(&self.pair, &mut buffer[..room])) {
                Ok(None) => break,
                Ok(Some(0)) => self.out_ended = true,
                Ok(Some(count)) => {
                    carried += count;
                    self.sent += count as u64;
                    let taken =
                        some(stack.send(&self.tcp, &buffer[..count])).map_err(failed)?.unwrap_or(0);
                    self.outward.add(&buffer[taken..count]);
                    turn.bytes += taken;
                }
                // unread bytes were in the program's end when it was closed
                Err(_) => return Err(Ended::Reset),
            }
        }
        // nothing waits for the budget only
        turn.stalled |= carried >= BUDGET;
        if self.out_ended && self.outward.is_empty() {
            if socket_swap::is_hung_up(&self.pair).unwrap_or(true) {
                return Err(if self.reset_on_close { Ended::Reset } else { Ended::Closed });
            }
            if !self.finished {
                stack.finish(&self.tcp);
                self.finished = true;
            }
        }
        Ok(())
    }

    fn carry_in(&mut self, stack: &mut S, buffer: &mut [u8], turn: &mut Turn) -> Result<(), Ended> {
        // what was taken already continues at once
        if self.moderation.waits(stack.waiting(&self.tcp)) && self.inward.is_empty() {
            return Ok(());
        }
        let mut carried = 0;
        while carried < BUDGET {
            if !self.inward.is_empty() {
                // the program has closed its descriptor
                let given = some(socket::send_now(&self.pair, self.inward.bytes()));
                let Some(count) = given.map_err(|_| Ended::Reset)? else {
                    turn.stalled = true;
                    return Ok(());
                };
                self.inward.remove(count);
                turn.bytes += count;
                continue;
            }
            if self.in_ended {
                break;
            }
            match some(stack.receive(&self.tcp, buffer)).map_err(failed)? {
                None => break,
                Some(0) => self.in_ended = true,
                Some(count) => {
                    carried += count;
                    self.received += count as u64;
                    let given = some(socket::send_now(&self.pair, &buffer[..count]))
                        .map_err(|_| Ended::Reset)?
                        .unwrap_or(0);
                    self.inward.add(&buffer[given..count]);
                    turn.bytes += given;
                }
            }
        }
        turn.stalled |= carried >= BUDGET;
        if self.in_ended && !self.told {
            socket_swap::end_sending(&self.pair);
            self.told = true;
        }
        // nobody reads from it any more: a reset would not be seen otherwise
        match self.in_ended.then(|| stack.failure(&self.tcp)).flatten() {
            Some(error) => Err(failed(error)),
            None => Ok(()),
        }
    }

    /// Gives back the memory that it needs only while bytes flow.
    pub fn rest(&mut self) {
        self.outward.rest();
        self.inward.rest();
    }

    /// Takes the connection back out of `stack`, with every byte that is on its way. The program does not use its
    /// end meanwhile; what it has not read is still in there. A refusal gives the pump back, which continues.
    pub fn export(
        mut self,
        stack: &mut S,
        buffer: &mut [u8],
    ) -> Result<Connection, Box<(Refusal, Self)>> {
        while !self.out_ended {
            match some(socket::receive_now(&self.pair, buffer)) {
                Ok(Some(count))
                    if count > 0
                        && self.outward.bytes().len() + count <= MAX_QUEUED - MAX_UNSENT =>
                {
                    self.sent += count as u64;
                    self.outward.add(&buffer[..count]);
                }
                Ok(Some(0)) | Err(_) => self.out_ended = true,
                _ => break,
            }
        }
        if self.out_ended || self.in_ended {
            // FIN is a part of the state that cannot be moved
            return Err(Box::new((Refusal::Closing(0), self)));
        }
        let unread = self.inward.bytes().len() + stack.waiting(&self.tcp);
        let unsent = self.outward.bytes().len() + MAX_UNSENT;
        if let Some(full) = [unread, unsent].into_iter().find(|bytes| *bytes > MAX_QUEUED) {
            // a state with more is refused where it is read, when no TCP has the connection any more
            return Err(Box::new((Refusal::Full(full), self)));
        }
        let Self { pair, tcp, outward, inward, .. } = self;
        match stack.export(tcp) {
            Ok(mut connection) => {
                connection.unsent.extend_from_slice(outward.bytes());
                connection.unread.splice(..0, inward.bytes().iter().copied());
                Ok(connection)
            }
            Err((refusal, tcp)) => {
                Err(Box::new((refusal, Self { pair, tcp, outward, inward, ..self })))
            }
        }
    }

    /// Ends the connection in `stack` as it ended here, and the program's end of the pair.
    pub fn close(self, stack: &mut S, how: &Ended) {
        stack.close(self.tcp, *how == Ended::Reset);
    }
}

/// What a call that does not wait has moved; `None` if it would have waited.
fn some(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

fn failed(error: io::Error) -> Ended {
    Ended::Failed(error.kind())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A TCP in which so many bytes wait for the program.
    #[derive(Debug)]
    struct Waiting(usize);

    impl Stack for Waiting {
        type Handle = UnixStream;

        fn import(&mut self, _: &mut Connection) -> Result<UnixStream, Refusal> {
            Ok(UnixStream::pair().unwrap().0)
        }

        fn room(&self, _: &UnixStream) -> usize {
            0
        }

        fn send(&mut self, _: &UnixStream, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn receive(&mut self, _: &UnixStream, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn waiting(&self, _: &UnixStream) -> usize {
            self.0
        }

        fn has_unacknowledged(&self, _: &UnixStream) -> bool {
            false
        }

        fn timeouts(&self, _: &UnixStream) -> u8 {
            0
        }

        fn failure(&self, _: &UnixStream) -> Option<io::Error> {
            None
        }

        fn finish(&mut self, _: &UnixStream) {}

        fn close(&mut self, _: UnixStream, _: bool) {}

        fn export(&mut self, _: UnixStream) -> Result<Connection, (Refusal, UnixStream)> {
            let mut connection = some();
            connection.unread = vec![7; self.0];
            Ok(connection)
        }
    }

    fn some() -> Connection {
        let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/toe_state/v4");
        Connection::decode(&std::fs::read(seed).unwrap()).unwrap()
    }

    /// Exports a connection of which so many bytes wait here, and so many in TCP.
    fn exported(here: usize, in_tcp: usize) -> Result<Connection, Refusal> {
        let (pair, _program) = UnixStream::pair().unwrap();
        pair.set_nonblocking(true).unwrap();
        let mut stack = Waiting(in_tcp);
        let connection = Connection { unread: vec![3; here], ..some() };
        let pump = Pump::new(&mut stack, pair.into(), connection).unwrap();
        pump.export(&mut stack, &mut [0; 4096]).map_err(|refused| refused.0)
    }

    #[test]
    fn a_connection_that_would_be_refused_where_it_is_read_stays() {
        let whole = exported(MAX_QUEUED - 100, 100).unwrap();
        assert_eq!(Connection::decode(&whole.encode()).unwrap().unread.len(), MAX_QUEUED);
        let Err(Refusal::Full(bytes)) = exported(MAX_QUEUED - 100, 101) else { panic!("it left") };
        assert_eq!(bytes, MAX_QUEUED + 1);
    }
}
