//! A testbed of interfaces that are there already: the host under test as it stands, and clients
//! that are machines behind `ssh`, or other interfaces of this machine at the end of a cable.
//!
//! Nothing is moved or renumbered unasked. Every agent remembers what the interfaces it is told of
//! have set, and puts it back when its controller is gone, however that went: these agents end with
//! their input, and not with their parent.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use linkrate_agent::protocol::{InterfaceFacts, Reply, Request, Steered};
use linkrate_sys::host::{Isolation, Life, Privilege, can_isolate};
use linkrate_terms::interfaces::InterfaceAddress;
use linkrate_terms::{FarEnd, Interfaces, TestbedSpec};

use crate::LabError;
use crate::connection::{AgentError, expect_reply};
use crate::placement::Placement;
use crate::ssh;
use crate::testbed::{
    Client, Host, LabOptions, ReceiveSteering, Standing, Testbed, account, start,
};

/// Agents of this machine end with their input, and have so long to put things back.
const LIFE: Life = Life::WithItsInput { patience: Duration::from_secs(15) };

/// Builds a testbed on `on`.
///
/// # Errors
/// [`LabError`], with the host or the interface that does not fit, and the remedy.
pub(crate) fn build(
    spec: &TestbedSpec,
    on: &Interfaces,
    placement: &Placement,
    options: &LabOptions,
) -> Result<Testbed, LabError> {
    let ports = (spec.ports.min(on.ports()) as usize).max(1);
    let per_port = on.clients_per_port().max(1) as usize;
    let names: Vec<String> = on.names.iter().take(ports).cloned().collect();
    let mut sut = start("sut", LIFE, Isolation::None, &placement.sut, options)?;
    for name in &names {
        // one that is not there is told before anything is started elsewhere
        describe(&mut sut, name)?;
    }
    keep(&mut sut, names.clone())?;
    let mut hosts = Vec::new();
    for (number, end) in on.clients.iter().take(ports * per_port).enumerate() {
        let host = match end {
            FarEnd::Ssh { destination, .. } => {
                let mut host = ssh::start(&end.name(), destination, &on.program, options)?;
                let cpus = spec.client_cpus.clone();
                host.place(&cpus.unwrap_or_else(|| host.hello.online_cpus.clone()))?;
                apart(&sut, &host)?;
                host
            }
            FarEnd::Interface { name, .. } => {
                may_move(&describe(&mut sut, name)?)?;
                let isolation = match can_isolate().map_err(LabError::cannot_measure)? {
                    Privilege::Root => Isolation::Root,
                    Privilege::UserNamespace => {
                        return Err(LabError::CannotMeasure {
                            what: format!("moving {name} into a client takes root"),
                            hint: Some("run as root".to_owned()),
                        });
                    }
                };
                let host = format!("client {number}");
                let mut host = start(&host, LIFE, isolation, &placement.clients, options)?;
                let borrow = Request::Borrow { name: name.clone(), pid: sut.pid() };
                expect_reply!(host.connection, borrow, Reply::Done => ())?;
                host
            }
        };
        hosts.push((host, end, number / per_port));
    }
    let mut standing = Standing { sut: Vec::new(), clients: Vec::new(), warnings: Vec::new() };
    let mut clients = Vec::new();
    for (mut host, end, port) in hosts {
        let sut_interface = names[port].clone();
        let facts = describe(&mut sut, &sut_interface)?;
        let path = path(&mut sut, &mut host, &facts, end)?;
        await_link(&mut host, &path.interface)?;
        keep(&mut host, vec![path.interface.clone()])?;
        clients.push(Client {
            host,
            sut_interface,
            interface: path.interface,
            sut_address: path.sut_address,
            address: path.address,
        });
    }
    for name in &names {
        await_link(&mut sut, name)?;
        let facts = describe(&mut sut, name)?;
        if facts.half_duplex {
            standing.warnings.push(format!(
                "{name} is half duplex: both directions share the rate of its link, which limits \
                 take for full duplex"
            ));
        }
        standing.sut.push(facts);
    }
    for client in &mut clients {
        standing.clients.push(describe(&mut client.host, &client.interface)?);
    }
    let receive_steering = steer(&mut sut, &mut clients, &names, placement, &mut standing)?;
    let idle_source = account(&mut sut, &placement.sut, spec.cpu_meter, true)?;
    let mut accounted: BTreeSet<String> = BTreeSet::new();
    for client in clients.iter_mut().filter(|_| !placement.is_shared()) {
        // one agent for the CPUs of each machine
        if accounted.insert(client.host.hello.boot_id.clone()) {
            let cpus = client.host.cpus.clone();
            account(&mut client.host, &cpus, spec.cpu_meter, true)?;
        }
    }
    let mut placement = placement.clone();
    if let (true, Some(client)) = (placement.apart, clients.first()) {
        placement.clients = client.host.cpus.clone();
    }
    Ok(Testbed {
        adapters: None,
        sut,
        clients,
        placement,
        privilege: None,
        idle_source,
        receive_steering,
        standing: Some(standing),
        can_profile: false,
    })
}

fn describe(host: &mut Host, name: &str) -> Result<InterfaceFacts, LabError> {
    let request = Request::Describe { name: name.to_owned() };
    let facts = expect_reply!(host.connection, request, Reply::Interface(facts) => facts);
    Ok(*named(host, facts)?)
}

fn keep(host: &mut Host, names: Vec<String>) -> Result<(), LabError> {
    let kept = expect_reply!(host.connection, Request::Keep { names }, Reply::Done => ());
    named(host, kept)
}

fn await_link(host: &mut Host, name: &str) -> Result<(), LabError> {
    let request = Request::AwaitLink { name: name.to_owned() };
    let up = expect_reply!(host.connection, request, Reply::Done => ());
    named(host, up)
}

