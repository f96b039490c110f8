//! Arguments of the commands on studies and their results.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use linkrate_model::Peer;
use linkrate_model::units::{parse_duration, parse_percent};
use linkrate_report::terminal::Detail;
use linkrate_study::adjusted::Adjusted;
use linkrate_study::study::Study;

use super::VerbosityArgs;
use super::existing::{DeployArgs, ExistingArgs};
use super::fleet::FleetArgs;
use super::metrics::MetricsArgs;
use super::testbed::CpuArgs;
use crate::exit::{Exit, Failure};

/// The commands on studies and their results.
#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// List the built-in studies
    List {
        /// List what a study file may set, with an example
        #[arg(long, conflicts_with = "json")]
        settings: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Show the plan of a study and its duration, and run nothing
    Show {
        /// A built-in study's name, or the path of a study file
        study: String,
        /// Shows the quick form.
        #[arg(long, help = "Show the reduced set of cells of run --quick")]
        quick: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        changes: ChangeArgs,
        /// Print the study file, to begin one of your own
        #[arg(long, conflicts_with_all = ["json", "quick"])]
        toml: bool,
        #[command(flatten)]
        existing: ExistingArgs,
        #[command(flatten)]
        fleet: FleetArgs,
    },
    /// Run a study and report the results
    Run(StudyRunArgs),
    /// Continue a study that was interrupted
    Resume {
        /// The results directory
        directory: PathBuf,
        /// Print one JSON document and nothing else on stdout
        #[arg(long)]
        json: bool,
        /// List of nodes, as of run --fleet: new nodes replace those that are no longer listed. The nodes of an
        /// allocation of Slurm do so without this option
        #[arg(long, value_name = "FILE")]
        fleet: Option<PathBuf>,
        /// A client that a command reaches (exec:COMMAND), as given to run: a stored command does not start by itself
        #[arg(long, value_name = "CLIENT")]
        client: Vec<Peer>,
        #[command(flatten)]
        deploy: DeployArgs,
        #[command(flatten)]
        verbosity: VerbosityArgs,
    },
    /// Watch a running study: the intervals of its cells, the time left
    Watch(WatchArgs),
    /// Print or export stored results
    Report(StudyReportArgs),
    /// Import netperf, iperf3 or flent results
    Import(StudyImportArgs),
    /// Compare two result sets of the same study; exit status 5 on a regression
    Compare(StudyCompareArgs),
    /// Show results over time and find change points
    Trend(StudyTrendArgs),
    /// Print the JSON Schema of a document
    Schema {
        /// The document
        #[arg(value_enum, default_value_t)]
        document: SchemaOf,
    },
}

/// `linkrate watch`
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The results directory
    pub directory: PathBuf,
    /// Print one JSON document for each block, each on its own line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// `linkrate import`
#[derive(Debug, Args)]
#[command(after_help = "\
Files are recognised by their content:
  netperf      classic output of streams and transactions; -o, -O and -k of omni tests
  iperf3       -J, --json-stream, text
  iperf 2      -y C
  flent        data files
  sockperf     ping-pong
  neper        text
  k8s-netperf  CSV, JSON
Any of them may be compressed by gzip.

