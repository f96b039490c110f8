//! Existing interfaces of the system under test, and the clients at their peers.

mod program;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::shell;

pub use program::{Program, ProgramError, ProgramUser};

/// Length of an interface name, `IFNAMSIZ` less the final zero.
pub const NAME_BYTES: usize = 15;

/// Longest destination that is given to `ssh`, and longest name of a host with a program.
const DESTINATION_BYTES: usize = 255;

/// Longest command that reaches a client.
const COMMAND_BYTES: usize = 4096;

/// The program that is started on other machines unless another is named.
pub const PEER_SERVER: &str = "linkrate";

/// How a peer is written, for hints.
pub const PEER_EXPECTED: &str = "expected \"ssh://USER@HOST:PORT\", \"slurm://NODE\", \"interface://NAME\", \"netns://NAME\" or \"pid://N\", and \"?address=ADDRESS\" after it if \
     needed, or \"netperf://HOST:PORT\" or \"iperf3://USER@HOST:PORT?key=FILE\"; or \"exec:COMMAND\"; or the short forms, \"ssh:HOST\"";

/// Existing interfaces of the system under test, each a port, and the clients at their peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Interfaces {
    /// The interfaces, in the order of ports.
    pub names: Vec<String>,
    /// The clients, in the order of the interfaces; each interface has the same number.
    pub clients: Vec<Peer>,
    /// The linkrate program on the clients' machines: a path, or a name in the search path there.
    pub program: String,
    /// The machine of the system under test; `None` for the controller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sut: Option<Peer>,
}

impl Interfaces {
    /// Checks that interfaces and clients fit each other.
    pub fn new(
        names: Vec<String>,
        clients: Vec<Peer>,
        program: Option<String>,
    ) -> Result<Self, InterfacesError> {
        let (Some(first), ports) = (clients.first(), names.len()) else {
            return Err(InterfacesError::NoClient);
        };
        if let Some(name) = names.iter().find(|name| !is_interface_name(name)) {
            return Err(InterfacesError::NoName { given: name.clone() });
        }
        let borrowed = clients.iter().filter_map(Peer::interface);
        let all: Vec<&str> = names.iter().map(String::as_str).chain(borrowed).collect();
        let twice = all.iter().enumerate().find(|(index, name)| all[..*index].contains(name));
        if let Some((_, name)) = twice {
            return Err(InterfacesError::Twice { name: (*name).to_owned() });
        }
        if ports == 0 || !clients.len().is_multiple_of(ports) {
            return Err(InterfacesError::Uneven { ports, clients: clients.len() });
        }
        if let Some(other) = clients.iter().find(|end| end.kind() != first.kind()) {
            return Err(InterfacesError::Mixed { one: first.clone(), other: other.clone() });
        }
        match (first.kind(), program) {
            (Kind::Interface | Kind::Namespace | Kind::Process | Kind::Program(_), Some(_)) => {
                Err(InterfacesError::NoPeerServer)
            }
            (_, program) => {
                let program = program.unwrap_or_else(|| PEER_SERVER.to_owned());
                if program.is_empty() || program.chars().any(char::is_control) {
                    return Err(InterfacesError::Program);
                }
                Ok(Self { names, clients, program, sut: None })
            }
        }
    }

    /// The same interfaces on another machine.
    #[must_use]
    pub fn at(self, sut: Peer) -> Self {
        Self { sut: Some(sut), ..self }
    }

    /// Clients behind each interface.
    pub fn clients_per_port(&self) -> u32 {
        u32::try_from(self.clients.len() / self.names.len().max(1)).unwrap_or(u32::MAX)
    }

    /// How many interfaces there are.
    pub fn ports(&self) -> u32 {
        u32::try_from(self.names.len()).unwrap_or(u32::MAX)
    }

    /// Whether the clients have CPUs of their own: those on other machines, and programs.
    pub fn is_remote(&self) -> bool {
        self.clients.iter().any(Peer::is_remote)
    }

