//! Existing interfaces: the host under test as it is, with clients that are other machines, or other interfaces of this machine at the end of a cable.
//!
//! linkrate moves and renumbers nothing unless asked. The agent of each machine locks its
//! interfaces, writes their settings down, and restores them when its controller is gone. These
//! agents therefore end with their input and not with their parent. An interface that is lent to a
//! client of this machine is held by the agent of the system under test, which can take it back
//! whatever happens to the client's agent.

mod path;
mod steer;

use std::time::Duration;

use linkrate_model::measurement::LinkEvidence;
use linkrate_model::topology::Topology;
use linkrate_model::{CpuSet, Interfaces, Peer, TestbedSpec};
use linkrate_protocol::{InterfaceFacts, Request};
use linkrate_sys::host::{Isolation, Life, Privilege, can_isolate};

use super::{Backend, Built};
use crate::connection::AgentError;
use crate::error::LabError;
use crate::host::{Client, Host};
use crate::options::LabOptions;
use crate::participants::Participants;
use crate::peer::{
    LAB, LENDS, LocalAgent, NamedNamespace, PeerServer, ProcessNamespace, Reach, Remote, Slurm,
    Ssh, Transport, UserCommand,
};
use crate::placement::Placement;

/// How long the agents of this machine may take to end once their input has ended.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The life of the agent that holds the interfaces of this machine.
const HOLDER: Life = Life::WithItsInput { patience: TIMEOUT, holds: true };

/// The life of a client's agent with a lent interface, which it does not hold.
const BORROWER: Life = Life::WithItsInput { patience: TIMEOUT, holds: false };

#[derive(Debug, Clone, PartialEq)]
pub struct Existing {
    /// The interfaces of the system under test, in the order of ports.
    sut: Vec<InterfaceFacts>,
    /// The interface of each client.
    clients: Vec<InterfaceFacts>,
    /// Third-party programs in the place of clients.
    pub(crate) programs: Vec<String>,
    /// Limits of this testbed, as sentences.
    warnings: Vec<String>,
}

/// Builds a testbed on the interfaces `on`.
pub(crate) fn build(
    spec: &TestbedSpec,
    on: &Interfaces,
    topology: &Topology,
    placement: &Placement,
    options: &LabOptions,
) -> Result<Built, LabError> {
    let ports = topology.segments.iter().flat_map(|segment| &segment.ports);
    let names: Vec<String> = ports.map(|port| port.interface.clone()).collect();
    let mut sut = match &on.sut {
        None => LocalAgent {
            life: HOLDER,
            permissions: LENDS,
            isolation: Isolation::None,
            cpus: &placement.sut,
        }
        .start("sut", options)?,
        Some(end) => elsewhere(end, &on.program, spec.sut_cpus.as_ref(), options)?,
    };
    // first, since it brings back interfaces that a killed agent has left in a client; and a missing
    // interface is an error before anything starts elsewhere
    let lent = on.clients.iter().filter_map(|end| match end {
        Peer::Interface { name, .. } => Some(name.clone()),
        _ => None,
    });
    sut.keep(names.iter().cloned().chain(lent).collect())?;
    let (mut hosts, mut programs) = (Vec::new(), Vec::new());
    for segment in &topology.segments {
        let wanted = segment.clients.iter();
        for (number, end) in wanted.filter_map(|n| Some((n, on.clients.get(*n as usize)?))) {
            let interface = &segment.ports[0].interface;
            if end.program().is_some() {
                await_link(&mut sut, interface)?;
                programs.push(PeerServer::find(&mut sut, end, interface, options)?);
                continue;
            }
            let host = start(&mut sut, *number, end, spec, on, placement, options)?;
            hosts.push((host, end, interface));
        }
    }
    join(sut, hosts, programs, &names, placement)
}

