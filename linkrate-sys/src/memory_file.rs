//! Files in memory, the source of sendfile.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::fs::MemfdFlags;

/// A file in memory with `content`.
pub fn memory_file(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("linkrate-payload", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    Ok(file)
}

/// Sends `length` bytes of `file` from `offset`, sendfile(2). Returns how many were sent.
pub fn sendfile(socket: impl AsFd, file: &File, offset: u64, length: usize) -> io::Result<usize> {
    let mut offset = offset;
    Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), length)?)
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
}
