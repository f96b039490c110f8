//! Options of a socket whose connection is at the adapter.
//!
//! Each option has its place. What TCP does now is known to the socket in the adapter's TCP; what the
//! program has chosen is kept by its own socket, which is parked; and what a stream is to its reader is
//! the pair's.
//!
//! Only options are passed on whose values are nothing but bytes. The kernel carries all other calls out at the
//! pair, with the addresses, the descriptors and the privileges of the program: it refuses options of TCP and IP
//! there, and a filter, a lock or a mark is that of the pair.

use std::os::fd::{AsFd, OwnedFd};

use linkrate_sys::seccomp::{Listener, Waiting};
use linkrate_sys::{network_namespace, socket_calls, socket_option};

use super::{Answer, Mover, SupervisorLoop, errno, write_counted};
use crate::call::{At, OptionName};

const SOCKET: i32 = 1;
const IP: i32 = 0;
const TCP: i32 = 6;
const IPV6: i32 = 41;

/// SO_ERROR, include/uapi/asm-generic/socket.h.
pub(super) const ERROR: OptionName = OptionName { level: SOCKET, name: 4 };
const LINGER: OptionName = OptionName { level: SOCKET, name: 13 };
const KEEPALIVE: OptionName = OptionName { level: SOCKET, name: 9 };
/// It would need the connection in the program's socket.
const ZEROCOPY: OptionName = OptionName { level: SOCKET, name: 60 };
const PRIORITY: OptionName = OptionName { level: SOCKET, name: 12 };
const MAX_PACING_RATE: OptionName = OptionName { level: SOCKET, name: 47 };
const CONGESTION: OptionName = tcp(13);

/// The highest priority that every program may choose (SO_PRIORITY of socket(7)).
const MAX_PRIORITY: i32 = 6;

const fn tcp(name: i32) -> OptionName {
    OptionName { level: TCP, name }
}

/// TCP_NOTSENT_LOWAT: the adapter bounds its own queue; the program's is the pair.
const NOT_SENT: OptionName = tcp(25);

/// Options of IP whose value the path gives: IP_MTU, IPV6_MTU.
const OF_PATH: [OptionName; 2] =
    [OptionName { level: IP, name: 14 }, OptionName { level: IPV6, name: 24 }];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The stream pair.
    Pair,
    /// The program's own socket.
    ParkedSocket,
    /// The socket in the adapter's TCP, and set in both.
    Adapter,
    /// Nowhere: `EOPNOTSUPP`.
    Nowhere,
}

fn place_to_read(option: OptionName) -> Place {
    match option {
        ERROR => Place::Pair,
        option if socket_option::size(option.level, option.name).is_none() => Place::Pair,
        NOT_SENT => Place::ParkedSocket,
        option if OF_PATH.contains(&option) => Place::Adapter,
        option if option.level == TCP => Place::Adapter,
        _ => Place::ParkedSocket,
    }
}

fn place_to_set(option: OptionName) -> Place {
    match option {
        ZEROCOPY => Place::Nowhere,
        option if socket_option::size(option.level, option.name).is_none() => Place::Pair,
        NOT_SENT => Place::ParkedSocket,
        KEEPALIVE | PRIORITY | MAX_PACING_RATE => Place::Adapter,
        option if [TCP, IP, IPV6].contains(&option.level) => Place::Adapter,
        _ => Place::ParkedSocket,
    }
}

/// Whether a value of an option may be set only by who administers the network.
fn is_privileged(option: OptionName, value: &[u8]) -> bool {
    match option {
        PRIORITY => !(0..=MAX_PRIORITY).contains(&int(value, 0)),
        CONGESTION => !socket_calls::may_choose(value),
        _ => false,
    }
}

impl<M: Mover> SupervisorLoop<M> {
    pub(super) fn get_option(
        &self,
        listener: &Listener,
        call: Waiting,
        descriptor: i32,
        option: OptionName,
        (value, length_at): (At, At),
    ) -> Option<Answer> {
        let entry = self.table.of_thread(call.thread, descriptor)?;
        let memory = listener.memory(&call).ok()?;
        let mut said = [0; 4];
        if memory.read(length_at, &mut said).is_err() {
            return Some(Answer::Now(Err(errno::FAULT)));
        }
        let Ok(room) = usize::try_from(i32::from_ne_bytes(said)) else {
            return Some(Answer::Now(Err(errno::INVALID)));
        };
        let size = socket_option::size(option.level, option.name).unwrap_or(0);
        let mut bytes = vec![0; room.min(size)];
        let mut read =
            |socket: &OwnedFd| socket_option::option(socket, option.level, option.name, &mut bytes);
        let read = match place_to_read(option) {
            Place::Pair => return None,
            Place::Adapter => match self.mover.adapter_socket(entry.id) {
                Some(socket) => read(&socket),
                // it has ended there
                None => read(&entry.socket),
            },
            Place::ParkedSocket | Place::Nowhere => read(&entry.socket),
        };
        let answer = match read {
            Ok(length) => write_counted(&memory, &bytes[..length], value, length_at),
            Err(error) => Err(error.raw_os_error().unwrap_or(errno::INVALID)),
        };
        Some(Answer::Now(answer.map(|()| 0)))
    }