/// Finds the paths between the system under test and its clients, each with its peer and the
/// interface that leads to it.
pub(crate) fn join(
    mut sut: Host,
    hosts: Vec<(Host, &Peer, &String)>,
    programs: Vec<PeerServer>,
    names: &[String],
    placement: &Placement,
) -> Result<Built, LabError> {
    let mut existing = Existing {
        sut: Vec::new(),
        clients: Vec::new(),
        programs: programs.iter().map(|program| program.name().to_owned()).collect(),
        warnings: Vec::new(),
    };
    let mut clients = Vec::new();
    for (mut host, end, sut_interface) in hosts {
        let facts = describe(&mut sut, sut_interface)?;
        let path = path::find(&mut sut, &mut host, &facts, end)?;
        await_link(&mut host, &path.interface)?;
        if end.is_agent_elsewhere() || end.is_in_a_namespace() {
            host.keep(vec![path.interface.clone()])?;
        }
        clients.push(Client {
            host,
            sut_interface: sut_interface.clone(),
            interface: path.interface,
            sut_address: path.sut_address,
            address: path.address,
        });
    }
    for name in names {
        await_link(&mut sut, name)?;
        let facts = describe(&mut sut, name)?;
        if facts.half_duplex {
            existing.warnings.push(format!(
                "{name} is half duplex: both directions share the rate of its link, and limits \
                 assume full duplex"
            ));
        }
        existing.warnings.extend(limping(&facts));
        existing.sut.push(facts);
    }
    for client in &mut clients {
        existing.clients.push(describe(&mut client.host, &client.interface)?);
    }
    let receive_steering =
        steer::steer(&mut sut, &mut clients, names, placement, &mut existing.warnings)?;
    let backend = Backend::Existing(existing);
    Ok(Built { backend, sut, clients, programs, namespaces: None, receive_steering })
}

/// Starts the host of client `number` at the peer `end`.
fn start(
    sut: &mut Host,
    number: u32,
    end: &Peer,
    spec: &TestbedSpec,
    on: &Interfaces,
    placement: &Placement,
    options: &LabOptions,
) -> Result<Host, LabError> {
    let inside = |transport: &dyn Transport| {
        let (program, cpus) = (&on.program, Some(&placement.clients));
        Remote { transport, program, cpus }.start(&end.name(), options)
    };
    match end {
        Peer::Ssh { .. } | Peer::Slurm { .. } | Peer::Command { .. } => {
            let host = elsewhere(end, &on.program, spec.client_cpus.as_ref(), options)?;
            apart(sut, &host)?;
            Ok(host)
        }
        Peer::Interface { name, .. } => {
            may_move(&describe(sut, name)?)?;
            let isolation = match can_isolate().map_err(LabError::cannot_measure)? {
                Privilege::Root => Isolation::Root,
                Privilege::UserNamespace => {
                    return Err(LabError::CannotMeasure {
                        what: format!("moving {name} into a client needs root"),
                        hint: Some("run as root".to_owned()),
                    });
                }
            };
            let child = LocalAgent {
                life: BORROWER,
                permissions: LAB,
                isolation,
                cpus: &placement.clients,
            };
            let host = child.start(&format!("client {number}"), options)?;
            sut.order(&Request::Lend { name: name.clone(), pid: host.pid() })?;
            Ok(host)
        }
        Peer::Namespace { name, .. } => inside(&NamedNamespace { name }),
        Peer::Process { pid, .. } => inside(&ProcessNamespace::of(*pid)?),
        Peer::Program { .. } => elsewhere(end, &on.program, None, options),
    }
}

/// Starts an agent on another machine, bound to `cpus`, or to all CPUs there. Fails for a peer that is no other
/// machine, or has no agent.
pub(crate) fn elsewhere(
    end: &Peer,
    program: &str,
    cpus: Option<&CpuSet>,
    options: &LabOptions,
) -> Result<Host, LabError> {
    let by =
        |transport: &dyn Transport| Remote { transport, program, cpus }.start(&end.name(), options);
    match end {
        Peer::Ssh { destination, .. } => by(&Ssh { destination }),
        Peer::Slurm { node, .. } => by(&Slurm::find(node, options)?),
        Peer::Command { words } => by(&UserCommand { words }),
        Peer::Interface { .. } | Peer::Namespace { .. } | Peer::Process { .. } => {
            Err(LabError::Invalid {
                what: format!("{end} is of this machine"),
                hint: "use ssh:HOST or slurm:NODE for another machine".to_owned(),
            })
        }
        Peer::Program { .. } => Err(LabError::Invalid {
            what: format!("{end} is a plain iperf3 or netperf server; this needs a linkrate agent"),
            hint: "use ssh:HOST or slurm:NODE for an agent".to_owned(),
        }),
    }
}

