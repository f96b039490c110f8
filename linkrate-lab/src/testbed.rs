//! A testbed: hosts on their backend, joined, placed and ready to measure.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use linkrate_adapter::{CAPTURE_TIMEOUT, CaptureEnding};
use linkrate_model::measurement::IdleSource;
use linkrate_model::topology::{Segment, Topology};
use linkrate_model::{CpuMeter, Family, InterfaceKnobs, TestbedSpec};
use linkrate_sys::host::{Privilege, end_programs};
use linkrate_sys::sched::Ahead;

use crate::backend::{self, Adapters, Backend, Built, EffectiveKnobs};
use crate::error::LabError;
use crate::ipv6;
use crate::participants::{Participants, sut_interfaces};
use crate::peer::{Namespaces, PeerServer};
use crate::placement::Placement;

pub use crate::backend::ReceiveSteering;
pub use crate::host::{Client, Host};
pub use crate::options::LabOptions;

#[derive(Debug)]
pub struct Testbed {
    /// The backend; dropped before the hosts, whose interfaces it holds.
    pub backend: Backend,
    pub sut: Host,
    /// Its clients, in the order of the ports that lead to them.
    pub clients: Vec<Client>,
    /// Third-party programs in the place of clients; in the same order.
    pub(crate) programs: Vec<PeerServer>,
    pub placement: Placement,
    /// The source of the system under test's idle time.
    pub idle_source: IdleSource,
    pub receive_steering: ReceiveSteering,
    /// Ports and clients by segment.
    pub(crate) topology: Topology,
    /// The namespaces of the hosts; `None` where hosts keep those of the machine.
    namespaces: Option<Namespaces>,
    /// Whether the system under test's agent is ready to profile.
    pub(crate) can_profile: bool,
    /// Hosts stay in reach over IPv6, whatever is set.
    keeps_ipv6: Option<Ipv6>,
}

/// How hosts stay in reach over IPv6.
#[derive(Debug, Clone)]
struct Ipv6 {
    /// The congestion control of all programs.
    congestion: Option<String>,
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // all agents end at the same time, and restore what they hold
        self.sut.hang_up();
        self.clients.iter().for_each(|client| client.host.hang_up());
    }
}

impl Testbed {
    /// Builds the testbed of `spec`.
    pub fn build(
        spec: &TestbedSpec,
        placement: &Placement,
        options: &LabOptions,
    ) -> Result<Self, LabError> {
        Self::build_on(Topology::of(spec), spec, placement, options)
    }

    /// Builds the testbed of `spec` with another topology.
    pub fn build_on(
        topology: Topology,
        spec: &TestbedSpec,
        placement: &Placement,
        options: &LabOptions,
    ) -> Result<Self, LabError> {
        let built =
            Backend::build(spec, &topology, placement, options).map_err(LabError::of_the_host)?;
        Self::of(built, topology, spec, placement)
    }

    /// Traces what runs on the CPUs of the system under test from now on, as from the beginning, or not.
    pub fn trace(&mut self, meter: CpuMeter, traces: bool) -> Result<(), LabError> {
        self.sut.account(&self.placement.sut, meter, traces)?;
        Ok(())
    }

    /// The testbed of hosts on their backend.
    pub(crate) fn of(
        built: Built,
        topology: Topology,
        spec: &TestbedSpec,
        placement: &Placement,
    ) -> Result<Self, LabError> {
        let Built { backend, mut sut, mut clients, programs, namespaces, receive_steering } = built;
        let mut placement = placement.clone();
        if placement.apart {
            // on another machine they are known once it was asked
            placement.sut = sut.cpus.clone();
        }
        let idle_source = account(spec, &mut sut, &mut clients, &placement)?;
        if let (true, Some(client)) = (placement.apart, clients.first()) {
            placement.clients = client.host.cpus.clone();
        }
        Ok(Self {
            backend,
            sut,
            clients,
            programs,
            placement,
            idle_source,
            receive_steering,
            topology,
            namespaces,
            can_profile: false,
            keeps_ipv6: None,
        })
    }

