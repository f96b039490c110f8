//! How large the code is, by crate: lines of source, of tests, and of comments in both.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::AddAssign;
use std::path::Path;

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

/// Prints the table.
///
/// # Errors
/// Git could not be asked, or a file not be read.
pub fn print() -> io::Result<()> {
    let mut by_crate: BTreeMap<String, Lines> = BTreeMap::new();
    for path in git::rust_files()? {
        let text = fs::read_to_string(root().join(&path))?;
        let name = path.iter().next().unwrap_or_default().to_string_lossy().into_owned();
        *by_crate.entry(name).or_default() += lines(&text, is_test(&path));
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

/// The lines of one file. What follows `#[cfg(test)]` is a test, to the end of its item, which rustfmt puts at the
/// beginning of a line.
fn lines(text: &str, is_test: bool) -> Lines {
    let mut counted = Lines::default();
    let mut in_test = false;
    for line in text.lines() {
        in_test |= line == "#[cfg(test)]";
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
        let is_test = |path: &str| is_test(Path::new(path));
        assert!(is_test("linkrate/tests/cli/help.rs") && is_test("linkrate-wire/src/lro/tests.rs"));
        assert!(!is_test("linkrate-wire/src/lro.rs"));
    }
}
