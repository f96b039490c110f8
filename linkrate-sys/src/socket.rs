//! Socket options and calls that the standard library lacks.

use std::io;
use std::mem::size_of;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};
use rustix::time::Timespec;

/// A new IPv4 TCP or UDP socket, close-on-exec.
///
/// # Errors
/// As socket(2).
pub fn ipv4_socket(datagram: bool) -> io::Result<OwnedFd> {
    let kind = if datagram { SocketType::DGRAM } else { SocketType::STREAM };
    Ok(rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?)
}

/// Asks for SO_SNDBUF and SO_RCVBUF of `bytes` each and returns what the kernel granted, send
/// first. The kernel doubles the value for its own bookkeeping, socket(7). With
/// CAP_NET_ADMIN on the host, the system-wide maximum does not apply.
///
/// # Errors
/// As setsockopt(2).
pub fn set_buffers(socket: impl AsFd, bytes: usize) -> io::Result<(u64, u64)> {
    let socket = socket.as_fd();
    if sockopt::set_socket_send_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_send_buffer_size(socket, bytes)?;
    }
    if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    buffers(socket)
}

/// SO_SNDBUF and SO_RCVBUF as the kernel has them, in bytes.
///
/// # Errors
/// As getsockopt(2).
pub fn buffers(socket: impl AsFd) -> io::Result<(u64, u64)> {
    let socket = socket.as_fd();
    Ok((
        sockopt::socket_send_buffer_size(socket)? as u64,
        sockopt::socket_recv_buffer_size(socket)? as u64,
    ))
}

/// Sets TCP_CONGESTION.
///
/// # Errors
/// `ENOENT` for an unknown algorithm, `EPERM` for one that only an administrator may choose.
pub fn set_congestion(socket: impl AsFd, algorithm: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, algorithm)?)
}

/// Reads TCP_CONGESTION.
///
/// # Errors
/// As getsockopt(2).
pub fn congestion(socket: impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// Sets TCP_NODELAY and reads it back.
///
/// # Errors
/// As setsockopt(2).
pub fn set_nodelay(socket: impl AsFd, on: bool) -> io::Result<bool> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, on)?;
    Ok(sockopt::tcp_nodelay(socket)?)
}

/// Reads TCP_NODELAY.
///
/// # Errors
/// As getsockopt(2).
pub fn nodelay(socket: impl AsFd) -> io::Result<bool> {
    Ok(sockopt::tcp_nodelay(socket)?)
}

/// Sets SO_REUSEADDR, so that a port whose last connections linger can be bound again.
///
/// # Errors
/// As setsockopt(2).
pub fn set_reuse_address(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseaddr(socket, true)?)
}

/// Binds to `address`.
///
/// # Errors
/// As bind(2).
pub fn bind(socket: impl AsFd, address: SocketAddrV4) -> io::Result<()> {
    Ok(rustix::net::bind(socket, &address)?)
}

/// Connects to `address`, waiting as long as the kernel does.
///
/// # Errors
/// As connect(2).
pub fn connect(socket: impl AsFd, address: SocketAddrV4) -> io::Result<()> {
    Ok(rustix::net::connect(socket, &address)?)
}

/// Listens with a queue of `backlog`.
///
/// # Errors
/// As listen(2).
pub fn listen(socket: impl AsFd, backlog: i32) -> io::Result<()> {
    Ok(rustix::net::listen(socket, backlog)?)
}

/// Takes up to `length` bytes off a TCP socket without copying them: MSG_TRUNC, tcp(7).
/// Returns zero at the end of the stream.
///
/// # Errors
/// As recv(2).
pub fn discard(socket: impl AsFd, length: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer (net/ipv4/tcp.c,
    // tcp_recvmsg_locked), which may therefore be null; the kernel reads only the length.
    let taken = unsafe {
        libc::recv(
            socket.as_fd().as_raw_fd(),
            std::ptr::null_mut(),
            length,
            libc::MSG_TRUNC | libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

/// Receives into `buffer`. Returns zero at the end of the stream.
///
/// # Errors
/// As recv(2).
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buffer, RecvFlags::empty())?.0)
}

/// Receives available data without waiting.
///
/// # Errors
/// `WouldBlock` without data; otherwise as recv(2).
pub fn receive_now(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?.0)
}

/// Sends as many bytes as fit without waiting.
///
/// # Errors
/// `WouldBlock` when nothing fits; otherwise as send(2).
pub fn send_now(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}

