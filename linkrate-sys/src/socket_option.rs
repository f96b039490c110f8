//! Options of sockets, as bytes and as numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Options whose values are numbers of 4 bytes, by level. The values of all options here are bytes and nothing
/// else: neither addresses of memory nor descriptors. None of them needs a privilege, except for some values.
const NUMBERS: [(i32, &[i32]); 4] = [
    // reuse, type, error, route, broadcast, buffers, keep-alive, priority, protocol and domain, queues
    (libc::SOL_SOCKET, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 38, 39, 45, 48, 49, 56, 72, 74]),
    // type of service, time to live, MTU
    (libc::IPPROTO_IP, &[1, 2, 10, 14, 15, 21, 24, 51]),
    // hop limit, MTU, traffic class, flow label, addresses
    (libc::IPPROTO_IPV6, &[16, 23, 24, 26, 62, 67, 70, 72, 73, 78]),
    // from TCP_NODELAY to TCP_TX_DELAY
    (libc::IPPROTO_TCP, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 17, 18, 23, 25, 27, 30, 34, 37]),
];

/// Others, with most bytes of their values.
const LARGER: [(i32, i32, usize); 9] = [
    (libc::SOL_SOCKET, libc::SO_LINGER, 8),
    (libc::SOL_SOCKET, libc::SO_PEERCRED, 12),
    (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 8),
    (libc::SOL_SOCKET, libc::SO_MEMINFO, 64),
    (libc::SOL_SOCKET, libc::SO_COOKIE, 8),
    (libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, 8),
    (libc::IPPROTO_TCP, libc::TCP_INFO, 512),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION, 16),
    (libc::IPPROTO_TCP, libc::TCP_CC_INFO, 64),
];

/// Most bytes of the value of an option that is nothing but bytes; `None` for any other option.
#[must_use]
pub fn size(level: i32, name: i32) -> Option<usize> {
    let is_number = NUMBERS.iter().any(|(of, names)| *of == level && names.contains(&name));
    let larger = || LARGER.iter().find(|of| (of.0, of.1) == (level, name)).map(|of| of.2);
    if is_number { Some(size_of::<i32>()) } else { larger() }
}

/// Reads an option that has a [size]. Returns how many bytes of `value` are those of its value.
///
/// # Errors
/// `EOPNOTSUPP` for one without a size; as getsockopt(2).
pub fn option(socket: impl AsFd, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let size = size(level, name).ok_or_else(not_bytes)?;
    let room = value.len().min(size);
    let mut length = room as libc::socklen_t;
    // SAFETY: `value` is writable for `length` bytes. The kernel takes the length of these options for a number
    // of bytes, and writes no more.
    let result = unsafe {
        let socket = socket.as_fd().as_raw_fd();
        libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { Ok(room.min(length as usize)) } else { Err(io::Error::last_os_error()) }
}

/// Sets an option that has a [size], of which the kernel gets no more bytes.
///
/// # Errors
/// `EOPNOTSUPP` for one without a size; as setsockopt(2).
pub fn set_option(socket: impl AsFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let size = size(level, name).ok_or_else(not_bytes)?;
    set(socket, level, name, &value[..value.len().min(size)])
}

fn not_bytes() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

/// Sets an option whose value is bytes or a number.
pub(crate) fn set(socket: impl AsFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: `value` is readable for its length. It is a number, or the value of an option that holds no address.
    let result = unsafe {
        let socket = socket.as_fd().as_raw_fd();
        let length = value.len() as libc::socklen_t;
        libc::setsockopt(socket, level, name, value.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets an option of a socket that is a number.
pub(crate) fn set_int(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set(socket, level, name, &value.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn options_are_read_and_set_as_bytes() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        set_option(&near, level, name, &1i32.to_ne_bytes()).unwrap();
        let mut value = [0; 16];
        assert_eq!(option(&near, level, name, &mut value).unwrap(), 4);
        assert_eq!(value[..4], 1i32.to_ne_bytes());
        assert_eq!(
            set_option(&near, level, name, &[1]).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn an_option_that_is_not_only_bytes_is_refused() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        // the kernel takes the length of SO_GET_FILTER for a number of instructions, and the values of others for
        // addresses or descriptors
        let [filter, zero_copy] = [26, 35];
        for (level, name) in [
            (libc::SOL_SOCKET, filter),
            (libc::SOL_SOCKET, libc::SO_LOCK_FILTER),
            (libc::SOL_SOCKET, libc::SO_ATTACH_BPF),
            (libc::SOL_SOCKET, libc::SO_MARK),
            (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE),
            (libc::IPPROTO_TCP, zero_copy),
            (libc::IPPROTO_TCP, libc::TCP_REPAIR),
            // the tables of iptables(8)
            (libc::IPPROTO_IP, 64),
            (libc::IPPROTO_IP, 65),
            (libc::IPPROTO_IPV6, 64),
        ] {
            assert_eq!(size(level, name), None, "{level} {name}");
            let refused = [
                option(&socket, level, name, &mut [0; 1024]).map(drop),
                set_option(&socket, level, name, &[0; 16]),
            ];
            for refused in refused {
                assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
            }
        }
    }

    #[test]
    fn no_option_writes_more_than_its_size() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        let levels = [libc::SOL_SOCKET, libc::IPPROTO_IP, libc::IPPROTO_IPV6, libc::IPPROTO_TCP];
        for (level, name) in
            levels.into_iter().flat_map(|level| (0..128).map(move |name| (level, name)))
        {
            let Some(size) = size(level, name) else { continue };
            // longer than any value, and a byte of it
            for room in [4096, 1] {
                let mut value = [0xa5; 4096];
                if let Ok(length) = option(&near, level, name, &mut value[..room]) {
                    assert!(length <= size.min(room), "{level} {name}: {length}");
                }
                assert!(value[size.min(room)..].iter().all(|byte| *byte == 0xa5), "{level} {name}");
            }
        }
    }
}
