//! Benchmarks: ratios to third-party peers and to other commits, all contestants in turn in one run; and sessions of one
//! study.

use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::cargo::{cargo, root};
use crate::git::git;
use crate::peers;
use crate::summary::Outcome;

/// Runs the benchmarks and lets them print as they go. They judge nothing: the ratios are for a
/// user, on a machine that does nothing else.
pub fn run(install: bool) -> io::Result<ExitCode> {
    // a peer that cannot be had is told by the benchmark, by name
    peers::provide(peers::OF_BENCHMARKS, install)?;
    for package in ["linkrate-wire", "linkrate"] {
        if !cargo(["bench", "--locked", "--package", package, "--benches"]).status()?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds another commit, and measures it and this one by turns.
pub fn against(commit: &str) -> io::Result<ExitCode> {
    let unknown = || io::Error::other(format!("git knows no commit {commit:?}"));
    let asked = format!("{commit}^{{commit}}");
    let commit = git(&["rev-parse", "--verify", "--quiet", &asked])?.ok_or_else(unknown)?;
    let clone = root().join("target/against").join(&commit[..12]);
    if !clone.exists() {
        let tree = clone.to_string_lossy();
        git(&["clone", "--quiet", "--no-checkout", ".", &tree])?.ok_or_else(unknown)?;
    }
    let tree = clone.to_string_lossy();
    git(&["-C", &tree, "checkout", "--quiet", "--detach", &commit])?.ok_or_else(unknown)?;
    let mut build = cargo(["build", "--locked", "--release", "--package", "linkrate"]);
    build.current_dir(&clone).env_remove("CARGO_TARGET_DIR");
    let mut measure =
        cargo(["bench", "--locked", "--package", "linkrate", "--bench", "against", "--"]);
    measure.arg(clone.join("target/release/linkrate"));
    for mut command in [build, measure] {
        if !command.status()?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one study in sessions with fresh labs, adds at most `add` of them to those in `folder`, and judges all.
pub fn sessions(folder: Option<&Path>, add: u32) -> io::Result<Outcome> {
    let folder = folder.map(std::path::absolute).transpose()?;
    let status = sessions_command(folder.as_deref(), add).status()?;
    Ok(match status.success() {
        true => Outcome::passed(),
        false => Outcome::failed(format!("the benchmark ended with {status}\n")),
    })
}

/// The benchmark runs in the directory of its package, so `folder` must be absolute.
fn sessions_command(folder: Option<&Path>, add: u32) -> Command {
    let mut command = cargo(["bench", "--locked", "--package", "linkrate", "--bench", "sessions"]);
    if let Some(folder) = folder {
        command.arg("--").arg(folder).arg(add.to_string());
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_kept_where_they_are_asked_for() {
        let words = |folder: Option<&Path>| -> Vec<String> {
            let command = sessions_command(folder, 2);
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let plain = words(None);
        assert_eq!(plain[..2], ["bench", "--locked"]);
        let kept = words(Some(Path::new("/days")));
        assert_eq!(kept[..plain.len()], plain);
        assert_eq!(kept[plain.len()..], ["--", "/days", "2"]);
    }
}
