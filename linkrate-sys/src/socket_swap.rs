//! A socket of a running program is replaced by another one: its descriptor, the calls that wait in
//! it, and the options that both must have.

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::error::{SysError, SysResult};
use crate::sched::ThreadId;
use crate::socket;
use crate::socket_option::set_int;

/// SO_BUF_LOCK, include/uapi/asm-generic/socket.h, since Linux 5.14, with its bits.
const BUFFER_LOCK: libc::c_int = 72;
const SEND_LOCKED: libc::c_int = 1;
const RECEIVE_LOCKED: libc::c_int = 2;

/// SO_GET_FILTER, include/uapi/asm-generic/socket.h, and BPF_RET with a constant,
/// include/uapi/linux/bpf_common.h.
const GET_FILTER: libc::c_int = 26;
const RETURN: u16 = 0x06;

/// A bound of the window below this one is the program's: the kernel's own follows the buffer, which has 128 KiB at
/// first (`tcp_init_buffer_space`, net/ipv4/tcp_input.c), and keeps no mark of one that the program has set. Where it
/// is smaller with a buffer that the program has chosen, the buffer goes along.
const CHOSEN_CLAMP: u32 = 32 << 10;

/// IPPROTO_MPTCP, include/uapi/linux/in.h.
const MULTIPATH: libc::c_int = 262;

/// Takes descriptor number `descriptor` of another process, close-on-exec (pidfd_getfd(2)).
///
/// # Errors
/// `ESRCH` when the process has ended, `EBADF` when it has no such descriptor, `EPERM` where tracing
/// it is forbidden.
pub fn descriptor_of(process: u32, descriptor: RawFd) -> SysResult<OwnedFd> {
    let refused = |error| {
        SysError::new("take descriptor", format!("{descriptor} of process {process}"), error)
    };
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| refused(rustix::io::Errno::SRCH))?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(refused)?;
    taken(&process, descriptor).map_err(refused)
}

/// The descriptor with that number, which a program may have made up.
fn taken(process: &OwnedFd, descriptor: RawFd) -> rustix::io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(rustix::io::Errno::BADF);
    }
    pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty())
}

/// PIDFD_THREAD, include/uapi/linux/pidfd.h, since Linux 6.9.
const OF_THREAD: u32 = libc::O_EXCL as u32;

/// Takes descriptor number `descriptor` of a thread, as [`descriptor_of`] does.
pub fn descriptor_of_thread(thread: u32, descriptor: RawFd) -> io::Result<OwnedFd> {
    let id = i32::try_from(thread).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
    let opened = match pidfd_open(id, PidfdFlags::from_bits_retain(OF_THREAD)) {
        // before, only processes have such descriptors
        Err(rustix::io::Errno::INVAL) => {
            let process = crate::processes::process_of(thread)?;
            let process = i32::try_from(process).ok().and_then(Pid::from_raw);
            pidfd_open(process.ok_or(rustix::io::Errno::SRCH)?, PidfdFlags::empty())
        }
        opened => opened,
    };
    Ok(taken(&opened?, descriptor)?)
}

/// Lets the descriptor `target` name the file of `source` from now on, close-on-exec (dup3(2)). A call
/// that waits in the former file continues there.
pub fn replace(target: impl AsFd, source: impl AsFd) -> io::Result<()> {
    let (source, target) = (source.as_fd().as_raw_fd(), target.as_fd().as_raw_fd());
    // SAFETY: both are open; the owner of `target` continues to own the number, which names a file
    // that is its own.
    let result = unsafe { libc::dup3(source, target, libc::O_CLOEXEC) };
    if result == target { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The signal that ends waiting calls: programs have no use for it, and it is ignored by default.
const NUDGE: libc::c_int = libc::SIGURG;

/// Ends the call that a thread of this process waits in: the call fails with `EINTR`, or returns the
/// bytes so far. A thread that is in no call notices nothing.
///
/// # Errors
/// `ESRCH` when the thread has ended.
pub fn nudge(thread: ThreadId) -> io::Result<()> {
    static HANDLER: OnceLock<Result<(), i32>> = OnceLock::new();
    extern "C" fn nothing(_: libc::c_int) {}
    let installed = HANDLER.get_or_init(|| {
        // SAFETY: sigaction is plain data for which all zeroes is a valid value: no flags, so that
        // calls are not restarted, and an empty mask. The handler does nothing.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(NUDGE, &raw const action, std::ptr::null_mut())
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error().raw_os_error().unwrap_or(0))
        }
    });
    installed.map_err(io::Error::from_raw_os_error)?;
    // SAFETY: the call takes three integers and touches no memory.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, NUDGE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Why a connection cannot move to another socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tied {
    /// Multipath TCP (RFC 8684).
    Multipath,
    /// A protocol of the kernel on top of TCP, as TLS.
    UpperLayer,
    /// Pages of the program that are being sent (SO_ZEROCOPY).
    ZeroCopy,
    /// Urgent data (RFC 9293, 3.8.5).
    Urgent,
}

