//! Where a document goes: standard output, or a file that is written whole or not at all; the files
//! of results.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use linkrate_report::answer;
use linkrate_report::terminal::{self, Detail, REPORT_FILE};
use linkrate_study::results::StudyResults;
use linkrate_study::store::files::Files;
use linkrate_study::store::{ENDED_FILE, PLAN_FILE, RUNS_FILE, STUDY_FILE, StoreError, TORN_FILE};
use linkrate_sys::stderr;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::exit::{Exit, Failure};
use crate::output::{print, print_bytes, quoted, terminal_style};

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
/// file is written next to the old one and renamed. A link is replaced too, and never written
/// through: any program with write access to the directory could have put it there.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if is_place(path) {
        return write_into(path, bytes).map_err(|error| refused(path, &error));
    }
    let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
        return Err(refused(path, &io::ErrorKind::IsADirectory.into()));
    };
    let Some(name) = name.to_str() else {
        let message = format!("write {}: the name is not UTF-8", path.display());
        return Err(Failure::new(Exit::Usage, message).with_hint(Some("name another file")));
    };
    beside(path)?.write_whole(name, bytes).map_err(|error| not_written(path, &error))
}

/// The directory that a file is in.
pub fn beside(file: &Path) -> Result<Files, Failure> {
    let parent = file.parent().unwrap_or(Path::new(""));
    Files::of(parent).map_err(|error| not_written(file, &error))
}

/// Whether the path is a place that takes bytes and is no file that could be replaced: a pipe or a
/// device, or a link to one where the system keeps such links (`/dev/stdout`).
fn is_place(path: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let of_the_system =
        parent.is_some_and(|parent| parent.starts_with("/dev") || parent.starts_with("/proc"));
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
        && (!is_link || of_the_system)
}

/// Writes to a pipe or a device.
fn write_into(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // a pipe without a reader would block for ever
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NXIO => io::Error::other("no program reads it"),
        error => error.into(),
    })?;
    rustix::io::ioctl_fionbio(&opened, false)?;
    match File::from(opened).write_all(bytes) {
        // as for standard output: a reader that has gone away is no failure of ours
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// What is told of a file that a directory did not take.
pub fn not_written(path: &Path, error: &StoreError) -> Failure {
    match error {
        StoreError::Io { source, .. } => refused(path, source),
        StoreError::NotRegular { path, found } => {
            Failure::new(Exit::Failure, format!("write {}: it is {found}", path.display()))
                .with_hint(Some("remove it, or name another file"))
        }
        other => Failure::from_error(Exit::Failure, other),
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

/// What is printed of results.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The one document that `--json` promises.
    pub json: bool,
    /// A test of the kernel, with lines about its environment.
    pub ktap: Option<Vec<String>>,
    /// Parts of all that is known, in place of the answer.
    pub details: Vec<Detail>,
    /// A command worth running next, and what it adds.
    pub next: Option<(String, &'static str)>,
    /// The command worth running next where the machine was busy, and when.
    pub again: Option<(String, &'static str)>,
}

/// Prints results as an answer, in detail, or as a document.
pub fn present(results: &StudyResults, wanted: &Wanted) -> Result<(), Failure> {
    if wanted.json {
        print(&linkrate_report::json::document(results))?;
        // the document does not say where it was written
        stderr::line(format_args!("results  {}", results.directory));
        return Ok(());
    }
    let (width, style) = terminal_style();
    if wanted.details.is_empty() && terminal::has_answer(results) {
        let next = if answer::is_disturbed(results) { &wanted.again } else { &wanted.next };
        let next = next.as_ref().map(|(command, why)| (command.as_str(), *why));
        return print(&terminal::answer(results, next, width, style));
    }
    let details = match wanted.details.is_empty() {
        true => &Detail::ALL[..],
        false => &wanted.details,
    };
    print(&terminal::details(results, details, width, style))?;
    stderr::line(format_args!("report   {}/{}", results.directory, terminal::REPORT_FILE));
    Ok(())
}

/// Writes `results.json`, `runs.csv` and `report.html` into the results directory. All of them
/// can be made again from the stored runs, so a failure here loses nothing.
pub fn write_results(directory: &Path, results: &StudyResults) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| Failure::from_error(Exit::Failure, error);
    let not_written = |error: StoreError| {
        let kind = match &error {
            StoreError::Io { source, .. } => source.kind(),
            _ => ErrorKind::Other,
        };
        let remedy = match kind {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space",
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
                "make the directory writable"
            }
            _ => "remove the object with the name of the file",
        };
        Failure::from_error(Exit::Failure, &error).with_hint(Some(format!(
            "the runs are kept; {remedy}, then: linkrate report {}",
            quoted(directory)
        )))
    };
    let files = Files::of(directory).map_err(not_written)?;
    let csv = linkrate_report::csv::runs(results).map_err(|error| failed(&error))?;
    let page = linkrate_report::html::page(results).map_err(|error| failed(&error))?;
    let json = linkrate_report::json::document(results);
    for (name, content) in
        [("results.json", json.as_bytes()), ("runs.csv", &csv), (REPORT_FILE, page.as_bytes())]
    {
        files.write_whole(name, content).map_err(not_written)?;
    }
    Ok(())
}
