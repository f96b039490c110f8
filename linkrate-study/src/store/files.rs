//! The files of a directory that other people may write to.
//!
//! The directory is opened once, and every name is looked up in it alone (openat(2)). No name is
//! followed if it is a symbolic link. A file that is read must be a regular file, and no longer than
//! the reader's bound: a named pipe would block, and a device may never end. A file that is written
//! is written beside and renamed, so that a reader, also one after a crash, finds all of it or the
//! file that was there before.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::store::error::{IoContext, StoreError};

/// Beside these flags a file is opened without waiting for the writer of a pipe, and without
/// becoming the terminal of the process.
const CAREFULLY: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Mode of new files, less the umask.
const MODE: Mode = Mode::from_raw_mode(0o666);

/// How often a leftover of an earlier writer is removed before the writer gives up.
const ATTEMPTS: u32 = 3;

/// A directory that is open.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    directory: OwnedFd,
}

impl Files {
    /// Opens a directory. A user named its path, so links in the path are followed.
    pub fn of(path: &Path) -> Result<Self, StoreError> {
        // the path of the current directory may be empty
        let opened = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, opened, flags, Mode::empty())
            .map_err(io::Error::from)
            .during("opening", path)?;
        Ok(Self { path: path.to_owned(), directory })
    }

    /// Opens a directory of this directory, and makes it if it is not there. A link to a directory is refused.
    pub fn subdirectory(&self, name: &str) -> Result<Self, StoreError> {
        let path = self.path_of(name);
        match rustix::fs::mkdirat(&self.directory, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(io::Error::from(error)).during("creating", &path),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(&self.directory, name, flags, Mode::empty())
            .map_err(|error| self.refused("opening", name, error))?;
        Ok(Self { path, directory })
    }

    /// The path of a file, for messages.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn is_empty(&self) -> Result<bool, StoreError> {
        let entries = Dir::read_from(&self.directory).map_err(io::Error::from);
        for entry in entries.during("listing", &self.path)? {
            let entry = entry.map_err(io::Error::from).during("listing", &self.path)?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Opens a regular file for reading; `None` if there is none of that name.
    pub fn open(&self, name: &str) -> Result<Option<File>, StoreError> {
        self.open_with(name, OFlags::RDONLY)
    }

    /// The same for reading and appending.
    pub(crate) fn open_to_append(&self, name: &str) -> Result<Option<File>, StoreError> {
        self.open_with(name, OFlags::RDWR | OFlags::APPEND)
    }

    fn open_with(&self, name: &str, flags: OFlags) -> Result<Option<File>, StoreError> {
        match openat(&self.directory, name, flags | CAREFULLY | OFlags::NOFOLLOW, MODE) {
            Ok(opened) => {
                let file = File::from(opened);
                regular(&file).map_err(|refusal| refusal.of(&self.path_of(name)))?;
                Ok(Some(file))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.refused("opening", name, error)),
        }
    }

    /// The bytes of a regular file of at most `most` bytes; `None` if there is none of that name. A longer one is
    /// [`StoreError::DamagedFile`].
    pub fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        read(&file, most).map(Some).map_err(|refusal| refusal.of(&self.path_of(name)))
    }

    /// Makes a file that was not there before.
    pub(crate) fn create(&self, name: &str) -> Result<File, StoreError> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        // CREATE with EXCL follows no link
        let made = openat(&self.directory, name, flags | OFlags::CLOEXEC, MODE);
        made.map(File::from).map_err(io::Error::from).during("creating", &self.path_of(name))
    }

    /// Writes a file whole or not at all: beside, synced, renamed, and the directory synced. What had
    /// the name before is replaced, a link included.
    pub fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let beside = format!("{name}.new");
        let path = self.path_of(&beside);
        let written = self.create_beside(&beside).and_then(|mut file| {
            file.write_all(bytes).during("writing", &path)?;
            file.sync_all().during("syncing", &path)
        });
        let renamed = written.and_then(|()| {
            let renamed = renameat(&self.directory, &beside, &self.directory, name);
            renamed.map_err(io::Error::from).during("renaming to", &self.path_of(name))
        });
        if renamed.is_err() {
            // the first error is the one to tell
            let _ = unlinkat(&self.directory, &beside, AtFlags::empty());
        }
        renamed?;
        self.sync()
    }

    /// Makes the file that is renamed later; one that a crash left is removed, and so is a link.
    fn create_beside(&self, name: &str) -> Result<File, StoreError> {
        for _ in 1..ATTEMPTS {
            match self.create(name) {
                Err(StoreError::Io { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists =>
                {
                    self.remove(name)?;
                }
                made => return made,
            }
        }
        self.create(name)
    }

    /// Appends a line to a file, which is made if it is not there.
    pub(crate) fn append_line(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path_of(name);
        let mut file = match self.open_to_append(name)? {
            Some(file) => file,
            None => self.create(name)?,
        };
        file.write_all(bytes).during("writing", &path)?;
        file.write_all(b"\n").during("writing", &path)?;
        file.sync_all().during("syncing", &path)
    }

    /// Removes a file that may be there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => {
                done.map_err(io::Error::from).during("removing", &self.path_of(name))?;
                self.sync()
            }
        }
    }

    /// Brings the names in the directory to the disk.
    fn sync(&self) -> Result<(), StoreError> {
        rustix::fs::fsync(&self.directory).map_err(io::Error::from).during("syncing", &self.path)
    }

    /// Why a name could not be opened.
    fn refused(&self, operation: &'static str, name: &str, error: Errno) -> StoreError {
        let path = self.path_of(name);
        let link = rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
        match error {
            Errno::LOOP | Errno::NOTDIR if link => Refusal::NotRegular(FileType::Symlink).of(&path),
            Errno::NXIO => Refusal::NotRegular(FileType::Socket).of(&path),
            Errno::ISDIR => Refusal::NotRegular(FileType::Directory).of(&path),
            error => StoreError::Io {
                operation,
                path,
                source: io::Error::from_raw_os_error(error.raw_os_error()),
            },
        }
    }
}

