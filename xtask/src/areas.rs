//! The areas of `cargo xtask test`: each can be tested alone, in its own time.

use std::io;

use crate::cargo::{cargo, root, targets};
use crate::process::check;
use crate::runs::{self, Extent, Selection};
use crate::summary::{Outcome, Summary};
use crate::tools::{CARGO_DEB, CARGO_DENY, CARGO_MUTANTS, CARGO_NEXTEST, MDBOOK, Tool};
use crate::{book, fuzz, mutants, package, peers, phrases, python};
use crate::{room, tools};

/// Seconds that each fuzz target gets, beside its seeds.
const FUZZ_SECONDS: u32 = 5;

/// The same in an exhaustive run.
const FUZZ_SECONDS_OF_ALL: u32 = 120;

/// A part of what must pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Area {
    /// Formatting, clippy, texts, dependencies.
    Lint,
    /// The tests of one crate that need no machine for themselves.
    Crate(String),
    /// Those of real traffic.
    Real,
    /// API documentation and the manual.
    Docs,
    /// Fuzz targets.
    Fuzz,
    /// The Debian package.
    Package,
    /// Whether tests notice changes to the code. Not part of everything, but of everything that is exhaustive.
    Mutants,
}

impl Area {
    /// The areas with these names; none if there are no names, which means everything. An unknown name is an error that
    /// lists them.
    pub fn chosen(names: &[String]) -> io::Result<Vec<Self>> {
        let mut packages: Vec<String> =
            targets(&root().join("Cargo.toml"))?.into_iter().map(|target| target.package).collect();
        packages.dedup();
        names.iter().map(|name| Self::named(name, &packages).map_err(io::Error::other)).collect()
    }

    fn named(name: &str, packages: &[String]) -> Result<Self, String> {
        let is_its = |package: &&String| {
            package.as_str() == name || package.strip_prefix("linkrate-") == Some(name)
        };
        Ok(match name {
            "lint" => Self::Lint,
            "real" => Self::Real,
            "docs" => Self::Docs,
            "fuzz" => Self::Fuzz,
            "package" => Self::Package,
            "mutants" => Self::Mutants,
            _ => match packages.iter().find(is_its) {
                Some(package) => Self::Crate(package.clone()),
                None => {
                    let packages = packages.join(", ");
                    return Err(format!(
                        "no area \"{name}\"; there are lint, real, docs, fuzz, package, mutants, and the \
                         crates {packages}"
                    ));
                }
            },
        })
    }

    /// Whether its tests start third-party programs.
    fn needs_peers(&self) -> bool {
        matches!(self, Self::Crate(_) | Self::Real | Self::Package)
    }

    /// The tools without which it is skipped.
    fn tools(&self) -> &'static [Tool] {
        match self {
            Self::Lint => &[CARGO_DENY],
            Self::Crate(_) | Self::Real => &[CARGO_NEXTEST],
            Self::Docs => &[MDBOOK],
            Self::Fuzz => &[],
            Self::Package => &[CARGO_DEB, MDBOOK],
            Self::Mutants => &[CARGO_MUTANTS, CARGO_NEXTEST],
        }
    }
}

/// Tests these areas, or everything if there are none.
pub fn test(summary: &mut Summary, areas: &[Area], extent: Extent, install: bool) {
    summary.step("disk", room::check);
    if summary.has_failed() {
        return;
    }
    if areas.is_empty() {
        return everything(summary, extent, install);
    }
    if areas.iter().any(Area::needs_peers) {
        peers(summary, install);
    }
    let mut wanted: Vec<Tool> = areas.iter().flat_map(Area::tools).copied().collect();
    wanted.dedup();
    summary.step("tools", || tools::provide(&wanted, install));
    for area in areas {
        match area {
            Area::Lint => lint(summary),
            Area::Crate(name) => build_and_test(summary, Selection::Crate(name), extent),
            Area::Real => build_and_test(summary, Selection::Real, extent),
            Area::Docs => docs(summary),
            Area::Fuzz => run_fuzz(summary, extent),
            Area::Package => summary.step("package", package::test),
            Area::Mutants => mutants(summary),
        }
    }
}

fn everything(summary: &mut Summary, extent: Extent, install: bool) {
    // packages come from the network, so what needs none of them continues meanwhile
    summary.beside(
        |summary| peers(summary, install),
        |summary| {
            summary.step("tools", || tools::provide(tools::OF_TESTS, install));
            lint(summary);
            build(summary, Selection::Everything);
            docs(summary);
        },
    );
    // fuzz targets judge no figure; beside the first tests, the package made four of them fail
    summary.beside(
        |summary| summary.step("package", package::test),
        |summary| run_fuzz(summary, extent),
    );
    run_tests(summary, Selection::Everything, extent);
    if extent == Extent::Exhaustive {
        summary.step("tools of mutants", || tools::provide(&[CARGO_MUTANTS], install));
        mutants(summary);
    }
}

