//! The socket of a lab: a file with the lab's name in a private directory of the user.
//!
//! A socket is made and removed under a lock on its directory (flock(2)). Under the lock, a socket
//! without a listener belongs to a lab that has ended.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::{local_socket, run_directory};

use super::LabName;

/// The directory of the sockets, in the run-time directory of the user.
const DIRECTORY: &str = "labs";

/// How long another process may hold the lock, which it needs for some system calls.
const TIMEOUT: Duration = Duration::from_secs(5);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The listening socket of this process's lab. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct LabSocket {
    path: PathBuf,
    listener: UnixListener,
}

impl LabSocket {
    /// Listens under the name of a lab. Replaces the socket of a lab that has ended; `EADDRINUSE` when a lab of this
    /// user has that name.
    pub(super) fn listen(lab: &LabName) -> SysResult<Self> {
        let directory = run_directory::private(DIRECTORY)?;
        let path = directory.join(lab.to_string());
        let failed = |error| SysError::new("listen on socket", path.display().to_string(), error);
        let _lock = lock(&directory, TIMEOUT).map_err(failed)?;
        // a lab with another XDG_RUNTIME_DIR has it elsewhere
        if find(lab)?.is_some() {
            return Err(failed(io::ErrorKind::AddrInUse.into()));
        }
        remove(&path).map_err(failed)?;
        let listener = local_socket::listen(&path)?;
        Ok(Self { path, listener })
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for LabSocket {
    fn drop(&mut self) {
        // it still listens, so no other process has replaced it; a file that stays is stale
        let _ = remove(&self.path);
    }
}

/// The names and sockets of this user's labs, sorted. Removes the sockets of labs that have ended.
pub(super) fn list() -> SysResult<Vec<(LabName, PathBuf)>> {
    let mut up = Vec::new();
    for directory in run_directory::existing(DIRECTORY) {
        let failed = |error| SysError::new("read", directory.display().to_string(), error);
        let mut stale = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            let Some(name) = name else { continue };
            match local_socket::is_listening(&path) {
                Ok(true) => up.push((name, path)),
                Ok(false) => stale.push(path),
                // the lab was just removed, or its socket cannot be used
                Err(_) => {}
            }
        }
        // what another process makes or removes at this moment is left to it
        if !stale.is_empty()
            && let Ok(_lock) = lock(&directory, Duration::ZERO)
        {
            for path in stale {
                if matches!(local_socket::is_listening(&path), Ok(false)) {
                    // the next look removes it
                    let _ = remove(&path);
                }
            }
        }
    }
    up.sort();
    up.dedup_by(|one, other| one.0 == other.0);
    Ok(up)
}

/// The socket of the lab of that name, if it is up.
pub(super) fn find(lab: &LabName) -> SysResult<Option<PathBuf>> {
    let named = |(name, path)| (name == *lab).then_some(path);
    // two steps: `list` needs no lock that the caller may hold
    Ok(list()?.into_iter().find_map(named))
}

/// Locks a directory until the file is dropped.
fn lock(directory: &Path, timeout: Duration) -> io::Result<File> {
    let file = File::open(directory)?;
    let deadline = Instant::now() + timeout;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(POLL_INTERVAL);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(of: &str) -> LabName {
        format!("{of}-{}", std::process::id()).parse().unwrap()
    }

    #[test]
    fn a_name_has_one_lab() {
        let name = name("once");
        let socket = LabSocket::listen(&name).unwrap();
        assert_eq!(find(&name).unwrap().as_deref(), Some(socket.path.as_path()));
        let again = LabSocket::listen(&name).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        let path = socket.path.clone();
        drop(socket);
        assert!(!path.exists() && find(&name).unwrap().is_none());
    }

    #[test]
    fn the_socket_of_a_lab_that_was_killed_is_removed_or_replaced() {
        let name = name("stale");
        let path = LabSocket::listen(&name).unwrap().path.clone();
        let leave = || drop(local_socket::listen(&path).unwrap());
        leave();
        assert!(path.exists());
        assert!(find(&name).unwrap().is_none());
        assert!(!path.exists(), "looking removes it");
        leave();
        drop(LabSocket::listen(&name).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_lock_that_another_process_keeps_stops_no_list() {
        let name = name("locked");
        let socket = LabSocket::listen(&name).unwrap();
        let directory = socket.path.parent().unwrap();
        let held = lock(directory, TIMEOUT).unwrap();
        assert!(find(&name).unwrap().is_some());
        let refused = lock(directory, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(held);
    }

    #[test]
    fn of_many_that_want_a_name_one_gets_it() {
        let name = name("race");
        let sockets: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| LabSocket::listen(&name))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(sockets.iter().filter(|socket| socket.is_ok()).count(), 1);
        assert!(find(&name).unwrap().is_some());
    }
}
