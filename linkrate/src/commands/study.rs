//! Commands on studies and their results: list, show, run, resume, watch, report, import, compare, trend, schema.

mod compare;
mod import;
mod ktap;
mod live;
pub(super) mod output;
mod report;
pub(super) mod run;
mod source;
mod trend;
mod watch;

use linkrate_lab::Placement;
use linkrate_report::preview::{self, Listed, Preview};
use linkrate_study::builtin;
use linkrate_study::schedule::{RUN_OVERHEAD, estimate};
use linkrate_study::study::Study;

use crate::args::existing::ExistingArgs;
use crate::args::fleet::FleetArgs;
use crate::args::study::{ChangeArgs, SchemaOf, StudyCommand};
use crate::exit::{Exit, Failure};
use crate::output::{print, terminal_style};

pub fn run(command: StudyCommand) -> Result<Exit, Failure> {
    match command {
        StudyCommand::List { settings: true, .. } => {
            let (width, _) = terminal_style();
            print(&preview::settings(width))?;
            Ok(Exit::Success)
        }
        StudyCommand::List { json, .. } => list(json),
        StudyCommand::Show { study, toml: true, .. } => {
            print(&source::load(&study)?.source)?;
            Ok(Exit::Success)
        }
        StudyCommand::Show { study, quick, json, existing, fleet, changes, .. } => {
            show(&study, (quick, &changes), json, &existing, &fleet)
        }
        StudyCommand::Run(arguments) => run::run(&arguments),
        StudyCommand::Resume { directory, json, fleet, client, deploy, verbosity } => {
            run::may_start(&directory, &client)?;
            run::resume(&directory, json, fleet.as_deref(), &deploy, verbosity)
        }
        StudyCommand::Watch(arguments) => watch::watch(&arguments),
        StudyCommand::Report(arguments) => report::run(&arguments),
        StudyCommand::Import(arguments) => import::run(&arguments),
        StudyCommand::Compare(arguments) if arguments.live => live::run(&arguments),
        StudyCommand::Compare(arguments) => compare::run(&arguments),
        StudyCommand::Trend(arguments) => trend::run(&arguments),
        StudyCommand::Schema { document } => {
            print(match document {
                SchemaOf::Results => linkrate_report::json::RESULTS_SCHEMA,
                SchemaOf::Comparison => linkrate_report::json::COMPARISON_SCHEMA,
                SchemaOf::Trend => linkrate_report::json::TREND_SCHEMA,
            })?;
            Ok(Exit::Success)
        }
    }
}

/// Lists the built-in studies.
fn list(json: bool) -> Result<Exit, Failure> {
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

/// Shows the plan of a study, without a run.
fn show(
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
