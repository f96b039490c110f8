//! Existing interfaces: the host under test as it is, with clients that are machines behind `ssh`, or
//! other interfaces of this machine at the end of a cable.
//!
//! linkrate moves and renumbers nothing unless asked. Every agent remembers the settings of the
//! interfaces it is given, and restores them when its controller is gone. These agents therefore end
//! with their input and not with their parent.

use std::net::Ipv4Addr;
use std::time::Duration;

use linkrate_agent::protocol::{InterfaceFacts, Reply, Request, Steered};
use linkrate_sys::host::{Isolation, Life, Privilege, can_isolate};
use linkrate_terms::interfaces::InterfaceAddress;
use linkrate_terms::measurement::LinkEvidence;
use linkrate_terms::topology::Topology;
use linkrate_terms::{FarEnd, Interfaces, TestbedSpec};

use super::{Built, Ground, ReceiveSteering};
use crate::connection::{AgentError, expect_reply};
use crate::error::LabError;
use crate::far_end::{Child, Reach, Ssh};
use crate::host::{Client, Host, Participants};
use crate::options::LabOptions;
use crate::placement::Placement;

/// What ends the agents of this machine: the end of their input, with time to restore settings.
const LIFE: Life = Life::WithItsInput { patience: Duration::from_secs(15) };

/// Existing interfaces of a testbed.
#[derive(Debug, Clone, PartialEq)]
pub struct Existing {
    /// Those of the system under test, in the order of ports.
    sut: Vec<InterfaceFacts>,
    /// That of each client.
    clients: Vec<InterfaceFacts>,
    /// Sentences about what this testbed cannot tell.
    warnings: Vec<String>,
}

/// Builds a testbed on the interfaces `on`.
///
/// # Errors
/// [`LabError`] with the host or interface that does not fit, and the remedy.
pub(crate) fn build(
    spec: &TestbedSpec,
    on: &Interfaces,
    topology: &Topology,
    placement: &Placement,
    options: &LabOptions,
) -> Result<Built, LabError> {
    let ports = topology.segments.iter().flat_map(|segment| &segment.ports);
    let names: Vec<String> = ports.map(|port| port.interface.clone()).collect();
    let at_home = Child { life: LIFE, isolation: Isolation::None, cpus: &placement.sut };
    let mut sut = at_home.start("sut", options)?;
    for name in &names {
        // a missing interface is an error before anything starts elsewhere
        describe(&mut sut, name)?;
    }
    keep(&mut sut, names.clone())?;
    let mut hosts = Vec::new();
    for segment in &topology.segments {
        let wanted = segment.clients.iter();
        for (number, end) in wanted.filter_map(|n| Some((n, on.clients.get(*n as usize)?))) {
            let host = start(&mut sut, *number, end, spec, on, placement, options)?;
            hosts.push((host, end, &segment.ports[0].interface));
        }
    }
    let mut existing = Existing { sut: Vec::new(), clients: Vec::new(), warnings: Vec::new() };
    let mut clients = Vec::new();
    for (mut host, end, sut_interface) in hosts {
        let facts = describe(&mut sut, sut_interface)?;
        let path = path(&mut sut, &mut host, &facts, end)?;
        await_link(&mut host, &path.interface)?;
        keep(&mut host, vec![path.interface.clone()])?;
        clients.push(Client {
            host,
            sut_interface: sut_interface.clone(),
            interface: path.interface,
            sut_address: path.sut_address,
            address: path.address,
        });
    }
    for name in &names {
        await_link(&mut sut, name)?;
        let facts = describe(&mut sut, name)?;
        if facts.half_duplex {
            existing.warnings.push(format!(
                "{name} is half duplex: both directions share the rate of its link, and limits \
                 assume full duplex"
            ));
        }
        existing.sut.push(facts);
    }
    for client in &mut clients {
        existing.clients.push(describe(&mut client.host, &client.interface)?);
    }
    let receive_steering =
        steer(&mut sut, &mut clients, &names, placement, &mut existing.warnings)?;
    let ground = Ground::Existing(existing);
    Ok(Built { ground, sut, clients, namespaces: None, receive_steering })
}

