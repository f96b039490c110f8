//! Memory of another process, process_vm_readv(2). The caller needs the permission to trace it.

use std::io;

/// Reads `into.len()` bytes from `address` of the process of `thread`.
///
/// # Errors
/// `EFAULT` when not all of them are readable, `ESRCH` when the thread has ended, `EPERM`.
pub fn read(thread: u32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = remote(address, into.len())?;
    // SAFETY: `local` is writable for its length. The kernel checks the remote one.
    let count = unsafe {
        libc::process_vm_readv(thread as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
    };
    whole(count, into.len())
}

/// Writes `bytes` to `address` of the process of `thread`.
pub fn write(thread: u32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = remote(address, bytes.len())?;
    // SAFETY: `local` is readable for its length and only read. The kernel checks the remote one.
    let count = unsafe {
        libc::process_vm_writev(thread as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
    };
    whole(count, bytes.len())
}

fn remote(address: u64, length: usize) -> io::Result<libc::iovec> {
    let address = usize::try_from(address).ok().filter(|at| at.checked_add(length).is_some());
    let address = address.ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))?;
    let iov_base = std::ptr::without_provenance_mut(address);
    Ok(libc::iovec { iov_base, iov_len: length })
}

fn whole(count: isize, length: usize) -> io::Result<()> {
    match usize::try_from(count) {
        Ok(count) if count == length => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_and_written_and_wild_addresses_are_refused() {
        let own = std::process::id();
        let mut theirs = *b"theirs";
        let address = theirs.as_mut_ptr().expose_provenance() as u64;
        let mut read_back = [0; 6];
        read(own, address, &mut read_back).unwrap();
        assert_eq!(&read_back, b"theirs");
        write(own, address, b"ours  ").unwrap();
        read(own, address, &mut read_back).unwrap();
        assert_eq!(&read_back, b"ours  ");
        for wild in [0, 8, u64::MAX, u64::MAX - 3] {
            let error = read(own, wild, &mut read_back).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{wild:#x}");
        }
        let gone = read(u32::MAX >> 1, address, &mut read_back).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }
}
