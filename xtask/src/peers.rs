//! Third-party programs that tests and benchmarks start, and the Debian packages that bring them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use crate::process;
use crate::summary::{Note, Outcome};

/// Programs that tests start, by Debian package.
pub const OF_TESTS: &[Peer] = &[
    Peer { package: "chromium", programs: &["chromium"] },
    Peer { package: "curl", programs: &["curl"] },
    Peer { package: "ethtool", programs: &["ethtool"] },
    // libFuzzer is C++
    Peer { package: "g++", programs: &["c++"] },
    Peer { package: "iperf3", programs: &["iperf3"] },
    Peer { package: "iproute2", programs: &["bridge", "ip", "tc"] },
    Peer { package: "iputils-ping", programs: &["ping"] },
    Peer { package: "nginx", programs: &["nginx"] },
    Peer { package: "openssh-client", programs: &["ssh", "ssh-keygen"] },
    Peer { package: "openssh-server", programs: &["sshd"] },
    OPEN_VSWITCH,
    Peer { package: "procps", programs: &["kill"] },
    Peer { package: "tshark", programs: &["tshark"] },
];

/// The switch with its tools, which come in a package of their own that this one needs.
const OPEN_VSWITCH: Peer = Peer {
    package: "openvswitch-switch",
    programs: &["ovs-appctl", "ovs-vswitchd", "ovs-vsctl", "ovsdb-server", "ovsdb-tool"],
};

/// Programs that benchmarks start, by Debian package.
pub const OF_BENCHMARKS: &[Peer] = &[
    Peer { package: "iperf3", programs: &["iperf3"] },
    Peer { package: "iproute2", programs: &["ip"] },
    OPEN_VSWITCH,
    Peer { package: "procps", programs: &["kill"] },
];

/// Third-party programs that come in one package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The Debian package.
    pub package: &'static str,
    /// The programs of it that are used.
    pub programs: &'static [&'static str],
}

impl Peer {
    fn name(self) -> String {
        format!("peer {}", self.programs.join(", "))
    }

    fn is_here(self) -> bool {
        self.programs.iter().all(|program| process::find(program).is_some())
    }
}

const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// Makes `peers` available, by installing their packages where that is allowed and possible.
///
/// A peer that stays missing is no failure: the tests that need it skip themselves by name.
///
/// # Errors
/// apt-get could not be started.
pub fn provide(peers: &[Peer], install: bool) -> io::Result<Outcome> {
    let mut missing: Vec<Peer> = peers.iter().copied().filter(|peer| !peer.is_here()).collect();
    let present = peers.len() - missing.len();
    let may_install = install && is_root() && process::find("apt-get").is_some();
    let mut why = "not installed".to_owned();
    if may_install && !missing.is_empty() {
        // The package lists may well be fresh enough, so they are not updated unless needed.
        why = install_each(&mut missing)?;
        if !missing.is_empty() && apt(&["update"])?.is_none() {
            why = install_each(&mut missing)?;
        }
    }
    let skipped: Vec<Note> = missing
        .iter()
        .map(|peer| Note {
            name: peer.name(),
            reason: format!("{why}; apt-get install {}", peer.package),
        })
        .collect();
    let installed = peers.len() - present - skipped.len();
    let remark = format!("{present} present, {installed} installed, {} missing", skipped.len());
    Ok(Outcome { skipped, remark, ..Outcome::default() })
}

/// Installs the missing packages one at a time, so that one that cannot be installed leaves the
/// others. Removes from `missing` what is there now, and returns apt-get's last complaint.
fn install_each(missing: &mut Vec<Peer>) -> io::Result<String> {
    let mut complaint = String::new();
    for peer in missing.clone() {
        match apt(&["install", "--yes", "--no-install-recommends", peer.package])? {
            None => missing.retain(|other| *other != peer || !peer.is_here()),
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
        let outcome = provide(OF_TESTS, false).unwrap();
        let missing: Vec<String> =
            OF_TESTS.iter().filter(|peer| !peer.is_here()).map(|peer| peer.name()).collect();
        let named: Vec<String> = outcome.skipped.iter().map(|skip| skip.name.clone()).collect();
        assert_eq!(named, missing);
        assert_eq!((outcome.passed, outcome.failed), (0, 0));
    }
}