/// Starts the host of client `number` at the far end `end`.
fn start(
    sut: &mut Host,
    number: u32,
    end: &FarEnd,
    spec: &TestbedSpec,
    on: &Interfaces,
    placement: &Placement,
    options: &LabOptions,
) -> Result<Host, LabError> {
    match end {
        FarEnd::Ssh { destination, .. } => {
            let (program, cpus) = (on.program.as_str(), spec.client_cpus.as_ref());
            let host = Ssh { destination, program, cpus }.start(&end.name(), options)?;
            apart(sut, &host)?;
            Ok(host)
        }
        FarEnd::Interface { name, .. } => {
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
            let child = Child { life: LIFE, isolation, cpus: &placement.clients };
            let mut host = child.start(&format!("client {number}"), options)?;
            host.order(&Request::Borrow { name: name.clone(), pid: sut.pid() })?;
            Ok(host)
        }
    }
}

impl Existing {
    /// Whether the interface of client `number` is the end of a veth pair.
    pub(super) fn is_veth(&self, number: usize) -> bool {
        self.clients.get(number).is_some_and(|facts| facts.kind.as_deref() == Some("veth"))
    }

    /// Sentences about what this testbed cannot tell.
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
        ]);
        facts.retain(|(_, value)| !value.is_empty());
        facts
    }
}

/// The links of the SUT's interfaces, all of which must be up.
///
/// # Errors
/// The first interface without a link.
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
        links.push(LinkEvidence { interface, rate: facts.rate });
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
    named(host, facts)
}

fn keep(host: &mut Host, names: Vec<String>) -> Result<(), LabError> {
    let kept = host.order(&Request::Keep { names });
    named(host, kept)
}

fn await_link(host: &mut Host, name: &str) -> Result<(), LabError> {
    let up = host.await_link(name);
    named(host, up)
}

/// Names the host in its refusal: several hosts get the same request.
fn named<T>(host: &Host, answer: Result<T, AgentError>) -> Result<T, LabError> {
    answer.map_err(|error| match error {
        AgentError::Refused(refusal) => LabError::CannotMeasure {
            what: format!("{}: {refusal}", host.name),
            hint: refusal.hint,
        },
        error => error.into(),
    })
}

/// Refuses a client that uses CPUs of the system under test, also behind ssh.
fn apart(sut: &Host, client: &Host) -> Result<(), LabError> {
    let same = sut.hello.boot_id == client.hello.boot_id && !sut.hello.boot_id.is_empty();
    if same && sut.cpus.overlaps(&client.cpus) {
        return Err(LabError::Invalid {
            what: format!(
                "{} is this machine, and its CPUs {} overlap with CPUs {} of the system under test",
                client.name, client.cpus, sut.cpus
            ),
            hint: "choose separate CPUs with sut-cpus and client-cpus".to_owned(),
        });
    }
    Ok(())
}

