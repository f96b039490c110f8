//! Memory of another process, `/proc/PID/mem` of proc(5). The caller needs the permission to trace it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The memory of a process, even when another one has its number meanwhile.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// That of the process of `thread`.
    ///
    /// # Errors
    /// `NotFound` when the thread has ended, `PermissionDenied`.
    pub fn of(thread: u32) -> io::Result<Self> {
        let path = format!("/proc/{thread}/mem");
        OpenOptions::new().read(true).write(true).open(path).map(Self)
    }

    /// Reads `into.len()` bytes from `address`.
    ///
    /// # Errors
    /// `EFAULT` when not all of them are readable, or the process has ended.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, address).map_err(|_| fault())
    }

    /// Writes `bytes` to `address`; `EFAULT` as [`read`](Self::read).
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address).map_err(|_| fault())
    }
}

fn fault() -> io::Error {
    io::Error::from_raw_os_error(libc::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_and_written_and_wild_addresses_are_refused() {
        let memory = Memory::of(std::process::id()).unwrap();
        let mut theirs = *b"theirs";
        let address = theirs.as_mut_ptr().expose_provenance() as u64;
        let mut read_back = [0; 6];
        memory.read(address, &mut read_back).unwrap();
        assert_eq!(&read_back, b"theirs");
        memory.write(address, b"ours  ").unwrap();
        memory.read(address, &mut read_back).unwrap();
        assert_eq!(&read_back, b"ours  ");
        for wild in [0, 8, u64::MAX, u64::MAX - 3] {
            let error = memory.read(wild, &mut read_back).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{wild:#x}");
        }
        let gone = Memory::of(u32::MAX >> 1).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