    /// What isolation rests on; `None` where hosts keep the namespaces of the machine.
    pub fn privilege(&self) -> Option<Privilege> {
        self.namespaces.as_ref().map(Namespaces::privilege)
    }

    /// The interfaces of the system under test that lead to its first `clients` clients.
    pub fn sut_interfaces(&self, clients: usize) -> Vec<String> {
        sut_interfaces(
            &self.clients[..clients.min(self.clients.len())],
            &self.programs[..clients.min(self.programs.len())],
        )
    }

    /// How many clients of a run there are at most: hosts, or third-party programs.
    pub(crate) fn most_clients(&self) -> usize {
        self.clients.len().max(self.programs.len())
    }

    /// The backend, and the hosts of a run with the first `clients` clients.
    pub(crate) fn with_clients(&mut self, clients: usize) -> (&Backend, Participants<'_>) {
        let programs = &self.programs[..clients.min(self.programs.len())];
        let clients = clients.min(self.clients.len());
        let clients = &mut self.clients[..clients];
        (&self.backend, Participants { sut: &mut self.sut, clients, programs })
    }

    /// Sets knobs on one port of the system under test, and at the clients behind it those that go
    /// with them. Returns the knobs as read back.
    pub fn set_port_knobs(
        &mut self,
        interface: &str,
        asked: &InterfaceKnobs,
    ) -> Result<EffectiveKnobs, LabError> {
        let behind = |client: &Client| client.sut_interface == interface;
        let first = self.clients.iter().position(behind).unwrap_or(0);
        let count = self.clients[first..].iter().take_while(|client| behind(client)).count();
        let clients = &mut self.clients[first..first + count];
        let mut hosts = Participants { sut: &mut self.sut, clients, programs: &[] };
        let effective = self.backend.set_knobs(&mut hosts, asked)?;
        // below, the kernel has no IPv6 on the interface
        let is_large = asked.mtu.is_none_or(|mtu| mtu >= Family::Ipv6.smallest_mtu());
        if let Some(Ipv6 { congestion }) = self.keeps_ipv6.as_ref().filter(|_| is_large) {
            ipv6::reach(&self.backend, &mut self.sut, clients, congestion.as_deref())?;
        }
        Ok(effective)
    }

    /// Lets the system under test and its first `clients` clients reach each other over IPv6. The TCP sockets
    /// of all programs use `congestion`, if there is one. Fails where the backend or the kernel has no IPv6.
    pub fn reach_over_ipv6(
        &mut self,
        clients: usize,
        congestion: Option<&str>,
    ) -> Result<(), LabError> {
        let (backend, hosts) = (&self.backend, &mut self.clients);
        let clients = clients.min(hosts.len());
        ipv6::reach(backend, &mut self.sut, &mut hosts[..clients], congestion)
    }

    /// The same for all clients, also for those to come, whatever is set. Nothing where the backend or the
    /// kernel has no IPv6.
    pub(crate) fn keep_ipv6(&mut self, congestion: Option<String>) {
        let reached = self.reach_over_ipv6(usize::MAX, congestion.as_deref());
        self.keeps_ipv6 = reached.is_ok().then_some(Ipv6 { congestion });
    }

    /// Whether all hosts reach each other over IPv6.
    pub(crate) fn keeps_ipv6(&self) -> bool {
        self.keeps_ipv6.is_some()
    }

    /// Lets the datagrams of a port's interface follow the rate of its link.
    pub(crate) fn follow_link_rate(&mut self, interface: &str) -> Result<(), LabError> {
        match &mut self.backend {
            Backend::Adapters(adapters) => adapters.follow_link_rate(&mut self.sut, interface),
            Backend::Veth(_) | Backend::Existing(_) => Ok(()),
        }
    }

