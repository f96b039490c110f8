//! A testbed: hosts as agent processes in namespaces of their own, wired and placed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linkrate_agent::protocol::{
    Hello, InterfaceFacts, InterfaceSetup, PROTOCOL_VERSION, Reply, Request,
};
use linkrate_sys::error::SysResult;
use linkrate_sys::host::{HostProcess, Isolation, Life, Privilege, can_isolate, spawn_for};
use linkrate_terms::measurement::IdleSource;
use linkrate_terms::spec::Adapter;
use linkrate_terms::{CpuMeter, CpuSet, TestbedSpec};

use crate::LabError;
use crate::adapters::Adapters;
use crate::connection::{AgentError, Connection, expect_reply};
use crate::placement::Placement;
use crate::standing;

/// How a lab is built, apart from what the study asks.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// The linkrate program, whose `agent` command the hosts run.
    pub program: PathBuf,
    /// Set when the person asks to stop.
    pub stop: Arc<AtomicBool>,
    /// Congestion control of the routes, for foreign programs in the lab; runs leave it out
    /// because a route's choice overrides a socket's.
    pub route_congestion: Option<String>,
}

/// One host.
#[derive(Debug)]
pub struct Host {
    /// `sut`, `client 0`, ...
    pub name: String,
    /// The protocol to its agent.
    pub connection: Connection,
    /// Who the agent is.
    pub hello: Hello,
    /// CLOCK_MONOTONIC of the host less the controller's, ns.
    pub clock_offset_ns: i64,
    /// How long it takes to ask its agent something, ns.
    pub round_trip_ns: u64,
    /// The CPUs its threads run on.
    pub cpus: CpuSet,
    process: HostProcess,
}

impl Host {
    /// The host whose agent has said who it is; its clock is read.
    pub(crate) fn new(
        name: &str,
        connection: Connection,
        hello: Hello,
        process: HostProcess,
    ) -> Result<Self, AgentError> {
        let (name, cpus) = (name.to_owned(), hello.online_cpus.clone());
        let (clock_offset_ns, round_trip_ns) = (0, 0);
        let mut host =
            Self { name, connection, hello, clock_offset_ns, round_trip_ns, cpus, process };
        host.read_clock()?;
        Ok(host)
    }

    /// Binds it to its CPUs.
    pub(crate) fn place(&mut self, cpus: &CpuSet) -> Result<(), LabError> {
        let place = Request::Place { cpus: cpus.clone() };
        let placed = expect_reply!(self.connection, place, Reply::Placed { cpus } => cpus)?;
        if placed != *cpus {
            return Err(LabError::CannotMeasure {
                what: format!("{} was to run on CPUs {cpus} and runs on {placed}", self.name),
                hint: Some("choose CPUs with sut-cpus and client-cpus".to_owned()),
            });
        }
        self.cpus = placed;
        Ok(())
    }

    /// Reads its clock against the controller's.
    pub(crate) fn read_clock(&mut self) -> Result<(), AgentError> {
        (self.clock_offset_ns, self.round_trip_ns) = clock_offset(&mut self.connection)?;
        Ok(())
    }

    /// Its process id, which names its namespaces.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its network namespace.
    ///
    /// # Errors
    /// When the host has died.
    pub fn network_namespace(&self) -> io::Result<OwnedFd> {
        self.process.network_namespace()
    }

    /// A copy of one of its descriptors.
    ///
    /// # Errors
    /// When the host has died or has no such descriptor.
    pub fn take_descriptor(&self, descriptor: i32) -> SysResult<OwnedFd> {
        self.process.take_descriptor(descriptor)
    }

    /// The user namespace that owns it.
    ///
    /// # Errors
    /// When the host has died.
    pub fn user_namespace(&self) -> io::Result<OwnedFd> {
        self.process.user_namespace()
    }
}