/// What ties a TCP connection to its socket, if anything does.
pub fn tied(socket: impl AsFd) -> io::Result<Option<Tied>> {
    let socket = socket.as_fd();
    let protocol = get_int(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL)?;
    if protocol == MULTIPATH {
        return Ok(Some(Tied::Multipath));
    }
    // an empty name where there is none; kernels without upper layers do not know the option
    if get_int(socket, libc::IPPROTO_TCP, libc::TCP_ULP).is_ok_and(|name| name != 0) {
        return Ok(Some(Tied::UpperLayer));
    }
    if get_int(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY).is_ok_and(|on| on != 0) {
        return Ok(Some(Tied::ZeroCopy));
    }
    let urgent = looked_at(socket)?.contains(PollFlags::PRI);
    Ok(urgent.then_some(Tied::Urgent))
}

/// The options of a socket that a program may have set and that change what TCP does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SocketSettings {
    /// TCP_CONGESTION.
    pub congestion: String,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// SO_KEEPALIVE.
    pub keepalive: bool,
    /// TCP_KEEPIDLE and TCP_KEEPINTVL, both in seconds, and TCP_KEEPCNT.
    pub keepalive_times: (u32, u32, u32),
    /// TCP_USER_TIMEOUT, ms; 0 for the kernel's.
    pub user_timeout_ms: u32,
    /// IP_TOS or IPV6_TCLASS.
    pub traffic_class: u8,
    /// IP_TTL or IPV6_UNICAST_HOPS; negative for that of the system.
    pub hop_limit: i32,
    /// IP_MTU_DISCOVER or IPV6_MTU_DISCOVER.
    pub mtu_discovery: i32,
    /// SO_PRIORITY.
    pub priority: u32,
    /// SO_MAX_PACING_RATE, bytes/s.
    pub max_pacing_rate: Option<u64>,
    /// TCP_CORK.
    pub cork: bool,
    /// SO_SNDBUF as it reads back, where the program chose it.
    pub send_buffer: Option<u32>,
    /// SO_RCVBUF as it reads back, where the program chose it.
    pub receive_buffer: Option<u32>,
    /// TCP_WINDOW_CLAMP, where it is so small that the program has chosen it.
    pub window_clamp: Option<u32>,
    /// SO_LINGER, s.
    pub linger: Option<u16>,
}