    /// Moves the connections of the SUT's flows to the TCP of its adapters, while traffic flows. Returns how
    /// many are there: 0 without a TCP offload engine. Fails when an agent or a device does not answer, or a connection
    /// was lost.
    pub fn offload_connections(&mut self) -> Result<usize, LabError> {
        match &self.backend {
            Backend::Adapters(adapters) => {
                let _ahead = Ahead::now();
                adapters.offload_all(&mut self.sut)
            }
            Backend::Veth(_) | Backend::Existing(_) => Ok(0),
        }
    }

    /// Moves the connections that are at the TCP of adapters back to the SUT, while traffic flows.
    /// Returns how many stay at the adapters.
    pub fn reclaim_connections(&mut self) -> Result<usize, LabError> {
        match &self.backend {
            Backend::Adapters(adapters) => {
                let _ahead = Ahead::now();
                adapters.reclaim_all(&mut self.sut)
            }
            Backend::Veth(_) | Backend::Existing(_) => Ok(0),
        }
    }

    /// Moves the connections of the SUT's flows as the knobs of their ports say, and as the state of these
    /// ports and of the connections makes it necessary. To be called again and again while traffic flows.
    pub fn tend_connections(&mut self) -> Result<(), LabError> {
        match &self.backend {
            Backend::Adapters(adapters) => {
                adapters.attend(&mut self.sut)?;
                adapters.tend()
            }
            Backend::Veth(_) | Backend::Existing(_) => Ok(()),
        }
    }

    /// Ends what is left of connections at the adapters, and begins their counts again.
    pub fn forget_connections(&mut self) -> Result<(), LabError> {
        self.backend.adapters().map_or(Ok(()), Adapters::forget_connections)
    }

    /// Adds a segment of virtual adapters, with its clients. Returns the clients' names. After an error the testbed is
    /// as before.
    pub(crate) fn add(
        &mut self,
        segment: Segment,
        options: &LabOptions,
    ) -> Result<Vec<String>, LabError> {
        let (Backend::Adapters(adapters), Some(namespaces)) =
            (&mut self.backend, &mut self.namespaces)
        else {
            return Err(LabError::Invalid {
                what: "ports can be added to virtual adapters only".to_owned(),
                hint: "linkrate lab up --adapter gigabit".to_owned(),
            });
        };
        let added = backend::add(
            adapters.as_mut(),
            std::slice::from_ref(&segment),
            namespaces,
            &mut self.sut,
            &self.placement,
            options,
        );
        match added {
            Ok((clients, _)) => {
                let names = clients.iter().map(|client| client.host.name.clone()).collect();
                self.clients.extend(clients);
                self.topology.add(segment);
                Ok(names)
            }
            Err(error) => {
                for port in &segment.ports {
                    adapters.remove(&port.interface);
                }
                Err(error)
            }
        }
    }

    /// Attaches the SUT's ports of a segment again, as `wanted` describes them, and gives both ends
    /// their addresses. Clients keep addresses that they had. Returns the captures that were on.
    pub(crate) fn regroup(
        &mut self,
        wanted: Segment,
        congestion: Option<&str>,
    ) -> Result<Vec<CaptureEnding>, LabError> {
        let Backend::Adapters(adapters) = &mut self.backend else { return Ok(Vec::new()) };
        let Some(before) =
            self.topology.segments.iter_mut().find(|segment| segment.number == wanted.number)
        else {
            return Ok(Vec::new());
        };
        let captures = adapters.regroup(&wanted, &mut self.sut)?;
        let had = std::mem::replace(before, wanted.clone());
        let ends = match &wanted.aggregate {
            Some(aggregate) => vec![aggregate.clone()],
            None => wanted.ports.iter().map(|port| port.interface.clone()).collect(),
        };
        for (index, interface) in ends.iter().enumerate() {
            self.sut.configure(interface, wanted.port_address(index), congestion, None)?;
        }
        let behind = |client: &&mut Client| had.has_interface(&client.sut_interface);
        for (index, client) in self.clients.iter_mut().filter(behind).enumerate() {
            let address = wanted.client_address(index);
            // the address of the first port's network is that of the aggregate's
            if wanted.aggregate.is_none() && address != client.address {
                client.host.configure(&client.interface, address, congestion, None)?;
            }
            client.address = address;
            client.sut_address = wanted.port_address(wanted.port_of(index));
            client.sut_interface = wanted.interface_of(index).to_owned();
        }
        for interface in &ends {
            self.sut.await_link(interface)?;
        }
        Ok(captures)
    }

