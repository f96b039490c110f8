//! Hosts and interfaces that linkrate makes: the steps that veth pairs and virtual adapters share
//! when a testbed is built, and when ports are added to it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use linkrate_model::CpuSet;
use linkrate_model::topology::{Segment, Topology};
use linkrate_protocol::Request;

use super::{Backend, Built, ReceiveSteering};
use crate::connection::AgentError;
use crate::error::LabError;
use crate::host::{Client, Host};
use crate::options::LabOptions;
use crate::peer::Namespaces;
use crate::placement::Placement;

/// The interface of a client in its namespace.
const CLIENT_INTERFACE: &str = "eth0";

/// A backend that makes the interfaces of a segment.
pub(crate) trait Join {
    /// Starts what the segments of the backend share. Nothing on most backends.
    fn prepare(
        &mut self,
        _namespaces: &mut Namespaces,
        _placement: &Placement,
        _options: &LabOptions,
    ) -> Result<(), LabError> {
        Ok(())
    }

    /// Joins a segment's clients to the SUT.
    fn join(
        &mut self,
        segment: &Segment,
        sut: &mut Host,
        clients: &mut [Client],
        placement: &Placement,
    ) -> Result<(), LabError>;

    /// Continues when the ends of segments have their addresses. Nothing on most backends.
    fn addressed(&self, _segments: &[Segment], _sut: &mut Host) -> Result<(), LabError> {
        Ok(())
    }

    /// Where received packets are to be processed.
    fn receive_steering(&self, placement: &Placement) -> ReceiveSteering;
}

/// Starts the hosts of `topology` and joins them on `made`. `backend` turns `made` into a [`Backend`].
pub(super) fn build<J: Join>(
    made: J,
    backend: fn(J) -> Backend,
    topology: &Topology,
    placement: &Placement,
    options: &LabOptions,
) -> Result<Built, LabError> {
    let mut namespaces = Namespaces::new()?;
    let mut sut = namespaces.start("sut", &placement.sut, options)?;
    // dropped before the host whose interfaces it holds
    let mut made = made;
    let (clients, receive_steering) =
        add(&mut made, &topology.segments, &mut namespaces, &mut sut, placement, options)?;
    let backend = backend(made);
    let programs = Vec::new();
    Ok(Built { backend, sut, clients, programs, namespaces: Some(namespaces), receive_steering })
}

/// Starts the clients of `segments`, joins them to the SUT, addresses both ends and waits until
/// packets pass. Each step is done for all segments before the next one begins: the links come up
/// together.
/// together. After an error some segments may be joined; the caller removes their interfaces.
pub(crate) fn add(
    made: &mut impl Join,
    segments: &[Segment],
    namespaces: &mut Namespaces,
    sut: &mut Host,
    placement: &Placement,
    options: &LabOptions,
) -> Result<(Vec<Client>, ReceiveSteering), LabError> {
    let mut clients = Vec::new();
    for segment in segments {
        for (index, number) in segment.clients.iter().enumerate() {
            let (name, port) = (format!("client {number}"), segment.port_of(index));
            clients.push(Client {
                host: namespaces.start(&name, &placement.clients, options)?,
                sut_interface: segment.interface_of(index).to_owned(),
                interface: CLIENT_INTERFACE.to_owned(),
                sut_address: segment.port_address(port),
                address: segment.client_address(index),
            });
        }
    }
    made.prepare(namespaces, placement, options)?;
    let mut rest = &mut clients[..];
    for segment in segments {
        let (own, others) = rest.split_at_mut(segment.clients.len());
        made.join(segment, sut, own, placement)?;
        rest = others;
    }
    let mut steering = made.receive_steering(placement);
    let route_congestion = options.route_congestion.as_deref();
    let mut configured = BTreeSet::new();
    let gateways = segments.iter().flat_map(|segment| {
        let both = segment.gateways().map(|gateways| gateways.addresses);
        segment.clients.iter().map(move |_| both.map_or([None; 2], |both| both.map(Some)))
    });
    for (client, [to_clients, to_sut]) in clients.iter_mut().zip(gateways) {
        for (host, interface, address, gateway, cpus) in [
            (&mut *sut, &client.sut_interface, client.sut_address, to_clients, &placement.sut),
            (&mut client.host, &client.interface, client.address, to_sut, &placement.clients),
        ] {
            if configured.insert((host.pid(), interface.clone())) {
                let steered = (steering == ReceiveSteering::Rps).then_some(cpus);
                let route = Route { congestion: route_congestion, gateway };
                let refused = configure(host, interface, address, route, steered)?;
                steering = refused.map_or(steering, ReceiveSteering::Unavailable);
            }
        }
    }
    made.addressed(segments, sut)?;
    for client in &mut clients {
        sut.await_link(&client.sut_interface)?;
        client.host.await_link(&client.interface)?;
    }
    Ok((clients, steering))
}

/// The routes of one end of a segment.
#[derive(Debug, Clone, Copy)]
struct Route<'a> {
    congestion: Option<&'a str>,
    gateway: Option<Ipv4Addr>,
}

/// Configures one end of a segment. Returns why receive processing could not be steered, if so.
fn configure(
    host: &mut Host,
    interface: &str,
    address: Ipv4Addr,
    route: Route<'_>,
    receive_cpus: Option<&CpuSet>,
) -> Result<Option<String>, LabError> {
    host.configure(interface, address, route.congestion, route.gateway)?;
    let Some(cpus) = receive_cpus else { return Ok(None) };
    let request = Request::SteerReceive { name: interface.to_owned(), cpus: cpus.clone() };
    match host.order(&request) {
        Ok(()) => Ok(None),
        Err(AgentError::Refused(refusal)) => Ok(Some(refusal.reason)),
        Err(error) => Err(error.into()),
    }
}