/// A client with the wire that joins it to the system under test.
#[derive(Debug)]
pub struct Client {
    /// The host.
    pub host: Host,
    /// The wire's interface in the system under test.
    pub sut_interface: String,
    /// The wire's interface in the client.
    pub interface: String,
    /// The system under test as this client reaches it.
    pub sut_address: Ipv4Addr,
    /// The client.
    pub address: Ipv4Addr,
}

/// Hosts, wires and placement, up and ready.
#[derive(Debug)]
pub struct Testbed {
    /// Virtual adapters, unless the wires are veths. They end before the hosts whose interfaces
    /// they are.
    pub adapters: Option<Adapters>,
    /// The system under test.
    pub sut: Host,
    /// Its clients.
    pub clients: Vec<Client>,
    /// CPUs by role.
    pub placement: Placement,
    /// What isolation rests on; `None` where hosts stand as they are.
    pub privilege: Option<Privilege>,
    /// Where the system under test's idle time comes from.
    pub idle_source: IdleSource,
    /// Where receive processing runs.
    pub receive_steering: ReceiveSteering,
    /// What the interfaces are, if they were there before the testbed: those of the system under
    /// test in the order of ports, then those of the clients.
    pub standing: Option<Standing>,
    /// Whether the system under test's agent is ready to profile.
    pub(crate) can_profile: bool,
}

/// Interfaces that are not linkrate's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Those of the system under test, in the order of ports.
    pub sut: Vec<InterfaceFacts>,
    /// That of each client.
    pub clients: Vec<InterfaceFacts>,
    /// Sentences about what this testbed cannot tell.
    pub warnings: Vec<String>,
}

/// Where the packets an interface receives are processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiveSteering {
    /// RPS hands them to the CPUs of the host that receives them.
    Rps,
    /// Both roles share their CPUs; nothing to steer.
    NotNeeded,
    /// Each host has every CPU of its machine; nothing to steer.
    WholeMachines,
    /// The interrupts of adapters go to the CPUs of the host that receives.
    Interrupts,
    /// They stay on the CPU of the sender, for this reason.
    Unavailable(String),
}

/// Name of the interface of client `number`'s wire in the system under test.
pub(crate) fn sut_interface(number: u32) -> String {
    format!("eth{number}")
}

/// RFC 2544's benchmarking network 198.18.0.0/15, one /24 a wire; client `index` of the wire.
pub(crate) fn addresses(wire: u32, index: u32) -> (Ipv4Addr, Ipv4Addr) {
    let (second, third) = (18 + (wire / 256) as u8, (wire % 256) as u8);
    let client = 2 + index as u8;
    (Ipv4Addr::new(198, second, third, 1), Ipv4Addr::new(198, second, third, client))
}