/// Reads a file that a user named, of at most `most` bytes. A link is followed.
pub fn read_named(path: &Path, most: u64) -> Result<Vec<u8>, Refusal> {
    let opened = openat(CWD, path, OFlags::RDONLY | CAREFULLY, Mode::empty());
    let file = match opened {
        Ok(opened) => File::from(opened),
        Err(Errno::NXIO) => return Err(Refusal::NotRegular(FileType::Socket)),
        Err(error) => return Err(Refusal::Io(error.into())),
    };
    regular(&file)?;
    read(&file, most)
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{}, expected a regular file", kind(*.0))]
    NotRegular(FileType),
    #[error("{bytes} bytes, expected at most {most} bytes")]
    TooLong {
        /// Its length, or as much of it as was read.
        bytes: u64,
        most: u64,
    },
    #[error("{0}")]
    Io(io::Error),
}

impl Refusal {
    fn of(self, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::NotRegular(found) => StoreError::NotRegular { path, found: kind(found) },
            Self::TooLong { most, .. } => {
                StoreError::DamagedFile { path, reason: format!("it is longer than {most} bytes") }
            }
            Self::Io(source) => StoreError::Io { operation: "reading", path, source },
        }
    }
}

/// The kind of a file, in words.
fn kind(of: FileType) -> &'static str {
    match of {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "a file of unknown kind",
    }
}

fn regular(file: &File) -> Result<(), Refusal> {
    let found = fstat(file).map_err(|error| Refusal::Io(error.into()))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(()),
        other => Err(Refusal::NotRegular(other)),
    }
}

/// The bytes from here to the end, if they are at most `most`. The length that the system gives is
/// no bound: the file may grow.
fn read(file: &File, most: u64) -> Result<Vec<u8>, Refusal> {
    let fits = |length: u64| match length > most {
        true => Err(Refusal::TooLong { bytes: length, most }),
        false => Ok(()),
    };
    fits(file.metadata().map_err(Refusal::Io)?.len())?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(Refusal::Io)?;
    fits(bytes.len() as u64)?;
    Ok(bytes)
}

