//! The memory that plain payload is sent from and received into.
//!
//! A program that sends the same few kilobytes over and over sends out of the first-level cache, which
//! no program with work to do has. netperf goes around a ring of buffers (`-W`). So does a flow: each
//! call continues where the last one ended.

use std::io;
use std::os::fd::OwnedFd;

use linkrate_sys::memory::PageBuffer;
use linkrate_sys::socket;

/// Payload that is hard to compress, in pages of its own.
pub fn payload_pages(length: usize) -> io::Result<PageBuffer> {
    let mut pages = PageBuffer::zeroed(length)?;
    fill(&mut pages);
    Ok(pages)
}

/// Fills with payload that is hard to compress and has a long period, the same for every flow.
pub(super) fn fill(bytes: &mut [u8]) {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for piece in bytes.chunks_mut(8) {
        // xorshift64, Marsaglia 2003
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        piece.copy_from_slice(&state.to_le_bytes()[..piece.len()]);
    }
}

/// A ring of buffers, and the place in it.
#[derive(Debug)]
pub struct Ring {
    region: PageBuffer,
    at: usize,
}

impl Ring {
    /// A ring of `bytes`, at least one, with payload to send.
    pub fn to_send(bytes: u64) -> io::Result<Self> {
        Ok(Self { region: payload_pages(length(bytes)?)?, at: 0 })
    }

    /// A ring of `bytes`, at least one, to receive into.
    pub fn to_receive(bytes: u64) -> io::Result<Self> {
        // pages that are there: the run would pay for the first use of each otherwise
        let mut region = PageBuffer::zeroed(length(bytes)?)?;
        region.fill(1);
        Ok(Self { region, at: 0 })
    }

    /// Sends up to `most` bytes in one call, and returns how many it were.
    #[inline]
    pub fn send(&mut self, socket: &OwnedFd, most: usize) -> io::Result<usize> {
        let sent = socket::send_around(socket, &self.region, self.at, most)?;
        self.go_on(sent);
        Ok(sent)
    }

    /// Receives up to `most` bytes in one call, and returns how many it were; 0 is the end of the stream.
    #[inline]
    pub fn receive(&mut self, socket: &OwnedFd, most: usize) -> io::Result<usize> {
        let received = socket::receive_around(socket, &mut self.region, self.at, most)?;
        self.go_on(received);
        Ok(received)
    }

    /// Bytes of the ring.
    #[cfg(test)]
    pub fn length(&self) -> usize {
        self.region.len()
    }

    #[inline]
    fn go_on(&mut self, bytes: usize) {
        self.at = (self.at + bytes) % self.region.len();
    }
}

fn length(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes.max(1)).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::super::send_path::payload;
    use super::*;

    #[test]
    fn every_octet_of_the_ring_is_sent_in_turn() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (near, mut ring) = (OwnedFd::from(near), Ring::to_send(1000).unwrap());
        let mut got = [0; 700];
        let mut all = Vec::new();
        for _ in 0..10 {
            assert_eq!(ring.send(&near, 700).unwrap(), 700);
            far.read_exact(&mut got).unwrap();
            all.extend_from_slice(&got);
        }
        let expected: Vec<u8> = payload(1000).into_iter().cycle().take(7000).collect();
        assert!(all == expected);
    }

    #[test]
    fn a_call_may_be_larger_than_the_ring() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let near = OwnedFd::from(near);
        far.write_all(&payload(5000)).unwrap();
        let mut ring = Ring::to_receive(1024).unwrap();
        assert_eq!(ring.receive(&near, 1500).unwrap(), 1500);
        assert_eq!((ring.at, ring.receive(&near, 1 << 20).unwrap()), (476, 3500));
        // octet 4999 lies at 4999 modulo 1024
        assert_eq!(ring.region[903], payload(5000)[4999]);
    }
}