/// Refuses to move an interface whose membership or upper interfaces cannot be restored.
fn may_move(facts: &InterfaceFacts) -> Result<(), LabError> {
    let name = &facts.name;
    let refused = |what: String, hint: &str| {
        Err(LabError::Invalid {
            what: format!("{name} cannot be lent to a client: {what}"),
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

/// Addresses and interface by which a client and the system under test reach each other.
#[derive(Debug, PartialEq)]
struct Path {
    sut_address: Ipv4Addr,
    address: Ipv4Addr,
    /// The client's interface.
    interface: String,
}

/// Finds the path, and checks that packets take it in both directions.
fn path(
    sut: &mut Host,
    client: &mut Host,
    facts: &InterfaceFacts,
    end: &FarEnd,
) -> Result<Path, LabError> {
    let request = Request::Addresses;
    let theirs =
        expect_reply!(client.connection, request, Reply::Addresses(addresses) => addresses);
    let theirs = named(client, theirs)?;
    let path = choose(&facts.name, &facts.addresses, &theirs, end)?;
    for (host, to, expected) in [
        (&mut *sut, path.address, facts.name.clone()),
        (&mut *client, path.sut_address, path.interface.clone()),
    ] {
        let request = Request::RouteTo { address: to };
        let interface =
            expect_reply!(host.connection, request, Reply::Route { interface, .. } => interface);
        let interface = named(host, interface)?;
        if interface != expected {
            return Err(LabError::Invalid {
                what: format!(
                    "{}: packets to {to} leave by {interface}, expected {expected}",
                    host.name
                ),
                hint: format!("try: ip route get {to}"),
            });
        }
    }
    Ok(path)
}

/// Chooses addresses of one network, or the address that was named.
fn choose(
    interface: &str,
    ours: &[InterfaceAddress],
    theirs: &[InterfaceAddress],
    end: &FarEnd,
) -> Result<Path, LabError> {
    let Some(first) = ours.first() else {
        return Err(LabError::Invalid {
            what: format!("{interface} has no IPv4 address"),
            hint: format!("give it one first: ip address add ADDRESS/LENGTH dev {interface}"),
        });
    };
    let listed = |addresses: &[InterfaceAddress]| {
        let listed: Vec<String> = addresses
            .iter()
            .filter(|address| !address.address.is_loopback())
            .map(ToString::to_string)
            .collect();
        if listed.is_empty() { "none".to_owned() } else { listed.join(", ") }
    };
    let theirs_of = |wanted: &dyn Fn(&InterfaceAddress) -> bool| {
        theirs
            .iter()
            .find(|theirs| end.interface().is_none_or(|i| i == theirs.interface) && wanted(theirs))
    };
    let found = match end.address() {
        Some(address) => theirs_of(&|theirs| theirs.address == address).map(|theirs| {
            let same = ours.iter().find(|ours| ours.reaches(address));
            (same.unwrap_or(first), theirs)
        }),
        None => ours
            .iter()
            .find_map(|ours| Some((ours, theirs_of(&|theirs| ours.reaches(theirs.address))?))),
    };
    match found {
        Some((ours, theirs)) => Ok(Path {
            sut_address: ours.address,
            address: theirs.address,
            interface: theirs.interface.clone(),
        }),
        None => Err(LabError::Invalid {
            what: match end.address() {
                Some(address) => {
                    format!("{} has no address {address}; it has {}", end.name(), listed(theirs))
                }
                None => format!(
                    "{end} has no address in a network of {interface} ({}); it has {}",
                    listed(ours),
                    listed(theirs)
                ),
            },
            hint: format!("give the address that {interface} reaches: \"{},ADDRESS\"", end.name()),
        }),
    }
}

/// Steers receive processing to the CPUs of each host that does not have its whole machine.
fn steer(
    sut: &mut Host,
    clients: &mut [Client],
    names: &[String],
    placement: &Placement,
    warnings: &mut Vec<String>,
) -> Result<ReceiveSteering, LabError> {
    if placement.is_shared() {
        return Ok(ReceiveSteering::NotNeeded);
    }
    let mut steering = ReceiveSteering::WholeMachines;
    for name in names {
        match steer_one(sut, name, warnings)? {
            // the worst of several counts
            found if found > rank(&steering) => steering = found.into(),
            _ => {}
        }
    }
    for client in clients {
        let interface = client.interface.clone();
        if let Steering::Refused(reason) = steer_one(&mut client.host, &interface, warnings)? {
            warnings.push(format!(
                "receive processing of {} could not be steered to its CPUs: {reason}",
                client.host.name
            ));
        }
    }
    Ok(steering)
}

/// How one interface was steered; later variants are worse.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Steering {
    NotNeeded,
    Interrupts,
    Queues,
    Refused(String),
}

fn rank(steering: &ReceiveSteering) -> Steering {
    match steering {
        ReceiveSteering::NotNeeded | ReceiveSteering::Drivers | ReceiveSteering::WholeMachines => {
            Steering::NotNeeded
        }
        ReceiveSteering::Interrupts => Steering::Interrupts,
        ReceiveSteering::Rps => Steering::Queues,
        ReceiveSteering::Unavailable(reason) => Steering::Refused(reason.clone()),
    }
}

impl From<Steering> for ReceiveSteering {
    fn from(steering: Steering) -> Self {
        match steering {
            Steering::NotNeeded => Self::WholeMachines,
            Steering::Interrupts => Self::Interrupts,
            Steering::Queues => Self::Rps,
            Steering::Refused(reason) => Self::Unavailable(reason),
        }
    }
}

fn steer_one(
    host: &mut Host,
    name: &str,
    warnings: &mut Vec<String>,
) -> Result<Steering, LabError> {
    if host.cpus == host.hello.online_cpus {
        return Ok(Steering::NotNeeded);
    }
    let request = Request::SteerInterface { name: name.to_owned(), cpus: host.cpus.clone() };
    let steered = expect_reply!(host.connection, request, Reply::Steered(steered) => steered);
    match steered {
        Ok(Steered { interrupts, stuck }) => {
            if !stuck.is_empty() {
                let numbers: Vec<String> = stuck.iter().map(u32::to_string).collect();
                warnings.push(format!(
                    "{}: interrupts {} of {name} cannot be moved to CPUs {}: other CPUs may \
                     process part of the received packets",
                    host.name,
                    numbers.join(", "),
                    host.cpus
                ));
            }
            let any = interrupts > 0 || !stuck.is_empty();
            Ok(if any { Steering::Interrupts } else { Steering::Queues })
        }
        Err(AgentError::Refused(refusal)) => Ok(Steering::Refused(refusal.reason)),
        Err(error) => Err(error.into()),
    }
}

fn driver(facts: &InterfaceFacts) -> String {
    format!("{} {}", facts.driver, facts.driver_version).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(interface: &str, address: &str) -> InterfaceAddress {
        let (address, length) = address.split_once('/').unwrap();
        InterfaceAddress {
            interface: interface.to_owned(),
            address: address.parse().unwrap(),
            prefix_length: length.parse().unwrap(),
        }
    }

    fn chosen(ours: &[&str], end: &str) -> Result<(String, String, String), String> {
        let ours: Vec<_> = ours.iter().map(|address| on("eth1", address)).collect();
        let theirs =
            [on("lo", "127.0.0.1/8"), on("eth0", "192.0.2.7/24"), on("eth5", "10.0.0.2/24")];
        choose("eth1", &ours, &theirs, &end.parse().unwrap())
            .map(|path| (path.sut_address.to_string(), path.address.to_string(), path.interface))
            .map_err(|error| format!("{error}; {}", error.hint().unwrap_or_default()))
    }

    #[test]
    fn a_client_is_reached_in_the_network_of_the_interface() {
        let met = |ours: &str, theirs: &str, interface: &str| {
            Ok((ours.to_owned(), theirs.to_owned(), interface.to_owned()))
        };
        assert_eq!(chosen(&["10.0.0.1/24"], "ssh:lab2"), met("10.0.0.1", "10.0.0.2", "eth5"));
        let several = ["172.16.0.1/16", "10.0.0.1/24"];
        assert_eq!(chosen(&several, "interface:eth5"), met("10.0.0.1", "10.0.0.2", "eth5"));
        let named = chosen(&several, "ssh:lab2,192.0.2.7");
        assert_eq!(named, met("172.16.0.1", "192.0.2.7", "eth0"), "by a router, if asked");
    }

    #[test]
    fn a_client_out_of_reach_is_an_error_with_its_addresses() {
        for (ours, end, part) in [
            (&["172.16.0.1/16"][..], "ssh:lab2", "ssh:lab2 has no address in a network of eth1"),
            (&["172.16.0.1/16"], "ssh:lab2", "it has 192.0.2.7/24 on eth0, 10.0.0.2/24 on eth5"),
            (&["10.0.0.1/24"], "ssh:lab2,10.0.0.9", "has no address 10.0.0.9"),
            (&["10.0.0.1/24"], "interface:eth0", "interface:eth0 has no address"),
            (&[], "ssh:lab2", "eth1 has no IPv4 address"),
        ] {
            let error = chosen(ours, end).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
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

    #[test]
    fn the_worst_steering_counts() {
        let all = [
            ReceiveSteering::WholeMachines,
            ReceiveSteering::Interrupts,
            ReceiveSteering::Rps,
            ReceiveSteering::Unavailable("no".to_owned()),
        ];
        assert!(all.windows(2).all(|pair| rank(&pair[0]) < rank(&pair[1])));
        for steering in all {
            assert_eq!(ReceiveSteering::from(rank(&steering)), steering);
        }
    }
}
