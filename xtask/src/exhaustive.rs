//! The page about the last exhaustive run: when, of what, where, and how it went.

use std::fs;
use std::io;

use crate::cargo::root;
use crate::git::git;

/// The page, in the workspace.
const PAGE: &str = "docs/last-exhaustive-run.md";

/// Writes the page about a run whose summary this is.
pub fn write(summary: &str) -> io::Result<()> {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12"])?;
    let date = std::process::Command::new("date").args(["--utc", "+%F"]).output()?.stdout;
    let text = page(
        String::from_utf8_lossy(&date).trim(),
        commit.as_deref().unwrap_or("not known"),
        &machine()?,
        summary,
    );
    fs::write(root().join(PAGE), text)
}

fn page(date: &str, commit: &str, machine: &str, summary: &str) -> String {
    format!(
        "# The last exhaustive run\n\n\
         `cargo xtask test --all` wrote this page on {date}, at commit {commit}, on {machine}.\n\n\
         ```text\n{}\n```\n",
        summary.trim()
    )
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
    fn the_page_has_all_that_a_reader_asks() {
        let text = page("2026-11-28", "abc123", "2 CPUs (X), Linux 6.18", "\n9 passed, 0 failed\n");
        let expected = "# The last exhaustive run\n\n`cargo xtask test --all` wrote this page on 2026-11-28, \
                        at commit abc123, on 2 CPUs (X), Linux 6.18.\n\n```text\n9 passed, 0 failed\n```\n";
        assert_eq!(text, expected);
        assert!(machine().unwrap().contains("CPUs ("));
    }
}
