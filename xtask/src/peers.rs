//! Third-party programs that tests and benchmarks start, and the Debian packages that bring them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use crate::process;
use crate::summary::{Note, Outcome};

/// Programs that tests start, by Debian package.
pub const OF_TESTS: &[Peer] = &[
    Peer::of("binutils", &["as", "ld", "strip"]),
    Peer::of("chromium", &["chromium"]),
    Peer::of("curl", &["curl"]),
    Peer::of("ethtool", &["ethtool"]),
    Peer::of("fish", &["fish"]),
    // libFuzzer is C++
    Peer::of("g++", &["c++"]),
    Peer::of("iperf3", &["iperf3"]),
    Peer::of("iproute2", &["bridge", "ip", "tc"]),
    Peer::of("iputils-ping", &["ping"]),
    Peer::of("lintian", &["lintian"]),
    NETPERF,
    Peer::of("nftables", &["nft"]),
    Peer::of("nginx", &["nginx"]),
    Peer::of("openssh-client", &["ssh", "ssh-keygen"]),
    Peer::of("openssh-server", &["sshd"]),
    OPEN_VSWITCH,
    Peer::of("procps", &["kill"]),
    // with munge and the programs of its users, which it needs
    Peer::of(
        "slurm-wlm",
        &[
            "munged",
            "salloc",
            "sbatch",
            "scancel",
            "scontrol",
            "sinfo",
            "slurmctld",
            "slurmd",
            "squeue",
            "srun",
        ],
    ),
    // a virtual environment for programs from PyPI needs pip too, which this package brings
    Peer::of("python3-venv", &["python3"]),
    Peer::of("tshark", &["dumpcap", "tshark"]),
    Peer::of("zsh", &["zsh"]),
];

/// The switch with its tools, which come in a package of their own that this one needs.
const OPEN_VSWITCH: Peer = Peer::of(
    "openvswitch-switch",
    &["ovs-appctl", "ovs-vswitchd", "ovs-vsctl", "ovsdb-server", "ovsdb-tool"],
);

/// netperf and its server.
const NETPERF: Peer = Peer::of("netperf", &["netperf", "netserver"]).in_component("non-free");

/// Programs that benchmarks start, by Debian package.
pub const OF_BENCHMARKS: &[Peer] = &[
    Peer::of("iperf3", &["iperf3"]),
    Peer::of("iproute2", &["ip"]),
    NETPERF,
    OPEN_VSWITCH,
    Peer::of("procps", &["kill"]),
];

/// Third-party programs that come in one package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The Debian package.
    pub package: &'static str,
    /// The programs of it that are used.
    pub programs: &'static [&'static str],
    /// The component of the distribution that has it, where that is not one which every machine reads.
    pub component: Option<&'static str>,
}

