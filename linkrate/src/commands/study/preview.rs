//! `study list` and `study show`: studies, and the plan of one, without a run.

use linkrate_report::preview::{self, Preview};
use linkrate_study::builtin;
use linkrate_study::schedule::{RUN_OVERHEAD, estimate};

use super::source;
use crate::args::existing::ExistingArgs;
use crate::args::fleet::FleetArgs;
use crate::exit::{Exit, Failure};
use crate::output::{print, terminal_style};

/// Lists the built-in studies.
pub fn list(json: bool) -> Result<Exit, Failure> {
    let studies: Result<Vec<_>, Failure> =
        builtin::all().iter().map(|study| source::load(study.name)).collect();
    let studies = studies?;
    print(&if json { preview::list_document(&studies) } else { preview::list(&studies) })?;
    Ok(Exit::Success)
}

/// Shows a study's plan.
pub fn show(
    given: &str,
    quick: bool,
    json: bool,
    existing: &ExistingArgs,
    fleet: &FleetArgs,
) -> Result<Exit, Failure> {
    let mut study = source::chosen(given, existing, fleet)?;
    if quick {
        study = source::quick_form(study)?;
    }
    let preview = Preview { estimate: estimate(&study, RUN_OVERHEAD), study: &study };
    let (width, _) = terminal_style();
    print(&if json { preview.document() } else { preview.text(width) })?;
    Ok(Exit::Success)
}
