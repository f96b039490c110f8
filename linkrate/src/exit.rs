//! Exit codes, and the text of a failure.

use std::fmt::Write as _;

use linkrate_lab::LabError;
use linkrate_lab::control::client::ControlError;
use linkrate_study::store::{Ended, StoreError, StoredRun, StoredStudy};
use linkrate_sys::{limits, stderr};

/// The exit code of the process. Scripts may rely on these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command succeeded.
    Success = 0,
    /// A failure that no other code covers.
    Failure = 1,
    /// The arguments or the study file are wrong; nothing was run.
    Usage = 2,
    /// This host lacks a privilege or a kernel feature.
    CannotMeasure = 3,
    /// The study ended with failed runs, and not only with some that were disturbed and repeated; the others are kept.
    RunsFailed = 4,
    /// A comparison found a regression.
    Regression = 5,
    /// A limit of processes, open files or memory was met.
    Limit = 6,
    /// Ended by a signal; the runs that were measured are kept. The [code](crate::interrupt::exit_code) is 128 and the
    /// signal's number.
    Interrupted = 130,
}

/// The text for `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 success, 1 failure, 2 wrong arguments or study file, \
    3 cannot measure on this host, 4 some runs failed, 5 regression, 6 a limit of processes, files or memory \
    was met, 128 + N ended by signal N.";

/// A failure on its way to stderr.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// The failure as a lowercase fragment, with the value.
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    pub fn with_hint(mut self, hint: Option<impl Into<String>>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }

    /// Any error with its chain of causes.
    pub fn from_error(exit: Exit, error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            // writing to a String does not fail
            let _ = write!(message, ": {error}");
            cause = error.source();
        }
        Self::new(exit, message)
    }

    /// The same, if a limit of the surroundings explains it, as one that names the limit.
    pub fn at_limit(self) -> Self {
        let may_be = matches!(self.exit, Exit::Failure | Exit::CannotMeasure);
        let Some(reached) = may_be.then(|| limits::reached(&self.message)).flatten() else {
            return self;
        };
        Self::new(Exit::Limit, format!("{}: {reached}", self.message)).with_hint(Some(reached.hint))
    }

    /// Prints the failure to stderr and gives its code.
    pub fn print(&self) -> Exit {
        stderr::line(format_args!("error: {}", self.message));
        if let Some(hint) = &self.hint {
            stderr::line(format_args!("hint: {hint}"));
        }
        self.exit
    }
}

/// How a command that made runs ends.
pub fn of_runs(ended: &Ended, stored: &StoredStudy) -> Result<Exit, Failure> {
    let failed = stored.runs.iter().filter_map(|run| Some((run, run.failure()?)));
    let missing =
        failed.filter(|(run, failure)| !failure.disturbed || !is_made_up_for(run, stored));
    let reasons: Vec<&str> = missing.map(|(_, failure)| failure.reason.as_str()).collect();
    match ended {
        Ended::Interrupted => return Ok(Exit::Interrupted),
        _ if reasons.is_empty() => return Ok(Exit::Success),
        _ => {}
    }
    unless_limited(Exit::RunsFailed, "runs have failed", &reasons.join("\n"))
}

/// Whether a run has been repeated as often as its study asks for.
fn is_made_up_for(run: &StoredRun, stored: &StoredStudy) -> bool {
    let like_it = |other: &&StoredRun| (other.cell, other.pair) == (run.cell, run.pair);
    let good = stored.runs.iter().filter(like_it).filter(|other| other.is_good()).count();
    good >= stored.plan.study.method.min_blocks as usize
}

/// How a command ends for these reasons: with `exit`, or with an error that says `what` and names the limit which
/// explains them.
pub fn unless_limited(exit: Exit, what: &str, reasons: &str) -> Result<Exit, Failure> {
    let Some(reached) = limits::reached(reasons) else { return Ok(exit) };
    Err(Failure::new(Exit::Limit, format!("{what}: {reached}")).with_hint(Some(reached.hint)))
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let exit = match &error {
            LabError::CannotMeasure { .. } => Exit::CannotMeasure,
            LabError::Invalid { .. } => Exit::Usage,
            LabError::Agent(linkrate_lab::connection::AgentError::Interrupted) => Exit::Interrupted,
            LabError::Agent(_) | LabError::System(_) | LabError::Io(_) => Exit::Failure,
        };
        let hint = error.hint();
        Self::new(exit, error.to_string()).with_hint(hint)
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let exit = if error.is_wrong() { Exit::Usage } else { Exit::Failure };
        let hint = error.hint();
        Self::new(exit, error.to_string()).with_hint(hint)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            // a wrong directory was given, and nothing was run
            StoreError::NotAStore { .. }
            | StoreError::NotEmpty { .. }
            | StoreError::Imported { .. } => Exit::Usage,
            _ => Exit::Failure,
        };
        let hint = error.hint();
        Self::from_error(exit, &error).with_hint(hint)
    }
}
