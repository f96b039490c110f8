//! Permanent ATM connections of a segment: one between each two of its ends.
//!
//! Ends have numbers: the port of the system under test has 0, and its clients follow. On its own link
//! an end calls the connection to end `n` by VPI 0 and VCI `FIRST_VCI + n`. On a cable both ends must
//! have the same identifier.

use linkrate_adapter::{AtmAddress, AtmLimits, Connection, DeviceSpec, Segment};
use linkrate_terms::topology::{self, Fabric};

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
    DeviceSpec::Atm(AtmLimits { connections, station: Some((atm, address)), ..limits })
}

/// Makes the connections of a segment in its switch.
///
/// # Errors
/// The device thread has ended.
pub(super) fn make(joined: &Segment, segment: &topology::Segment) -> Result<(), LabError> {
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
    use linkrate_terms::spec::Adapter;
    use linkrate_terms::topology::Topology;
    use linkrate_terms::{TestbedSpec, model};

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