    /// The program at the peers; `None` where agents are.
    pub fn program_of_clients(&self) -> Option<Program> {
        self.clients.iter().find_map(Peer::program)
    }
}

/// An IPv4 address of an interface, and the network it is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InterfaceAddress {
    /// The interface.
    pub interface: String,
    /// The address.
    pub address: Ipv4Addr,
    /// How many bits of it name the network.
    pub prefix_length: u8,
}

impl InterfaceAddress {
    /// Whether `other` is another address of the same network.
    pub fn reaches(&self, other: Ipv4Addr) -> bool {
        let host_bits = 32u32.saturating_sub(u32::from(self.prefix_length));
        let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
        other != self.address && (other.to_bits() ^ self.address.to_bits()) & mask == 0
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} on {}", self.address, self.prefix_length, self.interface)
    }
}

/// Why a testbed cannot be made of interfaces and clients.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterfacesError {
    /// There is no client at the peer.
    #[error("an interface needs a client; expected for example \"ssh:lab2\"")]
    NoClient,
    /// The name is not valid for an interface.
    #[error(
        "{given:?} is not an interface name; expected 1 to 15 printable characters without '/' and ':'"
    )]
    NoName {
        /// What was given.
        given: String,
    },
    /// One interface is named twice.
    #[error("interface {name} is named twice; expected each interface once")]
    Twice {
        /// Its name.
        name: String,
    },
    /// The interfaces do not have the same number of clients.
    #[error(
        "{clients} clients cannot be divided among {ports} interfaces; expected the same number of \
         clients for each interface, in the order of the interfaces"
    )]
    Uneven {
        /// Interfaces.
        ports: usize,
        /// Clients.
        clients: usize,
    },
    /// Some clients are on this machine, whose CPUs they share with the system under test, and
    /// some are not.
    #[error(
        "{one} and {other} cannot be in one testbed; expected only clients behind ssh, only nodes of \
         Slurm, only interfaces of this host, or only one program"
    )]
    Mixed {
        /// The first client.
        one: Peer,
        /// One of the other kind.
        other: Peer,
    },
    /// A program is named although no client's machine runs it.
    #[error(
        "the linkrate program at the peer applies to clients of ssh:, slurm: and exec: only; these clients are not"
    )]
    NoPeerServer,
    /// The name is not valid for a program.
    #[error(
        "the program at the peer has an empty name or a control character in its name; expected a \
         path or a name such as \"linkrate\""
    )]
    Program,
}

/// A client of an existing interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Peer {
    /// Another machine, behind `ssh`.
    Ssh {
        /// The argument of `ssh`: `lab2`, `root@lab2`, `ssh://root@lab2:2222`.
        destination: String,
        /// Its address on the interface's network; `None` lets its agent find it.
        address: Option<Ipv4Addr>,
    },
    /// A node of a cluster, reached by a step of Slurm.
    Slurm {
        /// Its name in Slurm.
        node: String,
        /// Its address on the interface's network; `None` lets its agent find it.
        address: Option<Ipv4Addr>,
    },
    /// Another interface of this machine, with a cable to the interface under test. It is moved
    /// into a network namespace of its own for as long as the testbed is up.
    Interface {
        /// Its name.
        name: String,
        /// The address to use, where the interface has several.
        address: Option<Ipv4Addr>,
    },
    /// A network namespace of this machine, whose interface has a cable to the interface under test.
    Namespace {
        /// Its name, as ip-netns(8) has it.
        name: String,
        /// The address to use, where it has several on the interface's network.
        address: Option<Ipv4Addr>,
    },
    /// The network namespace of a process of this machine, for example of a container. Its interface has a cable to the interface
    /// under test.
    Process {
        /// The number of the process.
        pid: u32,
        /// The address to use, where it has several on the interface's network.
        address: Option<Ipv4Addr>,
    },
    /// A command of the user that runs, by a shell, the line that it gets as its last word: in a container or a pod, or behind a
    /// jump host. It comes from the command line alone: a file that somebody sends starts nothing.
    Command {
        /// The command, without that word; not empty.
        words: Vec<String>,
    },
    /// A measuring third-party program, which reports on its traffic alone.
    Program {
        /// The program.
        program: Program,
        /// Its host: an address, or a name.
        host: String,
        /// Its TCP port.
        port: u16,
        /// Who asks; `None` where the program asks for no user.
        user: Option<Box<ProgramUser>>,
    },
}

