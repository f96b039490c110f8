//! Socket options and calls that the standard library lacks.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use linkrate_model::Family;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};
use rustix::time::Timespec;

use crate::socket_option::{option, set, set_int, set_option};

/// A new TCP or UDP socket, close-on-exec; `EAFNOSUPPORT` on a kernel without IPv6.
pub fn ip_socket(family: Family, datagram: bool) -> io::Result<OwnedFd> {
    let kind = if datagram { SocketType::DGRAM } else { SocketType::STREAM };
    let family = match family {
        Family::Ipv4 => AddressFamily::INET,
        Family::Ipv6 => AddressFamily::INET6,
    };
    Ok(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// The address family of a socket (SO_DOMAIN).
///
/// # Errors
/// As getsockopt(2), or `InvalidData` for a socket that is not of IP.
pub fn family(socket: impl AsFd) -> io::Result<Family> {
    match sockopt::socket_domain(socket)? {
        AddressFamily::INET => Ok(Family::Ipv4),
        AddressFamily::INET6 => Ok(Family::Ipv6),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Asks for SO_SNDBUF and SO_RCVBUF of `bytes` each and returns what the kernel granted, send
/// first. The kernel doubles the value for its own bookkeeping, socket(7). With
/// CAP_NET_ADMIN on the host, the system-wide maximum does not apply.
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

/// Asks for SO_SNDBUF and SO_RCVBUF within the host's limits (`net.core.wmem_max`, `rmem_max`) and reads them back;
/// the kernel doubles what it grants.
pub fn ask_for_buffers(socket: impl AsFd, bytes: usize) -> io::Result<(u64, u64)> {
    let socket = socket.as_fd();
    sockopt::set_socket_send_buffer_size(socket, bytes)?;
    sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    buffers(socket)
}

/// Asks for SO_SNDBUF and SO_RCVBUF, each where it has a size, within the host's limits.
pub fn ask_for_each_buffer(socket: impl AsFd, [send, receive]: [Option<u32>; 2]) -> io::Result<()> {
    let socket = socket.as_fd();
    if let Some(bytes) = send {
        sockopt::set_socket_send_buffer_size(socket, bytes as usize)?;
    }
    if let Some(bytes) = receive {
        sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?;
    }
    Ok(())
}

/// Sets IP_TOS, and IPV6_TCLASS for a socket of IPv6: its packets to a mapped address (RFC 4291, 2.5.5.2) are of IPv4,
/// and have IP_TOS.
pub fn set_type_of_service(socket: impl AsFd, octet: u8) -> io::Result<()> {
    let socket = socket.as_fd();
    if sockopt::socket_domain(socket)? == AddressFamily::INET6 {
        sockopt::set_ipv6_tclass(socket, octet.into())?;
        if sockopt::ipv6_v6only(socket)? {
            return Ok(());
        }
    }
    Ok(sockopt::set_ip_tos(socket, octet)?)
}

/// Sets SO_PRIORITY. `EPERM` above 6 without CAP_NET_ADMIN.
pub fn set_priority(socket: impl AsFd, priority: u32) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority.cast_signed())
}

/// Sets TCP_MAXSEG, octets, of the connection that begins next.
pub fn set_mss(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, bytes)
}

/// Sets TCP_CORK: segments that are not full wait up to 200 ms, tcp(7).
pub fn set_cork(socket: impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_CORK, 1)
}

/// Bounds the rate at which TCP sends (SO_MAX_PACING_RATE), bytes/s. Of datagrams the discipline `fq` alone knows it.
pub fn set_max_pacing_rate(socket: impl AsFd, bytes_per_second: u64) -> io::Result<()> {
    let rate = bytes_per_second.to_ne_bytes();
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate)
}

/// The bound of [`set_max_pacing_rate`], bytes/s; `None` without one.
pub fn max_pacing_rate(socket: impl AsFd) -> io::Result<Option<u64>> {
    let mut rate = [0; 8];
    let rate = match option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate)? {
        // before Linux 4.20
        4 => match u32::from_ne_bytes([rate[0], rate[1], rate[2], rate[3]]) {
            u32::MAX => u64::MAX,
            rate => rate.into(),
        },
        _ => u64::from_ne_bytes(rate),
    };
    Ok(Some(rate).filter(|rate| *rate != u64::MAX))
}

/// Sends and receives over the interface of this name alone (SO_BINDTODEVICE); `EPERM` for a socket that has one already,
/// without CAP_NET_RAW.
pub fn bind_to_device(socket: impl AsFd, name: &str) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_bytes())
}

