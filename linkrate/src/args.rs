//! The arguments of every command: names, help, and the types that they are read into.
//!
//! Commands import from here, and nothing here imports a command. Arguments of commands that have few are in this file.

pub mod adapter;
pub mod examples;
pub mod existing;
pub mod fleet;
pub mod iperf3;
pub mod lab;
pub mod limit;
pub mod measure;
pub mod metrics;
pub mod serve;
pub mod settings;
pub mod study;
pub mod testbed;

use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use clap_complete::Shell;
use linkrate_study::adapter::MAX_MODEL_BYTES;
use linkrate_study::store::files::{Refusal, read_named};
use linkrate_sys::stderr;

use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::program;
use adapter::{AdapterCommand, ModelsArgs};
use iperf3::Iperf3Args;
use lab::LabCommand;
use limit::LimitArgs;
use measure::MeasureArgs;
use serve::ServeArgs;
use study::StudyCommand;

/// Measures what network adapters deliver and what they cost the CPU.
#[derive(Debug, Parser)]
#[command(
    name = "linkrate",
    version = VERSION,
    long_version = LONG_VERSION,
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

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How much is printed on standard error.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct VerbosityArgs {
    /// Print no progress and no notes; warnings and errors stay
    #[arg(long, short, conflicts_with = "verbose", hide_short_help = true, help_heading = None::<&str>)]
    pub quiet: bool,
    /// Print a line for each run
    #[arg(long, short, hide_short_help = true, help_heading = None::<&str>)]
    pub verbose: bool,
}

impl VerbosityArgs {
    /// Leaves out notes where they are not wanted.
    pub fn apply(self) {
        if self.quiet {
            stderr::be_quiet();
        }
    }
}

/// Options as netperf has them; those of one test are behind `--`.
#[derive(Debug, Args)]
#[command(after_help = "Options of all tests:
  -H HOST[,4|6]     host of the netserver, or of `linkrate serve` [default: localhost]
  -p PORT           its port [default: 12865]
  -4, -6            IPv4 [default, where the host has it] or IPv6
  -Z PASSPHRASE     passphrase of the netserver (netserver -Z)
  -t TEST           TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, TCP_RR, TCP_CRR, TCP_CC, UDP_STREAM,
                    UDP_RR, OMNI [default: TCP_STREAM]; TCP_MSS, LOC_CPU, REM_CPU only answer
  -l LENGTH         seconds, or minus bytes or transactions [default: 10]
  -c, -C            measure local (-c) and remote (-C) CPU utilization
  -D SECONDS        results while a test lasts
  -I 95|99[,WIDTH]  repeat until the confidence interval is this narrow: full width, per cent
  -i MAX[,MIN]      maximum and minimum number of tests of -I [default: 10,3]
  -T LOCAL,REMOTE   CPUs of both programs
  -Y LOCAL,REMOTE   type of service: a number, or a name such as EF, CS5, AF21
  -y LOCAL,REMOTE   priority of packets (SO_PRIORITY)
  -b CALLS[,REMOTE], -w TIME[,REMOTE]  calls in each interval; ms, or with u or s
  -s SECONDS        wait before the payload begins
  -F FILE[,REMOTE]  payload out of files
  -W, -a, -o SEND,RECV  number of buffers; their alignment and offset; remote: -A, -O
  -L ADDRESS        local address of the data, unless -- -H or -- -L names another
  -f UNIT           k, m, g (bit/s), K, M, G (bytes/s), x (transactions/s)
                    [default: m; x for transactions]
  -P 0|1            headings off or on; -B TEXT: text behind results without headings
  -v 0|1|2          one number, lines, or lines with details and a histogram of times
  -j                latencies
  -k, -o, -O [NAMES]  results by their names: pairs, with commas, or in columns

