//! Whether the disk has room for all that a task builds.
//!
//! A full disk breaks whatever step comes upon it, with the message of a linker or of a browser.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::cargo::target_directory;
use crate::summary::Outcome;

/// What `cargo xtask test` leaves in the target directory, and under `/tmp` while it runs, octets.
const NEEDED: u64 = 10_000_000_000;

/// Compares the room that the target directory has with what is not built yet.
pub fn check() -> io::Result<Outcome> {
    let directory = target_directory();
    fs::create_dir_all(&directory)?;
    let (free, there) = (free(&directory)?, used(&directory)?);
    Ok(judge(&directory, free, there))
}

fn judge(directory: &Path, free: u64, there: u64) -> Outcome {
    let gb = |octets: u64| octets as f64 / 1e9;
    let missing = NEEDED.saturating_sub(there);
    if free >= missing {
        return Outcome::passed().remark(format!("{:.0} GB free", gb(free)));
    }
    Outcome::failed(format!(
        "{} has {:.1} GB free, and the build needs {:.1} GB more; free some, or set CARGO_TARGET_DIR to a \
         directory with room\n",
        directory.display(),
        gb(free),
        gb(missing)
    ))
}

/// Octets that the file system of `directory` has left for this user.
fn free(directory: &Path) -> io::Result<u64> {
    let output =
        Command::new("df").args(["--output=avail", "--block-size=1"]).arg(directory).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.lines().next_back().and_then(|line| line.trim().parse().ok());
    number.ok_or_else(|| {
        io::Error::other(format!("df tells no free space of {}", directory.display()))
    })
}

/// Octets of all files under `directory`, those with several names once for each name.
fn used(directory: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let file = entry.metadata()?;
        sum += if file.is_dir() { used(&entry.path())? } else { file.len() };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_fails_with_the_remedy() {
        let judged = |free, there| judge(Path::new("/build"), free, there);
        let failed = judged(2_700_000_000, 0);
        assert_eq!(failed.failed, 1);
        let expected = "/build has 2.7 GB free, and the build needs 10.0 GB more; free some, or set \
                        CARGO_TARGET_DIR to a directory with room\n";
        assert_eq!(failed.output, expected);
        assert_eq!(judged(2_700_000_000, 9_000_000_000).failed, 0);
        assert_eq!(judged(NEEDED, 0).remark, "10 GB free");
    }

    #[test]
    fn files_in_folders_count() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        fs::write(directory.path().join("a/b/c"), [0; 1000]).unwrap();
        fs::write(directory.path().join("d"), [0; 24]).unwrap();
        assert_eq!(used(directory.path()).unwrap(), 1024);
        assert!(free(directory.path()).unwrap() > 0);
    }
}
