//! Private directories for files that the processes of one user leave for each other.
//!
//! A directory belongs to the effective user and has mode 0700, so no other user can look into it
//! or put a file there. Root has `/run/linkrate`. Every other user has `linkrate` in
//! `$XDG_RUNTIME_DIR` or in `/run/user/UID`, and `/tmp/linkrate-UID` where neither exists. In a user
//! namespace, UID is the user outside, so a program inside finds the same directory.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::{SysError, SysResult};

/// The directory of root.
const OF_ROOT: &str = "/run/linkrate";

/// What each user has below its run-time directory.
const NAME: &str = "linkrate";

/// The mode of a private directory: everything to the owner, nothing to others.
const MODE: u32 = 0o700;

const HINT: &str = "set XDG_RUNTIME_DIR to a directory of yours with mode 0700";

/// The private directory `name` of this user; it is created if missing.
///
/// # Errors
/// When a place is no directory or lets other users in; why the last place was no use otherwise, for
/// example because it belongs to another user. The path is in the message.
pub fn private(name: &str) -> SysResult<PathBuf> {
    let mut refused = None;
    for base in bases() {
        let path = base.join(name);
        match make_private(&base).and_then(|()| make_private(&path)) {
            Ok(()) => return Ok(path),
            Err(error) => match error.kind() {
                // root of a user namespace has no right to the place of root
                io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::NotFound => refused = Some(error.with_hint(HINT)),
                _ => return Err(error),
            },
        }
    }
    // there is always the place in /tmp
    Err(refused.unwrap_or_else(|| {
        SysError::new("create", "a run-time directory", io::Error::from(io::ErrorKind::NotFound))
    }))
}

/// The private directories `name` of this user that exist. There can be several when
/// `XDG_RUNTIME_DIR` was set for one process and not for another.
pub fn existing(name: &str) -> Vec<PathBuf> {
    let private = |path: &Path| check_private(path).is_ok();
    let there = |base: PathBuf| {
        let path = base.join(name);
        (private(&base) && private(&path)).then_some(path)
    };
    bases().into_iter().filter_map(there).collect()
}

/// The places for the directory, best first.
fn bases() -> Vec<PathBuf> {
    let mut bases = Vec::new();
    if rustix::process::geteuid().is_root() {
        bases.push(PathBuf::from(OF_ROOT));
    }
    let user = user_outside();
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let of_session = [given, Some(PathBuf::from(format!("/run/user/{user}")))];
    let usable = |path: &PathBuf| path.is_absolute() && is_own(path);
    bases.extend(of_session.into_iter().flatten().filter(usable).map(|path| path.join(NAME)));
    bases.push(PathBuf::from(format!("/tmp/{NAME}-{user}")));
    bases.dedup();
    bases
}

/// The effective user, as the parent of this user namespace knows it.
fn user_outside() -> u32 {
    let user = rustix::process::geteuid().as_raw();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    outside(&map, user).unwrap_or(user)
}

/// Looks a user up in lines of `INSIDE OUTSIDE COUNT`, user_namespaces(7).
fn outside(map: &str, user: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (inside, outside, count) =
            (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
        let offset = user.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    })
}

/// Whether `path` is a directory of the effective user that no other user can write to.
fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_dir()
            && found.uid() == rustix::process::geteuid().as_raw()
            && found.mode() & 0o022 == 0
    })
}

/// Checks that `path` is a directory of the effective user with mode 0700, and no link.
fn check_private(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    let mode = found.mode() & 0o7777;
    let (kind, wrong) = if !found.is_dir() {
        (io::ErrorKind::NotADirectory, "it is not a directory".to_owned())
    } else if owner != user {
        (io::ErrorKind::PermissionDenied, format!("it belongs to user {owner}, expected {user}"))
    } else if mode != MODE {
        (io::ErrorKind::Other, format!("its mode is {mode:o}, expected {MODE:o}"))
    } else {
        return Ok(());
    };
    Err(io::Error::new(kind, wrong))
}

/// Creates a private directory, or checks the one that is there.
fn make_private(path: &Path) -> SysResult<()> {
    let refused =
        |error| SysError::new("use run-time directory", path.display().to_string(), error);
    match DirBuilder::new().mode(MODE).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(refused(error)),
        _ => {}
    }
    check_private(path)
        .map_err(|error| refused(error).with_hint("remove it; linkrate creates it again"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A directory for a test, empty.
    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("linkrate-sys-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn a_directory_is_private_from_its_creation() {
        let scratch = scratch("private");
        let path = scratch.join("own");
        make_private(&path).unwrap();
        make_private(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, MODE);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let refused = make_private(&path).unwrap_err().to_string();
        assert!(refused.contains("its mode is 755, expected 700"), "{refused}");
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn links_files_and_directories_of_others_are_refused() {
        let scratch = scratch("others");
        let (real, link, file) = (scratch.join("real"), scratch.join("link"), scratch.join("file"));
        make_private(&real).unwrap();
        symlink(&real, &link).unwrap();
        fs::write(&file, "").unwrap();
        for path in [&link, &file] {
            let refused = make_private(path).unwrap_err().to_string();
            assert!(refused.contains("it is not a directory"), "{refused}");
        }
        // `/` belongs to root; root gives the directory to another user
        let others = match rustix::process::geteuid().is_root() {
            true => {
                std::os::unix::fs::chown(&real, Some(65534), None).unwrap();
                real
            }
            false => PathBuf::from("/"),
        };
        let refused = make_private(&others).unwrap_err();
        assert!(refused.to_string().contains("it belongs to user"), "{refused}");
        // the place of another user is passed over
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn a_user_namespace_leads_to_the_user_outside() {
        let whole = "         0          0 4294967295\n";
        assert_eq!(outside(whole, 1000), Some(1000));
        assert_eq!(outside("         0       1000          1\n", 0), Some(1000));
        let container = "0 1000 1\n1 100000 65536\n";
        assert_eq!((outside(container, 0), outside(container, 5)), (Some(1000), Some(100_004)));
        for nonsense in ["", "0\n", "a b c\n", "0 4294967295 4294967295\n"] {
            assert_eq!(outside(nonsense, 7), None, "{nonsense:?}");
        }
    }
}
