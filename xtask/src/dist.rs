//! What a release hands out: one static program, the Debian package, an archive, notes, and the sums
//! of all files. The same commit gives the same bytes, wherever it is built.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::cargo::{cargo, root};
use crate::git::git;
use crate::package::{self, Build};
use crate::process::{self, check};
use crate::summary::{Outcome, Summary};

/// The only target so far.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The program must be smaller, in octets.
const MAX_OCTETS: u64 = 15_000_000;

/// An optimised build of everything on two busy CPUs.
const BUILD: Duration = Duration::from_secs(60 * 60);

/// Packing takes seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// Builds everything into `target/artefacts`; with `again`, builds a clean clone elsewhere too, and compares.
pub fn run(summary: &mut Summary, again: bool) {
    let made = root().join("target/artefacts");
    summary.step("release", || release(&made));
    summary.step("static program", || program(&made));
    summary.step("package", || deb(&made));
    summary.step("archive", || archive(&made));
    summary.step("sums", || sums(&made));
    if again {
        summary.step("same bytes", || same_bytes(&made));
    }
}

/// The version, as a tag has it, or with the commit where no tag names it.
fn name() -> io::Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    let tag = git(&["describe", "--exact-match", "--tags", "HEAD"])?;
    Ok(match tag {
        Some(tag) if tag.strip_prefix('v') == Some(version) => version.to_owned(),
        Some(tag) => {
            let message = format!("tag {tag} is not v{version}, the version in Cargo.toml");
            return Err(io::Error::other(message));
        }
        None => match git(&["rev-parse", "--short=12", "HEAD"])? {
            Some(commit) => format!("{version}+{commit}"),
            None => version.to_owned(),
        },
    })
}

/// Begins an empty directory with the notes of the release.
fn release(made: &Path) -> io::Result<Outcome> {
    let name = name()?;
    if made.exists() {
        fs::remove_dir_all(made)?;
    }
    fs::create_dir_all(made)?;
    let text = fs::read_to_string(root().join("CHANGELOG.md"))?;
    let tagged = !name.contains('+');
    let heading = if tagged { name.as_str() } else { "Unreleased" };
    let Some(notes) = section(&text, heading) else {
        return Ok(Outcome::failed(format!("CHANGELOG.md has no section [{heading}]\n")));
    };
    fs::write(made.join("NOTES.md"), format!("# linkrate {name}\n\n{notes}"))?;
    Ok(Outcome::passed().remark(name))
}

/// The text of a section of a changelog, without its heading.
fn section(changelog: &str, heading: &str) -> Option<String> {
    let begin = format!("## [{heading}]");
    let mut lines = changelog.lines().skip_while(|line| !line.starts_with(&begin));
    lines.next()?;
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    Some(format!("{}\n", text.join("\n").trim()))
}

/// Builds the program, and checks that it is one small file that needs no other.
fn program(made: &Path) -> io::Result<Outcome> {
    let mut build = cargo(["build", "--locked", "--profile", "dist", "--target", TARGET]);
    build.args(["-p", "linkrate"]).envs(environment());
    let built = process::run(&build, BUILD)?;
    if !built.success {
        return Ok(Outcome::failed(built.output));
    }
    let program = made.join("linkrate");
    fs::copy(Build::Dist(TARGET).program(), &program)?;
    let bytes = fs::read(&program)?;
    if let Some(interpreter) = interpreter(&bytes) {
        return Ok(Outcome::failed(format!("linkrate is not static: it needs {interpreter}\n")));
    }
    let octets = bytes.len() as u64;
    let remark = format!("{:.1} MB", octets as f64 / 1e6);
    if octets >= MAX_OCTETS {
        let bound = MAX_OCTETS / 1_000_000;
        return Ok(Outcome::failed(format!("linkrate has {remark}, expected less than {bound}\n")));
    }
    Ok(Outcome::passed().remark(remark))
}

/// Variables of a build whose bytes do not depend on where it runs.
fn environment() -> Vec<(&'static str, OsString)> {
    // flags are separated so that a path may have blanks
    let mut flags = OsString::from("-Ctarget-feature=+crt-static");
    let named = [(Some(root()), "/linkrate"), (crate::cargo::home(), "/cargo")];
    for (path, name) in named {
        if let Some(path) = path {
            flags.push("\u{1f}--remap-path-prefix=");
            flags.push(path);
            flags.push("=");
            flags.push(name);
        }
    }
    vec![
        ("CARGO_ENCODED_RUSTFLAGS", flags),
        ("SOURCE_DATE_EPOCH", package::epoch().to_string().into()),
        ("CARGO_INCREMENTAL", "0".into()),
    ]
}

