//! The requests that an agent may carry out. An agent of a lab has namespaces of its own. An agent
//! on existing interfaces changes nothing but the interfaces that it keeps.

use std::net::IpAddr;

use linkrate_sys::netlink::RouteSocket;

use crate::existing::Lease;
use linkrate_protocol::{Refusal, Request};

/// What an agent was started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permissions {
    /// A host of a lab, in namespaces of its own: every request except `keep` and `lend`.
    Lab,
    /// Existing interfaces: no request that creates or addresses interfaces, and traffic over kept
    /// interfaces only.
    Existing {
        /// Whether it may lend interfaces to other hosts of this machine.
        lends: bool,
        /// The interfaces that it may keep; `None` for all.
        interfaces: Option<Vec<String>>,
    },
}

impl Permissions {
    /// Refuses a request that the agent was not started for.
    pub fn check(&self, request: &Request, lease: &Lease) -> Result<(), Refusal> {
        match self {
            Self::Lab => match request {
                Request::Keep { .. } => Err(not_for("keep", "existing interfaces")),
                Request::Lend { .. } => Err(not_for("lend", "existing interfaces")),
                _ => Ok(()),
            },
            Self::Existing { lends, interfaces } => match request {
                Request::CreateWire { .. } => Err(not_for("create-wire", "labs")),
                Request::CreateTap { .. } => Err(not_for("create-tap", "labs")),
                Request::ReleaseTap { .. } => Err(not_for("release-tap", "labs")),
                Request::LimitDatagrams { .. } => Err(not_for("limit-datagrams", "labs")),
                Request::ConfigureInterface(_) => Err(not_for("configure-interface", "labs")),
                Request::ReachOverIpv6(_) => Err(not_for("reach-over-ipv6", "labs")),
                Request::SteerReceive { .. } => Err(not_for("steer-receive", "labs")),
                Request::Toe(_) => Err(not_for("toe", "labs")),
                Request::PrepareProfile { .. } if !lends => {
                    Err(not_for("prepare-profile", "the system under test"))
                }
                Request::Lend { .. } if !lends => Err(not_for("lend", "the system under test")),
                Request::Keep { names } => match (interfaces, names) {
                    (Some(allowed), names) => match names.iter().find(|n| !allowed.contains(n)) {
                        Some(name) => Err(Refusal {
                            reason: format!(
                                "this agent may use {} only, not {name}",
                                allowed.join(", ")
                            ),
                            hint: Some("its options are in the forced command of ssh".to_owned()),
                        }),
                        None => Ok(()),
                    },
                    (None, _) => Ok(()),
                },
                Request::SetKnobs { interfaces, .. } => {
                    interfaces.iter().try_for_each(|name| kept(name, lease))
                }
                Request::SteerInterface { name, .. } => kept(name, lease),
                Request::Listen(spec) => {
                    spec.clients.iter().try_for_each(|ends| has(ends.listener, lease))
                }
                Request::Connect(spec) => leads_over_kept(spec.ends.listener, lease),
                // a far agent makes no connections to programs that its controller names
                Request::Dial(_) if !lends => Err(not_for("dial", "the system under test")),
                Request::Dial(spec) => leads_over_kept(spec.ends.client, lease),
                _ => Ok(()),
            },
        }
    }
}

fn not_for(request: &str, purpose: &str) -> Refusal {
    Refusal { reason: format!("{request} is for {purpose}; this agent refuses it"), hint: None }
}

fn kept(name: &str, lease: &Lease) -> Result<(), Refusal> {
    if lease.holds(name) {
        return Ok(());
    }
    Err(Refusal { reason: format!("interface {name} is not managed by this agent"), hint: None })
}

/// A test socket listens on an address of a kept interface only.
fn has(address: IpAddr, lease: &Lease) -> Result<(), Refusal> {
    let addresses = RouteSocket::open()?.ipv4_addresses()?;
    match addresses.iter().find(|own| IpAddr::V4(own.address) == address) {
        Some(own) => kept(&own.interface, lease),
        None => Err(Refusal { reason: format!("no interface has address {address}"), hint: None }),
    }
}