/// The kinds of clients, of which a testbed has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ssh,
    Slurm,
    Interface,
    Namespace,
    Process,
    Command,
    Program(Program),
}

impl Peer {
    fn kind(&self) -> Kind {
        match self {
            Self::Ssh { .. } => Kind::Ssh,
            Self::Slurm { .. } => Kind::Slurm,
            Self::Interface { .. } => Kind::Interface,
            Self::Namespace { .. } => Kind::Namespace,
            Self::Process { .. } => Kind::Process,
            Self::Command { .. } => Kind::Command,
            Self::Program { program, .. } => Kind::Program(*program),
        }
    }

    /// Whether the client is an agent on another machine.
    pub fn is_agent_elsewhere(&self) -> bool {
        matches!(self, Self::Ssh { .. } | Self::Slurm { .. } | Self::Command { .. })
    }

    /// Whether a command of the user reaches the client.
    pub fn is_command(&self) -> bool {
        matches!(self, Self::Command { .. })
    }

    /// Whether the client is an agent in a network namespace that this machine has already.
    pub fn is_in_a_namespace(&self) -> bool {
        matches!(self, Self::Namespace { .. } | Self::Process { .. })
    }

    /// Whether the client has CPUs of its own. A program is taken for one on another machine.
    pub fn is_remote(&self) -> bool {
        !matches!(self, Self::Interface { .. }) && !self.is_in_a_namespace()
    }

    /// The interface that moves; `None` for other clients.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Interface { name, .. } => Some(name),
            Self::Ssh { .. }
            | Self::Slurm { .. }
            | Self::Namespace { .. }
            | Self::Process { .. }
            | Self::Command { .. }
            | Self::Program { .. } => None,
        }
    }

    /// The program; `None` where an agent is.
    pub fn program(&self) -> Option<Program> {
        match self {
            Self::Program { program, .. } => Some(*program),
            Self::Ssh { .. }
            | Self::Slurm { .. }
            | Self::Interface { .. }
            | Self::Namespace { .. }
            | Self::Process { .. }
            | Self::Command { .. } => None,
        }
    }

    /// The peer without its address, for headings.
    pub fn name(&self) -> String {
        let mut named = self.clone();
        match &mut named {
            Self::Ssh { address, .. }
            | Self::Slurm { address, .. }
            | Self::Interface { address, .. }
            | Self::Namespace { address, .. }
            | Self::Process { address, .. } => *address = None,
            Self::Program { user, .. } => *user = None,
            Self::Command { .. } => {}
        }
        named.to_string()
    }

    /// The address that was given.
    pub fn address(&self) -> Option<Ipv4Addr> {
        match self {
            Self::Ssh { address, .. }
            | Self::Slurm { address, .. }
            | Self::Interface { address, .. }
            | Self::Namespace { address, .. }
            | Self::Process { address, .. } => *address,
            Self::Program { .. } | Self::Command { .. } => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // "ssh://host" is already written so
            Self::Ssh { destination, .. } if destination.starts_with("ssh://") => {
                f.write_str(destination)?;
            }
            Self::Ssh { destination, .. } => write!(f, "ssh:{destination}")?,
            Self::Slurm { node, .. } => write!(f, "slurm:{node}")?,
            Self::Interface { name, .. } => write!(f, "interface:{name}")?,
            Self::Namespace { name, .. } => write!(f, "netns:{name}")?,
            Self::Process { pid, .. } => write!(f, "pid:{pid}")?,
            Self::Command { words } => {
                f.write_str("exec:")?;
                for (number, word) in words.iter().enumerate() {
                    let blank = if number == 0 { "" } else { " " };
                    write!(f, "{blank}{}", shell::word(word))?;
                }
            }
            Self::Program { program, host, port, user } => {
                write!(f, "{program}:")?;
                if let Some(user) = user {
                    write!(f, "{}@", user.name)?;
                }
                match host.contains(':') {
                    true => write!(f, "[{host}]")?,
                    false => write!(f, "{host}")?,
                }
                if *port != program.usual_port() {
                    write!(f, ":{port}")?;
                }
                if let Some(user) = user {
                    write!(f, ",{}", user.key)?;
                }
            }
        }
        match self.address() {
            Some(address) => write!(f, ",{address}"),
            None => Ok(()),
        }
    }
}

