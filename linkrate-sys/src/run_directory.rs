//! The private run-time directory of linkrate: `/run/linkrate` of root, `linkrate` in the run-time
//! directory of another user. Only its owner may enter it, so no other user can squat on a name.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::error::{SysError, SysResult};

/// The only permitted mode: everything to the owner, nothing to others.
const MODE: u32 = 0o700;

/// The directory `name` in the private run-time directory of this user; it is created if missing.
///
/// # Errors
/// When it cannot be created, is no directory, belongs to another user, or lets others in.
pub fn private(name: &str) -> SysResult<PathBuf> {
    let base = base();
    private_directory(&base)?;
    let directory = base.join(name);
    private_directory(&directory)?;
    Ok(directory)
}

fn base() -> PathBuf {
    let user = geteuid();
    if user.is_root() {
        return PathBuf::from("/run/linkrate");
    }
    // systemd's pam_systemd(8) sets it to a directory of the user's own, also at a login by ssh
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(directory) if directory.is_absolute() => directory.join("linkrate"),
        _ => PathBuf::from(format!("/tmp/linkrate-{}", user.as_raw())),
    }
}

/// Creates a directory that only this user may enter, or checks the one that is there.
fn private_directory(path: &Path) -> SysResult<()> {
    let refused =
        |error| SysError::new("use run-time directory", path.display().to_string(), error);
    match std::fs::DirBuilder::new().mode(MODE).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(refused(error)),
    }
    // a link must not lead elsewhere
    let found = std::fs::symlink_metadata(path).map_err(refused)?;
    let user = geteuid().as_raw();
    let wrong = if !found.is_dir() {
        "it is not a directory".to_owned()
    } else if found.uid() != user {
        format!("it belongs to user {}, expected {user}", found.uid())
    } else if found.mode() & 0o777 != MODE {
        format!("its mode is {:o}, expected {MODE:o}", found.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(refused(io::Error::other(wrong)).with_hint("remove it; linkrate creates it again"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A directory that is removed with the value.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            fs::create_dir(&place).unwrap();
            Self(place)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_directory_that_others_may_enter_or_a_link_is_refused() {
        let place = Place::new("run-directory");
        let path = place.0.join("own");
        private_directory(&path).unwrap();
        private_directory(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, MODE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let error = private_directory(&path).unwrap_err().to_string();
        assert!(error.contains("its mode is 755, expected 700"), "{error}");
        let link = place.0.join("link");
        symlink(&place.0, &link).unwrap();
        let error = private_directory(&link).unwrap_err().to_string();
        assert!(error.contains("not a directory"), "{error}");
    }
}
