//! Arguments of `linkrate study`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use linkrate_terms::CpuMeter;

use super::cpus::cpu_meters;
use super::existing::ExistingArgs;

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

/// `linkrate study watch`
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Its results directory
    pub directory: PathBuf,
    /// Print one JSON document after each block, each on a line of its own
    #[arg(long)]
    pub json: bool,
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
