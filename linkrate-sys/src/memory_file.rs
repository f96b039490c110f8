//! Files in memory, the source of sendfile and splice.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};

/// A file in memory with `content`.
///
/// # Errors
/// As memfd_create(2) and write(2).
pub fn memory_file(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("linkrate-payload", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    Ok(file)
}

/// Sends `length` bytes of `file` from `offset`, sendfile(2). Returns how many were sent.
///
/// # Errors
/// As sendfile(2).
pub fn sendfile(socket: impl AsFd, file: &File, offset: u64, length: usize) -> io::Result<usize> {
    let mut offset = offset;
    Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), length)?)
}

/// A pipe through which pages of a file are spliced into a socket.
#[derive(Debug)]
pub struct SplicePipe {
    read_end: OwnedFd,
    write_end: OwnedFd,
}

impl SplicePipe {
    /// A pipe that holds about `capacity_bytes`, or what the kernel allows.
    ///
    /// # Errors
    /// As pipe2(2).
    pub fn new(capacity_bytes: usize) -> io::Result<Self> {
        let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // an unprivileged pipe may not grow past /proc/sys/fs/pipe-max-size; a smaller one only
        // takes more calls
        let _ = rustix::pipe::fcntl_setpipe_size(&write_end, capacity_bytes.max(65536));
        Ok(Self { read_end, write_end })
    }

    /// Sends up to `length` bytes of `file` from `offset` to `socket`, splice(2) twice. Returns
    /// how many were sent; all that entered the pipe has left it on success.
    ///
    /// # Errors
    /// As splice(2).
    pub fn send(
        &self,
        socket: impl AsFd,
        file: &File,
        offset: u64,
        length: usize,
    ) -> io::Result<usize> {
        let socket = socket.as_fd();
        let mut offset = offset;
        let taken = rustix::pipe::splice(
            file,
            Some(&mut offset),
            &self.write_end,
            None,
            length,
            SpliceFlags::MOVE,
        )?;
        let mut sent = 0;
        while sent < taken {
            sent += rustix::pipe::splice(
                &self.read_end,
                None,
                socket,
                None,
                taken - sent,
                SpliceFlags::MOVE,
            )?;
        }
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn received(send: impl FnOnce(&TcpStream, &File) -> usize) -> Vec<u8> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let content: Vec<u8> = (0..50_000u32).map(|n| n as u8).collect();
        let file = memory_file(&content).unwrap();
        let mut buffer = vec![0; send(&sender, &file)];
        receiver.read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, content[..buffer.len()]);
        buffer
    }

    #[test]
    fn sendfile_sends_the_content() {
        let sent = received(|socket, file| sendfile(socket, file, 0, 50_000).unwrap());
        assert!(!sent.is_empty());
    }

    #[test]
    fn splice_sends_the_content() {
        let sent = received(|socket, file| {
            SplicePipe::new(1 << 16).unwrap().send(socket, file, 0, 50_000).unwrap()
        });
        assert!(!sent.is_empty());
    }
}
