//! A backup over TCP: headers and contents of files one way, a word for each file the other.
//!
//! - [`header`]: what stands before each file
//! - [`tree`]: the files of a client
//! - [`drive`]: how fast the sink takes them
//!
//! The sink verifies the checksum of every file, and gives its word that it has the file: the number of
//! files so far, in network byte order. The client does not wait for it. From the first byte of a header
//! to its word is the response time of a file.

pub mod drive;
pub mod header;
pub mod tree;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use linkrate_model::backup::SINK_CHUNK;
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::socket;

use super::FlowContext;
use super::sizes::Sizes;
use super::transact::unless_it_would_block;
use drive::Drive;
use header::{HEADER_BYTES, Header, checksum_of};
use tree::Tree;

const WORD_BYTES: usize = 8;

/// How long a client waits for room or for a word before it checks whether to end.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Sends the tree again and again until told to stop, in pieces of `sizes`. Fails with `UnexpectedEof` when the sink
/// closes first, and with `InvalidData` when its words are others than the files that were sent.
pub fn send(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    tree: &Tree,
    mut sizes: Sizes,
) -> io::Result<()> {
    let mut buffer = vec![0; sizes.largest()];
    let mut words = Words::default();
    let mut number = 0;
    while !flow.control.stopped() {
        for file in tree.files() {
            flow.begin();
            let header =
                Header { number, length: file.length, checksum: file.checksum, path: file.path };
            all(flow, socket, &header.to_bytes(), &mut words)?;
            tree.prepare(file)?;
            let mut offset = 0;
            while offset < file.length {
                let most = sizes.draw().min(buffer.len());
                let read = file.read(&mut buffer[..most], offset)?;
                all(flow, socket, &buffer[..read], &mut words)?;
                offset += read as u64;
                if flow.control.stopped() {
                    return Ok(());
                }
            }
            number += 1;
        }
    }
    Ok(())
}

/// The words so far, and the bytes of one that is incomplete.
#[derive(Debug, Default)]
struct Words {
    bytes: [u8; WORD_BYTES],
    have: usize,
    files: u64,
}

impl Words {
    /// Takes the words that have come, without waiting.
    fn take(&mut self, flow: &mut FlowContext, socket: &OwnedFd) -> io::Result<()> {
        loop {
            let room = &mut self.bytes[self.have..];
            match unless_it_would_block(socket::receive_now(socket, room))? {
                None => return Ok(()),
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(received) => self.have += received,
            }
            if self.have < WORD_BYTES {
                continue;
            }
            self.have = 0;
            self.files += 1;
            let (said, expected) = (u64::from_be_bytes(self.bytes), self.files);
            // the word for a file of which bytes are still to be sent is a lie, which the next tells
            if said != expected || flow.outstanding.is_empty() {
                let reason = format!("the sink has {said} files, expected {expected}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            flow.ended();
        }
    }
}

/// Sends all of `bytes`, and takes the words that come meanwhile.
fn all(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    mut bytes: &[u8],
    words: &mut Words,
) -> io::Result<()> {
    while !bytes.is_empty() && !flow.control.stopped() {
        words.take(flow, socket)?;
        match unless_it_would_block(socket::send_now(socket, bytes))? {
            Some(sent) => {
                flow.counters.add_sent(sent as u64);
                bytes = &bytes[sent..];
            }
            None => {
                socket::wait_ready(socket, true, TIMEOUT)?;
            }
        }
    }
    Ok(())
}

/// Takes files until told to stop, as fast as `drive` does, and verifies each one. Fails with `UnexpectedEof` when the
/// client closes first, and with `InvalidData` when a header is no header or not the next, or a file does not have its
/// checksum.
pub fn sink(flow: &mut FlowContext, socket: &OwnedFd, drive: &Drive) -> io::Result<()> {
    let mut buffer = vec![0; SINK_CHUNK];
    let mut number = 0;
    while !flow.control.stopped() {
        let mut bytes = [0; HEADER_BYTES];
        let mut have = 0;
        while have < HEADER_BYTES {
            have += taken(flow, socket, &mut bytes[have..], drive)?;
        }
        let header = Header::from_bytes(&bytes)?;
        if header.number != number {
            return Err(header::wrong(format!("file {} came, expected {number}", header.number)));
        }
        let (mut left, mut checksum) = (header.length, checksum_of());
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(SINK_CHUNK).min(SINK_CHUNK);
            let received = taken(flow, socket, &mut buffer[..most], drive)?;
            checksum.update(&buffer[..received]);
            left -= received as u64;
        }
        let found = checksum.finalize() as u32;
        if found != header.checksum {
            let (name, expected) = (header.path.name(), header.checksum);
            return Err(header::wrong(format!(
                "file {number} ({name}) has checksum {found:08x}, expected {expected:08x}"
            )));
        }
        number += 1;
        flow.counters.add_transactions(1);
        let word = number.to_be_bytes();
        let mut sent = 0;
        while sent < WORD_BYTES {
            sent += flow.parking.call(|| socket::send(socket, &word[sent..]))?;
        }
    }
    Ok(())
}

fn taken(
    flow: &FlowContext,
    socket: &OwnedFd,
    buffer: &mut [u8],
    drive: &Drive,
) -> io::Result<usize> {
    let received = flow.parking.call(|| socket::receive(socket, buffer))?;
    if received == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if let Some(wait) = drive.take(received as u64, monotonic_ns()) {
        std::thread::sleep(wait);
    }
    // what the drives have: flows that wait hold more as their buffers grow
    flow.counters.add_received(received as u64);
    Ok(received)
}

#[cfg(test)]
mod tests;
