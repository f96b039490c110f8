//! The files of a study's results beside its runs.

use std::io::ErrorKind;
use std::path::Path;

use linkrate_study::results::StudyResults;
use linkrate_study::store::StoreError;
use linkrate_study::store::files::Files;

use crate::exit::{Exit, Failure};
use crate::output::quoted;

use linkrate_report::terminal::REPORT_FILE;

/// Writes `results.json`, `runs.csv` and `report.html` into the results directory. All of them
/// can be made again from the stored runs, so a failure here loses nothing.
pub fn write(directory: &Path, results: &StudyResults) -> Result<(), Failure> {
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