/// Makes third-party programs available.
fn peers(summary: &mut Summary, install: bool) {
    summary.step("peers", || peers::provide(peers::OF_TESTS, install));
    summary.step("python", || python::provide(python::ALL, install));
}

fn lint(summary: &mut Summary) {
    summary.step("format", format);
    summary.step("clippy", clippy);
    summary.step("phrases", phrases::lint);
    summary.step("dependencies", dependencies);
}

fn build(summary: &mut Summary, selection: Selection<'_>) {
    let timings = summary.with_times;
    summary.step("build", || runs::build(selection, timings));
}

fn build_and_test(summary: &mut Summary, selection: Selection<'_>, extent: Extent) {
    build(summary, selection);
    run_tests(summary, selection, extent);
}

fn run_tests(summary: &mut Summary, selection: Selection<'_>, extent: Extent) {
    summary.step("tests", || runs::run(selection, extent));
    if extent == Extent::Exhaustive {
        let part = match selection {
            Selection::Everything => "all tests",
            Selection::Real => "tests of real traffic",
            Selection::Crate(name) => name,
        };
        summary.record(part, "tests");
    }
}

fn mutants(summary: &mut Summary) {
    summary.step("mutants", mutants::run);
    summary.record("mutants", "mutants");
}

fn run_fuzz(summary: &mut Summary, extent: Extent) {
    let seconds = match extent {
        Extent::Usual => FUZZ_SECONDS,
        Extent::Exhaustive => FUZZ_SECONDS_OF_ALL,
    };
    fuzz::run(summary, &[], fuzz::Budget { seconds, seed: 1 });
    if extent == Extent::Exhaustive {
        summary.record("fuzz targets", "fuzz");
    }
}

fn docs(summary: &mut Summary) {
    // a link to a private item is found by rustdoc alone
    summary.step("API documentation", api_documentation);
    summary.step("manual", book::build);
    summary.step("manual links", book::links);
}

/// `cargo fmt`.
fn format() -> io::Result<Outcome> {
    check(&cargo(["fmt", "--all", "--check"]))
}

/// `cargo clippy` over everything.
fn clippy() -> io::Result<Outcome> {
    // --all-targets leaves out what `test = false` keeps from `cargo test`, also beside --test
    for targets in [&["--all-targets"][..], &runs::TARGETS] {
        let mut command = cargo(["clippy", "--quiet", "--locked", "--workspace"]);
        let outcome = check(command.args(targets).args(["--", "--deny", "warnings"]))?;
        if outcome.failed > 0 {
            return Ok(outcome);
        }
    }
    Ok(Outcome::passed())
}

/// `cargo deny`. Known vulnerabilities (`advisories`) are left out: the list of them comes from the
/// network, so that the same commit would pass today and fail tomorrow.
fn dependencies() -> io::Result<Outcome> {
    if CARGO_DENY.find().is_none() {
        let reason = format!("cargo-deny is not installed; {}", CARGO_DENY.remedy());
        return Ok(Outcome::skipped("dependencies", reason));
    }
    check(&cargo(["deny", "--locked", "check", "licenses", "bans", "sources"]))
}

/// `cargo doc`, where a broken link is an error.
fn api_documentation() -> io::Result<Outcome> {
    let mut command = cargo(["doc", "--quiet", "--workspace", "--no-deps", "--locked"]);
    check(command.env("RUSTDOCFLAGS", "--deny warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_short_names() {
        let packages = ["linkrate".to_owned(), "linkrate-wire".to_owned()];
        let named = |name: &str| Area::named(name, &packages);
        assert_eq!(named("wire"), named("linkrate-wire"));
        assert_eq!(named("linkrate"), Ok(Area::Crate("linkrate".to_owned())));
        assert_eq!(named("real"), Ok(Area::Real));
        let error = named("wires").unwrap_err();
        assert!(error.contains("no area \"wires\"; there are lint, real, "), "{error}");
    }

    #[test]
    fn this_workspace_has_an_area_for_each_crate() {
        let names = ["wire".to_owned(), "xtask".to_owned()];
        assert_eq!(Area::chosen(&names).unwrap().len(), 2);
    }
}
