//! `linkrate study`: list, show, run, resume, watch, report, compare, schema.

mod compare;
mod files;
mod output;
mod preview;
mod report;
mod run;
mod source;
pub mod watch;

use linkrate_study::store::StoreError;

use super::{print, terminal_style};
use crate::args::{SchemaOf, StudyCommand};
use crate::exit::{Exit, Failure};

pub use source::load_model;

/// Carries out a study command.
pub fn run(command: StudyCommand) -> Result<Exit, Failure> {
    match command {
        StudyCommand::List { json } => preview::list(json),
        StudyCommand::Show { study, quick, json, existing } => {
            preview::show(&study, quick, json, &existing)
        }
        StudyCommand::Run(arguments) => run::run(&arguments),
        StudyCommand::Resume { directory, json } => run::resume(&directory, json),
        StudyCommand::Watch(arguments) => watch::watch(&arguments),
        StudyCommand::Report(arguments) => report::run(&arguments),
        StudyCommand::Compare(arguments) => compare::run(&arguments),
        StudyCommand::Schema { document } => {
            print(match document {
                SchemaOf::Results => linkrate_report::json::RESULTS_SCHEMA,
                SchemaOf::Comparison => linkrate_report::json::COMPARISON_SCHEMA,
            })?;
            Ok(Exit::Success)
        }
    }
}

/// Prints results as a table, or as the one document that `--json` promises.
fn present(results: &linkrate_study::results::StudyResults, json: bool) -> Result<(), Failure> {
    if json {
        print(&linkrate_report::json::document(results))?;
        // the document does not say where it was written
        eprintln!("results  {}", results.directory);
        return Ok(());
    }
    let (width, style) = terminal_style();
    print(&linkrate_report::terminal::table(results, width, style))?;
    eprintln!("report   {}/{}", results.directory, files::REPORT);
    Ok(())
}

fn store_failure(error: StoreError) -> Failure {
    let exit = match &error {
        // the wrong directory was named, and nothing was run
        StoreError::NotAStore { .. } | StoreError::NotEmpty { .. } => Exit::Usage,
        _ => Exit::Failure,
    };
    let hint = error.hint();
    Failure::from_error(exit, &error).with_hint(hint)
}