impl Existing {
    /// Whether the interface of client `number` is the end of a veth pair.
    pub(super) fn is_veth(&self, number: usize) -> bool {
        self.clients.get(number).is_some_and(|facts| facts.kind.as_deref() == Some("veth"))
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Facts that travel with results, as (name, value).
    pub(super) fn facts(&self, clients: &[Client]) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        for (number, port) in (1..).zip(&self.sut) {
            let rate =
                port.rate.map_or_else(|| "none of its own".to_owned(), |rate| rate.to_string());
            for (what, value) in [
                ("interface", port.name.clone()),
                ("driver", driver(port)),
                ("firmware", port.firmware.clone()),
                ("rate", rate),
                (
                    "aggregate",
                    port.aggregate.as_ref().map_or_else(String::new, ToString::to_string),
                ),
            ] {
                facts.push((format!("port-{number}-{what}"), value));
            }
        }
        let of_clients = |pick: &dyn Fn(&Client, &InterfaceFacts) -> String| {
            let mut values: Vec<String> = Vec::new();
            for value in clients.iter().zip(&self.clients).map(|(client, on)| pick(client, on)) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            values.join("; ")
        };
        facts.extend([
            ("client-kernel".to_owned(), of_clients(&|client, _| client.host.hello.kernel.clone())),
            (
                "client-cpu-model".to_owned(),
                of_clients(&|client, _| client.host.hello.cpu_model.clone()),
            ),
            ("client-driver".to_owned(), of_clients(&|_, facts| driver(facts))),
            ("client-firmware".to_owned(), of_clients(&|_, facts| facts.firmware.clone())),
            ("client-programs".to_owned(), self.programs.join("; ")),
        ]);
        facts.retain(|(_, value)| !value.is_empty());
        facts
    }
}

/// The links of the SUT's interfaces, all of which must be up.
pub(super) fn links(hosts: &mut Participants<'_>) -> Result<Vec<LinkEvidence>, LabError> {
    let mut links = Vec::new();
    for interface in hosts.sut_interfaces() {
        let facts = hosts.sut.describe(&interface)?;
        if !facts.running {
            return Err(LabError::Invalid {
                what: format!("the link of {interface} is down"),
                hint: "connect the cable, or choose another interface".to_owned(),
            });
        }
        let aggregate = facts.aggregate.map(Box::new);
        links.push(LinkEvidence { interface, rate: facts.rate, aggregate });
    }
    Ok(links)
}

/// Waits for the links of all interfaces: some drivers take the link down when a setting changes,
/// and it takes seconds to come back.
pub(super) fn await_links(hosts: &mut Participants<'_>) -> Result<(), AgentError> {
    for interface in hosts.sut_interfaces() {
        hosts.sut.await_link(&interface)?;
    }
    for client in &mut *hosts.clients {
        client.host.await_link(&client.interface)?;
    }
    Ok(())
}

fn describe(host: &mut Host, name: &str) -> Result<InterfaceFacts, LabError> {
    let facts = host.describe(name);
    host.named(facts)
}

fn await_link(host: &mut Host, name: &str) -> Result<(), LabError> {
    let up = host.await_link(name);
    host.named(up)
}