/// Reads the options of a socket whose packets are of IPv4, or of IPv6. Those of a socket of IPv6 are of IPv4 where its
/// addresses are mapped.
pub fn settings(socket: impl AsFd, is_v4: bool) -> io::Result<SocketSettings> {
    let socket = socket.as_fd();
    // before Linux 5.14 nobody can tell whether a size was chosen; the kernel then continues to choose
    let locks = get_int(socket, libc::SOL_SOCKET, BUFFER_LOCK).unwrap_or(0);
    let size = |lock, name| match locks & lock {
        0 => Ok(None),
        _ => get_int(socket, libc::SOL_SOCKET, name).map(|bytes| u32::try_from(bytes).ok()),
    };
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    let OfIp { level, traffic_class, hop_limit, mtu_discovery } = OfIp::new(is_v4);
    let clamp = get_int(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)?.cast_unsigned();
    Ok(SocketSettings {
        congestion: sockopt::tcp_congestion(socket)?,
        nodelay: sockopt::tcp_nodelay(socket)?,
        keepalive: sockopt::socket_keepalive(socket)?,
        keepalive_times: (
            seconds(sockopt::tcp_keepidle(socket)?),
            seconds(sockopt::tcp_keepintvl(socket)?),
            sockopt::tcp_keepcnt(socket)?,
        ),
        user_timeout_ms: sockopt::tcp_user_timeout(socket)?,
        traffic_class: get_int(socket, level, traffic_class)? as u8,
        hop_limit: get_int(socket, level, hop_limit)?,
        mtu_discovery: get_int(socket, level, mtu_discovery)?,
        priority: get_int(socket, libc::SOL_SOCKET, libc::SO_PRIORITY)?.cast_unsigned(),
        max_pacing_rate: socket::max_pacing_rate(socket)?,
        cork: get_int(socket, libc::IPPROTO_TCP, libc::TCP_CORK)? != 0,
        send_buffer: size(SEND_LOCKED, libc::SO_SNDBUF)?,
        receive_buffer: size(RECEIVE_LOCKED, libc::SO_RCVBUF)?,
        window_clamp: Some(clamp).filter(|clamp| (1..CHOSEN_CLAMP).contains(clamp)),
        linger: sockopt::socket_linger(socket)?
            .map(|time| u16::try_from(time.as_secs()).unwrap_or(u16::MAX)),
    })
}

/// Gives a TCP socket the options of another one, except its buffers.
pub fn set_settings(socket: impl AsFd, is_v4: bool, settings: &SocketSettings) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_congestion(socket, &settings.congestion)?;
    sockopt::set_tcp_nodelay(socket, settings.nodelay)?;
    let (idle, interval, count) = settings.keepalive_times;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(idle.into()))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(interval.into()))?;
    sockopt::set_tcp_keepcnt(socket, count)?;
    sockopt::set_socket_keepalive(socket, settings.keepalive)?;
    sockopt::set_tcp_user_timeout(socket, settings.user_timeout_ms)?;
    let OfIp { level, traffic_class, hop_limit, mtu_discovery } = OfIp::new(is_v4);
    set_int(socket, level, traffic_class, settings.traffic_class.into())?;
    set_int(socket, level, hop_limit, settings.hop_limit)?;
    set_int(socket, level, mtu_discovery, settings.mtu_discovery)?;
    // behind the type of service, which sets it too; above 6 it takes CAP_NET_ADMIN
    set_int(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, settings.priority.cast_signed())?;
    socket::set_max_pacing_rate(socket, settings.max_pacing_rate.unwrap_or(u64::MAX))?;
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_CORK, settings.cork.into())
}

/// Numbers of the options of a version of IP.
struct OfIp {
    level: libc::c_int,
    traffic_class: libc::c_int,
    hop_limit: libc::c_int,
    mtu_discovery: libc::c_int,
}

impl OfIp {
    const fn new(is_v4: bool) -> Self {
        match is_v4 {
            true => Self {
                level: libc::IPPROTO_IP,
                traffic_class: libc::IP_TOS,
                hop_limit: libc::IP_TTL,
                mtu_discovery: libc::IP_MTU_DISCOVER,
            },
            false => Self {
                level: libc::IPPROTO_IPV6,
                traffic_class: libc::IPV6_TCLASS,
                hop_limit: libc::IPV6_UNICAST_HOPS,
                mtu_discovery: libc::IPV6_MTU_DISCOVER,
            },
        }
    }
}

/// Bytes of the buffers of a socket, as they read back: the kernel doubles what it is asked for, socket(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// SO_SNDBUF.
    pub send: usize,
    /// SO_RCVBUF.
    pub receive: usize,
}

/// The buffers of a socket.
pub fn buffers(socket: impl AsFd) -> io::Result<Buffers> {
    let socket = socket.as_fd();
    Ok(Buffers {
        send: sockopt::socket_send_buffer_size(socket)?,
        receive: sockopt::socket_recv_buffer_size(socket)?,
    })
}

fn set_send_buffer(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let asked = bytes.div_ceil(2);
    if sockopt::set_socket_send_buffer_size_force(socket, asked).is_err() {
        sockopt::set_socket_send_buffer_size(socket, asked)?;
    }
    Ok(())
}

fn set_receive_buffer(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let asked = bytes.div_ceil(2);
    if sockopt::set_socket_recv_buffer_size_force(socket, asked).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, asked)?;
    }
    Ok(())
}