/// Why a text is not a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a client: {reason}; {PEER_EXPECTED}")]
pub struct PeerError {
    /// What was given, shortened.
    pub given: String,
    /// The reason.
    pub reason: String,
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = |reason: &str| {
            let given = text.chars().take(64).collect();
            Err(PeerError { given, reason: reason.to_owned() })
        };
        let short;
        let text = match short_form(text) {
            Ok(None) => text,
            Ok(Some(form)) => {
                short = form;
                &short
            }
            Err(reason) => return refused(reason),
        };
        let Some((kind, rest)) = text.split_once(':') else {
            let way = "it names no way to reach the client";
            return match text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@".contains(c)) {
                true if !text.is_empty() => {
                    refused(&format!("{way}; did you mean \"ssh://{text}\"?"))
                }
                _ => refused(way),
            };
        };
        if let Some(program) = Program::ALL.into_iter().find(|program| program.word() == kind) {
            return match at_program(program, rest) {
                Ok(end) => Ok(end),
                Err(reason) => refused(reason),
            };
        }
        if kind == "exec" {
            let words = shell::split(rest).filter(|words| !words.is_empty());
            return match words {
                Some(words) if rest.len() <= COMMAND_BYTES && !rest.contains(char::is_control) => {
                    Ok(Self::Command { words })
                }
                _ => refused("the text after exec: is not a command"),
            };
        }
        let (rest, address) = match rest.rsplit_once(',') {
            None => (rest, None),
            Some((rest, address)) => match address.parse() {
                Ok(address) => (rest, Some(address)),
                Err(_) => return refused("the text after the comma is not an IPv4 address"),
            },
        };
        match kind {
            "ssh" => {
                // ssh would take text with a leading dash as an option
                let valid = !rest.is_empty()
                    && rest.len() <= DESTINATION_BYTES
                    && !rest.starts_with('-')
                    && rest.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != ',');
                if !valid {
                    return refused("the text after ssh: is not a host");
                }
                let url = if rest.starts_with("//") { "ssh:" } else { "" };
                Ok(Self::Ssh { destination: format!("{url}{rest}"), address })
            }
            "slurm" if is_host_name(rest) => Ok(Self::Slurm { node: rest.to_owned(), address }),
            "slurm" => refused("the text after slurm: is not the name of one node"),
            "interface" if is_interface_name(rest) => {
                Ok(Self::Interface { name: rest.to_owned(), address })
            }
            "interface" => refused("the text after interface: is not an interface name"),
            "netns" if is_namespace_name(rest) => {
                Ok(Self::Namespace { name: rest.to_owned(), address })
            }
            "netns" => refused("the text after netns: is not the name of a network namespace"),
            "pid" => match rest.parse() {
                Ok(pid) if pid > 0 => Ok(Self::Process { pid, address }),
                _ => refused("the text after pid: is not the number of a process"),
            },
            _ => refused(
                "it begins with none of ssh:, slurm:, interface:, netns:, pid:, exec:, iperf3: and netperf:",
            ),
        }
    }
}

