//! Traffic over IPv6 between the hosts that linkrate makes.
//!
//! Hosts reach each other over IPv4 from the beginning. IPv6 is set again for each run that asks for it,
//! and in labs that stay up after each setting of a port: the kernel forgets routes of IPv6 while the MTU
//! of their interface is below 1280.

use linkrate_model::model::LinkKind;
use linkrate_model::topology::{Gateways, ipv6_address};
use linkrate_protocol::{Ipv6Setup, Request};

use crate::backend::{Adapters, Backend};
use crate::error::LabError;
use crate::host::{Client, Host};

/// Lets the system under test and `clients` reach each other over IPv6. The TCP sockets of all programs use
/// `congestion`, if there is one. Fails where the backend or the kernel has no IPv6.
pub(crate) fn reach(
    backend: &Backend,
    sut: &mut Host,
    clients: &mut [Client],
    congestion: Option<&str>,
) -> Result<(), LabError> {
    if !carried(backend) {
        return Err(LabError::Invalid {
            what: "family ipv6 on this testbed".to_owned(),
            hint: "use family ipv4, or an Ethernet adapter that linkrate makes".to_owned(),
        });
    }
    let adapters = backend.adapters();
    clients.iter_mut().try_for_each(|client| join(sut, client, adapters, congestion))
}

/// Whether frames of IPv6 pass between the hosts: ATM fabrics know IPv4 alone.
fn carried(backend: &Backend) -> bool {
    match backend {
        Backend::Veth(_) => true,
        // third-party programs have addresses of their own, and agents have not
        Backend::Existing(existing) => !existing.programs.is_empty(),
        Backend::Adapters(adapters) => adapters.model().link == LinkKind::Ethernet,
    }
}

fn join(
    sut: &mut Host,
    client: &mut Client,
    adapters: Option<&Adapters>,
    congestion: Option<&str>,
) -> Result<(), LabError> {
    let [own, far] = [client.sut_address, client.address].map(ipv6_address);
    let segments = adapters.map(Adapters::segments).unwrap_or_default();
    let mut gateways = segments.iter().filter_map(|segment| segment.topology.gateways());
    let [peer_mac, own_mac] = match gateways.any(|gateways| gateways.leads_to(client.address)) {
        true => Gateways::MACS,
        false => [
            hardware_address(&mut client.host, &client.interface)?,
            hardware_address(sut, &client.sut_interface)?,
        ],
    };
    let setup = |name: &str, address, neighbour| Ipv6Setup {
        name: name.to_owned(),
        address,
        neighbours: vec![neighbour],
        route_congestion: congestion.map(str::to_owned),
    };
    let of_sut = setup(&client.sut_interface, own, (far, peer_mac));
    let of_client = setup(&client.interface, far, (own, own_mac));
    sut.order(&Request::ReachOverIpv6(of_sut.clone()))?;
    client.host.order(&Request::ReachOverIpv6(of_client))?;
    adapters.map_or(Ok(()), |adapters| adapters.reach_over_ipv6(sut, &of_sut))
}

fn hardware_address(host: &mut Host, interface: &str) -> Result<[u8; 6], LabError> {
    let address = host.describe(interface)?.hardware_address;
    address.ok_or_else(|| LabError::Invalid {
        what: format!("interface {interface} of {} has no Ethernet address", host.name),
        hint: "use family ipv4: the neighbours of IPv6 are set by their Ethernet addresses"
            .to_owned(),
    })
}
