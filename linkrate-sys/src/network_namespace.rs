//! Network namespaces: which one this is, whether one has ended, and one that lives on without a
//! process.

mod handle;

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use linkrate_model::Family;
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::error::{SysError, SysResult};
use crate::socket;

pub use handle::{handle, has_ended};

/// The network namespace of the calling thread.
pub fn own() -> io::Result<OwnedFd> {
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

/// A number for the network namespace of the calling thread, which no other namespace has until the
/// machine restarts. Before Linux 5.14 it is the number of an inode, which a namespace may inherit
/// from one that has ended.
///
/// # Errors
/// When no socket can be opened, or `/proc` is missing.
pub fn cookie() -> io::Result<u64> {
    let socket = socket::ip_socket(Family::Ipv4, true)?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the option value is a live u64 and `length` holds its size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        return Ok(cookie);
    }
    std::fs::metadata("/proc/thread-self/ns/net").map(|found| found.ino())
}

/// Keeps `namespace` alive under `path`, a new file, until [`release`].
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; `EEXIST` when there is a file.
pub fn keep(namespace: BorrowedFd<'_>, path: &Path) -> SysResult<()> {
    let refused = |error| {
        SysError::new(
            "keep the network namespace of a client in",
            path.display().to_string(),
            error,
        )
    };
    File::create_new(path).map_err(refused)?;
    let source = format!("/proc/thread-self/fd/{}", namespace.as_fd().as_raw_fd());
    mount_bind(source, path).map_err(|error| {
        // the file is empty and this function's own
        let _ = std::fs::remove_file(path);
        refused(error.into())
    })
}

/// Undoes [`keep`]. A file that is no mount is removed alone.
pub fn release(path: &Path) -> SysResult<()> {
    let refused =
        |error| SysError::new("release the network namespace", path.display().to_string(), error);
    match unmount(path, UnmountFlags::DETACH) {
        // EINVAL: not a mount, of which nothing remains but the file
        Ok(()) | Err(rustix::io::Errno::INVAL) => {}
        Err(error) => return Err(refused(error.into())),
    }
    std::fs::remove_file(path).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_one_number() {
        assert_eq!(cookie().unwrap(), cookie().unwrap());
        assert_ne!(cookie().unwrap(), 0);
    }
}
