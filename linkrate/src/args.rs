//! The arguments.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use linkrate_study::keys::{KEYS, Values};
use linkrate_terms::CpuMeter;

use crate::commands::adapter::AdapterCommand;
use crate::commands::lab::LabCommand;
use crate::commands::limit::LimitArgs;
use crate::exit::EXIT_CODES;

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
    /// What this host can and cannot measure, with remedies
    Doctor(DoctorArgs),
    /// Serve a controller (started by linkrate itself)
    #[command(hide = true)]
    Agent(AgentArgs),
}

/// `linkrate study ...`
#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// List the built-in studies
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show a study's plan, its cells and how long it will take; nothing is run
    Show {
        /// A built-in study's name, or the path of a study file
        study: String,
        /// As a quick run would be
        #[arg(long)]
        quick: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Run a study and report what it found
    Run(StudyRunArgs),
    /// Go on with a study that was interrupted
    Resume {
        /// Its results directory
        directory: PathBuf,
        /// Print one JSON document and nothing else on stdout
        #[arg(long)]
        json: bool,
    },
    /// Print the results of a study again, and write its report anew
    Report {
        /// Its results directory
        directory: PathBuf,
        /// Print one JSON document and nothing else on stdout
        #[arg(long)]
        json: bool,
    },
}

/// `linkrate study run`
#[derive(Debug, Args)]
pub struct StudyRunArgs {
    /// A built-in study's name, or the path of a study file
    pub study: String,
    /// Shorter and fewer runs: wider intervals in under a minute
    #[arg(long)]
    pub quick: bool,
    /// Another seed for the order of runs
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// CPUs of the system under test, for example 0 or 0-3
    #[arg(long, value_name = "CPUS")]
    pub sut_cpu: Option<String>,
    /// CPUs of the clients and of linkrate itself
    #[arg(long, value_name = "CPUS")]
    pub client_cpu: Option<String>,
    /// How CPU time is measured: by the kernel's idle time, or by threads that count what it leaves
    /// [default: auto, idle time where the kernel keeps it exactly]
    #[arg(long, value_name = "METER", value_parser = cpu_meters())]
    pub cpu_meter: Option<CpuMeter>,
    /// The results directory [default: results/STUDY-DATE-TIME]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}

/// `linkrate measure`
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// What joins the system under test and its clients: veth, a model, or the file of one
    #[arg(long, default_value = "veth", value_name = "ADAPTER")]
    pub adapter: String,
    /// Clients behind each port of a model [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub clients_per_port: Option<u32>,
    /// Links and bus of a model at this share of their rates [default: 1]
    #[arg(long, value_name = "SHARE")]
    pub scale: Option<f64>,
    /// CPUs of the system under test, for example 0 or 0-3
    #[arg(long, value_name = "CPUS")]
    pub sut_cpu: Option<String>,
    /// CPUs of the clients and of linkrate itself
    #[arg(long, value_name = "CPUS")]
    pub client_cpu: Option<String>,
    /// How CPU time is measured: by the kernel's idle time, or by threads that count what it leaves
    /// [default: auto, idle time where the kernel keeps it exactly]
    #[arg(long, value_name = "METER", value_parser = cpu_meters())]
    pub cpu_meter: Option<CpuMeter>,
    /// Send by splice, receive with MSG_TRUNC: no copy at either end
    #[arg(long)]
    pub zero_copy: bool,
    /// Runs, each one a measurement of its own
    #[arg(long, default_value_t = 3, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// The window of one run
    #[arg(long, default_value = "2 s", value_name = "TIME")]
    pub time: String,
    /// Traffic before the window
    #[arg(long, default_value = "300 ms", value_name = "TIME")]
    pub warm_up: String,
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub settings: Settings,
}

fn cpu_meters() -> impl TypedValueParser<Value = CpuMeter> {
    let words = PossibleValuesParser::new(CpuMeter::ALL.map(CpuMeter::word));
    words.map(|word| CpuMeter::from_word(&word).unwrap_or_default())
}

/// Every setting of a cell as an option of its own, from the table that study files use.
#[derive(Debug, Default)]
pub struct Settings(pub Vec<(&'static str, String)>);

impl Args for Settings {
    fn augment_args(mut command: clap::Command) -> clap::Command {
        for key in KEYS {
            let words = key.values.words();
            let value_name = match key.values {
                Values::Word(_) | Values::Switch(_) => words.join("|"),
                Values::Count { .. } => "NUMBER".to_owned(),
                Values::Size { .. } | Values::Message { .. } => {
                    ["SIZE"].into_iter().chain(words).collect::<Vec<_>>().join("|")
                }
                Values::Congestion(_) => "NAME".to_owned(),
            };
            let expected = key.values.expected();
            command = command.arg(
                clap::Arg::new(key.name)
                    .long(key.name)
                    // refused with what would be right, not taken for an option
                    .allow_negative_numbers(true)
                    .help(format!("{} [{expected}]", key.help))
                    .value_name(value_name)
                    .help_heading("Settings"),
            );
        }
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = KEYS
            .iter()
            .filter_map(|key| Some((key.name, matches.get_one::<String>(key.name)?.clone())));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// `linkrate doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Put loads of known size on the system under test's CPUs and compare what the CPU meters
    /// report of them; takes half a minute
    #[arg(long)]
    pub self_test: bool,
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}

/// `linkrate agent`
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Speak the agent protocol on standard input and output
    #[arg(long)]
    pub stdio: bool,
}
