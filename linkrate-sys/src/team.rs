//! Options and ports of a team of the host, through its generic netlink family (linux/if_team.h).
//!
//! `/sys` tells the members of a team alone. The kernel's driver (drivers/net/team) tells, to root, its mode,
//! how it chooses the port of a packet, which ports are enabled, and their links. LACP is not in the kernel:
//! teamd(8) speaks it and enables ports, so the kernel knows no partner.

use std::collections::BTreeMap;

use linkrate_model::BitRate;
use linkrate_model::existing_aggregate::ExistingAggregate;
use netlink_packet_core::{DecodeError, parse_string, parse_u8, parse_u32};

use crate::error::SysResult;
use crate::netlink::generic::{Family, Request, Socket, each_attribute, number};

/// `TEAM_GENL_NAME` and `TEAM_GENL_VERSION`.
#[derive(Debug)]
struct TeamFamily;

impl Family for TeamFamily {
    const NAME: &'static str = "team";
    const VERSION: u8 = 1;
}

const TEAM_CMD_OPTIONS_GET: u8 = 2;
const TEAM_CMD_PORT_LIST_GET: u8 = 3;

const TEAM_ATTR_TEAM_IFINDEX: u16 = 1;
const TEAM_ATTR_LIST_OPTION: u16 = 2;
const TEAM_ATTR_LIST_PORT: u16 = 3;

const TEAM_ATTR_OPTION_NAME: u16 = 1;
const TEAM_ATTR_OPTION_TYPE: u16 = 3;
const TEAM_ATTR_OPTION_DATA: u16 = 4;
const TEAM_ATTR_OPTION_PORT_IFINDEX: u16 = 6;

const TEAM_ATTR_PORT_IFINDEX: u16 = 1;
const TEAM_ATTR_PORT_LINKUP: u16 = 3;
const TEAM_ATTR_PORT_SPEED: u16 = 4;

/// Types of options: those of netlink attributes in the kernel (`NLA_U32` and on, net/netlink.h).
const NLA_U32: u8 = 3;
const NLA_STRING: u8 = 5;
const NLA_FLAG: u8 = 6;
const NLA_BINARY: u8 = 11;

/// The length of `struct sock_filter` (linux/filter.h), of which the hash of mode `loadbalance` consists.
const INSTRUCTION_BYTES: usize = 8;

/// What the kernel reports on a team.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Team {
    /// `roundrobin`, `activebackup`, `loadbalance`, `broadcast` or `random`.
    pub mode: Option<String>,
    /// How `loadbalance` chooses the port: `hash` or `hash_to_port_mapping`.
    pub method: Option<String>,
    /// Instructions of the BPF program that is the hash of `loadbalance`; 0 before teamd has set one.
    pub hash_instructions: Option<usize>,
    /// The index of the interface that `activebackup` uses.
    pub active: Option<u32>,
    /// By the index of their interface.
    pub ports: BTreeMap<u32, Port>,
}

/// A port of a team.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Port {
    /// It may carry packets of the team: teamd says so.
    pub enabled: Option<bool>,
    /// Its link is up for the team.
    pub up: bool,
    /// Mb/s, where the link has a rate.
    pub mbps: Option<u32>,
}

impl Team {
    /// Reads the team whose interface has this index, in the calling thread's network namespace.
    ///
    /// # Errors
    /// `ENOENT` on a kernel without teams, `EPERM` for others than root, `EINVAL` for an interface that is
    /// none.
    pub fn read(index: u32) -> SysResult<Self> {
        let mut socket = Socket::open()?;
        let mut team = Self::default();
        let subject = format!("with index {index}");
        for command in [TEAM_CMD_OPTIONS_GET, TEAM_CMD_PORT_LIST_GET] {
            let names = ("read the options of the team", subject.as_str());
            socket.read(request(command, index), names, |kind, list| team.take(kind, list))?;
        }
        Ok(team)
    }

    /// Takes an attribute of a reply. A long list comes in several replies.
    fn take(&mut self, kind: u16, list: &[u8]) -> Result<(), DecodeError> {
        match kind {
            TEAM_ATTR_LIST_OPTION => each_attribute(list, |_, option| self.take_option(option)),
            TEAM_ATTR_LIST_PORT => each_attribute(list, |_, port| self.take_port(port)),
            _ => Ok(()),
        }
    }

