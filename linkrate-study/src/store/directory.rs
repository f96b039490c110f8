//! Names of results directories.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use linkrate_model::date::civil_from_days;

use crate::store::error::{IoContext, StoreError};

/// Makes a directory that did not exist before: `PARENT/tso-20261121-1512`, with `-2`, `-3`, ...
/// when there is one from the same minute. The time is UTC, given in milliseconds since
/// 1970-01-01, so that names sort by age wherever they were made.
pub fn fresh(parent: &Path, study: &str, started_unix_ms: u64) -> Result<PathBuf, StoreError> {
    fs::create_dir_all(parent).during("creating", parent)?;
    let stem = format!("{study}-{}", minute_stamp(started_unix_ms));
    let mut path = parent.join(&stem);
    for suffix in 2u32.. {
        // not asked first and made then: two processes would both find the name free
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = parent.join(format!("{stem}-{suffix}"));
            }
            made => {
                made.during("creating", &path)?;
                break;
            }
        }
    }
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    File::open(parent).during("opening", parent)?.sync_all().during("syncing", parent)?;
    Ok(path)
}

/// What the results of a study are called that began at this time, wherever they lie: `tso-20261121-151259`.
pub fn name(study: &str, started_unix_ms: u64) -> String {
    format!("{study}-{}{:02}", minute_stamp(started_unix_ms), started_unix_ms / 1000 % 60)
}

/// `20261121-1512` in UTC.
pub fn minute_stamp(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (year, month, day) = civil_from_days(minutes / 1440);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}", minutes / 60 % 24, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_minute_and_are_unique() {
        // 2026-11-21 15:12:59.999 UTC
        let moment = 1_795_273_979_999;
        assert_eq!(minute_stamp(moment), "20261121-1512");
        let parent = tempfile::tempdir().unwrap();
        let results = parent.path().join("results");
        let names: Vec<String> = (0..3)
            .map(|_| fresh(&results, "tso", moment).unwrap())
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["tso-20261121-1512", "tso-20261121-1512-2", "tso-20261121-1512-3"]);
    }
}
