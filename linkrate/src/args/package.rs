//! Arguments of commands that packages of linkrate are made with.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

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
