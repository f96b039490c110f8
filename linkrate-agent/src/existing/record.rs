//! The record of an existing interface: a file with the settings that were found, and a lock.
//!
//! The file is in the private run-time directory, under the network namespace and the name of the
//! interface. Its lock ends with the process that holds it (flock(2)), so one process at a time
//! uses an interface. The settings are written before the first change, and the file is removed
//! when all are restored. So a file without a lock tells a later process what to restore.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linkrate_sys::error::{SysError, SysResult};
use linkrate_sys::{network_namespace, run_directory};
use serde::{Deserialize, Serialize};

use super::settings::Settings;

/// How long to wait for a process whose controller has ended: it is restoring, or the kernel still
/// closes its files after a SIGKILL.
pub const TIMEOUT: Duration = Duration::from_secs(3);

/// The longest record, bytes: an interface with thousands of routes stays below.
const MAX_LENGTH: u64 = 16 << 20;

/// Who uses an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    /// Its name, without its arguments: these may be secrets, and a record is told to controllers.
    pub command: String,
    /// Process id of the controller, or of the server of ssh, that started it.
    pub parent_pid: u32,
    pub parent_command: String,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The running kernel: settings end with it.
    pub boot: String,
    /// The process that found the settings.
    pub holder: Holder,
    pub interface: String,
    /// Its settings before the first change.
    pub settings: Settings,
    /// The handle of the network namespace; `None` where the
    /// kernel has no such handles.
    pub namespace: Option<Vec<u8>>,
}

impl Found {
    /// Whether nothing is left to restore: the kernel, or the network namespace, has surely ended.
    fn is_past(&self) -> bool {
        let has_ended = || self.namespace.as_deref().is_some_and(network_namespace::has_ended);
        self.boot != boot() || has_ended()
    }
}

/// A record that this process has locked.
#[derive(Debug)]
pub struct Record {
    file: File,
    path: PathBuf,
}

/// Why there is no lock.
#[derive(Debug)]
pub enum Unlocked {
    /// Another process has it.
    InUse(Holder),
    /// The file cannot be used.
    Refused(SysError),
}

impl Holder {
    fn this_process() -> Self {
        let command = |pid: &str| {
            let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            String::from_utf8_lossy(&name).trim().to_owned()
        };
        let parent = std::os::unix::process::parent_id();
        Self {
            pid: std::process::id(),
            command: command("self"),
            parent_pid: parent,
            parent_command: command(&parent.to_string()),
        }
    }

    /// Whether the process that started it has ended, so that it will end too.
    fn is_orphan(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        parent.is_none_or(|parent| parent.trim() != self.parent_pid.to_string())
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pid, command, parent_pid, parent_command } = self;
        write!(f, "process {pid} ({command}), started by process {parent_pid} ({parent_command})")
    }
}

/// The directory of records, and the prefix of those of this network namespace.
pub fn directory() -> SysResult<(PathBuf, String)> {
    let directory = run_directory::private("interfaces")?;
    let cookie = network_namespace::cookie()
        .map_err(|error| SysError::new("identify the network namespace", "", error))?;
    Ok((directory, format!("{cookie}.")))
}

/// Removes the records of network namespaces that have ended, and of those before a restart, with
/// the namespaces of clients that stand beside them: nothing is left to restore. What cannot be
/// removed stays until the next time.
pub fn remove_past() {
    let Ok((directory, _)) = directory() else { return };
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let found = || File::open(&path).and_then(|file| read(&file));
        if name.to_string_lossy().ends_with(LENT) || !found().is_ok_and(|found| found.is_past()) {
            continue;
        }
        // whoever has locked it restores it
        let Ok(record) = Record::lock_file(&path, Duration::ZERO) else { continue };
        let lent = record.lent();
        if !lent.exists() || network_namespace::release(&lent).is_ok() {
            let _ = record.remove();
        }
    }
}

