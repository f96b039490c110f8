//! Calls on a socket of another program, made for it: connections that are awaited elsewhere, and the
//! identity of a socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{SocketFlags, sockopt};

use crate::socket_option::option;
use crate::socket_swap;

/// The number that no other socket of this boot has (SO_COOKIE); fails for what is no socket.
pub fn cookie(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = [0; 8];
    option(socket, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie)?;
    Ok(u64::from_ne_bytes(cookie))
}

/// Whether a descriptor is a TCP socket over IPv4 or IPv6.
pub fn is_tcp(descriptor: impl AsFd) -> bool {
    let descriptor = descriptor.as_fd();
    let is = |name, values: &[libc::c_int]| {
        let mut value = [0; 4];
        option(descriptor, libc::SOL_SOCKET, name, &mut value)
            .is_ok_and(|_| values.contains(&libc::c_int::from_ne_bytes(value)))
    };
    is(libc::SO_PROTOCOL, &[libc::IPPROTO_TCP])
        && is(libc::SO_TYPE, &[libc::SOCK_STREAM])
        && is(libc::SO_DOMAIN, &[libc::AF_INET, libc::AF_INET6])
}

/// Whether every program may choose a congestion control, with any privilege or none.
pub fn may_choose(congestion: &[u8]) -> bool {
    let allowed = std::fs::read("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let name = congestion.split(|byte| *byte == 0).next().unwrap_or_default();
    allowed.is_ok_and(|names| names.split(u8::is_ascii_whitespace).any(|of| of == name))
}

/// Whether calls on a descriptor return instead of waiting (O_NONBLOCK).
pub fn is_nonblocking(descriptor: impl AsFd) -> io::Result<bool> {
    Ok(fcntl_getfl(descriptor)?.contains(OFlags::NONBLOCK))
}

/// How long a receive or an accept on a socket waits (SO_RCVTIMEO); `None` without end.
pub fn receive_timeout(socket: impl AsFd) -> io::Result<Option<Duration>> {
    Ok(sockopt::socket_timeout(socket, sockopt::Timeout::Recv)?)
}

/// How long a send or a connect on a socket waits (SO_SNDTIMEO); `None` for as long as the kernel does.
pub fn send_timeout(socket: impl AsFd) -> io::Result<Option<Duration>> {
    Ok(sockopt::socket_timeout(socket, sockopt::Timeout::Send)?)
}

/// Begins to connect, and does not wait; `EINPROGRESS` when it is not connected yet.
pub fn connect_now(socket: impl AsFd, address: &SocketAddr) -> io::Result<()> {
    let socket = socket.as_fd();
    without_waiting(socket, || socket_swap::connect(socket, address))
}

/// Takes a connection from a listening socket, close-on-exec, and does not wait.
///
/// # Errors
/// `WouldBlock` when there is none; otherwise as accept(2).
pub fn accept_now(listening: impl AsFd) -> io::Result<OwnedFd> {
    let listening = listening.as_fd();
    without_waiting(listening, || Ok(rustix::net::accept_with(listening, SocketFlags::CLOEXEC)?))
}

/// Makes a call on a descriptor that is shared with a program, whose flags are the program's again
/// afterwards. The program's thread waits for the answer to its own call meanwhile.
fn without_waiting<T>(
    descriptor: BorrowedFd<'_>,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let flags = fcntl_getfl(descriptor)?;
    if flags.contains(OFlags::NONBLOCK) {
        return call();
    }
    fcntl_setfl(descriptor, flags | OFlags::NONBLOCK)?;
    let result = call();
    fcntl_setfl(descriptor, flags)?;
    result
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn calls_for_a_program_do_not_wait_and_leave_its_flags() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(accept_now(&listening).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let near = socket_swap::tcp_socket(&listening.local_addr().unwrap()).unwrap();
        match connect_now(&near, &listening.local_addr().unwrap()) {
            Ok(()) => {}
            Err(error) => assert!(crate::socket::is_in_progress(&error), "{error}"),
        }
        assert!(crate::socket::wait_writable(&near, std::time::Duration::from_secs(5)).unwrap());
        let far = accept_now(&listening).unwrap();
        for socket in [near.as_fd(), listening.as_fd(), far.as_fd()] {
            assert!(!is_nonblocking(socket).unwrap() && is_tcp(socket));
        }
    }

    #[test]
    fn every_program_may_choose_reno() {
        assert!(may_choose(b"reno") && may_choose(b"reno\0\0"));
        assert!(!may_choose(b"unknown") && !may_choose(b"re"));
    }

    #[test]
    fn a_socket_has_a_number_of_its_own_whatever_names_it() {
        let (near, far) = UnixStream::pair().unwrap();
        let again = near.try_clone().unwrap();
        assert_eq!(cookie(&near).unwrap(), cookie(&again).unwrap());
        assert_ne!(cookie(&near).unwrap(), cookie(&far).unwrap());
        assert!(!is_tcp(&near));
    }
}
