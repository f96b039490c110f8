//! How large the code is, by crate: lines of source, of tests, and of comments in both.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use crate::cargo::root;
use crate::git;

/// Lines of Rust, with comments and blank ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lines {
    source: usize,
    tests: usize,
    /// Those of source and tests that are comments.
    comments: usize,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.source += other.source;
        self.tests += other.tests;
        self.comments += other.comments;
    }
}

pub fn print() -> io::Result<()> {
    let mut by_crate: BTreeMap<String, Lines> = BTreeMap::new();
    let files: Vec<(PathBuf, String)> = git::rust_files()?
        .into_iter()
        .map(|path| fs::read_to_string(root().join(&path)).map(|text| (path, text)))
        .collect::<io::Result<_>>()?;
    let test_modules: Vec<PathBuf> =
        files.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    for (path, text) in &files {
        let name = path.iter().next().unwrap_or_default().to_string_lossy().into_owned();
        let is_test = is_test(path) || test_modules.contains(path);
        *by_crate.entry(name).or_default() += lines(text, is_test);
    }
    let mut all = Lines::default();
    by_crate.values().for_each(|lines| all += *lines);
    println!("{:<18} {:>8} {:>8} {:>9}", "crate", "source", "tests", "comments");
    for (name, Lines { source, tests, comments }) in
        by_crate.into_iter().chain([("all".to_owned(), all)])
    {
        println!("{name:<18} {source:>8} {tests:>8} {comments:>9}");
    }
    Ok(())
}

/// Whether a whole file is tests, or what they are made of.
fn is_test(path: &Path) -> bool {
    git::is_test(path) || path.ends_with("fixture.rs")
}

/// The files of modules that a file declares for tests alone.
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let folder = match path.file_name().and_then(OsStr::to_str) {
        Some("lib.rs" | "main.rs" | "mod.rs") => path.parent().unwrap_or(path).to_owned(),
        _ => path.with_extension(""),
    };
    let lines: Vec<&str> = text.lines().collect();
    let declared = lines
        .windows(2)
        .filter(|pair| is_for_tests(pair[0]))
        .filter_map(|pair| Some(pair[1].split_once("mod ")?.1.strip_suffix(';')?.to_owned()));
    declared.map(|name| folder.join(name).with_extension("rs")).collect()
}

/// Whether an attribute leaves an item to tests.
fn is_for_tests(line: &str) -> bool {
    line == "#[cfg(test)]" || line.starts_with("#[cfg(all(test,")
}

/// The lines of one file. What follows `#[cfg(test)]` is a test, to the end of its item, which rustfmt puts at the
/// beginning of a line.
fn lines(text: &str, is_test: bool) -> Lines {
    let mut counted = Lines::default();
    let mut in_test = false;
    for line in text.lines() {
        in_test |= is_for_tests(line);
        counted.comments += usize::from(line.trim_start().starts_with("//"));
        if is_test || in_test {
            counted.tests += 1;
        } else {
            counted.source += 1;
        }
        // the item ends
        in_test &=
            !(line == "}" || !line.starts_with(['#', ' ', '}']) && line.ends_with([';', '}']));
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_tests_and_comments_are_told_apart() {
        let text = "//! About.\n\nfn a() {\n    // why\n    b();\n}\n\n#[cfg(test)]\nmod tests;\n\nfn c() {}\n\n\
                    #[cfg(test)]\nmod more {\n    fn d() {}\n}\n";
        assert_eq!(lines(text, false), Lines { source: 10, tests: 6, comments: 2 });
        assert_eq!(lines(text, true), Lines { source: 0, tests: 16, comments: 2 });
        let found = test_modules(
            Path::new("linkrate-study/src/fleet.rs"),
            "#[cfg(test)]\nmod lost;\nmod runner;\n",
        );
        assert_eq!(found, [PathBuf::from("linkrate-study/src/fleet/lost.rs")]);
        let is_test = |path: &str| is_test(Path::new(path));
        assert!(is_test("linkrate/tests/cli/help.rs") && is_test("linkrate-wire/src/lro/tests.rs"));
        assert!(!is_test("linkrate-wire/src/lro.rs"));
    }
}
