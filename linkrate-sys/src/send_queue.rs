//! Fill level of the send buffer of a TCP socket.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd};

/// Offsets in the array that SO_MEMINFO fills (include/uapi/linux/sock_diag.h).
const SNDBUF: usize = 3;
const WMEM_QUEUED: usize = 5;
const MEMINFO_VARS: usize = 9;

/// SIOCOUTQNSD, include/uapi/linux/sockios.h.
const UNSENT: libc::c_ulong = 0x894b;

/// A send buffer at one moment. The kernel counts payload and the memory around it, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendQueue {
    /// SO_SNDBUF.
    pub buffer_bytes: u32,
    /// Part in use, by data not yet sent and data not yet acknowledged.
    pub queued_bytes: u32,
    /// Payload not yet sent.
    pub unsent_bytes: u32,
}

impl SendQueue {
    /// Whether a writer has to wait: the free part is smaller than half of the part in use
    /// (`sk_stream_is_writeable`, include/net/sock.h).
    pub fn is_full(self) -> bool {
        self.buffer_bytes.saturating_sub(self.queued_bytes) < self.queued_bytes / 2
    }
}

/// Reads the send buffer of a TCP socket without taking its lock.
///
/// # Errors
/// `EINVAL` or `ENOTTY` when it is no TCP socket, or a kernel before 4.12.
pub fn send_queue(socket: impl AsFd) -> io::Result<SendQueue> {
    let descriptor = socket.as_fd().as_raw_fd();
    let mut unsent: libc::c_int = 0;
    // SAFETY: the request writes one int, which `unsent` is.
    if unsafe { libc::ioctl(descriptor, UNSENT as _, &raw mut unsent) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut memory = [0u32; MEMINFO_VARS];
    let mut length = size_of_val(&memory) as libc::socklen_t;
    // SAFETY: `memory` is writable for `length` bytes, and the kernel writes no more than `length`.
    let result = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            memory.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(SendQueue {
        buffer_bytes: memory[SNDBUF],
        queued_bytes: memory[WMEM_QUEUED],
        unsent_bytes: unsent.try_into().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_buffer_fills_while_nobody_reads() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _receiver = listener.accept().unwrap();
        let empty = send_queue(&sender).unwrap();
        assert!(empty.buffer_bytes > 0 && empty.unsent_bytes == 0 && !empty.is_full(), "{empty:?}");
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 65536]).is_ok() {}
        let full = send_queue(&sender).unwrap();
        // the receiver's window is closed, so the rest is not sent
        assert!(full.is_full() && full.unsent_bytes > 0, "{full:?}");
        assert!(send_queue(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }

    #[test]
    fn a_writer_waits_until_a_third_is_free() {
        let of = |queued_bytes| SendQueue { buffer_bytes: 900, queued_bytes, unsent_bytes: 0 };
        let waits = [0, 599, 600, 602, 900, 1200].map(|queued| of(queued).is_full());
        assert_eq!(waits, [false, false, false, true, true, true]);
    }
}