impl Testbed {
    /// Builds what `spec` asks for.
    ///
    /// # Errors
    /// [`LabError::CannotMeasure`] with the remedy where the host lacks something.
    pub fn build(
        spec: &TestbedSpec,
        placement: &Placement,
        options: &LabOptions,
    ) -> Result<Self, LabError> {
        if let Adapter::Interfaces(on) = &spec.adapter {
            return standing::build(spec, on, placement, options);
        }
        let privilege = can_isolate().map_err(LabError::cannot_measure)?;
        let mut sut =
            start("sut", Life::WithItsParent, privilege.isolation(), &placement.sut, options)?;
        let user_namespace = match privilege {
            Privilege::Root => None,
            Privilege::UserNamespace => Some(sut.user_namespace()?),
        };
        let per_wire = match &spec.adapter {
            Adapter::Veth | Adapter::Interfaces(_) => 1,
            Adapter::Model(_) => spec.clients_per_port.max(1),
        };
        let mut clients = Vec::new();
        for number in 0..spec.clients.max(1) {
            let isolation = match &user_namespace {
                None => Isolation::Root,
                Some(shared) => Isolation::UserNamespace { join: Some(shared.as_fd()) },
            };
            let name = format!("client {number}");
            let host = start(&name, Life::WithItsParent, isolation, &placement.clients, options)?;
            let wire = number / per_wire;
            let (sut_address, address) = addresses(wire, number % per_wire);
            clients.push(Client {
                host,
                sut_interface: sut_interface(wire),
                interface: "eth0".to_owned(),
                sut_address,
                address,
            });
        }
        let adapters = match &spec.adapter {
            Adapter::Veth | Adapter::Interfaces(_) => {
                for client in &mut clients {
                    wire(&mut sut, client, spec.queues)?;
                }
                None
            }
            Adapter::Model(model) => {
                let mut adapters = Adapters::new(model.as_ref().clone().scaled(spec.scale));
                for clients in clients.chunks_mut(per_wire as usize) {
                    let name = clients[0].sut_interface.clone();
                    let mut hosts: Vec<_> = clients
                        .iter_mut()
                        .map(|client| (&mut client.host, client.interface.as_str()))
                        .collect();
                    adapters.add_port(&mut sut, &name, &mut hosts, placement)?;
                }
                Some(adapters)
            }
        };
        // a driver thread runs its host's receive processing itself, where it was put
        let mut receive_steering = match (placement.is_shared(), &adapters) {
            (true, _) | (_, Some(_)) => ReceiveSteering::NotNeeded,
            (false, None) => ReceiveSteering::Rps,
        };
        let mut configured = BTreeSet::new();
        for client in &mut clients {
            for (host, name, address, cpus) in [
                (&mut sut, &client.sut_interface, client.sut_address, &placement.sut),
                (&mut client.host, &client.interface, client.address, &placement.clients),
            ] {
                if !configured.insert((host.pid(), name.clone())) {
                    continue;
                }
                let steered = configure(
                    host,
                    name,
                    address,
                    (receive_steering == ReceiveSteering::Rps).then_some(cpus),
                    options.route_congestion.as_deref(),
                )?;
                if let Some(reason) = steered {
                    receive_steering = ReceiveSteering::Unavailable(reason);
                }
            }
        }
        for client in &mut clients {
            for (host, name) in
                [(&mut sut, &client.sut_interface), (&mut client.host, &client.interface)]
            {
                let request = Request::AwaitLink { name: name.clone() };
                expect_reply!(host.connection, request, Reply::Done => ())?;
            }
        }
        let idle_source = account(&mut sut, &placement.sut, spec.cpu_meter, false)?;
        // one client's agent accounts for the CPUs of all, unless they are the same
        if let (Some(client), false) = (clients.first_mut(), placement.is_shared()) {
            account(&mut client.host, &placement.clients, spec.cpu_meter, false)?;
        }
        let placement = placement.clone();
        Ok(Self {
            adapters,
            sut,
            clients,
            placement,
            privilege: Some(privilege),
            idle_source,
            receive_steering,
            standing: None,
            can_profile: false,
        })
    }

    /// The interfaces of the system under test that lead to its first `clients` clients.
    pub fn sut_interfaces(&self, clients: usize) -> Vec<String> {
        let mut names: Vec<String> =
            self.clients.iter().take(clients).map(|client| client.sut_interface.clone()).collect();
        names.dedup();
        names
    }
}

/// Starts an agent as a host, checks who it is and binds it to its CPUs.
pub(crate) fn start(
    name: &str,
    life: Life,
    isolation: Isolation<'_>,
    cpus: &CpuSet,
    options: &LabOptions,
) -> Result<Host, LabError> {
    let arguments = [OsStr::new("agent"), OsStr::new("--stdio")];
    let process = spawn_for(life, &options.program, &arguments, isolation)
        .map_err(LabError::cannot_measure)?;
    let (connection, hello) = converse(name, &process, options)?;
    let mut host = Host::new(name, connection, hello, process)?;
    host.place(cpus)?;
    Ok(host)
}

