//! Handles of network namespaces: they name one without keeping it alive.
//!
//! Since Linux 6.18 a namespace has a file handle (fs/nsfs.c, `nsfs_export_operations`), with a
//! number that no other namespace gets until the machine restarts. Whoever opens it
//! (open_by_handle_at(2)) learns whether the namespace still exists, whatever keeps it: processes,
//! mounts, descriptors, sockets.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::thread::{CapabilitySet, capabilities};

use super::own;

/// The longest handle of any file system, `MAX_HANDLE_SZ` of include/linux/exportfs.h, bytes.
const MAX_LENGTH: usize = 128;

/// The inode of the first user namespace, `PROC_USER_INIT_INO` of include/linux/proc_ns.h.
const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// `struct file_handle` with room for the longest handle.
#[repr(C)]
struct FileHandle {
    bytes: u32,
    kind: i32,
    handle: [u8; MAX_LENGTH],
}

/// The handle of the network namespace of the calling thread: four bytes with its kind, then what
/// the kernel gave. `None` before Linux 6.18.
pub fn handle() -> Option<Vec<u8>> {
    let namespace = own().ok()?;
    let mut found = FileHandle { bytes: MAX_LENGTH as u32, kind: 0, handle: [0; MAX_LENGTH] };
    let mut mount = 0;
    // SAFETY: the path is an empty C string, which AT_EMPTY_PATH permits, `found` has the room that
    // its field `bytes` promises, and `mount` is a live int.
    let result = unsafe {
        libc::name_to_handle_at(
            namespace.as_raw_fd(),
            c"".as_ptr(),
            (&raw mut found).cast(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    let bytes = found.handle.get(..found.bytes as usize).filter(|_| result == 0)?;
    Some([&found.kind.to_ne_bytes(), bytes].concat())
}

/// Whether the network namespace of a [`handle`] of this boot has surely ended. False if it lives,
/// and if this process cannot know: before Linux 6.18, and in a user namespace or without
/// CAP_SYS_ADMIN, where the kernel tells no difference between a namespace that has ended and one
/// that may not be opened.
pub fn has_ended(namespace: &[u8]) -> bool {
    let (Ok(mount), Some(this)) = (own(), handle()) else { return false };
    let is_alike = this.len() == namespace.len() && this.get(..4) == namespace.get(..4);
    let refused = || open(&mount, namespace).err().and_then(|error| error.raw_os_error());
    is_alike && sees_all() && open(&mount, &this).is_ok() && refused() == Some(libc::ESTALE)
}

/// Whether this process has the right to open every namespace of the machine.
fn sees_all() -> bool {
    let first = std::fs::metadata("/proc/thread-self/ns/user")
        .is_ok_and(|user| user.ino() == FIRST_USER_NAMESPACE);
    first && capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Opens a namespace by its handle. `mount` is any namespace.
fn open(mount: &OwnedFd, namespace: &[u8]) -> io::Result<OwnedFd> {
    let (kind, bytes) = namespace.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidInput)?;
    let mut wanted = FileHandle {
        bytes: bytes.len() as u32,
        kind: i32::from_ne_bytes(*kind),
        handle: [0; MAX_LENGTH],
    };
    let room = wanted.handle.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidInput)?;
    room.copy_from_slice(bytes);
    // SAFETY: `wanted` is a live `struct file_handle` with as many bytes as its field says.
    let descriptor = unsafe {
        libc::open_by_handle_at(
            mount.as_raw_fd(),
            (&raw mut wanted).cast(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use rustix::thread::{UnshareFlags, set_thread_res_uid, unshare_unsafe};

    use super::*;

    /// The handle of a new network namespace, and the descriptor that alone holds it.
    fn elsewhere() -> Option<(Vec<u8>, OwnedFd)> {
        let make = || {
            // SAFETY: a new network namespace takes no memory and no descriptor from the thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.ok()?;
            Some((handle()?, own().ok()?))
        };
        std::thread::scope(|scope| scope.spawn(make).join().unwrap())
    }

    #[test]
    fn a_namespace_ends_with_what_holds_it_last() {
        if !sees_all() {
            return;
        }
        let Some((theirs, held)) = elsewhere() else { return };
        assert_ne!(Some(&theirs), handle().as_ref());
        assert!(!has_ended(&theirs), "a descriptor holds it");
        drop(held);
        assert!(has_ended(&theirs));
        assert!(!has_ended(&handle().unwrap()));
    }

    #[test]
    fn bytes_of_another_kind_are_no_ended_namespace() {
        let mut longer = handle().unwrap_or_default();
        longer.push(0);
        for namespace in [&[][..], &[1, 2, 3], &[0; 200], &longer] {
            assert!(!has_ended(namespace), "{namespace:?}");
        }
    }

    #[test]
    fn without_privilege_nothing_is_sure() {
        let Some((theirs, held)) = elsewhere() else { return };
        drop(held);
        let ask = || {
            let nobody = rustix::process::Uid::from_raw(65534);
            set_thread_res_uid(nobody, nobody, nobody).ok().map(|()| has_ended(&theirs))
        };
        let answer = std::thread::scope(|scope| scope.spawn(ask).join().unwrap());
        assert_ne!(answer, Some(true));
    }
}