Several files of the same test are several runs of one cell.
The directory gets a study.toml that measures the same test again, where a study can.")]
pub struct StudyImportArgs {
    /// Files that the programs wrote
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The results directory [default: results/import-DATE-TIME]
    #[arg(long, short, alias = "output", short_alias = 'o', value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}

/// `linkrate compare`
#[derive(Debug, Args)]
#[command(after_help = "\
With --live, BASELINE and CANDIDATE are two commands A and B, each of which measures once and prints what \
linkrate import reads. They run in turn, in blocks of random order; exit status 5 says that B is worse.")]
pub struct StudyCompareArgs {
    /// Run two commands in turn instead, and judge B against A
    #[arg(long, conflicts_with_all = ["baselines", "candidates", "allow", "session_scatter", "format", "output"])]
    pub live: bool,
    /// With --live: how often each command runs
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub blocks: u32,
    /// With --live: the results directory [default: results/live-DATE-TIME]
    #[arg(long, value_name = "DIR", requires = "live")]
    pub dir: Option<PathBuf>,
    /// The results directory to compare with
    #[arg(value_name = "BASELINE")]
    pub baseline: PathBuf,
    /// The results directory to judge
    #[arg(value_name = "CANDIDATE")]
    pub candidate: PathBuf,
    /// One more set of the baseline's side, measured in another session; repeat the option for several
    #[arg(long = "baseline", value_name = "DIR")]
    pub baselines: Vec<PathBuf>,
    /// One more set of the candidate's side
    #[arg(long = "candidate", value_name = "DIR")]
    pub candidates: Vec<PathBuf>,
    /// An environment attribute that is allowed to differ: kernel, cpu-model, linkrate, ...; repeat
    /// the option for several
    #[arg(long, value_name = "FACT")]
    pub allow: Vec<String>,
    /// Smallest difference that counts, for example 3 % [default: that of the baseline]
    #[arg(long, value_name = "PERCENT")]
    pub minimum_effect: Option<String>,
    /// Standard deviation between sessions of the same test on this machine; with one set of each
    /// side only [default: 3.3 % of service demand, 0.2 % of throughput]
    #[arg(long, value_name = "PERCENT")]
    pub session_scatter: Option<String>,
    /// Format of the comparison
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: CompareFormat,
    /// File to write to [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// Format of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CompareFormat {
    /// A table for a terminal
    #[default]
    Table,
    /// Markdown, for a pull request
    Md,
    /// The document that `linkrate schema comparison` describes
    Json,
}

/// `linkrate trend`
#[derive(Debug, Args)]
#[command(
    after_help = "Sets are taken in order of their beginning. Conditions of the host may differ between sets; changes of them \
                  are reported. The exit code is 5 if the newest change of a cell's result is for the worse."
)]
pub struct StudyTrendArgs {
    /// Results directories of the same study, in any order
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// Smallest change that counts, for example 3 % [default: that of the newest set]
    #[arg(long, value_name = "PERCENT")]
    pub minimum_effect: Option<String>,
    /// Number of newest sets: ignore older changes when setting exit code 5 [default: all]
    #[arg(long, value_name = "SETS")]
    pub recent: Option<usize>,
    /// Format of the document [default: the ending of --output, or table]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<TrendFormat>,
    /// File to write to [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// Format of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrendFormat {
    /// A table for a terminal
    Table,
    /// Markdown, for the summary of a job
    Md,
    /// One page with a chart for each cell and effect, which needs no network
    Html,
    /// The document that `linkrate schema trend` describes
    Json,
    /// CSV for Apache Otava; with --output trend.csv its configuration goes into trend.yaml
    Otava,
}

/// Documents with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SchemaOf {
    /// The document of run, resume, report and measure
    #[default]
    Results,
    /// The document of compare
    Comparison,
    /// The document of trend
    Trend,
}

/// `linkrate report`
#[derive(Debug, Args)]
pub struct StudyReportArgs {
    /// The results directory
    pub directory: PathBuf,
    /// Print all details instead of the answer, or only some of them
    #[arg(long, value_name = "PARTS", value_enum, num_args = 0..=1, value_delimiter = ',',
        default_missing_value = "all", conflicts_with_all = ["format", "output", "json"])]
    pub details: Vec<Details>,
    /// Write one document of this format instead of the answer, and nothing into the directory
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<ReportFormat>,
    /// File for the document [default: standard output]; its ending may replace --format. For flent, the
    /// directory for the data files
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Leave out host and user names, addresses, files, names of processes and the kernel command line; nothing
    /// is written into the directory
    #[arg(long)]
    pub redact: bool,
}

/// Parts of all that is known of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Details {
    /// All of them
    All,
    /// Every cell
    Cells,
    /// Every effect
    Effects,
    /// What service demand and latency are made of
    Parts,
    /// Published figures beside the measured ones
    Published,
    /// Notes, failed runs, warnings
    Warnings,
}

impl Details {
    /// The parts that were asked for; empty where the answer is.
    pub fn chosen(asked: &[Self]) -> Vec<Detail> {
        let of = |one: &Self| match one {
            Self::All => Detail::ALL.to_vec(),
            Self::Cells => vec![Detail::Cells],
            Self::Effects => vec![Detail::Effects],
            Self::Parts => vec![Detail::Parts],
            Self::Published => vec![Detail::Published],
            Self::Warnings => vec![Detail::Warnings],
        };
        asked.iter().flat_map(of).collect()
    }
}

/// Formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One HTML page that needs no network
    Html,
    /// Markdown; with --output report.md the figures go into report_figures/
    Md,
    /// One row for each run, one column for each variable
    Csv,
    /// The document that `linkrate schema` describes
    Json,
    /// Data files of flent, one for each run, with the figures over time; --output names a directory
    Flent,
    /// The latencies of all runs as a log of HdrHistogram, one interval for each run
    HdrLog,
    /// Means and intervals as OpenMetrics text, for Prometheus
    Openmetrics,
    /// Results as a test of the kernel (KTAP)
    Ktap,
}

/// Changes of a study on the command line.
#[derive(Debug, Default, Args)]
pub struct ChangeArgs {
    /// Only the cells with this level of a factor, for example ports=4; repeat the option for several
    #[arg(long, value_name = "FACTOR=LEVEL", value_parser = |text: &str| key_value(text, "ports=4"))]
    pub only: Vec<(String, String)>,
    /// Another value of a setting in all cells, for example congestion=bbr, or run=10s and warm-up=1s; repeat the option for several
    #[arg(long, value_name = "KEY=VALUE", value_parser = |text: &str| key_value(text, "congestion=bbr"))]
    pub set: Vec<(String, String)>,
    /// Number of blocks, or fewest and most: 10, 5..20
    #[arg(long, value_name = "MIN..MAX", value_parser = blocks)]
    pub blocks: Option<(u32, u32)>,
    /// Time limit: no block begins that would end later
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub budget: Option<Duration>,
    /// Half-width of intervals to reach, for example 1%
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub precision: Option<f64>,
    /// Run as many blocks as it takes to find such a change in 9 of 10 sessions, for example 1%
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, conflicts_with = "precision")]
    pub find: Option<f64>,
    /// Share of the model's rates at which links and bus run, for example 0.3
    #[arg(long, value_name = "SHARE")]
    pub scale: Option<f64>,
}

impl ChangeArgs {
    /// The study with these changes.
    pub fn apply(&self, study: Study) -> Result<Study, Failure> {
        let adjusted = Adjusted {
            blocks: self.blocks,
            budget: self.budget,
            precision: self.precision,
            find: self.find,
            scale: self.scale,
            only: self.only.clone(),
        };
        if adjusted.is_empty() {
            return Ok(study);
        }
        adjusted.apply(study).map_err(|error| Failure::new(Exit::Usage, error.to_string()))
    }
}

fn key_value(text: &str, example: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
    let (key, value) = parts.ok_or_else(|| format!("expected KEY=VALUE, for example {example}"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn blocks(text: &str) -> Result<(u32, u32), String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|blocks| *blocks >= 2);
    let both = number(low).zip(number(high)).filter(|(low, high)| low <= high);
    both.ok_or_else(|| "expected 2 or more, or a range such as 5..20".to_owned())
}

/// Formats of what a study prints at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RunFormat {
    /// The document that `linkrate schema` describes
    Json,
    /// A test of the kernel (KTAP), with exit codes of kselftest; NETIF, REMOTE_TYPE, REMOTE_ARGS and REMOTE_V4
    /// stand for --interface and --client
    Ktap,
}

/// `linkrate run`
#[derive(Debug, Args)]
pub struct StudyRunArgs {
    /// A built-in study's name, or the path of a study file
    pub study: String,
    /// Runs the quick form.
    #[arg(long, help = "Run a reduced set of cells in under a minute")]
    pub quick: bool,
    #[command(flatten)]
    pub changes: ChangeArgs,
    /// Sample where the CPU time goes, in every run; sampling costs CPU time
    #[arg(long)]
    pub profile: bool,
    /// Seed for the order of runs [default: that of the study, or a new one for each session]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub cpus: CpuArgs,
    /// The results directory [default: results/STUDY-DATE-TIME]
    #[arg(long, short, alias = "output", short_alias = 'o', value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print one document of this format instead of the answer, and nothing else on stdout
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<RunFormat>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Print all details instead of the answer, or only some of them
    #[arg(long, value_name = "PARTS", value_enum, num_args = 0..=1, value_delimiter = ',',
        default_missing_value = "all", conflicts_with_all = ["format", "json"])]
    pub details: Vec<Details>,
    #[command(flatten)]
    pub existing: ExistingArgs,
    #[command(flatten)]
    pub fleet: FleetArgs,
    #[command(flatten)]
    pub deploy: DeployArgs,
    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}
