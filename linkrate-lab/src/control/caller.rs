//! A command that is connected to the lab: its request as it arrives, and the reply to it.
//!
//! The lab never waits for a command: bytes are taken as they come, and the rest of a reply that the
//! command does not take at once is left to a thread.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use linkrate_protocol::framing::{FrameBuffer, write_frame};
use linkrate_sys::local_socket;

use super::messages::Reply;

/// Time for a command to send its request, and to take its reply.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A command whose request has not arrived whole.
#[derive(Debug)]
pub(super) struct Caller {
    stream: UnixStream,
    arrived: FrameBuffer,
    files: Vec<OwnedFd>,
    deadline: Instant,
}

/// A request, still encoded, with the file that came with it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) frame: Vec<u8>,
    pub(super) file: Option<OwnedFd>,
    pub(super) reply_to: ReplyTo,
}

/// Where a reply goes.
#[derive(Debug)]
pub(super) struct ReplyTo(UnixStream);

/// What became of a caller.
#[derive(Debug)]
pub(super) enum Heard {
    /// Its request is not whole yet.
    Waiting(Caller),
    /// Its request.
    Call(Call),
    /// It has gone, is late, or sends no frame.
    Gone,
}

impl Caller {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let deadline = Instant::now() + TIMEOUT;
        Ok(Self { stream, arrived: FrameBuffer::default(), files: Vec::new(), deadline })
    }

    /// Takes what has arrived, if `readable`.
    pub(super) fn hear(mut self, readable: bool) -> Heard {
        let heard = if readable { self.take() } else { Ok(None) };
        match heard {
            Ok(Some(frame)) => {
                let (file, reply_to) = (self.files.pop(), ReplyTo(self.stream));
                Heard::Call(Call { frame, file, reply_to })
            }
            Ok(None) if Instant::now() < self.deadline => Heard::Waiting(self),
            _ => Heard::Gone,
        }
    }

    /// Reads until a frame is whole, or nothing more has arrived.
    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut part = [0; 4096];
        loop {
            match local_socket::receive(&self.stream, &mut part, &mut self.files) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.arrived.add(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            // a request comes with one file at most
            self.files.truncate(1);
            if let Some(frame) = self.arrived.take()? {
                return Ok(Some(frame));
            }
        }
    }
}

impl AsFd for Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl ReplyTo {
    pub(super) fn stream(&self) -> &UnixStream {
        &self.0
    }

    /// Sends a reply without waiting. A command that has gone gets none.
    pub(super) fn send(self, reply: &Reply) {
        let Self(mut stream) = self;
        let mut frame = Vec::new();
        // writing to a vector fails for a reply that is too long: the command sees the end instead
        if write_frame(&mut frame, reply).is_err() {
            return;
        }
        let mut sent = 0;
        while sent < frame.len() {
            match stream.write(&frame[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // without a thread the command sees the end of the connection
                    let rest = frame.split_off(sent);
                    let _ = std::thread::Builder::new()
                        .name("reply".to_owned())
                        .spawn(move || write_rest(stream, &rest));
                    return;
                }
                Err(_) => return,
            }
        }
    }
}

fn write_rest(mut stream: UnixStream, rest: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(rest)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn pair() -> (Caller, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        (Caller::new(here).unwrap(), there)
    }

    #[test]
    fn a_request_in_parts_is_heard_when_it_is_whole() {
        let (mut caller, mut there) = pair();
        let mut frame = Vec::new();
        write_frame(&mut frame, &"request").unwrap();
        let (last, first) = frame.split_last().unwrap();
        for byte in first {
            there.write_all(&[*byte]).unwrap();
            caller = match caller.hear(true) {
                Heard::Waiting(caller) => caller,
                other => panic!("{other:?}"),
            };
        }
        there.write_all(&[*last]).unwrap();
        let Heard::Call(call) = caller.hear(true) else { panic!("not whole") };
        assert_eq!(call.frame, b"\"request\"");
        assert!(call.file.is_none());
    }

    #[test]
    fn a_caller_that_is_silent_gone_or_sends_no_frame_is_let_go() {
        let (caller, there) = pair();
        drop(there);
        assert!(matches!(caller.hear(true), Heard::Gone));
        let (caller, mut there) = pair();
        there.write_all(&[0xff; 64]).unwrap();
        assert!(matches!(caller.hear(true), Heard::Gone));
        let (mut caller, _there) = pair();
        caller.deadline = Instant::now();
        assert!(matches!(caller.hear(false), Heard::Gone));
    }

    #[test]
    fn of_many_files_one_is_kept() {
        let (mut caller, there) = pair();
        for _ in 0..20 {
            local_socket::send(&there, &[0], Some(there.as_fd())).unwrap();
            caller = match caller.hear(true) {
                Heard::Waiting(caller) => caller,
                // the length is 0, and the frame empty
                Heard::Call(call) => {
                    assert!(call.file.is_some());
                    return;
                }
                Heard::Gone => panic!("gone"),
            };
            assert!(caller.files.len() <= 1);
        }
    }

    #[test]
    fn sending_a_reply_does_not_wait_for_its_reader() {
        let (caller, mut there) = pair();
        let file = "x".repeat(1 << 20);
        let reply = Reply::Captured { packets: 0, lost: 0, file };
        let began = Instant::now();
        ReplyTo(caller.stream).send(&reply);
        assert!(began.elapsed() < TIMEOUT / 2, "{:?}", began.elapsed());
        // one that is slow gets it whole
        let mut bytes = Vec::new();
        there.read_to_end(&mut bytes).unwrap();
        assert!(bytes.len() > 1 << 20);
    }
}