/// Asks the agent in `process` who it is.
pub(crate) fn converse(
    name: &str,
    process: &HostProcess,
    options: &LabOptions,
) -> Result<(Connection, Hello), AgentError> {
    let clone = || process.socket().try_clone().map(OwnedFd::from);
    let lost =
        |error: io::Error| AgentError::Lost { host: name.to_owned(), reason: error.to_string() };
    let (reader, writer) = (clone().map_err(lost)?, clone().map_err(lost)?);
    let mut connection =
        Connection::new(name.to_owned(), reader, writer, Arc::clone(&options.stop));
    let hello = Request::Hello { version: PROTOCOL_VERSION };
    let hello = expect_reply!(connection, hello, Reply::Hello(hello) => hello)?;
    Ok((connection, hello))
}

/// Makes a host account for the time of CPUs. Returns where it takes idle time from.
pub(crate) fn account(
    host: &mut Host,
    cpus: &CpuSet,
    meter: CpuMeter,
    softirqs: bool,
) -> Result<IdleSource, LabError> {
    let request = Request::Account { cpus: cpus.clone(), meter, softirqs };
    Ok(expect_reply!(host.connection, request, Reply::Accounts { source } => source)?)
}

/// How far the host's clock is ahead, from the exchange with the shortest round trip, and how long
/// that took, in ns. Hosts of one machine share a clock: an offset within the round trip's own
/// error is none.
pub(crate) fn clock_offset(connection: &mut Connection) -> Result<(i64, u64), AgentError> {
    let mut best: (u64, i64) = (u64::MAX, 0);
    for _ in 0..5 {
        let asked = linkrate_sys::clock::monotonic_ns();
        let there = expect_reply!(connection, Request::Clock, Reply::Clock { monotonic_ns } => monotonic_ns)?;
        let answered = linkrate_sys::clock::monotonic_ns();
        let round_trip = answered - asked;
        let here = asked + round_trip / 2;
        // clocks that are further apart than an i64 of nanoseconds, 292 years, are no clocks
        let distance = i64::try_from(there.abs_diff(here)).unwrap_or(i64::MAX);
        let offset = if there >= here { distance } else { -distance };
        if round_trip < best.0 {
            let within_error = offset.unsigned_abs() <= round_trip / 2 + 1;
            best = (round_trip, if within_error { 0 } else { offset });
        }
    }
    Ok((best.1, best.0))
}

/// Joins a client to the system under test.
fn wire(sut: &mut Host, client: &mut Client, queues: u32) -> Result<(), LabError> {
    let request = Request::CreateWire {
        name: client.sut_interface.clone(),
        peer_name: client.interface.clone(),
        peer_pid: client.host.pid(),
        queues: queues.max(1),
    };
    expect_reply!(sut.connection, request, Reply::Done => ())?;
    Ok(())
}

/// Configures one end of a wire. Returns why receive processing could not be steered, if so.
pub(crate) fn configure(
    host: &mut Host,
    name: &str,
    address: Ipv4Addr,
    receive_cpus: Option<&CpuSet>,
    route_congestion: Option<&str>,
) -> Result<Option<String>, LabError> {
    let setup = InterfaceSetup {
        name: name.to_owned(),
        address,
        prefix_length: 24,
        route_congestion: route_congestion.map(str::to_owned),
    };
    expect_reply!(host.connection, Request::ConfigureInterface(setup), Reply::Done => ())?;
    let Some(cpus) = receive_cpus else { return Ok(None) };
    let request = Request::SteerReceive { name: name.to_owned(), cpus: cpus.clone() };
    match host.connection.ask(&request) {
        Ok(Reply::Done) => Ok(None),
        Ok(_) => Err(host.connection.unexpected("steer-receive").into()),
        Err(AgentError::Refused(refusal)) => Ok(Some(refusal.reason)),
        Err(error) => Err(error.into()),
    }
}