/// Lets no packet of IPv4 be fragmented: one that does not fit the path is `EMSGSIZE` (IP_PMTUDISC_DO, ip(7)).
pub fn forbid_fragments(socket: impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
}

/// Lets the connections and datagrams of a socket of IPv6 to `to` have this flow label, which other sockets may have too.
/// The address that it connects to must tell the label.
pub fn allow_flow_label(socket: impl AsFd, to: Ipv6Addr, label: u32) -> io::Result<()> {
    // include/uapi/linux/in6.h
    const FLOW_LABEL_MANAGER: i32 = 32;
    const SEND_FLOW_INFO: i32 = 33;
    const CREATE: u16 = 1;
    const ANY: u8 = 255;
    // struct in6_flowlabel_req: address, label, action GET, share, flags, times and padding
    let mut request = [0; 32];
    request[..16].copy_from_slice(&to.octets());
    request[16..20].copy_from_slice(&label.to_be_bytes());
    request[21] = ANY;
    request[22..24].copy_from_slice(&CREATE.to_ne_bytes());
    let socket = socket.as_fd();
    set(socket, libc::IPPROTO_IPV6, FLOW_LABEL_MANAGER, &request)?;
    set_int(socket, libc::IPPROTO_IPV6, SEND_FLOW_INFO, 1)
}

/// Keeps packets off routers (SO_DONTROUTE): only hosts of the interface's own network are reached.
pub fn keep_off_routers(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_DONTROUTE, &1_i32.to_ne_bytes())
}

/// SO_SNDBUF and SO_RCVBUF as the kernel has them, in bytes.
pub fn buffers(socket: impl AsFd) -> io::Result<(u64, u64)> {
    let socket = socket.as_fd();
    Ok((
        sockopt::socket_send_buffer_size(socket)? as u64,
        sockopt::socket_recv_buffer_size(socket)? as u64,
    ))
}

/// Sets TCP_CONGESTION; `ENOENT` for an unknown algorithm, `EPERM` for one that only an administrator may choose.
pub fn set_congestion(socket: impl AsFd, algorithm: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, algorithm)?)
}

/// The same for a name that a stranger chooses, of an algorithm that the kernel has loaded: with privilege, another name
/// would have it load a module.
///
/// # Errors
/// `NotFound` with those that are loaded.
pub fn set_listed_congestion(socket: impl AsFd, algorithm: &str) -> io::Result<()> {
    const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let listed = std::fs::read_to_string(AVAILABLE)?;
    if listed.split_whitespace().any(|one| one == algorithm) {
        return set_congestion(socket, algorithm);
    }
    let expected = format!("expected one that is loaded: {}", listed.trim_end());
    Err(io::Error::new(io::ErrorKind::NotFound, expected))
}

/// Reads TCP_CONGESTION.
pub fn congestion(socket: impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// Sets TCP_NODELAY and reads it back.
pub fn set_nodelay(socket: impl AsFd, on: bool) -> io::Result<bool> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, on)?;
    Ok(sockopt::tcp_nodelay(socket)?)
}

/// Reads TCP_NODELAY.
pub fn nodelay(socket: impl AsFd) -> io::Result<bool> {
    Ok(sockopt::tcp_nodelay(socket)?)
}

/// A connection in which nothing has arrived for so long is asked whether its peer is there.
const QUIET: Duration = Duration::from_secs(3);
/// Time between such questions.
const AGAIN: Duration = Duration::from_secs(2);
/// Questions without an answer that end it.
const QUESTIONS: u32 = 3;

/// Lets the kernel end a control connection whose peer has gone without a word, within some ten seconds: a read then
/// fails with `TimedOut`. What waits for an acknowledgement meanwhile has longer, tcp(7).
pub fn end_without_peer(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_keepidle(socket, QUIET)?;
    sockopt::set_tcp_keepintvl(socket, AGAIN)?;
    sockopt::set_tcp_keepcnt(socket, QUESTIONS)?;
    Ok(sockopt::set_socket_keepalive(socket, true)?)
}

/// Sets SO_REUSEADDR, so that a port whose last connections linger can be bound again.
pub fn set_reuse_address(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseaddr(socket, true)?)
}

/// Binds to `address`.
pub fn bind(socket: impl AsFd, address: SocketAddr) -> io::Result<()> {
    Ok(rustix::net::bind(socket, &address)?)
}