impl Record {
    /// Locks the record of `interface` of this network namespace.
    pub fn lock(interface: &str) -> Result<Self, Unlocked> {
        let (directory, prefix) = directory().map_err(Unlocked::Refused)?;
        Self::lock_file(&directory.join(format!("{prefix}{interface}")), TIMEOUT)
    }

    pub fn lock_file(path: &Path, timeout: Duration) -> Result<Self, Unlocked> {
        let refused = |error: io::Error| {
            Unlocked::Refused(SysError::new("lock", path.display().to_string(), error))
        };
        let deadline = Instant::now() + timeout;
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(path).map_err(refused)?;
            match file.try_lock() {
                Ok(()) => {
                    // its holder may have removed it after it was opened here
                    let is_there = fs::metadata(path).is_ok_and(|there| {
                        file.metadata().is_ok_and(|mine| mine.ino() == there.ino())
                    });
                    if is_there {
                        return Ok(Self { file, path: path.to_owned() });
                    }
                }
                Err(TryLockError::Error(error)) => return Err(refused(error)),
                Err(TryLockError::WouldBlock) => {
                    // a file without a holder is being written
                    let holder = read(&file).map(|found| found.holder).ok();
                    let waits = holder.as_ref().is_none_or(Holder::is_orphan);
                    if !waits || Instant::now() >= deadline {
                        return Err(Unlocked::InUse(holder.unwrap_or_default()));
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// The settings that an earlier process found and has not restored. `None` for a file without
    /// them: a process that was killed while it wrote had changed nothing.
    pub fn found(&self) -> Option<Found> {
        let boot = boot();
        read(&self.file).ok().filter(|found| found.boot == boot)
    }

    /// Writes what was found. When that fails, nothing may be changed.
    pub fn write(&mut self, interface: &str, settings: &Settings) -> SysResult<()> {
        let found = Found {
            boot: boot(),
            holder: Holder::this_process(),
            interface: interface.to_owned(),
            settings: settings.clone(),
            namespace: network_namespace::handle(),
        };
        let write = |file: &mut File| {
            let text = serde_json::to_vec(&found)?;
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&text)
        };
        write(&mut self.file)
            .map_err(|error| SysError::new("write", self.path.display().to_string(), error))
    }

    /// The file that keeps the network namespace of a client to which the interface is lent.
    pub fn lent(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(LENT);
        PathBuf::from(name)
    }

    /// Removes the record: everything is restored.
    pub fn remove(self) -> SysResult<()> {
        fs::remove_file(&self.path)
            .map_err(|error| SysError::new("remove", self.path.display().to_string(), error))
    }
}

/// The end of the name of a file that keeps a network namespace. No name of an interface has a
/// colon.
pub const LENT: &str = ":lent";

fn read(mut file: &File) -> io::Result<Found> {
    let mut text = Vec::new();
    file.rewind()?;
    file.take(MAX_LENGTH).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn boot() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("linkrate-record-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_locked_record_names_its_holder_and_is_read_again_after_its_end() {
        let path = place("lock");
        let settings = Settings::read("lo").unwrap();
        let mut record = Record::lock_file(&path, Duration::ZERO).unwrap();
        assert!(record.found().is_none());
        record.write("lo", &settings).unwrap();
        match Record::lock_file(&path, Duration::ZERO) {
            Err(Unlocked::InUse(holder)) => {
                assert_eq!(holder.pid, std::process::id());
                assert!(!holder.command.is_empty());
            }
            other => panic!("{other:?}"),
        }
        // as the end of a process
        drop(record);
        let record = Record::lock_file(&path, Duration::ZERO).unwrap();
        assert_eq!(record.found().unwrap().settings, settings);
        record.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_torn_record_has_nothing_to_restore() {
        let path = place("torn");
        fs::write(&path, "{\"boot\":\"").unwrap();
        let record = Record::lock_file(&path, Duration::ZERO).unwrap();
        assert!(record.found().is_none());
        record.remove().unwrap();
    }
}
