//! `linkrate lab`: up, exec, show, list, down.

mod exec;
mod up;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use linkrate_lab::control::LabName;
use linkrate_lab::control::client::{self, ControlError, LabClient};
use linkrate_lab::control::messages::{Reply, Request};
use linkrate_report::lab as tables;
use linkrate_terms::lab::{LAB_VARIABLE, LabReport};

use super::print;
use crate::exit::{Exit, Failure};

/// `linkrate lab ...`
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Build a lab and run a shell, or a program, in its system under test
    ///
    /// Hosts are network namespaces on this machine, joined by virtual adapters. The lab ends when
    /// the program ends; its exit code becomes that of linkrate. The lab leaves nothing behind,
    /// however it ends.
    Up(up::UpArgs),
    /// Run a program in a host of a lab that is up
    Exec(exec::ExecArgs),
    /// Show the hosts of a lab that is up
    Show {
        #[command(flatten)]
        which: Which,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// List the labs of this user that are up
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// End a lab, and the program that runs in it
    Down {
        #[command(flatten)]
        which: Which,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

/// The lab that a command is about.
#[derive(Debug, Args)]
pub struct Which {
    /// The lab [default: the one this shell is in, or the only one]
    #[arg(long)]
    name: Option<LabName>,
}

impl Which {
    /// The lab.
    pub fn find(&self) -> Result<LabClient, ControlError> {
        let around = || std::env::var(LAB_VARIABLE).ok()?.parse().ok();
        LabClient::find(self.name.clone().or_else(around))
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let exit = if error.is_wrong() { Exit::Usage } else { Exit::Failure };
        let hint = error.hint();
        Self::new(exit, error.to_string()).with_hint(hint)
    }
}

/// Carries out a lab command.
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

/// The report of a lab about its hosts.
fn report(lab: &LabClient) -> Result<LabReport, ControlError> {
    match lab.ask(Request::Lab)? {
        Reply::Lab(report) => Ok(report),
        _ => Err(lab.unexpected()),
    }
}
