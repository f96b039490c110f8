//! TCP_REPAIR: a TCP connection read out of one socket, and put into another one (net/ipv4/tcp.c,
//! Linux 3.5; `TCP_REPAIR_WINDOW` since 4.8, `TCP_REPAIR_OFF_NO_WP` since 4.19).
//!
//! A socket in repair mode sends nothing: not when data are put into its queues, not when it
//! connects, and not when it is closed or disconnected. While it stalls, its send queue stays
//! selected: a timer that expires then sends no new bytes (`tcp_write_xmit`, net/ipv4/tcp_output.c), and what
//! was read of the state stays true. Everything here needs CAP_NET_ADMIN over the
//! network namespace of the socket. Sequence numbers of a socket can be set while it is closed only.

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{RecvFlags, SendFlags};

use super::clock::monotonic_ns;
use super::socket::take_error;

const REPAIR: libc::c_int = 19;
const REPAIR_QUEUE: libc::c_int = 20;
const QUEUE_SEQUENCE: libc::c_int = 21;
const REPAIR_OPTIONS: libc::c_int = 22;
const TIMESTAMP: libc::c_int = 24;
const REPAIR_WINDOW: libc::c_int = 29;

/// Values of TCP_REPAIR.
const ON: libc::c_int = 1;
const OFF: libc::c_int = 0;
/// Off, without a window probe.
const OFF_SILENTLY: libc::c_int = -1;

/// Numbers of TCP options (RFC 9293, RFC 7323, RFC 2018).
const OPTION_MSS: u32 = 2;
const OPTION_WINDOW_SCALE: u32 = 3;
const OPTION_SACK: u32 = 4;
const OPTION_TIMESTAMPS: u32 = 8;

/// Bits of `tcpi_options`, include/uapi/linux/tcp.h.
const INFO_TIMESTAMPS: u8 = 1;
const INFO_SACK: u8 = 2;
const INFO_WINDOW_SCALE: u8 = 4;
const INFO_ECN: u8 = 8;

/// TCP_CA_Open, include/uapi/linux/tcp.h: no gap is known.
const OPEN: u8 = 0;

/// SIOCOUTQNSD, include/uapi/linux/sockios.h.
const UNSENT: libc::c_ulong = 0x894b;

/// Most bytes that one send puts into a queue: a larger one needs memory in one piece.
const PIECE: usize = 32 << 10;

/// One of the two queues of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Bytes that arrived and were not read.
    Receive,
    /// Bytes that the peer has not acknowledged.
    Send,
}

impl Queue {
    const fn number(self) -> libc::c_int {
        match self {
            Self::Receive => 1,
            Self::Send => 2,
        }
    }
}

/// The windows of a connection (`struct tcp_repair_window`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Windows {
    /// Sequence number of the segment that last updated the send window.
    pub updated_by: u32,
    /// The window that the peer offers, bytes.
    pub send: u32,
    /// The largest one that it ever offered, bytes.
    pub send_largest: u32,
    /// The window offered to the peer, bytes.
    pub receive: u32,
    /// RCV.NXT when it was offered.
    pub receive_at: u32,
}

impl Windows {
    /// Bytes behind RCV.NXT that the peer may send.
    #[must_use]
    pub fn offered(&self, receive_next: u32) -> u32 {
        let end = self.receive_at.wrapping_add(self.receive);
        end.wrapping_sub(receive_next).cast_signed().max(0).cast_unsigned()
    }
}

/// What both ends agreed on when they connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreed {
    /// Largest segment that the peer takes, bytes (RFC 9293, 3.7.1).
    pub mss: u32,
    /// Window scales, of the peer's windows and of one's own (RFC 7323); `None` without.
    pub scales: Option<(u8, u8)>,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
}

/// The state of a connection as TCP_INFO has it, which repair mode depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The state of RFC 9293 in the kernel's numbers (include/net/tcp_states.h).
    pub state: u8,
    /// What both ends agreed on; `mss` is 0.
    pub agreed: Agreed,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Retransmission time-outs in sequence without an acknowledgement.
    pub timeouts: u8,
    /// The peer has told of a gap, or bytes were sent again and are not acknowledged yet: TCP is not in
    /// the state `TCP_CA_Open` (include/uapi/linux/tcp.h).
    pub has_out_of_order: bool,
    /// Segments at most that this TCP has sent a second time, and that are not acknowledged.
    pub sent_again: u32,
}