/// Waits until `socket` can be read, or written if `or_writable`, at most `timeout`.
/// Returns false when the time is up.
///
/// # Errors
/// As poll(2).
pub fn wait_ready(socket: impl AsFd, or_writable: bool, timeout: Duration) -> io::Result<bool> {
    let events = if or_writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let socket = socket.as_fd();
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    loop {
        match rustix::event::poll(&mut [PollFd::new(&socket, events)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends both directions, which wakes every thread that waits on the socket.
pub fn shut_down(socket: impl AsFd) {
    // an error means that the socket is no longer connected, so no thread waits
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// Bounds how long a receive waits; a receive that is up fails with `WouldBlock`.
///
/// # Errors
/// As setsockopt(2).
pub fn set_receive_timeout(socket: impl AsFd, timeout: Duration) -> io::Result<()> {
    Ok(sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(timeout))?)
}

/// Accepts a connection, close-on-exec.
///
/// # Errors
/// As accept4(2); `EINVAL` once the listener has been shut down.
pub fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?)
}

/// The local port of an IPv4 socket.
///
/// # Errors
/// As getsockname(2), or `InvalidData` when it is no IPv4 socket.
pub fn local_port(socket: impl AsFd) -> io::Result<u16> {
    let address = SocketAddrV4::try_from(rustix::net::getsockname(socket)?)?;
    Ok(address.port())
}

/// The port of the far end of a connected IPv4 socket.
///
/// # Errors
/// As getpeername(2), or `InvalidData` when it is no IPv4 socket.
pub fn peer_port(socket: impl AsFd) -> io::Result<u16> {
    let address = rustix::net::getpeername(socket)?.ok_or(io::ErrorKind::NotConnected)?;
    Ok(SocketAddrV4::try_from(address)?.port())
}

/// Receives a datagram and connects the socket to its sender.
///
/// # Errors
/// As recvfrom(2) and connect(2).
pub fn receive_and_connect(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let socket = socket.as_fd();
    let (_, length, sender) = rustix::net::recvfrom(socket, buffer, RecvFlags::empty())?;
    let sender = sender.ok_or(io::ErrorKind::InvalidData)?;
    rustix::net::connect(socket, &SocketAddrV4::try_from(sender)?)?;
    Ok(length)
}

/// Sends `bytes`; an error instead of SIGPIPE when the peer is gone.
///
/// # Errors
/// As send(2).
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Most parts that [`send_repeated`] and [`receive_repeated`] take in one call.
const PARTS: usize = 64;

/// Sends `length` bytes, `region` repeated, with one call and one copy in the kernel, from memory
/// that stays in the first-level cache. At most 64 regions in one call.
///
/// # Errors
/// As sendmsg(2); an error instead of SIGPIPE when the peer is gone.
pub fn send_repeated(socket: impl AsFd, region: &[u8], length: usize) -> io::Result<usize> {
    if region.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (mut parts, count) = repeated(region.as_ptr().cast_mut(), region.len(), length);
    let message = message_of(&mut parts[..count]);
    // SAFETY: every part lies in `region`, which is borrowed for the call, and is only read.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives up to `length` bytes into `region`: each part overwrites the one before, for payload
/// that is only counted. At most 64 regions in one call.
///
/// # Errors
/// As recvmsg(2).
pub fn receive_repeated(socket: impl AsFd, region: &mut [u8], length: usize) -> io::Result<usize> {
    if region.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (mut parts, count) = repeated(region.as_mut_ptr(), region.len(), length);
    let mut message = message_of(&mut parts[..count]);
    // SAFETY: every part lies in `region`, which is borrowed alone for the call; the kernel fills
    // the parts one after the other, so that they may overlap.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, 0) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// `length` bytes as parts that all begin at `base`, the last one possibly shorter, and the number
/// of parts. `region`, the length of a part, is above zero. The array is on the stack, since the
/// data path allocates nothing.
fn repeated(base: *mut u8, region: usize, length: usize) -> ([libc::iovec; PARTS], usize) {
    let length = length.min(region * PARTS);
    let count = length.div_ceil(region);
    let mut parts = [libc::iovec { iov_base: base.cast(), iov_len: region }; PARTS];
    if let Some(last) = parts[..count].last_mut() {
        last.iov_len = length - (count - 1) * region;
    }
    (parts, count)
}

fn message_of(parts: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: msghdr is plain data for which all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message
}

/// Turns on SO_ZEROCOPY, without which MSG_ZEROCOPY is ignored.
///
/// # Errors
/// As setsockopt(2).
pub fn enable_zerocopy(socket: impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
}

/// Sends with MSG_ZEROCOPY. `bytes` must not change until its completion has been reaped with
/// [`reap_zerocopy`]; linkrate's payload never changes.
///
/// # Errors
/// `ENOBUFS` when too many completions are outstanding; otherwise as send(2).
pub fn send_zerocopy(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);
    Ok(rustix::net::send(socket, bytes, flags)?)
}

/// Whether a send failed with `ENOBUFS`, which is temporary: the queue of the device or the
/// completions of the socket are full.
pub fn is_out_of_buffers(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Completions of MSG_ZEROCOPY taken off the error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZerocopyCompletions {
    /// Sends that completed.
    pub completed: u64,
    /// Completed sends that the kernel copied (SO_EE_CODE_ZEROCOPY_COPIED).
    pub copied: u64,
}

/// Takes all completions that are ready off the error queue, without waiting.
///
/// # Errors
/// As recvmsg(2).
pub fn reap_zerocopy(socket: impl AsFd) -> io::Result<ZerocopyCompletions> {
    const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
    const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
    let mut total = ZerocopyCompletions::default();
    loop {
        // u64 for the alignment that cmsghdr needs
        let mut control = [0u64; 32];
        // SAFETY: msghdr is plain data for which all zeroes is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = std::mem::size_of_val(&control);
        // SAFETY: `message` points to `control`, which outlives the call, with its true length.
        let result = unsafe {
            libc::recvmsg(
                socket.as_fd().as_raw_fd(),
                &mut message,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
            )
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(total) } else { Err(error) };
        }
        // SAFETY: the kernel filled `message`; CMSG_FIRSTHDR checks its length.
        let mut header = unsafe { libc::CMSG_FIRSTHDR(&message) };
        while !header.is_null() {
            // SAFETY: `header` is non-null and inside `control`, by CMSG_FIRSTHDR and CMSG_NXTHDR.
            let (level, kind, data) =
                unsafe { ((*header).cmsg_level, (*header).cmsg_type, libc::CMSG_DATA(header)) };
            if level == libc::SOL_IP && kind == libc::IP_RECVERR {
                // SAFETY: an IP_RECVERR message holds a sock_extended_err, ip(7).
                let error = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
                if error.ee_origin == SO_EE_ORIGIN_ZEROCOPY {
                    let sends = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
                    total.completed += sends;
                    if error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED {
                        total.copied += sends;
                    }
                }
            }
            // SAFETY: `header` came from this `message`.
            header = unsafe { libc::CMSG_NXTHDR(&message, header) };
        }
    }
}

/// UDP_SEGMENT, udp(7): each send is cut into datagrams of `payload_bytes`.
///
/// # Errors
/// As setsockopt(2).
pub fn set_udp_segment(socket: impl AsFd, payload_bytes: u16) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, i32::from(payload_bytes))
}

/// UDP_GRO, udp(7): several datagrams of one flow are received in one call.
///
/// # Errors
/// As setsockopt(2).
pub fn set_udp_gro(socket: impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)
}

