//! `import`: output of other programs becomes a result set.

use std::collections::BTreeMap;
use std::path::Path;

use linkrate_interop::import;
use linkrate_model::Imported;
use linkrate_study::analysis::analyse;
use linkrate_study::import::{NAME, assemble};
use linkrate_study::runner::{Clock, SystemClock};
use linkrate_study::store::files::read_named;
use linkrate_study::store::{Store, directory, write_imported};

use super::output::{self, Wanted};
use super::run::RESULTS;
use crate::args::study::StudyImportArgs;
use crate::exit::{Exit, Failure};

/// What every refusal of a file says.
const NOTHING: &str = "nothing was imported";

/// Reads all files, then writes the result set. A file that does not fit leaves nothing behind.
pub fn run(arguments: &StudyImportArgs) -> Result<Exit, Failure> {
    if let Some(path) = &arguments.dir
        && path.read_dir().is_ok_and(|mut entries| entries.next().is_some())
    {
        let message = format!("--dir: {} is not empty", path.display());
        return Err(Failure::new(Exit::Usage, message).with_hint(Some("name a new directory")));
    }
    let mut runs = Vec::new();
    let mut known: BTreeMap<Vec<u64>, &Path> = BTreeMap::new();
    for path in &arguments.files {
        let found = read(path, &content(path)?)?;
        // the same run twice would look like runs without scatter; a copy may be compressed. Of tests that have a name,
        // each counts once
        let is_named = found.iter().all(|run| run.cookie.is_some());
        let fingerprints = found.iter().map(Imported::fingerprint).collect();
        if let Some(first) = known.insert(fingerprints, path).filter(|_| !is_named) {
            let message = format!(
                "{}: the same content as {}, expected each test once",
                path.display(),
                first.display()
            );
            let hint = format!("{NOTHING}; if these are two tests, put both outputs into one file");
            return Err(Failure::new(Exit::Usage, message).with_hint(Some(hint)));
        }
        runs.extend(found);
    }
    let now_unix_ms = SystemClock::start().unix_ms();
    let set =
        assemble(runs, now_unix_ms).map_err(|error| Failure::from_error(Exit::Usage, &error))?;
    let path = match &arguments.dir {
        Some(path) => path.clone(),
        None => directory::fresh(Path::new(RESULTS), NAME, now_unix_ms)?,
    };
    write_imported(&path, &set, now_unix_ms)?;
    let results = analyse(&Store::read(&path)?);
    output::write_results(&path, &results)?;
    output::present(&results, &Wanted { json: arguments.json, ..Wanted::default() })?;
    Ok(Exit::Success)
}

fn refused(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("{}: {error}", path.display()))
}

fn content(path: &Path) -> Result<Vec<u8>, Failure> {
    read_named(path, import::MAX_BYTES as u64).map_err(|error| refused(path, &error))
}

/// The runs of one file.
fn read(path: &Path, bytes: &[u8]) -> Result<Vec<Imported>, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    import::read(&name, bytes).map_err(|error| {
        let hint = format!("{NOTHING}; linkrate import --help lists the formats");
        refused(path, &error).with_hint(Some(hint))
    })
}