impl Standing {
    /// The number of the state ESTABLISHED.
    pub const ESTABLISHED: u8 = 1;
}

/// Bytes in the queues of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queued {
    /// Not acknowledged, those that were not sent included.
    pub send: usize,
    /// Not sent.
    pub unsent: usize,
    /// Not read.
    pub receive: usize,
}

/// Puts a socket into repair mode; `EPERM` without CAP_NET_ADMIN, or for a listening socket.
pub fn enter(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    set(socket, REPAIR, &ON)?;
    rest(socket)
}

/// Ends repair mode without a packet.
pub fn leave(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    select(socket, OFF)?;
    set(socket, REPAIR, &OFF_SILENTLY)
}

/// Ends repair mode with a window probe: a segment without payload from before the first byte that is not
/// acknowledged. The peer answers at once, with what it has got (`tcp_send_window_probe`,
/// net/ipv4/tcp_output.c; RFC 9293, 3.10.7.4; RFC 2018, 4).
pub fn leave_and_ask(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    select(socket, OFF)?;
    set(socket, REPAIR, &OFF)
}

/// The sequence number of a queue: of the next byte to be put into the send queue, and RCV.NXT.
///
/// # Errors
/// `EINVAL` outside repair mode.
pub fn sequence(socket: impl AsFd, queue: Queue) -> io::Result<u32> {
    let socket = socket.as_fd();
    select(socket, queue.number())?;
    let number = get::<u32>(socket, QUEUE_SEQUENCE);
    rest(socket)?;
    number
}

/// Sets the sequence number of a queue of a closed socket; `EPERM` for a socket that is not closed.
pub fn set_sequence(socket: impl AsFd, queue: Queue, number: u32) -> io::Result<()> {
    let socket = socket.as_fd();
    select(socket, queue.number())?;
    let result = set(socket, QUEUE_SEQUENCE, &number);
    rest(socket)?;
    result
}

/// The windows of a connection; `EPERM` outside repair mode.
pub fn windows(socket: impl AsFd) -> io::Result<Windows> {
    get(socket, REPAIR_WINDOW)
}

/// Sets the windows of a connection in repair mode; `EINVAL` for windows that contradict the sequence numbers.
pub fn set_windows(socket: impl AsFd, windows: &Windows) -> io::Result<()> {
    set(socket, REPAIR_WINDOW, windows)
}

/// Sets what both ends agreed on; `EINVAL` or `EFBIG` for a scale above 14, `EPERM` outside repair mode.
pub fn set_agreed(socket: impl AsFd, agreed: &Agreed) -> io::Result<()> {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Choice {
        code: u32,
        value: u32,
    }
    let mut choices = [Choice { code: 0, value: 0 }; 4];
    let scales = agreed.scales.map(|(send, receive)| u32::from(send) | u32::from(receive) << 16);
    let all = [
        Some((OPTION_MSS, agreed.mss)),
        scales.map(|scales| (OPTION_WINDOW_SCALE, scales)),
        agreed.sack.then_some((OPTION_SACK, 0)),
        agreed.timestamps.then_some((OPTION_TIMESTAMPS, 0)),
    ];
    let mut count = 0;
    for (code, value) in all.into_iter().flatten() {
        choices[count] = Choice { code, value };
        count += 1;
    }
    // SAFETY: the first `count` entries of `choices` are live and plain integers.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            REPAIR_OPTIONS,
            choices.as_ptr().cast(),
            (count * size_of::<Choice>()) as libc::socklen_t,
        )
    };
    checked(result)
}

/// The clock of a connection's timestamps (RFC 7323, 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp {
    /// The timestamp that the connection would have sent. The kernel puts a mark of the unit into the lowest bit: 0
    /// for ms, 1 for µs (`TCP_TIMESTAMP` in net/ipv4/tcp.c).
    pub value: u32,
    /// CLOCK_MONOTONIC then, ns.
    pub at_ns: u64,
}

impl Timestamp {
    /// The timestamp at `now_ns`, as the kernel takes it. It is at most 4 ticks ahead, and never behind: the peer
    /// takes a segment with an older timestamp than that of the last one for an old duplicate.
    #[must_use]
    pub fn at(&self, now_ns: u64) -> u32 {
        let mark = self.value & 1;
        let tick_ns = if mark == 1 { 1_000 } else { 1_000_000 };
        let passed = (now_ns / tick_ns).saturating_sub(self.at_ns / tick_ns) as u32;
        // one tick for the bit that the mark has taken, and one for the time until the kernel has the value
        let value = (self.value - mark).wrapping_add(passed).wrapping_add(2);
        (value.wrapping_add(1) & !1) | mark
    }
}

