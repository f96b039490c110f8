//! For tests: sockets whose other end belongs to another user of this machine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::thread::set_thread_res_uid;

/// The user that owns nothing, as Debian numbers it.
pub(super) const NOBODY: u32 = 65534;

/// A directory that all users may enter.
pub(super) struct Public(PathBuf);

impl Public {
    pub(super) fn new(name: &str) -> Self {
        let name = format!("linkrate-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    /// Listens, for all users.
    pub(super) fn listen(&self) -> UnixListener {
        let listener = UnixListener::bind(self.socket()).unwrap();
        fs::set_permissions(self.socket(), Permissions::from_mode(0o777)).unwrap();
        listener
    }
}

impl Drop for Public {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Does it as [`NOBODY`], on a thread of its own; `None` for a user who cannot become another.
pub(super) fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    let user = rustix::process::Uid::from_raw(NOBODY);
    let act = || set_thread_res_uid(user, user, user).is_ok().then(act);
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// Connects as the user of the calling thread.
pub(super) fn connect(to: &Path) -> UnixStream {
    UnixStream::connect(to).unwrap()
}
