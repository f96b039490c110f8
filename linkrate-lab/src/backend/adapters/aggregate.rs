//! The aggregate of a segment: its interface, its ports, and the group of the switch's ports that
//! they lead to.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use linkrate_adapter::{Aggregate, AggregateSpec, DriverThreads, MacAddress, ReorderingCount};
use linkrate_model::aggregate::AggregateReport;
use linkrate_model::topology::Gateways;
use linkrate_model::{AggregateKnobs, InterfaceKnobs, Model, Offload, topology};

use super::napi::Napi;
use super::{Adapters, Segment, address};
use crate::error::LabError;
use crate::host::Host;

/// The number of the group that leads to the system under test, at its switch.
pub(super) const GROUP: usize = 0;

/// Makes the aggregate of a segment, without ports yet.
pub(super) fn make(
    name: &str,
    model: &Model,
    ports: usize,
    sut: &mut Host,
    threads: &DriverThreads,
    napi: &mut Napi,
) -> Result<Arc<Aggregate>, LabError> {
    let address = address(0, 0);
    let spec = AggregateSpec {
        name: name.to_owned(),
        queues: napi.tap(sut, name, model, address)?,
        address,
        knobs: fresh(ports),
    };
    let aggregate = Aggregate::new(spec, threads)?;
    napi.place(name, &aggregate.driver_threads())?;
    napi.weigh(name, ports)?;
    Ok(Arc::new(aggregate))
}

/// The addresses of the interface of an aggregate, which have no VLAN in the host: the ports put their
/// own on.
pub(super) fn addresses(segment: &topology::Segment) -> BTreeSet<(IpAddr, u16)> {
    let clients = 0..segment.clients.len();
    let addresses = clients.flat_map(|client| {
        let address = segment.port_address(segment.port_of(client));
        [IpAddr::from(address), topology::ipv6_address(address).into()]
    });
    addresses.map(|address| (address, 0)).collect()
}

/// The settings of a new aggregate.
fn fresh(ports: usize) -> AggregateKnobs {
    AggregateKnobs { aggregate: ports as u32, ..AggregateKnobs::default() }
}

/// The knobs that the kernel is asked for at the interface of an aggregate. The adapters cut
/// superframes only if that was asked for: an aggregate switches TSO off by itself.
pub(super) fn of_the_kernel(asked: &InterfaceKnobs, kernel: InterfaceKnobs) -> InterfaceKnobs {
    let tso = asked.aggregate.aggregate_tso.unwrap_or_default();
    let fresh = if tso { Offload::Tso } else { Offload::Gso };
    InterfaceKnobs { offload: kernel.offload.or(Some(fresh)), ..kernel }
}

impl Segment {
    /// Sets the knobs of the aggregate, and of the group at the switch.
    pub(super) fn set_aggregate_knobs(
        &self,
        aggregate: &Aggregate,
        asked: &InterfaceKnobs,
    ) -> Result<(), LabError> {
        let knobs = asked.aggregate.over(&fresh(self.ports.len()));
        aggregate.set_knobs(knobs.clone())?;
        self.follow(&knobs)
    }

    /// Makes the group at the switch what the aggregate is.
    pub(super) fn follow(&self, knobs: &AggregateKnobs) -> Result<(), LabError> {
        let members = self.ports.iter().map(|port| &port.port);
        Ok(self.joined.set_group(GROUP, members, knobs.clone())?)
    }
}

impl Adapters {
    /// Waits until the ports of every aggregate carry traffic. An error has the ports that do not, with their reasons.
    pub fn await_ports(&self) -> Result<(), LabError> {
        let mut aggregates =
            self.segments().iter().filter_map(|segment| segment.aggregate.as_ref());
        aggregates.try_for_each(|aggregate| Ok(aggregate.await_ports()?))
    }

    /// Lets every failover group begin as if no port had ever failed, and waits as
    /// [`await_ports`](Self::await_ports) does.
    pub(crate) fn begin_anew(&self) -> Result<(), LabError> {
        let mut aggregates =
            self.segments().iter().filter_map(|segment| segment.aggregate.as_ref());
        aggregates.try_for_each(|aggregate| Ok(aggregate.begin_anew()?))
    }

    /// Counts frames that overtake others of their connection from now on, until the count is dropped;
    /// `None` unless a balancing in use reorders flows. Looking at every frame has a price.
    pub(crate) fn watch_reordering(&self) -> Option<ReorderingCount> {
        let aggregates = self.segments().iter().filter_map(|segment| segment.aggregate.as_ref());
        let mut knobs = aggregates.filter_map(|aggregate| aggregate.applied_knobs().ok());
        let reorders =
            knobs.any(|knobs| knobs.balance.reorders() || knobs.switch_balance.reorders());
        // a device thread that has ended is told after the measurement
        reorders.then(|| self.count_reordering().ok()).flatten()
    }

    /// The Ethernet addresses of the SUT and of the peer in the frames of client `client`'s flows;
    /// `None` unless an aggregate leads to it. Clients are counted through all segments.
    pub(crate) fn flow_macs(&self, client: usize) -> Option<(String, String)> {
        let mut number = client;
        for segment in self.segments() {
            let Some(beyond) = number.checked_sub(segment.clients.len()) else {
                let aggregate = segment.aggregate.as_ref()?;
                let peer = match segment.topology.gateways() {
                    Some(_) => MacAddress(Gateways::MACS[0]),
                    None => MacAddress(address(segment.topology.home, 1 + number as u8)),
                };
                return Some((aggregate.address().to_string(), peer.to_string()));
            };
            number = beyond;
        }
        None
    }

    /// The state of every aggregate.
    pub(crate) fn aggregate_reports(&self) -> Result<Vec<AggregateReport>, LabError> {
        let aggregates = self.segments().iter().filter_map(|segment| segment.aggregate.as_ref());
        aggregates.map(|aggregate| Ok(aggregate.report()?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use linkrate_model::spec::Adapter;
    use linkrate_model::topology::Topology;
    use linkrate_model::{TestbedSpec, model};

    use super::*;

    #[test]
    fn an_aggregate_has_an_address_of_both_versions() {
        let adapter = Adapter::Model(Box::new(model::find("gigabit").unwrap()));
        let testbed =
            TestbedSpec { adapter, aggregate: 2, clients_per_port: 2, ..TestbedSpec::default() };
        let of = |testbed: &TestbedSpec| {
            let topology = Topology::of(testbed);
            let addresses = addresses(&topology.segments[0]);
            addresses.iter().map(|(ip, _)| ip.to_string()).collect::<Vec<_>>()
        };
        for router in [false, true] {
            let testbed = TestbedSpec { router, ..testbed.clone() };
            assert_eq!(of(&testbed), ["198.18.0.1", "2001:2::c612:1"]);
        }
    }
}
