//! Commands on studies and their results: list, show, run, resume, watch, report, import, compare, trend, schema.

mod compare;
mod files;
mod import;
mod nodes;
mod output;
mod preview;
mod report;
mod run;
mod source;
mod trend;
mod watch;

use crate::args::study::{SchemaOf, StudyCommand};
use crate::exit::{Exit, Failure};
use crate::output::print;

pub fn run(command: StudyCommand) -> Result<Exit, Failure> {
    match command {
        StudyCommand::List { json } => preview::list(json),
        StudyCommand::Show { study, toml: true, .. } => {
            print(&source::load(&study)?.source)?;
            Ok(Exit::Success)
        }
        StudyCommand::Show { study, quick, json, existing, fleet, changes, .. } => {
            preview::show(&study, (quick, &changes), json, &existing, &fleet)
        }
        StudyCommand::Run(arguments) => run::run(&arguments),
        StudyCommand::Resume { directory, json, fleet, deploy, verbosity } => {
            run::resume(&directory, json, fleet.as_deref(), &deploy, verbosity)
        }
        StudyCommand::Watch(arguments) => watch::watch(&arguments),
        StudyCommand::Report(arguments) => report::run(&arguments),
        StudyCommand::Import(arguments) => import::run(&arguments),
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
