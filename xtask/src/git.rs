//! Git, asked about the repository of the workspace.

use std::io;
use std::process::Command;

use crate::cargo::root;

/// What git prints for `words`, trimmed; `None` where it fails, as outside a repository.
///
/// # Errors
/// Git could not be started.
pub fn git(words: &[&str]) -> io::Result<Option<String>> {
    let output = Command::new("git").arg("-C").arg(root()).args(words).output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then_some(text))
}
