//! Network namespaces: which one this is, whether one has ended, and one that lives on without a
//! process.

mod handle;

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
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

/// CAP_NET_ADMIN, include/uapi/linux/capability.h.
const ADMINISTRATION: u32 = 12;

/// SIOCGSKNS, include/uapi/linux/sockios.h.
const NAMESPACE_OF_SOCKET: libc::Ioctl = 0x894c;

/// Whether a thread has CAP_NET_ADMIN over the network namespace of a socket, by the user namespace that owns it.
/// One that has it by a user namespace further out does not count.
pub fn is_administered_by(socket: impl AsFd, thread: u32) -> io::Result<bool> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
    let effective = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    if effective.is_none_or(|capabilities| capabilities >> ADMINISTRATION & 1 == 0) {
        return Ok(false);
    }
    let opened = |of: BorrowedFd<'_>, request| {
        // SAFETY: the request takes no argument.
        let opened = unsafe { libc::ioctl(of.as_raw_fd(), request) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nothing else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(opened) })
    };
    let namespace = opened(socket.as_fd(), NAMESPACE_OF_SOCKET)?;
    let owner = rustix::fs::fstat(opened(namespace.as_fd(), libc::NS_GET_USERNS)?)?;
    let of_thread = std::fs::metadata(format!("/proc/{thread}/ns/user"))?;
    Ok((owner.st_dev, owner.st_ino) == (of_thread.dev(), of_thread.ino()))
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

    #[test]
    fn who_lacks_the_capability_administers_nothing() {
        use std::os::unix::process::CommandExt;
        use std::process::Command;
        let socket = socket::ip_socket(Family::Ipv4, true).unwrap();
        let own = is_administered_by(&socket, std::process::id()).unwrap();
        if !rustix::process::geteuid().is_root() {
            assert!(!own);
            return;
        }
        let mut other = Command::new("sleep").arg("9").uid(65_534).spawn().unwrap();
        let of_other = is_administered_by(&socket, other.id());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!of_other.unwrap());
        // some containers leave root without it
        println!("root administers its network: {own}");
    }
}
