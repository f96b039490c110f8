//! Where a study comes from: a built-in name, or a file.

use std::fs;
use std::path::Path;

use linkrate_study::study::Study;
use linkrate_study::{builtin, file};

use crate::exit::{Exit, Failure};

/// The study of that name or in that file.
pub fn load(given: &str) -> Result<Study, Failure> {
    let path = Path::new(given);
    // a name has neither a slash nor an ending; anything else is meant as a file
    if path.extension().is_none() && !given.contains('/') {
        let found = builtin::find(given).map_err(|error| {
            Failure::new(Exit::Usage, error.to_string()).with_hint(Some("linkrate study list"))
        })?;
        return parse(found.name, &found.path(), found.text);
    }
    let refused = |reason: String| Failure::new(Exit::Usage, format!("{given}: {reason}"));
    let metadata = fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    if metadata.len() > file::MAX_FILE_BYTES as u64 {
        return Err(refused(format!(
            "{} bytes, expected a study file of at most {} bytes",
            metadata.len(),
            file::MAX_FILE_BYTES
        )));
    }
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    parse(&name, given, &text)
}

fn parse(name: &str, path: &str, text: &str) -> Result<Study, Failure> {
    file::parse(name, path, text)
        .map_err(|errors| Failure::new(Exit::Usage, errors.to_string().trim_end().to_owned()))
}
