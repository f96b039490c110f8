//! The arguments of every command: names, help, and the types that they are read into.
//!
//! Commands import from here, and nothing here imports a command.

pub mod adapter;
pub mod cpus;
pub mod doctor;
pub mod existing;
pub mod lab;
pub mod limit;
pub mod measure;
pub mod settings;
pub mod study;

use clap::{Args, Parser, Subcommand};

use crate::exit::EXIT_CODES;
use adapter::AdapterCommand;
use doctor::DoctorArgs;
use lab::LabCommand;
use limit::LimitArgs;
use measure::MeasureArgs;
use study::StudyCommand;

/// Measures what network adapters deliver and what they cost the CPU.
#[derive(Debug, Parser)]
#[command(name = "linkrate", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Studies: a question, its runs, its report
    #[command(subcommand)]
    Study(StudyCommand),
    /// Measure one workload in a lab on this machine
    Measure(MeasureArgs),
    /// Labs that stay up: any program over virtual adapters
    #[command(subcommand)]
    Lab(LabCommand),
    /// Virtual adapters: models, and the ports of a lab that is up
    #[command(subcommand)]
    Adapter(AdapterCommand),
    /// What theory allows a link to carry
    Limit(LimitArgs),
    /// What this host can and cannot measure, and how it could be tuned
    Doctor(DoctorArgs),
    /// Serve a controller (started by linkrate itself)
    #[command(hide = true)]
    Agent(AgentArgs),
}

/// `linkrate agent`
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Speak the agent protocol on standard input and output
    #[arg(long)]
    pub stdio: bool,
}
