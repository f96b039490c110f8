//! Open files of unknown kind, which another process has passed on.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Whether it was opened for writing.
pub fn is_writable(file: impl AsFd) -> io::Result<bool> {
    let access = fcntl_getfl(file)? & OFlags::RWMODE;
    Ok(access == OFlags::WRONLY || access == OFlags::RDWR)
}

/// Makes calls return `WouldBlock` where they would wait. Regular files wait regardless, open(2).
pub fn set_nonblocking(file: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&file)?;
    Ok(fcntl_setfl(&file, flags | OFlags::NONBLOCK)?)
}

/// Waits until it takes bytes or has an error that a write returns, at most `timeout`. False when the
/// time is up. A signal ends the wait early.
pub fn await_room(file: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_full_pipe_has_no_room_and_does_not_block() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert!(is_writable(&writer).unwrap() && !is_writable(&reader).unwrap());
        set_nonblocking(&writer).unwrap();
        assert!(await_room(&writer, Duration::ZERO).unwrap());
        let full = loop {
            if let Err(error) = writer.write(&[0; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(!await_room(&writer, Duration::from_millis(1)).unwrap());
    }
}
