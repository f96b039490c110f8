//! Text files that arguments name.

use std::fs;
use std::path::Path;

use linkrate_study::adapter::MAX_MODEL_BYTES;

/// The text of a model's file; the error names the file.
pub fn load_model(path: &Path) -> Result<String, String> {
    read(path, MAX_MODEL_BYTES, "model").map_err(|reason| format!("{}: {reason}", path.display()))
}

/// A text file of at most so many bytes.
pub fn read(path: &Path, most: u64, what: &str) -> Result<String, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.len() > most {
        let bytes = metadata.len();
        return Err(format!("{bytes} bytes, expected a {what} of at most {most} bytes"));
    }
    fs::read_to_string(path).map_err(|error| error.to_string())
}