/// A client connects over a kept interface only.
fn leads_over_kept(address: IpAddr, lease: &Lease) -> Result<(), Refusal> {
    let (interface, _) = RouteSocket::open()?.route_to(address)?;
    kept(&interface, lease)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use linkrate_model::{InterfaceKnobs, SocketKnobs, Workload};
    use linkrate_protocol::{Carries, ConnectSpec, Ends, InterfaceSetup, Ipv6Setup, ListenSpec};

    fn refused(permissions: &Permissions, request: &Request) -> Option<String> {
        permissions.check(request, &Lease::default()).err().map(|refusal| refusal.reason)
    }

    fn lo() -> String {
        "lo".to_owned()
    }

    #[test]
    fn an_agent_over_ssh_refuses_all_that_only_labs_need() {
        let ssh = Permissions::Existing { lends: false, interfaces: None };
        let setup = InterfaceSetup {
            name: lo(),
            address: Ipv4Addr::LOCALHOST,
            prefix_length: 8,
            route_congestion: None,
            gateway: None,
        };
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let ends = Ends { client: local, listener: local };
        let ipv6 = Ipv6Setup {
            name: lo(),
            address: Ipv6Addr::LOCALHOST,
            neighbours: Vec::new(),
            route_congestion: None,
        };
        let connect = ConnectSpec {
            workload: Workload::default(),
            socket: SocketKnobs::default(),
            client: 0,
            ends,
            ports: vec![22],
            nonce: 1,
            seed: 1,
            shared_cpus: false,
            record: None,
            part: 0,
            concurrent: false,
        };
        let listen = ListenSpec {
            workload: Workload::default(),
            socket: SocketKnobs::default(),
            clients: vec![ends],
            listeners: 1,
            nonce: 1,
            seed: 1,
            shared_cpus: false,
            record: None,
            part: 0,
            concurrent: false,
            bind: std::collections::BTreeMap::new(),
        };
        let cpus = linkrate_model::CpuSet::default();
        for request in [
            Request::CreateWire { name: lo(), peer_name: lo(), peer_pid: 1, queues: 1 },
            Request::CreateTap {
                name: lo(),
                carries: Carries::Frames,
                queues: 1,
                address: None,
                mtu: None,
                tx_queue_length: 1,
                napi: false,
            },
            Request::LimitDatagrams {
                name: lo(),
                bytes_per_second: 1,
                burst_us: 1,
                overhead: 0,
                in_cells: false,
            },
            Request::ConfigureInterface(setup),
            Request::ReachOverIpv6(ipv6),
            Request::Lend { name: lo(), pid: 1 },
            Request::SteerReceive { name: lo(), cpus: cpus.clone() },
            Request::Toe(linkrate_protocol::toe::ToeRequest::Forget),
            Request::SteerInterface { name: lo(), cpus: cpus.clone() },
            Request::PrepareProfile { cpus },
            Request::SetKnobs { interfaces: vec![lo()], knobs: InterfaceKnobs::default() },
            Request::Connect(connect),
            Request::Listen(listen),
        ] {
            assert!(refused(&ssh, &request).is_some(), "{request:?}");
        }
        assert_eq!(refused(&ssh, &Request::Keep { names: vec![lo()] }), None);
        assert_eq!(refused(&ssh, &Request::Addresses), None);
    }

    #[test]
    fn a_forced_command_can_name_the_interfaces() {
        let only =
            Permissions::Existing { lends: false, interfaces: Some(vec!["eth1".to_owned()]) };
        assert_eq!(refused(&only, &Request::Keep { names: vec!["eth1".to_owned()] }), None);
        let reason = refused(&only, &Request::Keep { names: vec![lo()] }).unwrap();
        assert_eq!(reason, "this agent may use eth1 only, not lo");
    }
}
