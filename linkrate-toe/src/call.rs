//! A system call of a program, as its supervisor reads it: numbers out of registers, addresses and
//! values out of the memory of the program. Nothing of it is trusted.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use linkrate_sys::seccomp::Call;

/// Most bytes of an address of a socket (`struct sockaddr_storage`).
pub const MAX_ADDRESS: usize = 128;

/// Most bytes of an option: the longest one of TCP is TCP_INFO, below 300 bytes.
pub const MAX_OPTION: usize = 1024;

/// Where something is in the memory of the program; 0 for nothing.
pub type At = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// connect(2).
    Connect {
        descriptor: i32,
        address: At,
        /// Its length, at most [`MAX_ADDRESS`].
        length: usize,
    },
    /// accept(2), accept4(2).
    Accept {
        descriptor: i32,
        /// Where the address of the peer goes.
        address: At,
        /// Where the room for it is said, and its length goes.
        length_at: At,
        nonblocking: bool,
        close_on_exec: bool,
    },
    /// getsockname(2), getpeername(2).
    Name {
        descriptor: i32,
        /// Whether the peer's is wanted.
        far: bool,
        address: At,
        /// Where the room for it is said, and its length goes.
        length_at: At,
    },
    /// getsockopt(2).
    GetOption {
        descriptor: i32,
        option: OptionName,
        /// Where its value goes.
        value: At,
        /// Where the room for it is said, and its length goes.
        length_at: At,
    },
    /// setsockopt(2).
    SetOption {
        descriptor: i32,
        option: OptionName,
        value: At,
        /// The length of the value, at most [`MAX_OPTION`].
        length: usize,
    },
    /// dup(2), dup2(2), dup3(2), fcntl(2) with `F_DUPFD`.
    Duplicate { descriptor: i32 },
    /// epoll_create(2), epoll_create1(2).
    MakeSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionName {
    pub level: i32,
    /// Its number in the level.
    pub name: i32,
}

/// SOCK_NONBLOCK and SOCK_CLOEXEC, include/linux/net.h: O_NONBLOCK and O_CLOEXEC.
const NONBLOCK: u64 = 0o4000;
const CLOEXEC: u64 = 0o2_000_000;

/// Address families, include/linux/socket.h.
const INET: u16 = 2;
const INET6: u16 = 10;

impl Asked {
    /// Reads a call from its number and its arguments. `None` for another call, and for one that the
    /// kernel is to refuse.
    #[must_use]
    pub fn of(call: Call, arguments: &[u64; 6]) -> Option<Self> {
        // the kernel takes the lower half of what is an int
        let [first, second, third, fourth, fifth, _] = *arguments;
        let int = |argument: u64| argument as u32 as i32;
        let descriptor = int(first);
        let length = |argument: u64, most: usize| {
            usize::try_from(int(argument)).ok().filter(|length| *length <= most)
        };
        let option = OptionName { level: int(second), name: int(third) };
        Some(match call {
            Call::Connect => {
                Self::Connect { descriptor, address: second, length: length(third, MAX_ADDRESS)? }
            }
            Call::Accept | Call::Accept4 => {
                let flags = if call == Call::Accept4 { fourth & 0xffff_ffff } else { 0 };
                if flags & !(NONBLOCK | CLOEXEC) != 0 {
                    return None;
                }
                let (nonblocking, close_on_exec) = (flags & NONBLOCK != 0, flags & CLOEXEC != 0);
                let (address, length_at) = (second, third);
                Self::Accept { descriptor, address, length_at, nonblocking, close_on_exec }
            }
            Call::OwnName | Call::FarName => {
                let far = call == Call::FarName;
                Self::Name { descriptor, far, address: second, length_at: third }
            }
            Call::GetOption => {
                Self::GetOption { descriptor, option, value: fourth, length_at: fifth }
            }
            Call::SetOption => {
                let length = length(fifth, MAX_OPTION)?;
                Self::SetOption { descriptor, option, value: fourth, length }
            }
            Call::Duplicate => Self::Duplicate { descriptor },
            Call::MakeSet => Self::MakeSet,
        })
    }
}

