//! The arguments of every command: names, help, and the types that they are read into.
//!
//! Commands import from here, and nothing here imports a command.

pub mod adapter;
pub mod cpus;
pub mod doctor;
pub mod examples;
pub mod existing;
pub mod fabric;
pub mod fleet;
pub mod iperf3;
pub mod lab;
pub mod limit;
pub mod measure;
pub mod netperf;
pub mod package;
pub mod serve;
pub mod settings;
pub mod study;
pub mod verbosity;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use linkrate_sys::stderr;

use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::program;
use crate::version;
use adapter::{AdapterCommand, ModelsArgs};
use doctor::{DoctorArgs, RestoreArgs};
use iperf3::Iperf3Args;
use lab::LabCommand;
use limit::LimitArgs;
use measure::MeasureArgs;
use netperf::NetperfArgs;
use package::{CompletionsArgs, ManArgs};
use serve::ServeArgs;
use study::StudyCommand;
use verbosity::ColorWhen;

/// Measures what network adapters deliver and what they cost the CPU.
#[derive(Debug, Parser)]
#[command(
    name = "linkrate",
    version = version::SHORT,
    long_version = version::LONG,
    after_help = EXIT_CODES,
    max_term_width = 100
)]
pub struct Cli {
    /// When to use colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        hide_short_help = true,
        hide_possible_values = true
    )]
    pub color: ColorWhen,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    Study(StudyCommand),
    /// The same as run, list, show, ...
    #[command(subcommand, name = "study", hide = true)]
    OfStudy(StudyCommand),
    /// Run one test, like iperf3 or netperf
    Measure(MeasureArgs),
    /// Compute the theoretical maximum throughput of a link
    Limit(LimitArgs),
    /// Start a virtual test network and run any program in it
    #[command(subcommand)]
    Lab(LabCommand),
    /// Inspect and change the adapters of a running lab
    #[command(subcommand)]
    Adapter(AdapterCommand),
    /// List the emulated adapters, or check and show the model in a file
    Models(ModelsArgs),
    /// Check this host and suggest tuning
    Doctor(DoctorArgs),
    /// Undo changes of interfaces that a killed process has left behind
    Restore(RestoreArgs),
    /// Serve clients of iperf3 and netperf
    Serve(ServeArgs),
    /// Drop-in client in place of netperf, with linkrate's CPU meters
    Netperf(NetperfArgs),
    /// Drop-in client and server in place of iperf3
    Iperf3(Box<Iperf3Args>),
    /// Generate shell completions
    Completions(CompletionsArgs),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man(ManArgs),
    /// Serve a controller (linkrate starts it)
    #[command(hide = true)]
    Agent(AgentArgs),
}

/// `linkrate agent`
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Speak the agent protocol on standard input and output
    #[arg(long)]
    pub stdio: bool,
    /// Serve as a host of a lab, in namespaces of its own
    #[arg(long, conflicts_with_all = ["lends", "interface"])]
    pub lab: bool,
    /// Serve as the system under test, which may lend interfaces to clients of this machine
    #[arg(long)]
    pub lends: bool,
    /// Use no existing interface but this one; can be repeated, for the forced command of ssh
    #[arg(long, value_name = "NAME")]
    pub interface: Vec<String>,
}

/// Reads the words of the command line. Wrong ones, and those that ask for help, end the program.
pub fn read() -> Cli {
    let command = examples::with_examples(Cli::command());
    let read = command.try_get_matches_from(program::words());
    read.and_then(|matches| Cli::from_arg_matches(&matches)).unwrap_or_else(|error| refuse(error))
}

/// Ends the program with the text of wrong arguments: exit code 2, as documented, and 1 for a drop-in, as its
/// program has it.
fn refuse(mut error: clap::Error) -> ! {
    let wrong = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let wrong = wrong.split('=').next().unwrap_or_default();
    let command = program::words().get(1).cloned().unwrap_or_default();
    let letter = measure::ELSEWHERE.iter().find(|(letter, _)| *letter == wrong);
    if command == "measure"
        && error.kind() == ErrorKind::UnknownArgument
        && let Some((_, instead)) = letter
    {
        let tip = ContextValue::StyledStrs(vec![(*instead).into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    if error.kind() == ErrorKind::InvalidUtf8 {
        let words = program::words();
        let wrong = words.iter().find(|word| word.to_str().is_none());
        let message = format!("{:?} is not UTF-8", wrong.cloned().unwrap_or_default());
        let failure = Failure::new(Exit::Usage, message);
        std::process::exit(failure.with_hint(Some("give the file another name")).print() as i32);
    }
    if command != "iperf3" || !error.use_stderr() {
        error.exit();
    }
    if error.kind() == ErrorKind::UnknownArgument && iperf3::NOT_TAKEN.contains(&wrong) {
        stderr::line(format_args!(
            "iperf3: parameter error - linkrate does not take iperf3's option {wrong}"
        ));
    } else {
        // nobody reads it if this fails
        let _ = error.print();
    }
    std::process::exit(Exit::Failure as i32)
}
