//! Git, asked about the repository of the workspace.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::root;

/// What git prints for `words`, trimmed; `None` where it fails, as outside a repository.
pub fn git(words: &[&str]) -> io::Result<Option<String>> {
    let output = Command::new("git").arg("-C").arg(root()).args(words).output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then_some(text))
}

/// The Rust files of the repository, below its root.
pub fn rust_files() -> io::Result<Vec<PathBuf>> {
    Ok(git(&["ls-files", "*.rs"])?.unwrap_or_default().lines().map(PathBuf::from).collect())
}

/// Whether a whole file is tests or benchmarks, by its folder or its name.
pub fn is_test(path: &Path) -> bool {
    let others = ["tests", "benches", "examples", "fuzz_targets", "tests.rs"];
    path.iter().any(|part| others.iter().any(|other| part == *other))
}