/// Gives the buffers of a socket room for at least this many bytes of payload in each direction, as far
/// as the system allows, for [`tcp_repair::fill`](crate::tcp_repair::fill). Returns what they were, for
/// [`shrink_send_buffer`] and [`shrink_receive_buffer`]: with more room than its program needs, a connection would
/// take more, and the next move would need as much room again for that.
pub fn make_room(socket: impl AsFd, send: usize, receive: usize) -> io::Result<Buffers> {
    let socket = socket.as_fd();
    let before = buffers(socket)?;
    // the kernel accounts for the memory around each piece, up to twice the payload of small ones
    if before.send < send * 4 {
        set_send_buffer(socket, send * 4)?;
    }
    if before.receive < receive * 4 {
        set_receive_buffer(socket, receive * 4)?;
    }
    Ok(before)
}

/// Makes a send buffer that got [room](make_room) as small as it was before.
pub fn shrink_send_buffer(socket: impl AsFd, before: Buffers) -> io::Result<()> {
    let socket = socket.as_fd();
    match lets_kernel_choose(socket) && before.send < buffers(socket)?.send {
        true => set_send_buffer(socket, before.send),
        false => Ok(()),
    }
}

/// Makes a receive buffer that got [room](make_room) as small as it was before. It keeps room for what it has and for
/// the window that the peer was `offered`, bytes.
pub fn shrink_receive_buffer(socket: impl AsFd, before: Buffers, offered: usize) -> io::Result<()> {
    let socket = socket.as_fd();
    // a segment takes up to twice its payload
    let needed = before.receive.max(unread_memory(socket)? + offered * 2);
    match lets_kernel_choose(socket) && needed < buffers(socket)?.receive {
        true => set_receive_buffer(socket, needed),
        false => Ok(()),
    }
}

/// Whether the kernel can choose the sizes of buffers again: since Linux 5.14. Before, they stay as they were set.
fn lets_kernel_choose(socket: BorrowedFd<'_>) -> bool {
    get_int(socket, libc::SOL_SOCKET, BUFFER_LOCK).is_ok()
}

/// Bytes of memory that the receive buffer of a socket has taken.
fn unread_memory(socket: BorrowedFd<'_>) -> io::Result<usize> {
    // SK_MEMINFO_RMEM_ALLOC, include/uapi/linux/sock_diag.h, is the first word
    get_int(socket, libc::SOL_SOCKET, libc::SO_MEMINFO).map(|bytes| bytes.max(0) as usize)
}

/// Sets the buffers that a program had chosen, and lets the kernel choose the others again.
pub fn settle_buffers(socket: impl AsFd, settings: &SocketSettings) -> io::Result<()> {
    let socket = socket.as_fd();
    let mut locks = 0;
    if let Some(bytes) = settings.send_buffer {
        locks |= SEND_LOCKED;
        set_send_buffer(socket, bytes as usize)?;
    }
    if let Some(bytes) = settings.receive_buffer {
        locks |= RECEIVE_LOCKED;
        set_receive_buffer(socket, bytes as usize)?;
    }
    // unknown before Linux 5.14
    let _ = set_int(socket, libc::SOL_SOCKET, BUFFER_LOCK, locks);
    settings.window_clamp.map_or(Ok(()), |bytes| {
        set_int(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes.cast_signed())
    })
}

/// Bounds the bytes that a TCP socket takes and has not sent (TCP_NOTSENT_LOWAT).
pub fn bound_unsent(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes as i32)
}

/// The bound of [`bound_unsent`], 0 for that of the system.
pub fn unsent_bound(socket: impl AsFd) -> io::Result<u32> {
    get_int(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).map(|bytes| bytes as u32)
}

/// Makes the next close of a TCP socket reset its connection (SO_LINGER with 0 s).
pub fn reset_on_close(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(Duration::ZERO))?)
}

