//! Exit codes, and the text of a failure.

use std::fmt::Write as _;

use linkrate_lab::LabError;
use linkrate_lab::control::client::ControlError;
use linkrate_study::analysis::runs_by_cell::RunsByCell;
use linkrate_study::store::{Ended, StoreError, StoredStudy};
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
    let excused = has_all_blocks(ended, stored);
    let failures = stored.runs.iter().filter_map(|run| run.failure());
    let reasons: Vec<&str> = failures
        .filter(|failure| !(excused && failure.disturbed))
        .map(|failure| failure.reason.as_str())
        .collect();
    match ended {
        Ended::Interrupted => return Ok(Exit::Interrupted),
        _ if reasons.is_empty() => return Ok(Exit::Success),
        _ => {}
    }
    unless_limited(Exit::RunsFailed, "runs have failed", &reasons.join("\n"))
}

/// Whether the rule of a study ended it with the blocks that it asks for, beside those that fell for what disturbed them.
/// The runs of a fleet are not repeated.
fn has_all_blocks(ended: &Ended, stored: &StoredStudy) -> bool {
    let study = &stored.plan.study;
    let whole = || RunsByCell::of(study, &stored.runs).whole_blocks(study);
    ended.is_complete() && study.fleet.is_none() && whole() >= study.method.min_blocks
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linkrate_stats::stop::StopReason;
    use linkrate_study::executor::RunFailure;
    use linkrate_study::fixture;
    use linkrate_study::store::{Outcome, StoredRun};

    use super::*;

    /// A study of five blocks of three cells, with runs of these blocks disturbed.
    fn exit(disturbed: &[u32], ended: StopReason) -> Exit {
        let mut stored = fixture::set(1, 5 + disturbed.len() as u32, [(1.0, 1.0); 3], 0.01, 0.0);
        let method = &mut stored.plan.study.method;
        (method.min_blocks, method.max_blocks, method.idle) = (5, 5, Duration::ZERO);
        let is_disturbed = |run: &StoredRun| run.cell == Some(1) && disturbed.contains(&run.block);
        for run in stored.runs.iter_mut().filter(|run| is_disturbed(run)) {
            let failure = fixture::failed("\"make\" used 40 %");
            run.outcome = Outcome::Failed(RunFailure { disturbed: true, ..failure });
        }
        of_runs(&Ended::Rule(ended), &stored).unwrap()
    }

    #[test]
    fn disturbed_runs_fail_a_study_that_lacks_blocks() {
        let whole = StopReason::MaxBlocks { blocks: 5 };
        assert_eq!(exit(&[], whole), Exit::Success);
        assert_eq!(exit(&[1, 3], whole), Exit::Success);
        assert_eq!(exit(&[1], StopReason::Disturbed { blocks: 4 }), Exit::RunsFailed);
    }

    #[test]
    fn a_run_that_failed_by_itself_fails_a_study() {
        let mut stored = fixture::set(1, 6, [(1.0, 1.0); 3], 0.01, 0.0);
        stored.runs[4].outcome = Outcome::Failed(fixture::failed("tso reads off"));
        let ended = Ended::Rule(StopReason::MaxBlocks { blocks: 5 });
        assert_eq!(of_runs(&ended, &stored).unwrap(), Exit::RunsFailed);
    }
}
