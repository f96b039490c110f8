//! Rust programs that checks use and a toolchain does not bring.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::cargo::{self, cargo};
use crate::process;
use crate::summary::{Note, Outcome};

/// Makes the Debian package. Its features are for compression by liblzma, which it has another way.
pub const CARGO_DEB: Tool = Tool { program: "cargo-deb", version: "3.8.0", features: Some("") };
/// Checks licences, duplicates and sources of dependencies.
pub const CARGO_DENY: Tool = Tool { program: "cargo-deny", version: "0.20.2", features: None };
/// Changes code and sees whether a test fails.
pub const CARGO_MUTANTS: Tool =
    Tool { program: "cargo-mutants", version: "27.1.0", features: None };
/// Runs tests, each in a process of its own.
pub const CARGO_NEXTEST: Tool =
    Tool { program: "cargo-nextest", version: "0.9.128", features: Some("default-no-update") };
/// Builds the manual, with a search. Its other features are for writing: a server, watching files.
pub const MDBOOK: Tool = Tool { program: "mdbook", version: "0.5.4", features: Some("search") };

/// Those that `cargo xtask test` needs.
pub const OF_TESTS: &[Tool] = &[CARGO_NEXTEST, CARGO_DENY, MDBOOK, CARGO_DEB];

/// Those that releases are made with.
pub const OF_RELEASES: &[Tool] = &[CARGO_DEB, MDBOOK];

/// A program from crates.io, in the package of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// How it is called.
    pub program: &'static str,
    /// The version to install. Another version that is already installed is used.
    version: &'static str,
    /// The features that are needed; `None` for those that it has by default.
    features: Option<&'static str>,
}

/// Building all takes a minute on two idle CPUs.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Builds fast and checks a few files slowly, instead of the other way round: with the profiles of
/// the packages, building takes several times as long as all that the programs will ever do here.
const PROFILE: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "false"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];

impl Tool {
    /// Where it is, if anywhere: by PATH, or where cargo installs programs.
    pub fn find(self) -> Option<PathBuf> {
        let installed = || Some(cargo::home()?.join("bin").join(self.program));
        process::find(self.program).or_else(|| installed().filter(|path| path.is_file()))
    }

    /// The command that installs it.
    pub fn remedy(self) -> String {
        let features = match self.features {
            Some(features) if !features.is_empty() => format!(" --features {features}"),
            _ => String::new(),
        };
        format!("cargo install --locked {}@{}{features}", self.program, self.version)
    }

    fn install(self) -> Command {
        let package = format!("{}@{}", self.program, self.version);
        let mut command = cargo(["install", "--locked", "--quiet", &package]);
        if let Some(features) = self.features {
            command.args(["--no-default-features", "--features", features]);
        }
        // without a network, say so soon
        command.envs(PROFILE).env("CARGO_NET_RETRY", "1");
        command
    }
}

/// Makes `tools` available, by installing them where that is allowed and possible, once for each
/// machine.
///
/// A tool that stays missing is no failure: the check that needs it is skipped by name.
pub fn provide(tools: &[Tool], install: bool) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut remarks = Vec::new();
    for tool in tools {
        let mut state = "present";
        let mut why = "not installed".to_owned();
        if tool.find().is_none() && install {
            println!("   {}", tool.remedy());
            let finished = process::run(&tool.install(), LIMIT)?;
            let last = finished.output.trim_end().lines().next_back().unwrap_or("no message");
            why = format!("cargo could not install it: {}", last.trim());
            state = "installed";
        }
        if tool.find().is_none() {
            let reason = format!("{why}; {}", tool.remedy());
            outcome.skipped.push(Note { name: format!("tool {}", tool.program), reason });
            state = "missing";
        }
        remarks.push(format!("{} {state}", tool.program));
    }
    Ok(outcome.remark(remarks.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No registry has a name like this.
    const ABSENT: Tool = Tool { program: "no_such_tool+", version: "1.0.0", features: None };

    #[test]
    fn names_a_missing_tool_with_its_remedy() {
        let outcome = provide(&[ABSENT], false).unwrap();
        assert_eq!((outcome.passed, outcome.failed), (0, 0));
        assert_eq!(outcome.remark, "no_such_tool+ missing");
        let remedy = "cargo install --locked no_such_tool+@1.0.0";
        assert_eq!(outcome.skipped[0].name, "tool no_such_tool+");
        assert_eq!(outcome.skipped[0].reason, format!("not installed; {remedy}"));
    }

    #[test]
    fn skips_a_tool_that_cannot_be_installed_with_the_reason() {
        let outcome = provide(&[ABSENT], true).unwrap();
        assert_eq!((outcome.passed, outcome.failed, outcome.skipped.len()), (0, 0, 1));
        let reason = &outcome.skipped[0].reason;
        assert!(reason.starts_with("cargo could not install it: "), "{reason}");
    }

    #[test]
    fn does_not_reinstall_a_tool() {
        let there = Tool { program: "cargo", ..ABSENT };
        let outcome = provide(&[there], true).unwrap();
        assert_eq!((outcome.skipped.len(), outcome.remark.as_str()), (0, "cargo present"));
    }

    #[test]
    fn checks_build_without_extra_features_and_optimisation() {
        let command = MDBOOK.install();
        let arguments: Vec<_> = command.get_args().collect();
        let package = format!("mdbook@{}", MDBOOK.version);
        assert_eq!(
            arguments,
            [
                "install",
                "--locked",
                "--quiet",
                &package,
                "--no-default-features",
                "--features",
                "search"
            ]
        );
        assert_eq!(command.get_envs().filter(|(name, _)| *name != "CARGO_NET_RETRY").count(), 3);
    }
}
