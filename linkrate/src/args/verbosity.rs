//! Options about how much is printed, and how.

use clap::{Args, ValueEnum};
use linkrate_sys::stderr;

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