/// Reads the address of a socket. `None` for one that is not of IPv4 or IPv6, or too short.
#[must_use]
pub fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        INET if bytes.len() >= 16 => {
            let address: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(SocketAddr::new(IpAddr::from(address), port))
        }
        INET6 if bytes.len() >= 28 => {
            let flow = u32::from_ne_bytes(bytes.get(4..8)?.try_into().ok()?);
            let address: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let scope = u32::from_ne_bytes(bytes.get(24..28)?.try_into().ok()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(address), port, flow, scope).into())
        }
        _ => None,
    }
}

/// The address of a socket as the kernel writes it.
#[must_use]
pub fn address_bytes(address: &SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    match address {
        SocketAddr::V4(address) => {
            bytes.extend_from_slice(&INET.to_ne_bytes());
            bytes.extend_from_slice(&address.port().to_be_bytes());
            bytes.extend_from_slice(&address.ip().octets());
            bytes.extend_from_slice(&[0; 8]);
        }
        SocketAddr::V6(address) => {
            bytes.extend_from_slice(&INET6.to_ne_bytes());
            bytes.extend_from_slice(&address.port().to_be_bytes());
            bytes.extend_from_slice(&address.flowinfo().to_ne_bytes());
            bytes.extend_from_slice(&address.ip().octets());
            bytes.extend_from_slice(&address.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// How many bytes of a value of `length` go into the room that the program says, in the int that the
/// kernel would read. `None` where the kernel refuses the call (`EINVAL`).
#[must_use]
pub fn room(said: [u8; 4], length: usize) -> Option<usize> {
    usize::try_from(i32::from_ne_bytes(said)).ok().map(|room| room.min(length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn calls_are_read_from_their_arguments() {
        let connect = Asked::of(Call::Connect, &[3 | 7 << 32, 0x7000, 16, 9, 9, 9]);
        assert_eq!(connect, Some(Asked::Connect { descriptor: 3, address: 0x7000, length: 16 }));
        let accept = Asked::of(Call::Accept4, &[3, 0, 0, NONBLOCK | CLOEXEC, 0, 0]);
        let Some(Asked::Accept { nonblocking: true, close_on_exec: true, .. }) = accept else {
            panic!("{accept:?}")
        };
        // flags of an accept(2) are whatever was in the register
        let accept = Asked::of(Call::Accept, &[3, 0, 0, u64::MAX, 0, 0]);
        let Some(Asked::Accept { nonblocking: false, close_on_exec: false, .. }) = accept else {
            panic!("{accept:?}")
        };
        assert_eq!(Asked::of(Call::Accept4, &[3, 0, 0, 1, 0, 0]), None);
        for length in [129, u64::from(u32::MAX)] {
            assert_eq!(Asked::of(Call::Connect, &[3, 0x7000, length, 0, 0, 0]), None);
        }
        assert_eq!(Asked::of(Call::SetOption, &[3, 6, 1, 0x7000, 1 << 20, 0]), None);
    }

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["192.0.2.7:80", "[2001:db8::1]:443", "[::ffff:192.0.2.7]:9"] {
            let written: SocketAddr = text.parse().unwrap();
            let bytes = address_bytes(&written);
            assert_eq!(address(&bytes), Some(written));
            assert_eq!(address(&bytes[..bytes.len() - 1]), None);
        }
        // AF_UNSPEC takes a connection apart, AF_UNIX has a path
        assert_eq!(address(&[0; 16]), None);
        assert_eq!(address(&[1; 110]), None);
    }

    #[test]
    fn a_value_fills_no_more_than_its_room() {
        assert_eq!(room(4i32.to_ne_bytes(), 16), Some(4));
        assert_eq!(room(100i32.to_ne_bytes(), 16), Some(16));
        assert_eq!(room((-1i32).to_ne_bytes(), 16), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_address_or_none(bytes: Vec<u8>, family in 0u16..12) {
            let _ = address(&bytes);
            let whole: Vec<u8> = family.to_ne_bytes().into_iter().chain(bytes).collect();
            if let Some(read) = address(&whole) {
                prop_assert_eq!(address(&address_bytes(&read)), Some(read));
            }
        }
    }
}