    pub(super) fn set_option(
        &self,
        listener: &Listener,
        call: Waiting,
        descriptor: i32,
        option: OptionName,
        (value, length): (At, usize),
    ) -> Option<Answer> {
        let entry = self.table.of_thread(call.thread, descriptor)?;
        let memory = listener.memory(&call).ok()?;
        let mut place = place_to_set(option);
        match place {
            Place::Pair => return None,
            Place::Nowhere => return Some(Answer::Now(Err(errno::NOT_SUPPORTED))),
            Place::ParkedSocket | Place::Adapter => {}
        }
        let mut bytes = vec![0; length];
        if memory.read(value, &mut bytes).is_err() {
            return Some(Answer::Now(Err(errno::FAULT)));
        }
        if is_privileged(option, &bytes)
            && !network_namespace::is_administered_by(&entry.socket, call.thread).unwrap_or(false)
        {
            return Some(Answer::Now(Err(errno::NOT_PERMITTED)));
        }
        let set = |socket: &dyn AsFd| {
            socket_option::set_option(socket.as_fd(), option.level, option.name, &bytes)
        };
        if option == LINGER && !lingers(&bytes) {
            // a reset at close is what TCP does; time to wait is what close(2) does
            place = Place::Adapter;
        }
        let there = match place {
            Place::Adapter => self.mover.adapter_socket(entry.id),
            _ => None,
        };
        let answer = match there.map_or(Ok(()), |socket| set(&socket)) {
            // its socket may be of the other family
            Err(_) if option.level == IPV6 => set(&entry.socket),
            Ok(()) => set(&entry.socket),
            refused => refused,
        };
        let answer = answer.map_err(|error| error.raw_os_error().unwrap_or(errno::INVALID));
        Some(Answer::Now(answer.map(|()| 0)))
    }
}

/// Whether a value of SO_LINGER makes close(2) wait.
fn lingers(value: &[u8]) -> bool {
    int(value, 0) != 0 && int(value, 4) > 0
}

/// The number at a place of a value, 0 beyond its end.
fn int(value: &[u8], at: usize) -> i32 {
    let bytes = value.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, i32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_where_they_have_an_effect() {
        // TCP_INFO, TCP_NODELAY, TCP_CONGESTION
        for name in [11, 1, 13] {
            assert_eq!(place_to_read(tcp(name)), Place::Adapter);
        }
        assert_eq!(place_to_set(tcp(1)), Place::Adapter);
        assert_eq!(place_to_read(ERROR), Place::Pair);
        // SO_SNDBUF
        let send_buffer = OptionName { level: SOCKET, name: 7 };
        assert_eq!(place_to_read(send_buffer), Place::ParkedSocket);
        assert_eq!(place_to_set(send_buffer), Place::ParkedSocket);
        assert_eq!(place_to_set(ZEROCOPY), Place::Nowhere);
        // TCP_MD5SIG, TCP_REPAIR, TCP_ZEROCOPY_RECEIVE and the tables of iptables(8)
        let of_ip = OptionName { level: IP, name: 64 };
        for option in [tcp(14), tcp(19), tcp(35), of_ip] {
            assert_eq!((place_to_read(option), place_to_set(option)), (Place::Pair, Place::Pair));
        }
        // a filter, its lock, a mark, a device, buffers beyond the limit
        for name in [26, 27, 36, 44, 25, 32, 33, 50, 51, 52] {
            let option = OptionName { level: SOCKET, name };
            assert_eq!((place_to_read(option), place_to_set(option)), (Place::Pair, Place::Pair));
        }
    }

    #[test]
    fn a_privilege_is_asked_for_where_the_kernel_does() {
        for (priority, is) in [(0, false), (6, false), (7, true), (-1, true)] {
            assert_eq!(is_privileged(PRIORITY, &i32::to_ne_bytes(priority)), is, "{priority}");
        }
        assert!(!is_privileged(CONGESTION, b"reno"));
        assert!(is_privileged(CONGESTION, b"no such name"));
        assert!(!is_privileged(tcp(1), &i32::to_ne_bytes(7)));
    }

    #[test]
    fn only_a_time_makes_close_wait() {
        let value = |on: i32, seconds: i32| [on.to_ne_bytes(), seconds.to_ne_bytes()].concat();
        assert!(lingers(&value(1, 5)));
        assert!(!lingers(&value(1, 0)) && !lingers(&value(0, 5)) && !lingers(&[1]));
    }
}
