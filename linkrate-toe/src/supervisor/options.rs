//! Options of a socket whose connection is at the adapter.
//!
//! Each option has its place. What TCP does now is known to the socket in the adapter's TCP; what the
//! program has chosen is kept by its own socket, which is parked; and what a stream is to its reader is
//! the pair's.

use std::os::fd::{AsFd, OwnedFd};

use linkrate_sys::seccomp::Waiting;
use linkrate_sys::{process_memory, socket_option};

use super::{Answer, Mover, SupervisorLoop, errno, write_counted};
use crate::call::{At, MAX_OPTION, OptionName};

const SOCKET: i32 = 1;
const IP: i32 = 0;
const TCP: i32 = 6;
const IPV6: i32 = 41;

/// SO_ERROR, include/uapi/asm-generic/socket.h.
pub(super) const ERROR: OptionName = OptionName { level: SOCKET, name: 4 };
const LINGER: OptionName = OptionName { level: SOCKET, name: 13 };
const KEEPALIVE: OptionName = OptionName { level: SOCKET, name: 9 };
const ZEROCOPY: OptionName = OptionName { level: SOCKET, name: 60 };
const PRIORITY: OptionName = OptionName { level: SOCKET, name: 12 };
const MAX_PACING_RATE: OptionName = OptionName { level: SOCKET, name: 47 };

const fn tcp(name: i32) -> OptionName {
    OptionName { level: TCP, name }
}

/// Options of TCP, include/uapi/linux/tcp.h: MD5 and authentication, repair, queues of upper layers,
/// zero-copy receive. They would need the connection in the program's socket.
const NOT_HERE: [OptionName; 13] = [
    ZEROCOPY,
    tcp(14),
    tcp(19),
    tcp(20),
    tcp(21),
    tcp(22),
    tcp(24),
    tcp(29),
    tcp(31),
    tcp(32),
    tcp(35),
    tcp(38),
    tcp(39),
];

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
        NOT_SENT => Place::ParkedSocket,
        option if OF_PATH.contains(&option) => Place::Adapter,
        option if option.level == TCP => Place::Adapter,
        _ => Place::ParkedSocket,
    }
}

fn place_to_set(option: OptionName) -> Place {
    match option {
        option if NOT_HERE.contains(&option) => Place::Nowhere,
        NOT_SENT => Place::ParkedSocket,
        KEEPALIVE | PRIORITY | MAX_PACING_RATE => Place::Adapter,
        option if [TCP, IP, IPV6].contains(&option.level) => Place::Adapter,
        _ => Place::ParkedSocket,
    }
}

impl<M: Mover> SupervisorLoop<M> {
    pub(super) fn get_option(
        &self,
        call: Waiting,
        descriptor: i32,
        option: OptionName,
        value: At,
        length_at: At,
    ) -> Option<Answer> {
        let entry = self.table.of_thread(call.thread, descriptor)?;
        let mut bytes = [0; MAX_OPTION];
        let mut said = [0; 4];
        if process_memory::read(call.thread, length_at, &mut said).is_err() {
            return Some(Answer::Now(Err(errno::FAULT)));
        }
        let Ok(room) = usize::try_from(i32::from_ne_bytes(said)) else {
            return Some(Answer::Now(Err(errno::INVALID)));
        };
        let bytes = &mut bytes[..room.min(MAX_OPTION)];
        let read = |socket: &OwnedFd, bytes: &mut [u8]| {
            socket_option::option(socket, option.level, option.name, bytes)
        };
        let read = match place_to_read(option) {
            Place::Pair => return None,
            Place::Adapter => match self.mover.adapter_socket(entry.id) {
                Some(socket) => read(&socket, bytes),
                // it has ended there
                None => read(&entry.socket, bytes),
            },
            Place::ParkedSocket | Place::Nowhere => read(&entry.socket, bytes),
        };
        let answer = match read {
            Ok(length) => write_counted(call.thread, &bytes[..length], value, length_at),
            Err(error) => Err(error.raw_os_error().unwrap_or(errno::INVALID)),
        };
        Some(Answer::Now(answer.map(|()| 0)))
    }

    pub(super) fn set_option(
        &self,
        call: Waiting,
        descriptor: i32,
        option: OptionName,
        value: At,
        length: usize,
    ) -> Option<Answer> {
        let entry = self.table.of_thread(call.thread, descriptor)?;
        let mut bytes = vec![0; length];
        if process_memory::read(call.thread, value, &mut bytes).is_err() {
            return Some(Answer::Now(Err(errno::FAULT)));
        }
        let set = |socket: &dyn AsFd| {
            socket_option::set_option(socket.as_fd(), option.level, option.name, &bytes)
        };
        let mut place = place_to_set(option);
        if option == LINGER && !lingers(&bytes) {
            // a reset at close is what TCP does; time to wait is what close(2) does
            place = Place::Adapter;
        }
        let answer = match place {
            Place::Pair => return None,
            Place::Nowhere => return Some(Answer::Now(Err(errno::NOT_SUPPORTED))),
            Place::ParkedSocket => set(&entry.socket),
            Place::Adapter => {
                let there = self.mover.adapter_socket(entry.id);
                match there.map_or(Ok(()), |socket| set(&socket)) {
                    // its socket may be of the other family
                    Err(_) if option.level == IPV6 => set(&entry.socket),
                    Ok(()) => set(&entry.socket),
                    refused => refused,
                }
            }
        };
        let answer = answer.map_err(|error| error.raw_os_error().unwrap_or(errno::INVALID));
        Some(Answer::Now(answer.map(|()| 0)))
    }
}

/// Whether a value of SO_LINGER makes close(2) wait.
fn lingers(value: &[u8]) -> bool {
    let int = |at: usize| {
        let bytes = value.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, i32::from_ne_bytes)
    };
    int(0) != 0 && int(4) > 0
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
        // TCP_ULP, TCP_REPAIR
        for name in [31, 19] {
            assert_eq!(place_to_set(tcp(name)), Place::Nowhere);
        }
    }

    #[test]
    fn only_a_time_makes_close_wait() {
        let value = |on: i32, seconds: i32| [on.to_ne_bytes(), seconds.to_ne_bytes()].concat();
        assert!(lingers(&value(1, 5)));
        assert!(!lingers(&value(1, 0)) && !lingers(&value(0, 5)) && !lingers(&[1]));
    }
}