    fn take_option(&mut self, option: &[u8]) -> Result<(), DecodeError> {
        let (mut name, mut kind, mut port) = (String::new(), 0, None);
        let mut data: Option<Vec<u8>> = None;
        each_attribute(option, |attribute, value| {
            match attribute {
                TEAM_ATTR_OPTION_NAME => name = parse_string(value)?,
                TEAM_ATTR_OPTION_TYPE => kind = parse_u8(value)?,
                TEAM_ATTR_OPTION_DATA => data = Some(value.to_vec()),
                TEAM_ATTR_OPTION_PORT_IFINDEX => port = Some(parse_u32(value)?),
                _ => {}
            }
            Ok(())
        })?;
        // a flag is there or not, and an empty program has no data
        let data = data.as_deref();
        match (name.as_str(), kind, port) {
            ("mode", NLA_STRING, None) => self.mode = data.map(parse_string).transpose()?,
            ("lb_tx_method", NLA_STRING, None) => {
                self.method = data.map(parse_string).transpose()?;
            }
            ("bpf_hash_func", NLA_BINARY, None) => {
                self.hash_instructions = Some(data.map_or(0, <[u8]>::len) / INSTRUCTION_BYTES);
            }
            // 0 is no interface
            ("activeport", NLA_U32, None) => {
                self.active = data.map(parse_u32).transpose()?.filter(|index| *index > 0);
            }
            ("enabled", NLA_FLAG, Some(port)) => {
                self.ports.entry(port).or_default().enabled = Some(data.is_some());
            }
            _ => {}
        }
        Ok(())
    }

    fn take_port(&mut self, port: &[u8]) -> Result<(), DecodeError> {
        let (mut index, mut up, mut mbps) = (None, false, None);
        each_attribute(port, |attribute, value| {
            match attribute {
                TEAM_ATTR_PORT_IFINDEX => index = Some(parse_u32(value)?),
                TEAM_ATTR_PORT_LINKUP => up = true,
                // SPEED_UNKNOWN of linux/ethtool.h is -1
                TEAM_ATTR_PORT_SPEED => {
                    mbps = Some(parse_u32(value)?).filter(|mbps| !matches!(*mbps, 0 | u32::MAX));
                }
                _ => {}
            }
            Ok(())
        })?;
        if let Some(index) = index {
            let port = self.ports.entry(index).or_default();
            (port.up, port.mbps) = (up, mbps);
        }
        Ok(())
    }

    /// Adds what the kernel tells to what the files tell. `name_of` names an interface by its index.
    pub fn complete(
        &self,
        aggregate: &mut ExistingAggregate,
        name_of: impl Fn(u32) -> Option<String>,
    ) {
        aggregate.mode.clone_from(&self.mode);
        aggregate.hash = match (&self.method, self.hash_instructions) {
            (Some(method), Some(count)) if count > 0 => {
                Some(format!("BPF of {count} instructions ({method})"))
            }
            (method, _) => method.clone(),
        };
        aggregate.active = self.active.and_then(&name_of);
        for (index, port) in &self.ports {
            let Some(name) = name_of(*index) else { continue };
            let members = &mut aggregate.members;
            let Some(member) = members.iter_mut().find(|member| member.name == name) else {
                continue;
            };
            member.up = port.up;
            if let Some(mbps) = port.mbps {
                member.rate = Some(BitRate(f64::from(mbps) * 1e6));
            }
            let word = |enabled| if enabled { "enabled" } else { "disabled" };
            member.state = port.enabled.map(|enabled| word(enabled).to_owned());
        }
    }
}

/// Completes `aggregate`, if it is the team whose interface has this index, as far as the kernel
/// tells this user.
pub fn complete(
    aggregate: &mut Option<ExistingAggregate>,
    index: u32,
    name_of: impl Fn(u32) -> Option<String>,
) {
    if let Some(aggregate) = aggregate.as_mut().filter(|aggregate| aggregate.kind == "team")
        && let Ok(team) = Team::read(index)
    {
        team.complete(aggregate, name_of);
    }
}

fn request(command: u8, index: u32) -> Request<TeamFamily> {
    Request::new(command, vec![number(TEAM_ATTR_TEAM_IFINDEX, index)])
}

#[cfg(test)]
mod tests {
    use linkrate_model::existing_aggregate::ExistingMember;
    use netlink_packet_core::Emitable;
    use netlink_packet_generic::GenlFamily;

    use super::*;

    /// Assembled by linux/if_team.h, byte by byte, and not by the code under test: this kernel has no
    /// teams. Little-endian, as the machines of the tests are.
    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_le_bytes().to_vec();
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn nest(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
        attribute(kind | 0x8000, &parts.concat())
    }

    /// An option with its type and data, and the port that it is of.
    fn option(name: &str, kind: u8, data: Option<&[u8]>, port: Option<u32>) -> Vec<u8> {
        let mut parts = vec![attribute(1, &[name.as_bytes(), &[0]].concat())];
        parts.extend(port.map(|port| attribute(6, &port.to_le_bytes())));
        parts.push(attribute(3, &[kind]));
        parts.extend(data.map(|data| attribute(4, data)));
        nest(1, &parts)
    }