/// The short form of a URI: `iperf3:me@lab2:5201,FILE` of `iperf3://me@lab2:5201?key=FILE`. `None` for a text that is
/// no URI. `ssh` itself takes URIs.
fn short_form(text: &str) -> Result<Option<String>, &'static str> {
    let Some((kind, rest)) = text.split_once("://").filter(|(kind, _)| !kind.contains(':')) else {
        return Ok(None);
    };
    let name = if kind == Program::Iperf3.word() { "key" } else { "address" };
    let (place, value) = match rest.split_once('?') {
        None => (rest, None),
        Some((place, query)) => match query.split_once('=') {
            Some((found, value)) if found == name && !value.is_empty() => (place, Some(value)),
            _ => return Err("the text behind ? is neither key=FILE of iperf3 nor address=ADDRESS"),
        },
    };
    let slashes = if kind == "ssh" { "//" } else { "" };
    let value = value.map(|value| format!(",{value}")).unwrap_or_default();
    Ok(Some(format!("{kind}:{slashes}{}{value}", place.trim_end_matches('/'))))
}

/// A program at `HOST` or `HOST:PORT`, or with `USER@` before it and `,KEY` after it.
fn at_program(program: Program, text: &str) -> Result<Peer, &'static str> {
    let (text, user) = match (text.split_once('@'), text.split_once(',')) {
        (None, None) => (text, None),
        _ if program != Program::Iperf3 => return Err("netperf asks for no user"),
        (Some((name, rest)), Some(_)) => {
            let Some((place, key)) = rest.split_once(',') else {
                return Err("the text before @ is not the name of a user");
            };
            let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
            let user = ProgramUser { name: name.to_owned(), key: key.to_owned() };
            match is_name && !key.is_empty() && !key.contains(char::is_control) {
                true => (place, Some(Box::new(user))),
                false => return Err("a user has a name without white space and a file with a key"),
            }
        }
        (Some(_), None) => return Err("a user has no file with the server's public key"),
        (None, Some(_)) => return Err("a file with a key has no user"),
    };
    // colons of an address of IPv6 stand between brackets
    let (host, port, bracketed) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, ""))) => (host, None, true),
        Some(Some((host, rest))) => match rest.strip_prefix(':') {
            Some(port) => (host, Some(port), true),
            None => return Err("the text behind ] is not a TCP port"),
        },
        Some(None) => return Err("the address behind [ has no ]"),
        None => match text.split_once(':') {
            None => (text, None, false),
            Some((host, port)) => (host, Some(port), false),
        },
    };
    let port = match port.map(|port| (port, port.parse())) {
        None => program.usual_port(),
        // numbers in Rust may begin with a plus
        Some((port, Ok(number))) if number > 0 && !port.starts_with('+') => number,
        Some(_) if host.is_empty() || !bracketed && text.matches(':').count() > 1 => {
            return Err("an address of IPv6 stands between brackets");
        }
        Some(_) => return Err("the text after the second colon is not a TCP port"),
    };
    let valid = match bracketed {
        true => host.parse::<Ipv6Addr>().is_ok(),
        false => is_host_name(host),
    };
    match valid {
        true => Ok(Peer::Program { program, host: host.to_owned(), port, user }),
        false => Err("the text after the first colon is not a host"),
    }
}