/// The program that starts this one, as its ELF header for 64 bits, little-endian, has it (PT_INTERP of
/// elf(5)); that of a dynamically linked program is `ld.so`.
fn interpreter(elf: &[u8]) -> Option<String> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, octets: usize| {
        let bytes = elf.get(at..at + octets)?;
        Some(bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let table = usize::try_from(number(32, 8)?).ok()?;
    let (size, count) = (number(54, 2)? as usize, number(56, 2)? as usize);
    let mut entries = (0..count).map(|entry| table + entry * size);
    let entry = entries.find(|&entry| number(entry, 4) == Some(PT_INTERP))?;
    let (at, octets) = (number(entry + 8, 8)? as usize, number(entry + 32, 8)? as usize);
    let text = elf.get(at..at.checked_add(octets)?)?;
    Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned())
}

/// Packs the program for Debian.
fn deb(made: &Path) -> io::Result<Outcome> {
    if crate::tools::CARGO_DEB.find().is_none() {
        let remedy = crate::tools::CARGO_DEB.remedy();
        return Ok(Outcome::failed(format!("cargo-deb is not installed; {remedy}\n")));
    }
    let directory = root().join("target/package/deb");
    match package::make(Build::Dist(TARGET), &directory, package::epoch())? {
        Ok(package) => {
            let name = package.file_name().unwrap_or_default().to_owned();
            fs::copy(&package, made.join(&name))?;
            Ok(Outcome::passed().remark(name.to_string_lossy()))
        }
        Err(output) => Ok(Outcome::failed(output)),
    }
}

/// Packs program, manual pages, completions, studies and licences for any Linux.
fn archive(made: &Path) -> io::Result<Outcome> {
    let name = format!("linkrate-{}-x86_64-linux", name()?);
    let stage = made.join(&name);
    fs::create_dir_all(&stage)?;
    fs::copy(made.join("linkrate"), stage.join("linkrate"))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root().join(file), stage.join(file))?;
    }
    let staged = root().join("target/package");
    let parts = [
        (staged.join("man"), "man"),
        (staged.join("completions"), "completions"),
        (root().join("studies"), "studies"),
    ];
    for (from, to) in parts {
        fs::create_dir_all(stage.join(to))?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            fs::copy(entry.path(), stage.join(to).join(entry.file_name()))?;
        }
    }
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    // pax headers have times of their own
    tar.args(["--format=gnu", "--use-compress-program", "gzip -9 -n"]);
    tar.arg(format!("--mtime=@{}", package::epoch())).arg("--create").arg("--file");
    tar.arg(made.join(format!("{name}.tar.gz"))).arg("--directory").arg(made).arg(&name);
    let packed = process::run(&tar, LIMIT)?;
    fs::remove_dir_all(&stage)?;
    Ok(if packed.success { Outcome::passed() } else { Outcome::failed(packed.output) })
}

/// Writes the SHA-256 of each file, as `sha256sum --check` reads it.
fn sums(made: &Path) -> io::Result<Outcome> {
    let script = "LC_ALL=C; export LC_ALL; sha256sum -- * >../sums && mv ../sums SHA256SUMS";
    check(Command::new("sh").args(["-c", script]).current_dir(made))
}

/// Builds the commit again from a clean clone at another place, and compares all sums.
fn same_bytes(made: &Path) -> io::Result<Outcome> {
    if git(&["status", "--porcelain", "--untracked-files=no"])?.is_none_or(|text| !text.is_empty())
    {
        return Ok(Outcome::failed("the sources differ from the commit; commit them first\n"));
    }
    let clone = root().join("target/again/linkrate");
    if clone.exists() {
        fs::remove_dir_all(&clone)?;
    }
    let cloned = check(Command::new("git").args(["clone", "--quiet"]).arg(root()).arg(&clone))?;
    if cloned.failed > 0 {
        return Ok(cloned);
    }
    let mut again = cargo(["xtask", "dist"]);
    again.current_dir(&clone).env_remove("CARGO_TARGET_DIR");
    let built = process::run(&again, BUILD)?;
    if !built.success {
        return Ok(Outcome::failed(built.output));
    }
    let sums = |directory: &Path| fs::read_to_string(directory.join("SHA256SUMS"));
    let (first, second) = (sums(made)?, sums(&clone.join("target/artefacts"))?);
    let differ: Vec<&str> = first.lines().filter(|line| !second.contains(*line)).collect();
    if differ.is_empty() && first.lines().count() == second.lines().count() {
        return Ok(Outcome::passed().remark(format!("{} files", first.lines().count())));
    }
    Ok(Outcome::failed(format!("these differ in a second build:\n{}\n", differ.join("\n"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_the_section_of_the_version() {
        let text = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- B.\n\n## [0.1.0]\n\n- A.\n";
        assert_eq!(section(text, "0.2.0").unwrap(), "### Added\n\n- B.\n");
        assert_eq!(section(text, "0.1.0").unwrap(), "- A.\n");
        assert_eq!(section(text, "0.3.0"), None);
    }

    #[test]
    fn a_dynamic_program_names_its_interpreter() {
        // this test is one, unless all of it is built statically
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let named = interpreter(&own);
        assert_eq!(named.is_none(), cfg!(target_feature = "crt-static"), "{named:?}");
        assert_eq!(interpreter(b"\x7fELF"), None);
    }
}
