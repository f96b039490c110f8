//! Third-party programs that tests measure against or check captures with.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use crate::process;
use crate::summary::{Outcome, Skip};

/// Programs, each in the Debian package of its name.
const PEERS: [&str; 5] = ["curl", "ethtool", "iperf3", "nginx", "tshark"];

const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// Makes the peers available, by installing their packages where that is allowed and possible.
///
/// A peer that stays missing is no failure: the tests that need it skip themselves by name.
///
/// # Errors
/// apt-get could not be started.
pub fn provide(install: bool) -> io::Result<Outcome> {
    let mut missing: Vec<&str> =
        PEERS.into_iter().filter(|peer| process::find(peer).is_none()).collect();
    let present = PEERS.len() - missing.len();
    let may_install = install && is_root() && process::find("apt-get").is_some();
    let mut why = "not installed; install the package of that name".to_owned();
    if may_install && !missing.is_empty() {
        // The package lists may well be fresh enough, so they are not updated unless needed.
        why = install_each(&mut missing)?;
        if !missing.is_empty() && apt(&["update"])?.is_none() {
            why = install_each(&mut missing)?;
        }
    }
    let skipped: Vec<Skip> = missing
        .iter()
        .map(|peer| Skip { name: format!("peer {peer}"), reason: why.clone() })
        .collect();
    let installed = PEERS.len() - present - skipped.len();
    let remark = format!("{present} present, {installed} installed, {} missing", skipped.len());
    Ok(Outcome { skipped, remark, ..Outcome::default() })
}

/// Installs what is missing, one package at a time so that one that cannot be had leaves the
/// others. Removes from `missing` what is there now, and returns apt-get's last complaint.
fn install_each(missing: &mut Vec<&str>) -> io::Result<String> {
    let mut complaint = String::new();
    for peer in missing.clone() {
        match apt(&["install", "--yes", "--no-install-recommends", peer])? {
            None => missing.retain(|other| *other != peer || process::find(peer).is_none()),
            Some(text) => complaint = format!("apt-get could not install it: {text}"),
        }
    }
    Ok(complaint)
}

/// Runs apt-get; `None` when it succeeded, else the last line it wrote.
fn apt(arguments: &[&str]) -> io::Result<Option<String>> {
    println!("   apt-get {}", arguments.join(" "));
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        // without a network, say so soon
        .args(["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "--quiet=2"])
        .args(arguments);
    let finished = process::run(&command, INSTALL_LIMIT)?;
    let last = finished.output.trim_end().lines().next_back().unwrap_or("no message").to_owned();
    Ok((!finished.success).then_some(last))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_installing_every_peer_is_present_or_named() {
        let outcome = provide(false).unwrap();
        let missing: Vec<String> = PEERS
            .iter()
            .filter(|peer| process::find(peer).is_none())
            .map(|peer| format!("peer {peer}"))
            .collect();
        let named: Vec<String> = outcome.skipped.iter().map(|skip| skip.name.clone()).collect();
        assert_eq!(named, missing);
        assert_eq!((outcome.passed, outcome.failed), (0, 0));
    }
}
