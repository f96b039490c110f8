//! Names of results directories.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::store::error::{IoContext, StoreError};

/// Makes a directory that did not exist before: `PARENT/tso-20261121-1512`, with `-2`, `-3`, ...
/// when there is one from the same minute. The time is UTC, given in milliseconds since
/// 1970-01-01, so that names sort by age wherever they were made.
///
/// # Errors
/// [`StoreError::Io`].
pub fn fresh(parent: &Path, study: &str, started_unix_ms: u64) -> Result<PathBuf, StoreError> {
    fs::create_dir_all(parent).during("creating", parent)?;
    let stem = name(study, started_unix_ms);
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

/// What the results of a study are called that began at this time: `tso-20261121-1512`.
pub fn name(study: &str, started_unix_ms: u64) -> String {
    format!("{study}-{}", minute_stamp(started_unix_ms))
}

/// `20261121-1512` in UTC.
pub fn minute_stamp(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (year, month, day) = civil_from_days(minutes / 1440);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}", minutes / 60 % 24, minutes % 60)
}

/// The Gregorian date of a day counted from 1970-01-01, as (year, month, day).
///
/// Hinnant's `civil_from_days`: years are counted from March, so that the leap day is the last
/// day of a year, in eras of 400 years or 146,097 days.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    // 719,468 days lie between 0000-03-01 and 1970-01-01
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (10_957, (2000, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (19_782, (2024, 2, 29)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil_from_days(days), date, "{days}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_day_before() {
        let mut before = civil_from_days(0);
        for day in 1..146_097 {
            let (year, month, date) = civil_from_days(day);
            let next = match before {
                _ if (year, month, date) == (before.0, before.1, before.2 + 1) => true,
                (y, 12, 31) => (year, month, date) == (y + 1, 1, 1),
                (y, m, d) => (year, month, date) == (y, m + 1, 1) && d >= 28,
            };
            assert!(next, "day {day}: {year}-{month}-{date} after {before:?}");
            before = (year, month, date);
        }
    }

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
