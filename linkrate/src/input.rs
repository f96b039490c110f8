//! Text files that arguments name.

use std::path::Path;

use linkrate_study::adapter::MAX_MODEL_BYTES;
use linkrate_study::store::files::{Refusal, read_named};

/// The text of a model's file; the error names the file.
pub fn load_model(path: &Path) -> Result<String, String> {
    read(path, MAX_MODEL_BYTES, "model").map_err(|reason| format!("{}: {reason}", path.display()))
}

/// A text file of at most so many bytes. It must be a regular file: a device may never end, and a
/// pipe may never begin.
pub fn read(path: &Path, most: u64, what: &str) -> Result<String, String> {
    let bytes = read_named(path, most).map_err(|refusal| match refusal {
        Refusal::TooLong { bytes, .. } => {
            format!("{bytes} bytes, expected a {what} of at most {most} bytes")
        }
        refusal => refusal.to_string(),
    })?;
    String::from_utf8(bytes).map_err(|_| format!("it is not UTF-8, expected a {what} as text"))
}