/// Binds to `address` with a port that the kernel chooses when the socket connects: many
/// connections may then share a port (IP_BIND_ADDRESS_NO_PORT, ip(7)).
pub fn bind_address(socket: impl AsFd, address: IpAddr) -> io::Result<()> {
    set_int(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    bind(socket, SocketAddr::new(address, 0))
}

/// Connects to `address`, waiting for `timeout` at most; `TimedOut` without an answer.
pub fn connect_within(socket: impl AsFd, address: SocketAddr, timeout: Duration) -> io::Result<()> {
    let socket = socket.as_fd();
    // the kernel takes a time-out of zero for none
    let timeout = timeout.max(Duration::from_millis(1));
    set_send_timeout(socket, Some(timeout))?;
    connect(socket, address).map_err(|error| {
        if is_in_progress(&error) {
            let message =
                format!("connect to {address}: no answer within {} ms", timeout.as_millis());
            io::Error::new(io::ErrorKind::TimedOut, message)
        } else {
            error
        }
    })?;
    set_send_timeout(socket, None)
}

/// Whether a connect has not ended in the time of [`set_send_timeout`], and continues.
pub fn is_in_progress(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINPROGRESS)
}

/// The error of a connect that continued, if it failed (SO_ERROR).
pub fn take_error(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket.as_fd())??)
}

/// Connects to `address`, waiting as long as the kernel does or as [`set_send_timeout`] says.
///
/// # Errors
/// As connect(2); [in progress](is_in_progress) after the time-out.
pub fn connect(socket: impl AsFd, address: SocketAddr) -> io::Result<()> {
    Ok(rustix::net::connect(socket, &address)?)
}

/// Listens with a queue of `backlog`.
pub fn listen(socket: impl AsFd, backlog: i32) -> io::Result<()> {
    Ok(rustix::net::listen(socket, backlog)?)
}

/// Takes up to `length` bytes off a TCP socket without copying them: MSG_TRUNC, tcp(7).
/// Returns zero at the end of the stream.
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
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buffer, RecvFlags::empty())?.0)
}

/// Receives available data without waiting; `WouldBlock` without data.
pub fn receive_now(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?.0)
}

/// Sends as many bytes as fit without waiting; `WouldBlock` when nothing fits.
pub fn send_now(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}

/// Waits until `socket` can be read, or written if `or_writable`, at most `timeout`.
/// Returns false when the time is up.
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

/// Waits until `stream` takes data, at most `timeout`. Returns false when the time is up.
pub fn wait_writable(stream: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let stream = stream.as_fd();
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    loop {
        match rustix::event::poll(&mut [PollFd::new(&stream, PollFlags::OUT)], Some(&timeout)) {
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

/// Ends the sending direction: the peer reads the end of the stream.
pub fn end_sending(socket: impl AsFd) {
    // an error means that the peer has closed already
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Bounds how long a receive waits; a receive that is up fails with `WouldBlock`.
pub fn set_receive_timeout(socket: impl AsFd, timeout: Duration) -> io::Result<()> {
    Ok(sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(timeout))?)
}

/// Bounds how long a send or a connect waits; `None` for as long as the kernel does. A send that
/// is up fails with `WouldBlock`, a connect is [in progress](is_in_progress).
pub fn set_send_timeout(socket: impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    Ok(sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, timeout)?)
}

/// Accepts a connection, close-on-exec, with the address of its peer. On Linux it inherits the
/// time-outs of the listener and not its O_NONBLOCK, accept(2).
///
/// # Errors
/// As accept4(2); `EINVAL` once the listener has been shut down.
pub fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, SocketAddr)> {
    let (socket, peer) = rustix::net::acceptfrom_with(listener, SocketFlags::CLOEXEC)?;
    let peer = peer.ok_or(io::ErrorKind::InvalidData)?;
    Ok((socket, SocketAddr::try_from(peer)?))
}

/// Lets operations of the socket return `WouldBlock` instead of waiting (O_NONBLOCK), or wait again.
pub fn set_nonblocking(socket: impl AsFd, nonblocking: bool) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(socket, nonblocking)?)
}

/// The local port of a socket; `InvalidData` when it is no socket of IP.
pub fn local_port(socket: impl AsFd) -> io::Result<u16> {
    let address = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    Ok(address.port())
}

/// Receives a datagram, with the address of its sender.
pub fn receive_from(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    let (_, length, sender) = rustix::net::recvfrom(socket, buffer, RecvFlags::empty())?;
    let sender = sender.ok_or(io::ErrorKind::InvalidData)?;
    Ok((length, SocketAddr::try_from(sender)?))
}