/// Lets a socket drop every segment that comes, until [`hear`]: a filter that passes nothing
/// (`tcp_filter`, net/ipv4/tcp_ipv4.c). What came before has been taken when this returns; what comes later
/// is not acknowledged, so the peer sends it again.
///
/// # Errors
/// `EBUSY` when the program has a filter of its own, `EPERM` when it has locked that.
pub fn deafen(socket: impl AsFd) -> io::Result<()> {
    let descriptor = socket.as_fd().as_raw_fd();
    let mut length: libc::socklen_t = 0;
    // SAFETY: with a length of 0 the kernel writes no byte of the value, and the number of steps of the
    // filter into `length`.
    let found = unsafe {
        let level = libc::SOL_SOCKET;
        libc::getsockopt(descriptor, level, GET_FILTER, std::ptr::null_mut(), &raw mut length)
    };
    if found != 0 || length > 0 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    let mut nothing = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 };
    let filter = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    // SAFETY: `filter` and the step that it points to are live, and the kernel copies both.
    let attached = unsafe {
        libc::setsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            std::ptr::from_ref(&filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if attached == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a socket hear again that was [deafened](deafen).
pub fn hear(socket: impl AsFd) {
    // one that hears already has no filter
    let _ = set_int(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0);
}

/// The addresses of both ends of a connection, one's own first; `ENOTCONN` without a connection.
pub fn ends(socket: impl AsFd) -> io::Result<(SocketAddr, SocketAddr)> {
    let socket = socket.as_fd();
    let own = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    let far = rustix::net::getpeername(socket)?.ok_or(rustix::io::Errno::NOTCONN)?;
    Ok((own, SocketAddr::try_from(far)?))
}

/// A new TCP socket of the family of `address`, close-on-exec.
pub fn tcp_socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Gives a socket the way in which another one waits: O_NONBLOCK, SO_RCVTIMEO, SO_SNDTIMEO and SO_RCVLOWAT.
pub fn copy_waiting(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    rustix::fs::fcntl_setfl(to, rustix::fs::fcntl_getfl(from)?)?;
    for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(to, which, sockopt::socket_timeout(from, which)?)?;
    }
    let least = |of| get_int(of, libc::SOL_SOCKET, libc::SO_RCVLOWAT);
    let wanted = least(from)?;
    match least(to)? == wanted {
        true => Ok(()),
        false => set_int(to, libc::SOL_SOCKET, libc::SO_RCVLOWAT, wanted),
    }
}

/// Connects to `address`.
pub fn connect(socket: impl AsFd, address: &SocketAddr) -> io::Result<()> {
    Ok(rustix::net::connect(socket.as_fd(), address)?)
}

/// Whether the peer of a stream pair was closed in both directions.
pub fn is_hung_up(socket: impl AsFd) -> io::Result<bool> {
    Ok(looked_at(socket)?.contains(PollFlags::HUP))
}

/// Ends the sending direction of a stream: the peer reads the end of it behind the last byte.
pub fn end_sending(socket: impl AsFd) {
    // an error means that the stream has ended already
    let _ = rustix::net::shutdown(socket.as_fd(), rustix::net::Shutdown::Write);
}

fn looked_at(socket: impl AsFd) -> io::Result<PollFlags> {
    let socket = socket.as_fd();
    let mut polled = [PollFd::new(&socket, PollFlags::PRI)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&now))?;
    Ok(polled[0].revents())
}