impl TryFrom<String> for Peer {
    type Error = PeerError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Peer> for String {
    fn from(end: Peer) -> Self {
        end.to_string()
    }
}

/// Whether the name can be that of a host, and is no option of a program.
fn is_host_name(name: &str) -> bool {
    (1..=DESTINATION_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        && !name.starts_with('-')
}

/// Whether a file of /run/netns may have the name, and a command line too.
fn is_namespace_name(name: &str) -> bool {
    const NAME_MAX: usize = 255;
    (1..=NAME_MAX).contains(&name.len())
        && !name.starts_with(['-', '.'])
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b',')
}

/// Whether the name is valid for an interface: by the kernel's dev_valid_name (net/core/dev.c),
/// and printable.
pub fn is_interface_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(texts: &[&str]) -> Vec<Peer> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn made(names: &[&str], clients: &[&str], program: Option<&str>) -> Result<u32, String> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Interfaces::new(names, ends(clients), program.map(str::to_owned))
            .map(|made| made.clients_per_port())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn peers_print_and_read_back() {
        for text in [
            "ssh:lab2",
            "ssh:root@lab2,10.0.0.2",
            "ssh://root@lab2:2222",
            "ssh://lab2:22,192.0.2.7",
            "slurm:n2",
            "slurm:rack-4.n17,10.0.0.2",
            "interface:eth2",
            "interface:eth2.7,10.0.0.2",
            "netns:lab2",
            "netns:lab-2,10.0.0.2",
            "pid:4711",
            "pid:1,10.0.0.2",
            "exec:kubectl exec -i pod/web -- sh -c",
            "exec:ssh -J 'a b' lab2,lab3",
            "iperf3:lab2",
            "iperf3:10.0.0.2:5202",
            "iperf3:[::1]:5202",
            "netperf:[2001:db8::7]",
            "netperf:lab-2.example",
            "iperf3:mario@lab2,/etc/key.pem",
            "iperf3:mario@10.0.0.1:5202,keys/public key@lab2.pem",
        ] {
            assert_eq!(text.parse::<Peer>().unwrap().to_string(), text);
        }
        for (uri, short) in [
            ("ssh://root@lab2:22?address=192.0.2.7", "ssh://root@lab2:22,192.0.2.7"),
            ("slurm://n2?address=10.0.0.2", "slurm:n2,10.0.0.2"),
            ("pid://4711?address=10.0.0.2", "pid:4711,10.0.0.2"),
            ("interface://eth2", "interface:eth2"),
            ("netperf://lab2:12866/", "netperf:lab2:12866"),
            ("iperf3://mario@lab2:5202?key=/etc/key.pem", "iperf3:mario@lab2:5202,/etc/key.pem"),
        ] {
            assert_eq!(uri.parse::<Peer>().unwrap().to_string(), short);
        }
        let url: Peer = "ssh://lab2:22".parse().unwrap();
        assert!(matches!(url, Peer::Ssh { destination, .. } if destination == "ssh://lab2:22"));
    }

    #[test]
    fn refuses_other_texts_with_the_expected_form() {
        for (text, reason) in [
            ("lab2", "names no way to reach the client"),
            (
                "rsh:lab2",
                "with none of ssh:, slurm:, interface:, netns:, pid:, exec:, iperf3: and netperf:",
            ),
            ("iperf3:", "not a host"),
            ("iperf3:-c", "not a host"),
            ("netperf:lab2,10.0.0.1", "netperf asks for no user"),
            ("netperf:mario@lab2,key", "netperf asks for no user"),
            ("iperf3:mario@lab2", "no file with the server's public key"),
            ("iperf3:lab2,key", "a file with a key has no user"),
            ("iperf3:lab2,key@x", "the text before @ is not the name of a user"),
            ("iperf3:@lab2,key", "a user has a name"),
            ("iperf3:mario@lab2,", "a user has a name"),
            ("iperf3:mario@,key", "not a host"),
            ("netperf:lab2:0", "not a TCP port"),
            ("netperf:::1", "an address of IPv6 stands between brackets"),
            ("netperf:[::1", "the address behind [ has no ]"),
            ("netperf:[::1]7", "the text behind ] is not a TCP port"),
            ("netperf:[::1]:0", "not a TCP port"),
            ("netperf:[lab2]", "not a host"),
            ("netperf:lab2:+1", "not a TCP port"),
            ("netperf:lab2:65536", "not a TCP port"),
            ("ssh:", "not a host"),
            ("ssh:-oProxyCommand=reboot", "not a host"),
            ("ssh:a b", "not a host"),
            ("ssh:lab2,lab3", "not an IPv4 address"),
            ("ssh:lab2,10.0.0.256", "not an IPv4 address"),
            ("slurm:", "not the name of one node"),
            ("slurm:n[1-4]", "not the name of one node"),
            ("slurm:--partition", "not the name of one node"),
            ("slurm:n1,n2", "not an IPv4 address"),
            ("interface:", "not an interface name"),
            ("interface:a/b", "not an interface name"),
            ("netns:", "not the name of a network namespace"),
            ("netns:../init", "not the name of a network namespace"),
            ("netns:-all", "not the name of a network namespace"),
            ("exec:", "not a command"),
            ("exec:docker 'exec", "not a command"),
            ("exec:a\u{7}", "not a command"),
            ("pid:0", "not the number of a process"),
            ("pid:-1", "not the number of a process"),
            ("pid:4294967296", "not the number of a process"),
            ("pid:self", "not the number of a process"),
            ("ssh://lab2?key=x", "the text behind ? is neither"),
            ("iperf3://lab2?address=10.0.0.2", "the text behind ? is neither"),
        ] {
            let error = text.parse::<Peer>().unwrap_err().to_string();
            assert!(
                error.contains(reason) && error.contains("expected \"ssh://USER@HOST"),
                "{error}"
            );
        }
    }

