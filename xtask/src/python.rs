//! Third-party programs from PyPI that tests start, each in a virtual environment below `target`.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::cargo::root;
use crate::process;
use crate::summary::{Note, Outcome};

/// Draws plots and starts netperf; its plots need matplotlib.
pub const FLENT: Package = Package { program: "flent", needs: &["flent==2.3.0", "matplotlib"] };

/// All of them.
pub const ALL: &[Package] = &[FLENT];

/// A program from PyPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// How it is called.
    pub program: &'static str,
    /// What pip installs.
    needs: &'static [&'static str],
}

/// matplotlib alone is some 40 MB.
const LIMIT: Duration = Duration::from_secs(600);

impl Package {
    /// Its virtual environment. Tests look for the program in its `bin` (`linkrate/tests/real/flent.rs`).
    fn environment(self) -> PathBuf {
        root().join("target/python").join(self.program)
    }

    fn is_here(self) -> bool {
        self.environment().join("bin").join(self.program).is_file()
    }

    /// The commands that install it: into an environment of its own, the machine's stays as it is.
    fn install(self) -> [Command; 2] {
        let environment = self.environment();
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&environment);
        let mut pip = Command::new(environment.join("bin/pip"));
        // without a network, say so soon
        pip.args(["install", "--quiet", "--retries", "1"]).args(self.needs);
        [make, pip]
    }
}

/// Makes `packages` available, by installing them where that is allowed and possible.
///
/// A program that stays missing is no failure: the tests that need it are skipped by name.
pub fn provide(packages: &[Package], install: bool) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut remarks = Vec::new();
    for package in packages {
        let mut state = "present";
        let mut why = "not installed".to_owned();
        if !package.is_here() && install {
            println!("   pip install {}", package.needs.join(" "));
            state = "installed";
            for command in package.install() {
                let finished = process::run(&command, LIMIT)?;
                if !finished.success {
                    let last =
                        finished.output.trim_end().lines().next_back().unwrap_or("no message");
                    why = format!("python3 could not install it: {}", last.trim());
                    break;
                }
            }
        }
        if !package.is_here() {
            outcome.skipped.push(Note { name: format!("peer {}", package.program), reason: why });
            state = "missing";
        }
        remarks.push(format!("{} {state}", package.program));
    }
    Ok(outcome.remark(remarks.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No registry has a name like this.
    const ABSENT: Package = Package { program: "no_such_program+", needs: &["no_such_program+"] };

    #[test]
    fn a_missing_program_is_named() {
        let outcome = provide(&[ABSENT], false).unwrap();
        assert_eq!((outcome.passed, outcome.failed), (0, 0));
        assert_eq!(outcome.remark, "no_such_program+ missing");
        assert_eq!(outcome.skipped[0].name, "peer no_such_program+");
        assert_eq!(outcome.skipped[0].reason, "not installed");
    }

    #[test]
    fn flent_is_installed_beside_the_build() {
        let [make, pip] = FLENT.install();
        assert_eq!(make.get_program(), "python3");
        assert!(pip.get_program().to_string_lossy().ends_with("target/python/flent/bin/pip"));
        assert!(pip.get_args().any(|argument| argument == "flent==2.3.0"));
    }
}