fn get_int(socket: impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is writable for `length` bytes, and the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::sched::current_thread;

    #[test]
    fn a_descriptor_names_another_file_from_then_on() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let (other, mut other_far) = UnixStream::pair().unwrap();
        replace(&near, &other).unwrap();
        drop(other);
        near.write_all(b"moved").unwrap();
        let mut bytes = [0; 5];
        other_far.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"moved");
        // the former file is closed
        assert_eq!(far.read(&mut bytes).unwrap(), 0);
    }

    #[test]
    fn a_socket_waits_as_another_one() {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        near.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        set_int(&near, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 5).unwrap();
        copy_waiting(&near, &far).unwrap();
        assert_eq!(get_int(&far, libc::SOL_SOCKET, libc::SO_RCVLOWAT).unwrap(), 5);
        assert_eq!(far.read_timeout().unwrap(), Some(Duration::from_secs(3)));
        assert_eq!((&far).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_waiting_call_ends_when_its_thread_is_nudged() {
        let (near, _far) = UnixStream::pair().unwrap();
        let (told, tells) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            told.send(current_thread()).unwrap();
            let result = (&near).read(&mut [0; 1]);
            result.unwrap_err().kind()
        });
        let id = tells.recv().unwrap();
        while !thread.is_finished() {
            let _ = nudge(id);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(thread.join().unwrap(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn settings_pass_from_one_socket_to_another() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(tied(&near).unwrap(), None);
        let fresh = settings(&near, true).unwrap();
        assert_eq!((fresh.send_buffer, fresh.receive_buffer), (None, None));
        assert_eq!((fresh.window_clamp, fresh.keepalive), (None, false));
        let wanted = SocketSettings {
            congestion: "reno".to_owned(),
            nodelay: true,
            // the times that a program has chosen go along before it asks for keep-alive
            keepalive: false,
            keepalive_times: (7, 5, 3),
            user_timeout_ms: 1234,
            traffic_class: 0x10,
            hop_limit: 9,
            mtu_discovery: libc::IP_PMTUDISC_DO,
            priority: 3,
            max_pacing_rate: Some(12_500_000),
            cork: true,
            send_buffer: Some(65_536),
            receive_buffer: Some(131_072),
            window_clamp: Some(4096),
            linger: None,
        };
        set_settings(&near, true, &wanted).unwrap();
        settle_buffers(&near, &wanted).unwrap();
        assert_eq!(settings(&near, true).unwrap(), wanted);
        set_settings(&near, true, &SocketSettings { keepalive: true, ..fresh.clone() }).unwrap();
        settle_buffers(&near, &fresh).unwrap();
        let again = settings(&near, true).unwrap();
        // a bound of the window stays
        assert_eq!(again, SocketSettings { keepalive: true, window_clamp: Some(4096), ..fresh });
    }

    #[test]
    fn buffers_that_got_room_become_as_small_as_they_were() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let first = buffers(&near).unwrap();
        far.write_all(&[7; 1000]).unwrap();
        near.peek(&mut [0]).unwrap();
        for _ in 0..3 {
            let before = make_room(&near, 0, first.receive).unwrap();
            assert_eq!(before, first);
            let now = buffers(&near).unwrap();
            assert!(now.receive > first.receive, "{now:?}");
            shrink_send_buffer(&near, before).unwrap();
            shrink_receive_buffer(&near, before, 0).unwrap();
            assert_eq!(buffers(&near).unwrap(), first);
        }
        // what the peer was offered has room
        let before = make_room(&near, 0, first.receive).unwrap();
        shrink_receive_buffer(&near, before, first.receive).unwrap();
        let now = buffers(&near).unwrap().receive;
        assert!((first.receive * 2 + 1000..first.receive * 3).contains(&now), "{now}");
    }

    #[test]
    fn settings_of_mapped_addresses_are_those_of_their_packets() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mapped = format!("[::ffff:127.0.0.1]:{}", listener.local_addr().unwrap().port());
        let near = TcpStream::connect(mapped.parse::<SocketAddr>().unwrap()).unwrap();
        let wanted = SocketSettings {
            traffic_class: 0x20,
            hop_limit: 7,
            mtu_discovery: libc::IP_PMTUDISC_DONT,
            ..settings(&near, true).unwrap()
        };
        set_settings(&near, true, &wanted).unwrap();
        assert_eq!(settings(&near, true).unwrap(), wanted);
        let of_ipv6 = settings(&near, false).unwrap();
        assert_ne!(of_ipv6.hop_limit, 7);
    }

    #[test]
    fn what_ties_a_connection_to_its_socket_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = connected();
        set_int(&near, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1).unwrap();
        assert_eq!(tied(&near).unwrap(), Some(Tied::ZeroCopy));
        let (near, (far, _)) = (connected(), listener.accept().unwrap());
        drop(far);
        let (far, _) = listener.accept().unwrap();
        rustix::net::send(&near, b"!", rustix::net::SendFlags::OOB).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(2);
        while tied(&far).unwrap() != Some(Tied::Urgent) {
            assert!(std::time::Instant::now() < deadline, "{:?}", tied(&far));
        }
        assert_eq!(tied(&near).unwrap(), None);
    }

    #[test]
    fn a_descriptor_of_a_process_that_is_gone_is_refused() {
        let error = descriptor_of(u32::MAX, 0).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ESRCH));
        let own = std::process::id();
        assert_eq!(descriptor_of(own, 1 << 20).unwrap_err().errno(), Some(libc::EBADF));
    }
}
