//! Sending pages without copies, through pipes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
    tee, vmsplice,
};

use crate::memory::PageBuffer;

/// Payload whose pages stay in one pipe and are sent through another: tee(2) duplicates references
/// to the pages, splice(2) moves them to the socket. No byte is copied and no page is looked up.
#[derive(Debug)]
pub struct PagePipes {
    store: Pipe,
    way: Pipe,
    stored: usize,
    /// Bytes in `way` that the socket has not taken yet.
    pending: usize,
    /// The pages themselves; the store refers to them.
    _payload: PageBuffer,
}

#[derive(Debug)]
struct Pipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl Pipe {
    fn new(capacity: usize) -> io::Result<Self> {
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
        // for ordinary users /proc/sys/fs/pipe-max-size limits a pipe; a smaller one only needs
        // more calls
        let _ = fcntl_setpipe_size(&write_end, capacity.max(PAGE));
        Ok(Self { read_end, write_end })
    }

    fn capacity(&self) -> io::Result<usize> {
        Ok(fcntl_getpipe_size(&self.write_end)?)
    }
}

const PAGE: usize = 4096;

/// Largest part of the payload kept in the pipe, within the default pipe-max-size.
const STORED: usize = 256 << 10;

impl PagePipes {
    /// Prepares to send messages of up to `largest` bytes of `payload`, which is repeated if
    /// necessary.
    pub fn new(payload: PageBuffer) -> io::Result<Self> {
        let wanted = payload.len().clamp(1, STORED);
        let store = Pipe::new(wanted.next_multiple_of(PAGE))?;
        let way = Pipe::new(wanted.next_multiple_of(PAGE))?;
        let capacity = store.capacity()?.min(way.capacity()?);
        let part = &payload[..wanted.min(capacity)];
        let mut stored = 0;
        while stored < part.len() {
            let slice = IoSliceRaw::from_slice(&part[stored..]);
            // SAFETY: the write end is given, so memory is only read; GIFT is not set. The pages
            // are never written again: the buffer is owned here and not lent out.
            stored += unsafe { vmsplice(&store.write_end, &[slice], SpliceFlags::empty())? };
        }
        Ok(Self { store, way, stored, pending: 0, _payload: payload })
    }

    /// Sends up to `length` bytes to `socket` and returns the number sent.
    pub fn send(&mut self, socket: impl AsFd, length: usize) -> io::Result<usize> {
        if self.pending == 0 {
            let length = length.min(self.stored);
            self.pending =
                tee(&self.store.read_end, &self.way.write_end, length, SpliceFlags::empty())?;
        }
        let length = self.pending.min(length);
        let sent = splice(&self.way.read_end, None, socket, None, length, SpliceFlags::empty())?;
        self.pending -= sent;
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_is_sent_is_the_payload_over_and_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let content: Vec<u8> = (0..50_000u32).map(|n| (n / 7) as u8).collect();
        let mut pipes = PagePipes::new(PageBuffer::of(&content).unwrap()).unwrap();
        for message in [50_000, 1, 4096, 33_333] {
            let mut sent = 0;
            while sent < message {
                let part = pipes.send(&sender, message - sent).unwrap();
                let mut buffer = vec![0; part];
                receiver.read_exact(&mut buffer).unwrap();
                // continue a message of which the socket accepted only a part
                assert_eq!(buffer, content[sent..sent + part]);
                sent += part;
            }
        }
    }
}
