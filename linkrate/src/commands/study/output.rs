//! Where a document goes: standard output, or a file that is written whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use linkrate_study::store::{ENDED_FILE, PLAN_FILE, RUNS_FILE, STUDY_FILE, TORN_FILE};

use super::files;
use crate::exit::{Exit, Failure};
use crate::output::{print, print_bytes, terminal_style};

/// What `--output` takes for standard output.
const STDOUT: &str = "-";

/// The file that was asked for; `None` stands for standard output.
pub fn file(given: Option<&Path>) -> Option<&Path> {
    given.filter(|path| *path != Path::new(STDOUT))
}

/// Writes a document to where it was asked for.
pub fn write(to: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    match file(to) {
        None => print_bytes(bytes),
        Some(path) => write_file(path, bytes),
    }
}

/// Replaces a file. A reader finds the old content or the new one, also after a full disk: the new
/// file is written next to the old one and renamed.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    // a link is written through, and a device or a pipe is no file that could be replaced
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let replaceable = match fs::metadata(&target) {
        Ok(metadata) => metadata.is_file(),
        Err(_) => true,
    };
    let written = if replaceable {
        let mut beside = target.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, &target));
        if written.is_err() {
            // it may never have come to be, and the first error is the one to tell
            let _ = fs::remove_file(&beside);
        }
        written
    } else {
        fs::write(&target, bytes)
    };
    match written {
        // as for standard output: a reader that has gone away is no failure of ours
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(refused(path, &error)),
        Ok(()) => Ok(()),
    }
}

/// Refuses to write over what a results directory cannot be without.
pub fn check_no_store_file(path: &Path, results: &Path) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default();
    let own = [PLAN_FILE, RUNS_FILE, STUDY_FILE, ENDED_FILE, TORN_FILE];
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::canonicalize(parent.unwrap_or(Path::new(".")));
    let inside = matches!((parent, fs::canonicalize(results)), (Ok(a), Ok(b)) if a == b);
    if inside && own.iter().any(|own| name == *own) {
        let message = format!("--output: {} is a file of the store", path.display());
        return Err(Failure::new(Exit::Usage, message).with_hint(Some("name another file")));
    }
    Ok(())
}

/// The failure for a file that could not be written.
pub fn refused(path: &Path, error: &io::Error) -> Failure {
    let message = format!("write {}: {error}", path.display());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match (error.kind(), parent) {
        (io::ErrorKind::NotFound, Some(parent)) if !parent.exists() => {
            let hint = format!("mkdir -p {}", parent.display());
            Failure::new(Exit::Usage, message).with_hint(Some(hint))
        }
        (io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory, _) => {
            Failure::new(Exit::Usage, message).with_hint(Some("name a file"))
        }
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => {
            let hint = "free some space; the file is unchanged";
            Failure::new(Exit::Failure, message).with_hint(Some(hint))
        }
        _ => Failure::new(Exit::Failure, message),
    }
}

/// Prints results as a table, or as the one document that `--json` promises.
pub fn present(results: &linkrate_study::results::StudyResults, json: bool) -> Result<(), Failure> {
    if json {
        print(&linkrate_report::json::document(results))?;
        // the document does not say where it was written
        eprintln!("results  {}", results.directory);
        return Ok(());
    }
    let (width, style) = terminal_style();
    print(&linkrate_report::terminal::table(results, width, style))?;
    eprintln!("report   {}/{}", results.directory, files::REPORT);
    Ok(())
}
