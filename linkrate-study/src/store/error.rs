//! Errors of a store: each has the path and the operation.

use std::io;
use std::path::{Path, PathBuf};

/// Why a store could not be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused an operation: disk full, no permission, ...
    #[error("{operation} {}", path.display())]
    Io {
        /// What was being done (`writing`).
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} is not a results directory: it has no plan.json", directory.display())]
    NotAStore { directory: PathBuf },
    #[error("{} is not empty, and results are never overwritten", directory.display())]
    NotEmpty { directory: PathBuf },
    /// Another process writes to the store.
    #[error("{} is in use by another linkrate process", directory.display())]
    Locked { directory: PathBuf },
    /// The runs were imported, so that no testbed can make more of them.
    #[error("{} contains imported results and cannot be resumed", directory.display())]
    Imported { directory: PathBuf },
    /// The store was made by a later linkrate.
    #[error(
        "{} has store format {found}, this linkrate reads formats up to {known}",
        path.display()
    )]
    Newer {
        path: PathBuf,
        found: u32,
        /// The latest format that can be read.
        known: u32,
        written_by: String,
    },
    /// A name that should be a file is something else.
    #[error("{} is {found}, expected a regular file", path.display())]
    NotRegular {
        path: PathBuf,
        /// What it is (`a named pipe`).
        found: &'static str,
    },
    /// A file is damaged. Nothing has been changed.
    #[error("{} is damaged: {reason}", path.display())]
    DamagedFile { path: PathBuf, reason: String },
    /// A line of the file of runs is damaged in a way no crash explains. Nothing has been changed.
    #[error("{}:{line}: damaged run: {reason}", path.display())]
    Damaged {
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        reason: String,
    },
    /// A value would not read back from the disk, so it was not written.
    #[error("{} cannot store this value: {reason}", path.display())]
    Unreadable {
        /// The file it was meant for.
        path: PathBuf,
        reason: String,
    },
    /// The file was removed or replaced while this process wrote to it.
    #[error("{} was removed or moved during the study", path.display())]
    Gone { path: PathBuf },
    /// An earlier write failed and could not be taken back, so the file ends in a torn line.
    #[error("{} ends in a torn line after a failed write", path.display())]
    Torn { path: PathBuf },
}

impl StoreError {
    /// The remedy, for a `hint:` line below the message and its causes.
    pub fn hint(&self) -> Option<String> {
        let fixed = match self {
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    "choose a directory that you can write to, with --dir DIR"
                }
                io::ErrorKind::NotADirectory => "name the results directory, not a file in it",
                _ => return None,
            },
            Self::NotAStore { .. } => "`linkrate run` creates a results directory",
            Self::NotEmpty { .. } => {
                "name another directory, or continue this study with `linkrate resume`"
            }
            Self::Imported { .. } => {
                "import all files again, with the new ones: linkrate import FILE..."
            }
            Self::Locked { .. } => "wait for that process or end it; its end releases the lock",
            Self::Newer { written_by, .. } => {
                return Some(format!("use linkrate {written_by} or later"));
            }
            Self::NotRegular { .. } => {
                "remove it, or copy the results without links; this command changed nothing"
            }
            Self::DamagedFile { .. } | Self::Damaged { .. } => {
                "restore the file from a copy; this command changed nothing"
            }
            Self::Unreadable { .. } => return None,
            Self::Gone { .. } => {
                "put the directory back and continue with `linkrate resume`, or run the study again"
            }
            Self::Torn { .. } => "end this session; `linkrate resume` repairs the file",
        };
        Some(fixed.to_owned())
    }
}

/// Adds path and operation to an [`io::Error`].
pub(crate) trait IoContext<T> {
    /// `operation` is a word in -ing.
    fn during(self, operation: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn during(self, operation: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Io { operation, path: path.to_owned(), source })
    }
}