Options of one test, behind --:
  -s, -S SEND,RECV  local and remote socket buffers
  -m LOCAL[,REMOTE], -M REMOTE[,LOCAL]  bytes of a send, and of a receive
  -r REQUEST,RESPONSE  bytes of transactions [default: 1,1]
  -b NUMBER         requests outstanding in addition to the first
  -D, -C            TCP_NODELAY; TCP_CORK
  -G BYTES          largest segment
  -q BYTES/S        maximum rate (SO_MAX_PACING_RATE)
  -K LOCAL,REMOTE   congestion control
  -H HOST, -4, -6   where the data goes, if not to the address of the control connection
  -P LOCAL,REMOTE   ports of the data connection; -L ADDRESS: its local address
  -U                TCP_CRR, TCP_CC: go on after a connection that fails
  -u TEXT           name of the test (UUID)
  -R 0|1            whether packets may go by a router [default: 1, and 0 with UDP_STREAM]
  -e SECONDS        UDP_RR: after a loss, wait this long and continue
  -T tcp|udp, -d send|recv|rr, -c   the test of OMNI; -c: a connection for each request
  -k, -o, -O        as above

Started under the name netperf, linkrate takes these options at once. Notes on
standard error name results of netperf that are wrong.")]
pub struct NetperfArgs {
    /// Options of netperf
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// `linkrate completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: CompletedShell,
}

/// Shells whose completions are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompletedShell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

impl From<CompletedShell> for Shell {
    fn from(shell: CompletedShell) -> Self {
        match shell {
            CompletedShell::Bash => Self::Bash,
            CompletedShell::Zsh => Self::Zsh,
            CompletedShell::Fish => Self::Fish,
        }
    }
}

/// `linkrate man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The directory; it is made if it is missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// The version and the commit, for `-V`. The build script finds the commit and the build.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("LINKRATE_COMMIT"), ")");

/// A line each for the version, the commit and the build, for `--version`.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("LINKRATE_COMMIT"),
    "\nbuild:  ",
    env!("LINKRATE_BUILD"),
);

/// The text of a model's file; the error names the file.
pub fn load_model(path: &Path) -> Result<String, String> {
    read_text(path, MAX_MODEL_BYTES, "model")
        .map_err(|reason| format!("{}: {reason}", path.display()))
}

/// A text file of at most so many bytes. It must be a regular file: a device may never end, and a
/// pipe may never begin.
pub fn read_text(path: &Path, most: u64, what: &str) -> Result<String, String> {
    let bytes = read_named(path, most).map_err(|refusal| match refusal {
        Refusal::TooLong { bytes, .. } => {
            format!("{bytes} bytes, expected a {what} of at most {most} bytes")
        }
        refusal => refusal.to_string(),
    })?;
    String::from_utf8(bytes).map_err(|_| format!("it is not UTF-8, expected a {what} as text"))
}

/// `linkrate doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "The doctor changes nothing. Each finding under \"How it could be tuned\" names the values and \
                        their source, the likely cost, and the command that changes the setting."
)]
pub struct DoctorArgs {
    /// One of its jobs; without it, check and tune
    #[command(subcommand)]
    pub job: Option<DoctorJob>,
    /// Print one JSON document and nothing else on stdout
    #[arg(long, global = true)]
    pub json: bool,
}

/// The jobs of the doctor.
#[derive(Debug, Subcommand)]
pub enum DoctorJob {
    /// Check what this host can measure
    Check,
    /// Suggest settings that raise throughput or lower CPU cost; builds no testbed
    Tune(TuneArgs),
    /// Run loads of known size on the CPUs of the system under test and print the error of each CPU meter
    SelfTest,
}

/// `linkrate doctor tune`
#[derive(Debug, Default, Args)]
pub struct TuneArgs {
    /// Examine this interface only [default: all that are up]
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Compute with this round trip [default: that of the busiest connection, else 1 ms]
    #[arg(long, value_name = "TIME")]
    pub round_trip: Option<String>,
}

/// `linkrate restore`
#[derive(Debug, Args)]
#[command(
    after_help = "Restores the settings of existing interfaces that a killed linkrate process has left changed, and brings \
                  back those that it had moved into a client's namespace."
)]
pub struct RestoreArgs {
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    pub json: bool,
}