/// Waits until one of `sockets` can be read, at most `timeout`. Returns the positions of those
/// that can.
pub fn wait_any(sockets: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<usize>> {
    let mut polled: Vec<_> =
        sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = |poll: &PollFd<'_>| !poll.revents().is_empty();
    Ok((0..).zip(&polled).filter(|(_, poll)| ready(poll)).map(|(index, _)| index).collect())
}

/// Waits until the peer of `stream` has closed it, or `wake` can be read. Data that waits in
/// `stream` does not end the wait. Returns whether the stream has closed.
pub fn wait_closed(stream: impl AsFd, wake: impl AsFd) -> io::Result<bool> {
    let (stream, wake) = (stream.as_fd(), wake.as_fd());
    loop {
        // poll(2) reports the end of a pipe, and a socket closed in both directions, without asking
        let mut polled =
            [PollFd::new(&stream, PollFlags::RDHUP), PollFd::new(&wake, PollFlags::IN)];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) => return Ok(!polled[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends `bytes`; an error instead of SIGPIPE when the peer is gone.
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Most parts that [`send_around`] and [`receive_around`] take in one call.
const PARTS: usize = 64;

/// Sends up to `length` bytes out of `region`, from its octet `from` on, and from its beginning again
/// where it ends: payload whose values do not matter, from memory of a chosen size. At most 64 parts in
/// one call. Returns the number of bytes sent.
///
/// # Errors
/// As sendmsg(2); an error instead of SIGPIPE when the peer is gone; `InvalidInput` if `from` is not in
/// the region.
pub fn send_around(
    socket: impl AsFd,
    region: &[u8],
    from: usize,
    length: usize,
) -> io::Result<usize> {
    let (mut parts, count) = around(region.as_ptr().cast_mut(), region.len(), from, length)?;
    let message = message_of(&mut parts[..count]);
    // SAFETY: every part lies in `region`, which is borrowed for the call, and is only read.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives up to `length` bytes into `region`, from its octet `from` on, and from its beginning again
/// where it ends, for payload that is only counted. At most 64 parts in one call.
///
/// # Errors
/// As recvmsg(2); `InvalidInput` if `from` is not in the region.
pub fn receive_around(
    socket: impl AsFd,
    region: &mut [u8],
    from: usize,
    length: usize,
) -> io::Result<usize> {
    let (mut parts, count) = around(region.as_mut_ptr(), region.len(), from, length)?;
    let mut message = message_of(&mut parts[..count]);
    // SAFETY: every part lies in `region`, which is borrowed alone for the call; the kernel fills
    // the parts one after the other, so that they may overlap.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, 0) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// `length` bytes of the region of `size` octets at `base`, from octet `from` on and around its end, as
/// parts, and the number of parts. The array is on the stack, since the data path allocates nothing.
fn around(
    base: *mut u8,
    size: usize,
    from: usize,
    length: usize,
) -> io::Result<([libc::iovec; PARTS], usize)> {
    if from >= size {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut parts = [libc::iovec { iov_base: base.cast(), iov_len: size }; PARTS];
    let first = length.min(size - from);
    parts[0] = libc::iovec { iov_base: base.wrapping_add(from).cast(), iov_len: first };
    let left = (length - first).min(size * (PARTS - 1));
    let whole = left.div_ceil(size);
    if whole > 0 {
        parts[whole].iov_len = left - (whole - 1) * size;
    }
    Ok((parts, 1 + whole))
}

fn message_of(parts: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: msghdr is plain data for which all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message
}

/// Turns on SO_ZEROCOPY, without which MSG_ZEROCOPY is ignored.
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
            let is_error = (level, kind) == (libc::SOL_IP, libc::IP_RECVERR)
                || (level, kind) == (libc::SOL_IPV6, libc::IPV6_RECVERR);
            if is_error {
                // SAFETY: such a message holds a sock_extended_err, ip(7), ipv6(7).
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
pub fn set_udp_segment(socket: impl AsFd, payload_bytes: u16) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, i32::from(payload_bytes))
}

/// UDP_GRO, udp(7): several datagrams of one flow are received in one call.
pub fn set_udp_gro(socket: impl AsFd) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_UDP, libc::UDP_GRO, 1)
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
    fn the_type_of_service_is_that_of_either_family() {
        let tos = |socket: &std::net::UdpSocket| sockopt::ip_tos(socket).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        set_type_of_service(&socket, 0xb8).unwrap();
        assert_eq!(tos(&socket), 0xb8);
        // a host may have no IPv6
        let Ok(both) = std::net::UdpSocket::bind("[::]:0") else { return };
        set_type_of_service(&both, 0xb8).unwrap();
        assert_eq!((tos(&both), sockopt::ipv6_tclass(&both).unwrap()), (0xb8, 0xb8));
    }

    #[test]
    fn a_region_is_sent_and_received_over_and_over() {
        let (sender, receiver) = pair();
        let region: Vec<u8> = (0..100).collect();
        assert_eq!(send_around(&sender, &region, 0, 250).unwrap(), 250);
        let mut all = vec![0; 250];
        let mut taken = 0;
        while taken < 250 {
            taken += receive(&receiver, &mut all[taken..]).unwrap();
        }
        assert_eq!(all[..100], region);
        assert_eq!(all[200..], region[..50]);
        assert_eq!(send_around(&sender, &region, 0, 1 << 30).unwrap(), 6400);
        let mut small = [0; 64];
        let mut taken = 0;
        while taken < 6400 {
            taken += receive_around(&receiver, &mut small, 0, 1024).unwrap();
        }
        assert_eq!(taken, 6400);
    }

    #[test]
    fn priority_and_cork_are_in_effect() {
        let socket = ip_socket(Family::Ipv4, false).unwrap();
        set_priority(&socket, 4).unwrap();
        set_cork(&socket).unwrap();
        set_mss(&socket, 1400).unwrap();
        assert!(set_mss(&socket, 40_000).is_err(), "beyond what a segment may have");
        let number = |level, name| {
            let mut number = [0; 4];
            option(&socket, level, name, &mut number).unwrap();
            i32::from_ne_bytes(number)
        };
        assert_eq!(number(libc::SOL_SOCKET, libc::SO_PRIORITY), 4);
        assert_eq!(number(libc::IPPROTO_TCP, libc::TCP_CORK), 1);
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
    fn zerocopy_sends_complete_over_either_family() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let receiver = listener.accept().unwrap().0;
            enable_zerocopy(&sender).unwrap();
            let payload = vec![1; 60_000];
            let sent = send_zerocopy(&sender, &payload).unwrap();
            let mut taken = 0;
            while taken < sent {
                taken += discard(&receiver, 1 << 20).unwrap();
            }
            let mut found = ZerocopyCompletions::default();
            for _ in 0..1000 {
                let more = reap_zerocopy(&sender).unwrap();
                found.completed += more.completed;
                found.copied += more.copied;
                if found.completed > 0 {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // loopback has the kernel copy
            assert_eq!((found.completed, found.copied), (1, 1), "{address}");
        }
    }

    #[test]
    fn a_connect_without_an_answer_ends_in_time() {
        // a listener whose queue is full answers no further connection
        let listener = ip_socket(Family::Ipv4, false).unwrap();
        bind(&listener, "127.0.0.1:0".parse().unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        let address = SocketAddr::new([127, 0, 0, 1].into(), local_port(&listener).unwrap());
        let mut held = Vec::new();
        let refused = loop {
            let socket = ip_socket(Family::Ipv4, false).unwrap();
            match connect_within(&socket, address, Duration::from_millis(50)) {
                Ok(()) => held.push(socket),
                Err(error) => break error,
            }
            assert!(held.len() < 100, "the queue does not fill");
        };
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut, "{refused}");
    }

    #[test]
    fn a_stream_that_closes_is_seen_behind_data_that_waits() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let (wake, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        (&far).write_all(b"unread").unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(wait_closed(&near, &wake).unwrap());
    }

    #[test]
    fn buffers_are_granted_doubled() {
        let socket = ip_socket(Family::Ipv4, false).unwrap();
        assert_eq!(set_buffers(&socket, 65536).unwrap(), (131_072, 131_072));
        assert_eq!(buffers(&socket).unwrap(), (131_072, 131_072));
    }

    #[test]
    fn congestion_control_reads_back_and_a_wrong_name_is_an_error() {
        let socket = ip_socket(Family::Ipv4, false).unwrap();
        set_congestion(&socket, "reno").unwrap();
        assert_eq!(congestion(&socket).unwrap(), "reno");
        assert!(set_congestion(&socket, "nosuch").is_err());
        set_listed_congestion(&socket, "reno").unwrap();
        let refused = set_listed_congestion(&socket, "nosuch").unwrap_err().to_string();
        assert!(refused.starts_with("expected one that is loaded: "), "{refused}");
    }
}
