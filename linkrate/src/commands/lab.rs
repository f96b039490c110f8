//! `linkrate lab`: up, exec, show, list, down.

mod ask;
mod exec;
mod supervised;
mod up;

use std::process::ExitCode;

use linkrate_lab::control::client;
use linkrate_report::lab as tables;

use crate::args::lab::LabCommand;
use crate::exit::{Exit, Failure};
use crate::output::print;
use ask::report;

pub fn run(command: LabCommand) -> Result<ExitCode, Failure> {
    match command {
        LabCommand::Up(arguments) => return up::run(&arguments),
        LabCommand::Exec(arguments) => return Err(exec::run(&arguments)),
        LabCommand::Show { which, json } => {
            let lab = report(&which.find()?)?;
            print(&if json { tables::document(&lab) } else { tables::text(&lab) })?;
        }
        LabCommand::List { json } => {
            let names: Vec<String> = client::list()?.iter().map(ToString::to_string).collect();
            let names = names.iter().map(String::as_str);
            print(&if json { tables::list_document(names) } else { tables::list(names) })?;
        }
        LabCommand::Down { which, json } => {
            let lab = which.find()?;
            lab.down()?;
            if json {
                print(&tables::down_document(&lab.name().to_string()))?;
            }
        }
    }
    Ok(Exit::Success.into())
}