fn set_int(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option value is a live i32 and its length is passed.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_region_is_sent_and_received_over_and_over() {
        let (sender, receiver) = pair();
        let region: Vec<u8> = (0..100).collect();
        assert_eq!(send_repeated(&sender, &region, 250).unwrap(), 250);
        let mut all = vec![0; 250];
        let mut taken = 0;
        while taken < 250 {
            taken += receive(&receiver, &mut all[taken..]).unwrap();
        }
        assert_eq!(all[..100], region);
        assert_eq!(all[200..], region[..50]);
        assert_eq!(send_repeated(&sender, &region, 1 << 30).unwrap(), 6400);
        let mut small = [0; 64];
        let mut taken = 0;
        while taken < 6400 {
            taken += receive_repeated(&receiver, &mut small, 1024).unwrap();
        }
        assert_eq!(taken, 6400);
    }

    #[test]
    fn discarded_bytes_are_counted_and_gone() {
        let (mut sender, receiver) = pair();
        sender.write_all(&[7; 1000]).unwrap();
        let mut taken = 0;
        while taken < 1000 {
            taken += discard(&receiver, 1 << 20).unwrap();
        }
        drop(sender);
        assert_eq!(taken, 1000);
        assert_eq!(discard(&receiver, 10).unwrap(), 0);
    }

    #[test]
    fn zerocopy_sends_complete() {
        let (sender, receiver) = pair();
        enable_zerocopy(&sender).unwrap();
        let payload = vec![1; 60_000];
        let sent = send_zerocopy(&sender, &payload).unwrap();
        let mut taken = 0;
        while taken < sent {
            taken += discard(&receiver, 1 << 20).unwrap();
        }
        let mut completed = 0;
        for _ in 0..1000 {
            completed += reap_zerocopy(&sender).unwrap().completed;
            if completed > 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(completed, 1);
    }

    #[test]
    fn buffers_are_granted_doubled() {
        let socket = ipv4_socket(false).unwrap();
        assert_eq!(set_buffers(&socket, 65536).unwrap(), (131_072, 131_072));
        assert_eq!(buffers(&socket).unwrap(), (131_072, 131_072));
    }

    #[test]
    fn congestion_control_reads_back_and_a_wrong_name_is_an_error() {
        let socket = ipv4_socket(false).unwrap();
        set_congestion(&socket, "reno").unwrap();
        assert_eq!(congestion(&socket).unwrap(), "reno");
        assert!(set_congestion(&socket, "nosuch").is_err());
    }
}