impl Peer {
    const fn of(package: &'static str, programs: &'static [&'static str]) -> Self {
        Self { package, programs, component: None }
    }

    const fn in_component(self, component: &'static str) -> Self {
        Self { component: Some(component), ..self }
    }

    fn name(self) -> String {
        format!("peer {}", self.programs.join(", "))
    }

    fn is_here(self) -> bool {
        self.programs.iter().all(|program| process::find(program).is_some())
    }
}

/// What apt-get installs, without what is only recommended.
const INSTALL: [&str; 3] = ["install", "--yes", "--no-install-recommends"];

const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// Makes `peers` available, by installing their packages where that is allowed and possible.
///
/// A peer that stays missing is no failure: the tests that need it skip themselves by name.
pub fn provide(peers: &[Peer], install: bool) -> io::Result<Outcome> {
    let mut missing: Vec<Peer> = peers.iter().copied().filter(|peer| !peer.is_here()).collect();
    let present = peers.len() - missing.len();
    let may_install = install && is_root() && process::find("apt-get").is_some();
    let mut why = "not installed".to_owned();
    if may_install && !missing.is_empty() {
        // The package lists may well be fresh enough, so they are not updated unless needed.
        why = install_each(&mut missing)?;
        if missing.iter().any(|peer| peer.component.is_none()) && apt(&[], &["update"])?.is_none() {
            why = install_each(&mut missing)?;
        }
        let components: BTreeSet<&str> = missing.iter().filter_map(|peer| peer.component).collect();
        for component in components {
            why = install_from(component, &mut missing)?.unwrap_or(why);
        }
    }
    let skipped: Vec<Note> = missing
        .iter()
        .map(|peer| Note {
            name: peer.name(),
            reason: match peer.component {
                None => format!("{why}; apt-get install {}", peer.package),
                Some(component) => format!("{why}; package {} of {component}", peer.package),
            },
        })
        .collect();
    let installed = peers.len() - present - skipped.len();
    let remark = format!("{present} present, {installed} installed, {} missing", skipped.len());
    Ok(Outcome { skipped, remark, ..Outcome::default() })
}

/// Installs the missing packages together, or one at a time if that fails, so that one that cannot be installed
/// leaves the others. Removes from `missing` what is there now, and returns apt-get's last complaint.
fn install_each(missing: &mut Vec<Peer>) -> io::Result<String> {
    let mut complaint = String::new();
    let common = missing.iter().filter(|peer| peer.component.is_none());
    let packages: Vec<&str> = common.map(|peer| peer.package).collect();
    if apt(&[], &[&INSTALL, &packages[..]].concat())?.is_none() {
        missing.retain(|peer| !peer.is_here());
        return Ok(complaint);
    }
    for peer in missing.clone().iter().filter(|peer| peer.component.is_none()) {
        complaint = install(&[], *peer, missing)?.unwrap_or(complaint);
    }
    Ok(complaint)
}

fn install(options: &[String], peer: Peer, missing: &mut Vec<Peer>) -> io::Result<Option<String>> {
    match apt(options, &[&INSTALL[..], &[peer.package]].concat())? {
        None => {
            missing.retain(|other| *other != peer || !peer.is_here());
            Ok(None)
        }
        Some(text) => Ok(Some(format!("apt-get could not install it: {text}"))),
    }
}

/// Installs the missing packages of a component that the machine's source list may not name, by a source
/// list and package lists of our own. The machine's stay as they are. Returns apt-get's complaint.
fn install_from(component: &str, missing: &mut Vec<Peer>) -> io::Result<Option<String>> {
    let mut sources = sources_with(component, &targets()?);
    if sources.is_empty() && apt(&[], &["update"])?.is_none() {
        sources = sources_with(component, &targets()?);
    }
    if sources.is_empty() {
        return Ok(Some("apt-get knows no source of the distribution".to_owned()));
    }
    let directory = std::env::temp_dir().join(format!("linkrate-packages-{}", std::process::id()));
    fs::create_dir_all(directory.join("lists/partial"))?;
    let list = directory.join("sources.list");
    let installed = fs::write(&list, sources).and_then(|()| {
        let options = [
            format!("Dir::Etc::sourcelist={}", list.display()),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("Dir::State::lists={}", directory.join("lists").display()),
            "Dir::Cache::pkgcache=".to_owned(),
            "Dir::Cache::srcpkgcache=".to_owned(),
        ];
        let mut complaint = apt(&options, &["update"])?;
        if complaint.is_none() {
            for peer in missing.clone().iter().filter(|peer| peer.component == Some(component)) {
                complaint = install(&options, *peer, missing)?.or(complaint);
            }
        }
        Ok(complaint)
    });
    fs::remove_dir_all(directory)?;
    installed
}

/// What apt-get says of the package lists that it reads: `ORIGIN COMPONENT SITE RELEASE`, a line each.
fn targets() -> io::Result<String> {
    let mut command = Command::new("apt-get");
    let fields = "$(ORIGIN) $(COMPONENT) $(SITE) $(RELEASE)";
    command.args(["indextargets", "--format", fields, "Created-By: Packages"]);
    let finished = process::run(&command, INSTALL_LIMIT)?;
    Ok(if finished.success { finished.output } else { String::new() })
}

/// A source list with the main component and another one of the distribution, from the places where the
/// machine has the main component from.
fn sources_with(component: &str, targets: &str) -> String {
    let line = |target: &str| match target.split_whitespace().collect::<Vec<_>>()[..] {
        ["Debian", "main", site, release] => {
            Some(format!("deb {site} {release} main {component}\n"))
        }
        _ => None,
    };
    let lines: BTreeSet<String> = targets.lines().filter_map(line).collect();
    lines.into_iter().collect()
}

/// Runs apt-get; `None` when it succeeded, else the last line it wrote.
fn apt(options: &[String], arguments: &[&str]) -> io::Result<Option<String>> {
    println!("   apt-get {}", arguments.join(" "));
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        // without a network, say so soon
        .args(["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "--quiet=2"])
        .args(options.iter().flat_map(|option| ["-o", option]))
        .args(arguments);
    let finished = process::run(&command, INSTALL_LIMIT)?;
    let last = finished.output.trim_end().lines().next_back().unwrap_or("no message").to_owned();
    Ok((!finished.success).then_some(last))
}

pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_list_adds_a_component_to_the_places_of_the_main_one() {
        let targets = "Debian main http://mirror.test/debian stable\n\
                       Debian main http://mirror.test/debian stable\n\
                       Debian main http://mirror.test/updates stable-updates\n\
                       Debian contrib http://mirror.test/debian stable\n\
                       Other main http://other.test/apt any\n\
                       half a line\n";
        let expected = "deb http://mirror.test/debian stable main non-free\n\
                        deb http://mirror.test/updates stable-updates main non-free\n";
        assert_eq!(sources_with("non-free", targets), expected);
        assert_eq!(sources_with("non-free", ""), "");
    }

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