/// The clock of the connection's timestamps.
pub fn timestamp(socket: impl AsFd) -> io::Result<Timestamp> {
    let at_ns = monotonic_ns();
    Ok(Timestamp { value: get(socket, TIMESTAMP)?, at_ns })
}

/// Lets the clock of a connection's timestamps continue, as if the connection had never stalled.
///
/// # Errors
/// `EPERM` outside repair mode.
pub fn set_timestamp(socket: impl AsFd, timestamp: Timestamp) -> io::Result<()> {
    set(socket, TIMESTAMP, &timestamp.at(monotonic_ns()))
}

/// The largest segment: in repair mode the one that the peer takes.
pub fn mss(socket: impl AsFd) -> io::Result<u32> {
    get(socket, libc::TCP_MAXSEG)
}

/// The smallest segment that TCP_MAXSEG takes (TCP_MIN_MSS, include/net/tcp.h).
pub const MIN_MSS: u32 = 88;

/// The largest (MAX_TCP_WINDOW).
const MAX_MSS: u32 = 32_767;

/// Sets the largest segment, before the socket connects; `EINVAL` below [`MIN_MSS`]. Of one that TCP_MAXSEG does not
/// take, as of an MTU of 65,535, the connection uses what it does take; [`set_agreed`] tells the kernel all of it.
pub fn set_mss(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, libc::TCP_MAXSEG, &bytes.min(MAX_MSS))
}

/// The state and the options of a connection.
pub fn standing(socket: impl AsFd) -> io::Result<Standing> {
    // words of struct tcp_info, which an old kernel has at the same place: tcpi_sacked, tcpi_lost and
    // tcpi_retrans from the eighth on, tcpi_total_retrans as the last
    let words = get::<[u32; 26]>(socket, libc::TCP_INFO)?;
    let [sacked, lost, again] = [words[7], words[8], words[9]];
    // each segment that was sent again is in one of the three, except for a loss probe (RFC 8985, 7.3)
    let sent_again = match words[25] {
        0 => 0,
        _ => sacked.saturating_add(lost).saturating_add(again).saturating_add(1),
    };
    // tcpi_state is the first byte, tcpi_ca_state the second, tcpi_retransmits the third, tcpi_options the
    // sixth, the scales the seventh
    let [state, congestion, timeouts, _] = words[0].to_ne_bytes();
    let [_, options, scales, _] = words[1].to_ne_bytes();
    let scaled = options & INFO_WINDOW_SCALE != 0;
    let agreed = Agreed {
        mss: 0,
        scales: scaled.then_some((scales & 0xf, scales >> 4)),
        sack: options & INFO_SACK != 0,
        timestamps: options & INFO_TIMESTAMPS != 0,
    };
    let (ecn, has_out_of_order) = (options & INFO_ECN != 0, congestion != OPEN);
    Ok(Standing { state, agreed, ecn, timeouts, has_out_of_order, sent_again })
}

/// Bytes in the queues of a connection; `EINVAL` for a listening socket, `ENOTTY` where it is no TCP socket.
pub fn queued(socket: impl AsFd) -> io::Result<Queued> {
    let socket = socket.as_fd();
    Ok(Queued {
        send: count_of(socket, libc::TIOCOUTQ as _)?,
        unsent: unsent(socket)?,
        receive: readable(socket)?,
    })
}

/// Bytes that were not sent.
pub fn unsent(socket: impl AsFd) -> io::Result<usize> {
    count_of(socket, UNSENT)
}

/// Bytes that were not read.
pub fn readable(socket: impl AsFd) -> io::Result<usize> {
    count_of(socket, libc::FIONREAD as _)
}

