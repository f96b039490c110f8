//! Where a study comes from: a built-in name, or a file.

use std::path::Path;

use linkrate_study::fleet::Given;
use linkrate_study::study::Study;
use linkrate_study::{builtin, file, quick};
use linkrate_terms::Interfaces;

use crate::args::existing::ExistingArgs;
use crate::args::fleet::FleetArgs;
use crate::exit::{Exit, Failure};
use crate::input::{load_model, read};

/// Where a study is to run.
#[derive(Debug, Clone, Copy)]
enum TestbedSource<'a> {
    OfFile,
    Interfaces(&'a Interfaces),
    Nodes(&'a Given),
}

/// The study of that name or in that file, on the interfaces or the nodes that options name.
pub fn chosen(given: &str, existing: &ExistingArgs, fleet: &FleetArgs) -> Result<Study, Failure> {
    match (existing.interfaces()?, fleet.given()?) {
        (Some(on), _) => load_on(given, TestbedSource::Interfaces(&on)),
        (None, Some(nodes)) => load_on(given, TestbedSource::Nodes(&nodes)),
        (None, None) => load(given),
    }
}

/// The study of that name or in that file.
pub fn load(given: &str) -> Result<Study, Failure> {
    load_on(given, TestbedSource::OfFile)
}

fn load_on(given: &str, on: TestbedSource<'_>) -> Result<Study, Failure> {
    let path = Path::new(given);
    // a name has neither a slash nor an ending; anything else is meant as a file
    if path.extension().is_none() && !given.contains('/') {
        let found = builtin::find(given).map_err(|error| {
            Failure::new(Exit::Usage, error.to_string()).with_hint(Some("linkrate list"))
        })?;
        return parse(found.name, &found.path(), found.text, Path::new(""), on);
    }
    let text = read(path, file::MAX_FILE_BYTES as u64, "study file")
        .map_err(|reason| Failure::new(Exit::Usage, format!("{given}: {reason}")))?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    parse(&name, given, &text, path.parent().unwrap_or(Path::new("")), on)
}

/// The quick form of a study.
pub fn quick_form(study: Study) -> Result<Study, Failure> {
    let hint = "name cells in a section [quick] of the study file: at = { ... }";
    quick::form(study).map_err(|error| {
        Failure::new(Exit::Usage, format!("--quick: {error}")).with_hint(Some(hint))
    })
}

fn parse(
    name: &str,
    path: &str,
    text: &str,
    beside: &Path,
    on: TestbedSource<'_>,
) -> Result<Study, Failure> {
    let mut load = |other: &str| load_model(&beside.join(other));
    let parsed = match on {
        TestbedSource::OfFile => file::parse_with(name, path, text, &mut load),
        TestbedSource::Interfaces(on) => file::parse_on(name, path, text, &mut load, Some(on)),
        TestbedSource::Nodes(nodes) => file::parse_nodes(name, path, text, &mut load, nodes),
    };
    parsed.map_err(|errors| Failure::new(Exit::Usage, errors.to_string().trim_end().to_owned()))
}