    fn port(index: u32, up: bool, mbps: u32) -> Vec<u8> {
        let mut parts = vec![attribute(1, &index.to_le_bytes())];
        parts.extend(up.then(|| attribute(3, &[])));
        parts.push(attribute(4, &mbps.to_le_bytes()));
        parts.push(attribute(5, &[1]));
        nest(1, &parts)
    }

    /// The replies of a team of two ports with LACP by teamd.
    fn replies() -> [Vec<u8>; 3] {
        let team = attribute(1, &9_u32.to_le_bytes());
        let options = [
            option("mode", 5, Some(b"loadbalance\0"), None),
            option("notify_peers_count", 3, Some(&[1, 0, 0, 0]), None),
            option("enabled", 6, Some(&[]), Some(3)),
            option("enabled", 6, None, Some(4)),
            option("priority", 14, Some(&[0xff; 4]), Some(3)),
        ];
        let more = [
            option("bpf_hash_func", 11, Some(&[0; 96]), None),
            option("lb_tx_method", 5, Some(b"hash\0"), None),
            option("lb_tx_hash_to_port_mapping", 3, Some(&[3, 0, 0, 0]), None),
        ];
        let ports = [port(3, true, 10_000), port(4, false, u32::MAX)];
        [
            [team.clone(), nest(2, &options)].concat(),
            [team.clone(), nest(2, &more)].concat(),
            [team, nest(3, &ports)].concat(),
        ]
    }

    fn take(team: &mut Team, reply: &[u8]) -> Result<(), DecodeError> {
        each_attribute(reply, |kind, list| team.take(kind, list))
    }

    fn team() -> Team {
        let mut team = Team::default();
        replies().iter().for_each(|reply| take(&mut team, reply).unwrap());
        team
    }

    #[test]
    fn options_and_ports_are_taken_from_several_replies() {
        let ports = [
            (3, Port { enabled: Some(true), up: true, mbps: Some(10_000) }),
            (4, Port { enabled: Some(false), up: false, mbps: None }),
        ];
        let expected = Team {
            mode: Some("loadbalance".to_owned()),
            method: Some("hash".to_owned()),
            hash_instructions: Some(12),
            active: None,
            ports: ports.into(),
        };
        assert_eq!(team(), expected);
        let mut backup = Team::default();
        let options = [
            option("mode", 5, Some(b"activebackup\0"), None),
            option("activeport", 3, Some(&[4, 0, 0, 0]), None),
        ];
        take(&mut backup, &nest(2, &options)).unwrap();
        assert_eq!((backup.mode.as_deref(), backup.active), (Some("activebackup"), Some(4)));
    }

    /// A reply that ends early is an error or tells less, never a panic.
    #[test]
    fn replies_that_end_early_are_survived() {
        for reply in replies() {
            for length in 0..reply.len() {
                let _ = take(&mut Team::default(), &reply[..length]);
            }
        }
    }

    #[test]
    fn a_team_of_files_is_completed() {
        let member = |name: &str| ExistingMember { name: name.to_owned(), ..Default::default() };
        let mut aggregate = ExistingAggregate {
            kind: "team".to_owned(),
            members: vec![member("eth2"), member("eth3")],
            ..ExistingAggregate::default()
        };
        let name_of = |index: u32| Some(format!("eth{}", index - 1));
        team().complete(&mut aggregate, name_of);
        let text = aggregate.to_string();
        let expected = "team, loadbalance, hash BPF of 12 instructions (hash)";
        assert!(text.starts_with(expected), "{text}");
        let states = aggregate.members.iter().map(|one| (one.up, one.state.as_deref(), one.rate));
        let rate = Some(BitRate(1e10));
        assert!(states.eq([(true, Some("enabled"), rate), (false, Some("disabled"), None)]));
        assert!(aggregate.spreads());
        // as the kernel names the mode in which one port carries all
        aggregate.mode = Some("activebackup".to_owned());
        assert!(!aggregate.spreads());
    }

    #[test]
    fn a_request_names_the_team_by_its_index() {
        let request = request(TEAM_CMD_PORT_LIST_GET, 0x0102);
        let mut bytes = vec![0; request.buffer_len()];
        request.emit(&mut bytes);
        assert_eq!(bytes, attribute(1, &[2, 1, 0, 0]));
        assert_eq!((request.command(), request.version()), (3, 1));
    }

    /// Loopback is no team, on kernels with and without the family.
    #[test]
    fn an_interface_that_is_no_team_is_an_error() {
        let error = Team::read(1).unwrap_err().to_string();
        assert!(error.contains("team"), "{error}");
    }
}