/// Asks for a number of bytes; `request` is one of those above.
fn count_of(socket: impl AsFd, request: libc::c_ulong) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: each of these requests writes one int, which `bytes` is.
    match unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request as _, &raw mut bytes) } {
        0 => Ok(usize::try_from(bytes).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads the first `length` bytes of a queue in repair mode, and leaves them there.
///
/// # Errors
/// `EPERM` outside repair mode; `UnexpectedEof` when there are fewer.
pub fn peek(socket: impl AsFd, queue: Queue, length: usize) -> io::Result<Vec<u8>> {
    let socket = socket.as_fd();
    let mut bytes = vec![0; length];
    if length == 0 {
        return Ok(bytes);
    }
    select(socket, queue.number())?;
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let taken = rustix::net::recv(socket, &mut bytes[..], flags);
    rest(socket)?;
    let (taken, _) = taken?;
    if taken < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// Puts bytes into a queue of a socket in repair mode. Those of the send queue count as sent.
///
/// # Errors
/// `EAGAIN` when the buffer of the socket has no room for them.
pub fn fill(socket: impl AsFd, queue: Queue, bytes: &[u8]) -> io::Result<()> {
    let socket = socket.as_fd();
    select(socket, queue.number())?;
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut put = Ok(());
    let mut left = bytes;
    while !left.is_empty() && put.is_ok() {
        match rustix::net::send(socket, &left[..left.len().min(PIECE)], flags) {
            Ok(0) => put = Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => left = &left[taken..],
            Err(error) => put = Err(error.into()),
        }
    }
    rest(socket)?;
    put
}

/// Closes the connection of a socket without a packet, if the socket is in repair mode, and keeps the
/// socket.
pub fn disconnect(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    rustix::net::connect_unspec(socket)?;
    // repair mode leaves ECONNABORTED behind (`tcp_disconnect`)
    let _ = take_error(socket);
    Ok(())
}

/// Binds a socket to `address`, unless it is bound already. In repair mode the port may be in use.
pub fn bind(socket: impl AsFd, address: &SocketAddr) -> io::Result<()> {
    match rustix::net::bind(socket.as_fd(), address) {
        // EINVAL: a socket that was disconnected keeps its port
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Selects the queue that is selected while the socket stalls.
fn rest(socket: impl AsFd) -> io::Result<()> {
    select(socket, Queue::Send.number())
}

fn select(socket: impl AsFd, queue: libc::c_int) -> io::Result<()> {
    set(socket, REPAIR_QUEUE, &queue)
}

fn set<T>(socket: impl AsFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is live for its size; every `T` used here is made of integers.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    checked(result)
}

fn get<T: Default + Copy>(socket: impl AsFd, option: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `length` bytes, the kernel writes no more, and every `T` used
    // here is made of integers, for which all bit patterns are valid.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    checked(result).map(|()| value)
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// The MSS of an MTU above 32,807 is more than TCP_MAXSEG takes.
    #[test]
    fn a_large_mss_is_set_as_far_as_the_kernel_takes_it() {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        for (bytes, expected) in [(1448, 1448), (40_000, 32_767)] {
            set_mss(&socket, bytes).unwrap();
            assert_eq!(mss(&socket).unwrap(), expected);
        }
        assert!(set_mss(&socket, MIN_MSS - 1).is_err());
        set_mss(&socket, MIN_MSS).unwrap();
    }

    #[test]
    fn the_clock_of_timestamps_continues_and_never_back() {
        // the kernel has cleared the lowest bit of ms: the last timestamp may be one later
        let ms = |value, at_ns, now_ns| Timestamp { value, at_ns }.at(now_ns);
        assert_eq!(ms(100, 0, 0), 102);
        assert_eq!(ms(100, 999_999, 1_000_000), 104);
        assert_eq!(ms(100, 0, 5_000_000), 108);
        assert_eq!(ms(u32::MAX - 1, 0, 7_000_000), 8);
        // in µs the mark stays
        assert_eq!(ms(101, 0, 7_000), 111);
        for now_ms in 0..50 {
            let now = ms(100, 0, now_ms * 1_000_000);
            assert!(
                (101 + now_ms as u32 + 1..=100 + now_ms as u32 + 3).contains(&now),
                "{now_ms}: {now}"
            );
        }
    }

    #[test]
    fn a_connection_stands_as_both_ends_agreed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.write_all(b"unread").unwrap();
        let standing = standing(&far).unwrap();
        assert_eq!(standing.state, Standing::ESTABLISHED);
        assert_eq!(standing.sent_again, 0);
        assert!(standing.agreed.scales.is_some_and(|(near, far)| near <= 14 && far <= 14));
        let mut peeked = [0; 6];
        while far.peek(&mut peeked).unwrap() < 6 {}
        assert_eq!(queued(&far).unwrap(), Queued { receive: 6, ..Queued::default() });
    }
}
