//! Files without a name, which vanish with the last process that has them open, so that nothing of
//! them stays after a kill: in a directory, or in memory, as the source of sendfile.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Advice, MemfdFlags, Mode, OFlags};

/// `TMPFS_MAGIC` of include/uapi/linux/magic.h.
const TMPFS: u64 = 0x0102_1994;

/// A file in the file system of `directory`, for reading and writing, O_TMPFILE of open(2).
///
/// # Errors
/// As open(2); `Unsupported` on a file system that has no such files.
pub fn create(directory: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
    Ok(File::from(rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Whether the file is in memory alone, so that no page of it can leave the cache: tmpfs.
pub fn is_in_memory(file: &File) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u64 == TMPFS)
}

/// Writes what is not on the disk yet, and takes the file out of the page cache.
pub fn leave_cache(file: &File) -> io::Result<()> {
    file.sync_data()?;
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

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
    use std::io::{Read, Seek, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_file_has_content_and_no_name() {
        let directory = std::env::temp_dir();
        let mut file = create(&directory).unwrap();
        file.write_all(b"content").unwrap();
        file.rewind().unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, "content");
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 0);
        if !is_in_memory(&file).unwrap() {
            leave_cache(&file).unwrap();
        }
        assert!(is_in_memory(&create(Path::new("/dev/shm")).unwrap()).unwrap());
    }

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