    /// Adds a port to an aggregate, as `wanted` describes its segment.
    pub(crate) fn widen(&mut self, wanted: Segment) -> Result<(), LabError> {
        if let Backend::Adapters(adapters) = &mut self.backend {
            adapters.widen(&wanted)?;
            self.topology.replace(wanted);
        }
        Ok(())
    }

    /// Removes a port of an aggregate, as `wanted` describes its segment. Returns its capture.
    pub(crate) fn narrow(&mut self, wanted: Segment) -> Result<Option<CaptureEnding>, LabError> {
        let Backend::Adapters(adapters) = &mut self.backend else { return Ok(None) };
        let capture = adapters.narrow(&wanted)?;
        self.topology.replace(wanted);
        Ok(capture)
    }

    /// Removes the segment of virtual adapters with that port. Returns its clients and its captures,
    /// which take longer to end.
    pub(crate) fn remove(&mut self, interface: &str) -> Removed {
        let captures = match &mut self.backend {
            Backend::Adapters(adapters) => adapters.remove(interface),
            Backend::Veth(_) | Backend::Existing(_) => Vec::new(),
        };
        let mut clients = Vec::new();
        if let Some(gone) = self.topology.of_interface(interface) {
            let (behind, others) = std::mem::take(&mut self.clients)
                .into_iter()
                .partition(|client| gone.has_interface(&client.sut_interface));
            (clients, self.clients) = (behind, others);
        }
        self.topology.segments.retain(|segment| !segment.has_interface(interface));
        Removed { captures, clients }
    }
}

/// What is left of a segment that was removed.
#[derive(Debug)]
#[must_use = "its clients end when it is dropped"]
pub(crate) struct Removed {
    captures: Vec<CaptureEnding>,
    clients: Vec<Client>,
}

impl Removed {
    /// Ends the programs on its clients within `timeout`, its clients and its captures.
    pub(crate) fn finish(self, timeout: Duration) {
        let Self { captures, clients } = self;
        let hosts: Vec<u32> = clients.iter().map(|client| client.host.pid()).collect();
        end_programs(&hosts, timeout);
        clients.iter().for_each(|client| client.host.hang_up());
        drop(clients);
        let deadline = Instant::now() + CAPTURE_TIMEOUT;
        for capture in captures {
            capture.wait(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

/// Makes one agent of each machine account for the CPU time of its role there. Returns the source
/// of the system under test's idle time.
fn account(
    spec: &TestbedSpec,
    sut: &mut Host,
    clients: &mut [Client],
    placement: &Placement,
) -> Result<IdleSource, LabError> {
    let meter = spec.cpu_meter;
    let source = sut.account(&placement.sut, meter, true)?;
    let mut machines: BTreeSet<String> = BTreeSet::new();
    // on shared CPUs the SUT's agent accounts for both roles
    for client in clients.iter_mut().filter(|_| !placement.is_shared()) {
        if machines.insert(client.host.hello.boot_id.clone()) {
            let cpus = client.host.cpus.clone();
            // each trace costs the machine time
            let is_elsewhere = client.host.hello.boot_id != sut.hello.boot_id;
            client.host.account(&cpus, meter, is_elsewhere)?;
        }
    }
    Ok(source)
}
