//! Where a study comes from: a built-in name, or a file.

use std::path::{Path, PathBuf};

use linkrate_model::Interfaces;
use linkrate_model::nearest::nearest;
use linkrate_study::fleet::Given;
use linkrate_study::study::Study;
use linkrate_study::{bounds, builtin, file, quick};

use crate::args::existing::ExistingArgs;
use crate::args::fleet::FleetArgs;
use crate::args::study::ChangeArgs;
use crate::args::{load_model, read_text};
use crate::exit::{Exit, Failure};
use crate::output::quoted;

/// Where a study is to run.
#[derive(Debug, Clone, Copy)]
enum TestbedSource<'a> {
    OfFile,
    Interfaces(&'a Interfaces),
    Nodes(&'a Given),
}

/// The study of that name or in that file, on the interfaces or the nodes that options name.
pub fn chosen(
    given: &str,
    changes: &ChangeArgs,
    existing: &ExistingArgs,
    fleet: &FleetArgs,
) -> Result<Study, Failure> {
    match (existing.interfaces()?, fleet.given()?) {
        (Some(on), _) => load_on(given, &changes.set, TestbedSource::Interfaces(&on)),
        (None, Some(nodes)) => load_on(given, &changes.set, TestbedSource::Nodes(&nodes)),
        (None, None) => load_on(given, &changes.set, TestbedSource::OfFile),
    }
}

/// The study of that name or in that file.
pub fn load(given: &str) -> Result<Study, Failure> {
    load_on(given, &[], TestbedSource::OfFile)
}

/// With settings in the place of those of the file.
fn load_on(given: &str, set: &[(String, String)], on: TestbedSource<'_>) -> Result<Study, Failure> {
    let path = Path::new(given);
    // a name has neither a slash nor an ending; anything else is meant as a file
    if path.extension().is_none() && !given.contains('/') {
        let found = builtin::find(given).map_err(|error| {
            let file = format!("{given}.toml");
            let hint = match Path::new(&file).is_file() {
                true => format!("did you mean {}?", quoted(Path::new(&file))),
                false => "linkrate list".to_owned(),
            };
            Failure::new(Exit::Usage, error.to_string()).with_hint(Some(hint))
        })?;
        return parse(found.name, &found.path(), found.text, set, Path::new(""), on);
    }
    let text = read_text(path, bounds::MAX_FILE_BYTES as u64, "study file").map_err(|reason| {
        let hint = like_it(path).map(|file| format!("did you mean {}?", quoted(&file)));
        Failure::new(Exit::Usage, format!("{given}: {reason}")).with_hint(hint)
    })?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    parse(&name, given, &text, set, path.parent().unwrap_or(Path::new("")), on)
}

/// The study file beside a path without a file that has the name most like it.
fn like_it(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return None;
    }
    let parent = path.parent()?;
    let here = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let names =
        here.read_dir().ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
    let nearest = nearest(path.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    Some(parent.join(nearest))
}

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
    set: &[(String, String)],
    beside: &Path,
    on: TestbedSource<'_>,
) -> Result<Study, Failure> {
    let mut load = |other: &str| load_model(&beside.join(other));
    let mut parsed = |text: &str| match on {
        TestbedSource::OfFile => file::parse_with(name, path, text, &mut load),
        TestbedSource::Interfaces(on) => file::parse_on(name, path, text, &mut load, Some(on)),
        TestbedSource::Nodes(nodes) => file::parse_nodes(name, path, text, &mut load, nodes),
    };
    let usage = |message: String| Failure::new(Exit::Usage, message.trim_end().to_owned());
    let mut study = parsed(text).map_err(|errors| usage(errors.to_string()))?;
    let mut text = text.to_owned();
    for (key, value) in set {
        if study.factors.iter().any(|factor| factor.name == *key) {
            let hint = format!("choose among its levels with --only {key}=LEVEL");
            let message = format!("--set: {key} is a factor of this study");
            return Err(usage(message).with_hint(Some(hint)));
        }
        text = file::with_setting(&text, key, value);
        study = parsed(&text).map_err(|errors| {
            // lines of the file have moved
            let reasons = errors.0.iter().map(|error| match &error.hint {
                Some(hint) => format!("--set {key}={value}: {}; {hint}", error.message),
                None => format!("--set {key}={value}: {}", error.message),
            });
            usage(reasons.collect::<Vec<_>>().join("\n"))
        })?;
    }
    Ok(study)
}
