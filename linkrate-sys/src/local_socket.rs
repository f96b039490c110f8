//! Unix sockets with a path, unix(7), and the descriptors that travel over them.
//!
//! The file of a socket outlives the process that listened on it. [`is_listening`] tells a socket
//! whose process has ended from one that is served.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::error::{SysError, SysResult};

/// The most descriptors that one call takes. The kernel closes the others.
const MAX_DESCRIPTORS: usize = 1;

/// Listens at `path`. The listener is non-blocking.
///
/// # Errors
/// `EADDRINUSE` when a file is there, whether a process listens or not; a path of more than 107
/// bytes.
pub fn listen(path: &Path) -> SysResult<UnixListener> {
    let failed = |error| SysError::new("listen on socket", path.display().to_string(), error);
    let listener = UnixListener::bind(path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Connects to the listener at `path`; `ENOENT` without a socket, `ECONNREFUSED` without a listener.
pub fn connect(path: &Path) -> SysResult<UnixStream> {
    UnixStream::connect(path)
        .map_err(|error| SysError::new("connect to socket", path.display().to_string(), error))
}

/// Whether a process listens at `path`. It does not wait, even when that process is stopped.
///
/// # Errors
/// As connect(2), except that a missing file and a missing listener are no errors.
pub fn is_listening(path: &Path) -> io::Result<bool> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address).map_err(io::Error::from) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            // its backlog is full
            io::ErrorKind::WouldBlock => Ok(true),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(false),
            _ => Err(error),
        },
    }
}

/// The user id of the peer when the connection was created (`SO_PEERCRED`), in the caller's user
/// namespace.
pub fn peer_user(stream: &UnixStream) -> SysResult<u32> {
    let peer = socket_peercred(stream)
        .map_err(|error| SysError::new("read the peer user of", "a socket", error))?;
    Ok(peer.uid.as_raw())
}

/// Sends all bytes, the first of them with a descriptor if there is one. The receiver gets a
/// descriptor of its own for the same open file.
pub fn send(
    stream: &UnixStream,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let part = [IoSlice::new(bytes)];
    // a peer that has gone is an error, and no signal
    let sent = loop {
        match rustix::net::sendmsg(stream, &part, &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            sent => break sent?,
        }
    };
    let mut stream = stream;
    stream.write_all(bytes.get(sent..).unwrap_or_default())
}

/// Receives bytes, and adds the descriptors that came with them to `descriptors`. Zero bytes are the
/// end of the stream.
pub fn receive(
    stream: &UnixStream,
    into: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(into)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(stream.as_fd(), &mut parts, &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(arrived) = message {
            descriptors.extend(arrived);
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::{Read, Seek};
    use std::path::PathBuf;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("linkrate-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    #[test]
    fn a_listener_is_found_until_it_ends() {
        let path = scratch("listener");
        assert!(connect(&path).is_err() && !is_listening(&path).unwrap());
        let listener = listen(&path).unwrap();
        assert!(is_listening(&path).unwrap());
        assert_eq!(listen(&path).unwrap_err().errno(), Some(libc::EADDRINUSE));
        listener.accept().unwrap();
        let here = connect(&path).unwrap();
        let (there, _) = listener.accept().unwrap();
        let user = rustix::process::getuid().as_raw();
        assert_eq!((peer_user(&here).unwrap(), peer_user(&there).unwrap()), (user, user));
        drop((here, there, listener));
        // the file stays, and is known to be stale
        assert!(path.exists() && !is_listening(&path).unwrap());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_listener_that_accepts_nothing_is_found_without_waiting() {
        let path = scratch("backlog");
        let _listener = listen(&path).unwrap();
        let began = std::time::Instant::now();
        // more than any backlog of the standard library
        let held: Vec<_> = (0..300).map(|_| is_listening(&path).unwrap()).collect();
        assert!(held.iter().all(|listening| *listening));
        assert!(began.elapsed().as_secs() < 5);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_descriptor_travels_with_the_first_byte() {
        let path = scratch("descriptor");
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        fs::remove_file(path).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        send(&here, b"with", Some(file.as_fd())).unwrap();
        let (mut bytes, mut descriptors) = ([0; 16], Vec::new());
        assert_eq!(receive(&there, &mut bytes, &mut descriptors).unwrap(), 4);
        let mut passed = File::from(descriptors.pop().unwrap());
        passed.write_all(b"written by the receiver").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "written by the receiver");
        // none is none
        send(&here, b"without", None).unwrap();
        assert_eq!(receive(&there, &mut bytes, &mut descriptors).unwrap(), 7);
        assert!(descriptors.is_empty());
        drop(here);
        assert_eq!(receive(&there, &mut bytes, &mut descriptors).unwrap(), 0);
    }
}
