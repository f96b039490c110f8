//! The Debian package: made by cargo-deb, judged by lintian, and installed, used, removed and
//! purged on a copy of this machine's files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::book;
use crate::cargo::{cargo, root, target_directory};
use crate::git::git;
use crate::process;
use crate::runs::{self, Selection};
use crate::summary::Outcome;
use crate::tools::CARGO_DEB;

/// How the program in the package is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// As tests have it, for this machine.
    Tests,
    /// As [`crate::dist`] hands it out, for this target.
    Dist(&'static str),
}

/// Packing and installing take seconds; a machine may be busy.
const LIMIT: Duration = Duration::from_secs(300);

/// The shells, with the name under which each looks for completions of linkrate.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "linkrate"), ("zsh", "_linkrate"), ("fish", "linkrate.fish")];

/// Who made the package's changelog.
const MAINTAINER: &str = "The linkrate developers <maintainers@linkrate.invalid>";

impl Build {
    /// Where cargo leaves the program.
    pub fn program(self) -> PathBuf {
        let built = match self {
            Self::Tests => target_directory().join("debug"),
            Self::Dist(target) => target_directory().join(target).join("dist"),
        };
        built.join("linkrate")
    }

    /// What cargo-deb must know of it.
    fn arguments(self) -> Vec<&'static str> {
        match self {
            // its debug information is for backtraces of tests, and a small package takes half a minute
            Self::Tests => vec!["--profile", "dev", "--strip", "--fast"],
            Self::Dist(target) => vec!["--profile", "dist", "--target", target],
        }
    }
}

/// Packs the program of tests, judges the package, and installs it.
pub fn test() -> io::Result<Outcome> {
    if CARGO_DEB.find().is_none() {
        let reason = format!("cargo-deb is not installed; {}", CARGO_DEB.remedy());
        return Ok(Outcome::skipped("package", reason));
    }
    // `cargo build` would build nearly all of it again: what tests depend on asks for other features of dependencies
    let build = runs::build(Selection::Everything, false)?;
    if build.failed > 0 {
        return Ok(build);
    }
    let made = root().join("target/package/deb");
    let package = match make(Build::Tests, &made, epoch())? {
        Ok(package) => package,
        Err(output) => return Ok(Outcome::failed(output)),
    };
    let mut outcome = Outcome::default();
    for judge in [lintian, install] {
        let judged = judge(&package)?;
        outcome.passed += judged.passed;
        outcome.failed += judged.failed;
        outcome.skipped.extend(judged.skipped);
        outcome.output.push_str(&judged.output);
    }
    Ok(outcome)
}

/// The time of the sources, in seconds since 1970: that of the commit, and 0 outside a repository.
pub fn epoch() -> u64 {
    let reported = git(&["log", "-1", "--format=%ct"]).ok().flatten();
    reported.and_then(|seconds| seconds.parse().ok()).unwrap_or(0)
}

/// Packs the program of `build`, which is built, into a new file in `directory`. `Err` is what the
/// program that failed has said.
pub fn make(build: Build, directory: &Path, epoch: u64) -> io::Result<Result<PathBuf, String>> {
    if let Err(output) = stage(&build.program(), epoch)? {
        return Ok(Err(output));
    }
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    let mut deb = cargo(["deb", "--package", "linkrate", "--no-build", "--locked", "--quiet"]);
    deb.args(build.arguments()).arg("--output").arg(directory);
    deb.env("SOURCE_DATE_EPOCH", epoch.to_string());
    let packed = process::run(&deb, LIMIT)?;
    if !packed.success {
        return Ok(Err(packed.output));
    }
    let mut files =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    match <[PathBuf; 1]>::try_from(files) {
        Ok([package]) => Ok(Ok(package)),
        Err(files) => Ok(Err(format!("cargo-deb made not one package but {files:?}\n"))),
    }
}

/// Writes into `target/package` all that the package has beside the program and files of the
/// repository: `linkrate/Cargo.toml` takes it from there.
fn stage(program: &Path, epoch: u64) -> io::Result<Result<(), String>> {
    let stage = root().join("target/package");
    for part in ["man", "completions"] {
        let directory = stage.join(part);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(directory)?;
    }
    let mut man = Command::new(program);
    let written = process::run(man.arg("man").arg(stage.join("man")), LIMIT)?;
    if !written.success {
        return Ok(Err(written.output));
    }
    for (shell, name) in COMPLETIONS {
        let printed = process::run(Command::new(program).args(["completions", shell]), LIMIT)?;
        if !printed.success {
            return Ok(Err(printed.output));
        }
        fs::write(stage.join("completions").join(name), printed.output)?;
    }
    fs::write(stage.join("changelog"), changelog(epoch)?)?;
    let manual = book::build()?;
    if manual.failed > 0 {
        return Ok(Err(manual.output));
    }
    // a package without the manual is still one
    fs::create_dir_all(root().join("docs/book"))?;
    Ok(Ok(()))
}

/// The package's own changelog, in Debian's form.
fn changelog(epoch: u64) -> io::Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "--rfc-email", "--date"]).arg(format!("@{epoch}"));
    let date = date.env("LC_ALL", "C").output()?.stdout;
    let date = String::from_utf8_lossy(&date).trim().to_owned();
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!(
        "linkrate ({version}-1) unstable; urgency=medium\n\n  \
         * All changes are in /usr/share/doc/linkrate/changelog.gz.\n\n \
         -- {MAINTAINER}  {date}\n"
    ))
}

/// Judges the package by Debian's policy: an error fails, except those with a reason in
/// `packaging/debian/lintian-overrides`.
fn lintian(package: &Path) -> io::Result<Outcome> {
    if process::find("lintian").is_none() {
        return Ok(Outcome::skipped("package: lintian", "not installed; apt-get install lintian"));
    }
    let mut lintian = Command::new("lintian");
    // a root user is no reason for a warning here
    lintian.args(["--allow-root", "--fail-on", "error", "--tag-display-limit", "0"]).arg(package);
    let judged = process::run(&lintian, LIMIT)?;
    Ok(if judged.success { Outcome::passed() } else { Outcome::failed(judged.output) })
}

/// Installs the package, uses it, removes and purges it, on a copy of this machine's files that
/// takes all writes and is gone at the end.
fn install(package: &Path) -> io::Result<Outcome> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-eu"]);
    unshare.arg(root().join("packaging/debian/try")).arg(package);
    let tried = process::run(&unshare, LIMIT)?;
    let last = tried.output.trim_end().lines().next_back().unwrap_or_default().to_owned();
    Ok(match (tried.success, last.strip_prefix("skipped: ")) {
        (_, Some(reason)) => Outcome::skipped("package: installation", reason),
        (true, None) => Outcome::passed(),
        (false, None) => Outcome::failed(tried.output),
    })
}
