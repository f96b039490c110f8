//! Unix sockets with abstract names, unix(7): they have no file, belong to a network namespace,
//! and vanish with the process that listens on them.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use rustix::net::sockopt::socket_peercred;

use crate::error::{SysError, SysResult};

/// Every Unix socket of the reader's network namespace.
const SOCKETS: &str = "/proc/net/unix";

/// `__SO_ACCEPTCON` in the flags of [`SOCKETS`]: it listens.
const LISTENS: u32 = 1 << 16;

/// Listens under `name` in the caller's network namespace. The listener is non-blocking.
///
/// # Errors
/// `EADDRINUSE` when a process listens under that name already.
pub fn listen(name: &str) -> SysResult<UnixListener> {
    let failed = |error| SysError::new("listen on socket", format!("@{name}"), error);
    let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
    let listener = UnixListener::bind_addr(&address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Connects to the listener `name` in the caller's network namespace.
///
/// # Errors
/// `ECONNREFUSED` without a listener of that name.
pub fn connect(name: &str) -> SysResult<UnixStream> {
    let failed = |error| SysError::new("connect to socket", format!("@{name}"), error);
    let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
    UnixStream::connect_addr(&address).map_err(failed)
}

/// The user id of the peer when the connection was created (`SO_PEERCRED`), in the caller's user
/// namespace.
///
/// # Errors
/// As getsockopt(2).
pub fn peer_user(stream: &UnixStream) -> SysResult<u32> {
    let peer = socket_peercred(stream)
        .map_err(|error| SysError::new("read the peer user of", "a socket", error))?;
    Ok(peer.uid.as_raw())
}

/// The abstract names of listeners in the caller's network namespace that begin with `prefix`,
/// without the prefix.
///
/// # Errors
/// When the list of sockets cannot be read.
pub fn names(prefix: &str) -> SysResult<Vec<String>> {
    let text =
        fs::read_to_string(SOCKETS).map_err(|error| SysError::new("read", SOCKETS, error))?;
    Ok(listening(&text, prefix))
}

/// Lines are `Num RefCount Protocol Flags Type St Inode Path`, proc(5); an abstract name begins
/// with `@`.
fn listening(text: &str, prefix: &str) -> Vec<String> {
    let name = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        let name = fields.nth(3)?.strip_prefix('@')?.strip_prefix(prefix)?;
        (flags & LISTENS != 0).then(|| name.to_owned())
    };
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_listens_and_others_find_it() {
        let name = format!("linkrate-test.{}", std::process::id());
        assert!(connect(&name).is_err());
        let listener = listen(&name).unwrap();
        assert_eq!(listen(&name).unwrap_err().errno(), Some(libc::EADDRINUSE));
        assert_eq!(names(&name).unwrap(), [""]);
        let here = connect(&name).unwrap();
        let (there, _) = listener.accept().unwrap();
        let user = rustix::process::getuid().as_raw();
        assert_eq!((peer_user(&here).unwrap(), peer_user(&there).unwrap()), (user, user));
        drop((here, there, listener));
        assert!(names(&name).unwrap().is_empty());
    }

    #[test]
    fn only_who_listens_is_listed() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    000000000: 00000002 00000000 00010000 0001 01 20001 @lab.0.b\n\
                    000000000: 00000003 00000000 00000000 0001 03 20002 @lab.0.b\n\
                    000000000: 00000003 00000000 00000000 0001 03 20003 @lab.0.c\n\
                    000000000: 00000002 00000000 00010000 0001 01 20004 @lab.0.a\n\
                    000000000: 00000002 00000000 00010000 0001 01 20005 /run/lab.0.d\n\
                    000000000: 00000003 00000000 00000000 0001 03 20006\n\
                    nonsense\n";
        assert_eq!(listening(text, "lab.0."), ["a", "b"]);
        assert!(listening(text, "lab.1.").is_empty());
    }
}
