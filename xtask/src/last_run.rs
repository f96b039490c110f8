//! The page about the last exhaustive runs: of each part when, of what, where, and how it went.
//!
//! All parts take hours together, so each can be run by itself (`cargo xtask test --all fuzz`). The page keeps the lines of the
//! others.

use std::io;
use std::process::Command;
use std::{fs, path::PathBuf};

use crate::cargo::root;
use crate::git::git;

/// What stands above the lines of the parts.
const HEAD: &str = "# The last exhaustive runs\n\n\
    `cargo xtask test --all` writes this page, and so does `--all` with an area.\n\n\
    | part | date | commit | machine | result |\n|---|---|---|---|---|\n";

fn page() -> PathBuf {
    root().join("docs/last-exhaustive-run.md")
}

/// Writes down how `part` went, now, at this commit, on this machine.
pub fn write(part: &str, result: &str) -> io::Result<()> {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12"])?;
    let date = Command::new("date").args(["--utc", "+%F"]).output()?.stdout;
    let date = String::from_utf8_lossy(&date);
    let commit = commit.as_deref().unwrap_or("not known");
    let cells = [part, date.trim(), commit, &machine()?, result];
    let before = fs::read_to_string(page())?;
    fs::write(page(), with_line(&before, part, &cells))
}

/// The page with this line in place of the one that began with the same cell.
fn with_line(page: &str, part: &str, cells: &[&str]) -> String {
    let begin = format!("| {part} |");
    let is_kept = |line: &&str| line.starts_with("| ") && !line.starts_with(&begin);
    // the head has a line of its own
    let mut lines: Vec<&str> = page.lines().filter(is_kept).skip(1).collect();
    // a line of a table ends with the line
    let line = format!("| {} |", cells.join(" | ").replace('\n', " "));
    lines.push(&line);
    lines.sort_unstable();
    format!("{HEAD}{}\n", lines.join("\n"))
}

/// Processor, number of CPUs and kernel of this machine.
fn machine() -> io::Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor without a name", |(_, name)| name);
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(format!("{count} CPUs ({}), Linux {}", model.trim(), kernel.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_replaces_its_own_line_alone() {
        let first = with_line(HEAD, "mutants", &["mutants", "2026-11-28", "abc", "m", "1 passed"]);
        let both = with_line(&first, "fuzz", &["fuzz", "2026-11-29", "def", "m", "2\npassed"]);
        let expected = "| fuzz | 2026-11-29 | def | m | 2 passed |\n\
                        | mutants | 2026-11-28 | abc | m | 1 passed |\n";
        assert_eq!(both, format!("{HEAD}{expected}"));
        let again = with_line(&both, "fuzz", &["fuzz", "2026-11-30", "012", "m", "3 passed"]);
        assert_eq!(again.lines().count(), both.lines().count());
        assert!(
            again.contains("| fuzz | 2026-11-30 | 012 |") && again.contains("| mutants |"),
            "{again}"
        );
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(machine().unwrap().contains("CPUs ("));
    }
}
