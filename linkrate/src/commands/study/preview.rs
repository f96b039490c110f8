//! `list` and `show`: studies, and the plan of one, without a run.

use linkrate_lab::Placement;
use linkrate_report::preview::{self, Listed, Preview};
use linkrate_study::builtin;
use linkrate_study::schedule::{RUN_OVERHEAD, estimate};
use linkrate_study::study::Study;

use super::source;
use crate::args::existing::ExistingArgs;
use crate::args::fleet::FleetArgs;
use crate::args::study::ChangeArgs;
use crate::exit::{Exit, Failure};
use crate::output::{print, terminal_style};

/// Lists the built-in studies.
pub fn list(json: bool) -> Result<Exit, Failure> {
    let longest = |study: &Study| estimate(study, RUN_OVERHEAD).longest;
    let listed = |name: &str| -> Result<Listed, Failure> {
        let study = source::load(name)?;
        let quick = source::quick_form(study.clone()).ok();
        Ok(Listed { full: longest(&study), quick: quick.as_ref().map(longest), study })
    };
    let studies: Result<Vec<_>, Failure> =
        builtin::all().iter().map(|study| listed(study.name)).collect();
    let studies = studies?;
    let (width, _) = terminal_style();
    print(&if json { preview::list_document(&studies) } else { preview::list(&studies, width) })?;
    Ok(Exit::Success)
}

pub fn show(
    given: &str,
    (quick, changes): (bool, &ChangeArgs),
    json: bool,
    existing: &ExistingArgs,
    fleet: &FleetArgs,
) -> Result<Exit, Failure> {
    let mut study = source::chosen(given, changes, existing, fleet)?;
    if quick {
        study = source::quick_form(study)?;
    }
    study = changes.apply(study)?;
    let placement = Placement::choose(&study.testbed).ok().filter(|chosen| !chosen.apart);
    let sut_cpus = placement.map(|chosen| chosen.sut.len());
    let preview = Preview { estimate: estimate(&study, RUN_OVERHEAD), study: &study, sut_cpus };
    let (width, _) = terminal_style();
    print(&if json { preview.document() } else { preview.text(width) })?;
    Ok(Exit::Success)
}
