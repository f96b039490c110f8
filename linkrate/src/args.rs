//! The arguments.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use linkrate_study::keys::{KEYS, Key, Values};
use linkrate_terms::{CpuMeter, FarEnd, Interfaces};

use crate::commands::adapter::AdapterCommand;
use crate::commands::lab::LabCommand;
use crate::commands::limit::LimitArgs;
use crate::commands::study::watch::WatchArgs;
use crate::exit::{EXIT_CODES, Exit, Failure};

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
        #[command(flatten)]
        existing: ExistingArgs,
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
    /// Watch a study that runs: each interval shrinking, what it waits for, the time left
    Watch(WatchArgs),
    /// Print the results of a study again and write its report anew, or make one document of them
    Report(StudyReportArgs),
    /// Hold one result set against another of the same study: what is better, what is worse
    Compare(StudyCompareArgs),
    /// Print the JSON Schema of a document
    Schema {
        /// Which document
        #[arg(value_enum, default_value_t)]
        document: SchemaOf,
    },
}

/// Existing interfaces, instead of adapters that linkrate makes.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Existing interfaces")]
pub struct ExistingArgs {
    /// Measure this existing interface of this host; repeat it for several, each a port
    #[arg(long, value_name = "NAME", requires = "client")]
    pub interface: Vec<String>,
    /// The client at its far end: ssh:HOST, ssh:USER@HOST, or interface:NAME for another interface
    /// of this host, with ,ADDRESS where the client has several; repeat it for several
    #[arg(long, value_name = "CLIENT", requires = "interface")]
    pub client: Vec<FarEnd>,
    /// The linkrate program at the far end of ssh [default: linkrate]
    #[arg(long, value_name = "PROGRAM", requires = "interface")]
    pub agent: Option<String>,
}

impl ExistingArgs {
    /// The interfaces, if any are named.
    pub fn interfaces(&self) -> Result<Option<Interfaces>, Failure> {
        if self.interface.is_empty() {
            return Ok(None);
        }
        Interfaces::new(self.interface.clone(), self.client.clone(), self.agent.clone())
            .map(Some)
            .map_err(|error| Failure::new(Exit::Usage, format!("--interface: {error}")))
    }
}

/// `linkrate study compare`
#[derive(Debug, Args)]
pub struct StudyCompareArgs {
    /// The results directory that is held against
    #[arg(value_name = "BASELINE")]
    pub baseline: PathBuf,
    /// The results directory that is asked about
    #[arg(value_name = "CANDIDATE")]
    pub candidate: PathBuf,
    /// What is under test and so may differ: kernel, cpu-model, linkrate, ...; may be repeated
    #[arg(long, value_name = "FACT")]
    pub allow: Vec<String>,
    /// Smallest difference that counts, for example 3 % [default: the baseline's own]
    #[arg(long, value_name = "PERCENT")]
    pub minimum_effect: Option<String>,
    /// How it is told
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: CompareFormat,
    /// Where it goes, standard output unless given
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// How a comparison is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CompareFormat {
    /// For people at a terminal
    #[default]
    Table,
    /// Markdown, for a pull request
    Md,
    /// The document that `linkrate study schema comparison` describes
    Json,
}

/// Documents with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SchemaOf {
    /// Of study run, resume and report, and of measure
    #[default]
    Results,
    /// Of study compare
    Comparison,
}

/// `linkrate study report`
#[derive(Debug, Args)]
pub struct StudyReportArgs {
    /// Its results directory
    pub directory: PathBuf,
    /// One document instead of the table; nothing is written into the directory
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<ReportFormat>,
    /// Where the document goes, standard output unless given; its ending may stand for --format
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// What results can be made into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One page that needs no network
    Html,
    /// Markdown; with --output FILE the figures go beside it, into FILE's name with _figures
    Md,
    /// One row a run, one column a variable
    Csv,
    /// The document that `linkrate study schema` describes
    Json,
}

/// `linkrate study run`
#[derive(Debug, Args)]
pub struct StudyRunArgs {
    /// A built-in study's name, or the path of a study file
    pub study: String,
    /// Shorter and fewer runs: wider intervals in under a minute
    #[arg(long)]
    pub quick: bool,
    /// Sample where the CPU time goes, in every run; the sampling itself costs CPU time
    #[arg(long)]
    pub profile: bool,
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
    #[command(flatten)]
    pub existing: ExistingArgs,
}

/// `linkrate measure`
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// What joins the system under test and its clients: a model, the file of one, or veth
    /// [default: gigabit]
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<String>,
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
    /// Sample where the CPU time goes; the sampling itself costs CPU time
    #[arg(long)]
    pub profile: bool,
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
    pub existing: ExistingArgs,
    #[command(flatten)]
    pub settings: Settings,
}

/// Whether a key sets anything; one workload has nothing to be told apart from.
fn is_setting(key: &Key) -> bool {
    !matches!(key.values, Values::Label(_))
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
        for key in KEYS.iter().filter(|key| is_setting(key)) {
            let expected = key.values.expected();
            command = command.arg(
                clap::Arg::new(key.name)
                    .long(key.name)
                    // refused with what would be right, not taken for an option
                    .allow_negative_numbers(true)
                    .help(format!("{} [{expected}]", key.help))
                    .value_name(key.values.placeholder())
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
            .filter(|key| is_setting(key))
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
#[command(
    after_help = "The doctor changes nothing. Each finding under \"How it could be tuned\" names the values and \
                        their source, the likely cost, and the command that changes the setting."
)]
pub struct DoctorArgs {
    /// Print only whether this host can measure
    #[arg(long, conflicts_with_all = ["tuning", "interface", "round_trip"])]
    pub measure: bool,
    /// Print only how this host could be tuned; faster, since it builds no testbed
    #[arg(long)]
    pub tuning: bool,
    /// Tuning: examine this interface only [default: all that are up]
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Tuning: compute with this round trip [default: that of the busiest connection, else 1 ms]
    #[arg(long, value_name = "TIME")]
    pub round_trip: Option<String>,
    /// Run loads of known size on the CPUs of the system under test and print the error of each CPU
    /// meter; takes half a minute
    #[arg(long, conflicts_with_all = ["measure", "tuning", "interface", "round_trip"])]
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
