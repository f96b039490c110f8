//! Permanent ATM connections of a segment: one between each two of its ends. With LAN Emulation, the ends
//! are clients of an emulated LAN instead, and with switched connections those of an ATMARP server: they make
//! their connections themselves.
//!
//! Ends have numbers: the port of the system under test has 0, and its clients follow. On its own link
//! an end calls the connection to end `n` by VPI 0 and VCI `FIRST_VCI + n`. On a cable both ends must
//! have the same identifier.

use linkrate_adapter::{
    AtmAddress, AtmLimits, Connection, DeviceSpec, ElanSpec, LaneStation, MacAddress, Segment,
};
use linkrate_model::topology::{self, Fabric};
use linkrate_model::{Model, model};

use crate::error::LabError;

/// The identifier of the connection to end 0. Those below 32 are reserved (ITU-T I.361).
const FIRST_VCI: u16 = 100;

/// The connection to end `other`, on the link of end `own`.
fn connection(fabric: Fabric, own: usize, other: usize) -> Connection {
    let number = if fabric == Fabric::Cable { own.min(other) } else { other };
    Connection { vpi: 0, vci: FIRST_VCI + number as u16 }
}

/// Ends of a segment.
fn ends(segment: &topology::Segment) -> usize {
    segment.ports.len() + segment.clients.len()
}

/// The device of end `own` of a segment, with its connections and its addresses. Devices that carry
/// frames stay as they are.
pub(super) fn of_end(device: &DeviceSpec, segment: &topology::Segment, own: usize) -> DeviceSpec {
    let DeviceSpec::Atm(limits) = device else { return device.clone() };
    let others = (0..ends(segment)).filter(|other| *other != own);
    let connections = others.map(|other| connection(segment.fabric, own, other)).collect();
    let ports = segment.ports.len();
    let address = match own.checked_sub(ports) {
        None => segment.port_address(own),
        Some(client) => segment.client_address(client),
    };
    let [a, b, c, d] = address.octets();
    let atm = AtmAddress::local(1 + segment.number as u16, [2, 0, a, b, c, d], 0);
    let limits = limits.clone();
    let station = Some((atm, address));
    match limits.lane {
        None if limits.switched => {
            DeviceSpec::Atm(AtmLimits { connections: Vec::new(), station, ..limits })
        }
        None => DeviceSpec::Atm(AtmLimits { connections, station, ..limits }),
        Some(lane) => {
            let first = segment.home;
            let (mac, port) = match own.checked_sub(ports) {
                None => (super::address(segment.ports[own].number, 0), own),
                Some(client) => (super::address(first, 1 + client as u8), segment.port_of(client)),
            };
            let (mac, elan) = (MacAddress(mac), elan_name(segment, port));
            let lane = LaneStation { atm, mac, elan, ..lane };
            DeviceSpec::Atm(AtmLimits { connections: Vec::new(), lane: Some(lane), ..limits })
        }
    }
}

/// The name of the emulated LAN of port `port` of a segment.
fn elan_name(segment: &topology::Segment, port: usize) -> String {
    segment.elans.get(port).cloned().unwrap_or_else(|| format!("elan-{}", segment.number))
}

/// The adapter of a client on Ethernet, behind a bridge. Its link is faster than that of each ATM model,
/// so that it is not the limit.
pub(super) fn bridged_model() -> Result<Model, LabError> {
    model::find("gigabit").map_err(|error| LabError::Io(std::io::Error::other(error.to_string())))
}

/// The client that bridges the Ethernet ports of a segment into its emulated LAN.
fn bridge(segment: &topology::Segment, lane: &LaneStation) -> LaneStation {
    let first = segment.ports.first().map_or(0, |port| port.number);
    // behind the last address of an end
    let mac = super::address(first, u8::MAX - 1);
    let atm = AtmAddress::local(1 + segment.number as u16, mac, 0);
    LaneStation { atm, mac: MacAddress(mac), elan: elan_name(segment, 0), ..lane.clone() }
}

/// Makes the connections of a segment in its switch, or the servers of its ends.
pub(super) fn make(
    joined: &mut Segment,
    segment: &topology::Segment,
    device: &DeviceSpec,
) -> Result<(), LabError> {
    if let DeviceSpec::Atm(AtmLimits { lane: Some(lane), link, .. }) = device {
        let elan = |port| ElanSpec { name: elan_name(segment, port), size: lane.size };
        joined.emulate((0..segment.elans.len().max(1)).map(elan).collect())?;
        if segment.bridged > 0 {
            joined.bridge(bridge(segment, lane), *link)?;
        }
        return Ok(());
    }
    if let DeviceSpec::Atm(AtmLimits { switched: true, .. }) = device {
        return Ok(joined.serve_addresses()?);
    }
    let fabric = segment.fabric;
    for other in 0..ends(segment) {
        for one in 0..other {
            let connection = |own, to| connection(fabric, own, to);
            joined.connect((one, connection(one, other)), (other, connection(other, one)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use linkrate_model::spec::Adapter;
    use linkrate_model::topology::Topology;
    use linkrate_model::{TestbedSpec, model};

    use super::*;

    fn connections(clients_per_port: u32) -> Vec<Vec<u16>> {
        let model = model::find("atm-155").unwrap();
        let spec = TestbedSpec {
            adapter: Adapter::Model(Box::new(model.clone())),
            clients: clients_per_port,
            clients_per_port,
            ..TestbedSpec::default()
        };
        let segment = Topology::of(&spec).segments.remove(0);
        let device = DeviceSpec::of(&model);
        (0..ends(&segment))
            .map(|end| {
                let DeviceSpec::Atm(limits) = of_end(&device, &segment, end) else { panic!() };
                limits.connections.iter().map(|connection| connection.vci).collect()
            })
            .collect()
    }

    #[test]
    fn each_two_ends_have_a_connection() {
        assert_eq!(connections(1), [[100], [100]]);
        assert_eq!(
            connections(3),
            [[101, 102, 103], [100, 102, 103], [100, 101, 103], [100, 101, 102]]
        );
    }

    #[test]
    fn ends_have_addresses_of_their_own() {
        let model = model::find("atm-155").unwrap();
        let spec = TestbedSpec {
            adapter: Adapter::Model(Box::new(model.clone())),
            clients: 4,
            clients_per_port: 2,
            ports: 2,
            ..TestbedSpec::default()
        };
        let mut found = std::collections::BTreeSet::new();
        for segment in &Topology::of(&spec).segments {
            for end in 0..ends(segment) {
                let DeviceSpec::Atm(limits) = of_end(&DeviceSpec::of(&model), segment, end) else {
                    panic!()
                };
                let (atm, ip) = limits.station.unwrap();
                assert!(found.insert((atm.to_string(), ip)), "{atm} {ip}");
            }
        }
        assert_eq!(found.len(), 6);
        assert_eq!(
            found.iter().map(|(atm, _)| atm).collect::<std::collections::BTreeSet<_>>().len(),
            6
        );
    }
}