/// Makes a directory with its parents, and opens it. The name of each that is new is on the disk then.
pub(crate) fn make(path: &Path) -> Result<Files, StoreError> {
    let new: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(path).during("creating", path)?;
    for parent in new.into_iter().filter_map(Path::parent) {
        Files::of(parent)?.sync()?;
    }
    Files::of(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::mknodat;

    use super::*;

    #[test]
    fn a_file_written_whole_replaces_and_leaves_nothing_beside() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::of(home.path()).unwrap();
        assert!(files.is_empty().unwrap());
        files.write_whole("plan.json", b"one").unwrap();
        // a crash left this
        fs::write(home.path().join("plan.json.new"), "half").unwrap();
        files.write_whole("plan.json", b"two").unwrap();
        assert_eq!(files.read("plan.json", 3).unwrap().unwrap(), b"two");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        assert!(!files.is_empty().unwrap());
        assert!(files.read("ended.json", 3).unwrap().is_none());
    }

    #[test]
    fn no_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let inside = home.path().join("inside");
        let files = make(&inside).unwrap();
        for name in ["plan.json", "plan.json.new"] {
            symlink(&victim, inside.join(name)).unwrap();
            files.write_whole("plan.json", b"new").unwrap();
            assert_eq!(fs::read(&victim).unwrap(), b"precious");
            fs::remove_file(inside.join("plan.json")).unwrap();
        }
        symlink(&victim, inside.join("torn")).unwrap();
        symlink(home.path(), inside.join("figures")).unwrap();
        for error in [
            files.read("torn", 100).unwrap_err(),
            files.append_line("torn", b"x").unwrap_err(),
            files.create("torn").unwrap_err(),
            files.subdirectory("figures").unwrap_err(),
        ] {
            assert!(!matches!(error, StoreError::DamagedFile { .. }), "{error}");
        }
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::of(home.path()).unwrap();
        let at = |name: &str| home.path().join(name);
        mknodat(CWD, at("pipe"), FileType::Fifo, MODE, 0).unwrap();
        drop(UnixListener::bind(at("socket")).unwrap());
        fs::create_dir(at("directory")).unwrap();
        symlink("/dev/zero", at("link")).unwrap();
        for (name, kind) in [
            ("pipe", "a named pipe"),
            ("socket", "a socket"),
            ("directory", "a directory"),
            ("link", "a symbolic link"),
        ] {
            let error = files.read(name, 100).unwrap_err().to_string();
            assert!(error.ends_with(&format!("is {kind}, expected a regular file")), "{error}");
            let error = read_named(&at(name), 100).unwrap_err().to_string();
            let kind = if name == "link" { "a device" } else { kind };
            assert_eq!(error, format!("{kind}, expected a regular file"));
        }
    }

    #[test]
    fn a_file_is_read_to_its_bound_and_no_further() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::of(home.path()).unwrap();
        fs::write(home.path().join("one"), "12345").unwrap();
        assert_eq!(files.read("one", 5).unwrap().unwrap(), b"12345");
        let error = files.read("one", 4).unwrap_err();
        assert!(matches!(error, StoreError::DamagedFile { .. }), "{error}");
        assert!(matches!(
            read_named(&home.path().join("one"), 4),
            Err(Refusal::TooLong { bytes: 5, most: 4 })
        ));
    }

    #[test]
    fn errors_name_path_and_operation() {
        let error = Files::of(Path::new("/proc/no-such-place")).unwrap_err();
        assert_eq!(error.to_string(), "opening /proc/no-such-place");
        let error =
            Files::of(Path::new("/proc")).unwrap().write_whole("plan.json", b"x").unwrap_err();
        assert_eq!(error.to_string(), "creating /proc/plan.json.new");
    }
}
