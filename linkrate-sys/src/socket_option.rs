//! Options of sockets, as bytes and as numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Reads an option. Returns the length of its value, of which no more than `value.len()` bytes are
/// there.
pub fn option(socket: impl AsFd, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: `value` is writable for `length` bytes, and the kernel writes no more.
    let result = unsafe {
        let socket = socket.as_fd().as_raw_fd();
        libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 {
        Ok((length as usize).min(value.len()))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets an option.
pub fn set_option(socket: impl AsFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: `value` is readable for `length` bytes.
    let result = unsafe {
        let socket = socket.as_fd().as_raw_fd();
        libc::setsockopt(socket, level, name, value.as_ptr().cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets an option of a socket that is a number.
pub(crate) fn set_int(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_option(socket, level, name, &value.to_ne_bytes())
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
}