/// Puts the host in front of what it refused: several are asked the same.
fn named<T>(host: &Host, answer: Result<T, AgentError>) -> Result<T, LabError> {
    answer.map_err(|error| match error {
        AgentError::Refused(refusal) => LabError::CannotMeasure {
            what: format!("{}: {refusal}", host.name),
            hint: refusal.hint,
        },
        error => error.into(),
    })
}

/// Refuses a client whose CPUs are the system under test's, behind ssh or not.
fn apart(sut: &Host, client: &Host) -> Result<(), LabError> {
    let same = sut.hello.boot_id == client.hello.boot_id && !sut.hello.boot_id.is_empty();
    if same && sut.cpus.overlaps(&client.cpus) {
        return Err(LabError::Invalid {
            what: format!(
                "{} is this same machine, and its CPUs {} overlap with {} of the system under test",
                client.name, client.cpus, sut.cpus
            ),
            hint: "give each its own with sut-cpus and client-cpus".to_owned(),
        });
    }
    Ok(())
}

/// Refuses to move what would lose more than it gets back.
fn may_move(facts: &InterfaceFacts) -> Result<(), LabError> {
    let name = &facts.name;
    let refused = |what: String, hint: &str| {
        Err(LabError::Invalid {
            what: format!("{name} cannot be lent to a client: {what}"),
            hint: hint.to_owned(),
        })
    };
    if let Some(controller) = &facts.belongs_to {
        return refused(format!("it is part of {controller}"), "take it out first");
    }
    if !facts.carries.is_empty() {
        let what = format!("{} would go with it", facts.carries.join(", "));
        return refused(what, "remove them first, or choose another interface");
    }
    Ok(())
}

/// How a client and the system under test reach each other.
#[derive(Debug, PartialEq)]
struct Path {
    sut_address: Ipv4Addr,
    address: Ipv4Addr,
    /// The client's interface.
    interface: String,
}

/// Finds it, and sees that packets take it both ways.
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
                hint: format!("look at: ip route get {to}"),
            });
        }
    }
    Ok(path)
}

/// Chooses addresses of one network, or those that were named.
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
            hint: format!("name the one that {interface} reaches: \"{},ADDRESS\"", end.name()),
        }),
    }
}

/// Brings receive processing to each host's own CPUs, where it has not got the whole machine.
fn steer(
    sut: &mut Host,
    clients: &mut [Client],
    names: &[String],
    placement: &Placement,
    standing: &mut Standing,
) -> Result<ReceiveSteering, LabError> {
    if placement.is_shared() {
        return Ok(ReceiveSteering::NotNeeded);
    }
    let mut steering = ReceiveSteering::WholeMachines;
    for name in names {
        match steer_one(sut, name, standing)? {
            // the worst of several is what is told
            found if found > rank(&steering) => steering = found.into(),
            _ => {}
        }
    }
    for client in clients {
        let interface = client.interface.clone();
        if let Steering::Refused(reason) = steer_one(&mut client.host, &interface, standing)? {
            standing.warnings.push(format!(
                "receive processing of {} could not be steered to its CPUs: {reason}",
                client.host.name
            ));
        }
    }
    Ok(steering)
}

/// What became of one interface, the worse the further down.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Steering {
    NotNeeded,
    Interrupts,
    Queues,
    Refused(String),
}

fn rank(steering: &ReceiveSteering) -> Steering {
    match steering {
        ReceiveSteering::NotNeeded | ReceiveSteering::WholeMachines => Steering::NotNeeded,
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

fn steer_one(host: &mut Host, name: &str, standing: &mut Standing) -> Result<Steering, LabError> {
    if host.cpus == host.hello.online_cpus {
        return Ok(Steering::NotNeeded);
    }
    let request = Request::SteerInterface { name: name.to_owned(), cpus: host.cpus.clone() };
    let steered = expect_reply!(host.connection, request, Reply::Steered(steered) => steered);
    match steered {
        Ok(Steered { interrupts, stuck }) => {
            if !stuck.is_empty() {
                let numbers: Vec<String> = stuck.iter().map(u32::to_string).collect();
                standing.warnings.push(format!(
                    "{}: interrupts {} of {name} cannot be moved to CPUs {}: part of what it \
                     receives may be processed elsewhere",
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

/// What travels with results of such a testbed, as (name, value).
pub(crate) fn facts(testbed: &Testbed) -> Vec<(String, String)> {
    let Some(standing) = &testbed.standing else { return Vec::new() };
    let mut facts = Vec::new();
    for (number, port) in (1..).zip(&standing.sut) {
        let rate = port.rate.map_or_else(|| "none of its own".to_owned(), |rate| rate.to_string());
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
        let all = testbed.clients.iter().zip(&standing.clients);
        let mut values: Vec<String> = Vec::new();
        for value in all.map(|(client, facts)| pick(client, facts)) {
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
    fn a_client_is_met_in_the_interfaces_own_network() {
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
    fn what_does_not_meet_says_what_there_is() {
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
    fn an_interface_that_would_lose_more_than_it_gets_back_stays() {
        let facts = InterfaceFacts { name: "eth2".to_owned(), ..InterfaceFacts::default() };
        assert!(may_move(&facts).is_ok());
        let bridged = InterfaceFacts { belongs_to: Some("br0".to_owned()), ..facts.clone() };
        assert!(may_move(&bridged).unwrap_err().to_string().contains("part of br0"));
        let vlans = InterfaceFacts { carries: vec!["eth2.5".to_owned()], ..facts };
        assert!(may_move(&vlans).unwrap_err().to_string().contains("eth2.5 would go with it"));
    }

    #[test]
    fn the_worst_steering_is_told() {
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