    #[test]
    fn each_interface_has_the_same_number_of_clients() {
        assert_eq!(made(&["eth1"], &["ssh:a"], None), Ok(1));
        assert_eq!(made(&["eth1", "eth2"], &["ssh:a", "ssh:a", "ssh:b", "ssh:b"], None), Ok(2));
        assert_eq!(made(&["eth1"], &["slurm:n2", "slurm:n3"], Some("linkrate")), Ok(2));
        assert_eq!(made(&["eth1"], &["interface:eth2"], None), Ok(1));
        assert_eq!(made(&["eth1"], &["iperf3:a", "iperf3:a:5202"], None), Ok(2));
        for (names, clients, program, part) in [
            (&["eth1"][..], &[][..], None, "needs a client"),
            (
                &["eth1", "eth2"],
                &["ssh:a", "ssh:b", "ssh:c"],
                None,
                "3 clients cannot be divided among 2",
            ),
            (&[], &["ssh:a"], None, "1 clients cannot be divided among 0"),
            (&["eth1", "eth1"], &["ssh:a", "ssh:b"], None, "interface eth1 is named twice"),
            (&["eth1"], &["interface:eth1"], None, "interface eth1 is named twice"),
            (&["a b"], &["ssh:a"], None, "\"a b\" is not an interface name"),
            (&["eth1"], &["ssh:a", "interface:eth2"], None, "ssh:a and interface:eth2"),
            (&["eth1"], &["ssh:a", "slurm:b"], None, "ssh:a and slurm:b"),
            (&["eth1"], &["ssh:a", "iperf3:b"], None, "ssh:a and iperf3:b"),
            (&["eth1"], &["netperf:a", "iperf3:b"], None, "netperf:a and iperf3:b"),
            (
                &["eth1"],
                &["iperf3:a"],
                Some("linkrate"),
                "applies to clients of ssh:, slurm: and exec: only",
            ),
            (
                &["eth1"],
                &["interface:eth2"],
                Some("linkrate"),
                "applies to clients of ssh:, slurm: and exec: only",
            ),
            (&["eth1"], &["ssh:a"], Some(""), "has an empty name"),
        ] {
            let error = made(names, clients, program).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn compares_networks_by_their_prefix() {
        let on = |prefix_length| InterfaceAddress {
            interface: "eth1".to_owned(),
            address: Ipv4Addr::new(10, 0, 0, 1),
            prefix_length,
        };
        let other = Ipv4Addr::new(10, 0, 0, 200);
        assert!(on(24).reaches(other) && on(0).reaches(other));
        assert!(!on(25).reaches(other) && !on(32).reaches(other));
        assert!(!on(24).reaches(Ipv4Addr::new(10, 0, 0, 1)), "itself is not another");
        assert_eq!(on(24).to_string(), "10.0.0.1/24 on eth1");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_comes_back_as_it_went(
            text in "(ssh:|slurm:|interface:|netns:|pid:|exec:|iperf3:|netperf:|)[ -~é]{0,20}(,[0-9.]{1,16})?"
        ) {
            if let Ok(end) = text.parse::<Peer>() {
                prop_assert_eq!(&end.to_string().parse::<Peer>().unwrap(), &end);
            }
        }
    }
}