/// Refuses a client that uses CPUs of the system under test, also one that counts as another machine.
fn apart(sut: &Host, client: &Host) -> Result<(), LabError> {
    let same = sut.hello.boot_id == client.hello.boot_id && !sut.hello.boot_id.is_empty();
    if same && sut.cpus.overlaps(&client.cpus) {
        return Err(LabError::Invalid {
            what: format!(
                "{} is this machine, and its CPUs {} overlap with CPUs {} of the system under test",
                client.name, client.cpus, sut.cpus
            ),
            hint: "choose separate CPUs, for example --sut-cpus 0 --client-cpus 1".to_owned(),
        });
    }
    Ok(())
}

/// Refuses to move an interface whose membership or upper interfaces cannot be restored.
fn may_move(facts: &InterfaceFacts) -> Result<(), LabError> {
    let name = &facts.name;
    let refused = |what: String, hint: &str| {
        Err(LabError::Invalid {
            what: format!("{name} cannot be moved into a client's namespace: {what}"),
            hint: hint.to_owned(),
        })
    };
    if let Some(controller) = &facts.belongs_to {
        return refused(format!("it is part of {controller}"), "remove it from there first");
    }
    if !facts.carries.is_empty() {
        let what = format!("it carries {}", facts.carries.join(", "));
        return refused(what, "remove them first, or choose another interface");
    }
    Ok(())
}

/// What limits a bond or a team beside its links, as sentences.
fn limping(facts: &InterfaceFacts) -> Vec<String> {
    let Some(aggregate) = &facts.aggregate else { return Vec::new() };
    let name = &facts.name;
    let mut found = Vec::new();
    let down = aggregate.down();
    if !down.is_empty() {
        found.push(format!("aggregate {name} lacks members: {} is down", down.join(", ")));
    }
    if aggregate.lacks_partner() {
        found.push(format!("aggregate {name} has no LACP partner, so one member carries all"));
    }
    for member in aggregate.outside() {
        found.push(format!(
            "{} is in another aggregator than {name} uses, so it carries nothing",
            member.name
        ));
    }
    found
}

fn driver(facts: &InterfaceFacts) -> String {
    format!("{} {}", facts.driver, facts.driver_version).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregate_that_limps_is_a_warning() {
        use linkrate_model::existing_aggregate::{ExistingAggregate, ExistingMember};

        let member = |name: &str, up, aggregator| ExistingMember {
            name: name.to_owned(),
            up,
            aggregator: Some(aggregator),
            ..ExistingMember::default()
        };
        let aggregate = ExistingAggregate {
            mode: Some("802.3ad".to_owned()),
            aggregator: Some(1),
            partner: Some("02:00:00:00:00:01".to_owned()),
            members: vec![member("eth2", true, 1)],
            ..ExistingAggregate::default()
        };
        let mut facts = InterfaceFacts {
            name: "bond0".to_owned(),
            aggregate: Some(aggregate),
            ..InterfaceFacts::default()
        };
        assert!(limping(&facts).is_empty() && limping(&InterfaceFacts::default()).is_empty());
        let bond = facts.aggregate.as_mut().unwrap();
        bond.members.extend([member("eth3", false, 1), member("eth4", true, 2)]);
        bond.partner = Some("00:00:00:00:00:00".to_owned());
        let reported = limping(&facts);
        for (sentence, part) in
            reported.iter().zip(["eth3 is down", "no LACP partner", "eth4 is in"])
        {
            assert!(sentence.contains(part), "{sentence}");
        }
        assert_eq!(reported.len(), 3);
    }

    #[test]
    fn an_interface_with_a_controller_or_upper_interfaces_is_not_moved() {
        let facts = InterfaceFacts { name: "eth2".to_owned(), ..InterfaceFacts::default() };
        assert!(may_move(&facts).is_ok());
        let bridged = InterfaceFacts { belongs_to: Some("br0".to_owned()), ..facts.clone() };
        assert!(may_move(&bridged).unwrap_err().to_string().contains("part of br0"));
        let vlans = InterfaceFacts { carries: vec!["eth2.5".to_owned()], ..facts };
        assert!(may_move(&vlans).unwrap_err().to_string().contains("it carries eth2.5"));
    }
}
